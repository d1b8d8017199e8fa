/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_cm.c - connecting, accepting, rejecting, closing, by rdma_cm
 *
 * Operation.  A connecting endpoint resolves address and route, makes its queue
 * pair, posts the Receives that it was given meanwhile and connects; an
 * accepting one makes its queue pair and posts before it accepts.  The end has
 * one way, whoever begins it: verbs_ep_end() notes the first reason and
 * disconnects, which moves the queue pair to its error state; its completions
 * are polled; when all are done, or past a deadline, windows are renewed, the
 * queue pair goes, closed() runs.
 *
 * A Send that finds no Receive ends the connection: the count of retries for a
 * receiver that is not ready is 0.
 *
 * Private data.  On InfiniBand and RoCE ours begin with
 *
 *	0	size of the caller's part
 *	1	3 bytes of 0
 *	4	rkey of the probe	little-endian; 0: none
 *	8	its address		little-endian
 *
 * Links that are down.  rxe (Linux 6.1) puts the queue pair of the device's own
 * messages into an error state, for good, when one of them finds no link: nobody
 * connects by that device any more, in neither direction, until it is made anew
 * (rxe_qp_error() stops its receiving half, which ib_mad does not start again).
 * So while its port is not active nothing is said there: nobody connects, and
 * what has ended is kept as "mute" until the peer can be told.
 *
 * Keep-alive.  A peer that vanishes is noticed there only by who sends.  When
 * nothing was heard for half of keepalive_ms, a byte of the peer's probe is read;
 * its transport answers, or ours gives up.  iWARP devices use TCP, whose own
 * time-outs are not ours to set.
 */
#include "verbs_impl.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>

enum {
	RETRY_COUNT = 6,	/* then the peer is gone; rxe takes 7 for ever */
	RNR_RETRY_COUNT = 0,
	REJECTED_BY_CONSUMER = 28,	/* InfiniBand's reason, CM chapter */
	ACK_TIMEOUT_UNIT_NS = 4096,	/* times a power of two */
	ACK_TIMEOUT_MAX = 31,
	MUTE_CHECK_MS = 200,
	PORT_TRIES = 8,
};

static struct verbs_poller *poller_of(const struct verbs_ep *ep)
{
	return rf_container_of(ep->base.poller, struct verbs_poller, base);
}

static struct verbs_fabric *fabric_of(const struct verbs_ep *ep)
{
	return verbs_fabric_of(ep->base.poller->fab);
}

static void set_deadline(struct verbs_ep *ep, uint64_t *deadline_ns,
			 uint64_t value)
{
	struct verbs_poller *poller = poller_of(ep);

	*deadline_ns = value;
	if (value && value < poller->nearest_ns)
		poller->nearest_ns = value;
}

static uint64_t from_now(uint32_t ms)
{
	return rf_now_ns() + (uint64_t)ms * 1000000;
}

/* ---- private data -------------------------------------------------------- */

/* pd is whose probe the peer may read; NULL: none. */
static void put_private(const struct verbs_fabric *fabric,
			const struct rf_pd *pd, const void *hello, size_t size,
			uint8_t *out, struct rdma_conn_param *param)
{
	size_t prefix = fabric->has_prefix ? VERBS_PREFIX_SIZE : 0;

	memset(out, 0, prefix);
	if (prefix)
		out[0] = (uint8_t)size;
	if (prefix && pd) {
		const struct verbs_pd *vpd =
			rf_container_of(pd, const struct verbs_pd, base);
		uint32_t rkey = htole32(vpd->probe_mr->rkey);
		uint64_t addr = htole64((uintptr_t)vpd->probe);

		memcpy(out + 4, &rkey, sizeof(rkey));
		memcpy(out + 8, &addr, sizeof(addr));
	}
	if (size)
		memcpy(out + prefix, hello, size);
	param->private_data = out;
	param->private_data_len = (uint8_t)(prefix + size);
}

/* What the peer's program said, or NULL; it may be nobody of ours. */
static const void *get_private(const struct verbs_fabric *fabric,
			       const struct rdma_conn_param *param,
			       size_t *size)
{
	const uint8_t *data = param->private_data;
	size_t all = data ? param->private_data_len : 0;
	size_t prefix = fabric->has_prefix ? VERBS_PREFIX_SIZE : 0;

	*size = 0;
	if (all == 0 || all < prefix)
		return NULL;
	*size = all - prefix;
	if (prefix && data[0] < *size)
		*size = data[0];
	return data + prefix;
}

static void get_probe(const struct verbs_fabric *fabric,
		      const struct rdma_conn_param *param, uint32_t *rkey,
		      uint64_t *addr)
{
	const uint8_t *data = param->private_data;

	*rkey = 0;
	*addr = 0;
	if (!fabric->has_prefix || !data ||
	    param->private_data_len < VERBS_PREFIX_SIZE)
		return;
	memcpy(rkey, data + 4, sizeof(*rkey));
	memcpy(addr, data + 8, sizeof(*addr));
	*rkey = le32toh(*rkey);
	*addr = le64toh(*addr);
}

/* ---- an endpoint's life -------------------------------------------------- */

static struct verbs_ep *new_ep(struct rf_poller *poller,
			       const struct rf_ep_config *config,
			       const struct rf_ep_events *events, void *context)
{
	struct verbs_ep *ep = calloc(1, sizeof(*ep));

	if (!ep)
		return NULL;
	ep->base.poller = poller;
	ep->base.pd = config->pd;
	ep->base.config = *config;
	ep->base.events = *events;
	ep->base.context = context;
	ep->base.limits = poller->fab->limits;
	rf_list_init(&ep->link);
	rf_list_init(&ep->ready_link);
	rf_list_init(&ep->ending_link);
	rf_list_init(&ep->bound);
	if (verbs_rings_init(ep)) {
		free(ep->works);
		free(ep->recvs);
		free(ep);
		return NULL;
	}
	rf_list_push(&poller_of(ep)->eps, &ep->link);
	return ep;
}

/*
 * True if the device would come to harm by a message to the peer.  The state of
 * the port may change a moment after the route was lost.
 */
static bool must_be_mute(const struct verbs_ep *ep)
{
	return fabric_of(ep)->is_rxe && ep->id && ep->id->verbs &&
	       !rf_fabric_is_gone(&fabric_of(ep)->base) &&
	       (ep->has_lost_way || verbs_path_is_down(ep));
}

/* Its queue pair is gone; without an id, nothing is left to be told. */
static void release_mute(struct verbs_ep *ep)
{
	rf_list_remove(&ep->link);
	if (ep->id)
		rdma_destroy_id(ep->id);
	free(ep);
}

static void free_ep(struct verbs_ep *ep)
{
	struct verbs_poller *poller = poller_of(ep);

	rf_list_remove(&ep->link);
	rf_list_remove(&ep->ready_link);
	rf_list_remove(&ep->ending_link);
	verbs_queue_fini(ep);
	free(ep->works);
	free(ep->recvs);
	if (!must_be_mute(ep)) {
		release_mute(ep);
		return;
	}
	ep->state = VERBS_ENDING;
	rf_list_push(&poller->mute, &ep->link);
	set_deadline(ep, &poller->mute_check_ns, from_now(MUTE_CHECK_MS));
}

void verbs_cm_fini(struct verbs_poller *poller)
{
	struct rf_list *item;

	while ((item = rf_list_pop(&poller->mute)))
		release_mute(rf_container_of(item, struct verbs_ep, link));
}

/* All are of one device, and rxe's have one port. */
static void check_mute(struct verbs_poller *poller, uint64_t now_ns)
{
	const struct verbs_ep *first;

	if (rf_list_is_empty(&poller->mute))
		return;
	first = rf_container_of(poller->mute.next, const struct verbs_ep, link);
	if (now_ns >= poller->mute_check_ns) {
		if (!verbs_path_is_down(first)) {
			verbs_cm_fini(poller);
			return;
		}
		poller->mute_check_ns = from_now(MUTE_CHECK_MS);
	}
	poller->nearest_ns = rf_min_u64(poller->nearest_ns,
					poller->mute_check_ns);
}

void verbs_ep_end(struct verbs_ep *ep, int reason)
{
	if (ep->state == VERBS_ENDING) {
		if (ep->is_reason_weak && (!ep->reason || reason != -ECONNRESET))
			ep->reason = reason;
		return;
	}
	verbs_dial_stop(ep);
	ep->reason = reason;
	ep->base.is_closing = true;
	ep->setup_deadline_ns = 0;
	ep->probe_deadline_ns = 0;
	set_deadline(ep, &ep->flush_deadline_ns,
		     from_now(fabric_of(ep)->is_siw ? 0 : VERBS_FLUSH_MS));
	if (ep->state == VERBS_CONNECTED && !ep->was_disconnected &&
	    !must_be_mute(ep))
		rdma_disconnect(ep->id);
	ep->state = VERBS_ENDING;
	if (ep->id && ep->id->qp) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

		/* Harmless if it is there already; some ends leave it alive. */
		ibv_modify_qp(ep->id->qp, &attr, IBV_QP_STATE);
		verbs_poller_wants(poller_of(ep), ep);
	}
	rf_list_push(&poller_of(ep)->ending, &ep->ending_link);
}

void verbs_ep_is_over(struct verbs_ep *ep, int reason)
{
	bool is_news = ep->state != VERBS_ENDING;

	verbs_ep_end(ep, reason);
	ep->is_reason_weak |= is_news;
}

/*
 * True when nothing is left that the device could still touch: all is completed,
 * or there is no queue pair, or the deadline made an end of it.  siw flushes all
 * that it ever will before it returns from the change to the error state: what
 * one look at the queue after that does not show never comes.
 */
bool verbs_ep_is_quiet(const struct verbs_ep *ep)
{
	if (!ep->id || !ep->id->qp || verbs_queue_is_idle(ep))
		return true;
	return ep->flush_deadline_ns && rf_list_is_empty(&ep->ready_link) &&
	       rf_now_ns() >= ep->flush_deadline_ns;
}

bool verbs_ep_finish(struct verbs_ep *ep)
{
	void (*closed)(struct rf_ep *, int) = ep->base.events.closed;

	if (!verbs_ep_is_quiet(ep))
		return false;
	verbs_free_windows_of(fabric_of(ep), ep);
	verbs_queue_fini(ep);
	verbs_flush_rest(ep);
	VERBS_COUNT(fabric_of(ep), closes, ep->is_reported);
	closed(&ep->base, ep->reason);
	free_ep(ep);
	return true;
}

/* ---- deadlines ----------------------------------------------------------- */

static uint64_t half_keepalive_ns(const struct verbs_ep *ep)
{
	return (uint64_t)ep->base.config.keepalive_ms * 1000000 / 2;
}

/* Lost packets are sent again until about half of keepalive_ms is over. */
static void choose_ack_timeout(struct verbs_ep *ep)
{
	uint64_t each = half_keepalive_ns(ep) / (RETRY_COUNT + 1);
	uint8_t exponent = 1;

	if (fabric_of(ep)->is_iwarp || !ep->base.config.keepalive_ms)
		return;
	while (exponent < ACK_TIMEOUT_MAX &&
	       ((uint64_t)ACK_TIMEOUT_UNIT_NS << (exponent + 1)) <= each)
		exponent++;
	/* An older rdma_cm has its own: then the end is found later. */
	rdma_set_option(ep->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
			&exponent, sizeof(exponent));
}

static void start_probing(struct verbs_ep *ep)
{
	if (!ep->base.config.keepalive_ms || !ep->probe_rkey ||
	    ep->base.limits.reads_max == 0)
		return;
	ep->heard_ns = rf_now_ns();
	set_deadline(ep, &ep->probe_deadline_ns,
		     ep->heard_ns + half_keepalive_ns(ep));
}

static void maybe_probe(struct verbs_ep *ep, uint64_t now_ns)
{
	uint64_t due_ns = ep->heard_ns + half_keepalive_ns(ep);

	/* Also behind other work: what has no notice may be done for long. */
	if (now_ns >= due_ns) {
		due_ns = now_ns + half_keepalive_ns(ep);
		if (ep->may_send && !ep->is_probing)
			verbs_post_probe(ep);
	}
	if (ep->state == VERBS_CONNECTED)
		set_deadline(ep, &ep->probe_deadline_ns, due_ns);
}

void verbs_ep_deadlines(struct verbs_poller *poller)
{
	uint64_t now_ns = poller->now_ns;
	struct rf_list *pos;

	poller->nearest_ns = UINT64_MAX;
	rf_list_for_each(pos, &poller->eps) {
		struct verbs_ep *ep =
			rf_container_of(pos, struct verbs_ep, link);

		if (ep->setup_deadline_ns && now_ns >= ep->setup_deadline_ns)
			verbs_ep_end(ep, -ETIMEDOUT);
		if (ep->probe_deadline_ns && now_ns >= ep->probe_deadline_ns)
			maybe_probe(ep, now_ns);
		/* Each lowers the nearest to itself. */
		set_deadline(ep, &ep->setup_deadline_ns, ep->setup_deadline_ns);
		set_deadline(ep, &ep->probe_deadline_ns, ep->probe_deadline_ns);
		set_deadline(ep, &ep->flush_deadline_ns, ep->flush_deadline_ns);
	}
	check_mute(poller, now_ns);
}

/* ---- connecting ---------------------------------------------------------- */

int verbs_ep_connect(struct rf_poller *poller, const struct sockaddr *addr,
		     socklen_t addr_size, const void *hello, size_t hello_size,
		     const struct rf_ep_config *config,
		     const struct rf_ep_events *events, void *context,
		     struct rf_ep **out)
{
	struct verbs_ep *ep;
	int err;

	if (addr_size > sizeof(ep->peer))
		return -EINVAL;
	ep = new_ep(poller, config, events, context);
	if (!ep)
		return -ENOMEM;
	memcpy(&ep->peer, addr, addr_size);
	ep->source = poller->fab->tuning.source;
	ep->may_send = true;
	if (hello_size)
		memcpy(ep->hello, hello, hello_size);
	ep->hello_size = hello_size;
	ep->state = VERBS_RESOLVING_ADDR;
	err = verbs_path_begin(ep);
	if (err) {
		free_ep(ep);
		return err;
	}
	set_deadline(ep, &ep->setup_deadline_ns, from_now(config->setup_ms));
	*out = &ep->base;
	return 0;
}

static uint8_t least(uint16_t a, uint16_t b)
{
	uint16_t value = a < b ? a : b;

	return (uint8_t)(value < UINT8_MAX ? value : UINT8_MAX);
}

static void fill_param(const struct verbs_ep *ep, struct rdma_conn_param *param)
{
	const struct rf_ep_config *config = &ep->base.config;

	/* Depth as initiator (ORD), as responder (IRD). */
	param->initiator_depth = least(config->reads_out,
				       ep->base.limits.reads_max);
	param->responder_resources = least(config->reads_in,
					   ep->base.limits.reads_max);
	param->retry_count = RETRY_COUNT;
	param->rnr_retry_count = RNR_RETRY_COUNT;
}

static int begin_connect(struct verbs_ep *ep)
{
	uint8_t data[VERBS_IWARP_PRIVATE_MAX + VERBS_PREFIX_SIZE];
	struct rdma_conn_param param = { 0 };
	int err;

	err = verbs_queue_init(ep);
	if (!err)
		err = verbs_give_recvs(ep);
	if (err)
		return err;
	choose_ack_timeout(ep);
	fill_param(ep, &param);
	put_private(fabric_of(ep), ep->base.pd, ep->hello, ep->hello_size, data,
		    &param);
	ep->state = VERBS_CONNECTING;
	if (fabric_of(ep)->is_siw)
		return verbs_dial_start(ep, &param);
	return rdma_connect(ep->id, &param) ? -errno : 0;
}

static unsigned int route_resolved(struct verbs_ep *ep)
{
	int err = begin_connect(ep);

	if (err)
		verbs_ep_end(ep, err);
	return 0;
}

static unsigned int addr_resolved(struct verbs_ep *ep)
{
	int err = verbs_path_resolved(ep);

	if (err <= 0) {
		if (err)
			verbs_ep_end(ep, err);
		return 0;
	}
	ep->state = VERBS_RESOLVING_ROUTE;
	if (rdma_resolve_route(ep->id, (int)ep->base.config.setup_ms))
		verbs_ep_end(ep, -errno);
	return 0;
}

/* How many of our Reads the peer serves; siw says it in the other field. */
static uint16_t served_reads(const struct verbs_fabric *fabric,
			     const struct rdma_conn_param *param)
{
	return fabric->is_siw ? param->responder_resources
			      : param->initiator_depth;
}

static unsigned int established(struct verbs_ep *ep,
				const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *param = &event->param.conn;
	const void *hello = ep->hello;
	size_t size = ep->hello_size;
	int err;

	if (ep->state != VERBS_CONNECTING && ep->state != VERBS_ACCEPTING)
		return 0;
	verbs_dial_finish(ep);
	if (ep->state == VERBS_CONNECTING) {
		hello = get_private(fabric_of(ep), param, &size);
		get_probe(fabric_of(ep), param, &ep->probe_rkey,
			  &ep->probe_addr);
		ep->base.limits.reads_max =
			least(least(ep->base.config.reads_out,
				    ep->base.limits.reads_max),
			      served_reads(fabric_of(ep), param));
		VERBS_COUNT(fabric_of(ep), connects, 1);
	} else {
		VERBS_COUNT(fabric_of(ep), accepts, 1);
	}
	ep->setup_deadline_ns = 0;
	ep->state = VERBS_CONNECTED;
	err = verbs_path_check(ep);
	if (err) {
		verbs_ep_end(ep, err);
		return 0;
	}
	start_probing(ep);
	ep->base.is_connected = true;
	ep->is_reported = true;
	ep->base.events.connected(&ep->base, hello, size);
	err = verbs_give_works(ep);
	if (err)
		verbs_ep_end(ep, err);
	verbs_poller_wants(poller_of(ep), ep);
	return 1;
}

static unsigned int rejected(struct verbs_ep *ep,
			     const struct rdma_cm_event *event)
{
	size_t size;
	const void *hello =
		get_private(fabric_of(ep), &event->param.conn, &size);
	unsigned int count = 0;

	/* A program's reject has data; where nobody listens there are none. */
	if (hello && ep->state == VERBS_CONNECTING && ep->base.events.rejected &&
	    (fabric_of(ep)->is_iwarp ||
	     event->status == REJECTED_BY_CONSUMER)) {
		ep->base.events.rejected(&ep->base, hello, size);
		count = 1;
	}
	verbs_ep_end(ep, -ECONNREFUSED);
	return count;
}

/* ---- listening and accepting --------------------------------------------- */

static int listen_at(struct verbs_poller *vp, struct verbs_listener *listener,
		     struct sockaddr_storage at)
{
	int err = rdma_create_id(vp->cm, &listener->id, listener, RDMA_PS_TCP) ?
			-errno : 0;

	if (!err)
		err = verbs_path_listen(verbs_fabric_of(vp->base.fab),
					listener->id, &at);
	if (!err && (rdma_bind_addr(listener->id, (struct sockaddr *)&at) ||
		     rdma_listen(listener->id, VERBS_BACKLOG)))
		err = -errno;
	if (err && listener->id)
		rdma_destroy_id(listener->id);
	if (err)
		listener->id = NULL;
	return err;
}

static bool has_port(const struct sockaddr_storage *at)
{
	return at->ss_family == AF_INET6 ?
		((const struct sockaddr_in6 *)(const void *)at)->sin6_port != 0 :
		((const struct sockaddr_in *)(const void *)at)->sin_port != 0;
}

int verbs_listener_open(struct rf_poller *poller, const struct sockaddr *addr,
			socklen_t addr_size, rf_request_fn on_request,
			void *context, struct rf_listener **out)
{
	struct verbs_poller *vp =
		rf_container_of(poller, struct verbs_poller, base);
	struct verbs_listener *listener = calloc(1, sizeof(*listener));
	struct sockaddr_storage at = { 0 };
	unsigned int tries = PORT_TRIES;
	int err;

	if (!listener)
		return -ENOMEM;
	if (addr_size > sizeof(at)) {
		free(listener);
		return -EINVAL;
	}
	memcpy(&at, addr, addr_size);
	listener->base.poller = poller;
	listener->on_request = on_request;
	listener->context = context;
	rf_list_init(&listener->incomings);
	/* A port that rdma_cm chooses may be one of TCP's, which siw needs too. */
	do
		err = listen_at(vp, listener, at);
	while (err == -EADDRINUSE && !has_port(&at) && --tries > 0);
	if (err) {
		free(listener);
		return err;
	}
	rf_list_push(&vp->listeners, &listener->link);
	*out = &listener->base;
	return 0;
}

int verbs_listener_address(const struct rf_listener *listener,
			   struct sockaddr_storage *out)
{
	struct rdma_cm_id *id =
		rf_container_of(listener, const struct verbs_listener,
				base)->id;

	*out = *(struct sockaddr_storage *)(void *)rdma_get_local_addr(id);
	return 0;
}

static void drop_incoming(struct verbs_incoming *incoming)
{
	rf_list_remove(&incoming->link);
	rdma_reject(incoming->id, NULL, 0);
	rdma_destroy_id(incoming->id);
	free(incoming);
}

/* The id goes after the run: events of it may be in the channel. */
void verbs_listener_close(struct rf_listener *listener)
{
	struct verbs_listener *vl =
		rf_container_of(listener, struct verbs_listener, base);
	struct verbs_poller *vp =
		rf_container_of(listener->poller, struct verbs_poller, base);

	while (!rf_list_is_empty(&vl->incomings))
		drop_incoming(rf_container_of(vl->incomings.next,
					      struct verbs_incoming, link));
	vl->is_closed = true;
	vp->has_closed_listeners = true;
	if (!listener->poller->is_running)
		verbs_listener_free(vl);
}

void verbs_listener_free(struct verbs_listener *listener)
{
	rf_list_remove(&listener->link);
	/* Drops the requests that were not fetched yet. */
	rdma_destroy_id(listener->id);
	free(listener);
}

static unsigned int connect_request(const struct rdma_cm_event *event)
{
	struct verbs_listener *listener = event->listen_id->context;
	struct verbs_fabric *fabric =
		verbs_fabric_of(listener->base.poller->fab);
	struct verbs_incoming *incoming = NULL;
	const void *hello;
	size_t size;

	/* A wildcard listener hears all devices; others have their own. */
	if (!listener->is_closed &&
	    event->id->verbs->device == fabric->context->device)
		incoming = calloc(1, sizeof(*incoming));
	if (!incoming) {
		rdma_reject(event->id, NULL, 0);
		rdma_destroy_id(event->id);
		return 0;
	}
	incoming->base.listener = &listener->base;
	incoming->id = event->id;
	event->id->context = NULL;
	/* Said from our side: rdma_get_cm_event(3). */
	incoming->peer_reads_in = event->param.conn.initiator_depth;
	incoming->peer_reads_out = event->param.conn.responder_resources;
	get_probe(fabric, &event->param.conn, &incoming->probe_rkey,
		  &incoming->probe_addr);
	rf_list_push(&listener->incomings, &incoming->link);
	hello = get_private(fabric, &event->param.conn, &size);
	if (size)
		memcpy(incoming->hello, hello, size);
	incoming->hello_size = size;
	listener->on_request(listener->context, &incoming->base, hello, size);
	return 1;
}

int verbs_incoming_peer(const struct rf_incoming *incoming,
			struct sockaddr_storage *out)
{
	struct rdma_cm_id *id =
		rf_container_of(incoming, const struct verbs_incoming, base)->id;

	*out = *(struct sockaddr_storage *)(void *)rdma_get_peer_addr(id);
	return 0;
}

static int begin_accept(struct verbs_ep *ep, struct verbs_incoming *incoming,
			const void *hello, size_t hello_size,
			const struct rf_recv *recvs, unsigned int recv_count)
{
	uint8_t data[VERBS_IWARP_PRIVATE_MAX + VERBS_PREFIX_SIZE];
	struct rdma_conn_param param = { 0 };
	int err = verbs_queue_init(ep);

	if (err == -ENOMEM)
		return err;
	for (unsigned int i = 0; i < recv_count; i++)
		RF_ASSERT(verbs_put_recv(ep, &recvs[i]) == 0);
	if (!err)
		err = verbs_give_recvs(ep);
	/* Some devices find out here that the peer has gone, some when it is
	 * accepted, others later. */
	if (err) {
		verbs_ep_end(ep, -ECONNRESET);
		return 0;
	}
	choose_ack_timeout(ep);
	ep->probe_rkey = incoming->probe_rkey;
	ep->probe_addr = incoming->probe_addr;
	memcpy(ep->hello, incoming->hello, incoming->hello_size);
	ep->hello_size = incoming->hello_size;
	fill_param(ep, &param);
	param.initiator_depth = least(param.initiator_depth,
				      incoming->peer_reads_in);
	param.responder_resources = least(param.responder_resources,
					  incoming->peer_reads_out);
	ep->base.limits.reads_max = param.initiator_depth;
	put_private(fabric_of(ep), ep->base.pd, hello, hello_size, data, &param);
	if (rdma_accept(ep->id, &param))
		verbs_ep_end(ep, -errno);
	return 0;
}

int verbs_ep_accept(struct rf_incoming *incoming, struct rf_poller *poller,
		    const void *hello, size_t hello_size,
		    const struct rf_ep_config *config,
		    const struct rf_ep_events *events, void *context,
		    const struct rf_recv *recvs, unsigned int recv_count,
		    struct rf_ep **out)
{
	struct verbs_incoming *vi =
		rf_container_of(incoming, struct verbs_incoming, base);
	struct verbs_poller *vp =
		rf_container_of(poller, struct verbs_poller, base);
	struct verbs_ep *ep = new_ep(poller, config, events, context);
	int err = ep ? 0 : -ENOMEM;

	rf_list_remove(&vi->link);
	if (ep) {
		ep->id = vi->id;
		ep->id->context = ep;
		ep->state = VERBS_ACCEPTING;
		set_deadline(ep, &ep->setup_deadline_ns,
			     from_now(config->setup_ms));
	}
	if (!err && vp->cm != vi->id->channel)
		err = rdma_migrate_id(vi->id, vp->cm) ? -errno : 0;
	if (!err)
		err = begin_accept(ep, vi, hello, hello_size, recvs, recv_count);
	if (err) {
		rdma_reject(vi->id, NULL, 0);
		if (!ep)
			rdma_destroy_id(vi->id);
		free(vi);
		if (ep)
			free_ep(ep);
		return err;
	}
	free(vi);
	*out = &ep->base;
	return 0;
}

void verbs_ep_reject(struct rf_incoming *incoming, const void *hello,
		     size_t hello_size)
{
	struct verbs_incoming *vi =
		rf_container_of(incoming, struct verbs_incoming, base);
	struct verbs_fabric *fabric =
		verbs_fabric_of(incoming->listener->poller->fab);
	uint8_t data[VERBS_IWARP_PRIVATE_MAX + VERBS_PREFIX_SIZE];
	struct rdma_conn_param param = { 0 };

	put_private(fabric, NULL, hello, hello_size, data, &param);
	rf_list_remove(&vi->link);
	rdma_reject(vi->id, param.private_data, param.private_data_len);
	rdma_destroy_id(vi->id);
	VERBS_COUNT(fabric, rejects, 1);
	free(vi);
}

/* ---- closing, addresses, events ------------------------------------------ */

void verbs_ep_close(struct rf_ep *ep)
{
	verbs_ep_end(verbs_ep_of(ep), 0);
}

int verbs_ep_addresses(const struct rf_ep *ep, struct sockaddr_storage *local,
		       struct sockaddr_storage *peer)
{
	struct rdma_cm_id *id =
		rf_container_of(ep, const struct verbs_ep, base)->id;

	if (!id)
		return -ENOTCONN;
	*local = *(struct sockaddr_storage *)(void *)rdma_get_local_addr(id);
	*peer = *(struct sockaddr_storage *)(void *)rdma_get_peer_addr(id);
	return 0;
}

static int event_error(const struct rdma_cm_event *event, int otherwise)
{
	return event->status < 0 ? event->status : otherwise;
}

static unsigned int ep_event(struct verbs_ep *ep,
			     const struct rdma_cm_event *event)
{
	if (ep->state == VERBS_ENDING)
		return 0;
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return addr_resolved(ep);
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return route_resolved(ep);
	case RDMA_CM_EVENT_ESTABLISHED:
		return established(ep, event);
	case RDMA_CM_EVENT_REJECTED:
		return rejected(ep, event);
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		verbs_ep_end(ep, event_error(event, -EHOSTUNREACH));
		return 0;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		verbs_ep_end(ep, event_error(event, -ECONNRESET));
		return 0;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		verbs_device_is_gone(fabric_of(ep)->context);
		verbs_ep_end(ep, -ENODEV);
		return 0;
	case RDMA_CM_EVENT_DISCONNECTED:
		/*
		 * What arrived before it, and why it came, may still be in the
		 * queue: look there first, when the queue is flushed.
		 */
		ep->was_disconnected = true;
		if (!must_be_mute(ep))
			rdma_disconnect(ep->id);
		verbs_ep_is_over(ep, 0);
		return 0;
	default:
		return 0;
	}
}

/* Only the removal of its device happens to a listener. */
static void listener_event(const struct verbs_poller *poller,
			   const struct rdma_cm_event *event)
{
	if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		verbs_device_is_gone(
			verbs_fabric_of(poller->base.fab)->context);
}

static bool is_listener(const struct verbs_poller *poller,
			const struct rdma_cm_id *id)
{
	const struct rf_list *pos;

	rf_list_for_each(pos, &poller->listeners)
		if (rf_container_of(pos, const struct verbs_listener,
				    link)->id == id)
			return true;
	return false;
}

int verbs_cm_event(struct verbs_poller *poller)
{
	struct rdma_cm_event *event, copy;
	uint8_t data[VERBS_PRIVATE_ANY];
	struct verbs_ep *ep;

	if (rdma_get_cm_event(poller->cm, &event))
		return -1;
	/* Acknowledge first: a callback may end the id, which waits for it. */
	copy = *event;
	if (copy.param.conn.private_data && copy.param.conn.private_data_len) {
		memcpy(data, copy.param.conn.private_data,
		       copy.param.conn.private_data_len);
		copy.param.conn.private_data = data;
	}
	rdma_ack_cm_event(event);
	if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		return (int)connect_request(&copy);
	/* Without a context it is a request that nobody has accepted yet. */
	ep = copy.id->context;
	if (!ep || copy.event == RDMA_CM_EVENT_TIMEWAIT_EXIT)
		return 0;
	if (is_listener(poller, copy.id)) {
		listener_event(poller, &copy);
		return 0;
	}
	return (int)ep_event(ep, &copy);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_conn.c - listening, connecting and the end of a connection, in a loop
 *
 * Operation.  A request travels to the listener that has its address; the
 * answer travels back.  From the accept on the two endpoints know each other;
 * the end of one unlinks them and sends a goodbye, and what had not arrived by
 * then never does.  A notice that finds its way blocked waits for the healing.
 *
 * Ownership.  An endpoint is freed after its closed() ran, an incoming request
 * by accept, reject or its listener's close, whichever comes first.
 *
 * When it fails.  Without a listener, past the backlog, or by request of the
 * test, a connect is refused; nobody is told of a cut that is silent, and then
 * keep-alive or set-up time-outs end what waits.
 */
#include "loop_impl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

#define NS_PER_MS 1000000u

static uint64_t latency_in_ns(struct loop_ep *ep)
{
	return loop_latency_ns(ep->world, &ep->remote, &ep->local);
}

/* ---- callbacks ----------------------------------------------------------- */

static bool has_callback(const struct loop_ep *ep)
{
	return ep->tells_connected || ep->tells_rejected ||
	       loop_work_has_done(ep) || ep->base.is_closing;
}

void loop_ep_update(struct loop_ep *ep)
{
	loop_source_set(loop_poller(ep->base.poller), &ep->source,
			!ep->is_held && has_callback(ep));
}

static void free_ep(struct loop_ep *ep)
{
	rf_list_remove(&ep->link);
	loop_source_set(loop_poller(ep->base.poller), &ep->source, false);
	loop_poller(ep->base.poller)->users--;
	rf_container_of(ep->base.pd, struct loop_pd, base)->users--;
	free(ep->works);
	free(ep->recvs);
	free(ep);
}

static void tell_closed(struct loop_ep *ep)
{
	loop_work_return_rest(ep);
	while (!rf_list_is_empty(&ep->windows))
		loop_window_free(rf_container_of(ep->windows.next,
						 struct loop_window, link));
	loop_ep_fabric(ep)->stats.closes++;
	loop_digest(ep->world, (uint64_t)ep->id << 32 | (uint32_t)ep->reason);
	ep->base.events.closed(&ep->base, ep->reason);
	free_ep(ep);
}

static void tell_connected(struct loop_ep *ep)
{
	ep->tells_connected = false;
	/* After an early end only the news is left. */
	ep->base.is_connected = !ep->base.is_closing;
	loop_digest(ep->world, ep->id);
	ep->base.events.connected(&ep->base, ep->hello, ep->hello_size);
}

void loop_ep_tell(struct loop_ep *ep)
{
	if (ep->tells_connected) {
		tell_connected(ep);
	} else if (ep->tells_rejected) {
		ep->tells_rejected = false;
		if (ep->base.events.rejected)
			ep->base.events.rejected(&ep->base, ep->hello,
						 ep->hello_size);
	} else if (loop_work_has_done(ep)) {
		loop_work_tell(ep);
	} else {
		tell_closed(ep);
		return;
	}
	loop_ep_update(ep);
}

/* ---- the end ------------------------------------------------------------- */

bool loop_ep_way_is_open(const struct loop_ep *ep, bool is_outward)
{
	return !ep->is_severed &&
	       !loop_is_blocked(ep->world,
				is_outward ? &ep->local : &ep->remote,
				is_outward ? &ep->remote : &ep->local);
}

static bool is_cut_off(const struct loop_ep *ep)
{
	return !loop_ep_way_is_open(ep, true) ||
	       !loop_ep_way_is_open(ep, false);
}

static void stop_events(struct loop_ep *ep)
{
	loop_lanes_stop(ep);
	loop_cancel(ep->world, &ep->request);
	loop_cancel(ep->world, &ep->answer);
	loop_cancel(ep->world, &ep->goodbye);
	loop_cancel(ep->world, &ep->setup);
	loop_cancel(ep->world, &ep->keepalive);
	ep->request_is_pending = ep->answer_is_pending = false;
	ep->goodbye_is_pending = false;
}

/* The peer is gone; ep hears of it later, or by a time-out. */
static void send_goodbye(struct loop_ep *ep, int reason)
{
	ep->peer = NULL;
	ep->goodbye_reason = reason;
	ep->goodbye_is_pending = true;
	/* Not before the answer, of which it is the end. */
	loop_schedule(ep->world, &ep->goodbye,
		      rf_max_u64(ep->world->now_ns + latency_in_ns(ep),
				 ep->answer_is_pending ? ep->answer.due_ns
						       : 0));
}

void loop_ep_end(struct loop_ep *ep, int reason, int peer_reason)
{
	struct loop_ep *peer = ep->peer;

	if (ep->base.is_closing)
		return;
	ep->base.is_closing = true;
	ep->base.is_connected = false;
	ep->is_open = false;
	ep->reason = reason;
	ep->peer = NULL;
	stop_events(ep);
	if (ep->incoming) {
		ep->incoming->ep = NULL;
		ep->incoming = NULL;
	}
	loop_work_flush(ep);
	loop_ep_update(ep);
	if (peer)
		send_goodbye(peer, peer_reason);
}

static void goodbye_arrives(struct loop_event *event)
{
	struct loop_ep *ep = rf_container_of(event, struct loop_ep, goodbye);

	if (loop_ep_way_is_open(ep, false))
		loop_ep_end(ep, ep->goodbye_reason, 0);
}

static void keepalive_expires(struct loop_event *event)
{
	struct loop_ep *ep = rf_container_of(event, struct loop_ep, keepalive);

	loop_ep_end(ep, -ETIMEDOUT, -ECONNRESET);
}

static void setup_expires(struct loop_event *event)
{
	loop_ep_end(rf_container_of(event, struct loop_ep, setup), -ETIMEDOUT,
		    -ECONNRESET);
}

void loop_close(struct rf_ep *base)
{
	struct loop_ep *ep = loop_ep(base);

	/* The caller does not care for it any more. */
	ep->tells_connected = ep->tells_rejected = false;
	loop_ep_end(ep, 0, 0);
	loop_ep_update(ep);
}

void loop_ep_cut(struct loop_ep *ep, enum rf_loop_cut how)
{
	struct loop_ep *peer = ep->peer;

	if (!peer || ep->is_severed)
		return;
	if (how == RF_LOOP_CUT_RESET) {
		send_goodbye(ep, -ECONNRESET);
		send_goodbye(peer, -ECONNRESET);
		return;
	}
	ep->is_severed = peer->is_severed = true;
	loop_ep_path_changed(ep);
	loop_ep_path_changed(peer);
}

static void renotify(struct loop_ep *ep, struct loop_event *event,
		     bool is_pending)
{
	if (is_pending && !event->place)
		loop_schedule(ep->world, event,
			      ep->world->now_ns + latency_in_ns(ep));
}

void loop_ep_path_changed(struct loop_ep *ep)
{
	uint64_t keepalive_ns =
		(uint64_t)ep->base.config.keepalive_ms * NS_PER_MS;

	if (ep->base.is_closing)
		return;
	renotify(ep, &ep->request, ep->request_is_pending);
	renotify(ep, &ep->answer, ep->answer_is_pending);
	renotify(ep, &ep->goodbye, ep->goodbye_is_pending);
	loop_lanes_resume(ep);
	if (!ep->is_open || !is_cut_off(ep))
		loop_cancel(ep->world, &ep->keepalive);
	else if (keepalive_ns && !ep->keepalive.place)
		loop_schedule(ep->world, &ep->keepalive,
			      ep->world->now_ns + keepalive_ns);
}

/* ---- listening ----------------------------------------------------------- */

static bool same_place(const struct sockaddr_storage *listening,
		       const struct sockaddr_storage *addr)
{
	return listening->ss_family == addr->ss_family &&
	       loop_port(listening) == loop_port(addr) &&
	       (loop_is_wildcard(listening) ||
		loop_same_host(listening, addr));
}

static struct loop_listener *find_listener(struct rf_loop_world *world,
					   const struct sockaddr_storage *addr)
{
	struct rf_list *pos;

	rf_list_for_each(pos, &world->listeners) {
		struct loop_listener *listener =
			rf_container_of(pos, struct loop_listener, link);

		if (same_place(&listener->address, addr) ||
		    (loop_is_wildcard(addr) &&
		     same_place(addr, &listener->address)))
			return listener;
	}
	return NULL;
}

/* 32768 to 65535, round and round; two ports in use at once do no harm. */
static uint16_t next_port(struct rf_loop_world *world)
{
	uint16_t port = world->next_port++;

	if (world->next_port == 0)
		world->next_port = 32768;
	return port;
}

static int choose_address(struct loop_fabric *fab,
			  struct sockaddr_storage *address)
{
	uint16_t port = loop_port(address);

	if (fab->host.ss_family) {
		if (fab->host.ss_family != address->ss_family ||
		    (!loop_is_wildcard(address) &&
		     !loop_same_host(&fab->host, address)))
			return -EADDRNOTAVAIL;
		*address = fab->host;
		loop_set_port(address, port);
	}
	if (port != 0)
		return find_listener(fab->world, address) ? -EADDRINUSE : 0;
	for (unsigned int tries = 0; tries < 32768; tries++) {
		loop_set_port(address, next_port(fab->world));
		if (!find_listener(fab->world, address))
			return 0;
	}
	return -EADDRINUSE;
}

int loop_listener_open(struct rf_poller *poller, const struct sockaddr *addr,
		       socklen_t addr_size, rf_request_fn on_request,
		       void *context, struct rf_listener **out)
{
	struct loop_fabric *fab = loop_fabric(poller->fab);
	struct sockaddr_storage address;
	struct loop_listener *listener;
	int err = loop_copy_address(&address, addr, addr_size);

	if (!err)
		err = choose_address(fab, &address);
	if (err)
		return err;
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		return -ENOMEM;
	listener->base.poller = poller;
	listener->address = address;
	listener->on_request = on_request;
	listener->context = context;
	listener->source.is_listener = true;
	rf_list_init(&listener->source.link);
	rf_list_init(&listener->arrived);
	rf_list_init(&listener->told);
	rf_list_push(&fab->world->listeners, &listener->link);
	loop_poller(poller)->users++;
	*out = &listener->base;
	return 0;
}

static struct loop_listener *loop_listener(const struct rf_listener *listener)
{
	return rf_container_of(listener, struct loop_listener, base);
}

int loop_listener_address(const struct rf_listener *listener,
			  struct sockaddr_storage *out)
{
	*out = loop_listener(listener)->address;
	return 0;
}

static struct loop_incoming *loop_incoming(const struct rf_incoming *incoming)
{
	return rf_container_of(incoming, struct loop_incoming, base);
}

int loop_incoming_peer(const struct rf_incoming *incoming,
		       struct sockaddr_storage *out)
{
	*out = loop_incoming(incoming)->peer;
	return 0;
}

static void free_incoming(struct loop_incoming *incoming)
{
	struct loop_listener *listener = loop_listener(incoming->base.listener);

	if (incoming->ep)
		incoming->ep->incoming = NULL;
	rf_list_remove(&incoming->link);
	listener->incoming_count--;
	free(incoming);
}

static void update_listener(struct loop_listener *listener)
{
	loop_source_set(loop_poller(listener->base.poller), &listener->source,
			!rf_list_is_empty(&listener->arrived));
}

void loop_listener_tell(struct loop_listener *listener)
{
	unsigned char hello[LOOP_HELLO_MAX];
	struct loop_incoming *incoming =
		rf_container_of(rf_list_pop(&listener->arrived),
				struct loop_incoming, link);
	size_t hello_size = incoming->hello_size;

	/* The call may free both, and hello is valid until it returns. */
	memcpy(hello, incoming->hello, hello_size);
	rf_list_push(&listener->told, &incoming->link);
	update_listener(listener);
	listener->on_request(listener->context, &incoming->base, hello,
			     hello_size);
}

/* ---- requests and answers ------------------------------------------------ */

static void answer(struct loop_ep *ep, int status, bool is_reject,
		   const void *hello, size_t hello_size)
{
	ep->answer_status = status;
	ep->answer_is_reject = is_reject;
	ep->answer_is_pending = true;
	ep->hello_size = hello_size;
	if (hello_size > 0)
		memcpy(ep->hello, hello, hello_size);
	loop_schedule(ep->world, &ep->answer,
		      ep->world->now_ns + latency_in_ns(ep));
}

static void answer_arrives(struct loop_event *event)
{
	struct loop_ep *ep = rf_container_of(event, struct loop_ep, answer);

	if (!loop_ep_way_is_open(ep, false))
		return;
	ep->answer_is_pending = false;
	if (ep->answer_status) {
		ep->tells_rejected = ep->answer_is_reject;
		loop_ep_end(ep, ep->answer_status, 0);
		return;
	}
	loop_cancel(ep->world, &ep->setup);
	ep->is_open = true;
	ep->tells_connected = true;
	loop_ep_fabric(ep)->stats.connects++;
	loop_ep_path_changed(ep);
	loop_ep_update(ep);
}

static struct loop_incoming *create_incoming(struct loop_listener *listener,
					     struct loop_ep *ep)
{
	struct loop_incoming *incoming;

	if (listener->incoming_count == LOOP_BACKLOG_MAX)
		return NULL;
	incoming = calloc(1, sizeof(*incoming));
	if (!incoming)
		return NULL;
	incoming->base.listener = &listener->base;
	incoming->ep = ep;
	incoming->peer = ep->local;
	incoming->local = ep->remote;
	incoming->hello_size = ep->hello_size;
	memcpy(incoming->hello, ep->hello, ep->hello_size);
	listener->incoming_count++;
	return incoming;
}

static void request_arrives(struct loop_event *event)
{
	struct loop_ep *ep = rf_container_of(event, struct loop_ep, request);
	struct loop_listener *listener;

	if (!loop_ep_way_is_open(ep, true))
		return;
	ep->request_is_pending = false;
	listener = find_listener(ep->world, &ep->remote);
	if (listener && !ep->world->refuses)
		ep->incoming = create_incoming(listener, ep);
	if (!ep->incoming) {
		answer(ep, -ECONNREFUSED, false, NULL, 0);
		return;
	}
	rf_list_push(&listener->arrived, &ep->incoming->link);
	update_listener(listener);
}

static struct loop_ep *create_ep(struct rf_poller *poller,
				 const struct rf_ep_config *config,
				 const struct rf_ep_events *events,
				 void *context)
{
	struct loop_ep *ep = calloc(1, sizeof(*ep));

	if (!ep)
		return NULL;
	ep->works = calloc(config->send_depth, sizeof(*ep->works));
	ep->recvs = calloc(config->recv_depth, sizeof(*ep->recvs));
	if (!ep->works || !ep->recvs) {
		free(ep->works);
		free(ep->recvs);
		free(ep);
		return NULL;
	}
	ep->base = (struct rf_ep){ .poller = poller, .pd = config->pd,
				   .config = *config, .events = *events,
				   .context = context,
				   .limits = poller->fab->limits };
	ep->world = loop_fabric(poller->fab)->world;
	ep->id = ++ep->world->next_ep_id;
	ep->request.fire = request_arrives;
	ep->answer.fire = answer_arrives;
	ep->goodbye.fire = goodbye_arrives;
	ep->setup.fire = setup_expires;
	ep->keepalive.fire = keepalive_expires;
	loop_lanes_init(ep);
	rf_list_init(&ep->source.link);
	rf_list_init(&ep->windows);
	rf_list_push(&ep->world->eps, &ep->link);
	loop_poller(poller)->users++;
	rf_container_of(config->pd, struct loop_pd, base)->users++;
	return ep;
}

/* Where a fabric without a host connects from. */
static void choose_local(struct loop_ep *ep)
{
	const struct sockaddr_storage *host = &loop_ep_fabric(ep)->host;
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)&ep->local;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)&ep->local;

	ep->local.ss_family = ep->remote.ss_family;
	if (host->ss_family)
		ep->local = *host;
	else if (ep->remote.ss_family == AF_INET)
		in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		in6->sin6_addr = in6addr_loopback;
	loop_set_port(&ep->local, next_port(ep->world));
}

int loop_connect(struct rf_poller *poller, const struct sockaddr *addr,
		 socklen_t addr_size, const void *hello, size_t hello_size,
		 const struct rf_ep_config *config,
		 const struct rf_ep_events *events, void *context,
		 struct rf_ep **out)
{
	struct sockaddr_storage remote;
	int err = loop_copy_address(&remote, addr, addr_size);
	struct loop_ep *ep;

	if (err)
		return err;
	ep = create_ep(poller, config, events, context);
	if (!ep)
		return -ENOMEM;
	ep->remote = remote;
	choose_local(ep);
	ep->hello_size = hello_size;
	if (hello_size > 0)
		memcpy(ep->hello, hello, hello_size);
	ep->request_is_pending = true;
	loop_schedule(ep->world, &ep->request, ep->world->now_ns +
		      loop_latency_ns(ep->world, &ep->local, &ep->remote));
	if (config->setup_ms)
		loop_schedule(ep->world, &ep->setup, ep->world->now_ns +
			      (uint64_t)config->setup_ms * NS_PER_MS);
	*out = &ep->base;
	return 0;
}

static uint16_t min_u16(uint16_t a, uint16_t b)
{
	return a < b ? a : b;
}

static void negotiate(struct loop_ep *ep, const struct loop_ep *peer)
{
	uint16_t wanted = min_u16(ep->base.config.reads_out,
				  peer->base.config.reads_in);

	ep->base.limits.reads_max = min_u16(ep->base.limits.reads_max, wanted);
}

/* Link the two; if the other has given up, ours ends as soon as it is there. */
static void join(struct loop_ep *ep, struct loop_ep *peer, const void *hello,
		 size_t hello_size)
{
	ep->is_open = true;
	if (!peer) {
		send_goodbye(ep, -ECONNRESET);
		return;
	}
	ep->peer = peer;
	peer->peer = ep;
	negotiate(ep, peer);
	negotiate(peer, ep);
	ep->tells_connected = true;
	answer(peer, 0, false, hello, hello_size);
	loop_ep_path_changed(ep);
}

int loop_accept(struct rf_incoming *base, struct rf_poller *poller,
		const void *hello, size_t hello_size,
		const struct rf_ep_config *config,
		const struct rf_ep_events *events, void *context,
		const struct rf_recv *recvs, unsigned int recv_count,
		struct rf_ep **out)
{
	struct loop_incoming *incoming = loop_incoming(base);
	struct loop_ep *ep = NULL, *peer = incoming->ep;

	if (loop_poller(poller)->ops_posted + recv_count <= poller->ops_max)
		ep = create_ep(poller, config, events, context);
	if (!ep) {
		loop_reject(base, NULL, 0);
		return -ENOMEM;
	}
	ep->is_passive = true;
	ep->local = incoming->local;
	ep->remote = incoming->peer;
	ep->hello_size = incoming->hello_size;
	memcpy(ep->hello, incoming->hello, incoming->hello_size);
	free_incoming(incoming);
	for (unsigned int i = 0; i < recv_count; i++)
		RF_ASSERT(loop_post_recv(&ep->base, &recvs[i]) == 0);
	join(ep, peer, hello, hello_size);
	loop_ep_fabric(ep)->stats.accepts++;
	loop_ep_update(ep);
	*out = &ep->base;
	return 0;
}

void loop_reject(struct rf_incoming *base, const void *hello,
		 size_t hello_size)
{
	struct loop_incoming *incoming = loop_incoming(base);
	struct loop_ep *ep = incoming->ep;

	loop_fabric(base->listener->poller->fab)->stats.rejects++;
	free_incoming(incoming);
	if (ep)
		answer(ep, -ECONNREFUSED, true, hello, hello_size);
}

static void drop_requests(struct rf_list *requests)
{
	while (!rf_list_is_empty(requests)) {
		struct loop_incoming *incoming =
			rf_container_of(requests->next, struct loop_incoming,
					link);
		struct loop_ep *ep = incoming->ep;

		free_incoming(incoming);
		if (ep)
			answer(ep, -ECONNRESET, false, NULL, 0);
	}
}

void loop_listener_close(struct rf_listener *base)
{
	struct loop_listener *listener = loop_listener(base);

	drop_requests(&listener->arrived);
	drop_requests(&listener->told);
	update_listener(listener);
	rf_list_remove(&listener->link);
	loop_poller(base->poller)->users--;
	free(listener);
}

int loop_addresses(const struct rf_ep *ep, struct sockaddr_storage *local,
		   struct sockaddr_storage *peer)
{
	*local = loop_ep(ep)->local;
	*peer = loop_ep(ep)->remote;
	return 0;
}

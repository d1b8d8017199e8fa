/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iwarp_ep.c - an endpoint's life: create, connect, accept, end, linger
 *
 * Operation.  connecting (TCP) -> asking (MPA) -> open -> doomed -> lingering
 * -> dead; accepted endpoints begin open.  Whatever ends a connection calls
 * iw_ep_doom(), which calls nothing back; the end of the run does the rest.
 *
 * Ownership.  Rings are made with the endpoint; nothing is allocated later.
 * closed() ends the caller's interest.  The socket may linger: what was half
 * sent and a Terminate are first copied, then flushed, and the peer's bytes
 * drained for up to IW_LINGER_MS, so that the peer reads the Terminate and is
 * not reset by a close with unread bytes.
 */
#include "iwarp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- create and free --------------------------------------------------- */

static uint32_t ring_mask(uint32_t depth)
{
	uint32_t size = 1;

	while (size < depth)
		size *= 2;
	return size - 1;
}

void iw_ep_free(struct iw_ep *ep)
{
	free(ep->works);
	free(ep->recvs);
	free(ep->reads);
	free(ep->responses);
	free(ep->bounce);
	free(ep);
}

static bool create_rings(struct iw_ep *ep)
{
	const struct rf_ep_config *config = &ep->base.config;

	ep->ord = (uint32_t)rf_min_u64(config->reads_out, IW_READS_MAX);
	ep->ird = (uint32_t)rf_min_u64(config->reads_in, IW_READS_MAX);
	ep->works_mask = ring_mask(config->send_depth);
	ep->recvs_mask = ring_mask(config->recv_depth);
	ep->reads_mask = ring_mask(ep->ord);
	ep->responses_mask = ring_mask(ep->ird);
	ep->works = calloc(ep->works_mask + 1, sizeof(*ep->works));
	ep->recvs = calloc(ep->recvs_mask + 1, sizeof(*ep->recvs));
	ep->reads = calloc(ep->reads_mask + 1, sizeof(*ep->reads));
	ep->responses = calloc(ep->responses_mask + 1, sizeof(*ep->responses));
	ep->bounce = malloc(IW_FPDU_MAX + IW_CONTROL_MAX);
	return ep->works && ep->recvs && ep->reads && ep->responses &&
	       ep->bounce;
}

static struct iw_ep *create(struct rf_poller *poller,
			    const struct rf_ep_config *config,
			    const struct rf_ep_events *events, void *context)
{
	struct iw_ep *ep = calloc(1, sizeof(*ep));

	if (!ep)
		return NULL;
	ep->base = (struct rf_ep){
		.poller = poller, .pd = config->pd, .config = *config,
		.events = *events, .context = context,
		.limits = poller->fab->limits,
	};
	if (!create_rings(ep)) {
		iw_ep_free(ep);
		return NULL;
	}
	iw_source_init(&ep->source, IW_EP, -1);
	rf_list_init(&ep->in_poller);
	rf_list_init(&ep->ready);
	rf_list_init(&ep->flush);
	rf_list_init(&ep->doomed);
	rf_list_init(&ep->linger);
	rf_list_init(&ep->windows);
	ep->cursor.send_msn = 1;
	ep->rx.send_msn = 1;
	ep->rx.request_msn = 1;
	ep->batch_size = IW_BATCH_SIZE_MIN;
	return ep;
}

/*
 * Keep-alive probes find a silent dead peer when nothing is under way,
 * TCP_USER_TIMEOUT when something is.  Probes are in whole seconds.
 */
static void tune_socket(int fd, uint32_t keepalive_ms)
{
	int one = 1, idle_s, probe_s = 1, probes = 3;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (keepalive_ms == 0)
		return;
	idle_s = (int)rf_max_u64(1, keepalive_ms / 2000);
	probe_s = (int)rf_max_u64(1, keepalive_ms / 6000);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &probe_s, sizeof(probe_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &keepalive_ms,
		   sizeof(keepalive_ms));
}

static void join_poller(struct iw_ep *ep)
{
	struct iw_poller *poller = iw_ep_poller(ep);
	struct iw_fabric *fab = iw_poller_fabric(poller);

	pthread_mutex_lock(&fab->lock);
	rf_list_push(&poller->eps, &ep->in_poller);
	pthread_mutex_unlock(&fab->lock);
}

static void leave_poller(struct iw_ep *ep)
{
	struct iw_poller *poller = iw_ep_poller(ep);
	struct iw_fabric *fab = iw_poller_fabric(poller);
	struct tcp_info info;
	socklen_t size = sizeof(info);

	if (getsockopt(ep->source.fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
		info.tcpi_total_retrans = 0;
	pthread_mutex_lock(&fab->lock);
	rf_list_remove(&ep->in_poller);
	iw_count(&poller->stats.retransmissions, info.tcpi_total_retrans);
	pthread_mutex_unlock(&fab->lock);
}

/* ---- connection set-up ------------------------------------------------- */

/* Returns false if the connection is lost. */
static bool send_setup(struct iw_ep *ep)
{
	size_t left = ep->setup_size - ep->setup_sent;
	ssize_t sent = 0;

	if (left)
		sent = send(ep->source.fd, ep->setup + ep->setup_sent, left,
			    MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent < 0 && errno != EAGAIN && errno != EINTR)
		return false;
	if (sent > 0)
		ep->setup_sent += (size_t)sent;
	return true;
}

static bool setup_is_sent(const struct iw_ep *ep)
{
	return ep->setup_sent == ep->setup_size;
}

static int connect_socket(struct iw_ep *ep, const struct sockaddr *addr,
			  socklen_t addr_size)
{
	const struct iw_fabric *fab = iw_poller_fabric(iw_ep_poller(ep));
	const struct sockaddr_storage *source = &fab->base.tuning.source;
	int fd = socket(addr->sa_family,
			SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	ep->source.fd = fd;
	tune_socket(fd, ep->base.config.keepalive_ms);
	iw_set_traffic_class(fab, fd, addr->sa_family);
	if (source->ss_family &&
	    bind(fd, (const struct sockaddr *)source, addr_size) < 0)
		return -errno;
	if (connect(fd, addr, addr_size) < 0 && errno != EINPROGRESS)
		return -errno;
	return iw_source_watch(iw_ep_poller(ep), &ep->source, EPOLLOUT);
}

static bool is_network_error(int err)
{
	return err == -ECONNREFUSED || err == -ENETUNREACH ||
	       err == -EHOSTUNREACH || err == -ECONNRESET || err == -ETIMEDOUT;
}

int iw_ep_connect(struct rf_poller *poller, const struct sockaddr *addr,
		  socklen_t addr_size, const void *hello, size_t hello_size,
		  const struct rf_ep_config *config,
		  const struct rf_ep_events *events, void *context,
		  struct rf_ep **out)
{
	struct iw_ep *ep = create(poller, config, events, context);
	struct iw_mpa request;
	int err;

	if (!ep)
		return -ENOMEM;
	request = (struct iw_mpa){
		.wants_crc = ((struct iw_fabric *)poller->fab)->wants_crc,
		.is_enhanced = true, .revision = 2,
		.ird = (uint16_t)ep->ird, .ord = (uint16_t)ep->ord,
		.hello = hello, .hello_size = hello_size,
	};
	ep->setup_size = iw_mpa_encode(&request, ep->setup);
	ep->uses_crc = request.wants_crc;
	ep->state = IW_EP_CONNECTING;
	err = connect_socket(ep, addr, addr_size);
	if (err && !is_network_error(err)) {
		iw_source_close(iw_ep_poller(ep), &ep->source);
		iw_ep_free(ep);
		return err;
	}
	join_poller(ep);
	iw_source_deadline(iw_ep_poller(ep), &ep->source, config->setup_ms);
	if (err)
		iw_ep_doom(ep, err);
	*out = &ep->base;
	return 0;
}

/*
 * Where nobody listens, at a port from which the kernel lets connections come,
 * TCP may connect a socket to itself (RFC 9293 section 3.5, simultaneous open).
 */
static bool is_our_own_echo(const struct iw_ep *ep)
{
	struct sockaddr_storage local = { 0 }, peer = { 0 };

	return iw_ep_addresses(&ep->base, &local, &peer) == 0 &&
	       memcmp(&local, &peer, sizeof(local)) == 0;
}

/* By a reset: else the port would be taken for who is to listen there. */
static void refuse_ourselves(struct iw_ep *ep)
{
	const struct linger none = { .l_onoff = 1 };

	setsockopt(ep->source.fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	iw_ep_doom(ep, -ECONNREFUSED);
}

static void tcp_is_connected(struct iw_ep *ep)
{
	int err = 0;
	socklen_t size = sizeof(err);

	getsockopt(ep->source.fd, SOL_SOCKET, SO_ERROR, &err, &size);
	if (err) {
		iw_ep_doom(ep, -err);
		return;
	}
	if (is_our_own_echo(ep)) {
		refuse_ourselves(ep);
		return;
	}
	ep->state = IW_EP_ASKING;
	if (!send_setup(ep))
		iw_ep_doom(ep, -ECONNRESET);
	else
		iw_source_watch(iw_ep_poller(ep), &ep->source,
				setup_is_sent(ep) ? EPOLLIN :
						    EPOLLIN | EPOLLOUT);
}

static void keep_hello(struct iw_ep *ep, const struct iw_mpa *peer)
{
	ep->hello_size = peer->hello_size;
	memcpy(ep->hello, peer->hello, peer->hello_size);
}

static void set_depths(struct iw_ep *ep, const struct iw_mpa *peer)
{
	ep->ord = (uint32_t)rf_min_u64(ep->ord, peer->ird);
	ep->base.limits.reads_max = (uint16_t)ep->ord;
}

static void reply_is_whole(struct iw_ep *ep, const struct iw_mpa *reply)
{
	keep_hello(ep, reply);
	if (reply->is_rejected) {
		ep->was_rejected = true;
		iw_ep_doom(ep, -ECONNREFUSED);
		return;
	}
	if (reply->wants_markers) {
		rf_log(RF_LOG_WARN, "iwarp: the peer insists on MPA markers, "
		       "which this side does not send");
		iw_ep_doom(ep, -EPROTO);
		return;
	}
	ep->uses_crc |= reply->wants_crc;
	set_depths(ep, reply);
	rf_list_remove(&ep->source.deadline);
	ep->state = IW_EP_OPEN;
	ep->tx_is_open = true;
	ep->connected_is_due = true;
	iw_count(&iw_ep_poller(ep)->stats.connects, 1);
	iw_ep_run_ready(ep);
}

static void read_reply(struct iw_ep *ep)
{
	struct iw_rx *rx = &ep->rx;
	struct iw_mpa reply;
	ssize_t got;
	int size;

	for (;;) {
		got = recv(ep->source.fd, rx->stage + rx->end,
			   iw_mpa_missing(rx->stage, rx->end), 0);
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (got <= 0) {
			iw_ep_doom(ep, got < 0 ? -errno : -ECONNRESET);
			return;
		}
		rx->end += (uint32_t)got;
		size = iw_mpa_decode(&reply, true, rx->stage, rx->end);
		if (size < 0) {
			iw_ep_doom(ep, -EPROTO);
			return;
		}
		if (size > 0)
			break;
	}
	rx->end = 0;
	reply_is_whole(ep, &reply);
}

/* ---- accept and reject ------------------------------------------------- */

/* How the peer may announce its first message, if it asked for a choice. */
static uint8_t choose_rtr(uint8_t offered)
{
	if (!(offered & IW_RTR_PEER))
		return 0;
	if (offered & IW_RTR_WRITE)
		return IW_RTR_PEER | IW_RTR_WRITE;
	if (offered & IW_RTR_READ)
		return IW_RTR_PEER | IW_RTR_READ;
	return IW_RTR_PEER | (offered & IW_RTR_EMPTY);
}

static struct iw_mpa make_reply(const struct iw_mpa *request, const void *hello,
				size_t hello_size)
{
	return (struct iw_mpa){
		.is_reply = true, .revision = request->revision,
		.is_enhanced = request->is_enhanced,
		.hello = hello, .hello_size = hello_size,
	};
}

static int open_accepted(struct iw_ep *ep, struct iw_incoming *incoming,
			 const void *hello, size_t hello_size)
{
	struct iw_poller *poller = iw_ep_poller(ep);
	struct iw_mpa reply = make_reply(&incoming->request, hello, hello_size);

	ep->uses_crc = incoming->request.wants_crc ||
		       iw_poller_fabric(poller)->wants_crc;
	set_depths(ep, &incoming->request);
	keep_hello(ep, &incoming->request);
	ep->rtr = choose_rtr(incoming->request.rtr);
	reply.wants_crc = ep->uses_crc;
	reply.ird = (uint16_t)ep->ird;
	reply.ord = (uint16_t)ep->ord;
	reply.rtr = ep->rtr;
	ep->setup_size = iw_mpa_encode(&reply, ep->setup);
	ep->is_accepting = true;
	ep->state = IW_EP_OPEN;
	ep->source.fd = incoming->source.fd;
	tune_socket(ep->source.fd, ep->base.config.keepalive_ms);
	if (!send_setup(ep))
		return -ECONNRESET;
	ep->tx_is_blocked = !setup_is_sent(ep);
	return iw_source_watch(poller, &ep->source,
			       setup_is_sent(ep) ? EPOLLIN :
						   EPOLLIN | EPOLLOUT);
}

int iw_ep_accept(struct rf_incoming *base, struct rf_poller *poller,
		 const void *hello, size_t hello_size,
		 const struct rf_ep_config *config,
		 const struct rf_ep_events *events, void *context,
		 const struct rf_recv *recvs, unsigned int recv_count,
		 struct rf_ep **out)
{
	struct iw_incoming *incoming = (struct iw_incoming *)base;
	struct iw_ep *ep = create(poller, config, events, context);
	int err;

	if (!ep) {
		iw_incoming_drop(incoming);
		return -ENOMEM;
	}
	for (unsigned int i = 0; i < recv_count; i++)
		RF_ASSERT(iw_ep_post_recv(&ep->base, &recvs[i]) == 0);
	err = open_accepted(ep, incoming, hello, hello_size);
	if (err) {
		iw_incoming_drop(incoming);
		iw_ep_free(ep);
		return err;
	}
	iw_incoming_take(incoming);
	join_poller(ep);
	ep->connected_is_due = true;
	iw_list_move(&iw_ep_poller(ep)->ready, &ep->ready);
	iw_count(&iw_ep_poller(ep)->stats.accepts, 1);
	*out = &ep->base;
	return 0;
}

void iw_ep_reject(struct rf_incoming *base, const void *hello,
		  size_t hello_size)
{
	struct iw_incoming *incoming = (struct iw_incoming *)base;
	struct iw_poller *poller =
		(struct iw_poller *)incoming->base.listener->poller;
	struct iw_mpa reply = make_reply(&incoming->request, hello, hello_size);
	uint8_t frame[IW_MPA_FRAME_MAX];
	size_t size;

	reply.is_rejected = true;
	reply.wants_crc = incoming->request.wants_crc;
	size = iw_mpa_encode(&reply, frame);
	/* Into an empty socket: all or nothing, and nothing to do about it. */
	if (send(incoming->source.fd, frame, size,
		 MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
		shutdown(incoming->source.fd, SHUT_WR);
	iw_count(&poller->stats.rejects, 1);
	iw_incoming_drop(incoming);
}

int iw_ep_addresses(const struct rf_ep *base, struct sockaddr_storage *local,
		    struct sockaddr_storage *peer)
{
	const struct iw_ep *ep = (const struct iw_ep *)base;
	socklen_t size = sizeof(*local);

	if (getsockname(ep->source.fd, (struct sockaddr *)local, &size) < 0)
		return -errno;
	size = sizeof(*peer);
	if (getpeername(ep->source.fd, (struct sockaddr *)peer, &size) < 0)
		return -errno;
	return 0;
}

/* ---- running ----------------------------------------------------------- */

static void call_connected(struct iw_ep *ep)
{
	ep->connected_is_due = false;
	ep->base.is_connected = true;
	iw_ep_poller(ep)->callbacks++;
	ep->base.events.connected(&ep->base, ep->hello, ep->hello_size);
}

/* The socket takes nothing more: what came before may say why. */
static void find_out_why(struct iw_ep *ep)
{
	bool had_bytes = iw_rx_run(ep);

	if (ep->state != IW_EP_OPEN)
		return;
	if (had_bytes)
		iw_list_move(&iw_ep_poller(ep)->ready, &ep->ready);
	else
		iw_ep_doom(ep, -ECONNRESET);
}

void iw_ep_run_ready(struct iw_ep *ep)
{
	if (ep->state != IW_EP_OPEN)
		return;
	if (ep->connected_is_due)
		call_connected(ep);
	iw_ep_retire(ep);
	if (ep->state == IW_EP_OPEN && ep->tx_is_broken)
		find_out_why(ep);
	else if (ep->state == IW_EP_OPEN && ep->rx_is_due)
		iw_rx_run(ep);
}

static void open_event(struct iw_ep *ep, uint32_t events)
{
	if (events & EPOLLOUT) {
		if (!send_setup(ep)) {
			iw_ep_doom(ep, -ECONNRESET);
			return;
		}
		ep->tx_is_blocked = !setup_is_sent(ep);
		iw_tx_run(ep);
		if (!ep->tx_is_blocked && ep->state == IW_EP_OPEN)
			iw_source_watch(iw_ep_poller(ep), &ep->source, EPOLLIN);
		iw_ep_retire(ep);
	}
	if (ep->state == IW_EP_OPEN && (events & ~(uint32_t)EPOLLOUT))
		iw_rx_run(ep);
}

static void asking_event(struct iw_ep *ep, uint32_t events)
{
	if (events & EPOLLOUT) {
		if (!send_setup(ep)) {
			iw_ep_doom(ep, -ECONNRESET);
			return;
		}
		if (setup_is_sent(ep))
			iw_source_watch(iw_ep_poller(ep), &ep->source, EPOLLIN);
	}
	if (events & ~(uint32_t)EPOLLOUT)
		read_reply(ep);
}

static void linger_event(struct iw_ep *ep);

void iw_ep_event(struct iw_ep *ep, uint32_t events)
{
	switch (ep->state) {
	case IW_EP_CONNECTING:
		tcp_is_connected(ep);
		break;
	case IW_EP_ASKING:
		asking_event(ep, events);
		break;
	case IW_EP_OPEN:
		if (ep->connected_is_due)
			iw_ep_run_ready(ep);
		if (ep->state == IW_EP_OPEN)
			open_event(ep, events);
		break;
	case IW_EP_LINGERING:
		linger_event(ep);
		break;
	case IW_EP_DOOMED:
	case IW_EP_DEAD:
		break;
	}
}

void iw_ep_deadline(struct iw_ep *ep)
{
	if (ep->state == IW_EP_LINGERING)
		iw_ep_drop(ep);
	else
		iw_ep_doom(ep, -ETIMEDOUT);
}

/* ---- the end ----------------------------------------------------------- */

void iw_ep_close(struct rf_ep *base)
{
	iw_ep_doom((struct iw_ep *)base, 0);
}

void iw_ep_doom(struct iw_ep *ep, int reason)
{
	struct iw_poller *poller = iw_ep_poller(ep);

	if (ep->state >= IW_EP_DOOMED)
		return;
	/* Only an open connection has last words. */
	if (ep->state != IW_EP_OPEN)
		ep->tx_is_broken = true;
	ep->state = IW_EP_DOOMED;
	ep->reason = reason == -EPIPE ? -ECONNRESET : reason;
	ep->base.is_closing = true;
	ep->base.is_connected = false;
	rf_list_remove(&ep->ready);
	rf_list_remove(&ep->flush);
	rf_list_push(&poller->doomed, &ep->doomed);
	if (poller->last_active == ep)
		poller->last_active = NULL;
}

static void free_windows(struct iw_ep *ep)
{
	struct rf_list *item;

	while (!rf_list_is_empty(&ep->windows)) {
		struct iw_window *window;

		item = ep->windows.next;
		window = rf_container_of(item, struct iw_window, bound);
		iw_window_disarm(window);
		iw_window_free(window);
	}
	/* Posted, but not yet in force; or dead, but not yet told. */
	for (uint32_t n = ep->work_head; n != ep->work_tail; n++) {
		struct iw_work *work = iw_ep_work(ep, n);

		if (work->window && work->window->base.ep == &ep->base)
			iw_window_free(work->window);
	}
}

static void fail_works(struct iw_ep *ep)
{
	while (ep->work_head != ep->work_tail) {
		struct iw_work *work = iw_ep_work(ep, ep->work_head);
		struct rf_op *op = work->op;
		bool is_refused = work->is_refused;

		if (work->is_finished) {
			iw_ep_call_done(ep, iw_ep_retire_one(ep), 0);
			continue;
		}
		ep->work_head++;
		iw_ep_call_done(ep, op, is_refused ? ep->reason : -ECANCELED);
	}
}

static void fail_recvs(struct iw_ep *ep)
{
	while (ep->recv_head != ep->recv_tail) {
		uint32_t n = ep->recv_head++ & ep->recvs_mask;
		int status = ep->recv_was_short ? -EMSGSIZE : -ECANCELED;

		ep->recv_was_short = false;
		iw_ep_call_done(ep, ep->recvs[n].op, status);
	}
}

/* Returns false when nothing more can or need be sent. */
static bool send_last_words(struct iw_ep *ep)
{
	while (ep->bounce_sent < ep->bounce_size) {
		ssize_t sent = send(ep->source.fd, ep->bounce + ep->bounce_sent,
				    ep->bounce_size - ep->bounce_sent,
				    MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EAGAIN)
			return true;
		if (sent <= 0)
			return false;
		ep->bounce_sent += (size_t)sent;
	}
	shutdown(ep->source.fd, SHUT_WR);
	return false;
}

/* Drain what the peer still sends, until it ends too. */
static void linger_event(struct iw_ep *ep)
{
	struct iw_poller *poller = iw_ep_poller(ep);
	uint32_t events = EPOLLIN;
	ssize_t got = 0;

	if (ep->bounce_sent < ep->bounce_size && send_last_words(ep))
		events |= EPOLLOUT;
	for (int i = 0; i < IW_RX_ROUNDS; i++) {
		got = recv(ep->source.fd, ep->rx.stage, IW_STAGE_SIZE, 0);
		if (got <= 0)
			break;
	}
	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
		iw_ep_drop(ep);
	else
		iw_source_watch(poller, &ep->source, events);
}

static void start_lingering(struct iw_ep *ep)
{
	struct iw_poller *poller = iw_ep_poller(ep);

	ep->state = IW_EP_LINGERING;
	if (poller->linger_count >= IW_LINGER_MAX)
		iw_ep_drop(rf_container_of(poller->lingering.next,
					   struct iw_ep, linger));
	rf_list_push(&poller->lingering, &ep->linger);
	poller->linger_count++;
	iw_source_deadline(poller, &ep->source, IW_LINGER_MS);
	if (ep->bounce_size == 0)
		shutdown(ep->source.fd, SHUT_WR);
	linger_event(ep);
}

void iw_ep_drop(struct iw_ep *ep)
{
	struct iw_poller *poller = iw_ep_poller(ep);

	if (!rf_list_is_empty(&ep->linger)) {
		rf_list_remove(&ep->linger);
		poller->linger_count--;
	}
	ep->state = IW_EP_DEAD;
	iw_source_bury(poller, &ep->source);
}

void iw_ep_bury(struct iw_ep *ep)
{
	struct iw_poller *poller = iw_ep_poller(ep);
	bool may_linger = !ep->tx_is_broken && !ep->rx_at_end;

	rf_list_remove(&ep->source.deadline);
	if (may_linger)
		iw_tx_last_words(ep);
	leave_poller(ep);
	free_windows(ep);
	fail_works(ep);
	fail_recvs(ep);
	iw_count(&poller->stats.closes, 1);
	if (ep->was_rejected && ep->base.events.rejected)
		ep->base.events.rejected(&ep->base, ep->hello, ep->hello_size);
	poller->callbacks++;
	ep->base.events.closed(&ep->base, ep->reason);
	if (may_linger)
		start_lingering(ep);
	else
		iw_ep_drop(ep);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iwarp_listen.c - listeners, and requests until they are accepted
 *
 * Operation.  A TCP connection is half open until its MPA request is whole.
 * Reads take no byte beyond the frame's end, so whatever follows it stays for
 * the endpoint.
 *
 * When it fails.  A half-open connection costs one small allocation and is
 * dropped after IW_HALF_OPEN_MS, at the first byte that is not MPA, or when
 * IW_HALF_OPEN_MAX younger ones came: a crowd of silent clients costs bounded
 * memory and keeps nobody out for long.
 */
#include "iwarp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static struct iw_poller *listener_poller(const struct iw_listener *listener)
{
	return (struct iw_poller *)listener->base.poller;
}

static int open_socket(const struct iw_fabric *fab, const struct sockaddr *addr,
		       socklen_t addr_size)
{
	int fd = socket(addr->sa_family,
			SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int one = 1, err;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	/* One listener for each family: "::" must not take IPv4's port. */
	if (addr->sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	iw_set_traffic_class(fab, fd, addr->sa_family);
	if (bind(fd, addr, addr_size) < 0 || listen(fd, IW_BACKLOG) < 0) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

int iw_listener_open(struct rf_poller *base, const struct sockaddr *addr,
		     socklen_t addr_size, rf_request_fn on_request,
		     void *context, struct rf_listener **out)
{
	struct iw_poller *poller = (struct iw_poller *)base;
	struct iw_listener *listener = calloc(1, sizeof(*listener));
	int fd, err;

	if (!listener)
		return -ENOMEM;
	fd = open_socket(iw_poller_fabric(poller), addr, addr_size);
	if (fd < 0) {
		free(listener);
		return fd;
	}
	iw_source_init(&listener->source, IW_LISTENER, fd);
	rf_list_init(&listener->incomings);
	err = iw_source_watch(poller, &listener->source, EPOLLIN);
	if (err) {
		close(fd);
		free(listener);
		return err;
	}
	listener->base.poller = base;
	listener->on_request = on_request;
	listener->context = context;
	*out = &listener->base;
	return 0;
}

int iw_listener_address(const struct rf_listener *base,
			struct sockaddr_storage *out)
{
	const struct iw_listener *listener = (const struct iw_listener *)base;
	socklen_t size = sizeof(*out);

	if (getsockname(listener->source.fd, (struct sockaddr *)out, &size) < 0)
		return -errno;
	return 0;
}

void iw_listener_close(struct rf_listener *base)
{
	struct iw_listener *listener = (struct iw_listener *)base;
	struct iw_poller *poller = listener_poller(listener);

	while (!rf_list_is_empty(&listener->incomings))
		iw_incoming_drop(rf_container_of(listener->incomings.next,
						 struct iw_incoming,
						 in_listener));
	listener->is_closed = true;
	iw_source_close(poller, &listener->source);
	if (poller->base.is_running)
		iw_source_bury(poller, &listener->source);
	else
		free(listener);
}

/* ---- half-open connections --------------------------------------------- */

static void leave_half_open(struct iw_poller *poller,
			    struct iw_incoming *incoming)
{
	if (rf_list_is_empty(&incoming->half_open))
		return;
	rf_list_remove(&incoming->half_open);
	rf_list_remove(&incoming->source.deadline);
	poller->half_open_count--;
}

static void bury_incoming(struct iw_poller *poller,
			  struct iw_incoming *incoming)
{
	leave_half_open(poller, incoming);
	rf_list_remove(&incoming->in_listener);
	iw_source_close(poller, &incoming->source);
	if (poller->base.is_running)
		iw_source_bury(poller, &incoming->source);
	else
		free(incoming);
}

void iw_incoming_drop(struct iw_incoming *incoming)
{
	struct iw_listener *listener =
		(struct iw_listener *)incoming->base.listener;

	bury_incoming(listener_poller(listener), incoming);
}

int iw_incoming_take(struct iw_incoming *incoming)
{
	struct iw_listener *listener =
		(struct iw_listener *)incoming->base.listener;
	struct iw_poller *poller = listener_poller(listener);
	int fd = incoming->source.fd;

	iw_source_watch(poller, &incoming->source, 0);
	incoming->source.fd = -1;
	bury_incoming(poller, incoming);
	return fd;
}

static void drop_oldest(struct iw_poller *poller)
{
	if (poller->half_open_count)
		iw_incoming_drop(rf_container_of(poller->half_open.next,
						 struct iw_incoming,
						 half_open));
}

static void add_incoming(struct iw_listener *listener, int fd)
{
	struct iw_poller *poller = listener_poller(listener);
	struct iw_incoming *incoming = calloc(1, sizeof(*incoming));

	if (!incoming) {
		close(fd);
		return;
	}
	if (poller->half_open_count >= IW_HALF_OPEN_MAX)
		drop_oldest(poller);
	incoming->base.listener = &listener->base;
	iw_source_init(&incoming->source, IW_INCOMING, fd);
	rf_list_init(&incoming->in_listener);
	rf_list_init(&incoming->half_open);
	rf_list_push(&listener->incomings, &incoming->in_listener);
	rf_list_push(&poller->half_open, &incoming->half_open);
	poller->half_open_count++;
	iw_source_deadline(poller, &incoming->source, IW_HALF_OPEN_MS);
	if (iw_source_watch(poller, &incoming->source, EPOLLIN) < 0)
		iw_incoming_drop(incoming);
}

/* Give a descriptor back, or wait: level-triggered epoll would spin. */
static void out_of_descriptors(struct iw_listener *listener)
{
	struct iw_poller *poller = listener_poller(listener);

	rf_log(RF_LOG_WARN, "iwarp: no descriptors left to accept connections; "
	       "raise the limit of open files (ulimit -n)");
	drop_oldest(poller);
	iw_source_watch(poller, &listener->source, 0);
	iw_source_deadline(poller, &listener->source, IW_ACCEPT_RETRY_MS);
}

void iw_listener_event(struct iw_listener *listener)
{
	for (int i = 0; i < IW_ACCEPTS; i++) {
		int fd = accept4(listener->source.fd, NULL, NULL,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);
		int one = 1;

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE ||
			    errno == ENOBUFS || errno == ENOMEM)
				out_of_descriptors(listener);
			return;
		}
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		add_incoming(listener, fd);
	}
}

/* We send no markers, so who asks for them can't talk to us (RFC 5044 4.3). */
static bool request_is_possible(const struct iw_mpa *request)
{
	return !request->wants_markers &&
	       request->hello_size <= IW_MPA_PRIVATE_MAX;
}

static void request_is_whole(struct iw_incoming *incoming)
{
	struct iw_listener *listener =
		(struct iw_listener *)incoming->base.listener;
	struct iw_poller *poller = listener_poller(listener);

	leave_half_open(poller, incoming);
	/* Nothing more is expected, but a peer that goes away shows. */
	iw_source_watch(poller, &incoming->source, 0);
	incoming->is_asking = true;
	if (!request_is_possible(&incoming->request)) {
		iw_ep_reject(&incoming->base, NULL, 0);
		return;
	}
	poller->callbacks++;
	listener->on_request(listener->context, &incoming->base,
			     incoming->request.hello,
			     incoming->request.hello_size);
}

void iw_incoming_event(struct iw_incoming *incoming)
{
	size_t missing;
	ssize_t got;
	int size;

	for (;;) {
		missing = iw_mpa_missing(incoming->frame, incoming->have);
		got = recv(incoming->source.fd,
			   incoming->frame + incoming->have, missing, 0);
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (got <= 0)
			break;
		incoming->have += (size_t)got;
		size = iw_mpa_decode(&incoming->request, false,
				     incoming->frame, incoming->have);
		if (size < 0)
			break;
		if (size > 0) {
			request_is_whole(incoming);
			return;
		}
	}
	iw_incoming_drop(incoming);
}

int iw_incoming_peer(const struct rf_incoming *base,
		     struct sockaddr_storage *out)
{
	const struct iw_incoming *incoming = (const struct iw_incoming *)base;
	socklen_t size = sizeof(*out);

	if (getpeername(incoming->source.fd, (struct sockaddr *)out, &size) < 0)
		return -errno;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iwarp_fabric.c - the fabric, its protection domains, regions and windows
 *
 * Registration pins nothing: the kernel copies to and from our memory inside
 * send and receive calls.  A region without a remote right costs an allocation
 * and has no key at all; its windows have.
 */
#include "iwarp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct rf_limits iw_limits = {
	.msg_size_max = IW_MSG_SIZE_MAX,
	.rdma_size_max = IW_RDMA_SIZE_MAX,
	.hello_size_max = IW_HELLO_SIZE_MAX,
	.sge_count_max = IW_SGE_MAX,
	.read_sge_count_max = IW_SGE_MAX,
	.reads_max = IW_READS_MAX,
	.read_block = IW_READ_BLOCK,
	.send_depth_max = IW_DEPTH_MAX,
	.recv_depth_max = IW_DEPTH_MAX,
};

static int iw_open(const char *rest, struct rf_fabric **out)
{
	struct iw_fabric *fab;
	bool wants_crc = true;

	if (strcmp(rest, "?crc=0") == 0)
		wants_crc = false;
	else if (strcmp(rest, "") != 0 && strcmp(rest, "?crc=1") != 0)
		return -EINVAL;
	fab = calloc(1, sizeof(*fab));
	if (!fab)
		return -ENOMEM;
	fab->base.ops = &rf_iwarp_ops;
	fab->base.limits = iw_limits;
	fab->base.level = RF_LEVEL_WINDOW;
	fab->base.traits = (struct rf_traits){
		.takes_tcp_ports = true,
		.tells_owner = true,
		.tells_offender = true,
		.sees_access = true,
		.guards_reads = true,
		.guards_invalidate = true,
		.keeps_reads_in = true,
		/* Either side's wish is enough: RFC 5044 section 7.1.1. */
		.checks_data = wants_crc,
		.tells_empty_reject = true,
	};
	fab->wants_crc = wants_crc;
	iw_keys_init(&fab->keys);
	pthread_mutex_init(&fab->lock, NULL);
	rf_list_init(&fab->pollers);
	*out = &fab->base;
	return 0;
}

static void iw_close(struct rf_fabric *base)
{
	struct iw_fabric *fab = (struct iw_fabric *)base;

	RF_ASSERT(rf_list_is_empty(&fab->pollers));
	RF_ASSERT(atomic_load(&fab->pd_count) == 0);
	iw_keys_fini(&fab->keys);
	pthread_mutex_destroy(&fab->lock);
	free(fab);
}

/* A datagram socket asks the kernel for the route and sends nothing. */
static int iw_route(const struct sockaddr *source, const struct sockaddr *addr,
		    socklen_t addr_size, char *uri, size_t uri_size)
{
	int fd = socket(addr->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return -ENETUNREACH;
	/* One of another family than addr's can't be where we come from. */
	err = source && bind(fd, source, addr_size) ? -EADDRNOTAVAIL : 0;
	if (!err && connect(fd, addr, addr_size))
		err = -ENETUNREACH;
	close(fd);
	if (err)
		return err;
	if (snprintf(uri, uri_size, "iwarp://") >= (int)uri_size)
		return -ENAMETOOLONG;
	return 0;
}

void iw_set_traffic_class(const struct iw_fabric *fab, int fd, int family)
{
	int class = fab->base.tuning.traffic_class;

	if (class < 0)
		return;
	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &class,
			   sizeof(class));
	else
		setsockopt(fd, IPPROTO_IP, IP_TOS, &class, sizeof(class));
}

/* ---- statistics -------------------------------------------------------- */

#define ADD(field)							\
	(sum->field += atomic_load_explicit(&stats->field,		\
					    memory_order_relaxed))

void iw_stats_add(struct rf_fabric_stats *sum, const struct iw_stats *stats)
{
	ADD(binds);
	ADD(invalidates);
	ADD(sends);
	ADD(recvs);
	ADD(reads);
	ADD(writes);
	ADD(send_bytes);
	ADD(recv_bytes);
	ADD(read_bytes);
	ADD(write_bytes);
	ADD(reads_served);
	ADD(read_bytes_served);
	ADD(writes_landed);
	ADD(write_bytes_landed);
	ADD(rights_refused);
	ADD(connects);
	ADD(accepts);
	ADD(rejects);
	ADD(closes);
	ADD(retransmissions);
}

static uint64_t socket_retransmissions(int fd)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
		return 0;
	return info.tcpi_total_retrans;
}

static void iw_stats(const struct rf_fabric *base, struct rf_fabric_stats *out)
{
	struct iw_fabric *fab = (struct iw_fabric *)(uintptr_t)base;
	struct rf_list *p, *e;

	pthread_mutex_lock(&fab->lock);
	*out = fab->gone;
	rf_list_for_each(p, &fab->pollers) {
		struct iw_poller *poller =
			rf_container_of(p, struct iw_poller, in_fabric);

		iw_stats_add(out, &poller->stats);
		rf_list_for_each(e, &poller->eps) {
			struct iw_ep *ep =
				rf_container_of(e, struct iw_ep, in_poller);

			out->retransmissions +=
				socket_retransmissions(ep->source.fd);
		}
	}
	pthread_mutex_unlock(&fab->lock);
	out->registrations = atomic_load(&fab->registrations);
	out->deregistrations = atomic_load(&fab->deregistrations);
}

/* ---- domains and regions ----------------------------------------------- */

static int iw_pd_create(struct rf_fabric *fab, struct rf_pd **out)
{
	struct rf_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return -ENOMEM;
	pd->fab = fab;
	atomic_fetch_add(&((struct iw_fabric *)fab)->pd_count, 1);
	*out = pd;
	return 0;
}

static void iw_pd_destroy(struct rf_pd *pd)
{
	atomic_fetch_sub(&((struct iw_fabric *)pd->fab)->pd_count, 1);
	free(pd);
}

static int iw_mr_register(struct rf_pd *pd, void *base, size_t size,
			  unsigned int access, struct rf_mr **out)
{
	const unsigned int remote = RF_REMOTE_READ | RF_REMOTE_WRITE;
	struct iw_fabric *fab = (struct iw_fabric *)pd->fab;
	struct iw_mr *mr = calloc(1, sizeof(*mr));
	int err;

	if (!mr)
		return -ENOMEM;
	mr->base = (struct rf_mr){ .pd = pd, .base = base, .size = size,
				   .access = access };
	if (access & remote) {
		err = iw_key_alloc(&fab->keys, &mr->key);
		if (err) {
			free(mr);
			return err;
		}
		mr->key->base = (uintptr_t)base;
		mr->key->size = size;
		mr->key->access = access & remote;
		mr->base.rkey = iw_key_next(mr->key);
		iw_key_arm(mr->key, IW_KEY_REGION, pd, mr->base.rkey);
	}
	atomic_fetch_add(&fab->registrations, 1);
	*out = &mr->base;
	return 0;
}

static void iw_mr_deregister(struct rf_mr *base)
{
	struct iw_fabric *fab = (struct iw_fabric *)base->pd->fab;
	struct iw_mr *mr = (struct iw_mr *)base;

	if (mr->key) {
		iw_key_kill(mr->key);
		iw_key_free(&fab->keys, mr->key);
	}
	atomic_fetch_add(&fab->deregistrations, 1);
	free(mr);
}

/* ---- windows ----------------------------------------------------------- */

static int iw_window_create(struct rf_pd *pd, struct rf_window **out)
{
	struct iw_fabric *fab = (struct iw_fabric *)pd->fab;
	struct iw_window *window = calloc(1, sizeof(*window));
	int err;

	if (!window)
		return -ENOMEM;
	err = iw_key_alloc(&fab->keys, &window->key);
	if (err) {
		free(window);
		return err;
	}
	window->base.pd = pd;
	window->key->window = window;
	rf_list_init(&window->bound);
	*out = &window->base;
	return 0;
}

static void iw_window_destroy(struct rf_window *base)
{
	struct iw_fabric *fab = (struct iw_fabric *)base->pd->fab;
	struct iw_window *window = (struct iw_window *)base;

	iw_key_free(&fab->keys, window->key);
	free(window);
}

static uint32_t iw_window_next_key(struct rf_window *base)
{
	return iw_key_next(((struct iw_window *)base)->key);
}

void iw_window_arm(struct iw_window *window, struct iw_ep *ep)
{
	struct iw_key *key = window->key;

	key->base = window->base.remote.addr;
	key->size = window->base.remote.size;
	key->access = window->base.access;
	iw_key_arm(key, IW_KEY_WINDOW, ep, window->base.remote.rkey);
	rf_list_push(&ep->windows, &window->bound);
	iw_count(&iw_ep_poller(ep)->stats.binds, 1);
}

void iw_window_disarm(struct iw_window *window)
{
	struct iw_ep *ep = (struct iw_ep *)window->base.ep;
	uint32_t value = atomic_load(&window->key->live);

	iw_key_kill(window->key);
	atomic_store(&window->key->owner, NULL);
	rf_list_remove(&window->bound);
	iw_tx_detach(ep, value);
	iw_count(&iw_ep_poller(ep)->stats.invalidates, 1);
}

void iw_window_free(struct iw_window *window)
{
	window->base.state = RF_WINDOW_FREE;
	window->base.ep = NULL;
}

const struct rf_fabric_ops rf_iwarp_ops = {
	.scheme = "iwarp",
	.open = iw_open,
	.close = iw_close,
	.route = iw_route,
	.stats = iw_stats,
	.pd_create = iw_pd_create,
	.pd_destroy = iw_pd_destroy,
	.mr_register = iw_mr_register,
	.mr_deregister = iw_mr_deregister,
	.window_create = iw_window_create,
	.window_destroy = iw_window_destroy,
	.window_next_key = iw_window_next_key,
	.poller_create = iw_poller_create,
	.poller_destroy = iw_poller_destroy,
	.poller_run = iw_poller_run,
	.poller_fd = iw_poller_fd,
	.poller_arm = iw_poller_arm,
	.ep_connect = iw_ep_connect,
	.ep_accept = iw_ep_accept,
	.ep_reject = iw_ep_reject,
	.ep_close = iw_ep_close,
	.ep_addresses = iw_ep_addresses,
	.ep_post = iw_ep_post,
	.ep_post_recv = iw_ep_post_recv,
	.listener_open = iw_listener_open,
	.listener_address = iw_listener_address,
	.listener_close = iw_listener_close,
	.incoming_peer = iw_incoming_peer,
};

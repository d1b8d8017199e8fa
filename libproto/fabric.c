/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric.c - the checks that every transport shares, then its table
 *
 * A broken rule of fabric.h aborts here, before the transport sees it.
 */
#include "fabric_impl.h"

#include "base.h"

#include <errno.h>
#include <poll.h>

static const struct rf_fabric_ops *const transports[] = {
	&rf_iwarp_ops,
	&rf_loop_ops,
#ifdef RF_HAVE_VERBS
	&rf_verbs_ops,
#endif
};

static const struct rf_fabric_ops *find_transport(const char *scheme,
						   size_t size)
{
	for (size_t i = 0; i < RF_ARRAY_SIZE(transports); i++)
		if (strlen(transports[i]->scheme) == size &&
		    memcmp(transports[i]->scheme, scheme, size) == 0)
			return transports[i];
	return NULL;
}

/* Its address tells threads apart, without a call for each message. */
static __thread char this_thread;

static void check_owner(struct rf_poller *poller)
{
	if (!poller->owner)
		poller->owner = &this_thread;
	RF_ASSERT(poller->owner == &this_thread);
}

/* ---- fabric ------------------------------------------------------------ */

int rf_fabric_open(const char *uri, struct rf_fabric **out)
{
	const char *colon = strstr(uri, "://");
	const struct rf_fabric_ops *ops;
	int err;

	if (!colon)
		return -EINVAL;
	ops = find_transport(uri, (size_t)(colon - uri));
	if (!ops)
		return -ENODEV;
	err = ops->open(colon + 3, out);
	if (!err)
		(*out)->tuning = (struct rf_tuning)RF_TUNING_DEFAULT;
	return err;
}

int rf_fabric_tune(struct rf_fabric *fab, const struct rf_tuning *tuning)
{
	int err = 0;

	RF_ASSERT(tuning->traffic_class >= -1 &&
		  tuning->traffic_class <= RF_TRAFFIC_CLASS_MAX);
	RF_ASSERT(tuning->gid_index >= -1 &&
		  tuning->gid_index <= RF_GID_INDEX_MAX);
	if (fab->ops->may_tune)
		err = fab->ops->may_tune(fab, tuning);
	else if (tuning->gid_index >= 0)
		err = -EOPNOTSUPP;
	if (!err)
		fab->tuning = *tuning;
	return err;
}

void rf_fabric_close(struct rf_fabric *fab)
{
	fab->ops->close(fab);
}

bool rf_fabric_is_gone(const struct rf_fabric *fab)
{
	return __atomic_load_n(&fab->is_gone, __ATOMIC_ACQUIRE);
}

int rf_fabric_route_from(const char *scheme, const struct sockaddr *source,
			 const struct sockaddr *addr, socklen_t addr_size,
			 char *uri, size_t uri_size)
{
	const struct rf_fabric_ops *ops = find_transport(scheme, strlen(scheme));

	if (!ops || !ops->route)
		return -ENETUNREACH;
	return ops->route(source, addr, addr_size, uri, uri_size);
}

int rf_fabric_route(const char *scheme, const struct sockaddr *addr,
		    socklen_t addr_size, char *uri, size_t uri_size)
{
	return rf_fabric_route_from(scheme, NULL, addr, addr_size, uri,
				    uri_size);
}

const char *rf_fabric_scheme(const struct rf_fabric *fab)
{
	return fab->ops->scheme;
}

const struct rf_limits *rf_fabric_limits(const struct rf_fabric *fab)
{
	return &fab->limits;
}

enum rf_level rf_fabric_level(const struct rf_fabric *fab)
{
	return fab->level;
}

const struct rf_traits *rf_fabric_traits(const struct rf_fabric *fab)
{
	return &fab->traits;
}

bool rf_fabric_pins_memory(const struct rf_fabric *fab)
{
	return fab->pins_memory;
}

void rf_fabric_stats(const struct rf_fabric *fab, struct rf_fabric_stats *out)
{
	fab->ops->stats(fab, out);
}

/* ---- protection domains and memory ------------------------------------- */

int rf_pd_create(struct rf_fabric *fab, struct rf_pd **out)
{
	return fab->ops->pd_create(fab, out);
}

void rf_pd_destroy(struct rf_pd *pd)
{
	pd->fab->ops->pd_destroy(pd);
}

struct rf_fabric *rf_pd_fabric(const struct rf_pd *pd)
{
	return pd->fab;
}

int rf_mr_register(struct rf_pd *pd, void *base, size_t size,
		   unsigned int access, struct rf_mr **out)
{
	RF_ASSERT(size > 0);
	return pd->fab->ops->mr_register(pd, base, size, access, out);
}

void rf_mr_deregister(struct rf_mr *mr)
{
	mr->pd->fab->ops->mr_deregister(mr);
}

static bool mr_contains(const struct rf_mr *mr, const void *addr, size_t size)
{
	uintptr_t base = (uintptr_t)mr->base, at = (uintptr_t)addr;

	return at >= base && size <= mr->size && at - base <= mr->size - size;
}

struct rf_remote rf_mr_remote(const struct rf_mr *mr, const void *addr,
			      uint32_t size)
{
	RF_ASSERT(mr->access & (RF_REMOTE_READ | RF_REMOTE_WRITE));
	RF_ASSERT(size > 0 && mr_contains(mr, addr, size));
	return (struct rf_remote){ (uintptr_t)addr, mr->rkey, size };
}

int rf_window_create(struct rf_pd *pd, struct rf_window **out)
{
	if (pd->fab->level != RF_LEVEL_WINDOW)
		return -EOPNOTSUPP;
	return pd->fab->ops->window_create(pd, out);
}

void rf_window_destroy(struct rf_window *window)
{
	RF_ASSERT(!rf_window_is_bound(window));
	window->pd->fab->ops->window_destroy(window);
}

struct rf_remote rf_window_next(struct rf_window *window,
				const struct rf_mr *mr, void *addr,
				uint32_t size, unsigned int access)
{
	const unsigned int remote_rights = RF_REMOTE_READ | RF_REMOTE_WRITE;

	RF_ASSERT(!rf_window_is_bound(window));
	RF_ASSERT(mr->pd == window->pd);
	RF_ASSERT(mr->access & RF_WINDOW_BIND);
	RF_ASSERT(access && (access | remote_rights) == remote_rights);
	RF_ASSERT(!(access & RF_REMOTE_WRITE) || (mr->access & RF_LOCAL_WRITE));
	RF_ASSERT(size > 0 && mr_contains(mr, addr, size));
	window->mr = mr;
	window->access = access;
	window->remote.addr = (uintptr_t)addr;
	window->remote.size = size;
	window->remote.rkey = window->pd->fab->ops->window_next_key(window);
	window->state = RF_WINDOW_CHOSEN;
	return window->remote;
}

bool rf_window_is_bound(const struct rf_window *window)
{
	return window->state == RF_WINDOW_BOUND ||
	       window->state == RF_WINDOW_UNBINDING;
}

bool rf_window_awaits_bind(const struct rf_window *window)
{
	return window->state == RF_WINDOW_CHOSEN;
}

/* ---- poller ------------------------------------------------------------ */

int rf_poller_create(struct rf_fabric *fab, uint32_t ops_max,
		     struct rf_poller **out)
{
	return fab->ops->poller_create(fab, ops_max, out);
}

void rf_poller_destroy(struct rf_poller *poller)
{
	poller->fab->ops->poller_destroy(poller);
}

void rf_poller_on_gone(struct rf_poller *poller, void (*gone)(void *context),
		       void *context)
{
	check_owner(poller);
	poller->gone = gone;
	poller->gone_context = context;
}

unsigned int rf_poller_run(struct rf_poller *poller, unsigned int budget)
{
	unsigned int count;

	check_owner(poller);
	RF_ASSERT(!poller->is_running);
	poller->is_running = true;
	count = poller->fab->ops->poller_run(poller, budget);
	poller->is_running = false;
	return count;
}

int rf_poller_fd(const struct rf_poller *poller)
{
	return poller->fab->ops->poller_fd(poller);
}

int rf_poller_arm(struct rf_poller *poller)
{
	check_owner(poller);
	return poller->fab->ops->poller_arm(poller);
}

unsigned int rf_poller_wait(struct rf_poller *poller, unsigned int budget,
			    int wait_ms)
{
	unsigned int count = rf_poller_run(poller, budget);
	struct pollfd fd = { .fd = rf_poller_fd(poller), .events = POLLIN };
	int limit_ms;

	if (count || wait_ms == 0)
		return count;
	limit_ms = rf_poller_arm(poller);
	if (limit_ms >= 0 && (wait_ms < 0 || limit_ms < wait_ms))
		wait_ms = limit_ms;
	if (wait_ms != 0)
		poll(&fd, 1, wait_ms);
	return rf_poller_run(poller, budget);
}

/* ---- connections ------------------------------------------------------- */

static void check_config(const struct rf_fabric *fab,
			 const struct rf_ep_config *config, size_t hello_size)
{
	RF_ASSERT(config->pd && config->pd->fab == fab);
	RF_ASSERT(config->send_depth > 0 &&
		  config->send_depth <= fab->limits.send_depth_max);
	RF_ASSERT(config->recv_depth > 0 &&
		  config->recv_depth <= fab->limits.recv_depth_max);
	RF_ASSERT(hello_size <= fab->limits.hello_size_max);
}

static void check_recv(const struct rf_fabric *fab, const struct rf_recv *recv)
{
	const struct rf_sge *sge = &recv->sge;

	RF_ASSERT(sge->size > 0 && sge->size <= fab->limits.msg_size_max);
	RF_ASSERT(sge->mr->access & RF_LOCAL_WRITE);
	RF_ASSERT(mr_contains(sge->mr, sge->addr, sge->size));
	RF_ASSERT(recv->op->done && recv->op->state == RF_OP_IDLE);
}

int rf_ep_connect(struct rf_poller *poller,
		  const struct sockaddr *addr, socklen_t addr_size,
		  const void *hello, size_t hello_size,
		  const struct rf_ep_config *config,
		  const struct rf_ep_events *events, void *context,
		  struct rf_ep **out)
{
	check_owner(poller);
	check_config(poller->fab, config, hello_size);
	return poller->fab->ops->ep_connect(poller, addr, addr_size, hello,
					    hello_size, config, events, context,
					    out);
}

int rf_ep_accept(struct rf_incoming *incoming, struct rf_poller *poller,
		 const void *hello, size_t hello_size,
		 const struct rf_ep_config *config,
		 const struct rf_ep_events *events, void *context,
		 const struct rf_recv *recvs, unsigned int recv_count,
		 struct rf_ep **out)
{
	int err;

	check_owner(incoming->listener->poller);
	check_owner(poller);
	RF_ASSERT(poller->fab == incoming->listener->poller->fab);
	check_config(poller->fab, config, hello_size);
	RF_ASSERT(recv_count <= config->recv_depth);
	for (unsigned int i = 0; i < recv_count; i++) {
		check_recv(poller->fab, &recvs[i]);
		recvs[i].op->state = RF_OP_POSTED;
	}
	err = poller->fab->ops->ep_accept(incoming, poller, hello, hello_size,
					  config, events, context, recvs,
					  recv_count, out);
	if (err)
		for (unsigned int i = 0; i < recv_count; i++)
			recvs[i].op->state = RF_OP_IDLE;
	return err;
}

void rf_ep_reject(struct rf_incoming *incoming, const void *hello,
		  size_t hello_size)
{
	struct rf_poller *poller = incoming->listener->poller;

	check_owner(poller);
	RF_ASSERT(hello_size <= poller->fab->limits.hello_size_max);
	poller->fab->ops->ep_reject(incoming, hello, hello_size);
}

void *rf_ep_context(const struct rf_ep *ep)
{
	return ep->context;
}

struct rf_poller *rf_ep_poller(const struct rf_ep *ep)
{
	return ep->poller;
}

const struct rf_limits *rf_ep_limits(const struct rf_ep *ep)
{
	return &ep->limits;
}

int rf_ep_addresses(const struct rf_ep *ep, struct sockaddr_storage *local,
		    struct sockaddr_storage *peer)
{
	return ep->poller->fab->ops->ep_addresses(ep, local, peer);
}

void rf_ep_close(struct rf_ep *ep)
{
	check_owner(ep->poller);
	ep->poller->fab->ops->ep_close(ep);
}

int rf_listener_open(struct rf_poller *poller,
		     const struct sockaddr *addr, socklen_t addr_size,
		     rf_request_fn on_request, void *context,
		     struct rf_listener **out)
{
	check_owner(poller);
	return poller->fab->ops->listener_open(poller, addr, addr_size,
					       on_request, context, out);
}

int rf_listener_address(const struct rf_listener *listener,
			struct sockaddr_storage *out)
{
	return listener->poller->fab->ops->listener_address(listener, out);
}

void rf_listener_close(struct rf_listener *listener)
{
	check_owner(listener->poller);
	listener->poller->fab->ops->listener_close(listener);
}

int rf_incoming_peer(const struct rf_incoming *incoming,
		     struct sockaddr_storage *out)
{
	return incoming->listener->poller->fab->ops->incoming_peer(incoming,
								   out);
}

/* ---- operations -------------------------------------------------------- */

void rf_op_done(struct rf_op *op, int status)
{
	RF_ASSERT(op->state == RF_OP_POSTED);
	op->state = RF_OP_IDLE;
	op->done(op, status);
}

static void check_pieces(const struct rf_ep *ep, const struct rf_work *work)
{
	bool is_read = work->code == RF_READ;
	bool is_send = work->code == RF_SEND || work->code == RF_SEND_INV;
	uint64_t total = 0;

	RF_ASSERT(work->sge_count > 0);
	RF_ASSERT(work->sge_count <= (is_read ? ep->limits.read_sge_count_max
					      : ep->limits.sge_count_max));
	for (unsigned int i = 0; i < work->sge_count; i++) {
		const struct rf_sge *sge = &work->sge[i];

		RF_ASSERT(sge->size > 0);
		RF_ASSERT(sge->mr->pd == ep->pd);
		RF_ASSERT(!is_read || (sge->mr->access & RF_READ_SINK));
		RF_ASSERT(mr_contains(sge->mr, sge->addr, sge->size));
		total += sge->size;
	}
	RF_ASSERT(total <= (is_send ? ep->limits.msg_size_max
				    : ep->limits.rdma_size_max));
	RF_ASSERT(is_send || total == work->remote.size);
}

static void check_window(const struct rf_ep *ep, const struct rf_work *work)
{
	RF_ASSERT(work->window->pd == ep->pd);
	if (work->code == RF_BIND)
		RF_ASSERT(work->window->state == RF_WINDOW_CHOSEN);
	else
		RF_ASSERT(work->window->state == RF_WINDOW_BOUND &&
			  work->window->ep == ep);
}

/* Take the marks of works[0..count) back, after a failed post. */
static void unmark(const struct rf_work *works, unsigned int count)
{
	while (count-- > 0) {
		const struct rf_work *work = &works[count];

		if (work->op)
			work->op->state = RF_OP_IDLE;
		if (work->code == RF_BIND) {
			work->window->state = RF_WINDOW_CHOSEN;
			work->window->ep = NULL;
		} else if (work->code == RF_UNBIND) {
			work->window->state = RF_WINDOW_BOUND;
		}
	}
}

int rf_ep_post(struct rf_ep *ep, const struct rf_work *works,
	       unsigned int count)
{
	int err;

	check_owner(ep->poller);
	if (!ep->is_connected || ep->is_closing)
		return -ENOTCONN;
	RF_ASSERT(count > 0 && count <= ep->config.send_depth);
	for (unsigned int i = 0; i < count; i++) {
		const struct rf_work *work = &works[i];

		if (work->op) {
			RF_ASSERT(work->op->done &&
				  work->op->state == RF_OP_IDLE);
			work->op->state = RF_OP_POSTED;
		}
		if (work->code == RF_BIND || work->code == RF_UNBIND) {
			check_window(ep, work);
			work->window->state = work->code == RF_BIND ?
					      RF_WINDOW_BOUND :
					      RF_WINDOW_UNBINDING;
			work->window->ep = ep;
		} else {
			check_pieces(ep, work);
		}
	}
	err = ep->poller->fab->ops->ep_post(ep, works, count);
	if (err)
		unmark(works, count);
	return err;
}

int rf_ep_post_recv(struct rf_ep *ep, const struct rf_recv *recv)
{
	int err;

	check_owner(ep->poller);
	if (ep->is_closing)
		return -ENOTCONN;
	check_recv(ep->poller->fab, recv);
	RF_ASSERT(recv->sge.mr->pd == ep->pd);
	recv->op->state = RF_OP_POSTED;
	err = ep->poller->fab->ops->ep_post_recv(ep, recv);
	if (err)
		recv->op->state = RF_OP_IDLE;
	return err;
}

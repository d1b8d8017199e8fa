/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_fabric.c - devices, domains, regions, windows
 *
 * Device contexts are librdmacm's: it opens each device once in a process and
 * its connection ids use that context, so domains must too.
 */
#include "verbs_impl.h"

#include <errno.h>
#include <stdlib.h>

/* ---- devices ------------------------------------------------------------- */

static uint16_t clamp_u16(int value, int most)
{
	if (value < 1)
		return 1;
	return (uint16_t)(value < most ? value : most);
}

static void set_limits(struct verbs_fabric *fabric)
{
	const struct ibv_device_attr *attr = &fabric->attr;
	struct rf_limits *limits = &fabric->base.limits;
	int depth_max;

	limits->msg_size_max = VERBS_MSG_MAX;
	limits->rdma_size_max = VERBS_RDMA_MAX;
	limits->hello_size_max = fabric->is_iwarp ?
		VERBS_IWARP_PRIVATE_MAX :
		VERBS_PRIVATE_MAX - VERBS_PREFIX_SIZE;
	limits->sge_count_max = clamp_u16(attr->max_sge, VERBS_SGE_MAX);
	limits->read_sge_count_max = fabric->is_iwarp ?
		clamp_u16(attr->max_sge_rd, VERBS_SGE_MAX) :
		limits->sge_count_max;
	/* The largest that rdma_cm can say, and the device do. */
	limits->reads_max = clamp_u16(attr->max_qp_init_rd_atom < attr->max_qp_rd_atom ?
				      attr->max_qp_init_rd_atom :
				      attr->max_qp_rd_atom, UINT8_MAX);
	limits->read_block = VERBS_READ_BLOCK;
	/* One completion queue holds both, and one more than the caller's. */
	depth_max = attr->max_cqe / 2 - 1;
	depth_max = depth_max < attr->max_qp_wr - 1 ? depth_max :
						      attr->max_qp_wr - 1;
	limits->send_depth_max = clamp_u16(depth_max, VERBS_SEND_DEPTH_MAX);
	limits->recv_depth_max = clamp_u16(depth_max, VERBS_RECV_DEPTH_MAX);
}

/* Windows that can be bound by a work request and are tied to one connection. */
static bool has_windows(const struct ibv_device_attr *attr)
{
	return attr->max_mw > 0 &&
	       (attr->device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A |
					  IBV_DEVICE_MEM_WINDOW_TYPE_2B));
}

/* Completion events that can wait for more than one completion. */
static bool has_moderation(struct ibv_context *context)
{
	struct ibv_device_attr_ex attr = { .comp_mask = 0 };

	return ibv_query_device_ex(context, NULL, &attr) == 0 &&
	       attr.cq_mod_caps.max_cq_count > 1;
}

static int verbs_open(const char *rest, struct rf_fabric **out)
{
	struct verbs_fabric *fabric = calloc(1, sizeof(*fabric));
	struct ibv_context *context;
	int err;

	if (!fabric)
		return -ENOMEM;
	if (!verbs_context_get(fabric, rest)) {
		free(fabric);
		return -ENODEV;
	}
	context = fabric->context;
	err = ibv_query_device(context, &fabric->attr);
	if (err) {
		verbs_context_put(fabric);
		free(fabric);
		return -err;
	}
	fabric->base.ops = &rf_verbs_ops;
	fabric->is_iwarp =
		context->device->transport_type == IBV_TRANSPORT_IWARP;
	fabric->is_rxe = fabric->attr.vendor_id == VERBS_RXE_VENDOR;
	fabric->is_siw = fabric->attr.vendor_id == VERBS_SIW_VENDOR;
	fabric->has_prefix = !fabric->is_iwarp;
	fabric->base.level = has_windows(&fabric->attr) ? RF_LEVEL_WINDOW
							: RF_LEVEL_SESSION;
	fabric->base.pins_memory = true;
	/*
	 * An InfiniBand requester is told by the responder; of an iWARP device
	 * the peer's Terminate says it to the device only.  Whether a device
	 * tells its own program what it refused is not the same for all.
	 */
	fabric->base.traits = (struct rf_traits){
		.tells_offender = !fabric->is_iwarp,
		/* siw checks domain and range of a Read, not the right. */
		.guards_reads = !fabric->is_siw,
		.guards_invalidate = !fabric->is_rxe,
		.keeps_reads_in = !fabric->is_iwarp,
		.takes_tcp_ports = fabric->is_iwarp,
		.tells_empty_reject = !fabric->is_iwarp,
		.moderates_events = has_moderation(context),
	};
	set_limits(fabric);
	pthread_mutex_init(&fabric->lock, NULL);
	for (size_t i = 0; i < VERBS_KEY_BUCKETS; i++)
		rf_list_init(&fabric->windows[i]);
	*out = &fabric->base;
	return 0;
}

static void verbs_close(struct rf_fabric *fab)
{
	struct verbs_fabric *fabric = verbs_fabric_of(fab);

	verbs_context_put(fabric);
	pthread_mutex_destroy(&fabric->lock);
	free(fabric);
}

static void verbs_stats(const struct rf_fabric *fab, struct rf_fabric_stats *out)
{
	const struct verbs_fabric *fabric =
		rf_container_of(fab, const struct verbs_fabric, base);

	*out = fabric->stats;
}

/* ---- domains and regions ------------------------------------------------- */

static int verbs_pd_create(struct rf_fabric *fab, struct rf_pd **out)
{
	struct verbs_fabric *fabric = verbs_fabric_of(fab);
	struct verbs_pd *pd = calloc(1, sizeof(*pd));
	int err;

	if (!pd)
		return -ENOMEM;
	pd->base.fab = fab;
	pd->pd = ibv_alloc_pd(fabric->context);
	if (pd->pd && fabric->has_prefix)
		pd->probe_mr = ibv_reg_mr(pd->pd, pd->probe, sizeof(pd->probe),
					  IBV_ACCESS_LOCAL_WRITE |
					  IBV_ACCESS_REMOTE_READ);
	if (!pd->pd || (fabric->has_prefix && !pd->probe_mr)) {
		err = -errno;
		if (pd->pd)
			ibv_dealloc_pd(pd->pd);
		free(pd);
		return err;
	}
	*out = &pd->base;
	return 0;
}

static void verbs_pd_destroy(struct rf_pd *pd)
{
	struct verbs_pd *vpd = rf_container_of(pd, struct verbs_pd, base);

	if (vpd->probe_mr)
		verbs_must_be_gone(ibv_dereg_mr(vpd->probe_mr));
	verbs_must_be_gone(ibv_dealloc_pd(vpd->pd));
	free(vpd);
}

static int verbs_access(const struct verbs_fabric *fabric, unsigned int access)
{
	int out = 0;

	if (access & (RF_LOCAL_WRITE | RF_READ_SINK | RF_REMOTE_WRITE))
		out |= IBV_ACCESS_LOCAL_WRITE;
	if (access & RF_REMOTE_READ)
		out |= IBV_ACCESS_REMOTE_READ;
	if ((access & RF_REMOTE_WRITE) ||
	    ((access & RF_READ_SINK) && fabric->is_iwarp))
		out |= IBV_ACCESS_REMOTE_WRITE;
	if ((access & RF_WINDOW_BIND) &&
	    fabric->base.level == RF_LEVEL_WINDOW)
		out |= IBV_ACCESS_MW_BIND;
	return out;
}

static int verbs_mr_register(struct rf_pd *pd, void *base, size_t size,
			     unsigned int access, struct rf_mr **out)
{
	struct verbs_pd *vpd = rf_container_of(pd, struct verbs_pd, base);
	struct verbs_fabric *fabric = verbs_fabric_of(pd->fab);
	struct verbs_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return -ENOMEM;
	mr->mr = ibv_reg_mr(vpd->pd, base, size,
			    (unsigned int)verbs_access(fabric, access));
	if (!mr->mr) {
		int err = -errno;

		free(mr);
		return err;
	}
	mr->base = (struct rf_mr){ pd, base, size, access, mr->mr->rkey };
	mr->serial = __atomic_add_fetch(&fabric->regions_made, 1,
					__ATOMIC_RELAXED);
	VERBS_COUNT(fabric, registrations, 1);
	*out = &mr->base;
	return 0;
}

static void verbs_mr_deregister(struct rf_mr *mr)
{
	struct verbs_mr *vmr = rf_container_of(mr, struct verbs_mr, base);

	verbs_must_be_gone(ibv_dereg_mr(vmr->mr));
	VERBS_COUNT(verbs_fabric_of(mr->pd->fab), deregistrations, 1);
	free(vmr);
}

/* ---- windows ------------------------------------------------------------- */

/* A key is the window's index, for good, and eight bits of ours. */
static struct rf_list *bucket_of(struct verbs_fabric *fabric, uint32_t rkey)
{
	return &fabric->windows[(rkey >> 8) % VERBS_KEY_BUCKETS];
}

static int verbs_window_create(struct rf_pd *pd, struct rf_window **out)
{
	struct verbs_pd *vpd = rf_container_of(pd, struct verbs_pd, base);
	struct verbs_fabric *fabric = verbs_fabric_of(pd->fab);
	struct verbs_window *window = calloc(1, sizeof(*window));

	if (!window)
		return -ENOMEM;
	window->mw = ibv_alloc_mw(vpd->pd, IBV_MW_TYPE_2);
	if (!window->mw) {
		int err = -errno;

		free(window);
		return err;
	}
	window->base.pd = pd;
	window->qps_made = verbs_qps_made(fabric);
	rf_list_init(&window->bound_link);
	pthread_mutex_lock(&fabric->lock);
	rf_list_push(bucket_of(fabric, window->mw->rkey), &window->link);
	pthread_mutex_unlock(&fabric->lock);
	*out = &window->base;
	return 0;
}

static void verbs_window_destroy(struct rf_window *window)
{
	struct verbs_window *vw =
		rf_container_of(window, struct verbs_window, base);
	struct verbs_fabric *fabric = verbs_fabric_of(window->pd->fab);

	pthread_mutex_lock(&fabric->lock);
	rf_list_remove(&vw->link);
	pthread_mutex_unlock(&fabric->lock);
	verbs_must_be_gone(ibv_dealloc_mw(vw->mw));
	if (vw->own)
		verbs_must_be_gone(ibv_dereg_mr(vw->own));
	free(vw);
}

int verbs_window_region(struct verbs_window *window, struct ibv_mr **out)
{
	const struct rf_remote *lent = &window->base.remote;
	const struct verbs_mr *mr =
		rf_container_of(window->base.mr, const struct verbs_mr, base);
	struct ibv_mr *own = window->own;

	if (!verbs_fabric_of(window->base.pd->fab)->is_rxe) {
		*out = mr->mr;
		return 0;
	}
	if (!own || window->own_serial != mr->serial ||
	    (uintptr_t)own->addr != lent->addr || own->length != lent->size) {
		if (own)
			verbs_must_be_gone(ibv_dereg_mr(own));
		window->own = own =
			ibv_reg_mr(mr->mr->pd, (void *)(uintptr_t)lent->addr,
				   lent->size,
				   (mr->base.access & RF_LOCAL_WRITE ?
					    IBV_ACCESS_LOCAL_WRITE : 0) |
				   IBV_ACCESS_MW_BIND);
		window->own_serial = mr->serial;
	}
	*out = own;
	return own ? 0 : -errno;
}

struct verbs_window *verbs_find_window(struct verbs_fabric *fabric,
				       uint32_t rkey)
{
	struct verbs_window *found = NULL;
	struct rf_list *pos;

	pthread_mutex_lock(&fabric->lock);
	rf_list_for_each(pos, bucket_of(fabric, rkey)) {
		struct verbs_window *window =
			rf_container_of(pos, struct verbs_window, link);

		if (window->base.remote.rkey == rkey)
			found = window;
	}
	pthread_mutex_unlock(&fabric->lock);
	return found;
}

void verbs_window_freed(struct rf_window *window)
{
	struct verbs_window *vw =
		rf_container_of(window, struct verbs_window, base);

	rf_list_remove(&vw->bound_link);
	window->state = RF_WINDOW_FREE;
	window->ep = NULL;
	VERBS_COUNT(verbs_fabric_of(window->pd->fab), invalidates, 1);
}

/* Its right is dead when this returns.  False: there is no other to be had. */
static bool renew_window(struct verbs_fabric *fabric, struct verbs_window *vw)
{
	struct verbs_pd *vpd =
		rf_container_of(vw->base.pd, struct verbs_pd, base);
	const uint32_t qps_made = verbs_qps_made(fabric);
	struct ibv_mw *fresh = ibv_alloc_mw(vpd->pd, IBV_MW_TYPE_2);

	if (!fresh)
		return false;
	pthread_mutex_lock(&fabric->lock);
	rf_list_remove(&vw->link);
	verbs_must_be_gone(ibv_dealloc_mw(vw->mw));
	vw->mw = fresh;
	vw->qps_made = qps_made;
	vw->next_key = 0;
	rf_list_push(bucket_of(fabric, fresh->rkey), &vw->link);
	pthread_mutex_unlock(&fabric->lock);
	return true;
}

static uint32_t verbs_window_next_key(struct rf_window *window)
{
	struct verbs_window *vw =
		rf_container_of(window, struct verbs_window, base);
	struct verbs_fabric *fabric = verbs_fabric_of(window->pd->fab);

	/* If none is to be had, the old one is as good while we live. */
	if (fabric->is_rxe && vw->qps_made != verbs_qps_made(fabric))
		renew_window(fabric, vw);
	/*
	 * mw->rkey stays what the device knows until the bind is posted:
	 * providers name the window by it.
	 */
	if (vw->next_key == 0)
		vw->next_key = vw->mw->rkey;
	vw->next_key = ibv_inc_rkey(vw->next_key);
	return vw->next_key;
}

/* If the device is gone, the old one is as dead, and never used again. */
static void no_other_window(const struct verbs_fabric *fabric)
{
	if (errno == EIO)
		return;
	rf_log(RF_LOG_ERROR, "%s: no memory window to replace one of a "
	       "closed connection: %s",
	       ibv_get_device_name(fabric->context->device), strerror(errno));
	RF_ASSERT(false);
}

/*
 * A bound window holds its queue pair, and can't be bound again: give it a new
 * memory window.
 */
void verbs_free_windows_of(struct verbs_fabric *fabric, struct verbs_ep *ep)
{
	struct rf_list *item;

	while ((item = rf_list_pop(&ep->bound))) {
		struct verbs_window *vw =
			rf_container_of(item, struct verbs_window, bound_link);

		if (!renew_window(fabric, vw))
			no_other_window(fabric);
		verbs_window_freed(&vw->base);
	}
}

const struct rf_fabric_ops rf_verbs_ops = {
	.scheme = "verbs",
	.open = verbs_open,
	.close = verbs_close,
	.route = verbs_route,
	.may_tune = verbs_may_tune,
	.stats = verbs_stats,
	.pd_create = verbs_pd_create,
	.pd_destroy = verbs_pd_destroy,
	.mr_register = verbs_mr_register,
	.mr_deregister = verbs_mr_deregister,
	.window_create = verbs_window_create,
	.window_destroy = verbs_window_destroy,
	.window_next_key = verbs_window_next_key,
	.poller_create = verbs_poller_create,
	.poller_destroy = verbs_poller_destroy,
	.poller_run = verbs_poller_run,
	.poller_fd = verbs_poller_fd,
	.poller_arm = verbs_poller_arm,
	.ep_connect = verbs_ep_connect,
	.ep_accept = verbs_ep_accept,
	.ep_reject = verbs_ep_reject,
	.ep_close = verbs_ep_close,
	.ep_addresses = verbs_ep_addresses,
	.ep_post = verbs_ep_post,
	.ep_post_recv = verbs_ep_post_recv,
	.listener_open = verbs_listener_open,
	.listener_address = verbs_listener_address,
	.listener_close = verbs_listener_close,
	.incoming_peer = verbs_incoming_peer,
};

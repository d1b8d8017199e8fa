/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_queue.c - work requests and completions of one endpoint
 *
 * Operation.  A post copies works into a ring, already in the device's form, and
 * gives them to the device in one chain, or later, when the peer has spoken.
 * wr_id is the place in the ring.  Works end in the order posted.  A completion
 * stands for all works before it, so those without an op are not signalled, but
 * for one in each quarter of the ring.  On iWARP devices it does not stand for
 * earlier Reads, which complete when their data come, long after what was sent
 * behind them: there each Read is signalled, and what follows it waits.  On siw
 * each work is: from the pages of one without a notice it sends without a copy, so
 * that TCP may still need them when the work behind it is complete
 * (siw_qp_prepare_tx() of Linux).
 *
 * When it fails.  After an error each work given to the device completes as
 * flushed; those before the first bad one have succeeded.
 */
#include "verbs_impl.h"

#include <errno.h>
#include <stdlib.h>

enum {
	RECV_ID = 1u << 31,
	RXE_WC_WITH_INV = 1 << 2,
};

static struct verbs_fabric *fabric_of(const struct verbs_ep *ep)
{
	return verbs_fabric_of(ep->base.poller->fab);
}

static struct verbs_poller *poller_of(const struct verbs_ep *ep)
{
	return rf_container_of(ep->base.poller, struct verbs_poller, base);
}

static struct verbs_work *work_at(const struct verbs_ep *ep, uint32_t position)
{
	return &ep->works[position & ep->work_mask];
}

static struct verbs_recv *recv_at(const struct verbs_ep *ep, uint32_t position)
{
	return &ep->recvs[position & ep->recv_mask];
}

bool verbs_queue_is_idle(const struct verbs_ep *ep)
{
	/* What the device never got is not waited for. */
	return ep->work_tail == ep->work_sent && ep->recv_tail == ep->recv_given;
}

/* The least power of two that holds depth, so that positions may wrap. */
static uint32_t ring_for(uint32_t depth)
{
	uint32_t size = 1;

	while (size < depth)
		size *= 2;
	return size;
}

int verbs_rings_init(struct verbs_ep *ep)
{
	const struct rf_ep_config *config = &ep->base.config;
	uint32_t works = ring_for(config->send_depth + 1u);
	uint32_t recvs = ring_for(config->recv_depth);

	ep->works = calloc(works, sizeof(ep->works[0]));
	ep->recvs = calloc(recvs, sizeof(ep->recvs[0]));
	if (!ep->works || !ep->recvs)
		return -ENOMEM;
	ep->work_mask = works - 1;
	ep->recv_mask = recvs - 1;
	return 0;
}

/* ---- the queue pair ------------------------------------------------------ */

/* An event for several completions, where the device can wait for more. */
static void moderate(struct verbs_ep *ep)
{
	const struct verbs_fabric *fabric = fabric_of(ep);
	const struct rf_tuning *tuning = &fabric->base.tuning;
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = { tuning->cq_count, tuning->cq_us },
	};
	int err;

	if (!fabric->base.traits.moderates_events || tuning->cq_count <= 1)
		return;
	err = ibv_modify_cq(ep->cq, &attr);
	if (err)
		rf_log(RF_LOG_WARN, "%s: the device does not take cq_count %u "
		       "and cq_usec %u: %s",
		       ibv_get_device_name(fabric->context->device),
		       tuning->cq_count, tuning->cq_us,
		       strerror(err < 0 ? -err : err));
}

/* As rdma_create_qp(), if librdmacm has another context of the same device. */
static int create_qp_on_ours(struct rdma_cm_id *id, struct ibv_pd *pd,
			     struct ibv_qp_init_attr *init)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	struct ibv_qp *qp = ibv_create_qp(pd, init);
	int mask, err;

	if (!qp)
		return -1;
	err = rdma_init_qp_attr(id, &attr, &mask) ? errno :
						    ibv_modify_qp(qp, &attr, mask);
	if (err) {
		ibv_destroy_qp(qp);
		errno = err;
		return -1;
	}
	id->pd = pd;
	id->qp = qp;
	return 0;
}

static int create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
		     struct ibv_qp_init_attr *init)
{
	return id->verbs == pd->context ? rdma_create_qp(id, pd, init) :
					  create_qp_on_ours(id, pd, init);
}

int verbs_queue_init(struct verbs_ep *ep)
{
	const struct rf_ep_config *config = &ep->base.config;
	struct verbs_pd *pd =
		rf_container_of(ep->base.pd, struct verbs_pd, base);
	struct ibv_qp_init_attr attr = {
		.qp_context = ep,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = config->send_depth + 1u,
			.max_recv_wr = config->recv_depth,
			.max_send_sge = ep->base.limits.sge_count_max,
			.max_recv_sge = 1,
			.max_inline_data = VERBS_INLINE_WISH,
		},
	};
	uint32_t wish = VERBS_INLINE_WISH;
	/* One more than the caller may use: for a probe. */
	int depth = config->send_depth + 1 + config->recv_depth;

	/* Not each provider says why it has nothing to give. */
	errno = 0;
	ep->cq = ibv_create_cq(fabric_of(ep)->context, depth, ep,
			       poller_of(ep)->comp, 0);
	if (!ep->cq)
		return errno ? -errno : -ENOMEM;
	moderate(ep);
	if (ibv_req_notify_cq(ep->cq, 0))
		return -EIO;
	ep->is_armed = true;
	attr.send_cq = attr.recv_cq = ep->cq;
	errno = 0;
	while (create_qp(ep->id, pd->pd, &attr)) {
		/* Refused by some as a bad wish, by others as too much memory. */
		if ((errno != EINVAL && errno != ENOMEM) || wish == 0)
			return errno ? -errno : -ENOMEM;
		wish /= 2;
		attr.cap.max_inline_data = wish;
		errno = 0;
	}
	ep->inline_max = attr.cap.max_inline_data;
	__atomic_fetch_add(&fabric_of(ep)->qps_made, 1, __ATOMIC_RELAXED);
	return 0;
}

void verbs_queue_fini(struct verbs_ep *ep)
{
	ep->is_qp_dead = true;
	rf_list_remove(&ep->ready_link);
	if (ep->id && ep->id->qp)
		rdma_destroy_qp(ep->id);
	if (!ep->cq)
		return;
	if (poller_of(ep)->found_of == ep)
		poller_of(ep)->found_count = 0;
	if (ep->cq_events)
		ibv_ack_cq_events(ep->cq, ep->cq_events);
	ep->cq_events = 0;
	verbs_must_be_gone(ibv_destroy_cq(ep->cq));
	ep->cq = NULL;
}

/* ---- posting ------------------------------------------------------------- */

static void fill_pieces(const struct verbs_ep *ep, const struct rf_work *work,
			struct verbs_work *out)
{
	out->size = 0;
	for (unsigned int i = 0; i < work->sge_count; i++) {
		const struct rf_sge *sge = &work->sge[i];
		const struct verbs_mr *mr =
			rf_container_of(sge->mr, const struct verbs_mr, base);

		out->sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)sge->addr,
			.length = sge->size,
			.lkey = mr->mr->lkey,
		};
		out->size += sge->size;
	}
	out->wr.sg_list = out->sge;
	out->wr.num_sge = work->sge_count;
	if (work->code != RF_READ && out->size <= ep->inline_max)
		out->wr.send_flags |= IBV_SEND_INLINE;
}

static int fill_bind(const struct rf_work *work, struct verbs_work *out)
{
	struct verbs_window *window =
		rf_container_of(work->window, struct verbs_window, base);
	struct ibv_mw_bind_info *info = &out->wr.bind_mw.bind_info;

	out->wr.opcode = IBV_WR_BIND_MW;
	out->wr.bind_mw.mw = window->mw;
	out->wr.bind_mw.rkey = window->base.remote.rkey;
	info->addr = window->base.remote.addr;
	info->length = window->base.remote.size;
	info->mw_access_flags = 0;
	if (window->base.access & RF_REMOTE_READ)
		info->mw_access_flags |= IBV_ACCESS_REMOTE_READ;
	if (window->base.access & RF_REMOTE_WRITE)
		info->mw_access_flags |= IBV_ACCESS_REMOTE_WRITE;
	return verbs_window_region(window, &info->mr);
}

static void fill_remote(const struct rf_work *work, struct verbs_work *out)
{
	out->wr.wr.rdma.remote_addr = work->remote.addr;
	out->wr.wr.rdma.rkey = work->remote.rkey;
}

static int fill_work(struct verbs_ep *ep, const struct rf_work *work,
		     uint32_t position)
{
	struct verbs_work *out = work_at(ep, position);

	/*
	 * What belongs to other opcodes stays: to clear 300 bytes for each would
	 * be dear.  But rxe looks whether a bind has immediate data.
	 */
	out->op = work->op;
	out->window = work->window;
	out->code = work->code;
	out->is_probe = out->is_complete = false;
	out->status = 0;
	out->wr.wr_id = position & ep->work_mask;
	out->wr.num_sge = 0;
	out->wr.send_flags = 0;
	out->wr.imm_data = 0;
	if (work->flags & RF_FENCE)
		out->wr.send_flags |= IBV_SEND_FENCE;
	if (work->flags & RF_SOLICITED)
		out->wr.send_flags |= IBV_SEND_SOLICITED;
	switch (work->code) {
	case RF_SEND:
		out->wr.opcode = IBV_WR_SEND;
		break;
	case RF_SEND_INV:
		out->wr.opcode = IBV_WR_SEND_WITH_INV;
		out->wr.invalidate_rkey = work->inv_key;
		/* siw's library takes it from where a Write has its key. */
		out->wr.wr.rdma.rkey = work->inv_key;
		break;
	case RF_WRITE:
		out->wr.opcode = IBV_WR_RDMA_WRITE;
		fill_remote(work, out);
		break;
	case RF_READ:
		out->wr.opcode = IBV_WR_RDMA_READ;
		fill_remote(work, out);
		break;
	case RF_BIND:
		return fill_bind(work, out);
	case RF_UNBIND:
		out->wr.opcode = IBV_WR_LOCAL_INV;
		out->wr.invalidate_rkey = work->window->remote.rkey;
		return 0;
	}
	fill_pieces(ep, work, out);
	return 0;
}

static void choose_signal(struct verbs_ep *ep, struct verbs_work *work)
{
	const struct verbs_fabric *fabric = fabric_of(ep);
	uint32_t quarter = ep->base.config.send_depth / 4u;
	bool is_told = work->op || work->code == RF_UNBIND || fabric->is_siw ||
		       (work->code == RF_READ && fabric->is_iwarp);

	if (!is_told && ++ep->unsignalled <= quarter)
		return;
	work->wr.send_flags |= IBV_SEND_SIGNALED;
	ep->unsignalled = 0;
}

int verbs_ep_post(struct rf_ep *ep, const struct rf_work *works,
		  unsigned int count)
{
	struct verbs_ep *vep = verbs_ep_of(ep);
	uint32_t used = vep->work_head - vep->work_tail - vep->is_probing;
	int err;

	if (count > ep->config.send_depth - used)
		return -EAGAIN;
	for (unsigned int i = 0; i < count; i++) {
		err = fill_work(vep, &works[i], vep->work_head + i);
		if (err)
			return err;
	}
	for (unsigned int i = 0; i < count; i++) {
		choose_signal(vep, work_at(vep, vep->work_head + i));
		if (works[i].code == RF_BIND) {
			struct verbs_window *window =
				rf_container_of(works[i].window,
						struct verbs_window, base);

			rf_list_push(&vep->bound, &window->bound_link);
			VERBS_COUNT(fabric_of(vep), binds, 1);
		}
	}
	vep->work_head += count;
	err = verbs_give_works(vep);
	/* The works are ours now; their end comes as completions. */
	if (err)
		verbs_ep_end(vep, err);
	return 0;
}

/* It has a place of its own in the ring. */
void verbs_post_probe(struct verbs_ep *ep)
{
	struct verbs_pd *pd =
		rf_container_of(ep->base.pd, struct verbs_pd, base);
	struct verbs_work *work = work_at(ep, ep->work_head);
	int err;

	RF_ASSERT(!ep->is_probing);
	*work = (struct verbs_work){ .code = RF_READ, .is_probe = true };
	work->sge[0] = (struct ibv_sge){
		.addr = (uintptr_t)&pd->probe[1],
		.length = 1,
		.lkey = pd->probe_mr->lkey,
	};
	work->wr = (struct ibv_send_wr){
		.wr_id = ep->work_head & ep->work_mask,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = work->sge,
		.num_sge = 1,
	};
	work->wr.wr.rdma.remote_addr = ep->probe_addr;
	work->wr.wr.rdma.rkey = ep->probe_rkey;
	ep->work_head++;
	ep->is_probing = true;
	err = verbs_give_works(ep);
	if (err)
		verbs_ep_end(ep, err);
}

/* Handed to the device: windows have the key that was bound. */
static void work_given(struct verbs_ep *ep)
{
	const struct verbs_work *work = work_at(ep, ep->work_sent++);

	if (work->code == RF_BIND)
		work->wr.bind_mw.mw->rkey = work->wr.bind_mw.rkey;
}

/* How many of those that wait may go: windows need no word of the peer. */
static uint32_t may_give(const struct verbs_ep *ep)
{
	uint32_t most = ep->work_head - ep->work_sent;
	uint32_t count = 0;

	if (ep->state != VERBS_CONNECTED)
		return 0;
	most = most < VERBS_CHAIN_MAX ? most : VERBS_CHAIN_MAX;
	if (ep->may_send)
		return most;
	while (count < most) {
		enum rf_opcode code =
			work_at(ep, ep->work_sent + count)->code;

		if (code != RF_BIND && code != RF_UNBIND)
			break;
		count++;
	}
	return count;
}

int verbs_give_works(struct verbs_ep *ep)
{
	uint32_t count;

	while ((count = may_give(ep)) > 0) {
		struct ibv_send_wr *bad = NULL;
		int err;

		for (uint32_t i = 0; i < count; i++)
			work_at(ep, ep->work_sent + i)->wr.next =
				i + 1 < count ?
				&work_at(ep, ep->work_sent + i + 1)->wr : NULL;
		err = ibv_post_send(ep->id->qp, &work_at(ep, ep->work_sent)->wr,
				    &bad);
		if (err) {
			while (count-- && &work_at(ep, ep->work_sent)->wr != bad)
				work_given(ep);
			return err < 0 ? err : -err;
		}
		while (count--)
			work_given(ep);
	}
	return 0;
}

int verbs_put_recv(struct verbs_ep *ep, const struct rf_recv *recv)
{
	const struct verbs_mr *mr =
		rf_container_of(recv->sge.mr, const struct verbs_mr, base);
	struct verbs_recv *out = recv_at(ep, ep->recv_head);

	if (ep->recv_head - ep->recv_tail == ep->base.config.recv_depth)
		return -EAGAIN;
	out->op = recv->op;
	out->sge = (struct ibv_sge){
		.addr = (uintptr_t)recv->sge.addr,
		.length = recv->sge.size,
		.lkey = mr->mr->lkey,
	};
	out->wr = (struct ibv_recv_wr){
		.wr_id = RECV_ID | (ep->recv_head & ep->recv_mask),
		.sg_list = &out->sge,
		.num_sge = 1,
	};
	ep->recv_head++;
	return 0;
}

int verbs_ep_post_recv(struct rf_ep *ep, const struct rf_recv *recv)
{
	struct verbs_ep *vep = verbs_ep_of(ep);
	int err = verbs_put_recv(vep, recv);

	if (err)
		return err;
	/* It is ours now; its end comes as a completion. */
	err = verbs_give_recvs(vep);
	if (err)
		verbs_ep_end(vep, err);
	return 0;
}

int verbs_give_recvs(struct verbs_ep *ep)
{
	struct ibv_recv_wr *bad = NULL;
	uint32_t at;
	int err;

	if (!ep->id || !ep->id->qp || ep->state == VERBS_ENDING ||
	    ep->recv_given == ep->recv_head)
		return 0;
	for (at = ep->recv_given; at != ep->recv_head; at++)
		recv_at(ep, at)->wr.next = at + 1 == ep->recv_head ? NULL :
					   &recv_at(ep, at + 1)->wr;
	err = ibv_post_recv(ep->id->qp, &recv_at(ep, ep->recv_given)->wr, &bad);
	while (ep->recv_given != ep->recv_head &&
	       (!err || &recv_at(ep, ep->recv_given)->wr != bad))
		ep->recv_given++;
	return err < 0 ? err : -err;
}

/* ---- completions --------------------------------------------------------- */

/* Of a work or a Receive, whose code is that of the peer's: RF_SEND. */
static int status_of(const struct verbs_ep *ep, const struct ibv_wc *wc,
		     enum rf_opcode code)
{
	switch (wc->status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_WR_FLUSH_ERR:
		return -ECANCELED;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_MW_BIND_ERR:
		return -EACCES;
	case IBV_WC_LOC_LEN_ERR:
		return -EMSGSIZE;
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
		/* The peer could not take it: too long, or a key to invalidate
		 * that is none; which, it does not say. */
		return code == RF_SEND ? -EMSGSIZE :
		       code == RF_SEND_INV ? -EACCES : -EIO;
	case IBV_WC_RETRY_EXC_ERR:
		return -ETIMEDOUT;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return -ENOBUFS;
	case IBV_WC_LOC_PROT_ERR:
		return -EFAULT;
	case IBV_WC_LOC_QP_OP_ERR:
		/* siw, when the connection ends under a work. */
		return fabric_of(ep)->is_siw ? -ECONNRESET : -EIO;
	default:
		return -EIO;
	}
}

static void count_work(struct verbs_ep *ep, const struct verbs_work *work)
{
	struct verbs_fabric *fabric = fabric_of(ep);

	switch (work->code) {
	case RF_SEND:
	case RF_SEND_INV:
		VERBS_COUNT(fabric, sends, 1);
		VERBS_COUNT(fabric, send_bytes, work->size);
		break;
	case RF_READ:
		VERBS_COUNT(fabric, reads, 1);
		VERBS_COUNT(fabric, read_bytes, work->size);
		break;
	case RF_WRITE:
		VERBS_COUNT(fabric, writes, 1);
		VERBS_COUNT(fabric, write_bytes, work->size);
		break;
	default:
		break;
	}
}

/* End the oldest work; 1 if a callback ran. */
static unsigned int end_work(struct verbs_ep *ep, int status)
{
	struct verbs_work *work = work_at(ep, ep->work_tail);
	struct rf_op *op = work->op;

	ep->work_tail++;
	if (work->is_probe) {
		ep->is_probing = false;
		return 0;
	}
	if (status == 0)
		count_work(ep, work);
	if (work->code == RF_UNBIND && status == 0)
		verbs_window_freed(work->window);
	if (!op)
		return 0;
	rf_op_done(op, status);
	return 1;
}

static bool is_before(uint32_t position, uint32_t other)
{
	return (int32_t)(position - other) < 0;
}

static bool is_complete(const struct verbs_ep *ep, uint32_t position)
{
	const struct verbs_work *work = work_at(ep, position);

	if (work->is_complete)
		return true;
	return is_before(position, ep->work_seen) &&
	       !(work->code == RF_READ && fabric_of(ep)->is_iwarp);
}

static unsigned int end_works(struct verbs_ep *ep)
{
	unsigned int count = 0;

	while (ep->work_tail != ep->work_sent &&
	       is_complete(ep, ep->work_tail)) {
		int status = work_at(ep, ep->work_tail)->status;

		/* Behind one that failed, a success proves nothing. */
		if (status == 0 && ep->has_failed)
			status = -ECANCELED;
		ep->has_failed = status != 0;
		count += end_work(ep, status);
	}
	return count;
}

static unsigned int send_completed(struct verbs_ep *ep, const struct ibv_wc *wc)
{
	uint32_t ahead = ((uint32_t)wc->wr_id - ep->work_tail) & ep->work_mask;
	uint32_t position = ep->work_tail + ahead;
	struct verbs_work *work = work_at(ep, position);

	RF_ASSERT(is_before(position, ep->work_sent));
	work->status = status_of(ep, wc, work->code);
	/* So rxe says that it has no route any more. */
	ep->has_lost_way |= wc->status == IBV_WC_LOC_QP_OP_ERR;
	work->is_complete = true;
	if (work->status && work->status != -ECANCELED)
		verbs_ep_end(ep, work->status);
	if (work->status == -ECONNRESET)
		work->status = -ECANCELED;
	if (is_before(ep->work_seen, position + 1))
		ep->work_seen = position + 1;
	return end_works(ep);
}

/*
 * rxe gives programs the kernel's flag for "with invalidate", which is another
 * bit than libibverbs' and means nothing else on a reliable connection.
 */
static bool is_invalidating(const struct verbs_ep *ep, const struct ibv_wc *wc)
{
	return (wc->wc_flags & IBV_WC_WITH_INV) ||
	       (fabric_of(ep)->is_rxe && (wc->wc_flags & RXE_WC_WITH_INV));
}

/* False if the key is no window of this connection: a device may not look. */
static bool invalidated(struct verbs_ep *ep, struct rf_op *op, uint32_t rkey)
{
	struct verbs_window *window = verbs_find_window(fabric_of(ep), rkey);

	if (!window || window->base.ep != &ep->base) {
		VERBS_COUNT(fabric_of(ep), rights_refused, 1);
		return false;
	}
	op->inv_key = rkey;
	verbs_window_freed(&window->base);
	return true;
}

static unsigned int recv_completed(struct verbs_ep *ep, const struct ibv_wc *wc)
{
	struct verbs_recv *recv = recv_at(ep, ep->recv_tail);
	struct rf_op *op = recv->op;
	int status = status_of(ep, wc, RF_SEND);

	/* What rxe says of a message that was too long. */
	if (wc->status == IBV_WC_LOC_QP_OP_ERR && fabric_of(ep)->is_rxe)
		status = -EMSGSIZE;
	RF_ASSERT(recv->wr.wr_id == wc->wr_id);
	ep->recv_tail++;
	op->inv_key = 0;
	if (status == 0) {
		op->size = wc->byte_len;
		if (is_invalidating(ep, wc) &&
		    !invalidated(ep, op, wc->invalidated_rkey)) {
			status = -ECANCELED;
			verbs_ep_end(ep, -EACCES);
		}
		VERBS_COUNT(fabric_of(ep), recvs, 1);
		VERBS_COUNT(fabric_of(ep), recv_bytes, wc->byte_len);
		ep->may_send = true;
	} else if (status != -ECANCELED) {
		verbs_ep_end(ep, status);
	}
	rf_op_done(op, status);
	return 1;
}

static unsigned int completed(struct verbs_ep *ep, const struct ibv_wc *wc)
{
	return wc->wr_id & RECV_ID ? recv_completed(ep, wc)
				   : send_completed(ep, wc);
}

/* Before connected() was reported nothing else may be. */
static bool may_poll(const struct verbs_ep *ep)
{
	return !ep->is_qp_dead && ep->cq &&
	       (ep->is_reported || ep->state == VERBS_ENDING);
}

bool verbs_peek_queue(struct verbs_ep *ep)
{
	struct verbs_poller *poller = poller_of(ep);

	RF_ASSERT(poller->found_count <= 0);
	if (!may_poll(ep))
		return false;
	poller->found_of = ep;
	poller->found_count = ibv_poll_cq(ep->cq, VERBS_POLL_BATCH,
					  poller->found);
	return poller->found_count > 0;
}

/* As ibv_poll_cq(), but first what a peek has taken. */
static int fetch(struct verbs_ep *ep, struct ibv_wc wc[VERBS_POLL_BATCH])
{
	struct verbs_poller *poller = poller_of(ep);
	int got = poller->found_count;

	if (got <= 0 || poller->found_of != ep)
		return ibv_poll_cq(ep->cq, VERBS_POLL_BATCH, wc);
	memcpy(wc, poller->found, (size_t)got * sizeof(*wc));
	poller->found_count = 0;
	return got;
}

unsigned int verbs_poll_queue(struct verbs_ep *ep, unsigned int budget,
			      bool *left)
{
	struct ibv_wc wc[VERBS_POLL_BATCH];
	unsigned int count = 0;
	bool could_send = ep->may_send;
	int got = 0, err;

	*left = false;
	if (!may_poll(ep))
		return 0;
	do {
		got = fetch(ep, wc);
		if (got > 0)
			VERBS_COUNT(fabric_of(ep), completions, got);
		if (got > 0 && ep->probe_deadline_ns)
			ep->heard_ns = poller_of(ep)->now_ns;
		for (int i = 0; i < got; i++)
			count += completed(ep, &wc[i]);
	} while (got == VERBS_POLL_BATCH && count < budget);
	*left = got == VERBS_POLL_BATCH;
	if (!could_send && ep->may_send) {
		err = verbs_give_works(ep);
		if (err)
			verbs_ep_end(ep, err);
	}
	return count;
}

unsigned int verbs_flush_rest(struct verbs_ep *ep)
{
	unsigned int count = 0;

	RF_ASSERT(ep->is_qp_dead);
	while (ep->work_tail != ep->work_head)
		count += end_work(ep, -ECANCELED);
	while (ep->recv_tail != ep->recv_head) {
		struct rf_op *op = recv_at(ep, ep->recv_tail++)->op;

		rf_op_done(op, -ECANCELED);
		count++;
	}
	return count;
}

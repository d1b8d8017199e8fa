/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iwarp_post.c - works and Receives into their rings, and out again when done
 *
 * Operation.  A post copies the work into its slot and, outside of callbacks,
 * sends at once.  Works leave the ring in the order posted, when they are
 * finished and the cursor of iwarp_tx.c has passed them.
 *
 * Ownership.  A slot holds the caller's op from the post to done().
 */
#include "iwarp.h"

#include <errno.h>

static uint32_t copy_pieces(struct iw_work *work, const struct rf_work *from)
{
	uint32_t size = 0;

	for (unsigned int i = 0; i < from->sge_count; i++) {
		work->pieces[i].iov_base = from->sge[i].addr;
		work->pieces[i].iov_len = from->sge[i].size;
		size += from->sge[i].size;
	}
	work->piece_count = from->sge_count;
	return size;
}

static void copy_work(struct iw_work *work, const struct rf_work *from)
{
	bool has_window = from->code == RF_BIND || from->code == RF_UNBIND;

	work->code = from->code;
	work->flags = from->flags;
	work->op = from->op;
	work->remote = from->remote;
	work->window = NULL;
	work->key = from->inv_key;
	work->size = 0;
	work->piece_count = 0;
	work->is_finished = false;
	work->is_refused = false;
	if (has_window) {
		work->window = (struct iw_window *)from->window;
		work->key = from->window->remote.rkey;
	} else {
		work->size = copy_pieces(work, from);
	}
}

struct rf_op *iw_ep_retire_one(struct iw_ep *ep)
{
	struct iw_stats *stats = &iw_ep_poller(ep)->stats;
	struct iw_work *work = iw_ep_work(ep, ep->work_head++);

	switch (work->code) {
	case RF_SEND:
	case RF_SEND_INV:
		iw_count(&stats->sends, 1);
		iw_count(&stats->send_bytes, work->size);
		break;
	case RF_WRITE:
		iw_count(&stats->writes, 1);
		iw_count(&stats->write_bytes, work->size);
		break;
	case RF_READ:
		iw_count(&stats->reads, 1);
		iw_count(&stats->read_bytes, work->size);
		break;
	case RF_UNBIND:
		if (work->window &&
		    work->window->base.state == RF_WINDOW_UNBINDING &&
		    work->window->base.remote.rkey == work->key)
			iw_window_free(work->window);
		break;
	case RF_BIND:
		break;
	}
	return work->op;
}

/* The head never overtakes the cursor: a slot that it names stays. */
static bool head_is_finished(const struct iw_ep *ep)
{
	return ep->work_head != ep->cursor.next_work &&
	       iw_ep_work(ep, ep->work_head)->is_finished;
}

void iw_ep_call_done(struct iw_ep *ep, struct rf_op *op, int status)
{
	if (!op)
		return;
	iw_ep_poller(ep)->callbacks++;
	rf_op_done(op, status);
}

void iw_ep_retire(struct iw_ep *ep)
{
	struct iw_poller *poller = iw_ep_poller(ep);

	while (ep->state == IW_EP_OPEN && head_is_finished(ep)) {
		if (iw_budget_is_spent(poller)) {
			iw_list_move(&poller->ready, &ep->ready);
			return;
		}
		iw_ep_call_done(ep, iw_ep_retire_one(ep), 0);
	}
}

/* Works without an op need no callback, so they leave room at once. */
static void retire_silent(struct iw_ep *ep)
{
	while (head_is_finished(ep) && !iw_ep_work(ep, ep->work_head)->op)
		iw_ep_retire_one(ep);
}

int iw_ep_post(struct rf_ep *base, const struct rf_work *works,
	       unsigned int count)
{
	struct iw_ep *ep = (struct iw_ep *)base;
	struct iw_poller *poller = iw_ep_poller(ep);

	retire_silent(ep);
	if (ep->work_tail - ep->work_head + count > base->config.send_depth)
		return -EAGAIN;
	for (unsigned int i = 0; i < count; i++)
		if (works[i].code == RF_READ && ep->ord == 0)
			return -EOPNOTSUPP;	/* the peer serves none */
	for (unsigned int i = 0; i < count; i++)
		copy_work(iw_ep_work(ep, ep->work_tail + i), &works[i]);
	ep->work_tail += count;
	if (poller->base.is_running) {
		iw_list_move(&poller->flush, &ep->flush);
		return 0;
	}
	iw_tx_run(ep);
	if (head_is_finished(ep) && ep->state == IW_EP_OPEN)
		iw_list_move(&poller->ready, &ep->ready);
	return 0;
}

int iw_ep_post_recv(struct rf_ep *base, const struct rf_recv *recv)
{
	struct iw_ep *ep = (struct iw_ep *)base;

	if (ep->recv_tail - ep->recv_head >= base->config.recv_depth)
		return -EAGAIN;
	ep->recvs[ep->recv_tail++ & ep->recvs_mask] = (struct iw_recv){
		.op = recv->op, .addr = recv->sge.addr, .size = recv->sge.size,
	};
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_work.c - posted work of the loop fabric, from start to completion
 *
 * Operation.  Works start in the order posted, as the first word, fences and
 * the depth of Reads allow.  A started work travels in lanes, each first in
 * first out with a time per work:
 *
 *	Send, Write	arrive -> (data move, rights checked) -> ack -> done
 *	Read		arrive -> read -> (rights checked, data move) done
 *	bind		in force and done at once
 *	unbind		unbind -> (key dead) done
 *
 * Done works are told in the order posted; one without an op, and the room that
 * it takes, waits for the next that has one.
 *
 * Ownership.  A work's memory is read and written while it is in the ring and
 * not done, never after.
 *
 * When it fails.  A broken right, or a Send without a fitting Receive, ends
 * both sides; the guilty work keeps the reason, the rest is cancelled.
 */
#include "loop_impl.h"

#include <errno.h>

static struct loop_work *work_at(struct loop_ep *ep, uint64_t number)
{
	return &ep->works[number % ep->base.config.send_depth];
}

static struct loop_recv *recv_at(struct loop_ep *ep, uint64_t number)
{
	return &ep->recvs[number % ep->base.config.recv_depth];
}

static bool is_send(const struct loop_work *work)
{
	return work->code == RF_SEND || work->code == RF_SEND_INV;
}

static bool is_local(const struct loop_work *work)
{
	return work->code == RF_BIND || work->code == RF_UNBIND;
}

static void use_region(const struct rf_mr *mr, int change)
{
	struct loop_mr *used = rf_container_of((struct rf_mr *)(uintptr_t)mr,
					       struct loop_mr, base);

	used->users += (unsigned int)change;
}

/* ---- lanes --------------------------------------------------------------- */

static void lane_schedule(struct loop_lane *lane)
{
	if (lane->head)
		loop_schedule(lane->ep->world, &lane->event,
			      lane->head->due_ns);
}

static void lane_fire(struct loop_event *event)
{
	struct loop_lane *lane =
		rf_container_of(event, struct loop_lane, event);
	struct loop_work *work = lane->head;

	/* Stays at the head until the path is healed. */
	if (!lane->is_local &&
	    !loop_ep_way_is_open(lane->ep, lane->is_outward))
		return;
	lane->head = work->next;
	if (!lane->head)
		lane->tail = NULL;
	lane_schedule(lane);
	lane->take(lane->ep, work);
}

static void lane_put(struct loop_lane *lane, struct loop_work *work,
		     uint64_t latency_ns)
{
	work->due_ns = rf_max_u64(lane->last_due_ns,
				  lane->ep->world->now_ns + latency_ns);
	lane->last_due_ns = work->due_ns;
	work->next = NULL;
	if (lane->tail)
		lane->tail->next = work;
	else
		lane->head = work;
	lane->tail = work;
	if (lane->head == work)
		lane_schedule(lane);
}

static uint64_t latency_out_ns(struct loop_ep *ep)
{
	return loop_latency_ns(ep->world, &ep->local, &ep->remote);
}

static uint64_t latency_in_ns(struct loop_ep *ep)
{
	return loop_latency_ns(ep->world, &ep->remote, &ep->local);
}

/* ---- completion ---------------------------------------------------------- */

static void count_work(struct loop_ep *ep, const struct loop_work *work)
{
	struct rf_fabric_stats *stats = &loop_ep_fabric(ep)->stats;

	if (is_send(work)) {
		stats->sends++;
		stats->send_bytes += work->size;
	} else if (work->code == RF_WRITE) {
		stats->writes++;
		stats->write_bytes += work->size;
	} else if (work->code == RF_READ) {
		stats->reads++;
		stats->read_bytes += work->size;
	}
}

/* Mark one work done, and retire what is now done in order. */
static void work_is_done(struct loop_ep *ep, struct loop_work *work, int status)
{
	work->is_done = true;
	work->status = status;
	if (status == 0)
		count_work(ep, work);
	while (ep->work_retired < ep->work_tail) {
		work = work_at(ep, ep->work_retired);
		if (!work->is_done)
			break;
		work->stamp = ep->world->next_stamp++;
		if (work->op)
			ep->works_to_tell++;
		ep->work_retired++;
	}
	loop_ep_update(ep);
}

void loop_work_flush(struct loop_ep *ep)
{
	ep->work_started = ep->work_tail;
	for (uint64_t i = ep->work_retired; i < ep->work_tail; i++) {
		struct loop_work *work = work_at(ep, i);

		if (!work->is_done)
			work_is_done(ep, work, work->status ? work->status
							    : -ECANCELED);
	}
	while (ep->recv_filled < ep->recv_tail) {
		struct loop_recv *recv = recv_at(ep, ep->recv_filled++);

		recv->stamp = ep->world->next_stamp++;
		if (!recv->status)
			recv->status = -ECANCELED;
	}
}

/* ---- arrival ------------------------------------------------------------- */

/* Our peer broke a rule with this work: both sides end. */
static void refuse(struct loop_ep *target, struct loop_work *work, int reason)
{
	work->status = reason;
	loop_ep_end(target, reason, reason);
}

static void copy_out(const struct loop_work *work, void *to)
{
	char *at = to;

	for (unsigned int i = 0; i < work->sge_count; i++) {
		memcpy(at, work->sge[i].addr, work->sge[i].size);
		at += work->sge[i].size;
	}
}

static void copy_in(const struct loop_work *work, const void *from)
{
	const char *at = from;

	for (unsigned int i = 0; i < work->sge_count; i++) {
		memcpy(work->sge[i].addr, at, work->sge[i].size);
		at += work->sge[i].size;
	}
}

static void *remote_memory(const struct loop_work *work)
{
	return (void *)(uintptr_t)work->remote.addr;
}

/* 0, or why target takes this Send from us not. */
static int check_send(struct loop_ep *target, const struct loop_work *work)
{
	struct loop_recv *recv = recv_at(target, target->recv_filled);

	if (target->recv_filled == target->recv_tail)
		return -ENOBUFS;
	if (work->size > recv->recv.sge.size) {
		recv->status = -EMSGSIZE;
		return -EMSGSIZE;
	}
	if (work->code == RF_SEND_INV && !loop_find_window(target, work->key)) {
		loop_ep_fabric(target)->stats.rights_refused++;
		return -EACCES;
	}
	return 0;
}

static void fill_recv(struct loop_ep *target, const struct loop_work *work)
{
	struct rf_fabric_stats *stats = &loop_ep_fabric(target)->stats;
	struct loop_recv *recv = recv_at(target, target->recv_filled++);

	copy_out(work, recv->recv.sge.addr);
	recv->size = work->size;
	recv->stamp = target->world->next_stamp++;
	if (work->code == RF_SEND_INV) {
		recv->inv_key = work->key;
		loop_find_window(target, work->key)->is_live = false;
		stats->invalidates++;
	}
	stats->recvs++;
	stats->recv_bytes += work->size;
	loop_ep_update(target);
}

static void land_write(struct loop_ep *target, const struct loop_work *work)
{
	struct rf_fabric_stats *stats = &loop_ep_fabric(target)->stats;

	copy_out(work, remote_memory(work));
	stats->writes_landed++;
	stats->write_bytes_landed += work->size;
}

/* The first word of the connecting side lets the accepting side speak. */
static void hear(struct loop_ep *target)
{
	if (target->has_heard)
		return;
	target->has_heard = true;
	loop_work_start(target);
}

static void take_arrival(struct loop_ep *ep, struct loop_work *work)
{
	struct loop_ep *target = ep->peer;
	int err = 0;

	if (!target)
		return;		/* it is gone, and we are about to hear so */
	if (is_send(work))
		err = check_send(target, work);
	else if (work->code == RF_WRITE)
		err = loop_check_access(target, &work->remote, RF_REMOTE_WRITE);
	if (err) {
		refuse(target, work, err);
		return;
	}
	if (work->code == RF_READ) {
		lane_put(&ep->read, work, latency_in_ns(ep));
	} else {
		if (is_send(work))
			fill_recv(target, work);
		else
			land_write(target, work);
		lane_put(&ep->ack, work, latency_in_ns(ep));
	}
	hear(target);
}

static void take_ack(struct loop_ep *ep, struct loop_work *work)
{
	work_is_done(ep, work, 0);
}

static void take_read(struct loop_ep *ep, struct loop_work *work)
{
	struct loop_ep *source = ep->peer;
	struct rf_fabric_stats *stats;
	int err;

	if (!source)
		return;
	err = loop_check_access(source, &work->remote, RF_REMOTE_READ);
	if (err) {
		refuse(source, work, err);
		return;
	}
	copy_in(work, remote_memory(work));
	stats = &loop_ep_fabric(source)->stats;
	stats->reads_served++;
	stats->read_bytes_served += work->size;
	ep->reads_started--;
	work_is_done(ep, work, 0);
	loop_work_start(ep);
}

static void take_unbind(struct loop_ep *ep, struct loop_work *work)
{
	/* The peer may have been faster, with a Send with Invalidate. */
	if (work->window->is_live) {
		work->window->is_live = false;
		loop_ep_fabric(ep)->stats.invalidates++;
	}
	work_is_done(ep, work, 0);
}

static void lane_init(struct loop_lane *lane, struct loop_ep *ep,
		      bool is_outward, bool is_done_here,
		      void (*take)(struct loop_ep *, struct loop_work *))
{
	lane->event.fire = lane_fire;
	lane->ep = ep;
	lane->is_outward = is_outward;
	lane->is_local = is_done_here;
	lane->take = take;
}

void loop_lanes_init(struct loop_ep *ep)
{
	lane_init(&ep->arrive, ep, true, false, take_arrival);
	lane_init(&ep->ack, ep, false, false, take_ack);
	lane_init(&ep->read, ep, false, false, take_read);
	lane_init(&ep->unbind, ep, false, true, take_unbind);
}

static void lane_stop(struct loop_lane *lane)
{
	loop_cancel(lane->ep->world, &lane->event);
	lane->head = lane->tail = NULL;
}

void loop_lanes_stop(struct loop_ep *ep)
{
	lane_stop(&ep->arrive);
	lane_stop(&ep->ack);
	lane_stop(&ep->read);
	lane_stop(&ep->unbind);
}

static void lane_resume(struct loop_lane *lane)
{
	if (!lane->event.place)
		lane_schedule(lane);
}

void loop_lanes_resume(struct loop_ep *ep)
{
	lane_resume(&ep->arrive);
	lane_resume(&ep->ack);
	lane_resume(&ep->read);
}

/* ---- start --------------------------------------------------------------- */

static bool may_start(const struct loop_ep *ep, const struct loop_work *work)
{
	if ((work->flags & RF_FENCE) && ep->reads_started > 0)
		return false;
	if (is_local(work))
		return true;
	if (ep->is_passive && !ep->has_heard)
		return false;
	return work->code != RF_READ ||
	       ep->reads_started < ep->base.limits.reads_max;
}

static void bind_window(struct loop_ep *ep, struct loop_work *work)
{
	work->window->is_live = true;
	loop_ep_fabric(ep)->stats.binds++;
	work_is_done(ep, work, 0);
}

void loop_work_start(struct loop_ep *ep)
{
	while (ep->work_started < ep->work_tail) {
		struct loop_work *work = work_at(ep, ep->work_started);

		if (!may_start(ep, work))
			return;
		ep->work_started++;
		if (work->code == RF_BIND) {
			bind_window(ep, work);
		} else if (work->code == RF_UNBIND) {
			lane_put(&ep->unbind, work,
				 loop_latency_ns(ep->world, &ep->local,
						 &ep->local));
		} else {
			ep->reads_started += work->code == RF_READ;
			lane_put(&ep->arrive, work, latency_out_ns(ep));
		}
	}
}

/* ---- post ---------------------------------------------------------------- */

static void scribble(const struct rf_sge *sge, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		memset(sge[i].addr, LOOP_SCRIBBLE, sge[i].size);
}

static void lend_pieces(struct loop_ep *ep, struct loop_work *slot,
			const struct rf_work *work)
{
	slot->sge_count = work->sge_count;
	for (unsigned int i = 0; i < work->sge_count; i++) {
		slot->sge[i] = work->sge[i];
		slot->size += work->sge[i].size;
		use_region(work->sge[i].mr, 1);
	}
	if (ep->world->scribbles && work->code == RF_READ)
		scribble(work->sge, work->sge_count);
}

static void lend_window(struct loop_ep *ep, struct loop_work *slot,
			struct rf_window *window)
{
	slot->window = rf_container_of(window, struct loop_window, base);
	if (slot->code == RF_UNBIND)
		return;
	rf_list_push(&ep->windows, &slot->window->link);
	use_region(window->mr, 1);
}

static void post_one(struct loop_ep *ep, const struct rf_work *work)
{
	struct loop_work *slot = work_at(ep, ep->work_tail);

	RF_ASSERT(work->code != RF_READ || ep->base.limits.reads_max > 0);
	*slot = (struct loop_work){
		.code = work->code,
		.flags = work->flags,
		.op = work->op,
		.remote = work->remote,
		.key = work->inv_key,
	};
	if (is_local(slot))
		lend_window(ep, slot, work->window);
	else
		lend_pieces(ep, slot, work);
	ep->work_tail++;
	loop_poller(ep->base.poller)->ops_posted++;
}

static bool has_room(const struct loop_ep *ep, uint64_t posted, uint32_t depth,
		     unsigned int count)
{
	const struct loop_poller *poller = loop_poller(ep->base.poller);

	return posted + count <= depth &&
	       (uint64_t)poller->ops_posted + count <= poller->base.ops_max;
}

int loop_post(struct rf_ep *base, const struct rf_work *works,
	      unsigned int count)
{
	struct loop_ep *ep = loop_ep(base);

	loop_check_thread(ep->world);
	if (!has_room(ep, ep->work_tail - ep->work_head,
		      base->config.send_depth, count))
		return -EAGAIN;
	for (unsigned int i = 0; i < count; i++)
		post_one(ep, &works[i]);
	loop_work_start(ep);
	return 0;
}

int loop_post_recv(struct rf_ep *base, const struct rf_recv *recv)
{
	struct loop_ep *ep = loop_ep(base);

	loop_check_thread(ep->world);
	if (!has_room(ep, ep->recv_tail - ep->recv_head,
		      base->config.recv_depth, 1))
		return -EAGAIN;
	if (loop_fails(&ep->world->recv_failures))
		return -ENOMEM;
	*recv_at(ep, ep->recv_tail++) = (struct loop_recv){ .recv = *recv };
	use_region(recv->sge.mr, 1);
	if (ep->world->scribbles)
		scribble(&recv->sge, 1);
	loop_poller(base->poller)->ops_posted++;
	return 0;
}

/* ---- telling ------------------------------------------------------------- */

bool loop_work_has_done(const struct loop_ep *ep)
{
	return ep->works_to_tell > 0 || ep->recv_head < ep->recv_filled;
}

static void give_back(struct loop_ep *ep, struct loop_work *work)
{
	for (unsigned int i = 0; i < work->sge_count; i++)
		use_region(work->sge[i].mr, -1);
	if (work->code == RF_UNBIND && work->status == 0)
		loop_window_free(work->window);
	loop_poller(ep->base.poller)->ops_posted--;
}

static void tell_work(struct loop_ep *ep)
{
	struct rf_op *op;
	int status;

	do {
		struct loop_work *work = work_at(ep, ep->work_head++);

		op = work->op;
		status = work->status;
		give_back(ep, work);
	} while (!op);
	ep->works_to_tell--;
	loop_digest(ep->world, (uint64_t)ep->id << 32 | (uint32_t)status);
	rf_op_done(op, status);
}

/* The key died when the message arrived; now its owner may know. */
static void free_invalidated(struct loop_ep *ep, uint32_t key)
{
	struct loop_window *window = loop_window_of_key(ep, key);

	/* One that is being unbound goes back when that is done. */
	if (window && window->base.state == RF_WINDOW_BOUND)
		loop_window_free(window);
}

static void tell_recv(struct loop_ep *ep)
{
	struct loop_recv *recv = recv_at(ep, ep->recv_head++);
	struct rf_op *op = recv->recv.op;
	int status = recv->status;

	use_region(recv->recv.sge.mr, -1);
	loop_poller(ep->base.poller)->ops_posted--;
	if (status == 0) {
		op->size = recv->size;
		op->inv_key = recv->inv_key;
		free_invalidated(ep, recv->inv_key);
	}
	loop_digest(ep->world, (uint64_t)ep->id << 32 | 1u << 31 | recv->size);
	rf_op_done(op, status);
}

/* The older of the two, or by chance. */
static bool recv_is_next(struct loop_ep *ep)
{
	if (ep->recv_head == ep->recv_filled)
		return false;
	if (ep->works_to_tell == 0)
		return true;
	if (ep->world->reorders)
		return loop_chance(ep->world, 2) == 0;
	return recv_at(ep, ep->recv_head)->stamp <
	       work_at(ep, ep->work_head)->stamp;
}

void loop_work_tell(struct loop_ep *ep)
{
	if (recv_is_next(ep))
		tell_recv(ep);
	else
		tell_work(ep);
}

void loop_work_return_rest(struct loop_ep *ep)
{
	while (ep->work_head < ep->work_tail)
		give_back(ep, work_at(ep, ep->work_head++));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_wait.c - what an operation may have to wait for: marks, staging, workers,
 * durability
 *
 * Operation.  Each call either goes straight on with the step or suspends the
 * request; exec.h tells what happens to its batch then.
 */
#include "exec.h"

#include <errno.h>

struct txn *exec_txn(struct exec *e)
{
	if (!e->txn) {
		e->txn = txn_begin(e->server->store);
		/* One at a time: none is open while anything waits. */
		RF_ASSERT(e->txn);
	}
	return e->txn;
}

bool exec_is_dirty(const struct exec *e)
{
	return e->txn && txn_is_dirty(e->txn);
}

void exec_drop_syncs(struct exec *e)
{
	while (e->to_sync_count > 0)
		object_put(e->to_sync[--e->to_sync_count]);
	e->syncs = false;
	e->sync_is_data_only = true;
	e->sync_place.is_set = false;
}

void exec_rewind(struct exec *e)
{
	exec_rewind_grants(e);
	exec_undo_opens(e);
	exec_drop_cuts(e, 0);
	exec_put_objects(e);
	exec_unuse_opens(e);
	exec_drop_syncs(e);
	e->first_change.is_set = false;
	e->modifies = e->has_current = e->is_in_op = false;
	e->has_reclaimed = false;
	e->op_index = 0;
	e->cut_inode = 0;
	e->reruns = true;
}

int exec_suspend(struct exec *e, enum exec_state state, exec_step step)
{
	bool was_dirty = exec_is_dirty(e);

	if (e->txn) {
		txn_abort(e->txn);
		e->txn = NULL;
	}
	if (was_dirty)
		exec_rewind(e);
	e->state = state;
	e->next = step;
	return EXEC_WAIT;
}

/* ---- marks -------------------------------------------------------------- */

static void drop_mark(struct exec *e, struct busy_mark *mark)
{
	busy_drop(&e->server->busy, mark);
}

void exec_drop_marks(struct exec *e)
{
	for (unsigned int i = 0; i < EXEC_MARKS; i++)
		drop_mark(e, &e->marks[i]);
}

bool exec_has_mark(const struct exec *e, uint64_t inode, bool is_exclusive)
{
	for (unsigned int i = 0; i < EXEC_MARKS; i++) {
		const struct busy_mark *mark = &e->marks[i];

		if (mark->is_held && mark->inode == inode &&
		    (mark->is_exclusive || !is_exclusive))
			return true;
	}
	return false;
}

/*
 * A place for one more: free, or of an operation that has ended and leaves
 * nothing to be done on its inode after the commit.
 */
static struct busy_mark *mark_place(struct exec *e, uint64_t inode)
{
	struct busy_mark *highest = NULL;

	for (unsigned int i = 0; i < EXEC_MARKS; i++) {
		struct busy_mark *mark = &e->marks[i];

		/* Held, but shared: it is to be exclusive. */
		if (mark->is_held && mark->inode == inode)
			drop_mark(e, mark);
		if (!mark->is_held)
			return mark;
		/* The lower of an operation's two was taken just now. */
		if (i != e->last_mark && !exec_cuts(e, mark->inode) &&
		    (!highest || mark->inode > highest->inode))
			highest = mark;
	}
	RF_ASSERT(highest);	/* EXEC_MARKS is more than EXEC_CUTS + 1 */
	drop_mark(e, highest);
	return highest;
}

int exec_mark(struct exec *e, uint64_t inode, bool is_exclusive,
	      exec_step step)
{
	struct busy_mark *place;

	if (exec_has_mark(e, inode, is_exclusive))
		return step(e);
	place = mark_place(e, inode);
	e->last_mark = (uint8_t)(place - e->marks);
	place->context = e;
	if (busy_take(&e->server->busy, place, inode, is_exclusive))
		return step(e);
	for (unsigned int i = 0; i < EXEC_MARKS; i++)
		if (e->marks[i].is_held && e->marks[i].inode > inode)
			drop_mark(e, &e->marks[i]);
	return exec_suspend(e, EXEC_WAITS_MARK, step);
}

/* ---- staging ------------------------------------------------------------ */

static void staged(struct staging_waiter *waiter, struct rf_buf *buf)
{
	struct exec *e = rf_container_of(waiter, struct exec, waiter);

	e->buf = buf;
	/* An interrupt that came first still holds, and gives buf back. */
	if (!e->interrupt_status)
		rf_list_push(&e->server->staged, &e->staged_link);
}

bool exec_may_modify(const struct exec *e)
{
	struct rf_dec dec = e->dec_start;
	struct rf_args args;
	int ret;

	while ((ret = rf_dec_args(&dec, &args)) == 1)
		if (rf_op_modifies(args.code))
			return true;
	return ret < 0;
}

int exec_stage(struct exec *e, uint32_t size, exec_step step)
{
	struct lender *lender = &e->session->lender;

	e->buf_op = e->op_index;
	if (e->buf && e->buf->size >= size)
		return step(e);
	if (e->buf) {
		staging_put(lender, e->buf);
		e->buf = NULL;
	}
	if (lender->is_closed)
		return -ECANCELED;
	e->waiter.ready = staged;
	e->buf = staging_get(lender, size, &e->waiter);
	if (e->buf)
		return step(e);
	exec_drop_marks(e);
	exec_suspend(e, EXEC_WAITS_STAGING, step);
	if (e->request->ticket == 0 && !exec_may_modify(e))
		rf_request_queue(e->request);
	return EXEC_WAIT;
}

/* ---- workers ------------------------------------------------------------ */

static void work_run(struct rf_job *job)
{
	struct exec *e = rf_container_of(job, struct exec, job);

	e->work.err = e->work_fn(e);
}

static void work_done(struct rf_job *job)
{
	exec_continue(rf_container_of(job, struct exec, job));
}

int exec_offload(struct exec *e, exec_work work, exec_step step)
{
	if (exec_is_dirty(e)) {
		e->work.err = work(e);
		return step(e);
	}
	e->work_fn = work;
	e->job = (struct rf_job){ .run = work_run, .done = work_done };
	exec_suspend(e, EXEC_WAITS_WORK, step);
	rf_workers_post(e->server->workers, e->server->reactor, &e->job);
	return EXEC_WAIT;
}

/* ---- room --------------------------------------------------------------- */

static void room_made(struct removal_waiter *waiter)
{
	exec_continue(rf_container_of(waiter, struct exec, removal));
}

bool exec_await_room(struct exec *e)
{
	e->removal.ready = room_made;
	if (e->room_waits >= EXEC_ROOM_WAITS ||
	    !store_await_removals(e->server->store, &e->removals_upto,
				  &e->removal))
		return false;
	e->room_waits++;
	exec_suspend(e, EXEC_WAITS_WORK, NULL);
	if (!e->reruns)
		exec_rewind(e);
	return true;
}

/* ---- durability --------------------------------------------------------- */

static void sync_done(struct sync_request *sync, int err)
{
	struct exec *e = rf_container_of(sync, struct exec, sync);

	if (sync->object)
		object_put(sync->object);
	if (err && e->flushes)
		e->flushed[e->flushed_count - 1].err = err;
	e->flushes = false;
	e->work.err = err;
	exec_continue(e);
}

int exec_sync(struct exec *e, struct object *object, bool is_data_only,
	      exec_step step)
{
	exec_suspend(e, EXEC_WAITS_SYNC, step);
	e->sync = (struct sync_request){
		.done = sync_done,
		.object = object,
		.is_data_only = is_data_only,
	};
	store_sync(e->server->store, &e->sync);
	return EXEC_WAIT;
}

void exec_sync_later(struct exec *e, struct object *object, bool is_data_only)
{
	if (!e->sync_place.is_set)
		e->sync_place = e->place;
	e->syncs = true;
	e->sync_is_data_only &= is_data_only;
	if (!object)
		return;
	for (unsigned int i = 0; i < e->to_sync_count; i++) {
		if (e->to_sync[i] == object) {
			object_put(object);
			return;
		}
	}
	e->to_sync[e->to_sync_count++] = object;
}

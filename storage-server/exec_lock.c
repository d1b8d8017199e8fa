/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_lock.c - LOCK, UNLOCK, TEST_LOCK, CANCEL_LOCK, LOCK_EVENTS
 *
 * Operation.  Locks are in memory, so they take effect at once and are no part
 * of the batch; set again they are what they were, so nothing is recorded of
 * them.  A lock that waits is none of the requests in service: what waits is one
 * LOCK_EVENTS for all of the session's.
 */
#include "exec.h"

#include <errno.h>

static int fill_request(const struct exec *e, uint64_t owner, uint32_t flags,
			uint64_t start, uint64_t end, struct lock_request *out)
{
	bool is_flock = flags & RF_LOCK_FLOCK;

	if (start > end || end > RF_RANGE_END ||
	    (is_flock && (start != 0 || end != RF_RANGE_END)))
		return -EINVAL;
	*out = (struct lock_request){
		.inode = e->current.inode,
		.owner = owner,
		.kind = is_flock ? LOCK_FLOCK : LOCK_POSIX,
		.range = { .start = start, .end = end,
			   .is_exclusive = flags & RF_LOCK_EXCLUSIVE },
		.may_wait = flags & RF_LOCK_WAIT,
		.is_no_deadlock = flags & RF_LOCK_NO_DEADLOCK,
		.is_reclaim = flags & RF_LOCK_RECLAIM,
	};
	return 0;
}

/* The right that fcntl(2) asks of the descriptor. */
static uint32_t need_of(uint32_t flags)
{
	if (flags & RF_LOCK_FLOCK)
		return 0;
	return flags & RF_LOCK_EXCLUSIVE ? RF_OPEN_WRITE : RF_OPEN_READ;
}

int exec_op_lock(struct exec *e)
{
	const struct rf_lock_args *args = &e->args.lock;
	struct lock_request request;
	uint32_t flags;
	int ret;

	ret = exec_use_open(e, &e->current, args->open, need_of(args->flags),
			    &flags);
	if (!ret)
		ret = fill_request(e, args->owner, args->flags, args->start,
				   args->end, &request);
	if (ret)
		return ret;
	request.range.pid = args->pid;
	request.open = args->open ? args->open
				  : e->opened[e->opened_count - 1];
	request.wait = args->wait;
	ret = locks_set(&e->server->locks, &e->session->locks, &request);
	e->results.lock.waits = ret == 1;
	return ret < 0 ? ret : 0;
}

int exec_op_unlock(struct exec *e)
{
	const struct rf_unlock_args *args = &e->args.unlock;
	struct lock_request request;
	int err = fill_request(e, args->owner, args->flags, args->start,
			       args->end, &request);

	if (err)
		return err;
	return locks_clear(&e->server->locks, &e->session->locks, &request);
}

int exec_op_test_lock(struct exec *e)
{
	const struct rf_test_lock_args *args = &e->args.test_lock;
	struct rf_test_lock_results *results = &e->results.test_lock;
	const struct lock_session *holder;
	struct lock_request request;
	struct rf_range found;
	uint32_t flags;
	int err;

	err = exec_use_open(e, &e->current, args->open, 0, &flags);
	if (!err)
		err = fill_request(e, args->owner, args->flags, args->start,
				   args->end, &request);
	if (err)
		return err;
	results->is_free = locks_test(&e->server->locks, &e->session->locks,
				      &request, &found, &holder);
	if (results->is_free)
		return 0;
	results->is_exclusive = found.is_exclusive;
	results->start = found.start;
	results->end = found.end;
	/* Of another host it would be the number of an innocent process. */
	if (session_is_of_host(e->session, rf_container_of(holder,
							   struct session,
							   locks)))
		results->pid = found.pid;
	return 0;
}

static enum rf_status status_of(int err)
{
	return err ? rf_status_from_errno(err) : RF_ST_OK;
}

int exec_op_cancel_lock(struct exec *e)
{
	int err = locks_cancel(&e->server->locks, &e->session->locks,
			       e->args.cancel_lock.wait);

	if (err == -ENOENT)
		return err;
	e->results.cancel_lock.status = (uint16_t)status_of(err);
	return 0;
}

/* ---- LOCK_EVENTS -------------------------------------------------------- */

/* Events, or none because none will come. */
static int give_events(struct exec *e)
{
	struct rf_lock_events_results *results = &e->results.lock_events;
	struct lock_event events[RF_LOCK_EVENTS_MAX];
	unsigned int count;

	count = locks_events(&e->server->locks, &e->session->locks,
			     e->args.lock_events.seen, events,
			     RF_LOCK_EVENTS_MAX, &results->last);
	for (unsigned int i = 0; i < count; i++) {
		const struct rf_lock_event event = {
			.wait = events[i].wait,
			.status = (uint16_t)status_of(events[i].err),
		};

		rf_lock_event_encode(e->server->scratch +
				     i * RF_LOCK_EVENT_SIZE, &event);
	}
	results->events = (rf_blob_t){ e->server->scratch,
				       count * RF_LOCK_EVENT_SIZE };
	return 0;
}

int exec_op_lock_events(struct exec *e)
{
	struct session *session = e->session;

	/* It may be QUEUED, and then no answer can be recorded any more. */
	if (exec_is_dirty(e) || exec_may_modify(e))
		return -EINVAL;
	if (session->lock_poll && session->lock_poll != e)
		exec_interrupt_soon(session->lock_poll, RF_ST_CANCELED);
	session->lock_poll = NULL;
	/* Of the server before this one; now, for later there may be as many. */
	if (e->args.lock_events.seen > session->locks.last_event)
		e->args.lock_events.seen = 0;
	give_events(e);
	if (e->results.lock_events.events.size > 0 ||
	    !locks_waits(&session->locks))
		return 0;
	session->lock_poll = e;
	exec_drop_marks(e);
	exec_suspend(e, EXEC_WAITS_LOCKS, exec_op_lock_events);
	if (e->request->ticket == 0)
		rf_request_queue(e->request);
	return EXEC_WAIT;
}

void exec_lock_settled(struct lock_session *locks)
{
	struct session *session = rf_container_of(locks, struct session, locks);
	struct exec *e = session->lock_poll;

	/* Not from here: a batch may be open. */
	if (e && rf_list_is_empty(&e->staged_link))
		rf_list_push(&e->server->staged, &e->staged_link);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock_wait.c - callers that wait for a lock
 *
 *	LOCK in flight -> parked -> settled: its caller is answered
 *
 * Operation.  The server answers a LOCK that has to wait at once.  The caller
 * is then kept here; while anybody is, one LOCK_EVENTS waits at the server for
 * all, and is asked again as soon as it has come back.  Any signal ends a wait:
 * CANCEL_LOCK asks the server, which knows whether the lock was granted just
 * before.
 *
 * Ownership.  A wait is its request's until it is parked, and holds its inode
 * from then on.
 * When it fails.  A lost connection changes nothing: the server keeps its waits, or is
 * asked again (reclaim.c).  Signals end a wait at once then; if it is granted
 * all the same, the lock is given back.  The end of the session ends all with EIO.
 */
#include "fs.h"

#include <errno.h>

int lock_waits_init(struct fs *fs)
{
	int err = held_init(&fs->held);

	if (!err)
		err = table_init(&fs->lock_waits, sizeof(struct lock_wait),
				 LOCK_WAITS_MAX);
	return err;
}

void lock_waits_fini(struct fs *fs)
{
	held_fini(&fs->held);
	table_fini(&fs->lock_waits);
}

/* ---- life ----------------------------------------------------------------- */

struct lock_wait *lock_wait_take(struct request *r)
{
	struct lock_wait *wait = table_take(&r->fs->lock_waits);

	if (!wait)
		return NULL;
	wait->fs = r->fs;
	wait->inode = r->inode;
	wait->fh = file_fh(r->file);
	wait->who = r->who;
	wait->unique = r->unique;
	r->inode->lock_calls++;
	r->wait = wait;
	return wait;
}

void lock_wait_keep(struct lock_wait *wait, enum keep_wait_state state)
{
	struct keep_waits *all = &wait->fs->keep->waits;
	struct keep_wait *kept = &all->v[wait->item.index];

	kept->unique = wait->unique;
	kept->fh = wait->fh;
	kept->args = wait->args;
	kept->generation = wait->item.generation;
	kept->inode = wait->inode->item.index;
	kept->uid = wait->who.uid;
	kept->gid = wait->who.gid;
	kept->pid = (uint32_t)wait->who.pid;
	rf_store_kept(&kept->state, state);
	keep_use(&all->used, wait->item.index);
}

static struct keep_wait *kept_of(const struct lock_wait *wait)
{
	return &wait->fs->keep->waits.v[wait->item.index];
}

/* It is over; who refers to the inode lets it go. */
static void end(struct lock_wait *wait)
{
	rf_store_kept(&kept_of(wait)->state, KEEP_WAIT_FREE);
	wait->inode->lock_calls--;
	table_give(&wait->fs->lock_waits, wait);
}

void lock_wait_give(struct request *r)
{
	struct lock_wait *wait = r->wait;

	r->wait = NULL;
	end(wait);
}

void lock_wait_granted(struct lock_wait *wait)
{
	const struct rf_lock_args *args = &wait->args;
	const struct rf_range range = {
		.start = args->start,
		.end = args->end,
		.is_exclusive = args->flags & RF_LOCK_EXCLUSIVE,
		.pid = args->pid,
	};

	held_set(&wait->fs->held, wait->inode, args->owner,
		 args->flags & RF_LOCK_FLOCK, wait->fh, &range);
}

static void unlock_answered(struct request *r, struct rf_dec *reply)
{
	request_answered_status(r, reply, RF_OP_UNLOCK);
}

/* It came when nobody waited any more.  Without an object to send this it ends
 * with its open. */
static void give_back(const struct lock_wait *wait)
{
	const struct rf_lock_args *args = &wait->args;
	struct rf_args unlock = { .code = RF_OP_UNLOCK };
	struct request *r = request_spare(wait->fs);

	if (!r)
		return;
	unlock.unlock.owner = args->owner;
	unlock.unlock.flags = args->flags & RF_LOCK_FLOCK;
	unlock.unlock.start = args->start;
	unlock.unlock.end = args->end;
	r->inode = wait->inode;
	r->inode->refs++;
	request_call(r, &unlock, unlock_answered);
}

/* Its caller does not wait on; how it ends at the server shows later. */
static void abandon(struct lock_wait *wait, int err)
{
	wait->unique = 0;
	rf_store_kept(&kept_of(wait)->unique, 0);
	fuse_reply_err(wait->fuse, -err);
	wait->fuse = NULL;
	wait->was_interrupted = true;
}

/* It is over: answer who waits. */
void lock_wait_settle(struct lock_wait *wait, int err)
{
	struct fs *fs = wait->fs;
	struct inode *inode = wait->inode;

	if (wait->fuse && !err)
		lock_wait_granted(wait);
	else if (!err)
		give_back(wait);
	kept_of(wait)->err = err;
	rf_store_kept(&kept_of(wait)->state, KEEP_WAIT_SETTLED);
	if (wait->fuse)
		fuse_reply_err(wait->fuse, -err);
	fs->parked--;
	end(wait);
	inodes_put(&fs->inodes, inode);
}

static int errno_of(unsigned int status)
{
	if (status == RF_ST_OK)
		return 0;
	if (status == RF_ST_CANCELED)
		return -EINTR;
	return rf_status_to_errno(status);
}

/* ---- signals -------------------------------------------------------------- */

static void cancel_answered(struct request *r, struct rf_dec *reply)
{
	struct lock_wait *wait = table_find(&r->fs->lock_waits, r->number);
	struct rf_results results;
	int err = request_results(r, reply, RF_OP_CANCEL_LOCK, &results);

	/* LOCK_EVENTS may have been faster. */
	if (wait && wait->is_parked)
		lock_wait_settle(wait, err ? -EIO : errno_of(results.cancel_lock.status));
	request_end(r);
}

static void cancel(struct lock_wait *wait)
{
	struct rf_args args = { .code = RF_OP_CANCEL_LOCK };
	struct request *r;

	if (wait->is_cancelling || wait->fs->is_away)
		return;
	r = request_spare(wait->fs);
	if (!r)
		return;		/* looked at again once in a while */
	wait->is_cancelling = true;
	r->who = wait->who;
	r->number = table_number(&wait->item);
	args.cancel_lock.wait = r->number;
	if (!request_begin(r)) {
		wait->is_cancelling = false;
		return;
	}
	request_put(r, &args);
	request_send(r, cancel_answered);
}

static void interrupted(fuse_req_t fuse, void *context)
{
	struct lock_wait *wait = context;

	(void)fuse;
	wait->fs->stats.interrupts++;
	wait->was_interrupted = true;
	if (!wait->is_registering)
		cancel(wait);
}

/* ---- news ----------------------------------------------------------------- */

static void poll_again(struct fs *fs);

static void take_events(struct fs *fs,
			const struct rf_lock_events_results *results)
{
	struct rf_lock_event event;

	for (unsigned int i = 0;
	     rf_lock_event_decode(&results->events, i, &event); i++) {
		struct lock_wait *wait = table_find(&fs->lock_waits,
						    event.wait);

		if (wait && wait->is_parked)
			lock_wait_settle(wait, errno_of(event.status));
	}
	fs->keep->lock_events_seen = results->last;
}

static void events_answered(struct request *r, struct rf_dec *reply)
{
	struct fs *fs = r->fs;
	struct rf_results results;
	int err = request_results(r, reply, RF_OP_LOCK_EVENTS, &results);

	fs->lock_poll = NULL;
	if (!err)
		take_events(fs, &results.lock_events);
	request_end(r);
	/* After an error: once in a while. */
	if (!err)
		poll_again(fs);
}

static void poll_again(struct fs *fs)
{
	struct rf_args args = { .code = RF_OP_LOCK_EVENTS };
	struct request *r;

	if (fs->lock_poll || fs->parked == 0 || !fs->client || fs->is_leaving)
		return;
	r = request_spare(fs);
	if (!r)
		return;
	args.lock_events.seen = fs->keep->lock_events_seen;
	fs->lock_poll = r;
	if (!request_begin(r)) {
		fs->lock_poll = NULL;
		return;
	}
	request_put(r, &args);
	request_send(r, events_answered);
}

/* r's caller waits here; r ends. */
static void keep_caller(struct lock_wait *wait, struct request *r)
{
	wait->fuse = request_fuse(r);
	request_end(r);
	wait->is_registering = true;
	if (wait->fuse)
		fuse_req_interrupt_func(wait->fuse, interrupted, wait);
	else
		wait->was_interrupted = true;	/* its caller was killed */
	wait->is_registering = false;
	if (wait->was_interrupted)
		cancel(wait);
}

static void park(struct lock_wait *wait)
{
	wait->inode->refs++;
	wait->is_parked = true;
	wait->fs->parked++;
}

void lock_wait_park(struct request *r)
{
	struct lock_wait *wait = r->wait;
	struct fs *fs = r->fs;

	r->wait = NULL;
	park(wait);
	lock_wait_keep(wait, KEEP_WAIT_PARKED);
	keep_caller(wait, r);
	poll_again(fs);
}

/* ---- of a daemon that died ------------------------------------------------- */

static void restore(struct fs *fs, struct lock_wait *wait, struct inode *inode,
		    const struct keep_wait *kept)
{
	wait->fs = fs;
	wait->inode = inode;
	wait->fh = kept->fh;
	wait->args = kept->args;
	wait->unique = kept->unique;
	wait->who.uid = kept->uid;
	wait->who.gid = kept->gid;
	wait->who.pid = (pid_t)kept->pid;
	wait->is_settled = kept->state == KEEP_WAIT_SETTLED;
	wait->err = kept->err;
	inode->lock_calls++;
	if (kept->state == KEEP_WAIT_PARKED)
		park(wait);
}

int lock_waits_restore(struct fs *fs)
{
	const struct keep_waits *all = &fs->keep->waits;

	for (uint32_t i = 1; i <= all->used; i++) {
		const struct keep_wait *kept = &all->v[i];
		struct inode *inode = table_at(&fs->inodes.table, kept->inode);
		bool is_taken = kept->state != KEEP_WAIT_FREE && inode;
		struct lock_wait *wait = table_restore(&fs->lock_waits,
						       kept->generation,
						       is_taken);

		if (!wait)
			return -ENOMEM;
		if (is_taken)
			restore(fs, wait, inode, kept);
	}
	return 0;
}

static struct lock_wait *find_unique(const struct fs *fs, uint64_t unique)
{
	for (uint32_t i = 1; i <= fs->lock_waits.used; i++) {
		struct lock_wait *wait = table_at(&fs->lock_waits, i);

		if (wait && wait->unique == unique)
			return wait;
	}
	return NULL;
}

bool lock_wait_goes_on(struct request *r)
{
	struct lock_wait *wait = find_unique(r->fs, r->unique);

	if (!wait)
		return false;
	if (wait->is_parked) {
		keep_caller(wait, r);
		return true;
	}
	r->wait = wait;
	if (!wait->is_settled)
		return false;
	if (!wait->err)
		lock_wait_granted(wait);
	request_fail(r, wait->err);
	return true;
}

/* Their callers were told. */
void lock_waits_over(struct fs *fs)
{
	for (uint32_t i = 1; i <= fs->lock_waits.used; i++) {
		struct lock_wait *wait = table_at(&fs->lock_waits, i);
		bool has_request = false;

		for (unsigned int k = 0; wait && k < REQUESTS_MAX; k++)
			has_request |= fs->requests[k].wait == wait;
		if (wait && wait->is_parked)
			wait->was_interrupted |= !wait->fuse;
		else if (wait && !has_request)
			end(wait);
	}
}

/* ---- once in a while, and the end ----------------------------------------- */

struct lock_wait *lock_waits_next(struct fs *fs, uint32_t *index)
{
	while (*index < fs->lock_waits.used) {
		struct lock_wait *wait = table_at(&fs->lock_waits, ++*index);

		if (wait && wait->is_parked)
			return wait;
	}
	return NULL;
}

/* While the server is away: who is to die, or is not to wait for ever. */
static void check_patience(struct lock_wait *wait)
{
	const struct fs *fs = wait->fs;

	if (!wait->fuse || !fs->is_away)
		return;
	if (wait->was_interrupted)
		abandon(wait, -EINTR);
	else if (fs->options.is_soft && fs_away_ms(fs) >= fs->options.timeo_ms)
		abandon(wait, -EIO);
}

void lock_waits_check(struct fs *fs)
{
	struct lock_wait *wait;
	uint32_t index = 0;

	if (fs->parked == 0)
		return;
	poll_again(fs);
	while ((wait = lock_waits_next(fs, &index))) {
		check_patience(wait);
		if (wait->was_interrupted)
			cancel(wait);
	}
}

void lock_waits_lose(struct fs *fs)
{
	struct lock_wait *wait;
	uint32_t index = 0;

	while ((wait = lock_waits_next(fs, &index)))
		lock_wait_settle(wait, -EIO);
	/* BYE waits for all that is in flight. */
	if (fs->lock_poll && fs->lock_poll->state == REQUEST_QUEUED &&
	    fs->is_leaving)
		interrupt_cancel(fs->lock_poll);
}

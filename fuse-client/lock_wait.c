/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock_wait.c - callers that wait for a lock
 *
 *	LOCK in flight -> parked -> settled: its caller is answered
 *	       `-------------`----> orphan.c, if its caller is told before
 *
 * Operation.  The server answers a LOCK that has to wait at once.  The caller
 * is then kept here; while anybody is, one LOCK_EVENTS waits at the server for
 * all, and is asked again as soon as it has come back.  A LOCK that has to wait
 * before it can be sent (the server is away, or there are orphans of its file) is
 * parked too, and the server asked when it can be (reclaim.c): who waits for a lock
 * holds no request.  Any signal ends a wait: CANCEL_LOCK asks the server, which
 * knows whether the lock was granted just before.
 *
 * Ownership.  A wait is its request's until it is parked, and holds its inode
 * from then on.
 * When it fails.  A lost connection changes nothing: the server keeps its waits, or is
 * asked again.  Signals end a wait at once then; if it is granted all the same,
 * the lock is given back (orphan.c).  The end of the session ends all with EIO.
 */
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

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
	wait->fh = r->file ? file_fh(r->file) : 0;
	wait->since_ns = r->arrived_ns;
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

void lock_wait_end(struct lock_wait *wait)
{
	rf_store_kept(&kept_of(wait)->state, KEEP_WAIT_FREE);
	wait->inode->lock_calls--;
	table_give(&wait->fs->lock_waits, wait);
}

void lock_wait_give(struct request *r)
{
	struct lock_wait *wait = r->wait;

	r->wait = NULL;
	lock_wait_end(wait);
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

static void leave(struct lock_wait *wait)
{
	wait->is_parked = false;
	wait->fs->parked--;
}

/* Nobody waits any more; how it ends at the server shows later. */
static void abandon(struct lock_wait *wait, int err)
{
	struct fs *fs = wait->fs;
	struct inode *inode = wait->inode;
	fuse_req_t fuse = wait->fuse;

	leave(wait);
	wait->fuse = NULL;
	if (wait->was_sent) {
		orphan_begin(wait);
		inode = NULL;
	} else {
		lock_wait_end(wait);
	}
	if (fuse)
		fuse_reply_err(fuse, -err);
	if (inode)
		inodes_put(&fs->inodes, inode);
}

/* It is over: answer who waits. */
void lock_wait_settle(struct lock_wait *wait, int err)
{
	struct fs *fs = wait->fs;
	struct inode *inode = wait->inode;

	leave(wait);
	if (!err)
		lock_wait_granted(wait);
	kept_of(wait)->err = err;
	rf_store_kept(&kept_of(wait)->state, KEEP_WAIT_SETTLED);
	if (wait->fuse)
		fuse_reply_err(wait->fuse, -err);
	lock_wait_end(wait);
	inodes_put(&fs->inodes, inode);
}

/* ---- locks of open file descriptions ---------------------------------------- */

/* What the thread is doing in the kernel; false: it can't be known. */
static bool read_call(pid_t thread, char *text, size_t size)
{
	char path[32];
	ssize_t got;
	int file;

	snprintf(path, sizeof(path), "/proc/%d/syscall", thread);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return false;
	got = read(file, text, size - 1);
	close(file);
	if (got <= 0)
		return false;
	text[got] = '\0';
	return true;
}

/* Is the thread in fcntl(fd, F_OFD_SETLKW)?  Not, if it can't be known. */
static bool waits_for_ofd(pid_t thread)
{
	enum { TRIES = 50 };
	unsigned long fd, command;
	char text[128];
	long call;

	for (unsigned int i = 0; i < TRIES; i++) {
		if (!read_call(thread, text, sizeof(text)))
			return false;
		/* It is about to go to sleep. */
		if (text[0] != 'r')
			break;
		sched_yield();
	}
	return sscanf(text, "%ld %lx %lx", &call, &fd, &command) == 3 &&
	       call == SYS_fcntl && command == F_OFD_SETLKW;
}

bool lock_wait_is_ofd(struct lock_wait *wait)
{
	if (wait->args.flags & (RF_LOCK_FLOCK | RF_LOCK_NO_DEADLOCK) ||
	    !waits_for_ofd(wait->who.pid))
		return false;
	wait->args.flags |= RF_LOCK_NO_DEADLOCK;
	return true;
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
	if (wait && wait->is_parked) {
		wait->is_cancelling = false;
		/* It was granted or cancelled, and the answer lost: which? */
		if (err)
			abandon(wait, -EINTR);
		else
			lock_wait_settle(wait,
					 errno_of(results.cancel_lock.status));
	}
	request_end(r);
}

static void cancel(struct lock_wait *wait)
{
	struct rf_args args = { .code = RF_OP_CANCEL_LOCK };
	struct request *r;

	if (wait->is_cancelling)
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

/* Its caller does not wait on. */
static void interrupt(struct lock_wait *wait)
{
	if (wait->fs->is_away || !wait->is_asked)
		abandon(wait, -EINTR);
	else
		cancel(wait);
}

static void interrupted(fuse_req_t fuse, void *context)
{
	struct lock_wait *wait = context;

	(void)fuse;
	wait->fs->stats.interrupts++;
	wait->was_interrupted = true;
	if (!wait->is_registering)
		interrupt(wait);
}

/* ---- news ----------------------------------------------------------------- */

static void poll_again(struct fs *fs);

void lock_wait_ask(struct lock_wait *wait)
{
	wait->is_asked = false;
	wait->fs->has_unasked = true;
}

static void take_event(struct lock_wait *wait, int err)
{
	if (!wait->is_asked) {
		wait->was_told = true;
	} else if (err == -EDEADLK && lock_wait_is_ofd(wait)) {
		lock_wait_ask(wait);
		lock_wait_keep(wait, KEEP_WAIT_PARKED);
	} else {
		lock_wait_settle(wait, err);
	}
}

static void take_events(struct fs *fs,
			const struct rf_lock_events_results *results)
{
	struct rf_lock_event event;

	for (unsigned int i = 0;
	     rf_lock_event_decode(&results->events, i, &event); i++) {
		struct lock_wait *wait = table_find(&fs->lock_waits,
						    event.wait);

		if (wait && wait->is_parked)
			take_event(wait, errno_of(event.status));
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
	wait->is_registering = false;
	if (!wait->fuse)
		abandon(wait, -EINTR);		/* it was told */
	else if (wait->was_interrupted)
		interrupt(wait);
}

static void park(struct lock_wait *wait)
{
	wait->inode->refs++;
	wait->is_parked = true;
	wait->fs->parked++;
}

/* An owner's lock of the other kind was given up to ask for this one. */
static void give_up_flock(struct lock_wait *wait)
{
	const struct rf_lock_args *args = &wait->args;

	if (args->flags & RF_LOCK_FLOCK)
		held_clear(&wait->fs->held, wait->inode, args->owner, true,
			   args->start, args->end);
}

void lock_wait_park(struct request *r, bool is_asked)
{
	struct lock_wait *wait = r->wait;
	struct fs *fs = r->fs;

	r->wait = NULL;
	park(wait);
	wait->is_asked = is_asked;
	fs->has_unasked |= !is_asked;
	wait->was_sent |= is_asked || r->call.was_sent;
	lock_wait_keep(wait, KEEP_WAIT_PARKED);
	if (is_asked)
		lock_wait_waits(wait);
	keep_caller(wait, r);
	poll_again(fs);
	reclaim_locks(fs);
}

void lock_wait_waits(struct lock_wait *wait)
{
	give_up_flock(wait);
	/* Others may wait for it, so that it looks like a part of a deadlock. */
	if (lock_wait_is_ofd(wait)) {
		lock_wait_ask(wait);
		lock_wait_keep(wait, KEEP_WAIT_PARKED);
	}
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
	wait->since_ns = rf_reactor_now_ns(fs->reactor);
	wait->was_sent = true;
	inode->lock_calls++;
	fs->has_unasked = true;
	if (kept->state == KEEP_WAIT_PARKED)
		park(wait);
	if (kept->state == KEEP_WAIT_ORPHAN) {
		inode->refs++;
		orphan_begin(wait);
	}
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

bool lock_wait_has(const struct fs *fs, uint64_t unique)
{
	return find_unique(fs, unique) != NULL;
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

static bool has_request(const struct lock_wait *wait)
{
	const struct fs *fs = wait->fs;

	for (unsigned int i = 0; i < REQUESTS_MAX; i++)
		if (fs->requests[i].wait == wait)
			return true;
	return false;
}

void lock_waits_over(struct fs *fs)
{
	for (uint32_t i = 1; i <= fs->lock_waits.used; i++) {
		struct lock_wait *wait = table_at(&fs->lock_waits, i);

		if (!wait || wait->is_orphan || wait->fuse || has_request(wait))
			continue;
		if (wait->is_parked) {
			abandon(wait, -EINTR);
		} else if (wait->is_settled) {
			lock_wait_end(wait);	/* and its caller was told */
		} else {
			wait->inode->refs++;
			orphan_begin(wait);
		}
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

/* Of a soft mount, without the server. */
static bool is_out_of_time(const struct lock_wait *wait)
{
	const struct fs *fs = wait->fs;
	uint64_t age_ms = (rf_reactor_now_ns(fs->reactor) - wait->since_ns) /
			  1000000;

	return fs->options.is_soft && fs->is_away &&
	       rf_min_u64(fs_away_ms(fs), age_ms) >= fs->options.timeo_ms;
}

void lock_waits_check(struct fs *fs)
{
	struct lock_wait *wait;
	uint32_t index = 0;

	if (fs->lock_waits.taken == 0)
		return;
	poll_again(fs);
	while ((wait = lock_waits_next(fs, &index))) {
		if (wait->was_interrupted)
			interrupt(wait);
		else if (is_out_of_time(wait))
			abandon(wait, -EIO);
	}
	orphans_try_again(fs);
}

bool lock_waits_may_have(const struct fs *fs, const struct inode *inode,
			 uint64_t owner)
{
	if (inode->locks_are_unknown || held_find(inode, owner, false))
		return true;
	if (inode->lock_calls == inode->orphans)
		return false;
	for (uint32_t i = 1; i <= fs->lock_waits.used; i++) {
		const struct lock_wait *wait = table_at(&fs->lock_waits, i);

		if (wait && wait->inode == inode && !wait->is_orphan &&
		    wait->args.owner == owner &&
		    !(wait->args.flags & RF_LOCK_FLOCK))
			return true;
	}
	return false;
}

void lock_waits_forgotten(struct fs *fs)
{
	struct lock_wait *wait;
	uint32_t index = 0;

	while ((wait = lock_waits_next(fs, &index))) {
		lock_wait_ask(wait);
		wait->was_sent = wait->was_told = false;
	}
	orphans_forget(fs);
}

void lock_waits_lose(struct fs *fs)
{
	struct lock_wait *wait;
	uint32_t index = 0;

	while ((wait = lock_waits_next(fs, &index)))
		lock_wait_settle(wait, -EIO);
	orphans_forget(fs);
	/* BYE waits for all that is in flight. */
	if (fs->lock_poll && fs->is_leaving)
		interrupt_cancel(fs->lock_poll);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interrupt.c - callers that were killed while their request waits
 *
 * Operation.  The kernel says FUSE_INTERRUPT for any signal, but a file system
 * on a disk lets only a fatal one end a call: programs do not expect EINTR from
 * stat() or write() because a timer went off.  The kernel marks a thread that
 * is to die by a pending SIGKILL, whatever signal killed it, and /proc shows
 * that.  So only a dying caller gets EINTR, and gets it at once.  What was not
 * sent yet ends with that; what was sent goes on without a caller until its
 * answer comes (what the server QUEUED is cancelled), and an open that it brings
 * is released.  Only what changes something that others see keeps its caller until
 * it is over, as a disk does: whoever is started next may write to the same place,
 * or make what a dead one's "mv" was to move, and must not be overtaken by what was
 * still on its way.  A lock whose
 * wait was ended is given back (orphan.c); any signal ends it.  Without a
 * connection nothing is on its way, and it ends at once, too: what was sent
 * before is settled first when there is one again (holds_others).  The kernel
 * tells of an interrupt once; callers that were not dying then are looked at
 * again once in a while.
 */
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * From /proc/THREAD/stat, which is short: in status the groups stand before, and
 * may be thousands.  The signals are the 31st word, in decimal; the second, the
 * program's name in parentheses, may hold blanks.
 */
static bool has_sigkill(const char *stat)
{
	enum { BEHIND_NAME = 31 - 2 };
	const char *at = strrchr(stat, ')');

	for (unsigned int i = 0; at && i < BEHIND_NAME; i++)
		at = strchr(at + 1, ' ');
	return at && strtoull(at, NULL, 10) & 1u << (SIGKILL - 1);
}

bool interrupt_is_dying(pid_t thread)
{
	char path[32], text[1024];
	ssize_t got;
	int fd;

	if (thread <= 0)	/* of another pid namespace: unknown */
		return false;
	snprintf(path, sizeof(path), "/proc/%d/stat", thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT && !identity_is_hidden(thread);
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got <= 0)
		return true;
	text[got] = '\0';
	return has_sigkill(text);
}

static void cancel_answered(struct request *r, struct rf_dec *reply)
{
	/* The ticket may have ended meanwhile: no matter. */
	request_answered_status(r, reply, RF_OP_CANCEL);
}

void interrupt_cancel(struct request *r)
{
	struct rf_args args = { .code = RF_OP_CANCEL };
	struct request *spare;

	if (r->state != REQUEST_QUEUED || r->was_cancelled)
		return;
	spare = request_spare(r->fs);
	if (!spare)
		return;
	r->was_cancelled = true;
	args.cancel.ticket = r->call.ticket;
	spare->who = r->who;
	if (!request_begin(spare))
		return;
	spare->call.is_control = true;
	request_put(spare, &args);
	request_send(spare, cancel_answered);
}

bool interrupt_is_cancel(const struct request *r)
{
	return r->home == &r->fs->free_spares && r->answered == cancel_answered;
}

/* Any signal ends a wait for a lock, also for the server that is asked for it. */
static bool may_end(const struct request *r)
{
	const struct fs *fs = r->fs;
	bool waits_for_lock = r->wait && r->wait->args.flags & RF_LOCK_WAIT;
	uint64_t age_ns = rf_reactor_now_ns(fs->reactor) - r->arrived_ns;

	if (r->was_interrupted && waits_for_lock &&
	    (fs->is_away || age_ns / 1000000 >= LOCAL_ANSWER_MS))
		return true;
	return interrupt_is_dying(r->who.pid);
}

/* It is on its way, and what it does is not a matter of its caller only. */
static bool must_be_over(const struct request *r)
{
	if (r->fs->is_away)
		return false;
	return r->is_changing || r->state == REQUEST_PARTS ||
	       (r->state == REQUEST_CALLING && r->is_seen);
}

static void end_if_dying(struct request *r)
{
	struct fs *fs = r->fs;

	if (!fs->client || !r->fuse || !may_end(r))
		return;
	if (request_take_back(r, -EINTR))
		return;
	interrupt_cancel(r);
	if (!must_be_over(r)) {
		request_abandon(r, -EINTR);
	} else if (!r->was_killed) {
		r->was_killed = true;
		r->killed_ns = rf_reactor_now_ns(fs->reactor);
	}
}

static void interrupted(fuse_req_t fuse, void *context)
{
	struct request *r = context;

	(void)fuse;
	r->fs->stats.interrupts++;
	r->was_interrupted = true;
	if (!r->is_registering)
		end_if_dying(r);
}

void interrupt_watch(struct request *r)
{
	if (!r->fuse || r->was_interrupted)
		return;
	r->is_registering = true;
	fuse_req_interrupt_func(r->fuse, interrupted, r);
	r->is_registering = false;
	if (r->was_interrupted)
		end_if_dying(r);
}

void interrupts_check(struct fs *fs, bool all)
{
	for (unsigned int i = 0; i < REQUESTS_MAX; i++)
		if (fs->requests[i].state != REQUEST_FREE &&
		    (fs->requests[i].was_interrupted || all))
			end_if_dying(&fs->requests[i]);
}

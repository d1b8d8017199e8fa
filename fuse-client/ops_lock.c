/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops_lock.c - fcntl and flock locks, of all mounts
 *
 * Operation.  The kernel keeps none itself.  A LOCK is answered soon: it is
 * there, refused, or waits at the server; then its caller is kept in a struct
 * lock_wait, which takes no request object, until lock_wait.c hears of its end.
 *
 * close() is FLUSH, which must end the process's fcntl locks before it returns.
 * The kernel sends one for each close of any file, so who has no lock there is
 * answered from held.h, without the server.
 *
 * When it fails.  EDEADLK is for a process's own locks.  Locks of open file
 * descriptions may be ended by others than who waits, so they are no part of
 * deadlocks, but FUSE hides which of the two it is: what the caller is doing in
 * the kernel tells, and is looked at when the server has found a deadlock.
 */
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- LOCK ----------------------------------------------------------------- */

/* Is the thread in fcntl(fd, F_OFD_SETLKW)?  Not, if it can't be known. */
static bool waits_for_ofd(pid_t thread)
{
	unsigned long fd, command;
	char path[32], text[128];
	ssize_t got;
	long call;
	int file;

	snprintf(path, sizeof(path), "/proc/%d/syscall", thread);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return false;
	got = read(file, text, sizeof(text) - 1);
	close(file);
	if (got <= 0)
		return false;
	text[got] = '\0';
	return sscanf(text, "%ld %lx %lx", &call, &fd, &command) == 3 &&
	       call == SYS_fcntl && command == F_OFD_SETLKW;
}

static void lock_answered(struct request *r, struct rf_dec *reply);

static void send_lock(struct request *r)
{
	const struct rf_args args = {
		.code = RF_OP_LOCK,
		.lock = r->wait->args,
	};

	request_call(r, &args, lock_answered);
}

static void lock_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;
	struct lock_wait *wait = r->wait;
	int err = request_results(r, reply, RF_OP_LOCK, &results);

	if (err == -EDEADLK && !(wait->args.flags & RF_LOCK_NO_DEADLOCK) &&
	    waits_for_ofd(r->who.pid)) {
		wait->args.flags |= RF_LOCK_NO_DEADLOCK;
		lock_wait_keep(wait, KEEP_WAIT_CALLING);
		send_lock(r);
		return;
	}
	if (!err && results.lock.waits) {
		lock_wait_park(r);
		return;
	}
	if (!err)
		lock_wait_granted(wait);
	/* Its caller was killed: it goes with the caller's descriptors. */
	request_fail(r, err);
}

static uint32_t lock_flags(const struct fuse_lk_in *in, bool is_waiting)
{
	return (in->lk.type == F_WRLCK ? RF_LOCK_EXCLUSIVE : 0) |
	       (in->lk_flags & FUSE_LK_FLOCK ? RF_LOCK_FLOCK : 0) |
	       (is_waiting ? RF_LOCK_WAIT : 0);
}

static void lock(struct request *r, const struct fuse_lk_in *in,
		 bool is_waiting)
{
	struct lock_wait *wait;

	if (r->is_resent && lock_wait_goes_on(r))
		return;
	if (r->wait) {
		send_lock(r);
		return;
	}
	wait = lock_wait_take(r);
	if (!wait) {
		request_fail(r, -ENOLCK);
		return;
	}
	wait->args = (struct rf_lock_args){
		.wait = table_number(&wait->item),
		.open = r->file->open,
		.owner = in->owner,
		.flags = lock_flags(in, is_waiting),
		.start = in->lk.start,
		.end = in->lk.end,
		.pid = in->lk.pid,
	};
	lock_wait_keep(wait, KEEP_WAIT_CALLING);
	send_lock(r);
}

/* ---- UNLOCK --------------------------------------------------------------- */

static void unlock_answered(struct request *r, struct rf_dec *reply)
{
	const struct rf_unlock_args *args = &r->unlock;
	struct rf_results results;
	int err = request_results(r, reply, RF_OP_UNLOCK, &results);

	if (!err)
		held_clear(&r->fs->held, r->inode, args->owner,
			   args->flags & RF_LOCK_FLOCK, args->start, args->end);
	request_fail(r, err);
}

static void unlock(struct request *r, uint64_t owner, uint32_t flags,
		   uint64_t start, uint64_t end)
{
	struct rf_args args = { .code = RF_OP_UNLOCK };

	args.unlock.owner = owner;
	args.unlock.flags = flags;
	args.unlock.start = start;
	args.unlock.end = end;
	r->unlock = args.unlock;
	request_call(r, &args, unlock_answered);
}

/* ---- the kernel's requests ------------------------------------------------ */

/* What libfuse has made of it says less than what came. */
static void set_lock(fuse_req_t fuse, fuse_ino_t nodeid,
		     const struct fuse_file_info *fi, bool is_waiting)
{
	struct request *r = request_take_file(fuse, nodeid, fi);
	const struct fuse_lk_in *in;

	if (!r)
		return;
	in = fuse_io_raw(r->fs);
	if (in->lk.start > in->lk.end || in->lk.end > RF_RANGE_END)
		request_fail(r, -EINVAL);
	else if (in->lk.type == F_UNLCK)
		unlock(r, in->owner,
		       in->lk_flags & FUSE_LK_FLOCK ? RF_LOCK_FLOCK : 0,
		       in->lk.start, in->lk.end);
	else
		lock(r, in, is_waiting);
}

static void do_setlk(fuse_req_t fuse, fuse_ino_t nodeid,
		     struct fuse_file_info *fi, struct flock *flock, int sleep)
{
	(void)flock;
	set_lock(fuse, nodeid, fi, sleep != 0);
}

static void do_flock(fuse_req_t fuse, fuse_ino_t nodeid,
		     struct fuse_file_info *fi, int op)
{
	set_lock(fuse, nodeid, fi, !(op & LOCK_NB));
}

static void test_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;
	const struct rf_test_lock_results *found = &results.test_lock;
	struct fuse_lk_out out = { .lk.type = F_UNLCK };
	int err = request_results(r, reply, RF_OP_TEST_LOCK, &results);

	if (err) {
		request_fail(r, err);
		return;
	}
	if (!found->is_free)
		out.lk = (struct fuse_file_lock){
			.start = found->start,
			.end = found->end,
			.type = found->is_exclusive ? F_WRLCK : F_RDLCK,
			.pid = found->pid,
		};
	request_reply_data(r, &out, sizeof(out));
	request_end(r);
}

static void do_getlk(fuse_req_t fuse, fuse_ino_t nodeid,
		     struct fuse_file_info *fi, struct flock *flock)
{
	struct request *r = request_take_file(fuse, nodeid, fi);
	struct rf_args args = { .code = RF_OP_TEST_LOCK };
	const struct fuse_lk_in *in;

	(void)flock;
	if (!r)
		return;
	in = fuse_io_raw(r->fs);
	if (in->lk.start > in->lk.end || in->lk.end > RF_RANGE_END) {
		request_fail(r, -EINVAL);
		return;
	}
	args.test_lock.open = r->file->open;
	args.test_lock.owner = in->owner;
	args.test_lock.flags = lock_flags(in, false);
	args.test_lock.start = in->lk.start;
	args.test_lock.end = in->lk.end;
	request_call(r, &args, test_answered);
}

/* Most often there is nothing to do: as cheap as can be. */
static void do_flush(fuse_req_t fuse, fuse_ino_t nodeid,
		     struct fuse_file_info *fi)
{
	struct fs *fs = fuse_req_userdata(fuse);
	const struct inode *inode = table_find(&fs->inodes.table, nodeid);
	struct request *r;

	if (!inode || !held_may_have(inode, fi->lock_owner)) {
		fuse_reply_err(fuse, 0);
		return;
	}
	r = request_take(fuse, nodeid);
	if (r)
		unlock(r, fi->lock_owner, 0, 0, RF_RANGE_END);
}

void ops_lock_fill(struct fuse_lowlevel_ops *ops)
{
	ops->getlk = do_getlk;
	ops->setlk = do_setlk;
	ops->flock = do_flock;
	ops->flush = do_flush;
}

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
 * answered from held.h, without the server.  It also waits for it where nothing can
 * end the wait, and others wait behind: in execve(), which closes descriptors with
 * the lock that /proc needs to show a process's memory, or in exit().  So when the
 * server is away, or slow, it is answered at once, and the lock is given back later
 * (orphan.c), before any lock call on the file that comes after it.  Nobody else
 * could have the lock before that in any case.
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
#include <sys/file.h>

/* ---- LOCK ----------------------------------------------------------------- */

static void lock_answered(struct request *r, struct rf_dec *reply);

static void send_lock(struct request *r)
{
	const struct rf_args args = {
		.code = RF_OP_LOCK,
		.lock = r->wait->args,
	};

	request_call(r, &args, lock_answered);
}

/* flock(2) has given the old lock up to ask for this one. */
static void refused(const struct lock_wait *wait, int err)
{
	const struct rf_lock_args *args = &wait->args;

	if (args->flags & RF_LOCK_FLOCK && (err == -EAGAIN || err == -ENOLCK))
		held_clear(&wait->fs->held, wait->inode, args->owner, true,
			   args->start, args->end);
}

static void lock_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;
	struct lock_wait *wait = r->wait;
	int err = request_results(r, reply, RF_OP_LOCK, &results);

	if (err == -EDEADLK && lock_wait_is_ofd(wait)) {
		lock_wait_keep(wait, KEEP_WAIT_CALLING);
		send_lock(r);
		return;
	}
	if (!err && results.lock.waits) {
		lock_wait_park(r, true);
		return;
	}
	if (err)
		refused(wait, err);
	else if (r->fuse)
		lock_wait_granted(wait);
	else
		orphan_of_request(r);
	request_fail(r, err);
}

static uint32_t lock_flags(const struct fuse_lk_in *in, bool is_waiting)
{
	return (in->lk.type == F_WRLCK ? RF_LOCK_EXCLUSIVE : 0) |
	       (in->lk_flags & FUSE_LK_FLOCK ? RF_LOCK_FLOCK : 0) |
	       (is_waiting ? RF_LOCK_WAIT : 0);
}

static void start_lock(struct request *r)
{
	const struct fs *fs = r->fs;
	bool can_be_sent = !fs->is_away && !fs->is_taking_over &&
			   r->inode->orphans == 0;

	if (r->wait->args.flags & RF_LOCK_WAIT && !can_be_sent)
		lock_wait_park(r, false);
	else if (r->inode->orphans > 0)
		orphans_wait(r, send_lock);
	else
		send_lock(r);
}

static void lock(struct request *r, const struct fuse_lk_in *in,
		 bool is_waiting)
{
	struct lock_wait *wait;

	if (r->is_resent && lock_wait_goes_on(r))
		return;
	if (r->wait) {
		start_lock(r);
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
	start_lock(r);
}

/* ---- UNLOCK --------------------------------------------------------------- */

static void clear(const struct request *r)
{
	const struct rf_unlock_args *args = &r->unlock;

	held_clear(&r->fs->held, r->inode, args->owner,
		   args->flags & RF_LOCK_FLOCK, args->start, args->end);
}

static void unlock_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;
	int err = request_results(r, reply, RF_OP_UNLOCK, &results);

	/* Once more: a LOCK that went before it may have been answered since. */
	if (!err)
		clear(r);
	else
		r->inode->locks_are_unknown = true;
	request_fail(r, err);
}

/* What it ends is not ours any more: nobody may have it back for us. */
static void send_unlock(struct request *r)
{
	struct rf_args args = { .code = RF_OP_UNLOCK, .unlock = r->unlock };

	clear(r);
	request_call(r, &args, unlock_answered);
}

/* Its record, until it is answered; without one it can't be done later. */
static void keep_unlock(struct request *r)
{
	const struct rf_unlock_args *args = &r->unlock;
	struct lock_wait *wait;

	if (r->is_resent)
		RF_ASSERT(!lock_wait_goes_on(r));
	wait = r->wait ? r->wait : lock_wait_take(r);
	if (!wait)
		return;
	wait->args = (struct rf_lock_args){
		.owner = args->owner,
		.flags = args->flags,
		.start = args->start,
		.end = args->end,
	};
	lock_wait_keep(wait, KEEP_WAIT_CALLING);
}

/* What close() ends is ours until then, so it can be given back later. */
static void flush_locally(struct request *r)
{
	request_reply_err(r, 0);
}

static void unlock(struct request *r, uint64_t owner, uint32_t flags,
		   uint64_t start, uint64_t end)
{
	const struct fs *fs = r->fs;

	r->unlock.owner = owner;
	r->unlock.flags = flags;
	r->unlock.start = start;
	r->unlock.end = end;
	r->is_unlocking = true;
	keep_unlock(r);
	if (r->is_flush && r->wait)
		r->answer_locally = flush_locally;
	/* An object of our own is no one that patience.c looks after. */
	if (r->is_flush && r->wait &&
	    (fs->is_away || fs->is_taking_over ||
	     r->home == &fs->free_spares)) {
		orphan_of_request(r);
		request_fail(r, 0);
	} else if (r->inode->orphans > 0) {
		orphans_wait(r, send_unlock);
	} else {
		send_unlock(r);
	}
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

	if (!inode || !lock_waits_may_have(fs, inode, fi->lock_owner)) {
		fuse_reply_err(fuse, 0);
		return;
	}
	r = request_take(fuse, nodeid);
	if (!r)
		return;
	r->is_flush = true;
	unlock(r, fi->lock_owner, 0, 0, RF_RANGE_END);
}

void ops_lock_fill(struct fuse_lowlevel_ops *ops)
{
	ops->getlk = do_getlk;
	ops->setlk = do_setlk;
	ops->flock = do_flock;
	ops->flush = do_flush;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orphan.c - locks that nobody waits for any more, but the server may have
 *
 * An orphan is a LOCK whose caller was told an error (it was killed or given up
 * while the server was away, a signal ended its wait, a soft mount lost patience)
 * though the LOCK was sent; or an UNLOCK, by close() most often, whose caller was
 * told of success before the server was.
 *
 * Operation.  On control slots, beside reclaim.c's messages:
 *
 *	CANCEL_LOCK	it waits no more; if that did not come before it was
 *			granted, or nobody knows:
 *	USE, UNLOCK,	what the owner has in that range is made what held.c says,
 *	LOCK, ...	which was never told of this one
 *
 * All of it may be done twice, so after a lost connection it begins anew.  New lock
 * calls on the file wait until it is done (they would be undone), and it waits until
 * those in flight are answered; after a loss it comes before they are sent again.
 * Waits of the same owner there are asked for again: the UNLOCK may have ended a
 * lock that had just been granted to them.
 *
 * Ownership.  An orphan is a struct lock_wait, and holds its inode.
 *
 * When it fails.  A daemon that dies: its successor finds them (keep.h).  A server
 * that was started anew, or has ended the session, has none of them.  A lock that
 * the owner has and that can't be had back (an exclusive one that had become
 * shared, and another has a shared one by now) is lost: EIO to who has the file
 * open.
 */
#include "fs.h"

#include <errno.h>

/* ---- life ------------------------------------------------------------------ */

void orphan_begin(struct lock_wait *wait)
{
	struct fs *fs = wait->fs;

	RF_ASSERT(!wait->is_parked && !wait->is_orphan);
	wait->is_orphan = true;
	wait->unique = 0;
	wait->inode->orphans++;
	fs->orphans++;
	lock_wait_keep(wait, KEEP_WAIT_ORPHAN);
}

void orphan_of_request(struct request *r)
{
	struct lock_wait *wait = r->wait;
	const struct rf_lock_args *args = &wait->args;

	r->wait = NULL;
	r->inode->refs++;
	orphan_begin(wait);
	if (args->wait == 0)
		held_clear(&r->fs->held, r->inode, args->owner,
			   args->flags & RF_LOCK_FLOCK, args->start, args->end);
}

/* Those that have waited for it go on. */
static void pump(struct fs *fs)
{
	struct rf_list waiting, *item;

	rf_list_init(&waiting);
	rf_list_take_all(&waiting, &fs->locks_waiting);
	while ((item = rf_list_pop(&waiting))) {
		struct request *r = rf_container_of(item, struct request, link);

		if (r->inode->orphans > 0) {
			rf_list_push(&fs->locks_waiting, item);
			continue;
		}
		request_set_state(r, REQUEST_WORKING);
		r->resume(r);
	}
}

/* It is as if it had never been. */
static void end(struct lock_wait *wait)
{
	struct fs *fs = wait->fs;
	struct inode *inode = wait->inode;

	inode->orphans--;
	fs->orphans--;
	lock_wait_end(wait);
	if (inode->orphans == 0)
		pump(fs);
	inodes_put(&fs->inodes, inode);
}

void orphans_wait(struct request *r, request_fn resume)
{
	struct fs *fs = r->fs;

	r->resume = resume;
	request_set_state(r, REQUEST_LOCKS);
	rf_list_push(&fs->locks_waiting, &r->link);
	interrupt_watch(r);
	reclaim_locks(fs);
}

void orphans_forget(struct fs *fs)
{
	for (uint32_t i = 1; fs->orphans > 0 && i <= fs->lock_waits.used; i++) {
		struct lock_wait *wait = table_at(&fs->lock_waits, i);

		if (wait && wait->is_orphan)
			end(wait);
	}
}

/* ---- which ------------------------------------------------------------------ */

/* A lock call on the inode is under way, and its answer not known. */
static bool has_calls(const struct fs *fs, const struct inode *inode)
{
	for (unsigned int i = 0; i < REQUESTS_MAX; i++) {
		const struct request *r = &fs->requests[i];

		if (r->inode == inode && r->state == REQUEST_CALLING &&
		    (r->wait || r->is_unlocking))
			return true;
	}
	return false;
}

static bool is_ready(const struct lock_wait *wait)
{
	return wait->is_orphan && !wait->is_settling && !wait->is_put_off &&
	       (wait->fs->is_away || !has_calls(wait->fs, wait->inode));
}

bool orphans_are_ready(struct fs *fs)
{
	for (uint32_t i = 1; fs->orphans > 0 && i <= fs->lock_waits.used; i++) {
		const struct lock_wait *wait = table_at(&fs->lock_waits, i);

		if (wait && is_ready(wait))
			return true;
	}
	return false;
}

void orphans_try_again(struct fs *fs)
{
	for (uint32_t i = 1; fs->orphans > 0 && i <= fs->lock_waits.used; i++) {
		struct lock_wait *wait = table_at(&fs->lock_waits, i);

		if (wait)
			wait->is_put_off = false;
	}
	reclaim_locks(fs);
}

/* ---- messages ----------------------------------------------------------------- */

static void send_cancel(struct reclaim_call *rc, const struct lock_wait *wait)
{
	struct rf_args args = { .code = RF_OP_CANCEL_LOCK };
	struct rf_enc enc;

	rf_enc_init(&enc, rc->msg->mem, rc->fs->limits.msg_max);
	args.cancel_lock.wait = wait->args.wait;
	rf_enc_args(&enc, &args);
	reclaim_submit(rc, &enc);
}

/* The owner's waits there have to be asked for again. */
static void doubt_waits(const struct lock_wait *orphan)
{
	const struct rf_lock_args *range = &orphan->args;
	struct fs *fs = orphan->fs;
	struct lock_wait *wait;
	uint32_t index = 0;

	while ((wait = lock_waits_next(fs, &index)))
		if (wait->inode == orphan->inode &&
		    wait->args.owner == range->owner &&
		    (wait->args.flags & RF_LOCK_FLOCK) ==
			    (range->flags & RF_LOCK_FLOCK) &&
		    wait->args.start <= range->end &&
		    wait->args.end >= range->start)
			lock_wait_ask(wait);
}

/* The open that the owner has locked by last; NULL: there is none any more. */
static const struct file *file_of(const struct fs *fs, const struct held *held)
{
	const struct file *file = held ? files_find(&fs->files, held->fh) : NULL;

	return file && !file_is_dead(fs, file) ? file : NULL;
}

/* What held.c says of the range from `from` on: one piece of it. */
static bool next_piece(const struct held *held, uint64_t from, uint64_t end,
		       struct rf_range *piece)
{
	const struct rf_list *at;

	*piece = (struct rf_range){ .start = from, .end = end };
	if (!held)
		return false;
	rf_list_for_each(at, &held->ranges) {
		const struct rf_range *range =
			rf_container_of(at, const struct rf_range, link);

		if (range->end < from || range->start > end)
			continue;
		if (range->start > from) {
			piece->end = range->start - 1;
			return false;
		}
		piece->end = rf_min_u64(range->end, end);
		piece->is_exclusive = range->is_exclusive;
		piece->pid = range->pid;
		return true;
	}
	return false;
}

static void put_piece(struct rf_enc *enc, const struct lock_wait *wait,
		      const struct file *file, const struct rf_range *piece,
		      bool is_held)
{
	uint32_t kind = wait->args.flags & RF_LOCK_FLOCK;
	struct rf_args args = { .code = RF_OP_UNLOCK };

	if (is_held) {
		args.code = RF_OP_LOCK;
		args.lock = (struct rf_lock_args){
			.wait = table_number(&wait->item),
			.open = file->open,
			.owner = wait->args.owner,
			.flags = kind | (piece->is_exclusive ?
						 RF_LOCK_EXCLUSIVE : 0),
			.start = piece->start,
			.end = piece->end,
			.pid = piece->pid,
		};
	} else {
		args.unlock.owner = wait->args.owner;
		args.unlock.flags = kind;
		args.unlock.start = piece->start;
		args.unlock.end = piece->end;
	}
	rf_enc_args(enc, &args);
}

/* As many pieces as go into one message. */
static void send_restore(struct reclaim_call *rc, struct lock_wait *wait)
{
	struct reclaim_orphan *orphan = &rc->orphan;
	bool is_flock = wait->args.flags & RF_LOCK_FLOCK;
	const struct held *held = held_find(wait->inode, wait->args.owner,
					    is_flock);
	const struct file *file = file_of(wait->fs, held);
	struct rf_args args = { .code = RF_OP_USE };
	uint64_t from = orphan->from;
	struct rf_enc enc;

	rf_enc_init(&enc, rc->msg->mem, rc->fs->limits.msg_max);
	args.use.handle = wait->inode->handle;
	rf_enc_args(&enc, &args);
	doubt_waits(wait);
	for (rc->count = 0; rc->count < RECLAIM_LOCKS_MAX &&
			    from <= wait->args.end; rc->count++) {
		struct rf_range *piece = &orphan->pieces[rc->count];
		bool *is_held = &orphan->is_held[rc->count];

		*is_held = next_piece(file ? held : NULL, from, wait->args.end,
				      piece);
		put_piece(&enc, wait, file, piece, *is_held);
		from = piece->end + 1;
	}
	orphan->is_restoring = true;
	reclaim_submit(rc, &enc);
}

static void begin(struct reclaim_call *rc, struct lock_wait *wait)
{
	wait->is_settling = true;
	rc->orphan.number = table_number(&wait->item);
	rc->orphan.is_restoring = false;
	rc->orphan.from = wait->args.start;
	if (wait->args.wait)
		send_cancel(rc, wait);
	else
		send_restore(rc, wait);
}

bool orphan_take(struct reclaim_call *rc)
{
	struct fs *fs = rc->fs;

	while (fs->orphans > 0 && fs->reclaim.at < fs->lock_waits.used) {
		struct lock_wait *wait = table_at(&fs->lock_waits,
						  ++fs->reclaim.at);

		if (!wait || !is_ready(wait))
			continue;
		begin(rc, wait);
		return true;
	}
	return false;
}

/* ---- answers ------------------------------------------------------------------ */

/* May the owner have it, or have lost what it had? */
static bool may_have_changed(const struct lock_wait *wait,
			     const struct rf_results *results)
{
	if (wait->args.flags & RF_LOCK_FLOCK)
		return true;	/* the old one may have been given up */
	/* What the owner has is not known well enough to restore it. */
	if (wait->inode->locks_are_unknown)
		return false;
	return results->status != RF_ST_OK ||
	       results->cancel_lock.status == RF_ST_OK;
}

static bool cancelled(struct reclaim_call *rc, struct lock_wait *wait,
		      struct rf_dec *reply)
{
	struct rf_results results;

	if (rf_dec_results(reply, &results) != 1) {
		fs_lose(rc->fs, "sent an answer that is not one to CANCEL_LOCK");
		return true;
	}
	if (may_have_changed(wait, &results)) {
		send_restore(rc, wait);
		return false;
	}
	end(wait);
	return true;
}

/* The owner's lock on the piece is another's by now. */
static void is_lost(const struct lock_wait *wait, const struct rf_range *piece,
		    unsigned int status)
{
	struct fs *fs = wait->fs;
	bool is_flock = wait->args.flags & RF_LOCK_FLOCK;
	const struct held *held = held_find(wait->inode, wait->args.owner,
					    is_flock);
	uint64_t fh = held ? held->fh : 0;

	held_clear(&fs->held, wait->inode, wait->args.owner, is_flock,
		   piece->start, piece->end);
	/* Who asks for another kind of flock() gives the old one up. */
	if (!is_flock && fh)
		reclaim_lock_is_lost(fs, fh, wait->inode->handle.inode, status);
}

/* True: go on with what is behind it.  False: not now. */
static bool took_piece(const struct lock_wait *wait, unsigned int i,
		       const struct reclaim_orphan *orphan,
		       const struct rf_results *results)
{
	if (results->status == RF_ST_OK)
		/* In a grace it waits, and is cancelled when it is over. */
		return !orphan->is_held[i] || !results->lock.waits;
	if (orphan->is_held[i])
		is_lost(wait, &orphan->pieces[i], results->status);
	else
		wait->inode->locks_are_unknown = true;
	return true;
}

static bool restored(struct reclaim_call *rc, struct lock_wait *wait,
		     struct rf_dec *reply)
{
	struct reclaim_orphan *orphan = &rc->orphan;
	struct rf_results results;

	if (rf_dec_results(reply, &results) != 1) {
		fs_lose(rc->fs, "sent an answer that is not one to UNLOCK");
		return true;
	}
	if (results.status != RF_ST_OK) {	/* USE: the file is gone */
		end(wait);
		return true;
	}
	for (unsigned int i = 0;
	     i < rc->count && rf_dec_results(reply, &results) == 1; i++) {
		if (!took_piece(wait, i, orphan, &results)) {
			wait->args.wait = orphan->number;
			wait->is_settling = false;
			wait->is_put_off = true;
			return true;
		}
		orphan->from = orphan->pieces[i].end + 1;
	}
	if (orphan->from > wait->args.end) {
		end(wait);
		return true;
	}
	send_restore(rc, wait);
	return false;
}

bool orphan_answered(struct reclaim_call *rc, struct rf_dec *reply)
{
	struct lock_wait *wait = table_find(&rc->fs->lock_waits,
					    rc->orphan.number);

	if (!wait || !wait->is_orphan)
		return true;
	return rc->orphan.is_restoring ? restored(rc, wait, reply)
				       : cancelled(rc, wait, reply);
}

void orphan_stop(struct reclaim_call *rc)
{
	struct lock_wait *wait = table_find(&rc->fs->lock_waits,
					    rc->orphan.number);

	if (wait)
		wait->is_settling = false;
}

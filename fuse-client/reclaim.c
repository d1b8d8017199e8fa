/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reclaim.c - what a session needs on a new connection, before it goes on
 *
 * Operation.  On control slots, a few messages at once:
 *
 *	identities	those that requests hold are registered again; idle ones
 *			are forgotten, if the server has forgotten them
 *	opens		to a server that was started again each open file is
 *			named, with the tag that it gave for it
 *	locks		it is told each lock that was held
 *	orphans		nobody waits for them any more (orphan.c)
 *	waits		it is told of those that it does not know
 *
 * then everything goes on, and what has no answer is sent again.  When that has
 * shown which files were opened just before the loss, RECLAIM_DONE says that
 * nothing is left to reclaim.
 *
 * Ownership.  The calls and their messages are ours, and idle unless is_busy.
 *
 * When it fails.  The connection is lost again: reclaim_stop(), and all of it
 * from the start over the next one.  A file that is gone at the server is dead:
 * EIO to who uses it; and so is one whose locks the server does not give back.
 */
#include "fs.h"

#include <errno.h>

static void step(struct fs *fs);

/* ---- messages ------------------------------------------------------------- */

static void answered(struct rf_call *call, int err, struct rf_dec *reply);

void reclaim_submit(struct reclaim_call *rc, struct rf_enc *enc)
{
	struct rf_header header = { .type = RF_MSG_REQUEST };
	int size = rf_enc_finish(enc, &header);

	RF_ASSERT(size > 0);
	rc->call.done = answered;
	rc->call.msg = rc->msg;
	rc->call.msg_size = (uint32_t)size;
	rc->call.is_control = true;
	if (!rc->is_busy)
		rc->fs->reclaim.busy++;
	rc->is_busy = true;
	rf_client_submit(rc->fs->client, &rc->call);
}

/* The next identity in use.  False: there is none. */
static bool send_identity(struct reclaim_call *rc)
{
	struct rf_args args = { .code = RF_OP_IDENTITY };
	struct fs *fs = rc->fs;
	struct rf_enc enc;

	while (identities_next_used(fs->identities, &fs->reclaim.at,
				    &args.identity)) {
		rf_enc_init(&enc, rc->msg->mem, fs->limits.msg_max);
		rf_enc_args(&enc, &args);
		/* It never fitted, and is refused to who uses it. */
		if (enc.overflowed)
			continue;
		reclaim_submit(rc, &enc);
		return true;
	}
	return false;
}

/* The files of rc, from those that were not answered yet on. */
static void send_opens(struct reclaim_call *rc)
{
	struct rf_args args = { .code = RF_OP_RECLAIM };
	struct fs *fs = rc->fs;
	struct rf_enc enc;

	rf_enc_init(&enc, rc->msg->mem, fs->limits.msg_max);
	for (unsigned int i = 0; i < rc->count; i++) {
		const struct file *file = files_find(&fs->files, rc->files[i]);

		/* It was closed meanwhile: a number that nobody has. */
		args.reclaim.handle = file ? file->inode->handle :
						fs->keep->root;
		args.reclaim.open = file ? file->open : 0;
		args.reclaim.flags = file ? file->wire_flags : RF_OPEN_READ;
		args.reclaim.tag = file ? file->tag : 0;
		rf_enc_args(&enc, &args);
	}
	reclaim_submit(rc, &enc);
}

/* As many as go in one message.  False: there are no more. */
static bool take_opens(struct reclaim_call *rc)
{
	struct fs *fs = rc->fs;
	const struct table *table = &fs->files.table;
	unsigned int most = (fs->limits.msg_max - RF_HEADER_SIZE) /
			    RECLAIM_OP_SIZE;

	rc->count = 0;
	most = (unsigned int)rf_min_u64(most, RECLAIM_FILES_MAX);
	while (rc->count < most && fs->reclaim.at < table->used) {
		struct file *file = table_at(table, ++fs->reclaim.at);

		/* Also those that were closed meanwhile, or have lost a lock:
		 * their RELEASE is to come, and its number must not be another's
		 * until then. */
		if (file && file_has_open(fs, file))
			rc->files[rc->count++] = file_fh(file);
	}
	if (rc->count > 0)
		send_opens(rc);
	return rc->count > 0;
}

/* What is left of rc's locks. */
static void send_locks(struct reclaim_call *rc)
{
	const struct reclaim_locks *locks = &rc->locks;
	struct rf_args args = { .code = RF_OP_USE };
	struct rf_enc enc;

	rf_enc_init(&enc, rc->msg->mem, rc->fs->limits.msg_max);
	args.use.handle = locks->handle;
	rf_enc_args(&enc, &args);
	args.code = RF_OP_LOCK;
	for (unsigned int i = 0; i < rc->count; i++) {
		args.lock = locks->v[i];
		rf_enc_args(&enc, &args);
	}
	reclaim_submit(rc, &enc);
}

/* Ranges of one owner on one file, from number reclaim.range on. */
static void take_ranges(struct reclaim_call *rc, const struct held *held,
			const struct file *file)
{
	struct reclaim *reclaim = &rc->fs->reclaim;
	const struct rf_list *at;
	uint32_t number = 0;

	rc->locks.handle = held->inode->handle;
	rc->locks.fh = held->fh;
	rf_list_for_each(at, &held->ranges) {
		const struct rf_range *range =
			rf_container_of(at, const struct rf_range, link);

		if (number++ < reclaim->range || rc->count == RECLAIM_LOCKS_MAX)
			continue;
		reclaim->range++;
		rc->locks.v[rc->count++] = (struct rf_lock_args){
			.open = file->open,
			.owner = held->owner,
			.flags = RF_LOCK_RECLAIM |
				 (held->is_flock ? RF_LOCK_FLOCK : 0) |
				 (range->is_exclusive ? RF_LOCK_EXCLUSIVE : 0),
			.start = range->start,
			.end = range->end,
			.pid = range->pid,
		};
	}
}

/* Those of one owner on one file, or some of them.  False: there are no more. */
static bool take_locks(struct reclaim_call *rc)
{
	struct fs *fs = rc->fs;
	uint32_t index = fs->reclaim.at;
	struct held *held;

	rc->count = 0;
	rc->locks.wait = 0;
	while ((held = held_next(&fs->held, &index))) {
		const struct file *file = files_find(&fs->files, held->fh);

		if (file && !file_is_dead(fs, file))
			take_ranges(rc, held, file);
		if (rc->count > 0)
			break;
		fs->reclaim.at = index;
		fs->reclaim.range = 0;
	}
	if (rc->count > 0)
		send_locks(rc);
	return rc->count > 0;
}

static bool is_to_ask(const struct lock_wait *wait)
{
	return !wait->is_asked && wait->inode->orphans == 0;
}

/* The next that is waited for, and that the server may not know. */
static bool take_wait(struct reclaim_call *rc)
{
	struct fs *fs = rc->fs;
	struct lock_wait *wait;

	do
		wait = lock_waits_next(fs, &fs->reclaim.at);
	while (wait && !is_to_ask(wait));
	if (!wait)
		return false;
	wait->was_sent = true;
	wait->was_told = false;
	rc->count = 1;
	rc->locks.wait = wait->args.wait;
	rc->locks.handle = wait->inode->handle;
	rc->locks.v[0] = wait->args;
	send_locks(rc);
	return true;
}

static bool send_done(struct reclaim_call *rc)
{
	const struct rf_args args = { .code = RF_OP_RECLAIM_DONE };
	struct rf_enc enc;

	if (rc->fs->reclaim.at++ > 0)
		return false;
	rf_enc_init(&enc, rc->msg->mem, rc->fs->limits.msg_max);
	rf_enc_args(&enc, &args);
	reclaim_submit(rc, &enc);
	return true;
}

/* ---- answers -------------------------------------------------------------- */

static void file_is_gone(struct fs *fs, struct file *file)
{
	file->is_dead = file->is_gone = true;
	files_keep(&fs->files, file);
	if (file->is_released)
		return;
	rf_log(RF_LOG_WARN, "an open file (inode %llu) is gone at %s: EIO to "
	       "who uses it", (unsigned long long)file->inode->handle.inode,
	       fs->server);
}

/* How many of the files were answered; the list stops at one that failed. */
static unsigned int take_reclaimed(struct reclaim_call *rc,
				   struct rf_dec *reply)
{
	struct fs *fs = rc->fs;
	struct rf_results results;
	unsigned int i = 0;

	while (i < rc->count && rf_dec_results(reply, &results) == 1) {
		struct file *file = files_find(&fs->files, rc->files[i++]);

		if (results.status == RF_ST_OK)
			fs->reclaim.reclaimed++;
		else if (file)
			file_is_gone(fs, file);
	}
	return i;
}

void reclaim_lock_is_lost(struct fs *fs, uint64_t fh, uint64_t inode,
			  unsigned int status)
{
	struct file *file = files_find(&fs->files, fh);

	if (!file || file->is_dead)
		return;
	file->is_dead = true;
	files_keep(&fs->files, file);
	rf_log(RF_LOG_WARN, "%s does not give a lock back (inode %llu: %s): EIO "
	       "to who has it", fs->server, (unsigned long long)inode,
	       rf_status_name(status));
}

static void lock_is_lost(struct reclaim_call *rc, unsigned int status)
{
	reclaim_lock_is_lost(rc->fs, rc->locks.fh, rc->locks.handle.inode,
			     status);
}

static int wait_error(const struct lock_wait *wait, unsigned int status)
{
	const struct file *file = files_find(&wait->fs->files, wait->fh);

	return file && !file_is_dead(wait->fs, file) ?
		       rf_status_to_errno(status) : -EIO;
}

/* The wait is the server's, again, or over. */
static void take_waiting(struct reclaim_call *rc,
			 const struct rf_results *results)
{
	struct lock_wait *wait = table_find(&rc->fs->lock_waits,
					    rc->locks.wait);

	if (!wait || !wait->is_parked)
		return;
	if (results->status == RF_ST_DEADLK && lock_wait_is_ofd(wait)) {
		lock_wait_keep(wait, KEEP_WAIT_PARKED);
	} else if (results->status != RF_ST_OK) {
		lock_wait_settle(wait, wait_error(wait, results->status));
	} else if (!results->lock.waits) {
		lock_wait_settle(wait, 0);
	} else if (!wait->was_told) {
		/* Else it is not known which end that was: once more. */
		wait->is_asked = true;
		lock_wait_waits(wait);
	}
}

/* How many of the locks were answered; the list stops at one that failed. */
static unsigned int take_locked(struct reclaim_call *rc, struct rf_dec *reply)
{
	struct rf_results results;
	unsigned int i = 0;

	if (rf_dec_results(reply, &results) != 1)
		return 0;
	if (results.status != RF_ST_OK) {	/* USE: the file is gone */
		if (rc->locks.wait)
			take_waiting(rc, &results);
		else
			lock_is_lost(rc, results.status);
		return rc->count;
	}
	for (; i < rc->count && rf_dec_results(reply, &results) == 1; i++) {
		if (rc->locks.wait)
			take_waiting(rc, &results);
		else if (results.status == RF_ST_OK)
			rc->fs->reclaim.reclaimed_locks++;
		else
			lock_is_lost(rc, results.status);
	}
	return i;
}

/* Of what a call was about, how much is settled; the rest is sent again. */
static bool is_settled(struct reclaim_call *rc, struct rf_dec *reply)
{
	struct fs *fs = rc->fs;
	bool is_opens = fs->reclaim.phase == RECLAIM_OPENS;
	unsigned int got = is_opens ? take_reclaimed(rc, reply)
				    : take_locked(rc, reply);

	if (got == 0)
		fs_lose(fs, "sent an answer that is not one to RECLAIM");
	if (got == 0 || got == rc->count)
		return true;
	rc->count -= got;
	if (is_opens) {
		memmove(rc->files, rc->files + got,
			rc->count * sizeof(rc->files[0]));
		send_opens(rc);
	} else {
		memmove(rc->locks.v, rc->locks.v + got,
			rc->count * sizeof(rc->locks.v[0]));
		send_locks(rc);
	}
	return false;
}

static bool has_list(enum reclaim_phase phase)
{
	return phase == RECLAIM_OPENS || phase == RECLAIM_LOCKS ||
	       phase == RECLAIM_WAITS;
}

static void answered(struct rf_call *call, int err, struct rf_dec *reply)
{
	struct reclaim_call *rc = rf_container_of(call, struct reclaim_call,
						  call);
	struct fs *fs = rc->fs;

	if (!err && has_list(fs->reclaim.phase) && !is_settled(rc, reply))
		return;
	if (fs->reclaim.phase == RECLAIM_ORPHANS) {
		if (!err && !orphan_answered(rc, reply))
			return;
		if (err)
			orphan_stop(rc);
	}
	rc->is_busy = false;
	fs->reclaim.busy--;
	if (err)
		return;
	if (fs->reclaim.phase == RECLAIM_END)
		fs->reclaim.has_opens = false;
	step(fs);
}

/* ---- phases --------------------------------------------------------------- */

static bool send_next(struct reclaim_call *rc)
{
	switch (rc->fs->reclaim.phase) {
	case RECLAIM_IDENTITIES:
		return send_identity(rc);
	case RECLAIM_OPENS:
		return take_opens(rc);
	case RECLAIM_LOCKS:
		return take_locks(rc);
	case RECLAIM_ORPHANS:
		return orphan_take(rc);
	case RECLAIM_WAITS:
		return take_wait(rc);
	case RECLAIM_END:
		return send_done(rc);
	default:
		return false;
	}
}

/* Send what can be sent.  True: something is on its way. */
static bool send_some(struct fs *fs)
{
	for (unsigned int i = 0; i < RECLAIM_CALLS; i++)
		if (!fs->reclaim.calls[i].is_busy &&
		    !send_next(&fs->reclaim.calls[i]))
			break;
	return fs->reclaim.busy > 0;
}

static void enter(struct fs *fs, enum reclaim_phase phase)
{
	fs->reclaim.phase = phase;
	fs->reclaim.at = fs->reclaim.range = 0;
}

/* The phase is over. */
static void go_on(struct fs *fs)
{
	struct reclaim *reclaim = &fs->reclaim;

	switch (reclaim->phase) {
	case RECLAIM_IDENTITIES:
		enter(fs, reclaim->has_opens ? RECLAIM_OPENS : RECLAIM_ORPHANS);
		break;
	case RECLAIM_OPENS:
		enter(fs, RECLAIM_LOCKS);
		break;
	case RECLAIM_LOCKS:
		enter(fs, RECLAIM_ORPHANS);
		break;
	case RECLAIM_ORPHANS:
		enter(fs, RECLAIM_WAITS);
		break;
	case RECLAIM_WAITS:
		enter(fs, reclaim->is_midway ? RECLAIM_IDLE : RECLAIM_RESENT);
		break;
	case RECLAIM_RESENT:
		enter(fs, reclaim->has_opens ? RECLAIM_END : RECLAIM_IDLE);
		break;
	default:
		enter(fs, RECLAIM_IDLE);
	}
	if (reclaim->phase == RECLAIM_RESENT)
		reconnect_back(fs);
	/* What came up meanwhile. */
	if (reclaim->phase == RECLAIM_IDLE)
		reclaim_locks(fs);
}

static void step(struct fs *fs)
{
	struct reclaim *reclaim = &fs->reclaim;

	if (reclaim->is_stepping)
		return;		/* one below us on the stack goes on */
	reclaim->is_stepping = true;
	while (reclaim->phase != RECLAIM_IDLE && !send_some(fs)) {
		if (reclaim->phase == RECLAIM_RESENT && reclaim->awaited > 0)
			break;
		go_on(fs);
	}
	reclaim->is_stepping = false;
}

void reclaim_start(struct fs *fs, bool was_restarted, bool is_new_session)
{
	fs->reclaim.reclaimed = fs->reclaim.reclaimed_locks = 0;
	/* Also what is left of a former restart. */
	fs->reclaim.has_opens |= was_restarted;
	fs->reclaim.has_opens &= !is_new_session;
	fs->reclaim.is_midway = false;
	/*
	 * To the server an index means what the daemon that died meant by it,
	 * until it is told: also by who was answered without it, from a record.
	 */
	if (was_restarted || is_new_session ||
	    (fs->is_successor && !fs->was_back))
		identities_forget_idle(fs->identities);
	if (was_restarted || is_new_session) {
		lock_waits_forgotten(fs);
		inodes_doubt(&fs->inodes);
		fs->stats.restarts++;
	}
	enter(fs, RECLAIM_IDENTITIES);
	step(fs);
}

static bool has_to_ask(struct fs *fs)
{
	const struct lock_wait *wait;
	uint32_t index = 0;

	if (!fs->has_unasked)
		return false;
	while ((wait = lock_waits_next(fs, &index)))
		if (is_to_ask(wait))
			return true;
	fs->has_unasked = fs->orphans > 0;
	return false;
}

void reclaim_locks(struct fs *fs)
{
	if (fs->reclaim.phase != RECLAIM_IDLE || !fs->client || fs->is_away ||
	    fs->is_leaving || fs->is_taking_over ||
	    (!orphans_are_ready(fs) && !has_to_ask(fs)))
		return;
	fs->reclaim.is_midway = true;
	enter(fs, RECLAIM_ORPHANS);
	step(fs);
}

void reclaim_open_is_known(struct request *r)
{
	struct fs *fs = r->fs;

	r->is_awaited = false;
	if (--fs->reclaim.awaited == 0 && fs->reclaim.phase == RECLAIM_RESENT)
		step(fs);
}

void reclaim_stop(struct fs *fs)
{
	for (unsigned int i = 0; i < RECLAIM_CALLS; i++) {
		struct reclaim_call *rc = &fs->reclaim.calls[i];

		if (!rc->is_busy)
			continue;
		RF_ASSERT(rf_client_retract(fs->client, &rc->call));
		if (fs->reclaim.phase == RECLAIM_ORPHANS)
			orphan_stop(rc);
		rc->is_busy = false;
		fs->reclaim.busy--;
	}
	enter(fs, RECLAIM_IDLE);
}

/* ---- life ----------------------------------------------------------------- */

int reclaim_init(struct fs *fs)
{
	for (unsigned int i = 0; i < RECLAIM_CALLS; i++) {
		struct reclaim_call *rc = &fs->reclaim.calls[i];

		rc->fs = fs;
		rc->msg = rf_pool_get(fs->pool, fs->limits.msg_max);
		if (!rc->msg)
			return -ENOMEM;
	}
	return 0;
}

void reclaim_fini(struct fs *fs)
{
	for (unsigned int i = 0; i < RECLAIM_CALLS; i++)
		if (fs->reclaim.calls[i].msg)
			rf_pool_put(fs->reclaim.calls[i].msg);
}

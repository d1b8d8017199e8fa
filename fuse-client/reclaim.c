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
 *
 * then everything goes on, and what has no answer is sent again.  When that has
 * shown which files were opened just before the loss, RECLAIM_DONE says that
 * nothing is left to reclaim.
 *
 * Ownership.  The calls and their messages are ours, and idle unless is_busy.
 *
 * When it fails.  The connection is lost again: reclaim_stop(), and all of it
 * from the start over the next one.  A file that is gone at the server is dead:
 * EIO to who uses it.
 */
#include "fs.h"

#include <errno.h>

static void step(struct fs *fs);

/* ---- messages ------------------------------------------------------------- */

static void answered(struct rf_call *call, int err, struct rf_dec *reply);

static void submit(struct reclaim_call *rc, struct rf_enc *enc)
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
		submit(rc, &enc);
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
		args.reclaim.handle = file ? file->inode->handle : fs->root;
		args.reclaim.open = file ? file->open : 0;
		args.reclaim.flags = file ? file->wire_flags : RF_OPEN_READ;
		args.reclaim.tag = file ? file->tag : 0;
		rf_enc_args(&enc, &args);
	}
	submit(rc, &enc);
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

		if (file && file->open && !file_is_dead(fs, file) &&
		    !file->is_released)
			rc->files[rc->count++] = file_fh(file);
	}
	if (rc->count > 0)
		send_opens(rc);
	return rc->count > 0;
}

static bool send_done(struct reclaim_call *rc)
{
	const struct rf_args args = { .code = RF_OP_RECLAIM_DONE };
	struct rf_enc enc;

	if (rc->fs->reclaim.at++ > 0)
		return false;
	rf_enc_init(&enc, rc->msg->mem, rc->fs->limits.msg_max);
	rf_enc_args(&enc, &args);
	submit(rc, &enc);
	return true;
}

/* ---- answers -------------------------------------------------------------- */

static void file_is_gone(struct fs *fs, struct file *file)
{
	file->is_dead = true;
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

static void answered(struct rf_call *call, int err, struct rf_dec *reply)
{
	struct reclaim_call *rc = rf_container_of(call, struct reclaim_call,
						  call);
	struct fs *fs = rc->fs;
	unsigned int got;

	if (!err && fs->reclaim.phase == RECLAIM_OPENS) {
		got = take_reclaimed(rc, reply);
		if (got == 0) {
			fs_lose(fs, "sent an answer that is not one to RECLAIM");
		} else if (got < rc->count) {
			rc->count -= got;
			memmove(rc->files, rc->files + got,
				rc->count * sizeof(rc->files[0]));
			send_opens(rc);
			return;
		}
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
	fs->reclaim.at = 0;
}

/* The phase is over. */
static void go_on(struct fs *fs)
{
	struct reclaim *reclaim = &fs->reclaim;

	switch (reclaim->phase) {
	case RECLAIM_IDENTITIES:
		enter(fs, reclaim->has_opens ? RECLAIM_OPENS : RECLAIM_RESENT);
		break;
	case RECLAIM_OPENS:
		enter(fs, RECLAIM_RESENT);
		break;
	case RECLAIM_RESENT:
		enter(fs, reclaim->has_opens ? RECLAIM_END : RECLAIM_IDLE);
		break;
	default:
		enter(fs, RECLAIM_IDLE);
		return;
	}
	if (reclaim->phase == RECLAIM_RESENT)
		reconnect_back(fs);
}

static void step(struct fs *fs)
{
	struct reclaim *reclaim = &fs->reclaim;

	while (reclaim->phase != RECLAIM_IDLE && !send_some(fs)) {
		if (reclaim->phase == RECLAIM_RESENT && reclaim->awaited > 0)
			return;
		go_on(fs);
	}
}

void reclaim_start(struct fs *fs, bool was_restarted, bool is_new_session)
{
	fs->reclaim.reclaimed = 0;
	/* Also what is left of a former restart. */
	fs->reclaim.has_opens |= was_restarted;
	fs->reclaim.has_opens &= !is_new_session;
	if (was_restarted || is_new_session) {
		identities_forget_idle(fs->identities);
		inodes_doubt(&fs->inodes);
		fs->stats.restarts++;
	}
	enter(fs, RECLAIM_IDENTITIES);
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

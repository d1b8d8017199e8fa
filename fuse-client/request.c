/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.c - one request of the kernel, from reading to its reply
 *
 * Operation.  Objects are preallocated, each with a message buffer.  Between
 * request_take() and request_end() exactly one reply is given.  What an
 * operation has taken (identity, inodes, buffer, write slots, its part in the
 * inode's change) is given back by request_end(), however it ended.
 *
 * Ownership.  From request_send() until answered() the message, the data and
 * the works are lent to libproto.
 *
 * When it fails.  A lost connection is no failure: libproto sends the message
 * again.  When the session is over, what does not hang on an open file of it and
 * has changed nothing begins anew in the next one; all else is EIO.  An answer
 * that does not decode ends the connection, for nothing that it says may be
 * believed.
 */
#include "fs.h"

#include <errno.h>
#include <stdlib.h>

/* Which states may follow. */
#define TO(state) (1u << REQUEST_##state)
static const unsigned int moves[REQUEST_STATES] = {
	[REQUEST_FREE] = TO(WORKING),
	[REQUEST_WORKING] = TO(BUFFER) | TO(SLOTS) | TO(LOCKS) |
			    TO(CALLING) | TO(PULLING) | TO(INVALIDATING) |
			    TO(PARTS) | TO(PAUSED) | TO(FREE),
	[REQUEST_BUFFER] = TO(WORKING),
	[REQUEST_SLOTS] = TO(WORKING),
	[REQUEST_LOCKS] = TO(WORKING),
	[REQUEST_CALLING] = TO(WORKING) | TO(QUEUED),
	[REQUEST_QUEUED] = TO(WORKING) | TO(CALLING),
	[REQUEST_PULLING] = TO(WORKING),
	[REQUEST_INVALIDATING] = TO(WORKING),
	[REQUEST_PARTS] = TO(WORKING),
	[REQUEST_PAUSED] = TO(WORKING),
};
#undef TO

/* The server owes something, and there is a time limit for it. */
static bool is_owed(enum request_state state)
{
	return state == REQUEST_CALLING || state == REQUEST_PULLING;
}

/* Counts against no_pipeline's limit of one. */
static bool is_busy(enum request_state state)
{
	return state != REQUEST_FREE && state != REQUEST_INVALIDATING &&
	       state != REQUEST_PARTS && state != REQUEST_PAUSED;
}

void request_set_state(struct request *r, enum request_state state)
{
	struct fs *fs = r->fs;

	RF_ASSERT(moves[r->state] & 1u << state);
	fs->busy += is_busy(state);
	fs->busy -= is_busy(r->state);
	fs->invalidating += state == REQUEST_INVALIDATING;
	fs->invalidating -= r->state == REQUEST_INVALIDATING;
	if (is_owed(r->state))
		rf_list_remove(&r->age_link);
	r->state = state;
	if (is_owed(state)) {
		r->started_ns = rf_reactor_now_ns(fs->reactor);
		rf_list_push(&fs->in_flight, &r->age_link);
	}
}

/* ---- life ----------------------------------------------------------------- */

static int init_one(struct fs *fs, struct request *r, struct rf_list *home)
{
	r->fs = fs;
	r->home = home;
	rf_list_init(&r->link);
	rf_list_init(&r->age_link);
	r->msg = rf_pool_get(fs->pool, fs->limits.msg_max);
	if (!r->msg)
		return -ENOMEM;
	rf_list_push(home, &r->link);
	return 0;
}

static struct rf_list *home_of(struct fs *fs, unsigned int index)
{
	if (index < REQUESTS_MAX)
		return &fs->free_requests;
	return index < REQUESTS_MAX + SPARE_REQUESTS ? &fs->free_spares
						     : &fs->free_parts;
}

int requests_init(struct fs *fs)
{
	rf_list_init(&fs->free_requests);
	rf_list_init(&fs->free_spares);
	rf_list_init(&fs->free_parts);
	rf_list_init(&fs->in_flight);
	rf_list_init(&fs->pulls_waiting);
	rf_list_init(&fs->slots_waiting);
	rf_list_init(&fs->locks_waiting);
	rf_list_init(&fs->releases);
	rf_list_init(&fs->held_back);
	fs->requests = calloc(REQUESTS_TOTAL, sizeof(*fs->requests));
	if (!fs->requests)
		return -ENOMEM;
	for (unsigned int i = 0; i < REQUESTS_TOTAL; i++) {
		int err = init_one(fs, &fs->requests[i], home_of(fs, i));

		if (err)
			return err;
	}
	return 0;
}

void requests_fini(struct fs *fs)
{
	if (!fs->requests)
		return;
	for (unsigned int i = 0; i < REQUESTS_TOTAL; i++) {
		RF_ASSERT(fs->requests[i].state == REQUEST_FREE);
		if (fs->requests[i].msg)
			rf_pool_put(fs->requests[i].msg);
	}
	free(fs->requests);
	fs->requests = NULL;
}

struct request *request_take(fuse_req_t fuse, fuse_ino_t nodeid)
{
	struct fs *fs = fuse_req_userdata(fuse);
	struct request *r = fs->current;

	RF_ASSERT(r);
	fs->current = NULL;
	fs->stats.requests++;
	r->fuse = fuse;
	r->who = *fuse_req_ctx(fuse);
	r->arrived = ++fs->ticks;
	r->read_ns = fs->read_ns;
	r->arrived_ns = rf_reactor_now_ns(fs->reactor);
	r->generation = fs->generation;
	request_set_state(r, REQUEST_WORKING);
	once_arrived(r, fuse_io_header(fs));
	r->inode = inodes_find(&fs->inodes, nodeid);
	if (!r->inode) {
		request_fail(r, -ESTALE);
		return NULL;
	}
	cache_arrived(r, r->inode);
	return r;
}

struct request *request_take_file(fuse_req_t fuse, fuse_ino_t nodeid,
				  const struct fuse_file_info *fi)
{
	struct request *r = request_take(fuse, nodeid);

	if (!r)
		return NULL;
	r->file = files_find(&r->fs->files, fi->fh);
	if (!r->file) {
		request_fail(r, -EBADF);
		return NULL;
	}
	if (file_is_dead(r->fs, r->file)) {
		request_fail(r, -EIO);
		return NULL;
	}
	r->uses_open = r->file->open != 0;
	return r;
}

struct request *request_spare(struct fs *fs)
{
	struct rf_list *item = rf_list_pop(&fs->free_spares);
	struct request *r;

	if (!item)
		return NULL;
	r = rf_container_of(item, struct request, link);
	r->generation = fs->generation;
	request_set_state(r, REQUEST_WORKING);
	return r;
}

void request_reply_err(struct request *r, int err)
{
	fuse_req_t fuse = request_fuse(r);

	if (r->whole)
		write_part_stopped(r, err);
	else if (fuse)
		fuse_reply_err(fuse, -err);
}

int request_reply_data(struct request *r, const void *data, size_t size)
{
	fuse_req_t fuse = request_fuse(r);

	return fuse ? fuse_reply_buf(fuse, data, size) : -ENOENT;
}

static void drop_identity(struct request *r)
{
	if (r->holds_identity)
		identities_put(r->fs->identities, r->identity);
	r->holds_identity = false;
}

/* What the operation began and has not settled. */
static void undo(struct request *r)
{
	struct fs *fs = r->fs;

	if (r->is_filling)
		change_read_end(&r->inode->change, 0);
	r->is_filling = false;
	if (r->is_changing)
		cache_change_end(r, 0, NULL);
	if (r->wait)
		lock_wait_give(r);
	if (fs->lock_poll == r)
		fs->lock_poll = NULL;
	if (r->taken.count)
		slots_untake(&fs->slots, &r->taken);
	r->taken.count = 0;
}

void request_end(struct request *r)
{
	struct fs *fs = r->fs;
	struct request *whole = r->whole;
	bool is_lock_call = r->wait || r->is_unlocking;

	RF_ASSERT(!r->fuse);
	if (r->kept)
		once_end(r);
	undo(r);
	drop_identity(r);
	if (r->inode)
		inodes_put(&fs->inodes, r->inode);
	if (r->other)
		inodes_put(&fs->inodes, r->other);
	r->inode = r->other = NULL;
	r->file = NULL;
	r->whole = NULL;
	r->losses = 0;
	r->was_interrupted = r->was_cancelled = r->was_killed = false;
	r->uses_open = r->is_opening = r->reads_next = false;
	r->is_unlocking = r->is_flush = false;
	r->is_resent = r->goes_again = false;
	r->unique = 0;
	r->answer_locally = NULL;
	if (r->is_awaited)
		reclaim_open_is_known(r);
	request_set_state(r, REQUEST_FREE);
	rf_list_push(r->home, &r->link);
	if (r->data) {
		struct rf_buf *data = r->data;

		r->data = NULL;
		rf_pool_put(data);
	}
	if (whole)
		write_part_ended(whole);
	/* Orphans may have waited for its answer. */
	if (is_lock_call || fs->orphans > 0)
		reclaim_locks(fs);
	fuse_io_resume(fs);
}

void request_fail(struct request *r, int err)
{
	request_reply_err(r, err);
	request_end(r);
}

/* ---- the message ---------------------------------------------------------- */

static void identity_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;

	/* What needs it will be refused, and says so to its caller. */
	if (request_results(r, reply, RF_OP_IDENTITY, &results) < 0)
		rf_log(RF_LOG_WARN, "%s does not take a caller's identity",
		       r->fs->server);
	request_end(r);
}

/* What the last use of r's call may have left. */
static void reset_call(struct request *r)
{
	r->call.works = NULL;
	r->call.work_count = 0;
	r->call.inv_key = 0;
	r->call.is_control = false;
	r->call.holds_others = false;
	r->call.sent_as = NULL;
	r->carries_identity = r->changes = r->is_seen = false;
}

/* The message will not be sent: others take the returns in it along. */
static void give_returns_back(struct request *r)
{
	const uint8_t *returns = r->msg->mem + RF_HEADER_SIZE;

	for (unsigned int i = 0; i < r->enc.return_count; i++)
		rf_client_return_grant(r->fs->client,
				       rf_load_u32(returns + 4 * i));
}

/* In a message of its own, ahead of r's.  False: no object is free. */
static bool send_identity(struct request *r, const struct rf_args *args)
{
	struct request *spare = request_spare(r->fs);

	if (!spare)
		return false;
	reset_call(spare);
	rf_enc_init(&spare->enc, spare->msg->mem, r->fs->limits.msg_max);
	spare->identity = r->identity;
	spare->carries_identity = true;
	request_put(spare, args);
	request_send(spare, identity_answered);
	return true;
}

static int put_identity(struct request *r)
{
	struct fs *fs = r->fs;
	struct rf_args args = { .code = RF_OP_IDENTITY };
	bool is_new;
	int err;

	err = identities_get(fs->identities, rf_reactor_now_ns(fs->reactor),
			     r->who.uid, r->who.gid, r->who.pid, &r->identity,
			     &is_new, &args.identity);
	if (err)
		return err;
	r->holds_identity = true;
	if (!is_new)
		return 0;
	if (args.identity.groups.size > IDENTITY_GROUPS_ABOARD * 4 &&
	    send_identity(r, &args))
		return 0;
	request_put(r, &args);
	r->carries_identity = true;
	return 0;
}

bool request_begin(struct request *r)
{
	struct fs *fs = r->fs;
	int err;

	/* The open was of a former session: its number may be another's now. */
	if (!fs->client || (r->uses_open && r->generation != fs->generation)) {
		request_fail(r, -EIO);
		return false;
	}
	reset_call(r);
	rf_enc_init(&r->enc, r->msg->mem, fs->limits.msg_max);
	rf_client_take_returns(fs->client, &r->enc);
	err = put_identity(r);
	if (err) {
		give_returns_back(r);
		request_fail(r, err);
	}
	return err == 0;
}

/* An open by itself is a matter of who has it. */
static bool is_seen(const struct rf_args *args)
{
	if (args->code == RF_OP_OPEN)
		return args->open.flags & RF_OPEN_TRUNC;
	return rf_op_modifies(args->code);
}

void request_put(struct request *r, const struct rf_args *args)
{
	r->changes |= rf_op_modifies(args->code);
	r->is_seen |= is_seen(args);
	rf_enc_args(&r->enc, args);
}

void request_use(struct request *r, const struct inode *inode)
{
	struct rf_args args = { .code = RF_OP_USE };

	args.use.handle = inode->handle;
	request_put(r, &args);
}

/* Its session is over, but it would be the same in the next one. */
static bool begins_anew(const struct request *r, int err)
{
	return err == -ESTALE && !r->uses_open && !r->call.may_have_run &&
	       (r->fuse || r->home == &r->fs->free_spares);
}

static void call_done(struct rf_call *call, int err, struct rf_dec *reply)
{
	struct request *r = rf_container_of(call, struct request, call);
	const struct keep_request *kept = r->kept;

	if (begins_anew(r, err)) {
		rf_client_submit(r->fs->client, call);
		return;
	}
	drop_identity(r);
	request_set_state(r, REQUEST_WORKING);
	if (err) {
		request_fail(r, -EIO);
	} else {
		r->fs->is_silent = false;
		r->fs->heard_ns = rf_reactor_now_ns(r->fs->reactor);
		r->answered(r, reply);
		/* Its slot is the next one's when this returns. */
		if (kept && r->kept == kept && r->state == REQUEST_INVALIDATING)
			once_answered(r, reply);
	}
}

static void call_queued(struct rf_call *call)
{
	struct request *r = rf_container_of(call, struct request, call);

	/* It makes its grants later than this. */
	r->sent_ns = rf_reactor_now_ns(r->fs->reactor);
	request_set_state(r, REQUEST_QUEUED);
	if (r == r->fs->lock_poll && r->fs->is_leaving)
		interrupt_cancel(r);
}

uint64_t request_oldest_ns(const struct fs *fs)
{
	uint64_t now_ns = rf_reactor_now_ns(fs->reactor);
	uint64_t half_ns = fs->keep->grant_ms * UINT64_C(1000000) / 2;

	return half_ns && now_ns > half_ns ? now_ns - half_ns : 0;
}

void request_send(struct request *r, answered_fn answered)
{
	struct rf_header header = {
		.type = RF_MSG_REQUEST,
		.identity = r->identity,
	};
	int size = rf_enc_finish(&r->enc, &header);

	if (size < 0) {
		rf_log(RF_LOG_ERROR, "a request does not fit a message of %u "
		       "bytes: use a larger inline_max", r->fs->limits.msg_max);
		give_returns_back(r);
		request_fail(r, -EIO);
		return;
	}
	r->answered = answered;
	r->call.done = call_done;
	r->call.queued = call_queued;
	r->call.msg = r->msg;
	r->call.msg_size = (uint32_t)size;
	r->call.identity = r->identity;
	r->sent_ns = rf_reactor_now_ns(r->fs->reactor);
	request_set_state(r, REQUEST_CALLING);
	if (!once_submit(r))
		rf_client_submit(r->fs->client, &r->call);
	if (r->state == REQUEST_CALLING)
		interrupt_watch(r);
}

void request_call(struct request *r, const struct rf_args *args,
		  answered_fn answered)
{
	if (!request_begin(r))
		return;
	request_use(r, r->inode);
	request_put(r, args);
	request_send(r, answered);
}

/* ---- the answer ----------------------------------------------------------- */

int request_results(struct request *r, struct rf_dec *reply,
		    enum rf_op_code code, struct rf_results *out)
{
	int got;

	do {
		got = rf_dec_results(reply, out);
		if (got == 1 && out->status != RF_ST_OK) {
			if (out->code == RF_OP_IDENTITY)
				identities_refused(r->fs->identities,
						   r->identity);
			return rf_status_to_errno(out->status);
		}
		if (got == 1 && out->code == code)
			return 0;
	} while (got == 1 &&
		 (out->code == RF_OP_IDENTITY || out->code == RF_OP_USE));
	out->code = RF_OP_NOP;
	fs_lose(r->fs, "sent an answer that is not one to our question");
	return -EIO;
}

void request_answered_status(struct request *r, struct rf_dec *reply,
			     enum rf_op_code code)
{
	struct rf_results results;

	request_fail(r, request_results(r, reply, code, &results));
}

/* ---- buffers -------------------------------------------------------------- */

static void data_ready(struct rf_pool_waiter *waiter, struct rf_buf *buf)
{
	struct request *r = rf_container_of(waiter, struct request, waiter);

	r->data = buf;
	request_set_state(r, REQUEST_WORKING);
	r->resume(r);
}

void request_need_data(struct request *r, uint32_t size, request_fn resume)
{
	/* WRITEs that are sent again shall find theirs. */
	if (r->fs->is_taking_over) {
		r->resume = resume;
		r->needs = size;
		request_set_state(r, REQUEST_BUFFER);
		rf_list_push(&r->fs->held_back, &r->link);
		return;
	}
	r->data = rf_pool_get(r->fs->pool, size);
	if (r->data) {
		resume(r);
		return;
	}
	r->resume = resume;
	r->waiter.ready = data_ready;
	request_set_state(r, REQUEST_BUFFER);
	rf_pool_wait(r->fs->pool, size, &r->waiter);
}

/* ---- once more --------------------------------------------------------------- */

static void pause_is_over(struct rf_timer *timer)
{
	struct request *r = rf_container_of(timer, struct request, pause);

	request_set_state(r, REQUEST_WORKING);
	r->resume(r);
}

static void say_losses(struct request *r)
{
	if (r->fs->has_said_losses)
		return;
	r->fs->has_said_losses = true;
	rf_log(RF_LOG_WARN, "data of inode %llu were lost %u times on their "
	       "way, each time with the connection to %s or the memory that it "
	       "had lent; trying on",
	       (unsigned long long)r->inode->handle.inode, LOSSES_SOON,
	       r->fs->server);
}

void request_again(struct request *r, request_fn resume)
{
	unsigned int doublings;

	if (++r->losses <= LOSSES_SOON) {
		resume(r);
		return;
	}
	say_losses(r);
	doublings = (unsigned int)rf_min_u64(r->losses - LOSSES_SOON - 1, 16);
	r->resume = resume;
	r->pause.fire = pause_is_over;
	request_set_state(r, REQUEST_PAUSED);
	rf_timer_start(r->fs->reactor, &r->pause,
		       rf_min_u64((uint64_t)PAUSE_FIRST_MS << doublings,
				  PAUSE_MAX_MS));
}

void request_arrived(struct request *r)
{
	r->losses = 0;
	r->fs->has_said_losses = false;
}

/* ---- odds and ends -------------------------------------------------------- */

static void release_answered(struct request *r, struct rf_dec *reply)
{
	struct fs *fs = r->fs;

	request_answered_status(r, reply, RF_OP_RELEASE);
	releases_pump(fs);
}

void request_release_unknown(struct request *r, const rf_handle_t *handle,
			     uint32_t open)
{
	struct rf_args use = { .code = RF_OP_USE };
	struct rf_args release = { .code = RF_OP_RELEASE };

	RF_ASSERT(!r->fuse);
	use.use.handle = *handle;
	release.release.open = open;
	/* Of this session, though r may have come in a former one. */
	r->generation = r->fs->generation;
	r->uses_open = true;
	if (!request_begin(r))
		return;
	request_put(r, &use);
	request_put(r, &release);
	request_send(r, release_answered);
}

void request_release_open(struct request *r, struct inode *inode,
			  uint32_t open)
{
	once_release(r, inode, open);
	request_release_unknown(r, &inode->handle, open);
}

int request_name(const char *name, rf_name_t *out)
{
	size_t size = strlen(name);

	if (size > RF_NAME_MAX)
		return -ENAMETOOLONG;
	if (!rf_name_is_valid(name, size))
		return -EINVAL;
	out->bytes = name;
	out->size = (uint16_t)size;
	return 0;
}

/* Its message is not sent, or not again: has the server to hear of that? */
static bool retract(struct request *r)
{
	if (r->carries_identity || (r->is_unlocking && !r->wait) ||
	    !rf_client_retract(r->fs->client, &r->call))
		return false;
	if (r->wait && (r->is_unlocking || r->wait->was_sent ||
			r->call.was_sent))
		orphan_of_request(r);
	return true;
}

/* Out of whatever queue it is in.  False: it can't be. */
static bool take_back(struct request *r)
{
	switch (r->state) {
	case REQUEST_LOCKS:
		if (r->is_unlocking && !r->wait)
			return false;
		rf_list_remove(&r->link);
		if (r->wait && (r->is_unlocking || r->wait->was_sent))
			orphan_of_request(r);
		return true;
	case REQUEST_BUFFER:
		rf_pool_cancel(r->fs->pool, &r->waiter);
		rf_list_remove(&r->link);	/* held_back */
		return true;
	case REQUEST_SLOTS:
		rf_list_remove(&r->link);
		return true;
	case REQUEST_PAUSED:
		rf_timer_stop(r->fs->reactor, &r->pause);
		return true;
	case REQUEST_CALLING:
		return retract(r);
	default:
		return false;
	}
}

bool request_take_back(struct request *r, int err)
{
	if (r->state == REQUEST_PARTS) {
		write_withdraw(r, take_back);
		return r->state != REQUEST_PARTS;
	}
	if (!take_back(r))
		return false;
	request_set_state(r, REQUEST_WORKING);
	request_fail(r, err);
	return true;
}

void request_abandon(struct request *r, int err)
{
	if (request_take_back(r, err))
		return;
	request_reply_err(r, err);
	r->call.holds_others = true;
	if (r->state == REQUEST_PARTS)
		write_parts_hold_others(r);
}

/* ---- the connection ------------------------------------------------------- */

static void fail_all(struct rf_list *queue)
{
	struct rf_list *item;

	while ((item = rf_list_pop(queue)) != NULL) {
		struct request *r =
			rf_container_of(item, struct request, link);

		request_set_state(r, REQUEST_WORKING);
		request_fail(r, -EIO);
	}
}

static void fail_paused(struct fs *fs)
{
	for (unsigned int i = 0; i < REQUESTS_TOTAL; i++)
		if (fs->requests[i].state == REQUEST_PAUSED)
			request_take_back(&fs->requests[i], -EIO);
}

void requests_lose(struct fs *fs)
{
	fail_paused(fs);
	fail_all(&fs->slots_waiting);
	fail_all(&fs->pulls_waiting);
	lock_waits_lose(fs);
}

/* Who waits for a lock holds no request meanwhile, and close() does not wait. */
static void lose_lock_call(struct request *r)
{
	if (!r->fuse)
		request_take_back(r, -EINTR);
	else if (r->is_flush && r->answer_locally)
		request_abandon(r, 0);
	else if (!r->is_unlocking && r->wait->args.flags & RF_LOCK_WAIT &&
		 !r->carries_identity &&
		 rf_client_retract(r->fs->client, &r->call)) {
		request_set_state(r, REQUEST_WORKING);
		lock_wait_park(r, false);
	}
}

static void lose_one(struct request *r)
{
	if (r->state == REQUEST_QUEUED) {
		request_set_state(r, REQUEST_CALLING);
		r->was_cancelled = false;
		r->arrived_ns = rf_reactor_now_ns(r->fs->reactor);
	}
	if (r->state == REQUEST_CALLING && interrupt_is_cancel(r)) {
		RF_ASSERT(rf_client_retract(r->fs->client, &r->call));
		request_set_state(r, REQUEST_WORKING);
		request_end(r);
	} else if (r->was_killed && r->fuse) {
		request_abandon(r, -EINTR);
	} else if (r->state == REQUEST_CALLING && (r->wait || r->is_flush)) {
		lose_lock_call(r);
	}
}

void requests_lost(struct fs *fs)
{
	/* Write slots were the connection's, and must not come back. */
	for (unsigned int i = 0; i < REQUESTS_TOTAL; i++)
		fs->requests[i].taken.count = 0;
	for (unsigned int i = 0; i < REQUESTS_TOTAL; i++) {
		struct request *r = &fs->requests[i];

		if (r->state == REQUEST_FREE)
			continue;
		if (r->is_awaited)
			fs->reclaim.awaited--;
		r->is_awaited = false;
		lose_one(r);
	}
}

void requests_go_on(struct fs *fs)
{
	for (unsigned int i = 0; i < REQUESTS_TOTAL; i++) {
		struct request *r = &fs->requests[i];

		if (r->state == REQUEST_FREE)
			continue;
		r->started_ns = rf_reactor_now_ns(fs->reactor);
		r->is_awaited = r->is_opening && r->state == REQUEST_CALLING;
		fs->reclaim.awaited += r->is_awaited;
	}
}

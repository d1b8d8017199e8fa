/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c - a request from its first operation to its answer
 *
 *	start -> operation, operation, ... -> commit -> (cut) -> (sync) -> answer
 *	            ^  |
 *	            `--'  waits and goes on, or the whole runs again
 *
 * When it fails.  An operation's error ends the list; what it had changed is
 * undone, and what came before it stays.  An error of the commit
 * is told as that of the first operation that changed anything; one of the sync
 * as that of the operation that asked for it.  Both cut the answer there.  When
 * the log can't be written, answers to changes that were to leave after it are
 * taken back so, too; then the store can only be read, and no answer is recorded.
 */
#include "exec.h"

#include <errno.h>

/* Which operations need no registered identity and no current handle. */
enum need { NEED_NOTHING = 0, NEED_CRED = 1, NEED_HANDLE = 2, NEED_WRITE = 4 };

struct operation {
	exec_step step;
	unsigned int needs;
};

#define BOTH (NEED_CRED | NEED_HANDLE)

static const struct operation operations[] = {
	[RF_OP_NOP] = { exec_op_nop, NEED_NOTHING },
	[RF_OP_USE] = { exec_op_use, NEED_NOTHING },
	[RF_OP_LOOKUP] = { exec_op_lookup, BOTH },
	[RF_OP_GETATTR] = { exec_op_getattr, NEED_HANDLE },
	[RF_OP_SETATTR] = { exec_op_setattr, BOTH | NEED_WRITE },
	[RF_OP_CREATE] = { exec_op_create, BOTH },
	[RF_OP_MKDIR] = { exec_op_mkdir, BOTH | NEED_WRITE },
	[RF_OP_MKNOD] = { exec_op_mknod, BOTH | NEED_WRITE },
	[RF_OP_SYMLINK] = { exec_op_symlink, BOTH | NEED_WRITE },
	[RF_OP_READLINK] = { exec_op_readlink, NEED_HANDLE },
	[RF_OP_LINK] = { exec_op_link, BOTH | NEED_WRITE },
	[RF_OP_UNLINK] = { exec_op_unlink, BOTH | NEED_WRITE },
	[RF_OP_RMDIR] = { exec_op_rmdir, BOTH | NEED_WRITE },
	[RF_OP_RENAME] = { exec_op_rename, BOTH | NEED_WRITE },
	[RF_OP_OPEN] = { exec_op_open, BOTH },
	[RF_OP_RELEASE] = { exec_op_release, NEED_HANDLE },
	[RF_OP_READ] = { exec_op_read, NEED_HANDLE },
	[RF_OP_WRITE] = { exec_op_write, NEED_HANDLE | NEED_WRITE },
	[RF_OP_FSYNC] = { exec_op_fsync, NEED_HANDLE },
	[RF_OP_FALLOCATE] = { exec_op_fallocate, NEED_HANDLE | NEED_WRITE },
	[RF_OP_LSEEK] = { exec_op_lseek, NEED_HANDLE },
	[RF_OP_COPY] = { exec_op_copy, NEED_HANDLE | NEED_WRITE },
	[RF_OP_READDIR] = { exec_op_readdir, NEED_HANDLE },
	[RF_OP_STATFS] = { exec_op_statfs, NEED_HANDLE },
	[RF_OP_GETXATTR] = { exec_op_getxattr, BOTH },
	[RF_OP_SETXATTR] = { exec_op_setxattr, BOTH | NEED_WRITE },
	[RF_OP_LISTXATTR] = { exec_op_listxattr, BOTH },
	[RF_OP_REMOVEXATTR] = { exec_op_removexattr, BOTH | NEED_WRITE },
	[RF_OP_IDENTITY] = { exec_op_identity, NEED_NOTHING },
	[RF_OP_SLOTS] = { exec_op_slots, NEED_NOTHING },
	[RF_OP_DROP_SLOTS] = { exec_op_drop_slots, NEED_NOTHING },
	[RF_OP_CANCEL] = { exec_op_cancel, NEED_NOTHING },
	[RF_OP_BYE] = { exec_op_bye, NEED_NOTHING },
	[RF_OP_RECLAIM] = { exec_op_reclaim, NEED_NOTHING },
	[RF_OP_RECLAIM_DONE] = { exec_op_reclaim_done, NEED_NOTHING },
	[RF_OP_LOCK] = { exec_op_lock, NEED_HANDLE },
	[RF_OP_UNLOCK] = { exec_op_unlock, NEED_HANDLE },
	[RF_OP_TEST_LOCK] = { exec_op_test_lock, NEED_HANDLE },
	[RF_OP_CANCEL_LOCK] = { exec_op_cancel_lock, NEED_NOTHING },
	[RF_OP_LOCK_EVENTS] = { exec_op_lock_events, NEED_NOTHING },
};

bool exec_is_read_only(const struct exec *e)
{
	return e->session->is_read_only || store_has_failed(e->server->store);
}

/* What must be true before the operation's own code looks. */
static int check_needs(const struct exec *e, const struct operation *operation)
{
	const struct rf_enc *enc = &e->request->enc;

	if (enc->size - enc->used < EXEC_RESULT_ROOM)
		return RF_ST_TOO_BIG;
	if ((operation->needs & NEED_HANDLE) && !e->has_current)
		return RF_ST_BAD_HANDLE;
	if ((operation->needs & NEED_CRED) && !exec_cred(e))
		return -EINVAL;
	if ((operation->needs & NEED_WRITE) && exec_is_read_only(e))
		return RF_ST_ROFS;
	return 0;
}

/* ---- one operation ------------------------------------------------------ */

static rf_grants_t *rearmed_of(struct exec *e)
{
	switch (e->args.code) {
	case RF_OP_WRITE:
		return &e->results.write.rearmed;
	case RF_OP_SETXATTR:
		return &e->results.setxattr.rearmed;
	default:
		return NULL;
	}
}

static enum rf_status status_of(int outcome)
{
	return outcome > 0 ? (enum rf_status)outcome
			   : rf_status_from_errno(outcome);
}

static void put_results(struct exec *e, enum rf_status status)
{
	struct rf_enc *enc = &e->request->enc;

	e->results.code = e->args.code;
	e->results.status = status;
	rf_enc_results(enc, &e->results);
	if (!enc->overflowed)
		return;
	/* An operation that did not see to its room. */
	*enc = e->place.enc;
	e->results.status = RF_ST_TOO_BIG;
	rf_enc_results(enc, &e->results);
}

static void put_buf(struct exec *e)
{
	if (e->buf)
		staging_put(&e->session->lender, e->buf);
	e->buf = NULL;
}

/* It failed, perhaps half way: nothing of it is left, all before it is. */
static void undo_op(struct exec *e)
{
	exec_drop_cuts(e, e->cuts_before);
	if (e->place.is_dirty) {
		txn_undo(e->txn);
	} else if (e->txn) {
		txn_abort(e->txn);
		e->txn = NULL;
	}
}

static void end_op(struct exec *e, int outcome)
{
	rf_grants_t *rearmed = rearmed_of(e);

	if (rearmed)
		exec_rearm(e, rearmed);
	put_results(e, status_of(outcome));
	if (outcome != 0)
		undo_op(e);
	if (outcome == 0 && rf_op_modifies(e->args.code)) {
		e->modifies = true;
		if (!e->first_change.is_set)
			e->first_change = e->place;
	}
	exec_put_objects(e);
	if (e->buf_op == e->op_index)
		put_buf(e);
	e->is_in_op = false;
	e->op_index++;
}

/* Decode the next operation: its outcome, EXEC_WAIT, or -ENOMSG at the end. */
static int begin_op(struct exec *e)
{
	struct rf_request *request = e->request;
	const struct operation *operation;
	int ret;

	e->place = (struct exec_place){
		.enc = request->enc,
		.op_index = e->op_index,
		.is_dirty = exec_is_dirty(e),
		.is_set = true,
	};
	ret = rf_dec_args(&request->dec, &e->args);
	if (ret == 0)
		return -ENOMSG;
	e->is_in_op = true;
	e->cut_inode = 0;
	e->cuts_before = e->cut_count;
	if (e->place.is_dirty)
		txn_save(e->txn);
	e->place.code = e->args.code;
	e->results = (struct rf_results){ .code = e->args.code };
	e->server->figures.ops++;
	if (ret == -EOPNOTSUPP)
		return RF_ST_NOSYS;
	if (ret < 0) {
		e->server->figures.bad_messages++;
		e->ends_session = true;
		return RF_ST_BAD_MESSAGE;
	}
	RF_ASSERT(e->args.code < RF_ARRAY_SIZE(operations));
	operation = &operations[e->args.code];
	ret = check_needs(e, operation);
	if (!ret)
		return operation->step(e);
	exec_forfeit_args(e);
	return ret;
}

/* ---- after the last one ------------------------------------------------- */

static void forget_message(struct exec *e)
{
	e->modifies = e->reruns = e->has_current = false;
	e->is_bye = e->ends_session = e->has_reclaimed = false;
	e->op_index = 0;
	e->first_change.is_set = e->sync_place.is_set = false;
	e->made_count = e->held_count = e->fences = 0;
	e->opened_count = e->released_count = 0;
	e->to_sync_count = 0;
	e->syncs = false;
	e->sync_is_data_only = true;
	e->flushed_count = 0;
	e->flushes = false;
	e->cut_inode = 0;
	e->cut_count = e->cuts_before = e->cuts_done = 0;
	e->removals_upto = 0;
	e->room_waits = 0;
	e->interrupt_status = 0;
}

static void answer(struct exec *e)
{
	struct rf_work works[RF_GRANTS_MAX];
	struct rf_request *request = e->request;
	struct session *session = e->session;
	struct server *server = e->server;
	bool is_bye = e->is_bye, ends_session = e->ends_session;
	bool has_reclaimed = e->has_reclaimed;
	unsigned int count;

	exec_forfeit_rest(e);
	count = exec_end_grants(e, works);

	put_buf(e);
	exec_drop_marks(e);
	exec_unuse_opens(e);
	forget_message(e);
	e->request = NULL;
	e->state = EXEC_IDLE;
	server->active--;
	if (has_reclaimed)
		session_end_reclaim(session);
	if (is_bye)
		session_bye(session);
	else if (ends_session)
		session_end(session, "a malformed operation");
	session_answered(session);
	/* If the connection is gone, this may be the end of the session. */
	rf_request_answer(request, works, count);
	server_check_drain(server);
}

/* Cut the answer at place, and let that operation have failed. */
static void blame(struct exec *e, const struct exec_place *place, int err)
{
	rf_grants_t *rearmed;

	if (!place->is_set)
		return;
	e->request->enc = place->enc;
	e->args.code = place->code;
	e->results = (struct rf_results){ .code = place->code };
	e->place = *place;
	rearmed = rearmed_of(e);
	exec_forfeit_from(e, place->op_index, rearmed);
	put_results(e, status_of(err));
}

static void sync_next(struct exec *e);
static void correct_record(struct exec *e);

static void synced(struct sync_request *sync, int err)
{
	struct exec *e = rf_container_of(sync, struct exec, sync);

	if (sync->object)
		object_put(sync->object);
	if (err) {
		blame(e, e->sync_place.is_set ? &e->sync_place
					      : &e->first_change, err);
		correct_record(e);
	}
	sync_next(e);
}

/* Sync what is left, one after the other (most often one), then answer. */
static void sync_next(struct exec *e)
{
	if (!e->syncs) {
		answer(e);
		return;
	}
	e->sync = (struct sync_request){
		.done = synced,
		.is_data_only = e->sync_is_data_only,
	};
	if (e->to_sync_count > 0)
		e->sync.object = e->to_sync[--e->to_sync_count];
	e->syncs = e->to_sync_count > 0;
	e->state = EXEC_SYNCS_ANSWER;
	store_sync(e->server->store, &e->sync);
}

static void note_open(struct exec *e, struct reply_record *record, uint32_t id,
		      bool is_released)
{
	const struct open *open = open_table_find(&e->session->opens, id);

	/* Released twice in one message, or settled already. */
	if (!open)
		return;
	record->opens[record->open_count++] = (struct reply_open){
		.inode = open->inode,
		.open = id,
		.flags = open->flags,
		.is_released = is_released,
	};
}

static bool is_released(const struct exec *e, uint32_t id)
{
	for (unsigned int i = 0; i < e->released_count; i++)
		if (e->released[i] == id)
			return true;
	return false;
}

static void fill_record(struct exec *e, struct reply_record *record)
{
	record->seq = e->request->dec.header.seq;
	record->sync_op = record->open_count = 0;
	if (e->to_sync_count > 0)
		record->sync_op = (uint8_t)(e->sync_place.op_index + 1);
	for (unsigned int i = 0; i < e->opened_count; i++)
		if (!is_released(e, e->opened[i]))
			note_open(e, record, e->opened[i], false);
	for (unsigned int i = 0; i < e->released_count; i++)
		note_open(e, record, e->released[i], true);
}

static struct reply_key record_key(const struct exec *e)
{
	return (struct reply_key){
		.session = e->session->id,
		.channel = e->request->dec.header.channel,
		.slot = e->request->dec.header.slot,
	};
}

static int put_record(struct exec *e, struct txn *txn,
		      const struct reply_record *record)
{
	const struct rf_enc *enc = &e->request->enc;
	const struct reply_key key = record_key(e);

	return txn_record_reply(txn, &key, record, enc->base + RF_HEADER_SIZE,
				enc->used - RF_HEADER_SIZE);
}

static int record_answer(struct exec *e, struct txn *txn)
{
	struct reply_record record;

	/* A QUEUED request has given its slot back. */
	RF_ASSERT(e->request->ticket == 0);
	if (e->session->was_forgotten)
		return 0;
	fill_record(e, &record);
	return put_record(e, txn, &record);
}

/* It turned out otherwise after the commit: say so when it is sent again, too. */
static void correct_record(struct exec *e)
{
	const struct reply_key key = record_key(e);
	struct reply_record record;
	struct txn *txn;
	int err;

	/* The opens of the first record stand: they are settled. */
	if (!e->modifies || e->session->was_forgotten ||
	    store_has_failed(e->server->store) ||
	    store_find_reply(e->server->store, &key, &record,
			     e->server->scratch, STAGING_LARGE) < 0)
		return;
	record.sync_op = 0;
	txn = txn_begin(e->server->store);
	RF_ASSERT(txn);
	err = put_record(e, txn, &record);
	if (err)
		txn_abort(txn);
	else
		err = txn_commit(txn);
	if (err)
		rf_log(RF_LOG_ERROR, "%s: an answer could not be recorded: %s",
		       e->session->name, strerror(-err));
}

/* The batch and its answer, all or nothing. */
static int commit(struct exec *e)
{
	struct txn *txn = exec_txn(e);
	bool was_dirty = txn_is_dirty(txn);
	int err;

	e->txn = NULL;
	err = exec_size_cuts(e, txn);
	if (!err && e->modifies)
		err = record_answer(e, txn);
	if (err) {
		txn_abort(txn);
		return err;
	}
	err = txn_commit(txn);
	if (!err && was_dirty)
		e->unsaved = e->first_change;
	return err;
}

/* Something is to be stored: a change, or just the answer. */
static bool has_batch(const struct exec *e)
{
	return exec_is_dirty(e) ||
	       (e->modifies && !store_has_failed(e->server->store));
}

/* Cut at the first change, does the answer say nothing of what is to be synced? */
static bool ends_before_sync(const struct exec *e)
{
	return e->first_change.is_set && e->sync_place.is_set &&
	       e->first_change.op_index <= e->sync_place.op_index;
}

static void finish(struct exec *e)
{
	int err = 0;

	if (has_batch(e)) {
		err = commit(e);
		if (err == -ENOSPC && exec_await_room(e))
			return;
	} else if (e->txn) {
		txn_abort(e->txn);
		e->txn = NULL;
	}
	if (err) {
		exec_drop_cuts(e, 0);
		exec_undo_opens(e);
		if (ends_before_sync(e))
			exec_drop_syncs(e);
		blame(e, &e->first_change, err);
		e->modifies = false;
	} else {
		exec_settle_opens(e);
	}
	if (e->modifies && e->server->config->is_strict)
		e->syncs = true;
	exec_cut_data(e, sync_next);
}

bool exec_take_back(struct rf_request *request)
{
	struct session *session = rf_channel_context(request->channel);
	const struct exec_place *place = &session->execs[request->index].unsaved;
	const struct rf_results results = {
		.code = place->code,
		.status = RF_ST_IO,
	};

	if (!place->is_set)
		return false;
	request->enc = place->enc;
	rf_enc_results(&request->enc, &results);
	return true;
}

/* ---- running ------------------------------------------------------------ */

/* Go on after an operation that gave outcome. */
static void run_on(struct exec *e, int outcome)
{
	for (;;) {
		if (outcome == EXEC_WAIT)
			return;
		if (outcome == -ENOMSG && !e->is_in_op)
			break;
		if (outcome == -ENOSPC && exec_await_room(e))
			return;
		end_op(e, outcome);
		if (outcome != 0)
			break;
		outcome = begin_op(e);
	}
	finish(e);
}

static void restart(struct exec *e)
{
	e->reruns = false;
	e->request->dec = e->dec_start;
	e->request->enc = e->enc_start;
	e->server->figures.rewinds++;
}

void exec_continue(struct exec *e)
{
	e->state = EXEC_RUNS;
	if (e->reruns) {
		restart(e);
		run_on(e, begin_op(e));
	} else {
		run_on(e, e->next(e));
	}
}

static bool is_bye(const struct rf_request *request)
{
	struct rf_dec dec = request->dec;
	struct rf_args args;

	return rf_dec_args(&dec, &args) == 1 && args.code == RF_OP_BYE;
}

void exec_start(struct exec *e, struct rf_request *request)
{
	RF_ASSERT(e->state == EXEC_IDLE);
	forget_message(e);
	e->unsaved.is_set = false;
	e->request = request;
	e->dec_start = request->dec;
	e->enc_start = request->enc;
	if (e->server->is_draining && !is_bye(request)) {
		e->state = EXEC_SHELVED;
		return;
	}
	e->state = EXEC_RUNS;
	e->server->active++;
	e->server->figures.requests++;
	run_on(e, begin_op(e));
}

static bool is_interruptible(const struct exec *e)
{
	return e->state == EXEC_WAITS_STAGING || e->state == EXEC_WAITS_LOCKS;
}

static void stop_waiting(struct exec *e)
{
	if (e->state == EXEC_WAITS_STAGING)
		staging_cancel(&e->waiter);
	if (e->session->lock_poll == e)
		e->session->lock_poll = NULL;
	rf_list_remove(&e->staged_link);
}

bool exec_interrupt(struct exec *e, enum rf_status status)
{
	if (!is_interruptible(e))
		return false;
	stop_waiting(e);
	e->state = EXEC_RUNS;
	if (e->reruns) {
		/* Nothing of it has happened: its first operation fails. */
		restart(e);
		e->place = (struct exec_place){ .enc = e->request->enc };
		if (rf_dec_args(&e->request->dec, &e->args) == 1)
			e->results = (struct rf_results){ 0 };
		e->is_in_op = true;
	}
	run_on(e, (int)status);
	return true;
}

void exec_interrupt_soon(struct exec *e, enum rf_status status)
{
	if (!is_interruptible(e) || e->interrupt_status)
		return;
	e->interrupt_status = (int)status;
	rf_list_remove(&e->staged_link);
	rf_list_push(&e->server->staged, &e->staged_link);
}

void exec_shelve(struct exec *e)
{
	if (!is_interruptible(e))
		return;
	stop_waiting(e);
	e->state = EXEC_SHELVED;
	e->server->active--;
}

/* It has changed nothing, and may be sent again: no trace of it. */
void exec_lost(struct exec *e)
{
	exec_shelve(e);
	if (e->state != EXEC_SHELVED)
		return;
	e->server->active++;
	exec_rewind(e);
	e->reruns = false;
	e->request->enc = e->enc_start;
	e->state = EXEC_RUNS;
	finish(e);
}

static bool wake_marked(struct server *server)
{
	struct busy_mark *mark = busy_next(&server->busy);
	struct exec *e;

	if (!mark)
		return false;
	e = mark->context;
	RF_ASSERT(e->state == EXEC_WAITS_MARK);
	exec_continue(e);
	return true;
}

static bool wake_staged(struct server *server)
{
	struct rf_list *item = rf_list_pop(&server->staged);
	struct exec *e;

	if (!item)
		return false;
	e = rf_container_of(item, struct exec, staged_link);
	RF_ASSERT(is_interruptible(e));
	if (e->interrupt_status)
		exec_interrupt(e, (enum rf_status)e->interrupt_status);
	else
		exec_continue(e);
	return true;
}

void exec_wake(struct server *server)
{
	while (wake_marked(server) || wake_staged(server))
		;
}

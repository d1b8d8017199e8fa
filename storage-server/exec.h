/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.h - one request: a list of operations, run to its answer
 *
 * Operation.  An operation is a step: a function that does its work and gives
 * an outcome, or arranges to be continued (by another step, or itself again)
 * and gives EXEC_WAIT.  Steps run in the reactor; what may block is work, run on
 * a worker.  When all operations have run, or one has failed, what changed is
 * committed as one batch with the answer, synced if asked, and answered.
 *
 * A batch is never open while anything waits.  So an operation that has to wait
 *	- with a clean batch: drops it and goes on from its step;
 *	- with changes in the batch (an operation of the same message made
 *	  them): throws them away, waits, and the message is run again from its
 *	  first operation, this time with what was waited for in hand (a mark,
 *	  staging, dead keys, a synced file).  Opens and grants that the first
 *	  run made are undone.
 * Work for a worker does not wait when the batch has changes: it is done in the
 * reactor.  That is right for the small data that travel inside, and merely
 * slow for the rest: clients put bulk operations into messages of their own.
 * FSYNC after a change in its message is done after the commit, before the
 * answer.
 *
 * Nobody is told that the disk is full while what was deleted before still takes
 * its space: an operation or a commit that fails so waits for that, and the message is
 * run again.
 *
 * A truncate that cuts is in the batch like any other change; the data file is
 * cut after the commit, before the answer, with the mark still held.  Between,
 * in the same message, old bytes lie beyond the file's new size: the object is
 * noted to have a rest, so what grows the file again clears them first.
 *
 * Batches of two requests are never open together either: what one request sets
 * free (a mark, staging) lets another go on at the end of the turn, not from
 * inside the first.
 *
 * Marks (busy.h) are kept until the answer.  Who waits for one gives up those it
 * has on higher inodes; who waits for a client (staging) gives up all.
 *
 * Ownership.  A buffer and objects end with their operation; marks, uses of
 * opens, held slots and grants with the answer, after the commit: what a close
 * deletes must not be in a batch that is open.
 *
 * Outcomes.  0, a negative errno, or a positive enum rf_status; EXEC_WAIT.
 * Threads.  [owner] of the server, but for work.
 */
#ifndef EXEC_H
#define EXEC_H

#include "session.h"

enum {
	EXEC_WAIT = 1 << 20,
	EXEC_MARKS = 4,		/* COPY uses two, EXEC_CUTS stay to the end */
	EXEC_CUTS = 2,		/* files that one message may make smaller */
	/* The largest result, but for data and link targets: WRITE's with
	 * RF_GRANTS_MAX slots, 8 + 8 + 4 + 8 + 120 + 2 + 16 * 24 bytes. */
	EXEC_RESULT_ROOM = 560,
	EXEC_COPY_MAX = 16 << 20,	/* of one COPY; the client asks again */
	/* A request's waits for removals, of 256 files each: as many as its client
	 * can have deleted in some seconds, and far less than its patience. */
	EXEC_ROOM_WAITS = 64,
};

struct exec;
typedef int (*exec_step)(struct exec *e);
/* On a worker, or in the reactor: touches only e->work and the objects. */
typedef int (*exec_work)(struct exec *e);

enum exec_state {
	EXEC_IDLE,		/* no request */
	EXEC_RUNS,
	EXEC_WAITS_MARK,
	EXEC_WAITS_STAGING,	/* this and the next a client may end */
	EXEC_WAITS_LOCKS,	/* for news of them */
	EXEC_SHELVED,		/* not to be run, nor answered: the server or
				 * the connection is ending */
	EXEC_WAITS_FENCE,
	EXEC_WAITS_WORK,
	EXEC_WAITS_SYNC,
	EXEC_CUTS_DATA,		/* committed */
	EXEC_SYNCS_ANSWER,	/* committed */
};

/* A file that the batch makes smaller, and its size when the batch is whole. */
struct exec_cut {
	struct object *object;
	uint64_t inode, size;
};

/* A file that is to replace another, flushed once however often it is written to. */
struct exec_flushed {
	uint64_t inode;
	int err;
};

/* A place in the answer, to go back to. */
struct exec_place {
	struct rf_enc enc;
	enum rf_op_code code;
	uint8_t op_index;
	bool is_dirty;		/* the batch, then */
	bool is_set;
};

struct exec {
	struct session *session;
	struct server *server;
	struct rf_request *request;
	enum exec_state state;

	/* ---- the message ---- */
	struct rf_dec dec_start;
	struct rf_enc enc_start;
	struct txn *txn;		/* NULL between */
	rf_handle_t current;
	bool has_current;
	bool modifies;			/* an operation that does has run */
	bool is_bye;
	bool has_reclaimed;		/* RECLAIM_DONE */
	bool ends_session;		/* the client broke a rule */
	bool reruns;			/* from the first operation, next */
	uint8_t op_index;
	struct exec_place first_change;	/* blamed when the commit fails */
	struct exec_place sync_place;	/* blamed when the sync fails */
	struct exec_place unsaved;	/* after the answer: the change in it */

	/* ---- the operation ---- */
	struct rf_args args;
	struct rf_results results;
	struct exec_place place;
	exec_step next;			/* after what is waited for */
	bool is_in_op;
	struct rf_buf *buf;
	uint8_t buf_op;			/* op_index that buf is for */
	struct object *objects[2];

	/* ---- of the whole message ---- */
	struct busy_mark marks[EXEC_MARKS];
	uint8_t last_mark;		/* the one taken last */
	struct exec_flushed flushed[RF_OPS_MAX];	/* for renames */
	unsigned int flushed_count;
	bool flushes;			/* exec_sync() is for the last of them */
	uint64_t cut_inode;		/* by O_TRUNC of this operation; 0: none */
	struct exec_cut cuts[EXEC_CUTS];	/* their marks are exclusive */
	unsigned int cut_count, cuts_before, cuts_done;
	struct grant *made[RF_GRANTS_MAX];	/* their binds go with the answer */
	uint8_t made_by[RF_GRANTS_MAX];	/* op_index */
	unsigned int made_count;
	struct grant *held[RF_GRANTS_MAX];	/* slots it named */
	uint8_t held_by[RF_GRANTS_MAX];		/* op_index */
	bool held_was_killed[RF_GRANTS_MAX];	/* or need not be, by the Send */
	bool held_is_copied[RF_GRANTS_MAX];	/* to its shadow, if it has one */
	unsigned int held_count;
	unsigned int fences;		/* unbinds that are not done */
	exec_step fence_step;		/* after the last of them */
	uint32_t opens_used[2 * RF_OPS_MAX];	/* ids */
	unsigned int opens_used_count;
	uint32_t opened[RF_OPS_MAX];	/* ids made by this message */
	unsigned int opened_count;
	uint32_t released[RF_OPS_MAX];
	unsigned int released_count;
	struct object *to_sync[RF_OPS_MAX];
	unsigned int to_sync_count;
	bool syncs;			/* to_sync and the log, before the answer */
	bool sync_is_data_only;

	/* ---- waiting ---- */
	struct staging_waiter waiter;
	struct rf_list staged_link;	/* it is here, or will not come */
	int interrupt_status;		/* not 0: why it will not */
	struct rf_job job;
	void (*cut_done)(struct exec *e);
	struct sync_request sync;
	struct removal_waiter removal;
	uint64_t removals_upto;		/* see store_await_removals() */
	unsigned int room_waits;
	exec_work work_fn;
	struct {
		uint64_t inode;
		uint64_t offset, size, from_offset;
		uint64_t old_size, new_size;	/* of the file */
		uint32_t flags;
		uint8_t *mem;
		bool checks_crc;
		bool is_alone;			/* the mark is exclusive */
		bool is_hole;
		uint64_t result;
		int err;		/* 0, errno or status */
	} work;
};

/* ---- exec.c: the life of a request -------------------------------------- */

void exec_start(struct exec *e, struct rf_request *request);
/* The server is going down: what waits for a client stays undone. */
void exec_shelve(struct exec *e);
/* The connection is gone: so does what waits for a client, and it ends. */
void exec_lost(struct exec *e);
/*
 * The log could not be written before the request's answer left: if it has
 * changed anything, its answer is an error now.  For rf_channel_amend().
 */
bool exec_take_back(struct rf_request *request);
/* Its session's, or the store's. */
bool exec_is_read_only(const struct exec *e);
/* Take it out of its wait for staging or locks; false if it does not wait there.  Not
 * while another request runs, which may have a batch open. */
bool exec_interrupt(struct exec *e, enum rf_status status);
/* The same at the end of the turn. */
void exec_interrupt_soon(struct exec *e, enum rf_status status);
/* Go on with those that came to hold a mark or staging, or have news. */
void exec_wake(struct server *server);
/* What was waited for is here. */
void exec_continue(struct exec *e);

/* ---- exec_wait.c: what an operation may need ---------------------------- */

/* The batch, begun if there is none. */
struct txn *exec_txn(struct exec *e);
bool exec_is_dirty(const struct exec *e);
/* Drop the batch and wait; from the first operation again if it has changes. */
int exec_suspend(struct exec *e, enum exec_state state, exec_step step);
/* Does the message name an operation that changes anything?  Its answer has to be
 * recorded for its slot, which it must keep for that: it can't be QUEUED. */
bool exec_may_modify(const struct exec *e);
/* Undo what the message has done so far; it will run again. */
void exec_rewind(struct exec *e);

/* Have a mark on an inode, then do step.  Of several, the lower inode first. */
int exec_mark(struct exec *e, uint64_t inode, bool is_exclusive,
	      exec_step step);
bool exec_has_mark(const struct exec *e, uint64_t inode, bool is_exclusive);
void exec_drop_marks(struct exec *e);
/* Have e->buf of at least size bytes, then do step. */
int exec_stage(struct exec *e, uint32_t size, exec_step step);
/* Do work on a worker, or here if the batch has changes, then step; the result
 * is in e->work.err. */
int exec_offload(struct exec *e, exec_work work, exec_step step);
/*
 * There is no room: wait until some of what was deleted before has gone, then run
 * the message again from its first operation.  False: there is none to wait for.
 */
bool exec_await_room(struct exec *e);
/* Make an inode's data durable now, then do step with e->work.err. */
int exec_sync(struct exec *e, struct object *object, bool is_data_only,
	      exec_step step);
/* The same after the commit, before the answer.  Takes the reference; object
 * may be NULL: the log only. */
void exec_sync_later(struct exec *e, struct object *object, bool is_data_only);
/* There is no commit. */
void exec_drop_syncs(struct exec *e);

/* ---- exec_grants.c: memory that the client reaches ---------------------- */

/* Take all slots of pieces, have their keys dead, then do step.  Checks that
 * they are the session's and that the message's Send killed the first one. */
int exec_hold(struct exec *e, const rf_pieces_t *pieces, exec_step step);
/* This operation's slots, re-armed, into its results; also when it failed. */
void exec_rearm(struct exec *e, rf_grants_t *out);
/* A step that fails with e->work.err. */
int exec_refuse(struct exec *e);
/* NULL: no such slot was held.  [any]: by one thread at a time.  The client can't
 * change them any more. */
const void *exec_piece_data(struct exec *e, const struct rf_piece *piece);
/* Lend e->buf's first size bytes. */
int exec_lend(struct exec *e, uint32_t size, rf_grants_t *out);
/* Bytes of data that the answer has room for inside. */
uint32_t exec_inline_room(const struct exec *e);
/* Data for an answer, size bytes in the server's scratch: inside, or staged and
 * lent.  EXEC_WAIT: step is done again, and fills the scratch again. */
int exec_give(struct exec *e, uint32_t size, rf_blob_t *data,
	      rf_grants_t *grants, exec_step step);
/*
 * The answer was cut at this operation, which failed: the slots that it and
 * later ones held go into rearmed if there is one, all else is taken back.
 */
void exec_forfeit_from(struct exec *e, unsigned int op_index,
		       rf_grants_t *rearmed);
/* Slots are taken back that this operation names, or those which never ran. */
void exec_forfeit_args(struct exec *e);
void exec_forfeit_rest(struct exec *e);
/* One more bind for the answer; false: RF_GRANTS_MAX are planned. */
bool exec_may_make(const struct exec *e, unsigned int count);
void exec_note_made(struct exec *e, struct grant *grant);
/* Undo, for exec_rewind(), and end, for the answer: binds into works. */
void exec_rewind_grants(struct exec *e);
unsigned int exec_end_grants(struct exec *e, struct rf_work *works);

/* ---- exec_open.c -------------------------------------------------------- */

/*
 * The right to use handle's inode, by open id with the RF_OPEN_* of need; id 0:
 * by the last open that this message made.  flags: of the open.  At most two
 * per operation.
 */
int exec_use_open(struct exec *e, const rf_handle_t *handle, uint32_t id,
		  uint32_t need, uint32_t *flags);
void exec_unuse_opens(struct exec *e);
/* The error of a sync of its inode that this open was not told of yet. */
int exec_take_failure(struct exec *e, uint32_t id);
/* What permissions an open with these RF_OPEN_* needs: MAY_*. */
unsigned int exec_open_mask(uint32_t flags);
/* A new open of an inode, in the session and in the store; its number, and the
 * tag for RECLAIM. */
int exec_add_open(struct exec *e, uint64_t inode, uint32_t flags, uint32_t *id,
		  uint64_t *tag);
/* Committed: take the released away.  Or undo. */
void exec_settle_opens(struct exec *e);
void exec_undo_opens(struct exec *e);

/* The object of an inode; the reference ends with the operation. */
int exec_object(struct exec *e, unsigned int which, uint64_t inode,
		struct object **out);
void exec_put_objects(struct exec *e);

/* ---- exec_read.c -------------------------------------------------------- */

/* The current inode was read by an open with these flags: atime. */
void exec_note_read(struct exec *e, uint32_t flags);

/* ---- exec_truncate.c ---------------------------------------------------- */

/* O_TRUNC: empty the file that step has found and may write (attr is what it is
 * now).  step is done again, to find it once more when nobody else uses it, and at
 * last with the size 0. */
int exec_cut(struct exec *e, const rf_attr_t *attr, exec_step step);

/* The batch is about to be committed: what are the sizes? */
int exec_size_cuts(struct exec *e, struct txn *txn);
/* Committed: cut the data files, then run done, which may be at once. */
void exec_cut_data(struct exec *e, void (*done)(struct exec *e));
/* What the batch had of them is dropped: all but the first count. */
void exec_drop_cuts(struct exec *e, unsigned int count);
bool exec_cuts(const struct exec *e, uint64_t inode);

/* ---- exec_write.c ------------------------------------------------------- */

/* exec_sync_later() of an inode's data. */
int exec_sync_object(struct exec *e, uint64_t inode, bool is_data_only);

/* ---- exec_lock.c -------------------------------------------------------- */

/* A wait of this session has ended: who asked for news goes on, at the end of
 * the turn. */
void exec_lock_settled(struct lock_session *locks);

/* ---- checks ------------------------------------------------------------- */

/* Who asks; NULL: the identity was never registered. */
const struct cred *exec_cred(const struct exec *e);
/* Who changes data: who asks, or nobody if that is not known. */
const struct cred *exec_changer(const struct exec *e);
/* The same if that drops setuid and setgid; NULL if not: who asks is super. */
const struct cred *exec_killer(const struct exec *e);
/* ENOENT of an inode that a handle named means that it is gone. */
int exec_stale(int err);
/* 0, or RF_ST_BAD_HANDLE: forged, or of another export. */
int exec_check_handle(const struct exec *e, const rf_handle_t *handle);
/* The handle of a child, which becomes the current one. */
rf_handle_t exec_move_to(struct exec *e, const rf_attr_t *attr);

/* ---- each operation ----------------------------------------------------- */

#define EXEC_DECLARE(NAME, lower, code) int exec_op_##lower(struct exec *e);
RF_OPS(EXEC_DECLARE)
#undef EXEC_DECLARE

#endif /* EXEC_H */

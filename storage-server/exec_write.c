/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_write.c - WRITE, COPY and FSYNC
 *
 *	WRITE: hold slots -> mark -> data (reactor or worker, see pace.h)
 *	       -> size and time
 *
 * Operation.  Writes share the inode, also those that leave a gap, since beyond
 * the size there are but zeroes and what others are just writing there.  Only if
 * a failure has left something there (object_has_rest()) a gap is cleared first,
 * with the inode alone.  So has it an append: where the file ends must hold
 * still.  The keys of the slots are dead before their
 * checksums are looked at, and those are right before anything is stored.
 */
#include "exec.h"

#include <errno.h>
#include <sys/stat.h>

int exec_sync_object(struct exec *e, uint64_t inode, bool is_data_only)
{
	struct object *object;
	int err = object_get(e->server->store, inode, &object);

	if (!err)
		exec_sync_later(e, object, is_data_only);
	return err;
}

/* ---- WRITE -------------------------------------------------------------- */

static uint64_t write_size(const struct rf_write_args *args)
{
	uint64_t size = args->data.size;

	for (unsigned int i = 0; i < args->pieces.count; i++)
		size += args->pieces.v[i].size;
	return size;
}

static int check_crcs(struct exec *e)
{
	const rf_pieces_t *pieces = &e->args.write.pieces;

	for (unsigned int i = 0; i < pieces->count; i++) {
		const struct rf_piece *piece = &pieces->v[i];

		if (rf_crc32c(0, exec_piece_data(e, piece), piece->size) !=
		    piece->crc)
			return RF_ST_BAD_CRC;
	}
	return 0;
}

/* Up to work.size, which may be less than there is. */
static int store_pieces(struct exec *e)
{
	const rf_pieces_t *pieces = &e->args.write.pieces;
	uint64_t done = 0;

	for (unsigned int i = 0; i < pieces->count; i++) {
		const struct rf_piece *piece = &pieces->v[i];
		uint64_t size = rf_min_u64(piece->size, e->work.size - done);
		int err = object_write(e->objects[0],
				       exec_piece_data(e, piece), size,
				       e->work.offset + done);

		if (err) {
			if (i > 0)	/* others were stored */
				object_note_rest(e->objects[0]);
			return err;
		}
		done += size;
	}
	return 0;
}

/* [any]: reads the arguments and the held slots, which stand still. */
static int write_work(struct exec *e)
{
	const rf_blob_t *data = &e->args.write.data;
	int err = 0;

	if (e->work.checks_crc)
		err = check_crcs(e);
	/* Not alone: there was nothing to clear, see write_done() for later. */
	if (!err && e->work.offset > e->work.old_size && e->work.is_alone)
		err = object_prepare_growth(e->objects[0], e->work.old_size,
					    e->work.offset);
	if (err)
		return err;
	if (data->size > 0)
		return object_write(e->objects[0], data->bytes, e->work.size,
				    e->work.offset);
	return store_pieces(e);
}

/* As asked, by the WRITE or its open, or for all. */
static int sync_written(struct exec *e)
{
	uint32_t flags = e->args.write.flags;
	bool is_whole = flags & RF_WRITE_SYNC || e->work.flags & RF_OPEN_SYNC;
	bool is_data = flags & RF_WRITE_DSYNC || e->work.flags & RF_OPEN_DSYNC;

	if (is_whole || is_data || e->server->config->is_strict)
		return exec_sync_object(e, e->current.inode, !is_whole);
	return 0;
}

/* It would leave a gap, in which a failure has left bytes. */
static bool must_be_alone(const struct exec *e, uint64_t size)
{
	return e->work.offset > size && e->work.size > 0 && !e->work.is_alone &&
	       object_has_rest(e->objects[0]);
}

static bool may_store_here(struct exec *e)
{
	const struct config *config = e->server->config;

	if (config->workers == 0)	/* it would be us, only later */
		return true;
	if (e->args.write.flags & RF_WRITE_PART && e->work.size > PACE_SMALL)
		return false;
	return pace_take(&e->server->pace,
			 rf_reactor_now_ns(e->server->reactor), e->work.size,
			 config->reactor_store);
}

static int write_marked(struct exec *e);

static int write_done(struct exec *e)
{
	struct rf_write_results *results = &e->results.write;
	const struct cred *killer = NULL;
	uint64_t inode = e->current.inode;
	int err = e->work.err;
	rf_attr_t attr;

	if (!err)
		err = txn_getattr(exec_txn(e), inode, &attr);
	/* Another write failed meanwhile: once more, after clearing. */
	if (!err && must_be_alone(e, attr.size))
		return exec_mark(e, inode, true, write_marked);
	if (e->args.write.flags & RF_WRITE_KILL_PRIV)
		killer = exec_changer(e);
	else if (e->session->export->config->squashes_root)
		killer = exec_killer(e);	/* its client takes it for root */
	if (!err) {
		err = txn_wrote(exec_txn(e), inode, e->work.offset,
				e->work.size, killer,
				&results->change_before, &results->attr);
		if (err)
			object_note_rest(e->objects[0]);
	}
	if (!err)
		err = sync_written(e);
	results->offset = e->work.offset;
	results->size = (uint32_t)write_size(&e->args.write);
	return exec_stale(err);
}

static int store_here(struct exec *e)
{
	uint64_t start_ns = rf_now_ns();

	e->work.err = write_work(e);
	pace_took(&e->server->pace, start_ns, rf_now_ns());
	return write_done(e);
}

/*
 * Pages of a mapping that others have cut off meanwhile stay cut off.  False:
 * that is all of them.
 */
static bool keep_inside(struct exec *e, const rf_attr_t *attr)
{
	struct rf_write_results *results = &e->results.write;
	uint64_t offset = e->args.write.offset;
	uint64_t room = attr->size > offset ? attr->size - offset : 0;

	e->work.size = rf_min_u64(e->work.size, room);
	if (e->work.size > 0)
		return true;
	results->offset = offset;
	results->size = (uint32_t)write_size(&e->args.write);
	results->change_before = attr->change;
	results->attr = *attr;
	return false;
}

static int write_marked(struct exec *e)
{
	const struct rf_write_args *args = &e->args.write;
	uint64_t inode = e->current.inode;
	struct object *object;
	rf_attr_t attr;
	int err = txn_getattr(exec_txn(e), inode, &attr);

	if (err)
		return exec_stale(err);
	if (args->flags & RF_WRITE_INSIDE && !keep_inside(e, &attr))
		return 0;
	e->work.offset = args->flags & RF_WRITE_APPEND ? attr.size
						       : args->offset;
	if (e->work.size > STORE_SIZE_MAX ||
	    e->work.offset > STORE_SIZE_MAX - e->work.size)
		return -EFBIG;
	err = exec_object(e, 0, inode, &object);
	if (err)
		return exec_stale(err);
	e->work.is_alone = exec_has_mark(e, inode, true);
	if (must_be_alone(e, attr.size))
		return exec_mark(e, inode, true, write_marked);
	e->work.old_size = attr.size;
	e->work.checks_crc = e->session->uses_crc;
	return may_store_here(e) ? store_here(e)
				 : exec_offload(e, write_work, write_done);
}

static int write_held(struct exec *e)
{
	return exec_mark(e, e->current.inode,
			 e->args.write.flags & RF_WRITE_APPEND, write_marked);
}

int exec_op_write(struct exec *e)
{
	const struct rf_write_args *args = &e->args.write;
	uint32_t flags;
	int err = exec_use_open(e, &e->current, args->open, RF_OPEN_WRITE,
				&flags);

	e->work.size = write_size(args);
	e->work.flags = flags;
	/* The slots are held in any case, so that they can be re-armed. */
	if (!err && args->data.size > 0 && args->pieces.count > 0)
		err = -EINVAL;
	if (!err && e->work.size > e->session->limits.block_max)
		err = -EINVAL;
	if (!err && args->data.size > e->session->limits.inline_max)
		err = -EINVAL;
	if (!err && args->flags & RF_WRITE_INSIDE &&
	    args->flags & RF_WRITE_APPEND)
		err = -EINVAL;
	e->work.err = err;
	return exec_hold(e, &args->pieces, err ? exec_refuse : write_held);
}

/* ---- FSYNC -------------------------------------------------------------- */

static int fsync_done(struct exec *e)
{
	/* This one's, too: then it has been told. */
	int earlier = exec_take_failure(e, e->args.fsync.open);

	return e->work.err ? e->work.err : earlier;
}

int exec_op_fsync(struct exec *e)
{
	const struct rf_fsync_args *args = &e->args.fsync;
	struct object *object = NULL;
	uint32_t flags;
	rf_attr_t attr;
	int err = exec_use_open(e, &e->current, args->open, 0, &flags);

	if (!err)
		err = exec_stale(txn_getattr(exec_txn(e), e->current.inode,
					     &attr));
	if (!err && S_ISREG(attr.mode))
		err = object_get(e->server->store, e->current.inode, &object);
	if (err)
		return err;
	if (!txn_is_dirty(exec_txn(e)))
		return exec_sync(e, object, args->is_data_only, fsync_done);
	exec_sync_later(e, object, args->is_data_only);
	return exec_take_failure(e, args->open);
}

/* ---- COPY --------------------------------------------------------------- */

/* [any]: perhaps less than asked; the client goes on from there. */
static int copy_work(struct exec *e)
{
	ssize_t got;
	int err = 0;

	if (e->work.offset > e->work.old_size)
		err = object_prepare_growth(e->objects[0], e->work.old_size,
					    e->work.offset);
	if (err)
		return err;
	got = object_copy(e->objects[1], e->work.from_offset, e->objects[0],
			  e->work.offset, e->work.size);
	e->work.result = got > 0 ? (uint64_t)got : 0;
	return got < 0 ? (int)got : 0;
}

static int copied(struct exec *e)
{
	struct rf_copy_results *results = &e->results.copy;
	int err = e->work.err;

	if (err)
		return err;
	results->size = e->work.result;
	if (e->server->config->is_strict)
		exec_sync_object(e, e->current.inode, false);
	err = txn_wrote(exec_txn(e), e->current.inode, e->work.offset,
			e->work.result, exec_killer(e),
			&results->change_before, &results->attr);
	if (err)
		object_note_rest(e->objects[0]);
	return exec_stale(err);
}

static bool ranges_overlap(const struct rf_copy_args *args)
{
	uint64_t low = rf_min_u64(args->offset, args->source_offset);
	uint64_t high = rf_max_u64(args->offset, args->source_offset);

	return high - low < args->size;
}

static int copy_marked(struct exec *e)
{
	const struct rf_copy_args *args = &e->args.copy;
	struct object *object;
	rf_attr_t source, target;
	int err = txn_getattr(exec_txn(e), args->source.inode, &source);

	if (!err)
		err = txn_getattr(exec_txn(e), e->current.inode, &target);
	if (!err)
		err = exec_object(e, 0, e->current.inode, &object);
	if (!err)
		err = exec_object(e, 1, args->source.inode, &object);
	if (err)
		return exec_stale(err);
	e->work.size = rf_min_u64(args->size, EXEC_COPY_MAX);
	if (args->source_offset >= source.size)
		e->work.size = 0;
	else
		e->work.size = rf_min_u64(e->work.size,
					  source.size - args->source_offset);
	e->results.copy.attr = target;
	e->results.copy.change_before = target.change;
	if (e->work.size == 0)
		return 0;
	if (args->offset > STORE_SIZE_MAX - e->work.size)
		return -EFBIG;
	e->work.offset = args->offset;
	e->work.from_offset = args->source_offset;
	e->work.old_size = target.size;
	return exec_offload(e, copy_work, copied);
}

/* The second of two marks, the higher inode. */
static int copy_half_marked(struct exec *e)
{
	uint64_t target = e->current.inode;
	uint64_t source = e->args.copy.source.inode;

	if (source == target)
		return copy_marked(e);
	return exec_mark(e, rf_max_u64(source, target), target > source,
			 copy_marked);
}

int exec_op_copy(struct exec *e)
{
	const struct rf_copy_args *args = &e->args.copy;
	uint64_t target = e->current.inode, source = args->source.inode;
	uint32_t flags;
	int err = exec_check_handle(e, &args->source);

	if (!err)
		err = exec_use_open(e, &e->current, args->open, RF_OPEN_WRITE,
				    &flags);
	if (!err)
		err = exec_use_open(e, &args->source, args->source_open,
				    RF_OPEN_READ, &flags);
	if (err)
		return err;
	if (args->size > INT64_MAX || args->offset > INT64_MAX - args->size ||
	    args->source_offset > INT64_MAX - args->size)
		return -EINVAL;
	if (source == target && ranges_overlap(args))
		return -EINVAL;
	return exec_mark(e, rf_min_u64(source, target), target <= source,
			 copy_half_marked);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_read.c - READ and LSEEK
 *
 *	        small: into scratch, if cached          -> inside
 *	READ -<
 *	        large, or not cached: staging -> mark -> cached, or a worker
 *	                                                -> grant, or inside
 *
 * Operation.  Staging first, then the mark: nobody waits for a client with a
 * mark in hand.  Version and size are taken before the data, so that the data
 * are at least as new as the answer says.
 */
#include "exec.h"

#include <errno.h>

/* Taken under the mark: how much there is to read. */
static int measure(struct exec *e, uint32_t room)
{
	const struct rf_read_args *args = &e->args.read;
	struct rf_read_results *results = &e->results.read;
	struct object *object;
	rf_attr_t attr;
	int err = txn_getattr(exec_txn(e), e->current.inode, &attr);

	if (!err)
		err = exec_object(e, 0, e->current.inode, &object);
	if (err)
		return exec_stale(err);
	results->version = attr.change;
	results->file_size = attr.size;
	results->size = (uint32_t)rf_min_u64(args->size, room);
	if (args->offset >= attr.size)
		results->size = 0;
	else
		results->size = (uint32_t)rf_min_u64(results->size,
						     attr.size - args->offset);
	results->eof = args->offset >= attr.size ||
		       args->offset + results->size == attr.size;
	return 0;
}

void exec_note_read(struct exec *e, uint32_t flags)
{
	if (!exec_is_read_only(e) && !(flags & RF_OPEN_NOATIME))
		txn_read_atime(exec_txn(e), e->current.inode,
			       flags & RF_OPEN_STRICTATIME);
}

/* The data are at mem; got of them from the object, the rest is a hole. */
static int give(struct exec *e, uint8_t *mem, uint64_t got)
{
	struct rf_read_results *results = &e->results.read;

	if (got < results->size)
		memset(mem + got, 0, results->size - got);
	exec_note_read(e, e->work.flags);
	if (results->size <= exec_inline_room(e)) {
		results->data = (rf_blob_t){ mem, results->size };
		return 0;
	}
	return exec_lend(e, results->size, &results->grants);
}

static int read_done(struct exec *e)
{
	if (e->work.err)
		return e->work.err;
	return give(e, e->buf->mem, e->work.result);
}

/* [any] */
static int read_work(struct exec *e)
{
	ssize_t got = object_read(e->objects[0], e->work.mem, e->work.size,
				  e->work.offset);

	e->work.result = got > 0 ? (uint64_t)got : 0;
	return got < 0 ? (int)got : 0;
}

static int read_marked(struct exec *e)
{
	struct rf_read_results *results = &e->results.read;
	ssize_t got;
	int err = measure(e, e->buf->size);

	if (err || results->size == 0)
		return err;
	got = object_read_cached(e->objects[0], e->buf->mem, results->size,
				 e->args.read.offset);
	if (got >= 0)
		return give(e, e->buf->mem, (uint64_t)got);
	if (got != -EAGAIN)
		return (int)got;
	e->work.mem = e->buf->mem;
	e->work.size = results->size;
	e->work.offset = e->args.read.offset;
	return exec_offload(e, read_work, read_done);
}

static int read_staged(struct exec *e)
{
	return exec_mark(e, e->current.inode, false, read_marked);
}

/* Small: in the reactor if it is cached. */
static int read_small(struct exec *e)
{
	struct rf_read_results *results = &e->results.read;
	uint8_t *scratch = e->server->scratch;
	ssize_t got;
	int err = measure(e, exec_inline_room(e));

	if (err || results->size == 0)
		return err;
	got = object_read_cached(e->objects[0], scratch, results->size,
				 e->args.read.offset);
	if (got == -EAGAIN)
		return exec_stage(e, results->size, read_staged);
	return got < 0 ? (int)got : give(e, scratch, (uint64_t)got);
}

int exec_op_read(struct exec *e)
{
	const struct rf_read_args *args = &e->args.read;
	uint64_t wanted = args->size;
	uint32_t flags;
	rf_attr_t attr;
	int err = exec_use_open(e, &e->current, args->open, RF_OPEN_READ,
				&flags);

	e->work.flags = flags;
	if (err)
		return err;
	if (args->size == 0 || args->size > e->session->limits.block_max ||
	    args->offset > (uint64_t)INT64_MAX - args->size)
		return -EINVAL;
	err = txn_getattr(exec_txn(e), e->current.inode, &attr);
	if (err)
		return exec_stale(err);
	if (args->offset >= attr.size)
		wanted = 0;
	else
		wanted = rf_min_u64(wanted, attr.size - args->offset);
	if (wanted <= exec_inline_room(e))
		return exec_mark(e, e->current.inode, false, read_small);
	return exec_stage(e, (uint32_t)wanted, read_staged);
}

/* ---- LSEEK -------------------------------------------------------------- */

/* [any] */
static int seek(struct exec *e)
{
	return object_seek(e->objects[0], e->work.offset, e->work.is_hole,
			   e->work.old_size, &e->work.result);
}

static int sought(struct exec *e)
{
	e->results.lseek.offset = e->work.result;
	return e->work.err;
}

static int lseek_marked(struct exec *e)
{
	struct object *object;
	rf_attr_t attr;
	int err = txn_getattr(exec_txn(e), e->current.inode, &attr);

	if (!err)
		err = exec_object(e, 0, e->current.inode, &object);
	if (err)
		return exec_stale(err);
	e->work.offset = e->args.lseek.offset;
	e->work.is_hole = e->args.lseek.whence == 1;
	e->work.old_size = attr.size;
	return exec_offload(e, seek, sought);
}

int exec_op_lseek(struct exec *e)
{
	uint32_t flags;
	int err = exec_use_open(e, &e->current, e->args.lseek.open, 0, &flags);

	return err ? err : exec_mark(e, e->current.inode, false, lseek_marked);
}

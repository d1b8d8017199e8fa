/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_truncate.c - SETATTR, and what changes a file's size without data
 *
 * Operation.  A change of size has the inode for itself.  To grow, the data file
 * comes first, so that the recorded size never covers old bytes.  To cut, the
 * record comes first: it is in the batch, and when that is in the log the data
 * file is cut, before the answer.  A crash between leaves a data file that is
 * longer than the record says, which the next start cuts at its first use; a
 * batch that is dropped leaves the whole old file.
 * When it fails.  A cut that fails after its commit has happened all the same:
 * what is left beyond the size is cleared before the file grows again.
 */
#include "exec.h"

#include <errno.h>

/* ---- cutting, after the commit ------------------------------------------ */

bool exec_cuts(const struct exec *e, uint64_t inode)
{
	for (unsigned int i = 0; i < e->cut_count; i++)
		if (e->cuts[i].inode == inode)
			return true;
	return false;
}

/* The batch is to make e->objects[0] smaller. */
static int plan_cut(struct exec *e, uint64_t inode)
{
	struct exec_cut *cut = &e->cuts[e->cut_count];
	int err;

	if (!exec_cuts(e, inode)) {
		if (e->cut_count == EXEC_CUTS)
			return RF_ST_TOO_MANY;
		/* Held: by a new open it would be cut to the batch's size. */
		err = object_get(e->server->store, inode, &cut->object);
		if (err)
			return err;
		cut->inode = inode;
		e->cut_count++;
	}
	object_note_rest(e->objects[0]);
	return 0;
}

int exec_size_cuts(struct exec *e, struct txn *txn)
{
	int err = 0;

	for (unsigned int i = 0; i < e->cut_count && !err; i++) {
		rf_attr_t attr;

		err = txn_getattr(txn, e->cuts[i].inode, &attr);
		e->cuts[i].size = attr.size;
	}
	return err;
}

void exec_drop_cuts(struct exec *e, unsigned int count)
{
	while (e->cut_count > count)
		object_put(e->cuts[--e->cut_count].object);
	e->cuts_done = 0;
}

/* [any] */
static void cut_run(struct rf_job *job)
{
	struct exec *e = rf_container_of(job, struct exec, job);
	const struct exec_cut *cut = &e->cuts[e->cuts_done];

	/* Failed: said in the log, and the object is noted to have a rest. */
	object_truncate(cut->object, cut->size);
}

static void cut_next(struct exec *e);

static void cut_ran(struct rf_job *job)
{
	struct exec *e = rf_container_of(job, struct exec, job);

	e->cuts_done++;
	cut_next(e);
}

static void cut_next(struct exec *e)
{
	if (e->cuts_done == e->cut_count) {
		exec_drop_cuts(e, 0);
		e->cut_done(e);
		return;
	}
	e->state = EXEC_CUTS_DATA;
	e->job = (struct rf_job){ .run = cut_run, .done = cut_ran };
	rf_workers_post(e->server->workers, e->server->reactor, &e->job);
}

void exec_cut_data(struct exec *e, void (*done)(struct exec *e))
{
	e->cut_done = done;
	cut_next(e);
}

/* ---- O_TRUNC ------------------------------------------------------------ */

static int cut_marked(struct exec *e, uint64_t inode)
{
	struct rf_setattr_args args = { .valid = RF_SET_SIZE };
	struct object *object;
	uint64_t change_before;
	rf_attr_t attr;
	int err = txn_getattr(exec_txn(e), inode, &attr);

	if (!err)
		err = exec_object(e, 0, inode, &object);
	if (!err && attr.size > 0)
		err = plan_cut(e, inode);
	if (exec_killer(e))
		args.valid |= RF_SET_KILL_PRIV;
	if (!err)
		err = txn_setattr(exec_txn(e), exec_cred(e), inode, &args, true,
				  &change_before, &attr);
	return exec_stale(err);
}

int exec_cut(struct exec *e, const rf_attr_t *attr, exec_step step)
{
	int err;

	/* With the mark in hand step looks again: meanwhile the name may have become
	 * another file's, and the right to write have gone. */
	if (!exec_has_mark(e, attr->inode, true))
		return exec_mark(e, attr->inode, true, step);
	err = cut_marked(e, attr->inode);
	if (err)
		return err;
	e->cut_inode = attr->inode;
	return step(e);
}

/* ---- SETATTR ------------------------------------------------------------ */

/*
 * Before a write the kernel asks to drop what must go, without a word about the
 * open, which outlives the right to write.
 */
static bool may_write(const struct exec *e)
{
	const struct rf_setattr_args *args = &e->args.setattr;

	return args->open != 0 ||
	       (args->valid == RF_SET_KILL_PRIV &&
		open_table_has_writer(&e->session->opens, e->current.inode));
}

static int apply(struct exec *e)
{
	const struct rf_setattr_args *args = &e->args.setattr;
	struct rf_setattr_results *results = &e->results.setattr;

	return exec_stale(txn_setattr(exec_txn(e), exec_cred(e),
				      e->current.inode, args, may_write(e),
				      &results->change_before,
				      &results->attr));
}

/* [any] */
static int prepare(struct exec *e)
{
	return object_prepare_growth(e->objects[0], e->work.old_size,
				     e->work.size);
}

static int prepared(struct exec *e)
{
	return e->work.err ? e->work.err : apply(e);
}

static int size_marked(struct exec *e)
{
	const struct rf_setattr_args *args = &e->args.setattr;
	struct txn *txn = exec_txn(e);
	struct object *object;
	rf_attr_t attr;
	int err;

	/* Asked now, so that nothing is cut that may not be. */
	err = txn_may_setattr(txn, exec_cred(e), e->current.inode, args,
			      args->open != 0);
	if (!err)
		err = txn_getattr(txn, e->current.inode, &attr);
	if (!err)
		err = exec_object(e, 0, e->current.inode, &object);
	if (!err && args->size < attr.size)
		err = plan_cut(e, e->current.inode);
	if (err)
		return exec_stale(err);
	if (args->size <= attr.size)
		return apply(e);
	e->work.old_size = attr.size;
	e->work.size = args->size;
	return exec_offload(e, prepare, prepared);
}

int exec_op_setattr(struct exec *e)
{
	const struct rf_setattr_args *args = &e->args.setattr;
	uint32_t flags;
	int err = 0;

	if (args->open != 0)
		err = exec_use_open(e, &e->current, args->open, RF_OPEN_WRITE,
				    &flags);
	if (err)
		return err;
	if (!(args->valid & RF_SET_SIZE))
		return apply(e);
	/* Its client may take it for root, who keeps set-id bits. */
	if (e->session->export->config->squashes_root && exec_killer(e))
		e->args.setattr.valid |= RF_SET_KILL_PRIV;
	if (args->size > STORE_SIZE_MAX)
		return -EFBIG;
	err = txn_may_setattr(exec_txn(e), exec_cred(e), e->current.inode,
			      args, args->open != 0);
	if (err)
		return exec_stale(err);
	return exec_mark(e, e->current.inode, true, size_marked);
}

/* ---- FALLOCATE ---------------------------------------------------------- */

static bool mode_is_known(uint32_t mode)
{
	switch (mode) {
	case 0:
	case RF_FALLOC_KEEP_SIZE:
	case RF_FALLOC_PUNCH | RF_FALLOC_KEEP_SIZE:
	case RF_FALLOC_ZERO:
	case RF_FALLOC_ZERO | RF_FALLOC_KEEP_SIZE:
		return true;
	default:
		return false;
	}
}

/* [any] */
static int allocate(struct exec *e)
{
	struct object *object = e->objects[0];
	int err = 0;

	if (e->work.new_size > e->work.old_size)
		err = object_prepare_growth(object, e->work.old_size,
					    e->work.new_size);
	if (err)
		return err;
	return object_allocate(object, e->work.flags, e->work.offset,
			       e->work.size);
}

static int allocated(struct exec *e)
{
	struct rf_fallocate_results *results = &e->results.fallocate;

	if (e->work.err)
		return e->work.err;
	if (e->server->config->is_strict)
		exec_sync_object(e, e->current.inode, false);
	return exec_stale(txn_allocated(exec_txn(e), e->current.inode,
					e->work.new_size, exec_killer(e),
					&results->change_before,
					&results->attr));
}

static int fallocate_marked(struct exec *e)
{
	const struct rf_fallocate_args *args = &e->args.fallocate;
	struct object *object;
	rf_attr_t attr;
	int err = txn_getattr(exec_txn(e), e->current.inode, &attr);

	if (!err)
		err = exec_object(e, 0, e->current.inode, &object);
	if (err)
		return exec_stale(err);
	e->work.old_size = e->work.new_size = attr.size;
	if (!(args->mode & RF_FALLOC_KEEP_SIZE))
		e->work.new_size = rf_max_u64(attr.size,
					      args->offset + args->size);
	e->work.flags = args->mode;
	e->work.offset = args->offset;
	e->work.size = args->size;
	return exec_offload(e, allocate, allocated);
}

int exec_op_fallocate(struct exec *e)
{
	const struct rf_fallocate_args *args = &e->args.fallocate;
	uint32_t flags;
	int err = exec_use_open(e, &e->current, args->open, RF_OPEN_WRITE,
				&flags);

	if (err)
		return err;
	if (!mode_is_known(args->mode))
		return -EOPNOTSUPP;
	if (args->size == 0)
		return -EINVAL;
	if (args->size > STORE_SIZE_MAX ||
	    args->offset > STORE_SIZE_MAX - args->size)
		return -EFBIG;
	return exec_mark(e, e->current.inode, true, fallocate_marked);
}

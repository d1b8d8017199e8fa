/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_open.c - OPEN, RELEASE, and the right to use what was opened
 *
 * Operation.  An open counts in the store from the moment it is made, so that
 * an unlink later in the same message leaves an orphan; if the message runs
 * again or its commit fails, the opens it made are undone.  RELEASE takes
 * effect after the commit.
 */
#include "exec.h"

#include <errno.h>
#include <sys/stat.h>

/* ---- the session's table ------------------------------------------------ */

/* The right to execute is one to read. */
static uint32_t effective(uint32_t flags)
{
	return flags & RF_OPEN_EXEC ? flags | RF_OPEN_READ : flags;
}

static uint64_t tag_of(const struct exec *e, uint64_t inode, uint32_t id,
		       uint32_t flags)
{
	const struct open_proof proof = {
		.session = e->session->id,
		.inode = inode,
		.open = id,
		.flags = flags,
	};

	return store_open_tag(e->server->store, &proof);
}

int exec_add_open(struct exec *e, uint64_t inode, uint32_t flags, uint32_t *id,
		  uint64_t *tag)
{
	struct open_table *opens = &e->session->opens;
	int err = open_table_add(opens, inode, effective(flags), id);

	if (err)
		return err;
	err = store_open_inode(e->server->store, inode);
	if (err) {
		open_table_remove(opens, *id);
		return err;
	}
	open_table_find(opens, *id)->failures_seen =
		store_sync_failures(e->server->store);
	e->opened[e->opened_count++] = *id;
	*tag = tag_of(e, inode, *id, effective(flags));
	return 0;
}

void exec_settle_opens(struct exec *e)
{
	for (unsigned int i = 0; i < e->released_count; i++)
		session_release(e->session, e->released[i]);
	e->opened_count = e->released_count = 0;
}

void exec_undo_opens(struct exec *e)
{
	exec_unuse_opens(e);
	for (unsigned int i = 0; i < e->opened_count; i++)
		session_release(e->session, e->opened[i]);
	e->opened_count = e->released_count = 0;
}

/* ---- using an open ------------------------------------------------------ */

unsigned int exec_open_mask(uint32_t flags)
{
	unsigned int mask = 0;

	if (flags & RF_OPEN_READ)
		mask |= MAY_READ;
	if (flags & (RF_OPEN_WRITE | RF_OPEN_TRUNC))
		mask |= MAY_WRITE;
	if (flags & RF_OPEN_EXEC)
		mask |= MAY_EXEC;
	return mask;
}

static void note_use(struct exec *e, uint32_t id)
{
	struct open *open = open_table_find(&e->session->opens, id);

	for (unsigned int i = 0; i < e->opens_used_count; i++)
		if (e->opens_used[i] == id)
			return;
	RF_ASSERT(e->opens_used_count < RF_ARRAY_SIZE(e->opens_used));
	e->opens_used[e->opens_used_count++] = id;
	open->users++;		/* bounded by the requests in service */
}

int exec_use_open(struct exec *e, const rf_handle_t *handle, uint32_t id,
		  uint32_t need, uint32_t *flags)
{
	struct open *open;

	*flags = 0;
	if (id == 0 && e->opened_count > 0)
		id = e->opened[e->opened_count - 1];
	open = open_table_find(&e->session->opens, id);
	if (!open || open->inode != handle->inode ||
	    (open->flags & need) != need)
		return -EBADF;
	*flags = open->flags;
	note_use(e, id);
	return 0;
}

int exec_take_failure(struct exec *e, uint32_t id)
{
	struct open *open;

	if (id == 0 && e->opened_count > 0)
		id = e->opened[e->opened_count - 1];
	/* In use by this message, so it is there; maybe released. */
	open = open_table_find_any(&e->session->opens, id);
	return store_take_failure(e->server->store, open->inode,
				  &open->failures_seen);
}

void exec_unuse_opens(struct exec *e)
{
	while (e->opens_used_count > 0)
		session_open_put(e->session,
				 e->opens_used[--e->opens_used_count]);
}

/* ---- objects ------------------------------------------------------------ */

int exec_object(struct exec *e, unsigned int which, uint64_t inode,
		struct object **out)
{
	int err = 0;

	if (!e->objects[which])
		err = object_get(e->server->store, inode, &e->objects[which]);
	*out = e->objects[which];
	return err;
}

void exec_put_objects(struct exec *e)
{
	for (unsigned int i = 0; i < RF_ARRAY_SIZE(e->objects); i++) {
		if (e->objects[i])
			object_put(e->objects[i]);
		e->objects[i] = NULL;
	}
}

/* ---- OPEN, RELEASE ------------------------------------------------------ */

static int check_type(const rf_attr_t *attr, uint32_t flags)
{
	if (S_ISDIR(attr->mode))
		return flags & (RF_OPEN_WRITE | RF_OPEN_TRUNC) ? -EISDIR : 0;
	if (flags & RF_OPEN_DIR)
		return -ENOTDIR;
	if (S_ISLNK(attr->mode))
		return -ELOOP;
	/* The client's kernel opens all others by itself. */
	return S_ISREG(attr->mode) ? 0 : -ENXIO;
}

int exec_op_open(struct exec *e)
{
	struct rf_open_results *results = &e->results.open;
	uint32_t flags = e->args.open.flags;
	int err = 0;

	if (!(flags & (RF_OPEN_READ | RF_OPEN_WRITE | RF_OPEN_EXEC)))
		err = -EINVAL;
	if (!err && open_table_is_full(&e->session->opens))
		err = -ENFILE;
	if (!err)
		err = exec_stale(txn_getattr(exec_txn(e), e->current.inode,
					     &results->attr));
	if (!err)
		err = check_type(&results->attr, flags);
	if (!err && exec_is_read_only(e) &&
	    (flags & (RF_OPEN_WRITE | RF_OPEN_TRUNC)))
		err = -EROFS;
	if (!err)
		err = txn_may(exec_txn(e), exec_cred(e), e->current.inode,
			      exec_open_mask(flags));
	if (err)
		return err;
	if ((flags & RF_OPEN_TRUNC) && e->cut_inode != e->current.inode)
		return exec_cut(e, &results->attr, exec_op_open);
	return exec_add_open(e, e->current.inode, flags, &results->open,
			     &results->tag);
}

int exec_op_release(struct exec *e)
{
	uint32_t id = e->args.release.open;
	const struct open *open;

	if (id == 0 && e->opened_count > 0)
		id = e->opened[e->opened_count - 1];
	open = open_table_find(&e->session->opens, id);
	if (!open || open->inode != e->current.inode)
		return -EBADF;
	e->released[e->released_count++] = id;
	return 0;
}

/* ---- RECLAIM ------------------------------------------------------------ */

int exec_op_reclaim(struct exec *e)
{
	const struct rf_reclaim_args *args = &e->args.reclaim;
	const struct open_proof proof = {
		.session = e->session->id,
		.inode = args->handle.inode,
		.open = args->open,
		.flags = effective(args->flags),
	};
	int err = exec_check_handle(e, &args->handle);

	if (err)
		return err;
	if (!store_open_tag_is_valid(e->server->store, &proof, args->tag))
		return RF_ST_BAD_HANDLE;
	return session_reclaim(e->session, &proof);
}

/* Takes effect with the answer: it deletes files, and a batch may be open here. */
int exec_op_reclaim_done(struct exec *e)
{
	e->has_reclaimed = true;
	return 0;
}

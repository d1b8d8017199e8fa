/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_attrs.c - attributes, extended attributes, directory listings, STATFS
 *
 * Operation.  Answers that may be large are made in the server's scratch memory
 * and then put inside or staged; if staging has to be waited for, they are made
 * again, so they are never older than their sending.
 */
#include "exec.h"

#include <errno.h>
#include <sys/stat.h>

int exec_op_getattr(struct exec *e)
{
	return exec_stale(txn_getattr(exec_txn(e), e->current.inode,
				      &e->results.getattr.attr));
}

/* What a former request has deleted is free. */
int exec_op_statfs(struct exec *e)
{
	if (!exec_is_dirty(e) && exec_await_room(e))
		return EXEC_WAIT;
	return store_statfs(e->server->store, &e->results.statfs);
}

/* ---- READDIR ------------------------------------------------------------ */

struct listing {
	struct exec *e;
	uint32_t used, room;
	bool wants_attr;
};

static bool put_entry(void *context, const struct rf_dirent *entry)
{
	struct listing *listing = context;
	struct server *server = listing->e->server;
	struct rf_dirent copy = *entry;
	int size;

	if (copy.has_attr)
		copy.handle = store_handle(server->store, copy.inode,
					   listing->e->session->export->tree);
	size = rf_dirent_encode(server->scratch + listing->used,
				listing->room - listing->used, &copy);
	if (size < 0)
		return false;
	listing->used += (uint32_t)size;
	return true;
}

int exec_op_readdir(struct exec *e)
{
	const struct rf_readdir_args *args = &e->args.readdir;
	struct rf_readdir_results *results = &e->results.readdir;
	struct listing listing = {
		.e = e,
		.room = (uint32_t)rf_min_u64(args->size,
					     e->session->limits.block_max),
	};
	uint32_t flags;
	bool eof = false;
	int err;

	/* It lists what is committed.  READ counts: it may have set atime. */
	if (exec_is_dirty(e))
		return -EINVAL;
	err = exec_use_open(e, &e->current, args->open, RF_OPEN_READ, &flags);
	if (!err)
		err = txn_readdir(exec_txn(e), e->current.inode, args->cookie,
				  args->wants_attr, put_entry, &listing, &eof);
	if (err)
		return exec_stale(err);
	/* Not even one fits: the caller would take it for the end. */
	if (listing.used == 0 && !eof)
		return -EINVAL;
	results->eof = eof;
	err = exec_give(e, listing.used, &results->data, &results->grants,
			exec_op_readdir);
	/* Last: it lists only in a clean batch. */
	if (!err && args->cookie == 0)
		exec_note_read(e, flags);
	return err;
}

/* ---- extended attributes ------------------------------------------------ */

int exec_op_getxattr(struct exec *e)
{
	const struct rf_getxattr_args *args = &e->args.getxattr;
	struct rf_getxattr_results *results = &e->results.getxattr;
	size_t size = 0;
	int err = txn_getxattr(exec_txn(e), exec_cred(e), e->current.inode,
			       &args->name, e->server->scratch,
			       RF_XATTR_SIZE_MAX, &size);

	if (err)
		return err;
	results->value_size = (uint32_t)size;
	if (args->size == 0)
		return 0;
	if (size > args->size)
		return -ERANGE;
	return exec_give(e, (uint32_t)size, &results->data, &results->grants,
			 exec_op_getxattr);
}

int exec_op_listxattr(struct exec *e)
{
	const struct rf_listxattr_args *args = &e->args.listxattr;
	struct rf_listxattr_results *results = &e->results.listxattr;
	size_t size = 0;
	int err = txn_listxattr(exec_txn(e), exec_cred(e), e->current.inode,
				e->server->scratch, STAGING_LARGE, &size);

	if (err)
		return exec_stale(err);
	results->value_size = (uint32_t)size;
	if (args->size == 0)
		return 0;
	if (size > args->size)
		return -ERANGE;
	return exec_give(e, (uint32_t)size, &results->data, &results->grants,
			 exec_op_listxattr);
}

/* The slots' bytes, checked and in one piece; they can't change any more. */
static int gather(struct exec *e, const rf_pieces_t *pieces, rf_blob_t *out)
{
	uint32_t used = 0;

	for (unsigned int i = 0; i < pieces->count; i++) {
		const struct rf_piece *piece = &pieces->v[i];
		const void *data = exec_piece_data(e, piece);

		if (!data)
			return RF_ST_BAD_GRANT;
		if (e->session->uses_crc &&
		    rf_crc32c(0, data, piece->size) != piece->crc)
			return RF_ST_BAD_CRC;
		if (piece->size > RF_XATTR_SIZE_MAX - used)
			return -E2BIG;
		memcpy(e->server->scratch + used, data, piece->size);
		used += piece->size;
	}
	*out = (rf_blob_t){ e->server->scratch, used };
	return 0;
}

static int set_value(struct exec *e)
{
	const struct rf_setxattr_args *args = &e->args.setxattr;
	rf_blob_t value = args->data;
	int err = 0;

	if (value.size > e->session->limits.inline_max ||
	    (value.size > 0 && args->pieces.count > 0))
		return -EINVAL;
	if (args->pieces.count > 0)
		err = gather(e, &args->pieces, &value);
	if (err)
		return err;
	return txn_setxattr(exec_txn(e), exec_cred(e), e->current.inode,
			    &args->name, value.bytes, value.size, args->flags);
}

int exec_op_setxattr(struct exec *e)
{
	return exec_hold(e, &e->args.setxattr.pieces, set_value);
}

int exec_op_removexattr(struct exec *e)
{
	uint64_t inode = e->current.inode;
	const rf_xname_t *name = &e->args.removexattr.name;
	int err = txn_removexattr(exec_txn(e), exec_cred(e), inode, name, false);

	/* As SETATTR: the kernel asks for this before a write. */
	if (err == -EPERM &&
	    open_table_has_writer(&e->session->opens, inode))
		err = txn_removexattr(exec_txn(e), exec_cred(e), inode, name,
				      true);
	return err;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_names.c - the current handle, and operations on names in directories
 */
#include "exec.h"

#include <errno.h>
#include <sys/stat.h>

/* ---- handles ------------------------------------------------------------ */

int exec_check_handle(const struct exec *e, const rf_handle_t *handle)
{
	if (handle->tree != e->session->export->tree ||
	    !store_handle_is_valid(e->server->store, handle))
		return RF_ST_BAD_HANDLE;
	return 0;
}

rf_handle_t exec_move_to(struct exec *e, const rf_attr_t *attr)
{
	e->current = store_handle(e->server->store, attr->inode,
				  e->session->export->tree);
	e->has_current = true;
	return e->current;
}

int exec_stale(int err)
{
	return err == -ENOENT ? -ESTALE : err;
}

const struct cred *exec_cred(const struct exec *e)
{
	return session_cred(e->session, e->request->dec.header.identity);
}

const struct cred *exec_changer(const struct exec *e)
{
	static const struct cred nobody = { .uid = UINT32_MAX,
					    .gid = UINT32_MAX };
	const struct cred *cred = exec_cred(e);

	return cred ? cred : &nobody;
}

const struct cred *exec_killer(const struct exec *e)
{
	const struct cred *cred = exec_changer(e);

	return cred->is_super ? NULL : cred;
}

int exec_op_nop(struct exec *e)
{
	(void)e;
	return 0;
}

int exec_op_use(struct exec *e)
{
	int err = exec_check_handle(e, &e->args.use.handle);
	rf_attr_t attr;

	if (!err)
		err = exec_stale(txn_getattr(exec_txn(e),
					     e->args.use.handle.inode, &attr));
	if (err)
		return err;
	e->current = e->args.use.handle;
	e->has_current = true;
	return 0;
}

int exec_op_lookup(struct exec *e)
{
	struct rf_lookup_results *results = &e->results.lookup;
	int err = txn_lookup(exec_txn(e), exec_cred(e), e->current.inode,
			     &e->args.lookup.name, &results->attr);

	if (!err && results->attr.tree != e->session->export->tree)
		err = -EXDEV;
	if (!err)
		results->handle = exec_move_to(e, &results->attr);
	return err;
}

/* ---- making ------------------------------------------------------------- */

static int make(struct exec *e, const struct make_args *args, rf_attr_t *attr,
		rf_handle_t *handle)
{
	int err = txn_make(exec_txn(e), exec_cred(e), args, attr);

	if (!err)
		*handle = exec_move_to(e, attr);
	return err;
}

int exec_op_mkdir(struct exec *e)
{
	const struct rf_mkdir_args *args = &e->args.mkdir;
	const struct make_args make_args = {
		.dir = e->current.inode,
		.name = args->name,
		.mode = S_IFDIR | (args->mode & 07777),
		.umask = args->umask,
	};

	return make(e, &make_args, &e->results.mkdir.attr,
		    &e->results.mkdir.handle);
}

int exec_op_mknod(struct exec *e)
{
	const struct rf_mknod_args *args = &e->args.mknod;
	const struct make_args make_args = {
		.dir = e->current.inode,
		.name = args->name,
		.mode = args->mode & (S_IFMT | 07777),
		.umask = args->umask,
		.rdev = args->rdev,
	};

	switch (args->mode & S_IFMT) {
	case S_IFREG:
	case S_IFIFO:
	case S_IFSOCK:
	case S_IFCHR:
	case S_IFBLK:
		break;
	default:
		return -EINVAL;
	}
	return make(e, &make_args, &e->results.mknod.attr,
		    &e->results.mknod.handle);
}

int exec_op_symlink(struct exec *e)
{
	const struct rf_symlink_args *args = &e->args.symlink;
	const struct make_args make_args = {
		.dir = e->current.inode,
		.name = args->name,
		.mode = S_IFLNK | 0777,
		.target = args->target,
	};

	return make(e, &make_args, &e->results.symlink.attr,
		    &e->results.symlink.handle);
}

int exec_op_readlink(struct exec *e)
{
	size_t size;
	int err = txn_readlink(exec_txn(e), e->current.inode,
			       e->server->scratch, RF_TARGET_MAX, &size);

	if (err)
		return exec_stale(err);
	if (size + EXEC_RESULT_ROOM / 8 >
	    e->request->enc.size - e->request->enc.used)
		return RF_ST_TOO_BIG;
	e->results.readlink.target = (rf_blob_t){ e->server->scratch,
						  (uint32_t)size };
	return 0;
}

/* ---- CREATE ------------------------------------------------------------- */

static int create_new(struct exec *e)
{
	const struct rf_create_args *args = &e->args.create;
	struct rf_create_results *results = &e->results.create;
	const struct make_args make_args = {
		.dir = e->current.inode,
		.name = args->name,
		.mode = S_IFREG | (args->mode & 07777),
		.umask = args->umask,
		.has_no_name = args->flags & RF_OPEN_NO_NAME,
		.is_linkable = !(args->flags & RF_OPEN_EXCL),
	};
	int err;

	if (exec_is_read_only(e))
		return -EROFS;
	err = make(e, &make_args, &results->attr, &results->handle);
	if (err)
		return err;
	results->was_created = 1;
	/* Whoever makes a file may use it as asked, whatever its mode. */
	return exec_add_open(e, results->attr.inode, args->flags,
			     &results->open, &results->tag);
}

static int open_existing(struct exec *e)
{
	const struct rf_create_args *args = &e->args.create;
	struct rf_create_results *results = &e->results.create;
	unsigned int mask = exec_open_mask(args->flags);
	int err;

	if (S_ISDIR(results->attr.mode))
		return -EISDIR;
	if (S_ISLNK(results->attr.mode))
		return -ELOOP;
	if (!S_ISREG(results->attr.mode))
		return -ENXIO;
	if ((mask & MAY_WRITE) && exec_is_read_only(e))
		return -EROFS;
	err = txn_may(exec_txn(e), exec_cred(e), results->attr.inode, mask);
	if (err)
		return err;
	if ((args->flags & RF_OPEN_TRUNC) &&
	    e->cut_inode != results->attr.inode)
		return exec_cut(e, &results->attr, exec_op_create);
	results->handle = exec_move_to(e, &results->attr);
	return exec_add_open(e, results->attr.inode, args->flags,
			     &results->open, &results->tag);
}

int exec_op_create(struct exec *e)
{
	const struct rf_create_args *args = &e->args.create;
	struct rf_create_results *results = &e->results.create;
	int err;

	/* Before anything is made or cut. */
	if (open_table_is_full(&e->session->opens))
		return -ENFILE;
	if (args->flags & RF_OPEN_NO_NAME)
		return create_new(e);
	err = txn_lookup(exec_txn(e), exec_cred(e), e->current.inode,
			 &args->name, &results->attr);
	if (err == -ENOENT)
		return create_new(e);
	if (err)
		return err;
	if (args->flags & RF_OPEN_EXCL)
		return -EEXIST;
	return open_existing(e);
}

/* ---- linking, removing -------------------------------------------------- */

int exec_op_link(struct exec *e)
{
	const struct rf_link_args *args = &e->args.link;
	int err = exec_check_handle(e, &args->dir);

	if (err)
		return err;
	return txn_link(exec_txn(e), exec_cred(e), e->current.inode,
			args->dir.inode, &args->name, &e->results.link.attr);
}

int exec_op_unlink(struct exec *e)
{
	return txn_unlink(exec_txn(e), exec_cred(e), e->current.inode,
			  &e->args.unlink.name, NULL);
}

int exec_op_rmdir(struct exec *e)
{
	return txn_rmdir(exec_txn(e), exec_cred(e), e->current.inode,
			 &e->args.rmdir.name);
}

/*
 * Will the rename replace a file by another whose data may not be on the disk?
 * Then after power loss the old and the new data could both be gone.
 */
static bool must_flush(struct exec *e, uint64_t *moved)
{
	const struct rf_rename_args *args = &e->args.rename;

	if (args->flags & (RF_RENAME_NOREPLACE | RF_RENAME_EXCHANGE))
		return false;
	return txn_rename_needs_flush(exec_txn(e), e->current.inode,
				      &args->name, args->new_dir.inode,
				      &args->new_name, moved);
}

static const struct exec_flushed *find_flushed(const struct exec *e,
					       uint64_t inode)
{
	for (unsigned int i = 0; i < e->flushed_count; i++)
		if (e->flushed[i].inode == inode)
			return &e->flushed[i];
	return NULL;
}

static int flush(struct exec *e, uint64_t inode)
{
	struct object *object;
	int err;

	/* More than there are renames: again and again others have the names. */
	if (e->flushed_count == RF_ARRAY_SIZE(e->flushed))
		return -EBUSY;
	err = object_get(e->server->store, inode, &object);
	if (err)
		return err;
	e->flushed[e->flushed_count++] = (struct exec_flushed){ inode, 0 };
	e->flushes = true;
	return exec_sync(e, object, true, exec_op_rename);
}

int exec_op_rename(struct exec *e)
{
	const struct rf_rename_args *args = &e->args.rename;
	const struct exec_flushed *flushed;
	uint64_t moved;
	int err = exec_check_handle(e, &args->new_dir);

	if (err)
		return err;
	if (must_flush(e, &moved)) {
		flushed = find_flushed(e, moved);
		if (!flushed)
			return flush(e, moved);
		/* It may have been written since; but not if it could not be
		 * synced. */
		if (flushed->err)
			return flushed->err;
	}
	return txn_rename(exec_txn(e), exec_cred(e), e->current.inode,
			  &args->name, args->new_dir.inode, &args->new_name,
			  args->flags);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops_names.c - names: lookup, making, linking, renaming and removing them
 *
 * Operation.  An answer with a child's handle and attributes becomes an entry,
 * after pages of the child that it shows to be old were dropped.  Nothing about
 * names is kept: entries have no time-out, and names that are not there are not
 * remembered.
 */
#include "fs.h"

#include <errno.h>
#include <linux/fs.h>
#include <sys/sysmacros.h>

/* ---- answers -------------------------------------------------------------- */

static void reply_child(struct request *r, const rf_handle_t *handle,
			const rf_attr_t *attr)
{
	if (!r->other)
		r->other = inodes_get(&r->fs->inodes, handle, attr);
	if (!r->other) {
		request_fail(r, -ENOMEM);
		return;
	}
	cache_reveal(r, r->other, fuse_io_reply_entry);
}

#define ANSWERED_CHILD(NAME, lower) \
static void lower##_answered(struct request *r, struct rf_dec *reply) \
{ \
	struct rf_results results; \
	int err = request_results(r, reply, RF_OP_##NAME, &results); \
\
	if (err) \
		request_fail(r, err); \
	else \
		reply_child(r, &results.lower.handle, &results.lower.attr); \
}

ANSWERED_CHILD(LOOKUP, lookup)
ANSWERED_CHILD(MKDIR, mkdir)
ANSWERED_CHILD(MKNOD, mknod)
ANSWERED_CHILD(SYMLINK, symlink)

#define ANSWERED_STATUS(NAME, lower) \
static void lower##_answered(struct request *r, struct rf_dec *reply) \
{ \
	request_answered_status(r, reply, RF_OP_##NAME); \
}

ANSWERED_STATUS(UNLINK, unlink)
ANSWERED_STATUS(RMDIR, rmdir)
ANSWERED_STATUS(RENAME, rename)

static void link_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;
	int err = request_results(r, reply, RF_OP_LINK, &results);

	if (err) {
		request_fail(r, err);
		return;
	}
	inode_see(r->other, &results.link.attr);
	cache_reveal(r, r->other, fuse_io_reply_entry);
}

/* ---- handlers ------------------------------------------------------------- */

/* Take the request and its name.  NULL: it was replied to. */
static struct request *take(fuse_req_t fuse, fuse_ino_t nodeid,
			    const char *name, rf_name_t *out)
{
	struct request *r = request_take(fuse, nodeid);
	int err = r ? request_name(name, out) : 0;

	if (err) {
		request_fail(r, err);
		return NULL;
	}
	return r;
}

static void do_lookup(fuse_req_t fuse, fuse_ino_t parent, const char *name)
{
	struct rf_args args = { .code = RF_OP_LOOKUP };
	struct request *r = take(fuse, parent, name, &args.lookup.name);

	if (r)
		request_call(r, &args, lookup_answered);
}

static void do_mknod(fuse_req_t fuse, fuse_ino_t parent, const char *name,
		     mode_t mode, dev_t rdev)
{
	struct rf_args args = { .code = RF_OP_MKNOD };
	struct request *r = take(fuse, parent, name, &args.mknod.name);

	if (!r)
		return;
	args.mknod.mode = mode;
	args.mknod.umask = r->who.umask;
	args.mknod.rdev = (uint64_t)major(rdev) << 32 | minor(rdev);
	request_call(r, &args, mknod_answered);
}

static void do_mkdir(fuse_req_t fuse, fuse_ino_t parent, const char *name,
		     mode_t mode)
{
	struct rf_args args = { .code = RF_OP_MKDIR };
	struct request *r = take(fuse, parent, name, &args.mkdir.name);

	if (!r)
		return;
	args.mkdir.mode = mode;
	args.mkdir.umask = r->who.umask;
	request_call(r, &args, mkdir_answered);
}

static void do_symlink(fuse_req_t fuse, const char *target, fuse_ino_t parent,
		       const char *name)
{
	struct rf_args args = { .code = RF_OP_SYMLINK };
	struct request *r = take(fuse, parent, name, &args.symlink.name);
	size_t size = strlen(target);

	if (!r)
		return;
	if (size == 0 || size > RF_TARGET_MAX) {
		request_fail(r, size ? -ENAMETOOLONG : -ENOENT);
		return;
	}
	args.symlink.target.bytes = target;
	args.symlink.target.size = (uint32_t)size;
	request_call(r, &args, symlink_answered);
}

static void do_unlink(fuse_req_t fuse, fuse_ino_t parent, const char *name)
{
	struct rf_args args = { .code = RF_OP_UNLINK };
	struct request *r = take(fuse, parent, name, &args.unlink.name);

	if (r)
		request_call(r, &args, unlink_answered);
}

static void do_rmdir(fuse_req_t fuse, fuse_ino_t parent, const char *name)
{
	struct rf_args args = { .code = RF_OP_RMDIR };
	struct request *r = take(fuse, parent, name, &args.rmdir.name);

	if (r)
		request_call(r, &args, rmdir_answered);
}

/* 0, or -EINVAL for flags that we don't know. */
static int rename_flags(unsigned int flags, uint32_t *out)
{
	*out = (flags & RENAME_NOREPLACE ? RF_RENAME_NOREPLACE : 0) |
	       (flags & RENAME_EXCHANGE ? RF_RENAME_EXCHANGE : 0) |
	       (flags & RENAME_WHITEOUT ? RF_RENAME_WHITEOUT : 0);
	return flags & ~(unsigned int)(RENAME_NOREPLACE | RENAME_EXCHANGE |
				       RENAME_WHITEOUT) ? -EINVAL : 0;
}

static void do_rename(fuse_req_t fuse, fuse_ino_t parent, const char *name,
		      fuse_ino_t new_parent, const char *new_name,
		      unsigned int flags)
{
	struct rf_args args = { .code = RF_OP_RENAME };
	struct request *r = take(fuse, parent, name, &args.rename.name);
	int err;

	if (!r)
		return;
	err = rename_flags(flags, &args.rename.flags);
	if (!err)
		err = request_name(new_name, &args.rename.new_name);
	r->other = inodes_find(&r->fs->inodes, new_parent);
	if (!err && !r->other)
		err = -ESTALE;
	if (err) {
		request_fail(r, err);
		return;
	}
	args.rename.new_dir = r->other->handle;
	request_call(r, &args, rename_answered);
}

static void do_link(fuse_req_t fuse, fuse_ino_t nodeid, fuse_ino_t new_parent,
		    const char *new_name)
{
	struct rf_args args = { .code = RF_OP_LINK };
	struct request *r = take(fuse, new_parent, new_name, &args.link.name);

	if (!r)
		return;
	r->other = inodes_find(&r->fs->inodes, nodeid);
	if (!r->other) {
		request_fail(r, -ESTALE);
		return;
	}
	args.link.dir = r->inode->handle;
	/* The current handle is the inode's, not the directory's. */
	if (!request_begin(r))
		return;
	request_use(r, r->other);
	request_put(r, &args);
	request_send(r, link_answered);
}

static void readlink_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;
	int err = request_results(r, reply, RF_OP_READLINK, &results);

	if (err) {
		request_fail(r, err);
		return;
	}
	request_reply_data(r, results.readlink.target.bytes,
			   results.readlink.target.size);
	request_end(r);
}

static void do_readlink(fuse_req_t fuse, fuse_ino_t nodeid)
{
	struct rf_args args = { .code = RF_OP_READLINK };
	struct request *r = request_take(fuse, nodeid);

	if (r)
		request_call(r, &args, readlink_answered);
}

void ops_names_fill(struct fuse_lowlevel_ops *ops)
{
	ops->lookup = do_lookup;
	ops->mknod = do_mknod;
	ops->mkdir = do_mkdir;
	ops->symlink = do_symlink;
	ops->unlink = do_unlink;
	ops->rmdir = do_rmdir;
	ops->rename = do_rename;
	ops->link = do_link;
	ops->readlink = do_readlink;
}

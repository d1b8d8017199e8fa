/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops_file.c - open, create and release, of files and directories
 *
 * Operation.  The server counts opens, and rights are checked there once.  A
 * file that is opened with O_DIRECT, O_APPEND or O_WRONLY goes past the page
 * cache: the first asks for it, where an append goes only the server knows, and
 * pages of a writer are of no use: each write is sent at once and its file's
 * pages are dropped after it, so to fill them would be one copy more.  Pages of
 * other files stay over an open if they are exact; else the kernel drops them
 * as it opens, and the answer need not wait for an invalidation.  Closing
 * sends nothing that anybody waits for, but for locks (ops_lock.c): every write
 * was answered already, and RELEASE is replied to at once.
 *
 * When it fails.  RELEASE while the server is away: the file stands in a list
 * until it is back, or has forgotten it.
 */
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

/* The kernel's mark of an open for execution, in flags of OPEN. */
#define OPEN_FOR_EXEC 0x20

static uint32_t open_flags(int flags)
{
	int access = flags & O_ACCMODE;
	uint32_t out = 0;

	if (flags & OPEN_FOR_EXEC)
		out |= RF_OPEN_EXEC;
	else if (access != O_WRONLY)
		out |= RF_OPEN_READ;
	if (access != O_RDONLY)
		out |= RF_OPEN_WRITE;
	out |= flags & O_TRUNC ? RF_OPEN_TRUNC : 0;
	out |= flags & O_EXCL ? RF_OPEN_EXCL : 0;
	out |= flags & O_APPEND ? RF_OPEN_APPEND : 0;
	out |= flags & O_NOATIME ? RF_OPEN_NOATIME : 0;
	if ((flags & O_SYNC) == O_SYNC)
		out |= RF_OPEN_SYNC;
	else if (flags & O_DSYNC)
		out |= RF_OPEN_DSYNC;
	return out;
}

/* Enter the open; on failure r has ended. */
static bool add_file(struct request *r, struct inode *inode, uint32_t open,
		     uint64_t tag)
{
	int flags = (int)r->open.flags;

	r->file = files_add(&r->fs->files, inode, open);
	if (!r->file) {
		request_reply_err(r, -ENFILE);
		request_release_open(r, inode, open);
		return false;
	}
	r->file->tag = tag;
	r->file->wire_flags = r->open.wire_flags;
	r->file->generation = r->fs->generation;
	r->file->is_append = (flags & O_APPEND) != 0;
	r->file->is_parallel = (flags & (O_APPEND | O_DIRECT)) != 0 &&
			       S_ISREG(inode->attr.mode);
	/* strictatime: the server must hear of each read. */
	r->file->is_direct = r->file->is_parallel ||
			     (((flags & O_ACCMODE) == O_WRONLY ||
			       r->fs->options.is_strict_atime) &&
			      S_ISREG(inode->attr.mode));
	once_opened(r, r->file);
	return true;
}

/* ---- open ----------------------------------------------------------------- */

static void open_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;
	int err = request_results(r, reply, RF_OP_OPEN, &results);

	if (err) {
		request_fail(r, err);
		return;
	}
	inode_see(r->inode, &results.open.attr);
	if (add_file(r, r->inode, results.open.open, results.open.tag))
		fuse_io_reply_open(r);
}

/* What the mount was told about atime; it moves none if it changes nothing. */
static uint32_t mount_flags(const struct fs *fs)
{
	if (fs->options.is_read_only)
		return RF_OPEN_NOATIME;
	if (fs->options.is_strict_atime)
		return RF_OPEN_STRICTATIME;
	return fs->options.no_atime ? RF_OPEN_NOATIME : 0;
}

static void fill_open(struct request *r, int flags, uint32_t wire_flags,
		     struct rf_args *args)
{
	args->code = RF_OP_OPEN;
	wire_flags |= mount_flags(r->fs);
	r->open.flags = (uint32_t)flags;
	r->open.wire_flags = args->open.flags = wire_flags;
	r->is_opening = true;
}

/*
 * The root, which df opens to look at: ops_dir.c opens it at the server if it
 * is read.
 */
static void open_later(struct request *r)
{
	struct fs *fs = r->fs;
	struct file *file = files_add(&fs->files, r->inode, 0);

	if (!file) {
		request_reply_err(r, -ENFILE);
		return;
	}
	file->generation = fs->generation;
	once_opened(r, file);
	if (!fuse_io_give_open(r, file))
		files_remove(&fs->files, &fs->inodes, file);
}

static void do_open(fuse_req_t fuse, fuse_ino_t nodeid,
		    struct fuse_file_info *fi)
{
	struct request *r = request_take(fuse, nodeid);
	struct rf_args args;

	if (!r)
		return;
	/* The kernel has dealt with O_EXCL. */
	fill_open(r, fi->flags, open_flags(fi->flags & ~O_EXCL), &args);
	request_call(r, &args, open_answered);
}

static void do_opendir(fuse_req_t fuse, fuse_ino_t nodeid,
		       struct fuse_file_info *fi)
{
	struct request *r = request_take(fuse, nodeid);
	uint32_t flags = RF_OPEN_READ | RF_OPEN_DIR;
	struct rf_args args;

	if (!r)
		return;
	if (fi->flags & O_NOATIME || r->fs->options.no_diratime)
		flags |= RF_OPEN_NOATIME;
	fill_open(r, O_RDONLY, flags, &args);
	if (r->inode == r->fs->inodes.root)
		patience_call(r, &args, open_answered, open_later);
	else
		request_call(r, &args, open_answered);
}

/* ---- create --------------------------------------------------------------- */

static void create_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;
	int err = request_results(r, reply, RF_OP_CREATE, &results);

	if (err) {
		request_fail(r, err);
		return;
	}
	r->other = inodes_get(&r->fs->inodes, &results.create.handle,
			      &results.create.attr);
	if (!r->other) {
		request_reply_err(r, -ENOMEM);
		request_release_unknown(r, &results.create.handle,
					results.create.open);
		return;
	}
	if (add_file(r, r->other, results.create.open, results.create.tag))
		fuse_io_reply_create(r);
}

static void do_create(fuse_req_t fuse, fuse_ino_t parent, const char *name,
		      mode_t mode, struct fuse_file_info *fi)
{
	struct rf_args args = { .code = RF_OP_CREATE };
	struct request *r = request_take(fuse, parent);
	bool is_nameless;
	int err;

	if (!r)
		return;
	is_nameless = strcmp(name, FUSE_IO_NO_NAME) == 0;
	err = request_name(is_nameless ? "O_TMPFILE" : name, &args.create.name);
	if (err) {
		request_fail(r, err);
		return;
	}
	r->open.flags = (uint32_t)fi->flags;
	args.create.mode = mode;
	args.create.umask = r->who.umask;
	args.create.flags = open_flags(fi->flags) | mount_flags(r->fs) |
			    (is_nameless ? RF_OPEN_NO_NAME : 0);
	r->open.wire_flags = args.create.flags;
	r->is_opening = true;
	request_call(r, &args, create_answered);
}

/* ---- release -------------------------------------------------------------- */

/* r is used up. */
static void release(struct request *r, struct file *file)
{
	struct fs *fs = r->fs;
	uint32_t open = file->open;
	bool is_open = file_has_open(fs, file);
	struct inode *inode = file->inode;

	if (!r->inode) {
		r->inode = inode;
		inode->refs++;
	}
	if (inode->file_count == 1)
		held_forget(&fs->held, inode);
	/* First noted as to be released, then no file of ours any more. */
	if (is_open)
		request_release_open(r, inode, open);
	else
		request_end(r);
	files_remove(&fs->files, &fs->inodes, file);
}

/* Requests are few, and one for each file would wait until we are back. */
static void release_later(struct request *r, struct file *file)
{
	rf_list_push(&r->fs->releases, &file->release_link);
	request_end(r);
}

void releases_pump(struct fs *fs)
{
	while (!fs->is_away && !rf_list_is_empty(&fs->releases)) {
		struct file *file = rf_container_of(fs->releases.next,
						    struct file, release_link);
		struct request *r = request_spare(fs);

		if (!r)
			return;		/* the next answer to one comes here */
		rf_list_remove(&file->release_link);
		release(r, file);
	}
}

static void do_release(fuse_req_t fuse, fuse_ino_t nodeid,
		       struct fuse_file_info *fi)
{
	struct request *r = request_take(fuse, nodeid);
	struct file *file;

	if (!r)
		return;
	file = files_find(&r->fs->files, fi->fh);
	if (!file) {
		request_fail(r, -EBADF);
		return;
	}
	/* A daemon that died has noted it, and so it stands in the list. */
	if (file->is_released) {
		request_reply_err(r, 0);
		request_end(r);
		return;
	}
	held_release(&r->fs->held, r->inode, fi->fh);
	/* The kernel will not say it again. */
	file->is_released = true;
	files_keep(&r->fs->files, file);
	request_reply_err(r, 0);
	if (r->fs->is_away && file_has_open(r->fs, file))
		release_later(r, file);
	else
		release(r, file);
}

void ops_file_fill(struct fuse_lowlevel_ops *ops)
{
	ops->open = do_open;
	ops->opendir = do_opendir;
	ops->create = do_create;
	ops->release = do_release;
	ops->releasedir = do_release;
}

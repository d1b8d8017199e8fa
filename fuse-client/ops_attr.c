/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops_attr.c - attributes and what else is about a whole inode: getattr,
 * setattr, statfs, fsync, fallocate, lseek, copy_file_range
 *
 * Operation.  Answers of our own changes carry the counter before and after, so
 * that the pages which the kernel holds go along.  A truncation's answer never
 * waits for an invalidation: the kernel holds back the write-back of mapped
 * pages meanwhile, which the invalidation would wait for.
 */
#include "fs.h"

#include <errno.h>
#include <linux/falloc.h>
#include <linux/fuse.h>
#include <sys/stat.h>
#include <unistd.h>

/* One COPY; longer ones come as several, so that an answer is never late. */
#define COPY_MAX (UINT64_C(64) << 20)

/* ---- getattr, setattr ----------------------------------------------------- */

static void getattr_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;
	int err = request_results(r, reply, RF_OP_GETATTR, &results);
	request_fn answer = r->getattr.is_statx ? fuse_io_reply_statx :
						  fuse_io_reply_attr;

	if (err == -ESTALE) {
		/* Removed, but held by O_PATH or as somebody's directory. */
		r->inode->attr.nlink = 0;
		answer(r);
		return;
	}
	if (err) {
		request_fail(r, err);
		return;
	}
	if (results.getattr.attr.change < r->inode->attr.change)
		r->fs->stats.stale_attrs++;
	inode_see(r->inode, &results.getattr.attr);
	cache_reveal(r, r->inode, answer);
}

static void give_old_attr(struct request *r)
{
	if (r->getattr.is_statx)
		fuse_io_give_statx(r);
	else
		fuse_io_give_attr(r);
}

static void do_getattr(fuse_req_t fuse, fuse_ino_t nodeid,
		       struct fuse_file_info *fi)
{
	struct rf_args args = { .code = RF_OP_GETATTR };
	struct request *r = request_take(fuse, nodeid);
	struct file *file;

	if (!r)
		return;
	file = fi ? files_find(&r->fs->files, fi->fh) : NULL;
	/* It asks before it reads cached pages: there is nothing to read. */
	if (file && file_is_dead(r->fs, file)) {
		request_fail(r, -EIO);
		return;
	}
	r->getattr.is_statx = r->fs->is_statx;
	/* stat() asks without a file, also fstat(). */
	r->reads_next = fi != NULL;
	if (r->inode == r->fs->inodes.root)
		patience_call(r, &args, getattr_answered, give_old_attr);
	else
		request_call(r, &args, getattr_answered);
}

static void setattr_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;
	int err = request_results(r, reply, RF_OP_SETATTR, &results);

	if (err) {
		request_fail(r, err);
		return;
	}
	cache_change_end(r, results.setattr.change_before, &results.setattr.attr);
	fuse_io_reply_set(r);
}

static uint32_t set_bits(uint32_t valid)
{
	static const struct {
		uint32_t fuse, set;
	} bits[] = {
		{ FATTR_MODE, RF_SET_MODE },
		/* chown drops set-id bits; the kernel leaves that to us. */
		{ FATTR_UID, RF_SET_UID | RF_SET_KILL_PRIV },
		{ FATTR_GID, RF_SET_GID | RF_SET_KILL_PRIV },
		{ FATTR_SIZE, RF_SET_SIZE },
		{ FATTR_ATIME_NOW, RF_SET_ATIME_NOW },
		{ FATTR_MTIME_NOW, RF_SET_MTIME_NOW },
		{ FATTR_KILL_SUIDGID, RF_SET_KILL_PRIV },
	};
	uint32_t set = 0;

	for (size_t i = 0; i < RF_ARRAY_SIZE(bits); i++)
		if (valid & bits[i].fuse)
			set |= bits[i].set;
	/*
	 * Nothing at all is chown(2) with -1, -1, or what comes before a change
	 * of data: the kernel has taken out of it what was to be done.
	 */
	if (!(valid & ~(uint32_t)(FATTR_FH | FATTR_LOCKOWNER | FATTR_CTIME)))
		set |= RF_SET_KILL_PRIV;
	if (valid & FATTR_ATIME && !(valid & FATTR_ATIME_NOW))
		set |= RF_SET_ATIME;
	if (valid & FATTR_MTIME && !(valid & FATTR_MTIME_NOW))
		set |= RF_SET_MTIME;
	return set;
}

static void fill_setattr(const struct stat *attr,
			 struct rf_setattr_args *args)
{
	args->mode = attr->st_mode;
	args->uid = attr->st_uid;
	args->gid = attr->st_gid;
	args->size = (uint64_t)attr->st_size;
	args->atime.seconds = attr->st_atim.tv_sec;
	args->atime.nanoseconds = (uint32_t)attr->st_atim.tv_nsec;
	args->mtime.seconds = attr->st_mtim.tv_sec;
	args->mtime.nanoseconds = (uint32_t)attr->st_mtim.tv_nsec;
}

static void do_setattr(fuse_req_t fuse, fuse_ino_t nodeid, struct stat *attr,
		       int to_set, struct fuse_file_info *fi)
{
	struct rf_args args = { .code = RF_OP_SETATTR };
	struct request *r = request_take(fuse, nodeid);
	const struct fuse_setattr_in *raw;
	struct file *file;

	(void)to_set;
	if (!r)
		return;
	raw = fuse_io_raw(r->fs);
	args.setattr.valid = set_bits(raw->valid);
	fill_setattr(attr, &args.setattr);
	file = fi ? files_find(&r->fs->files, fi->fh) : NULL;
	if (file && file_is_dead(r->fs, file)) {
		request_fail(r, -EIO);
		return;
	}
	r->uses_open = file != NULL;
	if (file)
		args.setattr.open = file->open;
	cache_change_begin(r, false);
	request_call(r, &args, setattr_answered);
}

/* ---- statfs, fsync -------------------------------------------------------- */

static void reply_statfs(struct request *r)
{
	const struct rf_statfs_results *in = &r->fs->keep->statfs;
	struct statvfs out = { 0 };
	fuse_req_t fuse = request_fuse(r);

	out.f_bsize = out.f_frsize = in->block_size;
	out.f_blocks = in->blocks;
	out.f_bfree = in->free;
	out.f_bavail = in->available;
	out.f_files = in->files;
	out.f_ffree = out.f_favail = in->files_free;
	out.f_namemax = in->name_max;
	if (fuse)
		fuse_reply_statfs(fuse, &out);
}

/* What we were told last. */
static void reply_old_statfs(struct request *r)
{
	if (r->fs->keep->has_statfs)
		reply_statfs(r);
	else
		request_reply_err(r, -ETIMEDOUT);
}

static void statfs_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;
	int err = request_results(r, reply, RF_OP_STATFS, &results);

	if (err) {
		request_fail(r, err);
		return;
	}
	r->fs->keep->statfs = results.statfs;
	rf_store_kept(&r->fs->keep->has_statfs, 1);
	reply_statfs(r);
	request_end(r);
}

static void do_statfs(fuse_req_t fuse, fuse_ino_t nodeid)
{
	struct rf_args args = { .code = RF_OP_STATFS };
	struct request *r = request_take(fuse, nodeid ? nodeid : FUSE_ROOT_ID);

	if (r)
		patience_call(r, &args, statfs_answered, reply_old_statfs);
}

static void fsync_answered(struct request *r, struct rf_dec *reply)
{
	request_answered_status(r, reply, RF_OP_FSYNC);
}

static void send_fsync(struct request *r)
{
	struct rf_args args = { .code = RF_OP_FSYNC };

	args.fsync.open = r->file->open;
	args.fsync.is_data_only = r->sync.is_data_only;
	request_call(r, &args, fsync_answered);
}

/* Files and directories. */
static void do_fsync(fuse_req_t fuse, fuse_ino_t nodeid, int is_data_only,
		     struct fuse_file_info *fi)
{
	struct request *r = request_take_file(fuse, nodeid, fi);

	if (!r)
		return;
	r->sync.is_data_only = is_data_only != 0;
	if (r->file->open)
		send_fsync(r);
	else
		dir_open_first(r, send_fsync);
}

/* ---- fallocate, lseek, copy_file_range ------------------------------------ */

static void fallocate_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;
	int err = request_results(r, reply, RF_OP_FALLOCATE, &results);

	if (!err) {
		cache_change_end(r, results.fallocate.change_before,
				 &results.fallocate.attr);
		cache_give_end(r, r->end);
	}
	request_fail(r, err);
}

/* -1: a mode that we don't know. */
static int falloc_mode(int mode)
{
	int known = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE |
		    FALLOC_FL_ZERO_RANGE;

	if (mode & ~known)
		return -1;
	return (mode & FALLOC_FL_KEEP_SIZE ? RF_FALLOC_KEEP_SIZE : 0) |
	       (mode & FALLOC_FL_PUNCH_HOLE ? RF_FALLOC_PUNCH : 0) |
	       (mode & FALLOC_FL_ZERO_RANGE ? RF_FALLOC_ZERO : 0);
}

static void do_fallocate(fuse_req_t fuse, fuse_ino_t nodeid, int mode,
			 off_t offset, off_t size, struct fuse_file_info *fi)
{
	struct rf_args args = { .code = RF_OP_FALLOCATE };
	struct request *r = request_take_file(fuse, nodeid, fi);
	int wire_mode = falloc_mode(mode);

	if (!r)
		return;
	if (wire_mode < 0) {
		request_fail(r, -EOPNOTSUPP);
		return;
	}
	args.fallocate.open = r->file->open;
	args.fallocate.mode = (uint32_t)wire_mode;
	args.fallocate.offset = (uint64_t)offset;
	args.fallocate.size = (uint64_t)size;
	r->end = mode & FALLOC_FL_KEEP_SIZE ? 0 : (uint64_t)(offset + size);
	cache_change_begin(r, false);
	request_call(r, &args, fallocate_answered);
}

static void lseek_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;
	struct fuse_lseek_out out;
	int err = request_results(r, reply, RF_OP_LSEEK, &results);

	if (err) {
		request_fail(r, err);
		return;
	}
	out.offset = results.lseek.offset;
	request_reply_data(r, &out, sizeof(out));
	request_end(r);
}

static void do_lseek(fuse_req_t fuse, fuse_ino_t nodeid, off_t offset,
		     int whence, struct fuse_file_info *fi)
{
	struct rf_args args = { .code = RF_OP_LSEEK };
	struct request *r = request_take_file(fuse, nodeid, fi);

	if (!r)
		return;
	if (offset < 0 || (whence != SEEK_DATA && whence != SEEK_HOLE)) {
		request_fail(r, offset < 0 ? -ENXIO : -EINVAL);
		return;
	}
	args.lseek.open = r->file->open;
	args.lseek.offset = (uint64_t)offset;
	args.lseek.whence = whence == SEEK_HOLE;
	request_call(r, &args, lseek_answered);
}

static void copy_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;
	struct fuse_write_out out = { 0 };
	int err = request_results(r, reply, RF_OP_COPY, &results);

	if (err) {
		request_fail(r, err);
		return;
	}
	cache_change_end(r, results.copy.change_before, &results.copy.attr);
	cache_give_end(r, r->end + results.copy.size);
	out.size = (uint32_t)results.copy.size;	/* at most COPY_MAX */
	request_reply_data(r, &out, sizeof(out));
	request_end(r);
}

static void do_copy(fuse_req_t fuse, fuse_ino_t source, off_t source_offset,
		    struct fuse_file_info *source_fi, fuse_ino_t nodeid,
		    off_t offset, struct fuse_file_info *fi, size_t size,
		    int flags)
{
	struct rf_args args = { .code = RF_OP_COPY };
	struct request *r = request_take_file(fuse, nodeid, fi);
	struct file *from;

	(void)flags;
	if (!r)
		return;
	r->other = inodes_find(&r->fs->inodes, source);
	from = files_find(&r->fs->files, source_fi->fh);
	if (!r->other || !from) {
		request_fail(r, r->other ? -EBADF : -ESTALE);
		return;
	}
	if (file_is_dead(r->fs, from)) {
		request_fail(r, -EIO);
		return;
	}
	args.copy.open = r->file->open;
	args.copy.offset = (uint64_t)offset;
	r->end = (uint64_t)offset;
	args.copy.source = r->other->handle;
	args.copy.source_open = from->open;
	args.copy.source_offset = (uint64_t)source_offset;
	args.copy.size = rf_min_u64(size, COPY_MAX);
	cache_change_begin(r, false);
	request_call(r, &args, copy_answered);
}

void ops_attr_fill(struct fuse_lowlevel_ops *ops)
{
	ops->getattr = do_getattr;
	ops->setattr = do_setattr;
	ops->statfs = do_statfs;
	ops->fsync = do_fsync;
	ops->fsyncdir = do_fsync;
	ops->fallocate = do_fallocate;
	ops->lseek = do_lseek;
	ops->copy_file_range = do_copy;
}

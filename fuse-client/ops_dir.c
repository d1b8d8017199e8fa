/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops_dir.c - readdir and readdirplus
 *
 * Operation.  The server's cookies are the kernel's offsets.  Entries come
 * inside the answer or are pulled into the second half of the request's buffer,
 * and are written as the kernel wants them into the first half; what does not
 * fit there is asked for again by its cookie.  Each entry with attributes is a
 * lookup, but for "." and "..".
 *
 * When it fails.  Entries that do not decode end the connection.  A listing that
 * the kernel does not want any more gives its lookups back.
 */
#include "fs.h"

#include <errno.h>
#include <linux/fuse.h>

enum { DIR_DATA_MAX = SMALL_BUF_SIZE / 2 };

_Static_assert(KEEP_TOLD >= DIR_DATA_MAX / (sizeof(struct fuse_entry_out) + 32),
	       "the shortest names, each with attributes");

static bool is_dot(const rf_name_t *name)
{
	return name->bytes[0] == '.' &&
	       (name->size == 1 || (name->size == 2 && name->bytes[1] == '.'));
}

/* The entry's size in the reply, 0: no room for it. */
static size_t add_plus(struct request *r, uint8_t *at, size_t room,
		       const struct rf_dirent *entry)
{
	struct inodes *inodes = &r->fs->inodes;
	struct inode *child = NULL;
	size_t size;

	if (entry->has_attr && !is_dot(&entry->name))
		child = inodes_get(inodes, &entry->handle, &entry->attr);
	size = fuse_io_add_dirent_plus(at, room, entry, child);
	if (child) {
		if (size > 0) {
			once_tells(r, child);
			cache_give(r, child);
		}
		inodes_put(inodes, child);
	}
	return size;
}

/* Convert size bytes of the server's entries: the reply's size, or negative. */
static int convert(struct request *r, const uint8_t *in, uint32_t size)
{
	uint8_t *out = r->data->mem;
	struct rf_dirent entry;
	size_t used = 0, step;
	int got;

	while ((got = rf_dirent_decode(in, size, &entry)) > 0) {
		if (r->dir.wants_attr)
			step = add_plus(r, out + used, r->dir.size - used,
					&entry);
		else
			step = fuse_io_add_dirent(out + used,
						  r->dir.size - used, &entry);
		if (step == 0)
			break;
		used += step;
		in += got;
		size -= (uint32_t)got;
	}
	if (got >= 0)
		return (int)used;
	if (r->dir.wants_attr)
		fuse_io_undo_dirents(r->fs, out, used);
	fs_lose(r->fs, "sent a directory that does not decode");
	return -EIO;
}

static void ask(struct request *r);

static void pulled(struct request *r, int err)
{
	int size = err ? err : convert(r, r->data->mem + DIR_DATA_MAX,
				       r->pulled_size);

	if (size == -EAGAIN) {
		ask(r);
		return;
	}
	if (size < 0) {
		request_fail(r, size);
		return;
	}
	err = request_reply_data(r, r->data->mem, (size_t)size);
	once_told(r->fs);
	if (err && r->dir.wants_attr)
		fuse_io_undo_dirents(r->fs, r->data->mem, (size_t)size);
	request_end(r);
}

static void readdir_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;
	int err = request_results(r, reply, RF_OP_READDIR, &results);

	if (err) {
		request_fail(r, err);
		return;
	}
	pull_answer(r, &results.readdir.data, &results.readdir.grants,
		    r->data->mem + DIR_DATA_MAX, DIR_DATA_MAX, pulled);
}

/* ---- opened while the server was away (ops_file.c) ------------------------- */

static void open_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;
	int err = request_results(r, reply, RF_OP_OPEN, &results);

	if (err) {
		request_fail(r, err);
		return;
	}
	/* Somebody else has opened it meanwhile, or closed it. */
	if (!r->fuse || r->file->open) {
		request_reply_err(r, -EINTR);
		request_release_open(r, r->inode, results.open.open);
		return;
	}
	r->file->open = results.open.open;
	r->file->tag = results.open.tag;
	r->file->wire_flags = RF_OPEN_READ | RF_OPEN_DIR;
	r->file->generation = r->generation = r->fs->generation;
	r->uses_open = true;
	files_keep(&r->fs->files, r->file);
	r->resume(r);
}

void dir_open_first(struct request *r, request_fn resume)
{
	struct rf_args args = { .code = RF_OP_OPEN };

	r->resume = resume;
	args.open.flags = RF_OPEN_READ | RF_OPEN_DIR;
	r->is_opening = true;
	request_call(r, &args, open_answered);
}

/* ---- asking ----------------------------------------------------------------- */

static void ask(struct request *r)
{
	struct rf_args args = { .code = RF_OP_READDIR };

	/* Its caller was killed meanwhile, and may have closed it. */
	if (!r->fuse) {
		request_end(r);
		return;
	}
	if (!r->file->open) {
		dir_open_first(r, ask);
		return;
	}
	args.readdir.open = r->file->open;
	args.readdir.cookie = r->dir.cookie;
	args.readdir.size = (uint32_t)rf_min_u64(r->dir.size,
						 r->fs->limits.block_max);
	args.readdir.wants_attr = r->dir.wants_attr;
	request_call(r, &args, readdir_answered);
}

static void start(fuse_req_t fuse, fuse_ino_t nodeid, size_t size, off_t offset,
		  struct fuse_file_info *fi, bool wants_attr)
{
	struct request *r = request_take_file(fuse, nodeid, fi);

	if (!r)
		return;
	r->dir.cookie = (uint64_t)offset;
	r->dir.size = (uint32_t)rf_min_u64(size, DIR_DATA_MAX);
	r->dir.wants_attr = wants_attr;
	request_need_data(r, SMALL_BUF_SIZE, ask);
}

static void do_readdir(fuse_req_t fuse, fuse_ino_t nodeid, size_t size,
		       off_t offset, struct fuse_file_info *fi)
{
	start(fuse, nodeid, size, offset, fi, false);
}

static void do_readdirplus(fuse_req_t fuse, fuse_ino_t nodeid, size_t size,
			   off_t offset, struct fuse_file_info *fi)
{
	start(fuse, nodeid, size, offset, fi, true);
}

void ops_dir_fill(struct fuse_lowlevel_ops *ops)
{
	ops->readdir = do_readdir;
	ops->readdirplus = do_readdirplus;
}

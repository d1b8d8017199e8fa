/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read.c - READ: one message, then one-sided READs, then the reply
 *
 * Operation.  Data of up to inline_max come in the answer and go to the kernel
 * from the receive buffer.  More is pulled into a buffer that was taken before
 * the request was sent, so that a grant never waits for memory of ours, and
 * goes to the kernel from there.
 *
 * Data that do not match their checksum are asked for once more.
 *
 * A READ's reply never waits for an invalidation: that one may wait for the
 * pages which this reply fills.
 */
#include "fs.h"

#include <errno.h>
#include <linux/fuse.h>

static void settle(struct request *r, uint64_t version)
{
	if (r->is_filling)
		change_read_end(&r->inode->change, version);
	r->is_filling = false;
}

static void reply_data(struct request *r, const void *data, uint32_t size)
{
	r->fs->stats.read_bytes += size;
	if (r->is_filling && size < r->read.size)
		cache_give_eof(r, r->read.offset + size);
	request_reply_data(r, data, size);
	settle(r, r->read.version);
	request_end(r);
}

static void ask(struct request *r);

/* Less than was asked for, and yet not the end of the file. */
static bool is_short(const struct request *r, uint32_t size)
{
	return !r->read.is_eof && size > 0 &&
	       size < r->read.size - r->read.done;
}

static void pulled(struct request *r, int err)
{
	bool goes_on = !err && is_short(r, r->pulled_size);

	if (err == -EAGAIN) {
		ask(r);
		return;
	}
	if (err && r->was_damaged && !r->read.was_repeated) {
		r->read.was_repeated = true;
		ask(r);
		return;
	}
	if (err) {
		request_fail(r, err);
		return;
	}
	r->read.done += r->pulled_size;
	if (goes_on)
		ask(r);
	else
		reply_data(r, r->data->mem, r->read.done);
}

static uint64_t size_of(const struct rf_read_results *in)
{
	uint64_t size = in->data.size;

	for (unsigned int i = 0; i < in->grants.count; i++)
		size += in->grants.v[i].size;
	return size;
}

static void read_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;
	struct rf_read_results *in = &results.read;
	int err = request_results(r, reply, RF_OP_READ, &results);

	if (!err && size_of(in) != in->size) {
		fs_lose(r->fs, "sent more or less than it said");
		err = -EIO;
	}
	/* The kernel would take it for the end of the file. */
	if (!err && in->size == 0 && !in->eof)
		err = -EIO;
	if (err) {
		request_fail(r, err);
		return;
	}
	/* Of several parts, the oldest. */
	if (r->read.done == 0 || in->version < r->read.version)
		r->read.version = in->version;
	r->read.is_eof = in->eof;
	if (r->data) {
		pull_answer(r, &in->data, &in->grants,
			    r->data->mem + r->read.done,
			    r->read.size - r->read.done, pulled);
	} else if (in->grants.count || in->data.size > r->read.size) {
		fs_lose(r->fs, "sent more than was asked for");
		request_fail(r, -EIO);
	} else if (is_short(r, in->data.size)) {
		request_need_data(r, r->read.size, ask);	/* from the start */
	} else {
		reply_data(r, in->data.bytes, in->data.size);
	}
}

static void ask(struct request *r)
{
	struct rf_args args = { .code = RF_OP_READ };

	/* Its caller was killed meanwhile, and may have closed the file. */
	if (!r->fuse) {
		request_end(r);
		return;
	}
	args.read.open = r->file->open;
	args.read.offset = r->read.offset + r->read.done;
	args.read.size = (uint32_t)rf_min_u64(r->read.size - r->read.done,
					      r->fs->limits.block_max);
	request_call(r, &args, read_answered);
}

/*
 * Does the kernel keep what it reads?  For pages it names no owner of locks; so it
 * reads also for a mapping of a file that was opened past the page cache.
 */
static bool fills_pages(const struct fuse_read_in *in)
{
	return !(in->read_flags & FUSE_READ_LOCKOWNER);
}

static void do_read(fuse_req_t fuse, fuse_ino_t nodeid, size_t size,
		    off_t offset, struct fuse_file_info *fi)
{
	struct request *r = request_take_file(fuse, nodeid, fi);

	if (!r)
		return;
	r->read.offset = (uint64_t)offset;
	r->read.size = (uint32_t)rf_min_u64(size, DATA_MAX);
	r->read.done = 0;
	r->read.was_repeated = false;
	if (fills_pages(fuse_io_raw(r->fs))) {
		change_read_begin(&r->inode->change);
		r->is_filling = true;
	}
	if (r->read.size <= r->fs->limits.inline_max)
		ask(r);
	else
		request_need_data(r, r->read.size, ask);
}

void read_fill(struct fuse_lowlevel_ops *ops)
{
	ops->read = do_read;
}

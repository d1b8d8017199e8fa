/* SPDX-License-Identifier: Apache-2.0 */
/*
 * successor.c - going on where a daemon died
 *
 * Operation.  The supervisor gives us /dev/fuse and the memory that the dead one
 * has kept (keep.h).  The tables are rebuilt: nodeids, file numbers and locks are
 * what the kernel knows them by.  INIT is replayed to libfuse only.  Then the
 * kernel sends again what was not replied to, all of it before anything new, and
 * all of it is read before there is a connection: so what was sent takes its slot
 * and number again (once.c) before others can.  READs are held back meanwhile,
 * lest they take the buffers that WRITEs are read into.  From then on all is as
 * after a lost connection: RESUME, and what was sent is sent again.
 *
 * Attributes and pages that the kernel has may be of any age: they are dropped
 * at the first answer that shows what is new.
 *
 * When it fails.  The process ends, and the supervisor tries another.  A kernel
 * that sends nothing again: what was read and not replied to fails with EIO.
 */
#include "fs.h"

#include <errno.h>
#include <linux/fuse.h>
#include <unistd.h>

/* What was to be released: as files that were closed while we were away. */
static int restore_releases(struct fs *fs)
{
	for (unsigned int i = 0; i < KEEP_REQUESTS; i++) {
		struct keep_request *kept = &fs->keep->requests[i];
		struct inode *inode;
		struct file *file;

		if (kept->unique != KEEP_RELEASE)
			continue;
		inode = table_at(&fs->inodes.table, kept->inode);
		file = inode ? files_add(&fs->files, inode, kept->open) : NULL;
		if (inode && !file)
			return -ENOMEM;
		if (file) {
			file->generation = fs->generation;
			file->is_released = true;
			files_keep(&fs->files, file);
		}
		rf_store_kept(&kept->unique, 0);
	}
	return 0;
}

static void queue_releases(struct fs *fs)
{
	for (uint32_t i = 1; i <= fs->files.table.used; i++) {
		struct file *file = table_at(&fs->files.table, i);

		if (file && file->is_released)
			rf_list_push(&fs->releases, &file->release_link);
	}
}

int successor_restore(struct fs *fs)
{
	int err = inodes_restore(&fs->inodes);

	if (!err)
		once_restore_told(fs);
	if (!err)
		err = files_restore(&fs->files, &fs->inodes);
	if (!err)
		err = held_restore(&fs->held, &fs->inodes);
	if (!err)
		err = restore_releases(fs);
	if (!err)
		err = lock_waits_restore(fs);
	if (err)
		return err;
	queue_releases(fs);
	inodes_drop_unused(&fs->inodes);
	return 0;
}

static void read_held_back(struct fs *fs)
{
	struct rf_list *item;

	while ((item = rf_list_pop(&fs->held_back))) {
		struct request *r = rf_container_of(item, struct request, link);

		request_set_state(r, REQUEST_WORKING);
		request_need_data(r, r->needs, r->resume);
	}
}

static void over(struct fs *fs)
{
	fs->is_taking_over = false;
	once_over(fs);
	lock_waits_over(fs);
	read_held_back(fs);
	reconnect_begin(fs);
}

void successor_read(struct fs *fs, const struct fuse_in_header *in)
{
	if (in && in->unique & KEEP_RESENT)
		once_was_not_told(fs, in->unique & ~KEEP_RESENT);
	/* What is only told has queues of its own in the kernel, and passes. */
	if (!in || (!(in->unique & KEEP_RESENT) && !once_is_told_only(in)))
		over(fs);
}

static int ask_again(struct fs *fs)
{
	int err = once_ask_again(fs->fuse_fd);

	/* Unmounted meanwhile, as reading will show. */
	return err == -ENOTCONN || err == -ENODEV || err == -EPERM ? 0 : err;
}

int successor_begin(struct fs *fs)
{
	unsigned int failed;
	int err = 0;

	fs->is_taking_over = true;
	fuse_io_replay_init(fs);
	if (!fs->init_was_answered)
		return -EPROTO;
	if (fs->keep->kernel_resends) {
		err = ask_again(fs);
	} else {
		failed = once_fail_all(fs->keep, fs->fuse_fd);
		if (failed)
			rf_log(RF_LOG_WARN, "%u requests that were not "
			       "answered have failed with EIO", failed);
	}
	if (err)
		return err;
	fuse_io_read_all(fs);
	/* No room for all: those that come late fail, as once.c has it. */
	if (fs->is_taking_over)
		over(fs);
	if (fs->ready)
		fs->ready(fs->ready_context);
	fs->ready = NULL;
	return 0;
}

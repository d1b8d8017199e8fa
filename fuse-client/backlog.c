/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backlog.c - messages of the kernel that wait for room, while the server is away
 *
 * Operation.  Request objects and buffers are few, and usually the kernel holds
 * what there is no room for.  While the server says nothing that would be for as
 * long as it likes, with df, interrupts and all else behind those that wait.  So
 * then messages are read on, and what has to wait lies here, as it came, until
 * there is room for it: first come, first served.  What needs no server is answered
 * past it.
 *
 * What is here was not begun: who is killed gets EINTR and is forgotten, and a
 * successor takes what the kernel sends again for new.  While that one reads, what
 * its dead one had begun must find room before all else (once.c), so the others
 * wait here.
 *
 * When it fails.  Beyond BACKLOG_MESSAGES_MAX and BACKLOG_BYTES_MAX the kernel
 * holds the messages again.
 */
#include "fs.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <unistd.h>

struct late {
	struct rf_list link;
	uint64_t read_ns;
	size_t size;
	bool is_statx;
	bool is_new;			/* sent again, but never begun */
	bool was_interrupted;
	uint8_t bytes[] __attribute__((aligned(8)));
};

static const struct fuse_in_header *header_of(const struct late *late)
{
	return (const void *)late->bytes;
}

static struct late *first(const struct fs *fs)
{
	return rf_container_of(fs->backlog.messages.next, struct late, link);
}

static void drop(struct fs *fs, struct late *late)
{
	rf_list_remove(&late->link);
	fs->backlog.count--;
	fs->backlog.bytes -= late->size;
	free(late);
}

/* ENOENT, and the like: the kernel does not want it any more. */
static void refuse(struct fs *fs, const struct fuse_in_header *in, int err)
{
	once_reply(fs->fuse_fd, in->unique, err);
	once_replied(fs, in->unique);
}

/* ---- what waits ------------------------------------------------------------ */

bool backlog_is_open(const struct fs *fs)
{
	const struct backlog *backlog = &fs->backlog;

	if (fs->is_taking_over)
		return true;
	return (fs->is_away || patience_is_over(fs)) &&
	       backlog->count < BACKLOG_MESSAGES_MAX &&
	       backlog->bytes < BACKLOG_BYTES_MAX;
}

uint8_t *backlog_rx(struct fs *fs)
{
	if (!fs->backlog.rx)
		fs->backlog.rx = malloc(DATA_BUF_SIZE);
	return fs->backlog.rx;
}

/* The buffer that its message was read into stays with it. */
static bool keeps_message(const struct fuse_in_header *in)
{
	return in->opcode == FUSE_WRITE || in->opcode == FUSE_SETXATTR;
}

static bool was_begun(const struct fs *fs, const struct fuse_in_header *in)
{
	uint64_t unique = in->unique & ~KEEP_RESENT;

	return once_has(fs, unique) || lock_wait_has(fs, unique);
}

/* One more is left for callers that wait for locks, which hold it for a moment. */
static bool is_scarce(const struct fs *fs)
{
	unsigned int needed = once_old(fs) + 1, free_ones = 0;
	struct rf_list *pos;

	rf_list_for_each(pos, &fs->free_requests)
		if (++free_ones >= needed)
			return false;
	return true;
}

static bool has_to_wait(const struct fs *fs, const struct fuse_in_header *in)
{
	if (!fs->current || (keeps_message(in) && !fs->rx))
		return true;
	if (fs->is_taking_over)
		return !was_begun(fs, in) &&
		       (keeps_message(in) || is_scarce(fs));
	return fs->backlog.count > 0;
}

static void put(struct fs *fs, const struct fuse_in_header *in, size_t size)
{
	struct late *late = malloc(sizeof(*late) + size);

	if (!late) {
		refuse(fs, in, -ENOMEM);
		return;
	}
	*late = (struct late){
		.read_ns = rf_reactor_now_ns(fs->reactor),
		.size = size,
		.is_statx = fs->is_statx,
		.is_new = fs->is_taking_over && !was_begun(fs, in),
	};
	memcpy(late->bytes, in, size);
	rf_list_push(&fs->backlog.messages, &late->link);
	fs->backlog.count++;
	fs->backlog.bytes += size;
	fs->stats.late_messages++;
}

/* ---- what needs no server ---------------------------------------------------- */

/* Else close() ends nothing.  Whoever is killed closes what he has open. */
static bool may_unlock(const struct fs *fs, const struct fuse_in_header *in)
{
	const struct fuse_flush_in *flush = (const void *)(in + 1);
	const struct inode *inode = table_find(&fs->inodes.table, in->nodeid);

	return inode && lock_waits_may_have(fs, inode, flush->lock_owner);
}

static bool needs_no_server(const struct fs *fs,
			    const struct fuse_in_header *in)
{
	switch (in->opcode) {
	case FUSE_STATFS:
		return patience_is_over(fs);
	case FUSE_GETATTR:
	case FUSE_OPENDIR:
		return in->nodeid == FUSE_ROOT_ID && patience_is_over(fs);
	case FUSE_FLUSH:
		return fs->is_away || patience_is_over(fs) ||
		       !may_unlock(fs, in);
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
		return fs->is_away;
	default:
		return false;
	}
}

/* By an object of our own, for all others may be taken.  False: those are, too. */
static bool answer_now(struct fs *fs, const void *message, size_t size,
		       bool is_statx, uint64_t read_ns)
{
	struct rf_list *item = NULL;

	if (!fs->current) {
		item = rf_list_pop(&fs->free_spares);
		if (!item)
			return false;
		fs->current = rf_container_of(item, struct request, link);
	}
	fs->is_silent |= patience_is_over(fs);
	fs->is_statx = is_statx;
	fuse_io_deliver(fs, message, size, read_ns);
	/* Not every message takes one. */
	if (item && fs->current) {
		rf_list_push(&fs->free_spares, item);
		fs->current = NULL;
	}
	return true;
}

/* ---- signals ------------------------------------------------------------------ */

/* Also a wait for a lock ends by any of them.  True: it was told so. */
static bool ends_by_signal(struct fs *fs, const struct late *late)
{
	const struct fuse_in_header *in = header_of(late);

	if (!late->was_interrupted ||
	    (in->opcode != FUSE_SETLKW && !interrupt_is_dying((pid_t)in->pid)))
		return false;
	refuse(fs, in, -EINTR);
	return true;
}

/* True if that is the end of what it is for; else libfuse has to know, too. */
static bool interrupted(struct fs *fs, const struct fuse_in_header *in)
{
	const struct fuse_interrupt_in *interrupt = (const void *)(in + 1);
	struct rf_list *pos;

	rf_list_for_each(pos, &fs->backlog.messages) {
		struct late *late = rf_container_of(pos, struct late, link);

		if (header_of(late)->unique != interrupt->unique)
			continue;
		fs->stats.interrupts++;
		late->was_interrupted = true;
		if (!ends_by_signal(fs, late))
			return false;
		drop(fs, late);
		return true;
	}
	return false;
}

bool backlog_takes(struct fs *fs, const struct fuse_in_header *in, size_t size)
{
	if (once_is_told_only(in))
		return in->opcode == FUSE_INTERRUPT && interrupted(fs, in);
	if (!has_to_wait(fs, in))
		return false;
	if (fs->is_taking_over || !needs_no_server(fs, in) ||
	    !answer_now(fs, in, size, fs->is_statx,
			rf_reactor_now_ns(fs->reactor)))
		put(fs, in, size);
	return true;
}

/* ---- the way out ---------------------------------------------------------------- */

void backlog_serve(struct fs *fs)
{
	while (fs->backlog.count > 0 && !fs->is_taking_over &&
	       fs->fuse_fd >= 0 && fuse_io_has_room(fs)) {
		struct late *late = first(fs);
		uint8_t *message = fs->rx->mem + FUSE_MESSAGE_AT;
		size_t size = late->size;
		uint64_t read_ns = late->read_ns;

		memcpy(message, late->bytes, size);
		fs->is_statx = late->is_statx;
		fs->was_not_begun = late->is_new;
		drop(fs, late);
		fuse_io_deliver(fs, message, size, read_ns);
		fs->was_not_begun = false;
	}
}

static bool is_over(struct fs *fs, const struct late *late)
{
	const struct fuse_in_header *in = header_of(late);
	uint64_t age_ns = rf_reactor_now_ns(fs->reactor) - late->read_ns;

	if (needs_no_server(fs, in))
		return answer_now(fs, late->bytes, late->size, late->is_statx,
				  late->read_ns);
	if (fs->options.is_soft && age_ns / 1000000 >= fs->options.timeo_ms) {
		fs->stats.given_up++;
		refuse(fs, in, -EIO);
		return true;
	}
	return ends_by_signal(fs, late);
}

void backlog_check(struct fs *fs)
{
	struct rf_list *pos = fs->backlog.messages.next, *next;

	for (; pos != &fs->backlog.messages; pos = next) {
		struct late *late = rf_container_of(pos, struct late, link);

		next = pos->next;
		if (is_over(fs, late))
			drop(fs, late);
	}
	fuse_io_resume(fs);
}

/* ---- life ------------------------------------------------------------------------- */

void backlog_init(struct fs *fs)
{
	rf_list_init(&fs->backlog.messages);
}

void backlog_fini(struct fs *fs)
{
	while (fs->backlog.count > 0)
		drop(fs, first(fs));
	free(fs->backlog.rx);
}

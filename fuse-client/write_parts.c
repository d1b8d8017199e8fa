/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_parts.c - one WRITE of the kernel as parts that are in flight together
 *
 * Operation.  The kernel sends a write(2) as WRITEs of up to DATA_MAX, one at a
 * time, and waits for each.  So that the server stores its beginning while its
 * end still travels, a large one is split into parts of write_part bytes.  A
 * part is a request of its own, with its own message, write slots and step of
 * the change counter, and is sent like any other write (write.c); the whole
 * waits in REQUEST_PARTS, keeps the data, and is replied to after the last part.
 *
 * What must not be torn is not split: an append, for the server places each
 * message by itself; and a synchronous write, which would be synced part by
 * part.  Nor is one when others wait for slots, or would have to: then they
 * overlap with each other.
 *
 * Ownership.  Parts are preallocated.  Each references the inode; file, data and
 * caller are the whole's, which outlives them.
 *
 * When it fails.  The write is short: it ends where the first part stopped.
 * Parts behind that may have been stored.
 */
#include "fs.h"

#include <errno.h>

static bool must_be_whole(const struct request *r)
{
	const uint32_t flags = RF_WRITE_APPEND | RF_WRITE_SYNC |
			       RF_WRITE_DSYNC;

	return r->fs->options.no_pipeline || (r->write.flags & flags) != 0;
}

/* Slots for count parts, and nobody who should have them first. */
static bool have_slots(struct fs *fs, unsigned int count)
{
	if (!rf_list_is_empty(&fs->slots_waiting))
		return false;
	if (fs->slots.free_count >= count)
		return true;
	write_slots_ask(fs);		/* the next one may find more */
	return false;
}

/* All or none. */
static bool take_parts(struct fs *fs, unsigned int count, struct rf_list *out)
{
	struct rf_list *item;

	rf_list_init(out);
	while (count > 0 && (item = rf_list_pop(&fs->free_parts)) != NULL) {
		rf_list_push(out, item);
		count--;
	}
	if (count == 0)
		return true;
	rf_list_take_all(&fs->free_parts, out);
	return false;
}

static void begin_part(struct request *part, struct request *whole,
		       uint32_t at)
{
	request_set_state(part, REQUEST_WORKING);
	part->whole = whole;
	part->who = whole->who;
	part->generation = whole->generation;
	part->uses_open = true;
	part->inode = whole->inode;
	part->inode->refs++;
	part->file = whole->file;
	part->write.offset = whole->write.offset + at;
	part->write.bytes = whole->write.bytes + at;
	part->write.size = parts_size_at(&whole->write.parts, at);
	part->write.done = 0;
	part->write.flags = whole->write.flags | RF_WRITE_PART;
	part->write.is_xattr = false;
	part->write.is_direct = whole->write.is_direct;
}

/* It ended before a daemon died. */
static bool has_ended(const struct request *whole, unsigned int index)
{
	return whole->kept->parts_ended >> index & 1;
}

static void start_parts(struct request *whole, struct rf_list *parts)
{
	uint32_t at = 0;

	for (unsigned int i = 0; at < whole->write.size; i++) {
		struct request *part = rf_container_of(rf_list_pop(parts),
						       struct request, link);
		uint32_t size = parts_size_at(&whole->write.parts, at);

		if (has_ended(whole, i)) {
			rf_list_push(part->home, &part->link);
			whole->write.parts.left--;
		} else {
			begin_part(part, whole, at);
			once_part(part, whole, i);
			write_go_on(part);
		}
		at += size;
	}
}

/* What stopped before a daemon died has stopped the write. */
static void restore_stop(struct request *whole)
{
	const struct keep_request *kept = whole->kept;

	if (kept->was_stopped)
		parts_stopped(&whole->write.parts, kept->stopped_at,
			      kept->stop_err);
}

bool write_split(struct request *r)
{
	struct fs *fs = r->fs;
	struct parts *parts = &r->write.parts;
	/* Sent again, as it was. */
	bool goes_again = r->goes_again;
	uint32_t part = goes_again ? r->kept->part_size : fs->options.write_part;
	struct rf_list objects;
	unsigned int count;

	if (part == 0)
		return false;
	parts_init(parts, r->write.offset, r->write.size, part);
	count = parts_count(parts);
	if (!goes_again && (count < 2 || must_be_whole(r) ||
			    !have_slots(fs, count)))
		return false;
	if (!take_parts(fs, count, &objects)) {
		if (goes_again)
			write_finish(r, -EIO);
		return goes_again;
	}
	fs->stats.split_writes++;
	once_whole(r, part);
	restore_stop(r);
	parts->left = count + 1;	/* all may end before we are done here */
	request_set_state(r, REQUEST_PARTS);
	start_parts(r, &objects);
	interrupt_watch(r);
	write_part_ended(r);
	return true;
}

void write_part_stopped(const struct request *part, int err)
{
	struct parts *parts = &part->whole->write.parts;

	parts_stopped(parts, part->write.offset + part->write.done, err);
	once_stopped(part->whole, parts->offset + parts->stopped_at,
		     parts->stop_err);
}

void write_part_ended(struct request *whole)
{
	struct parts *parts = &whole->write.parts;

	RF_ASSERT(whole->state == REQUEST_PARTS && parts->left > 0);
	if (--parts->left > 0)
		return;
	request_set_state(whole, REQUEST_WORKING);
	whole->write.done = parts->stopped_at;
	write_finish(whole, parts->stop_err);
}

void write_parts_hold_others(struct request *whole)
{
	struct request *parts = whole->fs->requests +
				(REQUESTS_TOTAL - PARTS_MAX);

	for (unsigned int i = 0; i < PARTS_MAX; i++)
		if (parts[i].whole == whole)
			parts[i].call.holds_others = true;
}

void write_withdraw(struct request *whole, bool (*take_back)(struct request *r))
{
	struct request *parts = whole->fs->requests +
				(REQUESTS_TOTAL - PARTS_MAX);

	whole->write.parts.left++;	/* it stays while we look */
	for (unsigned int i = 0; i < PARTS_MAX; i++) {
		if (parts[i].whole != whole || !take_back(&parts[i]))
			continue;
		request_set_state(&parts[i], REQUEST_WORKING);
		request_fail(&parts[i], -EINTR);
	}
	write_part_ended(whole);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held.c - the locks that this mount's processes hold, as the server told
 */
#include "held.h"

#include "inodes.h"
#include "keep.h"

#include <errno.h>

struct held_range {
	struct table_item item;		/* first */
	struct rf_range range;
};

enum { KEPT_FLOCK = 1 << 0, KEPT_EXCLUSIVE = 1 << 1 };

int held_init(struct held_locks *locks)
{
	int err = table_init(&locks->helds, sizeof(struct held), HELD_MAX);

	if (!err)
		err = table_init(&locks->ranges, sizeof(struct held_range),
				 HELD_MAX);
	return err;
}

void held_fini(struct held_locks *locks)
{
	table_fini(&locks->helds);
	table_fini(&locks->ranges);
}

struct held *held_find(const struct inode *inode, uint64_t owner,
		       bool is_flock)
{
	const struct rf_list *at;

	rf_list_for_each(at, &inode->locks) {
		struct held *held = rf_container_of(at, struct held, link);

		if (held->owner == owner && held->is_flock == is_flock)
			return held;
	}
	return NULL;
}

static struct held *make(struct held_locks *locks, struct inode *inode,
			 uint64_t owner, bool is_flock)
{
	struct held *held = table_take(&locks->helds);

	if (!held)
		return NULL;
	held->inode = inode;
	held->owner = owner;
	held->is_flock = is_flock;
	rf_list_init(&held->ranges);
	rf_list_push(&inode->locks, &held->link);
	return held;
}

/* Where it is kept; it counts there if it is not new. */
static struct keep_range *kept_of(struct held_locks *locks,
				  const struct held_range *range)
{
	return &locks->kept->v[range->item.index];
}

static void keep_new(struct held_locks *locks, const struct held *held,
		     const struct held_range *range)
{
	struct keep_range *kept = kept_of(locks, range);

	kept->owner = held->owner;
	kept->fh = held->fh;
	kept->start = range->range.start;
	kept->end = range->range.end;
	kept->inode = held->inode->item.index;
	kept->pid = range->range.pid;
	kept->flags = (held->is_flock ? KEPT_FLOCK : 0u) |
		      (range->range.is_exclusive ? KEPT_EXCLUSIVE : 0u);
	rf_store_kept(&kept->is_taken, 1);
	keep_use(&locks->kept->used, range->item.index);
}

/* It was cut at one end, or locked by another open: one store each. */
static void keep_changed(struct held_locks *locks, const struct held *held,
			 const struct held_range *range)
{
	struct keep_range *kept = kept_of(locks, range);

	if (kept->fh != held->fh)
		rf_store_kept(&kept->fh, held->fh);
	if (kept->start != range->range.start)
		rf_store_kept(&kept->start, range->range.start);
	if (kept->end != range->range.end)
		rf_store_kept(&kept->end, range->range.end);
}

static void keep_some(struct held_locks *locks, const struct held *held,
		      bool is_new)
{
	const struct rf_list *at;

	rf_list_for_each(at, &held->ranges) {
		const struct rf_range *it =
			rf_container_of(at, const struct rf_range, link);
		const struct held_range *range =
			rf_container_of(it, const struct held_range, range);

		if (!is_new)
			keep_changed(locks, held, range);
		else if (!kept_of(locks, range)->is_taken)
			keep_new(locks, held, range);
	}
}

/*
 * What was held before, and is, stands there all the time: what is new comes
 * first, then the others are cut, and those that are not held any more are given
 * back after this.
 */
static void keep_ranges(struct held_locks *locks, const struct held *held)
{
	if (!locks->kept)
		return;
	keep_some(locks, held, true);
	keep_some(locks, held, false);
}

static void give_range(struct held_locks *locks, struct held_range *range)
{
	if (locks->kept)
		rf_store_kept(&locks->kept->v[range->item.index].is_taken, 0);
	table_give(&locks->ranges, range);
}

static void give_ranges(struct held_locks *locks, struct rf_list *ranges)
{
	struct rf_list *link;

	while ((link = rf_list_pop(ranges))) {
		struct rf_range *range = rf_container_of(link, struct rf_range,
							 link);

		give_range(locks, rf_container_of(range, struct held_range,
						  range));
	}
}

static bool take_spare(struct held_locks *locks, unsigned int count,
		       struct rf_list *spare)
{
	rf_list_init(spare);
	for (unsigned int i = 0; i < count; i++) {
		struct held_range *range = table_take(&locks->ranges);

		if (!range) {
			give_ranges(locks, spare);
			return false;
		}
		rf_list_push(spare, &range->range.link);
	}
	return true;
}

static void drop(struct held_locks *locks, struct held *held)
{
	give_ranges(locks, &held->ranges);
	rf_list_remove(&held->link);
	table_give(&locks->helds, held);
}

void held_set(struct held_locks *locks, struct inode *inode, uint64_t owner,
	      bool is_flock, uint64_t fh, const struct rf_range *range)
{
	struct held *held = held_find(inode, owner, is_flock);
	struct rf_list spare;

	if (!held)
		held = make(locks, inode, owner, is_flock);
	if (!held || !take_spare(locks, RF_RANGES_SPARE, &spare)) {
		inode->locks_are_unknown = true;
		if (held && rf_list_is_empty(&held->ranges))
			drop(locks, held);
		return;
	}
	held->fh = fh;
	rf_ranges_set(&held->ranges, range, &spare);
	keep_ranges(locks, held);
	give_ranges(locks, &spare);
}

void held_clear(struct held_locks *locks, struct inode *inode, uint64_t owner,
		bool is_flock, uint64_t start, uint64_t end)
{
	struct held *held = held_find(inode, owner, is_flock);
	struct rf_list spare;

	if (!held)
		return;
	if (!take_spare(locks, rf_ranges_splits(&held->ranges, start, end),
			&spare)) {
		inode->locks_are_unknown = true;
		return;
	}
	rf_ranges_clear(&held->ranges, start, end, &spare);
	keep_ranges(locks, held);
	give_ranges(locks, &spare);
	if (rf_list_is_empty(&held->ranges))
		drop(locks, held);
}

void held_release(struct held_locks *locks, struct inode *inode, uint64_t fh)
{
	struct rf_list *at = inode->locks.next;

	while (at != &inode->locks) {
		struct held *held = rf_container_of(at, struct held, link);

		at = at->next;
		if (held->fh == fh)
			drop(locks, held);
	}
}

void held_forget(struct held_locks *locks, struct inode *inode)
{
	while (!rf_list_is_empty(&inode->locks))
		drop(locks, rf_container_of(inode->locks.next, struct held,
					    link));
	inode->locks_are_unknown = false;
}

/* In its place.  False: it overlaps with another. */
static bool insert(struct held *held, struct rf_range *range)
{
	struct rf_list *at = held->ranges.next;

	while (at != &held->ranges) {
		const struct rf_range *other =
			rf_container_of(at, const struct rf_range, link);

		if (other->start <= range->end && other->end >= range->start)
			return false;
		if (other->start > range->start)
			break;
		at = at->next;
	}
	rf_list_push(at, &range->link);
	return true;
}

/* late: those that overlap with others. */
static int restore(struct held_locks *locks, struct inode *inode,
		   struct held_range *range, struct rf_list *late)
{
	const struct keep_range *kept = kept_of(locks, range);
	bool is_flock = kept->flags & KEPT_FLOCK;
	struct held *held = held_find(inode, kept->owner, is_flock);

	if (!held)
		held = make(locks, inode, kept->owner, is_flock);
	if (!held)
		return -ENOMEM;
	held->fh = kept->fh;
	range->range = (struct rf_range){
		.start = kept->start,
		.end = kept->end,
		.is_exclusive = kept->flags & KEPT_EXCLUSIVE,
		.pid = kept->pid,
	};
	rf_list_init(&range->range.link);
	if (!insert(held, &range->range))
		rf_list_push(late, &range->range.link);
	return 0;
}

/*
 * Its owner died in between.  Where they differ is where he was about to lock or to
 * unlock, and that is done again.
 */
static void restore_late(struct held_locks *locks, const struct inodes *inodes,
			 struct held_range *range)
{
	const struct keep_range kept = *kept_of(locks, range);

	held_set(locks, table_at(&inodes->table, kept.inode), kept.owner,
		 kept.flags & KEPT_FLOCK, kept.fh, &range->range);
	give_range(locks, range);
}

int held_restore(struct held_locks *locks, const struct inodes *inodes)
{
	struct rf_list late, *link;

	rf_list_init(&late);
	for (uint32_t i = 1; i <= locks->kept->used; i++) {
		const struct keep_range *kept = &locks->kept->v[i];
		struct inode *inode = table_at(&inodes->table, kept->inode);
		bool is_taken = kept->is_taken && inode && inode->file_count;
		struct held_range *range = table_restore(&locks->ranges, 0,
							 is_taken);

		if (!range || (is_taken && restore(locks, inode, range, &late)))
			return -ENOMEM;
		if (!is_taken)
			rf_store_kept(&locks->kept->v[i].is_taken, 0);
	}
	while ((link = rf_list_pop(&late))) {
		struct rf_range *range = rf_container_of(link, struct rf_range,
							 link);

		restore_late(locks, inodes, rf_container_of(
					range, struct held_range, range));
	}
	return 0;
}

struct held *held_next(const struct held_locks *locks, uint32_t *index)
{
	while (*index < locks->helds.used) {
		struct held *held = table_at(&locks->helds, ++*index);

		if (held)
			return held;
	}
	return NULL;
}

void held_forget_all(struct held_locks *locks)
{
	struct held *held;
	uint32_t index = 0;

	while ((held = held_next(locks, &index)))
		drop(locks, held);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held.c - the locks that this mount's processes hold, as the server told
 */
#include "held.h"

#include "inodes.h"

struct held_range {
	struct table_item item;		/* first */
	struct rf_range range;
};

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

static struct held *find(const struct inode *inode, uint64_t owner,
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

static void give_ranges(struct held_locks *locks, struct rf_list *ranges)
{
	struct rf_list *link;

	while ((link = rf_list_pop(ranges))) {
		struct rf_range *range = rf_container_of(link, struct rf_range,
							 link);

		table_give(&locks->ranges,
			   rf_container_of(range, struct held_range, range));
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
	struct held *held = find(inode, owner, is_flock);
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
	give_ranges(locks, &spare);
}

void held_clear(struct held_locks *locks, struct inode *inode, uint64_t owner,
		bool is_flock, uint64_t start, uint64_t end)
{
	struct held *held = find(inode, owner, is_flock);
	struct rf_list spare;

	if (!held)
		return;
	if (!take_spare(locks, rf_ranges_splits(&held->ranges, start, end),
			&spare)) {
		inode->locks_are_unknown = true;
		return;
	}
	rf_ranges_clear(&held->ranges, start, end, &spare);
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

bool held_may_have(const struct inode *inode, uint64_t owner)
{
	return inode->locks_are_unknown || inode->lock_calls > 0 ||
	       find(inode, owner, false);
}

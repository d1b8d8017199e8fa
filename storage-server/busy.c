/* SPDX-License-Identifier: Apache-2.0 */
/*
 * busy.c - marks on inodes
 *
 * Operation.  A bucket lists the marks of its inodes, held and queued, in the
 * order they were taken.  A mark may be held when no earlier one of its inode
 * conflicts with it, held or not.
 */
#include "busy.h"

void busy_init(struct busy *busy)
{
	for (unsigned int i = 0; i < BUSY_BUCKETS; i++)
		rf_list_init(&busy->buckets[i]);
	rf_list_init(&busy->ready);
	busy->waits = 0;
}

static struct rf_list *bucket_of(struct busy *busy, uint64_t inode)
{
	/* Inode numbers count up: their low bits spread well. */
	return &busy->buckets[inode & (BUSY_BUCKETS - 1)];
}

static bool conflicts(const struct busy_mark *a, const struct busy_mark *b)
{
	return a->inode == b->inode && (a->is_exclusive || b->is_exclusive);
}

static bool may_hold(const struct rf_list *bucket,
		     const struct busy_mark *mark)
{
	struct rf_list *pos;

	rf_list_for_each(pos, bucket) {
		struct busy_mark *earlier =
			rf_container_of(pos, struct busy_mark, link);

		if (earlier == mark)
			return true;
		if (conflicts(earlier, mark))
			return false;
	}
	return true;
}

bool busy_take(struct busy *busy, struct busy_mark *mark, uint64_t inode,
	       bool is_exclusive)
{
	struct rf_list *bucket = bucket_of(busy, inode);

	RF_ASSERT(!mark->is_held && !mark->is_queued);
	mark->inode = inode;
	mark->is_exclusive = is_exclusive;
	rf_list_init(&mark->ready_link);
	rf_list_push(bucket, &mark->link);
	mark->is_held = may_hold(bucket, mark);
	mark->is_queued = !mark->is_held;
	busy->waits += mark->is_queued;
	return mark->is_held;
}

void busy_drop(struct busy *busy, struct busy_mark *mark)
{
	struct rf_list *bucket = bucket_of(busy, mark->inode);
	struct rf_list *pos;

	if (!mark->is_held && !mark->is_queued)
		return;
	rf_list_remove(&mark->link);
	rf_list_remove(&mark->ready_link);
	mark->is_held = mark->is_queued = false;
	rf_list_for_each(pos, bucket) {
		struct busy_mark *next =
			rf_container_of(pos, struct busy_mark, link);

		if (next->inode != mark->inode || next->is_held ||
		    !may_hold(bucket, next))
			continue;
		next->is_held = true;
		next->is_queued = false;
		rf_list_push(&busy->ready, &next->ready_link);
	}
}

struct busy_mark *busy_next(struct busy *busy)
{
	struct rf_list *item = rf_list_pop(&busy->ready);

	return item ? rf_container_of(item, struct busy_mark, ready_link)
		    : NULL;
}

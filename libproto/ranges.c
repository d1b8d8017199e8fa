/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranges.c - the byte ranges of one file that one owner has locked
 *
 * Operation.  To set a range is to clear it, then to put it in and to merge it
 * with neighbours that touch it.  A clear that falls inside of one range splits
 * it; all others only shorten or remove.
 */
#include "ranges.h"

static struct rf_range *range_of(struct rf_list *link)
{
	return rf_container_of(link, struct rf_range, link);
}

static struct rf_range *take(struct rf_list *spare)
{
	struct rf_list *link = rf_list_pop(spare);

	RF_ASSERT(link);
	return range_of(link);
}

static void give(struct rf_range *range, struct rf_list *spare)
{
	rf_list_remove(&range->link);
	rf_list_push(spare, &range->link);
}

/* Put item in front of another one, or of the head: at the end. */
static void insert_before(struct rf_list *at, struct rf_list *item)
{
	rf_list_push(at, item);
}

/* What lies behind end becomes a range of its own. */
static void split(struct rf_range *range, uint64_t start, uint64_t end,
		  struct rf_list *spare)
{
	struct rf_range *rest = take(spare);

	*rest = *range;
	rest->start = end + 1;
	range->end = start - 1;
	insert_before(range->link.next, &rest->link);
}

static void cut(struct rf_range *range, uint64_t start, uint64_t end,
		struct rf_list *spare)
{
	if (range->start < start && range->end > end)
		split(range, start, end, spare);
	else if (range->start < start)
		range->end = start - 1;
	else if (range->end > end)
		range->start = end + 1;
	else
		give(range, spare);
}

void rf_ranges_clear(struct rf_list *ranges, uint64_t start, uint64_t end,
		     struct rf_list *spare)
{
	struct rf_list *at = ranges->next;

	while (at != ranges) {
		struct rf_range *range = range_of(at);

		if (range->start > end)
			break;
		at = at->next;
		if (range->end >= start)
			cut(range, start, end, spare);
	}
}

bool rf_ranges_splits(const struct rf_list *ranges, uint64_t start,
		      uint64_t end)
{
	const struct rf_list *at;

	rf_list_for_each(at, ranges) {
		const struct rf_range *range =
			rf_container_of(at, const struct rf_range, link);

		if (range->end >= start)
			return range->start < start && range->end > end;
	}
	return false;
}

static bool touch(const struct rf_range *left, const struct rf_range *right)
{
	return left->end + 1 == right->start &&
	       left->is_exclusive == right->is_exclusive;
}

/* Merge range with the neighbours that it touches; its pid is the newest. */
static void merge(struct rf_list *ranges, struct rf_range *range,
		  struct rf_list *spare)
{
	struct rf_list *link = &range->link;

	if (link->prev != ranges && touch(range_of(link->prev), range)) {
		range->start = range_of(link->prev)->start;
		give(range_of(link->prev), spare);
	}
	if (link->next != ranges && touch(range, range_of(link->next))) {
		range->end = range_of(link->next)->end;
		give(range_of(link->next), spare);
	}
}

void rf_ranges_set(struct rf_list *ranges, const struct rf_range *wish,
		   struct rf_list *spare)
{
	struct rf_range *range;
	struct rf_list *at;

	RF_ASSERT(wish->start <= wish->end && wish->end <= RF_RANGE_END);
	rf_ranges_clear(ranges, wish->start, wish->end, spare);
	rf_list_for_each(at, ranges)
		if (range_of(at)->start > wish->end)
			break;
	range = take(spare);
	*range = *wish;
	insert_before(at, &range->link);
	merge(ranges, range, spare);
}

const struct rf_range *rf_ranges_conflict(const struct rf_list *ranges,
					  const struct rf_range *wish,
					  uint64_t *steps)
{
	const struct rf_list *at;

	rf_list_for_each(at, ranges) {
		const struct rf_range *range =
			rf_container_of(at, const struct rf_range, link);

		++*steps;
		if (range->start > wish->end)
			break;
		if (range->end >= wish->start &&
		    (range->is_exclusive || wish->is_exclusive))
			return range;
	}
	return NULL;
}

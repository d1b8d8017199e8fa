/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranges.h - the byte ranges of one file that one owner has locked
 *
 * A list of struct rf_range, sorted, none overlapping; neighbours of one kind
 * are merged, so that equal sets of locks are equal lists.  The server keeps
 * one for each owner of locks on a file, and a client the same, to claim its
 * locks again from a server that was started anew.
 *
 * Pure logic; ranges are the caller's, who passes what a change may need.
 * Units.  Bytes; both ends belong to the range.
 */
#ifndef RF_RANGES_H
#define RF_RANGES_H

#include "base.h"

/* The last byte that can be locked: offsets are signed. */
#define RF_RANGE_END ((uint64_t)INT64_MAX)

/* A change needs at most so many more: what is set, and the rest of one that
 * it splits (rf_ranges_splits()). */
enum { RF_RANGES_SPARE = 2 };

struct rf_range {
	struct rf_list link;
	uint64_t start, end;
	bool is_exclusive;
	uint32_t pid;		/* who set it last */
};

/* Does a change from start to end leave a rest on both sides of one range? */
bool rf_ranges_splits(const struct rf_list *ranges, uint64_t start,
		      uint64_t end);

/*
 * From start to end be wish, whatever was there; the rest stays.  Ranges come
 * from spare, which holds one, and another one if it splits; those not needed any
 * more go there.
 */
void rf_ranges_set(struct rf_list *ranges, const struct rf_range *wish,
		   struct rf_list *spare);

/* From start to end be nothing; one range is taken from spare if it splits. */
void rf_ranges_clear(struct rf_list *ranges, uint64_t start, uint64_t end,
		     struct rf_list *spare);

/* The first range that keeps wish from another owner, or NULL.  *steps grows by
 * the ranges that were looked at. */
const struct rf_range *rf_ranges_conflict(const struct rf_list *ranges,
					  const struct rf_range *wish,
					  uint64_t *steps);

#endif /* RF_RANGES_H */

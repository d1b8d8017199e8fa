/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - numbered things that the kernel is given: index and generation
 *
 * Items are of one size, begin with a struct table_item and never move: they
 * come in chunks, allocated as the table grows.  Chunks of which no item is taken
 * are freed, but for one, so that a single item does not make and free it again and
 * again, and the last one, which is not full yet.  A number is
 * generation << 32 | index; a number whose item was given back is never found again
 * (until 2^32 reuses of one index).
 *
 * Threads.  [owner], all of it.  Pure logic but for the chunks' memory.
 */
#ifndef TABLE_H
#define TABLE_H

#include "libproto/base.h"

enum { TABLE_CHUNK = 1024 };		/* items */

struct table_item {
	uint32_t index, generation;
	uint32_t next_free;		/* private; 0: none */
	bool is_taken;
};

struct table_chunk {
	void *items;			/* NULL: freed, or never made */
	struct rf_list open_link;	/* of those that have free items */
	uint32_t taken;
	uint32_t free_head;
	uint32_t generation;		/* freed: none of its items had a later one */
};

struct table {
	size_t item_size;
	uint32_t max;			/* items, at most */
	uint32_t used;			/* indices ever given out, from 1 */
	uint32_t taken;			/* now */
	uint32_t room;			/* items that there is memory for */
	struct table_chunk *chunks;
	struct rf_list open;
	struct table_chunk *spare;	/* was empty when it was last looked at */
};

/* -ENOMEM. */
int table_init(struct table *table, size_t item_size, uint32_t max);
void table_fini(struct table *table);

/*
 * A zeroed item with a new number, NULL if max are taken or memory is short.
 * The first has index 1 and generation 0: number 1.
 */
void *table_take(struct table *table);
void table_give(struct table *table, void *item);

/*
 * The next index as it was in another process: taken, or given back.  NULL: as
 * table_take().
 */
void *table_restore(struct table *table, uint32_t generation, bool is_taken);

/* The item of this number, or NULL. */
void *table_find(const struct table *table, uint64_t number);
/* The item of this index (1 to used), or NULL if it is not taken. */
void *table_at(const struct table *table, uint32_t index);

static inline uint64_t table_number(const struct table_item *item)
{
	return (uint64_t)item->generation << 32 | item->index;
}

#endif /* TABLE_H */

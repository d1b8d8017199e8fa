/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.c - numbered things that the kernel is given: index and generation
 *
 * Operation.  Indices that were given back are taken again, last first, with
 * the next generation.
 */
#include "table.h"

#include <errno.h>
#include <stdlib.h>

/* Where the item of an index below the chunks' end lies. */
static struct table_item *item_of(const struct table *table, uint32_t index)
{
	char *chunk = table->chunks[index / TABLE_CHUNK];

	return (void *)(chunk + index % TABLE_CHUNK * table->item_size);
}

int table_init(struct table *table, size_t item_size, uint32_t max)
{
	RF_ASSERT(item_size >= sizeof(struct table_item));
	*table = (struct table){ .item_size = item_size, .max = max };
	table->chunks = calloc(max / TABLE_CHUNK + 1, sizeof(void *));
	return table->chunks ? 0 : -ENOMEM;
}

void table_fini(struct table *table)
{
	if (!table->chunks)
		return;
	for (uint32_t i = 0; i <= table->max / TABLE_CHUNK; i++)
		free(table->chunks[i]);
	free(table->chunks);
	table->chunks = NULL;
}

/* An index that was never used. */
static struct table_item *grow(struct table *table)
{
	uint32_t index = table->used + 1;
	void **chunk = &table->chunks[index / TABLE_CHUNK];
	struct table_item *item;

	if (table->used == table->max)
		return NULL;
	if (!*chunk)
		*chunk = calloc(TABLE_CHUNK, table->item_size);
	if (!*chunk)
		return NULL;
	table->used = index;
	item = item_of(table, index);
	item->index = index;
	return item;
}

void *table_take(struct table *table)
{
	struct table_item *item;
	uint32_t index = table->free_head, generation = 0;

	if (index) {
		item = item_of(table, index);
		table->free_head = item->next_free;
		generation = item->generation + 1;
		memset(item, 0, table->item_size);
	} else {
		item = grow(table);
		if (!item)
			return NULL;
		index = item->index;
	}
	item->index = index;
	item->generation = generation;
	item->is_taken = true;
	table->taken++;
	return item;
}

void table_give(struct table *table, void *at)
{
	struct table_item *item = at;

	RF_ASSERT(item->is_taken);
	item->is_taken = false;
	item->next_free = table->free_head;
	table->free_head = item->index;
	table->taken--;
}

void *table_restore(struct table *table, uint32_t generation, bool is_taken)
{
	struct table_item *item = grow(table);

	if (!item)
		return NULL;
	item->generation = generation;
	item->is_taken = true;
	table->taken++;
	if (!is_taken)
		table_give(table, item);
	return item;
}

void *table_at(const struct table *table, uint32_t index)
{
	struct table_item *item;

	if (index == 0 || index > table->used)
		return NULL;
	item = item_of(table, index);
	return item->is_taken ? item : NULL;
}

void *table_find(const struct table *table, uint64_t number)
{
	struct table_item *item = table_at(table, (uint32_t)number);

	return item && item->generation == number >> 32 ? item : NULL;
}

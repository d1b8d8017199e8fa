/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.c - numbered things that the kernel is given: index and generation
 *
 * Operation.  Indices that were given back are taken again with the next
 * generation, those of chunks that are in use before those of empty ones.  A chunk
 * that was freed comes back with the latest generation that any of its items had.
 */
#include "table.h"

#include <errno.h>
#include <stdlib.h>

static struct table_chunk *chunk_of(const struct table *table, uint32_t index)
{
	return &table->chunks[index / TABLE_CHUNK];
}

/* Where the item of an index lies, whose chunk is there. */
static struct table_item *item_of(const struct table *table, uint32_t index)
{
	char *items = chunk_of(table, index)->items;

	return (void *)(items + index % TABLE_CHUNK * table->item_size);
}

int table_init(struct table *table, size_t item_size, uint32_t max)
{
	RF_ASSERT(item_size >= sizeof(struct table_item));
	*table = (struct table){ .item_size = item_size, .max = max };
	rf_list_init(&table->open);
	table->chunks = calloc(max / TABLE_CHUNK + 1, sizeof(*table->chunks));
	return table->chunks ? 0 : -ENOMEM;
}

void table_fini(struct table *table)
{
	if (!table->chunks)
		return;
	for (uint32_t i = 0; i <= table->max / TABLE_CHUNK; i++)
		free(table->chunks[i].items);
	free(table->chunks);
	table->chunks = NULL;
}

/* ---- chunks ----------------------------------------------------------------- */

static int make_chunk(struct table *table, struct table_chunk *chunk)
{
	chunk->items = calloc(TABLE_CHUNK, table->item_size);
	if (!chunk->items)
		return -ENOMEM;
	table->room += TABLE_CHUNK;
	return 0;
}

/* The index 0 is none. */
static uint32_t first_of(const struct table *table,
			 const struct table_chunk *chunk)
{
	uint32_t first = (uint32_t)(chunk - table->chunks) * TABLE_CHUNK;

	return first ? first : 1;
}

static bool has_grown(const struct table *table,
		      const struct table_chunk *chunk)
{
	return chunk != chunk_of(table, table->used + 1);
}

static void free_chunk(struct table *table, struct table_chunk *chunk)
{
	uint32_t index = first_of(table, chunk);

	for (; chunk_of(table, index) == chunk; index++)
		chunk->generation = (uint32_t)rf_max_u64(
			chunk->generation, item_of(table, index)->generation);
	free(chunk->items);
	chunk->items = NULL;
	chunk->free_head = 0;
	table->room -= TABLE_CHUNK;
	/* Taken again when nothing else is left. */
	rf_list_remove(&chunk->open_link);
	rf_list_push(&table->open, &chunk->open_link);
}

/* One such is kept. */
static void empty_chunk(struct table *table, struct table_chunk *chunk)
{
	struct table_chunk *other = table->spare;

	if (!has_grown(table, chunk))
		return;
	table->spare = chunk;
	if (other && other != chunk && other->items && other->taken == 0)
		free_chunk(table, other);
}

static void put_free(struct table_chunk *chunk, struct table_item *item)
{
	item->is_taken = false;
	item->next_free = chunk->free_head;
	chunk->free_head = item->index;
}

static int bring_back(struct table *table, struct table_chunk *chunk)
{
	uint32_t index = first_of(table, chunk);
	int err = make_chunk(table, chunk);

	if (err)
		return err;
	for (; chunk_of(table, index) == chunk; index++) {
		struct table_item *item = item_of(table, index);

		item->index = index;
		item->generation = chunk->generation;
		put_free(chunk, item);
	}
	return 0;
}

/* ---- items ------------------------------------------------------------------- */

/* An index that was never used. */
static struct table_item *grow(struct table *table)
{
	uint32_t index = table->used + 1;
	struct table_chunk *chunk = chunk_of(table, index);
	struct table_item *item;

	if (table->used == table->max)
		return NULL;
	if (!chunk->items && make_chunk(table, chunk))
		return NULL;
	table->used = index;
	item = item_of(table, index);
	item->index = index;
	/* What is restored may have left the one before empty. */
	if (index % TABLE_CHUNK == 0 && chunk[-1].taken == 0)
		empty_chunk(table, chunk - 1);
	return item;
}

/* One that was given back. */
static struct table_item *reuse(struct table *table)
{
	struct table_chunk *chunk = rf_container_of(
		table->open.next, struct table_chunk, open_link);
	struct table_item *item;
	uint32_t index, generation;

	if (!chunk->items && bring_back(table, chunk))
		return NULL;
	index = chunk->free_head;
	item = item_of(table, index);
	generation = item->generation + 1;
	chunk->free_head = item->next_free;
	if (!chunk->free_head)
		rf_list_remove(&chunk->open_link);
	memset(item, 0, table->item_size);
	item->index = index;
	item->generation = generation;
	return item;
}

static void take(struct table *table, struct table_item *item)
{
	item->is_taken = true;
	chunk_of(table, item->index)->taken++;
	table->taken++;
}

void *table_take(struct table *table)
{
	struct table_item *item = rf_list_is_empty(&table->open) ?
					  grow(table) : reuse(table);

	if (item)
		take(table, item);
	return item;
}

void table_give(struct table *table, void *at)
{
	struct table_item *item = at;
	struct table_chunk *chunk = chunk_of(table, item->index);

	RF_ASSERT(item->is_taken);
	if (!chunk->free_head) {
		/* In front: before those that are empty. */
		rf_list_init(&chunk->open_link);
		rf_list_push(table->open.next, &chunk->open_link);
	}
	put_free(chunk, item);
	table->taken--;
	if (--chunk->taken == 0)
		empty_chunk(table, chunk);
}

void *table_restore(struct table *table, uint32_t generation, bool is_taken)
{
	struct table_item *item = grow(table);

	if (!item)
		return NULL;
	item->generation = generation;
	take(table, item);
	if (!is_taken)
		table_give(table, item);
	return item;
}

void *table_at(const struct table *table, uint32_t index)
{
	struct table_item *item;

	if (index == 0 || index > table->used ||
	    !chunk_of(table, index)->items)
		return NULL;
	item = item_of(table, index);
	return item->is_taken ? item : NULL;
}

void *table_find(const struct table *table, uint64_t number)
{
	struct table_item *item = table_at(table, (uint32_t)number);

	return item && item->generation == number >> 32 ? item : NULL;
}

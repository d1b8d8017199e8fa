/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open_table.c - a table of opens with a list of free places
 */
#include "open_table.h"

#include <errno.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 64 };
#define NO_INDEX UINT32_MAX

void open_table_init(struct open_table *table, uint32_t limit)
{
	RF_ASSERT(limit > 0 && limit <= OPEN_TABLE_MAX);
	*table = (struct open_table){ .limit = limit, .first_free = NO_INDEX };
}

void open_table_fini(struct open_table *table)
{
	free(table->v);
	*table = (struct open_table){ .first_free = NO_INDEX };
}

static int grow(struct open_table *table)
{
	uint32_t capacity = table->capacity ? table->capacity * 2
					    : FIRST_CAPACITY;
	struct open *v;

	if (table->capacity == table->limit)
		return -EMFILE;
	if (capacity > table->limit)
		capacity = table->limit;
	v = realloc(table->v, capacity * sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (uint32_t i = capacity; i-- > table->capacity; ) {
		v[i] = (struct open){ .next_free = table->first_free };
		table->first_free = i;
	}
	table->v = v;
	table->capacity = capacity;
	return 0;
}

bool open_table_is_full(const struct open_table *table)
{
	return table->count == table->limit;
}

static uint32_t id_of(const struct open_table *table, uint32_t index)
{
	return (uint32_t)table->v[index].generation << 16 | index;
}

int open_table_add(struct open_table *table, uint64_t inode, uint32_t flags,
	      uint32_t *id)
{
	uint16_t generation;
	struct open *open;
	uint32_t index;
	int err;

	if (table->first_free == NO_INDEX) {
		err = grow(table);
		if (err)
			return err;
	}
	index = table->first_free;
	open = &table->v[index];
	table->first_free = open->next_free;
	generation = (uint16_t)(open->generation + 1);
	*open = (struct open){
		.inode = inode,
		.flags = flags,
		.generation = generation ? generation : 1,
		.is_used = true,
	};
	table->count++;
	*id = id_of(table, index);
	return 0;
}

struct open *open_table_find_any(struct open_table *table, uint32_t id)
{
	uint32_t index = id & 0xffff;
	struct open *open;

	if (index >= table->capacity)
		return NULL;
	open = &table->v[index];
	if (!open->is_used || open->generation != id >> 16)
		return NULL;
	return open;
}

struct open *open_table_find(struct open_table *table, uint32_t id)
{
	struct open *open = open_table_find_any(table, id);

	return open && !open->is_released ? open : NULL;
}

void open_table_remove(struct open_table *table, uint32_t id)
{
	struct open *open = open_table_find_any(table, id);

	RF_ASSERT(open && open->users == 0);
	open->is_used = false;
	open->next_free = table->first_free;
	table->first_free = id & 0xffff;
	table->count--;
}

uint32_t open_table_walk(const struct open_table *table, uint32_t *at)
{
	while (*at < table->capacity) {
		uint32_t index = (*at)++;

		if (table->v[index].is_used)
			return id_of(table, index);
	}
	return 0;
}

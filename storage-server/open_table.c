/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open_table.c - a table of opens with a list of free places
 *
 * Opens for writing are found by their inode, too: each place begins a chain of
 * those whose inode's number leads to it.  Numbers follow each other, so they
 * spread.
 */
#include "open_table.h"

#include "libproto/codec.h"

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

static void list_free(struct open_table *table, uint32_t index)
{
	struct open *open = &table->v[index];

	if (open->is_listed)
		return;
	open->is_listed = true;
	open->next_free = table->first_free;
	table->first_free = index;
}

/* One that is free: a place that was restored is found used, and dropped. */
static uint32_t take_free(struct open_table *table)
{
	while (table->first_free != NO_INDEX) {
		uint32_t index = table->first_free;
		struct open *open = &table->v[index];

		table->first_free = open->next_free;
		open->is_listed = false;
		if (!open->is_used)
			return index;
	}
	return NO_INDEX;
}

/* ---- writers, by inode ---------------------------------------------------- */

static uint32_t *chain_of(const struct open_table *table, uint64_t inode)
{
	return &table->v[inode % table->capacity].first_writer;
}

static void link_writer(struct open_table *table, uint32_t index)
{
	struct open *open = &table->v[index];
	uint32_t *first = chain_of(table, open->inode);

	open->prev_writer = NO_INDEX;
	open->next_writer = *first;
	if (*first != NO_INDEX)
		table->v[*first].prev_writer = index;
	*first = index;
}

static void unlink_writer(struct open_table *table, uint32_t index)
{
	const struct open *open = &table->v[index];
	uint32_t prev = open->prev_writer, next = open->next_writer;

	if (prev == NO_INDEX)
		*chain_of(table, open->inode) = next;
	else
		table->v[prev].next_writer = next;
	if (next != NO_INDEX)
		table->v[next].prev_writer = prev;
}

/* The number of places has changed. */
static void link_writers_anew(struct open_table *table)
{
	for (uint32_t i = 0; i < table->capacity; i++)
		table->v[i].first_writer = NO_INDEX;
	for (uint32_t i = 0; i < table->capacity; i++)
		if (table->v[i].is_used && table->v[i].flags & RF_OPEN_WRITE)
			link_writer(table, i);
}

bool open_table_has_writer(const struct open_table *table, uint64_t inode)
{
	uint32_t index = table->capacity ? *chain_of(table, inode) : NO_INDEX;

	while (index != NO_INDEX) {
		const struct open *open = &table->v[index];

		if (open->inode == inode && !open->is_released)
			return true;
		index = open->next_writer;
	}
	return false;
}

/* ---- all ------------------------------------------------------------------- */

static int grow(struct open_table *table)
{
	uint32_t capacity = table->capacity ? table->capacity * 2
					    : FIRST_CAPACITY;
	struct open *v;

	if (table->capacity == table->limit)
		return -ENFILE;
	if (capacity > table->limit)
		capacity = table->limit;
	v = realloc(table->v, capacity * sizeof(*v));
	if (!v)
		return -ENOMEM;
	table->v = v;
	for (uint32_t i = capacity; i-- > table->capacity; ) {
		v[i] = (struct open){ .generation = table->first_generation,
				      .latest = table->first_generation };
		list_free(table, i);
	}
	table->capacity = capacity;
	link_writers_anew(table);
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

static void note(struct open *open, uint16_t generation)
{
	if (!open->is_known || (int16_t)(generation - open->latest) > 0)
		open->latest = generation;
	open->is_known = true;
}

static void put(struct open_table *table, uint32_t index, uint64_t inode,
		uint32_t flags, uint16_t generation)
{
	struct open *open = &table->v[index];

	*open = (struct open){
		.inode = inode,
		.flags = flags,
		.generation = generation,
		.latest = open->latest,
		.is_known = open->is_known,
		.is_used = true,
		.is_listed = open->is_listed,
		.next_free = open->next_free,
		.first_writer = open->first_writer,
	};
	note(open, generation);
	table->count++;
	if (flags & RF_OPEN_WRITE)
		link_writer(table, index);
}

int open_table_add(struct open_table *table, uint64_t inode, uint32_t flags,
	      uint32_t *id)
{
	uint32_t index = take_free(table);
	uint16_t generation;

	if (index == NO_INDEX) {
		int err = grow(table);

		if (err)
			return err;
		index = take_free(table);
	}
	generation = (uint16_t)(table->v[index].latest + 1);
	put(table, index, inode, flags, generation ? generation : 1);
	*id = id_of(table, index);
	return 0;
}

/* The place of an id of before. */
static int place_of(struct open_table *table, uint32_t id, struct open **out)
{
	uint32_t index = id & 0xffff;

	if (id >> 16 == 0 || index >= table->limit)
		return -EBADF;
	while (index >= table->capacity) {
		int err = grow(table);

		if (err)
			return err;
	}
	*out = &table->v[index];
	return 0;
}

int open_table_note(struct open_table *table, uint32_t id)
{
	struct open *open;
	int err = place_of(table, id, &open);

	if (!err)
		note(open, (uint16_t)(id >> 16));
	return err;
}

int open_table_restore(struct open_table *table, uint32_t id, uint64_t inode,
		       uint32_t flags)
{
	uint32_t index = id & 0xffff;
	struct open *open;
	int err = place_of(table, id, &open);

	if (err)
		return err;
	if (!open->is_used) {
		put(table, index, inode, flags, (uint16_t)(id >> 16));
		return 0;
	}
	return id_of(table, index) == id && !open->is_released &&
	       open->inode == inode && open->flags == flags ? 0 : -EBADF;
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
	if (open->flags & RF_OPEN_WRITE)
		unlink_writer(table, id & 0xffff);
	open->is_used = false;
	list_free(table, id & 0xffff);
	table->count--;
}

uint32_t open_table_in_place(const struct open_table *table, uint32_t id)
{
	uint32_t index = id & 0xffff;

	return index < table->capacity && table->v[index].is_used
	       ? id_of(table, index) : 0;
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

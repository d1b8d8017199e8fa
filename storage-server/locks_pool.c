/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locks_pool.c - records of one size, in chunks that stay
 */
#include "locks_impl.h"

#include <errno.h>
#include <stdlib.h>

int lock_pool_init(struct lock_pool *pool, size_t size, unsigned int max)
{
	RF_ASSERT(max % LOCK_CHUNK == 0);
	*pool = (struct lock_pool){ .size = size, .max = max };
	rf_list_init(&pool->free);
	pool->chunks = calloc(max / LOCK_CHUNK, sizeof(void *));
	return pool->chunks ? 0 : -ENOMEM;
}

void lock_pool_fini(struct lock_pool *pool)
{
	for (unsigned int i = 0; i < pool->chunk_count; i++)
		free(pool->chunks[i]);
	free(pool->chunks);
	pool->chunks = NULL;
	pool->chunk_count = 0;
}

static void grow(struct lock_pool *pool)
{
	char *chunk;

	if (pool->chunk_count == pool->max / LOCK_CHUNK)
		return;
	chunk = calloc(LOCK_CHUNK, pool->size);
	if (!chunk)
		return;
	pool->chunks[pool->chunk_count++] = chunk;
	for (unsigned int i = 0; i < LOCK_CHUNK; i++)
		rf_list_push(&pool->free, (void *)(chunk + i * pool->size));
}

void *lock_pool_take(struct lock_pool *pool)
{
	struct rf_list *item;

	if (rf_list_is_empty(&pool->free))
		grow(pool);
	item = rf_list_pop(&pool->free);
	if (!item)
		return NULL;
	pool->count++;
	memset(item, 0, pool->size);
	return item;
}

void lock_pool_give(struct lock_pool *pool, void *item)
{
	pool->count--;
	rf_list_push(&pool->free, item);
}

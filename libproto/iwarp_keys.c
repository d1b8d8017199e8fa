/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iwarp_keys.c - the table of keys (STags) that peers may name
 *
 * A key is 24 bits of index and 8 of generation.  Index 0 is never given out,
 * so that no key is 0.
 *
 * Operation.  Pollers look keys up without a lock: chunks never move, and an
 * entry is believed only after its live key was compared.  A window's entry is
 * changed only by the thread of the endpoint that it is bound on, and only
 * that endpoint's peer passes the check of the owner, so reader and writer are
 * one thread.  A region may be withdrawn by any thread: an access first counts
 * itself in users and then reads live, a withdrawal first clears live and then
 * waits for users to fall to zero, so one of the two sees the other.
 *
 * Ownership.  Entries go back on a queue, oldest first, and keep their
 * generation, so that a number returns late.
 *
 * When it fails.  -ENOMEM when a million keys are out.
 */
#include "iwarp.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

void iw_keys_init(struct iw_keys *keys)
{
	memset(keys, 0, sizeof(*keys));
	pthread_mutex_init(&keys->lock, NULL);
}

void iw_keys_fini(struct iw_keys *keys)
{
	for (uint32_t i = 0; i < keys->chunk_count; i++)
		free(atomic_load(&keys->chunks[i]));
	pthread_mutex_destroy(&keys->lock);
}

static void push_free_locked(struct iw_keys *keys, struct iw_key *key)
{
	key->next_free = NULL;
	if (keys->free_last)
		keys->free_last->next_free = key;
	else
		keys->free_first = key;
	keys->free_last = key;
}

static int grow_locked(struct iw_keys *keys)
{
	uint32_t first = keys->chunk_count * IW_KEYS_PER_CHUNK;
	struct iw_key *chunk;

	if (keys->chunk_count == IW_KEY_CHUNKS)
		return -ENOMEM;
	chunk = calloc(IW_KEYS_PER_CHUNK, sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	for (uint32_t i = 0; i < IW_KEYS_PER_CHUNK; i++) {
		chunk[i].index = first + i;
		if (chunk[i].index != 0)
			push_free_locked(keys, &chunk[i]);
	}
	atomic_store(&keys->chunks[keys->chunk_count++], chunk);
	return 0;
}

int iw_key_alloc(struct iw_keys *keys, struct iw_key **out)
{
	struct iw_key *key;
	int err = 0;

	pthread_mutex_lock(&keys->lock);
	if (!keys->free_first)
		err = grow_locked(keys);
	key = keys->free_first;
	if (key) {
		keys->free_first = key->next_free;
		if (!keys->free_first)
			keys->free_last = NULL;
	}
	pthread_mutex_unlock(&keys->lock);
	if (!key)
		return err;
	*out = key;
	return 0;
}

void iw_key_free(struct iw_keys *keys, struct iw_key *key)
{
	atomic_store(&key->kind, IW_KEY_NONE);
	atomic_store(&key->owner, NULL);
	key->window = NULL;
	pthread_mutex_lock(&keys->lock);
	push_free_locked(keys, key);
	pthread_mutex_unlock(&keys->lock);
}

/* All 256 generations come round: a key has 255 others before it returns. */
uint32_t iw_key_next(struct iw_key *key)
{
	return key->index << 8 | ++key->generation;
}

void iw_key_arm(struct iw_key *key, enum iw_key_kind kind, const void *owner,
		uint32_t value)
{
	atomic_store_explicit(&key->kind, kind, memory_order_relaxed);
	atomic_store_explicit(&key->owner, owner, memory_order_relaxed);
	atomic_store(&key->live, value);
}

void iw_key_kill(struct iw_key *key)
{
	atomic_store(&key->live, 0);
	if (atomic_load_explicit(&key->kind, memory_order_relaxed) ==
	    IW_KEY_REGION)
		while (atomic_load(&key->users) > 0)
			sched_yield();
}

struct iw_key *iw_key_find(const struct iw_keys *keys, uint32_t stag)
{
	uint32_t index = stag >> 8;
	struct iw_key *chunk;

	if (index >= IW_KEYS_PER_CHUNK * IW_KEY_CHUNKS)
		return NULL;
	chunk = atomic_load_explicit(&keys->chunks[index / IW_KEYS_PER_CHUNK],
				     memory_order_acquire);
	return chunk ? &chunk[index % IW_KEYS_PER_CHUNK] : NULL;
}

static enum iw_error check_range(const struct iw_key *key, unsigned int access,
				 uint64_t offset, uint64_t size)
{
	if (offset + size < offset)
		return IW_RDMAP_WRAP;
	if (offset < key->base || size > key->size ||
	    offset - key->base > key->size - size)
		return IW_RDMAP_BOUNDS;
	if ((key->access & access) != access)
		return IW_RDMAP_ACCESS;
	return IW_OK;
}

enum iw_error iw_key_hold(const struct iw_keys *keys, const struct iw_ep *ep,
			  uint32_t stag, unsigned int access, uint64_t offset,
			  uint64_t size, struct iw_key **out)
{
	struct iw_key *key = iw_key_find(keys, stag);
	enum iw_error error = IW_OK;
	bool is_region;
	const void *owner;

	*out = NULL;
	if (!key || stag == 0)
		return IW_RDMAP_STAG;
	is_region = atomic_load_explicit(&key->kind, memory_order_relaxed) ==
		    IW_KEY_REGION;
	if (is_region)
		atomic_fetch_add(&key->users, 1);
	owner = is_region ? (const void *)ep->base.pd : (const void *)ep;
	if (atomic_load(&key->live) != stag)
		error = IW_RDMAP_STAG;
	else if (atomic_load_explicit(&key->owner, memory_order_relaxed) !=
		 owner)
		error = IW_RDMAP_STREAM;
	else
		error = check_range(key, access, offset, size);
	if (is_region && error)
		atomic_fetch_sub(&key->users, 1);
	if (!error && is_region)
		*out = key;
	return error;
}

void iw_key_release(struct iw_key *key)
{
	if (key)
		atomic_fetch_sub_explicit(&key->users, 1, memory_order_release);
}

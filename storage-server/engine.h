/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - an ordered key-value store with a log; RocksDB behind it
 *
 * Narrow on purpose, so that another engine can take its place: get, batch,
 * scan, flush, sync.  The store above knows all keys and values (record.h).
 *
 * Threads.  One writer: batches, flush and scans belong to the reactor's thread
 * [owner]; engine_sync() is [any] and may run beside them.
 * Ownership.  A value that engine_get() gave is pinned until engine_release().
 * Errors.  After a failed commit, flush or sync the engine is read-only until
 * it is opened again; that is logged once, with the engine's own words.  What was
 * committed since the last flush is still read, and may be gone at the next open.
 */
#ifndef ENGINE_H
#define ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct engine_batch;
struct engine_scan;

enum engine_family {
	ENGINE_INODES,
	ENGINE_NAMES,
	ENGINE_REPLIES,
	ENGINE_FAMILIES,
};

/*
 * Open what is in dir, or make it; replays the log.  [blocks]  -EIO, logged.
 */
int engine_open(const char *dir, struct engine **out);
/* Writes everything out, so that the next open replays nothing.  [blocks] */
void engine_close(struct engine *engine);

struct engine_value {
	const void *bytes;
	size_t size;
	void *pin;		/* private */
};
/* -ENOENT, -EIO. */
int engine_get(struct engine *engine, enum engine_family family,
	       const void *key, size_t key_size, struct engine_value *out);
void engine_release(struct engine_value *value);

struct engine_batch *engine_batch_create(void);
void engine_batch_destroy(struct engine_batch *batch);
void engine_batch_clear(struct engine_batch *batch);
void engine_batch_put(struct engine *engine, struct engine_batch *batch,
		      enum engine_family family, const void *key,
		      size_t key_size, const void *value, size_t size);
void engine_batch_delete(struct engine *engine, struct engine_batch *batch,
			 enum engine_family family, const void *key,
			 size_t key_size);
/*
 * All of batch or nothing, visible at once; in memory until engine_flush().
 */
int engine_commit(struct engine *engine, struct engine_batch *batch);

/* The log to the kernel: survives the death of the process. */
int engine_flush(struct engine *engine);
/* The log to the platter, up to what is committed when it starts.  [any] */
int engine_sync(struct engine *engine);
/* Is it read-only?  [any] */
bool engine_has_failed(const struct engine *engine);

/*
 * Walk the keys that begin with prefix, from the first not below start, in
 * order, as they are now.  prefix is copied.  In ENGINE_NAMES it has at least
 * NAME_PREFIX_SIZE bytes.
 */
int engine_scan_open(struct engine *engine, enum engine_family family,
		     const void *prefix, size_t prefix_size, const void *start,
		     size_t start_size, struct engine_scan *out);
/* 1 and the next pair, valid until the next call; 0 at the end; -EIO. */
int engine_scan_next(struct engine_scan *scan, const void **key,
		     size_t *key_size, const void **value, size_t *size);
void engine_scan_close(struct engine_scan *scan);

enum { ENGINE_PREFIX_MAX = 17 };
struct engine_scan {		/* private */
	void *iterator;
	uint8_t prefix[ENGINE_PREFIX_MAX];
	size_t prefix_size;
	bool is_started;
};

#endif /* ENGINE_H */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_rocksdb.c - the engine on RocksDB's C API
 *
 * The log is not written by each commit but once for many (manual_wal_flush):
 * a commit costs a memory copy and a skip-list insertion.  Recovery is to a
 * point in time: what is kept is a prefix of the log.
 *
 * When it fails.  A file that RocksDB could not write is not to be touched again,
 * or an assertion ends the process (Debian's library has them): has_failed keeps
 * us away from the log.  What remains is a sync of the log that begins just while
 * another thread's write of it fails: then the process ends, as by a kill.
 */
#include "engine.h"

#include "libproto/base.h"
#include "record.h"

#include <errno.h>
#include <rocksdb/c.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
	/* A memtable is allocated and its filter zeroed in the writer's turn:
	 * 16 MiB stalls it 6 ms, 64 MiB 28 ms (and is no faster). */
	WRITE_BUFFER = 16 << 20,
	WRITE_BUFFERS = 4,
	WAL_MAX = 64 << 20,		/* bounds the replay to under a second */
	BLOCK_CACHE = 256 << 20,
	BLOOM_BITS = 10,		/* 1 % false positives */
	SYNC_STEP = 1 << 20,		/* background writes in small pieces */
	/* Compact where 64 of 1024 entries are tombstones: emptied directories
	 * are slow to scan otherwise. */
	DELETION_WINDOW = 1024,
	DELETION_TRIGGER = 64,
	/*
	 * So does RocksDB's own log file: on a full disk, for instance.  On this
	 * level (HEADER_LEVEL) nothing is written to it; what matters comes to us
	 * as errors.
	 */
	INFO_LOG_NOTHING = 5,
};

struct engine {
	rocksdb_t *db;
	rocksdb_options_t *options[ENGINE_FAMILIES];
	rocksdb_column_family_handle_t *families[ENGINE_FAMILIES];
	rocksdb_writeoptions_t *write;
	rocksdb_readoptions_t *read, *read_prefix, *read_all;
	rocksdb_cache_t *cache;
	_Atomic bool has_failed;
};

struct engine_batch {
	rocksdb_writebatch_t *batch;
};

static const char *const family_names[ENGINE_FAMILIES] = {
	[ENGINE_INODES] = "default",
	[ENGINE_NAMES] = "names",
	[ENGINE_REPLIES] = "replies",
};

/* Take the C API's error, say it once, and make it an errno. */
static int take_error(struct engine *engine, char *error, const char *doing)
{
	if (!error)
		return 0;
	if (!atomic_exchange(&engine->has_failed, true))
		rf_log(RF_LOG_ERROR, "metadata: %s: %s; all is read-only "
		       "from now on: see to the disk, then start the server "
		       "again",
		       doing, error);
	rocksdb_free(error);
	return -EIO;
}

/* ---- open and close ------------------------------------------------------ */

static rocksdb_block_based_table_options_t *
create_table_options(rocksdb_cache_t *cache)
{
	rocksdb_block_based_table_options_t *table =
		rocksdb_block_based_options_create();

	rocksdb_block_based_options_set_block_cache(table, cache);
	rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
	rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(
		table, 1);
	rocksdb_block_based_options_set_filter_policy(
		table, rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS));
	rocksdb_block_based_options_set_format_version(table, 5);
	return table;
}

static rocksdb_options_t *create_options(enum engine_family family,
					 rocksdb_cache_t *cache)
{
	rocksdb_options_t *o = rocksdb_options_create();
	rocksdb_block_based_table_options_t *table =
		create_table_options(cache);

	rocksdb_options_set_create_if_missing(o, 1);
	rocksdb_options_set_create_missing_column_families(o, 1);
	rocksdb_options_set_max_background_jobs(o, 2);
	rocksdb_options_set_write_buffer_size(o, WRITE_BUFFER);
	rocksdb_options_set_max_write_buffer_number(o, WRITE_BUFFERS);
	rocksdb_options_set_max_total_wal_size(o, WAL_MAX);
	rocksdb_options_set_level_compaction_dynamic_level_bytes(o, 1);
	rocksdb_options_set_compression(o, rocksdb_lz4_compression);
	rocksdb_options_set_memtable_prefix_bloom_size_ratio(o, 0.05);
	rocksdb_options_set_memtable_whole_key_filtering(o, 1);
	rocksdb_options_set_wal_recovery_mode(
		o, rocksdb_point_in_time_recovery);
	rocksdb_options_set_manual_wal_flush(o, 1);
	rocksdb_options_set_bytes_per_sync(o, SYNC_STEP);
	rocksdb_options_set_max_open_files(o, -1);
	rocksdb_options_set_info_log_level(o, INFO_LOG_NOTHING);
	rocksdb_options_set_keep_log_file_num(o, 1);
	rocksdb_options_set_stats_dump_period_sec(o, 0);
	rocksdb_options_set_block_based_table_factory(o, table);
	if (family == ENGINE_NAMES) {
		rocksdb_options_set_prefix_extractor(
			o, rocksdb_slicetransform_create_fixed_prefix(
				   NAME_PREFIX_SIZE));
		rocksdb_options_add_compact_on_deletion_collector_factory(
			o, DELETION_WINDOW, DELETION_TRIGGER);
	}
	rocksdb_block_based_options_destroy(table);
	return o;
}

static void create_call_options(struct engine *engine)
{
	engine->write = rocksdb_writeoptions_create();
	rocksdb_writeoptions_set_sync(engine->write, 0);
	engine->read = rocksdb_readoptions_create();
	engine->read_prefix = rocksdb_readoptions_create();
	rocksdb_readoptions_set_prefix_same_as_start(engine->read_prefix, 1);
	engine->read_all = rocksdb_readoptions_create();
	rocksdb_readoptions_set_total_order_seek(engine->read_all, 1);
}

static void free_engine(struct engine *engine)
{
	for (int i = 0; i < ENGINE_FAMILIES; i++)
		rocksdb_options_destroy(engine->options[i]);
	rocksdb_writeoptions_destroy(engine->write);
	rocksdb_readoptions_destroy(engine->read);
	rocksdb_readoptions_destroy(engine->read_prefix);
	rocksdb_readoptions_destroy(engine->read_all);
	rocksdb_cache_destroy(engine->cache);
	free(engine);
}

int engine_open(const char *dir, struct engine **out)
{
	struct engine *engine = calloc(1, sizeof(*engine));
	char *error = NULL;

	if (!engine)
		return -ENOMEM;
	engine->cache = rocksdb_cache_create_lru(BLOCK_CACHE);
	for (int i = 0; i < ENGINE_FAMILIES; i++)
		engine->options[i] = create_options((enum engine_family)i,
						    engine->cache);
	create_call_options(engine);
	engine->db = rocksdb_open_column_families(
		engine->options[0], dir, ENGINE_FAMILIES, family_names,
		(const rocksdb_options_t *const *)engine->options,
		engine->families, &error);
	if (error) {
		rf_log(RF_LOG_ERROR, "metadata: can't open %s: %s", dir, error);
		rocksdb_free(error);
		free_engine(engine);
		return -EIO;
	}
	*out = engine;
	return 0;
}

static void flush_tables(struct engine *engine)
{
	rocksdb_flushoptions_t *options = rocksdb_flushoptions_create();

	for (int i = 0; i < ENGINE_FAMILIES; i++) {
		char *error = NULL;

		rocksdb_flush_cf(engine->db, options, engine->families[i],
				 &error);
		take_error(engine, error, "last flush");
	}
	rocksdb_flushoptions_destroy(options);
}

void engine_close(struct engine *engine)
{
	/* What a failed engine has in its log is replayed by the next open. */
	if (!atomic_load(&engine->has_failed))
		flush_tables(engine);
	for (int i = 0; i < ENGINE_FAMILIES; i++)
		rocksdb_column_family_handle_destroy(engine->families[i]);
	rocksdb_close(engine->db);
	free_engine(engine);
}

/* ---- get ----------------------------------------------------------------- */

int engine_get(struct engine *engine, enum engine_family family,
	       const void *key, size_t key_size, struct engine_value *out)
{
	char *error = NULL;
	rocksdb_pinnableslice_t *slice = rocksdb_get_pinned_cf(
		engine->db, engine->read, engine->families[family], key,
		key_size, &error);

	if (error) {
		rf_log(RF_LOG_ERROR, "metadata: read: %s", error);
		rocksdb_free(error);
		return -EIO;
	}
	if (!slice)
		return -ENOENT;
	out->bytes = rocksdb_pinnableslice_value(slice, &out->size);
	out->pin = slice;
	return 0;
}

void engine_release(struct engine_value *value)
{
	rocksdb_pinnableslice_destroy(value->pin);
	value->pin = NULL;
}

/* ---- batch --------------------------------------------------------------- */

struct engine_batch *engine_batch_create(void)
{
	struct engine_batch *batch = malloc(sizeof(*batch));

	if (batch)
		batch->batch = rocksdb_writebatch_create();
	return batch;
}

void engine_batch_destroy(struct engine_batch *batch)
{
	if (!batch)
		return;
	rocksdb_writebatch_destroy(batch->batch);
	free(batch);
}

void engine_batch_clear(struct engine_batch *batch)
{
	rocksdb_writebatch_clear(batch->batch);
}

void engine_batch_put(struct engine *engine, struct engine_batch *batch,
		      enum engine_family family, const void *key,
		      size_t key_size, const void *value, size_t size)
{
	rocksdb_writebatch_put_cf(batch->batch, engine->families[family], key,
				  key_size, value, size);
}

void engine_batch_delete(struct engine *engine, struct engine_batch *batch,
			 enum engine_family family, const void *key,
			 size_t key_size)
{
	rocksdb_writebatch_delete_cf(batch->batch, engine->families[family],
				     key, key_size);
}

int engine_commit(struct engine *engine, struct engine_batch *batch)
{
	char *error = NULL;

	if (atomic_load(&engine->has_failed))
		return -EIO;
	rocksdb_write(engine->db, engine->write, batch->batch, &error);
	return take_error(engine, error, "commit");
}

static int flush_wal(struct engine *engine, bool is_synced, const char *doing)
{
	char *error = NULL;

	if (atomic_load(&engine->has_failed))
		return -EIO;
	rocksdb_flush_wal(engine->db, is_synced, &error);
	return take_error(engine, error, doing);
}

bool engine_has_failed(const struct engine *engine)
{
	return atomic_load(&engine->has_failed);
}

int engine_flush(struct engine *engine)
{
	return flush_wal(engine, false, "write of the log");
}

int engine_sync(struct engine *engine)
{
	return flush_wal(engine, true, "sync of the log");
}

/* ---- scan ---------------------------------------------------------------- */

int engine_scan_open(struct engine *engine, enum engine_family family,
		     const void *prefix, size_t prefix_size, const void *start,
		     size_t start_size, struct engine_scan *out)
{
	RF_ASSERT(prefix_size <= sizeof(out->prefix));
	RF_ASSERT(family != ENGINE_NAMES || prefix_size >= NAME_PREFIX_SIZE);
	out->iterator = rocksdb_create_iterator_cf(
		engine->db,
		family == ENGINE_NAMES ? engine->read_prefix : engine->read_all,
		engine->families[family]);
	if (!out->iterator)
		return -ENOMEM;
	memcpy(out->prefix, prefix, prefix_size);
	out->prefix_size = prefix_size;
	out->is_started = false;
	rocksdb_iter_seek(out->iterator, start, start_size);
	return 0;
}

int engine_scan_next(struct engine_scan *scan, const void **key,
		     size_t *key_size, const void **value, size_t *size)
{
	char *error = NULL;

	if (scan->is_started && rocksdb_iter_valid(scan->iterator))
		rocksdb_iter_next(scan->iterator);
	scan->is_started = true;
	if (!rocksdb_iter_valid(scan->iterator)) {
		rocksdb_iter_get_error(scan->iterator, &error);
		if (!error)
			return 0;
		rf_log(RF_LOG_ERROR, "metadata: scan: %s", error);
		rocksdb_free(error);
		return -EIO;
	}
	*key = rocksdb_iter_key(scan->iterator, key_size);
	if (*key_size < scan->prefix_size ||
	    memcmp(*key, scan->prefix, scan->prefix_size) != 0)
		return 0;
	*value = rocksdb_iter_value(scan->iterator, size);
	return 1;
}

void engine_scan_close(struct engine_scan *scan)
{
	rocksdb_iter_destroy(scan->iterator);
}

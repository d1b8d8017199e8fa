/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.c - a store's life, its handles, the log and the room that is left
 */
#include "store_impl.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <uuid/uuid.h>

/* ---- first start --------------------------------------------------------- */

static void batch_volume(struct store *store)
{
	uint8_t key[INODE_KEY_SIZE], volume[VOLUME_RECORD_SIZE];
	uint8_t counter[COUNTER_RECORD_SIZE], trees[TREES_RECORD_SIZE] = { 0 };

	rf_random(store->volume.hash_key, sizeof(store->volume.hash_key));
	rf_random(store->volume.handle_key, sizeof(store->volume.handle_key));
	volume_encode(&store->volume, volume);
	engine_batch_put(store->engine, store->batch, ENGINE_INODES, key,
			 key_volume(key, VOLUME_RECORD), volume,
			 sizeof(volume));
	counter_encode(INODE_FIRST, true, counter);
	engine_batch_put(store->engine, store->batch, ENGINE_INODES, key,
			 key_volume(key, VOLUME_COUNTER), counter,
			 sizeof(counter));
	engine_batch_put(store->engine, store->batch, ENGINE_INODES, key,
			 key_volume(key, VOLUME_TREES), trees, sizeof(trees));
}

static void batch_root(struct store *store)
{
	uint8_t key[INODE_KEY_SIZE], value[INODE_RECORD_SIZE];
	rf_time_t now = store_now();
	struct inode root = {
		.number = STORE_ROOT_INODE,
		.parent = STORE_ROOT_INODE,
		.mode = S_IFDIR | 0755,
		.nlink = 2,
		.uid = geteuid(),
		.gid = getegid(),
		.size = DIR_SIZE,
		.blocks = DIR_SIZE / 512,
		.change = 1,
		.atime = now, .mtime = now, .ctime = now, .btime = now,
	};

	inode_encode(&root, value);
	engine_batch_put(store->engine, store->batch, ENGINE_INODES, key,
			 key_inode(key, STORE_ROOT_INODE, KIND_ATTRIBUTES),
			 value, sizeof(value));
}

static int initialise(struct store *store)
{
	int err;

	engine_batch_clear(store->batch);
	batch_volume(store);
	batch_root(store);
	err = engine_commit(store->engine, store->batch);
	if (!err)
		err = engine_sync(store->engine);
	if (!err)
		err = format_finish(store);
	if (!err)
		rf_log(RF_LOG_INFO, "store %s: initialised",
		       store->config.dir);
	return err;
}

/* ---- open ---------------------------------------------------------------- */

static int read_record(struct store *store, enum volume_kind kind,
		       struct engine_value *value)
{
	uint8_t key[INODE_KEY_SIZE];
	int err = engine_get(store->engine, ENGINE_INODES, key,
			     key_volume(key, kind), value);

	if (err)
		rf_log(RF_LOG_ERROR, "store %s: meta/ has no volume record: it "
		       "is not the one that was made with this store",
		       store->config.dir);
	return err == -ENOENT ? -EIO : err;
}

static int read_volume(struct store *store)
{
	struct engine_value value;
	struct volume volume;
	int err = read_record(store, VOLUME_RECORD, &value);

	if (err)
		return err;
	err = volume_decode(value.bytes, value.size, &volume);
	engine_release(&value);
	if (!err && memcmp(volume.uuid, store->volume.uuid, 16) != 0)
		err = -EIO;
	if (err)
		rf_log(RF_LOG_ERROR, "store %s: meta/ belongs to another "
		       "store", store->config.dir);
	else
		store->volume = volume;
	return err;
}

static int read_counter(struct store *store, bool *was_closed)
{
	struct engine_value value;
	int err = read_record(store, VOLUME_COUNTER, &value);

	if (err)
		return err;
	err = counter_decode(value.bytes, value.size, &store->next_inode,
			     was_closed);
	engine_release(&value);
	store->inode_limit = store->reserved_limit = store->next_inode;
	return err;
}

/* No run of the machine is this one. */
static const uint8_t no_boot[BOOT_RECORD_SIZE];

/* Of this run of the machine; zero if the kernel does not tell. */
static void read_boot_id(uint8_t out[BOOT_RECORD_SIZE])
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	char text[64] = "";
	uuid_t id;

	memset(out, 0, BOOT_RECORD_SIZE);
	if (!file)
		return;
	if (fscanf(file, "%40s", text) == 1 && uuid_parse(text, id) == 0)
		memcpy(out, id, BOOT_RECORD_SIZE);
	fclose(file);
}

/*
 * Has the machine been up since the last server used the store?  Then what that
 * one wrote is in the page cache, if nowhere else.  A clean stop leaves no record.
 */
static int note_boot(struct store *store)
{
	uint8_t key[INODE_KEY_SIZE], now[BOOT_RECORD_SIZE];
	struct engine_value value;
	bool is_same = false;
	int err;

	read_boot_id(now);
	err = engine_get(store->engine, ENGINE_INODES, key,
			 key_volume(key, VOLUME_BOOT), &value);
	if (!err) {
		is_same = value.size == sizeof(now) &&
			  memcmp(value.bytes, now, sizeof(now)) == 0 &&
			  memcmp(now, no_boot, sizeof(now)) != 0;
		engine_release(&value);
		store->lost_power = !is_same;
	}
	if (is_same || (err && err != -ENOENT))
		return err;
	engine_batch_clear(store->batch);
	engine_batch_put(store->engine, store->batch, ENGINE_INODES, key,
			 sizeof(key), now, sizeof(now));
	return engine_commit(store->engine, store->batch);
}

void store_doubt_cache(struct store *store)
{
	uint8_t key[INODE_KEY_SIZE];

	if (store->doubts_cache)
		return;
	engine_batch_clear(store->batch);
	engine_batch_put(store->engine, store->batch, ENGINE_INODES, key,
			 key_volume(key, VOLUME_BOOT), no_boot,
			 sizeof(no_boot));
	if (engine_commit(store->engine, store->batch))
		return;
	atomic_fetch_add(&store->committed, 1);
	store->doubts_cache = true;
}

bool store_lost_power(const struct store *store)
{
	return store->lost_power;
}

static int create_tables(struct store *store)
{
	store->txns = calloc(TXNS_MAX + 1, sizeof(*store->txns));
	store->txn_bytes = calloc(TXNS_MAX + 1, TXN_BYTES);
	store->inode_cache = calloc(INODE_CACHE, sizeof(*store->inode_cache));
	store->batch = engine_batch_create();
	if (!store->txns || !store->txn_bytes || !store->inode_cache ||
	    !store->batch || opens_init(&store->opens))
		return -ENOMEM;
	for (size_t i = 0; i <= TXNS_MAX; i++) {
		store->txns[i].store = store;
		store->txns[i].bytes = store->txn_bytes + i * TXN_BYTES;
		store->txns[i].size = TXN_BYTES;
	}
	return objects_init(store, store->config.object_cache);
}

static int load(struct store *store, bool is_new)
{
	bool was_closed, has_clients;
	int err = is_new ? initialise(store) : 0;

	if (!err)
		err = read_volume(store);
	if (!err)
		err = read_counter(store, &was_closed);
	if (!err)
		err = note_boot(store);
	if (!err)
		err = clients_exist(store, &has_clients);
	if (!err)
		err = orphans_recover(store, was_closed, has_clients);
	if (!err)
		err = sync_start(store);
	return err;
}

static int open_engine(struct store *store)
{
	char path[4096];

	if (snprintf(path, sizeof(path), "%s/meta", store->config.dir) >=
	    (int)sizeof(path))
		return -ENAMETOOLONG;
	return engine_open(path, &store->engine);
}

static void free_store(struct store *store)
{
	sync_stop(store);
	objects_fini(store);
	opens_fini(&store->opens);
	engine_batch_destroy(store->batch);
	if (store->engine)
		engine_close(store->engine);
	format_close(store);
	pthread_mutex_destroy(&store->objects_lock);
	free(store->inode_cache);
	free(store->txn_bytes);
	free(store->txns);
	free(store);
}

/* The reserve that protects a file system of this size. */
static int choose_reserve(struct store *store)
{
	struct statvfs vfs;
	uint64_t bytes;

	if (store->config.reserve_bytes != STORE_RESERVE_AUTO)
		return 0;
	if (fstatvfs(store->data_fd, &vfs))
		return -errno;
	bytes = (uint64_t)vfs.f_blocks * vfs.f_frsize / 50;
	bytes = rf_min_u64(bytes, STORE_RESERVE_MAX);
	bytes = rf_max_u64(bytes, STORE_RESERVE_MIN);
	store->config.reserve_bytes = bytes;
	rf_log(RF_LOG_INFO, "store %s: keeps %llu MiB of its file system free",
	       store->config.dir, (unsigned long long)(bytes >> 20));
	return 0;
}

int store_open(const struct store_config *config, struct store **out)
{
	struct store *store = calloc(1, sizeof(*store));
	bool is_new;
	int err;

	if (!store)
		return -ENOMEM;
	RF_ASSERT(sodium_init() >= 0);
	store->config = *config;
	store->dir_fd = store->lock_fd = store->data_fd = -1;
	store->hash_mask = UINT64_MAX;
	rf_list_init(&store->deletions.released);
	rf_list_init(&store->deletions.waiters);
	pthread_mutex_init(&store->objects_lock, NULL);
	err = format_open(store, &is_new);
	if (!err)
		err = choose_reserve(store);
	if (!err)
		err = open_engine(store);
	if (!err)
		err = create_tables(store);
	if (!err)
		err = load(store, is_new);
	if (err) {
		free_store(store);
		return err;
	}
	*out = store;
	return 0;
}

/* ---- close --------------------------------------------------------------- */

static void put_counter(struct store *store, uint64_t next, bool was_closed)
{
	uint8_t key[INODE_KEY_SIZE], value[COUNTER_RECORD_SIZE];

	counter_encode(next, was_closed, value);
	engine_batch_clear(store->batch);
	engine_batch_put(store->engine, store->batch, ENGINE_INODES, key,
			 key_volume(key, VOLUME_COUNTER), value,
			 sizeof(value));
}

void store_close(struct store *store)
{
	uint8_t key[INODE_KEY_SIZE];

	for (unsigned int i = 0; i <= TXNS_MAX; i++)
		RF_ASSERT(!store->txns[i].is_used);
	deletions_stop(store);
	sync_stop(store);
	put_counter(store, store->next_inode, true);
	if (!store->doubts_cache)
		engine_batch_delete(store->engine, store->batch, ENGINE_INODES,
				    key, key_volume(key, VOLUME_BOOT));
	if (engine_commit(store->engine, store->batch) == 0)
		engine_sync(store->engine);
	free_store(store);
}

/* ---- inode numbers ------------------------------------------------------- */

static void range_synced(struct sync_request *request, int err)
{
	(void)err;		/* use_range() looks for itself */
	request->store->is_range_syncing = false;
}

/*
 * Log the end of the next range.  It has to be on the platter before a number
 * of it is used: after power loss a handle must not name another file.
 */
static int reserve_range(struct store *store)
{
	uint64_t limit = store->inode_limit + INODE_RANGE;
	int err;

	put_counter(store, limit, false);
	err = engine_commit(store->engine, store->batch);
	if (err)
		return err;
	store->reserved_limit = limit;
	store->reserved_batch = atomic_fetch_add(&store->committed, 1) + 1;
	return 0;
}

static int use_range(struct store *store)
{
	int err = 0;

	if (store->reserved_limit == store->inode_limit)
		err = reserve_range(store);
	if (!err && atomic_load(&store->synced) < store->reserved_batch)
		err = store_sync_log(store);
	if (!err)
		store->inode_limit = store->reserved_limit;
	return err;
}

int store_new_inode(struct store *store, uint64_t *out)
{
	uint64_t left = store->inode_limit - store->next_inode;
	int err = left == 0 ? use_range(store) : 0;

	/* Half way, so that the sync is over when the range is used up. */
	if (left == INODE_RANGE / 2 && !store->is_range_syncing &&
	    store->reserved_limit == store->inode_limit) {
		err = reserve_range(store);
		if (!err) {
			store->is_range_syncing = true;
			store->range_sync = (struct sync_request){
				.done = range_synced,
			};
			store_sync(store, &store->range_sync);
		}
	}
	if (err)
		return err;
	*out = store->next_inode++;
	return 0;
}

/* ---- the log ------------------------------------------------------------- */

/* What was committed before this call is now done. */
static void reach(_Atomic uint64_t *counter, uint64_t committed)
{
	uint64_t old = atomic_load(counter);

	while (old < committed &&
	       !atomic_compare_exchange_weak(counter, &old, committed))
		;
}

int store_flush_log(struct store *store)
{
	/* Read before the flush begins: later commits may miss it. */
	uint64_t committed = atomic_load(&store->committed);
	int err;

	if (atomic_load(&store->flushed) >= committed)
		return 0;
	err = engine_flush(store->engine);
	if (err)
		return err;
	reach(&store->flushed, committed);
	atomic_fetch_add(&store->flushes, 1);
	return 0;
}

int store_sync_log(struct store *store)
{
	uint64_t committed = atomic_load(&store->committed);
	int err;

	if (atomic_load(&store->synced) >= committed)
		return 0;
	err = engine_sync(store->engine);
	if (err)
		return err;
	reach(&store->synced, committed);
	reach(&store->flushed, committed);
	return 0;
}

int store_flush(struct store *store)
{
	int err = store_flush_log(store);

	if (!err)
		deletions_start(store);
	return err;
}

bool store_has_failed(const struct store *store)
{
	return engine_has_failed(store->engine);
}

/* ---- handles ------------------------------------------------------------- */

/* The hash knows the size: no tag of a handle is one of an open. */
static uint64_t tag_of(const struct store *store, const void *bytes,
		       size_t size)
{
	uint8_t out[crypto_shorthash_BYTES];

	crypto_shorthash(out, bytes, size, store->volume.handle_key);
	return rf_load_u64(out);
}

static bool tags_are_equal(uint64_t a, uint64_t b)
{
	return sodium_memcmp(&a, &b, sizeof(a)) == 0;
}

static uint64_t handle_tag(const struct store *store, uint64_t inode,
			   uint32_t tree)
{
	uint8_t bytes[12];

	rf_store_u64(bytes, inode);
	rf_store_u32(bytes + 8, tree);
	return tag_of(store, bytes, sizeof(bytes));
}

rf_handle_t store_handle(const struct store *store, uint64_t inode,
			 uint32_t tree)
{
	return (rf_handle_t){ inode, tree, handle_tag(store, inode, tree) };
}

bool store_handle_is_valid(const struct store *store, const rf_handle_t *handle)
{
	return tags_are_equal(handle_tag(store, handle->inode, handle->tree),
			      handle->tag);
}

uint64_t store_open_tag(const struct store *store,
			const struct open_proof *proof)
{
	uint8_t bytes[24];

	rf_store_u64(bytes, proof->session);
	rf_store_u64(bytes + 8, proof->inode);
	rf_store_u32(bytes + 16, proof->open);
	rf_store_u32(bytes + 20, proof->flags);
	return tag_of(store, bytes, sizeof(bytes));
}

bool store_open_tag_is_valid(const struct store *store,
			     const struct open_proof *proof, uint64_t tag)
{
	return tags_are_equal(store_open_tag(store, proof), tag);
}

/* ---- failures of the disk ------------------------------------------------ */

int store_say_failure(const struct object *object, const char *doing, int err)
{
	struct store *store = object->store;
	uint64_t now = rf_now_ns(), last = atomic_load(&store->failure_said_ns);
	char others[64] = "";
	uint64_t unsaid;

	/* Room has lines of its own. */
	if (err == -ENOSPC || err == -EDQUOT)
		return err;
	if ((last && now - last < FAILURE_SAY_MS * UINT64_C(1000000)) ||
	    !atomic_compare_exchange_strong(&store->failure_said_ns, &last,
					    now)) {
		atomic_fetch_add(&store->failures_unsaid, 1);
		return err;
	}
	unsaid = atomic_exchange(&store->failures_unsaid, 0);
	if (unsaid)
		snprintf(others, sizeof(others), " (and %llu failures since "
			 "the last such line)", (unsigned long long)unsaid);
	rf_log(RF_LOG_ERROR, "inode %llu: %s of its data: %s%s; who asked for "
	       "it is told: see to the disk of %s",
	       (unsigned long long)object->inode, doing, strerror(-err), others,
	       store->config.dir);
	return err;
}

/* ---- room ---------------------------------------------------------------- */

static void say_space(struct store *store, bool is_low)
{
	if (atomic_exchange(&store->space_is_low, is_low) == is_low)
		return;
	if (is_low)
		rf_log(RF_LOG_WARN, "store %s: its file system is full up to "
		       "the reserve: files can't grow until space is freed",
		       store->config.dir);
	else
		rf_log(RF_LOG_INFO, "store %s: there is space again",
		       store->config.dir);
}

/*
 * Count down what the last look at the file system found, and look again when
 * that is used up or old.
 */
int store_take_space(struct store *store, uint64_t size)
{
	uint64_t now = rf_now_ns();
	uint64_t age = now - atomic_load(&store->space_checked_ns);
	struct statvfs vfs;
	uint64_t free;
	int64_t left;

	left = atomic_fetch_sub(&store->space_left, (int64_t)size) -
	       (int64_t)size;
	if (left >= 0 && age < SPACE_CHECK_MS * UINT64_C(1000000))
		return 0;
	if (fstatvfs(store->data_fd, &vfs))
		return -errno;
	free = (uint64_t)vfs.f_bavail * vfs.f_frsize;
	left = (int64_t)free - (int64_t)store->config.reserve_bytes -
	       (int64_t)size;
	atomic_store(&store->space_left, left);
	atomic_store(&store->space_checked_ns, now);
	say_space(store, left < 0);
	return left < 0 ? -ENOSPC : 0;
}

int store_statfs(struct store *store, struct rf_statfs_results *out)
{
	struct statvfs vfs;
	uint64_t reserve;

	if (fstatvfs(store->data_fd, &vfs))
		return -errno;
	reserve = store->config.reserve_bytes / vfs.f_frsize;
	*out = (struct rf_statfs_results){
		.block_size = (uint32_t)vfs.f_frsize,
		.blocks = vfs.f_blocks,
		.free = vfs.f_bfree - rf_min_u64(reserve, vfs.f_bfree),
		.available = vfs.f_bavail - rf_min_u64(reserve, vfs.f_bavail),
		.files = vfs.f_files,
		.files_free = vfs.f_ffree,
		.name_max = RF_NAME_MAX,
	};
	return 0;
}

/* ---- small answers ------------------------------------------------------- */

void store_uuid(const struct store *store, uint8_t out[16])
{
	memcpy(out, store->volume.uuid, 16);
}

void store_stats(const struct store *store, struct store_stats *out)
{
	*out = (struct store_stats){
		.commits = atomic_load(&store->committed),
		.flushes = atomic_load(&store->flushes),
		.syncs = atomic_load(&store->sync.rounds),
		.sync_requests = atomic_load(&store->sync.requests),
		.objects_open = store->objects.referenced,
		.objects_cached = store->objects.used,
		.orphans = store->deletions.orphans,
	};
}

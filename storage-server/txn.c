/* SPDX-License-Identifier: Apache-2.0 */
/*
 * txn.c - one atomic batch: what it changed is seen by its own reads
 *
 * Operation.  Inodes are decoded once into slots and encoded once at the
 * commit, however often they change.  All other puts and deletes are records in
 * a small byte array, each linked to the one before; reads walk it from the
 * newest.  The commit copies both into the engine's batch.
 *
 * The inode cache beside it holds committed state only, so an abort has nothing
 * to undo.
 *
 * Ownership.  Transactions and their first TXN_BYTES are made with the store;
 * only large attributes make the array grow, until the transaction ends.
 */
#include "store_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

struct record {
	uint32_t before;	/* offset + 1 of the record before, 0: none */
	uint32_t hash;
	uint32_t value_size;
	uint16_t key_size;
	uint8_t family;
	bool is_put;
};

static uint32_t hash_key(enum engine_family family, const void *key,
			 size_t size)
{
	const uint8_t *at = key;
	uint32_t hash = 2166136261u ^ (uint32_t)family;	/* FNV-1a */

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ at[i]) * 16777619u;
	return hash;
}

static struct record record_at(const struct txn *txn, uint32_t offset)
{
	struct record record;

	memcpy(&record, txn->bytes + offset, sizeof(record));
	return record;
}

static const uint8_t *record_key(const struct txn *txn, uint32_t offset)
{
	return txn->bytes + offset + sizeof(struct record);
}

/* Offset + 1 of the newest record of key, 0 if there is none. */
static uint32_t find_record(const struct txn *txn, enum engine_family family,
			    const void *key, size_t key_size)
{
	uint32_t hash, at = txn->last;

	if (!at)
		return 0;
	hash = hash_key(family, key, key_size);
	while (at) {
		struct record record = record_at(txn, at - 1);

		if (record.hash == hash && record.family == family &&
		    record.key_size == key_size &&
		    memcmp(record_key(txn, at - 1), key, key_size) == 0)
			return at;
		at = record.before;
	}
	return 0;
}

/* ---- begin and end ------------------------------------------------------- */

static void start_txn(struct store *store, struct txn *txn)
{
	txn->store = store;
	txn->is_used = true;
	txn->grows = false;
	txn->orphan_change = 0;
	txn->failed = 0;
	txn->slot_count = 0;
	txn->used = 0;
	txn->last = 0;
}

struct txn *txn_begin(struct store *store)
{
	for (unsigned int i = 0; i < TXNS_MAX; i++)
		if (!store->txns[i].is_used) {
			start_txn(store, &store->txns[i]);
			return &store->txns[i];
		}
	return NULL;
}

struct txn *txn_begin_internal(struct store *store)
{
	struct txn *txn = &store->txns[TXN_INTERNAL];

	RF_ASSERT(!txn->is_used);
	start_txn(store, txn);
	return txn;
}

static void end_txn(struct txn *txn)
{
	size_t index = (size_t)(txn - txn->store->txns);

	if (txn->size > TXN_BYTES) {
		free(txn->bytes);
		txn->bytes = txn->store->txn_bytes + index * TXN_BYTES;
		txn->size = TXN_BYTES;
	}
	txn->is_used = false;
}

bool txn_is_dirty(const struct txn *txn)
{
	if (txn->last)
		return true;
	for (unsigned int i = 0; i < txn->slot_count; i++)
		if (txn->slots[i].is_dirty)
			return true;
	return false;
}

/* What was done to the data of this inode will not be recorded. */
static void drop_slot(struct txn *txn, const struct slot *slot)
{
	if (!slot->is_dirty || !S_ISREG(slot->inode.mode))
		return;
	if (slot->is_new)
		deletions_discard(txn->store, slot->inode.number);
	else
		objects_note_abort(txn->store, &slot->inode);
}

void txn_abort(struct txn *txn)
{
	RF_ASSERT(txn->is_used);
	for (unsigned int i = 0; i < txn->slot_count; i++)
		drop_slot(txn, &txn->slots[i]);
	end_txn(txn);
}

void txn_save(struct txn *txn)
{
	struct txn_saved *saved = &txn->store->saved;

	saved->txn = txn;
	saved->grows = txn->grows;
	saved->orphan_change = txn->orphan_change;
	saved->slot_count = txn->slot_count;
	saved->used = txn->used;
	saved->last = txn->last;
	memcpy(saved->slots, txn->slots,
	       txn->slot_count * sizeof(txn->slots[0]));
}

void txn_undo(struct txn *txn)
{
	const struct txn_saved *saved = &txn->store->saved;

	RF_ASSERT(txn->is_used && saved->txn == txn);
	/* Of one that was changed before, the commit or the abort will see to it. */
	for (unsigned int i = 0; i < txn->slot_count; i++)
		if (i >= saved->slot_count || !saved->slots[i].is_dirty)
			drop_slot(txn, &txn->slots[i]);
	txn->grows = saved->grows;
	txn->orphan_change = saved->orphan_change;
	txn->failed = 0;
	txn->slot_count = saved->slot_count;
	txn->used = saved->used;
	txn->last = saved->last;
	memcpy(txn->slots, saved->slots,
	       saved->slot_count * sizeof(txn->slots[0]));
}

/* ---- records ------------------------------------------------------------- */

static int make_room(struct txn *txn, size_t size)
{
	size_t wanted = txn->size;
	bool is_first = txn->size == TXN_BYTES;
	uint8_t *bytes;

	if (size > TXN_BYTES_MAX - txn->used)
		return -E2BIG;
	while (wanted - txn->used < size)
		wanted *= 2;
	if (wanted == txn->size)
		return 0;
	bytes = realloc(is_first ? NULL : txn->bytes, wanted);
	if (!bytes)
		return -ENOMEM;
	if (is_first)
		memcpy(bytes, txn->bytes, txn->used);
	txn->bytes = bytes;
	txn->size = (uint32_t)wanted;
	return 0;
}

static int add_record(struct txn *txn, enum engine_family family,
		      const void *key, size_t key_size, const void *value,
		      size_t size, bool is_put)
{
	struct record record = {
		.before = txn->last,
		.hash = hash_key(family, key, key_size),
		.value_size = (uint32_t)size,
		.key_size = (uint16_t)key_size,
		.family = (uint8_t)family,
		.is_put = is_put,
	};
	uint8_t *at;
	int err;

	RF_ASSERT(key_size <= KEY_SIZE_MAX);
	if (size > TXN_BYTES_MAX)
		return -E2BIG;
	err = make_room(txn, sizeof(record) + key_size + size);
	if (err) {
		/* The operation may have put others: never commit a half. */
		txn->failed = err;
		return err;
	}
	at = txn->bytes + txn->used;
	memcpy(at, &record, sizeof(record));
	memcpy(at + sizeof(record), key, key_size);
	if (size)
		memcpy(at + sizeof(record) + key_size, value, size);
	txn->last = txn->used + 1;
	txn->used += (uint32_t)(sizeof(record) + key_size + size);
	return 0;
}

int txn_put(struct txn *txn, enum engine_family family, const void *key,
	    size_t key_size, const void *value, size_t size)
{
	return add_record(txn, family, key, key_size, value, size, true);
}

int txn_delete(struct txn *txn, enum engine_family family, const void *key,
	       size_t key_size)
{
	return add_record(txn, family, key, key_size, NULL, 0, false);
}

int txn_get(struct txn *txn, enum engine_family family, const void *key,
	    size_t key_size, struct txn_value *out)
{
	uint32_t at = find_record(txn, family, key, key_size);
	struct record record;
	int err;

	out->pinned.pin = NULL;
	if (!at) {
		err = engine_get(txn->store->engine, family, key, key_size,
				 &out->pinned);
		if (err)
			return err;
		out->bytes = out->pinned.bytes;
		out->size = out->pinned.size;
		return 0;
	}
	record = record_at(txn, at - 1);
	if (!record.is_put)
		return -ENOENT;
	out->bytes = record_key(txn, at - 1) + record.key_size;
	out->size = record.value_size;
	return 0;
}

void txn_release(struct txn_value *value)
{
	if (value->pinned.pin)
		engine_release(&value->pinned);
}

/* ---- walks --------------------------------------------------------------- */

struct walk {
	struct txn *txn;
	enum engine_family family;
	int (*each)(struct txn *txn, const void *key, size_t key_size,
		    size_t value_size, void *context);
	void *context;
};

/* The keys that the transaction changed itself and that are there now. */
static int walk_records(struct walk *walk, const void *prefix,
			size_t prefix_size, uint32_t last)
{
	struct txn *txn = walk->txn;
	struct record record;

	for (uint32_t at = last; at; at = record.before) {
		uint8_t key[KEY_SIZE_MAX];
		int err;

		record = record_at(txn, at - 1);
		if (record.family != walk->family || !record.is_put ||
		    record.key_size < prefix_size ||
		    memcmp(record_key(txn, at - 1), prefix, prefix_size) != 0)
			continue;
		/* each() may move the array. */
		memcpy(key, record_key(txn, at - 1), record.key_size);
		if (find_record(txn, walk->family, key, record.key_size) != at)
			continue;
		err = walk->each(txn, key, record.key_size, record.value_size,
				 walk->context);
		if (err)
			return err;
	}
	return 0;
}

/* The keys of the engine that the transaction did not touch. */
static int walk_engine(struct walk *walk, struct engine_scan *scan,
		       bool has_records)
{
	const void *key, *value;
	size_t key_size, size;
	int err;

	while ((err = engine_scan_next(scan, &key, &key_size, &value,
				       &size)) == 1) {
		if (has_records && find_record(walk->txn, walk->family, key,
					       key_size))
			continue;
		err = walk->each(walk->txn, key, key_size, size, walk->context);
		if (err)
			return err;
	}
	return err;
}

int txn_for_each(struct txn *txn, enum engine_family family,
		 const void *prefix, size_t prefix_size,
		 int (*each)(struct txn *txn, const void *key, size_t key_size,
			     size_t value_size, void *context),
		 void *context)
{
	struct walk walk = { txn, family, each, context };
	uint32_t last = txn->last;
	struct engine_scan scan;
	int err;

	err = walk_records(&walk, prefix, prefix_size, last);
	if (err)
		return err;
	err = engine_scan_open(txn->store->engine, family, prefix, prefix_size,
			       prefix, prefix_size, &scan);
	if (err)
		return err;
	err = walk_engine(&walk, &scan, last != 0);
	engine_scan_close(&scan);
	return err;
}

/* ---- inodes -------------------------------------------------------------- */

static struct inode *cache_place(struct store *store, uint64_t inode)
{
	return &store->inode_cache[inode % INODE_CACHE];
}

void store_cache_inode(struct store *store, const struct inode *inode)
{
	*cache_place(store, inode->number) = *inode;
}

void store_uncache_inode(struct store *store, uint64_t inode)
{
	struct inode *place = cache_place(store, inode);

	if (place->number == inode)
		place->number = 0;
}

int store_read_inode(struct store *store, uint64_t inode, struct inode *out)
{
	const struct inode *cached = cache_place(store, inode);
	uint8_t key[INODE_KEY_SIZE];
	struct engine_value value;
	int err;

	if (inode == 0)		/* the volume's own records */
		return -ESTALE;
	if (cached->number == inode) {
		*out = *cached;
		return 0;
	}
	key_inode(key, inode, KIND_ATTRIBUTES);
	err = engine_get(store->engine, ENGINE_INODES, key, sizeof(key),
			 &value);
	if (err)
		return err == -ENOENT ? -ESTALE : err;
	err = inode_decode(inode, value.bytes, value.size, out);
	engine_release(&value);
	if (err)
		rf_log(RF_LOG_ERROR, "inode %llu: its record is damaged or of "
		       "a newer version", (unsigned long long)inode);
	else
		store_cache_inode(store, out);
	return err;
}

static struct slot *find_slot(struct txn *txn, uint64_t inode)
{
	for (unsigned int i = 0; i < txn->slot_count; i++)
		if (txn->slots[i].inode.number == inode)
			return &txn->slots[i];
	return NULL;
}

int store_find_inode(struct store *store, uint64_t inode, struct inode *out)
{
	for (unsigned int i = 0; i <= TXN_INTERNAL; i++) {
		struct slot *slot;

		if (!store->txns[i].is_used)
			continue;
		slot = find_slot(&store->txns[i], inode);
		if (!slot || !(slot->is_dirty || slot->is_deleted))
			continue;
		if (slot->is_deleted)
			return -ESTALE;
		*out = slot->inode;
		return 0;
	}
	return store_read_inode(store, inode, out);
}

int txn_new_slot(struct txn *txn, struct slot **out)
{
	struct slot *slot;

	if (txn->slot_count == TXN_INODES_MAX)
		return -E2BIG;
	slot = &txn->slots[txn->slot_count++];
	*slot = (struct slot){ .is_dirty = true, .is_new = true };
	*out = slot;
	return 0;
}

int txn_slot(struct txn *txn, uint64_t inode, struct slot **out)
{
	struct slot *slot = find_slot(txn, inode);
	int err;

	if (slot) {
		*out = slot;
		return slot->is_deleted ? -ESTALE : 0;
	}
	if (txn->slot_count == TXN_INODES_MAX)
		return -E2BIG;
	slot = &txn->slots[txn->slot_count];
	err = store_read_inode(txn->store, inode, &slot->inode);
	if (err)
		return err;
	slot->is_dirty = slot->is_new = slot->is_deleted = false;
	slot->was_orphan = slot->inode.nlink == 0;
	txn->slot_count++;
	*out = slot;
	return 0;
}

/* ctime never stands still or goes back, whatever the clock does. */
static void advance_ctime(struct inode *inode, const rf_time_t *now)
{
	if (time_compare(now, &inode->ctime) > 0) {
		inode->ctime = *now;
		return;
	}
	if (++inode->ctime.nanoseconds == 1000000000u) {
		inode->ctime.nanoseconds = 0;
		inode->ctime.seconds++;
	}
}

uint64_t slot_touch(struct slot *slot)
{
	rf_time_t now = store_now();

	advance_ctime(&slot->inode, &now);
	slot->is_dirty = true;
	return slot->inode.change++;
}

uint64_t slot_touch_data(struct slot *slot)
{
	uint64_t before = slot_touch(slot);

	slot->inode.mtime = slot->inode.ctime;
	return before;
}

/* ---- commit -------------------------------------------------------------- */

static void batch_records(struct txn *txn)
{
	struct store *store = txn->store;
	uint32_t at = 0;

	while (at < txn->used) {
		struct record record = record_at(txn, at);
		const uint8_t *key = record_key(txn, at);

		if (record.is_put)
			engine_batch_put(store->engine, store->batch,
					 record.family, key, record.key_size,
					 key + record.key_size,
					 record.value_size);
		else
			engine_batch_delete(store->engine, store->batch,
					    record.family, key,
					    record.key_size);
		at += (uint32_t)sizeof(record) + record.key_size +
		      record.value_size;
	}
}

static void batch_slot(struct store *store, const struct slot *slot)
{
	uint8_t key[INODE_KEY_SIZE], value[INODE_RECORD_SIZE];

	if (!slot->is_dirty)
		return;
	key_inode(key, slot->inode.number, KIND_ATTRIBUTES);
	if (slot->is_deleted) {
		if (!slot->is_new)
			engine_batch_delete(store->engine, store->batch,
					    ENGINE_INODES, key, sizeof(key));
		return;
	}
	inode_encode(&slot->inode, value);
	engine_batch_put(store->engine, store->batch, ENGINE_INODES, key,
			 sizeof(key), value, sizeof(value));
}

static int settle_slots(struct txn *txn)
{
	for (unsigned int i = 0; i < txn->slot_count; i++) {
		struct slot *slot = &txn->slots[i];
		int err;

		if (!slot->is_dirty || slot->is_deleted || slot->inode.nlink)
			continue;
		err = orphan_settle(txn, slot);
		if (err)
			return err;
	}
	return 0;
}

static void publish_slots(struct txn *txn)
{
	struct store *store = txn->store;

	for (unsigned int i = 0; i < txn->slot_count; i++) {
		const struct slot *slot = &txn->slots[i];

		if (!slot->is_dirty)
			continue;
		if (slot->is_deleted) {
			store_uncache_inode(store, slot->inode.number);
			continue;
		}
		store_cache_inode(store, &slot->inode);
		if (S_ISREG(slot->inode.mode))
			objects_note_size(store, &slot->inode);
	}
}

static int commit_batch(struct txn *txn)
{
	struct store *store = txn->store;
	int err;

	engine_batch_clear(store->batch);
	batch_records(txn);
	for (unsigned int i = 0; i < txn->slot_count; i++)
		batch_slot(store, &txn->slots[i]);
	err = engine_commit(store->engine, store->batch);
	if (err)
		return err;
	atomic_fetch_add(&store->committed, 1);
	return 0;
}

int txn_commit(struct txn *txn)
{
	struct store *store = txn->store;
	uint64_t deletions_end = store->deletions.end;
	int err;

	RF_ASSERT(txn->is_used);
	if (!txn_is_dirty(txn)) {
		end_txn(txn);
		return 0;
	}
	err = txn->failed ? txn->failed : settle_slots(txn);
	if (!err && txn->grows)
		err = store_take_space(store, txn->used);
	if (!err)
		err = commit_batch(txn);
	if (err) {
		store->deletions.end = deletions_end;
		txn_abort(txn);
		return err;
	}
	publish_slots(txn);
	store->deletions.orphans += (uint64_t)(int64_t)txn->orphan_change;
	end_txn(txn);
	return 0;
}

/* ---- replies ------------------------------------------------------------- */

int txn_record_reply(struct txn *txn, const struct reply_key *key,
		     const struct reply_record *record, const void *reply,
		     size_t size)
{
	uint8_t bytes[REPLY_KEY_SIZE], header[REPLY_HEADER_MAX];
	size_t header_size = reply_record_encode(record, header);
	uint32_t value_at;
	int err;

	key_reply(bytes, key->session, key->channel, key->slot);
	if (size > TXN_BYTES_MAX)
		return -E2BIG;
	err = make_room(txn, sizeof(struct record) + sizeof(bytes) +
			header_size + size);
	if (err)
		return err;
	err = add_record(txn, ENGINE_REPLIES, bytes, sizeof(bytes), header,
			 header_size, true);
	if (err)
		return err;
	/* The answer follows its header: one copy, straight into place. */
	value_at = txn->last - 1;
	memcpy(txn->bytes + txn->used, reply, size);
	txn->used += (uint32_t)size;
	rf_store_u32(txn->bytes + value_at + offsetof(struct record, value_size),
		     (uint32_t)(header_size + size));
	return 0;
}

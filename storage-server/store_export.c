/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_export.c - the directories that exports show
 *
 * Each has a tree number that all below it inherit, so that a handle tells its
 * export.  What was exported once is remembered for good: an export inside
 * another, now or in an earlier configuration, would hold inodes of two trees,
 * and is refused.
 */
#include "store_impl.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	EXPORT_PATH_MAX = 255,
	EXPORT_KEY_MAX = INODE_KEY_SIZE + EXPORT_PATH_MAX,
};
_Static_assert((int)EXPORT_KEY_MAX <= (int)KEY_SIZE_MAX, "keys of a txn");

/* Without slashes at the ends and doubled ones.  -EINVAL: "..", too long. */
static int normalise(const char *path, char out[EXPORT_PATH_MAX + 1])
{
	size_t size = 0;

	while (*path) {
		size_t part = strcspn(path, "/");
		rf_name_t name = { path, (uint16_t)rf_min_u64(part, 65535) };

		path += part;
		path += strspn(path, "/");
		if (part == 0)
			continue;
		if (name_check(&name) ||
		    size + (size != 0) + part > EXPORT_PATH_MAX)
			return -EINVAL;
		if (size)
			out[size++] = '/';
		memcpy(out + size, name.bytes, part);
		size += part;
	}
	out[size] = 0;
	return 0;
}

static bool is_inside(const char *path, size_t size, const char *top,
		      size_t top_size)
{
	if (top_size == 0)
		return size != 0;
	return size > top_size && memcmp(path, top, top_size) == 0 &&
	       path[top_size] == '/';
}

/* 1 if path is an export already; -EINVAL if it is nested with one. */
static int find_export(struct store *store, const char *path, uint64_t *inode,
		       uint32_t *tree)
{
	const void *key, *value;
	size_t key_size, size;
	struct engine_scan scan;
	uint8_t prefix[INODE_KEY_SIZE];
	int err, found = 0;

	key_volume(prefix, VOLUME_EXPORT);
	err = engine_scan_open(store->engine, ENGINE_INODES, prefix,
			       sizeof(prefix), prefix, sizeof(prefix), &scan);
	if (err)
		return err;
	while ((err = engine_scan_next(&scan, &key, &key_size, &value,
				       &size)) == 1) {
		const char *other = (const char *)key + INODE_KEY_SIZE;
		size_t other_size = key_size - INODE_KEY_SIZE;

		if (other_size == strlen(path) &&
		    memcmp(other, path, other_size) == 0) {
			err = export_decode(value, size, inode, tree);
			found = 1;
		} else if (is_inside(path, strlen(path), other, other_size) ||
			   is_inside(other, other_size, path, strlen(path))) {
			rf_log(RF_LOG_ERROR, "store %s: export of \"/%s\": "
			       "\"/%.*s\" is or was an export of this store, "
			       "and one must not be inside the other",
			       store->config.dir, path, (int)other_size, other);
			err = -EINVAL;
		} else {
			continue;
		}
		if (err < 0)
			break;
	}
	engine_scan_close(&scan);
	return err < 0 ? err : found;
}

static int next_tree(struct txn *txn, uint32_t *tree)
{
	uint8_t key[INODE_KEY_SIZE], record[TREES_RECORD_SIZE] = { 0 };
	struct txn_value value;
	int err;

	key_volume(key, VOLUME_TREES);
	err = txn_get(txn, ENGINE_INODES, key, sizeof(key), &value);
	if (err)
		return err;
	*tree = value.size == sizeof(record) ? rf_load_u32(value.bytes) + 1 : 0;
	txn_release(&value);
	if (*tree == 0)
		return -EIO;
	if (*tree > STORE_TREES_MAX)
		return -ENOSPC;
	rf_store_u32(record, *tree);
	return txn_put(txn, ENGINE_INODES, key, sizeof(key), record,
		       sizeof(record));
}

/* Walk path, making what is missing. */
static int make_path(struct txn *txn, const char *path, struct slot **out)
{
	const struct cred cred = { .uid = geteuid(), .gid = getegid(),
				   .is_super = true };
	uint64_t dir = STORE_ROOT_INODE;

	while (*path) {
		size_t part = strcspn(path, "/");
		struct make_args args = {
			.dir = dir,
			.name = { path, (uint16_t)part },
			.mode = S_IFDIR | 0755,
		};
		rf_attr_t attr;
		int err = txn_lookup(txn, &cred, dir, &args.name, &attr);

		if (err == -ENOENT)
			err = txn_make(txn, &cred, &args, &attr);
		if (err)
			return err;
		dir = attr.inode;
		path += part + (path[part] == '/');
	}
	return txn_slot(txn, dir, out);
}

static int make_export(struct txn *txn, const char *path, uint64_t *inode,
		       uint32_t *tree)
{
	uint8_t key[EXPORT_KEY_MAX], record[EXPORT_RECORD_SIZE];
	struct slot *slot;
	int err = make_path(txn, path, &slot);

	*tree = 0;
	if (!err && *path)
		err = next_tree(txn, tree);
	if (err)
		return err;
	*inode = slot->inode.number;
	if (*path) {
		slot->inode.tree = *tree;
		slot->is_dirty = true;
	}
	export_encode(*inode, *tree, record);
	memcpy(key + key_volume(key, VOLUME_EXPORT), path, strlen(path));
	return txn_put(txn, ENGINE_INODES, key, INODE_KEY_SIZE + strlen(path),
		       record, sizeof(record));
}

int store_export(struct store *store, const char *path, uint64_t *inode,
		 uint32_t *tree)
{
	char plain[EXPORT_PATH_MAX + 1];
	struct txn *txn;
	int err = normalise(path, plain);

	if (err) {
		rf_log(RF_LOG_ERROR, "store %s: \"%s\" is no path of an export",
		       store->config.dir, path);
		return err;
	}
	err = find_export(store, plain, inode, tree);
	if (err)
		return err < 0 ? err : 0;
	txn = txn_begin_internal(store);
	err = make_export(txn, plain, inode, tree);
	if (err) {
		txn_abort(txn);
		return err;
	}
	err = txn_commit(txn);
	return err ? err : store_sync_log(store);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names_readdir.c - a directory's entries, in the order of their hashes
 *
 * A cookie says: go on with hashes above.  "." has cookie 1, ".." 2, an entry
 * its hash; where several names share a hash, all but the last of them have the
 * hash minus 1.  So a listing may stop anywhere and go on without skipping any;
 * if it stops inside such a group, the group comes again.
 */
#include "store_impl.h"

#include <errno.h>
#include <sys/stat.h>

enum { COOKIE_DOT = 1, COOKIE_DOT_DOT = 2 };

struct listing {
	struct store *store;
	bool wants_attr;
	bool (*put)(void *context, const struct rf_dirent *entry);
	void *context;
	/* Held back until the hash of the next one is known. */
	struct rf_dirent held;
	char name[RF_NAME_MAX];
	bool is_full;
};

/*
 * Give the entry that was held back.  An inode that is gone is a name that is
 * going; it can't be, as both change in one batch, unless a record is damaged.
 */
static void give_held(struct listing *list, uint64_t cookie)
{
	struct rf_dirent *entry = &list->held;
	struct inode inode;

	if (entry->name.size == 0)
		return;
	entry->cookie = cookie;
	entry->has_attr = false;
	if (list->wants_attr &&
	    store_read_inode(list->store, entry->inode, &inode) == 0) {
		entry->has_attr = true;
		entry->handle = store_handle(list->store, inode.number,
					     inode.tree);
		inode_to_attr(&inode, &entry->attr);
	}
	list->is_full = !list->put(list->context, entry);
	entry->name.size = 0;
}

static int hold(struct listing *list, const void *key, size_t key_size,
		const void *value, size_t size, uint64_t *hash)
{
	struct rf_dirent *entry = &list->held;
	rf_name_t name;
	int err;

	err = entry_key_decode(key, key_size, hash, &name);
	if (!err)
		err = entry_decode(value, size, &entry->inode, &entry->type);
	if (err)
		return err;
	memcpy(list->name, name.bytes, name.size);
	entry->name = (rf_name_t){ list->name, name.size };
	return 0;
}

static int list_names(struct listing *list, struct engine_scan *scan)
{
	const void *key, *value;
	size_t key_size, size;
	uint64_t held_hash = 0, hash;
	int err;

	while ((err = engine_scan_next(scan, &key, &key_size, &value,
				       &size)) == 1) {
		rf_name_t name;

		err = entry_key_decode(key, key_size, &hash, &name);
		if (err)
			return err;
		give_held(list, hash == held_hash ? hash - 1 : held_hash);
		if (list->is_full)
			return 0;
		err = hold(list, key, key_size, value, size, &held_hash);
		if (err)
			return err;
	}
	if (err)
		return err;
	give_held(list, held_hash);
	return 0;
}

static bool give_dot(struct listing *list, const struct inode *dir,
		     uint64_t cookie)
{
	struct rf_dirent entry = {
		.cookie = cookie,
		.inode = dir->number,
		.type = S_IFDIR,
		.name = { "..", (uint16_t)cookie },
	};
	struct inode parent;

	/* The top of an export is its own parent: above is not for its users. */
	if (cookie == COOKIE_DOT_DOT &&
	    store_read_inode(list->store, dir->parent, &parent) == 0 &&
	    parent.tree == dir->tree)
		entry.inode = parent.number;
	return list->put(list->context, &entry);
}

static int list_from(struct listing *list, uint64_t dir, uint64_t cookie)
{
	static const rf_name_t no_name = { "", 0 };
	uint8_t start[KEY_SIZE_MAX];
	struct engine_scan scan;
	size_t size;
	int err;

	size = key_entry(start, dir, cookie + 1, &no_name);
	err = engine_scan_open(list->store->engine, ENGINE_NAMES, start,
			       NAME_PREFIX_SIZE, start, size, &scan);
	if (err)
		return err;
	err = list_names(list, &scan);
	engine_scan_close(&scan);
	return err;
}

int txn_readdir(struct txn *txn, uint64_t dir, uint64_t cookie, bool wants_attr,
		bool (*put)(void *context, const struct rf_dirent *entry),
		void *context, bool *eof)
{
	struct listing list = {
		.store = txn->store,
		.wants_attr = wants_attr,
		.put = put,
		.context = context,
	};
	struct slot *slot;
	int err;

	RF_ASSERT(!txn_is_dirty(txn));
	*eof = false;
	err = name_dir(txn, dir, &slot);
	if (err == -ENOENT) {		/* removed, but still open */
		*eof = true;
		return 0;
	}
	if (err)
		return err;
	for (; cookie < COOKIE_DOT_DOT; cookie++)
		if (!give_dot(&list, &slot->inode, cookie + 1))
			return 0;
	if (cookie > INT64_MAX)
		return -EINVAL;
	if (slot->inode.entries)
		err = list_from(&list, dir, cookie);
	*eof = !err && !list.is_full;
	return err;
}

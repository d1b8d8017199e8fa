/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.c - directory entries: make, lookup, link, unlink, rmdir
 *
 * Errors come in the order in which the kernel's VFS finds them: search
 * permission, what the name is, then write permission and the rest.
 *
 * A directory counts its entries and keeps its parent, so that emptiness and
 * ancestry need no scan.
 */
#include "store_impl.h"

#include <errno.h>
#include <sodium.h>
#include <sys/stat.h>

uint64_t store_name_hash(const struct store *store, const rf_name_t *name)
{
	uint8_t out[crypto_shorthash_BYTES];
	uint64_t hash;

	crypto_shorthash(out, (const uint8_t *)name->bytes, name->size,
			 store->volume.hash_key);
	hash = (rf_load_u64(out) >> 1) & store->hash_mask;
	return rf_max_u64(hash, 3);
}

int name_check(const rf_name_t *name)
{
	if (name->size == 0)
		return -ENOENT;
	if (name->size > RF_NAME_MAX)
		return -ENAMETOOLONG;
	if (memchr(name->bytes, '/', name->size) ||
	    memchr(name->bytes, 0, name->size))
		return -EINVAL;
	if (name->bytes[0] == '.' &&
	    (name->size == 1 || (name->size == 2 && name->bytes[1] == '.')))
		return -EINVAL;
	return 0;
}

/* ---- records ------------------------------------------------------------- */

int name_find(struct txn *txn, uint64_t dir, const rf_name_t *name,
	      struct name_entry *out)
{
	uint8_t key[KEY_SIZE_MAX];
	struct txn_value value;
	size_t size;
	int err;

	size = key_entry(key, dir, store_name_hash(txn->store, name), name);
	err = txn_get(txn, ENGINE_NAMES, key, size, &value);
	if (err)
		return err;
	err = entry_decode(value.bytes, value.size, &out->inode, &out->type);
	txn_release(&value);
	if (err)
		rf_log(RF_LOG_ERROR, "directory %llu: the record of a name is "
		       "damaged or of a newer version",
		       (unsigned long long)dir);
	return err;
}

int name_put(struct txn *txn, uint64_t dir, const rf_name_t *name,
	     const struct inode *inode)
{
	uint8_t key[KEY_SIZE_MAX], value[ENTRY_RECORD_SIZE];
	size_t size;

	size = key_entry(key, dir, store_name_hash(txn->store, name), name);
	entry_encode(inode->number, inode->mode, value);
	return txn_put(txn, ENGINE_NAMES, key, size, value, sizeof(value));
}

int name_delete(struct txn *txn, uint64_t dir, const rf_name_t *name)
{
	uint8_t key[KEY_SIZE_MAX];
	size_t size;

	size = key_entry(key, dir, store_name_hash(txn->store, name), name);
	return txn_delete(txn, ENGINE_NAMES, key, size);
}

/* ---- shared rules -------------------------------------------------------- */

int name_dir(struct txn *txn, uint64_t dir, struct slot **out)
{
	int err = txn_slot(txn, dir, out);

	if (err)
		return err;
	if (!S_ISDIR((*out)->inode.mode))
		return -ENOTDIR;
	if ((*out)->inode.nlink == 0)
		return -ENOENT;
	return 0;
}

int name_may_remove(struct txn *txn, const struct cred *cred,
		    const struct inode *dir, const struct inode *child)
{
	int err = inode_may(txn, cred, dir, MAY_WRITE | MAY_EXEC);

	if (err)
		return err;
	if ((dir->mode & S_ISVTX) && !cred->is_super &&
	    cred->uid != child->uid && cred->uid != dir->uid)
		return -EPERM;
	return 0;
}

void name_drop(struct slot *child)
{
	struct inode *inode = &child->inode;

	/* A directory has one name; its own "." goes with it. */
	inode->nlink = S_ISDIR(inode->mode) ? 0 : inode->nlink - 1;
	slot_touch(child);
}

/* dir by handle, name in it, and what it stands for. */
static int find_child(struct txn *txn, const struct cred *cred, uint64_t dir,
		      const rf_name_t *name, struct slot **dir_slot,
		      struct slot **child)
{
	struct name_entry entry;
	int err;

	err = name_dir(txn, dir, dir_slot);
	if (!err)
		err = name_check(name);
	if (!err)
		err = inode_may(txn, cred, &(*dir_slot)->inode, MAY_EXEC);
	if (!err)
		err = name_find(txn, dir, name, &entry);
	if (!err)
		err = txn_slot(txn, entry.inode, child);
	return err;
}

/* dir by handle, to get a new name. */
static int find_place(struct txn *txn, const struct cred *cred, uint64_t dir,
		      const rf_name_t *name, struct slot **dir_slot)
{
	struct name_entry entry;
	int err;

	err = name_dir(txn, dir, dir_slot);
	if (!err)
		err = name_check(name);
	if (!err)
		err = inode_may(txn, cred, &(*dir_slot)->inode, MAY_EXEC);
	if (err)
		return err;
	err = name_find(txn, dir, name, &entry);
	if (err != -ENOENT)
		return err ? err : -EEXIST;
	return 0;
}

int txn_lookup(struct txn *txn, const struct cred *cred, uint64_t dir,
	       const rf_name_t *name, rf_attr_t *out)
{
	struct slot *dir_slot, *child;
	int err = find_child(txn, cred, dir, name, &dir_slot, &child);

	if (!err)
		inode_to_attr(&child->inode, out);
	return err;
}

/* ---- make ---------------------------------------------------------------- */

static int check_make(const struct cred *cred, const struct make_args *args,
		      const struct inode *dir)
{
	switch (args->mode & S_IFMT) {
	case S_IFREG:
	case S_IFIFO:
	case S_IFSOCK:
		return 0;
	case S_IFDIR:
		return dir->nlink >= STORE_LINK_MAX ? -EMLINK : 0;
	case S_IFCHR:
		/* Device 0, 0 is none: a whiteout. */
		return cred->is_super || args->rdev == 0 ? 0 : -EPERM;
	case S_IFBLK:
		return cred->is_super ? 0 : -EPERM;
	case S_IFLNK:
		if (args->target.size == 0)
			return -ENOENT;
		if (args->target.size > RF_TARGET_MAX)
			return -ENAMETOOLONG;
		return memchr(args->target.bytes, 0, args->target.size) ?
		       -EINVAL : 0;
	default:
		return -EINVAL;
	}
}

/* Owner, group and setgid as a new inode in dir gets them. */
static void inherit(struct inode *inode, const struct cred *cred,
		    const struct inode *dir)
{
	inode->uid = cred->uid;
	inode->gid = cred->gid;
	inode->tree = dir->tree;
	if (!(dir->mode & S_ISGID))
		return;
	inode->gid = dir->gid;
	if (S_ISDIR(inode->mode))
		inode->mode |= S_ISGID;
	else if ((inode->mode & (S_ISGID | S_IXGRP)) ==
		 (S_ISGID | S_IXGRP) &&
		 !cred->is_super && !cred_has_group(cred, dir->gid))
		inode->mode &= ~(uint32_t)S_ISGID;
}

static void fill_new(struct inode *inode, const struct make_args *args,
		     const struct cred *cred, const struct inode *dir)
{
	inode->mode = args->mode & (S_IFMT | 07777);
	inode->nlink = 1;
	inode->change = 1;
	inode->atime = store_now();
	inode->mtime = inode->ctime = inode->btime = inode->atime;
	inherit(inode, cred, dir);
	if (S_ISDIR(inode->mode)) {
		inode->nlink = 2;
		inode->parent = dir->number;
		inode->size = DIR_SIZE;
		inode->blocks = DIR_SIZE / 512;
	} else if (S_ISLNK(inode->mode)) {
		inode->mode |= 0777;
		inode->size = args->target.size;
	} else if (S_ISCHR(inode->mode) || S_ISBLK(inode->mode)) {
		inode->rdev = args->rdev;
	}
}

static int put_target(struct txn *txn, uint64_t inode,
		      const rf_blob_t *target)
{
	uint8_t key[INODE_KEY_SIZE];

	key_inode(key, inode, KIND_TARGET);
	return txn_put(txn, ENGINE_INODES, key, sizeof(key), target->bytes,
		       target->size);
}

int txn_make(struct txn *txn, const struct cred *cred,
	     const struct make_args *args, rf_attr_t *out)
{
	struct slot *dir, *child;
	uint64_t number;
	int err;

	if (args->has_no_name)
		err = name_dir(txn, args->dir, &dir);
	else
		err = find_place(txn, cred, args->dir, &args->name, &dir);
	if (!err)
		err = inode_may(txn, cred, &dir->inode, MAY_WRITE | MAY_EXEC);
	if (!err)
		err = check_make(cred, args, &dir->inode);
	if (!err)
		err = store_new_inode(txn->store, &number);
	if (!err)
		err = txn_new_slot(txn, &child);
	if (err)
		return err;
	child->inode.number = number;
	fill_new(&child->inode, args, cred, &dir->inode);
	err = acl_init(txn, &dir->inode, child, args->umask);
	if (!err && args->has_no_name) {
		child->inode.nlink = 0;
		if (args->is_linkable)
			child->inode.flags |= INODE_IS_LINKABLE;
		txn->grows = true;
		inode_to_attr(&child->inode, out);
		return 0;
	}
	if (!err)
		err = name_put(txn, args->dir, &args->name, &child->inode);
	if (!err && S_ISLNK(child->inode.mode))
		err = put_target(txn, number, &args->target);
	if (err)
		return err;
	dir->inode.entries++;
	if (S_ISDIR(child->inode.mode))
		dir->inode.nlink++;
	slot_touch_data(dir);
	txn->grows = true;
	inode_to_attr(&child->inode, out);
	return 0;
}

/* ---- link and unlink ----------------------------------------------------- */

int txn_link(struct txn *txn, const struct cred *cred, uint64_t inode,
	     uint64_t dir, const rf_name_t *name, rf_attr_t *out)
{
	struct slot *dir_slot, *child;
	int err;

	err = txn_slot(txn, inode, &child);
	if (!err)
		err = find_place(txn, cred, dir, name, &dir_slot);
	if (!err && child->inode.tree != dir_slot->inode.tree)
		err = -EXDEV;
	if (!err)
		err = inode_may(txn, cred, &dir_slot->inode, MAY_WRITE | MAY_EXEC);
	if (err)
		return err;
	if (S_ISDIR(child->inode.mode))
		return -EPERM;
	if (child->inode.nlink == 0 &&
	    !(child->inode.flags & INODE_IS_LINKABLE))
		return -ENOENT;
	if (child->inode.nlink >= STORE_LINK_MAX)
		return -EMLINK;
	err = name_put(txn, dir, name, &child->inode);
	if (!err && child->was_orphan)
		err = orphan_forget(txn, child);
	if (err)
		return err;
	child->inode.flags &= (uint8_t)~INODE_IS_LINKABLE;
	child->inode.nlink++;
	slot_touch(child);
	dir_slot->inode.entries++;
	slot_touch_data(dir_slot);
	txn->grows = true;
	inode_to_attr(&child->inode, out);
	return 0;
}

int txn_unlink(struct txn *txn, const struct cred *cred, uint64_t dir,
	       const rf_name_t *name, uint64_t *gone)
{
	struct slot *dir_slot, *child;
	int err;

	err = find_child(txn, cred, dir, name, &dir_slot, &child);
	if (!err)
		err = name_may_remove(txn, cred, &dir_slot->inode, &child->inode);
	if (!err && S_ISDIR(child->inode.mode))
		err = -EISDIR;
	if (!err)
		err = name_delete(txn, dir, name);
	if (err)
		return err;
	name_drop(child);
	dir_slot->inode.entries--;
	slot_touch_data(dir_slot);
	if (gone)
		*gone = child->inode.number;
	return 0;
}

int txn_rmdir(struct txn *txn, const struct cred *cred, uint64_t dir,
	      const rf_name_t *name)
{
	struct slot *dir_slot, *child;
	int err;

	err = find_child(txn, cred, dir, name, &dir_slot, &child);
	if (!err)
		err = name_may_remove(txn, cred, &dir_slot->inode, &child->inode);
	if (!err && !S_ISDIR(child->inode.mode))
		err = -ENOTDIR;
	if (!err && child->inode.tree != dir_slot->inode.tree)
		err = -EBUSY;		/* another export's top */
	if (!err && child->inode.entries)
		err = -ENOTEMPTY;
	if (!err)
		err = name_delete(txn, dir, name);
	if (err)
		return err;
	name_drop(child);
	dir_slot->inode.entries--;
	dir_slot->inode.nlink--;
	slot_touch_data(dir_slot);
	return 0;
}

int txn_readlink(struct txn *txn, uint64_t inode, void *out, size_t room,
		 size_t *size)
{
	uint8_t key[INODE_KEY_SIZE];
	struct txn_value value;
	struct slot *slot;
	int err;

	err = txn_slot(txn, inode, &slot);
	if (err)
		return err;
	if (!S_ISLNK(slot->inode.mode))
		return -EINVAL;
	key_inode(key, inode, KIND_TARGET);
	err = txn_get(txn, ENGINE_INODES, key, sizeof(key), &value);
	if (err)
		return err == -ENOENT ? -EIO : err;
	if (value.size > room)
		err = -ENOSPC;
	else
		memcpy(out, value.bytes, value.size);
	*size = value.size;
	txn_release(&value);
	return err;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * acls.c - access control lists of inodes
 *
 * Operation.  A list is kept as the extended attribute that it is to programs;
 * flags of the inode say whether there is one, so that most inodes cost no
 * look-up.  The access list and the mode are kept in step: setting either sets
 * the other, and a list that says no more than a mode is not kept.
 */
#include "store_impl.h"

#include "acl.h"

#include <errno.h>
#include <sys/stat.h>

static const rf_name_t names[2] = {
	{ "system.posix_acl_access", 23 },
	{ "system.posix_acl_default", 24 },
};
static const uint8_t flags[2] = { INODE_HAS_ACL, INODE_HAS_DEFAULT_ACL };

bool acl_is_name(const rf_name_t *name, bool *is_default)
{
	for (unsigned int i = 0; i < 2; i++)
		if (name->size == names[i].size &&
		    memcmp(name->bytes, names[i].bytes, name->size) == 0) {
			*is_default = i == 1;
			return true;
		}
	return false;
}

/* ---- records ------------------------------------------------------------- */

static int load(struct txn *txn, const struct inode *inode, bool is_default,
		struct acl *out)
{
	uint8_t key[KEY_SIZE_MAX];
	struct txn_value value;
	int err = txn_get(txn, ENGINE_NAMES, key,
			  key_xattr(key, inode->number, &names[is_default]),
			  &value);

	if (err)
		return err == -ENOENT ? -EIO : err;
	err = acl_decode(value.bytes, value.size, out);
	txn_release(&value);
	return err ? -EIO : 0;
}

static int put(struct txn *txn, struct inode *inode, bool is_default,
	       const struct acl *acl)
{
	const rf_name_t *name = &names[is_default];
	uint8_t key[KEY_SIZE_MAX], value[ACL_SIZE_MAX];
	int err;

	if (!(inode->flags & flags[is_default]) &&
	    inode->xattr_size + name->size + 1u > XATTR_LIST_MAX_SIZE)
		return -ENOSPC;
	err = txn_put(txn, ENGINE_NAMES, key,
		      key_xattr(key, inode->number, name), value,
		      acl_encode(acl, value));
	if (err)
		return err;
	if (!(inode->flags & flags[is_default]))
		inode->xattr_size += name->size + 1u;
	inode->flags |= flags[is_default];
	txn->grows = true;
	return 0;
}

static int drop(struct txn *txn, struct inode *inode, bool is_default)
{
	const rf_name_t *name = &names[is_default];
	uint8_t key[KEY_SIZE_MAX];
	int err;

	if (!(inode->flags & flags[is_default]))
		return 0;
	err = txn_delete(txn, ENGINE_NAMES, key,
			 key_xattr(key, inode->number, name));
	if (err)
		return err;
	inode->flags &= (uint8_t)~flags[is_default];
	inode->xattr_size -= name->size + 1u;
	return 0;
}

/* ---- permission ---------------------------------------------------------- */

bool inode_acl_may(struct txn *txn, const struct cred *cred,
		   const struct inode *inode, unsigned int mask, int *err)
{
	struct acl acl;

	/* The owner's rights, and a class without any, are the mode's. */
	if (!(inode->flags & INODE_HAS_ACL) || cred->is_super ||
	    cred->uid == inode->uid || !(inode->mode & S_IRWXG))
		return false;
	*err = load(txn, inode, false, &acl);
	if (!*err)
		*err = acl_may(&acl, cred, inode->gid, mask);
	return true;
}

/* ---- setting ------------------------------------------------------------- */

static bool is_kept(struct txn *txn, const struct inode *inode, bool is_default,
		    const struct acl *acl, int *err)
{
	struct acl old;

	if (!(inode->flags & flags[is_default]))
		return !acl;
	if (!acl)
		return false;
	*err = load(txn, inode, is_default, &old);
	return !*err && old.count == acl->count &&
	       memcmp(old.v, acl->v, acl->count * sizeof(acl->v[0])) == 0;
}

/* acl: NULL for none.  As on ext4, no time moves if nothing changes. */
static int replace(struct txn *txn, struct slot *slot, bool is_default,
		   const struct acl *acl, uint32_t mode)
{
	struct inode *inode = &slot->inode;
	int err = 0;

	if (is_kept(txn, inode, is_default, acl, &err) && mode == inode->mode)
		return 0;
	if (!err)
		err = acl ? put(txn, inode, is_default, acl)
			  : drop(txn, inode, is_default);
	if (err)
		return err;
	inode->mode = mode;
	slot_touch(slot);
	return 0;
}

static int set_access(struct txn *txn, const struct cred *cred,
		      struct slot *slot, const struct acl *acl)
{
	uint32_t mode = slot->inode.mode;
	bool is_plain = acl_to_mode(acl, &mode);

	if (!cred->is_super && !cred_has_group(cred, slot->inode.gid))
		mode &= ~(uint32_t)S_ISGID;
	return replace(txn, slot, false, is_plain ? NULL : acl, mode);
}

int acl_set(struct txn *txn, const struct cred *cred, struct slot *slot,
	    bool is_default, const void *value, size_t size)
{
	const struct inode *inode = &slot->inode;
	struct acl acl = { 0 };
	int err = 0;

	if (S_ISLNK(inode->mode))
		return -EOPNOTSUPP;
	if (!cred->is_super && cred->uid != inode->uid)
		return -EPERM;
	/* A header alone is an empty list: none. */
	if (size > 4 || (size > 0 && size < 4))
		err = acl_decode(value, size, &acl);
	if (err)
		return err;
	if (is_default && !S_ISDIR(inode->mode))
		return acl.count ? -EACCES : 0;
	if (is_default || acl.count == 0)
		return replace(txn, slot, is_default, acl.count ? &acl : NULL,
			       inode->mode);
	return set_access(txn, cred, slot, &acl);
}

int acl_follow_mode(struct txn *txn, struct slot *slot)
{
	struct acl acl;
	int err;

	if (!(slot->inode.flags & INODE_HAS_ACL))
		return 0;
	err = load(txn, &slot->inode, false, &acl);
	if (err)
		return err;
	acl_chmod(&acl, slot->inode.mode);
	return put(txn, &slot->inode, false, &acl);
}

int acl_init(struct txn *txn, const struct inode *dir, struct slot *child,
	     uint32_t umask)
{
	struct inode *inode = &child->inode;
	struct acl acl;
	int err;

	if (S_ISLNK(inode->mode))
		return 0;
	if (!(dir->flags & INODE_HAS_DEFAULT_ACL)) {
		inode->mode &= ~(umask & 0777);
		return 0;
	}
	err = load(txn, dir, true, &acl);
	if (!err && S_ISDIR(inode->mode))
		err = put(txn, inode, true, &acl);
	if (!err && !acl_inherit(&acl, &inode->mode))
		err = put(txn, inode, false, &acl);
	return err;
}

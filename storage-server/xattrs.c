/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xattrs.c - extended attributes: user., trusted., security., and of system. the
 * access control lists (acls.c)
 *
 * An inode counts the bytes of its names, so that one without attributes (which
 * the kernel asks for security.capability at each write) costs no look-up.
 */
#include "store_impl.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

static bool begins_with(const rf_name_t *name, const char *prefix)
{
	size_t size = strlen(prefix);

	return name->size > size && memcmp(name->bytes, prefix, size) == 0;
}

static bool is_caps(const rf_name_t *name)
{
	static const char caps[] = "security.capability";

	return name->size == sizeof(caps) - 1 &&
	       memcmp(name->bytes, caps, name->size) == 0;
}

static int check_name(const rf_name_t *name)
{
	static const char *const spaces[] = { "user.", "trusted.", "security." };
	bool is_default;

	if (name->size == 0 || name->size > RF_NAME_MAX ||
	    memchr(name->bytes, 0, name->size))
		return -ERANGE;
	for (size_t i = 0; i < RF_ARRAY_SIZE(spaces); i++) {
		if (begins_with(name, spaces[i]))
			return 0;
		if (name->size == strlen(spaces[i]) &&
		    memcmp(name->bytes, spaces[i], name->size) == 0)
			return -EINVAL;
	}
	return acl_is_name(name, &is_default) ? 0 : -EOPNOTSUPP;
}

/* user. attributes are data: they are for what has data. */
static bool has_user_xattrs(const struct inode *inode)
{
	return S_ISREG(inode->mode) || S_ISDIR(inode->mode);
}

static int may_get(struct txn *txn, const struct cred *cred,
		   const struct inode *inode, const rf_name_t *name)
{
	if (begins_with(name, "trusted."))
		return cred->is_super ? 0 : -ENODATA;
	if (begins_with(name, "user.")) {
		if (!has_user_xattrs(inode))
			return -ENODATA;
		return inode_may(txn, cred, inode, MAY_READ);
	}
	return 0;
}

static int may_set(struct txn *txn, const struct cred *cred,
		   const struct inode *inode, const rf_name_t *name)
{
	if (!begins_with(name, "user."))
		return cred->is_super ? 0 : -EPERM;
	if (!has_user_xattrs(inode))
		return -EPERM;
	if (S_ISDIR(inode->mode) && (inode->mode & S_ISVTX) &&
	    !cred->is_super && cred->uid != inode->uid)
		return -EPERM;
	return inode_may(txn, cred, inode, MAY_WRITE);
}

/* ---- get and list -------------------------------------------------------- */

static int copy_out(const void *bytes, size_t bytes_size, void *out,
		    size_t room, size_t *size)
{
	*size = bytes_size;
	if (room == 0)
		return 0;		/* only the size was asked for */
	if (bytes_size > room)
		return -ERANGE;
	if (bytes_size)
		memcpy(out, bytes, bytes_size);
	return 0;
}

int txn_getxattr(struct txn *txn, const struct cred *cred, uint64_t inode,
		 const rf_name_t *name, void *out, size_t room, size_t *size)
{
	uint8_t key[KEY_SIZE_MAX];
	struct txn_value value;
	struct slot *slot;
	int err;

	err = txn_slot(txn, inode, &slot);
	if (!err)
		err = check_name(name);
	if (!err)
		err = may_get(txn, cred, &slot->inode, name);
	if (err)
		return err;
	if (slot->inode.xattr_size == 0)
		return -ENODATA;
	err = txn_get(txn, ENGINE_NAMES, key, key_xattr(key, inode, name),
		      &value);
	if (err)
		return err == -ENOENT ? -ENODATA : err;
	err = copy_out(value.bytes, value.size, out, room, size);
	txn_release(&value);
	return err;
}

struct list {
	const struct cred *cred;
	char *out;
	size_t room, size;
};

static int list_one(struct txn *txn, const void *key, size_t key_size,
		    size_t value_size, void *context)
{
	struct list *list = context;
	rf_name_t name = { (const char *)key + NAME_PREFIX_SIZE,
			   (uint16_t)(key_size - NAME_PREFIX_SIZE) };

	(void)txn;
	(void)value_size;
	if (begins_with(&name, "trusted.") && !list->cred->is_super)
		return 0;
	if (list->room) {
		if (list->room - list->size < name.size + 1u)
			return -ERANGE;
		memcpy(list->out + list->size, name.bytes, name.size);
		list->out[list->size + name.size] = 0;
	}
	list->size += name.size + 1u;
	return 0;
}

static void xattr_prefix(uint64_t inode, uint8_t out[NAME_PREFIX_SIZE])
{
	static const rf_name_t no_name = { "", 0 };

	key_xattr(out, inode, &no_name);
}

int txn_listxattr(struct txn *txn, const struct cred *cred, uint64_t inode,
		  void *out, size_t room, size_t *size)
{
	struct list list = { .cred = cred, .out = out, .room = room };
	uint8_t prefix[NAME_PREFIX_SIZE];
	struct slot *slot;
	int err;

	err = txn_slot(txn, inode, &slot);
	if (!err && slot->inode.xattr_size) {
		xattr_prefix(inode, prefix);
		err = txn_for_each(txn, ENGINE_NAMES, prefix, sizeof(prefix),
				   list_one, &list);
	}
	*size = list.size;
	return err;
}

/* ---- set and remove ------------------------------------------------------ */

/* 1: it is there, and *old is the caller's to release.  0: it is not. */
static int find(struct txn *txn, const struct inode *inode, const void *key,
		size_t key_size, struct txn_value *old)
{
	int err;

	if (inode->xattr_size == 0)
		return 0;
	err = txn_get(txn, ENGINE_NAMES, key, key_size, old);
	if (err)
		return err == -ENOENT ? 0 : err;
	return 1;
}

static bool is_value(const struct txn_value *old, const void *value,
		     size_t size)
{
	return old->size == size &&
	       (size == 0 || memcmp(old->bytes, value, size) == 0);
}

static int find_to_change(struct txn *txn, const struct cred *cred,
			  uint64_t inode, const rf_name_t *name,
			  struct slot **slot)
{
	int err = txn_slot(txn, inode, slot);

	if (!err)
		err = check_name(name);
	if (!err)
		err = may_set(txn, cred, &(*slot)->inode, name);
	return err;
}

static int check_set(const struct inode *inode, const rf_name_t *name,
		     unsigned int flags, bool is_there)
{
	if ((flags & XATTR_CREATE) && is_there)
		return -EEXIST;
	if ((flags & XATTR_REPLACE) && !is_there)
		return -ENODATA;
	if (!is_there &&
	    inode->xattr_size + name->size + 1u > XATTR_LIST_MAX_SIZE)
		return -ENOSPC;		/* could not be listed any more */
	return 0;
}

int txn_setxattr(struct txn *txn, const struct cred *cred, uint64_t inode,
		 const rf_name_t *name, const void *value, size_t size,
		 unsigned int flags)
{
	uint8_t key[KEY_SIZE_MAX];
	bool is_default, is_same = false;
	struct txn_value old;
	struct slot *slot;
	size_t key_size;
	int err, found;

	if (flags & ~(unsigned int)(XATTR_CREATE | XATTR_REPLACE))
		return -EINVAL;
	if (size > RF_XATTR_SIZE_MAX)
		return -E2BIG;
	if (acl_is_name(name, &is_default)) {
		err = txn_slot(txn, inode, &slot);
		return err ? err : acl_set(txn, cred, slot, is_default, value,
					   size);
	}
	err = find_to_change(txn, cred, inode, name, &slot);
	if (err)
		return err;
	key_size = key_xattr(key, inode, name);
	found = find(txn, &slot->inode, key, key_size, &old);
	if (found < 0)
		return found;
	if (found) {
		is_same = is_value(&old, value, size);
		txn_release(&old);
	}
	err = check_set(&slot->inode, name, flags, found);
	if (err || is_same)
		return err;	/* as on ext4, no time moves if it is the same */
	err = txn_put(txn, ENGINE_NAMES, key, key_size, value, size);
	if (err)
		return err;
	if (!found)
		slot->inode.xattr_size += name->size + 1u;
	if (is_caps(name))
		slot->inode.flags |= INODE_HAS_CAPS;
	slot_touch(slot);
	txn->grows = true;
	return 0;
}

/*
 * Who changes a file's data or owner makes the kernel drop its capabilities, by
 * REMOVEXATTR, whoever that is.
 */
static bool may_drop_caps(struct txn *txn, const struct cred *cred,
			  const struct inode *inode)
{
	return cred->uid == inode->uid || inode_may(txn, cred, inode, MAY_WRITE) == 0;
}

/* No error if there is none. */
static int remove_acl(struct txn *txn, const struct cred *cred, uint64_t inode,
		      bool is_default)
{
	struct slot *slot;
	int err = txn_slot(txn, inode, &slot);

	return err ? err : acl_set(txn, cred, slot, is_default, NULL, 0);
}

int txn_removexattr(struct txn *txn, const struct cred *cred, uint64_t inode,
		    const rf_name_t *name, bool may_write)
{
	uint8_t key[KEY_SIZE_MAX];
	struct txn_value old;
	bool is_default;
	struct slot *slot;
	size_t key_size;
	int err, found;

	if (acl_is_name(name, &is_default))
		return remove_acl(txn, cred, inode, is_default);
	err = find_to_change(txn, cred, inode, name, &slot);
	if (err == -EPERM && is_caps(name) &&
	    (may_write || may_drop_caps(txn, cred, &slot->inode)))
		err = 0;
	if (err)
		return err;
	key_size = key_xattr(key, inode, name);
	found = find(txn, &slot->inode, key, key_size, &old);
	if (found <= 0)
		return found ? found : -ENODATA;
	txn_release(&old);
	err = txn_delete(txn, ENGINE_NAMES, key, key_size);
	if (err)
		return err;
	slot->inode.xattr_size -= name->size + 1u;
	if (is_caps(name))
		slot->inode.flags &= (uint8_t)~INODE_HAS_CAPS;
	slot_touch(slot);
	return 0;
}

static int delete_one(struct txn *txn, const void *key, size_t key_size,
		      size_t value_size, void *context)
{
	(void)value_size;
	(void)context;
	return txn_delete(txn, ENGINE_NAMES, key, key_size);
}

int xattrs_delete(struct txn *txn, struct slot *slot)
{
	uint8_t prefix[NAME_PREFIX_SIZE];

	if (slot->inode.xattr_size == 0)
		return 0;
	xattr_prefix(slot->inode.number, prefix);
	return txn_for_each(txn, ENGINE_NAMES, prefix, sizeof(prefix),
			    delete_one, NULL);
}

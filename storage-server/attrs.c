/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attrs.c - permissions, SETATTR, and what reads and writes do to an inode
 *
 * The rules are those that the kernel's VFS and ext4 apply together: who may
 * change what, which bits a chown or a write clears, which stamps move.
 */
#include "store_impl.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>

rf_time_t store_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (rf_time_t){ now.tv_sec, (uint32_t)now.tv_nsec };
}

int time_compare(const rf_time_t *a, const rf_time_t *b)
{
	if (a->seconds != b->seconds)
		return a->seconds < b->seconds ? -1 : 1;
	if (a->nanoseconds != b->nanoseconds)
		return a->nanoseconds < b->nanoseconds ? -1 : 1;
	return 0;
}

void inode_to_attr(const struct inode *inode, rf_attr_t *out)
{
	*out = (rf_attr_t){
		.inode = inode->number,
		.change = inode->change,
		.size = inode->size,
		.blocks = inode->blocks,
		.atime = inode->atime,
		.mtime = inode->mtime,
		.ctime = inode->ctime,
		.btime = inode->btime,
		.mode = inode->mode,
		.nlink = inode->nlink,
		.uid = inode->uid,
		.gid = inode->gid,
		.rdev = inode->rdev,
		.tree = inode->tree,
		.block_size = BLOCK_SIZE,
		.flags = inode->flags & (INODE_HAS_ACL | INODE_HAS_DEFAULT_ACL) ?
				 RF_ATTR_HAS_ACL : 0,
	};
}

/* ---- permissions --------------------------------------------------------- */

bool cred_has_group(const struct cred *cred, uint32_t gid)
{
	if (cred->gid == gid)
		return true;
	for (uint32_t i = 0; i < cred->group_count; i++)
		if (cred->groups[i] == gid)
			return true;
	return false;
}

static int may_by_mode(const struct cred *cred, const struct inode *inode,
		       unsigned int mask)
{
	uint32_t mode = inode->mode;

	if (cred->is_super) {
		/* A program must be executable for somebody. */
		if ((mask & MAY_EXEC) && !S_ISDIR(mode) && !(mode & 0111))
			return -EACCES;
		return 0;
	}
	if (cred->uid == inode->uid)
		mode >>= 6;
	else if (cred_has_group(cred, inode->gid))
		mode >>= 3;
	return mask & ~mode & 7 ? -EACCES : 0;
}

int inode_may(struct txn *txn, const struct cred *cred,
	      const struct inode *inode, unsigned int mask)
{
	int err;

	if (inode_acl_may(txn, cred, inode, mask, &err))
		return err;
	return may_by_mode(cred, inode, mask);
}

int txn_may(struct txn *txn, const struct cred *cred, uint64_t inode,
	    unsigned int mask)
{
	struct slot *slot;
	int err = txn_slot(txn, inode, &slot);

	return err ? err : inode_may(txn, cred, &slot->inode, mask);
}

static bool is_owner(const struct cred *cred, const struct inode *inode)
{
	return cred->is_super || cred->uid == inode->uid;
}

/* ---- reading ------------------------------------------------------------- */

int txn_getattr(struct txn *txn, uint64_t inode, rf_attr_t *out)
{
	struct slot *slot;
	int err = txn_slot(txn, inode, &slot);

	if (!err)
		inode_to_attr(&slot->inode, out);
	return err;
}

int txn_read_atime(struct txn *txn, uint64_t inode, bool is_strict)
{
	enum { DAY = 24 * 60 * 60 };
	rf_time_t now = store_now();
	struct slot *slot;
	int err = txn_slot(txn, inode, &slot);

	if (err)
		return err;
	if (!is_strict &&
	    time_compare(&slot->inode.atime, &slot->inode.mtime) > 0 &&
	    time_compare(&slot->inode.atime, &slot->inode.ctime) > 0 &&
	    now.seconds - slot->inode.atime.seconds < DAY)
		return 0;
	slot->inode.atime = now;
	slot->is_dirty = true;
	return 0;
}

/* ---- SETATTR ------------------------------------------------------------- */

static int may_set_owner(const struct cred *cred, const struct inode *inode,
			 const struct rf_setattr_args *args)
{
	if (cred->is_super)
		return 0;
	if ((args->valid & RF_SET_UID) &&
	    (cred->uid != inode->uid || args->uid != inode->uid))
		return -EPERM;
	if ((args->valid & RF_SET_GID) &&
	    (cred->uid != inode->uid ||
	     (args->gid != inode->gid && !cred_has_group(cred, args->gid))))
		return -EPERM;
	return 0;
}

static int may_set_size(struct txn *txn, const struct cred *cred,
			const struct inode *inode,
			const struct rf_setattr_args *args, bool may_write)
{
	if (!(args->valid & RF_SET_SIZE))
		return 0;
	if (S_ISDIR(inode->mode))
		return -EISDIR;
	if (!S_ISREG(inode->mode))
		return -EINVAL;
	if (args->size > STORE_SIZE_MAX)
		return -EFBIG;
	return may_write ? 0 : inode_may(txn, cred, inode, MAY_WRITE);
}

static int may_set_times(struct txn *txn, const struct cred *cred,
			 const struct inode *inode,
			 const struct rf_setattr_args *args, bool may_write)
{
	if (((args->valid & RF_SET_ATIME) &&
	     args->atime.nanoseconds >= 1000000000u) ||
	    ((args->valid & RF_SET_MTIME) &&
	     args->mtime.nanoseconds >= 1000000000u))
		return -EINVAL;
	if ((args->valid & RF_SET_ATIME && args->valid & RF_SET_ATIME_NOW) ||
	    (args->valid & RF_SET_MTIME && args->valid & RF_SET_MTIME_NOW))
		return -EINVAL;		/* which one? */
	if (is_owner(cred, inode))
		return 0;
	if (args->valid & (RF_SET_ATIME | RF_SET_MTIME))
		return -EPERM;
	if (!(args->valid & (RF_SET_ATIME_NOW | RF_SET_MTIME_NOW)))
		return 0;
	/* A truncate brings its stamps along. */
	if ((args->valid & RF_SET_SIZE) && may_write)
		return 0;
	return inode_may(txn, cred, inode, MAY_WRITE);
}

/*
 * The set-id bits that a change by cred drops.  setgid without group execution
 * is no privilege (a lock mark of old), but only those of the group may keep it.
 */
static uint32_t bits_to_kill(const struct cred *cred,
			     const struct inode *inode)
{
	uint32_t bits = inode->mode & S_ISUID;

	if (S_ISDIR(inode->mode))
		return 0;	/* there setgid means another thing */
	if ((inode->mode & S_IXGRP) ||
	    (!cred->is_super && !cred_has_group(cred, inode->gid)))
		bits |= inode->mode & S_ISGID;
	return bits;
}

/*
 * chown(2) with -1, -1 asks for nothing else, and so does the kernel when
 * somebody who may write is about to change data.
 */
static int may_kill_priv(struct txn *txn, const struct cred *cred,
			 const struct inode *inode,
			 const struct rf_setattr_args *args, bool may_write)
{
	if (args->valid != RF_SET_KILL_PRIV || is_owner(cred, inode) ||
	    may_write || bits_to_kill(cred, inode) == 0 ||
	    (S_ISREG(inode->mode) && inode_may(txn, cred, inode, MAY_WRITE) == 0))
		return 0;
	return -EPERM;
}

static int may_setattr(struct txn *txn, const struct cred *cred,
		       const struct inode *inode,
		       const struct rf_setattr_args *args, bool may_write)
{
	int err;

	if (args->valid & ~(uint32_t)RF_SET_ALL)
		return -EINVAL;
	if (args->valid & RF_SET_MODE) {
		if (S_ISLNK(inode->mode))
			return -EOPNOTSUPP;
		if (!is_owner(cred, inode))
			return -EPERM;
	}
	err = may_set_owner(cred, inode, args);
	if (!err)
		err = may_kill_priv(txn, cred, inode, args, may_write);
	if (!err)
		err = may_set_size(txn, cred, inode, args, may_write);
	if (!err)
		err = may_set_times(txn, cred, inode, args, may_write);
	return err;
}

int txn_may_setattr(struct txn *txn, const struct cred *cred, uint64_t inode,
		    const struct rf_setattr_args *args, bool may_write)
{
	struct slot *slot;
	int err = txn_slot(txn, inode, &slot);

	return err ? err : may_setattr(txn, cred, &slot->inode, args, may_write);
}

static void kill_caps(struct txn *txn, struct slot *slot)
{
	static const rf_name_t caps = { "security.capability", 19 };
	struct inode *inode = &slot->inode;
	uint8_t key[KEY_SIZE_MAX];

	if (!(inode->flags & INODE_HAS_CAPS))
		return;
	if (txn_delete(txn, ENGINE_NAMES, key,
		       key_xattr(key, inode->number, &caps)))
		return;
	inode->flags &= (uint8_t)~INODE_HAS_CAPS;
	inode->xattr_size -= caps.size + 1u;
}

void inode_kill_priv(struct txn *txn, struct slot *slot,
		     const struct cred *cred)
{
	if (S_ISDIR(slot->inode.mode))
		return;		/* nothing that could be run */
	slot->inode.mode &= ~bits_to_kill(cred, &slot->inode);
	kill_caps(txn, slot);
}

/* New data: what the old ones could do is no reason to trust these, whoever
 * wrote them.  killer: also the set-id bits go; NULL: not for this writer. */
static void kill_for_data(struct txn *txn, struct slot *slot,
			  const struct cred *killer)
{
	if (killer)
		inode_kill_priv(txn, slot, killer);
	else
		kill_caps(txn, slot);
}

static int set_mode(struct txn *txn, const struct cred *cred,
		    struct slot *slot, const struct rf_setattr_args *args)
{
	struct inode *inode = &slot->inode;
	uint32_t mode = args->mode & 07777;

	if (!cred->is_super && !cred_has_group(cred, inode->gid))
		mode &= ~(uint32_t)S_ISGID;
	inode->mode = (inode->mode & S_IFMT) | mode;
	return acl_follow_mode(txn, slot);
}

/* "Now" is the time of the change itself: all that is set to it is equal. */
static void set_times(struct inode *inode, const struct rf_setattr_args *args)
{
	if (args->valid & RF_SET_ATIME)
		inode->atime = args->atime;
	if (args->valid & RF_SET_ATIME_NOW)
		inode->atime = inode->ctime;
	if (args->valid & RF_SET_MTIME)
		inode->mtime = args->mtime;
	if (args->valid & RF_SET_MTIME_NOW)
		inode->mtime = inode->ctime;
}

static void set_size(struct txn *txn, struct inode *inode, uint64_t size)
{
	/* The data file may be cut only after the commit. */
	uint64_t blocks_max = rf_align_up(size, 4096) / 512;

	inode->blocks = objects_blocks(txn->store, inode->number,
				       inode->blocks);
	if (size < inode->size)
		inode->blocks = rf_min_u64(inode->blocks, blocks_max);
	inode->size = size;
	inode->mtime = inode->ctime;
}

static int apply(struct txn *txn, const struct cred *cred, struct slot *slot,
		 const struct rf_setattr_args *args)
{
	struct inode *inode = &slot->inode;
	int err = 0;

	/* Before the group changes: whose setgid is it? */
	if (args->valid & (RF_SET_UID | RF_SET_GID | RF_SET_KILL_PRIV))
		inode_kill_priv(txn, slot, cred);
	else if (args->valid & RF_SET_SIZE)
		kill_for_data(txn, slot, NULL);
	if (args->valid & RF_SET_UID)
		inode->uid = args->uid;
	if (args->valid & RF_SET_GID)
		inode->gid = args->gid;
	if (args->valid & RF_SET_MODE)
		err = set_mode(txn, cred, slot, args);
	if (args->valid & RF_SET_SIZE)
		set_size(txn, inode, args->size);
	set_times(inode, args);
	return err;
}

int txn_setattr(struct txn *txn, const struct cred *cred, uint64_t inode,
		const struct rf_setattr_args *args, bool may_write,
		uint64_t *change_before, rf_attr_t *out)
{
	struct slot *slot;
	int err = txn_slot(txn, inode, &slot);

	if (!err)
		err = may_setattr(txn, cred, &slot->inode, args, may_write);
	if (err)
		return err;
	*change_before = slot->inode.change;
	/* Also if it sets nothing. */
	slot_touch(slot);
	err = apply(txn, cred, slot, args);
	inode_to_attr(&slot->inode, out);
	return err;
}

/* ---- after data were written --------------------------------------------- */

static int find_file(struct txn *txn, uint64_t inode, struct slot **out)
{
	int err = txn_slot(txn, inode, out);

	if (!err && !S_ISREG((*out)->inode.mode))
		err = S_ISDIR((*out)->inode.mode) ? -EISDIR : -EINVAL;
	return err;
}

static void data_changed(struct txn *txn, struct slot *slot, uint64_t end)
{
	struct inode *inode = &slot->inode;

	slot_touch_data(slot);
	inode->size = rf_max_u64(inode->size, end);
	inode->blocks = objects_blocks(txn->store, inode->number,
				       inode->blocks);
}

int txn_wrote(struct txn *txn, uint64_t inode, uint64_t offset, uint64_t size,
	      const struct cred *killer, uint64_t *change_before,
	      rf_attr_t *out)
{
	struct slot *slot;
	int err;

	if (offset > STORE_SIZE_MAX || size > STORE_SIZE_MAX - offset)
		return -EFBIG;
	err = find_file(txn, inode, &slot);
	if (err)
		return err;
	*change_before = slot->inode.change;
	if (size) {
		data_changed(txn, slot, offset + size);
		kill_for_data(txn, slot, killer);
	}
	inode_to_attr(&slot->inode, out);
	return 0;
}

int txn_allocated(struct txn *txn, uint64_t inode, uint64_t new_size,
		  const struct cred *killer, uint64_t *change_before,
		  rf_attr_t *out)
{
	struct slot *slot;
	int err;

	if (new_size > STORE_SIZE_MAX)
		return -EFBIG;
	err = find_file(txn, inode, &slot);
	if (err)
		return err;
	*change_before = slot->inode.change;
	data_changed(txn, slot, new_size);
	kill_for_data(txn, slot, killer);
	inode_to_attr(&slot->inode, out);
	return 0;
}

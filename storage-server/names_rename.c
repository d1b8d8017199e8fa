/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names_rename.c - rename(2) with NOREPLACE, EXCHANGE and WHITEOUT
 *
 * Both names, both directories, the moved inode and the replaced one change in
 * one batch.  A directory is never moved below itself: its new place's parents
 * are walked, which are few and cached.
 */
#include "store_impl.h"

#include <errno.h>
#include <sys/stat.h>

struct rename {
	struct txn *txn;
	const struct cred *cred;
	const rf_name_t *name, *new_name;
	struct slot *dir, *new_dir;
	struct slot *source, *target;	/* target may be NULL */
	bool is_exchange;
};

/* Is inode dir or one of its parents? */
static int is_above(struct txn *txn, uint64_t inode, uint64_t dir)
{
	for (unsigned int i = 0; i < PARENTS_MAX; i++) {
		struct inode step;
		int err;

		if (dir == inode)
			return 1;
		if (dir == STORE_ROOT_INODE)
			return 0;
		/* Through the transaction: it may have moved a parent. */
		err = store_find_inode(txn->store, dir, &step);
		if (err)
			return err;
		dir = step.parent;
	}
	return -ELOOP;
}

static int find_dirs(struct rename *r, uint64_t dir, uint64_t new_dir)
{
	int err;

	err = name_dir(r->txn, dir, &r->dir);
	if (!err)
		err = name_dir(r->txn, new_dir, &r->new_dir);
	if (!err && r->dir->inode.tree != r->new_dir->inode.tree)
		err = -EXDEV;
	if (!err)
		err = name_check(r->name);
	if (!err)
		err = name_check(r->new_name);
	if (!err)
		err = inode_may(r->txn, r->cred, &r->dir->inode, MAY_EXEC);
	if (!err)
		err = inode_may(r->txn, r->cred, &r->new_dir->inode, MAY_EXEC);
	return err;
}

static int find_names(struct rename *r)
{
	struct name_entry entry;
	int err;

	err = name_find(r->txn, r->dir->inode.number, r->name, &entry);
	if (!err)
		err = txn_slot(r->txn, entry.inode, &r->source);
	if (err)
		return err;
	err = name_find(r->txn, r->new_dir->inode.number, r->new_name, &entry);
	if (err == -ENOENT)
		return 0;
	return err ? err : txn_slot(r->txn, entry.inode, &r->target);
}

/* No directory below itself. */
static int check_loops(const struct rename *r)
{
	int above;

	if (S_ISDIR(r->source->inode.mode)) {
		above = is_above(r->txn, r->source->inode.number,
				 r->new_dir->inode.number);
		if (above)
			return above < 0 ? above : -EINVAL;
	}
	if (r->target && S_ISDIR(r->target->inode.mode)) {
		above = is_above(r->txn, r->target->inode.number,
				 r->dir->inode.number);
		if (above < 0)
			return above;
		if (above)
			return r->is_exchange ? -EINVAL : -ENOTEMPTY;
	}
	return 0;
}

/* A directory that goes to another parent has its ".." rewritten. */
static int may_move(const struct rename *r, const struct inode *inode)
{
	if (r->dir == r->new_dir || !S_ISDIR(inode->mode))
		return 0;
	return inode_may(r->txn, r->cred, inode, MAY_WRITE);
}

static int check_rights(const struct rename *r)
{
	int err;

	err = name_may_remove(r->txn, r->cred, &r->dir->inode, &r->source->inode);
	if (!err && r->target)
		err = name_may_remove(r->txn, r->cred, &r->new_dir->inode,
				      &r->target->inode);
	else if (!err)
		err = inode_may(r->txn, r->cred, &r->new_dir->inode,
				MAY_WRITE | MAY_EXEC);
	if (!err)
		err = may_move(r, &r->source->inode);
	if (!err && r->is_exchange)
		err = may_move(r, &r->target->inode);
	return err;
}

static int check_types(const struct rename *r)
{
	bool is_dir = S_ISDIR(r->source->inode.mode);
	bool replaces_dir = r->target && S_ISDIR(r->target->inode.mode);

	if (r->source->inode.tree != r->dir->inode.tree ||
	    (r->target && r->target->inode.tree != r->new_dir->inode.tree))
		return -EBUSY;		/* another export's top */
	if (r->target && !r->is_exchange) {
		if (is_dir && !replaces_dir)
			return -ENOTDIR;
		if (!is_dir && replaces_dir)
			return -EISDIR;
		if (replaces_dir && r->target->inode.entries)
			return -ENOTEMPTY;
	}
	if (r->dir == r->new_dir)
		return 0;
	if (is_dir && !replaces_dir &&
	    r->new_dir->inode.nlink >= STORE_LINK_MAX)
		return -EMLINK;
	if (r->is_exchange && replaces_dir && !is_dir &&
	    r->dir->inode.nlink >= STORE_LINK_MAX)
		return -EMLINK;
	return 0;
}

/* Put slot under a name of dir, new or taken over from another inode. */
static int place(struct rename *r, struct slot *dir, const rf_name_t *name,
		 struct slot *slot)
{
	if (S_ISDIR(slot->inode.mode))
		slot->inode.parent = dir->inode.number;
	return name_put(r->txn, dir->inode.number, name, &slot->inode);
}

static void count(struct slot *dir, const struct slot *child, int by)
{
	dir->inode.entries += (uint64_t)(int64_t)by;
	if (S_ISDIR(child->inode.mode))
		dir->inode.nlink += (uint32_t)by;
}

static int move(struct rename *r)
{
	int err = name_delete(r->txn, r->dir->inode.number, r->name);

	if (!err)
		err = place(r, r->new_dir, r->new_name, r->source);
	if (err)
		return err;
	count(r->dir, r->source, -1);
	count(r->new_dir, r->source, 1);
	if (r->target) {
		count(r->new_dir, r->target, -1);
		name_drop(r->target);
	}
	return 0;
}

static int leave_whiteout(struct rename *r)
{
	const struct make_args args = {
		.dir = r->dir->inode.number,
		.name = *r->name,
		.mode = S_IFCHR,
	};
	rf_attr_t attr;

	return txn_make(r->txn, r->cred, &args, &attr);
}

static int exchange(struct rename *r)
{
	int err = place(r, r->new_dir, r->new_name, r->source);

	if (!err)
		err = place(r, r->dir, r->name, r->target);
	if (err)
		return err;
	count(r->dir, r->source, -1);
	count(r->new_dir, r->source, 1);
	count(r->new_dir, r->target, -1);
	count(r->dir, r->target, 1);
	slot_touch(r->target);
	return 0;
}

static int check(struct rename *r, unsigned int flags)
{
	int err;

	if (r->target && (flags & RF_RENAME_NOREPLACE))
		return -EEXIST;
	if (!r->target && r->is_exchange)
		return -ENOENT;
	err = check_loops(r);
	if (!err)
		err = check_rights(r);
	if (!err)
		err = check_types(r);
	return err;
}

int txn_rename(struct txn *txn, const struct cred *cred, uint64_t dir,
	       const rf_name_t *name, uint64_t new_dir,
	       const rf_name_t *new_name, unsigned int flags)
{
	struct rename r = {
		.txn = txn,
		.cred = cred,
		.name = name,
		.new_name = new_name,
		.is_exchange = flags & RF_RENAME_EXCHANGE,
	};
	int err;

	if ((flags & ~(unsigned int)RF_RENAME_ALL) ||
	    (r.is_exchange && flags != RF_RENAME_EXCHANGE))
		return -EINVAL;
	err = find_dirs(&r, dir, new_dir);
	if (!err)
		err = find_names(&r);
	if (err)
		return err;
	/* Two names of one inode: both stay, says POSIX. */
	if (r.source == r.target)
		return flags & RF_RENAME_NOREPLACE ? -EEXIST : 0;
	err = check(&r, flags);
	if (err)
		return err;
	err = r.is_exchange ? exchange(&r) : move(&r);
	if (!err && flags & RF_RENAME_WHITEOUT)
		err = leave_whiteout(&r);
	if (err)
		return err;
	slot_touch(r.source);
	slot_touch_data(r.dir);
	if (r.new_dir != r.dir)
		slot_touch_data(r.new_dir);
	return 0;
}

bool txn_rename_needs_flush(struct txn *txn, uint64_t dir,
			    const rf_name_t *name, uint64_t new_dir,
			    const rf_name_t *new_name, uint64_t *inode)
{
	struct name_entry source, target;
	struct slot *slot;

	if (name_check(name) || name_check(new_name) ||
	    name_find(txn, dir, name, &source) ||
	    name_find(txn, new_dir, new_name, &target) ||
	    source.type != S_IFREG || source.inode == target.inode ||
	    txn_slot(txn, source.inode, &slot) || slot->inode.size == 0)
		return false;
	*inode = source.inode;
	return store_needs_flush(txn->store, source.inode);
}

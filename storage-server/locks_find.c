/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locks_find.c - the table of locks: its life, its files and owners
 *
 * Operation.  Two hash tables, of lists.
 */
#include "locks_impl.h"

/* ---- life --------------------------------------------------------------- */

int locks_init(struct locks *locks,
	       void (*settled)(struct lock_session *session))
{
	int err;

	*locks = (struct locks){ .settled = settled };
	rf_list_init(&locks->grace_waits);
	rf_list_init(&locks->wakes);
	for (unsigned int i = 0; i < LOCK_BUCKETS; i++) {
		rf_list_init(&locks->inodes[i]);
		rf_list_init(&locks->owners[i]);
	}
	err = lock_pool_init(&locks->ranges, sizeof(struct rf_range),
			     LOCKS_MAX);
	if (!err)
		err = lock_pool_init(&locks->holdings,
				     sizeof(struct lock_holding), LOCKS_MAX);
	if (!err)
		err = lock_pool_init(&locks->inode_pool,
				     sizeof(struct lock_inode), LOCKS_MAX);
	if (!err)
		err = lock_pool_init(&locks->owner_pool,
				     sizeof(struct lock_owner), LOCKS_MAX);
	if (!err)
		err = lock_pool_init(&locks->waits, sizeof(struct lock_wait),
				     LOCK_WAITS_MAX);
	if (err)
		locks_fini(locks);
	return err;
}

void locks_fini(struct locks *locks)
{
	lock_pool_fini(&locks->ranges);
	lock_pool_fini(&locks->holdings);
	lock_pool_fini(&locks->inode_pool);
	lock_pool_fini(&locks->owner_pool);
	lock_pool_fini(&locks->waits);
}

void locks_init_session(struct lock_session *session)
{
	*session = (struct lock_session){ .is_used = true };
	rf_list_init(&session->owners);
	rf_list_init(&session->waits);
	rf_list_init(&session->settled);
}

/* ---- files and owners --------------------------------------------------- */

static struct rf_list *bucket(struct rf_list *buckets, uint64_t number)
{
	uint64_t mixed = number * UINT64_C(0x9e3779b97f4a7c15);

	return &buckets[(mixed >> 40) & (LOCK_BUCKETS - 1)];
}

struct lock_inode *lock_inode_get(struct locks *locks, uint64_t number,
				  bool make)
{
	struct rf_list *head = bucket(locks->inodes, number), *at;
	struct lock_inode *inode;

	rf_list_for_each(at, head) {
		inode = rf_container_of(at, struct lock_inode, link);
		if (inode->number == number)
			return inode;
	}
	inode = make ? lock_pool_take(&locks->inode_pool) : NULL;
	if (!inode)
		return NULL;
	inode->number = number;
	rf_list_init(&inode->holdings);
	rf_list_init(&inode->waits);
	rf_list_init(&inode->wake_link);
	rf_list_push(head, &inode->link);
	return inode;
}

struct lock_owner *lock_owner_get(struct locks *locks,
				  struct lock_session *session,
				  const struct lock_request *request,
				  bool make)
{
	struct rf_list *head = bucket(locks->owners, request->owner), *at;
	struct lock_owner *owner;

	rf_list_for_each(at, head) {
		owner = rf_container_of(at, struct lock_owner, link);
		if (owner->number == request->owner &&
		    owner->session == session && owner->kind == request->kind)
			return owner;
	}
	owner = make ? lock_pool_take(&locks->owner_pool) : NULL;
	if (!owner)
		return NULL;
	owner->session = session;
	owner->number = request->owner;
	owner->kind = request->kind;
	rf_list_init(&owner->holdings);
	rf_list_init(&owner->waits);
	rf_list_init(&owner->search_link);
	rf_list_push(&session->owners, &owner->session_link);
	rf_list_push(head, &owner->link);
	return owner;
}

void lock_inode_drop_unused(struct locks *locks, struct lock_inode *inode)
{
	if (!rf_list_is_empty(&inode->holdings) ||
	    !rf_list_is_empty(&inode->waits))
		return;
	rf_list_remove(&inode->link);
	rf_list_remove(&inode->wake_link);
	lock_pool_give(&locks->inode_pool, inode);
}

void lock_owner_drop_unused(struct locks *locks, struct lock_owner *owner)
{
	if (!rf_list_is_empty(&owner->holdings) ||
	    !rf_list_is_empty(&owner->waits))
		return;
	rf_list_remove(&owner->session_link);
	rf_list_remove(&owner->link);
	lock_pool_give(&locks->owner_pool, owner);
}

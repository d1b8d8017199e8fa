/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locks_impl.h - what locks*.c share
 */
#ifndef LOCKS_IMPL_H
#define LOCKS_IMPL_H

#include "locks.h"

/* Each record begins with the link that also holds it in its pool. */
struct lock_inode {
	struct rf_list link;		/* in the bucket */
	uint64_t number;
	struct rf_list holdings;
	struct rf_list waits;		/* first come, first looked at */
	/* In locks->wakes, while its waits are gone through. */
	struct rf_list wake_link;
	struct rf_list *wake_at;	/* the next of waits, or their head */
	bool wakes_again;		/* once more from the first */
	bool may_be_circle;		/* look for deadlocks then */
};

struct lock_owner {
	struct rf_list link;		/* in the bucket */
	struct rf_list session_link;
	struct lock_session *session;
	uint64_t number;
	enum lock_kind kind;
	struct rf_list holdings;
	struct rf_list waits;
	uint64_t search;		/* that has been here */
	struct rf_list search_link;
};

struct lock_holding {
	struct rf_list link;		/* in the inode */
	struct rf_list owner_link;
	struct lock_inode *inode;
	struct lock_owner *owner;
	uint32_t open;			/* used last */
	struct rf_list ranges;
};

struct lock_wait {
	struct rf_list link;		/* in the inode, or of the grace */
	struct rf_list owner_link;
	struct rf_list session_link;	/* of waits, or of settled */
	struct lock_session *session;
	struct lock_inode *inode;	/* NULL: of the grace, or settled */
	struct lock_owner *owner;
	struct lock_request request;
	int err;			/* settled */
	uint64_t event;
};

/* locks_pool.c */
int lock_pool_init(struct lock_pool *pool, size_t size, unsigned int max);
void lock_pool_fini(struct lock_pool *pool);
void *lock_pool_take(struct lock_pool *pool);	/* zeroed, or NULL */
void lock_pool_give(struct lock_pool *pool, void *item);

/* locks_find.c: found, or made if make; NULL: there is none, or no room. */
struct lock_inode *lock_inode_get(struct locks *locks, uint64_t number,
				  bool make);
struct lock_owner *lock_owner_get(struct locks *locks,
				  struct lock_session *session,
				  const struct lock_request *request,
				  bool make);
void lock_inode_drop_unused(struct locks *locks, struct lock_inode *inode);
void lock_owner_drop_unused(struct locks *locks, struct lock_owner *owner);

/* locks.c */
/* What keeps request from its owner (NULL: who has nothing yet): the holding
 * after the given one, or the first.  *steps grows. */
struct lock_holding *lock_conflict(const struct lock_inode *inode,
				   const struct lock_owner *owner,
				   const struct lock_request *request,
				   struct lock_holding *after,
				   const struct rf_range **range,
				   uint64_t *steps);
/* Set it, nothing being in the way; 0 or -ENOLCK. */
int lock_grant(struct locks *locks, struct lock_session *session,
	       const struct lock_request *request);
/* Begin a call: its share of LOCK_STEPS_MAX is its own. */
void lock_steps_begin(struct locks *locks);
/* As locks_set(), in the middle of one. */
int lock_set(struct locks *locks, struct lock_session *session,
	     const struct lock_request *request);
/* Something on inode has ended: who may go on?  Not before lock_wakes_run(), which
 * may drop any file or owner that has nothing any more. */
void lock_wake(struct locks *locks, struct lock_inode *inode);
void lock_wakes_run(struct locks *locks);

/* locks_wait.c */
int lock_wait_add(struct locks *locks, struct lock_session *session,
		  const struct lock_request *request);
void lock_wait_settle(struct locks *locks, struct lock_wait *wait, int err);
/* It is granted to who asks for it again: that wait of his is over. */
void lock_wait_forget_same(struct locks *locks, struct lock_session *session,
			   const struct lock_request *request);
/* The same, and nobody is told. */
void lock_wait_drop(struct locks *locks, struct lock_wait *wait);
/* Ask again for what was asked for in the grace.  False: there are no steps left. */
bool lock_grace_run(struct locks *locks);
/* Would the owner's waiting for it close a circle?  False also if that can't be
 * found in the steps that are left. */
bool lock_is_deadlock(struct locks *locks, struct lock_inode *inode,
		      struct lock_owner *owner,
		      const struct lock_request *request);

#endif /* LOCKS_IMPL_H */

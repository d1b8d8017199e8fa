/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held.h - the locks that this mount's processes hold, as the server told
 *
 * Kept for two things: a close() that ends no lock need not ask the server, and
 * a server that was started anew can be told what was held.
 *
 * An owner is the kernel's number for who locks: a table of descriptors for
 * fcntl(2), an open for flock(2) and open file descriptions.
 *
 * Pure logic but for growing.  Threads.  [owner].
 * When it fails.  Without memory for one more the inode is marked unknown:
 * from then on the server is always asked.
 */
#ifndef HELD_H
#define HELD_H

#include "table.h"
#include "libproto/ranges.h"

struct inode;
struct inodes;
struct keep_ranges;

enum { HELD_MAX = 1 << 17 };	/* above what a server grants a session */

/* One owner's locks on one file. */
struct held {
	struct table_item item;		/* first */
	struct rf_list link;		/* in the inode */
	struct inode *inode;
	uint64_t owner, fh;		/* fh: the open used last */
	bool is_flock;
	struct rf_list ranges;
};

struct held_locks {
	struct table helds;
	struct table ranges;
	struct keep_ranges *kept;	/* for a successor, or NULL */
};

int held_init(struct held_locks *locks);
void held_fini(struct held_locks *locks);

/* The server has granted it. */
void held_set(struct held_locks *locks, struct inode *inode, uint64_t owner,
	      bool is_flock, uint64_t fh, const struct rf_range *range);
/* The server has ended what was there. */
void held_clear(struct held_locks *locks, struct inode *inode, uint64_t owner,
		bool is_flock, uint64_t start, uint64_t end);
/* fh was released: what was locked by it last is gone. */
void held_release(struct held_locks *locks, struct inode *inode, uint64_t fh);
/* Nobody has it open any more. */
void held_forget(struct held_locks *locks, struct inode *inode);

/* The session is over, and all of them with it. */
void held_forget_all(struct held_locks *locks);

/* A successor's, after inodes_restore(): those that are kept.  -ENOMEM. */
int held_restore(struct held_locks *locks, const struct inodes *inodes);

/* The one of this index or a later one, or NULL; *index is behind it then. */
struct held *held_next(const struct held_locks *locks, uint32_t *index);

/* What the owner has there, or NULL. */
struct held *held_find(const struct inode *inode, uint64_t owner,
		       bool is_flock);

#endif /* HELD_H */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inodes.h - the inodes that the kernel, or a request of ours, knows
 *
 * The kernel's name of an inode (nodeid) is a table number; the root's is 1.
 * An inode lives while the kernel's lookup count or our references are not 0.
 *
 * Threads.  [owner], all of it.  Pure logic but for growing.
 */
#ifndef INODES_H
#define INODES_H

#include "change.h"
#include "given.h"
#include "table.h"
#include "libproto/codec.h"

struct invalidation;
struct keep_inodes;

enum { INODES_MAX = 1 << 24 };

struct inode {
	struct table_item item;		/* first */
	rf_handle_t handle;
	rf_attr_t attr;			/* the newest seen */
	struct change change;
	struct given given;
	int dropper;		/* the thread whose answer made the kernel drop
				 * the pages, perhaps not done; 0: none */
	uint64_t lookups;		/* the kernel's count */
	uint32_t refs;			/* ours: requests, opens, invalidations */
	uint32_t hash_next;		/* index, 0: none */
	struct invalidation *invalidation;	/* NULL: none under way */
	uint64_t given_ns;		/* attributes to the kernel, */
	int given_to;			/* for this thread */
	struct rf_list locks;		/* struct held */
	uint32_t lock_calls;		/* struct lock_wait */
	uint32_t orphans;		/* of these: orphan.c */
	uint32_t file_count;		/* opens */
	bool locks_are_unknown;		/* memory was short */
};

struct inodes {
	struct table table;
	uint32_t *buckets;		/* of indices */
	uint32_t bucket_count;		/* a power of two */
	uint32_t max;			/* set before inodes_init(); 0: INODES_MAX */
	struct inode *root;
	struct keep_inodes *kept;	/* for a successor, or NULL; set before
					 * inodes_init() */
};

/* The root takes number 1 and is referenced for good.  -ENOMEM. */
int inodes_init(struct inodes *inodes, const rf_handle_t *root,
		const rf_attr_t *attr);
void inodes_fini(struct inodes *inodes);

/* By the kernel's name; NULL if it is none.  Takes a reference. */
struct inode *inodes_find(struct inodes *inodes, uint64_t nodeid);

/*
 * By the server's: the one we have or a new one, with attr taken in.  Takes a
 * reference.  NULL: INODES_MAX, or no memory.
 */
struct inode *inodes_get(struct inodes *inodes, const rf_handle_t *handle,
			 const rf_attr_t *attr);
void inodes_put(struct inodes *inodes, struct inode *inode);

/* Take attr in, unless what we have is newer. */
void inode_see(struct inode *inode, const rf_attr_t *attr);

/*
 * The server was started again, and what was not synced may be lost: counters
 * may have gone back.  Attributes and pages that we know count for nothing.
 */
void inodes_doubt(struct inodes *inodes);

/*
 * After inodes_init() of a successor: the others that are kept.  Of what they
 * were nothing is known but the type, and the kernel may have any pages.
 */
int inodes_restore(struct inodes *inodes);
/* Those that neither the kernel nor we refer to: who did is dead. */
void inodes_drop_unused(struct inodes *inodes);

/* The kernel learns of it, before it does; and has not, after all. */
void inode_look(struct inodes *inodes, struct inode *inode);
void inode_unlook(struct inodes *inodes, struct inode *inode);
/* The kernel drops count lookups of nodeid. */
void inodes_forget(struct inodes *inodes, uint64_t nodeid, uint64_t count);

static inline uint64_t inode_nodeid(const struct inode *inode)
{
	return table_number(&inode->item);
}

#endif /* INODES_H */

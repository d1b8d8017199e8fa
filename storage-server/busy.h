/* SPDX-License-Identifier: Apache-2.0 */
/*
 * busy.h - marks on inodes that requests use while they wait for a worker
 *
 * Reads and writes share an inode; truncates, punches, appends and writes whose
 * gap is to be cleared have it alone.  First come, first served per inode: a shared mark
 * queues behind an exclusive one that waits.  Who needs two inodes takes the
 * lower number first, and so nobody waits in a circle.
 *
 * Pure logic: nothing is called back.  What a drop lets pass is collected, and
 * busy_next() gives it out, so that the stack does not grow with the queue.
 *
 * Threads.  [owner] of the server.
 * Ownership.  Marks are the caller's and lent from take to drop.
 */
#ifndef BUSY_H
#define BUSY_H

#include "libproto/base.h"

enum { BUSY_BUCKETS = 1024 };	/* a power of two, for the requests in service */

struct busy_mark {
	uint64_t inode;
	bool is_exclusive;
	bool is_held;
	bool is_queued;			/* taken, not held yet */
	void *context;			/* the caller's */
	struct rf_list link;		/* private: of the bucket, in order */
	struct rf_list ready_link;	/* private */
};

struct busy {
	struct rf_list buckets[BUSY_BUCKETS];
	struct rf_list ready;
	uint64_t waits;			/* marks that had to queue, ever */
};

void busy_init(struct busy *busy);

/* True: held.  False: queued; busy_next() will give it out. */
bool busy_take(struct busy *busy, struct busy_mark *mark, uint64_t inode,
	       bool is_exclusive);

/* End a mark that is held or queued; harmless for one that is neither. */
void busy_drop(struct busy *busy, struct busy_mark *mark);

/* The next mark that has come to be held since it queued, or NULL. */
struct busy_mark *busy_next(struct busy *busy);

#endif /* BUSY_H */

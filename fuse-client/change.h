/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change.h - do the pages that the kernel holds belong to the newest change?
 *
 * Each inode has a counter on the server that grows with every change.  The
 * kernel's pages of an inode belong to one value of it.  Our own changes come
 * with the value before and after, so they carry the pages along; any other
 * growth is somebody else's, and the pages are old.  CONSISTENCY.md has the
 * argument.
 *
 * Pure logic.  Threads: [owner].
 */
#ifndef CHANGE_H
#define CHANGE_H

#include "libproto/base.h"

struct change {
	uint64_t pages;		/* what cached pages belong to */
	uint64_t newest;	/* seen in any answer */
	uint64_t step_from;	/* own changes that do not join on yet, as */
	uint64_t step_to;	/* answers overtake each other; 0: none */
	uint32_t reads;		/* of pages, in flight */
	uint32_t changes;	/* own, in flight */
	bool has_pages;		/* the kernel may hold some */
	bool is_mixed;		/* a read met one of our own changes in flight:
				 * which came first is unknown */
};

/* A new inode, first seen at this value: no pages. */
void change_init(struct change *change, uint64_t value);

/* Somebody's answer showed the counter at value. */
void change_seen(struct change *change, uint64_t value);

/* A request of the kernel that fills pages begins, and ends; version 0 if it
 * failed. */
void change_read_begin(struct change *change);
void change_read_end(struct change *change, uint64_t version);

/*
 * An own change of data begins, and ends as the step from before to after.
 * before 0: it is not known what came of it.  has_pages: of a write that leaves
 * its pages with the kernel.
 */
void change_own_begin(struct change *change, bool has_pages);
void change_own_end(struct change *change, uint64_t before, uint64_t after);

/* The kernel drops all pages, from now on; those read later are newer. */
void change_drop(struct change *change);

/* The counter may have gone back: pages are not exact until they were dropped. */
void change_doubt(struct change *change);

/* True if all pages the kernel holds are as of the newest value. */
bool change_is_exact(const struct change *change);

#endif /* CHANGE_H */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parts.h - a write in parts: where each begins, and how far the whole has come
 *
 * Pure logic.  Threads: [owner].
 */
#ifndef PARTS_H
#define PARTS_H

#include "libproto/base.h"

enum { PARTS_PAGE = 4096 };

struct parts {
	uint64_t offset;		/* of the whole, in the file */
	uint32_t size;
	uint32_t part;			/* what one should have */
	unsigned int left;		/* not ended yet */
	uint32_t stopped_at;		/* nothing is missing before */
	int stop_err;			/* why it stopped there */
};

/* part: PARTS_PAGE or more.  left is to be set by who starts them. */
void parts_init(struct parts *parts, uint64_t offset, uint32_t size,
		uint32_t part);

/*
 * The size of the part that begins at byte at.  It ends on a page of the file,
 * lest two parts store into one page; what would be less than half a part at the
 * end goes with the one before it.
 */
uint32_t parts_size_at(const struct parts *parts, uint32_t at);
unsigned int parts_count(const struct parts *parts);

/* A part wrote nothing from this offset of the file on: 0, or why. */
void parts_stopped(struct parts *parts, uint64_t offset, int err);

#endif /* PARTS_H */

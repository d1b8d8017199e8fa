/* SPDX-License-Identifier: Apache-2.0 */
/*
 * given.h - which times, sizes and rights does the kernel have of an inode?
 *
 * The kernel drops an inode's pages by itself when attributes come whose mtime
 * or size differ from those it has.  But it ignores attributes in an answer if
 * any others, a write of its own or a notification came between that request's
 * start and its answer.  So after an answer that may have been ignored the
 * kernel has one of two values.
 *
 * It judges by the owner and the mode that it has, also where it does not ask
 * before: in chmod, chown and utimes.
 *
 * Moments are ticks of a counter: whoever came later has the larger one.
 *
 * Pure logic.  Threads: [owner].
 */
#ifndef GIVEN_H
#define GIVEN_H

#include "libproto/codec.h"

struct given_stamp {
	rf_time_t mtime;
	uint64_t size;
};

struct given {
	struct given_stamp v[2];
	uint8_t count;		/* the kernel has v[0]; one of both; 0: unknown */
	uint32_t mode, uid, gid;	/* those the kernel has; mode 0: unknown */
	uint64_t disturbed;	/* when answers under way were last made void */
};

/* What makes answers to requests that came before now void. */
static inline void given_disturb(struct given *given, uint64_t now)
{
	given->disturbed = now;
}

/*
 * Will attributes in the answer to a request that arrived then be taken by the
 * kernel?  Only if nothing disturbed it since.
 */
bool given_is_taken(const struct given *given, uint64_t arrived);

/* attr goes to the kernel.  is_taken: certainly. */
void given_note(struct given *given, const rf_attr_t *attr, bool is_taken);

/* The kernel makes the file at least so long by itself, after an own change. */
void given_grow(struct given *given, uint64_t size);
/* It may have cut the file to that size by itself, when a READ ended there.  False:
 * it was no longer before. */
bool given_cut(struct given *given, uint64_t size);

/* Whatever the kernel has, attr differs from it in mtime or size. */
bool given_differs(const struct given *given, const rf_attr_t *attr);

/* Whatever the kernel has, its size is attr's; false: it may differ. */
bool given_has_size(const struct given *given, const rf_attr_t *attr);

/* The kernel has attr's owner, group and mode; false: it may have others. */
bool given_has_rights(const struct given *given, const rf_attr_t *attr);

#endif /* GIVEN_H */

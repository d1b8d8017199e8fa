/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slots.h - standing write slots: grants on the server's staging memory
 *
 * A slot is free, or taken by one message, and comes back free with a new key
 * in that message's answer.  One that lay free for too long is given up: the
 * server may have taken it back (PROTOCOL.md, "How long a grant lasts").
 *
 * Pure logic.  Threads: [owner].
 */
#ifndef SLOTS_H
#define SLOTS_H

#include "libproto/codec.h"

enum { SLOTS_MAX = 256 };

struct slots {
	struct rf_grant free[SLOTS_MAX];	/* a stack: last used, first
						 * taken, for warm caches */
	uint64_t since_ns[SLOTS_MAX];		/* of each, asked for then */
	unsigned int free_count;
	unsigned int count;			/* free and taken */
	uint32_t smallest;			/* size seen; 0: none yet */
};

/* New ones from SLOTS, which was sent at since_ns; those beyond SLOTS_MAX are not
 * taken in.  How many were. */
unsigned int slots_add(struct slots *slots, const rf_grants_t *grants,
		       uint64_t since_ns);

/*
 * Take slots for size bytes, at most RF_GRANTS_MAX.  0: those that are free
 * don't suffice, none was taken.
 */
unsigned int slots_take(struct slots *slots, uint32_t size, rf_grants_t *out);

/* What slots_take() can surely serve when all are free; 0: there are none. */
uint32_t slots_reach(const struct slots *slots);

/*
 * A message's answer: of the taken ones, those in rearmed are free again; the
 * rest is gone.  The message was sent at since_ns.  -EBADMSG: rearmed names one
 * that was not taken, or one twice.
 */
int slots_return(struct slots *slots, const rf_grants_t *taken,
		 const rf_grants_t *rearmed, uint64_t since_ns);

/* Taken, but the message never left: free as they were, but of an unknown age. */
void slots_untake(struct slots *slots, const rf_grants_t *taken);

/* Give up the free ones of before before_ns; their ids, and how many. */
unsigned int slots_give_up(struct slots *slots, uint64_t before_ns,
			   uint32_t ids[SLOTS_MAX]);

#endif /* SLOTS_H */

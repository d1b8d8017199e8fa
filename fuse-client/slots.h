/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slots.h - standing write slots: grants on the server's staging memory
 *
 * A slot is free, or taken by one message, and comes back free with a new key
 * in that message's answer.
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
	unsigned int free_count;
	unsigned int count;			/* free and taken */
	uint32_t smallest;			/* size seen; 0: none yet */
};

/* New ones from SLOTS; those beyond SLOTS_MAX are not taken in.  How many
 * were. */
unsigned int slots_add(struct slots *slots, const rf_grants_t *grants);

/*
 * Take slots for size bytes, at most RF_GRANTS_MAX.  0: those that are free
 * don't suffice, none was taken.
 */
unsigned int slots_take(struct slots *slots, uint32_t size, rf_grants_t *out);

/* What slots_take() can surely serve when all are free; 0: there are none. */
uint32_t slots_reach(const struct slots *slots);

/*
 * A message's answer: of the taken ones, those in rearmed are free again; the
 * rest is gone.  -EBADMSG: rearmed names one that was not taken, or one twice.
 */
int slots_return(struct slots *slots, const rf_grants_t *taken,
		 const rf_grants_t *rearmed);

/* Taken, but the message never left: free as they were. */
void slots_untake(struct slots *slots, const rf_grants_t *taken);

#endif /* SLOTS_H */

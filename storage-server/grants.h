/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grants.h - what one session was lent: buffers to READ from, slots to WRITE to
 *
 *	FREE -> MADE -> LENT --(returned, dropped, taken back)--> CLOSING -> FREE
 *	          ^      |
 *	          |      `--(slot named by a WRITE)--> HELD
 *	          `------------------------------------'  re-armed, new key
 *
 * MADE: its key is in an answer that has not left (a slot goes back to HELD if
 * its request must run again).  LENT: the client may use it.  CLOSING: its key
 * is being withdrawn.  HELD: a request stores from it.  Any state goes to FREE
 * when the connection has ended, MADE and HELD when their request has.
 *
 * Pure logic; staging.h moves the memory.  What the client is given is index
 * plus generation; a forged or stale id finds nothing.
 * Threads.  [owner] of the server.
 */
#ifndef GRANTS_H
#define GRANTS_H

#include "libproto/base.h"
#include "libproto/fabric.h"
#include "libproto/pool.h"

enum grant_state {
	GRANT_FREE,
	GRANT_MADE,
	GRANT_LENT,
	GRANT_HELD,
	GRANT_CLOSING,
};

enum grant_kind { GRANT_READ, GRANT_SLOT };

enum { GRANTS_MAX = 4096 };	/* an index has 12 bits */

struct grant {
	uint32_t id;
	enum grant_state state;
	enum grant_kind kind;
	struct rf_remote remote;	/* as the client was told */
	/* ---- staging.c's ---- */
	struct rf_buf *buf;
	struct rf_window *window;
	void *owner;			/* the session */
	void (*unbound)(struct grant *grant, int status);
	void *context;			/* of unbound() */
	struct rf_op op;
	struct rf_list link;		/* free places, or waiting to be posted */
	uint64_t lent_ns;
	struct rf_list term_link;	/* of staging, while LENT; see term.c */
};

struct grants {
	struct grant *v;
	uint32_t capacity;
	uint32_t count;			/* not FREE */
	uint32_t slot_count;		/* of them, slots */
	struct rf_list free;
};

/* -ENOMEM. */
int grants_init(struct grants *grants, uint32_t capacity);
/* All must be FREE. */
void grants_fini(struct grants *grants);

/* A grant in MADE, or NULL: capacity are in use. */
struct grant *grants_make(struct grants *grants, enum grant_kind kind);
/* NULL: no such id, or FREE. */
struct grant *grants_find(struct grants *grants, uint32_t id);
/* Aborts if the picture above has no such move. */
void grants_move(struct grant *grant, enum grant_state to);
/* From any state. */
void grants_free(struct grants *grants, struct grant *grant);

#endif /* GRANTS_H */

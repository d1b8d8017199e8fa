/* SPDX-License-Identifier: Apache-2.0 */
/*
 * staging.h - the memory that bulk data pass through, lent to clients
 *
 *	staging (server)   classes of buffers, budget of write slots
 *	  `-- lender (session)   its grants, its share, who waits for it
 *
 * On a device without windows each session has a staging of its own (slice.h).
 *
 * Operation.  A READ gets a buffer, fills it and makes a grant of it: a window
 * over the buffer, bound in the batch of its answer.  When the client returns
 * it, the window is unbound, and only when that is done the buffer goes back.
 * A write slot is a grant that stands: a WRITE takes it (staging_hold), its key
 * is dead before its bytes are looked at, and its answer makes it anew.  Without
 * windows a grant is a range of the session's region, which the peer reaches
 * until its connection has ended: no right is withdrawn, and what a WRITE stores
 * is a copy, in the shadow of the region, made before it is checked.
 *
 * Fairness.  A session's buffers are bounded by its share; those in need wait in
 * the session's queue, then in the pool's, first come first served.  While any
 * waits, what clients have had for longer than its term is taken back (term.c).
 * Standing
 * slots take at most half of each class and half of a session's share, and each
 * request for them at most half of what is left: the first session can't take
 * all.  One small slot for each session is always left over if the smallest
 * class is large enough for it.
 *
 * Threads.  [owner] of the server.
 * When it fails.  When the connection ends, all windows are free, and every
 * buffer that no request uses goes back at once, the rest with its request.
 */
#ifndef STAGING_H
#define STAGING_H

#include "grants.h"

#include "libproto/codec.h"
#include "libproto/reactor.h"

enum {
	STAGING_CLASSES = 3,
	STAGING_SMALL = 64 * 1024,
	STAGING_MIDDLE = 256 * 1024,
	STAGING_LARGE = 1024 * 1024,	/* block_max: one READ or WRITE */
	STAGING_SESSION_LEAST = 4 * STAGING_LARGE,
	STAGING_UNBINDS_MAX = 64,	/* in one batch */
};

struct lender;

struct staging {
	struct rf_pool *pool;
	uint64_t session_bytes;		/* the share of one session */
	struct staging_class {
		uint32_t size, count;
		uint32_t slots;		/* standing, of all sessions */
	} classes[STAGING_CLASSES];
	uint64_t waits, waits_for_share;
	uint64_t grants_made, slots_made, unbinds, bad_returns;
	/* ---- term.c's ---- */
	struct rf_reactor *reactor;	/* NULL: grants have no term */
	uint32_t grant_ms;
	void (*took_back)(struct lender *lender);
	struct rf_list lent;		/* LENT ones, oldest first */
	struct rf_timer timer;		/* to the end of the oldest's term */
	uint32_t waiting;		/* requests, for a buffer */
	uint32_t owed;			/* slots to sessions that got none */
	uint64_t denied_ns;		/* the last of these, when */
	bool slots_are_short;		/* one was denied all just now */
	uint64_t taken_back, not_rearmed;
};

/* How many buffers of each class there are in bytes. */
void staging_init(struct staging *staging, uint64_t bytes,
		  uint64_t session_bytes);
uint32_t staging_count(const struct staging *staging);

/* ---- how long a client may have them ------------------------------------ */

/*
 * From now on a grant that was LENT for grant_ms may be taken back while a
 * request waits for a buffer, or a session for its first slot; took_back() is
 * told whose, and has its unbinds posted.  Where there are windows only: what
 * can't be withdrawn has no term, and is short for its own session only.
 */
void staging_set_term(struct staging *staging, struct rf_reactor *reactor,
		      uint32_t grant_ms,
		      void (*took_back)(struct lender *lender));
void staging_stop_term(struct staging *staging);

/* A session asked for slots, has none, and gets none. */
void staging_deny_slots(struct lender *lender);
/* A slot is to be re-armed: true if its session is to do without, for another
 * one that has none. */
bool staging_keeps_slot(struct lender *lender);

/* Of staging.c and lend.c: */
void term_begin(struct grant *grant);
void term_end(struct grant *grant);
void term_wait(struct staging *staging, int waiters);

/* ---- windows of one fabric ---------------------------------------------- */

/* One for each buffer of staging, made at start.  -EOPNOTSUPP: the fabric has
 * no windows. */
struct windows {
	struct rf_window **v;
	uint32_t count, free;
};
int windows_init(struct windows *windows, struct rf_pd *pd, uint32_t count);
void windows_fini(struct windows *windows);

/* ---- what one session borrows ------------------------------------------- */

/* Where it borrows. */
struct lending {
	struct staging *staging;
	const struct rf_mr *mr;		/* of staging's pool */
	struct windows *windows;	/* NULL: the device has none; then: */
	uint8_t *shadow;		/* as large as the pool, not registered */
};

struct lender {
	struct staging *staging;
	struct windows *windows;
	const struct rf_mr *mr;
	uint8_t *shadow;
	struct rf_ep *ep;
	struct grants grants;
	uint64_t used;			/* bytes of buffers it has */
	uint64_t slot_bytes;		/* of them, in standing slots */
	uint32_t slots_max;		/* as HELLO agreed */
	struct rf_list waiters;		/* for its share */
	struct rf_list unbinds;		/* grants whose unbind is to be posted */
	bool is_serving;
	bool is_closed;			/* no endpoint any more */
	uint64_t owed_again_ns;		/* not before, one more slot */
	bool was_warned;		/* of a bad return */
	bool was_taken_from;		/* so some bad returns are none */
};

int lender_init(struct lender *lender, const struct lending *lending,
		struct rf_ep *ep, uint32_t slots_max);
/* Nothing may be lent or held. */
void lender_fini(struct lender *lender);
/* The connection has ended: free what no request uses. */
void lender_close(struct lender *lender);

struct staging_waiter {
	/* Once, with a buffer that is now the waiter's. */
	void (*ready)(struct staging_waiter *waiter, struct rf_buf *buf);
	struct rf_pool_waiter pool;	/* private from here on */
	struct rf_list link;
	struct lender *lender;
	uint32_t size;
	bool is_waiting;
};

/* A buffer for size bytes, or NULL.  With a waiter it is then queued. */
struct rf_buf *staging_get(struct lender *lender, uint32_t size,
			   struct staging_waiter *waiter);
/* Harmless if it does not wait. */
void staging_cancel(struct staging_waiter *waiter);
void staging_put(struct lender *lender, struct rf_buf *buf);

/*
 * A grant in MADE of the first size bytes of buf, which it then owns.  NULL:
 * the session has GRANTS_MAX, or no connection; buf is still the caller's.
 */
struct grant *staging_lend(struct lender *lender, struct rf_buf *buf,
			   uint32_t size);
/* A standing slot of at most size bytes; NULL: none can be spared. */
struct grant *staging_make_slot(struct lender *lender, uint32_t size);
/* How many slots of size a session that asks for count may have. */
uint32_t staging_slots_for(const struct lender *lender, uint32_t size,
			   uint32_t count);

/* The grant is LENT.  True: by this work, which goes with the answer. */
bool staging_bind(struct grant *grant, struct rf_work *work);

/* True while the client may reach it and could be kept from it. */
bool staging_is_bound(const struct grant *grant);
/* False: the client reaches what it was lent while it is connected. */
bool lender_has_windows(const struct lender *lender);
/* Where the copy of a slot's bytes belongs; NULL: they can't change any more. */
uint8_t *staging_shadow(const struct grant *grant);

/*
 * The client may have it: LENT, and its bind is posted.  Until then the answer
 * that carries it is still to leave, and an id that names it was guessed.
 */
bool staging_is_lent(const struct grant *grant, enum grant_kind kind);

/* The client is done with a READ's grant, or drops a slot. */
void staging_return(struct lender *lender, struct grant *grant);

/*
 * Take a slot from the client: LENT -> HELD.  True: its key is dead.  False:
 * unbound(grant, status) will be called when it is; status is not 0 if the
 * connection is ending.
 */
bool staging_hold(struct lender *lender, struct grant *grant,
		  void (*unbound)(struct grant *grant, int status),
		  void *context);
/* HELD -> MADE, with a new key. */
void staging_rearm(struct lender *lender, struct grant *grant);
/* Drop a grant that never left (MADE), or a HELD one after the connection. */
void staging_drop(struct lender *lender, struct grant *grant);

/*
 * Unbinds that wait to be posted, of windows which the client has invalidated
 * meanwhile, are done; no more may be received before lender_post().
 */
void lender_settle(struct lender *lender);
/* Post the unbinds that have gathered.  At the end of a turn, and again when
 * there was no room. */
void lender_post(struct lender *lender);

#endif /* STAGING_H */

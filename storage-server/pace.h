/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace.h - which data the reactor stores by itself, and which workers do
 *
 * To copy 1 MiB into the page cache takes less time than to hand it to another
 * thread and be woken again, so a write on its own is stored at once: those of
 * 128 and 256 KiB are 1.28 times as fast.  Two things make that wrong: many writes
 * in one turn, or parts of one, which workers store while the reactor receives
 * the next (1.12 times as fast), and a disk that makes who writes wait, which
 * must not stop everybody.
 *
 * Pure logic.  Threads: [owner] of the server.
 */
#ifndef PACE_H
#define PACE_H

#include "libproto/base.h"

enum {
	PACE_SMALL = 64 * 1024,	/* about 20 us: these don't count */
	/* A store of 1 MiB takes some 200 us; one that took longer than this
	 * was made to wait. */
	PACE_SLOW_MS = 5,
	PACE_PAUSE_MS = 1000,	/* then workers have it for so long */
};

struct pace {
	uint64_t turn_ns;	/* the turn that bytes is of */
	uint64_t bytes;		/* stored in it */
	uint64_t slow_until_ns;
	uint64_t slow_stores;	/* ever */
};

/* May size bytes be stored in the turn of this time?  If so they count, against
 * turn_max bytes in one turn. */
bool pace_take(struct pace *pace, uint64_t turn_ns, uint64_t size,
	       uint64_t turn_max);
/* It took from start to end. */
void pace_took(struct pace *pace, uint64_t start_ns, uint64_t end_ns);

#endif /* PACE_H */

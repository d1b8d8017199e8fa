/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slice.h - memory of one connection, where rights can't be withdrawn
 *
 * A device without windows lets a peer reach what is registered for it until the
 * connection has ended, and siw even lets it read what is registered for nobody.
 * So there each connection has a slice: a protection domain that holds what this
 * client may see and nothing else,
 *
 *	messages   its Receives and Sends; no remote right
 *	data       its staging: grants and slots are ranges of this region
 *	shadow     not registered: what a WRITE stores is copied there first
 *
 * Operation.  All are made at the start, since the domain is fixed when a
 * connection is accepted, before we know whose it is.  A slice that comes back
 * is withdrawn, wiped and registered anew by a worker, so that the next client
 * finds neither the last one's bytes nor keys that this one knew or broke.
 * Ownership.  A greeting's, then its session's; back when the endpoint has closed
 * and no request uses the memory any more.
 * When it fails.  A slice that can't be registered again is not lent any more.
 * Threads.  [owner] of the server.
 */
#ifndef SLICE_H
#define SLICE_H

#include "staging.h"

struct server;
struct slices;

enum {
	/*
	 * siw maps 64 pages of queues for one process (FABRIC.md).  32 each of
	 * Sends and Receives take 3 of them: 1 for each queue, 1 for their
	 * completions; so some 20 connections fit.
	 */
	SLICE_SEND_DEPTH = 31,		/* and one of the fabric's */
	SLICE_RECV_DEPTH = 32,
};

struct slice {
	struct slices *slices;
	struct rf_pd *pd;
	struct rf_pool *messages, *data;
	struct rf_mr *messages_mr, *data_mr;
	struct staging staging;
	struct lending lending;		/* of all that */
	struct rf_list link;		/* free */
	struct rf_task put_task;
	struct rf_job wipe_job;
	int err;			/* of the wiping */
};

struct slices {
	struct server *server;
	struct slice *v;
	uint32_t count, free_count;
	uint32_t lost;			/* never lent again */
	struct rf_list free;
	bool was_short;			/* and it was said */
};

/* As many, and as large, as the configuration has it.  [blocks]  Logged. */
int slices_init(struct slices *slices, struct server *server,
		struct rf_fabric *fabric);
/* All must be back. */
void slices_fini(struct slices *slices);

/* NULL: all are in use; said once until one comes back. */
struct slice *slice_get(struct slices *slices);
/* Its connection is gone, and what was lent of it is back, or will be when this
 * callback has returned. */
void slice_put(struct slice *slice);

#endif /* SLICE_H */

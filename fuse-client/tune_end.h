/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune_end.h - one end of a connection that only measures
 *
 * The passive end answers each message with one of the same size and lends its
 * scratch memory, which holds nothing, for Reads and Writes.  The active end
 * moves blocks to and from it.  A Write counts when a message behind it was
 * answered, so that its bytes are known to be in place.
 *
 * Threads.  An end belongs to the thread that opened it.
 * Ownership.  The caller's storage; tune_end_close() gives all back.
 * Errors.  0 or a negative errno; what a callback finds is kept in err and
 * returned by the function that waits.
 */
#ifndef TUNE_END_H
#define TUNE_END_H

#include "libproto/fabric.h"

#include <stddef.h>

enum {
	TUNE_DEPTH_MAX = 64,
	TUNE_BLOCK_MAX = 1 << 20,
	TUNE_SCRATCH = 16 << 20,	/* what does not fit wraps around */
	TUNE_RECVS = 2,
	TUNE_SEND_DEPTH = 256,
	TUNE_CHAIN_MAX = TUNE_DEPTH_MAX / 4,
	TUNE_SETUP_MS = 5000,
};

struct tune_end;

struct tune_op {
	struct rf_op op;
	struct tune_end *end;
};

struct tune_end {
	struct rf_fabric *fab;
	struct rf_pd *pd;
	struct rf_poller *poller;
	struct rf_listener *listener;
	struct rf_ep *ep;		/* NULL: not connected */
	struct rf_window *window;	/* NULL: the region itself is lent */
	uint8_t *data, *messages;
	struct rf_mr *data_mr, *messages_mr;
	uint32_t message_max;
	uint32_t poll_us;		/* spin so long before each wait */
	uint32_t span;			/* walk through so much of the scratch */
	unsigned int chain;		/* works in one; 0: as a mount does it */
	struct tune_op recv_ops[TUNE_RECVS], send_op, ops[TUNE_DEPTH_MAX];
	struct rf_remote remote;	/* the peer's scratch */
	bool is_passive, is_connected, is_greeted;
	unsigned int came;		/* messages */
	unsigned int busy;		/* ops under way */
	unsigned int connections;	/* that have ended */
	int err;			/* of the connection */
};

/*
 * Open the fabric, tuned if tuning is not NULL; make and register memory for
 * messages of up to message_max.  After a failure nothing is left.  [blocks]
 */
int tune_end_open(struct tune_end *end, const char *uri,
		  const struct rf_tuning *tuning, bool is_passive,
		  uint32_t message_max);
/* Closes the connection, if there is one, and waits for its end.  [blocks] */
void tune_end_close(struct tune_end *end);

/* Passive: serve one connection after the other, while its poller is run. */
int tune_end_listen(struct tune_end *end, const struct sockaddr *addr,
		    socklen_t addr_size);

/*
 * Active.  [blocks]
 * -EBUSY: the peer measures with somebody else.  -EPROTO: it is something else.
 */
int tune_end_connect(struct tune_end *end, const struct sockaddr *addr,
		     socklen_t addr_size);
void tune_end_disconnect(struct tune_end *end);

/* One message there and one back.  [blocks] */
int tune_end_round_trip(struct tune_end *end, uint32_t size);

/*
 * RF_READ or RF_WRITE blocks for so long with depth of them in flight, in
 * chains of which the last work is signalled; *count of them are done and in
 * place.  [blocks]
 */
int tune_end_move(struct tune_end *end, enum rf_opcode code, uint32_t block,
		  unsigned int depth, uint64_t for_ns, uint64_t *count);

#endif /* TUNE_END_H */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault_client.h - a client that comes back, and operations that go on over losses
 *
 * It stands on rpc.h as a mount does: when its connection is lost it connects
 * again, says RESUME, registers its identities, reclaims opens and locks from a
 * server that was started anew, and lets go on what was in flight.  An operation
 * (struct fop) is a message of some operations with all that belongs to it: data
 * that go by write slots, and data that are fetched from grants.  Whatever is
 * lost on the way is asked for again, as PROTOCOL.md says.
 *
 * Nothing here waits: fclient_step() looks what has happened since, after each
 * turn of the rig.  fop_describe() puts an answer into words that are the same
 * for equal outcomes, whatever numbers the server has chosen.
 */
#ifndef TESTS_FAULT_CLIENT_H
#define TESTS_FAULT_CLIENT_H

#include "tests/common/server_rig.h"

#include <stdio.h>

enum {
	FC_OPENS_MAX = 64,
	FC_LOCKS_MAX = 64,
	FC_SLOTS_MAX = 16,
	FC_FOPS_MAX = 16,		/* in flight */
	FOP_OPS_MAX = 6,
	FOP_DATA_MAX = 1 << 17,		/* of what one operation reads */
	FC_TEXT_SIZE = 4096,		/* of one answer in words */
};

struct fop;

struct fc_open {
	rf_handle_t handle;
	uint32_t id, flags;		/* id 0: free */
	uint64_t tag;
};

struct fc_lock {
	bool is_held;
	rf_handle_t handle;
	struct rf_lock_args args;
};

enum fc_phase {
	FC_OPEN,		/* nothing to recover */
	FC_AWAY,
	FC_IDENTITIES,
	FC_RECLAIMS,
	FC_LOCKS,
	FC_WAITS,		/* for locks, asked for again */
	FC_SETTLES,		/* until it is known what was opened */
	FC_DONE,		/* RECLAIM_DONE is on its way */
};

struct fclient {
	struct sclient base;
	enum fc_phase phase;
	bool is_over;			/* the session was refused */
	bool is_restarted;		/* the server is another one */
	unsigned int connection;	/* how many there were */
	struct rf_timer retry;
	unsigned int tries;		/* since the loss */
	struct scall *call;		/* of the recovery */
	bool is_calling;
	unsigned int at;		/* open or lock that is next */
	struct fc_open opens[FC_OPENS_MAX];
	struct fc_lock locks[FC_LOCKS_MAX];
	struct rf_grant slots[FC_SLOTS_MAX];	/* free ones, of connection */
	unsigned int slot_count;
	struct scall *events;		/* LOCK_EVENTS, while a fop waits */
	bool is_listening;
	uint64_t seen, last_wait;
	struct fop *fops[FC_FOPS_MAX];
	unsigned int resumes, restarts, refetches;
};

void fclient_open(struct srig *rig, struct fclient *client);
void fclient_step(struct fclient *client);
/* BYE, and wait. */
void fclient_close(struct fclient *client);

enum fop_state {
	FOP_IDLE,
	FOP_NEW,
	FOP_ASKS_SLOT,
	FOP_RUNS,
	FOP_FETCHES,
	FOP_ASKS_AGAIN,		/* for data that it could not fetch */
	FOP_WAITS_LOCK,		/* its end comes by LOCK_EVENTS */
	FOP_DONE,
};

struct fop {
	/* ---- the caller's ---- */
	rf_handle_t on;			/* USE; inode 0: without */
	struct rf_args args[FOP_OPS_MAX];
	unsigned int count;
	bool by_slot;			/* the data of args[0], which is WRITE
					 * or SETXATTR, go by a slot */
	/* ---- private ---- */
	struct fclient *client;
	enum fop_state state;
	unsigned int connection;	/* that its slot or grants are of */
	bool may_open;			/* in flight at the last RESUME */
	uint64_t wait;			/* of its LOCK, the last operation */
	struct scall *call, *other;	/* for a slot, or data again */
	struct rf_grant slot;
	struct rf_buf *buf;
	struct rf_op fetch_op;
	bool is_fetching, has_fetched;
	int fetch_status;
	/* ---- the answer ---- */
	int err;
	unsigned int results_count;	/* without that of USE */
	struct rf_results results[FOP_OPS_MAX];
	unsigned int fetch_at, fetch_grant;
	uint8_t *data[FOP_OPS_MAX];	/* fetched, of each operation */
	uint32_t data_size[FOP_OPS_MAX];
};

/* What args points to stays the caller's until it is done. */
void fop_start(struct fclient *client, struct fop *fop);
static inline bool fop_is_done(const struct fop *fop)
{
	return fop->state == FOP_DONE;
}
unsigned int fop_status(const struct fop *fop);
void fop_fini(struct fop *fop);
/* The open that it made, or NULL; and the handle that it ends with. */
const struct fc_open *fop_open(const struct fop *fop);
rf_handle_t fop_handle(const struct fop *fop);
/* Send the request that it has in flight once more, under its number.  False if
 * there is none. */
bool fop_duplicate(struct fop *fop);
/* The same of any call that has been sent. */
bool fclient_duplicate(struct fclient *client, const struct rf_call *call);

/* Inodes in the order in which they were met. */
enum { FC_ALIASES_MAX = 4096 };
struct fc_aliases {
	uint64_t inodes[FC_ALIASES_MAX];
	unsigned int count;
};
/* An operation to its end, whatever comes; the status of its last result. */
unsigned int fclient_run(struct fclient *client, struct fop *fop);
/* All that is below a directory, in words: names, attributes, data, links. */
void fclient_walk(struct fclient *client, const rf_handle_t *dir,
		  struct fc_aliases *aliases, FILE *out);
/* In words: equal for equal outcomes.  Without times, which are the server's. */
void fop_describe(const struct fop *fop, struct fc_aliases *aliases,
		  char text[FC_TEXT_SIZE]);

#endif /* TESTS_FAULT_CLIENT_H */

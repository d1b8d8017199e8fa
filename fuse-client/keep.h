/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keep.h - what a successor needs when the daemon dies, in memory that stays
 *
 * One memfd, which the supervisor holds; the daemon that serves the mount keeps
 * it up to date, and the next one rebuilds its tables from it and goes on with
 * it.  Records have the indices of their table's items.  Nothing in it is a
 * pointer.
 *
 * Crashes.  A process may die between any two stores, but what it stored is
 * there: no page is lost.  Each record has a word that makes it count, which is
 * stored last, and taken back first (rf_store_kept()).  What is told to the kernel
 * is recorded before.
 *
 * Secrets.  The session's secret and the cluster key are in it; that page is kept
 * out of the swap space if the limit of locked memory allows it, and all of it
 * out of core dumps.
 *
 * Sparse: pages that were never touched cost nothing.
 *
 * Threads.  [owner]
 */
#ifndef KEEP_H
#define KEEP_H

#include "client.h"
#include "files.h"
#include "held.h"
#include "inodes.h"
#include "libproto/rpc.h"

/* Change it with any change below, or in what it is made of. */
enum { KEEP_VERSION = 5 };

enum {
	KEEP_REQUESTS = 512,
	KEEP_REPLY_MAX = 512,		/* results of a change: attributes */
	KEEP_INIT_MAX = 256,		/* the kernel's INIT; 104 today */
	KEEP_UNANSWERED = 1 << 15,
	KEEP_WAITS = 4096,
	KEEP_TOLD = 512,		/* entries with attributes in one listing */
};

struct keep_inode {
	uint64_t inode, tag, lookups;
	uint32_t tree, generation, mode;
	uint32_t is_taken;		/* counts */
};

struct keep_file {
	uint64_t tag;
	uint32_t generation, inode, open, wire_flags, session, flags;
	uint32_t is_taken;		/* counts */
};

struct keep_range {
	uint64_t owner, fh, start, end;
	uint32_t inode, pid, flags;
	uint32_t is_taken;		/* counts */
};

enum keep_wait_state {
	KEEP_WAIT_FREE,
	KEEP_WAIT_CALLING,		/* LOCK, UNLOCK was not answered yet */
	KEEP_WAIT_PARKED,
	KEEP_WAIT_SETTLED,		/* its caller is about to be told */
	KEEP_WAIT_ORPHAN,		/* it was told; see orphan.c */
};

struct keep_wait {
	uint64_t unique, fh;
	struct rf_lock_args args;
	uint32_t generation, inode;
	uint32_t uid, gid, pid;
	int32_t err;			/* SETTLED */
	uint32_t state;			/* counts */
};

/* One message of a request, or what lies between two. */
struct keep_step {
	uint64_t sent_as;		/* 0: none is on its way; see rf_call */
	uint32_t done, size;		/* of a WRITE: before it, and in it */
};

/* A request of the kernel that changes something, until it is replied to. */
struct keep_request {
	uint64_t unique;		/* counts; 0: free */
	uint64_t fh;			/* the open that it has made; 0: none */
	uint32_t part;			/* of a WRITE, from 1; 0: not in parts */
	uint32_t part_size;		/* it is the whole of such parts */
	uint64_t parts_ended;		/* bits */
	uint64_t stopped_at;
	int32_t stop_err;
	uint32_t was_stopped;		/* the two above count */
	struct keep_step steps[2];
	uint32_t step;			/* which of them counts */
	uint32_t open, inode;		/* KEEP_RELEASE */
	uint32_t reply_size;		/* counts; 0: none */
	uint8_t reply[KEEP_REPLY_MAX];
};

/* Of what the reply tells that is just given: one lookup more of each. */
struct keep_told {
	uint64_t unique;
	uint64_t before;		/* lookups of the last, without this one */
	uint32_t count;			/* counts; 0: none is given */
	uint32_t inodes[KEEP_TOLD];
};

/* No unique of the kernel: an open that the server is to release. */
#define KEEP_RELEASE UINT64_MAX
/* The kernel's mark of what it sends again. */
#define KEEP_RESENT (UINT64_C(1) << 63)

enum { WAY_URI_SIZE = 256 };	/* verbs://mlx5_0 */

struct keep {
	char magic[8];
	uint32_t version;
	uint64_t size;

	/* once */
	struct mount_options options;
	struct rf_key key;
	char fabric_uri[WAY_URI_SIZE];
	rf_handle_t root;
	rf_attr_t root_attr;
	uint8_t init[KEEP_INIT_MAX] __attribute__((aligned(8)));
	uint32_t init_size;
	bool kernel_resends;

	/* all along */
	uint32_t generation;		/* of the session */
	uint32_t grant_ms;		/* a grant's term; 0: it has none */
	struct rf_statfs_results statfs;	/* the last answer, if has_statfs */
	uint32_t has_statfs;
	uint64_t lock_events_seen;
	struct rf_client_kept session;
	struct keep_request requests[KEEP_REQUESTS];
	struct keep_told told;
	/* uniques, where the kernel does not send them again; once.c */
	uint64_t unanswered[KEEP_UNANSWERED];

	/* By index, from 1; used is the highest that was ever taken. */
	struct keep_waits {
		uint32_t used;
		struct keep_wait v[KEEP_WAITS + 1];
	} waits;
	struct keep_ranges {
		uint32_t used;
		struct keep_range v[HELD_MAX + 1];
	} ranges;
	struct keep_files {
		uint32_t used;
		struct keep_file v[FILES_MAX + 1];
	} files;
	struct keep_inodes {
		uint32_t used;
		struct keep_inode v[INODES_MAX + 1];
	} inodes;
};

/* Zeroed; fd is the caller's.  [blocks] */
int keep_create(struct keep **out, int *fd);
/* -EPROTONOSUPPORT: of another version of this program. */
int keep_map(int fd, struct keep **out);

static inline void keep_use(uint32_t *used, uint32_t index)
{
	if (index > *used)
		rf_store_kept(used, index);
}

#endif /* KEEP_H */

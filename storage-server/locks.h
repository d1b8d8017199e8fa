/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locks.h - who has locked which bytes, and who waits
 *
 *	locks --+-- lock_inode    a file with locks: its holders and waits
 *	        `-- lock_owner    {session, number, kind}: its holdings and waits
 *	lock_holding              one owner's ranges on one file
 *	lock_wait                 a lock that is not there yet
 *
 * Rules.  fcntl(2): an owner's new lock replaces its old ones there.  flock(2):
 * a new one gives the old one up first, also if it is then refused.  Kinds do
 * not see each other.  A request that nothing held is in the way of is granted,
 * whoever waits: a process that has a shared lock may get one more while others
 * wait for an exclusive one, as on a local file system, for if it had to wait
 * behind them, and they for it, nobody would go on.  What ends is given on at
 * once, to the first who waits, so that nobody can take it in between.
 *
 * Deadlocks.  An owner waits for the owners that hold what is in its way.  A
 * wait that would close a circle is refused.  flock has no part in it, nor has
 * what was asked for with is_no_deadlock.
 *
 * Grace.  While is_in_grace, locks that are not claimed again wait; reclaimed
 * ones are set.
 *
 * Pure logic, but for memory that comes in chunks and stays.
 * Threads.  [owner] of the server.
 * Ownership.  Sessions embed a struct lock_session, which ends by
 * locks_end_session().
 * Errors.  0 or negative errno: -EAGAIN, -EDEADLK, -ENOLCK (a limit below).
 * Units.  Bytes; both ends belong to a range.
 */
#ifndef LOCKS_H
#define LOCKS_H

#include "libproto/ranges.h"

enum {
	LOCKS_MAX = 131072,		/* ranges, in all: 6 MiB */
	LOCKS_SESSION_MAX = 16384,
	/* More, that only an unlock may take: it splits a range, and who frees
	 * something is not refused because others have locked much. */
	LOCKS_RESERVE = LOCKS_MAX / 8,
	LOCKS_SESSION_RESERVE = LOCKS_SESSION_MAX / 8,
	LOCK_WAITS_MAX = 16384,		/* in all */
	LOCK_WAITS_SESSION_MAX = 4096,
	LOCK_CHUNK = 256,		/* records of one kind, allocated at once */
	LOCK_BUCKETS = 4096,		/* a power of two */
	/*
	 * Ranges compared in one call, about a millisecond's worth: for waits
	 * that may go on, the rest of which is for the next turn; and in search
	 * of deadlocks, of which none is found then.
	 */
	LOCK_STEPS_MAX = 100000,
};

enum lock_kind { LOCK_POSIX, LOCK_FLOCK };

struct lock_session {
	struct rf_list owners;
	struct rf_list waits;		/* not settled */
	struct rf_list settled;		/* and not told, or not known to be */
	unsigned int range_count, wait_count;
	uint64_t last_event;
	bool is_used;
	bool was_in_the_way;		/* another session was refused for it */
};

struct lock_request {
	uint64_t inode, owner;
	enum lock_kind kind;
	struct rf_range range;
	uint32_t open;
	uint64_t wait;			/* the number, if it has to wait */
	bool may_wait, is_no_deadlock, is_reclaim;
};

struct lock_event {
	uint64_t wait;
	int err;
};

struct lock_pool {
	struct rf_list free;
	size_t size;
	unsigned int count, max;
	void **chunks;
	unsigned int chunk_count;
};

struct locks {
	struct rf_list inodes[LOCK_BUCKETS];
	struct rf_list owners[LOCK_BUCKETS];
	struct rf_list grace_waits;	/* asked for in the grace */
	struct rf_list wakes;		/* files whose waits are to be looked at */
	uint64_t wake_steps, search_steps;	/* of this call */
	struct lock_pool ranges, waits, inode_pool, owner_pool, holdings;
	bool is_in_grace;
	bool is_stopping;		/* nothing is given on any more */
	uint64_t search;		/* number of the last one */
	/* A wait of this session has ended, or its last one has gone. */
	void (*settled)(struct lock_session *session);
	struct {
		uint64_t granted, refused, waited, deadlocks, denied;
		uint64_t put_off, searches_cut;	/* at LOCK_STEPS_MAX */
	} figures;
};

/* -ENOMEM. */
int locks_init(struct locks *locks,
	       void (*settled)(struct lock_session *session));
void locks_fini(struct locks *locks);

void locks_init_session(struct lock_session *session);
/* Its locks and waits are gone; nothing is told. */
void locks_end_session(struct locks *locks, struct lock_session *session);

/*
 * 0: it is locked.  1: it waits; locks->settled() will tell.  -EAGAIN,
 * -EDEADLK, -ENOLCK; -EINVAL: a reclaim when there is no grace, or a number
 * that waits already.
 */
int locks_set(struct locks *locks, struct lock_session *session,
	      const struct lock_request *request);

/* -ENOLCK: it splits a range, and not even of the reserve there is one left. */
int locks_clear(struct locks *locks, struct lock_session *session,
		const struct lock_request *request);

/* True: nothing is in the way.  Else *found and its session. */
bool locks_test(struct locks *locks, struct lock_session *session,
		const struct lock_request *request, struct rf_range *found,
		const struct lock_session **holder);

/* Does another session wait for what this one has, or was it refused for that
 * since was_in_the_way was cleared?  True also if that takes too long to tell. */
bool locks_are_wanted(const struct lock_session *session);

/* The open is gone: the locks whose owner used it last, and its waits. */
void locks_release_open(struct locks *locks, struct lock_session *session,
			uint64_t inode, uint32_t open);

/* End a wait: how it ended (-ECANCELED, or what was not told yet); -ENOENT. */
int locks_cancel(struct locks *locks, struct lock_session *session,
		 uint64_t wait);

/*
 * Forget what is up to seen, and give the next, at most max of them: how many.
 * *last: what to call them by in the next seen.
 */
unsigned int locks_events(struct locks *locks, struct lock_session *session,
			  uint64_t seen, struct lock_event *out,
			  unsigned int max, uint64_t *last);

static inline bool locks_waits(const struct lock_session *session)
{
	return !rf_list_is_empty(&session->waits);
}

static inline bool locks_has_events(const struct lock_session *session)
{
	return !rf_list_is_empty(&session->settled);
}

/* The grace is over: ask again for what was asked for in it. */
void locks_end_grace(struct locks *locks);

/* Something was put off: call locks_go_on() in another turn. */
bool locks_are_unfinished(const struct locks *locks);
void locks_go_on(struct locks *locks);

#endif /* LOCKS_H */

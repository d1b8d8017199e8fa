/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reactor.h - one thread, one wait: fabric, descriptors, timers, messages
 *
 * A reactor runs on one thread.  A turn is: wait once (epoll) for pollers,
 * watches, the nearest timer or a task; run what is ready; run the turn hooks.
 * All callbacks run to completion on that thread and must not block; what may
 * block goes to workers (struct rf_workers), whose jobs come back as tasks.
 *
 * Threads.  [owner] as in fabric.h, [any] elsewhere.
 * Ownership.  The caller's structures (watch, timer, task, hook, job) are
 * embedded and lent while started or posted; nothing is allocated after
 * creation.
 * Errors.  0 or negative errno.  Units: microseconds where it says _us.
 */
#ifndef RF_REACTOR_H
#define RF_REACTOR_H

#include "base.h"
#include "fabric.h"

struct rf_reactor;

int rf_reactor_create(struct rf_reactor **out);
/* Nothing may be started on it. */
void rf_reactor_destroy(struct rf_reactor *reactor);

/* Run turns until rf_reactor_stop(); the caller's thread becomes the owner. */
void rf_reactor_run(struct rf_reactor *reactor);
/*
 * One turn, waiting at most wait_ms (-1: no limit); true if anything ran.
 * For tests and for programs with a loop of their own.  [owner]
 */
bool rf_reactor_turn(struct rf_reactor *reactor, int wait_ms);
/* run() returns after this turn.  [any] [signal-safe] */
void rf_reactor_stop(struct rf_reactor *reactor);

/* Spin this long before each wait; 0 (the default): never.  [owner] */
void rf_reactor_set_poll_us(struct rf_reactor *reactor, uint32_t poll_us);

/*
 * CLOCK_BOOTTIME when this turn began to run what is ready (between turns: now),
 * or virtual time.  [owner]
 */
uint64_t rf_reactor_now_ns(const struct rf_reactor *reactor);
/*
 * Take the time from clock(context) instead, and never sleep: for simulation,
 * which calls rf_reactor_turn() and moves the time itself.  [owner]
 */
void rf_reactor_set_clock(struct rf_reactor *reactor,
			  uint64_t (*clock)(void *context), void *context);
/* When the nearest timer is due; UINT64_MAX if none is started.  [owner] */
uint64_t rf_reactor_next_due_ns(const struct rf_reactor *reactor);

/*
 * For statistics.  [any]  turns: those in which something ran; callbacks: in
 * them; waits: times that the thread went to sleep.
 */
struct rf_reactor_stats {
	uint64_t turns, waits, callbacks, longest_turn_ns;
};
void rf_reactor_stats(const struct rf_reactor *reactor,
		      struct rf_reactor_stats *out);

/* ---- fabric pollers ------------------------------------------------------ */

enum { RF_REACTOR_POLLERS_MAX = 16 };

/*
 * Run poller in each turn in which it has something to run; the reactor arms it
 * and waits on its descriptor.  -ENOSPC: RF_REACTOR_POLLERS_MAX.  [owner]
 */
int rf_reactor_add_poller(struct rf_reactor *reactor, struct rf_poller *poller);
void rf_reactor_remove_poller(struct rf_reactor *reactor,
			      struct rf_poller *poller);

/* ---- descriptors --------------------------------------------------------- */

struct rf_watch {
	/* events: EPOLLIN and so on.  Level-triggered. */
	void (*ready)(struct rf_watch *watch, uint32_t events);
	int fd;			/* private from here on */
	uint32_t events;
	bool is_started;
};

int rf_watch_start(struct rf_reactor *reactor, struct rf_watch *watch, int fd,
		   uint32_t events);			/* [owner] */
int rf_watch_change(struct rf_reactor *reactor, struct rf_watch *watch,
		    uint32_t events);			/* [owner] */
/* No callback runs after this, also not of events already fetched.  [owner] */
void rf_watch_stop(struct rf_reactor *reactor, struct rf_watch *watch);

/* ---- timers -------------------------------------------------------------- */

struct rf_timer {
	void (*fire)(struct rf_timer *timer);
	uint64_t due_ns;	/* private from here on; zero it once */
	uint32_t heap_index;	/* 0: not started */
};

enum { RF_REACTOR_TIMERS_MAX = 65536 };

/* One shot; starting a started timer moves it.  [owner] */
void rf_timer_start(struct rf_reactor *reactor, struct rf_timer *timer,
		    uint64_t delay_ms);
/* Harmless if not started.  [owner] */
void rf_timer_stop(struct rf_reactor *reactor, struct rf_timer *timer);
static inline bool rf_timer_is_started(const struct rf_timer *timer)
{
	return timer->heap_index != 0;
}

/* ---- tasks: work from other threads, or for later ------------------------ */

struct rf_task {
	void (*run)(struct rf_task *task);
	struct rf_task *next;	/* private */
};

/*
 * Run task on the reactor, in its next turn; tasks of one thread in order.
 * The task is ours again when run() is called.  [any]
 */
void rf_reactor_post(struct rf_reactor *reactor, struct rf_task *task);

/* ---- turn hooks ---------------------------------------------------------- */

/*
 * Called at the end of each turn in which anything ran, in the order added,
 * before the next wait: for what is batched over a turn (flush a log, then let
 * the answers leave).  A hook may add and remove hooks, itself too; what it adds
 * runs from the next such turn on.
 */
struct rf_hook {
	void (*run)(struct rf_hook *hook);
	struct rf_list link;	/* private from here on */
	uint64_t not_in_round;
};
void rf_hook_add(struct rf_reactor *reactor, struct rf_hook *hook);
void rf_hook_remove(struct rf_reactor *reactor, struct rf_hook *hook);

/* ---- workers: a few threads for what may block --------------------------- */

struct rf_workers;

struct rf_job {
	void (*run)(struct rf_job *job);	/* on a worker; may block */
	void (*done)(struct rf_job *job);	/* on the reactor that posted it */
	struct rf_task task;			/* private from here on */
	struct rf_job *next;
	struct rf_reactor *reactor;
};

/*
 * count threads named name.  With count 0 a job runs inside the reactor's next
 * turn: for simulation.
 */
int rf_workers_create(const char *name, unsigned int count,
		      struct rf_workers **out);
/* Waits for the jobs that were posted; their done() is a task in any case and
 * may still come.  [blocks] */
void rf_workers_destroy(struct rf_workers *workers);
/* First in, first out.  [owner of reactor] */
void rf_workers_post(struct rf_workers *workers, struct rf_reactor *reactor,
		     struct rf_job *job);

#endif /* RF_REACTOR_H */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.h - control of the loop fabric: time, chance, faults
 *
 * The loop fabric carries everything that fabric.h promises inside one
 * process, for tests and simulation.  All fabrics opened as "loop://NAME" with
 * the same NAME share a world: its clock, its chance and its faults.  Addresses
 * are plain names (sockaddr_in or sockaddr_in6; no socket exists).  A fabric
 * opened as "loop://NAME?host=10.0.0.2" lives at that address: it connects
 * from it and listens there only.  Without a host it connects from the loopback
 * address of the family asked for and may listen anywhere.
 *
 * Time.  A world's clock stands still until rf_loop_step() or rf_loop_advance()
 * moves it: those carry messages, and what they complete is then run by
 * rf_poller_run() of the poller that it belongs to.  So whoever drives a world
 * runs its pollers until none has anything left, then takes a step, and so on
 * (tests/common/fabric_rig.h does).  rf_poller_arm() tells the virtual time
 * until the next step; sleeping for it changes nothing.  See also
 * rf_loop_set_auto_step().
 *
 * Chance.  Equal seeds and equal calls give equal runs, on every machine;
 * rf_loop_digest() proves it.
 *
 * Harshness.  What fabric.h leaves open is used against the caller: the source
 * of a Send or Write is read when the message arrives, not when it is posted; a
 * Read reads its source and fills its sink at the moment of its completion; an
 * invalidation is done late; completions of a Send and of the Receive of its
 * answer come in either order; a close drops what was not delivered yet.
 *
 * Threads.  A world, its fabrics and all that belongs to them are used by one
 * thread.  rf_loop_world_get(), rf_loop_world_put() and rf_fabric_open() may be
 * called on any; worlds of different names don't touch each other.
 *
 * Units.  Nanoseconds of virtual time, where the name says so.
 */
#ifndef RF_LOOP_H
#define RF_LOOP_H

#include "fabric.h"

struct rf_loop_world;

/* The world of that name, made if there is none; NULL: no memory, or no name
 * (1 to 63 bytes, no '?').  A new world has seed 1 and latency 1 to 10 us. */
struct rf_loop_world *rf_loop_world_get(const char *name);

/* A world ends with its last user; open fabrics are users too. */
void rf_loop_world_put(struct rf_loop_world *world);

/* ---- time ---------------------------------------------------------------- */

uint64_t rf_loop_now_ns(const struct rf_loop_world *world);

/* When the next event is due; UINT64_MAX: none is. */
uint64_t rf_loop_next_ns(const struct rf_loop_world *world);

/* Advance to the next event and let it happen; false if there is none. */
bool rf_loop_step(struct rf_loop_world *world);

/* Let everything happen that is due in the next ns, then stand there. */
void rf_loop_advance(struct rf_loop_world *world, uint64_t ns);

/*
 * For callers that know nothing of virtual time: rf_poller_run() takes steps by
 * itself until it has something to run or nothing is left to happen, and
 * rf_poller_arm() returns 0 while there is.  Time-outs then strike as soon as
 * nothing else is left to happen.
 */
void rf_loop_set_auto_step(struct rf_loop_world *world, bool on);

/* ---- chance -------------------------------------------------------------- */

void rf_loop_set_seed(struct rf_loop_world *world, uint64_t seed);

/* One way, for each message; at least 1, and min_ns <= max_ns. */
void rf_loop_set_latency(struct rf_loop_world *world, uint64_t min_ns,
			 uint64_t max_ns);

/* Run completions of different connections, and of the two directions of one
 * connection, in random order.  What fabric.h orders stays in order. */
void rf_loop_set_reorder(struct rf_loop_world *world, bool on);

/* A digest of all that has happened: events, times, callbacks, statuses. */
uint64_t rf_loop_digest(const struct rf_loop_world *world);

/* ---- what fabrics opened from now on are like ---------------------------- */

void rf_loop_set_level(struct rf_loop_world *world, enum rf_level level);

/* Smaller or larger limits than the usual; hello_size_max is at most 512,
 * sge_count_max and read_sge_count_max at most 16. */
void rf_loop_set_limits(struct rf_loop_world *world,
			const struct rf_limits *limits);
void rf_loop_get_limits(const struct rf_loop_world *world,
			struct rf_limits *out);

/* ---- faults -------------------------------------------------------------- */

/*
 * A reliable connection loses no single message: cuts and partitions are its
 * faults.  Hosts are addresses; a port of 0 stands for all ports, a NULL host
 * for all hosts.
 */

/* Messages that start from now on take extra_ns longer; 0 takes it back.
 * -ENOSPC: 64 rules (delays and blocks) exist. */
int rf_loop_delay(struct rf_loop_world *world, const struct sockaddr *from,
		  const struct sockaddr *to, uint64_t extra_ns);

/* Nothing arrives in that direction, until heal; what is on its way waits.
 * Keep-alives end connections that stay so, on both sides. */
int rf_loop_block(struct rf_loop_world *world, const struct sockaddr *from,
		  const struct sockaddr *to);

/* Block both directions. */
int rf_loop_partition(struct rf_loop_world *world, const struct sockaddr *a,
		      const struct sockaddr *b);

/* Undo every delay, block and partition. */
void rf_loop_heal(struct rf_loop_world *world);

enum rf_loop_cut {
	RF_LOOP_CUT_RESET,	/* both sides are told: -ECONNRESET */
	RF_LOOP_CUT_SILENT,	/* nobody is told: keep-alives find it */
};

/* Cut one connection, given either of its ends. */
void rf_loop_cut_ep(struct rf_ep *ep, enum rf_loop_cut how);

/* Cut each connection between two hosts; returns their number. */
unsigned int rf_loop_cut(struct rf_loop_world *world, const struct sockaddr *a,
			 const struct sockaddr *b, enum rf_loop_cut how);

/* Cut one connection, chosen by the world's chance; false if none is open. */
bool rf_loop_cut_any(struct rf_loop_world *world, enum rf_loop_cut how);

/* Keep what an endpoint's poller should run from it, until it is let go. */
void rf_loop_hold(struct rf_ep *ep, bool on);

/* Each connect is refused as if nobody listened. */
void rf_loop_refuse_connects(struct rf_loop_world *world, bool on);

/* After `after` more registrations, the next count fail with -ENOMEM. */
void rf_loop_fail_registrations(struct rf_loop_world *world, unsigned int after,
				unsigned int count);

/* The same of Receives that are posted, by whatever endpoint. */
void rf_loop_fail_receives(struct rf_loop_world *world, unsigned int after,
			   unsigned int count);

/* Fill the memory of each Receive and of each Read's sink with 0xdb when it is
 * posted, so that who reads it too early sees it. */
void rf_loop_set_scribble(struct rf_loop_world *world, bool on);

#endif /* RF_LOOP_H */

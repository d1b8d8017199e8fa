/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_pair.h - one connection on the loop fabric, and its time in our hands
 */
#ifndef RF_TESTS_LOOP_PAIR_H
#define RF_TESTS_LOOP_PAIR_H

#include "fabric_rig.h"

#include <netinet/in.h>

#define MS 1000000ull

extern const struct rig_fabric loop_fabric;

struct pair {
	struct rig rig;
	struct rf_loop_world *world;
	struct rig_end client, server;
};

struct sockaddr_in loop_host(const char *text);
const struct sockaddr *loop_addr(const struct sockaddr_in *in);

/* Ready to connect; connected; both. */
void pair_prepare(struct pair *pair);
void pair_join(struct pair *pair);
void pair_open(struct pair *pair);

/* Block all between all. */
void pair_partition(struct pair *pair);

/* Run both pollers as long as they have something; time stands still. */
void pair_run(struct pair *pair);

/* Pass ns of virtual time, running what comes up on the way. */
void pair_pass(struct pair *pair, uint64_t ns);

/* A Receive, and a Send of 64 bytes to it. */
void pair_message(struct pair *pair, struct rig_op *send, struct rig_op *recv);

bool pair_is_readable(const struct rf_poller *poller);

#endif /* RF_TESTS_LOOP_PAIR_H */

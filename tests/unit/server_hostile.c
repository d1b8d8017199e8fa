/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_hostile.c - peers that say anything (hostile.h), by chance
 *
 * RF_SEED=N runs one sequence again, RF_PEERS=N so many.
 */
#include "tests/common/hostile.h"
#include "tests/common/wire.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

TestSuite(server_hostile, .timeout = 580);

enum {
	SEED = 2000,		/* of the short form */
	PEERS = 60,
	PEERS_LONG = 5000,
	ACTIONS = 60,		/* of a peer */
};

static unsigned int left;

static unsigned int by_chance(unsigned int limit)
{
	return (unsigned int)rand() % limit;
}

static bool goes_on(void)
{
	return left-- > 0;
}

Test(server_hostile, a_peer_that_says_anything_harms_nobody)
{
	unsigned int seed = wire_number("RF_SEED", getenv("LONG") ?
				      (unsigned int)time(NULL) : SEED);
	unsigned int count = wire_number("RF_PEERS", getenv("LONG") ? PEERS_LONG
							      : PEERS);
	struct hostile_figures figures;

	if (getenv("RF_SEED"))
		count = wire_number("RF_PEERS", 1);
	hostile_begin();
	for (unsigned int i = 0; i < count; i++) {
		printf("RF_SEED=%u\n", seed + i);
		fflush(stdout);
		srand(seed + i);
		left = ACTIONS;
		hostile_peer(by_chance, goes_on);
	}
	figures = hostile_end();
	printf("%u peers, %llu sessions, %llu messages\n", count,
	       (unsigned long long)figures.sessions,
	       (unsigned long long)figures.messages);
	cr_assert_gt(figures.sessions, count / 2);
}

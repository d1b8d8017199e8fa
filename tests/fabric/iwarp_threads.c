/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iwarp_threads.c - what other threads may do while a poller runs
 *
 * A region is withdrawn on one thread while a peer writes into it and reads
 * from it by way of the poller of another.
 */
#include "tests/common/iwarp_site.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { REGION_SIZE = 60000, ROUNDS = 30 };

struct withdrawal {
	struct rf_mr *mr;
	uint8_t *region, *after;
	_Atomic unsigned int laps;	/* of the peer */
	unsigned int at_lap;
};

/* On return of rf_mr_deregister() no access is under way: what is there now
 * stays. */
static void *withdraw(void *arg)
{
	struct withdrawal *w = arg;

	while (atomic_load(&w->laps) < w->at_lap)
		sched_yield();
	rf_mr_deregister(w->mr);
	memcpy(w->after, w->region, REGION_SIZE);
	memset(w->region, 0x77, REGION_SIZE / 2);
	memset(w->after, 0x77, REGION_SIZE / 2);
	return NULL;
}

static void write_and_read(struct peer *peer, struct guest *guest,
			   struct rf_remote remote, struct withdrawal *w)
{
	static uint8_t data[REGION_SIZE];
	struct peer_segment segment;
	uint8_t value = 0;

	while (!guest->closed) {
		memset(data, value = (uint8_t)(value % 100 + 1), sizeof(data));
		peer_write(peer, remote.rkey, remote.addr, data, sizeof(data));
		peer_read(peer, 1, 0, REGION_SIZE, remote.rkey, remote.addr);
		do
			if (!peer_recv(peer, &segment) ||
			    segment.opcode == PEER_TERMINATE)
				return;
		while (!segment.is_last);
		cr_assert_eq(segment.payload[0], value);
		cr_assert_eq(segment.payload[REGION_SIZE - 1], value);
		atomic_fetch_add(&w->laps, 1);
	}
}

Test(iwarp_threads, a_region_is_withdrawn_while_a_peer_uses_it, .timeout = 90)
{
	for (unsigned int round = 0; round < ROUNDS; round++) {
		struct withdrawal w = { .at_lap = round };
		struct rf_remote remote;
		pthread_t thread;
		struct site site;
		struct peer peer;
		struct guest *guest;

		site_open(&site, "iwarp://");
		guest = site_join(&site, &peer);
		w.region = calloc(1, REGION_SIZE);
		w.after = malloc(REGION_SIZE);
		cr_assert_eq(rf_mr_register(site.pd, w.region, REGION_SIZE,
					    RF_LOCAL_WRITE | RF_REMOTE_READ |
					    RF_REMOTE_WRITE, &w.mr), 0);
		remote = rf_mr_remote(w.mr, w.region, REGION_SIZE);
		cr_assert_eq(pthread_create(&thread, NULL, withdraw, &w), 0);
		write_and_read(&peer, guest, remote, &w);
		pthread_join(thread, NULL);
		site_until(&site, guest->closed);
		cr_assert_eq(guest->reason, -EACCES);
		cr_assert(memcmp(w.region, w.after, REGION_SIZE) == 0);
		site_end(&site, &peer);
		free(w.region);
		free(w.after);
	}
}

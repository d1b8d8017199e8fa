/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.c - what the loop fabric has beyond the others: its time, its chance,
 * and its severity with callers; its faults are in loop_faults.c
 */
#include "tests/common/loop_pair.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- time ---------------------------------------------------------------- */

Test(loop, time_stands_still_until_it_is_moved, .timeout = 10)
{
	struct rig_op send, recv;
	struct pair pair;
	uint64_t then_ns;

	pair_open(&pair);
	then_ns = rf_loop_now_ns(pair.world);
	cr_assert_eq(rf_loop_next_ns(pair.world), UINT64_MAX);
	cr_assert(!rf_loop_step(pair.world), "nothing was left to happen");
	pair_message(&pair, &send, &recv);
	for (int i = 0; i < 100; i++)
		pair_run(&pair);
	cr_assert_eq(recv.done_count, 0);
	cr_assert_eq(rf_loop_now_ns(pair.world), then_ns);
	rf_loop_advance(pair.world, 12345678);
	cr_assert_eq(rf_loop_now_ns(pair.world), then_ns + 12345678);
	pair_run(&pair);
	cr_assert(recv.done_count && send.done_count);
	rig_close(&pair.rig);
}

Test(loop, a_message_takes_the_latency_of_the_world, .timeout = 10)
{
	struct rig_op send, recv;
	struct pair pair;

	pair_open(&pair);
	rf_loop_set_latency(pair.world, 5000, 5000);
	pair_message(&pair, &send, &recv);
	pair_pass(&pair, 4999);
	cr_assert_eq(recv.done_count, 0);
	pair_pass(&pair, 1);
	cr_assert_eq(recv.done_count, 1);
	cr_assert_eq(send.done_count, 0, "done before it was acknowledged");
	pair_pass(&pair, 5000);
	cr_assert_eq(send.done_count, 1);
	rig_close(&pair.rig);
}

Test(loop, arm_tells_the_virtual_time_to_the_next_event, .timeout = 10)
{
	struct rig_op send, recv;
	struct pair pair;

	pair_open(&pair);
	cr_assert_eq(rf_poller_arm(pair.rig.a.poller), -1);
	rf_loop_set_latency(pair.world, 7 * MS, 7 * MS);
	pair_message(&pair, &send, &recv);
	cr_assert_eq(rf_poller_arm(pair.rig.b.poller), 7);
	rf_loop_advance(pair.world, 6 * MS + 1);
	cr_assert_eq(rf_poller_arm(pair.rig.b.poller), 1);
	rf_loop_advance(pair.world, MS);
	cr_assert_eq(rf_poller_arm(pair.rig.b.poller), 0);
	rig_close(&pair.rig);
}

Test(loop, the_descriptor_is_readable_exactly_while_work_is_ready,
     .timeout = 10)
{
	struct rig_op sends[2], recvs[2];
	struct pair pair;

	pair_open(&pair);
	pair_message(&pair, &sends[0], &recvs[0]);
	pair_message(&pair, &sends[1], &recvs[1]);
	cr_assert(!pair_is_readable(pair.rig.b.poller));
	while (rf_loop_step(pair.world))
		;
	cr_assert(pair_is_readable(pair.rig.b.poller));
	cr_assert_eq(rf_poller_run(pair.rig.b.poller, 1), 1);
	cr_assert(pair_is_readable(pair.rig.b.poller), "one is left");
	cr_assert_eq(rf_poller_run(pair.rig.b.poller, 1), 1);
	cr_assert(!pair_is_readable(pair.rig.b.poller));
	rig_close(&pair.rig);
}

Test(loop, auto_step_needs_no_driver, .timeout = 10)
{
	struct rig_op send, recv;
	struct pair pair;

	pair_open(&pair);
	rf_loop_set_auto_step(pair.world, true);
	pair_message(&pair, &send, &recv);
	cr_assert_eq(rf_poller_arm(pair.rig.b.poller), 0);
	while (!recv.done_count)
		rf_poller_wait(pair.rig.b.poller, 8, -1);
	while (!send.done_count)
		rf_poller_wait(pair.rig.a.poller, 8, -1);
	cr_assert_eq(rf_poller_arm(pair.rig.b.poller), -1);
	rig_close(&pair.rig);
}

Test(loop, reads_beyond_the_depth_start_when_others_are_done, .timeout = 10)
{
	struct rig_op reads[6];
	struct rig_grant grant;
	struct pair pair;

	pair_prepare(&pair);
	pair.server.config.reads_in = 2;
	pair_join(&pair);
	rig_grant_open(&pair.rig, &grant, &pair.server, 0, 64, RF_REMOTE_READ);
	rf_loop_set_latency(pair.world, 1000, 1000);
	for (size_t i = 0; i < 6; i++) {
		rig_op_init(&reads[i], &pair.client);
		cr_assert_eq(rig_read(&pair.client, &reads[i], i * 64,
				      grant.remote), 0);
	}
	for (size_t round = 1; round <= 3; round++) {
		pair_pass(&pair, 2000);
		for (size_t i = 0; i < 6; i++)
			cr_assert_eq(reads[i].done_count, i < 2 * round);
	}
	rig_part(&pair.rig, &pair.client, &pair.server);
	rig_grant_close(&grant);
	rig_close(&pair.rig);
}

/* ---- severity ------------------------------------------------------------ */

Test(loop, a_send_reads_its_buffer_when_it_arrives_not_when_posted,
     .timeout = 10)
{
	struct rig_op send, recv;
	struct pair pair;

	pair_open(&pair);
	rig_fill(&pair.rig.a, 0, 64, 1);
	pair_message(&pair, &send, &recv);
	rig_fill(&pair.rig.a, 0, 64, 2);	/* too early: a caller's bug */
	rig_until(&pair.rig, recv.done_count);
	cr_assert(rig_holds(&pair.rig.b, 0, 64, 2));
	rig_close(&pair.rig);
}

Test(loop, a_read_fills_its_sink_only_at_its_completion, .timeout = 10)
{
	struct rig_grant grant;
	struct rig_op read;
	struct pair pair;

	pair_open(&pair);
	rf_loop_set_latency(pair.world, 1000, 1000);
	rig_grant_open(&pair.rig, &grant, &pair.server, 0, 64, RF_REMOTE_READ);
	rig_fill(&pair.rig.b, 0, 64, 1);
	rig_fill(&pair.rig.a, 0, 64, 3);
	rig_op_init(&read, &pair.client);
	rf_loop_set_scribble(pair.world, false);
	cr_assert_eq(rig_read(&pair.client, &read, 0, grant.remote), 0);
	pair_pass(&pair, 1999);
	cr_assert(rig_holds(&pair.rig.a, 0, 64, 3));
	rig_fill(&pair.rig.b, 0, 64, 2);	/* the source is read as late */
	pair_pass(&pair, 1);
	cr_assert_eq(read.done_count, 1);
	cr_assert(rig_holds(&pair.rig.a, 0, 64, 2));
	rig_part(&pair.rig, &pair.client, &pair.server);
	rig_grant_close(&grant);
	rig_close(&pair.rig);
}

Test(loop, an_unbound_window_lives_until_its_unbind_is_done, .timeout = 10)
{
	struct rig_op unbind, read;
	struct rig_grant grant;
	struct pair pair;

	pair_open(&pair);
	rf_loop_set_latency(pair.world, 1000, 1000);
	rig_grant_open(&pair.rig, &grant, &pair.server, 0, 64, RF_REMOTE_READ);
	rig_fill(&pair.rig.b, 0, 64, 1);
	rig_op_init(&unbind, &pair.server);
	rig_op_init(&read, &pair.client);
	cr_assert_eq(rig_read(&pair.client, &read, 0, grant.remote), 0);
	pair_pass(&pair, 1500);
	cr_assert_eq(rig_unbind(&grant, &unbind), 0);
	rig_until(&pair.rig, read.done_count && unbind.done_count);
	cr_assert_eq(read.status, 0);
	cr_assert(read.order < unbind.order);
	rig_part(&pair.rig, &pair.client, &pair.server);
	rig_grant_close(&grant);
	rig_close(&pair.rig);
}

Test(loop, scribbling_shows_who_reads_a_receive_too_early, .timeout = 10)
{
	struct rig_op recv;
	struct pair pair;

	pair_open(&pair);
	rig_op_init(&recv, &pair.server);
	rig_fill(&pair.rig.b, 0, 128, 4);
	cr_assert_eq(rig_recv(&pair.server, &recv, 0, 64), 0);
	for (size_t i = 0; i < 64; i++)
		cr_assert_eq(pair.rig.b.arena[i], 0xdb);
	cr_assert_neq(pair.rig.b.arena[64], 0xdb);
	rig_close(&pair.rig);
}

Test(loop, a_region_in_use_cant_be_deregistered, .timeout = 10,
     .signal = SIGABRT)
{
	struct rig_op recv;
	struct pair pair;

	pair_open(&pair);
	rig_op_init(&recv, &pair.server);
	cr_assert_eq(rig_recv(&pair.server, &recv, 0, 64), 0);
	rf_mr_deregister(pair.rig.b.mr);
}

Test(loop, a_region_under_a_window_cant_be_deregistered, .timeout = 10,
     .signal = SIGABRT)
{
	struct rig_grant grant;
	struct pair pair;

	pair_open(&pair);
	rig_grant_open(&pair.rig, &grant, &pair.server, 0, 64, RF_REMOTE_READ);
	rf_mr_deregister(pair.rig.b.mr);
}

Test(loop, a_poller_in_use_cant_be_destroyed, .timeout = 10, .signal = SIGABRT)
{
	struct pair pair;

	pair_open(&pair);
	rf_poller_destroy(pair.rig.b.poller);
}

Test(loop, a_domain_in_use_cant_be_destroyed, .timeout = 10, .signal = SIGABRT)
{
	struct pair pair;

	pair_open(&pair);
	rf_pd_destroy(pair.rig.b.pd);
}

Test(loop, a_fabric_in_use_cant_be_closed, .timeout = 10, .signal = SIGABRT)
{
	struct pair pair;

	pair_open(&pair);
	rf_fabric_close(pair.rig.b.fab);
}

/* ---- hosts and names ----------------------------------------------------- */

struct home {
	struct rf_fabric *fab;
	struct rf_poller *poller;
};

static void home_open(struct home *home, const char *uri)
{
	cr_assert_eq(rf_fabric_open(uri, &home->fab), 0);
	cr_assert_eq(rf_poller_create(home->fab, 64, &home->poller), 0);
}

static void home_close(struct home *home)
{
	rf_poller_destroy(home->poller);
	rf_fabric_close(home->fab);
}

static int listen_at(struct home *home, const char *text,
		     struct rf_listener **out)
{
	struct sockaddr_storage addr;
	socklen_t size = rig_parse_address(text, &addr);

	return rf_listener_open(home->poller, (struct sockaddr *)&addr, size,
				NULL, NULL, out);
}

Test(loop, fabrics_of_one_world_may_live_at_different_hosts, .timeout = 10)
{
	struct rf_listener *one, *two, *none;
	struct sockaddr_storage addr;
	struct home homes[3];

	home_open(&homes[0], "loop://town?host=10.0.0.1");
	home_open(&homes[1], "loop://town?host=10.0.0.2");
	home_open(&homes[2], "loop://town?host=fd00::3");
	cr_assert_eq(listen_at(&homes[0], "0.0.0.0:20490", &one), 0);
	cr_assert_eq(listen_at(&homes[1], "0.0.0.0:20490", &two), 0);
	cr_assert_eq(listen_at(&homes[1], "10.0.0.2:20490", &none),
		     -EADDRINUSE);
	cr_assert_eq(listen_at(&homes[1], "10.0.0.1:7", &none),
		     -EADDRNOTAVAIL);
	cr_assert_eq(listen_at(&homes[2], "0.0.0.0:7", &none),
		     -EADDRNOTAVAIL);
	cr_assert_eq(rf_listener_address(two, &addr), 0);
	cr_assert_eq(((struct sockaddr_in *)(void *)&addr)->sin_addr.s_addr,
		     loop_host("10.0.0.2").sin_addr.s_addr);
	rf_listener_close(one);
	rf_listener_close(two);
	for (size_t i = 0; i < 3; i++)
		home_close(&homes[i]);
}

Test(loop, bad_uris_are_refused, .timeout = 10)
{
	const char *const bad[] = {
		"loop://", "loop://?host=10.0.0.1", "loop://x?host=",
		"loop://x?host=nowhere", "loop://x?hosts=10.0.0.1",
	};
	char longest[] = "loop://0123456789abcdef0123456789abcdef"
			 "0123456789abcdef0123456789abcdef";
	struct rf_fabric *fab;

	for (size_t i = 0; i < RF_ARRAY_SIZE(bad); i++)
		cr_assert_eq(rf_fabric_open(bad[i], &fab), -EINVAL, "%s",
			     bad[i]);
	/* 63 bytes are a name, 64 are not. */
	cr_assert_eq(rf_fabric_open(longest, &fab), -EINVAL);
	longest[sizeof(longest) - 2] = '\0';
	cr_assert_eq(rf_fabric_open(longest, &fab), 0);
	rf_fabric_close(fab);
	cr_assert(rf_loop_world_get("a?b") == NULL);
}

Test(loop, a_world_lasts_as_long_as_its_users, .timeout = 10)
{
	struct rf_loop_world *world = rf_loop_world_get("short-lived");
	struct rf_fabric *fab;

	rf_loop_advance(world, 77);
	cr_assert_eq(rf_fabric_open("loop://short-lived", &fab), 0);
	rf_loop_world_put(world);
	world = rf_loop_world_get("short-lived");
	cr_assert_eq(rf_loop_now_ns(world), 77, "another world");
	rf_fabric_close(fab);
	rf_loop_world_put(world);
	world = rf_loop_world_get("short-lived");
	cr_assert_eq(rf_loop_now_ns(world), 0, "the old world");
	rf_loop_world_put(world);
}

Test(loop, limits_may_be_made_smaller, .timeout = 10)
{
	struct rf_loop_world *world = rf_loop_world_get("narrow");
	struct rf_limits limits;
	struct rf_fabric *fab;

	rf_loop_get_limits(world, &limits);
	limits.read_sge_count_max = 1;
	limits.reads_max = 1;
	rf_loop_set_limits(world, &limits);
	cr_assert_eq(rf_fabric_open("loop://narrow", &fab), 0);
	cr_assert_eq(rf_fabric_limits(fab)->read_sge_count_max, 1);
	cr_assert_eq(rf_fabric_limits(fab)->reads_max, 1);
	rf_fabric_close(fab);
	rf_loop_world_put(world);
}

/* ---- chance -------------------------------------------------------------- */

/* Several connections, whose messages carry running numbers. */
enum { CROWD = 6, DEPTH = 8 };

struct talk {
	struct rig_end client, server;
	struct rig_op sends[DEPTH], recvs[DEPTH];
	unsigned int sent, received;
	bool is_over;		/* a post failed: its Receive may be lent still */
};

struct crowd {
	struct pair pair;	/* for its rig */
	struct talk talks[CROWD];
	unsigned int first_talk[CROWD];	/* whose message came how often first */
	unsigned int left;
};

static void talk_arrives(struct rig_op *op)
{
	struct talk *talk = op->context;
	unsigned int slot = (unsigned int)(op - talk->recvs);

	if (op->status)
		return;
	/* No gap, no repetition, no other order. */
	cr_assert_eq(op->size, 1 + talk->received % 64);
	cr_assert_eq(slot, talk->received % DEPTH);
	talk->received++;
}

static bool talk_has_room(const struct talk *talk)
{
	const struct rig_op *send = &talk->sends[talk->sent % DEPTH];
	const struct rig_op *recv = &talk->recvs[talk->sent % DEPTH];

	return talk->client.ep && talk->server.ep && !talk->is_over &&
	       (talk->sent < DEPTH || (send->done_count && recv->done_count));
}

static void talk_send(struct talk *talk)
{
	size_t slot = talk->sent % DEPTH;
	uint32_t size = 1 + talk->sent % 64;

	rig_op_init(&talk->recvs[slot], &talk->server);
	rig_op_init(&talk->sends[slot], &talk->client);
	talk->recvs[slot].then = talk_arrives;
	talk->recvs[slot].context = talk;
	if (rig_recv(&talk->server, &talk->recvs[slot], slot * 64, 64) ||
	    rig_send(&talk->client, &talk->sends[slot], slot * 64, size)) {
		talk->is_over = true;
		return;
	}
	talk->sent++;
}

static void crowd_open(struct crowd *crowd, uint64_t seed, bool reorders)
{
	memset(crowd, 0, sizeof(*crowd));
	rig_open(&crowd->pair.rig, &loop_fabric);
	crowd->pair.world = crowd->pair.rig.world;
	rf_loop_set_seed(crowd->pair.world, seed);
	rf_loop_set_reorder(crowd->pair.world, reorders);
	for (size_t i = 0; i < CROWD; i++)
		rig_join(&crowd->pair.rig, &crowd->talks[i].client,
			 &crowd->talks[i].server);
}

/* Random talk, with now and then a cut; the same for the same seed. */
static uint64_t crowd_talk(uint64_t seed, bool reorders)
{
	struct crowd crowd;
	uint64_t digest, chance = seed;

	crowd_open(&crowd, seed, reorders);
	for (unsigned int step = 0; step < 3000; step++) {
		struct talk *talk;

		chance = chance * 6364136223846793005u + 1442695040888963407u;
		talk = &crowd.talks[(chance >> 33) % CROWD];
		if (talk_has_room(talk))
			talk_send(talk);
		if ((chance >> 40) % 700 == 0)
			rf_loop_cut_any(crowd.pair.world,
					(chance >> 50) % 2 ?
					RF_LOOP_CUT_RESET :
					RF_LOOP_CUT_SILENT);
		rf_poller_run(crowd.pair.rig.a.poller, 2);
		rf_poller_run(crowd.pair.rig.b.poller, 2);
		rf_loop_step(crowd.pair.world);
	}
	digest = rf_loop_digest(crowd.pair.world);
	rig_close(&crowd.pair.rig);
	return digest;
}

Test(loop, equal_seeds_give_equal_runs, .timeout = 60)
{
	for (uint64_t seed = 0; seed < 20; seed++) {
		bool reorders = seed % 2;

		cr_assert_eq(crowd_talk(seed, reorders),
			     crowd_talk(seed, reorders), "seed %lu", seed);
	}
}

Test(loop, other_seeds_give_other_runs, .timeout = 60)
{
	uint64_t first = crowd_talk(1, true);

	for (uint64_t seed = 2; seed < 10; seed++)
		cr_assert_neq(crowd_talk(seed, true), first);
}

Test(loop, order_holds_within_a_connection_whatever_chance_does, .timeout = 60)
{
	const char *chosen = getenv("RF_SEED");
	uint64_t seed;

	rf_random(&seed, sizeof(seed));
	if (chosen)
		seed = strtoull(chosen, NULL, 0);
	fprintf(stderr, "RF_SEED=%lu\n", seed);
	for (int run = 0; run < 30; run++)
		crowd_talk(seed + (uint64_t)run, true);
}

static struct rig_op *first_of_two(struct crowd *crowd)
{
	struct rig_op *a, *b;

	talk_send(&crowd->talks[0]);
	talk_send(&crowd->talks[1]);
	a = &crowd->talks[0].recvs[(crowd->talks[0].sent - 1) % DEPTH];
	b = &crowd->talks[1].recvs[(crowd->talks[1].sent - 1) % DEPTH];
	/* Both have arrived before either is run. */
	while (rf_loop_step(crowd->pair.world))
		;
	rig_settle(&crowd->pair.rig);
	cr_assert(a->done_count && b->done_count);
	return a->order < b->order ? a : b;
}

Test(loop, reordering_runs_connections_in_either_order, .timeout = 30)
{
	unsigned int first_count = 0;
	struct crowd crowd;

	crowd_open(&crowd, 5, true);
	for (int round = 0; round < 100; round++)
		first_count += first_of_two(&crowd)->end ==
			       &crowd.talks[0].server;
	cr_assert(first_count > 20 && first_count < 80, "%u of 100",
		  first_count);
	rig_close(&crowd.pair.rig);
}

Test(loop, reordering_may_tell_the_answer_before_the_sends_own_end,
     .timeout = 30)
{
	unsigned int answer_first = 0;
	struct pair pair;

	pair_open(&pair);
	rf_loop_set_reorder(pair.world, true);
	for (int round = 0; round < 100; round++) {
		struct rig_op ping, served, pong, answer;

		pair_message(&pair, &ping, &served);
		rig_op_init(&answer, &pair.client);
		rig_op_init(&pong, &pair.server);
		cr_assert_eq(rig_recv(&pair.client, &answer, 128, 64), 0);
		cr_assert_eq(rig_send(&pair.server, &pong, 128, 1), 0);
		while (rf_loop_step(pair.world))
			;
		pair_run(&pair);
		answer_first += answer.order < ping.order;
	}
	cr_assert(answer_first > 20 && answer_first < 80, "%u of 100",
		  answer_first);
	rig_close(&pair.rig);
}

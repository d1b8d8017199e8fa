/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_faults.c - delays, holds, cuts, partitions and refusals of the loop
 */
#include "tests/common/loop_pair.h"

#include <arpa/inet.h>
#include <errno.h>

/* ---- delays and holds ---------------------------------------------------- */

Test(loop_faults, a_delay_slows_one_direction_of_two_hosts, .timeout = 10)
{
	struct sockaddr_in own = loop_host("127.0.0.1");
	struct sockaddr_in other = loop_host("127.0.0.2");
	struct rig_op send, recv;
	struct pair pair;

	pair_prepare(&pair);
	rig_listen_at(&pair.rig, "127.0.0.2:0");
	pair_join(&pair);
	rf_loop_set_latency(pair.world, 1000, 1000);
	cr_assert_eq(rf_loop_delay(pair.world, loop_addr(&own), loop_addr(&other),
				   MS), 0);
	pair_message(&pair, &send, &recv);
	pair_pass(&pair, MS + 999);
	cr_assert_eq(recv.done_count, 0);
	pair_pass(&pair, 1);
	cr_assert_eq(recv.done_count, 1);
	pair_pass(&pair, 1000);
	cr_assert_eq(send.done_count, 1, "the way back is not delayed");
	cr_assert_eq(rf_loop_delay(pair.world, loop_addr(&own), loop_addr(&other),
				   0), 0);
	pair_message(&pair, &send, &recv);
	pair_pass(&pair, 1000);
	cr_assert_eq(recv.done_count, 1);
	rig_close(&pair.rig);
}

Test(loop_faults, rules_have_a_limit, .timeout = 10)
{
	struct sockaddr_in addr = loop_host("10.0.0.1");
	struct pair pair;

	pair_open(&pair);
	for (uint16_t port = 1; port <= 64; port++) {
		addr.sin_port = htons(port);
		cr_assert_eq(rf_loop_delay(pair.world, loop_addr(&addr), NULL, 1),
			     0);
	}
	addr.sin_port = htons(65);
	cr_assert_eq(rf_loop_delay(pair.world, loop_addr(&addr), NULL, 1),
		     -ENOSPC);
	cr_assert_eq(rf_loop_partition(pair.world, loop_addr(&addr), NULL),
		     -ENOSPC);
	addr.sin_port = htons(64);
	cr_assert_eq(rf_loop_delay(pair.world, loop_addr(&addr), NULL, 0), 0);
	rf_loop_heal(pair.world);
	rig_close(&pair.rig);
}

Test(loop_faults, held_completions_are_late_not_lost, .timeout = 10)
{
	struct rig_op sends[2], recvs[2];
	struct pair pair;

	pair_open(&pair);
	rf_loop_hold(pair.server.ep, true);
	pair_message(&pair, &sends[0], &recvs[0]);
	pair_message(&pair, &sends[1], &recvs[1]);
	rig_settle(&pair.rig);
	cr_assert(sends[0].done_count && sends[1].done_count);
	cr_assert_eq(recvs[0].done_count + recvs[1].done_count, 0);
	cr_assert(!pair_is_readable(pair.rig.b.poller));
	rf_loop_hold(pair.server.ep, false);
	pair_run(&pair);
	cr_assert_eq(recvs[0].done_count + recvs[1].done_count, 2);
	cr_assert(recvs[0].order < recvs[1].order);
	rig_close(&pair.rig);
}

/* ---- cuts ---------------------------------------------------------------- */

Test(loop_faults, a_cut_is_seen_by_both_sides, .timeout = 10)
{
	struct rig_op send, recv;
	struct pair pair;

	pair_open(&pair);
	pair_message(&pair, &send, &recv);
	rf_loop_cut_ep(pair.server.ep, RF_LOOP_CUT_RESET);
	rig_until(&pair.rig, pair.client.closed && pair.server.closed);
	cr_assert_eq(pair.client.reason, -ECONNRESET);
	cr_assert_eq(pair.server.reason, -ECONNRESET);
	cr_assert_eq(send.status, -ECANCELED);
	cr_assert_eq(recv.status, -ECANCELED);
	rig_close(&pair.rig);
}

Test(loop_faults, a_cut_may_hide_that_a_message_arrived, .timeout = 10)
{
	struct rig_op send, recv;
	struct pair pair;

	pair_open(&pair);
	rf_loop_set_latency(pair.world, 1000, 1000);
	pair_message(&pair, &send, &recv);
	pair_pass(&pair, 1000);
	cr_assert_eq(recv.status, 0);
	cr_assert_eq(recv.done_count, 1);
	rf_loop_cut_ep(pair.client.ep, RF_LOOP_CUT_SILENT);
	rf_ep_close(pair.client.ep);
	rig_until(&pair.rig, pair.client.closed);
	cr_assert_eq(send.status, -ECANCELED);
	rig_close(&pair.rig);
}

Test(loop_faults, keepalives_find_a_silent_cut, .timeout = 10)
{
	struct rig_op send, recv;
	struct pair pair;
	uint64_t cut_ns;

	pair_prepare(&pair);
	pair.client.config.keepalive_ms = 3000;
	pair.server.config.keepalive_ms = 5000;
	pair_join(&pair);
	pair_message(&pair, &send, &recv);
	cut_ns = rf_loop_now_ns(pair.world);
	rf_loop_cut_ep(pair.client.ep, RF_LOOP_CUT_SILENT);
	rig_until(&pair.rig, pair.client.closed);
	cr_assert_eq(rf_loop_now_ns(pair.world) - cut_ns, 3000 * MS);
	cr_assert_eq(pair.client.reason, -ETIMEDOUT);
	rig_until(&pair.rig, pair.server.closed);
	cr_assert_eq(rf_loop_now_ns(pair.world) - cut_ns, 5000 * MS);
	cr_assert_eq(pair.server.reason, -ETIMEDOUT);
	cr_assert_eq(recv.status, -ECANCELED);
	rig_close(&pair.rig);
}

Test(loop_faults, without_keepalive_a_silent_cut_is_never_found, .timeout = 10)
{
	struct rig_op send, recv;
	struct pair pair;

	pair_open(&pair);
	pair_message(&pair, &send, &recv);
	rf_loop_cut_ep(pair.client.ep, RF_LOOP_CUT_SILENT);
	pair_pass(&pair, 86400000 * MS);
	cr_assert_eq(pair.client.closed + pair.server.closed, 0);
	cr_assert_eq(send.done_count + recv.done_count, 0);
	rig_close(&pair.rig);
}

Test(loop_faults, connections_are_cut_by_their_hosts, .timeout = 10)
{
	struct sockaddr_in here = loop_host("127.0.0.1");
	struct sockaddr_in there = loop_host("10.9.9.9");
	struct rig_end clients[5], servers[5];
	struct rig rig;

	rig_open(&rig, &loop_fabric);
	for (size_t i = 0; i < 5; i++)
		rig_join(&rig, &clients[i], &servers[i]);
	cr_assert_eq(rf_loop_cut(rig.world, loop_addr(&here), loop_addr(&there),
				 RF_LOOP_CUT_RESET), 0);
	cr_assert(rf_loop_cut_any(rig.world, RF_LOOP_CUT_RESET));
	rig_settle(&rig);
	cr_assert_eq(rf_loop_cut(rig.world, loop_addr(&here), NULL,
				 RF_LOOP_CUT_RESET), 4);
	cr_assert(!rf_loop_cut_any(rig.world, RF_LOOP_CUT_RESET));
	for (size_t i = 0; i < 5; i++)
		rig_until(&rig, clients[i].closed && servers[i].closed);
	rig_close(&rig);
}

/* ---- partitions ---------------------------------------------------------- */

Test(loop_faults, what_is_on_its_way_waits_for_the_healing, .timeout = 10)
{
	enum { COUNT = 10 };
	struct rig_op sends[COUNT], recvs[COUNT], read;
	struct rig_grant grant;
	struct pair pair;

	pair_prepare(&pair);
	pair.client.config.keepalive_ms = 1000;
	pair.server.config.keepalive_ms = 1000;
	pair_join(&pair);
	rig_grant_open(&pair.rig, &grant, &pair.server, RIG_MIB(1), 4096,
		       RF_REMOTE_READ);
	rig_fill(&pair.rig.b, RIG_MIB(1), 4096, 8);
	rig_op_init(&read, &pair.client);
	cr_assert_eq(rig_read(&pair.client, &read, RIG_MIB(1), grant.remote),
		     0);
	for (size_t i = 0; i < COUNT; i++) {
		pair_message(&pair, &sends[i], &recvs[i]);
		if (i == COUNT / 2)
			pair_partition(&pair);
	}
	pair_pass(&pair, 900 * MS);
	for (size_t i = 0; i < COUNT; i++)
		cr_assert_eq(sends[i].done_count + recvs[i].done_count, 0);
	rf_loop_heal(pair.world);
	pair_pass(&pair, 5000 * MS);	/* no keep-alive strikes after it */
	cr_assert_eq(pair.client.closed + pair.server.closed, 0);
	cr_assert_eq(read.status, 0);
	cr_assert(rig_holds(&pair.rig.a, RIG_MIB(1), 4096, 8));
	for (size_t i = 0; i < COUNT; i++) {
		cr_assert(sends[i].done_count && recvs[i].done_count);
		cr_assert(i == 0 || recvs[i].order > recvs[i - 1].order);
	}
	rig_part(&pair.rig, &pair.client, &pair.server);
	rig_grant_close(&grant);
	rig_close(&pair.rig);
}

Test(loop_faults, a_long_partition_ends_connections_on_both_sides,
     .timeout = 10)
{
	struct rig_op send, recv;
	struct pair pair;

	pair_prepare(&pair);
	pair.client.config.keepalive_ms = 1000;
	pair.server.config.keepalive_ms = 1000;
	pair_join(&pair);
	pair_message(&pair, &send, &recv);
	pair_partition(&pair);
	pair_pass(&pair, 1000 * MS);
	cr_assert_eq(pair.client.closed + pair.server.closed, 2);
	cr_assert_eq(pair.client.reason, -ETIMEDOUT);
	cr_assert_eq(pair.server.reason, -ETIMEDOUT);
	rf_loop_heal(pair.world);
	rig_settle(&pair.rig);
	rig_close(&pair.rig);
}

Test(loop_faults, one_blocked_direction_ends_a_connection_too, .timeout = 10)
{
	struct sockaddr_in there = loop_host("127.0.0.2");
	struct rig_op send, recv;
	struct pair pair;

	pair_prepare(&pair);
	pair.client.config.keepalive_ms = 1000;
	rig_listen_at(&pair.rig, "127.0.0.2:0");
	pair_join(&pair);
	cr_assert_eq(rf_loop_block(pair.world, loop_addr(&there), NULL), 0);
	pair_message(&pair, &send, &recv);
	pair_pass(&pair, 999 * MS);
	cr_assert_eq(recv.status, 0);
	cr_assert_eq(recv.done_count, 1, "that way is open");
	cr_assert_eq(send.done_count, 0, "the acknowledgement can't pass");
	pair_pass(&pair, MS);
	cr_assert_eq(pair.client.reason, -ETIMEDOUT);
	/* Its goodbye passes. */
	rig_until(&pair.rig, pair.server.closed);
	rig_close(&pair.rig);
}

Test(loop_faults, a_goodbye_waits_for_the_healing, .timeout = 10)
{
	struct pair pair;

	pair_open(&pair);
	pair_partition(&pair);
	rf_ep_close(pair.client.ep);
	pair_pass(&pair, 1000 * MS);
	cr_assert_eq(pair.client.closed, 1);
	cr_assert_eq(pair.server.closed, 0, "it could not know");
	rf_loop_heal(pair.world);
	rig_until(&pair.rig, pair.server.closed);
	rig_close(&pair.rig);
}

Test(loop_faults, connecting_into_a_partition_waits_or_times_out, .timeout = 10)
{
	struct pair pair;

	pair_prepare(&pair);
	rig_listen(&pair.rig);
	pair.rig.accepts_with = &pair.server;
	pair.client.config.setup_ms = 500;
	pair_partition(&pair);
	cr_assert_eq(rig_end_connect(&pair.rig, &pair.client), 0);
	pair_pass(&pair, 499 * MS);
	rf_loop_heal(pair.world);
	rig_until(&pair.rig, pair.client.connected && pair.server.connected);
	rig_part(&pair.rig, &pair.client, &pair.server);

	pair_partition(&pair);
	rig_end_init(&pair.client, &pair.rig.a);
	pair.client.config.setup_ms = 500;
	cr_assert_eq(rig_end_connect(&pair.rig, &pair.client), 0);
	pair_pass(&pair, 500 * MS);
	cr_assert_eq(pair.client.reason, -ETIMEDOUT);
	rig_close(&pair.rig);
}

Test(loop_faults, an_answer_that_cant_pass_leaves_two_opinions, .timeout = 10)
{
	struct pair pair;

	pair_prepare(&pair);
	rig_listen(&pair.rig);
	pair.client.config.setup_ms = 500;
	pair.server.config.keepalive_ms = 2000;
	cr_assert_eq(rig_end_connect(&pair.rig, &pair.client), 0);
	rig_until(&pair.rig, pair.rig.incoming_count > 0);
	pair_partition(&pair);
	cr_assert_eq(rig_end_accept(&pair.server, pair.rig.incoming[0]), 0);
	pair_pass(&pair, 500 * MS);
	cr_assert_eq(pair.client.reason, -ETIMEDOUT);
	cr_assert_eq(pair.client.connected, 0);
	cr_assert_eq(pair.server.connected, 1);
	cr_assert_eq(pair.server.closed, 0);
	pair_pass(&pair, 1500 * MS);
	cr_assert_eq(pair.server.reason, -ETIMEDOUT);
	rig_close(&pair.rig);
}

/* ---- refusals ------------------------------------------------------------ */

Test(loop_faults, connects_are_refused_by_request, .timeout = 10)
{
	struct pair pair;

	pair_prepare(&pair);
	rig_listen(&pair.rig);
	rf_loop_refuse_connects(pair.world, true);
	cr_assert_eq(rig_end_connect(&pair.rig, &pair.client), 0);
	rig_until(&pair.rig, pair.client.closed);
	cr_assert_eq(pair.client.reason, -ECONNREFUSED);
	rf_loop_refuse_connects(pair.world, false);
	rig_end_init(&pair.client, &pair.rig.a);
	pair_join(&pair);
	rig_close(&pair.rig);
}

Test(loop_faults, a_full_backlog_refuses, .timeout = 30)
{
	enum { BACKLOG = 1024 };
	static struct rig_end clients[BACKLOG + 1];
	struct rig rig;

	rig_open(&rig, &loop_fabric);
	rig_listen(&rig);
	for (size_t i = 0; i <= BACKLOG; i++) {
		rig_end_init(&clients[i], &rig.a);
		clients[i].config.setup_ms = 0;
		clients[i].config.send_depth = 1;
		clients[i].config.recv_depth = 1;
		cr_assert_eq(rig_end_connect(&rig, &clients[i]), 0);
		/* All wait in front of a server that does not run. */
		while (rf_loop_step(rig.world))
			;
	}
	rf_poller_run(rig.a.poller, 64);
	cr_assert_eq(clients[BACKLOG].reason, -ECONNREFUSED);
	cr_assert_eq(clients[0].closed, 0);
	rig_close(&rig);
}

Test(loop_faults, registrations_fail_by_request, .timeout = 10)
{
	struct rf_mr *first, *second;
	struct pair pair;

	pair_prepare(&pair);
	rf_loop_fail_registrations(pair.world, 1, 1);
	cr_assert_eq(rf_mr_register(pair.rig.a.pd, pair.rig.a.arena, 64, 0,
				    &first), 0);
	cr_assert_eq(rf_mr_register(pair.rig.a.pd, pair.rig.a.arena, 64, 0,
				    &second), -ENOMEM);
	cr_assert_eq(rf_mr_register(pair.rig.a.pd, pair.rig.a.arena, 64, 0,
				    &second), 0);
	rf_mr_deregister(first);
	rf_mr_deregister(second);
	rig_close(&pair.rig);
}

Test(loop_faults, a_close_overtakes_the_news_of_the_connection, .timeout = 10)
{
	struct pair pair;

	pair_prepare(&pair);
	rig_listen(&pair.rig);
	pair.rig.accepts_with = &pair.server;
	cr_assert_eq(rig_end_connect(&pair.rig, &pair.client), 0);
	/* The answer arrives, but the client's poller does not run. */
	while (!pair.server.connected) {
		rf_loop_step(pair.world);
		rf_poller_run(pair.rig.b.poller, 8);
	}
	while (!pair_is_readable(pair.rig.a.poller))
		cr_assert(rf_loop_step(pair.world));
	rf_ep_close(pair.client.ep);
	rig_until(&pair.rig, pair.client.closed && pair.server.closed);
	cr_assert_eq(pair.client.connected, 0);
	cr_assert_eq(pair.client.reason, 0);
	rig_close(&pair.rig);
}

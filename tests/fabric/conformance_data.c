/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conformance_data.c - what every fabric does with posted work: order, place,
 * completion, room
 */
#include "tests/common/fabric_rig.h"

#include <errno.h>
#include <stdlib.h>

static const uint32_t sizes[] = {
	1, 2, 3, 4, 7, 64, 1000, 4095, 4096, 4097, 65535, 65536, 65537,
	100001, RIG_MIB(1) - 1, RIG_MIB(1), RIG_MIB(1) + 1, RIG_MIB(2),
};

/* A pair that is connected and has exchanged its first word. */
struct pair {
	struct rig rig;
	struct rig_end client, server;
};

static void pair_open(struct pair *pair, const struct rig_fabric *fabric)
{
	rig_open(&pair->rig, fabric);
	rig_join(&pair->rig, &pair->client, &pair->server);
}

static void pair_close(struct pair *pair)
{
	rig_close(&pair->rig);
	cr_assert_eq(pair->client.closed, 1);
	cr_assert_eq(pair->server.closed, 1);
	cr_assert_eq(pair->client.reason, 0);
	cr_assert_eq(pair->server.reason, 0);
}

/* Cut [offset, offset + size) into count pieces, small and odd ones first. */
static unsigned int cut(struct rig_end *end, size_t offset, uint32_t size,
			unsigned int count, struct rf_sge *out)
{
	if (count > size)
		count = size;
	for (unsigned int i = 0; i < count; i++) {
		uint32_t piece = i + 1 == count ? size : 1 + (size / count) / 3;

		out[i] = rig_sge(end, offset, piece);
		offset += piece;
		size -= piece;
	}
	return count;
}

/* ---- Sends and Receives -------------------------------------------------- */

CONFORMANCE_TEST(conformance_data, sends_arrive_in_order_and_keep_their_sizes)
{
	enum { COUNT = 32 };
	struct rig_op sends[COUNT], recvs[COUNT];
	struct pair pair;

	pair_open(&pair, fabric);
	for (uint32_t i = 0; i < COUNT; i++) {
		rig_op_init(&recvs[i], &pair.server);
		cr_assert_eq(rig_recv(&pair.server, &recvs[i], i * 4096, 4096),
			     0);
	}
	for (uint32_t i = 0; i < COUNT; i++) {
		rig_op_init(&sends[i], &pair.client);
		rig_fill(&pair.rig.a, i * 4096, 1 + i * 100, i);
		cr_assert_eq(rig_send(&pair.client, &sends[i], i * 4096,
				      1 + i * 100), 0);
	}
	rig_until(&pair.rig, sends[COUNT - 1].done_count &&
		  recvs[COUNT - 1].done_count);
	for (uint32_t i = 0; i < COUNT; i++) {
		cr_assert_eq(sends[i].status, 0);
		cr_assert_eq(recvs[i].status, 0);
		cr_assert_eq(recvs[i].size, 1 + i * 100);
		cr_assert_eq(recvs[i].inv_key, 0);
		cr_assert(rig_holds(&pair.rig.b, i * 4096, 1 + i * 100, i));
		cr_assert(i == 0 || recvs[i].order > recvs[i - 1].order);
		cr_assert(i == 0 || sends[i].order > sends[i - 1].order);
	}
	pair_close(&pair);
}

CONFORMANCE_TEST(conformance_data, a_receive_may_be_filled_to_its_last_byte)
{
	struct pair pair;

	pair_open(&pair, fabric);
	for (size_t i = 0; i < RF_ARRAY_SIZE(sizes); i++) {
		struct rig_op send, recv;

		if (sizes[i] > rf_ep_limits(pair.client.ep)->msg_size_max)
			break;
		rig_op_init(&send, &pair.client);
		rig_op_init(&recv, &pair.server);
		rig_fill(&pair.rig.a, 0, sizes[i], 7);
		rig_fill(&pair.rig.b, 0, sizes[i] + 100, 9);
		cr_assert_eq(rig_recv(&pair.server, &recv, 0, sizes[i]), 0);
		pair.rig.b.arena[sizes[i]] = 0x5a;
		cr_assert_eq(rig_send(&pair.client, &send, 0, sizes[i]), 0);
		rig_until(&pair.rig, recv.done_count && send.done_count);
		cr_assert_eq(recv.status, 0);
		cr_assert_eq(recv.size, sizes[i]);
		cr_assert(rig_holds(&pair.rig.b, 0, sizes[i], 7));
		cr_assert_eq(pair.rig.b.arena[sizes[i]], 0x5a);
	}
	pair_close(&pair);
}

CONFORMANCE_TEST(conformance_data, a_send_gathers_its_pieces)
{
	struct pair pair;
	struct rf_sge pieces[64];

	pair_open(&pair, fabric);
	for (unsigned int n = 1;
	     n <= rf_ep_limits(pair.client.ep)->sge_count_max && n <= 64; n++) {
		struct rig_op send, recv;
		struct rf_work work = rig_work(RF_SEND, &send, pieces,
					       cut(&pair.client, 0, 3000, n,
						   pieces));

		rig_op_init(&send, &pair.client);
		rig_op_init(&recv, &pair.server);
		rig_fill(&pair.rig.a, 0, 3000, n);
		cr_assert_eq(rig_recv(&pair.server, &recv, 0, 4096), 0);
		cr_assert_eq(rig_post(&pair.client, &work, 1), 0);
		rig_until(&pair.rig, recv.done_count && send.done_count);
		cr_assert_eq(recv.size, 3000);
		cr_assert(rig_holds(&pair.rig.b, 0, 3000, n));
	}
	pair_close(&pair);
}

CONFORMANCE_TEST(conformance_data, a_send_buffer_may_be_reused_once_done)
{
	struct pair pair;
	struct rig_op send, recv;

	pair_open(&pair, fabric);
	for (uint32_t round = 0; round < 20; round++) {
		rig_op_init(&send, &pair.client);
		rig_op_init(&recv, &pair.server);
		rig_fill(&pair.rig.a, 0, RIG_KIB(64), round);
		cr_assert_eq(rig_recv(&pair.server, &recv, 0, RIG_KIB(64)), 0);
		cr_assert_eq(rig_send(&pair.client, &send, 0, RIG_KIB(64)), 0);
		rig_until(&pair.rig, send.done_count);
		rig_fill(&pair.rig.a, 0, RIG_KIB(64), 1000);
		rig_until(&pair.rig, recv.done_count);
		cr_assert(rig_holds(&pair.rig.b, 0, RIG_KIB(64), round));
	}
	pair_close(&pair);
}

/* Ping-pong from inside the callbacks: each op is posted again by its done. */
struct volley {
	struct pair pair;
	struct rig_op ping, pong, serve, ret;
	unsigned int left;
};

static void serve_returns(struct rig_op *op)
{
	struct volley *volley = op->context;

	if (op->status)
		return;
	rig_op_init(&volley->ret, &volley->pair.server);
	cr_assert_eq(rig_send(&volley->pair.server, &volley->ret, 0, op->size),
		     0);
}

static void volley_next(struct volley *volley);

static void ping_is_back(struct rig_op *op)
{
	struct volley *volley = op->context;

	if (op->status)
		return;
	volley->left--;
	/* The Send's own completion may come after the answer. */
	if (volley->left > 0 && volley->ping.done_count &&
	    volley->ret.done_count)
		volley_next(volley);
}

static void volley_next(struct volley *volley)
{
	rig_op_init(&volley->serve, &volley->pair.server);
	rig_op_init(&volley->pong, &volley->pair.client);
	rig_op_init(&volley->ping, &volley->pair.client);
	volley->serve.then = serve_returns;
	volley->pong.then = ping_is_back;
	volley->serve.context = volley->pong.context = volley;
	cr_assert_eq(rig_recv(&volley->pair.server, &volley->serve, 0, 64), 0);
	cr_assert_eq(rig_recv(&volley->pair.client, &volley->pong, 0, 64), 0);
	cr_assert_eq(rig_send(&volley->pair.client, &volley->ping, 64, 64), 0);
}

CONFORMANCE_TEST(conformance_data, a_callback_may_post_the_next_message)
{
	struct volley volley = { .left = rig_times(2000) };

	pair_open(&volley.pair, fabric);
	while (volley.left > 0) {
		unsigned int before = volley.left;

		volley_next(&volley);
		rig_until(&volley.pair.rig, volley.left < before &&
			  volley.ping.done_count && volley.ret.done_count &&
			  volley.pong.done_count);
	}
	pair_close(&volley.pair);
}

/* ---- Writes -------------------------------------------------------------- */

struct landing {
	struct rig_node *node;
	uint32_t size, seed;
	bool was_right;
};

static void look_at_landing(struct rig_op *op)
{
	struct landing *landing = op->context;

	landing->was_right = rig_holds(landing->node, 0, landing->size,
				       landing->seed);
}

/* Write size bytes in pieces and send a note, in one post; the note's Receive
 * finds them. */
static void write_and_note(struct pair *pair, struct rf_remote remote,
			   unsigned int pieces, uint32_t seed)
{
	struct landing landing = { &pair->rig.b, remote.size, seed, false };
	struct rf_sge source[64], note = rig_sge(&pair->client, RIG_MIB(7), 1);
	struct rig_op write, send, recv;
	struct rf_work works[2];

	rig_op_init(&write, &pair->client);
	rig_op_init(&send, &pair->client);
	rig_op_init(&recv, &pair->server);
	recv.then = look_at_landing;
	recv.context = &landing;
	rig_fill(&pair->rig.a, 0, remote.size, seed);
	works[0] = rig_work(RF_WRITE, &write, source,
			    cut(&pair->client, 0, remote.size, pieces, source));
	works[0].remote = remote;
	works[1] = rig_work(RF_SEND, &send, &note, 1);
	cr_assert_eq(rig_recv(&pair->server, &recv, RIG_MIB(7), 64), 0);
	cr_assert_eq(rig_post(&pair->client, works, 2), 0);
	rig_until(&pair->rig, recv.done_count);
	cr_assert(landing.was_right, "%u bytes in %u pieces were not in place",
		  remote.size, pieces);
	rig_until(&pair->rig, send.done_count);
	cr_assert(write.order && write.order < send.order);
	cr_assert_eq(write.status, 0);
}

CONFORMANCE_TEST(conformance_data, writes_are_in_place_when_a_later_send_arrives)
{
	struct pair pair;
	struct rig_grant grant;

	pair_open(&pair, fabric);
	rig_grant_open(&pair.rig, &grant, &pair.server, 0, RIG_MIB(4),
		       RF_REMOTE_WRITE);
	for (uint32_t i = 0; i < RF_ARRAY_SIZE(sizes); i++) {
		struct rf_remote remote = grant.remote;

		remote.size = sizes[i];
		pair.rig.b.arena[sizes[i]] = 0x5a;
		write_and_note(&pair, remote, 1, i);
		cr_assert_eq(pair.rig.b.arena[sizes[i]], 0x5a);
	}
	rig_part(&pair.rig, &pair.client, &pair.server);
	rig_grant_close(&grant);
	pair_close(&pair);
}

CONFORMANCE_TEST(conformance_data, a_write_gathers_its_pieces)
{
	struct pair pair;
	struct rig_grant grant;

	pair_open(&pair, fabric);
	rig_grant_open(&pair.rig, &grant, &pair.server, 0, RIG_MIB(4),
		       RF_REMOTE_WRITE);
	for (unsigned int n = 2;
	     n <= rf_ep_limits(pair.client.ep)->sge_count_max && n <= 64; n++) {
		struct rf_remote remote = grant.remote;

		remote.size = 5;
		write_and_note(&pair, remote, n, n);
		remote.size = 200003;
		write_and_note(&pair, remote, n, n + 1);
	}
	rig_part(&pair.rig, &pair.client, &pair.server);
	rig_grant_close(&grant);
	pair_close(&pair);
}

CONFORMANCE_TEST(conformance_data, writes_land_at_their_own_offsets_in_order)
{
	enum { COUNT = 20 };
	struct pair pair;
	struct rig_grant grant;
	struct rig_op send, recv;

	pair_open(&pair, fabric);
	rig_grant_open(&pair.rig, &grant, &pair.server, 0, RIG_MIB(1),
		       RF_REMOTE_WRITE);
	rig_op_init(&send, &pair.client);
	rig_op_init(&recv, &pair.server);
	cr_assert_eq(rig_recv(&pair.server, &recv, RIG_MIB(2), 64), 0);
	for (uint32_t i = 0; i < COUNT; i++) {
		struct rf_remote remote = grant.remote;

		/* Each runs into the place of the next, which overwrites it. */
		remote.addr += i * 10000u;
		remote.size = i + 1 < COUNT ? 15001 : 10000;
		rig_fill(&pair.rig.a, i * 16384, 16384, i);
		cr_assert_eq(rig_write(&pair.client, NULL, i * 16384, remote),
			     0);
	}
	cr_assert_eq(rig_send(&pair.client, &send, RIG_MIB(2), 1), 0);
	rig_until(&pair.rig, recv.done_count && send.done_count);
	for (uint32_t i = 0; i < COUNT; i++)
		cr_assert(rig_holds(&pair.rig.b, i * 10000, 10000, i));
	rig_part(&pair.rig, &pair.client, &pair.server);
	rig_grant_close(&grant);
	pair_close(&pair);
}

/* A notice of the last one stands for those before it, and for their memory. */
static void reuse_once_done(const struct rig_fabric *fabric, unsigned int count)
{
	enum { COUNT_MAX = 16 };
	const uint32_t size = RIG_MIB(1) / count;
	struct rf_sge sges[COUNT_MAX];
	struct rf_work works[COUNT_MAX];
	struct pair pair;
	struct rig_grant grant;
	struct rig_op last;

	pair_open(&pair, fabric);
	rig_grant_open(&pair.rig, &grant, &pair.server, 0, RIG_MIB(1),
		       RF_REMOTE_WRITE);
	for (uint32_t round = 0; round < 5; round++) {
		rig_op_init(&last, &pair.client);
		rig_fill(&pair.rig.a, 0, RIG_MIB(1), round);
		for (uint32_t i = 0; i < count; i++) {
			sges[i] = rig_sge(&pair.client, i * size, size);
			works[i] = rig_work(RF_WRITE,
					    i + 1 < count ? NULL : &last,
					    &sges[i], 1);
			works[i].remote = grant.remote;
			works[i].remote.addr += i * size;
			works[i].remote.size = size;
		}
		cr_assert_eq(rig_post(&pair.client, works, count), 0);
		rig_until(&pair.rig, last.done_count);
		rig_fill(&pair.rig.a, 0, RIG_MIB(1), 1000);
		rig_exchange(&pair.rig, &pair.client, &pair.server);
		cr_assert(rig_holds(&pair.rig.b, 0, RIG_MIB(1), round));
	}
	rig_part(&pair.rig, &pair.client, &pair.server);
	rig_grant_close(&grant);
	pair_close(&pair);
}

CONFORMANCE_TEST(conformance_data, a_write_buffer_may_be_reused_once_done)
{
	reuse_once_done(fabric, 1);
}

CONFORMANCE_TEST(conformance_data, a_chain_of_buffers_may_be_reused_once_done)
{
	reuse_once_done(fabric, 16);
}

/* ---- Reads --------------------------------------------------------------- */

static void look_at_read(struct rig_op *op)
{
	look_at_landing(op);
}

CONFORMANCE_TEST(conformance_data, reads_bring_the_data_at_every_size)
{
	struct pair pair;
	struct rig_grant grant;

	pair_open(&pair, fabric);
	rig_grant_open(&pair.rig, &grant, &pair.server, 0, RIG_MIB(4),
		       RF_REMOTE_READ);
	for (uint32_t i = 0; i < RF_ARRAY_SIZE(sizes); i++) {
		struct landing landing = { &pair.rig.a, sizes[i], i, false };
		struct rf_remote remote = grant.remote;
		struct rig_op read;

		remote.size = sizes[i];
		rig_op_init(&read, &pair.client);
		read.then = look_at_read;
		read.context = &landing;
		rig_fill(&pair.rig.b, 0, sizes[i], i);
		rig_fill(&pair.rig.a, 0, sizes[i] + 64, 77);
		pair.rig.a.arena[sizes[i]] = 0x5a;
		cr_assert_eq(rig_read(&pair.client, &read, 0, remote), 0);
		rig_until(&pair.rig, read.done_count);
		cr_assert_eq(read.status, 0);
		cr_assert(landing.was_right, "%u bytes read wrong", sizes[i]);
		cr_assert_eq(pair.rig.a.arena[sizes[i]], 0x5a);
	}
	rig_part(&pair.rig, &pair.client, &pair.server);
	rig_grant_close(&grant);
	pair_close(&pair);
}

CONFORMANCE_TEST(conformance_data, a_read_scatters_to_its_pieces)
{
	struct pair pair;
	struct rig_grant grant;
	struct rf_sge sink[64];

	pair_open(&pair, fabric);
	rig_grant_open(&pair.rig, &grant, &pair.server, 0, 150001,
		       RF_REMOTE_READ);
	rig_fill(&pair.rig.b, 0, 150001, 3);
	for (unsigned int n = 1;
	     n <= rf_ep_limits(pair.client.ep)->read_sge_count_max && n <= 64;
	     n++) {
		struct rig_op read;
		struct rf_work work = rig_work(RF_READ, &read, sink,
					       cut(&pair.client, 0, 150001, n,
						   sink));

		work.remote = grant.remote;
		rig_op_init(&read, &pair.client);
		rig_fill(&pair.rig.a, 0, 150001, 4);
		cr_assert_eq(rig_post(&pair.client, &work, 1), 0);
		rig_until(&pair.rig, read.done_count);
		cr_assert_eq(read.status, 0);
		cr_assert(rig_holds(&pair.rig.a, 0, 150001, 3));
	}
	rig_part(&pair.rig, &pair.client, &pair.server);
	rig_grant_close(&grant);
	pair_close(&pair);
}

CONFORMANCE_TEST(conformance_data, reads_beyond_the_depth_are_held_back_not_lost)
{
	enum { COUNT = 24 };
	struct rig_op reads[COUNT];
	struct rig rig;
	struct rig_end client, server;
	struct rig_grant grant;

	rig_open(&rig, fabric);
	rig_end_init(&client, &rig.a);
	rig_end_init(&server, &rig.b);
	client.config.reads_out = 4;
	server.config.reads_in = 2;
	rig_join_quietly(&rig, &client, &server);
	if (rf_fabric_traits(rig.b.fab)->keeps_reads_in)
		cr_assert_eq(rf_ep_limits(client.ep)->reads_max, 2);
	rig_exchange(&rig, &client, &server);
	rig_grant_open(&rig, &grant, &server, 0, RIG_MIB(4), RF_REMOTE_READ);
	for (uint32_t i = 0; i < COUNT; i++) {
		struct rf_remote remote = grant.remote;

		rig_fill(&rig.b, i * 100000, 90000, i);
		rig_op_init(&reads[i], &client);
		remote.addr += i * 100000u;
		remote.size = 90000;
		cr_assert_eq(rig_read(&client, &reads[i], i * 100000, remote),
			     0);
	}
	rig_until(&rig, reads[COUNT - 1].done_count);
	for (uint32_t i = 0; i < COUNT; i++) {
		cr_assert_eq(reads[i].status, 0);
		cr_assert(i == 0 || reads[i].order > reads[i - 1].order);
		cr_assert(rig_holds(&rig.a, i * 100000, 90000, i));
	}
	rig_part(&rig, &client, &server);
	rig_grant_close(&grant);
	rig_close(&rig);
}

static void overwrite_source(struct rig_op *op)
{
	rig_fill(op->end->node, 0, RIG_MIB(1), 99);
}

CONFORMANCE_TEST(conformance_data, a_fence_keeps_a_send_behind_earlier_reads)
{
	struct rf_work work;
	struct rf_sge note;
	struct pair pair;
	struct rig_grant grant;

	pair_open(&pair, fabric);
	rig_grant_open(&pair.rig, &grant, &pair.server, 0, RIG_MIB(1),
		       RF_REMOTE_READ);
	for (uint32_t round = 0; round < 10; round++) {
		struct rig_op read, send, recv;

		rig_op_init(&read, &pair.client);
		rig_op_init(&send, &pair.client);
		rig_op_init(&recv, &pair.server);
		recv.then = overwrite_source;
		rig_fill(&pair.rig.b, 0, RIG_MIB(1), round);
		cr_assert_eq(rig_recv(&pair.server, &recv, RIG_MIB(2), 64), 0);
		cr_assert_eq(rig_read(&pair.client, &read, 0, grant.remote), 0);
		note = rig_sge(&pair.client, RIG_MIB(2), 1);
		work = rig_work(RF_SEND, &send, &note, 1);
		work.flags = RF_FENCE | RF_SOLICITED;
		cr_assert_eq(rig_post(&pair.client, &work, 1), 0);
		rig_until(&pair.rig, send.done_count && recv.done_count);
		cr_assert_eq(read.status, 0);
		cr_assert(rig_holds(&pair.rig.a, 0, RIG_MIB(1), round));
	}
	rig_part(&pair.rig, &pair.client, &pair.server);
	rig_grant_close(&grant);
	pair_close(&pair);
}

CONFORMANCE_TEST(conformance_data, a_fenced_write_does_not_disturb_earlier_reads)
{
	struct pair pair;
	struct rig_grant grant;

	pair_open(&pair, fabric);
	rig_grant_open(&pair.rig, &grant, &pair.server, 0, RIG_KIB(256),
		       RF_REMOTE_READ | RF_REMOTE_WRITE);
	for (uint32_t round = 0; round < 10; round++) {
		struct rig_op reads[3], write;
		struct rf_sge source = rig_sge(&pair.client, RIG_MIB(4),
					       RIG_KIB(256));
		struct rf_work work = rig_work(RF_WRITE, &write, &source, 1);

		rig_fill(&pair.rig.b, 0, RIG_KIB(256), round);
		rig_fill(&pair.rig.a, RIG_MIB(4), RIG_KIB(256), 50 + round);
		for (size_t i = 0; i < 3; i++) {
			rig_op_init(&reads[i], &pair.client);
			cr_assert_eq(rig_read(&pair.client, &reads[i],
					      i * RIG_MIB(1), grant.remote), 0);
		}
		rig_op_init(&write, &pair.client);
		work.flags = RF_FENCE;
		work.remote = grant.remote;
		cr_assert_eq(rig_post(&pair.client, &work, 1), 0);
		rig_until(&pair.rig, write.done_count);
		rig_exchange(&pair.rig, &pair.client, &pair.server);
		for (size_t i = 0; i < 3; i++)
			cr_assert(rig_holds(&pair.rig.a, i * RIG_MIB(1),
					    RIG_KIB(256), round));
		cr_assert(rig_holds(&pair.rig.b, 0, RIG_KIB(256), 50 + round));
	}
	rig_part(&pair.rig, &pair.client, &pair.server);
	rig_grant_close(&grant);
	pair_close(&pair);
}

CONFORMANCE_TEST(conformance_data, works_complete_in_the_order_posted)
{
	enum { COUNT = 30 };
	struct rig_op works[COUNT], recvs[COUNT];
	struct pair pair;
	struct rig_grant grant;

	pair_open(&pair, fabric);
	rig_grant_open(&pair.rig, &grant, &pair.server, 0, RIG_KIB(64),
		       RF_REMOTE_READ | RF_REMOTE_WRITE);
	for (uint32_t i = 0; i < COUNT; i++) {
		struct rf_remote remote = grant.remote;

		remote.size = 1 + i * 2000;
		rig_op_init(&works[i], &pair.client);
		rig_op_init(&recvs[i], &pair.server);
		cr_assert_eq(rig_recv(&pair.server, &recvs[i], RIG_MIB(1), 64),
			     0);
		if (i % 3 == 0)
			cr_assert_eq(rig_read(&pair.client, &works[i], 0,
					      remote), 0);
		else if (i % 3 == 1)
			cr_assert_eq(rig_send(&pair.client, &works[i],
					      RIG_MIB(1), 64), 0);
		else
			cr_assert_eq(rig_write(&pair.client, &works[i],
					       RIG_MIB(2), remote), 0);
	}
	rig_until(&pair.rig, works[COUNT - 1].done_count);
	for (uint32_t i = 0; i < COUNT; i++) {
		cr_assert_eq(works[i].status, 0);
		cr_assert(i == 0 || works[i].order > works[i - 1].order);
	}
	rig_part(&pair.rig, &pair.client, &pair.server);
	rig_grant_close(&grant);
	pair_close(&pair);
}

/* ---- room ---------------------------------------------------------------- */

/* A pair with queues of 8. */
static void narrow_pair_open(struct pair *pair, const struct rig_fabric *fabric)
{
	rig_open(&pair->rig, fabric);
	rig_end_init(&pair->client, &pair->rig.a);
	rig_end_init(&pair->server, &pair->rig.b);
	pair->client.config.send_depth = 8;
	pair->client.config.recv_depth = 8;
	rig_join_quietly(&pair->rig, &pair->client, &pair->server);
	rig_exchange(&pair->rig, &pair->client, &pair->server);
}

struct retry {
	struct rf_work *works;
	unsigned int count;
	int result;
	bool was_tried;
};

static void retry_batch(struct rig_op *op)
{
	struct retry *retry = op->context;

	if (retry->was_tried && retry->result == 0)
		return;
	retry->was_tried = true;
	retry->result = rig_post(op->end, retry->works, retry->count);
}

CONFORMANCE_TEST(conformance_data, a_batch_is_posted_whole_or_not_at_all)
{
	struct rig_op sends[14], recvs[16];
	struct rf_work works[14];
	struct rf_sge sge[14];
	struct retry retry = { &works[8], 6, -1, false };
	struct pair pair;

	narrow_pair_open(&pair, fabric);
	for (uint32_t i = 0; i < 16; i++) {
		rig_op_init(&recvs[i], &pair.server);
		cr_assert_eq(rig_recv(&pair.server, &recvs[i], i * 64, 64), 0);
	}
	for (uint32_t i = 0; i < 14; i++) {
		rig_op_init(&sends[i], &pair.client);
		sends[i].context = &retry;
		sge[i] = rig_sge(&pair.client, i * 64, 1 + i);
		works[i] = rig_work(RF_SEND, &sends[i], &sge[i], 1);
		sends[i].then = i < 8 ? retry_batch : NULL;
	}
	cr_assert_eq(rig_post(&pair.client, works, 5), 0);
	cr_assert_eq(rig_post(&pair.client, &works[8], 6), -EAGAIN);
	cr_assert_eq(rig_post(&pair.client, &works[5], 3), 0);
	cr_assert_eq(rig_post(&pair.client, &works[8], 1), -EAGAIN);
	rig_until(&pair.rig, sends[13].done_count && recvs[13].done_count);
	/* Six fitted only once five of the first eight were done. */
	cr_assert(retry.was_tried && retry.result == 0);
	for (uint32_t i = 0; i < 14; i++) {
		cr_assert_eq(recvs[i].size, 1 + i);
		cr_assert(i == 0 || sends[i].order > sends[i - 1].order);
	}
	rig_settle(&pair.rig);
	cr_assert_eq(recvs[14].done_count, 0, "a refused batch left a message");
	pair_close(&pair);
}

static void repost_recv(struct rig_op *op)
{
	if (op->status == 0)
		cr_assert_eq(rig_recv(op->end, op->context, 0, 64), 0);
}

CONFORMANCE_TEST(conformance_data, a_full_receive_queue_says_so)
{
	struct rig_op recvs[9];
	struct pair pair;

	narrow_pair_open(&pair, fabric);
	for (size_t i = 0; i < 9; i++)
		rig_op_init(&recvs[i], &pair.client);
	for (size_t i = 0; i < 8; i++)
		cr_assert_eq(rig_recv(&pair.client, &recvs[i], i * 64, 64), 0);
	cr_assert_eq(rig_recv(&pair.client, &recvs[8], 0, 64), -EAGAIN);
	/* Its done() gives the room back, already inside the call. */
	recvs[0].then = repost_recv;
	recvs[0].context = &recvs[8];
	cr_assert_eq(rig_send(&pair.server, NULL, 0, 1), 0);
	rig_until(&pair.rig, recvs[0].done_count);
	cr_assert_eq(recvs[0].status, 0);
	pair_close(&pair);
	cr_assert_eq(recvs[8].status, -ECANCELED);
}

CONFORMANCE_TEST(conformance_data, unsignalled_works_need_one_notice_in_a_while)
{
	enum { ROUNDS = 50, EACH = 4 };
	struct rig_op recvs[EACH], last;
	struct rig_grant grant;
	struct pair pair;

	narrow_pair_open(&pair, fabric);
	rig_grant_open(&pair.rig, &grant, &pair.server, 0, RIG_MIB(1),
		       RF_REMOTE_READ | RF_REMOTE_WRITE);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct rf_remote remote = grant.remote;

		remote.size = 5000;
		for (size_t i = 0; i < EACH; i++) {
			rig_op_init(&recvs[i], &pair.server);
			cr_assert_eq(rig_recv(&pair.server, &recvs[i],
					      RIG_MIB(2), 64), 0);
		}
		rig_op_init(&last, &pair.client);
		rig_fill(&pair.rig.a, 0, 5000, round);
		cr_assert_eq(rig_write(&pair.client, NULL, 0, remote), 0);
		cr_assert_eq(rig_send(&pair.client, NULL, 0, 1), 0);
		cr_assert_eq(rig_send(&pair.client, NULL, 0, 2), 0);
		cr_assert_eq(rig_read(&pair.client, NULL, RIG_MIB(1), remote),
			     0);
		cr_assert_eq(rig_send(&pair.client, NULL, 0, 3), 0);
		cr_assert_eq(rig_send(&pair.client, &last, 0, 4), 0);
		rig_until(&pair.rig, last.done_count);
		/* All before it are done: also the Read. */
		cr_assert(rig_holds(&pair.rig.a, RIG_MIB(1), 5000, round));
		rig_until(&pair.rig, recvs[EACH - 1].done_count);
		for (uint32_t i = 0; i < EACH; i++)
			cr_assert_eq(recvs[i].size, i + 1);
		cr_assert(rig_holds(&pair.rig.b, 0, 5000, round));
	}
	rig_part(&pair.rig, &pair.client, &pair.server);
	rig_grant_close(&grant);
	pair_close(&pair);
}

/* ---- everything at once -------------------------------------------------- */

struct stream {
	struct rig_end *from, *to;
	struct rig_grant grant;
	struct rig_op recvs[8], sends[8];
	unsigned int posted, arrived;
	uint32_t seed;
};

enum { STREAM_MESSAGES = 400, STREAM_SLOT = 40000 };

static uint32_t stream_size(const struct stream *stream, unsigned int number)
{
	return 1 + (number * 7919u + stream->seed * 104729u) % STREAM_SLOT;
}

static void stream_recv(struct rig_op *op)
{
	struct stream *stream = op->context;
	size_t slot = (size_t)(op - stream->recvs);
	unsigned int number = stream->arrived;

	if (op->status)
		return;
	cr_assert_eq(slot, number % 8);
	cr_assert_eq(op->size, 1 + number % 64);
	cr_assert(rig_holds(stream->to->node, slot * STREAM_SLOT,
			    stream_size(stream, number), number));
	stream->arrived++;
}

/* One Write into the slot and one Send that tells of it. */
static void stream_push(struct stream *stream)
{
	unsigned int number = stream->posted;
	size_t slot = number % 8, source = RIG_MIB(2) + slot * STREAM_SLOT;
	struct rf_remote remote = stream->grant.remote;

	remote.addr += slot * STREAM_SLOT;
	remote.size = stream_size(stream, number);
	rig_op_init(&stream->recvs[slot], stream->to);
	rig_op_init(&stream->sends[slot], stream->from);
	stream->recvs[slot].then = stream_recv;
	stream->recvs[slot].context = stream;
	rig_fill(stream->from->node, source, remote.size, number);
	cr_assert_eq(rig_recv(stream->to, &stream->recvs[slot],
			      RIG_MIB(1) + slot * 64, 64), 0);
	cr_assert_eq(rig_write(stream->from, NULL, source, remote), 0);
	cr_assert_eq(rig_send(stream->from, &stream->sends[slot], RIG_MIB(3),
			      1 + number % 64), 0);
	stream->posted++;
}

static bool stream_go(struct stream *stream)
{
	while (stream->posted < STREAM_MESSAGES &&
	       stream->posted < stream->arrived + 8) {
		size_t slot = stream->posted % 8;

		if (stream->posted >= 8 && !stream->sends[slot].done_count)
			break;
		stream_push(stream);
	}
	return stream->arrived == STREAM_MESSAGES;
}

CONFORMANCE_TEST(conformance_data, both_sides_may_write_and_send_at_once)
{
	struct stream there, back;
	struct pair pair;

	pair_open(&pair, fabric);
	memset(&there, 0, sizeof(there));
	memset(&back, 0, sizeof(back));
	there.from = back.to = &pair.client;
	there.to = back.from = &pair.server;
	back.seed = 1;
	rig_grant_open(&pair.rig, &there.grant, there.to, 0, 8 * STREAM_SLOT,
		       RF_REMOTE_WRITE);
	rig_grant_open(&pair.rig, &back.grant, back.to, 0, 8 * STREAM_SLOT,
		       RF_REMOTE_WRITE);
	rig_until(&pair.rig, (int)stream_go(&there) & (int)stream_go(&back));
	rig_part(&pair.rig, &pair.client, &pair.server);
	rig_grant_close(&there.grant);
	rig_grant_close(&back.grant);
	pair_close(&pair);
}

CONFORMANCE_TEST(conformance_data, the_accepting_side_waits_for_the_first_word)
{
	struct rig_op send, recv, word, heard;
	struct rig_end client, server;
	struct rig rig;

	rig_open(&rig, fabric);
	rig_end_init(&client, &rig.a);
	rig_end_init(&server, &rig.b);
	rig_join_quietly(&rig, &client, &server);
	rig_op_init(&send, &server);
	rig_op_init(&heard, &server);
	rig_op_init(&recv, &client);
	rig_op_init(&word, &client);
	cr_assert_eq(rig_recv(&client, &recv, 0, 64), 0);
	cr_assert_eq(rig_recv(&server, &heard, 0, 64), 0);
	cr_assert_eq(rig_send(&server, &send, 64, 5), 0);
	rig_settle(&rig);
	cr_assert_eq(recv.done_count, 0, "the accepting side spoke first");
	cr_assert_eq(rig_send(&client, &word, 64, 3), 0);
	rig_until(&rig, recv.done_count && heard.done_count && send.done_count);
	cr_assert_eq(recv.size, 5);
	cr_assert_eq(heard.size, 3);
	rig_close(&rig);
}

CONFORMANCE_TEST(conformance_data, a_first_word_may_be_a_read_or_a_write)
{
	for (int is_read = 0; is_read < 2; is_read++) {
		struct rig_op send, recv, word;
		struct rig_end client, server;
		struct rig_grant grant;
		struct rig rig;

		rig_open(&rig, fabric);
		if (!rf_fabric_traits(rig.b.fab)->sees_access) {
			rig_close(&rig);
			cr_skip("this fabric does not see the peer's access");
		}
		rig_end_init(&client, &rig.a);
		rig_end_init(&server, &rig.b);
		rig_join_quietly(&rig, &client, &server);
		rig_op_init(&send, &server);
		rig_op_init(&recv, &client);
		rig_op_init(&word, &client);
		rig_grant_open(&rig, &grant, &server, 0, 4096,
			       RF_REMOTE_READ | RF_REMOTE_WRITE);
		cr_assert_eq(rig_recv(&client, &recv, 0, 64), 0);
		cr_assert_eq(rig_send(&server, &send, RIG_MIB(1), 5), 0);
		if (is_read)
			cr_assert_eq(rig_read(&client, &word, RIG_MIB(1),
					      grant.remote), 0);
		else
			cr_assert_eq(rig_write(&client, &word, RIG_MIB(1),
					       grant.remote), 0);
		rig_until(&rig, recv.done_count && send.done_count &&
			  word.done_count);
		cr_assert_eq(recv.status, 0);
		cr_assert_eq(word.status, 0);
		rig_part(&rig, &client, &server);
		rig_grant_close(&grant);
		rig_close(&rig);
	}
}

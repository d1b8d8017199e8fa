/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conformance_close.c - the end of a connection, in every state
 *
 * The rig fails a test when an op is done twice or after closed(), when
 * closed() comes before the last done() or twice, and when taking down what an
 * end used finds that it is still in use.  So most of these tests only have to bring an
 * end into a state, close it, and wait.
 */
#include "tests/common/fabric_rig.h"

#include <errno.h>

enum {
	OPS_MAX = 64,
	BULK = 1 << 20,
	TURNS_MAX = 7,		/* how far to let things go before the close */
};

struct stage {
	struct rig rig;
	struct rig_end client, server;
	struct rig_grant grant;
	struct rf_window *spare;
	struct rig_op ops[OPS_MAX];
	unsigned int op_count;
};

static struct rig_op *next_op(struct stage *stage, struct rig_end *end)
{
	struct rig_op *op = &stage->ops[stage->op_count++];

	cr_assert(stage->op_count <= OPS_MAX);
	rig_op_init(op, end);
	return op;
}

static void stage_open(struct stage *stage, const struct rig_fabric *fabric)
{
	memset(stage, 0, sizeof(*stage));
	rig_open(&stage->rig, fabric);
	rig_join(&stage->rig, &stage->client, &stage->server);
	rig_grant_open(&stage->rig, &stage->grant, &stage->server, 0, BULK,
		       RF_REMOTE_READ | RF_REMOTE_WRITE);
}

static void stage_close(struct stage *stage)
{
	rig_until(&stage->rig, stage->client.closed && stage->server.closed);
	rig_settle(&stage->rig);
	cr_assert_eq(stage->client.closed, 1);
	cr_assert_eq(stage->server.closed, 1);
	for (unsigned int i = 0; i < stage->op_count; i++)
		cr_assert_eq(stage->ops[i].done_count, 1, "op %u", i);
	rig_grant_close(&stage->grant);
	if (stage->spare)
		rf_window_destroy(stage->spare);
	rig_close(&stage->rig);
}

/* ---- states -------------------------------------------------------------- */

static void nothing_posted(struct stage *stage)
{
	(void)stage;
}

static void post_recvs(struct stage *stage, struct rig_end *end)
{
	for (size_t i = 0; i < 8; i++)
		cr_assert_eq(rig_recv(end, next_op(stage, end),
				      RIG_MIB(6) + i * 64, 64), 0);
}

static void receives_posted(struct stage *stage)
{
	post_recvs(stage, &stage->client);
	post_recvs(stage, &stage->server);
}

static void post_sends(struct stage *stage, struct rig_end *end)
{
	for (size_t i = 0; i < 8; i++)
		cr_assert_eq(rig_send(end, next_op(stage, end), RIG_MIB(5), 64),
			     0);
}

static void sends_queued(struct stage *stage)
{
	post_recvs(stage, &stage->server);
	post_sends(stage, &stage->client);
}

static void sends_queued_both_ways(struct stage *stage)
{
	receives_posted(stage);
	post_sends(stage, &stage->client);
	post_sends(stage, &stage->server);
}

static void reads_outstanding(struct stage *stage)
{
	for (size_t i = 0; i < 8; i++)
		cr_assert_eq(rig_read(&stage->client,
				      next_op(stage, &stage->client), 0,
				      stage->grant.remote), 0);
}

static void writes_outstanding(struct stage *stage)
{
	for (size_t i = 0; i < 8; i++)
		cr_assert_eq(rig_write(&stage->client,
				       next_op(stage, &stage->client), 0,
				       stage->grant.remote), 0);
}

/* The grant's window on its way out, another one on its way in. */
static void windows_moving(struct stage *stage)
{
	struct rf_work work = { .code = RF_BIND };

	if (!stage->grant.window)
		return;
	cr_assert_eq(rf_window_create(stage->rig.b.pd, &stage->spare), 0);
	rf_window_next(stage->spare, stage->rig.b.mr, stage->rig.b.arena, 4096,
		       RF_REMOTE_READ);
	work.op = &next_op(stage, &stage->server)->op;
	work.window = stage->spare;
	cr_assert_eq(rig_post(&stage->server, &work, 1), 0);
	cr_assert_eq(rig_unbind(&stage->grant, next_op(stage, &stage->server)),
		     0);
}

static void unsignalled_works(struct stage *stage)
{
	post_recvs(stage, &stage->server);
	for (size_t i = 0; i < 8; i++) {
		cr_assert_eq(rig_write(&stage->client, NULL, 0,
				       stage->grant.remote), 0);
		cr_assert_eq(rig_send(&stage->client, NULL, 0, 64), 0);
	}
}

static void everything(struct stage *stage)
{
	sends_queued_both_ways(stage);
	reads_outstanding(stage);
	writes_outstanding(stage);
}

static const struct state {
	const char *name;
	void (*enter)(struct stage *stage);
	bool is_quiet;		/* no bytes on their way */
} states[] = {
	{ "nothing posted", nothing_posted, true },
	{ "Receives posted", receives_posted, true },
	{ "Sends queued", sends_queued, false },
	{ "Sends queued both ways", sends_queued_both_ways, false },
	{ "Reads outstanding", reads_outstanding, false },
	{ "Writes outstanding", writes_outstanding, false },
	{ "windows moving", windows_moving, true },
	{ "unsignalled works", unsignalled_works, false },
	{ "everything", everything, false },
};

enum closer { CLIENT, SERVER, BOTH };

static void close_by(struct stage *stage, enum closer closer)
{
	if (closer != SERVER && stage->client.ep)
		rf_ep_close(stage->client.ep);
	if (closer != CLIENT && stage->server.ep)
		rf_ep_close(stage->server.ep);
	/* Once more does no harm. */
	if (closer != SERVER && stage->client.ep)
		rf_ep_close(stage->client.ep);
}

/* Of who closed, 0.  The other may see a reset instead of an orderly end only
 * if there were bytes on their way. */
static void check_reason(const struct rig_end *end, bool has_closed,
			 bool is_quiet)
{
	cr_assert(end->reason == 0 ||
		  (!has_closed && !is_quiet && end->reason == -ECONNRESET),
		  "reason is %d", end->reason);
}

static void check_statuses(const struct stage *stage)
{
	for (unsigned int i = 0; i < stage->op_count; i++)
		cr_assert(stage->ops[i].status == 0 ||
			  stage->ops[i].status == -ECANCELED,
			  "op %u: %d", i, stage->ops[i].status);
}

static void close_in_each_state(const struct rig_fabric *fabric,
				enum closer closer)
{
	const unsigned int all = RF_ARRAY_SIZE(states) * TURNS_MAX;

	for (unsigned int i = 0; i < all; i += all / rig_times(all)) {
		const struct state *state = &states[i / TURNS_MAX];
		struct stage stage;

		cr_log_info("%s, turn %u", state->name, i % TURNS_MAX);
		stage_open(&stage, fabric);
		state->enter(&stage);
		/* Each turn lets a little more happen. */
		for (unsigned int turn = 0; turn < i % TURNS_MAX; turn++) {
			if (stage.rig.world)
				rf_loop_step(stage.rig.world);
			rf_poller_run(stage.rig.b.poller, 1);
			rf_poller_run(stage.rig.a.poller, 1);
		}
		close_by(&stage, closer);
		stage_close(&stage);
		check_reason(&stage.client, closer != SERVER, state->is_quiet);
		check_reason(&stage.server, closer != CLIENT, state->is_quiet);
		check_statuses(&stage);
	}
}

CONFORMANCE_TEST(conformance_close, the_connecting_side_closes_in_each_state)
{
	close_in_each_state(fabric, CLIENT);
}

CONFORMANCE_TEST(conformance_close, the_accepting_side_closes_in_each_state)
{
	close_in_each_state(fabric, SERVER);
}

CONFORMANCE_TEST(conformance_close, both_sides_close_at_once_in_each_state)
{
	close_in_each_state(fabric, BOTH);
}

CONFORMANCE_TEST(conformance_close, ops_are_given_back_in_order_at_the_end)
{
	struct stage stage;

	stage_open(&stage, fabric);
	everything(&stage);
	close_by(&stage, BOTH);
	stage_close(&stage);
	/* Groups of 8 of one queue each, in the order posted. */
	for (unsigned int i = 1; i < stage.op_count; i++) {
		const struct rig_op *op = &stage.ops[i], *before = op - 1;

		if (i % 8 == 0)
			continue;
		cr_assert_gt(op->order, before->order);
		cr_assert(before->status != -ECANCELED ||
			  op->status == -ECANCELED,
			  "op %u was done, the one before it was not", i);
	}
}

CONFORMANCE_TEST(conformance_close, nothing_may_be_posted_on_a_closing_endpoint)
{
	struct rig_op op, recv;
	struct stage stage;

	stage_open(&stage, fabric);
	rf_ep_close(stage.client.ep);
	rig_op_init(&op, &stage.client);
	rig_op_init(&recv, &stage.client);
	cr_assert_eq(rig_send(&stage.client, &op, 0, 1), -ENOTCONN);
	cr_assert_eq(rig_recv(&stage.client, &recv, 0, 64), -ENOTCONN);
	stage_close(&stage);
	cr_assert_eq(op.done_count + recv.done_count, 0);
}

/* ---- before there is a connection ---------------------------------------- */

CONFORMANCE_TEST(conformance_close, closing_while_connecting_gives_all_back)
{
	for (unsigned int turns = 0; turns < 2 * TURNS_MAX; turns++) {
		struct rig_end client, server;
		struct rig_op recv, late;
		unsigned int was_connected;
		struct rig rig;

		rig_open(&rig, fabric);
		rig_listen(&rig);
		rig_end_init(&client, &rig.a);
		rig_end_init(&server, &rig.b);
		rig.accepts_with = &server;
		cr_assert_eq(rig_end_connect(&rig, &client), 0);
		rig_op_init(&recv, &client);
		rig_op_init(&late, &client);
		cr_assert_eq(rig_recv(&client, &recv, 0, 64), 0);
		cr_assert_eq(rig_send(&client, &late, 0, 1), -ENOTCONN);
		for (unsigned int turn = 0; turn < turns; turn++) {
			if (rig.world)
				rf_loop_step(rig.world);
			rf_poller_run(rig.b.poller, 1);
			rf_poller_run(rig.a.poller, 1);
		}
		was_connected = client.connected;
		rf_ep_close(client.ep);
		rig_until(&rig, client.closed);
		cr_assert_eq(client.connected, was_connected,
			     "connected() after the close");
		cr_assert_eq(client.reason, 0);
		cr_assert_eq(recv.status, -ECANCELED);
		rig_close(&rig);
		cr_assert_eq(client.closed, 1);
		cr_assert_eq(server.closed, server.connected || server.closed);
	}
}

static void hold_request(struct rig *rig, struct rig_end *client)
{
	if (!rig->listener)
		rig_listen(rig);
	rig_end_init(client, &rig->a);
	cr_assert_eq(rig_end_connect(rig, client), 0);
	rig_until(rig, rig->incoming_count > 0);
}

CONFORMANCE_TEST(conformance_close, a_request_that_was_given_up_may_still_be_answered)
{
	for (int accepts = 0; accepts < 2; accepts++) {
		struct rig_end client, server;
		struct rig_op recv, late;
		struct rf_recv given;
		struct rig rig;
		int err = 0;

		rig_open(&rig, fabric);
		hold_request(&rig, &client);
		rig_op_init(&recv, &client);
		cr_assert_eq(rig_recv(&client, &recv, 0, 64), 0);
		rf_ep_close(client.ep);
		rig_until(&rig, client.closed);
		cr_assert_eq(recv.status, -ECANCELED);
		rig_end_init(&server, &rig.b);
		rig_op_init(&late, &server);
		given = (struct rf_recv){ &late.op, rig_sge(&server, 0, 64) };
		server.recvs = &given;
		server.recv_count = 1;
		if (accepts)
			err = rig_end_accept(&server, rig.incoming[0]);
		else
			rf_ep_reject(rig.incoming[0], NULL, 0);
		/* Such an accept fails now or soon. */
		if (accepts && !err) {
			rig_until(&rig, server.closed);
			cr_assert_eq(late.status, -ECANCELED);
		}
		rig_close(&rig);
	}
}

CONFORMANCE_TEST(conformance_close, closing_the_listener_drops_pending_requests)
{
	struct rig_end client;
	struct rig_op recv;
	struct rig rig;

	rig_open(&rig, fabric);
	hold_request(&rig, &client);
	rig_op_init(&recv, &client);
	cr_assert_eq(rig_recv(&client, &recv, 0, 64), 0);
	rf_listener_close(rig.listener);
	rig.listener = NULL;
	rig_until(&rig, client.closed);
	cr_assert_neq(client.reason, 0);
	cr_assert_eq(client.connected, 0);
	cr_assert_eq(recv.status, -ECANCELED);
	rig_close(&rig);
}

CONFORMANCE_TEST(conformance_close, closing_the_listener_leaves_connections_alone)
{
	struct stage stage;

	stage_open(&stage, fabric);
	rf_listener_close(stage.rig.listener);
	stage.rig.listener = NULL;
	rig_exchange(&stage.rig, &stage.client, &stage.server);
	rig_exchange(&stage.rig, &stage.server, &stage.client);
	close_by(&stage, CLIENT);
	stage_close(&stage);
}

static void close_listener(struct rig *rig, struct rf_incoming *incoming)
{
	(void)incoming;
	rf_listener_close(rig->listener);
	rig->listener = NULL;
}

CONFORMANCE_TEST(conformance_close, the_listener_may_be_closed_by_its_own_callback)
{
	struct rig_end client;
	struct rig rig;

	rig_open(&rig, fabric);
	rig_listen(&rig);
	rig.on_request = close_listener;
	rig_end_init(&client, &rig.a);
	cr_assert_eq(rig_end_connect(&rig, &client), 0);
	rig_until(&rig, client.closed);
	cr_assert_neq(client.reason, 0);
	cr_assert(rig.listener == NULL);
	rig_close(&rig);
}

/* ---- from inside callbacks ----------------------------------------------- */

static void close_self(struct rig_end *end)
{
	rf_ep_close(end->ep);
}

CONFORMANCE_TEST(conformance_close, connected_may_close)
{
	for (int who = 1; who < 4; who++) {
		struct rig_end client, server;
		struct rig rig;

		rig_open(&rig, fabric);
		rig_listen(&rig);
		rig_end_init(&client, &rig.a);
		rig_end_init(&server, &rig.b);
		client.on_connected = who & 1 ? close_self : NULL;
		server.on_connected = who & 2 ? close_self : NULL;
		rig.accepts_with = &server;
		cr_assert_eq(rig_end_connect(&rig, &client), 0);
		rig_until(&rig, client.closed && server.closed);
		rig_settle(&rig);
		cr_assert_eq(client.closed, 1);
		cr_assert_eq(server.closed, 1);
		rig_close(&rig);
	}
}

static void close_when_rejected(struct rf_ep *ep, const void *hello,
				size_t size)
{
	rig_events.rejected(ep, hello, size);
	rf_ep_close(ep);
}

CONFORMANCE_TEST(conformance_close, rejected_may_close)
{
	struct rf_ep_events events = rig_events;
	struct rig_end client;
	struct rig_op recv;
	struct rig rig;

	events.rejected = close_when_rejected;
	rig_open(&rig, fabric);
	rig_listen(&rig);
	rig_end_init(&client, &rig.a);
	cr_assert_eq(rf_ep_connect(rig.a.poller,
				   (struct sockaddr *)&rig.address,
				   rig.address_size, NULL, 0, &client.config,
				   &events, &client, &client.ep), 0);
	rf_list_push(&rig.ends, &client.link);
	rig_op_init(&recv, &client);
	cr_assert_eq(rig_recv(&client, &recv, 0, 64), 0);
	rig_until(&rig, rig.incoming_count > 0);
	rf_ep_reject(rig.incoming[0], "no", 2);
	rig_until(&rig, client.closed);
	cr_assert_eq(client.rejected, 1);
	cr_assert_eq(recv.status, -ECANCELED);
	rig_close(&rig);
}

static void close_own_end(struct rig_op *op)
{
	rf_ep_close(op->end->ep);
}

/* Close the end that context names, if it is still there. */
static void close_other_end(struct rig_op *op)
{
	struct rig_end *other = op->context;

	if (other->ep)
		rf_ep_close(other->ep);
}

CONFORMANCE_TEST(conformance_close, done_may_close_its_own_endpoint)
{
	for (unsigned int which = 0; which < 16; which++) {
		struct stage stage;

		stage_open(&stage, fabric);
		sends_queued(&stage);	/* 8 Receives, then 8 Sends */
		stage.ops[which].then = close_own_end;
		stage_close(&stage);
		cr_assert_eq(stage.ops[which].status, 0);
	}
}

CONFORMANCE_TEST(conformance_close, a_flushed_done_may_close_again)
{
	struct stage stage;

	stage_open(&stage, fabric);
	receives_posted(&stage);
	for (unsigned int i = 0; i < stage.op_count; i++)
		stage.ops[i].then = close_own_end;
	close_by(&stage, CLIENT);
	stage_close(&stage);
}

CONFORMANCE_TEST(conformance_close, done_may_close_another_endpoint_of_its_poller)
{
	struct rig_end other_client, other_server;
	struct rig_op waiting;
	struct stage stage;

	stage_open(&stage, fabric);
	rig_join(&stage.rig, &other_client, &other_server);
	rig_op_init(&waiting, &other_server);
	cr_assert_eq(rig_recv(&other_server, &waiting, 0, 64), 0);
	sends_queued(&stage);
	stage.ops[0].then = close_other_end;
	stage.ops[0].context = &other_server;
	rig_until(&stage.rig, other_client.closed && other_server.closed);
	cr_assert_eq(waiting.status, -ECANCELED);
	rig_exchange(&stage.rig, &stage.server, &stage.client);
	close_by(&stage, SERVER);
	stage_close(&stage);
}

static void close_context(struct rig_end *end)
{
	struct rig_end *other = end->context;

	if (other->ep)
		rf_ep_close(other->ep);
}

CONFORMANCE_TEST(conformance_close, closed_may_close_another_endpoint)
{
	struct rig_end other_client, other_server;
	struct stage stage;

	stage_open(&stage, fabric);
	rig_join(&stage.rig, &other_client, &other_server);
	receives_posted(&stage);
	/* A chain: ours takes the other's, on each side. */
	stage.client.on_closed = stage.server.on_closed = close_context;
	stage.client.context = &other_client;
	stage.server.context = &other_server;
	close_by(&stage, CLIENT);
	rig_until(&stage.rig, other_client.closed && other_server.closed);
	stage_close(&stage);
}

static void connect_again(struct rig_end *end)
{
	struct rig_end *next = end->context;

	cr_assert_eq(rig_end_connect(end->node->rig, next), 0);
}

CONFORMANCE_TEST(conformance_close, closed_may_connect_again)
{
	struct rig_end client, server;
	struct stage stage;

	stage_open(&stage, fabric);
	rig_end_init(&client, &stage.rig.a);
	rig_end_init(&server, &stage.rig.b);
	stage.rig.accepts_with = &server;
	stage.client.on_closed = connect_again;
	stage.client.context = &client;
	close_by(&stage, SERVER);
	rig_until(&stage.rig, client.connected && server.connected);
	rig_exchange(&stage.rig, &client, &server);
	rig_part(&stage.rig, &client, &server);
	stage_close(&stage);
}

/* ---- ends by fault ------------------------------------------------------- */

CONFORMANCE_TEST(conformance_close, a_send_larger_than_the_receive_ends_both_sides)
{
	const uint32_t sent[] = { 65, 66, 4096, 100000 };

	for (size_t i = 0; i < RF_ARRAY_SIZE(sent); i++) {
		struct rig_op *recv, *next, *send;
		struct stage stage;
		bool is_told;

		stage_open(&stage, fabric);
		is_told = rf_fabric_traits(stage.rig.a.fab)->tells_offender;
		recv = next_op(&stage, &stage.server);
		next = next_op(&stage, &stage.server);
		send = next_op(&stage, &stage.client);
		cr_assert_eq(rig_recv(&stage.server, recv, 0, 64), 0);
		cr_assert_eq(rig_recv(&stage.server, next, 64, 64), 0);
		stage.rig.b.arena[64] = 0x5a;
		cr_assert_eq(rig_send(&stage.client, send, 0, sent[i]), 0);
		stage_close(&stage);
		cr_assert_eq(recv->status, -EMSGSIZE, "%d", recv->status);
		cr_assert_eq(next->status, -ECANCELED);
		cr_assert_eq(stage.server.reason, -EMSGSIZE);
		if (is_told)
			cr_assert_neq(stage.client.reason, 0);
		/* The sender may have been done with it before. */
		cr_assert(send->status == 0 || send->status == -EMSGSIZE ||
			  send->status == -ECANCELED);
	}
}

CONFORMANCE_TEST(conformance_close, a_send_never_runs_over_its_receive)
{
	struct stage stage;

	stage_open(&stage, fabric);
	cr_assert_eq(rig_recv(&stage.server, next_op(&stage, &stage.server), 0,
			      64), 0);
	rig_fill(&stage.rig.b, 64, 4096, 5);
	cr_assert_eq(rig_send(&stage.client, next_op(&stage, &stage.client),
			      0, 4096), 0);
	rig_until(&stage.rig, stage.server.closed);
	cr_assert(rig_holds(&stage.rig.b, 64, 4096, 5));
	stage_close(&stage);
}

CONFORMANCE_TEST(conformance_close, a_send_without_a_receive_ends_both_sides)
{
	bool is_owner_told, is_offender_told;
	struct stage stage;

	stage_open(&stage, fabric);
	is_owner_told = rf_fabric_traits(stage.rig.b.fab)->tells_owner;
	is_offender_told = rf_fabric_traits(stage.rig.a.fab)->tells_offender;
	cr_assert_eq(rig_recv(&stage.server, next_op(&stage, &stage.server), 0,
			      64), 0);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(rig_send(&stage.client,
				      next_op(&stage, &stage.client), 0, 64),
			     0);
	stage_close(&stage);
	/* The first one found its Receive. */
	cr_assert_eq(stage.ops[0].status, 0);
	if (is_owner_told)
		cr_assert_eq(stage.server.reason, -ENOBUFS);
	if (is_offender_told)
		cr_assert_neq(stage.client.reason, 0);
}

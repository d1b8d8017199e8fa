/* SPDX-License-Identifier: Apache-2.0 */
/* Calls and answers: slots, order, QUEUED, returns, grants, the end. */
#include "tests/common/rpc_rig.h"

#include <errno.h>
#include <stdlib.h>

static struct rpc_rig rig;
static struct rpc_client client;

static void set_up(void)
{
	rpc_rig_open(&rig, 1);
	rpc_client_open(&rig, &client);
}

static void tear_down(void)
{
	if (client.client)
		rf_client_abort(client.client);
	rpc_until(&rig, !client.client);
	rpc_rig_close(&rig);
}

TestSuite(rpc, .init = set_up, .fini = tear_down, .timeout = 60);

static unsigned int count_done(const struct rpc_call *calls, unsigned int count)
{
	unsigned int done = 0;

	for (unsigned int i = 0; i < count; i++)
		done += calls[i].done;
	return done;
}

static void say_goodbye(void)
{
	rf_client_bye(client.client);
	rpc_until(&rig, client.closed);
	cr_assert_eq(client.err, 0, "%s", client.reason);
}

/* ---- opening ------------ */

Test(rpc, open_session_knows_what_was_agreed)
{
	const struct rf_hello_limits *limits = rf_client_limits(client.client);

	cr_assert_eq(client.opened, 1);
	cr_assert_eq(client.reply.epoch, RPC_EPOCH);
	cr_assert_eq(limits->slots, RPC_SLOTS);
	cr_assert_eq(limits->msg_max, RPC_MSG_MAX);
	say_goodbye();
	rpc_until(&rig, rpc_all_freed(&rig));
	cr_assert(rpc_pools_are_full(&rig));
}

Test(rpc, server_gives_less_than_was_wished)
{
	struct rpc_client other;
	static struct rpc_call calls[12];

	rig.server_limits.slots = 2;
	rig.server_limits.control_slots = 1;
	rig.server_limits.server_msgs = 1;
	rpc_client_open(&rig, &other);
	for (unsigned int i = 0; i < 12; i++)
		rpc_call_start(&calls[i], &other, i, i % 3 ? RPC_AT_ONCE
							   : RPC_QUEUE_AT_ONCE);
	rpc_until(&rig, count_done(calls, 12) == 12);
	for (unsigned int i = 0; i < 12; i++)
		cr_assert_eq(calls[i].err, 0);
	rf_client_bye(other.client);
	rpc_until(&rig, other.closed);
	cr_assert_eq(other.err, 0);
}

Test(rpc, calls_submitted_before_the_session_is_open_wait_for_it)
{
	struct rpc_client other;
	static struct rpc_call call;

	rpc_client_init(&rig, &other);
	rpc_client_start(&other);
	rpc_call_start(&call, &other, 1, RPC_AT_ONCE);
	cr_assert_eq(other.opened, 0);
	rpc_until(&rig, call.done);
	cr_assert_eq(call.err, 0);
	rf_client_bye(other.client);
	rpc_until(&rig, other.closed);
}

/* ---- slots ------------ */

Test(rpc, each_call_gets_its_own_answer_under_any_order)
{
	enum { COUNT = 2000 };
	static struct rpc_call calls[COUNT];
	unsigned int seed = rpc_seed(), started = 0;
	struct rf_client_stats stats;

	rf_loop_set_seed(rig.world, seed);
	rf_loop_set_reorder(rig.world, true);
	while (count_done(calls, started) < COUNT) {
		if (started < COUNT && started - count_done(calls, started) <
				       3 * RPC_SLOTS && rand() % 2) {
			rpc_call_start(&calls[started], &client, started,
				       (enum rpc_how)(rand() % 4));
			started++;
		}
		if (rig.parked_count > 0 && rand() % 3 == 0)
			rpc_release(&rig, (unsigned int)rand() %
					  rig.parked_count);
		rpc_turn(&rig);
	}
	for (unsigned int i = 0; i < COUNT; i++) {
		cr_assert_eq(calls[i].err, 0);
		cr_assert_eq(rig.runs[i], 1);
	}
	rf_client_stats(client.client, &stats);
	cr_assert_leq(stats.slots_used_most, RPC_SLOTS + RPC_CONTROL_SLOTS);
	cr_assert_gt(stats.waits_for_slot, 0);
	cr_assert_gt(stats.queued, 0);
	say_goodbye();
}

Test(rpc, calls_start_in_the_order_submitted)
{
	static struct rpc_call calls[20];

	for (unsigned int i = 0; i < 20; i++)
		rpc_call_start(&calls[i], &client, i, RPC_AT_ONCE);
	rpc_until(&rig, count_done(calls, 20) == 20);
	for (unsigned int i = 0; i < 20; i++)
		cr_assert_eq(rig.run_order[i], i);
}

Test(rpc, control_calls_pass_when_all_slots_are_taken)
{
	static struct rpc_call calls[RPC_SLOTS + 1], control;

	for (unsigned int i = 0; i <= RPC_SLOTS; i++)
		rpc_call_start(&calls[i], &client, i, RPC_PARK);
	rpc_until(&rig, rig.parked_count == RPC_SLOTS);
	rpc_call_init(&control, &client, 50, RPC_AT_ONCE);
	control.call.is_control = true;
	rpc_call_submit(&control);
	rpc_until(&rig, control.done);
	cr_assert_eq(count_done(calls, RPC_SLOTS + 1), 0);
	cr_assert_eq(rig.runs[RPC_SLOTS], 0, "no slot for it yet");
	rpc_release_all(&rig);
	rpc_until(&rig, rig.parked_count == 1);
	rpc_release_all(&rig);
	rpc_until(&rig, count_done(calls, RPC_SLOTS + 1) == RPC_SLOTS + 1);
}

static void start_again(struct rpc_call *call)
{
	struct rpc_client *side = call->client;
	uint64_t tag = call->tag;

	if (tag == 30)
		return;
	rpc_call_start(call, side, tag + 1, RPC_AT_ONCE);
	call->then = start_again;
}

Test(rpc, call_may_be_submitted_again_from_its_done)
{
	static struct rpc_call call;

	rpc_call_init(&call, &client, 1, RPC_AT_ONCE);
	call.then = start_again;
	rpc_call_submit(&call);
	rpc_until(&rig, call.tag == 30 && call.done);
	cr_assert_eq(call.err, 0);
}

Test(rpc, retracted_call_is_never_run)
{
	static struct rpc_call calls[RPC_SLOTS + 2];
	struct rf_buf *buf;

	for (unsigned int i = 0; i < RPC_SLOTS + 2; i++)
		rpc_call_start(&calls[i], &client, i, RPC_PARK);
	cr_assert_not(rf_client_retract(client.client, &calls[0].call));
	buf = calls[RPC_SLOTS].call.msg;
	cr_assert(rf_client_retract(client.client, &calls[RPC_SLOTS].call));
	rf_pool_put(buf);
	rpc_until(&rig, rig.parked_count == RPC_SLOTS);
	rpc_release_all(&rig);
	rpc_until(&rig, rig.parked_count == 1);
	rpc_release_all(&rig);
	rpc_until(&rig, calls[RPC_SLOTS + 1].done);
	cr_assert_eq(calls[RPC_SLOTS].done, 0);
	cr_assert_eq(rig.runs[RPC_SLOTS], 0);
}

Test(rpc, answers_leave_at_the_flush_and_not_before)
{
	static struct rpc_call calls[RPC_SLOTS];

	rig.holds_answers = true;
	for (unsigned int i = 0; i < RPC_SLOTS; i++)
		rpc_call_start(&calls[i], &client, i, RPC_AT_ONCE);
	rpc_settle(&rig);
	cr_assert_eq(rig.run_count, RPC_SLOTS);
	cr_assert_eq(count_done(calls, RPC_SLOTS), 0);
	rig.holds_answers = false;
	rf_channel_flush(rig.channels[0].channel);
	rpc_until(&rig, count_done(calls, RPC_SLOTS) == RPC_SLOTS);
}

/* ---- QUEUED ------------ */

Test(rpc, queued_call_gives_its_slot_back_and_finishes_later)
{
	static struct rpc_call queued[RPC_SERVER_MSGS], others[30];

	for (unsigned int i = 0; i < RPC_SERVER_MSGS; i++)
		rpc_call_start(&queued[i], &client, i, RPC_QUEUE);
	rpc_until(&rig, rig.parked_count == RPC_SERVER_MSGS);
	for (unsigned int i = 0; i < 30; i++)
		rpc_call_start(&others[i], &client, 100 + i, RPC_AT_ONCE);
	rpc_until(&rig, count_done(others, 30) == 30);
	cr_assert_eq(count_done(queued, RPC_SERVER_MSGS), 0);
	for (unsigned int i = 0; i < RPC_SERVER_MSGS; i++) {
		cr_assert_eq(queued[i].queued, 1);
		for (unsigned int k = 0; k < i; k++)
			cr_assert_neq(queued[i].call.ticket,
				      queued[k].call.ticket);
	}
	rpc_release(&rig, 2);
	rpc_until(&rig, queued[2].done);
	cr_assert_eq(count_done(queued, RPC_SERVER_MSGS), 1);
	rpc_release_all(&rig);
	rpc_until(&rig, count_done(queued, RPC_SERVER_MSGS) == RPC_SERVER_MSGS);
}

Test(rpc, request_keeps_its_slot_when_too_many_are_queued)
{
	static struct rpc_call calls[RPC_SERVER_MSGS + 1];

	for (unsigned int i = 0; i <= RPC_SERVER_MSGS; i++)
		rpc_call_start(&calls[i], &client, i, RPC_QUEUE);
	rpc_until(&rig, rig.parked_count == RPC_SERVER_MSGS + 1);
	cr_assert_eq(rig.queue_refused, 1);
	rpc_settle(&rig);
	cr_assert_eq(calls[RPC_SERVER_MSGS].queued, 0);
	rpc_release_all(&rig);
	rpc_until(&rig, count_done(calls, RPC_SERVER_MSGS + 1) ==
			RPC_SERVER_MSGS + 1);
}

Test(rpc, request_on_a_control_slot_is_never_queued)
{
	static struct rpc_call call;

	rpc_call_init(&call, &client, 1, RPC_QUEUE_AT_ONCE);
	call.call.is_control = true;
	rpc_call_submit(&call);
	rpc_until(&rig, call.done);
	cr_assert_eq(call.queued, 0);
	cr_assert_eq(rig.queue_refused, 1);
}

Test(rpc, client_acknowledges_server_messages_with_nothing_else_to_say)
{
	static struct rpc_call calls[RPC_SERVER_MSGS];
	struct rf_channel_stats stats;

	for (unsigned int i = 0; i < RPC_SERVER_MSGS; i++)
		rpc_call_start(&calls[i], &client, i, RPC_QUEUE);
	rpc_until(&rig, rig.parked_count == RPC_SERVER_MSGS);
	rpc_settle(&rig);
	rpc_release_all(&rig);
	rpc_settle(&rig);
	cr_assert_eq(count_done(calls, RPC_SERVER_MSGS), RPC_SERVER_MSGS);
	rf_channel_stats(rig.channels[0].channel, &stats);
	cr_assert_eq(stats.finished, RPC_SERVER_MSGS);
	cr_assert_lt(stats.unacknowledged, RPC_SERVER_MSGS / 2 + 1);
}

/* ---- returns of grants ------------ */

Test(rpc, returns_leave_alone_at_the_end_of_the_turn)
{
	for (uint32_t i = 1; i <= 1000; i++)
		rf_client_return_grant(client.client, i);
	rpc_until(&rig, rig.channels[0].returned_count == 1000);
	rpc_settle(&rig);
	cr_assert_eq(rig.channels[0].returned_count, 1000);
	cr_assert_eq(rig.run_count, 0, "the server's code sees no request");
}

static void encode_with_returns(struct rpc_call *call)
{
	struct rf_args args = { .code = RF_OP_READ };
	struct rf_header header = { .type = RF_MSG_REQUEST };
	struct rf_enc enc;

	args.read.offset = call->tag;
	rf_enc_init(&enc, call->call.msg->mem, RPC_MSG_MAX);
	cr_assert_eq(rf_client_take_returns(client.client, &enc), 3);
	cr_assert_eq(rf_client_take_returns(client.client, &enc), 0);
	rf_enc_args(&enc, &args);
	call->call.msg_size = (uint32_t)rf_enc_finish(&enc, &header);
}

Test(rpc, returns_go_with_the_request_that_takes_them)
{
	struct rf_client_stats stats;
	static struct rpc_call call;

	rpc_call_init(&call, &client, 1, RPC_AT_ONCE);
	for (uint32_t i = 1; i <= 3; i++)
		rf_client_return_grant(client.client, i);
	encode_with_returns(&call);
	rpc_call_submit(&call);
	rpc_until(&rig, call.done);
	rpc_settle(&rig);
	cr_assert_eq(rig.channels[0].returned_count, 3);
	rf_client_stats(client.client, &stats);
	cr_assert_eq(stats.calls, 1);
}

Test(rpc, returns_of_a_retracted_call_are_not_lost)
{
	static struct rpc_call calls[RPC_SLOTS], call;

	for (unsigned int i = 0; i < RPC_SLOTS; i++)
		rpc_call_start(&calls[i], &client, i, RPC_PARK);
	rpc_call_init(&call, &client, 10, RPC_AT_ONCE);
	for (uint32_t i = 1; i <= 3; i++)
		rf_client_return_grant(client.client, i);
	encode_with_returns(&call);
	rpc_call_submit(&call);
	cr_assert(rf_client_retract(client.client, &call.call));
	rf_pool_put(call.call.msg);
	rpc_until(&rig, rig.channels[0].returned_count == 3);
}

/* ---- one-sided work with calls and answers ------------ */

static struct rf_window *window;
static struct rf_buf *server_buf;
static struct rf_remote lent;
static uint32_t came_with_key;
static bool slot_was_dead, data_were_there;

enum { DATA_SIZE = 4000 };

/* First request: lend the buffer.  Second: the data are in it. */
static void serve_slot(struct rf_request *request)
{
	struct rf_results results = { .code = RF_OP_READ };
	struct rf_work bind = { .code = RF_BIND, .window = window };
	struct rf_args args;

	cr_assert_eq(rf_dec_args(&request->dec, &args), 1);
	results.read.version = args.read.offset;
	if (args.read.offset == 1) {
		lent = rf_window_next(window, rig.server_mr, server_buf->mem,
				      DATA_SIZE, RF_REMOTE_WRITE);
		rf_enc_results(&request->enc, &results);
		rf_request_answer(request, &bind, 1);
		return;
	}
	came_with_key = request->inv_key;
	slot_was_dead = !rf_window_is_bound(window);
	data_were_there = true;
	for (unsigned int i = 0; i < DATA_SIZE; i++)
		data_were_there &= server_buf->mem[i] == (uint8_t)(i * 7);
	rf_enc_results(&request->enc, &results);
	rf_request_answer(request, NULL, 0);
}

Test(rpc, data_written_before_a_call_are_there_and_the_key_is_dead)
{
	struct rf_buf *buf = rf_pool_get(rig.client_pool, DATA_SIZE);
	const struct rf_sge sge = { buf->mem, DATA_SIZE, rig.client_mr };
	struct rf_work write = { .code = RF_WRITE, .sge = &sge,
				 .sge_count = 1 };
	static struct rpc_call ask, tell;

	server_buf = rf_pool_get(rig.server_pool, DATA_SIZE);
	cr_assert_eq(rf_window_create(rig.server_pd, &window), 0);
	rig.on_request = serve_slot;
	rpc_call_start(&ask, &client, 1, RPC_AT_ONCE);
	rpc_until(&rig, ask.done);
	cr_assert(rf_window_is_bound(window));
	for (unsigned int i = 0; i < DATA_SIZE; i++)
		buf->mem[i] = (uint8_t)(i * 7);
	write.remote = lent;
	rpc_call_init(&tell, &client, 2, RPC_AT_ONCE);
	tell.call.works = &write;
	tell.call.work_count = 1;
	tell.call.inv_key = lent.rkey;
	rpc_call_submit(&tell);
	rpc_until(&rig, tell.done);
	cr_assert_eq(tell.err, 0);
	cr_assert_eq(came_with_key, lent.rkey);
	cr_assert(slot_was_dead);
	cr_assert(data_were_there);
	rf_pool_put(buf);
	rf_pool_put(server_buf);
	rf_window_destroy(window);
	rig.on_request = NULL;
}

/* ---- full queues ------------ */

Test(rpc, shallow_send_queues_only_slow_it_down)
{
	enum { COUNT = 200 };
	static struct rpc_call calls[COUNT];
	struct rpc_client narrow;

	rpc_client_init(&rig, &narrow);
	narrow.config.send_depth = 2;
	rpc_client_start(&narrow);
	for (unsigned int i = 0; i < COUNT; i++)
		rpc_call_start(&calls[i], &narrow, i, i % 2 ? RPC_AT_ONCE
							    : RPC_QUEUE_AT_ONCE);
	rpc_until(&rig, count_done(calls, COUNT) == COUNT);
	for (unsigned int i = 0; i < COUNT; i++) {
		cr_assert_eq(calls[i].err, 0);
		cr_assert_eq(rig.runs[i], 1);
	}
	rf_client_abort(narrow.client);
	rpc_until(&rig, narrow.closed);
}

Test(rpc, many_answers_at_once_pass_a_shallow_queue)
{
	enum { COUNT = 40 };
	static struct rpc_call calls[COUNT];
	struct rpc_client wide;

	rig.server_config.send_depth = RF_ANSWER_WORKS_MAX + 1;
	rig.server_limits.slots = COUNT;
	rpc_client_init(&rig, &wide);
	wide.config.hello.limits.slots = COUNT;
	rpc_client_start(&wide);
	for (unsigned int i = 0; i < COUNT; i++)
		rpc_call_start(&calls[i], &wide, i, RPC_PARK);
	rpc_until(&rig, rig.parked_count == COUNT);
	rig.holds_answers = true;
	rpc_release_all(&rig);
	rig.holds_answers = false;
	rf_channel_flush(rig.channels[1].channel);
	rpc_until(&rig, count_done(calls, COUNT) == COUNT);
	rf_client_bye(wide.client);
	rpc_until(&rig, wide.closed);
	cr_assert_eq(wide.err, 0);
}

/* ---- the end ------------ */

Test(rpc, bye_waits_for_calls_and_returns)
{
	static struct rpc_call calls[RPC_SLOTS + 3];

	for (unsigned int i = 0; i < RPC_SLOTS + 3; i++)
		rpc_call_start(&calls[i], &client, i,
			       i % 2 ? RPC_PARK : RPC_QUEUE);
	rf_client_return_grant(client.client, 9);
	rf_client_bye(client.client);
	while (!client.closed) {
		rpc_release_all(&rig);
		cr_assert(rpc_turn(&rig));
	}
	cr_assert_eq(client.err, 0);
	for (unsigned int i = 0; i < RPC_SLOTS + 3; i++)
		cr_assert_eq(calls[i].err, 0);
	cr_assert_eq(rig.channels[0].returned_count, 1);
	rpc_until(&rig, rpc_all_freed(&rig));
	cr_assert_eq(rig.channels[0].err, 0);
	cr_assert(rpc_pools_are_full(&rig));
}

Test(rpc, bye_without_an_answer_ends_in_time)
{
	uint64_t start_ns = rf_loop_now_ns(rig.world);

	rig.keeps_byes = true;
	rf_client_bye(client.client);
	rpc_until(&rig, client.closed);
	cr_assert_eq(client.err, -ETIMEDOUT);
	cr_assert_lt(rf_loop_now_ns(rig.world) - start_ns,
		     2ull * RPC_SETUP_MS * 1000000);
	rpc_until(&rig, rig.channels[0].is_closed);
	cr_assert_not_null(rig.channels[0].channel, "a request is left");
}

static void start_calls_in_every_state(struct rpc_call *calls)
{
	rpc_call_start(&calls[0], &client, 0, RPC_QUEUE);
	rpc_until(&rig, calls[0].queued);
	for (unsigned int i = 1; i <= RPC_SLOTS; i++)
		rpc_call_start(&calls[i], &client, i, RPC_PARK);
	rpc_until(&rig, rig.parked_count == RPC_SLOTS + 1);
	rpc_call_start(&calls[RPC_SLOTS + 1], &client, 20, RPC_PARK);
}

Test(rpc, lost_connection_ends_each_call_once)
{
	static struct rpc_call calls[RPC_SLOTS + 2];

	start_calls_in_every_state(calls);
	rf_loop_cut_ep(rf_client_ep(client.client), RF_LOOP_CUT_RESET);
	rpc_until(&rig, client.closed);
	for (unsigned int i = 0; i <= RPC_SLOTS; i++)
		cr_assert_eq(calls[i].err, -ECONNRESET);
	cr_assert_eq(calls[RPC_SLOTS + 1].err, -ECANCELED, "never sent");
	cr_assert_eq(client.err, -ECONNRESET);
	rpc_settle(&rig);
	cr_assert(rig.channels[0].is_closed);
	cr_assert_not_null(rig.channels[0].channel);
	rpc_release_all(&rig);
	cr_assert_not_null(rig.channels[0].channel, "freed inside of answer");
	rpc_until(&rig, rpc_all_freed(&rig));
	cr_assert(rpc_pools_are_full(&rig));
}

Test(rpc, connection_lost_before_the_flush_drops_the_answers)
{
	static struct rpc_call calls[RPC_SLOTS];

	rig.holds_answers = true;
	for (unsigned int i = 0; i < RPC_SLOTS; i++)
		rpc_call_start(&calls[i], &client, i,
			       i % 2 ? RPC_AT_ONCE : RPC_QUEUE_AT_ONCE);
	rpc_settle(&rig);
	rf_loop_cut_ep(rf_client_ep(client.client), RF_LOOP_CUT_RESET);
	rpc_until(&rig, client.closed && rpc_all_freed(&rig));
	for (unsigned int i = 0; i < RPC_SLOTS; i++)
		cr_assert_eq(calls[i].err, -ECONNRESET);
	cr_assert(rpc_pools_are_full(&rig));
}

static unsigned int woken_open, woken_closed;

static void wake_up(struct rf_pool_waiter *waiter, struct rf_buf *buf)
{
	(void)waiter;
	*(client.client ? &woken_open : &woken_closed) += 1;
	rf_pool_put(buf);
}

Test(rpc, who_waits_for_a_buffer_learns_of_the_end_first)
{
	struct rf_pool_waiter waiter = { .ready = wake_up };
	struct rf_buf *taken[257];
	unsigned int count = 0;

	while ((taken[count] = rf_pool_get(rig.client_pool, RPC_BUF_SIZE)))
		count++;
	rf_pool_wait(rig.client_pool, RPC_BUF_SIZE, &waiter);
	rf_client_abort(client.client);
	rpc_until(&rig, client.closed);
	cr_assert_eq(woken_open, 0, "it would submit to what is gone");
	cr_assert_eq(woken_closed, 1);
	while (count > 0)
		rf_pool_put(taken[--count]);
}

Test(rpc, silent_peer_is_found_by_keepalive)
{
	struct rpc_client other;
	static struct rpc_call call;

	rpc_client_init(&rig, &other);
	other.config.keepalive_ms = 500;
	rpc_client_start(&other);
	rpc_call_start(&call, &other, 1, RPC_PARK);
	rpc_until(&rig, rig.parked_count == 1);
	rf_loop_cut_ep(rf_client_ep(other.client), RF_LOOP_CUT_SILENT);
	rpc_until(&rig, other.closed);
	cr_assert_eq(call.done, 1);
	cr_assert_lt(call.err, 0);
	rf_channel_close(rig.channels[1].channel);
}

/* On InfiniBand and RoCE by a Read, for which the connection must have room. */
static void each_end_may_probe_the_other(void)
{
	struct rpc_client other;

	rpc_client_init(&rig, &other);
	other.config.reads_out = 0;
	rpc_client_start(&other);
	rpc_until(&rig, other.opened && rig.channels[1].channel);
	cr_assert_geq(rf_ep_limits(rf_client_ep(other.client))->reads_max, 1);
	cr_assert_geq(rf_ep_limits(rf_channel_ep(rig.channels[1].channel))
			      ->reads_max, 1);
	rf_client_bye(other.client);
	rpc_until(&rig, other.closed);
}

Test(rpc, each_end_may_ask_whether_the_other_is_there)
{
	each_end_may_probe_the_other();
}

Test(rpc, abort_ends_calls_with_canceled)
{
	static struct rpc_call calls[RPC_SLOTS + 2];

	start_calls_in_every_state(calls);
	rf_client_abort(client.client);
	cr_assert_eq(count_done(calls, RPC_SLOTS + 2), 0, "not from inside");
	rpc_until(&rig, client.closed);
	for (unsigned int i = 0; i < RPC_SLOTS + 2; i++)
		cr_assert_eq(calls[i].err, -ECANCELED);
	rpc_settle(&rig);
}

Test(rpc, server_that_closes_is_a_reset)
{
	static struct rpc_call call;

	rpc_call_start(&call, &client, 1, RPC_PARK);
	rpc_until(&rig, rig.parked_count == 1);
	rf_channel_close(rig.channels[0].channel);
	rpc_until(&rig, client.closed);
	cr_assert_eq(client.err, -ECONNRESET);
	cr_assert_eq(call.err, -ECONNRESET);
}

/* ---- the same over TCP, in real time ------------ */

static void set_up_iwarp(void)
{
	rpc_rig_open_real(&rig, "iwarp://");
	rpc_client_open(&rig, &client);
}

TestSuite(rpc_iwarp, .init = set_up_iwarp, .fini = tear_down, .timeout = 60);

Test(rpc_iwarp, each_end_may_ask_whether_the_other_is_there)
{
	each_end_may_probe_the_other();
}

Test(rpc_iwarp, many_calls_of_each_kind)
{
	enum { COUNT = 2000 };
	static struct rpc_call calls[COUNT];
	unsigned int started = 0;

	while (count_done(calls, started) < COUNT) {
		while (started < COUNT &&
		       started - count_done(calls, started) < 3 * RPC_SLOTS) {
			rpc_call_start(&calls[started], &client, started,
				       (enum rpc_how)(started % 4));
			rf_client_return_grant(client.client, started++);
		}
		rpc_release_all(&rig);
		rpc_turn(&rig);
	}
	for (unsigned int i = 0; i < COUNT; i++) {
		cr_assert_eq(calls[i].err, 0);
		cr_assert_eq(rig.runs[i], 1);
	}
	rf_client_bye(client.client);
	rpc_until(&rig, client.closed);
	cr_assert_eq(client.err, 0, "%s", client.reason);
	cr_assert_eq(rig.channels[0].returned_count, COUNT);
}

Test(rpc_iwarp, one_call_at_a_time_takes_few_turns)
{
	enum { COUNT = 500 };
	static struct rpc_call calls[COUNT];
	struct rf_reactor_stats before, after;

	rf_reactor_stats(rig.reactor, &before);
	for (unsigned int i = 0; i < COUNT; i++) {
		rpc_call_start(&calls[i], &client, i, RPC_AT_ONCE);
		rpc_until(&rig, calls[i].done);
	}
	rf_reactor_stats(rig.reactor, &after);
	/* Both ends are on this reactor: one wait for each. */
	cr_assert_leq(after.waits - before.waits, 2 * COUNT + COUNT / 10,
		      "%lu waits for %u calls",
		      (unsigned long)(after.waits - before.waits), COUNT);
}

Test(rpc_iwarp, client_that_goes_away_leaves_nothing)
{
	static struct rpc_call calls[3 * RPC_SLOTS];

	for (unsigned int i = 0; i < 3 * RPC_SLOTS; i++)
		rpc_call_start(&calls[i], &client, i, RPC_PARK);
	rpc_until(&rig, rig.parked_count == RPC_SLOTS);
	rf_client_abort(client.client);
	rpc_until(&rig, client.closed && rig.channels[0].is_closed);
	rpc_release_all(&rig);
	rpc_until(&rig, rpc_all_freed(&rig));
	cr_assert(rpc_pools_are_full(&rig));
}

/* ---- everything at once, cut anywhere ------------ */

static void run_and_cut(uint64_t seed)
{
	enum { COUNT = 60 };
	static struct rpc_call calls[COUNT];
	unsigned int started = 0, cut_at = (unsigned int)rand() % 400;

	rpc_rig_open(&rig, seed);
	rf_loop_set_reorder(rig.world, true);
	rpc_client_init(&rig, &client);
	client.config.keepalive_ms = 100;
	rig.server_config.keepalive_ms = 100;
	rpc_client_start(&client);
	for (unsigned int turn = 0; client.client; turn++) {
		if (turn == cut_at)
			rf_loop_cut_ep(rf_client_ep(client.client),
				       rand() % 2 ? RF_LOOP_CUT_RESET
						  : RF_LOOP_CUT_SILENT);
		if (started < COUNT && rand() % 2) {
			rpc_call_start(&calls[started], &client, started,
				       (enum rpc_how)(rand() % 4));
			rf_client_return_grant(client.client, started++);
		}
		if (rig.parked_count > 0 && rand() % 4 == 0)
			rpc_release(&rig, (unsigned int)rand() %
					  rig.parked_count);
		if (!rpc_turn(&rig) && started == COUNT &&
		    rig.parked_count == 0 && client.client) {
			/* It was cut before there was anything to cut. */
			cr_assert_eq(count_done(calls, COUNT), COUNT);
			rf_client_abort(client.client);
		}
	}
	cr_assert_eq(count_done(calls, started), started);
	for (unsigned int i = 0; i < started; i++) {
		cr_assert_leq(rig.runs[i], 1);
		cr_assert(calls[i].err == 0 || calls[i].err == client.err ||
			  calls[i].err == -ECANCELED);
		cr_assert(calls[i].err || rig.runs[i] == 1);
	}
	rpc_rig_close(&rig);
}

Test(rpc_cut, nothing_is_lost_wherever_the_connection_is_cut, .timeout = 120)
{
	unsigned int seed = rpc_seed();

	for (unsigned int i = 0; i < 150; i++)
		run_and_cut(seed + i);
}

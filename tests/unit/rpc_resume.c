/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's session over its connections.  The server is a raw endpoint that
 * this file speaks for, so that each message can be looked at.
 */
#include "tests/common/rpc_rig.h"

#include <errno.h>

enum {
	SESSION = 4711,
	LEASE_MS = 60000,
	CALLS_MAX = 16,
	ANSWER_MS = RPC_SETUP_MS / 3,	/* twice as long is still less */
};

static struct rpc_rig rig;
static struct rpc_raw raw;		/* the server of this connection */
static unsigned int seen;		/* messages of it that were looked at */
static struct rf_client *client;	/* NULL once closed */
static unsigned int opened, lost, resumed, closed;
static int lost_err, closed_err;
static struct rf_resume_reply resume_reply;
static uint8_t secret[RF_SECRET_SIZE];
static uint8_t store[RF_UUID_SIZE];
static uint8_t message[RPC_BUF_SIZE];

struct test_call {
	struct rf_call call;
	unsigned int done, queued;
	int err;
	bool resubmits;
};
static struct test_call calls[CALLS_MAX];

/* ---- the client ------------ */

static void on_opened(struct rf_client *c, const struct rf_hello_reply *reply)
{
	(void)c;
	(void)reply;
	opened++;
}

static void on_lost(struct rf_client *c, int err, const char *reason)
{
	(void)c;
	cr_assert_neq(err, 0);
	cr_assert_not_null(reason);
	lost++;
	lost_err = err;
}

static void on_resumed(struct rf_client *c, const struct rf_resume_reply *reply)
{
	(void)c;
	resumed++;
	resume_reply = *reply;
}

static void on_closed(struct rf_client *c, int err, const char *reason)
{
	(void)c;
	(void)reason;
	closed++;
	closed_err = err;
	client = NULL;
}

static const struct rf_client_events events = {
	.opened = on_opened,
	.lost = on_lost,
	.resumed = on_resumed,
	.closed = on_closed,
};

static void call_done(struct rf_call *call, int err, struct rf_dec *reply)
{
	struct test_call *t = rf_container_of(call, struct test_call, call);

	cr_assert_eq(!reply, err != 0);
	t->done++;
	t->err = err;
	if (t->resubmits && err == -ESTALE)
		rf_client_submit(client, call);
	else
		rf_pool_put(call->msg);
}

static void call_queued(struct rf_call *call)
{
	rf_container_of(call, struct test_call, call)->queued++;
}

/* A call of this one operation, with returns before it. */
static struct test_call *make(unsigned int index, const struct rf_args *args,
			      unsigned int returns)
{
	struct rf_header header = { .type = RF_MSG_REQUEST };
	struct test_call *t = &calls[index];
	struct rf_enc enc;

	memset(t, 0, sizeof(*t));
	t->call.done = call_done;
	t->call.queued = call_queued;
	t->call.msg = rf_pool_get(rig.client_pool, RPC_MSG_MAX);
	rf_enc_init(&enc, t->call.msg->mem, RPC_MSG_MAX);
	for (unsigned int i = 0; i < returns; i++)
		rf_enc_return(&enc, 100 + i);
	rf_enc_args(&enc, args);
	t->call.msg_size = (uint32_t)rf_enc_finish(&enc, &header);
	return t;
}

static struct test_call *make_mkdir(unsigned int index, const char *name)
{
	struct rf_args args = { .code = RF_OP_MKDIR };

	args.mkdir.name.bytes = name;
	args.mkdir.name.size = (uint16_t)strlen(name);
	return make(index, &args, 0);
}

static struct test_call *make_getattr(unsigned int index)
{
	const struct rf_args args = { .code = RF_OP_GETATTR };

	return make(index, &args, 0);
}

static struct test_call *submit(struct test_call *t)
{
	rf_client_submit(client, &t->call);
	return t;
}

static void reconnect(void)
{
	cr_assert_eq(rf_client_reconnect(client, &rig.address,
					 rig.address_size, RPC_SETUP_MS), 0);
}

/* ---- the server ------------ */

static void listen_anew(void)
{
	if (raw.ep)
		rpc_raw_close(&raw);
	seen = 0;
	rpc_raw_listen(&rig, &raw);
}

/* The next message of the client. */
static const struct rf_header *next(void)
{
	rpc_until(&rig, raw.come > seen);
	return &raw.recvs[seen++].header;
}

static const uint8_t *bytes_of_last(void)
{
	return raw.recvs[seen - 1].buf->mem;
}

static void nothing_comes(void)
{
	for (unsigned int i = 0; i < 50; i++)
		rf_reactor_turn(rig.reactor, 0);
	cr_assert_eq(raw.come, seen, "a message of type %u came",
		     raw.recvs[seen].header.type);
}

/* The first operation of the last message. */
static struct rf_args first_op(struct rf_dec *dec)
{
	const struct rf_header *header = &raw.recvs[seen - 1].header;
	struct rf_args args;

	cr_assert_eq(rf_dec_init(dec, bytes_of_last(), header->size), 0);
	cr_assert_eq(rf_dec_args(dec, &args), 1);
	return args;
}

static void welcome(void)
{
	struct rf_hello_reply reply = {
		.status = RF_ST_OK,
		.version = 1,
		.session = SESSION,
		.epoch = RPC_EPOCH,
		.lease_ms = LEASE_MS,
	};
	struct rf_hello hello;
	int size;

	cr_assert_eq(next()->type, RF_MSG_HELLO);
	cr_assert_eq(rf_hello_decode(bytes_of_last(), raw.recvs[0].header.size,
				     &hello), 0);
	cr_assert_eq(rf_hello_verify(bytes_of_last(), raw.recvs[0].header.size,
				     &rig.server_key, raw.accept.nonce,
				     raw.proof), 0);
	reply.limits = hello.limits;
	memcpy(reply.server_uuid, store, RF_UUID_SIZE);
	rf_hello_secret(secret, &rig.server_key, raw.proof, SESSION);
	size = rf_hello_reply_encode(message, &reply, &rig.server_key,
				     raw.accept.nonce, raw.proof);
	rpc_raw_send(&raw, message, (size_t)size);
}

/* Answer RESUME; with another secret the proof is wrong. */
static void answer_resume(enum rf_status status, uint32_t epoch,
			  const struct rf_key *key)
{
	struct rf_resume_reply reply = {
		.status = (uint16_t)status,
		.version = 1,
		.epoch = epoch,
		.lease_ms = LEASE_MS,
		.reason = "because",
	};
	struct rf_resume resume;
	int size;

	cr_assert_eq(next()->type, RF_MSG_RESUME);
	cr_assert_eq(rf_resume_decode(bytes_of_last(), raw.recvs[0].header.size,
				      &resume, raw.proof), 0);
	cr_assert_eq(resume.session, SESSION);
	cr_assert_eq(rf_resume_verify(bytes_of_last(),
				      raw.recvs[0].header.size,
				      &rig.server_key, secret,
				      raw.accept.nonce), 0);
	memcpy(reply.server_uuid, store, RF_UUID_SIZE);
	size = rf_resume_reply_encode(message, &reply, key, secret,
				      raw.accept.nonce, raw.proof);
	rpc_raw_send(&raw, message, (size_t)size);
}

static void say(enum rf_msg_type type, const struct rf_header *to,
		uint32_t ticket)
{
	struct rf_header header = {
		.type = (uint8_t)type,
		.slot = type == RF_MSG_FINISHED ? 0 : to->slot,
		.seq = type == RF_MSG_FINISHED ? 0 : to->seq,
		.ticket = ticket,
		.epoch = to->epoch,
	};
	struct rf_enc enc;

	rf_enc_init(&enc, message, RPC_MSG_MAX);
	rpc_raw_send(&raw, message, (size_t)rf_enc_finish(&enc, &header));
}

/* ---- beginning and end ------------ */

static void set_up(void)
{
	struct rpc_client usual;

	rpc_rig_open(&rig, 1);
	memset(store, 0x51, sizeof(store));
	opened = lost = resumed = closed = 0;
	raw.ep = NULL;
	listen_anew();
	rpc_client_init(&rig, &usual);
	usual.config.answer_ms = ANSWER_MS;
	cr_assert_eq(rf_client_open(&usual.config, &events, NULL, &client), 0);
	welcome();
	rpc_until(&rig, opened == 1);
}

static void tear_down(void)
{
	if (client)
		rf_client_abort(client);
	rpc_until(&rig, !client);
	cr_assert_eq(closed, 1);
	if (raw.ep)
		rpc_raw_close(&raw);
	cr_assert(rpc_pools_are_full(&rig));
	rpc_rig_close(&rig);
}

TestSuite(rpc_resume, .init = set_up, .fini = tear_down, .timeout = 60);

static void lose(void)
{
	unsigned int before = lost;

	rpc_raw_close(&raw);
	rpc_until(&rig, lost == before + 1);
}

/* A new connection, up to resumed(). */
static void resume(uint32_t epoch)
{
	unsigned int before = resumed;

	listen_anew();
	reconnect();
	answer_resume(RF_ST_OK, epoch, &rig.server_key);
	rpc_until(&rig, resumed == before + 1);
}

static void lose_and_resume(uint32_t epoch)
{
	lose();
	resume(epoch);
}

/* ---- what is sent again ------------ */

Test(rpc_resume, change_without_an_answer_goes_again_as_it_was)
{
	struct test_call *t = submit(make_mkdir(0, "a"));
	struct rf_header first = *next(), again;
	struct rf_dec dec;

	lose_and_resume(RPC_EPOCH + 1);
	cr_assert_eq(resume_reply.epoch, RPC_EPOCH + 1);
	nothing_comes();
	rf_client_go_on(client);
	again = *next();
	cr_assert_eq(again.slot, first.slot);
	cr_assert_eq(again.seq, first.seq);
	cr_assert_eq(again.epoch, RPC_EPOCH + 1);
	cr_assert_eq(first_op(&dec).code, RF_OP_MKDIR);
	cr_assert_eq(t->done, 0);
	say(RF_MSG_REPLY, &again, 0);
	rpc_until(&rig, t->done);
	cr_assert_eq(t->err, 0);
	cr_assert(t->call.was_resent);
	/* The slot goes on with its next number. */
	submit(make_mkdir(1, "b"));
	cr_assert_eq(next()->seq, first.seq + 1);
	cr_assert_eq(raw.recvs[seen - 1].header.slot, first.slot);
}

Test(rpc_resume, question_without_an_answer_goes_as_a_new_one)
{
	struct test_call *t = submit(make_getattr(0));
	struct rf_header first = *next(), again;

	lose_and_resume(2);
	rf_client_go_on(client);
	again = *next();
	cr_assert_eq(again.slot, first.slot);
	cr_assert_eq(again.seq, first.seq + 1);
	say(RF_MSG_REPLY, &again, 0);
	rpc_until(&rig, t->done);
	cr_assert_not(t->call.was_resent);
}

Test(rpc_resume, answered_ones_are_not_sent_again)
{
	struct test_call *t = submit(make_mkdir(0, "a"));

	say(RF_MSG_REPLY, next(), 0);
	rpc_until(&rig, t->done);
	lose_and_resume(2);
	rf_client_go_on(client);
	nothing_comes();
}

Test(rpc_resume, queued_question_goes_as_a_new_one)
{
	struct test_call *t = submit(make_getattr(0));
	struct rf_header again;

	say(RF_MSG_QUEUED, next(), 9);
	rpc_until(&rig, t->queued);
	lose_and_resume(2);
	rf_client_go_on(client);
	again = *next();
	say(RF_MSG_QUEUED, &again, 9);	/* tickets begin anew */
	say(RF_MSG_FINISHED, &again, 9);
	rpc_until(&rig, t->done);
	cr_assert_eq(t->queued, 2);
	cr_assert_eq(t->err, 0);
}

Test(rpc_resume, message_loses_what_the_connection_had_lent)
{
	struct rf_args args = { .code = RF_OP_WRITE };
	struct test_call *t;
	struct rf_header first, again;
	struct rf_dec dec;

	args.write.open = 3;
	args.write.offset = 12345;
	args.write.pieces.count = 2;
	args.write.pieces.v[0] = (struct rf_piece){ 0x1001, 10, 11 };
	args.write.pieces.v[1] = (struct rf_piece){ 0x1002, 20, 21 };
	t = make(0, &args, 3);
	submit(t);
	first = *next();
	cr_assert_eq(first.return_count, 3);
	lose_and_resume(2);
	rf_client_go_on(client);
	again = *next();
	cr_assert_eq(again.return_count, 0);
	cr_assert_eq(again.size, first.size - 12);
	args = first_op(&dec);
	cr_assert_eq(args.write.open, 3);
	cr_assert_eq(args.write.offset, 12345);
	cr_assert_eq(args.write.pieces.count, 2);
	for (unsigned int i = 0; i < 2; i++) {
		cr_assert_eq(args.write.pieces.v[i].slot, 0);
		cr_assert_eq(args.write.pieces.v[i].size, 10 * (i + 1));
		cr_assert_eq(args.write.pieces.v[i].crc, 10 * (i + 1) + 1);
	}
	say(RF_MSG_REPLY, &again, 0);
	rpc_until(&rig, t->done);
	cr_assert(t->call.was_voided);
}

Test(rpc_resume, one_that_never_left_loses_it_too)
{
	struct rf_args args = { .code = RF_OP_WRITE };
	struct test_call *t;
	struct rf_dec dec;

	for (unsigned int i = 0; i < RPC_SLOTS; i++) {
		submit(make_mkdir(i, "x"));
		next();
	}
	args.write.pieces.count = 1;
	args.write.pieces.v[0] = (struct rf_piece){ 0x1001, 10, 11 };
	t = submit(make(RPC_SLOTS, &args, 1));
	lose_and_resume(2);
	rf_client_go_on(client);
	for (unsigned int i = 0; i < RPC_SLOTS; i++)
		say(RF_MSG_REPLY, next(), 0);
	cr_assert_eq(next()->return_count, 0);
	cr_assert_eq(first_op(&dec).write.pieces.v[0].slot, 0);
	say(RF_MSG_REPLY, &raw.recvs[seen - 1].header, 0);
	rpc_until(&rig, t->done);
	cr_assert(t->call.was_voided);
	cr_assert_not(t->call.was_resent);
}

Test(rpc_resume, is_lost_many_times_and_each_call_is_answered_once)
{
	struct rf_header first[RPC_SLOTS];

	for (unsigned int i = 0; i < RPC_SLOTS; i++) {
		submit(make_mkdir(i, "x"));
		first[i] = *next();
	}
	for (unsigned int round = 0; round < 5; round++) {
		lose_and_resume(10 + round);
		rf_client_go_on(client);
		for (unsigned int i = 0; i < RPC_SLOTS; i++)
			next();
	}
	for (unsigned int i = 0; i < RPC_SLOTS; i++) {
		first[i].epoch = 14;
		say(RF_MSG_REPLY, &first[i], 0);
	}
	for (unsigned int i = 0; i < RPC_SLOTS; i++) {
		rpc_until(&rig, calls[i].done);
		cr_assert_eq(calls[i].done, 1);
		cr_assert_eq(calls[i].err, 0);
	}
}

/* ---- order ------------ */

Test(rpc_resume, only_control_calls_pass_before_it_goes_on)
{
	struct test_call *control, *waiting;

	lose();
	waiting = submit(make_getattr(0));
	control = make_getattr(1);
	control->call.is_control = true;
	submit(control);
	resume(2);
	say(RF_MSG_REPLY, next(), 0);
	rpc_until(&rig, control->done);
	nothing_comes();
	cr_assert_eq(waiting->done, 0);
	rf_client_go_on(client);
	say(RF_MSG_REPLY, next(), 0);
	rpc_until(&rig, waiting->done);
}

Test(rpc_resume, nothing_overtakes_a_call_that_nobody_waits_for)
{
	struct test_call *left = submit(make_mkdir(0, "left")), *later;
	struct rf_header again;

	next();
	lose();
	left->call.holds_others = true;
	later = submit(make_mkdir(1, "later"));
	resume(2);
	rf_client_go_on(client);
	again = *next();
	nothing_comes();
	say(RF_MSG_REPLY, &again, 0);
	say(RF_MSG_REPLY, next(), 0);
	rpc_until(&rig, later->done);
	cr_assert_eq(left->done, 1);
}

Test(rpc_resume, lost_while_it_sets_up)
{
	struct test_call *control = make_getattr(1), *t;
	struct rf_header first;

	t = submit(make_mkdir(0, "a"));
	first = *next();
	control->call.is_control = true;
	lose_and_resume(2);
	submit(control);
	next();
	lose();
	/* It is as if it had not been sent. */
	cr_assert(rf_client_retract(client, &control->call));
	rf_pool_put(control->call.msg);
	cr_assert_not(rf_client_retract(client, &t->call));
	resume(3);
	rf_client_go_on(client);
	cr_assert_eq(next()->seq, first.seq);
	say(RF_MSG_REPLY, &raw.recvs[seen - 1].header, 0);
	rpc_until(&rig, t->done);
}

Test(rpc_resume, call_can_be_taken_back_while_there_is_no_connection)
{
	struct test_call *t;

	lose();
	t = submit(make_mkdir(0, "a"));
	cr_assert(rf_client_retract(client, &t->call));
	rf_pool_put(t->call.msg);
	resume(2);
	rf_client_go_on(client);
	nothing_comes();
}

/* Whoever takes a call back must know whether the server may have run it. */
Test(rpc_resume, a_call_that_is_taken_back_says_whether_it_was_sent)
{
	struct test_call *sent, *not_sent;

	sent = submit(make_getattr(0));
	next();
	cr_assert_not(rf_client_retract(client, &sent->call));
	lose();
	not_sent = submit(make_getattr(1));
	cr_assert(rf_client_retract(client, &sent->call));
	cr_assert(sent->call.was_sent);
	cr_assert(rf_client_retract(client, &not_sent->call));
	cr_assert_not(not_sent->call.was_sent);
	rf_pool_put(sent->call.msg);
	rf_pool_put(not_sent->call.msg);
	/* Used for another one it begins anew. */
	sent->call.msg = make_getattr(2)->call.msg;
	rf_client_submit(client, &sent->call);
	cr_assert_not(sent->call.was_sent);
	cr_assert(rf_client_retract(client, &sent->call));
	rf_pool_put(sent->call.msg);
}

/* ---- who answers ------------ */

Test(rpc_resume, nobody_listens)
{
	struct test_call *t = submit(make_mkdir(0, "a"));

	next();
	lose();
	rf_listener_close(rig.listener);
	rig.listener = NULL;
	reconnect();
	rpc_until(&rig, lost == 2);
	cr_assert_eq(lost_err, -ECONNREFUSED);
	cr_assert_eq(t->done, 0);
}

Test(rpc_resume, nobody_answers)
{
	lose();
	/* Each time it waits for twice as long, until set-up ends before. */
	for (unsigned int i = 0; i < 3; i++) {
		uint64_t start_ns = rf_loop_now_ns(rig.world), took_ms;

		listen_anew();
		reconnect();
		cr_assert_eq(next()->type, RF_MSG_RESUME);
		rpc_until(&rig, lost == 2 + i);
		cr_assert_eq(lost_err, i < 2 ? -EAGAIN : -ETIMEDOUT);
		took_ms = (rf_loop_now_ns(rig.world) - start_ns) / 1000000;
		cr_assert_geq(took_ms,
			      (uint64_t)(i < 2 ? ANSWER_MS << i : RPC_SETUP_MS));
	}
}

/* Before we give up, the server does: its time for a first message may be less. */
Test(rpc_resume, server_that_waited_in_vain_is_another_chance)
{
	lose();
	for (unsigned int i = 0; i < 2; i++) {
		listen_anew();
		reconnect();
		cr_assert_eq(next()->type, RF_MSG_RESUME);
		/* One that closes at once means it. */
		if (i == 1)
			rf_loop_advance(rig.world, UINT64_C(300000000));
		rf_ep_close(raw.ep);
		rpc_until(&rig, lost == 2 + i);
		cr_assert_eq(lost_err, i == 0 ? -ECONNRESET : -EAGAIN);
	}
}

Test(rpc_resume, first_message_that_is_overlooked_is_said_again)
{
	struct test_call *t = submit(make_mkdir(0, "a"));
	struct rf_header first = *next(), again;

	lose();
	listen_anew();
	reconnect();
	cr_assert_eq(next()->type, RF_MSG_RESUME);
	rpc_until(&rig, lost == 2);
	cr_assert_eq(lost_err, -EAGAIN);
	listen_anew();
	reconnect();
	answer_resume(RF_ST_OK, RPC_EPOCH, &rig.server_key);
	rpc_until(&rig, resumed == 1);
	/* The answer has stopped the clock. */
	rf_loop_advance(rig.world, RPC_SETUP_MS * UINT64_C(2000000));
	rf_client_go_on(client);
	again = *next();
	cr_assert_eq(again.seq, first.seq);
	say(RF_MSG_REPLY, &again, 0);
	rpc_until(&rig, t->done);
	cr_assert_eq(t->err, 0);
	cr_assert_eq(lost, 2);
}

Test(rpc_resume, session_that_is_over_ends_calls_and_a_new_one_begins)
{
	struct test_call *change = submit(make_mkdir(0, "a"));
	struct test_call *question = submit(make_getattr(1));
	struct rf_header again;

	next();
	next();
	question->resubmits = true;
	lose();
	listen_anew();
	reconnect();
	answer_resume(RF_ST_BAD_EPOCH, 0, &rig.server_key);
	rpc_until(&rig, lost == 2);
	cr_assert_eq(lost_err, -ESTALE);
	cr_assert_eq(change->done, 0);
	rf_client_forget(client);
	cr_assert_eq(change->err, -ESTALE);
	cr_assert(change->call.may_have_run);
	cr_assert_eq(question->err, -ESTALE);
	cr_assert_eq(question->done, 1);

	listen_anew();
	reconnect();
	welcome();
	rpc_until(&rig, opened == 2);
	nothing_comes();
	rf_client_go_on(client);
	again = *next();
	cr_assert_eq(again.seq, 1, "slots begin anew");
	say(RF_MSG_REPLY, &again, 0);
	rpc_until(&rig, question->done == 2);
	cr_assert_eq(question->err, 0);
	/* And that one can be resumed as well. */
	lose_and_resume(2);
}

Test(rpc_resume, end_of_the_session_counts_only_with_its_proof)
{
	struct rf_key other = { .is_set = true };
	struct test_call *t = submit(make_mkdir(0, "a"));

	next();
	lose();
	listen_anew();
	reconnect();
	answer_resume(RF_ST_BAD_EPOCH, 0, &other);
	rpc_until(&rig, lost == 2);
	cr_assert_eq(lost_err, -EKEYREJECTED);
	cr_assert_eq(t->done, 0);
	resume(2);
	rf_client_go_on(client);
	next();
}

Test(rpc_resume, server_without_the_secret_is_not_believed)
{
	lose();
	secret[0] ^= 1;
	listen_anew();
	reconnect();
	/* It can't check RESUME either, so it is not asked to here. */
	cr_assert_eq(next()->type, RF_MSG_RESUME);
	{
		struct rf_resume_reply reply = { .version = 1, .epoch = 2,
						 .lease_ms = 1 };
		struct rf_resume in;
		int size;

		memcpy(reply.server_uuid, store, RF_UUID_SIZE);
		cr_assert_eq(rf_resume_decode(bytes_of_last(),
					      raw.recvs[0].header.size, &in,
					      raw.proof), 0);
		size = rf_resume_reply_encode(message, &reply, &rig.server_key,
					      secret, raw.accept.nonce,
					      raw.proof);
		rpc_raw_send(&raw, message, (size_t)size);
	}
	rpc_until(&rig, lost == 2);
	cr_assert_eq(lost_err, -EKEYREJECTED);
	cr_assert_eq(resumed, 0);
}

Test(rpc_resume, another_store_is_told_apart)
{
	lose();
	store[0] ^= 1;
	listen_anew();
	reconnect();
	answer_resume(RF_ST_OK, 2, &rig.server_key);
	rpc_until(&rig, lost == 2);
	cr_assert_eq(lost_err, -EREMCHG);
	/* Also where a new session would begin. */
	rf_client_forget(client);
	listen_anew();
	reconnect();
	welcome();
	rpc_until(&rig, lost == 3);
	cr_assert_eq(lost_err, -EREMCHG);
	cr_assert_eq(opened, 1);
}

Test(rpc_resume, garbage_instead_of_the_answer_is_tried_again)
{
	lose();
	listen_anew();
	reconnect();
	cr_assert_eq(next()->type, RF_MSG_RESUME);
	memset(message, 0xff, 64);
	rpc_raw_send(&raw, message, 64);
	rpc_until(&rig, lost == 2);
	cr_assert_eq(lost_err, -EPROTO);
	resume(2);
}

/* ---- the lease, the end ------------ */

Test(rpc_resume, silent_session_says_something)
{
	struct test_call *t;

	cr_assert_eq(rf_client_keep(client, 1000), 0);
	nothing_comes();
	rf_loop_advance(rig.world, UINT64_C(2000000000));
	cr_assert_eq(rf_client_keep(client, 1000), 0);
	cr_assert_eq(next()->op_count, 0);
	/* It waits for the answer, and tells for how long. */
	rf_loop_advance(rig.world, UINT64_C(3000000000));
	rf_reactor_turn(rig.reactor, 0);
	cr_assert_eq(rf_client_keep(client, 1000), 3000);
	say(RF_MSG_REPLY, &raw.recvs[seen - 1].header, 0);
	rpc_settle(&rig);
	/* Any request will do instead. */
	t = submit(make_getattr(0));
	say(RF_MSG_REPLY, next(), 0);
	rpc_until(&rig, t->done);
	cr_assert_eq(rf_client_keep(client, 1000), 0);
	nothing_comes();
}

Test(rpc_resume, aborted_without_a_connection_ends_all_calls)
{
	struct test_call *sent = submit(make_mkdir(0, "a")), *waiting;

	next();
	lose();
	waiting = submit(make_getattr(1));
	rf_client_abort(client);
	cr_assert_eq(sent->done, 0, "done() from inside abort");
	rpc_until(&rig, closed);
	cr_assert_eq(closed_err, -ECANCELED);
	cr_assert_eq(sent->done, 1);
	cr_assert_neq(sent->err, 0);
	cr_assert_eq(waiting->err, -ECANCELED);
}

Test(rpc_resume, bye_without_a_connection_does_not_wait)
{
	lose();
	rf_client_bye(client);
	rpc_until(&rig, closed);
}

Test(rpc_resume, dropped_on_purpose_it_comes_back)
{
	struct test_call *t = submit(make_mkdir(0, "a"));
	struct rf_header first = *next();

	rf_client_drop(client, -ETIMEDOUT, "enough");
	rpc_until(&rig, lost == 1 && !raw.ep);
	cr_assert_eq(lost_err, -ETIMEDOUT);
	rf_client_drop(client, -ETIMEDOUT, "nothing to drop");
	resume(2);
	rf_client_go_on(client);
	cr_assert_eq(next()->seq, first.seq);
	say(RF_MSG_REPLY, &raw.recvs[seen - 1].header, 0);
	rpc_until(&rig, t->done);
}

Test(rpc_resume, broken_rule_of_the_server_is_a_loss)
{
	const struct rf_header nonsense = { .slot = 1, .seq = 77,
					    .epoch = RPC_EPOCH };

	say(RF_MSG_REPLY, &nonsense, 0);
	rpc_until(&rig, lost == 1);
	cr_assert_eq(lost_err, -EPROTO);
	resume(2);
	/* The former epoch's messages are no answers any more. */
	say(RF_MSG_REPLY, &nonsense, 0);
	rpc_until(&rig, lost == 2);
}

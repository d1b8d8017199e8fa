/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that do not keep the rules: raw messages against both ends. */
#include "tests/common/rpc_rig.h"

#include <errno.h>
#include <stdlib.h>

static struct rpc_rig rig;
static struct rpc_raw raw;
static uint8_t message[RPC_BUF_SIZE];

static void set_up(void)
{
	rpc_rig_open(&rig, 1);
}

static void tear_down(void)
{
	if (raw.ep)
		rpc_raw_close(&raw);
	rpc_rig_close(&rig);
}

TestSuite(rpc_raw, .init = set_up, .fini = tear_down, .timeout = 60);

static void send_request(uint16_t slot, uint32_t seq, uint64_t tag,
			 enum rpc_how how)
{
	rpc_raw_send(&raw, message,
		     rpc_raw_request(message, slot, seq, tag, how));
}

/* The server must find it bad, say so, and let go of everything. */
static void expect_breach(void)
{
	rpc_until(&rig, !raw.ep);
	rpc_until(&rig, rig.channels[0].is_closed);
	cr_assert_eq(rig.channels[0].err, -EPROTO);
	rpc_release_all(&rig);
	rpc_until(&rig, rpc_all_freed(&rig));
	cr_assert(rpc_pools_are_full(&rig));
}

static const struct rf_header *answer_number(unsigned int index)
{
	rpc_until(&rig, raw.come > index);
	return &raw.recvs[index].header;
}

/* ---- resends: answered once more, never run again ------------ */

Test(rpc_raw, answered_request_sent_again_is_answered_from_the_cache)
{
	const struct rf_header *first, *second;

	rpc_raw_open(&rig, &raw);
	send_request(1, 1, 5, RPC_AT_ONCE);
	first = answer_number(1);
	send_request(1, 1, 5, RPC_AT_ONCE);
	second = answer_number(2);
	cr_assert_eq(second->size, first->size);
	cr_assert_eq(memcmp(raw.recvs[1].buf->mem, raw.recvs[2].buf->mem,
			    first->size), 0);
	cr_assert_eq(rig.runs[5], 1);
	send_request(1, 2, 6, RPC_AT_ONCE);
	cr_assert_eq(answer_number(3)->seq, 2);
	cr_assert_eq(rig.runs[6], 1);
}

Test(rpc_raw, resend_brings_its_returns_only_once)
{
	struct rf_header header = { .type = RF_MSG_REQUEST, .seq = 1,
				    .epoch = RPC_EPOCH };
	struct rf_enc enc;
	int size;

	rpc_raw_open(&rig, &raw);
	rf_enc_init(&enc, message, RPC_MSG_MAX);
	rf_enc_return(&enc, 42);
	size = rf_enc_finish(&enc, &header);
	rpc_raw_send(&raw, message, (size_t)size);
	answer_number(1);
	rpc_raw_send(&raw, message, (size_t)size);
	answer_number(2);
	cr_assert_eq(rig.channels[0].returned_count, 1);
	cr_assert_eq(rig.channels[0].last_returned, 42);
}

Test(rpc_raw, running_request_sent_again_is_answered_once)
{
	rpc_raw_open(&rig, &raw);
	for (unsigned int i = 0; i < 10; i++)
		send_request(0, 1, 5, RPC_PARK);
	rpc_until(&rig, rig.parked_count == 1);
	rpc_settle(&rig);
	rpc_release_all(&rig);
	answer_number(1);
	rpc_settle(&rig);
	cr_assert_eq(raw.come, 2);
	cr_assert_eq(rig.runs[5], 1);
}

Test(rpc_raw, queued_request_sent_again_is_told_so_again)
{
	const struct rf_header *first, *second;

	rpc_raw_open(&rig, &raw);
	send_request(0, 1, 5, RPC_QUEUE);
	first = answer_number(1);
	cr_assert_eq(first->type, RF_MSG_QUEUED);
	send_request(0, 1, 5, RPC_QUEUE);
	second = answer_number(2);
	cr_assert_eq(second->type, RF_MSG_QUEUED);
	cr_assert_eq(second->ticket, first->ticket);
	cr_assert_eq(rig.runs[5], 1);
	rpc_release_all(&rig);
	cr_assert_eq(answer_number(3)->type, RF_MSG_FINISHED);
	cr_assert_eq(answer_number(3)->ticket, first->ticket);
}

/*
 * The answer may be here before the server knows that its Send is done; the
 * next request on the slot must not overwrite what is still lent.
 */
Test(rpc_raw, next_request_may_come_before_the_send_is_done)
{
	rpc_raw_open(&rig, &raw);
	rf_loop_set_reorder(rig.world, true);
	for (uint32_t seq = 1; seq <= 20; seq++) {
		uint32_t tag = seq + 100;
		struct rf_dec dec;
		struct rf_results results;

		send_request(0, seq, tag, RPC_AT_ONCE);
		answer_number(seq);
		cr_assert_eq(rf_dec_init(&dec, raw.recvs[seq].buf->mem,
					 raw.recvs[seq].header.size), 0);
		cr_assert_eq(rf_dec_results(&dec, &results), 1);
		cr_assert_eq(results.read.version, tag);
	}
}

Test(rpc_raw, waiting_tickets_never_exceed_what_the_client_can_receive)
{
	unsigned int queued = 0, replied = 0;

	rpc_raw_open(&rig, &raw);
	/* FINISHED is never acknowledged. */
	for (unsigned int i = 0; i < 8; i++) {
		send_request(0, i + 1, i, RPC_QUEUE_AT_ONCE);
		rpc_settle(&rig);
	}
	for (unsigned int i = 1; i < raw.come; i++) {
		queued += raw.recvs[i].header.type == RF_MSG_QUEUED;
		replied += raw.recvs[i].header.type == RF_MSG_REPLY;
	}
	cr_assert_eq(queued, RPC_SERVER_MSGS);
	cr_assert_eq(replied, 8 - RPC_SERVER_MSGS);
}

/* ---- breaches by a client ------------ */

Test(rpc_raw, sequence_that_skips_one_ends_it)
{
	rpc_raw_open(&rig, &raw);
	send_request(0, 2, 1, RPC_AT_ONCE);
	expect_breach();
	cr_assert_eq(rig.runs[1], 0);
}

Test(rpc_raw, sequence_zero_on_a_fresh_slot_ends_it)
{
	rpc_raw_open(&rig, &raw);
	send_request(0, 0, 1, RPC_AT_ONCE);
	expect_breach();
}

Test(rpc_raw, sequence_before_the_last_ends_it)
{
	rpc_raw_open(&rig, &raw);
	send_request(0, 1, 1, RPC_AT_ONCE);
	answer_number(1);
	send_request(0, 2, 2, RPC_AT_ONCE);
	answer_number(2);
	send_request(0, 1, 1, RPC_AT_ONCE);
	expect_breach();
	cr_assert_eq(rig.runs[1], 1);
}

Test(rpc_raw, new_request_before_the_answer_ends_it)
{
	rpc_raw_open(&rig, &raw);
	send_request(0, 1, 1, RPC_PARK);
	send_request(0, 2, 2, RPC_AT_ONCE);
	expect_breach();
	cr_assert_eq(rig.runs[2], 0);
}

Test(rpc_raw, slot_out_of_range_ends_it)
{
	rpc_raw_open(&rig, &raw);
	send_request(RPC_SLOTS + RPC_CONTROL_SLOTS, 1, 1, RPC_AT_ONCE);
	expect_breach();
}

static void send_changed(void (*change)(struct rf_header *header))
{
	size_t size = rpc_raw_request(message, 0, 1, 1, RPC_AT_ONCE);
	struct rf_header header;

	cr_assert_eq(rf_header_load(message, size, &header), 0);
	change(&header);
	rf_header_store(message, &header);
	rpc_raw_send(&raw, message, size);
}

static void change_epoch(struct rf_header *header)
{
	header->epoch++;
}

static void change_type(struct rf_header *header)
{
	header->type = RF_MSG_REPLY;
}

static void change_flags(struct rf_header *header)
{
	header->flags = 1;
}

static void change_channel(struct rf_header *header)
{
	header->channel = 1;
}

static void change_size(struct rf_header *header)
{
	header->size++;
}

static void change_count(struct rf_header *header)
{
	header->op_count++;
}

static void change_returns(struct rf_header *header)
{
	header->return_count = UINT16_MAX;
}

static void change_ack(struct rf_header *header)
{
	header->ack = 1;
}

static void change_ticket(struct rf_header *header)
{
	header->ticket = 1;
}

Test(rpc_raw, each_wrong_field_of_a_header_ends_it)
{
	static void (*const changes[])(struct rf_header *header) = {
		change_epoch, change_type, change_flags, change_channel,
		change_size, change_count, change_returns, change_ack,
		change_ticket,
	};

	for (unsigned int i = 0; i < RF_ARRAY_SIZE(changes); i++) {
		rpc_raw_open(&rig, &raw);
		send_changed(changes[i]);
		rpc_until(&rig, !raw.ep);
		rpc_until(&rig, rpc_all_freed(&rig));
		cr_assert_eq(rig.channels[i].err, -EPROTO, "change %u", i);
		cr_assert_eq(rig.run_count, 0, "change %u", i);
		cr_assert(rpc_pools_are_full(&rig));
	}
}

Test(rpc_raw, message_larger_than_agreed_ends_it)
{
	rpc_raw_open(&rig, &raw);
	rpc_raw_send(&raw, message, sizeof(message));
	rpc_until(&rig, !raw.ep);
	rpc_until(&rig, rpc_all_freed(&rig));
}

Test(rpc_raw, breach_with_requests_in_service_waits_for_their_answers)
{
	rpc_raw_open(&rig, &raw);
	send_request(0, 1, 1, RPC_PARK);
	send_request(1, 1, 2, RPC_QUEUE);
	send_request(2, 1, 3, RPC_PARK);
	rpc_until(&rig, rig.parked_count == 3);
	send_request(3, 9, 4, RPC_AT_ONCE);
	rpc_until(&rig, rig.channels[0].is_closed);
	rpc_settle(&rig);
	cr_assert_not_null(rig.channels[0].channel);
	expect_breach();
}

/* Any mixture of good, repeated and wrong requests: it ends, or goes on. */
static void send_at_random(void)
{
	static const uint32_t sequences[] = { 1, 1, 1, 1, 2, 2, 3, 0 };
	struct rf_header header;
	size_t size;

	size = rpc_raw_request(message, (uint16_t)(rand() % 6),
			       sequences[rand() % 8], (uint64_t)(rand() % 16),
			       (enum rpc_how)(rand() % 4));
	cr_assert_eq(rf_header_load(message, size, &header), 0);
	if (rand() % 12 == 0)
		header.ack = (uint32_t)(rand() % 3);
	if (rand() % 40 == 0)
		message[rand() % (int)size] ^= (uint8_t)(1 << rand() % 8);
	else
		rf_header_store(message, &header);
	rpc_raw_send(&raw, message, size);
}

Test(rpc_raw, no_sequence_of_messages_harms_the_server, .timeout = 120)
{
	unsigned int seed = rpc_seed();

	rf_loop_set_seed(rig.world, seed);
	rf_loop_set_reorder(rig.world, true);
	rf_log_set_level(RF_LOG_ERROR);	/* hundreds of breaches */
	for (unsigned int round = 0; round < 300; round++) {
		rig.channel_count = 0;
		memset(rig.channels, 0, sizeof(rig.channels));
		rpc_raw_open(&rig, &raw);
		for (unsigned int i = 0; i < 20 && raw.ep; i++) {
			send_at_random();
			if (rig.parked_count > 0 && rand() % 2)
				rpc_release(&rig, (unsigned int)rand() %
						  rig.parked_count);
		}
		rpc_raw_close(&raw);
		rpc_until(&rig, rig.channels[0].is_closed);
		rpc_release_all(&rig);
		rpc_until(&rig, rpc_all_freed(&rig));
		cr_assert(rpc_pools_are_full(&rig));
	}
}

/* ---- an answer that does not fit ------------ */

static void answer_too_much(struct rf_request *request)
{
	static uint8_t data[RPC_INLINE_MAX];
	struct rf_results results = { .code = RF_OP_READ };

	results.read.data.bytes = data;
	results.read.data.size = sizeof(data);
	for (unsigned int i = 0; i < 3; i++)
		rf_enc_results(&request->enc, &results);
	rf_request_answer(request, NULL, 0);
}

Test(rpc_raw, answer_that_does_not_fit_goes_without_results)
{
	rpc_raw_open(&rig, &raw);
	rig.on_request = answer_too_much;
	send_request(0, 1, 1, RPC_AT_ONCE);
	cr_assert_eq(answer_number(1)->type, RF_MSG_REPLY);
	cr_assert_eq(answer_number(1)->op_count, 0);
}

/* ---- breaches by a server ------------ */

static struct rpc_client client;
static struct rpc_call call, queued_call;

/* A client with one call on its way, and one that a raw server has QUEUED. */
static void open_client(void)
{
	struct rf_hello_reply reply = { .version = 1, .epoch = RPC_EPOCH,
					.lease_ms = 60000 };
	int size;

	rpc_client_init(&rig, &client);
	rpc_raw_listen(&rig, &raw);
	rpc_client_start(&client);
	rpc_until(&rig, raw.come == 1);
	reply.limits = client.config.hello.limits;
	cr_assert_eq(rf_hello_verify(raw.recvs[0].buf->mem,
				     raw.recvs[0].header.size, &rig.server_key,
				     raw.accept.nonce, raw.proof), 0);
	size = rf_hello_reply_encode(message, &reply, &rig.server_key,
				     raw.accept.nonce, raw.proof);
	rpc_raw_send(&raw, message, (size_t)size);
	rpc_until(&rig, client.opened);
	rpc_call_start(&call, &client, 1, RPC_AT_ONCE);
	rpc_call_start(&queued_call, &client, 2, RPC_AT_ONCE);
	rpc_until(&rig, raw.come == 3);
}

static void say(enum rf_msg_type type, uint16_t slot, uint32_t seq,
		uint32_t ticket)
{
	struct rf_header header = {
		.type = (uint8_t)type,
		.slot = slot,
		.seq = seq,
		.ticket = ticket,
		.epoch = RPC_EPOCH,
	};
	struct rf_enc enc;

	rf_enc_init(&enc, message, RPC_MSG_MAX);
	rpc_raw_send(&raw, message, (size_t)rf_enc_finish(&enc, &header));
}

static void expect_client_breach(void)
{
	rpc_until(&rig, client.closed);
	cr_assert_eq(client.err, -EPROTO);
	cr_assert_eq(call.done, 1);
	cr_assert_eq(queued_call.done, 1);
	cr_assert_eq(call.err, -EPROTO);
	rpc_until(&rig, !raw.ep);
	cr_assert(rpc_pools_are_full(&rig));
}

Test(rpc_raw, reply_on_a_free_slot_ends_it)
{
	open_client();
	say(RF_MSG_REPLY, 3, 1, 0);
	expect_client_breach();
}

Test(rpc_raw, reply_on_no_slot_ends_it)
{
	open_client();
	say(RF_MSG_REPLY, 99, 1, 0);
	expect_client_breach();
}

Test(rpc_raw, reply_of_another_sequence_ends_it)
{
	open_client();
	say(RF_MSG_REPLY, 0, 2, 0);
	expect_client_breach();
}

Test(rpc_raw, queued_without_a_ticket_ends_it)
{
	open_client();
	say(RF_MSG_QUEUED, 1, 1, 0);
	expect_client_breach();
}

Test(rpc_raw, ticket_used_twice_ends_it)
{
	open_client();
	say(RF_MSG_QUEUED, 1, 1, 5);
	rpc_until(&rig, queued_call.queued);
	say(RF_MSG_QUEUED, 0, 1, 5);
	expect_client_breach();
}

Test(rpc_raw, finished_for_an_unknown_ticket_ends_it)
{
	open_client();
	say(RF_MSG_QUEUED, 1, 1, 5);
	say(RF_MSG_FINISHED, 0, 0, 6);
	expect_client_breach();
}

Test(rpc_raw, message_of_a_type_that_a_server_does_not_send_ends_it)
{
	open_client();
	say(RF_MSG_REQUEST, 0, 1, 0);
	expect_client_breach();
}

Test(rpc_raw, garbage_from_a_server_ends_it)
{
	open_client();
	memset(message, 0xff, sizeof(message));
	rpc_raw_send(&raw, message, 100);
	expect_client_breach();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc_call.c - a client's calls: slots, sending, answers, returns
 *
 * Operation.  A call waits for a slot, is posted in one batch with its works,
 * and then for two things that come in either order: the Send is done, and the
 * answer is here.  QUEUED frees the slot early; FINISHED is found by ticket.
 *
 *	WAITING -> SENT -> (QUEUED ->) idle, done()
 *	           SENT -> LOST -> SENT	what changes something, in its slot
 *	           SENT, QUEUED -> WAITING	else, at a loss
 *
 * Our own call carries returns of grants and acknowledgements that found no
 * other request to go with, at the end of a turn, and BYE.
 *
 * Ownership.  A Receive that holds an answer is posted again after done(), then
 * the slot is free: never the other way round.
 *
 * When it fails.  A post that finds no room leaves the call first in its queue;
 * the hook at the end of each turn tries again.  An answer that fits no call
 * closes the connection.
 */
#include "rpc_impl.h"

#include <errno.h>
#include <inttypes.h>

enum call_state {
	CALL_IDLE,
	CALL_WAITING,
	CALL_SENT,
	CALL_QUEUED,
	CALL_LOST,	/* to be sent again, in its slot */
};

static unsigned int slot_count_of(const struct rf_client *client)
{
	return (unsigned int)client->limits.slots +
	       client->limits.control_slots;
}

/* ---- ending a call ------------ */

/* The call may be gone, or submitted again, when this returns. */
static void end_call(struct rf_client *client, struct rf_call *call, int err,
		     struct rf_dec *reply)
{
	RF_ASSERT(call->state != CALL_IDLE);
	call->state = CALL_IDLE;
	client->open_calls--;
	call->done(call, err, reply);
}

static void free_slot(struct rf_client *client, uint16_t slot)
{
	struct rf_slot_stack *stack =
		&client->free[slot < client->limits.slots ? RF_SLOT_NORMAL
							  : RF_SLOT_CONTROL];

	client->slots[slot].call = NULL;
	stack->slots[stack->count++] = slot;
	client->stats.slots_used--;
}

/* It is answered or QUEUED: others may pass. */
static void stop_holding(struct rf_client *client, struct rf_call *call)
{
	client->holding -= call->is_holding;
	call->is_holding = false;
}

static void server_msg_taken(struct rf_client *client)
{
	client->msgs_received++;
	client->stats.server_msgs++;
	/* Half of the credits are used: do not wait for the next request. */
	if (2 * (client->msgs_received - client->msgs_acked) >=
	    client->limits.server_msgs)
		rf_client_hook_on(client);
}

/* Both halves of a call are there: its Send is done, its answer has come. */
static void deliver(struct rf_call *call)
{
	struct rf_client_recv *recv = call->recv;
	struct rf_client *client = recv->client;
	bool was_queued = call->state == CALL_QUEUED;
	uint16_t slot = call->slot;
	struct rf_dec reply;

	/* It was checked when it came. */
	RF_ASSERT(rf_dec_init(&reply, recv->buf->mem, recv->op.size) == 0);
	if (was_queued)
		rf_list_remove(&call->link);
	call->recv = NULL;
	stop_holding(client, call);
	end_call(client, call, 0, &reply);
	rf_client_post_recv(recv);
	if (was_queued)
		server_msg_taken(client);
	else
		free_slot(client, slot);
	rf_client_pump(client);
	rf_client_check_bye(client);
}

static void call_sent(struct rf_op *op, int status)
{
	struct rf_call *call = rf_container_of(op, struct rf_call, op);
	struct rf_client *client = call->client;

	(void)status;	/* if it failed, closed() follows and ends the call */
	call->is_sent_done = true;
	if (call->is_answered)
		deliver(call);
	else
		rf_client_pump(client);
}

static void answered(struct rf_call *call, struct rf_client_recv *recv)
{
	call->is_answered = true;
	call->recv = recv;
	if (call->is_sent_done)
		deliver(call);
}

/* ---- what the server says ------------ */

static struct rf_call *find_in_slot(struct rf_client *client,
				    const struct rf_header *header)
{
	struct rf_call *call;

	if (header->slot >= slot_count_of(client))
		return NULL;
	call = client->slots[header->slot].call;
	if (!call || call->state != CALL_SENT || call->seq != header->seq ||
	    call->is_answered)
		return NULL;
	return call;
}

static struct rf_call *find_queued(struct rf_client *client, uint32_t ticket)
{
	struct rf_list *at;

	rf_list_for_each(at, &client->queued) {
		struct rf_call *call = rf_container_of(at, struct rf_call,
						       link);

		if (call->ticket == ticket && !call->is_answered)
			return call;
	}
	return NULL;
}

static void take_reply(struct rf_client_recv *recv,
		       const struct rf_header *header)
{
	struct rf_call *call = find_in_slot(recv->client, header);

	if (call && header->ticket == 0)
		answered(call, recv);
	else
		rf_client_fail(recv->client, -EPROTO, "REPLY on slot %u, "
			       "sequence %" PRIu32 ", to no request",
			       header->slot, header->seq);
}

static void take_queued(struct rf_client_recv *recv,
			const struct rf_header *header)
{
	struct rf_client *client = recv->client;
	struct rf_call *call = find_in_slot(client, header);

	if (!call || call->is_control || header->ticket == 0 ||
	    find_queued(client, header->ticket)) {
		rf_client_fail(client, -EPROTO, "QUEUED on slot %u, sequence "
			       "%" PRIu32 ", ticket %" PRIu32 ", to no request",
			       header->slot, header->seq, header->ticket);
		return;
	}
	stop_holding(client, call);
	call->ticket = header->ticket;
	call->state = CALL_QUEUED;
	rf_list_push(&client->queued, &call->link);
	client->stats.queued++;
	rf_client_post_recv(recv);
	free_slot(client, call->slot);
	if (call->queued)
		call->queued(call);
	rf_client_pump(client);
}

static void take_finished(struct rf_client_recv *recv,
			  const struct rf_header *header)
{
	struct rf_call *call = find_queued(recv->client, header->ticket);

	if (call)
		answered(call, recv);
	else
		rf_client_fail(recv->client, -EPROTO, "FINISHED for ticket "
			       "%" PRIu32 ", which is not QUEUED",
			       header->ticket);
}

void rf_client_take_message(struct rf_client_recv *recv)
{
	struct rf_client *client = recv->client;
	struct rf_dec dec;

	if (rf_dec_init(&dec, recv->buf->mem, recv->op.size) < 0) {
		rf_client_fail(client, -EPROTO, "malformed message of %" PRIu32
			       " bytes", recv->op.size);
		return;
	}
	if (dec.header.epoch != client->epoch) {
		rf_client_fail(client, -EPROTO, "message of epoch %" PRIu32
			       ", this one is %" PRIu32, dec.header.epoch,
			       client->epoch);
		return;
	}
	switch (dec.header.type) {
	case RF_MSG_REPLY:
		take_reply(recv, &dec.header);
		break;
	case RF_MSG_QUEUED:
		take_queued(recv, &dec.header);
		break;
	case RF_MSG_FINISHED:
		take_finished(recv, &dec.header);
		break;
	default:
		rf_client_fail(client, -EPROTO, "unexpected message of type %u",
			       dec.header.type);
	}
}

/* ---- sending ------------ */

static void complete_header(struct rf_client *client, struct rf_call *call)
{
	struct rf_header header;

	RF_ASSERT(call->msg_size <= client->limits.msg_max);
	RF_ASSERT(rf_header_load(call->msg->mem, call->msg_size, &header) == 0);
	header.type = RF_MSG_REQUEST;
	header.slot = call->slot;
	header.seq = call->seq;
	header.epoch = client->epoch;
	header.identity = call->identity;
	header.ack = client->msgs_received;
	header.ticket = 0;
	rf_header_store(call->msg->mem, &header);
}

static int post_call(struct rf_client *client, struct rf_call *call)
{
	const struct rf_sge sge = { call->msg->mem, call->msg_size,
				    client->config.mr };
	unsigned int count = call->work_count;

	RF_ASSERT(count < client->config.send_depth);
	if (count > 0)
		memcpy(client->batch, call->works,
		       count * sizeof(client->batch[0]));
	client->last_sent_ns = rf_reactor_now_ns(client->config.reactor);
	client->batch[count] = (struct rf_work){
		.code = call->inv_key ? RF_SEND_INV : RF_SEND,
		.op = &call->op,
		.sge = &sge,
		.sge_count = 1,
		.inv_key = call->inv_key,
	};
	return rf_ep_post(client->ep, client->batch, count + 1);
}

/* 0 means not sent. */
#define SENT_AS_USED (UINT64_C(1) << 63)

/* One store each: whoever reads it after our death finds all of it or nothing. */
static void note_sending(struct rf_client *client, const struct rf_call *call)
{
	struct rf_client_kept *kept = client->config.kept;

	/* A number that was noted, but not sent, is just left out. */
	if (kept)
		rf_store_kept(&kept->seqs[call->slot], call->seq);
	if (call->sent_as)
		rf_store_kept(call->sent_as, SENT_AS_USED |
			      (uint64_t)call->slot << 32 | call->seq);
}

/* Nothing has changed if it fails. */
static int send_call(struct rf_client *client, struct rf_call *call,
		     uint16_t slot)
{
	int err;

	call->slot = slot;
	call->seq = client->slots[slot].seq + 1;
	complete_header(client, call);
	note_sending(client, call);
	err = post_call(client, call);
	if (err) {
		if (call->sent_as)
			*call->sent_as = 0;
		return err;
	}
	client->slots[slot].seq++;
	client->slots[slot].call = call;
	client->msgs_acked = client->msgs_received;
	rf_list_remove(&call->link);
	call->state = CALL_SENT;
	call->was_sent = true;
	client->stats.calls++;
	if (++client->stats.slots_used > client->stats.slots_used_most)
		client->stats.slots_used_most = client->stats.slots_used;
	return 0;
}

/* Encoded for a former session, whose messages might be larger. */
static bool is_too_large(const struct rf_client *client,
			 const struct rf_call *call)
{
	return call->msg_size > client->limits.msg_max;
}

/* Send what has a slot to take; -EAGAIN: the fabric has no room for all. */
static int send_waiting(struct rf_client *client, enum rf_slot_kind kind)
{
	struct rf_list *waiting = &client->waiting[kind];
	struct rf_slot_stack *stack = &client->free[kind];
	int err = 0;

	while (!err && stack->count > 0 && !rf_list_is_empty(waiting)) {
		struct rf_call *call = rf_container_of(waiting->next,
						       struct rf_call, link);

		if (is_too_large(client, call)) {
			rf_list_remove(&call->link);
			end_call(client, call, -EMSGSIZE, NULL);
			continue;
		}
		err = send_call(client, call, stack->slots[stack->count - 1]);
		if (!err)
			stack->count--;
	}
	return err;
}

/* On its slot, with its number. */
static int send_again(struct rf_client *client, struct rf_call *call)
{
	int err;

	complete_header(client, call);
	call->is_sent_done = call->is_answered = false;
	err = post_call(client, call);
	if (err)
		return err;
	client->msgs_acked = client->msgs_received;
	client->lost_calls--;
	call->state = CALL_SENT;
	call->was_resent = true;
	call->is_holding = call->holds_others;
	client->holding += call->is_holding;
	client->stats.calls++;
	client->stats.resent++;
	return 0;
}

static int send_lost(struct rf_client *client)
{
	int err = 0;

	for (unsigned int i = 0;
	     !err && client->lost_calls > 0 && i < slot_count_of(client); i++) {
		struct rf_call *call = client->slots[i].call;

		if (call && call->state == CALL_LOST)
			err = send_again(client, call);
	}
	return err;
}

void rf_client_pump(struct rf_client *client)
{
	int err;

	if (client->is_closing || client->state < RF_CLIENT_RESUMED)
		return;
	err = send_waiting(client, RF_SLOT_CONTROL);
	if (!err && client->state >= RF_CLIENT_OPEN)
		err = send_lost(client);
	if (!err && client->state >= RF_CLIENT_OPEN && client->holding == 0)
		err = send_waiting(client, RF_SLOT_NORMAL);
	if (err == -EAGAIN)
		rf_client_hook_on(client);
	else if (err && err != -ENOTCONN)	/* that: closed() follows */
		rf_client_fail(client, err, "cannot send: %s", strerror(-err));
}

/* True if a call has a slot but found no room in the fabric's queue. */
static bool has_backlog(const struct rf_client *client)
{
	bool normal_go = client->holding == 0;

	for (unsigned int kind = 0; kind < RF_SLOT_KINDS; kind++)
		if (client->free[kind].count > 0 &&
		    (kind == RF_SLOT_CONTROL || normal_go) &&
		    !rf_list_is_empty(&client->waiting[kind]))
			return true;
	return client->lost_calls > 0;
}

static void begin_call(struct rf_client *client, struct rf_call *call)
{
	RF_ASSERT(call->done && call->state == CALL_IDLE);
	call->client = client;
	call->op.done = call_sent;
	call->ticket = 0;
	call->is_sent_done = call->is_answered = call->is_holding = false;
	call->was_resent = call->was_voided = call->may_have_run = false;
	call->was_sent = false;
	client->open_calls++;
}

void rf_client_submit(struct rf_client *client, struct rf_call *call)
{
	begin_call(client, call);
	call->state = CALL_WAITING;
	rf_list_push(&client->waiting[call->is_control ? RF_SLOT_CONTROL
						       : RF_SLOT_NORMAL],
		     &call->link);
	rf_client_pump(client);
	if (call->state == CALL_WAITING)
		client->stats.waits_for_slot++;
}

/* False: the slot is not free. */
static bool take_slot(struct rf_client *client, uint16_t slot)
{
	struct rf_slot_stack *stack = &client->free[RF_SLOT_NORMAL];

	for (unsigned int i = 0; i < stack->count; i++) {
		if (stack->slots[i] != slot)
			continue;
		stack->slots[i] = stack->slots[--stack->count];
		client->stats.slots_used++;
		return true;
	}
	return false;
}

bool rf_client_submit_again(struct rf_client *client, struct rf_call *call,
			    uint64_t sent_as)
{
	uint16_t slot = (uint16_t)(sent_as >> 32);
	uint32_t seq = (uint32_t)sent_as;

	if (client->state >= RF_CLIENT_RESUMED || !client->has_session ||
	    slot >= client->limits.slots || client->slots[slot].seq != seq ||
	    is_too_large(client, call) || !take_slot(client, slot))
		return false;
	begin_call(client, call);
	call->slot = slot;
	call->seq = seq;
	call->state = CALL_LOST;
	call->is_sent_done = call->was_sent = true;
	client->slots[slot].call = call;
	client->lost_calls++;
	rf_call_strip(call);
	return true;
}

bool rf_client_retract(struct rf_client *client, struct rf_call *call)
{
	const uint8_t *returns = call->msg->mem + RF_HEADER_SIZE;
	struct rf_header header;

	if (call->state != CALL_WAITING)
		return false;
	rf_list_remove(&call->link);
	call->state = CALL_IDLE;
	client->open_calls--;
	RF_ASSERT(rf_header_load(call->msg->mem, call->msg_size, &header) == 0);
	for (unsigned int i = 0; i < header.return_count; i++)
		rf_client_return_grant(client, rf_load_u32(returns + 4 * i));
	rf_client_check_bye(client);
	return true;
}

int rf_client_post(struct rf_client *client, const struct rf_work *works,
		   unsigned int count)
{
	if (client->is_closing || client->state < RF_CLIENT_OPEN)
		return -ENOTCONN;
	if (has_backlog(client)) {
		rf_client_pump(client);
		if (has_backlog(client))
			return -EAGAIN;
	}
	return rf_ep_post(client->ep, works, count);
}

/* ---- returns and acknowledgements ------------ */

void rf_client_return_grant(struct rf_client *client, uint32_t grant_id)
{
	if (client->is_closing || client->state < RF_CLIENT_RESUMED)
		return;		/* they end with the connection */
	if (client->return_count == RF_CLIENT_RETURNS_MAX) {
		rf_client_fail(client, -EPROTO, "more than %u grants to return: "
			       "the server does not answer",
			       RF_CLIENT_RETURNS_MAX);
		return;
	}
	client->returns[client->return_count++] = grant_id;
	client->stats.returns++;
	rf_client_hook_on(client);
}

static unsigned int take_returns(struct rf_client *client, struct rf_enc *enc,
				 unsigned int most)
{
	unsigned int count = 0;

	while (count < most && client->return_count > 0 &&
	       enc->return_count < RF_RETURNS_MAX) {
		rf_enc_return(enc, client->returns[--client->return_count]);
		count++;
	}
	return count;
}

unsigned int rf_client_take_returns(struct rf_client *client,
				    struct rf_enc *enc)
{
	return take_returns(client, enc, RF_CLIENT_TAKE_MAX);
}

static bool owes_ack(const struct rf_client *client)
{
	uint32_t unacked = client->msgs_received - client->msgs_acked;

	return unacked > 0 && 2 * unacked >= client->limits.server_msgs;
}

static void returns_answered(struct rf_call *call, int err,
			     struct rf_dec *reply)
{
	struct rf_client *client = rf_container_of(call, struct rf_client,
						   own_call);

	(void)reply;
	client->own_is_busy = false;
	/* What came up while it was on its way. */
	if (!err && (client->return_count > 0 || owes_ack(client)))
		rf_client_hook_on(client);
}

void rf_client_send_returns(struct rf_client *client)
{
	struct rf_header header = { .type = RF_MSG_REQUEST };
	struct rf_call *call = &client->own_call;
	struct rf_enc enc;

	rf_enc_init(&enc, client->own_buf->mem, client->own_buf->size);
	take_returns(client, &enc, RF_RETURNS_MAX);
	call->msg = client->own_buf;
	call->msg_size = (uint32_t)rf_enc_finish(&enc, &header);
	call->is_control = true;
	call->done = returns_answered;
	client->own_is_busy = true;
	client->own_sent_ns = rf_reactor_now_ns(client->config.reactor);
	rf_client_submit(client, call);
}

/* At the end of a turn; on until there is nothing left to retry. */
static void end_of_turn(struct rf_hook *hook)
{
	struct rf_client *client = rf_container_of(hook, struct rf_client,
						   hook);

	client->is_hooked = false;
	rf_hook_remove(client->config.reactor, hook);
	if (client->is_closing || client->state < RF_CLIENT_RESUMED ||
	    client->state > RF_CLIENT_OPEN)
		return;
	rf_client_pump(client);
	if (!client->own_is_busy &&
	    (client->return_count > 0 || owes_ack(client)))
		rf_client_send_returns(client);
	rf_client_check_bye(client);
}

void rf_client_hook_on(struct rf_client *client)
{
	if (client->is_hooked || client->is_closing ||
	    client->state == RF_CLIENT_AWAY)
		return;
	client->is_hooked = true;
	rf_hook_add(client->config.reactor, &client->hook);
}

/* ---- beginning and end ------------ */

void rf_client_init_calls(struct rf_client *client)
{
	for (unsigned int kind = 0; kind < RF_SLOT_KINDS; kind++)
		rf_list_init(&client->waiting[kind]);
	rf_list_init(&client->queued);
	client->hook.run = end_of_turn;
}

/* ---- from one connection to the next ------------ */

/* In front of those that have not been sent yet. */
static void wait_again(struct rf_client *client, struct rf_call *call)
{
	struct rf_list *waiting =
		&client->waiting[call->is_control ? RF_SLOT_CONTROL
						  : RF_SLOT_NORMAL];

	call->state = CALL_WAITING;
	call->ticket = 0;
	call->is_sent_done = call->is_answered = false;
	rf_list_push(waiting->next, &call->link);
}

static void lose_in_slot(struct rf_client *client, uint16_t slot)
{
	struct rf_call *call = client->slots[slot].call;

	RF_ASSERT(call->is_sent_done && !call->is_answered);
	call->is_holding = false;
	if (call == &client->own_call) {
		free_slot(client, slot);
		end_call(client, call, -ECONNRESET, NULL);
	} else if (!call->is_control && rf_call_modifies(call)) {
		call->state = CALL_LOST;
		client->lost_calls++;
	} else {
		free_slot(client, slot);
		wait_again(client, call);
	}
}

static void strip_waiting(struct rf_list *waiting)
{
	struct rf_list *at;

	rf_list_for_each(at, waiting)
		rf_call_strip(rf_container_of(at, struct rf_call, link));
}

void rf_client_lose_calls(struct rf_client *client)
{
	struct rf_list *item;

	client->holding = client->lost_calls = 0;
	/* It only says what this connection would like to hear. */
	if (client->own_call.state == CALL_WAITING) {
		rf_list_remove(&client->own_call.link);
		end_call(client, &client->own_call, -ECONNRESET, NULL);
	}
	while (!rf_list_is_empty(&client->queued)) {
		item = client->queued.prev;	/* so that they keep their order */
		rf_list_remove(item);
		wait_again(client, rf_container_of(item, struct rf_call, link));
	}
	for (unsigned int i = slot_count_of(client); i-- > 0;)
		if (client->slots[i].call)
			lose_in_slot(client, (uint16_t)i);
	for (unsigned int i = 0; i < slot_count_of(client); i++)
		if (client->slots[i].call)
			rf_call_strip(client->slots[i].call);
	for (unsigned int kind = 0; kind < RF_SLOT_KINDS; kind++)
		strip_waiting(&client->waiting[kind]);
}

/* ---- the end ------------ */

static struct rf_list *pop_waiting(struct rf_client *client)
{
	struct rf_list *item = rf_list_pop(&client->waiting[RF_SLOT_CONTROL]);

	return item ? item : rf_list_pop(&client->waiting[RF_SLOT_NORMAL]);
}

void rf_client_forget_calls(struct rf_client *client)
{
	struct rf_list old, *item;

	rf_list_init(&old);
	for (unsigned int i = 0; i < slot_count_of(client); i++) {
		struct rf_call *call = client->slots[i].call;

		client->slots[i].seq = 0;
		if (!call)
			continue;
		call->may_have_run = true;
		free_slot(client, (uint16_t)i);
		rf_list_push(&old, &call->link);
	}
	client->lost_calls = 0;
	while ((item = pop_waiting(client)))
		rf_list_push(&old, item);
	while ((item = rf_list_pop(&old)))
		end_call(client, rf_container_of(item, struct rf_call, link),
			 -ESTALE, NULL);
}

void rf_client_end_calls(struct rf_client *client, int err)
{
	struct rf_list *item;

	for (unsigned int i = 0; i < slot_count_of(client); i++) {
		struct rf_call *call = client->slots[i].call;

		client->slots[i].call = NULL;
		if (call) {
			RF_ASSERT(call->is_sent_done);
			end_call(client, call, err, NULL);
		}
	}
	while ((item = rf_list_pop(&client->queued)))
		end_call(client, rf_container_of(item, struct rf_call, link),
			 err, NULL);
	/* Also what done() has submitted meanwhile. */
	while ((item = pop_waiting(client)))
		end_call(client, rf_container_of(item, struct rf_call, link),
			 -ECANCELED, NULL);
}

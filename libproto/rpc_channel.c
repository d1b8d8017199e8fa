/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc_channel.c - a session's connection at the server: requests in, the end
 *
 * Operation.  Each Receive that is done is one message; its header says which
 * slot it is for, and the slot's state whether it is new, a duplicate, or a
 * breach.  A new request takes the message's buffer with it; rpc_answer.c posts
 * the Receive again before the answer leaves.  A new request may come while the
 * Send of the slot's last answer is not done yet (the fabric promises no order
 * between the two): then it waits for that, as the answer's buffer is lent.
 *
 * Ownership.  When the endpoint has closed, the channel lives until the server
 * has answered its last request; a task frees it, so that no function of rpc.h
 * frees what its caller still holds.
 *
 * When it fails.  Every breach closes the connection, with one line in the log.
 */
#include "rpc_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void close_because(struct rf_channel *channel, int err, const char *text)
{
	channel->is_closing = true;
	channel->err = err;
	rf_greeter_fail(channel->greeter, err, text);
}

void rf_channel_fail(struct rf_channel *channel, const char *format, ...)
{
	char text[RF_REASON_MAX];
	va_list args;

	if (channel->is_closing)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	channel->is_at_fault = true;
	close_because(channel, -EPROTO, text);
}

void rf_channel_close(struct rf_channel *channel)
{
	if (channel->is_closing)
		return;
	channel->is_closing = true;
	rf_ep_close(channel->greeter->ep);
}

bool rf_channel_is_at_fault(const struct rf_channel *channel)
{
	return channel->is_at_fault;
}

int rf_channel_post_recv(struct rf_channel_recv *recv)
{
	struct rf_channel *channel = recv->channel;
	const struct rf_recv post = {
		.op = &recv->op,
		.sge = { recv->buf->mem, channel->limits.msg_max,
			 channel->config.mr },
	};

	if (!channel->greeter)
		return -ENOTCONN;
	return rf_ep_post_recv(channel->greeter->ep, &post);
}

/* ---- receiving ------------ */

static struct rf_served *take_served(struct rf_channel *channel)
{
	struct rf_list *item = rf_list_pop(&channel->free_served);

	/* There is one for each slot and each ticket. */
	RF_ASSERT(item);
	return rf_container_of(item, struct rf_served, link);
}

static void give_returns(struct rf_channel *channel, const struct rf_dec *dec)
{
	for (unsigned int i = 0; i < dec->header.return_count; i++)
		channel->events.returned(channel, rf_dec_return(dec, i));
}

/* One that waited for a Send may have been overtaken by one that says more. */
static void take_ack(struct rf_channel *channel, uint32_t ack)
{
	uint32_t unacked = channel->msgs_sent - channel->msgs_acked;

	if (ack - channel->msgs_acked <= unacked)
		channel->msgs_acked = ack;
}

void rf_channel_start(struct rf_channel *channel, struct rf_channel_slot *slot,
		      struct rf_channel_recv *recv)
{
	struct rf_served *served = take_served(channel);
	struct rf_request *request = &served->request;

	/* It was checked when it came. */
	RF_ASSERT(rf_dec_init(&request->dec, recv->buf->mem, recv->op.size)
		  == 0);
	rf_enc_init(&request->enc, slot->out.buf->mem,
		    channel->limits.msg_max);
	request->inv_key = recv->op.inv_key;
	request->ticket = 0;
	request->context = NULL;
	request->slot = request->dec.header.slot;
	request->seq = request->dec.header.seq;
	request->msg_buf = recv->buf;
	request->reply_buf = slot->out.buf;
	request->state = RF_SERVED_RUNNING;
	recv->buf = NULL;
	served->recv = recv;
	served->work_count = 0;
	slot->seq = request->seq;
	slot->running = served;
	channel->running_count++;
	take_ack(channel, request->dec.header.ack);
	give_returns(channel, &request->dec);
	if (request->dec.header.op_count == 0) {
		rf_channel_answer_empty(channel, served);
		return;
	}
	channel->stats.requests++;
	channel->events.request(channel, request);
}

/* NULL, and failed, if the message breaks a rule that needs no state. */
static struct rf_channel_slot *check_message(struct rf_channel_recv *recv,
					     struct rf_dec *dec)
{
	struct rf_channel *channel = recv->channel;
	const struct rf_header *header = &dec->header;

	if (rf_dec_init(dec, recv->buf->mem, recv->op.size) < 0)
		rf_channel_fail(channel, "malformed message of %" PRIu32
				" bytes", recv->op.size);
	else if (header->type != RF_MSG_REQUEST || header->ticket != 0)
		rf_channel_fail(channel, "message of type %u where only "
				"requests may come", header->type);
	else if (header->epoch != channel->epoch)
		rf_channel_fail(channel, "request of epoch %" PRIu32 ", this "
				"one is %" PRIu32, header->epoch,
				channel->epoch);
	else if (header->slot >= channel->slot_count)
		rf_channel_fail(channel, "request on slot %u of %u",
				header->slot, channel->slot_count);
	else if (channel->msgs_sent - header->ack > channel->limits.server_msgs &&
		 header->seq != channel->slots[header->slot].seq)
		rf_channel_fail(channel, "request acknowledges server messages "
				"that were not sent");
	else
		return &channel->slots[header->slot];
	return NULL;
}

static void take_duplicate(struct rf_channel *channel,
			   struct rf_channel_slot *slot,
			   struct rf_channel_recv *recv)
{
	rf_channel_post_recv(recv);
	/* While it runs, or waits to be sent, the one answer is enough. */
	if (slot->running)
		return;
	if (slot->out.state == RF_OUT_IDLE)
		rf_channel_replay(channel, slot);
	else if (slot->out.state == RF_OUT_POSTED)
		slot->wants_replay = true;
}

static void take_new(struct rf_channel *channel, struct rf_channel_slot *slot,
		     struct rf_channel_recv *recv)
{
	bool is_answered = !slot->running && (slot->out.state == RF_OUT_IDLE ||
					      slot->out.state == RF_OUT_POSTED);

	if (slot->pending) {
		rf_channel_post_recv(recv);	/* a duplicate of that one */
		return;
	}
	if (!is_answered) {
		rf_channel_fail(channel, "new request on slot %u before the "
				"last was answered",
				(unsigned int)(slot - channel->slots));
		return;
	}
	if (slot->out.state == RF_OUT_POSTED)
		slot->pending = recv;
	else
		rf_channel_start(channel, slot, recv);
}

/* The slot's first request after RESUME: as if its seq had been the next. */
static void take_first(struct rf_channel *channel, struct rf_channel_slot *slot,
		       struct rf_channel_recv *recv, uint32_t seq)
{
	bool has_kept = slot->out.size > 0;
	bool is_resent = has_kept && seq == slot->seq;

	if (has_kept && seq - slot->seq > INT32_MAX) {
		rf_channel_fail(channel, "request with sequence %" PRIu32
				" on slot %u, which is at %" PRIu32
				" since before RESUME", seq,
				(unsigned int)(slot - channel->slots),
				slot->seq);
		return;
	}
	slot->is_fresh = false;
	if (has_kept && channel->events.resent)
		channel->events.resent(channel,
				       (uint16_t)(slot - channel->slots),
				       is_resent);
	if (is_resent) {
		take_duplicate(channel, slot, recv);
		return;
	}
	slot->seq = seq - 1;
	take_new(channel, slot, recv);
}

static void received(struct rf_op *op, int status)
{
	struct rf_channel_recv *recv = rf_container_of(op,
						       struct rf_channel_recv,
						       op);
	struct rf_channel *channel = recv->channel;
	struct rf_channel_slot *slot;
	struct rf_dec dec;

	if (status || channel->is_closing)
		return;
	channel->stats.received++;
	slot = check_message(recv, &dec);
	if (!slot)
		return;
	if (slot->is_fresh)
		take_first(channel, slot, recv, dec.header.seq);
	else if (dec.header.seq == slot->seq + 1)
		take_new(channel, slot, recv);
	else if (dec.header.seq == slot->seq &&
		 (slot->running || slot->out.size > 0))
		take_duplicate(channel, slot, recv);
	else
		rf_channel_fail(channel, "request with sequence %" PRIu32
				" on slot %u, which is at %" PRIu32,
				dec.header.seq, dec.header.slot, slot->seq);
}

/* ---- the end ------------ */

/* A running request still writes to its slot's buffer, and will put it. */
static void leave_to_running(struct rf_channel *channel)
{
	for (unsigned int i = 0; i < channel->slot_count; i++)
		if (channel->slots[i].running)
			channel->slots[i].out.buf = NULL;
}

/* A put wakes who waits for it, so each is taken out before. */
static void put_buffers(struct rf_channel *channel)
{
	for (unsigned int i = 0; i < channel->slot_count; i++) {
		struct rf_buf *recv_buf = channel->recvs[i].buf;
		struct rf_buf *out_buf = channel->slots[i].out.buf;

		channel->recvs[i].buf = NULL;
		channel->slots[i].out.buf = NULL;
		if (recv_buf)
			rf_pool_put(recv_buf);
		if (out_buf)
			rf_pool_put(out_buf);
	}
}

static void free_channel(struct rf_channel *channel)
{
	free(channel->recvs);
	free(channel->slots);
	free(channel->served);
	free(channel->batch);
	free(channel->batch_sges);
	free(channel);
}

static void end_channel(struct rf_task *task)
{
	struct rf_channel *channel = rf_container_of(task, struct rf_channel,
						     free_task);

	channel->events.freed(channel);
	free_channel(channel);
}

void rf_channel_check_end(struct rf_channel *channel)
{
	if (channel->greeter || channel->running_count > 0 ||
	    channel->is_ending)
		return;
	channel->is_ending = true;
	channel->free_task.run = end_channel;
	rf_reactor_post(channel->config.reactor, &channel->free_task);
}

void rf_channel_ep_closed(struct rf_channel *channel, int reason)
{
	int err = channel->err ? channel->err : reason;

	channel->is_closing = true;
	channel->greeter = NULL;
	rf_channel_hook_off(channel);
	leave_to_running(channel);
	/* The server learns it before a put wakes one of its requests. */
	channel->events.closed(channel, err);
	rf_channel_drop_outs(channel);
	put_buffers(channel);
	rf_channel_check_end(channel);
}

/* ---- the beginning ------------ */

static int make_tables(struct rf_channel *channel)
{
	unsigned int slot_count = channel->slot_count;

	channel->recvs = calloc(slot_count, sizeof(channel->recvs[0]));
	channel->slots = calloc(slot_count, sizeof(channel->slots[0]));
	channel->served = calloc(channel->served_count,
				 sizeof(channel->served[0]));
	channel->batch = calloc(channel->config.send_depth,
				sizeof(channel->batch[0]));
	channel->batch_sges = calloc(channel->config.send_depth,
				     sizeof(channel->batch_sges[0]));
	return channel->recvs && channel->slots && channel->served &&
	       channel->batch && channel->batch_sges ? 0 : -ENOMEM;
}

static int get_buffers(struct rf_channel *channel)
{
	struct rf_pool *pool = channel->config.pool;

	for (unsigned int i = 0; i < channel->slot_count; i++) {
		struct rf_channel_recv *recv = &channel->recvs[i];
		struct rf_out *out = &channel->slots[i].out;

		recv->channel = channel;
		recv->op.done = received;
		recv->buf = rf_pool_get(pool, channel->limits.msg_max);
		out->buf = rf_pool_get(pool, channel->limits.msg_max);
		if (!recv->buf || !out->buf)
			return -ENOMEM;
	}
	return 0;
}

/*
 * If one fails, earlier ones may be posted: then the connection must close.  That
 * is no fault of the client, whose session goes on over the next one.
 */
static int post_recvs(struct rf_channel *channel)
{
	char text[RF_REASON_MAX];

	for (unsigned int i = 0; i < channel->slot_count; i++) {
		int err = rf_channel_post_recv(&channel->recvs[i]);

		if (!err)
			continue;
		if (i == 0)
			return err;
		snprintf(text, sizeof(text), "can't post receives: %s",
			 strerror(-err));
		close_because(channel, err, text);
		break;
	}
	return 0;
}

static struct rf_channel *init_channel(struct rf_greeter *greeter,
				       const struct rf_hello_limits *limits,
				       uint32_t epoch)
{
	struct rf_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return NULL;
	channel->config = greeter->config;
	channel->greeter = greeter;
	memcpy(channel->peer, greeter->peer, sizeof(channel->peer));
	channel->limits = *limits;
	channel->epoch = epoch;
	channel->slot_count = (unsigned int)limits->slots +
			      limits->control_slots;
	channel->served_count = channel->slot_count + limits->server_msgs;
	rf_list_init(&channel->free_served);
	return channel;
}

int rf_channel_create(struct rf_greeter *greeter,
		      const struct rf_hello_limits *limits, uint32_t epoch,
		      const struct rf_channel_events *events, void *context,
		      struct rf_channel **out)
{
	struct rf_channel *channel = init_channel(greeter, limits, epoch);
	int err;

	if (!channel)
		return -ENOMEM;
	channel->events = *events;
	channel->context = context;
	err = make_tables(channel);
	if (err)
		goto fail;
	rf_channel_init_outs(channel);
	err = get_buffers(channel);
	if (!err)
		err = post_recvs(channel);
	if (err) {
		put_buffers(channel);
		goto fail;
	}
	*out = channel;
	return 0;
fail:
	free_channel(channel);
	return err;
}

/* ---- what it is ------------ */

void *rf_channel_context(const struct rf_channel *channel)
{
	return channel->context;
}

struct rf_ep *rf_channel_ep(const struct rf_channel *channel)
{
	return channel->greeter ? channel->greeter->ep : NULL;
}

unsigned int rf_channel_requests_max(const struct rf_channel *channel)
{
	return channel->served_count;
}

void rf_channel_stats(const struct rf_channel *channel,
		      struct rf_channel_stats *out)
{
	*out = channel->stats;
	out->running = channel->running_count;
	out->unacknowledged = channel->msgs_sent - channel->msgs_acked;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc_answer.c - answering requests: REPLY, QUEUED and FINISHED, replays
 *
 * Operation.  What goes to the client is a struct rf_out, one in each slot (its
 * last answer) and one in each request (its FINISHED):
 *
 *	IDLE -> HELD -> READY -> POSTED -> IDLE
 *
 * Answers are HELD until the flush.  Replays, QUEUED and answers to empty
 * requests are READY at once: no record of an effect has to be written before
 * them.  READY ones are posted in as few batches as there is room for.
 *
 * Credits.  A REPLY or QUEUED finds the Receive that the client posted for its
 * slot.  FINISHED takes one of server_msgs; a request is QUEUED only while there
 * is one for each that is not yet FINISHED, so FINISHED never waits for it.
 *
 * Ownership.  A slot's buffer is its replay cache and stays with it.  A request
 * that is QUEUED keeps the buffers it began with (its message, and the results
 * so far); slot and Receive get new ones from the pool, and the request's go
 * back there in the end.
 *
 * When it fails.  A post without room is tried again when one of ours is done,
 * and at the end of each turn.  After the endpoint's end all is dropped.
 */
#include "rpc_impl.h"

#include <errno.h>

/* ---- posting ------------ */

static void release_served(struct rf_channel *channel, struct rf_served *served)
{
	if (served->request.ticket != 0) {
		/* Of a QUEUED one, which has its buffer to itself. */
		rf_pool_put(served->request.reply_buf);
		channel->ticket_count--;
	}
	served->request.state = RF_SERVED_FREE;
	served->request.reply_buf = NULL;
	rf_list_push(&channel->free_served, &served->link);
}

static void finish_out(struct rf_out *out)
{
	struct rf_served *served = out->served;

	out->state = RF_OUT_IDLE;
	out->served = NULL;
	if (served)
		release_served(out->channel, served);
}

/* Add to the batch; returns how many works it has then. */
static unsigned int add_to_batch(struct rf_channel *channel, unsigned int count,
				 struct rf_out *out)
{
	struct rf_served *served = out->served;

	if (served && served->work_count > 0) {
		memcpy(&channel->batch[count], served->works,
		       served->work_count * sizeof(served->works[0]));
		count += served->work_count;
	}
	channel->batch_sges[count] = (struct rf_sge){
		out->buf->mem, out->size, channel->config.mr,
	};
	channel->batch[count] = (struct rf_work){
		.code = RF_SEND,
		.op = &out->op,
		.sge = &channel->batch_sges[count],
		.sge_count = 1,
	};
	return count + 1;
}

static unsigned int works_of(const struct rf_out *out)
{
	return 1 + (out->served ? out->served->work_count : 0);
}

/* Post the first READY ones, at most out_max of them. */
static int post_batch(struct rf_channel *channel, unsigned int out_max)
{
	unsigned int work_count = 0, out_count = 0;
	struct rf_list *at;
	int err;

	rf_list_for_each(at, &channel->ready) {
		struct rf_out *out = rf_container_of(at, struct rf_out, link);

		if (out_count == out_max ||
		    work_count + works_of(out) > channel->config.send_depth)
			break;
		work_count = add_to_batch(channel, work_count, out);
		out_count++;
	}
	err = rf_ep_post(channel->greeter->ep, channel->batch, work_count);
	while (!err && out_count-- > 0)
		rf_container_of(rf_list_pop(&channel->ready), struct rf_out,
				link)->state = RF_OUT_POSTED;
	return err;
}

void rf_channel_hook_off(struct rf_channel *channel)
{
	if (channel->is_hooked)
		rf_hook_remove(channel->config.reactor, &channel->hook);
	channel->is_hooked = false;
}

static void pump(struct rf_channel *channel)
{
	int err = 0;

	if (channel->is_closing)
		return;
	while (!err && !rf_list_is_empty(&channel->ready)) {
		err = post_batch(channel, UINT32_MAX);
		if (err == -EAGAIN)
			err = post_batch(channel, 1);
	}
	if (err && err != -EAGAIN) {
		rf_channel_close(channel);	/* it is closing, or broken */
	} else if (rf_list_is_empty(&channel->ready)) {
		rf_channel_hook_off(channel);
	} else if (!channel->is_hooked) {
		channel->is_hooked = true;
		rf_hook_add(channel->config.reactor, &channel->hook);
	}
}

static void retry(struct rf_hook *hook)
{
	pump(rf_container_of(hook, struct rf_channel, hook));
}

static void enqueue(struct rf_list *list, struct rf_out *out,
		    enum rf_out_state state)
{
	out->state = state;
	rf_list_push(list, &out->link);
}

static void reply_sent(struct rf_op *op, int status)
{
	struct rf_out *out = rf_container_of(op, struct rf_out, op);
	struct rf_channel_slot *slot = rf_container_of(out,
						       struct rf_channel_slot,
						       out);
	struct rf_channel *channel = out->channel;
	struct rf_channel_recv *pending = slot->pending;
	bool wants_replay = slot->wants_replay;

	finish_out(out);
	slot->pending = NULL;
	slot->wants_replay = false;
	if (status || channel->is_closing)
		return;
	/* A client that has gone on does not wait for the last answer. */
	if (pending)
		rf_channel_start(channel, slot, pending);
	else if (wants_replay)
		rf_channel_replay(channel, slot);
	pump(channel);
}

static void finished_sent(struct rf_op *op, int status)
{
	struct rf_out *out = rf_container_of(op, struct rf_out, op);
	struct rf_channel *channel = out->channel;

	(void)status;
	finish_out(out);
	pump(channel);
}

/* ---- answers ------------ */

/* FINISHED if it was QUEUED, else REPLY. */
static struct rf_header header_of(const struct rf_request *request)
{
	if (request->ticket != 0)
		return (struct rf_header){ .type = RF_MSG_FINISHED,
					   .ticket = request->ticket };
	return (struct rf_header){ .type = RF_MSG_REPLY,
				   .slot = request->slot,
				   .seq = request->seq };
}

/* Write the header of what enc holds. */
static uint32_t finish_message(struct rf_channel *channel, struct rf_enc *enc,
			       struct rf_header header)
{
	int size;

	header.epoch = channel->epoch;
	size = rf_enc_finish(enc, &header);
	if (size < 0) {
		rf_log(RF_LOG_ERROR, "client %s: an answer does not fit in %u "
		       "bytes; sent without results", channel->peer, enc->size);
		rf_enc_init(enc, enc->base, enc->size);
		size = rf_enc_finish(enc, &header);
	}
	return (uint32_t)size;
}

/* The request is over: its message's buffer serves its slot's next one. */
static void give_message_back(struct rf_served *served)
{
	struct rf_buf *buf = served->request.msg_buf;
	struct rf_channel_recv *recv = served->recv;

	served->request.msg_buf = NULL;
	served->recv = NULL;
	if (!recv) {
		rf_pool_put(buf);
		return;
	}
	recv->buf = buf;
	rf_channel_post_recv(recv);
}

/* The endpoint is gone: nobody wants the answer, the buffers go back. */
static void drop_request(struct rf_channel *channel, struct rf_served *served)
{
	struct rf_request *request = &served->request;

	rf_pool_put(request->msg_buf);
	request->msg_buf = NULL;
	if (request->ticket == 0) {
		channel->slots[request->slot].running = NULL;
		rf_pool_put(request->reply_buf);
	} else {
		channel->waiting_count--;
	}
	release_served(channel, served);
	rf_channel_check_end(channel);
}

static struct rf_out *make_reply(struct rf_channel *channel,
				 struct rf_served *served)
{
	struct rf_request *request = &served->request;
	struct rf_channel_slot *slot = &channel->slots[request->slot];

	slot->running = NULL;
	slot->out.size = finish_message(channel, &request->enc,
					header_of(request));
	slot->out.served = served;
	return &slot->out;
}

static struct rf_out *make_finished(struct rf_channel *channel,
				    struct rf_served *served)
{
	struct rf_request *request = &served->request;

	served->finished.buf = request->reply_buf;
	served->finished.size = finish_message(channel, &request->enc,
					       header_of(request));
	served->finished.served = served;
	channel->waiting_count--;
	channel->msgs_sent++;
	channel->stats.finished++;
	return &served->finished;
}

void rf_request_answer(struct rf_request *request, const struct rf_work *works,
		       unsigned int work_count)
{
	struct rf_served *served = rf_container_of(request, struct rf_served,
						   request);
	struct rf_channel *channel = request->channel;
	bool was_queued = request->state == RF_SERVED_QUEUED;

	RF_ASSERT(was_queued || request->state == RF_SERVED_RUNNING);
	RF_ASSERT(work_count <= RF_ANSWER_WORKS_MAX);
	request->state = RF_SERVED_ANSWERED;
	channel->running_count--;
	if (!channel->greeter) {
		drop_request(channel, served);
		return;
	}
	if (work_count > 0)
		memcpy(served->works, works, work_count * sizeof(works[0]));
	served->work_count = work_count;
	give_message_back(served);
	enqueue(&channel->held, was_queued ? make_finished(channel, served)
					   : make_reply(channel, served),
		RF_OUT_HELD);
}

void rf_channel_answer_empty(struct rf_channel *channel,
			     struct rf_served *served)
{
	served->request.state = RF_SERVED_ANSWERED;
	channel->running_count--;
	give_message_back(served);
	enqueue(&channel->ready, make_reply(channel, served), RF_OUT_READY);
	pump(channel);
}

void rf_channel_replay(struct rf_channel *channel, struct rf_channel_slot *slot)
{
	channel->stats.replays++;
	enqueue(&channel->ready, &slot->out, RF_OUT_READY);
	pump(channel);
}

void rf_channel_amend(struct rf_channel *channel,
		      bool (*amend)(struct rf_request *request))
{
	struct rf_list *at;

	rf_list_for_each(at, &channel->held) {
		struct rf_out *out = rf_container_of(at, struct rf_out, link);
		struct rf_request *request = &out->served->request;

		if (amend(request))
			out->size = finish_message(channel, &request->enc,
						   header_of(request));
	}
}

void rf_channel_flush(struct rf_channel *channel)
{
	struct rf_list *item;

	while ((item = rf_list_pop(&channel->held))) {
		struct rf_out *out = rf_container_of(item, struct rf_out, link);

		enqueue(&channel->ready, out, RF_OUT_READY);
	}
	pump(channel);
}

/* ---- QUEUED ------------ */

static uint32_t choose_ticket(struct rf_channel *channel)
{
	for (;;) {
		uint32_t ticket = ++channel->last_ticket;
		bool is_free = ticket != 0;

		for (unsigned int i = 0; i < channel->served_count; i++) {
			const struct rf_request *other =
				&channel->served[i].request;

			if (other->state != RF_SERVED_FREE &&
			    other->ticket == ticket)
				is_free = false;
		}
		if (is_free)
			return ticket;
	}
}

/*
 * True if the client has a Receive for one more FINISHED.  Tickets whose
 * FINISHED is acknowledged, but whose Send is not done, still hold a request.
 */
static bool has_credit(const struct rf_channel *channel)
{
	uint32_t unacked = channel->msgs_sent - channel->msgs_acked;
	unsigned int most = channel->limits.server_msgs;

	return unacked + channel->waiting_count < most &&
	       channel->ticket_count < most;
}

/* New buffers for the slot and its Receive; false if there are none. */
static bool get_spares(struct rf_channel *channel, struct rf_buf **msg_buf,
		       struct rf_buf **reply_buf)
{
	struct rf_pool *pool = channel->config.pool;

	*msg_buf = rf_pool_get(pool, channel->limits.msg_max);
	if (!*msg_buf)
		return false;
	*reply_buf = rf_pool_get(pool, channel->limits.msg_max);
	if (!*reply_buf)
		rf_pool_put(*msg_buf);
	return *reply_buf;
}

static void say_queued(struct rf_channel *channel, struct rf_channel_slot *slot,
		       const struct rf_request *request)
{
	const struct rf_header header = {
		.type = RF_MSG_QUEUED,
		.slot = request->slot,
		.seq = request->seq,
		.ticket = request->ticket,
	};
	struct rf_enc enc;

	rf_enc_init(&enc, slot->out.buf->mem, slot->out.buf->size);
	slot->out.size = finish_message(channel, &enc, header);
	enqueue(&channel->ready, &slot->out, RF_OUT_READY);
	pump(channel);
}

bool rf_request_queue(struct rf_request *request)
{
	struct rf_served *served = rf_container_of(request, struct rf_served,
						   request);
	struct rf_channel *channel = request->channel;
	struct rf_channel_slot *slot = &channel->slots[request->slot];
	struct rf_buf *msg_buf, *reply_buf;

	RF_ASSERT(request->state == RF_SERVED_RUNNING);
	if (channel->is_closing || request->slot >= channel->limits.slots ||
	    !has_credit(channel) ||
	    !get_spares(channel, &msg_buf, &reply_buf))
		return false;
	request->state = RF_SERVED_QUEUED;
	request->ticket = choose_ticket(channel);
	channel->ticket_count++;
	channel->waiting_count++;
	channel->stats.queued++;
	served->recv->buf = msg_buf;
	rf_channel_post_recv(served->recv);
	served->recv = NULL;
	slot->running = NULL;
	slot->out.buf = reply_buf;
	say_queued(channel, slot, request);
	return true;
}

/* ---- beginning and end ------------ */

void rf_channel_init_outs(struct rf_channel *channel)
{
	rf_list_init(&channel->held);
	rf_list_init(&channel->ready);
	channel->hook.run = retry;
	for (unsigned int i = 0; i < channel->slot_count; i++) {
		channel->slots[i].out.channel = channel;
		channel->slots[i].out.op.done = reply_sent;
	}
	for (unsigned int i = 0; i < channel->served_count; i++) {
		struct rf_served *served = &channel->served[i];

		served->request.channel = channel;
		served->request.index = (uint16_t)i;
		served->finished.channel = channel;
		served->finished.op.done = finished_sent;
		rf_list_push(&channel->free_served, &served->link);
	}
}

static void drop_list(struct rf_list *list)
{
	struct rf_list *item;

	while ((item = rf_list_pop(list)))
		finish_out(rf_container_of(item, struct rf_out, link));
}

void rf_channel_drop_outs(struct rf_channel *channel)
{
	drop_list(&channel->held);
	drop_list(&channel->ready);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc_client.c - a client's life: connect, HELLO, BYE, the end
 *
 * Operation.  All Receives are posted at once, so that whatever the server may
 * say finds one.  The first message in must be HELLO_REPLY; rpc_call.c takes
 * what comes after it.
 *
 * Ownership.  The client is freed in the endpoint's closed(), after all calls
 * were ended and closed() was called.  Its buffers go back to the pool only
 * then: whoever waits for one must see that the client is gone.
 *
 * When it fails.  Whatever goes wrong closes the endpoint; the first reason is
 * the one that closed() tells.  If the session may go on, rpc_resume.c keeps it
 * and the next connection begins here again.
 */
#include "rpc_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { OVERLOOKED_MS = 250 };	/* far more than a refusal takes */

/* ---- failing ------------ */

void rf_client_fail(struct rf_client *client, int err, const char *format, ...)
{
	va_list args;

	if (client->is_closing)
		return;
	client->is_closing = true;
	client->err = err;
	va_start(args, format);
	vsnprintf(client->reason, sizeof(client->reason), format, args);
	va_end(args);
	if (err == -EPROTO)
		rf_log(RF_LOG_ERROR, "server %s: %s; connection closed",
		       client->peer, client->reason);
	rf_ep_close(client->ep);
}

void rf_client_drop(struct rf_client *client, int err, const char *what)
{
	if (client->state != RF_CLIENT_AWAY)
		rf_client_fail(client, err, "%s", what);
}

/* Without a connection there is no closed() to wait for. */
void rf_client_abort(struct rf_client *client)
{
	if (client->is_aborted)
		return;
	client->is_aborted = true;
	if (client->state != RF_CLIENT_AWAY) {
		rf_client_fail(client, -ECANCELED, "%s", "");
		return;
	}
	client->err = -ECANCELED;
	client->is_closing = true;
	rf_reactor_post(client->config.reactor, &client->end_task);
}

static void out_of_time(struct rf_timer *timer)
{
	struct rf_client *client = rf_container_of(timer, struct rf_client,
						   timer);

	rf_client_fail(client, client->is_answer_due ? -EAGAIN : -ETIMEDOUT,
		       "no answer from %s to %s within %" PRIu32 " ms",
		       client->peer,
		       client->state == RF_CLIENT_LEAVING ? "BYE" :
		       client->has_session ? "RESUME" : "HELLO",
		       client->is_answer_due ? client->answer_ms :
					       client->config.setup_ms);
	/* It may also be that the server is slow. */
	if (client->is_answer_due)
		client->answer_ms *= 2;
}

/* The first message was sent: its answer has less time than all of set-up. */
static void await_answer(struct rf_client *client)
{
	struct rf_reactor *reactor = client->config.reactor;
	uint64_t end_ns = rf_reactor_now_ns(reactor) +
			  client->answer_ms * UINT64_C(1000000);

	client->first_sent_ns = rf_reactor_now_ns(reactor);
	if (client->answer_ms == 0 || end_ns >= client->setup_end_ns)
		return;
	client->is_answer_due = true;
	rf_timer_start(reactor, &client->timer, client->answer_ms);
}

void rf_client_was_answered(struct rf_client *client)
{
	rf_timer_stop(client->config.reactor, &client->timer);
	client->is_answer_due = false;
	client->answer_ms = client->config.answer_ms;
}

/* ---- HELLO ------------ */

/* Its answer may have come before this. */
static void hello_sent(struct rf_op *op, int status)
{
	struct rf_client *client = rf_container_of(op, struct rf_client,
						   hello_op);

	(void)status;	/* if it failed, closed() follows */
	client->own_is_busy = false;
	if (client->return_count > 0)
		rf_client_hook_on(client);
	rf_client_check_bye(client);
}

static void say_hello(struct rf_client *client, uint16_t version)
{
	struct rf_client_config *config = &client->config;
	struct rf_sge sge = { .addr = client->own_buf->mem, .mr = config->mr };
	struct rf_work work = { .code = RF_SEND, .op = &client->hello_op,
				.sge = &sge, .sge_count = 1 };
	int size, err;

	config->hello.version = version;
	rf_random(config->hello.nonce, sizeof(config->hello.nonce));
	if (client->has_session)
		size = rf_client_encode_resume(client);
	else
		size = rf_hello_encode(client->own_buf->mem, &config->hello,
				       &config->key, client->nonce,
				       client->proof);
	if (size < 0) {
		rf_client_fail(client, size, "the export's name has bytes that "
			       "are no text");
		return;
	}
	sge.size = (uint32_t)size;
	client->state = RF_CLIENT_HELLO;
	err = rf_ep_post(client->ep, &work, 1);
	if (err) {
		rf_client_fail(client, err, "cannot send the first message: "
			       "%s", strerror(-err));
		return;
	}
	client->own_is_busy = true;
	/* A device may tell of the answer before it tells that this was sent. */
	client->own_sent_ns = rf_reactor_now_ns(config->reactor);
	await_answer(client);
}

static void connected(struct rf_ep *ep, const void *data, size_t size)
{
	struct rf_client *client = rf_ep_context(ep);
	struct rf_hello_accept accept;

	if (client->is_closing)
		return;
	if (rf_hello_accept_decode(data, size, &accept) < 0 ||
	    accept.status != RF_ST_OK ||
	    accept.version != RF_PROTOCOL_VERSION) {
		rf_client_fail(client, -EPROTO, "this is no rdmafs server");
		return;
	}
	memcpy(client->nonce, accept.nonce, RF_NONCE_SIZE);
	say_hello(client, accept.version);
}

static void rejected(struct rf_ep *ep, const void *data, size_t size)
{
	struct rf_client *client = rf_ep_context(ep);
	struct rf_hello_accept accept;
	int err;

	if (client->err)
		return;
	if (rf_hello_accept_decode(data, size, &accept) < 0) {
		client->err = -EPROTO;
		snprintf(client->reason, sizeof(client->reason),
			 "this is no rdmafs server");
		return;
	}
	err = rf_status_to_errno(accept.status);
	/* Nothing was proved, so this can't be the session's end (-ESTALE). */
	client->err = err && err != -ESTALE ? err : -ECONNREFUSED;
	if (accept.status == RF_ST_BAD_VERSION)
		snprintf(client->reason, sizeof(client->reason), "the server "
			 "speaks protocol version %u, we speak %u",
			 accept.version, RF_PROTOCOL_VERSION);
	else
		snprintf(client->reason, sizeof(client->reason), "the server "
			 "refused the connection: %s",
			 rf_status_name(accept.status));
}

/* The server may give less than we wish, never more. */
static bool limits_are_ours(const struct rf_client *client,
			    const struct rf_hello_limits *limits)
{
	const struct rf_hello_limits *wish = &client->config.hello.limits;

	return rf_hello_limits_are_usable(limits) &&
	       limits->slots <= wish->slots &&
	       limits->control_slots <= wish->control_slots &&
	       limits->server_msgs <= wish->server_msgs &&
	       limits->msg_max <= wish->msg_max &&
	       limits->inline_max <= wish->inline_max;
}

/* False, and failed, unless the server may be believed. */
static bool check_reply(struct rf_client *client,
			const struct rf_hello_reply *reply,
			const struct rf_buf *buf, size_t size)
{
	const struct rf_client_config *config = &client->config;

	if (reply->status != RF_ST_OK) {
		rf_client_fail(client, rf_status_to_errno(reply->status), "%s",
			       reply->reason);
		return false;
	}
	if (rf_hello_reply_verify(buf->mem, size, &config->key, client->nonce,
				  client->proof) < 0) {
		rf_client_fail(client, -EKEYREJECTED, "the server could not "
			       "prove that it has our key");
		return false;
	}
	if (!limits_are_ours(client, &reply->limits) ||
	    (reply->features & ~config->hello.features)) {
		rf_client_fail(client, -EPROTO, "HELLO_REPLY with limits or "
			       "features beyond those asked for");
		return false;
	}
	return rf_client_check_store(client, reply->server_uuid);
}

/* Slot 0 on top of its stack, so that the first requests are easy to read. */
void rf_client_make_slots(struct rf_client *client)
{
	const struct rf_hello_limits *limits = &client->limits;
	struct rf_slot_stack *normal = &client->free[RF_SLOT_NORMAL];
	struct rf_slot_stack *control = &client->free[RF_SLOT_CONTROL];

	/* Also those that a former session had and this one has not. */
	memset(client->slots, 0, sizeof(client->slots[0]) *
	       ((size_t)client->config.hello.limits.slots +
		client->config.hello.limits.control_slots));
	normal->count = control->count = 0;
	for (unsigned int i = limits->slots; i-- > 0;)
		normal->slots[normal->count++] = (uint16_t)i;
	for (unsigned int i = limits->control_slots; i-- > 0;)
		control->slots[control->count++] =
			(uint16_t)(limits->slots + i);
}

static void take_hello_reply(struct rf_client_recv *recv)
{
	struct rf_client *client = recv->client;
	struct rf_hello_reply reply;

	if (rf_hello_reply_decode(recv->buf->mem, recv->op.size, &reply) < 0) {
		rf_client_fail(client, -EPROTO, "the first message is no "
			       "HELLO_REPLY");
		return;
	}
	if (!check_reply(client, &reply, recv->buf, recv->op.size))
		return;
	rf_client_was_answered(client);
	client->limits = reply.limits;
	client->features = reply.features;
	client->epoch = reply.epoch;
	/* A later session waits for rf_client_go_on(). */
	client->state = client->was_opened ? RF_CLIENT_RESUMED : RF_CLIENT_OPEN;
	rf_client_keep_session(client, &reply);
	rf_client_make_slots(client);
	rf_client_post_recv(recv);
	client->events.opened(client, &reply);
	rf_client_pump(client);
}

static void received(struct rf_op *op, int status)
{
	struct rf_client_recv *recv = rf_container_of(op, struct rf_client_recv,
						      op);

	if (status || recv->client->is_closing)
		return;
	if (recv->client->state == RF_CLIENT_HELLO && recv->client->has_session)
		rf_client_take_resume_reply(recv);
	else if (recv->client->state == RF_CLIENT_HELLO)
		take_hello_reply(recv);
	else
		rf_client_take_message(recv);
}

int rf_client_post_recv(struct rf_client_recv *recv)
{
	struct rf_client *client = recv->client;
	const struct rf_recv post = {
		.op = &recv->op,
		.sge = { recv->buf->mem, client->config.hello.limits.msg_max,
			 client->config.mr },
	};

	/* -ENOTCONN: the buffer stays ours until closed(). */
	return rf_ep_post_recv(client->ep, &post);
}

/* ---- the end ------------ */

static void free_client(struct rf_client *client)
{
	for (unsigned int i = 0; client->recvs && i < client->recv_count; i++)
		if (client->recvs[i].buf)
			rf_pool_put(client->recvs[i].buf);
	if (client->own_buf)
		rf_pool_put(client->own_buf);
	free(client->recvs);
	free(client->slots);
	free(client->batch);
	free(client->free[RF_SLOT_NORMAL].slots);
	free(client->free[RF_SLOT_CONTROL].slots);
	free(client);
}

/*
 * The server has waited in vain for what we have sent, until its own deadline: siw
 * may overlook it.  One that closes at once means it.
 */
static bool was_overlooked(const struct rf_client *client)
{
	return client->state == RF_CLIENT_HELLO && client->config.answer_ms &&
	       rf_reactor_now_ns(client->config.reactor) -
			       client->first_sent_ns >=
		       OVERLOOKED_MS * UINT64_C(1000000);
}

/* What closed() will tell, from what we know and what the endpoint says. */
static int explain_end(struct rf_client *client, int reason)
{
	if (client->state == RF_CLIENT_LEFT ||
	    (client->state == RF_CLIENT_LEAVING && !client->err && !reason))
		return 0;
	if (client->err)
		return client->err;
	if (reason == 0) {
		snprintf(client->reason, sizeof(client->reason),
			 "the server closed the connection");
		return was_overlooked(client) ? -EAGAIN : -ECONNRESET;
	}
	snprintf(client->reason, sizeof(client->reason), "%s",
		 strerror(-reason));
	return reason;
}

static void end_client(struct rf_client *client, int err)
{
	rf_client_end_calls(client, err ? err : -ECONNRESET);
	/* The caller learns it before a put wakes one of its requests. */
	client->events.closed(client, err, client->reason);
	free_client(client);
}

static void end_aborted(struct rf_task *task)
{
	struct rf_client *client = rf_container_of(task, struct rf_client,
						   end_task);

	end_client(client, client->err);
}

static void closed(struct rf_ep *ep, int reason)
{
	struct rf_client *client = rf_ep_context(ep);
	int err = explain_end(client, reason);

	client->is_closing = true;
	rf_timer_stop(client->config.reactor, &client->timer);
	if (client->is_hooked)
		rf_hook_remove(client->config.reactor, &client->hook);
	client->is_hooked = false;
	if (!rf_client_was_lost(client, err))
		end_client(client, err);
}

/* ---- BYE ------------ */

static void bye_answered(struct rf_call *call, int err, struct rf_dec *reply)
{
	struct rf_client *client = rf_container_of(call, struct rf_client,
						   own_call);

	(void)reply;
	client->own_is_busy = false;
	if (err)
		return;		/* closed() follows */
	client->state = RF_CLIENT_LEFT;
	client->is_closing = true;
	rf_ep_close(client->ep);
}

static void say_bye(struct rf_client *client)
{
	const struct rf_args bye = { .code = RF_OP_BYE };
	struct rf_header header = { .type = RF_MSG_REQUEST };
	struct rf_call *call = &client->own_call;
	struct rf_enc enc;

	rf_enc_init(&enc, client->own_buf->mem, client->own_buf->size);
	rf_enc_args(&enc, &bye);
	call->msg = client->own_buf;
	call->msg_size = (uint32_t)rf_enc_finish(&enc, &header);
	call->is_control = true;
	call->done = bye_answered;
	client->own_is_busy = true;
	client->state = RF_CLIENT_LEAVING;
	rf_timer_start(client->config.reactor, &client->timer,
		       client->config.setup_ms);
	rf_client_submit(client, call);
}

void rf_client_check_bye(struct rf_client *client)
{
	if (!client->wants_bye || client->state != RF_CLIENT_OPEN ||
	    client->is_closing || client->open_calls > 0 ||
	    client->own_is_busy)
		return;
	if (client->return_count > 0)
		rf_client_send_returns(client);
	else
		say_bye(client);
}

void rf_client_bye(struct rf_client *client)
{
	if (client->state < RF_CLIENT_RESUMED) {
		rf_client_abort(client);
		return;
	}
	client->wants_bye = true;
	rf_client_check_bye(client);
}

/* ---- opening ------------ */

static uint16_t cut(uint16_t wish, uint16_t most)
{
	return wish < most ? wish : most;
}

/* Of the fabric of pd. */
static int check_fabric(struct rf_client *client, const struct rf_pd *pd)
{
	const struct rf_limits *fabric = rf_fabric_limits(rf_pd_fabric(pd));
	struct rf_client_config *config = &client->config;

	if (client->recv_count > fabric->recv_depth_max ||
	    config->hello.limits.msg_max > fabric->msg_size_max ||
	    cut(config->send_depth, fabric->send_depth_max) < 2)
		return -EINVAL;
	config->send_depth = cut(config->send_depth, fabric->send_depth_max);
	config->reads_out = cut(config->reads_out, fabric->reads_max);
	return 0;
}

static int check_wishes(struct rf_client *client)
{
	const struct rf_hello_limits *wish = &client->config.hello.limits;

	client->recv_count = (unsigned int)wish->slots + wish->control_slots +
			     wish->server_msgs;
	if (!rf_hello_limits_are_usable(wish) ||
	    (client->config.kept && wish->slots + wish->control_slots >
					    RF_CLIENT_KEPT_SLOTS))
		return -EINVAL;
	return client->config.pd ? check_fabric(client, client->config.pd) : 0;
}

int rf_client_move(struct rf_client *client, struct rf_poller *poller,
		   struct rf_pd *pd, struct rf_mr *mr)
{
	int err = check_fabric(client, pd);

	RF_ASSERT(client->state == RF_CLIENT_AWAY && client->is_closing);
	if (err)
		return err;
	client->config.poller = poller;
	client->config.pd = pd;
	client->config.mr = mr;
	return 0;
}

static int get_buffers(struct rf_client *client)
{
	struct rf_pool *pool = client->config.pool;

	for (unsigned int i = 0; i < client->recv_count; i++) {
		struct rf_client_recv *recv = &client->recvs[i];

		recv->client = client;
		recv->op.done = received;
		recv->buf = rf_pool_get(pool,
					client->config.hello.limits.msg_max);
		if (!recv->buf)
			return -ENOMEM;
	}
	client->own_buf = rf_pool_get(pool, RF_HELLO_SIZE_MAX);
	return client->own_buf ? 0 : -ENOMEM;
}

static int make_tables(struct rf_client *client)
{
	const struct rf_hello_limits *wish = &client->config.hello.limits;
	struct rf_slot_stack *free = client->free;

	client->recvs = calloc(client->recv_count, sizeof(client->recvs[0]));
	client->slots = calloc((size_t)wish->slots + wish->control_slots,
			       sizeof(client->slots[0]));
	client->batch = calloc(client->config.send_depth,
			       sizeof(client->batch[0]));
	free[RF_SLOT_NORMAL].slots = calloc(wish->slots, sizeof(uint16_t));
	free[RF_SLOT_CONTROL].slots = calloc(wish->control_slots,
					     sizeof(uint16_t));
	return client->recvs && client->slots && client->batch &&
	       free[RF_SLOT_NORMAL].slots && free[RF_SLOT_CONTROL].slots ?
	       0 : -ENOMEM;
}

static int start_connecting(struct rf_client *client)
{
	static const struct rf_ep_events events = {
		.connected = connected,
		.closed = closed,
		.rejected = rejected,
	};
	const struct rf_client_config *config = &client->config;
	const struct rf_hello_connect versions = {
		RF_PROTOCOL_VERSION, RF_PROTOCOL_VERSION,
	};
	const struct rf_ep_config ep_config = {
		.pd = config->pd,
		.send_depth = config->send_depth,
		.recv_depth = (uint16_t)client->recv_count,
		.reads_out = config->reads_out > RF_PROBE_READS ?
			     config->reads_out : RF_PROBE_READS,
		.reads_in = RF_PROBE_READS,
		.setup_ms = config->setup_ms,
		.keepalive_ms = config->keepalive_ms,
	};
	uint8_t data[RF_CONNECT_DATA_SIZE];

	rf_hello_connect_encode(data, &versions);
	return rf_ep_connect(config->poller,
			     (const struct sockaddr *)&config->address,
			     config->address_size, data, sizeof(data),
			     &ep_config, &events, client, &client->ep);
}

static void post_all_recvs(struct rf_client *client)
{
	for (unsigned int i = 0; i < client->recv_count; i++) {
		int err = rf_client_post_recv(&client->recvs[i]);

		if (err) {
			rf_client_fail(client, err, "cannot post receives: %s",
				       strerror(-err));
			return;
		}
	}
}

int rf_client_connect(struct rf_client *client)
{
	int err = start_connecting(client);

	if (err)
		return err;
	client->state = RF_CLIENT_CONNECTING;
	client->is_answer_due = false;
	client->setup_end_ns = rf_reactor_now_ns(client->config.reactor) +
			       client->config.setup_ms * UINT64_C(1000000);
	rf_timer_start(client->config.reactor, &client->timer,
		       client->config.setup_ms);
	post_all_recvs(client);
	return 0;
}

/* All but a connection. */
static int make_client(const struct rf_client_config *config,
		       const struct rf_client_events *events, void *context,
		       struct rf_client **out)
{
	struct rf_client *client = calloc(1, sizeof(*client));
	int err;

	if (!client)
		return -ENOMEM;
	client->config = *config;
	client->answer_ms = config->answer_ms;
	client->events = *events;
	client->context = context;
	client->timer.fire = out_of_time;
	client->end_task.run = end_aborted;
	client->hello_op.done = hello_sent;
	rf_client_init_calls(client);
	rf_peer_name(&config->address, client->peer);
	err = check_wishes(client);
	if (!err)
		err = make_tables(client);
	if (!err)
		err = get_buffers(client);
	if (err) {
		free_client(client);
		return err;
	}
	*out = client;
	return 0;
}

int rf_client_open(const struct rf_client_config *config,
		   const struct rf_client_events *events, void *context,
		   struct rf_client **out)
{
	struct rf_client *client;
	int err = make_client(config, events, context, &client);

	if (err)
		return err;
	err = rf_client_connect(client);
	if (err) {
		free_client(client);
		return err;
	}
	*out = client;
	return 0;
}

/* The limits that the session has got are none that we would not wish for. */
static bool can_restore(const struct rf_client_config *config)
{
	const struct rf_hello_limits *has = &config->kept->limits;
	const struct rf_hello_limits *wish = &config->hello.limits;

	return has->slots <= wish->slots && has->msg_max <= wish->msg_max &&
	       has->control_slots <= wish->control_slots &&
	       has->server_msgs <= wish->server_msgs;
}

int rf_client_restore(const struct rf_client_config *config,
		      const struct rf_client_events *events, void *context,
		      struct rf_client **out)
{
	int err;

	if (!can_restore(config))
		return -EINVAL;
	err = make_client(config, events, context, out);
	if (err)
		return err;
	rf_client_restore_session(*out);
	/* As between two connections. */
	(*out)->is_closing = true;
	return 0;
}

/* ---- what it is ------------ */

void *rf_client_context(const struct rf_client *client)
{
	return client->context;
}

struct rf_ep *rf_client_ep(const struct rf_client *client)
{
	return client->ep;
}

const struct rf_hello_limits *rf_client_limits(const struct rf_client *client)
{
	return &client->limits;
}

uint64_t rf_client_features(const struct rf_client *client)
{
	return client->features;
}

void rf_client_stats(const struct rf_client *client,
		     struct rf_client_stats *out)
{
	*out = client->stats;
}

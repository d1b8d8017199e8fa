/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc_greeter.c - the server's side of a connection, up to HELLO_REPLY
 *
 * Operation.  Accept with one small Receive, for HELLO, and the server's nonce;
 * show HELLO to the caller; send what it decides.  A refused client closes when
 * it has read why: if we closed first, the reason might not arrive.
 *
 * Ownership.  The greeter lives as long as its endpoint, also when the caller
 * sees only the channel any more.  Its two buffers go back to the pool when
 * HELLO was handled and when the reply's Send is done, at the latest when the
 * endpoint closes.
 *
 * When it fails.  A connection without a buffer for it is rejected with
 * TOO_MANY; one that says nothing is closed after hello_ms.
 */
#include "rpc_impl.h"

#include "log_peer.h"

#include <errno.h>
#include <stdlib.h>

void rf_greeter_fail(struct rf_greeter *greeter, int err, const char *text)
{
	if (greeter->is_closing)
		return;
	greeter->is_closing = true;
	greeter->err = err;
	if (text)
		rf_log_peer(RF_LOG_WARN,
			    (const struct sockaddr *)&greeter->address,
			    "client %s: %s; connection closed", greeter->peer,
			    text);
	rf_ep_close(greeter->ep);
}

static void out_of_time(struct rf_timer *timer)
{
	struct rf_greeter *greeter = rf_container_of(timer, struct rf_greeter,
						     timer);

	rf_greeter_fail(greeter, greeter->err ? greeter->err : -ETIMEDOUT,
			NULL);
}

/* ---- events of the endpoint ------------ */

static void connected(struct rf_ep *ep, const void *data, size_t size)
{
	(void)ep;	/* the client speaks first */
	(void)data;
	(void)size;
}

static void put_back(struct rf_buf **buf)
{
	if (*buf)
		rf_pool_put(*buf);
	*buf = NULL;
}

static void closed(struct rf_ep *ep, int reason)
{
	struct rf_greeter *greeter = rf_ep_context(ep);
	int err = greeter->err ? greeter->err : reason;

	greeter->is_closing = true;
	rf_timer_stop(greeter->config.reactor, &greeter->timer);
	if (greeter->channel)
		rf_channel_ep_closed(greeter->channel, reason);
	else
		greeter->events.closed(greeter, err);
	put_back(&greeter->recv_buf);
	put_back(&greeter->send_buf);
	free(greeter);
}

static void ask(struct rf_greeter *greeter)
{
	rf_timer_stop(greeter->config.reactor, &greeter->timer);
	greeter->state = RF_GREETER_ASKING;
}

/* False: it is no HELLO.  The same of RESUME below. */
static bool take_hello(struct rf_greeter *greeter, const void *message,
		       uint32_t size)
{
	struct rf_hello hello;

	if (rf_hello_decode(message, size, &hello) < 0)
		return false;
	ask(greeter);
	greeter->wishes = hello.limits;
	greeter->events.hello(greeter, &hello, message, size);
	return true;
}

static bool take_resume(struct rf_greeter *greeter, const void *message,
			uint32_t size)
{
	uint8_t digest[RF_PROOF_SIZE];
	struct rf_resume resume;

	if (!greeter->events.resume ||
	    rf_resume_decode(message, size, &resume, digest) < 0)
		return false;
	ask(greeter);
	greeter->is_resume = true;
	greeter->events.resume(greeter, &resume, message, size, digest);
	return true;
}

static void first_received(struct rf_op *op, int status)
{
	struct rf_greeter *greeter = rf_container_of(op, struct rf_greeter,
						     recv_op);
	const void *message = greeter->recv_buf->mem;

	if (status || greeter->is_closing)
		return;
	if (!take_hello(greeter, message, op->size) &&
	    !take_resume(greeter, message, op->size))
		rf_greeter_fail(greeter, -EPROTO, "the first message is no "
				"HELLO");
	else
		put_back(&greeter->recv_buf);
}

static void reply_sent(struct rf_op *op, int status)
{
	struct rf_greeter *greeter = rf_container_of(op, struct rf_greeter,
						     send_op);

	(void)status;	/* if it failed, closed() follows */
	put_back(&greeter->send_buf);
}

/* ---- accepting ------------ */

static void reject(struct rf_incoming *incoming, enum rf_status status)
{
	const struct rf_hello_accept answer = {
		.status = (uint16_t)status,
		.version = RF_PROTOCOL_VERSION,
	};
	uint8_t data[RF_ACCEPT_DATA_SIZE];

	rf_hello_accept_encode(data, &answer);
	rf_ep_reject(incoming, data, sizeof(data));
}

/* 0, or why this connection can't be taken. */
static int check_versions(const void *data, size_t size,
			  enum rf_status *status)
{
	struct rf_hello_connect versions;

	if (rf_hello_connect_decode(data, size, &versions) < 0) {
		*status = RF_ST_BAD_MESSAGE;
		return -EPROTO;
	}
	if (versions.version_min > RF_PROTOCOL_VERSION ||
	    versions.version_max < RF_PROTOCOL_VERSION) {
		*status = RF_ST_BAD_VERSION;
		return -EPROTONOSUPPORT;
	}
	return 0;
}

static uint16_t cut(uint16_t wish, uint16_t most)
{
	return wish < most ? wish : most;
}

static int accept_it(struct rf_greeter *greeter, struct rf_incoming *incoming)
{
	static const struct rf_ep_events events = {
		.connected = connected,
		.closed = closed,
	};
	const struct rf_server_config *config = &greeter->config;
	struct rf_hello_accept answer = {
		.status = RF_ST_OK,
		.version = RF_PROTOCOL_VERSION,
	};
	const struct rf_ep_config ep_config = {
		.pd = config->pd,
		.send_depth = config->send_depth,
		.recv_depth = config->recv_depth,
		.reads_out = RF_PROBE_READS,
		.reads_in = config->reads_in,
		.setup_ms = config->hello_ms,
		.keepalive_ms = config->keepalive_ms,
	};
	const struct rf_recv recv = {
		.op = &greeter->recv_op,
		.sge = { greeter->recv_buf->mem, RF_HELLO_SIZE_MAX,
			 config->mr },
	};
	uint8_t data[RF_ACCEPT_DATA_SIZE];

	memcpy(answer.nonce, greeter->nonce, RF_NONCE_SIZE);
	rf_hello_accept_encode(data, &answer);
	return rf_ep_accept(incoming, config->poller, data, sizeof(data),
			    &ep_config, &events, greeter, &recv, 1,
			    &greeter->ep);
}

static void apply_limits(struct rf_server_config *config)
{
	const struct rf_limits *fabric =
		rf_fabric_limits(rf_pd_fabric(config->pd));

	if (config->recv_depth == 0)
		config->recv_depth = RF_RECV_DEPTH_DEFAULT;
	config->recv_depth = cut(config->recv_depth, fabric->recv_depth_max);
	config->send_depth = cut(config->send_depth, fabric->send_depth_max);
	config->reads_in = cut(config->reads_in, fabric->reads_max);
	RF_ASSERT(config->send_depth > RF_ANSWER_WORKS_MAX);
}

static struct rf_greeter *make_greeter(const struct rf_server_config *config,
				       const struct rf_greeter_events *events,
				       void *context)
{
	struct rf_greeter *greeter = calloc(1, sizeof(*greeter));

	if (!greeter)
		return NULL;
	greeter->config = *config;
	apply_limits(&greeter->config);
	greeter->events = *events;
	greeter->context = context;
	greeter->timer.fire = out_of_time;
	greeter->recv_op.done = first_received;
	greeter->send_op.done = reply_sent;
	rf_random(greeter->nonce, sizeof(greeter->nonce));
	greeter->recv_buf = rf_pool_get(config->pool, RF_HELLO_SIZE_MAX);
	greeter->send_buf = rf_pool_get(config->pool, RF_HELLO_SIZE_MAX);
	if (greeter->recv_buf && greeter->send_buf)
		return greeter;
	put_back(&greeter->recv_buf);
	put_back(&greeter->send_buf);
	free(greeter);
	return NULL;
}

int rf_greeter_accept(const struct rf_server_config *config,
		      struct rf_incoming *incoming, const void *data,
		      size_t size, const struct rf_greeter_events *events,
		      void *context, struct rf_greeter **out)
{
	struct rf_greeter *greeter;
	enum rf_status status;
	int err;

	err = check_versions(data, size, &status);
	if (err) {
		reject(incoming, status);
		return err;
	}
	greeter = make_greeter(config, events, context);
	if (!greeter) {
		reject(incoming, RF_ST_TOO_MANY);
		return -ENOMEM;
	}
	rf_incoming_peer(incoming, &greeter->address);
	rf_peer_name(&greeter->address, greeter->peer);
	err = accept_it(greeter, incoming);
	if (err) {
		put_back(&greeter->recv_buf);
		put_back(&greeter->send_buf);
		free(greeter);
		return err;
	}
	rf_timer_start(config->reactor, &greeter->timer, config->hello_ms);
	*out = greeter;
	return 0;
}

void *rf_greeter_context(const struct rf_greeter *greeter)
{
	return greeter->context;
}

struct rf_ep *rf_greeter_ep(const struct rf_greeter *greeter)
{
	return greeter->ep;
}

const uint8_t *rf_greeter_nonce(const struct rf_greeter *greeter)
{
	return greeter->nonce;
}

const char *rf_greeter_peer(const struct rf_greeter *greeter)
{
	return greeter->peer;
}

/* ---- answering ------------ */

/* What was encoded into send_buf. */
static int send_it(struct rf_greeter *greeter, int size)
{
	const struct rf_sge sge = {
		.addr = greeter->send_buf->mem,
		.size = (uint32_t)size,
		.mr = greeter->config.mr,
	};
	const struct rf_work work = { .code = RF_SEND, .op = &greeter->send_op,
				      .sge = &sge, .sge_count = 1 };

	return rf_ep_post(greeter->ep, &work, 1);
}

static int send_reply(struct rf_greeter *greeter,
		      const struct rf_hello_reply *reply,
		      const struct rf_key *key, const uint8_t *client_proof)
{
	return send_it(greeter,
		       rf_hello_reply_encode(greeter->send_buf->mem, reply, key,
					     greeter->nonce, client_proof));
}

/* No to a RESUME, in its own form. */
static int send_resume_refusal(struct rf_greeter *greeter,
			       const struct rf_hello_reply *reply,
			       const struct rf_key *key,
			       const uint8_t *client_proof)
{
	struct rf_resume_reply refusal = {
		.status = reply->status,
		.version = reply->version,
		.flags = reply->flags,
	};

	memcpy(refusal.server_uuid, reply->server_uuid, RF_UUID_SIZE);
	memcpy(refusal.reason, reply->reason, sizeof(refusal.reason));
	return send_it(greeter,
		       rf_resume_reply_encode(greeter->send_buf->mem, &refusal,
					      key, NULL, greeter->nonce,
					      client_proof));
}

void rf_greeter_refuse(struct rf_greeter *greeter,
		       const struct rf_hello_reply *reply,
		       const struct rf_key *key,
		       const uint8_t client_proof[RF_PROOF_SIZE])
{
	RF_ASSERT(greeter->state == RF_GREETER_ASKING);
	RF_ASSERT(reply->status != RF_ST_OK);
	greeter->state = RF_GREETER_REFUSING;
	if (greeter->is_closing)
		return;
	greeter->err = rf_status_to_errno(reply->status);
	if (greeter->is_resume
	    ? send_resume_refusal(greeter, reply, key, client_proof)
	    : send_reply(greeter, reply, key, client_proof))
		rf_greeter_fail(greeter, greeter->err, NULL);
	else
		rf_timer_start(greeter->config.reactor, &greeter->timer,
			       greeter->config.hello_ms);
}

static bool limits_work(const struct rf_greeter *greeter,
			const struct rf_hello_limits *limits)
{
	const struct rf_hello_limits *wishes = &greeter->wishes;

	return rf_hello_limits_are_usable(limits) &&
	       limits->slots <= wishes->slots &&
	       limits->control_slots <= wishes->control_slots &&
	       limits->server_msgs <= wishes->server_msgs &&
	       limits->msg_max <= wishes->msg_max &&
	       limits->slots + limits->control_slots <=
			greeter->config.recv_depth;
}

int rf_greeter_admit(struct rf_greeter *greeter,
		     const struct rf_hello_reply *reply,
		     const struct rf_key *key,
		     const uint8_t client_proof[RF_PROOF_SIZE],
		     const struct rf_channel_events *events, void *context,
		     struct rf_channel **out)
{
	struct rf_channel *channel;
	int err;

	RF_ASSERT(greeter->state == RF_GREETER_ASKING && !greeter->is_resume);
	RF_ASSERT(reply->status == RF_ST_OK);
	if (!limits_work(greeter, &reply->limits))
		return -EINVAL;
	if (greeter->is_closing)
		return -ENOTCONN;
	err = rf_channel_create(greeter, &reply->limits, reply->epoch, events,
				context, &channel);
	if (err)
		return err;
	greeter->channel = channel;
	greeter->state = RF_GREETER_ADMITTED;
	err = send_reply(greeter, reply, key, client_proof);
	if (err)
		rf_channel_close(channel);	/* closed() follows */
	*out = channel;
	return 0;
}

static void start_fresh(struct rf_channel *channel)
{
	for (unsigned int i = 0; i < channel->slot_count; i++)
		channel->slots[i].is_fresh = true;
}

static int send_resume_reply(struct rf_greeter *greeter,
			     const struct rf_resumption *resumption)
{
	return send_it(greeter,
		       rf_resume_reply_encode(greeter->send_buf->mem,
					      resumption->reply,
					      resumption->key,
					      resumption->secret,
					      greeter->nonce,
					      resumption->digest));
}

int rf_greeter_resume(struct rf_greeter *greeter,
		      const struct rf_resumption *resumption,
		      const struct rf_channel_events *events, void *context,
		      struct rf_channel **out)
{
	const struct rf_hello_limits *limits = resumption->limits;
	struct rf_channel *channel;
	int err;

	RF_ASSERT(greeter->state == RF_GREETER_ASKING && greeter->is_resume);
	RF_ASSERT(resumption->reply->status == RF_ST_OK);
	greeter->wishes = *limits;
	if (!limits_work(greeter, limits))
		return -EINVAL;
	if (greeter->is_closing)
		return -ENOTCONN;
	err = rf_channel_create(greeter, limits, resumption->reply->epoch,
				events, context, &channel);
	if (err)
		return err;
	start_fresh(channel);
	greeter->channel = channel;
	greeter->state = RF_GREETER_ADMITTED;
	err = send_resume_reply(greeter, resumption);
	if (err)
		rf_channel_close(channel);	/* closed() follows */
	*out = channel;
	return 0;
}

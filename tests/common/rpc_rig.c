/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/common/rpc_rig.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RIG_SETTLE_MAX = 2000000, RPC_REAL_TURN_MS = 100 };

/* ---- time ------------ */

static uint64_t world_clock(void *context)
{
	return rf_loop_now_ns(context);
}

bool rpc_turn(struct rpc_rig *rig)
{
	uint64_t event_ns, due_ns, now_ns;

	if (!rig->world) {
		rf_reactor_turn(rig->reactor, RPC_REAL_TURN_MS);
		return true;
	}
	if (rf_reactor_turn(rig->reactor, 0))
		return true;
	event_ns = rf_loop_next_ns(rig->world);
	due_ns = rf_reactor_next_due_ns(rig->reactor);
	now_ns = rf_loop_now_ns(rig->world);
	if (event_ns == UINT64_MAX && due_ns == UINT64_MAX)
		return false;
	if (event_ns <= due_ns)
		return rf_loop_step(rig->world);
	if (due_ns > now_ns)
		rf_loop_advance(rig->world, due_ns - now_ns);
	return true;
}

void rpc_settle(struct rpc_rig *rig)
{
	unsigned int turns = 0;

	cr_assert_not_null(rig->world, "only virtual time can settle");
	while (rpc_turn(rig))
		cr_assert(turns++ < RIG_SETTLE_MAX, "it never rests");
}

static bool pool_is_full(const struct rf_pool *pool)
{
	struct rf_pool_stats stats;

	rf_pool_stats(pool, &stats);
	for (unsigned int i = 0; i < stats.class_count; i++)
		if (stats.classes[i].free != stats.classes[i].count)
			return false;
	return true;
}

bool rpc_pools_are_full(const struct rpc_rig *rig)
{
	return pool_is_full(rig->server_pool) && pool_is_full(rig->client_pool);
}

unsigned int rpc_seed(void)
{
	const char *text = getenv("RF_SEED");
	unsigned int seed = text ? (unsigned int)strtoul(text, NULL, 10)
				 : (unsigned int)time(NULL);

	printf("seed %u\n", seed);
	fflush(stdout);
	srand(seed);
	return seed;
}

/* ---- the server: sessions ------------ */

static void answer(struct rpc_rig *rig, struct rf_request *request)
{
	struct rf_results results = { .code = RF_OP_READ };

	(void)rig;
	results.read.version = (uint64_t)(uintptr_t)request->context;
	rf_enc_results(&request->enc, &results);
	rf_request_answer(request, NULL, 0);
}

static void park(struct rpc_rig *rig, struct rf_request *request)
{
	cr_assert_lt(rig->parked_count, RPC_REQUESTS_MAX);
	rig->parked[rig->parked_count++] = request;
}

static void serve_read(struct rpc_rig *rig, struct rf_request *request,
		       const struct rf_read_args *args)
{
	enum rpc_how how = (enum rpc_how)args->open;

	request->context = (void *)(uintptr_t)args->offset;
	rig->runs[args->offset % RPC_TAGS_MAX]++;
	rig->run_order[rig->run_count++ % RPC_TAGS_MAX] = args->offset;
	if ((how == RPC_QUEUE || how == RPC_QUEUE_AT_ONCE) &&
	    !rf_request_queue(request))
		rig->queue_refused++;
	if (how == RPC_PARK || how == RPC_QUEUE)
		park(rig, request);
	else
		answer(rig, request);
}

static void requested(struct rf_channel *channel, struct rf_request *request)
{
	struct rpc_channel *side = rf_channel_context(channel);
	struct rpc_rig *rig = side->rig;
	struct rf_results results = { .code = RF_OP_NOP };
	struct rf_args args;

	cr_assert_eq(request->channel, channel);
	cr_assert_lt(request->index, rf_channel_requests_max(channel));
	if (rig->on_request) {
		rig->on_request(request);
		return;
	}
	if (rf_dec_args(&request->dec, &args) != 1)
		results.status = RF_ST_BAD_MESSAGE;
	else
		results.code = args.code;
	if (results.status == RF_ST_OK && args.code == RF_OP_READ) {
		serve_read(rig, request, &args.read);
		return;
	}
	if (results.code == RF_OP_BYE && rig->keeps_byes) {
		park(rig, request);
		return;
	}
	if (results.code != RF_OP_BYE)
		results.status = RF_ST_BAD_MESSAGE;
	rf_enc_results(&request->enc, &results);
	rf_request_answer(request, NULL, 0);
}

static void returned(struct rf_channel *channel, uint32_t grant_id)
{
	struct rpc_channel *side = rf_channel_context(channel);

	side->returned_count++;
	side->last_returned = grant_id;
}

static void channel_closed(struct rf_channel *channel, int err)
{
	struct rpc_channel *side = rf_channel_context(channel);

	cr_assert_not(side->is_closed);
	side->is_closed = true;
	side->err = err;
	cr_assert_null(rf_channel_ep(channel));
}

static void channel_freed(struct rf_channel *channel)
{
	struct rpc_channel *side = rf_channel_context(channel);

	cr_assert(side->is_closed);
	side->channel = NULL;
}

static void hello(struct rf_greeter *greeter, const struct rf_hello *in,
		  const void *message, size_t size)
{
	static const struct rf_channel_events events = {
		.request = requested,
		.returned = returned,
		.closed = channel_closed,
		.freed = channel_freed,
	};
	struct rpc_channel *side = rf_greeter_context(greeter);
	struct rpc_rig *rig = side->rig;
	struct rf_hello_reply reply = {
		.version = in->version,
		.limits = rig->server_limits,
		.epoch = RPC_EPOCH,
		.lease_ms = 60000,
		.session = 1,
	};
	uint8_t proof[RF_PROOF_SIZE] = { 0 };
	int err;

	if (rig->is_mute)
		return;
	if (rf_hello_verify(message, size, &rig->server_key,
			    rf_greeter_nonce(greeter), proof))
		reply.status = RF_ST_BAD_KEY;
	else
		reply.status = (uint16_t)rig->refuses_with;
	if (rig->refuses_because)
		snprintf(reply.reason, sizeof(reply.reason), "%s",
			 rig->refuses_because);
	if (reply.status == RF_ST_OK) {
		err = rf_greeter_admit(greeter, &reply, &rig->reply_key, proof,
				       &events, side, &side->channel);
		if (!err) {
			side->greeter = NULL;
			return;
		}
		reply.status = (uint16_t)rf_status_from_errno(err);
		snprintf(reply.reason, sizeof(reply.reason), "not admitted");
	}
	rf_greeter_refuse(greeter, &reply, &rig->reply_key, proof);
}

static void greeter_closed(struct rf_greeter *greeter, int err)
{
	struct rpc_channel *side = rf_greeter_context(greeter);

	cr_assert_not(side->is_closed);
	side->greeter = NULL;
	side->is_closed = true;
	side->err = err;
}

static void on_connect(void *context, struct rf_incoming *incoming,
		       const void *data, size_t size)
{
	static const struct rf_greeter_events events = {
		.hello = hello,
		.closed = greeter_closed,
	};
	struct rpc_rig *rig = context;
	struct rpc_channel *side = &rig->channels[rig->channel_count];
	int err;

	cr_assert_lt(rig->channel_count, RPC_CHANNELS_MAX);
	side->rig = rig;
	err = rf_greeter_accept(&rig->server_config, incoming, data, size,
				&events, side, &side->greeter);
	if (err) {
		rig->accept_errors++;
		rig->last_accept_error = err;
		return;
	}
	rig->channel_count++;
}

static void flush_all(struct rf_hook *hook)
{
	struct rpc_rig *rig = rf_container_of(hook, struct rpc_rig, flush_hook);

	for (unsigned int i = 0; i < rig->channel_count && !rig->holds_answers;
	     i++)
		if (rig->channels[i].channel)
			rf_channel_flush(rig->channels[i].channel);
}

void rpc_release(struct rpc_rig *rig, unsigned int index)
{
	struct rf_request *request = rig->parked[index];

	cr_assert_lt(index, rig->parked_count);
	memmove(&rig->parked[index], &rig->parked[index + 1],
		(--rig->parked_count - index) * sizeof(rig->parked[0]));
	answer(rig, request);
	flush_all(&rig->flush_hook);
}

void rpc_release_all(struct rpc_rig *rig)
{
	while (rig->parked_count > 0)
		rpc_release(rig, 0);
}

bool rpc_all_freed(const struct rpc_rig *rig)
{
	for (unsigned int i = 0; i < rig->channel_count; i++)
		if (rig->channels[i].channel || rig->channels[i].greeter)
			return false;
	return true;
}

/* ---- life ------------ */

static struct rf_pool *make_pool(const char *name, uint32_t count)
{
	const struct rf_pool_config config = {
		.name = name,
		.classes = { { RPC_BUF_SIZE, count }, { 65536, 4 } },
		.class_count = 2,
	};
	struct rf_pool *pool;

	cr_assert_eq(rf_pool_create(&config, &pool), 0);
	return pool;
}

static void open_side(struct rpc_rig *rig, struct rf_pd **pd,
		      struct rf_poller **poller, struct rf_pool *pool,
		      struct rf_mr **mr)
{
	cr_assert_eq(rf_pd_create(rig->fab, pd), 0);
	cr_assert_eq(rf_poller_create(rig->fab, 4096, poller), 0);
	cr_assert_eq(rf_pool_register(pool, *pd, RF_LOCAL_WRITE |
				      RF_READ_SINK | RF_WINDOW_BIND, mr), 0);
	cr_assert_eq(rf_reactor_add_poller(rig->reactor, *poller), 0);
}

static void close_side(struct rpc_rig *rig, struct rf_pd *pd,
		       struct rf_poller *poller, struct rf_pool *pool,
		       struct rf_mr *mr)
{
	rf_reactor_remove_poller(rig->reactor, poller);
	rf_poller_destroy(poller);
	rf_mr_deregister(mr);
	rf_pool_destroy(pool);
	rf_pd_destroy(pd);
}

static const struct rf_hello_limits usual_limits = {
	.inline_max = RPC_INLINE_MAX,
	.msg_max = RPC_MSG_MAX,
	.slots = RPC_SLOTS,
	.control_slots = RPC_CONTROL_SLOTS,
	.server_msgs = RPC_SERVER_MSGS,
	.channels = 1,
	.block_max = 65536,
};

static void configure_server(struct rpc_rig *rig)
{
	rig->server_config = (struct rf_server_config){
		.reactor = rig->reactor,
		.poller = rig->server_poller,
		.pd = rig->server_pd,
		.mr = rig->server_mr,
		.pool = rig->server_pool,
		.hello_ms = RPC_SETUP_MS,
		.send_depth = 64,
		.recv_depth = 64,
		.reads_in = 8,
	};
	rig->server_limits = usual_limits;
	rig->flush_hook.run = flush_all;
	rf_hook_add(rig->reactor, &rig->flush_hook);
}

static void listen_at(struct rpc_rig *rig, uint16_t port)
{
	struct sockaddr_in *in = (void *)&rig->address;

	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in->sin_port = htons(port);
	rig->address_size = sizeof(*in);
	cr_assert_eq(rf_listener_open(rig->server_poller,
				      (struct sockaddr *)&rig->address,
				      rig->address_size, on_connect, rig,
				      &rig->listener), 0);
	cr_assert_eq(rf_listener_address(rig->listener, &rig->address), 0);
}

static void open_on(struct rpc_rig *rig, const char *uri)
{
	cr_assert_eq(rf_fabric_open(uri, &rig->fab), 0);
	cr_assert_eq(rf_reactor_create(&rig->reactor), 0);
	if (rig->world)
		rf_reactor_set_clock(rig->reactor, world_clock, rig->world);
	rig->server_pool = make_pool("server", 256);
	rig->client_pool = make_pool("client", 256);
	open_side(rig, &rig->server_pd, &rig->server_poller, rig->server_pool,
		  &rig->server_mr);
	open_side(rig, &rig->client_pd, &rig->client_poller, rig->client_pool,
		  &rig->client_mr);
	configure_server(rig);
	listen_at(rig, rig->world ? RF_DEFAULT_PORT : 0);
}

void rpc_rig_open(struct rpc_rig *rig, uint64_t seed)
{
	char name[32], uri[64];

	memset(rig, 0, sizeof(*rig));
	snprintf(name, sizeof(name), "rpc-%p", (void *)rig);
	snprintf(uri, sizeof(uri), "loop://%s", name);
	rig->world = rf_loop_world_get(name);
	rf_loop_set_seed(rig->world, seed);
	rf_loop_set_scribble(rig->world, true);
	open_on(rig, uri);
}

void rpc_rig_open_real(struct rpc_rig *rig, const char *uri)
{
	memset(rig, 0, sizeof(*rig));
	open_on(rig, uri);
}

void rpc_rig_close(struct rpc_rig *rig)
{
	rpc_release_all(rig);
	for (unsigned int i = 0; i < rig->channel_count; i++)
		if (rig->channels[i].channel)
			rf_channel_close(rig->channels[i].channel);
	rpc_until(rig, rpc_all_freed(rig) && rpc_pools_are_full(rig));
	if (rig->world)
		rpc_settle(rig);
	if (rig->listener)
		rf_listener_close(rig->listener);
	rf_hook_remove(rig->reactor, &rig->flush_hook);
	close_side(rig, rig->server_pd, rig->server_poller, rig->server_pool,
		   rig->server_mr);
	close_side(rig, rig->client_pd, rig->client_poller, rig->client_pool,
		   rig->client_mr);
	rf_reactor_destroy(rig->reactor);
	rf_fabric_close(rig->fab);
	if (rig->world)
		rf_loop_world_put(rig->world);
}

/* ---- clients ------------ */

static void opened(struct rf_client *client, const struct rf_hello_reply *reply)
{
	struct rpc_client *side = rf_client_context(client);

	side->opened++;
	side->reply = *reply;
}

static void client_closed(struct rf_client *client, int err, const char *reason)
{
	struct rpc_client *side = rf_client_context(client);

	cr_assert_eq(side->closed++, 0);
	side->client = NULL;
	side->err = err;
	snprintf(side->reason, sizeof(side->reason), "%s", reason);
}

void rpc_client_init(struct rpc_rig *rig, struct rpc_client *client)
{
	memset(client, 0, sizeof(*client));
	client->rig = rig;
	client->config = (struct rf_client_config){
		.reactor = rig->reactor,
		.poller = rig->client_poller,
		.pd = rig->client_pd,
		.mr = rig->client_mr,
		.pool = rig->client_pool,
		.address = rig->address,
		.address_size = rig->address_size,
		.key = rig->server_key,
		.hello = { .limits = usual_limits, .export = "data",
			   .host = "tester" },
		.setup_ms = RPC_SETUP_MS,
		.send_depth = 64,
		.reads_out = 8,
	};
}

void rpc_client_start(struct rpc_client *client)
{
	static const struct rf_client_events events = {
		.opened = opened,
		.closed = client_closed,
	};

	cr_assert_eq(rf_client_open(&client->config, &events, client,
				    &client->client), 0);
}

void rpc_client_open(struct rpc_rig *rig, struct rpc_client *client)
{
	rpc_client_init(rig, client);
	rpc_client_start(client);
	rpc_until(rig, client->opened || client->closed);
	cr_assert(client->opened, "%s", client->reason);
}

static void call_done(struct rf_call *call, int err, struct rf_dec *reply)
{
	struct rpc_call *side = rf_container_of(call, struct rpc_call, call);
	static uint64_t order;
	struct rf_results results;

	cr_assert_eq(side->done++, 0);
	side->err = err;
	side->order = ++order;
	if (err) {
		cr_assert_null(reply);
	} else {
		cr_assert_eq(rf_dec_results(reply, &results), 1);
		cr_assert_eq(results.status, RF_ST_OK);
		cr_assert_eq(results.read.version, side->tag);
		cr_assert_eq(rf_dec_results(reply, &results), 0);
	}
	/* The fabric has let go: whoever reads it still would see this. */
	memset(call->msg->mem, 0xee, call->msg->size);
	rf_pool_put(call->msg);
	if (side->then)
		side->then(side);
}

static void call_queued(struct rf_call *call)
{
	struct rpc_call *side = rf_container_of(call, struct rpc_call, call);

	cr_assert_eq(side->queued++, 0);
	cr_assert_neq(call->ticket, 0);
}

static int encode_read(struct rf_enc *enc, uint64_t tag, enum rpc_how how,
		       struct rf_header *header)
{
	struct rf_args args = { .code = RF_OP_READ };

	args.read.open = how;
	args.read.offset = tag;
	rf_enc_args(enc, &args);
	return rf_enc_finish(enc, header);
}

void rpc_call_init(struct rpc_call *call, struct rpc_client *client,
		   uint64_t tag, enum rpc_how how)
{
	struct rf_header header = { .type = RF_MSG_REQUEST };
	struct rf_enc enc;

	memset(call, 0, sizeof(*call));
	call->client = client;
	call->tag = tag;
	call->call.done = call_done;
	call->call.queued = call_queued;
	call->call.msg = rf_pool_get(client->rig->client_pool, RPC_MSG_MAX);
	cr_assert_not_null(call->call.msg);
	rf_enc_init(&enc, call->call.msg->mem, RPC_MSG_MAX);
	call->call.msg_size = (uint32_t)encode_read(&enc, tag, how, &header);
}

void rpc_call_submit(struct rpc_call *call)
{
	rf_client_submit(call->client->client, &call->call);
	cr_assert_eq(call->done, 0, "done() from inside submit");
}

void rpc_call_start(struct rpc_call *call, struct rpc_client *client,
		    uint64_t tag, enum rpc_how how)
{
	rpc_call_init(call, client, tag, how);
	rpc_call_submit(call);
}

/* ---- raw endpoints ------------ */

static void raw_connected(struct rf_ep *ep, const void *data, size_t size)
{
	struct rpc_raw *raw = rf_ep_context(ep);

	raw->is_connected = true;
	if (!raw->is_server)
		cr_assert_eq(rf_hello_accept_decode(data, size, &raw->accept),
			     0);
}

static void raw_rejected(struct rf_ep *ep, const void *data, size_t size)
{
	struct rpc_raw *raw = rf_ep_context(ep);

	raw->rejected++;
	cr_assert_eq(rf_hello_accept_decode(data, size, &raw->accept), 0);
}

static void raw_closed(struct rf_ep *ep, int reason)
{
	struct rpc_raw *raw = rf_ep_context(ep);

	raw->closed++;
	raw->reason = reason;
	raw->ep = NULL;
	for (unsigned int i = 0; i < RPC_RAW_RECVS; i++)
		rf_pool_put(raw->recvs[i].buf);
	rf_pool_put(raw->send_buf);
}

static void raw_received(struct rf_op *op, int status)
{
	struct rpc_raw_recv *recv = rf_container_of(op, struct rpc_raw_recv,
						    op);

	if (status)
		return;
	recv->has_come = true;
	if (rf_header_load(recv->buf->mem, op->size, &recv->header))
		memset(&recv->header, 0, sizeof(recv->header));
	recv->raw->come++;
}

static void raw_sent(struct rf_op *op, int status)
{
	(void)status;
	rf_container_of(op, struct rpc_raw, send_op)->is_sending = false;
}

static const struct rf_ep_events raw_events = {
	.connected = raw_connected,
	.closed = raw_closed,
	.rejected = raw_rejected,
};

static void raw_init(struct rpc_rig *rig, struct rpc_raw *raw, bool is_server)
{
	struct rf_pool *pool = is_server ? rig->server_pool : rig->client_pool;

	memset(raw, 0, sizeof(*raw));
	raw->rig = rig;
	raw->is_server = is_server;
	raw->send_buf = rf_pool_get(pool, RPC_BUF_SIZE);
	raw->send_op.done = raw_sent;
	for (unsigned int i = 0; i < RPC_RAW_RECVS; i++) {
		raw->recvs[i].raw = raw;
		raw->recvs[i].op.done = raw_received;
		raw->recvs[i].buf = rf_pool_get(pool, RPC_BUF_SIZE);
		cr_assert_not_null(raw->recvs[i].buf);
	}
}

static struct rf_ep_config raw_config(const struct rpc_raw *raw)
{
	return (struct rf_ep_config){
		.pd = raw->is_server ? raw->rig->server_pd
				     : raw->rig->client_pd,
		.send_depth = 64,
		.recv_depth = RPC_RAW_RECVS,
		.reads_out = 4,
		.reads_in = 4,
		.setup_ms = RPC_SETUP_MS,
	};
}

static struct rf_mr *raw_mr(const struct rpc_raw *raw)
{
	return raw->is_server ? raw->rig->server_mr : raw->rig->client_mr;
}

void rpc_raw_connect(struct rpc_rig *rig, struct rpc_raw *raw,
		     const void *data, size_t size)
{
	struct rf_ep_config config;

	raw_init(rig, raw, false);
	config = raw_config(raw);
	cr_assert_eq(rf_ep_connect(rig->client_poller,
				   (struct sockaddr *)&rig->address,
				   rig->address_size, data, size, &config,
				   &raw_events, raw, &raw->ep), 0);
	for (unsigned int i = 0; i < RPC_RAW_RECVS; i++) {
		const struct rf_recv recv = {
			&raw->recvs[i].op,
			{ raw->recvs[i].buf->mem, RPC_BUF_SIZE, raw_mr(raw) },
		};

		cr_assert_eq(rf_ep_post_recv(raw->ep, &recv), 0);
	}
}

static void on_raw_connect(void *context, struct rf_incoming *incoming,
			   const void *data, size_t size)
{
	struct rpc_raw *raw = context;
	struct rf_ep_config config = raw_config(raw);
	struct rf_recv recvs[RPC_RAW_RECVS];
	uint8_t answer_data[RF_ACCEPT_DATA_SIZE];

	(void)data;
	(void)size;
	for (unsigned int i = 0; i < RPC_RAW_RECVS; i++)
		recvs[i] = (struct rf_recv){
			&raw->recvs[i].op,
			{ raw->recvs[i].buf->mem, RPC_BUF_SIZE, raw_mr(raw) },
		};
	raw->accept.version = RF_PROTOCOL_VERSION;
	rf_hello_accept_encode(answer_data, &raw->accept);
	cr_assert_eq(rf_ep_accept(incoming, raw->rig->server_poller,
				  answer_data, sizeof(answer_data), &config,
				  &raw_events, raw, recvs, RPC_RAW_RECVS,
				  &raw->ep), 0);
}

void rpc_raw_listen(struct rpc_rig *rig, struct rpc_raw *raw)
{
	raw_init(rig, raw, true);
	rf_listener_close(rig->listener);
	cr_assert_eq(rf_listener_open(rig->server_poller,
				      (struct sockaddr *)&rig->address,
				      rig->address_size, on_raw_connect, raw,
				      &rig->listener), 0);
}

void rpc_raw_open(struct rpc_rig *rig, struct rpc_raw *raw)
{
	const struct rf_hello_connect versions = { 1, 1 };
	const struct rf_hello in = {
		.version = 1,
		.limits = usual_limits,
		.export = "data",
	};
	uint8_t data[RF_CONNECT_DATA_SIZE], message[RF_HELLO_SIZE_MAX];
	int size;

	rf_hello_connect_encode(data, &versions);
	rpc_raw_connect(rig, raw, data, sizeof(data));
	rpc_until(rig, raw->is_connected);
	size = rf_hello_encode(message, &in, &rig->server_key,
			       raw->accept.nonce, raw->proof);
	rpc_raw_send(raw, message, (size_t)size);
	rpc_until(rig, raw->come == 1);
	cr_assert_eq(raw->recvs[0].header.type, RF_MSG_HELLO_REPLY);
}

void rpc_raw_send(struct rpc_raw *raw, const void *message, size_t size)
{
	struct rf_sge sge = { raw->send_buf->mem, (uint32_t)size,
			      raw_mr(raw) };
	const struct rf_work work = { .code = RF_SEND, .op = &raw->send_op,
				      .sge = &sge, .sge_count = 1 };

	cr_assert_leq(size, RPC_BUF_SIZE);
	memcpy(raw->send_buf->mem, message, size);
	raw->is_sending = true;
	cr_assert_eq(rf_ep_post(raw->ep, &work, 1), 0);
	rpc_until(raw->rig, !raw->is_sending);
}

size_t rpc_raw_request(void *out, uint16_t slot, uint32_t seq, uint64_t tag,
		       enum rpc_how how)
{
	struct rf_header header = {
		.type = RF_MSG_REQUEST,
		.slot = slot,
		.seq = seq,
		.epoch = RPC_EPOCH,
	};
	struct rf_enc enc;

	rf_enc_init(&enc, out, RPC_MSG_MAX);
	return (size_t)encode_read(&enc, tag, how, &header);
}

void rpc_raw_close(struct rpc_raw *raw)
{
	if (raw->ep)
		rf_ep_close(raw->ep);
	rpc_until(raw->rig, !raw->ep);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/common/raw_session.h"

#include "storage-server/exec.h"

#include <errno.h>
#include <stdlib.h>

enum { BUF_SIZE = 40960 };

/* ---- the endpoint ------------------------------------------------------- */

static void on_connected(struct rf_ep *ep, const void *data, size_t size)
{
	struct raws *raws = rf_ep_context(ep);
	struct rf_hello_accept accept;

	cr_assert_eq(rf_hello_accept_decode(data, size, &accept), 0);
	memcpy(raws->nonce, accept.nonce, RF_NONCE_SIZE);
	raws->is_connected = true;
}

static void on_closed(struct rf_ep *ep, int reason)
{
	struct raws *raws = rf_ep_context(ep);

	(void)reason;
	raws->ep = NULL;
	raws->closed++;
	for (unsigned int i = 0; i < RAWS_RECVS; i++)
		rf_pool_put(raws->recvs[i].buf);
	rf_pool_put(raws->send_buf);
}

static void post_recv(struct raws_recv *recv)
{
	const struct rf_recv post = {
		&recv->op,
		{ recv->buf->mem, BUF_SIZE, recv->raws->rig->mr },
	};

	if (recv->raws->ep)
		rf_ep_post_recv(recv->raws->ep, &post);
}

static void decode(struct raws *raws, size_t size)
{
	struct rf_dec dec;

	raws->count = 0;
	cr_assert_eq(rf_header_load(raws->message, size, &raws->header), 0);
	if (raws->header.type < RF_MSG_REQUEST ||
	    raws->header.type > RF_MSG_FINISHED)
		return;
	raws->ack += raws->header.type == RF_MSG_FINISHED;
	cr_assert_eq(rf_dec_init(&dec, raws->message, size), 0);
	while (raws->count < RF_OPS_MAX) {
		int ret = rf_dec_results(&dec, &raws->results[raws->count]);

		if (ret == 0)
			break;
		cr_assert(ret == 1 || ret == -EOPNOTSUPP);
		raws->count++;
	}
}

static void on_received(struct rf_op *op, int status)
{
	struct raws_recv *recv = rf_container_of(op, struct raws_recv, op);
	struct raws *raws = recv->raws;

	if (status)
		return;
	cr_assert_leq(op->size, sizeof(raws->message));
	memcpy(raws->message, recv->buf->mem, op->size);
	decode(raws, op->size);
	raws->come++;
	if (raws->took)
		raws->took(raws);
	post_recv(recv);
}

static void on_sent(struct rf_op *op, int status)
{
	(void)status;
	rf_container_of(op, struct raws, send_op)->is_sending = false;
}

void raws_connect(struct raws *raws)
{
	static const struct rf_ep_events events = {
		.connected = on_connected,
		.closed = on_closed,
	};
	const struct rf_hello_connect versions = { 1, 1 };
	const struct rf_ep_config config = {
		.pd = raws->rig->pd,
		.send_depth = 64,
		.recv_depth = RAWS_RECVS,
		.reads_out = 4,
		.setup_ms = 20000,
	};
	struct sockaddr_storage address = raws->address;
	uint8_t data[RF_CONNECT_DATA_SIZE];

	cr_assert_null(raws->ep);
	raws->is_connected = false;
	raws->ack = 0;
	raws->send_buf = rf_pool_get(raws->rig->pool, BUF_SIZE);
	raws->send_op.done = on_sent;
	rf_hello_connect_encode(data, &versions);
	if (address.ss_family == 0)
		cr_assert_eq(server_address(raws->rig->server, 0, &address),
			     0);
	cr_assert_eq(rf_ep_connect(raws->rig->poller,
				   (struct sockaddr *)&address,
				   sizeof(address), data, sizeof(data),
				   &config, &events, raws, &raws->ep), 0);
	for (unsigned int i = 0; i < RAWS_RECVS; i++) {
		raws->recvs[i] = (struct raws_recv){
			.op = { .done = on_received },
			.raws = raws,
			.buf = rf_pool_get(raws->rig->pool, BUF_SIZE),
		};
		post_recv(&raws->recvs[i]);
	}
	srig_until(raws->rig, raws->is_connected || !raws->ep);
	cr_assert(raws->ep, "the connection was refused");
}

/* ---- messages ----------------------------------------------------------- */

void raws_post(struct raws *raws, const void *message, size_t size)
{
	struct rf_sge sge = { raws->send_buf->mem, (uint32_t)size,
			      raws->rig->mr };
	const struct rf_work work = { .code = RF_SEND, .op = &raws->send_op,
				      .sge = &sge, .sge_count = 1 };

	cr_assert_leq(size, BUF_SIZE);
	memcpy(raws->send_buf->mem, message, size);
	raws->is_sending = true;
	cr_assert_eq(rf_ep_post(raws->ep, &work, 1), 0);
}

void raws_send(struct raws *raws, const void *message, size_t size)
{
	raws_post(raws, message, size);
	srig_until(raws->rig, !raws->is_sending);
}

void raws_wait(struct raws *raws)
{
	unsigned int come = raws->come;

	srig_until(raws->rig, raws->come > come || !raws->ep);
	cr_assert(raws->ep, "the server has closed the connection");
}

void raws_wait_closed(struct raws *raws)
{
	srig_until(raws->rig, !raws->ep);
}

/* ---- the session -------------------------------------------------------- */

void raws_init(struct srig *rig, struct raws *raws)
{
	memset(raws, 0, sizeof(*raws));
	raws->rig = rig;
	raws->hello = (struct rf_hello){
		.version = RF_PROTOCOL_VERSION,
		.features = RF_FEATURE_DATA_CRC,
		.limits = {
			.inline_max = RF_INLINE_DEFAULT,
			.msg_max = RAWS_MSG_MAX,
			.slots = RAWS_SLOTS,
			.control_slots = RAWS_CONTROL_SLOTS,
			.server_msgs = 4,
			.channels = 1,
			.write_slots = 16,
			.block_max = 1 << 20,
		},
		.host = "raw",
		.export = "data",
	};
	rf_random(raws->hello.client_uuid, RF_UUID_SIZE);
}

struct session *raws_server_side(const struct raws *raws)
{
	return session_find(raws->rig->server, raws->session);
}

void raws_cut(struct raws *raws)
{
	struct session *session = raws_server_side(raws);

	if (raws->ep)
		rf_ep_close(raws->ep);
	raws_wait_closed(raws);
	if (raws->rig->server && session)
		srig_until(raws->rig, !raws_server_side(raws) ||
			   !raws_server_side(raws)->channel);
}

static void say_hello(struct raws *raws)
{
	uint8_t message[RF_HELLO_SIZE_MAX];
	unsigned int come = raws->come;
	int size = rf_hello_encode(message, &raws->hello, &raws->key,
				   raws->nonce, raws->hello_proof);

	raws_post(raws, message, (size_t)size);
	srig_until(raws->rig, raws->come > come && !raws->is_sending);
	cr_assert_eq(rf_hello_reply_decode(raws->message, raws->header.size,
					   &raws->reply), 0);
	cr_assert_eq(raws->reply.status, RF_ST_OK, "%s", raws->reply.reason);
	raws->session = raws->reply.session;
	raws->epoch = raws->reply.epoch;
	rf_hello_secret(raws->secret, &raws->key, raws->hello_proof,
			raws->session);
}

void raws_open(struct srig *rig, struct raws *raws)
{
	raws_init(rig, raws);
	raws_begin(raws);
}

void raws_begin(struct raws *raws)
{
	raws_connect(raws);
	say_hello(raws);
	cr_assert_eq(RAWS_RUN(raws, 0, 1, NULL, { .code = RF_OP_IDENTITY,
					.identity = { .index = 1 } }),
		     RF_ST_OK);
}

int raws_encode_resume(struct raws *raws, void *message,
		       uint8_t proof[RF_PROOF_SIZE])
{
	struct rf_resume resume = {
		.version = RF_PROTOCOL_VERSION,
		.epoch = raws->epoch,
		.session = raws->session,
	};

	memcpy(resume.client_uuid, raws->hello.client_uuid, RF_UUID_SIZE);
	rf_random(resume.nonce, RF_NONCE_SIZE);
	return rf_resume_encode(message, &resume, &raws->key, raws->secret,
				raws->nonce, proof);
}

unsigned int raws_resume(struct raws *raws)
{
	uint8_t message[RF_HELLO_SIZE_MAX], proof[RF_PROOF_SIZE];
	unsigned int come = raws->come;
	int size;

	raws_connect(raws);
	size = raws_encode_resume(raws, message, proof);
	raws_post(raws, message, (size_t)size);
	srig_until(raws->rig, raws->come > come && !raws->is_sending);
	cr_assert_eq(rf_resume_reply_decode(raws->message, raws->header.size,
					    &raws->resumed), 0);
	cr_assert_eq(rf_resume_reply_verify(raws->message, raws->header.size,
					    &raws->key, raws->secret,
					    raws->nonce, proof), 0);
	if (raws->resumed.status == RF_ST_OK)
		raws->epoch = raws->resumed.epoch;
	return raws->resumed.status;
}

/* ---- requests ----------------------------------------------------------- */

size_t raws_encode(struct raws *raws, void *message, uint16_t slot,
		   uint32_t seq, const rf_handle_t *handle,
		   const struct rf_args *args, unsigned int count)
{
	struct rf_args use = { .code = RF_OP_USE };
	struct rf_header header = {
		.type = RF_MSG_REQUEST,
		.slot = slot,
		.seq = seq,
		.epoch = raws->epoch,
		.identity = 1,
		.ack = raws->ack,
	};
	struct rf_enc enc;
	int size;

	rf_enc_init(&enc, message, RAWS_MSG_MAX);
	if (handle) {
		use.use.handle = *handle;
		rf_enc_args(&enc, &use);
	}
	for (unsigned int i = 0; i < count; i++)
		rf_enc_args(&enc, &args[i]);
	size = rf_enc_finish(&enc, &header);
	cr_assert_gt(size, 0);
	return (size_t)size;
}

unsigned int raws_run(struct raws *raws, uint16_t slot, uint32_t seq,
		      const rf_handle_t *handle, const struct rf_args *args,
		      unsigned int count)
{
	static uint8_t message[RAWS_MSG_MAX];
	size_t size = raws_encode(raws, message, slot, seq, handle, args,
				  count);
	unsigned int come = raws->come;

	raws_post(raws, message, size);
	srig_until(raws->rig, (raws->come > come && !raws->is_sending) ||
		   !raws->ep);
	cr_assert(raws->ep, "the server has closed the connection");
	cr_assert_eq(raws->header.type, RF_MSG_REPLY);
	cr_assert_eq(raws->header.slot, slot);
	cr_assert_eq(raws->header.seq, seq);
	cr_assert_eq(raws->header.epoch, raws->epoch);
	cr_assert_gt(raws->count, 0);
	return raws->results[raws->count - 1].status;
}

void raws_lose_answer(struct raws *raws, uint16_t slot, uint32_t seq,
		      const rf_handle_t *handle, const struct rf_args *args,
		      unsigned int count)
{
	static uint8_t message[RAWS_MSG_MAX];
	size_t size = raws_encode(raws, message, slot, seq, handle, args,
				  count);
	uint64_t requests = raws->rig->server->figures.requests;

	raws_send(raws, message, size);
	srig_until(raws->rig,
		   raws->rig->server->figures.requests > requests &&
		   raws->rig->server->active == 0);
	raws_cut(raws);
	/* Whatever came of it, the test shall not look at it. */
	raws->count = 0;
	memset(raws->results, 0, sizeof(raws->results));
}

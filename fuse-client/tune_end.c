/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune_end.c - connecting, answering, moving blocks
 *
 * Operation.  The connecting side's private data say who it is.  Its first
 * message asks for the scratch memory; the answer is {address, key, size},
 * little-endian.  Each later message is answered with one of its size.
 *
 * When it fails.  The first reason is kept; the passive end forgets the
 * connection and waits for the next.
 */
#include "tune_end.h"

#include "libproto/base.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

enum {
	BUDGET = 64,
	REMOTE_SIZE = 16,
	REJECT_BUSY = 1,
	REJECT_UNKNOWN = 2,
	CHAIN_FROM = 8,		/* depth, from which on works are chained */
	CHAIN_SHARE = 4,	/* so many chains are in flight then */
	RUNS_PER_CLOCK = 16,	/* while it spins */
};

/* With the version of what follows. */
static const uint8_t greeting[8] = { 'R', 'F', 'T', 'U', 'N', 'E', 0, 1 };

static struct tune_op *op_of(struct rf_op *op)
{
	return rf_container_of(op, struct tune_op, op);
}

static void fail(struct tune_end *end, int err)
{
	if (!end->err)
		end->err = err;
}

static int post(struct tune_end *end, const struct rf_work *works,
		unsigned int count)
{
	int err = rf_ep_post(end->ep, works, count);

	if (err)
		fail(end, err);
	return err;
}

static void op_done(struct rf_op *op, int status)
{
	struct tune_end *end = op_of(op)->end;

	if (status)
		fail(end, status);
	end->busy--;
}

/* ---- messages ------------------------------------------------------------ */

/* A Send of the first bytes of the scratch, behind a work or alone. */
static int send_message(struct tune_end *end, const struct rf_work *before,
			uint32_t size)
{
	struct rf_sge sge = { end->data, size, end->data_mr };
	struct rf_work works[2];
	struct rf_work *send = works;

	if (before)
		*send++ = *before;
	*send = (struct rf_work){ .code = RF_SEND, .sge = &sge,
				  .sge_count = 1 };
	/* The last one's notice may come after the peer's next message. */
	if (end->send_op.op.state == 0) {
		send->op = &end->send_op.op;
		end->busy++;
	}
	return post(end, works, before ? 2 : 1);
}

/* What the peer needs to reach our scratch, and the bind it may take. */
static void lend(struct tune_end *end)
{
	struct rf_work bind = { .code = RF_BIND, .window = end->window };
	struct rf_remote remote;
	uint64_t addr;
	uint32_t rkey, size;

	remote = end->window ?
		rf_window_next(end->window, end->data_mr, end->data,
			       TUNE_SCRATCH, RF_REMOTE_READ | RF_REMOTE_WRITE) :
		rf_mr_remote(end->data_mr, end->data, TUNE_SCRATCH);
	addr = htole64(remote.addr);
	rkey = htole32(remote.rkey);
	size = htole32(remote.size);
	memcpy(end->data, &addr, sizeof(addr));
	memcpy(end->data + 8, &rkey, sizeof(rkey));
	memcpy(end->data + 12, &size, sizeof(size));
	send_message(end, end->window ? &bind : NULL, REMOTE_SIZE);
}

static void take_remote(struct tune_end *end, const uint8_t *message,
			uint32_t message_size)
{
	uint64_t addr;
	uint32_t rkey, size;

	if (message_size != REMOTE_SIZE) {
		fail(end, -EPROTO);
		return;
	}
	memcpy(&addr, message, sizeof(addr));
	memcpy(&rkey, message + 8, sizeof(rkey));
	memcpy(&size, message + 12, sizeof(size));
	end->remote = (struct rf_remote){ le64toh(addr), le32toh(rkey),
					  le32toh(size) };
	if (end->remote.size != TUNE_SCRATCH)
		fail(end, -EPROTO);
}

static void recv_done(struct rf_op *op, int status);

static uint8_t *message_at(const struct tune_end *end, unsigned int i)
{
	return end->messages + (size_t)i * end->message_max;
}

static struct rf_recv make_recv(struct tune_end *end, unsigned int i)
{
	end->recv_ops[i].op.done = recv_done;
	return (struct rf_recv){ &end->recv_ops[i].op, {
		message_at(end, i), end->message_max, end->messages_mr } };
}

static void recv_done(struct rf_op *op, int status)
{
	struct tune_end *end = op_of(op)->end;
	unsigned int i = (unsigned int)(op_of(op) - end->recv_ops);
	uint32_t size = op->size;
	struct rf_recv recv;

	if (status || end->err)
		return;
	if (!end->is_passive && !end->is_greeted)
		take_remote(end, message_at(end, i), size);
	end->came++;
	/* The other Receive is for what the peer says to it. */
	if (end->is_passive && !end->is_greeted)
		lend(end);
	else if (end->is_passive)
		send_message(end, NULL, size);
	end->is_greeted = true;
	recv = make_recv(end, i);
	rf_ep_post_recv(end->ep, &recv);
}

/* ---- a connection -------------------------------------------------------- */

static void connected(struct rf_ep *ep, const void *hello, size_t size)
{
	struct tune_end *end = rf_ep_context(ep);

	(void)hello;
	(void)size;
	end->is_connected = true;
}

static void rejected(struct rf_ep *ep, const void *hello, size_t size)
{
	struct tune_end *end = rf_ep_context(ep);
	bool is_busy = size == 1 && *(const uint8_t *)hello == REJECT_BUSY;

	fail(end, is_busy ? -EBUSY : -EPROTO);
}

static void closed(struct rf_ep *ep, int reason)
{
	struct tune_end *end = rf_ep_context(ep);

	fail(end, reason ? reason : -ECONNRESET);
	end->ep = NULL;
	end->is_connected = false;
	end->connections++;
}

static const struct rf_ep_events events = {
	.connected = connected,
	.closed = closed,
	.rejected = rejected,
};

static struct rf_ep_config make_config(const struct tune_end *end)
{
	const struct rf_limits *limits = rf_fabric_limits(end->fab);
	uint16_t reads = (uint16_t)rf_min_u64(TUNE_DEPTH_MAX,
					      limits->reads_max);

	return (struct rf_ep_config){
		.pd = end->pd,
		.send_depth = (uint16_t)rf_min_u64(TUNE_SEND_DEPTH,
						   limits->send_depth_max),
		.recv_depth = TUNE_RECVS,
		.reads_out = reads,
		.reads_in = reads,
		.setup_ms = TUNE_SETUP_MS,
		.keepalive_ms = 2 * TUNE_SETUP_MS,
	};
}

/* Before each connection. */
static void forget(struct tune_end *end)
{
	end->is_greeted = false;
	end->came = 0;
	end->busy = 0;
	end->err = 0;
}

static void reject(struct rf_incoming *incoming, uint8_t why)
{
	rf_ep_reject(incoming, &why, sizeof(why));
}

static void requested(void *context, struct rf_incoming *incoming,
		      const void *hello, size_t hello_size)
{
	struct tune_end *end = context;
	struct rf_ep_config config = make_config(end);
	struct rf_recv recvs[TUNE_RECVS];

	if (hello_size != sizeof(greeting) ||
	    memcmp(hello, greeting, sizeof(greeting)) != 0) {
		reject(incoming, REJECT_UNKNOWN);
		return;
	}
	if (end->ep) {
		reject(incoming, REJECT_BUSY);
		return;
	}
	forget(end);
	for (unsigned int i = 0; i < TUNE_RECVS; i++)
		recvs[i] = make_recv(end, i);
	/* If it fails, the peer learns it, and may come again. */
	if (rf_ep_accept(incoming, end->poller, NULL, 0, &config, &events, end,
			 recvs, TUNE_RECVS, &end->ep))
		end->ep = NULL;
}

int tune_end_listen(struct tune_end *end, const struct sockaddr *addr,
		    socklen_t addr_size)
{
	return rf_listener_open(end->poller, addr, addr_size, requested, end,
				&end->listener);
}

/* ---- the active end ------------------------------------------------------ */

/* Spin for a while, then sleep until something comes. */
static void wait_once(struct tune_end *end)
{
	uint64_t end_ns;

	if (end->poll_us) {
		end_ns = rf_now_ns() + end->poll_us * UINT64_C(1000);
		do
			for (unsigned int i = 0; i < RUNS_PER_CLOCK; i++)
				if (rf_poller_run(end->poller, BUDGET))
					return;
		while (rf_now_ns() < end_ns);
	}
	rf_poller_wait(end->poller, BUDGET, -1);
}

int tune_end_connect(struct tune_end *end, const struct sockaddr *addr,
		     socklen_t addr_size)
{
	struct rf_ep_config config = make_config(end);
	int err;

	forget(end);
	err = rf_ep_connect(end->poller, addr, addr_size, greeting,
			    sizeof(greeting), &config, &events, end, &end->ep);
	if (err)
		return err;
	for (unsigned int i = 0; i < TUNE_RECVS && !err; i++) {
		struct rf_recv recv = make_recv(end, i);

		err = rf_ep_post_recv(end->ep, &recv);
	}
	while (!end->is_connected && end->ep)
		wait_once(end);
	return end->err ? end->err : tune_end_round_trip(end, 1);
}

void tune_end_disconnect(struct tune_end *end)
{
	if (end->ep)
		rf_ep_close(end->ep);
	while (end->ep)
		wait_once(end);
}

int tune_end_round_trip(struct tune_end *end, uint32_t size)
{
	unsigned int before = end->came;

	if (!end->err)
		send_message(end, NULL, size);
	while (!end->err && (end->came == before || end->busy))
		wait_once(end);
	return end->err;
}

/* ---- moving -------------------------------------------------------------- */

struct move {
	struct tune_end *end;
	enum rf_opcode code;
	uint32_t block;
	unsigned int chain, chains;	/* works in one, in flight */
	uint64_t position;		/* in blocks */
};

/* One chain; its last work tells when all are done. */
static int post_chain(struct move *move, struct tune_op *op)
{
	struct tune_end *end = move->end;
	struct rf_work works[TUNE_CHAIN_MAX];
	struct rf_sge sges[TUNE_CHAIN_MAX];
	int err;

	for (unsigned int i = 0; i < move->chain; i++) {
		uint64_t at = move->position++ * move->block % end->span;

		sges[i] = (struct rf_sge){ end->data + at, move->block,
					   end->data_mr };
		works[i] = (struct rf_work){
			.code = move->code, .sge = &sges[i], .sge_count = 1,
			.remote = { end->remote.addr + at, end->remote.rkey,
				    move->block },
		};
	}
	works[move->chain - 1].op = &op->op;
	op->op.done = op_done;
	err = post(end, works, move->chain);
	if (!err)
		end->busy++;
	return err;
}

int tune_end_move(struct tune_end *end, enum rf_opcode code, uint32_t block,
		  unsigned int depth, uint64_t for_ns, uint64_t *count)
{
	struct move move = { .end = end, .code = code, .block = block };
	uint64_t end_ns = rf_now_ns() + for_ns;

	RF_ASSERT(block > 0 && block <= TUNE_BLOCK_MAX &&
		  end->span % block == 0 && end->span <= TUNE_SCRATCH);
	RF_ASSERT(depth > 0 && depth <= TUNE_DEPTH_MAX);
	RF_ASSERT(end->chain <= depth && end->chain <= TUNE_CHAIN_MAX);
	move.chain = end->chain ? end->chain :
		     depth < CHAIN_FROM ? 1 : depth / CHAIN_SHARE;
	move.chains = depth / move.chain;
	do {
		for (unsigned int i = 0; i < move.chains && !end->err; i++)
			if (end->ops[i].op.state == 0)
				post_chain(&move, &end->ops[i]);
		if (!end->err)
			wait_once(end);
	} while (!end->err && rf_now_ns() < end_ns);
	while (!end->err && end->busy)
		wait_once(end);
	*count = move.position;
	/* Behind them on the same connection: all are in place. */
	return code == RF_WRITE ? tune_end_round_trip(end, 1) : end->err;
}

/* ---- life ---------------------------------------------------------------- */

/* Touched, so that no measurement pays for it. */
static uint8_t *map_memory(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

static int open_memory(struct tune_end *end)
{
	const size_t messages = (size_t)TUNE_RECVS * end->message_max;
	bool has_windows = rf_fabric_level(end->fab) == RF_LEVEL_WINDOW;
	unsigned int access = RF_LOCAL_WRITE | RF_READ_SINK;
	int err;

	if (end->is_passive)
		access |= has_windows ? (unsigned int)RF_WINDOW_BIND :
			  (unsigned int)(RF_REMOTE_READ | RF_REMOTE_WRITE);
	end->data = map_memory(TUNE_SCRATCH);
	end->messages = map_memory(messages);
	if (!end->data || !end->messages)
		return -ENOMEM;
	err = rf_mr_register(end->pd, end->data, TUNE_SCRATCH, access,
			     &end->data_mr);
	if (!err)
		err = rf_mr_register(end->pd, end->messages, messages,
				     RF_LOCAL_WRITE, &end->messages_mr);
	if (!err && end->is_passive && has_windows)
		err = rf_window_create(end->pd, &end->window);
	return err;
}

static void init_ops(struct tune_end *end)
{
	for (unsigned int i = 0; i < TUNE_RECVS; i++)
		end->recv_ops[i].end = end;
	for (unsigned int i = 0; i < TUNE_DEPTH_MAX; i++)
		end->ops[i].end = end;
	end->send_op.end = end;
	end->send_op.op.done = op_done;
}

int tune_end_open(struct tune_end *end, const char *uri,
		  const struct rf_tuning *tuning, bool is_passive,
		  uint32_t message_max)
{
	int err;

	*end = (struct tune_end){ .is_passive = is_passive,
				  .message_max = message_max,
				  .span = TUNE_SCRATCH };
	init_ops(end);
	err = rf_fabric_open(uri, &end->fab);
	if (!err && tuning)
		err = rf_fabric_tune(end->fab, tuning);
	if (!err)
		err = rf_pd_create(end->fab, &end->pd);
	if (!err)
		err = rf_poller_create(end->fab, TUNE_SEND_DEPTH + TUNE_RECVS,
				       &end->poller);
	if (!err)
		err = open_memory(end);
	if (err)
		tune_end_close(end);
	return err;
}

void tune_end_close(struct tune_end *end)
{
	if (end->ep)
		tune_end_disconnect(end);
	if (end->listener)
		rf_listener_close(end->listener);
	if (end->window)
		rf_window_destroy(end->window);
	if (end->messages_mr)
		rf_mr_deregister(end->messages_mr);
	if (end->data_mr)
		rf_mr_deregister(end->data_mr);
	if (end->messages)
		munmap(end->messages, (size_t)TUNE_RECVS * end->message_max);
	if (end->data)
		munmap(end->data, TUNE_SCRATCH);
	if (end->poller)
		rf_poller_destroy(end->poller);
	if (end->pd)
		rf_pd_destroy(end->pd);
	if (end->fab)
		rf_fabric_close(end->fab);
	*end = (struct tune_end){ .is_passive = end->is_passive };
}

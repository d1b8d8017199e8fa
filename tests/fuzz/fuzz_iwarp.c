/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_iwarp.c - any peer against a real iwarp endpoint, over loopback TCP
 *
 * Operation.  The input is a script: which side connects, what the MPA frame
 * says, then steps.  A step is a frame that the peer sends or something that
 * the endpoint's owner does (post a Read, bind or withdraw a window, close).
 * Lengths, CRCs, numbers and keys are right unless the script asks for a wrong
 * one, so that runs reach deep states.
 *
 * What must hold, whatever the peer sends: bytes outside of Receive buffers,
 * the sink of a Read and the window lent for writing never change; the window's
 * do not by another key or while it is not bound, the sink's not while no Read
 * is out; of memory the peer sees the window lent for reading and what was sent,
 * no more; each op is done once, and closed() comes.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libproto/base.h"
#include "libproto/fabric.h"
#include "libproto/iwarp_wire.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	ARENA_SIZE = 65536,
	RECV_COUNT = 4,
	RECV_SIZE = 512,
	RECV_AT = 4096,
	RECV_STEP = 1024,
	WRITE_AT = 16484,	/* lent to write to */
	READ_AT = 24676,	/* lent to read from */
	LENT_SIZE = 3000,
	SINK_AT = 32868,
	SINK_SIZE = 3000,
	SOURCE_AT = 49152,
	OPS_MAX = 64,		/* posted in one run */
	STEPS_MAX = 48,
	/*
	 * Fills what no peer may read, and how many in a row tell that one did:
	 * more than of the peer's own headers a Terminate quotes.
	 */
	SECRET = 0xee,
	SECRET_RUN = 64,
	/* What Writes carry: with the window's key, with another. */
	RIGHT = 0x77,
	WRONG = 0x99,
	PAYLOAD_MAX = 4096,
};

/* How the fabric names the sink of its n-th Read: this and n. */
#define SINK_KEY 0x80000000u

static struct rf_fabric *fab;
static struct rf_pd *pd;
static struct rf_mr *mr;
static struct rf_poller *poller;
static struct rf_listener *listener;
static struct rf_window *windows[2];	/* to write to, to read from */
static struct sockaddr_in listener_addr, raw_addr;
static int raw_listener;
static uint8_t *arena;
static uint8_t pristine[ARENA_SIZE];

struct script {
	const uint8_t *at, *end;
};

/* A range that may change only at times, and how it was when it could not. */
struct guard {
	size_t at, size;
	bool is_closed;
	uint8_t copy[LENT_SIZE];
};

static struct run {
	struct script script;
	int fd;			/* the peer's end */
	struct rf_ep *ep;
	bool is_wanted;		/* a connection request will be accepted */
	bool is_connected, is_closed;
	bool is_deaf;		/* the peer does not read */
	bool posts_no_recvs;	/* the owner has stopped to */
	bool is_out_of_step;	/* frames may be seen to begin elsewhere */
	unsigned int posted, done, op_count, reads_out;
	struct rf_op ops[OPS_MAX];
	struct rf_op recv_ops[RECV_COUNT];
	bool is_withdrawn[2];	/* an unbind was posted since the bind */
	uint32_t keys[2], dead_key;
	uint32_t send_msn, send_size, request_msn;
	uint32_t response, response_size;
	unsigned int secret_run;	/* bytes in a row that came */
	struct guard write_guard, sink_guard;
} run;

static unsigned int next_byte(void)
{
	return run.script.at < run.script.end ? *run.script.at++ : 0;
}

static uint32_t next_u16(void)
{
	uint32_t low = next_byte();

	return low | next_byte() << 8;
}

static uint64_t next_u64(void)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i < 8; i++)
		v = v << 8 | next_byte();
	return v;
}

/* ---- what must not change ------------------------------------------------ */

static void expect_pristine(size_t from, size_t to)
{
	RF_ASSERT(memcmp(arena + from, pristine + from, to - from) == 0);
}

static void check_outside(void)
{
	size_t at = 0;

	for (size_t i = 0; i < RECV_COUNT; i++) {
		expect_pristine(at, RECV_AT + i * RECV_STEP);
		at = RECV_AT + i * RECV_STEP + RECV_SIZE;
	}
	expect_pristine(at, WRITE_AT);
	expect_pristine(WRITE_AT + LENT_SIZE, SINK_AT);
	expect_pristine(SINK_AT + SINK_SIZE, ARENA_SIZE);
	RF_ASSERT(run.is_out_of_step ||
		  !memchr(arena + WRITE_AT, WRONG, LENT_SIZE));
}

static void guard_check(struct guard *guard, bool may_change)
{
	if (guard->is_closed)
		RF_ASSERT(memcmp(arena + guard->at, guard->copy,
				 guard->size) == 0);
	if (!may_change && !guard->is_closed)
		memcpy(guard->copy, arena + guard->at, guard->size);
	guard->is_closed = !may_change;
}

static void guards_check(void)
{
	guard_check(&run.write_guard, rf_window_is_bound(windows[0]));
	guard_check(&run.sink_guard, run.reads_out > 0);
}

/* ---- the endpoint's owner ------------------------------------------------ */

static void op_done(struct rf_op *op, int status)
{
	(void)op, (void)status;
	run.done++;
}

static void read_done(struct rf_op *op, int status)
{
	op_done(op, status);
	run.reads_out--;
}

static void recv_done(struct rf_op *op, int status);

static struct rf_recv recv_of(unsigned int i)
{
	run.recv_ops[i].done = recv_done;
	return (struct rf_recv){ &run.recv_ops[i],
				 { arena + RECV_AT + i * RECV_STEP, RECV_SIZE,
				   mr } };
}

static void recv_done(struct rf_op *op, int status)
{
	struct rf_recv recv = recv_of((unsigned int)(op - run.recv_ops));

	op_done(op, status);
	if (status == 0)
		RF_ASSERT(op->size <= RECV_SIZE);
	if (status == 0 && !run.posts_no_recvs &&
	    rf_ep_post_recv(run.ep, &recv) == 0)
		run.posted++;
}

/* Post one work with an op; false if that is not possible now. */
static bool post(struct rf_work work, void (*done)(struct rf_op *, int))
{
	if (!run.is_connected || run.is_closed || run.op_count == OPS_MAX)
		return false;
	work.op = &run.ops[run.op_count++];
	work.op->done = done;
	if (rf_ep_post(run.ep, &work, 1) < 0)
		return false;
	run.posted++;
	return true;
}

static void lend(unsigned int which)
{
	size_t at = which ? READ_AT : WRITE_AT;
	struct rf_work work = { .code = RF_BIND, .window = windows[which] };

	if (!run.is_connected || rf_window_is_bound(windows[which]))
		return;
	run.dead_key = run.keys[which];
	run.keys[which] = rf_window_next(windows[which], mr, arena + at,
					 LENT_SIZE, which ? RF_REMOTE_READ :
					 RF_REMOTE_WRITE).rkey;
	run.is_withdrawn[which] = false;
	/* Open before the post: it may be in force at once. */
	if (!which)
		guard_check(&run.write_guard, true);
	post(work, op_done);
}

static void withdraw(unsigned int which)
{
	struct rf_work work = { .code = RF_UNBIND, .window = windows[which] };

	if (rf_window_is_bound(windows[which]) && !run.is_withdrawn[which])
		run.is_withdrawn[which] = post(work, op_done);
}

static void post_read(void)
{
	struct rf_sge sge[2] = {
		{ arena + SINK_AT, SINK_SIZE / 3, mr },
		{ arena + SINK_AT + SINK_SIZE / 3, 2 * SINK_SIZE / 3, mr },
	};
	struct rf_work work = {
		.code = RF_READ, .sge = sge, .sge_count = 2,
		.remote = { 0x1000, 0x7700, SINK_SIZE },
	};

	guard_check(&run.sink_guard, true);
	run.reads_out++;
	if (!post(work, read_done))
		run.reads_out--;
}

static void post_out(enum rf_opcode code, uint32_t size)
{
	struct rf_sge sge = { arena + SOURCE_AT, size, mr };
	struct rf_work work = {
		.code = code, .sge = &sge, .sge_count = 1, .inv_key = 0x1234,
		.remote = { 0x1000, 0x7700, size },
	};

	post(work, op_done);
}

static void on_connected(struct rf_ep *ep, const void *hello, size_t size)
{
	(void)ep, (void)hello, (void)size;
	run.is_connected = true;
	lend(0);
	lend(1);
}

static void on_closed(struct rf_ep *ep, int reason)
{
	(void)ep, (void)reason;
	RF_ASSERT(!run.is_closed && run.done == run.posted);
	run.is_closed = true;
}

static void on_rejected(struct rf_ep *ep, const void *hello, size_t size)
{
	(void)ep, (void)hello, (void)size;
	RF_ASSERT(!run.is_connected);
}

static const struct rf_ep_events events = {
	.connected = on_connected, .closed = on_closed, .rejected = on_rejected,
};

static struct rf_ep_config config_of(void)
{
	return (struct rf_ep_config){
		.pd = pd, .send_depth = 16, .recv_depth = RECV_COUNT,
		.reads_out = 2, .reads_in = 2, .setup_ms = 10000,
	};
}

static void on_request(void *context, struct rf_incoming *incoming,
		       const void *hello, size_t hello_size)
{
	struct rf_ep_config config = config_of();
	struct rf_recv recvs[RECV_COUNT];

	(void)context, (void)hello, (void)hello_size;
	if (!run.is_wanted) {	/* of an earlier run, or to be refused */
		rf_ep_reject(incoming, "no", 2);
		return;
	}
	run.is_wanted = false;
	for (unsigned int i = 0; i < RECV_COUNT; i++)
		recvs[i] = recv_of(i);
	if (rf_ep_accept(incoming, poller, "hi", 2, &config, &events, NULL,
			 recvs, RECV_COUNT, &run.ep) < 0)
		run.ep = NULL;
	else
		run.posted += RECV_COUNT;
}

/* ---- the peer ------------------------------------------------------------ */

static void drain(void)
{
	uint8_t sink[16384];
	ssize_t got;

	while (run.fd >= 0 && !run.is_deaf &&
	       (got = recv(run.fd, sink, sizeof(sink), MSG_DONTWAIT)) > 0)
		for (ssize_t i = 0; i < got; i++) {
			run.secret_run = sink[i] == SECRET ?
					 run.secret_run + 1 : 0;
			RF_ASSERT(run.secret_run < SECRET_RUN);
		}
}

/* Let the endpoint see what has arrived. */
static void pump(void)
{
	for (unsigned int i = 0; i < 3; i++) {
		rf_poller_wait(poller, 64, 0);
		drain();
		guards_check();
	}
}

static void send_bytes(const uint8_t *bytes, size_t size)
{
	while (size > 0) {
		ssize_t sent = send(run.fd, bytes, size,
				    MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent <= 0) {
			run.is_out_of_step = true;
			pump();
			return;
		}
		bytes += sent;
		size -= (size_t)sent;
	}
}

/*
 * tweak: 1 wrong CRC, 2 wrong length, 4 in two parts (and the window may be
 * withdrawn between them), 8 no CRC.
 */
static void send_fpdu(uint8_t *frame, size_t ulpdu_size, unsigned int tweak)
{
	size_t size = IW_LENGTH_SIZE + ulpdu_size;
	uint32_t pad = iw_pad_size((uint32_t)ulpdu_size);
	size_t cut;

	run.is_out_of_step |= tweak & 2;
	iw_store_be16(frame, (uint16_t)(ulpdu_size + (tweak & 2 ? next_byte() :
						      0)));
	memset(frame + size, 0, pad);
	size += pad;
	rf_store_u32(frame + size, tweak & 8 ? 0 :
		     rf_crc32c(0, frame, size) ^ (tweak & 1));
	size += IW_CRC_SIZE;
	cut = tweak & 4 ? next_u16() % size : size;
	send_bytes(frame, cut);
	if (cut < size) {
		pump();
		if (next_byte() & 1)
			withdraw(0);
		send_bytes(frame + cut, size - cut);
	}
}

static uint8_t frame[IW_HEAD_MAX + PAYLOAD_MAX + IW_TAIL_MAX];

static void send_tagged(unsigned int opcode, bool is_last, uint32_t stag,
			uint64_t offset, uint32_t payload, unsigned int tweak)
{
	frame[2] = (uint8_t)(IW_DDP_TAGGED | IW_DDP_VERSION |
			     (is_last ? IW_DDP_LAST : 0));
	frame[3] = (uint8_t)(IW_RDMAP_VERSION | opcode);
	iw_store_be32(frame + 4, stag);
	iw_store_be64(frame + 8, offset);
	memset(frame + 16, stag == run.keys[0] ? RIGHT : WRONG, payload);
	send_fpdu(frame, IW_TAGGED_SIZE + payload, tweak);
}

/* The payload is in place, from frame + IW_HEAD_MAX. */
static void send_untagged(unsigned int opcode, bool is_last, uint32_t stag,
			  uint32_t queue, uint32_t msn, uint32_t offset,
			  uint32_t payload, unsigned int tweak)
{
	frame[2] = (uint8_t)(IW_DDP_VERSION | (is_last ? IW_DDP_LAST : 0));
	frame[3] = (uint8_t)(IW_RDMAP_VERSION | opcode);
	iw_store_be32(frame + 4, stag);
	iw_store_be32(frame + 8, queue);
	iw_store_be32(frame + 12, msn);
	iw_store_be32(frame + 16, offset);
	send_fpdu(frame, IW_UNTAGGED_SIZE + payload, tweak);
}

static uint32_t choose_key(uint32_t good)
{
	unsigned int how = next_byte();

	switch (how % 16) {
	case 0:
		return run.keys[0];
	case 1:
		return run.keys[1];
	case 2:
		return run.dead_key;
	case 3:
		return good ^ 1u << (how >> 4) % 32;
	case 4:
		return SINK_KEY | (how >> 4);
	case 5:
		return (uint32_t)next_u64();
	default:
		return good;
	}
}

/* An offset in or around [base, base + LENT_SIZE). */
static uint64_t choose_offset(uint64_t base)
{
	unsigned int how = next_byte();

	switch (how % 8) {
	case 0:
		return base + next_u16();
	case 1:
		return base - next_byte();
	case 2:
		return base + LENT_SIZE - next_byte();
	case 3:
		return next_u64();
	default:
		return base + how;
	}
}

static uint32_t choose_payload(void)
{
	uint32_t size = next_u16();

	return size & 0x8000 ? size % PAYLOAD_MAX : size % 256;
}

/* From offset to about the end of [base, base + LENT_SIZE). */
static uint32_t to_the_end(uint64_t base, uint64_t offset)
{
	uint64_t left = base + LENT_SIZE - offset;
	unsigned int beyond = next_byte();

	return (uint32_t)(left <= LENT_SIZE ? left : 0) +
	       (beyond < 128 ? beyond % 4 : beyond);
}

static void step_write(unsigned int how)
{
	uint64_t base = (uintptr_t)arena + WRITE_AT;
	uint32_t stag = choose_key(run.keys[0]);
	uint64_t offset = choose_offset(base);
	uint32_t payload = how & 32 ? to_the_end(base, offset)
				    : choose_payload();

	send_tagged(IW_WRITE, !(how & 16), stag, offset, payload, how & 15);
}

/* Of the oldest Read; honest unless how says otherwise. */
static void step_response(unsigned int how)
{
	uint32_t left = SINK_SIZE - run.response_size;
	uint32_t payload = choose_payload();
	uint32_t stag = SINK_KEY | run.response;
	uint64_t offset = run.response_size;
	bool is_last;

	if (how & 16)
		payload = left + next_byte() % 16;
	else if (payload > left)
		payload = left;
	if (how & 64) {
		stag = choose_key(stag);
		offset = choose_offset(offset);
	}
	is_last = payload == left;
	if (how & 32)
		is_last = !is_last;
	send_tagged(IW_READ_RESPONSE, is_last, stag, offset, payload, how & 15);
	run.response_size += payload;
	if (run.response_size >= SINK_SIZE) {
		run.response++;
		run.response_size = 0;
	}
}

static void step_send(unsigned int how)
{
	static const uint8_t codes[] = { IW_SEND, IW_SEND_INV, IW_SEND_SE,
					 IW_SEND_SE_INV };
	unsigned int code = codes[next_byte() % 4];
	uint32_t payload = choose_payload();
	uint32_t msn = run.send_msn, offset = run.send_size;
	bool is_last = !(how & 16);

	if (how & 32)
		msn += next_byte();
	if (how & 64)
		offset += next_u16();
	memset(frame + IW_HEAD_MAX, 0x55, payload);
	send_untagged(code, is_last, choose_key(run.keys[how >> 7]),
		      IW_QUEUE_SEND, msn, offset, payload, how & 15);
	run.send_size = is_last ? 0 : run.send_size + payload;
	run.send_msn += is_last;
}

static void step_read_request(unsigned int how)
{
	uint64_t base = (uintptr_t)arena + READ_AT;
	uint64_t offset = choose_offset(base);
	struct iw_read_request request = {
		.sink_stag = 0x4242, .sink_offset = next_byte(),
		.size = next_byte() & 1 ? to_the_end(base, offset)
					: next_u16() % (2 * LENT_SIZE),
		.source_stag = choose_key(run.keys[1]),
		.source_offset = offset,
	};
	uint32_t size = IW_READ_REQUEST_SIZE;
	uint32_t msn = run.request_msn++;

	if (how & 16)
		size = next_byte();
	if (how & 64)
		msn += next_byte();
	memset(frame + IW_HEAD_MAX, 0, 256);
	iw_read_request_encode(&request, frame + IW_HEAD_MAX);
	send_untagged(IW_READ_REQUEST, !(how & 32), 0, IW_QUEUE_READ_REQUEST,
		      msn, how & 128 ? next_byte() : 0, size, how & 15);
}

/* The rest of a head or a Terminate, as the script says. */
static void step_free(unsigned int how)
{
	size_t size = 2 + next_byte() % 64;

	for (size_t i = 0; i < size; i++)
		frame[IW_LENGTH_SIZE + i] = (uint8_t)next_byte();
	send_fpdu(frame, size, how & 15);
}

static void step_terminate(unsigned int how)
{
	uint32_t size = next_byte() % 64;
	uint32_t msn = how & 16 ? next_byte() : 1;

	for (size_t i = 0; i < size; i++)
		frame[IW_HEAD_MAX + i] = (uint8_t)next_byte();
	send_untagged(IW_TERMINATE, true, 0, IW_QUEUE_TERMINATE, msn, 0, size,
		      how & 15);
}

static void step_raw(unsigned int how)
{
	size_t size = how % 64;

	run.is_out_of_step = true;
	for (size_t i = 0; i < size; i++)
		frame[i] = (uint8_t)next_byte();
	send_bytes(frame, size);
}

static void step_empty(unsigned int how)
{
	send_fpdu(frame, 0, how & 15);
}

/* What the endpoint's owner does, and whether the peer reads. */
static void owner_step(unsigned int what, unsigned int how)
{
	static const enum rf_opcode codes[] = { RF_SEND, RF_WRITE,
						RF_SEND_INV, RF_WRITE };

	switch (what) {
	case 11:
		lend(how & 1);
		break;
	case 12:
		withdraw(how & 1);
		break;
	case 13:
		post_read();
		break;
	case 14:
		post_out(codes[how & 3], 1 + how * 64);
		break;
	default:
		if (how == 0xff && run.is_connected && !run.is_closed)
			rf_ep_close(run.ep);
		else if (how == 0xfe)
			run.posts_no_recvs = true;
		else
			run.is_deaf = how & 1;
	}
}

static void run_step(unsigned int what, unsigned int how)
{
	static void (*const steps[])(unsigned int how) = {
		step_send, step_send, step_write, step_write, step_response,
		step_response, step_read_request, step_free, step_terminate,
		step_raw, step_empty,
	};

	if (what % 16 < RF_ARRAY_SIZE(steps))
		steps[what % 16](how);
	else
		owner_step(what % 16, how);
	/* Without a pump, several frames arrive together. */
	if (what & 16)
		pump();
}

/* ---- set-up and end of a run --------------------------------------------- */

/* So that a peer that does not read is felt soon. */
static void shrink_receive_buffer(int fd)
{
	int size = 4096;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
}

static size_t make_mpa(bool is_reply, uint8_t *out)
{
	unsigned int how = next_byte();
	uint8_t hello[64] = { 0 };
	struct iw_mpa mpa = {
		.is_reply = is_reply, .wants_crc = !(how & 1),
		.is_enhanced = !(how & 2), .revision = how & 2 ? 1 : 2,
		.ird = 2, .ord = 2, .hello = hello, .hello_size = 4,
		.rtr = how & 4 ? (uint8_t)next_byte() & 15 : 0,
	};
	size_t size;

	if (how & 8) {
		mpa.ird = (uint16_t)next_u16() & 0x3fff;
		mpa.ord = (uint16_t)next_u16() & 0x3fff;
	}
	if (how & 16)
		mpa.hello_size = next_byte() % sizeof(hello);
	run.is_out_of_step = how & (32 | 64);
	size = iw_mpa_encode(&mpa, out);
	if (how & 32)
		out[next_byte() % size] ^= (uint8_t)next_byte();
	if (how & 64)
		size = next_byte() % size;
	return size;
}

/* More than loopback ever needs. */
enum { SETUP_PUMPS = 4, END_WAITS = 200 };

/* The fuzzer connects, the endpoint accepts. */
static bool start_accepting(void)
{
	uint8_t mpa[IW_MPA_FRAME_MAX];
	size_t size = make_mpa(false, mpa);

	run.is_wanted = true;
	run.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	RF_ASSERT(run.fd >= 0);
	shrink_receive_buffer(run.fd);
	if (connect(run.fd, (struct sockaddr *)&listener_addr,
		    sizeof(listener_addr)) < 0)
		return false;
	send_bytes(mpa, size);
	for (unsigned int i = 0; i < SETUP_PUMPS && !run.is_connected; i++)
		pump();
	return true;
}

/* The endpoint connects, the fuzzer accepts. */
static bool start_connecting(void)
{
	struct rf_ep_config config = config_of();
	uint8_t mpa[IW_MPA_FRAME_MAX];
	size_t size = make_mpa(true, mpa);

	if (rf_ep_connect(poller, (struct sockaddr *)&raw_addr,
			  sizeof(raw_addr), "hi", 2, &config, &events, NULL,
			  &run.ep) < 0)
		return false;
	for (unsigned int i = 0; i < RECV_COUNT; i++) {
		struct rf_recv recv = recv_of(i);

		if (rf_ep_post_recv(run.ep, &recv) == 0)
			run.posted++;
	}
	run.fd = accept4(raw_listener, NULL, NULL, SOCK_CLOEXEC);
	RF_ASSERT(run.fd >= 0);
	pump();
	send_bytes(mpa, size);
	for (unsigned int i = 0; i < SETUP_PUMPS && !run.is_connected; i++)
		pump();
	return true;
}

/* Reset: no TIME_WAIT, or ports run out. */
static void hang_up(void)
{
	struct linger linger = { 1, 0 };

	if (run.fd < 0)
		return;
	drain();
	setsockopt(run.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(run.fd);
	run.fd = -1;
}

static void finish(void)
{
	bool had_ep = run.ep;

	run.is_deaf = false;
	hang_up();
	run.is_wanted = false;
	for (unsigned int i = 0; had_ep && !run.is_closed; i++) {
		RF_ASSERT(i < END_WAITS);	/* closed() must come */
		rf_poller_wait(poller, 64, 100);
		guards_check();
	}
	pump();
	RF_ASSERT(!rf_window_is_bound(windows[0]));
	RF_ASSERT(!rf_window_is_bound(windows[1]));
	guards_check();
	check_outside();
	memcpy(arena, pristine, ARENA_SIZE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool has_started;

	memset(&run, 0, sizeof(run));
	run.script = (struct script){ data, data + size };
	run.fd = -1;
	run.send_msn = run.request_msn = 1;
	run.write_guard = (struct guard){ .at = WRITE_AT, .size = LENT_SIZE };
	run.sink_guard = (struct guard){ .at = SINK_AT, .size = SINK_SIZE };
	has_started = next_byte() & 1 ? start_connecting() : start_accepting();
	for (unsigned int i = 0; has_started && i < STEPS_MAX; i++) {
		unsigned int what = next_byte();

		if (run.script.at == run.script.end)
			break;
		run_step(what, next_byte());
	}
	pump();
	finish();
	return 0;
}

/* All secret but what may be read or is sent. */
static void fill_arena(void)
{
	memset(pristine, SECRET, ARENA_SIZE);
	memset(pristine + READ_AT, 0x11, LENT_SIZE);
	memset(pristine + SOURCE_AT, 0x22, ARENA_SIZE - SOURCE_AT);
	memcpy(arena, pristine, ARENA_SIZE);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct sockaddr_in any = { .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(raw_addr);
	struct sockaddr_storage bound;

	(void)argc, (void)argv;
	rf_log_set_level(RF_LOG_ERROR);
	arena = mmap(NULL, ARENA_SIZE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	RF_ASSERT(arena != MAP_FAILED);
	fill_arena();
	RF_ASSERT(rf_fabric_open("iwarp://", &fab) == 0);
	RF_ASSERT(rf_pd_create(fab, &pd) == 0);
	RF_ASSERT(rf_mr_register(pd, arena, ARENA_SIZE,
				 RF_LOCAL_WRITE | RF_READ_SINK |
				 RF_WINDOW_BIND, &mr) == 0);
	RF_ASSERT(rf_poller_create(fab, 256, &poller) == 0);
	for (unsigned int i = 0; i < 2; i++)
		RF_ASSERT(rf_window_create(pd, &windows[i]) == 0);
	RF_ASSERT(rf_listener_open(poller, (struct sockaddr *)&any,
				   sizeof(any), on_request, NULL,
				   &listener) == 0);
	RF_ASSERT(rf_listener_address(listener, &bound) == 0);
	memcpy(&listener_addr, &bound, sizeof(listener_addr));
	raw_listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	RF_ASSERT(raw_listener >= 0);
	shrink_receive_buffer(raw_listener);	/* what it accepts inherits */
	RF_ASSERT(bind(raw_listener, (struct sockaddr *)&any, sizeof(any)) ==
		  0);
	RF_ASSERT(listen(raw_listener, 16) == 0);
	RF_ASSERT(getsockname(raw_listener, (struct sockaddr *)&raw_addr,
			      &size) == 0);
	return 0;
}

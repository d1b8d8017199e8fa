/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/common/hostile.h"

#include "tests/common/raw_session.h"
#include "tests/common/wire.h"

#include "libproto/loop.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	KNOWN = 8,
	IDS = 16,
	RW = RF_OPEN_READ | RF_OPEN_WRITE,
};

static const char secret[] = "not for you: 5f1c0a77";

static struct srig rig;
static struct sclient good;
static hostile_choose *choose;
static struct raws raws;
static rf_handle_t sentinel, known[KNOWN];
static rf_attr_t sentinel_attr;
static uint32_t sentinel_open;
static uint32_t opens[KNOWN];
static struct rf_grant grants[IDS];
static unsigned int known_count, open_count, grant_count;
static uint32_t seqs[RAWS_SLOTS + RAWS_CONTROL_SLOTS];
static struct hostile_figures figures;

static unsigned int below(unsigned int limit)
{
	return choose(limit);
}

static bool one_in(unsigned int count)
{
	return below(count) == 0;
}

static void turns(unsigned int count)
{
	while (count-- > 0 && srig_turn(&rig))
		;
}

/* ---- what it is told ---------------------------------------------------- */

static void must_not_leak(const void *bytes, size_t size)
{
	cr_assert_null(memmem(bytes, size, secret, sizeof(secret) - 1),
		       "it was told what is outside its export");
}

static void learn_handle(const rf_handle_t *handle)
{
	cr_assert_neq(handle->tree, sentinel.tree);
	known[known_count++ % KNOWN] = *handle;
}

static void learn_grants(const rf_grants_t *given)
{
	for (unsigned int i = 0; i < given->count; i++)
		grants[grant_count++ % IDS] = given->v[i];
}

static void took(struct raws *from)
{
	must_not_leak(from->message, from->header.size);
	for (unsigned int i = 0; i < from->count; i++) {
		const struct rf_results *r = &from->results[i];

		if (r->status != RF_ST_OK)
			continue;
		if (r->code == RF_OP_CREATE) {
			learn_handle(&r->create.handle);
			opens[open_count++ % KNOWN] = r->create.open;
		} else if (r->code == RF_OP_OPEN) {
			opens[open_count++ % KNOWN] = r->open.open;
		} else if (r->code == RF_OP_LOOKUP) {
			learn_handle(&r->lookup.handle);
		} else if (r->code == RF_OP_MKDIR) {
			learn_handle(&r->mkdir.handle);
		} else if (r->code == RF_OP_READ) {
			learn_grants(&r->read.grants);
		} else if (r->code == RF_OP_SLOTS) {
			learn_grants(&r->slots.slots);
		} else if (r->code == RF_OP_WRITE) {
			learn_grants(&r->write.rearmed);
		}
	}
}

/* ---- what it says ------------------------------------------------------- */

static rf_handle_t any_handle(void)
{
	rf_handle_t handle = raws.reply.root;

	switch (below(8)) {
	case 0:
		return sentinel;
	case 1:
		handle.inode = sentinel.inode;
		break;
	case 2:
		handle.tag ^= UINT64_C(1) << below(64);
		break;
	case 3:
		handle.tree = sentinel.tree;
		break;
	case 4:
	case 5:
		handle = known[below(KNOWN)];
		break;
	default:
		break;
	}
	return handle;
}

static uint32_t any_open(void)
{
	return one_in(6) ? below(UINT32_MAX) : opens[below(KNOWN)];
}

/* Arguments that decode, most of them of something that is there. */
static void choose_args(struct rf_args *args)
{
	static const char *const names[] = { "a", "b", "c" };
	rf_name_t name = sname(names[below(3)]);

	wire_make_args(args, wire_codes[below(WIRE_CODE_COUNT)]);
	switch (args->code) {
	case RF_OP_BYE:
		if (!one_in(8))
			args->code = RF_OP_NOP;
		break;
	case RF_OP_USE:
		args->use.handle = any_handle();
		break;
	case RF_OP_LOOKUP:
		args->lookup.name = name;
		break;
	case RF_OP_CREATE:
		args->create.name = name;
		args->create.flags |= RW;
		break;
	case RF_OP_UNLINK:
		args->unlink.name = name;
		break;
	case RF_OP_LINK:
		args->link.dir = any_handle();
		break;
	case RF_OP_RENAME:
		args->rename.name = name;
		args->rename.new_dir = any_handle();
		break;
	case RF_OP_READ:
		args->read.open = any_open();
		args->read.offset = below(2);
		args->read.size = below(200000);
		break;
	case RF_OP_WRITE:
		args->write.open = any_open();
		args->write.offset = below(300000);
		for (unsigned int i = 0; i < args->write.pieces.count; i++)
			args->write.pieces.v[i].slot = grants[below(IDS)].id;
		break;
	case RF_OP_SETATTR:
		args->setattr.size = below(300000);
		break;
	case RF_OP_FALLOCATE:
		args->fallocate.open = any_open();
		args->fallocate.offset = below(300000);
		args->fallocate.size = below(300000);
		break;
	case RF_OP_COPY:
		args->copy.open = any_open();
		args->copy.source = any_handle();
		args->copy.source_open = any_open();
		break;
	case RF_OP_RELEASE:
		args->release.open = any_open();
		break;
	case RF_OP_RECLAIM:
		args->reclaim.handle = any_handle();
		args->reclaim.open = any_open();
		break;
	case RF_OP_LOCK:
		args->lock.open = any_open();
		break;
	case RF_OP_SLOTS:
		args->slots.count = (uint16_t)below(4);
		args->slots.size = 1 + below(100000);
		break;
	case RF_OP_IDENTITY:
		args->identity.index = (uint16_t)below(3);
		break;
	default:
		break;
	}
}

/* Unless the server has had enough of it. */
static void say(const void *message, size_t size)
{
	struct rf_sge sge = { NULL, (uint32_t)size, rig.mr };
	const struct rf_work work = { .code = RF_SEND, .op = &raws.send_op,
				      .sge = &sge, .sge_count = 1 };

	while (raws.ep && raws.is_sending)
		turns(1);
	if (!raws.ep)
		return;
	memcpy(raws.send_buf->mem, message, size);
	sge.addr = raws.send_buf->mem;
	raws.is_sending = rf_ep_post(raws.ep, &work, 1) == 0;
	figures.messages += raws.is_sending;
}

static void spoil(uint8_t *message, size_t size)
{
	for (unsigned int i = 1 + below(3); i > 0; i--)
		message[below((unsigned int)size)] ^= (uint8_t)(1 << below(8));
}

/* All that there is to do with a file, in one message. */
static void add_theft(struct rf_enc *enc)
{
	const struct rf_args theft[] = {
		{ .code = RF_OP_OPEN, .open = { RW } },
		{ .code = RF_OP_READ, .read = { .size = 100 } },
		{ .code = RF_OP_WRITE, .write = { .data = { "mine", 4 } } },
		{ .code = RF_OP_RELEASE },
	};

	for (unsigned int i = 0; i < RF_ARRAY_SIZE(theft); i++)
		rf_enc_args(enc, &theft[i]);
}

static void say_request(void)
{
	uint8_t message[RAWS_MSG_MAX];
	uint16_t slot = (uint16_t)below(RAWS_SLOTS + RAWS_CONTROL_SLOTS);
	struct rf_header header = {
		.type = RF_MSG_REQUEST,
		.slot = slot,
		.seq = one_in(6) ? seqs[slot] : ++seqs[slot],
		.epoch = raws.epoch,
		.identity = (uint16_t)(one_in(8) ? below(4) : 1),
		.ack = raws.ack,
	};
	struct rf_args use = { .code = RF_OP_USE };
	struct rf_enc enc;
	int size;

	if (one_in(100))
		header.seq += below(5);
	if (one_in(60))
		header.epoch++;
	rf_enc_init(&enc, message, sizeof(message));
	for (unsigned int i = below(3); i > 0; i--)
		rf_enc_return(&enc, grants[below(IDS)].id);
	use.use.handle = any_handle();
	rf_enc_args(&enc, &use);
	if (one_in(4))
		add_theft(&enc);
	for (unsigned int i = below(4); i > 0; i--) {
		struct rf_enc before = enc;
		struct rf_args args;

		choose_args(&args);
		rf_enc_args(&enc, &args);
		if (enc.overflowed)
			enc = before;
	}
	size = rf_enc_finish(&enc, &header);
	wire_forget_bytes();
	if (size <= 0)
		return;
	if (one_in(40))
		spoil(message, (size_t)size);
	say(message, (size_t)size);
}

static void begin(void)
{
	static const struct rf_args root = { .code = RF_OP_IDENTITY,
					     .identity = { .index = 1 } };
	uint8_t message[RF_HELLO_SIZE_MAX];
	int size;

	raws_connect(&raws);
	size = rf_hello_encode(message, &raws.hello, &raws.key, raws.nonce,
			       raws.hello_proof);
	if (one_in(10))
		spoil(message, (size_t)size);
	say(message, (size_t)size);
	turns(60);
	if (!raws.ep || raws.header.type != RF_MSG_HELLO_REPLY ||
	    rf_hello_reply_decode(raws.message, raws.header.size,
				  &raws.reply) ||
	    raws.reply.status != RF_ST_OK)
		return;
	figures.sessions++;
	raws.session = raws.reply.session;
	raws.epoch = raws.reply.epoch;
	rf_hello_secret(raws.secret, &raws.key, raws.hello_proof,
			raws.session);
	memset(seqs, 0, sizeof(seqs));
	say(message, raws_encode(&raws, message, 0, ++seqs[0], NULL, &root, 1));
}

static void come_back(void)
{
	static uint8_t old[RF_HELLO_SIZE_MAX];
	static int old_size;
	uint8_t message[RF_HELLO_SIZE_MAX], proof[RF_PROOF_SIZE];
	int size;

	raws_connect(&raws);
	size = raws_encode_resume(&raws, message, proof);
	if (one_in(6))
		spoil(message, (size_t)size);
	if (old_size && one_in(6))
		say(old, (size_t)old_size);	/* a replay */
	else
		say(message, (size_t)size);
	memcpy(old, message, (size_t)size);
	old_size = size;
	turns(60);
	if (raws.ep && raws.header.type == RF_MSG_RESUME_REPLY &&
	    rf_resume_reply_decode(raws.message, raws.header.size,
				   &raws.resumed) == 0 &&
	    raws.resumed.status == RF_ST_OK)
		raws.epoch = raws.resumed.epoch;
}

static void cut(void)
{
	if (raws.ep)
		rf_ep_close(raws.ep);
	while (raws.ep)
		turns(1);
}

/* ---- one-sided ---------------------------------------------------------- */

struct reach {
	struct rf_op op;
	struct rf_buf *buf;
	bool is_read;
};

static unsigned int reaching;

static void reached(struct rf_op *op, int status)
{
	struct reach *reach = rf_container_of(op, struct reach, op);

	if (reach->is_read && status == 0)
		must_not_leak(reach->buf->mem, reach->buf->size);
	rf_pool_put(reach->buf);
	free(reach);
	reaching--;
}

static void reach_out(void)
{
	const struct rf_grant *grant = &grants[below(IDS)];
	struct reach *reach = calloc(1, sizeof(*reach));
	struct rf_sge sge = { NULL, 1 + below(4096), rig.mr };
	struct rf_work work = { .sge = &sge, .sge_count = 1 };

	reach->op.done = reached;
	reach->is_read = one_in(2);
	reach->buf = rf_pool_get(rig.pool, 4096);
	cr_assert_not_null(reach->buf);
	sge.addr = reach->buf->mem;
	work.code = reach->is_read ? RF_READ : RF_WRITE;
	work.op = &reach->op;
	work.remote = (struct rf_remote){ grant->addr, grant->rkey, sge.size };
	if (one_in(10))
		work.remote.rkey ^= 1u << below(32);
	if (one_in(10))
		work.remote.addr += below(1 << 20);
	reaching++;
	if (!raws.ep || !raws.is_connected || rf_ep_post(raws.ep, &work, 1))
		reached(&reach->op, -1);
}

/* ---- a peer ------------------------------------------------------------- */

static void act(void)
{
	if (!raws.ep) {
		if (raws.session && !one_in(3))
			come_back();
		else
			begin();
		return;
	}
	switch (below(30)) {
	case 0:
		cut();
		break;
	case 1:
	case 2:
		if (grant_count > 0)
			reach_out();
		break;
	case 3:
		turns(below(200));
		break;
	default:
		say_request();
	}
	turns(below(30));
}

static void end_peer(void)
{
	struct rf_list *pos, *next;

	cut();
	while (reaching)
		turns(1);
	for (pos = rig.server->sessions.next; pos != &rig.server->sessions;
	     pos = next) {
		struct session *session =
			rf_container_of(pos, struct session, link);

		next = pos->next;
		if (session->id != good.reply.session)
			session_expire(session, NULL);
	}
	srig_until(&rig, rig.server->session_count == 1 &&
		   rig.server->greeting_count == 0);
}

static void check_server(void)
{
	char text[64];

	cr_assert_eq(rig.server->active, 0);
	cr_assert_eq(rig.server->locks.ranges.count, 0);
	cr_assert_eq(rig.server->locks.waits.count, 0);
	cr_assert_eq(srig_staging_free(&rig), srig_staging_total(&rig));
	cr_assert_eq(sread(&good, &sentinel, sentinel_open, 0, sizeof(text),
			   text), sizeof(secret));
	cr_assert_eq(memcmp(text, secret, sizeof(secret)), 0);
}

static rf_attr_t look_at_sentinel(void)
{
	static struct scall call;

	cr_assert_eq(SRUN(&good, &call, 1, &sentinel,
			  { .code = RF_OP_GETATTR }), RF_ST_OK);
	return SRES(&call, 0, getattr).attr;
}

void hostile_peer(hostile_choose *chooses, bool (*goes_on)(void))
{
	choose = chooses;
	wire_chance_seed(below(UINT32_MAX));
	raws_init(&rig, &raws);
	raws.took = took;
	known_count = open_count = grant_count = 0;
	memset(grants, 0, sizeof(grants));
	memset(opens, 0, sizeof(opens));
	memset(known, 0, sizeof(known));
	while (goes_on())
		act();
	end_peer();
	check_server();
	cr_assert_eq(look_at_sentinel().change, sentinel_attr.change);
}

/* ---- the server --------------------------------------------------------- */

void hostile_begin(void)
{
	srig_init(&rig, "loop-virtual");
	snprintf(rig.config.exports[0].path,
		 sizeof(rig.config.exports[0].path), "public");
	srig_set(&rig, "export", "private=/private");
	srig_start(&rig);
	sclient_open(&rig, &good, "private");
	sentinel = smake(&good, "sentinel", RW, &sentinel_open);
	cr_assert_eq(swrite(&good, &sentinel, sentinel_open, 0, secret,
			    sizeof(secret)), RF_ST_OK);
	sentinel_attr = look_at_sentinel();
}

struct hostile_figures hostile_end(void)
{
	sclient_bye(&good);
	srig_close(&rig);
	return figures;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec.c - whole messages: header, returns, the list of operations
 *
 * Operation.  For each operation of ops.h the preprocessor makes four functions
 * that put or get its fields in order (codec_fields.c knows the types), and a
 * row in the table below.  rf_dec_init() walks the operations' headers once, so
 * that each later step knows that the bytes it was promised exist.
 *
 * When it fails.  A decoder that answered -EBADMSG stands behind the operation
 * that it refused; the message as a whole should be dropped.
 */
#include "codec.h"

#include <errno.h>

#include "base.h"
#include "codec_fields.h"

/* ---- one function an operation and direction ----------------------------- */

#define PUT(type, name) rf_put_##type(enc, &in->name);
#define GET(type, name) && rf_get_##type(cur, &out->name)

#define OP_FUNCTIONS(NAME, lower, code) \
static void put_##lower##_args(struct rf_enc *enc, const struct rf_args *args) \
{ \
	const struct rf_##lower##_args *in = &args->lower; \
\
	(void)enc, (void)in; \
	RF_##NAME##_ARGS(PUT) \
} \
\
static bool get_##lower##_args(struct rf_cursor *cur, struct rf_args *args) \
{ \
	struct rf_##lower##_args *out = &args->lower; \
\
	(void)cur, (void)out; \
	return true RF_##NAME##_ARGS(GET); \
} \
\
static void put_##lower##_results(struct rf_enc *enc, \
				  const struct rf_results *results) \
{ \
	const struct rf_##lower##_results *in = &results->lower; \
\
	(void)enc, (void)in; \
	RF_##NAME##_RESULTS(PUT) \
} \
\
static bool get_##lower##_results(struct rf_cursor *cur, \
				  struct rf_results *results) \
{ \
	struct rf_##lower##_results *out = &results->lower; \
\
	(void)cur, (void)out; \
	return true RF_##NAME##_RESULTS(GET); \
}
RF_OPS(OP_FUNCTIONS)
#undef OP_FUNCTIONS
#undef GET
#undef PUT

struct op {
	const char *name;	/* NULL: no such operation */
	void (*put_args)(struct rf_enc *enc, const struct rf_args *args);
	bool (*get_args)(struct rf_cursor *cur, struct rf_args *args);
	void (*put_results)(struct rf_enc *enc,
			    const struct rf_results *results);
	bool (*get_results)(struct rf_cursor *cur, struct rf_results *results);
};

static const struct op ops[] = {
#define OP_ROW(NAME, lower, code) \
	[code] = { #NAME, put_##lower##_args, get_##lower##_args, \
		   put_##lower##_results, get_##lower##_results },
	RF_OPS(OP_ROW)
#undef OP_ROW
};

static const struct op *op_of(unsigned int code)
{
	if (code >= RF_ARRAY_SIZE(ops) || !ops[code].name)
		return NULL;
	return &ops[code];
}

const char *rf_op_name(unsigned int code)
{
	const struct op *op = op_of(code);

	return op ? op->name : "?";
}

bool rf_op_modifies(unsigned int code)
{
	switch (code) {
	case RF_OP_SETATTR:
	case RF_OP_CREATE:
	case RF_OP_MKDIR:
	case RF_OP_MKNOD:
	case RF_OP_SYMLINK:
	case RF_OP_LINK:
	case RF_OP_UNLINK:
	case RF_OP_RMDIR:
	case RF_OP_RENAME:
	case RF_OP_OPEN:
	case RF_OP_RELEASE:
	case RF_OP_WRITE:
	case RF_OP_FALLOCATE:
	case RF_OP_COPY:
	case RF_OP_SETXATTR:
	case RF_OP_REMOVEXATTR:
		return true;
	default:
		return false;
	}
}

/*
 * The write slots that come back even when the operation failed, or the client
 * would lose them; NULL for operations that have none.
 */
static rf_grants_t *rearmed_of(struct rf_results *results)
{
	switch (results->code) {
	case RF_OP_WRITE:
		return &results->write.rearmed;
	case RF_OP_SETXATTR:
		return &results->setxattr.rearmed;
	default:
		return NULL;
	}
}

/* ---- encoding ------------------------------------------------------------ */

void rf_enc_init(struct rf_enc *enc, void *buffer, size_t size)
{
	RF_ASSERT(size <= INT32_MAX);	/* rf_enc_finish() returns an int */
	*enc = (struct rf_enc){ .base = buffer, .size = (uint32_t)size };
	rf_put_room(enc, RF_HEADER_SIZE);
}

void rf_enc_return(struct rf_enc *enc, uint32_t grant_id)
{
	RF_ASSERT(enc->op_count == 0 && enc->return_count < RF_RETURNS_MAX);
	rf_put_u32(enc, &grant_id);
	enc->return_count++;
}

/* Room for an operation's header, filled by end_op(); NULL: overflowed. */
static uint8_t *begin_op(struct rf_enc *enc)
{
	RF_ASSERT(enc->op_count < RF_OPS_MAX);
	enc->op_count++;
	return rf_put_room(enc, RF_OP_HEADER_SIZE);
}

static void end_op(struct rf_enc *enc, uint8_t *header, unsigned int code,
		   unsigned int status)
{
	if (enc->overflowed)
		return;
	rf_store_u16(header, (uint16_t)code);
	rf_store_u16(header + 2, (uint16_t)status);
	rf_store_u32(header + 4, (uint32_t)(enc->base + enc->used - header) -
				 RF_OP_HEADER_SIZE);
}

void rf_enc_args(struct rf_enc *enc, const struct rf_args *args)
{
	const struct op *op = op_of(args->code);
	uint8_t *header;

	RF_ASSERT(op);
	header = begin_op(enc);
	op->put_args(enc, args);
	end_op(enc, header, args->code, RF_ST_OK);
}

void rf_enc_results(struct rf_enc *enc, const struct rf_results *results)
{
	const struct op *op = op_of(results->code);
	const rf_grants_t *rearmed = rearmed_of((struct rf_results *)results);
	uint8_t *header;

	/* A code that we do not know can only be refused. */
	RF_ASSERT(op || results->status != RF_ST_OK);
	RF_ASSERT(results->code <= UINT16_MAX && results->status <= UINT16_MAX);
	header = begin_op(enc);
	if (results->status == RF_ST_OK)
		op->put_results(enc, results);
	else if (rearmed)
		rf_put_grants(enc, rearmed);
	end_op(enc, header, results->code, results->status);
}

void rf_header_store(void *message, const struct rf_header *header)
{
	uint8_t *at = message;

	rf_store_u32(at, header->size);
	at[4] = header->type;
	at[5] = header->flags;
	rf_store_u16(at + 6, header->op_count);
	rf_store_u16(at + 8, header->slot);
	rf_store_u16(at + 10, header->channel);
	rf_store_u32(at + 12, header->seq);
	rf_store_u32(at + 16, header->epoch);
	rf_store_u16(at + 20, header->identity);
	rf_store_u16(at + 22, header->return_count);
	rf_store_u32(at + 24, header->ack);
	rf_store_u32(at + 28, header->ticket);
}

int rf_enc_finish(struct rf_enc *enc, struct rf_header *header)
{
	if (enc->overflowed)
		return -EMSGSIZE;
	header->size = enc->used;
	header->op_count = enc->op_count;
	header->return_count = enc->return_count;
	rf_header_store(enc->base, header);
	return (int)enc->used;
}

/* ---- decoding ------------------------------------------------------------ */

static void header_load(const uint8_t *at, struct rf_header *out)
{
	*out = (struct rf_header){
		.size = rf_load_u32(at),
		.type = at[4],
		.flags = at[5],
		.op_count = rf_load_u16(at + 6),
		.slot = rf_load_u16(at + 8),
		.channel = rf_load_u16(at + 10),
		.seq = rf_load_u32(at + 12),
		.epoch = rf_load_u32(at + 16),
		.identity = rf_load_u16(at + 20),
		.return_count = rf_load_u16(at + 22),
		.ack = rf_load_u32(at + 24),
		.ticket = rf_load_u32(at + 28),
	};
}

int rf_header_load(const void *message, size_t size, struct rf_header *out)
{
	if (size < RF_HEADER_SIZE)
		return -EBADMSG;
	header_load(message, out);
	if (out->size != size || out->flags != 0 || out->channel != 0 ||
	    out->op_count > RF_OPS_MAX || out->return_count > RF_RETURNS_MAX)
		return -EBADMSG;
	return 0;
}

/* What each type may contain, beyond what is true of all. */
static bool header_is_allowed(const struct rf_header *header)
{
	switch (header->type) {
	case RF_MSG_REQUEST:
		return true;
	case RF_MSG_REPLY:
	case RF_MSG_FINISHED:
		return header->return_count == 0;
	case RF_MSG_QUEUED:
		return header->return_count == 0 && header->op_count == 0;
	default:
		return false;
	}
}

/* True if the operations fill the rest of the message exactly. */
static bool outline_is_sound(const struct rf_dec *dec, struct rf_cursor cur)
{
	for (unsigned int i = 0; i < dec->header.op_count; i++) {
		const uint8_t *at = rf_get_room(&cur, RF_OP_HEADER_SIZE);

		if (!at || !rf_get_room(&cur, rf_load_u32(at + 4)))
			return false;
		if (dec->header.type == RF_MSG_REQUEST &&
		    rf_load_u16(at + 2) != RF_ST_OK)
			return false;
	}
	return cur.at == cur.end;
}

int rf_dec_init(struct rf_dec *dec, const void *message, size_t size)
{
	struct rf_cursor cur = { message, (const uint8_t *)message + size };

	*dec = (struct rf_dec){ .base = message };
	if (size > UINT32_MAX ||
	    rf_header_load(message, size, &dec->header) < 0 ||
	    !header_is_allowed(&dec->header))
		return -EBADMSG;
	rf_get_room(&cur, RF_HEADER_SIZE);
	dec->returns = rf_get_room(&cur, 4 * (size_t)dec->header.return_count);
	if (!dec->returns || !outline_is_sound(dec, cur))
		return -EBADMSG;
	dec->size = (uint32_t)size;
	dec->at = (uint32_t)(cur.at - dec->base);
	dec->ops_left = dec->header.op_count;
	return 0;
}

uint32_t rf_dec_return(const struct rf_dec *dec, unsigned int index)
{
	RF_ASSERT(index < dec->header.return_count);
	return rf_load_u32(dec->returns + 4 * (size_t)index);
}

/*
 * Step over the next operation: 1 and where its bytes are, or 0.  rf_dec_init()
 * has seen that they all exist.
 */
static int next_op(struct rf_dec *dec, struct rf_cursor *cur,
		   unsigned int *code, unsigned int *status)
{
	const uint8_t *header = dec->base + dec->at;
	uint32_t size;

	if (dec->ops_left == 0)
		return 0;
	RF_ASSERT(dec->size - dec->at >= RF_OP_HEADER_SIZE);
	*code = rf_load_u16(header);
	*status = rf_load_u16(header + 2);
	size = rf_load_u32(header + 4);
	dec->at += RF_OP_HEADER_SIZE;
	RF_ASSERT(size <= dec->size - dec->at);
	*cur = (struct rf_cursor){ dec->base + dec->at,
				   dec->base + dec->at + size };
	dec->at += size;
	dec->ops_left--;
	return 1;
}

int rf_dec_args(struct rf_dec *dec, struct rf_args *args)
{
	unsigned int code, status;
	struct rf_cursor cur;
	const struct op *op;

	if (!next_op(dec, &cur, &code, &status))
		return 0;
	args->code = (enum rf_op_code)code;
	op = op_of(code);
	if (!op)
		return -EOPNOTSUPP;
	if (!op->get_args(&cur, args) || cur.at != cur.end)
		return -EBADMSG;
	return 1;
}

/* The results of an operation that failed: none, or the rearmed slots. */
static bool get_failed(struct rf_cursor *cur, struct rf_results *results)
{
	rf_grants_t *rearmed = rearmed_of(results);

	return !rearmed || rf_get_grants(cur, rearmed);
}

int rf_dec_results(struct rf_dec *dec, struct rf_results *results)
{
	unsigned int code, status;
	struct rf_cursor cur;
	const struct op *op;
	bool is_good;

	if (!next_op(dec, &cur, &code, &status))
		return 0;
	results->code = (enum rf_op_code)code;
	results->status = status;
	op = op_of(code);
	if (!op)
		return -EOPNOTSUPP;
	is_good = status == RF_ST_OK ? op->get_results(&cur, results)
				     : get_failed(&cur, results);
	return is_good && cur.at == cur.end ? 1 : -EBADMSG;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.c - random operations and messages, made and compared
 */
#include "tests/common/wire.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- chance -------------------------------------------------------------- */

static uint64_t chance_state;

unsigned int wire_number(const char *variable, unsigned int otherwise)
{
	const char *text = getenv(variable);

	return text ? (unsigned int)strtoul(text, NULL, 10) : otherwise;
}

void wire_chance_seed(uint64_t seed)
{
	chance_state = seed;
}

/* Call first in each test that uses chance. */
void wire_chance_start(const char *test)
{
	const char *seed = getenv("RF_SEED");

	if (seed)
		chance_state = strtoull(seed, NULL, 0);
	else
		rf_random(&chance_state, sizeof(chance_state));
	fprintf(stderr, "%s: RF_SEED=%#llx\n", test,
		(unsigned long long)chance_state);
}

/* splitmix64 */
uint64_t wire_chance(void)
{
	uint64_t z = chance_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

uint64_t wire_chance_below(uint64_t limit)
{
	return wire_chance() % limit;
}

/* ---- values of each field type: make one, compare two -------------------- */

/* What names and blobs point to. */
static char bytes_pool[WIRE_BUFFER_SIZE];
static size_t bytes_used;

void wire_forget_bytes(void)
{
	bytes_used = 0;
}

static char *make_bytes(size_t size, bool is_name, bool has_slash)
{
	char *at = bytes_pool + bytes_used;

	cr_assert(size <= sizeof(bytes_pool) - bytes_used);
	bytes_used += size;
	for (size_t i = 0; i < size; i++)
		do
			at[i] = (char)wire_chance();
		while (is_name && (!at[i] || (at[i] == '/' && !has_slash)));
	return at;
}

static void make_u16(uint16_t *v) { *v = (uint16_t)wire_chance(); }
static void make_u32(uint32_t *v) { *v = (uint32_t)wire_chance(); }
static void make_u64(uint64_t *v) { *v = wire_chance(); }
static void make_flag(uint8_t *v) { *v = wire_chance() & 1; }
static void make_whence(uint8_t *v) { *v = wire_chance() & 1; }
static void make_set_bits(uint32_t *v) { *v = wire_chance() & RF_SET_ALL; }
static void make_open_flags(uint32_t *v) { *v = wire_chance() & RF_OPEN_ALL; }
static void make_write_flags(uint32_t *v) { *v = wire_chance() & RF_WRITE_ALL; }
static void make_falloc_mode(uint32_t *v) { *v = wire_chance() & RF_FALLOC_ALL; }
static void make_rename_flags(uint32_t *v) { *v = wire_chance() & RF_RENAME_ALL; }
static void make_xattr_flags(uint32_t *v) { *v = wire_chance() & RF_XATTR_ALL; }
static void make_lock_flags(uint32_t *v) { *v = wire_chance() & RF_LOCK_ALL; }

static void make_time(rf_time_t *v)
{
	v->seconds = (int64_t)wire_chance();
	v->nanoseconds = (uint32_t)wire_chance_below(1000000000);
}

void wire_make_handle(rf_handle_t *v)
{
	*v = (rf_handle_t){ wire_chance(), (uint32_t)wire_chance(), wire_chance() };
}

void wire_make_attr(rf_attr_t *v)
{
	*v = (rf_attr_t){
		.inode = wire_chance(), .change = wire_chance(), .size = wire_chance(),
		.blocks = wire_chance(), .mode = (uint32_t)wire_chance(),
		.nlink = (uint32_t)wire_chance(), .uid = (uint32_t)wire_chance(),
		.gid = (uint32_t)wire_chance(), .rdev = wire_chance(),
		.tree = (uint32_t)wire_chance(), .block_size = (uint32_t)wire_chance(),
		.flags = (uint32_t)wire_chance(), .reserved = (uint32_t)wire_chance(),
	};
	make_time(&v->atime);
	make_time(&v->mtime);
	make_time(&v->ctime);
	make_time(&v->btime);
}

void wire_make_name(rf_name_t *v)
{
	do {
		v->size = (uint16_t)(1 + wire_chance_below(RF_NAME_MAX));
		v->bytes = make_bytes(v->size, true, false);
	} while (!rf_name_is_valid(v->bytes, v->size));
}

static void make_xname(rf_xname_t *v)
{
	v->size = (uint16_t)(1 + wire_chance_below(RF_NAME_MAX));
	v->bytes = make_bytes(v->size, true, true);
}

static void make_blob(rf_blob_t *v)
{
	v->size = wire_chance() & 1 ? 0 : (uint32_t)wire_chance_below(600);
	v->bytes = v->size ? make_bytes(v->size, false, true) : NULL;
}

static void make_target(rf_target_t *v)
{
	v->size = 1 + (uint32_t)wire_chance_below(RF_TARGET_MAX);
	v->bytes = make_bytes(v->size, true, true);
}

static void make_u32s(rf_u32s_t *v)
{
	v->size = 4 * (uint32_t)wire_chance_below(RF_GROUPS_MAX + 1);
	v->bytes = make_bytes(v->size, false, true);
}

static void make_grants(rf_grants_t *v)
{
	v->count = (uint16_t)wire_chance_below(RF_GRANTS_MAX + 1);
	for (unsigned int i = 0; i < v->count; i++)
		v->v[i] = (struct rf_grant){
			(uint32_t)wire_chance(), (uint32_t)wire_chance(), wire_chance(),
			(uint32_t)wire_chance(), (uint32_t)wire_chance() };
}

static void make_pieces(rf_pieces_t *v)
{
	v->count = (uint16_t)wire_chance_below(RF_GRANTS_MAX + 1);
	for (unsigned int i = 0; i < v->count; i++)
		v->v[i] = (struct rf_piece){
			(uint32_t)wire_chance(), (uint32_t)wire_chance(),
			(uint32_t)wire_chance() };
}

static void make_layout(rf_layout_t *v)
{
	v->stripe_size = (uint32_t)wire_chance();
	v->server_count = (uint16_t)wire_chance_below(RF_SERVERS_MAX + 1);
	for (unsigned int i = 0; i < v->server_count; i++)
		v->servers[i] = (uint16_t)wire_chance();
}

#define SAME_NUMBER(type, c_type) \
static bool same_##type(const c_type *a, const c_type *b) { return *a == *b; }
SAME_NUMBER(u16, uint16_t)
SAME_NUMBER(u32, uint32_t)
SAME_NUMBER(u64, uint64_t)
SAME_NUMBER(flag, uint8_t)
SAME_NUMBER(whence, uint8_t)
SAME_NUMBER(set_bits, uint32_t)
SAME_NUMBER(open_flags, uint32_t)
SAME_NUMBER(write_flags, uint32_t)
SAME_NUMBER(falloc_mode, uint32_t)
SAME_NUMBER(rename_flags, uint32_t)
SAME_NUMBER(xattr_flags, uint32_t)
SAME_NUMBER(lock_flags, uint32_t)

static bool same_time(const rf_time_t *a, const rf_time_t *b)
{
	return a->seconds == b->seconds && a->nanoseconds == b->nanoseconds;
}

bool wire_same_handle(const rf_handle_t *a, const rf_handle_t *b)
{
	return a->inode == b->inode && a->tree == b->tree && a->tag == b->tag;
}

bool wire_same_attr(const rf_attr_t *a, const rf_attr_t *b)
{
	return a->inode == b->inode && a->change == b->change &&
	       a->size == b->size && a->blocks == b->blocks &&
	       same_time(&a->atime, &b->atime) &&
	       same_time(&a->mtime, &b->mtime) &&
	       same_time(&a->ctime, &b->ctime) &&
	       same_time(&a->btime, &b->btime) &&
	       a->mode == b->mode && a->nlink == b->nlink &&
	       a->uid == b->uid && a->gid == b->gid && a->rdev == b->rdev &&
	       a->tree == b->tree && a->block_size == b->block_size &&
	       a->flags == b->flags && a->reserved == b->reserved;
}

bool wire_same_name(const rf_name_t *a, const rf_name_t *b)
{
	return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

static bool same_xname(const rf_xname_t *a, const rf_xname_t *b)
{
	return wire_same_name(a, b);
}

static bool same_blob(const rf_blob_t *a, const rf_blob_t *b)
{
	return a->size == b->size &&
	       (a->size == 0 || memcmp(a->bytes, b->bytes, a->size) == 0);
}

static bool same_target(const rf_target_t *a, const rf_target_t *b)
{
	return same_blob(a, b);
}

static bool same_u32s(const rf_u32s_t *a, const rf_u32s_t *b)
{
	return same_blob(a, b);
}

static bool same_grants(const rf_grants_t *a, const rf_grants_t *b)
{
	for (unsigned int i = 0; i < a->count && a->count == b->count; i++)
		if (memcmp(&a->v[i], &b->v[i], sizeof(a->v[i])) != 0)
			return false;
	return a->count == b->count;
}

static bool same_pieces(const rf_pieces_t *a, const rf_pieces_t *b)
{
	for (unsigned int i = 0; i < a->count && a->count == b->count; i++)
		if (memcmp(&a->v[i], &b->v[i], sizeof(a->v[i])) != 0)
			return false;
	return a->count == b->count;
}

static bool same_layout(const rf_layout_t *a, const rf_layout_t *b)
{
	return a->stripe_size == b->stripe_size &&
	       a->server_count == b->server_count &&
	       memcmp(a->servers, b->servers,
		      a->server_count * sizeof(a->servers[0])) == 0;
}

/* ---- whole operations ---------------------------------------------------- */

/* The types that other files use have longer names. */
#define make_name wire_make_name
#define make_handle wire_make_handle
#define make_attr wire_make_attr
#define same_name wire_same_name
#define same_handle wire_same_handle
#define same_attr wire_same_attr

#define MAKE(type, name) make_##type(&v->name);
#define SAME(type, name) && same_##type(&a->name, &b->name)

void wire_make_args(struct rf_args *args, unsigned int code)
{
	memset(args, 0x5a, sizeof(*args));
	args->code = (enum rf_op_code)code;
	switch (code) {
#define MAKE_CASE(NAME, lower, code) \
	case code: { \
		struct rf_##lower##_args *v = &args->lower; \
		(void)v; \
		RF_##NAME##_ARGS(MAKE) \
		break; \
	}
	RF_OPS(MAKE_CASE)
#undef MAKE_CASE
	}
}

void wire_make_results(struct rf_results *results, unsigned int code)
{
	memset(results, 0x5a, sizeof(*results));
	results->code = (enum rf_op_code)code;
	results->status = RF_ST_OK;
	switch (code) {
#define MAKE_CASE(NAME, lower, code) \
	case code: { \
		struct rf_##lower##_results *v = &results->lower; \
		(void)v; \
		RF_##NAME##_RESULTS(MAKE) \
		break; \
	}
	RF_OPS(MAKE_CASE)
#undef MAKE_CASE
	}
}

bool wire_same_args(const struct rf_args *x, const struct rf_args *y)
{
	if (x->code != y->code)
		return false;
	switch (x->code) {
#define SAME_CASE(NAME, lower, code) \
	case code: { \
		const struct rf_##lower##_args *a = &x->lower, *b = &y->lower; \
		(void)a, (void)b; \
		return true RF_##NAME##_ARGS(SAME); \
	}
	RF_OPS(SAME_CASE)
#undef SAME_CASE
	}
	return false;
}

bool wire_same_results(const struct rf_results *x, const struct rf_results *y)
{
	if (x->code != y->code || x->status != y->status)
		return false;
	if (x->status != RF_ST_OK)
		return x->code == RF_OP_WRITE ?
				same_grants(&x->write.rearmed,
					    &y->write.rearmed) :
		       x->code == RF_OP_SETXATTR ?
				same_grants(&x->setxattr.rearmed,
					    &y->setxattr.rearmed) : true;
	switch (x->code) {
#define SAME_CASE(NAME, lower, code) \
	case code: { \
		const struct rf_##lower##_results *a = &x->lower, \
						  *b = &y->lower; \
		(void)a, (void)b; \
		return true RF_##NAME##_RESULTS(SAME); \
	}
	RF_OPS(SAME_CASE)
#undef SAME_CASE
	}
	return false;
}

struct wire_message wire_copy(const void *bytes, size_t size)
{
	struct wire_message m = { malloc(size), size };

	cr_assert(size == 0 || m.bytes);
	if (size)
		memcpy(m.bytes, bytes, size);
	return m;
}

void wire_free(struct wire_message *m)
{
	free(m->bytes);
	m->bytes = NULL;
}

/* A message with one operation, args or results (the other NULL). */
struct wire_message wire_message_of(const struct rf_args *args,
				 const struct rf_results *results)
{
	static uint8_t buffer[WIRE_BUFFER_SIZE];
	struct rf_header header = {
		.type = args ? RF_MSG_REQUEST : RF_MSG_REPLY,
	};
	struct rf_enc enc;
	int size;

	rf_enc_init(&enc, buffer, sizeof(buffer));
	if (args)
		rf_enc_args(&enc, args);
	else
		rf_enc_results(&enc, results);
	size = rf_enc_finish(&enc, &header);
	cr_assert_gt(size, 0);
	return wire_copy(buffer, (size_t)size);
}

struct wire_message wire_random_request(unsigned int code)
{
	struct rf_args args;

	wire_forget_bytes();
	wire_make_args(&args, code);
	return wire_message_of(&args, NULL);
}

struct wire_message wire_random_reply(unsigned int code)
{
	struct rf_results results;

	wire_forget_bytes();
	wire_make_results(&results, code);
	return wire_message_of(NULL, &results);
}

/* What the one operation in the message decodes to. */
int wire_decode_one(const struct wire_message *m)
{
	struct rf_results results;
	struct rf_args args;
	struct rf_dec dec;
	int err = rf_dec_init(&dec, m->bytes, m->size);

	if (err < 0)
		return err;
	return dec.header.type == RF_MSG_REQUEST ? rf_dec_args(&dec, &args)
						 : rf_dec_results(&dec,
								  &results);
}


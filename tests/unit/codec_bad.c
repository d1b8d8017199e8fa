/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec_bad.c - malformed messages are refused, and nothing beyond them is read
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "libproto/base.h"
#include "libproto/codec.h"
#include "tests/common/wire.h"

/* ---- truncated and lengthened -------------------------------------------- */

static void put_size(struct wire_message *m)
{
	if (m->size >= 4)
		rf_store_u32(m->bytes, (uint32_t)m->size);
}

/* Cut anywhere: with the header's size as it was, and made to agree. */
static void expect_prefixes_refused(const struct wire_message *whole)
{
	struct rf_dec dec;

	for (size_t size = 0; size < whole->size; size++) {
		struct wire_message m = wire_copy(whole->bytes, size);

		cr_assert_eq(rf_dec_init(&dec, m.bytes, size), -EBADMSG);
		put_size(&m);
		cr_assert_eq(rf_dec_init(&dec, m.bytes, size), -EBADMSG);
		wire_free(&m);
	}
}

/* An operation with size bytes of its body: all lengths agree. */
static int decode_with_body(const struct wire_message *whole, size_t body)
{
	size_t start = RF_HEADER_SIZE + RF_OP_HEADER_SIZE;
	size_t have = whole->size - start;
	struct wire_message m = { calloc(1, start + body), start + body };
	int got;

	memcpy(m.bytes, whole->bytes, start + (body < have ? body : have));
	put_size(&m);
	rf_store_u32(m.bytes + RF_HEADER_SIZE + 4, (uint32_t)body);
	got = wire_decode_one(&m);
	wire_free(&m);
	return got;
}

static void expect_other_bodies_refused(const struct wire_message *whole)
{
	size_t body = whole->size - RF_HEADER_SIZE - RF_OP_HEADER_SIZE;

	for (size_t size = 0; size < body; size++)
		cr_assert_eq(decode_with_body(whole, size), -EBADMSG);
	cr_assert_eq(decode_with_body(whole, body), 1);
	for (size_t more = 1; more < 40; more++)
		cr_assert_eq(decode_with_body(whole, body + more), -EBADMSG);
}

Test(codec, every_truncation_of_a_request_is_refused)
{
	wire_chance_start("truncation of requests");
	for (size_t i = 0; i < WIRE_CODE_COUNT; i++) {
		struct wire_message m = wire_random_request(wire_codes[i]);

		expect_prefixes_refused(&m);
		expect_other_bodies_refused(&m);
		wire_free(&m);
	}
}

Test(codec, every_truncation_of_a_reply_is_refused)
{
	wire_chance_start("truncation of replies");
	for (size_t i = 0; i < WIRE_CODE_COUNT; i++) {
		struct wire_message m = wire_random_reply(wire_codes[i]);

		expect_prefixes_refused(&m);
		expect_other_bodies_refused(&m);
		wire_free(&m);
	}
}

Test(codec, bytes_behind_the_last_operation_are_refused)
{
	struct wire_message m, longer;
	struct rf_dec dec;

	wire_chance_start("bytes behind");
	m = wire_random_request(RF_OP_WRITE);
	longer = wire_copy(m.bytes, m.size);
	longer.bytes = realloc(longer.bytes, m.size + 1);
	cr_assert(longer.bytes);
	longer.size++;
	longer.bytes[m.size] = 0;
	put_size(&longer);
	cr_assert_eq(rf_dec_init(&dec, longer.bytes, longer.size), -EBADMSG);
	wire_free(&longer);
	wire_free(&m);
}

/* ---- bad headers --------------------------------------------------------- */

static int init_with(const struct wire_message *good, size_t at, uint8_t value)
{
	struct wire_message m = wire_copy(good->bytes, good->size);
	struct rf_dec dec;
	int err;

	m.bytes[at] = value;
	err = rf_dec_init(&dec, m.bytes, m.size);
	wire_free(&m);
	return err;
}

Test(codec, only_known_types_are_taken)
{
	uint8_t bytes[RF_HEADER_SIZE] = { RF_HEADER_SIZE };
	struct wire_message m = wire_copy(bytes, sizeof(bytes));

	for (unsigned int type = 0; type < 256; type++) {
		bool is_known = type >= RF_MSG_REQUEST &&
				type <= RF_MSG_FINISHED;

		cr_assert_eq(init_with(&m, 4, (uint8_t)type),
			     is_known ? 0 : -EBADMSG, "type %u", type);
	}
	wire_free(&m);
}

Test(codec, header_fields_out_of_bounds_are_refused)
{
	struct wire_message m;

	wire_chance_start("header fields");
	m = wire_random_request(RF_OP_NOP);
	cr_assert_eq(init_with(&m, 0, (uint8_t)(m.size + 1)), -EBADMSG);
	cr_assert_eq(init_with(&m, 0, (uint8_t)(m.size - 1)), -EBADMSG);
	cr_assert_eq(init_with(&m, 3, 1), -EBADMSG);
	cr_assert_eq(init_with(&m, 5, 1), -EBADMSG, "flags");
	cr_assert_eq(init_with(&m, 5, 0x80), -EBADMSG, "flags");
	cr_assert_eq(init_with(&m, 6, 0), -EBADMSG, "no operation counted");
	cr_assert_eq(init_with(&m, 6, 2), -EBADMSG, "one operation too many");
	cr_assert_eq(init_with(&m, 6, RF_OPS_MAX + 1), -EBADMSG);
	cr_assert_eq(init_with(&m, 10, 1), -EBADMSG, "channel");
	cr_assert_eq(init_with(&m, 11, 1), -EBADMSG, "channel");
	cr_assert_eq(init_with(&m, 22, 1), -EBADMSG, "returns beyond the end");
	cr_assert_eq(init_with(&m, 22, 255), -EBADMSG);
	cr_assert_eq(init_with(&m, 23, 255), -EBADMSG);
	cr_assert_eq(init_with(&m, RF_HEADER_SIZE + 2, 1), -EBADMSG,
		     "a request has no status");
	cr_assert_eq(init_with(&m, RF_HEADER_SIZE + 4, 1), -EBADMSG);
	cr_assert_eq(init_with(&m, RF_HEADER_SIZE + 7, 255), -EBADMSG);
	wire_free(&m);
}

/* Enough bytes are there, but the counts are over the limits. */
Test(codec, counts_over_the_limits_are_refused)
{
	size_t size = RF_HEADER_SIZE + 4 * (RF_RETURNS_MAX + 1);
	struct wire_message m = { calloc(1, size), size };
	struct rf_header header = {
		.size = (uint32_t)size, .type = RF_MSG_REQUEST,
		.return_count = RF_RETURNS_MAX + 1,
	};
	struct rf_dec dec;

	rf_header_store(m.bytes, &header);
	cr_assert_eq(rf_dec_init(&dec, m.bytes, m.size), -EBADMSG);
	header.return_count--;
	header.size = (uint32_t)(size - 4);
	rf_header_store(m.bytes, &header);
	cr_assert_eq(rf_dec_init(&dec, m.bytes, size - 4), 0);
	wire_free(&m);

	size = RF_HEADER_SIZE + RF_OP_HEADER_SIZE * (RF_OPS_MAX + 1);
	m = (struct wire_message){ calloc(1, size), size };
	header = (struct rf_header){
		.size = (uint32_t)size, .type = RF_MSG_REQUEST,
		.op_count = RF_OPS_MAX + 1,
	};
	rf_header_store(m.bytes, &header);
	cr_assert_eq(rf_dec_init(&dec, m.bytes, m.size), -EBADMSG);
	wire_free(&m);
}

Test(codec, servers_return_no_grants_and_queued_is_empty)
{
	uint8_t bytes[RF_HEADER_SIZE + 8] = { RF_HEADER_SIZE + 8 };
	struct wire_message m = wire_copy(bytes, sizeof(bytes));

	m.bytes[22] = 2;	/* two returns fill the rest */
	cr_assert_eq(init_with(&m, 4, RF_MSG_REQUEST), 0);
	cr_assert_eq(init_with(&m, 4, RF_MSG_REPLY), -EBADMSG);
	cr_assert_eq(init_with(&m, 4, RF_MSG_QUEUED), -EBADMSG);
	cr_assert_eq(init_with(&m, 4, RF_MSG_FINISHED), -EBADMSG);
	m.bytes[22] = 0;
	m.bytes[6] = 1;		/* one empty operation does */
	cr_assert_eq(init_with(&m, 4, RF_MSG_REPLY), 0);
	cr_assert_eq(init_with(&m, 4, RF_MSG_FINISHED), 0);
	cr_assert_eq(init_with(&m, 4, RF_MSG_QUEUED), -EBADMSG);
	wire_free(&m);
}

/* ---- bad fields ---------------------------------------------------------- */

/* A request of this code with these bytes as its arguments. */
static int decode_body(unsigned int code, const void *body, size_t size)
{
	size_t start = RF_HEADER_SIZE + RF_OP_HEADER_SIZE;
	struct wire_message m = { calloc(1, start + size), start + size };
	struct rf_header header = {
		.size = (uint32_t)m.size, .type = RF_MSG_REQUEST,
		.op_count = 1,
	};
	int got;

	rf_header_store(m.bytes, &header);
	rf_store_u16(m.bytes + RF_HEADER_SIZE, (uint16_t)code);
	rf_store_u32(m.bytes + RF_HEADER_SIZE + 4, (uint32_t)size);
	memcpy(m.bytes + start, body, size);
	got = wire_decode_one(&m);
	wire_free(&m);
	return got;
}

static int decode_name(unsigned int code, const char *name, size_t size)
{
	uint8_t body[2 + 300];

	rf_store_u16(body, (uint16_t)size);
	memcpy(body + 2, name, size);
	return decode_body(code, body, 2 + size);
}

Test(codec, names_are_checked)
{
	static const struct { const char *bytes; size_t size; } bad[] = {
		{ "", 0 }, { ".", 1 }, { "..", 2 }, { "/", 1 }, { "a/b", 3 },
		{ "/a", 2 }, { "a/", 2 }, { "\0", 1 }, { "a\0b", 3 },
		{ "a\0", 2 },
	};
	static const char *const good[] = { "a", "...", ".a", "..a", " ", "\n",
					    "\xff\xfe", "a.", ".git" };
	char longest[256];

	for (size_t i = 0; i < RF_ARRAY_SIZE(bad); i++)
		cr_assert_eq(decode_name(RF_OP_LOOKUP, bad[i].bytes,
					 bad[i].size), -EBADMSG, "%zu", i);
	for (size_t i = 0; i < RF_ARRAY_SIZE(good); i++)
		cr_assert_eq(decode_name(RF_OP_LOOKUP, good[i],
					 strlen(good[i])), 1, "%zu", i);
	memset(longest, 'n', sizeof(longest));
	cr_assert_eq(decode_name(RF_OP_LOOKUP, longest, 255), 1);
	cr_assert_eq(decode_name(RF_OP_LOOKUP, longest, 256), -EBADMSG);
}

Test(codec, names_of_attributes_may_be_paths)
{
	char longest[256];

	cr_assert_eq(decode_name(RF_OP_REMOVEXATTR, "user.a/b", 8), 1);
	cr_assert_eq(decode_name(RF_OP_REMOVEXATTR, ".", 1), 1);
	cr_assert_eq(decode_name(RF_OP_REMOVEXATTR, "..", 2), 1);
	cr_assert_eq(decode_name(RF_OP_REMOVEXATTR, "", 0), -EBADMSG);
	cr_assert_eq(decode_name(RF_OP_REMOVEXATTR, "a\0b", 3), -EBADMSG);
	memset(longest, 'n', sizeof(longest));
	cr_assert_eq(decode_name(RF_OP_REMOVEXATTR, longest, 255), 1);
	cr_assert_eq(decode_name(RF_OP_REMOVEXATTR, longest, 256), -EBADMSG);
}

/* Every bit of the u32 at this place of the arguments: defined ones pass. */
static void expect_bits(unsigned int code, size_t at, uint32_t all)
{
	size_t start = RF_HEADER_SIZE + RF_OP_HEADER_SIZE;
	struct wire_message m = wire_random_request(code);

	for (unsigned int bit = 0; bit < 32; bit++) {
		rf_store_u32(m.bytes + start + at, UINT32_C(1) << bit);
		cr_assert_eq(wire_decode_one(&m), all >> bit & 1 ? 1 : -EBADMSG,
			     "%s bit %u", rf_op_name(code), bit);
	}
	wire_free(&m);
}

Test(codec, undefined_bits_are_refused)
{
	uint8_t body[64] = { 1, 0, 'n' };

	wire_chance_start("undefined bits");
	expect_bits(RF_OP_SETATTR, 0, RF_SET_ALL);
	expect_bits(RF_OP_OPEN, 0, RF_OPEN_ALL);
	expect_bits(RF_OP_WRITE, 12, RF_WRITE_ALL);
	expect_bits(RF_OP_FALLOCATE, 4, RF_FALLOC_ALL);
	for (unsigned int bit = 0; bit < 32; bit++) {
		rf_store_u32(body + 7, UINT32_C(1) << bit);
		cr_assert_eq(decode_body(RF_OP_CREATE, body, 15),
			     RF_OPEN_ALL >> bit & 1 ? 1 : -EBADMSG);
	}
	memset(body + 3, 0, sizeof(body) - 3);
	rf_store_u16(body + 23, 1);
	body[25] = 'm';
	for (unsigned int bit = 0; bit < 32; bit++) {
		rf_store_u32(body + 26, UINT32_C(1) << bit);
		cr_assert_eq(decode_body(RF_OP_RENAME, body, 30),
			     RF_RENAME_ALL >> bit & 1 ? 1 : -EBADMSG);
	}
	memset(body + 3, 0, sizeof(body) - 3);
	for (unsigned int bit = 0; bit < 32; bit++) {
		rf_store_u32(body + 3, UINT32_C(1) << bit);
		cr_assert_eq(decode_body(RF_OP_SETXATTR, body, 13),
			     RF_XATTR_ALL >> bit & 1 ? 1 : -EBADMSG);
	}
	expect_bits(RF_OP_LOCK, 20, RF_LOCK_ALL);
	expect_bits(RF_OP_UNLOCK, 8, RF_LOCK_ALL);
	expect_bits(RF_OP_TEST_LOCK, 12, RF_LOCK_ALL);
}

Test(codec, flags_of_one_byte_are_0_or_1)
{
	uint8_t fsync[5] = { 0 }, lseek[13] = { 0 }, readdir[17] = { 0 };

	for (unsigned int v = 0; v < 256; v++) {
		int want = v <= 1 ? 1 : -EBADMSG;

		fsync[4] = lseek[12] = readdir[16] = (uint8_t)v;
		cr_assert_eq(decode_body(RF_OP_FSYNC, fsync, 5), want);
		cr_assert_eq(decode_body(RF_OP_LSEEK, lseek, 13), want);
		cr_assert_eq(decode_body(RF_OP_READDIR, readdir, 17), want);
	}
}

Test(codec, nanoseconds_stay_below_a_second)
{
	uint8_t body[52] = { 0 };	/* SETATTR: mtime is last */

	rf_store_u32(body + 48, 999999999);
	cr_assert_eq(decode_body(RF_OP_SETATTR, body, 52), 1);
	rf_store_u32(body + 48, 1000000000);
	cr_assert_eq(decode_body(RF_OP_SETATTR, body, 52), -EBADMSG);
	rf_store_u32(body + 48, UINT32_MAX);
	cr_assert_eq(decode_body(RF_OP_SETATTR, body, 52), -EBADMSG);
	rf_store_u32(body + 48, 0);
	rf_store_u32(body + 36, 1000000000);
	cr_assert_eq(decode_body(RF_OP_SETATTR, body, 52), -EBADMSG);
}

Test(codec, counts_of_pieces_are_bounded)
{
	uint8_t body[22 + 12 * (RF_GRANTS_MAX + 1)] = { 0 };

	for (uint16_t count = 0; count <= RF_GRANTS_MAX + 1; count++) {
		rf_store_u16(body + 20, count);
		cr_assert_eq(decode_body(RF_OP_WRITE, body, 22 + 12u * count),
			     count <= RF_GRANTS_MAX ? 1 : -EBADMSG);
	}
	rf_store_u16(body + 20, UINT16_MAX);
	cr_assert_eq(decode_body(RF_OP_WRITE, body, sizeof(body)), -EBADMSG);
}

Test(codec, a_blob_stays_in_its_operation)
{
	uint8_t body[22] = { 0 };	/* WRITE with no data and no pieces */

	cr_assert_eq(decode_body(RF_OP_WRITE, body, 22), 1);
	rf_store_u32(body + 16, 2);
	cr_assert_eq(decode_body(RF_OP_WRITE, body, 22), -EBADMSG);
	rf_store_u32(body + 16, UINT32_MAX);
	cr_assert_eq(decode_body(RF_OP_WRITE, body, 22), -EBADMSG);
	rf_store_u32(body + 16, UINT32_MAX - 1);
	cr_assert_eq(decode_body(RF_OP_WRITE, body, 22), -EBADMSG);
}

Test(codec, lists_of_numbers_are_whole_and_bounded)
{
	static uint8_t body[4 + 4 * (RF_GROUPS_MAX + 1)];

	for (uint32_t size = 0; size <= 12; size++) {
		rf_store_u32(body, size);
		cr_assert_eq(decode_body(RF_OP_DROP_SLOTS, body, 4 + size),
			     size % 4 ? -EBADMSG : 1);
	}
	rf_store_u32(body, 4 * RF_GROUPS_MAX);
	cr_assert_eq(decode_body(RF_OP_DROP_SLOTS, body,
				 4 + 4 * RF_GROUPS_MAX), 1);
	rf_store_u32(body, 4 * (RF_GROUPS_MAX + 1));
	cr_assert_eq(decode_body(RF_OP_DROP_SLOTS, body, sizeof(body)),
		     -EBADMSG);
}

Test(codec, targets_of_links_are_checked)
{
	static uint8_t body[3 + 4 + RF_TARGET_MAX + 1] = { 1, 0, 'n' };

	memset(body + 7, 't', sizeof(body) - 7);
	for (uint32_t size = 0; size < 5; size++) {
		rf_store_u32(body + 3, size);
		cr_assert_eq(decode_body(RF_OP_SYMLINK, body, 7 + size),
			     size ? 1 : -EBADMSG);
	}
	rf_store_u32(body + 3, RF_TARGET_MAX);
	cr_assert_eq(decode_body(RF_OP_SYMLINK, body, 7 + RF_TARGET_MAX), 1);
	rf_store_u32(body + 3, RF_TARGET_MAX + 1);
	cr_assert_eq(decode_body(RF_OP_SYMLINK, body, sizeof(body)), -EBADMSG);
	rf_store_u32(body + 3, 4);
	body[9] = 0;
	cr_assert_eq(decode_body(RF_OP_SYMLINK, body, 11), -EBADMSG);
}

Test(codec, layouts_name_no_more_servers_than_allowed)
{
	struct rf_results results = { .code = RF_OP_OPEN };
	struct wire_message m;
	struct rf_dec dec;

	results.open.layout.server_count = RF_SERVERS_MAX;
	m = wire_message_of(NULL, &results);
	cr_assert_eq(wire_decode_one(&m), 1);
	/* the count stands before the servers */
	rf_store_u16(m.bytes + m.size - 2 * RF_SERVERS_MAX - 2,
		     RF_SERVERS_MAX + 1);
	cr_assert_eq(rf_dec_init(&dec, m.bytes, m.size), 0);
	cr_assert_eq(rf_dec_results(&dec, &results), -EBADMSG);
	wire_free(&m);
}

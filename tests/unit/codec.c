/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec.c - what is encoded decodes to the same, for every operation
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "libproto/base.h"
#include "libproto/codec.h"
#include "tests/common/wire.h"

enum { ROUNDS = 100 };		/* of random values, each operation */

/* ---- round trips --------------------------------------------------------- */

Test(codec, arguments_of_every_operation_survive)
{
	struct rf_args in, out;
	struct wire_message m;
	struct rf_dec dec;

	wire_chance_start("arguments");
	for (size_t i = 0; i < WIRE_CODE_COUNT * ROUNDS; i++) {
		unsigned int code = wire_codes[i / ROUNDS];

		wire_forget_bytes();
		wire_make_args(&in, code);
		m = wire_message_of(&in, NULL);
		cr_assert_eq(rf_dec_init(&dec, m.bytes, m.size), 0);
		memset(&out, 0xa5, sizeof(out));
		cr_assert_eq(rf_dec_args(&dec, &out), 1, "%s",
			     rf_op_name(code));
		cr_assert(wire_same_args(&in, &out), "%s", rf_op_name(code));
		cr_assert_eq(rf_dec_args(&dec, &out), 0);
		wire_free(&m);
	}
}

Test(codec, results_of_every_operation_survive)
{
	struct rf_results in, out;
	struct wire_message m;
	struct rf_dec dec;

	wire_chance_start("results");
	for (size_t i = 0; i < WIRE_CODE_COUNT * ROUNDS; i++) {
		unsigned int code = wire_codes[i / ROUNDS];

		wire_forget_bytes();
		wire_make_results(&in, code);
		m = wire_message_of(NULL, &in);
		cr_assert_eq(rf_dec_init(&dec, m.bytes, m.size), 0);
		memset(&out, 0xa5, sizeof(out));
		cr_assert_eq(rf_dec_results(&dec, &out), 1, "%s",
			     rf_op_name(code));
		cr_assert(wire_same_results(&in, &out), "%s", rf_op_name(code));
		cr_assert_eq(rf_dec_results(&dec, &out), 0);
		wire_free(&m);
	}
}

Test(codec, failures_carry_a_status_and_rearmed_slots_only)
{
	static const unsigned int statuses[] = { RF_ST_NOENT, RF_ST_BAD_CRC,
						 9999, UINT16_MAX };
	struct rf_results in, out;

	wire_chance_start("failures");
	for (size_t i = 0; i < WIRE_CODE_COUNT * 4; i++) {
		struct wire_message m;
		struct rf_dec dec;
		size_t body = 0;

		wire_forget_bytes();
		wire_make_results(&in, wire_codes[i / 4]);
		in.status = statuses[i % 4];
		if (in.code == RF_OP_WRITE)
			body = 2 + 24u * in.write.rearmed.count;
		if (in.code == RF_OP_SETXATTR)
			body = 2 + 24u * in.setxattr.rearmed.count;
		m = wire_message_of(NULL, &in);
		cr_assert_eq(m.size, RF_HEADER_SIZE + RF_OP_HEADER_SIZE + body);
		cr_assert_eq(rf_dec_init(&dec, m.bytes, m.size), 0);
		cr_assert_eq(rf_dec_results(&dec, &out), 1);
		cr_assert(wire_same_results(&in, &out));
		wire_free(&m);
	}
}

Test(codec, lists_returns_and_header_survive)
{
	static uint8_t buffer[WIRE_BUFFER_SIZE * 4];
	struct rf_header header = {
		.type = RF_MSG_REQUEST, .slot = 7, .seq = 0xfffffffe,
		.epoch = 3, .identity = 1023, .ack = 12, .ticket = 0,
	};
	struct rf_args in[RF_OPS_MAX], out;
	struct rf_enc enc;
	struct rf_dec dec;
	struct wire_message m;
	int size;

	wire_chance_start("lists");
	rf_enc_init(&enc, buffer, sizeof(buffer));
	for (uint32_t i = 0; i < RF_RETURNS_MAX; i++)
		rf_enc_return(&enc, 1000 + i);
	for (unsigned int i = 0; i < RF_OPS_MAX; i++) {
		wire_make_args(&in[i], wire_codes[wire_chance_below(
					WIRE_CODE_COUNT)]);
		rf_enc_args(&enc, &in[i]);
	}
	size = rf_enc_finish(&enc, &header);
	cr_assert_gt(size, 0);
	m = wire_copy(buffer, (size_t)size);
	cr_assert_eq(rf_dec_init(&dec, m.bytes, m.size), 0);
	cr_assert_eq(memcmp(&dec.header, &header, sizeof(header)), 0);
	for (uint32_t i = 0; i < RF_RETURNS_MAX; i++)
		cr_assert_eq(rf_dec_return(&dec, i), 1000 + i);
	for (unsigned int i = 0; i < RF_OPS_MAX; i++) {
		cr_assert_eq(rf_dec_args(&dec, &out), 1);
		cr_assert(wire_same_args(&in[i], &out));
	}
	cr_assert_eq(rf_dec_args(&dec, &out), 0);
	wire_free(&m);
}

Test(codec, header_store_changes_only_the_header)
{
	struct wire_message m;
	struct rf_dec dec;
	struct rf_args args;

	wire_chance_start("header_store");
	m = wire_random_request(RF_OP_LOOKUP);
	cr_assert_eq(rf_dec_init(&dec, m.bytes, m.size), 0);
	dec.header.slot = 5;
	dec.header.seq = 77;
	rf_header_store(m.bytes, &dec.header);
	cr_assert_eq(rf_dec_init(&dec, m.bytes, m.size), 0);
	cr_assert_eq(dec.header.slot, 5);
	cr_assert_eq(dec.header.seq, 77);
	cr_assert_eq(rf_dec_args(&dec, &args), 1);
	wire_free(&m);
}

Test(codec, an_encoder_copy_takes_operations_back)
{
	uint8_t buffer[256];
	struct rf_header header = { .type = RF_MSG_REPLY };
	struct rf_results results = { .code = RF_OP_GETATTR };
	struct rf_enc enc, saved;
	int size;

	rf_enc_init(&enc, buffer, 200);
	rf_enc_results(&enc, &results);
	saved = enc;
	rf_enc_results(&enc, &results);
	cr_assert(enc.overflowed);
	cr_assert_eq(rf_enc_finish(&enc, &header), -EMSGSIZE);
	enc = saved;
	size = rf_enc_finish(&enc, &header);
	cr_assert_eq(size, RF_HEADER_SIZE + RF_OP_HEADER_SIZE + 120);
	cr_assert_eq(header.op_count, 1);
}

Test(codec, too_small_a_buffer_is_seen_and_not_overrun)
{
	struct rf_header header = { .type = RF_MSG_REQUEST };
	struct wire_message whole;

	wire_chance_start("overflow");
	for (size_t i = 0; i < WIRE_CODE_COUNT; i++) {
		struct rf_args args;
		size_t step;

		wire_forget_bytes();
		wire_make_args(&args, wire_codes[i]);
		whole = wire_message_of(&args, NULL);
		step = 1 + whole.size / 100;
		for (size_t size = 0; size < whole.size; size += step) {
			struct wire_message m = { malloc(size), size };
			struct rf_enc enc;

			rf_enc_init(&enc, m.bytes, size);
			rf_enc_args(&enc, &args);
			cr_assert(enc.overflowed);
			cr_assert_leq(enc.used, size);
			cr_assert_eq(rf_enc_finish(&enc, &header), -EMSGSIZE);
			wire_free(&m);
		}
		wire_free(&whole);
	}
}

/* ---- what we do not know ------------------------------------------------- */

Test(codec, an_unknown_operation_can_be_passed_over)
{
	uint8_t buffer[512];
	struct rf_header header = { .type = RF_MSG_REQUEST };
	struct rf_args args = { .code = RF_OP_NOP };
	struct rf_enc enc;
	struct rf_dec dec;
	int size;

	rf_enc_init(&enc, buffer, sizeof(buffer));
	rf_enc_args(&enc, &args);
	args.code = RF_OP_USE;
	rf_enc_args(&enc, &args);
	args.code = RF_OP_GETATTR;
	rf_enc_args(&enc, &args);
	size = rf_enc_finish(&enc, &header);
	rf_store_u16(buffer + RF_HEADER_SIZE + RF_OP_HEADER_SIZE, 4711);
	cr_assert_eq(rf_dec_init(&dec, buffer, (size_t)size), 0);
	cr_assert_eq(rf_dec_args(&dec, &args), 1);
	cr_assert_eq(rf_dec_args(&dec, &args), -EOPNOTSUPP);
	cr_assert_eq((unsigned int)args.code, 4711);
	cr_assert_eq(rf_dec_args(&dec, &args), 1);
	cr_assert_eq(args.code, RF_OP_GETATTR);
	cr_assert_eq(rf_dec_args(&dec, &args), 0);
}

Test(codec, an_unknown_operation_can_be_refused)
{
	struct rf_results results = { .status = RF_ST_NOSYS };
	struct wire_message m;
	struct rf_dec dec;

	results.code = (enum rf_op_code)4711;
	m = wire_message_of(NULL, &results);
	memset(&results, 0, sizeof(results));
	cr_assert_eq(rf_dec_init(&dec, m.bytes, m.size), 0);
	cr_assert_eq(rf_dec_results(&dec, &results), -EOPNOTSUPP);
	cr_assert_eq((unsigned int)results.code, 4711);
	cr_assert_eq(results.status, RF_ST_NOSYS);
	wire_free(&m);
}

Test(codec, every_operation_has_a_name)
{
	cr_assert_str_eq(rf_op_name(RF_OP_LOOKUP), "LOOKUP");
	cr_assert_str_eq(rf_op_name(RF_OP_BYE), "BYE");
	for (size_t i = 0; i < WIRE_CODE_COUNT; i++)
		cr_assert_str_neq(rf_op_name(wire_codes[i]), "?");
	cr_assert_str_eq(rf_op_name(0), "?");
	cr_assert_str_eq(rf_op_name(34), "?");	/* reserved, between BYE and RECLAIM */
	cr_assert_str_eq(rf_op_name(RF_OP_RECLAIM_DONE + 1), "?");
	cr_assert_str_eq(rf_op_name(RF_OP_LOCK_EVENTS + 1), "?");
	cr_assert_str_eq(rf_op_name(UINT32_MAX), "?");
}

Test(codec, what_changes_files_or_opens_is_known)
{
	cr_assert(rf_op_modifies(RF_OP_WRITE));
	cr_assert(rf_op_modifies(RF_OP_OPEN));
	cr_assert(rf_op_modifies(RF_OP_RENAME));
	cr_assert_not(rf_op_modifies(RF_OP_READ));
	cr_assert_not(rf_op_modifies(RF_OP_LOOKUP));
	cr_assert_not(rf_op_modifies(RF_OP_FSYNC));
	cr_assert_not(rf_op_modifies(RF_OP_LOCK));
	cr_assert_not(rf_op_modifies(4711));
}

/* ---- broken contracts ---------------------------------------------------- */

Test(codec, encoding_a_bad_name_aborts, .signal = SIGABRT)
{
	struct rf_args args = {
		.code = RF_OP_LOOKUP, .lookup.name = { "..", 2 },
	};

	wire_message_of(&args, NULL);
}

Test(codec, encoding_an_unknown_bit_aborts, .signal = SIGABRT)
{
	struct rf_args args = {
		.code = RF_OP_OPEN, .open.flags = RF_OPEN_ALL + 1,
	};

	wire_message_of(&args, NULL);
}

Test(codec, encoding_too_many_operations_aborts, .signal = SIGABRT)
{
	struct rf_args args = { .code = RF_OP_NOP };
	uint8_t buffer[512];
	struct rf_enc enc;

	rf_enc_init(&enc, buffer, sizeof(buffer));
	for (unsigned int i = 0; i <= RF_OPS_MAX; i++)
		rf_enc_args(&enc, &args);
}

Test(codec, encoding_success_of_an_unknown_operation_aborts, .signal = SIGABRT)
{
	struct rf_results results = { .status = RF_ST_OK };

	results.code = (enum rf_op_code)4711;
	wire_message_of(NULL, &results);
}

Test(codec, a_return_after_an_operation_aborts, .signal = SIGABRT)
{
	struct rf_args args = { .code = RF_OP_NOP };
	uint8_t buffer[512];
	struct rf_enc enc;

	rf_enc_init(&enc, buffer, sizeof(buffer));
	rf_enc_args(&enc, &args);
	rf_enc_return(&enc, 1);
}

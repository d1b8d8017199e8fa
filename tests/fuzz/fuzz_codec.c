/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_codec.c - any bytes as a message
 *
 * The codec has one spelling for each message: what decodes as a whole must
 * encode to the same bytes again.  The input's header is made to agree with its
 * size first when the fuzzer has not found out how, so that most runs get
 * further.  Decoded bytes are copied by the encoder, so that the address
 * sanitizer sees names and blobs that point outside.
 */
#include <errno.h>
#include <stdlib.h>

#include "libproto/base.h"
#include "libproto/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SIZE_MAX_TRIED = 65536 };

/* 1, 0 at the end, or a negative errno; what decoded is encoded again. */
static int copy_op(struct rf_dec *dec, struct rf_enc *enc)
{
	struct rf_results results;
	struct rf_args args;
	int got;

	if (dec->header.type == RF_MSG_REQUEST) {
		got = rf_dec_args(dec, &args);
		if (got == 1)
			rf_enc_args(enc, &args);
		if (got != 0)
			(void)rf_op_name(args.code);
	} else {
		got = rf_dec_results(dec, &results);
		if (got == 1)
			rf_enc_results(enc, &results);
		if (got != 0)
			(void)rf_status_to_errno(results.status);
	}
	return got;
}

static void try_message(const uint8_t *message, size_t size)
{
	static uint8_t again[SIZE_MAX_TRIED];
	struct rf_header header;
	struct rf_enc enc;
	struct rf_dec dec;
	bool is_whole = true;
	int got;

	if (rf_dec_init(&dec, message, size) < 0)
		return;
	rf_enc_init(&enc, again, sizeof(again));
	for (unsigned int i = 0; i < dec.header.return_count; i++)
		rf_enc_return(&enc, rf_dec_return(&dec, i));
	while ((got = copy_op(&dec, &enc)) != 0)
		if (got < 0) {
			RF_ASSERT(got == -EBADMSG || got == -EOPNOTSUPP);
			is_whole = false;
		}
	RF_ASSERT(dec.ops_left == 0 && dec.at == dec.size);
	if (!is_whole)
		return;
	header = dec.header;
	RF_ASSERT(rf_enc_finish(&enc, &header) == (int)size);
	RF_ASSERT(memcmp(again, message, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	if (size > SIZE_MAX_TRIED)
		return 0;
	try_message(data, size);
	if (size < RF_HEADER_SIZE)
		return 0;
	copy = malloc(size);
	RF_ASSERT(copy);
	memcpy(copy, data, size);
	rf_store_u32(copy, (uint32_t)size);
	copy[4] = (uint8_t)(RF_MSG_REQUEST + copy[4] % 4);
	copy[5] = 0;
	rf_store_u16(copy + 10, 0);
	try_message(copy, size);
	free(copy);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_hello.c - any bytes as private data, HELLO, RESUME and their answers
 *
 * What decodes must encode to the same bytes again but for the proof, and no
 * input proves a key that the fuzzer does not have.  As in fuzz_codec.c the
 * header is made to agree with the size on a second try.
 */
#include <errno.h>
#include <stdlib.h>

#include "libproto/base.h"
#include "libproto/resume.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct rf_key key = { .bytes = "not in the corpus",
				   .is_set = true };
static const struct rf_key no_key;
static const uint8_t nonce[RF_NONCE_SIZE];

static void expect_same_body(const uint8_t *again, int again_size,
			     const uint8_t *message, size_t size)
{
	RF_ASSERT(again_size == (int)size);
	RF_ASSERT(memcmp(again, message, size - RF_PROOF_SIZE) == 0);
}

static void try_hello(const uint8_t *message, size_t size)
{
	uint8_t proof[RF_PROOF_SIZE], again[RF_HELLO_SIZE_MAX];
	const struct rf_key *which;
	struct rf_hello hello;
	int err = rf_hello_decode(message, size, &hello);
	int checked = rf_hello_verify(message, size, &key, nonce, proof);

	if (err < 0) {
		RF_ASSERT(err == -EBADMSG && checked == -EBADMSG);
		return;
	}
	RF_ASSERT(checked == -EKEYREJECTED);
	which = hello.flags & RF_HELLO_NO_KEY ? &no_key : &key;
	expect_same_body(again, rf_hello_encode(again, &hello, which, nonce,
						proof), message, size);
}

static void try_reply(const uint8_t *message, size_t size)
{
	uint8_t proof[RF_PROOF_SIZE] = { 0 }, again[RF_HELLO_SIZE_MAX];
	const struct rf_key *which;
	struct rf_hello_reply reply;
	int err = rf_hello_reply_decode(message, size, &reply);
	int checked = rf_hello_reply_verify(message, size, &key, nonce, proof);

	if (err < 0) {
		RF_ASSERT(err == -EBADMSG && checked == -EBADMSG);
		return;
	}
	RF_ASSERT(checked == -EKEYREJECTED);
	which = reply.flags & RF_HELLO_NO_KEY ? &no_key : &key;
	expect_same_body(again, rf_hello_reply_encode(again, &reply, which,
						      nonce, proof),
			 message, size);
}

static const uint8_t secret[RF_SECRET_SIZE] = "neither is this";

static void try_resume(const uint8_t *message, size_t size)
{
	uint8_t proof[RF_PROOF_SIZE], again[RF_HELLO_SIZE_MAX];
	const struct rf_key *which;
	struct rf_resume resume;
	int err = rf_resume_decode(message, size, &resume, proof);
	int checked = rf_resume_verify(message, size, &key, secret, nonce);

	if (err < 0) {
		RF_ASSERT(err == -EBADMSG && checked == -EBADMSG);
		return;
	}
	RF_ASSERT(checked == -EKEYREJECTED);
	which = resume.flags & RF_HELLO_NO_KEY ? &no_key : &key;
	expect_same_body(again, rf_resume_encode(again, &resume, which, secret,
						 nonce, proof),
			 message, size);
}

static void try_resume_reply(const uint8_t *message, size_t size)
{
	uint8_t proof[RF_PROOF_SIZE] = { 0 }, again[RF_HELLO_SIZE_MAX];
	const struct rf_key *which;
	struct rf_resume_reply reply;
	int err = rf_resume_reply_decode(message, size, &reply);
	int checked = rf_resume_reply_verify(message, size, &key, secret,
					     nonce, proof);

	if (err < 0) {
		RF_ASSERT(err == -EBADMSG && checked == -EBADMSG);
		return;
	}
	RF_ASSERT(checked == -EKEYREJECTED);
	which = reply.flags & RF_HELLO_NO_KEY ? &no_key : &key;
	expect_same_body(again, rf_resume_reply_encode(again, &reply, which,
						       secret, nonce, proof),
			 message, size);
}

static void try_private_data(const uint8_t *data, size_t size)
{
	struct rf_hello_connect connect;
	struct rf_hello_accept accept;
	uint8_t again[RF_ACCEPT_DATA_SIZE];

	if (rf_hello_connect_decode(data, size, &connect) == 0) {
		RF_ASSERT(connect.version_min <= connect.version_max);
		rf_hello_connect_encode(again, &connect);
		RF_ASSERT(memcmp(again, data, 8) == 0);
	}
	if (rf_hello_accept_decode(data, size, &accept) == 0) {
		rf_hello_accept_encode(again, &accept);
		RF_ASSERT(memcmp(again, data, sizeof(again)) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	try_private_data(data, size);
	try_hello(data, size);
	try_reply(data, size);
	try_resume(data, size);
	try_resume_reply(data, size);
	if (size < RF_HEADER_SIZE)
		return 0;
	copy = malloc(size);
	RF_ASSERT(copy);
	memcpy(copy, data, size);
	memset(copy, 0, RF_HEADER_SIZE);
	rf_store_u32(copy, (uint32_t)size);
	copy[4] = RF_MSG_HELLO;
	try_hello(copy, size);
	copy[4] = RF_MSG_HELLO_REPLY;
	try_reply(copy, size);
	copy[4] = RF_MSG_RESUME;
	try_resume(copy, size);
	copy[4] = RF_MSG_RESUME_REPLY;
	try_resume_reply(copy, size);
	free(copy);
	return 0;
}

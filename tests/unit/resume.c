/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resume.c - RESUME and its answer as bytes: who has the session's secret goes on,
 * and only a server that has it, or the shared key, is believed
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>

#include "libproto/base.h"
#include "libproto/resume.h"
#include "tests/common/wire.h"

static const struct rf_key no_key;
static const struct rf_key key = { .bytes = { 1, 2, 3 }, .is_set = true };
static const struct rf_key other_key = { .bytes = { 1, 2, 4 },
					 .is_set = true };
static const uint8_t secret[RF_SECRET_SIZE] = { 9, 8, 7 };
static const uint8_t other_secret[RF_SECRET_SIZE] = { 9, 8, 6 };
static const uint8_t nonce[RF_NONCE_SIZE] = "server's nonce!";
static const uint8_t other_nonce[RF_NONCE_SIZE] = "another nonce!!";

static const struct rf_resume some_resume = {
	.version = 1, .epoch = 0x01020304, .session = 0x1122334455667788,
	.client_uuid = "client uuid 123", .nonce = "client nonce 12",
};

static const struct rf_resume_reply some_reply = {
	.version = 1, .flags = RF_RESUME_RESTARTED | RF_HELLO_READ_ONLY,
	.epoch = UINT32_MAX, .lease_ms = 60000, .grace_ms = 7,
	.grant_ms = 30000,
	.server_uuid = "server uuid 123",
};

static const struct rf_resume_reply some_refusal = {
	.status = RF_ST_BAD_EPOCH, .version = 1,
	.server_uuid = { 0x51, 0x52 },
	.reason = "this session is over",
};

static struct wire_message encode(const struct rf_key *with,
				  const uint8_t *by, uint8_t *proof)
{
	uint8_t buffer[RF_HELLO_SIZE_MAX];
	int size = rf_resume_encode(buffer, &some_resume, with, by, nonce,
				    proof);

	cr_assert_gt(size, 0);
	return wire_copy(buffer, (size_t)size);
}

static struct wire_message encode_reply(const struct rf_resume_reply *in,
					const struct rf_key *with,
					const uint8_t *by,
					const uint8_t *proof)
{
	uint8_t buffer[RF_HELLO_SIZE_MAX];
	int size = rf_resume_reply_encode(buffer, in, with, by, nonce, proof);

	cr_assert_gt(size, 0);
	return wire_copy(buffer, (size_t)size);
}

/* ---- both sides agree ---------------------------------------------------- */

Test(resume, resume_survives_and_proves_the_secret)
{
	uint8_t proof[RF_PROOF_SIZE], seen[RF_PROOF_SIZE];
	struct wire_message m = encode(&key, secret, proof);
	struct rf_resume out;

	cr_assert_eq(rf_resume_decode(m.bytes, m.size, &out, seen), 0);
	cr_assert_eq(out.version, 1);
	cr_assert_eq(out.flags, 0);
	cr_assert_eq(out.epoch, some_resume.epoch);
	cr_assert_eq(out.session, some_resume.session);
	cr_assert_eq(memcmp(out.client_uuid, some_resume.client_uuid,
			    RF_UUID_SIZE), 0);
	cr_assert_eq(memcmp(out.nonce, some_resume.nonce, RF_NONCE_SIZE), 0);
	cr_assert_eq(memcmp(seen, proof, RF_PROOF_SIZE), 0);
	cr_assert_eq(rf_resume_verify(m.bytes, m.size, &key, secret, nonce), 0);
	wire_free(&m);
}

Test(resume, reply_survives_and_proves_the_secret)
{
	uint8_t proof[RF_PROOF_SIZE] = "the client's proof";
	struct wire_message m = encode_reply(&some_reply, &key, secret, proof);
	struct rf_resume_reply out;

	cr_assert_eq(rf_resume_reply_decode(m.bytes, m.size, &out), 0);
	cr_assert_eq(out.status, RF_ST_OK);
	cr_assert_eq(out.flags, some_reply.flags);
	cr_assert_eq(out.epoch, some_reply.epoch);
	cr_assert_eq(out.lease_ms, some_reply.lease_ms);
	cr_assert_eq(out.grace_ms, some_reply.grace_ms);
	cr_assert_eq(out.grant_ms, some_reply.grant_ms);
	cr_assert_eq(memcmp(out.server_uuid, some_reply.server_uuid,
			    RF_UUID_SIZE), 0);
	cr_assert_eq(rf_resume_reply_verify(m.bytes, m.size, &key, secret,
					    nonce, proof), 0);
	wire_free(&m);
}

Test(resume, a_refusal_is_proved_with_the_shared_key)
{
	uint8_t proof[RF_PROOF_SIZE] = "the client's proof";
	struct wire_message m = encode_reply(&some_refusal, &key, NULL, proof);
	struct rf_resume_reply out;

	cr_assert_eq(rf_resume_reply_decode(m.bytes, m.size, &out), 0);
	cr_assert_eq(out.status, RF_ST_BAD_EPOCH);
	cr_assert_str_eq(out.reason, some_refusal.reason);
	cr_assert_eq(memcmp(out.server_uuid, some_refusal.server_uuid,
			    RF_UUID_SIZE), 0);
	cr_assert_eq(out.epoch, 0);
	cr_assert_eq(rf_resume_reply_verify(m.bytes, m.size, &key, secret,
					    nonce, proof), 0);
	cr_assert_eq(rf_resume_reply_verify(m.bytes, m.size, &other_key,
					    secret, nonce, proof),
		     -EKEYREJECTED);
	proof[0] ^= 1;
	cr_assert_eq(rf_resume_reply_verify(m.bytes, m.size, &key, secret,
					    nonce, proof), -EKEYREJECTED,
		     "a refusal of another RESUME");
	wire_free(&m);
}

/* Who can change messages on the way, and has no key, ends no session with a
 * refusal of what it has changed. */
Test(resume, a_refusal_of_a_changed_resume_is_not_believed)
{
	uint8_t said[RF_PROOF_SIZE], heard[RF_PROOF_SIZE];
	struct wire_message resume = encode(&key, secret, said), reply;
	struct rf_resume out;

	for (size_t bit = 8 * 32; bit < 8 * resume.size; bit++) {
		resume.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (rf_resume_decode(resume.bytes, resume.size, &out,
				     heard) == 0) {
			reply = encode_reply(&some_refusal, &key, NULL, heard);
			cr_assert_eq(rf_resume_reply_verify(
					     reply.bytes, reply.size, &key,
					     secret, nonce, said),
				     -EKEYREJECTED, "bit %zu", bit);
			wire_free(&reply);
		}
		resume.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	wire_free(&resume);
}

/* ---- and nobody else ----------------------------------------------------- */

static int resume_between(const struct rf_key *client, const uint8_t *client_by,
			  const struct rf_key *server,
			  const uint8_t *server_by,
			  const uint8_t *server_nonce)
{
	uint8_t proof[RF_PROOF_SIZE];
	struct wire_message m = encode(client, client_by, proof);
	int err = rf_resume_verify(m.bytes, m.size, server, server_by,
				   server_nonce);

	wire_free(&m);
	return err;
}

Test(resume, only_the_session_s_secret_resumes)
{
	cr_assert_eq(resume_between(&key, secret, &key, secret, nonce), 0);
	cr_assert_eq(resume_between(&no_key, secret, &no_key, secret, nonce),
		     0);
	cr_assert_eq(resume_between(&key, other_secret, &key, secret, nonce),
		     -EKEYREJECTED);
	cr_assert_eq(resume_between(&key, secret, &key, secret, other_nonce),
		     -EKEYREJECTED, "a recorded RESUME");
	cr_assert_eq(resume_between(&no_key, secret, &key, secret, nonce),
		     -EKEYREJECTED);
	cr_assert_eq(resume_between(&key, secret, &no_key, secret, nonce),
		     -EKEYREJECTED);
}

Test(resume, only_the_session_s_server_is_believed)
{
	uint8_t proof[RF_PROOF_SIZE] = "the client's proof";
	struct wire_message m = encode_reply(&some_reply, &key, secret, proof);

	cr_assert_eq(rf_resume_reply_verify(m.bytes, m.size, &key,
					    other_secret, nonce, proof),
		     -EKEYREJECTED);
	cr_assert_eq(rf_resume_reply_verify(m.bytes, m.size, &key, secret,
					    other_nonce, proof),
		     -EKEYREJECTED);
	cr_assert_eq(rf_resume_reply_verify(m.bytes, m.size, &no_key, secret,
					    nonce, proof), -EKEYREJECTED);
	proof[3] ^= 1;
	cr_assert_eq(rf_resume_reply_verify(m.bytes, m.size, &key, secret,
					    nonce, proof), -EKEYREJECTED);
	wire_free(&m);
}

/* With the key and the secret being the same bytes, the labels still differ. */
Test(resume, no_proof_of_one_message_is_one_of_another)
{
	struct rf_key same = { .is_set = true };
	uint8_t proof[RF_PROOF_SIZE], hello_proof[RF_PROOF_SIZE];
	struct wire_message m;

	memcpy(same.bytes, secret, RF_KEY_SIZE);
	m = encode(&same, secret, proof);
	cr_assert_eq(rf_hello_verify(m.bytes, m.size, &same, nonce,
				     hello_proof), -EBADMSG);
	cr_assert_eq(rf_resume_reply_verify(m.bytes, m.size, &same, secret,
					    nonce, proof), -EBADMSG);
	wire_free(&m);
	/* What the server said to a HELLO is not believed after a RESUME. */
	m = encode_reply(&some_refusal, &same, NULL, proof);
	cr_assert_eq(rf_resume_reply_verify(m.bytes, m.size, &same, secret,
					    nonce, proof), 0);
	cr_assert_eq(rf_hello_reply_verify(m.bytes, m.size, &same, nonce,
					   proof), -EBADMSG);
	m.bytes[4] = RF_MSG_HELLO_REPLY;
	cr_assert_lt(rf_hello_reply_verify(m.bytes, m.size, &same, nonce,
					   proof), 0);
	wire_free(&m);
}

/* ---- bad input ----------------------------------------------------------- */

Test(resume, any_changed_bit_is_noticed)
{
	uint8_t proof[RF_PROOF_SIZE];
	struct wire_message resume = encode(&key, secret, proof);
	struct wire_message reply = encode_reply(&some_reply, &key, secret,
						 proof);

	for (size_t bit = 0; bit < 8 * resume.size; bit++) {
		resume.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_assert_lt(rf_resume_verify(resume.bytes, resume.size, &key,
					      secret, nonce), 0, "bit %zu",
			     bit);
		resume.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	for (size_t bit = 0; bit < 8 * reply.size; bit++) {
		reply.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_assert_lt(rf_resume_reply_verify(reply.bytes, reply.size,
						    &key, secret, nonce,
						    proof), 0, "bit %zu", bit);
		reply.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	wire_free(&resume);
	wire_free(&reply);
}

/* On the heap, of exactly the size that it says it has. */
Test(resume, every_other_length_is_malformed)
{
	uint8_t proof[RF_PROOF_SIZE], padded[RF_HELLO_SIZE_MAX + 8] = { 0 };
	struct wire_message whole = encode(&key, secret, proof);
	struct rf_resume out;

	memcpy(padded, whole.bytes, whole.size);
	for (size_t size = 0; size < sizeof(padded); size++) {
		struct wire_message m = wire_copy(padded, size);

		if (size >= 4)
			rf_store_u32(m.bytes, (uint32_t)size);
		cr_assert_eq(rf_resume_decode(m.bytes, size, &out, proof),
			     size == whole.size ? 0 : -EBADMSG, "size %zu",
			     size);
		wire_free(&m);
	}
	wire_free(&whole);
}

Test(resume, truncated_replies_are_not_read_beyond)
{
	uint8_t proof[RF_PROOF_SIZE] = { 0 };
	const struct rf_resume_reply *both[] = { &some_reply, &some_refusal };
	struct rf_resume_reply out;

	for (size_t i = 0; i < RF_ARRAY_SIZE(both); i++) {
		struct wire_message whole = encode_reply(both[i], &key, secret,
							 proof);

		for (size_t size = 0; size < whole.size; size++) {
			struct wire_message m = wire_copy(whole.bytes, size);

			if (size >= 4)
				rf_store_u32(m.bytes, (uint32_t)size);
			cr_assert_eq(rf_resume_reply_decode(m.bytes, size,
							    &out), -EBADMSG);
			wire_free(&m);
		}
		wire_free(&whole);
	}
}

/* Changes the 32 bits at this offset. */
static int resume_with(size_t at, uint32_t value)
{
	uint8_t proof[RF_PROOF_SIZE];
	struct wire_message m = encode(&key, secret, proof);
	struct rf_resume out;
	int err;

	rf_store_u32(m.bytes + at, value);
	err = rf_resume_decode(m.bytes, m.size, &out, proof);
	wire_free(&m);
	return err;
}

static int answer_with(const struct rf_resume_reply *reply, size_t at,
		       uint32_t value)
{
	uint8_t proof[RF_PROOF_SIZE] = { 0 };
	struct wire_message m = encode_reply(reply, &key, secret, proof);
	struct rf_resume_reply out;
	int err;

	rf_store_u32(m.bytes + at, value);
	err = rf_resume_reply_decode(m.bytes, m.size, &out);
	wire_free(&m);
	return err;
}

static int reply_with(size_t at, uint32_t value)
{
	return answer_with(&some_reply, at, value);
}

Test(resume, bad_fields_are_malformed)
{
	cr_assert_eq(resume_with(4, RF_MSG_RESUME), 0);
	cr_assert_eq(resume_with(4, RF_MSG_HELLO), -EBADMSG);
	cr_assert_eq(resume_with(8, 1), -EBADMSG, "a slot");
	cr_assert_eq(resume_with(32, 1), 0);
	cr_assert_eq(resume_with(32, 1 | RF_HELLO_NO_KEY << 16), 0);
	cr_assert_eq(resume_with(32, 1 | RF_HELLO_READ_ONLY << 16), -EBADMSG);
	cr_assert_eq(resume_with(32, 1 | RF_RESUME_RESTARTED << 16), -EBADMSG);
	cr_assert_eq(reply_with(36, 15), 0);
	cr_assert_eq(reply_with(36, 16), -EBADMSG, "a flag");
	cr_assert_eq(reply_with(36, 1 << 16), 0, "a grant's term");
	cr_assert_eq(answer_with(&some_refusal, 36, 0), 0);
	cr_assert_eq(answer_with(&some_refusal, 36, 1 << 16), -EBADMSG,
		     "a term in a refusal");
	cr_assert_eq(reply_with(40, 0), -EBADMSG, "epoch 0");
	cr_assert_eq(reply_with(44, 0), -EBADMSG, "lease 0");
	cr_assert_eq(reply_with(48, 0), 0);
	cr_assert_eq(reply_with(68, 0xffff), -EBADMSG, "the reason's size");
}

Test(resume, a_reply_without_epoch_aborts_the_encoder, .signal = SIGABRT)
{
	uint8_t buffer[RF_HELLO_SIZE_MAX], proof[RF_PROOF_SIZE] = { 0 };
	struct rf_resume_reply reply = some_reply;

	reply.epoch = 0;
	rf_resume_reply_encode(buffer, &reply, &key, secret, nonce, proof);
}

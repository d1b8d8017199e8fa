/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resume.c - RESUME and RESUME_REPLY as bytes, and their proofs
 *
 * Operation.  As hello.c, with labels of their own: no proof of one pair is one
 * of the other.
 */
#include "resume.h"

#include <errno.h>

#include "base.h"
#include "hello_parts.h"

_Static_assert(RF_HEADER_SIZE + 36 + 2 + RF_REASON_MAX + RF_PROOF_SIZE <=
	       RF_HELLO_SIZE_MAX, "RESUME_REPLY fits, and RESUME is smaller");

enum {
	RESUME_FLAGS_ALL = RF_HELLO_NO_KEY,
	REPLY_FLAGS_ALL = RF_HELLO_NO_KEY | RF_HELLO_READ_ONLY |
			  RF_HELLO_NO_WINDOWS | RF_RESUME_RESTARTED,
};

static const char client_label[] = "rdmafs-1 resume client proof";
static const char server_label[] = "rdmafs-1 resume server proof";
static const char refusal_label[] = "rdmafs-1 resume refusal proof";

/* What the answer's proof covers of a RESUME: all of it, as it came. */
static void make_digest(const void *message, size_t size,
			uint8_t out[RF_PROOF_SIZE])
{
	static const struct rf_key no_key;
	const void *bytes[] = { message };
	const size_t sizes[] = { size };

	rf_keyed_hash(out, &no_key, "rdmafs-1 resume digest", bytes, sizes, 1);
}

static struct rf_key key_of(const uint8_t *secret)
{
	struct rf_key key = { .is_set = true };

	memcpy(key.bytes, secret, RF_KEY_SIZE);
	return key;
}

static bool get_flags(struct rf_cursor *cur, uint16_t *out, unsigned int all)
{
	return rf_get_u16(cur, out) && (*out & ~all) == 0;
}

/* ---- RESUME -------------------------------------------------------------- */

int rf_resume_encode(void *buffer, const struct rf_resume *in,
		     const struct rf_key *key, const uint8_t *secret,
		     const uint8_t server_nonce[RF_NONCE_SIZE],
		     uint8_t digest[RF_PROOF_SIZE])
{
	uint16_t flags = rf_flags_with_key(in->flags, RESUME_FLAGS_ALL, key);
	const struct rf_key with = key_of(secret);
	uint8_t proof[RF_PROOF_SIZE];
	struct rf_enc enc;
	int size;

	rf_enc_init(&enc, buffer, RF_HELLO_SIZE_MAX);
	rf_put_u16(&enc, &in->version);
	rf_put_u16(&enc, &flags);
	rf_put_u32(&enc, &in->epoch);
	rf_put_u64(&enc, &in->session);
	rf_put_raw(&enc, in->client_uuid, RF_UUID_SIZE);
	rf_put_raw(&enc, in->nonce, RF_NONCE_SIZE);
	size = rf_hello_finish(&enc, RF_MSG_RESUME, &with, client_label,
			       server_nonce, NULL, proof);
	make_digest(buffer, (size_t)size, digest);
	return size;
}

int rf_resume_decode(const void *message, size_t size, struct rf_resume *out,
		     uint8_t digest[RF_PROOF_SIZE])
{
	struct rf_cursor cur;

	*out = (struct rf_resume){ 0 };
	if (rf_hello_open(message, size, RF_MSG_RESUME, &cur) < 0)
		return -EBADMSG;
	if (!rf_get_u16(&cur, &out->version) ||
	    !get_flags(&cur, &out->flags, RESUME_FLAGS_ALL) ||
	    !rf_get_u32(&cur, &out->epoch) ||
	    !rf_get_u64(&cur, &out->session) ||
	    !rf_get_raw(&cur, out->client_uuid, RF_UUID_SIZE) ||
	    !rf_get_raw(&cur, out->nonce, RF_NONCE_SIZE) || cur.at != cur.end)
		return -EBADMSG;
	make_digest(message, size, digest);
	return 0;
}

int rf_resume_verify(const void *message, size_t size,
		     const struct rf_key *key, const uint8_t *secret,
		     const uint8_t server_nonce[RF_NONCE_SIZE])
{
	const struct rf_key with = key_of(secret);
	uint8_t digest[RF_PROOF_SIZE];
	struct rf_resume resume;

	if (rf_resume_decode(message, size, &resume, digest) < 0)
		return -EBADMSG;
	if (!(resume.flags & RF_HELLO_NO_KEY) != key->is_set)
		return -EKEYREJECTED;
	return rf_hello_check(message, size, &with, client_label, server_nonce,
			      NULL);
}

/* ---- RESUME_REPLY -------------------------------------------------------- */

int rf_resume_reply_encode(void *buffer, const struct rf_resume_reply *in,
			   const struct rf_key *key, const uint8_t *secret,
			   const uint8_t server_nonce[RF_NONCE_SIZE],
			   const uint8_t digest[RF_PROOF_SIZE])
{
	uint16_t flags = rf_flags_with_key(in->flags, REPLY_FLAGS_ALL, key);
	bool is_ok = in->status == RF_ST_OK;
	const struct rf_key with = is_ok ? key_of(secret) : *key;
	uint8_t proof[RF_PROOF_SIZE];
	struct rf_enc enc;
	uint16_t grant_ms = is_ok ? in->grant_ms : 0;

	rf_enc_init(&enc, buffer, RF_HELLO_SIZE_MAX);
	rf_put_u16(&enc, &in->status);
	rf_put_u16(&enc, &in->version);
	rf_put_u16(&enc, &flags);
	rf_put_u16(&enc, &grant_ms);
	if (is_ok) {
		RF_ASSERT(in->epoch != 0 && in->lease_ms != 0);
		rf_put_u32(&enc, &in->epoch);
		rf_put_u32(&enc, &in->lease_ms);
		rf_put_u32(&enc, &in->grace_ms);
	}
	rf_put_raw(&enc, in->server_uuid, RF_UUID_SIZE);
	rf_put_text(&enc, in->reason, RF_REASON_MAX);
	return rf_hello_finish(&enc, RF_MSG_RESUME_REPLY, &with,
			       is_ok ? server_label : refusal_label,
			       server_nonce, digest, proof);
}

static bool get_session(struct rf_cursor *cur, struct rf_resume_reply *out)
{
	return rf_get_u32(cur, &out->epoch) && out->epoch != 0 &&
	       rf_get_u32(cur, &out->lease_ms) && out->lease_ms != 0 &&
	       rf_get_u32(cur, &out->grace_ms);
}

int rf_resume_reply_decode(const void *message, size_t size,
			   struct rf_resume_reply *out)
{
	struct rf_cursor cur;
	*out = (struct rf_resume_reply){ 0 };
	if (rf_hello_open(message, size, RF_MSG_RESUME_REPLY, &cur) < 0)
		return -EBADMSG;
	if (!rf_get_u16(&cur, &out->status) ||
	    !rf_get_u16(&cur, &out->version) ||
	    !get_flags(&cur, &out->flags, REPLY_FLAGS_ALL) ||
	    !rf_get_u16(&cur, &out->grant_ms))
		return -EBADMSG;
	if (out->status == RF_ST_OK ? !get_session(&cur, out)
				    : out->grant_ms != 0)
		return -EBADMSG;
	if (!rf_get_raw(&cur, out->server_uuid, RF_UUID_SIZE) ||
	    !rf_get_text(&cur, out->reason, RF_REASON_MAX) ||
	    cur.at != cur.end)
		return -EBADMSG;
	return 0;
}

int rf_resume_reply_verify(const void *message, size_t size,
			   const struct rf_key *key, const uint8_t *secret,
			   const uint8_t server_nonce[RF_NONCE_SIZE],
			   const uint8_t digest[RF_PROOF_SIZE])
{
	struct rf_resume_reply reply;
	struct rf_key with;
	bool is_ok;

	if (rf_resume_reply_decode(message, size, &reply) < 0)
		return -EBADMSG;
	if (!(reply.flags & RF_HELLO_NO_KEY) != key->is_set)
		return -EKEYREJECTED;
	is_ok = reply.status == RF_ST_OK;
	with = is_ok ? key_of(secret) : *key;
	return rf_hello_check(message, size, &with,
			      is_ok ? server_label : refusal_label,
			      server_nonce, digest);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hello.c - private data, HELLO and its answer, proofs
 *
 * Operation.  Bodies (PROTOCOL.md, "HELLO") are written and read with the
 * codec's fields; hello_parts.c has what resume.c needs as well.
 */
#include "hello_parts.h"

#include <errno.h>

#include "base.h"

/* The largest of both: everything fixed, and the strings at their longest. */
_Static_assert(RF_HEADER_SIZE + 72 + 2 + RF_HOST_MAX + 2 + RF_EXPORT_MAX +
	       RF_PROOF_SIZE <= RF_HELLO_SIZE_MAX, "HELLO fits");
_Static_assert(RF_HEADER_SIZE + 216 + 2 + RF_REASON_MAX + RF_PROOF_SIZE <=
	       RF_HELLO_SIZE_MAX, "HELLO_REPLY fits");

#define MAGIC 0x53466452u	/* "RdFS" */

enum {
	HELLO_FLAGS_ALL = RF_HELLO_NO_KEY | RF_HELLO_READ_ONLY,
	REPLY_FLAGS_ALL = HELLO_FLAGS_ALL | RF_HELLO_NO_WINDOWS,
};

/* ---- private data of connect and accept ---------------------------------- */

void rf_hello_connect_encode(uint8_t out[RF_CONNECT_DATA_SIZE],
			     const struct rf_hello_connect *in)
{
	RF_ASSERT(in->version_min >= 1 && in->version_min <= in->version_max);
	memset(out, 0, RF_CONNECT_DATA_SIZE);
	rf_store_u32(out, MAGIC);
	rf_store_u16(out + 4, in->version_min);
	rf_store_u16(out + 6, in->version_max);
}

int rf_hello_connect_decode(const void *data, size_t size,
			    struct rf_hello_connect *out)
{
	const uint8_t *at = data;

	if (size < RF_CONNECT_DATA_SIZE || rf_load_u32(at) != MAGIC)
		return -EBADMSG;
	out->version_min = rf_load_u16(at + 4);
	out->version_max = rf_load_u16(at + 6);
	if (out->version_min < 1 || out->version_min > out->version_max)
		return -EBADMSG;
	return 0;
}

void rf_hello_accept_encode(uint8_t out[RF_ACCEPT_DATA_SIZE],
			    const struct rf_hello_accept *in)
{
	rf_store_u32(out, MAGIC);
	rf_store_u16(out + 4, in->status);
	rf_store_u16(out + 6, in->version);
	memcpy(out + 8, in->nonce, RF_NONCE_SIZE);
}

int rf_hello_accept_decode(const void *data, size_t size,
			   struct rf_hello_accept *out)
{
	const uint8_t *at = data;

	if (size < RF_ACCEPT_DATA_SIZE || rf_load_u32(at) != MAGIC)
		return -EBADMSG;
	out->status = rf_load_u16(at + 4);
	out->version = rf_load_u16(at + 6);
	memcpy(out->nonce, at + 8, RF_NONCE_SIZE);
	return 0;
}

/* ---- limits -------------------------------------------------------------- */

#define LIMIT_FIELDS(F) \
	F(u32, inline_max) F(u32, msg_max) F(u16, slots) F(u16, control_slots) \
	F(u16, server_msgs) F(u16, channels) F(u32, write_slots) \
	F(u32, block_max)
#define PUT(type, name) rf_put_##type(enc, &in->name);
#define GET(type, name) && rf_get_##type(cur, &out->name)

static void put_limits(struct rf_enc *enc, const struct rf_hello_limits *in)
{
	LIMIT_FIELDS(PUT)
}

static bool get_limits(struct rf_cursor *cur, struct rf_hello_limits *out)
{
	return true LIMIT_FIELDS(GET) && rf_hello_limits_are_usable(out);
}

#undef GET
#undef PUT

bool rf_hello_limits_are_usable(const struct rf_hello_limits *limits)
{
	return limits->msg_max >= RF_MSG_OVERHEAD &&
	       limits->msg_max - RF_MSG_OVERHEAD >= limits->inline_max &&
	       limits->slots >= 1 && limits->control_slots >= 1 &&
	       limits->server_msgs >= 1 && limits->channels >= 1 &&
	       limits->block_max >= 1;
}

static bool get_flags(struct rf_cursor *cur, uint16_t *out, unsigned int all)
{
	return rf_get_u16(cur, out) && (*out & ~all) == 0;
}

/* ---- proofs -------------------------------------------------------------- */

static const char client_label[] = "rdmafs-1 client proof";
static const char server_label[] = "rdmafs-1 server proof";

void rf_hello_secret(uint8_t out[RF_SECRET_SIZE], const struct rf_key *key,
		     const uint8_t client_proof[RF_PROOF_SIZE],
		     uint64_t session)
{
	uint8_t number[8];
	const void *bytes[] = { client_proof, number };
	const size_t sizes[] = { RF_PROOF_SIZE, sizeof(number) };

	rf_store_u64(number, session);
	rf_keyed_hash(out, key, "rdmafs-1 session secret", bytes, sizes, 2);
}

/* ---- HELLO --------------------------------------------------------------- */

int rf_hello_encode(void *buffer, const struct rf_hello *in,
		    const struct rf_key *key,
		    const uint8_t server_nonce[RF_NONCE_SIZE],
		    uint8_t client_proof[RF_PROOF_SIZE])
{
	uint16_t flags = rf_flags_with_key(in->flags, HELLO_FLAGS_ALL, key);
	struct rf_enc enc;
	uint32_t zero = 0;

	if (!rf_is_text(in->export, strnlen(in->export, RF_EXPORT_MAX)))
		return -EINVAL;
	RF_ASSERT(rf_hello_limits_are_usable(&in->limits));
	rf_enc_init(&enc, buffer, RF_HELLO_SIZE_MAX);
	rf_put_u16(&enc, &in->version);
	rf_put_u16(&enc, &flags);
	rf_put_u32(&enc, &zero);
	rf_put_u64(&enc, &in->features);
	put_limits(&enc, &in->limits);
	rf_put_raw(&enc, in->client_uuid, RF_UUID_SIZE);
	rf_put_raw(&enc, in->nonce, RF_NONCE_SIZE);
	rf_put_text(&enc, in->host, RF_HOST_MAX);
	rf_put_text(&enc, in->export, RF_EXPORT_MAX);
	return rf_hello_finish(&enc, RF_MSG_HELLO, key, client_label,
			       server_nonce, NULL, client_proof);
}

int rf_hello_decode(const void *message, size_t size, struct rf_hello *out)
{
	struct rf_cursor cur;
	uint32_t zero;

	*out = (struct rf_hello){ 0 };
	if (rf_hello_open(message, size, RF_MSG_HELLO, &cur) < 0)
		return -EBADMSG;
	if (!rf_get_u16(&cur, &out->version) ||
	    !get_flags(&cur, &out->flags, HELLO_FLAGS_ALL) ||
	    !rf_get_u32(&cur, &zero) || zero != 0 ||
	    !rf_get_u64(&cur, &out->features) ||
	    !get_limits(&cur, &out->limits) ||
	    !rf_get_raw(&cur, out->client_uuid, RF_UUID_SIZE) ||
	    !rf_get_raw(&cur, out->nonce, RF_NONCE_SIZE) ||
	    !rf_get_text(&cur, out->host, RF_HOST_MAX) ||
	    !rf_get_text(&cur, out->export, RF_EXPORT_MAX) || cur.at != cur.end)
		return -EBADMSG;
	return 0;
}

int rf_hello_verify(const void *message, size_t size, const struct rf_key *key,
		    const uint8_t server_nonce[RF_NONCE_SIZE],
		    uint8_t client_proof[RF_PROOF_SIZE])
{
	struct rf_hello hello;

	if (rf_hello_decode(message, size, &hello) < 0)
		return -EBADMSG;
	rf_hello_proof(message, size, client_proof);
	if (!(hello.flags & RF_HELLO_NO_KEY) != key->is_set)
		return -EKEYREJECTED;
	return rf_hello_check(message, size, key, client_label, server_nonce,
			      NULL);
}

/* ---- HELLO_REPLY --------------------------------------------------------- */

/* What an open session has, and a refusal has not. */
static void put_session(struct rf_enc *enc, const struct rf_hello_reply *in)
{
	RF_ASSERT(rf_hello_limits_are_usable(&in->limits) && in->lease_ms > 0);
	rf_put_u64(enc, &in->features);
	put_limits(enc, &in->limits);
	rf_put_raw(enc, in->server_uuid, RF_UUID_SIZE);
	rf_put_u64(enc, &in->session);
	rf_put_u32(enc, &in->epoch);
	rf_put_u32(enc, &in->tree);
	rf_put_handle(enc, &in->root);
	rf_put_attr(enc, &in->root_attr);
	rf_put_u32(enc, &in->lease_ms);
}

static bool get_session(struct rf_cursor *cur, struct rf_hello_reply *out)
{
	return rf_get_u64(cur, &out->features) &&
	       get_limits(cur, &out->limits) &&
	       rf_get_raw(cur, out->server_uuid, RF_UUID_SIZE) &&
	       rf_get_u64(cur, &out->session) &&
	       rf_get_u32(cur, &out->epoch) &&
	       rf_get_u32(cur, &out->tree) &&
	       rf_get_handle(cur, &out->root) &&
	       rf_get_attr(cur, &out->root_attr) &&
	       rf_get_u32(cur, &out->lease_ms) && out->lease_ms > 0;
}

int rf_hello_reply_encode(void *buffer, const struct rf_hello_reply *in,
			  const struct rf_key *key,
			  const uint8_t server_nonce[RF_NONCE_SIZE],
			  const uint8_t client_proof[RF_PROOF_SIZE])
{
	uint16_t flags = rf_flags_with_key(in->flags, REPLY_FLAGS_ALL, key);
	uint8_t proof[RF_PROOF_SIZE];
	struct rf_enc enc;

	rf_enc_init(&enc, buffer, RF_HELLO_SIZE_MAX);
	rf_put_u16(&enc, &in->status);
	rf_put_u16(&enc, &in->version);
	rf_put_u16(&enc, &flags);
	rf_put_u16(&enc, &in->grant_ms);
	if (in->status == RF_ST_OK)
		put_session(&enc, in);
	rf_put_text(&enc, in->reason, RF_REASON_MAX);
	return rf_hello_finish(&enc, RF_MSG_HELLO_REPLY, key, server_label,
			       server_nonce, client_proof, proof);
}

int rf_hello_reply_decode(const void *message, size_t size,
			  struct rf_hello_reply *out)
{
	struct rf_cursor cur;

	*out = (struct rf_hello_reply){ 0 };
	if (rf_hello_open(message, size, RF_MSG_HELLO_REPLY, &cur) < 0)
		return -EBADMSG;
	if (!rf_get_u16(&cur, &out->status) ||
	    !rf_get_u16(&cur, &out->version) ||
	    !get_flags(&cur, &out->flags, REPLY_FLAGS_ALL) ||
	    !rf_get_u16(&cur, &out->grant_ms))
		return -EBADMSG;
	if (out->status == RF_ST_OK && !get_session(&cur, out))
		return -EBADMSG;
	if (!rf_get_text(&cur, out->reason, RF_REASON_MAX) || cur.at != cur.end)
		return -EBADMSG;
	return 0;
}

int rf_hello_reply_verify(const void *message, size_t size,
			  const struct rf_key *key,
			  const uint8_t server_nonce[RF_NONCE_SIZE],
			  const uint8_t client_proof[RF_PROOF_SIZE])
{
	struct rf_hello_reply reply;

	if (rf_hello_reply_decode(message, size, &reply) < 0)
		return -EBADMSG;
	if (!(reply.flags & RF_HELLO_NO_KEY) != key->is_set)
		return -EKEYREJECTED;
	return rf_hello_check(message, size, key, server_label, server_nonce,
			      client_proof);
}

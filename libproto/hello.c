/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hello.c - private data, HELLO and its answer, proofs
 *
 * Operation.  Both messages are the 32-byte header with no operations, a body
 * of fixed order (PROTOCOL.md, "HELLO"), and the proof as the last 32 bytes.
 * Bodies are written and read with the codec's fields.
 *
 * When it fails.  Decoding tells nothing about who sent a message: call
 * ..._verify() before believing any of it.  Both take the proof from the same
 * place, the last 32 bytes, so what was checked is what was decoded.
 */
#include "hello.h"

#include <errno.h>
#include <pthread.h>
#include <sodium.h>

#include "base.h"
#include "codec_fields.h"

_Static_assert(RF_KEY_SIZE >= crypto_generichash_KEYBYTES_MIN &&
	       RF_KEY_SIZE <= crypto_generichash_KEYBYTES_MAX &&
	       RF_PROOF_SIZE <= crypto_generichash_BYTES_MAX &&
	       RF_SECRET_SIZE <= crypto_generichash_BYTES_MAX,
	       "the keyed hash can do these sizes");

/* The largest of both: everything fixed, and the strings at their longest. */
_Static_assert(RF_HEADER_SIZE + 72 + 2 + RF_HOST_MAX + 2 + RF_EXPORT_MAX +
	       RF_PROOF_SIZE <= RF_HELLO_SIZE_MAX, "HELLO fits");
_Static_assert(RF_HEADER_SIZE + 212 + 2 + RF_REASON_MAX + RF_PROOF_SIZE <=
	       RF_HELLO_SIZE_MAX, "HELLO_REPLY fits");

#define MAGIC 0x53466452u	/* "RdFS" */

enum { HELLO_FLAGS_ALL = RF_HELLO_NO_KEY | RF_HELLO_READ_ONLY };

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

/* ---- text ---------------------------------------------------------------- */

/* Text goes to logs and terminals of the other side: nothing that steers one. */
static bool byte_is_text(char c)
{
	return (unsigned char)c >= 0x20 && c != 0x7f;
}

static bool is_text(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (!byte_is_text(text[i]))
			return false;
	return true;
}

static void put_text(struct rf_enc *enc, const char *text, size_t max)
{
	uint16_t size = (uint16_t)strnlen(text, max);
	uint8_t *at;

	rf_put_u16(enc, &size);
	at = rf_put_room(enc, size);
	for (size_t i = 0; at && i < size; i++)
		at[i] = (uint8_t)(byte_is_text(text[i]) ? text[i] : '?');
}

/* out has room for max bytes and a NUL. */
static bool get_text(struct rf_cursor *cur, char *out, size_t max)
{
	const uint8_t *at;
	uint16_t size;

	if (!rf_get_u16(cur, &size) || size > max)
		return false;
	at = rf_get_room(cur, size);
	if (!at || !is_text((const char *)at, size))
		return false;
	memcpy(out, at, size);
	out[size] = '\0';
	return true;
}

/* ---- parts of both messages ---------------------------------------------- */

static void put_raw(struct rf_enc *enc, const void *bytes, uint32_t size)
{
	uint8_t *at = rf_put_room(enc, size);

	if (at)
		memcpy(at, bytes, size);
}

static bool get_raw(struct rf_cursor *cur, void *out, size_t size)
{
	const uint8_t *at = rf_get_room(cur, size);

	if (at)
		memcpy(out, at, size);
	return at;
}

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

static bool get_flags(struct rf_cursor *cur, uint16_t *out)
{
	return rf_get_u16(cur, out) && (*out & ~HELLO_FLAGS_ALL) == 0;
}

static uint16_t flags_with_key(uint16_t flags, const struct rf_key *key)
{
	unsigned int rest = flags & ~(unsigned int)RF_HELLO_NO_KEY;

	RF_ASSERT((flags & ~HELLO_FLAGS_ALL) == 0);
	return (uint16_t)(key->is_set ? rest : rest | RF_HELLO_NO_KEY);
}

/* The proof's place is made here and filled by prove(). */
static int finish(struct rf_enc *enc, enum rf_msg_type type)
{
	struct rf_header header = { .type = (uint8_t)type };
	static const uint8_t zeroes[RF_PROOF_SIZE];
	int size;

	put_raw(enc, zeroes, RF_PROOF_SIZE);
	size = rf_enc_finish(enc, &header);
	RF_ASSERT(size > 0);	/* the assertions above */
	return size;
}

/* The body: what is between the header and the proof. */
static int open_body(const void *message, size_t size, enum rf_msg_type type,
		     struct rf_cursor *cur)
{
	static const uint8_t zeroes[RF_HEADER_SIZE - 5];
	const uint8_t *base = message;

	if (size > RF_HELLO_SIZE_MAX || size < RF_HEADER_SIZE + RF_PROOF_SIZE)
		return -EBADMSG;
	/* No slot, epoch or anything else exists yet. */
	if (rf_load_u32(base) != size || base[4] != type ||
	    memcmp(base + 5, zeroes, sizeof(zeroes)) != 0)
		return -EBADMSG;
	cur->at = base + RF_HEADER_SIZE;
	cur->end = base + size - RF_PROOF_SIZE;
	return 0;
}

/* ---- proofs -------------------------------------------------------------- */

static const uint8_t no_key[RF_KEY_SIZE];

static void start_sodium(void)
{
	RF_ASSERT(sodium_init() >= 0);
}

static void keyed_hash_begin(crypto_generichash_state *state,
			     const struct rf_key *key, const char *label)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint8_t padded[32] = { 0 };

	pthread_once(&once, start_sodium);
	RF_ASSERT(strlen(label) < sizeof(padded));
	memcpy(padded, label, strlen(label));
	crypto_generichash_init(state, key->is_set ? key->bytes : no_key,
				RF_KEY_SIZE, RF_PROOF_SIZE);
	crypto_generichash_update(state, padded, sizeof(padded));
}

/*
 * The proof of a message of size bytes.  client_proof: NULL for the client's
 * own, else what the server answers to.
 */
static void prove(uint8_t out[RF_PROOF_SIZE], const void *message, size_t size,
		  const struct rf_key *key, const uint8_t *server_nonce,
		  const uint8_t *client_proof)
{
	static const uint8_t zeroes[RF_PROOF_SIZE];
	crypto_generichash_state state;

	keyed_hash_begin(&state, key, client_proof ? "rdmafs-1 server proof"
						   : "rdmafs-1 client proof");
	crypto_generichash_update(&state, server_nonce, RF_NONCE_SIZE);
	if (client_proof)
		crypto_generichash_update(&state, client_proof, RF_PROOF_SIZE);
	crypto_generichash_update(&state, message, size - RF_PROOF_SIZE);
	crypto_generichash_update(&state, zeroes, sizeof(zeroes));
	crypto_generichash_final(&state, out, RF_PROOF_SIZE);
	sodium_memzero(&state, sizeof(state));
}

static int check_proof(const void *message, size_t size,
		       const struct rf_key *key, const uint8_t *server_nonce,
		       const uint8_t *client_proof)
{
	const uint8_t *proof = (const uint8_t *)message + size - RF_PROOF_SIZE;
	uint8_t expected[RF_PROOF_SIZE];
	int err;

	prove(expected, message, size, key, server_nonce, client_proof);
	err = sodium_memcmp(expected, proof, RF_PROOF_SIZE) == 0
		? 0 : -EKEYREJECTED;
	sodium_memzero(expected, sizeof(expected));
	return err;
}

void rf_hello_secret(uint8_t out[RF_SECRET_SIZE], const struct rf_key *key,
		     const uint8_t client_proof[RF_PROOF_SIZE],
		     uint64_t session)
{
	crypto_generichash_state state;
	uint8_t number[8];

	rf_store_u64(number, session);
	keyed_hash_begin(&state, key, "rdmafs-1 session secret");
	crypto_generichash_update(&state, client_proof, RF_PROOF_SIZE);
	crypto_generichash_update(&state, number, sizeof(number));
	crypto_generichash_final(&state, out, RF_SECRET_SIZE);
	sodium_memzero(&state, sizeof(state));
}

/* ---- HELLO --------------------------------------------------------------- */

int rf_hello_encode(void *buffer, const struct rf_hello *in,
		    const struct rf_key *key,
		    const uint8_t server_nonce[RF_NONCE_SIZE],
		    uint8_t client_proof[RF_PROOF_SIZE])
{
	uint16_t flags = flags_with_key(in->flags, key);
	struct rf_enc enc;
	uint32_t zero = 0;
	int size;

	if (!is_text(in->export, strnlen(in->export, RF_EXPORT_MAX)))
		return -EINVAL;
	RF_ASSERT(rf_hello_limits_are_usable(&in->limits));
	rf_enc_init(&enc, buffer, RF_HELLO_SIZE_MAX);
	rf_put_u16(&enc, &in->version);
	rf_put_u16(&enc, &flags);
	rf_put_u32(&enc, &zero);
	rf_put_u64(&enc, &in->features);
	put_limits(&enc, &in->limits);
	put_raw(&enc, in->client_uuid, RF_UUID_SIZE);
	put_raw(&enc, in->nonce, RF_NONCE_SIZE);
	put_text(&enc, in->host, RF_HOST_MAX);
	put_text(&enc, in->export, RF_EXPORT_MAX);
	size = finish(&enc, RF_MSG_HELLO);
	prove(client_proof, buffer, (size_t)size, key, server_nonce, NULL);
	memcpy((uint8_t *)buffer + size - RF_PROOF_SIZE, client_proof,
	       RF_PROOF_SIZE);
	return size;
}

int rf_hello_decode(const void *message, size_t size, struct rf_hello *out)
{
	struct rf_cursor cur;
	uint32_t zero;

	*out = (struct rf_hello){ 0 };
	if (open_body(message, size, RF_MSG_HELLO, &cur) < 0)
		return -EBADMSG;
	if (!rf_get_u16(&cur, &out->version) ||
	    !get_flags(&cur, &out->flags) ||
	    !rf_get_u32(&cur, &zero) || zero != 0 ||
	    !rf_get_u64(&cur, &out->features) ||
	    !get_limits(&cur, &out->limits) ||
	    !get_raw(&cur, out->client_uuid, RF_UUID_SIZE) ||
	    !get_raw(&cur, out->nonce, RF_NONCE_SIZE) ||
	    !get_text(&cur, out->host, RF_HOST_MAX) ||
	    !get_text(&cur, out->export, RF_EXPORT_MAX) || cur.at != cur.end)
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
	memcpy(client_proof, (const uint8_t *)message + size - RF_PROOF_SIZE,
	       RF_PROOF_SIZE);
	if (!(hello.flags & RF_HELLO_NO_KEY) != key->is_set)
		return -EKEYREJECTED;
	return check_proof(message, size, key, server_nonce, NULL);
}

/* ---- HELLO_REPLY --------------------------------------------------------- */

/* What an open session has, and a refusal has not. */
static void put_session(struct rf_enc *enc, const struct rf_hello_reply *in)
{
	RF_ASSERT(rf_hello_limits_are_usable(&in->limits));
	rf_put_u64(enc, &in->features);
	put_limits(enc, &in->limits);
	put_raw(enc, in->server_uuid, RF_UUID_SIZE);
	rf_put_u64(enc, &in->session);
	rf_put_u32(enc, &in->epoch);
	rf_put_u32(enc, &in->tree);
	rf_put_handle(enc, &in->root);
	rf_put_attr(enc, &in->root_attr);
}

static bool get_session(struct rf_cursor *cur, struct rf_hello_reply *out)
{
	return rf_get_u64(cur, &out->features) &&
	       get_limits(cur, &out->limits) &&
	       get_raw(cur, out->server_uuid, RF_UUID_SIZE) &&
	       rf_get_u64(cur, &out->session) &&
	       rf_get_u32(cur, &out->epoch) &&
	       rf_get_u32(cur, &out->tree) &&
	       rf_get_handle(cur, &out->root) &&
	       rf_get_attr(cur, &out->root_attr);
}

int rf_hello_reply_encode(void *buffer, const struct rf_hello_reply *in,
			  const struct rf_key *key,
			  const uint8_t server_nonce[RF_NONCE_SIZE],
			  const uint8_t client_proof[RF_PROOF_SIZE])
{
	uint16_t flags = flags_with_key(in->flags, key), zero = 0;
	uint8_t proof[RF_PROOF_SIZE];
	struct rf_enc enc;
	int size;

	rf_enc_init(&enc, buffer, RF_HELLO_SIZE_MAX);
	rf_put_u16(&enc, &in->status);
	rf_put_u16(&enc, &in->version);
	rf_put_u16(&enc, &flags);
	rf_put_u16(&enc, &zero);
	if (in->status == RF_ST_OK)
		put_session(&enc, in);
	put_text(&enc, in->reason, RF_REASON_MAX);
	size = finish(&enc, RF_MSG_HELLO_REPLY);
	prove(proof, buffer, (size_t)size, key, server_nonce, client_proof);
	memcpy((uint8_t *)buffer + size - RF_PROOF_SIZE, proof, RF_PROOF_SIZE);
	return size;
}

int rf_hello_reply_decode(const void *message, size_t size,
			  struct rf_hello_reply *out)
{
	struct rf_cursor cur;
	uint16_t zero;

	*out = (struct rf_hello_reply){ 0 };
	if (open_body(message, size, RF_MSG_HELLO_REPLY, &cur) < 0)
		return -EBADMSG;
	if (!rf_get_u16(&cur, &out->status) ||
	    !rf_get_u16(&cur, &out->version) ||
	    !get_flags(&cur, &out->flags) ||
	    !rf_get_u16(&cur, &zero) || zero != 0)
		return -EBADMSG;
	if (out->status == RF_ST_OK && !get_session(&cur, out))
		return -EBADMSG;
	if (!get_text(&cur, out->reason, RF_REASON_MAX) || cur.at != cur.end)
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
	return check_proof(message, size, key, server_nonce, client_proof);
}

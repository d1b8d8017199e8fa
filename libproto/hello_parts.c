/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hello_parts.c - text, outline and proof of the first messages
 *
 * When it fails.  Decoding tells nothing about who sent a message: call
 * ..._verify() before believing any of it.
 */
#include "hello_parts.h"

#include <errno.h>
#include <pthread.h>
#include <sodium.h>

#include "base.h"

_Static_assert(RF_KEY_SIZE >= crypto_generichash_KEYBYTES_MIN &&
	       RF_KEY_SIZE <= crypto_generichash_KEYBYTES_MAX &&
	       RF_PROOF_SIZE <= crypto_generichash_BYTES_MAX &&
	       (int)RF_SECRET_SIZE == (int)RF_KEY_SIZE &&
	       (int)RF_SECRET_SIZE == (int)RF_PROOF_SIZE,
	       "the keyed hash can do these sizes");

/* ---- text ---------------------------------------------------------------- */

/* Text goes to logs and terminals of the other side: nothing that steers one. */
static bool byte_is_text(char c)
{
	return (unsigned char)c >= 0x20 && c != 0x7f;
}

bool rf_is_text(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (!byte_is_text(text[i]))
			return false;
	return true;
}

void rf_put_text(struct rf_enc *enc, const char *text, size_t max)
{
	uint16_t size = (uint16_t)strnlen(text, max);
	uint8_t *at;

	rf_put_u16(enc, &size);
	at = rf_put_room(enc, size);
	for (size_t i = 0; at && i < size; i++)
		at[i] = (uint8_t)(byte_is_text(text[i]) ? text[i] : '?');
}

bool rf_get_text(struct rf_cursor *cur, char *out, size_t max)
{
	const uint8_t *at;
	uint16_t size;

	if (!rf_get_u16(cur, &size) || size > max)
		return false;
	at = rf_get_room(cur, size);
	if (!at || !rf_is_text((const char *)at, size))
		return false;
	memcpy(out, at, size);
	out[size] = '\0';
	return true;
}

/* ---- parts of all of them ------------------------------------------------ */

void rf_put_raw(struct rf_enc *enc, const void *bytes, uint32_t size)
{
	uint8_t *at = rf_put_room(enc, size);

	if (at)
		memcpy(at, bytes, size);
}

bool rf_get_raw(struct rf_cursor *cur, void *out, size_t size)
{
	const uint8_t *at = rf_get_room(cur, size);

	if (at)
		memcpy(out, at, size);
	return at;
}

uint16_t rf_flags_with_key(uint16_t flags, uint16_t allowed,
			   const struct rf_key *key)
{
	unsigned int rest = flags & ~(unsigned int)RF_HELLO_NO_KEY;

	RF_ASSERT((flags & ~(unsigned int)allowed) == 0);
	return (uint16_t)(key->is_set ? rest : rest | RF_HELLO_NO_KEY);
}

int rf_hello_open(const void *message, size_t size, enum rf_msg_type type,
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

void rf_keyed_hash(uint8_t out[RF_PROOF_SIZE], const struct rf_key *key,
		   const char *label, const void *const bytes[],
		   const size_t sizes[], unsigned int count)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	crypto_generichash_state state;
	uint8_t padded[32] = { 0 };

	pthread_once(&once, start_sodium);
	RF_ASSERT(strlen(label) < sizeof(padded));
	memcpy(padded, label, strlen(label));
	crypto_generichash_init(&state, key->is_set ? key->bytes : no_key,
				RF_KEY_SIZE, RF_PROOF_SIZE);
	crypto_generichash_update(&state, padded, sizeof(padded));
	for (unsigned int i = 0; i < count; i++)
		crypto_generichash_update(&state, bytes[i], sizes[i]);
	crypto_generichash_final(&state, out, RF_PROOF_SIZE);
	sodium_memzero(&state, sizeof(state));
}

static void prove(uint8_t out[RF_PROOF_SIZE], const void *message, size_t size,
		  const struct rf_key *key, const char *label,
		  const uint8_t *server_nonce, const uint8_t *client_proof)
{
	static const uint8_t zeroes[RF_PROOF_SIZE];
	const void *bytes[] = {
		server_nonce, client_proof, message, zeroes,
	};
	const size_t sizes[] = {
		RF_NONCE_SIZE, client_proof ? RF_PROOF_SIZE : 0,
		size - RF_PROOF_SIZE, RF_PROOF_SIZE,
	};

	rf_keyed_hash(out, key, label, bytes, sizes, RF_ARRAY_SIZE(bytes));
}

int rf_hello_finish(struct rf_enc *enc, enum rf_msg_type type,
		    const struct rf_key *key, const char *label,
		    const uint8_t server_nonce[RF_NONCE_SIZE],
		    const uint8_t *client_proof, uint8_t proof[RF_PROOF_SIZE])
{
	struct rf_header header = { .type = (uint8_t)type };
	static const uint8_t zeroes[RF_PROOF_SIZE];
	int size;

	rf_put_raw(enc, zeroes, RF_PROOF_SIZE);
	size = rf_enc_finish(enc, &header);
	RF_ASSERT(size > 0);	/* see the assertions on their sizes */
	prove(proof, enc->base, (size_t)size, key, label, server_nonce,
	      client_proof);
	memcpy(enc->base + size - RF_PROOF_SIZE, proof, RF_PROOF_SIZE);
	return size;
}

int rf_hello_check(const void *message, size_t size, const struct rf_key *key,
		   const char *label, const uint8_t *server_nonce,
		   const uint8_t *client_proof)
{
	const uint8_t *proof = (const uint8_t *)message + size - RF_PROOF_SIZE;
	uint8_t expected[RF_PROOF_SIZE];
	int err;

	prove(expected, message, size, key, label, server_nonce, client_proof);
	err = sodium_memcmp(expected, proof, RF_PROOF_SIZE) == 0
		? 0 : -EKEYREJECTED;
	sodium_memzero(expected, sizeof(expected));
	return err;
}

void rf_hello_proof(const void *message, size_t size,
		    uint8_t out[RF_PROOF_SIZE])
{
	memcpy(out, (const uint8_t *)message + size - RF_PROOF_SIZE,
	       RF_PROOF_SIZE);
}

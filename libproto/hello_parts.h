/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hello_parts.h - what the first messages of a connection have in common
 * (private to hello.c and resume.c)
 *
 * HELLO, RESUME and their answers are the 32-byte header with no operations, a
 * body of fixed order, and the proof as the last 32 bytes.  Decoding and
 * checking take the proof from the same place, so what was checked is what was
 * decoded.
 */
#ifndef RF_HELLO_PARTS_H
#define RF_HELLO_PARTS_H

#include "codec_fields.h"
#include "hello.h"

/* Bytes below 0x20 and 0x7f become '?'. */
void rf_put_text(struct rf_enc *enc, const char *text, size_t max);
/* out has room for max bytes and a NUL; false also for such bytes. */
bool rf_get_text(struct rf_cursor *cur, char *out, size_t max);
bool rf_is_text(const char *text, size_t size);

void rf_put_raw(struct rf_enc *enc, const void *bytes, uint32_t size);
bool rf_get_raw(struct rf_cursor *cur, void *out, size_t size);

/* Flags as they travel: RF_HELLO_NO_KEY says what key has. */
uint16_t rf_flags_with_key(uint16_t flags, uint16_t allowed,
			   const struct rf_key *key);

/*
 * End the message, proof and all: its size.  key: of the proof; client_proof:
 * NULL in the client's own message, else what the server answers to.  The proof
 * is also given out.
 */
int rf_hello_finish(struct rf_enc *enc, enum rf_msg_type type,
		    const struct rf_key *key, const char *label,
		    const uint8_t server_nonce[RF_NONCE_SIZE],
		    const uint8_t *client_proof, uint8_t proof[RF_PROOF_SIZE]);

/* The body: what is between the header and the proof.  -EBADMSG. */
int rf_hello_open(const void *message, size_t size, enum rf_msg_type type,
		  struct rf_cursor *cur);

/* 0 or -EKEYREJECTED, in constant time; of a message that was decoded. */
int rf_hello_check(const void *message, size_t size, const struct rf_key *key,
		   const char *label, const uint8_t *server_nonce,
		   const uint8_t *client_proof);

/* The proof as it stands in a message that was decoded. */
void rf_hello_proof(const void *message, size_t size,
		    uint8_t out[RF_PROOF_SIZE]);

/* BLAKE2b keyed with key over label (padded) and bytes. */
void rf_keyed_hash(uint8_t out[RF_PROOF_SIZE], const struct rf_key *key,
		   const char *label, const void *const bytes[],
		   const size_t sizes[], unsigned int count);

#endif /* RF_HELLO_PARTS_H */

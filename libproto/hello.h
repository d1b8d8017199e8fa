/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hello.h - how two programs meet: connect's private data, HELLO, its answer,
 * and the proof of the shared key over all of it, both ways
 *
 *	client                                server
 *	connect{rf_hello_connect}        ->
 *	                                 <-   accept{rf_hello_accept: nonce}
 *	HELLO{rf_hello, proof}           ->   checks proof, address, export
 *	                                 <-   HELLO_REPLY{rf_hello_reply, proof}
 *	checks proof
 *
 * A proof is keyed BLAKE2b (libsodium crypto_generichash, 32 bytes) over a
 * label, the server's nonce and the message with the proof's bytes zero; the
 * server's also covers the client's proof, and so both nonces.  Without a key
 * both prove with a key of zeroes and say so by RF_HELLO_NO_KEY, which the
 * encoders set by the key they are given; whether that is enough is the
 * server's rule.  The session's secret is derived from the key, the client's
 * proof and the session's number, and never sent.
 *
 * Pure logic but for rf_key_load() and rf_key_generate().  Threads: [any].
 */
#ifndef RF_HELLO_H
#define RF_HELLO_H

#include "codec.h"

enum {
	RF_KEY_SIZE = 32,
	RF_NONCE_SIZE = 16,
	RF_PROOF_SIZE = 32,
	RF_SECRET_SIZE = 32,
	RF_UUID_SIZE = 16,
	RF_EXPORT_MAX = 255,
	RF_HOST_MAX = 64,
	RF_REASON_MAX = 200,
	RF_CONNECT_DATA_SIZE = 16,
	RF_ACCEPT_DATA_SIZE = 24,
};

struct rf_key {
	uint8_t bytes[RF_KEY_SIZE];
	bool is_set;
};

/*
 * Read a key file as rf_key_generate() writes it.  [blocks]
 *
 * -ENOENT, -EACCES and so on of open(2); -EPERM: others than its owner may read
 * it; -EINVAL: not such a file.
 */
int rf_key_load(const char *path, struct rf_key *out);

/*
 * Write a new random key: one line of text, mode 0600.  [blocks]
 * -EEXIST: the file is there already; nothing changed.
 */
int rf_key_generate(const char *path);

/* ---- private data of connect and accept ---------------------------------- */

struct rf_hello_connect {
	uint16_t version_min, version_max;
};
void rf_hello_connect_encode(uint8_t out[RF_CONNECT_DATA_SIZE],
			     const struct rf_hello_connect *in);
/* -EBADMSG: not one of our programs.  Longer data are taken: a later version. */
int rf_hello_connect_decode(const void *data, size_t size,
			    struct rf_hello_connect *out);

/* Also the data of a reject: then status is not 0 and nonce is unused. */
struct rf_hello_accept {
	uint16_t status;	/* enum rf_status */
	uint16_t version;	/* chosen, or the server's highest */
	uint8_t nonce[RF_NONCE_SIZE];
};
void rf_hello_accept_encode(uint8_t out[RF_ACCEPT_DATA_SIZE],
			    const struct rf_hello_accept *in);
int rf_hello_accept_decode(const void *data, size_t size,
			   struct rf_hello_accept *out);

/* ---- HELLO and HELLO_REPLY ----------------------------------------------- */

enum rf_hello_flags {
	RF_HELLO_NO_KEY = 1 << 0,
	RF_HELLO_READ_ONLY = 1 << 1,	/* wish; in the reply: the export is */
	RF_HELLO_NO_WINDOWS = 1 << 2,	/* in the reply only: no Send with
					 * Invalidate, please */
};

/* Features: bits that both must set to use.  None is defined yet but CRC. */
enum rf_feature {
	RF_FEATURE_DATA_CRC = 1 << 0,	/* checksums in grants and pieces are
					 * filled and checked */
};

/*
 * Each side states its limits; what holds is the smaller of the two, each by
 * itself.  Decoders refuse, and encoders abort on, what nobody could work with:
 * see rf_hello_limits_are_usable().
 */
struct rf_hello_limits {
	uint32_t inline_max;	/* data inside one message */
	uint32_t msg_max;	/* any message but the first two */
	uint16_t slots;		/* requests in flight */
	uint16_t control_slots;	/* more, for requests that never wait */
	uint16_t server_msgs;	/* server messages not yet acknowledged */
	uint16_t channels;	/* 1 */
	uint32_t write_slots;	/* standing grants to write to */
	uint32_t block_max;	/* one READ's or WRITE's data */
};

/*
 * msg_max is at least inline_max + RF_MSG_OVERHEAD, and all else but
 * write_slots and inline_max at least 1.
 */
bool rf_hello_limits_are_usable(const struct rf_hello_limits *limits);

struct rf_hello {
	uint16_t version;	/* as the accept said */
	uint16_t flags;
	uint64_t features;
	struct rf_hello_limits limits;
	uint8_t client_uuid[RF_UUID_SIZE];	/* of this mount */
	uint8_t nonce[RF_NONCE_SIZE];
	char host[RF_HOST_MAX + 1];		/* for the server's log */
	char export[RF_EXPORT_MAX + 1];
};

struct rf_hello_reply {
	uint16_t status;	/* enum rf_status; if not OK, only version,
				 * flags and reason travel */
	uint16_t version;
	uint16_t flags;
	uint16_t grant_ms;	/* a grant is the client's for so long; 0: as
				 * long as the connection */
	uint64_t features;
	struct rf_hello_limits limits;
	uint8_t server_uuid[RF_UUID_SIZE];	/* of the store: same after a
						 * restart */
	uint64_t session;
	uint32_t epoch;
	uint32_t tree;
	rf_handle_t root;
	rf_attr_t root_attr;
	uint32_t lease_ms;	/* how long the session outlives its
				 * connection; not 0 */
	char reason[RF_REASON_MAX + 1];	/* for people, when refused: control
					 * characters become '?' */
};

/*
 * Encode as a whole message with its proof, into RF_HELLO_SIZE_MAX bytes.
 * Returns the size.  client_proof is to be remembered for the reply.
 *
 * -EINVAL: export has control characters (in host they become '?').
 */
int rf_hello_encode(void *buffer, const struct rf_hello *in,
		    const struct rf_key *key,
		    const uint8_t server_nonce[RF_NONCE_SIZE],
		    uint8_t client_proof[RF_PROOF_SIZE]);

/* -EBADMSG: malformed.  The proof is not checked yet: rf_hello_verify(). */
int rf_hello_decode(const void *message, size_t size, struct rf_hello *out);

/*
 * 0; -EKEYREJECTED: another key, or one side has none; -EBADMSG.  The
 * comparison takes constant time.  client_proof is given out unless -EBADMSG,
 * for a refusal is proved too.
 *
 * A server that lets some clients in without a key calls this with a key that
 * is not set, after hello.flags asked for it and the address allowed it.
 */
int rf_hello_verify(const void *message, size_t size, const struct rf_key *key,
		    const uint8_t server_nonce[RF_NONCE_SIZE],
		    uint8_t client_proof[RF_PROOF_SIZE]);

/*
 * The same three for the answer.  A refusal whose proof is wrong (the keys
 * differ) may be shown to people as what the other end says, and no more.
 */
int rf_hello_reply_encode(void *buffer, const struct rf_hello_reply *in,
			  const struct rf_key *key,
			  const uint8_t server_nonce[RF_NONCE_SIZE],
			  const uint8_t client_proof[RF_PROOF_SIZE]);
int rf_hello_reply_decode(const void *message, size_t size,
			  struct rf_hello_reply *out);
int rf_hello_reply_verify(const void *message, size_t size,
			  const struct rf_key *key,
			  const uint8_t server_nonce[RF_NONCE_SIZE],
			  const uint8_t client_proof[RF_PROOF_SIZE]);

/* Of a session that both proved. */
void rf_hello_secret(uint8_t out[RF_SECRET_SIZE], const struct rf_key *key,
		     const uint8_t client_proof[RF_PROOF_SIZE], uint64_t session);

#endif /* RF_HELLO_H */

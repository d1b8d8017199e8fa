/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resume.h - a session goes on over a new connection: RESUME and its answer
 *
 *	client                                server
 *	connect{rf_hello_connect}        ->
 *	                                 <-   accept{rf_hello_accept: nonce}
 *	RESUME{session, proof}           ->   ends the old connection, waits for
 *	                                      what it still runs
 *	                                 <-   RESUME_REPLY{new epoch, proof}
 *
 * Both proofs are keyed with the session's secret (rf_hello_secret()), so the
 * server that made the session and the client that opened it know each other;
 * a refusal is proved with the shared key, since the server may not know the
 * session any more.  So an answer's proof covers the whole RESUME as it came, by a
 * digest, where that of HELLO_REPLY has the client's proof: what was changed on
 * the way proves nothing.  All else is as in hello.h.
 *
 * Pure logic.  Threads: [any].
 */
#ifndef RF_RESUME_H
#define RF_RESUME_H

#include "hello.h"

struct rf_resume {
	uint16_t version;	/* as the accept said */
	uint16_t flags;		/* RF_HELLO_NO_KEY, set by the encoder */
	uint32_t epoch;		/* the last one that the client was told */
	uint64_t session;
	uint8_t client_uuid[RF_UUID_SIZE];	/* as in its HELLO */
	uint8_t nonce[RF_NONCE_SIZE];
};

enum rf_resume_flags {
	/* RF_HELLO_NO_KEY, _READ_ONLY, _NO_WINDOWS, and */
	RF_RESUME_RESTARTED = 1 << 3,	/* the server was started anew since:
					 * opens and identities are gone */
};

struct rf_resume_reply {
	uint16_t status;	/* enum rf_status; if not OK, only version,
				 * flags, UUID and reason travel */
	uint16_t version;
	uint16_t flags;
	uint16_t grant_ms;	/* as in rf_hello_reply */
	uint32_t epoch;		/* of the session from now on; never 0 */
	uint32_t lease_ms;	/* not 0 */
	uint32_t grace_ms;	/* that are left; 0: there is no grace period */
	uint8_t server_uuid[RF_UUID_SIZE];	/* of the store */
	char reason[RF_REASON_MAX + 1];
};

/*
 * As rf_hello_encode() and its sisters.  key: the shared one, for the flag and
 * for refusals; secret: the session's, RF_SECRET_SIZE bytes.  digest is to be
 * remembered for the reply.
 */
int rf_resume_encode(void *buffer, const struct rf_resume *in,
		     const struct rf_key *key, const uint8_t *secret,
		     const uint8_t server_nonce[RF_NONCE_SIZE],
		     uint8_t digest[RF_PROOF_SIZE]);

/* -EBADMSG: malformed.  The proof is not checked yet. */
int rf_resume_decode(const void *message, size_t size, struct rf_resume *out,
		     uint8_t digest[RF_PROOF_SIZE]);

/* 0; -EKEYREJECTED: another secret, or one side has no key; -EBADMSG. */
int rf_resume_verify(const void *message, size_t size,
		     const struct rf_key *key, const uint8_t *secret,
		     const uint8_t server_nonce[RF_NONCE_SIZE]);

/* secret may be NULL in a refusal.  digest: as it came, right or wrong. */
int rf_resume_reply_encode(void *buffer, const struct rf_resume_reply *in,
			   const struct rf_key *key, const uint8_t *secret,
			   const uint8_t server_nonce[RF_NONCE_SIZE],
			   const uint8_t digest[RF_PROOF_SIZE]);
int rf_resume_reply_decode(const void *message, size_t size,
			   struct rf_resume_reply *out);
/*
 * -EKEYREJECTED: whoever this is, it is not the server.  Above all a BAD_EPOCH
 * counts only if this says 0, for it ends the session.
 */
int rf_resume_reply_verify(const void *message, size_t size,
			   const struct rf_key *key, const uint8_t *secret,
			   const uint8_t server_nonce[RF_NONCE_SIZE],
			   const uint8_t digest[RF_PROOF_SIZE]);

#endif /* RF_RESUME_H */

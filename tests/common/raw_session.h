/* SPDX-License-Identifier: Apache-2.0 */
/*
 * raw_session.h - a client of a storage server that chooses each slot and sequence
 * number itself, loses its connection when it likes, and says RESUME
 *
 * It stands on the fabric and the codec, not on the client's half of rpc.h, so
 * that a test can say what no mount would.
 */
#ifndef TESTS_RAW_SESSION_H
#define TESTS_RAW_SESSION_H

#include "libproto/resume.h"
#include "tests/common/server_rig.h"

enum {
	RAWS_SLOTS = 8,
	RAWS_CONTROL_SLOTS = 2,
	RAWS_RECVS = 24,
	RAWS_MSG_MAX = RF_INLINE_DEFAULT + RF_MSG_OVERHEAD,
};

struct raws;
struct raws_recv {
	struct rf_op op;
	struct raws *raws;
	struct rf_buf *buf;
};

struct raws {
	struct srig *rig;
	struct sockaddr_storage address;	/* of family 0: the rig's */
	/* ---- what the session is ---- */
	struct rf_key key;
	struct rf_hello hello;
	uint8_t hello_proof[RF_PROOF_SIZE], secret[RF_SECRET_SIZE];
	struct rf_hello_reply reply;
	struct rf_resume_reply resumed;
	uint64_t session;
	uint32_t epoch;
	uint32_t ack;			/* server messages of this connection */
	/* ---- its connection ---- */
	struct rf_ep *ep;		/* NULL: none */
	bool is_connected;
	unsigned int closed;
	uint8_t nonce[RF_NONCE_SIZE];
	struct raws_recv recvs[RAWS_RECVS];
	struct rf_buf *send_buf;
	struct rf_op send_op;
	bool is_sending;
	/* ---- the last message that came; each may be looked at ---- */
	void (*took)(struct raws *raws);
	unsigned int come;
	uint8_t message[RAWS_MSG_MAX];
	struct rf_header header;
	struct rf_results results[RF_OPS_MAX];
	unsigned int count;
};

void raws_init(struct srig *rig, struct raws *raws);
void raws_connect(struct raws *raws);
/* Cut it, and wait for the server to have seen it: the session is LOST. */
void raws_cut(struct raws *raws);
/* Wait until the server has ended it. */
void raws_wait_closed(struct raws *raws);
/* connect, HELLO, and all is well; identity 1 is root, on slot 0, seq 1. */
void raws_open(struct srig *rig, struct raws *raws);
/* The same after raws_init(), with what was changed. */
void raws_begin(struct raws *raws);
/* connect, RESUME: the status of the answer, whose proof must be right. */
unsigned int raws_resume(struct raws *raws);
/* The parts of it. */
int raws_encode_resume(struct raws *raws, void *message,
		       uint8_t proof[RF_PROOF_SIZE]);
void raws_post(struct raws *raws, const void *message, size_t size);
void raws_send(struct raws *raws, const void *message, size_t size);
void raws_wait(struct raws *raws);	/* for one more message */
struct session *raws_server_side(const struct raws *raws);

/* Encode a REQUEST of USE handle (NULL: without) and these operations. */
size_t raws_encode(struct raws *raws, void *message, uint16_t slot,
		   uint32_t seq, const rf_handle_t *handle,
		   const struct rf_args *args, unsigned int count);
/* Send it, and wait for its answer: the status of the last result. */
unsigned int raws_run(struct raws *raws, uint16_t slot, uint32_t seq,
		      const rf_handle_t *handle, const struct rf_args *args,
		      unsigned int count);
#define RAWS_RUN(raws, slot, seq, handle, ...)				\
	raws_run(raws, slot, seq, handle,				\
		 (const struct rf_args[]){ __VA_ARGS__ },		\
		 sizeof((const struct rf_args[]){ __VA_ARGS__ }) /	\
		 sizeof(struct rf_args))
/* The same, but the answer is lost: the request has been run, and the
 * connection is cut before it says so. */
void raws_lose_answer(struct raws *raws, uint16_t slot, uint32_t seq,
		      const rf_handle_t *handle, const struct rf_args *args,
		      unsigned int count);
#define RAWS_LOSE(raws, slot, seq, handle, ...)				\
	raws_lose_answer(raws, slot, seq, handle,			\
			 (const struct rf_args[]){ __VA_ARGS__ },	\
			 sizeof((const struct rf_args[]){ __VA_ARGS__ }) / \
			 sizeof(struct rf_args))
/* Of the operation number index after USE. */
#define RAWS_RES(raws, index, lower) ((raws)->results[(index) + 1].lower)

#endif /* TESTS_RAW_SESSION_H */

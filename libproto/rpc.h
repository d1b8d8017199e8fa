/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc.h - requests and answers over one connection: slots, credits, replays
 *
 * Both ends of a channel.  The slots that HELLO agreed on are the credits: a
 * REQUEST takes one, its REPLY or QUEUED gives it back.  Each side posts the
 * Receive for what may come next before it gives a credit back, so posted
 * Receives always cover what may come: at the server one a slot; at the client
 * one a slot, for the answer, and server_msgs for server messages (FINISHED),
 * which the client acknowledges in the header of its next request, or in an
 * empty one when half of them are used.
 *
 * Slots 0 to slots - 1 are for requests, the control_slots after them for
 * requests that never wait (CANCEL, BYE, returns of grants), so that these pass
 * when all others are taken.
 *
 * A slot's sequence number begins with 1.  The server keeps the last answer of
 * each slot: the same number again is answered from there and not run again
 * (and ignored while the request still runs); the next number is a new request;
 * any other ends the connection, as does every message that breaks a rule, with
 * one line in the log that names the peer and the rule.
 *
 * Threads.  [owner] of the connection's reactor, all of it.
 * Ownership.  A call and its buffer are the caller's, and lent from submit
 * until done(), once; a time-out ends the wait of whoever asked, not the loan.
 * done() runs when the answer is here and the fabric has let go of the call's
 * buffers, whichever comes last.
 * Errors.  done() gets a negative errno when there is no answer: -ECONNRESET
 * and the like (the channel is gone; the request may have been run), -ECANCELED
 * (never sent).
 *
 * A client that has a lost() outlives its connections: calls wait for the next
 * one, and each is run once.  The message of a call is changed by a loss:
 * returns and one-sided works are taken out.
 */
#ifndef RF_RPC_H
#define RF_RPC_H

#include "codec.h"
#include "fabric.h"
#include "hello.h"
#include "pool.h"
#include "reactor.h"
#include "resume.h"

/* ---- the client's end ---------------------------------------------------- */

struct rf_client;	/* one channel of one session */

/* Store into memory that another process reads after our death: after all that was
 * stored before it, and before all that is stored after it. */
#define rf_store_kept(at, value)					\
	do {								\
		__atomic_store_n((at), (value), __ATOMIC_RELEASE);	\
		__atomic_signal_fence(__ATOMIC_SEQ_CST);		\
	} while (0)

/*
 * What another process needs to go on with a session when this one has died:
 * kept up to date by the client, in the caller's memory, which outlives it.
 * Zeroed at first.  The secret is in it.
 */
enum { RF_CLIENT_KEPT_SLOTS = 1280 };	/* more can't be kept */

struct rf_client_kept {
	uint32_t is_valid;		/* written last; 0: there is no session */
	uint32_t epoch;
	uint64_t session, features;
	struct rf_hello_limits limits;
	uint8_t client_uuid[RF_UUID_SIZE], server_uuid[RF_UUID_SIZE];
	uint8_t secret[RF_SECRET_SIZE];
	uint32_t seqs[RF_CLIENT_KEPT_SLOTS];	/* the last used, of each slot */
};

struct rf_client_config {
	struct rf_reactor *reactor;
	struct rf_poller *poller;	/* with pd and mr: NULL if it is only */
	struct rf_pd *pd;		/* restored, and moved later */
	struct rf_mr *mr;		/* of the pool's arena in pd */
	struct rf_pool *pool;		/* slots + control_slots + server_msgs
					 * buffers of msg_max, and one of
					 * RF_HELLO_SIZE_MAX, are taken */
	struct sockaddr_storage address;
	socklen_t address_size;
	struct rf_key key;
	struct rf_hello hello;		/* limits are our wishes; version, nonce
					 * and RF_HELLO_NO_KEY are filled in */
	uint32_t setup_ms;		/* for all up to HELLO_REPLY, and for
					 * the answer to BYE */
	uint32_t answer_ms;		/* of these, for the answer to the first
					 * message; 0: as long as setup_ms.
					 * Twice as long at each next
					 * connection that gets none */
	uint32_t keepalive_ms;
	uint16_t send_depth;		/* of the endpoint; it and reads_out are
					 * cut down to what the fabric has */
	uint16_t reads_out;
	struct rf_client_kept *kept;	/* NULL: not wanted */
};

struct rf_client_events {
	/*
	 * The session is open; reply is valid during the call.  Once more after
	 * rf_client_forget(): another session; only control calls pass until
	 * rf_client_go_on().
	 */
	void (*opened)(struct rf_client *client,
		       const struct rf_hello_reply *reply);
	/*
	 * The end, once, after all calls are done.  err 0: after BYE.  reason:
	 * a text for people (may be ""), e.g. why the server refused.
	 * The client is gone when this returns; its buffers go back to the pool
	 * after it.
	 */
	void (*closed)(struct rf_client *client, int err, const char *reason);
	/*
	 * A server message that is no FINISHED: none in version 1, so it is
	 * not called yet and may be NULL; such a message ends the connection.
	 */
	void (*message)(struct rf_client *client, const void *message,
			size_t size);
	/*
	 * The connection is lost, or an attempt at the next one has failed, and
	 * the session may go on: calls are kept.  Call rf_client_reconnect(),
	 * from here or later.  err as of closed(); -ESTALE: the server says
	 * that the session is over, see rf_client_forget(); -EREMCHG: another
	 * store than the one we know answers there.  NULL: closed() comes
	 * instead.
	 */
	void (*lost)(struct rf_client *client, int err, const char *reason);
	/*
	 * The session goes on over a new connection.  Until
	 * rf_client_go_on() only control calls pass.
	 */
	void (*resumed)(struct rf_client *client,
			const struct rf_resume_reply *reply);
};

/*
 * Connect and say HELLO; ends in opened() or closed().  After a failure no
 * callback runs.  config is copied.
 *
 * closed() without opened() has, among others: -ECONNREFUSED (nobody listens),
 * -ETIMEDOUT (setup_ms are over), -EAGAIN (answer_ms are, or the server has waited
 * in vain itself: siw may overlook a first message, and another connection may
 * do), -EPROTO (not an rdmafs server), -EKEYREJECTED (the server does not have our
 * key), or what the server refused with, see status.h.
 *
 * -ENOMEM: the pool has not enough buffers.  -EINVAL: the fabric can't do what
 * the limits wish.
 */
int rf_client_open(const struct rf_client_config *config,
		   const struct rf_client_events *events, void *context,
		   struct rf_client **out);

/*
 * A client that goes on with the session of config->kept, or with a new one if
 * that is not valid, as after lost(): call rf_client_reconnect().  No callback
 * runs before.  Errors as rf_client_open().
 */
int rf_client_restore(const struct rf_client_config *config,
		      const struct rf_client_events *events, void *context,
		      struct rf_client **out);

void *rf_client_context(const struct rf_client *client);
struct rf_ep *rf_client_ep(const struct rf_client *client);
/* What holds for this session; after opened(). */
const struct rf_hello_limits *rf_client_limits(const struct rf_client *client);
uint64_t rf_client_features(const struct rf_client *client);

/* Drop the connection at once; calls end with -ECANCELED, then closed(). */
void rf_client_abort(struct rf_client *client);

/*
 * Close the connection, because of err and what: lost() follows, or closed().
 * Nothing if there is none.
 */
void rf_client_drop(struct rf_client *client, int err, const char *what);

/*
 * After lost(): connect to this address and say RESUME, or HELLO if the session
 * was forgotten; ends in resumed(), opened() or lost().  After an error nothing
 * has changed.
 */
int rf_client_reconnect(struct rf_client *client,
			const struct sockaddr_storage *address,
			socklen_t address_size, uint32_t setup_ms);

/*
 * After lost(), or of a restored client: use this poller, domain and region of
 * the pool from now on; what it had may be closed before.  Connect only when it has
 * some.  -EINVAL: this fabric can't do what the limits say; nothing has changed.
 */
int rf_client_move(struct rf_client *client, struct rf_poller *poller,
		   struct rf_pd *pd, struct rf_mr *mr);

/*
 * After resumed(), or a later opened(): send again what has no answer, then what
 * waits.  A request
 * that changes something goes out as it was, on its slot with its sequence
 * number, so that it is not run twice; but its pieces name no slot of any grant
 * (what they had is gone), so a WRITE by slots that was not run is answered
 * BAD_GRANT.  Others are sent as new ones.
 */
void rf_client_go_on(struct rf_client *client);

/*
 * After lost(): the session is over.  Each call ends with -ESTALE (may_have_run
 * says if it was sent, and changes something); it may be submitted again from
 * its done(), to be sent in the next session.
 */
void rf_client_forget(struct rf_client *client);

/*
 * Say something, if nothing was sent for idle_ms: it keeps the session's lease.
 * Milliseconds that such a message of ours has been without an answer.
 */
uint64_t rf_client_keep(struct rf_client *client, uint32_t idle_ms);

struct rf_call {
	/* ---- the caller's, before submit; zero the rest once ---- */
	/*
	 * err 0: reply holds an answer (decoded to its outline; take the
	 * results with rf_dec_results()), valid during the call.  The call is
	 * the caller's again, and may be submitted anew or freed from here.
	 */
	void (*done)(struct rf_call *call, int err, struct rf_dec *reply);
	/*
	 * May be NULL.  The answer is QUEUED: results come later; the ticket
	 * is call->ticket, for CANCEL.
	 */
	void (*queued)(struct rf_call *call);
	struct rf_buf *msg;		/* the encoded message, finished; its
					 * header is completed by submit */
	uint32_t msg_size;
	uint16_t identity;
	bool is_control;		/* on a control slot */
	/*
	 * Nobody waits for it any more.  Sent again after a loss, it is
	 * answered before calls go that wait: none of them overtakes it.  May
	 * be set at any time.
	 */
	bool holds_others;
	/*
	 * Posted before the message, in one batch with it: the one-sided WRITEs
	 * of its data, fewer than send_depth.  Kept by the caller until done().
	 */
	const struct rf_work *works;
	unsigned int work_count;
	uint32_t inv_key;		/* not 0: Send with Invalidate of it */
	/*
	 * Where to note by what slot and number it goes, before it does: see
	 * rf_client_submit_again().  NULL: nowhere.
	 */
	uint64_t *sent_as;

	/* ---- private ---- */
	struct rf_list link;
	struct rf_op op;
	struct rf_client *client;
	struct rf_client_recv *recv;	/* that holds the answer */
	uint32_t ticket;
	uint16_t slot;
	uint32_t seq;
	uint8_t state;
	bool is_sent_done, is_answered;
	bool is_holding;
	/* ---- to be read in done() ---- */
	bool was_resent;		/* answered after a loss */
	bool was_voided;		/* its pieces name no slots any more */
	bool was_sent;			/* once at least: also to be read after
					 * rf_client_retract() */
	bool may_have_run;		/* with an error: it was sent, and
					 * changes something */
};

/*
 * Send the call when a slot is free (at once if there is one); first come,
 * first served.  Before opened() it waits.  Never fails: what goes wrong comes
 * in done(), not from inside this call.
 */
void rf_client_submit(struct rf_client *client, struct rf_call *call);

/*
 * Submit what a process that has died had sent, and perhaps got an answer to:
 * sent_as is what it noted.  It goes as after a loss, on its slot with its
 * number, so that it is not run twice.  The message may be another, if it asks
 * for the same.  Before resumed().  False: that slot was used since, or its
 * session is over; nothing was done.
 */
bool rf_client_submit_again(struct rf_client *client, struct rf_call *call,
			    uint64_t sent_as);

/*
 * True if the call waits for a slot and was taken back: done() will not run, and
 * the returns in its message are pending again.  It may have been sent over a
 * connection that is lost (was_sent), and have been run.  False: it is on its way.
 */
bool rf_client_retract(struct rf_client *client, struct rf_call *call);

/*
 * Tell the server that a grant is not needed any more: goes with the next
 * request that takes it, or alone on a control slot at the end of this turn.
 */
enum { RF_CLIENT_RETURNS_MAX = 16384 };	/* pending; more end the connection */
void rf_client_return_grant(struct rf_client *client, uint32_t grant_id);

/*
 * Append pending returns to a message that has no operation yet; how many.  Few
 * enough that operations which fit in msg_max still do.
 */
enum { RF_CLIENT_TAKE_MAX = 16 };
unsigned int rf_client_take_returns(struct rf_client *client,
				    struct rf_enc *enc);

/*
 * Post one-sided work on the session's endpoint; see rf_ep_post().  -EAGAIN
 * also while calls wait for room there: they go first.
 */
int rf_client_post(struct rf_client *client, const struct rf_work *works,
		   unsigned int count);

/*
 * Say BYE when all calls are done; ends in closed(0), or in closed(-ETIMEDOUT)
 * if the server does not answer within setup_ms.  Before opened() the same as
 * rf_client_abort().
 */
void rf_client_bye(struct rf_client *client);

struct rf_client_stats {
	uint64_t calls;			/* sent, ours for returns included */
	uint64_t losses, resent;
	uint64_t queued, waits_for_slot, returns, server_msgs;
	uint32_t slots_used, slots_used_most;
};
void rf_client_stats(const struct rf_client *client,
		     struct rf_client_stats *out);

/* ---- the server's end ---------------------------------------------------- */

/*
 * The server's half of a channel: receives, slots, replay cache.  Who may open
 * a session is the caller's (storage-server/session.c): a connection is
 * accepted with one small Receive (struct rf_greeter), and becomes a channel
 * only when HELLO has succeeded.
 */
struct rf_channel;
struct rf_greeter;

struct rf_server_config {
	struct rf_reactor *reactor;
	struct rf_poller *poller;
	struct rf_pd *pd;
	struct rf_mr *mr;
	struct rf_pool *pool;		/* class of msg_max: 2 a slot (control
					 * ones too) a session and 2 a QUEUED
					 * request; class of RF_HELLO_SIZE_MAX:
					 * 2 a greeter, which bounds them */
	uint32_t hello_ms;		/* from accept to HELLO, and from a
					 * refusal to the end */
	uint32_t keepalive_ms;
	uint16_t send_depth;		/* above RF_ANSWER_WORKS_MAX */
	uint16_t recv_depth;		/* slots + control_slots of the largest
					 * session; 0: RF_RECV_DEPTH_DEFAULT */
	uint16_t reads_in;
};

enum {
	RF_RECV_DEPTH_DEFAULT = 256,
	RF_ANSWER_WORKS_MAX = RF_GRANTS_MAX,	/* with one answer */
};

struct rf_greeter_events {
	/*
	 * A HELLO that decodes has come.  Answer with rf_greeter_admit() or
	 * rf_greeter_refuse(), now or later.  message is valid during the call.
	 */
	void (*hello)(struct rf_greeter *greeter, const struct rf_hello *hello,
		      const void *message, size_t size);
	/*
	 * The same of a RESUME, whose proof is to be checked with
	 * rf_resume_verify(); digest is for the reply.  NULL: such connections are ended.
	 */
	void (*resume)(struct rf_greeter *greeter,
		       const struct rf_resume *resume, const void *message,
		       size_t size, const uint8_t digest[RF_PROOF_SIZE]);
	/*
	 * The connection ended before it was admitted; the greeter is gone when
	 * this returns.  err: -ETIMEDOUT (no HELLO within hello_ms), -EPROTO (a
	 * bad one; logged), the refusal's errno, or as rf_ep_events.closed().
	 */
	void (*closed)(struct rf_greeter *greeter, int err);
};

/*
 * Take a connection request: accept it, with one Receive, and start the
 * deadline.  data and size: as on_request() of the listener got them.  incoming
 * is consumed in any case: after an error it was rejected with the reason.
 *
 * -EPROTO: not an rdmafs client.  -EPROTONOSUPPORT: no version in common.
 * -ENOMEM: no buffer left: too many say nothing.
 */
int rf_greeter_accept(const struct rf_server_config *config,
		      struct rf_incoming *incoming, const void *data,
		      size_t size, const struct rf_greeter_events *events,
		      void *context, struct rf_greeter **out);
void *rf_greeter_context(const struct rf_greeter *greeter);
struct rf_ep *rf_greeter_ep(const struct rf_greeter *greeter);
const uint8_t *rf_greeter_nonce(const struct rf_greeter *greeter);
/* "192.0.2.1:49152", for logs. */
const char *rf_greeter_peer(const struct rf_greeter *greeter);

/*
 * Send this reply and wait until the client has closed, for hello_ms at most.
 * closed() follows.  Without a proof of the client (it failed) pass zeroes.  To
 * a RESUME the same is said by a RESUME_REPLY; there pass the digest.
 */
void rf_greeter_refuse(struct rf_greeter *greeter,
		       const struct rf_hello_reply *reply,
		       const struct rf_key *key,
		       const uint8_t client_proof[RF_PROOF_SIZE]);

/* One REQUEST being served; lives in its channel, which fills it. */
struct rf_request {
	struct rf_channel *channel;
	struct rf_dec dec;		/* of the message; the buffer is ours
					 * until rf_request_answer() */
	struct rf_enc enc;		/* for results, ready to use */
	uint32_t inv_key;		/* our window's key that came with it */
	uint32_t ticket;		/* 0 unless QUEUED */
	uint16_t index;			/* below rf_channel_requests_max() */
	void *context;			/* the server's, NULL at first */
	/* ---- private ---- */
	struct rf_buf *reply_buf;
	struct rf_buf *msg_buf;
	uint8_t state;
	uint16_t slot;
	uint32_t seq;
};

struct rf_channel_events {
	/*
	 * A new request of at least one operation; call rf_request_answer()
	 * once, now or later.
	 */
	void (*request)(struct rf_channel *channel, struct rf_request *request);
	/*
	 * A slot with a kept answer (rf_channel_keep()) is used for the first
	 * time: that request is sent again, and answered from there; or it is a
	 * later one, shown next.  May be NULL.
	 */
	void (*resent)(struct rf_channel *channel, uint16_t slot,
		       bool is_resent);
	/* The client is done with a grant.  May name one that does not exist. */
	void (*returned)(struct rf_channel *channel, uint32_t grant_id);
	/*
	 * The connection ended; its endpoint is gone and its windows are free.
	 * err as rf_ep_events.closed(), -EPROTO if the client broke a rule
	 * (logged).  Requests not yet answered must still be answered (the
	 * answer goes nowhere); then freed() runs.
	 */
	void (*closed)(struct rf_channel *channel, int err);
	/*
	 * No request is left; the channel is gone when this returns.  Never
	 * called from inside another function of this file.
	 */
	void (*freed)(struct rf_channel *channel);
};

/*
 * Make the greeter's connection a channel: take buffers and post receives for
 * the limits in reply, then send reply.  The greeter is gone.
 *
 * -ENOMEM: the pool has not enough buffers.  -EINVAL: limits that don't work, or
 * above what the client wished or recv_depth.  Nothing has changed: refuse.
 * -ENOTCONN: the connection has just ended; closed() of the greeter follows.
 */
int rf_greeter_admit(struct rf_greeter *greeter,
		     const struct rf_hello_reply *reply,
		     const struct rf_key *key,
		     const uint8_t client_proof[RF_PROOF_SIZE],
		     const struct rf_channel_events *events, void *context,
		     struct rf_channel **out);

/*
 * The same of a greeter that said RESUME, with the limits of the session's
 * HELLO; secret: the session's.  Its slots take their first request by the rule
 * of PROTOCOL.md, "After RESUME".
 */
struct rf_resumption {
	const struct rf_resume_reply *reply;
	const struct rf_hello_limits *limits;
	const struct rf_key *key;
	const uint8_t *secret;
	const uint8_t *digest;
};
int rf_greeter_resume(struct rf_greeter *greeter,
		      const struct rf_resumption *resumption,
		      const struct rf_channel_events *events, void *context,
		      struct rf_channel **out);

/*
 * Give a slot the answer that was recorded before, in the turn of
 * rf_greeter_resume().  bytes: RF_HEADER_SIZE bytes of room, then size bytes of
 * results; what they lent is taken out of them.  io_op: 1 + the operation that is
 * to have failed with IO, the last in the answer; 0: none.
 *
 * -EIO: it does not decode.  -EINVAL: there is no such slot.
 */
struct rf_kept {
	uint16_t slot;
	uint32_t seq;
	void *bytes;
	size_t size;
	unsigned int io_op;
};
int rf_channel_keep(struct rf_channel *channel, const struct rf_kept *kept);

void *rf_channel_context(const struct rf_channel *channel);
/* NULL from closed() on. */
struct rf_ep *rf_channel_ep(const struct rf_channel *channel);

/* Requests that may be in service at once: slots, and server_msgs QUEUED ones. */
unsigned int rf_channel_requests_max(const struct rf_channel *channel);

/*
 * Say QUEUED, at once, so that the slot is free while the request waits;
 * request->ticket tells under which number.  False if the client has no receive
 * for one more FINISHED, if the pool has no buffers for it, and on a control
 * slot: then it keeps its slot.
 */
bool rf_request_queue(struct rf_request *request);

/*
 * Finish request->enc and make it the slot's answer, or FINISHED.  It leaves
 * when rf_channel_flush() is called.  works (binds of the grants in it; at most
 * RF_ANSWER_WORKS_MAX, without ops) are copied and go in the same batch, before
 * it; if the connection ends first they are never posted.  request is gone, and
 * its message with all that was decoded from it.
 *
 * If request->enc has overflowed, an answer without results is sent, which the
 * client takes for an I/O error: check it before anything is committed.
 */
void rf_request_answer(struct rf_request *request, const struct rf_work *works,
		       unsigned int work_count);

/*
 * For when that failed: offer each request whose answer is held to amend(), which
 * may encode request->enc anew, and says so by true.  The works given with the
 * answer still go.
 */
void rf_channel_amend(struct rf_channel *channel,
		      bool (*amend)(struct rf_request *request));
/*
 * Answers do not leave before this: call it at the end of the turn, after the
 * log was written out.  All go in one batch where the queue has room; the rest
 * follow by themselves.
 */
void rf_channel_flush(struct rf_channel *channel);

/* Close the connection; closed() follows. */
void rf_channel_close(struct rf_channel *channel);
/* The client broke a rule of PROTOCOL.md, and that was why. */
bool rf_channel_is_at_fault(const struct rf_channel *channel);

struct rf_channel_stats {
	uint64_t received;		/* messages, those of no operation, too */
	uint64_t requests;		/* handed to request() */
	uint64_t replays;		/* answered from the cache */
	uint64_t queued, finished;
	uint32_t running;		/* not answered, QUEUED ones included */
	uint32_t unacknowledged;	/* server messages */
};
void rf_channel_stats(const struct rf_channel *channel,
		      struct rf_channel_stats *out);

#endif /* RF_RPC_H */

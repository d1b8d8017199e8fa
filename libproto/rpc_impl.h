/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc_impl.h - the insides of a client and of a channel; only rpc_*.c include it
 *
 *	rpc_client.c	the client's life: connect, HELLO, BYE, the end
 *	rpc_call.c	its calls: slots, sending, answers
 *	rpc_resume.c	its session from one connection to the next
 *	rpc_greeter.c	the server's side of a connection up to HELLO_REPLY
 *	rpc_channel.c	after it: receiving requests, the end
 *	rpc_answer.c	answering them: QUEUED, REPLY, FINISHED, replays
 *	rpc_keep.c	answers from before a RESUME
 */
#ifndef RF_RPC_IMPL_H
#define RF_RPC_IMPL_H

#include "rpc.h"

enum {
	RF_PEER_NAME_SIZE = 64,
	/* Nobody Reads from a client; but it takes one to see whether a silent
	 * one is there: keepalive_ms of rf_ep_config. */
	RF_PROBE_READS = 1,
};

/* "192.0.2.1:49152" or "[2001:db8::1]:49152"; "?" for what it can't read. */
void rf_peer_name(const struct sockaddr_storage *address,
		  char out[RF_PEER_NAME_SIZE]);

/* ---- client --------------------------------------------------------------- */

struct rf_client_recv {
	struct rf_op op;
	struct rf_client *client;
	struct rf_buf *buf;
};

struct rf_client_slot {
	uint32_t seq;		/* of the last request */
	struct rf_call *call;	/* NULL: free */
};

/* Free slots of one kind; the last freed is the next used. */
struct rf_slot_stack {
	uint16_t *slots;
	uint16_t count;
};

enum rf_slot_kind {
	RF_SLOT_NORMAL,
	RF_SLOT_CONTROL,
	RF_SLOT_KINDS,
};

enum rf_client_state {
	RF_CLIENT_AWAY,		/* no connection */
	RF_CLIENT_CONNECTING,
	RF_CLIENT_HELLO,	/* or RESUME: sent, no answer yet */
	RF_CLIENT_RESUMED,	/* only control calls go */
	RF_CLIENT_OPEN,
	RF_CLIENT_LEAVING,	/* BYE is on its way */
	RF_CLIENT_LEFT,		/* BYE was answered */
};

struct rf_client {
	struct rf_client_config config;
	struct rf_client_events events;
	void *context;
	struct rf_ep *ep;
	enum rf_client_state state;
	bool is_closing;
	bool wants_bye;
	bool is_aborted;
	int err;			/* why it is closing, if we know */
	char reason[RF_REASON_MAX + 1];
	char peer[RF_PEER_NAME_SIZE];
	struct rf_timer timer;		/* of set-up, then of BYE */
	uint64_t setup_end_ns;
	uint32_t answer_ms;		/* config's, doubled each time in vain */
	bool is_answer_due;		/* timer is that of answer_ms */
	uint64_t first_sent_ns;		/* HELLO or RESUME */
	struct rf_task end_task;	/* aborted without a connection */

	/* The session, from the first opened() on. */
	bool was_opened;
	bool has_session;		/* else the next one is a new one */
	uint64_t session;
	uint8_t server_uuid[RF_UUID_SIZE];
	uint8_t secret[RF_SECRET_SIZE];
	unsigned int lost_calls;	/* in their slots, to be sent again */
	unsigned int holding;		/* see rf_call.holds_others */
	uint64_t last_sent_ns, own_sent_ns;

	struct rf_hello_limits limits;
	uint64_t features;
	uint32_t epoch;
	uint8_t nonce[RF_NONCE_SIZE];
	uint8_t proof[RF_PROOF_SIZE];

	struct rf_client_recv *recvs;
	unsigned int recv_count;
	struct rf_client_slot *slots;
	struct rf_slot_stack free[RF_SLOT_KINDS];
	struct rf_list waiting[RF_SLOT_KINDS];	/* calls without a slot */
	struct rf_list queued;			/* calls answered QUEUED */
	struct rf_work *batch;			/* send_depth of them */
	unsigned int open_calls;		/* submitted, not done */

	uint32_t msgs_received, msgs_acked;	/* server messages */

	/* Our own call: returns, an acknowledgement alone, BYE. */
	struct rf_call own_call;
	struct rf_op hello_op;
	struct rf_buf *own_buf;		/* also HELLO's */
	bool own_is_busy;		/* the buffer is lent */
	uint32_t returns[RF_CLIENT_RETURNS_MAX];
	unsigned int return_count;

	struct rf_hook hook;		/* while there is something to retry or
					 * to flush at the end of the turn */
	bool is_hooked;
	struct rf_client_stats stats;
};

/* Close because of err; the first reason counts.  Logs what breaks the rules. */
void rf_client_fail(struct rf_client *client, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Have the hook run at the end of this turn. */
void rf_client_hook_on(struct rf_client *client);

int rf_client_post_recv(struct rf_client_recv *recv);
/* To HELLO or RESUME, by whom may be believed. */
void rf_client_was_answered(struct rf_client *client);

void rf_client_init_calls(struct rf_client *client);

/*
 * Send a request without operations, for the returns and the acknowledgement
 * that it carries.  Our own call must not be busy.
 */
void rf_client_send_returns(struct rf_client *client);

/* Give slots to waiting calls and send them. */
void rf_client_pump(struct rf_client *client);

/* A message after HELLO_REPLY. */
void rf_client_take_message(struct rf_client_recv *recv);

/* End all calls; the endpoint has closed. */
void rf_client_end_calls(struct rf_client *client, int err);

/* After a call is done: BYE may be due. */
void rf_client_check_bye(struct rf_client *client);

/* Begin to connect, with all Receives posted.  [rpc_client.c] */
int rf_client_connect(struct rf_client *client);

/* The connection has ended: calls wait for the next one.  [rpc_call.c] */
void rf_client_lose_calls(struct rf_client *client);
/* The session has ended, no connection is there.  [rpc_call.c] */
void rf_client_forget_calls(struct rf_client *client);

/* ---- resuming [rpc_resume.c] ---- */

/* The connection has ended: true if the session may go on (lost() was called). */
bool rf_client_was_lost(struct rf_client *client, int err);
/* Encode RESUME, or HELLO: the size, or a negative errno. */
int rf_client_encode_resume(struct rf_client *client);
void rf_client_take_resume_reply(struct rf_client_recv *recv);
/* A session has begun: remember what the next connection must prove. */
void rf_client_keep_session(struct rf_client *client,
			    const struct rf_hello_reply *reply);
/* The session of config.kept. */
void rf_client_restore_session(struct rf_client *client);
/* The slots of the limits, all of them free. */
void rf_client_make_slots(struct rf_client *client);
/* False, and failed: not the store that we knew. */
bool rf_client_check_store(struct rf_client *client,
			   const uint8_t uuid[RF_UUID_SIZE]);
/* Make the message of a lost call one that can be sent again. */
void rf_call_strip(struct rf_call *call);
/* True if it has an operation that changes something. */
bool rf_call_modifies(const struct rf_call *call);

/* ---- server ---------------------------------------------------------------- */

enum rf_greeter_state {
	RF_GREETER_WAITING,	/* for HELLO */
	RF_GREETER_ASKING,	/* HELLO was shown; not answered */
	RF_GREETER_REFUSING,
	RF_GREETER_ADMITTED,	/* it only carries the channel's connection */
};

struct rf_greeter {
	struct rf_server_config config;
	struct rf_greeter_events events;
	void *context;
	struct rf_ep *ep;
	struct rf_channel *channel;	/* once admitted */
	enum rf_greeter_state state;
	bool is_closing;
	bool is_resume;			/* RESUME came, not HELLO */
	int err;
	struct sockaddr_storage address;
	char peer[RF_PEER_NAME_SIZE];
	uint8_t nonce[RF_NONCE_SIZE];
	struct rf_hello_limits wishes;
	struct rf_timer timer;
	struct rf_op recv_op, send_op;
	struct rf_buf *recv_buf, *send_buf;
};

/* Close, because of err; text: logged with the peer, or NULL. */
void rf_greeter_fail(struct rf_greeter *greeter, int err, const char *text);

struct rf_served;

/* A message to the client: when it may leave, and whether its buffer is lent. */
enum rf_out_state {
	RF_OUT_IDLE,
	RF_OUT_HELD,		/* until rf_channel_flush() */
	RF_OUT_READY,		/* to be posted as soon as there is room */
	RF_OUT_POSTED,
};
struct rf_out {
	struct rf_list link;	/* of held or ready */
	struct rf_op op;
	struct rf_channel *channel;
	struct rf_buf *buf;
	uint32_t size;		/* 0: nothing was ever put here */
	struct rf_served *served;	/* gone when the Send is done; may be
					 * NULL */
	enum rf_out_state state;
};

struct rf_channel_recv {
	struct rf_op op;
	struct rf_channel *channel;
	struct rf_buf *buf;	/* NULL while a request holds it */
};

struct rf_channel_slot {
	uint32_t seq;			/* of the last request begun */
	struct rf_served *running;	/* NULL: answered */
	struct rf_out out;		/* the last answer, and its buffer */
	bool is_fresh;			/* no request since RESUME */
	/* While the answer's Send is not done: */
	struct rf_channel_recv *pending;	/* a new request has come */
	bool wants_replay;			/* a duplicate has come */
};

enum rf_served_state {
	RF_SERVED_FREE,
	RF_SERVED_RUNNING,
	RF_SERVED_QUEUED,
	RF_SERVED_ANSWERED,
};

struct rf_served {
	struct rf_request request;
	struct rf_list link;		/* of the free ones */
	struct rf_channel_recv *recv;	/* to post when answered; NULL if QUEUED */
	struct rf_out finished;
	unsigned int work_count;
	struct rf_work works[RF_ANSWER_WORKS_MAX];
};

struct rf_channel {
	struct rf_server_config config;
	struct rf_channel_events events;
	void *context;
	struct rf_greeter *greeter;	/* NULL once the endpoint has closed */
	bool is_closing;
	bool is_at_fault;		/* the client broke a rule */
	int err;
	char peer[RF_PEER_NAME_SIZE];
	struct rf_hello_limits limits;
	uint32_t epoch;
	struct rf_task free_task;
	bool is_ending;			/* free_task is posted */

	unsigned int slot_count;	/* control slots included */
	struct rf_channel_recv *recvs;	/* slot_count of them */
	struct rf_channel_slot *slots;
	struct rf_served *served;
	unsigned int served_count;
	struct rf_list free_served;
	unsigned int running_count;	/* shown to the server, not answered */
	unsigned int waiting_count;	/* QUEUED, not answered */
	unsigned int ticket_count;	/* the same, until FINISHED's Send is done */
	uint32_t last_ticket;

	struct rf_list held, ready;
	uint32_t msgs_sent, msgs_acked;	/* server messages */
	struct rf_work *batch;		/* send_depth of each */
	struct rf_sge *batch_sges;
	struct rf_hook hook;		/* while ready ones found no room */
	bool is_hooked;
	struct rf_channel_stats stats;
};

/*
 * A channel on the greeter's connection, its Receives posted.  [rpc_channel.c]
 * After an error nothing has changed.
 */
int rf_channel_create(struct rf_greeter *greeter,
		      const struct rf_hello_limits *limits, uint32_t epoch,
		      const struct rf_channel_events *events, void *context,
		      struct rf_channel **out);

/* The greeter's endpoint has closed, all ops are done.  [rpc_channel.c] */
void rf_channel_ep_closed(struct rf_channel *channel, int reason);

/* Close because the client broke a rule.  [rpc_channel.c] */
void rf_channel_fail(struct rf_channel *channel, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

int rf_channel_post_recv(struct rf_channel_recv *recv);	/* [rpc_channel.c] */

/* Begin the request that came after the slot's last answer. [rpc_channel.c] */
void rf_channel_start(struct rf_channel *channel, struct rf_channel_slot *slot,
		      struct rf_channel_recv *recv);

/* End the channel if no request is left.  [rpc_channel.c] */
void rf_channel_check_end(struct rf_channel *channel);

/* [rpc_answer.c] */
void rf_channel_init_outs(struct rf_channel *channel);
void rf_channel_answer_empty(struct rf_channel *channel,
			     struct rf_served *served);
void rf_channel_replay(struct rf_channel *channel,
		       struct rf_channel_slot *slot);
/* Forget what was not posted; the endpoint has closed. */
void rf_channel_drop_outs(struct rf_channel *channel);
void rf_channel_hook_off(struct rf_channel *channel);

#endif /* RF_RPC_IMPL_H */

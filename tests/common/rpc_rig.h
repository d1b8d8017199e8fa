/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc_rig.h - both ends of rpc.h on one reactor and the loop fabric, for tests
 *
 * The rig has a server that echoes and any number of clients and raw
 * endpoints.  Time is the loop world's: rpc_until() turns the reactor, and when
 * nothing is ready moves to the next event or timer.  So a test never waits, and
 * equal seeds give equal runs.
 *
 * The server's operation is READ: args.offset is a tag that comes back as
 * results.version, args.open says what to do (enum rpc_how).  It counts how
 * often each tag was run.
 */
#ifndef RF_TESTS_RPC_RIG_H
#define RF_TESTS_RPC_RIG_H

#include "libproto/loop.h"
#include "libproto/rpc.h"

#include <criterion/criterion.h>

enum {
	RPC_SLOTS = 4,
	RPC_CONTROL_SLOTS = 2,
	RPC_SERVER_MSGS = 4,
	RPC_INLINE_MAX = 1024,
	RPC_MSG_MAX = RPC_INLINE_MAX + RF_MSG_OVERHEAD,
	RPC_BUF_SIZE = 4096,
	RPC_TAGS_MAX = 4096,
	RPC_CHANNELS_MAX = 16,
	RPC_REQUESTS_MAX = 64,
	RPC_SETUP_MS = 1000,
	RPC_EPOCH = 77,
};

/* What the server does with a request. */
enum rpc_how {
	RPC_AT_ONCE,
	RPC_PARK,		/* keep its slot until rpc_release() */
	RPC_QUEUE,		/* QUEUED, finished at rpc_release() */
	RPC_QUEUE_AT_ONCE,	/* QUEUED, finished in the same turn */
};

struct rpc_rig;

struct rpc_channel {
	struct rpc_rig *rig;
	struct rf_greeter *greeter;	/* NULL once admitted or closed */
	struct rf_channel *channel;	/* NULL once freed */
	bool is_closed;			/* of greeter or channel */
	int err;
	unsigned int returned_count;
	uint32_t last_returned;
};

struct rpc_rig {
	struct rf_loop_world *world;	/* NULL on other fabrics */
	struct rf_fabric *fab;
	struct rf_reactor *reactor;

	/* The server. */
	struct rf_pd *server_pd;
	struct rf_poller *server_poller;
	struct rf_pool *server_pool;
	struct rf_mr *server_mr;
	struct rf_listener *listener;
	struct rf_server_config server_config;
	struct rf_hello_limits server_limits;
	struct rf_key server_key;
	struct rf_key reply_key;	/* the same, unless a test says no */
	enum rf_status refuses_with;
	const char *refuses_because;
	bool is_mute;			/* never answers HELLO */
	bool keeps_byes;		/* never answers BYE */
	bool holds_answers;		/* does not flush */
	void (*on_request)(struct rf_request *request);	/* else: the echo */
	struct rpc_channel channels[RPC_CHANNELS_MAX];
	unsigned int channel_count;
	unsigned int accept_errors;
	int last_accept_error;
	struct rf_hook flush_hook;
	struct rf_request *parked[RPC_REQUESTS_MAX];
	unsigned int parked_count;
	unsigned int queue_refused;
	unsigned int runs[RPC_TAGS_MAX];	/* of each tag */
	uint64_t run_order[RPC_TAGS_MAX];
	unsigned int run_count;

	/* The clients. */
	struct rf_pd *client_pd;
	struct rf_poller *client_poller;
	struct rf_pool *client_pool;
	struct rf_mr *client_mr;
	struct sockaddr_storage address;
	socklen_t address_size;
};

/* A client and what it was told. */
struct rpc_client {
	struct rpc_rig *rig;
	struct rf_client *client;	/* NULL once closed */
	unsigned int opened, closed;
	struct rf_hello_reply reply;
	int err;
	char reason[RF_REASON_MAX + 1];
	struct rf_client_config config;
};

/* A call and what came of it. */
struct rpc_call {
	struct rf_call call;
	struct rpc_client *client;
	uint64_t tag;
	unsigned int done, queued;
	int err;
	uint64_t order;			/* among all that were done */
	void (*then)(struct rpc_call *call);
};

void rpc_rig_open(struct rpc_rig *rig, uint64_t seed);

/* On another fabric, in real time: waits are on descriptors. */
void rpc_rig_open_real(struct rpc_rig *rig, const char *uri);

/* Wait for all to close, check that each buffer is back, take all down. */
void rpc_rig_close(struct rpc_rig *rig);

/* One turn, or the next moment in which something happens; false if nothing
 * ever will. */
bool rpc_turn(struct rpc_rig *rig);

#define rpc_until(rig, condition)					\
	do {								\
		while (!(condition))					\
			cr_assert(rpc_turn(rig), "nothing is left to "	\
				  "happen, but not: %s", #condition);	\
	} while (0)

/* Until nothing happens any more. */
void rpc_settle(struct rpc_rig *rig);

/* True if every buffer of both pools is free. */
bool rpc_pools_are_full(const struct rpc_rig *rig);

/* RF_SEED, or one of the time; printed, and given to srand(3). */
unsigned int rpc_seed(void);

/* ---- the server ---------------------------------------------------------- */

void rpc_release(struct rpc_rig *rig, unsigned int index);
void rpc_release_all(struct rpc_rig *rig);
bool rpc_all_freed(const struct rpc_rig *rig);

/* ---- clients ------------------------------------------------------------- */

void rpc_client_init(struct rpc_rig *rig, struct rpc_client *client);
void rpc_client_start(struct rpc_client *client);

/* init, start, and wait until it is open. */
void rpc_client_open(struct rpc_rig *rig, struct rpc_client *client);

/* Get a buffer and encode the request. */
void rpc_call_init(struct rpc_call *call, struct rpc_client *client,
		   uint64_t tag, enum rpc_how how);
void rpc_call_submit(struct rpc_call *call);
/* init and submit. */
void rpc_call_start(struct rpc_call *call, struct rpc_client *client,
		    uint64_t tag, enum rpc_how how);

/* ---- raw endpoints --------------------------------------------------------- */

enum { RPC_RAW_RECVS = 24 };

struct rpc_raw;
struct rpc_raw_recv {
	struct rf_op op;
	struct rpc_raw *raw;
	struct rf_buf *buf;
	struct rf_header header;	/* of what came */
	bool has_come;
};
struct rpc_raw {
	struct rpc_rig *rig;
	struct rf_ep *ep;		/* NULL once closed */
	bool is_server;
	bool is_connected;
	unsigned int closed, rejected;
	int reason;
	struct rf_hello_accept accept;
	struct rpc_raw_recv recvs[RPC_RAW_RECVS];
	unsigned int come;		/* messages received */
	struct rf_buf *send_buf;
	struct rf_op send_op;
	bool is_sending;
	uint8_t proof[RF_PROOF_SIZE];
};

/* Connect with these private data. */
void rpc_raw_connect(struct rpc_rig *rig, struct rpc_raw *raw,
		     const void *data, size_t size);

/* Listen in the server's stead; the next connection is raw's. */
void rpc_raw_listen(struct rpc_rig *rig, struct rpc_raw *raw);

/* Connect, say HELLO, and wait for the answer: a well-behaved beginning. */
void rpc_raw_open(struct rpc_rig *rig, struct rpc_raw *raw);

/* Send bytes and wait until the Send is done. */
void rpc_raw_send(struct rpc_raw *raw, const void *message, size_t size);

/* A REQUEST as rpc_call_init() makes it; its size. */
size_t rpc_raw_request(void *out, uint16_t slot, uint32_t seq, uint64_t tag,
		       enum rpc_how how);

/* Close and wait. */
void rpc_raw_close(struct rpc_raw *raw);

#endif /* RF_TESTS_RPC_RIG_H */

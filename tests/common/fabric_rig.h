/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric_rig.h - two sides of a fabric on one thread, for tests
 *
 * A rig has two nodes: a (which connects) and b (which listens).  Each has a
 * fabric of its own, a domain, a poller and an arena that is one region.  Ends
 * (endpoints with a record of their callbacks) and ops (with a record of their
 * completion) belong to the test; the rig checks at each callback what
 * fabric.h promises always: each op done once, closed() once and last.
 *
 * rig_until() drives both pollers until a condition holds.  On the loop fabric
 * it moves virtual time when nothing is left to run; on others it sleeps on the
 * pollers' descriptors, as rf_poller_arm() allows, and fails the test if the
 * condition does not come true within rig_patience_ms().
 *
 * Which fabrics: RF_CONFORMANCE_FABRICS, a list of "loop", "loop-session"
 * (loop that pretends to have no windows), "iwarp", "iwarp-nocrc" and "verbs";
 * the verbs device comes from RF_CONFORMANCE_VERBS ("verbs://rxe0"), the
 * address to listen on from RF_CONFORMANCE_ADDR ("127.0.0.1:0").  On a slow
 * machine RF_CONFORMANCE_SLOWNESS divides how often tests repeat themselves.
 */
#ifndef RF_TESTS_FABRIC_RIG_H
#define RF_TESTS_FABRIC_RIG_H

#include "libproto/base.h"
#include "libproto/fabric.h"
#include "libproto/loop.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

enum {
	RIG_ARENA_SIZE = 8 << 20,
	RIG_ARENA_ALIGN = 2 << 20,
	RIG_PATIENCE_MS = 20000,
	RIG_SLOW_PATIENCE_MS = 200000,
	RIG_HELLO_MAX = 512,
	RIG_INCOMING_MAX = 512,
	RIG_FABRICS_MAX = 8,
	RIG_TEST_TIMEOUT_S = 300,
};

/* The parameter of a conformance test. */
struct rig_fabric {
	char name[24];
	char uri[64];
	bool is_loop, is_session;
};

#define RIG_KIB(n) ((uint32_t)(n) << 10)
#define RIG_MIB(n) ((uint32_t)(n) << 20)

struct criterion_test_params rig_fabrics(void);

/* How often to do something: count, or less on a slow machine; at least 1. */
unsigned int rig_times(unsigned int count);

/* How long what should come soon may take: longer where all is slow. */
int rig_patience_ms(void);

/* One test, run on each fabric chosen; its parameter is called "fabric". */
#define CONFORMANCE_TEST(suite, name)					\
	ParameterizedTestParameters(suite, name)			\
	{								\
		return rig_fabrics();					\
	}								\
	ParameterizedTest(struct rig_fabric *fabric, suite, name,	\
			  .timeout = RIG_TEST_TIMEOUT_S)

struct rig;
struct rig_end;

struct rig_node {
	struct rig *rig;
	struct rf_fabric *fab;
	struct rf_pd *pd;
	struct rf_poller *poller;
	void *map;		/* that arena is in */
	unsigned char *arena;
	struct rf_mr *mr;	/* arena: lands Receives and Reads, has windows
				 * bound over it; no remote right of its own */
};

struct rig_op {
	struct rf_op op;
	struct rig_end *end;	/* that it is lent to */
	unsigned int done_count;
	int status;
	uint32_t size, inv_key;
	unsigned int order;	/* among all callbacks of the rig, from 1 */
	void (*then)(struct rig_op *op);
	void *context;
};

struct rig_end {
	struct rf_list link;	/* of the rig, while open */
	struct rig_node *node;
	struct rf_ep *ep;	/* NULL once closed */
	struct rf_ep_config config;

	/* For accept: our answer, and Receives to post before it. */
	const void *hello;
	size_t hello_size;
	const struct rf_recv *recvs;
	unsigned int recv_count;

	unsigned int ops_lent;
	unsigned int connected, closed, rejected;	/* how many times */
	unsigned int connected_order, closed_order;
	int reason;
	unsigned char hello_in[RIG_HELLO_MAX];
	size_t hello_in_size;

	/* Called after the record was made; may be NULL. */
	void (*on_connected)(struct rig_end *end);
	void (*on_closed)(struct rig_end *end);
	void *context;
};

struct rig {
	const struct rig_fabric *fabric;
	struct rf_loop_world *world;	/* NULL unless loop */
	struct rig_node a, b;
	struct rf_poller *extra;		/* driven too, if not NULL */
	struct rf_listener *listener;
	struct sockaddr_storage address;	/* of the listener */
	socklen_t address_size;
	struct rf_list ends;
	unsigned int order;
	uint64_t deadline_ns;

	/* Requests: taken by the next end in line, else kept. */
	struct rig_end *accepts_with;
	void (*on_request)(struct rig *rig, struct rf_incoming *incoming);
	struct rf_incoming *incoming[RIG_INCOMING_MAX];
	unsigned int incoming_count;
	unsigned char hello_in[RIG_HELLO_MAX];	/* of the last request */
	size_t hello_in_size;
};

/* ---- life ---------------------------------------------------------------- */

void rig_open(struct rig *rig, const struct rig_fabric *fabric);

/* Closes what is open, waits for it, and takes everything down. */
void rig_close(struct rig *rig);

/* An address as in RF_CONFORMANCE_ADDR. */
socklen_t rig_parse_address(const char *text, struct sockaddr_storage *out);
void rig_listen(struct rig *rig);
void rig_listen_at(struct rig *rig, const char *text);

/* Run the pollers once; else step or sleep. */
void rig_turn(struct rig *rig, const char *what);
void rig_start_waiting(struct rig *rig);

#define rig_until(rig, condition)					\
	do {								\
		rig_start_waiting(rig);					\
		while (!(condition))					\
			rig_turn(rig, #condition);			\
	} while (0)

/* Run until nothing is ready any more; on loop, until nothing will be. */
void rig_settle(struct rig *rig);

/* ---- ends ---------------------------------------------------------------- */

/* Zeroes the end and gives it a usual configuration. */
void rig_end_init(struct rig_end *end, struct rig_node *node);
extern const struct rf_ep_events rig_events;

/* Start connecting to the listener; hello and config are the end's. */
int rig_end_connect(struct rig *rig, struct rig_end *end);
int rig_end_accept(struct rig_end *end, struct rf_incoming *incoming);

/* Connect client to server, wait for both, and let the client say its first
 * word, so that both may do anything. */
void rig_join(struct rig *rig, struct rig_end *client, struct rig_end *server);

/* The same without rig_end_init() and without the first word. */
void rig_join_quietly(struct rig *rig, struct rig_end *client,
		      struct rig_end *server);

/* Close one side in order and wait for both. */
void rig_part(struct rig *rig, struct rig_end *client, struct rig_end *server);

/* ---- ops ----------------------------------------------------------------- */

void rig_op_init(struct rig_op *op, struct rig_end *end);

struct rf_sge rig_sge(struct rig_end *end, size_t offset, uint32_t size);

/* Send, Write or Read; what else the work needs is set by the caller. */
struct rf_work rig_work(enum rf_opcode code, struct rig_op *op,
			const struct rf_sge *sge, unsigned int sge_count);

int rig_post(struct rig_end *end, const struct rf_work *works,
	     unsigned int count);
int rig_recv(struct rig_end *end, struct rig_op *op, size_t offset,
	     uint32_t size);

/* One work with one piece; a NULL op is an unsignalled one. */
int rig_send(struct rig_end *end, struct rig_op *op, size_t offset,
	     uint32_t size);
int rig_send_inv(struct rig_end *end, struct rig_op *op, size_t offset,
		 uint32_t size, uint32_t key);
int rig_write(struct rig_end *end, struct rig_op *op, size_t offset,
	      struct rf_remote remote);
int rig_read(struct rig_end *end, struct rig_op *op, size_t offset,
	     struct rf_remote remote);

/* Send a message over and wait until both ops are done well. */
void rig_exchange(struct rig *rig, struct rig_end *from, struct rig_end *to);

/* ---- memory -------------------------------------------------------------- */

void rig_fill(struct rig_node *node, size_t offset, size_t size, uint32_t seed);
bool rig_holds(const struct rig_node *node, size_t offset, size_t size,
	       uint32_t seed);

/*
 * A right on part of owner's arena, for owner's peer: a bound window, or at
 * session level a region of its own.
 */
struct rig_grant {
	struct rig_end *owner;
	struct rf_remote remote;
	struct rf_window *window;
	struct rf_mr *mr;
};
void rig_grant_open(struct rig *rig, struct rig_grant *grant,
		    struct rig_end *owner, size_t offset, uint32_t size,
		    unsigned int access);

/* Post an RF_UNBIND of a grant that is a window. */
int rig_unbind(struct rig_grant *grant, struct rig_op *op);

/* Windows: after unbind, invalidate or closed().  Regions: any time. */
void rig_grant_close(struct rig_grant *grant);

#endif /* RF_TESTS_FABRIC_RIG_H */

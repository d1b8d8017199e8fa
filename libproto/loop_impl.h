/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_impl.h - what the files of the loop fabric share; see loop.h
 *
 *	loop_world.c	time, chance, faults
 *	loop_mem.c	fabrics, domains, regions, windows, keys and rights
 *	loop_poller.c	what is ready to run, and running it
 *	loop_conn.c	listening, connecting, the end of a connection
 *	loop_work.c	posted work, from its start to its completion
 */
#ifndef RF_LOOP_IMPL_H
#define RF_LOOP_IMPL_H

#include "base.h"
#include "fabric_impl.h"
#include "loop.h"

enum {
	LOOP_NAME_MAX = 63,
	LOOP_HELLO_MAX = 512,	/* as MPA (RFC 5044) has it */
	LOOP_SGE_MAX = 16,
	LOOP_RULES_MAX = 64,
	LOOP_BACKLOG_MAX = 1024,	/* requests that wait at a listener */
	LOOP_KEYS_MAX = 1 << 20,
	LOOP_SCRIBBLE = 0xdb,
};

/* ---- world --------------------------------------------------------------- */

struct loop_event {
	uint64_t due_ns;
	uint64_t seq;		/* orders events of the same time */
	size_t place;		/* 1 + index in the heap; 0: not scheduled */
	void (*fire)(struct loop_event *event);
};

/* What holds between two hosts, in one direction. */
struct loop_rule {
	struct sockaddr_storage from, to;	/* family 0: any */
	uint64_t extra_ns;
	bool is_blocked;
};

/* A key's index names its slot in the world's table. */
struct loop_key {
	struct loop_mr *mr;		/* one of the two, or free */
	struct loop_window *window;
	uint8_t generation;		/* survives the owner */
	uint32_t next_free;
};

/* Of calls of one kind: let after pass, fail count. */
struct loop_failures {
	unsigned int after, count;
};

struct rf_loop_world {
	struct rf_list link;		/* all worlds */
	char name[LOOP_NAME_MAX + 1];
	unsigned int users;
	pthread_t owner;
	bool owner_is_known;

	uint64_t now_ns, next_seq, next_stamp;
	uint64_t chance, digest;
	struct loop_event **heap;
	size_t heap_count, heap_room;

	uint64_t latency_min_ns, latency_max_ns;
	enum rf_level level;
	struct rf_limits limits;
	bool reorders, steps_alone, refuses, scribbles;
	struct loop_failures mr_failures, recv_failures;
	struct loop_rule rules[LOOP_RULES_MAX];
	unsigned int rule_count;

	struct rf_list eps, listeners;
	uint32_t next_ep_id;
	uint16_t next_port;
	struct loop_key *keys;
	uint32_t key_count, key_room, key_free;
};

void loop_check_thread(struct rf_loop_world *world);
uint64_t loop_chance(struct rf_loop_world *world, uint64_t bound);
/* True if this call is one of those that are to fail. */
bool loop_fails(struct loop_failures *failures);
void loop_digest(struct rf_loop_world *world, uint64_t word);
void loop_schedule(struct rf_loop_world *world, struct loop_event *event,
		   uint64_t due_ns);
void loop_cancel(struct rf_loop_world *world, struct loop_event *event);

/* How long a message that starts now is on its way. */
uint64_t loop_latency_ns(struct rf_loop_world *world,
			 const struct sockaddr_storage *from,
			 const struct sockaddr_storage *to);
bool loop_is_blocked(const struct rf_loop_world *world,
		     const struct sockaddr_storage *from,
		     const struct sockaddr_storage *to);

bool loop_same_host(const struct sockaddr_storage *a,
		    const struct sockaddr_storage *b);
uint16_t loop_port(const struct sockaddr_storage *addr);
void loop_set_port(struct sockaddr_storage *addr, uint16_t port);
bool loop_is_wildcard(const struct sockaddr_storage *addr);
int loop_copy_address(struct sockaddr_storage *to, const struct sockaddr *from,
		      socklen_t size);

/* ---- memory -------------------------------------------------------------- */

struct loop_fabric {
	struct rf_fabric base;
	struct rf_loop_world *world;
	struct sockaddr_storage host;		/* family 0: none */
	struct rf_fabric_stats stats;
	unsigned int users;			/* domains and pollers */
};

struct loop_pd {
	struct rf_pd base;
	unsigned int users;
};

struct loop_mr {
	struct rf_mr base;
	uint32_t key_index;	/* 0: no remote right */
	unsigned int users;	/* pieces of posted ops, and bound windows */
};

struct loop_window {
	struct rf_window base;
	uint32_t key_index;
	struct rf_list link;	/* on its endpoint, from bind to free */
	bool is_live;		/* what the "hardware" thinks; base.state is
				 * what the owner was told */
};

static inline struct loop_fabric *loop_fabric(const struct rf_fabric *fab)
{
	return rf_container_of(fab, struct loop_fabric, base);
}

struct loop_ep;

/* Find why ep's peer may not do this to our memory: 0 or -EACCES. */
int loop_check_access(const struct loop_ep *ep, const struct rf_remote *remote,
		      unsigned int right);

/* The window bound on ep under that key, or NULL; find: if it is live. */
struct loop_window *loop_window_of_key(const struct loop_ep *ep, uint32_t key);
struct loop_window *loop_find_window(const struct loop_ep *ep, uint32_t key);

/* The window goes back to its owner. */
void loop_window_free(struct loop_window *window);

int loop_mem_open(const char *rest, struct rf_fabric **out);
void loop_mem_close(struct rf_fabric *fab);
void loop_mem_stats(const struct rf_fabric *fab, struct rf_fabric_stats *out);
int loop_pd_create(struct rf_fabric *fab, struct rf_pd **out);
void loop_pd_destroy(struct rf_pd *pd);
int loop_mr_register(struct rf_pd *pd, void *base, size_t size,
		     unsigned int access, struct rf_mr **out);
void loop_mr_deregister(struct rf_mr *mr);
int loop_window_create(struct rf_pd *pd, struct rf_window **out);
void loop_window_destroy(struct rf_window *window);
uint32_t loop_window_next_key(struct rf_window *window);

/* ---- poller -------------------------------------------------------------- */

/* Something that a poller may have to run: an endpoint or a listener. */
struct loop_source {
	struct rf_list link;	/* on the poller's ready list, or empty */
	bool is_listener;
};

struct loop_poller {
	struct rf_poller base;
	int fd;
	bool fd_is_set;
	struct rf_list ready;
	unsigned int ready_count;
	unsigned int users;	/* endpoints and listeners */
	uint32_t ops_posted;
};

/* Put the source on or off the ready list. */
void loop_source_set(struct loop_poller *poller, struct loop_source *source,
		     bool is_ready);

int loop_poller_create(struct rf_fabric *fab, uint32_t ops_max,
		       struct rf_poller **out);
void loop_poller_destroy(struct rf_poller *poller);
unsigned int loop_poller_run(struct rf_poller *poller, unsigned int budget);
int loop_poller_fd(const struct rf_poller *poller);
int loop_poller_arm(struct rf_poller *poller);

/* ---- connections --------------------------------------------------------- */

struct loop_listener {
	struct rf_listener base;
	struct loop_source source;
	struct rf_list link;		/* world's */
	struct sockaddr_storage address;
	rf_request_fn on_request;
	void *context;
	struct rf_list arrived;		/* incoming, not yet told */
	struct rf_list told;		/* the user has to answer */
	unsigned int incoming_count;
};

struct loop_incoming {
	struct rf_incoming base;
	struct rf_list link;
	struct loop_ep *ep;		/* who asks; NULL once it gave up */
	struct sockaddr_storage peer, local;
	size_t hello_size;
	unsigned char hello[LOOP_HELLO_MAX];
};

/* Posted work; in the ring of its endpoint. */
struct loop_work {
	enum rf_opcode code;
	unsigned int flags;
	struct rf_op *op;
	struct rf_sge sge[LOOP_SGE_MAX];
	unsigned int sge_count;
	uint32_t size;
	struct rf_remote remote;
	uint32_t key;			/* to be invalidated, either side */
	struct loop_window *window;

	struct loop_work *next;		/* in its lane */
	uint64_t due_ns;
	bool is_done;
	int status;
	uint64_t stamp;			/* when it became ready to tell */
};

struct loop_recv {
	struct rf_recv recv;
	uint32_t size, inv_key;
	int status;
	uint64_t stamp;
};

/* Works on their way, first in first out, each with its time. */
struct loop_lane {
	struct loop_event event;
	struct loop_ep *ep;
	struct loop_work *head, *tail;
	uint64_t last_due_ns;
	bool is_outward, is_local;	/* which way must be open */
	void (*take)(struct loop_ep *ep, struct loop_work *work);
};

/* A ring counts up for ever: head <= ready or started <= tail. */
struct loop_ep {
	struct rf_ep base;
	struct loop_source source;
	struct rf_list link;		/* world's */
	struct rf_loop_world *world;
	struct loop_ep *peer;		/* NULL: not yet, or gone */
	struct loop_incoming *incoming;	/* our request, at the listener */
	uint32_t id;
	struct sockaddr_storage local, remote;

	bool is_passive;		/* we accepted */
	bool has_heard;			/* the peer's first message arrived */
	bool is_open;			/* messages may arrive */
	bool is_severed, is_held;
	bool tells_connected, tells_rejected;	/* callbacks to come */
	int reason;			/* of closed() */

	size_t hello_size;
	unsigned char hello[LOOP_HELLO_MAX];

	/* Notices on their way to us; pending ones wait while blocked. */
	struct loop_event request;	/* on its way to the listener */
	struct loop_event answer, goodbye, setup, keepalive;
	bool request_is_pending, answer_is_pending, goodbye_is_pending;
	int answer_status;		/* 0: accepted */
	bool answer_is_reject;
	int goodbye_reason;

	struct loop_lane arrive;	/* to the peer */
	struct loop_lane ack;		/* back from the peer */
	struct loop_lane read;		/* a Read's data, back from the peer */
	struct loop_lane unbind;	/* here */

	struct loop_work *works;
	uint64_t work_head, work_retired, work_started, work_tail;
	unsigned int works_to_tell;
	unsigned int reads_started;

	struct loop_recv *recvs;
	uint64_t recv_head, recv_filled, recv_tail;

	struct rf_list windows;
};

static inline struct loop_ep *loop_ep(const struct rf_ep *ep)
{
	return rf_container_of(ep, struct loop_ep, base);
}

static inline struct loop_poller *loop_poller(const struct rf_poller *poller)
{
	return rf_container_of(poller, struct loop_poller, base);
}

static inline struct loop_fabric *loop_ep_fabric(const struct loop_ep *ep)
{
	return loop_fabric(ep->base.poller->fab);
}

/* End our side now, and let the peer know with peer_reason. */
void loop_ep_end(struct loop_ep *ep, int reason, int peer_reason);
void loop_ep_cut(struct loop_ep *ep, enum rf_loop_cut how);

/* After a change of the rules: wait, go on, or count towards a time-out. */
void loop_ep_path_changed(struct loop_ep *ep);
bool loop_ep_way_is_open(const struct loop_ep *ep, bool is_outward);

/* Look again whether the poller has something to run from it. */
void loop_ep_update(struct loop_ep *ep);

/* Run one callback; ep may be gone afterwards. */
void loop_ep_tell(struct loop_ep *ep);
void loop_listener_tell(struct loop_listener *listener);

int loop_listener_open(struct rf_poller *poller, const struct sockaddr *addr,
		       socklen_t addr_size, rf_request_fn on_request,
		       void *context, struct rf_listener **out);
int loop_listener_address(const struct rf_listener *listener,
			  struct sockaddr_storage *out);
void loop_listener_close(struct rf_listener *listener);
int loop_incoming_peer(const struct rf_incoming *incoming,
		       struct sockaddr_storage *out);
int loop_connect(struct rf_poller *poller, const struct sockaddr *addr,
		 socklen_t addr_size, const void *hello, size_t hello_size,
		 const struct rf_ep_config *config,
		 const struct rf_ep_events *events, void *context,
		 struct rf_ep **out);
int loop_accept(struct rf_incoming *incoming, struct rf_poller *poller,
		const void *hello, size_t hello_size,
		const struct rf_ep_config *config,
		const struct rf_ep_events *events, void *context,
		const struct rf_recv *recvs, unsigned int recv_count,
		struct rf_ep **out);
void loop_reject(struct rf_incoming *incoming, const void *hello,
		 size_t hello_size);
void loop_close(struct rf_ep *ep);
int loop_addresses(const struct rf_ep *ep, struct sockaddr_storage *local,
		   struct sockaddr_storage *peer);

/* ---- work ---------------------------------------------------------------- */

int loop_post(struct rf_ep *ep, const struct rf_work *works,
	      unsigned int count);
int loop_post_recv(struct rf_ep *ep, const struct rf_recv *recv);

void loop_lanes_init(struct loop_ep *ep);
void loop_lanes_stop(struct loop_ep *ep);
void loop_lanes_resume(struct loop_ep *ep);

/* Start what may start. */
void loop_work_start(struct loop_ep *ep);

/* Everything not done becomes done, cancelled. */
void loop_work_flush(struct loop_ep *ep);

/* True while done() of some op is due; tell runs one. */
bool loop_work_has_done(const struct loop_ep *ep);
void loop_work_tell(struct loop_ep *ep);

/* At the end: take back what has no op to tell. */
void loop_work_return_rest(struct loop_ep *ep);

#endif /* RF_LOOP_IMPL_H */

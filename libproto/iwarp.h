/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iwarp.h - the iWARP fabric's own structures; only iwarp_*.c include it
 *
 *	iwarp_wire.c	headers as bytes				pure
 *	iwarp_keys.c	the table of keys (STags) that peers may name
 *	iwarp_fabric.c	fabric, domains, regions, windows, statistics
 *	iwarp_poller.c	epoll, deadlines, what runs next
 *	iwarp_listen.c	listeners, and requests until they are accepted
 *	iwarp_ep.c	an endpoint's life: connect, accept, end, linger
 *	iwarp_post.c	works and Receives into their rings, and done
 *	iwarp_tx.c	works and responses to segments, one sendmsg for many
 *	iwarp_rx.c	bytes to checked segments, landed where they belong
 *	iwarp_term.c	Terminate messages, and what they mean
 *
 * Threads.  Everything below an iw_poller belongs to its owner.  The key table
 * and the fabric's lists are shared: the table is read without a lock (see
 * iwarp_keys.c), the lists under iw_fabric.lock.
 */
#ifndef RF_IWARP_H
#define RF_IWARP_H

#include "base.h"
#include "fabric_impl.h"
#include "iwarp_wire.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>

enum {
	IW_MSG_SIZE_MAX = 1 << 20,
	IW_RDMA_SIZE_MAX = 1 << 30,
	IW_HELLO_SIZE_MAX = 56,	/* as InfiniBand: the same on every fabric */
	IW_SGE_MAX = 16,
	IW_READS_MAX = 128,
	/* Four segments and a bit, where 64 KiB are one and a tail of 4 KiB.
	 * Measured: a mount reads 1.2 times as fast as with those. */
	IW_READ_BLOCK = 256 * 1024,
	IW_DEPTH_MAX = 4096,

	/*
	 * Payload of a full segment: 15 pages.  The ULPDU length has 16 bits
	 * and counts headers, so 16 pages don't fit; whole pages keep the
	 * copies aligned at both ends.
	 */
	IW_SEGMENT_SIZE = 15 * 4096,

	/* One sendmsg: about what a loopback socket takes in one go. */
	IW_BATCH_SEGMENTS = 64,
	IW_BATCH_IOV = 256,
	IW_BATCH_SIZE_MAX = 1 << 20,
	IW_BATCH_SIZE_MIN = 1 << 16,

	/*
	 * One recv when the next header is not known yet: an inline message of
	 * 4 KiB and its headers come in one call; more would be copied twice.
	 */
	IW_STAGE_SIZE = 8192,
	/* What is read behind the last segment of a message: its successor. */
	IW_READ_AHEAD = 1024,

	/* Calls on one endpoint before the others have their turn. */
	IW_RX_ROUNDS = 32,
	IW_TX_ROUNDS = 8,

	IW_EVENTS = 64,		/* taken from epoll at once */
	IW_ACCEPTS = 16,	/* from one listener before the others' turn */
	IW_BACKLOG = 1024,
	/* Up to this many sockets, try recv on the last active one first. */
	IW_DIRECT_SOURCES = 4,
	IW_DIRECT_RUNS = 16,	/* before epoll is asked again */

	/* TCP connections that have not sent a whole MPA request. */
	IW_HALF_OPEN_MAX = 1024,
	IW_HALF_OPEN_MS = 5000,
	IW_ACCEPT_RETRY_MS = 100,	/* out of descriptors: try again */
	/* Closed endpoints whose last bytes are still under way. */
	IW_LINGER_MAX = 1024,
	IW_LINGER_MS = 1000,
};
_Static_assert((int)IW_UNTAGGED_SIZE + IW_SEGMENT_SIZE <= 65535,
	       "the ULPDU length has 16 bits");
_Static_assert(IW_STAGE_SIZE >= (int)IW_MPA_FRAME_MAX,
	       "an MPA reply lands there");
_Static_assert(IW_STAGE_SIZE >= 2 * (int)IW_CONTROL_MAX,
	       "so do control segments");

struct iw_ep;

/* ---- keys -------------------------------------------------------------- */

enum iw_key_kind {
	IW_KEY_NONE,
	IW_KEY_REGION,
	IW_KEY_WINDOW,
};

/* One slot of the table.  Never freed before the fabric is. */
struct iw_key {
	_Atomic uint32_t live;	/* the key that is valid now, or 0 */
	_Atomic uint32_t kind;
	_Atomic uint32_t users;	/* of a region: accesses under way */
	_Atomic(const void *) owner;	/* region: rf_pd, window: iw_ep */
	uint32_t index;
	uint8_t generation;
	unsigned int access;
	uint64_t base, size;
	struct iw_window *window;
	struct iw_key *next_free;
};

enum {
	IW_KEYS_PER_CHUNK = 1024,
	IW_KEY_CHUNKS = 1024,	/* a million keys; the index has 24 bits */
};

struct iw_keys {
	pthread_mutex_t lock;	/* alloc and free */
	_Atomic(struct iw_key *) chunks[IW_KEY_CHUNKS];
	uint32_t chunk_count;
	struct iw_key *free_first, *free_last;	/* oldest first */
};

/*
 * Sinks of our own Reads have keys that are in no table: this bit and the
 * number of the Read.  No index of the table reaches it.
 */
#define IW_SINK_KEY 0x80000000u
_Static_assert((uint64_t)IW_KEYS_PER_CHUNK * IW_KEY_CHUNKS * 256 < IW_SINK_KEY,
	       "sink keys would meet table keys");

void iw_keys_init(struct iw_keys *keys);
void iw_keys_fini(struct iw_keys *keys);
int iw_key_alloc(struct iw_keys *keys, struct iw_key **out);
void iw_key_free(struct iw_keys *keys, struct iw_key *key);
uint32_t iw_key_next(struct iw_key *key);

/* Make it valid.  base, size and access were set before. */
void iw_key_arm(struct iw_key *key, enum iw_key_kind kind, const void *owner,
		uint32_t value);

/* Kill it; of a region, wait until no access is under way.  [blocks] */
void iw_key_kill(struct iw_key *key);

struct iw_key *iw_key_find(const struct iw_keys *keys, uint32_t stag);

/*
 * May ep's peer do this to [offset, offset + size)?  0 or an iw_error of the
 * RDMAP layer.  On 0 *out is held: nothing withdraws the memory before
 * iw_key_release().  Hold only across one system call.
 */
enum iw_error iw_key_hold(const struct iw_keys *keys, const struct iw_ep *ep,
			  uint32_t stag, unsigned int access, uint64_t offset,
			  uint64_t size, struct iw_key **out);
void iw_key_release(struct iw_key *key);

/* ---- fabric, domains, regions, windows --------------------------------- */

/* Written by one thread, read by any. */
struct iw_stats {
	_Atomic uint64_t binds, invalidates;
	_Atomic uint64_t sends, recvs, reads, writes;
	_Atomic uint64_t send_bytes, recv_bytes, read_bytes, write_bytes;
	_Atomic uint64_t reads_served, read_bytes_served;
	_Atomic uint64_t writes_landed, write_bytes_landed;
	_Atomic uint64_t rights_refused;
	_Atomic uint64_t connects, accepts, rejects, closes;
	_Atomic uint64_t retransmissions;
};

static inline void iw_count(_Atomic uint64_t *counter, uint64_t add)
{
	uint64_t v = atomic_load_explicit(counter, memory_order_relaxed);

	atomic_store_explicit(counter, v + add, memory_order_relaxed);
}

struct iw_fabric {
	struct rf_fabric base;
	bool wants_crc;
	struct iw_keys keys;
	pthread_mutex_t lock;		/* pollers, their eps, gone */
	struct rf_list pollers;
	struct rf_fabric_stats gone;	/* of destroyed pollers */
	_Atomic uint64_t registrations, deregistrations;
	_Atomic uint32_t pd_count, mr_count;
};

struct iw_mr {
	struct rf_mr base;
	struct iw_key *key;	/* NULL without a remote right */
};

struct iw_window {
	struct rf_window base;
	struct iw_key *key;
	struct rf_list bound;	/* in iw_ep.windows while armed */
};

/* Of a socket that will connect or listen; what it accepts inherits it. */
void iw_set_traffic_class(const struct iw_fabric *fab, int fd, int family);

/* ---- poller ------------------------------------------------------------ */

enum iw_kind {
	IW_LISTENER,
	IW_INCOMING,
	IW_EP,
};

/* What epoll and the deadlines point to. */
struct iw_source {
	enum iw_kind kind;
	int fd;			/* -1 when closed */
	uint32_t events;	/* that epoll watches for; 0: not in it */
	uint64_t deadline_ns;
	struct rf_list deadline;
	struct rf_list grave;	/* freed at the end of the run */
};

/* Where transmission stands; copied, tried, and kept if it was sent. */
struct iw_cursor {
	uint32_t next_work;	/* the first work not wholly sent */
	uint32_t next_response;
	uint32_t send_msn;
	uint32_t reads_issued;
	uint64_t offset;	/* bytes of the current message that are sent */
	uint32_t piece;		/* the same as a place in the work's pieces */
	uint32_t piece_offset;
	enum { IW_NOTHING, IW_WORK, IW_RESPONSE } current;
	bool response_was_last;	/* so that works have the next turn */
};

struct iw_segment {
	struct iw_cursor after;
	size_t end;		/* bytes of the batch up to here */
	uint32_t source_key;	/* of a response, else 0 */
};

/* What one sendmsg takes; scratch, empty between calls. */
struct iw_batch {
	struct iovec iov[IW_BATCH_IOV];
	struct iw_segment segments[IW_BATCH_SEGMENTS];
	struct iw_key *held[IW_BATCH_SEGMENTS];
	uint8_t small[IW_BATCH_SEGMENTS *
		      (IW_HEAD_MAX + IW_READ_REQUEST_SIZE + IW_TAIL_MAX)];
	unsigned int iov_count, segment_count, held_count;
	size_t small_size, size;
};

struct iw_poller {
	struct rf_poller base;
	struct rf_list in_fabric;
	int epoll_fd;
	unsigned int source_count;
	unsigned int budget;
	unsigned int callbacks;		/* in this run */
	struct rf_list eps;		/* all open ones; fabric's lock */
	struct rf_list ready;		/* done() or connected() to call, or
					 * bytes to look at */
	struct rf_list flush;		/* something to send */
	struct rf_list doomed;		/* closed() to call */
	struct rf_list deadlines;	/* earliest first */
	struct rf_list graves;
	struct rf_list half_open;	/* oldest first */
	unsigned int half_open_count;
	struct rf_list lingering;	/* oldest first */
	unsigned int linger_count;
	struct iw_ep *last_active;	/* had bytes in the last run */
	unsigned int direct_runs;	/* since epoll was asked */
	bool is_drained;	/* the last run left nothing behind */
	struct iw_stats stats;
	struct iw_batch batch;
};

struct iw_listener {
	struct rf_listener base;
	struct iw_source source;
	rf_request_fn on_request;
	void *context;
	struct rf_list incomings;
	bool is_closed;
};

struct iw_incoming {
	struct rf_incoming base;
	struct iw_source source;
	struct rf_list in_listener;
	struct rf_list half_open;
	bool is_asking;		/* on_request() was called */
	struct iw_mpa request;
	size_t have;
	uint8_t frame[IW_MPA_FRAME_MAX];
};

/* ---- endpoint ---------------------------------------------------------- */

enum iw_ep_state {
	IW_EP_CONNECTING,	/* TCP */
	IW_EP_ASKING,		/* MPA request sent or being sent */
	IW_EP_OPEN,
	IW_EP_DOOMED,		/* closed() to come */
	IW_EP_LINGERING,	/* closed() was called */
	IW_EP_DEAD,
};

struct iw_work {
	enum rf_opcode code;
	unsigned int flags;
	struct rf_op *op;
	struct rf_remote remote;
	uint32_t key;		/* SEND_INV: to invalidate.  BIND, UNBIND */
	uint32_t size;
	struct iw_window *window;
	uint16_t piece_count;
	bool is_finished;	/* done(0) may be called */
	bool is_refused;	/* by the peer */
	struct iovec pieces[IW_SGE_MAX];
};

struct iw_recv {
	struct rf_op *op;
	uint8_t *addr;
	uint32_t size;
};

/* A Read of the peer that waits for its turn, or is being served. */
struct iw_response {
	struct iw_read_request request;
	uint32_t msn;
};

enum iw_rx_state {
	IW_RX_HEAD,
	IW_RX_PAYLOAD,
	IW_RX_TAIL,
};

struct iw_rx {
	enum iw_rx_state state;
	uint32_t begin, end;	/* what stage holds */
	struct iw_head head;	/* of the current segment */
	uint8_t raw[IW_HEAD_MAX];	/* the same as it came */
	uint32_t crc;
	uint32_t left;		/* payload bytes still to land */
	uint8_t *target;	/* Write and Send: where the next one goes */
	uint32_t piece, piece_offset;	/* Read: the same */
	uint32_t send_msn, send_size;	/* the Send that is coming in */
	uint32_t request_msn;
	uint32_t read_size;	/* landed, of the oldest Read */
	bool had_segment;
	uint8_t stage[IW_STAGE_SIZE];
};

/* A segment of which the socket took only the beginning. */
struct iw_partial {
	struct iovec iov[IW_SGE_MAX + 2];
	unsigned int iov_count;
	size_t size;		/* left */
	uint32_t source_key;	/* of a window that it reads, else 0 */
	struct iw_work *work;	/* that it finishes, or NULL */
	uint8_t small[IW_HEAD_MAX + IW_READ_REQUEST_SIZE + IW_TAIL_MAX];
	size_t small_size;
};

struct iw_ep {
	struct rf_ep base;
	struct iw_source source;
	enum iw_ep_state state;
	int reason;		/* for closed() */
	bool is_accepting;	/* we are the side that answered */
	bool uses_crc;
	bool connected_is_due;	/* connected() to call */
	bool tx_is_open;	/* we may send FPDUs */
	bool tx_is_blocked;	/* until EPOLLOUT */
	bool tx_is_broken;	/* the socket refused; rx finds out why */
	bool rx_is_due;		/* stage may hold whole segments */
	bool rx_at_end;		/* the peer sends nothing more */
	uint8_t rtr;		/* what the peer may announce itself with */
	struct rf_list in_poller, ready, flush, doomed, linger;
	struct rf_list windows;	/* bound ones */

	/* Our MPA frame until it is sent. */
	uint8_t setup[IW_MPA_HEAD_SIZE + IW_MPA_DEPTHS_SIZE +
		      IW_HELLO_SIZE_MAX];
	size_t setup_size, setup_sent;
	/* The peer's, until connected() or rejected(). */
	uint8_t hello[IW_MPA_PRIVATE_MAX];
	size_t hello_size;
	bool was_rejected;
	bool recv_was_short;	/* the oldest Receive ends with -EMSGSIZE */

	/* Absolute numbers; the place in the ring is number & mask. */
	struct iw_work *works;
	uint32_t works_mask, work_head, work_tail;
	struct iw_recv *recvs;
	uint32_t recvs_mask, recv_head, recv_tail;
	uint32_t *reads;	/* number of a Read -> number of its work */
	uint32_t reads_mask, reads_landed, ord;
	struct iw_response *responses;
	uint32_t responses_mask, response_tail, ird;

	struct iw_cursor cursor;
	size_t batch_size;	/* what the socket takes at once, learnt */
	struct iw_partial partial;
	/* Last words; holds one segment and a Terminate.  Mostly untouched. */
	uint8_t *bounce;
	size_t bounce_size, bounce_sent;
	uint8_t terminate[IW_CONTROL_MAX];
	size_t terminate_size;

	struct iw_rx rx;
};

static inline struct iw_fabric *iw_poller_fabric(const struct iw_poller *poller)
{
	return (struct iw_fabric *)poller->base.fab;
}

static inline struct iw_poller *iw_ep_poller(const struct iw_ep *ep)
{
	return (struct iw_poller *)ep->base.poller;
}

static inline struct iw_keys *iw_ep_keys(const struct iw_ep *ep)
{
	return &iw_poller_fabric(iw_ep_poller(ep))->keys;
}

static inline struct iw_work *iw_ep_work(const struct iw_ep *ep, uint32_t n)
{
	return &ep->works[n & ep->works_mask];
}

/* ---- iwarp_fabric.c ---------------------------------------------------- */

void iw_stats_add(struct rf_fabric_stats *sum, const struct iw_stats *stats);
/* The peer may use the window from now on, or no more. */
void iw_window_arm(struct iw_window *window, struct iw_ep *ep);
void iw_window_disarm(struct iw_window *window);
/* Free again in the caller's eyes. */
void iw_window_free(struct iw_window *window);

/* ---- iwarp_poller.c ---------------------------------------------------- */

void iw_source_init(struct iw_source *source, enum iw_kind kind, int fd);
int iw_source_watch(struct iw_poller *poller, struct iw_source *source,
		    uint32_t events);
void iw_source_close(struct iw_poller *poller, struct iw_source *source);
/* Free what embeds it, at the end of the run. */
void iw_source_bury(struct iw_poller *poller, struct iw_source *source);
void iw_source_deadline(struct iw_poller *poller, struct iw_source *source,
			uint32_t after_ms);

int iw_poller_create(struct rf_fabric *fab, uint32_t ops_max,
		     struct rf_poller **out);
void iw_poller_destroy(struct rf_poller *poller);
unsigned int iw_poller_run(struct rf_poller *poller, unsigned int budget);
int iw_poller_fd(const struct rf_poller *poller);
int iw_poller_arm(struct rf_poller *poller);

static inline bool iw_budget_is_spent(const struct iw_poller *poller)
{
	return poller->callbacks >= poller->budget;
}

static inline void iw_list_move(struct rf_list *head, struct rf_list *item)
{
	if (rf_list_is_empty(item))
		rf_list_push(head, item);
}

/* ---- iwarp_listen.c ---------------------------------------------------- */

int iw_listener_open(struct rf_poller *poller, const struct sockaddr *addr,
		     socklen_t addr_size, rf_request_fn on_request,
		     void *context, struct rf_listener **out);
int iw_listener_address(const struct rf_listener *listener,
			struct sockaddr_storage *out);
void iw_listener_close(struct rf_listener *listener);
int iw_incoming_peer(const struct rf_incoming *incoming,
		     struct sockaddr_storage *out);
void iw_listener_event(struct iw_listener *listener);
void iw_incoming_event(struct iw_incoming *incoming);
void iw_incoming_drop(struct iw_incoming *incoming);
/* Take the socket over; the incoming is gone. */
int iw_incoming_take(struct iw_incoming *incoming);

/* ---- iwarp_ep.c -------------------------------------------------------- */

int iw_ep_connect(struct rf_poller *poller, const struct sockaddr *addr,
		  socklen_t addr_size, const void *hello, size_t hello_size,
		  const struct rf_ep_config *config,
		  const struct rf_ep_events *events, void *context,
		  struct rf_ep **out);
int iw_ep_accept(struct rf_incoming *incoming, struct rf_poller *poller,
		 const void *hello, size_t hello_size,
		 const struct rf_ep_config *config,
		 const struct rf_ep_events *events, void *context,
		 const struct rf_recv *recvs, unsigned int recv_count,
		 struct rf_ep **out);
void iw_ep_reject(struct rf_incoming *incoming, const void *hello,
		  size_t hello_size);
void iw_ep_close(struct rf_ep *ep);
int iw_ep_addresses(const struct rf_ep *ep, struct sockaddr_storage *local,
		    struct sockaddr_storage *peer);
void iw_ep_event(struct iw_ep *ep, uint32_t events);
void iw_ep_deadline(struct iw_ep *ep);
/* connected(), done() of what is finished, and bytes in stage. */
void iw_ep_run_ready(struct iw_ep *ep);
/* Begin the end; the first reason stays.  Calls nothing back. */
void iw_ep_doom(struct iw_ep *ep, int reason);
/* The end: done() of all that is posted, then closed(). */
void iw_ep_bury(struct iw_ep *ep);
/* No more lingering. */
void iw_ep_drop(struct iw_ep *ep);
void iw_ep_free(struct iw_ep *ep);

/* ---- iwarp_post.c ------------------------------------------------------ */

int iw_ep_post(struct rf_ep *ep, const struct rf_work *works,
	       unsigned int count);
int iw_ep_post_recv(struct rf_ep *ep, const struct rf_recv *recv);
/* done() of finished works, in order. */
void iw_ep_retire(struct iw_ep *ep);
/* A finished work leaves the ring; returns its op. */
struct rf_op *iw_ep_retire_one(struct iw_ep *ep);
/* done() of an op, if there is one. */
void iw_ep_call_done(struct iw_ep *ep, struct rf_op *op, int status);

/* ---- iwarp_tx.c, iwarp_rx.c, iwarp_term.c ------------------------------ */

void iw_tx_run(struct iw_ep *ep);
/* Before the memory behind a window may change: copy what is half sent. */
void iw_tx_detach(struct iw_ep *ep, uint32_t key);
/* Everything that must still leave, into bounce. */
void iw_tx_last_words(struct iw_ep *ep);

/* Returns true if there was something to receive. */
bool iw_rx_run(struct iw_ep *ep);

/* Tell the peer what it did, and end the connection.  read may be NULL. */
void iw_terminate(struct iw_ep *ep, enum iw_error error,
		  const struct iw_head *head, const uint8_t *raw,
		  const uint8_t *read, int reason);
/* A Terminate came: ulpdu holds the DDP payload. */
void iw_terminated(struct iw_ep *ep, const uint8_t *payload, size_t size);
/* The errno for closed() of an error that we found, or were told. */
int iw_error_reason(enum iw_error error);
/* The same violation, as the DDP layer calls it where it has a word for it. */
enum iw_error iw_error_of_ddp(enum iw_error error);

#endif /* RF_IWARP_H */

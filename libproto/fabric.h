/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric.h - reliable, ordered RDMA connections; one interface, many transports
 *
 * The model is what RC verbs and iWARP (RFC 5040) have in common: Send and
 * Receive, one-sided Read and Write of memory that the peer registered and
 * described to us, and windows, which lend part of a region to one peer until
 * they are invalidated.  What one of them lacks or does differently (immediate
 * data, atomics, shared receive queues) is left out on purpose: see FABRIC.md.
 *
 *	rf_fabric --+-- rf_pd --+-- rf_mr            registered memory
 *	            |           `-- rf_window        a right lent to one peer
 *	            `-- rf_poller --+-- rf_listener
 *	                            `-- rf_ep        one connection (names a pd)
 *
 * An object must outlive those to its right.
 *
 * Threads.  A poller, and every endpoint, listener and bound window on it,
 * belongs to the thread that runs it.  [owner] functions are called on that
 * thread only, [any] functions on any thread.  Callbacks run on the owner's
 * thread, only inside rf_poller_run(), never inside a post: post under a lock
 * if you must, but hold none while running the poller.  Nothing blocks unless
 * it is marked [blocks].
 *
 * Ownership.  The caller owns each rf_op and each buffer.  A successful post
 * lends both to the fabric, and done() gives them back, exactly once, also
 * when the connection fails.  A failed post lends nothing.
 *
 * Errors.  int results are 0 or a negative errno.  The values listed are those
 * a caller should tell apart; after any other, nothing has changed.  Breaking a
 * rule of this file (wrong thread, an op posted twice, a size over rf_limits)
 * is a bug, not an error: it aborts.
 *
 * Units.  Sizes are bytes, times milliseconds, depths operations.  Everything
 * is in host byte order; codec.h encodes what goes to the peer.
 *
 * First word.  The connecting side sends first: the accepting side may post
 * Sends, Writes and Reads at once after connected(), but no byte of them leaves
 * before the first message of the peer arrived (RFC 5044 section 7.1.3).  Begin
 * with a Send: a device does not tell of Reads and Writes of the peer (see
 * sees_access).
 */
#ifndef RF_FABRIC_H
#define RF_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct rf_fabric;
struct rf_pd;
struct rf_mr;
struct rf_window;
struct rf_poller;
struct rf_listener;
struct rf_incoming;
struct rf_ep;

/* ---- fabric ------------------------------------------------------------ */

/* What a grant of memory is tied to; see FABRIC.md, "Rights". */
enum rf_level {
	RF_LEVEL_WINDOW,	/* windows: one connection, one range, revocable */
	RF_LEVEL_SESSION,	/* no windows: a region; the fence is the end of
				 * the connection */
};

struct rf_limits {
	uint32_t msg_size_max;		/* one Send or Receive */
	uint32_t rdma_size_max;		/* one Read or Write */
	uint16_t hello_size_max;	/* private data of connect and accept */
	uint16_t sge_count_max;		/* pieces of local memory, Send and Write */
	uint16_t read_sge_count_max;	/* the same of a Read's sink */
	uint16_t reads_max;		/* Reads in flight; the fabric holds back
					 * those posted beyond it */
	uint32_t read_block;		/* one Read of a long run, unless measured
					 * otherwise */
	uint16_t send_depth_max;	/* what rf_ep_config may ask for */
	uint16_t recv_depth_max;
};

/*
 * Open a transport: "verbs://DEVICE", "iwarp://[?crc=0]" or "loop://NAME".
 * [any]
 *
 * -ENODEV: no such device, or this build has no verbs.
 * -EINVAL: not a URI of this kind.
 */
int rf_fabric_open(const char *uri, struct rf_fabric **out);

/* Nothing opened from it may be left.  [any] */
void rf_fabric_close(struct rf_fabric *fab);

/*
 * True when the device was taken away, or has failed for good: its connections
 * end with -ENODEV, listeners hear nobody, and so it stays.  Close all that was
 * opened from it, and the fabric: until then some devices can't go, and who
 * removes them waits.  When it is back, by whatever name, it is another fabric.
 * rf_poller_on_gone() tells.  [any]
 */
bool rf_fabric_is_gone(const struct rf_fabric *fab);

/*
 * The URI of the fabric of this scheme ("verbs", "iwarp") that reaches addr.
 * [any] [blocks]
 *
 * -ENETUNREACH: this scheme has no device with a route to addr.
 */
int rf_fabric_route(const char *scheme, const struct sockaddr *addr,
		    socklen_t addr_size, char *uri, size_t uri_size);

/*
 * The same from an address of ours, which may choose between devices; NULL: any.
 * [any] [blocks]  -EADDRNOTAVAIL: this host has no such address.
 */
int rf_fabric_route_from(const char *scheme, const struct sockaddr *source,
			 const struct sockaddr *addr, socklen_t addr_size,
			 char *uri, size_t uri_size);

/* What an operator may choose; RF_TUNING_DEFAULT is in force until then. */
struct rf_tuning {
	/*
	 * Completion moderation: an event announces up to cq_count completions,
	 * and comes after cq_us at the latest.  0 or 1: an event for each.  Only
	 * of devices that have it (moderates_events).
	 */
	uint16_t cq_count;
	uint16_t cq_us;

	/* IPv4's type of service, IPv6's and RoCE's traffic class; -1: the
	 * system's.  FABRIC.md tells whose choice counts where. */
	int16_t traffic_class;

	/* The entry of the port's GID table whose address is ours; -1: as
	 * routed.  RoCE only. */
	int16_t gid_index;

	/* Where connections come from; ss_family 0: as routed. */
	struct sockaddr_storage source;
};
#define RF_TUNING_DEFAULT { .traffic_class = -1, .gid_index = -1 }

enum { RF_TRAFFIC_CLASS_MAX = 255, RF_GID_INDEX_MAX = 1023 };

/*
 * Choose, for endpoints and listeners made from now on.  Call it before the
 * first poller is created.  [any]
 *
 * -EOPNOTSUPP: this fabric has no GID table whose entries are addresses.
 */
int rf_fabric_tune(struct rf_fabric *fab, const struct rf_tuning *tuning);

/* Valid until rf_fabric_close().  [any] */
const char *rf_fabric_scheme(const struct rf_fabric *fab);
const struct rf_limits *rf_fabric_limits(const struct rf_fabric *fab);
enum rf_level rf_fabric_level(const struct rf_fabric *fab);

/*
 * Where transports differ in what they tell.  A refusal itself is the same
 * everywhere: no byte moves, and the connection ends.  Each of these is a
 * promise; where it is false the thing may happen all the same.
 */
struct rf_traits {
	/* The side whose memory was protected learns why the connection ended:
	 * its closed() says -EACCES, and rights_refused counts.  So does the
	 * side that a Send found without a Receive: -ENOBUFS. */
	bool tells_owner;

	/* closed() of the side that was refused says why as well. */
	bool tells_offender;

	/* Reads and Writes of the peer are seen: they are its first word as
	 * well as a Send is, and are counted in rf_fabric_stats. */
	bool sees_access;

	/* A Read needs the right to read.  Else who knows the key of any region
	 * of the connection's domain can read it: put there only what all its
	 * peers may see. */
	bool guards_reads;

	/* A Send with Invalidate ends windows of its own connection only, and
	 * one of any other key is refused as an access is.  Else it may also
	 * end a window of another connection of the domain, whose peer is
	 * refused from then on, and the sender loses its connection without
	 * being told why. */
	bool guards_invalidate;

	/* No more Reads of the peer are served than rf_ep_config.reads_in; else
	 * a device may serve more, and the peer's reads_max says so. */
	bool keeps_reads_in;

	/* A listener takes a TCP port of this machine, and clients that speak
	 * iWARP in user space may come there as well. */
	bool takes_tcp_ports;

	/* All data have a checksum from memory to memory, made and checked by
	 * this program (iWARP's CRC32C): one more above it would say nothing
	 * new. */
	bool checks_data;

	/* Completion events follow rf_tuning.cq_count and cq_us.  Else only what
	 * has gathered before the program looks is announced together. */
	bool moderates_events;

	/* A reject without data is told apart from a port where nobody
	 * listens: rejected() is called, with size 0. */
	bool tells_empty_reject;
};

/* Valid until rf_fabric_close().  [any] */
const struct rf_traits *rf_fabric_traits(const struct rf_fabric *fab);

/* True if registered memory counts against RLIMIT_MEMLOCK.  [any] */
bool rf_fabric_pins_memory(const struct rf_fabric *fab);

/* Counters that an operator may ask for; they only grow.  [any] */
struct rf_fabric_stats {
	uint64_t registrations;		/* rf_mr_register() that succeeded */
	uint64_t deregistrations;
	uint64_t binds, invalidates;	/* of windows, by either side */
	uint64_t sends, recvs, reads, writes;		/* completed */
	uint64_t send_bytes, recv_bytes, read_bytes, write_bytes;
	uint64_t reads_served, read_bytes_served;	/* for peers, where seen */
	uint64_t writes_landed, write_bytes_landed;
	uint64_t rights_refused;	/* bad key, range, right or connection */
	uint64_t connects, accepts, rejects, closes;
	uint64_t retransmissions;	/* of closed and open connections */
	uint64_t cq_overruns;
	uint64_t completions;		/* fetched from queues of a device */
	uint64_t cq_events;		/* that announced them */
};
void rf_fabric_stats(const struct rf_fabric *fab, struct rf_fabric_stats *out);

/* ---- protection domains and memory ------------------------------------- */

enum rf_access {
	RF_LOCAL_WRITE	= 1u << 0,	/* our Receives land here */
	RF_READ_SINK	= 1u << 1,	/* our Reads land here; on iWARP devices
					 * this lets the peer write here too */
	RF_REMOTE_READ	= 1u << 2,
	RF_REMOTE_WRITE	= 1u << 3,
	RF_WINDOW_BIND	= 1u << 4,	/* windows may be bound over it */
};

/* What a peer needs in order to reach part of a region. */
struct rf_remote {
	uint64_t addr;
	uint32_t rkey;
	uint32_t size;
};
_Static_assert(sizeof(struct rf_remote) == 16, "no padding: it is logged raw");

/*
 * A protection domain: a connection reaches regions of its own domain only.
 * [any] [blocks]
 */
int rf_pd_create(struct rf_fabric *fab, struct rf_pd **out);

/* No region, window or endpoint may be left in it.  [any] */
void rf_pd_destroy(struct rf_pd *pd);

/* The fabric that it was created on.  [any] */
struct rf_fabric *rf_pd_fabric(const struct rf_pd *pd);

/*
 * Pin [base, base + size) and let the fabric use it.  [any] [blocks]
 *
 * Costs microseconds to milliseconds, so do it at start-up (pool.h), not per
 * request.  The caller keeps the memory, and may not free or remap it before
 * rf_mr_deregister().
 *
 * -ENOMEM: RLIMIT_MEMLOCK or the device's table is full.
 */
int rf_mr_register(struct rf_pd *pd, void *base, size_t size,
		   unsigned int access, struct rf_mr **out);

/*
 * Withdraw a region.  [any] [blocks]
 *
 * On return, no access by a peer is under way and none can start.  No op that
 * names the region may be posted and no window may be bound over it.  The
 * rkey's number can come back later for another region: a peer that may have
 * kept it must be disconnected, not trusted to forget.
 */
void rf_mr_deregister(struct rf_mr *mr);

/*
 * Describe part of a region to a peer; it needs a remote right.  [any]
 * At RF_LEVEL_WINDOW prefer a window.
 */
struct rf_remote rf_mr_remote(const struct rf_mr *mr, const void *addr,
			      uint32_t size);

/*
 * A window: a revocable right of one peer on part of a region.  [any] [blocks]
 *
 * It is free when created, bound by RF_BIND, and free again after RF_UNBIND,
 * after the peer's Send with Invalidate of its key was received, or when the
 * endpoint that it was bound on has closed.
 *
 * -EOPNOTSUPP: this fabric is at RF_LEVEL_SESSION.
 */
int rf_window_create(struct rf_pd *pd, struct rf_window **out);

/* It must be free.  [any] */
void rf_window_destroy(struct rf_window *window);

/*
 * Choose what the next RF_BIND of a free window will lend, and learn the key
 * at once, so that the message that carries it can be posted in the same batch.
 * [owner]  access: RF_REMOTE_READ and/or RF_REMOTE_WRITE.  mr must have
 * RF_WINDOW_BIND, and RF_LOCAL_WRITE if the peer is to write.  Each call gives
 * another key; a key returns only after at least 255 others of the window.
 */
struct rf_remote rf_window_next(struct rf_window *window,
				const struct rf_mr *mr, void *addr,
				uint32_t size, unsigned int access);

/*
 * True while a peer may use the window: since RF_BIND was posted, until its
 * invalidation was done or received.  [owner]
 */
bool rf_window_is_bound(const struct rf_window *window);

/*
 * True from rf_window_next() until its RF_BIND is posted: the key was chosen,
 * but nobody can have it yet.  [owner]
 */
bool rf_window_awaits_bind(const struct rf_window *window);

/* ---- poller ------------------------------------------------------------ */

/*
 * ops_max bounds the ops posted at once on all of its endpoints.  [any]
 * The first thread to call an [owner] function of it becomes the owner.
 */
int rf_poller_create(struct rf_fabric *fab, uint32_t ops_max,
		     struct rf_poller **out);

/* No endpoint or listener may be left on it.  [any] */
void rf_poller_destroy(struct rf_poller *poller);

/*
 * Run what is ready, at most about budget callbacks; does not wait.  [owner]
 * Not reentrant: a callback may post, connect and close, but not run this.
 *
 * Returns the number of callbacks run.
 */
unsigned int rf_poller_run(struct rf_poller *poller, unsigned int budget);

/*
 * Call gone(context), once, from rf_poller_run(), when rf_fabric_is_gone(): after
 * the endpoints' end has begun, and before their closed().  [owner]
 */
void rf_poller_on_gone(struct rf_poller *poller, void (*gone)(void *context),
		       void *context);

/*
 * A descriptor for epoll or poll: readable, level-triggered, when there is
 * something to run after rf_poller_arm().  Belongs to the poller.  [any]
 */
int rf_poller_fd(const struct rf_poller *poller);

/*
 * Call before waiting on the descriptor.  [owner]
 *
 * Returns for how many milliseconds one may wait: 0 if there is something to
 * run already, -1 for no limit.
 */
int rf_poller_arm(struct rf_poller *poller);

/* run, else arm, wait up to wait_ms (-1: no limit) and run.  [owner] [blocks] */
unsigned int rf_poller_wait(struct rf_poller *poller, unsigned int budget,
			    int wait_ms);

/* ---- connections ------------------------------------------------------- */

struct rf_ep_config {
	struct rf_pd *pd;
	uint16_t send_depth;	/* Sends, Reads, Writes, binds posted at once */
	uint16_t recv_depth;	/* Receives posted at once */
	uint16_t reads_out;	/* Reads that we want in flight (ORD) */
	uint16_t reads_in;	/* Reads of the peer that we serve (IRD) */
	uint32_t setup_ms;	/* give up connecting after this long */
	uint32_t keepalive_ms;	/* find a silent dead peer after about this
				 * long; 0: never.  On InfiniBand and RoCE by a
				 * Read: reads_out and the peer's reads_in must
				 * allow one */
};

struct rf_ep_events {
	/*
	 * Both sides may talk now.  The peer's hello is valid during the call
	 * only.
	 */
	void (*connected)(struct rf_ep *ep, const void *hello, size_t size);

	/*
	 * The end, once per endpoint, after its last done(); ep is gone when
	 * this returns, and windows bound on it are free.  reason is 0 if
	 * either side closed, else -ETIMEDOUT, -ECONNREFUSED (nobody listens,
	 * or the peer rejected: then hello was given to rejected()),
	 * -ECONNRESET, -EACCES (the peer or we broke a right), -EMSGSIZE, or
	 * -EPROTO (the peer broke the transport's protocol), or another
	 * negative errno.
	 */
	void (*closed)(struct rf_ep *ep, int reason);

	/* May be NULL.  The accepting side's reject data, before closed();
	 * without data only where tells_empty_reject. */
	void (*rejected)(struct rf_ep *ep, const void *hello, size_t size);
};

/* One Receive; see rf_ep_post_recv(). */
struct rf_op;
struct rf_sge {
	void *addr;
	uint32_t size;
	const struct rf_mr *mr;
};
struct rf_recv {
	struct rf_op *op;
	struct rf_sge sge;
};

/*
 * Start connecting; ends in connected() or closed().  [owner]
 *
 * Receives may be posted at once, and should be: the peer may send as soon as
 * it accepts.  hello (at most hello_size_max) is copied.  context comes back
 * from rf_ep_context().  After a failure no callback runs.
 */
int rf_ep_connect(struct rf_poller *poller,
		  const struct sockaddr *addr, socklen_t addr_size,
		  const void *hello, size_t hello_size,
		  const struct rf_ep_config *config,
		  const struct rf_ep_events *events, void *context,
		  struct rf_ep **out);

void *rf_ep_context(const struct rf_ep *ep);
struct rf_poller *rf_ep_poller(const struct rf_ep *ep);

/* After connected(): the fabric's limits, as negotiated with this peer. */
const struct rf_limits *rf_ep_limits(const struct rf_ep *ep);

/* Addresses of both ends, for logs and access rules.  [owner] */
int rf_ep_addresses(const struct rf_ep *ep, struct sockaddr_storage *local,
		    struct sockaddr_storage *peer);

/*
 * Close; harmless if already closing.  [owner]
 *
 * Posted ops finish, most with -ECANCELED, and then closed() runs, from
 * rf_poller_run().  What was posted but not completed may or may not reach the
 * peer; to end in order, exchange a last message first.
 */
void rf_ep_close(struct rf_ep *ep);

/*
 * Listen.  [owner]  on_request() must accept or reject the request, then or
 * later; hello is valid during the call only.  Port 0 chooses one:
 * rf_listener_address() tells it.
 *
 * -EADDRINUSE: another program listens there.  -EADDRNOTAVAIL: no such address.
 */
typedef void (*rf_request_fn)(void *context, struct rf_incoming *incoming,
			      const void *hello, size_t hello_size);
int rf_listener_open(struct rf_poller *poller,
		     const struct sockaddr *addr, socklen_t addr_size,
		     rf_request_fn on_request, void *context,
		     struct rf_listener **out);
int rf_listener_address(const struct rf_listener *listener,
			struct sockaddr_storage *out);

/* Requests not yet accepted are dropped.  [owner] */
void rf_listener_close(struct rf_listener *listener);

/* The address that asks.  [owner of the listener] */
int rf_incoming_peer(const struct rf_incoming *incoming,
		     struct sockaddr_storage *out);

/*
 * Accept, on a poller of the same fabric and thread.  [owner of the listener]
 *
 * The endpoint shows itself in connected(), later.  recvs are posted before the
 * peer learns that it may send.  incoming is consumed in any case; after a
 * failure no callback runs, and no op was lent.
 */
int rf_ep_accept(struct rf_incoming *incoming, struct rf_poller *poller,
		 const void *hello, size_t hello_size,
		 const struct rf_ep_config *config,
		 const struct rf_ep_events *events, void *context,
		 const struct rf_recv *recvs, unsigned int recv_count,
		 struct rf_ep **out);
void rf_ep_reject(struct rf_incoming *incoming,
		  const void *hello, size_t hello_size);

/* ---- operations -------------------------------------------------------- */

/* One operation; embed it in your request and use rf_container_of(). */
struct rf_op {
	/*
	 * Set before each post.  status 0 means that the local buffers are
	 * ours again and, for Receive and Read, hold the data.  It proves
	 * nothing about the peer's side of a Send or a Write: only the peer's
	 * answer does.
	 *
	 * Any other status means that the endpoint is closing:
	 *   -ECANCELED  connection lost; the peer may have seen all or none
	 *   -EACCES     the peer refused the rkey, the range or the access
	 *   -EMSGSIZE   the message was larger than the Receive
	 *   other       this host's device failed
	 */
	void (*done)(struct rf_op *op, int status);

	uint32_t size;		/* Receive with status 0: bytes received */
	uint32_t inv_key;	/* Receive with status 0: the key of ours that
				 * the peer's Send invalidated, else 0 (0 is
				 * never a key) */

	uint32_t state;		/* private from here on; zero it once */
	uint64_t priv[6];
};

enum rf_opcode {
	RF_SEND,
	RF_SEND_INV,	/* Send, and invalidate inv_key (the peer's) on arrival:
			 * dead before the peer's Receive completes */
	RF_WRITE,
	RF_READ,
	RF_BIND,	/* bind window as rf_window_next() said, for this
			 * endpoint's peer; in force for all posted after it */
	RF_UNBIND,	/* invalidate a bound window; with done(0) no access by
			 * the peer is under way and none can start */
};

enum rf_work_flags {
	RF_FENCE = 1u << 0,	/* start after this endpoint's earlier Reads */
	RF_SOLICITED = 1u << 1,	/* Sends: wake the peer, if it waits only for
				 * such */
};

/* One piece of work.  Its arrays are copied by the post. */
struct rf_work {
	enum rf_opcode code;
	unsigned int flags;
	/*
	 * NULL: no notice.  The buffers are ours again when a later work of
	 * this endpoint with an op is done (works complete in the order
	 * posted), or in closed().  Give an op to at least every
	 * (send_depth / 2)th work, or the queue stays full.
	 */
	struct rf_op *op;
	const struct rf_sge *sge;	/* Sends, Write: source.  Read: sink */
	uint16_t sge_count;
	struct rf_remote remote;	/* Write: sink.  Read: source.  size must
					 * be the sum of the pieces */
	uint32_t inv_key;		/* RF_SEND_INV */
	struct rf_window *window;	/* RF_BIND, RF_UNBIND */
};

/*
 * Post works, in order, with one doorbell: all or none.  [owner]
 *
 * Works of one endpoint start and complete in the order posted.  Sends arrive
 * in that order, and when one arrives, the bytes of each Write posted before
 * it are in place.  A Read is not ordered against what follows it: await its
 * done(), or RF_FENCE.  Nothing may be of zero length.
 *
 * A Send that finds no Receive posted by the peer ends the connection, on every
 * transport.  The fabric keeps no count of them; rpc.h does, with credits.
 *
 * -EAGAIN: no room for all; retry from any done() of this endpoint.
 * -ENOTCONN: not connected yet, or closing.
 */
int rf_ep_post(struct rf_ep *ep, const struct rf_work *works,
	       unsigned int count);

/*
 * Post one Receive.  [owner]  Receives complete in the order posted.
 *
 * -EAGAIN: recv_depth are posted.  -ENOTCONN: closing.
 */
int rf_ep_post_recv(struct rf_ep *ep, const struct rf_recv *recv);

#endif /* RF_FABRIC_H */

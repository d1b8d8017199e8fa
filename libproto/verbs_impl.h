/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_impl.h - the parts of the verbs fabric: libibverbs and librdmacm
 *
 *	verbs_fabric.c   devices, domains, regions, windows
 *	verbs_path.c     routes, GIDs, traffic class
 *	verbs_poller.c   descriptors, completion channels, timers, the run
 *	verbs_events.c   what the device says of itself
 *	verbs_gone.c     devices that are taken away
 *	verbs_cm.c       connecting, accepting, rejecting, closing (rdma_cm)
 *	verbs_dial.c     connecting by a call that takes its time
 *	verbs_queue.c    work requests and completions
 *
 * Ownership.  A queue pair and its completion queue belong to one endpoint.  An
 * endpoint is destroyed only inside rf_poller_run(), after its last done().
 *
 * When it fails.  A device that does not complete what was flushed is waited for
 * VERBS_FLUSH_MS (siw not at all, see verbs_ep_is_quiet()); destroying the queue
 * pair is then the fence, and we complete the rest.
 */
#ifndef RF_VERBS_IMPL_H
#define RF_VERBS_IMPL_H

#include "base.h"
#include "fabric_impl.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

enum {
	VERBS_SGE_MAX = 6,		/* what siw has; others have more */
	VERBS_READ_BLOCK = 64 * 1024,
	VERBS_SEND_DEPTH_MAX = 4096,
	VERBS_RECV_DEPTH_MAX = 4096,
	VERBS_MSG_MAX = 1 << 20,
	VERBS_RDMA_MAX = 1 << 30,
	VERBS_INLINE_WISH = 256,	/* half, and so on, if refused */
	VERBS_BACKLOG = 512,
	VERBS_FLUSH_MS = 2000,
	VERBS_SETUP_STEP_MS = 2000,	/* one resolution of an address */
	VERBS_POLL_BATCH = 16,		/* completions fetched by one call */
	VERBS_CHAIN_MAX = 64,		/* work requests behind one doorbell */
	VERBS_KEY_BUCKETS = 1024,
	VERBS_RXE_VENDOR = 0xffffff,
	VERBS_SIW_VENDOR = 0x626d74,
	VERBS_PREFIX_SIZE = 16,		/* before private data: verbs_cm.c */
	VERBS_PROBE_SIZE = 64,
	VERBS_PRIVATE_MAX = 56,		/* of a request on InfiniBand and RoCE,
					 * Linux rdma_cm(7) */
	/* rdma_conn_param can say 255, of which RFC 6581 needs 4. */
	VERBS_IWARP_PRIVATE_MAX = 248,
	VERBS_PRIVATE_ANY = UINT8_MAX,	/* a peer may say as much as that */
};

struct verbs_fabric {
	struct rf_fabric base;
	struct ibv_context *context;
	struct rf_list all_link;	/* of all fabrics of the process */
	struct ibv_device_attr attr;
	bool is_iwarp;
	bool is_rxe;
	bool is_siw;
	/*
	 * InfiniBand and RoCE: private data are padded to a fixed size, so ours
	 * begin with their size; and with what a probe of a silent peer reads.
	 */
	bool has_prefix;
	pthread_mutex_t lock;		/* of what follows */
	struct rf_list windows[VERBS_KEY_BUCKETS];
	uint64_t regions_made;		/* gives each its serial */
	uint32_t qps_made;		/* [any] */
	struct rf_fabric_stats stats;
};

struct verbs_pd {
	struct rf_pd base;
	struct ibv_pd *pd;
	/* What peers read to see that we are there, and where such a Read of
	 * ours lands; NULL where there are no probes. */
	struct ibv_mr *probe_mr;
	uint8_t probe[VERBS_PROBE_SIZE];
};

struct verbs_mr {
	struct rf_mr base;
	struct ibv_mr *mr;
	uint64_t serial;		/* of the fabric's regions, from 1 */
	/* iWARP devices place Read Responses by remote writes, so the region
	 * that sinks them has a right that no peer is told. */
};

struct verbs_window {
	struct rf_window base;
	struct ibv_mw *mw;
	/*
	 * rxe checks an access against the region below the window and not
	 * against the window, so there each window has a region of its own of
	 * just what it lends, kept while the same is lent again.
	 */
	struct ibv_mr *own;
	uint64_t own_serial;		/* of the region that own is part of */
	/*
	 * When a process dies the kernel destroys what it had, the newest first,
	 * and rxe (Linux 6.1) waits 50 s for each queue pair that a window is
	 * still bound to; all that time nobody can listen in its place.  So there
	 * a window is bound only if it is newer than every queue pair: this is
	 * what the fabric's qps_made was when mw was made.
	 */
	uint32_t qps_made;
	uint32_t next_key;		/* last chosen; 0: none yet */
	struct rf_list link;		/* in its bucket, by index of the key */
	struct rf_list bound_link;	/* of the endpoint, while bound */
};

struct verbs_poller {
	struct rf_poller base;
	int epoll_fd;
	struct rdma_event_channel *cm;
	struct ibv_comp_channel *comp;
	struct rf_list eps;		/* all */
	struct rf_list ready;		/* eps whose completion queue to poll */
	/* Completions that the arming of a queue found: the next run's. */
	struct verbs_ep *found_of;
	struct ibv_wc found[VERBS_POLL_BATCH];
	int found_count;
	struct rf_list ending;		/* eps that wait for their last work */
	struct rf_list mute;		/* ids of ended ones: verbs_cm.c */
	uint64_t mute_check_ns;
	struct rf_list listeners;
	bool has_closed_listeners;	/* freed after the run */
	uint64_t nearest_ns;		/* no deadline comes before it */
	unsigned int runs;		/* since the clock was read */
	uint64_t now_ns;		/* as it said */
	uint64_t look_ns;		/* when to look at the descriptors */
	/*
	 * The device's own events go to whoever reads them first; see
	 * verbs_events.c.  [any]
	 */
	struct rf_list all_link;	/* of all pollers of the process */
	int told_fd;			/* eventfd: something below was set */
	bool is_told;			/* an endpoint's told_reason */
	int uevent_fd;			/* -1: the kernel does not tell us */
};

struct verbs_listener {
	struct rf_listener base;
	struct rdma_cm_id *id;
	rf_request_fn on_request;
	void *context;
	struct rf_list incomings;
	struct rf_list link;
	bool is_closed;
};

struct verbs_incoming {
	struct rf_incoming base;
	struct rdma_cm_id *id;
	struct rf_list link;
	uint8_t peer_reads_out, peer_reads_in;
	uint32_t probe_rkey;		/* of the peer, see verbs_cm.c */
	uint64_t probe_addr;
	uint8_t hello[VERBS_PRIVATE_ANY];
	size_t hello_size;
};

/* One posted work; a copy, so that it can wait for the first word. */
struct verbs_work {
	struct rf_op *op;
	struct rf_window *window;	/* RF_BIND, RF_UNBIND */
	enum rf_opcode code;
	bool is_probe;
	bool is_complete;		/* the device said so, with status */
	int status;
	uint64_t size;
	struct ibv_send_wr wr;
	struct ibv_sge sge[VERBS_SGE_MAX];
};

struct verbs_recv {
	struct rf_op *op;
	struct ibv_recv_wr wr;
	struct ibv_sge sge;
};

enum verbs_state {
	VERBS_RESOLVING_ADDR,
	VERBS_RESOLVING_ROUTE,
	VERBS_CONNECTING,
	VERBS_ACCEPTING,
	VERBS_CONNECTED,
	VERBS_ENDING,
};

struct verbs_ep {
	struct rf_ep base;
	enum verbs_state state;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct rf_list link;		/* poller.eps, poller.mute */
	struct rf_list ready_link;
	struct rf_list ending_link;
	struct rf_list bound;		/* windows */
	struct verbs_dial *dial;	/* NULL: no thread connects */
	uint32_t inline_max;

	struct verbs_work *works;	/* ring: send_depth, and a probe */
	uint32_t work_mask;
	uint32_t work_head;		/* next place to fill */
	uint32_t work_sent;		/* next to hand to the device */
	uint32_t work_seen;		/* before it all but Reads are complete */
	uint32_t work_tail;		/* oldest not ended */
	uint32_t unsignalled;

	struct verbs_recv *recvs;	/* ring: recv_depth */
	uint32_t recv_mask;
	uint32_t recv_head, recv_given, recv_tail;

	struct sockaddr_storage peer, source;	/* of the connecting side */
	bool is_gid_chosen;		/* source is that of tuning.gid_index */
	/* Ours until we connect; the peer's of a request that we accept. */
	uint8_t hello[VERBS_PRIVATE_ANY];
	size_t hello_size;
	uint64_t setup_deadline_ns;	/* 0: connected */
	uint64_t flush_deadline_ns;	/* 0: not ending */
	uint64_t probe_deadline_ns;	/* 0: no keep-alive */
	uint64_t heard_ns;		/* last completion */
	uint64_t probe_addr;		/* of the peer's */
	uint32_t probe_rkey;		/* 0: the peer has none */
	bool is_probing;		/* one is in the ring */
	unsigned int cq_events;		/* not acknowledged */
	bool is_armed;			/* the next completion makes an event */
	int told_reason;		/* by the device, on any thread */
	int reason;
	bool may_send;			/* the connecting side, or spoken to */
	bool has_failed;		/* a work has; none succeeds after it */
	bool has_lost_way;		/* rxe: the link may be down (verbs_cm.c) */
	bool is_reported;		/* connected() was called */
	bool is_qp_dead;		/* destroyed: nothing more will come */
	bool was_disconnected;		/* the peer or the device said so */
	bool is_reason_weak;		/* a completion may know better */
};

static inline struct verbs_fabric *verbs_fabric_of(struct rf_fabric *fab)
{
	return rf_container_of(fab, struct verbs_fabric, base);
}

static inline struct verbs_ep *verbs_ep_of(struct rf_ep *ep)
{
	return rf_container_of(ep, struct verbs_ep, base);
}

static inline uint32_t verbs_qps_made(const struct verbs_fabric *fabric)
{
	return __atomic_load_n(&fabric->qps_made, __ATOMIC_RELAXED);
}

static inline const char *verbs_device_name(struct rf_fabric *fab)
{
	return ibv_get_device_name(verbs_fabric_of(fab)->context->device);
}

/*
 * What is destroyed must be gone.  EIO says that the device itself is, and all
 * that it had with it.
 */
static inline void verbs_must_be_gone(int err)
{
	RF_ASSERT(err == 0 || err == EIO);
}

/* Add to a counter of the fabric.  [any] */
#define VERBS_COUNT(fabric, counter, amount)				\
	__atomic_fetch_add(&(fabric)->stats.counter, (uint64_t)(amount),	\
			   __ATOMIC_RELAXED)

/* ---- verbs_fabric.c ------------------------------------------------------ */

/* The window of a key, or NULL.  [any] */
struct verbs_window *verbs_find_window(struct verbs_fabric *fabric,
				       uint32_t rkey);
void verbs_window_freed(struct rf_window *window);
/* What to bind it over.  May register on rxe, and fail.  [owner] */
int verbs_window_region(struct verbs_window *window, struct ibv_mr **out);
/* Each window bound on ep is dead and free; before its queue pair goes. [owner] */
void verbs_free_windows_of(struct verbs_fabric *fabric, struct verbs_ep *ep);

/* ---- verbs_path.c -------------------------------------------------------- */

int verbs_route(const struct sockaddr *source, const struct sockaddr *addr,
		socklen_t addr_size, char *uri, size_t uri_size);
int verbs_may_tune(const struct rf_fabric *fab, const struct rf_tuning *tuning);
/* Give ep an id that resolves the address of its peer. */
int verbs_path_begin(struct verbs_ep *ep);
/* It is resolved: 1 if so, 0 if it begins again with the GID's address. */
int verbs_path_resolved(struct verbs_ep *ep);
/* Is the port, which was resolved, known to be down? */
bool verbs_path_is_down(const struct verbs_ep *ep);
/* Connected: by the GID that was asked for?  Said, if not. */
int verbs_path_check(struct verbs_ep *ep);
/* Before id is bound: may change addr. */
int verbs_path_listen(const struct verbs_fabric *fabric, struct rdma_cm_id *id,
		      struct sockaddr_storage *addr);

/* ---- verbs_poller.c ------------------------------------------------------ */

int verbs_poller_create(struct rf_fabric *fab, uint32_t ops_max,
			struct rf_poller **out);
void verbs_poller_destroy(struct rf_poller *poller);
unsigned int verbs_poller_run(struct rf_poller *poller, unsigned int budget);
int verbs_poller_fd(const struct rf_poller *poller);
int verbs_poller_arm(struct rf_poller *poller);
void verbs_poller_wants(struct verbs_poller *poller, struct verbs_ep *ep);

/* ---- verbs_events.c ------------------------------------------------------ */

/* From now on, until it leaves, it is told what concerns it. */
void verbs_events_join(struct verbs_poller *poller);
void verbs_events_leave(struct verbs_poller *poller);
/* To heed what it was told.  [any] */
void verbs_events_wake(struct verbs_poller *poller);
/* The same, all pollers of this device.  [any] */
void verbs_events_wake_all(const struct ibv_context *context);
/* Read what the device says, and tell those whom it concerns. */
void verbs_take_device_events(struct verbs_poller *poller);
/* One of them; tests make up what no device does when asked.  [any] */
void verbs_take_device_event(const struct ibv_context *context,
			     const struct ibv_async_event *event);
/* Heed what was told about our endpoints, here or on another thread; the number
 * of callbacks run. */
unsigned int verbs_heed_device(struct verbs_poller *poller);

/* The device, or its driver, says why ep is over.  [any] */
void verbs_events_tell(struct verbs_ep *ep, int reason);

/* ---- verbs_gone.c -------------------------------------------------------- */

/* Give fabric the context of the device of this name, or of the first one; false:
 * there is none.  [any] */
bool verbs_context_get(struct verbs_fabric *fabric, const char *name);
/* Nothing is left of it.  If the device is gone and nobody else here uses it,
 * the kernel may forget it now.  [any] */
void verbs_context_put(struct verbs_fabric *fabric);
/* Let go of those whose device is gone and that nobody uses.  [any] */
void verbs_contexts_sweep(void);
/* rdma_cm has opened this one, perhaps just now.  [any] */
void verbs_context_seen(const struct ibv_context *context);
/* The device is gone: mark its fabrics, wake its pollers, say so, once.  [any] */
void verbs_device_is_gone(const struct ibv_context *context);
/* The kernel's word on devices that go; -1: it can't be had. */
int verbs_uevents_open(void);
void verbs_take_uevents(int fd);

/* ---- verbs_cm.c ---------------------------------------------------------- */

int verbs_ep_connect(struct rf_poller *poller, const struct sockaddr *addr,
		     socklen_t addr_size, const void *hello, size_t hello_size,
		     const struct rf_ep_config *config,
		     const struct rf_ep_events *events, void *context,
		     struct rf_ep **out);
int verbs_ep_accept(struct rf_incoming *incoming, struct rf_poller *poller,
		    const void *hello, size_t hello_size,
		    const struct rf_ep_config *config,
		    const struct rf_ep_events *events, void *context,
		    const struct rf_recv *recvs, unsigned int recv_count,
		    struct rf_ep **out);
void verbs_ep_reject(struct rf_incoming *incoming, const void *hello,
		     size_t hello_size);
void verbs_ep_close(struct rf_ep *ep);
int verbs_ep_addresses(const struct rf_ep *ep, struct sockaddr_storage *local,
		       struct sockaddr_storage *peer);
int verbs_listener_open(struct rf_poller *poller, const struct sockaddr *addr,
			socklen_t addr_size, rf_request_fn on_request,
			void *context, struct rf_listener **out);
int verbs_listener_address(const struct rf_listener *listener,
			   struct sockaddr_storage *out);
void verbs_listener_close(struct rf_listener *listener);
int verbs_incoming_peer(const struct rf_incoming *incoming,
			struct sockaddr_storage *out);

/* Take one event of the channel; the number of callbacks run, -1: none left. */
int verbs_cm_event(struct verbs_poller *poller);
/* The connection is over, for this reason, unless one is known already. */
void verbs_ep_end(struct verbs_ep *ep, int reason);
/* The same of a reason for which a completion may have a better one. */
void verbs_ep_is_over(struct verbs_ep *ep, int reason);
/* Nothing is left that the device could touch, or its time is over. */
bool verbs_ep_is_quiet(const struct verbs_ep *ep);
/* If it is quiet: closed(), and ep is gone.  True if so. */
bool verbs_ep_finish(struct verbs_ep *ep);
/* One may be over: heed those that are, find the next one. */
void verbs_ep_deadlines(struct verbs_poller *poller);
void verbs_listener_free(struct verbs_listener *listener);
/* No endpoint is left. */
void verbs_cm_fini(struct verbs_poller *poller);

/* ---- verbs_dial.c -------------------------------------------------------- */

/* rdma_connect() on a thread; what it says is told to ep.  Negative errno: there
 * is no thread. */
int verbs_dial_start(struct verbs_ep *ep, const struct rdma_conn_param *param);
/* ep is connected: the thread ends by itself, now. */
void verbs_dial_finish(struct verbs_ep *ep);
/* If it is under way, interrupt it; it is over when this returns. */
void verbs_dial_stop(struct verbs_ep *ep);

/* ---- verbs_queue.c ------------------------------------------------------- */

int verbs_rings_init(struct verbs_ep *ep);
int verbs_queue_init(struct verbs_ep *ep);
void verbs_queue_fini(struct verbs_ep *ep);
int verbs_ep_post(struct rf_ep *ep, const struct rf_work *works,
		  unsigned int count);
int verbs_ep_post_recv(struct rf_ep *ep, const struct rf_recv *recv);
/* Into the ring only.  -EAGAIN: it is full. */
int verbs_put_recv(struct verbs_ep *ep, const struct rf_recv *recv);
/* Read a byte of the peer; an answer or a failure tells how it is. */
void verbs_post_probe(struct verbs_ep *ep);
/* Give the device what waits: Receives once there is a queue pair, works once
 * we may speak.  A negative errno is the connection's end. */
int verbs_give_recvs(struct verbs_ep *ep);
int verbs_give_works(struct verbs_ep *ep);
/* Run completions; *left is false when the queue was found empty. */
unsigned int verbs_poll_queue(struct verbs_ep *ep, unsigned int budget,
			      bool *left);
/* Look whether there are completions, but leave them for the next poll. */
bool verbs_peek_queue(struct verbs_ep *ep);
/* After the queue pair is gone: complete the rest.  Returns callbacks run. */
unsigned int verbs_flush_rest(struct verbs_ep *ep);
bool verbs_queue_is_idle(const struct verbs_ep *ep);

#endif /* RF_VERBS_IMPL_H */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric_impl.h - what a transport implements; only fabric.c and transports
 * include it
 *
 * Each transport embeds these structures as the first member of its own, and
 * fills the table.  fabric.c checks the rules of fabric.h that need no
 * knowledge of the transport (owner's thread, states, sizes, duplicate posts),
 * so that a transport may rely on them.
 */
#ifndef RF_FABRIC_IMPL_H
#define RF_FABRIC_IMPL_H

#include "fabric.h"

#include <pthread.h>

struct rf_fabric_ops {
	const char *scheme;
	/* rest is what follows "scheme://". */
	int (*open)(const char *rest, struct rf_fabric **out);
	void (*close)(struct rf_fabric *fab);
	/* source may be NULL. */
	int (*route)(const struct sockaddr *source, const struct sockaddr *addr,
		     socklen_t addr_size, char *uri, size_t uri_size);
	/* May it be so?  NULL: all but a GID index. */
	int (*may_tune)(const struct rf_fabric *fab,
			const struct rf_tuning *tuning);
	void (*stats)(const struct rf_fabric *fab, struct rf_fabric_stats *out);

	int (*pd_create)(struct rf_fabric *fab, struct rf_pd **out);
	void (*pd_destroy)(struct rf_pd *pd);
	int (*mr_register)(struct rf_pd *pd, void *base, size_t size,
			   unsigned int access, struct rf_mr **out);
	void (*mr_deregister)(struct rf_mr *mr);
	int (*window_create)(struct rf_pd *pd, struct rf_window **out);
	void (*window_destroy)(struct rf_window *window);
	/* Chooses window->remote.rkey; the rest is set by fabric.c. */
	uint32_t (*window_next_key)(struct rf_window *window);

	int (*poller_create)(struct rf_fabric *fab, uint32_t ops_max,
			     struct rf_poller **out);
	void (*poller_destroy)(struct rf_poller *poller);
	unsigned int (*poller_run)(struct rf_poller *poller,
				   unsigned int budget);
	int (*poller_fd)(const struct rf_poller *poller);
	int (*poller_arm)(struct rf_poller *poller);

	int (*ep_connect)(struct rf_poller *poller,
			  const struct sockaddr *addr, socklen_t addr_size,
			  const void *hello, size_t hello_size,
			  const struct rf_ep_config *config,
			  const struct rf_ep_events *events, void *context,
			  struct rf_ep **out);
	int (*ep_accept)(struct rf_incoming *incoming, struct rf_poller *poller,
			 const void *hello, size_t hello_size,
			 const struct rf_ep_config *config,
			 const struct rf_ep_events *events, void *context,
			 const struct rf_recv *recvs, unsigned int recv_count,
			 struct rf_ep **out);
	void (*ep_reject)(struct rf_incoming *incoming, const void *hello,
			  size_t hello_size);
	void (*ep_close)(struct rf_ep *ep);
	int (*ep_addresses)(const struct rf_ep *ep,
			    struct sockaddr_storage *local,
			    struct sockaddr_storage *peer);
	int (*ep_post)(struct rf_ep *ep, const struct rf_work *works,
		       unsigned int count);
	int (*ep_post_recv)(struct rf_ep *ep, const struct rf_recv *recv);

	int (*listener_open)(struct rf_poller *poller,
			     const struct sockaddr *addr, socklen_t addr_size,
			     rf_request_fn on_request, void *context,
			     struct rf_listener **out);
	int (*listener_address)(const struct rf_listener *listener,
				struct sockaddr_storage *out);
	void (*listener_close)(struct rf_listener *listener);
	int (*incoming_peer)(const struct rf_incoming *incoming,
			     struct sockaddr_storage *out);
};

extern const struct rf_fabric_ops rf_iwarp_ops;
extern const struct rf_fabric_ops rf_loop_ops;
#ifdef RF_HAVE_VERBS
extern const struct rf_fabric_ops rf_verbs_ops;
#endif

/* Transports set every other member; fabric.c reads them. */
struct rf_fabric {
	const struct rf_fabric_ops *ops;
	struct rf_limits limits;
	struct rf_traits traits;
	struct rf_tuning tuning;	/* fabric.c sets it */
	enum rf_level level;
	bool pins_memory;
	bool is_gone;			/* [any] */
};

struct rf_pd {
	struct rf_fabric *fab;
};

struct rf_mr {
	struct rf_pd *pd;
	void *base;
	size_t size;
	unsigned int access;
	uint32_t rkey;		/* 0 if the region has no remote right */
};

enum rf_window_state {
	RF_WINDOW_FREE,
	RF_WINDOW_CHOSEN,	/* rf_window_next() called, not yet bound */
	RF_WINDOW_BOUND,
	RF_WINDOW_UNBINDING,	/* RF_UNBIND posted, not done */
};

struct rf_window {
	struct rf_pd *pd;
	const struct rf_mr *mr;
	struct rf_remote remote;
	unsigned int access;
	/*
	 * fabric.c moves it on next and post; the transport sets FREE when the
	 * window was unbound, invalidated by the peer, or its endpoint closed.
	 */
	enum rf_window_state state;
	struct rf_ep *ep;	/* while bound or unbinding */
};

struct rf_poller {
	struct rf_fabric *fab;
	uint32_t ops_max;
	const void *owner;		/* fabric.c; NULL: not known yet */
	bool is_running;	/* inside rf_poller_run() */
	void (*gone)(void *context);	/* NULL: nobody waits for it */
	void *gone_context;
};

struct rf_listener {
	struct rf_poller *poller;
};

struct rf_incoming {
	struct rf_listener *listener;
};

struct rf_ep {
	struct rf_poller *poller;
	struct rf_pd *pd;
	struct rf_ep_config config;
	struct rf_ep_events events;
	void *context;
	struct rf_limits limits;
	/* Set by the transport. */
	bool is_connected;	/* connected() was called, not closing */
	bool is_closing;
};

/*
 * rf_op.state, kept by fabric.c's checks: a transport calls rf_op_done() for
 * each lent op, which clears it and calls done().
 */
enum {
	RF_OP_IDLE = 0,
	RF_OP_POSTED = 0x504f5354,
};
void rf_op_done(struct rf_op *op, int status);

#endif /* RF_FABRIC_IMPL_H */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - one storage server: where it listens, what it holds, how it ends
 *
 *	main.c      options, signals, the turn of the reactor
 *	server.c    arena, exports; start, drain, figures
 *	transport.c fabrics
 *	listen.c    the addresses to listen on, and with what
 *	comeback.c  devices that are taken away, and come back
 *	greet.c     a connection until its HELLO is admitted
 *	greet_resume.c  the same of RESUME
 *	session.c   a client: identities, opens, what it was lent
 *	session_life.c      its lease, the grace period after a start
 *	session_resume.c    its return, also after a start
 *	silence.c           a connection on which nothing is said
 *	exec*.c     what a request does, operation by operation
 *	staging.c   lend.c  grants.c  slice.c   memory lent to clients
 *	busy.c      who has an inode while workers use it
 *	locks*.c    who has locked which bytes, and who waits
 *	pace.c      what the reactor stores by itself, and what workers do
 *	access.c    peer_user.c         who may come
 *	store.h     names, attributes, data: the other half of the server
 *
 * One turn: requests run and their batches are committed; at its end the log is
 * written out once, and only then the answers leave, of all sessions.
 *
 * Memory.  All that grows with use is bounded by the configuration:
 *
 *	arena = sessions x requests x 2 x M     messages received and answered
 *	      + greeters x 2 x M                connections before HELLO
 *	      + staging                         bulk data, READ and WRITE slots
 *	requests = slots + SERVER_CONTROL_SLOTS + SERVER_QUEUED_MAX = 84
 *	M = inline_max + RF_MSG_OVERHEAD, up to whole pages = 8 KiB
 *
 * (one class for both, so that sessions with small messages do not eat up the
 * greeters' buffers), by default 64 x 84 x 16 KiB + 4 MiB + 64 MiB = 152 MiB, beside
 * about 300 KiB of tables for each session that is there.
 *
 * On a device without windows a connection's messages and staging are its slice
 * (slice.h), made at the start beside the arena: slices x (98 x M + staging), by
 * default 16 x (0.8 + 8) MiB, and half as much again as copies of what is
 * written, where slots are used.
 *
 * Threads.  [owner]: the thread that runs the reactor, for all of it.
 */
#ifndef SERVER_H
#define SERVER_H

#include "access.h"
#include "busy.h"
#include "config.h"
#include "locks.h"
#include "pace.h"
#include "slice.h"
#include "staging.h"
#include "store.h"

#include "libproto/rpc.h"

enum {
	SERVER_CONTROL_SLOTS = 4,
	SERVER_QUEUED_MAX = 16,		/* requests of a session that wait */
	SERVER_TRANSPORTS_MAX = 16,	/* devices, and iwarp */
	SERVER_LISTENERS_MAX = 64,	/* addresses, of all of them */
	TRANSPORT_URI_SIZE = 256,
	SERVER_GREETER_BUFS = 2,
	SERVER_OBJECT_CACHE = 1024,	/* data files kept open */
	SERVER_LINGER_MS = 200,		/* for last answers to arrive */
	SERVER_DRAIN_MS = 30000,	/* then what still runs is given up */
	SERVER_WRITE_SLOTS_MAX = 64,	/* of one session */
	SERVER_GROUPS_MAX = 65536,	/* of all identities of one session */
	SERVER_IDLE_GREETER_MS = 200,	/* younger ones are never pushed out */
	SERVER_GREETERS_LEAVING = 16,	/* pushed out, not closed yet */
	SERVER_ENDED_MAX = 64,		/* ends that are remembered */
};

/* A fabric that we listen on. */
struct transport {
	struct rf_fabric *fabric;
	struct rf_poller *poller;
	bool has_windows;		/* if so, all its connections share */
	struct rf_pd *pd;
	struct rf_mr *mr;
	struct windows windows;
	struct lending lending;
	struct slices slices;		/* else each has one of these */
	bool is_polled;
	bool is_lost;			/* the device is gone, not all users yet */
	unsigned int users;		/* greetings and sessions on it */
	struct server *server;
	char scheme[CONFIG_SCHEME_MAX + 1];
	char uri[TRANSPORT_URI_SIZE];	/* verbs://mlx5_0 */
};

struct listener {
	struct server *server;
	struct transport *transport;
	struct rf_listener *listener;	/* NULL: its device is gone */
	struct sockaddr_storage addr;
	int said_err;			/* why it can't come back yet */
};

struct export {
	const struct export_config *config;
	uint64_t inode;
	uint32_t tree;
};

struct server {
	const struct config *config;
	struct rf_reactor *reactor;
	struct rf_workers *workers;
	struct rf_pool *pool;
	struct store *store;
	struct rf_key key;
	struct transport transports[SERVER_TRANSPORTS_MAX];
	unsigned int transport_count;
	struct listener listeners[SERVER_LISTENERS_MAX];
	unsigned int listener_count;
	struct comeback *comeback;	/* of devices that are gone */
	struct export *exports;

	struct busy busy;
	struct locks locks;
	struct rf_task locks_task;	/* what they have put off */
	bool locks_task_is_posted;
	struct pace pace;
	struct staging staging;
	struct penalties penalties;
	struct rf_list greetings;	/* oldest first */
	struct rf_list waiting_hellos;	/* of mounts whose former session has
					 * not ended yet */
	struct rf_task hello_task;	/* one has: ask again */
	bool hello_task_is_posted;
	struct rf_list sessions;
	struct rf_list answered;	/* sessions with answers to let go */
	struct rf_list unbinding;	/* sessions with unbinds to post */
	struct rf_list staged;		/* requests with an end to their wait */
	unsigned int greeting_count, session_count;
	unsigned int wiping;		/* slices on their way back */
	unsigned int active;		/* requests not answered */
	struct rf_hook hook;
	uint8_t *scratch;		/* STAGING_LARGE: answers in the making */
	struct rf_timer grace_timer;	/* started: there is a grace period */
	uint64_t grace_until_ns;
	unsigned int grace_waits;	/* clients that may still reclaim */
	struct rf_timer silence_timer;	/* a part of the lease */
	uint64_t ticked_ns;		/* when that was started */
	/* Why the last sessions are over, for those who come back. */
	struct {
		uint64_t session;
		const char *why;
	} ended[SERVER_ENDED_MAX];
	unsigned int ended_count;	/* ever */
	bool has_synced_all;		/* of what was written before the start */
	struct sync_request record_sync;	/* of the records of clients */
	bool is_record_syncing, has_new_records;

	bool is_draining, lingers, is_closing, is_stopped, is_hooked;
	struct rf_task drain_task;
	struct rf_timer drain_timer;	/* linger, then give up */
	void (*stopped)(struct server *server);	/* may be NULL */

	struct {
		uint64_t greeted, admitted, refused, pushed_out, requests, ops,
			 rewinds, bad_messages, lost, resumed, expired;
	} figures;
};

/*
 * Open everything and listen; logs one "ready" line per address.  [blocks]
 * config must outlive the server.  Errors were logged.
 */
int server_create(const struct config *config, struct rf_reactor *reactor,
		  struct server **out);

/*
 * Stop in order: accept no more, finish and answer what was received, close the
 * sessions.  stopped() runs when that is done.
 */
void server_stop(struct server *server, void (*stopped)(struct server *server));

/* After stopped(): flush and close the store, free everything.  [blocks] */
void server_destroy(struct server *server);

void server_log_figures(struct server *server);

/* Bytes of the arena, which is registered for each fabric. */
uint64_t server_arena_size(const struct config *config);

/* doctor.c: rdmafsd --doctor.  The exit status.  [blocks] */
int server_doctor(const struct config *config);

/* The port of the listener number index, for tests. */
int server_address(const struct server *server, unsigned int index,
		   struct sockaddr_storage *out);

/* ---- between the files -------------------------------------------------- */

/* slice: NULL where there are windows. */
void server_fill_rpc_config(const struct server *server,
			    const struct transport *transport,
			    const struct slice *slice,
			    struct rf_server_config *out);
/* The class of buffers that messages and HELLO have. */
uint32_t server_message_size(const struct config *config);
/* NULL: there is none of that name. */
const struct export *server_find_export(const struct server *server,
					const char *name);
/* A request or session has ended: a drain may go on. */
void server_check_drain(struct server *server);

/* greet.c */
void greet(void *context, struct rf_incoming *incoming, const void *hello,
	   size_t hello_size);
void greet_close_all(struct server *server);
/* A session is gone: a HELLO may have waited for it. */
void greet_session_gone(struct server *server);

#endif /* SERVER_H */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - one client, from its HELLO to BYE or the end of its lease
 *
 *	            HELLO                 start, from its record
 *	              v                              v
 *	            OPEN  -- connection ends -->   LOST  -- lease over --> gone
 *	              |   <-- RESUME ----------      |
 *	              `-- BYE, broken rule --> gone  `-- HELLO of its mount --> gone
 *
 * Operation.  A session has one channel, or none while it is LOST.  Identities
 * are registered under an index and named by each request; opens remember
 * rights.  When the connection ends, its requests run to their end and what it
 * was lent goes back; identities and opens stay.  The record in the store is
 * there as long as the session, so that a server that is started anew finds it;
 * with the session it goes, and who comes back then is refused.
 *
 * Threads.  [owner] of the server.
 *
 *	session.c         beginning, requests, identities, opens
 *	session_life.c    its connection's end, its own, the grace period
 *	session_resume.c  its return, also after a start
 *	silence.c         a connection on which nothing is said
 */
#ifndef SESSION_H
#define SESSION_H

#include "locks.h"
#include "open_table.h"
#include "server.h"

struct exec;

/* Who asks: as the client says, squashed where the export does. */
struct identity {
	struct cred cred;
	bool is_set;
	uint32_t *groups;	/* cred's */
};

struct greeting;

struct session {
	struct server *server;
	struct transport *transport;	/* of the last connection */
	struct slice *slice;		/* of this; NULL where there are
					 * windows */
	const struct export *export;
	struct rf_channel *channel;	/* NULL: LOST */
	uint64_t id;
	struct client_record record;
	bool is_read_only;
	bool uses_crc;
	bool is_closed;		/* no connection any more */
	bool is_ending;		/* after BYE, or a broken rule */
	bool is_over;		/* as soon as its last request is */
	bool was_forgotten;	/* its record and answers are gone */
	bool is_restored;	/* from its record, at the start */
	bool must_reclaim;	/* RECLAIM_DONE has not come since */
	bool holds_grace;	/* the grace period waits for it */
	bool is_syncing;	/* sync_job is under way */
	enum {
		END_AT_ONCE,
		END_SYNCS,	/* end_sync is under way */
		END_UNSURE,	/* it failed: what the session has stays its own */
	} end_state;
	bool is_doubtful;	/* whether what kept answers say is durable is
				 * so: these say IO then */
	struct rf_hello_limits limits;
	struct lender lender;
	struct open_table opens;
	struct lock_session locks;
	struct exec *lock_poll;		/* LOCK_EVENTS that waits, or NULL */
	struct identity *identities;	/* RF_IDENTITIES_MAX */
	uint32_t group_total;
	struct exec *execs;	/* while there is a channel */
	unsigned int exec_count;
	struct rf_timer end_timer;
	struct rf_timer lease_timer;	/* while LOST */
	uint64_t received;		/* messages, at the last tick */
	unsigned int silent_ticks;	/* since then; see silence.c */
	struct greeting *resumer;	/* waits for it; NULL: none */
	struct rf_job sync_job;
	struct sync_request end_sync;
	struct rf_list link;		/* in the server */
	struct rf_list answered_link, unbinding_link;
	char name[RF_HOST_MAX + ACCESS_TEXT_SIZE + 4];	/* for logs */
};

/* What greet.c found.  hello is NULL in a RESUME, resume in a HELLO. */
struct admission {
	struct transport *transport;
	struct slice *slice;		/* the session's, if it is made */
	const struct export *export;
	const struct rf_hello *hello;
	const struct rf_resume *resume;
	const uint8_t *client_proof;	/* RESUME: its digest */
	const char *peer;
};

/* ---- session.c ---------------------------------------------------------- */

/*
 * Make a session of a greeter.  RF_ST_OK: the greeter is gone.  Else why not;
 * the greeter is still there, to be refused.
 */
enum rf_status session_admit(struct server *server, struct rf_greeter *greeter,
			     const struct admission *admission);
/* A mount that says HELLO has given up the sessions that it had.  False: there is
 * one of which something still runs; greet_session_gone() tells of its end. */
bool session_end_former(struct server *server,
			const uint8_t uuid[RF_UUID_SIZE]);
/* A session of this record, without a connection.  NULL: no memory. */
struct session *session_make(struct server *server,
			     const struct client_record *record,
			     const struct export *export);
void session_free(struct session *session);
/* What it may lend over its connection (the slice is its own, if this succeeds),
 * and its requests.  session_disconnect() undoes it when the last request has
 * ended, session_lend_off() before the first. */
int session_lend_on(struct session *session, const struct admission *admission,
		    struct rf_ep *ep);
void session_lend_off(struct session *session);
int session_make_execs(struct session *session);
void session_disconnect(struct session *session);
extern const struct rf_channel_events session_channel_events;

/* ---- session_life.c ----------------------------------------------------- */

/* The connection ended, because of err; then its last request. */
void session_lost(struct session *session, int err);
void session_drained(struct session *session);
/* It is over: why, for the log (NULL: it was said).  At once, or with its last
 * request; it may be gone when this returns. */
void session_expire(struct session *session, const char *why);
/* The same against its client's will, who may come back after the machine went down:
 * others get what it had when its end is on the platter.  False: the store has failed,
 * and the session goes on. */
bool session_evict(struct session *session, const char *why);
/* Does something of it run, that has to end first? */
bool session_is_busy(const struct session *session);
/* What that said, if it is not too long ago; else NULL.  Whys are constants. */
const char *session_why_over(const struct server *server, uint64_t session);
void session_start_lease(struct session *session);
/* The server stops: without a trace in memory, and all in the store. */
void session_put_away(struct session *session);
/* Drop the record and the answers. */
void session_forget(struct session *session);
/* RECLAIM_DONE, or it is gone: the grace period need not wait for it. */
void session_reclaimed(struct session *session);

/* After a start with former clients. */
void grace_begin(struct server *server);
/* All of its time is left. */
void grace_start(struct server *server);
bool server_in_grace(const struct server *server);
/* Milliseconds left, 0 if there is none. */
uint32_t grace_left_ms(const struct server *server);

/* ---- session_resume.c --------------------------------------------------- */

/* The sessions of a former run; some may be dropped, which is logged. */
int sessions_load(struct server *server);
struct session *session_find(const struct server *server, uint64_t id);
/* It may now get a connection: no request of the last one is left, and what its
 * kept answers promise is true.  False: greet_resume() is called when it may. */
bool session_is_ready(struct session *session);
/* As session_admit(). */
enum rf_status session_resume(struct session *session,
			      struct rf_greeter *greeter,
			      const struct admission *admission);
/* Write its record to the log, which survives this process; to the platter soon,
 * for a session that only reads must survive the machine as well. */
int session_put_record(struct session *session);
/* Of the channel: a slot with a kept answer is used again. */
void session_resent(struct session *session, uint16_t slot, bool is_resent);
/* RECLAIM_DONE: it has what it wants. */
void session_end_reclaim(struct session *session);
/* Does an answer that a slot keeps say that this open is released? */
bool session_has_released(struct session *session, uint32_t id);

/* ---- silence.c ---------------------------------------------------------- */

void silence_start(struct server *server);
void silence_stop(struct server *server);
/* Has this process just gone on after it, or its machine, was stopped? */
bool server_was_stopped(const struct server *server);
/* It has a connection, and has said nothing for its lease. */
bool session_is_silent(const struct session *session);
/* All sessions are taken: true if one is ending, a silent one if there is one. */
bool silence_make_room(struct server *server);

/* ---- greet_resume.c ----------------------------------------------------- */

/* The session of a waiting RESUME is ready, or over. */
void greet_resume(struct greeting *greeting);
void greet_session_over(struct greeting *greeting);

/* ---- of a session that is there ----------------------------------------- */

/* Close its connection; the rest follows. */
void session_close(struct session *session);

/* The client broke a rule: close when the answer that says so has left. */
void session_end(struct session *session, const char *why);

/* BYE: opens and recorded answers go now; the connection when the client
 * closes it, or soon. */
void session_bye(struct session *session);

/* The identity at index, or NULL if none was registered. */
const struct cred *session_cred(const struct session *session,
				unsigned int index);
/* 0, RF_ST_TOO_MANY, RF_ST_NOMEM. */
int session_set_identity(struct session *session,
			 const struct rf_identity_args *args);

/* Its answers leave at the end of this turn. */
void session_answered(struct session *session);
/* Its lender has unbinds to post at the end of this turn. */
void session_unbinding(struct session *session);

/* Is other of the same host, by its name? */
bool session_is_of_host(const struct session *session,
			const struct session *other);

/* Take all its opens and locks away, or: */
void session_release_all(struct session *session);
/* Take an open away, now or when its last user has ended. */
void session_release(struct session *session, uint32_t id);
/* An open that the session had before a restart is there again.  0 also if it
 * is already, or if it was released by a RELEASE that the client will send again,
 * and its place is another's; -ESTALE, -EBADF (its place is taken), -EMFILE,
 * -ENFILE, -ENOMEM. */
int session_reclaim(struct session *session, const struct open_proof *open);
/* Of requests: an open that a worker's operation needs. */
void session_open_put(struct session *session, uint32_t id);

#endif /* SESSION_H */

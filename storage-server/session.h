/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - one client, from its HELLO to BYE or the end of its connection
 *
 * Operation.  A session has one channel.  Identities are registered under an
 * index and named by each request; opens remember rights.  When the connection
 * ends its requests run to their end, its opens are closed and what it was lent
 * goes back; the session goes with the last request.
 *
 * Threads.  [owner] of the server.
 */
#ifndef SESSION_H
#define SESSION_H

#include "open_table.h"
#include "server.h"

struct exec;

/* Who asks: as the client says, squashed where the export does. */
struct identity {
	struct cred cred;
	bool is_set;
	uint32_t *groups;	/* cred's */
};

struct session {
	struct server *server;
	struct transport *transport;
	struct slice *slice;		/* NULL where there are windows */
	const struct export *export;
	struct rf_channel *channel;
	uint64_t id;
	uint32_t epoch;
	bool is_read_only;
	bool uses_crc;
	bool is_closed;		/* no connection any more */
	bool is_ending;		/* after BYE, or a broken rule */
	bool was_forgotten;	/* its recorded answers are gone */
	struct rf_hello_limits limits;
	struct lender lender;
	struct open_table opens;
	struct identity *identities;	/* RF_IDENTITIES_MAX */
	uint32_t group_total;
	struct exec *execs;
	unsigned int exec_count;
	struct rf_timer end_timer;
	struct rf_list link;		/* in the server */
	struct rf_list answered_link, unbinding_link;
	char name[RF_HOST_MAX + ACCESS_TEXT_SIZE + 4];	/* for logs */
};

/* What greet.c found. */
struct admission {
	struct transport *transport;
	struct slice *slice;		/* the session's, if it is made */
	const struct export *export;
	const struct rf_hello *hello;
	const uint8_t *client_proof;
	const char *peer;
};

/*
 * Make a session of a greeter.  RF_ST_OK: the greeter is gone.  Else why not;
 * the greeter is still there, to be refused.
 */
enum rf_status session_admit(struct server *server, struct rf_greeter *greeter,
			     const struct admission *admission);

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

/* Take an open away, now or when its last user has ended. */
void session_release(struct session *session, uint32_t id);
/* An open that the session had before a restart is there again.  0 also if it
 * is already; -ESTALE, -EBADF (its place is taken), -EMFILE, -ENFILE, -ENOMEM. */
int session_reclaim(struct session *session, const struct open_proof *open);
/* Of requests: an open that a worker's operation needs. */
void session_open_put(struct session *session, uint32_t id);

#endif /* SESSION_H */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_life.c - how long a session lives: its connection's end, its lease, the
 * grace period after a start
 *
 * Operation.  A session without a connection is kept for a lease, and is then
 * over: opens are released, its record and answers forgotten.  A broken rule or
 * BYE ends it at once.  When the server stops, nothing of it is undone: what it
 * had open stays so in the eyes of the store, for the next start.
 *
 * If we end a session by ourselves its locks go to others when its end is on the
 * platter.  Else both might claim them after a power cut, and the first who comes
 * might be the one that had lost them.
 *
 * After a start with former clients, inodes without a name are kept, and what
 * conflicts with what these clients may reclaim has to wait (server_in_grace()),
 * until each has said RECLAIM_DONE or is gone, or the time is over.
 *
 * Ownership.  A session is freed when nothing of it runs any more: no channel, no
 * sync_job, no end_sync.
 */
#include "session.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- the grace period --------------------------------------------------- */

bool server_in_grace(const struct server *server)
{
	return rf_timer_is_started(&server->grace_timer);
}

uint32_t grace_left_ms(const struct server *server)
{
	uint64_t now_ns = rf_reactor_now_ns(server->reactor);

	if (!server_in_grace(server) || server->grace_until_ns <= now_ns)
		return 0;
	/* Never 0 while there is one. */
	return (uint32_t)((server->grace_until_ns - now_ns) / 1000000) + 1;
}

static void end_grace(struct server *server, const char *why)
{
	struct store_stats stats;

	store_stats(server->store, &stats);
	rf_timer_stop(server->reactor, &server->grace_timer);
	rf_log(RF_LOG_INFO, "grace period over: %s; %" PRIu64 " files without "
	       "a name were kept, and go unless they are open", why,
	       stats.orphans);
	store_release_orphans(server->store);
	locks_end_grace(&server->locks);
}

static void grace_timed_out(struct rf_timer *timer)
{
	struct server *server = rf_container_of(timer, struct server,
						grace_timer);
	char why[80];

	if (server_was_stopped(server)) {
		grace_start(server);
		return;
	}
	snprintf(why, sizeof(why), "%u of its clients did not come back",
		 server->grace_waits);
	end_grace(server, why);
}

void grace_start(struct server *server)
{
	server->grace_until_ns = rf_reactor_now_ns(server->reactor) +
				 server->config->grace_ms * UINT64_C(1000000);
	server->grace_timer.fire = grace_timed_out;
	rf_timer_start(server->reactor, &server->grace_timer,
		       server->config->grace_ms);
}

void grace_begin(struct server *server)
{
	struct rf_list *pos;

	rf_list_for_each(pos, &server->sessions) {
		rf_container_of(pos, struct session, link)->holds_grace = true;
		server->grace_waits++;
	}
	if (server->grace_waits == 0) {
		store_release_orphans(server->store);
		return;
	}
	rf_log(RF_LOG_INFO, "grace period: %u clients of before may come back, "
	       "for up to %" PRIu32 " ms", server->grace_waits,
	       server->config->grace_ms);
	server->locks.is_in_grace = true;
	grace_start(server);
}

void session_reclaimed(struct session *session)
{
	struct server *server = session->server;

	session->must_reclaim = false;
	if (!session->holds_grace)
		return;
	session->holds_grace = false;
	RF_ASSERT(server->grace_waits > 0);
	if (--server->grace_waits == 0 && server_in_grace(server))
		end_grace(server, "all clients of before are back or gone");
}

/* ---- the end ------------------------------------------------------------ */

void session_forget(struct session *session)
{
	int err;

	if (session->was_forgotten)
		return;
	session->was_forgotten = true;
	err = store_forget_session(session->server->store, session->id);
	if (err)
		rf_log(RF_LOG_WARN, "%s: its record could not be removed: %s; "
		       "after a restart it may come back once more",
		       session->name, strerror(-err));
}

static void take_out(struct session *session)
{
	struct server *server = session->server;

	rf_timer_stop(server->reactor, &session->lease_timer);
	if (session->resumer)
		greet_session_over(session->resumer);
	RF_ASSERT(!session->resumer);
	rf_list_remove(&session->link);
	server->session_count--;
	session_free(session);
	greet_session_gone(server);
	server_check_drain(server);
}

bool session_is_busy(const struct session *session)
{
	return session->channel || session->is_syncing ||
	       session->end_state == END_SYNCS;
}

/* If nothing of it runs any more. */
static void finish(struct session *session)
{
	if (session_is_busy(session) || session->end_state == END_UNSURE)
		return;
	session_release_all(session);
	session_forget(session);
	session_reclaimed(session);
	rf_log(RF_LOG_INFO, "%s: session ended", session->name);
	take_out(session);
}

void session_put_away(struct session *session)
{
	if (session->channel)
		session_close(session);
	else if (!session_is_busy(session))
		take_out(session);
}

static void remember_end(struct server *server, uint64_t session,
			 const char *why)
{
	unsigned int at = server->ended_count++ % SERVER_ENDED_MAX;

	server->ended[at].session = session;
	server->ended[at].why = why;
}

const char *session_why_over(const struct server *server, uint64_t session)
{
	for (unsigned int i = 0; i < SERVER_ENDED_MAX; i++)
		if (server->ended[i].why &&
		    server->ended[i].session == session)
			return server->ended[i].why;
	return NULL;
}

static void begin_end(struct session *session, const char *why)
{
	if (why) {
		rf_log(RF_LOG_WARN, "%s: session is over: %s", session->name,
		       why);
		remember_end(session->server, session->id, why);
	}
	session->is_over = true;
	/* From now on a RESUME finds nothing, even if its requests take long. */
	session_forget(session);
	rf_timer_stop(session->server->reactor, &session->lease_timer);
	if (session->channel)
		session_close(session);
}

void session_expire(struct session *session, const char *why)
{
	begin_end(session, why);
	finish(session);
}

static void end_synced(struct sync_request *sync, int err)
{
	struct session *session = rf_container_of(sync, struct session, end_sync);

	session->end_state = err ? END_UNSURE : END_AT_ONCE;
	if (!err)
		finish(session);
	else if (session->server->is_draining)
		session_put_away(session);
}

bool session_evict(struct session *session, const char *why)
{
	struct server *server = session->server;

	if (store_has_failed(server->store))
		return false;
	server->figures.expired++;
	begin_end(session, why);
	session->end_state = END_SYNCS;
	session->end_sync = (struct sync_request){ .done = end_synced };
	store_sync(server->store, &session->end_sync);
	return true;
}

/* ---- the connection's end ----------------------------------------------- */

static void lease_over(struct rf_timer *timer)
{
	struct session *session = rf_container_of(timer, struct session,
						  lease_timer);

	/* It waits for us, or could not reach us; or its end could not be stored,
	 * and it would come back after the next start to locks that others have
	 * been given. */
	if (session->resumer || server_was_stopped(session->server) ||
	    !session_evict(session, "it did not come back in time; what it had "
			   "open is closed"))
		session_start_lease(session);
}

void session_start_lease(struct session *session)
{
	struct server *server = session->server;

	session->lease_timer.fire = lease_over;
	rf_timer_start(server->reactor, &session->lease_timer,
		       server->config->lease_ms);
}

void session_lost(struct session *session, int err)
{
	if (session->is_over) {
		session_forget(session);
		return;
	}
	if (session->server->is_draining)
		return;
	session->server->figures.lost++;
	/* A RESUME that waits is why it was closed. */
	if (!session->resumer)
		rf_log(RF_LOG_INFO, "%s: connection lost: %s; it may come back "
		       "within %" PRIu32 " ms", session->name,
		       err ? strerror(-err) : "closed by the client",
		       session->server->config->lease_ms);
	session_start_lease(session);
}

void session_drained(struct session *session)
{
	if (session->is_over)
		finish(session);
	else if (session->server->is_draining)
		session_put_away(session);
	else if (session->resumer)
		greet_resume(session->resumer);
}

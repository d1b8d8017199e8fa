/* SPDX-License-Identifier: Apache-2.0 */
/*
 * silence.c - clients that have a connection and say nothing, and a server that
 * could not hear them
 *
 * Operation.  A process that is stopped, or a link that hangs, keeps a connection
 * alive, but a client that lives says something at each third of its lease.  Time
 * is counted in ticks of ours, not by the clock: when this process was stopped
 * itself that is one tick, and what clients said meanwhile is read before the next.
 *
 * A client that was silent for its lease is not ended for that alone: if nobody
 * needs what it has, it may go on as if nothing had been.  It is over as soon as
 * another client waits for what it has locked, was refused for that, or finds no
 * place because all sessions are taken.  Its connection is closed, which kills its
 * rights, and what it has goes when the last of its requests has ended.
 *
 * Who has no connection could not come back while we were stopped.  So after a stop
 * of some ticks their leases, and the grace period, begin anew.
 */
#include "session.h"

#include <inttypes.h>

/* Each a SILENT_TICKSth of the lease; one more, for the first may be a short one. */
enum { SILENT_TICKS = 6 };

/* One tick may be late for other reasons. */
enum { STOPPED_TICKS = 2 };

bool session_is_silent(const struct session *session)
{
	return session->channel && !session->is_over &&
	       session->silent_ticks > SILENT_TICKS;
}

static bool has_spoken(struct session *session)
{
	struct rf_channel_stats stats;
	bool has;

	rf_channel_stats(session->channel, &stats);
	has = stats.received != session->received;
	session->received = stats.received;
	return has;
}

static void count(struct session *session)
{
	if (!session->channel || has_spoken(session)) {
		session->silent_ticks = 0;
		session->locks.was_in_the_way = false;
		return;
	}
	if (session->silent_ticks <= SILENT_TICKS &&
	    ++session->silent_ticks > SILENT_TICKS)
		rf_log(RF_LOG_INFO, "%s: has said nothing for its lease (%"
		       PRIu32 " ms); it keeps what it has until another "
		       "client needs that", session->name,
		       session->server->config->lease_ms);
}

/* ---- our own ------------------------------------------------------------ */

static uint64_t tick_ms(const struct server *server)
{
	return server->config->lease_ms / SILENT_TICKS + 1;
}

static uint64_t ms_since_tick(const struct server *server)
{
	return (rf_reactor_now_ns(server->reactor) - server->ticked_ns) /
	       1000000;
}

bool server_was_stopped(const struct server *server)
{
	return ms_since_tick(server) > STOPPED_TICKS * tick_ms(server);
}

static void begin_anew(struct server *server)
{
	struct rf_list *pos;

	rf_log(RF_LOG_INFO, "this server stood still for %" PRIu64 " ms; who is "
	       "away may come back as if it were lost now",
	       ms_since_tick(server));
	rf_list_for_each(pos, &server->sessions) {
		struct session *session =
			rf_container_of(pos, struct session, link);

		if (rf_timer_is_started(&session->lease_timer))
			session_start_lease(session);
	}
	if (server_in_grace(server))
		grace_start(server);
}

/* ---- ticks -------------------------------------------------------------- */

static void tick(struct rf_timer *timer)
{
	struct server *server = rf_container_of(timer, struct server,
						silence_timer);
	struct rf_list *pos;

	if (server_was_stopped(server))
		begin_anew(server);
	/* One with a connection stays in the list until that has ended. */
	rf_list_for_each(pos, &server->sessions) {
		struct session *session =
			rf_container_of(pos, struct session, link);

		count(session);
		if (session_is_silent(session) &&
		    locks_are_wanted(&session->locks))
			session_evict(session, "it said nothing for its lease, "
				      "and another client wants what it has "
				      "locked");
	}
	silence_start(server);
}

void silence_start(struct server *server)
{
	server->ticked_ns = rf_reactor_now_ns(server->reactor);
	server->silence_timer.fire = tick;
	rf_timer_start(server->reactor, &server->silence_timer,
		       tick_ms(server));
}

void silence_stop(struct server *server)
{
	rf_timer_stop(server->reactor, &server->silence_timer);
}

bool silence_make_room(struct server *server)
{
	struct session *silent = NULL;
	struct rf_list *pos;

	rf_list_for_each(pos, &server->sessions) {
		struct session *session =
			rf_container_of(pos, struct session, link);

		if (session->is_over)
			return true;
		if (!silent && session_is_silent(session))
			silent = session;
	}
	return silent && session_evict(silent, "it said nothing for its lease, "
				       "and another client needs its place");
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reconnect.c - the session from one connection to the next
 *
 * Operation.  When the connection is lost everything waits, and we try: the
 * name is looked up anew, each of its addresses is tried over the fabric that the
 * mount has (name and way are found on a worker: both may take long), then there
 * is a pause that doubles, with jitter, so that many clients of one server do not
 * come at once.  If another device leads there than before, or ours was taken away
 * and is back, the arena is registered with that one (on the worker too).
 * Once the server has taken the session back, reclaim.c sets up what it needs
 * and all goes on.
 *
 * If the server says that the session is over, the files that were open in it
 * are dead: EIO, for what others did to them meanwhile is unknown.  The mount
 * goes on with a new session.
 *
 * When it fails.  One line when the connection is lost, one when it is back;
 * between them one for each new reason why an attempt failed.
 */
#include "fs.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>

enum {
	BACKOFF_FIRST_MS = 50,
	/* A server that starts again is met soon; one that is away for longer
	 * is not bothered. */
	BACKOFF_SOON_MS = 500,
	BACKOFF_MAX_MS = 5000,
	SOON_MS = 60000,
};

uint64_t fs_away_ms(const struct fs *fs)
{
	if (!fs->is_away)
		return 0;
	return (rf_reactor_now_ns(fs->reactor) - fs->reconnect.since_ns) /
	       1000000;
}

/* ---- attempts ------------------------------------------------------------- */

static void wait_and_try(struct fs *fs)
{
	struct reconnect *again = &fs->reconnect;
	uint32_t most = fs_away_ms(fs) < SOON_MS ? BACKOFF_SOON_MS
						 : BACKOFF_MAX_MS;
	uint32_t random;

	rf_random(&random, sizeof(random));
	rf_timer_start(fs->reactor, &again->timer,
		       again->pause_ms / 2 + random % (again->pause_ms / 2));
	again->pause_ms = (uint32_t)rf_min_u64(again->pause_ms * 2, most);
}

static void drop_addresses(struct fs *fs)
{
	if (fs->reconnect.addresses)
		freeaddrinfo(fs->reconnect.addresses);
	fs->reconnect.addresses = fs->reconnect.next = NULL;
}

/* The reason is told if it is not the same as the last one. */
static void say_why(struct fs *fs, const char *reason)
{
	struct reconnect *again = &fs->reconnect;

	if (strcmp(again->said, reason) == 0)
		return;
	snprintf(again->said, sizeof(again->said), "%s", reason);
	rf_log(RF_LOG_WARN, "%s: %s; trying on", fs->server, reason);
}

/* On a worker: the addresses if there are none, and the way to the next one. */
static void find_way_run(struct rf_job *job)
{
	struct reconnect *again = rf_container_of(job, struct reconnect, job);
	struct fs *fs = rf_container_of(again, struct fs, reconnect);

	if (!again->addresses) {
		again->gai = connect_look_up(&fs->options, &again->addresses);
		if (again->gai) {
			again->addresses = NULL;
			return;
		}
		again->next = again->addresses;
		again->tried = 0;
	}
	again->route_err = connect_route(fs, again->next, again->uri);
}

static void find_way(struct fs *fs);

/* The next address, or a pause. */
static void try_next(struct fs *fs)
{
	if (fs->reconnect.next) {
		find_way(fs);
		return;
	}
	drop_addresses(fs);
	wait_and_try(fs);
}

static void post(struct fs *fs, void (*run)(struct rf_job *),
		 void (*done)(struct rf_job *))
{
	struct reconnect *again = &fs->reconnect;

	again->is_looking_up = true;
	again->job.run = run;
	again->job.done = done;
	rf_workers_post(fs->resolver, fs->reactor, &again->job);
}

/* Another device leads there now, or ours went and came back. */
static bool is_other_way(const struct fs *fs)
{
	return !fs->way.fabric || rf_fabric_is_gone(fs->way.fabric) ||
	       strcmp(fs->reconnect.uri, fs->keep->fabric_uri) != 0;
}

/* err: why there is none. */
static void go_way(struct fs *fs, const struct addrinfo *at, int err)
{
	bool is_known = !err;

	if (!err)
		err = connect_again(fs, at);
	if (!err)
		return;			/* opened(), resumed() or lost() */
	say_why(fs, err == -ENETUNREACH && !is_known ?
		"no device leads there" : strerror(-err));
	try_next(fs);
}

static void open_way_run(struct rf_job *job)
{
	struct reconnect *again = rf_container_of(job, struct reconnect, job);
	const struct fs *fs = rf_container_of(again, struct fs, reconnect);

	again->route_err = connect_open_way(fs, again->uri, &again->way);
}

static void opened_way(struct rf_job *job)
{
	struct reconnect *again = rf_container_of(job, struct reconnect, job);
	struct fs *fs = rf_container_of(again, struct fs, reconnect);
	int err = again->route_err;

	again->is_looking_up = false;
	if (fs->is_leaving) {
		connect_close_way(&again->way);
		return;
	}
	if (!err)
		err = connect_move(fs, &again->way, again->uri);
	if (!err)
		rf_log(RF_LOG_INFO, "%s leads to %s now", again->uri,
		       fs->server);
	go_way(fs, again->at, err);
}

static void found_way(struct rf_job *job)
{
	struct reconnect *again = rf_container_of(job, struct reconnect, job);
	struct fs *fs = rf_container_of(again, struct fs, reconnect);
	struct addrinfo *at = again->next;
	int err = again->route_err;

	again->is_looking_up = false;
	if (fs->is_leaving)
		return;
	again->at = at;
	if (again->gai) {
		say_why(fs, gai_strerror(again->gai));
		wait_and_try(fs);
		return;
	}
	again->next = ++again->tried < MOUNT_ADDRESSES_MAX ? at->ai_next : NULL;
	if (!err && is_other_way(fs)) {
		connect_fini(fs);
		post(fs, open_way_run, opened_way);
		return;
	}
	go_way(fs, at, err);
}

static void find_way(struct fs *fs)
{
	post(fs, find_way_run, found_way);
}

/* The kernel may wait for it.  Not from inside its poller. */
static void let_go(struct fs *fs)
{
	if (!fs->way.fabric || !rf_fabric_is_gone(fs->way.fabric))
		return;
	rf_log(RF_LOG_WARN, "%s is gone: waiting until a device leads to %s",
	       fs->keep->fabric_uri, fs->server);
	connect_fini(fs);
}

static void pause_is_over(struct rf_timer *timer)
{
	struct reconnect *again = rf_container_of(timer, struct reconnect,
						  timer);

	let_go(rf_container_of(again, struct fs, reconnect));
	find_way(rf_container_of(again, struct fs, reconnect));
}

/* ---- lost ----------------------------------------------------------------- */

static void begin_away(struct fs *fs, const char *reason)
{
	struct reconnect *again = &fs->reconnect;
	struct rf_client_stats stats;

	fs->is_away = true;
	again->since_ns = rf_reactor_now_ns(fs->reactor);
	again->pause_ms = BACKOFF_FIRST_MS;
	again->said[0] = '\0';
	rf_client_stats(fs->client, &stats);
	again->resent_before = stats.resent;
	rf_log(RF_LOG_WARN, "lost the server %s (%s): what uses %s %s",
	       fs->server, reason, fs->options.mountpoint,
	       fs->options.is_soft ? "fails if it is not back in time" :
				     "waits until it is back");
}

void reconnect_begin(struct fs *fs)
{
	fs->is_away = true;
	fs->reconnect.since_ns = rf_reactor_now_ns(fs->reactor);
	fs->reconnect.pause_ms = BACKOFF_FIRST_MS;
	find_way(fs);
}

/* Nothing goes on in a session that was opened by mistake, or is over. */
static void forget_session(struct fs *fs)
{
	fs->keep->generation = ++fs->generation;
	identities_forget_idle(fs->identities);
	held_forget_all(&fs->held);
	lock_waits_lose(fs);
	rf_client_forget(fs->client);
}

/* The server does not know the session any more. */
static void session_is_over(struct fs *fs, const char *reason)
{
	fs->stats.sessions_lost++;
	rf_log(RF_LOG_ERROR, "the session with %s is over (%s): %" PRIu32
	       " open files and directories of %s give EIO until they are "
	       "opened again", fs->server, reason, files_open(&fs->files),
	       fs->options.mountpoint);
	forget_session(fs);
}

void reconnect_lost(struct fs *fs, int err, const char *reason)
{
	const char *why = reason[0] ? reason : strerror(-err);

	reclaim_stop(fs);
	write_slots_lost(fs);
	if (!fs->is_away)
		begin_away(fs, why);
	else if (err != -ESTALE)
		say_why(fs, why);
	requests_lost(fs);
	if (err == -ESTALE)
		session_is_over(fs, why);
	else if (fs->is_other_export)
		forget_session(fs);
	fs->is_other_export = false;
	if (fs->reconnect.addresses)
		try_next(fs);
	else
		wait_and_try(fs);
}

/* ---- back ----------------------------------------------------------------- */

static void say_back(struct fs *fs)
{
	uint64_t away_ms = fs_away_ms(fs);
	struct rf_client_stats stats;

	rf_client_stats(fs->client, &stats);
	rf_log(RF_LOG_WARN, "back at %s after %" PRIu64 ".%" PRIu64 " s: %"
	       PRIu64 " requests sent again, %u files and %u locks reclaimed",
	       fs->server,
	       away_ms / 1000, away_ms % 1000 / 100,
	       stats.resent - fs->reconnect.resent_before,
	       fs->reclaim.reclaimed, fs->reclaim.reclaimed_locks);
}

void reconnect_back(struct fs *fs)
{
	requests_go_on(fs);
	rf_client_go_on(fs->client);
	say_back(fs);
	fs->is_away = fs->is_silent = false;
	fs->was_back = true;
	write_start(fs);
	write_slots_serve(fs);
	releases_pump(fs);
}

/* ---- life ----------------------------------------------------------------- */

int reconnect_init(struct fs *fs)
{
	fs->reconnect.timer.fire = pause_is_over;
	return rf_workers_create("rdmafs-resolve", 1, &fs->resolver);
}

bool reconnect_fini(struct fs *fs)
{
	uint64_t end_ns = rf_now_ns() + BYE_MS * UINT64_C(1000000);

	rf_timer_stop(fs->reactor, &fs->reconnect.timer);
	while (fs->reconnect.is_looking_up && rf_now_ns() < end_ns)
		rf_reactor_turn(fs->reactor, 100);
	if (fs->reconnect.is_looking_up)
		return false;
	drop_addresses(fs);
	if (fs->resolver)
		rf_workers_destroy(fs->resolver);
	fs->resolver = NULL;
	return true;
}

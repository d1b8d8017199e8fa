/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.c - start, turn, drain, end
 *
 * Operation.  Created from left to right: workers, store, exports, arena,
 * fabrics, listeners; a failure undoes what was done, in reverse order.
 *
 * A drain closes listeners and greeters, and lets what runs finish; what waits for
 * clients, or comes now, is not answered, for it can be done after a restart.
 * When no request is left it lingers, so that the last answers arrive, closes the
 * connections and puts the sessions away: the next start finds them in the store.
 */
#include "server.h"

#include "exec.h"
#include "session.h"
#include "transport.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the turn ----------------------------------------------------------- */

/* What was committed is not in the log: never acknowledge it. */
static void take_answers_back(struct server *server)
{
	struct rf_list *pos;

	rf_list_for_each(pos, &server->answered)
		rf_channel_amend(rf_container_of(pos, struct session,
						 answered_link)->channel,
				 exec_take_back);
}

static void flush_answers(struct server *server)
{
	struct rf_list *item;

	while ((item = rf_list_pop(&server->answered)))
		rf_channel_flush(rf_container_of(item, struct session,
						 answered_link)->channel);
}

/* What waits for them may go on, and more be unbound. */
static void settle_unbinds(struct server *server)
{
	struct rf_list now, *item;

	rf_list_init(&now);
	rf_list_take_all(&now, &server->unbinding);
	while ((item = rf_list_pop(&now))) {
		struct session *session = rf_container_of(item, struct session,
							  unbinding_link);

		rf_list_push(&server->unbinding, item);
		lender_settle(&session->lender);
	}
}

static void post_unbinds(struct server *server)
{
	struct rf_list again, *item;

	rf_list_init(&again);
	while ((item = rf_list_pop(&server->unbinding))) {
		struct session *session = rf_container_of(item, struct session,
							  unbinding_link);

		lender_post(&session->lender);
		if (!rf_list_is_empty(&session->lender.unbinds))
			rf_list_push(&again, &session->unbinding_link);
	}
	/* No room in their queues: in the next turn. */
	rf_list_take_all(&server->unbinding, &again);
}

static void run_locks(struct rf_task *task)
{
	struct server *server = rf_container_of(task, struct server,
						locks_task);

	server->locks_task_is_posted = false;
	locks_go_on(&server->locks);
}

/* In the next turn, so that all others have theirs. */
static void post_locks(struct server *server)
{
	if (server->locks_task_is_posted ||
	    !locks_are_unfinished(&server->locks))
		return;
	server->locks_task_is_posted = true;
	server->locks_task.run = run_locks;
	rf_reactor_post(server->reactor, &server->locks_task);
}

static void end_turn(struct rf_hook *hook)
{
	struct server *server = rf_container_of(hook, struct server, hook);

	settle_unbinds(server);
	exec_wake(server);
	if (store_flush(server->store))
		take_answers_back(server);
	flush_answers(server);
	post_unbinds(server);
	post_locks(server);
}

/* ---- creation ----------------------------------------------------------- */

static int load_key(struct server *server)
{
	const char *path = server->config->key_file;
	int err;

	if (!*path)
		return 0;
	err = rf_key_load(path, &server->key);
	if (err == -EPERM)
		rf_log(RF_LOG_ERROR, "key file %s may be read by others: "
		       "chmod 600 %s", path, path);
	else if (err == -ENOENT)
		rf_log(RF_LOG_ERROR, "key file %s is not there: make one with "
		       "rdmafs keygen %s", path, path);
	else if (err == -EINVAL)
		rf_log(RF_LOG_ERROR, "key file %s holds no key: make one with "
		       "rdmafs keygen", path);
	else if (err)
		rf_log(RF_LOG_ERROR, "key file %s can't be read: %s", path,
		       strerror(-err));
	return err;
}

static int open_exports(struct server *server)
{
	const struct config *config = server->config;

	server->exports = calloc(config->export_count,
				 sizeof(*server->exports));
	if (!server->exports)
		return -ENOMEM;
	for (unsigned int i = 0; i < config->export_count; i++) {
		struct export *export = &server->exports[i];
		int err;

		export->config = &config->exports[i];
		err = store_export(server->store, export->config->path,
				   &export->inode, &export->tree);
		if (!err)
			continue;
		/* What is wrong with a path, the store has said. */
		if (err != -EINVAL)
			rf_log(RF_LOG_ERROR, "export '%s' of '%s': %s",
			       export->config->name, export->config->path,
			       strerror(-err));
		return err;
	}
	return 0;
}

const struct export *server_find_export(const struct server *server,
					const char *name)
{
	for (unsigned int i = 0; i < server->config->export_count; i++)
		if (strcmp(server->exports[i].config->name, name) == 0)
			return &server->exports[i];
	return NULL;
}

static int open_store(struct server *server)
{
	const struct store_config config = {
		.dir = server->config->store,
		.reserve_bytes = server->config->reserve,
		.object_cache = SERVER_OBJECT_CACHE,
		.reactor = server->reactor,
		.workers = server->workers,
	};
	int err = store_open(&config, &server->store);	/* logs */

	return err ? err : open_exports(server);
}

uint32_t server_message_size(const struct config *config)
{
	return (uint32_t)rf_align_up(config->inline_max + RF_MSG_OVERHEAD,
				     4096);
}

static void plan_arena(struct server *server, struct rf_pool_config *pool)
{
	const struct config *config = server->config;
	uint32_t requests = config->slots + SERVER_CONTROL_SLOTS +
			    SERVER_QUEUED_MAX;
	uint32_t greeters = config->greeters + SERVER_GREETERS_LEAVING;
	uint32_t messages = config->sessions * requests * 2;
	unsigned int count = 0;

	staging_init(&server->staging, config->staging,
		     config->session_staging);
	pool->classes[count++] = (struct rf_pool_class){
		.size = server_message_size(config),
		.count = messages + greeters * SERVER_GREETER_BUFS,
	};
	for (unsigned int i = 0; i < STAGING_CLASSES; i++)
		pool->classes[count++] = (struct rf_pool_class){
			.size = server->staging.classes[i].size,
			.count = server->staging.classes[i].count,
		};
	pool->class_count = count;
}

uint64_t server_arena_size(const struct config *config)
{
	struct server server = { .config = config };
	struct rf_pool_config pool = { .name = "arena" };
	uint64_t size = 0;

	plan_arena(&server, &pool);
	for (unsigned int i = 0; i < pool.class_count; i++)
		size += (uint64_t)pool.classes[i].size * pool.classes[i].count;
	return size;
}

static void took_back(struct lender *lender)
{
	session_unbinding(rf_container_of(lender, struct session, lender));
}

/* Made on a thread of its own, for to touch it takes as long as to open a store. */
struct arena {
	struct rf_pool_config config;
	struct rf_pool *pool;
	pthread_t thread;
	bool has_thread;
	int err;
};

static void *make_pool(void *context)
{
	struct arena *arena = context;

	arena->err = rf_pool_create(&arena->config, &arena->pool); /* logs */
	return NULL;
}

static void begin_arena(struct server *server, struct arena *arena)
{
	*arena = (struct arena){
		.config.name = "arena",
		.config.wants_huge_pages = true,
	};
	plan_arena(server, &arena->config);
	arena->has_thread = pthread_create(&arena->thread, NULL, make_pool,
					   arena) == 0;
}

/* [blocks] */
static int take_arena(struct server *server, struct arena *arena)
{
	if (arena->has_thread)
		pthread_join(arena->thread, NULL);
	else
		make_pool(arena);
	server->pool = arena->pool;
	return arena->err;
}

static int use_arena(struct server *server)
{
	server->staging.pool = server->pool;
	staging_set_term(&server->staging, server->reactor,
			 server->config->grant_ms, took_back);
	server->scratch = calloc(1, STAGING_LARGE);
	if (!server->scratch)
		return -ENOMEM;
	rf_log(RF_LOG_INFO, "arena of %zu MiB: %" PRIu64 " MiB of staging, the "
	       "rest for messages of %u sessions",
	       rf_pool_size(server->pool) >> 20,
	       server->config->staging >> 20, server->config->sessions);
	return 0;
}

/* What needs time: both beside each other. */
static int open_store_and_arena(struct server *server)
{
	struct arena arena;
	int err, arena_err;

	begin_arena(server, &arena);
	err = open_store(server);
	arena_err = take_arena(server, &arena);
	return err ? err : arena_err;
}

static int start(struct server *server)
{
	int err = load_key(server);

	if (!err)
		err = rf_workers_create("rdmafsd-io", server->config->workers,
					&server->workers);
	if (!err)
		err = open_store_and_arena(server);
	if (!err)
		err = use_arena(server);
	if (!err)
		err = sessions_load(server);	/* logs */
	if (!err)
		err = transports_open(server);	/* logs */
	return err;
}

int server_create(const struct config *config, struct rf_reactor *reactor,
		  struct server **out)
{
	struct server *server = calloc(1, sizeof(*server));
	int err;

	if (!server)
		return -ENOMEM;
	server->config = config;
	server->reactor = reactor;
	busy_init(&server->busy);
	rf_list_init(&server->greetings);
	rf_list_init(&server->waiting_hellos);
	rf_list_init(&server->sessions);
	rf_list_init(&server->answered);
	rf_list_init(&server->unbinding);
	rf_list_init(&server->staged);
	server->hook.run = end_turn;
	err = locks_init(&server->locks, exec_lock_settled);
	if (!err)
		err = comeback_init(server);
	if (!err)
		err = start(server);
	if (err) {
		server_destroy(server);
		return err;
	}
	rf_hook_add(reactor, &server->hook);
	server->is_hooked = true;
	if (!server->key.is_set && config->is_insecure)
		rf_log(RF_LOG_WARN, "no key and --insecure: everyone who "
		       "reaches this port may use every export");
	silence_start(server);
	transports_announce(server);
	*out = server;
	return 0;
}

/* ---- the end ------------------------------------------------------------ */

static void put_sessions_away(struct server *server)
{
	struct rf_list *pos, *next;

	for (pos = server->sessions.next; pos != &server->sessions;
	     pos = next) {
		next = pos->next;
		session_put_away(rf_container_of(pos, struct session, link));
	}
}

static void shelve_waits(struct server *server)
{
	struct rf_list *pos;

	rf_list_for_each(pos, &server->sessions) {
		struct session *session =
			rf_container_of(pos, struct session, link);

		for (unsigned int i = 0; i < session->exec_count; i++)
			exec_shelve(&session->execs[i]);
	}
}

static void drain_timed_out(struct rf_timer *timer)
{
	struct server *server = rf_container_of(timer, struct server,
						drain_timer);

	if (server->active > 0 && !server->is_closing)
		rf_log(RF_LOG_WARN, "%u requests are not finished after %d s; "
		       "their clients are not answered", server->active,
		       SERVER_DRAIN_MS / 1000);
	server->is_closing = true;
	put_sessions_away(server);
	server_check_drain(server);
}

static void all_gone(struct server *server)
{
	if (server->is_stopped)
		return;
	server->is_stopped = true;
	rf_timer_stop(server->reactor, &server->drain_timer);
	if (server->stopped)
		server->stopped(server);
}

void server_check_drain(struct server *server)
{
	if (!server->is_draining)
		return;
	if (server->session_count == 0 && server->greeting_count == 0 &&
	    server->wiping == 0 && comeback_is_idle(server))
		all_gone(server);
	else if (server->active == 0 && !server->lingers) {
		/* The last answers are on their way. */
		server->lingers = true;
		rf_timer_start(server->reactor, &server->drain_timer,
			       SERVER_LINGER_MS);
	}
}

static void begin_drain(struct rf_task *task)
{
	struct server *server = rf_container_of(task, struct server,
						drain_task);

	rf_timer_stop(server->reactor, &server->grace_timer);
	silence_stop(server);
	transports_stop_listening(server);
	greet_close_all(server);
	shelve_waits(server);
	server_check_drain(server);
}

void server_stop(struct server *server, void (*stopped)(struct server *server))
{
	if (server->is_draining)
		return;
	server->is_draining = true;
	/* What ends now is claimed again after the start. */
	server->locks.is_stopping = true;
	server->stopped = stopped;
	rf_log(RF_LOG_INFO, "stopping: %u sessions, %u requests to finish",
	       server->session_count, server->active);
	server->drain_timer.fire = drain_timed_out;
	rf_timer_start(server->reactor, &server->drain_timer, SERVER_DRAIN_MS);
	/* In a turn, at whose end the answers leave. */
	server->drain_task.run = begin_drain;
	rf_reactor_post(server->reactor, &server->drain_task);
}

void server_destroy(struct server *server)
{
	transports_stop_listening(server);
	rf_timer_stop(server->reactor, &server->grace_timer);
	silence_stop(server);
	put_sessions_away(server);	/* of a start that failed */
	staging_stop_term(&server->staging);
	RF_ASSERT(server->session_count == 0 && server->greeting_count == 0);
	/* The store turns the reactor while it waits for its own work. */
	if (server->store)
		store_close(server->store);
	if (server->is_hooked)
		rf_hook_remove(server->reactor, &server->hook);
	if (server->workers)
		rf_workers_destroy(server->workers);
	transports_close(server);
	comeback_fini(server);
	if (server->pool)
		rf_pool_destroy(server->pool);
	locks_fini(&server->locks);
	free(server->scratch);
	free(server->exports);
	free(server);
}

/* ---- figures ------------------------------------------------------------ */

static void log_pool(const struct server *server)
{
	struct rf_pool_stats stats;

	rf_pool_stats(server->pool, &stats);
	for (unsigned int i = 0; i < stats.class_count; i++)
		rf_log(RF_LOG_INFO, "figures: buffers of %u KiB: %u of %u free, "
		       "%u at least; %" PRIu64 " gets, %" PRIu64 " waits, %u "
		       "waiting", stats.classes[i].size >> 10,
		       stats.classes[i].free, stats.classes[i].count,
		       stats.classes[i].lowest_free, stats.classes[i].gets,
		       stats.classes[i].waits, stats.classes[i].waiting);
}

static void log_locks(const struct server *server)
{
	const struct locks *locks = &server->locks;

	rf_log(RF_LOG_INFO, "figures: locks: %u of %u on %u files, %u waits of "
	       "%u; %" PRIu64 " granted, %" PRIu64 " refused, %" PRIu64
	       " waited, %" PRIu64 " deadlocks, %" PRIu64 " over a limit, %"
	       PRIu64 " times put off, %" PRIu64 " searches cut short",
	       locks->ranges.count, LOCKS_MAX, locks->inode_pool.count,
	       locks->waits.count, LOCK_WAITS_MAX, locks->figures.granted,
	       locks->figures.refused, locks->figures.waited,
	       locks->figures.deadlocks, locks->figures.denied,
	       locks->figures.put_off, locks->figures.searches_cut);
}

static void log_store(const struct server *server)
{
	struct store_stats stats;

	store_stats(server->store, &stats);
	rf_log(RF_LOG_INFO, "figures: store: %" PRIu64 " commits, %" PRIu64
	       " flushes, %" PRIu64 " syncs for %" PRIu64 " requests; %" PRIu64
	       " data files open, %" PRIu64 " cached, %" PRIu64 " orphans",
	       stats.commits, stats.flushes, stats.syncs, stats.sync_requests,
	       stats.objects_open, stats.objects_cached, stats.orphans);
}

static void log_reactor(const struct server *server)
{
	struct rf_reactor_stats stats;

	rf_reactor_stats(server->reactor, &stats);
	rf_log(RF_LOG_INFO, "figures: reactor: %" PRIu64 " turns, %" PRIu64
	       " waits, %" PRIu64 " callbacks, longest turn %" PRIu64 " us",
	       stats.turns, stats.waits, stats.callbacks,
	       stats.longest_turn_ns / 1000);
}

static unsigned int count_lost(const struct server *server)
{
	unsigned int count = 0;
	struct rf_list *pos;

	rf_list_for_each(pos, &server->sessions)
		count += rf_container_of(pos, struct session, link)->is_closed;
	return count;
}

void server_log_figures(struct server *server)
{
	const struct staging *staging = &server->staging;

	rf_log(RF_LOG_INFO, "figures: %u sessions of %u, %u greeters; %" PRIu64
	       " admitted, %" PRIu64 " refused, %" PRIu64 " pushed out",
	       server->session_count, server->config->sessions,
	       server->greeting_count, server->figures.admitted,
	       server->figures.refused, server->figures.pushed_out);
	rf_log(RF_LOG_INFO, "figures: sessions without a connection: %u; %"
	       PRIu64 " connections lost, %" PRIu64 " resumed, %" PRIu64
	       " sessions expired; grace period: %" PRIu32 " ms left, for %u "
	       "clients", count_lost(server), server->figures.lost,
	       server->figures.resumed, server->figures.expired,
	       grace_left_ms(server), server->grace_waits);
	rf_log(RF_LOG_INFO, "figures: %u requests in service; %" PRIu64
	       " requests, %" PRIu64 " operations, %" PRIu64 " run again, %"
	       PRIu64 " malformed, %" PRIu64 " waits for an inode",
	       server->active, server->figures.requests, server->figures.ops,
	       server->figures.rewinds, server->figures.bad_messages,
	       server->busy.waits);
	rf_log(RF_LOG_INFO, "figures: staging: %" PRIu64 " grants, %" PRIu64
	       " slots, %" PRIu64 " unbinds, %" PRIu64 " waits, %" PRIu64
	       " waits for a share, %" PRIu64 " bad returns, %" PRIu64
	       " taken back, %" PRIu64 " not re-armed",
	       staging->grants_made, staging->slots_made, staging->unbinds,
	       staging->waits, staging->waits_for_share, staging->bad_returns,
	       staging->taken_back, staging->not_rearmed);
	log_pool(server);
	log_locks(server);
	log_store(server);
	log_reactor(server);
	transports_log_figures(server);
}

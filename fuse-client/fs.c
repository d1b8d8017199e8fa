/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs.c - the mounted file system's life: connect, serve, the end
 *
 * Operation.  fs_connect() opens the session, fs_serve() runs the reactor until
 * /dev/fuse says that the mount is gone, fs_disconnect() says BYE.  SIGTERM,
 * SIGINT and SIGHUP unmount, on a worker, for unmounting needs the reactor; SIGUSR1 writes
 * the statistics to the log.
 *
 * When it fails.  A lost connection does not end the mount (reconnect.c), and an
 * unmount does not wait for one: then there is no BYE, and the session's lease
 * ends it.
 */
#include "fs.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

void fs_lose(struct fs *fs, const char *what)
{
	if (fs->client)
		rf_client_drop(fs->client, -EPROTO, what);
}

static void end_of_turn(struct rf_hook *hook)
{
	struct fs *fs = rf_container_of(hook, struct fs, hook);

	pull_retry(fs);
	if (!rf_list_is_empty(&fs->slots_waiting))
		write_slots_serve(fs);
	backlog_serve(fs);
	fuse_io_resume(fs);
}

/* ---- statistics ----------------------------------------------------------- */

static void log_requests(const struct fs *fs)
{
	rf_log(RF_LOG_INFO, "requests %" PRIu64 ", in flight %u, interrupts %"
	       PRIu64 ", pauses %" PRIu64 "; inodes %" PRIu32 " (room for %"
	       PRIu32 "), open files %" PRIu32, fs->stats.requests, fs->busy,
	       fs->stats.interrupts, fs->stats.pauses, fs->inodes.table.taken,
	       fs->inodes.table.room, fs->files.table.taken);
	rf_log(RF_LOG_INFO, "read %" PRIu64 " bytes, written %" PRIu64
	       " bytes, invalidations %" PRIu64 ", late attributes %" PRIu64
	       ", checksum errors %" PRIu64, fs->stats.read_bytes,
	       fs->stats.write_bytes, fs->stats.invalidations,
	       fs->stats.stale_attrs, fs->stats.crc_errors);
	rf_log(RF_LOG_INFO, "write slots %u, free %u, waits %" PRIu64
	       ", denied %" PRIu32 ", writes inside messages %" PRIu64
	       ", in parts %" PRIu64, fs->slots.count, fs->slots.free_count,
	       fs->stats.slot_waits, fs->slots_denied, fs->stats.inline_writes,
	       fs->stats.split_writes);
	rf_log(RF_LOG_INFO, "locks waited for %" PRIu32 ", to be given back %"
	       PRIu32 "; messages that wait for room %u (ever %" PRIu64 ")",
	       fs->parked, fs->orphans, fs->backlog.count,
	       fs->stats.late_messages);
}

static void log_calls(const struct fs *fs)
{
	struct rf_client_stats stats;

	if (!fs->client)
		return;
	rf_client_stats(fs->client, &stats);
	rf_log(RF_LOG_INFO, "calls %" PRIu64 ", queued %" PRIu64 ", waits for "
	       "a slot %" PRIu64 ", slots in use %" PRIu32 " (most %" PRIu32
	       " of %u)", stats.calls, stats.queued, stats.waits_for_slot,
	       stats.slots_used, stats.slots_used_most, fs->limits.slots);
	rf_log(RF_LOG_INFO, "connections lost %" PRIu64 ", sent again %" PRIu64
	       ", sessions lost %" PRIu64 ", given up %" PRIu64 ", answered "
	       "without the server %" PRIu64 "%s", stats.losses, stats.resent,
	       fs->stats.sessions_lost, fs->stats.given_up,
	       fs->stats.local_answers, fs->is_away ? "; away now" : "");
}

static void log_pool(const struct fs *fs)
{
	struct rf_pool_stats stats;

	rf_pool_stats(fs->pool, &stats);
	for (unsigned int i = 0; i < stats.class_count; i++)
		rf_log(RF_LOG_INFO, "buffers of %" PRIu32 " bytes: %" PRIu32
		       ", free %" PRIu32 " (least %" PRIu32 "), waits %"
		       PRIu64, stats.classes[i].size, stats.classes[i].count,
		       stats.classes[i].free, stats.classes[i].lowest_free,
		       stats.classes[i].waits);
}

static void log_stats(const struct fs *fs)
{
	log_requests(fs);
	log_calls(fs);
	if (fs->way.fabric)
		rf_figures_log_fabric("", fs->way.fabric);
	log_pool(fs);
}

/* For the doctor: the figures, and whether we wait. */
static void tell_stats(void *context)
{
	const struct fs *fs = context;

	rf_log(RF_LOG_INFO, "mount: is_away=%d away_ms=%" PRIu64
	       " server=%s point=%s", fs->is_away,
	       fs->is_away ? fs_away_ms(fs) : 0, fs->server,
	       fs->options.mountpoint);
	log_stats(fs);
}

/* ---- signals -------------------------------------------------------------- */

static void unmount_run(struct rf_job *job)
{
	struct fs *fs = rf_container_of(job, struct fs, unmount_job);

	/* In use: out of the tree at least; we go on until nobody uses it. */
	if (mounting_unmount(fs->options.mountpoint, false) < 0)
		mounting_unmount(fs->options.mountpoint, true);
}

static void unmount_done(struct rf_job *job)
{
	struct fs *fs = rf_container_of(job, struct fs, unmount_job);

	fs->is_unmounting = false;
}

static void take_signal(struct fs *fs, int number)
{
	if (number == SIGUSR1) {
		log_stats(fs);
		return;
	}
	if (fs->is_unmounting)
		return;
	rf_log(RF_LOG_INFO, "unmounting %s: signal %d",
	       fs->options.mountpoint, number);
	fs->is_unmounting = true;
	fs->unmount_job.run = unmount_run;
	fs->unmount_job.done = unmount_done;
	rf_workers_post(fs->unmounter, fs->reactor, &fs->unmount_job);
}

static void signal_came(struct rf_watch *watch, uint32_t watch_events)
{
	struct fs *fs = rf_container_of(watch, struct fs, signal_watch);
	struct signalfd_siginfo info;

	(void)watch_events;
	while (read(fs->signal_fd, &info, sizeof(info)) == sizeof(info))
		take_signal(fs, (int)info.ssi_signo);
}

static void our_signals(sigset_t *set)
{
	background_end_signals(set);
	sigaddset(set, SIGUSR1);
}

/* From now on they wait for fs_serve(). */
static void block_signals(void)
{
	sigset_t set;

	our_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static int watch_signals(struct fs *fs)
{
	sigset_t set;

	our_signals(&set);
	fs->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fs->signal_fd < 0)
		return -errno;
	fs->signal_watch.ready = signal_came;
	return rf_watch_start(fs->reactor, &fs->signal_watch, fs->signal_fd,
			      EPOLLIN);
}

/* ---- life ----------------------------------------------------------------- */

static int connect_fs(struct fs *fs)
{
	int err = rf_reactor_create(&fs->reactor);

	if (!err)
		err = identities_create(&fs->identities);
	if (err) {
		complain("can't start: %s", strerror(-err));
		return err;
	}
	rf_reactor_set_poll_us(fs->reactor, fs->options.poll_us);
	err = fs->is_successor ? connect_restore(fs) : connect_session(fs);
	if (err)
		return err;		/* it has said why */
	fs->generation = fs->keep->generation;
	once_init(fs);
	backlog_init(fs);
	err = requests_init(fs);
	if (!err)
		err = reclaim_init(fs);
	if (!err)
		err = inodes_init(&fs->inodes, &fs->keep->root,
				  &fs->keep->root_attr);
	if (!err)
		err = files_init(&fs->files);
	if (!err)
		err = lock_waits_init(fs);
	if (!err && fs->is_successor)
		err = successor_restore(fs);
	if (err)
		complain("not enough memory");
	return err;
}

int fs_connect(struct keep *keep, bool is_successor, int control_fd,
	       struct fs **out)
{
	struct fs *fs = calloc(1, sizeof(*fs));
	int err;

	if (!fs) {
		complain("not enough memory");
		return -ENOMEM;
	}
	fs->options = keep->options;
	fs->keep = keep;
	fs->inodes.kept = &keep->inodes;
	fs->inodes.max = keep->options.max_inodes;
	fs->files.kept = &keep->files;
	fs->held.kept = &keep->ranges;
	fs->is_successor = is_successor;
	fs->control_fd = control_fd;
	fs->fuse_fd = fs->signal_fd = -1;
	err = connect_fs(fs);
	if (err) {
		fs_disconnect(fs);
		return err;
	}
	block_signals();
	*out = fs;
	return 0;
}

static int start(struct fs *fs, int fuse_fd)
{
	int err = fuse_io_open(fs, fuse_fd);

	if (err)
		return err;
	err = cache_init(fs);
	if (!err)
		err = rf_workers_create("rdmafs-umount", 1, &fs->unmounter);
	if (!err)
		err = reconnect_init(fs);
	if (!err)
		err = watch_signals(fs);
	if (!err)
		err = control_init(fs);
	if (err)
		return err;
	fs->hook.run = end_of_turn;
	rf_hook_add(fs->reactor, &fs->hook);
	fs->figures.log = tell_stats;
	fs->figures.context = fs;
	/* The doctor must do without, if it can't be had. */
	if (rf_figures_open(&fs->figures, fs->reactor) < 0)
		rf_log(RF_LOG_WARN, "no socket to tell figures on");
	patience_start(fs);
	if (fs->is_successor)
		return successor_begin(fs);
	write_start(fs);
	return 0;
}

/*
 * Not ended by an unmount: don't leave a dead mount behind.  If another goes on with
 * it we end as if killed: no BYE, for the session is the next one's, and nothing is
 * waited for that only that one can answer.
 */
static void give_up(const struct fs *fs, int err)
{
	if (fs->control_fd < 0 || !fs->init_was_answered) {
		mounting_unmount(fs->options.mountpoint, true);
		return;
	}
	rf_log(RF_LOG_ERROR, "can't go on serving %s: %s",
	       fs->options.mountpoint, strerror(-err));
	_exit(EXIT_FAILURE);
}

int fs_serve(struct fs *fs, int fuse_fd, void (*ready)(void *context),
	     void *context)
{
	int err;

	fs->ready = ready;
	fs->ready_context = context;
	err = start(fs, fuse_fd);
	if (!err)
		rf_reactor_run(fs->reactor);
	if (err || !fs->session || !fuse_session_exited(fs->session)) {
		err = err ? err : -EIO;
		give_up(fs, err);
	} else if (!fs->init_was_answered) {
		err = -ENOTCONN;
	}
	fuse_io_stop(fs);
	return err;
}

/* ---- the end -------------------------------------------------------------- */

/*
 * A successor that finds the mount gone is there to take leave in the name of the
 * daemon that died, and for that it has to meet the server first.
 */
static void meet_server(struct fs *fs, uint64_t end_ns)
{
	while (fs->client && fs->is_successor && fs->init_was_answered &&
	       !fs->was_back && rf_now_ns() < end_ns)
		rf_reactor_turn(fs->reactor, 100);
}

/* BYE, or what it takes for the client to be gone. */
static void leave_session(struct fs *fs)
{
	uint64_t end_ns = rf_now_ns() + BYE_MS * UINT64_C(1000000);

	meet_server(fs, end_ns);
	fs->is_leaving = true;
	lock_waits_lose(fs);
	rf_timer_stop(fs->reactor, &fs->reconnect.timer);
	if (fs->client && fs->is_away)
		rf_client_abort(fs->client);
	else if (fs->client)
		rf_client_bye(fs->client);
	while (fs->client && rf_now_ns() < end_ns)
		rf_reactor_turn(fs->reactor, 100);
	if (!fs->client)
		return;
	rf_log(RF_LOG_WARN, "%s did not answer BYE in time", fs->server);
	rf_client_abort(fs->client);
	while (fs->client)
		rf_reactor_turn(fs->reactor, 100);
}

static bool is_invalidating(const struct fs *fs)
{
	for (unsigned int i = 0; i < INVALIDATIONS_MAX; i++)
		if (fs->invalidations[i].inode)
			return true;
	return false;
}

/* What workers do for us ends, since the mount is gone.  False: but for one. */
static bool stop_workers(struct fs *fs)
{
	while (is_invalidating(fs) || fs->is_unmounting)
		rf_reactor_turn(fs->reactor, 100);
	cache_fini(fs);
	if (fs->unmounter)
		rf_workers_destroy(fs->unmounter);
	fs->unmounter = NULL;
	return reconnect_fini(fs);
}

static void stop_reactor(struct fs *fs)
{
	if (!fs->reactor)
		return;
	if (fs->signal_watch.is_started)
		rf_watch_stop(fs->reactor, &fs->signal_watch);
	if (fs->hook.run)
		rf_hook_remove(fs->reactor, &fs->hook);
	patience_stop(fs);
	control_fini(fs);
	rf_figures_close(&fs->figures);
	connect_fini(fs);
	rf_reactor_destroy(fs->reactor);
}

void fs_disconnect(struct fs *fs)
{
	if (fs->reactor) {
		leave_session(fs);
		if (fs->requests)
			requests_lose(fs);
		/* The process ends after this: nobody waits for that one. */
		if (!stop_workers(fs))
			return;
	}
	fuse_io_close(fs);
	backlog_fini(fs);
	requests_fini(fs);
	reclaim_fini(fs);
	lock_waits_fini(fs);
	files_fini(&fs->files);
	inodes_fini(&fs->inodes);
	stop_reactor(fs);
	if (fs->signal_fd >= 0)
		close(fs->signal_fd);
	if (fs->pool)
		rf_pool_destroy(fs->pool);
	if (fs->identities)
		identities_destroy(fs->identities);
	free(fs);
}

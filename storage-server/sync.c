/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sync.c - group commit: one thread, one sync of the log for all who wait
 *
 * Operation.  A round takes all waiting requests, starts the write-out of each
 * object, waits for each, then syncs the log once.  Requests that come meanwhile
 * are the next round.  Rounds begin at least SYNC_PACE_US apart: back to back
 * they stall the writer of the log.
 *
 * Ownership.  A request is lent from store_sync() to done().
 * When it fails.  A data file's error goes to those who named it, the log's to
 * all.  The kernel tells an error once for each descriptor, and all who have the
 * file open share one here: so failures are kept in a ring, and each open looks
 * for those of its inode that are younger than it.  What could not be written is
 * clean for the kernel from then on, and its next sync says nothing of it: a
 * server that is started before all opens were told doubts all of them.
 */
#include "store_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

static void sync_done(struct rf_task *task)
{
	struct sync_request *request =
		rf_container_of(task, struct sync_request, task);

	request->store->sync.pending--;
	if (request->err && request->object)
		store_doubt_cache(request->store);
	request->done(request, request->err);
}

void store_sync(struct store *store, struct sync_request *request)
{
	struct sync *sync = &store->sync;

	request->store = store;
	request->err = 0;
	request->next = NULL;
	request->task.run = sync_done;
	sync->pending++;
	pthread_mutex_lock(&sync->lock);
	*sync->last = request;
	sync->last = &request->next;
	pthread_cond_signal(&sync->wake);
	pthread_mutex_unlock(&sync->lock);
}

/* ---- data ---------------------------------------------------------------- */

/* Let the disk begin on all objects before waiting for any. */
static void start_write_out(struct sync_request *first)
{
	for (struct sync_request *r = first; r; r = r->next) {
		int fd = r->object ? atomic_load(&r->object->fd) : -1;

		if (fd >= 0 && atomic_load(&r->object->is_dirty))
			sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	}
}

/* A new file's name in its directory. */
static int sync_shard(struct object *object)
{
	char path[DATA_PATH_SIZE];
	int fd, err = 0;

	data_path(object->inode, path);
	path[2] = 0;
	fd = openat(object->store->data_fd, path,
		    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fsync(fd))
		err = -errno;
	close(fd);
	return err;
}

/* ---- failures ------------------------------------------------------------ */

static void note_failure(struct sync *sync, uint64_t inode, int err)
{
	pthread_mutex_lock(&sync->lock);
	sync->failures[sync->failure_count % SYNC_FAILURES] =
		(struct sync_failure){ inode, err };
	sync->failure_count++;
	pthread_mutex_unlock(&sync->lock);
}

uint64_t store_sync_failures(struct store *store)
{
	uint64_t count;

	pthread_mutex_lock(&store->sync.lock);
	count = store->sync.failure_count;
	pthread_mutex_unlock(&store->sync.lock);
	return count;
}

uint64_t store_sync_doubted(struct store *store)
{
	return store_sync_failures(store) - SYNC_FAILURES - 1;
}

int store_take_failure(struct store *store, uint64_t inode, uint64_t *seen)
{
	struct sync *sync = &store->sync;
	int err = 0;

	pthread_mutex_lock(&sync->lock);
	/* Some are not remembered any more: one may have been its own. */
	if (sync->failure_count - *seen > SYNC_FAILURES) {
		*seen = sync->failure_count;
		err = -EIO;
	}
	for (; *seen < sync->failure_count; ++*seen) {
		const struct sync_failure *failure =
			&sync->failures[*seen % SYNC_FAILURES];

		if (failure->inode == inode)
			err = failure->err;
	}
	pthread_mutex_unlock(&sync->lock);
	return err;
}

/* ---- one object ---------------------------------------------------------- */

static int sync_data(struct object *object)
{
	int fd = object_fd(object, false), err = 0;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	atomic_store(&object->is_syncing, true);
	/* Cleared first: what is written meanwhile is dirty again. */
	atomic_store(&object->is_dirty, false);
	if (fdatasync(fd))
		err = -errno;
	if (!err && atomic_exchange(&object->is_new, false)) {
		err = sync_shard(object);
		if (err)
			atomic_store(&object->is_new, true);
	}
	if (err) {
		atomic_store(&object->is_dirty, true);
		note_failure(&object->store->sync, object->inode, err);
		store_say_failure(object, "sync", err);
	}
	atomic_store(&object->is_syncing, false);
	return err;
}

/* Once an object and round, however many ask. */
static int sync_object(struct sync *sync, struct object *object)
{
	if (object->sync_round != sync->round) {
		object->sync_round = sync->round;
		object->sync_err = sync_data(object);
	}
	return object->sync_err;
}

int store_sync_all(struct store *store)
{
	int err = syncfs(store->data_fd) ? -errno : 0;

	return err ? err : engine_sync(store->engine);
}

/* ---- the thread ---------------------------------------------------------- */

static void run_round(struct store *store, struct sync_request *first)
{
	struct sync *sync = &store->sync;
	struct sync_request *next;
	uint64_t requests = 0;
	int err;

	sync->round++;
	start_write_out(first);
	for (struct sync_request *r = first; r; r = r->next, requests++)
		if (r->object)
			r->err = sync_object(sync, r->object);
	err = store_sync_log(store);
	atomic_fetch_add(&sync->rounds, 1);
	atomic_fetch_add(&sync->requests, requests);
	for (struct sync_request *r = first; r; r = next) {
		next = r->next;
		if (!r->err)
			r->err = err;
		rf_reactor_post(store->config.reactor, &r->task);
	}
}

static void keep_pace(uint64_t started_ns)
{
	uint64_t due = started_ns + SYNC_PACE_US * UINT64_C(1000);
	uint64_t now = rf_now_ns();
	struct timespec rest = { .tv_nsec = (long)(due - now) };

	if (now < due)
		nanosleep(&rest, NULL);
}

static struct sync_request *take_all(struct sync *sync)
{
	struct sync_request *first;

	pthread_mutex_lock(&sync->lock);
	while (!sync->first && !sync->is_stopping)
		pthread_cond_wait(&sync->wake, &sync->lock);
	first = sync->first;
	sync->first = NULL;
	sync->last = &sync->first;
	pthread_mutex_unlock(&sync->lock);
	return first;
}

static void *run_sync(void *context)
{
	struct store *store = context;
	struct sync_request *first;

	while ((first = take_all(&store->sync))) {
		uint64_t started_ns = rf_now_ns();

		run_round(store, first);
		keep_pace(started_ns);
	}
	return NULL;
}

int sync_start(struct store *store)
{
	struct sync *sync = &store->sync;
	int err;

	pthread_mutex_init(&sync->lock, NULL);
	pthread_cond_init(&sync->wake, NULL);
	sync->first = NULL;
	sync->last = &sync->first;
	err = pthread_create(&sync->thread, NULL, run_sync, store);
	if (err)
		return -err;
	pthread_setname_np(sync->thread, "sync");
	sync->is_started = true;
	return 0;
}

void sync_stop(struct store *store)
{
	enum { WAIT_MS = 100 };
	struct sync *sync = &store->sync;

	if (!sync->is_started)
		return;
	while (sync->pending)
		rf_reactor_turn(store->config.reactor, WAIT_MS);
	pthread_mutex_lock(&sync->lock);
	sync->is_stopping = true;
	pthread_cond_signal(&sync->wake);
	pthread_mutex_unlock(&sync->lock);
	pthread_join(sync->thread, NULL);
	pthread_mutex_destroy(&sync->lock);
	pthread_cond_destroy(&sync->wake);
	sync->is_started = false;
}

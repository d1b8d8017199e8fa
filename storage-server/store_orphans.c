/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_orphans.c - opens, inodes without a name, and the end of their data
 *
 * Operation.  An inode whose last name goes is settled in the commit: open, it
 * becomes an orphan (a record lists it); else it is deleted, and a deletion
 * record with the next sequence number lists its data file.  When the log is
 * on the platter a worker removes the files, and then their records go.  The
 * next start goes on with the list, and deletes all orphans; but if it finds
 * clients that may come back, it keeps the orphans, and makes more of them where
 * it would delete, until store_release_orphans().
 *
 * A file is not removed before the log is synced: after a power cut the name
 * might be back.  Who needs the space of what was deleted before may wait for it.
 */
#include "store_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- opens: a hash table of counts --------------------------------------- */

enum { OPENS_FIRST = 1024 };

int opens_init(struct opens *opens)
{
	opens->size = OPENS_FIRST;
	opens->used = 0;
	opens->table = calloc(opens->size, sizeof(*opens->table));
	return opens->table ? 0 : -ENOMEM;
}

void opens_fini(struct opens *opens)
{
	free(opens->table);
}

static size_t opens_home(const struct opens *opens, uint64_t inode)
{
	return (size_t)(inode * 0x9e3779b97f4a7c15u >> 20) & (opens->size - 1);
}

/* The inode's place, or the empty one where it would go. */
static struct open_count *opens_place(const struct opens *opens,
				      uint64_t inode)
{
	size_t i = opens_home(opens, inode);

	while (opens->table[i].inode && opens->table[i].inode != inode)
		i = (i + 1) & (opens->size - 1);
	return &opens->table[i];
}

static int opens_grow(struct opens *opens)
{
	struct opens bigger = { .size = opens->size * 2, .used = opens->used };

	if (opens->used >= OPENS_MAX)
		return -ENFILE;
	bigger.table = calloc(bigger.size, sizeof(*bigger.table));
	if (!bigger.table)
		return -ENOMEM;
	for (size_t i = 0; i < opens->size; i++)
		if (opens->table[i].inode)
			*opens_place(&bigger, opens->table[i].inode) =
				opens->table[i];
	free(opens->table);
	*opens = bigger;
	return 0;
}

static int opens_add(struct opens *opens, uint64_t inode)
{
	struct open_count *place = opens_place(opens, inode);
	int err;

	if (!place->inode && (opens->used + 1) * 4 > opens->size * 3) {
		err = opens_grow(opens);
		if (err)
			return err;
		place = opens_place(opens, inode);
	}
	if (!place->inode) {
		place->inode = inode;
		place->count = 0;
		opens->used++;
	}
	place->count++;
	return 0;
}

/* Empty a place and move up what was pushed on from there. */
static void opens_remove(struct opens *opens, struct open_count *place)
{
	size_t hole = (size_t)(place - opens->table), i = hole;

	for (;;) {
		size_t home;

		i = (i + 1) & (opens->size - 1);
		if (!opens->table[i].inode)
			break;
		home = opens_home(opens, opens->table[i].inode);
		if (((i - home) & (opens->size - 1)) <
		    ((i - hole) & (opens->size - 1)))
			continue;
		opens->table[hole] = opens->table[i];
		hole = i;
	}
	opens->table[hole].inode = 0;
	opens->used--;
}

unsigned int store_open_count(const struct store *store, uint64_t inode)
{
	const struct open_count *place = opens_place(&store->opens, inode);

	return place->inode ? place->count : 0;
}

int store_open_inode(struct store *store, uint64_t inode)
{
	struct inode found;
	int err = store_find_inode(store, inode, &found);

	return err ? err : opens_add(&store->opens, inode);
}

static int delete_orphan(struct store *store, uint64_t inode)
{
	struct txn *txn = txn_begin_internal(store);
	struct slot *slot;
	int err = txn_slot(txn, inode, &slot);

	if (err) {
		txn_abort(txn);
		return err;
	}
	slot->is_dirty = true;		/* for the commit to settle it */
	return txn_commit(txn);
}

void store_close_inode(struct store *store, uint64_t inode)
{
	struct open_count *place = opens_place(&store->opens, inode);
	struct inode found;
	int err;

	RF_ASSERT(place->inode);
	if (--place->count)
		return;
	opens_remove(&store->opens, place);
	if (store->deletions.keeps_orphans ||
	    store_read_inode(store, inode, &found) || found.nlink)
		return;
	err = delete_orphan(store, inode);
	if (err)
		rf_log(RF_LOG_WARN, "inode %llu: unlinked and closed, but can't "
		       "be deleted (%s); the next start does it",
		       (unsigned long long)inode, strerror(-err));
}

/* ---- settling ------------------------------------------------------------ */

static int put_deletion(struct txn *txn, uint64_t inode)
{
	uint8_t key[INODE_KEY_MAX], value[DELETION_RECORD_SIZE];

	key_deletion(key, txn->store->deletions.end++);
	rf_store_u64(value, inode);
	return txn_put(txn, ENGINE_INODES, key, sizeof(key), value,
		       sizeof(value));
}

int orphan_forget(struct txn *txn, struct slot *slot)
{
	uint8_t key[INODE_KEY_MAX];

	slot->was_orphan = false;
	txn->orphan_change--;
	return txn_delete(txn, ENGINE_INODES, key,
			  key_orphan(key, slot->inode.number));
}

static int delete_inode(struct txn *txn, struct slot *slot)
{
	uint8_t key[INODE_KEY_MAX];
	int err = xattrs_delete(txn, slot);

	if (!err && slot->was_orphan)
		err = orphan_forget(txn, slot);
	if (!err && S_ISLNK(slot->inode.mode))
		err = txn_delete(txn, ENGINE_INODES, key,
				 key_inode(key, slot->inode.number,
					   KIND_TARGET));
	/* Also if there is no data file: a write that was never recorded may
	 * have made one. */
	if (!err && S_ISREG(slot->inode.mode))
		err = put_deletion(txn, slot->inode.number);
	slot->is_deleted = true;
	return err;
}

int orphan_settle(struct txn *txn, struct slot *slot)
{
	uint8_t key[INODE_KEY_MAX];

	if (store_open_count(txn->store, slot->inode.number) == 0 &&
	    !txn->store->deletions.keeps_orphans)
		return delete_inode(txn, slot);
	if (slot->was_orphan)
		return 0;
	txn->orphan_change++;
	return txn_put(txn, ENGINE_INODES, key,
		       key_orphan(key, slot->inode.number), "", 0);
}

void deletions_discard(struct store *store, uint64_t inode)
{
	uint64_t end = store->deletions.end;
	struct txn *txn;

	if (!objects_find(store, inode))
		return;		/* it was never given data */
	txn = txn_begin_internal(store);
	if (put_deletion(txn, inode)) {
		store->deletions.end = end;
		txn_abort(txn);
		return;
	}
	txn_commit(txn);	/* failed: the next start finds the file */
}

/* ---- removal of data files ----------------------------------------------- */

static void remove_file(struct store *store, struct deletion *deletion)
{
	char path[DATA_PATH_SIZE];

	data_path(deletion->inode, path);
	deletion->is_done = unlinkat(store->data_fd, path, 0) == 0 ||
			    errno == ENOENT;
	if (!deletion->is_done)
		rf_log(RF_LOG_WARN, "can't remove data file %s: %s; the next "
		       "start tries again", path, strerror(errno));
	if (deletion->fd >= 0)
		close(deletion->fd);
}

static void run_deletions(struct rf_job *job)
{
	struct deletions *d = rf_container_of(job, struct deletions, job);
	int err = store_sync_log(d->store);

	for (unsigned int i = 0; i < d->count; i++) {
		if (!err)
			remove_file(d->store, &d->batch[i]);
		else if (d->batch[i].fd >= 0)
			close(d->batch[i].fd);
	}
}

/* Their files are gone: so may the records be. */
static void forget_deletions(struct store *store)
{
	struct deletions *d = &store->deletions;
	struct txn *txn = txn_begin_internal(store);
	uint8_t key[INODE_KEY_MAX];
	int err = 0;

	for (unsigned int i = 0; i < d->count && !err; i++)
		if (d->batch[i].is_done)
			err = txn_delete(txn, ENGINE_INODES, key,
					 key_deletion(key,
						      d->batch[i].sequence));
	if (err)
		txn_abort(txn);
	else
		txn_commit(txn);	/* failed: done again at the next start */
	d->count = 0;
}

/* Who has to wait again comes after those who wait now. */
static void wake_waiters(struct deletions *d)
{
	struct rf_list woken, *link;

	rf_list_init(&woken);
	rf_list_take_all(&woken, &d->waiters);
	while ((link = rf_list_pop(&woken))) {
		struct removal_waiter *waiter =
			rf_container_of(link, struct removal_waiter, link);

		waiter->ready(waiter);
	}
}

static void deletions_done(struct rf_job *job)
{
	struct deletions *d = rf_container_of(job, struct deletions, job);

	d->is_running = false;
	forget_deletions(d->store);
	deletions_start(d->store);
	wake_waiters(d);
}

static void add_deletion(struct store *store, uint64_t sequence,
			 uint64_t inode)
{
	struct deletions *d = &store->deletions;
	struct object *object = objects_find(store, inode);

	if (object && object->refs) {
		/* object_put() gives it to the released ones. */
		object->is_doomed = true;
		object->doomed_sequence = sequence;
		return;
	}
	d->batch[d->count++] = (struct deletion){
		.sequence = sequence,
		.inode = inode,
		.fd = object ? objects_forget(store, object) : -1,
	};
}

static void collect_released(struct store *store)
{
	struct deletions *d = &store->deletions;
	struct rf_list *link;

	while (d->count < DELETIONS_AT_ONCE &&
	       (link = rf_list_pop(&d->released))) {
		struct object *object =
			rf_container_of(link, struct object, link);

		add_deletion(store, object->doomed_sequence, object->inode);
	}
}

/* The next records from the list; a scan, since there may be gaps in it. */
static void collect_listed(struct store *store)
{
	struct deletions *d = &store->deletions;
	const void *key, *value;
	size_t key_size, size;
	struct engine_scan scan;
	uint8_t start[INODE_KEY_MAX];

	key_deletion(start, d->next);
	if (engine_scan_open(store->engine, ENGINE_INODES, start,
			     INODE_KEY_SIZE, start, sizeof(start), &scan))
		return;
	while (d->count < DELETIONS_AT_ONCE) {
		uint64_t sequence;

		if (engine_scan_next(&scan, &key, &key_size, &value,
				     &size) != 1) {
			d->next = d->end;
			break;
		}
		if (key_size != INODE_KEY_MAX || size != DELETION_RECORD_SIZE)
			continue;
		sequence = record_load_be64((const uint8_t *)key + 9);
		d->next = sequence + 1;
		add_deletion(store, sequence, rf_load_u64(value));
	}
	engine_scan_close(&scan);
}

void deletions_start(struct store *store)
{
	struct deletions *d = &store->deletions;

	if (d->is_running || d->is_stopping)
		return;
	collect_released(store);
	if (d->next < d->end)
		collect_listed(store);
	if (d->count == 0)
		return;
	d->store = store;
	d->is_running = true;
	d->job.run = run_deletions;
	d->job.done = deletions_done;
	rf_workers_post(store->config.workers, store->config.reactor, &d->job);
}

bool store_await_removals(struct store *store, uint64_t *upto,
			  struct removal_waiter *waiter)
{
	struct deletions *d = &store->deletions;

	if (*upto == 0)
		*upto = d->end;
	deletions_start(store);
	/* The first of a batch is the oldest. */
	if (!d->is_running || d->is_stopping || d->batch[0].sequence >= *upto)
		return false;
	rf_list_push(&d->waiters, &waiter->link);
	return true;
}

void deletions_stop(struct store *store)
{
	enum { WAIT_MS = 100 };

	/* What is left is on the list; the next start goes on with it. */
	store->deletions.is_stopping = true;
	rf_timer_stop(store->config.reactor, &store->deletions.purge);
	while (store->deletions.is_running)
		rf_reactor_turn(store->config.reactor, WAIT_MS);
}

/* ---- recovery ------------------------------------------------------------ */

/* The next orphans above inode *last; at most max. */
static int list_orphans(struct store *store, uint64_t last, uint64_t *inodes,
			unsigned int max, unsigned int *count)
{
	uint8_t prefix[INODE_KEY_SIZE], start[INODE_KEY_MAX];
	const void *key, *value;
	size_t key_size, size;
	struct engine_scan scan;
	int err;

	*count = 0;
	key_volume(prefix, VOLUME_ORPHAN);
	key_orphan(start, last + 1);
	err = engine_scan_open(store->engine, ENGINE_INODES, prefix,
			       sizeof(prefix), start, sizeof(start), &scan);
	if (err)
		return err;
	while (*count < max &&
	       (err = engine_scan_next(&scan, &key, &key_size, &value,
				       &size)) == 1)
		if (key_size == INODE_KEY_MAX)
			inodes[(*count)++] =
				record_load_be64((const uint8_t *)key + 9);
	engine_scan_close(&scan);
	return err < 0 ? err : 0;
}

/*
 * The next DELETIONS_AT_ONCE orphans: count them, and delete those that are not
 * open, unless they are kept.  1: there may be more.
 */
static int settle_orphans(struct store *store, bool counts, uint64_t *last)
{
	struct deletions *d = &store->deletions;
	uint64_t inodes[DELETIONS_AT_ONCE];
	unsigned int count;
	int err = list_orphans(store, *last, inodes, DELETIONS_AT_ONCE, &count);

	for (unsigned int i = 0; i < count && !err; i++) {
		*last = inodes[i];
		if (counts)
			d->orphans++;
		if (!d->keeps_orphans &&
		    store_open_count(store, inodes[i]) == 0)
			err = delete_orphan(store, inodes[i]);
	}
	return err ? err : count == DELETIONS_AT_ONCE;
}

static int recover_orphans(struct store *store)
{
	uint64_t last = 0;
	int got;

	do
		got = settle_orphans(store, true, &last);
	while (got == 1);
	return got;
}

static void purge_some(struct rf_timer *timer)
{
	struct deletions *d = rf_container_of(timer, struct deletions, purge);
	int got = settle_orphans(d->store, false, &d->purged);

	if (got == 1)
		rf_timer_start(d->store->config.reactor, timer, 0);
	else if (got < 0)
		rf_log(RF_LOG_WARN, "unlinked files can't be deleted (%s); "
		       "the next start does it", strerror(-got));
}

bool store_keeps_orphans(const struct store *store)
{
	return store->deletions.keeps_orphans;
}

void store_release_orphans(struct store *store)
{
	struct deletions *d = &store->deletions;

	if (!d->keeps_orphans)
		return;
	d->keeps_orphans = false;
	d->purge.fire = purge_some;
	rf_timer_start(store->config.reactor, &d->purge, 0);
}

/* Where the list of deletions begins and ends. */
static int find_deletions(struct store *store)
{
	struct deletions *d = &store->deletions;
	const void *key, *value;
	size_t key_size, size;
	struct engine_scan scan;
	uint8_t prefix[INODE_KEY_SIZE];
	int err;

	d->next = d->end = 1;
	key_volume(prefix, VOLUME_DELETION);
	err = engine_scan_open(store->engine, ENGINE_INODES, prefix,
			       sizeof(prefix), prefix, sizeof(prefix), &scan);
	if (err)
		return err;
	while ((err = engine_scan_next(&scan, &key, &key_size, &value,
				       &size)) == 1)
		if (key_size == INODE_KEY_MAX)
			d->end = record_load_be64((const uint8_t *)key + 9) + 1;
	engine_scan_close(&scan);
	return err;
}

/*
 * Data files of the last numbers given out that no inode has: their batch was
 * lost.  Only after a crash.
 */
static void remove_strays(struct store *store)
{
	uint64_t end = store->next_inode;
	uint64_t first = end > INODE_FIRST + INODE_SEARCH ?
			 end - INODE_SEARCH : INODE_FIRST;

	for (uint64_t inode = first; inode < end; inode++) {
		struct deletion stray = { .inode = inode, .fd = -1 };
		char path[DATA_PATH_SIZE];
		struct inode found;

		data_path(inode, path);
		if (faccessat(store->data_fd, path, F_OK, 0) == 0 &&
		    store_read_inode(store, inode, &found) == -ESTALE)
			remove_file(store, &stray);
	}
}

int orphans_recover(struct store *store, bool was_closed, bool has_clients)
{
	int err = find_deletions(store);

	store->deletions.store = store;
	store->deletions.keeps_orphans = has_clients;
	if (!err)
		err = recover_orphans(store);
	if (!err && !was_closed)
		remove_strays(store);
	return err;
}

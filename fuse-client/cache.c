/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.c - the kernel's pages against the change counter
 *
 * Operation.  An answer that shows a change which is not ours means that pages
 * of the inode may be old.  Mostly its attributes have another mtime or size
 * than the kernel's, which then drops the pages by itself.  If not, they are
 * dropped by a notification before the answer goes on to the kernel, so that
 * who has seen the change (by stat or lookup, or by read(), which begins with
 * GETATTR) can't read older data.  The notification waits for pages that are
 * being read, so it runs on a worker, one at a time for each inode; a request
 * that came while one was running, and showed more, waits for the next.
 * CONSISTENCY.md has the argument.
 *
 * Attributes in an answer that waited for a notification are ignored by the
 * kernel.  So one that tells it of another owner or mode does not wait, unless
 * its caller reads next: the pages are dropped for who does.
 *
 * When it fails.  The kernel knows no such inode: then it holds no pages.  Too
 * many requests wait: the reply goes without waiting, since the notification
 * may need a READ that is still behind them in the kernel's queue.
 */
#include "fs.h"

/* A thread of another pid namespace: it can't be told when it is done. */
enum { DROPPER_UNKNOWN = -1 };

static void run(struct rf_job *job)
{
	struct invalidation *inv =
		rf_container_of(job, struct invalidation, job);

	fuse_lowlevel_notify_inval_inode(inv->session, inv->nodeid, 0, 0);
}

static void post(struct invalidation *inv)
{
	struct fs *fs = inv->fs;

	fs->stats.invalidations++;
	inv->inode->dropper = 0;
	/* From here on: what is read later is newer than what is dropped. */
	change_drop(&inv->inode->change);
	rf_workers_post(fs->workers, fs->reactor, &inv->job);
}

static void reply_all(struct rf_list *waiters)
{
	struct rf_list *item;

	while ((item = rf_list_pop(waiters)) != NULL) {
		struct request *r =
			rf_container_of(item, struct request, link);

		request_set_state(r, REQUEST_WORKING);
		r->resume(r);
	}
}

/* Those for whom no invalidation was free look again, as far as one is. */
static void serve_waiting(struct fs *fs)
{
	struct rf_list queue, *item;

	rf_list_init(&queue);
	rf_list_take_all(&queue, &fs->invalidations_waiting);
	while ((item = rf_list_pop(&queue)) != NULL) {
		struct request *r =
			rf_container_of(item, struct request, link);

		request_set_state(r, REQUEST_WORKING);
		cache_reveal(r, r->revealed, r->resume);
	}
}

static void done(struct rf_job *job)
{
	struct invalidation *inv =
		rf_container_of(job, struct invalidation, job);
	struct fs *fs = inv->fs;
	struct inode *inode = inv->inode;
	struct rf_list served;

	given_disturb(&inode->given, ++fs->ticks);
	rf_list_init(&served);
	rf_list_take_all(&served, &inv->waiters);
	if (!rf_list_is_empty(&inv->next_waiters)) {
		rf_list_take_all(&inv->waiters, &inv->next_waiters);
		post(inv);
		reply_all(&served);
		return;
	}
	inode->invalidation = NULL;
	inv->inode = NULL;
	rf_list_push(&fs->free_invalidations, &inv->link);
	reply_all(&served);
	inodes_put(&fs->inodes, inode);
	serve_waiting(fs);
}

/* NULL: all are under way. */
static struct invalidation *start(struct fs *fs, struct inode *inode)
{
	struct rf_list *item = rf_list_pop(&fs->free_invalidations);
	struct invalidation *inv;

	if (!item)
		return NULL;
	inv = rf_container_of(item, struct invalidation, link);
	inv->session = fs->session;
	inv->inode = inode;
	inv->nodeid = inode_nodeid(inode);
	inode->refs++;
	inode->invalidation = inv;
	post(inv);
	return inv;
}

static void wait_in(struct request *r, struct rf_list *queue)
{
	request_set_state(r, REQUEST_INVALIDATING);
	rf_list_push(queue, &r->link);
}

/* Attributes in r's answer will be taken by the kernel. */
static bool is_undisturbed(const struct request *r, const struct inode *inode)
{
	return inode->change.changes == 0 && !inode->invalidation &&
	       given_is_taken(&inode->given, r->arrived);
}

static bool kernel_will_drop(const struct request *r,
			     const struct inode *inode)
{
	return is_undisturbed(r, inode) &&
	       given_differs(&inode->given, &inode->attr) &&
	       !given_has_size(&inode->given, &inode->attr);
}

/* What the kernel judges by has changed, or may have. */
static bool must_be_taken(const struct request *r, const struct inode *inode)
{
	return !r->reads_next &&
	       !given_has_rights(&inode->given, &inode->attr);
}

void cache_reveal(struct request *r, struct inode *inode, request_fn reply)
{
	struct fs *fs = r->fs;
	struct invalidation *inv = inode->invalidation;
	bool is_exact = change_is_exact(&inode->change);

	if (!is_exact && !inv && kernel_will_drop(r, inode)) {
		change_drop(&inode->change);
		inode->dropper = r->who.pid ? r->who.pid : DROPPER_UNKNOWN;
		is_exact = true;
	} else if (inode->dropper && inode->dropper != r->who.pid) {
		is_exact = false;
	}
	if ((!inv && (is_exact || must_be_taken(r, inode))) ||
	    fs->invalidating >= INVALIDATION_WAITERS_MAX) {
		reply(r);
		return;
	}
	r->resume = reply;
	r->revealed = inode;
	if (inv)
		wait_in(r, is_exact ? &inv->waiters : &inv->next_waiters);
	else if ((inv = start(fs, inode)) != NULL)
		wait_in(r, &inv->waiters);
	else
		wait_in(r, &fs->invalidations_waiting);
}

void cache_arrived(const struct request *r, struct inode *inode)
{
	if (inode->dropper == r->who.pid)
		inode->dropper = 0;
}

void cache_give(struct request *r, struct inode *inode)
{
	inode->given_to = r->who.pid;
	inode->given_ns = rf_reactor_now_ns(r->fs->reactor);
	given_note(&inode->given, &inode->attr, is_undisturbed(r, inode));
	given_disturb(&inode->given, ++r->fs->ticks);
}

void cache_give_set(struct request *r, struct inode *inode)
{
	given_note(&inode->given, &inode->attr, true);
	given_disturb(&inode->given, ++r->fs->ticks);
}

void cache_give_end(struct request *r, uint64_t end)
{
	/* A caller that is gone takes nothing. */
	if (r->fuse)
		given_grow(&r->inode->given, end);
}

void cache_give_eof(struct request *r, uint64_t end)
{
	if (given_cut(&r->inode->given, end))
		given_disturb(&r->inode->given, ++r->fs->ticks);
}

void cache_change_begin(struct request *r, bool has_pages)
{
	change_own_begin(&r->inode->change, has_pages);
	r->is_changing = true;
}

void cache_change_end(struct request *r, uint64_t before, const rf_attr_t *attr)
{
	struct inode *inode = r->inode;

	r->is_changing = false;
	change_own_end(&inode->change, before, attr ? attr->change : 0);
	given_disturb(&inode->given, ++r->fs->ticks);
	if (attr)
		inode_see(inode, attr);
}

int cache_init(struct fs *fs)
{
	rf_list_init(&fs->free_invalidations);
	rf_list_init(&fs->invalidations_waiting);
	for (unsigned int i = 0; i < INVALIDATIONS_MAX; i++) {
		struct invalidation *inv = &fs->invalidations[i];

		inv->fs = fs;
		inv->job.run = run;
		inv->job.done = done;
		rf_list_init(&inv->waiters);
		rf_list_init(&inv->next_waiters);
		rf_list_push(&fs->free_invalidations, &inv->link);
	}
	return rf_workers_create("rdmafs-inval", INVALIDATION_THREADS,
				 &fs->workers);
}

void cache_fini(struct fs *fs)
{
	if (fs->workers)
		rf_workers_destroy(fs->workers);
	fs->workers = NULL;
}

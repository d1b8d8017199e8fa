/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_impl.h - what the files of the store share; nobody else includes it
 *
 *	store.c          open, close, handles, statfs, space
 *	store_format.c   lock, format file, first start
 *	store_export.c   directories that exports show
 *	store_clients.c  clients, and the answers recorded for them
 *	store_orphans.c  opens, orphans, removal of data files
 *	txn.c            overlay, inode slots and cache, commit
 *	names*.c, attrs.c, xattrs.c, objects.c, sync.c
 *
 * Locks.  objects_lock only for opening a data file; sync.lock for the queue of
 * sync requests.  Neither is taken inside the other.
 */
#ifndef STORE_IMPL_H
#define STORE_IMPL_H

#include "engine.h"
#include "record.h"
#include "store.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
	INODE_FIRST = 16,		/* 1 is the root, the rest kept back */
	INODE_RANGE = 4096,		/* numbers reserved by one record */
	/* Numbers below the reserved end that a batch lost in a crash may have
	 * used: the last range and the one that open transactions reach back
	 * into. */
	INODE_SEARCH = 2 * INODE_RANGE,
	INODE_CACHE = 16384,		/* decoded inodes, 3 MiB */

	/* The dearest operation, rename, touches two directories, what is
	 * moved and what it replaces; one slot more for what it looks up. */
	TXN_INODES_MAX = RF_OPS_MAX * 5 + 16,
	TXN_BYTES = 16384,		/* preallocated: 16 names, one reply */
	TXN_BYTES_MAX = 4 << 20,	/* 16 attributes of 64 KiB, the list of
					 * an inode's attributes, and room */
	TXN_INTERNAL = TXNS_MAX,	/* the store's own */

	XATTR_LIST_MAX_SIZE = 65536,	/* the kernel's limit */
	DIR_SIZE = 4096,		/* what stat shows */
	BLOCK_SIZE = 65536,		/* preferred: a write() of stdio is one
					 * request of the mount */
	PARENTS_MAX = 1 << 20,		/* depth of a directory; more is a loop */

	DELETIONS_AT_ONCE = 256,	/* one sync of the log each */
	OPENS_MAX = 1 << 22,
	SHARDS = 256,
	DATA_PATH_SIZE = sizeof("xx/0123456789abcdef"),

	SYNC_PACE_US = 1000,		/* syncs back to back stall the writer */
	SPACE_CHECK_MS = 100,
	FAILURE_SAY_MS = 1000,		/* a line in the log at most so often */
};
_Static_assert(TXN_INODES_MAX >= RF_OPS_MAX * 5, "a full message must fit");

/* ---- transactions (txn.c) ------------------------------------------------ */

struct slot {
	struct inode inode;
	bool is_dirty;		/* to be written */
	bool is_new;		/* made by this transaction */
	bool was_orphan;
	bool is_deleted;	/* reads as absent */
};

struct txn {
	struct store *store;
	bool is_used;
	bool grows;		/* refused below the reserve */
	int orphan_change;	/* of the store's count, at the commit */
	int failed;		/* a record did not fit: it can't be committed */
	unsigned int slot_count;
	struct slot slots[TXN_INODES_MAX];
	uint8_t *bytes;		/* records, each linked to the one before */
	uint32_t size, used, last;
};

/* What a transaction was before an operation that may fail half way. */
struct txn_saved {
	const struct txn *txn;
	bool grows;
	int orphan_change;
	unsigned int slot_count;
	struct slot slots[TXN_INODES_MAX];
	uint32_t used, last;
};

/* Read through the transaction.  -ESTALE: there is none. */
int txn_slot(struct txn *txn, uint64_t inode, struct slot **out);
/* A slot for a new inode; number and all else of it is the caller's. */
int txn_new_slot(struct txn *txn, struct slot **out);
/* The inode changes: ctime, change counter.  Returns the change before. */
uint64_t slot_touch(struct slot *slot);
/* The same, and mtime. */
uint64_t slot_touch_data(struct slot *slot);

struct txn_value {
	const void *bytes;
	size_t size;
	struct engine_value pinned;	/* if it came from the engine */
};
/* -ENOENT.  The bytes are valid until the next put or txn_release(). */
int txn_get(struct txn *txn, enum engine_family family, const void *key,
	    size_t key_size, struct txn_value *out);
void txn_release(struct txn_value *value);
/* -E2BIG: over TXN_BYTES_MAX. */
int txn_put(struct txn *txn, enum engine_family family, const void *key,
	    size_t key_size, const void *value, size_t size);
int txn_delete(struct txn *txn, enum engine_family family, const void *key,
	       size_t key_size);
/*
 * Give each key with this prefix to each(), in no order, as the transaction
 * sees it; each() may put and delete, and ends the walk with a negative errno.
 */
int txn_for_each(struct txn *txn, enum engine_family family,
		 const void *prefix, size_t prefix_size,
		 int (*each)(struct txn *txn, const void *key, size_t key_size,
			     size_t value_size, void *context),
		 void *context);

struct txn *txn_begin_internal(struct store *store);

/* ---- the inode cache, committed state only ------------------------------- */

/* From the cache or the engine.  -ESTALE. */
int store_read_inode(struct store *store, uint64_t inode, struct inode *out);
/* The same, but open transactions first: for opens and data of what a
 * transaction is just making. */
int store_find_inode(struct store *store, uint64_t inode, struct inode *out);
void store_cache_inode(struct store *store, const struct inode *inode);
void store_uncache_inode(struct store *store, uint64_t inode);

/* ---- names --------------------------------------------------------------- */

uint64_t store_name_hash(const struct store *store, const rf_name_t *name);
int name_check(const rf_name_t *name);

struct name_entry {
	uint64_t inode;
	uint32_t type;
};
int name_find(struct txn *txn, uint64_t dir, const rf_name_t *name,
	      struct name_entry *out);
int name_put(struct txn *txn, uint64_t dir, const rf_name_t *name,
	     const struct inode *inode);
int name_delete(struct txn *txn, uint64_t dir, const rf_name_t *name);
/* A directory that lives. */
int name_dir(struct txn *txn, uint64_t dir, struct slot **out);
int inode_may(struct txn *txn, const struct cred *cred,
	      const struct inode *inode, unsigned int mask);
/* Write permission on dir, and the sticky bit. */
int name_may_remove(struct txn *txn, const struct cred *cred,
		    const struct inode *dir, const struct inode *child);
/* The inode lost a name. */
void name_drop(struct slot *child);

/* ---- attributes ---------------------------------------------------------- */

rf_time_t store_now(void);
int time_compare(const rf_time_t *a, const rf_time_t *b);
void inode_to_attr(const struct inode *inode, rf_attr_t *out);
/* Drop what a change by cred drops: setuid, setgid, capabilities. */
void inode_kill_priv(struct txn *txn, struct slot *slot,
		     const struct cred *cred);
/* ---- access control lists (acls.c) --------------------------------------- */

/* Is it the name of one? */
bool acl_is_name(const rf_name_t *name, bool *is_default);
/* The inode's list decides, and *err is what it says; false: it has none. */
bool inode_acl_may(struct txn *txn, const struct cred *cred,
		   const struct inode *inode, unsigned int mask, int *err);
/* As setxattr(2); size 0 removes. */
int acl_set(struct txn *txn, const struct cred *cred, struct slot *slot,
	    bool is_default, const void *value, size_t size);
/* The inode's mode was set. */
int acl_follow_mode(struct txn *txn, struct slot *slot);
/* A new child of dir: what it inherits, or the umask. */
int acl_init(struct txn *txn, const struct inode *dir, struct slot *child,
	     uint32_t umask);

/* Remove all extended attributes of an inode that goes. */
int xattrs_delete(struct txn *txn, struct slot *slot);

/* ---- orphans, deletions (store_orphans.c) -------------------------------- */

struct open_count {
	uint64_t inode;		/* 0: empty */
	uint32_t count;
};

struct opens {
	struct open_count *table;	/* linear probing, at most 3/4 full */
	size_t size, used;
};

struct deletion {
	uint64_t sequence, inode;
	int fd;			/* of the cached object, or -1 */
	bool is_done;
};

struct deletions {
	struct rf_job job;
	struct store *store;
	struct deletion batch[DELETIONS_AT_ONCE];
	unsigned int count;
	bool is_running, is_stopping;
	uint64_t next;		/* sequence to take next */
	uint64_t end;		/* sequence for the next record */
	struct rf_list released;	/* objects whose last user is gone */
	struct rf_list waiters;		/* struct removal_waiter */
	uint64_t orphans;	/* now */
	bool keeps_orphans;	/* clients may come back to them */
	struct rf_timer purge;	/* of those that nobody came back to */
	uint64_t purged;	/* up to this inode */
};

int opens_init(struct opens *opens);
void opens_fini(struct opens *opens);

/* In a commit: an inode with no name goes, or becomes an orphan. */
int orphan_settle(struct txn *txn, struct slot *slot);
/* It gets a name, or goes: it is none any more. */
int orphan_forget(struct txn *txn, struct slot *slot);
/*
 * Remove data files whose records are in the log, in batches on a worker.
 * Cheap if there are none.
 */
void deletions_start(struct store *store);
/* At open: finish what a crash left, but for orphans if clients may have them
 * open.  [blocks] */
int orphans_recover(struct store *store, bool was_closed, bool has_clients);
/* Is there any record of a client? */
int clients_exist(struct store *store, bool *out);
/* Wait for the running job, by turns of the reactor.  [blocks] */
void deletions_stop(struct store *store);
/* A number whose inode never came to be; its data file, if any, goes. */
void deletions_discard(struct store *store, uint64_t inode);

/* ---- objects ------------------------------------------------------------- */

enum { OBJECT_UNKNOWN = -1, OBJECT_NONE = -2 };

struct object {
	struct store *store;
	uint64_t inode;
	_Atomic int fd;			/* or OBJECT_UNKNOWN, OBJECT_NONE */
	_Atomic uint64_t inode_size;	/* as last committed */
	_Atomic bool is_dirty;		/* written since the last sync began */
	_Atomic bool is_new;		/* its directory entry is not synced */
	_Atomic bool is_syncing;	/* what was dirty is not safe yet */
	_Atomic bool is_suspect;	/* bytes may be left beyond the size */
	/* [owner] */
	unsigned int refs;
	bool is_doomed;			/* to be removed when refs are gone */
	uint64_t doomed_sequence;
	struct object *chain;		/* of its hash bucket */
	struct rf_list link;		/* idle, free or released */
	/* the sync thread's */
	uint64_t sync_round;
	int sync_err;
};

struct objects {
	struct object *table;
	struct object **buckets;
	size_t bucket_count;
	unsigned int count, used, referenced;
	struct rf_list idle;		/* no references; oldest first */
	struct rf_list free;
};

int objects_init(struct store *store, unsigned int count);
void objects_fini(struct store *store);
struct object *objects_find(struct store *store, uint64_t inode);
/* The inode's size was committed. */
void objects_note_size(struct store *store, const struct inode *inode);
/* A transaction that changed this inode is dropped; its size was this one. */
void objects_note_abort(struct store *store, const struct inode *dropped);
/* Current blocks if the object is cached and has a file, else fallback. */
uint64_t objects_blocks(struct store *store, uint64_t inode,
			uint64_t fallback);
/* Take it out of the cache; gives its descriptor, or -1.  It has no users. */
int objects_forget(struct store *store, struct object *object);
/* The descriptor; -ENOENT: no file, and none is to be made.  [any] [blocks] */
int object_fd(struct object *object, bool is_made);
void data_path(uint64_t inode, char out[DATA_PATH_SIZE]);

/* ---- sync ---------------------------------------------------------------- */

enum { SYNC_FAILURES = 256 };	/* remembered */

struct sync_failure {
	uint64_t inode;
	int err;
};

struct sync {
	pthread_t thread;
	pthread_mutex_t lock;		/* of what follows up to is_stopping */
	pthread_cond_t wake;
	struct sync_request *first, **last;
	struct sync_failure failures[SYNC_FAILURES];
	uint64_t failure_count;		/* ever */
	bool is_started, is_stopping;
	uint64_t round;			/* the thread's */
	_Atomic uint64_t rounds, requests;
	unsigned int pending;		/* [owner] posted and not done */
};

int sync_start(struct store *store);
void sync_stop(struct store *store);

/* ---- the store ----------------------------------------------------------- */

struct store {
	struct store_config config;
	struct engine *engine;
	struct engine_batch *batch;
	struct volume volume;
	int dir_fd, lock_fd, data_fd;
	uint64_t next_inode, inode_limit;	/* the limit is on the platter */
	uint64_t reserved_limit, reserved_batch;	/* of the next range */
	struct sync_request range_sync;
	bool is_range_syncing;
	bool lost_power;		/* since it was used last */
	bool doubts_cache;		/* and so does the next start */
	uint64_t hash_mask;		/* all ones; tests make hashes collide */
	struct txn *txns;		/* TXNS_MAX + 1 */
	struct txn_saved saved;
	uint8_t *txn_bytes;
	struct inode *inode_cache;
	struct opens opens;
	struct deletions deletions;
	struct objects objects;
	pthread_mutex_t objects_lock;	/* opening and making data files */
	struct sync sync;
	_Atomic uint64_t committed, flushed, synced;	/* batches */
	_Atomic uint64_t flushes;
	_Atomic int64_t space_left;	/* above the reserve, by estimate */
	_Atomic uint64_t space_checked_ns;
	_Atomic bool space_is_low;	/* it was said */
	_Atomic uint64_t failure_said_ns, failures_unsaid;
};

/*
 * What is in the page cache is not what will be on the platter: the next start
 * takes it as if the machine had gone down.  [owner]
 */
void store_doubt_cache(struct store *store);
/*
 * Log an error of a data file, whose words are "inode N: DOING of its data: why".  Of
 * a disk that fails all the time a line comes now and then.  Gives err.  [any]
 */
int store_say_failure(const struct object *object, const char *doing, int err);
/*
 * Cut what lies beyond size, which is committed, in a data file that nobody writes to
 * now.  The log first: if the size is that of a truncate which a crash would take
 * back, the bytes are its file's.  1: something was cut; 0: there was nothing; or
 * a negative errno.  [any]
 */
int object_cut_end(struct store *store, int fd, uint64_t size);
/* A new inode number.  0 or a negative errno. */
int store_new_inode(struct store *store, uint64_t *out);
/* The log up to now to the kernel, if it is not there.  [any] */
int store_flush_log(struct store *store);
/* The same to the platter.  [any] [blocks] */
int store_sync_log(struct store *store);
/* Account for growth: -ENOSPC below the reserve.  [any] */
int store_take_space(struct store *store, uint64_t size);

/* store_format.c: opens dir_fd, lock_fd, data_fd; is_new: to be initialised,
 * with this uuid. */
int format_open(struct store *store, bool *is_new);
/* All is in place: from now on it is a store. */
int format_finish(struct store *store);
void format_close(struct store *store);

#endif /* STORE_IMPL_H */

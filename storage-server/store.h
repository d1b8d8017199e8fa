/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - the volume: names and attributes in an ordered key-value engine,
 * data in one sparse file per inode
 *
 *	store --+-- txn        one atomic batch of metadata changes
 *	        `-- object     an open data file, counted
 *
 * Operation.  Metadata calls run in the reactor and cost microseconds: a
 * transaction reads the engine through its own changes, and commits as one
 * batch, with the reply that is recorded beside it.  A commit is in the engine
 * at once, and survives the death of the process after store_flush(), which the
 * reactor calls at the end of a turn, before answers leave.  Power loss loses
 * at most what was not synced, never the order.  ONDISK.md has the formats and
 * every crash point.
 *
 * Data first, then the batch: write the object, then txn_wrote().  The size in
 * the inode is the truth: a data file may be shorter, and the rest is zeroes.
 * What a crash or a failed write left beyond it is cut before the file grows
 * over it (object_prepare_growth()).  Only a truncate that cuts goes the other
 * way: txn_setattr() and its commit, then object_truncate(), which writes the
 * log out before it cuts, so that a crash leaves the old file or the new one.
 *
 * Ordering between operations that wait for helpers is the caller's (busy.h):
 * truncates, punches and appends exclude other users of the inode, and so does
 * a write that leaves a gap if object_has_rest(); reads and other writes share
 * it.
 *
 * Threads.  [owner]: the reactor.  [any]: also on workers.  [blocks]: only
 * there, or for data known to be small or cached.
 * Errors.  0 or negative errno, as the file system's users should see it: the
 * kernel's VFS answers for the same call on ext4.
 * Time.  All stamps are CLOCK_REALTIME's; ctime and the change counter of an
 * inode strictly increase, whatever that clock does.
 */
#ifndef STORE_H
#define STORE_H

#include "libproto/base.h"
#include "libproto/codec.h"
#include "libproto/hello.h"
#include "libproto/reactor.h"

struct store;
struct txn;
struct object;

enum {
	STORE_FORMAT = 1,		/* of ONDISK.md */
	STORE_ROOT_INODE = 1,
	STORE_LINK_MAX = 65000,		/* as ext4 */
	STORE_TREES_MAX = 65535,
};
/* The largest offset: ext4's limit for a file of 4 KiB blocks. */
#define STORE_SIZE_MAX ((UINT64_C(1) << 44) - 4096)

/*
 * The engine turns read-only when it meets a full disk, and it needs room also
 * while growth is refused: removals are logged, up to 64 MiB; the log becomes
 * tables before it goes; a compaction needs the room of what it reads.  A small
 * file system can't spare much, and has a small volume to compact.
 */
#define STORE_RESERVE_MAX (UINT64_C(512) << 20)
#define STORE_RESERVE_MIN (UINT64_C(64) << 20)
#define STORE_RESERVE_AUTO UINT64_MAX	/* 2 %, between these two */

struct store_config {
	const char *dir;
	uint64_t reserve_bytes;		/* refuse to grow when the local file
					 * system has less free: the engine must
					 * never meet a full disk */
	unsigned int object_cache;	/* data files kept open */
	struct rf_reactor *reactor;	/* where sync callbacks run */
	struct rf_workers *workers;	/* for deletions of data */
};

/*
 * Open, and initialise if dir is empty or missing (its parent must be there).
 * Takes the lock, replays the log, deletes what was unlinked.  Raises the soft
 * limit of open files to what object_cache needs.  [owner] [blocks]
 *
 * Logs what is wrong and what to do, and gives -EBUSY (locked by another
 * server), -EPROTONOSUPPORT (newer format), -ENOTEMPTY (not a store, not
 * empty), -EINVAL or -EIO (damaged), or the errno of the local file system.
 */
int store_open(const struct store_config *config, struct store **out);

/*
 * Flush everything, so that the next open has nothing to replay.  No
 * transaction is open; runs turns of the reactor until its own jobs and the
 * sync requests have ended.  Inodes that are still open stay orphans until the
 * next start.  [owner] [blocks]
 */
void store_close(struct store *store);

void store_uuid(const struct store *store, uint8_t out[16]);

/*
 * The directory that an export shows, made if it is not there (0755, of the
 * server's own user), and its tree number.  "" or "/" is the whole volume.
 * -EINVAL, logged: inside an export, or around one, of now or of an earlier
 * configuration; or no path.  [owner] [blocks]
 */
int store_export(struct store *store, const char *path, uint64_t *inode,
		 uint32_t *tree);

/*
 * Write the log out (not to the platter): before answers leave.  Cheap if
 * nothing was committed.  Then starts the removal of unlinked files' data.  An
 * error is final: what was committed since the last one may not be acknowledged,
 * and nothing can be changed until the store is opened again.  [owner]
 */
int store_flush(struct store *store);
/* The log could not be written or synced: the store can only be read.  [any] */
bool store_has_failed(const struct store *store);

/* ---- handles ------------------------------------------------------------- */

rf_handle_t store_handle(const struct store *store, uint64_t inode,
			 uint32_t tree);
/* False if forged. */
bool store_handle_is_valid(const struct store *store, const rf_handle_t *handle);

/* An open that a session was given, for it to show after a restart. */
struct open_proof {
	uint64_t session, inode;
	uint32_t open, flags;
};
uint64_t store_open_tag(const struct store *store,
			const struct open_proof *proof);
bool store_open_tag_is_valid(const struct store *store,
			     const struct open_proof *proof, uint64_t tag);

/* ---- who asks ------------------------------------------------------------ */

struct cred {
	uint32_t uid, gid;
	uint32_t group_count;
	const uint32_t *groups;
	bool is_super;		/* uid 0, not squashed: passes permission checks */
};

enum { MAY_EXEC = 1, MAY_WRITE = 2, MAY_READ = 4 };

bool cred_has_group(const struct cred *cred, uint32_t gid);

/* ---- transactions -------------------------------------------------------- */

/*
 * Begin.  Transactions of one store may be open side by side only if they touch
 * different inodes and names; the reactor runs each to its commit without
 * waiting in between.  Comes from a preallocated table; NULL only if more than
 * TXNS_MAX are open.  [owner]
 */
enum { TXNS_MAX = 64 };
struct txn *txn_begin(struct store *store);
bool txn_is_dirty(const struct txn *txn);

/*
 * Record an answer in the same batch.  Key: session, channel and slot; the same
 * key again replaces it.  The bytes are copied.  [owner]
 */
struct reply_key {
	uint64_t session;
	uint16_t channel, slot;
};
/* An open that the answer has made, or let go of. */
struct reply_open {
	uint64_t inode;
	uint32_t open, flags;
	bool is_released;
};
enum { REPLY_OPENS_MAX = 2 * RF_OPS_MAX };
struct reply_record {
	uint32_t seq;
	/* 1 + the index of the operation that says that its data are durable,
	 * which they are only when the answer leaves; 0: none does. */
	uint8_t sync_op;
	uint8_t open_count;
	struct reply_open opens[REPLY_OPENS_MAX];
};
int txn_record_reply(struct txn *txn, const struct reply_key *key,
		     const struct reply_record *record, const void *reply,
		     size_t size);
/* Read one back: its size, -ENOENT, -ENOSPC if room is too small.  [owner] */
int store_find_reply(struct store *store, const struct reply_key *key,
		     struct reply_record *record, void *out, size_t room);

/*
 * A client that has a session: what a server must know that was started after
 * it had come.  store_put_client() makes or replaces its record; the client may
 * learn of what it says after store_flush().  [owner]
 */
struct client_record {
	uint64_t session;
	uint32_t epoch;
	uint32_t tree;			/* of the export, then */
	bool has_no_key;
	bool wants_read_only;
	uint8_t uuid[RF_UUID_SIZE];
	uint8_t proof[RF_PROOF_SIZE];	/* of its HELLO: makes the secret */
	uint64_t features;		/* that hold */
	struct rf_hello_limits limits;	/* the same */
	int64_t created;		/* seconds since 1970 */
	char host[RF_HOST_MAX + 1];
	char export[RF_EXPORT_MAX + 1];
};
int store_put_client(struct store *store, const struct client_record *client);
/* The session is over: drop its record and all its answers.  [owner] */
int store_forget_session(struct store *store, uint64_t session);
/* Once, after the start: each(), until it gives an error.  Answers that belong to
 * no client go.  -EIO: logged.  [owner] [blocks] */
int store_load_clients(struct store *store,
		       int (*each)(const struct client_record *client,
				   void *context), void *context);

/*
 * Make the changes one batch in the engine; frees txn in any case.  After an
 * error nothing has changed.  -ENOSPC: it adds names or attributes, and the
 * local file system is below the reserve (removing, truncating and recording
 * what was written go on).  -EIO: final, logged.  [owner]
 */
int txn_commit(struct txn *txn);
/* Data written to inodes that the transaction made are removed.  [owner] */
void txn_abort(struct txn *txn);
/*
 * Remember what txn has, which txn_undo() goes back to; of one transaction of the
 * store at a time, the last that was saved.  [owner]
 */
void txn_save(struct txn *txn);
void txn_undo(struct txn *txn);

/* ---- names and attributes (in a transaction; [owner]) -------------------- */

/*
 * -ESTALE: the inode or directory itself is not there (any more); -ENOENT: the
 * name is not, or the directory was removed.  A call that fails has changed
 * nothing, but for -EIO, -ENOMEM and -E2BIG (a transaction of more than
 * TXN_BYTES_MAX): undo or abort it then.
 */

int txn_getattr(struct txn *txn, uint64_t inode, rf_attr_t *out);
/* dir's search permission is checked. */
int txn_lookup(struct txn *txn, const struct cred *cred, uint64_t dir,
	       const rf_name_t *name, rf_attr_t *out);

/*
 * Make an inode and its name.  mode has its type; setgid directories and
 * trees are inherited.  target: symbolic links only.
 */
struct make_args {
	uint64_t dir;
	rf_name_t name;
	uint32_t mode;
	uint32_t umask;		/* unless dir has a default list */
	uint64_t rdev;
	rf_blob_t target;
	bool has_no_name;	/* dir gets no entry: an orphan while it is open */
	bool is_linkable;	/* txn_link() may name it all the same */
};
int txn_make(struct txn *txn, const struct cred *cred,
	     const struct make_args *args, rf_attr_t *out);

int txn_link(struct txn *txn, const struct cred *cred, uint64_t inode,
	     uint64_t dir, const rf_name_t *name, rf_attr_t *out);
/*
 * Remove a name.  If it was the last one and the inode is not open
 * (store_open_count), its data go after the commit; else it is an orphan until
 * the last store_close_inode().  gone: the inode that lost its name (may be NULL).
 */
int txn_unlink(struct txn *txn, const struct cred *cred, uint64_t dir,
	       const rf_name_t *name, uint64_t *gone);
int txn_rmdir(struct txn *txn, const struct cred *cred, uint64_t dir,
	      const rf_name_t *name);
/* flags: RF_RENAME_*.  All the rules of rename(2). */
int txn_rename(struct txn *txn, const struct cred *cred, uint64_t dir,
	       const rf_name_t *name, uint64_t new_dir,
	       const rf_name_t *new_name, unsigned int flags);
/*
 * True if this rename would replace a file by a regular one whose data are not
 * on the platter: *inode is the one to pass to object_get() and store_sync(),
 * is_data_only, before the rename runs.  So a crash leaves the old content or
 * the new, never an empty file.
 */
bool txn_rename_needs_flush(struct txn *txn, uint64_t dir,
			    const rf_name_t *name, uint64_t new_dir,
			    const rf_name_t *new_name, uint64_t *inode);
int txn_readlink(struct txn *txn, uint64_t inode, void *out, size_t room,
		 size_t *size);

/* May cred do that with the inode, by its mode and its access control list? */
int txn_may(struct txn *txn, const struct cred *cred, uint64_t inode,
	    unsigned int mask);

/*
 * All of SETATTR but the data work of a truncate.  To grow: before it
 * object_prepare_growth(); to cut: after the commit object_truncate(), both with
 * the inode marked exclusive.  may_write: by a descriptor that is open for
 * writing, so no write permission is asked.
 */
int txn_setattr(struct txn *txn, const struct cred *cred, uint64_t inode,
		const struct rf_setattr_args *args, bool may_write,
		uint64_t *change_before, rf_attr_t *out);
/* Permission part of the same, to be asked before data are cut. */
int txn_may_setattr(struct txn *txn, const struct cred *cred, uint64_t inode,
		    const struct rf_setattr_args *args, bool may_write);

/*
 * After data were written to [offset, offset + size): size, mtime, change.
 * killer: by whom, if that drops setuid, setgid and capabilities; else NULL.
 */
int txn_wrote(struct txn *txn, uint64_t inode, uint64_t offset, uint64_t size,
	      const struct cred *killer, uint64_t *change_before,
	      rf_attr_t *out);
/* After fallocate, punch, zero: as txn_wrote(), growing only to new_size. */
int txn_allocated(struct txn *txn, uint64_t inode, uint64_t new_size,
		  const struct cred *killer, uint64_t *change_before,
		  rf_attr_t *out);
/*
 * atime by the relatime rule, or always if is_strict; no change of ctime.  By that
 * rule it is cheap: usually nothing.
 */
int txn_read_atime(struct txn *txn, uint64_t inode, bool is_strict);

/*
 * Entries of dir after cookie, "." and ".." first, each given to put(), until
 * it returns false: that one it did not take.  *eof: there are no more.  Not in
 * a dirty transaction.
 *
 * Any entry's cookie goes on after that entry, and cookies stay what they are
 * while entries come and go: what is there all the time is not skipped.  Names
 * whose hashes collide share a cookie; a listing that goes on from inside such a
 * group repeats it, so one piece must have room for all of them (of a million
 * names none collide, in all likelihood).  "." and ".." carry no attributes.
 */
int txn_readdir(struct txn *txn, uint64_t dir, uint64_t cookie, bool wants_attr,
		bool (*put)(void *context, const struct rf_dirent *entry),
		void *context, bool *eof);

int txn_getxattr(struct txn *txn, const struct cred *cred, uint64_t inode,
		 const rf_name_t *name, void *out, size_t room, size_t *size);
int txn_setxattr(struct txn *txn, const struct cred *cred, uint64_t inode,
		 const rf_name_t *name, const void *value, size_t size,
		 unsigned int flags);
int txn_listxattr(struct txn *txn, const struct cred *cred, uint64_t inode,
		  void *out, size_t room, size_t *size);
/* may_write: as for txn_setattr(); it counts for capabilities alone. */
int txn_removexattr(struct txn *txn, const struct cred *cred, uint64_t inode,
		    const rf_name_t *name, bool may_write);

/* ---- opens: an inode with one lives on without a name -------------------- */

/*
 * -ESTALE: no such inode (any more); -ENFILE: more than OPENS_MAX.  Also of an
 * inode that an open transaction just makes.  [owner]
 */
int store_open_inode(struct store *store, uint64_t inode);
/* The last one of an orphan deletes it.  [owner] */
void store_close_inode(struct store *store, uint64_t inode);
unsigned int store_open_count(const struct store *store, uint64_t inode);
/*
 * A store that is opened with clients in it keeps all inodes without a name,
 * also new ones, for their clients may come back and have them open.  Let those
 * go that are not open, some in each turn, and from now on.  [owner]
 */
bool store_keeps_orphans(const struct store *store);
/* True if the machine has gone down under the last server: what this had written
 * and not synced may be lost, although the log says that it was done. */
bool store_lost_power(const struct store *store);
void store_release_orphans(struct store *store);

/* ---- data ---------------------------------------------------------------- */

/*
 * The data file of a regular file, from a cache of open ones.  If there is none
 * the object is empty and makes its file at the first write.  A reference;
 * object_put() ends it.  Never waits for the disk.  [owner]
 *
 * -ESTALE, -EISDIR, -EINVAL (another type); -ENFILE: all of object_cache are
 * referenced.
 */
int object_get(struct store *store, uint64_t inode, struct object **out);
void object_put(struct object *object);

/*
 * What is cached: the bytes read, or -EAGAIN when it would wait for the disk;
 * then object_read() on a worker.  A short read is the object's end: up to the
 * inode's size what follows is zeroes.  [any]
 */
ssize_t object_read_cached(struct object *object, void *out, size_t size,
			   uint64_t offset);
/* [any] [blocks] */
ssize_t object_read(struct object *object, void *out, size_t size,
		    uint64_t offset);
/*
 * All or an error.  -ENOSPC below the reserve, unless the range is allocated
 * already; -EFBIG beyond STORE_SIZE_MAX.  After an error the range's old bytes
 * may be partly replaced, and some be left beyond the inode's size, which
 * object_has_rest() then says.  [any] [blocks]
 */
int object_write(struct object *object, const void *data, size_t size,
		 uint64_t offset);
/*
 * May bytes that are not zero lie beyond the inode's size, other than those of
 * writes that are under way?  Noted by the caller when what it has written will
 * not be recorded, or a batch is to make the file smaller; by the store when an
 * object_write() fails or a transaction that grew a file is dropped.  [any]
 */
void object_note_rest(struct object *object);
bool object_has_rest(const struct object *object);
/*
 * Make the object's bytes in [old_size, offset) read as zeroes, before a write
 * at offset or a truncate to it grows a file of old_size.  Free unless
 * object_has_rest(); then the caller must have the inode for itself, since what
 * others are just writing there would go too.  [any] [blocks]
 */
int object_prepare_growth(struct object *object, uint64_t old_size,
			  uint64_t offset);
/* Cut; a size beyond its end does nothing.  [any] [blocks] */
int object_truncate(struct object *object, uint64_t size);
/* flags: RF_FALLOC_*.  [any] [blocks] */
int object_allocate(struct object *object, unsigned int flags, uint64_t offset,
		    uint64_t size);
/* data or hole at or after offset, within file_size; -ENXIO.  [any] [blocks] */
int object_seek(struct object *object, uint64_t offset, bool is_hole,
		uint64_t file_size, uint64_t *out);
/*
 * Bytes copied, maybe fewer; [from_offset, + size) lies within the source's
 * inode size.  What its data file lacks reads as zeroes in the target, too.
 * -EINVAL: overlapping ranges of one object.  [any] [blocks]
 */
ssize_t object_copy(struct object *from, uint64_t from_offset,
		    struct object *to, uint64_t to_offset, size_t size);
/* st_blocks of the data file, 0 if there is none.  [any] */
uint64_t object_blocks(struct object *object);

/* ---- durability ---------------------------------------------------------- */

/*
 * Make durable: the object's data (NULL: none), then the log up to now.  Many
 * requests share one sync, at most one begins each millisecond.  done() runs on
 * the reactor.  [owner]
 */
struct sync_request {
	void (*done)(struct sync_request *request, int err);
	struct object *object;	/* the caller's reference, held until done */
	bool is_data_only;
	int err;		/* private from here on */
	struct store *store;
	struct sync_request *next;
	struct rf_task task;
};
void store_sync(struct store *store, struct sync_request *request);
/*
 * A sync of data that failed is told to each open of that inode once, not just
 * to those who waited for it.  An open starts with *seen = store_sync_failures()
 * and asks at each fsync; after an error it has been told.  An open that has not
 * asked while too many others failed is given -EIO.  [owner]
 */
uint64_t store_sync_failures(struct store *store);
/* The same, so that store_take_failure() says -EIO once: what was written may be
 * lost. */
uint64_t store_sync_doubted(struct store *store);
int store_take_failure(struct store *store, uint64_t inode, uint64_t *seen);
/* All of the store, data and log: also what a former server has written.  [any]
 * [blocks] */
int store_sync_all(struct store *store);
/* False if the inode's data are known to be on the platter.  [owner] */
bool store_needs_flush(struct store *store, uint64_t inode);

/* ---- figures ------------------------------------------------------------- */

int store_statfs(struct store *store, struct rf_statfs_results *out);

/*
 * What was deleted takes space for a moment yet, until its data file is removed
 * (after a sync of the log).  *upto is 0 at first: then all that is deleted by now
 * is meant.  True: some of that is being removed, and ready() runs on the reactor when
 * the next part of it has gone, or could not be removed; so it is not the end of
 * the store before.  False: there is nothing to wait for.  No transaction has
 * changes.  [owner]
 */
struct removal_waiter {
	void (*ready)(struct removal_waiter *waiter);
	struct rf_list link;
};
bool store_await_removals(struct store *store, uint64_t *upto,
			  struct removal_waiter *waiter);

struct store_stats {
	uint64_t commits, flushes, syncs, sync_requests;
	uint64_t objects_open, objects_cached, orphans;
};
void store_stats(const struct store *store, struct store_stats *out);

#endif /* STORE_H */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs.h - the mounted file system: what its files share
 *
 *	fs.c          life: serve, signals, statistics, the end
 *	connect.c     addresses, fabrics, arena, HELLO; why it failed
 *	fuse_io.c     /dev/fuse: receive, INIT, replies that libfuse lacks
 *	backlog.c     messages that wait for room, while the server is away
 *	reconnect.c   when the connection is lost: waiting, trying, back again
 *	reclaim.c     what the session needs on a new connection
 *	patience.c    what does not wait for ever; keeping the lease
 *	once.c        requests that change something, over our death
 *	keep.h        what a successor needs, in memory that stays
 *	successor.c   going on where a daemon died
 *	control.c     what the supervisor asks for
 *	request.c     one request of the kernel, from reading to its reply
 *	cache.c       the kernel's pages against the change counter
 *	ops_*.c       the operations; read.c, write.c, write_parts.c: data
 *	lock_wait.c   callers that wait for a lock
 *	orphan.c      locks that nobody waits for any more, given back
 *	pull.c        data over inline_max that the server grants
 *	inodes, files, slots, parts, change, given, held, table: bookkeeping without
 *	              I/O
 *
 * Model.  One reactor, one channel, one /dev/fuse descriptor.  A request object
 * is taken before /dev/fuse is read, so the kernel holds what we have no room
 * for, while there is a server (else backlog.c does).  An operation's handler
 * encodes a message into the request's buffer and submits it; when the answer has
 * come, its answered() decodes it and replies.  A request that must wait (buffer,
 * write slot, invalidation) lies in the queue of what it waits for.
 *
 * Threads.  Everything is [owner], the thread of fs_serve(); invalidations and
 * unmounting run on workers, and touch only their own job.
 *
 * When it fails.  While there is no connection (is_away) everything waits: what
 * was sent in libproto, to be sent again; what comes meanwhile behind it.  When
 * the session could not be kept, files of the former one (file_is_dead()) give
 * EIO.
 */
#ifndef FS_H
#define FS_H

#include "client.h"
#include "files.h"
#include "held.h"
#include "inodes.h"
#include "keep.h"
#include "parts.h"
#include "slots.h"

#include "libproto/fabric.h"
#include "libproto/figures.h"
#include "libproto/pool.h"
#include "libproto/reactor.h"

#include <fuse3/fuse_lowlevel.h>

enum {
	REQUESTS_MAX = 128,		/* of the kernel, at once */
	SPARE_REQUESTS = 16,		/* our own: slots, releases, identities,
					 * cancels */
	PARTS_MAX = 64,			/* of WRITEs, at once */
	DATA_MAX = 1 << 20,		/* one READ or WRITE of the kernel */
	/*
	 * A WRITE's data begin 80 bytes (fuse_in_header, fuse_write_in) into
	 * its message; so that they lie on a page the message begins here.
	 */
	FUSE_MESSAGE_AT = 4096 - 80,
	/* libfuse reads up to DATA_MAX + 4096 bytes. */
	DATA_BUF_SIZE = DATA_MAX + 8192,
	SMALL_BUF_SIZE = 128 << 10,	/* the usual read-ahead */
	WORKS_MAX = 32,			/* one-sided operations of one request */
	/* Of the kernel, without an object, while the server says nothing. */
	BACKLOG_MESSAGES_MAX = 1 << 14,
	BACKLOG_BYTES_MAX = 256 << 20,
	LOCK_WAITS_MAX = KEEP_WAITS,	/* the server's limit for a session */
	INVALIDATIONS_MAX = 64,
	INVALIDATION_THREADS = 4,
	/*
	 * Requests that wait for an invalidation may not take all objects: it
	 * may wait for a READ that we have not read yet.
	 */
	INVALIDATION_WAITERS_MAX = REQUESTS_MAX / 2,
	READ_PER_TURN = 8,		/* requests taken from the kernel */
	CHECK_MS = 1000,		/* for answers that don't come */
	BYE_MS = 3000,			/* a server that does not take leave */
	/* What need not wait for the server is answered after so long with what
	 * we know: df, and stat of the root, so that nothing that looks at all
	 * mounts hangs. */
	LOCAL_ANSWER_MS = 2000,
	/* Who is killed while he changes something waits so long from then on for a
	 * server that is there; then the connection is dropped, and without one
	 * nobody waits. */
	KILLED_MS = 10000,
	/* Data that lose their connection, or their grants, so often do so by
	 * no accident, and may be what ends it: then with pauses, that double. */
	LOSSES_SOON = 16,
	PAUSE_FIRST_MS = 20,
	PAUSE_MAX_MS = 5000,
	RECLAIM_CALLS = 4,		/* at once, on control slots */
	RECLAIM_FILES_MAX = RF_OPS_MAX,	/* in one message */
	RECLAIM_LOCKS_MAX = RF_OPS_MAX - 1,	/* USE, LOCK, LOCK, ... */
	/* handle, open, flags, tag, and what each operation has */
	RECLAIM_OP_SIZE = RF_OP_HEADER_SIZE + 20 + 4 + 4 + 8,
	BACKGROUND_MAX = 64,		/* the kernel's own requests in flight */
	/* IDENTITY goes in front of the operations if it has at most so many
	 * groups; else the message might grow too large, and it goes alone. */
	IDENTITY_GROUPS_ABOARD = 32,
};

struct addrinfo;
struct fs;
struct request;

enum request_state {
	REQUEST_FREE,
	REQUEST_WORKING,	/* a handler runs */
	REQUEST_BUFFER,		/* waits for a pool buffer */
	REQUEST_SLOTS,		/* waits for write slots */
	REQUEST_LOCKS,		/* waits for locks of its file to be settled */
	REQUEST_CALLING,	/* on its way to the server and back */
	REQUEST_QUEUED,		/* the server will finish it later */
	REQUEST_PULLING,	/* one-sided work in flight */
	REQUEST_INVALIDATING,	/* waits for pages to be dropped */
	REQUEST_PARTS,		/* a WRITE whose parts are under way */
	REQUEST_PAUSED,		/* lost its data too often to go on at once */
	REQUEST_STATES,
};

typedef void (*request_fn)(struct request *r);
typedef void (*answered_fn)(struct request *r, struct rf_dec *reply);

struct request {
	struct fs *fs;
	struct rf_list *home;		/* where it lies when it is free */
	struct rf_list link;		/* free; or what it waits for */
	struct rf_list age_link;	/* in flight, oldest first */
	uint64_t started_ns;		/* when put there */
	uint64_t arrived;		/* tick */
	enum request_state state;
	bool was_interrupted;
	bool was_cancelled;
	bool was_killed;		/* and waits, for others see it */
	uint64_t killed_ns;
	bool uses_open;			/* of the session it was taken in */
	bool is_opening, is_awaited;	/* its answer is an open; reclaim.c */
	uint32_t losses;		/* of connections or grants, while data
					 * moved */
	uint32_t generation;		/* of the session */
	uint64_t read_ns, arrived_ns;	/* backlog.c lies between */
	/* Answers it from what we know, when there is no time to wait. */
	request_fn answer_locally;
	bool is_registering;		/* at libfuse, which holds its locks */
	fuse_req_t fuse;		/* NULL: replied to (also when its
					 * caller died), or our own */
	/* once.c */
	uint64_t unique;		/* the kernel's number; 0: our own */
	uint32_t part;			/* of a WRITE, from 1 */
	bool is_resent;			/* by the kernel: a daemon died */
	bool is_late;			/* ... and was not read in time */
	bool changes;			/* something, by the message at hand */
	bool is_seen;			/* ... by others */
	bool goes_again;		/* and kept says how it went before */
	struct keep_request *kept;	/* or NULL */

	/* who asks */
	struct fuse_ctx who;
	uint16_t identity;
	bool holds_identity;
	bool carries_identity;		/* registers it, so it must arrive */

	/* the message */
	struct rf_call call;
	uint64_t sent_ns;		/* no grant of its answer is older */
	struct rf_buf *msg;		/* kept for good */
	struct rf_enc enc;
	answered_fn answered;

	/* what it is about; referenced until the end */
	struct inode *inode;
	struct inode *other;		/* second directory, source, child */
	struct file *file;
	struct request *whole;		/* we are a part: of this WRITE */

	/* undone at the end, unless it was settled before */
	bool is_filling;		/* pages of inode, by a READ */
	bool is_changing;		/* inode, by an operation of ours */
	struct lock_wait *wait;		/* of the LOCK or UNLOCK that it sends */
	bool is_unlocking, is_flush;
	rf_grants_t taken;		/* write slots */

	/* data */
	struct rf_buf *data;
	uint32_t needs;			/* bytes, when it is held back */
	struct rf_pool_waiter waiter;
	request_fn resume;		/* when what it waits for is there */
	struct rf_timer pause;
	struct inode *revealed;		/* cache.c */
	bool reads_next;		/* ... cached pages, when it is answered */

	/* pull.c */
	struct rf_op op;
	rf_grants_t grants;
	uint32_t pulled_size;		/* sum of the grants */
	void *sink;
	void (*pulled)(struct request *r, int err);
	bool was_damaged;		/* the checksum said so */

	union {
		struct {
			bool is_data_only;
		} sync;
		struct {
			uint64_t offset, version;
			uint32_t size, done;
			bool is_eof;
			bool was_repeated;	/* a part that was damaged */
		} read;
		struct {
			uint64_t offset;
			const uint8_t *bytes;
			uint32_t size, done;
			uint32_t sent;		/* in the message on its way */
			uint32_t flags;
			bool is_xattr;		/* SETXATTR of name */
			bool is_inline;		/* that message's data */
			bool is_direct;		/* its file, which may be closed
						 * when the answer comes */
			struct parts parts;	/* in REQUEST_PARTS */
			char name[RF_NAME_MAX + 1];
			rf_pieces_t pieces;
		} write;
		struct {
			uint64_t cookie;
			uint32_t size;
			bool wants_attr;
		} dir;
		struct {
			uint32_t size, value_size;
			char name[RF_NAME_MAX + 1];
			bool is_list;
		} xattr;
		struct {
			uint32_t flags;		/* O_* of open */
			uint32_t wire_flags;
		} open;
		struct {
			bool is_statx;
		} getattr;
		uint64_t end;		/* FALLOCATE: of the file then, at least;
					 * COPY: what is put there begins here */
		struct rf_unlock_args unlock;
		uint64_t number;	/* of the lock_wait to end */
	};
	struct rf_work works[WORKS_MAX];
	struct rf_sge sges[WORKS_MAX];
};

/*
 * A LOCK, and who waits for it; or an UNLOCK (args.wait is 0) until it is
 * answered.
 */
struct lock_wait {
	struct table_item item;		/* first; its number is the server's */
	struct fs *fs;
	struct inode *inode;		/* referenced, if parked or an orphan */
	uint64_t fh;
	struct rf_lock_args args;
	struct fuse_ctx who;
	uint64_t since_ns;
	uint64_t unique;		/* of its caller; 0: it was told */
	fuse_req_t fuse;		/* when parked */
	bool is_settled;		/* by a daemon that died: with err */
	int err;
	bool was_sent;			/* so the server may know it */
	bool is_parked;
	bool is_asked;			/* parked: the server knows it for sure */
	bool was_told;			/* of an end, when it was not */
	bool is_registering;		/* at libfuse */
	bool was_interrupted, is_cancelling;
	bool is_orphan, is_settling, is_put_off;	/* orphan.c */
};

struct invalidation {
	struct rf_job job;
	struct rf_list link;		/* free */
	struct fs *fs;
	struct fuse_session *session;
	struct inode *inode;		/* referenced */
	uint64_t nodeid;
	struct rf_list waiters;		/* replied to when this run ends */
	struct rf_list next_waiters;	/* ... when the next one ends */
};

/* How to reach the server: a device, and what we have of it. */
struct way {
	struct rf_fabric *fabric;
	struct rf_pd *pd;
	struct rf_mr *mr;		/* of the arena */
	struct rf_poller *poller;
	uint32_t read_block;		/* one one-sided READ */
};

/* Between two connections; reconnect.c. */
struct reconnect {
	struct rf_timer timer;		/* until the next attempt */
	struct rf_job job;		/* the host's addresses, the way there */
	bool is_looking_up;
	int gai, route_err;
	char uri[WAY_URI_SIZE];		/* what leads to next */
	struct way way;			/* opened there */
	struct addrinfo *addresses, *next, *at;
	unsigned int tried;
	uint32_t pause_ms;
	uint64_t since_ns;		/* when it was lost */
	uint64_t resent_before;
	char said[RF_REASON_MAX + 1];
};

enum reclaim_phase {
	RECLAIM_IDLE,
	RECLAIM_IDENTITIES,
	RECLAIM_OPENS,
	RECLAIM_LOCKS,
	RECLAIM_ORPHANS,
	RECLAIM_WAITS,		/* for locks */
	RECLAIM_RESENT,		/* all goes on; opens just before the loss */
	RECLAIM_END,
};

/* Some locks of one owner on one file; or one that is waited for. */
struct reclaim_locks {
	rf_handle_t handle;
	uint64_t wait;			/* 0: they were held */
	struct rf_lock_args v[RECLAIM_LOCKS_MAX];
	uint64_t fh;
};

/* How far a lock that nobody waits for is given back; orphan.c. */
struct reclaim_orphan {
	uint64_t number;
	bool is_restoring;		/* else: cancelling */
	uint64_t from;			/* up to here it is done */
	struct rf_range pieces[RECLAIM_LOCKS_MAX];	/* in the message */
	bool is_held[RECLAIM_LOCKS_MAX];
};

struct reclaim_call {
	struct rf_call call;
	struct rf_buf *msg;
	struct fs *fs;
	bool is_busy;
	unsigned int count;
	union {
		uint64_t files[RECLAIM_FILES_MAX];	/* their numbers */
		struct reclaim_locks locks;
		struct reclaim_orphan orphan;
	};
};

struct reclaim {
	enum reclaim_phase phase;
	bool has_opens;			/* the server has forgotten them */
	bool is_midway;			/* nothing was lost: locks only */
	bool is_stepping;
	uint32_t at;			/* in this phase */
	uint32_t range;			/* of the locks at at */
	unsigned int busy;		/* calls */
	unsigned int awaited;		/* requests that may bring an open */
	unsigned int reclaimed, reclaimed_locks;
	struct reclaim_call calls[RECLAIM_CALLS];
};

/* Records of requests, in keep; once.c. */
struct once {
	uint16_t free[KEEP_REQUESTS];
	unsigned int free_count;
	bool is_old[KEEP_REQUESTS];	/* of a daemon that died */
};

/* backlog.c */
struct backlog {
	struct rf_list messages;	/* the oldest first */
	unsigned int count;
	size_t bytes;
	uint8_t *rx;			/* instead of a buffer of the pool, if that
					 * has none; NULL: not needed yet */
};

struct fs {
	struct mount_options options;
	char server[MOUNT_HOST_MAX + 32];	/* for logs */

	/* transport */
	struct rf_reactor *reactor;
	struct rf_pool *pool;
	struct way way;			/* empty while its device is gone */
	struct rf_client *client;	/* NULL: closed */
	struct rf_hello_limits limits;
	bool has_crc;
	bool has_windows;		/* the server; else its keys can't be
					 * invalidated */
	bool is_open;			/* HELLO succeeded */
	bool is_away;			/* no connection, or not all set up */
	bool was_back;			/* it was away, and is not any more */
	bool is_silent;			/* something was answered locally, and
					 * the server has said nothing since */
	bool is_other_export;		/* HELLO led to one; leave it */
	bool is_leaving;		/* BYE was said */
	bool has_said_losses;		/* until data arrive again */
	uint32_t generation;		/* of the session */
	uint32_t lease_ms;
	struct reconnect reconnect;
	struct reclaim reclaim;
	struct rf_workers *resolver;
	int close_err;
	char close_reason[RF_REASON_MAX + 1];

	/* for, and from, another daemon */
	struct keep *keep;
	struct once once;
	int control_fd;			/* to the supervisor; -1: there is none */
	struct rf_watch control_watch;
	struct rf_hook drain_hook;
	struct rf_timer drain_timer;
	bool is_successor;
	bool is_taking_over;		/* reads what the kernel sends again */
	struct rf_list held_back;	/* READs, meanwhile */

	/* bookkeeping */
	struct identities *identities;
	struct inodes inodes;
	struct files files;
	struct held_locks held;

	/* waiting locks */
	struct table lock_waits;
	uint32_t parked, orphans;
	bool has_unasked;		/* there may be one */
	struct rf_list locks_waiting;	/* REQUEST_LOCKS */
	struct request *lock_poll;	/* LOCK_EVENTS, or NULL */

	/* requests */
	struct request *requests;	/* REQUESTS_MAX, SPARE_REQUESTS and
					 * PARTS_MAX, in this order */
	struct rf_list free_requests, free_spares, free_parts;
	struct rf_list in_flight;	/* by age */
	struct rf_list pulls_waiting;	/* the work queue is full */
	struct rf_list slots_waiting;
	struct rf_list releases;	/* files closed while we were away */
	unsigned int busy;		/* taken, but not INVALIDATING, PARTS */
	unsigned int invalidating;
	uint64_t ticks;			/* moments, see given.h */
	uint64_t heard_ns;		/* the last answer */
	struct rf_hook hook;
	struct rf_figures figures;
	struct rf_timer check_timer;

	/* /dev/fuse */
	struct fuse_session *session;
	struct rf_watch fuse_watch;
	int fuse_fd;
	struct rf_buf *rx;		/* what the next request is read into */
	struct rf_pool_waiter rx_waiter;
	struct request *current;	/* what it will be */
	const uint8_t *message;		/* that is being handled */
	uint64_t read_ns;		/* when it was read */
	bool was_not_begun;		/* by a daemon that died, though it is sent
					 * again */
	struct backlog backlog;
	bool is_reading_paused;
	bool is_draining;		/* for a hand-over */
	bool init_was_answered;
	void (*ready)(void *context);
	void *ready_context;
	uint64_t init_unique;
	bool is_statx;			/* the message at hand, told as GETATTR */

	/* write slots */
	struct slots slots;
	bool is_asking_slots;
	uint32_t slots_denied;		/* times the server gave none */
	uint64_t slots_retry_ns;

	/* invalidations */
	struct rf_workers *workers;
	struct invalidation invalidations[INVALIDATIONS_MAX];
	struct rf_list free_invalidations;
	struct rf_list invalidations_waiting;	/* requests: none was free */

	/* signals */
	struct rf_watch signal_watch;
	int signal_fd;
	struct rf_workers *unmounter;
	struct rf_job unmount_job;
	bool is_unmounting;

	struct {
		uint64_t requests, interrupts, invalidations, pauses;
		uint64_t read_bytes, write_bytes, stale_attrs, inline_writes;
		uint64_t slot_waits, crc_errors, split_writes;
		uint64_t restarts, sessions_lost, given_up, local_answers;
		uint64_t late_messages;
	} stats;
};

/* ---- connect.c ----------------------------------------------------------- */

int connect_session(struct fs *fs);
/* A successor's: all but the connection. */
int connect_restore(struct fs *fs);
/* The host's addresses, as getaddrinfo() has it.  [any] [blocks] */
int connect_look_up(const struct mount_options *options,
		    struct addrinfo **out);
/* Which device leads to address?  -ENETUNREACH: none that is over the mount's
 * scheme.  While fabric_uri and options stay.  [any] [blocks] */
int connect_route(const struct fs *fs, const struct addrinfo *address,
		  char uri[WAY_URI_SIZE]);
/* Open a device, and register the arena with it.  [any] [blocks] */
int connect_open_way(const struct fs *fs, const char *uri, struct way *way);
/* Nothing of it is in use.  [any] [blocks] */
void connect_close_way(struct way *way);
/* From now on the session, which is away, uses this way; it is taken over. */
int connect_move(struct fs *fs, struct way *way, const char *uri);
/* Try the session's next connection; ends in an event of the client. */
int connect_again(struct fs *fs, const struct addrinfo *address);
/* Let go of fabric and arena; client is NULL. */
void connect_fini(struct fs *fs);

/* ---- fs.c ---------------------------------------------------------------- */

/* What the server says may not be believed: begin again with a new connection. */
void fs_lose(struct fs *fs, const char *what);

/* ---- reconnect.c --------------------------------------------------------- */

int reconnect_init(struct fs *fs);
/* False: a look-up hangs (a name server that is away, for instance), and uses fs
 * until the process ends. */
bool reconnect_fini(struct fs *fs);
/* 0: there is a connection. */
uint64_t fs_away_ms(const struct fs *fs);
/* A successor's: its first attempt. */
void reconnect_begin(struct fs *fs);
/* The client's lost(). */
void reconnect_lost(struct fs *fs, int err, const char *reason);
/* The session is set up: all goes on. */
void reconnect_back(struct fs *fs);

/* ---- reclaim.c ----------------------------------------------------------- */

int reclaim_init(struct fs *fs);
void reclaim_fini(struct fs *fs);
/* Set the session up; ends in reconnect_back(), unless reclaim_stop() comes. */
void reclaim_start(struct fs *fs, bool was_restarted, bool is_new_session);
void reclaim_stop(struct fs *fs);
/* While there is a connection: settle what can be of orphans and of waits that
 * the server does not know. */
void reclaim_locks(struct fs *fs);
/* rc's message is complete. */
void reclaim_submit(struct reclaim_call *rc, struct rf_enc *enc);
/* A lock by this open can't be had back: EIO to who has it open. */
void reclaim_lock_is_lost(struct fs *fs, uint64_t fh, uint64_t inode,
			  unsigned int status);
/* r, which is_awaited, has its answer. */
void reclaim_open_is_known(struct request *r);

/* ---- once.c -------------------------------------------------------------- */

struct fuse_in_header;

void once_init(struct fs *fs);
/* r is that message: find what was kept of it, if it is sent again. */
void once_arrived(struct request *r, const struct fuse_in_header *in);
/* All that the kernel sends again was read. */
void once_over(struct fs *fs);
/* Is something kept of that one?  Of how many, that did not come yet? */
bool once_has(const struct fs *fs, uint64_t unique);
unsigned int once_old(const struct fs *fs);

/* r's message is complete.  False: the caller is to submit it. */
bool once_submit(struct request *r);
/* r waits, with the answer taken. */
void once_answered(struct request *r, const struct rf_dec *reply);
/* r has made this open, and the kernel is to learn of it. */
void once_opened(struct request *r, const struct file *file);
/* It was replied to, or nobody waits for it. */
void once_end(struct request *r);
/* The reply that r is about to be given tells of inode, too: one lookup more. */
void once_tells(struct request *r, struct inode *inode);
/* It was given, or will not be. */
void once_told(struct fs *fs);
/* A successor's: after the inodes, before their lookups change. */
void once_restore_told(struct fs *fs);
/* The kernel sends that one again: it has not got a reply. */
void once_was_not_told(struct fs *fs, uint64_t unique);
/* r is to release that open. */
void once_release(struct request *r, const struct inode *inode, uint32_t open);

/* A message of a write, of size bytes behind the done ones. */
void once_write_sends(struct request *r, uint32_t done, uint32_t size);
void once_write_done(struct request *r, uint32_t done);
/* It goes again: how far it was, and the size of what was on its way (0:
 * nothing). */
bool once_write_began(const struct request *r, uint32_t *done, uint32_t *sent);
/* A write becomes one in parts; before they are sent. */
void once_whole(struct request *r, uint32_t part_size);
void once_part(struct request *part, const struct request *whole,
	       unsigned int index);
void once_stopped(const struct request *whole, uint64_t at, int err);

/* A message of the kernel that has no answer. */
bool once_is_told_only(const struct fuse_in_header *in);
/* An answer without data, to the kernel itself.  0 or a negative errno: -ENOENT if
 * it does not want one any more. */
int once_reply(int fuse_fd, uint64_t unique, int err);
/* Have the kernel send again what it has no answer to.  0 or a negative errno. */
int once_ask_again(int fuse_fd);
/* Where the kernel does not send again: what was read, and replied to. */
void once_read(struct fs *fs, const struct fuse_in_header *in);
void once_replied(struct fs *fs, uint64_t unique);
/* EIO to who waits; how many. */
unsigned int once_fail_all(struct keep *keep, int fuse_fd);

/* ---- successor.c --------------------------------------------------------- */

/* The tables as they were. */
int successor_restore(struct fs *fs);
/* /dev/fuse is open: replay INIT, have the kernel send again. */
int successor_begin(struct fs *fs);
/* A message was read (NULL: there is none). */
void successor_read(struct fs *fs, const struct fuse_in_header *in);

/* ---- control.c ----------------------------------------------------------- */

/* What the supervisor says; nothing without one. */
int control_init(struct fs *fs);
void control_fini(struct fs *fs);

/* ---- patience.c ---------------------------------------------------------- */

/*
 * request_call(), but if the server is not there local() answers, at once or
 * after LOCAL_ANSWER_MS, from what we know; it replies and does no more.
 */
void patience_call(struct request *r, const struct rf_args *args,
		   answered_fn answered, request_fn local);

/* The server says nothing, and has not for LOCAL_ANSWER_MS, although it should. */
bool patience_is_over(const struct fs *fs);

void patience_start(struct fs *fs);
void patience_stop(struct fs *fs);

/* ---- fuse_io.c ----------------------------------------------------------- */

int fuse_io_open(struct fs *fs, int fuse_fd);
void fuse_io_stop(struct fs *fs);
void fuse_io_close(struct fs *fs);
/* Go on reading, if it was paused for lack of room. */
void fuse_io_resume(struct fs *fs);
/* Read nothing more; or again. */
void fuse_io_pause(struct fs *fs, bool is_paused);
/* A successor's: libfuse learns what the kernel has agreed on with another. */
void fuse_io_replay_init(struct fs *fs);
/* A successor's: all that the kernel sends again, as far as there is room. */
void fuse_io_read_all(struct fs *fs);

/* Is there room for one more message?  For those of backlog.c. */
bool fuse_io_has_room(struct fs *fs);
/* Handle one that was read then. */
void fuse_io_deliver(struct fs *fs, const void *message, size_t size,
		     uint64_t read_ns);

/* What CREATE of a file without a name has instead of one. */
#define FUSE_IO_NO_NAME "/"

/* The message being handled, after its header; see linux/fuse.h. */
const void *fuse_io_raw(const struct fs *fs);
const struct fuse_in_header *fuse_io_header(const struct fs *fs);

/*
 * Replies with the newest attributes of r->inode (entries: r->other, one lookup
 * more).  If the kernel does not want it any more, undone.
 */
void fuse_io_reply_entry(struct request *r);
void fuse_io_reply_attr(struct request *r);
void fuse_io_reply_statx(struct request *r);
void fuse_io_reply_set(struct request *r);	/* of SETATTR */
/* The attributes alone: r goes on without a caller. */
void fuse_io_give_attr(struct request *r);
void fuse_io_give_statx(struct request *r);
void fuse_io_reply_open(struct request *r);
/* The open alone: r goes on without a caller.  False: it has none. */
bool fuse_io_give_open(struct request *r, const struct file *file);
void fuse_io_reply_create(struct request *r);

/* Append one; its size, or 0 if there is no room. */
size_t fuse_io_add_dirent(uint8_t *at, size_t room,
			  const struct rf_dirent *entry);
/* child: NULL for an entry whose inode the kernel is not to learn. */
size_t fuse_io_add_dirent_plus(uint8_t *at, size_t room,
			       const struct rf_dirent *entry,
			       const struct inode *child);
/* The kernel never got these: drop their lookups. */
void fuse_io_undo_dirents(struct fs *fs, const uint8_t *at, size_t size);

/* ---- backlog.c ----------------------------------------------------------- */

void backlog_init(struct fs *fs);
void backlog_fini(struct fs *fs);
/* May messages be read for which there is no room? */
bool backlog_is_open(const struct fs *fs);
/* To read one into: DATA_BUF_SIZE bytes, or NULL. */
uint8_t *backlog_rx(struct fs *fs);
/* It was read: true if it waits, or was dealt with.  False: handle it; if it wants
 * an object, there is one. */
bool backlog_takes(struct fs *fs, const struct fuse_in_header *in, size_t size);
/* At the end of a turn: handle what there is room for. */
void backlog_serve(struct fs *fs);
/* Once in a while: those that need not wait, or wait no more. */
void backlog_check(struct fs *fs);

/* ---- request.c ----------------------------------------------------------- */

int requests_init(struct fs *fs);
void requests_fini(struct fs *fs);

/* The object of the request being handled, with its inode: NULL if the kernel
 * named none of ours (it was replied to). */
struct request *request_take(fuse_req_t fuse, fuse_ino_t nodeid);
/* One for our own purposes, NULL: all are in use. */
struct request *request_spare(struct fs *fs);

/* Also finds the file of fi. */
struct request *request_take_file(fuse_req_t fuse, fuse_ino_t nodeid,
				  const struct fuse_file_info *fi);

void request_reply_err(struct request *r, int err);	/* 0 or negative */
/* -ENOENT if the caller is gone. */
int request_reply_data(struct request *r, const void *data, size_t size);
/* For fuse_reply_*(): now it counts as replied to.  NULL: the caller is gone. */
static inline fuse_req_t request_fuse(struct request *r)
{
	fuse_req_t fuse = r->fuse;

	r->fuse = NULL;
	return fuse;
}
void request_end(struct request *r);			/* after a reply */
/* Both: the usual way out. */
void request_fail(struct request *r, int err);

/* Begin a message: returns and identity.  On failure r has ended. */
bool request_begin(struct request *r);
void request_use(struct request *r, const struct inode *inode);
void request_put(struct request *r, const struct rf_args *args);
/* Finish the message and send it. */
void request_send(struct request *r, answered_fn answered);
/* begin, USE r->inode, args, send. */
void request_call(struct request *r, const struct rf_args *args,
		  answered_fn answered);

/*
 * The results of the operation of this code: 0, or the negative errno of the
 * first that failed.  A malformed answer ends the connection: -EIO.
 */
int request_results(struct request *r, struct rf_dec *reply,
		    enum rf_op_code code, struct rf_results *out);

/* Answered: status only. */
void request_answered_status(struct request *r, struct rf_dec *reply,
			     enum rf_op_code code);

/* Have r->data of at least size bytes, then resume(). */
void request_need_data(struct request *r, uint32_t size, request_fn resume);

/*
 * Its data were lost on their way, with the connection or the server's memory for
 * them: resume(), at once or, when that happens again and again, after a pause.
 * request_arrived(): they were not.
 */
void request_again(struct request *r, request_fn resume);
void request_arrived(struct request *r);

void request_set_state(struct request *r, enum request_state state);

/* Release an open that nobody will close; r is used up. */
void request_release_open(struct request *r, struct inode *inode,
			  uint32_t open);
/* The same, of an inode that we have no room for.  It is not done again by another
 * daemon. */
void request_release_unknown(struct request *r, const rf_handle_t *handle,
			     uint32_t open);

/* A name of the kernel as the protocol has it: 0 or -ENAMETOOLONG, -EINVAL. */
int request_name(const char *name, rf_name_t *out);

/* True if r was not sent, and has ended with err. */
bool request_take_back(struct request *r, int err);
/*
 * Its caller waits no more: reply err.  What was not sent ends with that; what
 * was goes on without a caller until its answer comes.
 */
void request_abandon(struct request *r, int err);

/* Fail what waits for write slots or for room to pull: it is the end. */
void requests_lose(struct fs *fs);
/* The connection is lost: nothing that it lent is there any more. */
void requests_lost(struct fs *fs);
/* There is a new one, everything is sent again. */
void requests_go_on(struct fs *fs);

/* It gives EIO: it is lost, or its session is over.  What is not open at the server
 * yet is of none. */
static inline bool file_is_dead(const struct fs *fs, const struct file *file)
{
	return file->is_dead ||
	       (file->open != 0 && file->generation != fs->generation);
}
/* The server has it open, also if it is dead, until it is released there. */
static inline bool file_has_open(const struct fs *fs, const struct file *file)
{
	return file->open != 0 && !file->is_gone &&
	       file->generation == fs->generation;
}

/* ---- ops_dir.c ----------------------------------------------------------- */

/* The file of r has no open at the server yet: get one, then resume(). */
void dir_open_first(struct request *r, request_fn resume);

/* ---- ops_file.c ---------------------------------------------------------- */

/* Release what was closed while we were away. */
void releases_pump(struct fs *fs);

/* ---- interrupt.c --------------------------------------------------------- */

/* Learn of FUSE_INTERRUPT for r, which was just submitted; r may have ended. */
void interrupt_watch(struct request *r);
/* Look after those interrupted again, or after all that wait. */
void interrupts_check(struct fs *fs, bool all);
/* True if the thread has a SIGKILL pending, or is gone. */
bool interrupt_is_dying(pid_t thread);
/* True if it is a CANCEL: of a ticket that ends with its connection. */
bool interrupt_is_cancel(const struct request *r);
/* Ask the server, once, to end r if it has QUEUED it. */
void interrupt_cancel(struct request *r);

/* ---- lock_wait.c --------------------------------------------------------- */

int lock_waits_init(struct fs *fs);
void lock_waits_fini(struct fs *fs);
/* For the LOCK or UNLOCK that r is to send; ends with r, unless it was parked or
 * became an orphan.  NULL: LOCK_WAITS_MAX. */
struct lock_wait *lock_wait_take(struct request *r);
void lock_wait_give(struct request *r);
/* It is over; who refers to the inode lets it go. */
void lock_wait_end(struct lock_wait *wait);
/* Its args are known, and the server is about to be: for a successor. */
void lock_wait_keep(struct lock_wait *wait, enum keep_wait_state state);
/* The waits of a daemon that died. */
int lock_waits_restore(struct fs *fs);
/* Was it one of a daemon that died? */
bool lock_wait_has(const struct fs *fs, uint64_t unique);
/* True if r, which the kernel sends again, waits on, or was answered; else it has
 * its wait again if there was one. */
bool lock_wait_goes_on(struct request *r);
/* All that the kernel sends again was read: nobody waits for the others. */
void lock_waits_over(struct fs *fs);
/* Keep the caller, end r: the server says that it waits (is_asked), or is to be
 * asked when it can be. */
void lock_wait_park(struct request *r, bool is_asked);
/* The server is to be asked for it, again. */
void lock_wait_ask(struct lock_wait *wait);
/* The server says that it waits. */
void lock_wait_waits(struct lock_wait *wait);
/* The server says that it is there: note that. */
void lock_wait_granted(struct lock_wait *wait);
/* Its caller is in F_OFD_SETLKW: its wait makes no deadlock.  True: that is news
 * to us. */
bool lock_wait_is_ofd(struct lock_wait *wait);
/* Once in a while: what could not be sent; callers that do not wait on. */
void lock_waits_check(struct fs *fs);
/* The server knows nothing of it any more, or has answered otherwise. */
void lock_wait_settle(struct lock_wait *wait, int err);
/* The number index or a later one that is parked, or NULL; *index is behind. */
struct lock_wait *lock_waits_next(struct fs *fs, uint32_t *index);
/* Has the owner fcntl locks there, or is about to? */
bool lock_waits_may_have(const struct fs *fs, const struct inode *inode,
			 uint64_t owner);
/* The server has forgotten all of them. */
void lock_waits_forgotten(struct fs *fs);
/* The session is over, or about to be closed. */
void lock_waits_lose(struct fs *fs);

/* ---- orphan.c ------------------------------------------------------------ */

/* Nobody waits for it any more, and the server may have it.  It is not parked;
 * one reference to its inode is the orphan's from now on. */
void orphan_begin(struct lock_wait *wait);
/* r's, which was taken back; r goes on without it. */
void orphan_of_request(struct request *r);
/* r shall go on by resume() when its file has no orphans. */
void orphans_wait(struct request *r, request_fn resume);
/* The next one, from reclaim.at on.  False: there is none that can be settled. */
bool orphan_take(struct reclaim_call *rc);
/* True: rc is done with it; else it has sent on. */
bool orphan_answered(struct reclaim_call *rc, struct rf_dec *reply);
/* No answer will come. */
void orphan_stop(struct reclaim_call *rc);
/* The server has none of them: it was started anew, or their session is over. */
void orphans_forget(struct fs *fs);
/* Once in a while: those that were put off, by a server in its grace. */
void orphans_try_again(struct fs *fs);
/* Can any of them be settled now, while there is a connection? */
bool orphans_are_ready(struct fs *fs);

/* Before this moment a request was sent whose grants are not used any more; 0:
 * they have no term. */
uint64_t request_oldest_ns(const struct fs *fs);

/* ---- pull.c -------------------------------------------------------------- */

/*
 * READ the granted bytes into sink (in the arena), check them, return the
 * grants; then pulled().  -EIO: a checksum is wrong.  -EAGAIN: they were lost, ask
 * again.
 */
void pull_start(struct request *r, const rf_grants_t *grants, void *sink,
		uint32_t room, void (*pulled)(struct request *r, int err));
void pull_retry(struct fs *fs);
/* An answer's data, inside or granted, to sink; done() has the size in
 * r->pulled_size. */
void pull_answer(struct request *r, const rf_blob_t *blob,
		 const rf_grants_t *grants, void *sink, uint32_t room,
		 void (*pulled)(struct request *r, int err));

/* ---- cache.c ------------------------------------------------------------- */

int cache_init(struct fs *fs);
void cache_fini(struct fs *fs);

/*
 * An answer showed attributes of inode, a referenced one of r: reply() when the
 * kernel may see them, now or later.
 */
void cache_reveal(struct request *r, struct inode *inode, request_fn reply);
/* r came in: what its thread did before is over. */
void cache_arrived(const struct request *r, struct inode *inode);

/* r's answer gives the kernel attributes of inode, now. */
void cache_give(struct request *r, struct inode *inode);
/* The same of SETATTR's answer, which the kernel never ignores. */
void cache_give_set(struct request *r, struct inode *inode);

/* r's answer tells the kernel of an own change up to there, without attributes. */
void cache_give_end(struct request *r, uint64_t end);
/* And READ's, that the file ends there. */
void cache_give_eof(struct request *r, uint64_t end);

/* An own change of r->inode begins, and ends as change_own_end() has it. */
void cache_change_begin(struct request *r, bool has_pages);
void cache_change_end(struct request *r, uint64_t before,
		      const rf_attr_t *attr);

/* ---- the operations ------------------------------------------------------ */

void ops_names_fill(struct fuse_lowlevel_ops *ops);
void ops_attr_fill(struct fuse_lowlevel_ops *ops);
void ops_file_fill(struct fuse_lowlevel_ops *ops);
void ops_dir_fill(struct fuse_lowlevel_ops *ops);
void ops_xattr_fill(struct fuse_lowlevel_ops *ops);
void ops_lock_fill(struct fuse_lowlevel_ops *ops);
void read_fill(struct fuse_lowlevel_ops *ops);
void write_fill(struct fuse_lowlevel_ops *ops);

/* A write, or a part of one, ends: short after what is done. */
void write_finish(struct request *r, int err);
/* Send what is left of it, now or when there are slots. */
void write_go_on(struct request *r);

/* Write slots: serve who waits, ask for more. */
void write_start(struct fs *fs);
void write_slots_ask(struct fs *fs);
/* They are gone with the connection. */
void write_slots_lost(struct fs *fs);
void write_slots_serve(struct fs *fs);
/* SETXATTR goes the way of writes. */
void write_xattr(struct request *r, const rf_xname_t *name, const void *value,
		 size_t size, uint32_t flags);

/* ---- write_parts.c ------------------------------------------------------- */

enum { REQUESTS_TOTAL = REQUESTS_MAX + SPARE_REQUESTS + PARTS_MAX };

/* Send a WRITE in parts that are in flight together.  False: it is better sent
 * as it is. */
bool write_split(struct request *r);
/* A part ends and has written less than it should have. */
void write_part_stopped(const struct request *part, int err);
/* A part of whole has ended; after the last one it is replied to. */
void write_part_ended(struct request *whole);
/* Its caller dies: take back the parts that were not sent yet. */
void write_withdraw(struct request *whole, bool (*take_back)(struct request *r));
/* Its caller is gone: see rf_call.holds_others. */
void write_parts_hold_others(struct request *whole);

#endif /* FS_H */

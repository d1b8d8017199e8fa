/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - what the parts of the mount program know of each other
 *
 *	main.c        the commands; rdmafs mount | umount, mount.rdmafs
 *	background.c  fork, and the parent that waits until the mount answers
 *	complain.c    the one line that says why a command failed
 *	keygen.c      rdmafs keygen
 *	doctor.c      rdmafs doctor
 *	tune*.c       rdmafs tune: tune.h
 *	options.c     target and -o                   -> struct mount_options
 *	mounting.c    /dev/fuse, mount(2) or fusermount3, unmount, read-ahead
 *	pass_fd.c     a descriptor from one process to another
 *	supervisor.c  the process that outlives the daemon: supervisor.h
 *	upgrade.c     rdmafs upgrade
 *	fs.c          the mounted file system: session, reactor, operations
 *	identity.c    who a caller is: uid, gid, groups -> index in the session
 *
 * main.c parses; the supervisor's child connects (fs_connect), mounts
 * (mounting.c), serves (fs_serve) until the mount is gone, says BYE.
 */
#ifndef CLIENT_H
#define CLIENT_H

#include "libproto/base.h"
#include "libproto/hello.h"
#include "libproto/rpc.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/types.h>

enum { MOUNT_HOST_MAX = 255, MOUNT_ADDRESSES_MAX = 16 };
/* Of a wrong command line; 1 is any other failure. */
enum { EXIT_USAGE = 2 };

struct mount_options {
	/* [FABRIC://]HOST[:PORT]/EXPORT or HOST:/EXPORT */
	char source[1024];		/* as typed, for /proc/mounts */
	char scheme[16];		/* "" if not asked for by name */
	char host[MOUNT_HOST_MAX + 1];
	uint16_t port;
	char export[RF_EXPORT_MAX + 1];
	char mountpoint[4096];		/* absolute */

	char key_file[4096];		/* "" without one */
	bool is_read_only;
	bool allow_other;		/* default when root */
	bool allow_dev, allow_suid;	/* nodev, nosuid unless asked */
	bool no_exec;
	bool no_atime;
	bool no_diratime;
	bool is_strict_atime;		/* each read; wins over no_atime */
	bool is_remount;
	bool is_foreground;		/* -f */
	bool no_supervisor;
	bool no_resend;			/* as if the kernel could not */
	uint32_t mount_timeo_ms;	/* give up mounting: default 10 s */
	bool is_soft;			/* give up after timeo_ms (default 60 s),
					 * else wait for ever */
	uint32_t timeo_ms;
	uint32_t rpc_timeo_ms;		/* an answer that does not come: default
					 * 60 s; then a new connection is tried */
	uint64_t memory;		/* arena bytes: default 64 MiB */
	bool wants_huge_pages;
	uint32_t inline_max;		/* default RF_INLINE_DEFAULT */
	uint32_t read_block;		/* one one-sided READ; 0: as the fabric
					 * likes it (rf_limits) */
	uint32_t write_block;		/* one one-sided WRITE: 128 KiB */
	uint32_t write_part;		/* one message of a large write: 256 KiB */
	uint16_t read_depth, send_depth;	/* Reads in flight 16, work queue 512 */
	uint16_t slots;			/* requests in flight: 64 */
	uint16_t write_slots;		/* of 1 MiB: 16 */
	uint32_t read_ahead;		/* KiB: 2048 */
	uint32_t max_inodes;		/* known at once; 0: as many as may be */
	uint32_t poll_us;		/* busy polling: 0 */
	uint16_t cq_count, cq_usec;	/* completion moderation: 8, 4 */
	int16_t tos;			/* traffic class; -1: the system's */
	int16_t gid_index;		/* of the RoCE port; -1: as routed */
	struct sockaddr_storage from;	/* source=ADDRESS; ss_family 0: any */
	bool no_pipeline;		/* for measurement: wait for the data's
					 * completion before the message, one
					 * request at a time */
	bool no_crc;
	enum rf_log_level log_level;
};

/* ---- complain.c ---------------------------------------------------------- */

/*
 * Say why a command failed: "rdmafs: mount: TEXT", one line on stderr; to the
 * log once the program is in the background.  TEXT says what failed, on what,
 * why, and what to do.
 */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "mount", "umount", ...: what complain() puts in front. */
void complain_set_command(const char *command);
/* From now on complain() and rf_log() go to the system log. */
void complain_to_syslog(void);

/* ---- options.c ----------------------------------------------------------- */

enum { OPTIONS_ERROR_MAX = 512 };

/* Every option as if none was given. */
void options_init(struct mount_options *options);

/*
 * Take a source or a list after -o apart.  -EINVAL: error says what is wrong
 * with it, and options must not be used.
 */
int options_set_source(struct mount_options *options, const char *source,
		       char error[OPTIONS_ERROR_MAX]);
/* A source whose export may be left out: it is then "". */
int options_set_server(struct mount_options *options, const char *server,
		       char error[OPTIONS_ERROR_MAX]);
int options_parse(struct mount_options *options, const char *list,
		  char error[OPTIONS_ERROR_MAX]);

/* ---- background.c -------------------------------------------------------- */

/*
 * Fork; must be called before any thread exists, and before anything is opened:
 * what we were started with beyond stderr is closed.  0 in the child, where
 * ready_fd is to be given to background_ready(); in the parent the child's id,
 * and ready_fd is for background_wait().  [blocks]
 */
int background_fork(int *ready_fd);

/* Leave the terminal, log to syslog. */
void background_leave(void);
/* Child: the same, and tell the parent. */
void background_ready(int ready_fd);

/*
 * Parent: until the child is ready and the mount answers a statfs.  The exit
 * status of the command; why it failed was said.  [blocks]
 */
int background_wait(int child, int ready_fd, const char *mountpoint);

/* The signals that unmount: also of a terminal that goes, unless we were told to
 * outlive it. */
void background_end_signals(sigset_t *out);

/* ---- keygen.c ------------------------------------------------------------ */

/* rdmafs keygen FILE.  The exit status; why it failed was said. */
int keygen(const char *path);

/* ---- doctor.c ------------------------------------------------------------ */

/*
 * rdmafs doctor [-q] [-w SECONDS] [-o OPTIONS] [SERVER].  The exit status: 0, 1
 * if a problem was found, EXIT_USAGE; what is wrong with the words was said.
 */
int doctor_command(int argc, char **argv);

/* ---- fs.c ---------------------------------------------------------------- */

struct fs;
struct keep;

/*
 * Open the fabric, make the arena and the reactor, connect, say HELLO: all on
 * this thread, as keep->options say.  [blocks, at most mount_timeo_ms]
 * A successor goes on with what keep tells, and connects when it serves.
 * control_fd: to the supervisor; -1: there is none.
 * On failure says why on stderr, once, with what to do, and gives a negative
 * errno.
 */
int fs_connect(struct keep *keep, bool is_successor, int control_fd,
	       struct fs **out);

/*
 * Serve requests of fuse_fd (mounted, O_NONBLOCK) until it is unmounted, a
 * signal (SIGTERM, SIGINT: unmounts) or a fatal error.  ready() is called once
 * when the kernel's INIT was answered.  Takes fuse_fd.  [blocks]
 */
int fs_serve(struct fs *fs, int fuse_fd, void (*ready)(void *context),
	     void *context);

/* BYE (bounded), then everything is freed, but for what a look-up that hangs uses:
 * the process is to end. */
void fs_disconnect(struct fs *fs);

/* ---- pass_fd.c ----------------------------------------------------------- */

/* A byte, and fd along with it unless that is -1.  False: nobody listens. */
bool pass_fd_send(int socket, char byte, int fd);
/* As recvmsg(2) with these flags; *fd: what came along, the caller's, or -1. */
ssize_t pass_fd_receive(int socket, int flags, char *byte, int *fd);

/* ---- mounting.c, elsewhere.c ----------------------------------------------- */

/* As the kernel shows it. */
#define MOUNTING_TYPE "fuse.rdmafs"

/*
 * Can one mount there?  If not, says why (missing, not a directory, in use by
 * another mount of ours) and gives a negative errno.  [blocks]
 */
int mounting_check(const char *mountpoint);

/*
 * Mount: mount(2) as root, else fusermount3.  On failure says why on stderr,
 * once (as mounting_check(), no /dev/fuse, fusermount3 not there,
 * user_allow_other not set), and gives a negative errno.  [blocks]
 */
int mounting_mount(const struct mount_options *options, int *fuse_fd);

/*
 * Give the mount there these ro, dev, suid, exec and atime flags: all that a
 * running mount can change.  Says why not on stderr.
 */
int mounting_remount(const struct mount_options *options);

/* The device number of our mount there, as MAJOR:MINOR.  False: there is none. */
bool mounting_device(const char *mountpoint, char out[32]);

/* Lazily if asked.  Says why not on stderr, and who has it elsewhere.  [blocks] */
int mounting_unmount(const char *mountpoint, bool is_lazy);

/* The same mount in another mount namespace: out names one who sees it.  False:
 * nobody, as far as we may know.  [blocks] */
bool mounting_elsewhere(const char *device, char *out, size_t room);

/*
 * All requests to the mount fail from now on: for an unmount that shall not wait
 * for a server.  Nothing if it can't be done.  [blocks]
 */
void mounting_abort(const char *mountpoint);

/*
 * Make path absolute without asking the file system that is mounted there.
 * -ENAMETOOLONG, -ENOENT (a directory above it is missing) and so on.
 */
int mounting_absolute(const char *path, char out[4096]);

/*
 * Raise the mount's read-ahead; must be after INIT was answered.  One line in
 * the log if it can't be done.  [blocks]
 */
void mounting_set_read_ahead(const char *mountpoint, uint32_t kib);

/* ---- identity.c ---------------------------------------------------------- */

/*
 * The identities of a session: (uid, gid, groups) -> index.  Pure but for
 * reading /proc; [owner].  Groups of a caller come from /proc/PID/status and
 * are believed for IDENTITY_CACHE_MS per (pid, uid, gid).
 */
enum { IDENTITY_CACHE_MS = 1000, IDENTITY_CALLERS_MAX = 1024 };

struct identities;

int identities_create(struct identities **out);
void identities_destroy(struct identities *identities);

/*
 * Find who (uid, gid, pid) is.  If is_new comes back true, the caller must
 * register index at the server by IDENTITY (args, filled by this) in a message
 * before, or in front of, the first that uses it.  When all
 * RF_IDENTITIES_MAX are taken the least recently used is replaced: only one
 * that no request uses (get / put).
 *
 * -EUSERS: all are in use.
 */
int identities_get(struct identities *identities, uint64_t now_ns, uid_t uid,
		   gid_t gid, pid_t pid, uint16_t *index, bool *is_new,
		   struct rf_identity_args *args);
void identities_put(struct identities *identities, uint16_t index);

/* The server did not take the one of index: nobody new is given it as known. */
void identities_refused(struct identities *identities, uint16_t index);
/*
 * The server has forgotten all identities: those that nobody holds are new
 * again when they are got.
 */
void identities_forget_idle(struct identities *identities);
/*
 * The next identity that is held, from index *at on, which moves on; args
 * points into it.  False: there is none.
 */
bool identities_next_used(struct identities *identities, uint32_t *at,
			  struct rf_identity_args *args);

/*
 * The groups that the text of a /proc/PID/status names, at most max of them:
 * how many, or -E2BIG when there are more (max were stored).  Pure.
 */
int identity_parse_groups(const char *status, uint32_t *groups, uint32_t max);
/* Of a thread that /proc does not show: it is there all the same. */
bool identity_is_hidden(pid_t thread);

#endif /* CLIENT_H */

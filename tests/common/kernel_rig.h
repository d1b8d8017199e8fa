/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_rig.h - the kernel above the daemon of a mount, played by a test
 *
 * The daemon is the real one, in a child, with a real rdmafsd behind it.  /dev/fuse
 * is a pair of sockets.  The test makes requests (krig_begin()) and takes their
 * replies (krig_end()); many may be under way.  What a daemon that was killed had
 * read and not replied to is sent to the next one again, as the kernel does.
 *
 * The server's program is taken from RDMAFSD, or from the build folder that the test
 * lies in.
 *
 * For programs without a server in them: see WHOLE_CLIENT in the Makefile.
 */
#ifndef TESTS_KERNEL_RIG_H
#define TESTS_KERNEL_RIG_H

#include "fuse-client/fs.h"
#include "fuse-client/keep.h"

#include <criterion/criterion.h>
#include <linux/fuse.h>

enum {
	KRIG_DATA_SIZE = 160 << 10,	/* most of one request */
	KRIG_MESSAGE_MAX = KRIG_DATA_SIZE + 4096,
	KRIG_ASKED_MAX = 64,		/* under way */
	KRIG_KNOWN_MAX = 64,		/* inodes, at once */
};

/* Each may be NULL. */
struct krig_events {
	/* In the daemon: it has mapped what outlives it; it begins to serve; the
	 * mount is gone. */
	void (*mapped)(struct keep *keep);
	void (*serves)(struct fs *fs);
	void (*left)(void);
	/* In the test: the daemon was killed, and there will be another; without
	 * it none may be. */
	void (*died)(void);
	/* ... the server was, and has been started again; as before. */
	void (*server_died)(void);
};

/* A request that the kernel has made. */
struct asked {
	uint64_t unique;		/* 0: none */
	uint8_t *message;
	size_t size;
	bool is_read;			/* by a daemon */
	bool is_resent;			/* it stays so until it is replied to */
	bool is_replied;
	bool was_interrupted;		/* told again, as it is sent again */
	int err;
	uint8_t *reply;
	size_t reply_size;
};

struct krig {
	struct krig_events events;
	char dir[64];
	char label[160];			/* what is tried; for messages */
	pid_t server, daemon;
	uint16_t port;
	unsigned int deaths;		/* of daemons of this mount */
	bool may_fail;			/* one may end by itself, with status 1 */
	int fd, daemon_fd;		/* /dev/fuse: our end, the daemons' */
	int keep_fd;
	struct keep *keep;
	uint64_t last_unique;
	struct asked asked[KRIG_ASKED_MAX];
	/* Inodes that replies have told of, and how often. */
	struct krig_known {
		uint64_t nodeid, lookups;
	} known[KRIG_KNOWN_MAX];
	uint32_t asker;			/* uid and gid of the next request */
	uint32_t asker_pid;		/* 0: the test's */
};

extern struct krig krig;

/* A server for all mounts of a test, and its end.  events is copied. */
void krig_open(const struct krig_events *events);
void krig_close(void);
/* A mount of it, with these options instead of the usual ones, and its end: by
 * BYE.  NULL: those. */
void krig_mount(void (*set)(struct mount_options *options));
void krig_unmount(void);
/* Every request was replied to: what is left of them in what outlives the daemon,
 * must go.  And what it says of inodes, is what we know of them. */
void krig_nothing_is_kept(void);

/* Pieces: a pointer and a size, until NULL.  The answer may come later. */
struct asked *krig_begin(uint32_t opcode, uint64_t nodeid, ...);
/* Its outcome; the reply is copied to out, as much as both have. */
int krig_end(struct asked *asked, void *out, size_t size);
/* Nothing is waited for but replies that have come. */
void krig_look(void);

#define NAME(name) (name), strlen(name) + 1
#define PART(object) (const void *)&(object), sizeof(object)
#define NO_MORE ((const void *)NULL)

#define EXPECT(expected, asked, out, size) do { \
	int got_ = krig_end((asked), (out), (size)); \
	cr_assert_eq(got_, (expected), "%s, line %d: %d, not %d", krig.label, \
		     __LINE__, got_, (expected)); \
} while (0)
#define OK(asked) EXPECT(0, asked, NULL, 0)
#define OK_WITH(asked, out) EXPECT(0, asked, &(out), sizeof(out))

struct fuse_entry_out krig_look_up(uint64_t parent, const char *name,
				   int expected);
struct fuse_entry_out krig_mkdir(uint64_t parent, const char *name);
/* A new file, open for both; its fh. */
uint64_t krig_create(uint64_t parent, const char *name, uint32_t flags,
		     uint64_t *nodeid);
void krig_release(uint64_t nodeid, uint64_t fh);
/* All of a folder, with attributes: how many. */
unsigned int krig_list(uint64_t nodeid);
void krig_forget(uint64_t nodeid);
/* A signal for who made it; no reply comes for this. */
void krig_interrupt(struct asked *asked);
struct fuse_attr krig_attr(uint64_t nodeid);
/* opcode: FUSE_SETLK, SETLKW or GETLK; of all of the file. */
struct asked *krig_lock(uint32_t opcode, uint64_t nodeid, uint64_t fh,
			uint64_t owner, uint32_t type);

#endif /* TESTS_KERNEL_RIG_H */

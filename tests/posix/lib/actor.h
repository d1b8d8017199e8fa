/* SPDX-License-Identifier: Apache-2.0 */
/*
 * actor.h - processes of several users that make system calls when told
 *
 * Operation.  Each actor is a process with its own uid, gid and other groups.
 * It is given a call and the folder below which its paths lie, makes it, and
 * sends back errno and what the call gave.  Descriptors it opened stay in its
 * slots, one for each side.
 *
 * Ownership.  actors_start() and actors_stop() come in pairs, and no actor
 * outlives its parent.
 */
#ifndef ACTOR_H
#define ACTOR_H

#include "campaign.h"

#include <sys/stat.h>

enum {
	ACTORS_MAX = 4,
	ACTOR_SLOTS = 4,
	ACTOR_SIDES = 2,	/* mounts of one export */
	ACTOR_PATH = 64,
	ACTOR_TEXT = 4096,
	ACTOR_VALUE = 256,	/* bytes written, or of an extended attribute */
	ACTOR_GROUPS = 64,
};

struct user {
	uid_t uid;
	gid_t gid;
	gid_t groups[ACTOR_GROUPS];
	size_t group_count;
};

enum call_code {
	CALL_OPEN, CALL_CLOSE, CALL_MKDIR, CALL_RMDIR, CALL_UNLINK, CALL_LINK,
	CALL_SYMLINK, CALL_RENAME, CALL_MKNOD, CALL_CHMOD, CALL_CHOWN,
	CALL_UTIMENS, CALL_TRUNCATE, CALL_ACCESS, CALL_READLINK, CALL_LIST,
	CALL_SETXATTR, CALL_GETXATTR, CALL_LISTXATTR, CALL_REMOVEXATTR,
	CALL_FSTAT, CALL_FCHMOD, CALL_FCHOWN, CALL_FUTIMENS, CALL_FTRUNCATE,
	CALL_WRITE, CALL_READ, CALL_FLIST, CALL_FMKDIR, CALL_FSETXATTR,
	CALL_FGETXATTR, CALL_FLINK,
	CALLS
};

struct call {
	enum call_code code;
	unsigned int slot;
	char path[ACTOR_PATH], path2[ACTOR_PATH];
	char xattr[32];
	mode_t mode, umask;
	uid_t uid;
	gid_t gid;
	dev_t rdev;
	int flags;
	long size;
	struct timespec times[2];
};

struct answer {
	int err;		/* 0 or errno */
	long value;
	struct stat st;		/* FSTAT */
	unsigned int text_size;
	char text[ACTOR_TEXT];
};

/* How many users there are: 1 if we can't become others. */
unsigned int actors_start(const int *folders, unsigned int sides);
void actors_stop(void);
/* Who an actor is: the first may be whoever runs this. */
const struct user *actor_user(unsigned int actor);
/* The bytes that an actor writes, and the values that it sets. */
void actor_fill_data(char *out, size_t size);
void actor_fill(char *out, size_t size);
/* Ids that chown() may use, of all actors and some more. */
uid_t actor_some_uid(uint32_t which);
gid_t actor_some_gid(uint32_t which);

/* Make the call as one of the actors, on one side. */
void actor_call(unsigned int actor, unsigned int side, const struct call *call,
		struct answer *answer);

#endif /* ACTOR_H */

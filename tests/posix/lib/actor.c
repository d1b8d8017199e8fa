/* SPDX-License-Identifier: Apache-2.0 */
/*
 * actor.c - the processes, and the calls they make
 */
#include "actor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { NAMES_MAX = 64 };

static struct user users[ACTORS_MAX] = {
	{ 0, 0, { 0 }, 1 },
	{ 61001, 61001, { 62000 }, 1 },
	{ 61002, 61002, { 62000, 62001, 61002 }, 3 },
	{ 61003, 61001, { 0 }, 0 },
};

/* What goes through the socket. */
struct order {
	unsigned int side;
	struct call call;
};

static struct {
	pid_t pid;
	int fd;
} actors[ACTORS_MAX];
static unsigned int actor_count;

/* In an actor. */
static int folder[ACTOR_SIDES];
static int slots[ACTOR_SIDES][ACTOR_SLOTS];

const struct user *actor_user(unsigned int actor)
{
	return &users[actor];
}

void actor_fill_data(char *out, size_t size)
{
	memset(out, 'A' + (int)(size % 26), size);
}

void actor_fill(char *out, size_t size)
{
	memset(out, 'a' + (int)(size % 26), size);
}

uid_t actor_some_uid(uint32_t which)
{
	return which % 5 == 4 ? (uid_t)-1 : users[which % 5].uid;
}

gid_t actor_some_gid(uint32_t which)
{
	static const gid_t gids[] = { 0, 61001, 61002, 62000, 62001, (gid_t)-1 };

	return gids[which % 6];
}

/* ---- calls by path -------------------------------------------------------- */

/* l*xattr() take no folder: through /proc it is one. */
static const char *proc_path(int dir, const char *path)
{
	static char out[ACTOR_PATH + 64];

	snprintf(out, sizeof(out), "/proc/self/fd/%d%s%s", dir,
		 path[0] ? "/" : "", path);
	return out;
}

static void text_put(struct answer *out, const char *text, unsigned int size)
{
	if (size > ACTOR_TEXT - out->text_size)
		size = ACTOR_TEXT - out->text_size;
	memcpy(out->text + out->text_size, text, size);
	out->text_size += size;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void put_sorted(struct answer *out, char **names, unsigned int count)
{
	qsort(names, count, sizeof(*names), compare);
	for (unsigned int i = 0; i < count; i++) {
		text_put(out, names[i], (unsigned int)strlen(names[i]));
		text_put(out, " ", 1);
		free(names[i]);
	}
}

/* "name:type" of all entries. */
static int put_listing(int fd, struct answer *out)
{
	DIR *dir = fdopendir(fd);
	char *names[NAMES_MAX];
	unsigned int count = 0;
	const struct dirent *entry;
	int err;

	if (!dir)
		_exit(2);
	errno = 0;
	while (count < NAMES_MAX && (entry = readdir(dir)))
		if (asprintf(&names[count++], "%s:%d", entry->d_name,
			     entry->d_type) < 0)
			_exit(2);
	err = errno;
	put_sorted(out, names, count);
	closedir(dir);
	errno = err;
	return err ? -1 : 0;
}

static int list(int dir, const char *path, struct answer *out)
{
	int fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);

	return fd < 0 ? -1 : put_listing(fd, out);
}

static void put_names(struct answer *out, char *names, long size)
{
	char *sorted[NAMES_MAX];
	unsigned int count = 0;

	for (char *name = names; name < names + size && count < NAMES_MAX;
	     name += strlen(name) + 1)
		if (strncmp(name, "user.", 5) == 0 ||
		    strncmp(name, "trusted.", 8) == 0)
			sorted[count++] = strdup(name);
	put_sorted(out, sorted, count);
}

static long xattr_by_path(int dir, const struct call *c, struct answer *out)
{
	const char *path = proc_path(dir, c->path);
	char value[ACTOR_VALUE];
	long got;

	actor_fill(value, (size_t)c->size);
	switch (c->code) {
	case CALL_SETXATTR:
		return lsetxattr(path, c->xattr, value, (size_t)c->size,
				 c->flags);
	case CALL_GETXATTR:
		got = lgetxattr(path, c->xattr, value, (size_t)c->size);
		if (got > 0 && c->size > 0)
			text_put(out, value, (unsigned int)got);
		return got;
	case CALL_LISTXATTR:
		got = llistxattr(path, value, sizeof(value));
		put_names(out, value, got);
		return got < 0 ? got : 0;
	default:
		return lremovexattr(path, c->xattr);
	}
}

static long open_slot(unsigned int side, const struct call *c)
{
	int *slot = &slots[side][c->slot];

	if (*slot >= 0)
		close(*slot);
	*slot = openat(folder[side], c->path,
		       c->flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, c->mode);
	return *slot < 0 ? -1 : 0;
}

static long read_link(int dir, const struct call *c, struct answer *out)
{
	char target[ACTOR_TEXT];
	ssize_t got = readlinkat(dir, c->path, target, sizeof(target));

	if (got > 0)
		text_put(out, target, (unsigned int)got);
	return got;
}

static long truncate_path(int dir, const struct call *c)
{
	return truncate(proc_path(dir, c->path), c->size);
}

static long call_path(unsigned int side, const struct call *c,
		      struct answer *out)
{
	int dir = folder[side];

	switch (c->code) {
	case CALL_OPEN:
		return open_slot(side, c);
	case CALL_MKDIR:
		return mkdirat(dir, c->path, c->mode);
	case CALL_RMDIR:
		return unlinkat(dir, c->path, AT_REMOVEDIR);
	case CALL_UNLINK:
		return unlinkat(dir, c->path, 0);
	case CALL_LINK:
		return linkat(dir, c->path, dir, c->path2, c->flags);
	case CALL_SYMLINK:
		return symlinkat(c->path2, dir, c->path);
	case CALL_RENAME:
		return syscall(SYS_renameat2, dir, c->path, dir, c->path2,
			       c->flags);
	case CALL_MKNOD:
		return mknodat(dir, c->path, c->mode, c->rdev);
	case CALL_CHMOD:
		return fchmodat(dir, c->path, c->mode, 0);
	case CALL_CHOWN:
		return fchownat(dir, c->path, c->uid, c->gid, c->flags);
	case CALL_UTIMENS:
		return utimensat(dir, c->path, c->times, c->flags);
	case CALL_TRUNCATE:
		return truncate_path(dir, c);
	case CALL_ACCESS:
		return syscall(SYS_faccessat, dir, c->path, c->mode & 7);
	case CALL_READLINK:
		return read_link(dir, c, out);
	case CALL_LIST:
		return list(dir, c->path, out);
	default:
		return xattr_by_path(dir, c, out);
	}
}

/* ---- calls by descriptor -------------------------------------------------- */

static long read_slot(int fd, const struct call *c, struct answer *out)
{
	char bytes[256];
	ssize_t got = pread(fd, bytes, 200, c->flags);

	if (got > 0)
		text_put(out, bytes, (unsigned int)got);
	return got;
}

static long write_slot(int fd, const struct call *c)
{
	char bytes[ACTOR_VALUE];

	actor_fill_data(bytes, (size_t)c->size);
	return pwrite(fd, bytes, (size_t)c->size, c->flags);
}

static long list_slot(int fd, struct answer *out)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (copy < 0)
		return -1;
	return put_listing(copy, out);
}

static long xattr_of_slot(int fd, const struct call *c, struct answer *out)
{
	char value[ACTOR_VALUE];
	long got;

	actor_fill(value, (size_t)c->size);
	if (c->code == CALL_FSETXATTR)
		return fsetxattr(fd, c->xattr, value, (size_t)c->size,
				 c->flags);
	got = fgetxattr(fd, c->xattr, value, sizeof(value));
	if (got > 0)
		text_put(out, value, (unsigned int)got);
	return got;
}

static long call_slot(unsigned int side, const struct call *c,
		      struct answer *out)
{
	int *slot = &slots[side][c->slot], fd = *slot;

	switch (c->code) {
	case CALL_CLOSE:
		*slot = -1;
		return close(fd);
	case CALL_FSTAT:
		return fstat(fd, &out->st);
	case CALL_FCHMOD:
		return fchmod(fd, c->mode);
	case CALL_FCHOWN:
		return fchown(fd, c->uid, c->gid);
	case CALL_FUTIMENS:
		return futimens(fd, c->times);
	case CALL_FTRUNCATE:
		return ftruncate(fd, c->size);
	case CALL_WRITE:
		return write_slot(fd, c);
	case CALL_READ:
		return read_slot(fd, c, out);
	case CALL_FLIST:
		return list_slot(fd, out);
	case CALL_FMKDIR:
		return mkdirat(fd, c->path, c->mode);
	case CALL_FLINK:
		return linkat(AT_FDCWD, proc_path(fd, ""), folder[side],
			      c->path2, AT_SYMLINK_FOLLOW);
	default:
		return xattr_of_slot(fd, c, out);
	}
}

/* ---- an actor's life ------------------------------------------------------ */

static void become(const struct user *user)
{
	if (setgroups(user->group_count, user->groups) ||
	    setresgid(user->gid, user->gid, user->gid) ||
	    setresuid(user->uid, user->uid, user->uid))
		_exit(2);
}

static bool is_by_slot(enum call_code code)
{
	return code == CALL_CLOSE || code >= CALL_FSTAT;
}

static void serve(int fd)
{
	static struct order order;
	static struct answer answer;

	while (recv(fd, &order, sizeof(order), MSG_WAITALL) == sizeof(order)) {
		const struct call *c = &order.call;

		answer.text_size = 0;
		umask(c->umask);
		errno = 0;
		answer.value = is_by_slot(c->code) ?
			       call_slot(order.side, c, &answer) :
			       call_path(order.side, c, &answer);
		answer.err = answer.value < 0 ? errno : 0;
		if (send(fd, &answer, sizeof(answer), MSG_NOSIGNAL) !=
		    sizeof(answer))
			break;
	}
	_exit(0);
}

static void start(unsigned int i, const int *folders, unsigned int sides,
		  bool changes_user)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		trouble("socketpair");
	actors[i].fd = pair[0];
	actors[i].pid = fork();
	if (actors[i].pid < 0)
		trouble("fork");
	if (actors[i].pid > 0) {
		close(pair[1]);
		return;
	}
	for (unsigned int j = 0; j <= i; j++)
		close(actors[j].fd);
	memcpy(folder, folders, sides * sizeof(*folders));
	memset(slots, -1, sizeof(slots));
	if (changes_user)
		become(&users[i]);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	serve(pair[1]);
}

static void take_own_ids(struct user *user)
{
	int count = getgroups(ACTOR_GROUPS, user->groups);

	if (count < 0)
		trouble("more than %d groups", ACTOR_GROUPS);
	user->uid = geteuid();
	user->gid = getegid();
	user->group_count = (size_t)count;
}

unsigned int actors_start(const int *folders, unsigned int sides)
{
	bool is_root = geteuid() == 0;

	if (!is_root)
		take_own_ids(&users[0]);

	actor_count = is_root ? ACTORS_MAX : 1;
	for (unsigned int i = 0; i < actor_count; i++)
		start(i, folders, sides, is_root);
	return actor_count;
}

void actors_stop(void)
{
	for (unsigned int i = 0; i < actor_count; i++) {
		close(actors[i].fd);
		waitpid(actors[i].pid, NULL, 0);
	}
}

void actor_call(unsigned int actor, unsigned int side, const struct call *call,
		struct answer *answer)
{
	struct order order = { .side = side, .call = *call };
	int fd = actors[actor].fd;

	if (send(fd, &order, sizeof(order), MSG_NOSIGNAL) != sizeof(order) ||
	    recv(fd, answer, sizeof(*answer), MSG_WAITALL) != sizeof(*answer))
		trouble("actor %u is gone", actor);
}

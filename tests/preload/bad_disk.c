/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/preload/bad_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { TEXT_MAX = 1024, RULES_MAX = 8, PATH_SIZE = 512, SHORT = -1, HANG = -2 };

struct rule {
	char call[16], path[128];
	int error;			/* or SHORT, HANG */
	unsigned int skip, count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char text[TEXT_MAX];		/* the rules as they were told */
static struct rule rules[RULES_MAX];
static unsigned int rule_count, failures;

/* ---- rules --------------------------------------------------------------- */

static int error_named(const char *name)
{
	static const struct {
		const char *name;
		int error;
	} names[] = {
		{ "EIO", EIO }, { "ENOSPC", ENOSPC }, { "EROFS", EROFS },
		{ "EMFILE", EMFILE }, { "short", SHORT },
		{ "hang", HANG },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i].name) == 0)
			return names[i].error;
	dprintf(STDERR_FILENO, "bad_disk: no error '%s'\n", name);
	abort();
}

static void parse_locked(void)
{
	const char *line = text, *end;

	rule_count = failures = 0;
	/* A line without an end is still being written. */
	while ((end = strchr(line, '\n')) && rule_count < RULES_MAX) {
		struct rule *rule = &rules[rule_count];
		char error[16];

		*rule = (struct rule){ .count = ~0u };
		if (sscanf(line, "%15s %127s %15s %u %u", rule->call,
			   rule->path, error, &rule->skip, &rule->count) >= 3) {
			rule->error = error_named(error);
			rule_count++;
		}
		line = end + 1;
	}
}

static void set_locked(const char *told)
{
	if (strcmp(told, text) == 0)
		return;
	snprintf(text, sizeof(text), "%s", told);
	parse_locked();
}

void bad_disk_set(const char *told)
{
	pthread_mutex_lock(&lock);
	text[0] = '\0';
	parse_locked();
	set_locked(told);
	pthread_mutex_unlock(&lock);
}

unsigned int bad_disk_failures(void)
{
	unsigned int count;

	pthread_mutex_lock(&lock);
	count = failures;
	pthread_mutex_unlock(&lock);
	return count;
}

/* As they are in the file now, if there is one. */
static void reload_locked(void)
{
	static int fd = -2;
	char now[TEXT_MAX];
	const char *name;
	long size;

	if (fd == -2) {
		name = getenv("BAD_DISK");
		fd = name ? (int)syscall(SYS_openat, AT_FDCWD, name,
					 O_RDONLY | O_CLOEXEC) : -1;
	}
	if (fd < 0)
		return;
	size = syscall(SYS_pread64, fd, now, sizeof(now) - 1, 0);
	now[size > 0 ? size : 0] = '\0';
	set_locked(now);
}

/* The rule's error, if one is for this call; else 0. */
static int judge_locked(const char *call, const char *path)
{
	for (unsigned int i = 0; i < rule_count; i++) {
		struct rule *rule = &rules[i];

		if ((strcmp(rule->call, call) && strcmp(rule->call, "any")) ||
		    !strstr(path, rule->path))
			continue;
		if (rule->skip > 0) {
			rule->skip--;
			return 0;
		}
		if (rule->count == 0)
			return 0;
		rule->count--;
		failures++;
		return rule->error;
	}
	return 0;
}

/* Of a name in a directory; of the descriptor itself if the name is empty. */
static void find_path(int fd, const char *name, char path[PATH_SIZE])
{
	char link[32];
	long size = 0;

	path[0] = '\0';
	if (fd >= 0 && name[0] != '/') {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		size = syscall(SYS_readlink, link, path, PATH_SIZE - 1);
		size = size > 0 ? size : 0;
	}
	snprintf(path + size, PATH_SIZE - (size_t)size, "%s%s",
		 size > 0 && name[0] ? "/" : "", name);
}

static int judge_once(const char *call, int fd, const char *name)
{
	char path[PATH_SIZE];
	int error = 0;

	pthread_mutex_lock(&lock);
	reload_locked();
	if (rule_count > 0) {
		find_path(fd, name, path);
		error = judge_locked(call, path);
	}
	pthread_mutex_unlock(&lock);
	return error;
}

static int judge(const char *call, int fd, const char *name)
{
	int error;

	while ((error = judge_once(call, fd, name)) == HANG)
		poll(NULL, 0, 10);
	return error;
}

/* Only writes are short. */
static bool fails(const char *call, int fd, const char *name)
{
	int error = judge(call, fd, name);

	if (error > 0)
		errno = error;
	return error > 0;
}

static int judge_write(int fd, size_t *size)
{
	int error = judge("write", fd, "");

	if (error == SHORT && *size > 1)
		*size /= 2;
	if (error > 0)
		errno = error;
	return error > 0 ? -1 : 0;
}

/* ---- the calls ----------------------------------------------------------- */

static int open_at(int dir, const char *name, int flags, mode_t mode)
{
	if (fails("open", dir, name))
		return -1;
	return (int)syscall(SYS_openat, dir, name, flags, mode);
}

int open(const char *name, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	return open_at(AT_FDCWD, name, flags, mode);
}

int openat(int dir, const char *name, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	return open_at(dir, name, flags, mode);
}

ssize_t pread(int fd, void *out, size_t size, off_t offset)
{
	if (fails("read", fd, ""))
		return -1;
	return syscall(SYS_pread64, fd, out, size, offset);
}

/* The low and the high half of the offset, as the kernel asks. */
ssize_t preadv2(int fd, const struct iovec *pieces, int count, off_t offset,
		int flags)
{
	if (flags & RWF_NOWAIT && judge_once("read", fd, "") == HANG) {
		errno = EAGAIN;
		return -1;
	}
	if (fails("read", fd, ""))
		return -1;
	return syscall(SYS_preadv2, fd, pieces, count, offset, 0L, flags);
}

ssize_t write(int fd, const void *bytes, size_t size)
{
	if (judge_write(fd, &size))
		return -1;
	return syscall(SYS_write, fd, bytes, size);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
	if (judge_write(fd, &size))
		return -1;
	return syscall(SYS_pwrite64, fd, bytes, size, offset);
}

ssize_t copy_file_range(int from, off_t *from_offset, int to, off_t *to_offset,
			size_t size, unsigned int flags)
{
	if (fails("copy", to, ""))
		return -1;
	return syscall(SYS_copy_file_range, from, from_offset, to, to_offset,
		       size, flags);
}

int fsync(int fd)
{
	return fails("sync", fd, "") ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	return fails("sync", fd, "") ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int syncfs(int fd)
{
	return fails("sync", fd, "") ? -1 : (int)syscall(SYS_syncfs, fd);
}

int fallocate(int fd, int mode, off_t offset, off_t size)
{
	if (fails("allocate", fd, ""))
		return -1;
	return (int)syscall(SYS_fallocate, fd, mode, offset, size);
}

int ftruncate(int fd, off_t size)
{
	if (fails("truncate", fd, ""))
		return -1;
	return (int)syscall(SYS_ftruncate, fd, size);
}

int unlink(const char *name)
{
	if (fails("unlink", AT_FDCWD, name))
		return -1;
	return (int)syscall(SYS_unlink, name);
}

int unlinkat(int dir, const char *name, int flags)
{
	if (fails("unlink", dir, name))
		return -1;
	return (int)syscall(SYS_unlinkat, dir, name, flags);
}

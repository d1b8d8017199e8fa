/* SPDX-License-Identifier: Apache-2.0 */
/*
 * power_loss.c - a machine that loses its power: what was not synced is gone
 *
 * Stands before libc in a server, by LD_PRELOAD.  What the server syncs (fsync,
 * fdatasync, syncfs) is copied to the folder that POWER_LOSS names, by inode
 * number, before the call returns: that folder is the disk.  When the server was
 * killed, the test puts into each file of the store what the disk has of it, or
 * nothing.  The file "boot" in the folder stands for the kernel's boot_id, so that
 * the test can have the next server know that the machine went down.
 *
 * Names are on the disk at once: only what files hold is lost.  A copy that is made
 * while others write may have some of that, as on a disk.
 *
 * Threads.  [any]; one copy at a time.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATH_SIZE = 512, DEPTH_MAX = 4 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void must(bool is_right, const char *what)
{
	if (is_right)
		return;
	dprintf(STDERR_FILENO, "power_loss: %s: %s\n", what, strerror(errno));
	abort();
}

static const char *disk(void)
{
	const char *name = getenv("POWER_LOSS");

	must(name != NULL, "POWER_LOSS names no folder");
	return name;
}

static void name_copy(ino_t inode, const char *end, char path[PATH_SIZE])
{
	snprintf(path, PATH_SIZE, "%s/%llu%s", disk(),
		 (unsigned long long)inode, end);
}

/* ---- copies ---------------------------------------------------------------- */

static void copy_bytes(int from, int to, off_t size)
{
	static char bytes[1 << 16];
	off_t at = 0;

	while (at < size) {
		ssize_t got = pread(from, bytes, sizeof(bytes), at);

		must(got >= 0, "read");
		if (got == 0)
			break;
		must(pwrite(to, bytes, (size_t)got, at) == got, "write");
		at += got;
	}
	must(ftruncate(to, size) == 0, "size");
}

/* By a rename, for we may be killed at any moment. */
static void copy_locked(int fd)
{
	char path[PATH_SIZE], made[PATH_SIZE], link[32];
	int from, to;
	struct stat st;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return;
	name_copy(st.st_ino, "", path);
	name_copy(st.st_ino, ".new", made);
	/* The server's own may be for writing only. */
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	from = open(link, O_RDONLY | O_CLOEXEC);
	to = open(made, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	must(from >= 0 && to >= 0, made);
	copy_bytes(from, to, st.st_size);
	close(from);
	close(to);
	must(syscall(SYS_rename, made, path) == 0, "rename");
}

static void copy(int fd)
{
	pthread_mutex_lock(&lock);
	copy_locked(fd);
	pthread_mutex_unlock(&lock);
}

/* All files below a directory. */
static void copy_below(int dir_fd, const char *name, unsigned int depth)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir) {
		if (fd >= 0) {
			copy(fd);
			close(fd);
		}
		return;
	}
	while (depth > 0 && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			copy_below(dirfd(dir), entry->d_name, depth - 1);
	closedir(dir);
}

/* Its number is another file's soon. */
static void forget(int dir, const char *name)
{
	char path[PATH_SIZE];
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
	    !S_ISREG(st.st_mode) || st.st_nlink > 1)
		return;
	name_copy(st.st_ino, "", path);
	pthread_mutex_lock(&lock);
	syscall(SYS_unlink, path);
	pthread_mutex_unlock(&lock);
}

/* ---- the calls ------------------------------------------------------------- */

int fsync(int fd)
{
	if (syscall(SYS_fsync, fd) != 0)
		return -1;
	copy(fd);
	return 0;
}

int fdatasync(int fd)
{
	if (syscall(SYS_fdatasync, fd) != 0)
		return -1;
	copy(fd);
	return 0;
}

int syncfs(int fd)
{
	if (syscall(SYS_syncfs, fd) != 0)
		return -1;
	copy_below(fd, ".", DEPTH_MAX);
	return 0;
}

int unlink(const char *name)
{
	forget(AT_FDCWD, name);
	return (int)syscall(SYS_unlink, name);
}

int unlinkat(int dir, const char *name, int flags)
{
	forget(dir, name);
	return (int)syscall(SYS_unlinkat, dir, name, flags);
}

int rename(const char *from, const char *to)
{
	forget(AT_FDCWD, to);
	return (int)syscall(SYS_rename, from, to);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	forget(to_dir, to);
	return (int)syscall(SYS_renameat, from_dir, from, to_dir, to);
}

FILE *fopen(const char *name, const char *mode)
{
	FILE *(*next)(const char *, const char *) =
		(FILE *(*)(const char *, const char *))dlsym(RTLD_NEXT, "fopen");
	char path[PATH_SIZE];

	if (strcmp(name, "/proc/sys/kernel/random/boot_id") == 0) {
		snprintf(path, sizeof(path), "%s/boot", disk());
		name = path;
	}
	return next(name, mode);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls_once.c - one of each call, and what is there then
 *
 *	calls_once FOLDER	make the calls in FOLDER, which is empty
 *	calls_once -l FOLDER	print what is there: a line for each name
 *
 * Each call must succeed, and most would fail or show in the list if they were
 * made twice or not at all.  Nothing is left to chance, so two runs that went well
 * print the same.  Data are read and written past the page cache where that is
 * possible, so that they travel.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { BLOCK = 704 * 1024, PAGE = 4096, SMALL = 3000 };

static unsigned char *block, *back;

static void must(int is_right, const char *what)
{
	if (is_right)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static int make(const char *name, int flags)
{
	int fd = open(name, flags | O_CREAT | O_EXCL, 0644);

	must(fd >= 0, name);
	return fd;
}

/* ---- data ------------------------------------------------------------------ */

static void use_data(void)
{
	int fd = make("data", O_RDWR | O_DIRECT);

	must(pwrite(fd, block, BLOCK, 0) == BLOCK, "write");
	must(pwrite(fd, block + PAGE, PAGE, 2 * BLOCK) == PAGE, "write far");
	must(fsync(fd) == 0, "fsync");
	must(pread(fd, back, BLOCK, 0) == BLOCK, "read");
	must(memcmp(block, back, BLOCK) == 0, "what was written");
	must(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE,
		       PAGE) == 0, "punch a hole");
	must(fallocate(fd, 0, 2 * BLOCK, 2 * PAGE) == 0, "allocate");
	must(lseek(fd, 0, SEEK_HOLE) == PAGE, "find the hole");
	must(close(fd) == 0, "close");
}

static void use_copy(void)
{
	int from = open("data", O_RDONLY), to = make("copy", O_RDWR);
	loff_t at = PAGE * 3;

	must(copy_file_range(from, &at, to, NULL, BLOCK / 2, 0) == BLOCK / 2,
	     "copy");
	must(ftruncate(to, BLOCK / 4) == 0, "cut");
	must(close(from) == 0 && close(to) == 0, "close");
}

static void append(int fd, const char *line)
{
	must(write(fd, line, strlen(line)) == (ssize_t)strlen(line), line);
}

/* Small ones go inside of messages. */
static void use_lines(void)
{
	int fd = make("lines", O_WRONLY | O_APPEND);

	append(fd, "one\n");
	append(fd, "two\n");
	must(close(fd) == 0, "close");
	fd = open("lines", O_WRONLY | O_APPEND | O_DSYNC);
	append(fd, "three\n");
	must(pwritev2(fd, &(struct iovec){ block, SMALL }, 1, -1, RWF_SYNC) ==
	     SMALL, "append and sync");
	must(close(fd) == 0, "close");
}

static void use_mapping(void)
{
	int fd = make("mapped", O_RDWR);
	char *bytes;

	must(ftruncate(fd, SMALL) == 0, "grow");
	bytes = mmap(NULL, SMALL, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(bytes != MAP_FAILED, "map");
	memcpy(bytes + 100, block, SMALL - 200);
	must(msync(bytes, SMALL, MS_SYNC) == 0, "msync");
	must(munmap(bytes, SMALL) == 0 && close(fd) == 0, "unmap");
}

/* ---- names ----------------------------------------------------------------- */

static void use_names(void)
{
	struct stat st;
	int fd = make("file", O_RDWR);

	append(fd, "file");
	must(mkdir("dir", 0750) == 0, "mkdir");
	must(link("file", "dir/hard") == 0, "link");
	must(rename("file", "dir/moved") == 0, "rename");
	must(symlink("nowhere", "link") == 0, "symlink");
	must(renameat2(AT_FDCWD, "link", AT_FDCWD, "dir/hard",
		       RENAME_EXCHANGE) == 0, "exchange");
	must(unlink("link") == 0, "unlink");
	must(fstat(fd, &st) == 0 && st.st_nlink == 1, "links");
	must(mkfifo("pipe", 0600) == 0, "mkfifo");
	must(mkdir("gone", 0700) == 0, "mkdir gone");
	must(rmdir("gone") == 0, "rmdir");
	must(close(fd) == 0, "close");
}

static void use_nameless(void)
{
	char path[64], seen[8] = "";
	int fd = open(".", O_TMPFILE | O_RDWR, 0640);

	must(fd >= 0, "open without a name");
	append(fd, "named");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	must(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW) == 0,
	     "give a name");
	must(unlink("named") == 0, "unlink what is open");
	must(pread(fd, seen, 5, 0) == 5 && strcmp(seen, "named") == 0,
	     "what was unlinked");
	must(linkat(AT_FDCWD, path, AT_FDCWD, "again", AT_SYMLINK_FOLLOW) < 0 &&
	     errno == ENOENT, "no name again");
	must(close(fd) == 0, "close");
}

static void use_list(void)
{
	DIR *dir = opendir(".");
	unsigned int count = 0;

	must(dir != NULL, "opendir");
	while (readdir(dir))
		count++;
	must(count == 8, "names in the list");	/* with . and .. */
	must(closedir(dir) == 0, "closedir");
}

/* ---- attributes, locks ------------------------------------------------------- */

static void use_attributes(void)
{
	const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 2 } };
	struct statvfs fs;

	must(setxattr("copy", "user.kept", "value", 5, XATTR_CREATE) == 0,
	     "setxattr");
	must(setxattr("copy", "user.gone", block, SMALL, XATTR_CREATE) == 0,
	     "setxattr");
	must(getxattr("copy", "user.gone", back, SMALL) == SMALL, "getxattr");
	must(removexattr("copy", "user.gone") == 0, "removexattr");
	must(chmod("copy", 0600) == 0, "chmod");
	must(utimensat(AT_FDCWD, "copy", times, 0) == 0, "utimensat");
	must(statvfs(".", &fs) == 0, "statvfs");
}

static int lock(int fd, short type)
{
	struct flock range = { .l_type = type, .l_start = 10, .l_len = 10 };

	return fcntl(fd, F_SETLKW, &range);
}

static void use_locks(void)
{
	int fd = open("lines", O_RDWR);

	must(fd >= 0, "open");
	must(lock(fd, F_WRLCK) == 0, "lock");
	must(lock(fd, F_UNLCK) == 0, "unlock");
	must(flock(fd, LOCK_EX) == 0, "flock");
	/* Ends by closing, both. */
	must(lock(fd, F_RDLCK) == 0, "lock");
	must(close(fd) == 0, "close");
}

static void call_all(void)
{
	for (unsigned int i = 0; i < BLOCK; i++)
		block[i] = (unsigned char)(i * 2654435761u >> 24);
	use_data();
	use_copy();
	use_lines();
	use_mapping();
	use_names();
	use_nameless();
	use_list();
	use_attributes();
	use_locks();
}

/* ---- the list ---------------------------------------------------------------- */

static uint64_t sum_of(int fd)
{
	uint64_t sum = 0;
	ssize_t got;

	while ((got = read(fd, back, BLOCK)) > 0)
		for (ssize_t i = 0; i < got; i++)
			sum = sum * 31 + back[i];
	must(got == 0, "read");
	return sum;
}

static int is_locked(int fd)
{
	struct flock all = { .l_type = F_WRLCK };

	must(fcntl(fd, F_GETLK, &all) == 0, "ask for locks");
	return all.l_type != F_UNLCK || flock(fd, LOCK_EX | LOCK_NB) < 0;
}

static void list_file(const char *path)
{
	char names[256] = "";
	int fd = open(path, O_RDONLY);

	must(fd >= 0, path);
	printf(" sum %llx%s", (unsigned long long)sum_of(fd),
	       is_locked(fd) ? " locked" : "");
	if (listxattr(path, names, sizeof(names) - 1) > 0)
		printf(" %s", names);
	close(fd);
}

static void list_link(const char *path)
{
	char target[64] = "";

	must(readlink(path, target, sizeof(target) - 1) > 0, "readlink");
	printf(" to %s", target);
}

static int has_no_dot(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static void list(const char *folder)
{
	struct dirent **names;
	int count = scandir(folder, &names, has_no_dot, alphasort);

	must(count >= 0, folder);
	for (int i = 0; i < count; i++) {
		char path[512];
		struct stat st;

		snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
		must(lstat(path, &st) == 0, path);
		printf("%s mode %o links %u", path, st.st_mode,
		       (unsigned int)st.st_nlink);
		if (!S_ISDIR(st.st_mode))
			printf(" size %lld", (long long)st.st_size);
		if (S_ISREG(st.st_mode))
			list_file(path);
		if (S_ISLNK(st.st_mode))
			list_link(path);
		printf("\n");
		if (S_ISDIR(st.st_mode))
			list(path);
		free(names[i]);
	}
	free(names);
}

int main(int argc, char **argv)
{
	int is_list = argc == 3 && strcmp(argv[1], "-l") == 0;

	if (argc != 2 && !is_list)
		return 2;
	block = aligned_alloc(PAGE, BLOCK);
	back = aligned_alloc(PAGE, BLOCK);
	must(block && back, "memory");
	must(chdir(argv[argc - 1]) == 0, argv[argc - 1]);
	if (is_list)
		list(".");
	else
		call_all();
	free(block);
	free(back);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * each_once.c - changes that show if they are made twice, or not at all
 *
 *	each_once FOLDER NAME
 *
 * Appends numbered lines to FOLDER/log through one descriptor, and between them
 * makes, fills, maps, reads, links, renames and removes a file and a folder of its
 * own.
 * Each call must succeed: a change that was made twice fails the second time.
 * Ends at SIGTERM, and prints how many lines it has written.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 700 * 1024, SMALL = 3000 };

static volatile sig_atomic_t is_over;
static unsigned char *block, *back;
static const char *name;

static void stop(int number)
{
	(void)number;
	is_over = 1;
}

static void must(int is_right, const char *what)
{
	if (is_right)
		return;
	fprintf(stderr, "%s: %s: %s\n", name, what, strerror(errno));
	exit(1);
}

static void append(int log, unsigned int number)
{
	char line[64];
	int size = snprintf(line, sizeof(line), "%s %u\n", name, number);

	must(write(log, line, (size_t)size) == size, "append");
}

static void fill(int fd, unsigned int number, size_t size)
{
	memset(block, (int)number, size);
	must(pwrite(fd, block, size, 100) == (ssize_t)size, "write");
	memset(back, ~(int)number, size);
	must(pread(fd, back, size, 100) == (ssize_t)size, "read");
	must(memcmp(block, back, size) == 0, "what was written");
}

static void use_mapping(int fd, unsigned int number)
{
	char *bytes = mmap(NULL, SMALL, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			   0);
	char text[16], seen[16] = "";

	must(bytes != MAP_FAILED, "mmap");
	snprintf(text, sizeof(text), "%u", number);
	memcpy(bytes + 200, text, sizeof(text));
	must(msync(bytes, SMALL, MS_SYNC) == 0, "msync");
	must(pread(fd, seen, sizeof(seen), 200) == sizeof(seen) &&
		     strcmp(seen, text) == 0, "what was mapped");
	must(munmap(bytes, SMALL) == 0, "munmap");
}

static void use_file(unsigned int number)
{
	char from[64], to[64];
	struct stat st;
	int fd;

	snprintf(from, sizeof(from), "%s-file", name);
	snprintf(to, sizeof(to), "%s-other", name);
	fd = open(from, O_RDWR | O_CREAT | O_EXCL, 0644);
	must(fd >= 0, "open");
	fill(fd, number, number % 4 ? SMALL : BLOCK);
	use_mapping(fd, number);
	must(link(from, to) == 0, "link");
	must(unlink(from) == 0, "unlink");
	must(rename(to, from) == 0, "rename");
	must(ftruncate(fd, 10) == 0, "ftruncate");
	must(unlink(from) == 0, "unlink the other");
	must(fstat(fd, &st) == 0 && st.st_nlink == 0 && st.st_size == 10,
	     "fstat");
	must(close(fd) == 0, "close");
}

static void use_folder(void)
{
	char from[64], to[64];

	snprintf(from, sizeof(from), "%s-folder", name);
	snprintf(to, sizeof(to), "%s-moved", name);
	must(mkdir(from, 0755) == 0, "mkdir");
	must(rename(from, to) == 0, "rename a folder");
	must(symlink("nowhere", from) == 0, "symlink");
	must(unlink(from) == 0, "unlink a link");
	must(rmdir(to) == 0, "rmdir");
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = stop,
				    .sa_flags = SA_RESTART };
	unsigned int number = 0;
	int log;

	if (argc != 3)
		return 2;
	name = argv[2];
	block = malloc(BLOCK);
	back = malloc(BLOCK);
	must(block && back, "memory");
	must(chdir(argv[1]) == 0, "chdir");
	log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);
	must(log >= 0, "open the log");
	sigaction(SIGTERM, &action, NULL);
	while (!is_over) {
		append(log, number++);
		use_file(number);
		append(log, number++);
		use_folder();
	}
	printf("%u\n", number);
	free(block);
	free(back);
	return 0;
}

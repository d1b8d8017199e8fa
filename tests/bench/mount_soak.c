/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mount_soak.c - many operations of all common kinds, for watching memory
 *
 *	mount_soak OPERATIONS DIRECTORY
 *
 * Four threads work, each on names of its own, until together they have called
 * the file system OPERATIONS times; each answer is checked.
 */
#include "libproto/base.h"

#include <err.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS = 4, DATA = 3000, CALLS_PER_LAP = 10 };

struct worker {
	pthread_t thread;
	unsigned int index;
	unsigned long laps;
	const char *dir;
};

static void check(bool is_good, const char *what)
{
	if (!is_good)
		err(1, "%s", what);
}

/* One file's life: CALLS_PER_LAP calls. */
static void lap(const struct worker *worker, unsigned long number)
{
	char path[PATH_MAX], other[PATH_MAX], data[DATA], back[DATA];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/%u-%lu", worker->dir, worker->index,
		 number);
	snprintf(other, sizeof(other), "%s/%u-%lu.moved", worker->dir,
		 worker->index, number);
	memset(data, (int)(number % 251), sizeof(data));
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	check(fd >= 0, path);
	check(pwrite(fd, data, DATA, 0) == DATA, "pwrite");
	check(pread(fd, back, DATA, 0) == DATA, "pread");
	check(memcmp(data, back, DATA) == 0, "data read back");
	check(fstat(fd, &st) == 0 && st.st_size == DATA, "fstat");
	check(ftruncate(fd, 100) == 0, "ftruncate");
	check(close(fd) == 0, "close");
	check(chmod(path, 0640) == 0, "chmod");
	check(rename(path, other) == 0, "rename");
	check(stat(other, &st) == 0 && st.st_size == 100, "stat");
	check(unlink(other) == 0, "unlink");
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	for (unsigned long i = 0; i < worker->laps; i++)
		lap(worker, i);
	return NULL;
}

int main(int argc, char **argv)
{
	struct worker workers[THREADS];
	unsigned long calls;

	if (argc != 3) {
		fprintf(stderr, "usage: mount_soak OPERATIONS DIRECTORY\n");
		return 2;
	}
	calls = strtoul(argv[1], NULL, 10);
	for (unsigned int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){
			.index = i,
			.laps = calls / CALLS_PER_LAP / THREADS + 1,
			.dir = argv[2],
		};
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			errx(1, "pthread_create");
	}
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	return 0;
}

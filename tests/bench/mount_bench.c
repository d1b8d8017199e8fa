/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mount_bench.c - the mount beside a local directory and a plain TCP stream
 *
 *	mount_bench [-n ROUNDS] [-s MIB] [-f FILES] [-j FILE] MOUNT LOCAL [TEST...]
 *
 * Each test runs on MOUNT and on LOCAL (or, for streams that the server has in
 * memory, beside TCP on loopback) in turn, ROUNDS times, the first side changing
 * from round to round.  What is printed and written to FILE is the median of
 * the ratios round by round, since these machines are noisy and a single
 * figure means little; the medians of both sides stand beside it.
 *
 * Operation.  A test is a function that does its work in one directory and
 * returns a rate; higher is better.  Rates are bytes or operations per second.
 */
#include "libproto/base.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	BLOCK = 1 << 20,	/* of streams: the largest FUSE request */
	PAGE = 4096,		/* of random access, and the alignment */
	ROUNDS_MAX = 99,
	DEPTH_MAX = 16,
	RANDOM_OPS = 4000,	/* per round and depth: some tenths of a second */
	EMPTY_REQUESTS = 20000,
};

static unsigned int rounds = 5;
static size_t stream_bytes = (size_t)256 << 20;
static unsigned int file_count = 10000;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static double rate_since(uint64_t start_ns, double amount)
{
	return amount / ((double)(now_ns() - start_ns) / 1e9);
}

static void *aligned_buffer(size_t size)
{
	void *buffer;

	if (posix_memalign(&buffer, PAGE, size))
		err(1, "posix_memalign");
	memset(buffer, 0x5a, size);
	return buffer;
}

static void path_in(char *out, size_t size, const char *dir, const char *name)
{
	if ((size_t)snprintf(out, size, "%s/%s", dir, name) >= size)
		errx(1, "path too long: %s/%s", dir, name);
}

static int open_in(const char *dir, const char *name, int flags)
{
	char path[PATH_MAX];
	int fd;

	path_in(path, sizeof(path), dir, name);
	fd = open(path, flags | O_CLOEXEC, 0644);
	if (fd < 0)
		err(1, "open %s", path);
	return fd;
}

static void close_checked(int fd)
{
	if (close(fd))
		err(1, "close");
}

/* ---- streams -------------------------------------------------------------- */

static void write_stream(int fd, const void *buffer)
{
	for (size_t done = 0; done < stream_bytes; done += BLOCK)
		if (write(fd, buffer, BLOCK) != BLOCK)
			err(1, "write");
}

static void read_stream(int fd, void *buffer)
{
	for (size_t done = 0; done < stream_bytes;) {
		ssize_t got = read(fd, buffer, BLOCK);

		if (got <= 0)
			err(1, "read");
		done += (size_t)got;
	}
}

static void make_stream(const char *dir)
{
	void *buffer = aligned_buffer(BLOCK);
	struct stat st;
	int fd = open_in(dir, "stream", O_RDWR | O_CREAT);

	if (fstat(fd, &st))
		err(1, "fstat");
	if ((size_t)st.st_size != stream_bytes) {
		write_stream(fd, buffer);
		if (fsync(fd))
			err(1, "fsync");
	}
	close_checked(fd);
	free(buffer);
}

static double write_file(const char *dir, const char *name, int flags,
			 bool syncs)
{
	void *buffer = aligned_buffer(BLOCK);
	uint64_t start = now_ns();
	double rate;
	int fd;

	fd = open_in(dir, name, flags);
	write_stream(fd, buffer);
	if (syncs && fsync(fd))
		err(1, "fsync");
	close_checked(fd);
	rate = rate_since(start, (double)stream_bytes);
	free(buffer);
	return rate;
}

static double make_new(const char *dir, bool syncs)
{
	char path[PATH_MAX];

	path_in(path, sizeof(path), dir, "new");
	if (unlink(path) && errno != ENOENT)
		err(1, "unlink %s", path);
	return write_file(dir, "new", O_WRONLY | O_CREAT | O_EXCL, syncs);
}

static double write_new(const char *dir)
{
	return make_new(dir, false);
}

/* With what it costs to have it safe on the disk. */
static double write_new_synced(const char *dir)
{
	return make_new(dir, true);
}

static double overwrite(const char *dir)
{
	make_stream(dir);
	return write_file(dir, "stream", O_WRONLY, false);
}

/* What this host caches of the file goes; what the server caches stays. */
static double read_stream_of(const char *dir)
{
	void *buffer = aligned_buffer(BLOCK);
	uint64_t start;
	double rate;
	int fd;

	make_stream(dir);
	fd = open_in(dir, "stream", O_RDONLY);
	if (posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
		errx(1, "posix_fadvise");
	start = now_ns();
	read_stream(fd, buffer);
	rate = rate_since(start, (double)stream_bytes);
	close_checked(fd);
	free(buffer);
	return rate;
}

static double read_warm(const char *dir)
{
	return read_stream_of(dir);
}

static double read_cold(const char *dir)
{
	int fd;

	make_stream(dir);
	sync();
	fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "3", 1) != 1)
		err(1, "drop_caches (a cold read needs root)");
	close_checked(fd);
	return read_stream_of(dir);
}

/* ---- random access -------------------------------------------------------- */

struct random_thread {
	pthread_t thread;
	int fd;
	unsigned int ops;
	unsigned int seed;
	bool writes;
};

static void *random_run(void *arg)
{
	struct random_thread *job = arg;
	void *buffer = aligned_buffer(PAGE);
	size_t pages = stream_bytes / PAGE;

	for (unsigned int i = 0; i < job->ops; i++) {
		off_t at = (off_t)((size_t)rand_r(&job->seed) % pages * PAGE);
		ssize_t got = job->writes ? pwrite(job->fd, buffer, PAGE, at)
					  : pread(job->fd, buffer, PAGE, at);

		if (got != PAGE)
			err(1, "random %s", job->writes ? "write" : "read");
	}
	free(buffer);
	return NULL;
}

static double random_access(const char *dir, unsigned int depth, bool writes)
{
	struct random_thread jobs[DEPTH_MAX];
	uint64_t start;
	double rate;

	make_stream(dir);
	for (unsigned int i = 0; i < depth; i++)
		jobs[i] = (struct random_thread){
			.fd = open_in(dir, "stream", O_RDWR | O_DIRECT),
			.ops = RANDOM_OPS / depth,
			.seed = i + 1,
			.writes = writes,
		};
	start = now_ns();
	for (unsigned int i = 0; i < depth; i++)
		if (pthread_create(&jobs[i].thread, NULL, random_run, &jobs[i]))
			errx(1, "pthread_create");
	for (unsigned int i = 0; i < depth; i++)
		pthread_join(jobs[i].thread, NULL);
	rate = rate_since(start, RANDOM_OPS / depth * depth);
	for (unsigned int i = 0; i < depth; i++)
		close_checked(jobs[i].fd);
	return rate;
}

static double random_read_1(const char *dir)
{
	return random_access(dir, 1, false);
}

static double random_read_16(const char *dir)
{
	return random_access(dir, DEPTH_MAX, false);
}

static double random_write_1(const char *dir)
{
	return random_access(dir, 1, true);
}

static double random_write_16(const char *dir)
{
	return random_access(dir, DEPTH_MAX, true);
}

/*
 * The price of a FUSE request that needs no server: an ioctl that the client
 * does not know.  The kernel asks each time, and the client refuses by itself.
 */
static double empty_request(const char *dir)
{
	uint64_t start;
	double rate;
	int fd;

	make_stream(dir);
	fd = open_in(dir, "stream", O_RDONLY);
	start = now_ns();
	for (unsigned int i = 0; i < EMPTY_REQUESTS; i++)
		if (ioctl(fd, _IO('r', 0x7f)) == 0 || errno != ENOTTY)
			err(1, "ioctl, which should not be known");
	rate = rate_since(start, EMPTY_REQUESTS);
	close_checked(fd);
	return rate;
}

/* ---- small files ---------------------------------------------------------- */

static void small_path(char *out, size_t size, const char *dir, unsigned int i)
{
	if ((size_t)snprintf(out, size, "%s/small/%05u", dir, i) >= size)
		errx(1, "path too long: %s", dir);
}

static double create_small(const char *dir)
{
	char path[PATH_MAX], buffer[1024] = "small";
	uint64_t start;

	path_in(path, sizeof(path), dir, "small");
	if (mkdir(path, 0755) && errno != EEXIST)
		err(1, "mkdir %s", path);
	start = now_ns();
	for (unsigned int i = 0; i < file_count; i++) {
		int fd;

		small_path(path, sizeof(path), dir, i);
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (fd < 0)
			err(1, "create %s", path);
		if (write(fd, buffer, sizeof(buffer)) != sizeof(buffer))
			err(1, "write %s", path);
		close_checked(fd);
	}
	return rate_since(start, file_count);
}

static double stat_small(const char *dir)
{
	char path[PATH_MAX];
	struct stat st;
	uint64_t start = now_ns();

	for (unsigned int i = 0; i < file_count; i++) {
		small_path(path, sizeof(path), dir, i);
		if (stat(path, &st) || st.st_size != 1024)
			err(1, "stat %s", path);
	}
	return rate_since(start, file_count);
}

static double read_small(const char *dir)
{
	char path[PATH_MAX], buffer[1024];
	uint64_t start = now_ns();

	for (unsigned int i = 0; i < file_count; i++) {
		int fd;

		small_path(path, sizeof(path), dir, i);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			err(1, "open %s", path);
		if (read(fd, buffer, sizeof(buffer)) != sizeof(buffer))
			err(1, "read %s", path);
		close_checked(fd);
	}
	return rate_since(start, file_count);
}

static double unlink_small(const char *dir)
{
	char path[PATH_MAX];
	uint64_t start = now_ns();
	double rate;

	for (unsigned int i = 0; i < file_count; i++) {
		small_path(path, sizeof(path), dir, i);
		if (unlink(path))
			err(1, "unlink %s", path);
	}
	rate = rate_since(start, file_count);
	path_in(path, sizeof(path), dir, "small");
	if (rmdir(path))
		err(1, "rmdir %s", path);
	return rate;
}

/* ---- plain TCP on loopback ------------------------------------------------ */

static void tcp_sink(int listener)
{
	char *buffer = aligned_buffer(BLOCK);
	int fd = accept(listener, NULL, NULL);
	size_t done = 0;

	if (fd < 0)
		err(1, "accept");
	while (done < stream_bytes) {
		ssize_t got = recv(fd, buffer, BLOCK, 0);

		if (got <= 0)
			err(1, "recv");
		done += (size_t)got;
	}
	if (send(fd, "", 1, 0) != 1)
		err(1, "send");
	_exit(0);
}

static double tcp_stream(const char *unused)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t size = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	void *buffer = aligned_buffer(BLOCK);
	uint64_t start;
	char end;
	double rate;
	pid_t child;
	int fd;

	(void)unused;
	if (bind(listener, (struct sockaddr *)&addr, size) ||
	    listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&addr, &size))
		err(1, "listen on loopback");
	child = fork();
	if (child < 0)
		err(1, "fork");
	if (child == 0)
		tcp_sink(listener);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (struct sockaddr *)&addr, size))
		err(1, "connect");
	start = now_ns();
	write_stream(fd, buffer);
	if (recv(fd, &end, 1, 0) != 1)
		err(1, "recv");
	rate = rate_since(start, (double)stream_bytes);
	close_checked(fd);
	close_checked(listener);
	waitpid(child, NULL, 0);
	free(buffer);
	return rate;
}

/* ---- the table ------------------------------------------------------------ */

enum beside { LOCAL, TCP, NOTHING };

static const struct test {
	const char *name;
	double (*run)(const char *dir);
	enum beside beside;
	const char *unit;
} tests[] = {
	{ "write_new", write_new, LOCAL, "B/s" },
	{ "write_new_synced", write_new_synced, LOCAL, "B/s" },
	{ "overwrite", overwrite, TCP, "B/s" },
	{ "read_warm", read_warm, TCP, "B/s" },
	{ "read_cold", read_cold, LOCAL, "B/s" },
	{ "random_read_1", random_read_1, LOCAL, "1/s" },
	{ "random_read_16", random_read_16, LOCAL, "1/s" },
	{ "random_write_1", random_write_1, LOCAL, "1/s" },
	{ "random_write_16", random_write_16, LOCAL, "1/s" },
	{ "overwrite_beside", overwrite, LOCAL, "B/s" },
	{ "read_beside", read_warm, LOCAL, "B/s" },
	{ "empty_request", empty_request, NOTHING, "1/s" },
	{ "create_small", create_small, LOCAL, "1/s" },
	{ "stat_small", stat_small, LOCAL, "1/s" },
	{ "read_small", read_small, LOCAL, "1/s" },
	{ "unlink_small", unlink_small, LOCAL, "1/s" },
};

static const char *const beside_words[] = { "local", "tcp", "-" };

struct figures {
	double mount[ROUNDS_MAX], other[ROUNDS_MAX], ratio[ROUNDS_MAX];
};

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, rounds, sizeof(values[0]), compare);
	return rounds % 2 ? values[rounds / 2]
			  : (values[rounds / 2 - 1] + values[rounds / 2]) / 2;
}

static double run_other(const struct test *test, const char *local)
{
	switch (test->beside) {
	case LOCAL:
		return test->run(local);
	case TCP:
		return tcp_stream(NULL);
	default:
		return 0;
	}
}

static void run_round(const struct test *test, const char *mount,
		      const char *local, struct figures *out, unsigned int i)
{
	if (i % 2)
		out->other[i] = run_other(test, local);
	out->mount[i] = test->run(mount);
	if (i % 2 == 0)
		out->other[i] = run_other(test, local);
	out->ratio[i] = out->other[i] > 0 ? out->mount[i] / out->other[i] : 0;
}

static void report(const struct test *test, struct figures *figures, FILE *json)
{
	double m = median(figures->mount), o = median(figures->other);
	double r = median(figures->ratio);

	printf("%-16s %12.4g %12.4g %-5s %-4s %8.3f  [%.3f, %.3f]\n",
	       test->name, m, o, beside_words[test->beside], test->unit, r,
	       figures->ratio[0], figures->ratio[rounds - 1]);
	fflush(stdout);
	if (!json)
		return;
	fprintf(json,
		"{\"test\":\"%s\",\"mount\":%.6g,\"beside\":\"%s\","
		"\"other\":%.6g,\"unit\":\"%s\",\"ratio\":%.4f,"
		"\"ratio_min\":%.4f,\"ratio_max\":%.4f,\"rounds\":%u}\n",
		test->name, m, beside_words[test->beside], o, test->unit, r,
		figures->ratio[0], figures->ratio[rounds - 1], rounds);
}

/*
 * Small files are made, looked at, read and removed round by round, so the
 * tests of one group take turns inside a round.
 */
static bool is_group_start(const struct test *test)
{
	return test->run == create_small;
}

static void run_tests(const struct test *group, unsigned int count,
		      const char *mount, const char *local, FILE *json)
{
	static struct figures figures[4];

	RF_ASSERT(count <= RF_ARRAY_SIZE(figures));
	for (unsigned int i = 0; i < rounds; i++)
		for (unsigned int t = 0; t < count; t++)
			run_round(&group[t], mount, local, &figures[t], i);
	for (unsigned int t = 0; t < count; t++)
		report(&group[t], &figures[t], json);
}

static bool is_chosen(const struct test *test, char **names, int count)
{
	for (int i = 0; i < count; i++)
		if (strcmp(names[i], test->name) == 0)
			return true;
	return count == 0;
}

static void usage(void)
{
	fprintf(stderr,
		"usage: mount_bench [-n ROUNDS] [-s MIB] [-f FILES] [-j FILE] "
		"MOUNT LOCAL [TEST...]\ntests:");
	for (size_t i = 0; i < RF_ARRAY_SIZE(tests); i++)
		fprintf(stderr, " %s", tests[i].name);
	fprintf(stderr, "\n");
	exit(2);
}

int main(int argc, char **argv)
{
	FILE *json = NULL;
	int option;

	while ((option = getopt(argc, argv, "n:s:f:j:")) != -1) {
		if (option == 'n')
			rounds = (unsigned int)strtoul(optarg, NULL, 10);
		else if (option == 's')
			stream_bytes = (size_t)strtoul(optarg, NULL, 10) << 20;
		else if (option == 'f')
			file_count = (unsigned int)strtoul(optarg, NULL, 10);
		else if (option == 'j')
			json = fopen(optarg, "a");
		else
			usage();
	}
	if (argc - optind < 2 || rounds < 1 || rounds > ROUNDS_MAX ||
	    stream_bytes == 0)
		usage();
	printf("%-16s %12s %12s %-5s %-4s %8s  %s\n", "test", "mount", "other",
	       "", "unit", "ratio", "[min, max]");
	for (size_t i = 0; i < RF_ARRAY_SIZE(tests); i++) {
		unsigned int count = is_group_start(&tests[i]) ? 4 : 1;

		if (is_chosen(&tests[i], argv + optind + 2, argc - optind - 2))
			run_tests(&tests[i], count, argv[optind],
				  argv[optind + 1], json);
		i += count - 1;
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules_data.c - reading, writing, appending, holes, copies, mappings, programs
 */
#include "lib/rules.h"

#include <dirent.h>
#include <linux/magic.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { PAGE = 4096 };

/* ---- calls and their errors ----------------------------------------------- */

static void descriptors_do_what_they_were_opened_for(void)
{
	char bytes[16];
	int in, out;

	MUST(put_file(a("f"), 10, 0644));
	in = (int)MUST(open(b("f"), O_RDONLY));
	out = (int)MUST(open(b("f"), O_WRONLY));
	FAILS(EBADF, write(in, "x", 1));
	FAILS(EBADF, read(out, bytes, 1));
	FAILS(EINVAL, ftruncate(in, 1));
	FAILS(EBADF, fallocate(in, 0, 0, 1));
	FAILS(EINVAL, pread(in, bytes, 1, -1));
	FAILS(EINVAL, pwrite(out, bytes, 1, -1));
	FAILS(EINVAL, ftruncate(out, -1));
	FAILS(EINVAL, lseek(in, -1, SEEK_SET));
	FAILS(EINVAL, fallocate(out, 0, 0, 0));
	FAILS(EINVAL, fallocate(out, 0, -1, 5));
	EQUAL(pread(in, bytes, 16, 4), 6);
	EQUAL(pread(in, bytes, 16, 10), 0);
	EQUAL(pread(in, bytes, 16, 1000), 0);
	EQUAL(write(out, bytes, 0), 0);
	EQUAL(lseek(in, 0, SEEK_END), 10);
	close(in);
	close(out);
	MUST(mkdir(a("d"), 0755));
	in = (int)MUST(open(b("d"), O_RDONLY));
	FAILS(EISDIR, read(in, bytes, 1));
	MUST(fsync(in));
	close(in);
}

static bool is_on(int fd, long type)
{
	struct statfs st = { 0 };

	MUST(fstatfs(fd, &st));
	return st.f_type == type;
}

static bool is_fuse(int fd)
{
	return is_on(fd, FUSE_SUPER_MAGIC);
}

/* Does this file system end where ext4 does?  Others allow more. */
static bool is_as_ext4(int fd)
{
	return is_on(fd, EXT4_SUPER_MAGIC) || is_fuse(fd);
}

static void too_large_files(void)
{
	struct rlimit limit, old;
	int fd = (int)MUST(open(a("f"), O_RDWR | O_CREAT, 0644));
	off_t largest = (INT64_C(1) << 44) - PAGE;

	if (pwrite(fd, "x", 1, largest - 1) == 1) {
		EQUAL(stat_of(b("f")).st_size, largest);
		TRUE(stat_of(b("f")).st_blocks < 100);
	}
	if (is_as_ext4(fd)) {
		EQUAL(stat_of(b("f")).st_size, largest);
		EQUAL(pwrite(fd, "xy", 2, largest - 1), 1);
		FAILS(EFBIG, pwrite(fd, "x", 1, largest));
		FAILS(EFBIG, ftruncate(fd, largest + 1));
		FAILS(EFBIG, truncate(b("f"), largest + 1));
		FAILS(EFBIG, fallocate(fd, 0, largest, 1));
		EQUAL(stat_of(b("f")).st_size, largest);
	}
	FAILS(EFBIG, pwrite(fd, "x", 1, INT64_MAX - 1));
	MUST(getrlimit(RLIMIT_FSIZE, &old));
	limit = old;
	limit.rlim_cur = 1000;
	signal(SIGXFSZ, SIG_IGN);
	MUST(ftruncate(fd, 0));
	MUST(setrlimit(RLIMIT_FSIZE, &limit));
	EQUAL(pwrite(fd, "0123456789", 10, 995), 5);
	FAILS(EFBIG, pwrite(fd, "x", 1, 1000));
	FAILS(EFBIG, ftruncate(fd, 2000));
	FAILS(EFBIG, truncate(b("f"), 2000));
	MUST(setrlimit(RLIMIT_FSIZE, &old));
	EQUAL(stat_of(b("f")).st_size, 1000);
	close(fd);
}

/* Unless it is ignored SIGXFSZ ends who goes past the limit. */
static void the_limit_of_a_process_ends_it(void)
{
	struct rlimit limit = { 1000, 1000 };
	int fd = (int)MUST(open(a("f"), O_RDWR | O_CREAT, 0644));

	for (int way = 0; way < 2; way++) {
		int status = 0;
		pid_t pid = fork();

		if (pid == 0) {
			struct rlimit no_core = { 0, 0 };

			signal(SIGXFSZ, SIG_DFL);
			setrlimit(RLIMIT_CORE, &no_core);
			setrlimit(RLIMIT_FSIZE, &limit);
			_exit(way ? ftruncate(fd, 1001) :
				    (int)pwrite(fd, "x", 1, 1000));
		}
		waitpid(pid, &status, 0);
		TRUE(WIFSIGNALED(status));
		EQUAL(WTERMSIG(status), SIGXFSZ);
	}
	EQUAL(stat_of(b("f")).st_size, 0);
	close(fd);
}

static void vectors_and_flags(void)
{
	char x[4], y[8];
	struct iovec out[2] = { { "abc", 3 }, { "defgh", 5 } };
	struct iovec in[2] = { { x, 4 }, { y, 4 } };
	int fd = (int)MUST(open(a("f"), O_RDWR | O_CREAT, 0644));

	EQUAL(writev(fd, out, 2), 8);
	EQUAL(preadv(fd, in, 2, 0), 8);
	TRUE(memcmp(x, "abcd", 4) == 0 && memcmp(y, "efgh", 4) == 0);
	EQUAL(pwritev2(fd, out, 1, 0, RWF_APPEND), 3);
	EQUAL(stat_of(b("f")).st_size, 11);
	EQUAL(pwritev2(fd, out, 1, 11, RWF_DSYNC), 3);
	EQUAL(pwritev2(fd, out, 1, 14, RWF_SYNC), 3);
	EQUAL(stat_of(b("f")).st_size, 17);
	close(fd);
	for (int flags = 0; flags < 2; flags++) {
		fd = (int)MUST(open(b("f"), O_WRONLY |
				    (flags ? O_SYNC : O_DSYNC)));
		EQUAL(pwrite(fd, "synced", 6, 100), 6);
		close(fd);
	}
	EQUAL(stat_of(a("f")).st_size, 106);
}

static void pipes_and_sendfile(void)
{
	char bytes[100];
	int pair[2], fd, to;
	off_t at = 10;

	MUST(put_file(a("f"), 5000, 0644));
	fd = (int)MUST(open(b("f"), O_RDONLY));
	to = (int)MUST(open(b("g"), O_RDWR | O_CREAT, 0644));
	EQUAL(sendfile(to, fd, &at, 4000), 4000);
	EQUAL(stat_of(a("g")).st_size, 4000);
	MUST(pipe(pair));
	at = 0;
	EQUAL(splice(fd, &at, pair[1], NULL, 100, 0), 100);
	EQUAL(read(pair[0], bytes, 100), 100);
	EQUAL(bytes[27], 'b');
	EQUAL(write(pair[1], "through a pipe", 14), 14);
	at = 4000;
	EQUAL(splice(pair[0], NULL, to, &at, 14, 0), 14);
	EQUAL(pread(to, bytes, 100, 4000), 14);
	TRUE(memcmp(bytes, "through a pipe", 14) == 0);
	EQUAL(stat_of(a("g")).st_size, 4014);
	close(fd);
	close(to);
	close(pair[0]);
	close(pair[1]);
}

/* ---- appends -------------------------------------------------------------- */

enum { LINES = 1000 };

/* Every line is there once and whole, in its writer's order. */
static void check_lines(const char *path, unsigned int writers)
{
	unsigned int next[4] = { 0 }, who, number;
	FILE *file = fopen(path, "r");
	char line[64];
	size_t count = 0;

	while (file && fgets(line, sizeof(line), file)) {
		count++;
		if (TRUE(sscanf(line, "line %u %u", &who, &number) == 2) &&
		    TRUE(who < writers))
			EQUAL(number, next[who]++);
	}
	EQUAL(count, LINES * writers);
	EQUAL(stat_of(path).st_size, LINES * writers * 13);
	if (file)
		fclose(file);
}

static void append_line(const char *path, unsigned int who, unsigned int number)
{
	int fd = (int)MUST(open(path, O_WRONLY | O_APPEND | O_CREAT, 0644));
	char line[16];

	snprintf(line, sizeof(line), "line %u %05u\n", who, number);
	EQUAL(write(fd, line, 13), 13);
	close(fd);
}

static void appends_in_turn(void)
{
	for (unsigned int i = 0; i < LINES; i++) {
		append_line(a("f"), 0, i);
		append_line(b("f"), 1, i);
	}
	check_lines(a("f"), 2);
	check_lines(b("f"), 2);
}

static void appends_at_once(void)
{
	for (unsigned int who = 0; who < 4; who++)
		if (fork() == 0) {
			for (unsigned int i = 0; i < LINES; i++)
				append_line(who % 2 ? a("f") : b("f"), who, i);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	check_lines(a("f"), 4);
	check_lines(b("f"), 4);
}

static void small_appends_by_one_descriptor(void)
{
	enum { WRITES = 10000, END = 3 * WRITES };
	static char bytes[END + 100], wanted[8];
	int fd = (int)MUST(open(a("f"), O_WRONLY | O_APPEND | O_CREAT, 0644));
	int in = (int)MUST(open(b("f"), O_RDONLY));

	for (int i = 0; i < WRITES; i++) {
		snprintf(wanted, sizeof(wanted), "%03d", i % 1000);
		if (write(fd, wanted, 3) != 3)
			MUST(-1);
	}
	EQUAL(pwrite(fd, "end", 3, 0), 3);	/* Linux appends this, too */
	EQUAL(lseek(fd, 0, SEEK_CUR), END);
	close(fd);
	EQUAL(stat_of(b("f")).st_size, END + 3);
	EQUAL(pread(in, bytes, sizeof(bytes), 0), END + 3);
	for (int i = 0; i < WRITES; i++) {
		snprintf(wanted, sizeof(wanted), "%03d", i % 1000);
		if (!TRUE(memcmp(bytes + 3 * i, wanted, 3) == 0))
			break;
	}
	TRUE(memcmp(bytes + END, "end", 3) == 0);
	close(in);
}

/* ---- readers and writers -------------------------------------------------- */

enum { STREAM = 3 << 20, STREAM_STEP = 7001 };

static char stream_byte(off_t at)
{
	return (char)('A' + at % 57);
}

static void write_stream(void)
{
	static char bytes[STREAM_STEP];
	int fd = (int)MUST(open(a("stream"), O_WRONLY));

	for (off_t at = 0; at < STREAM; at += STREAM_STEP) {
		for (off_t i = 0; i < STREAM_STEP; i++)
			bytes[i] = stream_byte(at + i);
		EQUAL(write(fd, bytes, STREAM_STEP), STREAM_STEP);
	}
	close(fd);
}

/* Up to the size that is seen, each byte was written: no zeroes, no old ones. */
static void readers_see_what_was_written(void)
{
	static char bytes[1 << 18];
	off_t at = 0;
	pid_t writer;
	int fd;

	MUST(open_close(a("stream"), O_WRONLY | O_CREAT));
	fd = (int)MUST(open(b("stream"), O_RDONLY));
	writer = fork();
	if (writer == 0) {
		write_stream();
		_exit(0);
	}
	while (at < STREAM) {
		struct stat st = { 0 };
		ssize_t got;

		MUST(fstat(fd, &st));
		got = pread(fd, bytes, sizeof(bytes), at);
		if (got < 0 || (got == 0 && st.st_size > at)) {
			EQUAL(got, st.st_size - at);
			break;
		}
		for (ssize_t i = 0; i < got; i++)
			if (bytes[i] != stream_byte(at + i)) {
				EQUAL(bytes[i], stream_byte(at + i));
				at = STREAM;
				break;
			}
		at += got;
	}
	waitpid(writer, NULL, 0);
	close(fd);
}

static void two_halves_by_two_writers(void)
{
	enum { STEP = 1 << 20 };
	int half = rules_are_long() ? 640 : 6;	/* in steps */
	char *bytes = malloc(STEP);
	int fd;

	for (int who = 0; who < 2; who++)
		if (fork() == 0) {
			fd = (int)MUST(open(who ? b("f") : a("f"),
					    O_WRONLY | O_CREAT, 0644));
			memset(bytes, 'x' + who, STEP);
			for (int i = 0; i < half; i++)
				EQUAL(pwrite(fd, bytes, STEP,
					     (off_t)(who * half + i) * STEP),
				      STEP);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	EQUAL(stat_of(a("f")).st_size, (off_t)2 * half * STEP);
	EQUAL(stat_of(b("f")).st_size, (off_t)2 * half * STEP);
	for (int who = 0; who < 2; who++) {
		fd = (int)MUST(open(who ? a("f") : b("f"), O_RDONLY));
		for (int i = 0; i < 2 * half; i++) {
			EQUAL(pread(fd, bytes, STEP, (off_t)i * STEP), STEP);
			EQUAL(bytes[0], 'x' + (i >= half));
			TRUE(memcmp(bytes, bytes + 1, STEP - 1) == 0);
		}
		close(fd);
	}
	free(bytes);
}

static void a_cached_file_that_grows(void)
{
	char bytes[200];
	int fd;

	MUST(put_file(a("f"), 100, 0644));
	fd = (int)MUST(open(b("f"), O_RDONLY));
	EQUAL(pread(fd, bytes, 200, 0), 100);
	for (int i = 0; i < 50; i++) {
		int out = (int)MUST(open(a("f"), O_WRONLY | O_APPEND));

		EQUAL(write(out, "z", 1), 1);
		close(out);
		EQUAL(stat_of(b("f")).st_size, 101 + i);
		EQUAL(pread(fd, bytes, 200, 0), 101 + i);
		EQUAL(bytes[100 + i], 'z');
	}
	close(fd);
}

/* Back to the size that it had when it was read. */
static void grow_and_be_cut(void (*grow)(int fd), size_t size)
{
	char byte;
	int fd;

	MUST(put_file(a("f"), 10, 0644));
	fd = (int)MUST(open(b("f"), O_RDWR));
	EQUAL(pread(fd, &byte, 1, 0), 1);
	grow(fd);
	EQUAL(stat_of(a("f")).st_size, size);
	MUST(truncate(a("f"), 10));
	EQUAL(lseek(fd, 0, SEEK_END), 10);
	EQUAL(pread(fd, &byte, 1, 10), 0);
	close(fd);
	MUST(unlink(a("f")));
}

static void by_a_write(int fd)
{
	EQUAL(pwrite(fd, "12345", 5, 10), 5);
}

static void by_blocks(int fd)
{
	MUST(fallocate(fd, 0, 0, 15));
}

static void by_a_copy(int fd)
{
	off_t in = 0, out = 10;
	int source = (int)MUST(open(b("source"), O_RDONLY));

	EQUAL(copy_file_range(source, &in, fd, &out, 5, 0), 5);
	close(source);
}

static void a_cached_file_that_grows_here_and_is_cut_there(void)
{
	MUST(put_file(a("source"), 5, 0644));
	grow_and_be_cut(by_a_write, 15);
	grow_and_be_cut(by_blocks, 15);
	grow_and_be_cut(by_a_copy, 15);
}

/* ---- holes ---------------------------------------------------------------- */

static void holes_take_no_blocks(void)
{
	int fd = (int)MUST(open(a("f"), O_RDWR | O_CREAT, 0644));
	long blocks;

	EQUAL(stat_of(b("f")).st_blocks, 0);
	EQUAL(pwrite(fd, "end", 3, 100 << 20), 3);
	MUST(fsync(fd));
	TRUE(stat_of(b("f")).st_blocks > 0);
	TRUE(stat_of(b("f")).st_blocks < 1000);
	EQUAL(lseek(fd, 0, SEEK_HOLE), 0);
	TRUE(lseek(fd, 0, SEEK_DATA) > 99 << 20);
	/* A block is data to its end, however few of its bytes were written. */
	MUST(ftruncate(fd, 200 << 20));
	EQUAL(lseek(fd, 100 << 20, SEEK_HOLE) % PAGE, 0);
	EQUAL(lseek(fd, (100 << 20) + 100, SEEK_DATA), (100 << 20) + 100);
	MUST(ftruncate(fd, 0));
	MUST(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 1 << 20));
	EQUAL(stat_of(b("f")).st_size, 0);
	blocks = stat_of(b("f")).st_blocks;
	TRUE(blocks >= 2048);
	MUST(fallocate(fd, 0, 0, 1 << 20));
	EQUAL(stat_of(b("f")).st_size, 1 << 20);
	MUST(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
		       1 << 19));
	MUST(fsync(fd));
	TRUE(stat_of(b("f")).st_blocks <= blocks - 1024);
	FAILS(EOPNOTSUPP, fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, PAGE));
	if (is_fuse(fd)) {	/* the kernel's FUSE has no way to ask */
		FAILS(EOPNOTSUPP, fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0,
					    PAGE));
		FAILS(EOPNOTSUPP, fallocate(fd, FALLOC_FL_INSERT_RANGE, 0,
					    PAGE));
	}
	EQUAL(stat_of(b("f")).st_size, 1 << 20);
	close(fd);
}

static void gaps_are_zeroes(void)
{
	static char bytes[100000], zeroes[100000];
	int fd = (int)MUST(open(a("f"), O_RDWR | O_CREAT, 0644));
	int in = (int)MUST(open(b("f"), O_RDONLY));

	memset(bytes, 'x', sizeof(bytes));
	EQUAL(pwrite(fd, bytes, 50000, 0), 50000);
	MUST(truncate(b("f"), 5));
	MUST(truncate(a("f"), 90000));
	EQUAL(pread(in, bytes, 90000, 0), 90000);
	TRUE(memcmp(bytes, "xxxxx", 5) == 0);
	TRUE(memcmp(bytes + 5, zeroes, 89995) == 0);
	EQUAL(pwrite(fd, "y", 1, 95000), 1);
	EQUAL(pread(in, bytes, sizeof(bytes), 0), 95001);
	TRUE(memcmp(bytes + 5, zeroes, 94995) == 0);
	EQUAL(bytes[95000], 'y');
	close(fd);
	close(in);
}

/* ---- copy_file_range ------------------------------------------------------ */

static void copies(void)
{
	off_t in, out;
	int from, to, append;

	MUST(put_file(a("f"), 10000, 0644));
	from = (int)MUST(open(b("f"), O_RDWR));
	to = (int)MUST(open(b("g"), O_RDWR | O_CREAT, 0644));
	append = (int)MUST(open(b("g"), O_WRONLY | O_APPEND));
	in = 100;
	out = 50000;
	EQUAL(copy_file_range(from, &in, to, &out, 20000, 0), 9900);
	EQUAL(in, 10000);
	EQUAL(out, 59900);
	EQUAL(stat_of(a("g")).st_size, 59900);
	EQUAL(copy_file_range(from, &in, to, &out, 100, 0), 0);
	in = 0;
	out = 500;
	FAILS(EINVAL, copy_file_range(from, &in, from, &out, 1000, 0));
	EQUAL(copy_file_range(from, &in, from, &out, 500, 0), 500);
	FAILS(EBADF, copy_file_range(from, &in, append, NULL, 10, 0));
	FAILS(EINVAL, copy_file_range(from, &in, to, NULL, 10, 1));
	close(append);
	append = (int)MUST(open(b("g"), O_RDONLY));
	FAILS(EBADF, copy_file_range(from, &in, append, NULL, 10, 0));
	close(append);
	MUST(mkdir(a("d"), 0755));
	append = (int)MUST(open(b("d"), O_RDONLY));
	FAILS(EISDIR, copy_file_range(append, NULL, to, NULL, 10, 0));
	close(append);
	close(from);
	close(to);
}

/* ---- mappings ------------------------------------------------------------- */

static sigjmp_buf jump;

static void on_bus(int number)
{
	(void)number;
	siglongjmp(jump, 1);
}

/* Does reading that byte raise SIGBUS? */
static bool is_bus_error(const volatile char *at)
{
	bool is_error = true;

	signal(SIGBUS, on_bus);
	if (sigsetjmp(jump, 1) == 0) {
		(void)*at;
		is_error = false;
	}
	signal(SIGBUS, SIG_DFL);
	return is_error;
}

static void mappings_and_calls_agree(void)
{
	char *shared, *private, byte;
	int fd, in;

	MUST(put_file(a("f"), 3 * PAGE, 0644));
	fd = (int)MUST(open(a("f"), O_RDWR));
	in = (int)MUST(open(a("f"), O_RDONLY));
	shared = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	private = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, in,
		       0);
	TRUE(shared != MAP_FAILED && private != MAP_FAILED);
	FAILS(EACCES, mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, in, 0) ==
		      MAP_FAILED ? -1 : 0);
	EQUAL(pwrite(fd, "W", 1, 5000), 1);
	EQUAL(shared[5000], 'W');
	shared[6000] = 'M';
	EQUAL(pread(in, &byte, 1, 6000), 1);
	EQUAL(byte, 'M');
	private[100] = 'P';
	EQUAL(pread(in, &byte, 1, 100), 1);
	EQUAL(byte, 'a' + 100 % 26);
	EQUAL(shared[100], 'a' + 100 % 26);
	MUST(msync(shared, 3 * PAGE, MS_SYNC));
	close(in);
	in = (int)MUST(open(b("f"), O_RDONLY));
	EQUAL(pread(in, &byte, 1, 6000), 1);
	EQUAL(byte, 'M');
	munmap(shared, 3 * PAGE);
	munmap(private, 3 * PAGE);
	close(in);
	close(fd);
}

static void mappings_across_truncate(void)
{
	struct stat st;
	char *mem;
	int fd;

	MUST(put_file(a("f"), 3 * PAGE, 0644));
	fd = (int)MUST(open(a("f"), O_RDWR));
	mem = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	TRUE(mem != MAP_FAILED);
	EQUAL(mem[2 * PAGE + 5], 'a' + (2 * PAGE + 5) % 26);
	TRUE(is_bus_error(mem + 3 * PAGE));
	MUST(truncate(b("f"), PAGE + 10));
	MUST(fstat(fd, &st));		/* the mount is told */
	TRUE(is_bus_error(mem + 2 * PAGE + 5));
	EQUAL(mem[PAGE + 9], 'a' + (PAGE + 9) % 26);
	EQUAL(mem[PAGE + 10], 0);
	EQUAL(mem[PAGE + 1000], 0);
	MUST(truncate(b("f"), 3 * PAGE));
	MUST(fstat(fd, &st));
	EQUAL(mem[2 * PAGE + 5], 0);
	mem[2 * PAGE + 6] = 'n';
	MUST(msync(mem, 3 * PAGE, MS_SYNC));
	munmap(mem, 4 * PAGE);
	close(fd);
	fd = (int)MUST(open(b("f"), O_RDONLY));
	mem = mmap(NULL, 3 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	EQUAL(mem[2 * PAGE + 6], 'n');
	munmap(mem, 3 * PAGE);
	close(fd);
}

/* Stores that were not written back yet don't bring it back. */
static void what_is_cut_off_under_a_mapping_stays_off(void)
{
	char *mem, bytes[2] = "xx";
	int fd, other;

	MUST(put_file(a("f"), 3 * PAGE, 0644));
	fd = (int)MUST(open(a("f"), O_RDWR));
	other = (int)MUST(open(b("f"), O_RDWR));
	mem = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	TRUE(mem != MAP_FAILED);
	mem[PAGE + 5] = 'n';
	mem[PAGE + 20] = 'n';
	mem[2 * PAGE] = 'n';
	MUST(ftruncate(other, PAGE + 10));
	MUST(msync(mem, 3 * PAGE, MS_SYNC));
	EQUAL(stat_of(b("f")).st_size, PAGE + 10);
	EQUAL(stat_of(a("f")).st_size, PAGE + 10);
	EQUAL(pread(other, bytes, 1, PAGE + 5), 1);
	EQUAL(bytes[0], 'n');
	MUST(ftruncate(other, 3 * PAGE));
	EQUAL(pread(other, bytes, 1, PAGE + 20), 1);
	EQUAL(pread(fd, bytes + 1, 1, 2 * PAGE), 1);
	EQUAL(bytes[0], 0);
	EQUAL(bytes[1], 0);
	munmap(mem, 3 * PAGE);
	close(other);
	close(fd);
}

/* However the file was opened.  The other mount leaves its size and times. */
static void mapped_pages_are_not_kept_when_they_are_old(void)
{
	static const int flags[] = { 0, O_APPEND, O_DIRECT };
	struct timespec times[2];
	struct stat st;
	char *mem, byte;
	int fd;

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		MUST(put_file(a("f"), PAGE, 0644));
		fd = (int)MUST(open(a("f"), O_RDWR | flags[i]));
		mem = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
		TRUE(mem != MAP_FAILED);
		EQUAL(mem[5], 'a' + 5);
		munmap(mem, PAGE);
		close(fd);
		st = stat_of(a("f"));
		fd = (int)MUST(open(b("f"), O_WRONLY));
		EQUAL(pwrite(fd, "Z", 1, 5), 1);
		times[0] = st.st_atim;
		times[1] = st.st_mtim;
		MUST(futimens(fd, times));
		close(fd);
		fd = (int)MUST(open(a("f"), O_RDONLY));
		EQUAL(pread(fd, &byte, 1, 5), 1);
		EQUAL(byte, 'Z');
		close(fd);
		MUST(unlink(a("f")));
	}
}

/* A mapping that is looked at finds the file shorter, without asking for its size
 * first; and then it is as long as before. */
static void a_file_that_is_cut_and_grows_behind_a_mapping(void)
{
	volatile char *mem;
	char byte;
	int fd;

	MUST(put_file(a("f"), 8 * PAGE, 0644));
	fd = (int)MUST(open(b("f"), O_RDWR));
	EQUAL(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), 0);
	mem = mmap(NULL, 8 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
	TRUE(mem != MAP_FAILED);
	EQUAL(pread(fd, &byte, 1, 0), 1);
	MUST(truncate(a("f"), 2 * PAGE + 10));
	TRUE(mem[2 * PAGE] != 0);
	MUST(truncate(a("f"), 8 * PAGE));
	EQUAL(lseek(fd, 0, SEEK_END), 8 * PAGE);
	EQUAL(pread(fd, &byte, 1, 4 * PAGE), 1);
	munmap((void *)mem, 8 * PAGE);
	close(fd);
}

/* ---- programs ------------------------------------------------------------- */

static int copy_program(const char *from, const char *to)
{
	static char bytes[1 << 16];
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	ssize_t got;

	while ((got = read(in, bytes, sizeof(bytes))) > 0)
		if (write(out, bytes, (size_t)got) != got)
			return -1;
	close(in);
	return close(out);
}

/* Its exit status, or -errno. */
static int run_program(const char *path, const char *argument)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execl(path, path, argument, NULL);
		_exit(errno == ETXTBSY ? 126 : errno == EACCES ? 125 : 127);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void programs_run(void)
{
	int fd;

	MUST(copy_program("/bin/true", a("true")));
	EQUAL(run_program(b("true"), "x"), 0);
	MUST(copy_program("/bin/false", a("true")));
	EQUAL(run_program(b("true"), "x"), 1);
	MUST(chmod(a("true"), 0644));
	EQUAL(run_program(b("true"), "x"), 125);
	MUST(chmod(a("true"), 0755));
	fd = (int)MUST(open(b("script"), O_WRONLY | O_CREAT, 0755));
	EQUAL(write(fd, "#!/bin/sh\nexit 7\n", 17), 17);
	close(fd);
	EQUAL(run_program(a("script"), "x"), 7);
}

/* By one mount: CONSISTENCY.md says why others are not told. */
static void a_program_that_is_written_does_not_run(void)
{
	pid_t pid;
	int fd;

	MUST(copy_program("/bin/sleep", a("sleep")));
	fd = (int)MUST(open(a("sleep"), O_WRONLY | O_CLOEXEC));
	EQUAL(run_program(a("sleep"), "0"), 126);
	close(fd);
	EQUAL(run_program(b("sleep"), "0"), 0);
	pid = fork();
	if (pid == 0) {
		execl(a("sleep"), "sleep", "1000", NULL);
		_exit(1);
	}
	/* Until it runs the child is this program. */
	for (int i = 0; i < 1000; i++) {
		char link[64], path[4200] = "";

		snprintf(link, sizeof(link), "/proc/%d/exe", pid);
		if (readlink(link, path, sizeof(path) - 1) > 0 &&
		    strstr(path, "/sleep"))
			break;
		usleep(10000);
	}
	FAILS(ETXTBSY, open_close(a("sleep"), O_WRONLY));
	FAILS(ETXTBSY, truncate(a("sleep"), 0));
	MUST(open_close(b("sleep"), O_RDONLY));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	MUST(open_close(b("sleep"), O_WRONLY));
}

/* ---- space ---------------------------------------------------------------- */

/* Large, so that what others do on the same disk meanwhile weighs little. */
static void statfs_counts_what_is_written(void)
{
	enum { SIZE = 1 << 30 };
	struct statvfs before, full, after;
	int fd = (int)MUST(open(a("f"), O_WRONLY | O_CREAT, 0644));

	MUST(statvfs(b(""), &before));
	EQUAL(before.f_namemax, 255);
	TRUE(before.f_bavail <= before.f_bfree);
	TRUE(before.f_bfree <= before.f_blocks);
	MUST(posix_fallocate(fd, 0, SIZE) ? -1 : 0);
	MUST(fsync(fd));
	MUST(statvfs(b(""), &full));
	TRUE(stat_of(b("f")).st_blocks >= SIZE / 512);
	close(fd);
	MUST(unlink(b("f")));
	MUST(statvfs(a(""), &after));
	EQUAL(full.f_blocks, before.f_blocks);
	EQUAL(after.f_bsize, before.f_bsize);
	TRUE((before.f_bfree - full.f_bfree) * full.f_frsize > SIZE / 2);
	TRUE((before.f_bavail - full.f_bavail) * full.f_frsize > SIZE / 2);
}

/* Names with their attributes, as ls asks for them, right after a copy. */
static void a_copy_is_listed_with_its_size(void)
{
	enum { SIZE = (3 << 20) + 1 };
	struct dirent *entry;
	struct stat st;
	DIR *dir;
	int found = 0;

	MUST(put_file(a("f"), SIZE, 0644));
	dir = opendir(b(""));
	TRUE(dir);
	while ((entry = readdir(dir))) {
		if (strcmp(entry->d_name, "f") != 0)
			continue;
		MUST(fstatat(dirfd(dir), "f", &st, AT_SYMLINK_NOFOLLOW));
		EQUAL(st.st_size, SIZE);
		found++;
	}
	closedir(dir);
	EQUAL(found, 1);
	EQUAL(stat_of(b("f")).st_size, SIZE);
}

static const struct rule rules[] = {
	RULE(descriptors_do_what_they_were_opened_for),
	RULE(too_large_files),
	RULE(the_limit_of_a_process_ends_it),
	RULE(vectors_and_flags),
	RULE(pipes_and_sendfile),
	RULE(appends_in_turn),
	RULE(appends_at_once),
	RULE(small_appends_by_one_descriptor),
	RULE(readers_see_what_was_written),
	RULE(two_halves_by_two_writers),
	RULE(a_cached_file_that_grows),
	RULE(a_cached_file_that_grows_here_and_is_cut_there),
	RULE(holes_take_no_blocks),
	RULE(gaps_are_zeroes),
	RULE(copies),
	RULE(mappings_and_calls_agree),
	RULE(mappings_across_truncate),
	RULE(what_is_cut_off_under_a_mapping_stays_off),
	RULE(mapped_pages_are_not_kept_when_they_are_old),
	RULE(a_file_that_is_cut_and_grows_behind_a_mapping),
	RULE(programs_run),
	RULE(a_program_that_is_written_does_not_run),
	RULE(statfs_counts_what_is_written),
	RULE(a_copy_is_listed_with_its_size),
};

int main(int argc, char **argv)
{
	return rules_main(rules, sizeof(rules) / sizeof(rules[0]), argc, argv);
}

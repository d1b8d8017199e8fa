/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock_hold - a process that locks as it is told, for scripts
 *
 *	lock_hold FILE
 *
 * Each line of standard input is a command, each answered by a line: "ok", or
 * the name of an errno.
 *
 *	posix|ofd|flock w|r|u|t START SIZE [wait]
 *		lock exclusive or shared, unlock; t: what F_GETLK finds in the way
 *		of an exclusive lock, "free" or "locked".  SIZE 0: to the end.
 *	waiters COUNT posix|ofd|flock START SIZE
 *		so many processes, each with an open of its own, that wait for an
 *		exclusive lock, give it up and end; answered when all are there
 *	go	let them begin
 *	waited	how many of these have ended so far, and how many failed
 *	child posix|ofd|flock w|r START SIZE
 *		a process with the same open that waits for a lock; answered at once
 *	hit	send it a SIGUSR1, which it ignores but for EINTR
 *	kill	end it
 *	reap	how its wait has ended: as above, or "killed"; it then keeps the lock
 *		until "kill"
 *	map	the first page of FILE, shared
 *	store CHARACTER
 *		there, and wait until it is written back
 *	exec PROGRAM	become PROGRAM; FILE is closed by that
 *	quit
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *path;
static int file;
static unsigned int ended, failed;

static int open_file(void)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0) {
		perror(path);
		exit(1);
	}
	return fd;
}

static void say(int ret)
{
	printf("%s\n", ret >= 0 ? "ok" : strerrorname_np(errno));
}

static int lock(int fd, const char *kind, char type, long long start,
		long long size, bool waits)
{
	struct flock range = {
		.l_type = type == 'w' ? F_WRLCK : type == 'r' ? F_RDLCK
							      : F_UNLCK,
		.l_whence = SEEK_SET,
		.l_start = start,
		.l_len = size,
	};

	if (strcmp(kind, "posix") == 0)
		return fcntl(fd, waits ? F_SETLKW : F_SETLK, &range);
	if (strcmp(kind, "ofd") == 0)
		return fcntl(fd, waits ? F_OFD_SETLKW : F_OFD_SETLK, &range);
	return flock(fd, (type == 'w' ? LOCK_EX : type == 'r' ? LOCK_SH
							      : LOCK_UN) |
			 (waits ? 0 : LOCK_NB));
}

static void test(const char *kind, long long start, long long size)
{
	struct flock range = {
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = start,
		.l_len = size,
	};
	int ret = fcntl(file, strcmp(kind, "ofd") == 0 ? F_OFD_GETLK : F_GETLK,
			&range);

	if (ret < 0)
		say(ret);
	else
		printf("%s\n", range.l_type == F_UNLCK ? "free" : "locked");
}

/* Their ends let waiters begin. */
static int go[8];
static unsigned int go_count;

static void close_go(void)
{
	while (go_count > 0)
		close(go[--go_count]);
}

static int wait_once(int ready, int begin, const char *kind, long long start,
		     long long size)
{
	int fd = open_file();
	char byte = 0;

	if (write(ready, &byte, 1) != 1 || read(begin, &byte, 1) != 0)
		return 1;
	return lock(fd, kind, 'w', start, size, true) < 0 ||
	       lock(fd, kind, 'u', start, size, false) < 0;
}

static void start_waiters(unsigned int count, const char *kind,
			  long long start, long long size)
{
	int ready[2], begin[2];
	char byte;

	if (go_count == sizeof(go) / sizeof(go[0]) ||
	    pipe2(ready, O_CLOEXEC) < 0 || pipe2(begin, O_CLOEXEC) < 0)
		exit(1);
	for (unsigned int i = 0; i < count; i++) {
		pid_t pid = fork();

		if (pid < 0) {
			perror("fork");
			exit(1);
		}
		if (pid > 0)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(begin[1]);
		close_go();
		_exit(wait_once(ready[1], begin[0], kind, start, size));
	}
	close(begin[0]);
	close(ready[1]);
	for (unsigned int i = 0; i < count; i++)
		if (read(ready[0], &byte, 1) != 1)
			exit(1);
	close(ready[0]);
	go[go_count++] = begin[1];
	printf("ok\n");
}

static void count_waiters(void)
{
	int status;

	while (waitpid(-1, &status, WNOHANG) > 0) {
		ended++;
		failed += status != 0;
	}
	printf("%u ended, %u failed\n", ended, failed);
}

static void hit(int number)
{
	(void)number;
}

static pid_t child;
static int child_says;

static void start_child(const char *kind, char type, long long start,
			long long size)
{
	int ends[2], err;

	if (pipe2(ends, O_CLOEXEC) < 0)
		exit(1);
	child = fork();
	if (child < 0)
		exit(1);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		err = lock(file, kind, type, start, size, true) < 0 ? errno : 0;
		if (write(ends[1], &err, sizeof(err)) == sizeof(err))
			pause();
		_exit(1);
	}
	close(ends[1]);
	child_says = ends[0];
	printf("%d\n", child);
}

static void end_child(void)
{
	kill(child, SIGKILL);
	say(waitpid(child, NULL, 0) == child ? 0 : -1);
}

static void reap_child(void)
{
	int err;

	if (read(child_says, &err, sizeof(err)) != sizeof(err)) {
		printf("killed\n");
	} else {
		errno = err;
		say(err ? -1 : 0);
	}
	close(child_says);
}

enum { PAGE = 4096 };
static char *page;

static void map_page(void)
{
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	say(page == MAP_FAILED ? -1 : 0);
}

static void store(char byte)
{
	page[0] = byte;
	say(msync(page, PAGE, MS_SYNC));
}

static void obey(const char *line)
{
	long long start = 0, size = 0;
	char word[64], more[64], type;
	unsigned int count;

	more[0] = '\0';
	if (sscanf(line, "waiters %u %63s %lld %lld", &count, word, &start,
		   &size) == 4) {
		start_waiters(count, word, start, size);
	} else if (strcmp(line, "go\n") == 0) {
		close_go();
		printf("ok\n");
	} else if (strcmp(line, "waited\n") == 0) {
		count_waiters();
	} else if (sscanf(line, "child %63s %c %lld %lld", word, &type,
			  &start, &size) == 4) {
		start_child(word, type, start, size);
	} else if (strcmp(line, "hit\n") == 0) {
		say(kill(child, SIGUSR1));
	} else if (strcmp(line, "kill\n") == 0) {
		end_child();
	} else if (strcmp(line, "reap\n") == 0) {
		reap_child();
	} else if (strcmp(line, "map\n") == 0) {
		map_page();
	} else if (sscanf(line, "store %c", &type) == 1) {
		store(type);
	} else if (strcmp(line, "quit\n") == 0) {
		exit(0);
	} else if (sscanf(line, "exec %63s", word) == 1) {
		execlp(word, word, (char *)NULL);
		say(-1);
	} else if (sscanf(line, "%63s %c %lld %lld %63s", word, &type, &start,
			  &size, more) >= 4) {
		if (type == 't')
			test(word, start, size);
		else
			say(lock(file, word, type, start, size,
				 strcmp(more, "wait") == 0));
	} else {
		printf("what is %s", line);
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const struct sigaction action = { .sa_handler = hit };
	char line[256];

	if (argc != 2) {
		fprintf(stderr, "lock_hold FILE\n");
		return 2;
	}
	path = argv[1];
	file = open_file();
	sigaction(SIGUSR1, &action, NULL);
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	return 0;
}

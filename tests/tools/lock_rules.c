/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock_rules - what programs may expect of fcntl and flock locks
 *
 *	lock_rules DIR_A DIR_B [CASE]
 *
 * Prints one line for each thing that it has seen, which must be the same
 * on a local file system and on a mount.  The two directories are one and the
 * same, or two mounts of it: whoever has a lock uses the first, whoever is in its
 * way the second.  A line holds no number of a process and no time.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 30000, PROCESSES = 8, ROUNDS = 20, TURNS = 400 };

static const char *dirs[2];
static const char *self;

static void __attribute__((format(printf, 1, 2), noreturn))
die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "lock_rules: ");
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	exit(1);
}

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	printf("\n");
	va_end(args);
	fflush(stdout);
}

static const char *result(int ret)
{
	return ret >= 0 ? "ok" : strerrorname_np(errno);
}

static int open_at(int which, const char *name, int flags)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dirs[which], name);
	fd = open(path, flags, 0644);
	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	return fd;
}

static int open_rw(int which, const char *name)
{
	return open_at(which, name, O_RDWR | O_CREAT);
}

static int fcntl_lock(int fd, int command, int type, off_t start, off_t size)
{
	struct flock lock = {
		.l_type = (short)type,
		.l_whence = SEEK_SET,
		.l_start = start,
		.l_len = size,
	};

	return fcntl(fd, command, &lock);
}

/* ---- processes ----------------------------------------------------------- */

/* A child that runs fn; it ends with the test. */
static pid_t start(int (*fn)(void *arg), void *arg)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid == 0) {
		int status = fn(arg);

		fflush(stdout);
		_exit(status);
	}
	return pid;
}

static int end_of(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		die("waitpid: %s", strerror(errno));
	if (WIFSIGNALED(status))
		return 128 + WTERMSIG(status);
	return WEXITSTATUS(status);
}

static int run(int (*fn)(void *arg), void *arg)
{
	return end_of(start(fn, arg));
}

/* Until the process is inside of a call of fcntl or flock. */
static void wait_until_blocked(pid_t pid)
{
	char path[64], text[64];

	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	for (int waited = 0; waited < PATIENCE_MS; waited++) {
		FILE *file = fopen(path, "r");
		long call = -1;

		if (file && fgets(text, sizeof(text), file))
			call = atol(text);
		if (file)
			fclose(file);
		if (call == SYS_fcntl || call == SYS_flock)
			return;
		poll(NULL, 0, 1);
	}
	die("a process does not wait for a lock");
}

/* What another process is told of the bytes; it uses the second directory. */
struct look {
	const char *name;
	int type;
	off_t start, size;
	pid_t wanted;
};

static int look_child(void *arg)
{
	const struct look *look = arg;
	int fd = open_rw(1, look->name);
	struct flock lock = {
		.l_type = (short)look->type,
		.l_whence = SEEK_SET,
		.l_start = look->start,
		.l_len = look->size,
	};

	if (fcntl(fd, F_GETLK, &lock) < 0) {
		say("  getlk: %s", strerrorname_np(errno));
		return 0;
	}
	if (lock.l_type == F_UNLCK)
		say("  getlk %lld+%lld: free", (long long)look->start,
		    (long long)look->size);
	else
		say("  getlk %lld+%lld: %s at %lld+%lld of %s",
		    (long long)look->start, (long long)look->size,
		    lock.l_type == F_WRLCK ? "exclusive" : "shared",
		    (long long)lock.l_start, (long long)lock.l_len,
		    lock.l_pid == look->wanted ? "that process" : "another");
	return 0;
}

static void look_at(const char *name, int type, off_t first, off_t size)
{
	struct look look = { name, type, first, size, getpid() };

	run(look_child, &look);
}

/* Who tries to lock, does not wait, and says what came. */
struct try {
	const char *name;
	int type;		/* F_*, or LOCK_* if is_flock */
	bool is_flock;
	off_t start, size;
};

static int try_child(void *arg)
{
	const struct try *try = arg;
	int fd = open_rw(1, try->name), ret;

	ret = try->is_flock ? flock(fd, try->type | LOCK_NB)
			    : fcntl_lock(fd, F_SETLK, try->type, try->start,
					 try->size);
	say("  another's %s: %s", try->is_flock ? "flock" : "setlk",
	    result(ret));
	return 0;
}

static void try_flock(const char *name, int type)
{
	struct try try = { name, type, true, 0, 0 };

	run(try_child, &try);
}

static void try_setlk(const char *name, int type, off_t first, off_t size)
{
	struct try try = { name, type, false, first, size };

	run(try_child, &try);
}

/* RELEASE is not waited for by close(): what it ends is soon gone. */
static void until_flock_is_free(const char *name)
{
	int fd = open_rw(1, name);

	if (flock(fd, LOCK_EX) < 0 || flock(fd, LOCK_UN) < 0)
		die("flock: %s", strerror(errno));
	close(fd);
}

/* ---- one process, its ranges --------------------------------------------- */

static void ranges(void)
{
	int fd = open_rw(0, "ranges");

	say("set: %s", result(fcntl_lock(fd, F_SETLK, F_WRLCK, 10, 90)));
	look_at("ranges", F_RDLCK, 0, 10);
	look_at("ranges", F_RDLCK, 0, 11);
	look_at("ranges", F_RDLCK, 99, 1);
	look_at("ranges", F_RDLCK, 100, 0);
	say("split: %s", result(fcntl_lock(fd, F_SETLK, F_UNLCK, 40, 10)));
	look_at("ranges", F_WRLCK, 0, 0);
	look_at("ranges", F_WRLCK, 40, 10);
	look_at("ranges", F_WRLCK, 45, 0);
	say("downgrade: %s", result(fcntl_lock(fd, F_SETLK, F_RDLCK, 20, 5)));
	look_at("ranges", F_RDLCK, 20, 5);
	look_at("ranges", F_WRLCK, 20, 5);
	try_setlk("ranges", F_RDLCK, 20, 5);
	try_setlk("ranges", F_RDLCK, 20, 6);
	say("merge: %s", result(fcntl_lock(fd, F_SETLK, F_WRLCK, 20, 30)));
	look_at("ranges", F_RDLCK, 0, 0);
	say("to the end: %s", result(fcntl_lock(fd, F_SETLK, F_WRLCK, 1000, 0)));
	look_at("ranges", F_RDLCK, 100, 0);
	say("all free: %s", result(fcntl_lock(fd, F_SETLK, F_UNLCK, 0, 0)));
	look_at("ranges", F_WRLCK, 0, 0);
	close(fd);
}

static void edges(void)
{
	int fd = open_rw(0, "edges"), ro, wo;
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_END };

	if (ftruncate(fd, 100) < 0)
		die("ftruncate: %s", strerror(errno));
	say("last byte: %s", result(fcntl_lock(fd, F_SETLK, F_WRLCK, INT64_MAX,
					       1)));
	look_at("edges", F_WRLCK, 0, 0);
	look_at("edges", F_WRLCK, INT64_MAX - 1, 1);
	say("beyond: %s", result(fcntl_lock(fd, F_SETLK, F_WRLCK, INT64_MAX,
					    2)));
	say("all but the last: %s",
	    result(fcntl_lock(fd, F_SETLK, F_UNLCK, 0, INT64_MAX)));
	look_at("edges", F_WRLCK, 0, 0);
	say("negative length: %s",
	    result(fcntl_lock(fd, F_SETLK, F_WRLCK, 50, -10)));
	look_at("edges", F_WRLCK, 0, 100);
	say("before the start: %s",
	    result(fcntl_lock(fd, F_SETLK, F_WRLCK, 5, -10)));
	say("negative start: %s",
	    result(fcntl_lock(fd, F_SETLK, F_WRLCK, -1, 10)));
	lock.l_start = -20;
	lock.l_len = 10;
	say("from the end: %s", result(fcntl(fd, F_SETLK, &lock)));
	look_at("edges", F_WRLCK, 60, 40);
	lock.l_type = 77;
	say("no such type: %s", result(fcntl(fd, F_SETLK, &lock)));
	ro = open_at(0, "edges", O_RDONLY);
	wo = open_at(0, "edges", O_WRONLY);
	say("exclusive on a reader: %s",
	    result(fcntl_lock(ro, F_SETLK, F_WRLCK, 0, 1)));
	say("shared on a writer: %s",
	    result(fcntl_lock(wo, F_SETLK, F_RDLCK, 0, 1)));
	say("flock exclusive on a reader: %s", result(flock(ro, LOCK_EX)));
	say("flock of nothing: %s", result(flock(ro, 0)));
	close(ro);
	close(wo);
	close(fd);
}

/* ---- what close, dup, fork and exec do ----------------------------------- */

static void closing(void)
{
	int a = open_rw(0, "closing"), b, c;

	fcntl_lock(a, F_SETLK, F_WRLCK, 0, 1);
	b = dup(a);
	close(b);
	say("after close of a dup:");
	look_at("closing", F_RDLCK, 0, 1);
	fcntl_lock(a, F_SETLK, F_WRLCK, 0, 1);
	b = open_at(0, "closing", O_RDONLY);
	close(b);
	say("after close of another open:");
	look_at("closing", F_RDLCK, 0, 1);
	fcntl_lock(a, F_SETLK, F_WRLCK, 0, 1);
	c = open_rw(0, "closing.other");
	close(c);
	say("after close of another file:");
	look_at("closing", F_RDLCK, 0, 1);
	b = dup(a);
	flock(a, LOCK_EX);
	close(a);
	say("flock, after close of a dup:");
	try_flock("closing", LOCK_SH);
	close(b);
	until_flock_is_free("closing");
	say("flock, after the last close: free");
}

static int fork_child(void *arg)
{
	int fd = *(int *)arg;

	say("the child: %s", result(fcntl_lock(fd, F_SETLK, F_WRLCK, 0, 1)));
	say("the child, elsewhere: %s",
	    result(fcntl_lock(fd, F_SETLK, F_WRLCK, 5, 1)));
	close(fd);
	return 0;
}

static int unlock_child(void *arg)
{
	say("the child's unlock: %s", result(flock(*(int *)arg, LOCK_UN)));
	return 0;
}

static int close_child(void *arg)
{
	close(*(int *)arg);
	return 0;
}

static void forking(void)
{
	int fd = open_rw(0, "forking");

	fcntl_lock(fd, F_SETLK, F_WRLCK, 0, 1);
	run(fork_child, &fd);
	say("after the child's end:");
	look_at("forking", F_RDLCK, 0, 0);
	flock(fd, LOCK_EX);
	run(close_child, &fd);
	say("flock, after the child's close:");
	try_flock("forking", LOCK_SH);
	run(unlock_child, &fd);
	try_flock("forking", LOCK_SH);
	close(fd);
}

static int exec_child(void *arg)
{
	char number[16], *const argv[] = {
		(char *)self, (char *)dirs[0], (char *)dirs[1],
		(char *)"after-exec", number, NULL
	};
	int fd = open_rw(0, "executing");

	if (*(int *)arg)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	fcntl_lock(fd, F_SETLK, F_WRLCK, 0, 1);
	snprintf(number, sizeof(number), "%d", getpid());
	execv(self, argv);
	return 1;
}

static void executing(void)
{
	int with_cloexec = 0;

	say("over exec:");
	run(exec_child, &with_cloexec);
	say("over exec, with FD_CLOEXEC:");
	with_cloexec = 1;
	run(exec_child, &with_cloexec);
}

static void ofd(void)
{
	int a = open_rw(0, "ofd"), b = open_rw(1, "ofd"), c = dup(a);
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	say("set: %s", result(fcntl_lock(a, F_OFD_SETLK, F_WRLCK, 0, 10)));
	say("by another open: %s",
	    result(fcntl_lock(b, F_OFD_SETLK, F_WRLCK, 5, 1)));
	say("by a dup: %s", result(fcntl_lock(c, F_OFD_SETLK, F_WRLCK, 5, 1)));
	say("by the process: %s",
	    result(fcntl_lock(b, F_SETLK, F_WRLCK, 5, 1)));
	say("getlk: %s, type %d, pid %d", result(fcntl(b, F_OFD_GETLK, &lock)),
	    lock.l_type == F_WRLCK, lock.l_pid == 0 || lock.l_pid == -1);
	close(c);
	say("after close of a dup: %s",
	    result(fcntl_lock(b, F_OFD_SETLK, F_WRLCK, 5, 1)));
	c = open_rw(0, "ofd");
	close(c);
	say("after close of another open: %s",
	    result(fcntl_lock(b, F_OFD_SETLK, F_WRLCK, 5, 1)));
	close(a);
	say("after the last close, waiting: %s",
	    result(fcntl_lock(b, F_OFD_SETLKW, F_WRLCK, 5, 1)));
	close(b);
}

/* ---- flock --------------------------------------------------------------- */

static void flocking(void)
{
	int a = open_rw(0, "flocking"), b = open_rw(1, "flocking");

	say("shared: %s", result(flock(a, LOCK_SH)));
	say("shared: %s", result(flock(b, LOCK_SH)));
	say("up: %s", result(flock(a, LOCK_EX | LOCK_NB)));
	say("up, the other: %s", result(flock(b, LOCK_EX | LOCK_NB)));
	say("again: %s", result(flock(b, LOCK_EX | LOCK_NB)));
	say("shared: %s", result(flock(a, LOCK_SH | LOCK_NB)));
	say("down: %s", result(flock(b, LOCK_SH | LOCK_NB)));
	say("shared: %s", result(flock(a, LOCK_SH | LOCK_NB)));
	say("fcntl beside: %s",
	    result(fcntl_lock(a, F_SETLK, F_WRLCK, 0, 0)));
	say("unlock: %s", result(flock(a, LOCK_UN)));
	say("unlock: %s", result(flock(a, LOCK_UN)));
	say("up: %s", result(flock(b, LOCK_EX | LOCK_NB)));
	try_flock("flocking", LOCK_SH);
	close(a);
	close(b);
}

/* ---- waiting ------------------------------------------------------------- */

static int setlkw_child(void *arg)
{
	const struct try *try = arg;
	int fd = open_rw(1, try->name);
	int ret = try->is_flock ? flock(fd, try->type)
				: fcntl_lock(fd, F_SETLKW, try->type,
					     try->start, try->size);

	say("  the waiting one: %s", result(ret));
	return 0;
}

static void on_signal(int number)
{
	(void)number;
}

static int signal_child(void *arg)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGUSR1, &action, NULL);
	action.sa_flags = SA_RESTART;
	sigaction(SIGUSR2, &action, NULL);
	return setlkw_child(arg);
}

static void interrupt_one(struct try *try)
{
	pid_t pid = start(signal_child, try);

	wait_until_blocked(pid);
	kill(pid, SIGUSR1);
	say("signal: %d", end_of(pid));
}

static void restart_one(struct try *try, int fd)
{
	pid_t pid = start(signal_child, try);

	wait_until_blocked(pid);
	for (int i = 0; i < 3; i++) {
		kill(pid, SIGUSR2);
		poll(NULL, 0, 10);
		wait_until_blocked(pid);
	}
	if (try->is_flock)
		flock(fd, LOCK_UN);
	else
		fcntl_lock(fd, F_SETLK, F_UNLCK, 0, 0);
	say("restarted: %d", end_of(pid));
}

static void kill_one(struct try *try)
{
	pid_t pid = start(signal_child, try);

	wait_until_blocked(pid);
	kill(pid, SIGKILL);
	say("killed: %d", end_of(pid));
}

static void signals(void)
{
	struct try try = { "signals", F_WRLCK, false, 0, 1 };
	int fd = open_rw(0, "signals");

	for (int kind = 0; kind < 2; kind++) {
		try.is_flock = kind == 1;
		try.type = kind ? LOCK_EX : F_WRLCK;
		if (kind)
			flock(fd, LOCK_EX);
		else
			fcntl_lock(fd, F_SETLK, F_WRLCK, 0, 1);
		interrupt_one(&try);
		kill_one(&try);
		restart_one(&try, fd);
		/* Nothing is left of those who waited. */
		if (kind) {
			until_flock_is_free("signals");
			say("flock: %s", result(flock(fd, LOCK_EX | LOCK_NB)));
		} else {
			say("setlk: %s", result(fcntl_lock(fd, F_SETLK,
							   F_WRLCK, 0, 1)));
			fcntl_lock(fd, F_SETLK, F_UNLCK, 0, 0);
		}
	}
	close(fd);
}

static void alarm_child_setup(struct sigaction *action)
{
	*action = (struct sigaction){ .sa_handler = on_signal };
	sigaction(SIGALRM, action, NULL);
}

static int alarm_child(void *arg)
{
	struct sigaction action;

	alarm_child_setup(&action);
	alarm(1);
	return setlkw_child(arg);
}

static void alarms(void)
{
	struct try try = { "alarms", LOCK_EX, true, 0, 0 };
	int fd = open_rw(0, "alarms");

	flock(fd, LOCK_EX);
	run(alarm_child, &try);
	try.is_flock = false;
	try.type = F_WRLCK;
	fcntl_lock(fd, F_SETLK, F_WRLCK, 0, 1);
	run(alarm_child, &try);
	close(fd);
}

/* The holder dies, in each of the ways there are. */
struct death {
	int ready[2];
	const char *name;
	bool is_flock;
};

static int doomed_child(void *arg)
{
	const struct death *death = arg;
	int fd = open_rw(0, death->name);

	if (death->is_flock)
		flock(fd, LOCK_EX);
	else
		fcntl_lock(fd, F_SETLK, F_WRLCK, 0, 0);
	if (write(death->ready[1], "x", 1) != 1)
		return 1;
	for (;;)
		pause();
}

static void deaths(void)
{
	for (int kind = 0; kind < 2; kind++) {
		struct death death = { .name = "deaths", .is_flock = kind };
		struct try try = { "deaths", kind ? LOCK_SH : F_RDLCK, kind,
				   5, 1 };
		pid_t holder, waiter;
		char byte;
		int ended;

		if (pipe(death.ready) < 0)
			die("pipe: %s", strerror(errno));
		holder = start(doomed_child, &death);
		if (read(death.ready[0], &byte, 1) != 1)
			die("read: %s", strerror(errno));
		waiter = start(setlkw_child, &try);
		wait_until_blocked(waiter);
		kill(holder, SIGKILL);
		ended = end_of(waiter);
		say("the waiter: %d", ended);
		say("the holder: %d", end_of(holder));
		close(death.ready[0]);
		close(death.ready[1]);
	}
}

/* ---- deadlocks ----------------------------------------------------------- */

/* count processes in a circle: each has a byte and wants the next one's. */
struct circle {
	int count, index;
	bool is_ofd;
	int gates[2], outcomes[2], ready[2];
};

static int circle_child(void *arg)
{
	const struct circle *circle = arg;
	int fd = open_rw(circle->index % 2, "circle");
	int set = circle->is_ofd ? F_OFD_SETLK : F_SETLK;
	int wait = circle->is_ofd ? F_OFD_SETLKW : F_SETLKW;
	char byte, outcome;

	fcntl_lock(fd, set, F_WRLCK, circle->index, 1);
	if (write(circle->ready[1], "x", 1) != 1 ||
	    read(circle->gates[0], &byte, 1) != 1)
		return 1;
	outcome = fcntl_lock(fd, wait, F_WRLCK,
			     (circle->index + 1) % circle->count, 1) == 0 ?
			  'o' : errno == EDEADLK ? 'd' : '?';
	if (write(circle->outcomes[1], &outcome, 1) != 1)
		return 1;
	return 0;
}

static void open_pipes(struct circle *circle)
{
	if (pipe(circle->gates) < 0 || pipe(circle->outcomes) < 0 ||
	    pipe(circle->ready) < 0)
		die("pipe: %s", strerror(errno));
}

static void close_pipes(const struct circle *circle)
{
	for (int i = 0; i < 2; i++) {
		close(circle->gates[i]);
		close(circle->outcomes[i]);
		close(circle->ready[i]);
	}
}

static void count_outcomes(const struct circle *circle, int *ok, int *deadlocks)
{
	char byte;

	*ok = *deadlocks = 0;
	for (int i = 0; i < circle->count; i++) {
		if (read(circle->outcomes[0], &byte, 1) != 1)
			die("read: %s", strerror(errno));
		*ok += byte == 'o';
		*deadlocks += byte == 'd';
	}
}

static void circle_of(int count)
{
	struct circle circle = { .count = count };
	pid_t pids[8];
	int ok, deadlocks;
	char byte;

	open_pipes(&circle);
	for (int i = 0; i < count; i++) {
		circle.index = i;
		pids[i] = start(circle_child, &circle);
		if (read(circle.ready[0], &byte, 1) != 1)
			die("read: %s", strerror(errno));
	}
	if (write(circle.gates[1], "xxxxxxxx", (size_t)count) != count)
		die("write: %s", strerror(errno));
	count_outcomes(&circle, &ok, &deadlocks);
	say("circle of %d: %d had it, %d EDEADLK", count, ok, deadlocks);
	for (int i = 0; i < count; i++)
		end_of(pids[i]);
	close_pipes(&circle);
}

/* Two opens in a circle: no process is to blame, and both wait. */
static void ofd_circle(void)
{
	struct circle circle = { .count = 2, .is_ofd = true };
	pid_t pids[2];
	char byte;
	struct pollfd poll_fd;

	open_pipes(&circle);
	for (int i = 0; i < 2; i++) {
		circle.index = i;
		pids[i] = start(circle_child, &circle);
		if (read(circle.ready[0], &byte, 1) != 1)
			die("read: %s", strerror(errno));
	}
	if (write(circle.gates[1], "xx", 2) != 2)
		die("write: %s", strerror(errno));
	for (int i = 0; i < 2; i++)
		wait_until_blocked(pids[i]);
	poll_fd = (struct pollfd){ .fd = circle.outcomes[0], .events = POLLIN };
	say("circle of open files: %s",
	    poll(&poll_fd, 1, 300) == 0 ? "waits" : "refused");
	kill(pids[0], SIGKILL);
	end_of(pids[0]);
	end_of(pids[1]);
	close_pipes(&circle);
}

static void deadlocks(void)
{
	circle_of(2);
	circle_of(3);
	circle_of(5);
	ofd_circle();
}

/* ---- many at once -------------------------------------------------------- */

struct shared {
	int inside, worst;
	int refused;
};

static int turn_child(void *arg)
{
	struct circle *me = arg;
	struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				     MAP_SHARED, me->gates[0], 0);
	int fd = open_rw(me->index % 2, "turns"), inside;

	for (int i = 0; i < ROUNDS; i++) {
		if (fcntl_lock(fd, F_SETLKW, F_WRLCK, 0, 1) < 0) {
			say("setlkw: %s", strerrorname_np(errno));
			return 1;
		}
		inside = __atomic_add_fetch(&shared->inside, 1,
					    __ATOMIC_SEQ_CST);
		if (inside > 1)
			shared->worst = inside;
		__atomic_sub_fetch(&shared->inside, 1, __ATOMIC_SEQ_CST);
		if (fcntl_lock(fd, F_SETLK, F_UNLCK, 0, 1) < 0)
			return 1;
	}
	return 0;
}

/* One byte, many processes, no deadlock. */
static void turns(void)
{
	struct circle me = { 0 };
	pid_t pids[PROCESSES];
	struct shared *shared;
	int failed = 0;

	me.gates[0] = memfd_create("turns", 0);
	if (me.gates[0] < 0 || ftruncate(me.gates[0], 4096) < 0)
		die("memfd_create: %s", strerror(errno));
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
		      me.gates[0], 0);
	for (int i = 0; i < PROCESSES; i++) {
		me.index = i;
		pids[i] = start(turn_child, &me);
	}
	for (int i = 0; i < PROCESSES; i++)
		failed += end_of(pids[i]) != 0;
	say("turns: %d failed, %d at once", failed, shared->worst);
	close(me.gates[0]);
}

/*
 * In the manner of a relay: process i has byte i locked and waits for the next
 * one, then lets its own go.  What it finds at its byte is what all have added
 * up there: data and locks must agree.
 */
static int relay_child(void *arg)
{
	const struct circle *me = arg;
	int fd = open_rw(me->index % 2, "relay"), at = 0, next;
	uint32_t value;

	fcntl_lock(fd, F_SETLKW, F_WRLCK, 0, 1);
	for (int i = 0; i < TURNS; i++) {
		next = (at + 1) % (PROCESSES + 1);
		if (fcntl_lock(fd, F_SETLKW, F_WRLCK, next, 1) < 0) {
			say("setlkw: %s", strerrorname_np(errno));
			return 1;
		}
		if (pread(fd, &value, 4, next * 4) != 4)
			return 1;
		value++;
		if (pwrite(fd, &value, 4, next * 4) != 4)
			return 1;
		if (fcntl_lock(fd, F_SETLK, F_UNLCK, at, 1) < 0)
			return 1;
		at = next;
	}
	return 0;
}

static void relay(void)
{
	int fd = open_rw(0, "relay"), failed = 0;
	struct circle me = { 0 };
	pid_t pids[PROCESSES];
	uint32_t value, sum = 0;

	if (ftruncate(fd, 4 * (PROCESSES + 1)) < 0)
		die("ftruncate: %s", strerror(errno));
	for (int i = 0; i < 4; i++) {
		me.index = i;
		pids[i] = start(relay_child, &me);
	}
	for (int i = 0; i < 4; i++)
		failed += end_of(pids[i]) != 0;
	for (int i = 0; i <= PROCESSES; i++) {
		if (pread(fd, &value, 4, 4 * i) != 4)
			die("read: %s", strerror(errno));
		sum += value;
	}
	say("relay: %d failed, sum %u", failed, sum);
	close(fd);
}

/* More wait than a mount has room for requests. */
static void crowd(void)
{
	enum { CROWD = 200 };
	struct try try = { "crowd", F_RDLCK, false, 0, 1 };
	pid_t pids[CROWD];
	int fd = open_rw(0, "crowd"), failed = 0, null = open("/dev/null",
							      O_WRONLY);
	int out = dup(1);

	fcntl_lock(fd, F_SETLK, F_WRLCK, 0, 1);
	fflush(stdout);
	dup2(null, 1);
	for (int i = 0; i < CROWD; i++)
		pids[i] = start(setlkw_child, &try);
	for (int i = 0; i < CROWD; i++)
		wait_until_blocked(pids[i]);
	dup2(out, 1);
	close(out);
	say("others work: %s", result(open_rw(1, "crowd.other")));
	fcntl_lock(fd, F_SETLK, F_UNLCK, 0, 1);
	for (int i = 0; i < CROWD; i++)
		failed += end_of(pids[i]) != 0;
	say("crowd: %d failed", failed);
	close(null);
	close(fd);
}

/* ---- all ----------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "ranges", ranges },
	{ "edges", edges },
	{ "closing", closing },
	{ "forking", forking },
	{ "executing", executing },
	{ "ofd", ofd },
	{ "flocking", flocking },
	{ "signals", signals },
	{ "alarms", alarms },
	{ "deaths", deaths },
	{ "deadlocks", deadlocks },
	{ "turns", turns },
	{ "relay", relay },
	{ "crowd", crowd },
};

int main(int argc, char **argv)
{
	const char *only = argc > 3 ? argv[3] : NULL;

	if (argc < 3)
		die("lock_rules DIR_A DIR_B [CASE]");
	self = argv[0];
	dirs[0] = argv[1];
	dirs[1] = argv[2];
	if (only && strcmp(only, "after-exec") == 0) {
		look_at("executing", F_RDLCK, 0, 1);
		return 0;
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (only && strcmp(only, cases[i].name) != 0)
			continue;
		say("%s:", cases[i].name);
		cases[i].run();
	}
	return 0;
}

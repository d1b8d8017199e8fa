/* SPDX-License-Identifier: Apache-2.0 */
/*
 * supervisor.c - the process that outlives the daemon, and starts the next one
 *
 * Operation.  The first daemon is our child by fork; it connects and mounts, and
 * sends us /dev/fuse.  Those after it are the program anew, so that nothing of
 * what made one die is inherited: the file that we were started from, or the one
 * that an upgrade has named.  Signals to us go on to the daemon.
 *
 * When it fails.  A daemon that dies before it serves for the first time ends
 * the mount.  Later ones are started again, after a pause that doubles; when
 * TRIES in a row died within SOON_MS by themselves, we say so and answer the
 * kernel ourselves, with EIO.  When we are killed, the daemon goes on (control.c).
 */
#include "supervisor.h"

#include "keep.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	SOON_MS = 1000,
	TRIES = 10,
	PAUSE_FIRST_MS = 10,		/* all of them: 5 s */
	PAUSE_MAX_MS = 2000,
};

extern char **environ;

struct supervisor {
	const struct mount_options *options;
	struct keep *keep;
	int keep_fd, signal_fd, ready_fd;
	int fuse_fd;			/* -1: not mounted yet */
	int program_fd, new_program_fd;	/* -1: no upgrade under way */
	int listener, asker;		/* of upgrades */
	int control_fd;
	pid_t daemon;
	bool is_ready;			/* the daemon, by its own word */
	bool was_ready;			/* one of them */
	bool takes_leave;		/* the daemon, of the server only */
	int held_signal;		/* until there is who takes it */
	uint64_t ready_ns;
	unsigned int tries;
	sigset_t old_mask;
};

/* ---- words ------------------------------------------------------------------- */

bool supervisor_tell(int control_fd, enum supervisor_word word, int fd)
{
	return pass_fd_send(control_fd, (char)word, fd);
}

int supervisor_hear(int control_fd, int *fd)
{
	char byte;
	ssize_t got = pass_fd_receive(control_fd, MSG_DONTWAIT, &byte, fd);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	return got > 0 ? byte : -1;
}

/* ---- daemons ----------------------------------------------------------------- */

static void be_child(struct supervisor *s)
{
	close(s->signal_fd);
	close(s->listener);
	close(s->ready_fd);
	sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
}

static void pass_on(int fd)
{
	fcntl(fd, F_SETFD, 0);
}

/* In the child: the program anew. */
static void become_successor(struct supervisor *s, int program_fd, int control)
{
	char fds[64], mountpoint[sizeof(s->options->mountpoint)];
	char name[] = "rdmafs", command[] = "successor", empty[] = "";
	char *argv[] = { name, command, fds, mountpoint, NULL };

	memcpy(mountpoint, s->options->mountpoint, sizeof(mountpoint));
	snprintf(fds, sizeof(fds), "%d,%d,%d", s->fuse_fd, s->keep_fd, control);
	pass_on(s->fuse_fd);
	pass_on(s->keep_fd);
	pass_on(control);
	be_child(s);
	execveat(program_fd, empty, argv, environ, AT_EMPTY_PATH);
	complain("can't start a successor: %s", strerror(errno));
	_exit(EXIT_FAILURE);
}

/* serve: of the first; else program_fd is run. */
static int start(struct supervisor *s, supervisor_serve *serve, int program_fd)
{
	int sockets[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return -errno;
	s->is_ready = false;
	s->daemon = fork();
	if (s->daemon < 0) {
		int err = -errno;

		close(sockets[0]);
		close(sockets[1]);
		return err;
	}
	if (s->daemon == 0) {
		close(sockets[0]);
		if (!serve)
			become_successor(s, program_fd, sockets[1]);
		be_child(s);
		close(s->keep_fd);
		close(s->program_fd);
		exit(serve(s->keep, sockets[1]));
	}
	close(sockets[1]);
	if (s->control_fd >= 0)
		close(s->control_fd);
	s->control_fd = sockets[0];
	return 0;
}

/*
 * It has served, and what ended it is no fault of its own that comes at once: it
 * did so for some time, or was killed.  (Who has too little memory is killed while
 * it touches the arena, before it serves.)
 */
static bool has_lived(const struct supervisor *s, int status)
{
	return s->is_ready &&
	       ((rf_now_ns() - s->ready_ns) / 1000000 >= SOON_MS ||
		(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
}

/* Unless the mount ends meanwhile. */
static void pause_ms(const struct supervisor *s, int ms)
{
	struct pollfd wait = { .fd = s->fuse_fd };

	poll(&wait, 1, ms);
}

static int pause_of(unsigned int tries)
{
	if (tries < 2)
		return 0;
	return (int)rf_min_u64((uint64_t)PAUSE_FIRST_MS << (tries - 2),
			       PAUSE_MAX_MS);
}

static bool is_mount_gone(const struct supervisor *s)
{
	struct pollfd look = { .fd = s->fuse_fd };

	return s->fuse_fd < 0 ||
	       (poll(&look, 1, 0) == 1 && look.revents & POLLERR);
}

/* ---- the end of one ------------------------------------------------------------ */

static void say_end(const struct supervisor *s, int status)
{
	if (WIFSIGNALED(status))
		rf_log(RF_LOG_ERROR, "the daemon of the mount on %s (process "
		       "%d) was ended by signal %d (%s): another goes on",
		       s->options->mountpoint, (int)s->daemon,
		       WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		rf_log(RF_LOG_ERROR, "the daemon of the mount on %s (process "
		       "%d) ended with status %d: another goes on",
		       s->options->mountpoint, (int)s->daemon,
		       WEXITSTATUS(status));
}

static int status_of(int status)
{
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	complain("the mount program was ended by signal %d (%s)",
		 WTERMSIG(status), strsignal(WTERMSIG(status)));
	return EXIT_FAILURE;
}

static int give_up(struct supervisor *s)
{
	int number;

	complain("%u daemons in a row died at once: all that uses %s fails with "
		 "EIO now; unmount it (rdmafs umount -l %s) and mount it again",
		 s->tries, s->options->mountpoint, s->options->mountpoint);
	number = last_resort(s->keep, s->fuse_fd, s->signal_fd);
	if (number)
		mounting_unmount(s->options->mountpoint, true);
	return EXIT_FAILURE;
}

static void end_upgrade(struct supervisor *s, const char *why_not)
{
	if (s->new_program_fd < 0)
		return;
	if (*why_not) {
		close(s->new_program_fd);
	} else {
		close(s->program_fd);
		s->program_fd = s->new_program_fd;
	}
	s->new_program_fd = -1;
	upgrade_answer(s->asker, why_not);
	s->asker = -1;
}

/*
 * Unmounted; status is that of a daemon which has seen it, or -1: there was none,
 * or none that served yet.  Then one more takes leave of the server, which would
 * else keep what we had until the lease is over.
 */
static bool mount_ended(struct supervisor *s, int status, int *out)
{
	end_upgrade(s, "the mount has ended");
	*out = status < 0 || s->takes_leave ? EXIT_SUCCESS : status;
	if (status >= 0 || s->takes_leave)
		return true;
	s->takes_leave = true;
	return start(s, NULL, s->program_fd) < 0;
}

/* True: that was all, and *out is our exit status. */
static bool daemon_ended(struct supervisor *s, int status, int *out)
{
	bool hands_over = WIFEXITED(status) &&
			  WEXITSTATUS(status) == EXIT_HANDED_OVER;
	int program_fd = s->program_fd, err;

	if (!s->was_ready) {
		if (!is_mount_gone(s))
			mounting_unmount(s->options->mountpoint, true);
		*out = status_of(status);
		return true;
	}
	if (is_mount_gone(s))
		return mount_ended(s, s->is_ready && WIFEXITED(status) &&
				      !hands_over ? WEXITSTATUS(status) : -1,
				   out);
	if (hands_over && s->new_program_fd >= 0) {
		program_fd = s->new_program_fd;
	} else {
		end_upgrade(s, "the new program did not go on with the mount, "
			    "and the one before does: the log says why");
		say_end(s, status);
		s->tries = has_lived(s, status) ? 1 : s->tries + 1;
		if (s->tries > TRIES) {
			*out = give_up(s);
			return true;
		}
		pause_ms(s, pause_of(s->tries));
	}
	err = start(s, NULL, program_fd);
	if (!err)
		return false;
	complain("can't start a process: %s", strerror(-err));
	*out = give_up(s);
	return true;
}

/* ---- what comes ------------------------------------------------------------------ */

static void became_ready(struct supervisor *s)
{
	char device[32];

	s->is_ready = true;
	s->ready_ns = rf_now_ns();
	end_upgrade(s, "");
	if (s->held_signal)
		kill(s->daemon, s->held_signal);
	s->held_signal = 0;
	if (s->was_ready)
		return;
	s->was_ready = true;
	if (mounting_device(s->options->mountpoint, device))
		s->listener = upgrade_listen(device);
	if (s->ready_fd >= 0)
		background_ready(s->ready_fd);
	s->ready_fd = -1;
}

/* False: there was nothing. */
static bool hear(struct supervisor *s)
{
	int fd, word = supervisor_hear(s->control_fd, &fd);

	if (word == SUPERVISOR_MOUNTED && s->fuse_fd < 0) {
		s->fuse_fd = fd;
		fd = -1;
	} else if (word == SUPERVISOR_READY) {
		became_ready(s);
	} else if (word == SUPERVISOR_BUSY) {
		end_upgrade(s, "it is busy: requests wait for the server, or "
			    "programs for locks; try again");
	} else if (word < 0) {
		/* It ends, and SIGCHLD tells how. */
		close(s->control_fd);
		s->control_fd = -1;
	}
	if (fd >= 0)
		close(fd);
	return word != 0;
}

static void asked(struct supervisor *s)
{
	int asker, program_fd = upgrade_accept(s->listener, &asker);

	if (program_fd < 0)
		return;
	if (!s->is_ready || s->new_program_fd >= 0 ||
	    !supervisor_tell(s->control_fd, SUPERVISOR_HAND_OVER, -1)) {
		upgrade_answer(asker, "another daemon is just starting: try "
			       "again");
		close(program_fd);
		return;
	}
	s->new_program_fd = program_fd;
	s->asker = asker;
}

static bool reap(struct supervisor *s, int *out)
{
	int status;

	if (waitpid(s->daemon, &status, WNOHANG) != s->daemon)
		return false;
	/* What it said last. */
	while (s->control_fd >= 0 && hear(s))
		;
	return daemon_ended(s, status, out);
}

/* True: that was all. */
static bool take_signal(struct supervisor *s, int *out)
{
	struct signalfd_siginfo info;

	if (read(s->signal_fd, &info, sizeof(info)) != sizeof(info))
		return false;
	if (info.ssi_signo == SIGCHLD)
		return reap(s, out);
	/* A terminal's goes to the daemon, too. */
	if (info.ssi_code == SI_KERNEL)
		return false;
	if (s->is_ready || !s->was_ready)
		kill(s->daemon, (int)info.ssi_signo);
	else
		s->held_signal = (int)info.ssi_signo;
	return false;
}

static int watch(struct supervisor *s)
{
	struct pollfd waits[3];
	int status;

	for (;;) {
		waits[0] = (struct pollfd){ s->signal_fd, POLLIN, 0 };
		waits[1] = (struct pollfd){ s->control_fd, POLLIN, 0 };
		waits[2] = (struct pollfd){ s->listener, POLLIN, 0 };
		if (poll(waits, 3, -1) < 0)
			continue;
		if (waits[1].revents)
			hear(s);
		else if (waits[2].revents)
			asked(s);
		else if (waits[0].revents && take_signal(s, &status))
			return status;
	}
}

/* ---- life -------------------------------------------------------------------------- */

static int open_all(struct supervisor *s)
{
	sigset_t set;

	background_end_signals(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, &s->old_mask);
	s->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	s->program_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (s->signal_fd < 0 || s->program_fd < 0)
		return -errno;
	return keep_create(&s->keep, &s->keep_fd);
}

int supervise(const struct mount_options *options, int ready_fd,
	      supervisor_serve *serve)
{
	struct supervisor s = {
		.options = options,
		.ready_fd = ready_fd,
		.fuse_fd = -1,
		.control_fd = -1,
		.listener = -1,
		.asker = -1,
		.new_program_fd = -1,
	};
	int err = open_all(&s);

	if (!err) {
		s.keep->options = *options;
		err = start(&s, serve, -1);
	}
	if (err) {
		complain("can't supervise the mount: %s%s", strerror(-err),
			 rf_process_hint(err));
		return EXIT_FAILURE;
	}
	prctl(PR_SET_NAME, "rdmafs-super");
	return watch(&s);
}

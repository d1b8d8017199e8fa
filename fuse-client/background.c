/* SPDX-License-Identifier: Apache-2.0 */
/*
 * background.c - fork, and the parent that waits until the mount answers
 *
 * Operation.  The child does all the work (connect, mount, serve) with the
 * terminal's stderr, so that it can say why it failed; when the kernel has its
 * INIT answer it leaves the terminal and writes one byte to the pipe.  The
 * parent then asks the mount for its statistics, and only an answer makes the
 * command succeed.  A child that ends first closes the pipe: its exit status
 * is the command's.
 *
 * Ownership.  Each side owns its end of the pipe, which is closed by
 * background_ready() and background_wait().
 *
 * When it fails.  A mount that does not answer is unmounted lazily.
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

int background_fork(int *ready_fd)
{
	int fds[2];
	pid_t child;

	/* A lock of the caller's script, say, is not to be held by a mount. */
	close_range(STDERR_FILENO + 1, ~0u, 0);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	child = fork();
	if (child < 0) {
		int err = -errno;

		close(fds[0]);
		close(fds[1]);
		return err;
	}
	*ready_fd = child == 0 ? fds[1] : fds[0];
	close(child == 0 ? fds[0] : fds[1]);
	return child;
}

/* 0, 1 and 2 must stay taken, or a socket would be written to as stderr. */
static void leave_terminal(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0) {
		rf_log(RF_LOG_WARN, "can't open /dev/null: %s; the terminal "
		       "stays open", strerror(errno));
		return;
	}
	for (int fd = 0; fd <= 2; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
}

void background_leave(void)
{
	setsid();
	if (chdir("/") < 0)
		rf_log(RF_LOG_WARN, "can't leave the working directory: %s",
		       strerror(errno));
	complain_to_syslog();
	leave_terminal();
}

void background_ready(int ready_fd)
{
	char byte = 1;

	background_leave();
	if (write(ready_fd, &byte, 1) != 1)
		rf_log(RF_LOG_WARN, "whoever asked for the mount is gone");
	close(ready_fd);
}

/* The child ended before it was ready; it has said why, unless killed. */
static int child_status(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return EXIT_FAILURE;
	if (WIFSIGNALED(status)) {
		complain("the mount program was ended by signal %d (%s)",
			 WTERMSIG(status), strsignal(WTERMSIG(status)));
		return EXIT_FAILURE;
	}
	return WEXITSTATUS(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

int background_wait(int child, int ready_fd, const char *mountpoint)
{
	struct statfs answer;
	ssize_t got;
	char byte;

	do {
		got = read(ready_fd, &byte, 1);
	} while (got < 0 && errno == EINTR);
	close(ready_fd);
	if (got != 1)
		return child_status(child);
	if (statfs(mountpoint, &answer) == 0)
		return EXIT_SUCCESS;
	complain("%s is mounted but does not answer: %s; the system log says "
		 "more", mountpoint, strerror(errno));
	mounting_unmount(mountpoint, true);
	return EXIT_FAILURE;
}

void background_end_signals(sigset_t *out)
{
	struct sigaction hangup;

	sigemptyset(out);
	sigaddset(out, SIGTERM);
	sigaddset(out, SIGINT);
	if (sigaction(SIGHUP, NULL, &hangup) == 0 &&
	    hangup.sa_handler != SIG_IGN)
		sigaddset(out, SIGHUP);
}

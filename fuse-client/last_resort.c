/* SPDX-License-Identifier: Apache-2.0 */
/*
 * last_resort.c - a mount whose daemons die at once: EIO to everybody
 *
 * Operation.  What a daemon has read and not answered comes again, or is known
 * (keep.h).  Each request gets EIO, but those that get no answer, until the
 * kernel says that the mount is gone.
 */
#include "supervisor.h"

#include "fs.h"

#include <errno.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void refuse(int fuse_fd, const struct fuse_in_header *in)
{
	/* So that whoever has files open there can close them. */
	bool is_close = in->opcode == FUSE_RELEASE ||
			in->opcode == FUSE_RELEASEDIR;
	int err;

	if (once_is_told_only(in))
		return;
	err = once_reply(fuse_fd, in->unique, is_close ? 0 : -EIO);
	if (err && err != -ENOENT)
		rf_log(RF_LOG_DEBUG, "a request could not be refused: %s",
		       strerror(-err));
}

static void refuse_what_was_read(struct keep *keep, int fuse_fd)
{
	int err = 0;

	if (keep->kernel_resends)
		err = once_ask_again(fuse_fd);
	else
		once_fail_all(keep, fuse_fd);
	if (err)
		rf_log(RF_LOG_WARN, "requests that were not answered hang: %s",
		       strerror(-err));
}

static int signal_number(int signal_fd)
{
	struct signalfd_siginfo info;

	if (read(signal_fd, &info, sizeof(info)) != sizeof(info) ||
	    info.ssi_signo == SIGCHLD || info.ssi_signo == SIGUSR1)
		return 0;
	return (int)info.ssi_signo;
}

int last_resort(struct keep *keep, int fuse_fd, int signal_fd)
{
	struct fuse_in_header *in = malloc(DATA_BUF_SIZE);
	int number = 0;

	if (!in)
		return SIGTERM;
	refuse_what_was_read(keep, fuse_fd);
	while (!number) {
		struct pollfd waits[] = {
			{ .fd = fuse_fd, .events = POLLIN },
			{ .fd = signal_fd, .events = POLLIN },
		};
		ssize_t got;

		if (poll(waits, 2, -1) < 0)
			continue;
		if (waits[1].revents)
			number = signal_number(signal_fd);
		if (!waits[0].revents)
			continue;
		got = read(fuse_fd, in, DATA_BUF_SIZE);
		if (got >= (ssize_t)sizeof(*in))
			refuse(fuse_fd, in);
		else if (got < 0 && errno == ENODEV)
			break;
	}
	free(in);
	return number;
}

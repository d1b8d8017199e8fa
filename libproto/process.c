/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.c - what a program gets from who starts it, and can't use
 *
 * Operation.  A shell's limits, signals and umask are for the programs of its
 * session.  A mount and a server outlive it and serve others: a file that others
 * write must not end them, nor the processor time that others' work has cost.
 * Limits of memory, processes and descriptors stay: where they are met the program
 * says so and goes on, or does not start.
 */
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Else /dev/fuse or a file of the store becomes what the log is written to. */
static void open_standard_files(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
}

/* Root may lift them, everybody else as far as the hard limit. */
static void lift_limit(unsigned int resource)
{
	const struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY };
	struct rlimit limit;

	if (setrlimit(resource, &none) == 0 || getrlimit(resource, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(resource, &limit);
}

void rf_process_init(void)
{
	open_standard_files();
	lift_limit(RLIMIT_FSIZE);
	lift_limit(RLIMIT_CPU);
	/* Where they can't be lifted: EFBIG, and no end before the hard one. */
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGXCPU, SIG_IGN);
	/* Broken pipes and sockets are told by their errno. */
	signal(SIGPIPE, SIG_IGN);
	/* Who has inherited that it is ignored does not hear of children that
	 * end. */
	signal(SIGCHLD, SIG_DFL);
	/* What we make we can use. */
	umask(umask(0) & 077);
}

const char *rf_process_hint(int err)
{
	return err == -EFBIG ? "; the limit of the size of files (ulimit -f) "
			       "forbids it" : "";
}

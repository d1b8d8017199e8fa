/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upgrade.c - rdmafs upgrade: a mount goes on with this program
 *
 * Operation.  The command connects to the supervisor of the mount, by a name in
 * the abstract space that holds the mount's device number, and sends its own
 * program file; the answer is a text, and empty if that now serves the mount.
 * Either end must be root or the other's user.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	WORD = 'U',
	REASON_MAX = 256,
	ANSWER_MS = 60000,	/* draining and back-off take less */
};

static socklen_t name_of(const char *device, struct sockaddr_un *out)
{
	int size;

	*out = (struct sockaddr_un){ .sun_family = AF_UNIX };
	size = snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1,
			"rdmafs-upgrade.%s", device);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)size);
}

static bool is_trusted(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
	       (peer.uid == 0 || peer.uid == geteuid());
}

/* ---- the supervisor's end ------------------------------------------------------ */

int upgrade_listen(const char *device)
{
	struct sockaddr_un name;
	socklen_t size = name_of(device, &name);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
			0);

	if (fd >= 0 && bind(fd, (const struct sockaddr *)&name, size) == 0 &&
	    listen(fd, 1) == 0)
		return fd;
	rf_log(RF_LOG_WARN, "rdmafs upgrade will not find this mount: %s",
	       strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

int upgrade_accept(int listener, int *asker)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	int program = -1;

	if (fd < 0)
		return -1;
	/* The command sends at once. */
	if (is_trusted(fd) && poll(&wait, 1, 1000) == 1 &&
	    supervisor_hear(fd, &program) == WORD && program >= 0) {
		*asker = fd;
		return program;
	}
	if (program >= 0)
		close(program);
	close(fd);
	return -1;
}

void upgrade_answer(int asker, const char *why_not)
{
	/* With its end, for nothing is no packet. */
	if (send(asker, why_not, strlen(why_not) + 1, MSG_NOSIGNAL) < 0)
		rf_log(RF_LOG_INFO, "who asked for the upgrade is gone");
	close(asker);
}

/* ---- the command's end --------------------------------------------------------- */

static int connect_to(const char *mountpoint)
{
	struct sockaddr_un name;
	char device[32];
	socklen_t size;
	int fd;

	if (!mounting_device(mountpoint, device)) {
		complain("%s: no rdmafs is mounted there", mountpoint);
		return -1;
	}
	size = name_of(device, &name);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (const struct sockaddr *)&name, size) == 0 &&
	    is_trusted(fd))
		return fd;
	complain("the mount on %s has no supervisor of yours: unmount it and "
		 "mount it again", mountpoint);
	if (fd >= 0)
		close(fd);
	return -1;
}

static int ask(int fd, char why_not[REASON_MAX])
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	int program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ssize_t got = -1;

	if (program < 0)
		return -errno;
	if (supervisor_tell(fd, (enum supervisor_word)WORD, program) &&
	    poll(&wait, 1, ANSWER_MS) == 1)
		got = recv(fd, why_not, REASON_MAX - 1, 0);
	close(program);
	if (got <= 0)
		return -ETIMEDOUT;
	why_not[got] = '\0';
	return 0;
}

int upgrade(const char *mountpoint)
{
	char why_not[REASON_MAX] = "";
	int fd = connect_to(mountpoint), err;

	if (fd < 0)
		return EXIT_FAILURE;
	err = ask(fd, why_not);
	close(fd);
	if (err)
		complain("no answer from the supervisor of %s: %s", mountpoint,
			 strerror(-err));
	else if (*why_not)
		complain("can't upgrade the mount on %s: %s", mountpoint,
			 why_not);
	return err || *why_not ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pass_fd.c - a byte over a Unix socket, and a descriptor along with it
 *
 * See unix(7), cmsg(3).
 */
#include "client.h"

#include <sys/socket.h>
#include <sys/uio.h>

/* Room for one, aligned as a header has to be. */
union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int))];
};

bool pass_fd_send(int socket, char byte, int fd)
{
	union control control = { .header.cmsg_level = SOL_SOCKET };
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
	}
	return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

ssize_t pass_fd_receive(int socket, int flags, char *byte, int *fd)
{
	union control control;
	struct iovec iov = { .iov_base = byte, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control),
	};
	const struct cmsghdr *header;
	ssize_t got = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);

	*fd = -1;
	header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (header && header->cmsg_type == SCM_RIGHTS &&
	    header->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(header), sizeof(*fd));
	return got;
}

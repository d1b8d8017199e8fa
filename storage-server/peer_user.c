/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer_user.c - whose is the other end of a loopback connection?
 *
 * Operation.  One NETLINK_SOCK_DIAG request for exactly that socket (not a dump
 * of all), in the family that its owner opened it in: an IPv4 connection may
 * have been made by an IPv6 socket, so both are tried.  Of a socket that was closed,
 * which lives on for a while, the kernel says that it is root's (sooner on old ones,
 * later on new ones): only one that is connected has an owner.
 * When it fails.  Whatever the kernel says; the caller then refuses.
 * Source: sock_diag(7).
 */
#include "access.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>
#include <unistd.h>

/* The kernel answers at once; this only bounds a kernel that does not. */
enum { ANSWER_MS = 1000 };

struct query {
	struct nlmsghdr header;
	struct inet_diag_req_v2 body;
};

/* IPv4 inside IPv6 as IPv4, anything else as it is. */
static void plain_address(const struct sockaddr *addr,
			  struct sockaddr_storage *out)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6;

	memset(out, 0, sizeof(*out));
	if (addr->sa_family == AF_INET) {
		memcpy(out, addr, sizeof(in));
		return;
	}
	memcpy(&in6, addr, sizeof(in6));
	if (!IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) {
		memcpy(out, &in6, sizeof(in6));
		return;
	}
	memcpy(&in.sin_addr, in6.sin6_addr.s6_addr + 12, 4);
	in.sin_port = in6.sin6_port;
	memcpy(out, &in, sizeof(in));
}

/* addr as the kernel knows it for a socket of family. */
static void fill_end(const struct sockaddr_storage *addr, int family,
		     __be32 words[4], __be16 *port)
{
	struct sockaddr_in6 in6;
	struct sockaddr_in in;

	if (addr->ss_family == AF_INET6) {
		memcpy(&in6, addr, sizeof(in6));
		memcpy(words, &in6.sin6_addr, 16);
		*port = in6.sin6_port;
		return;
	}
	memcpy(&in, addr, sizeof(in));
	*port = in.sin_port;
	if (family == AF_INET) {
		words[0] = in.sin_addr.s_addr;
	} else {
		words[2] = htonl(0xffff);
		words[3] = in.sin_addr.s_addr;
	}
}

static int read_answer(int fd, uid_t *out)
{
	struct {
		struct nlmsghdr header;
		struct inet_diag_msg body;
		char rest[4096];
	} answer;
	ssize_t got = recv(fd, &answer, sizeof(answer), 0);

	if (got < 0)
		return -errno;
	if ((size_t)got < sizeof(answer.header))
		return -EIO;
	if (answer.header.nlmsg_type == NLMSG_ERROR) {
		struct nlmsgerr err;

		if ((size_t)got < sizeof(answer.header) + sizeof(err))
			return -EIO;
		memcpy(&err, (char *)&answer + sizeof(answer.header),
		       sizeof(err));
		return err.error ? err.error : -EIO;
	}
	if (answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    (size_t)got < sizeof(answer.header) + sizeof(answer.body))
		return -EIO;
	if (answer.body.idiag_state != TCP_ESTABLISHED)
		return -ENOTCONN;
	*out = answer.body.idiag_uid;
	return 0;
}

static int ask(int fd, int family, const struct sockaddr_storage *local,
	       const struct sockaddr_storage *peer, uid_t *out)
{
	struct query query = {
		.header = {
			.nlmsg_len = sizeof(query),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST,
		},
		.body = {
			.sdiag_family = (uint8_t)family,
			.sdiag_protocol = IPPROTO_TCP,
			.idiag_states = ~0u,
			.id.idiag_cookie = { INET_DIAG_NOCOOKIE,
					     INET_DIAG_NOCOOKIE },
		},
	};

	/* The socket asked for is the peer's: its source is the peer. */
	fill_end(peer, family, query.body.id.idiag_src,
		 &query.body.id.idiag_sport);
	fill_end(local, family, query.body.id.idiag_dst,
		 &query.body.id.idiag_dport);
	if (send(fd, &query, sizeof(query), 0) < 0)
		return -errno;
	return read_answer(fd, out);
}

int access_peer_uid(const struct sockaddr *local, const struct sockaddr *peer,
		    uid_t *out)
{
	struct timeval limit = { .tv_sec = ANSWER_MS / 1000 };
	struct sockaddr_storage here, there;
	uid_t owner, again;
	int fd, err, family;

	plain_address(local, &here);
	plain_address(peer, &there);
	if (here.ss_family != there.ss_family)
		return -ENOENT;
	fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	family = there.ss_family;
	err = ask(fd, family, &here, &there, &owner);
	if (err == -ENOENT && family == AF_INET) {
		family = AF_INET6;
		err = ask(fd, family, &here, &there, &owner);
	}
	/* Still connected: so it was not just being closed. */
	if (!err)
		err = ask(fd, family, &here, &there, &again);
	close(fd);
	if (!err)
		*out = owner;
	return err;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_tcp.c - the TCP connections of our programs, and how they fare
 *
 * Over iwarp a connection is a TCP socket of the program: which sockets it has
 * is in /proc/PID/fd, how they fare the kernel tells (sock_diag(7), TCP_INFO).
 * Connections of devices (siw, NICs) are not among them.
 */
#include "doctor_io.h"

#include <errno.h>
#include <limits.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	MESSAGE_MAX = 65536,
	MESSAGES_MAX = 10000,
	WAIT_MS = 2000,
	SOCKETS_MAX = 16384,		/* of all our programs */
	ESTABLISHED = 1 << 1,		/* state 1 of TCP */
};

struct owned {
	unsigned long inode;
	unsigned int program;
};

struct sockets {
	struct owned owned[SOCKETS_MAX];
	unsigned int count;
};

/* ---- whose ---------------------------------------------------------------- */

static void read_fds(const char *root, int pid, unsigned int program,
		     struct sockets *sockets)
{
	char path[PATH_MAX], target[64];
	const struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/proc/%d/fd", root, pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)) && sockets->count < SOCKETS_MAX) {
		struct owned *owned = &sockets->owned[sockets->count];
		ssize_t got = readlinkat(dirfd(dir), entry->d_name, target,
					 sizeof(target) - 1);

		if (got < 0)
			continue;
		target[got] = '\0';
		if (sscanf(target, "socket:[%lu]", &owned->inode) != 1)
			continue;
		owned->program = program;
		sockets->count++;
	}
	if (dir)
		closedir(dir);
}

static struct doctor_program *owner(struct doctor_facts *facts,
				    const struct sockets *sockets,
				    unsigned long inode)
{
	for (unsigned int i = 0; i < sockets->count; i++)
		if (sockets->owned[i].inode == inode)
			return &facts->programs[sockets->owned[i].program];
	return NULL;
}

/* ---- how they fare -------------------------------------------------------- */

static void add_info(struct doctor_program *program,
		     const struct tcp_info *info)
{
	program->connections++;
	program->tcp_retransmitted += info->tcpi_total_retrans;
	program->tcp_rtt_us_most = (uint32_t)rf_max_u64(
		program->tcp_rtt_us_most, info->tcpi_rtt);
	program->tcp_retries_most = (uint32_t)rf_max_u64(
		program->tcp_retries_most, info->tcpi_retransmits);
}

static void take_socket(const uint8_t *at, size_t size,
			struct doctor_facts *facts,
			const struct sockets *sockets)
{
	struct inet_diag_msg message;
	struct doctor_program *program;
	struct nlattr attr;
	struct tcp_info info;

	if (size < sizeof(message))
		return;
	memcpy(&message, at, sizeof(message));
	program = owner(facts, sockets, message.idiag_inode);
	if (!program)
		return;
	at += sizeof(message);
	size -= sizeof(message);
	while (size >= sizeof(attr)) {
		memcpy(&attr, at, sizeof(attr));
		if (attr.nla_len < sizeof(attr) || attr.nla_len > size)
			return;
		if (attr.nla_type == INET_DIAG_INFO) {
			memset(&info, 0, sizeof(info));
			memcpy(&info, at + sizeof(attr),
			       rf_min_u64(attr.nla_len - sizeof(attr),
					  sizeof(info)));
			add_info(program, &info);
		}
		at += NLA_ALIGN(attr.nla_len);
		size -= rf_min_u64(NLA_ALIGN(attr.nla_len), size);
	}
}

/* True: there may be more. */
static bool take_datagram(const uint8_t *at, size_t size,
			  struct doctor_facts *facts,
			  const struct sockets *sockets)
{
	while (size >= sizeof(struct nlmsghdr)) {
		struct nlmsghdr header;

		memcpy(&header, at, sizeof(header));
		if (header.nlmsg_len < sizeof(header) ||
		    header.nlmsg_len > size ||
		    header.nlmsg_type == NLMSG_DONE ||
		    header.nlmsg_type == NLMSG_ERROR)
			return false;
		take_socket(at + sizeof(header),
			    header.nlmsg_len - sizeof(header), facts, sockets);
		size -= rf_min_u64(NLMSG_ALIGN(header.nlmsg_len), size);
		at += NLMSG_ALIGN(header.nlmsg_len);
	}
	return true;
}

static void dump(int fd, int family, struct doctor_facts *facts,
		 const struct sockets *sockets)
{
	static uint8_t answer[MESSAGE_MAX];
	struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 request;
	} request = {
		.header = { .nlmsg_len = sizeof(request),
			    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.request = { .sdiag_family = (uint8_t)family,
			     .sdiag_protocol = IPPROTO_TCP,
			     .idiag_ext = 1 << (INET_DIAG_INFO - 1),
			     .idiag_states = ESTABLISHED },
	};

	if (send(fd, &request, sizeof(request), 0) < 0)
		return;
	for (unsigned int i = 0; i < MESSAGES_MAX; i++) {
		ssize_t got = recv(fd, answer, sizeof(answer), 0);

		if (got <= 0 ||
		    !take_datagram(answer, (size_t)got, facts, sockets))
			return;
	}
}

void doctor_read_connections(const char *root, struct doctor_facts *facts)
{
	static struct sockets sockets;
	int fd;

	sockets.count = 0;
	for (unsigned int i = 0; i < facts->program_count; i++)
		read_fds(root, facts->programs[i].pid, i, &sockets);
	if (sockets.count == 0)
		return;
	fd = doctor_netlink_open(NETLINK_SOCK_DIAG, WAIT_MS);
	if (fd < 0)
		return;
	dump(fd, AF_INET, facts, &sockets);
	dump(fd, AF_INET6, facts, &sockets);
	close(fd);
}

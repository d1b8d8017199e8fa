/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_ping.c - do packets of full size arrive?
 *
 * RoCE has no way to find the MTU of the path: where a switch or the other host
 * has a smaller one, small messages pass and large ones vanish.  So an ICMP echo
 * as large as our netdev allows, not to be fragmented, is sent; if only a small
 * one is answered, the largest of the usual sizes that passes is looked for.
 */
#include "doctor_io.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	HEADER = 8,		/* of ICMP */
	IP4_HEADER = 20, IP6_HEADER = 40,
	TRIES = 3, TRY_MS = 500,
	PACKET_MAX = 65535,
};

struct pinger {
	int fd;
	bool is_raw;		/* answers come with their IP header */
	int family;
	uint16_t sequence;
	uint8_t packet[PACKET_MAX];
};

/* RFC 1071. */
static uint16_t checksum(const uint8_t *at, size_t size)
{
	uint32_t sum = 0;

	for (; size > 1; at += 2, size -= 2)
		sum += (uint32_t)at[0] << 8 | at[1];
	if (size)
		sum += (uint32_t)at[0] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static int open_socket(struct pinger *pinger)
{
	const int protocol = pinger->family == AF_INET ? IPPROTO_ICMP :
							 IPPROTO_ICMPV6;
	const int probe4 = IP_PMTUDISC_PROBE, probe6 = IPV6_PMTUDISC_PROBE;

	pinger->is_raw = false;
	pinger->fd = socket(pinger->family, SOCK_DGRAM | SOCK_CLOEXEC,
			    protocol);
	if (pinger->fd < 0) {
		pinger->fd = socket(pinger->family, SOCK_RAW | SOCK_CLOEXEC,
				    protocol);
		pinger->is_raw = true;
	}
	if (pinger->fd < 0)
		return -errno;
	if (pinger->family == AF_INET)
		setsockopt(pinger->fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe4,
			   sizeof(probe4));
	else
		setsockopt(pinger->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER,
			   &probe6, sizeof(probe6));
	return 0;
}

static void fill(struct pinger *pinger, size_t size)
{
	const uint16_t id = htons((uint16_t)getpid());
	const uint16_t sequence = htons(++pinger->sequence);
	uint16_t sum;

	memset(pinger->packet, 0x5a, size);
	memset(pinger->packet, 0, HEADER);
	pinger->packet[0] = pinger->family == AF_INET ? ICMP_ECHO :
							ICMP6_ECHO_REQUEST;
	memcpy(pinger->packet + 4, &id, 2);
	memcpy(pinger->packet + 6, &sequence, 2);
	if (pinger->family == AF_INET) {
		sum = htons(checksum(pinger->packet, size));
		memcpy(pinger->packet + 2, &sum, 2);
	}
}

/* Is what came the answer to the last one, and whole? */
static bool is_answer(const struct pinger *pinger, const uint8_t *at,
		      size_t got, size_t size)
{
	const uint16_t sequence = htons(pinger->sequence);
	const uint16_t id = htons((uint16_t)getpid());

	if (pinger->is_raw && pinger->family == AF_INET) {
		size_t header = got > 0 ? (size_t)(at[0] & 15) * 4 : 0;

		if (got < header)
			return false;
		at += header;
		got -= header;
	}
	return got == size &&
	       at[0] == (pinger->family == AF_INET ? ICMP_ECHOREPLY :
						     ICMP6_ECHO_REPLY) &&
	       memcmp(at + 6, &sequence, 2) == 0 &&
	       (!pinger->is_raw || memcmp(at + 4, &id, 2) == 0);
}

static bool await_answer(struct pinger *pinger, size_t size)
{
	static uint8_t answer[PACKET_MAX];
	const uint64_t end_ns = rf_now_ns() + TRY_MS * UINT64_C(1000000);
	uint64_t now_ns;

	while ((now_ns = rf_now_ns()) < end_ns) {
		struct pollfd waits = { .fd = pinger->fd, .events = POLLIN };
		ssize_t got;

		if (poll(&waits, 1, (int)((end_ns - now_ns) / 1000000) + 1) <= 0)
			return false;
		got = recv(pinger->fd, answer, sizeof(answer), MSG_DONTWAIT);
		if (got >= 0 && is_answer(pinger, answer, (size_t)got, size))
			return true;
		if (got < 0 && errno != EAGAIN && errno != EINTR)
			return false;	/* a router said why not */
	}
	return false;
}

/* An IP packet of this size; true if its echo came back. */
static bool passes(struct pinger *pinger, const struct doctor_path *path,
		   uint32_t ip_size)
{
	struct sockaddr_storage address = path->address;
	const size_t size = ip_size - (pinger->family == AF_INET ? IP4_HEADER :
								   IP6_HEADER);

	if (pinger->family == AF_INET)
		((struct sockaddr_in *)&address)->sin_port = 0;
	else
		((struct sockaddr_in6 *)&address)->sin6_port = 0;
	for (int try = 0; try < TRIES; try++) {
		fill(pinger, size);
		if (sendto(pinger->fd, pinger->packet, size, 0,
			   (const struct sockaddr *)&address,
			   path->address_size) < 0)
			return false;
		if (await_answer(pinger, size))
			return true;
	}
	return false;
}

void doctor_ping(struct doctor_path *path, uint32_t mtu)
{
	static const uint32_t usual[] = { 9000, 4200, 2044, 1500, 1400, 1280,
					  576 };
	static struct pinger pinger;
	const uint32_t least = 128;

	pinger.family = path->address.ss_family;
	path->ping_size = mtu < PACKET_MAX ? mtu : PACKET_MAX;
	if (mtu < least || open_socket(&pinger) < 0)
		return;
	if (passes(&pinger, path, path->ping_size)) {
		path->ping = DOCTOR_PING_FULL;
		path->path_mtu = path->ping_size;
	} else if (!passes(&pinger, path, least)) {
		path->ping = DOCTOR_PING_SILENT;
	} else {
		path->ping = DOCTOR_PING_SMALL_ONLY;
		path->path_mtu = least;
		for (size_t i = 0; i < RF_ARRAY_SIZE(usual); i++)
			if (usual[i] < path->ping_size &&
			    passes(&pinger, path, usual[i])) {
				path->path_mtu = usual[i];
				break;
			}
	}
	close(pinger.fd);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * access.h - from where, and by whom, the server lets itself be used
 *
 * Pure logic but for access_peer_uid(), which asks the kernel.
 *
 * Threads.  [owner] of the server.
 */
#ifndef ACCESS_H
#define ACCESS_H

#include "libproto/base.h"

#include <sys/socket.h>
#include <sys/types.h>

/* A network: an address and how many of its leading bits count. */
struct net {
	uint8_t bytes[16];	/* IPv4 as ::ffff:a.b.c.d */
	uint8_t prefix;		/* of 128 */
};

/* "10.0.0.0/8", "fe80::/10", or a plain address.  -EINVAL: no such thing, or
 * bits are set that the prefix leaves out. */
int net_parse(const char *text, struct net *out);
bool net_contains(const struct net *net, const struct sockaddr *addr);

bool access_is_loopback(const struct sockaddr *addr);

/* Of struct sockaddr_in or sockaddr_in6. */
socklen_t access_addr_size(const struct sockaddr *addr);
/* The same address and port. */
bool access_is_same(const struct sockaddr *a, const struct sockaddr *b);

/* "192.0.2.1:4711", "[::1]:4711"; for logs.  Returns text. */
enum { ACCESS_TEXT_SIZE = 64 };
const char *access_text(const struct sockaddr *addr,
			char text[ACCESS_TEXT_SIZE]);

/*
 * The user who owns the other end of a loopback connection, by an exact lookup
 * in the kernel's table of sockets.  Microseconds.
 *
 * -ENOENT: no such socket in this network namespace.  -ENOTCONN: it was closed, and
 * has no owner any more.
 */
int access_peer_uid(const struct sockaddr *local, const struct sockaddr *peer,
		    uid_t *out);

/* ---- wrong keys --------------------------------------------------------- */

/*
 * Who gave a wrong key lately.  Each one more from the same address (IPv6: the
 * same /64) doubles how long the next refusal is held back, up to a limit; an
 * hour of quiet forgets.  A fixed table: the oldest makes room.
 */
enum {
	PENALTIES_MAX = 128,
	PENALTY_FIRST_MS = 100,
	PENALTY_MOST_MS = 4000,
	PENALTY_FORGET_MS = 3600 * 1000,
};

struct penalties {
	struct penalty {
		uint8_t who[16];
		uint32_t count;		/* 0: unused */
		uint64_t last_ns;
	} v[PENALTIES_MAX];
};

/* Note one more wrong key; how long to hold its refusal back. */
uint32_t penalties_add(struct penalties *penalties,
		       const struct sockaddr *addr, uint64_t now_ns);

#endif /* ACCESS_H */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * access.c - networks, loopback, and how often an address was wrong
 *
 * Operation.  All addresses are compared as 128 bits, IPv4 mapped into IPv6, so
 * that a listener on [::] needs no second rule.
 */
#include "access.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

static bool address_bytes(const struct sockaddr *addr, uint8_t out[16])
{
	if (addr->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, addr, sizeof(in));
		memcpy(out, mapped, sizeof(mapped));
		memcpy(out + 12, &in.sin_addr, 4);
		return true;
	}
	if (addr->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;

		memcpy(&in6, addr, sizeof(in6));
		memcpy(out, &in6.sin6_addr, 16);
		return true;
	}
	return false;
}

static bool prefix_is_equal(const uint8_t *a, const uint8_t *b,
			    unsigned int bits)
{
	unsigned int whole = bits / 8, rest = bits % 8;

	if (memcmp(a, b, whole) != 0)
		return false;
	return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

static bool tail_is_zero(const uint8_t *bytes, unsigned int bits)
{
	static const uint8_t zero[16];
	unsigned int whole = bits / 8, rest = bits % 8;

	if (rest != 0 && (bytes[whole++] & (0xff >> rest)) != 0)
		return false;
	return memcmp(bytes + whole, zero, 16 - whole) == 0;
}

int net_parse(const char *text, struct net *out)
{
	const char *slash = strchr(text, '/');
	size_t size = slash ? (size_t)(slash - text) : strlen(text);
	char address[INET6_ADDRSTRLEN];
	unsigned long bits, most = 128;
	char *end;

	if (size >= sizeof(address))
		return -EINVAL;
	memcpy(address, text, size);
	address[size] = '\0';
	if (inet_pton(AF_INET, address, out->bytes + 12) == 1) {
		memcpy(out->bytes, mapped, sizeof(mapped));
		most = 32;
	} else if (inet_pton(AF_INET6, address, out->bytes) != 1) {
		return -EINVAL;
	}
	bits = most;
	if (slash) {
		if (slash[1] < '0' || slash[1] > '9')
			return -EINVAL;
		bits = strtoul(slash + 1, &end, 10);
		if (*end != '\0' || bits > most)
			return -EINVAL;
	}
	out->prefix = (uint8_t)(128 - most + bits);
	return tail_is_zero(out->bytes, out->prefix) ? 0 : -EINVAL;
}

bool net_contains(const struct net *net, const struct sockaddr *addr)
{
	uint8_t bytes[16];

	return address_bytes(addr, bytes) &&
	       prefix_is_equal(net->bytes, bytes, net->prefix);
}

bool access_is_loopback(const struct sockaddr *addr)
{
	uint8_t bytes[16];

	if (!address_bytes(addr, bytes))
		return false;
	if (memcmp(bytes, mapped, sizeof(mapped)) == 0)
		return bytes[12] == 127;
	return memcmp(bytes, &in6addr_loopback, 16) == 0;
}

socklen_t access_addr_size(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in);
}

/* At the same place in both families; in network order. */
static uint16_t port_bytes(const struct sockaddr *addr)
{
	uint16_t port;

	memcpy(&port, (const uint8_t *)addr +
	       offsetof(struct sockaddr_in, sin_port), sizeof(port));
	return port;
}

bool access_is_same(const struct sockaddr *a, const struct sockaddr *b)
{
	uint8_t a_bytes[16], b_bytes[16];

	return address_bytes(a, a_bytes) && address_bytes(b, b_bytes) &&
	       memcmp(a_bytes, b_bytes, sizeof(a_bytes)) == 0 &&
	       port_bytes(a) == port_bytes(b);
}

const char *access_text(const struct sockaddr *addr,
			char text[ACCESS_TEXT_SIZE])
{
	char ip[INET6_ADDRSTRLEN] = "?";
	uint8_t bytes[16];
	uint16_t port;

	if (!address_bytes(addr, bytes)) {
		snprintf(text, ACCESS_TEXT_SIZE, "unknown address");
		return text;
	}
	port = port_bytes(addr);
	if (memcmp(bytes, mapped, sizeof(mapped)) == 0) {
		inet_ntop(AF_INET, bytes + 12, ip, sizeof(ip));
		snprintf(text, ACCESS_TEXT_SIZE, "%s:%u", ip, ntohs(port));
	} else {
		inet_ntop(AF_INET6, bytes, ip, sizeof(ip));
		snprintf(text, ACCESS_TEXT_SIZE, "[%s]:%u", ip, ntohs(port));
	}
	return text;
}

/* ---- wrong keys --------------------------------------------------------- */

static void who_of(const struct sockaddr *addr, uint8_t who[16])
{
	memset(who, 0, 16);
	if (!address_bytes(addr, who))
		return;
	if (memcmp(who, mapped, sizeof(mapped)) != 0)
		memset(who + 8, 0, 8);
}

static bool penalty_is_over(const struct penalty *penalty, uint64_t now_ns)
{
	return penalty->count == 0 ||
	       now_ns - penalty->last_ns >
		       (uint64_t)PENALTY_FORGET_MS * 1000000;
}

static struct penalty *penalty_of(struct penalties *penalties,
				  const uint8_t who[16], uint64_t now_ns)
{
	struct penalty *oldest = &penalties->v[0];

	for (unsigned int i = 0; i < PENALTIES_MAX; i++) {
		struct penalty *penalty = &penalties->v[i];

		if (penalty_is_over(penalty, now_ns))
			penalty->count = 0;
		if (penalty->count && memcmp(penalty->who, who, 16) == 0)
			return penalty;
		if (!penalty->count)
			oldest = penalty;
		else if (oldest->count && penalty->last_ns < oldest->last_ns)
			oldest = penalty;
	}
	*oldest = (struct penalty){ .count = 0 };
	memcpy(oldest->who, who, 16);
	return oldest;
}

uint32_t penalties_add(struct penalties *penalties,
		       const struct sockaddr *addr, uint64_t now_ns)
{
	struct penalty *penalty;
	uint8_t who[16];
	uint32_t doublings;

	who_of(addr, who);
	penalty = penalty_of(penalties, who, now_ns);
	doublings = penalty->count < 16 ? penalty->count : 16;
	if (penalty->count < UINT32_MAX)
		penalty->count++;
	penalty->last_ns = now_ns;
	return (uint32_t)rf_min_u64((uint64_t)PENALTY_FIRST_MS << doublings,
				    PENALTY_MOST_MS);
}

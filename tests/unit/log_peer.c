/* SPDX-License-Identifier: Apache-2.0 */
/* What is logged of peers is bounded, for each and for all, and nobody is forgotten. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libproto/log_peer.h"
#include "tests/common/jumping_clock.h"

enum { ROOM = 1 << 20, MANY = 10 * RF_LOG_PEERS_LINES };

static char text[ROOM];
static struct rf_log_capture capture = { text, ROOM, 0 };

static void say(uint32_t host)
{
	const struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_addr = { htonl(host) },
		.sin_port = htons((uint16_t)rand()),
	};

	rf_log_peer(RF_LOG_WARN, (const struct sockaddr *)&in, "host %08x", host);
}

/* Of the same /64. */
static void say6(uint16_t host)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };

	in6.sin6_addr.s6_addr[0] = 0xfd;
	memcpy(in6.sin6_addr.s6_addr + 14, &host, sizeof(host));
	rf_log_peer(RF_LOG_WARN, (const struct sockaddr *)&in6, "six");
}

static unsigned int lines_with(const char *what)
{
	unsigned int count = 0;

	for (const char *at = text; (at = strstr(at, what)); at++)
		count++;
	return count;
}

static void begin(void)
{
	capture.size = 0;
	rf_log_capture(&capture);
}

Test(log_peer, what_one_says_is_bounded_and_counted)
{
	begin();
	for (unsigned int i = 0; i < MANY; i++)
		say(1);
	cr_assert_eq(lines_with("host 00000001"), RF_LOG_PEER_LINES);
	cr_assert_eq(lines_with("only counted"), 1);
	say(2);
	cr_assert_eq(lines_with("host 00000002"), 1, "another's first line");
	boot_jump_s = RF_LOG_PEER_MS / 1000 + 1;
	say(1);
	cr_assert_eq(lines_with("host 00000001"), RF_LOG_PEER_LINES + 1);
	snprintf(text + ROOM / 2, 100, "%u more", MANY - RF_LOG_PEER_LINES);
	cr_assert_eq(lines_with(text + ROOM / 2), 1);
	say(1);
	cr_assert_eq(lines_with("more like it"), 1, "once");
	rf_log_capture(NULL);
}

Test(log_peer, a_network_of_ipv6_is_one)
{
	begin();
	for (uint16_t i = 0; i < MANY; i++)
		say6(i);
	cr_assert_eq(lines_with("six"), RF_LOG_PEER_LINES);
	rf_log_capture(NULL);
}

/* However many addresses somebody has. */
Test(log_peer, what_all_say_is_bounded_and_counted)
{
	begin();
	for (unsigned int i = 0; i < MANY; i++)
		say(1000 + i);
	cr_assert_eq(lines_with("host"), RF_LOG_PEERS_LINES);
	cr_assert_eq(lines_with("only counted"), 1);
	boot_jump_s = RF_LOG_PEER_MS / 1000 + 1;
	say(1);
	cr_assert_eq(lines_with("host 00000001"), 1);
	snprintf(text + ROOM / 2, 100, "%u more", MANY - RF_LOG_PEERS_LINES);
	cr_assert_eq(lines_with(text + ROOM / 2), 1);
	rf_log_capture(NULL);
}

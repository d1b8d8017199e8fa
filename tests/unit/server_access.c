/* SPDX-License-Identifier: Apache-2.0 */
/* From where and by whom: networks, loopback, owners of sockets, penalties. */
#include "storage-server/access.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_storage addr_of(const char *text)
{
	struct sockaddr_storage out = { .ss_family = AF_UNSPEC };
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };

	if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
		memcpy(&out, &in, sizeof(in));
	else if (inet_pton(AF_INET6, text, &in6.sin6_addr) == 1)
		memcpy(&out, &in6, sizeof(in6));
	else
		cr_assert_fail("%s", text);
	return out;
}

static bool contains(const char *net_text, const char *addr_text)
{
	struct sockaddr_storage addr = addr_of(addr_text);
	struct net net;

	cr_assert_eq(net_parse(net_text, &net), 0, "%s", net_text);
	return net_contains(&net, (struct sockaddr *)&addr);
}

Test(server_access, a_network_contains_its_addresses_only)
{
	cr_assert(contains("10.0.0.0/8", "10.255.0.1"));
	cr_assert_not(contains("10.0.0.0/8", "11.0.0.1"));
	cr_assert(contains("192.168.4.0/22", "192.168.7.255"));
	cr_assert_not(contains("192.168.4.0/22", "192.168.8.0"));
	cr_assert(contains("0.0.0.0/0", "1.2.3.4"));
	cr_assert_not(contains("0.0.0.0/0", "2001:db8::1"));
	cr_assert(contains("192.0.2.7", "192.0.2.7"));
	cr_assert_not(contains("192.0.2.7", "192.0.2.6"));
	cr_assert(contains("2001:db8::/33", "2001:db8:7fff::1"));
	cr_assert_not(contains("2001:db8::/33", "2001:db8:8000::1"));
	cr_assert(contains("::/0", "::1"));
}

Test(server_access, a_mapped_address_is_the_ipv4_address)
{
	cr_assert(contains("10.0.0.0/8", "::ffff:10.1.2.3"));
	cr_assert_not(contains("10.0.0.0/8", "::ffff:9.1.2.3"));
}

Test(server_access, what_is_no_network_is_refused)
{
	static const char *const bad[] = {
		"", "/", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1",
		"10.0.0.0/8x", "10.0.0.1/8", "2001:db8::1/64", "host",
		"::/129", "10.0.0/8", "1.2.3.4/ 8",
	};
	struct net net;

	for (unsigned int i = 0; i < RF_ARRAY_SIZE(bad); i++)
		cr_assert_eq(net_parse(bad[i], &net), -EINVAL, "%s", bad[i]);
}

Test(server_access, loopback_is_127_and_1_and_mapped)
{
	static const char *const yes[] = { "127.0.0.1", "127.9.9.9", "::1",
					   "::ffff:127.0.0.1" };
	static const char *const no[] = { "126.0.0.1", "::2", "10.0.0.1",
					  "::ffff:10.0.0.1", "fe80::1" };

	for (unsigned int i = 0; i < RF_ARRAY_SIZE(yes); i++) {
		struct sockaddr_storage addr = addr_of(yes[i]);

		cr_assert(access_is_loopback((struct sockaddr *)&addr));
	}
	for (unsigned int i = 0; i < RF_ARRAY_SIZE(no); i++) {
		struct sockaddr_storage addr = addr_of(no[i]);

		cr_assert_not(access_is_loopback((struct sockaddr *)&addr));
	}
}

/* ---- whose connection --------------------------------------------------- */

struct pair {
	int listener, client, server;
	struct sockaddr_storage local, peer;
};

static void open_pair(struct pair *pair, int listen_family,
		      const char *listen_text, const char *connect_text)
{
	struct sockaddr_storage addr = addr_of(listen_text);
	socklen_t size = sizeof(addr);
	uint16_t port;

	pair->listener = socket(listen_family, SOCK_STREAM, 0);
	cr_assert_eq(bind(pair->listener, (struct sockaddr *)&addr, size), 0);
	cr_assert_eq(listen(pair->listener, 1), 0);
	cr_assert_eq(getsockname(pair->listener, (struct sockaddr *)&addr,
				 &size), 0);
	port = ((struct sockaddr_in *)&addr)->sin_port;
	addr = addr_of(connect_text);
	((struct sockaddr_in *)&addr)->sin_port = port;
	pair->client = socket(addr.ss_family, SOCK_STREAM, 0);
	cr_assert_eq(connect(pair->client, (struct sockaddr *)&addr,
			     sizeof(addr)), 0);
	pair->server = accept(pair->listener, NULL, NULL);
	cr_assert(pair->server >= 0);
	size = sizeof(pair->local);
	getsockname(pair->server, (struct sockaddr *)&pair->local, &size);
	size = sizeof(pair->peer);
	getpeername(pair->server, (struct sockaddr *)&pair->peer, &size);
}

static void close_pair(struct pair *pair)
{
	close(pair->client);
	close(pair->server);
	close(pair->listener);
}

static int uid_of(const struct pair *pair, uid_t *uid)
{
	return access_peer_uid((const struct sockaddr *)&pair->local,
			       (const struct sockaddr *)&pair->peer, uid);
}

static void expect_own(int family, const char *listen_text,
		       const char *connect_text)
{
	struct pair pair;
	uid_t uid = 12345;

	open_pair(&pair, family, listen_text, connect_text);
	cr_assert_eq(uid_of(&pair, &uid), 0);
	cr_assert_eq(uid, geteuid());
	close_pair(&pair);
}

Test(server_access, the_owner_of_a_connection_is_found)
{
	expect_own(AF_INET, "127.0.0.1", "127.0.0.1");
}

Test(server_access, the_owner_is_found_through_a_dual_stack_listener)
{
	expect_own(AF_INET6, "::", "127.0.0.1");
}

Test(server_access, the_owner_of_a_mapped_socket_is_found)
{
	expect_own(AF_INET6, "::", "::ffff:127.0.0.1");
}

Test(server_access, the_owner_of_an_ipv6_connection_is_found)
{
	expect_own(AF_INET6, "::1", "::1");
}

Test(server_access, another_users_connection_is_told_apart)
{
	struct pair pair;
	uid_t uid = 0;

	if (geteuid() != 0)
		cr_skip_test("SKIPPED: only root can make another user's "
			     "socket");
	open_pair(&pair, AF_INET, "127.0.0.1", "127.0.0.1");
	/* The owner of the socket's inode is what the kernel tells. */
	cr_assert_eq(fchown(pair.client, 4242, 4242), 0);
	cr_assert_eq(uid_of(&pair, &uid), 0);
	cr_assert_eq(uid, 4242);
	close_pair(&pair);
}

Test(server_access, a_socket_that_is_not_there_is_not_found)
{
	struct pair pair;
	uid_t uid;

	open_pair(&pair, AF_INET, "127.0.0.1", "127.0.0.1");
	((struct sockaddr_in *)&pair.peer)->sin_port ^= 0x0101;
	cr_assert_eq(uid_of(&pair, &uid), -ENOENT);
	close_pair(&pair);
}

/* Of a socket that was closed the kernel says, soon, that it is root's. */
Test(server_access, the_owner_of_a_closed_connection_is_nobody)
{
	struct pair pair;
	uid_t uid = 12345;

	open_pair(&pair, AF_INET, "127.0.0.1", "127.0.0.1");
	cr_assert_eq(write(pair.client, "HELLO", 5), 5);
	close(pair.client);
	cr_assert_eq(uid_of(&pair, &uid), -ENOTCONN);
	cr_assert_eq(uid, 12345);
	close(pair.server);
	close(pair.listener);
}

/* ---- penalties ---------------------------------------------------------- */

#define SECOND UINT64_C(1000000000)

Test(server_access, wrong_keys_of_one_address_wait_longer_each_time)
{
	static struct penalties penalties;
	struct sockaddr_storage a = addr_of("192.0.2.1");
	struct sockaddr_storage b = addr_of("192.0.2.2");
	uint64_t now = 100 * SECOND;

	for (uint32_t ms = PENALTY_FIRST_MS; ms < PENALTY_MOST_MS; ms *= 2)
		cr_assert_eq(penalties_add(&penalties, (struct sockaddr *)&a,
					   now), ms);
	for (int i = 0; i < 100; i++)
		cr_assert_eq(penalties_add(&penalties, (struct sockaddr *)&a,
					   now), PENALTY_MOST_MS);
	cr_assert_eq(penalties_add(&penalties, (struct sockaddr *)&b, now),
		     PENALTY_FIRST_MS);
}

Test(server_access, ipv6_neighbours_share_a_penalty)
{
	static struct penalties penalties;
	struct sockaddr_storage a = addr_of("2001:db8::1");
	struct sockaddr_storage b = addr_of("2001:db8::2");

	penalties_add(&penalties, (struct sockaddr *)&a, SECOND);
	cr_assert_eq(penalties_add(&penalties, (struct sockaddr *)&b, SECOND),
		     2 * PENALTY_FIRST_MS);
}

Test(server_access, an_hour_of_quiet_forgives)
{
	static struct penalties penalties;
	struct sockaddr_storage a = addr_of("192.0.2.1");

	for (int i = 0; i < 5; i++)
		penalties_add(&penalties, (struct sockaddr *)&a, SECOND);
	cr_assert_eq(penalties_add(&penalties, (struct sockaddr *)&a,
				   3700 * SECOND), PENALTY_FIRST_MS);
}

Test(server_access, a_crowd_does_not_outgrow_the_table)
{
	static struct penalties penalties;

	for (uint32_t i = 0; i < 10 * PENALTIES_MAX; i++) {
		struct sockaddr_in in = { .sin_family = AF_INET };

		in.sin_addr.s_addr = htonl(0x0a000000 + i);
		cr_assert_eq(penalties_add(&penalties, (struct sockaddr *)&in,
					   (i + 1) * SECOND),
			     PENALTY_FIRST_MS);
	}
}

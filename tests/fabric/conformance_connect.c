/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conformance_connect.c - how every fabric connects, refuses, names addresses,
 * wakes its poller, and counts
 */
#include "tests/common/fabric_rig.h"

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>

static uint16_t port_of(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		return ((const struct sockaddr_in *)(const void *)addr)
			->sin_port;
	return ((const struct sockaddr_in6 *)(const void *)addr)->sin6_port;
}

/* ---- hello --------------------------------------------------------------- */

static void exchange_hellos(const struct rig_fabric *fabric, size_t ask_size,
			    size_t answer_size)
{
	unsigned char ask[RIG_HELLO_MAX], answer[RIG_HELLO_MAX];
	struct rig_end client, server;
	struct rig rig;

	for (size_t i = 0; i < RIG_HELLO_MAX; i++) {
		ask[i] = (unsigned char)(i + 1);
		answer[i] = (unsigned char)(i * 3);
	}
	rig_open(&rig, fabric);
	rig_end_init(&client, &rig.a);
	rig_end_init(&server, &rig.b);
	client.hello = ask;
	client.hello_size = ask_size;
	server.hello = answer;
	server.hello_size = answer_size;
	rig_listen(&rig);
	rig.accepts_with = &server;
	cr_assert_eq(rig_end_connect(&rig, &client), 0);
	memset(ask, 0, sizeof(ask));	/* it was copied */
	rig_until(&rig, client.connected && server.connected);
	for (size_t i = 0; i < ask_size; i++)
		cr_assert_eq(rig.hello_in[i], (unsigned char)(i + 1));
	cr_assert_eq(rig.hello_in_size, ask_size);
	cr_assert_eq(client.hello_in_size, answer_size);
	cr_assert(memcmp(client.hello_in, answer, answer_size) == 0);
	/* The request had it, and connected() has it again. */
	cr_assert_eq(server.hello_in_size, ask_size);
	cr_assert(memcmp(server.hello_in, rig.hello_in, ask_size) == 0);
	rig_exchange(&rig, &client, &server);
	rig_close(&rig);
}

static size_t hello_max(const struct rig_fabric *fabric)
{
	struct rig rig;
	size_t max;

	rig_open(&rig, fabric);
	max = rf_fabric_limits(rig.a.fab)->hello_size_max;
	rig_close(&rig);
	cr_assert_geq(max, 32);
	cr_assert_leq(max, RIG_HELLO_MAX);
	return max;
}

CONFORMANCE_TEST(conformance_connect, hellos_of_any_size_go_both_ways)
{
	size_t max = hello_max(fabric);
	const size_t sizes[] = { 0, 1, 32, max };

	for (size_t i = 0; i < RF_ARRAY_SIZE(sizes); i++)
		for (size_t j = 0; j < RF_ARRAY_SIZE(sizes); j++)
			exchange_hellos(fabric, sizes[i], sizes[j]);
}

/* ---- refusals ------------------------------------------------------------ */

static void expect_no_connection(struct rig *rig, struct rig_end *client,
				 int reason)
{
	rig_until(rig, client->closed);
	cr_assert_eq(client->connected, 0);
	cr_assert_eq(client->reason, reason, "reason is %d", client->reason);
}

CONFORMANCE_TEST(conformance_connect, where_nobody_listens_it_is_refused)
{
	struct rig_end client;
	struct rig_op recv;
	struct rig rig;

	rig_open(&rig, fabric);
	rig_listen(&rig);
	rf_listener_close(rig.listener);
	rig.listener = NULL;
	rig_settle(&rig);
	rig_end_init(&client, &rig.a);
	cr_assert_eq(rig_end_connect(&rig, &client), 0);
	rig_op_init(&recv, &client);
	cr_assert_eq(rig_recv(&client, &recv, 0, 64), 0);
	expect_no_connection(&rig, &client, -ECONNREFUSED);
	cr_assert_eq(recv.status, -ECANCELED);
	cr_assert_eq(client.rejected, 0);
	rig_close(&rig);
}

CONFORMANCE_TEST(conformance_connect, a_reject_brings_its_reason)
{
	size_t max = hello_max(fabric);
	const size_t sizes[] = { 0, 1, max };

	for (size_t i = 0; i < RF_ARRAY_SIZE(sizes); i++) {
		unsigned char words[RIG_HELLO_MAX];
		struct rig_end client;
		struct rig rig;

		memset(words, 0x42, sizes[i]);
		rig_open(&rig, fabric);
		rig_listen(&rig);
		rig_end_init(&client, &rig.a);
		cr_assert_eq(rig_end_connect(&rig, &client), 0);
		rig_until(&rig, rig.incoming_count > 0);
		rf_ep_reject(rig.incoming[0], words, sizes[i]);
		expect_no_connection(&rig, &client, -ECONNREFUSED);
		if (sizes[i] > 0 ||
		    rf_fabric_traits(rig.a.fab)->tells_empty_reject)
			cr_assert_eq(client.rejected, 1);
		cr_assert_eq(client.hello_in_size, sizes[i]);
		cr_assert(memcmp(client.hello_in, words, sizes[i]) == 0);
		rig_close(&rig);
	}
}

static void reject_at_once(struct rig *rig, struct rf_incoming *incoming)
{
	(void)rig;
	rf_ep_reject(incoming, "no", 2);
}

CONFORMANCE_TEST(conformance_connect, a_request_may_be_rejected_in_its_callback)
{
	struct rf_ep_events without_rejected = rig_events;
	struct rig_end client;
	struct rig rig;

	without_rejected.rejected = NULL;	/* may be left out */
	rig_open(&rig, fabric);
	rig_listen(&rig);
	rig.on_request = reject_at_once;
	rig_end_init(&client, &rig.a);
	cr_assert_eq(rf_ep_connect(rig.a.poller,
				   (struct sockaddr *)&rig.address,
				   rig.address_size, NULL, 0, &client.config,
				   &without_rejected, &client, &client.ep), 0);
	rf_list_push(&rig.ends, &client.link);
	expect_no_connection(&rig, &client, -ECONNREFUSED);
	rig_close(&rig);
}

CONFORMANCE_TEST(conformance_connect, an_unanswered_request_times_out)
{
	struct rig_end client;
	struct rig rig;

	rig_open(&rig, fabric);
	rig_listen(&rig);
	rig_end_init(&client, &rig.a);
	client.config.setup_ms = 50;
	cr_assert_eq(rig_end_connect(&rig, &client), 0);
	expect_no_connection(&rig, &client, -ETIMEDOUT);
	rig_close(&rig);
}

CONFORMANCE_TEST(conformance_connect, an_address_is_listened_on_once)
{
	struct rf_listener *second;
	struct rig rig;

	rig_open(&rig, fabric);
	rig_listen(&rig);
	cr_assert_eq(rf_listener_open(rig.a.poller,
				      (struct sockaddr *)&rig.address,
				      rig.address_size, NULL, NULL, &second),
		     -EADDRINUSE);
	rig_close(&rig);
	rig_open(&rig, fabric);
	rig_listen(&rig);	/* and it is free again */
	rig_close(&rig);
}

/* ---- accepting ----------------------------------------------------------- */

CONFORMANCE_TEST(conformance_connect, a_request_may_be_accepted_later)
{
	struct rig_end clients[3], servers[3];
	struct rig rig;

	rig_open(&rig, fabric);
	rig_listen(&rig);
	for (size_t i = 0; i < 3; i++) {
		rig_end_init(&clients[i], &rig.a);
		rig_end_init(&servers[i], &rig.b);
		cr_assert_eq(rig_end_connect(&rig, &clients[i]), 0);
		rig_until(&rig, rig.incoming_count == i + 1);
	}
	/* Not in the order of asking. */
	for (size_t i = 3; i-- > 0; )
		cr_assert_eq(rig_end_accept(&servers[i], rig.incoming[i]), 0);
	for (size_t i = 0; i < 3; i++) {
		rig_until(&rig, clients[i].connected && servers[i].connected);
		rig_exchange(&rig, &clients[i], &servers[i]);
		rig_exchange(&rig, &servers[i], &clients[i]);
	}
	rig_close(&rig);
}

static void accept_and_look(struct rig *rig, struct rf_incoming *incoming)
{
	struct rig_end *server = rig->accepts_with;

	cr_assert_eq(rig_end_accept(server, incoming), 0);
	cr_assert_eq(server->connected, 0,
		     "connected() from inside the accept");
}

static void send_at_once(struct rig_end *end)
{
	struct rig_op *sends = end->context;

	for (size_t i = 0; i < 4; i++)
		cr_assert_eq(rig_send(end, &sends[i], 0, 10), 0);
}

CONFORMANCE_TEST(conformance_connect, receives_given_to_accept_await_the_first_message)
{
	struct rig_end client, server;
	struct rig_op sends[4], recvs[4];
	struct rf_recv given[4];
	struct rig rig;

	rig_open(&rig, fabric);
	rig_listen(&rig);
	rig_end_init(&client, &rig.a);
	rig_end_init(&server, &rig.b);
	for (size_t i = 0; i < 4; i++) {
		rig_op_init(&sends[i], &client);
		rig_op_init(&recvs[i], &server);
		given[i] = (struct rf_recv){ &recvs[i].op,
					     rig_sge(&server, i * 64, 64) };
	}
	server.recvs = given;
	server.recv_count = 4;
	client.on_connected = send_at_once;
	client.context = sends;
	rig.accepts_with = &server;
	rig.on_request = accept_and_look;
	cr_assert_eq(rig_end_connect(&rig, &client), 0);
	rig_until(&rig, recvs[3].done_count && sends[3].done_count);
	cr_assert_eq(recvs[3].status, 0);
	cr_assert(server.connected_order < recvs[0].order);
	cr_assert(client.connected_order < sends[0].order);
	rig_close(&rig);
}

CONFORMANCE_TEST(conformance_connect, the_depth_of_reads_is_the_lesser_of_both)
{
	struct rig_end client, server;
	struct rig rig;

	rig_open(&rig, fabric);
	rig_end_init(&client, &rig.a);
	rig_end_init(&server, &rig.b);
	client.config.reads_out = 4;
	client.config.reads_in = 1;
	server.config.reads_out = 3;
	server.config.reads_in = 2;
	rig_join_quietly(&rig, &client, &server);
	cr_assert_leq(rf_ep_limits(client.ep)->reads_max, 4);
	cr_assert_leq(rf_ep_limits(server.ep)->reads_max, 3);
	if (rf_fabric_traits(rig.b.fab)->keeps_reads_in)
		cr_assert_eq(rf_ep_limits(client.ep)->reads_max, 2);
	if (rf_fabric_traits(rig.a.fab)->keeps_reads_in)
		cr_assert_eq(rf_ep_limits(server.ep)->reads_max, 1);
	cr_assert_leq(rf_ep_limits(client.ep)->msg_size_max,
		      rf_fabric_limits(rig.a.fab)->msg_size_max);
	rig_close(&rig);
}

CONFORMANCE_TEST(conformance_connect, who_serves_no_reads_says_so)
{
	struct rig_end client, server;
	struct rig rig;

	rig_open(&rig, fabric);
	rig_end_init(&client, &rig.a);
	rig_end_init(&server, &rig.b);
	server.config.reads_in = 0;
	rig_join_quietly(&rig, &client, &server);
	if (rf_fabric_traits(rig.b.fab)->keeps_reads_in)
		cr_assert_eq(rf_ep_limits(client.ep)->reads_max, 0);
	rig_exchange(&rig, &client, &server);
	rig_close(&rig);
}

static void accept_on_extra(struct rig *rig, struct rf_incoming *incoming)
{
	struct rig_end *end = rig->accepts_with;

	cr_assert_eq(rf_ep_accept(incoming, rig->extra, NULL, 0, &end->config,
				  &rig_events, end, NULL, 0, &end->ep), 0);
	rf_list_push(&rig->ends, &end->link);
}

CONFORMANCE_TEST(conformance_connect, another_poller_may_take_the_connection)
{
	struct rig_end client, server;
	struct rig rig;

	rig_open(&rig, fabric);
	cr_assert_eq(rf_poller_create(rig.b.fab, 1024, &rig.extra), 0);
	rig_listen(&rig);
	rig.on_request = accept_on_extra;
	rig_end_init(&client, &rig.a);
	rig_end_init(&server, &rig.b);
	rig_join_quietly(&rig, &client, &server);
	cr_assert(rf_ep_poller(server.ep) == rig.extra);
	for (int i = 0; i < 20; i++) {
		rig_exchange(&rig, &client, &server);
		rig_exchange(&rig, &server, &client);
	}
	rig_part(&rig, &client, &server);
	rf_poller_destroy(rig.extra);
	rig.extra = NULL;
	rig_close(&rig);
}

/* ---- addresses ----------------------------------------------------------- */

static void check_addresses(struct rig *rig, struct rig_end *client,
			    struct rig_end *server)
{
	struct sockaddr_storage client_own, client_peer, own, peer;

	cr_assert_eq(rf_ep_addresses(client->ep, &client_own, &client_peer), 0);
	cr_assert_eq(rf_ep_addresses(server->ep, &own, &peer), 0);
	cr_assert_eq(own.ss_family, rig->address.ss_family);
	cr_assert_eq(port_of(&own), port_of(&rig->address));
	cr_assert_eq(port_of(&client_peer), port_of(&rig->address));
	cr_assert_eq(port_of(&peer), port_of(&client_own));
	cr_assert_neq(port_of(&peer), 0);
	cr_assert_eq(client_own.ss_family, peer.ss_family);
}

static void connect_at(const struct rig_fabric *fabric, const char *text)
{
	struct sockaddr_storage asked;
	struct rig_end client, server;
	struct rig rig;

	rig_open(&rig, fabric);
	if (text)
		rig_listen_at(&rig, text);
	else
		rig_listen(&rig);
	cr_assert_neq(port_of(&rig.address), 0);
	rig_end_init(&client, &rig.a);
	rig_end_init(&server, &rig.b);
	cr_assert_eq(rig_end_connect(&rig, &client), 0);
	rig_until(&rig, rig.incoming_count > 0);
	cr_assert_eq(rf_incoming_peer(rig.incoming[0], &asked), 0);
	cr_assert_eq(asked.ss_family, rig.address.ss_family);
	cr_assert_eq(rig_end_accept(&server, rig.incoming[0]), 0);
	rig_until(&rig, client.connected && server.connected);
	check_addresses(&rig, &client, &server);
	rig_exchange(&rig, &client, &server);
	rig_close(&rig);
}

CONFORMANCE_TEST(conformance_connect, both_ends_know_both_addresses)
{
	connect_at(fabric, NULL);
}

CONFORMANCE_TEST(conformance_connect, version_6_addresses_work)
{
	if (strcmp(fabric->name, "verbs") == 0)
		cr_skip("the device of this run has one address");
	connect_at(fabric, "[::1]:0");
}

CONFORMANCE_TEST(conformance_connect, a_foreign_address_cant_be_listened_on)
{
	struct sockaddr_storage foreign;
	socklen_t size = rig_parse_address("192.0.2.77:0", &foreign);
	struct rf_listener *listener;
	struct rig rig;

	if (fabric->is_loop)
		cr_skip("every address is at home in this fabric");
	rig_open(&rig, fabric);
	cr_assert_eq(rf_listener_open(rig.b.poller, (struct sockaddr *)&foreign,
				      size, NULL, NULL, &listener),
		     -EADDRNOTAVAIL);
	rig_close(&rig);
}

/* ---- many ---------------------------------------------------------------- */

static unsigned int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int count = 0;

	cr_assert(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* Sanitizers keep freed memory for a while and report no figures. */
static size_t memory_in_use(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return 0;
#else
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
#endif
}

static void come_and_go(struct rig *rig)
{
	struct rig_end client, server;

	rig_join(rig, &client, &server);
	rig_part(rig, &client, &server);
	cr_assert_eq(client.reason, 0);
	cr_assert_eq(server.reason, 0);
}

CONFORMANCE_TEST(conformance_connect, a_thousand_connections_in_turn_leave_nothing)
{
	unsigned int descriptors;
	struct rig rig;
	size_t memory;

	rig_open(&rig, fabric);
	for (int i = 0; i < 50; i++)
		come_and_go(&rig);
	rig_settle(&rig);
	descriptors = open_descriptors();
	memory = memory_in_use();
	for (unsigned int i = 0; i < rig_times(1000); i++)
		come_and_go(&rig);
	rig_settle(&rig);
	cr_assert_leq(open_descriptors(), descriptors);
	cr_assert_leq(memory_in_use(), memory + RIG_KIB(64));
	rig_close(&rig);
}

enum { CROWD = 200 };

struct crowd {
	struct rig rig;
	struct rig_end clients[CROWD], servers[CROWD];
	unsigned int accepted;
};

static void accept_next(struct rig *rig, struct rf_incoming *incoming)
{
	struct crowd *crowd = rf_container_of(rig, struct crowd, rig);
	struct rig_end *server = &crowd->servers[crowd->accepted++];
	int err;

	rig_end_init(server, &rig->b);
	err = rig_end_accept(server, incoming);
	cr_assert_eq(err, 0, "accept %u: %d", crowd->accepted, err);
}

static bool crowd_is_connected(const struct crowd *crowd)
{
	bool are_connected = true;

	for (size_t i = 0; i < CROWD; i++) {
		const struct rig_end *client = &crowd->clients[i];
		const struct rig_end *server = &crowd->servers[i];

		cr_assert(!client->closed && !server->closed,
			  "connection %zu: %d, server %d: %d", i,
			  client->reason, server->closed, server->reason);
		are_connected &= client->connected && server->connected;
	}
	return are_connected;
}

/* The server's end of a client, by the client's port. */
static struct rig_end *find_server(struct crowd *crowd, size_t client)
{
	struct sockaddr_storage own, peer, server_own, server_peer;

	rf_ep_addresses(crowd->clients[client].ep, &own, &peer);
	for (size_t i = 0; i < CROWD; i++) {
		rf_ep_addresses(crowd->servers[i].ep, &server_own,
				&server_peer);
		if (port_of(&server_peer) == port_of(&own))
			return &crowd->servers[i];
	}
	cr_assert_fail("client %zu has no other end", client);
	return NULL;
}

CONFORMANCE_TEST(conformance_connect, two_hundred_connections_at_once_do_not_mix)
{
	struct crowd *crowd;
	struct rig_op *recvs;

	if (strstr(fabric->uri, "siw"))
		cr_skip("siw (Linux 6.1) gives a process 64 pages for queues");
	crowd = calloc(1, sizeof(*crowd));
	recvs = calloc(CROWD, sizeof(*recvs));

	cr_assert(crowd && recvs);
	rig_open(&crowd->rig, fabric);
	rig_listen(&crowd->rig);
	crowd->rig.on_request = accept_next;
	for (size_t i = 0; i < CROWD; i++) {
		rig_end_init(&crowd->clients[i], &crowd->rig.a);
		cr_assert_eq(rig_end_connect(&crowd->rig, &crowd->clients[i]),
			     0);
	}
	rig_until(&crowd->rig, crowd->accepted == CROWD &&
		  crowd_is_connected(crowd));
	for (uint32_t i = 0; i < CROWD; i++) {
		struct rig_end *server = find_server(crowd, i);

		rig_op_init(&recvs[i], server);
		cr_assert_eq(rig_recv(server, &recvs[i], i * 1024, 1024), 0);
		cr_assert_eq(rig_send(&crowd->clients[i], NULL, 0, 1 + i), 0);
	}
	for (uint32_t i = 0; i < CROWD; i++) {
		rig_until(&crowd->rig, recvs[i].done_count);
		cr_assert_eq(recvs[i].size, 1 + i);
	}
	rig_close(&crowd->rig);
	free(recvs);
	free(crowd);
}

/* ---- waking -------------------------------------------------------------- */

static bool is_readable(const struct rf_poller *poller, int wait_ms)
{
	struct pollfd fd = { .fd = rf_poller_fd(poller), .events = POLLIN };

	return poll(&fd, 1, wait_ms) == 1;
}

/* Let the peer's message travel without running the poller that waits. */
static void let_arrive(struct rig *rig)
{
	rf_poller_run(rig->a.poller, 64);
	while (rig->world && rf_loop_step(rig->world))
		rf_poller_run(rig->a.poller, 64);
}

CONFORMANCE_TEST(conformance_connect, an_idle_poller_may_sleep)
{
	struct rig_end client, server;
	struct rig rig;

	rig_open(&rig, fabric);
	rig_join(&rig, &client, &server);
	rig_settle(&rig);
	cr_assert_neq(rf_poller_arm(rig.b.poller), 0);
	cr_assert(!is_readable(rig.b.poller, 0));
	rig_close(&rig);
}

CONFORMANCE_TEST(conformance_connect, a_message_wakes_a_poller_that_was_armed)
{
	struct rig_end client, server;
	struct rig rig;

	rig_open(&rig, fabric);
	rig_join(&rig, &client, &server);
	for (int round = 0; round < 50; round++) {
		struct rig_op recv;

		rig_op_init(&recv, &server);
		cr_assert_eq(rig_recv(&server, &recv, 0, 64), 0);
		rig_settle(&rig);
		cr_assert_neq(rf_poller_arm(rig.b.poller), 0);
		cr_assert_eq(rig_send(&client, NULL, 0, 1), 0);
		let_arrive(&rig);
		cr_assert(is_readable(rig.b.poller, rig_patience_ms()),
			  "asleep with a message there");
		cr_assert(is_readable(rig.b.poller, 0), "not level-triggered");
		rig_until(&rig, recv.done_count);
		if (round % 16 == 15)
			rig_exchange(&rig, &client, &server);
	}
	rig_close(&rig);
}

CONFORMANCE_TEST(conformance_connect, what_a_budget_leaves_is_not_slept_over)
{
	enum { COUNT = 32 };
	struct rig_end client, server;
	struct rig_op recvs[COUNT];
	struct rig rig;

	rig_open(&rig, fabric);
	rig_join(&rig, &client, &server);
	for (size_t i = 0; i < COUNT; i++) {
		rig_op_init(&recvs[i], &server);
		cr_assert_eq(rig_recv(&server, &recvs[i], i * 64, 64), 0);
		cr_assert_eq(rig_send(&client, NULL, 0, 64), 0);
	}
	let_arrive(&rig);
	/* The server runs one callback at a time and sleeps whenever it may;
	 * nobody else does anything any more. */
	while (!recvs[COUNT - 1].done_count) {
		unsigned int done_before = rig.order;
		int wait_ms;

		if (rf_poller_run(rig.b.poller, 1) > 0)
			continue;
		wait_ms = rf_poller_arm(rig.b.poller);
		cr_assert(wait_ms == 0 ||
			  is_readable(rig.b.poller, rig_patience_ms()) ||
			  rig.order > done_before,
			  "asleep with completions to run");
	}
	rig_close(&rig);
}

static void count_order(struct rig_op *op)
{
	unsigned int *count = op->context;

	(*count)++;
}

CONFORMANCE_TEST(conformance_connect, a_run_keeps_about_to_its_budget)
{
	enum { COUNT = 48 };
	struct rig_end client, server;
	struct rig_op recvs[COUNT];
	unsigned int count = 0;
	struct rig rig;

	rig_open(&rig, fabric);
	rig_join(&rig, &client, &server);
	for (size_t i = 0; i < COUNT; i++) {
		rig_op_init(&recvs[i], &server);
		recvs[i].then = count_order;
		recvs[i].context = &count;
		cr_assert_eq(rig_recv(&server, &recvs[i], i * 64, 64), 0);
		cr_assert_eq(rig_send(&client, NULL, 0, 64), 0);
	}
	let_arrive(&rig);
	while (count < COUNT) {
		unsigned int before = count;
		unsigned int said = rf_poller_run(rig.b.poller, 4);

		/* "About": a transport may end what it has begun. */
		cr_assert_leq(count - before, 16);
		cr_assert_eq(count - before, said);
		if (said == 0 && rf_poller_arm(rig.b.poller) != 0)
			is_readable(rig.b.poller, rig_patience_ms());
	}
	rig_close(&rig);
}

/* ---- many at once --------------------------------------------------------- */

enum { FLOOD = 32, FLOOD_BUDGET = 4 };

/* A connection that always has more for the server than it takes in a run. */
struct flood {
	struct rig rig;
	struct rig_end client, server;
	struct rig_op recvs[FLOOD], sends[FLOOD];
	unsigned int sent, received;
};

static void take_and_post_again(struct rig_op *op)
{
	struct flood *flood = op->context;

	flood->received++;
	op->done_count = 0;
	if (op->status == 0)
		cr_assert_eq(rig_recv(&flood->server, op,
				      (size_t)(op - flood->recvs) * 64, 64), 0);
}

static void flood_more(struct flood *flood)
{
	for (size_t i = 0; i < FLOOD; i++) {
		struct rig_op *op = &flood->sends[i];

		if (op->done_count && flood->sent - flood->received < FLOOD) {
			op->done_count = 0;
			cr_assert_eq(rig_send(&flood->client, op, 0, 64), 0);
			flood->sent++;
		}
	}
	let_arrive(&flood->rig);
}

static void flood_begin(struct flood *flood)
{
	rig_join(&flood->rig, &flood->client, &flood->server);
	for (size_t i = 0; i < FLOOD; i++) {
		rig_op_init(&flood->recvs[i], &flood->server);
		flood->recvs[i].then = take_and_post_again;
		flood->recvs[i].context = flood;
		cr_assert_eq(rig_recv(&flood->server, &flood->recvs[i], i * 64,
				      64), 0);
		rig_op_init(&flood->sends[i], &flood->client);
		flood->sends[i].done_count = 1;
	}
	flood_more(flood);
}

static void answer(struct rig_op *op)
{
	if (op->status == 0)
		cr_assert_eq(rig_send(op->end, NULL, 0, 64), 0);
}

CONFORMANCE_TEST(conformance_connect, a_flood_keeps_nobody_else_out)
{
	struct rig_end client, server;
	struct rig_op ask, hear;
	struct flood *flood = calloc(1, sizeof(*flood));
	struct rig *rig = &flood->rig;

	rig_open(rig, fabric);
	rig_join(rig, &client, &server);
	rig_op_init(&ask, &server);
	ask.then = answer;
	cr_assert_eq(rig_recv(&server, &ask, 8192, 64), 0);
	rig_op_init(&hear, &client);
	cr_assert_eq(rig_recv(&client, &hear, 8192, 64), 0);
	flood_begin(flood);
	/* Whatever is ready of it stands in front. */
	for (int i = 0; i < 4; i++) {
		rf_poller_run(rig->b.poller, FLOOD_BUDGET);
		flood_more(flood);
	}
	cr_assert_eq(rig_send(&client, NULL, 0, 64), 0);
	rig_start_waiting(rig);
	while (!hear.done_count && rf_now_ns() < rig->deadline_ns) {
		rf_poller_run(rig->b.poller, FLOOD_BUDGET);
		flood_more(flood);
	}
	cr_assert_eq(hear.done_count, 1, "no answer while another one floods");
	rig_settle(rig);
	rig_close(rig);
	free(flood);
}

CONFORMANCE_TEST(conformance_connect, wait_runs_what_comes)
{
	struct rig_end client, server;
	struct rig_op recv;
	struct rig rig;

	rig_open(&rig, fabric);
	rig_join(&rig, &client, &server);
	rig_op_init(&recv, &server);
	cr_assert_eq(rig_recv(&server, &recv, 0, 64), 0);
	cr_assert_eq(rig_send(&client, NULL, 0, 1), 0);
	let_arrive(&rig);
	rig_start_waiting(&rig);
	while (!recv.done_count && rf_now_ns() < rig.deadline_ns)
		rf_poller_wait(rig.b.poller, 16, 1000);
	cr_assert_eq(recv.done_count, 1);
	cr_assert_eq(rf_poller_wait(rig.b.poller, 16, 0), 0);
	rig_close(&rig);
}

/* ---- what is counted ----------------------------------------------------- */

static struct rf_fabric_stats stats_of(const struct rig_node *node)
{
	struct rf_fabric_stats stats;

	rf_fabric_stats(node->fab, &stats);
	return stats;
}

CONFORMANCE_TEST(conformance_connect, transfers_are_counted_where_they_happen)
{
	struct rf_fabric_stats client_before, server_before, mine, theirs;
	struct rig_op write, read;
	struct rig_end client, server;
	struct rig_grant grant;
	struct rig rig;

	rig_open(&rig, fabric);
	rig_join(&rig, &client, &server);
	rig_grant_open(&rig, &grant, &server, 0, 5000,
		       RF_REMOTE_READ | RF_REMOTE_WRITE);
	client_before = stats_of(&rig.a);
	server_before = stats_of(&rig.b);
	rig_op_init(&write, &client);
	rig_op_init(&read, &client);
	cr_assert_eq(rig_write(&client, &write, 0, grant.remote), 0);
	cr_assert_eq(rig_read(&client, &read, 0, grant.remote), 0);
	rig_until(&rig, write.done_count && read.done_count);
	rig_exchange(&rig, &client, &server);
	mine = stats_of(&rig.a);
	theirs = stats_of(&rig.b);
	cr_assert_eq(mine.sends - client_before.sends, 1);
	cr_assert_eq(mine.send_bytes - client_before.send_bytes, 1);
	cr_assert_eq(mine.writes - client_before.writes, 1);
	cr_assert_eq(mine.write_bytes - client_before.write_bytes, 5000);
	cr_assert_eq(mine.reads - client_before.reads, 1);
	cr_assert_eq(mine.read_bytes - client_before.read_bytes, 5000);
	cr_assert_eq(theirs.recvs - server_before.recvs, 1);
	cr_assert_eq(theirs.recv_bytes - server_before.recv_bytes, 1);
	/* Hardware does not see what a peer does to its memory. */
	if (rf_fabric_traits(rig.b.fab)->sees_access) {
		cr_assert_eq(theirs.reads_served - server_before.reads_served,
			     1);
		cr_assert_eq(theirs.read_bytes_served -
			     server_before.read_bytes_served, 5000);
		cr_assert_eq(theirs.writes_landed - server_before.writes_landed,
			     1);
		cr_assert_eq(theirs.write_bytes_landed -
			     server_before.write_bytes_landed, 5000);
	}
	/* Transfers register nothing. */
	cr_assert_eq(mine.registrations, client_before.registrations);
	cr_assert_eq(theirs.registrations, server_before.registrations);
	cr_assert_eq(mine.rights_refused + theirs.rights_refused, 0);
	rig_part(&rig, &client, &server);
	rig_grant_close(&grant);
	rig_close(&rig);
}

CONFORMANCE_TEST(conformance_connect, connections_are_counted)
{
	struct rig_end client, server, refused;
	struct rf_fabric_stats mine, theirs;
	struct rig rig;

	rig_open(&rig, fabric);
	rig_join(&rig, &client, &server);
	rig_part(&rig, &client, &server);
	rig.on_request = reject_at_once;
	rig_end_init(&refused, &rig.a);
	cr_assert_eq(rig_end_connect(&rig, &refused), 0);
	rig_until(&rig, refused.closed);
	mine = stats_of(&rig.a);
	theirs = stats_of(&rig.b);
	cr_assert_eq(mine.connects, 1);
	cr_assert_eq(theirs.accepts, 1);
	cr_assert_eq(theirs.rejects, 1);
	cr_assert_geq(mine.closes, 1);
	cr_assert_eq(theirs.closes, 1);
	rig_close(&rig);
}

CONFORMANCE_TEST(conformance_connect, registrations_and_windows_are_counted)
{
	struct rf_fabric_stats before, after;
	struct rig_end client, server;
	struct rig_grant grant;
	struct rig_op op;
	struct rig rig;

	rig_open(&rig, fabric);
	rig_join(&rig, &client, &server);
	before = stats_of(&rig.b);
	cr_assert_eq(before.registrations, 1);
	rig_grant_open(&rig, &grant, &server, 0, 4096, RF_REMOTE_READ);
	if (grant.window) {
		rig_op_init(&op, &server);
		cr_assert_eq(rig_unbind(&grant, &op), 0);
		rig_until(&rig, op.done_count);
	}
	after = stats_of(&rig.b);
	if (grant.window) {
		cr_assert_eq(after.binds - before.binds, 1);
		cr_assert_eq(after.invalidates - before.invalidates, 1);
		cr_assert_eq(after.registrations, before.registrations);
	} else {
		cr_assert_eq(after.registrations, before.registrations + 1);
	}
	rig_grant_close(&grant);
	rig_close(&rig);
}

CONFORMANCE_TEST(conformance_connect, without_windows_there_are_none)
{
	struct rf_window *window;
	struct rig rig;

	rig_open(&rig, fabric);
	if (rf_fabric_level(rig.a.fab) == RF_LEVEL_SESSION)
		cr_assert_eq(rf_window_create(rig.a.pd, &window), -EOPNOTSUPP);
	else
		cr_assert_eq(rf_window_create(rig.a.pd, &window), 0);
	if (rf_fabric_level(rig.a.fab) == RF_LEVEL_WINDOW)
		rf_window_destroy(window);
	rig_close(&rig);
}

CONFORMANCE_TEST(conformance_connect, a_uri_that_names_no_fabric_is_refused)
{
	struct rf_fabric *fab;

	(void)fabric;
	cr_assert_eq(rf_fabric_open("carrier-pigeon://x", &fab), -ENODEV);
	cr_assert_eq(rf_fabric_open("loop", &fab), -EINVAL);
	cr_assert_eq(rf_fabric_open("", &fab), -EINVAL);
}

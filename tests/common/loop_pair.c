/* SPDX-License-Identifier: Apache-2.0 */
#include "loop_pair.h"

#include <arpa/inet.h>
#include <poll.h>

const struct rig_fabric loop_fabric = { .name = "loop", .is_loop = true };

struct sockaddr_in loop_host(const char *text)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };

	cr_assert_eq(inet_pton(AF_INET, text, &addr.sin_addr), 1);
	return addr;
}

const struct sockaddr *loop_addr(const struct sockaddr_in *in)
{
	return (const struct sockaddr *)(const void *)in;
}

void pair_prepare(struct pair *pair)
{
	rig_open(&pair->rig, &loop_fabric);
	pair->world = pair->rig.world;
	rig_end_init(&pair->client, &pair->rig.a);
	rig_end_init(&pair->server, &pair->rig.b);
}

void pair_join(struct pair *pair)
{
	rig_join_quietly(&pair->rig, &pair->client, &pair->server);
	rig_exchange(&pair->rig, &pair->client, &pair->server);
	rig_settle(&pair->rig);
}

void pair_open(struct pair *pair)
{
	pair_prepare(pair);
	pair_join(pair);
}

void pair_partition(struct pair *pair)
{
	cr_assert_eq(rf_loop_partition(pair->world, NULL, NULL), 0);
}

void pair_run(struct pair *pair)
{
	while (rf_poller_run(pair->rig.a.poller, 64) +
	       rf_poller_run(pair->rig.b.poller, 64))
		;
}

void pair_pass(struct pair *pair, uint64_t ns)
{
	uint64_t until_ns = rf_loop_now_ns(pair->world) + ns;

	pair_run(pair);
	while (rf_loop_next_ns(pair->world) <= until_ns) {
		rf_loop_step(pair->world);
		pair_run(pair);
	}
	rf_loop_advance(pair->world, until_ns - rf_loop_now_ns(pair->world));
}

void pair_message(struct pair *pair, struct rig_op *send,
			 struct rig_op *recv)
{
	rig_op_init(send, &pair->client);
	rig_op_init(recv, &pair->server);
	cr_assert_eq(rig_recv(&pair->server, recv, 0, 64), 0);
	cr_assert_eq(rig_send(&pair->client, send, 0, 64), 0);
}

bool pair_is_readable(const struct rf_poller *poller)
{
	struct pollfd fd = { .fd = rf_poller_fd(poller), .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

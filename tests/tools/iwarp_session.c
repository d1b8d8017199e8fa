/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iwarp_session.c - one of everything that iWARP says, for a packet capture
 *
 *	iwarp_session [--port PORT] [--fabric URI]
 *
 * Both ends live in this process and talk over 127.0.0.1: Sends of many sizes
 * with and without Solicited Event, Writes and Reads from a byte to several
 * segments, Sends with Invalidate, a rejected connection, and at last a Read
 * with a dead key, which is answered with a Terminate.  Prints one line of
 * NAME=COUNT for what it did: segments of each kind, Terminates, connections.
 */
#include "libproto/base.h"
#include "libproto/fabric.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	ARENA_SIZE = 4 << 20,
	RECV_AT = 2 << 20,
	RECV_SIZE = 1 << 20,
	SEGMENT = 61440,	/* payload of a full segment: see FABRIC.md */
	PATIENCE_S = 20,
};

struct end {
	struct rf_fabric *fab;
	struct rf_pd *pd;
	struct rf_poller *poller;
	struct rf_window *window;
	uint8_t *arena;
	struct rf_mr *mr;
	struct rf_ep *ep;
	struct rf_op send, recv, work;
	unsigned int sent, received, worked, connected, closed;
	int work_status, reason;
	uint32_t inv_key;
};

static struct end client, server;
static bool rejects;
static struct {
	unsigned int sends, sends_inv, sends_se, writes, reads, responses;
} counts;

static void check(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "iwarp_session: failed: %s\n", what);
	exit(1);
}

static struct end *end_of(struct rf_ep *ep)
{
	return rf_ep_context(ep);
}

static void sent(struct rf_op *op, int status)
{
	(void)status;
	rf_container_of(op, struct end, send)->sent++;
}

static void received(struct rf_op *op, int status)
{
	struct end *end = rf_container_of(op, struct end, recv);

	end->received += status == 0;
	end->inv_key = op->inv_key;
}

static void worked(struct rf_op *op, int status)
{
	struct end *end = rf_container_of(op, struct end, work);

	end->worked++;
	end->work_status = status;
}

static void connected(struct rf_ep *ep, const void *hello, size_t size)
{
	(void)hello;
	(void)size;
	end_of(ep)->connected++;
}

static void closed(struct rf_ep *ep, int reason)
{
	end_of(ep)->closed++;
	end_of(ep)->reason = reason;
}

static const struct rf_ep_events events = { .connected = connected,
					    .closed = closed };

static void end_open(struct end *end, const char *uri)
{
	check(rf_fabric_open(uri, &end->fab) == 0, "open the fabric");
	check(rf_pd_create(end->fab, &end->pd) == 0, "domain");
	check(rf_poller_create(end->fab, 64, &end->poller) == 0, "poller");
	check(rf_window_create(end->pd, &end->window) == 0, "window");
	end->arena = calloc(1, ARENA_SIZE);
	check(end->arena && rf_mr_register(end->pd, end->arena, ARENA_SIZE,
					   RF_LOCAL_WRITE | RF_READ_SINK |
					   RF_WINDOW_BIND, &end->mr) == 0,
	      "register");
	end->send.done = sent;
	end->recv.done = received;
	end->work.done = worked;
}

static void end_close(struct end *end)
{
	rf_window_destroy(end->window);
	rf_mr_deregister(end->mr);
	rf_poller_destroy(end->poller);
	rf_pd_destroy(end->pd);
	rf_fabric_close(end->fab);
	free(end->arena);
}

static struct rf_ep_config make_config(const struct end *end)
{
	return (struct rf_ep_config){
		.pd = end->pd, .send_depth = 16, .recv_depth = 2,
		.reads_out = 4, .reads_in = 4, .setup_ms = 5000,
	};
}

static void run_until(const unsigned int *counter, unsigned int value)
{
	uint64_t begin_ns = rf_now_ns();

	while (*counter < value) {
		check(rf_now_ns() - begin_ns < PATIENCE_S * 1000000000ull,
		      "something did not happen in time");
		rf_poller_wait(client.poller, 16, 0);
		rf_poller_wait(server.poller, 16, 1);
	}
}

static void on_request(void *context, struct rf_incoming *incoming,
		       const void *hello, size_t size)
{
	struct rf_ep_config config = make_config(&server);

	(void)context;
	(void)hello;
	(void)size;
	if (rejects) {
		rf_ep_reject(incoming, "not now", 7);
		return;
	}
	check(rf_ep_accept(incoming, server.poller, "welcome", 7, &config,
			   &events, &server, NULL, 0, &server.ep) == 0,
	      "accept");
}

static void start(const struct sockaddr_storage *addr)
{
	struct rf_ep_config config = make_config(&client);

	check(rf_ep_connect(client.poller, (const struct sockaddr *)addr,
			    sizeof(struct sockaddr_in), "hello", 5, &config,
			    &events, &client, &client.ep) == 0, "connect");
}

static void post_recv(struct end *end)
{
	struct rf_recv recv = { &end->recv, { end->arena + RECV_AT, RECV_SIZE,
					      end->mr } };

	check(rf_ep_post_recv(end->ep, &recv) == 0, "post a Receive");
}

static unsigned int segments(uint32_t size)
{
	return (size + SEGMENT - 1) / SEGMENT;
}

/* One message over and received. */
static void say(struct end *from, struct end *to, uint32_t size,
		unsigned int flags, uint32_t inv_key)
{
	struct rf_sge sge = { from->arena, size, from->mr };
	struct rf_work work = {
		.code = inv_key ? RF_SEND_INV : RF_SEND, .flags = flags,
		.op = &from->send, .sge = &sge, .sge_count = 1,
		.inv_key = inv_key,
	};
	unsigned int received_before = to->received, sent_before = from->sent;

	post_recv(to);
	check(rf_ep_post(from->ep, &work, 1) == 0, "post a Send");
	run_until(&to->received, received_before + 1);
	run_until(&from->sent, sent_before + 1);
	check(to->inv_key == inv_key, "the invalidated key");
	if (inv_key)
		counts.sends_inv += segments(size);
	else if (flags)
		counts.sends_se += segments(size);
	else
		counts.sends += segments(size);
}

/* Bind the server's window; the key goes to the client within a message. */
static struct rf_remote lend(uint32_t size)
{
	struct rf_remote remote = rf_window_next(server.window, server.mr,
		server.arena, size, RF_REMOTE_READ | RF_REMOTE_WRITE);
	struct rf_work work = { .code = RF_BIND, .window = server.window };

	check(rf_ep_post(server.ep, &work, 1) == 0, "bind");
	say(&server, &client, sizeof(remote), 0, 0);
	return remote;
}

static void move(enum rf_opcode code, struct rf_remote remote, uint32_t size)
{
	/* Two pieces, where there are two bytes. */
	struct rf_sge sge[2] = {
		{ client.arena + 1, size - size / 3, client.mr },
		{ client.arena + (1 << 20), size / 3, client.mr },
	};
	struct rf_work work = {
		.code = code, .op = &client.work, .sge = sge,
		.sge_count = size / 3 ? 2 : 1,
		.remote = { remote.addr, remote.rkey, size },
	};

	check(rf_ep_post(client.ep, &work, 1) == 0, "post");
	run_until(&client.worked, client.worked + 1);
}

static void talk(void)
{
	static const uint32_t sizes[] = { 1, 2, 3, 4, 63, 4096, SEGMENT,
					  SEGMENT + 1, 200000 };

	for (size_t i = 0; i < RF_ARRAY_SIZE(sizes); i++) {
		struct rf_remote remote;

		say(&client, &server, sizes[i], 0, 0);
		say(&server, &client, sizes[i], RF_SOLICITED, 0);
		remote = lend(sizes[i]);
		move(RF_WRITE, remote, sizes[i]);
		counts.writes += segments(sizes[i]);
		move(RF_READ, remote, sizes[i]);
		check(client.work_status == 0, "Read");
		counts.reads++;
		counts.responses += segments(sizes[i]);
		say(&client, &server, sizes[i], 0, remote.rkey);
	}
}

/* The last window's key is dead: the server refuses, and both ends close. */
static void misbehave(struct rf_remote remote)
{
	move(RF_READ, remote, remote.size);
	counts.reads++;
	run_until(&client.closed, 1);
	run_until(&server.closed, 1);
	check(client.reason == -EACCES && server.reason == -EACCES,
	      "the dead key was not refused");
}

static void run(const struct sockaddr_storage *addr)
{
	struct rf_remote dead;

	rejects = true;
	start(addr);
	run_until(&client.closed, 1);
	check(client.reason == -ECONNREFUSED, "rejection");
	rejects = false;
	client.closed = 0;
	start(addr);
	run_until(&client.connected, 1);
	run_until(&server.connected, 1);
	say(&client, &server, 5, 0, 0);
	talk();
	dead = lend(4096);
	say(&client, &server, 5, 0, dead.rkey);
	misbehave(dead);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "fabric", required_argument, NULL, 'f' },
		{ NULL, 0, NULL, 0 },
	};
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct sockaddr_storage addr;
	struct rf_listener *listener;
	const char *uri = "iwarp://";
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'p')
			in.sin_port = htons((uint16_t)atoi(optarg));
		else if (c == 'f')
			uri = optarg;
		else
			return 2;
	}
	rf_log_set_level(RF_LOG_ERROR);
	end_open(&client, uri);
	end_open(&server, uri);
	check(rf_listener_open(server.poller, (struct sockaddr *)&in,
			       sizeof(in), on_request, NULL, &listener) == 0,
	      "listen");
	check(rf_listener_address(listener, &addr) == 0, "address");
	run(&addr);
	rf_listener_close(listener);
	end_close(&client);
	end_close(&server);
	printf("requests=2 replies=2 sends=%u sends_inv=%u sends_se=%u "
	       "writes=%u reads=%u responses=%u terminates=1\n", counts.sends,
	       counts.sends_inv, counts.sends_se, counts.writes, counts.reads,
	       counts.responses);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rping_peer.c - either end of what rping(1) says, over our fabric
 *
 *	rping_peer [--uri URI] [--count N] [--size N] --listen HOST:PORT
 *	rping_peer [--uri URI] [--count N] [--size N] HOST:PORT
 *
 * rping, of the kernel's RDMA tools, is a program that is not ours over a device
 * that is not ours: what both understand is no habit of ours.  One ping is
 *
 *	client: SEND {address, key, size} of the ping	server: READs it
 *	                                                server: SEND "go on"
 *	client: SEND {address, key, size} of a sink	server: WRITEs it back
 *	                                                server: SEND "go on"
 *
 * where each SEND has 16 bytes, big-endian, and "go on" any 16.  The listening end
 * takes one client and ends with it; it prints each ping's first line.  The other
 * end compares what came back.  Exit status 0: all went well.
 */
#include "libproto/base.h"
#include "libproto/fabric.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	SIZE_MOST = 64 * 1024,
	DEPTH = 8,
	SETUP_MS = 10000,
	PATIENCE_S = 60,
	SHOWN = 40,		/* bytes of a ping */
};

struct advert {
	uint64_t addr;
	uint32_t rkey, size;
};
_Static_assert(sizeof(struct advert) == 16, "as rping sends it");

static struct {
	const char *uri;
	bool listens;
	unsigned int count;
	uint32_t size;
} options = { .uri = "verbs://", .count = 3, .size = 1000 };

/* One page-aligned piece of memory for all. */
static struct memory {
	uint8_t ping[SIZE_MOST], pong[SIZE_MOST];
	struct advert in[2], out;
} *memory;

static struct {
	struct rf_fabric *fab;
	struct rf_pd *pd;
	struct rf_poller *poller;
	struct rf_listener *listener;
	struct rf_mr *mr;
	struct rf_ep *ep;
	struct rf_op recv_ops[2], op;
	unsigned int received, taken;	/* messages */
	bool is_busy, is_connected, is_closed;
	int reason;
} end;

static void die(const char *what, int err)
{
	fprintf(stderr, "rping_peer: %s: %s\n", what, strerror(-err));
	exit(1);
}

static void check(int err, const char *what)
{
	if (err < 0)
		die(what, err);
}

/* ---- one end of a connection ------------------------------------------- */

static void received(struct rf_op *op, int status)
{
	if (status)
		return;		/* it is closing */
	if (op->size != sizeof(struct advert))
		die("a message of another size", -EPROTO);
	end.received++;
}

static struct rf_recv recv_of(unsigned int i)
{
	end.recv_ops[i].done = received;
	return (struct rf_recv){ &end.recv_ops[i],
				 { &memory->in[i], sizeof(struct advert),
				   end.mr } };
}

static void connected(struct rf_ep *ep, const void *hello, size_t size)
{
	(void)hello;
	(void)size;
	end.ep = ep;
	end.is_connected = true;
}

static void closed(struct rf_ep *ep, int reason)
{
	(void)ep;
	end.is_closed = true;
	end.reason = reason;
}

static const struct rf_ep_events events = { .connected = connected,
					    .closed = closed };

static struct rf_ep_config make_config(void)
{
	return (struct rf_ep_config){
		.pd = end.pd, .send_depth = DEPTH, .recv_depth = 2,
		.reads_out = 1, .reads_in = 1, .setup_ms = SETUP_MS,
	};
}

static void requested(void *context, struct rf_incoming *incoming,
		      const void *hello, size_t size)
{
	const struct rf_ep_config config = make_config();
	const struct rf_recv recvs[] = { recv_of(0), recv_of(1) };

	(void)context;
	(void)hello;
	(void)size;
	check(rf_ep_accept(incoming, end.poller, NULL, 0, &config, &events,
			   NULL, recvs, 2, &end.ep), "accept");
}

static void wait_for(const bool *flag, bool value, const char *what)
{
	uint64_t until_ns = rf_now_ns() + PATIENCE_S * UINT64_C(1000000000);

	while (*flag != value) {
		if (end.is_closed && flag != &end.is_closed)
			die(what, end.reason ? end.reason : -ECONNRESET);
		if (rf_now_ns() > until_ns)
			die(what, -ETIMEDOUT);
		rf_poller_wait(end.poller, 16, 100);
	}
}

static void op_done(struct rf_op *op, int status)
{
	(void)op;
	if (status)
		die("an operation", status);
	end.is_busy = false;
}

static void run(struct rf_work work, void *at, uint32_t size, const char *what)
{
	const struct rf_sge sge = { at, size, end.mr };

	work.op = &end.op;
	work.sge = &sge;
	work.sge_count = 1;
	end.op.done = op_done;
	end.is_busy = true;
	check(rf_ep_post(end.ep, &work, 1), what);
	wait_for(&end.is_busy, false, what);
}

/* False: the peer is gone, which is its way to end. */
static bool await_message(struct advert *out)
{
	uint64_t until_ns = rf_now_ns() + PATIENCE_S * UINT64_C(1000000000);
	unsigned int i = end.taken % 2;
	struct rf_recv recv;

	while (end.received == end.taken) {
		if (end.is_closed)
			return false;
		if (rf_now_ns() > until_ns)
			die("waiting for a message", -ETIMEDOUT);
		rf_poller_wait(end.poller, 16, 100);
	}
	*out = (struct advert){
		.addr = be64toh(memory->in[i].addr),
		.rkey = be32toh(memory->in[i].rkey),
		.size = be32toh(memory->in[i].size),
	};
	end.taken++;
	recv = recv_of(i);
	check(rf_ep_post_recv(end.ep, &recv), "post a Receive");
	return true;
}

static void send_message(const void *addr, uint32_t size)
{
	memory->out = (struct advert){ 0 };
	if (addr) {
		struct rf_remote remote = rf_mr_remote(end.mr, addr, size);

		memory->out = (struct advert){
			.addr = htobe64(remote.addr),
			.rkey = htobe32(remote.rkey),
			.size = htobe32(remote.size),
		};
	}
	run((struct rf_work){ .code = RF_SEND }, &memory->out,
	    sizeof(memory->out), "Send");
}

/* ---- rping -------------------------------------------------------------- */

static struct rf_remote remote_of(const struct advert *advert)
{
	if (advert->size == 0 || advert->size > SIZE_MOST)
		die("an advertised size", -EPROTO);
	return (struct rf_remote){ advert->addr, advert->rkey, advert->size };
}

static void serve(void)
{
	struct advert source, sink;
	unsigned int count = 0;

	wait_for(&end.is_connected, true, "waiting for a client");
	while (await_message(&source)) {
		run((struct rf_work){ .code = RF_READ,
				      .remote = remote_of(&source) },
		    memory->ping, source.size, "Read");
		printf("ping %u: %.*s\n", count++, SHOWN,
		       (const char *)memory->ping);
		fflush(stdout);
		send_message(NULL, 0);
		if (!await_message(&sink) || sink.size > source.size)
			die("waiting for a sink", -EPROTO);
		run((struct rf_work){ .code = RF_WRITE,
				      .remote = remote_of(&sink) },
		    memory->ping, sink.size, "Write");
		send_message(NULL, 0);
	}
	if (count < options.count) {
		fprintf(stderr, "rping_peer: %u pings, not %u\n", count,
			options.count);
		exit(1);
	}
}

static void ping(unsigned int number)
{
	int at = snprintf((char *)memory->ping, SIZE_MOST, "rdma-ping-%u: ",
			  number);
	struct advert go_on;

	for (uint32_t i = (uint32_t)at; i < options.size; i++)
		memory->ping[i] = (uint8_t)('A' + (i + number) % 58);
	memory->ping[options.size - 1] = '\0';
	memset(memory->pong, 0, SIZE_MOST);
	send_message(memory->ping, options.size);
	if (!await_message(&go_on))
		die("waiting for the Read", -ECONNRESET);
	send_message(memory->pong, options.size);
	if (!await_message(&go_on))
		die("waiting for the Write", -ECONNRESET);
	if (memcmp(memory->ping, memory->pong, options.size) != 0)
		die("what came back is not what was sent", -EBADMSG);
	printf("pong %u: %.*s\n", number, SHOWN, (const char *)memory->pong);
}

/* ---- beginning and end --------------------------------------------------- */

static struct addrinfo *resolve(char *text)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
					.ai_flags = AI_NUMERICHOST };
	char *colon = strrchr(text, ':');
	struct addrinfo *found;

	if (!colon)
		die(text, -EINVAL);
	*colon = '\0';
	if (getaddrinfo(text, colon + 1, &hints, &found))
		die(text, -EINVAL);
	return found;
}

static void open_end(void)
{
	void *at;

	if (posix_memalign(&at, 4096, sizeof(*memory)))
		die("memory", -ENOMEM);
	memory = at;
	memset(memory, 0, sizeof(*memory));
	check(rf_fabric_open(options.uri, &end.fab), options.uri);
	check(rf_pd_create(end.fab, &end.pd), "protection domain");
	check(rf_poller_create(end.fab, 64, &end.poller), "poller");
	/* rping has no windows either: the region is lent as it is. */
	check(rf_mr_register(end.pd, memory, sizeof(*memory), RF_LOCAL_WRITE |
			     RF_READ_SINK | RF_REMOTE_READ | RF_REMOTE_WRITE,
			     &end.mr), "register");
}

static void start_listening(const struct addrinfo *addr)
{
	struct sockaddr_storage bound;

	check(rf_listener_open(end.poller, addr->ai_addr, addr->ai_addrlen,
			       requested, NULL, &end.listener), "listen");
	check(rf_listener_address(end.listener, &bound), "address");
	/* The port is at the same place in both families. */
	printf("ready: port %u\n",
	       ntohs(((const struct sockaddr_in *)(const void *)&bound)
			     ->sin_port));
	fflush(stdout);
}

static void start_connecting(const struct addrinfo *addr)
{
	const struct rf_ep_config config = make_config();
	const struct rf_recv recvs[] = { recv_of(0), recv_of(1) };

	check(rf_ep_connect(end.poller, addr->ai_addr, addr->ai_addrlen, NULL,
			    0, &config, &events, NULL, &end.ep), "connect");
	for (unsigned int i = 0; i < 2; i++)
		check(rf_ep_post_recv(end.ep, &recvs[i]), "post a Receive");
	wait_for(&end.is_connected, true, "connect");
}

static void close_end(void)
{
	if (!end.is_closed)
		rf_ep_close(end.ep);
	wait_for(&end.is_closed, true, "close");
	if (end.listener)
		rf_listener_close(end.listener);
	rf_mr_deregister(end.mr);
	rf_poller_destroy(end.poller);
	rf_pd_destroy(end.pd);
	rf_fabric_close(end.fab);
	free(memory);
}

static uint32_t number(const char *text, uint32_t least, uint32_t most)
{
	char *rest;
	unsigned long value = strtoul(text, &rest, 10);

	if (*rest || value < least || value > most)
		die(text, -EINVAL);
	return (uint32_t)value;
}

static char *parse(int argc, char **argv)
{
	static const struct option names[] = {
		{ "uri", required_argument, NULL, 'u' },
		{ "count", required_argument, NULL, 'n' },
		{ "size", required_argument, NULL, 's' },
		{ "listen", required_argument, NULL, 'l' },
		{ NULL, 0, NULL, 0 },
	};
	char *address = NULL;
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (option == 'u')
			options.uri = optarg;
		else if (option == 'n')
			options.count = number(optarg, 1, 1000000);
		else if (option == 's')
			options.size = number(optarg, 32, SIZE_MOST);
		else if (option == 'l')
			address = optarg;
		else
			exit(2);
		options.listens |= option == 'l';
	}
	if (!options.listens && optind < argc)
		address = argv[optind];
	if (!address)
		die("no HOST:PORT", -EINVAL);
	return address;
}

int main(int argc, char **argv)
{
	struct addrinfo *addr = resolve(parse(argc, argv));

	open_end();
	if (options.listens) {
		start_listening(addr);
		serve();
	} else {
		start_connecting(addr);
		for (unsigned int i = 0; i < options.count; i++)
			ping(i);
	}
	freeaddrinfo(addr);
	close_end();
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_proxy.c - a TCP connection that fails on command, for tests
 *
 *	tcp_proxy PORT		on loopback, to the server's PORT there
 *
 * The first line of its output is the port it listens on.  Then it reads
 * commands, a line each, and answers each with "ok COMMAND" once it holds:
 *
 *	pass		forward everything (as at the start)
 *	stall		forward nothing; connections stay
 *	mute		forward what clients say, hold what the server says
 *	reset		reset each connection; new ones are made
 *	cut		reset each connection, and each new one
 *	after N		reset each connection once clients have said N more bytes
 *	short N		reset a connection once a side has said N bytes over it, from
 *			its beginning; 0: not any more
 *	to PORT		new connections go to this port
 *	count		count messages anew, and cut at none
 *	counted		before the ok: messages of clients, messages of the server,
 *			and cuts since then
 *	message SIDE N WHEN [M WHEN]
 *			cut the connection before or after the N-th message from now on
 *			of the client or the server; then, if M is there, once more, at
 *			the M-th of that side from there on
 *	quit		end
 *
 * A message is a frame of MPA's (RFC 5044): the first of each side when the
 * connection is made, and FPDUs after it.  Cut before one, the other side gets
 * all that came earlier, and nothing of it; cut after one, all of it, too.  Who
 * has said it is reset, so it learns no more.
 *
 * Operation.  One thread, poll(2).  Each connection is two sockets and two
 * buffers.  A side that has closed is passed on when its buffer is empty.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	PAIRS_MAX = 64,
	BUFFER = 65536,
	COMMAND_MAX = 128,
	CUTS_MAX = 2,		/* of one command */
	MPA_HEAD = 20,		/* with the size of what follows at its end */
	FPDU_HEAD = 2,		/* the size of what follows, but for pad and CRC */
	FPDU_CRC = 4,
};

/* How far a side is in its messages. */
struct frames {
	unsigned char head[MPA_HEAD];
	size_t have;		/* of the head */
	size_t left;		/* of the message, behind it */
	bool is_connected;	/* it has sent its MPA frame */
};

/* One direction: from one socket to the other. */
struct pipe {
	char bytes[BUFFER];
	size_t used;
	uint64_t said;
	struct frames frames;
	bool has_ended;		/* nothing more is read */
	bool was_shut;		/* and the other side was told */
};

struct pair {
	int fds[2];		/* client, server; -1: no such pair */
	struct pipe pipes[2];	/* from fds[i] */
};

static struct pair pairs[PAIRS_MAX];
static uint16_t target;
static bool holds[2];		/* what comes from clients, from the server */
static bool is_cut;
static bool counts;
static uint64_t bytes_left;	/* of clients, until all is reset */
static uint64_t shortness;	/* bytes of a side; 0: no limit */
static uint64_t messages[2];	/* since they were counted anew */
static unsigned int cuts;

/* The cuts that are to come, at messages of one side. */
static struct {
	int side;
	unsigned int count;
	struct {
		uint64_t left;	/* messages */
		bool is_after;
	} v[CUTS_MAX];
} knife;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

/* close(2) says RST. */
static void close_with_reset(int fd)
{
	const struct linger now = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
}

static void reset(struct pair *pair)
{
	for (int i = 0; i < 2; i++) {
		if (pair->fds[i] >= 0)
			close_with_reset(pair->fds[i]);
		pair->fds[i] = -1;
	}
}

static void reset_all(void)
{
	for (int i = 0; i < PAIRS_MAX; i++)
		reset(&pairs[i]);
	counts = false;
}

/* ---- connections ------------ */

static int connect_on(void)
{
	struct sockaddr_in to = loopback(target);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die("socket");
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return fd;
	close(fd);
	return -1;
}

static void prepare(int fd)
{
	int yes = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	fcntl(fd, F_SETFL, O_NONBLOCK);
}

static struct pair *free_pair(void)
{
	for (int i = 0; i < PAIRS_MAX; i++)
		if (pairs[i].fds[0] < 0)
			return &pairs[i];
	return NULL;
}

static void take_connection(int listener)
{
	int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	struct pair *pair = free_pair();
	int server = -1;

	if (client < 0)
		return;
	if (pair && !is_cut)
		server = connect_on();
	if (server < 0) {
		close_with_reset(client);
		return;
	}
	prepare(client);
	prepare(server);
	memset(pair->pipes, 0, sizeof(pair->pipes));
	pair->fds[0] = client;
	pair->fds[1] = server;
}

/* ---- messages ------------ */

/* The knife's next cut, if it is at this side's messages and that close. */
static bool is_due(int from, bool is_after)
{
	return knife.count > 0 && knife.side == from &&
	       knife.v[0].left == 1 && knife.v[0].is_after == is_after;
}

static void begin_message(struct frames *frames)
{
	const unsigned char *head = frames->head;

	if (frames->is_connected) {
		size_t size = (size_t)head[0] << 8 | head[1];

		/* The pad makes it a multiple of four. */
		frames->left = ((FPDU_HEAD + size + 3) & ~(size_t)3) -
			       FPDU_HEAD + FPDU_CRC;
	} else {
		frames->left = (size_t)head[MPA_HEAD - 2] << 8 |
			       head[MPA_HEAD - 1];
	}
}

static void end_message(struct frames *frames, int from)
{
	frames->is_connected = true;
	frames->have = 0;
	messages[from]++;
	if (knife.count > 0 && knife.side == from && knife.v[0].left > 1)
		knife.v[0].left--;
}

/* True: the message whose head this byte belongs to is whole with it. */
static bool take_head(struct frames *frames, char byte)
{
	size_t size = frames->is_connected ? FPDU_HEAD : MPA_HEAD;

	frames->head[frames->have++] = (unsigned char)byte;
	if (frames->have < size)
		return false;
	begin_message(frames);
	return frames->left == 0;
}

/* What a side has said.  True: to be cut, after so many of the bytes. */
static bool follow(struct frames *frames, int from, const char *bytes,
		   size_t size, size_t *at)
{
	for (*at = 0; *at < size;) {
		size_t left = size - *at;
		bool is_whole;

		if (frames->have == 0 && is_due(from, false))
			return true;
		if (frames->left == 0) {
			is_whole = take_head(frames, bytes[(*at)++]);
		} else {
			left = frames->left < left ? frames->left : left;
			frames->left -= left;
			*at += left;
			is_whole = frames->left == 0;
		}
		if (is_whole && is_due(from, true))
			return true;
		if (is_whole)
			end_message(frames, from);
	}
	return false;
}

/* What the other side is to have yet, then the end of what it can read. */
static void tell_end(int fd, const char *bytes, size_t size)
{
	fcntl(fd, F_SETFL, 0);
	while (size > 0) {
		ssize_t put = send(fd, bytes, size, MSG_NOSIGNAL);

		if (put <= 0)
			break;
		bytes += put;
		size -= (size_t)put;
	}
	shutdown(fd, SHUT_WR);
}

/* It may read that in peace: a reset would come too early. */
static void let_read(int fd)
{
	char nothing[4096];

	while (recv(fd, nothing, sizeof(nothing), 0) > 0)
		;
	close(fd);
}

static void cut(struct pair *pair, int from)
{
	struct pipe *pipe = &pair->pipes[from];
	int to = pair->fds[!from];

	knife.count--;
	knife.v[0] = knife.v[1];
	cuts++;
	close_with_reset(pair->fds[from]);
	tell_end(to, pipe->bytes, pipe->used);
	let_read(to);
	pair->fds[0] = pair->fds[1] = -1;
}

/* ---- forwarding ------------ */

/* False: the connection is broken. */
static bool fill(struct pair *pair, int from)
{
	struct pipe *pipe = &pair->pipes[from];
	size_t room = BUFFER - pipe->used, whole;
	ssize_t got;

	if (from == 0 && counts && room > bytes_left)
		room = (size_t)bytes_left;
	if (room == 0)
		return true;
	got = recv(pair->fds[from], pipe->bytes + pipe->used, room, 0);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	if (follow(&pipe->frames, from, pipe->bytes + pipe->used, (size_t)got,
		   &whole)) {
		pipe->used += whole;
		cut(pair, from);
		return false;
	}
	pipe->has_ended = got == 0;
	pipe->used += (size_t)got;
	pipe->said += (uint64_t)got;
	if (from == 0 && counts)
		bytes_left -= (uint64_t)got;
	return shortness == 0 || pipe->said < shortness;
}

static bool drain(struct pair *pair, int from)
{
	struct pipe *pipe = &pair->pipes[from];
	int to = pair->fds[!from];
	ssize_t put = 0;

	if (pipe->used > 0)
		put = send(to, pipe->bytes, pipe->used, MSG_NOSIGNAL);
	if (put < 0)
		return errno == EAGAIN || errno == EINTR;
	pipe->used -= (size_t)put;
	memmove(pipe->bytes, pipe->bytes + put, pipe->used);
	if (pipe->has_ended && pipe->used == 0 && !pipe->was_shut) {
		shutdown(to, SHUT_WR);
		pipe->was_shut = true;
	}
	return true;
}

static bool is_over(const struct pair *pair)
{
	return pair->pipes[0].was_shut && pair->pipes[1].was_shut;
}

static short wants(const struct pair *pair, int side)
{
	const struct pipe *in = &pair->pipes[side];
	const struct pipe *out = &pair->pipes[!side];
	short events = 0;

	if (!holds[side] && !in->has_ended && in->used < BUFFER)
		events |= POLLIN;
	if (!holds[!side] && out->used > 0)
		events |= POLLOUT;
	return events;
}

static void serve(struct pair *pair, int side, short events)
{
	bool is_good = true;

	if (events & (POLLIN | POLLHUP | POLLERR) && !holds[side])
		is_good = fill(pair, side) && drain(pair, side);
	if (is_good && events & POLLOUT && !holds[!side])
		is_good = drain(pair, !side);
	/* Held, a reset of the peer would be polled for ever. */
	if (!is_good || is_over(pair) || events & (POLLERR | POLLNVAL))
		reset(pair);
	if (counts && bytes_left == 0)
		reset_all();
}

/* ---- commands ------------ */

static void hold(bool clients, bool server)
{
	holds[0] = clients;
	holds[1] = server;
}

/* SIDE N WHEN [M WHEN] */
static bool whet(const char *words)
{
	char side[16], when[CUTS_MAX][16];
	unsigned long long at[CUTS_MAX];
	int got = sscanf(words, "%15s %llu %15s %llu %15s", side, &at[0],
			 when[0], &at[1], when[1]);

	if (got != 3 && got != 5)
		return false;
	knife.side = strcmp(side, "client") == 0 ? 0 : 1;
	knife.count = got == 5 ? 2 : 1;
	for (unsigned int i = 0; i < knife.count; i++) {
		knife.v[i].left = at[i];
		knife.v[i].is_after = strcmp(when[i], "after") == 0;
	}
	return true;
}

static bool obey(const char *command)
{
	if (strcmp(command, "pass") == 0) {
		is_cut = false;
		hold(false, false);
	} else if (strcmp(command, "stall") == 0) {
		hold(true, true);
	} else if (strcmp(command, "mute") == 0) {
		hold(false, true);
	} else if (strcmp(command, "reset") == 0) {
		reset_all();
	} else if (strcmp(command, "cut") == 0) {
		is_cut = true;
		reset_all();
	} else if (strncmp(command, "after ", 6) == 0) {
		bytes_left = strtoull(command + 6, NULL, 10);
		counts = true;
	} else if (strncmp(command, "short ", 6) == 0) {
		shortness = strtoull(command + 6, NULL, 10);
	} else if (strncmp(command, "to ", 3) == 0) {
		target = (uint16_t)strtoul(command + 3, NULL, 10);
	} else if (strcmp(command, "count") == 0) {
		messages[0] = messages[1] = 0;
		cuts = knife.count = 0;
	} else if (strcmp(command, "counted") == 0) {
		printf("%llu %llu %u ", (unsigned long long)messages[0],
		       (unsigned long long)messages[1], cuts);
	} else if (strncmp(command, "message ", 8) == 0) {
		return whet(command + 8);
	} else {
		return false;
	}
	return true;
}

static void take_command(void)
{
	static char line[COMMAND_MAX];
	static size_t used;
	char byte;

	if (read(0, &byte, 1) != 1)
		exit(0);
	if (byte != '\n') {
		if (used < sizeof(line) - 1)
			line[used++] = byte;
		return;
	}
	line[used] = '\0';
	used = 0;
	if (strcmp(line, "quit") == 0)
		exit(0);
	printf("%s %s\n", obey(line) ? "ok" : "what?", line);
}

/* ---- the loop ------------ */

static int listen_anywhere(void)
{
	struct sockaddr_in at = loopback(0);
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, size) < 0 ||
	    listen(fd, PAIRS_MAX) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &size) < 0)
		die("listen");
	printf("%u\n", ntohs(at.sin_port));
	return fd;
}

static void turn(int listener)
{
	struct pollfd polls[2 + 2 * PAIRS_MAX] = {
		{ .fd = 0, .events = POLLIN },
		{ .fd = listener, .events = POLLIN },
	};

	for (int i = 0; i < PAIRS_MAX; i++)
		for (int side = 0; side < 2; side++) {
			short events = pairs[i].fds[0] < 0 ?
					       0 : wants(&pairs[i], side);

			/* Without events even errors are left alone. */
			polls[2 + 2 * i + side] = (struct pollfd){
				.fd = events ? pairs[i].fds[side] : -1,
				.events = events,
			};
		}
	if (poll(polls, 2 + 2 * PAIRS_MAX, -1) < 0) {
		if (errno == EINTR)
			return;
		die("poll");
	}
	for (int i = 0; i < PAIRS_MAX; i++)
		for (int side = 0; side < 2; side++)
			if (polls[2 + 2 * i + side].revents &&
			    pairs[i].fds[0] >= 0)
				serve(&pairs[i], side,
				      polls[2 + 2 * i + side].revents);
	if (polls[0].revents)
		take_command();
	if (polls[1].revents)
		take_connection(listener);
}

int main(int argc, char **argv)
{
	int listener;

	if (argc != 2) {
		fprintf(stderr, "usage: tcp_proxy PORT\n");
		return 2;
	}
	target = (uint16_t)strtoul(argv[1], NULL, 10);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < PAIRS_MAX; i++)
		pairs[i].fds[0] = pairs[i].fds[1] = -1;
	listener = listen_anywhere();
	for (;;)
		turn(listener);
}

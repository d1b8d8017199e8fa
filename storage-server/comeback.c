/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comeback.c - RDMA devices that are taken away, and those that come back
 *
 * Operation.  When a device is gone its connections end by themselves.  What we
 * have of it is given back as soon as the last one has, since the kernel may wait
 * for that.  Then a worker asks from time to time whether a device leads to the
 * addresses that it had; it may have another name.  If so, the arena is registered
 * with it, on the worker as well, and we listen there as before.  Sessions last:
 * their clients come back as after any lost connection.
 * When it fails.  Trying goes on as long as the server runs.
 */
#include "transport.h"

#include <errno.h>
#include <stdlib.h>

enum {
	LET_GO_MS = 20,		/* the kernel waits for us */
	ASK_MS = 500,
};

struct comeback {
	struct server *server;
	struct rf_timer timer;
	struct rf_job job;
	bool is_busy;			/* the job is under way */
	unsigned int next;		/* listener to ask for */
	/* of the job */
	struct sockaddr_storage addr;
	char uri[TRANSPORT_URI_SIZE];
	struct transport *transport;
	int err;
};

static struct comeback *comeback_of(struct rf_job *job)
{
	return rf_container_of(job, struct comeback, job);
}

/* ---- letting go ---------------------------------------------------------- */

/* True if all are closed whose device is gone. */
static bool let_go(struct server *server)
{
	bool are_closed = true;

	for (unsigned int i = 0; i < server->transport_count; i++) {
		struct transport *transport = &server->transports[i];

		if (!transport->is_lost)
			continue;
		if (transport_is_unused(transport))
			transport_close(server, transport);
		else
			are_closed = false;
	}
	return are_closed;
}

/* ---- coming back --------------------------------------------------------- */

/* NULL: none is missing. */
static struct listener *next_missing(struct comeback *comeback)
{
	struct server *server = comeback->server;

	for (unsigned int i = 0; i < server->listener_count; i++) {
		unsigned int at = comeback->next++ % server->listener_count;

		if (!server->listeners[at].listener)
			return &server->listeners[at];
	}
	return NULL;
}

static void go_on(struct comeback *comeback, uint64_t after_ms)
{
	comeback->is_busy = false;
	if (comeback->server->is_draining)
		server_check_drain(comeback->server);
	else
		rf_timer_start(comeback->server->reactor, &comeback->timer,
			       after_ms);
}

/* All whose address it has; others ask for themselves. */
static void listen_again(struct comeback *comeback)
{
	struct server *server = comeback->server;

	for (unsigned int i = 0; i < server->listener_count; i++) {
		struct listener *listener = &server->listeners[i];

		if (!listener->listener &&
		    memcmp(&listener->addr, &comeback->addr,
			   sizeof(comeback->addr)) == 0)
			listener_return(listener, comeback->transport);
	}
}

static void filled(struct rf_job *job)
{
	struct comeback *comeback = comeback_of(job);
	struct server *server = comeback->server;
	int err = comeback->err;

	if (!err && !server->is_draining)
		err = transport_start(server, comeback->transport);
	if (err || server->is_draining)
		transport_close(server, comeback->transport);
	else
		listen_again(comeback);
	go_on(comeback, ASK_MS);
}

static void fill(struct rf_job *job)
{
	struct comeback *comeback = comeback_of(job);

	comeback->err = transport_fill(comeback->server, comeback->transport);
}

static void post(struct comeback *comeback, void (*run)(struct rf_job *),
		 void (*done)(struct rf_job *))
{
	struct server *server = comeback->server;

	comeback->is_busy = true;
	comeback->job = (struct rf_job){ .run = run, .done = done };
	rf_workers_post(server->workers, server->reactor, &comeback->job);
}

static void asked(struct rf_job *job)
{
	struct comeback *comeback = comeback_of(job);
	struct server *server = comeback->server;

	if (comeback->err || server->is_draining) {
		go_on(comeback, ASK_MS);
		return;
	}
	comeback->transport = transport_find(server, comeback->uri);
	if (comeback->transport) {
		listen_again(comeback);
		go_on(comeback, ASK_MS);
		return;
	}
	comeback->transport = transport_add(server, "verbs", comeback->uri);
	if (comeback->transport)
		post(comeback, fill, filled);
	else
		go_on(comeback, ASK_MS);
}

static void ask(struct rf_job *job)
{
	struct comeback *comeback = comeback_of(job);
	const struct sockaddr *addr = (const struct sockaddr *)&comeback->addr;

	comeback->err = rf_fabric_route("verbs", addr, access_addr_size(addr),
					comeback->uri, sizeof(comeback->uri));
}

static void look(struct rf_timer *timer)
{
	struct comeback *comeback = rf_container_of(timer, struct comeback,
						    timer);
	const struct listener *missing;

	if (!let_go(comeback->server)) {
		rf_timer_start(comeback->server->reactor, timer, LET_GO_MS);
		return;
	}
	missing = next_missing(comeback);
	if (!missing)
		return;
	comeback->addr = missing->addr;
	post(comeback, ask, asked);
}

/* ---- life ---------------------------------------------------------------- */

void comeback_await(struct server *server)
{
	struct comeback *comeback = server->comeback;

	if (server->is_draining || comeback->is_busy)
		return;		/* the job starts the timer */
	rf_timer_start(server->reactor, &comeback->timer, LET_GO_MS);
}

int comeback_init(struct server *server)
{
	server->comeback = calloc(1, sizeof(*server->comeback));
	if (!server->comeback)
		return -ENOMEM;
	server->comeback->server = server;
	server->comeback->timer.fire = look;
	return 0;
}

void comeback_stop(struct server *server)
{
	if (server->comeback)
		rf_timer_stop(server->reactor, &server->comeback->timer);
}

bool comeback_is_idle(const struct server *server)
{
	return !server->comeback->is_busy;
}

void comeback_fini(struct server *server)
{
	free(server->comeback);
}

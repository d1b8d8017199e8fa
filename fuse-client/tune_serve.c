/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune_serve.c - rdmafs tune --serve [FABRIC://]ADDRESS[:PORT]
 *
 * Operation.  Listens on iwarp, and on the RDMA device of the address if there
 * is one; or on the fabric that is named.  It lends scratch memory that holds
 * nothing to one host at a time and answers, until SIGINT or SIGTERM.
 */
#include "tune.h"

#include "tune_end.h"

#include "libproto/reactor.h"

#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { ENDS_MAX = 2 };

struct service {
	const struct mount_options *options;
	struct rf_reactor *reactor;
	struct tune_end ends[ENDS_MAX];
	unsigned int count;
};

/* For the signal handler. */
static struct rf_reactor *stopped_by_signal;

static void stop(int number)
{
	(void)number;
	rf_reactor_stop(stopped_by_signal);
}

static void announce(const struct tune_end *end, const struct addrinfo *at)
{
	char host[NI_MAXHOST], port[NI_MAXSERV];
	struct sockaddr_storage addr;
	bool is_v6 = at->ai_family == AF_INET6;

	if (rf_listener_address(end->listener, &addr) ||
	    getnameinfo((struct sockaddr *)&addr, at->ai_addrlen, host,
			sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV))
		return;
	rf_log(RF_LOG_INFO, "ready: listening on %s://%s%s%s:%s",
	       rf_fabric_scheme(end->fab), is_v6 ? "[" : "", host,
	       is_v6 ? "]" : "", port);
}

static int open_end(struct service *service, const char *scheme,
		    const struct addrinfo *at)
{
	struct tune_end *end = &service->ends[service->count];
	struct rf_tuning tuning = tune_of_options(service->options);
	char uri[256];
	int err = rf_fabric_route(scheme, at->ai_addr, at->ai_addrlen, uri,
				  sizeof(uri));

	if (strcmp(scheme, "iwarp") == 0)
		snprintf(uri, sizeof(uri), "iwarp://%s",
			 service->options->no_crc ? "?crc=0" : "");
	else if (err)
		return err;
	err = tune_end_open(end, uri, &tuning, true, TUNE_MESSAGE_MAX);
	if (err)
		return err;
	err = tune_end_listen(end, at->ai_addr, at->ai_addrlen);
	if (!err)
		err = rf_reactor_add_poller(service->reactor, end->poller);
	if (err) {
		tune_end_close(end);
		return err;
	}
	service->count++;
	announce(end, at);
	return 0;
}

static int open_ends(struct service *service, const struct addrinfo *at)
{
	const char *scheme = service->options->scheme;
	int err;

	if (scheme[0])
		return open_end(service, scheme, at);
	err = open_end(service, "verbs", at);
	if (err && err != -ENETUNREACH && err != -ENODEV)
		rf_log(RF_LOG_WARN, "not on verbs: %s", strerror(-err));
	/* On an iWARP device the port is taken: it serves both. */
	err = open_end(service, "iwarp", at);
	return service->count ? 0 : err;
}

static void close_ends(struct service *service)
{
	for (unsigned int i = 0; i < service->count; i++) {
		rf_reactor_remove_poller(service->reactor,
					 service->ends[i].poller);
		tune_end_close(&service->ends[i]);
	}
}

static int serve(struct service *service, const struct addrinfo *at)
{
	int err = open_ends(service, at);

	if (err) {
		complain("can't listen on %s port %u: %s",
			 service->options->host, service->options->port,
			 err == -ENETUNREACH || err == -ENODEV ?
			 "no such device has this address" : strerror(-err));
		return EXIT_FAILURE;
	}
	stopped_by_signal = service->reactor;
	signal(SIGINT, stop);
	signal(SIGTERM, stop);
	rf_reactor_set_poll_us(service->reactor, service->options->poll_us);
	rf_reactor_run(service->reactor);
	return EXIT_SUCCESS;
}

int tune_serve(const struct mount_options *options)
{
	static struct service service;
	struct addrinfo *list = tune_resolve(options, true);
	int status;

	if (!list)
		return EXIT_FAILURE;
	service.options = options;
	if (rf_reactor_create(&service.reactor)) {
		complain("no reactor: %s", strerror(errno));
		freeaddrinfo(list);
		return EXIT_FAILURE;
	}
	status = serve(&service, list);
	freeaddrinfo(list);
	close_ends(&service);
	rf_reactor_destroy(service.reactor);
	return status;
}

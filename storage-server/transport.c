/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport.c - fabrics, domains, windows, listeners
 *
 * Operation.  The listen addresses of one scheme share a fabric, so the arena is
 * registered once for each.  It is not where a device has no windows: there each
 * connection has a slice of its own.
 */
#include "transport.h"

#include "libproto/figures.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>

enum {
	OPS_MAX = 65536,	/* posted at once, all connections */
	READS_IN = 64,		/* of each client; the fabric cuts it */
};

/* ---- one fabric --------------------------------------------------------- */

static int choose_uri(const struct server *server,
		      const struct listen_config *listen,
		      const struct addrinfo *addr, char *uri, size_t size)
{
	if (strcmp(listen->scheme, "iwarp") == 0) {
		snprintf(uri, size, "iwarp://%s",
			 server->config->uses_crc ? "" : "?crc=0");
		return 0;
	}
	if (strcmp(listen->scheme, "loop") == 0) {
		snprintf(uri, size, "loop://rdmafs");
		return 0;
	}
	return rf_fabric_route(listen->scheme, addr->ai_addr,
			       addr->ai_addrlen, uri, size);
}

static int tune_fabric(const struct config *config, struct rf_fabric *fabric)
{
	bool is_verbs = strcmp(rf_fabric_scheme(fabric), "verbs") == 0;
	const struct rf_tuning tuning = {
		.cq_count = (uint16_t)config->cq_count,
		.cq_us = (uint16_t)config->cq_usec,
		.traffic_class = config->tos == CONFIG_UNSET ?
			-1 : (int16_t)config->tos,
		/* Of the devices; iwarp has none. */
		.gid_index = config->gid_index == CONFIG_UNSET || !is_verbs ?
			-1 : (int16_t)config->gid_index,
	};

	if (is_verbs && !rf_fabric_traits(fabric)->moderates_events)
		rf_log(RF_LOG_INFO, "this device does not moderate completion "
		       "events: cq-count and cq-usec have no effect, and an "
		       "event tells of what has gathered before we look");
	return rf_fabric_tune(fabric, &tuning);
}

static int share_arena(struct server *server, struct transport *transport)
{
	int err = rf_pd_create(transport->fabric, &transport->pd);

	if (!err)
		err = rf_pool_register(server->pool, transport->pd,
				       RF_LOCAL_WRITE | RF_WINDOW_BIND,
				       &transport->mr);
	if (!err)
		err = windows_init(&transport->windows, transport->pd,
				   staging_count(&server->staging));
	transport->lending = (struct lending){
		.staging = &server->staging,
		.mr = transport->mr,
		.windows = &transport->windows,
	};
	return err;
}

static int fill_transport(struct server *server, struct transport *transport,
			  const char *uri)
{
	int err = rf_fabric_open(uri, &transport->fabric);

	if (!err)
		err = tune_fabric(server->config, transport->fabric);
	if (err)
		return err;
	transport->has_windows =
		rf_fabric_level(transport->fabric) == RF_LEVEL_WINDOW;
	if (transport->has_windows)
		err = share_arena(server, transport);
	else
		err = slices_init(&transport->slices, server,
				  transport->fabric);
	if (!err)
		err = rf_poller_create(transport->fabric, OPS_MAX,
				       &transport->poller);
	if (!err)
		err = rf_reactor_add_poller(server->reactor,
					    transport->poller);
	transport->is_polled = !err && transport->poller;
	return err;
}

static struct transport *find_transport(struct server *server,
					const char *scheme)
{
	for (unsigned int i = 0; i < server->transport_count; i++)
		if (strcmp(server->transports[i].scheme, scheme) == 0)
			return &server->transports[i];
	return NULL;
}

static int get_transport(struct server *server,
			 const struct listen_config *listen,
			 const struct addrinfo *addr, struct transport **out)
{
	struct transport *transport = find_transport(server, listen->scheme);
	char uri[256];
	int err;

	*out = transport;
	if (transport)
		return 0;
	err = choose_uri(server, listen, addr, uri, sizeof(uri));
	if (!err && server->transport_count == SERVER_TRANSPORTS_MAX)
		err = -ENOSPC;
	if (!err) {
		transport = &server->transports[server->transport_count++];
		snprintf(transport->scheme, sizeof(transport->scheme), "%s",
			 listen->scheme);
		err = fill_transport(server, transport, uri);
		*out = transport;
	}
	if (err == -EOPNOTSUPP && server->config->gid_index != CONFIG_UNSET)
		rf_log(RF_LOG_ERROR, "cannot listen on %s: gid-index is for "
		       "RoCE devices; leave it out, and listen on the address "
		       "that is meant", listen->text);
	else if (err)
		rf_log(RF_LOG_ERROR, "cannot listen on %s: the fabric '%s' "
		       "can't be used here: %s", listen->text, listen->scheme,
		       strerror(-err));
	return err;
}

static void close_transport(struct server *server, struct transport *transport)
{
	if (transport->is_polled)
		rf_reactor_remove_poller(server->reactor, transport->poller);
	if (transport->poller)
		rf_poller_destroy(transport->poller);
	windows_fini(&transport->windows);
	slices_fini(&transport->slices);
	if (transport->mr)
		rf_mr_deregister(transport->mr);
	if (transport->pd)
		rf_pd_destroy(transport->pd);
	if (transport->fabric)
		rf_fabric_close(transport->fabric);
	*transport = (struct transport){ .fabric = NULL };
}

void transports_close(struct server *server)
{
	for (unsigned int i = 0; i < server->transport_count; i++)
		close_transport(server, &server->transports[i]);
	server->transport_count = 0;
}

/* ---- listening ---------------------------------------------------------- */

static int resolve(const struct listen_config *listen, struct addrinfo **out)
{
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
	};
	int err = getaddrinfo(listen->host, listen->port, &hints, out);

	if (!err)
		return 0;
	rf_log(RF_LOG_ERROR, "cannot listen on %s: '%s' is no address of this "
	       "machine: %s", listen->text, listen->host, gai_strerror(err));
	return -EADDRNOTAVAIL;
}

static void say_why(const struct listen_config *listen, int err)
{
	if (err == -EADDRINUSE)
		rf_log(RF_LOG_ERROR, "cannot listen on %s: another program "
		       "listens there; stop it or choose another port",
		       listen->text);
	else if (err == -EADDRNOTAVAIL)
		rf_log(RF_LOG_ERROR, "cannot listen on %s: this machine has no "
		       "such address", listen->text);
	else if (err == -EACCES)
		rf_log(RF_LOG_ERROR, "cannot listen on %s: ports below 1024 "
		       "need root", listen->text);
	else
		rf_log(RF_LOG_ERROR, "cannot listen on %s: %s", listen->text,
		       strerror(-err));
}

static int listen_at(struct server *server, const struct listen_config *listen,
		     const struct addrinfo *addr)
{
	struct listener *listener =
		&server->listeners[server->listener_count];
	struct transport *transport;
	int err = get_transport(server, listen, addr, &transport);

	if (err)
		return err;	/* said */
	listener->server = server;
	listener->transport = transport;
	err = rf_listener_open(transport->poller, addr->ai_addr,
			       addr->ai_addrlen, greet, listener,
			       &listener->listener);
	if (!err)
		server->listener_count++;
	return err;
}

static int open_listener(struct server *server, struct listen_config listen)
{
	struct addrinfo *addr;
	int err = resolve(&listen, &addr);

	if (err)
		return err;
	err = listen_at(server, &listen, addr);
	freeaddrinfo(addr);
	if (listen.is_default &&
	    (err == -EAFNOSUPPORT || err == -EADDRNOTAVAIL)) {
		/* A machine without IPv6. */
		listen.is_default = false;
		snprintf(listen.host, sizeof(listen.host), "0.0.0.0");
		return open_listener(server, listen);
	}
	if (err && find_transport(server, listen.scheme) &&
	    find_transport(server, listen.scheme)->is_polled)
		say_why(&listen, err);
	return err;
}

int transports_open(struct server *server)
{
	const struct config *config = server->config;

	for (unsigned int i = 0; i < config->listen_count; i++) {
		int err = open_listener(server, config->listens[i]);

		if (err)
			return err;
	}
	return 0;
}

void transports_announce(const struct server *server)
{
	for (unsigned int i = 0; i < server->listener_count; i++) {
		struct sockaddr_storage addr;
		char text[ACCESS_TEXT_SIZE];

		if (server_address(server, i, &addr))
			continue;
		rf_log(RF_LOG_INFO, "ready: listening on %s://%s",
		       server->listeners[i].transport->scheme,
		       access_text((const struct sockaddr *)&addr, text));
	}
}

void transports_stop_listening(struct server *server)
{
	while (server->listener_count > 0) {
		server->listener_count--;
		rf_listener_close(
			server->listeners[server->listener_count].listener);
	}
}

int server_address(const struct server *server, unsigned int index,
		   struct sockaddr_storage *out)
{
	if (index >= server->listener_count)
		return -ENOENT;
	return rf_listener_address(server->listeners[index].listener, out);
}

void server_fill_rpc_config(const struct server *server,
			    const struct transport *transport,
			    const struct slice *slice,
			    struct rf_server_config *out)
{
	const struct config *config = server->config;
	uint32_t slots = config->slots + SERVER_CONTROL_SLOTS;

	*out = (struct rf_server_config){
		.reactor = server->reactor,
		.poller = transport->poller,
		.pd = slice ? slice->pd : transport->pd,
		.mr = slice ? slice->messages_mr : transport->mr,
		.pool = slice ? slice->messages : server->pool,
		.hello_ms = config->hello_ms,
		.keepalive_ms = config->keepalive_ms,
		.send_depth = slice ? SLICE_SEND_DEPTH :
				      (uint16_t)config->send_depth,
		.recv_depth = slice ? SLICE_RECV_DEPTH : (uint16_t)slots,
		.reads_in = READS_IN,
	};
}

void transports_log_figures(const struct server *server)
{
	for (unsigned int i = 0; i < server->transport_count; i++)
		rf_figures_log_fabric("figures: ",
				      server->transports[i].fabric);
}

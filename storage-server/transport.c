/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport.c - fabrics, domains, windows
 *
 * Operation.  The listen addresses of one device share a fabric, as do all of
 * iwarp, so the arena is registered once for each.  It is not where a device has
 * no windows: there each connection has a slice of its own.
 */
#include "transport.h"

#include "libproto/figures.h"

#include <errno.h>
#include <stdio.h>

enum {
	OPS_MAX = 65536,	/* posted at once, all connections */
	READS_IN = 64,		/* of each client; the fabric cuts it */
};

/* ---- one fabric --------------------------------------------------------- */

/* The device is gone; inside the poller's run. */
static void device_is_gone(void *context)
{
	struct transport *transport = context;

	transport->is_lost = true;
	listeners_lost(transport->server, transport);
	comeback_await(transport->server);
}

static int choose_uri(const struct server *server,
		      const struct listen_config *listen,
		      const struct sockaddr *addr, char *uri, size_t size)
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
	return rf_fabric_route(listen->scheme, addr, access_addr_size(addr),
			       uri, size);
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

int transport_fill(struct server *server, struct transport *transport)
{
	int err = rf_fabric_open(transport->uri, &transport->fabric);

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
	return err;
}

int transport_start(struct server *server, struct transport *transport)
{
	int err = rf_reactor_add_poller(server->reactor, transport->poller);

	transport->is_polled = !err;
	if (!err)
		rf_poller_on_gone(transport->poller, device_is_gone, transport);
	return err;
}

struct transport *transport_find(struct server *server, const char *uri)
{
	for (unsigned int i = 0; i < server->transport_count; i++)
		if (strcmp(server->transports[i].uri, uri) == 0 &&
		    !server->transports[i].is_lost)
			return &server->transports[i];
	return NULL;
}

/* What a device had that went has no name. */
static struct transport *free_place(struct server *server)
{
	for (unsigned int i = 0; i < server->transport_count; i++)
		if (!server->transports[i].uri[0])
			return &server->transports[i];
	if (server->transport_count == SERVER_TRANSPORTS_MAX)
		return NULL;
	return &server->transports[server->transport_count++];
}

struct transport *transport_add(struct server *server, const char *scheme,
				const char *uri)
{
	struct transport *transport = free_place(server);

	if (!transport)
		return NULL;
	*transport = (struct transport){ .server = server };
	snprintf(transport->scheme, sizeof(transport->scheme), "%s", scheme);
	snprintf(transport->uri, sizeof(transport->uri), "%s", uri);
	return transport;
}

/* Remains, for transports_close(), if it can't be filled. */
static int open_transport(struct server *server, const char *scheme,
			  const char *uri, struct transport **out)
{
	struct transport *transport = transport_add(server, scheme, uri);
	int err;

	*out = transport;
	if (!transport)
		return -ENOSPC;
	err = transport_fill(server, transport);
	return err ? err : transport_start(server, transport);
}

static void say_why(const struct listen_config *listen, int err)
{
	enum rf_log_level level = listen->is_wish ? RF_LOG_WARN : RF_LOG_ERROR;

	if (strcmp(listen->scheme, "verbs") == 0 &&
	    (err == -ENETUNREACH || err == -ENODEV))
		rf_log(level, "cannot listen on %s: no RDMA device has this "
		       "address; see rdmafsd --doctor, or listen on iwarp:// "
		       "instead", listen->text);
	else
		rf_log(level, "cannot listen on %s: the fabric '%s' can't be "
		       "used here: %s", listen->text, listen->scheme,
		       strerror(-err));
}

int transport_get(struct server *server, const struct listen_config *listen,
		  const struct sockaddr *addr, struct transport **out)
{
	char uri[TRANSPORT_URI_SIZE];
	int err = choose_uri(server, listen, addr, uri, sizeof(uri));

	if (!err) {
		*out = transport_find(server, uri);
		if (*out && (*out)->is_polled)
			return 0;
		/* One that could not be filled fails again. */
		err = *out ? -ENODEV : open_transport(server, listen->scheme,
						      uri, out);
	}
	if (err == -EOPNOTSUPP && server->config->gid_index != CONFIG_UNSET)
		rf_log(RF_LOG_ERROR, "cannot listen on %s: gid-index is for "
		       "RoCE devices; leave it out, and listen on the address "
		       "that is meant", listen->text);
	else if (err)
		say_why(listen, err);
	return err;
}

void transport_close(struct server *server, struct transport *transport)
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
		transport_close(server, &server->transports[i]);
	server->transport_count = 0;
}

/* ---- what its connections get ------------------------------------------- */

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

bool transport_is_unused(const struct transport *transport)
{
	const struct slices *slices = &transport->slices;

	return transport->users == 0 &&
	       slices->free_count + slices->lost == slices->count;
}

const char *transport_rights(const struct transport *transport)
{
	return transport->has_windows ? "window" : "session";
}

void transports_log_figures(const struct server *server)
{
	for (unsigned int i = 0; i < server->transport_count; i++) {
		const struct transport *transport = &server->transports[i];

		if (!transport->is_polled || transport->is_lost)
			continue;
		rf_log(RF_LOG_INFO, "figures: %s: rights by %s, %u of %u slices "
		       "free", transport->uri, transport_rights(transport),
		       transport->slices.free_count, transport->slices.count);
		rf_figures_log_fabric("figures: ", transport->fabric);
	}
}

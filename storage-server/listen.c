/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen.c - the addresses that a server listens on, and with what
 *
 *	SCHEME://ADDRESS	one listener
 *	iwarp://[::]		one for each family
 *	verbs://[::]		one at each address of each RDMA device
 *	any://ADDRESS		verbs, where there is a device, and iwarp
 *
 * Operation.  With any, the devices come first: an iWARP device takes the TCP
 * port of its address, where it serves clients without a device too; iwarp then
 * listens on each other address instead of on all at once.
 * When it fails.  What was asked for by name must work.  With any, a device that
 * can't be used is said and left out; iwarp must work.
 */
#include "transport.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>

/* ---- addresses ---------------------------------------------------------- */

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

static bool is_wildcard(const struct sockaddr *addr)
{
	const void *in6 = addr, *in = addr;

	if (addr->sa_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(
			&((const struct sockaddr_in6 *)in6)->sin6_addr);
	return ((const struct sockaddr_in *)in)->sin_addr.s_addr == INADDR_ANY;
}

static void set_port(struct sockaddr_storage *addr, uint16_t port)
{
	if (addr->ss_family == AF_INET6)
		((struct sockaddr_in6 *)addr)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)addr)->sin_port = htons(port);
}

static uint16_t port_of(const struct sockaddr_storage *addr)
{
	return ntohs(addr->ss_family == AF_INET6
		     ? ((const struct sockaddr_in6 *)addr)->sin6_port
		     : ((const struct sockaddr_in *)addr)->sin_port);
}

/* An address of this machine that may be listened on for itself. */
static bool is_usable(const struct ifaddrs *at)
{
	if (!at->ifa_addr || !(at->ifa_flags & IFF_UP))
		return false;
	if (at->ifa_addr->sa_family == AF_INET)
		return true;
	/* A link-local one needs its link: by name only. */
	return at->ifa_addr->sa_family == AF_INET6 &&
	       !IN6_IS_ADDR_LINKLOCAL(
		       &((const struct sockaddr_in6 *)(const void *)
			 at->ifa_addr)->sin6_addr);
}

/* [::] means both families where devices are looked for, else each its own. */
static bool is_meant(const struct ifaddrs *at, int family, bool is_verbs)
{
	return is_usable(at) && (at->ifa_addr->sa_family == family ||
				 (is_verbs && family == AF_INET6));
}

/* ---- one listener ------------------------------------------------------- */

static void say_why(const struct listen_config *listen, int err)
{
	enum rf_log_level level = listen->is_wish ? RF_LOG_WARN : RF_LOG_ERROR;

	if (err == -EADDRINUSE)
		rf_log(level, "cannot listen on %s: another program listens "
		       "there; stop it or choose another port", listen->text);
	else if (err == -EADDRNOTAVAIL)
		rf_log(level, "cannot listen on %s: this machine has no such "
		       "address", listen->text);
	else if (err == -EACCES)
		rf_log(level, "cannot listen on %s: ports below 1024 need "
		       "root", listen->text);
	else if (err == -ENOSPC)
		rf_log(level, "cannot listen on %s: these are more than %d "
		       "addresses", listen->text, SERVER_LISTENERS_MAX);
	else
		rf_log(level, "cannot listen on %s: %s", listen->text,
		       strerror(-err));
}

static int open_one(struct listener *listener, struct transport *transport)
{
	const struct sockaddr *addr = (const struct sockaddr *)&listener->addr;
	int err = rf_listener_open(transport->poller, addr,
				   access_addr_size(addr), greet, listener,
				   &listener->listener);

	if (err)
		return err;
	listener->transport = transport;
	/* With the port that was chosen, for next time. */
	return rf_listener_address(listener->listener, &listener->addr);
}

/* *is_said: the error was logged. */
static int listen_at(struct server *server, const struct listen_config *listen,
		     const struct sockaddr *addr, bool *is_said)
{
	struct listener *listener;
	struct transport *transport;
	int err;

	*is_said = false;
	if (server->listener_count == SERVER_LISTENERS_MAX)
		return -ENOSPC;
	err = transport_get(server, listen, addr, &transport);
	*is_said = err;
	if (err)
		return err;
	listener = &server->listeners[server->listener_count];
	*listener = (struct listener){ .server = server };
	memcpy(&listener->addr, addr, access_addr_size(addr));
	err = open_one(listener, transport);
	if (!err)
		server->listener_count++;
	return err;
}

/* The same, and say why not. */
static int listen_or_say(struct server *server,
			 const struct listen_config *listen,
			 const struct sockaddr *addr)
{
	bool is_said;
	int err = listen_at(server, listen, addr, &is_said);

	if (err && !is_said)
		say_why(listen, err);
	return err;
}

/* ---- verbs on all devices, and any --------------------------------------- */

/* One with another scheme, at an address of this machine. */
static struct listen_config narrow(const struct listen_config *from,
				   const char *scheme,
				   const struct sockaddr *addr)
{
	struct listen_config listen = *from;
	char text[ACCESS_TEXT_SIZE];

	snprintf(listen.scheme, sizeof(listen.scheme), "%s", scheme);
	snprintf(listen.text, sizeof(listen.text), "%s://%s", scheme,
		 access_text(addr, text));
	return listen;
}

static bool has_device(const struct sockaddr *addr)
{
	char uri[TRANSPORT_URI_SIZE];

	return rf_fabric_route("verbs", addr, access_addr_size(addr), uri,
			       sizeof(uri)) == 0;
}

/* A port that was chosen for the first listener is for those after it as well. */
static void keep_port(const struct server *server, unsigned int first,
		      struct sockaddr_storage *addr)
{
	struct sockaddr_storage chosen;

	if (port_of(addr) == 0 && server->listener_count > first &&
	    server_address(server, first, &chosen) == 0)
		set_port(addr, port_of(&chosen));
}

/* Does the listener serve iwarp at this address already? */
static bool serves_iwarp(const struct listener *listener,
			 const struct sockaddr_storage *addr)
{
	return rf_fabric_traits(listener->transport->fabric)->takes_tcp_ports &&
	       access_is_same((const struct sockaddr *)&listener->addr,
			      (const struct sockaddr *)addr);
}

static bool is_served(const struct server *server, unsigned int first,
		      const struct sockaddr_storage *addr)
{
	for (unsigned int i = first; i < server->listener_count; i++)
		if (serves_iwarp(&server->listeners[i], addr))
			return true;
	return false;
}

/*
 * Listen by scheme on each address of this machine: verbs where a device has it,
 * iwarp where no device serves it.
 */
static int listen_on_all(struct server *server,
			 const struct listen_config *listen,
			 const char *scheme, unsigned int first,
			 const struct sockaddr_storage *wildcard)
{
	bool is_verbs = strcmp(scheme, "verbs") == 0;
	struct ifaddrs *all, *at;
	int err = 0;

	if (getifaddrs(&all) < 0)
		return -errno;
	for (at = all; at && !err; at = at->ifa_next) {
		struct sockaddr_storage addr = { .ss_family = AF_UNSPEC };
		const struct sockaddr *sa = (const struct sockaddr *)&addr;
		struct listen_config one;

		if (!is_meant(at, wildcard->ss_family, is_verbs))
			continue;
		memcpy(&addr, at->ifa_addr, access_addr_size(at->ifa_addr));
		set_port(&addr, port_of(wildcard));
		keep_port(server, first, &addr);
		if (is_verbs ? at->ifa_flags & IFF_LOOPBACK || !has_device(sa)
			     : is_served(server, first, &addr))
			continue;
		one = narrow(listen, scheme, sa);
		one.is_wish = is_verbs && listen->is_wish;
		err = listen_or_say(server, &one, sa);
		if (one.is_wish)
			err = 0;
	}
	freeifaddrs(all);
	return err;
}

static void say_only_iwarp(const char *what)
{
	rf_log(RF_LOG_INFO, "no RDMA device has %s; clients come over TCP "
	       "(iwarp)", what);
}

static int listen_on_devices(struct server *server,
			     const struct listen_config *listen,
			     const struct sockaddr_storage *addr)
{
	unsigned int first = server->listener_count;
	int err = listen_on_all(server, listen, "verbs", first, addr);

	if (err || server->listener_count > first)
		return err;
	if (listen->is_wish) {
		say_only_iwarp("an address here");
		return 0;
	}
	rf_log(RF_LOG_ERROR, "cannot listen on %s: no RDMA device with an "
	       "address is here; see rdmafsd --doctor, or listen on any:// or "
	       "iwarp:// instead", listen->text);
	return -ENODEV;
}

/* iwarp at one address, or of one family; first: where this began. */
static int listen_on_iwarp(struct server *server,
			   const struct listen_config *listen,
			   unsigned int first,
			   const struct sockaddr_storage *addr, bool *is_said)
{
	const struct sockaddr *sa = (const struct sockaddr *)addr;
	int err;

	*is_said = false;
	if (is_served(server, first, addr))
		return 0;
	err = listen_at(server, listen, sa, is_said);
	if (err != -EADDRINUSE || !is_wildcard(sa) ||
	    server->listener_count == first)
		return err;
	*is_said = true;
	return listen_on_all(server, listen, "iwarp", first, addr);
}

/* [::]: IPv6, where this machine has it, and IPv4. */
static int listen_on_both(struct server *server,
			  const struct listen_config *listen,
			  unsigned int first, struct sockaddr_storage *addr,
			  bool *is_said)
{
	struct sockaddr_storage v4 = { .ss_family = AF_INET };
	int err = listen_on_iwarp(server, listen, first, addr, is_said);

	if (err && err != -EAFNOSUPPORT && err != -EADDRNOTAVAIL)
		return err;
	set_port(&v4, port_of(addr));
	keep_port(server, first, &v4);
	return listen_on_iwarp(server, listen, first, &v4, is_said);
}

static int listen_on_any(struct server *server, struct listen_config listen,
			 struct sockaddr_storage *addr, bool *is_said)
{
	const struct sockaddr *sa = (const struct sockaddr *)addr;
	unsigned int first = server->listener_count;
	struct listen_config iwarp;

	listen.is_wish = true;
	if (is_wildcard(sa)) {
		listen_on_devices(server, &listen, addr);
	} else if (has_device(sa)) {
		struct listen_config verbs = narrow(&listen, "verbs", sa);

		listen_or_say(server, &verbs, sa);
	} else {
		say_only_iwarp(listen.host);
	}
	keep_port(server, first, addr);
	iwarp = narrow(&listen, "iwarp", sa);
	iwarp.is_wish = false;
	return is_wildcard(sa) && sa->sa_family == AF_INET6
	       ? listen_on_both(server, &iwarp, first, addr, is_said)
	       : listen_on_iwarp(server, &iwarp, first, addr, is_said);
}

/* ---- all of it ---------------------------------------------------------- */

static int listen_on(struct server *server, const struct listen_config *listen,
		     struct sockaddr_storage *addr, bool *is_said)
{
	const struct sockaddr *sa = (const struct sockaddr *)addr;

	if (strcmp(listen->scheme, "any") == 0)
		return listen_on_any(server, *listen, addr, is_said);
	if (strcmp(listen->scheme, "verbs") == 0 && is_wildcard(sa)) {
		*is_said = true;
		return listen_on_devices(server, listen, addr);
	}
	if (strcmp(listen->scheme, "iwarp") == 0 && is_wildcard(sa) &&
	    sa->sa_family == AF_INET6)
		return listen_on_both(server, listen, server->listener_count,
				      addr, is_said);
	return listen_at(server, listen, sa, is_said);
}

static int open_listener(struct server *server,
			 const struct listen_config *listen)
{
	struct sockaddr_storage addr = { .ss_family = AF_UNSPEC };
	struct addrinfo *found;
	bool is_said;
	int err = resolve(listen, &found);

	if (err)
		return err;
	memcpy(&addr, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	err = listen_on(server, listen, &addr, &is_said);
	if (err && !is_said)
		say_why(listen, err);
	return err;
}

int transports_open(struct server *server)
{
	const struct config *config = server->config;

	for (unsigned int i = 0; i < config->listen_count; i++) {
		int err = open_listener(server, &config->listens[i]);

		if (err)
			return err;
	}
	return 0;
}

static void announce(const struct listener *listener)
{
	const struct transport *transport = listener->transport;
	char text[ACCESS_TEXT_SIZE];

	rf_log(RF_LOG_INFO, "ready: listening on %s://%s (%s, rights by %s)",
	       transport->scheme,
	       access_text((const struct sockaddr *)&listener->addr, text),
	       transport->uri, transport_rights(transport));
}

void transports_announce(const struct server *server)
{
	for (unsigned int i = 0; i < server->listener_count; i++)
		announce(&server->listeners[i]);
}

void transports_stop_listening(struct server *server)
{
	comeback_stop(server);
	while (server->listener_count > 0) {
		struct listener *last =
			&server->listeners[--server->listener_count];

		if (last->listener)
			rf_listener_close(last->listener);
	}
}

/* ---- devices that go and come back ---------------------------------------- */

void listeners_lost(struct server *server, const struct transport *transport)
{
	for (unsigned int i = 0; i < server->listener_count; i++) {
		struct listener *listener = &server->listeners[i];
		char text[ACCESS_TEXT_SIZE];

		if (!listener->listener || listener->transport != transport)
			continue;
		rf_listener_close(listener->listener);
		listener->listener = NULL;
		listener->said_err = 0;
		access_text((const struct sockaddr *)&listener->addr, text);
		rf_log(RF_LOG_WARN, "%s is gone: nobody can connect to %s://%s "
		       "until it is back; all else goes on", transport->uri,
		       transport->scheme, text);
	}
}

void listener_return(struct listener *listener, struct transport *transport)
{
	int err = open_one(listener, transport);
	char text[ACCESS_TEXT_SIZE];

	if (!err) {
		announce(listener);
		return;
	}
	if (err != listener->said_err)
		rf_log(RF_LOG_WARN, "cannot listen on %s://%s again: %s; trying "
		       "on", transport->scheme,
		       access_text((const struct sockaddr *)&listener->addr,
				   text), strerror(-err));
	listener->said_err = err;
}

int server_address(const struct server *server, unsigned int index,
		   struct sockaddr_storage *out)
{
	if (index >= server->listener_count)
		return -ENOENT;
	*out = server->listeners[index].addr;
	return 0;
}


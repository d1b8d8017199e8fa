/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport.h - the fabrics that a server listens on
 *
 * Threads.  [owner] of the server.  Errors.  Logged where they are found.
 */
#ifndef TRANSPORT_H
#define TRANSPORT_H

#include "server.h"

/* ---- transport.c: fabrics ----------------------------------------------- */

/* The fabric that serves addr, opened if it is the first address of its. */
int transport_get(struct server *server, const struct listen_config *listen,
		  const struct sockaddr *addr, struct transport **out);
/* The one of this URI that can be used; NULL: there is none. */
struct transport *transport_find(struct server *server, const char *uri);
/* A place for one, to be filled and then started; NULL: all are taken. */
struct transport *transport_add(struct server *server, const char *scheme,
				const char *uri);
/* After an error it can be closed.  [any] [blocks] */
int transport_fill(struct server *server, struct transport *transport);
int transport_start(struct server *server, struct transport *transport);
/* No connection is left, and no listener: it may be closed. */
bool transport_is_unused(const struct transport *transport);
/* Its place is free then. */
void transport_close(struct server *server, struct transport *transport);
/* "window" or "session": what a right is tied to. */
const char *transport_rights(const struct transport *transport);

/* ---- listen.c: addresses ------------------------------------------------ */

/* Listen on each address of the configuration. */
int transports_open(struct server *server);

/* One line per address: scripts wait for it. */
void transports_announce(const struct server *server);

void transports_stop_listening(struct server *server);

/* The transport's device is gone, and they with it: said. */
void listeners_lost(struct server *server, const struct transport *transport);
/* Again, on this transport; said, once for each reason if it can't be. */
void listener_return(struct listener *listener, struct transport *transport);

/* ---- comeback.c: devices that were taken away ---------------------------- */

int comeback_init(struct server *server);
/* A device is gone: let go of it, and listen again when it is back. */
void comeback_await(struct server *server);
void comeback_stop(struct server *server);
/* False: something of it is under way. */
bool comeback_is_idle(const struct server *server);
void comeback_fini(struct server *server);

/* ---- transport.c again -------------------------------------------------- */

/* No endpoint may be left. */
void transports_close(struct server *server);

void transports_log_figures(const struct server *server);

#endif /* TRANSPORT_H */

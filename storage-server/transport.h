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
/* "window" or "session": what a right is tied to. */
const char *transport_rights(const struct transport *transport);

/* ---- listen.c: addresses ------------------------------------------------ */

/* Listen on each address of the configuration. */
int transports_open(struct server *server);

/* One line per address: scripts wait for it. */
void transports_announce(const struct server *server);

void transports_stop_listening(struct server *server);

/* ---- transport.c again -------------------------------------------------- */

/* No endpoint may be left. */
void transports_close(struct server *server);

void transports_log_figures(const struct server *server);

#endif /* TRANSPORT_H */

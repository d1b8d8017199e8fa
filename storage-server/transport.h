/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport.h - the fabrics that a server listens on
 *
 * Threads.  [owner] of the server.  Errors.  Logged where they are found.
 */
#ifndef TRANSPORT_H
#define TRANSPORT_H

#include "server.h"

/* Open a fabric for each scheme that is listened on, register the arena, make
 * the windows, listen. */
int transports_open(struct server *server);

/* One line per address: scripts wait for it. */
void transports_announce(const struct server *server);

void transports_stop_listening(struct server *server);
/* No endpoint may be left. */
void transports_close(struct server *server);

void transports_log_figures(const struct server *server);

#endif /* TRANSPORT_H */

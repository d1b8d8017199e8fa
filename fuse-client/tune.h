/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune.h - rdmafs tune: which settings suit a pair of hosts
 *
 *	tune.c         the command; connecting, the sweep, what is printed
 *	tune_serve.c   the other host
 *	tune_end.c     one end of the connection, blocks to and fro
 *	tune_choose.c  from figures to settings
 */
#ifndef TUNE_H
#define TUNE_H

#include "client.h"

enum { TUNE_PORT = RF_DEFAULT_PORT + 1, TUNE_MESSAGE_MAX = 4096 };

/* "rdmafs tune ...": the exit status; why it failed was said. */
int tune_command(int argc, char **argv);

/* Until SIGINT or SIGTERM.  The exit status. */
int tune_serve(const struct mount_options *options);

/* "Where" as a mount's source without an export; TUNE_PORT if no port is said.
 * False: said. */
bool tune_take_address(struct mount_options *options, const char *where);

/* What the options say of a fabric. */
struct rf_tuning tune_of_options(const struct mount_options *options);

struct addrinfo;
/* The addresses of options->host, to be freed; NULL: said. */
struct addrinfo *tune_resolve(const struct mount_options *options,
			      bool is_passive);

#endif /* TUNE_H */

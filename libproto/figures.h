/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figures.h - a running program tells its figures to whoever may ask
 *
 * It listens on the abstract Unix socket "rdmafs-figures.PID" of its network
 * namespace.  Who connects (root, or the user that it runs as) is given the
 * lines that SIGUSR1 writes to the log, and the end of the file; others get the
 * end of the file only.  Nothing is read from who asks.
 *
 * Figures for programs are lines "WORD: NAME=VALUE NAME=VALUE ...".
 */
#ifndef RF_FIGURES_H
#define RF_FIGURES_H

#include "fabric.h"
#include "reactor.h"

enum { RF_FIGURES_MAX = 8192 };		/* bytes; whole lines, the rest is cut */

struct rf_figures {
	/* Logs the figures, by rf_log(). */
	void (*log)(void *context);
	void *context;
	struct rf_reactor *reactor;	/* private from here on */
	struct rf_watch watch;
	int fd;
};

/* [owner of reactor]  -EADDRINUSE and so on: it then goes on without. */
int rf_figures_open(struct rf_figures *figures, struct rf_reactor *reactor);
/* Harmless if not open.  [owner] */
void rf_figures_close(struct rf_figures *figures);

/* One line of a fabric's counters, to the log.  [any] */
void rf_figures_log_fabric(const char *word, const struct rf_fabric *fabric);

/*
 * Ask the program pid, at most wait_ms.  [blocks]
 * -ENOENT: it does not listen (here); -EACCES: it does not tell us; -EPERM:
 * another program has taken its name.
 */
int rf_figures_read(int pid, unsigned int wait_ms, char out[RF_FIGURES_MAX]);

#endif /* RF_FIGURES_H */

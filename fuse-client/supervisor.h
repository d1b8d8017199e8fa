/* SPDX-License-Identifier: Apache-2.0 */
/*
 * supervisor.h - the process that outlives the daemon
 *
 *	rdmafs mount
 *	    supervisor		holds /dev/fuse and the kept memory (keep.h)
 *		daemon		serves the mount; fs.h
 *		successor	... after the daemon died, or handed over
 *
 * Supervisor and daemon share a socket of packets, of one byte each; the daemon's
 * MOUNTED carries /dev/fuse.  The supervisor has one thread and no state but
 * descriptors, so there is little in it that could fail.
 */
#ifndef SUPERVISOR_H
#define SUPERVISOR_H

#include "client.h"

enum supervisor_word {
	/* from the daemon */
	SUPERVISOR_MOUNTED = 'M',	/* with /dev/fuse */
	SUPERVISOR_READY = 'R',		/* it serves */
	SUPERVISOR_BUSY = 'B',		/* it can't hand over now */
	/* to it */
	SUPERVISOR_HAND_OVER = 'H',
};

/* The daemon's exit status when it has handed over. */
enum { EXIT_HANDED_OVER = 3 };

struct keep;

/* fd: goes along, or -1.  False: nobody listens. */
bool supervisor_tell(int control_fd, enum supervisor_word word, int fd);
/* The next word; 0: there is none; -1: the other end is gone.  fd: what came
 * along, or -1. */
int supervisor_hear(int control_fd, int *fd);

/*
 * What the first daemon does, in a process of its own: connect, mount, tell
 * MOUNTED and READY, serve.  Its exit status.
 */
typedef int supervisor_serve(struct keep *keep, int control_fd);

/*
 * Have the mount of these options served until it is unmounted.  ready_fd: as
 * background_ready() has it, or -1 in the foreground.  The exit status.
 * [blocks]
 */
int supervise(const struct mount_options *options, int ready_fd,
	      supervisor_serve *serve);

/*
 * No daemon lives long enough: every request fails with EIO until the mount is
 * unmounted, or a signal comes; its number, or 0.  [blocks]
 */
int last_resort(struct keep *keep, int fuse_fd, int signal_fd);

/* ---- upgrade.c ------------------------------------------------------------ */

/* Where the supervisor of the mount with this device listens.  -1: nowhere. */
int upgrade_listen(const char *device);
/* Somebody has asked: the program to go on with, and asker for the answer.  -1:
 * nobody who may. */
int upgrade_accept(int listener, int *asker);
/* Tell the asker ("": it has worked), and close it. */
void upgrade_answer(int asker, const char *why_not);
/* rdmafs upgrade MOUNTPOINT.  The exit status; why it failed was said. */
int upgrade(const char *mountpoint);

#endif /* SUPERVISOR_H */

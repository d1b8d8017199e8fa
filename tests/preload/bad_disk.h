/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bad_disk.h - a disk that fails: errors put in the place of system calls on files
 *
 * bad_disk.c defines the calls by which the store and its engine reach their
 * files.  Linked into a test it stands before libc, also for the engine's library;
 * loaded by LD_PRELOAD it does so in a server.  What fails is told by rules, text
 * of a line each:
 *
 *	CALL PATH ERROR [SKIP [COUNT]]
 *
 * CALL is open, read, write, sync, allocate, truncate, unlink, copy or any; PATH a
 * part of the file's path; ERROR EIO, ENOSPC, EROFS, EMFILE, "short": half of
 * what was to be written is, or "hang": it waits until no rule says so any more.  SKIP
 * calls pass (0), then COUNT fail (all).  The first rule that has the call and the path
 * counts.  A failing call has no effect.
 *
 * The rules of a test are those of bad_disk_set(); of a preloaded server, those in
 * the file that BAD_DISK names, read at each call, so that it can be changed.
 *
 * Threads.  [any].
 */
#ifndef TESTS_BAD_DISK_H
#define TESTS_BAD_DISK_H

/* Rules from now on, counted anew; "": the disk is well. */
void bad_disk_set(const char *rules);
/* Calls that failed since then. */
unsigned int bad_disk_failures(void);

#endif /* TESTS_BAD_DISK_H */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fill_store.c - a store with many files, as a server leaves it that was killed
 *
 *	fill_store STORE FILES
 *
 * Makes FILES empty files in directories of 1000 in the export "/" of a new STORE,
 * through the server's own store, and ends without closing it: the next server has
 * a log to replay.
 */
#include "storage-server/store.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_OF_DIR = 1000, FILES_OF_TURN = 16 };

static struct cred cred = { .is_super = true };

static uint64_t make(struct store *store, uint64_t dir, unsigned long number,
		     uint32_t mode)
{
	struct txn *txn = txn_begin(store);
	struct make_args args = { .dir = dir, .mode = mode };
	rf_attr_t attr;
	char name[32];
	int error;

	snprintf(name, sizeof(name), "%c%lu", S_ISDIR(mode) ? 'd' : 'f', number);
	args.name = (rf_name_t){ name, (uint16_t)strlen(name) };
	error = txn_make(txn, &cred, &args, &attr);
	if (!error)
		error = txn_commit(txn);
	if (error)
		errx(1, "%s: %s", name, strerror(-error));
	return attr.inode;
}

int main(int argc, char **argv)
{
	struct store_config config = { .object_cache = 64 };
	unsigned long files, i;
	struct store *store;
	uint64_t dir = 0;

	if (argc != 3) {
		fprintf(stderr, "usage: fill_store STORE FILES\n");
		return 2;
	}
	config.dir = argv[1];
	cred.uid = geteuid();
	cred.gid = getegid();
	files = strtoul(argv[2], NULL, 10);
	if (rf_reactor_create(&config.reactor) ||
	    rf_workers_create("fill", 1, &config.workers) ||
	    store_open(&config, &store))
		errx(1, "%s: can't be opened", argv[1]);
	for (i = 0; i < files; i++) {
		if (i % FILES_OF_DIR == 0)
			dir = make(store, STORE_ROOT_INODE, i / FILES_OF_DIR,
				   S_IFDIR | 0755);
		make(store, dir, i, S_IFREG | 0644);
		if (i % FILES_OF_TURN == 0 && store_flush(store))
			errx(1, "the log can't be written");
		rf_reactor_turn(config.reactor, 0);
	}
	if (store_flush(store))
		errx(1, "the log can't be written");
	_exit(0);
}

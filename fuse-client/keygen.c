/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keygen.c - rdmafs keygen FILE: a new cluster key
 *
 * Operation.  The file is made with mode 0600 and never overwritten: whoever
 * replaces the key of a running cluster locks its clients out, so that must be
 * done by hand.
 */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int keygen(const char *path)
{
	int err = rf_key_generate(path);

	if (err == -EEXIST) {
		complain("%s exists already; it was not touched (remove it "
			 "first if no server or client uses it)", path);
		return EXIT_FAILURE;
	}
	if (err) {
		complain("can't write %s: %s", path, strerror(-err));
		return EXIT_FAILURE;
	}
	printf("wrote a new key to %s (mode 0600); the server and every client "
	       "need a copy, nobody else may have one\n", path);
	return EXIT_SUCCESS;
}

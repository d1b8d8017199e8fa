/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scratch.h - what a test leaves on the disk, and the programs beside it
 */
#ifndef SCRATCH_H
#define SCRATCH_H

#include <stddef.h>

/* Remove path and all below it; 0, or -1 with errno.  A missing path is an error. */
int scratch_remove(const char *path);

/*
 * Where rdmafsd is: in the variable RDMAFSD, or in the build that this test is
 * of.  The test is skipped if it is not there.
 */
void scratch_find_server(char *out, size_t size);

#endif /* SCRATCH_H */

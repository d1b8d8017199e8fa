/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.h - is a directory tree as the model has it, as far as programs can see?
 *
 * Names, types, modes, owners, link counts and which names are one inode, sizes,
 * contents, link targets, extended attributes.  Times only where they were set to
 * something before TREE_OLD: all others tell when the test ran.  Not the sizes of
 * directories, nor blocks, nor atime: file systems differ there.
 */
#ifndef TREE_H
#define TREE_H

#include <stdbool.h>
#include <sys/stat.h>

/* Seconds: stamps before it were set by somebody, and must be equal. */
#define TREE_OLD 1500000000

/* Is all below folder as in the model?  Else campaign_fault(). */
bool tree_is_right(int folder, bool has_xattrs);
/* One object. */
bool tree_stat_is_right(const char *path, const struct stat *wanted,
			const struct stat *got);
/* Remove name and all below it, whatever its modes. */
void tree_remove(int folder, const char *name);

#endif /* TREE_H */

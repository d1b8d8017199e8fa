/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.h - are two directory trees the same, as far as programs can see?
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

/* The same names below folders a and b?  Else campaign_fault(). */
bool tree_is_same(int a, int b, bool has_xattrs);
/* One object. */
bool tree_stat_is_same(const char *path, const struct stat *a,
		       const struct stat *b);
/* Remove name and all below it, whatever its modes. */
void tree_remove(int folder, const char *name);

#endif /* TREE_H */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h - a name space in memory: what the calls of actors must give
 *
 * Operation.  It has directories, files with their bytes, links, nodes and extended
 * attributes, and answers each call as Linux and ext4 do, rights included.  It
 * holds what one round makes; names have one letter, from 'a' on.  Its clock
 * ticks once a call, so that each change moves the times it should.
 *
 * Sources: POSIX.1-2017; path_resolution(7), inode(7), xattr(7), symlink(7); the
 * manual page of each call; for links and special files in sticky directories
 * the kernel's sysctl/fs.rst (what is set on this machine is obeyed).
 */
#ifndef MODEL_H
#define MODEL_H

#include "actor.h"

enum {
	MODEL_NAMES = 8,	/* in a directory: 'a' and so on */
	MODEL_TEXT = 65536,
};

/* Forget all but an empty directory with these owner, group and mode. */
void model_start(const struct stat *root);

void model_call(unsigned int actor, unsigned int side, const struct call *call,
		struct answer *answer);

/* What lstat() gives the first actor: 0 or errno. */
int model_lstat(const char *path, struct stat *st);

/* Is what this slot has open without a name?  Directories: removed. */
bool model_slot_is_nameless(unsigned int slot);

/* Names in a directory, one letter each; false: it can't be read. */
bool model_names(const char *path, char out[MODEL_NAMES + 1]);
/* Up to MODEL_TEXT bytes of a file, or a link's target; negative: errno. */
long model_text(const char *path, char *out);
/* "name=value;" of each extended attribute, sorted, ended by NUL. */
void model_xattrs(const char *path, char *out, size_t room);

#endif /* MODEL_H */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.h - open files and directories: what fh means
 *
 * Threads.  [owner].
 */
#ifndef FILES_H
#define FILES_H

#include "inodes.h"

enum { FILES_MAX = 1 << 16 };

struct file {
	struct table_item item;		/* first; its number is fh */
	struct inode *inode;		/* referenced */
	uint32_t open;			/* the server's number */
	bool is_direct;			/* past the page cache */
	bool is_parallel;		/* its writers don't take turns */
	bool is_append;
	/* for RECLAIM */
	uint32_t wire_flags;
	uint64_t tag;
	uint32_t generation;		/* of the session */
	bool is_dead;			/* a lock was lost, or it is_gone */
	bool is_gone;			/* at the server */
	bool is_released;		/* closed, the server is to be told */
	struct rf_list release_link;
};

struct keep_files;

struct files {
	struct table table;
	struct keep_files *kept;	/* for a successor, or NULL */
};

int files_init(struct files *files);
void files_fini(struct files *files);

/* Takes a reference of the inode.  NULL: FILES_MAX. */
struct file *files_add(struct files *files, struct inode *inode, uint32_t open);
/* Before the kernel learns of it, and when what it is has changed. */
void files_keep(struct files *files, const struct file *file);
/* A successor's, after inodes_restore(): those that are kept.  -ENOMEM. */
int files_restore(struct files *files, const struct inodes *inodes);
struct file *files_find(const struct files *files, uint64_t fh);
uint32_t files_open(const struct files *files);
void files_remove(struct files *files, struct inodes *inodes,
		  struct file *file);

static inline uint64_t file_fh(const struct file *file)
{
	return table_number(&file->item);
}

#endif /* FILES_H */

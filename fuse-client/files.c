/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.c - open files and directories: what fh means
 */
#include "files.h"

#include "keep.h"

#include <errno.h>

enum {
	KEPT_DIRECT = 1 << 0,
	KEPT_PARALLEL = 1 << 1,
	KEPT_APPEND = 1 << 2,
	KEPT_DEAD = 1 << 3,
	KEPT_RELEASED = 1 << 4,
	KEPT_GONE = 1 << 5,
};

int files_init(struct files *files)
{
	return table_init(&files->table, sizeof(struct file), FILES_MAX);
}

void files_fini(struct files *files)
{
	table_fini(&files->table);
}

static void set(struct file *file, struct inode *inode, uint32_t open)
{
	file->inode = inode;
	inode->refs++;
	inode->file_count++;
	file->open = open;
	rf_list_init(&file->release_link);
}

struct file *files_add(struct files *files, struct inode *inode, uint32_t open)
{
	struct file *file = table_take(&files->table);

	if (file)
		set(file, inode, open);
	return file;
}

void files_keep(struct files *files, const struct file *file)
{
	struct keep_file *kept;

	if (!files->kept)
		return;
	kept = &files->kept->v[file->item.index];
	kept->tag = file->tag;
	kept->generation = file->item.generation;
	kept->inode = file->inode->item.index;
	kept->open = file->open;
	kept->wire_flags = file->wire_flags;
	kept->session = file->generation;
	kept->flags = (file->is_direct ? KEPT_DIRECT : 0u) |
		      (file->is_parallel ? KEPT_PARALLEL : 0u) |
		      (file->is_append ? KEPT_APPEND : 0u) |
		      (file->is_dead ? KEPT_DEAD : 0u) |
		      (file->is_released ? KEPT_RELEASED : 0u) |
		      (file->is_gone ? KEPT_GONE : 0u);
	rf_store_kept(&kept->is_taken, 1);
	keep_use(&files->kept->used, file->item.index);
}

static void restore(struct file *file, struct inode *inode,
		    const struct keep_file *kept)
{
	set(file, inode, kept->open);
	file->tag = kept->tag;
	file->wire_flags = kept->wire_flags;
	file->generation = kept->session;
	file->is_direct = kept->flags & KEPT_DIRECT;
	file->is_parallel = kept->flags & KEPT_PARALLEL;
	file->is_append = kept->flags & KEPT_APPEND;
	file->is_dead = kept->flags & KEPT_DEAD;
	file->is_released = kept->flags & KEPT_RELEASED;
	file->is_gone = kept->flags & KEPT_GONE;
}

int files_restore(struct files *files, const struct inodes *inodes)
{
	for (uint32_t i = 1; i <= files->kept->used; i++) {
		const struct keep_file *kept = &files->kept->v[i];
		struct inode *inode = table_at(&inodes->table, kept->inode);
		bool is_taken = kept->is_taken && inode;
		struct file *file = table_restore(&files->table,
						  kept->generation, is_taken);

		if (!file)
			return -ENOMEM;
		if (is_taken)
			restore(file, inode, kept);
	}
	return 0;
}

struct file *files_find(const struct files *files, uint64_t fh)
{
	return table_find(&files->table, fh);
}

uint32_t files_open(const struct files *files)
{
	return files->table.taken;
}

void files_remove(struct files *files, struct inodes *inodes, struct file *file)
{
	if (files->kept)
		rf_store_kept(&files->kept->v[file->item.index].is_taken, 0);
	file->inode->file_count--;
	inodes_put(inodes, file->inode);
	table_give(&files->table, file);
}

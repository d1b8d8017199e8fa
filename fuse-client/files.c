/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.c - open files and directories: what fh means
 */
#include "files.h"

int files_init(struct files *files)
{
	return table_init(&files->table, sizeof(struct file), FILES_MAX);
}

void files_fini(struct files *files)
{
	table_fini(&files->table);
}

struct file *files_add(struct files *files, struct inode *inode, uint32_t open)
{
	struct file *file = table_take(&files->table);

	if (!file)
		return NULL;
	file->inode = inode;
	inode->refs++;
	inode->file_count++;
	file->open = open;
	rf_list_init(&file->release_link);
	return file;
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
	file->inode->file_count--;
	inodes_put(inodes, file->inode);
	table_give(&files->table, file);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_slots.c - the model's open files
 */
#include "model_nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum { READ_SIZE = 200 };	/* as actors read */

static struct {
	unsigned int node;	/* 0: nothing is open */
	unsigned int side;
	int flags;
} slots[ACTOR_SLOTS];

void model_forget_slots(void)
{
	memset(slots, 0, sizeof(slots));
}

bool model_slot_is_nameless(unsigned int slot)
{
	return node_of(slots[slot].node)->nlink == 0;
}

static bool is_readable(int flags)
{
	return !(flags & O_PATH) && (flags & O_ACCMODE) != O_WRONLY;
}

static bool is_writable(int flags)
{
	return !(flags & O_PATH) && (flags & O_ACCMODE) != O_RDONLY;
}

/* ---- open and close ------------------------------------------------------- */

static int mask_of(int flags)
{
	return (is_readable(flags) ? R_OK : 0) |
	       (is_writable(flags) || flags & O_TRUNC ? W_OK : 0);
}

/* Each mount has a pipe of its own. */
static int open_special(const struct caller *by, const struct node *node)
{
	if (S_ISSOCK(node->mode))
		return ENXIO;
	return S_ISFIFO(node->mode) && !is_readable(by->c->flags) &&
	       node->readers[by->side] == 0 ? ENXIO : 0;
}

/* Devices can't be opened: nodev. */
static int may_open(const struct caller *by, const struct node *node)
{
	int flags = by->c->flags, err;

	if (flags & O_DIRECTORY && !S_ISDIR(node->mode))
		return ENOTDIR;
	if (flags & O_PATH)
		return 0;
	if (S_ISLNK(node->mode))
		return ELOOP;
	if (S_ISDIR(node->mode) && mask_of(flags) & W_OK)
		return EISDIR;
	if (S_ISCHR(node->mode) || S_ISBLK(node->mode))
		return EACCES;
	err = model_permit(by->who, node, mask_of(flags));
	return err ? err : open_special(by, node);
}

static int open_existing(const struct caller *by, const struct place *place)
{
	struct node *node = node_of(place->node);
	int flags = by->c->flags, err = 0;

	if (flags & O_CREAT && flags & O_EXCL)
		return EEXIST;
	if (flags & O_CREAT && S_ISDIR(node->mode))
		return EISDIR;
	if (flags & O_CREAT)
		err = model_may_create_over(by->who, node_of(place->dir), node);
	if (!err)
		err = may_open(by, node);
	if (!err && flags & O_TRUNC && S_ISREG(node->mode)) {
		model_resize(node, 0);
		model_data_changed(by->who, node);
	}
	return err;
}

static int open_new(const struct caller *by, struct place *place)
{
	int err = by->c->flags & O_CREAT ?
		  model_may_create(by->who, place) : ENOENT;

	if (err)
		return err;
	place->node = model_make_file(by, place->dir, S_IFREG);
	model_enter(place->dir, place->name, place->node);
	return 0;
}

int model_open(struct caller *by)
{
	int flags = by->c->flags;
	bool follows = !(flags & O_NOFOLLOW) &&
		       !(flags & O_CREAT && flags & O_EXCL);
	struct place place;
	int err = model_walk(by, MODEL_ROOT, by->c->path, follows, &place);

	if (!err)
		err = place.node ? open_existing(by, &place) :
				   open_new(by, &place);
	if (err)
		return err;
	slots[by->c->slot].node = place.node;
	slots[by->c->slot].side = by->side;
	slots[by->c->slot].flags = flags;
	if (is_readable(flags))
		node_of(place.node)->readers[by->side]++;
	return 0;
}

int model_close(struct caller *by)
{
	unsigned int slot = by->c->slot;

	if (is_readable(slots[slot].flags))
		node_of(slots[slot].node)->readers[slots[slot].side]--;
	slots[slot].node = 0;
	return 0;
}

/* ---- calls by descriptor -------------------------------------------------- */

static struct node *opened(const struct caller *by)
{
	return node_of(slots[by->c->slot].node);
}

static int flags_of(const struct caller *by)
{
	return slots[by->c->slot].flags;
}

int model_fstat(struct caller *by)
{
	model_stat(slots[by->c->slot].node, &by->out->st);
	return 0;
}

static int by_slot(struct caller *by,
		   int (*change)(struct caller *by, struct node *node))
{
	return flags_of(by) & O_PATH ? EBADF : change(by, opened(by));
}

int model_fchmod(struct caller *by)
{
	return by_slot(by, model_change_mode);
}

int model_fchown(struct caller *by)
{
	return by_slot(by, model_change_owner);
}

int model_futimens(struct caller *by)
{
	return model_times_are_omitted(by->c) ? 0 :
	       by_slot(by, model_change_times);
}

int model_fxattr(struct caller *by)
{
	return by_slot(by, model_use_xattr);
}

static int change_size(struct caller *by, struct node *node)
{
	if (!S_ISREG(node->mode) || !is_writable(flags_of(by)))
		return EINVAL;
	model_resize(node, (size_t)by->c->size);
	model_data_changed(by->who, node);
	return 0;
}

int model_ftruncate(struct caller *by)
{
	return by_slot(by, change_size);
}

int model_write(struct caller *by)
{
	struct node *node = opened(by);
	size_t size = (size_t)by->c->size, offset = (size_t)by->c->flags;
	char bytes[ACTOR_VALUE];

	if (!is_writable(flags_of(by)))
		return EBADF;
	by->out->value = by->c->size;
	if (size == 0)
		return 0;
	if (flags_of(by) & O_APPEND)
		offset = node->size;
	if (node->size < offset + size)
		model_resize(node, offset + size);
	actor_fill_data(bytes, size);
	memcpy(node->bytes + offset, bytes, size);
	model_data_changed(by->who, node);
	return 0;
}

int model_read(struct caller *by)
{
	const struct node *node = opened(by);
	size_t offset = (size_t)by->c->flags, size;

	if (!is_readable(flags_of(by)))
		return EBADF;
	size = node->size > offset ? node->size - offset : 0;
	if (size > READ_SIZE)
		size = READ_SIZE;
	if (size > 0)
		memcpy(by->out->text, node->bytes + offset, size);
	by->out->text_size = (unsigned int)size;
	by->out->value = (long)size;
	return 0;
}

/* Of its ".": the directory must be searched for that. */
int model_flist(struct caller *by)
{
	const struct node *dir = opened(by);
	int err = S_ISDIR(dir->mode) ? model_permit(by->who, dir, X_OK) :
				       ENOTDIR;

	return err ? err : model_put_listing(by, slots[by->c->slot].node);
}

int model_fmkdir(struct caller *by)
{
	return S_ISDIR(opened(by)->mode) ?
	       model_mkdir_at(by, slots[by->c->slot].node) : ENOTDIR;
}

int model_flink(struct caller *by)
{
	return model_link_to(by, slots[by->c->slot].node);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_calls.c - the model's calls by path
 */
#include "model_nodes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

static void put_text(struct answer *out, const void *text, size_t size)
{
	memcpy(out->text + out->text_size, text, size);
	out->text_size += (unsigned int)size;
}

/* ---- making --------------------------------------------------------------- */

int model_mkdir_at(struct caller *by, unsigned int start)
{
	struct place place;
	mode_t mode = by->c->mode & 01777 & ~by->c->umask;
	int err = model_find_new(by, start, by->c->path, &place);

	if (!err)
		err = model_may_create(by->who, &place);
	if (!err)
		model_enter(place.dir, place.name,
			    model_make(by->who, place.dir, S_IFDIR | mode));
	return err;
}

int model_mkdir(struct caller *by)
{
	return model_mkdir_at(by, MODEL_ROOT);
}

int model_symlink(struct caller *by)
{
	struct place place;
	unsigned int node;
	int err = model_find_new(by, MODEL_ROOT, by->c->path, &place);

	if (!err)
		err = model_may_create(by->who, &place);
	if (err)
		return err;
	node = model_make(by->who, place.dir, S_IFLNK | 0777);
	strcpy(node_of(node)->target, by->c->path2);
	model_enter(place.dir, place.name, node);
	return 0;
}

int model_mknod(struct caller *by)
{
	mode_t type = by->c->mode & S_IFMT;
	bool is_device = type == S_IFCHR || type == S_IFBLK;
	struct place place;
	unsigned int node;
	int err;

	if (type == S_IFDIR)
		return EPERM;
	err = model_find_new(by, MODEL_ROOT, by->c->path, &place);
	if (!err)
		err = model_may_create(by->who, &place);
	if (!err && is_device && by->who->uid != 0 &&
	    (type != S_IFCHR || by->c->rdev != 0))
		err = EPERM;
	if (err)
		return err;
	node = model_make_file(by, place.dir, type ? type : S_IFREG);
	node_of(node)->rdev = is_device ? by->c->rdev : 0;
	model_enter(place.dir, place.name, node);
	return 0;
}

unsigned int model_make_file(const struct caller *by, unsigned int dir,
			     mode_t type)
{
	const mode_t setgid_program = S_ISGID | S_IXGRP;
	const struct node *above = node_of(dir);
	mode_t mode = by->c->mode & 07777;

	if (above->mode & S_ISGID &&
	    (mode & setgid_program) == setgid_program &&
	    !model_may_setgid(by->who, above->gid))
		mode &= ~(mode_t)S_ISGID;
	return model_make(by->who, dir, type | (mode & ~by->c->umask));
}

int model_link_to(struct caller *by, unsigned int node)
{
	struct place place;
	int err = model_find_new(by, MODEL_ROOT, by->c->path2, &place);

	if (!err)
		err = model_may_link(by->who, node_of(node));
	if (!err)
		err = model_may_create(by->who, &place);
	if (!err && S_ISDIR(node_of(node)->mode))
		err = EPERM;
	if (!err && node_of(node)->nlink == 0)
		err = ENOENT;
	if (!err)
		model_enter(place.dir, place.name, node);
	return err;
}

int model_link(struct caller *by)
{
	unsigned int node;
	int err = model_find(by, by->c->path,
			     by->c->flags & AT_SYMLINK_FOLLOW, &node);

	/* The other path counts its links anew. */
	by->links = 0;
	return err ? err : model_link_to(by, node);
}

/* ---- removing and moving -------------------------------------------------- */

/* The last name of what is there goes. */
static void drop(unsigned int dir, int name)
{
	struct node *node = node_of(node_of(dir)->child[name]);

	model_remove(dir, name);
	if (S_ISDIR(node->mode))
		node->nlink = 0;
}

static int remove_it(struct caller *by, bool is_dir, int up_err)
{
	struct place place;
	int err = model_walk(by, MODEL_ROOT, by->c->path, false, &place);

	if (!err && place.name < 0)
		err = up_err;
	if (!err && !place.node)
		err = ENOENT;
	if (!err)
		err = model_may_delete(by->who, &place, is_dir);
	if (!err && is_dir && !model_is_empty(node_of(place.node)))
		err = ENOTEMPTY;
	if (!err)
		drop(place.dir, place.name);
	return err;
}

int model_rmdir(struct caller *by)
{
	return remove_it(by, true, ENOTEMPTY);
}

int model_unlink(struct caller *by)
{
	return remove_it(by, false, EISDIR);
}

static bool is_at_or_below(unsigned int dir, unsigned int above)
{
	while (dir != above && dir != MODEL_ROOT)
		dir = node_of(dir)->parent;
	return dir == above;
}

static bool is_dir(unsigned int node)
{
	return node && S_ISDIR(node_of(node)->mode);
}

/* Rights to take both from where they are, and to change what ".." is. */
static int may_rename(const struct caller *by, const struct place *from,
		      const struct place *to, bool exchanges)
{
	bool dir_moves = is_dir(from->node);
	int err = model_may_delete(by->who, from, dir_moves);

	if (!err && !to->node)
		err = model_may_create(by->who, to);
	else if (!err)
		err = model_may_delete(by->who, to, exchanges ?
				       is_dir(to->node) : dir_moves);
	if (!err && from->dir != to->dir && dir_moves)
		err = model_permit(by->who, node_of(from->node), W_OK);
	if (!err && from->dir != to->dir && exchanges && is_dir(to->node))
		err = model_permit(by->who, node_of(to->node), W_OK);
	if (!err && !exchanges && is_dir(to->node) &&
	    !model_is_empty(node_of(to->node)))
		err = ENOTEMPTY;
	return err;
}

static void move(const struct place *from, const struct place *to,
		 bool exchanges)
{
	model_remove(from->dir, from->name);
	if (to->node && exchanges)
		model_remove(to->dir, to->name);
	else if (to->node)
		drop(to->dir, to->name);
	model_enter(to->dir, to->name, from->node);
	if (exchanges)
		model_enter(from->dir, from->name, to->node);
}

static int find_both(struct caller *by, struct place *from, struct place *to)
{
	int flags = by->c->flags;
	int err = model_walk(by, MODEL_ROOT, by->c->path, false, from);

	by->links = 0;
	if (!err)
		err = model_walk(by, MODEL_ROOT, by->c->path2, false, to);
	if (err)
		return err;
	if (from->name < 0)
		return EBUSY;
	if (to->name < 0)
		return flags & RENAME_NOREPLACE ? EEXIST : EBUSY;
	if (!from->node || (flags & RENAME_EXCHANGE && !to->node))
		return ENOENT;
	return flags & RENAME_NOREPLACE && to->node ? EEXIST : 0;
}

static void leave_whiteout(struct caller *by, const struct place *from)
{
	unsigned int node = model_make_file(by, from->dir, S_IFCHR);

	node_of(node)->mode = S_IFCHR;
	model_enter(from->dir, from->name, node);
}

int model_rename(struct caller *by)
{
	const int known = RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT;
	bool exchanges = by->c->flags & RENAME_EXCHANGE;
	struct place from, to;
	int err;

	if (by->c->flags & ~known ||
	    (exchanges && by->c->flags != RENAME_EXCHANGE))
		return EINVAL;
	err = find_both(by, &from, &to);
	if (err)
		return err;
	if (is_at_or_below(to.dir, from.node))
		return EINVAL;
	if (to.node && is_at_or_below(from.dir, to.node))
		return exchanges ? EINVAL : ENOTEMPTY;
	if (from.node == to.node)
		return 0;
	err = may_rename(by, &from, &to, exchanges);
	if (!err)
		move(&from, &to, exchanges);
	if (!err && by->c->flags & RENAME_WHITEOUT)
		leave_whiteout(by, &from);
	return err;
}

/* ---- attributes ----------------------------------------------------------- */

int model_change_mode(struct caller *by, struct node *node)
{
	mode_t mode = by->c->mode & 07777;

	if (!model_is_owner(by->who, node))
		return EPERM;
	if (!model_may_setgid(by->who, node->gid))
		mode &= ~(mode_t)S_ISGID;
	node->mode = (node->mode & S_IFMT) | mode;
	model_stamp_change(node);
	return 0;
}

int model_change_owner(struct caller *by, struct node *node)
{
	const struct user *who = by->who;
	uid_t uid = by->c->uid;
	gid_t gid = by->c->gid;
	bool is_his = who->uid == node->uid;

	if (uid != (uid_t)-1 && who->uid != 0 && !(is_his && uid == node->uid))
		return EPERM;
	if (gid != (gid_t)-1 && who->uid != 0 &&
	    !(is_his && (gid == node->gid || model_is_in_group(who, gid))))
		return EPERM;
	if (!S_ISDIR(node->mode))
		node->mode &= ~(S_ISUID | model_lost_setgid(who, node));
	if (uid != (uid_t)-1)
		node->uid = uid;
	if (gid != (gid_t)-1)
		node->gid = gid;
	model_stamp_change(node);
	return 0;
}

bool model_times_are_omitted(const struct call *c)
{
	return c->times[0].tv_nsec == UTIME_OMIT &&
	       c->times[1].tv_nsec == UTIME_OMIT;
}

int model_change_times(struct caller *by, struct node *node)
{
	const struct timespec *times = by->c->times;
	bool are_now = times[0].tv_nsec == UTIME_NOW &&
		       times[1].tv_nsec == UTIME_NOW;
	int err = 0;

	if (!model_is_owner(by->who, node))
		err = are_now ? model_permit(by->who, node, W_OK) : EPERM;
	if (err)
		return err;
	if (times[1].tv_nsec == UTIME_NOW)
		node->mtime = model_now();
	else if (times[1].tv_nsec != UTIME_OMIT)
		node->mtime = times[1];
	model_stamp_change(node);
	return 0;
}

static int by_path(struct caller *by, bool follows_last,
		   int (*change)(struct caller *by, struct node *node))
{
	unsigned int node;
	int err = model_find(by, by->c->path, follows_last, &node);

	return err ? err : change(by, node_of(node));
}

int model_chmod(struct caller *by)
{
	return by_path(by, true, model_change_mode);
}

int model_chown(struct caller *by)
{
	return by_path(by, !(by->c->flags & AT_SYMLINK_NOFOLLOW),
		       model_change_owner);
}

int model_utimens(struct caller *by)
{
	return model_times_are_omitted(by->c) ? 0 :
	       by_path(by, !(by->c->flags & AT_SYMLINK_NOFOLLOW),
		       model_change_times);
}

static int change_size(struct caller *by, struct node *node)
{
	int err;

	if (!S_ISREG(node->mode))
		return S_ISDIR(node->mode) ? EISDIR : EINVAL;
	err = model_permit(by->who, node, W_OK);
	if (err)
		return err;
	model_resize(node, (size_t)by->c->size);
	model_data_changed(by->who, node);
	return 0;
}

int model_truncate(struct caller *by)
{
	return by_path(by, true, change_size);
}

static int ask_access(struct caller *by, struct node *node)
{
	return model_permit(by->who, node, by->c->mode & 7);
}

int model_access(struct caller *by)
{
	return by_path(by, true, ask_access);
}

/* ---- extended attributes -------------------------------------------------- */

static int may_use_xattr(const struct caller *by, const struct node *node,
			 bool writes)
{
	if (strncmp(by->c->xattr, "trusted.", 8) == 0)
		return by->who->uid == 0 ? 0 : writes ? EPERM : ENODATA;
	if (!S_ISREG(node->mode) && !S_ISDIR(node->mode))
		return writes ? EPERM : ENODATA;
	if (writes && S_ISDIR(node->mode) && node->mode & S_ISVTX &&
	    !model_is_owner(by->who, node))
		return EPERM;
	return model_permit(by->who, node, writes ? W_OK : R_OK);
}

static int set_xattr(const struct caller *by, struct node *node,
		     struct model_xattr *x)
{
	size_t size = (size_t)by->c->size;

	if (by->c->flags & XATTR_CREATE && x->is_set)
		return EEXIST;
	if (by->c->flags & XATTR_REPLACE && !x->is_set)
		return ENODATA;
	/* The value that it has is no change. */
	if (x->is_set && x->size == size)
		return 0;
	x->is_set = true;
	x->size = size;
	model_stamp_change(node);
	return 0;
}

static int get_xattr(const struct caller *by, const struct model_xattr *x)
{
	bool is_by_path = by->c->code == CALL_GETXATTR;
	char value[ACTOR_VALUE];

	if (!x->is_set)
		return ENODATA;
	by->out->value = (long)x->size;
	if (is_by_path && by->c->size == 0)
		return 0;	/* only the size is asked */
	if (is_by_path && (size_t)by->c->size < x->size)
		return ERANGE;
	actor_fill(value, x->size);
	put_text(by->out, value, x->size);
	return 0;
}

static int list_xattrs(const struct caller *by, const struct node *node)
{
	for (unsigned int i = 0; i < MODEL_XATTRS; i++) {
		const char *name = model_xattr_names[i];

		if (!node->xattrs[i].is_set ||
		    (name[0] == 't' && by->who->uid != 0))
			continue;
		put_text(by->out, name, strlen(name));
		put_text(by->out, " ", 1);
	}
	return 0;
}

int model_use_xattr(struct caller *by, struct node *node)
{
	enum call_code code = by->c->code;
	bool gets = code == CALL_GETXATTR || code == CALL_FGETXATTR;
	struct model_xattr *x = node->xattrs;
	int err;

	if (code == CALL_LISTXATTR)
		return list_xattrs(by, node);
	while (strcmp(model_xattr_names[x - node->xattrs], by->c->xattr) != 0)
		x++;
	err = may_use_xattr(by, node, !gets);
	if (err)
		return err;
	if (gets)
		return get_xattr(by, x);
	if (code != CALL_REMOVEXATTR)
		return set_xattr(by, node, x);
	if (!x->is_set)
		return ENODATA;
	x->is_set = false;
	model_stamp_change(node);
	return 0;
}

int model_xattr(struct caller *by)
{
	return by_path(by, false, model_use_xattr);
}

/* ---- looking -------------------------------------------------------------- */

static int read_target(struct caller *by, struct node *node)
{
	if (!S_ISLNK(node->mode))
		return EINVAL;
	by->out->value = (long)strlen(node->target);
	put_text(by->out, node->target, strlen(node->target));
	return 0;
}

int model_readlink(struct caller *by)
{
	return by_path(by, false, read_target);
}

static int list_it(struct caller *by, struct node *node)
{
	if (!S_ISDIR(node->mode))
		return ENOTDIR;
	return model_put_listing(by, (unsigned int)(node - model_nodes));
}

/* A directory that was removed is empty, without "." and "..". */
int model_put_listing(struct caller *by, unsigned int number)
{
	const struct node *dir = node_of(number);
	int err = model_permit(by->who, dir, R_OK);

	if (err || dir->nlink == 0)
		return err;
	put_text(by->out, "..:4 .:4 ", 9);
	for (int i = 0; i < MODEL_NAMES; i++) {
		char entry[16];

		if (!dir->child[i])
			continue;
		put_text(by->out, entry, (size_t)
			 snprintf(entry, sizeof(entry), "%c:%u ", 'a' + i,
				  IFTODT(node_of(dir->child[i])->mode)));
	}
	return 0;
}

int model_list(struct caller *by)
{
	return by_path(by, true, list_it);
}

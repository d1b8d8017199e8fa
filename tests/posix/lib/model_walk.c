/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_walk.c - rights and paths in the model
 */
#include "model_nodes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { LINKS_MAX = 40 };	/* followed in one path: path_resolution(7) */

/* ---- rights --------------------------------------------------------------- */

bool model_is_owner(const struct user *who, const struct node *node)
{
	return who->uid == 0 || who->uid == node->uid;
}

bool model_is_in_group(const struct user *who, gid_t gid)
{
	if (who->gid == gid)
		return true;
	for (size_t i = 0; i < who->group_count; i++)
		if (who->groups[i] == gid)
			return true;
	return false;
}

bool model_may_setgid(const struct user *who, gid_t gid)
{
	return who->uid == 0 || model_is_in_group(who, gid);
}

int model_permit(const struct user *who, const struct node *node, int mask)
{
	mode_t bits = node->mode;

	if (who->uid == node->uid)
		bits >>= 6;
	else if (model_is_in_group(who, node->gid))
		bits >>= 3;
	if (((mode_t)mask & ~bits & 7) == 0)
		return 0;
	/* Root may all, but run only what somebody may run. */
	if (who->uid == 0 && (S_ISDIR(node->mode) || !(mask & X_OK) ||
			      node->mode & 0111))
		return 0;
	return EACCES;
}

int model_may_take(const struct user *who, const struct node *dir,
		   const struct node *node)
{
	return dir->mode & S_ISVTX && who->uid != node->uid &&
	       who->uid != dir->uid && who->uid != 0 ? EPERM : 0;
}

mode_t model_lost_setgid(const struct user *who, const struct node *node)
{
	if (node->mode & S_ISGID &&
	    (node->mode & S_IXGRP || !model_may_setgid(who, node->gid)))
		return S_ISGID;
	return 0;
}

void model_data_changed(const struct user *who, struct node *node)
{
	if (who->uid != 0)
		node->mode &= ~(S_ISUID | model_lost_setgid(who, node));
	model_stamp_data(node);
}

/* ---- what the kernel's sysctls add ---------------------------------------- */

static int sysctl_of(const char *name)
{
	char path[128];
	FILE *file;
	int value;

	snprintf(path, sizeof(path), "/proc/sys/fs/%s", name);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%d", &value) != 1)
		value = 0;
	if (file)
		fclose(file);
	return value;
}

static struct {
	bool are_known;
	int symlinks, hardlinks, files, fifos;
} protect;

static void learn_sysctls(void)
{
	if (protect.are_known)
		return;
	protect.symlinks = sysctl_of("protected_symlinks");
	protect.hardlinks = sysctl_of("protected_hardlinks");
	protect.files = sysctl_of("protected_regular");
	protect.fifos = sysctl_of("protected_fifos");
	protect.are_known = true;
}

/* A link that ends a path, in a sticky directory that all may write to. */
static int may_follow(const struct user *who, const struct node *dir,
		      const struct node *link)
{
	learn_sysctls();
	return protect.symlinks && link->uid != who->uid &&
	       (dir->mode & (S_ISVTX | S_IWOTH)) == (S_ISVTX | S_IWOTH) &&
	       dir->uid != link->uid ? EACCES : 0;
}

int model_may_link(const struct user *who, const struct node *node)
{
	const mode_t setgid_program = S_ISGID | S_IXGRP;

	learn_sysctls();
	if (!protect.hardlinks || model_is_owner(who, node))
		return 0;
	if (!S_ISREG(node->mode) || node->mode & S_ISUID ||
	    (node->mode & setgid_program) == setgid_program ||
	    model_permit(who, node, R_OK | W_OK))
		return EPERM;
	return 0;
}

int model_may_create_over(const struct user *who, const struct node *dir,
			  const struct node *node)
{
	bool is_file = S_ISREG(node->mode), is_fifo = S_ISFIFO(node->mode);

	learn_sysctls();
	if (!(dir->mode & S_ISVTX) || (is_file && !protect.files) ||
	    (is_fifo && !protect.fifos) || node->uid == dir->uid ||
	    node->uid == who->uid)
		return 0;
	if (dir->mode & S_IWOTH)
		return EACCES;
	return dir->mode & S_IWGRP && ((is_fifo && protect.fifos > 1) ||
				       (is_file && protect.files > 1)) ?
	       EACCES : 0;
}

/* ---- paths ---------------------------------------------------------------- */

static int walk(struct caller *by, unsigned int dir, const char *path,
		bool follows_last, bool is_trailing, struct place *out);

/* out is a symbolic link: it becomes what the link leads to. */
static int follow(struct caller *by, bool is_trailing, struct place *out)
{
	const struct node *link = node_of(out->node);
	int err = by->links++ < LINKS_MAX ? 0 : ELOOP;

	if (!err && is_trailing)
		err = may_follow(by->who, node_of(out->dir), link);
	return err ? err : walk(by, out->dir, link->target, true, is_trailing,
				out);
}

/* One name in a directory that may be searched. */
static int step(struct caller *by, unsigned int dir, const char *name,
		struct place *out)
{
	int err = model_permit(by->who, node_of(dir), X_OK);

	if (err)
		return err;
	out->dir = dir;
	if (name[0] == '.') {
		out->name = -1;
		out->node = node_of(dir)->parent;
	} else {
		out->name = name[0] - 'a';
		out->node = node_of(dir)->child[out->name];
	}
	return 0;
}

static bool is_link(unsigned int node)
{
	return node && S_ISLNK(node_of(node)->mode);
}

static int walk(struct caller *by, unsigned int dir, const char *path,
		bool follows_last, bool is_trailing, struct place *out)
{
	for (;;) {
		const char *slash = strchr(path, '/');
		int err = step(by, dir, path, out);

		if (!err && is_link(out->node) && (slash || follows_last))
			err = follow(by, is_trailing && !slash, out);
		if (err || !slash)
			return err;
		if (!out->node)
			return ENOENT;
		if (!S_ISDIR(node_of(out->node)->mode))
			return ENOTDIR;
		dir = out->node;
		path = slash + 1;
	}
}

int model_walk(struct caller *by, unsigned int start, const char *path,
	       bool follows_last, struct place *out)
{
	return walk(by, start, path, follows_last, true, out);
}

int model_find(struct caller *by, const char *path, bool follows_last,
	       unsigned int *node)
{
	struct place place = { MODEL_ROOT, -1, MODEL_ROOT };
	int err = strcmp(path, ".") == 0 ? 0 :
		  model_walk(by, MODEL_ROOT, path, follows_last, &place);

	*node = place.node;
	return err ? err : place.node ? 0 : ENOENT;
}

int model_find_new(struct caller *by, unsigned int start, const char *path,
		   struct place *out)
{
	int err = model_walk(by, start, path, false, out);

	if (err)
		return err;
	if (out->name < 0)
		return EEXIST;
	if (node_of(out->dir)->nlink == 0)
		return ENOENT;
	return out->node ? EEXIST : 0;
}

int model_may_create(const struct user *who, const struct place *place)
{
	return model_permit(who, node_of(place->dir), W_OK | X_OK);
}

int model_may_delete(const struct user *who, const struct place *place,
		     bool is_dir)
{
	const struct node *dir = node_of(place->dir);
	const struct node *node = node_of(place->node);
	int err = model_permit(who, dir, W_OK | X_OK);

	if (!err)
		err = model_may_take(who, dir, node);
	if (!err && is_dir && !S_ISDIR(node->mode))
		err = ENOTDIR;
	if (!err && !is_dir && S_ISDIR(node->mode))
		err = EISDIR;
	return err;
}

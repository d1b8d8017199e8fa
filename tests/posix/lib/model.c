/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.c - inodes of the model, and what the tester asks of it
 */
#include "model_nodes.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node model_nodes[MODEL_NODES];

/* Sorted, as listxattr()'s are compared. */
const char *const model_xattr_names[MODEL_XATTRS] = {
	"trusted.t", "user.a", "user.b", "user.long-name-of-it",
};

static unsigned int node_count;
static uint32_t ticks;

/* ---- inodes --------------------------------------------------------------- */

struct timespec model_now(void)
{
	return (struct timespec){ 2000000000, (long)ticks };
}

void model_stamp_change(struct node *node)
{
	node->ctime = model_now();
}

void model_stamp_data(struct node *node)
{
	node->ctime = node->mtime = model_now();
}

unsigned int model_make(const struct user *who, unsigned int dir, mode_t mode)
{
	unsigned int number = node_count++;
	struct node *node = node_of(number);
	const struct node *above = node_of(dir);

	if (number == MODEL_NODES)
		trouble("the model is full");
	memset(node, 0, sizeof(*node));
	node->mode = mode;
	node->uid = who->uid;
	node->gid = who->gid;
	if (above->mode & S_ISGID) {
		node->gid = above->gid;
		if (S_ISDIR(mode))
			node->mode |= S_ISGID;
	}
	node->parent = dir;
	node->nlink = S_ISDIR(mode) ? 1 : 0;	/* its own "." */
	model_stamp_data(node);
	return number;
}

void model_enter(unsigned int dir, int name, unsigned int number)
{
	struct node *node = node_of(number);

	node_of(dir)->child[name] = number;
	node->nlink++;
	if (S_ISDIR(node->mode)) {
		node_of(dir)->nlink++;
		node->parent = dir;
	}
	model_stamp_data(node_of(dir));
	model_stamp_change(node);
}

void model_remove(unsigned int dir, int name)
{
	struct node *node = node_of(node_of(dir)->child[name]);

	node_of(dir)->child[name] = 0;
	node->nlink--;
	if (S_ISDIR(node->mode))
		node_of(dir)->nlink--;
	model_stamp_data(node_of(dir));
	model_stamp_change(node);
}

void model_resize(struct node *node, size_t size)
{
	uint8_t *bytes = realloc(node->bytes, size + 1);

	if (!bytes)
		trouble("no memory");
	if (size > node->size)
		memset(bytes + node->size, 0, size - node->size);
	node->bytes = bytes;
	node->size = size;
}

bool model_is_empty(const struct node *dir)
{
	for (unsigned int i = 0; i < MODEL_NAMES; i++)
		if (dir->child[i])
			return false;
	return true;
}

void model_stat(unsigned int number, struct stat *st)
{
	const struct node *node = node_of(number);

	memset(st, 0, sizeof(*st));
	st->st_ino = number;
	st->st_mode = node->mode;
	st->st_nlink = node->nlink;
	st->st_uid = node->uid;
	st->st_gid = node->gid;
	st->st_rdev = node->rdev;
	st->st_mtim = node->mtime;
	st->st_ctim = node->ctime;
	st->st_size = (off_t)(S_ISLNK(node->mode) ? strlen(node->target) :
						    node->size);
}

void model_start(const struct stat *root)
{
	struct node *node = node_of(MODEL_ROOT);

	for (unsigned int i = 0; i < node_count; i++)
		free(model_nodes[i].bytes);
	memset(model_nodes, 0, sizeof(model_nodes));
	node_count = MODEL_ROOT + 1;
	ticks = 0;
	node->mode = root->st_mode;
	node->uid = root->st_uid;
	node->gid = root->st_gid;
	node->nlink = 2;
	node->parent = MODEL_ROOT;
	model_stamp_data(node);
	model_forget_slots();
}

/* ---- calls ---------------------------------------------------------------- */

static model_action *const actions[CALLS] = {
	[CALL_OPEN] = model_open,
	[CALL_CLOSE] = model_close,
	[CALL_MKDIR] = model_mkdir,
	[CALL_RMDIR] = model_rmdir,
	[CALL_UNLINK] = model_unlink,
	[CALL_LINK] = model_link,
	[CALL_SYMLINK] = model_symlink,
	[CALL_RENAME] = model_rename,
	[CALL_MKNOD] = model_mknod,
	[CALL_CHMOD] = model_chmod,
	[CALL_CHOWN] = model_chown,
	[CALL_UTIMENS] = model_utimens,
	[CALL_TRUNCATE] = model_truncate,
	[CALL_ACCESS] = model_access,
	[CALL_READLINK] = model_readlink,
	[CALL_LIST] = model_list,
	[CALL_SETXATTR] = model_xattr,
	[CALL_GETXATTR] = model_xattr,
	[CALL_LISTXATTR] = model_xattr,
	[CALL_REMOVEXATTR] = model_xattr,
	[CALL_FSTAT] = model_fstat,
	[CALL_FCHMOD] = model_fchmod,
	[CALL_FCHOWN] = model_fchown,
	[CALL_FUTIMENS] = model_futimens,
	[CALL_FTRUNCATE] = model_ftruncate,
	[CALL_WRITE] = model_write,
	[CALL_READ] = model_read,
	[CALL_FLIST] = model_flist,
	[CALL_FMKDIR] = model_fmkdir,
	[CALL_FSETXATTR] = model_fxattr,
	[CALL_FGETXATTR] = model_fxattr,
	[CALL_FLINK] = model_flink,
};

void model_call(unsigned int actor, unsigned int side, const struct call *call,
		struct answer *answer)
{
	struct caller by = {
		.who = actor_user(actor), .side = side, .c = call,
		.out = answer,
	};

	ticks++;
	answer->value = 0;
	answer->text_size = 0;
	answer->err = actions[call->code](&by);
	if (answer->err)
		answer->value = -1;
}

/* ---- what the tester asks ------------------------------------------------- */

static int find(const char *path, unsigned int *node)
{
	struct caller by = { .who = actor_user(0) };

	return model_find(&by, path, false, node);
}

int model_lstat(const char *path, struct stat *st)
{
	unsigned int node;
	int err = find(path, &node);

	if (!err)
		model_stat(node, st);
	return err;
}

bool model_names(const char *path, char out[MODEL_NAMES + 1])
{
	unsigned int node;

	if (find(path, &node) ||
	    model_permit(actor_user(0), node_of(node), R_OK))
		return false;
	for (int i = 0; i < MODEL_NAMES; i++)
		if (node_of(node)->child[i])
			*out++ = (char)('a' + i);
	*out = '\0';
	return true;
}

long model_text(const char *path, char *out)
{
	const struct node *node;
	unsigned int number;
	size_t size;
	int err = find(path, &number);

	if (err)
		return -err;
	node = node_of(number);
	if (S_ISLNK(node->mode)) {
		size = strlen(node->target);
		memcpy(out, node->target, size);
		return (long)size;
	}
	err = model_permit(actor_user(0), node, R_OK);
	if (err)
		return -err;
	size = node->size < MODEL_TEXT ? node->size : MODEL_TEXT;
	if (size > 0)
		memcpy(out, node->bytes, size);
	return (long)size;
}

void model_xattrs(const char *path, char *out, size_t room)
{
	char value[ACTOR_VALUE];
	unsigned int number;

	*out = '\0';
	if (find(path, &number))
		return;
	for (unsigned int i = 0; i < MODEL_XATTRS; i++) {
		const struct model_xattr *x = &node_of(number)->xattrs[i];
		int used;

		if (!x->is_set)
			continue;
		actor_fill(value, x->size);
		used = snprintf(out, room, "%s=%.*s;", model_xattr_names[i],
				(int)x->size, value);
		out += used;
		room -= (size_t)used;
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_nodes.h - what the files of the model share: inodes, rights, paths
 */
#ifndef MODEL_NODES_H
#define MODEL_NODES_H

#include "model.h"

#include <unistd.h>

enum {
	MODEL_NODES = ROUND_OPS + 2,	/* a call makes one at most; 0 is none */
	MODEL_ROOT = 1,
	MODEL_XATTRS = 4,
};

/* All values of one size have the same bytes (actor_fill()). */
struct model_xattr {
	bool is_set;
	size_t size;
};

struct node {
	mode_t mode;
	uid_t uid;
	gid_t gid;
	unsigned int nlink;
	dev_t rdev;
	struct timespec mtime, ctime;
	unsigned int parent, child[MODEL_NAMES];	/* of a directory */
	unsigned int readers[ACTOR_SIDES];		/* of a fifo */
	char target[ACTOR_PATH];			/* of a symbolic link */
	uint8_t *bytes;					/* of a file */
	size_t size;
	struct model_xattr xattrs[MODEL_XATTRS];
};

/* One call and who makes it. */
struct caller {
	const struct user *who;
	unsigned int side;
	const struct call *c;
	struct answer *out;
	unsigned int links;		/* followed so far */
};

/* Where a path leads. */
struct place {
	unsigned int dir;		/* the directory of the last name */
	int name;			/* in it, or -1: the path ends with ".." */
	unsigned int node;		/* 0: there is none */
};

extern struct node model_nodes[MODEL_NODES];
extern const char *const model_xattr_names[MODEL_XATTRS];

static inline struct node *node_of(unsigned int number)
{
	return &model_nodes[number];
}

/* ---- inodes ---- */

/* A new inode without a name.  dir: its owner and setgid count. */
unsigned int model_make(const struct user *who, unsigned int dir, mode_t mode);
/* The same for open() and mknod(): the call's mode and umask. */
unsigned int model_make_file(const struct caller *by, unsigned int dir,
			     mode_t type);
void model_enter(unsigned int dir, int name, unsigned int node);
void model_remove(unsigned int dir, int name);
void model_resize(struct node *node, size_t size);
/* The tick of this call becomes its ctime, or mtime and ctime. */
void model_stamp_change(struct node *node);
void model_stamp_data(struct node *node);
struct timespec model_now(void);
bool model_is_empty(const struct node *dir);
void model_stat(unsigned int number, struct stat *st);

/* ---- rights: 0 or errno ---- */

int model_permit(const struct user *who, const struct node *node, int mask);
bool model_is_owner(const struct user *who, const struct node *node);
bool model_is_in_group(const struct user *who, gid_t gid);
/* Of the group, or who may keep setgid anyway. */
bool model_may_setgid(const struct user *who, gid_t gid);
/* Sticky directories: may what is in dir be removed? */
int model_may_take(const struct user *who, const struct node *dir,
		   const struct node *node);
/* The set-id bits that a change of data or owner takes. */
mode_t model_lost_setgid(const struct user *who, const struct node *node);
void model_data_changed(const struct user *who, struct node *node);
int model_may_link(const struct user *who, const struct node *node);
int model_may_create_over(const struct user *who, const struct node *dir,
			  const struct node *node);

/* ---- paths: 0 or errno ---- */

int model_walk(struct caller *by, unsigned int start, const char *path,
	       bool follows_last, struct place *out);
/* The same from the root, and something must be there. */
int model_find(struct caller *by, const char *path, bool follows_last,
	       unsigned int *node);
/* Where something new is to be: EEXIST if it is there. */
int model_find_new(struct caller *by, unsigned int start, const char *path,
		   struct place *out);
/* To be removed or moved: what is named, and may it leave its directory?  */
int model_may_delete(const struct user *who, const struct place *place,
		     bool is_dir);
int model_may_create(const struct user *who, const struct place *place);

/* ---- calls: 0 or errno ---- */

typedef int model_action(struct caller *by);

model_action model_open, model_mkdir, model_rmdir, model_unlink, model_link,
	     model_symlink, model_rename, model_mknod, model_chmod, model_chown,
	     model_utimens, model_truncate, model_access, model_readlink,
	     model_list, model_xattr, model_close, model_fstat, model_fchmod,
	     model_fchown, model_futimens, model_ftruncate, model_write,
	     model_read, model_flist, model_fmkdir, model_fxattr, model_flink;

/* By path and by descriptor alike. */
int model_change_mode(struct caller *by, struct node *node);
int model_change_owner(struct caller *by, struct node *node);
int model_change_times(struct caller *by, struct node *node);
int model_use_xattr(struct caller *by, struct node *node);
int model_put_listing(struct caller *by, unsigned int dir);
int model_link_to(struct caller *by, unsigned int node);
int model_mkdir_at(struct caller *by, unsigned int start);
bool model_times_are_omitted(const struct call *c);
void model_forget_slots(void);

#endif /* MODEL_NODES_H */

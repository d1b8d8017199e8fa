/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.c - compare a tree with the model, remove one
 */
#include "tree.h"
#include "campaign.h"
#include "model.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

enum {
	NAMES_MAX = 4096,	/* in one folder */
	TEXT_MAX = MODEL_TEXT,
};

/* Which inode of the model is which of the tree. */
struct pairs {
	ino_t model[ROUND_OPS], tree[ROUND_OPS];
	unsigned int count;
};

struct walk {
	int folder;
	bool has_xattrs;
	struct pairs *pairs;
	char path[PATH_MAX];	/* below it */
};

/* ---- one object ----------------------------------------------------------- */

static bool times_are_same(const char *path, const char *which,
			   const struct timespec *a, const struct timespec *b)
{
	if (a->tv_sec >= TREE_OLD && b->tv_sec >= TREE_OLD)
		return true;
	if (a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec)
		return true;
	campaign_fault("%s: %s is %lld.%09ld, not %lld.%09ld", path, which,
		       (long long)b->tv_sec, b->tv_nsec, (long long)a->tv_sec,
		       a->tv_nsec);
	return false;
}

bool tree_stat_is_right(const char *path, const struct stat *a,
			const struct stat *b)
{
	bool has_rdev = S_ISCHR(a->st_mode) || S_ISBLK(a->st_mode);

	if (a->st_mode != b->st_mode)
		campaign_fault("%s: mode is %o, not %o", path, b->st_mode,
			       a->st_mode);
	else if (a->st_nlink != b->st_nlink)
		campaign_fault("%s: nlink is %lu, not %lu", path,
			       (unsigned long)b->st_nlink,
			       (unsigned long)a->st_nlink);
	else if (a->st_uid != b->st_uid || a->st_gid != b->st_gid)
		campaign_fault("%s: owner is %u:%u, not %u:%u", path, b->st_uid,
			       b->st_gid, a->st_uid, a->st_gid);
	else if (has_rdev && a->st_rdev != b->st_rdev)
		campaign_fault("%s: rdev is %lx, not %lx", path,
			       (unsigned long)b->st_rdev,
			       (unsigned long)a->st_rdev);
	else if (!S_ISDIR(a->st_mode) && a->st_size != b->st_size)
		campaign_fault("%s: size is %lld, not %lld", path,
			       (long long)b->st_size, (long long)a->st_size);
	else
		return times_are_same(path, "mtime", &a->st_mtim, &b->st_mtim);
	return false;
}

static bool pair_is_known(struct pairs *pairs, const char *path, ino_t model,
			  ino_t tree)
{
	for (unsigned int i = 0; i < pairs->count; i++) {
		if (pairs->model[i] != model && pairs->tree[i] != tree)
			continue;
		if (pairs->model[i] == model && pairs->tree[i] == tree)
			return true;
		campaign_fault("%s: its other names are other inodes", path);
		return false;
	}
	if (pairs->count == ROUND_OPS)
		trouble("more than %d inodes", ROUND_OPS);
	pairs->model[pairs->count] = model;
	pairs->tree[pairs->count++] = tree;
	return true;
}

/* ---- what is in it -------------------------------------------------------- */

/* Up to TEXT_MAX bytes of a file, a link's target; negative: errno. */
static ssize_t text_of(int folder, const char *path, mode_t mode, char *out)
{
	ssize_t got;
	int fd;

	if (S_ISLNK(mode)) {
		got = readlinkat(folder, path, out, TEXT_MAX);
		return got < 0 ? -errno : got;
	}
	fd = openat(folder, path, O_RDONLY | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	got = pread(fd, out, TEXT_MAX, 0);
	close(fd);
	return got < 0 ? -errno : got;
}

static bool text_is_right(const struct walk *w, mode_t mode)
{
	static char wanted[TEXT_MAX], got[TEXT_MAX];
	ssize_t wanted_size = model_text(w->path, wanted);
	ssize_t got_size = text_of(w->folder, w->path, mode, got);

	if (wanted_size == got_size &&
	    (got_size < 0 || memcmp(wanted, got, (size_t)got_size) == 0))
		return true;
	campaign_fault("%s: what is in it differs (%zd bytes, not %zd)",
		       w->path, got_size, wanted_size);
	return false;
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "name=value" of each, sorted; system.* and security.* come from elsewhere. */
static size_t xattrs_of(int folder, const char *path, char *out, size_t room)
{
	char proc[PATH_MAX + 64], names[8192], value[8192];
	char *sorted[256];
	unsigned int count = 0;
	size_t used = 0;
	ssize_t size;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d/%s", folder, path);
	size = llistxattr(proc, names, sizeof(names));
	for (char *name = names; name < names + size && count < 256;
	     name += strlen(name) + 1)
		if (strncmp(name, "user.", 5) == 0 ||
		    strncmp(name, "trusted.", 8) == 0)
			sorted[count++] = name;
	qsort(sorted, count, sizeof(*sorted), compare_strings);
	for (unsigned int i = 0; i < count; i++) {
		size = lgetxattr(proc, sorted[i], value, sizeof(value));
		used += (size_t)snprintf(out + used, room - used, "%s=%.*s;",
					 sorted[i], (int)(size > 0 ? size : 0),
					 value);
	}
	return used;
}

static bool xattrs_are_right(const struct walk *w)
{
	static char wanted[TEXT_MAX], got[TEXT_MAX];

	got[0] = '\0';
	model_xattrs(w->path, wanted, sizeof(wanted));
	xattrs_of(w->folder, w->path, got, sizeof(got));
	if (strcmp(wanted, got) == 0)
		return true;
	campaign_fault("%s: attributes are '%.100s', not '%.100s'", w->path,
		       got, wanted);
	return false;
}

/* ---- trees ---------------------------------------------------------------- */

/* Sorted; -1: it can't be read. */
static int names_of(int folder, const char *path, char **out)
{
	int fd = openat(folder, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int count = 0;

	if (!dir)
		return -1;
	while ((entry = readdir(dir)) && count < NAMES_MAX)
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			out[count++] = strdup(entry->d_name);
	closedir(dir);
	qsort(out, (size_t)count, sizeof(*out), compare_strings);
	return count;
}

static void free_names(char **names, int count)
{
	for (int i = 0; i < count; i++)
		free(names[i]);
}

static bool folder_is_right(struct walk *w);

static bool object_is_right(struct walk *w)
{
	struct stat wanted, got;
	int err = model_lstat(w->path, &wanted);

	if (!err && fstatat(w->folder, w->path, &got, AT_SYMLINK_NOFOLLOW))
		err = errno;
	if (err) {
		campaign_fault("%s is listed, but lstat fails: %s", w->path,
			       strerror(err));
		return false;
	}
	if (!tree_stat_is_right(w->path, &wanted, &got) ||
	    !pair_is_known(w->pairs, w->path, wanted.st_ino, got.st_ino))
		return false;
	if ((S_ISREG(got.st_mode) || S_ISLNK(got.st_mode)) &&
	    !text_is_right(w, got.st_mode))
		return false;
	if (w->has_xattrs && !xattrs_are_right(w))
		return false;
	return !S_ISDIR(got.st_mode) || folder_is_right(w);
}

static bool child_is_right(struct walk *w, const char *name)
{
	size_t end = strlen(w->path);
	bool is_right;

	snprintf(w->path + end, sizeof(w->path) - end, "%s%s", end ? "/" : "",
		 name);
	is_right = object_is_right(w);
	w->path[end] = '\0';
	return is_right;
}

/* wanted: names of one letter. */
static bool children_are_right(struct walk *w, const char *wanted, char **got,
			       int count)
{
	int wanted_count = (int)strlen(wanted);

	for (int i = 0; i < count || i < wanted_count; i++) {
		char name[] = { i < wanted_count ? wanted[i] : '\0', '\0' };

		if (i >= count || strcmp(name, got[i]) != 0) {
			campaign_fault("folder %s: %s is listed, not %s",
				       w->path, i < count ? got[i] : "nothing",
				       name[0] ? name : "nothing");
			return false;
		}
		if (!child_is_right(w, name))
			return false;
	}
	return true;
}

static bool folder_is_right(struct walk *w)
{
	const char *path = w->path[0] ? w->path : ".";
	char wanted[MODEL_NAMES + 1] = "", *got[NAMES_MAX];
	bool is_readable = model_names(path, wanted);
	int count = names_of(w->folder, path, got);
	bool is_right = is_readable == (count >= 0);

	if (!is_right)
		campaign_fault("folder %s: it can%s be read", path,
			       count < 0 ? "'t" : "");
	else
		is_right = children_are_right(w, wanted, got, count);
	free_names(got, count);
	return is_right;
}

bool tree_is_right(int folder, bool has_xattrs)
{
	static struct pairs pairs;
	struct walk w = {
		.folder = folder, .has_xattrs = has_xattrs, .pairs = &pairs,
	};

	pairs.count = 0;
	return folder_is_right(&w);
}

void tree_remove(int folder, const char *name)
{
	char *names[NAMES_MAX];
	int count, fd;

	if (unlinkat(folder, name, 0) == 0 || errno == ENOENT)
		return;
	fchmodat(folder, name, 0700, 0);
	fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	if (fd < 0)
		trouble("can't remove %s", name);
	do {
		count = names_of(fd, ".", names);
		if (count < 0)
			trouble("can't list %s", name);
		for (int i = 0; i < count; i++)
			tree_remove(fd, names[i]);
		free_names(names, count);
	} while (count == NAMES_MAX);
	close(fd);
	if (unlinkat(folder, name, AT_REMOVEDIR))
		trouble("can't remove %s", name);
}

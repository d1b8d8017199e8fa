/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.c - compare two trees, remove one
 */
#include "tree.h"
#include "campaign.h"

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
	INODES_MAX = 8192,	/* with several names, in a tree */
	TEXT_MAX = 65536,
};

/* Which inode of a is which of b. */
struct pairs {
	ino_t a[INODES_MAX], b[INODES_MAX];
	unsigned int count;
};

struct walk {
	int a, b;
	bool has_xattrs;
	struct pairs *pairs;
	char path[PATH_MAX];	/* below both */
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

bool tree_stat_is_same(const char *path, const struct stat *a,
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

static bool pair_is_known(struct pairs *pairs, const char *path, ino_t a,
			  ino_t b)
{
	for (unsigned int i = 0; i < pairs->count; i++) {
		if (pairs->a[i] != a && pairs->b[i] != b)
			continue;
		if (pairs->a[i] == a && pairs->b[i] == b)
			return true;
		campaign_fault("%s: its other names are other inodes", path);
		return false;
	}
	if (pairs->count == INODES_MAX)
		trouble("more than %d inodes", INODES_MAX);
	pairs->a[pairs->count] = a;
	pairs->b[pairs->count++] = b;
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

static bool texts_are_same(const struct walk *w, mode_t mode)
{
	static char a[TEXT_MAX], b[TEXT_MAX];
	ssize_t a_size = text_of(w->a, w->path, mode, a);
	ssize_t b_size = text_of(w->b, w->path, mode, b);

	if (a_size == b_size &&
	    (a_size < 0 || memcmp(a, b, (size_t)a_size) == 0))
		return true;
	campaign_fault("%s: what is in it differs (%zd and %zd bytes)", w->path,
		       a_size, b_size);
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

static bool xattrs_are_same(const struct walk *w)
{
	static char a[TEXT_MAX], b[TEXT_MAX];

	a[0] = b[0] = '\0';
	xattrs_of(w->a, w->path, a, sizeof(a));
	xattrs_of(w->b, w->path, b, sizeof(b));
	if (strcmp(a, b) == 0)
		return true;
	campaign_fault("%s: attributes are '%.100s', not '%.100s'", w->path, b,
		       a);
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

static bool folder_is_same(struct walk *w);

static bool object_is_same(struct walk *w)
{
	struct stat a, b;

	if (fstatat(w->a, w->path, &a, AT_SYMLINK_NOFOLLOW) ||
	    fstatat(w->b, w->path, &b, AT_SYMLINK_NOFOLLOW)) {
		campaign_fault("%s is listed, but lstat fails: %s", w->path,
			       strerror(errno));
		return false;
	}
	if (!tree_stat_is_same(w->path, &a, &b) ||
	    !pair_is_known(w->pairs, w->path, a.st_ino, b.st_ino))
		return false;
	if ((S_ISREG(a.st_mode) || S_ISLNK(a.st_mode)) &&
	    !texts_are_same(w, a.st_mode))
		return false;
	if (w->has_xattrs && !xattrs_are_same(w))
		return false;
	return !S_ISDIR(a.st_mode) || folder_is_same(w);
}

static bool children_are_same(struct walk *w, char **a, int a_count, char **b,
			      int b_count)
{
	size_t end = strlen(w->path);

	for (int i = 0; i < a_count || i < b_count; i++) {
		bool is_same;

		if (i >= a_count || i >= b_count || strcmp(a[i], b[i]) != 0) {
			campaign_fault("folder %s: %s is listed, not %s",
				       w->path, i < b_count ? b[i] : "nothing",
				       i < a_count ? a[i] : "nothing");
			return false;
		}
		snprintf(w->path + end, sizeof(w->path) - end, "/%s", a[i]);
		is_same = object_is_same(w);
		w->path[end] = '\0';
		if (!is_same)
			return false;
	}
	return true;
}

static bool folder_is_same(struct walk *w)
{
	char *a[NAMES_MAX], *b[NAMES_MAX];
	int a_count = names_of(w->a, w->path, a);
	int b_count = names_of(w->b, w->path, b);
	bool is_same = (a_count < 0) == (b_count < 0);

	if (!is_same)
		campaign_fault("folder %s: can be read on one side only",
			       w->path);
	else
		is_same = children_are_same(w, a, a_count, b, b_count);
	free_names(a, a_count);
	free_names(b, b_count);
	return is_same;
}

bool tree_is_same(int a, int b, bool has_xattrs)
{
	static struct pairs pairs;
	struct walk w = {
		.a = a, .b = b, .has_xattrs = has_xattrs, .pairs = &pairs,
		.path = ".",
	};

	pairs.count = 0;
	return folder_is_same(&w);
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
		for (int i = 0; i < count; i++)
			tree_remove(fd, names[i]);
		free_names(names, count);
	} while (count == NAMES_MAX);
	close(fd);
	if (unlinkat(folder, name, AT_REMOVEDIR))
		trouble("can't remove %s", name);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_format.c - the directory of a store: lock, format file, first start
 *
 * Operation.  `format` makes a directory a store, and appears last, by a rename.
 * `format.new` before it says that what is there was begun by us: the next
 * start begins again with the same uuid, and loses nothing, since nothing was
 * served.
 */
#include "store_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uuid/uuid.h>

#define FORMAT_WORD "rdmafs-store"

static int fail(const struct store *store, const char *doing, const char *what)
{
	int err = -errno;

	rf_log(RF_LOG_ERROR, "store %s: can't %s %s: %s", store->config.dir,
	       doing, what, strerror(-err));
	return err;
}

/* ---- the directory ------------------------------------------------------- */

static int open_dir(struct store *store)
{
	if (mkdir(store->config.dir, 0700) && errno != EEXIST)
		return fail(store, "make", "the directory");
	store->dir_fd = open(store->config.dir,
			     O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (store->dir_fd < 0)
		return fail(store, "open", "the directory");
	return 0;
}

/* Nothing there but what a new file system or a first start leaves. */
static int check_is_empty(struct store *store)
{
	static const char *const allowed[] = { ".", "..", "lost+found",
					       "lock" };
	int fd = openat(store->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int err = 0;

	if (!dir) {
		err = fail(store, "list", "the directory");
		if (fd >= 0)
			close(fd);
		return err;
	}
	while (!err && (entry = readdir(dir))) {
		bool is_allowed = false;

		for (size_t i = 0; i < RF_ARRAY_SIZE(allowed); i++)
			if (strcmp(entry->d_name, allowed[i]) == 0)
				is_allowed = true;
		if (!is_allowed)
			err = -ENOTEMPTY;
	}
	closedir(dir);
	if (err)
		rf_log(RF_LOG_ERROR, "store %s: not a store, and not empty: "
		       "name a store or an empty directory",
		       store->config.dir);
	return err;
}

/* ---- the lock ------------------------------------------------------------ */

static void say_who_holds(const struct store *store)
{
	char text[32] = "";
	ssize_t size = pread(store->lock_fd, text, sizeof(text) - 1, 0);

	if (size > 0)
		text[strcspn(text, "\n")] = 0;
	rf_log(RF_LOG_ERROR, "store %s: in use by another server (process %s)",
	       store->config.dir, text[0] ? text : "unknown");
}

static int take_lock(struct store *store)
{
	char text[32];
	int size;

	store->lock_fd = openat(store->dir_fd, "lock",
				O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (store->lock_fd < 0)
		return fail(store, "open", "lock");
	if (flock(store->lock_fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK)
			return fail(store, "lock", "lock");
		say_who_holds(store);
		return -EBUSY;
	}
	size = snprintf(text, sizeof(text), "%d\n", getpid());
	if (ftruncate(store->lock_fd, 0) ||
	    pwrite(store->lock_fd, text, (size_t)size, 0) != size)
		return fail(store, "write", "lock");
	return 0;
}

/* ---- the format file ----------------------------------------------------- */

/* -EINVAL: damaged. */
static int parse_format(struct store *store, const char *text)
{
	unsigned int format;
	char uuid[37];

	if (sscanf(text, FORMAT_WORD " %u\n", &format) != 1)
		return -EINVAL;
	if (format > STORE_FORMAT) {
		rf_log(RF_LOG_ERROR, "store %s: has format %u, this server "
		       "knows up to %d: use a newer server",
		       store->config.dir, format, STORE_FORMAT);
		return -EPROTONOSUPPORT;
	}
	if (format < 1 ||
	    sscanf(text, FORMAT_WORD " %*u\nuuid %36s\n", uuid) != 1 ||
	    uuid_parse(uuid, store->volume.uuid))
		return -EINVAL;
	return 0;
}

/* -ENOENT: no such file; -EINVAL: damaged. */
static int read_format(struct store *store, const char *name)
{
	char text[256];
	ssize_t size;
	int fd = openat(store->dir_fd, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? -ENOENT : fail(store, "open", name);
	size = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (size < 0)
		return fail(store, "read", name);
	text[size] = 0;
	return parse_format(store, text);
}

static int write_format(struct store *store, const char *name)
{
	char text[256], uuid[37];
	int size, fd;

	uuid_unparse(store->volume.uuid, uuid);
	size = snprintf(text, sizeof(text), FORMAT_WORD " %d\nuuid %s\n",
			STORE_FORMAT, uuid);
	fd = openat(store->dir_fd, name,
		    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail(store, "make", name);
	if (write(fd, text, (size_t)size) != size || fsync(fd)) {
		close(fd);
		return fail(store, "write", name);
	}
	close(fd);
	return fsync(store->dir_fd) ? fail(store, "sync", "the directory") : 0;
}

/* ---- first start --------------------------------------------------------- */

static int make_dir(struct store *store, const char *name)
{
	if (mkdirat(store->dir_fd, name, 0700) && errno != EEXIST)
		return fail(store, "make", name);
	return 0;
}

static int make_tree(struct store *store)
{
	int err = make_dir(store, "meta");

	if (!err)
		err = make_dir(store, "data");
	for (unsigned int i = 0; i < SHARDS && !err; i++) {
		char name[sizeof("data/xx")];

		snprintf(name, sizeof(name), "data/%02x", i);
		err = make_dir(store, name);
	}
	return err;
}

static int begin_new(struct store *store)
{
	int err = read_format(store, "format.new");

	if (err == -EINVAL || err == -ENOENT) {
		/* None, or cut off by a crash: nothing depends on its uuid. */
		uuid_generate_random(store->volume.uuid);
		err = write_format(store, "format.new");
	}
	return err ? err : make_tree(store);
}

int format_finish(struct store *store)
{
	if (fsync(store->data_fd))
		return fail(store, "sync", "data");
	if (renameat(store->dir_fd, "format.new", store->dir_fd, "format"))
		return fail(store, "rename", "format.new");
	if (fsync(store->dir_fd))
		return fail(store, "sync", "the directory");
	return 0;
}

/* True if a first start was begun here. */
static bool was_begun(const struct store *store)
{
	return faccessat(store->dir_fd, "format.new", F_OK, 0) == 0;
}

static int prepare(struct store *store, bool *is_new)
{
	int err = read_format(store, "format");

	*is_new = err == -ENOENT;
	if (err == -EINVAL)
		rf_log(RF_LOG_ERROR, "store %s: the file format is damaged",
		       store->config.dir);
	if (*is_new)
		err = was_begun(store) ? 0 : check_is_empty(store);
	if (err)
		return err;
	err = take_lock(store);
	/* Another server may have finished it before we had the lock. */
	if (!err && *is_new && read_format(store, "format") == 0)
		*is_new = false;
	if (!err && *is_new)
		err = begin_new(store);
	return err;
}

int format_open(struct store *store, bool *is_new)
{
	int err = open_dir(store);

	if (!err)
		err = prepare(store, is_new);
	if (err)
		return err;
	store->data_fd = openat(store->dir_fd, "data",
				O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return store->data_fd < 0 ? fail(store, "open", "data") : 0;
}

void format_close(struct store *store)
{
	if (store->data_fd >= 0)
		close(store->data_fd);
	if (store->lock_fd >= 0)
		close(store->lock_fd);
	if (store->dir_fd >= 0)
		close(store->dir_fd);
}

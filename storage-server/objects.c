/* SPDX-License-Identifier: Apache-2.0 */
/*
 * objects.c - the cache of open data files
 *
 * Operation.  An object is a place in a fixed table: found by inode, counted,
 * and when nobody uses it kept open in the order of last use.  Its file is
 * opened at once if the kernel has its name cached, else by the first who needs
 * it on a worker; it is made by the first write.
 *
 * The end.  Bytes of a file beyond its inode's size are left by a crash only,
 * since size follows data.  They are cut when the file is opened, before anyone
 * can have written through the object.  Later only a write that failed, or whose
 * batch was dropped, can leave some: the object is suspect then, until somebody
 * who has it alone grows it (object_prepare_growth()) or its last user is gone.
 * While it is not suspect a file can't grow over old bytes, and writes that go
 * on side by side need no check of each other.
 *
 * Ownership.  The table, counts and lists are the reactor's.  The descriptor
 * and the atomic marks may be used by any thread that has a reference.
 */
#include "store_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	/* Descriptors that the rest of the server may need: sockets, tables of
	 * the engine. */
	FDS_FOR_OTHERS = 1024,
	OBJECTS_MIN = 16,
};

void data_path(uint64_t inode, char out[DATA_PATH_SIZE])
{
	static const char digits[] = "0123456789abcdef";
	char *at = out + DATA_PATH_SIZE - 1;

	*at = 0;
	for (unsigned int i = 0; i < 64; i += 4)
		*--at = digits[inode >> i & 15];
	*--at = '/';
	out[0] = digits[inode >> 4 & 15];
	out[1] = digits[inode & 15];
}

/* ---- the table ----------------------------------------------------------- */

/* As many descriptors as the hard limit allows, up to what we want. */
static unsigned int raise_fd_limit(unsigned int count)
{
	rlim_t wanted = (rlim_t)count + FDS_FOR_OTHERS;
	struct rlimit limit;
	unsigned int fits;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return count;
	if (limit.rlim_cur < wanted) {
		limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max :
							   wanted;
		setrlimit(RLIMIT_NOFILE, &limit);
		getrlimit(RLIMIT_NOFILE, &limit);
	}
	if (limit.rlim_cur >= wanted)
		return count;
	fits = limit.rlim_cur > FDS_FOR_OTHERS + OBJECTS_MIN ?
	       (unsigned int)(limit.rlim_cur - FDS_FOR_OTHERS) : OBJECTS_MIN;
	rf_log(RF_LOG_WARN, "the limit of open files allows only %u data files "
	       "to be kept open instead of %u: raise it to %llu (ulimit -n, "
	       "LimitNOFILE)", fits, count, (unsigned long long)wanted);
	return fits;
}

int objects_init(struct store *store, unsigned int count)
{
	struct objects *objects = &store->objects;

	count = raise_fd_limit((unsigned int)rf_max_u64(count, OBJECTS_MIN));
	objects->bucket_count = 1;
	while (objects->bucket_count < count)
		objects->bucket_count *= 2;
	rf_list_init(&objects->idle);
	rf_list_init(&objects->free);
	objects->table = calloc(count, sizeof(*objects->table));
	objects->buckets = calloc(objects->bucket_count,
				  sizeof(struct object *));
	if (!objects->table || !objects->buckets)
		return -ENOMEM;
	objects->count = count;
	for (unsigned int i = 0; i < count; i++) {
		struct object *object = &objects->table[i];

		object->store = store;
		atomic_store(&object->fd, OBJECT_UNKNOWN);
		rf_list_push(&objects->free, &object->link);
	}
	return 0;
}

void objects_fini(struct store *store)
{
	struct objects *objects = &store->objects;

	for (unsigned int i = 0; i < objects->count; i++) {
		int fd = atomic_load(&objects->table[i].fd);

		if (fd >= 0)
			close(fd);
	}
	free(objects->table);
	free(objects->buckets);
}

static struct object **bucket_of(struct objects *objects, uint64_t inode)
{
	/* Numbers come one after the other: the low bits spread best. */
	return &objects->buckets[inode & (objects->bucket_count - 1)];
}

struct object *objects_find(struct store *store, uint64_t inode)
{
	struct object *object = *bucket_of(&store->objects, inode);

	while (object && object->inode != inode)
		object = object->chain;
	return object;
}

int objects_forget(struct store *store, struct object *object)
{
	struct object **at = bucket_of(&store->objects, object->inode);
	int fd = atomic_exchange(&object->fd, OBJECT_UNKNOWN);

	RF_ASSERT(object->refs == 0);
	while (*at != object)
		at = &(*at)->chain;
	*at = object->chain;
	rf_list_remove(&object->link);
	rf_list_push(&store->objects.free, &object->link);
	store->objects.used--;
	return fd;
}

static struct object *take_place(struct store *store)
{
	struct objects *objects = &store->objects;

	if (rf_list_is_empty(&objects->free)) {
		struct object *oldest;
		int fd;

		if (rf_list_is_empty(&objects->idle))
			return NULL;
		oldest = rf_container_of(objects->idle.next, struct object,
					 link);
		fd = objects_forget(store, oldest);
		if (fd >= 0)
			close(fd);
	}
	return rf_container_of(rf_list_pop(&objects->free), struct object,
			       link);
}

void objects_note_size(struct store *store, const struct inode *inode)
{
	struct object *object = objects_find(store, inode->number);
	uint64_t size = inode->size;

	if (!object)
		return;
	/* Not opened yet: what is beyond any size since then is to be cut. */
	if (atomic_load(&object->fd) == OBJECT_UNKNOWN)
		size = rf_min_u64(size, atomic_load(&object->inode_size));
	atomic_store(&object->inode_size, size);
}

/* ---- opening ------------------------------------------------------------- */

int object_cut_end(struct store *store, int fd, uint64_t size)
{
	struct stat st;
	int err;

	if (fstat(fd, &st))
		return -errno;
	if ((uint64_t)st.st_size <= size)
		return 0;
	err = store_flush_log(store);
	if (err)
		return err;
	return ftruncate(fd, (off_t)size) ? -errno : 1;
}

static int adopt_fd(struct object *object, int fd)
{
	int err = 0;

	/* The log may not have that size, and nothing can grow any more. */
	if (!store_has_failed(object->store))
		err = object_cut_end(object->store, fd,
				     atomic_load(&object->inode_size));
	if (err < 0) {
		close(fd);
		return err;
	}
	atomic_store(&object->fd, fd);
	return fd;
}

/*
 * Open without waiting for the disk: only if the kernel has the path in its
 * cache.  Else it stays unknown.
 */
static void try_open_cached(struct object *object)
{
	struct open_how how = { .flags = O_RDWR | O_CLOEXEC,
				.resolve = RESOLVE_CACHED };
	char path[DATA_PATH_SIZE];
	int fd;

	data_path(object->inode, path);
	fd = (int)syscall(SYS_openat2, object->store->data_fd, path, &how,
			  sizeof(how));
	if (fd >= 0)
		adopt_fd(object, fd);
	else if (errno == ENOENT)
		atomic_store(&object->fd, OBJECT_NONE);
}

static int open_locked(struct object *object, bool is_made)
{
	int flags = O_RDWR | O_CLOEXEC | (is_made ? O_CREAT : 0);
	int fd = atomic_load(&object->fd);
	char path[DATA_PATH_SIZE];

	if (fd >= 0)
		return fd;
	data_path(object->inode, path);
	fd = openat(object->store->data_fd, path, flags, 0600);
	if (fd < 0) {
		int err = -errno;

		if (err == -ENOENT)
			atomic_store(&object->fd, OBJECT_NONE);
		return err;
	}
	/* Made just now, or not: its directory entry may need a sync. */
	if (is_made)
		atomic_store(&object->is_new, true);
	return adopt_fd(object, fd);
}

int object_fd(struct object *object, bool is_made)
{
	int fd = atomic_load(&object->fd);

	if (fd >= 0)
		return fd;
	if (fd == OBJECT_NONE && !is_made)
		return -ENOENT;
	/*
	 * Held across system calls: two must not open, cut and write at once,
	 * and only what is not open yet comes here.
	 */
	pthread_mutex_lock(&object->store->objects_lock);
	fd = open_locked(object, is_made);
	pthread_mutex_unlock(&object->store->objects_lock);
	if (fd < 0 && fd != -ENOENT)
		store_say_failure(object, "open", fd);
	return fd;
}

static int load(struct store *store, uint64_t number, struct object **out)
{
	struct object *object;
	struct inode inode;
	int err;

	err = store_find_inode(store, number, &inode);
	if (err)
		return err;
	if (!S_ISREG(inode.mode))
		return S_ISDIR(inode.mode) ? -EISDIR : -EINVAL;
	object = take_place(store);
	if (!object)
		return -ENFILE;
	object->inode = number;
	object->refs = 0;
	object->is_doomed = false;
	object->sync_round = 0;
	atomic_store(&object->inode_size, inode.size);
	/* It may have left the cache, or the last run, before it was synced. */
	atomic_store(&object->is_dirty, true);
	atomic_store(&object->is_new, true);
	atomic_store(&object->is_suspect, false);
	try_open_cached(object);
	object->chain = *bucket_of(&store->objects, number);
	*bucket_of(&store->objects, number) = object;
	store->objects.used++;
	*out = object;
	return 0;
}

int object_get(struct store *store, uint64_t inode, struct object **out)
{
	struct object *object = objects_find(store, inode);
	int err;

	if (!object) {
		err = load(store, inode, &object);
		if (err)
			return err;
	}
	if (object->is_doomed)
		return -ESTALE;
	if (object->refs++ == 0) {
		rf_list_remove(&object->link);
		store->objects.referenced++;
	}
	*out = object;
	return 0;
}

/*
 * The last user has left, and so nothing is under way: cut what a failure left,
 * or have the next open cut it.  The size is that of a batch that is open, if
 * it has written to this file.
 */
static void settle_suspect(struct store *store, struct object *object)
{
	int fd = atomic_load(&object->fd);
	struct inode inode;

	if (store_has_failed(store))
		return;		/* the next start cuts to what the log says */
	if (fd >= 0 && store_find_inode(store, object->inode, &inode) == 0 &&
	    object_cut_end(store, fd, inode.size) >= 0) {
		atomic_store(&object->is_suspect, false);
		return;
	}
	fd = objects_forget(store, object);
	if (fd >= 0)
		close(fd);
}

void objects_note_abort(struct store *store, const struct inode *dropped)
{
	struct object *object = objects_find(store, dropped->number);
	struct inode inode;

	if (!object || store_read_inode(store, dropped->number, &inode))
		return;
	/* If it was opened in between, it was by the size that was dropped. */
	objects_note_size(store, &inode);
	if (dropped->size > inode.size)
		object_note_rest(object);
}

void object_put(struct object *object)
{
	struct store *store = object->store;

	RF_ASSERT(object->refs > 0);
	if (--object->refs)
		return;
	store->objects.referenced--;
	if (object->is_doomed) {
		rf_list_push(&store->deletions.released, &object->link);
		deletions_start(store);
		return;
	}
	rf_list_push(&store->objects.idle, &object->link);
	if (object_has_rest(object))
		settle_suspect(store, object);
}

bool store_needs_flush(struct store *store, uint64_t inode)
{
	struct object *object = objects_find(store, inode);

	if (!object)
		return true;		/* it may have been dirty when it left */
	if (atomic_load(&object->fd) == OBJECT_NONE)
		return false;
	/* In this order: a sync sets the first, then clears the others. */
	return atomic_load(&object->is_dirty) || atomic_load(&object->is_new) ||
	       atomic_load(&object->is_syncing);
}

uint64_t objects_blocks(struct store *store, uint64_t inode, uint64_t fallback)
{
	struct object *object = objects_find(store, inode);

	if (!object || atomic_load(&object->fd) == OBJECT_UNKNOWN)
		return fallback;
	return object_blocks(object);
}

uint64_t object_blocks(struct object *object)
{
	int fd = object_fd(object, false);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_blocks : 0;
}

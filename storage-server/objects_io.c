/* SPDX-License-Identifier: Apache-2.0 */
/*
 * objects_io.c - reading, writing and shaping a data file
 *
 * A file that is not there, and what lies beyond the end of one, is zeroes: the
 * caller, who knows the inode's size, fills up what a short read leaves.
 */
#include "store_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int check_range(uint64_t offset, uint64_t size)
{
	if (offset > STORE_SIZE_MAX || size > STORE_SIZE_MAX - offset)
		return -EFBIG;
	return 0;
}

/* ---- read ---------------------------------------------------------------- */

static bool ends_before(int fd, uint64_t offset)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (uint64_t)st.st_size <= offset;
}

ssize_t object_read_cached(struct object *object, void *out, size_t size,
			   uint64_t offset)
{
	struct iovec piece = { out, size };
	int fd = atomic_load(&object->fd);
	ssize_t got;

	if (fd == OBJECT_NONE)
		return 0;
	if (fd < 0)
		return -EAGAIN;
	got = preadv2(fd, &piece, 1, (off_t)offset, RWF_NOWAIT);
	if (got == (ssize_t)size)
		return got;
	/* A worker's read tells what is wrong. */
	if (got < 0)
		return -EAGAIN;
	/* Short: the end of the file, or of what is cached. */
	return ends_before(fd, offset + (uint64_t)got) ? got : -EAGAIN;
}

ssize_t object_read(struct object *object, void *out, size_t size,
		    uint64_t offset)
{
	int fd = object_fd(object, false);
	size_t done = 0;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	while (done < size) {
		ssize_t got = pread(fd, (char *)out + done, size - done,
				    (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return store_say_failure(object, "read", -errno);
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

/* ---- write --------------------------------------------------------------- */

/*
 * To be called when the bytes are there, whole or in part: a sync takes the mark away
 * before it begins, and one that began earlier may have missed them.
 */
static void note_change(struct object *object)
{
	atomic_store(&object->is_dirty, true);
}

enum { EXTENTS = 16 };

/* Extents of a file, as the file system tells them. */
union extent_map {
	struct fiemap head;
	uint8_t room[sizeof(struct fiemap) +
		     EXTENTS * sizeof(struct fiemap_extent)];
};

/*
 * Where the blocks that are there from offset on end, offset itself if there is none;
 * also those that are set aside, but not those shared with another file, which would
 * be copied.  No further than the map has room for.
 */
static int find_blocks(int fd, uint64_t offset, uint64_t size, uint64_t *out)
{
	union extent_map map = { .room = { 0 } };

	map.head.fm_start = offset;
	map.head.fm_length = size;
	map.head.fm_extent_count = EXTENTS;
	if (ioctl(fd, FS_IOC_FIEMAP, &map))
		return -errno;
	*out = offset;
	for (unsigned int i = 0; i < map.head.fm_mapped_extents; i++) {
		const struct fiemap_extent *extent = &map.head.fm_extents[i];

		if (extent->fe_logical > *out ||
		    (extent->fe_flags & FIEMAP_EXTENT_SHARED))
			break;
		*out = extent->fe_logical + extent->fe_length;
	}
	return 0;
}

/* Has the file no holes, and ends the range within it?  For file systems that don't
 * tell their blocks. */
static bool is_inside_full(int fd, uint64_t end)
{
	struct stat st;

	return fstat(fd, &st) == 0 && end <= (uint64_t)st.st_size &&
	       st.st_blocks * 512 >= st.st_size;
}

/* Does a write of the range need no room? */
static bool is_overwrite(struct object *object, size_t size, uint64_t offset)
{
	int fd = object_fd(object, false);
	uint64_t end = offset + size, next;

	if (fd < 0)
		return false;
	for (; offset < end; offset = next) {
		if (find_blocks(fd, offset, end - offset, &next))
			return is_inside_full(fd, end);
		if (next <= offset)
			return false;
	}
	return true;
}

/*
 * A write failed after it had stored bytes up to end.  They are not removed
 * here: what others write at the same place now must stay.
 */
static void leave_rest(struct object *object, uint64_t end)
{
	if (end > atomic_load(&object->inode_size))
		object_note_rest(object);
}

static int write_all(struct object *object, int fd, const void *data,
		     size_t size, uint64_t offset)
{
	size_t done = 0;

	while (done < size) {
		ssize_t put = pwrite(fd, (const char *)data + done, size - done,
				     (off_t)(offset + done));
		int err = put < 0 ? -errno : -EIO;

		if (put > 0) {
			done += (size_t)put;
			continue;
		}
		if (err == -EINTR)
			continue;
		if (done > 0)
			leave_rest(object, offset + done);
		return store_say_failure(object, "write", err);
	}
	return 0;
}

int object_write(struct object *object, const void *data, size_t size,
		 uint64_t offset)
{
	int fd, err = check_range(offset, size);

	if (err || size == 0)
		return err;
	err = store_take_space(object->store, size);
	if (err && !is_overwrite(object, size, offset))
		return err;
	fd = object_fd(object, true);
	if (fd < 0)
		return fd;
	err = write_all(object, fd, data, size, offset);
	note_change(object);
	return err;
}

/* ---- the end ------------------------------------------------------------- */

void object_note_rest(struct object *object)
{
	atomic_store(&object->is_suspect, true);
}

bool object_has_rest(const struct object *object)
{
	return atomic_load(&object->is_suspect);
}

/* From now on nothing is left beyond size. */
static int cut_rest(struct object *object, int fd, uint64_t size)
{
	int cut = object_cut_end(object->store, fd, size);

	if (cut >= 0)
		atomic_store(&object->is_suspect, false);
	return cut;
}

int object_prepare_growth(struct object *object, uint64_t old_size,
			  uint64_t offset)
{
	int fd = object_fd(object, false), cut;
	struct stat st;
	uint64_t end;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	/* Opening it has cut it; only a failure since can have left more. */
	if (!object_has_rest(object))
		return 0;
	if (atomic_load(&object->inode_size) == old_size) {
		cut = cut_rest(object, fd, old_size);
		return cut < 0 ? cut : 0;
	}
	if (fstat(fd, &st))
		return -errno;
	/*
	 * old_size is that of a batch which may yet be dropped: what is needed
	 * beyond it then must stay, so only what is to be grown over goes.
	 */
	end = rf_min_u64((uint64_t)st.st_size, offset);
	if (end <= old_size)
		return 0;
	return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			 (off_t)old_size, (off_t)(end - old_size)) ? -errno : 0;
}

int object_truncate(struct object *object, uint64_t size)
{
	int fd, cut, err = check_range(size, 0);

	if (err)
		return err;
	/* The batch that says so first, also if only a hole is cut: a crash would
	 * leave what is written behind it under the former size. */
	err = store_flush_log(object->store);
	if (err)
		return err;
	fd = object_fd(object, false);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	cut = cut_rest(object, fd, size);
	if (cut == 0)		/* beyond the data file's end is zero */
		return 0;
	note_change(object);
	if (cut > 0)
		return 0;
	object_note_rest(object);
	return store_say_failure(object, "truncation", cut);
}

/* ---- shape --------------------------------------------------------------- */

static int falloc_mode(unsigned int flags, int *out)
{
	*out = flags & RF_FALLOC_KEEP_SIZE ? FALLOC_FL_KEEP_SIZE : 0;
	switch (flags & (RF_FALLOC_PUNCH | RF_FALLOC_ZERO)) {
	case 0:
		return 0;
	case RF_FALLOC_PUNCH:
		/* As the kernel asks: a punch never changes the size. */
		if (!(flags & RF_FALLOC_KEEP_SIZE))
			return -EOPNOTSUPP;
		*out |= FALLOC_FL_PUNCH_HOLE;
		return 0;
	case RF_FALLOC_ZERO:
		*out |= FALLOC_FL_ZERO_RANGE;
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

int object_allocate(struct object *object, unsigned int flags, uint64_t offset,
		    uint64_t size)
{
	int fd, mode, err = falloc_mode(flags, &mode);

	if (err)
		return err;
	if (size == 0 || (flags & ~(unsigned int)RF_FALLOC_ALL))
		return -EINVAL;
	err = check_range(offset, size);
	if (!err && !(mode & FALLOC_FL_PUNCH_HOLE))
		err = store_take_space(object->store, size);
	if (err)
		return err;
	fd = object_fd(object, !(mode & FALLOC_FL_PUNCH_HOLE));
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	do
		err = fallocate(fd, mode, (off_t)offset, (off_t)size) ? -errno : 0;
	while (err == -EINTR);
	note_change(object);
	return err && err != -EOPNOTSUPP ?
	       store_say_failure(object, "allocation", err) : err;
}

/*
 * lseek() in the data file.  It may end before the inode does, inside of a block:
 * the rest of that block is as the block is, for holes are whole blocks.
 */
static off_t seek_blocks(int fd, uint64_t offset, int whence)
{
	enum { LOCAL_BLOCK = 4096 };
	uint64_t end, block_end, from = offset;
	struct stat st;
	off_t at;

	if (fstat(fd, &st) < 0)
		return -1;
	end = (uint64_t)st.st_size;
	block_end = rf_align_up(end, LOCAL_BLOCK);
	if (offset >= end && offset < block_end)
		from = end - 1;
	at = lseek(fd, (off_t)from, whence);
	if (at < 0)
		return at;
	if ((uint64_t)at == end)
		return (off_t)block_end;
	return (off_t)rf_max_u64((uint64_t)at, offset);
}

int object_seek(struct object *object, uint64_t offset, bool is_hole,
		uint64_t file_size, uint64_t *out)
{
	int fd;
	off_t at;

	if (offset >= file_size)
		return -ENXIO;
	fd = object_fd(object, false);
	if (fd < 0 && fd != -ENOENT)
		return fd;
	at = fd < 0 ? -1 : seek_blocks(fd, offset,
				       is_hole ? SEEK_HOLE : SEEK_DATA);
	if (fd >= 0 && at < 0 && errno != ENXIO)
		return -errno;
	if (at < 0) {			/* beyond the data file: a hole */
		*out = offset;
		return is_hole ? 0 : -ENXIO;
	}
	if ((uint64_t)at >= file_size && !is_hole)
		return -ENXIO;
	*out = rf_min_u64((uint64_t)at, file_size);
	return 0;
}

/* ---- copy ---------------------------------------------------------------- */

/* For file systems that can't copy by themselves. */
static ssize_t copy_by_hand(int from, off_t from_offset, int to,
			    off_t to_offset, size_t size)
{
	char piece[65536];
	ssize_t got, put;

	got = pread(from, piece, size < sizeof(piece) ? size : sizeof(piece),
		    from_offset);
	if (got <= 0)
		return got < 0 ? -errno : 0;
	put = pwrite(to, piece, (size_t)got, to_offset);
	return put < 0 ? -errno : put;
}

static bool cannot_copy(int error)
{
	return error == EXDEV || error == EOPNOTSUPP || error == ENOSYS ||
	       error == EPERM;
}

/* Bytes copied until the source's end or size. */
static ssize_t copy_data(int from, uint64_t from_offset, int to,
			 uint64_t to_offset, size_t size)
{
	size_t done = 0;

	while (done < size) {
		loff_t in = (loff_t)(from_offset + done);
		loff_t out = (loff_t)(to_offset + done);
		ssize_t put = copy_file_range(from, &in, to, &out, size - done,
					      0);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0 && cannot_copy(errno))
			put = copy_by_hand(from, in, to, out, size - done);
		else if (put < 0)
			put = -errno;
		if (put < 0)
			return done ? (ssize_t)done : put;
		if (put == 0)
			break;
		done += (size_t)put;
	}
	return (ssize_t)done;
}

/* What the source has no bytes for reads as zeroes in the target too. */
static int clear_rest(int fd, uint64_t offset, size_t size)
{
	struct stat st;
	uint64_t end;

	if (fstat(fd, &st))
		return -errno;
	end = rf_min_u64(offset + size, (uint64_t)st.st_size);
	if (end <= offset)
		return 0;
	return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			 (off_t)offset, (off_t)(end - offset)) ? -errno : 0;
}

/* Does [offset, offset + size) of the source begin where no byte is? */
static bool has_data_at(int fd, uint64_t offset)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && offset < (uint64_t)st.st_size;
}

ssize_t object_copy(struct object *from, uint64_t from_offset,
		    struct object *to, uint64_t to_offset, size_t size)
{
	int from_fd = object_fd(from, false), to_fd, err;
	ssize_t done = 0;

	err = check_range(to_offset, size);
	if (!err)
		err = check_range(from_offset, size);
	if (!err && from == to && from_offset < to_offset + size &&
	    to_offset < from_offset + size)
		err = -EINVAL;
	if (!err)
		err = store_take_space(to->store, size);
	if (err || size == 0)
		return err;
	if (from_fd < 0 && from_fd != -ENOENT)
		return from_fd;
	to_fd = object_fd(to, has_data_at(from_fd, from_offset));
	if (to_fd < 0)
		return to_fd == -ENOENT ? (ssize_t)size : to_fd;
	if (from_fd >= 0)
		done = copy_data(from_fd, from_offset, to_fd, to_offset, size);
	note_change(to);
	if (done < 0) {
		leave_rest(to, to_offset + size);
		return store_say_failure(to, "copy", (int)done);
	}
	if ((size_t)done == size ||
	    has_data_at(from_fd, from_offset + (uint64_t)done))
		return done;
	err = clear_rest(to_fd, to_offset + (uint64_t)done,
			 size - (size_t)done);
	note_change(to);
	if (err)
		leave_rest(to, to_offset + size);
	return err ? err : (ssize_t)size;
}

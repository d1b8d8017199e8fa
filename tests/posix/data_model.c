/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data_model.c - random operations on the data of two files, beside a copy of
 * what must be in them
 *
 *	data_model [OPTIONS] FOLDER [THE SAME FOLDER BY ANOTHER MOUNT]
 *
 * Operation.  Each operation goes by one of the mounts, by one of three open
 * descriptors a file has there (plain, O_APPEND, O_DIRECT).  After it the size
 * must be right on every mount, and the bytes that it was about, with some around
 * them, are read back on one of them; at times, and at the end, all bytes on all.
 *
 * With one mount mappings may stay for long, and what they store must be seen at
 * once.  With two, what CONSISTENCY.md promises: a mapping is made after an
 * fstat(), and its stores are synced before the other mount is asked.
 */
#include "lib/campaign.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	FILES = 2,
	SIDES_MAX = 2,
	SIZE_MAX_HERE = 1400 * 1024,	/* more than one message moves */
	PAGE = 4096,
	AROUND = 300,			/* bytes looked at beside a change */
	COMPARE_EVERY = 60,
};

enum how { PLAIN, APPEND, DIRECT, HOWS };

struct held_map {
	uint8_t *mem;
	size_t size;
};

static struct {
	const char *folders[SIDES_MAX];
	unsigned int sides;
	bool has_direct;		/* O_DIRECT, by what holds the folder */
	bool has_punch, has_zero, has_copy;
} site;

static struct {
	int fd[SIDES_MAX][FILES][HOWS];
	uint8_t bytes[FILES][SIZE_MAX_HERE];
	uint32_t size[FILES];
	struct held_map held[FILES];
	char path[SIDES_MAX][FILES][PATH_MAX];
} now;

static uint8_t *buffer;			/* page aligned */

/* ---- arguments, as every operation has them ------------------------------- */

enum { SIDE, FILE_NO, HOW, OFFSET, SIZE, FILL, EXTRA, READER };

static uint32_t some_offset(struct rng *rng)
{
	static const uint32_t below[] = {
		100, 5000, 5000, 20000, 70000, 140000, 300000, SIZE_MAX_HERE,
	};
	static const uint32_t edges[] = {
		4096, 65536, 131072, 262144, 524288, 1048576,
	};
	uint32_t offset = rng_below(rng, rng_of(rng, below));

	if (rng_percent(rng, 25))
		offset &= ~(uint32_t)(PAGE - 1);
	if (rng_percent(rng, 10))
		offset = rng_of(rng, edges) + 2 - rng_below(rng, 5);
	return offset;
}

static uint32_t some_size(struct rng *rng)
{
	static const uint32_t below[] = {
		10, 600, 4097, 4200, 9000, 30000, 70000, 140000, SIZE_MAX_HERE,
	};
	uint32_t size = 1 + rng_below(rng, rng_of(rng, below));

	if (rng_percent(rng, 25))
		size = (size + PAGE - 1) & ~(uint32_t)(PAGE - 1);
	return size;
}

static void fill(struct rng *rng, struct op *op)
{
	op->arg[SIDE] = rng_below(rng, SIDES_MAX);
	op->arg[FILE_NO] = rng_below(rng, FILES);
	op->arg[HOW] = rng_below(rng, HOWS);
	op->arg[OFFSET] = some_offset(rng);
	op->arg[SIZE] = some_size(rng);
	op->arg[FILL] = (uint32_t)rng_next(rng);
	op->arg[EXTRA] = some_offset(rng);
	op->arg[READER] = rng_below(rng, SIDES_MAX * HOWS);
}

static unsigned int side_of(const struct op *op)
{
	return op->arg[SIDE] % site.sides;
}

static unsigned int file_of(const struct op *op)
{
	return op->arg[FILE_NO] % FILES;
}

/* How to write or read; the range becomes one that O_DIRECT may have. */
static enum how how_of(const struct op *op, uint32_t *offset, uint32_t *size)
{
	enum how how = op->arg[HOW] % HOWS;

	*offset = op->arg[OFFSET];
	*size = op->arg[SIZE];
	if (how == DIRECT && !site.has_direct)
		how = PLAIN;
	if (how == DIRECT) {
		*offset &= ~(uint32_t)(PAGE - 1);
		*size = (*size + PAGE - 1) & ~(uint32_t)(PAGE - 1);
	}
	if (*offset >= SIZE_MAX_HERE)
		*offset = 0;
	if (*size > SIZE_MAX_HERE - *offset)
		*size = SIZE_MAX_HERE - *offset;
	return how;
}

static void fill_bytes(uint8_t *out, uint32_t size, uint32_t seed)
{
	for (uint32_t i = 0; i < size; i++)
		out[i] = (uint8_t)(seed + i * 7 + (i >> 8) * 13) | 1;
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- the model ------------------------------------------------------------ */

static void model_resize(unsigned int file, uint32_t size)
{
	if (size < now.size[file])
		memset(now.bytes[file] + size, 0, now.size[file] - size);
	now.size[file] = size;
}

static void model_grow(unsigned int file, uint32_t size)
{
	if (size > now.size[file])
		now.size[file] = size;
}

/* ---- judging -------------------------------------------------------------- */

static bool check_call(const char *what, long got, long wanted)
{
	if (got == wanted)
		return true;
	if (got < 0)
		campaign_fault("%s: %s, not %ld", what, strerror(errno), wanted);
	else
		campaign_fault("%s: %ld, not %ld", what, got, wanted);
	return false;
}

static bool check_bytes(const char *what, unsigned int file, uint32_t offset,
			const uint8_t *got, uint32_t size)
{
	const uint8_t *wanted = now.bytes[file] + offset;
	uint32_t i = 0, last;

	if (memcmp(got, wanted, size) == 0)
		return true;
	while (got[i] == wanted[i])
		i++;
	for (last = size - 1; got[last] == wanted[last];)
		last--;
	campaign_fault("%s of file %u: bytes %u to %u differ, the first is %u, "
		       "not %u (size %u)", what, file, offset + i,
		       offset + last, got[i], wanted[i], now.size[file]);
	return false;
}

static bool check_size(unsigned int side, unsigned int file)
{
	struct stat st;

	if (!check_call("fstat", fstat(now.fd[side][file][PLAIN], &st), 0))
		return false;
	if (st.st_size != now.size[file]) {
		campaign_fault("size of file %u on mount %u is %lld, not %u",
			       file, side, (long long)st.st_size,
			       now.size[file]);
		return false;
	}
	return true;
}

static bool check_range(unsigned int side, unsigned int file, enum how how,
			uint32_t offset, uint32_t size)
{
	uint32_t wanted;

	if (how == DIRECT && !site.has_direct)
		how = PLAIN;
	if (how == DIRECT) {
		size += offset & (PAGE - 1);
		offset &= ~(uint32_t)(PAGE - 1);
		size = (size + PAGE - 1) & ~(uint32_t)(PAGE - 1);
	}
	wanted = offset < now.size[file] ?
		 min_u32(size, now.size[file] - offset) : 0;
	return check_call(how == DIRECT ? "direct read" : "read",
			  pread(now.fd[side][file][how], buffer, size, offset),
			  (long)wanted) &&
	       check_bytes(side ? "read by mount 1" : "read by mount 0", file,
			   offset, buffer, wanted);
}

static bool check_all(void)
{
	for (unsigned int side = 0; side < site.sides; side++)
		for (unsigned int file = 0; file < FILES; file++)
			if (!check_range(side, file, PLAIN, 0,
					 now.size[file] + PAGE))
				return false;
	return true;
}

/* After an operation: sizes, and the bytes about it, seen by some mount. */
static bool check_after(const struct op *op)
{
	unsigned int side = op->arg[READER] % site.sides;
	unsigned int file = file_of(op);
	uint32_t offset = op->arg[OFFSET], size = op->arg[SIZE];

	for (unsigned int i = 0; i < site.sides; i++)
		for (unsigned int j = 0; j < FILES; j++)
			if (!check_size(i, j))
				return false;
	offset -= min_u32(offset, AROUND);
	return check_range(side, file, op->arg[READER] / SIDES_MAX % HOWS,
			   offset, min_u32(size, 100000) + 2 * AROUND);
}

/* ---- reading and writing -------------------------------------------------- */

static bool do_read(const struct op *op)
{
	uint32_t offset, size;
	enum how how = how_of(op, &offset, &size);

	return check_range(side_of(op), file_of(op), how, offset, size);
}

static bool do_write(const struct op *op)
{
	unsigned int file = file_of(op);
	uint32_t offset, size;
	enum how how = how_of(op, &offset, &size);

	if (how == APPEND) {
		offset = now.size[file];
		size = min_u32(size, SIZE_MAX_HERE - offset);
	}
	if (size == 0)
		return true;
	fill_bytes(buffer, size, op->arg[FILL]);
	/* Linux appends whatever offset is asked for. */
	if (!check_call("write", pwrite(now.fd[side_of(op)][file][how], buffer,
					size, how == APPEND ? 0 : offset),
			(long)size))
		return false;
	memcpy(now.bytes[file] + offset, buffer, size);
	model_grow(file, offset + size);
	return true;
}

/* ---- sizes and holes ------------------------------------------------------ */

static bool do_truncate(const struct op *op)
{
	unsigned int side = side_of(op), file = file_of(op);
	uint32_t size = op->arg[OFFSET] % SIZE_MAX_HERE;
	int got = op->arg[EXTRA] % 2 ?
		  truncate(now.path[side][file], size) :
		  ftruncate(now.fd[side][file][PLAIN], size);

	if (!check_call("truncate", got, 0))
		return false;
	model_resize(file, size);
	return true;
}

static bool allocate(const struct op *op, int mode, const char *what,
		     bool zeroes)
{
	unsigned int file = file_of(op);
	uint32_t offset = op->arg[OFFSET] % SIZE_MAX_HERE;
	uint32_t size = min_u32(op->arg[SIZE], SIZE_MAX_HERE - offset);
	uint32_t end = min_u32(offset + size, now.size[file]);

	if (!check_call(what, fallocate(now.fd[side_of(op)][file][PLAIN], mode,
					offset, size), 0))
		return false;
	if (zeroes && end > offset)
		memset(now.bytes[file] + offset, 0, end - offset);
	if (!(mode & FALLOC_FL_KEEP_SIZE))
		model_grow(file, offset + size);
	return true;
}

static int keep_size(const struct op *op)
{
	return op->arg[EXTRA] % 2 ? FALLOC_FL_KEEP_SIZE : 0;
}

static bool do_fallocate(const struct op *op)
{
	return allocate(op, keep_size(op), "fallocate", false);
}

static bool do_punch(const struct op *op)
{
	int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	if (campaign_is_spoiled && op->arg[OFFSET] % PAGE == 0)
		mode = FALLOC_FL_KEEP_SIZE;
	return !site.has_punch || allocate(op, mode, "punch", true);
}

static bool do_zero(const struct op *op)
{
	return !site.has_zero ||
	       allocate(op, FALLOC_FL_ZERO_RANGE | keep_size(op), "zero range",
			true);
}

static bool is_zero(unsigned int file, off_t from, off_t to)
{
	for (off_t i = from; i < to; i++)
		if (now.bytes[file][i])
			return false;
	return true;
}

static bool flush_held(unsigned int file)
{
	const struct held_map *held = &now.held[file];

	return !held->mem ||
	       check_call("msync", msync(held->mem, held->size, MS_SYNC), 0);
}

/* What is called a hole is zeroes; data and holes cover the file in turn. */
static bool do_seek(const struct op *op)
{
	unsigned int file = file_of(op);
	int fd = now.fd[side_of(op)][file][PLAIN];
	off_t size = now.size[file], at = 0;

	if (!flush_held(file))
		return false;
	while (at < size) {
		off_t data = lseek(fd, at, SEEK_DATA);
		off_t hole;

		if (data < 0 && errno == ENXIO)
			data = size;
		if (data < at || data > size || !is_zero(file, at, data)) {
			campaign_fault("SEEK_DATA from %lld gave %lld of %lld",
				       (long long)at, (long long)data,
				       (long long)size);
			return false;
		}
		if (data == size)
			break;
		hole = lseek(fd, data, SEEK_HOLE);
		if (hole <= data || hole > size) {
			campaign_fault("SEEK_HOLE from %lld gave %lld of %lld",
				       (long long)data, (long long)hole,
				       (long long)size);
			return false;
		}
		at = hole;
	}
	if (lseek(fd, size, SEEK_DATA) >= 0 || errno != ENXIO ||
	    lseek(fd, size, SEEK_HOLE) >= 0 || errno != ENXIO) {
		campaign_fault("a seek from the end did not give ENXIO");
		return false;
	}
	return true;
}

/* ---- copy_file_range ------------------------------------------------------ */

static bool copy(const struct op *op, unsigned int from, unsigned int to,
		 uint32_t in, uint32_t out, uint32_t size)
{
	off_t in_at = in, out_at = out;
	unsigned int side = side_of(op);

	while (size > 0) {
		ssize_t got = copy_file_range(now.fd[side][from][PLAIN], &in_at,
					      now.fd[side][to][PLAIN], &out_at,
					      size, 0);

		if (got <= 0)
			return check_call("copy_file_range", got, (long)size);
		size -= (uint32_t)got;
	}
	return true;
}

static bool do_copy(const struct op *op)
{
	unsigned int to = file_of(op), from = (to + op->arg[FILL]) % FILES;
	uint32_t in = op->arg[OFFSET], out = op->arg[EXTRA], size;

	if (!site.has_copy || in >= now.size[from] || out >= SIZE_MAX_HERE)
		return true;
	size = min_u32(op->arg[SIZE], now.size[from] - in);
	size = min_u32(size, SIZE_MAX_HERE - out);
	if (from == to && in < out + size && out < in + size)
		return true;
	if (!copy(op, from, to, in, out, size))
		return false;
	memmove(now.bytes[to] + out, now.bytes[from] + in, size);
	model_grow(to, out + size);
	return true;
}

/* ---- mappings ------------------------------------------------------------- */

/* The range that is in the file; false: nothing of it is. */
static bool in_file(const struct op *op, uint32_t *offset, uint32_t *size)
{
	uint32_t end = now.size[file_of(op)];

	*offset = op->arg[OFFSET];
	*size = op->arg[SIZE];
	if (*offset >= end)
		return false;
	*size = min_u32(*size, end - *offset);
	return true;
}

static uint8_t *map(const struct op *op, int protection, int flags,
		    uint32_t size)
{
	int fd = now.fd[side_of(op)][file_of(op)][PLAIN];
	struct stat st;
	uint8_t *mem;

	/* Tells the mount of what another one did. */
	if (fstat(fd, &st))
		return NULL;
	mem = mmap(NULL, size, protection, flags, fd, 0);
	if (mem == MAP_FAILED) {
		campaign_fault("mmap: %s", strerror(errno));
		return NULL;
	}
	return mem;
}

/* The rest of the last page is zeroes. */
static bool check_tail(const uint8_t *mem, uint32_t size)
{
	for (uint32_t i = size; i % PAGE; i++)
		if (mem[i]) {
			campaign_fault("mapped byte %u behind the end (%u) is "
				       "%u", i, size, mem[i]);
			return false;
		}
	return true;
}

static bool do_map_read(const struct op *op)
{
	unsigned int file = file_of(op);
	uint32_t offset, size;
	uint8_t *mem;
	bool is_good;

	if (!in_file(op, &offset, &size))
		return true;
	mem = map(op, PROT_READ, op->arg[EXTRA] % 2 ? MAP_SHARED : MAP_PRIVATE,
		  now.size[file]);
	if (!mem)
		return false;
	is_good = check_bytes("mapped read", file, offset, mem + offset, size);
	/* Mappings that stay may have left bytes there: so may ext4's. */
	if (is_good && offset + size == now.size[file])
		is_good = check_tail(mem, now.size[file]);
	munmap(mem, now.size[file]);
	return is_good;
}

static bool do_map_write(const struct op *op)
{
	unsigned int file = file_of(op);
	uint32_t offset, size;
	uint8_t *mem;
	int err = 0;

	if (!in_file(op, &offset, &size))
		return true;
	mem = map(op, PROT_READ | PROT_WRITE, MAP_SHARED, offset + size);
	if (!mem)
		return false;
	fill_bytes(mem + offset, size, op->arg[FILL]);
	if (site.sides > 1 || op->arg[EXTRA] % 2)
		err = msync(mem, offset + size, MS_SYNC);
	munmap(mem, offset + size);
	fill_bytes(now.bytes[file] + offset, size, op->arg[FILL]);
	return check_call("msync", err, 0);
}

static bool do_map_private(const struct op *op)
{
	uint32_t offset, size;
	uint8_t *mem;

	if (!in_file(op, &offset, &size))
		return true;
	mem = map(op, PROT_READ | PROT_WRITE, MAP_PRIVATE, offset + size);
	if (!mem)
		return false;
	fill_bytes(mem + offset, size, op->arg[FILL]);
	munmap(mem, offset + size);
	return true;	/* the file is as it was: check_after() */
}

/* A mapping that stays; again: it goes. */
static bool do_map_hold(const struct op *op)
{
	struct held_map *held = &now.held[file_of(op)];

	if (site.sides > 1)
		return true;
	if (held->mem) {
		munmap(held->mem, held->size);
		held->mem = NULL;
		return true;
	}
	held->size = SIZE_MAX_HERE;
	held->mem = map(op, PROT_READ | PROT_WRITE, MAP_SHARED, SIZE_MAX_HERE);
	return held->mem != NULL;
}

static bool do_held_read(const struct op *op)
{
	const struct held_map *held = &now.held[file_of(op)];
	uint32_t offset, size;

	if (!held->mem || !in_file(op, &offset, &size))
		return true;
	return check_bytes("read of a mapping that stays", file_of(op), offset,
			   held->mem + offset, size);
}

static bool do_held_write(const struct op *op)
{
	const struct held_map *held = &now.held[file_of(op)];
	uint32_t offset, size;

	if (!held->mem || !in_file(op, &offset, &size))
		return true;
	fill_bytes(held->mem + offset, size, op->arg[FILL]);
	fill_bytes(now.bytes[file_of(op)] + offset, size, op->arg[FILL]);
	return true;
}

/* ---- the rest ------------------------------------------------------------- */

static int open_flags(enum how how, uint32_t extra)
{
	if (how == APPEND)
		return O_RDWR | O_APPEND;
	if (how == DIRECT && site.has_direct)
		return O_RDWR | O_DIRECT;
	return O_RDWR | (extra % 8 == 0 ? O_SYNC : extra % 8 == 1 ? O_DSYNC : 0);
}

static bool do_sync(const struct op *op)
{
	int fd = now.fd[side_of(op)][file_of(op)][op->arg[HOW] % HOWS];

	return check_call("fsync", op->arg[EXTRA] % 2 ? fsync(fd) :
							fdatasync(fd), 0);
}

static bool do_reopen(const struct op *op)
{
	unsigned int side = side_of(op), file = file_of(op);
	enum how how = op->arg[HOW] % HOWS;
	int *fd = &now.fd[side][file][how];

	if (!check_call("close", close(*fd), 0))
		return false;
	*fd = open(now.path[side][file], open_flags(how, op->arg[EXTRA]));
	return check_call("open", *fd < 0 ? -1 : 0, 0);
}

/* As cp -p does: the time tells nothing about the data then. */
static bool do_set_time(const struct op *op)
{
	struct timespec times[2] = {
		{ .tv_nsec = UTIME_OMIT }, { .tv_sec = 1000000000 },
	};
	int fd = now.fd[side_of(op)][file_of(op)][PLAIN];

	return check_call("futimens", futimens(fd, times), 0);
}

static bool do_forget(const struct op *op)
{
	int fd = now.fd[side_of(op)][file_of(op)][PLAIN];

	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	return true;
}

/* O_TRUNC. */
static bool do_empty(const struct op *op)
{
	unsigned int file = file_of(op);
	int fd = open(now.path[side_of(op)][file], O_WRONLY | O_TRUNC);

	if (!check_call("open with O_TRUNC", fd < 0 ? -1 : 0, 0))
		return false;
	close(fd);
	model_resize(file, 0);
	return true;
}

static const struct op_kind kinds[] = {
	{ "read", 10, OP_ARGS },
	{ "write", 22, OP_ARGS },
	{ "truncate", 8, OP_ARGS },
	{ "fallocate", 4, OP_ARGS },
	{ "punch", 7, OP_ARGS },
	{ "zero", 7, OP_ARGS },
	{ "seek", 3, OP_ARGS },
	{ "copy", 8, OP_ARGS },
	{ "map_read", 7, OP_ARGS },
	{ "map_write", 8, OP_ARGS },
	{ "map_private", 2, OP_ARGS },
	{ "map_hold", 2, OP_ARGS },
	{ "held_read", 4, OP_ARGS },
	{ "held_write", 5, OP_ARGS },
	{ "sync", 2, OP_ARGS },
	{ "reopen", 3, OP_ARGS },
	{ "set_time", 3, OP_ARGS },
	{ "forget", 2, OP_ARGS },
	{ "empty", 1, OP_ARGS },
};

/* In the order of kinds. */
static bool (*const actions[])(const struct op *op) = {
	do_read, do_write, do_truncate, do_fallocate, do_punch, do_zero,
	do_seek, do_copy, do_map_read, do_map_write, do_map_private,
	do_map_hold, do_held_read, do_held_write, do_sync, do_reopen,
	do_set_time, do_forget, do_empty,
};

_Static_assert(sizeof(actions) / sizeof(actions[0]) ==
	       sizeof(kinds) / sizeof(kinds[0]), "an action for each kind");

/* ---- a round -------------------------------------------------------------- */

static void open_all(unsigned int round)
{
	for (unsigned int i = 0; i < site.sides * FILES * HOWS; i++) {
		unsigned int side = i / (FILES * HOWS), file = i / HOWS % FILES;
		enum how how = i % HOWS;
		char *path = now.path[side][file];

		snprintf(path, PATH_MAX, "%s/data.%u.%u", site.folders[side],
			 round, file);
		now.fd[side][file][how] = open(path, open_flags(how, 2) |
					       (i < FILES * HOWS ? O_CREAT : 0),
					       0600);
		if (now.fd[side][file][how] < 0)
			trouble("%s", path);
	}
}

static void close_all(void)
{
	for (unsigned int i = 0; i < site.sides * FILES * HOWS; i++)
		close(now.fd[i / (FILES * HOWS)][i / HOWS % FILES][i % HOWS]);
	for (unsigned int file = 0; file < FILES; file++) {
		if (now.held[file].mem)
			munmap(now.held[file].mem, now.held[file].size);
		now.held[file].mem = NULL;
		unlink(now.path[0][file]);
	}
}

static bool act(const struct op *op, size_t number)
{
	return actions[op->code](op) && check_after(op) &&
	       ((number + 1) % COMPARE_EVERY || check_all());
}

static long run(const struct op *ops, size_t count, unsigned int round)
{
	size_t i = 0;

	memset(now.bytes, 0, sizeof(now.bytes));
	memset(now.size, 0, sizeof(now.size));
	open_all(round);
	while (i < count && act(&ops[i], i))
		i++;
	if (i == count && !check_all())
		i = count - 1;
	else if (i == count)
		i = SIZE_MAX;
	close_all();
	return (long)i;
}

/* ---- what there is -------------------------------------------------------- */

static void probe(const char *folder)
{
	char path[PATH_MAX];
	off_t in = 0, out = PAGE;
	int fd;

	snprintf(path, sizeof(path), "%s/data.probe", folder);
	fd = open(path, O_RDWR | O_CREAT | O_DIRECT, 0600);
	site.has_direct = fd >= 0;
	if (fd < 0)
		fd = open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, PAGE))
		trouble("%s", path);
	site.has_punch = fallocate(fd, FALLOC_FL_PUNCH_HOLE |
				   FALLOC_FL_KEEP_SIZE, 0, PAGE) == 0;
	site.has_zero = fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, PAGE) == 0;
	site.has_copy = copy_file_range(fd, &in, fd, &out, PAGE, 0) == PAGE;
	close(fd);
	unlink(path);
	printf("O_DIRECT %d, punch %d, zero range %d, copy_file_range %d\n",
	       site.has_direct, site.has_punch, site.has_zero, site.has_copy);
}

static bool take(char *const *folders, int count)
{
	if (count > SIDES_MAX)
		return false;
	for (int i = 0; i < count; i++)
		site.folders[i] = folders[i];
	site.sides = (unsigned int)count;
	/* A whole file, and what is read behind its end. */
	buffer = aligned_alloc(PAGE, (SIZE_MAX_HERE / PAGE + 4) * PAGE);
	if (!buffer)
		trouble("no memory");
	probe(folders[0]);
	return true;
}

static const struct campaign campaign = {
	.what = "FOLDER [THE SAME FOLDER BY ANOTHER MOUNT]",
	.kinds = kinds,
	.kind_count = sizeof(kinds) / sizeof(kinds[0]),
	.fill = fill,
	.run = run,
	.take = take,
};

int main(int argc, char **argv)
{
	return campaign_main(&campaign, argc, argv);
}

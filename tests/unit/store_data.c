/* SPDX-License-Identifier: Apache-2.0 */
/* Data: what is written is read, what was not is zeroes, and when it lasts. */
#include "store_fixture.h"

#include "storage-server/store_impl.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

TestSuite(store_data, .timeout = 60);

static struct fixture fixture;
static struct store *store;
static uint64_t file;
static const uint64_t top = STORE_ROOT_INODE;

static void set_up(void)
{
	fixture_init(&fixture);
	fixture_open(&fixture);
	store = fixture.store;
	cr_assert_eq(make(store, top, "file", S_IFREG | 0644, &file), 0);
}

static void tear_down(void)
{
	fixture_fini(&fixture);
}

#define STORE_TEST(name) \
	Test(store_data, name, .init = set_up, .fini = tear_down)

static struct object *get(uint64_t inode)
{
	struct object *object;

	cr_assert_eq(object_get(store, inode, &object), 0);
	return object;
}

static void set_size(uint64_t size)
{
	struct rf_setattr_args args = { .valid = RF_SET_SIZE, .size = size };
	struct object *object = get(file);
	rf_attr_t attr;

	cr_assert_eq(getattr(store, file, &attr), 0);
	if (size > attr.size)
		cr_assert_eq(object_prepare_growth(object, attr.size, size),
			     0);
	cr_assert_eq(setattr_as(store, &root_cred, file, &args, &attr), 0);
	cr_assert_eq(object_truncate(object, size), 0);
	object_put(object);
}

static bool is_all(const uint8_t *at, size_t size, uint8_t value)
{
	for (size_t i = 0; i < size; i++)
		if (at[i] != value)
			return false;
	return true;
}

/* Bytes straight into the data file, as a crash before the batch leaves them. */
static void scribble(uint64_t inode, uint8_t value, size_t size,
		     uint64_t offset)
{
	char path[DATA_PATH_SIZE], all[256];
	uint8_t bytes[8192];
	int fd;

	data_path(inode, path);
	snprintf(all, sizeof(all), "%s/data/%s", fixture.dir, path);
	fd = open(all, O_WRONLY | O_CREAT, 0600);
	cr_assert_geq(fd, 0);
	memset(bytes, value, sizeof(bytes));
	cr_assert_eq(pwrite(fd, bytes, size, (off_t)offset), (ssize_t)size);
	close(fd);
}

STORE_TEST(a_file_is_made_by_its_first_write)
{
	uint8_t out[10];
	rf_attr_t attr;

	cr_assert_eq(count_data_files(&fixture), 0);
	cr_assert_eq(read_at(store, file, out, 10, 0), 0);
	cr_assert_eq(count_data_files(&fixture), 0);
	cr_assert_eq(write_at(store, file, "hello", 5, 0), 0);
	cr_assert_eq(count_data_files(&fixture), 1);
	cr_assert_eq(read_at(store, file, out, 10, 0), 5);
	cr_assert_eq(memcmp(out, "hello", 5), 0);
	cr_assert_eq(getattr(store, file, &attr), 0);
	cr_assert_eq(attr.size, 5);
	cr_assert_gt(attr.blocks, 0);
}

STORE_TEST(what_was_never_written_is_zeroes)
{
	static uint8_t out[20000];
	rf_attr_t attr;

	cr_assert_eq(write_at(store, file, "end", 3, 100 << 20), 0);
	cr_assert_eq(getattr(store, file, &attr), 0);
	cr_assert_eq(attr.size, (100 << 20) + 3);
	cr_assert_lt(attr.blocks, 100);
	cr_assert_eq(read_at(store, file, out, sizeof(out), 1 << 20), 20000);
	cr_assert(is_all(out, sizeof(out), 0));
	set_size(200 << 20);
	cr_assert_eq(read_at(store, file, out, sizeof(out), 150 << 20), 20000);
	cr_assert(is_all(out, sizeof(out), 0));
}

STORE_TEST(a_cut_and_grown_file_shows_no_old_bytes)
{
	uint8_t data[8192], out[8192];

	memset(data, 'x', sizeof(data));
	cr_assert_eq(write_at(store, file, data, sizeof(data), 0), 0);
	set_size(100);
	set_size(8192);
	cr_assert_eq(read_at(store, file, out, sizeof(out), 0), 8192);
	cr_assert(is_all(out, 100, 'x'));
	cr_assert(is_all(out + 100, 8092, 0));
	set_size(0);
	cr_assert_eq(write_at(store, file, "y", 1, 5000), 0);
	cr_assert_eq(read_at(store, file, out, sizeof(out), 0), 5001);
	cr_assert(is_all(out, 5000, 0));
}

STORE_TEST(bytes_of_a_lost_write_are_cut_at_the_next_start)
{
	uint8_t out[8192];

	cr_assert_eq(write_at(store, file, "data", 4, 0), 0);
	store_close(store);
	scribble(file, 'L', 5000, 4);
	fixture_open(&fixture);
	store = fixture.store;
	cr_assert_eq(write_at(store, file, "!", 1, 6000), 0);
	cr_assert_eq(read_at(store, file, out, sizeof(out), 0), 6001);
	cr_assert_eq(memcmp(out, "data", 4), 0);
	cr_assert(is_all(out + 4, 5996, 0));
}

STORE_TEST(writes_that_grow_a_file_side_by_side_keep_each_other)
{
	struct object *object = get(file);
	uint8_t out[300];
	struct txn *txn;
	uint64_t before;
	rf_attr_t attr;

	/* Both have written, neither has committed. */
	cr_assert_eq(object_prepare_growth(object, 0, 100), 0);
	cr_assert_eq(object_write(object, "a", 1, 100), 0);
	cr_assert_eq(object_prepare_growth(object, 0, 200), 0);
	cr_assert_eq(object_write(object, "b", 1, 200), 0);
	txn = txn_begin(store);
	cr_assert_eq(txn_wrote(txn, file, 200, 1, NULL, &before, &attr), 0);
	cr_assert_eq(txn_wrote(txn, file, 100, 1, NULL, &before, &attr), 0);
	cr_assert_eq(txn_commit(txn), 0);
	object_put(object);
	cr_assert_eq(read_at(store, file, out, sizeof(out), 0), 201);
	cr_assert_eq(out[100], 'a');
	cr_assert_eq(out[200], 'b');
}

STORE_TEST(what_is_cached_is_read_without_waiting)
{
	struct object *object = get(file);
	static uint8_t out[65536];
	ssize_t got;

	cr_assert_eq(object_read(object, out, 10, 0), 0);
	cr_assert_eq(object_read_cached(object, out, 10, 0), 0, "no file");
	memset(out, 'c', sizeof(out));
	cr_assert_eq(write_at(store, file, out, sizeof(out), 0), 0);
	got = object_read_cached(object, out, sizeof(out), 0);
	cr_assert(got == sizeof(out) || got == -EAGAIN);
	got = object_read_cached(object, out, sizeof(out), 65000);
	cr_assert(got == 536 || got == -EAGAIN);
	object_put(object);
}

STORE_TEST(offsets_beyond_the_largest_are_refused)
{
	struct object *object = get(file);

	cr_assert_eq(object_write(object, "x", 1, STORE_SIZE_MAX), -EFBIG);
	cr_assert_eq(object_write(object, "x", 1, UINT64_MAX), -EFBIG);
	cr_assert_eq(object_write(object, "x", 1, STORE_SIZE_MAX - 1), 0);
	cr_assert_eq(object_truncate(object, STORE_SIZE_MAX + 1), -EFBIG);
	cr_assert_eq(object_allocate(object, 0, STORE_SIZE_MAX, 1), -EFBIG);
	object_put(object);
}

STORE_TEST(allocating_punching_and_zeroing)
{
	struct object *object = get(file);
	uint8_t data[16384], out[16384];
	uint64_t before;
	struct txn *txn;
	rf_attr_t attr;

	memset(data, 'd', sizeof(data));
	cr_assert_eq(write_at(store, file, data, sizeof(data), 0), 0);
	cr_assert_eq(object_allocate(object, RF_FALLOC_PUNCH, 0, 1),
		     -EOPNOTSUPP);
	cr_assert_eq(object_allocate(object, 0, 0, 0), -EINVAL);
	cr_assert_eq(object_allocate(object,
				     RF_FALLOC_PUNCH | RF_FALLOC_KEEP_SIZE,
				     4096, 4096), 0);
	cr_assert_eq(object_allocate(object, RF_FALLOC_ZERO, 8192, 100), 0);
	cr_assert_eq(read_at(store, file, out, sizeof(out), 0), 16384);
	cr_assert(is_all(out, 4096, 'd'));
	cr_assert(is_all(out + 4096, 4196, 0));
	cr_assert(is_all(out + 8292, 8092, 'd'));
	cr_assert_eq(object_allocate(object, 0, 0, 1 << 20), 0);
	txn = txn_begin(store);
	cr_assert_eq(txn_allocated(txn, file, 1 << 20, NULL, &before, &attr), 0);
	cr_assert_eq(txn_commit(txn), 0);
	cr_assert_eq(attr.size, 1 << 20);
	cr_assert_geq(attr.blocks, (1 << 20) / 512);
	object_put(object);
}

STORE_TEST(data_and_holes_are_found_within_the_size)
{
	struct object *object = get(file);
	uint64_t at;

	cr_assert_eq(object_seek(object, 0, false, 100, &at), -ENXIO);
	cr_assert_eq(object_seek(object, 10, true, 100, &at), 0);
	cr_assert_eq(at, 10);
	cr_assert_eq(write_at(store, file, "x", 1, 1 << 20), 0);
	set_size(4 << 20);
	cr_assert_eq(object_seek(object, 0, false, 4 << 20, &at), 0);
	cr_assert_eq(at, 1 << 20);
	/* The data file ends behind the byte; the block is data to its end. */
	cr_assert_eq(object_seek(object, at, true, 4 << 20, &at), 0);
	cr_assert_eq(at, (1 << 20) + 4096);
	cr_assert_eq(object_seek(object, (1 << 20) + 9, true, 4 << 20, &at), 0);
	cr_assert_eq(at, (1 << 20) + 4096);
	cr_assert_eq(object_seek(object, (1 << 20) + 9, false, 4 << 20, &at), 0);
	cr_assert_eq(at, (1 << 20) + 9);
	cr_assert_eq(object_seek(object, 0, true, (1 << 20) + 9, &at), 0);
	cr_assert_eq(at, 0);
	cr_assert_eq(object_seek(object, 1 << 20, true, (1 << 20) + 9, &at), 0);
	cr_assert_eq(at, (1 << 20) + 9);
	cr_assert_eq(object_seek(object, 3 << 20, true, 4 << 20, &at), 0);
	cr_assert_eq(at, 3 << 20);
	cr_assert_eq(object_seek(object, 3 << 20, false, 4 << 20, &at), -ENXIO);
	cr_assert_eq(object_seek(object, 4 << 20, true, 4 << 20, &at), -ENXIO);
	object_put(object);
}

STORE_TEST(a_copy_also_copies_what_the_source_lacks)
{
	struct object *from = get(file), *to;
	uint8_t data[9000], out[9000];
	uint64_t target, before;
	struct txn *txn;
	rf_attr_t attr;

	cr_assert_eq(make(store, top, "to", S_IFREG, &target), 0);
	memset(data, 't', sizeof(data));
	cr_assert_eq(write_at(store, target, data, sizeof(data), 0), 0);
	cr_assert_eq(write_at(store, file, "source", 6, 0), 0);
	set_size(8000);
	to = get(target);
	cr_assert_eq(object_copy(from, 0, from, 3, 10), -EINVAL);
	cr_assert_eq(object_copy(from, 0, to, 500, 8000), 8000);
	txn = txn_begin(store);
	cr_assert_eq(txn_wrote(txn, target, 500, 8000, NULL, &before, &attr),
		     0);
	cr_assert_eq(txn_commit(txn), 0);
	cr_assert_eq(read_at(store, target, out, sizeof(out), 0), 9000);
	cr_assert(is_all(out, 500, 't'));
	cr_assert_eq(memcmp(out + 500, "source", 6), 0);
	cr_assert(is_all(out + 506, 7994, 0));
	cr_assert(is_all(out + 8500, 500, 't'));
	object_put(from);
	object_put(to);
}

STORE_TEST(below_the_reserve_only_growth_is_refused)
{
	struct rf_statfs_results statfs;
	uint8_t data[8192], out[8192];
	struct object *object;
	uint64_t victim;

	memset(data, 'r', sizeof(data));
	cr_assert_eq(write_at(store, file, data, sizeof(data), 0), 0);
	cr_assert_eq(make(store, top, "victim", S_IFREG, &victim), 0);
	cr_assert_eq(store_flush(store), 0);
	store_close(store);
	fixture.reserve_bytes = UINT64_C(1) << 60;
	fixture_open(&fixture);
	store = fixture.store;
	cr_assert_eq(store_statfs(store, &statfs), 0);
	cr_assert_eq(statfs.available, 0);
	object = get(file);
	cr_assert_eq(object_write(object, data, 1, 8192), -ENOSPC);
	cr_assert_eq(object_allocate(object, 0, 0, 1 << 20), -ENOSPC);
	memset(data, 'o', sizeof(data));
	cr_assert_eq(object_write(object, data, sizeof(data), 0), 0,
		     "what is there may be overwritten");
	cr_assert_eq(make(store, top, "new", S_IFREG, NULL), -ENOSPC);
	cr_assert_eq(unlink_as(store, &root_cred, top, "victim"), 0);
	object_put(object);
	set_size(100);
	cr_assert_eq(read_at(store, file, out, sizeof(out), 0), 100);
	cr_assert(is_all(out, 100, 'o'));
}

/* Can the file system be asked which blocks of a file are there?  tmpfs can't. */
static bool tells_blocks(void)
{
	struct fiemap map = { .fm_length = 4096 };
	int fd = open(fixture.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int file_fd = openat(fd, "probe", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	bool does = file_fd >= 0 && ioctl(file_fd, FS_IOC_FIEMAP, &map) == 0;

	unlinkat(fd, "probe", 0);
	close(file_fd);
	close(fd);
	return does;
}

STORE_TEST(below_the_reserve_what_was_set_aside_can_be_written)
{
	enum { BLOCK = 4096, COUNT = 64 };
	static uint8_t data[COUNT * BLOCK];
	struct object *object;

	if (!tells_blocks()) {
		tear_down();
		cr_skip_test("SKIPPED: no FIEMAP in the folder of the store");
	}
	memset(data, 'r', sizeof(data));
	cr_assert_eq(write_at(store, file, data, BLOCK, BLOCK), 0);
	object = get(file);
	cr_assert_eq(object_allocate(object, RF_FALLOC_KEEP_SIZE,
				     COUNT * BLOCK, COUNT * BLOCK), 0);
	object_put(object);
	cr_assert_eq(store_flush(store), 0);
	store_close(store);
	fixture.reserve_bytes = UINT64_C(1) << 60;
	fixture_open(&fixture);
	store = fixture.store;
	object = get(file);
	/* Each other block, so that then there are more extents than are asked for at
	 * once. */
	for (unsigned int i = 1; i < COUNT; i += 2)
		cr_assert_eq(object_write(object, data, BLOCK,
					  (COUNT + i) * BLOCK), 0);
	cr_assert_eq(object_write(object, data, COUNT * BLOCK, COUNT * BLOCK),
		     0);
	cr_assert_eq(object_write(object, data, 1, 2 * COUNT * BLOCK), -ENOSPC);
	cr_assert_eq(object_write(object, data, 2,
				  2 * COUNT * BLOCK - 1), -ENOSPC);
	/* Holes are no room, however many blocks there are elsewhere. */
	cr_assert_eq(object_write(object, data, 1, 0), -ENOSPC);
	cr_assert_eq(object_write(object, data, 2, BLOCK - 1), -ENOSPC);
	cr_assert_eq(object_write(object, data, 2, 2 * BLOCK - 1), -ENOSPC);
	cr_assert_eq(object_write(object, data, BLOCK, BLOCK), 0);
	object_put(object);
}

STORE_TEST(the_cache_of_open_files_is_bounded_and_transparent)
{
	enum { COUNT = 200 };	/* the cache has 64 */
	static uint64_t inodes[COUNT];
	struct object *held[64];
	struct store_stats stats;
	struct object *object;

	for (unsigned int i = 0; i < COUNT; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%u", i);
		cr_assert_eq(make(store, top, name, S_IFREG, &inodes[i]), 0);
		cr_assert_eq(write_at(store, inodes[i], &i, sizeof(i), 0), 0);
	}
	store_stats(store, &stats);
	cr_assert_eq(stats.objects_cached, 64);
	cr_assert_eq(stats.objects_open, 0);
	for (unsigned int i = 0; i < COUNT; i++) {
		unsigned int out;

		cr_assert_eq(read_at(store, inodes[i], &out, sizeof(out), 0),
			     sizeof(out));
		cr_assert_eq(out, i);
	}
	for (unsigned int i = 0; i < 64; i++)
		held[i] = get(inodes[i]);
	cr_assert_eq(object_get(store, inodes[100], &object), -ENFILE);
	object_put(held[7]);
	cr_assert_eq(object_get(store, inodes[100], &object), 0);
	object_put(object);
	for (unsigned int i = 0; i < 64; i++)
		if (i != 7)
			object_put(held[i]);
}

STORE_TEST(only_regular_files_have_data)
{
	struct object *object;

	cr_assert_eq(object_get(store, top, &object), -EISDIR);
	cr_assert_eq(object_get(store, 99999, &object), -ESTALE);
}

/* ---- removal ------------------------------------------------------------- */

STORE_TEST(data_go_with_the_last_name)
{
	rf_attr_t attr;

	cr_assert_eq(write_at(store, file, "x", 1, 0), 0);
	cr_assert_eq(unlink_as(store, &root_cred, top, "file"), 0);
	cr_assert_eq(getattr(store, file, &attr), -ESTALE);
	settle(&fixture, 0);
}

STORE_TEST(an_open_file_outlives_its_name)
{
	struct store_stats stats;
	uint8_t out[4];
	rf_attr_t attr;

	cr_assert_eq(write_at(store, file, "x", 1, 0), 0);
	cr_assert_eq(store_open_inode(store, file), 0);
	cr_assert_eq(store_open_inode(store, file), 0);
	cr_assert_eq(unlink_as(store, &root_cred, top, "file"), 0);
	cr_assert_eq(write_at(store, file, "yz", 2, 1), 0);
	cr_assert_eq(read_at(store, file, out, 4, 0), 3);
	cr_assert_eq(getattr(store, file, &attr), 0);
	cr_assert_eq(attr.nlink, 0);
	cr_assert_eq(link_to(store, file, top, "back"), -ENOENT);
	store_stats(store, &stats);
	cr_assert_eq(stats.orphans, 1);
	store_close_inode(store, file);
	cr_assert_eq(getattr(store, file, &attr), 0);
	store_close_inode(store, file);
	cr_assert_eq(getattr(store, file, &attr), -ESTALE);
	store_stats(store, &stats);
	cr_assert_eq(stats.orphans, 0);
	settle(&fixture, 0);
}

STORE_TEST(unlink_and_close_in_one_transaction_leave_no_orphan)
{
	struct txn *txn;
	rf_name_t name = name_of("file");
	struct store_stats stats;
	rf_attr_t attr;

	cr_assert_eq(write_at(store, file, "x", 1, 0), 0);
	cr_assert_eq(store_open_inode(store, file), 0);
	txn = txn_begin(store);
	cr_assert_eq(txn_unlink(txn, &root_cred, top, &name, NULL), 0);
	store_close_inode(store, file);
	cr_assert_eq(txn_commit(txn), 0);
	cr_assert_eq(getattr(store, file, &attr), -ESTALE);
	store_stats(store, &stats);
	cr_assert_eq(stats.orphans, 0);
	settle(&fixture, 0);
}

STORE_TEST(a_transaction_may_write_to_what_it_makes)
{
	struct make_args args = { .dir = top, .name = name_of("new"),
				  .mode = S_IFREG | 0644 };
	struct txn *txn = txn_begin(store);
	struct object *object;
	uint64_t before;
	rf_attr_t attr;
	char out[8];

	cr_assert_eq(txn_make(txn, &root_cred, &args, &attr), 0);
	cr_assert_eq(store_open_inode(store, attr.inode), 0);
	object = get(attr.inode);
	cr_assert_eq(object_write(object, "new", 3, 0), 0);
	cr_assert_eq(txn_wrote(txn, attr.inode, 0, 3, NULL, &before, &attr),
		     0);
	cr_assert_gt(attr.blocks, 0);
	object_put(object);
	cr_assert_eq(txn_commit(txn), 0);
	store_close_inode(store, attr.inode);
	cr_assert_eq(read_at(store, attr.inode, out, 8, 0), 3);
}

STORE_TEST(an_abort_removes_the_data_of_what_it_made)
{
	struct make_args args = { .dir = top, .name = name_of("new"),
				  .mode = S_IFREG | 0644 };
	struct txn *txn = txn_begin(store);
	struct object *object;
	rf_attr_t attr;

	cr_assert_eq(txn_make(txn, &root_cred, &args, &attr), 0);
	object = get(attr.inode);
	cr_assert_eq(object_write(object, "new", 3, 0), 0);
	cr_assert_eq(count_data_files(&fixture), 1);
	txn_abort(txn);
	cr_assert_eq(store_flush(store), 0);
	object_put(object);
	settle(&fixture, 0);
}

STORE_TEST(data_in_use_are_removed_by_the_last_user)
{
	struct object *object, *again;

	cr_assert_eq(write_at(store, file, "x", 1, 0), 0);
	object = get(file);
	cr_assert_eq(unlink_as(store, &root_cred, top, "file"), 0);
	cr_assert_eq(store_flush(store), 0);
	rf_reactor_turn(fixture.reactor, 0);
	cr_assert_eq(count_data_files(&fixture), 1);
	cr_assert_eq(object_get(store, file, &again), -ESTALE);
	cr_assert_eq(object_write(object, "y", 1, 0), 0);
	object_put(object);
	settle(&fixture, 0);
}

STORE_TEST(many_removals_all_come_to_an_end)
{
	enum { COUNT = 1000 };

	for (unsigned int i = 0; i < COUNT; i++) {
		uint64_t inode;
		char name[16];

		snprintf(name, sizeof(name), "f%u", i);
		cr_assert_eq(make(store, top, name, S_IFREG, &inode), 0);
		cr_assert_eq(write_at(store, inode, "x", 1, 0), 0);
	}
	cr_assert_eq(count_data_files(&fixture), COUNT);
	for (unsigned int i = 0; i < COUNT; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%u", i);
		cr_assert_eq(unlink_as(store, &root_cred, top, name), 0);
	}
	settle(&fixture, 0);
}

/* ---- durability ---------------------------------------------------------- */

struct waiting {
	struct sync_request request;
	unsigned int *done;
	int err;
};

static void note_done(struct sync_request *request, int err)
{
	struct waiting *w = rf_container_of(request, struct waiting, request);

	w->err = err;
	(*w->done)++;
}

STORE_TEST(many_requests_share_few_syncs)
{
	enum { COUNT = 100 };
	static struct waiting waiting[COUNT];
	struct object *object = get(file);
	struct store_stats stats;
	unsigned int done = 0;

	cr_assert_eq(object_write(object, "x", 1, 0), 0);
	cr_assert(store_needs_flush(store, file));
	for (unsigned int i = 0; i < COUNT; i++) {
		waiting[i].done = &done;
		waiting[i].request.done = note_done;
		waiting[i].request.object = i % 2 ? object : NULL;
		store_sync(store, &waiting[i].request);
	}
	while (done < COUNT)
		rf_reactor_turn(fixture.reactor, -1);
	for (unsigned int i = 0; i < COUNT; i++)
		cr_assert_eq(waiting[i].err, 0);
	store_stats(store, &stats);
	cr_assert_eq(stats.sync_requests, COUNT);
	cr_assert_leq(stats.syncs, COUNT / 2);
	cr_assert_not(store_needs_flush(store, file));
	object_put(object);
}

STORE_TEST(a_rename_over_a_file_asks_for_a_flush_of_new_data)
{
	rf_name_t new = name_of("new"), old = name_of("file");
	struct waiting waiting = { .request.done = note_done };
	unsigned int done = 0;
	uint64_t inode, found;
	struct txn *txn;

	cr_assert_eq(make(store, top, "new", S_IFREG, &inode), 0);
	cr_assert_eq(write_at(store, inode, "x", 1, 0), 0);
	txn = txn_begin(store);
	cr_assert(txn_rename_needs_flush(txn, top, &new, top, &old, &found));
	cr_assert_eq(found, inode);
	cr_assert_not(txn_rename_needs_flush(txn, top, &new, top, &new,
					     &found));
	txn_abort(txn);
	waiting.done = &done;
	waiting.request.object = get(inode);
	waiting.request.is_data_only = true;
	store_sync(store, &waiting.request);
	while (!done)
		rf_reactor_turn(fixture.reactor, -1);
	object_put(waiting.request.object);
	txn = txn_begin(store);
	cr_assert_not(txn_rename_needs_flush(txn, top, &new, top, &old,
					     &found));
	txn_abort(txn);
}

STORE_TEST(what_left_the_cache_unsynced_still_asks_for_a_flush)
{
	enum { COUNT = 64 };	/* as many as the cache has */
	struct object *held[COUNT];
	uint64_t inode;

	cr_assert_eq(write_at(store, file, "x", 1, 0), 0);
	for (unsigned int i = 0; i < COUNT; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%u", i);
		cr_assert_eq(make(store, top, name, S_IFREG, &inode), 0);
		held[i] = get(inode);
	}
	for (unsigned int i = 0; i < COUNT; i++)
		object_put(held[i]);
	/* Back in the cache, by a reader. */
	object_put(get(file));
	cr_assert(store_needs_flush(store, file));
}

STORE_TEST(a_rename_of_an_empty_file_needs_no_flush)
{
	rf_name_t empty = name_of("empty"), old = name_of("file");
	uint64_t inode, found;
	struct txn *txn;

	cr_assert_eq(make(store, top, "empty", S_IFREG, &inode), 0);
	txn = txn_begin(store);
	cr_assert_not(txn_rename_needs_flush(txn, top, &empty, top, &old,
					     &found));
	txn_abort(txn);
}

/* ---- batches that are dropped -------------------------------------------- */

STORE_TEST(what_a_dropped_batch_has_written_is_not_grown_over)
{
	struct object *object = get(file);
	uint64_t before;
	struct txn *txn;
	rf_attr_t attr;
	uint8_t out[9001];

	cr_assert_eq(write_at(store, file, "old", 3, 0), 0);
	cr_assert_eq(object_write(object, "garbage", 7, 3), 0);
	cr_assert_not(object_has_rest(object));
	txn = txn_begin(store);
	cr_assert_eq(txn_wrote(txn, file, 3, 7, NULL, &before, &attr), 0);
	txn_abort(txn);
	cr_assert(object_has_rest(object));
	cr_assert_eq(write_at(store, file, "x", 1, 9000), 0);
	cr_assert_not(object_has_rest(object));
	object_put(object);
	cr_assert_eq(read_at(store, file, out, sizeof(out), 0), 9001);
	cr_assert_eq(memcmp(out, "old", 3), 0);
	cr_assert(is_all(out + 3, 8997, 0));
}

STORE_TEST(a_transaction_that_lost_a_record_is_not_committed)
{
	static uint8_t value[RF_XATTR_SIZE_MAX];
	struct txn *txn = txn_begin(store);
	rf_name_t name = name_of("user.x");
	struct make_args args = { .dir = top, .name = name_of("new"),
				  .mode = S_IFREG };
	rf_attr_t attr;
	int err = 0;

	cr_assert_eq(txn_make(txn, &root_cred, &args, &attr), 0);
	while (!err) {
		value[0]++;	/* what is there already is not recorded */
		err = txn_setxattr(txn, &root_cred, file, &name, value,
				   sizeof(value), 0);
	}
	cr_assert_eq(err, -E2BIG);
	cr_assert_eq(txn_commit(txn), -E2BIG);
	cr_assert_eq(lookup(store, top, "new", &attr), -ENOENT);
}

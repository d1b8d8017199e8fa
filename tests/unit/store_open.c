/* SPDX-License-Identifier: Apache-2.0 */
/* A store's directory: what opens, what is refused, what the next start finds. */
#include "store_fixture.h"

#include "storage-server/store_impl.h"

#include <fcntl.h>
#include <sys/wait.h>

TestSuite(store_open, .timeout = 60);

static struct fixture fixture;
static const uint64_t top = STORE_ROOT_INODE;

static void set_up(void)
{
	fixture_init(&fixture);
}

static void tear_down(void)
{
	fixture_fini(&fixture);
}

#define STORE_TEST(name) \
	Test(store_open, name, .init = set_up, .fini = tear_down)

static void put_file(const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", fixture.dir, name);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
}

static void remove_path(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", fixture.dir, name);
	scratch_remove(path);
}

STORE_TEST(a_missing_directory_becomes_a_store_and_keeps_its_uuid)
{
	uint8_t first[16], second[16];
	rf_attr_t attr;

	fixture_open(&fixture);
	store_uuid(fixture.store, first);
	cr_assert_eq(getattr(fixture.store, top, &attr), 0);
	cr_assert_eq(attr.mode, (uint32_t)(S_IFDIR | 0755));
	cr_assert_eq(attr.nlink, 2);
	cr_assert_eq(make(fixture.store, top, "kept", S_IFREG, NULL), 0);
	fixture_reopen(&fixture);
	store_uuid(fixture.store, second);
	cr_assert_eq(memcmp(first, second, 16), 0);
	cr_assert_eq(lookup(fixture.store, top, "kept", &attr), 0);
}

STORE_TEST(a_new_file_system_with_lost_and_found_is_empty)
{
	char path[256];

	cr_assert_eq(mkdir(fixture.dir, 0700), 0);
	snprintf(path, sizeof(path), "%s/lost+found", fixture.dir);
	cr_assert_eq(mkdir(path, 0700), 0);
	fixture_open(&fixture);
}

STORE_TEST(a_foreign_directory_is_refused_and_left_alone)
{
	char path[256];
	struct stat st;

	cr_assert_eq(mkdir(fixture.dir, 0700), 0);
	put_file("precious", "data");
	cr_assert_eq(fixture_try_open(&fixture), -ENOTEMPTY);
	snprintf(path, sizeof(path), "%s/lock", fixture.dir);
	cr_assert_neq(stat(path, &st), 0);
}

STORE_TEST(a_parent_that_is_missing_is_an_error)
{
	snprintf(fixture.dir, sizeof(fixture.dir), "%s/no/store", fixture.top);
	cr_assert_eq(fixture_try_open(&fixture), -ENOENT);
}

STORE_TEST(a_newer_format_is_refused)
{
	fixture_open(&fixture);
	store_close(fixture.store);
	fixture.store = NULL;
	put_file("format", "rdmafs-store 2\nwho knows what\n");
	cr_assert_eq(fixture_try_open(&fixture), -EPROTONOSUPPORT);
	put_file("format", "rdmafs-store x\n");
	cr_assert_eq(fixture_try_open(&fixture), -EINVAL);
}

STORE_TEST(metadata_of_another_store_are_refused)
{
	fixture_open(&fixture);
	store_close(fixture.store);
	fixture.store = NULL;
	put_file("format", "rdmafs-store 1\n"
		 "uuid 01234567-89ab-cdef-0123-456789abcdef\n");
	cr_assert_eq(fixture_try_open(&fixture), -EIO);
}

STORE_TEST(a_second_server_is_kept_off)
{
	struct fixture second = fixture;

	fixture_open(&fixture);
	cr_assert_eq(fixture_try_open(&second), -EBUSY);
	fixture_reopen(&fixture);
}

/* Each state that a crash of the first start can leave. */
STORE_TEST(a_first_start_that_was_cut_off_is_finished)
{
	rf_attr_t attr;

	cr_assert_eq(mkdir(fixture.dir, 0700), 0);
	put_file("lock", "4711\n");
	fixture_open(&fixture);
	store_close(fixture.store);

	remove_path("format");
	put_file("format.new", "rdmafs-store 1\n"
		 "uuid 01234567-89ab-cdef-0123-456789abcdef\n");
	fixture_open(&fixture);
	cr_assert_eq(getattr(fixture.store, top, &attr), 0);
	store_close(fixture.store);

	remove_path("format");
	remove_path("meta");
	remove_path("data");
	put_file("format.new", "rdmafs-st");
	fixture_open(&fixture);
	cr_assert_eq(getattr(fixture.store, top, &attr), 0);
	fixture_reopen(&fixture);
}

/* ---- numbers, orphans, strays -------------------------------------------- */

STORE_TEST(the_end_of_a_range_of_numbers_is_durable_before_its_use)
{
	enum { COUNT = 2 * INODE_RANGE + INODE_RANGE / 2 };
	unsigned int ranges = 0;
	struct store *store;
	uint64_t limit = 0;

	fixture_open(&fixture);
	store = fixture.store;
	for (unsigned int i = 0; i < COUNT; i++) {
		char name[16];

		snprintf(name, sizeof(name), "n%u", i);
		cr_assert_eq(make(store, top, name, S_IFREG, NULL), 0);
		if (store->inode_limit == limit)
			continue;
		/* In use since now: nothing was reserved beyond it yet. */
		limit = store->inode_limit;
		cr_assert_eq(store->reserved_limit, limit);
		cr_assert_geq(store->synced, store->reserved_batch);
		ranges++;
		while (store->sync.pending)
			rf_reactor_turn(fixture.reactor, 10);
	}
	cr_assert_geq(ranges, 2);
}

STORE_TEST(numbers_are_never_used_twice)
{
	uint64_t first, second;

	fixture_open(&fixture);
	cr_assert_eq(make(fixture.store, top, "a", S_IFREG, &first), 0);
	cr_assert_geq(first, INODE_FIRST);
	cr_assert_eq(unlink_as(fixture.store, &root_cred, top, "a"), 0);
	fixture_reopen(&fixture);
	cr_assert_eq(make(fixture.store, top, "a", S_IFREG, &second), 0);
	cr_assert_eq(second, first + 1);
	for (unsigned int i = 0; i < INODE_RANGE; i++) {
		struct txn *txn = txn_begin(fixture.store);
		struct make_args args = { .dir = top, .name = name_of("x"),
					  .mode = S_IFREG };
		rf_attr_t attr;

		cr_assert_eq(txn_make(txn, &root_cred, &args, &attr), 0);
		cr_assert_gt(attr.inode, second);
		second = attr.inode;
		txn_abort(txn);
	}
}

STORE_TEST(orphans_are_deleted_at_the_next_start)
{
	struct store_stats stats;
	uint64_t file;
	rf_attr_t attr;

	fixture_open(&fixture);
	cr_assert_eq(make(fixture.store, top, "f", S_IFREG, &file), 0);
	cr_assert_eq(write_at(fixture.store, file, "x", 1, 0), 0);
	cr_assert_eq(store_open_inode(fixture.store, file), 0);
	cr_assert_eq(unlink_as(fixture.store, &root_cred, top, "f"), 0);
	cr_assert_eq(count_data_files(&fixture), 1);
	fixture_reopen(&fixture);
	cr_assert_eq(getattr(fixture.store, file, &attr), -ESTALE);
	settle(&fixture, 0);
	store_stats(fixture.store, &stats);
	cr_assert_eq(stats.orphans, 0);
}

STORE_TEST(removals_that_were_not_done_are_done_at_the_next_start)
{
	enum { COUNT = 600 };

	fixture_open(&fixture);
	for (unsigned int i = 0; i < COUNT; i++) {
		uint64_t file;

		cr_assert_eq(make(fixture.store, top, "f", S_IFREG, &file), 0);
		cr_assert_eq(write_at(fixture.store, file, "x", 1, 0), 0);
		cr_assert_eq(unlink_as(fixture.store, &root_cred, top, "f"),
			     0);
	}
	/* Without a flush no removal has begun. */
	cr_assert_eq(count_data_files(&fixture), COUNT);
	fixture_reopen(&fixture);
	settle(&fixture, 0);
}

/* ---- exports, handles ---------------------------------------------------- */

STORE_TEST(exports_have_trees_that_their_inodes_inherit)
{
	uint64_t first, second, again, file;
	uint32_t first_tree, second_tree, tree;
	rf_attr_t attr;

	fixture_open(&fixture);
	cr_assert_eq(store_export(fixture.store, "/a/first/", &first,
				  &first_tree), 0);
	cr_assert_eq(store_export(fixture.store, "a//second", &second,
				  &second_tree), 0);
	cr_assert_neq(first_tree, second_tree);
	cr_assert_neq(first_tree, 0);
	cr_assert_eq(make(fixture.store, first, "f", S_IFREG, &file), 0);
	cr_assert_eq(getattr(fixture.store, file, &attr), 0);
	cr_assert_eq(attr.tree, first_tree);
	cr_assert_eq(link_to(fixture.store, file, second, "f"), -EXDEV);
	cr_assert_eq(rename_as(fixture.store, &root_cred, first, "f", second,
			       "f", 0), -EXDEV);
	fixture_reopen(&fixture);
	cr_assert_eq(store_export(fixture.store, "a/first", &again, &tree), 0);
	cr_assert_eq(again, first);
	cr_assert_eq(tree, first_tree);
}

STORE_TEST(nested_exports_are_refused_for_good)
{
	uint64_t inode;
	uint32_t tree;

	fixture_open(&fixture);
	cr_assert_eq(store_export(fixture.store, "a/b", &inode, &tree), 0);
	cr_assert_eq(store_export(fixture.store, "a", &inode, &tree), -EINVAL);
	cr_assert_eq(store_export(fixture.store, "", &inode, &tree), -EINVAL);
	fixture_reopen(&fixture);
	cr_assert_eq(store_export(fixture.store, "a/b/c", &inode, &tree),
		     -EINVAL);
	cr_assert_eq(store_export(fixture.store, "a/bc", &inode, &tree), 0);
	cr_assert_eq(store_export(fixture.store, "a/../x", &inode, &tree),
		     -EINVAL);
}

STORE_TEST(the_path_of_an_export_has_up_to_255_bytes)
{
	char path[258];
	uint64_t inode;
	uint32_t tree;

	fixture_open(&fixture);
	memset(path, 'p', sizeof(path));
	path[100] = '/';
	path[256] = 0;
	cr_assert_eq(store_export(fixture.store, path, &inode, &tree),
		     -EINVAL);
	path[255] = 0;
	cr_assert_eq(store_export(fixture.store, path, &inode, &tree), 0);
}

STORE_TEST(the_whole_volume_can_be_the_export)
{
	uint64_t inode;
	uint32_t tree;

	fixture_open(&fixture);
	cr_assert_eq(store_export(fixture.store, "/", &inode, &tree), 0);
	cr_assert_eq(inode, top);
	cr_assert_eq(tree, 0);
	cr_assert_eq(store_export(fixture.store, "", &inode, &tree), 0);
	cr_assert_eq(store_export(fixture.store, "x", &inode, &tree), -EINVAL);
}

STORE_TEST(handles_survive_a_restart_and_forged_ones_are_known)
{
	rf_handle_t handle, forged;

	fixture_open(&fixture);
	handle = store_handle(fixture.store, 42, 7);
	cr_assert(store_handle_is_valid(fixture.store, &handle));
	fixture_reopen(&fixture);
	cr_assert(store_handle_is_valid(fixture.store, &handle));
	forged = handle;
	forged.inode++;
	cr_assert_not(store_handle_is_valid(fixture.store, &forged));
	forged = handle;
	forged.tree = 0;
	cr_assert_not(store_handle_is_valid(fixture.store, &forged));
	forged = handle;
	forged.tag ^= 1;
	cr_assert_not(store_handle_is_valid(fixture.store, &forged));
}

/* ---- replies ------------------------------------------------------------- */

static void record(const struct reply_key *key, uint32_t seq, const char *text)
{
	struct txn *txn = txn_begin(fixture.store);

	const struct reply_record record = { .seq = seq };

	cr_assert_eq(txn_record_reply(txn, key, &record, text, strlen(text)),
		     0);
	cr_assert_eq(txn_commit(txn), 0);
}

STORE_TEST(replies_are_kept_by_slot_until_the_session_ends)
{
	struct reply_key key = { .session = 5, .slot = 3 };
	struct reply_key other = { .session = 6, .slot = 3 };
	char out[16];
	struct reply_record found;

	fixture_open(&fixture);
	cr_assert_eq(store_find_reply(fixture.store, &key, &found, out, 16),
		     -ENOENT);
	record(&key, 1, "first");
	record(&other, 9, "other");
	record(&key, 2, "second");
	fixture_reopen(&fixture);
	cr_assert_eq(store_find_reply(fixture.store, &key, &found, out, 16), 6);
	cr_assert_eq(found.seq, 2);
	cr_assert_eq(memcmp(out, "second", 6), 0);
	cr_assert_eq(store_find_reply(fixture.store, &key, &found, out, 5),
		     -ENOSPC);
	cr_assert_eq(store_forget_session(fixture.store, 5), 0);
	cr_assert_eq(store_find_reply(fixture.store, &key, &found, out, 16),
		     -ENOENT);
	cr_assert_eq(store_find_reply(fixture.store, &other, &found, out, 16), 5);
}

STORE_TEST(a_reply_larger_than_the_prepared_room_is_kept_whole)
{
	struct reply_key key = { .session = 1 };
	static char big[100000], out[100000];
	struct reply_record record = { .seq = 1 }, found;
	struct txn *txn;

	fixture_open(&fixture);
	memset(big, 'b', sizeof(big));
	txn = txn_begin(fixture.store);
	cr_assert_eq(txn_record_reply(txn, &key, &record, big, sizeof(big)), 0);
	cr_assert_eq(txn_commit(txn), 0);
	cr_assert_eq(store_find_reply(fixture.store, &key, &found, out,
				      sizeof(out)), (int)sizeof(big));
	cr_assert_eq(memcmp(out, big, sizeof(big)), 0);
}

STORE_TEST(a_bounded_number_of_transactions_is_open)
{
	struct txn *txns[TXNS_MAX];

	fixture_open(&fixture);
	for (unsigned int i = 0; i < TXNS_MAX; i++) {
		txns[i] = txn_begin(fixture.store);
		cr_assert_not_null(txns[i]);
	}
	cr_assert_null(txn_begin(fixture.store));
	txn_abort(txns[5]);
	cr_assert_not_null(txn_begin(fixture.store));
	for (unsigned int i = 0; i < TXNS_MAX; i++)
		txn_abort(txns[i]);
}

/* ---- records ------------------------------------------------------------- */

Test(store_open, records_that_make_no_sense_are_refused)
{
	struct inode inode = { .number = 7, .mode = S_IFREG | 0644,
			       .nlink = 1, .size = 5, .change = 3 }, out;
	uint8_t bytes[INODE_RECORD_SIZE], bad[INODE_RECORD_SIZE];
	static const size_t wrong[] = { 0, 1, 2, 3, 28, 31 };

	inode_encode(&inode, bytes);
	cr_assert_eq(inode_decode(7, bytes, sizeof(bytes), &out), 0);
	cr_assert_eq(memcmp(&inode, &out, sizeof(out)), 0);
	cr_assert_eq(inode_decode(7, bytes, sizeof(bytes) - 1, &out), -EIO);
	for (size_t i = 0; i < RF_ARRAY_SIZE(wrong); i++) {
		memcpy(bad, bytes, sizeof(bad));
		bad[wrong[i]] ^= 0x80;
		cr_assert_eq(inode_decode(7, bad, sizeof(bad), &out), -EIO,
			     "byte %zu", wrong[i]);
	}
	memcpy(bad, bytes, sizeof(bad));
	rf_store_u32(bad + 112, 1000000000);
	cr_assert_eq(inode_decode(7, bad, sizeof(bad), &out), -EIO);
	memcpy(bad, bytes, sizeof(bad));
	rf_store_u64(bad + 64, 1);
	cr_assert_eq(inode_decode(7, bad, sizeof(bad), &out), -EIO,
		     "a file has no parent");
}

STORE_TEST(the_reserve_is_chosen_by_the_size_of_the_file_system)
{
	struct rf_statfs_results statfs;
	uint64_t reserve, fair;

	fixture.reserve_bytes = STORE_RESERVE_AUTO;
	fixture_open(&fixture);
	reserve = fixture.store->config.reserve_bytes;
	cr_assert_geq(reserve, STORE_RESERVE_MIN);
	cr_assert_leq(reserve, STORE_RESERVE_MAX);
	cr_assert_eq(store_statfs(fixture.store, &statfs), 0);
	fair = statfs.blocks * statfs.block_size / 50;
	if (fair > STORE_RESERVE_MIN && fair < STORE_RESERVE_MAX)
		cr_assert_eq(reserve, fair);
}

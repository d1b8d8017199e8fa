/* SPDX-License-Identifier: Apache-2.0 */
/* Names: what make, link, unlink, rename and readdir do, and to whom. */
#include "store_fixture.h"

#include "storage-server/store_impl.h"

TestSuite(store_names, .timeout = 60);

static struct fixture fixture;
static struct store *store;
static const uint64_t top = STORE_ROOT_INODE;
static const struct cred user = { .uid = 1000, .gid = 1000 };
static const struct cred other = { .uid = 1001, .gid = 1001 };

static void set_up(void)
{
	fixture_init(&fixture);
	fixture_open(&fixture);
	store = fixture.store;
}

static void tear_down(void)
{
	fixture_fini(&fixture);
}

#define STORE_TEST(name) \
	Test(store_names, name, .init = set_up, .fini = tear_down)

static rf_attr_t attr_of(uint64_t inode)
{
	rf_attr_t attr;

	cr_assert_eq(getattr(store, inode, &attr), 0);
	return attr;
}

STORE_TEST(what_was_made_is_found_with_its_attributes)
{
	rf_attr_t made, found, before = attr_of(top), after;

	cr_assert_eq(make_as(store, &user, top, "x", S_IFREG | 0640, &made),
		     -EACCES);
	cr_assert_eq(make_as(store, &root_cred, top, "x", S_IFREG | 0640,
			     &made), 0);
	cr_assert_eq(lookup(store, top, "x", &found), 0);
	cr_assert_eq(memcmp(&made, &found, sizeof(made)), 0);
	cr_assert_eq(found.mode, (uint32_t)(S_IFREG | 0640));
	cr_assert_eq(found.nlink, 1);
	cr_assert_eq(found.size, 0);
	after = attr_of(top);
	cr_assert_gt(after.change, before.change);
	cr_assert_eq(time_compare(&after.mtime, &after.ctime), 0);
	cr_assert_gt(time_compare(&after.ctime, &before.ctime), 0);
	cr_assert_eq(lookup(store, top, "y", &found), -ENOENT);
	cr_assert_eq(lookup(store, made.inode, "y", &found), -ENOTDIR);
	cr_assert_eq(make(store, top, "x", S_IFREG, NULL), -EEXIST);
	cr_assert_eq(make(store, 99999, "x", S_IFREG, NULL), -ESTALE);
}

STORE_TEST(names_are_bytes_from_1_to_255)
{
	char longest[257];
	rf_attr_t attr;

	memset(longest, 0xff, 256);
	longest[255] = 0;
	cr_assert_eq(make(store, top, longest, S_IFREG, NULL), 0);
	cr_assert_eq(lookup(store, top, longest, &attr), 0);
	longest[255] = 'x';
	longest[256] = 0;
	cr_assert_eq(make(store, top, longest, S_IFREG, NULL), -ENAMETOOLONG);
	cr_assert_eq(make(store, top, "", S_IFREG, NULL), -ENOENT);
	cr_assert_eq(make(store, top, "a/b", S_IFREG, NULL), -EINVAL);
	cr_assert_eq(make(store, top, ".", S_IFDIR, NULL), -EINVAL);
	cr_assert_eq(make(store, top, "..", S_IFDIR, NULL), -EINVAL);
	cr_assert_eq(make(store, top, "...", S_IFDIR, NULL), 0);
}

STORE_TEST(a_setgid_directory_passes_its_group_on)
{
	struct rf_setattr_args args = { .valid = RF_SET_MODE | RF_SET_GID,
					.mode = 02777, .gid = 500 };
	rf_attr_t attr;
	uint64_t dir;

	cr_assert_eq(make(store, top, "d", S_IFDIR | 0755, &dir), 0);
	cr_assert_eq(setattr_as(store, &root_cred, dir, &args, &attr), 0);
	cr_assert_eq(make_as(store, &user, dir, "file", S_IFREG | 02755,
			     &attr), 0);
	cr_assert_eq(attr.uid, 1000);
	cr_assert_eq(attr.gid, 500);
	cr_assert_eq(attr.mode & 07777, 0755, "not a member: setgid is lost");
	cr_assert_eq(make_as(store, &user, dir, "dir", S_IFDIR | 0700, &attr),
		     0);
	cr_assert_eq(attr.mode & 07777, 02700);
}

STORE_TEST(directories_count_entries_and_subdirectories)
{
	uint64_t dir, sub;

	cr_assert_eq(make(store, top, "d", S_IFDIR | 0755, &dir), 0);
	cr_assert_eq(make(store, dir, "sub", S_IFDIR | 0755, &sub), 0);
	cr_assert_eq(make(store, dir, "file", S_IFREG, NULL), 0);
	cr_assert_eq(attr_of(top).nlink, 3);
	cr_assert_eq(attr_of(dir).nlink, 3);
	cr_assert_eq(remove_dir(store, top, "d"), -ENOTEMPTY);
	cr_assert_eq(remove_dir(store, dir, "file"), -ENOTDIR);
	cr_assert_eq(unlink_as(store, &root_cred, dir, "sub"), -EISDIR);
	cr_assert_eq(remove_dir(store, dir, "sub"), 0);
	cr_assert_eq(remove_dir(store, top, "d"), -ENOTEMPTY);
	cr_assert_eq(unlink_as(store, &root_cred, dir, "file"), 0);
	cr_assert_eq(attr_of(dir).nlink, 2);
	cr_assert_eq(remove_dir(store, top, "d"), 0);
	cr_assert_eq(attr_of(top).nlink, 2);
	cr_assert_eq(make(store, dir, "late", S_IFREG, NULL), -ESTALE);
}

STORE_TEST(a_removed_directory_that_is_open_takes_no_names)
{
	rf_attr_t attr;
	uint64_t dir;

	cr_assert_eq(make(store, top, "d", S_IFDIR | 0755, &dir), 0);
	cr_assert_eq(store_open_inode(store, dir), 0);
	cr_assert_eq(remove_dir(store, top, "d"), 0);
	cr_assert_eq(make(store, dir, "late", S_IFREG, NULL), -ENOENT);
	cr_assert_eq(attr_of(dir).nlink, 0);
	store_close_inode(store, dir);
	cr_assert_eq(getattr(store, dir, &attr), -ESTALE);
}

STORE_TEST(links_count_and_directories_have_none)
{
	uint64_t file, dir;
	rf_attr_t attr;

	cr_assert_eq(make(store, top, "a", S_IFREG | 0644, &file), 0);
	cr_assert_eq(make(store, top, "d", S_IFDIR | 0755, &dir), 0);
	cr_assert_eq(link_to(store, file, dir, "b"), 0);
	cr_assert_eq(attr_of(file).nlink, 2);
	cr_assert_eq(link_to(store, file, dir, "b"), -EEXIST);
	cr_assert_eq(link_to(store, dir, top, "e"), -EPERM);
	cr_assert_eq(unlink_as(store, &root_cred, top, "a"), 0);
	cr_assert_eq(lookup(store, dir, "b", &attr), 0);
	cr_assert_eq(attr.inode, file);
	cr_assert_eq(attr.nlink, 1);
	cr_assert_eq(unlink_as(store, &root_cred, dir, "b"), 0);
	cr_assert_eq(getattr(store, file, &attr), -ESTALE);
}

STORE_TEST(an_inode_has_only_so_many_names)
{
	uint64_t file;
	char name[16];

	cr_assert_eq(make(store, top, "f", S_IFREG | 0644, &file), 0);
	for (unsigned int i = 1; i < STORE_LINK_MAX; i++) {
		snprintf(name, sizeof(name), "%u", i);
		cr_assert_eq(link_to(store, file, top, name), 0, "%u", i);
	}
	cr_assert_eq(link_to(store, file, top, "more"), -EMLINK);
	cr_assert_eq(attr_of(file).nlink, STORE_LINK_MAX);
	cr_assert_eq(unlink_as(store, &root_cred, top, "1"), 0);
	cr_assert_eq(link_to(store, file, top, "more"), 0);
}

STORE_TEST(a_sticky_directory_protects_the_names_of_others)
{
	rf_attr_t attr;
	uint64_t dir;

	cr_assert_eq(make(store, top, "tmp", S_IFDIR | 01777, &dir), 0);
	cr_assert_eq(make_as(store, &user, dir, "mine", S_IFREG | 0666, &attr),
		     0);
	cr_assert_eq(unlink_as(store, &other, dir, "mine"), -EPERM);
	cr_assert_eq(rename_as(store, &other, dir, "mine", dir, "x", 0),
		     -EPERM);
	cr_assert_eq(unlink_as(store, &user, dir, "mine"), 0);
}

STORE_TEST(a_directory_that_may_not_be_searched_hides_its_names)
{
	rf_attr_t attr;
	uint64_t dir;

	cr_assert_eq(make(store, top, "d", S_IFDIR | 0766, &dir), 0);
	cr_assert_eq(make(store, dir, "x", S_IFREG | 0666, NULL), 0);
	cr_assert_eq(lookup_as(store, &user, dir, "x", &attr), -EACCES);
	cr_assert_eq(lookup_as(store, &user, dir, "y", &attr), -EACCES);
	cr_assert_eq(unlink_as(store, &user, dir, "x"), -EACCES);
}

STORE_TEST(symbolic_links_keep_their_target)
{
	char target[RF_TARGET_MAX + 1], out[RF_TARGET_MAX + 1];
	struct make_args args = { .dir = top, .name = name_of("l"),
				  .mode = S_IFLNK | 0777,
				  .target = { target, RF_TARGET_MAX } };
	struct txn *txn = txn_begin(store);
	rf_attr_t attr;
	size_t size;

	memset(target, 't', sizeof(target));
	args.target.size = 0;
	cr_assert_eq(txn_make(txn, &root_cred, &args, &attr), -ENOENT);
	args.target.size = RF_TARGET_MAX + 1;
	cr_assert_eq(txn_make(txn, &root_cred, &args, &attr), -ENAMETOOLONG);
	args.target.size = RF_TARGET_MAX;
	cr_assert_eq(txn_make(txn, &root_cred, &args, &attr), 0);
	cr_assert_eq(attr.size, RF_TARGET_MAX);
	cr_assert_eq(txn_readlink(txn, attr.inode, out, sizeof(out), &size), 0);
	cr_assert_eq(txn_commit(txn), 0);
	txn = txn_begin(store);
	cr_assert_eq(txn_readlink(txn, attr.inode, out, sizeof(out), &size), 0);
	cr_assert_eq(size, RF_TARGET_MAX);
	cr_assert_eq(memcmp(out, target, size), 0);
	cr_assert_eq(txn_readlink(txn, top, out, sizeof(out), &size), -EINVAL);
	txn_abort(txn);
}

STORE_TEST(device_nodes_are_for_the_super_user)
{
	struct make_args args = { .dir = top, .name = name_of("null"),
				  .mode = S_IFCHR | 0666,
				  .rdev = UINT64_C(1) << 32 | 3 };
	struct rf_setattr_args open_up = { .valid = RF_SET_MODE,
					   .mode = 0777 };
	struct txn *txn;
	rf_attr_t attr;

	cr_assert_eq(setattr_as(store, &root_cred, top, &open_up, &attr), 0);
	txn = txn_begin(store);
	cr_assert_eq(txn_make(txn, &user, &args, &attr), -EPERM);
	cr_assert_eq(txn_make(txn, &root_cred, &args, &attr), 0);
	cr_assert_eq(attr.rdev, args.rdev);
	cr_assert_eq(txn_commit(txn), 0);
	cr_assert_eq(make_as(store, &user, top, "fifo", S_IFIFO | 0600, &attr),
		     0);
	cr_assert_eq(make_as(store, &user, top, "sock", S_IFSOCK | 0600,
			     &attr), 0);
	cr_assert_eq(make(store, top, "no type", 0644, NULL), -EINVAL);
}

/* ---- rename -------------------------------------------------------------- */

STORE_TEST(rename_moves_and_replaces)
{
	uint64_t a, b, dir;
	rf_attr_t attr;

	cr_assert_eq(make(store, top, "a", S_IFREG, &a), 0);
	cr_assert_eq(make(store, top, "b", S_IFREG, &b), 0);
	cr_assert_eq(make(store, top, "d", S_IFDIR | 0755, &dir), 0);
	cr_assert_eq(rename_as(store, &root_cred, top, "a", dir, "c", 0), 0);
	cr_assert_eq(lookup(store, top, "a", &attr), -ENOENT);
	cr_assert_eq(lookup(store, dir, "c", &attr), 0);
	cr_assert_eq(attr.inode, a);
	cr_assert_eq(rename_as(store, &root_cred, dir, "c", top, "b",
			       RF_RENAME_NOREPLACE), -EEXIST);
	cr_assert_eq(rename_as(store, &root_cred, dir, "c", top, "b", 0), 0);
	cr_assert_eq(getattr(store, b, &attr), -ESTALE);
	cr_assert_eq(remove_dir(store, top, "d"), 0);
	cr_assert_eq(rename_as(store, &root_cred, top, "none", top, "x", 0),
		     -ENOENT);
}

STORE_TEST(rename_keeps_to_types)
{
	uint64_t dir, full;

	cr_assert_eq(make(store, top, "file", S_IFREG, NULL), 0);
	cr_assert_eq(make(store, top, "dir", S_IFDIR | 0755, &dir), 0);
	cr_assert_eq(make(store, top, "full", S_IFDIR | 0755, &full), 0);
	cr_assert_eq(make(store, full, "x", S_IFREG, NULL), 0);
	cr_assert_eq(rename_as(store, &root_cred, top, "file", top, "dir", 0),
		     -EISDIR);
	cr_assert_eq(rename_as(store, &root_cred, top, "dir", top, "file", 0),
		     -ENOTDIR);
	cr_assert_eq(rename_as(store, &root_cred, top, "dir", top, "full", 0),
		     -ENOTEMPTY);
	cr_assert_eq(rename_as(store, &root_cred, top, "full", top, "full", 0),
		     0);
	cr_assert_eq(rename_as(store, &root_cred, top, "full", top, "dir", 0),
		     0);
	cr_assert_eq(attr_of(top).nlink, 3);
}

STORE_TEST(a_directory_never_moves_below_itself)
{
	uint64_t a, b, c;

	cr_assert_eq(make(store, top, "a", S_IFDIR | 0755, &a), 0);
	cr_assert_eq(make(store, a, "b", S_IFDIR | 0755, &b), 0);
	cr_assert_eq(make(store, b, "c", S_IFDIR | 0755, &c), 0);
	cr_assert_eq(rename_as(store, &root_cred, top, "a", a, "x", 0),
		     -EINVAL);
	cr_assert_eq(rename_as(store, &root_cred, top, "a", c, "x", 0),
		     -EINVAL);
	cr_assert_eq(rename_as(store, &root_cred, b, "c", top, "a", 0),
		     -ENOTEMPTY);
	cr_assert_eq(rename_as(store, &root_cred, b, "c", top, "a",
			       RF_RENAME_EXCHANGE), -EINVAL);
	cr_assert_eq(rename_as(store, &root_cred, b, "c", top, "c", 0), 0);
	cr_assert_eq(rename_as(store, &root_cred, top, "a", c, "a", 0), 0);
	cr_assert_eq(attr_of(c).nlink, 3);
	cr_assert_eq(attr_of(b).nlink, 2);
}

STORE_TEST(exchange_swaps_two_names)
{
	uint64_t file, dir, other_dir;
	rf_attr_t attr;

	cr_assert_eq(make(store, top, "file", S_IFREG, &file), 0);
	cr_assert_eq(make(store, top, "d", S_IFDIR | 0755, &other_dir), 0);
	cr_assert_eq(make(store, other_dir, "dir", S_IFDIR | 0755, &dir), 0);
	cr_assert_eq(rename_as(store, &root_cred, top, "file", top, "none",
			       RF_RENAME_EXCHANGE), -ENOENT);
	cr_assert_eq(rename_as(store, &root_cred, top, "file", other_dir,
			       "dir", RF_RENAME_EXCHANGE), 0);
	cr_assert_eq(lookup(store, top, "file", &attr), 0);
	cr_assert_eq(attr.inode, dir);
	cr_assert_eq(lookup(store, other_dir, "dir", &attr), 0);
	cr_assert_eq(attr.inode, file);
	cr_assert_eq(attr_of(top).nlink, 4);
	cr_assert_eq(attr_of(other_dir).nlink, 2);
	cr_assert_eq(rename_as(store, &root_cred, top, "file", top, "file",
			       RF_RENAME_EXCHANGE | RF_RENAME_NOREPLACE),
		     -EINVAL);
}

STORE_TEST(a_whiteout_takes_the_name_that_was_left)
{
	uint64_t file, dir;
	rf_attr_t attr;

	cr_assert_eq(make(store, top, "f", S_IFREG, &file), 0);
	cr_assert_eq(make(store, top, "d", S_IFDIR | 0755, &dir), 0);
	cr_assert_eq(rename_as(store, &root_cred, top, "f", dir, "g",
			       RF_RENAME_WHITEOUT), 0);
	cr_assert_eq(lookup(store, dir, "g", &attr), 0);
	cr_assert_eq(attr.inode, file);
	cr_assert_eq(lookup(store, top, "f", &attr), 0);
	cr_assert_eq(attr.mode, S_IFCHR);
	cr_assert_eq(attr.rdev, 0);
	cr_assert_eq(remove_dir(store, top, "d"), -ENOTEMPTY);
	cr_assert_eq(rename_as(store, &root_cred, dir, "g", top, "f",
			       RF_RENAME_WHITEOUT | RF_RENAME_NOREPLACE),
		     -EEXIST);
	cr_assert_eq(rename_as(store, &root_cred, dir, "g", top, "f",
			       RF_RENAME_WHITEOUT | RF_RENAME_EXCHANGE),
		     -EINVAL);
	cr_assert_eq(rename_as(store, &root_cred, dir, "g", top, "f", 0), 0);
	cr_assert_eq(remove_dir(store, top, "d"), 0);
}

STORE_TEST(two_names_of_one_inode_both_survive_a_rename)
{
	uint64_t file;
	rf_attr_t attr;

	cr_assert_eq(make(store, top, "a", S_IFREG, &file), 0);
	cr_assert_eq(link_to(store, file, top, "b"), 0);
	cr_assert_eq(rename_as(store, &root_cred, top, "a", top, "b", 0), 0);
	cr_assert_eq(lookup(store, top, "a", &attr), 0);
	cr_assert_eq(lookup(store, top, "b", &attr), 0);
	cr_assert_eq(attr.nlink, 2);
}

STORE_TEST(moving_a_directory_needs_write_permission_on_it)
{
	uint64_t from, to;
	rf_attr_t attr;

	cr_assert_eq(make(store, top, "from", S_IFDIR | 0777, &from), 0);
	cr_assert_eq(make(store, top, "to", S_IFDIR | 0777, &to), 0);
	cr_assert_eq(make(store, from, "d", S_IFDIR | 0755, NULL), 0);
	cr_assert_eq(rename_as(store, &user, from, "d", to, "d", 0), -EACCES);
	cr_assert_eq(rename_as(store, &user, from, "d", from, "e", 0), 0);
	cr_assert_eq(make_as(store, &user, from, "mine", S_IFDIR | 0755,
			     &attr), 0);
	cr_assert_eq(rename_as(store, &user, from, "mine", to, "mine", 0), 0);
}

STORE_TEST(a_rename_in_one_transaction_sees_what_came_before)
{
	struct txn *txn = txn_begin(store);
	struct make_args args = { .dir = top, .name = name_of("tmp"),
				  .mode = S_IFREG | 0600 };
	rf_name_t to = name_of("final");
	rf_attr_t made, found;

	cr_assert_eq(txn_make(txn, &root_cred, &args, &made), 0);
	cr_assert_eq(txn_rename(txn, &root_cred, top, &args.name, top, &to, 0),
		     0);
	cr_assert_eq(txn_lookup(txn, &root_cred, top, &args.name, &found),
		     -ENOENT);
	cr_assert_eq(txn_lookup(txn, &root_cred, top, &to, &found), 0);
	cr_assert_eq(txn_commit(txn), 0);
	cr_assert_eq(lookup(store, top, "final", &found), 0);
	cr_assert_eq(found.inode, made.inode);
	cr_assert_eq(lookup(store, top, "tmp", &found), -ENOENT);
}

STORE_TEST(an_aborted_transaction_leaves_nothing)
{
	struct txn *txn = txn_begin(store);
	struct make_args args = { .dir = top, .name = name_of("x"),
				  .mode = S_IFREG | 0600 };
	rf_attr_t before = attr_of(top), after, made;

	cr_assert_not(txn_is_dirty(txn));
	cr_assert_eq(txn_make(txn, &root_cred, &args, &made), 0);
	cr_assert(txn_is_dirty(txn));
	txn_abort(txn);
	after = attr_of(top);
	cr_assert_eq(memcmp(&before, &after, sizeof(before)), 0);
	cr_assert_eq(lookup(store, top, "x", &made), -ENOENT);
}

/* ---- readdir ------------------------------------------------------------- */

struct collected {
	unsigned int count, room;
	uint64_t last_cookie;
	bool wants_attr;
	char names[64][32];
};

static bool collect(void *context, const struct rf_dirent *entry)
{
	struct collected *c = context;

	if (c->count == c->room)
		return false;
	memcpy(c->names[c->count], entry->name.bytes, entry->name.size);
	c->names[c->count][entry->name.size] = 0;
	c->count++;
	c->last_cookie = entry->cookie;
	if (c->wants_attr && entry->name.bytes[0] != '.') {
		cr_assert(entry->has_attr);
		cr_assert_eq(entry->attr.inode, entry->inode);
		cr_assert(store_handle_is_valid(store, &entry->handle));
	}
	return true;
}

static bool list_piece(uint64_t dir, uint64_t cookie, struct collected *c)
{
	struct txn *txn = txn_begin(store);
	bool eof;

	c->count = 0;
	cr_assert_eq(txn_readdir(txn, dir, cookie, c->wants_attr, collect, c,
				 &eof), 0);
	txn_abort(txn);
	return eof;
}

static void make_many(uint64_t dir, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		char name[16];

		snprintf(name, sizeof(name), "file%u", i);
		cr_assert_eq(make(store, dir, name, S_IFREG | 0644, NULL), 0);
	}
}

/* Times each name of make_many() came. */
static void count_names(const struct collected *c, unsigned int *seen)
{
	for (unsigned int i = 0; i < c->count; i++) {
		unsigned int number;

		if (sscanf(c->names[i], "file%u", &number) == 1)
			seen[number]++;
	}
}

STORE_TEST(a_listing_in_small_pieces_has_each_name_once)
{
	enum { COUNT = 500 };
	struct collected c = { .room = 7, .wants_attr = true };
	unsigned int seen[COUNT] = { 0 };
	uint64_t dir, cookie = 0;
	bool eof;

	cr_assert_eq(make(store, top, "d", S_IFDIR | 0755, &dir), 0);
	make_many(dir, COUNT);
	do {
		eof = list_piece(dir, cookie, &c);
		if (cookie == 0) {
			cr_assert_str_eq(c.names[0], ".");
			cr_assert_str_eq(c.names[1], "..");
		}
		count_names(&c, seen);
		cookie = c.last_cookie;
	} while (!eof);
	for (unsigned int i = 0; i < COUNT; i++)
		cr_assert_eq(seen[i], 1, "file%u came %u times", i, seen[i]);
}

STORE_TEST(removing_while_listing_skips_none)
{
	enum { COUNT = 300 };
	struct collected c = { .room = 10 };
	uint64_t dir, cookie = 0;
	unsigned int removed = 0;
	bool eof;

	cr_assert_eq(make(store, top, "d", S_IFDIR | 0755, &dir), 0);
	make_many(dir, COUNT);
	do {
		eof = list_piece(dir, cookie, &c);
		for (unsigned int i = 0; i < c.count; i++)
			if (c.names[i][0] != '.') {
				cr_assert_eq(unlink_as(store, &root_cred, dir,
						       c.names[i]), 0);
				removed++;
			}
		cookie = c.last_cookie;
	} while (!eof);
	cr_assert_eq(removed, COUNT);
	cr_assert_eq(remove_dir(store, top, "d"), 0);
}

STORE_TEST(colliding_hashes_hide_no_name)
{
	/* 13 groups; the largest has 15 names on average, and must fit. */
	enum { COUNT = 60, ROOM = 45 };
	struct collected c = { .room = ROOM };
	unsigned int seen[COUNT] = { 0 };
	uint64_t dir, cookie = 0;
	rf_attr_t attr;
	bool eof;

	store->hash_mask = 15;
	cr_assert_eq(make(store, top, "d", S_IFDIR | 0755, &dir), 0);
	make_many(dir, COUNT);
	do {
		eof = list_piece(dir, cookie, &c);
		cr_assert_neq(c.last_cookie, cookie, "no progress");
		count_names(&c, seen);
		cookie = c.last_cookie;
	} while (!eof);
	for (unsigned int i = 0; i < COUNT; i++)
		cr_assert_geq(seen[i], 1, "file%u was skipped", i);
	for (unsigned int i = 0; i < COUNT; i++) {
		char name[16];

		snprintf(name, sizeof(name), "file%u", i);
		cr_assert_eq(lookup(store, dir, name, &attr), 0);
		cr_assert_eq(unlink_as(store, &root_cred, dir, name), 0);
	}
	cr_assert_eq(remove_dir(store, top, "d"), 0);
}

STORE_TEST(an_open_removed_directory_lists_as_empty)
{
	struct collected c = { .room = 10 };
	uint64_t dir;

	cr_assert_eq(make(store, top, "d", S_IFDIR | 0755, &dir), 0);
	cr_assert_eq(store_open_inode(store, dir), 0);
	cr_assert_eq(remove_dir(store, top, "d"), 0);
	cr_assert(list_piece(dir, 0, &c));
	cr_assert_eq(c.count, 0);
	store_close_inode(store, dir);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes and extended attributes: who may change what, and what follows. */
#include "store_fixture.h"

#include "storage-server/store_impl.h"

#include <sys/xattr.h>

TestSuite(store_attrs, .timeout = 60);

static struct fixture fixture;
static struct store *store;
static uint64_t file;
static const uint64_t top = STORE_ROOT_INODE;
static const uint32_t user_groups[] = { 100, 200 };
static const struct cred user = { .uid = 1000, .gid = 1000,
				  .group_count = 2, .groups = user_groups };
static const struct cred other = { .uid = 1001, .gid = 200 };

/* A file of user's, group 100, 0640. */
static void set_up(void)
{
	struct rf_setattr_args args = { .valid = RF_SET_UID | RF_SET_GID,
					.uid = 1000, .gid = 100 };
	rf_attr_t attr;

	fixture_init(&fixture);
	fixture_open(&fixture);
	store = fixture.store;
	cr_assert_eq(make(store, top, "file", S_IFREG | 0640, &file), 0);
	cr_assert_eq(setattr_as(store, &root_cred, file, &args, &attr), 0);
}

static void tear_down(void)
{
	fixture_fini(&fixture);
}

#define STORE_TEST(name) \
	Test(store_attrs, name, .init = set_up, .fini = tear_down)

static int set_mode(const struct cred *cred, uint32_t mode, rf_attr_t *out)
{
	struct rf_setattr_args args = { .valid = RF_SET_MODE, .mode = mode };

	return setattr_as(store, cred, file, &args, out);
}

static int set_owner(const struct cred *cred, int64_t uid, int64_t gid,
		     rf_attr_t *out)
{
	struct rf_setattr_args args = { .uid = (uint32_t)uid,
					.gid = (uint32_t)gid };

	if (uid >= 0)
		args.valid |= RF_SET_UID;
	if (gid >= 0)
		args.valid |= RF_SET_GID;
	return setattr_as(store, cred, file, &args, out);
}

Test(store_attrs, mode_bits_decide_by_owner_then_group_then_others)
{
	struct inode inode = { .mode = S_IFREG | 0460, .uid = 1000, .gid = 200 };
	struct cred super = { .is_super = true };

	cr_assert_eq(inode_may(NULL, &user, &inode, MAY_READ), 0);
	cr_assert_eq(inode_may(NULL, &user, &inode, MAY_WRITE), -EACCES,
		     "the owner's bits hold, though the group has more");
	cr_assert_eq(inode_may(NULL, &other, &inode, MAY_READ | MAY_WRITE), 0);
	inode.gid = 300;
	cr_assert_eq(inode_may(NULL, &other, &inode, MAY_READ), -EACCES);
	cr_assert_eq(inode_may(NULL, &super, &inode, MAY_READ | MAY_WRITE), 0);
	cr_assert_eq(inode_may(NULL, &super, &inode, MAY_EXEC), -EACCES);
	inode.mode = S_IFDIR;
	cr_assert_eq(inode_may(NULL, &super, &inode, MAY_EXEC), 0);
}

STORE_TEST(only_the_owner_changes_the_mode)
{
	rf_attr_t attr;

	cr_assert_eq(set_mode(&other, 0777, &attr), -EPERM);
	cr_assert_eq(set_mode(&user, 04755, &attr), 0);
	cr_assert_eq(attr.mode, (uint32_t)(S_IFREG | 04755));
	cr_assert_eq(set_mode(&user, 02755, &attr), 0);
	cr_assert_eq(attr.mode & 07777, 02755, "100 is a group of user's");
	cr_assert_eq(set_owner(&root_cred, -1, 300, &attr), 0);
	cr_assert_eq(set_mode(&user, 02755, &attr), 0);
	cr_assert_eq(attr.mode & 07777, 0755, "300 is not");
}

STORE_TEST(owners_give_to_their_groups_and_nobody_gives_away)
{
	rf_attr_t attr;

	cr_assert_eq(set_owner(&user, 1001, -1, &attr), -EPERM);
	cr_assert_eq(set_owner(&user, 1000, -1, &attr), 0);
	cr_assert_eq(set_owner(&user, -1, 200, &attr), 0);
	cr_assert_eq(set_owner(&user, -1, 300, &attr), -EPERM);
	cr_assert_eq(set_owner(&other, -1, 200, &attr), -EPERM);
	cr_assert_eq(set_owner(&root_cred, 1001, 300, &attr), 0);
	cr_assert_eq(attr.uid, 1001);
	cr_assert_eq(attr.gid, 300);
}

STORE_TEST(a_chown_clears_setuid_and_setgid)
{
	rf_attr_t attr;

	cr_assert_eq(set_mode(&root_cred, 06755, &attr), 0);
	cr_assert_eq(set_owner(&root_cred, 1000, -1, &attr), 0);
	cr_assert_eq(attr.mode & 07777, 0755);
	cr_assert_eq(set_mode(&root_cred, 02745, &attr), 0);
	cr_assert_eq(set_owner(&root_cred, 1000, -1, &attr), 0);
	cr_assert_eq(attr.mode & 07777, 02745,
		     "setgid without group execution is no privilege");
}

STORE_TEST(times_are_the_owners_and_now_is_also_the_writers)
{
	struct rf_setattr_args args = { .valid = RF_SET_ATIME | RF_SET_MTIME,
					.atime = { -5, 1 },
					.mtime = { 1000, 999999999 } };
	rf_attr_t attr;

	cr_assert_eq(setattr_as(store, &other, file, &args, &attr), -EPERM);
	cr_assert_eq(setattr_as(store, &user, file, &args, &attr), 0);
	cr_assert_eq(attr.atime.seconds, -5);
	cr_assert_eq(attr.mtime.nanoseconds, 999999999);
	args.mtime.nanoseconds = 1000000000;
	cr_assert_eq(setattr_as(store, &user, file, &args, &attr), -EINVAL);
	args = (struct rf_setattr_args){ .valid = RF_SET_MTIME_NOW };
	cr_assert_eq(setattr_as(store, &other, file, &args, &attr), -EACCES);
	cr_assert_eq(set_mode(&user, 0666, &attr), 0);
	cr_assert_eq(setattr_as(store, &other, file, &args, &attr), 0);
	cr_assert_gt(attr.mtime.seconds, 1000);
}

STORE_TEST(ctime_and_change_grow_with_every_change)
{
	rf_attr_t before, after;

	cr_assert_eq(getattr(store, file, &before), 0);
	for (unsigned int i = 0; i < 1000; i++) {
		cr_assert_eq(set_mode(&user, 0600 + i % 8, &after), 0);
		cr_assert_gt(after.change, before.change);
		cr_assert_gt(time_compare(&after.ctime, &before.ctime), 0);
		before = after;
	}
}

STORE_TEST(a_size_needs_write_permission_or_a_descriptor)
{
	struct rf_setattr_args args = { .valid = RF_SET_SIZE, .size = 100 };
	struct txn *txn = txn_begin(store);
	uint64_t before;
	rf_attr_t attr;

	cr_assert_eq(txn_may_setattr(txn, &other, file, &args, false), -EACCES);
	cr_assert_eq(txn_may_setattr(txn, &other, file, &args, true), 0);
	cr_assert_eq(txn_may_setattr(txn, &user, top, &args, true), -EISDIR);
	args.size = STORE_SIZE_MAX + 1;
	cr_assert_eq(txn_may_setattr(txn, &user, file, &args, true), -EFBIG);
	args.size = STORE_SIZE_MAX;
	cr_assert_eq(txn_setattr(txn, &user, file, &args, false, &before,
				 &attr), 0);
	cr_assert_eq(attr.size, STORE_SIZE_MAX);
	cr_assert_eq(attr.change, before + 1);
	cr_assert_eq(time_compare(&attr.mtime, &attr.ctime), 0);
	txn_abort(txn);
}

STORE_TEST(a_write_can_drop_setuid)
{
	struct txn *txn;
	uint64_t before;
	rf_attr_t attr;

	cr_assert_eq(set_mode(&root_cred, 06755, &attr), 0);
	txn = txn_begin(store);
	cr_assert_eq(txn_wrote(txn, file, 0, 10, NULL, &before, &attr), 0);
	cr_assert_eq(attr.mode & 07777, 06755);
	cr_assert_eq(txn_wrote(txn, file, 0, 10, &user, &before, &attr), 0);
	cr_assert_eq(attr.mode & 07777, 0755);
	cr_assert_eq(attr.size, 10);
	cr_assert_eq(txn_wrote(txn, file, 5, 0, NULL, &before, &attr), 0);
	cr_assert_eq(attr.change, before, "nothing was written");
	cr_assert_eq(txn_wrote(txn, top, 0, 1, NULL, &before, &attr), -EISDIR);
	txn_abort(txn);
}

STORE_TEST(atime_moves_by_the_relatime_rule)
{
	struct rf_setattr_args args = { .valid = RF_SET_ATIME,
					.atime = { 1000, 0 } };
	rf_attr_t first, second;
	struct txn *txn;

	cr_assert_eq(setattr_as(store, &user, file, &args, &first), 0);
	txn = txn_begin(store);
	cr_assert_eq(txn_read_atime(txn, file, false), 0);
	cr_assert(txn_is_dirty(txn), "older than mtime");
	cr_assert_eq(txn_commit(txn), 0);
	cr_assert_eq(getattr(store, file, &second), 0);
	cr_assert_gt(second.atime.seconds, 1000);
	cr_assert_eq(second.change, first.change);
	cr_assert_eq(time_compare(&second.ctime, &first.ctime), 0);
	txn = txn_begin(store);
	cr_assert_eq(txn_read_atime(txn, file, false), 0);
	cr_assert_not(txn_is_dirty(txn), "newer than both");
	cr_assert_eq(txn_read_atime(txn, file, true), 0);
	cr_assert(txn_is_dirty(txn), "each time");
	txn_abort(txn);
}

/* ---- extended attributes ------------------------------------------------- */

static int set_x(const struct cred *cred, const char *text, const char *value,
		 unsigned int flags)
{
	struct txn *txn = txn_begin(store);
	rf_name_t name = name_of(text);

	return end_txn_with(txn, txn_setxattr(txn, cred, file, &name, value,
					      strlen(value), flags));
}

static int get_x(const struct cred *cred, const char *text, char *out,
		 size_t room)
{
	struct txn *txn = txn_begin(store);
	rf_name_t name = name_of(text);
	size_t size;
	int err = txn_getxattr(txn, cred, file, &name, out, room, &size);

	txn_abort(txn);
	return err ? err : (int)size;
}

static int remove_x(const struct cred *cred, const char *text)
{
	struct txn *txn = txn_begin(store);
	rf_name_t name = name_of(text);

	return end_txn_with(txn, txn_removexattr(txn, cred, file, &name, false));
}

static int list_x(const struct cred *cred, char *out, size_t room)
{
	struct txn *txn = txn_begin(store);
	size_t size;
	int err = txn_listxattr(txn, cred, file, out, room, &size);

	txn_abort(txn);
	return err ? err : (int)size;
}

STORE_TEST(an_attribute_is_set_replaced_listed_and_removed)
{
	char out[64];

	cr_assert_eq(get_x(&user, "user.a", out, 64), -ENODATA);
	cr_assert_eq(set_x(&user, "user.a", "one", XATTR_REPLACE), -ENODATA);
	cr_assert_eq(set_x(&user, "user.a", "one", XATTR_CREATE), 0);
	cr_assert_eq(set_x(&user, "user.a", "two", XATTR_CREATE), -EEXIST);
	cr_assert_eq(set_x(&user, "user.a", "three", 0), 0);
	cr_assert_eq(set_x(&user, "user.empty", "", 0), 0);
	cr_assert_eq(get_x(&user, "user.a", out, 64), 5);
	cr_assert_eq(memcmp(out, "three", 5), 0);
	cr_assert_eq(get_x(&user, "user.a", out, 0), 5);
	cr_assert_eq(get_x(&user, "user.a", out, 4), -ERANGE);
	cr_assert_eq(get_x(&user, "user.empty", out, 64), 0);
	cr_assert_eq(list_x(&user, out, 0), 18);
	cr_assert_eq(list_x(&user, out, 17), -ERANGE);
	cr_assert_eq(list_x(&user, out, 64), 18);
	cr_assert_eq(memcmp(out, "user.a\0user.empty", 18), 0);
	cr_assert_eq(remove_x(&user, "user.a"), 0);
	cr_assert_eq(remove_x(&user, "user.a"), -ENODATA);
	cr_assert_eq(list_x(&user, out, 64), 11);
}

static uint64_t change_of_file(void)
{
	rf_attr_t attr;

	cr_assert_eq(getattr(store, file, &attr), 0);
	return attr.change;
}

STORE_TEST(the_value_that_it_has_is_no_change)
{
	uint64_t before;

	cr_assert_eq(set_x(&user, "user.a", "one", 0), 0);
	cr_assert_eq(set_x(&user, "user.empty", "", 0), 0);
	before = change_of_file();
	cr_assert_eq(set_x(&user, "user.a", "one", XATTR_REPLACE), 0);
	cr_assert_eq(set_x(&user, "user.empty", "", 0), 0);
	cr_assert_eq(change_of_file(), before);
	cr_assert_eq(set_x(&user, "user.a", "One", 0), 0);
	cr_assert_gt(change_of_file(), before);
}

STORE_TEST(each_name_space_has_its_own_rule)
{
	char out[64];

	cr_assert_eq(set_x(&other, "user.a", "x", 0), -EACCES);
	cr_assert_eq(set_x(&user, "trusted.a", "x", 0), -EPERM);
	cr_assert_eq(set_x(&user, "security.a", "x", 0), -EPERM);
	cr_assert_eq(set_x(&root_cred, "trusted.a", "x", 0), 0);
	cr_assert_eq(get_x(&user, "trusted.a", out, 64), -ENODATA);
	cr_assert_eq(list_x(&user, out, 64), 0);
	cr_assert_eq(list_x(&root_cred, out, 64), 10);
	cr_assert_eq(set_x(&root_cred, "system.nfs4_acl", "x", 0),
		     -EOPNOTSUPP);
	cr_assert_eq(set_x(&root_cred, "user.", "x", 0), -EINVAL);
}

/* The kernel asks for it in the name of who writes to the file. */
STORE_TEST(who_may_write_may_remove_capabilities)
{
	static const struct cred stranger = { .uid = 5, .gid = 5 };
	static const struct cred member = { .uid = 6, .gid = 100 };
	const rf_name_t name = { "security.capability", 19 };
	rf_attr_t attr;

	cr_assert_eq(set_mode(&root_cred, 0664, &attr), 0);
	for (unsigned int i = 0; i < 2; i++) {
		struct txn *txn;

		cr_assert_eq(set_x(&root_cred, "security.capability", "caps",
				   0), 0);
		cr_assert_eq(set_x(i ? &user : &member, "security.capability",
				   "more", 0), -EPERM);
		txn = txn_begin(store);
		cr_assert_eq(txn_removexattr(txn, &stranger, file, &name,
					     false),
			     -EPERM);
		cr_assert_eq(txn_removexattr(txn, i ? &user : &member, file,
					     &name, false), 0);
		cr_assert_eq(txn_commit(txn), 0);
	}
}

STORE_TEST(a_privileged_write_drops_capabilities)
{
	char out[64];
	struct txn *txn;
	uint64_t before;
	rf_attr_t attr;

	cr_assert_eq(set_x(&root_cred, "security.capability", "caps", 0), 0);
	txn = txn_begin(store);
	cr_assert_eq(txn_wrote(txn, file, 0, 1, &user, &before, &attr), 0);
	cr_assert_eq(txn_commit(txn), 0);
	cr_assert_eq(get_x(&root_cred, "security.capability", out, 64),
		     -ENODATA);
	cr_assert_eq(list_x(&root_cred, out, 64), 0);
}

/* As on a disk: root's set-id programs stay that, but new data never inherit
 * what a file could do. */
STORE_TEST(data_of_whoever_drop_capabilities)
{
	const struct rf_setattr_args cut = { .valid = RF_SET_SIZE };
	char out[64];
	struct txn *txn;
	uint64_t before;
	rf_attr_t attr;

	for (int i = 0; i < 3; i++) {
		cr_assert_eq(set_x(&root_cred, "security.capability", "caps",
				   0), 0);
		txn = txn_begin(store);
		if (i == 0)
			cr_assert_eq(txn_wrote(txn, file, 0, 1, NULL, &before,
					       &attr), 0);
		else if (i == 1)
			cr_assert_eq(txn_allocated(txn, file, 9, NULL, &before,
						   &attr), 0);
		else
			cr_assert_eq(txn_setattr(txn, &root_cred, file, &cut,
						 true, &before, &attr), 0);
		cr_assert_eq(txn_commit(txn), 0);
		cr_assert_eq(get_x(&root_cred, "security.capability", out, 64),
			     -ENODATA, "change %d", i);
	}
}

STORE_TEST(one_transaction_sees_its_own_attributes)
{
	struct txn *txn;
	rf_name_t a = name_of("user.a"), b = name_of("user.b");
	char out[64];
	size_t size;

	cr_assert_eq(set_x(&user, "user.a", "old", 0), 0);
	txn = txn_begin(store);
	cr_assert_eq(txn_setxattr(txn, &user, file, &a, "new!", 4, 0), 0);
	cr_assert_eq(txn_setxattr(txn, &user, file, &b, "b", 1, 0), 0);
	cr_assert_eq(txn_getxattr(txn, &user, file, &a, out, 64, &size), 0);
	cr_assert_eq(size, 4);
	cr_assert_eq(txn_listxattr(txn, &user, file, out, 64, &size), 0);
	cr_assert_eq(size, 14, "each name once");
	cr_assert_eq(txn_removexattr(txn, &user, file, &a, false), 0);
	cr_assert_eq(txn_listxattr(txn, &user, file, out, 64, &size), 0);
	cr_assert_eq(size, 7);
	cr_assert_eq(txn_commit(txn), 0);
	cr_assert_eq(list_x(&user, out, 64), 7);
}

STORE_TEST(the_largest_value_fits_and_the_list_is_bounded)
{
	static char big[RF_XATTR_SIZE_MAX + 1], out[RF_XATTR_SIZE_MAX];
	unsigned int count = 0;
	char text[256];
	int err;

	memset(big, 'v', RF_XATTR_SIZE_MAX);
	cr_assert_eq(set_x(&user, "user.big", big, 0), 0);
	cr_assert_eq(get_x(&user, "user.big", out, sizeof(out)),
		     RF_XATTR_SIZE_MAX);
	cr_assert_eq(memcmp(out, big, sizeof(out)), 0);
	do {
		memset(text, 'n', 255);
		text[255] = 0;
		memcpy(text, "user.", 5);
		snprintf(text + 5, 6, "%05u", count);
		text[10] = 'n';
		err = set_x(&user, text, "", 0);
		count++;
	} while (!err && count < 1000);
	cr_assert_eq(err, -ENOSPC);
	cr_assert_leq(list_x(&user, out, sizeof(out)), (int)sizeof(out));
}

STORE_TEST(attributes_go_with_their_inode)
{
	struct txn *txn;
	rf_name_t name = name_of("file"), x = name_of("user.late");
	uint8_t prefix[NAME_PREFIX_SIZE];
	struct engine_scan scan;
	const void *key, *value;
	size_t key_size, size;

	cr_assert_eq(set_x(&user, "user.a", "value", 0), 0);
	txn = txn_begin(store);
	cr_assert_eq(txn_setxattr(txn, &user, file, &x, "v", 1, 0), 0);
	cr_assert_eq(txn_unlink(txn, &root_cred, top, &name, NULL), 0);
	cr_assert_eq(txn_commit(txn), 0);
	prefix[0] = 'x';
	record_store_be64(prefix + 1, file);
	cr_assert_eq(engine_scan_open(store->engine, ENGINE_NAMES, prefix,
				      sizeof(prefix), prefix, sizeof(prefix),
				      &scan), 0);
	cr_assert_eq(engine_scan_next(&scan, &key, &key_size, &value, &size),
		     0);
	engine_scan_close(&scan);
}

/* ---- what drops setuid and setgid ---------------------------------------- */

static rf_attr_t make_setid(const char *name, uint32_t type)
{
	rf_attr_t attr;

	cr_assert_eq(make_as(store, &root_cred, top, name, type | 06755, &attr),
		     0);
	return attr;
}

STORE_TEST(chown_drops_set_id_bits_of_all_but_directories)
{
	static const struct { const char *name; uint32_t type, kept; } kinds[] = {
		{ "reg", S_IFREG, 0755 },
		{ "fifo", S_IFIFO, 0755 },
		{ "dir", S_IFDIR, 06755 },
	};
	struct rf_setattr_args args = { .valid = RF_SET_UID, .uid = 5 };

	for (unsigned int i = 0; i < RF_ARRAY_SIZE(kinds); i++) {
		rf_attr_t attr = make_setid(kinds[i].name, kinds[i].type);

		cr_assert_eq(setattr_as(store, &root_cred, attr.inode, &args,
					&attr), 0);
		cr_assert_eq(attr.mode, kinds[i].type | kinds[i].kept, "%s: %o",
			     kinds[i].name, attr.mode);
	}
}

STORE_TEST(setgid_without_group_execution_stays_for_members)
{
	const struct cred *const killers[] = { &root_cred, &user, &other };
	static const uint32_t kept[] = { 02660, 02660, 0660 };
	struct rf_setattr_args args = { .valid = RF_SET_KILL_PRIV };
	rf_attr_t attr;

	for (unsigned int i = 0; i < RF_ARRAY_SIZE(kept); i++) {
		cr_assert_eq(set_owner(&root_cred, 1001, 100, &attr), 0);
		cr_assert_eq(set_mode(&root_cred, 06660, &attr), 0);
		cr_assert_eq(setattr_as(store, killers[i], file, &args, &attr),
			     0);
		cr_assert_eq(attr.mode & 07777, kept[i], "killer %u: %o", i,
			     attr.mode);
	}
}

STORE_TEST(who_may_not_write_may_not_drop_set_id_bits)
{
	struct rf_setattr_args args = { .valid = RF_SET_KILL_PRIV };
	rf_attr_t attr;

	cr_assert_eq(set_mode(&root_cred, 04751, &attr), 0);
	cr_assert_eq(setattr_as(store, &other, file, &args, &attr), -EPERM);
	cr_assert_eq(set_mode(&root_cred, 0751, &attr), 0);
	cr_assert_eq(setattr_as(store, &other, file, &args, &attr), 0);
	cr_assert_eq(set_mode(&root_cred, 04753, &attr), 0);
	cr_assert_eq(setattr_as(store, &other, file, &args, &attr), 0);
	cr_assert_eq(attr.mode & 07777, 0753);
}

STORE_TEST(fallocate_drops_set_id_bits_unless_told_not_to)
{
	rf_attr_t attr = make_setid("f", S_IFREG);
	uint64_t inode = attr.inode, before;

	for (unsigned int kills = 0; kills < 2; kills++) {
		struct txn *txn = txn_begin(store);

		cr_assert_eq(txn_allocated(txn, inode, 100,
					   kills ? &user : NULL, &before,
					   &attr), 0);
		cr_assert_eq(txn_commit(txn), 0);
		cr_assert_eq(attr.mode & 07777, kills ? 0755u : 06755u);
	}
}

STORE_TEST(setting_nothing_moves_ctime_and_no_time_is_set_twice)
{
	struct rf_setattr_args args = { 0 };
	rf_attr_t before = make_setid("f", S_IFREG), after;

	cr_assert_eq(setattr_as(store, &root_cred, before.inode, &args, &after),
		     0);
	cr_assert_gt(after.change, before.change);
	cr_assert(memcmp(&after.ctime, &before.ctime, sizeof(after.ctime)));
	cr_assert_eq(after.mtime.nanoseconds, before.mtime.nanoseconds);
	args.valid = RF_SET_MTIME | RF_SET_MTIME_NOW;
	cr_assert_eq(setattr_as(store, &root_cred, before.inode, &args, &after),
		     -EINVAL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The server itself obeys access control lists, whatever a client's kernel does. */
#define SUITE server_acl
#include "tests/unit/server_ops.h"

#include "storage-server/acl.h"

#include <stdio.h>
#include <sys/stat.h>

static uint8_t bytes[ACL_SIZE_MAX];

/* Root's file or directory; user 1000 has these rights, others none. */
static size_t list_of_1000(uint16_t allowed)
{
	const struct acl acl = { 5, {
		{ ACL_USER_OBJ, 7, 0 }, { ACL_USER, allowed, 1000 },
		{ ACL_GROUP_OBJ, 0, 0 }, { ACL_MASK, 7, 0 },
		{ ACL_OTHER, 0, 0 },
	} };

	return acl_encode(&acl, bytes);
}

static struct rf_args set_args(const char *name, size_t size)
{
	struct rf_args args = { .code = RF_OP_SETXATTR };

	args.setxattr.name = sname(name);
	args.setxattr.data = (rf_blob_t){ bytes, (uint32_t)size };
	return args;
}

static void set_list(const rf_handle_t *handle, const char *name,
		     uint16_t allowed)
{
	struct rf_args args = set_args(name, list_of_1000(allowed));
	unsigned int status = srun(&client, &call, 1, handle, &args, 1);

	cr_assert_eq(status, RF_ST_OK, "%s", rf_status_name(status));
}

#define USER(handle, ...) SRUN(&client, &call, 2, handle, __VA_ARGS__)
#define ACCESS_LIST "system.posix_acl_access"
#define DEFAULT_LIST "system.posix_acl_default"

SCENARIO(a_named_user_may_what_the_list_says)
{
	struct rf_args args;
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = smake(&client, "f", RW, &open);
	OK(&handle, { .code = RF_OP_SETATTR,
		      .setattr = { .valid = RF_SET_MODE, .mode = 0600 } });
	cr_assert_eq(USER(&handle, OP_OPEN(RF_OPEN_READ)), RF_ST_ACCESS);
	set_list(&handle, ACCESS_LIST, 4);
	cr_assert_eq(USER(&handle, OP_OPEN(RF_OPEN_READ)), RF_ST_OK);
	cr_assert_eq(SRES(&call, 0, open).attr.mode & 0777, 0770);
	cr_assert_eq(SRES(&call, 0, open).attr.flags, RF_ATTR_HAS_ACL);
	cr_assert_eq(USER(&handle, OP_OPEN(RW)), RF_ST_ACCESS);
	/* By the name as well. */
	cr_assert_eq(USER(&client.root, OP_CREATE("f", RF_OPEN_READ)),
		     RF_ST_OK);
	cr_assert_eq(USER(&client.root, OP_CREATE("f", RW)), RF_ST_ACCESS);
	/* Only the owner sets it. */
	args = set_args(ACCESS_LIST, list_of_1000(7));
	cr_assert_eq(srun(&client, &call, 2, &handle, &args, 1), RF_ST_PERM);
	/* chmod takes the mask away. */
	OK(&handle, { .code = RF_OP_SETATTR,
		      .setattr = { .valid = RF_SET_MODE, .mode = 0606 } });
	cr_assert_eq(USER(&handle, OP_OPEN(RW)), RF_ST_OK,
		     "without rights of the class, others' count");
	OK(&handle, { .code = RF_OP_SETATTR,
		      .setattr = { .valid = RF_SET_MODE, .mode = 0610 } });
	cr_assert_eq(USER(&handle, OP_OPEN(RF_OPEN_READ)), RF_ST_ACCESS);
	end();
}

SCENARIO(a_directory_is_searched_and_written_by_list)
{
	rf_handle_t dir;

	begin(scheme);
	OK(&client.root, OP_MKDIR("d"));
	dir = SRES(&call, 0, mkdir).handle;
	OK(&dir, OP_MKDIR("in"), { .code = RF_OP_USE, .use = { dir } },
	   { .code = RF_OP_SETATTR,
	     .setattr = { .valid = RF_SET_MODE, .mode = 0700 } });
	cr_assert_eq(USER(&dir, OP_LOOKUP("in")), RF_ST_ACCESS);
	set_list(&dir, ACCESS_LIST, 1);
	cr_assert_eq(USER(&dir, OP_LOOKUP("in")), RF_ST_OK);
	cr_assert_eq(USER(&dir, OP_MKDIR("own")), RF_ST_ACCESS);
	cr_assert_eq(USER(&dir, OP_RMDIR("in")), RF_ST_ACCESS);
	set_list(&dir, ACCESS_LIST, 3);
	cr_assert_eq(USER(&dir, OP_MKDIR("own")), RF_ST_OK);
	cr_assert_eq(USER(&dir, OP_RENAME("own", dir, "moved", 0)), RF_ST_OK);
	cr_assert_eq(USER(&dir, OP_RMDIR("in")), RF_ST_OK);
	end();
}

SCENARIO(children_inherit_or_have_the_umask)
{
	struct rf_args mkdir = OP_MKDIR("sub");
	rf_handle_t dir;

	begin(scheme);
	OK(&client.root, OP_MKDIR("d"));
	dir = SRES(&call, 0, mkdir).handle;
	mkdir.mkdir.mode = 0777;
	mkdir.mkdir.umask = 027;
	cr_assert_eq(srun(&client, &call, 1, &dir, &mkdir, 1), RF_ST_OK);
	cr_assert_eq(SRES(&call, 0, mkdir).attr.mode & 07777, 0750);
	cr_assert_eq(SRES(&call, 0, mkdir).attr.flags, 0);
	set_list(&dir, DEFAULT_LIST, 5);
	mkdir.mkdir.name = sname("heir");
	cr_assert_eq(srun(&client, &call, 1, &dir, &mkdir, 1), RF_ST_OK);
	cr_assert_eq(SRES(&call, 0, mkdir).attr.mode & 07777, 0770);
	cr_assert_eq(SRES(&call, 0, mkdir).attr.flags, RF_ATTR_HAS_ACL);
	dir = SRES(&call, 0, mkdir).handle;
	OK(&dir, { .code = RF_OP_GETXATTR,
		   .getxattr = { sname(DEFAULT_LIST), 4096 } });
	cr_assert_eq(SRES(&call, 0, getxattr).value_size, 4 + 8 * 5);
	cr_assert_arr_eq(SRES(&call, 0, getxattr).data.bytes, bytes, 4 + 8 * 5);
	/* What is not one is refused. */
	bytes[4] = 99;
	mkdir = set_args(ACCESS_LIST, 4 + 8 * 5);
	cr_assert_eq(srun(&client, &call, 1, &dir, &mkdir, 1), RF_ST_INVAL);
	end();
}

/* It is refused where it would make the names of all attributes too long to be
 * listed; then the mode, which follows a list, is as it was. */
SCENARIO(a_list_that_is_refused_changes_no_mode)
{
	rf_handle_t handle;
	struct rf_args both[2] = {
		{ .code = RF_OP_SETATTR, .setattr = {
			.valid = RF_SET_ATIME_NOW } },
	};
	char name[RF_NAME_MAX + 1];
	unsigned int count = 0, status;
	uint32_t open;

	begin(scheme);
	handle = smake(&client, "f", RW, &open);
	do {
		snprintf(name, sizeof(name), "user.%0250u", count++);
		status = DO(&handle, { .code = RF_OP_SETXATTR,
				       .setxattr = { .name = sname(name) } });
	} while (status == RF_ST_OK);
	cr_assert_eq(status, RF_ST_NOSPC);
	both[1] = set_args(ACCESS_LIST, list_of_1000(7));
	cr_assert_eq(srun(&client, &call, 1, &handle, both, 2), RF_ST_NOSPC);
	cr_assert_eq(call.count, 3);
	OK(&handle, { .code = RF_OP_GETATTR });
	cr_assert_eq(SRES(&call, 0, getattr).attr.mode & 0777, 0644);
	end();
}

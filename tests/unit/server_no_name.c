/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are made without a name, and may get one. */
#define SUITE server_no_name
#include "tests/unit/server_ops.h"

#include "storage-server/store_impl.h"

#define OP_LINK(d, n) { .code = RF_OP_LINK, .link = { d, sname(n) } }
#define NO_NAME (RW | RF_OPEN_NO_NAME)

static rf_handle_t make(uint32_t flags, uint32_t *open)
{
	OK(&client.root, OP_CREATE("x", flags));
	cr_assert_eq(SRES(&call, 0, create).attr.nlink, 0);
	cr_assert_eq(SRES(&call, 0, create).was_created, 1);
	*open = SRES(&call, 0, create).open;
	return SRES(&call, 0, create).handle;
}

SCENARIO(a_file_without_a_name_goes_with_its_open)
{
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = make(NO_NAME, &open);
	FAILS(NOENT, &client.root, OP_LOOKUP("x"));
	cr_assert_eq(swrite(&client, &handle, open, 0, "hello", 5), RF_ST_OK);
	cr_assert_eq(rig.server->store->deletions.orphans, 1);
	OK(&handle, OP_RELEASE(open));
	FAILS(STALE, &handle, { .code = RF_OP_GETATTR });
	cr_assert_eq(rig.server->store->deletions.orphans, 0);
	end();
}

SCENARIO(a_file_without_a_name_gets_one)
{
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = make(NO_NAME, &open);
	cr_assert_eq(swrite(&client, &handle, open, 0, "hello", 5), RF_ST_OK);
	OK(&handle, OP_LINK(client.root, "named"));
	cr_assert_eq(SRES(&call, 0, link).attr.nlink, 1);
	cr_assert_eq(rig.server->store->deletions.orphans, 0);
	OK(&handle, OP_RELEASE(open));
	OK(&client.root, OP_LOOKUP("named"));
	cr_assert_eq(SRES(&call, 0, lookup).attr.size, 5);
	/* Only while it never had one. */
	OK(&handle, OP_OPEN(RW));
	open = SRES(&call, 0, open).open;
	OK(&client.root, OP_UNLINK("named"));
	FAILS(NOENT, &handle, OP_LINK(client.root, "again"));
	end();
}

SCENARIO(in_one_message_it_never_is_an_orphan)
{
	begin(scheme);
	OK(&client.root, OP_CREATE("x", NO_NAME), OP_LINK(client.root, "y"));
	cr_assert_eq(rig.server->store->deletions.orphans, 0);
	OK(&client.root, OP_LOOKUP("y"));
	cr_assert_eq(SRES(&call, 0, lookup).attr.nlink, 1);
	end();
}

SCENARIO(one_that_is_not_to_have_a_name_gets_none)
{
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = make(NO_NAME | RF_OPEN_EXCL, &open);
	FAILS(NOENT, &handle, OP_LINK(client.root, "named"));
	end();
}

SCENARIO(the_directory_must_be_writable)
{
	begin(scheme);
	cr_assert_eq(SRUN(&client, &call, 2, &client.root,
			  OP_CREATE("x", NO_NAME)), RF_ST_ACCESS);
	OK(&client.root, OP_CREATE("f", RW));
	FAILS(NOTDIR, &SRES(&call, 0, create).handle, OP_CREATE("x", NO_NAME));
	end();
}

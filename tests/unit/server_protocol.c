/* SPDX-License-Identifier: Apache-2.0 */
/* A whole server: broken rules, kinds of exports, durability, the end. */
#define SUITE server_protocol
#include "tests/unit/server_ops.h"

#include <errno.h>
#include <stdlib.h>

/* ---- what breaks the protocol ------------------------------------------- */

SCENARIO(forged_handles_and_those_of_other_exports_are_refused)
{
	static struct sclient other;
	rf_handle_t handle;
	uint32_t open;

	srig_init(&rig, scheme);
	rig.config.export_count = 0;
	srig_set(&rig, "export", "data=one");
	srig_set(&rig, "export", "other=two");
	srig_start(&rig);
	sclient_open(&rig, &client, "data");
	sclient_open(&rig, &other, "other");
	handle = smake(&client, "a", RW, &open);
	cr_assert_eq(SRUN(&other, &call, 1, &handle, OP_READ(open, 0, 1)),
		     RF_ST_BAD_HANDLE);
	cr_assert_eq(SRUN(&other, &call, 1, &client.root, OP_LOOKUP("a")),
		     RF_ST_BAD_HANDLE);
	for (unsigned int i = 0; i < 64; i++) {
		rf_handle_t forged = handle;

		forged.tag ^= UINT64_C(1) << i;
		FAILS(BAD_HANDLE, &forged, { .code = RF_OP_GETATTR });
	}
	handle.inode++;
	FAILS(BAD_HANDLE, &handle, { .code = RF_OP_GETATTR });
	FAILS(BAD_HANDLE, &client.root, OP_RENAME("a", other.root, "b", 0));
	scall_init(&call, &client);
	scall_add(&call, &(struct rf_args){ .code = RF_OP_GETATTR });
	scall_submit(&call);
	scall_wait(&call);
	cr_assert_eq(call.results[0].status, RF_ST_BAD_HANDLE);
	sclient_bye(&other);
	end();
}

SCENARIO(an_unknown_operation_is_refused_and_the_session_lives)
{
	begin(scheme);
	scall_init(&call, &client);
	scall_add(&call, &(struct rf_args){ .code = RF_OP_NOP });
	rf_store_u16(call.enc.base + RF_HEADER_SIZE, 999);
	scall_submit(&call);
	scall_wait(&call);
	cr_assert_eq(call.err, 0);
	cr_assert_eq(call.results[0].status, RF_ST_NOSYS);
	OK(&client.root, { .code = RF_OP_GETATTR });
	end();
}

SCENARIO(a_malformed_operation_is_answered_and_ends_the_session)
{
	begin(scheme);
	scall_init(&call, &client);
	scall_add(&call, &(struct rf_args){ .code = RF_OP_MKDIR,
					    .mkdir = { sname("good"), 0755, 0 }});
	/* A name with a slash. */
	call.enc.base[RF_HEADER_SIZE + RF_OP_HEADER_SIZE + 3] = '/';
	call.call.identity = 1;
	scall_submit(&call);
	scall_wait(&call);
	cr_assert_eq(call.err, 0);
	cr_assert_eq(call.results[0].status, RF_ST_BAD_MESSAGE);
	srig_until(&rig, client.closed && rig.server->session_count == 0);
	srig_close(&rig);
}

SCENARIO(results_that_do_not_fit_are_refused_as_too_big)
{
	static char target[4000];

	begin(scheme);
	memset(target, 'x', sizeof(target));
	OK(&client.root, { .code = RF_OP_SYMLINK, .symlink = { sname("l"),
		{ target, sizeof(target) } } });
	FAILS(TOO_BIG, &client.root, OP_LOOKUP("l"),
	      { .code = RF_OP_READLINK }, { .code = RF_OP_READLINK });
	cr_assert_eq(call.count, 4);
	cr_assert_eq(SRES(&call, 1, readlink).target.size, sizeof(target));
	end();
}

/* ---- exports ------------------------------------------------------------ */

SCENARIO(a_read_only_export_refuses_each_change)
{
	rf_handle_t handle;
	uint32_t open;

	srig_init(&rig, scheme);
	rig.config.export_count = 0;
	srig_set(&rig, "export", "rw=shared");
	srig_start(&rig);
	sclient_open(&rig, &client, "rw");
	smake(&client, "a", RW, &open);
	sclient_bye(&client);
	srig_stop(&rig);

	rig.config.export_count = 0;
	srig_set(&rig, "export", "ro=shared,ro");
	srig_start(&rig);
	sclient_open(&rig, &client, "ro");
	cr_assert(client.reply.flags & RF_HELLO_READ_ONLY);
	OK(&client.root, OP_LOOKUP("a"));
	handle = SRES(&call, 0, lookup).handle;
	FAILS(ROFS, &client.root, OP_MKDIR("d"));
	FAILS(ROFS, &client.root, OP_CREATE("b", RW));
	FAILS(ROFS, &client.root, OP_CREATE("a", RW));
	FAILS(ROFS, &client.root, OP_UNLINK("a"));
	FAILS(ROFS, &client.root, OP_RENAME("a", client.root, "b", 0));
	FAILS(ROFS, &handle, OP_OPEN(RW));
	FAILS(ROFS, &handle, OP_SIZE(0, 1));
	OK(&handle, OP_OPEN(RF_OPEN_READ));
	open = SRES(&call, 0, open).open;
	FAILS(ROFS, &handle, OP_WRITE(open, 0, 0, "x", 1));
	OK(&handle, OP_READ(open, 0, 10), OP_FSYNC(open), OP_RELEASE(open));
	end();
}

SCENARIO(a_squashed_root_is_nobody)
{
	srig_init(&rig, scheme);
	rig.config.export_count = 0;
	srig_set(&rig, "export", "data=/,root-squash");
	srig_start(&rig);
	sclient_open(&rig, &client, "data");
	FAILS(ACCESS, &client.root, OP_MKDIR("d"));
	end();
}

SCENARIO(a_squashed_root_makes_files_of_nobody)
{
	rf_handle_t dir;

	begin(scheme);
	OK(&client.root, OP_MKDIR("d"), { .code = RF_OP_SETATTR,
		.setattr = { .valid = RF_SET_MODE, .mode = 0777 } });
	sclient_bye(&client);
	srig_stop(&rig);
	rig.config.export_count = 0;
	srig_set(&rig, "export", "data=/,root-squash");
	srig_start(&rig);
	sclient_open(&rig, &client, "data");
	OK(&client.root, OP_LOOKUP("d"), OP_CREATE("a", RW));
	dir = SRES(&call, 0, lookup).handle;
	cr_assert_eq(SRES(&call, 1, create).attr.uid, 65534);
	cr_assert_eq(SRES(&call, 1, create).attr.gid, 65534);
	cr_assert_eq(SRUN(&client, &call, 2, &dir, OP_CREATE("b", RW)),
		     RF_ST_OK);
	cr_assert_eq(SRES(&call, 0, create).attr.uid, 1000);
	end();
}

SCENARIO(a_squashed_root_keeps_no_setuid_of_others)
{
	uint32_t open;
	rf_handle_t handle;

	begin(scheme);
	handle = smake(&client, "s", RW, &open);
	OK(&handle, { .code = RF_OP_SETATTR,
		.setattr = { .valid = RF_SET_MODE, .mode = 04777 } },
	   OP_WRITE(open, 0, 0, "ab", 2));
	cr_assert_eq(SRES(&call, 1, write).attr.mode & 07777, 04777);
	sclient_bye(&client);
	srig_stop(&rig);
	rig.config.export_count = 0;
	srig_set(&rig, "export", "data=/,root-squash");
	srig_start(&rig);
	sclient_open(&rig, &client, "data");
	OK(&client.root, OP_LOOKUP("s"), OP_OPEN(RW),
	   OP_WRITE(0, 0, 0, "x", 1));
	cr_assert_eq(SRES(&call, 2, write).attr.mode & 07777, 0777);
	end();
}

SCENARIO(a_squashed_root_that_cuts_keeps_no_setuid_of_others)
{
	uint32_t open;
	rf_handle_t handle;

	begin(scheme);
	handle = smake(&client, "s", RW, &open);
	OK(&handle, OP_WRITE(open, 0, 0, "ab", 2), { .code = RF_OP_SETATTR,
		.setattr = { .valid = RF_SET_MODE, .mode = 04777 } });
	sclient_bye(&client);
	srig_stop(&rig);
	rig.config.export_count = 0;
	srig_set(&rig, "export", "data=/,root-squash");
	srig_start(&rig);
	sclient_open(&rig, &client, "data");
	OK(&client.root, OP_LOOKUP("s"), OP_SIZE(0, 1));
	cr_assert_eq(SRES(&call, 1, setattr).attr.mode & 07777, 0777);
	end();
}

/* ---- durability --------------------------------------------------------- */

static uint64_t syncs(void)
{
	struct store_stats stats;

	store_stats(rig.server->store, &stats);
	return stats.sync_requests;
}

SCENARIO(a_write_is_synced_when_it_or_its_open_or_the_server_says_so)
{
	rf_handle_t handle;
	uint32_t open, sync_open;
	uint64_t before;

	begin(scheme);
	handle = smake(&client, "a", RW, &open);
	before = syncs();
	OK(&handle, OP_WRITE(open, 0, 0, "x", 1));
	cr_assert_eq(syncs(), before);
	OK(&handle, OP_WRITE(open, 0, RF_WRITE_DSYNC, "x", 1));
	cr_assert_eq(syncs(), before + 1);
	OK(&handle, OP_OPEN(RW | RF_OPEN_SYNC));
	sync_open = SRES(&call, 0, open).open;
	OK(&handle, OP_WRITE(sync_open, 0, 0, "x", 1));
	cr_assert_eq(syncs(), before + 2);
	OK(&handle, OP_FSYNC(open));
	cr_assert_eq(syncs(), before + 3);
	OK(&client.root, OP_OPEN(RF_OPEN_READ | RF_OPEN_DIR), OP_FSYNC(0));
	cr_assert_eq(syncs(), before + 4);
	sclient_bye(&client);
	srig_stop(&rig);

	srig_set(&rig, "durability", "strict");
	srig_start(&rig);
	sclient_open(&rig, &client, "data");
	srig_until(&rig, !rig.server->is_record_syncing);
	before = syncs();
	OK(&client.root, OP_MKDIR("d"));
	cr_assert_eq(syncs(), before + 1);
	OK(&client.root, OP_CREATE("b", RW), OP_WRITE(0, 0, 0, "x", 1));
	cr_assert_geq(syncs(), before + 2);
	before = syncs();
	OK(&client.root, OP_LOOKUP("d"));
	cr_assert_eq(syncs(), before);
	end();
}

/* ---- the end ------------------------------------------------------------ */

SCENARIO(bye_releases_opens_and_forgets_answers)
{
	static uint8_t room[8192];
	struct reply_key key = { .slot = 0 };
	rf_handle_t handle;
	struct reply_record record;
	uint32_t open;

	begin(scheme);
	handle = smake(&client, "a", RW, &open);
	key.session = client.reply.session;
	OK(&client.root, OP_UNLINK("a"));
	cr_assert_gt(store_find_reply(rig.server->store, &key, &record, room,
				      sizeof(room)), 0);
	cr_assert_eq(store_open_count(rig.server->store, handle.inode), 1);
	sclient_bye(&client);
	srig_until(&rig, rig.server->session_count == 0);
	cr_assert_eq(store_open_count(rig.server->store, handle.inode), 0);
	cr_assert_eq(store_find_reply(rig.server->store, &key, &record, room,
				      sizeof(room)), -ENOENT);
	srig_close(&rig);
}

SCENARIO(the_limit_of_opens_is_told)
{
	srig_init(&rig, scheme);
	srig_set(&rig, "opens", "3");
	srig_start(&rig);
	sclient_open(&rig, &client, "data");
	OK(&client.root, OP_CREATE("a", RW), OP_OPEN(RW), OP_OPEN(RW));
	FAILS(NFILE, &client.root, OP_CREATE("new", RW));
	FAILS(NOENT, &client.root, OP_LOOKUP("new"));
	end();
}

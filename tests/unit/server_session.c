/* SPDX-License-Identifier: Apache-2.0 */
/* A whole server and a raw client: every operation, and its main errors. */
#define SUITE server_session
#include "tests/unit/server_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

SCENARIO(a_file_is_made_written_and_read)
{
	rf_handle_t handle;
	uint32_t open;
	char out[16];

	srig_open(&rig, scheme);
	sclient_open(&rig, &client, "data");
	handle = smake(&client, "a", RF_OPEN_READ | RF_OPEN_WRITE, &open);
	cr_assert_eq(swrite(&client, &handle, open, 0, "hello", 5), RF_ST_OK);
	cr_assert_eq(sread(&client, &handle, open, 0, sizeof(out), out), 5);
	cr_assert_arr_eq(out, "hello", 5);
	cr_assert_eq(SRUN(&client, &call, 1, &client.root,
			  { .code = RF_OP_LOOKUP,
			    .lookup = { sname("a") } },
			  { .code = RF_OP_GETATTR }), RF_ST_OK);
	cr_assert_eq(SRES(&call, 0, lookup).handle.inode, handle.inode);
	cr_assert_eq(SRES(&call, 1, getattr).attr.size, 5);
	sclient_bye(&client);
	srig_close(&rig);
}

SCENARIO(data_travel_whole_at_every_boundary)
{
	static const uint32_t sizes[] = {
		1, 4095, 4096, 4097, 65535, 65536, 65537, 262144, 262145,
		(1 << 20) - 1, 1 << 20,
	};
	static uint8_t data[1 << 20], out[1 << 20];
	rf_handle_t handle;
	uint32_t open;

	srig_open(&rig, scheme);
	sclient_open(&rig, &client, "data");
	handle = smake(&client, "a", RF_OPEN_READ | RF_OPEN_WRITE, &open);
	for (unsigned int i = 0; i < RF_ARRAY_SIZE(sizes); i++) {
		uint64_t offset = i * 1000003u;

		spattern(data, sizes[i], i);
		cr_assert_eq(swrite(&client, &handle, open, offset, data,
				    sizes[i]), RF_ST_OK);
		memset(out, 0xaa, sizes[i]);
		cr_assert_eq(sread(&client, &handle, open, offset, sizes[i],
				   out), sizes[i]);
		cr_assert(memcmp(out, data, sizes[i]) == 0, "size %u",
			  sizes[i]);
	}
	sclient_bye(&client);
	srig_close(&rig);
}

/* ---- names ------------------------------------------------------------- */

SCENARIO(names_are_made_moved_and_removed)
{
	rf_handle_t dir, file;

	begin(scheme);
	OK(&client.root, OP_MKDIR("d"));
	dir = SRES(&call, 0, mkdir).handle;
	FAILS(EXIST, &client.root, OP_MKDIR("d"));
	OK(&dir, { .code = RF_OP_MKNOD, .mknod = { sname("f"),
						   S_IFREG | 0600, 0, 0 } });
	file = SRES(&call, 0, mknod).handle;
	OK(&dir, { .code = RF_OP_MKNOD, .mknod = { sname("dev"),
		   S_IFCHR | 0600, UINT64_C(7) << 32 | 9, 0 } });
	cr_assert_eq(SRES(&call, 0, mknod).attr.rdev, UINT64_C(7) << 32 | 9);
	FAILS(INVAL, &dir, { .code = RF_OP_MKNOD, .mknod = { sname("x"),
			     S_IFDIR | 0600, 0, 0 } });
	OK(&dir, { .code = RF_OP_SYMLINK, .symlink = { sname("l"),
		   { "a/target", 8 } } });
	OK(&dir, OP_LOOKUP("l"), { .code = RF_OP_READLINK });
	cr_assert_eq(SRES(&call, 1, readlink).target.size, 8);
	cr_assert_arr_eq(SRES(&call, 1, readlink).target.bytes, "a/target", 8);
	FAILS(INVAL, &file, { .code = RF_OP_READLINK });
	OK(&file, { .code = RF_OP_LINK, .link = { dir, sname("g") } });
	cr_assert_eq(SRES(&call, 0, link).attr.nlink, 2);
	FAILS(EXIST, &dir, OP_RENAME("f", client.root, "d",
				     RF_RENAME_NOREPLACE));
	OK(&dir, OP_RENAME("f", client.root, "moved", 0));
	FAILS(NOENT, &dir, OP_LOOKUP("f"));
	FAILS(NOTEMPTY, &client.root, OP_RMDIR("d"));
	FAILS(ISDIR, &client.root, OP_UNLINK("d"));
	FAILS(NOTDIR, &client.root, OP_RMDIR("moved"));
	OK(&dir, OP_UNLINK("dev"), OP_UNLINK("l"), OP_UNLINK("g"));
	OK(&client.root, OP_RMDIR("d"), OP_UNLINK("moved"));
	FAILS(STALE, &dir, OP_LOOKUP("f"));
	FAILS(STALE, &file, { .code = RF_OP_GETATTR });
	end();
}

SCENARIO(a_list_stops_at_its_first_error_and_keeps_what_came_before)
{
	begin(scheme);
	FAILS(NOTDIR, &client.root, OP_CREATE("a", RW), OP_LOOKUP("nothing"),
	      OP_CREATE("b", RW));
	cr_assert_eq(call.count, 3);
	FAILS(NOTDIR, &client.root, OP_LOOKUP("a"), OP_CREATE("b", RW));
	FAILS(NOENT, &client.root, OP_LOOKUP("b"));
	end();
}

SCENARIO(create_honours_its_flags)
{
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = smake(&client, "a", RW, &open);
	cr_assert_eq(swrite(&client, &handle, open, 0, "hello", 5), RF_ST_OK);
	FAILS(EXIST, &client.root, OP_CREATE("a", RW | RF_OPEN_EXCL));
	OK(&client.root, OP_CREATE("a", RW));
	cr_assert_eq(SRES(&call, 0, create).was_created, 0);
	cr_assert_eq(SRES(&call, 0, create).attr.size, 5);
	cr_assert_eq(SRES(&call, 0, create).handle.inode, handle.inode);
	OK(&client.root, OP_CREATE("a", RW | RF_OPEN_TRUNC));
	cr_assert_eq(SRES(&call, 0, create).attr.size, 0);
	OK(&client.root, OP_MKDIR("d"));
	FAILS(ISDIR, &client.root, OP_CREATE("d", RW));
	OK(&client.root, { .code = RF_OP_SYMLINK,
			   .symlink = { sname("l"), { "a", 1 } } });
	FAILS(LOOP, &client.root, OP_CREATE("l", RW));
	end();
}

/* One message: make, write, change, close. */
SCENARIO(a_small_file_costs_one_message)
{
	begin(scheme);
	OK(&client.root, OP_CREATE("a", RW), OP_WRITE(0, 0, 0, "hello", 5),
	   { .code = RF_OP_SETATTR,
	     .setattr = { .valid = RF_SET_MODE, .mode = 0600 } },
	   OP_FSYNC(0), OP_RELEASE(0));
	cr_assert_eq(SRES(&call, 1, write).size, 5);
	cr_assert_eq(SRES(&call, 2, setattr).attr.mode, S_IFREG | 0600u);
	cr_assert_eq(sclient_session(&client)->opens.count, 0);
	OK(&client.root, OP_LOOKUP("a"), OP_OPEN(RF_OPEN_READ),
	   OP_READ(0, 0, 100), OP_RELEASE(0));
	cr_assert_eq(SRES(&call, 2, read).size, 5);
	cr_assert_eq(SRES(&call, 2, read).eof, 1);
	cr_assert_arr_eq(SRES(&call, 2, read).data.bytes, "hello", 5);
	end();
}

SCENARIO(a_listing_has_all_names_by_every_way)
{
	enum { NAMES = 300 };
	static bool seen[NAMES];
	static uint8_t data[1 << 20];
	uint64_t cookie = 0;
	unsigned int dots = 0, grants = 0;
	uint32_t open;

	begin(scheme);
	for (int i = 0; i < NAMES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "%d", i);
		OK(&client.root, { .code = RF_OP_MKNOD,
				   .mknod = { sname(name), S_IFREG | 0600,
					      0, 0 } });
	}
	OK(&client.root, OP_OPEN(RF_OPEN_READ | RF_OPEN_DIR));
	open = SRES(&call, 0, open).open;
	FAILS(INVAL, &client.root, { .code = RF_OP_READDIR,
				     .readdir = { open, 0, 10, 0 } });
	for (unsigned int round = 0; ; round++) {
		const struct rf_readdir_results *results;
		uint32_t size, at = 0;

		OK(&client.root, { .code = RF_OP_READDIR,
			.readdir = { open, cookie,
				     round % 2 ? 20000 : 2000, 1 } });
		results = &SRES(&call, 0, readdir);
		size = results->data.size;
		if (size)
			memcpy(data, results->data.bytes, size);
		for (int i = 0; i < results->grants.count; i++) {
			cr_assert_eq(sfetch(&client, &results->grants.v[i],
					    data + size), 0);
			size += results->grants.v[i].size;
			rf_client_return_grant(client.client,
					       results->grants.v[i].id);
			grants++;
		}
		while (at < size) {
			struct rf_dirent entry;
			char name[16];
			int ret = rf_dirent_decode(data + at, size - at,
						   &entry);

			cr_assert(ret > 0);
			at += (uint32_t)ret;
			cookie = entry.cookie;
			snprintf(name, sizeof(name), "%.*s", entry.name.size,
				 entry.name.bytes);
			if (name[0] == '.') {
				dots++;
				continue;
			}
			cr_assert(entry.has_attr);
			cr_assert(store_handle_is_valid(rig.server->store,
							&entry.handle));
			cr_assert_not(seen[atoi(name)], "%s twice", name);
			seen[atoi(name)] = true;
		}
		if (results->eof)
			break;
	}
	cr_assert_eq(dots, 2);
	cr_assert(grants > 0);
	for (int i = 0; i < NAMES; i++)
		cr_assert(seen[i], "%d is missing", i);
	end();
}

/* ---- attributes --------------------------------------------------------- */

SCENARIO(a_truncate_cuts_and_grows_with_zeroes)
{
	static uint8_t data[100000], out[100000], zero[100000];
	rf_handle_t handle;
	uint64_t change;
	uint32_t open;

	begin(scheme);
	handle = smake(&client, "a", RW, &open);
	spattern(data, sizeof(data), 1);
	cr_assert_eq(swrite(&client, &handle, open, 0, data, sizeof(data)),
		     RF_ST_OK);
	OK(&handle, { .code = RF_OP_GETATTR });
	change = SRES(&call, 0, getattr).attr.change;
	OK(&handle, OP_SIZE(open, 10));
	cr_assert_eq(SRES(&call, 0, setattr).attr.size, 10);
	cr_assert_eq(SRES(&call, 0, setattr).change_before, change);
	cr_assert_gt(SRES(&call, 0, setattr).attr.change, change);
	OK(&handle, OP_SIZE(0, sizeof(data)));
	cr_assert_eq(sread(&client, &handle, open, 0, sizeof(out), out),
		     sizeof(out));
	cr_assert_arr_eq(out, data, 10);
	cr_assert_arr_eq(out + 10, zero, sizeof(out) - 10);
	/* As Linux has it: also an open that can't write. */
	OK(&handle, OP_OPEN(RF_OPEN_READ | RF_OPEN_TRUNC));
	cr_assert_eq(SRES(&call, 0, open).attr.size, 0);
	FAILS(FBIG, &handle, OP_SIZE(0, UINT64_MAX / 2));
	FAILS(ISDIR, &client.root, OP_SIZE(0, 0));
	end();
}

SCENARIO(extended_attributes_travel_inside_and_by_grant)
{
	static uint8_t small[100], large[60000], out[65536];
	struct rf_buf *buf;
	struct rf_grant slot;
	struct rf_args args = { .code = RF_OP_SETXATTR };
	const struct rf_args use = { .code = RF_OP_USE,
				     .use = { client.root } };
	struct rf_args use_root;

	begin(scheme);
	use_root = use;
	use_root.use.handle = client.root;
	spattern(small, sizeof(small), 1);
	spattern(large, sizeof(large), 2);
	OK(&client.root, { .code = RF_OP_SETXATTR,
		.setxattr = { .name = sname("user.small"),
			      .data = { small, sizeof(small) } } });
	FAILS(EXIST, &client.root, { .code = RF_OP_SETXATTR,
		.setxattr = { .name = sname("user.small"), .flags = 1,
			      .data = { small, sizeof(small) } } });
	OK(&client.root, { .code = RF_OP_GETXATTR,
		.getxattr = { sname("user.small"), 0 } });
	cr_assert_eq(SRES(&call, 0, getxattr).value_size, sizeof(small));
	cr_assert_eq(SRES(&call, 0, getxattr).data.size, 0);
	FAILS(RANGE, &client.root, { .code = RF_OP_GETXATTR,
		.getxattr = { sname("user.small"), 99 } });
	OK(&client.root, { .code = RF_OP_GETXATTR,
		.getxattr = { sname("user.small"), 100 } });
	cr_assert_arr_eq(SRES(&call, 0, getxattr).data.bytes, small, 100);
	FAILS(NODATA, &client.root, { .code = RF_OP_GETXATTR,
		.getxattr = { sname("user.none"), 100 } });

	cr_assert_eq(sslots(&client, 1, 65536, &slot), 1);
	buf = rf_pool_get(rig.pool, 1 << 20);
	memcpy(buf->mem, large, sizeof(large));
	args.setxattr.name = sname("user.large");
	args.setxattr.pieces = (rf_pieces_t){ 1, { { slot.id, sizeof(large),
		rf_crc32c(0, large, sizeof(large)) } } };
	scall_init(&call, &client);
	scall_add(&call, &use_root);
	scall_add(&call, &args);
	scall_fill(&call, &slot, buf, sizeof(large));
	call.call.inv_key = slot.rkey;
	call.call.identity = 1;
	scall_submit(&call);
	scall_wait(&call);
	cr_assert_eq(call.results[1].status, RF_ST_OK, "%s",
		     rf_status_name(call.results[1].status));
	cr_assert_eq(SRES(&call, 0, setxattr).rearmed.count, 1);
	rf_pool_put(buf);

	OK(&client.root, { .code = RF_OP_GETXATTR,
		.getxattr = { sname("user.large"), 65536 } });
	cr_assert_eq(SRES(&call, 0, getxattr).value_size, sizeof(large));
	cr_assert_eq(SRES(&call, 0, getxattr).grants.count, 1);
	cr_assert_eq(sfetch(&client, &SRES(&call, 0, getxattr).grants.v[0],
			    out), 0);
	rf_client_return_grant(client.client,
			       SRES(&call, 0, getxattr).grants.v[0].id);
	cr_assert_arr_eq(out, large, sizeof(large));
	OK(&client.root, { .code = RF_OP_LISTXATTR, .listxattr = { 1000 } });
	cr_assert_eq(SRES(&call, 0, listxattr).value_size,
		     sizeof("user.small") + sizeof("user.large"));
	OK(&client.root, { .code = RF_OP_REMOVEXATTR,
			   .removexattr = { sname("user.small") } });
	FAILS(NODATA, &client.root, { .code = RF_OP_REMOVEXATTR,
		.removexattr = { sname("user.small") } });
	end();
}

SCENARIO(statfs_tells_of_the_store)
{
	begin(scheme);
	OK(&client.root, { .code = RF_OP_STATFS });
	cr_assert_eq(SRES(&call, 0, statfs).name_max, 255);
	cr_assert_gt(SRES(&call, 0, statfs).blocks, 0);
	end();
}

/* ---- data --------------------------------------------------------------- */

SCENARIO(appends_go_to_the_end_wherever_they_say)
{
	rf_handle_t handle;
	uint32_t open;
	char out[20];

	begin(scheme);
	handle = smake(&client, "a", RW, &open);
	OK(&handle, OP_WRITE(open, 0, 0, "01234", 5));
	OK(&handle, OP_WRITE(open, 2, RF_WRITE_APPEND, "56789", 5));
	cr_assert_eq(SRES(&call, 0, write).offset, 5);
	cr_assert_eq(sread(&client, &handle, open, 0, 20, out), 10);
	cr_assert_arr_eq(out, "0123456789", 10);
	end();
}

SCENARIO(a_write_that_stays_inside_does_not_grow_the_file)
{
	rf_handle_t handle;
	uint64_t change;
	uint32_t open;
	char out[20];

	begin(scheme);
	handle = smake(&client, "a", RW, &open);
	OK(&handle, OP_WRITE(open, 0, 0, "01234", 5));
	OK(&handle, OP_WRITE(open, 3, RF_WRITE_INSIDE, "abcd", 4));
	cr_assert_eq(SRES(&call, 0, write).size, 4);
	cr_assert_eq(SRES(&call, 0, write).attr.size, 5);
	change = SRES(&call, 0, write).attr.change;
	OK(&handle, OP_WRITE(open, 5, RF_WRITE_INSIDE, "efg", 3));
	cr_assert_eq(SRES(&call, 0, write).size, 3);
	cr_assert_eq(SRES(&call, 0, write).attr.size, 5);
	cr_assert_eq(SRES(&call, 0, write).change_before, change);
	cr_assert_eq(SRES(&call, 0, write).attr.change, change);
	cr_assert_eq(sread(&client, &handle, open, 0, 20, out), 5);
	cr_assert_arr_eq(out, "012ab", 5);
	FAILS(INVAL, &handle,
	      OP_WRITE(open, 0, RF_WRITE_INSIDE | RF_WRITE_APPEND, "x", 1));
	end();
}

SCENARIO(appends_in_flight_do_not_overwrite_each_other)
{
	enum { APPENDS = 12, SIZE = 4000 };
	static struct scall calls[APPENDS];
	static uint8_t data[APPENDS][SIZE], out[APPENDS * SIZE];
	bool seen[APPENDS] = { false };
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = smake(&client, "a", RW, &open);
	for (unsigned int i = 0; i < APPENDS; i++) {
		const struct rf_args use = { .code = RF_OP_USE,
					     .use = { handle } };
		const struct rf_args args = OP_WRITE(open, 0, RF_WRITE_APPEND,
						     data[i], SIZE);

		memset(data[i], (int)('a' + i), SIZE);
		scall_init(&calls[i], &client);
		scall_add(&calls[i], &use);
		scall_add(&calls[i], &args);
		calls[i].call.identity = 1;
		scall_submit(&calls[i]);
	}
	for (unsigned int i = 0; i < APPENDS; i++) {
		uint64_t at;

		scall_wait(&calls[i]);
		cr_assert_eq(calls[i].results[1].status, RF_ST_OK);
		at = SRES(&calls[i], 0, write).offset;
		cr_assert_eq(at % SIZE, 0);
		cr_assert_not(seen[at / SIZE]);
		seen[at / SIZE] = true;
	}
	cr_assert_eq(sread(&client, &handle, open, 0, sizeof(out), out),
		     sizeof(out));
	for (unsigned int i = 0; i < APPENDS; i++)
		cr_assert_arr_eq(out + SRES(&calls[i], 0, write).offset,
				 data[i], SIZE);
	end();
}

SCENARIO(a_gap_reads_as_zeroes)
{
	static uint8_t out[300000], zero[300000];
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = smake(&client, "a", RW, &open);
	OK(&handle, OP_WRITE(open, 299999, 0, "x", 1));
	cr_assert_eq(sread(&client, &handle, open, 0, sizeof(out), out),
		     sizeof(out));
	cr_assert_arr_eq(out, zero, 299999);
	cr_assert_eq(out[299999], 'x');
	cr_assert_eq(sread(&client, &handle, open, 300000, 10, out), 0);
	end();
}

SCENARIO(reads_and_writes_know_their_bounds)
{
	rf_handle_t handle;
	uint32_t open;
	static uint8_t data[4097];

	begin(scheme);
	handle = smake(&client, "a", RW, &open);
	FAILS(INVAL, &handle, OP_READ(open, 0, (1 << 20) + 1));
	FAILS(INVAL, &handle, OP_READ(open, 0, 0));
	FAILS(INVAL, &handle, OP_READ(open, UINT64_MAX - 5, 10));
	FAILS(FBIG, &handle, OP_WRITE(open, UINT64_MAX / 4, 0, data, 1));
	FAILS(FBIG, &handle, OP_WRITE(open, UINT64_MAX - 1, 0, data, 4000));
	OK(&handle, OP_WRITE(open, 0, 0, data, 0));
	OK(&handle, { .code = RF_OP_GETATTR });
	cr_assert_eq(SRES(&call, 0, getattr).attr.size, 0);
	end();
}

SCENARIO(an_open_gives_its_rights_and_no_more)
{
	rf_handle_t handle, other;
	uint32_t both, reader, writer, other_open;

	begin(scheme);
	handle = smake(&client, "a", RW, &both);
	other = smake(&client, "b", RW, &other_open);
	OK(&handle, OP_OPEN(RF_OPEN_READ));
	reader = SRES(&call, 0, open).open;
	OK(&handle, OP_OPEN(RF_OPEN_WRITE));
	writer = SRES(&call, 0, open).open;
	FAILS(BADF, &handle, OP_WRITE(reader, 0, 0, "x", 1));
	FAILS(BADF, &handle, OP_READ(writer, 0, 1));
	FAILS(BADF, &handle, OP_READ(0, 0, 1));
	FAILS(BADF, &handle, OP_READ(other_open, 0, 1));
	FAILS(BADF, &other, OP_READ(reader, 0, 1));
	FAILS(BADF, &handle, OP_READ(0x77770001, 0, 1));
	FAILS(BADF, &other, OP_RELEASE(reader));
	OK(&handle, OP_RELEASE(reader));
	FAILS(BADF, &handle, OP_READ(reader, 0, 1));
	FAILS(BADF, &handle, OP_RELEASE(reader));
	FAILS(INVAL, &handle, OP_OPEN(0));
	FAILS(ISDIR, &client.root, OP_OPEN(RF_OPEN_WRITE));
	FAILS(NOTDIR, &handle, OP_OPEN(RF_OPEN_READ | RF_OPEN_DIR));
	end();
}

SCENARIO(an_open_outlives_chmod_and_unlink)
{
	rf_handle_t handle;
	uint32_t open;
	char out[8];

	begin(scheme);
	OK(&client.root, { .code = RF_OP_SETATTR,
		.setattr = { .valid = RF_SET_MODE, .mode = 0777 } });
	cr_assert_eq(SRUN(&client, &call, 2, &client.root,
			  OP_CREATE("a", RW)), RF_ST_OK);
	handle = SRES(&call, 0, create).handle;
	open = SRES(&call, 0, create).open;
	OK(&handle, { .code = RF_OP_SETATTR,
		      .setattr = { .valid = RF_SET_MODE, .mode = 0 } });
	OK(&client.root, OP_UNLINK("a"));
	cr_assert_eq(SRUN(&client, &call, 2, &handle,
			  OP_WRITE(open, 0, 0, "still", 5)), RF_ST_OK);
	cr_assert_eq(sread(&client, &handle, open, 0, 8, out), 5);
	OK(&handle, OP_RELEASE(open));
	FAILS(STALE, &handle, { .code = RF_OP_GETATTR });
	end();
}

SCENARIO(permissions_are_asked_of_who_asks)
{
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = smake(&client, "a", RW, &open);
	cr_assert_eq(SRUN(&client, &call, 2, &handle, OP_OPEN(RF_OPEN_READ)),
		     RF_ST_OK);
	cr_assert_eq(SRUN(&client, &call, 2, &handle, OP_OPEN(RF_OPEN_WRITE)),
		     RF_ST_ACCESS);
	cr_assert_eq(SRUN(&client, &call, 2, &client.root,
			  OP_CREATE("b", RW)), RF_ST_ACCESS);
	cr_assert_eq(SRUN(&client, &call, 2, &handle, { .code = RF_OP_SETATTR,
		.setattr = { .valid = RF_SET_MODE, .mode = 0777 } }),
		RF_ST_PERM);
	cr_assert_eq(SRUN(&client, &call, 9, &client.root, OP_LOOKUP("a")),
		     RF_ST_INVAL);
	cr_assert_eq(SRUN(&client, &call, 0, &client.root, OP_LOOKUP("a")),
		     RF_ST_INVAL);
	cr_assert_eq(SRUN(&client, &call, 1, &client.root, { .code =
		RF_OP_IDENTITY, .identity = { .index = 1024 } }), RF_ST_INVAL);
	end();
}

SCENARIO(fallocate_makes_room_holes_and_zeroes)
{
	static uint8_t data[70000], out[70000], zero[70000];
	rf_handle_t handle;
	uint32_t open;

#define OP_FALLOC(m, at, n) { .code = RF_OP_FALLOCATE, \
	.fallocate = { open, m, at, n } }
	begin(scheme);
	handle = smake(&client, "a", RW, &open);
	OK(&handle, OP_FALLOC(RF_FALLOC_KEEP_SIZE, 0, 10000));
	cr_assert_eq(SRES(&call, 0, fallocate).attr.size, 0);
	OK(&handle, OP_FALLOC(0, 0, sizeof(data)));
	cr_assert_eq(SRES(&call, 0, fallocate).attr.size, sizeof(data));
	spattern(data, sizeof(data), 3);
	cr_assert_eq(swrite(&client, &handle, open, 0, data, sizeof(data)),
		     RF_ST_OK);
	OK(&handle, OP_FALLOC(RF_FALLOC_PUNCH | RF_FALLOC_KEEP_SIZE, 8192,
			      8192));
	cr_assert_eq(SRES(&call, 0, fallocate).attr.size, sizeof(data));
	cr_assert_eq(sread(&client, &handle, open, 0, sizeof(out), out),
		     sizeof(out));
	cr_assert_arr_eq(out, data, 8192);
	cr_assert_arr_eq(out + 8192, zero, 8192);
	cr_assert_arr_eq(out + 16384, data + 16384, sizeof(out) - 16384);
	FAILS(OPNOTSUPP, &handle, OP_FALLOC(RF_FALLOC_PUNCH, 0, 1));
	FAILS(INVAL, &handle, OP_FALLOC(0, 0, 0));
	FAILS(FBIG, &handle, OP_FALLOC(0, UINT64_MAX - 1, 10));
#undef OP_FALLOC
	end();
}

SCENARIO(seeking_finds_data_and_holes)
{
	static uint8_t data[4096];
	rf_handle_t handle;
	uint32_t open;

#define OP_SEEK(at, w) { .code = RF_OP_LSEEK, .lseek = { open, at, w } }
	begin(scheme);
	handle = smake(&client, "a", RW, &open);
	memset(data, 1, sizeof(data));
	OK(&handle, OP_WRITE(open, 1 << 20, 0, data, 4096));
	OK(&handle, OP_SEEK(0, 0));
	cr_assert_eq(SRES(&call, 0, lseek).offset, 1 << 20);
	OK(&handle, OP_SEEK(0, 1));
	cr_assert_eq(SRES(&call, 0, lseek).offset, 0);
	OK(&handle, OP_SEEK(1 << 20, 1));
	cr_assert_eq(SRES(&call, 0, lseek).offset, (1 << 20) + 4096);
	FAILS(NXIO, &handle, OP_SEEK(1 << 21, 0));
#undef OP_SEEK
	end();
}

SCENARIO(a_copy_is_made_on_the_server)
{
	static uint8_t data[200000], out[300000];
	rf_handle_t from, to;
	uint32_t from_open, to_open;

#define OP_COPY(h, o, at, so, sat, n) { .code = RF_OP_COPY, \
	.copy = { o, at, h, so, sat, n } }
	begin(scheme);
	from = smake(&client, "a", RW, &from_open);
	to = smake(&client, "b", RW, &to_open);
	spattern(data, sizeof(data), 5);
	cr_assert_eq(swrite(&client, &from, from_open, 0, data, sizeof(data)),
		     RF_ST_OK);
	OK(&to, OP_COPY(from, to_open, 1000, from_open, 500, 1 << 30));
	cr_assert_eq(SRES(&call, 0, copy).size, sizeof(data) - 500);
	cr_assert_eq(SRES(&call, 0, copy).attr.size, sizeof(data) + 500);
	cr_assert_eq(sread(&client, &to, to_open, 1000, sizeof(out), out),
		     sizeof(data) - 500);
	cr_assert_arr_eq(out, data + 500, sizeof(data) - 500);
	OK(&to, OP_COPY(from, to_open, 0, from_open, sizeof(data), 10));
	cr_assert_eq(SRES(&call, 0, copy).size, 0);
	OK(&from, OP_COPY(from, from_open, 200000, from_open, 0, 200000));
	cr_assert_eq(SRES(&call, 0, copy).attr.size, 400000);
	FAILS(INVAL, &from, OP_COPY(from, from_open, 10, from_open, 0, 20));
	FAILS(BADF, &to, OP_COPY(from, to_open, 0, to_open, 0, 20));
#undef OP_COPY
	end();
}

SCENARIO(a_rename_over_a_file_keeps_the_new_data)
{
	static uint8_t data[100000], out[100000];
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	smake(&client, "old", RW, &open);
	handle = smake(&client, "new", RW, &open);
	spattern(data, sizeof(data), 6);
	cr_assert_eq(swrite(&client, &handle, open, 0, data, sizeof(data)),
		     RF_ST_OK);
	OK(&client.root, OP_RENAME("new", client.root, "old", 0));
	OK(&client.root, OP_LOOKUP("old"));
	cr_assert_eq(SRES(&call, 0, lookup).handle.inode, handle.inode);
	cr_assert_eq(sread(&client, &handle, open, 0, sizeof(out), out),
		     sizeof(out));
	cr_assert_arr_eq(out, data, sizeof(out));
	end();
}

/* The wait of the last operation must not undo the first. */
SCENARIO(a_message_that_must_wait_after_a_change_runs_again_as_a_whole)
{
	static uint8_t data[4096];
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	smake(&client, "old", RW, &open);
	handle = smake(&client, "new", RW, &open);
	OK(&handle, OP_WRITE(open, 0, 0, data, sizeof(data)));
	OK(&client.root, OP_MKDIR("d"), OP_CREATE("d2", RW),
	   { .code = RF_OP_USE, .use = { client.root } },
	   { .code = RF_OP_LOOKUP, .lookup = { sname("d") } },
	   { .code = RF_OP_USE, .use = { client.root } });
	FAILS(NOTDIR, &client.root, OP_MKDIR("e"), OP_OPEN(RF_OPEN_READ),
	      { .code = RF_OP_USE, .use = { client.root } },
	      OP_RENAME("new", client.root, "old", 0),
	      OP_LOOKUP("old"), OP_LOOKUP("x"));
	cr_assert_gt(rig.server->figures.rewinds, 0);
	cr_assert_eq(SRES(&call, 4, lookup).handle.inode, handle.inode);
	OK(&client.root, OP_LOOKUP("e"));
	cr_assert_eq(sclient_session(&client)->opens.count, 4);
	end();
}

/* ---- many at once ---------------------------------------------------------- */

/* Writes that grow a file, out of order, by two sessions, some of them large
 * enough for workers: each must find the others' bytes where they were put. */
SCENARIO(growing_writes_in_flight_all_land)
{
	enum { WRITES = 24, SIZE = 4000, STEP = 100000 };
	static struct scall calls[WRITES];
	static uint8_t data[WRITES][SIZE], out[SIZE], zero[STEP];
	static struct sclient second;
	struct sclient *who[2] = { &client, &second };
	rf_handle_t handle;
	uint32_t opens[2], size;

	begin(scheme);
	sclient_open(&rig, &second, "data");
	handle = smake(&client, "a", RW, &opens[0]);
	cr_assert_eq(SRUN(&second, &call, 1, &handle, OP_OPEN(RW)), RF_ST_OK);
	opens[1] = SRES(&call, 0, open).open;
	for (unsigned int i = 0; i < WRITES; i++) {
		const struct rf_args use = { .code = RF_OP_USE,
					     .use = { handle } };
		/* 7 and 24 have no common divisor. */
		const struct rf_args write = OP_WRITE(opens[i % 2],
			(uint64_t)(i * 7 % WRITES) * STEP, 0, data[i], SIZE);
		const struct rf_args cut = OP_SIZE(opens[i % 2],
			(uint64_t)WRITES * STEP);

		spattern(data[i], SIZE, i);
		scall_init(&calls[i], who[i % 2]);
		scall_add(&calls[i], &use);
		scall_add(&calls[i], i == WRITES / 2 ? &cut : &write);
		calls[i].call.identity = 1;
		scall_submit(&calls[i]);
	}
	for (unsigned int i = 0; i < WRITES; i++) {
		scall_wait(&calls[i]);
		cr_assert_eq(calls[i].results[1].status, RF_ST_OK);
	}
	for (unsigned int i = 0; i < WRITES; i++) {
		uint64_t at = (uint64_t)(i * 7 % WRITES) * STEP;

		size = sread(&client, &handle, opens[0], at, SIZE, out);
		cr_assert_eq(size, SIZE);
		cr_assert(memcmp(out, i == WRITES / 2 ? zero : data[i],
				 SIZE) == 0, "write %u", i);
	}
	sclient_bye(&second);
	end();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that fails below the store (bad_disk.h): who hears of it, what is never
 * acknowledged, and what is there when the disk is well again.
 */
#define SUITE server_disk
#include "tests/unit/server_ops.h"

#include "tests/preload/bad_disk.h"

#include "storage-server/store_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIZE = 3000, LARGE = 200000 };

#define OP_ALLOCATE(o, n) { .code = RF_OP_FALLOCATE, .fallocate = { o, 0, 0, n } }
#define OP_XATTR(n, v, s) { .code = RF_OP_SETXATTR, \
	.setxattr = { .name = sname(n), .data = { v, s } } }
#define OP_GETATTR { .code = RF_OP_GETATTR }

TestSuite(SUITE, .timeout = 120);

static uint8_t data[LARGE], out[LARGE];

static rf_handle_t make_filled(const char *name, uint32_t *open)
{
	rf_handle_t handle = smake(&client, name, RW, open);

	spattern(data, SIZE, 7);
	cr_assert_eq(swrite(&client, &handle, *open, 0, data, SIZE), RF_ST_OK);
	return handle;
}

static void is_filled(const rf_handle_t *handle, uint32_t open)
{
	spattern(data, SIZE, 7);
	cr_assert_eq(sread(&client, handle, open, 0, sizeof(out), out), SIZE);
	cr_assert_arr_eq(out, data, SIZE);
}

/* The disk is well, and the server is started again; nobody comes back to it. */
static void restart(void)
{
	rf_client_abort(client.client);
	srig_until(&rig, client.closed);
	srig_stop(&rig);
	bad_disk_set("");
	srig_start(&rig);
	while (!rf_list_is_empty(&rig.server->sessions))
		session_expire(rf_container_of(rig.server->sessions.next,
					       struct session, link), NULL);
	sclient_open(&rig, &client, "data");
	srig_until(&rig, !rig.server->is_record_syncing);
}

static uint32_t open_again(const rf_handle_t *handle)
{
	OK(handle, OP_OPEN(RW));
	return SRES(&call, 0, open).open;
}

/* ---- the log ------------------------------------------------------------- */

/* All changes are refused, all else goes on. */
static void is_read_only(const rf_handle_t *handle, uint32_t open)
{
	static const uint8_t text[] = "text";
	uint32_t other;

	FAILS(ROFS, &client.root, OP_MKDIR("e"));
	FAILS(ROFS, &client.root, OP_CREATE("e", RW));
	FAILS(ROFS, &client.root, OP_UNLINK("a"));
	FAILS(ROFS, &client.root, OP_RENAME("a", client.root, "e", 0));
	FAILS(ROFS, handle, OP_WRITE(open, 0, 0, text, 4));
	FAILS(ROFS, handle, OP_SIZE(open, 1));
	FAILS(ROFS, handle, OP_OPEN(RW));
	FAILS(ROFS, handle, OP_OPEN(RF_OPEN_READ | RF_OPEN_TRUNC));
	FAILS(IO, handle, OP_FSYNC(open));
	OK(&client.root, OP_LOOKUP("a"));
	OK(handle, OP_OPEN(RF_OPEN_READ));
	other = SRES(&call, 0, open).open;
	is_filled(handle, other);
	OK(handle, OP_RELEASE(other));
	is_filled(handle, open);
	OK(&client.root, { .code = RF_OP_STATFS });
}

static void is_well_again(const rf_handle_t *handle)
{
	uint32_t open = open_again(handle);

	is_filled(handle, open);
	OK(&client.root, OP_MKDIR("new"));
	OK(handle, OP_FSYNC(open));
}

Test(SUITE, a_change_that_the_log_did_not_take_is_not_acknowledged)
{
	rf_handle_t handle;
	uint32_t open;

	begin("loop");
	handle = make_filled("a", &open);
	bad_disk_set("write /meta/ EIO\n");
	FAILS(IO, &client.root, OP_MKDIR("d"));
	cr_assert_gt(bad_disk_failures(), 0);
	bad_disk_set("");
	is_read_only(&handle, open);
	restart();
	FAILS(NOENT, &client.root, OP_LOOKUP("d"));
	is_well_again(&handle);
	end();
}

Test(SUITE, a_log_on_a_full_disk_cuts_no_file_half)
{
	rf_handle_t handle;
	uint32_t open, size;

	begin("loop");
	handle = make_filled("a", &open);
	bad_disk_set("write /meta/ ENOSPC\n");
	FAILS(IO, &handle, OP_SIZE(open, 10));
	bad_disk_set("");
	restart();
	/* The old file or the new one. */
	open = open_again(&handle);
	OK(&handle, OP_GETATTR);
	size = (uint32_t)SRES(&call, 0, getattr).attr.size;
	cr_assert(size == 10 || size == SIZE, "%u", size);
	cr_assert_eq(sread(&client, &handle, open, 0, SIZE, out), size);
	cr_assert_arr_eq(out, data, size);
	end();
}

/* The kernel says it once; what was not synced then is not believed later. */
Test(SUITE, a_log_that_was_not_synced_is_never_believed_again)
{
	rf_handle_t handle;
	uint32_t open;

	begin("loop");
	handle = make_filled("a", &open);
	bad_disk_set("sync /meta/ EIO 0 1\n");
	FAILS(IO, &handle, OP_FSYNC(open));
	cr_assert_eq(bad_disk_failures(), 1);
	is_read_only(&handle, open);
	restart();
	is_well_again(&handle);
	end();
}

/* Answers of one turn: those that changed something fail, the others do not. */
Test(SUITE, each_answer_that_waits_for_the_log_is_taken_back)
{
	enum { COUNT = 6 };
	static struct scall calls[COUNT];
	rf_handle_t handle;
	uint32_t open;

	begin("loop");
	handle = make_filled("a", &open);
	is_filled(&handle, open);
	bad_disk_set("write /meta/ EIO\n");
	for (unsigned int i = 0; i < COUNT; i++) {
		const char name[2] = { (char)('k' + i), 0 };
		const struct rf_args make = OP_MKDIR(name);
		const struct rf_args look = OP_GETATTR;

		scall_init(&calls[i], &client);
		calls[i].call.identity = 1;
		scall_add(&calls[i], &(struct rf_args){
			.code = RF_OP_USE, .use = { client.root } });
		/* A question, and a change: only from there on it fails. */
		scall_add(&calls[i], &look);
		if (i % 2)
			scall_add(&calls[i], &make);
		scall_submit(&calls[i]);
	}
	for (unsigned int i = 0; i < COUNT; i++) {
		struct scall *one = &calls[i];

		scall_wait(one);
		cr_assert_eq(one->err, 0);
		cr_assert_eq(one->results[1].status, RF_ST_OK);
		cr_assert_eq(one->count, i % 2 ? 3 : 2);
		if (i % 2)
			cr_assert(one->results[2].status == RF_ST_IO ||
				  one->results[2].status == RF_ST_ROFS);
	}
	cr_assert_eq(calls[1].results[2].status, RF_ST_IO);
	restart();
	for (unsigned int i = 1; i < COUNT; i += 2) {
		const char name[2] = { (char)('k' + i), 0 };

		FAILS(NOENT, &client.root, OP_LOOKUP(name));
	}
	end();
}

/*
 * What the engine could not do beside the writers: tables, compactions.  Some writes
 * of tables go well first, so that the error is met here or there.
 */
static void tables_fail(const char *error, unsigned int skip)
{
	enum { VALUE = 30000, MOST = 6000 };
	unsigned int status = RF_ST_OK, made = 0;
	rf_handle_t handle;
	char rule[64];
	uint32_t open;

	srig_init(&rig, "loop");
	srig_set(&rig, "inline-max", "32768");
	srig_start(&rig);
	sclient_open(&rig, &client, "data");
	srig_until(&rig, !rig.server->is_record_syncing);
	handle = make_filled("a", &open);
	snprintf(rule, sizeof(rule), "write .sst %s %u\n", error, skip);
	bad_disk_set(rule);
	spattern(data, VALUE, 1);
	/* Until a table is full, and the next batch meets the error. */
	while (made < MOST && status == RF_ST_OK) {
		data[0] = (uint8_t)made;
		status = DO(&handle, OP_XATTR("user.x", data, VALUE));
		made += status == RF_ST_OK;
	}
	printf("%s", rule);
	printf("%u changes, %u failures\n", made, bad_disk_failures());
	fflush(stdout);
	cr_assert_gt(bad_disk_failures(), 0);
	cr_assert_eq(status, RF_ST_IO, "after %u: %s", made,
		     rf_status_name(status));
	is_read_only(&handle, open);
	restart();
	/* Nothing acknowledged is lost: the last value is that of made - 1. */
	OK(&handle, { .code = RF_OP_GETXATTR,
		      .getxattr = { sname("user.x"), VALUE } });
	cr_assert_eq(((const uint8_t *)
		      SRES(&call, 0, getxattr).data.bytes)[0],
		     (uint8_t)(made - 1));
	is_well_again(&handle);
	end();
}

Test(SUITE, tables_that_cannot_be_written_end_the_changes)
{
	tables_fail("EIO", 0);
	tables_fail("EIO", 5);
}

Test(SUITE, tables_on_a_full_disk_end_the_changes)
{
	tables_fail("ENOSPC", 0);
	tables_fail("ENOSPC", 3);
}

Test(SUITE, nobody_new_comes_while_the_log_has_failed)
{
	static struct sclient other;
	rf_handle_t handle;
	uint32_t open;

	begin("loop");
	handle = make_filled("a", &open);
	bad_disk_set("write /meta/ EIO\n");
	FAILS(IO, &client.root, OP_MKDIR("d"));
	bad_disk_set("");
	sclient_init(&rig, &other, "data");
	sclient_connect(&other);
	cr_assert(other.closed);
	cr_assert_not_null(strstr(other.reason, "disk of the server"), "%s",
			   other.reason);
	is_read_only(&handle, open);
	restart();
	end();
}

/* It may come back after a power cut, for all that is known. */
Test(SUITE, one_whose_end_was_not_synced_keeps_its_locks)
{
	static struct sclient away;
	struct rf_args lock = { .code = RF_OP_LOCK, .lock = {
		.owner = 7, .flags = RF_LOCK_EXCLUSIVE, .end = 9 } };
	rf_handle_t handle;
	uint32_t open;

	srig_init(&rig, "loop");
	srig_set(&rig, "lease-ms", "300");
	srig_start(&rig);
	sclient_open(&rig, &client, "data");
	sclient_open(&rig, &away, "data");
	handle = make_filled("a", &open);
	cr_assert_eq(SRUN(&away, &call, 1, &handle, OP_OPEN(RW), lock),
		     RF_ST_OK);
	lock.lock.open = open;
	lock.lock.wait = 5;
	lock.lock.flags |= RF_LOCK_WAIT;
	OK(&handle, lock);
	srig_until(&rig, !rig.server->is_record_syncing);
	bad_disk_set("sync /meta/ EIO\n");
	sclient_lose(&away);
	srig_until(&rig, rig.server->figures.expired == 1);
	srig_until(&rig, store_has_failed(rig.server->store));
	srig_until(&rig, rig.server->store->sync.pending == 0);
	OK(&handle, { .code = RF_OP_CANCEL_LOCK, .cancel_lock = { 5 } });
	cr_assert_eq(SRES(&call, 0, cancel_lock).status, RF_ST_CANCELED);
	restart();
	is_well_again(&handle);
	end();
}

/* ---- data files ---------------------------------------------------------- */

Test(SUITE, a_write_that_fails_says_how)
{
	static const struct {
		const char *rule;
		unsigned int status;
	} cases[] = {
		{ "write /data/ EIO\n", RF_ST_IO },
		{ "write /data/ ENOSPC\n", RF_ST_NOSPC },
		{ "write /data/ EROFS\n", RF_ST_ROFS },
		/* A part of it is stored, then none. */
		{ "write /data/ short 0 1\n", RF_ST_OK },
	};
	static const uint8_t text[] = "text";
	rf_handle_t handle;
	uint32_t open;

	begin("loop");
	handle = make_filled("a", &open);
	for (unsigned int i = 0; i < RF_ARRAY_SIZE(cases); i++) {
		unsigned int status;

		bad_disk_set(cases[i].rule);
		status = swrite(&client, &handle, open, SIZE, text, 4);
		cr_assert_eq(bad_disk_failures(), 1, "%s", cases[i].rule);
		bad_disk_set("");
		cr_assert_eq(status, cases[i].status, "%s", cases[i].rule);
		OK(&handle, OP_GETATTR);
		cr_assert_eq(SRES(&call, 0, getattr).attr.size,
			     status == RF_ST_OK ? SIZE + 4 : SIZE);
	}
	cr_assert_eq(sread(&client, &handle, open, SIZE, 10, out), 4);
	cr_assert_arr_eq(out, text, 4);
	OK(&client.root, OP_MKDIR("the rest goes on"));
	end();
}

Test(SUITE, a_write_that_stored_a_part_leaves_nothing_of_it)
{
	rf_handle_t handle;
	uint32_t open;

	begin("loop");
	handle = make_filled("a", &open);
	spattern(data, SIZE, 8);
	bad_disk_set("write /data/ short 0 1\nwrite /data/ EIO\n");
	/* The first rule counts until it is used up. */
	cr_assert_eq(swrite(&client, &handle, open, SIZE, data, SIZE),
		     RF_ST_OK);
	bad_disk_set("write /data/ EIO 1\n");
	cr_assert_eq(swrite(&client, &handle, open, 2 * SIZE, data, SIZE),
		     RF_ST_OK);
	cr_assert_eq(swrite(&client, &handle, open, 3 * SIZE, data, SIZE),
		     RF_ST_IO);
	bad_disk_set("");
	OK(&handle, OP_SIZE(open, 4 * SIZE));
	cr_assert_eq(sread(&client, &handle, open, 3 * SIZE, SIZE, out), SIZE);
	for (unsigned int i = 0; i < SIZE; i++)
		cr_assert_eq(out[i], 0);
	end();
}

Test(SUITE, a_read_that_fails_is_an_error_and_no_zeroes)
{
	rf_handle_t handle;
	uint32_t open;

	begin("loop");
	handle = make_filled("a", &open);
	bad_disk_set("read /data/ EIO\n");
	FAILS(IO, &handle, OP_READ(open, 0, 100));
	bad_disk_set("");
	is_filled(&handle, open);
	end();
}

Test(SUITE, a_data_file_that_cannot_be_opened_fails_its_user)
{
	static const uint8_t text[] = "text";
	rf_handle_t handle;
	uint32_t open;

	begin("loop");
	handle = smake(&client, "a", RW, &open);
	bad_disk_set("open /data/ EIO\n");
	FAILS(IO, &handle, OP_WRITE(open, 0, 0, text, 4));
	bad_disk_set("open /data/ EMFILE\n");
	FAILS(MFILE, &handle, OP_WRITE(open, 0, 0, text, 4));
	bad_disk_set("");
	OK(&handle, OP_WRITE(open, 0, 0, text, 4));
	end();
}

Test(SUITE, an_allocation_that_fails_changes_nothing)
{
	rf_handle_t handle;
	uint32_t open;

	begin("loop");
	handle = make_filled("a", &open);
	bad_disk_set("allocate /data/ EIO\n");
	FAILS(IO, &handle, OP_ALLOCATE(open, LARGE));
	bad_disk_set("allocate /data/ ENOSPC\n");
	FAILS(NOSPC, &handle, OP_ALLOCATE(open, LARGE));
	bad_disk_set("");
	is_filled(&handle, open);
	end();
}

/* It has happened for all who look; the rest goes before the file grows. */
Test(SUITE, a_cut_that_the_disk_refuses_is_one_all_the_same)
{
	rf_handle_t handle;
	uint32_t open;

	begin("loop");
	handle = make_filled("a", &open);
	bad_disk_set("truncate /data/ EIO\n");
	OK(&handle, OP_SIZE(open, 10));
	cr_assert_gt(bad_disk_failures(), 0);
	FAILS(IO, &handle, OP_SIZE(open, SIZE));
	bad_disk_set("");
	OK(&handle, OP_SIZE(open, SIZE));
	cr_assert_eq(sread(&client, &handle, open, 0, SIZE, out), SIZE);
	cr_assert_arr_eq(out, data, 10);
	for (unsigned int i = 10; i < SIZE; i++)
		cr_assert_eq(out[i], 0);
	end();
}

static bool is_deleting(void)
{
	return rig.server->store->deletions.is_running;
}

/* The name goes, and the bytes at the next start. */
Test(SUITE, a_data_file_that_cannot_be_removed_is_removed_later)
{
	char path[DATA_PATH_SIZE];
	rf_handle_t handle;
	uint32_t open;

	begin("loop");
	handle = make_filled("a", &open);
	OK(&handle, OP_RELEASE(open));
	bad_disk_set("unlink /data/ EIO\n");
	OK(&client.root, OP_UNLINK("a"));
	srig_until(&rig, bad_disk_failures() > 0 && !is_deleting());
	data_path(handle.inode, path);
	cr_assert_eq(faccessat(rig.server->store->data_fd, path, F_OK, 0), 0);
	restart();
	srig_until(&rig, !is_deleting());
	cr_assert_eq(faccessat(rig.server->store->data_fd, path, F_OK, 0), -1);
	end();
}

/* Not its fault: another inode's sync goes well in the same round. */
Test(SUITE, a_failed_sync_is_told_to_its_file_alone)
{
	rf_handle_t one, other;
	uint32_t open, other_open;
	char rule[64];

	begin("loop");
	one = make_filled("a", &open);
	other = make_filled("b", &other_open);
	snprintf(rule, sizeof(rule), "sync %016llx EIO 0 1\n",
		 (unsigned long long)one.inode);
	bad_disk_set(rule);
	OK(&other, OP_FSYNC(other_open));
	FAILS(IO, &one, OP_FSYNC(open));
	OK(&client.root, OP_MKDIR("the rest goes on"));
	/* Told, and written again: it may be believed again. */
	OK(&one, OP_FSYNC(open));
	end();
}

Test(SUITE, a_rename_does_not_trust_data_that_were_not_synced)
{
	rf_handle_t handle;
	uint32_t open;

	begin("loop");
	make_filled("a", &open);
	handle = make_filled("a.new", &open);
	bad_disk_set("sync /data/ EIO 0 1\n");
	FAILS(IO, &client.root, OP_RENAME("a.new", client.root, "a", 0));
	bad_disk_set("");
	OK(&client.root, OP_LOOKUP("a.new"));
	cr_assert_eq(SRES(&call, 0, lookup).attr.inode, handle.inode);
	end();
}

/*
 * Two have the file open, one is told, and then the server is started again: what
 * the kernel holds is not what is on the platter, so all are told.
 */
Test(SUITE, the_next_start_does_not_trust_the_cache)
{
	rf_handle_t handle;
	uint32_t open;

	begin("loop");
	handle = make_filled("a", &open);
	bad_disk_set("sync /data/ EIO 0 1\n");
	FAILS(IO, &handle, OP_FSYNC(open));
	restart();
	cr_assert(store_lost_power(rig.server->store));
	restart();
	cr_assert(!store_lost_power(rig.server->store));
	end();
}

/* ---- the start ----------------------------------------------------------- */

Test(SUITE, a_store_on_a_bad_disk_does_not_open_and_is_not_harmed)
{
	static const char *const rules[] = {
		"open /meta/MANIFEST EIO\n", "read .sst EIO\n",
		"write /meta/ EIO\n", "sync /meta/ EIO\n", "open /lock EROFS\n",
		"write /meta/ ENOSPC\n", "open /meta/ EMFILE\n",
	};
	rf_handle_t handle;
	uint32_t open;

	begin("loop");
	handle = make_filled("a", &open);
	OK(&client.root, OP_MKDIR("d"));
	sclient_bye(&client);
	srig_stop(&rig);
	for (unsigned int i = 0; i < RF_ARRAY_SIZE(rules); i++) {
		bad_disk_set(rules[i]);
		cr_assert_lt(server_create(&rig.config, rig.reactor,
					   &rig.server), 0, "%s", rules[i]);
		rig.server = NULL;
		cr_assert_gt(bad_disk_failures(), 0, "%s", rules[i]);
		bad_disk_set("");
		srig_start(&rig);
		sclient_open(&rig, &client, "data");
		srig_until(&rig, !rig.server->is_record_syncing);
		open = open_again(&handle);
		is_filled(&handle, open);
		OK(&client.root, OP_LOOKUP("d"));
		sclient_bye(&client);
		srig_stop(&rig);
	}
	srig_close(&rig);
}

/* ---- any call, at any time ----------------------------------------------- */

enum sweep_state { ABSENT, PRESENT, EITHER };

enum { SWEEP_NAMES = 24, SWEEP_CALLS = 160 };

struct sweep {
	enum sweep_state names[SWEEP_NAMES];
	bool is_written[SWEEP_NAMES];
};

static void sweep_name(unsigned int i, char name[16])
{
	snprintf(name, 16, "name%u", i);
}

/* What is known of it after an answer. */
static void note_change(struct sweep *sweep, unsigned int i,
			enum sweep_state wanted, unsigned int status)
{
	if (status == RF_ST_OK)
		sweep->names[i] = wanted;
	else if (status == RF_ST_IO)
		sweep->names[i] = EITHER;
	else
		cr_assert(status == RF_ST_ROFS, "%s", rf_status_name(status));
}

static void sweep_one(struct sweep *sweep, unsigned int i)
{
	unsigned int status;
	rf_handle_t handle;
	uint32_t open;
	char name[16];

	sweep_name(i, name);
	status = DO(&client.root, OP_CREATE(name, RW));
	note_change(sweep, i, PRESENT, status);
	if (status != RF_ST_OK)
		return;
	handle = SRES(&call, 0, create).handle;
	open = SRES(&call, 0, create).open;
	spattern(data, SIZE, i);
	sweep->is_written[i] =
		swrite(&client, &handle, open, 0, data, SIZE) == RF_ST_OK;
	if (i % 3 == 0)
		DO(&handle, OP_FSYNC(open));
	DO(&handle, OP_RELEASE(open));
	if (i % 4 == 3) {
		sweep_name(i - 1, name);
		status = DO(&client.root, OP_UNLINK(name));
		if (status == RF_ST_NOENT)
			cr_assert_neq(sweep->names[i - 1], PRESENT);
		else
			note_change(sweep, i - 1, ABSENT, status);
	}
}

static void sweep_check(const struct sweep *sweep, unsigned int i)
{
	unsigned int status;
	rf_handle_t handle;
	char name[16];

	sweep_name(i, name);
	status = DO(&client.root, OP_LOOKUP(name));
	if (sweep->names[i] == PRESENT)
		cr_assert_eq(status, RF_ST_OK, "%s is lost", name);
	if (sweep->names[i] == ABSENT)
		cr_assert_eq(status, RF_ST_NOENT, "%s is back", name);
	if (status != RF_ST_OK || !sweep->is_written[i])
		return;
	handle = SRES(&call, 0, lookup).handle;
	cr_assert_eq(sread(&client, &handle, open_again(&handle), 0, SIZE, out),
		     SIZE);
	spattern(data, SIZE, i);
	cr_assert_arr_eq(out, data, SIZE, "%s", name);
}

/* It hits once, or the disk is gone from then on. */
static void sweep_round(unsigned int place, bool is_for_ever)
{
	struct sweep sweep = { 0 };
	char rule[128];

	snprintf(rule, sizeof(rule), "any %s%s EIO %u%s\n", rig.dir,
		 getenv("LONG") ? "" : "/data/", place, is_for_ever ? "" : " 1");
	fprintf(stderr, "BAD_DISK_PLACE=%u: %s", place, rule);
	bad_disk_set(rule);
	for (unsigned int i = 0; i < SWEEP_NAMES; i++)
		sweep_one(&sweep, i);
	restart();
	for (unsigned int i = 0; i < SWEEP_NAMES; i++) {
		char name[16];

		sweep_check(&sweep, i);
		sweep_name(i, name);
		DO(&client.root, OP_UNLINK(name));
	}
}

/*
 * Some places, of data files; BAD_DISK_PLACE: that one.  LONG=1: each, also of the
 * engine's files, whose library may then end the process (engine_rocksdb.c).
 */
Test(SUITE, nothing_acknowledged_is_lost_wherever_the_disk_fails,
     .timeout = 280)
{
	enum { ROUNDS = 6 };
	const char *given = getenv("BAD_DISK_PLACE");
	unsigned int step = getenv("LONG") ? 1 : SWEEP_CALLS / ROUNDS;
	unsigned int first;

	rf_random(&first, sizeof(first));
	first = given ? (unsigned int)atoi(given) : first % step;
	begin("loop");
	for (unsigned int i = first; i < SWEEP_CALLS; i += step) {
		sweep_round(i, i / step % 2);
		if (given)
			sweep_round(i, !(i / step % 2));
		if (given)
			break;
	}
	end();
}

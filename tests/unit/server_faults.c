/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_faults.c - each operation beside each fault: what it answers and what it
 * leaves is what it would have been without one
 *
 * A cell of the matrix is one operation in a directory of its own, and a fault in
 * the middle of it.  First all operations run without a fault: that is the serial
 * oracle.  Time is virtual, the server and its client are the real ones.
 */
#include "tests/common/fault_client.h"

#include "libproto/loop.h"
#include "libproto/rpc_impl.h"
#include "storage-server/store_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

TestSuite(server_faults, .timeout = 580);

enum fault {
	NO_FAULT,
	DROP_REQUEST,
	DROP_REPLY,
	TWICE,			/* the request, on one connection */
	RESTART_UNSENT,		/* it never arrived */
	RESTART_UNWRITTEN,	/* committed, and not in the log yet */
	RESTART_WRITTEN,	/* in the log, and not answered */
	RESTART_ANSWERED,
	FAULTS,
};

static const char *const fault_names[FAULTS] = {
	"no fault", "request dropped", "reply dropped", "request sent twice",
	"restart, request not arrived", "restart before the log was written",
	"restart before the answer left", "restart after the answer",
};

enum {
	CASES_MAX = 96,
	FILE_SIZE = 3000,
	BIG_SIZE = 70000,	/* by a slot, and by grants */
	RW = RF_OPEN_READ | RF_OPEN_WRITE,
};

/* ---- the place of a cell ------------------------------------------------ */

struct scene {
	struct fclient *client;
	rf_handle_t dir, file, big, link, sub;
	uint32_t file_open, big_open, dir_open;
	struct fc_open file_proof;
	struct fc_aliases aliases;
};

static uint8_t bytes[BIG_SIZE];

static struct srig rig;
static struct fclient client;
static struct scene scene;

/* One message without a fault, that succeeds. */
static void must(struct fop *fop, const rf_handle_t *on, struct rf_args args)
{
	*fop = (struct fop){ .on = *on, .count = 1, .args = { args } };
	cr_assert_eq(fclient_run(&client, fop), RF_ST_OK, "%s: %s",
		     rf_op_name(args.code), rf_status_name(fop_status(fop)));
}

static void must_only(const rf_handle_t *on, struct rf_args args)
{
	struct fop fop;

	must(&fop, on, args);
	fop_fini(&fop);
}

static struct rf_args create(const char *name)
{
	return (struct rf_args){ .code = RF_OP_CREATE,
				 .create = { sname(name), 0644, RW, 0 } };
}

static rf_handle_t make_file(const char *name, uint32_t *open,
			     struct fc_open *proof)
{
	struct fop fop;
	rf_handle_t handle;

	must(&fop, &scene.dir, create(name));
	handle = fop_handle(&fop);
	*open = fop.results[0].create.open;
	if (proof)
		*proof = *fop_open(&fop);
	fop_fini(&fop);
	return handle;
}

static rf_handle_t make_other(struct rf_args args)
{
	struct fop fop;
	rf_handle_t handle;

	must(&fop, &scene.dir, args);
	handle = fop_handle(&fop);
	fop_fini(&fop);
	return handle;
}

static void fill_big(void)
{
	struct fop fop = { .on = scene.big, .count = 1, .by_slot = true,
			   .args = { { .code = RF_OP_WRITE,
				       .write = { .open = scene.big_open,
						  .data = { bytes,
							    BIG_SIZE } } } } };

	cr_assert_eq(fclient_run(&client, &fop), RF_ST_OK);
	fop_fini(&fop);
}

static void set_scene(unsigned int number)
{
	struct rf_args mkdir = { .code = RF_OP_MKDIR,
				 .mkdir = { .mode = 0755 } };
	uint32_t open;
	char name[32];
	struct fop fop;

	scene = (struct scene){ .client = &client };
	snprintf(name, sizeof(name), "cell%u", number);
	mkdir.mkdir.name = sname(name);
	must(&fop, &client.base.root, mkdir);
	scene.dir = fop_handle(&fop);
	fop_fini(&fop);
	scene.file = make_file("file", &scene.file_open, &scene.file_proof);
	must_only(&scene.file, (struct rf_args){ .code = RF_OP_WRITE,
		.write = { .open = scene.file_open,
			   .data = { bytes, FILE_SIZE } } });
	must_only(&scene.file, (struct rf_args){ .code = RF_OP_SETXATTR,
		.setxattr = { .name = sname("user.a"),
			      .data = { "value", 5 } } });
	scene.big = make_file("big", &scene.big_open, NULL);
	fill_big();
	for (unsigned int i = 0; i < 2; i++) {
		const rf_handle_t made = make_file(i ? "y" : "x", &open, NULL);

		must_only(&made, (struct rf_args){ .code = RF_OP_RELEASE,
						   .release = { open } });
	}
	mkdir.mkdir.name = sname("sub");
	scene.sub = make_other(mkdir);
	scene.link = make_other((struct rf_args){ .code = RF_OP_SYMLINK,
		.symlink = { sname("link"), { "target", 6 } } });
	must(&fop, &scene.dir, (struct rf_args){ .code = RF_OP_OPEN,
		.open = { RF_OPEN_READ | RF_OPEN_DIR } });
	scene.dir_open = fop.results[0].open.open;
	fop_fini(&fop);
}

static void close_one(const rf_handle_t *handle, uint32_t open)
{
	struct fop fop = { .on = *handle, .count = 1, .args = { {
		.code = RF_OP_RELEASE, .release = { open } } } };

	fclient_run(&client, &fop);	/* BADF: it was the cell's operation */
	fop_fini(&fop);
}

/* ---- the operations ----------------------------------------------------- */

struct test_case {
	const char *what;
	struct fop fop;
};

static struct test_case cases[CASES_MAX];
static unsigned int case_count;

static struct fop *add(const char *what, const rf_handle_t *on,
		       struct rf_args args)
{
	struct test_case *it = &cases[case_count++];

	cr_assert_leq(case_count, CASES_MAX);
	*it = (struct test_case){ .what = what,
				  .fop = { .count = 1, .args = { args } } };
	if (on)
		it->fop.on = *on;
	return &it->fop;
}

static void then(struct fop *fop, struct rf_args args)
{
	cr_assert_lt(fop->count, FOP_OPS_MAX);
	fop->args[fop->count++] = args;
}

#define ADD(what, on, NAME, lower, ...)					\
	add(what, on, (struct rf_args){ .code = RF_OP_##NAME,		\
					.lower = { __VA_ARGS__ } })
#define THEN(fop, NAME, lower, ...)					\
	then(fop, (struct rf_args){ .code = RF_OP_##NAME,		\
				    .lower = { __VA_ARGS__ } })
#define PLAIN(NAME) ((struct rf_args){ .code = RF_OP_##NAME })

static void add_names(void)
{
	const rf_handle_t *dir = &scene.dir, *file = &scene.file;

	ADD("LOOKUP", dir, LOOKUP, lookup, sname("file"));
	ADD("LOOKUP of nothing", dir, LOOKUP, lookup, sname("none"));
	ADD("CREATE", dir, CREATE, create, sname("new"), 0640,
	    RW | RF_OPEN_EXCL, 022);
	ADD("CREATE of what is there", dir, CREATE, create, sname("x"), 0640,
	    RW, 022);
	ADD("CREATE that cuts", dir, CREATE, create, sname("file"), 0640,
	    RW | RF_OPEN_TRUNC, 022);
	ADD("CREATE without a name", dir, CREATE, create, sname("any"), 0600,
	    RW | RF_OPEN_NO_NAME, 022);
	ADD("CREATE that fails", dir, CREATE, create, sname("x"), 0640,
	    RW | RF_OPEN_EXCL, 022);
	ADD("MKDIR", dir, MKDIR, mkdir, sname("newdir"), 0750, 022);
	ADD("MKNOD", dir, MKNOD, mknod, sname("fifo"), S_IFIFO | 0600, 0, 0);
	ADD("SYMLINK", dir, SYMLINK, symlink, sname("sym"), { "where", 5 });
	add("READLINK", &scene.link, PLAIN(READLINK));
	ADD("LINK", file, LINK, link, *dir, sname("second"));
	ADD("UNLINK", dir, UNLINK, unlink, sname("x"));
	ADD("UNLINK of an open file", dir, UNLINK, unlink, sname("file"));
	ADD("RMDIR", dir, RMDIR, rmdir, sname("sub"));
	ADD("RMDIR that fails", dir, RMDIR, rmdir, sname("none"));
	ADD("RENAME", dir, RENAME, rename, sname("x"), *dir, sname("z"), 0);
	ADD("RENAME over a file", dir, RENAME, rename, sname("x"), *dir,
	    sname("y"), 0);
	ADD("RENAME over an open file", dir, RENAME, rename, sname("x"), *dir,
	    sname("file"), 0);
	ADD("RENAME, exchange", dir, RENAME, rename, sname("x"), *dir,
	    sname("file"), RF_RENAME_EXCHANGE);
	ADD("RENAME, no replace", dir, RENAME, rename, sname("x"), *dir,
	    sname("y"), RF_RENAME_NOREPLACE);
	ADD("RENAME into a directory", dir, RENAME, rename, sname("file"),
	    scene.sub, sname("there"), 0);
}

static void add_attributes(void)
{
	const rf_handle_t *file = &scene.file;

	add("GETATTR", file, PLAIN(GETATTR));
	ADD("SETATTR of the mode", file, SETATTR, setattr,
	    .valid = RF_SET_MODE, .mode = 04711);
	ADD("SETATTR of the owner", file, SETATTR, setattr,
	    .valid = RF_SET_UID | RF_SET_GID, .uid = 7, .gid = 8);
	ADD("SETATTR of the times", file, SETATTR, setattr,
	    .valid = RF_SET_ATIME | RF_SET_MTIME_NOW, .atime = { 5, 6 });
	ADD("truncate to less", file, SETATTR, setattr, .valid = RF_SET_SIZE,
	    .open = scene.file_open, .size = 100);
	ADD("truncate to more", file, SETATTR, setattr, .valid = RF_SET_SIZE,
	    .size = 9000);
	ADD("GETXATTR", file, GETXATTR, getxattr, sname("user.a"), 100);
	ADD("GETXATTR of its size", file, GETXATTR, getxattr, sname("user.a"),
	    0);
	ADD("SETXATTR", file, SETXATTR, setxattr, .name = sname("user.b"),
	    .flags = RF_XATTR_CREATE, .data = { "another", 7 });
	ADD("SETXATTR by a slot", file, SETXATTR, setxattr,
	    .name = sname("user.big"), .flags = RF_XATTR_CREATE,
	    .data = { bytes, 20000 })->by_slot = true;
	ADD("LISTXATTR", file, LISTXATTR, listxattr, 1000);
	ADD("REMOVEXATTR", file, REMOVEXATTR, removexattr, sname("user.a"));
	ADD("REMOVEXATTR that fails", file, REMOVEXATTR, removexattr,
	    sname("user.none"));
}

static void add_data(void)
{
	const rf_handle_t *file = &scene.file, *big = &scene.big;
	uint32_t open = scene.file_open;

	ADD("READ", file, READ, read, open, 10, 1000);
	ADD("READ by grants", big, READ, read, scene.big_open, 10, BIG_SIZE);
	ADD("READ beyond the end", file, READ, read, open, 1 << 20, 1000);
	ADD("WRITE", file, WRITE, write, .open = open, .offset = 5,
	    .data = { "new", 3 });
	ADD("WRITE beyond the end", file, WRITE, write, .open = open,
	    .offset = 20000, .data = { "far", 3 });
	ADD("WRITE by a slot", file, WRITE, write, .open = open, .offset = 1,
	    .data = { bytes, 60000 })->by_slot = true;
	ADD("append", file, WRITE, write, .open = open,
	    .flags = RF_WRITE_APPEND, .data = { "tail", 4 });
	ADD("append by a slot", file, WRITE, write, .open = open,
	    .flags = RF_WRITE_APPEND, .data = { bytes, 50000 })->by_slot = true;
	ADD("durable append", file, WRITE, write, .open = open,
	    .flags = RF_WRITE_APPEND | RF_WRITE_SYNC, .data = { "safe", 4 });
	ADD("WRITE that fails", file, WRITE, write, .open = 0xffff,
	    .data = { "new", 3 });
	ADD("FSYNC", file, FSYNC, fsync, open, 0);
	ADD("FALLOCATE", file, FALLOCATE, fallocate, open, 0, 0, 10000);
	ADD("punch", file, FALLOCATE, fallocate, open,
	    RF_FALLOC_PUNCH | RF_FALLOC_KEEP_SIZE, 100, 1000);
	ADD("zero", file, FALLOCATE, fallocate, open, RF_FALLOC_ZERO, 2000,
	    5000);
	ADD("LSEEK", file, LSEEK, lseek, open, 10, 1);
	ADD("COPY", file, COPY, copy, .open = open, .offset = 500,
	    .source = *big, .source_open = scene.big_open,
	    .source_offset = 7, .size = 40000);
	ADD("COPY in one file", big, COPY, copy, .open = scene.big_open,
	    .offset = 40000, .source = *big, .source_open = scene.big_open,
	    .source_offset = 7, .size = 30000);
	ADD("READDIR", &scene.dir, READDIR, readdir, scene.dir_open, 0, 4096,
	    0);
	ADD("READDIR with attributes", &scene.dir, READDIR, readdir,
	    scene.dir_open, 0, 65536, 1);
}

static void add_opens(void)
{
	const rf_handle_t *file = &scene.file;

	ADD("OPEN", file, OPEN, open, RW);
	ADD("OPEN that cuts", file, OPEN, open, RW | RF_OPEN_TRUNC);
	ADD("OPEN of a directory", &scene.dir, OPEN, open,
	    RF_OPEN_READ | RF_OPEN_DIR);
	ADD("OPEN that fails", &scene.link, OPEN, open, RW);
	ADD("RELEASE", file, RELEASE, release, scene.file_open);
	ADD("RECLAIM", NULL, RECLAIM, reclaim, scene.file, scene.file_open,
	    scene.file_proof.flags, scene.file_proof.tag);
	ADD("RECLAIM that fails", NULL, RECLAIM, reclaim, scene.file,
	    scene.file_open, RW, 1);
	add("RECLAIM_DONE", NULL, PLAIN(RECLAIM_DONE));
	ADD("LOCK", file, LOCK, lock, .open = scene.file_open, .owner = 9,
	    .flags = RF_LOCK_EXCLUSIVE, .end = 9);
	ADD("UNLOCK", file, UNLOCK, unlock, .owner = 9, .end = 9);
	ADD("TEST_LOCK", file, TEST_LOCK, test_lock, .open = scene.file_open,
	    .owner = 9, .end = 9);
	ADD("CANCEL_LOCK", NULL, CANCEL_LOCK, cancel_lock, 5);
	ADD("LOCK_EVENTS", NULL, LOCK_EVENTS, lock_events, 0);
}

static void add_rest(void)
{
	add("NOP", NULL, PLAIN(NOP));
	add("USE", &scene.file, PLAIN(NOP));
	add("STATFS", &scene.dir, PLAIN(STATFS));
	ADD("IDENTITY", NULL, IDENTITY, identity, .index = 3, .uid = 5);
	ADD("SLOTS", NULL, SLOTS, slots, 1, 4096);
	ADD("DROP_SLOTS", NULL, DROP_SLOTS, drop_slots, { "\1\0\0\0", 4 });
	ADD("CANCEL", NULL, CANCEL, cancel, 77);
}

/* Several in one message: all of it once, or as far as it came. */
static void add_lists(void)
{
	struct fop *fop;

	fop = add("a file with data", &scene.dir, create("made"));
	THEN(fop, WRITE, write, .data = { bytes, 2000 });
	THEN(fop, SETATTR, setattr, .valid = RF_SET_MODE, .mode = 0400);
	THEN(fop, RELEASE, release, 0);
	fop = add("open, unlinked, written", &scene.dir, create("temporary"));
	THEN(fop, WRITE, write, .data = { bytes, 1000 });
	THEN(fop, USE, use, scene.dir);
	THEN(fop, UNLINK, unlink, sname("temporary"));
	fop = ADD("a list that fails half way", &scene.dir, MKDIR, mkdir,
		  sname("first"), 0755, 0);
	THEN(fop, USE, use, scene.dir);
	THEN(fop, RMDIR, rmdir, sname("none"));
	THEN(fop, MKDIR, mkdir, sname("never"), 0755, 0);
	fop = ADD("open and read by grants", &scene.dir, LOOKUP, lookup,
		  sname("big"));
	THEN(fop, OPEN, open, RF_OPEN_READ);
	THEN(fop, READ, read, 0, 0, BIG_SIZE);
	THEN(fop, GETATTR, getattr, );
	fop = add("write by a slot, then truncate", &scene.file,
		  (struct rf_args){ .code = RF_OP_WRITE,
			.write = { .open = scene.file_open, .offset = 8,
				   .data = { bytes, 30000 } } });
	fop->by_slot = true;
	fop = ADD("two files cut", &scene.file, SETATTR, setattr,
		  .valid = RF_SET_SIZE, .size = 10);
	THEN(fop, USE, use, scene.big);
	THEN(fop, SETATTR, setattr, .valid = RF_SET_SIZE, .size = 20);
	THEN(fop, GETATTR, getattr, );
	fop = ADD("append twice and sync", &scene.file, WRITE, write,
		  .open = scene.file_open, .flags = RF_WRITE_APPEND,
		  .data = { "one", 3 });
	THEN(fop, WRITE, write, .open = scene.file_open,
	     .flags = RF_WRITE_APPEND, .data = { "two", 3 });
	THEN(fop, FSYNC, fsync, scene.file_open, 1);
}

static void make_cases(void)
{
	case_count = 0;
	add_names();
	add_attributes();
	add_data();
	add_opens();
	add_rest();
	add_lists();
}

/* ---- a cell ------------------------------------------------------------- */

static uint64_t requests_before;

/* All that it has to do is done, and the log may not have been written yet. */
static bool has_run(struct srig *it)
{
	return it->server->figures.requests > requests_before &&
	       it->server->active == 0;
}

static void turn(void)
{
	cr_assert(srig_turn(&rig), "nothing is left to happen");
	fclient_step(&client);
}

static void cut(void)
{
	cr_assert_gt(rf_loop_cut(rig.world, NULL, NULL, RF_LOOP_CUT_RESET), 0);
}

static void restart(void)
{
	srig_kill(&rig);
	srig_start(&rig);
}

/* The request is on its way, and nothing of it has arrived. */
static void strike(const struct rf_call *call, enum fault fault)
{
	switch (fault) {
	case DROP_REQUEST:
		cut();
		break;
	case DROP_REPLY:
		while (!has_run(&rig))
			turn();
		cut();
		break;
	case TWICE:
		cr_assert(fclient_duplicate(&client, call));
		break;
	case RESTART_UNSENT:
		restart();
		break;
	case RESTART_UNWRITTEN:
		rig.dies_if = has_run;
		while (!rig.is_dying)
			turn();
		restart();
		break;
	case RESTART_WRITTEN:
		while (!has_run(&rig))
			turn();
		restart();
		break;
	default:
		break;
	}
}

static void describe(const struct test_case *it, FILE *out)
{
	char text[FC_TEXT_SIZE];
	struct fop probe = { .on = scene.file, .count = 1, .args = { {
		.code = RF_OP_READ,
		.read = { scene.file_open, 0, 4096 } } } };
	struct store_stats stats;

	fop_describe(&it->fop, &scene.aliases, text);
	fprintf(out, "%s\n", text);
	fclient_run(&client, &probe);
	fop_describe(&probe, &scene.aliases, text);
	fprintf(out, "by the open: %s\n", text);
	fop_fini(&probe);
	fclient_walk(&client, &scene.dir, &scene.aliases, out);
	store_stats(rig.server->store, &stats);
	fprintf(out, "%llu orphans, %u opens of the file\n",
		(unsigned long long)stats.orphans,
		store_open_count(rig.server->store, scene.file.inode));
}

/* What the operation has opened is closed, so that cells don't add up. */
static void leave_scene(struct fop *fop)
{
	const struct fc_open *made = fop_open(fop);
	rf_handle_t handle;

	if (made) {
		handle = made->handle;
		close_one(&handle, made->id);
	}
	close_one(&scene.file, scene.file_open);
	close_one(&scene.big, scene.big_open);
	close_one(&scene.dir, scene.dir_open);
}

static char *run_cell(unsigned int number, enum fault fault)
{
	struct test_case *it = &cases[number];
	struct fop *fop = &it->fop;
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	set_scene(number);
	make_cases();
	if (getenv("RF_VERBOSE"))
		printf("%s\n", it->what);
	fflush(stdout);
	requests_before = rig.server->figures.requests;
	fop_start(&client, fop);
	while (fop->state == FOP_NEW || fop->state == FOP_ASKS_SLOT) {
		turn();
		requests_before = rig.server->figures.requests;
	}
	strike(&fop->call->call, fault);
	while (!fop_is_done(fop))
		turn();
	if (fault == RESTART_ANSWERED)
		restart();
	while (client.phase != FC_OPEN)
		turn();
	describe(it, out);
	leave_scene(fop);
	fop_fini(fop);
	fclose(out);
	return text;
}

static char *expected[CASES_MAX];

/* Under sanitizers each start takes long: a third of them, unless LONG is set. */
static bool is_left_out(unsigned int number, enum fault fault)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return fault >= RESTART_UNSENT && !getenv("LONG") &&
	       (number + fault) % 3 != 0;
#else
	(void)number;
	(void)fault;
	return false;
#endif
}

static void run_all(enum fault fault)
{
	printf("%s\n", fault_names[fault]);
	fflush(stdout);
	srig_open(&rig, "loop-virtual");
	fclient_open(&rig, &client);
	set_scene(CASES_MAX);
	make_cases();
	for (unsigned int i = 0; i < case_count; i++) {
		char *text;

		if (is_left_out(i, fault))
			continue;
		text = run_cell(i, fault);
		if (fault == NO_FAULT) {
			expected[i] = text;
			continue;
		}
		cr_assert_str_eq(text, expected[i], "%s, %s:\n%s\nwithout a "
				 "fault:\n%s", cases[i].what,
				 fault_names[fault], text, expected[i]);
		free(text);
	}
	fclient_close(&client);
	srig_close(&rig);
}

/* Without a fault, then with it. */
static void try_fault(enum fault fault)
{
	spattern(bytes, sizeof(bytes), 1);
	run_all(NO_FAULT);
	run_all(fault);
	printf("%u operations\n", case_count);
	for (unsigned int i = 0; i < case_count; i++)
		free(expected[i]);
}

#define FAULT(name, fault)						\
	Test(server_faults, name) { try_fault(fault); }

FAULT(a_request_that_was_dropped_is_done_once, DROP_REQUEST)
FAULT(a_request_whose_answer_was_dropped_is_done_once, DROP_REPLY)
FAULT(a_request_that_comes_twice_is_done_once, TWICE)
FAULT(a_request_that_a_dead_server_never_had_is_done_once, RESTART_UNSENT)
FAULT(a_request_that_was_not_in_the_log_is_done_once, RESTART_UNWRITTEN)
FAULT(a_request_that_was_in_the_log_is_done_once, RESTART_WRITTEN)
FAULT(a_request_that_was_answered_stays_done, RESTART_ANSWERED)

/* ---- BYE ---------------------------------------------------------------- */

static void nothing_is_left(void)
{
	struct store_stats stats;

	srig_until(&rig, rf_list_is_empty(&rig.server->sessions));
	store_stats(rig.server->store, &stats);
	cr_assert_eq(stats.orphans, 0);
	cr_assert_eq(store_open_count(rig.server->store, scene.file.inode), 0);
	cr_assert_eq(rig.server->locks.ranges.count, 0);
}

/* It ends the session that others would be compared in. */
static void say_bye(enum fault fault)
{
	struct rf_lock_args lock = { .open = scene.big_open, .owner = 9,
				     .flags = RF_LOCK_EXCLUSIVE, .end = 9 };

	must_only(&scene.dir, (struct rf_args){
		.code = RF_OP_UNLINK, .unlink = { sname("file") } });
	must_only(&scene.big, (struct rf_args){ .code = RF_OP_LOCK,
						.lock = lock });
	requests_before = rig.server->figures.requests;
	rf_client_bye(client.base.client);
	cr_assert_eq(client.base.client->state, RF_CLIENT_LEAVING);
	strike(&client.base.client->own_call, fault);
	while (!client.base.closed)
		cr_assert(srig_turn(&rig), "nothing is left to happen");
	if (fault == RESTART_ANSWERED)
		restart();
}

/* At once if the server has had it, else when the lease is over. */
Test(server_faults, bye_ends_all_of_it_whatever_comes)
{
	spattern(bytes, sizeof(bytes), 1);
	for (enum fault fault = NO_FAULT; fault < FAULTS; fault++) {
		printf("%s\n", fault_names[fault]);
		fflush(stdout);
		srig_open(&rig, "loop-virtual");
		fclient_open(&rig, &client);
		set_scene(0);
		say_bye(fault);
		if (fault == NO_FAULT || fault == DROP_REPLY || fault == TWICE)
			cr_assert_eq(rig.server->figures.lost, 0);
		nothing_is_left();
		restart();
		cr_assert(rf_list_is_empty(&rig.server->sessions),
			  "a session that has ended is back");
		nothing_is_left();
		free(client.call);
		free(client.events);
		srig_close(&rig);
	}
}

/* BYE has a test of its own; USE is in front of all. */
Test(server_faults, all_operations_are_tried)
{
	bool is_tried[64] = { [RF_OP_BYE] = true, [RF_OP_USE] = true };

	make_cases();
	for (unsigned int i = 0; i < case_count; i++)
		is_tried[cases[i].fop.args[0].code] = true;
	for (unsigned int code = 1; code < RF_ARRAY_SIZE(is_tried); code++)
		cr_assert(is_tried[code] || strcmp(rf_op_name(code), "?") == 0,
			  "%s", rf_op_name(code));
}

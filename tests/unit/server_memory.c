/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_memory.c - there is no memory: at the start, when a client comes, and in
 * the middle of its requests
 *
 * Each allocation of our own code in turn fails, once.  The program is linked with
 * --wrap=malloc and the like (Makefile), so libraries have what they ask for.
 */
#include "tests/common/server_rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

TestSuite(server_memory, .timeout = 280);

enum { MOST = 2000 };

/* ---- memory that is not there ------------------------------------------- */

static unsigned int fail_in;	/* allocations; 0: none fails */
static bool has_failed;

static bool fails(void)
{
	if (fail_in == 0 || --fail_in > 0)
		return false;
	has_failed = true;
	return true;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
	return fails() ? NULL : __real_calloc(count, size);
}

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size)
{
	return fails() ? NULL : __real_realloc(old, size);
}

static struct srig rig;

Test(server_memory, a_server_without_memory_does_not_start_and_says_so)
{
	unsigned int failed = 0;
	int err = -ENOMEM;

	/* The rig's own things, and the store. */
	srig_open(&rig, "loop-virtual");
	srig_stop(&rig);
	for (unsigned int i = 1; i < MOST && err; i++) {
		fail_in = i;
		has_failed = false;
		err = server_create(&rig.config, rig.reactor, &rig.server);
		fail_in = 0;
		if (err)
			rig.server = NULL;
		else
			cr_assert_not(has_failed, "allocation %u failed, and "
				      "nobody noticed", i);
		failed += has_failed;
	}
	cr_assert_eq(err, 0);
	cr_assert_gt(failed, 5);
	srig_close(&rig);
}

Test(server_memory, a_client_for_whom_there_is_no_memory_harms_nobody)
{
	struct sclient good, poor;
	unsigned int failed = 0;

	srig_open(&rig, "loop-virtual");
	sclient_open(&rig, &good, "data");
	has_failed = true;
	for (unsigned int i = 1; i < MOST && has_failed; i++) {
		uint32_t open;
		char name[16];

		has_failed = false;
		sclient_init(&rig, &poor, "data");
		fail_in = i;
		sclient_try(&poor);
		fail_in = 0;
		failed += has_failed;
		if (poor.opened && !poor.closed)
			sclient_bye(&poor);
		/* The other one goes on. */
		snprintf(name, sizeof(name), "f%u", i);
		smake(&good, name, RF_OPEN_READ, &open);
	}
	cr_assert_gt(failed, 3);
	cr_assert_not(has_failed);
	sclient_bye(&good);
	srig_close(&rig);
}

/* ---- requests ----------------------------------------------------------- */

enum {
	SIZE = 3000,		/* inside a message: the rig allocates for others */
	GROUPS = 100,
	OPENS = 200,		/* more than a table begins with */
	LARGE = 3500,
};

static struct scall call;
static uint8_t data[LARGE], out[LARGE];

/* It was done, or for want of memory it was not. */
static bool was_done(unsigned int status)
{
	cr_assert(status == RF_ST_OK || status == RF_ST_NOMEM ||
		  status == RF_ST_NOLCK || status == RF_ST_IO, "%s",
		  rf_status_name(status));
	return status == RF_ST_OK;
}

#define DO(on, ...) was_done(SRUN(client, &call, 1, &(on), __VA_ARGS__))

struct outcome {
	bool has_folder, has_file, is_written, has_value;
	rf_handle_t file;
};

static void lock(struct sclient *client, const rf_handle_t *file,
		 uint32_t open)
{
	if (!DO(*file, { .code = RF_OP_LOCK, .lock = {
		    .open = open, .owner = 1, .end = 9,
		    .flags = RF_LOCK_EXCLUSIVE } }))
		return;
	if (DO(*file, { .code = RF_OP_LOCK, .lock = {
		    .open = open, .owner = 2, .wait = 5, .end = 9,
		    .flags = RF_LOCK_EXCLUSIVE | RF_LOCK_WAIT } }))
		DO(*file, { .code = RF_OP_CANCEL_LOCK,
			    .cancel_lock = { 5 } });
	DO(*file, { .code = RF_OP_UNLOCK, .unlock = { 1, 0, 0, 9 } });
}

/* One of each kind that may need memory. */
static struct outcome run_requests(struct sclient *client)
{
	static uint32_t groups[GROUPS], opens[OPENS];
	struct outcome is = { 0 };
	unsigned int count = 0;

	DO(client->root, { .code = RF_OP_IDENTITY, .identity = {
		7, 1000, 1000, { groups, sizeof(groups) } } });
	is.has_folder = DO(client->root, { .code = RF_OP_MKDIR, .mkdir = {
		sname("sub"), 0755, 0 } });
	is.has_file = DO(client->root, { .code = RF_OP_CREATE, .create = {
		sname("file"), 0644, RF_OPEN_READ | RF_OPEN_WRITE, 0 } });
	if (!is.has_file)
		return is;
	is.file = SRES(&call, 0, create).handle;
	opens[count++] = SRES(&call, 0, create).open;
	is.is_written = DO(is.file, { .code = RF_OP_WRITE, .write = {
		.open = opens[0], .data = { data, SIZE } } });
	is.has_value = DO(is.file, { .code = RF_OP_SETXATTR, .setxattr = {
		.name = sname("user.a"), .data = { data, LARGE } } });
	while (count < OPENS) {
		if (DO(is.file, { .code = RF_OP_OPEN,
				  .open = { RF_OPEN_READ } }))
			opens[count++] = SRES(&call, 0, open).open;
	}
	lock(client, &is.file, opens[0]);
	DO(is.file, { .code = RF_OP_FSYNC, .fsync = { opens[0], 0 } });
	while (count > 0)
		cr_assert(DO(is.file, { .code = RF_OP_RELEASE,
					.release = { opens[--count] } }));
	return is;
}

#define IS_THERE(what) \
	(SRUN(client, &call, 1, &client->root, { .code = RF_OP_LOOKUP, \
		.lookup = { sname(what) } }) == RF_ST_OK)

static void check_outcome(struct sclient *client, const struct outcome *is)
{
	uint32_t open;

	cr_assert_eq(IS_THERE("sub"), is->has_folder);
	cr_assert_eq(IS_THERE("file"), is->has_file);
	if (!is->has_file)
		return;
	cr_assert(DO(is->file, { .code = RF_OP_OPEN,
				 .open = { RF_OPEN_READ } }));
	open = SRES(&call, 0, open).open;
	cr_assert_eq(sread(client, &is->file, open, 0, SIZE, out),
		     is->is_written ? SIZE : 0);
	if (is->is_written)
		cr_assert_arr_eq(out, data, SIZE);
	cr_assert(DO(is->file, { .code = RF_OP_RELEASE,
				 .release = { open } }));
	cr_assert_eq(SRUN(client, &call, 1, &is->file, {
			.code = RF_OP_GETXATTR,
			.getxattr = { sname("user.a"), LARGE } }) == RF_ST_OK,
		     is->has_value);
}

/* It says so and has not happened; all else goes on, and is there after a restart. */
Test(server_memory, a_request_without_memory_fails_alone)
{
	struct sclient one, *client = &one;
	unsigned int failed = 0;

	spattern(data, sizeof(data), 1);
	has_failed = true;
	for (unsigned int i = 1; i < MOST && has_failed; i++) {
		struct outcome is;

		srig_open(&rig, "loop-virtual");
		sclient_open(&rig, client, "data");
		has_failed = false;
		fail_in = i;
		is = run_requests(client);
		fail_in = 0;
		failed += has_failed;
		check_outcome(client, &is);
		sclient_bye(client);
		srig_stop(&rig);
		srig_start(&rig);
		sclient_open(&rig, client, "data");
		check_outcome(client, &is);
		sclient_bye(client);
		srig_close(&rig);
	}
	printf("%u allocations failed\n", failed);
	cr_assert_gt(failed, 3);
	cr_assert_not(has_failed);
}

/* ---- half of a message -------------------------------------------------- */

/* Is there a kept answer that tells of this open? */
static bool is_kept(struct sclient *client, uint32_t open)
{
	static uint8_t room[8192];

	for (uint16_t slot = 0; slot < client->reply.limits.slots; slot++) {
		const struct reply_key key = {
			.session = client->reply.session,
			.slot = slot,
		};
		struct reply_record record;

		if (store_find_reply(rig.server->store, &key, &record, room,
				     sizeof(room)) < 0)
			continue;
		for (unsigned int i = 0; i < record.open_count; i++)
			if (record.opens[i].open == open)
				return true;
	}
	return false;
}

#define MAKE(text) { .code = RF_OP_CREATE, .create = { \
	sname(text), 0644, RF_OPEN_READ, 0 } }
#define FOLDER(text) { .code = RF_OP_MKDIR, .mkdir = { sname(text), 0755, 0 } }
#define OPEN { .code = RF_OP_OPEN, .open = { RF_OPEN_READ } }

/*
 * Have the one allocation that the session's table of opens needs now and then
 * fail, in a CREATE that is the last of three operations.
 */
static void fail_late(struct sclient *client, const struct rf_args *first)
{
	const rf_handle_t *root = &client->root;

	for (unsigned int i = 0; ; i++) {
		unsigned int status;

		cr_assert_lt(i, MOST);
		fail_in = 1;
		status = SRUN(client, &call, 1, root, *first, {
				.code = RF_OP_USE, .use = { *root } },
			      MAKE("late"));
		fail_in = 0;
		if (status == RF_ST_NOMEM && call.count == 4)
			return;
		/* Not this time; and let it not be the first one's next time. */
		cr_assert_eq(SRUN(client, &call, 1, root, OPEN), RF_ST_OK);
		SRUN(client, &call, 1, root, { .code = RF_OP_UNLINK,
				.unlink = { sname("late") } });
		SRUN(client, &call, 1, root, { .code = RF_OP_RMDIR,
				.rmdir = { sname("folder") } });
	}
}

/*
 * A CREATE that fails for want of memory for its open leaves no file, and what
 * came before it in its message is there, and recorded with the answer.
 */
Test(server_memory, a_create_that_fails_late_fails_alone)
{
	const struct rf_args folder = FOLDER("folder"), open = OPEN;
	struct sclient one, *client = &one;
	uint32_t id;

	srig_open(&rig, "loop-virtual");
	sclient_open(&rig, client, "data");
	fail_late(client, &folder);
	cr_assert(IS_THERE("folder"));
	cr_assert_not(IS_THERE("late"));
	fail_late(client, &open);
	id = SRES(&call, 0, open).open;
	cr_assert_not(IS_THERE("late"));
	cr_assert(is_kept(client, id));
	sclient_bye(client);
	srig_close(&rig);
}

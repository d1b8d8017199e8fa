/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_resume.c - sessions that outlive their connection and their server: what
 * was done is done once, whatever is cut
 */
#include "tests/common/raw_session.h"

#include "libproto/loop.h"
#include "storage-server/exec.h"
#include "storage-server/store_impl.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#define SUITE server_resume
#include "tests/unit/server_ops.h"

static struct raws raws;
#define ROOT (&raws.reply.root)

/* How the connection ends, between a request and its resend. */
enum trouble { CUT, RESTART, TROUBLES };

static void begin_raw(const char *scheme)
{
	srig_open(&rig, scheme);
	raws_open(&rig, &raws);
}

static void end_raw(void)
{
	raws_cut(&raws);
	srig_close(&rig);
}

/* Resume, and if the server is another one register who we are again. */
static void come_back(enum trouble trouble)
{
	if (trouble == RESTART) {
		if (raws.ep)
			raws_cut(&raws);
		srig_stop(&rig);
		srig_start(&rig);
	}
	cr_assert_eq(raws_resume(&raws), RF_ST_OK);
	cr_assert_eq(!!(raws.resumed.flags & RF_RESUME_RESTARTED),
		     trouble == RESTART);
	cr_assert_eq(RAWS_RUN(&raws, RAWS_SLOTS, raws.epoch, NULL,
			      { .code = RF_OP_IDENTITY,
				.identity = { .index = 1 } }), RF_ST_OK);
}

static rf_handle_t make(const char *name, uint32_t flags, uint16_t slot,
			uint32_t seq, uint32_t *open, uint64_t *tag)
{
	cr_assert_eq(RAWS_RUN(&raws, slot, seq, ROOT, OP_CREATE(name, flags)),
		     RF_ST_OK);
	*open = RAWS_RES(&raws, 0, create).open;
	if (tag)
		*tag = RAWS_RES(&raws, 0, create).tag;
	return RAWS_RES(&raws, 0, create).handle;
}

static void reclaim(const rf_handle_t *handle, uint32_t open, uint32_t flags,
		    uint64_t tag, uint32_t seq, enum rf_status want)
{
	cr_assert_eq(RAWS_RUN(&raws, RAWS_SLOTS + 1, seq, NULL,
			      { .code = RF_OP_RECLAIM,
				.reclaim = { *handle, open, flags, tag } }),
		     want);
}

static void reclaim_done(uint32_t seq)
{
	cr_assert_eq(RAWS_RUN(&raws, RAWS_SLOTS + 1, seq, NULL,
			      { .code = RF_OP_RECLAIM_DONE }), RF_ST_OK);
}

/* ---- exactly once ------------------------------------------------------- */

/*
 * Each operation that changes something, such that a second run would show: it
 * fails, or changes something else.  "a" is a file with 10 bytes, open; "d" a
 * directory; "x" and "y" are files.
 */
struct once {
	const char *what;
	struct rf_args args;
	bool on_root;
};

enum { ONCE_MAX = 24 };
static struct once once[ONCE_MAX];
static unsigned int once_count;

static void add(const char *what, bool on_root, struct rf_args args)
{
	cr_assert_lt(once_count, ONCE_MAX);
	once[once_count++] = (struct once){ what, args, on_root };
}

static void fill_once(uint32_t open)
{
	once_count = 0;
	add("CREATE", true, (struct rf_args)
	    OP_CREATE("new", RW | RF_OPEN_EXCL));
	add("MKDIR", true, (struct rf_args)OP_MKDIR("newdir"));
	add("MKNOD", true, (struct rf_args){ .code = RF_OP_MKNOD,
	    .mknod = { sname("fifo"), 0010644, 0, 0 } });
	add("SYMLINK", true, (struct rf_args){ .code = RF_OP_SYMLINK,
	    .symlink = { sname("link"), { "target", 6 } } });
	add("LINK", false, (struct rf_args){ .code = RF_OP_LINK,
	    .link = { *ROOT, sname("second") } });
	add("UNLINK", true, (struct rf_args)OP_UNLINK("x"));
	add("RMDIR", true, (struct rf_args)OP_RMDIR("d"));
	add("RENAME", true, (struct rf_args)OP_RENAME("y", *ROOT, "z", 0));
	add("OPEN", false, (struct rf_args)OP_OPEN(RW));
	add("OPEN with TRUNC", false, (struct rf_args)
	    OP_OPEN(RW | RF_OPEN_TRUNC));
	add("WRITE", false, (struct rf_args)OP_WRITE(open, 3, 0, "old", 3));
	add("append", false, (struct rf_args)
	    OP_WRITE(open, 0, RF_WRITE_APPEND, "tail", 4));
	add("durable append", false, (struct rf_args)
	    OP_WRITE(open, 0, RF_WRITE_APPEND | RF_WRITE_SYNC, "sync", 4));
	add("SETATTR", false, (struct rf_args){ .code = RF_OP_SETATTR,
	    .setattr = { .valid = RF_SET_MODE, .mode = 0600 } });
	add("truncate", false, (struct rf_args)OP_SIZE(open, 2));
	add("FALLOCATE", false, (struct rf_args){ .code = RF_OP_FALLOCATE,
	    .fallocate = { open, 0, 0, 8192 } });
	add("COPY", false, (struct rf_args){ .code = RF_OP_COPY,
	    .copy = { .open = open, .offset = 100, .source_open = open,
		      .size = 2 } });
	add("SETXATTR", false, (struct rf_args){ .code = RF_OP_SETXATTR,
	    .setxattr = { sname("user.k"), RF_XATTR_CREATE,
			  .data = { "v", 1 } } });
	add("REMOVEXATTR", false, (struct rf_args){ .code = RF_OP_REMOVEXATTR,
	    .removexattr = { sname("user.k") } });
}

/* A number that changes with everything below the root that we care about. */
static uint64_t changes(const rf_handle_t *handle)
{
	struct txn *txn = txn_begin(rig.server->store);
	rf_attr_t root, file;

	cr_assert_eq(txn_getattr(txn, raws.reply.root.inode, &root), 0);
	cr_assert_eq(txn_getattr(txn, handle->inode, &file), 0);
	txn_abort(txn);
	return (root.change << 32) + file.change;
}

static void run_once(const struct once *it, rf_handle_t *handle, uint32_t seq,
		     enum trouble trouble, uint32_t open, uint64_t tag)
{
	static uint8_t first[RAWS_MSG_MAX];
	const rf_handle_t *on = it->on_root ? ROOT : handle;
	struct rf_args args = it->args;
	uint64_t before, requests;
	uint32_t size;

	if (args.code == RF_OP_COPY)
		args.copy.source = *handle;
	RAWS_LOSE(&raws, 1, seq, on, args);
	memcpy(first, raws.message, sizeof(first));
	before = changes(handle);
	come_back(trouble);
	if (trouble == RESTART) {
		reclaim(handle, open, RW, tag, 1, RF_ST_OK);
		reclaim_done(2);
	}
	requests = rig.server->figures.requests;
	cr_assert_eq(RAWS_RUN(&raws, 1, seq, on, args), RF_ST_OK, "%s: %s",
		     it->what,
		     rf_status_name(raws.results[raws.count - 1].status));
	cr_assert_eq(raws.count, 2);
	cr_assert_eq(rig.server->figures.requests, requests, "%s was run twice",
		     it->what);
	cr_assert_eq(changes(handle), before, "%s has changed it again",
		     it->what);
	/* The same answer as the first, but for the epoch. */
	size = rf_load_u32(first);
	if (rf_load_u32(first + 12) == seq && first[4] == RF_MSG_REPLY) {
		cr_assert_eq(raws.header.size, size);
		cr_assert_eq(memcmp(first + RF_HEADER_SIZE,
				    raws.message + RF_HEADER_SIZE,
				    size - RF_HEADER_SIZE), 0, "%s", it->what);
	}
	/* And again, as a duplicate on this connection. */
	cr_assert_eq(RAWS_RUN(&raws, 1, seq, on, args), RF_ST_OK);
	cr_assert_eq(changes(handle), before);
}

SCENARIO(a_request_whose_answer_was_lost_is_not_run_again)
{
	for (int trouble = CUT; trouble < TROUBLES; trouble++) {
		rf_handle_t handle;
		uint32_t open, other;
		uint64_t tag;

		begin_raw(scheme);
		handle = make("a", RW, 1, 1, &open, &tag);
		make("x", RW, 1, 2, &other, NULL);
		make("y", RW, 1, 3, &other, NULL);
		cr_assert_eq(RAWS_RUN(&raws, 1, 4, ROOT, OP_MKDIR("d")),
			     RF_ST_OK);
		cr_assert_eq(RAWS_RUN(&raws, 1, 5, &handle,
				      OP_WRITE(open, 0, 0, "0123456789", 10)),
			     RF_ST_OK);
		fill_once(open);
		for (unsigned int i = 0; i < once_count; i++)
			run_once(&once[i], &handle, 6 + i,
				 (enum trouble)trouble, open, tag);
		/* All that changes something was tried. */
		for (unsigned int code = 1; code < 64; code++) {
			bool is_tried = code == RF_OP_RELEASE;

			for (unsigned int i = 0; i < once_count; i++)
				is_tried |= once[i].args.code == code;
			cr_assert(is_tried || !rf_op_modifies(code), "%s",
				  rf_op_name(code));
		}
		end_raw();
	}
}

/* A power cut: the log tells of data that may be lost. */
SCENARIO(an_answer_that_is_in_doubt_does_not_say_durable)
{
	rf_handle_t handle;
	uint32_t open;

	begin_raw(scheme);
	handle = make("a", RW, 1, 1, &open, NULL);
	RAWS_LOSE(&raws, 2, 1, &handle,
		  OP_WRITE(open, 0, 0, "soft", 4),
		  OP_WRITE(open, 4, RF_WRITE_DSYNC, "hard", 4),
		  { .code = RF_OP_GETATTR });
	srig_stop(&rig);
	srig_start(&rig);
	raws_server_side(&raws)->is_doubtful = true;
	cr_assert_eq(raws_resume(&raws), RF_ST_OK);
	cr_assert_eq(RAWS_RUN(&raws, 2, 1, &handle, { .code = RF_OP_GETATTR }),
		     RF_ST_IO);
	cr_assert_eq(raws.count, 3);
	cr_assert_eq(RAWS_RES(&raws, 0, write).size, 4);
	cr_assert_eq(raws.results[2].code, RF_OP_WRITE);
	end_raw();
}

/* What has succeeded before an error is recorded with it. */
SCENARIO(a_list_that_failed_half_way_is_not_run_again)
{
	for (int trouble = CUT; trouble < TROUBLES; trouble++) {
		begin_raw(scheme);
		RAWS_LOSE(&raws, 2, 1, ROOT, OP_MKDIR("d"), OP_MKDIR("e"),
			  OP_RMDIR("none"));
		come_back((enum trouble)trouble);
		cr_assert_eq(RAWS_RUN(&raws, 2, 1, ROOT, OP_MKDIR("d")),
			     RF_ST_NOENT);
		cr_assert_eq(raws.results[1].status, RF_ST_OK);
		end_raw();
	}
}

/* One that has changed nothing may have another outcome the second time. */
SCENARIO(a_request_that_has_changed_nothing_is_run_when_it_is_sent_again)
{
	for (int trouble = CUT; trouble < TROUBLES; trouble++) {
		begin_raw(scheme);
		RAWS_LOSE(&raws, 2, 1, ROOT, OP_UNLINK("f"));
		come_back((enum trouble)trouble);
		cr_assert_eq(RAWS_RUN(&raws, 3, 1, ROOT, OP_CREATE("f", RW)),
			     RF_ST_OK);
		cr_assert_eq(RAWS_RUN(&raws, 2, 1, ROOT, OP_UNLINK("f")),
			     RF_ST_OK);
		cr_assert_eq(RAWS_RUN(&raws, 2, 2, ROOT, OP_LOOKUP("f")),
			     RF_ST_NOENT);
		end_raw();
	}
}

/* Drop the answer of write 1, resend it, write 2, and delay the resend. */
SCENARIO(a_write_that_is_sent_again_never_lands_after_a_newer_one)
{
	for (int trouble = CUT; trouble < TROUBLES; trouble++) {
		rf_handle_t handle;
		uint32_t open;
		uint64_t tag;

		begin_raw(scheme);
		handle = make("a", RW, 1, 1, &open, &tag);
		RAWS_LOSE(&raws, 2, 1, &handle,
			  OP_WRITE(open, 0, 0, "first", 5));
		come_back((enum trouble)trouble);
		if (trouble == RESTART)
			reclaim(&handle, open, RW, tag, 1, RF_ST_OK);
		cr_assert_eq(RAWS_RUN(&raws, 3, 1, &handle,
				      OP_WRITE(open, 0, 0, "newer", 5)),
			     RF_ST_OK);
		cr_assert_eq(RAWS_RUN(&raws, 2, 1, &handle,
				      OP_WRITE(open, 0, 0, "first", 5)),
			     RF_ST_OK);
		cr_assert_eq(RAWS_RUN(&raws, 3, 2, &handle,
				      OP_READ(open, 0, 10)), RF_ST_OK);
		cr_assert_eq(RAWS_RES(&raws, 0, read).data.size, 5);
		cr_assert_eq(memcmp(RAWS_RES(&raws, 0, read).data.bytes,
				    "newer", 5), 0);
		end_raw();
	}
}

/* ---- slots after RESUME ------------------------------------------------- */

SCENARIO(a_slot_goes_on_with_any_later_sequence_but_not_with_an_earlier)
{
	begin_raw(scheme);
	cr_assert_eq(RAWS_RUN(&raws, 1, 1, ROOT, OP_MKDIR("a")), RF_ST_OK);
	cr_assert_eq(RAWS_RUN(&raws, 1, 2, ROOT, OP_MKDIR("b")), RF_ST_OK);
	cr_assert_eq(RAWS_RUN(&raws, 1, 3, ROOT, OP_LOOKUP("b")), RF_ST_OK);
	raws_cut(&raws);
	come_back(CUT);
	cr_assert_eq(RAWS_RUN(&raws, 1, 9, ROOT, OP_MKDIR("c")), RF_ST_OK);
	cr_assert_eq(RAWS_RUN(&raws, 1, 10, ROOT, OP_MKDIR("d")), RF_ST_OK);
	/* One that never kept anything: all are later. */
	cr_assert_eq(RAWS_RUN(&raws, 5, 4000000000u, ROOT, OP_LOOKUP("a")),
		     RF_ST_OK);
	raws_cut(&raws);
	come_back(CUT);
	cr_assert_eq(RAWS_RUN(&raws, 1, 11, ROOT, OP_LOOKUP("d")), RF_ST_OK);
	raws_cut(&raws);
	come_back(CUT);
	{
		uint8_t message[RAWS_MSG_MAX];
		const struct rf_args args[] = { OP_LOOKUP("d") };

		raws_send(&raws, message, raws_encode(&raws, message, 1, 9,
						      ROOT, args, 1));
	}
	raws_wait_closed(&raws);
	/* It broke a rule: that was the end of it. */
	srig_until(&rig, !raws_server_side(&raws));
	cr_assert_eq(raws_resume(&raws), RF_ST_BAD_EPOCH);
	end_raw();
}

SCENARIO(requests_of_a_former_epoch_end_the_connection)
{
	uint32_t old;

	begin_raw(scheme);
	raws_cut(&raws);
	old = raws.epoch;
	come_back(CUT);
	cr_assert_neq(raws.epoch, old);
	{
		uint8_t message[RAWS_MSG_MAX];
		const struct rf_args args[] = { OP_MKDIR("late") };
		uint32_t now = raws.epoch;
		size_t size;

		raws.epoch = old;
		size = raws_encode(&raws, message, 1, 1, ROOT, args, 1);
		raws.epoch = now;
		raws_send(&raws, message, size);
	}
	raws_wait_closed(&raws);
	sclient_open(&rig, &client, "data");
	FAILS(NOENT, &client.root, OP_LOOKUP("late"));
	sclient_bye(&client);
	end_raw();
}

/* ---- what was lent ------------------------------------------------------ */

SCENARIO(a_kept_answer_names_no_slots_and_no_grants)
{
	static uint8_t big[100000];
	struct rf_grant slot;
	rf_handle_t handle;
	uint32_t open;

	begin_raw(scheme);
	handle = make("a", RW, 1, 1, &open, NULL);
	cr_assert_eq(RAWS_RUN(&raws, 2, 1, NULL, { .code = RF_OP_SLOTS,
			      .slots = { 1, 65536 } }), RF_ST_OK);
	slot = raws.results[0].slots.slots.v[0];
	cr_assert_eq(RAWS_RUN(&raws, 1, 2, &handle,
			      OP_WRITE(open, 0, 0, big, 4000)), RF_ST_OK);
	cr_assert_eq(RAWS_RUN(&raws, 1, 3, &handle,
			      OP_SIZE(open, sizeof(big))), RF_ST_OK);
	/* A slot in a WRITE that fails; and what is lent beside a change. */
	RAWS_LOSE(&raws, 3, 1, &handle, OP_OPEN(RF_OPEN_READ),
		  OP_READ(0, 0, sizeof(big)), { .code = RF_OP_GETATTR });
	cr_assert_eq(raws_resume(&raws), RF_ST_OK);
	cr_assert_eq(RAWS_RUN(&raws, 3, 1, &handle, OP_OPEN(RF_OPEN_READ)),
		     RF_ST_OK);
	cr_assert_eq(raws.count, 4);
	cr_assert_eq(raws.results[2].code, RF_OP_READ);
	cr_assert_eq(raws.results[2].status, RF_ST_AGAIN);
	cr_assert_eq(raws.results[3].getattr.attr.size, sizeof(big));
	cr_assert_eq(rig.server->staging.grants_made, 1);
	/* The old slot is nobody's now. */
	cr_assert_eq(RAWS_RUN(&raws, 3, 2, &handle, {
		.code = RF_OP_WRITE,
		.write = { .open = open,
			   .pieces = { 1, { { slot.id, 10, 0 } } } } }),
		     RF_ST_BAD_GRANT);
	end_raw();
}

/* The one-sided side of it: cut between grant and WRITE. */
SCENARIO(rights_of_the_old_connection_are_dead)
{
	struct rf_grant slot;
	struct rf_remote old;
	rf_handle_t handle;
	uint32_t open;
	struct sclient other;

	begin(scheme);
	handle = smake(&client, "a", RW, &open);
	cr_assert_eq(sslots(&client, 1, 65536, &slot), 1);
	old = (struct rf_remote){ slot.addr, slot.rkey, 4096 };
	(void)handle;
	sclient_lose(&client);
	cr_assert_eq(srig_staging_free(&rig), srig_staging_total(&rig),
		     "a lost session holds memory that was lent");
	sclient_open(&rig, &other, "data");
	spoke(&other, &old);
	srig_until(&rig, sclient_is_lost(&other));
	srig_close(&rig);
}

/* ---- opens -------------------------------------------------------------- */

SCENARIO(opens_live_on_and_are_there_without_a_word)
{
	rf_handle_t handle;
	uint32_t open;

	begin_raw(scheme);
	handle = make("a", RW, 1, 1, &open, NULL);
	cr_assert_eq(RAWS_RUN(&raws, 1, 2, ROOT, OP_UNLINK("a")), RF_ST_OK);
	raws_cut(&raws);
	come_back(CUT);
	cr_assert_eq(raws.resumed.grace_ms, 0);
	cr_assert_eq(raws.resumed.grant_ms, rig.server->config->grant_ms);
	cr_assert_eq(RAWS_RUN(&raws, 1, 3, &handle,
			      OP_WRITE(open, 0, 0, "still", 5)), RF_ST_OK);
	end_raw();
}

SCENARIO(opens_are_reclaimed_after_a_restart_by_their_tag_only)
{
	rf_handle_t handle, other;
	uint32_t open, second;
	uint64_t tag, second_tag;

	begin_raw(scheme);
	handle = make("a", RW, 1, 1, &open, &tag);
	other = make("b", RF_OPEN_READ, 1, 2, &second, &second_tag);
	/* Rights outlive chmod, and a change of the name. */
	cr_assert_eq(RAWS_RUN(&raws, 1, 3, ROOT, OP_UNLINK("a")), RF_ST_OK);
	raws_cut(&raws);
	come_back(RESTART);
	cr_assert_gt(raws.resumed.grace_ms, 0);
	cr_assert_eq(RAWS_RUN(&raws, 2, 1, &handle, OP_READ(open, 0, 1)),
		     RF_ST_BADF);
	reclaim(&handle, open, RW, tag ^ 1, 1, RF_ST_BAD_HANDLE);
	reclaim(&handle, open + 1, RW, tag, 2, RF_ST_BAD_HANDLE);
	reclaim(&handle, open, RW | RF_OPEN_APPEND, tag, 3, RF_ST_BAD_HANDLE);
	reclaim(&other, open, RW, tag, 4, RF_ST_BAD_HANDLE);
	/* The right to read does not become one to write. */
	reclaim(&other, second, RW, second_tag, 5, RF_ST_BAD_HANDLE);
	reclaim(&other, second, RF_OPEN_READ, second_tag, 6, RF_ST_OK);
	reclaim(&handle, open, RW, tag, 7, RF_ST_OK);
	reclaim(&handle, open, RW, tag, 8, RF_ST_OK);
	cr_assert_eq(store_open_count(rig.server->store, handle.inode), 1);
	cr_assert(server_in_grace(rig.server));
	reclaim_done(9);
	cr_assert_not(server_in_grace(rig.server), "all are back");
	cr_assert_eq(RAWS_RUN(&raws, 2, 2, &handle,
			      OP_WRITE(open, 0, 0, "still", 5)), RF_ST_OK);
	cr_assert_eq(RAWS_RUN(&raws, 2, 3, &other,
			      OP_WRITE(second, 0, 0, "no", 2)), RF_ST_BADF);
	cr_assert_eq(RAWS_RUN(&raws, 2, 4, &handle, OP_RELEASE(open)),
		     RF_ST_OK);
	cr_assert_eq(RAWS_RUN(&raws, 2, 5, &handle), RF_ST_STALE);
	end_raw();
}

/* An open that the client does not know of yet, and one that it does not know to
 * be gone. */
SCENARIO(opens_of_kept_answers_are_put_in_order)
{
	rf_handle_t handle, released;
	uint32_t open, gone;
	uint64_t gone_tag;

	begin_raw(scheme);
	released = make("r", RW, 1, 1, &gone, &gone_tag);
	RAWS_LOSE(&raws, 2, 1, ROOT, OP_CREATE("a", RW));
	come_back(CUT);
	/* So that the inode lives by the open alone. */
	cr_assert_eq(RAWS_RUN(&raws, 3, 1, ROOT, OP_UNLINK("a")), RF_ST_OK);
	RAWS_LOSE(&raws, 1, 2, &released, OP_RELEASE(gone));
	come_back(RESTART);
	reclaim(&released, gone, RW, gone_tag, 1, RF_ST_OK);
	cr_assert_eq(RAWS_RUN(&raws, 2, 1, ROOT, OP_CREATE("a", RW)),
		     RF_ST_OK);
	reclaim_done(2);
	open = RAWS_RES(&raws, 0, create).open;
	handle = RAWS_RES(&raws, 0, create).handle;
	cr_assert_eq(RAWS_RUN(&raws, 3, 2, &handle,
			      OP_WRITE(open, 0, 0, "alive", 5)), RF_ST_OK);
	cr_assert_eq(RAWS_RUN(&raws, 1, 2, &released, OP_RELEASE(gone)),
		     RF_ST_OK);
	cr_assert_eq(store_open_count(rig.server->store, released.inode), 0);
	end_raw();
}

SCENARIO(an_open_that_the_client_let_go_does_not_come_back)
{
	rf_handle_t handle;
	uint32_t open;

	begin_raw(scheme);
	/* It has the answer, and releases on another slot; or dies before. */
	handle = make("a", RW, 1, 1, &open, NULL);
	raws_cut(&raws);
	come_back(RESTART);
	cr_assert_eq(store_open_count(rig.server->store, handle.inode), 1);
	cr_assert_eq(RAWS_RUN(&raws, 1, 2, ROOT, OP_LOOKUP("a")), RF_ST_OK);
	cr_assert_eq(store_open_count(rig.server->store, handle.inode), 0);
	handle = make("b", RW, 1, 3, &open, NULL);
	cr_assert_eq(RAWS_RUN(&raws, 2, 1, &handle, OP_RELEASE(open)),
		     RF_ST_OK);
	come_back(RESTART);
	cr_assert_eq(store_open_count(rig.server->store, handle.inode), 0);
	end_raw();
}

/* Its slot may not be used again for long, and the file is deleted before. */
SCENARIO(an_open_that_the_client_let_go_keeps_no_file)
{
	struct store_stats stats;
	rf_handle_t handle, again;
	uint32_t open, other;

	begin_raw(scheme);
	handle = make("a", RW, 1, 1, &open, NULL);
	RAWS_LOSE(&raws, 2, 1, ROOT, OP_CREATE("b", RW));
	come_back(CUT);
	cr_assert_eq(RAWS_RUN(&raws, 3, 1, &handle, OP_RELEASE(open)), RF_ST_OK);
	cr_assert_eq(RAWS_RUN(&raws, 3, 2, ROOT, OP_MKDIR("d")), RF_ST_OK);
	come_back(RESTART);
	cr_assert_eq(RAWS_RUN(&raws, 3, 3, ROOT, OP_UNLINK("a"),
			      OP_UNLINK("b")), RF_ST_OK);
	cr_assert_eq(RAWS_RUN(&raws, 2, 1, ROOT, OP_CREATE("b", RW)), RF_ST_OK);
	other = RAWS_RES(&raws, 0, create).open;
	again = RAWS_RES(&raws, 0, create).handle;
	reclaim_done(1);
	srig_until(&rig, (store_stats(rig.server->store, &stats),
			  stats.orphans == 1));
	cr_assert_eq(RAWS_RUN(&raws, 3, 4, &handle), RF_ST_STALE);
	/* What it was told only now is its own. */
	cr_assert_eq(RAWS_RUN(&raws, 3, 5, &again,
			      OP_WRITE(other, 0, 0, "alive", 5)), RF_ST_OK);
	end_raw();
}

/*
 * A slot that is not used any more keeps the answer that made an open, long after
 * another slot has released it and its place is another's.
 */
static void outlived_open(uint16_t old_slot, bool is_lost)
{
	rf_handle_t handle, live;
	uint32_t old, open = 0;
	uint64_t tag = 0;

	handle = make("old", RW, old_slot, 1, &old, NULL);
	cr_assert_eq(RAWS_RUN(&raws, 2, 1, &handle, OP_RELEASE(old)), RF_ST_OK);
	if (is_lost) {
		RAWS_LOSE(&raws, 2, 2, ROOT, OP_CREATE("live", RW));
	} else {
		live = make("live", RW, 2, 2, &open, &tag);
		cr_assert_eq(open & 0xffff, old & 0xffff);
		cr_assert_eq(RAWS_RUN(&raws, 2, 3, ROOT, OP_MKDIR("d")),
			     RF_ST_OK);
	}
	come_back(RESTART);
	if (is_lost) {
		cr_assert_eq(RAWS_RUN(&raws, 2, 2, ROOT,
				      OP_CREATE("live", RW)), RF_ST_OK);
		reclaim_done(2);
		open = RAWS_RES(&raws, 0, create).open;
		live = RAWS_RES(&raws, 0, create).handle;
		cr_assert_eq(open & 0xffff, old & 0xffff);
	} else {
		reclaim(&live, open, RW, tag, 1, RF_ST_OK);
		reclaim_done(2);
	}
	/* The old one's slot is used again: that is no news of the live one. */
	cr_assert_eq(RAWS_RUN(&raws, old_slot, 2, ROOT, OP_LOOKUP("live")),
		     RF_ST_OK);
	cr_assert_eq(RAWS_RUN(&raws, 4, 1, &live,
			      OP_WRITE(open, 0, 0, "alive", 5)), RF_ST_OK);
	cr_assert_eq(store_open_count(rig.server->store, handle.inode), 0);
}

SCENARIO(an_open_is_reclaimed_although_an_old_answer_has_its_place)
{
	begin_raw(scheme);
	outlived_open(1, false);
	end_raw();
}

SCENARIO(of_two_kept_answers_for_one_place_the_later_counts)
{
	for (uint16_t old_slot = 1; old_slot <= 3; old_slot += 2) {
		begin_raw(scheme);
		outlived_open(old_slot, true);
		end_raw();
	}
}

/*
 * What is kept of a place may be older than its last open, of which only the RELEASE
 * is known: the next open is none of these.
 */
SCENARIO(no_open_has_the_id_of_one_before_the_restart)
{
	uint32_t first, second, third;
	rf_handle_t handle;
	uint64_t tag;

	begin_raw(scheme);
	handle = make("a", RW, 1, 1, &first, NULL);
	cr_assert_eq(RAWS_RUN(&raws, 2, 1, &handle, OP_RELEASE(first)),
		     RF_ST_OK);
	cr_assert_eq(RAWS_RUN(&raws, 2, 2, ROOT, OP_MKDIR("d")), RF_ST_OK);
	cr_assert_eq(RAWS_RUN(&raws, 3, 1, &handle, OP_OPEN(RW)), RF_ST_OK);
	second = raws.results[1].open.open;
	cr_assert_eq(second & 0xffff, first & 0xffff);
	cr_assert_eq(RAWS_RUN(&raws, 3, 2, ROOT, OP_MKDIR("e")), RF_ST_OK);
	cr_assert_eq(RAWS_RUN(&raws, 4, 1, &handle, OP_RELEASE(second)),
		     RF_ST_OK);
	come_back(RESTART);
	reclaim_done(1);
	cr_assert_eq(RAWS_RUN(&raws, 5, 1, &handle, OP_OPEN(RW)), RF_ST_OK);
	third = raws.results[1].open.open;
	tag = raws.results[1].open.tag;
	cr_assert_eq(third & 0xffff, first & 0xffff);
	cr_expect_neq(third, second);
	cr_assert_eq(RAWS_RUN(&raws, 5, 2, ROOT, OP_MKDIR("f")), RF_ST_OK);
	/* Else the answer that released the second one speaks of this one. */
	come_back(RESTART);
	reclaim(&handle, third, RW, tag, 2, RF_ST_OK);
	reclaim_done(3);
	cr_assert_eq(RAWS_RUN(&raws, 5, 3, &handle,
			      OP_WRITE(third, 0, 0, "alive", 5)), RF_ST_OK);
	end_raw();
}

/*
 * The client has had neither the answer that released the first nor the one that
 * gave its place to the second, so it reclaims the first.
 */
SCENARIO(reclaiming_what_a_lost_answer_released_leaves_its_successor)
{
	rf_handle_t first, second;
	uint32_t old, open;
	uint64_t tag;

	begin_raw(scheme);
	first = make("first", RW, 3, 1, &old, &tag);
	RAWS_LOSE(&raws, 1, 1, &first, OP_RELEASE(old));
	come_back(CUT);
	RAWS_LOSE(&raws, 2, 1, ROOT, OP_CREATE("second", RW));
	come_back(RESTART);
	reclaim(&first, old, RW, tag, 1, RF_ST_OK);
	cr_assert_eq(RAWS_RUN(&raws, 1, 1, &first, OP_RELEASE(old)), RF_ST_OK);
	cr_assert_eq(RAWS_RUN(&raws, 2, 1, ROOT, OP_CREATE("second", RW)),
		     RF_ST_OK);
	open = RAWS_RES(&raws, 0, create).open;
	second = RAWS_RES(&raws, 0, create).handle;
	cr_assert_eq(open & 0xffff, old & 0xffff);
	reclaim_done(2);
	cr_assert_eq(RAWS_RUN(&raws, 4, 1, &second,
			      OP_WRITE(open, 0, 0, "alive", 5)), RF_ST_OK);
	cr_assert_eq(store_open_count(rig.server->store, first.inode), 0);
	end_raw();
}

/* Closed while the server was away, and opened again before RELEASE goes. */
SCENARIO(a_release_from_before_a_restart_finds_no_open_from_after)
{
	rf_handle_t handle;
	uint32_t before, open;

	begin_raw(scheme);
	handle = make("a", RW, 1, 1, &before, NULL);
	cr_assert_eq(RAWS_RUN(&raws, 1, 2, ROOT, OP_MKDIR("d")), RF_ST_OK);
	come_back(RESTART);
	reclaim_done(1);
	cr_assert_eq(RAWS_RUN(&raws, 1, 3, &handle, OP_OPEN(RW)), RF_ST_OK);
	open = RAWS_RES(&raws, 0, open).open;
	cr_assert_eq(RAWS_RUN(&raws, 2, 1, &handle, OP_RELEASE(before)),
		     RF_ST_BADF);
	cr_assert_eq(RAWS_RUN(&raws, 2, 2, &handle,
			      OP_WRITE(open, 0, 0, "alive", 5)), RF_ST_OK);
	end_raw();
}

/* What was written before a power cut and not synced may be lost: fsync says so,
 * once. */
SCENARIO(fsync_after_a_power_cut_does_not_say_durable_of_what_was_before)
{
	struct rf_args args = { .code = RF_OP_FSYNC };
	rf_handle_t handle;
	uint64_t tag;

	begin_raw(scheme);
	handle = make("a", RW, 1, 1, &args.fsync.open, &tag);
	cr_assert_eq(RAWS_RUN(&raws, 1, 2, &handle,
			      OP_WRITE(args.fsync.open, 0, 0, "gone", 4)),
		     RF_ST_OK);
	raws_cut(&raws);
	srig_stop(&rig);
	srig_start(&rig);
	rig.server->store->lost_power = true;
	cr_assert_eq(raws_resume(&raws), RF_ST_OK);
	cr_assert_eq(RAWS_RUN(&raws, RAWS_SLOTS, raws.epoch, NULL,
			      { .code = RF_OP_IDENTITY,
				.identity = { .index = 1 } }), RF_ST_OK);
	reclaim(&handle, args.fsync.open, RW, tag, 1, RF_ST_OK);
	reclaim_done(2);
	cr_assert_eq(raws_run(&raws, 2, 1, &handle, &args, 1), RF_ST_IO);
	cr_assert_eq(raws_run(&raws, 2, 2, &handle, &args, 1), RF_ST_OK);
	end_raw();
}

/* ---- the grace period --------------------------------------------------- */

SCENARIO(files_without_a_name_are_kept_until_the_grace_period_ends)
{
	rf_handle_t handle, kept;
	struct store_stats stats;
	uint32_t open;
	uint64_t tag;
	struct raws other;

	begin_raw(scheme);
	raws_open(&rig, &other);
	handle = make("a", RW, 1, 1, &open, &tag);
	kept = make("b", RW, 1, 2, &open, &tag);
	cr_assert_eq(RAWS_RUN(&raws, 1, 3, ROOT, OP_UNLINK("a"),
			      OP_UNLINK("b")), RF_ST_OK);
	raws_cut(&other);
	raws_cut(&raws);
	come_back(RESTART);
	/* The last answer on slot 1 has made no open: only tags count. */
	cr_assert_eq(store_open_count(rig.server->store, kept.inode), 0);
	reclaim(&kept, open, RW, tag, 1, RF_ST_OK);
	reclaim_done(2);
	/* The other one is not back: nothing has gone yet. */
	cr_assert(server_in_grace(rig.server));
	cr_assert_eq(RAWS_RUN(&raws, 2, 1, &handle), RF_ST_OK);
	cr_assert_eq(raws_resume(&other), RF_ST_OK);
	cr_assert_eq(RAWS_RUN(&other, 0, 2, NULL,
			      { .code = RF_OP_RECLAIM_DONE }), RF_ST_OK);
	cr_assert_not(server_in_grace(rig.server));
	srig_until(&rig, (store_stats(rig.server->store, &stats),
			  stats.orphans == 1));
	cr_assert_eq(RAWS_RUN(&raws, 2, 2, &handle), RF_ST_STALE);
	cr_assert_eq(RAWS_RUN(&raws, 2, 3, &kept), RF_ST_OK);
	raws_cut(&other);
	end_raw();
}

/* Who unlinks in the grace period must not take it from who has it open. */
SCENARIO(an_unlink_in_the_grace_period_deletes_nothing_that_may_be_open)
{
	rf_handle_t handle;
	uint32_t open;
	uint64_t tag;

	begin_raw(scheme);
	handle = make("a", RW, 1, 1, &open, &tag);
	cr_assert_eq(RAWS_RUN(&raws, 1, 2, ROOT, OP_LOOKUP("a")), RF_ST_OK);
	/* So that no kept answer has the open. */
	cr_assert_eq(RAWS_RUN(&raws, 1, 3, ROOT, OP_MKDIR("d")), RF_ST_OK);
	raws_cut(&raws);
	srig_stop(&rig);
	srig_start(&rig);
	sclient_open(&rig, &client, "data");
	OK(&client.root, OP_UNLINK("a"));
	cr_assert_eq(raws_resume(&raws), RF_ST_OK);
	reclaim(&handle, open, RW, tag, 1, RF_ST_OK);
	reclaim_done(2);
	cr_assert_eq(RAWS_RUN(&raws, 1, 4, &handle, OP_READ(open, 0, 1)),
		     RF_ST_OK);
	sclient_bye(&client);
	end_raw();
}

SCENARIO(the_grace_period_ends_by_time_and_the_lease_after_it)
{
	rf_handle_t handle;
	struct store_stats stats;
	uint32_t open;
	uint64_t tag;

	srig_init(&rig, scheme);
	srig_set(&rig, "grace-ms", "200");
	srig_set(&rig, "lease-ms", "600");
	srig_start(&rig);
	raws_open(&rig, &raws);
	handle = make("a", RW, 1, 1, &open, &tag);
	cr_assert_eq(RAWS_RUN(&raws, 1, 2, ROOT, OP_UNLINK("a")), RF_ST_OK);
	raws_cut(&raws);
	srig_stop(&rig);
	srig_start(&rig);
	store_stats(rig.server->store, &stats);
	cr_assert_eq(stats.orphans, 1);
	srig_until(&rig, !server_in_grace(rig.server));
	srig_until(&rig, (store_stats(rig.server->store, &stats),
			  stats.orphans == 0));
	cr_assert(raws_server_side(&raws));
	cr_assert_eq(raws_resume(&raws), RF_ST_OK);
	reclaim(&handle, open, RW, tag, 1, RF_ST_STALE);
	raws_cut(&raws);
	srig_until(&rig, !raws_server_side(&raws));
	cr_assert_eq(raws_resume(&raws), RF_ST_BAD_EPOCH);
	end_raw();
}

/* By itself, for a client that only reads never asks for a sync. */
SCENARIO(the_record_of_a_client_goes_to_the_platter)
{
	struct store_stats before, after;

	srig_open(&rig, scheme);
	store_stats(rig.server->store, &before);
	raws_open(&rig, &raws);
	srig_until(&rig, (store_stats(rig.server->store, &after),
			  after.sync_requests > before.sync_requests &&
			  !rig.server->is_record_syncing));
	end_raw();
}

SCENARIO(a_first_start_has_no_grace_period)
{
	begin(scheme);
	cr_assert_not(server_in_grace(rig.server));
	cr_assert_not(store_keeps_orphans(rig.server->store));
	sclient_bye(&client);
	srig_until(&rig, rig.server->session_count == 0);
	srig_stop(&rig);
	srig_start(&rig);
	cr_assert_not(server_in_grace(rig.server), "all had said BYE");
	sclient_open(&rig, &client, "data");
	end();
}

/* ---- the end ------------------------------------------------------------ */

SCENARIO(a_client_that_stays_away_is_fenced)
{
	rf_handle_t handle;
	struct store_stats stats;
	uint32_t open;

	srig_init(&rig, scheme);
	srig_set(&rig, "lease-ms", "200");
	srig_start(&rig);
	raws_open(&rig, &raws);
	handle = make("a", RW, 1, 1, &open, NULL);
	cr_assert_eq(RAWS_RUN(&raws, 1, 2, ROOT, OP_UNLINK("a")), RF_ST_OK);
	raws_cut(&raws);
	srig_until(&rig, rig.server->session_count == 0);
	cr_assert_eq(rig.server->figures.expired, 1);
	store_stats(rig.server->store, &stats);
	cr_assert_eq(stats.orphans, 0, "its open file without a name stayed");
	(void)handle;
	cr_assert_eq(raws_resume(&raws), RF_ST_BAD_EPOCH);
	raws_cut(&raws);
	/* The fence is durable. */
	srig_stop(&rig);
	srig_start(&rig);
	cr_assert_eq(rig.server->session_count, 0);
	cr_assert_eq(raws_resume(&raws), RF_ST_BAD_EPOCH);
	raws_cut(&raws);
	srig_close(&rig);
}

/* Its last requests, or a sync, may take longer than a lease. */
SCENARIO(a_client_that_waits_to_resume_is_not_away)
{
	uint8_t message[RF_HELLO_SIZE_MAX], proof[RF_PROOF_SIZE];
	struct session *session;
	unsigned int come;
	uint64_t end_ns;
	uint32_t open;
	int size;

	srig_init(&rig, scheme);
	srig_set(&rig, "lease-ms", "200");
	srig_start(&rig);
	raws_open(&rig, &raws);
	make("a", RW, 1, 1, &open, NULL);
	session = raws_server_side(&raws);
	raws_cut(&raws);
	srig_until(&rig, !session->channel);
	session->is_syncing = true;
	come = raws.come;
	raws_connect(&raws);
	size = raws_encode_resume(&raws, message, proof);
	raws_post(&raws, message, (size_t)size);
	end_ns = rf_now_ns() + UINT64_C(700000000);
	srig_until(&rig, rf_now_ns() > end_ns);
	cr_assert_eq(raws.come, come);
	cr_assert_eq(rig.server->figures.expired, 0);
	session->is_syncing = false;
	session_drained(session);
	srig_until(&rig, raws.come > come && !raws.is_sending);
	cr_assert_eq(rf_resume_reply_decode(raws.message, raws.header.size,
					    &raws.resumed), 0);
	cr_assert_eq(raws.resumed.status, RF_ST_OK);
	raws.epoch = raws.resumed.epoch;
	end_raw();
}

SCENARIO(bye_leaves_nothing_to_resume)
{
	uint32_t open;

	begin_raw(scheme);
	make("a", RW, 1, 1, &open, NULL);
	cr_assert_eq(RAWS_RUN(&raws, RAWS_SLOTS, 1, NULL,
			      { .code = RF_OP_BYE }), RF_ST_OK);
	raws_cut(&raws);
	srig_until(&rig, rig.server->session_count == 0);
	cr_assert_eq(raws_resume(&raws), RF_ST_BAD_EPOCH);
	end_raw();
}

static void say_hello_again(struct raws *mount)
{
	uint8_t message[RF_HELLO_SIZE_MAX];
	int size;

	raws_connect(mount);
	size = rf_hello_encode(message, &mount->hello, &mount->key,
			       mount->nonce, mount->hello_proof);
	raws_post(mount, message, (size_t)size);
}

SCENARIO(a_mount_that_says_hello_gives_its_former_session_up)
{
	struct raws former;
	uint32_t open;

	begin_raw(scheme);
	make("a", RW, 1, 1, &open, NULL);
	former = raws;
	raws_cut(&raws);
	former.ep = NULL;
	raws_init(&rig, &raws);
	memcpy(raws.hello.client_uuid, former.hello.client_uuid, RF_UUID_SIZE);
	say_hello_again(&raws);
	srig_until(&rig, raws.come > 0 && !raws.is_sending);
	cr_assert_eq(rig.server->session_count, 1);
	raws_cut(&raws);
	cr_assert_eq(raws_resume(&former), RF_ST_BAD_EPOCH);
	raws_cut(&former);
	srig_close(&rig);
}

/* A worker that is kept busy, so that what it is to do comes late. */
static sem_t worker_may_go;

static void keep_busy(struct rf_job *job)
{
	(void)job;
	while (sem_wait(&worker_may_go) != 0)
		;
}

static void kept_busy(struct rf_job *job)
{
	(void)job;
}

/* What the former session was asked for must not land after what the new one is
 * asked for. */
SCENARIO(a_mount_s_new_session_waits_for_what_the_former_one_runs)
{
	struct rf_job job = { .run = keep_busy, .done = kept_busy };
	uint8_t message[RAWS_MSG_MAX];
	struct session *session;
	rf_handle_t handle;
	struct raws again;
	unsigned int come;
	uint32_t open;
	char got[4];

	cr_assert_eq(sem_init(&worker_may_go, 0, 0), 0);
	srig_init(&rig, scheme);
	srig_set(&rig, "workers", "1");
	srig_start(&rig);
	raws_open(&rig, &raws);
	handle = make("a", RW, 1, 1, &open, NULL);
	cr_assert_eq(RAWS_RUN(&raws, 1, 2, &handle,
			      OP_WRITE(open, 0, 0, "old.new.", 8)), RF_ST_OK);
	rf_workers_post(rig.server->workers, rig.reactor, &job);
	/* old. over itself and new.: by a worker, which is not there yet. */
	raws_send(&raws, message,
		  raws_encode(&raws, message, 1, 3, &handle,
			      &(const struct rf_args){ .code = RF_OP_COPY,
				.copy = { .open = open, .offset = 4,
					  .source = handle, .source_open = open,
					  .size = 4 } },
			      1));
	session = raws_server_side(&raws);
	srig_until(&rig, rig.server->active == 1);
	raws_init(&rig, &again);
	memcpy(again.hello.client_uuid, raws.hello.client_uuid, RF_UUID_SIZE);
	come = again.come;
	say_hello_again(&again);
	srig_until(&rig, again.come > come || !raws.ep);
	srig_until(&rig, again.come > come || session->is_closed);
	srig_until(&rig, !srig_turn(&rig));
	cr_assert_eq(again.come, come, "it began while the other one ran");
	cr_assert_eq(sem_post(&worker_may_go), 0);
	srig_until(&rig, again.come > come && !again.is_sending);
	cr_assert_eq(rf_hello_reply_decode(again.message, again.header.size,
					   &again.reply), 0);
	cr_assert_eq(again.reply.status, RF_ST_OK, "%s", again.reply.reason);
	cr_assert_eq(rig.server->session_count, 1);
	rf_ep_close(again.ep);
	raws_wait_closed(&again);
	sclient_open(&rig, &client, "data");
	OK(&client.root, OP_LOOKUP("a"), OP_OPEN(RW));
	cr_assert_eq(sread(&client, &handle, SRES(&call, 1, open).open, 4, 4,
			   got), 4);
	cr_assert(memcmp(got, "old.", 4) == 0, "it was not run");
	end();
}

/* It may be given up while it waits, and the next one waits, too. */
SCENARIO(a_hello_that_waits_may_go_away)
{
	struct raws again, third;
	struct session *session;
	unsigned int come;
	uint32_t open;

	begin_raw(scheme);
	make("a", RW, 1, 1, &open, NULL);
	session = raws_server_side(&raws);
	session->is_syncing = true;	/* so that it stays */
	raws_init(&rig, &again);
	memcpy(again.hello.client_uuid, raws.hello.client_uuid, RF_UUID_SIZE);
	third = again;
	say_hello_again(&again);
	srig_until(&rig, !rf_list_is_empty(&rig.server->waiting_hellos));
	rf_ep_close(again.ep);
	raws_wait_closed(&again);
	srig_until(&rig, rf_list_is_empty(&rig.server->waiting_hellos));
	raws_wait_closed(&raws);
	come = third.come;
	say_hello_again(&third);
	srig_until(&rig, !rf_list_is_empty(&rig.server->waiting_hellos));
	srig_until(&rig, !session->channel);
	cr_assert_eq(third.come, come);
	session->is_syncing = false;
	session_drained(session);
	srig_until(&rig, third.come > come && !third.is_sending);
	cr_assert_eq(rf_hello_reply_decode(third.message, third.header.size,
					   &third.reply), 0);
	cr_assert_eq(third.reply.status, RF_ST_OK);
	cr_assert_eq(rig.server->session_count, 1);
	rf_ep_close(third.ep);
	raws_wait_closed(&third);
	srig_close(&rig);
}

/* It does not wait for ever, and may come again. */
SCENARIO(a_hello_that_waits_has_a_deadline)
{
	struct session *session;
	struct raws again, third;
	unsigned int come;
	uint32_t open;

	srig_init(&rig, scheme);
	srig_set(&rig, "hello-ms", "200");
	srig_start(&rig);
	raws_open(&rig, &raws);
	make("a", RW, 1, 1, &open, NULL);
	session = raws_server_side(&raws);
	session->is_syncing = true;	/* so that it stays */
	raws_init(&rig, &again);
	memcpy(again.hello.client_uuid, raws.hello.client_uuid, RF_UUID_SIZE);
	third = again;
	come = again.come;
	say_hello_again(&again);
	srig_until(&rig, again.come > come && !again.is_sending);
	cr_assert_eq(rf_hello_reply_decode(again.message, again.header.size,
					   &again.reply), 0);
	cr_assert_eq(again.reply.status, RF_ST_BUSY, "%s", again.reply.reason);
	cr_assert(rf_list_is_empty(&rig.server->waiting_hellos));
	rf_ep_close(again.ep);
	raws_wait_closed(&again);
	raws_wait_closed(&raws);
	session->is_syncing = false;
	srig_until(&rig, !session->channel);
	session_drained(session);
	come = third.come;
	say_hello_again(&third);
	srig_until(&rig, third.come > come && !third.is_sending);
	cr_assert_eq(rf_hello_reply_decode(third.message, third.header.size,
					   &third.reply), 0);
	cr_assert_eq(third.reply.status, RF_ST_OK, "%s", third.reply.reason);
	rf_ep_close(third.ep);
	raws_wait_closed(&third);
	srig_close(&rig);
}

SCENARIO(lost_sessions_count_against_the_limit)
{
	struct sclient more;

	srig_init(&rig, scheme);
	srig_set(&rig, "sessions", "2");
	srig_start(&rig);
	raws_open(&rig, &raws);
	raws_cut(&raws);
	sclient_open(&rig, &client, "data");
	sclient_init(&rig, &more, "data");
	sclient_connect(&more);
	cr_assert_not(more.opened);
	cr_assert_eq(more.err, -EUSERS);
	cr_assert_eq(raws_resume(&raws), RF_ST_OK);
	sclient_bye(&client);
	end_raw();
}

/* ---- who may resume ----------------------------------------------------- */

SCENARIO(a_wrong_secret_is_refused_and_harms_nobody)
{
	uint8_t message[RF_HELLO_SIZE_MAX], proof[RF_PROOF_SIZE];
	struct rf_resume_reply reply;
	struct raws thief;
	int size;

	begin_raw(scheme);
	thief = raws;
	thief.ep = NULL;
	thief.secret[5] ^= 1;
	raws_connect(&thief);
	size = raws_encode_resume(&thief, message, proof);
	raws_send(&thief, message, (size_t)size);
	srig_until(&rig, thief.come > raws.come);
	cr_assert_eq(rf_resume_reply_decode(thief.message, thief.header.size,
					    &reply), 0);
	cr_assert_eq(reply.status, RF_ST_BAD_KEY);
	rf_ep_close(thief.ep);
	raws_wait_closed(&thief);
	/* The true one has not even noticed. */
	cr_assert_eq(RAWS_RUN(&raws, 1, 1, ROOT, OP_MKDIR("d")), RF_ST_OK);
	/* Nor does a UUID of another mount help. */
	thief = raws;
	thief.ep = NULL;
	thief.hello.client_uuid[0] ^= 1;
	cr_assert_eq(raws_resume(&thief), RF_ST_BAD_EPOCH);
	rf_ep_close(thief.ep);
	raws_wait_closed(&thief);
	thief = raws;
	thief.ep = NULL;
	thief.session ^= 1;
	cr_assert_eq(raws_resume(&thief), RF_ST_BAD_EPOCH);
	rf_ep_close(thief.ep);
	raws_wait_closed(&thief);
	end_raw();
}

/* The old connection may look alive to the server: the new one counts. */
SCENARIO(a_resume_ends_the_old_connection)
{
	struct raws again;

	begin_raw(scheme);
	again = raws;
	again.ep = NULL;
	cr_assert_eq(raws_resume(&again), RF_ST_OK);
	srig_until(&rig, !raws.ep);
	cr_assert_eq(RAWS_RUN(&again, 1, 1, &again.reply.root,
			      OP_MKDIR("d")), RF_ST_OK);
	cr_assert_eq(rig.server->session_count, 1);
	raws_cut(&again);
	srig_close(&rig);
}

/* The server's own trouble is no breach of the client's. */
Test(server_resume, a_server_short_of_receives_ends_no_session)
{
	uint8_t message[RF_HELLO_SIZE_MAX], proof[RF_PROOF_SIZE];
	int size;

	begin_raw("loop");
	raws_cut(&raws);
	raws_connect(&raws);
	rf_loop_fail_receives(rig.world, 3, 1);
	size = raws_encode_resume(&raws, message, proof);
	raws_post(&raws, message, (size_t)size);
	raws_wait_closed(&raws);
	srig_until(&rig, raws_server_side(&raws) &&
		   !raws_server_side(&raws)->channel);
	cr_assert_eq(raws_resume(&raws), RF_ST_OK);
	end_raw();
}

SCENARIO(an_export_that_is_gone_or_moved_ends_its_sessions)
{
	begin_raw(scheme);
	raws_cut(&raws);
	srig_stop(&rig);
	snprintf(rig.config.exports[0].name,
		 sizeof(rig.config.exports[0].name), "renamed");
	srig_start(&rig);
	cr_assert_eq(rig.server->session_count, 0);
	cr_assert_eq(raws_resume(&raws), RF_ST_BAD_EPOCH);
	end_raw();
}

/* ---- bad input ---------------------------------------------------------- */

SCENARIO(malformed_resumes_end_the_connection_without_an_answer)
{
	for (unsigned int i = 0; i < 5; i++) {
		uint8_t message[RF_HELLO_SIZE_MAX], proof[RF_PROOF_SIZE];
		struct raws bad;
		int size;

		if (i == 0)
			begin_raw(scheme);
		bad = raws;
		bad.ep = NULL;
		raws_connect(&bad);
		size = raws_encode_resume(&bad, message, proof);
		switch (i) {
		case 0:
			message[5] = 1;			/* header: flags */
			break;
		case 1:
			message[RF_HEADER_SIZE + 2] |= 2;	/* flags */
			break;
		case 2:
			size -= 8;
			rf_store_u32(message, (uint32_t)size);
			break;
		case 3:
			memset(message + size, 0, 4);
			size += 4;
			rf_store_u32(message, (uint32_t)size);
			break;
		default:
			message[4] = RF_MSG_RESUME_REPLY;
			break;
		}
		raws_post(&bad, message, (size_t)size);
		raws_wait_closed(&bad);
		cr_assert_eq(bad.come, raws.come, "%u was answered", i);
	}
	cr_assert_eq(RAWS_RUN(&raws, 1, 1, ROOT, OP_MKDIR("d")), RF_ST_OK);
	end_raw();
}

/* RESUME in the middle of a session is no request. */
SCENARIO(a_resume_on_an_open_connection_is_a_breach)
{
	uint8_t message[RF_HELLO_SIZE_MAX], proof[RF_PROOF_SIZE];
	int size;

	begin_raw(scheme);
	size = raws_encode_resume(&raws, message, proof);
	raws_post(&raws, message, (size_t)size);
	raws_wait_closed(&raws);
	srig_until(&rig, rig.server->session_count == 0);
	srig_close(&rig);
}

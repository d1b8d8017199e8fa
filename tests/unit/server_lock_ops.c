/* SPDX-License-Identifier: Apache-2.0 */
/* A whole server and raw clients: locks, their waits, news of them, their end. */
#define SUITE server_lock_ops
#include "tests/unit/server_ops.h"

#include "storage-server/exec.h"

static struct sclient other;
static struct scall events;

#define OP_LOCK(w, o, who, f, s, e) \
	{ .code = RF_OP_LOCK, .lock = { w, o, who, f, s, e, 4711 } }
#define OP_UNLOCK(who, f, s, e) \
	{ .code = RF_OP_UNLOCK, .unlock = { who, f, s, e } }
#define OP_TEST(o, who, f, s, e) \
	{ .code = RF_OP_TEST_LOCK, .test_lock = { o, who, f, s, e } }
#define OP_CANCEL_LOCK(w) \
	{ .code = RF_OP_CANCEL_LOCK, .cancel_lock = { w } }
#define ALL RF_RANGE_END
#define EX RF_LOCK_EXCLUSIVE
#define EX_WAIT (RF_LOCK_EXCLUSIVE | RF_LOCK_WAIT)

/* Another session's open of the file. */
static uint32_t open_other(const rf_handle_t *handle)
{
	unsigned int status = SRUN(&other, &call, 1, handle, OP_OPEN(RW));

	cr_assert_eq(status, RF_ST_OK);
	return SRES(&call, 0, open).open;
}

static unsigned int do_other(const rf_handle_t *handle, struct rf_args args)
{
	return srun(&other, &call, 1, handle, &args, 1);
}

static rf_handle_t begin_two(const char *scheme, uint32_t *open,
			     uint32_t *other_open)
{
	rf_handle_t handle;

	begin(scheme);
	sclient_open(&rig, &other, "data");
	handle = smake(&client, "f", RW, open);
	*other_open = open_other(&handle);
	return handle;
}

static void end_two(void)
{
	sclient_bye(&other);
	end();
}

/* Ask for news; it may take its time. */
static void ask_events(struct sclient *who, uint64_t seen)
{
	const struct rf_args args = {
		.code = RF_OP_LOCK_EVENTS, .lock_events = { seen },
	};

	scall_init(&events, who);
	scall_add(&events, &args);
	scall_submit(&events);
}

static void expect_event(uint64_t wait, unsigned int status)
{
	struct rf_lock_event event;

	srig_until(&rig, events.done);
	cr_assert_eq(events.err, 0);
	cr_assert_eq(events.results[0].status, RF_ST_OK);
	cr_assert(rf_lock_event_decode(&events.results[0].lock_events.events, 0,
				       &event));
	cr_assert_eq(event.wait, wait);
	cr_assert_eq(event.status, status, "%s", rf_status_name(event.status));
}

SCENARIO(locks_of_two_sessions_meet)
{
	uint32_t open, other_open;
	rf_handle_t handle = begin_two(scheme, &open, &other_open);

	OK(&handle, OP_LOCK(1, open, 7, EX, 10, 19));
	cr_assert_eq(SRES(&call, 0, lock).waits, 0);
	cr_assert_eq(do_other(&handle, (struct rf_args)
			      OP_LOCK(1, other_open, 7, EX, 19, 30)),
		     RF_ST_AGAIN);
	cr_assert_eq(do_other(&handle, (struct rf_args)
			      OP_TEST(other_open, 7, 0, 0, ALL)), RF_ST_OK);
	cr_assert_eq(SRES(&call, 0, test_lock).is_free, 0);
	cr_assert_eq(SRES(&call, 0, test_lock).is_exclusive, 1);
	cr_assert_eq(SRES(&call, 0, test_lock).start, 10);
	cr_assert_eq(SRES(&call, 0, test_lock).end, 19);
	cr_assert_eq(SRES(&call, 0, test_lock).pid, 4711);
	OK(&handle, OP_UNLOCK(7, 0, 15, ALL));
	cr_assert_eq(do_other(&handle, (struct rf_args)
			      OP_LOCK(1, other_open, 7, EX, 15, 30)),
		     RF_ST_OK);
	end_two();
}

SCENARIO(a_wait_holds_nothing_and_its_end_is_told)
{
	uint32_t open, other_open;
	rf_handle_t handle = begin_two(scheme, &open, &other_open);

	OK(&handle, OP_LOCK(1, open, 7, EX, 0, ALL));
	cr_assert_eq(do_other(&handle, (struct rf_args)
			      OP_LOCK(5, other_open, 7, EX_WAIT, 0, 0)),
		     RF_ST_OK);
	cr_assert_eq(SRES(&call, 0, lock).waits, 1);
	ask_events(&other, 0);
	srig_until(&rig, events.queued);
	cr_assert_eq(rig.server->active, 1);
	/* More of them than there are slots and tickets. */
	for (uint64_t i = 0; i < 200; i++)
		cr_assert_eq(do_other(&handle, (struct rf_args)
				      OP_LOCK(100 + i, other_open, 100 + i,
					      EX_WAIT, 0, 0)), RF_ST_OK);
	cr_assert_eq(rig.server->active, 1);
	OK(&handle, OP_UNLOCK(7, 0, 0, ALL));
	expect_event(5, RF_ST_OK);
	/* Until it is known to be seen it is told again. */
	ask_events(&other, 0);
	expect_event(5, RF_ST_OK);
	ask_events(&other, events.results[0].lock_events.last);
	cr_assert_eq(do_other(&handle, (struct rf_args)
			      OP_UNLOCK(7, 0, 0, ALL)), RF_ST_OK);
	expect_event(100, RF_ST_OK);
	end_two();
}

SCENARIO(what_another_server_has_told_hides_no_news)
{
	uint32_t open, other_open;
	rf_handle_t handle = begin_two(scheme, &open, &other_open);

	OK(&handle, OP_LOCK(1, open, 7, EX, 0, ALL));
	do_other(&handle, (struct rf_args)
		 OP_LOCK(5, other_open, 7, EX_WAIT, 0, 0));
	ask_events(&other, 1);
	srig_until(&rig, events.queued);
	OK(&handle, OP_UNLOCK(7, 0, 0, ALL));
	expect_event(5, RF_ST_OK);
	end_two();
}

SCENARIO(what_another_session_has_seen_hides_no_news_that_came_first)
{
	uint32_t open, other_open;
	rf_handle_t handle = begin_two(scheme, &open, &other_open);

	OK(&handle, OP_LOCK(1, open, 7, EX, 0, ALL));
	do_other(&handle, (struct rf_args)
		 OP_LOCK(5, other_open, 7, EX_WAIT, 0, 0));
	OK(&handle, OP_UNLOCK(7, 0, 0, ALL));
	ask_events(&other, 1);
	expect_event(5, RF_ST_OK);
	end_two();
}

SCENARIO(news_come_at_once_when_nobody_waits)
{
	begin(scheme);
	ask_events(&client, 0);
	srig_until(&rig, events.done);
	cr_assert_eq(events.results[0].status, RF_ST_OK);
	cr_assert_eq(events.results[0].lock_events.events.size, 0);
	end();
}

SCENARIO(a_second_question_ends_the_first)
{
	static struct scall first;
	uint32_t open, other_open;
	rf_handle_t handle = begin_two(scheme, &open, &other_open);
	const struct rf_args args = { .code = RF_OP_LOCK_EVENTS };

	OK(&handle, OP_LOCK(1, open, 7, EX, 0, ALL));
	do_other(&handle, (struct rf_args)
		 OP_LOCK(5, other_open, 7, EX_WAIT, 0, 0));
	scall_init(&first, &other);
	scall_add(&first, &args);
	scall_submit(&first);
	srig_until(&rig, first.queued);
	ask_events(&other, 0);
	srig_until(&rig, first.done);
	cr_assert_eq(first.results[0].status, RF_ST_CANCELED);
	OK(&handle, OP_UNLOCK(7, 0, 0, ALL));
	expect_event(5, RF_ST_OK);
	end_two();
}

SCENARIO(a_wait_is_ended_by_its_client)
{
	uint32_t open, other_open;
	rf_handle_t handle = begin_two(scheme, &open, &other_open);

	OK(&handle, OP_LOCK(1, open, 7, EX, 0, ALL));
	do_other(&handle, (struct rf_args)
		 OP_LOCK(5, other_open, 7, EX_WAIT, 0, 0));
	ask_events(&other, 0);
	srig_until(&rig, events.queued);
	cr_assert_eq(do_other(&handle, (struct rf_args)OP_CANCEL_LOCK(5)),
		     RF_ST_OK);
	cr_assert_eq(SRES(&call, 0, cancel_lock).status, RF_ST_CANCELED);
	/* Nobody waits any more, so there will be no news. */
	srig_until(&rig, events.done);
	cr_assert_eq(events.results[0].lock_events.events.size, 0);
	cr_assert_eq(do_other(&handle, (struct rf_args)OP_CANCEL_LOCK(5)),
		     RF_ST_NOENT);
	end_two();
}

SCENARIO(a_message_that_changes_something_does_not_wait_for_news)
{
	uint32_t open, other_open;
	rf_handle_t handle = begin_two(scheme, &open, &other_open);
	const struct rf_args behind[] = {
		OP_OPEN(RW), { .code = RF_OP_LOCK_EVENTS },
	};
	const struct rf_args before[] = {
		{ .code = RF_OP_LOCK_EVENTS }, OP_OPEN(RW),
	};

	OK(&handle, OP_LOCK(1, open, 7, EX, 0, ALL));
	do_other(&handle, (struct rf_args)
		 OP_LOCK(5, other_open, 7, EX_WAIT, 0, 0));
	cr_assert_eq(srun(&other, &call, 1, &handle, behind, 2), RF_ST_INVAL);
	cr_assert_eq(srun(&other, &call, 1, &handle, before, 2), RF_ST_INVAL);
	OK(&handle, OP_UNLOCK(7, 0, 0, ALL));
	ask_events(&other, 0);
	expect_event(5, RF_ST_OK);
	end_two();
}

SCENARIO(a_circle_of_sessions_is_refused)
{
	uint32_t open, other_open;
	rf_handle_t handle = begin_two(scheme, &open, &other_open);

	OK(&handle, OP_LOCK(1, open, 7, EX, 0, 0));
	do_other(&handle, (struct rf_args)OP_LOCK(1, other_open, 7, EX, 1, 1));
	OK(&handle, OP_LOCK(2, open, 7, EX_WAIT, 1, 1));
	cr_assert_eq(SRES(&call, 0, lock).waits, 1);
	cr_assert_eq(do_other(&handle, (struct rf_args)
			      OP_LOCK(2, other_open, 7, EX_WAIT, 0, 0)),
		     RF_ST_DEADLK);
	end_two();
}

SCENARIO(locks_end_with_their_open)
{
	uint32_t open, other_open;
	rf_handle_t handle = begin_two(scheme, &open, &other_open);

	OK(&handle, OP_LOCK(1, open, 7, EX | RF_LOCK_FLOCK, 0, ALL));
	do_other(&handle, (struct rf_args)
		 OP_LOCK(5, other_open, 9, EX_WAIT | RF_LOCK_FLOCK, 0, ALL));
	cr_assert_eq(SRES(&call, 0, lock).waits, 1);
	ask_events(&other, 0);
	OK(&handle, OP_RELEASE(open));
	expect_event(5, RF_ST_OK);
	end_two();
}

SCENARIO(a_wait_ends_with_its_open)
{
	uint32_t open, other_open;
	rf_handle_t handle = begin_two(scheme, &open, &other_open);

	OK(&handle, OP_LOCK(1, open, 7, EX, 0, ALL));
	do_other(&handle, (struct rf_args)
		 OP_LOCK(5, other_open, 9, EX_WAIT, 0, ALL));
	ask_events(&other, 0);
	cr_assert_eq(do_other(&handle, (struct rf_args)
			      OP_RELEASE(other_open)), RF_ST_OK);
	expect_event(5, RF_ST_CANCELED);
	end_two();
}

SCENARIO(locks_end_with_their_session)
{
	uint32_t open, other_open;
	rf_handle_t handle = begin_two(scheme, &open, &other_open);

	OK(&handle, OP_LOCK(1, open, 7, EX, 0, ALL));
	do_other(&handle, (struct rf_args)
		 OP_LOCK(5, other_open, 9, EX_WAIT, 0, ALL));
	ask_events(&other, 0);
	sclient_bye(&client);
	expect_event(5, RF_ST_OK);
	sclient_bye(&other);
	cr_assert_eq(rig.server->locks.ranges.count, 0);
	srig_close(&rig);
}

SCENARIO(a_lost_client_keeps_its_locks_until_its_lease_is_over)
{
	uint32_t open, other_open;
	rf_handle_t handle = begin_two(scheme, &open, &other_open);

	do_other(&handle, (struct rf_args)
		 OP_LOCK(1, other_open, 9, EX, 0, 0));
	OK(&handle, OP_LOCK(1, open, 7, EX, 1, 1));
	do_other(&handle, (struct rf_args)
		 OP_LOCK(5, other_open, 9, EX_WAIT, 1, 1));
	ask_events(&other, 0);
	srig_until(&rig, events.queued);
	sclient_lose(&other);
	cr_assert_eq(rig.server->locks.waits.count, 1);
	FAILS(AGAIN, &handle, OP_LOCK(2, open, 7, EX, 0, ALL));
	/* As when its lease is over. */
	session_expire(sclient_session(&other), NULL);
	srig_until(&rig, rig.server->session_count == 1);
	cr_assert_eq(rig.server->locks.waits.count, 0);
	OK(&handle, OP_LOCK(2, open, 7, EX, 0, ALL));
	end();
}

SCENARIO(a_stopping_server_does_not_wait_for_those_who_wait)
{
	uint32_t open, other_open;
	rf_handle_t handle = begin_two(scheme, &open, &other_open);

	OK(&handle, OP_LOCK(1, open, 7, EX, 0, ALL));
	do_other(&handle, (struct rf_args)
		 OP_LOCK(5, other_open, 9, EX_WAIT, 0, ALL));
	ask_events(&other, 0);
	srig_until(&rig, events.queued);
	/* Nor does anybody get a lock, for all will be claimed again. */
	server_stop(rig.server, NULL);
	srig_until(&rig, client.closed && other.closed &&
		   rig.server->is_stopped);
	cr_assert(events.done);
	cr_assert_neq(events.err, 0);
	cr_assert_eq(rig.server->locks.figures.granted, 1);
	cr_assert_eq(rig.server->locks.ranges.count, 0);
	cr_assert_eq(rig.server->locks.waits.count, 0);
	srig_close(&rig);
}

SCENARIO(bad_locks_are_refused)
{
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = smake(&client, "f", RF_OPEN_READ, &open);
	FAILS(BADF, &handle, OP_LOCK(1, open, 7, EX, 0, 0));
	OK(&handle, OP_LOCK(1, open, 7, 0, 0, 0));
	OK(&handle, OP_LOCK(1, open, 7, EX | RF_LOCK_FLOCK, 0, ALL));
	FAILS(INVAL, &handle, OP_LOCK(1, open, 7, EX | RF_LOCK_FLOCK, 0, 1));
	FAILS(INVAL, &handle, OP_LOCK(1, open, 7, 0, 2, 1));
	FAILS(INVAL, &handle, OP_LOCK(1, open, 7, 0, 0, ALL + 1));
	FAILS(INVAL, &handle, OP_LOCK(1, open, 7, RF_LOCK_RECLAIM, 0, 1));
	FAILS(INVAL, &handle, OP_UNLOCK(7, 0, 2, 1));
	FAILS(BADF, &handle, OP_LOCK(1, open + 1, 7, 0, 0, 0));
	FAILS(BADF, &client.root, OP_LOCK(1, open, 7, 0, 0, 0));
	FAILS(BADF, &handle, OP_LOCK(1, 0, 7, 0, 0, 0));
	FAILS(BADF, &handle, OP_TEST(open + 1, 7, 0, 0, 0));
	FAILS(NOENT, &handle, OP_CANCEL_LOCK(1));
	/* By the open that the message makes. */
	OK(&handle, OP_OPEN(RW), OP_LOCK(1, 0, 7, EX, 0, 0));
	FAILS(INVAL, &client.root, OP_MKDIR("d"),
	      { .code = RF_OP_LOCK_EVENTS });
	end();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that have a connection and say nothing: for how long they keep what they
 * have, and what becomes of them when others need it.
 */
#include "tests/common/raw_session.h"

#define SUITE server_silent
#include "tests/unit/server_ops.h"

#include "storage-server/store_impl.h"

#define OP_LOCK(w, o, f)						\
	{ .code = RF_OP_LOCK, .lock = { .wait = w, .open = o, .owner = 7, \
	  .flags = f, .start = 0, .end = 9 } }
#define EX RF_LOCK_EXCLUSIVE

static struct raws raws;
static rf_handle_t handle;
static uint32_t file;

/* A client that has locked a file, and then says nothing for its lease. */
static struct session *begin_silent(const char *scheme)
{
	struct session *session;

	srig_init(&rig, scheme);
	srig_set(&rig, "lease-ms", "300");
	srig_set(&rig, "sessions", "2");
	srig_start(&rig);
	raws_open(&rig, &raws);
	session = raws_server_side(&raws);
	cr_assert_eq(RAWS_RUN(&raws, 1, 1, &raws.reply.root,
			      OP_CREATE("a", RW)), RF_ST_OK);
	handle = RAWS_RES(&raws, 0, create).handle;
	file = RAWS_RES(&raws, 0, create).open;
	cr_assert_eq(RAWS_RUN(&raws, 1, 2, &handle, OP_LOCK(0, file, EX)),
		     RF_ST_OK);
	srig_until(&rig, session_is_silent(session));
	return session;
}

static uint32_t open_other(void)
{
	sclient_open(&rig, &client, "data");
	OK(&handle, OP_OPEN(RW));
	return SRES(&call, 0, open).open;
}

/* Its session is not only over: others have what it had. */
static bool is_gone(void)
{
	const struct rf_list *at;

	rf_list_for_each(at, &rig.server->sessions)
		if (rf_container_of(at, const struct session, link)->id ==
		    raws.session)
			return false;
	return true;
}

/* What it was told, and what became of what it had. */
static void expect_end(const char *why)
{
	raws_wait_closed(&raws);
	srig_until(&rig, is_gone());
	cr_assert_eq(rig.server->figures.expired, 1);
	cr_assert_eq(raws_resume(&raws), RF_ST_BAD_EPOCH);
	cr_assert(strstr(raws.resumed.reason, why), "%s", raws.resumed.reason);
	raws_cut(&raws);
}

SCENARIO(what_nobody_needs_it_keeps)
{
	struct session *session = begin_silent(scheme);
	uint32_t other = open_other();

	/* Others may come and go, and use its file. */
	OK(&handle, OP_WRITE(other, 0, 0, "x", 1));
	OK(&handle, { .code = RF_OP_LOCK,
		      .lock = { .open = other, .owner = 7, .flags = EX,
				.start = 10, .end = 19 } });
	cr_assert(session_is_silent(session));
	cr_assert_eq(RAWS_RUN(&raws, 1, 3, &handle,
			      OP_WRITE(file, 1, 0, "y", 1)), RF_ST_OK);
	srig_until(&rig, session->silent_ticks == 0);
	cr_assert_eq(DO(&handle, OP_LOCK(0, other, EX)), RF_ST_AGAIN);
	cr_assert_eq(rig.server->figures.expired, 0);
	raws_cut(&raws);
	end();
}

/*
 * Others get its lock when its end is on the platter: after a power cut it must not
 * come back to what they were given.
 */
static void expect_lock(uint32_t other)
{
	struct rf_args ask = { .code = RF_OP_LOCK_EVENTS };
	struct store *store = rig.server->store;
	struct rf_lock_event event;
	struct scall events;
	uint64_t ended;

	OK(&handle, OP_LOCK(5, other, EX | RF_LOCK_WAIT));
	cr_assert_eq(SRES(&call, 0, lock).waits, 1);
	scall_init(&events, &client);
	scall_add(&events, &ask);
	scall_submit(&events);
	srig_until(&rig, rig.server->figures.expired == 1);
	ended = atomic_load(&store->committed);
	srig_until(&rig, events.done);
	cr_assert_geq(atomic_load(&store->synced), ended);
	cr_assert_eq(events.err, 0);
	cr_assert(rf_lock_event_decode(&events.results[0].lock_events.events, 0,
				       &event));
	cr_assert_eq(event.wait, 5);
	cr_assert_eq(event.status, RF_ST_OK);
}

SCENARIO(who_waits_for_its_lock_gets_it)
{
	begin_silent(scheme);
	expect_lock(open_other());
	expect_end("wants what it has locked");
	end();
}

/* The same of a client that has gone. */
SCENARIO(who_waits_for_the_lock_of_one_that_stays_away_gets_it)
{
	uint32_t other;

	begin_silent(scheme);
	other = open_other();
	raws_cut(&raws);
	expect_lock(other);
	srig_until(&rig, is_gone());
	cr_assert_eq(raws_resume(&raws), RF_ST_BAD_EPOCH);
	raws_cut(&raws);
	end();
}

/* It waited already while the other one still spoke. */
SCENARIO(who_has_waited_for_long_gets_it_too)
{
	struct session *session = begin_silent(scheme);
	uint32_t other = open_other();

	cr_assert_eq(RAWS_RUN(&raws, 1, 3, &handle,
			      OP_WRITE(file, 0, 0, "x", 1)), RF_ST_OK);
	srig_until(&rig, session->silent_ticks == 0);
	OK(&handle, OP_LOCK(5, other, EX | RF_LOCK_WAIT));
	cr_assert_eq(SRES(&call, 0, lock).waits, 1);
	expect_end("wants what it has locked");
	cr_assert_eq(DO(&handle, OP_LOCK(0, other, EX)), RF_ST_OK);
	end();
}

SCENARIO(who_was_refused_gets_it_with_the_next_attempt)
{
	uint32_t other;

	begin_silent(scheme);
	other = open_other();
	cr_assert_eq(DO(&handle, OP_LOCK(0, other, EX)), RF_ST_AGAIN);
	expect_end("wants what it has locked");
	cr_assert_eq(DO(&handle, OP_LOCK(0, other, EX)), RF_ST_OK);
	end();
}

SCENARIO(who_finds_no_place_gets_its_place)
{
	struct sclient third;

	begin_silent(scheme);
	sclient_open(&rig, &third, "data");
	sclient_open(&rig, &client, "data");
	cr_assert_eq(rig.server->session_count, 2);
	expect_end("needs its place");
	sclient_bye(&third);
	end();
}

/* What waits for its own locks is its own business. */
SCENARIO(its_own_waits_are_no_reason)
{
	struct session *session = begin_silent(scheme);
	unsigned int ticks = session->silent_ticks;
	struct rf_args wait = OP_LOCK(5, file, EX | RF_LOCK_WAIT);

	wait.lock.owner = 8;
	cr_assert_eq(raws_run(&raws, 1, 3, &handle, &wait, 1), RF_ST_OK);
	cr_assert_eq(RAWS_RES(&raws, 0, lock).waits, 1);
	srig_until(&rig, session->silent_ticks == 0);
	srig_until(&rig, session->silent_ticks == ticks);
	cr_assert_eq(rig.server->figures.expired, 0);
	cr_assert_eq(RAWS_RUN(&raws, 1, 4, &handle,
			      OP_WRITE(file, 0, 0, "x", 1)), RF_ST_OK);
	raws_cut(&raws);
	srig_close(&rig);
}

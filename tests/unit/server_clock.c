/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_clock.c - clocks that jump: the time of day, and the time since boot when
 * a machine was suspended
 */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#define SUITE server_clock
#include "tests/unit/server_ops.h"
#include "tests/common/jumping_clock.h"
#include "tests/common/raw_session.h"

static struct raws raws;

/* A server with a client that has lost its connection. */
static void begin_away(const char *scheme)
{
	srig_init(&rig, scheme);
	srig_set(&rig, "lease-ms", "60000");
	srig_start(&rig);
	raws_open(&rig, &raws);
	raws_cut(&raws);
}

/* ---- the time of day ---------------------------------------------------- */

static bool is_later(const rf_time_t *a, const rf_time_t *b)
{
	return a->seconds > b->seconds || (a->seconds == b->seconds &&
					   a->nanoseconds > b->nanoseconds);
}

static rf_attr_t change_it(const rf_handle_t *handle, uint32_t open,
			   unsigned int how)
{
	if (how % 2) {
		OK(handle, { .code = RF_OP_SETATTR, .setattr = {
			   .valid = RF_SET_MODE, .mode = 0600 + how } });
		return SRES(&call, 0, setattr).attr;
	}
	OK(handle, OP_WRITE(open, 0, 0, "data", 4));
	return SRES(&call, 0, write).attr;
}

SCENARIO(ctime_and_counter_grow_whatever_the_clock_does)
{
	static const int64_t jumps[] = {
		0, 0, 86400, 86400, -86400, -86400, 0, 400000000, -1000000000,
		-1000000000, 0,
	};
	rf_attr_t before = { 0 };
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = smake(&client, "a", RW, &open);
	for (unsigned int i = 0; i < RF_ARRAY_SIZE(jumps); i++) {
		rf_attr_t after;

		day_jump_s = jumps[i];
		after = change_it(&handle, open, i);
		cr_assert_gt(after.change, before.change);
		cr_assert(is_later(&after.ctime, &before.ctime), "step %u", i);
		before = after;
	}
	/* Also over a restart. */
	sclient_bye(&client);
	srig_until(&rig, rig.server->session_count == 0);
	srig_stop(&rig);
	day_jump_s = -1500000000;
	srig_start(&rig);
	sclient_open(&rig, &client, "data");
	OK(&handle, { .code = RF_OP_SETATTR,
		      .setattr = { .valid = RF_SET_MODE, .mode = 0644 } });
	cr_assert(is_later(&SRES(&call, 0, setattr).attr.ctime,
			   &before.ctime));
	end();
}

SCENARIO(a_jump_of_the_day_ends_no_lease)
{
	begin_away(scheme);
	for (int i = 0; i < 2; i++) {
		day_jump_s = i ? -10000000 : 10000000;
		srig_turn(&rig);
		sclient_open(&rig, &client, "data");
		sclient_bye(&client);
	}
	cr_assert_eq(rig.server->figures.expired, 0);
	cr_assert_eq(raws_resume(&raws), RF_ST_OK);
	raws_cut(&raws);
	srig_close(&rig);
}

/* ---- suspended ---------------------------------------------------------- */

/* More than it takes to run all timers that are due. */
static void go_on_after(int64_t seconds)
{
	boot_jump_s += seconds;
	for (unsigned int i = 0; i < 10; i++)
		srig_turn(&rig);
}

/* Who was away could not come back while nobody was there to hear it. */
SCENARIO(a_lease_begins_anew_when_the_server_goes_on)
{
	begin_away(scheme);
	for (unsigned int i = 0; i < 3; i++) {
		go_on_after(50);	/* none is over, then */
		go_on_after(61);
		cr_assert(raws_server_side(&raws));
	}
	cr_assert_eq(rig.server->figures.expired, 0);
	cr_assert_eq(raws_resume(&raws), RF_ST_OK);
	raws_cut(&raws);
	srig_close(&rig);
}

/* A little at a time, as it goes by when the server is there. */
SCENARIO(a_lease_ends_although_the_server_was_suspended_before)
{
	begin_away(scheme);
	go_on_after(61);
	for (unsigned int i = 0; i < 11; i++) {
		cr_assert(raws_server_side(&raws), "step %u", i);
		go_on_after(5);
	}
	go_on_after(6);
	srig_until(&rig, !raws_server_side(&raws));
	cr_assert_eq(rig.server->figures.expired, 1);
	cr_assert_eq(raws_resume(&raws), RF_ST_BAD_EPOCH);
	raws_cut(&raws);
	srig_close(&rig);
}

SCENARIO(a_grace_period_begins_anew_when_the_server_goes_on)
{
	begin_away(scheme);
	srig_stop(&rig);
	srig_start(&rig);
	go_on_after(61);
	cr_assert(server_in_grace(rig.server));
	cr_assert_gt(grace_left_ms(rig.server), 50000);
	cr_assert_eq(raws_resume(&raws), RF_ST_OK);
	raws_cut(&raws);
	srig_close(&rig);
}

/* Who is connected, and says nothing meanwhile, has done no wrong. */
Test(SUITE, a_session_with_a_connection_outlives_a_suspend)
{
	rf_handle_t handle;
	uint32_t open;

	srig_init(&rig, "loop");
	srig_set(&rig, "lease-ms", "60000");
	srig_start(&rig);
	sclient_open(&rig, &client, "data");
	handle = smake(&client, "a", RW, &open);
	boot_jump_s = 3600;
	OK(&handle, OP_WRITE(open, 0, 0, "data", 4));
	cr_assert_eq(rig.server->figures.expired, 0);
	cr_assert_eq(rig.server->figures.lost, 0);
	end();
}

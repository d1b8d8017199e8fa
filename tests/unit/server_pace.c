/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_pace.c - which data the reactor stores by itself
 */
#include "storage-server/pace.h"

#include <criterion/criterion.h>

enum { KIB = 1024, MIB = 1024 * 1024 };

static const uint64_t ms = 1000000;

Test(server_pace, so_many_bytes_in_one_turn)
{
	struct pace pace = { .turn_ns = 0 };

	cr_assert(pace_take(&pace, 100, 600 * KIB, MIB));
	cr_assert(pace_take(&pace, 100, 400 * KIB, MIB));
	cr_assert_not(pace_take(&pace, 100, 100 * KIB, MIB));
	cr_assert(pace_take(&pace, 100, PACE_SMALL, MIB), "small ones are free");
	cr_assert(pace_take(&pace, 101, MIB, MIB), "the next turn");
	cr_assert_not(pace_take(&pace, 102, MIB + 1, MIB));
}

Test(server_pace, none_but_small_ones_if_the_limit_is_0)
{
	struct pace pace = { .turn_ns = 0 };

	cr_assert_not(pace_take(&pace, 1, PACE_SMALL + 1, 0));
	cr_assert(pace_take(&pace, 1, PACE_SMALL, 0));
}

Test(server_pace, a_slow_store_leaves_the_next_to_workers_for_a_while)
{
	struct pace pace = { .turn_ns = 0 };
	uint64_t end = 10 * ms + PACE_SLOW_MS * ms;

	pace_took(&pace, 10 * ms, end - 1);
	cr_assert(pace_take(&pace, end, 1, MIB), "it was just quick enough");
	pace_took(&pace, 10 * ms, end);
	cr_assert_eq(pace.slow_stores, 1);
	cr_assert_not(pace_take(&pace, end, 1, MIB), "small ones, too");
	cr_assert_not(pace_take(&pace, end + PACE_PAUSE_MS * ms - 1, 1, MIB));
	cr_assert(pace_take(&pace, end + PACE_PAUSE_MS * ms, MIB, MIB));
}

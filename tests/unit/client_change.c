/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_change.c - the kernel's pages against the change counter
 */
#include "fuse-client/change.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static struct change change;

/* Pages of value 10 are with the kernel. */
static void with_pages(void)
{
	change_init(&change, 10);
	change_read_begin(&change);
	change_read_end(&change, 10);
}

TestSuite(client_change, .init = with_pages);

Test(client_change, pages_of_the_newest_value_are_exact)
{
	cr_assert(change_is_exact(&change));
}

Test(client_change, somebody_elses_change_makes_pages_old_until_dropped)
{
	change_seen(&change, 11);
	cr_assert_not(change_is_exact(&change));
	change_drop(&change);
	cr_assert(change_is_exact(&change));
}

Test(client_change, without_pages_nothing_is_old)
{
	change_init(&change, 10);
	change_seen(&change, 11);
	cr_assert(change_is_exact(&change));
	change_read_begin(&change);
	change_read_end(&change, 11);
	cr_assert(change_is_exact(&change));
}

Test(client_change, own_changes_carry_the_pages_along)
{
	change_own_begin(&change, true);
	change_own_end(&change, 10, 11);
	change_own_begin(&change, true);
	change_own_end(&change, 11, 14);
	change_seen(&change, 14);
	cr_assert(change_is_exact(&change));
}

Test(client_change, own_changes_may_be_answered_in_another_order)
{
	for (int i = 0; i < 4; i++)
		change_own_begin(&change, true);
	change_own_end(&change, 11, 12);
	change_own_end(&change, 12, 13);
	cr_assert_not(change_is_exact(&change));
	change_own_end(&change, 10, 11);
	cr_assert(change_is_exact(&change));
	change_own_end(&change, 13, 14);
	cr_assert(change_is_exact(&change));
}

Test(client_change, a_change_between_two_of_ours_is_noticed)
{
	change_own_begin(&change, true);
	change_own_end(&change, 10, 11);
	change_own_begin(&change, true);
	change_own_end(&change, 12, 13);
	cr_assert_not(change_is_exact(&change));
	change_drop(&change);
	cr_assert(change_is_exact(&change));
}

Test(client_change, a_read_that_shows_a_newer_version_makes_pages_old)
{
	change_read_begin(&change);
	change_read_end(&change, 11);
	cr_assert_not(change_is_exact(&change));
}

Test(client_change, a_read_of_old_that_the_drop_waited_for_is_no_matter)
{
	change_read_begin(&change);
	change_seen(&change, 11);
	change_drop(&change);
	change_read_end(&change, 10);
	cr_assert(change_is_exact(&change));
}

Test(client_change, a_read_in_flight_counts_as_pages)
{
	change_init(&change, 10);
	change_read_begin(&change);
	change_seen(&change, 11);
	cr_assert_not(change_is_exact(&change));
	change_read_end(&change, 10);
	cr_assert_not(change_is_exact(&change));
}

Test(client_change, a_read_that_meets_our_own_change_leaves_doubt)
{
	change_own_begin(&change, true);
	change_read_begin(&change);
	change_read_end(&change, 10);
	change_own_end(&change, 10, 11);
	cr_assert_not(change_is_exact(&change));
	change_drop(&change);
	cr_assert(change_is_exact(&change));
}

Test(client_change, a_change_that_may_have_happened_leaves_doubt)
{
	change_own_begin(&change, true);
	change_own_end(&change, 0, 0);
	cr_assert_not(change_is_exact(&change));
}

Test(client_change, a_counter_that_may_have_gone_back_leaves_doubt)
{
	change_doubt(&change);
	cr_assert_not(change_is_exact(&change));
	/* It may come to the value that the pages have, for other contents. */
	change_seen(&change, 10);
	cr_assert_not(change_is_exact(&change));
	change_drop(&change);
	cr_assert(change_is_exact(&change));
	/* What goes on from there is below what was known once. */
	change_doubt(&change);
	change_drop(&change);
	change_read_begin(&change);
	change_read_end(&change, 7);
	change_drop(&change);
	cr_assert(change_is_exact(&change));
	change_seen(&change, 8);
	change_read_begin(&change);
	change_read_end(&change, 8);
	cr_assert(change_is_exact(&change));
	change_seen(&change, 9);
	cr_assert_not(change_is_exact(&change));
}

Test(client_change, without_pages_there_is_nothing_to_doubt)
{
	change_init(&change, 10);
	change_doubt(&change);
	cr_assert(change_is_exact(&change));
}

Test(client_change, answers_older_than_a_drop_change_nothing)
{
	change_own_begin(&change, false);
	change_seen(&change, 12);
	change_drop(&change);
	change_own_end(&change, 10, 11);
	cr_assert(change_is_exact(&change));
	cr_assert_eq(change.newest, 12);
}

/*
 * Against a model: a server's counter, a cached page that is right or wrong.
 * Whenever the rules say exact, the page must be as the server has it.
 */
enum { STEPS = 20000, IN_FLIGHT = 6 };

struct op {
	enum { NONE, READ, OWN, ASK } kind;
	uint64_t before, after;
	uint64_t data;		/* of the page, when the server ran it */
	bool ran, is_locked;
};

static struct op ops[IN_FLIGHT];
static uint64_t counter, data, page;
static bool has_page, page_is_locked;

static void run_on_server(struct op *op)
{
	op->before = counter;
	if (op->kind == OWN)
		data = ++counter;
	op->after = counter;
	op->data = data;
	op->ran = true;
}

/* The kernel drops the page, unless it is locked: then it would wait. */
static bool drop(void)
{
	if (page_is_locked)
		return false;
	change_drop(&change);
	has_page = false;
	return true;
}

static void answer(struct op *op)
{
	switch (op->kind) {
	case READ:
		page = op->data;
		has_page = true;
		page_is_locked = false;
		change_read_end(&change, op->after);
		break;
	case OWN:
		change_own_end(&change, op->before, op->after);
		break;
	default:
		change_seen(&change, op->after);
		if (!change_is_exact(&change) && !drop())
			return;		/* waits */
		cr_assert(!has_page || page >= op->data,
			  "an older page is left than what was shown");
	}
	op->kind = NONE;
}

static void begin(struct op *op)
{
	unsigned int what = (unsigned int)rand() % 3;

	*op = (struct op){ .kind = NONE };
	if (what == 0 && !has_page && !page_is_locked) {
		op->kind = READ;
		page_is_locked = true;
		change_read_begin(&change);
	} else if (what == 1 && !page_is_locked) {
		/* A write drops the page it covers: as O_DIRECT does. */
		op->kind = OWN;
		has_page = false;
		change_own_begin(&change, false);
	} else if (what == 2) {
		op->kind = ASK;
	}
}

Test(client_change, no_order_of_events_leaves_an_old_page_behind_an_answer)
{
	unsigned int seed = (unsigned int)time(NULL);

	printf("seed %u\n", seed);
	srand(seed);
	counter = data = 10;
	change_init(&change, counter);
	for (int step = 0; step < STEPS; step++) {
		struct op *op = &ops[rand() % IN_FLIGHT];

		if (rand() % 16 == 0)
			data = ++counter;	/* somebody else */
		if (rand() % 16 == 0 && !page_is_locked)
			has_page = false;	/* memory is short */
		if (op->kind == NONE)
			begin(op);
		else if (!op->ran)
			run_on_server(op);
		else
			answer(op);
	}
}

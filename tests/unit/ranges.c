/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of locks against a model that has one mark for each byte.
 */
#include "libproto/ranges.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BYTES = 48, RANGES = 64, ROUNDS = 20000 };

static struct rf_range pool[RANGES];
static struct rf_list spare, ranges;

static void begin(void)
{
	rf_list_init(&spare);
	rf_list_init(&ranges);
	for (unsigned int i = 0; i < RANGES; i++)
		rf_list_push(&spare, &pool[i].link);
}

static unsigned int length(const struct rf_list *list)
{
	const struct rf_list *at;
	unsigned int n = 0;

	rf_list_for_each(at, list)
		n++;
	return n;
}

static struct rf_range wish_of(uint64_t start, uint64_t end, bool is_exclusive)
{
	return (struct rf_range){ .start = start, .end = end,
				  .is_exclusive = is_exclusive };
}

/* ranges are sorted, apart, merged, and say what model says. */
static void expect(const char *model, unsigned int round)
{
	char got[BYTES];
	const struct rf_range *last = NULL;
	struct rf_list *at;

	memset(got, 0, sizeof(got));
	rf_list_for_each(at, &ranges) {
		const struct rf_range *range =
			rf_container_of(at, struct rf_range, link);

		cr_assert_leq(range->start, range->end);
		cr_assert_lt(range->end, BYTES);
		if (last) {
			cr_assert_gt(range->start, last->end);
			cr_assert(range->start > last->end + 1 ||
				  range->is_exclusive != last->is_exclusive,
				  "round %u: neighbours not merged", round);
		}
		memset(got + range->start, range->is_exclusive ? 2 : 1,
		       range->end - range->start + 1);
		last = range;
	}
	cr_assert(memcmp(got, model, sizeof(got)) == 0, "round %u", round);
	cr_assert_eq(length(&ranges) + length(&spare), RANGES);
}

static unsigned int seed_of_this_run(void)
{
	const char *text = getenv("SEED");
	unsigned int seed = text ? (unsigned int)atoi(text)
				 : (unsigned int)time(NULL);

	fprintf(stderr, "SEED=%u\n", seed);
	return seed;
}

Test(ranges, set_and_clear_are_as_the_model)
{
	unsigned int seed = seed_of_this_run();
	char model[BYTES] = { 0 };

	begin();
	for (unsigned int round = 0; round < ROUNDS; round++) {
		unsigned int a = (unsigned int)rand_r(&seed) % BYTES;
		unsigned int b = (unsigned int)rand_r(&seed) % BYTES;
		unsigned int start = a < b ? a : b, end = a < b ? b : a;
		int what = rand_r(&seed) % 3;
		struct rf_range wish = wish_of(start, end, what == 2);
		unsigned int before = length(&ranges);
		bool splits = rf_ranges_splits(&ranges, start, end);

		if (what == 0)
			rf_ranges_clear(&ranges, start, end, &spare);
		else
			rf_ranges_set(&ranges, &wish, &spare);
		memset(model + start, what, end - start + 1);
		expect(model, round);
		if (what == 0)
			cr_assert_eq(length(&ranges) > before, splits,
				     "round %u", round);
	}
}

Test(ranges, a_conflict_is_what_the_model_says)
{
	unsigned int seed = seed_of_this_run();
	uint64_t steps = 0;

	for (unsigned int round = 0; round < ROUNDS / 10; round++) {
		char model[BYTES] = { 0 };

		begin();
		for (unsigned int i = 0; i < 6; i++) {
			unsigned int a = (unsigned int)rand_r(&seed) % BYTES;
			unsigned int b = a + (unsigned int)rand_r(&seed) % 6;
			struct rf_range set;

			b = b < BYTES ? b : BYTES - 1;
			set = wish_of(a, b, rand_r(&seed) % 2);
			rf_ranges_set(&ranges, &set, &spare);
			memset(model + a, set.is_exclusive ? 2 : 1, b - a + 1);
		}
		for (unsigned int i = 0; i < 20; i++) {
			unsigned int a = (unsigned int)rand_r(&seed) % BYTES;
			unsigned int b = a + (unsigned int)rand_r(&seed) % 9;
			struct rf_range wish;
			bool is_free = true;

			b = b < BYTES ? b : BYTES - 1;
			wish = wish_of(a, b, rand_r(&seed) % 2);
			for (unsigned int at = a; at <= b; at++)
				is_free &= model[at] == 0 ||
					   (model[at] == 1 &&
					    !wish.is_exclusive);
			cr_assert_eq(rf_ranges_conflict(&ranges, &wish,
							&steps) == NULL,
				     is_free, "round %u", round);
		}
	}
}

Test(ranges, the_ends_of_all_offsets_work)
{
	struct rf_range all = wish_of(0, RF_RANGE_END, true);
	struct rf_range last = wish_of(RF_RANGE_END, RF_RANGE_END, false);
	const struct rf_range *range;
	uint64_t steps = 0;

	begin();
	rf_ranges_set(&ranges, &all, &spare);
	rf_ranges_set(&ranges, &last, &spare);
	cr_assert_eq(length(&ranges), 2);
	range = rf_ranges_conflict(&ranges, &last, &steps);
	cr_assert_null(range);
	cr_assert_eq(steps, 2);
	rf_ranges_set(&ranges, &all, &spare);
	cr_assert_eq(length(&ranges), 1);
	rf_ranges_clear(&ranges, RF_RANGE_END, RF_RANGE_END, &spare);
	range = rf_container_of(ranges.next, struct rf_range, link);
	cr_assert_eq(range->end, RF_RANGE_END - 1);
	rf_ranges_clear(&ranges, 0, 0, &spare);
	cr_assert_eq(range->start, 1);
	rf_ranges_clear(&ranges, 0, RF_RANGE_END, &spare);
	cr_assert(rf_list_is_empty(&ranges));
	cr_assert_eq(length(&spare), RANGES);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_given.c - which times, sizes and rights does the kernel have of an inode?
 */
#include "fuse-client/given.h"

#include <criterion/criterion.h>

static rf_attr_t attr_of(int64_t mtime, uint64_t size)
{
	return (rf_attr_t){ .mtime.seconds = mtime, .size = size };
}

static struct given given;
static rf_attr_t a, b, c;

static void init(void)
{
	given = (struct given){ 0 };
	a = attr_of(1, 10);
	b = attr_of(2, 10);
	c = attr_of(2, 11);
}

TestSuite(client_given, .init = init);

Test(client_given, before_anything_was_given_nothing_is_known)
{
	cr_assert_not(given_differs(&given, &a));
}

Test(client_given, another_mtime_or_size_differs)
{
	given_note(&given, &a, true);
	cr_assert_not(given_differs(&given, &a));
	cr_assert(given_differs(&given, &b));
	given_note(&given, &b, true);
	cr_assert(given_differs(&given, &c));
	cr_assert(given_differs(&given, &a));
}

Test(client_given, after_an_answer_that_may_be_ignored_there_are_two)
{
	given_note(&given, &a, true);
	given_note(&given, &b, false);
	cr_assert_not(given_differs(&given, &a));
	cr_assert_not(given_differs(&given, &b));
	cr_assert(given_differs(&given, &c));
}

Test(client_given, after_two_of_them_nothing_is_known)
{
	given_note(&given, &a, true);
	given_note(&given, &b, false);
	given_note(&given, &c, false);
	cr_assert_not(given_differs(&given, &c));
	cr_assert_eq(given.count, 0);
}

Test(client_given, a_sure_answer_ends_the_doubt)
{
	given_note(&given, &a, true);
	given_note(&given, &b, false);
	given_note(&given, &c, true);
	cr_assert(given_differs(&given, &a));
	cr_assert(given_differs(&given, &b));
}

Test(client_given, the_same_again_leaves_no_doubt)
{
	given_note(&given, &a, true);
	given_note(&given, &a, false);
	cr_assert_eq(given.count, 1);
}

Test(client_given, an_answer_is_taken_unless_something_came_since_its_request)
{
	given_disturb(&given, 5);
	cr_assert(given_is_taken(&given, 6));
	cr_assert_not(given_is_taken(&given, 5));
	cr_assert_not(given_is_taken(&given, 4));
}

Test(client_given, a_size_is_known_only_if_all_that_it_may_be_agree)
{
	rf_attr_t other_size = a;

	other_size.size++;
	cr_assert_not(given_has_size(&given, &a));
	given_note(&given, &a, true);
	cr_assert(given_has_size(&given, &a));
	cr_assert_not(given_has_size(&given, &other_size));
	given_note(&given, &other_size, false);
	cr_assert_not(given_has_size(&given, &a));
	cr_assert_not(given_has_size(&given, &other_size));
}

Test(client_given, rights_are_known_only_if_they_were_surely_taken)
{
	rf_attr_t of_alice = { .mode = 0100644, .uid = 1, .gid = 2 };
	rf_attr_t of_bob = { .mode = 0100644, .uid = 3, .gid = 2 };

	cr_assert_not(given_has_rights(&given, &of_alice));
	given_note(&given, &of_alice, true);
	cr_assert(given_has_rights(&given, &of_alice));
	cr_assert_not(given_has_rights(&given, &of_bob));
	given_note(&given, &of_alice, false);
	cr_assert(given_has_rights(&given, &of_alice));
	given_note(&given, &of_bob, false);
	cr_assert_not(given_has_rights(&given, &of_alice));
	cr_assert_not(given_has_rights(&given, &of_bob));
	given_note(&given, &of_bob, true);
	cr_assert(given_has_rights(&given, &of_bob));
}

Test(client_given, own_changes_make_the_kernel_s_size_larger_without_attributes)
{
	given_note(&given, &a, true);
	given_grow(&given, 11);
	cr_assert_not(given_has_size(&given, &a));
	cr_assert(given_has_size(&given, &c));
	given_grow(&given, 5);
	cr_assert(given_has_size(&given, &c));
	given_note(&given, &a, false);
	given_grow(&given, 11);
	cr_assert(given_has_size(&given, &c));
}

Test(client_given, a_read_that_ends_early_may_make_it_smaller)
{
	rf_attr_t longer = attr_of(3, 10);

	given_note(&given, &a, true);
	cr_assert_not(given_cut(&given, 10));
	cr_assert_eq(given.count, 1);
	cr_assert(given_cut(&given, 5));
	cr_assert_not(given_has_size(&given, &a));
	cr_assert(given_differs(&given, &longer));
	cr_assert(given_cut(&given, 5));
	cr_assert_eq(given.count, 0);
	cr_assert(given_cut(&given, 5));
}

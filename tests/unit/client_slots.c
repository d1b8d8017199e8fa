/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_slots.c - bookkeeping of write slots
 */
#include "fuse-client/slots.h"

#include <criterion/criterion.h>
#include <errno.h>

enum { SLOT_SIZE = 1000, NOW = 1000 };

static struct slots slots;

static rf_grants_t grants_of(uint32_t first_id, uint16_t count, uint32_t key)
{
	rf_grants_t grants = { .count = count };

	for (uint16_t i = 0; i < count; i++)
		grants.v[i] = (struct rf_grant){
			.id = first_id + i, .rkey = key, .size = SLOT_SIZE };
	return grants;
}

static void with_three(void)
{
	rf_grants_t three = grants_of(1, 3, 100);

	memset(&slots, 0, sizeof(slots));
	cr_assert_eq(slots_add(&slots, &three, NOW), 3);
}

TestSuite(client_slots, .init = with_three);

Test(client_slots, a_message_takes_as_many_as_its_data_need)
{
	rf_grants_t taken;

	cr_assert_eq(slots_take(&slots, SLOT_SIZE, &taken), 1);
	cr_assert_eq(slots_take(&slots, SLOT_SIZE + 1, &taken), 2);
	cr_assert_neq(taken.v[0].id, taken.v[1].id);
	cr_assert_eq(slots_take(&slots, 1, &taken), 0, "all are taken");
}

Test(client_slots, too_much_takes_none)
{
	rf_grants_t taken;

	cr_assert_eq(slots_reach(&slots), 3 * SLOT_SIZE);
	cr_assert_eq(slots_take(&slots, 3 * SLOT_SIZE + 1, &taken), 0);
	cr_assert_eq(slots.free_count, 3);
}

Test(client_slots, they_come_back_with_the_key_of_the_answer)
{
	rf_grants_t taken, rearmed;

	slots_take(&slots, SLOT_SIZE, &taken);
	rearmed = taken;
	rearmed.v[0].rkey = 101;
	cr_assert_eq(slots_return(&slots, &taken, &rearmed, NOW), 0);
	slots_take(&slots, SLOT_SIZE, &taken);
	cr_assert_eq(taken.v[0].id, rearmed.v[0].id);
	cr_assert_eq(taken.v[0].rkey, 101);
}

Test(client_slots, those_that_do_not_come_back_are_gone)
{
	rf_grants_t taken, rearmed = { .count = 0 };

	slots_take(&slots, 2 * SLOT_SIZE, &taken);
	cr_assert_eq(slots_return(&slots, &taken, &rearmed, NOW), 0);
	cr_assert_eq(slots.count, 1);
	cr_assert_eq(slots_reach(&slots), SLOT_SIZE);
}

Test(client_slots, an_answer_can_not_bring_others)
{
	rf_grants_t taken, rearmed = grants_of(9, 1, 1);

	slots_take(&slots, SLOT_SIZE, &taken);
	cr_assert_eq(slots_return(&slots, &taken, &rearmed, NOW), -EBADMSG);
	rearmed = grants_of(1, 3, 1);
	cr_assert_eq(slots_return(&slots, &taken, &rearmed, NOW), -EBADMSG);
	cr_assert_eq(slots.free_count, 2);
}

Test(client_slots, one_can_not_come_back_twice)
{
	rf_grants_t taken, rearmed;

	slots_take(&slots, 2 * SLOT_SIZE, &taken);
	rearmed = taken;
	rearmed.v[1] = rearmed.v[0];
	cr_assert_eq(slots_return(&slots, &taken, &rearmed, NOW), -EBADMSG);
	cr_assert_eq(slots.free_count, 1);
}

Test(client_slots, a_message_that_never_left_gives_them_back_as_they_were)
{
	rf_grants_t taken;

	slots_take(&slots, 3 * SLOT_SIZE, &taken);
	slots_untake(&slots, &taken);
	cr_assert_eq(slots.free_count, 3);
	cr_assert_eq(slots.count, 3);
}

Test(client_slots, those_that_lay_free_too_long_are_given_up)
{
	rf_grants_t taken, rearmed;
	uint32_t ids[SLOTS_MAX];

	/* One is used, and comes back younger. */
	slots_take(&slots, SLOT_SIZE, &taken);
	rearmed = taken;
	cr_assert_eq(slots_return(&slots, &taken, &rearmed, NOW + 10), 0);
	cr_assert_eq(slots_give_up(&slots, NOW, ids), 0);
	cr_assert_eq(slots_give_up(&slots, NOW + 1, ids), 2);
	cr_assert_neq(ids[0], ids[1]);
	cr_assert_eq(slots.free_count, 1);
	cr_assert_eq(slots.count, 1);
	cr_assert_eq(slots_take(&slots, SLOT_SIZE, &taken), 1);
	cr_assert_eq(taken.v[0].id, rearmed.v[0].id);
	cr_assert_neq(taken.v[0].id, ids[0]);
	cr_assert_neq(taken.v[0].id, ids[1]);
	/* What is taken is not touched; what never left is of unknown age. */
	cr_assert_eq(slots_give_up(&slots, NOW + 100, ids), 0);
	slots_untake(&slots, &taken);
	cr_assert_eq(slots_give_up(&slots, 1, ids), 1);
	cr_assert_eq(slots.count, 0);
}

Test(client_slots, there_is_a_most)
{
	rf_grants_t many;
	unsigned int added = 0;

	memset(&slots, 0, sizeof(slots));
	for (uint32_t i = 0; i < SLOTS_MAX; i += 10) {
		many = grants_of(i, 10, 1);
		added += slots_add(&slots, &many, NOW);
	}
	cr_assert_eq(added, SLOTS_MAX);
	cr_assert_eq(slots.count, SLOTS_MAX);
}

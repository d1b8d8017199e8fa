/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_identity.c - the identities that a session knows
 */
#include "fuse-client/client.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* A pid that has no /proc entry: such a caller has no groups. */
enum { NOBODY = 0x7ffffff0 };

static struct identities *ids;
static uint64_t now = 1000000000;

static void setup(void)
{
	cr_assert_eq(identities_create(&ids), 0);
}

static void teardown(void)
{
	identities_destroy(ids);
}

TestSuite(identity, .init = setup, .fini = teardown, .timeout = 60);

static uint16_t get(uid_t uid, gid_t gid, pid_t pid, bool *is_new,
		    struct rf_identity_args *args)
{
	uint16_t index;
	int err = identities_get(ids, now, uid, gid, pid, &index, is_new, args);

	cr_assert_eq(err, 0, "%s", strerror(-err));
	return index;
}

/* ---- /proc/PID/status ---------------------------------------------------- */

Test(identity, groups_are_read_from_the_text_of_proc)
{
	uint32_t groups[4];

	cr_expect_eq(identity_parse_groups("Name:\tx\nGroups:\t4 20 1000 \n"
					   "NStgid:\t1\n", groups, 4), 3);
	cr_expect_eq(groups[0], 4);
	cr_expect_eq(groups[1], 20);
	cr_expect_eq(groups[2], 1000);
	cr_expect_eq(identity_parse_groups("Name:\tx\nGroups:\t\nA:\t1\n",
					   groups, 4), 0);
	cr_expect_eq(identity_parse_groups("Name:\tx\n", groups, 4), 0);
	cr_expect_eq(identity_parse_groups("", groups, 4), 0);
	cr_expect_eq(identity_parse_groups("N:\tx\nGroups:\t4294967295", groups,
					   4), 1);
	cr_expect_eq(groups[0], UINT32_MAX);
}

Test(identity, more_groups_than_there_is_room_for_are_cut_and_said)
{
	uint32_t groups[3] = { 0, 0, 77 };

	cr_expect_eq(identity_parse_groups("N:\tx\nGroups:\t1 2 3 \n", groups,
					   2), -E2BIG);
	cr_expect_eq(groups[0], 1);
	cr_expect_eq(groups[1], 2);
	cr_expect_eq(groups[2], 77);
}

Test(identity, a_process_name_can_not_feign_groups)
{
	uint32_t groups[4];

	/* The kernel writes a newline in a name as backslash n. */
	cr_expect_eq(identity_parse_groups("Name:\ta\\nGroups:\t0\n"
					   "Groups:\t5 \n", groups, 4), 1);
	cr_expect_eq(groups[0], 5);
}

/* ---- the table ----------------------------------------------------------- */

Test(identity, first_sight_is_new_and_the_second_is_not)
{
	struct rf_identity_args args;
	bool is_new;
	uint16_t a = get(10, 20, NOBODY, &is_new, &args);

	cr_expect(is_new);
	cr_expect_eq(args.index, a);
	cr_expect_eq(args.uid, 10);
	cr_expect_eq(args.gid, 20);
	cr_expect_eq(args.groups.size, 0);
	cr_expect_eq(get(10, 20, NOBODY, &is_new, &args), a);
	cr_expect_not(is_new);
	/* Another process with equal rights shares the index. */
	cr_expect_eq(get(10, 20, NOBODY + 1, &is_new, &args), a);
	cr_expect_not(is_new);
	/* Even when what was read of it is too old to believe. */
	now += 2 * IDENTITY_CACHE_MS * 1000000ull;
	cr_expect_eq(get(10, 20, NOBODY, &is_new, &args), a);
	cr_expect_not(is_new);
}

Test(identity, other_uid_or_gid_is_another_identity)
{
	struct rf_identity_args args;
	bool is_new;
	uint16_t a = get(10, 20, NOBODY, &is_new, &args);
	uint16_t b = get(11, 20, NOBODY, &is_new, &args);
	uint16_t c;

	cr_expect(is_new);
	c = get(10, 21, NOBODY, &is_new, &args);
	cr_expect(is_new);
	cr_expect(a != b && b != c && a != c);
}

Test(identity, groups_of_a_living_process_are_found)
{
	gid_t wanted[] = { 7, 3000000000u, 12 };
	struct rf_identity_args args;
	int go[2], stop[2];
	bool is_new;
	char byte;
	pid_t child;

	if (geteuid() != 0)
		cr_skip_test("setgroups needs root");
	cr_assert_eq(pipe(go), 0);
	cr_assert_eq(pipe(stop), 0);
	child = fork();
	if (child == 0) {
		close(stop[1]);
		if (setgroups(3, wanted) < 0 || write(go[1], "", 1) != 1)
			_exit(1);
		_exit(read(stop[0], &byte, 1) == 0 ? 0 : 1);
	}
	cr_assert_eq(read(go[0], &byte, 1), 1);
	get(0, 0, child, &is_new, &args);
	cr_expect(is_new);
	cr_expect_eq(args.groups.size, 12);
	/* The kernel keeps them sorted. */
	cr_expect_eq(rf_blob_u32(&args.groups, 0), 7);
	cr_expect_eq(rf_blob_u32(&args.groups, 1), 12);
	cr_expect_eq(rf_blob_u32(&args.groups, 2), 3000000000u);
	/* Same uid and gid without groups is somebody else. */
	get(0, 0, NOBODY, &is_new, &args);
	cr_expect(is_new);
	close(stop[1]);
	cr_assert_eq(waitpid(child, NULL, 0), child);
}

Test(identity, the_least_recently_used_gives_way_but_never_one_in_use)
{
	struct rf_identity_args args;
	uint16_t first, second, index;
	bool is_new;

	first = get(0, 0, NOBODY, &is_new, &args);
	second = get(1, 0, NOBODY, &is_new, &args);
	for (uid_t uid = 2; uid < RF_IDENTITIES_MAX; uid++)
		get(uid, 0, NOBODY, &is_new, &args);
	cr_assert_eq(identities_get(ids, now, 5000, 0, NOBODY, &index, &is_new,
				    &args), -EUSERS);
	identities_put(ids, second);
	identities_put(ids, first);
	cr_expect_eq(get(5000, 0, NOBODY, &is_new, &args), second);
	cr_expect(is_new);
	/* The one that lost its place is new when it comes back. */
	cr_expect_eq(get(1, 0, NOBODY, &is_new, &args), first);
	cr_expect(is_new);
}

Test(identity, an_index_lent_twice_is_held_until_both_are_back)
{
	struct rf_identity_args args;
	uint16_t shared, index;
	bool is_new;

	shared = get(0, 0, NOBODY, &is_new, &args);
	get(0, 0, NOBODY, &is_new, &args);
	for (uid_t uid = 1; uid < RF_IDENTITIES_MAX; uid++)
		get(uid, 0, NOBODY, &is_new, &args);
	identities_put(ids, shared);
	cr_expect_eq(identities_get(ids, now, 5000, 0, NOBODY, &index, &is_new,
				    &args), -EUSERS);
	identities_put(ids, shared);
	cr_expect_eq(get(5000, 0, NOBODY, &is_new, &args), shared);
}

/*
 * A model: which identity each index stands for, as the server would know it
 * from the registrations.  Whatever order of gets and puts, an index must stand
 * for who asked.
 */
Test(identity, an_index_always_stands_for_who_asked)
{
	static uid_t registered[RF_IDENTITIES_MAX];
	static uint16_t held[512];
	unsigned int seed = (unsigned int)getpid(), count = 0;
	struct rf_identity_args args;
	bool is_new;

	fprintf(stderr, "seed %u\n", seed);
	for (int step = 0; step < 200000; step++) {
		now += (uint64_t)(rand_r(&seed) % 1000) * 1000;
		if (count == RF_ARRAY_SIZE(held) ||
		    (count > 0 && rand_r(&seed) % 2)) {
			size_t at = (size_t)rand_r(&seed) % count;

			identities_put(ids, held[at]);
			held[at] = held[--count];
			continue;
		}
		uid_t uid = (uid_t)(rand_r(&seed) % 3000);
		uint16_t index = get(uid, 5, NOBODY + (int)(uid % 7), &is_new,
				     &args);

		if (is_new) {
			cr_assert_eq(args.uid, uid);
			for (unsigned int i = 0; i < count; i++)
				cr_assert_neq(held[i], index);
			registered[index] = uid;
		}
		cr_assert_eq(registered[index], uid, "step %d", step);
		held[count++] = index;
	}
}

/* ---- another server ------------------------------------------------------- */

Test(identity, idle_ones_are_new_again_after_they_were_forgotten)
{
	struct rf_identity_args args;
	bool is_new;
	uint16_t held = get(10, 20, NOBODY, &is_new, &args);
	uint16_t idle = get(11, 20, NOBODY, &is_new, &args);

	identities_put(ids, idle);
	identities_forget_idle(ids);
	cr_expect_eq(get(10, 20, NOBODY, &is_new, &args), held);
	cr_expect_not(is_new, "it is held, so it is registered by who tells");
	get(11, 20, NOBODY, &is_new, &args);
	cr_expect(is_new);
	cr_expect_eq(args.uid, 11);
	get(11, 20, NOBODY, &is_new, &args);
	cr_expect_not(is_new);
}

Test(identity, one_that_was_refused_is_told_again)
{
	struct rf_identity_args args;
	uint16_t first, again;
	bool is_new;

	first = get(10, 20, NOBODY, &is_new, &args);
	cr_expect(is_new);
	identities_refused(ids, first);
	again = get(10, 20, NOBODY, &is_new, &args);
	cr_expect(is_new, "it is not known to the server");
	cr_expect_neq(again, first, "who holds the first may still use it");
	identities_put(ids, first);
	get(10, 20, NOBODY, &is_new, &args);
	cr_expect_not(is_new);
}

Test(identity, those_in_use_are_told_each_once)
{
	struct rf_identity_args args;
	bool is_new, seen[4] = { false };
	uint32_t at = 0;

	for (uid_t uid = 0; uid < 4; uid++) {
		uint16_t index = get(100 + uid, 5, NOBODY, &is_new, &args);

		if (uid == 2)
			identities_put(ids, index);
	}
	while (identities_next_used(ids, &at, &args)) {
		cr_assert_geq(args.uid, 100);
		cr_assert_lt(args.uid, 104);
		cr_expect_not(seen[args.uid - 100]);
		seen[args.uid - 100] = true;
		cr_expect_eq(args.gid, 5);
	}
	cr_expect(seen[0] && seen[1] && !seen[2] && seen[3]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The server's pure tables against models: marks, grants, opens. */
#include "storage-server/busy.h"
#include "storage-server/exec.h"
#include "storage-server/grants.h"
#include "storage-server/open_table.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static unsigned int seed(void)
{
	const char *text = getenv("RF_SEED");
	unsigned int value = text ? (unsigned int)strtoul(text, NULL, 10)
				  : (unsigned int)time(NULL);

	printf("seed %u\n", value);
	fflush(stdout);
	srand(value);
	return value;
}

static unsigned int pick(unsigned int below)
{
	return (unsigned int)rand() % below;
}

/* ---- marks -------------------------------------------------------------- */

static struct busy busy;

Test(server_tables, sharers_pass_together_and_an_exclusive_waits_for_all)
{
	struct busy_mark a = { 0 }, b = { 0 }, x = { 0 };

	busy_init(&busy);
	cr_assert(busy_take(&busy, &a, 7, false));
	cr_assert(busy_take(&busy, &b, 7, false));
	cr_assert_not(busy_take(&busy, &x, 7, true));
	busy_drop(&busy, &a);
	cr_assert_null(busy_next(&busy));
	busy_drop(&busy, &b);
	cr_assert_eq(busy_next(&busy), &x);
	cr_assert(x.is_held);
	cr_assert_null(busy_next(&busy));
	busy_drop(&busy, &x);
}

Test(server_tables, a_sharer_does_not_pass_a_waiting_exclusive)
{
	struct busy_mark a = { 0 }, x = { 0 }, b = { 0 };

	busy_init(&busy);
	cr_assert(busy_take(&busy, &a, 7, false));
	cr_assert_not(busy_take(&busy, &x, 7, true));
	cr_assert_not(busy_take(&busy, &b, 7, false));
	busy_drop(&busy, &x);	/* gives up */
	cr_assert_eq(busy_next(&busy), &b);
	busy_drop(&busy, &a);
	busy_drop(&busy, &b);
}

Test(server_tables, inodes_of_one_bucket_do_not_meet)
{
	struct busy_mark a = { 0 }, b = { 0 };

	busy_init(&busy);
	cr_assert(busy_take(&busy, &a, 7, true));
	cr_assert(busy_take(&busy, &b, 7 + BUSY_BUCKETS, true));
	busy_drop(&busy, &a);
	busy_drop(&busy, &b);
	cr_assert_null(busy_next(&busy));
}

enum { MARKS = 40, INODES = 5, STEPS = 200000 };

static struct busy_mark marks[MARKS];

/* No conflict among the held, and nobody waits without a reason. */
static void check_marks(const uint64_t *order)
{
	for (int i = 0; i < MARKS; i++) {
		bool has_reason = false;

		for (int k = 0; k < MARKS; k++) {
			bool conflict = i != k &&
				marks[i].inode == marks[k].inode &&
				(marks[i].is_exclusive ||
				 marks[k].is_exclusive) &&
				(marks[k].is_held || marks[k].is_queued);

			if (conflict && marks[i].is_held)
				cr_assert_not(marks[k].is_held);
			has_reason |= conflict && order[k] < order[i];
		}
		if (marks[i].is_queued)
			cr_assert(has_reason);
	}
}

Test(server_tables, marks_agree_with_a_model_of_queues)
{
	static uint64_t order[MARKS];
	uint64_t next = 1;

	seed();
	busy_init(&busy);
	for (int step = 0; step < STEPS; step++) {
		unsigned int i = pick(MARKS);
		struct busy_mark *mark = &marks[i];
		struct busy_mark *ready;

		if (mark->is_held || mark->is_queued) {
			busy_drop(&busy, mark);
		} else {
			order[i] = next++;
			busy_take(&busy, mark, 1 + pick(INODES) * 1024,
				  pick(3) == 0);
		}
		while ((ready = busy_next(&busy)))
			cr_assert(ready->is_held);
		if (step % 64 == 0)
			check_marks(order);
	}
	for (int i = 0; i < MARKS; i++)
		busy_drop(&busy, &marks[i]);
	for (int i = 0; i < BUSY_BUCKETS; i++)
		cr_assert(rf_list_is_empty(&busy.buckets[i]));
}

static int marked(struct exec *e)
{
	(void)e;
	return 0;
}

/* COPY after a list of others: it needs both of its marks at once. */
Test(server_tables, two_marks_of_an_operation_are_held_together)
{
	static struct server server;
	static struct exec e = { .server = &server };

	busy_init(&server.busy);
	for (uint64_t inode = 1; inode <= EXEC_MARKS; inode++)
		cr_assert_eq(exec_mark(&e, inode, false, marked), 0);
	for (uint64_t inode = 10; inode < 30; inode += 2) {
		cr_assert_eq(exec_mark(&e, inode, false, marked), 0);
		cr_assert_eq(exec_mark(&e, inode + 1, true, marked), 0);
		cr_assert(exec_has_mark(&e, inode, false));
		cr_assert(exec_has_mark(&e, inode + 1, true));
	}
	exec_drop_marks(&e);
}

/* ---- grants ------------------------------------------------------------- */

Test(server_tables, a_grant_goes_the_way_of_its_picture)
{
	struct grants grants;
	struct grant *grant;

	cr_assert_eq(grants_init(&grants, 2), 0);
	grant = grants_make(&grants, GRANT_SLOT);
	cr_assert_eq(grants_find(&grants, grant->id), grant);
	grants_move(grant, GRANT_LENT);
	grants_move(grant, GRANT_HELD);
	grants_move(grant, GRANT_MADE);
	grants_move(grant, GRANT_LENT);
	grants_move(grant, GRANT_CLOSING);
	cr_assert_eq(grants.slot_count, 1);
	grants_free(&grants, grant);
	cr_assert_eq(grants.slot_count, 0);
	grants_fini(&grants);
}

Test(server_tables, a_read_grant_is_never_held, .signal = SIGABRT)
{
	struct grants grants;
	struct grant *grant;

	cr_assert_eq(grants_init(&grants, 2), 0);
	grant = grants_make(&grants, GRANT_READ);
	grants_move(grant, GRANT_LENT);
	grants_move(grant, GRANT_HELD);
}

Test(server_tables, a_grant_is_not_lent_twice, .signal = SIGABRT)
{
	struct grants grants;
	struct grant *grant;

	cr_assert_eq(grants_init(&grants, 2), 0);
	grant = grants_make(&grants, GRANT_READ);
	grants_move(grant, GRANT_LENT);
	grants_move(grant, GRANT_LENT);
}

Test(server_tables, stale_and_forged_ids_find_nothing)
{
	struct grants grants;
	struct grant *grant;
	uint32_t id;

	seed();
	cr_assert_eq(grants_init(&grants, 4), 0);
	for (uint32_t i = 0; i < 4096; i++)
		cr_assert_null(grants_find(&grants, i));
	grant = grants_make(&grants, GRANT_READ);
	id = grant->id;
	grants_free(&grants, grant);
	cr_assert_null(grants_find(&grants, id));
	for (int i = 0; i < 4; i++)
		grants_make(&grants, GRANT_READ);
	cr_assert_null(grants_find(&grants, id));
	cr_assert_null(grants_make(&grants, GRANT_READ));
	for (int i = 0; i < 100000; i++) {
		uint32_t forged = (uint32_t)rand() * 2654435761u;
		struct grant *found = grants_find(&grants, forged);

		cr_assert(!found || found->id == forged);
	}
}

Test(server_tables, an_id_comes_back_only_after_all_generations)
{
	struct grants grants;
	uint32_t first;

	cr_assert_eq(grants_init(&grants, 1), 0);
	first = grants_make(&grants, GRANT_READ)->id;
	for (uint32_t i = 1; i < (1 << 20) - 1; i++) {
		grants_free(&grants, &grants.v[0]);
		cr_assert_neq(grants_make(&grants, GRANT_READ)->id, first);
	}
	grants_free(&grants, &grants.v[0]);
	cr_assert_eq(grants_make(&grants, GRANT_READ)->id, first);
}

/* ---- opens -------------------------------------------------------------- */

Test(server_tables, opens_agree_with_a_model)
{
	enum { LIMIT = 300 };
	static struct { uint32_t id; uint64_t inode; } model[LIMIT];
	struct open_table opens;
	uint32_t count = 0, stale = 0, at = 0, walked = 0;

	seed();
	open_table_init(&opens, LIMIT);
	for (int step = 0; step < STEPS; step++) {
		uint32_t id;

		if (pick(2) || count == 0) {
			int err = open_table_add(&opens, (uint64_t)step, 3,
						 &id);

			cr_assert_eq(err, count == LIMIT ? -ENFILE : 0);
			if (err)
				continue;
			cr_assert_neq(id, 0);
			cr_assert_neq(id, stale);
			model[count].id = id;
			model[count++].inode = (uint64_t)step;
		} else {
			uint32_t i = pick(count);

			cr_assert_eq(open_table_find(&opens,
						     model[i].id)->inode,
				     model[i].inode);
			stale = model[i].id;
			open_table_remove(&opens, stale);
			cr_assert_null(open_table_find(&opens, stale));
			model[i] = model[--count];
		}
	}
	while (open_table_walk(&opens, &at))
		walked++;
	cr_assert_eq(walked, count);
	cr_assert_null(open_table_find(&opens, 0));
	open_table_fini(&opens);
}

/* Few inodes, so that many opens are of one, and some that share a chain. */
Test(server_tables, writers_are_found_by_their_inode)
{
	enum { LIMIT = 300, FILES = 90 };
	static struct { uint32_t id; uint64_t inode; bool counts; } model[LIMIT];
	unsigned int writers[FILES] = { 0 };
	struct open_table opens;
	uint32_t count = 0;

	seed();
	open_table_init(&opens, LIMIT);
	cr_assert_not(open_table_has_writer(&opens, 1));
	for (int step = 0; step < STEPS; step++) {
		uint64_t inode = pick(FILES);

		if (count < LIMIT && (pick(2) || count == 0)) {
			bool writes = pick(2);

			cr_assert_eq(open_table_add(&opens, inode,
						    RF_OPEN_READ |
						    (writes ? RF_OPEN_WRITE : 0),
						    &model[count].id), 0);
			model[count].inode = inode;
			model[count++].counts = writes;
			writers[inode] += writes;
		} else {
			uint32_t i = pick(count), id = model[i].id;

			writers[model[i].inode] -= model[i].counts;
			model[i].counts = false;
			if (pick(2)) {	/* others still use it */
				open_table_find_any(&opens, id)->is_released =
					true;
			} else {
				open_table_remove(&opens, id);
				model[i] = model[--count];
			}
		}
		inode = pick(FILES);
		cr_assert_eq(open_table_has_writer(&opens, inode),
			     writers[inode] > 0);
	}
	open_table_fini(&opens);
}

Test(server_tables, a_released_open_is_found_only_by_its_users)
{
	struct open_table opens;
	uint32_t id;

	open_table_init(&opens, 4);
	cr_assert_eq(open_table_add(&opens, 9, 1, &id), 0);
	open_table_find(&opens, id)->is_released = true;
	cr_assert_null(open_table_find(&opens, id));
	cr_assert_eq(open_table_find_any(&opens, id)->inode, 9);
	open_table_remove(&opens, id);
	open_table_fini(&opens);
}

Test(server_tables, an_open_is_restored_once_and_only_in_a_free_place)
{
	struct open_table opens;

	open_table_init(&opens, 200);
	cr_assert_eq(open_table_restore(&opens, 7 << 16 | 130, 9, 3), 0);
	cr_assert_eq(open_table_find(&opens, 7 << 16 | 130)->inode, 9);
	cr_assert_eq(open_table_restore(&opens, 7 << 16 | 130, 9, 3), 0);
	cr_assert_eq(opens.count, 1, "again is the same");
	cr_assert_eq(open_table_restore(&opens, 7 << 16 | 130, 10, 3), -EBADF);
	cr_assert_eq(open_table_restore(&opens, 7 << 16 | 130, 9, 1), -EBADF);
	cr_assert_eq(open_table_restore(&opens, 8 << 16 | 130, 9, 3), -EBADF);
	cr_assert_eq(open_table_restore(&opens, 5, 9, 3), -EBADF,
		     "no id has generation 0");
	cr_assert_eq(open_table_restore(&opens, 1 << 16 | 200, 9, 3), -EBADF);
	open_table_find(&opens, 7 << 16 | 130)->is_released = true;
	cr_assert_eq(open_table_restore(&opens, 7 << 16 | 130, 9, 3), -EBADF);
	open_table_fini(&opens);
}

/* All ids of one table go into another while that one gives out new ones. */
Test(server_tables, restored_and_new_opens_never_share_an_id)
{
	enum { LIMIT = 300 };
	static uint32_t ids[LIMIT];
	struct open_table before, opens;
	uint32_t added = 0, id;

	seed();
	open_table_init(&before, LIMIT);
	open_table_init(&opens, LIMIT);
	for (uint32_t i = 0; i < LIMIT; i++)
		cr_assert_eq(open_table_add(&before, i + 1, 3, &ids[i]), 0);
	for (uint32_t i = 0; i < LIMIT; i += 1 + pick(3))
		cr_assert_eq(open_table_restore(&opens, ids[i], i + 1, 3), 0);
	while (open_table_add(&opens, 1000 + added, 1, &id) == 0) {
		cr_assert_eq(open_table_find(&opens, id)->inode,
			     1000 + added++);
		if (pick(2))
			open_table_remove(&opens, id);
	}
	cr_assert_eq(opens.count, LIMIT);
	for (uint32_t i = 0; i < LIMIT; i++) {
		const struct open *open = open_table_find(&opens, ids[i]);

		cr_assert(!open || open->inode == i + 1 ||
			  open->inode >= 1000);
	}
	open_table_fini(&before);
	open_table_fini(&opens);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of locks against a model that has one mark for each byte, a list
 * of waits, and looks for deadlocks by trying every path; then its limits.
 */
#include "storage-server/locks_impl.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	OWNERS = 6, FILES = 2, BYTES = 10, SESSIONS = 2,
	WAITS = 12, ROUNDS = 60000, OPEN_OF = 100,
};

static struct locks locks;
static struct lock_session sessions[SESSIONS];

static void settled(struct lock_session *session)
{
	(void)session;
}

static void begin(void)
{
	cr_assert_eq(locks_init(&locks, settled), 0);
	for (unsigned int i = 0; i < SESSIONS; i++)
		locks_init_session(&sessions[i]);
}

/* All that was made is gone again. */
static void end(void)
{
	for (unsigned int i = 0; i < SESSIONS; i++)
		locks_end_session(&locks, &sessions[i]);
	cr_assert_eq(locks.ranges.count, 0);
	cr_assert_eq(locks.holdings.count, 0);
	cr_assert_eq(locks.inode_pool.count, 0);
	cr_assert_eq(locks.owner_pool.count, 0);
	cr_assert_eq(locks.waits.count, 0);
	locks_fini(&locks);
}

static struct lock_session *session_of(uint64_t owner)
{
	return &sessions[owner % SESSIONS];
}

static struct lock_request want(uint64_t inode, uint64_t owner, uint64_t start,
				uint64_t last, bool is_exclusive)
{
	return (struct lock_request){
		.inode = inode, .owner = owner, .kind = LOCK_POSIX,
		.range = { .start = start, .end = last,
			   .is_exclusive = is_exclusive,
			   .pid = (uint32_t)owner },
		.open = (uint32_t)(OPEN_OF + owner),
	};
}

static int set(const struct lock_request *request)
{
	return locks_set(&locks, session_of(request->owner), request);
}

static int set_at_once(struct lock_request request)
{
	return set(&request);
}

static int set_waiting(struct lock_request request, uint64_t number)
{
	request.wait = number;
	request.may_wait = true;
	return set(&request);
}

/* ---- the model ---------------------------------------------------------- */

struct model_wait {
	struct lock_request r;
	bool is_used;
};

static char marks[2][FILES][OWNERS][BYTES];	/* by kind */
static struct model_wait waits[WAITS];		/* in their order */
static unsigned int wait_count;
static struct lock_event told[SESSIONS][WAITS * 2];
static unsigned int told_count[SESSIONS];

static char *marks_of(const struct lock_request *r, uint64_t owner)
{
	return marks[r->kind][r->inode][owner];
}

static bool model_blocks(const struct lock_request *r, uint64_t owner)
{
	const char *m = marks_of(r, owner);

	if (owner == r->owner)
		return false;
	for (uint64_t at = r->range.start; at <= r->range.end; at++)
		if (m[at] == 2 || (m[at] == 1 && r->range.is_exclusive))
			return true;
	return false;
}

static bool model_is_free(const struct lock_request *r)
{
	for (uint64_t owner = 0; owner < OWNERS; owner++)
		if (model_blocks(r, owner))
			return false;
	return true;
}

/* Is wanted among those that r waits for, and they wait for? */
static bool model_reaches(const struct lock_request *r, uint64_t wanted,
			  unsigned int seen)
{
	for (uint64_t owner = 0; owner < OWNERS; owner++) {
		if (!model_blocks(r, owner) || (seen & 1u << owner))
			continue;
		if (owner == wanted)
			return true;
		for (unsigned int i = 0; i < wait_count; i++)
			if (waits[i].r.owner == owner &&
			    waits[i].r.kind == LOCK_POSIX &&
			    model_reaches(&waits[i].r, wanted,
					  seen | 1u << owner))
				return true;
	}
	return false;
}

static bool model_is_deadlock(const struct lock_request *r)
{
	return r->kind == LOCK_POSIX && model_reaches(r, r->owner, 0);
}

static void model_mark(const struct lock_request *r, int what)
{
	memset(marks_of(r, r->owner) + r->range.start, what,
	       r->range.end - r->range.start + 1);
}

static int type_of(const struct lock_request *r)
{
	return r->range.is_exclusive ? 2 : 1;
}

static void model_drop_wait(unsigned int index)
{
	wait_count--;
	memmove(&waits[index], &waits[index + 1],
		(wait_count - index) * sizeof(waits[0]));
}

static void model_tell(unsigned int index, int err)
{
	unsigned int session = (unsigned int)(waits[index].r.owner % SESSIONS);

	told[session][told_count[session]++] =
		(struct lock_event){ waits[index].r.wait, err };
	model_drop_wait(index);
}

static void model_end_deadlocks(uint64_t inode)
{
	for (unsigned int i = 0; i < wait_count; i++)
		if (waits[i].r.inode == inode &&
		    model_is_deadlock(&waits[i].r))
			model_tell(i--, -EDEADLK);
}

static void model_wake(uint64_t inode)
{
	bool again = true;

	while (again) {
		again = false;
		for (unsigned int i = 0; i < wait_count; i++) {
			if (waits[i].r.inode != inode ||
			    !model_is_free(&waits[i].r))
				continue;
			model_mark(&waits[i].r, type_of(&waits[i].r));
			model_tell(i--, 0);
			again = true;
		}
	}
	model_end_deadlocks(inode);
}

static int model_set(const struct lock_request *r)
{
	int had = marks_of(r, r->owner)[0], ret = 1;

	if (r->kind == LOCK_FLOCK && had == type_of(r))
		return 0;
	if (r->kind == LOCK_FLOCK)
		model_mark(r, 0);
	if (model_is_free(r)) {
		model_mark(r, type_of(r));
		model_end_deadlocks(r->inode);
		ret = 0;
	} else if (!r->may_wait) {
		ret = -EAGAIN;
	} else if (model_is_deadlock(r)) {
		ret = -EDEADLK;
	} else {
		waits[wait_count++].r = *r;
	}
	model_wake(r->inode);
	return ret;
}

/* ---- comparing ---------------------------------------------------------- */

static void expect_marks(uint64_t inode_number, unsigned int round)
{
	const struct lock_inode *inode = lock_inode_get(&locks, inode_number,
							false);
	char got[2][OWNERS][BYTES] = { 0 };
	struct rf_list *at, *link;

	if (inode) rf_list_for_each(at, &inode->holdings) {
		const struct lock_holding *holding =
			rf_container_of(at, struct lock_holding, link);

		rf_list_for_each(link, &holding->ranges) {
			const struct rf_range *range =
				rf_container_of(link, struct rf_range, link);
			uint64_t last = rf_min_u64(range->end, BYTES - 1);

			memset(&got[holding->owner->kind]
				   [holding->owner->number][range->start],
			       range->is_exclusive ? 2 : 1,
			       last - range->start + 1);
		}
	}
	for (unsigned int kind = 0; kind < 2; kind++)
		cr_assert(memcmp(got[kind], marks[kind][inode_number],
				 sizeof(got[kind])) == 0,
			  "round %u, kind %u, file %llu", round, kind,
			  (unsigned long long)inode_number);
}

static void expect_events(unsigned int round)
{
	for (unsigned int i = 0; i < SESSIONS; i++) {
		struct lock_event got[WAITS * 2];
		uint64_t last;
		unsigned int count;

		count = locks_events(&locks, &sessions[i], 0, got, WAITS * 2,
				     &last);
		cr_assert_eq(count, told_count[i], "round %u: %u events, not "
			     "%u", round, count, told_count[i]);
		for (unsigned int n = 0; n < count; n++) {
			cr_assert_eq(got[n].wait, told[i][n].wait);
			cr_assert_eq(got[n].err, told[i][n].err,
				     "round %u: %d, not %d", round,
				     got[n].err, told[i][n].err);
		}
		locks_events(&locks, &sessions[i], last, got, WAITS * 2,
			     &last);
		cr_assert_not(locks_has_events(&sessions[i]));
		told_count[i] = 0;
	}
}

/* ---- the random test ---------------------------------------------------- */

static unsigned int seed;

static unsigned int below(unsigned int n)
{
	return (unsigned int)rand_r(&seed) % n;
}

static struct lock_request any_request(uint64_t number)
{
	unsigned int a = below(BYTES), b = below(BYTES);
	struct lock_request r = want(below(FILES), below(OWNERS),
				     a < b ? a : b, a < b ? b : a, below(2));

	if (below(4) == 0) {
		r.kind = LOCK_FLOCK;
		r.range.start = 0;
		r.range.end = BYTES - 1;
	}
	r.may_wait = below(3) > 0 && wait_count < WAITS;
	r.wait = number;
	return r;
}

static void one_clear(void)
{
	struct lock_request r = any_request(0);

	cr_assert_eq(locks_clear(&locks, session_of(r.owner), &r), 0);
	model_mark(&r, 0);
	model_wake(r.inode);
}

static void one_cancel(void)
{
	unsigned int index = below(WAITS);

	if (index >= wait_count)
		return;
	cr_assert_eq(locks_cancel(&locks, session_of(waits[index].r.owner),
				  waits[index].r.wait), -ECANCELED);
	model_drop_wait(index);
}

/* The owner's open of one file: its locks of both kinds and its waits. */
static void one_release(void)
{
	struct lock_request r = want(below(FILES), below(OWNERS), 0, BYTES - 1,
				     false);

	locks_release_open(&locks, session_of(r.owner), r.inode, r.open);
	for (unsigned int i = 0; i < wait_count; i++)
		if (waits[i].r.owner == r.owner && waits[i].r.inode == r.inode)
			model_tell(i--, -ECANCELED);
	model_mark(&r, 0);
	r.kind = LOCK_FLOCK;
	model_mark(&r, 0);
	model_wake(r.inode);
}

static void one_test(void)
{
	struct lock_request r = any_request(0);
	const struct lock_session *holder;
	struct rf_range found;
	bool is_free = locks_test(&locks, session_of(r.owner), &r, &found,
				  &holder);

	cr_assert_eq(is_free, model_is_free(&r));
	if (is_free)
		return;
	cr_assert_eq(holder, session_of(found.pid));
	cr_assert_eq(marks_of(&r, found.pid)[found.start],
		     found.is_exclusive ? 2 : 1);
	cr_assert_leq(found.start, r.range.end);
	cr_assert_geq(found.end, r.range.start);
}

static void one_step(unsigned int round)
{
	struct lock_request r;
	int got, wanted;

	switch (below(12)) {
	case 0: case 1: case 2:
		one_clear();
		break;
	case 3:
		one_cancel();
		break;
	case 4:
		one_release();
		break;
	case 5:
		one_test();
		break;
	default:
		r = any_request(round + 1);
		wanted = model_set(&r);
		got = set(&r);
		cr_assert_eq(got, wanted, "round %u: %d, not %d", round, got,
			     wanted);
	}
}

Test(server_locks, what_happens_is_what_the_model_says, .timeout = 120)
{
	uint64_t deadlocks, waited;

	seed = getenv("RF_SEED") ? (unsigned int)atoi(getenv("RF_SEED"))
				 : (unsigned int)rf_now_ns();
	fprintf(stderr, "locks: RF_SEED=%u\n", seed);
	begin();
	for (unsigned int round = 0; round < ROUNDS; round++) {
		one_step(round);
		for (uint64_t inode = 0; inode < FILES; inode++)
			expect_marks(inode, round);
		expect_events(round);
	}
	deadlocks = locks.figures.deadlocks;
	waited = locks.figures.waited;
	cr_assert_gt(deadlocks, 0);
	cr_assert_gt(waited, ROUNDS / 20);
	end();
}

/* ---- single rules ------------------------------------------------------- */

static int event_of(struct lock_session *session, uint64_t number)
{
	struct lock_event events[64];
	uint64_t last;
	unsigned int count = locks_events(&locks, session, 0, events, 64,
					  &last);

	for (unsigned int i = 0; i < count; i++)
		if (events[i].wait == number)
			return events[i].err;
	return 1;
}

Test(server_locks, who_waits_longest_is_served_first)
{
	struct lock_request r[4];

	begin();
	for (uint64_t i = 0; i < 4; i++)
		r[i] = want(1, i, 0, 0, true);
	cr_assert_eq(set(&r[0]), 0);
	for (uint64_t i = 1; i < 4; i++)
		cr_assert_eq(set_waiting(r[i], i), 1);
	cr_assert_eq(locks_clear(&locks, session_of(0), &r[0]), 0);
	cr_assert_eq(event_of(session_of(1), 1), 0);
	/* Who had it asks again, and does not overtake. */
	cr_assert_eq(set(&r[0]), -EAGAIN);
	cr_assert_eq(set_waiting(r[0], 9), 1);
	cr_assert_eq(locks_clear(&locks, session_of(1), &r[1]), 0);
	cr_assert_eq(event_of(session_of(2), 2), 0);
	cr_assert_eq(event_of(session_of(0), 9), 1);
	end();
}

Test(server_locks, a_second_shared_lock_is_not_held_up_by_who_waits)
{
	struct lock_request a = want(1, 0, 0, 9, false);
	struct lock_request b = want(1, 1, 0, 9, false);
	struct lock_request writer = want(1, 2, 0, 9, true);

	begin();
	cr_assert_eq(set(&a), 0);
	cr_assert_eq(set_waiting(writer, 1), 1);
	cr_assert_eq(set_waiting(b, 2), 0);
	end();
}

Test(server_locks, a_circle_is_found_over_sessions_and_files)
{
	begin();
	for (uint64_t i = 0; i < 4; i++) {
		struct lock_request r = want(10 + i, i, 0, 0, true);

		cr_assert_eq(set(&r), 0);
	}
	for (uint64_t i = 0; i < 3; i++)
		cr_assert_eq(set_waiting(want(11 + i, i, 0, 0, true), i + 1),
			     1);
	cr_assert_eq(set_waiting(want(10, 3, 0, 0, true), 4), -EDEADLK);
	/* Somebody outside may wait, and the last one for something else. */
	cr_assert_eq(set_waiting(want(10, 5, 0, 0, true), 5), 1);
	cr_assert_eq(set_waiting(want(10, 3, 1, 1, true), 6), 0);
	end();
}

Test(server_locks, a_wait_that_is_no_deadlock_closes_no_circle)
{
	struct lock_request r = want(10, 1, 0, 0, true);

	begin();
	cr_assert_eq(set(&r), 0);
	r = want(11, 2, 0, 0, true);
	cr_assert_eq(set(&r), 0);
	cr_assert_eq(set_waiting(want(11, 1, 0, 0, true), 1), 1);
	r = want(10, 2, 0, 0, true);
	r.is_no_deadlock = true;
	cr_assert_eq(set_waiting(r, 2), 1);
	/* And nobody finds a circle through it. */
	cr_assert_eq(set_waiting(want(11, 3, 0, 0, true), 3), 1);
	end();
}

Test(server_locks, flock_is_no_part_of_a_circle)
{
	begin();
	for (uint64_t i = 0; i < 2; i++) {
		struct lock_request r = want(10 + i, i, 0, RF_RANGE_END, true);

		r.kind = LOCK_FLOCK;
		cr_assert_eq(set(&r), 0);
	}
	for (uint64_t i = 0; i < 2; i++) {
		struct lock_request r = want(11 - i, i, 0, RF_RANGE_END, true);

		r.kind = LOCK_FLOCK;
		cr_assert_eq(set_waiting(r, i + 1), 1);
	}
	end();
}

Test(server_locks, a_refused_change_of_flock_has_given_the_old_one_up)
{
	struct lock_request a = want(1, 0, 0, RF_RANGE_END, false);
	struct lock_request b = want(1, 1, 0, RF_RANGE_END, false);

	begin();
	a.kind = b.kind = LOCK_FLOCK;
	cr_assert_eq(set(&a), 0);
	cr_assert_eq(set(&b), 0);
	a.range.is_exclusive = true;
	cr_assert_eq(set(&a), -EAGAIN);
	b.range.is_exclusive = true;
	cr_assert_eq(set(&b), 0);
	end();
}

Test(server_locks, the_end_of_a_session_lets_others_go_on)
{
	struct lock_request r = want(1, 0, 0, 5, true);

	begin();
	cr_assert_eq(set(&r), 0);
	cr_assert_eq(set_waiting(want(1, 1, 3, 9, true), 1), 1);
	cr_assert_eq(set_waiting(want(1, 2, 0, 0, true), 2), 1);
	locks_end_session(&locks, session_of(0));
	cr_assert_eq(event_of(session_of(1), 1), 0);
	locks_init_session(session_of(0));
	r = want(1, 0, 0, 2, true);
	cr_assert_eq(set(&r), 0);
	end();
}

Test(server_locks, a_cancelled_wait_that_was_granted_says_so)
{
	struct lock_request r = want(1, 0, 0, 5, true);

	begin();
	cr_assert_eq(set(&r), 0);
	cr_assert_eq(set_waiting(want(1, 1, 0, 5, true), 1), 1);
	cr_assert_eq(locks_clear(&locks, session_of(0), &r), 0);
	cr_assert_eq(locks_cancel(&locks, session_of(1), 1), 0);
	cr_assert_eq(locks_cancel(&locks, session_of(1), 1), -ENOENT);
	cr_assert_eq(event_of(session_of(1), 1), 1);
	end();
}

Test(server_locks, what_another_server_has_told_counts_for_nothing)
{
	struct lock_request r = want(1, 0, 0, 5, true);
	struct lock_event events[2];
	uint64_t last;

	begin();
	cr_assert_eq(set(&r), 0);
	cr_assert_eq(set_waiting(want(1, 1, 0, 5, true), 1), 1);
	cr_assert_eq(locks_clear(&locks, session_of(0), &r), 0);
	cr_assert_eq(locks_events(&locks, session_of(1), 57, events, 2, &last),
		     1);
	cr_assert_eq(last, 1);
	end();
}

Test(server_locks, grace_lets_old_locks_in_first)
{
	struct lock_request old = want(1, 0, 0, 5, true);
	struct lock_request try = want(1, 1, 0, 5, true);
	struct lock_request other = want(1, 1, 9, 9, true);

	begin();
	cr_assert_eq(locks_set(&locks, session_of(0),
			       &(struct lock_request){ .is_reclaim = true }),
		     -EINVAL);
	locks.is_in_grace = true;
	try.wait = 1;
	cr_assert_eq(set(&try), 1);
	other.wait = 2;
	cr_assert_eq(set(&other), 1);
	cr_assert_eq(set_waiting(try, 3), 1);
	old.is_reclaim = true;
	cr_assert_eq(set(&old), 0);
	cr_assert_eq(event_of(session_of(1), 2), 1);
	locks_end_grace(&locks);
	cr_assert_eq(event_of(session_of(1), 1), -EAGAIN);
	cr_assert_eq(event_of(session_of(1), 2), 0);
	cr_assert_eq(event_of(session_of(1), 3), 1);
	cr_assert(locks_waits(session_of(1)));
	old.is_reclaim = false;
	cr_assert_eq(locks_clear(&locks, session_of(0), &old), 0);
	cr_assert_eq(event_of(session_of(1), 3), 0);
	end();
}

Test(server_locks, a_lock_that_is_sent_again_waits_once)
{
	struct lock_request held = want(1, 0, 0, 5, true);
	struct lock_request again = want(1, 1, 0, 5, true);

	begin();
	cr_assert_eq(set(&held), 0);
	cr_assert_eq(set_waiting(again, 3), 1);
	cr_assert_eq(set_waiting(again, 3), 1);
	cr_assert_eq(locks.waits.count, 1);
	cr_assert_eq(locks_clear(&locks, session_of(0), &held), 0);
	cr_assert_eq(event_of(session_of(1), 3), 0);
	/* It is there, whoever knows of it. */
	cr_assert_eq(set_waiting(again, 3), 0);
	cr_assert_eq(locks_clear(&locks, session_of(1), &again), 0);
	cr_assert_eq(set(&held), 0);
	/* It has ended, and its client does not know. */
	cr_assert_eq(set_waiting(again, 4), 1);
	locks_release_open(&locks, session_of(1), 1, again.open);
	cr_assert_eq(set_waiting(again, 4), 1);
	cr_assert_eq(event_of(session_of(1), 4), 1);
	end();
}

Test(server_locks, what_was_reclaimed_may_be_reclaimed_again)
{
	struct lock_request old = want(1, 0, 0, 5, true);
	struct lock_request part = want(1, 0, 1, 2, true);
	struct lock_request more = want(1, 0, 0, 6, true);

	old.is_reclaim = part.is_reclaim = more.is_reclaim = true;
	begin();
	locks.is_in_grace = true;
	cr_assert_eq(set(&old), 0);
	locks_end_grace(&locks);
	cr_assert_eq(set(&old), 0);
	cr_assert_eq(set(&part), 0);
	cr_assert_eq(set(&more), -EINVAL);
	end();
}

/* Who is not sure of a lock asks for it again: that is no wait any more. */
Test(server_locks, a_lock_that_is_there_when_it_is_asked_for_again_is_told_once)
{
	struct lock_request held = want(1, 0, 0, 5, true);
	struct lock_request again = want(1, 1, 0, 5, true);

	begin();
	cr_assert_eq(set(&held), 0);
	cr_assert_eq(set_waiting(again, 3), 1);
	cr_assert_eq(locks_clear(&locks, session_of(0), &held), 0);
	cr_assert(locks_has_events(session_of(1)));
	cr_assert_eq(set_waiting(again, 3), 0);
	cr_assert_not(locks_has_events(session_of(1)));
	cr_assert_eq(locks.waits.count, 0);
	/* The number may be another's. */
	cr_assert_eq(set(&(struct lock_request){
			     .inode = 2, .owner = 1, .open = 1, .wait = 3 }), 0);
	end();
}

/* What is asked for in the grace waits, but for what was reclaimed. */
Test(server_locks, a_reclaimed_lock_is_there_in_the_grace)
{
	struct lock_request old = want(1, 0, 0, 5, true);
	struct lock_request more = want(1, 0, 0, 6, true);

	begin();
	locks.is_in_grace = true;
	old.is_reclaim = true;
	cr_assert_eq(set(&old), 0);
	old.is_reclaim = false;
	cr_assert_eq(set(&old), 0);
	cr_assert_eq(set_waiting(more, 1), 1);
	end();
}

/* It turns out only later whose lock it is. */
Test(server_locks, a_wait_can_be_told_later_to_be_no_deadlock)
{
	struct lock_request a = want(1, 0, 0, 0, true), b = want(1, 1, 1, 1, true);
	struct lock_request asks = want(1, 0, 1, 1, true);

	begin();
	cr_assert_eq(set(&a), 0);
	cr_assert_eq(set(&b), 0);
	cr_assert_eq(set_waiting(asks, 1), 1);
	cr_assert_eq(set_waiting(want(1, 1, 0, 0, true), 2), -EDEADLK);
	asks.is_no_deadlock = true;
	cr_assert_eq(set_waiting(asks, 1), 1);
	cr_assert_eq(set_waiting(want(1, 1, 0, 0, true), 2), 1);
	end();
}

/* ---- limits ------------------------------------------------------------- */

Test(server_locks, a_session_has_so_many_locks_and_waits_and_no_more,
     .timeout = 60)
{
	struct lock_request all = want(1, 0, 0, RF_RANGE_END, true), r;
	unsigned int count = 0;

	begin();
	do {
		r = want(1 + count % 64, 0, 2 * count, 2 * count, true);
		count++;
	} while (set(&r) == 0);
	cr_assert_eq(count, LOCKS_SESSION_MAX + 1);
	cr_assert_eq(sessions[0].range_count, LOCKS_SESSION_MAX);
	cr_assert_eq(locks_clear(&locks, &sessions[0], &all), 0);
	/* Another session is not concerned. */
	r = want(1, 1, 0, 0, true);
	cr_assert_eq(set(&r), 0);
	for (uint64_t i = 1; i <= LOCK_WAITS_SESSION_MAX; i++)
		cr_assert_eq(set_waiting(want(1, 2 * i, 0, 0, true), i), 1);
	cr_assert_eq(set_waiting(want(1, 4, 0, 0, true), 1), -EINVAL);
	cr_assert_eq(set_waiting(want(1, 2, 0, 0, true), 99999), -ENOLCK);
	end();
}

/* Whose locks are as many as may be can unlock a part of one. */
Test(server_locks, an_unlock_that_splits_has_a_reserve, .timeout = 60)
{
	struct lock_request whole = want(1, 0, 0, RF_RANGE_END, true), r;
	unsigned int count = 0;

	begin();
	cr_assert_eq(set(&whole), 0);
	do {
		r = want(2 + count % 64, 0, 2 * count, 2 * count, true);
		count++;
	} while (set(&r) == 0);
	cr_assert_eq(sessions[0].range_count, LOCKS_SESSION_MAX);
	/* One that does not split needs none. */
	r = want(1, 0, 0, 0, true);
	cr_assert_eq(locks_clear(&locks, &sessions[0], &r), 0);
	cr_assert_eq(sessions[0].range_count, LOCKS_SESSION_MAX);
	count = 0;
	do {
		count++;
		r = want(1, 0, 2 * count, 2 * count, true);
	} while (locks_clear(&locks, &sessions[0], &r) == 0);
	cr_assert_eq(count, LOCKS_SESSION_RESERVE + 1);
	/* And what does not split works on. */
	r = want(1, 0, 1, 5, true);
	cr_assert_eq(locks_clear(&locks, &sessions[0], &r), 0);
	/* What the reserve has lent is no room for new ones. */
	cr_assert_eq(set_at_once(want(3, 0, 0, 0, true)), -ENOLCK);
	end();
}

enum { CROWD = 1000, MANY = 4000 };

/* One has locked many ranges, a crowd waits for the last of them; the first is
 * unlocked. */
static void crowd_waits(void)
{
	struct lock_request r = want(1, 1, 0, 0, true);

	for (uint64_t i = 0; i < MANY; i++)
		cr_assert_eq(set_at_once(want(1, 1, 2 * i, 2 * i, true)), 0);
	for (uint64_t i = 0; i < CROWD; i++)
		cr_assert_eq(set_waiting(want(1, 2 * i, 2 * MANY - 2,
					      2 * MANY - 2, true), i + 1), 1);
	cr_assert_eq(locks_clear(&locks, &sessions[1], &r), 0);
}

/* Each of the crowd is compared with many ranges, again and again. */
Test(server_locks, a_crowd_that_waits_does_not_hold_up_others, .timeout = 60)
{
	struct lock_request r = want(1, 1, 0, 0, true);
	unsigned int turns = 0;

	begin();
	crowd_waits();
	cr_assert_leq(locks.wake_steps, LOCK_STEPS_MAX + 2 * MANY);
	cr_assert(locks_are_unfinished(&locks));
	while (locks_are_unfinished(&locks)) {
		locks_go_on(&locks);
		cr_assert_leq(locks.wake_steps, LOCK_STEPS_MAX + 2 * MANY);
		turns++;
	}
	cr_assert_geq(turns, CROWD * (MANY - 1) / LOCK_STEPS_MAX / 2);
	cr_assert_eq(locks.figures.granted, MANY);
	/* The file is unlocked while they are gone through: nobody is missed. */
	cr_assert_eq(locks_clear(&locks, &sessions[1], &r), 0);
	cr_assert_eq(set(&r), 0);
	cr_assert_eq(locks_clear(&locks, &sessions[1], &r), 0);
	cr_assert(locks_are_unfinished(&locks));
	r = want(1, 1, 0, RF_RANGE_END, true);
	cr_assert_eq(locks_clear(&locks, &sessions[1], &r), 0);
	while (locks_are_unfinished(&locks))
		locks_go_on(&locks);
	cr_assert_eq(locks.figures.granted, MANY + 2);
	end();
}

/* One of them goes while it is the next to be looked at. */
Test(server_locks, who_is_next_may_go, .timeout = 60)
{
	begin();
	crowd_waits();
	cr_assert(locks_are_unfinished(&locks));
	for (uint64_t i = 0; i < CROWD; i++)
		cr_assert_eq(locks_cancel(&locks, &sessions[0], i + 1),
			     -ECANCELED);
	while (locks_are_unfinished(&locks))
		locks_go_on(&locks);
	end();
}

/*
 * Many wait for one owner, who waits for many in another thread: each search
 * goes through all of these.
 */
Test(server_locks, searches_of_one_call_are_bounded_together, .timeout = 60)
{
	uint64_t deadlocks;

	begin();
	for (uint64_t i = 0; i < MANY; i++)
		cr_assert_eq(set_at_once(want(2, 3 + 2 * i, 0, 0, false)), 0);
	cr_assert_eq(set_at_once(want(1, 1, 0, 0, true)), 0);
	cr_assert_eq(set_waiting(want(2, 1, 0, 0, true), 1), 1);
	for (uint64_t i = 0; i < CROWD; i++)
		cr_assert_eq(set_waiting(want(1, 2 * i, 0, 1, true), i + 1),
			     1);
	deadlocks = locks.figures.deadlocks;
	cr_assert_eq(set_at_once(want(1, 1, 1, 1, true)), 0);
	cr_assert_leq(locks.search_steps, LOCK_STEPS_MAX + 2 * MANY);
	cr_assert_gt(locks.figures.searches_cut, 0);
	/* What was not searched is no deadlock. */
	cr_assert_eq(locks.figures.deadlocks, deadlocks);
	end();
}

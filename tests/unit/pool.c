/* SPDX-License-Identifier: Apache-2.0 */
/* The pool: what get promises, who is served first, what is left at the end. */
#include "libproto/fabric_impl.h"	/* to say that loop pins memory */
#include "libproto/loop.h"
#include "libproto/pool.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { SMALL = 4096, LARGE = 65536, SMALL_COUNT = 8, LARGE_COUNT = 3 };

static struct rf_pool *pool;

static void set_up(void)
{
	const struct rf_pool_config config = {
		.name = "test",
		.classes = { { SMALL, SMALL_COUNT }, { LARGE, LARGE_COUNT } },
		.class_count = 2,
	};

	cr_assert_eq(rf_pool_create(&config, &pool), 0);
}

static void tear_down(void)
{
	struct rf_pool_stats stats;

	rf_pool_stats(pool, &stats);
	for (unsigned int i = 0; i < stats.class_count; i++)
		cr_assert_eq(stats.classes[i].free, stats.classes[i].count);
	rf_pool_destroy(pool);
}

TestSuite(pool, .init = set_up, .fini = tear_down, .timeout = 20);

static unsigned int drain(struct rf_buf **bufs, uint32_t size)
{
	unsigned int count = 0;

	while ((bufs[count] = rf_pool_get(pool, size)))
		count++;
	return count;
}

Test(pool, buffers_are_aligned_apart_and_inside_the_arena)
{
	struct rf_buf *bufs[SMALL_COUNT + LARGE_COUNT + 2];
	uint8_t *base = rf_pool_base(pool);
	unsigned int count = drain(bufs, SMALL);

	cr_assert_eq(count, SMALL_COUNT);
	count += drain(bufs + count, LARGE);
	cr_assert_eq(count, SMALL_COUNT + LARGE_COUNT);
	cr_assert_eq(rf_pool_size(pool),
		     SMALL * SMALL_COUNT + LARGE * LARGE_COUNT);
	for (unsigned int i = 0; i < count; i++) {
		cr_assert_eq((uintptr_t)bufs[i]->mem % 4096, 0);
		cr_assert(bufs[i]->mem >= base && bufs[i]->mem + bufs[i]->size <=
			  base + rf_pool_size(pool));
		for (unsigned int k = 0; k < i; k++)
			cr_assert(bufs[i]->mem + bufs[i]->size <= bufs[k]->mem ||
				  bufs[k]->mem + bufs[k]->size <= bufs[i]->mem);
	}
	for (unsigned int i = 0; i < count; i++)
		rf_pool_put(bufs[i]);
}

Test(pool, get_takes_the_smallest_class_that_holds_it)
{
	struct rf_buf *a = rf_pool_get(pool, 1);
	struct rf_buf *b = rf_pool_get(pool, SMALL);
	struct rf_buf *c = rf_pool_get(pool, SMALL + 1);

	cr_assert_eq(a->size, SMALL);
	cr_assert_eq(b->size, SMALL);
	cr_assert_eq(c->size, LARGE);
	rf_pool_put(a);
	rf_pool_put(b);
	rf_pool_put(c);
}

Test(pool, last_put_is_first_got)
{
	struct rf_buf *a = rf_pool_get(pool, SMALL);
	struct rf_buf *b = rf_pool_get(pool, SMALL);

	rf_pool_put(b);
	rf_pool_put(a);
	cr_assert_eq(rf_pool_get(pool, SMALL), a);
	cr_assert_eq(rf_pool_get(pool, SMALL), b);
	rf_pool_put(b);
	rf_pool_put(a);
}

Test(pool, memfd_shows_the_same_memory)
{
	struct rf_buf *buf = rf_pool_get(pool, LARGE);
	size_t offset = (size_t)(buf->mem - (uint8_t *)rf_pool_base(pool));
	uint8_t *seen = mmap(NULL, rf_pool_size(pool), PROT_READ, MAP_SHARED,
			     rf_pool_memfd(pool), 0);

	cr_assert_neq(seen, MAP_FAILED);
	memset(buf->mem, 0x5a, buf->size);
	cr_assert_eq(memcmp(seen + offset, buf->mem, buf->size), 0);
	munmap(seen, rf_pool_size(pool));
	rf_pool_put(buf);
}

/* ---- waiting ----------------------------------------------------------- */

struct test_waiter {
	struct rf_pool_waiter waiter;
	unsigned int number;
	bool puts_at_once;
	struct rf_buf *buf;
};

static unsigned int order[64], served;
static unsigned int depth, deepest;

static void served_one(struct rf_pool_waiter *waiter, struct rf_buf *buf)
{
	struct test_waiter *test =
		rf_container_of(waiter, struct test_waiter, waiter);

	if (++depth > deepest)
		deepest = depth;
	order[served++] = test->number;
	cr_assert_not(waiter->is_waiting);
	if (test->puts_at_once)
		rf_pool_put(buf);
	else
		test->buf = buf;
	depth--;
}

static void queue_waiters(struct test_waiter *waiters, unsigned int count,
			  bool puts_at_once)
{
	for (unsigned int i = 0; i < count; i++) {
		waiters[i] = (struct test_waiter){
			.waiter.ready = served_one,
			.number = i,
			.puts_at_once = puts_at_once,
		};
		rf_pool_wait(pool, LARGE, &waiters[i].waiter);
	}
}

Test(pool, waiters_are_served_first_come_first_served)
{
	struct rf_buf *bufs[LARGE_COUNT + 1];
	struct test_waiter waiters[3];

	cr_assert_eq(drain(bufs, LARGE), LARGE_COUNT);
	queue_waiters(waiters, 3, false);
	rf_pool_put(bufs[0]);
	cr_assert_eq(served, 1);
	cr_assert_eq(waiters[0].buf, bufs[0]);
	rf_pool_put(bufs[1]);
	rf_pool_put(bufs[2]);
	for (unsigned int i = 0; i < 3; i++) {
		cr_assert_eq(order[i], i);
		rf_pool_put(waiters[i].buf);
	}
}

Test(pool, get_does_not_overtake_waiters)
{
	struct rf_buf *bufs[LARGE_COUNT + 1], *small;
	struct test_waiter waiter;

	drain(bufs, LARGE);
	queue_waiters(&waiter, 1, false);
	cr_assert_null(rf_pool_get(pool, LARGE));
	small = rf_pool_get(pool, SMALL);
	cr_assert_not_null(small, "classes do not wait for each other");
	rf_pool_put(small);
	rf_pool_put(bufs[0]);
	cr_assert_eq(waiter.buf, bufs[0]);
	rf_pool_put(waiter.buf);
	rf_pool_put(bufs[1]);
	rf_pool_put(bufs[2]);
}

Test(pool, waiters_that_put_at_once_do_not_nest)
{
	struct rf_buf *bufs[LARGE_COUNT + 1];
	struct test_waiter waiters[40];

	drain(bufs, LARGE);
	queue_waiters(waiters, RF_ARRAY_SIZE(waiters), true);
	rf_pool_put(bufs[0]);
	cr_assert_eq(served, RF_ARRAY_SIZE(waiters));
	cr_assert_eq(deepest, 1);
	rf_pool_put(bufs[1]);
	rf_pool_put(bufs[2]);
}

Test(pool, cancelled_waiter_is_passed_over)
{
	struct rf_buf *bufs[LARGE_COUNT + 1];
	struct test_waiter waiters[3];
	struct rf_pool_stats stats;

	drain(bufs, LARGE);
	queue_waiters(waiters, 3, true);
	rf_pool_cancel(pool, &waiters[1].waiter);
	rf_pool_cancel(pool, &waiters[1].waiter);
	rf_pool_stats(pool, &stats);
	cr_assert_eq(stats.classes[1].waiting, 2);
	rf_pool_put(bufs[0]);
	cr_assert_eq(served, 2);
	cr_assert_eq(order[0], 0);
	cr_assert_eq(order[1], 2);
	rf_pool_put(bufs[1]);
	rf_pool_put(bufs[2]);
}

Test(pool, statistics_tell_the_low_mark_and_who_waited)
{
	struct rf_buf *a = rf_pool_get(pool, SMALL);
	struct rf_buf *b = rf_pool_get(pool, SMALL);
	struct rf_pool_stats stats;

	rf_pool_put(a);
	rf_pool_put(b);
	rf_pool_stats(pool, &stats);
	cr_assert_eq(stats.class_count, 2);
	cr_assert_eq(stats.classes[0].free, SMALL_COUNT);
	cr_assert_eq(stats.classes[0].lowest_free, SMALL_COUNT - 2);
	cr_assert_eq(stats.classes[0].gets, 2);
	cr_assert_eq(stats.classes[0].waits, 0);
}

Test(pool, report_names_each_lent_buffer)
{
	struct rf_buf *a = rf_pool_get(pool, SMALL);

	cr_assert_eq(rf_pool_report_lent(pool), 1);
	cr_assert_str_eq(a->holder_file, __FILE__);
	rf_pool_put(a);
	cr_assert_eq(rf_pool_report_lent(pool), 0);
}

Test(pool, any_sequence_keeps_the_counts)
{
	enum { STEPS = 20000 };
	struct rf_buf *held[SMALL_COUNT + 1];
	unsigned int count = 0, seed = (unsigned int)time(NULL);

	printf("seed %u\n", seed);
	srand(seed);
	for (unsigned int i = 0; i < STEPS; i++) {
		struct rf_pool_stats stats;

		if (rand() % 2) {
			held[count] = rf_pool_get(pool, SMALL);
			cr_assert_eq(held[count] == NULL, count == SMALL_COUNT);
			count += held[count] != NULL;
		} else if (count > 0) {
			unsigned int k = (unsigned int)rand() % count;

			rf_pool_put(held[k]);
			held[k] = held[--count];
		}
		rf_pool_stats(pool, &stats);
		cr_assert_eq(stats.classes[0].free, SMALL_COUNT - count);
	}
	while (count > 0)
		rf_pool_put(held[--count]);
}

Test(pool_create, put_buffers_are_poisoned_on_demand)
{
	struct rf_buf *buf;

	setenv("RF_POOL_DEBUG", "1", 1);
	set_up();
	buf = rf_pool_get(pool, SMALL);
	memset(buf->mem, 1, buf->size);
	rf_pool_put(buf);
	for (unsigned int i = 0; i < SMALL; i++)
		cr_assert_eq(buf->mem[i], 0xa5);
	tear_down();
}

/* ---- registration -------------------------------------------------------- */

struct registration {
	struct rf_loop_world *world;
	struct rf_fabric *fab;
	struct rf_pd *pd;
	struct rf_mr *mr;
};

static void open_fabric(struct registration *r, bool pins_memory)
{
	r->world = rf_loop_world_get("pool");
	cr_assert_eq(rf_fabric_open("loop://pool", &r->fab), 0);
	r->fab->pins_memory = pins_memory;
	cr_assert_eq(rf_pd_create(r->fab, &r->pd), 0);
}

static void close_fabric(struct registration *r)
{
	rf_pd_destroy(r->pd);
	rf_fabric_close(r->fab);
	rf_loop_world_put(r->world);
}

Test(pool, whole_arena_is_registered)
{
	struct registration r;

	open_fabric(&r, false);
	cr_assert_eq(rf_pool_register(pool, r.pd, RF_LOCAL_WRITE, &r.mr), 0);
	cr_assert_eq(r.mr->base, rf_pool_base(pool));
	cr_assert_eq(r.mr->size, rf_pool_size(pool));
	rf_mr_deregister(r.mr);
	close_fabric(&r);
}

Test(pool, soft_limit_on_locked_memory_is_raised_where_it_counts)
{
	const rlim_t low = 65536;
	struct registration r;
	struct rlimit limit;

	cr_assert_eq(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
	if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < 1u << 30)
		cr_skip_test("the hard limit on locked memory is too low");
	limit.rlim_cur = low;
	cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	open_fabric(&r, true);
	cr_assert_eq(rf_pool_register(pool, r.pd, RF_LOCAL_WRITE, &r.mr), 0);
	cr_assert_eq(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
	cr_assert_geq(limit.rlim_cur, rf_pool_size(pool));
	cr_assert_gt(limit.rlim_cur, low);
	rf_mr_deregister(r.mr);
	close_fabric(&r);
}

Test(pool, failure_to_pin_says_what_to_set)
{
	char path[] = "/tmp/rf-pool-log-XXXXXX", text[2048] = "";
	int log = mkstemp(path), saved = dup(STDERR_FILENO);
	struct registration r;

	unlink(path);
	open_fabric(&r, true);
	rf_loop_fail_registrations(r.world, 0, 1);
	dup2(log, STDERR_FILENO);
	cr_assert_eq(rf_pool_register(pool, r.pd, RF_LOCAL_WRITE, &r.mr),
		     -ENOMEM);
	dup2(saved, STDERR_FILENO);
	cr_assert_gt(pread(log, text, sizeof(text) - 1, 0), 0);
	cr_assert_not_null(strstr(text, "/etc/security/limits.conf"));
	cr_assert_not_null(strstr(text, "LimitMEMLOCK="));
	close(log);
	close(saved);
	close_fabric(&r);
}

/* ---- broken contracts ---------------------------------------------------- */

Test(pool, putting_twice_aborts, .signal = SIGABRT)
{
	struct rf_buf *buf = rf_pool_get(pool, SMALL);

	rf_pool_put(buf);
	rf_pool_put(buf);
}

Test(pool, destroying_with_a_buffer_lent_aborts, .signal = SIGABRT)
{
	rf_pool_get(pool, SMALL);
	rf_pool_destroy(pool);
}

Test(pool, more_than_the_class_holds_aborts, .signal = SIGABRT)
{
	rf_pool_get(pool, LARGE + 1);
}

Test(pool_create, more_than_the_host_has_is_an_error)
{
	const struct rf_pool_config config = {
		.name = "test",
		.classes = { { 1u << 30, 1u << 20 } },
		.class_count = 1,
	};

	cr_assert_eq(rf_pool_create(&config, &pool), -ENOMEM);
}

Test(pool_create, huge_pages_are_a_wish)
{
	const struct rf_pool_config config = {
		.name = "test",
		.classes = { { 1u << 20, 4 } },
		.class_count = 1,
		.wants_huge_pages = true,
	};
	struct rf_buf *buf;

	cr_assert_eq(rf_pool_create(&config, &pool), 0);
	buf = rf_pool_get(pool, 1u << 20);
	memset(buf->mem, 1, buf->size);
	rf_pool_put(buf);
	rf_pool_destroy(pool);
}

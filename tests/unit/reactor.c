/* SPDX-License-Identifier: Apache-2.0 */
/* The reactor: order, fairness, wake-ups, and what stop promises. */
#include "libproto/reactor.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_S = 20 };	/* of each test: far above what any takes */

TestSuite(reactor, .timeout = LIMIT_S);

static struct rf_reactor *reactor;
static uint64_t virtual_ns;

static uint64_t virtual_clock(void *context)
{
	(void)context;
	return virtual_ns;
}

static void set_up(void)
{
	cr_assert_eq(rf_reactor_create(&reactor), 0);
}

static void tear_down(void)
{
	rf_reactor_destroy(reactor);
}

/* ---- timers ------------------------------------------------------------- */

struct numbered_timer {
	struct rf_timer timer;
	unsigned int number;
};

static unsigned int fired[4096], fired_count;

static void note_timer(struct rf_timer *timer)
{
	fired[fired_count++] = rf_container_of(timer, struct numbered_timer,
					       timer)->number;
}

Test(reactor, timers_fire_in_order_of_their_time, .init = set_up,
     .fini = tear_down)
{
	enum { COUNT = 1000 };
	static struct numbered_timer timers[COUNT];
	static uint64_t due[COUNT];
	unsigned int seed = (unsigned int)time(NULL), expected = 0;

	printf("seed %u\n", seed);
	srand(seed);
	rf_reactor_set_clock(reactor, virtual_clock, NULL);
	for (unsigned int i = 0; i < COUNT; i++) {
		timers[i].number = i;
		timers[i].timer.fire = note_timer;
		due[i] = (uint64_t)rand() % 500 + 1;
		rf_timer_start(reactor, &timers[i].timer, due[i]);
	}
	/* Move some, stop some. */
	for (unsigned int i = 0; i < COUNT; i += 3) {
		due[i] = (uint64_t)rand() % 500 + 1;
		rf_timer_start(reactor, &timers[i].timer, due[i]);
	}
	for (unsigned int i = 1; i < COUNT; i += 7)
		rf_timer_stop(reactor, &timers[i].timer);
	for (unsigned int i = 0; i < COUNT; i++)
		expected += rf_timer_is_started(&timers[i].timer);
	for (virtual_ns = 0; virtual_ns <= 501 * 1000000ull;
	     virtual_ns += 1000000) {
		unsigned int before = fired_count;

		rf_reactor_turn(reactor, 0);
		for (unsigned int i = before; i < fired_count; i++)
			cr_assert_eq(due[fired[i]] * 1000000, virtual_ns);
	}
	cr_assert_eq(fired_count, expected);
	for (unsigned int i = 1; i < COUNT; i += 7)
		for (unsigned int k = 0; k < fired_count; k++)
			cr_assert_neq(fired[k], i, "a stopped timer fired");
}

static unsigned int restarts;

static void restart(struct rf_timer *timer)
{
	restarts++;
	rf_timer_start(reactor, timer, 0);
}

Test(reactor, timer_that_restarts_itself_fires_once_a_turn, .init = set_up,
     .fini = tear_down)
{
	struct rf_timer timer = { .fire = restart };

	rf_timer_start(reactor, &timer, 0);
	for (unsigned int i = 1; i <= 10; i++) {
		rf_reactor_turn(reactor, -1);
		cr_assert_eq(restarts, i);
	}
	rf_timer_stop(reactor, &timer);
	rf_timer_stop(reactor, &timer);
	cr_assert_not(rf_timer_is_started(&timer));
}

Test(reactor, timer_never_fires_early, .init = set_up, .fini = tear_down)
{
	struct numbered_timer timer = { .timer.fire = note_timer };
	uint64_t start_ns = rf_now_ns();

	rf_timer_start(reactor, &timer.timer, 20);
	while (fired_count == 0)
		rf_reactor_turn(reactor, -1);
	cr_assert_geq(rf_now_ns() - start_ns, 20 * 1000000u);
}

/* ---- tasks -------------------------------------------------------------- */

enum { POSTERS = 3, POSTS = 5000 };

struct numbered_task {
	struct rf_task task;
	unsigned int poster, number;
};

static struct numbered_task tasks[POSTERS][POSTS];
static unsigned int next_number[POSTERS], ran_count;

static void run_numbered(struct rf_task *task)
{
	struct numbered_task *numbered =
		rf_container_of(task, struct numbered_task, task);

	cr_assert_eq(numbered->number, next_number[numbered->poster]++);
	ran_count++;
}

static void *post_many(void *arg)
{
	unsigned int poster = (unsigned int)(uintptr_t)arg;

	for (unsigned int i = 0; i < POSTS; i++) {
		struct numbered_task *numbered = &tasks[poster][i];

		numbered->task.run = run_numbered;
		numbered->poster = poster;
		numbered->number = i;
		rf_reactor_post(reactor, &numbered->task);
		if (i % 64 == 0)	/* let the reactor fall asleep */
			usleep(50);
	}
	return NULL;
}

Test(reactor, tasks_of_each_thread_run_once_and_in_order, .init = set_up,
     .fini = tear_down)
{
	pthread_t threads[POSTERS];

	for (uintptr_t i = 0; i < POSTERS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, post_many,
					    (void *)i), 0);
	while (ran_count < POSTERS * POSTS)
		rf_reactor_turn(reactor, -1);
	for (unsigned int i = 0; i < POSTERS; i++)
		pthread_join(threads[i], NULL);
	cr_assert_not(rf_reactor_turn(reactor, 0));
}

static struct rf_task echo_task;
static unsigned int echoes;

static void post_again(struct rf_task *task)
{
	if (++echoes < 3)
		rf_reactor_post(reactor, task);
}

Test(reactor, task_posted_by_a_task_runs_in_the_next_turn, .init = set_up,
     .fini = tear_down)
{
	echo_task.run = post_again;
	rf_reactor_post(reactor, &echo_task);
	for (unsigned int i = 1; i <= 3; i++) {
		cr_assert(rf_reactor_turn(reactor, -1));
		cr_assert_eq(echoes, i);
	}
}

/* ---- descriptors --------------------------------------------------------- */

struct pair {
	struct rf_watch watch;
	struct pair *other;
	int fd;
	unsigned int ready_count;
};

static void stop_the_other(struct rf_watch *watch, uint32_t events)
{
	struct pair *pair = rf_container_of(watch, struct pair, watch);
	uint64_t value;

	cr_assert(events & EPOLLIN);
	pair->ready_count++;
	cr_assert_eq(read(pair->fd, &value, sizeof(value)), sizeof(value));
	rf_watch_stop(reactor, &pair->other->watch);
	/* What its owner may do at once: the event fetched must not hit it. */
	memset(&pair->other->watch, 0xff, sizeof(pair->other->watch));
}

static void open_pair(struct pair *pair, struct pair *other)
{
	uint64_t one = 1;

	pair->fd = eventfd(0, EFD_NONBLOCK);
	pair->other = other;
	pair->watch.ready = stop_the_other;
	cr_assert_eq(rf_watch_start(reactor, &pair->watch, pair->fd, EPOLLIN),
		     0);
	cr_assert_eq(write(pair->fd, &one, sizeof(one)), sizeof(one));
}

Test(reactor, stopped_watch_gets_no_event_that_was_fetched_before,
     .init = set_up, .fini = tear_down)
{
	static struct pair a, b;

	open_pair(&a, &b);
	open_pair(&b, &a);
	rf_reactor_turn(reactor, -1);
	cr_assert_eq(a.ready_count + b.ready_count, 1);
	rf_watch_stop(reactor, a.ready_count ? &a.watch : &b.watch);
	close(a.fd);
	close(b.fd);
}

static unsigned int ready_count;

static void count_ready(struct rf_watch *watch, uint32_t events)
{
	(void)watch;
	(void)events;
	ready_count++;
}

Test(reactor, descriptor_does_not_starve_beside_endless_tasks, .init = set_up,
     .fini = tear_down)
{
	struct rf_watch watch = { .ready = count_ready };
	struct rf_timer timer = { .fire = restart };
	int fd = eventfd(1, 0);

	cr_assert_eq(rf_watch_start(reactor, &watch, fd, EPOLLIN), 0);
	rf_timer_start(reactor, &timer, 0);
	for (unsigned int i = 0; i < 100; i++)
		rf_reactor_turn(reactor, -1);
	cr_assert_geq(ready_count, 10);
	rf_timer_stop(reactor, &timer);
	rf_watch_stop(reactor, &watch);
	close(fd);
}

Test(reactor, changed_watch_reports_what_it_was_changed_to, .init = set_up,
     .fini = tear_down)
{
	struct rf_watch watch = { .ready = count_ready };
	int fd = eventfd(0, 0);

	cr_assert_eq(rf_watch_start(reactor, &watch, fd, EPOLLIN), 0);
	rf_reactor_turn(reactor, 0);
	cr_assert_eq(ready_count, 0);
	cr_assert_eq(rf_watch_change(reactor, &watch, EPOLLOUT), 0);
	rf_reactor_turn(reactor, 0);
	cr_assert_eq(ready_count, 1);
	cr_assert_eq(rf_watch_change(reactor, &watch, 0), 0);
	rf_reactor_turn(reactor, 0);
	cr_assert_eq(ready_count, 1);
	rf_watch_stop(reactor, &watch);
	close(fd);
}

Test(reactor, descriptor_that_cannot_be_watched_is_an_error, .init = set_up,
     .fini = tear_down)
{
	struct rf_watch watch = { .ready = count_ready };

	cr_assert_eq(rf_watch_start(reactor, &watch, -1, EPOLLIN), -EBADF);
	cr_assert_not(watch.is_started);
	rf_watch_stop(reactor, &watch);
}

/* ---- hooks --------------------------------------------------------------- */

struct noting_hook {
	struct rf_hook hook;
	char name;
	struct rf_hook *removes;
};

static char hook_names[64];
static size_t hook_name_count;

static void note_hook(struct rf_hook *hook)
{
	struct noting_hook *noting =
		rf_container_of(hook, struct noting_hook, hook);

	hook_names[hook_name_count++] = noting->name;
	if (noting->removes)
		rf_hook_remove(reactor, noting->removes);
	noting->removes = NULL;
}

Test(reactor, hooks_end_a_turn_in_which_anything_ran, .init = set_up,
     .fini = tear_down)
{
	struct noting_hook a = { .hook.run = note_hook, .name = 'a' };
	struct noting_hook b = { .hook.run = note_hook, .name = 'b' };
	struct noting_hook c = { .hook.run = note_hook, .name = 'c' };

	rf_hook_add(reactor, &a.hook);
	rf_hook_add(reactor, &b.hook);
	rf_hook_add(reactor, &c.hook);
	rf_reactor_turn(reactor, 0);
	cr_assert_eq(hook_name_count, 0, "nothing ran, so no hook does");
	echo_task.run = post_again;
	echoes = 1;
	rf_reactor_post(reactor, &echo_task);
	a.removes = &b.hook;
	rf_reactor_turn(reactor, -1);
	rf_reactor_turn(reactor, -1);
	cr_assert_str_eq(hook_names, "acac");
	rf_hook_remove(reactor, &a.hook);
	rf_hook_remove(reactor, &c.hook);
}

static unsigned int readds;

static void readd_hook(struct rf_hook *hook)
{
	readds++;
	rf_hook_remove(reactor, hook);
	rf_hook_add(reactor, hook);
}

/* ---- pollers ---------------------------------------------------------------- */

Test(reactor, pollers_are_limited_and_their_places_come_back, .init = set_up,
     .fini = tear_down)
{
	struct rf_poller *pollers[RF_REACTOR_POLLERS_MAX + 1];
	struct rf_fabric *fab;
	unsigned int i;

	cr_assert_eq(rf_fabric_open("loop://reactor", &fab), 0);
	for (i = 0; i <= RF_REACTOR_POLLERS_MAX; i++)
		cr_assert_eq(rf_poller_create(fab, 16, &pollers[i]), 0);
	for (i = 0; i < RF_REACTOR_POLLERS_MAX; i++)
		cr_assert_eq(rf_reactor_add_poller(reactor, pollers[i]), 0);
	cr_assert_eq(rf_reactor_add_poller(reactor, pollers[i]), -ENOSPC);
	rf_reactor_turn(reactor, 0);
	rf_reactor_remove_poller(reactor, pollers[3]);
	cr_assert_eq(rf_reactor_add_poller(reactor, pollers[i]), 0);
	rf_reactor_turn(reactor, 0);
	for (i = 0; i <= RF_REACTOR_POLLERS_MAX; i++) {
		if (i != 3)
			rf_reactor_remove_poller(reactor, pollers[i]);
		rf_poller_destroy(pollers[i]);
	}
	rf_fabric_close(fab);
}

Test(reactor, hook_that_adds_itself_again_runs_once_a_turn, .init = set_up,
     .fini = tear_down)
{
	struct rf_hook hook = { .run = readd_hook };
	struct rf_timer timer = { .fire = restart };

	rf_hook_add(reactor, &hook);
	rf_timer_start(reactor, &timer, 0);
	for (unsigned int i = 1; i <= 5; i++) {
		rf_reactor_turn(reactor, -1);
		cr_assert_eq(readds, i);
	}
	rf_timer_stop(reactor, &timer);
	rf_hook_remove(reactor, &hook);
}

/* ---- run and stop ---------------------------------------------------------- */

static void *run_reactor(void *arg)
{
	(void)arg;
	rf_reactor_run(reactor);
	return NULL;
}

Test(reactor, stop_ends_a_sleeping_run, .init = set_up, .fini = tear_down)
{
	struct rf_reactor_stats stats;
	pthread_t thread;

	pthread_create(&thread, NULL, run_reactor, NULL);
	do {
		usleep(100);
		rf_reactor_stats(reactor, &stats);
	} while (stats.waits == 0);
	rf_reactor_stop(reactor);
	pthread_join(thread, NULL);
}

static void stop_it(int signal_number)
{
	(void)signal_number;
	rf_reactor_stop(reactor);
}

static void raise_alarm(struct rf_timer *timer)
{
	(void)timer;
	raise(SIGUSR1);
}

Test(reactor, stop_may_come_from_a_signal_handler_and_before_run,
     .init = set_up, .fini = tear_down)
{
	struct rf_timer timer = { .fire = raise_alarm };

	signal(SIGUSR1, stop_it);
	rf_timer_start(reactor, &timer, 1);
	rf_reactor_run(reactor);
	rf_reactor_stop(reactor);
	rf_reactor_run(reactor);
}

Test(reactor, spinning_reactor_still_sees_everything, .init = set_up,
     .fini = tear_down)
{
	struct numbered_timer timer = { .timer.fire = note_timer };
	struct rf_watch watch = { .ready = count_ready };
	int fd = eventfd(1, 0);

	rf_reactor_set_poll_us(reactor, 200);
	rf_timer_start(reactor, &timer.timer, 3);
	while (fired_count == 0)
		rf_reactor_turn(reactor, -1);
	cr_assert_eq(rf_watch_start(reactor, &watch, fd, EPOLLIN), 0);
	rf_reactor_turn(reactor, -1);
	cr_assert_eq(ready_count, 1);
	rf_watch_stop(reactor, &watch);
	close(fd);
}

/* ---- workers ----------------------------------------------------------------- */

struct test_job {
	struct rf_job job;
	pthread_t ran_on;
	unsigned int number;
	bool is_done;
};

static unsigned int done_count;
static atomic_uint run_count;

static void run_job(struct rf_job *job)
{
	struct test_job *test = rf_container_of(job, struct test_job, job);

	test->ran_on = pthread_self();
	test->number = atomic_fetch_add(&run_count, 1);
}

static void job_done(struct rf_job *job)
{
	struct test_job *test = rf_container_of(job, struct test_job, job);

	cr_assert_not(test->is_done);
	test->is_done = true;
	done_count++;
}

static void run_jobs(unsigned int thread_count, struct test_job *jobs,
		     unsigned int count)
{
	struct rf_workers *workers;

	cr_assert_eq(rf_workers_create("test", thread_count, &workers), 0);
	for (unsigned int i = 0; i < count; i++) {
		jobs[i].job.run = run_job;
		jobs[i].job.done = job_done;
		rf_workers_post(workers, reactor, &jobs[i].job);
	}
	cr_assert_eq(done_count, 0, "done() runs in a turn only");
	while (done_count < count)
		rf_reactor_turn(reactor, -1);
	rf_workers_destroy(workers);
}

Test(reactor, jobs_run_on_other_threads_and_come_back, .init = set_up,
     .fini = tear_down)
{
	static struct test_job jobs[500];

	run_jobs(3, jobs, RF_ARRAY_SIZE(jobs));
	for (unsigned int i = 0; i < RF_ARRAY_SIZE(jobs); i++)
		cr_assert_not(pthread_equal(jobs[i].ran_on, pthread_self()));
}

Test(reactor, one_worker_runs_jobs_in_the_order_posted, .init = set_up,
     .fini = tear_down)
{
	static struct test_job jobs[100];

	run_jobs(1, jobs, RF_ARRAY_SIZE(jobs));
	for (unsigned int i = 0; i < RF_ARRAY_SIZE(jobs); i++)
		cr_assert_eq(jobs[i].number, i);
}

Test(reactor, jobs_of_no_workers_run_in_the_reactor, .init = set_up,
     .fini = tear_down)
{
	static struct test_job jobs[100];

	run_jobs(0, jobs, RF_ARRAY_SIZE(jobs));
	for (unsigned int i = 0; i < RF_ARRAY_SIZE(jobs); i++) {
		cr_assert(pthread_equal(jobs[i].ran_on, pthread_self()));
		cr_assert_eq(jobs[i].number, i);
	}
}

Test(reactor, destroying_workers_waits_for_their_jobs, .init = set_up,
     .fini = tear_down)
{
	static struct test_job jobs[200];
	struct rf_workers *workers;

	cr_assert_eq(rf_workers_create("test", 2, &workers), 0);
	for (unsigned int i = 0; i < RF_ARRAY_SIZE(jobs); i++) {
		jobs[i].job.run = run_job;
		jobs[i].job.done = job_done;
		rf_workers_post(workers, reactor, &jobs[i].job);
	}
	rf_workers_destroy(workers);
	cr_assert_eq(atomic_load(&run_count), RF_ARRAY_SIZE(jobs));
	rf_reactor_turn(reactor, 0);
	cr_assert_eq(done_count, RF_ARRAY_SIZE(jobs));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reactor.c - the turn: wait once, run what is ready, run the hooks
 *
 * Operation.  One epoll set holds the descriptors of watches and of fabric
 * pollers, and an eventfd that other threads write, but only while the reactor
 * sleeps.  A turn that knows of work (a task, a due timer, a poller that says
 * so when armed) does not wait, and mostly leaves epoll alone: at most
 * LOOKS_SKIPPED_MAX turns in a row, so that descriptors do not starve.
 *
 * Ownership.  Everything that is started is the caller's; the reactor holds
 * pointers to it until it is stopped or was run.
 *
 * When it fails.  Creation and the start of a watch can fail; a turn cannot.
 */
#include "reactor_impl.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	EVENTS_MAX = 64,		/* taken from epoll in one turn */
	POLLER_BUDGET = 256,		/* callbacks of one poller in one turn */
	LOOKS_SKIPPED_MAX = 8,
};

struct poller_slot {
	struct rf_poller *poller;	/* NULL: the slot is free */
	struct rf_watch watch;
	bool is_ready;
};

struct rf_reactor {
	int epoll_fd;
	int wake_fd;
	struct rf_watch wake_watch;
	struct poller_slot pollers[RF_REACTOR_POLLERS_MAX];
	struct rf_timer_heap timers;
	struct rf_list hooks;
	struct rf_list *next_hook;	/* while hooks run, else NULL */
	uint64_t hook_round;

	/* What this turn fetched and has not run yet. */
	struct epoll_event events[EVENTS_MAX];
	unsigned int event_at, event_count;

	uint64_t (*clock)(void *context);	/* NULL: the real one */
	void *clock_context;
	uint64_t now_ns;		/* of this turn */
	uint32_t poll_us;
	unsigned int looks_skipped;
	bool is_in_turn;
	pthread_t owner;
	bool owner_is_known;

	_Atomic(struct rf_task *) tasks;	/* newest first */
	atomic_bool may_sleep;
	atomic_bool is_stopped;

	atomic_uint_fast64_t turns, waits, callbacks, longest_turn_ns;
};

static void check_owner(struct rf_reactor *reactor)
{
	if (!reactor->owner_is_known) {
		reactor->owner = pthread_self();
		reactor->owner_is_known = true;
	}
	RF_ASSERT(pthread_equal(reactor->owner, pthread_self()));
}

/* Only the owner counts, so that no locked instruction is needed. */
static void count_up(atomic_uint_fast64_t *counter, uint64_t by)
{
	uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);

	atomic_store_explicit(counter, value + by, memory_order_relaxed);
}

/* ---- life ------------ */

/* The eventfd is edge-triggered: being woken is all there is to it. */
static void woken(struct rf_watch *watch, uint32_t events)
{
	(void)watch;
	(void)events;
}

static int open_descriptors(struct rf_reactor *reactor)
{
	int err;

	reactor->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (reactor->epoll_fd < 0)
		return -errno;
	reactor->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (reactor->wake_fd < 0) {
		err = -errno;
		goto close_epoll;
	}
	reactor->wake_watch.ready = woken;
	err = rf_watch_start(reactor, &reactor->wake_watch, reactor->wake_fd,
			     EPOLLIN | EPOLLET);
	if (err)
		goto close_wake;
	return 0;
close_wake:
	close(reactor->wake_fd);
close_epoll:
	close(reactor->epoll_fd);
	return err;
}

int rf_reactor_create(struct rf_reactor **out)
{
	struct rf_reactor *reactor = calloc(1, sizeof(*reactor));
	int err;

	if (!reactor)
		return -ENOMEM;
	rf_list_init(&reactor->hooks);
	err = rf_timer_heap_init(&reactor->timers);
	if (err)
		goto free_reactor;
	err = open_descriptors(reactor);
	if (err)
		goto fini_timers;
	/* The creator need not be the thread that runs it. */
	reactor->owner_is_known = false;
	*out = reactor;
	return 0;
fini_timers:
	rf_timer_heap_fini(&reactor->timers);
free_reactor:
	free(reactor);
	return err;
}

void rf_reactor_destroy(struct rf_reactor *reactor)
{
	for (unsigned int i = 0; i < RF_REACTOR_POLLERS_MAX; i++)
		RF_ASSERT(!reactor->pollers[i].poller);
	RF_ASSERT(rf_list_is_empty(&reactor->hooks));
	RF_ASSERT(!atomic_load(&reactor->tasks));
	rf_timer_heap_fini(&reactor->timers);
	close(reactor->wake_fd);
	close(reactor->epoll_fd);
	free(reactor);
}

/* ---- time ------------ */

static uint64_t read_clock(const struct rf_reactor *reactor)
{
	return reactor->clock ? reactor->clock(reactor->clock_context)
			      : rf_now_ns();
}

uint64_t rf_reactor_now_ns(const struct rf_reactor *reactor)
{
	return reactor->is_in_turn ? reactor->now_ns : read_clock(reactor);
}

void rf_reactor_set_clock(struct rf_reactor *reactor,
			  uint64_t (*clock)(void *context), void *context)
{
	check_owner(reactor);
	reactor->clock = clock;
	reactor->clock_context = context;
}

void rf_reactor_set_poll_us(struct rf_reactor *reactor, uint32_t poll_us)
{
	check_owner(reactor);
	reactor->poll_us = poll_us;
}

void rf_timer_start(struct rf_reactor *reactor, struct rf_timer *timer,
		    uint64_t delay_ms)
{
	check_owner(reactor);
	rf_timer_heap_set(&reactor->timers, timer,
			  rf_reactor_now_ns(reactor) + delay_ms * 1000000u);
}

void rf_timer_stop(struct rf_reactor *reactor, struct rf_timer *timer)
{
	check_owner(reactor);
	rf_timer_heap_remove(&reactor->timers, timer);
}

uint64_t rf_reactor_next_due_ns(const struct rf_reactor *reactor)
{
	const struct rf_timer *first = rf_timer_heap_first(&reactor->timers);

	return first ? first->due_ns : UINT64_MAX;
}

/*
 * A timer that a callback starts with no delay runs in the next turn, or one
 * that restarts itself would hold this turn for ever.
 */
static unsigned int run_timers(struct rf_reactor *reactor)
{
	unsigned int left = reactor->timers.count, count = 0;
	struct rf_timer *timer;

	while (left-- > 0) {
		timer = rf_timer_heap_first(&reactor->timers);
		if (!timer || timer->due_ns > reactor->now_ns)
			break;
		rf_timer_heap_remove(&reactor->timers, timer);
		timer->fire(timer);
		count++;
	}
	return count;
}

/* ---- descriptors ------------ */

static int control(struct rf_reactor *reactor, int verb,
		   struct rf_watch *watch)
{
	struct epoll_event event = { .events = watch->events,
				     .data.ptr = watch };

	return epoll_ctl(reactor->epoll_fd, verb, watch->fd, &event) ?
	       -errno : 0;
}

int rf_watch_start(struct rf_reactor *reactor, struct rf_watch *watch, int fd,
		   uint32_t events)
{
	int err;

	check_owner(reactor);
	RF_ASSERT(watch->ready && !watch->is_started);
	watch->fd = fd;
	watch->events = events;
	err = control(reactor, EPOLL_CTL_ADD, watch);
	watch->is_started = err == 0;
	return err;
}

int rf_watch_change(struct rf_reactor *reactor, struct rf_watch *watch,
		    uint32_t events)
{
	check_owner(reactor);
	RF_ASSERT(watch->is_started);
	if (watch->events == events)
		return 0;
	watch->events = events;
	return control(reactor, EPOLL_CTL_MOD, watch);
}

void rf_watch_stop(struct rf_reactor *reactor, struct rf_watch *watch)
{
	check_owner(reactor);
	if (!watch->is_started)
		return;
	/* If it fails, the descriptor was closed, which removed it. */
	(void)control(reactor, EPOLL_CTL_DEL, watch);
	watch->is_started = false;
	for (unsigned int i = reactor->event_at; i < reactor->event_count; i++)
		if (reactor->events[i].data.ptr == watch)
			reactor->events[i].data.ptr = NULL;
}

/* The wake-up's and the pollers' watches lie within the reactor. */
static bool is_ours(const struct rf_reactor *reactor,
		    const struct rf_watch *watch)
{
	return (uintptr_t)watch - (uintptr_t)reactor < sizeof(*reactor);
}

static unsigned int run_events(struct rf_reactor *reactor)
{
	unsigned int count = 0;

	while (reactor->event_at < reactor->event_count) {
		struct epoll_event *event =
			&reactor->events[reactor->event_at++];
		struct rf_watch *watch = event->data.ptr;

		if (!watch)
			continue;
		/* Ours only take note of something that counts itself. */
		count += !is_ours(reactor, watch);
		watch->ready(watch, event->events);
	}
	return count;
}

/* ---- fabric pollers ------------ */

static void poller_ready(struct rf_watch *watch, uint32_t events)
{
	(void)events;
	rf_container_of(watch, struct poller_slot, watch)->is_ready = true;
}

int rf_reactor_add_poller(struct rf_reactor *reactor, struct rf_poller *poller)
{
	struct poller_slot *slot = reactor->pollers;
	int err;

	check_owner(reactor);
	while (slot < reactor->pollers + RF_REACTOR_POLLERS_MAX && slot->poller)
		slot++;
	if (slot == reactor->pollers + RF_REACTOR_POLLERS_MAX)
		return -ENOSPC;
	slot->watch.ready = poller_ready;
	err = rf_watch_start(reactor, &slot->watch, rf_poller_fd(poller),
			     EPOLLIN);
	if (err)
		return err;
	slot->poller = poller;
	slot->is_ready = true;	/* it may have work already */
	return 0;
}

void rf_reactor_remove_poller(struct rf_reactor *reactor,
			      struct rf_poller *poller)
{
	struct poller_slot *slot = reactor->pollers;

	check_owner(reactor);
	while (slot->poller != poller) {
		slot++;
		RF_ASSERT(slot < reactor->pollers + RF_REACTOR_POLLERS_MAX);
	}
	rf_watch_stop(reactor, &slot->watch);
	slot->poller = NULL;
}

/* The shorter of two waits in ms, of which -1 is the longest. */
static int lesser_wait(int a, int b)
{
	if (a < 0)
		return b;
	return b >= 0 && b < a ? b : a;
}

/*
 * Prepare all for a wait: how many ms it may last (-1: no limit).  A poller
 * whose time has come says so when armed for the next turn.
 */
static int arm_pollers(struct rf_reactor *reactor)
{
	int limit_ms = -1;

	for (unsigned int i = 0; i < RF_REACTOR_POLLERS_MAX; i++) {
		struct poller_slot *slot = &reactor->pollers[i];
		int ms;

		if (!slot->poller)
			continue;
		ms = slot->is_ready ? 0 : rf_poller_arm(slot->poller);
		if (ms == 0)
			slot->is_ready = true;
		limit_ms = lesser_wait(limit_ms, ms);
	}
	return limit_ms;
}

static unsigned int run_pollers(struct rf_reactor *reactor, bool wants_all)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < RF_REACTOR_POLLERS_MAX; i++) {
		struct poller_slot *slot = &reactor->pollers[i];

		if (!slot->poller || !(slot->is_ready || wants_all))
			continue;
		slot->is_ready = false;
		count += rf_poller_run(slot->poller, POLLER_BUDGET);
	}
	return count;
}

/* ---- tasks ------------ */

static void wake(struct rf_reactor *reactor)
{
	const uint64_t one = 1;
	int saved_errno = errno;
	ssize_t wrote = write(reactor->wake_fd, &one, sizeof(one));

	/* It fails only if the counter is full, and then it is awake. */
	(void)wrote;
	errno = saved_errno;
}

void rf_reactor_post(struct rf_reactor *reactor, struct rf_task *task)
{
	task->next = atomic_load(&reactor->tasks);
	while (!atomic_compare_exchange_weak(&reactor->tasks, &task->next,
					     task))
		;
	/* The load first: most posts find the reactor busy. */
	if (atomic_load(&reactor->may_sleep) &&
	    atomic_exchange(&reactor->may_sleep, false))
		wake(reactor);
}

/* Those posted so far, oldest first; what they post runs in the next turn. */
static unsigned int run_tasks(struct rf_reactor *reactor)
{
	struct rf_task *newest, *oldest = NULL, *next;
	unsigned int count = 0;

	if (!atomic_load_explicit(&reactor->tasks, memory_order_relaxed))
		return 0;
	newest = atomic_exchange(&reactor->tasks, NULL);
	while (newest) {
		next = newest->next;
		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	while (oldest) {
		next = oldest->next;
		oldest->run(oldest);
		oldest = next;
		count++;
	}
	return count;
}

/* ---- hooks ------------ */

void rf_hook_add(struct rf_reactor *reactor, struct rf_hook *hook)
{
	check_owner(reactor);
	/* Hooks that add themselves again would hold the turn for ever. */
	hook->not_in_round = reactor->next_hook ? reactor->hook_round : 0;
	rf_list_push(&reactor->hooks, &hook->link);
}

void rf_hook_remove(struct rf_reactor *reactor, struct rf_hook *hook)
{
	check_owner(reactor);
	if (reactor->next_hook == &hook->link)
		reactor->next_hook = hook->link.next;
	rf_list_remove(&hook->link);
}

static void run_hooks(struct rf_reactor *reactor)
{
	struct rf_list *at = reactor->hooks.next;

	reactor->hook_round++;
	while (at != &reactor->hooks) {
		struct rf_hook *hook = rf_container_of(at, struct rf_hook,
						       link);

		reactor->next_hook = at->next;
		if (hook->not_in_round != reactor->hook_round)
			hook->run(hook);
		at = reactor->next_hook;
	}
	reactor->next_hook = NULL;
}

/* ---- the turn ------------ */

static int nearest_timer_ms(const struct rf_reactor *reactor)
{
	uint64_t due_ns = rf_reactor_next_due_ns(reactor), ms;

	if (due_ns == UINT64_MAX)
		return -1;
	if (due_ns <= reactor->now_ns)
		return 0;
	/* Up, or the turn would come too early and spin until the time. */
	ms = (due_ns - reactor->now_ns + 999999u) / 1000000u;
	return (int)rf_min_u64(ms, INT32_MAX);
}

/* Arm all; for how long there is nothing to do that we know of. */
static int choose_wait(struct rf_reactor *reactor)
{
	int wait_ms = lesser_wait(arm_pollers(reactor),
				  nearest_timer_ms(reactor));

	return atomic_load(&reactor->tasks) ? 0 : wait_ms;
}

static void look(struct rf_reactor *reactor, int wait_ms)
{
	int count = epoll_wait(reactor->epoll_fd, reactor->events, EVENTS_MAX,
			       wait_ms);

	reactor->looks_skipped = 0;
	reactor->event_at = 0;
	/* A signal counts as nothing: its handler may have called stop(). */
	reactor->event_count = count > 0 ? (unsigned int)count : 0;
}

static void sleep_once(struct rf_reactor *reactor, int wait_ms)
{
	/*
	 * Who posts after this store sees it and writes the eventfd; a task
	 * posted before it is seen here.
	 */
	atomic_store(&reactor->may_sleep, true);
	if (atomic_load(&reactor->tasks))
		wait_ms = 0;
	count_up(&reactor->waits, 1);
	look(reactor, wait_ms);
	atomic_store(&reactor->may_sleep, false);
}

/* Something is to be run that neither a poller nor a descriptor tells of. */
static bool has_due(const struct rf_reactor *reactor)
{
	return atomic_load(&reactor->tasks) || nearest_timer_ms(reactor) == 0;
}

/*
 * Look again and again for poll_us.  Nothing is armed meanwhile, so pollers find
 * what is there without the kernel; the descriptors are looked at now and then.
 * Returns the number of callbacks that pollers ran; events may have been fetched
 * as well.
 */
static unsigned int spin(struct rf_reactor *reactor)
{
	const uint64_t end_ns = reactor->now_ns + reactor->poll_us * 1000ull;
	unsigned int count;

	/* Those of the last look were run. */
	reactor->event_at = reactor->event_count = 0;
	do {
		reactor->now_ns = read_clock(reactor);
		count = run_pollers(reactor, true);
		if (count || has_due(reactor))
			break;
		if (reactor->looks_skipped++ >= LOOKS_SKIPPED_MAX)
			look(reactor, 0);
	} while (reactor->event_count == 0 && reactor->now_ns < end_ns);
	return count;
}

/* Wait as long as is right; returns the callbacks that were run meanwhile. */
static unsigned int wait_for_work(struct rf_reactor *reactor, int limit_ms)
{
	unsigned int count;
	int wait_ms;

	if (reactor->poll_us > 0 && limit_ms != 0 && !reactor->clock &&
	    !has_due(reactor)) {
		count = spin(reactor);
		if (count || reactor->event_count)
			return count;
	}
	wait_ms = choose_wait(reactor);
	if (wait_ms == 0) {
		if (reactor->looks_skipped++ >= LOOKS_SKIPPED_MAX)
			look(reactor, 0);
		return 0;
	}
	/* Virtual time does not pass while we sleep. */
	if (limit_ms == 0 || reactor->clock) {
		look(reactor, 0);
		return 0;
	}
	sleep_once(reactor, lesser_wait(wait_ms, limit_ms));
	return 0;
}

static void count_turn(struct rf_reactor *reactor, unsigned int callbacks)
{
	uint64_t took_ns = read_clock(reactor) - reactor->now_ns;

	count_up(&reactor->turns, 1);
	count_up(&reactor->callbacks, callbacks);
	if (took_ns > atomic_load_explicit(&reactor->longest_turn_ns,
					   memory_order_relaxed))
		atomic_store_explicit(&reactor->longest_turn_ns, took_ns,
				      memory_order_relaxed);
}

bool rf_reactor_turn(struct rf_reactor *reactor, int wait_ms)
{
	unsigned int count;

	check_owner(reactor);
	RF_ASSERT(!reactor->is_in_turn);
	reactor->is_in_turn = true;
	reactor->now_ns = read_clock(reactor);
	count = wait_for_work(reactor, wait_ms);
	reactor->now_ns = read_clock(reactor);
	count += run_events(reactor);
	count += run_pollers(reactor, false);
	count += run_timers(reactor);
	count += run_tasks(reactor);
	if (count) {
		run_hooks(reactor);
		count_turn(reactor, count);
	}
	reactor->is_in_turn = false;
	return count > 0;
}

void rf_reactor_run(struct rf_reactor *reactor)
{
	while (!atomic_exchange(&reactor->is_stopped, false))
		rf_reactor_turn(reactor, -1);
}

void rf_reactor_stop(struct rf_reactor *reactor)
{
	atomic_store(&reactor->is_stopped, true);
	wake(reactor);
}

void rf_reactor_stats(const struct rf_reactor *reactor,
		      struct rf_reactor_stats *out)
{
	out->turns = atomic_load(&reactor->turns);
	out->waits = atomic_load(&reactor->waits);
	out->callbacks = atomic_load(&reactor->callbacks);
	out->longest_turn_ns = atomic_load(&reactor->longest_turn_ns);
}

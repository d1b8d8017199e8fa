/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timer.c - the heap of a reactor's timers
 *
 * Operation.  Each timer knows its place in the heap, so that moving and
 * stopping cost O(log n) without a search.
 * Ownership.  Timers are the callers'; the heap holds pointers while started.
 * When it fails.  More than RF_REACTOR_TIMERS_MAX at once is a bug: it aborts.
 */
#include "reactor_impl.h"

#include <errno.h>
#include <stdlib.h>

int rf_timer_heap_init(struct rf_timer_heap *heap)
{
	heap->count = 0;
	heap->timers = malloc((RF_REACTOR_TIMERS_MAX + 1) *
			      sizeof(heap->timers[0]));
	return heap->timers ? 0 : -ENOMEM;
}

void rf_timer_heap_fini(struct rf_timer_heap *heap)
{
	RF_ASSERT(heap->count == 0);
	free(heap->timers);
}

static void place(struct rf_timer_heap *heap, struct rf_timer *timer,
		  uint32_t index)
{
	heap->timers[index] = timer;
	timer->heap_index = index;
}

static void sift_up(struct rf_timer_heap *heap, struct rf_timer *timer,
		    uint32_t index)
{
	while (index > 1 && heap->timers[index / 2]->due_ns > timer->due_ns) {
		place(heap, heap->timers[index / 2], index);
		index /= 2;
	}
	place(heap, timer, index);
}

static void sift_down(struct rf_timer_heap *heap, struct rf_timer *timer,
		      uint32_t index)
{
	for (;;) {
		uint32_t child = 2 * index;

		if (child > heap->count)
			break;
		if (child < heap->count && heap->timers[child + 1]->due_ns <
					   heap->timers[child]->due_ns)
			child++;
		if (heap->timers[child]->due_ns >= timer->due_ns)
			break;
		place(heap, heap->timers[child], index);
		index = child;
	}
	place(heap, timer, index);
}

/* Put timer at index, where a hole or its old self is, and restore order. */
static void settle(struct rf_timer_heap *heap, struct rf_timer *timer,
		   uint32_t index)
{
	if (index > 1 && heap->timers[index / 2]->due_ns > timer->due_ns)
		sift_up(heap, timer, index);
	else
		sift_down(heap, timer, index);
}

void rf_timer_heap_set(struct rf_timer_heap *heap, struct rf_timer *timer,
		       uint64_t due_ns)
{
	timer->due_ns = due_ns;
	if (timer->heap_index == 0) {
		RF_ASSERT(heap->count < RF_REACTOR_TIMERS_MAX);
		sift_up(heap, timer, ++heap->count);
		return;
	}
	RF_ASSERT(timer->heap_index <= heap->count &&
		  heap->timers[timer->heap_index] == timer);
	settle(heap, timer, timer->heap_index);
}

void rf_timer_heap_remove(struct rf_timer_heap *heap, struct rf_timer *timer)
{
	uint32_t index = timer->heap_index;
	struct rf_timer *last;

	if (index == 0)
		return;
	RF_ASSERT(index <= heap->count && heap->timers[index] == timer);
	last = heap->timers[heap->count--];
	if (last != timer)
		settle(heap, last, index);
	timer->heap_index = 0;
}

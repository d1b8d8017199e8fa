/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reactor_impl.h - what reactor.c and timer.c share; nobody else includes it
 */
#ifndef RF_REACTOR_IMPL_H
#define RF_REACTOR_IMPL_H

#include "reactor.h"

/*
 * A binary heap of started timers, the nearest at index 1.  Room for all of
 * them is reserved at creation; the kernel gives the pages when used.
 */
struct rf_timer_heap {
	struct rf_timer **timers;
	uint32_t count;
};

int rf_timer_heap_init(struct rf_timer_heap *heap);
void rf_timer_heap_fini(struct rf_timer_heap *heap);

/* Add it, or move it if it is in already. */
void rf_timer_heap_set(struct rf_timer_heap *heap, struct rf_timer *timer,
		       uint64_t due_ns);
void rf_timer_heap_remove(struct rf_timer_heap *heap, struct rf_timer *timer);

/* The nearest, or NULL. */
static inline struct rf_timer *
rf_timer_heap_first(const struct rf_timer_heap *heap)
{
	return heap->count ? heap->timers[1] : NULL;
}

#endif /* RF_REACTOR_IMPL_H */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iwarp_poller.c - epoll, deadlines, and what runs next
 *
 * Operation.  A run first calls back what posts have finished since the last
 * one, then asks epoll, then sends what callbacks posted: one sendmsg for all
 * that a batch of messages caused.  Ends (closed) come last.  With few sockets
 * it tries recv on the one that was last active before it asks epoll: a round
 * trip at depth one then costs a wait, a recvmsg and a sendmsg.
 *
 * Ownership.  An endpoint, listener or request that ends during a run is freed
 * when the run ends, so that events already taken from epoll, and callers up
 * the stack, never meet freed memory.
 */
#include "iwarp.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

static const uint64_t ns_per_ms = 1000000;

/* ---- sources ----------------------------------------------------------- */

void iw_source_init(struct iw_source *source, enum iw_kind kind, int fd)
{
	*source = (struct iw_source){ .kind = kind, .fd = fd };
	rf_list_init(&source->deadline);
	rf_list_init(&source->grave);
}

int iw_source_watch(struct iw_poller *poller, struct iw_source *source,
		    uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = source };
	int verb = source->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (events == source->events)
		return 0;
	if (!events)
		verb = EPOLL_CTL_DEL;
	if (epoll_ctl(poller->epoll_fd, verb, source->fd, &event) < 0)
		return -errno;
	if (!source->events)
		poller->source_count++;
	if (!events)
		poller->source_count--;
	source->events = events;
	return 0;
}

void iw_source_close(struct iw_poller *poller, struct iw_source *source)
{
	rf_list_remove(&source->deadline);
	if (source->fd < 0)
		return;
	iw_source_watch(poller, source, 0);
	close(source->fd);
	source->fd = -1;
}

void iw_source_bury(struct iw_poller *poller, struct iw_source *source)
{
	iw_source_close(poller, source);
	iw_list_move(&poller->graves, &source->grave);
}

/* Most deadlines are the latest so far: look for the place from the end. */
void iw_source_deadline(struct iw_poller *poller, struct iw_source *source,
			uint32_t after_ms)
{
	struct rf_list *at = poller->deadlines.prev;

	rf_list_remove(&source->deadline);
	source->deadline_ns = rf_now_ns() + after_ms * ns_per_ms;
	at = poller->deadlines.prev;
	while (at != &poller->deadlines &&
	       rf_container_of(at, struct iw_source, deadline)->deadline_ns >
	       source->deadline_ns)
		at = at->prev;
	/* Behind at: before what follows it. */
	rf_list_push(at->next, &source->deadline);
}

static struct iw_source *first_deadline(const struct iw_poller *poller)
{
	if (rf_list_is_empty(&poller->deadlines))
		return NULL;
	return rf_container_of(poller->deadlines.next, struct iw_source,
			       deadline);
}

static struct iw_ep *source_ep(struct iw_source *source)
{
	return rf_container_of(source, struct iw_ep, source);
}

static struct iw_listener *source_listener(struct iw_source *source)
{
	return rf_container_of(source, struct iw_listener, source);
}

static struct iw_incoming *source_incoming(struct iw_source *source)
{
	return rf_container_of(source, struct iw_incoming, source);
}

static void run_event(struct iw_source *source, uint32_t events)
{
	if (source->fd < 0)
		return;		/* closed since epoll reported it */
	if (source->kind == IW_EP)
		iw_ep_event(source_ep(source), events);
	else if (source->kind == IW_LISTENER)
		iw_listener_event(source_listener(source));
	else
		iw_incoming_event(source_incoming(source));
}

static void run_deadlines(struct iw_poller *poller)
{
	struct iw_source *source = first_deadline(poller);
	uint64_t now_ns;

	if (!source)
		return;
	now_ns = rf_now_ns();
	while (source && source->deadline_ns <= now_ns) {
		rf_list_remove(&source->deadline);
		if (source->kind == IW_EP)
			iw_ep_deadline(source_ep(source));
		else if (source->kind == IW_LISTENER)
			iw_source_watch(poller, source, EPOLLIN);
		else
			iw_incoming_drop(source_incoming(source));
		source = first_deadline(poller);
	}
}

/* ---- a run ------------------------------------------------------------- */

static void run_ready(struct iw_poller *poller)
{
	struct rf_list now, *item;

	/* What becomes ready meanwhile has its turn in the next run. */
	rf_list_init(&now);
	rf_list_take_all(&now, &poller->ready);
	while (!iw_budget_is_spent(poller) && (item = rf_list_pop(&now)))
		iw_ep_run_ready(rf_container_of(item, struct iw_ep, ready));
	/* Who had none stands before those who had one. */
	rf_list_take_all(&now, &poller->ready);
	rf_list_take_all(&poller->ready, &now);
}

/* Sending calls nothing back, and what it finishes keeps to the budget. */
static void run_flush(struct iw_poller *poller)
{
	struct rf_list *item;
	struct iw_ep *ep;

	while ((item = rf_list_pop(&poller->flush))) {
		ep = rf_container_of(item, struct iw_ep, flush);
		iw_tx_run(ep);
		iw_ep_retire(ep);
	}
}

static void run_doomed(struct iw_poller *poller)
{
	struct rf_list *item;

	while ((item = rf_list_pop(&poller->doomed)))
		iw_ep_bury(rf_container_of(item, struct iw_ep, doomed));
}

static void run_graves(struct iw_poller *poller)
{
	struct rf_list *item;

	while ((item = rf_list_pop(&poller->graves))) {
		struct iw_source *source =
			rf_container_of(item, struct iw_source, grave);

		if (source->kind == IW_EP)
			iw_ep_free(source_ep(source));
		else if (source->kind == IW_LISTENER)
			free(source_listener(source));
		else
			free(source_incoming(source));
	}
}

/* Bytes for the endpoint that had some last time save the call to epoll. */
static bool run_direct(struct iw_poller *poller)
{
	struct iw_ep *ep = poller->last_active;

	if (!ep || ep->state != IW_EP_OPEN || ep->source.events != EPOLLIN ||
	    poller->source_count > IW_DIRECT_SOURCES ||
	    poller->direct_runs >= IW_DIRECT_RUNS)
		return false;
	poller->direct_runs++;
	return iw_rx_run(ep) || poller->source_count == 1;
}

static unsigned int run_events(struct iw_poller *poller)
{
	struct epoll_event events[IW_EVENTS];
	int count = epoll_wait(poller->epoll_fd, events, IW_EVENTS, 0);

	poller->direct_runs = 0;
	for (int i = 0; i < count; i++) {
		run_event(events[i].data.ptr, events[i].events);
		run_flush(poller);
	}
	return count > 0 ? (unsigned int)count : 0;
}

static bool has_leftovers(const struct iw_poller *poller)
{
	return !rf_list_is_empty(&poller->ready) ||
	       !rf_list_is_empty(&poller->flush) ||
	       !rf_list_is_empty(&poller->doomed);
}

unsigned int iw_poller_run(struct rf_poller *base, unsigned int budget)
{
	struct iw_poller *poller = (struct iw_poller *)base;
	bool ask = !poller->is_drained || has_leftovers(poller);

	poller->budget = budget;
	poller->callbacks = 0;
	/*
	 * Right after a run that emptied every socket there is nothing new to
	 * be expected: one run in a row may do without asking, and the caller
	 * goes on to wait.
	 */
	poller->is_drained = false;
	if (ask) {
		run_ready(poller);
		run_flush(poller);
		run_deadlines(poller);
		/* Also when the budget is spent: who has something stands in
		 * line then. */
		if (iw_budget_is_spent(poller) || !run_direct(poller))
			run_events(poller);
		run_flush(poller);
		run_doomed(poller);
		run_flush(poller);
	}
	run_graves(poller);
	if (poller->callbacks && !iw_budget_is_spent(poller))
		poller->is_drained = !has_leftovers(poller);
	return poller->callbacks;
}

int iw_poller_fd(const struct rf_poller *base)
{
	return ((const struct iw_poller *)base)->epoll_fd;
}

int iw_poller_arm(struct rf_poller *base)
{
	struct iw_poller *poller = (struct iw_poller *)base;
	struct iw_source *source = first_deadline(poller);
	uint64_t now_ns, left_ms;

	poller->is_drained = false;
	if (has_leftovers(poller))
		return 0;
	if (!source)
		return -1;
	now_ns = rf_now_ns();
	if (source->deadline_ns <= now_ns)
		return 0;
	left_ms = (source->deadline_ns - now_ns + ns_per_ms - 1) / ns_per_ms;
	return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

/* ---- create and destroy ------------------------------------------------ */

int iw_poller_create(struct rf_fabric *base, uint32_t ops_max,
		     struct rf_poller **out)
{
	struct iw_fabric *fab = (struct iw_fabric *)base;
	struct iw_poller *poller = calloc(1, sizeof(*poller));
	int err;

	if (!poller)
		return -ENOMEM;
	poller->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (poller->epoll_fd < 0) {
		err = -errno;
		free(poller);
		return err;
	}
	poller->base.fab = base;
	poller->base.ops_max = ops_max;
	rf_list_init(&poller->eps);
	rf_list_init(&poller->ready);
	rf_list_init(&poller->flush);
	rf_list_init(&poller->doomed);
	rf_list_init(&poller->deadlines);
	rf_list_init(&poller->graves);
	rf_list_init(&poller->half_open);
	rf_list_init(&poller->lingering);
	rf_list_init(&poller->in_fabric);
	pthread_mutex_lock(&fab->lock);
	rf_list_push(&fab->pollers, &poller->in_fabric);
	pthread_mutex_unlock(&fab->lock);
	*out = &poller->base;
	return 0;
}

void iw_poller_destroy(struct rf_poller *base)
{
	struct iw_poller *poller = (struct iw_poller *)base;
	struct iw_fabric *fab = iw_poller_fabric(poller);
	struct rf_list *item;

	RF_ASSERT(rf_list_is_empty(&poller->eps));
	while (!rf_list_is_empty(&poller->lingering)) {
		item = poller->lingering.next;
		iw_ep_drop(rf_container_of(item, struct iw_ep, linger));
	}
	run_graves(poller);
	pthread_mutex_lock(&fab->lock);
	rf_list_remove(&poller->in_fabric);
	iw_stats_add(&fab->gone, &poller->stats);
	pthread_mutex_unlock(&fab->lock);
	close(poller->epoll_fd);
	free(poller);
}

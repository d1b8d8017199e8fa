/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_poller.c - descriptors, completion queues that have something, the run
 *
 * Operation.  One epoll instance holds the event channel of rdma_cm, the
 * completion channel and the device's own events.  A completion queue stands in
 * the ready list from its event on, and every run polls it there: a program that
 * spins asks the device's memory and not the kernel.  Only rf_poller_arm(), which
 * comes before a sleep, asks for the next event; it polls once more, since a
 * completion between the last poll and the arming makes no event
 * (ibv_req_notify_cq(3)), and if there is nothing the queue leaves the list.  So
 * a busy queue has few events and many completions for each.
 *
 * Who spins waits for what comes in a microsecond or two, and a look at a queue in
 * memory is all that it should cost.  So while queues are polled the clock is read
 * in every RUNS_PER_CLOCK-th run, and the kernel asked about the descriptors every
 * LOOK_EVERY_NS.
 */
#include "verbs_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	WATCHED_FDS = 5,
	RUNS_PER_CLOCK = 16,
	LOOK_EVERY_NS = 50000,
};

static int set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	return 0;
}

static int watch(struct verbs_poller *poller, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
	int err = set_nonblocking(fd);

	if (err)
		return err;
	if (epoll_ctl(poller->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		return -errno;
	return 0;
}

static void release(struct verbs_poller *poller)
{
	verbs_events_leave(poller);
	verbs_cm_fini(poller);
	if (poller->told_fd >= 0)
		close(poller->told_fd);
	if (poller->uevent_fd >= 0)
		close(poller->uevent_fd);
	if (poller->comp)
		ibv_destroy_comp_channel(poller->comp);
	if (poller->cm)
		rdma_destroy_event_channel(poller->cm);
	if (poller->epoll_fd >= 0)
		close(poller->epoll_fd);
	free(poller);
}

int verbs_poller_create(struct rf_fabric *fab, uint32_t ops_max,
			struct rf_poller **out)
{
	struct verbs_fabric *fabric = verbs_fabric_of(fab);
	struct verbs_poller *poller = calloc(1, sizeof(*poller));
	int err;

	if (!poller)
		return -ENOMEM;
	poller->base.fab = fab;
	poller->base.ops_max = ops_max;
	poller->nearest_ns = UINT64_MAX;
	rf_list_init(&poller->eps);
	rf_list_init(&poller->ready);
	rf_list_init(&poller->ending);
	rf_list_init(&poller->mute);
	rf_list_init(&poller->listeners);
	rf_list_init(&poller->all_link);
	poller->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	poller->told_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	poller->uevent_fd = verbs_uevents_open();
	poller->cm = rdma_create_event_channel();
	poller->comp = ibv_create_comp_channel(fabric->context);
	if (poller->epoll_fd < 0 || poller->told_fd < 0 || !poller->cm ||
	    !poller->comp) {
		err = -errno;
		release(poller);
		return err ? err : -ENOMEM;
	}
	err = watch(poller, poller->cm->fd);
	if (!err)
		err = watch(poller, poller->comp->fd);
	if (!err)
		err = watch(poller, poller->told_fd);
	if (!err && poller->uevent_fd >= 0)
		err = watch(poller, poller->uevent_fd);
	if (!err)
		err = watch(poller, fabric->context->async_fd);
	if (err) {
		release(poller);
		return err;
	}
	verbs_events_join(poller);
	*out = &poller->base;
	return 0;
}

void verbs_poller_destroy(struct rf_poller *poller)
{
	struct verbs_poller *vp =
		rf_container_of(poller, struct verbs_poller, base);

	RF_ASSERT(rf_list_is_empty(&vp->eps));
	while (!rf_list_is_empty(&vp->listeners)) {
		struct verbs_listener *listener =
			rf_container_of(vp->listeners.next,
					struct verbs_listener, link);

		RF_ASSERT(listener->is_closed);
		verbs_listener_free(listener);
	}
	release(vp);
}

int verbs_poller_fd(const struct rf_poller *poller)
{
	return rf_container_of(poller, const struct verbs_poller,
			       base)->epoll_fd;
}

void verbs_poller_wants(struct verbs_poller *poller, struct verbs_ep *ep)
{
	if (rf_list_is_empty(&ep->ready_link))
		rf_list_push(&poller->ready, &ep->ready_link);
}

/* ---- events -------------------------------------------------------------- */

static void take_completion_events(struct verbs_poller *poller)
{
	struct ibv_cq *cq;
	void *context;

	while (ibv_get_cq_event(poller->comp, &cq, &context) == 0) {
		struct verbs_ep *ep = context;

		ep->cq_events++;
		ep->is_armed = false;
		verbs_poller_wants(poller, ep);
		VERBS_COUNT(verbs_fabric_of(poller->base.fab), cq_events, 1);
	}
}

/* ---- the run ------------------------------------------------------------- */

/* Ask for an event at the next completion.  [owner] */
static void arm_queue(struct verbs_ep *ep)
{
	if (ep->is_armed || ep->is_qp_dead)
		return;
	ep->is_armed = true;
	if (ibv_req_notify_cq(ep->cq, 0))
		verbs_ep_end(ep, -EIO);
}

/* Poll one queue; it stays in the list until it is armed and found empty. */
static unsigned int run_queue(struct verbs_poller *poller, struct verbs_ep *ep,
			      unsigned int budget)
{
	bool left = true;
	unsigned int count = verbs_poll_queue(ep, budget, &left);

	/* The end waits for the last look, and not for a sleep. */
	if (!left && ep->state == VERBS_ENDING && !ep->is_armed) {
		arm_queue(ep);
		count += verbs_poll_queue(ep, budget, &left);
	}
	if (!ep->is_qp_dead && (left || !ep->is_armed))
		verbs_poller_wants(poller, ep);
	return count;
}

static unsigned int run_queues(struct verbs_poller *poller, unsigned int budget)
{
	struct rf_list turn;
	struct rf_list *item;
	unsigned int count = 0;

	if (rf_list_is_empty(&poller->ready))
		return 0;
	/* Mostly there is one, and it stays. */
	if (poller->ready.next == poller->ready.prev) {
		struct verbs_ep *ep =
			rf_container_of(poller->ready.next, struct verbs_ep,
					ready_link);
		bool left;

		if (ep->state == VERBS_CONNECTED && !ep->is_armed)
			return verbs_poll_queue(ep, budget, &left);
	}
	/* What becomes ready meanwhile has its turn in the next run. */
	rf_list_init(&turn);
	rf_list_take_all(&turn, &poller->ready);
	while (count < budget && (item = rf_list_pop(&turn))) {
		struct verbs_ep *ep =
			rf_container_of(item, struct verbs_ep, ready_link);

		count += run_queue(poller, ep, budget - count);
	}
	/* Who had none stands before those who had one. */
	rf_list_take_all(&turn, &poller->ready);
	rf_list_take_all(&poller->ready, &turn);
	return count;
}

static unsigned int finish_ended(struct verbs_poller *poller)
{
	struct rf_list turn;
	struct rf_list *item;
	unsigned int count = 0;

	rf_list_init(&turn);
	rf_list_take_all(&turn, &poller->ending);
	while ((item = rf_list_pop(&turn))) {
		struct verbs_ep *ep =
			rf_container_of(item, struct verbs_ep, ending_link);

		if (verbs_ep_finish(ep))
			count++;
		else
			rf_list_push(&poller->ending, &ep->ending_link);
	}
	return count;
}

static void free_closed_listeners(struct verbs_poller *poller)
{
	struct rf_list *pos = poller->listeners.next;

	poller->has_closed_listeners = false;
	while (pos != &poller->listeners) {
		struct verbs_listener *listener =
			rf_container_of(pos, struct verbs_listener, link);

		pos = pos->next;
		if (listener->is_closed)
			verbs_listener_free(listener);
	}
}

/* Returns the number of callbacks run. */
static unsigned int look(struct verbs_poller *poller, unsigned int budget)
{
	struct epoll_event events[WATCHED_FDS];
	unsigned int count = 0;
	int ready, ran;

	poller->look_ns = poller->now_ns + LOOK_EVERY_NS;
	ready = epoll_wait(poller->epoll_fd, events, WATCHED_FDS, 0);
	for (int i = 0; i < ready; i++) {
		int fd = events[i].data.fd;

		if (fd == poller->comp->fd)
			take_completion_events(poller);
		else if (fd == poller->told_fd)
			count += verbs_heed_device(poller);
		else if (fd == poller->uevent_fd)
			verbs_take_uevents(fd);
		else if (fd != poller->cm->fd)
			verbs_take_device_events(poller);
		else
			while (count < budget &&
			       (ran = verbs_cm_event(poller)) >= 0)
				count += (unsigned int)ran;
	}
	return count;
}

unsigned int verbs_poller_run(struct rf_poller *poller, unsigned int budget)
{
	struct verbs_poller *vp =
		rf_container_of(poller, struct verbs_poller, base);
	bool is_idle = rf_list_is_empty(&vp->ready);
	unsigned int count = 0;

	if (is_idle || ++vp->runs >= RUNS_PER_CLOCK) {
		vp->runs = 0;
		vp->now_ns = rf_now_ns();
		if (is_idle || vp->now_ns >= vp->look_ns)
			count = look(vp, budget);
	}
	if (count < budget)
		count += run_queues(vp, budget - count);
	if (vp->now_ns >= vp->nearest_ns)
		verbs_ep_deadlines(vp);
	if (!rf_list_is_empty(&vp->ending))
		count += finish_ended(vp);
	if (vp->has_closed_listeners)
		free_closed_listeners(vp);
	return count;
}

/* Milliseconds to the nearest deadline, rounded up; -1: there is none. */
static int next_deadline_ms(const struct verbs_poller *poller)
{
	uint64_t now_ns = rf_now_ns();

	if (poller->nearest_ns == UINT64_MAX)
		return -1;
	if (poller->nearest_ns <= now_ns)
		return 0;
	return (int)rf_min_u64((poller->nearest_ns - now_ns) / 1000000 + 1,
			       INT32_MAX);
}

int verbs_poller_arm(struct rf_poller *poller)
{
	struct verbs_poller *vp =
		rf_container_of(poller, struct verbs_poller, base);
	struct rf_list *pos;

	struct rf_list *item;

	while (vp->found_count <= 0 && (item = rf_list_pop(&vp->ready))) {
		struct verbs_ep *ep =
			rf_container_of(item, struct verbs_ep, ready_link);

		arm_queue(ep);
		if (verbs_peek_queue(ep))
			verbs_poller_wants(vp, ep);
	}
	if (vp->found_count > 0)
		return 0;
	rf_list_for_each(pos, &vp->ending)
		if (verbs_ep_is_quiet(rf_container_of(pos, struct verbs_ep,
						      ending_link)))
			return 0;
	return next_deadline_ms(vp);
}

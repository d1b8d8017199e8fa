/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_poller.c - what is ready to run, and the table of the loop fabric
 *
 * Operation.  Endpoints and listeners with callbacks to run stand in line at
 * their poller; each runs one and goes to the end.  The descriptor is an
 * eventfd that is readable exactly while the line is not empty.
 */
#include "loop_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* In steps of its own accord a poller looks for work at most this far. */
enum { ALONE_STEPS_MAX = 100000 };

static struct rf_loop_world *poller_world(const struct rf_poller *poller)
{
	return loop_fabric(poller->fab)->world;
}

int loop_poller_create(struct rf_fabric *fab, uint32_t ops_max,
		       struct rf_poller **out)
{
	struct loop_poller *poller = calloc(1, sizeof(*poller));

	if (!poller)
		return -ENOMEM;
	poller->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (poller->fd < 0) {
		int err = -errno;

		free(poller);
		return err;
	}
	poller->base.fab = fab;
	poller->base.ops_max = ops_max;
	rf_list_init(&poller->ready);
	loop_fabric(fab)->users++;
	*out = &poller->base;
	return 0;
}

void loop_poller_destroy(struct rf_poller *base)
{
	struct loop_poller *poller = loop_poller(base);

	RF_ASSERT(poller->users == 0);
	loop_fabric(base->fab)->users--;
	close(poller->fd);
	free(poller);
}

static void update_fd(struct loop_poller *poller)
{
	bool is_set = poller->ready_count > 0;
	eventfd_t ignored;

	if (is_set == poller->fd_is_set)
		return;
	poller->fd_is_set = is_set;
	if (is_set)
		RF_ASSERT(eventfd_write(poller->fd, 1) == 0);
	else
		RF_ASSERT(eventfd_read(poller->fd, &ignored) == 0);
}

void loop_source_set(struct loop_poller *poller, struct loop_source *source,
		     bool is_ready)
{
	if (is_ready == !rf_list_is_empty(&source->link))
		return;
	if (is_ready) {
		rf_list_push(&poller->ready, &source->link);
		poller->ready_count++;
	} else {
		rf_list_remove(&source->link);
		poller->ready_count--;
	}
	/* Inside run the descriptor is set right once, at the end. */
	if (!poller->base.is_running)
		update_fd(poller);
}

static struct loop_source *choose(struct loop_poller *poller)
{
	struct rf_loop_world *world = poller_world(&poller->base);
	struct rf_list *pos = poller->ready.next;

	if (world->reorders)
		for (uint64_t skip = loop_chance(world, poller->ready_count);
		     skip > 0; skip--)
			pos = pos->next;
	return rf_container_of(pos, struct loop_source, link);
}

static void run_one(struct loop_poller *poller)
{
	struct loop_source *source = choose(poller);

	/* To the end of the line, or out of it: tell finds out. */
	loop_source_set(poller, source, false);
	if (source->is_listener)
		loop_listener_tell(rf_container_of(source, struct loop_listener,
						   source));
	else
		loop_ep_tell(rf_container_of(source, struct loop_ep, source));
}

static void step_alone(struct loop_poller *poller)
{
	struct rf_loop_world *world = poller_world(&poller->base);
	unsigned int steps = 0;

	while (poller->ready_count == 0 && steps++ < ALONE_STEPS_MAX)
		if (!rf_loop_step(world))
			return;
}

unsigned int loop_poller_run(struct rf_poller *base, unsigned int budget)
{
	struct loop_poller *poller = loop_poller(base);
	unsigned int count = 0;

	loop_check_thread(poller_world(base));
	if (poller_world(base)->steps_alone)
		step_alone(poller);
	for (; count < budget && poller->ready_count > 0; count++)
		run_one(poller);
	update_fd(poller);
	return count;
}

int loop_poller_fd(const struct rf_poller *base)
{
	return rf_container_of(base, const struct loop_poller, base)->fd;
}

int loop_poller_arm(struct rf_poller *base)
{
	const struct rf_loop_world *world = poller_world(base);
	uint64_t next_ns = rf_loop_next_ns(world);
	uint64_t wait_ms;

	if (loop_poller(base)->ready_count > 0)
		return 0;
	if (next_ns == UINT64_MAX)
		return -1;
	if (world->steps_alone)
		return 0;
	/* Up, and never 0: nothing is there to run yet. */
	wait_ms = (next_ns - world->now_ns + 999999) / 1000000;
	return (int)rf_min_u64(rf_max_u64(wait_ms, 1), INT32_MAX);
}

const struct rf_fabric_ops rf_loop_ops = {
	.scheme = "loop",
	.open = loop_mem_open,
	.close = loop_mem_close,
	.stats = loop_mem_stats,
	.pd_create = loop_pd_create,
	.pd_destroy = loop_pd_destroy,
	.mr_register = loop_mr_register,
	.mr_deregister = loop_mr_deregister,
	.window_create = loop_window_create,
	.window_destroy = loop_window_destroy,
	.window_next_key = loop_window_next_key,
	.poller_create = loop_poller_create,
	.poller_destroy = loop_poller_destroy,
	.poller_run = loop_poller_run,
	.poller_fd = loop_poller_fd,
	.poller_arm = loop_poller_arm,
	.ep_connect = loop_connect,
	.ep_accept = loop_accept,
	.ep_reject = loop_reject,
	.ep_close = loop_close,
	.ep_addresses = loop_addresses,
	.ep_post = loop_post,
	.ep_post_recv = loop_post_recv,
	.listener_open = loop_listener_open,
	.listener_address = loop_listener_address,
	.listener_close = loop_listener_close,
	.incoming_peer = loop_incoming_peer,
};

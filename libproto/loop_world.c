/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_world.c - a world of the loop fabric: its clock, chance and faults
 *
 * Operation.  Whatever is to happen is an event in one heap, ordered by time
 * and then by the order of scheduling, so that a run depends on nothing but the
 * seed and the calls.  Events are members of the objects that they concern;
 * scheduling allocates nothing once the heap has grown.
 *
 * Ownership.  Worlds are found by name in one list, under its lock.  A world
 * belongs to the first thread that runs it.
 *
 * When it fails.  rf_loop_world_get() may lack memory; a heap that can't grow
 * aborts: a simulation has no use for half a message.
 */
#include "loop_impl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

static pthread_mutex_t worlds_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rf_list worlds = { &worlds, &worlds };

static const struct rf_limits usual_limits = {
	.msg_size_max = 1u << 20,
	.rdma_size_max = 1u << 30,
	.hello_size_max = 56,	/* the least of all transports: InfiniBand's */
	.sge_count_max = 4,
	.read_sge_count_max = 4,
	.reads_max = 16,
	.read_block = 64 << 10,
	.send_depth_max = 4096,
	.recv_depth_max = 4096,
};

static struct rf_loop_world *find_world(const char *name)
{
	struct rf_list *pos;

	rf_list_for_each(pos, &worlds) {
		struct rf_loop_world *world =
			rf_container_of(pos, struct rf_loop_world, link);

		if (strcmp(world->name, name) == 0)
			return world;
	}
	return NULL;
}

static struct rf_loop_world *create_world(const char *name)
{
	struct rf_loop_world *world = calloc(1, sizeof(*world));

	if (!world)
		return NULL;
	memcpy(world->name, name, strlen(name) + 1);
	world->chance = 1;
	world->latency_min_ns = 1000;
	world->latency_max_ns = 10000;
	world->level = RF_LEVEL_WINDOW;
	world->limits = usual_limits;
	world->next_port = 32768;
	rf_list_init(&world->eps);
	rf_list_init(&world->listeners);
	rf_list_push(&worlds, &world->link);
	return world;
}

struct rf_loop_world *rf_loop_world_get(const char *name)
{
	size_t size = strlen(name);
	struct rf_loop_world *world;

	if (size == 0 || size > LOOP_NAME_MAX || strchr(name, '?'))
		return NULL;
	pthread_mutex_lock(&worlds_lock);
	world = find_world(name);
	if (!world)
		world = create_world(name);
	if (world)
		world->users++;
	pthread_mutex_unlock(&worlds_lock);
	return world;
}

void rf_loop_world_put(struct rf_loop_world *world)
{
	bool is_last;

	pthread_mutex_lock(&worlds_lock);
	RF_ASSERT(world->users > 0);
	is_last = --world->users == 0;
	if (is_last)
		rf_list_remove(&world->link);
	pthread_mutex_unlock(&worlds_lock);
	if (!is_last)
		return;
	RF_ASSERT(world->heap_count == 0);
	free(world->heap);
	free(world->keys);
	free(world);
}

void loop_check_thread(struct rf_loop_world *world)
{
	if (!world->owner_is_known) {
		world->owner = pthread_self();
		world->owner_is_known = true;
	}
	RF_ASSERT(pthread_equal(world->owner, pthread_self()));
}

/* ---- chance -------------------------------------------------------------- */

/* SplitMix64: any state is a good state, so any seed is a good seed. */
static uint64_t mix(uint64_t word)
{
	word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
	word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
	return word ^ (word >> 31);
}

uint64_t loop_chance(struct rf_loop_world *world, uint64_t bound)
{
	world->chance += 0x9e3779b97f4a7c15u;
	return mix(world->chance) % bound;
}

void rf_loop_set_seed(struct rf_loop_world *world, uint64_t seed)
{
	world->chance = seed;
}

void loop_digest(struct rf_loop_world *world, uint64_t word)
{
	world->digest = mix(world->digest * 31 + word + 1);
}

uint64_t rf_loop_digest(const struct rf_loop_world *world)
{
	return world->digest;
}

/* ---- the heap of events -------------------------------------------------- */

static bool is_before(const struct loop_event *a, const struct loop_event *b)
{
	return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->seq < b->seq;
}

static void heap_set(struct rf_loop_world *world, size_t at,
		     struct loop_event *event)
{
	world->heap[at] = event;
	event->place = at + 1;
}

static void heap_up(struct rf_loop_world *world, size_t at,
		    struct loop_event *event)
{
	while (at > 0) {
		size_t parent = (at - 1) / 2;

		if (!is_before(event, world->heap[parent]))
			break;
		heap_set(world, at, world->heap[parent]);
		at = parent;
	}
	heap_set(world, at, event);
}

static void heap_down(struct rf_loop_world *world, size_t at,
		      struct loop_event *event)
{
	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= world->heap_count)
			break;
		if (child + 1 < world->heap_count &&
		    is_before(world->heap[child + 1], world->heap[child]))
			child++;
		if (is_before(event, world->heap[child]))
			break;
		heap_set(world, at, world->heap[child]);
		at = child;
	}
	heap_set(world, at, event);
}

void loop_cancel(struct rf_loop_world *world, struct loop_event *event)
{
	size_t at = event->place - 1;
	struct loop_event *last;

	if (event->place == 0)
		return;
	event->place = 0;
	last = world->heap[--world->heap_count];
	if (last == event)
		return;
	if (at > 0 && is_before(last, world->heap[(at - 1) / 2]))
		heap_up(world, at, last);
	else
		heap_down(world, at, last);
}

void loop_schedule(struct rf_loop_world *world, struct loop_event *event,
		   uint64_t due_ns)
{
	loop_cancel(world, event);
	if (world->heap_count == world->heap_room) {
		size_t room = world->heap_room ? 2 * world->heap_room : 64;
		struct loop_event **heap =
			realloc(world->heap, room * sizeof(*heap));

		RF_ASSERT(heap);
		world->heap = heap;
		world->heap_room = room;
	}
	event->due_ns = rf_max_u64(due_ns, world->now_ns);
	event->seq = world->next_seq++;
	heap_up(world, world->heap_count++, event);
}

/* ---- time ---------------------------------------------------------------- */

uint64_t rf_loop_now_ns(const struct rf_loop_world *world)
{
	return world->now_ns;
}

uint64_t rf_loop_next_ns(const struct rf_loop_world *world)
{
	return world->heap_count ? world->heap[0]->due_ns : UINT64_MAX;
}

bool rf_loop_step(struct rf_loop_world *world)
{
	struct loop_event *event;

	loop_check_thread(world);
	if (world->heap_count == 0)
		return false;
	event = world->heap[0];
	loop_cancel(world, event);
	world->now_ns = event->due_ns;
	loop_digest(world, event->due_ns);
	loop_digest(world, event->seq);
	event->fire(event);
	return true;
}

void rf_loop_advance(struct rf_loop_world *world, uint64_t ns)
{
	uint64_t until_ns = world->now_ns + ns;

	RF_ASSERT(until_ns >= ns);
	while (rf_loop_next_ns(world) <= until_ns && rf_loop_step(world))
		;
	world->now_ns = until_ns;
}

/* ---- settings ------------------------------------------------------------ */

void rf_loop_set_auto_step(struct rf_loop_world *world, bool on)
{
	world->steps_alone = on;
}

void rf_loop_set_latency(struct rf_loop_world *world, uint64_t min_ns,
			 uint64_t max_ns)
{
	RF_ASSERT(min_ns > 0 && min_ns <= max_ns);
	world->latency_min_ns = min_ns;
	world->latency_max_ns = max_ns;
}

void rf_loop_set_reorder(struct rf_loop_world *world, bool on)
{
	world->reorders = on;
}

void rf_loop_set_level(struct rf_loop_world *world, enum rf_level level)
{
	world->level = level;
}

void rf_loop_set_limits(struct rf_loop_world *world,
			const struct rf_limits *limits)
{
	RF_ASSERT(limits->hello_size_max <= LOOP_HELLO_MAX);
	RF_ASSERT(limits->sge_count_max > 0 &&
		  limits->sge_count_max <= LOOP_SGE_MAX);
	RF_ASSERT(limits->read_sge_count_max > 0 &&
		  limits->read_sge_count_max <= LOOP_SGE_MAX);
	world->limits = *limits;
}

void rf_loop_get_limits(const struct rf_loop_world *world,
			struct rf_limits *out)
{
	*out = world->limits;
}

void rf_loop_refuse_connects(struct rf_loop_world *world, bool on)
{
	world->refuses = on;
}

void rf_loop_fail_registrations(struct rf_loop_world *world, unsigned int after,
				unsigned int count)
{
	world->mr_failures = (struct loop_failures){ after, count };
}

void rf_loop_fail_receives(struct rf_loop_world *world, unsigned int after,
			   unsigned int count)
{
	world->recv_failures = (struct loop_failures){ after, count };
}

bool loop_fails(struct loop_failures *failures)
{
	if (failures->count == 0)
		return false;
	if (failures->after > 0) {
		failures->after--;
		return false;
	}
	failures->count--;
	return true;
}

void rf_loop_set_scribble(struct rf_loop_world *world, bool on)
{
	world->scribbles = on;
}

/* ---- addresses ----------------------------------------------------------- */

static const struct sockaddr_in *as_in(const struct sockaddr_storage *addr)
{
	return (const struct sockaddr_in *)(const void *)addr;
}

static const struct sockaddr_in6 *as_in6(const struct sockaddr_storage *addr)
{
	return (const struct sockaddr_in6 *)(const void *)addr;
}

bool loop_same_host(const struct sockaddr_storage *a,
		    const struct sockaddr_storage *b)
{
	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return as_in(a)->sin_addr.s_addr == as_in(b)->sin_addr.s_addr;
	return IN6_ARE_ADDR_EQUAL(&as_in6(a)->sin6_addr, &as_in6(b)->sin6_addr);
}

bool loop_is_wildcard(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		return as_in(addr)->sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&as_in6(addr)->sin6_addr);
}

uint16_t loop_port(const struct sockaddr_storage *addr)
{
	return ntohs(addr->ss_family == AF_INET ? as_in(addr)->sin_port
						: as_in6(addr)->sin6_port);
}

void loop_set_port(struct sockaddr_storage *addr, uint16_t port)
{
	if (addr->ss_family == AF_INET)
		((struct sockaddr_in *)(void *)addr)->sin_port = htons(port);
	else
		((struct sockaddr_in6 *)(void *)addr)->sin6_port = htons(port);
}

int loop_copy_address(struct sockaddr_storage *to, const struct sockaddr *from,
		      socklen_t size)
{
	size_t wanted;

	memset(to, 0, sizeof(*to));
	if (size < sizeof(sa_family_t))
		return -EAFNOSUPPORT;
	if (from->sa_family == AF_INET)
		wanted = sizeof(struct sockaddr_in);
	else if (from->sa_family == AF_INET6)
		wanted = sizeof(struct sockaddr_in6);
	else
		return -EAFNOSUPPORT;
	if (size < wanted)
		return -EINVAL;
	memcpy(to, from, wanted);
	return 0;
}

/* ---- faults -------------------------------------------------------------- */

static void copy_host(struct sockaddr_storage *to, const struct sockaddr *from)
{
	memset(to, 0, sizeof(*to));
	if (from)
		memcpy(to, from, from->sa_family == AF_INET ?
		       sizeof(struct sockaddr_in) :
		       sizeof(struct sockaddr_in6));
}

static bool matches(const struct sockaddr_storage *pattern,
		    const struct sockaddr_storage *addr)
{
	if (pattern->ss_family == 0)
		return true;
	return loop_same_host(pattern, addr) &&
	       (loop_port(pattern) == 0 ||
		loop_port(pattern) == loop_port(addr));
}

static void paths_changed(struct rf_loop_world *world)
{
	struct rf_list *pos;

	rf_list_for_each(pos, &world->eps)
		loop_ep_path_changed(rf_container_of(pos, struct loop_ep,
						     link));
}

static int add_rule(struct rf_loop_world *world, const struct sockaddr *from,
		    const struct sockaddr *to, uint64_t extra_ns,
		    bool is_blocked)
{
	struct loop_rule rule = { .extra_ns = extra_ns,
				  .is_blocked = is_blocked };
	unsigned int i = 0;

	copy_host(&rule.from, from);
	copy_host(&rule.to, to);
	while (i < world->rule_count &&
	       (world->rules[i].is_blocked != is_blocked ||
		memcmp(&world->rules[i].from, &rule.from, sizeof(rule.from)) ||
		memcmp(&world->rules[i].to, &rule.to, sizeof(rule.to))))
		i++;
	if (i == LOOP_RULES_MAX)
		return -ENOSPC;
	if (i == world->rule_count)
		world->rule_count++;
	world->rules[i] = rule;
	if (is_blocked)
		paths_changed(world);
	return 0;
}

int rf_loop_delay(struct rf_loop_world *world, const struct sockaddr *from,
		  const struct sockaddr *to, uint64_t extra_ns)
{
	return add_rule(world, from, to, extra_ns, false);
}

int rf_loop_block(struct rf_loop_world *world, const struct sockaddr *from,
		  const struct sockaddr *to)
{
	return add_rule(world, from, to, 0, true);
}

int rf_loop_partition(struct rf_loop_world *world, const struct sockaddr *a,
		      const struct sockaddr *b)
{
	if (world->rule_count + 2 > LOOP_RULES_MAX)
		return -ENOSPC;
	rf_loop_block(world, a, b);
	return rf_loop_block(world, b, a);
}

void rf_loop_heal(struct rf_loop_world *world)
{
	world->rule_count = 0;
	paths_changed(world);
}

uint64_t loop_latency_ns(struct rf_loop_world *world,
			 const struct sockaddr_storage *from,
			 const struct sockaddr_storage *to)
{
	uint64_t span_ns = world->latency_max_ns - world->latency_min_ns + 1;
	uint64_t ns = world->latency_min_ns + loop_chance(world, span_ns);

	for (unsigned int i = 0; i < world->rule_count; i++) {
		const struct loop_rule *rule = &world->rules[i];

		if (matches(&rule->from, from) && matches(&rule->to, to))
			ns += rule->extra_ns;
	}
	return ns;
}

bool loop_is_blocked(const struct rf_loop_world *world,
		     const struct sockaddr_storage *from,
		     const struct sockaddr_storage *to)
{
	for (unsigned int i = 0; i < world->rule_count; i++) {
		const struct loop_rule *rule = &world->rules[i];

		if (rule->is_blocked && matches(&rule->from, from) &&
		    matches(&rule->to, to))
			return true;
	}
	return false;
}

void rf_loop_cut_ep(struct rf_ep *ep, enum rf_loop_cut how)
{
	loop_ep_cut(loop_ep(ep), how);
}

/* One end of each connection that can be cut, so that none counts twice. */
static bool is_first_end(const struct loop_ep *ep)
{
	return ep->is_open && ep->peer && !ep->is_severed && !ep->is_passive;
}

unsigned int rf_loop_cut(struct rf_loop_world *world, const struct sockaddr *a,
			 const struct sockaddr *b, enum rf_loop_cut how)
{
	struct sockaddr_storage host_a, host_b;
	unsigned int count = 0;
	struct rf_list *pos;

	copy_host(&host_a, a);
	copy_host(&host_b, b);
	rf_list_for_each(pos, &world->eps) {
		struct loop_ep *ep = rf_container_of(pos, struct loop_ep, link);

		if (!is_first_end(ep))
			continue;
		if ((matches(&host_a, &ep->local) &&
		     matches(&host_b, &ep->remote)) ||
		    (matches(&host_b, &ep->local) &&
		     matches(&host_a, &ep->remote))) {
			loop_ep_cut(ep, how);
			count++;
		}
	}
	return count;
}

bool rf_loop_cut_any(struct rf_loop_world *world, enum rf_loop_cut how)
{
	struct loop_ep *chosen = NULL;
	uint64_t count = 0;
	struct rf_list *pos;

	rf_list_for_each(pos, &world->eps) {
		struct loop_ep *ep = rf_container_of(pos, struct loop_ep, link);

		if (is_first_end(ep) && loop_chance(world, ++count) == 0)
			chosen = ep;
	}
	if (chosen)
		loop_ep_cut(chosen, how);
	return chosen != NULL;
}

void rf_loop_hold(struct rf_ep *ep, bool on)
{
	loop_ep(ep)->is_held = on;
	loop_ep_update(loop_ep(ep));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_mem.c - fabrics, domains, regions, windows and keys of the loop fabric
 *
 * Operation.  A key is a slot of the world's table (24 bits) and a generation
 * (8 bits).  A region with remote rights has one for its life; a window keeps
 * its slot and takes the next generation at each rf_window_next(), so that a
 * key returns after 255 others.  Slots are the world's, not the fabric's: a key
 * taken to another server names nothing there.
 *
 * Ownership.  Everything counts its users and aborts when it is destroyed too
 * early.
 */
#include "loop_impl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

static struct rf_loop_world *pd_world(const struct rf_pd *pd)
{
	return loop_fabric(pd->fab)->world;
}

static struct loop_mr *loop_mr(struct rf_mr *mr)
{
	return rf_container_of(mr, struct loop_mr, base);
}

static struct loop_window *loop_window(struct rf_window *window)
{
	return rf_container_of(window, struct loop_window, base);
}

/* ---- fabric -------------------------------------------------------------- */

static int parse_host(const char *word, struct sockaddr_storage *out)
{
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)out;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)out;

	if (inet_pton(AF_INET, word, &in->sin_addr) == 1)
		out->ss_family = AF_INET;
	else if (inet_pton(AF_INET6, word, &in6->sin6_addr) == 1)
		out->ss_family = AF_INET6;
	else
		return -EINVAL;
	return 0;
}

/* "NAME" or "NAME?host=ADDRESS" */
static int parse(const char *rest, char *name,
		 struct sockaddr_storage *host)
{
	size_t size = strcspn(rest, "?");

	if (size == 0 || size > LOOP_NAME_MAX)
		return -EINVAL;
	memcpy(name, rest, size);
	name[size] = '\0';
	if (rest[size] == '\0')
		return 0;
	if (strncmp(rest + size, "?host=", 6) != 0)
		return -EINVAL;
	return parse_host(rest + size + 6, host);
}

int loop_mem_open(const char *rest, struct rf_fabric **out)
{
	char name[LOOP_NAME_MAX + 1];
	struct sockaddr_storage host = { .ss_family = 0 };
	struct loop_fabric *fab;
	int err = parse(rest, name, &host);

	if (err)
		return err;
	fab = calloc(1, sizeof(*fab));
	if (!fab)
		return -ENOMEM;
	fab->world = rf_loop_world_get(name);
	if (!fab->world) {
		free(fab);
		return -ENOMEM;
	}
	fab->host = host;
	fab->base.ops = &rf_loop_ops;
	fab->base.limits = fab->world->limits;
	fab->base.level = fab->world->level;
	fab->base.traits = (struct rf_traits){
		.tells_owner = true,
		.tells_offender = true,
		.sees_access = true,
		.guards_reads = true,
		.guards_invalidate = true,
		.keeps_reads_in = true,
		.tells_empty_reject = true,
	};
	*out = &fab->base;
	return 0;
}

void loop_mem_close(struct rf_fabric *base)
{
	struct loop_fabric *fab = loop_fabric(base);

	RF_ASSERT(fab->users == 0);
	rf_loop_world_put(fab->world);
	free(fab);
}

void loop_mem_stats(const struct rf_fabric *fab, struct rf_fabric_stats *out)
{
	*out = loop_fabric(fab)->stats;
}

/* ---- keys ---------------------------------------------------------------- */

static int grow_keys(struct rf_loop_world *world)
{
	uint32_t room = world->key_room ? 2 * world->key_room : 64;
	struct loop_key *keys;

	if (room > LOOP_KEYS_MAX)
		return -ENOMEM;
	keys = realloc(world->keys, room * sizeof(*keys));
	if (!keys)
		return -ENOMEM;
	memset(keys + world->key_room, 0,
	       (room - world->key_room) * sizeof(*keys));
	world->keys = keys;
	world->key_room = room;
	return 0;
}

/* Slot 0 is never given out: it ends the free list, and no key is 0. */
static int take_key_slot(struct rf_loop_world *world, uint32_t *out)
{
	if (world->key_free) {
		*out = world->key_free;
		world->key_free = world->keys[*out].next_free;
		return 0;
	}
	if (world->key_count == 0)
		world->key_count = 1;
	if (world->key_count >= world->key_room) {
		int err = grow_keys(world);

		if (err)
			return err;
	}
	*out = world->key_count++;
	return 0;
}

static void put_key_slot(struct rf_loop_world *world, uint32_t index)
{
	struct loop_key *key = &world->keys[index];

	key->mr = NULL;
	key->window = NULL;
	key->next_free = world->key_free;
	world->key_free = index;
}

static uint32_t next_key(struct rf_loop_world *world, uint32_t index)
{
	return index << 8 | ++world->keys[index].generation;
}

/* The slot that a key names, if it is of the right generation. */
static struct loop_key *find_key(struct rf_loop_world *world, uint32_t rkey)
{
	uint32_t index = rkey >> 8;

	if (index == 0 || index >= world->key_count ||
	    world->keys[index].generation != (rkey & 0xff))
		return NULL;
	return &world->keys[index];
}

struct loop_window *loop_window_of_key(const struct loop_ep *ep, uint32_t rkey)
{
	struct loop_key *key = find_key(ep->world, rkey);

	if (!key || !key->window || key->window->base.ep != &ep->base)
		return NULL;
	return key->window;
}

struct loop_window *loop_find_window(const struct loop_ep *ep, uint32_t rkey)
{
	struct loop_window *window = loop_window_of_key(ep, rkey);

	return window && window->is_live ? window : NULL;
}

static bool range_contains(uint64_t base, uint64_t size,
			   const struct rf_remote *remote)
{
	return remote->addr >= base && remote->size <= size &&
	       remote->addr - base <= size - remote->size;
}

static bool may_access(const struct loop_ep *ep,
		       const struct rf_remote *remote, unsigned int right)
{
	struct loop_key *key = find_key(ep->world, remote->rkey);
	const struct loop_window *window;
	const struct loop_mr *mr;

	if (!key)
		return false;
	window = loop_find_window(ep, remote->rkey);
	if (window)
		return (window->base.access & right) &&
		       range_contains(window->base.remote.addr,
				      window->base.remote.size, remote);
	mr = key->mr;
	return mr && mr->base.pd == ep->base.pd && (mr->base.access & right) &&
	       range_contains((uintptr_t)mr->base.base, mr->base.size, remote);
}

int loop_check_access(const struct loop_ep *ep, const struct rf_remote *remote,
		      unsigned int right)
{
	if (may_access(ep, remote, right))
		return 0;
	loop_ep_fabric(ep)->stats.rights_refused++;
	return -EACCES;
}

/* ---- domains and regions ------------------------------------------------- */

int loop_pd_create(struct rf_fabric *fab, struct rf_pd **out)
{
	struct loop_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return -ENOMEM;
	pd->base.fab = fab;
	loop_fabric(fab)->users++;
	*out = &pd->base;
	return 0;
}

void loop_pd_destroy(struct rf_pd *base)
{
	struct loop_pd *pd = rf_container_of(base, struct loop_pd, base);

	RF_ASSERT(pd->users == 0);
	loop_fabric(base->fab)->users--;
	free(pd);
}

static void pd_use(struct rf_pd *pd, int change)
{
	rf_container_of(pd, struct loop_pd, base)->users +=
		(unsigned int)change;
}

static int give_key(struct loop_mr *mr)
{
	struct rf_loop_world *world = pd_world(mr->base.pd);
	int err = take_key_slot(world, &mr->key_index);

	if (err)
		return err;
	world->keys[mr->key_index].mr = mr;
	mr->base.rkey = next_key(world, mr->key_index);
	return 0;
}

int loop_mr_register(struct rf_pd *pd, void *base, size_t size,
		     unsigned int access, struct rf_mr **out)
{
	struct loop_mr *mr;
	int err = 0;

	/* As InfiniBand has it. */
	if ((access & RF_REMOTE_WRITE) && !(access & RF_LOCAL_WRITE))
		return -EINVAL;
	if (loop_fails(&pd_world(pd)->mr_failures))
		return -ENOMEM;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	mr->base = (struct rf_mr){ .pd = pd, .base = base, .size = size,
				   .access = access };
	if (access & (RF_REMOTE_READ | RF_REMOTE_WRITE))
		err = give_key(mr);
	if (err) {
		free(mr);
		return err;
	}
	pd_use(pd, 1);
	loop_fabric(pd->fab)->stats.registrations++;
	*out = &mr->base;
	return 0;
}

void loop_mr_deregister(struct rf_mr *base)
{
	struct loop_mr *mr = loop_mr(base);

	RF_ASSERT(mr->users == 0);
	if (mr->key_index)
		put_key_slot(pd_world(base->pd), mr->key_index);
	pd_use(base->pd, -1);
	loop_fabric(base->pd->fab)->stats.deregistrations++;
	free(mr);
}

/* ---- windows ------------------------------------------------------------- */

int loop_window_create(struct rf_pd *pd, struct rf_window **out)
{
	struct rf_loop_world *world = pd_world(pd);
	struct loop_window *window = calloc(1, sizeof(*window));
	int err;

	if (!window)
		return -ENOMEM;
	err = take_key_slot(world, &window->key_index);
	if (err) {
		free(window);
		return err;
	}
	world->keys[window->key_index].window = window;
	window->base.pd = pd;
	rf_list_init(&window->link);
	pd_use(pd, 1);
	*out = &window->base;
	return 0;
}

void loop_window_destroy(struct rf_window *base)
{
	struct loop_window *window = loop_window(base);

	RF_ASSERT(rf_list_is_empty(&window->link));
	put_key_slot(pd_world(base->pd), window->key_index);
	pd_use(base->pd, -1);
	free(window);
}

uint32_t loop_window_next_key(struct rf_window *base)
{
	return next_key(pd_world(base->pd), loop_window(base)->key_index);
}

void loop_window_free(struct loop_window *window)
{
	rf_list_remove(&window->link);
	window->is_live = false;
	window->base.state = RF_WINDOW_FREE;
	window->base.ep = NULL;
	rf_container_of(window->base.mr, struct loop_mr, base)->users--;
}

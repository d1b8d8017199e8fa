/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	RIG_OPS_MAX = 65536,
	RIG_RUN_BUDGET = 64,
	RIG_SETTLE_ROUNDS = 64,
};

/* ---- which fabrics ------------------------------------------------------- */

static void describe(struct rig_fabric *out, const char *name)
{
	const char *device = getenv("RF_CONFORMANCE_VERBS");

	memset(out, 0, sizeof(*out));
	snprintf(out->name, sizeof(out->name), "%s", name);
	if (strncmp(name, "loop", 4) == 0) {
		out->is_loop = true;
		out->is_session = strcmp(name, "loop-session") == 0;
	} else if (strcmp(name, "iwarp-nocrc") == 0) {
		snprintf(out->uri, sizeof(out->uri), "iwarp://?crc=0");
	} else if (strcmp(name, "verbs") == 0 && device) {
		snprintf(out->uri, sizeof(out->uri), "%s", device);
	} else {
		snprintf(out->uri, sizeof(out->uri), "%s://", name);
	}
}

static void free_fabrics(struct criterion_test_params *params)
{
	cr_free(params->params);
}

struct criterion_test_params rig_fabrics(void)
{
	const char *chosen = getenv("RF_CONFORMANCE_FABRICS");
	struct rig_fabric *fabrics =
		cr_malloc(RIG_FABRICS_MAX * sizeof(*fabrics));
	char list[256];
	size_t count = 0;
	char *rest;

	snprintf(list, sizeof(list), "%s",
		 chosen ? chosen : "loop loop-session iwarp");
	for (char *name = strtok_r(list, " ,", &rest);
	     name && count < RIG_FABRICS_MAX; name = strtok_r(NULL, " ,", &rest))
		describe(&fabrics[count++], name);
	return cr_make_param_array(struct rig_fabric, fabrics, count,
				   free_fabrics);
}

static unsigned int get_slowness(void)
{
	const char *text = getenv("RF_CONFORMANCE_SLOWNESS");

	return text ? (unsigned int)atoi(text) : 1;
}

int rig_patience_ms(void)
{
	return get_slowness() > 1 ? RIG_SLOW_PATIENCE_MS : RIG_PATIENCE_MS;
}

unsigned int rig_times(unsigned int count)
{
	unsigned int slowness = get_slowness();

	if (slowness <= 1)
		return count;
	return count > slowness ? count / slowness : 1;
}

/* ---- life ---------------------------------------------------------------- */

static void node_open(struct rig *rig, struct rig_node *node, const char *uri)
{
	node->rig = rig;
	cr_assert_eq(rf_fabric_open(uri, &node->fab), 0, "can't open %s", uri);
	cr_assert_eq(rf_pd_create(node->fab, &node->pd), 0);
	cr_assert_eq(rf_poller_create(node->fab, RIG_OPS_MAX, &node->poller),
		     0);
	node->map = mmap(NULL, RIG_ARENA_SIZE + RIG_ARENA_ALIGN,
			 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	cr_assert(node->map != MAP_FAILED);
	/* In huge pages, if there are any: most tests wait for page faults. */
	node->arena = (void *)rf_align_up((uintptr_t)node->map,
					  RIG_ARENA_ALIGN);
	madvise(node->arena, RIG_ARENA_SIZE, MADV_HUGEPAGE);
	cr_assert_eq(rf_mr_register(node->pd, node->arena, RIG_ARENA_SIZE,
				    RF_LOCAL_WRITE | RF_READ_SINK |
				    RF_WINDOW_BIND, &node->mr), 0);
}

static void node_close(struct rig_node *node)
{
	rf_mr_deregister(node->mr);
	munmap(node->map, RIG_ARENA_SIZE + RIG_ARENA_ALIGN);
	rf_poller_destroy(node->poller);
	rf_pd_destroy(node->pd);
	rf_fabric_close(node->fab);
}

void rig_open(struct rig *rig, const struct rig_fabric *fabric)
{
	static unsigned int rigs_opened;
	char uri[64];

	memset(rig, 0, sizeof(*rig));
	rig->fabric = fabric;
	rf_list_init(&rig->ends);
	snprintf(uri, sizeof(uri), "%s", fabric->uri);
	if (fabric->is_loop) {
		snprintf(uri, sizeof(uri), "loop://rig-%u", rigs_opened++);
		rig->world = rf_loop_world_get(uri + strlen("loop://"));
		cr_assert(rig->world);
		rf_loop_set_scribble(rig->world, true);
		if (fabric->is_session)
			rf_loop_set_level(rig->world, RF_LEVEL_SESSION);
	}
	node_open(rig, &rig->a, uri);
	node_open(rig, &rig->b, uri);
}

void rig_close(struct rig *rig)
{
	struct rf_list *pos;

	if (rig->listener)
		rf_listener_close(rig->listener);
	rf_list_for_each(pos, &rig->ends)
		rf_ep_close(rf_container_of(pos, struct rig_end, link)->ep);
	rig_until(rig, rf_list_is_empty(&rig->ends));
	rig_settle(rig);
	node_close(&rig->a);
	node_close(&rig->b);
	if (rig->world)
		rf_loop_world_put(rig->world);
}

socklen_t rig_parse_address(const char *text, struct sockaddr_storage *out)
{
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)out;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)out;
	const char *colon = strrchr(text, ':');
	bool is_v6 = text[0] == '[';
	char host[64];
	uint16_t port;

	memset(out, 0, sizeof(*out));
	cr_assert(colon && colon - text < 64, "not HOST:PORT: %s", text);
	snprintf(host, sizeof(host), "%.*s", (int)(colon - text - 2 * is_v6),
		 text + is_v6);
	port = htons((uint16_t)atoi(colon + 1));
	if (is_v6) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = port;
		cr_assert_eq(inet_pton(AF_INET6, host, &in6->sin6_addr), 1);
		return sizeof(*in6);
	}
	in->sin_family = AF_INET;
	in->sin_port = port;
	cr_assert_eq(inet_pton(AF_INET, host, &in->sin_addr), 1);
	return sizeof(*in);
}

/* ---- listening ----------------------------------------------------------- */

static void take_request(void *context, struct rf_incoming *incoming,
			 const void *hello, size_t hello_size)
{
	struct rig *rig = context;
	struct rig_end *end = rig->accepts_with;

	cr_assert(hello_size <= RIG_HELLO_MAX);
	if (hello_size > 0)
		memcpy(rig->hello_in, hello, hello_size);
	rig->hello_in_size = hello_size;
	if (rig->on_request) {
		rig->on_request(rig, incoming);
		return;
	}
	if (end) {
		int err;

		rig->accepts_with = NULL;
		err = rig_end_accept(end, incoming);
		cr_assert_eq(err, 0, "accept: %d", err);
		return;
	}
	cr_assert(rig->incoming_count < RIG_INCOMING_MAX);
	rig->incoming[rig->incoming_count++] = incoming;
}

void rig_listen_at(struct rig *rig, const char *text)
{
	rig->address_size = rig_parse_address(text, &rig->address);
	cr_assert_eq(rf_listener_open(rig->b.poller,
				      (struct sockaddr *)&rig->address,
				      rig->address_size, take_request, rig,
				      &rig->listener), 0);
	cr_assert_eq(rf_listener_address(rig->listener, &rig->address), 0);
}

void rig_listen(struct rig *rig)
{
	const char *text = getenv("RF_CONFORMANCE_ADDR");

	rig_listen_at(rig, text ? text : "127.0.0.1:0");
}

/* ---- driving ------------------------------------------------------------- */

enum { POLLERS_MAX = 3 };

static unsigned int pollers(struct rig *rig, struct rf_poller **out)
{
	out[0] = rig->a.poller;
	out[1] = rig->b.poller;
	out[2] = rig->extra;
	return rig->extra ? 3 : 2;
}

static unsigned int run_all(struct rig *rig)
{
	struct rf_poller *all[POLLERS_MAX];
	unsigned int count = pollers(rig, all), callbacks = 0;

	for (unsigned int i = 0; i < count; i++)
		callbacks += rf_poller_run(all[i], RIG_RUN_BUDGET);
	return callbacks;
}

void rig_start_waiting(struct rig *rig)
{
	rig->deadline_ns = rf_now_ns() + (uint64_t)rig_patience_ms() * 1000000;
}

/* Sleep as long as all pollers allow. */
static void sleep_on_all(struct rig *rig, const char *what)
{
	struct rf_poller *all[POLLERS_MAX];
	unsigned int count = pollers(rig, all);
	struct pollfd fds[POLLERS_MAX];
	int wait_ms = rig_patience_ms();

	for (unsigned int i = 0; i < count; i++) {
		int limit_ms = rf_poller_arm(all[i]);

		fds[i] = (struct pollfd){ .fd = rf_poller_fd(all[i]),
					  .events = POLLIN };
		if (limit_ms >= 0 && limit_ms < wait_ms)
			wait_ms = limit_ms;
	}
	poll(fds, count, wait_ms);
	cr_assert(rf_now_ns() < rig->deadline_ns,
		  "hung: waiting in vain for: %s", what);
}

void rig_turn(struct rig *rig, const char *what)
{
	if (run_all(rig) > 0)
		return;
	if (!rig->world) {
		sleep_on_all(rig, what);
		return;
	}
	cr_assert(rf_poller_arm(rig->a.poller) != 0 &&
		  rf_poller_arm(rig->b.poller) != 0,
		  "ready, says the poller that just ran nothing");
	cr_assert(rf_loop_step(rig->world),
		  "nothing is left to happen, but still not: %s", what);
}

void rig_settle(struct rig *rig)
{
	for (int rounds = 0; rounds < RIG_SETTLE_ROUNDS; ) {
		if (run_all(rig) > 0)
			rounds = 0;
		else if (!rig->world || !rf_loop_step(rig->world))
			rounds++;
	}
}

/* ---- ends ---------------------------------------------------------------- */

static void end_is_connected(struct rf_ep *ep, const void *hello, size_t size)
{
	struct rig_end *end = rf_ep_context(ep);

	cr_assert(end->ep == ep && end->closed == 0);
	cr_assert(size <= RIG_HELLO_MAX);
	end->connected++;
	cr_assert_eq(end->connected, 1, "connected() came twice");
	end->connected_order = ++end->node->rig->order;
	if (size > 0)
		memcpy(end->hello_in, hello, size);
	end->hello_in_size = size;
	if (end->on_connected)
		end->on_connected(end);
}

static void end_is_closed(struct rf_ep *ep, int reason)
{
	struct rig_end *end = rf_ep_context(ep);

	cr_assert(end->ep == ep);
	cr_assert_eq(end->ops_lent, 0, "closed() before the last done()");
	end->closed++;
	end->closed_order = ++end->node->rig->order;
	end->reason = reason;
	end->ep = NULL;
	rf_list_remove(&end->link);
	if (end->on_closed)
		end->on_closed(end);
}

static void end_is_rejected(struct rf_ep *ep, const void *hello, size_t size)
{
	struct rig_end *end = rf_ep_context(ep);

	cr_assert(end->ep == ep && end->closed == 0 && end->connected == 0);
	cr_assert(size <= RIG_HELLO_MAX);
	end->rejected++;
	if (size > 0)
		memcpy(end->hello_in, hello, size);
	end->hello_in_size = size;
}

const struct rf_ep_events rig_events = {
	.connected = end_is_connected,
	.closed = end_is_closed,
	.rejected = end_is_rejected,
};

void rig_end_init(struct rig_end *end, struct rig_node *node)
{
	const struct rf_limits *limits = rf_fabric_limits(node->fab);

	memset(end, 0, sizeof(*end));
	rf_list_init(&end->link);
	end->node = node;
	end->config = (struct rf_ep_config){
		.pd = node->pd,
		.send_depth = (uint16_t)rf_min_u64(64, limits->send_depth_max),
		.recv_depth = (uint16_t)rf_min_u64(64, limits->recv_depth_max),
		.reads_out = (uint16_t)rf_min_u64(4, limits->reads_max),
		.reads_in = (uint16_t)rf_min_u64(4, limits->reads_max),
		/* Before the test gives up, so that it says why. */
		.setup_ms = (uint32_t)rig_patience_ms() / 2,
	};
}

int rig_end_connect(struct rig *rig, struct rig_end *end)
{
	int err = rf_ep_connect(end->node->poller,
				(struct sockaddr *)&rig->address,
				rig->address_size, end->hello, end->hello_size,
				&end->config, &rig_events, end, &end->ep);

	if (!err)
		rf_list_push(&rig->ends, &end->link);
	return err;
}

int rig_end_accept(struct rig_end *end, struct rf_incoming *incoming)
{
	int err = rf_ep_accept(incoming, end->node->poller, end->hello,
			       end->hello_size, &end->config, &rig_events, end,
			       end->recvs, end->recv_count, &end->ep);

	if (err)
		return err;
	rf_list_push(&end->node->rig->ends, &end->link);
	end->ops_lent += end->recv_count;
	return 0;
}

void rig_join_quietly(struct rig *rig, struct rig_end *client,
		      struct rig_end *server)
{
	if (!rig->listener)
		rig_listen(rig);
	rig->accepts_with = server;
	cr_assert_eq(rig_end_connect(rig, client), 0);
	rig_until(rig, client->connected && server->connected);
}

void rig_join(struct rig *rig, struct rig_end *client, struct rig_end *server)
{
	rig_end_init(client, &rig->a);
	rig_end_init(server, &rig->b);
	rig_join_quietly(rig, client, server);
	rig_exchange(rig, client, server);
}

void rig_part(struct rig *rig, struct rig_end *client, struct rig_end *server)
{
	if (client->ep)
		rf_ep_close(client->ep);
	rig_until(rig, client->closed && server->closed);
}

/* ---- ops ----------------------------------------------------------------- */

static void op_is_done(struct rf_op *base, int status)
{
	struct rig_op *op = rf_container_of(base, struct rig_op, op);

	op->done_count++;
	cr_assert_eq(op->done_count, 1, "done() came twice");
	cr_assert_eq(op->end->closed, 0, "done() after closed()");
	cr_assert(op->end->ops_lent > 0);
	op->end->ops_lent--;
	op->status = status;
	op->size = base->size;
	op->inv_key = base->inv_key;
	op->order = ++op->end->node->rig->order;
	if (op->then)
		op->then(op);
}

void rig_op_init(struct rig_op *op, struct rig_end *end)
{
	memset(op, 0, sizeof(*op));
	op->op.done = op_is_done;
	op->end = end;
}

struct rf_sge rig_sge(struct rig_end *end, size_t offset, uint32_t size)
{
	cr_assert(offset + size <= RIG_ARENA_SIZE);
	return (struct rf_sge){ end->node->arena + offset, size,
				end->node->mr };
}

int rig_post(struct rig_end *end, const struct rf_work *works,
	     unsigned int count)
{
	int err = rf_ep_post(end->ep, works, count);

	for (unsigned int i = 0; !err && i < count; i++)
		end->ops_lent += works[i].op != NULL;
	return err;
}

struct rf_work rig_work(enum rf_opcode code, struct rig_op *op,
			const struct rf_sge *sge, unsigned int sge_count)
{
	return (struct rf_work){ .code = code, .op = op ? &op->op : NULL,
				 .sge = sge, .sge_count = (uint16_t)sge_count };
}

int rig_recv(struct rig_end *end, struct rig_op *op, size_t offset,
	     uint32_t size)
{
	struct rf_recv recv = { &op->op, rig_sge(end, offset, size) };
	int err = rf_ep_post_recv(end->ep, &recv);

	end->ops_lent += err == 0;
	return err;
}

static int post_one(struct rig_end *end, struct rf_work *work,
		    struct rig_op *op, size_t offset, uint32_t size)
{
	struct rf_sge sge = rig_sge(end, offset, size);

	work->op = op ? &op->op : NULL;
	work->sge = &sge;
	work->sge_count = 1;
	return rig_post(end, work, 1);
}

int rig_send(struct rig_end *end, struct rig_op *op, size_t offset,
	     uint32_t size)
{
	struct rf_work work = { .code = RF_SEND };

	return post_one(end, &work, op, offset, size);
}

int rig_send_inv(struct rig_end *end, struct rig_op *op, size_t offset,
		 uint32_t size, uint32_t key)
{
	struct rf_work work = { .code = RF_SEND_INV, .inv_key = key };

	return post_one(end, &work, op, offset, size);
}

int rig_write(struct rig_end *end, struct rig_op *op, size_t offset,
	      struct rf_remote remote)
{
	struct rf_work work = { .code = RF_WRITE, .remote = remote };

	return post_one(end, &work, op, offset, remote.size);
}

int rig_read(struct rig_end *end, struct rig_op *op, size_t offset,
	     struct rf_remote remote)
{
	struct rf_work work = { .code = RF_READ, .remote = remote };

	return post_one(end, &work, op, offset, remote.size);
}

void rig_exchange(struct rig *rig, struct rig_end *from, struct rig_end *to)
{
	struct rig_op send, recv;
	const size_t at = RIG_ARENA_SIZE - 64;	/* out of the tests' way */

	rig_op_init(&send, from);
	rig_op_init(&recv, to);
	cr_assert_eq(rig_recv(to, &recv, at, 64), 0);
	cr_assert_eq(rig_send(from, &send, at, 1), 0);
	rig_until(rig, send.done_count && recv.done_count);
	cr_assert_eq(send.status, 0);
	cr_assert_eq(recv.status, 0);
	cr_assert_eq(recv.size, 1);
}

/* ---- memory -------------------------------------------------------------- */

/* No two seeds agree in a run of bytes, and no run repeats in an arena. */
static unsigned char pattern(size_t at, uint32_t seed)
{
	uint64_t word = (uint64_t)at * 0x9e3779b97f4a7c15u + seed;

	return (unsigned char)((word ^ (word >> 32)) * 0x45d9f3bu >> 24);
}

void rig_fill(struct rig_node *node, size_t offset, size_t size, uint32_t seed)
{
	for (size_t i = 0; i < size; i++)
		node->arena[offset + i] = pattern(i, seed);
}

bool rig_holds(const struct rig_node *node, size_t offset, size_t size,
	       uint32_t seed)
{
	for (size_t i = 0; i < size; i++)
		if (node->arena[offset + i] != pattern(i, seed))
			return false;
	return true;
}

static void bind_grant(struct rig *rig, struct rig_grant *grant,
		       struct rf_mr *mr, void *at, uint32_t size,
		       unsigned int access)
{
	struct rf_work work = { .code = RF_BIND };
	struct rig_op op;

	rig_op_init(&op, grant->owner);
	cr_assert_eq(rf_window_create(grant->owner->config.pd, &grant->window),
		     0);
	grant->remote = rf_window_next(grant->window, mr, at, size, access);
	work.op = &op.op;
	work.window = grant->window;
	cr_assert_eq(rig_post(grant->owner, &work, 1), 0);
	rig_until(rig, op.done_count);
	cr_assert_eq(op.status, 0);
}

void rig_grant_open(struct rig *rig, struct rig_grant *grant,
		    struct rig_end *owner, size_t offset, uint32_t size,
		    unsigned int access)
{
	struct rig_node *node = owner->node;
	void *at = node->arena + offset;

	memset(grant, 0, sizeof(*grant));
	grant->owner = owner;
	if (rf_fabric_level(node->fab) == RF_LEVEL_WINDOW) {
		bind_grant(rig, grant, node->mr, at, size, access);
		return;
	}
	if (access & RF_REMOTE_WRITE)
		access |= RF_LOCAL_WRITE;
	cr_assert_eq(rf_mr_register(owner->config.pd, at, size, access,
				    &grant->mr), 0);
	grant->remote = rf_mr_remote(grant->mr, at, size);
}

int rig_unbind(struct rig_grant *grant, struct rig_op *op)
{
	struct rf_work work = { .code = RF_UNBIND, .op = op ? &op->op : NULL,
				.window = grant->window };

	return rig_post(grant->owner, &work, 1);
}

void rig_grant_close(struct rig_grant *grant)
{
	if (grant->window)
		rf_window_destroy(grant->window);
	if (grant->mr)
		rf_mr_deregister(grant->mr);
	grant->window = NULL;
	grant->mr = NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conformance_windows.c - lending memory for a while: binding, withdrawal by
 * either side, and keys that are dead for good
 */
#include "tests/common/rights_scene.h"

#include <errno.h>

/* ---- windows that are withdrawn ------------------------------------------ */

static void withdraw(struct scene *scene)
{
	struct rig_op op;

	rig_op_init(&op, &scene->server);
	cr_assert(rf_window_is_bound(scene->grant.window));
	cr_assert_eq(rig_unbind(&scene->grant, &op), 0);
	cr_assert(rf_window_is_bound(scene->grant.window),
		  "not free before it is done");
	rig_until(&scene->rig, op.done_count);
	cr_assert_eq(op.status, 0);
	cr_assert(!rf_window_is_bound(scene->grant.window));
}

/* Lend it once more; the old key must not be the new one. */
static void lend_again(struct scene *scene)
{
	struct rf_work work = { .code = RF_BIND };
	struct rf_remote old = scene->grant.remote;
	struct rig_op op;

	rig_op_init(&op, &scene->server);
	scene->grant.remote =
		rf_window_next(scene->grant.window, scene->rig.b.mr,
			       scene->rig.b.arena + LENT_AT, LENT_SIZE,
			       SCENE_RIGHTS);
	cr_assert_neq(scene->grant.remote.rkey, old.rkey);
	cr_assert(rf_window_awaits_bind(scene->grant.window));
	work.op = &op.op;
	work.window = scene->grant.window;
	cr_assert_eq(rig_post(&scene->server, &work, 1), 0);
	cr_assert(!rf_window_awaits_bind(scene->grant.window));
	rig_until(&scene->rig, op.done_count);
	cr_assert_eq(op.status, 0);
}

static void invalidated_window_is(struct rig_op *op)
{
	struct rig_grant *grant = op->context;

	cr_assert_eq(op->inv_key, grant->remote.rkey);
	cr_assert(!rf_window_is_bound(grant->window));
	cr_assert(!rf_window_awaits_bind(grant->window));
}

/* The client gives the key back with a message. */
static void give_back(struct scene *scene)
{
	struct rig_op send, recv;

	rig_op_init(&send, &scene->client);
	rig_op_init(&recv, &scene->server);
	recv.then = invalidated_window_is;
	recv.context = &scene->grant;
	cr_assert_eq(rig_recv(&scene->server, &recv, RIG_MIB(2), 64), 0);
	cr_assert_eq(rig_send_inv(&scene->client, &send, 0, 10,
				  scene->grant.remote.rkey), 0);
	rig_until(&scene->rig, send.done_count && recv.done_count);
	cr_assert_eq(send.status, 0);
	cr_assert_eq(recv.status, 0);
	cr_assert_eq(recv.size, 10);
}

/* Withdraw in one of two ways, maybe lend again, and try the old key. */
static void try_dead_key(const struct rig_fabric *fabric, bool by_owner,
			 bool is_lent_again, bool is_read)
{
	struct rf_remote old;
	struct scene scene;

	scene_open(&scene, fabric, SCENE_RIGHTS);
	SKIP_WITHOUT_WINDOWS(&scene);
	old = scene.grant.remote;
	scene_read_well(&scene.rig, &scene.client, old);
	rig_fill(&scene.rig.a, SINK_AT, LENT_SIZE, SINK);
	if (by_owner)
		withdraw(&scene);
	else
		give_back(&scene);
	if (is_lent_again)
		lend_again(&scene);
	if (is_read)
		scene_expect_read_refused(&scene, old);
	else
		scene_expect_write_refused(&scene, old);
	scene_close(&scene);
}

CONFORMANCE_TEST(conformance_windows, an_unbound_window_is_refused)
{
	try_dead_key(fabric, true, false, false);
	try_dead_key(fabric, true, false, true);
}

CONFORMANCE_TEST(conformance_windows, a_send_with_invalidate_ends_a_window)
{
	try_dead_key(fabric, false, false, false);
	try_dead_key(fabric, false, false, true);
}

CONFORMANCE_TEST(conformance_windows, an_old_key_of_a_window_lent_again_is_refused)
{
	try_dead_key(fabric, true, true, false);
	try_dead_key(fabric, true, true, true);
	try_dead_key(fabric, false, true, false);
	try_dead_key(fabric, false, true, true);
}

CONFORMANCE_TEST(conformance_windows, a_window_may_be_lent_again_and_again)
{
	struct scene scene;

	scene_open(&scene, fabric, SCENE_RIGHTS);
	SKIP_WITHOUT_WINDOWS(&scene);
	for (int round = 0; round < 600; round++) {
		if (round % 2)
			withdraw(&scene);
		else
			give_back(&scene);
		lend_again(&scene);
		if (round % 50 == 0) {
			scene_read_well(&scene.rig, &scene.client,
				  scene.grant.remote);
			scene_write_well(&scene.rig, &scene.client, &scene.server,
				   scene.grant.remote);
		}
	}
	scene_close(&scene);
}

CONFORMANCE_TEST(conformance_windows, a_key_does_not_return_soon)
{
	struct rf_window *window;
	struct scene scene;
	uint32_t first;

	scene_open(&scene, fabric, SCENE_RIGHTS);
	SKIP_WITHOUT_WINDOWS(&scene);
	cr_assert_eq(rf_window_create(scene.rig.b.pd, &window), 0);
	first = rf_window_next(window, scene.rig.b.mr, scene.rig.b.arena, 64,
			       RF_REMOTE_READ).rkey;
	cr_assert_neq(first, 0);
	for (int others = 0; others < 255; others++) {
		uint32_t key = rf_window_next(window, scene.rig.b.mr,
					      scene.rig.b.arena, 64,
					      RF_REMOTE_READ).rkey;

		cr_assert(key != 0 && key != first);
	}
	rf_window_destroy(window);
	scene_close(&scene);
}

CONFORMANCE_TEST(conformance_windows, a_window_that_is_chosen_but_not_bound_is_refused)
{
	struct rf_window *window;
	struct rf_remote remote;
	struct scene scene;

	scene_open(&scene, fabric, SCENE_RIGHTS);
	SKIP_WITHOUT_WINDOWS(&scene);
	cr_assert_eq(rf_window_create(scene.rig.b.pd, &window), 0);
	remote = rf_window_next(window, scene.rig.b.mr,
				scene.rig.b.arena + LENT_AT, LENT_SIZE,
				SCENE_RIGHTS);
	scene_expect_read_refused(&scene, remote);
	rf_window_destroy(window);
	scene_close(&scene);
}

CONFORMANCE_TEST(conformance_windows, a_key_may_travel_in_the_batch_that_binds_it)
{
	struct rig_op bind, send, recv;
	struct rf_window *window;
	struct rf_work works[2];
	struct rf_sge note;
	struct scene scene;

	scene_open(&scene, fabric, SCENE_RIGHTS);
	SKIP_WITHOUT_WINDOWS(&scene);
	cr_assert_eq(rf_window_create(scene.rig.b.pd, &window), 0);
	for (int round = 0; round < 20; round++) {
		struct rf_remote remote =
			rf_window_next(window, scene.rig.b.mr,
				       scene.rig.b.arena + LENT_AT, LENT_SIZE,
				       RF_REMOTE_READ);

		rig_op_init(&bind, &scene.server);
		rig_op_init(&send, &scene.server);
		rig_op_init(&recv, &scene.client);
		memcpy(scene.rig.b.arena + RIG_MIB(3), &remote, sizeof(remote));
		note = rig_sge(&scene.server, RIG_MIB(3), sizeof(remote));
		works[0] = (struct rf_work){ .code = RF_BIND, .op = &bind.op,
					     .window = window };
		works[1] = rig_work(RF_SEND, &send, &note, 1);
		cr_assert_eq(rig_recv(&scene.client, &recv, RIG_MIB(3), 64), 0);
		cr_assert_eq(rig_post(&scene.server, works, 2), 0);
		rig_until(&scene.rig, recv.done_count);
		memcpy(&remote, scene.rig.a.arena + RIG_MIB(3), sizeof(remote));
		scene_read_well(&scene.rig, &scene.client, remote);
		/* Its Send-with-Invalidate frees the window for the next. */
		rig_op_init(&recv, &scene.server);
		cr_assert_eq(rig_recv(&scene.server, &recv, RIG_MIB(3), 64), 0);
		cr_assert_eq(rig_send_inv(&scene.client, NULL, 0, 1,
					  remote.rkey), 0);
		rig_until(&scene.rig, recv.done_count && send.done_count);
		cr_assert_eq(recv.inv_key, remote.rkey);
	}
	rf_window_destroy(window);
	scene_close(&scene);
}

static void written_and_dead(struct rig_op *op)
{
	struct rig_grant *grant = op->context;
	uint32_t seed;

	if (op->status)
		return;
	cr_assert_eq(op->inv_key, grant->remote.rkey);
	cr_assert(!rf_window_is_bound(grant->window));
	memcpy(&seed, op->end->node->arena + RIG_MIB(2), sizeof(seed));
	cr_assert(rig_holds(op->end->node, LENT_AT, LENT_SIZE, seed));
}

/* The way of a write request: data, and then one message that tells of them
 * and gives the key back. */
CONFORMANCE_TEST(conformance_windows, data_are_in_place_when_their_key_comes_back)
{
	struct scene scene;

	scene_open(&scene, fabric, SCENE_RIGHTS);
	SKIP_WITHOUT_WINDOWS(&scene);
	for (uint32_t round = 0; round < 100; round++) {
		struct rf_sge data = rig_sge(&scene.client, 0, LENT_SIZE);
		struct rf_sge note = rig_sge(&scene.client, RIG_MIB(2), 4);
		struct rig_op send, recv;
		struct rf_work works[2];

		rig_op_init(&send, &scene.client);
		rig_op_init(&recv, &scene.server);
		recv.then = written_and_dead;
		recv.context = &scene.grant;
		rig_fill(&scene.rig.a, 0, LENT_SIZE, round);
		memcpy(scene.rig.a.arena + RIG_MIB(2), &round, sizeof(round));
		works[0] = rig_work(RF_WRITE, NULL, &data, 1);
		works[0].remote = scene.grant.remote;
		works[1] = rig_work(RF_SEND_INV, &send, &note, 1);
		works[1].inv_key = scene.grant.remote.rkey;
		cr_assert_eq(rig_recv(&scene.server, &recv, RIG_MIB(2), 64), 0);
		cr_assert_eq(rig_post(&scene.client, works, 2), 0);
		rig_until(&scene.rig, recv.done_count && send.done_count);
		cr_assert_eq(recv.status, 0);
		lend_again(&scene);
	}
	scene_close(&scene);
}

/* The key is dead on arrival of the message, not when its receiver gets round
 * to looking at it. */
CONFORMANCE_TEST(conformance_windows, a_key_is_dead_for_what_follows_its_invalidation)
{
	struct rig_op send, write, recv;
	struct rf_work works[2];
	struct rf_sge note, data;
	struct scene scene;

	scene_open(&scene, fabric, SCENE_RIGHTS);
	SKIP_WITHOUT_WINDOWS(&scene);
	rig_op_init(&send, &scene.client);
	rig_op_init(&write, &scene.client);
	rig_op_init(&recv, &scene.server);
	note = rig_sge(&scene.client, 0, 1);
	data = rig_sge(&scene.client, 0, LENT_SIZE);
	works[0] = rig_work(RF_SEND_INV, &send, &note, 1);
	works[0].inv_key = scene.grant.remote.rkey;
	works[1] = rig_work(RF_WRITE, &write, &data, 1);
	works[1].remote = scene.grant.remote;
	cr_assert_eq(rig_recv(&scene.server, &recv, RIG_MIB(2), 64), 0);
	cr_assert_eq(rig_post(&scene.client, works, 2), 0);
	/* On loop, all arrives before the server runs anything. */
	while (scene.rig.world && rf_loop_step(scene.rig.world))
		;
	scene_expect_refusal(&scene, &write);
	cr_assert_eq(recv.status, 0);
	cr_assert_eq(recv.inv_key, works[0].inv_key);
	scene_close(&scene);
}

/* A Send with Invalidate of a key that the client has no right to end. */
static void expect_invalidate_refused(struct scene *scene, uint32_t key)
{
	struct rig_op send, recv;

	rig_op_init(&send, &scene->client);
	rig_op_init(&recv, &scene->server);
	cr_assert_eq(rig_recv(&scene->server, &recv, RIG_MIB(2), 64), 0);
	cr_assert_eq(rig_send_inv(&scene->client, &send, 0, 10, key), 0);
	if (rf_fabric_traits(scene->rig.b.fab)->guards_invalidate)
		scene_expect_refusal(scene, &send);
	else
		scene_expect_end(scene, &send);
	cr_assert_neq(recv.status, 0);
}

CONFORMANCE_TEST(conformance_windows, invalidating_a_key_that_is_not_bound_ends_the_connection)
{
	for (int what = 0; what < 4; what++) {
		struct scene scene;
		uint32_t key;

		scene_open(&scene, fabric, SCENE_RIGHTS);
		SKIP_WITHOUT_WINDOWS(&scene);
		key = scene.grant.remote.rkey;
		if ((what == 1 || what == 2) &&
		    !rf_fabric_traits(scene.rig.b.fab)->guards_invalidate) {
			/* rxe's kernel (6.1) dies of a window that is free. */
			scene_close(&scene);
			continue;
		}
		if (what == 0)
			key ^= 1;		/* never bound */
		else if (what == 1)
			withdraw(&scene);
		else if (what == 2)
			give_back(&scene);
		else
			key = 0;
		expect_invalidate_refused(&scene, key);
		scene_close(&scene);
	}
}

CONFORMANCE_TEST(conformance_windows, another_connections_window_cant_be_invalidated)
{
	struct rig_end other_client, other_server;
	struct rig_grant other;
	struct scene scene;

	scene_open(&scene, fabric, SCENE_RIGHTS);
	SKIP_WITHOUT_WINDOWS(&scene);
	rig_join(&scene.rig, &other_client, &other_server);
	rig_grant_open(&scene.rig, &other, &other_server, LENT_AT, LENT_SIZE,
		       SCENE_RIGHTS);
	scene_fill(&scene);
	expect_invalidate_refused(&scene, other.remote.rkey);
	cr_assert(rf_window_is_bound(other.window));
	if (rf_fabric_traits(scene.rig.b.fab)->guards_invalidate)
		scene_read_well(&scene.rig, &other_client, other.remote);
	rig_part(&scene.rig, &other_client, &other_server);
	rig_grant_close(&other);
	scene_close(&scene);
}

CONFORMANCE_TEST(conformance_windows, a_window_is_free_when_its_connection_has_closed)
{
	struct rf_remote old;
	struct scene scene;

	scene_open(&scene, fabric, SCENE_RIGHTS);
	SKIP_WITHOUT_WINDOWS(&scene);
	old = scene.grant.remote;
	rig_part(&scene.rig, &scene.client, &scene.server);
	cr_assert(!rf_window_is_bound(scene.grant.window));
	/* The next connection can't use the old key, but has a new one. */
	rig_join(&scene.rig, &scene.client, &scene.server);
	lend_again(&scene);
	scene_read_well(&scene.rig, &scene.client, scene.grant.remote);
	rig_fill(&scene.rig.a, SINK_AT, LENT_SIZE, SINK);
	scene_expect_read_refused(&scene, old);
	scene_close(&scene);
}

static void window_is_free(struct rig_end *end)
{
	struct rig_grant *grant = end->context;

	cr_assert(!rf_window_is_bound(grant->window));
	rig_grant_close(grant);
}

CONFORMANCE_TEST(conformance_windows, a_window_may_be_destroyed_in_closed)
{
	struct scene scene;

	scene_open(&scene, fabric, SCENE_RIGHTS);
	SKIP_WITHOUT_WINDOWS(&scene);
	scene.server.on_closed = window_is_free;
	scene.server.context = &scene.grant;
	scene_close(&scene);
}

/* ---- the moment of withdrawal -------------------------------------------- */

/* The memory is used again at once: SECRET comes back over what was lent. */
static void reuse_memory(struct rig_op *op)
{
	if (op->status == 0)
		rig_fill(op->end->node, 0, WATCHED, SECRET);
}

static bool scene_is_over(const struct scene *scene, const struct rig_op *work)
{
	return work->done_count > 0 || scene->client.closed;
}

CONFORMANCE_TEST(conformance_windows, after_unbind_is_done_no_access_is_under_way)
{
	enum { OLD = 44 };

	for (uint64_t round = 0; round < 24; round++) {
		struct rig_op work, unbind;
		struct scene scene;
		bool is_read = round % 2;
		int err;

		scene_open(&scene, fabric, SCENE_RIGHTS);
		SKIP_WITHOUT_WINDOWS(&scene);
		if (scene.rig.world)
			rf_loop_set_seed(scene.rig.world, round);
		rig_fill(&scene.rig.b, 0, WATCHED, OLD);
		rig_op_init(&work, &scene.client);
		rig_op_init(&unbind, &scene.server);
		unbind.then = reuse_memory;
		err = is_read ? rig_read(&scene.client, &work, SINK_AT,
					 scene.grant.remote)
			      : rig_write(&scene.client, &work, 0,
					  scene.grant.remote);
		cr_assert_eq(err, 0);
		for (uint64_t turn = 0; turn < round / 4; turn++)
			rf_poller_run(scene.rig.a.poller, 1);
		cr_assert_eq(rig_unbind(&scene.grant, &unbind), 0);
		rig_until(&scene.rig, unbind.done_count &&
			  scene_is_over(&scene, &work));
		rig_part(&scene.rig, &scene.client, &scene.server);
		/* Either it was in time, or it saw and did nothing; unless the
		 * refusal came first and nothing was unbound. */
		if (unbind.status == 0) {
			cr_assert(!scene_leaks(&scene));
			cr_assert(rig_holds(&scene.rig.b, 0, WATCHED, SECRET));
		} else {
			cr_assert_eq(unbind.status, -ECANCELED);
		}
		scene_close(&scene);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conformance_rights.c - what every fabric lets a peer do to our memory, and
 * above all what not; windows that are withdrawn are in conformance_windows.c
 */
#include "tests/common/rights_scene.h"

#include <errno.h>

/* ---- what is allowed ----------------------------------------------------- */

CONFORMANCE_TEST(conformance_rights, a_grant_reaches_from_its_first_to_its_last_byte)
{
	struct scene scene;
	struct rf_remote one;

	scene_open(&scene, fabric, SCENE_RIGHTS);
	scene_read_well(&scene.rig, &scene.client, scene.grant.remote);
	scene_write_well(&scene.rig, &scene.client, &scene.server, scene.grant.remote);
	cr_assert(rig_holds(&scene.rig.b, 0, LENT_AT, SECRET));
	one = scene.grant.remote;
	one.size = 1;
	scene_read_well(&scene.rig, &scene.client, one);
	scene_write_well(&scene.rig, &scene.client, &scene.server, one);
	one.addr += LENT_SIZE - 1;
	scene_read_well(&scene.rig, &scene.client, one);
	scene_write_well(&scene.rig, &scene.client, &scene.server, one);
	cr_assert_eq(scene_refusals(&scene.rig.b), 0);
	scene_close(&scene);
}

CONFORMANCE_TEST(conformance_rights, the_accepting_side_uses_rights_of_the_connecting_one)
{
	struct scene scene;
	struct rig_grant grant;
	struct rig_op read;

	scene_open(&scene, fabric, RF_REMOTE_READ);
	rig_grant_open(&scene.rig, &grant, &scene.client, 0, 4096,
		       RF_REMOTE_READ);
	rig_op_init(&read, &scene.server);
	cr_assert_eq(rig_read(&scene.server, &read, SINK_AT, grant.remote), 0);
	rig_until(&scene.rig, read.done_count);
	cr_assert_eq(read.status, 0);
	cr_assert(rig_holds(&scene.rig.b, SINK_AT, 4096, FORGED));
	rig_part(&scene.rig, &scene.client, &scene.server);
	rig_grant_close(&grant);
	scene_close(&scene);
}

CONFORMANCE_TEST(conformance_rights, rights_of_two_grants_do_not_add_up)
{
	for (int is_read = 0; is_read < 2; is_read++) {
		struct rig_grant writable;
		struct scene scene;

		scene_open(&scene, fabric, RF_REMOTE_READ);
		rig_grant_open(&scene.rig, &writable, &scene.server, LENT_AT,
			       LENT_SIZE, RF_REMOTE_WRITE);
		scene_read_well(&scene.rig, &scene.client, scene.grant.remote);
		scene_write_well(&scene.rig, &scene.client, &scene.server,
			   writable.remote);
		scene_fill(&scene);
		if (!is_read)
			scene_expect_write_refused(&scene, scene.grant.remote);
		else if (rf_fabric_traits(scene.rig.b.fab)->guards_reads)
			scene_expect_read_refused(&scene, writable.remote);
		else
			rig_part(&scene.rig, &scene.client, &scene.server);
		rig_grant_close(&writable);
		scene_close(&scene);
	}
}

/* ---- wrong keys ---------------------------------------------------------- */

struct wrong {
	const char *what;
	uint32_t key_xor;
	bool key_is_zero;
	int64_t addr_change, size_change;
	uint64_t addr;		/* if not 0, this */
	uint32_t size;		/* if not 0, this */
};

static const struct wrong wrong_keys[] = {
	{ .what = "key 0", .key_is_zero = true },
	{ .what = "next generation", .key_xor = 0x01 },
	{ .what = "other generation", .key_xor = 0x80 },
	{ .what = "other index", .key_xor = 0x100 },
	{ .what = "index far out", .key_xor = 0x7fffff00 },
	{ .what = "all bits other", .key_xor = 0xffffffff },
};

static const struct wrong wrong_ranges[] = {
	{ .what = "one byte before", .addr_change = -1 },
	{ .what = "one byte after", .addr_change = 1 },
	{ .what = "the byte before", .addr_change = -1, .size = 1 },
	{ .what = "the byte after", .addr_change = LENT_SIZE, .size = 1 },
	{ .what = "one byte too long", .size_change = 1 },
	{ .what = "starts before, ends inside", .addr_change = -64, .size = 128 },
	{ .what = "starts inside, ends after", .addr_change = LENT_SIZE - 64,
	  .size = 128 },
	{ .what = "far too long", .size = RIG_MIB(1) },
	{ .what = "address 0", .addr = 1, .size = 64 },
	{ .what = "past the end of all addresses", .addr = UINT64_MAX - 31,
	  .size = 64 },
	{ .what = "the last address", .addr = UINT64_MAX, .size = 1 },
	{ .what = "another half of the address space", .addr = 1ull << 63,
	  .size = LENT_SIZE },
};

static struct rf_remote make_wrong(struct rf_remote right,
				   const struct wrong *wrong)
{
	right.rkey ^= wrong->key_xor;
	if (wrong->key_is_zero)
		right.rkey = 0;
	right.addr += (uint64_t)wrong->addr_change;
	right.size += (uint32_t)wrong->size_change;
	if (wrong->addr)
		right.addr = wrong->addr;
	if (wrong->size)
		right.size = wrong->size;
	return right;
}

static void try_each(const struct rig_fabric *fabric, const struct wrong *wrong,
		     size_t count)
{
	for (size_t i = 0; i < 2 * count; i++) {
		struct scene scene;
		struct rf_remote remote;

		scene_open(&scene, fabric, SCENE_RIGHTS);
		remote = make_wrong(scene.grant.remote, &wrong[i / 2]);
		cr_log_info("%s: %s", i % 2 ? "read" : "write",
			    wrong[i / 2].what);
		if (i % 2)
			scene_expect_read_refused(&scene, remote);
		else
			scene_expect_write_refused(&scene, remote);
		scene_close(&scene);
	}
}

CONFORMANCE_TEST(conformance_rights, a_wrong_key_opens_nothing)
{
	try_each(fabric, wrong_keys, RF_ARRAY_SIZE(wrong_keys));
}

CONFORMANCE_TEST(conformance_rights, a_range_is_kept_to_the_byte)
{
	try_each(fabric, wrong_ranges, RF_ARRAY_SIZE(wrong_ranges));
}

CONFORMANCE_TEST(conformance_rights, a_right_to_read_is_none_to_write)
{
	struct scene scene;

	scene_open(&scene, fabric, RF_REMOTE_READ);
	scene_read_well(&scene.rig, &scene.client, scene.grant.remote);
	rig_fill(&scene.rig.a, SINK_AT, LENT_SIZE, SINK);
	scene_expect_write_refused(&scene, scene.grant.remote);
	scene_close(&scene);
}

CONFORMANCE_TEST(conformance_rights, a_right_to_write_is_none_to_read)
{
	struct scene scene;

	scene_open(&scene, fabric, RF_REMOTE_WRITE);
	if (!rf_fabric_traits(scene.rig.b.fab)->guards_reads) {
		scene_close(&scene);
		cr_skip("this device does not ask for the right to read");
	}
	scene_expect_read_refused(&scene, scene.grant.remote);
	scene_close(&scene);
}

/* ---- others' keys -------------------------------------------------------- */

CONFORMANCE_TEST(conformance_rights, a_window_of_another_connection_is_refused)
{
	for (int is_read = 0; is_read < 2; is_read++) {
		struct rig_end other_client, other_server;
		struct rig_grant other;
		struct scene scene;

		scene_open(&scene, fabric, SCENE_RIGHTS);
		SKIP_WITHOUT_WINDOWS(&scene);
		rig_join(&scene.rig, &other_client, &other_server);
		rig_grant_open(&scene.rig, &other, &other_server, LENT_AT,
			       LENT_SIZE, SCENE_RIGHTS);
		scene_fill(&scene);
		if (is_read)
			scene_expect_read_refused(&scene, other.remote);
		else
			scene_expect_write_refused(&scene, other.remote);
		/* The one that it was lent to still has it. */
		rig_fill(&scene.rig.a, SINK_AT, LENT_SIZE, SINK);
		scene_read_well(&scene.rig, &other_client, other.remote);
		rig_part(&scene.rig, &other_client, &other_server);
		rig_grant_close(&other);
		scene_close(&scene);
	}
}

CONFORMANCE_TEST(conformance_rights, a_key_of_another_domain_is_refused)
{
	for (int is_read = 0; is_read < 2; is_read++) {
		struct scene scene;
		struct rf_pd *pd;
		struct rf_mr *mr;

		scene_open(&scene, fabric, SCENE_RIGHTS);
		cr_assert_eq(rf_pd_create(scene.rig.b.fab, &pd), 0);
		cr_assert_eq(rf_mr_register(pd, scene.rig.b.arena, WATCHED,
					    RF_LOCAL_WRITE | RF_REMOTE_READ |
					    RF_REMOTE_WRITE, &mr), 0);
		if (is_read)
			scene_expect_read_refused(&scene,
				rf_mr_remote(mr, scene.rig.b.arena + LENT_AT,
					     LENT_SIZE));
		else
			scene_expect_write_refused(&scene,
				rf_mr_remote(mr, scene.rig.b.arena + LENT_AT,
					     LENT_SIZE));
		rf_mr_deregister(mr);
		rf_pd_destroy(pd);
		scene_close(&scene);
	}
}

CONFORMANCE_TEST(conformance_rights, a_region_with_remote_rights_serves_its_domain)
{
	struct scene scene;
	struct rf_mr *mr;
	struct rf_remote remote;

	scene_open(&scene, fabric, SCENE_RIGHTS);
	cr_assert_eq(rf_mr_register(scene.rig.b.pd, scene.rig.b.arena, WATCHED,
				    RF_REMOTE_READ, &mr), 0);
	remote = rf_mr_remote(mr, scene.rig.b.arena + 100, 5000);
	scene_read_well(&scene.rig, &scene.client, remote);
	rig_fill(&scene.rig.a, SINK_AT, RIG_KIB(64), SINK);
	scene_expect_write_refused(&scene, remote);
	rf_mr_deregister(mr);
	scene_close(&scene);
}

CONFORMANCE_TEST(conformance_rights, a_deregistered_region_is_refused)
{
	for (int is_read = 0; is_read < 2; is_read++) {
		struct scene scene;
		struct rf_mr *mr;
		struct rf_remote remote;

		scene_open(&scene, fabric, SCENE_RIGHTS);
		cr_assert_eq(rf_mr_register(scene.rig.b.pd, scene.rig.b.arena,
					    WATCHED, RF_LOCAL_WRITE |
					    RF_REMOTE_READ | RF_REMOTE_WRITE,
					    &mr), 0);
		remote = rf_mr_remote(mr, scene.rig.b.arena + LENT_AT, 4096);
		scene_read_well(&scene.rig, &scene.client, remote);
		rig_fill(&scene.rig.a, SINK_AT, LENT_SIZE, SINK);
		rf_mr_deregister(mr);
		if (is_read)
			scene_expect_read_refused(&scene, remote);
		else
			scene_expect_write_refused(&scene, remote);
		scene_close(&scene);
	}
}

CONFORMANCE_TEST(conformance_rights, what_follows_a_refused_work_does_not_arrive)
{
	struct rig_op write, send, recv;
	struct rf_work works[2];
	struct rf_sge sge[2];
	struct scene scene;

	scene_open(&scene, fabric, SCENE_RIGHTS);
	rig_op_init(&write, &scene.client);
	rig_op_init(&send, &scene.client);
	rig_op_init(&recv, &scene.server);
	cr_assert_eq(rig_recv(&scene.server, &recv, RIG_MIB(1), 64), 0);
	sge[0] = rig_sge(&scene.client, 0, LENT_SIZE);
	sge[1] = rig_sge(&scene.client, 0, 1);
	works[0] = rig_work(RF_WRITE, &write, &sge[0], 1);
	works[0].remote = scene.grant.remote;
	works[0].remote.rkey ^= 0x100;
	works[1] = rig_work(RF_SEND, &send, &sge[1], 1);
	cr_assert_eq(rig_post(&scene.client, works, 2), 0);
	scene_expect_refusal(&scene, &write);
	cr_assert_eq(recv.status, -ECANCELED);
	scene_close(&scene);
}

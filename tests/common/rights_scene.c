/* SPDX-License-Identifier: Apache-2.0 */
#include "rights_scene.h"

#include <errno.h>

uint64_t scene_refusals(const struct rig_node *node)
{
	struct rf_fabric_stats stats;

	rf_fabric_stats(node->fab, &stats);
	return stats.rights_refused;
}

void scene_fill(struct scene *scene)
{
	rig_fill(&scene->rig.b, 0, WATCHED, SECRET);
	rig_fill(&scene->rig.a, 0, WATCHED, FORGED);
	rig_fill(&scene->rig.a, SINK_AT, RIG_MIB(2), SINK);
	scene->refused_before = scene_refusals(&scene->rig.b);
}

void scene_open(struct scene *scene, const struct rig_fabric *fabric,
		       unsigned int access)
{
	rig_open(&scene->rig, fabric);
	rig_join(&scene->rig, &scene->client, &scene->server);
	rig_grant_open(&scene->rig, &scene->grant, &scene->server, LENT_AT,
		       LENT_SIZE, access);
	scene_fill(scene);
}

void scene_close(struct scene *scene)
{
	rig_part(&scene->rig, &scene->client, &scene->server);
	rig_grant_close(&scene->grant);
	rig_close(&scene->rig);
}

bool scene_has_windows(const struct scene *scene)
{
	return rf_fabric_level(scene->rig.a.fab) == RF_LEVEL_WINDOW;
}

bool scene_leaks(const struct scene *scene)
{
	const unsigned char *sink = scene->rig.a.arena + SINK_AT;

	/* Any 16 bytes of what was lent, or lies around it, would be one. */
	for (size_t at = LENT_AT - 64; at < LENT_AT + LENT_SIZE + 64; at += 16)
		if (memmem(sink, RIG_KIB(64), scene->rig.b.arena + at, 16))
			return true;
	return false;
}

/* Who is promised to be told why is told. */
static void expect_told(const struct scene *scene)
{
	if (rf_fabric_traits(scene->rig.a.fab)->tells_offender)
		cr_assert_eq(scene->client.reason, -EACCES, "client: %d",
			     scene->client.reason);
	if (!rf_fabric_traits(scene->rig.b.fab)->tells_owner)
		return;
	cr_assert_eq(scene->server.reason, -EACCES, "server: %d",
		     scene->server.reason);
	cr_assert_gt(scene_refusals(&scene->rig.b), scene->refused_before);
}

/* The connection is gone on both sides, and nothing was touched. */
void scene_expect_end(struct scene *scene, const struct rig_op *op)
{
	rig_until(&scene->rig, scene->client.closed && scene->server.closed);
	cr_assert_eq(op->done_count, 1);
	cr_assert(rig_holds(&scene->rig.b, 0, WATCHED, SECRET),
		  "refused, but the memory has changed");
	cr_assert(!scene_leaks(scene));
}

void scene_expect_refusal(struct scene *scene, const struct rig_op *op)
{
	scene_expect_end(scene, op);
	expect_told(scene);
}

void scene_expect_read_refused(struct scene *scene, struct rf_remote remote)
{
	struct rig_op op;

	rig_op_init(&op, &scene->client);
	cr_assert_eq(rig_read(&scene->client, &op, SINK_AT, remote), 0);
	scene_expect_refusal(scene, &op);
	cr_assert(op.status == -EACCES || op.status == -ECANCELED);
}

void scene_expect_write_refused(struct scene *scene, struct rf_remote remote)
{
	struct rig_op op;

	rig_op_init(&op, &scene->client);
	cr_assert_eq(rig_write(&scene->client, &op, 0, remote), 0);
	scene_expect_refusal(scene, &op);
	/* A status of 0 would prove nothing about the peer's side. */
	cr_assert(op.status == 0 || op.status == -EACCES ||
		  op.status == -ECANCELED);
}

void scene_read_well(struct rig *rig, struct rig_end *from,
		     struct rf_remote remote)
{
	size_t at = remote.addr - (uintptr_t)rig->b.arena;
	struct rig_op op;

	rig_op_init(&op, from);
	cr_assert_eq(rig_read(from, &op, SINK_AT, remote), 0);
	rig_until(rig, op.done_count);
	cr_assert_eq(op.status, 0);
	cr_assert_arr_eq(rig->a.arena + SINK_AT, rig->b.arena + at,
			 remote.size);
}

void scene_write_well(struct rig *rig, struct rig_end *from,
		      struct rig_end *to, struct rf_remote remote)
{
	size_t at = remote.addr - (uintptr_t)rig->b.arena;
	struct rig_op op;

	rig_op_init(&op, from);
	cr_assert_eq(rig_write(from, &op, 0, remote), 0);
	rig_exchange(rig, from, to);
	cr_assert_eq(op.status, 0);
	cr_assert_arr_eq(rig->b.arena + at, rig->a.arena, remote.size);
}

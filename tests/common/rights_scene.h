/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rights_scene.h - a client that breaks the rules, and a server whose memory it
 * is after
 *
 * Each refusal ends the connection and leaves the memory of both as it was; with
 * -EACCES on each side that the fabric's traits say is told, where it counts.
 * The scene_expect_...() functions wait for that and look.
 */
#ifndef RF_TESTS_RIGHTS_SCENE_H
#define RF_TESTS_RIGHTS_SCENE_H

#include "fabric_rig.h"

#define SCENE_RIGHTS (RF_REMOTE_READ | RF_REMOTE_WRITE)

enum {
	LENT_AT = 64 << 10,	/* what is lent, in the server's arena */
	LENT_SIZE = 16 << 10,
	WATCHED = 192 << 10,	/* what is looked at afterwards */
	SINK_AT = 1 << 20,	/* in the client's arena */
	SECRET = 11,		/* pattern of the server's memory */
	FORGED = 22,		/* pattern that the client writes */
	SINK = 33,
};

struct scene {
	struct rig rig;
	struct rig_end client, server;
	struct rig_grant grant;
	uint64_t refused_before;
};

/* Join the two and lend the client part of the server's arena. */
void scene_open(struct scene *scene, const struct rig_fabric *fabric,
		unsigned int access);
void scene_close(struct scene *scene);

/* Patterns over all that is watched; counts refusals from here. */
void scene_fill(struct scene *scene);

/* How often the node refused its peers. */
uint64_t scene_refusals(const struct rig_node *node);

bool scene_has_windows(const struct scene *scene);

#define SKIP_WITHOUT_WINDOWS(scene)					\
	do {								\
		if (!scene_has_windows(scene)) {				\
			scene_close(scene);				\
			cr_skip("this fabric has no windows");		\
		}							\
	} while (0)

/* True if the client's sink holds something of what was lent or lies near. */
bool scene_leaks(const struct scene *scene);

/* Wait for the end that op causes, and, unless it is just that, for its being
 * told. */
void scene_expect_end(struct scene *scene, const struct rig_op *op);
void scene_expect_refusal(struct scene *scene, const struct rig_op *op);

/* The client tries it; only once per connection. */
void scene_expect_read_refused(struct scene *scene, struct rf_remote remote);
void scene_expect_write_refused(struct scene *scene, struct rf_remote remote);

/* Use a right and find the data where they belong. */
void scene_read_well(struct rig *rig, struct rig_end *from,
		     struct rf_remote remote);
void scene_write_well(struct rig *rig, struct rig_end *from,
		      struct rig_end *to, struct rf_remote remote);

#endif /* RF_TESTS_RIGHTS_SCENE_H */

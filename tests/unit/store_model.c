/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random operations on a store and on a model: the same outcome each time, and
 * the same volume at each look.  STORE_SEED repeats a run.
 */
#include "store_rig.h"

#include "storage-server/store_impl.h"

TestSuite(store_model, .timeout = 240);

enum {
	ROUNDS = 8000,
	LOOK_EACH = 40,
	RESTART_EACH = 2000,
	CHANGES_MAX = 6,	/* in one transaction */
};

static struct fixture fixture;
static struct rig rig;

static void set_up(void)
{
	fixture_init(&fixture);
	fixture_open(&fixture);
	rig_init(&rig, rig_seed());
	rig.store = fixture.store;
}

static void tear_down(void)
{
	fixture_fini(&fixture);
}

/* Several changes at once, kept or not. */
static void run_transaction(void)
{
	unsigned int count = 1 + (unsigned int)rig_random(&rig, CHANGES_MAX);
	static struct model before;
	struct txn *txn;

	before = rig.model;
	txn = txn_begin(fixture.store);
	while (count--)
		rig_change(&rig, txn);
	if (rig_random(&rig, 5) == 0) {
		txn_abort(txn);
		rig.model = before;
		return;
	}
	cr_assert_eq(txn_commit(txn), 0);
}

static void look(unsigned int round)
{
	const char *text = rig_compare(&rig);

	cr_assert_null(text, "round %u: %s", round, text);
}

/* Data files of nodes. */
static unsigned int count_known_files(void)
{
	unsigned int files = 0;

	for (int i = 0; i < NODES; i++) {
		struct node *node = &rig.model.nodes[i];
		char path[DATA_PATH_SIZE];

		if (!node->is_used || node->is_dir)
			continue;
		data_path(node->inode, path);
		files += faccessat(fixture.store->data_fd, path, F_OK, 0) == 0;
	}
	return files;
}

static void run_rounds(void)
{
	for (unsigned int round = 1; round <= ROUNDS; round++) {
		if (rig_random(&rig, 2))
			run_transaction();
		else
			rig_step(&rig);
		if (rig_random(&rig, 8) == 0)
			cr_assert_eq(store_flush(fixture.store), 0);
		rf_reactor_turn(fixture.reactor, 0);
		if (round % LOOK_EACH == 0)
			look(round);
		if (round % RESTART_EACH == 0) {
			fixture_reopen(&fixture);
			rig.store = fixture.store;
			rig_restart(&rig);
			look(round);
			/* What belongs to nobody goes. */
			settle(&fixture, count_known_files());
		}
	}
	/* The rarest comes 25 times on average. */
	for (int i = 0; i < RIG_OUTCOMES; i++)
		cr_assert_gt(rig.seen[i], 0, "outcome %d was never met", i);
}

Test(store_model, store_and_model_agree, .init = set_up, .fini = tear_down)
{
	run_rounds();
}

Test(store_model, they_agree_where_hashes_collide, .init = set_up,
     .fini = tear_down)
{
	/* Not kept by a restart: names would not be found again. */
	fixture.store->hash_mask = 1;
	for (unsigned int round = 1; round < RESTART_EACH; round++) {
		run_transaction();
		if (round % LOOK_EACH == 0)
			look(round);
	}
}

Test(store_model, they_agree_with_room_for_few_open_files)
{
	fixture_init(&fixture);
	fixture.object_cache = 1;	/* the store's least */
	fixture_open(&fixture);
	rig_init(&rig, rig_seed());
	rig.store = fixture.store;
	run_rounds();
	fixture_fini(&fixture);
}

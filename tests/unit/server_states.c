/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_states.c - the connection or the server ends while a request is in this
 * state, for each state that a request of the server can be in
 *
 * Many requests are under way at once, such that all states come.  After each turn it
 * is looked whether some request is in the state that is wanted; then the fault
 * comes.  The client comes back, has all its answers in the end, and leaves nothing.
 */
#include "tests/common/fault_client.h"

#include "libproto/loop.h"
#include "storage-server/exec.h"

#include <stdio.h>

TestSuite(server_states, .timeout = 280);

enum {
	SIZE = 120000,		/* by slots and grants */
	READS = 8,
	WAITER = 1,		/* for the lock: its place among the fops */
	HOLES = 1,
	FOPS = 16,
	TRIES = 20,
	RW = RF_OPEN_READ | RF_OPEN_WRITE,
};

enum fault { CUT, CUT_TWICE, KILL, FAULTS };

static const char *const fault_names[FAULTS] = {
	"cut", "cut again as it comes back", "the server is killed",
};

static const struct {
	enum exec_state state;
	const char *name;
	bool is_strict;			/* durability */
} states[] = {
	{ EXEC_WAITS_STAGING, "waits for staging memory", false },
	{ EXEC_WAITS_LOCKS, "waits for news of locks", false },
	{ EXEC_WAITS_WORK, "waits for a worker", false },
	{ EXEC_WAITS_SYNC, "waits for a sync", false },
	{ EXEC_SYNCS_ANSWER, "syncs its answer", true },
};

/*
 * All but IDLE, RUNS and SHELVED; WAITS_FENCE, which takes a write by several slots
 * (unit/server_rights cuts those at any moment); and WAITS_MARK and CUTS_DATA, which
 * are over within a turn where jobs are done at once, as they are in virtual time.
 */
_Static_assert(EXEC_SYNCS_ANSWER == RF_ARRAY_SIZE(states) + 5, "each of them");

static struct srig rig;
static struct fclient client;
static struct fop fops[FOPS];
static unsigned int fop_count;
static uint8_t bytes[SIZE];
static rf_handle_t file, other;
static uint32_t file_open, other_open;

static void turn(void)
{
	cr_assert(srig_turn(&rig), "nothing is left to happen");
	fclient_step(&client);
}

static void start(const rf_handle_t *on, struct rf_args args, bool by_slot)
{
	struct fop *fop = &fops[fop_count++];

	cr_assert_leq(fop_count, FOPS);
	*fop = (struct fop){ .on = *on, .count = 1, .args = { args },
			     .by_slot = by_slot };
	fop_start(&client, fop);
}

static rf_handle_t make(const char *name, uint32_t *open)
{
	struct fop fop = { .on = client.base.root, .count = 1, .args = { {
		.code = RF_OP_CREATE, .create = { sname(name), 0644, RW, 0 } } } };
	struct fop fill = { .count = 1, .by_slot = true };
	rf_handle_t handle;

	cr_assert_eq(fclient_run(&client, &fop), RF_ST_OK);
	handle = fop_handle(&fop);
	*open = fop.results[0].create.open;
	fop_fini(&fop);
	fill.on = handle;
	fill.args[0] = (struct rf_args){ .code = RF_OP_WRITE, .write = {
		.open = *open, .data = { bytes, SIZE } } };
	cr_assert_eq(fclient_run(&client, &fill), RF_ST_OK);
	fop_fini(&fill);
	return handle;
}

static void lock(uint64_t owner)
{
	start(&file, (struct rf_args){ .code = RF_OP_LOCK, .lock = {
		.open = file_open, .owner = owner, .end = 9,
		.flags = RF_LOCK_EXCLUSIVE | (owner > 1 ? RF_LOCK_WAIT : 0),
		.wait = owner > 1 ? owner : 0 } }, false);
}

static void start_all(void)
{
	fop_count = 0;
	lock(1);
	lock(2);
	start(&file, (struct rf_args){ .code = RF_OP_WRITE, .write = {
		.open = file_open, .flags = RF_WRITE_SYNC,
		.data = { bytes, SIZE } } }, true);
	start(&file, (struct rf_args){ .code = RF_OP_SETATTR, .setattr = {
		.valid = RF_SET_SIZE, .size = 1000 } }, false);
	start(&other, (struct rf_args){ .code = RF_OP_FSYNC, .fsync = {
		other_open, 0 } }, false);
	for (unsigned int i = 0; i < HOLES; i++) {
		start(&other, (struct rf_args){ .code = RF_OP_FALLOCATE,
			.fallocate = { other_open, RF_FALLOC_PUNCH |
				       RF_FALLOC_KEEP_SIZE, 5000 * i,
				       5000 } }, false);
		start(&other, (struct rf_args){ .code = RF_OP_SETATTR,
			.setattr = { .valid = RF_SET_MODE,
				     .mode = 0600 + i } }, false);
	}
	for (unsigned int i = 0; i < READS; i++)
		start(&other, (struct rf_args){ .code = RF_OP_READ, .read = {
			other_open, 0, SIZE } }, false);
}

static bool is_in(enum exec_state state)
{
	struct rf_list *pos;

	rf_list_for_each(pos, &rig.server->sessions) {
		const struct session *session =
			rf_container_of(pos, struct session, link);

		for (unsigned int i = 0; i < session->exec_count; i++)
			if (session->execs[i].state == state)
				return true;
	}
	return false;
}

static void cut(void)
{
	rf_loop_cut(rig.world, NULL, NULL, RF_LOOP_CUT_RESET);
}

static void strike(enum fault fault)
{
	switch (fault) {
	case CUT:
		cut();
		break;
	case CUT_TWICE:
		cut();
		while (client.phase == FC_OPEN || client.phase == FC_AWAY)
			turn();
		cut();
		break;
	case KILL:
		srig_kill(&rig);
		srig_start(&rig);
		break;
	default:
		break;
	}
}

/* All but the one that waits for the lock. */
static bool are_done(void)
{
	for (unsigned int i = 0; i < fop_count; i++)
		if (i != WAITER && !fop_is_done(&fops[i]))
			return false;
	return true;
}

static void come_to_an_end(void)
{
	struct fop unlock = { .on = file, .count = 1, .args = { {
		.code = RF_OP_UNLOCK, .unlock = { .owner = 1, .end = 9 } } } };

	while (!are_done())
		turn();
	for (unsigned int i = 0; i < fop_count; i++)
		if (i != WAITER)
			cr_assert_eq(fop_status(&fops[i]), RF_ST_OK, "%s: %s",
				     rf_op_name(fops[i].args[0].code),
				     rf_status_name(fop_status(&fops[i])));
	cr_assert_eq(fclient_run(&client, &unlock), RF_ST_OK);
	while (!fop_is_done(&fops[WAITER]))
		turn();
	cr_assert_eq(fop_status(&fops[WAITER]), RF_ST_OK);
	fop_fini(&unlock);
}

static void nothing_is_left(void)
{
	srig_until(&rig, rig.server->session_count == 0);
	cr_assert_eq(rig.server->active, 0);
	cr_assert_eq(rig.server->locks.ranges.count, 0);
	cr_assert_eq(rig.server->locks.waits.count, 0);
	cr_assert_eq(srig_staging_free(&rig), srig_staging_total(&rig));
	cr_assert_eq(store_open_count(rig.server->store, file.inode), 0);
}

/* A sync has a thread of its own in any case, which may be done within the turn:
 * false then. */
static bool comes_into(enum exec_state state)
{
	while (!is_in(state)) {
		if (are_done())
			return false;
		turn();
	}
	return true;
}

static bool try_one(unsigned int which, enum fault fault)
{
	bool came;

	printf("%s: %s\n", states[which].name, fault_names[fault]);
	fflush(stdout);
	srig_init(&rig, "loop-virtual");
	srig_set(&rig, "staging", "4M");
	srig_set(&rig, "session-staging", "4M");
	if (states[which].is_strict)
		srig_set(&rig, "durability", "strict");
	srig_start(&rig);
	fclient_open(&rig, &client);
	file = make("file", &file_open);
	other = make("other", &other_open);
	start_all();
	came = comes_into(states[which].state);
	if (came)
		strike(fault);
	come_to_an_end();
	for (unsigned int i = 0; i < fop_count; i++)
		fop_fini(&fops[i]);
	fclient_close(&client);
	nothing_is_left();
	srig_close(&rig);
	return came;
}

static void try_all(enum fault fault)
{
	spattern(bytes, sizeof(bytes), 1);
	for (unsigned int i = 0; i < RF_ARRAY_SIZE(states); i++) {
		unsigned int tries = 0;

		while (!try_one(i, fault))
			cr_assert_lt(++tries, TRIES, "no request came into "
				     "this state");
	}
}

Test(server_states, a_connection_is_cut) { try_all(CUT); }
Test(server_states, a_connection_is_cut_twice) { try_all(CUT_TWICE); }
Test(server_states, a_server_is_killed) { try_all(KILL); }

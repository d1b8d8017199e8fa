/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that changes a store is killed at a random moment.  The next one
 * finds every operation that was acknowledged (after store_flush()), perhaps
 * some of those that were under way, in their order, and nothing torn.
 */
#include "store_rig.h"

#include "storage-server/store_impl.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

TestSuite(store_crash, .timeout = 280);

enum {
	ROUNDS = 25,
	TURN_MAX = 8,		/* operations of one flush */
	STEPS_MAX = 4000,	/* of one process, if nobody kills it */
	KILL_US_MAX = 60000,
};

static struct fixture fixture;
static struct rig rig;

static void set_up(void)
{
	fixture_init(&fixture);
	rig_init(&rig, rig_seed());
}

static void tear_down(void)
{
	fixture_fini(&fixture);
}

/* ---- the process that is killed ------------------------------------------ */

static void wait_for_sync(void)
{
	while (fixture.store->sync.pending)
		rf_reactor_turn(fixture.reactor, 10);
}

static void nothing_to_do(struct sync_request *request, int err)
{
	(void)request;
	cr_assert_eq(err, 0);
}

static void acknowledge(int pipe_fd, uint32_t steps)
{
	if (write(pipe_fd, &steps, sizeof(steps)) != sizeof(steps))
		_exit(3);
}

static void run_victim(int pipe_fd)
{
	static struct sync_request request = { .done = nothing_to_do };
	uint32_t steps = 0;

	/* The parent's threads are not here. */
	if (rf_reactor_create(&fixture.reactor) ||
	    rf_workers_create("victim", 2, &fixture.workers) ||
	    fixture_try_open(&fixture))
		_exit(2);
	rig.store = fixture.store;
	acknowledge(pipe_fd, 0);
	while (steps < STEPS_MAX) {
		/* The turn's length is not part of the operations' chance. */
		uint32_t turn = 1 + steps * 2654435761u % TURN_MAX;

		while (turn--) {
			rig_step(&rig);
			steps++;
		}
		if (store_flush(fixture.store))
			_exit(4);
		acknowledge(pipe_fd, steps);
		rf_reactor_turn(fixture.reactor, 0);
		if (steps % 64 == 0) {
			store_sync(fixture.store, &request);
			wait_for_sync();
		}
	}
	/* Not closed: as if killed here. */
	_exit(0);
}

/* ---- the one who looks --------------------------------------------------- */

/* Everything acknowledged until the pipe ended. */
static uint32_t read_acknowledged(int pipe_fd)
{
	uint32_t steps = 0, next;

	while (read(pipe_fd, &next, sizeof(next)) == sizeof(next))
		steps = next;
	return steps;
}

static uint32_t run_and_kill(void)
{
	struct timespec delay = {
		.tv_nsec = (long)(rig_random(&rig, KILL_US_MAX) * 1000),
	};
	uint32_t first, last;
	int pipe_fds[2], status;
	pid_t victim;

	cr_assert_eq(pipe(pipe_fds), 0);
	victim = fork();
	cr_assert_geq(victim, 0);
	if (victim == 0) {
		close(pipe_fds[0]);
		run_victim(pipe_fds[1]);
	}
	close(pipe_fds[1]);
	cr_assert_eq(read(pipe_fds[0], &first, sizeof(first)),
		     (ssize_t)sizeof(first), "the victim could not open");
	nanosleep(&delay, NULL);	/* the moment is the chance */
	kill(victim, SIGKILL);
	last = read_acknowledged(pipe_fds[0]);
	close(pipe_fds[0]);
	cr_assert_eq(waitpid(victim, &status, 0), victim);
	cr_assert(WIFSIGNALED(status) || WEXITSTATUS(status) == 0,
		  "the victim failed with %d", WEXITSTATUS(status));
	return last;
}

/* The model's numbers are not those of the dead process. */
static void forget_numbers(struct rig *r)
{
	for (int i = 1; i < NODES; i++)
		r->model.nodes[i].inode = 0;
}

/*
 * Repeat on the model what was acknowledged, then as many more steps as it takes
 * to agree with the store, within one turn.  Returns how many, or -1.
 */
static int find_state(uint32_t acknowledged)
{
	static struct rig replay, try;
	const char *text = NULL;

	replay = rig;
	replay.store = NULL;
	for (uint32_t i = 0; i < acknowledged; i++)
		rig_step(&replay);
	for (int more = 0; more <= TURN_MAX; more++) {
		try = replay;
		rig_restart(&try);
		forget_numbers(&try);
		try.store = fixture.store;
		text = rig_compare(&try);
		if (!text) {
			uint64_t random = replay.random;

			rig = try;
			rig.random = random;
			return more;
		}
		rig_step(&replay);
	}
	fprintf(stderr, "after %u steps: %s\n", acknowledged, text);
	return -1;
}

static bool node_has(uint64_t inode)
{
	for (int i = 0; i < NODES; i++)
		if (rig.model.nodes[i].is_used && !rig.model.nodes[i].is_dir &&
		    rig.model.nodes[i].inode == inode)
			return true;
	return false;
}

static unsigned int count_foreign_files(void)
{
	unsigned int count = 0;
	char command[256], line[256];
	FILE *pipe;

	snprintf(command, sizeof(command), "find %s/data -type f", fixture.dir);
	pipe = popen(command, "r");
	cr_assert_not_null(pipe);
	while (fgets(line, sizeof(line), pipe))
		count += !node_has(strtoull(strrchr(line, '/') + 1, NULL, 16));
	pclose(pipe);
	return count;
}

/* Data files that belong to no file go. */
static void wait_for_removals(void)
{
	while (store_flush(fixture.store) == 0 && count_foreign_files())
		rf_reactor_turn(fixture.reactor, 10);
}

Test(store_crash, what_was_acknowledged_survives_sigkill, .init = set_up,
     .fini = tear_down)
{
	uint32_t total = 0;

	for (unsigned int round = 0; round < ROUNDS; round++) {
		uint64_t seed = rig.random;
		uint32_t acknowledged = run_and_kill();
		int more;

		/* The victim went on from here, after the delay was drawn. */
		fixture_open(&fixture);
		more = find_state(acknowledged);
		cr_assert_geq(more, 0, "round %u (random %llu), %u steps",
			      round, (unsigned long long)seed, acknowledged);
		wait_for_removals();
		total += acknowledged;
		store_close(fixture.store);
		fixture.store = NULL;
	}
	fprintf(stderr, "%u acknowledged operations in %d rounds\n", total,
		ROUNDS);
}

/* ---- the machine, or only the server -------------------------------------- */

/* Ends like a server that is killed; as if before another boot if is_old. */
static void die_with_boot_id(bool is_old)
{
	pid_t victim = fork();
	int status;

	cr_assert(victim >= 0);
	if (victim == 0) {
		uint8_t key[INODE_KEY_SIZE], other[BOOT_RECORD_SIZE] = { 1 };
		struct store *store;

		if (rf_reactor_create(&fixture.reactor) ||
		    rf_workers_create("victim", 1, &fixture.workers) ||
		    fixture_try_open(&fixture))
			_exit(2);
		store = fixture.store;
		engine_batch_clear(store->batch);
		engine_batch_put(store->engine, store->batch, ENGINE_INODES,
				 key, key_volume(key, VOLUME_BOOT), other,
				 sizeof(other));
		if (is_old && engine_commit(store->engine, store->batch))
			_exit(3);
		if (engine_flush(store->engine))
			_exit(4);
		_exit(0);
	}
	cr_assert_eq(waitpid(victim, &status, 0), victim);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%#x",
		  status);
}

Test(store_crash, a_start_knows_whether_the_machine_went_down, .init = set_up,
     .fini = tear_down)
{
	fixture_open(&fixture);
	cr_assert_not(store_lost_power(fixture.store), "a new store");
	fixture_reopen(&fixture);
	cr_assert_not(store_lost_power(fixture.store), "a clean stop");
	store_close(fixture.store);
	die_with_boot_id(false);
	fixture_open(&fixture);
	cr_assert_not(store_lost_power(fixture.store), "kill -9");
	store_close(fixture.store);
	die_with_boot_id(true);
	fixture_open(&fixture);
	cr_assert(store_lost_power(fixture.store));
	fixture_reopen(&fixture);
	cr_assert_not(store_lost_power(fixture.store));
}

/* ---- replies ------------------------------------------------------------- */

static void make_with_reply(uint32_t number)
{
	struct reply_key key = { .session = 1, .slot = 1 };
	struct txn *txn = txn_begin(fixture.store);
	struct make_args args = { .dir = STORE_ROOT_INODE,
				  .mode = S_IFREG | 0600 };
	const struct reply_record record = { .seq = number };
	char name[16];
	rf_attr_t attr;

	snprintf(name, sizeof(name), "n%u", number);
	args.name = name_of(name);
	if (txn_make(txn, &root_cred, &args, &attr) ||
	    txn_record_reply(txn, &key, &record, &attr.inode,
			     sizeof(attr.inode)) ||
	    txn_commit(txn) || store_flush(fixture.store))
		_exit(5);
}

static void run_replying_victim(int pipe_fd, uint32_t number)
{
	if (rf_reactor_create(&fixture.reactor) ||
	    rf_workers_create("victim", 1, &fixture.workers) ||
	    fixture_try_open(&fixture))
		_exit(2);
	acknowledge(pipe_fd, number);
	for (uint32_t i = 0; i < STEPS_MAX; i++) {
		make_with_reply(++number);
		acknowledge(pipe_fd, number);
	}
	_exit(0);
}

static uint32_t run_and_kill_replying(uint32_t number)
{
	struct timespec delay = {
		.tv_nsec = (long)(rig_random(&rig, KILL_US_MAX) * 1000),
	};
	int pipe_fds[2];
	pid_t victim;
	uint32_t last;

	cr_assert_eq(pipe(pipe_fds), 0);
	victim = fork();
	if (victim == 0) {
		close(pipe_fds[0]);
		run_replying_victim(pipe_fds[1], number);
	}
	close(pipe_fds[1]);
	cr_assert_eq(read(pipe_fds[0], &last, sizeof(last)),
		     (ssize_t)sizeof(last));
	nanosleep(&delay, NULL);
	kill(victim, SIGKILL);
	last = (uint32_t)rf_max_u64(last, read_acknowledged(pipe_fds[0]));
	close(pipe_fds[0]);
	waitpid(victim, NULL, 0);
	return last;
}

Test(store_crash, an_effect_and_its_reply_are_there_together, .init = set_up,
     .fini = tear_down)
{
	struct reply_key key = { .session = 1, .slot = 1 };
	uint32_t number = 0;

	for (unsigned int round = 0; round < ROUNDS / 2; round++) {
		uint32_t acknowledged = run_and_kill_replying(number);
		struct reply_record record;
		char name[16];
		uint64_t inode;
		rf_attr_t attr;

		fixture_open(&fixture);
		cr_assert_eq(store_find_reply(fixture.store, &key, &record, &inode,
					      sizeof(inode)),
			     (int)sizeof(inode));
		cr_assert_geq(record.seq, acknowledged);
		cr_assert_leq(record.seq, acknowledged + 1);
		snprintf(name, sizeof(name), "n%u", record.seq);
		cr_assert_eq(lookup(fixture.store, STORE_ROOT_INODE, name,
				    &attr), 0);
		cr_assert_eq(attr.inode, inode);
		snprintf(name, sizeof(name), "n%u", record.seq + 1);
		cr_assert_eq(lookup(fixture.store, STORE_ROOT_INODE, name,
				    &attr), -ENOENT);
		number = record.seq;
		store_close(fixture.store);
		fixture.store = NULL;
	}
}

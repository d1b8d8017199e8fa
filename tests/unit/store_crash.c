/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that changes a store is killed at a random moment.  The next one
 * finds every operation that was acknowledged (after store_flush()), perhaps
 * some of those that were under way, in their order, and nothing torn.
 */
#include "store_rig.h"

#include "storage-server/store_impl.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
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

/* ---- where victims come from --------------------------------------------- */

/*
 * A victim is forked by a process without threads, the nursery: those of the
 * engine, which the looking process has, do not come along in a fork, and a lock
 * that one of them held would never be given back.
 */
static struct {
	pid_t pid;
	int order_fd;		/* a byte to the nursery, a status from it */
	struct {
		void (*run)(uint32_t number);
		uint32_t number;
		struct rig rig;
		struct fixture fixture;
		pid_t victim;
		_Atomic bool is_open;		/* the victim has its store */
		_Atomic uint32_t acknowledged;
	} *shared;
} nursery;

static void run_nursery(int order_fd)
{
	char order;

	while (read(order_fd, &order, 1) == 1) {
		pid_t victim = fork();
		int status = -1;

		if (victim == 0) {
			rig = nursery.shared->rig;
			fixture = nursery.shared->fixture;
			nursery.shared->run(nursery.shared->number);
			_exit(0);
		}
		nursery.shared->victim = victim;
		if (write(order_fd, &order, 1) != 1 ||
		    waitpid(victim, &status, 0) != victim ||
		    write(order_fd, &status, sizeof(status)) !=
		    sizeof(status))
			break;
	}
	_exit(0);
}

static void open_nursery(void)
{
	int fds[2];

	nursery.shared = mmap(NULL, sizeof(*nursery.shared),
			      PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(nursery.shared, MAP_FAILED);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	nursery.pid = fork();
	cr_assert_geq(nursery.pid, 0);
	if (nursery.pid == 0) {
		close(fds[0]);
		run_nursery(fds[1]);
	}
	close(fds[1]);
	nursery.order_fd = fds[0];
}

static void close_nursery(void)
{
	close(nursery.order_fd);
	waitpid(nursery.pid, NULL, 0);
	munmap(nursery.shared, sizeof(*nursery.shared));
}

static void start_victim(void (*run)(uint32_t), uint32_t number)
{
	char order = 0;

	nursery.shared->run = run;
	nursery.shared->number = number;
	nursery.shared->rig = rig;
	nursery.shared->fixture = fixture;
	nursery.shared->acknowledged = number;
	nursery.shared->is_open = false;
	cr_assert_eq(write(nursery.order_fd, &order, 1), 1);
	cr_assert_eq(read(nursery.order_fd, &order, 1), 1);
	cr_assert_gt(nursery.shared->victim, 0);
}

/* Returns the status as waitpid() tells it. */
static int wait_for_victim(void)
{
	int status;

	cr_assert_eq(read(nursery.order_fd, &status, sizeof(status)),
		     (ssize_t)sizeof(status));
	return status;
}

/* Kills it at a random moment; returns what was acknowledged until then. */
static uint32_t run_and_kill(void (*run)(uint32_t), uint32_t number)
{
	struct timespec delay = {
		.tv_nsec = (long)(rig_random(&rig, KILL_US_MAX) * 1000),
	};
	struct pollfd end = { .events = POLLIN };
	int status;

	start_victim(run, number);
	end.fd = nursery.order_fd;
	while (!nursery.shared->is_open && poll(&end, 1, 1) == 0)
		;
	nanosleep(&delay, NULL);	/* the moment is the chance */
	kill(nursery.shared->victim, SIGKILL);
	status = wait_for_victim();
	cr_assert(WIFSIGNALED(status) || WEXITSTATUS(status) == 0,
		  "the victim failed with %d", WEXITSTATUS(status));
	cr_assert(nursery.shared->is_open);
	return nursery.shared->acknowledged;
}

static void set_up(void)
{
	open_nursery();
	fixture_init(&fixture);
	rig_init(&rig, rig_seed());
}

static void tear_down(void)
{
	fixture_fini(&fixture);
	close_nursery();
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

static void open_victim_store(void)
{
	if (rf_reactor_create(&fixture.reactor) ||
	    rf_workers_create("victim", 2, &fixture.workers) ||
	    fixture_try_open(&fixture))
		_exit(2);
	nursery.shared->is_open = true;
}

static void run_steps(uint32_t steps)
{
	static struct sync_request request = { .done = nothing_to_do };

	open_victim_store();
	rig.store = fixture.store;
	while (steps < STEPS_MAX) {
		/* The turn's length is not part of the operations' chance. */
		uint32_t turn = 1 + steps * 2654435761u % TURN_MAX;

		while (turn--) {
			rig_step(&rig);
			steps++;
		}
		if (store_flush(fixture.store))
			_exit(4);
		nursery.shared->acknowledged = steps;
		rf_reactor_turn(fixture.reactor, 0);
		if (steps % 64 == 0) {
			store_sync(fixture.store, &request);
			wait_for_sync();
		}
	}
	/* Not closed: as if killed here. */
}

/* ---- the one who looks --------------------------------------------------- */

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
		uint32_t acknowledged = run_and_kill(run_steps, 0);
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
static void put_boot_id(uint32_t is_old)
{
	uint8_t key[INODE_KEY_SIZE], other[BOOT_RECORD_SIZE] = { 1 };
	struct store *store;

	open_victim_store();
	store = fixture.store;
	engine_batch_clear(store->batch);
	engine_batch_put(store->engine, store->batch, ENGINE_INODES, key,
			 key_volume(key, VOLUME_BOOT), other, sizeof(other));
	if (is_old && engine_commit(store->engine, store->batch))
		_exit(3);
	if (engine_flush(store->engine))
		_exit(4);
}

static void die_with_boot_id(bool is_old)
{
	int status;

	start_victim(put_boot_id, is_old);
	status = wait_for_victim();
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

/* ---- what is cut ----------------------------------------------------------- */

enum { CUT_DATA = 1500, CUT_FROM = 3000, CUT_TO = 1000, CUT_HOLE_TO = 2000 };

static const char cut_name[] = "cut";

/* Dies when a data file that was not open was looked into behind its truncate. */
static void truncate_look_and_die(uint32_t unused)
{
	struct rf_setattr_args args = { .valid = RF_SET_SIZE, .size = CUT_TO };
	uint8_t byte;
	rf_attr_t attr;

	(void)unused;
	open_victim_store();
	if (lookup(fixture.store, STORE_ROOT_INODE, cut_name, &attr) ||
	    setattr_as(fixture.store, &root_cred, attr.inode, &args, &attr) ||
	    read_at(fixture.store, attr.inode, &byte, 1, 0) != 1)
		_exit(6);
	raise(SIGKILL);
}

/* Dies when something was written where the truncate had cut a hole. */
static void truncate_write_and_die(uint32_t unused)
{
	struct rf_setattr_args args = { .valid = RF_SET_SIZE,
					.size = CUT_HOLE_TO };
	struct object *object;
	rf_attr_t attr;

	(void)unused;
	open_victim_store();
	if (lookup(fixture.store, STORE_ROOT_INODE, cut_name, &attr) ||
	    object_get(fixture.store, attr.inode, &object) ||
	    setattr_as(fixture.store, &root_cred, attr.inode, &args, &attr) ||
	    object_truncate(object, CUT_HOLE_TO) ||
	    write_at(fixture.store, attr.inode, "new", 3, CUT_HOLE_TO))
		_exit(6);
	raise(SIGKILL);
}

/* The file is as before the truncate, or as behind it. */
static void check_cut(void (*run)(uint32_t))
{
	struct rf_setattr_args args = { .valid = RF_SET_SIZE,
					.size = CUT_FROM };
	uint8_t data[CUT_FROM] = { 0 }, found[CUT_FROM];
	rf_attr_t attr;
	int status;

	memset(data, 0x5a, CUT_DATA);
	fixture_open(&fixture);
	cr_assert_eq(make_as(fixture.store, &root_cred, STORE_ROOT_INODE,
			     cut_name, S_IFREG | 0600, &attr), 0);
	cr_assert_eq(write_at(fixture.store, attr.inode, data, CUT_DATA, 0), 0);
	cr_assert_eq(setattr_as(fixture.store, &root_cred, attr.inode, &args,
				&attr), 0);
	store_close(fixture.store);
	start_victim(run, 0);
	status = wait_for_victim();
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%#x",
		  status);
	fixture_open(&fixture);
	cr_assert_eq(lookup(fixture.store, STORE_ROOT_INODE, cut_name, &attr),
		     0);
	cr_assert_leq(attr.size, CUT_FROM);
	cr_assert_eq(read_at(fixture.store, attr.inode, found, sizeof(found),
			     0), (ssize_t)attr.size);
	cr_assert_eq(memcmp(found, data, attr.size), 0,
		     "a size of %u, and not its bytes", (unsigned)attr.size);
}

Test(store_crash, what_a_truncate_cuts_is_there_until_the_log_says_so,
     .init = set_up, .fini = tear_down)
{
	check_cut(truncate_look_and_die);
}

Test(store_crash, what_is_written_behind_a_cut_is_not_seen_without_it,
     .init = set_up, .fini = tear_down)
{
	check_cut(truncate_write_and_die);
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

static void run_replying(uint32_t number)
{
	open_victim_store();
	for (uint32_t i = 0; i < STEPS_MAX; i++) {
		make_with_reply(++number);
		nursery.shared->acknowledged = number;
	}
}

Test(store_crash, an_effect_and_its_reply_are_there_together, .init = set_up,
     .fini = tear_down)
{
	struct reply_key key = { .session = 1, .slot = 1 };
	uint32_t number = 0;

	for (unsigned int round = 0; round < ROUNDS / 2; round++) {
		uint32_t acknowledged = run_and_kill(run_replying, number);
		struct reply_record record = { 0 };
		char name[16];
		uint64_t inode = 0;
		rf_attr_t attr;
		int found;

		fixture_open(&fixture);
		found = store_find_reply(fixture.store, &key, &record, &inode,
					 sizeof(inode));
		/* Killed before its first operation, it leaves no reply. */
		if (acknowledged || found != -ENOENT)
			cr_assert_eq(found, (int)sizeof(inode));
		cr_assert_geq(record.seq, acknowledged);
		cr_assert_leq(record.seq, acknowledged + 1);
		if (record.seq) {
			snprintf(name, sizeof(name), "n%u", record.seq);
			cr_assert_eq(lookup(fixture.store, STORE_ROOT_INODE,
					    name, &attr), 0);
			cr_assert_eq(attr.inode, inode);
		}
		snprintf(name, sizeof(name), "n%u", record.seq + 1);
		cr_assert_eq(lookup(fixture.store, STORE_ROOT_INODE, name,
				    &attr), -ENOENT);
		number = record.seq;
		store_close(fixture.store);
		fixture.store = NULL;
	}
}

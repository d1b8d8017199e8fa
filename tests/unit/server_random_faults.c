/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_random_faults.c - random operations of several clients, and random faults
 *
 * A plan is a list of steps, each of one thread, and of faults.  Each thread works
 * in a directory of its own, so that what it is answered does not depend on the
 * others; beside that all append to one log, and add to one counter under a lock.
 * A plan is run twice: step by step without faults, which is the serial oracle, and
 * with all threads at once and the faults.  What each thread was answered, and what
 * is there in the end, must be the same; each record is in the log once, in the
 * order of its thread, and no addition is lost.
 *
 * RF_SEED=N makes the plans from that seed on; RF_PLANS=N so many.  A plan that fails is
 * made shorter, in processes of its own, and printed; RF_PLAN=FILE runs one.
 */
#include "tests/common/fault_client.h"

#include "libproto/loop.h"
#include "storage-server/store_impl.h"
#include "tests/common/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TestSuite(server_random_faults, .timeout = 7200);

enum {
	CLIENTS = 2,
	THREADS = 4,
	NAMES = 6,
	OPENS = 3,		/* of a thread */
	ITEMS_MAX = 2000,
	STEPS = 120,		/* of a plan, about */
	DATA_MAX = 60000,	/* of one WRITE */
	FILE_MAX = 200000,
	RECORD = 16,		/* thread and number, of the log */
	PLANS = 4,
	SEED = 2000,
	PLANS_LONG = 150,
	SHRINKS_MAX = 200,
	PLAN_SECONDS = 100,
	STILL_TURNS = 10,
	ABSENT = 0xffff,	/* an open that nobody has */
	RW = RF_OPEN_READ | RF_OPEN_WRITE,
};

#define HOURS UINT64_C(36000000000000)	/* 10 of them, of virtual time */

/* ---- plans -------------------------------------------------------------- */

enum step_kind {
	CREATE, OPEN, RELEASE, WRITE, WRITE_BY_SLOT, APPEND, READ, TRUNCATE,
	FALLOCATE, COPY, MKDIR, RMDIR, RENAME, LINK, UNLINK, SYMLINK, LOOKUP,
	READDIR, CHMOD, SETXATTR, GETXATTR, REMOVEXATTR, FSYNC, MAKE_WHOLE,
	READ_WHOLE, TEMPORARY, LOG, COUNT, STEP_KINDS,
};

enum strike_kind {
	CUT_ALL, CUT_ONE, CUT_SILENTLY, PARTITION, DELAY, DUPLICATE, KILL,
	KILL_UNWRITTEN, KILL_TWICE, STOP, STRIKE_KINDS,
};

struct item {
	bool is_strike;
	unsigned int thread;	/* a strike: steps that have begun by then */
	unsigned int kind;
	unsigned int a, b, c;	/* a strike: a turns later */
};

struct plan {
	unsigned int seed;	/* of the world */
	struct item items[ITEMS_MAX];
	unsigned int count;
};

static void make_plan(struct plan *plan, unsigned int seed)
{
	unsigned int strikes = 1 + (unsigned int)rand() % 8;

	plan->seed = seed;
	plan->count = 0;
	for (unsigned int i = 0; i < STEPS; i++)
		plan->items[plan->count++] = (struct item){
			.thread = (unsigned int)rand() % THREADS,
			.kind = (unsigned int)rand() % STEP_KINDS,
			.a = (unsigned int)rand(),
			.b = (unsigned int)rand(),
			.c = (unsigned int)rand(),
		};
	for (unsigned int i = 0; i < strikes; i++)
		plan->items[plan->count++] = (struct item){
			.is_strike = true,
			.thread = (unsigned int)rand() % STEPS,
			.kind = (unsigned int)rand() % STRIKE_KINDS,
			.a = (unsigned int)rand() % 40,
			.b = (unsigned int)rand(),
		};
}

static void write_plan(const struct plan *plan, FILE *out)
{
	fprintf(out, "seed %u\n", plan->seed);
	for (unsigned int i = 0; i < plan->count; i++) {
		const struct item *it = &plan->items[i];

		fprintf(out, "%s %u %u %u %u %u\n",
			it->is_strike ? "strike" : "step", it->thread,
			it->kind, it->a, it->b, it->c);
	}
}

static void read_plan(struct plan *plan, const char *path)
{
	FILE *in = fopen(path, "r");
	char word[16];
	struct item it;

	cr_assert_not_null(in, "%s: %s", path, strerror(errno));
	cr_assert_eq(fscanf(in, "seed %u", &plan->seed), 1);
	plan->count = 0;
	while (fscanf(in, "%15s %u %u %u %u %u", word, &it.thread, &it.kind,
		      &it.a, &it.b, &it.c) == 6) {
		it.is_strike = strcmp(word, "strike") == 0;
		cr_assert(it.is_strike ? it.kind < STRIKE_KINDS :
			  it.kind < STEP_KINDS && it.thread < THREADS);
		cr_assert_lt(plan->count, ITEMS_MAX);
		plan->items[plan->count++] = it;
	}
	fclose(in);
}

/* ---- a run -------------------------------------------------------------- */

struct place {			/* an open of a thread */
	rf_handle_t handle;
	uint32_t id;		/* 0: free */
};

struct thread {
	struct fclient *client;
	unsigned int number;
	rf_handle_t dir;
	struct place opens[OPENS], log, counter;
	struct fop fop;
	bool is_busy;
	const struct item *step;
	unsigned int part;	/* of a step with several messages */
	unsigned int at;	/* item that is looked at next */
	uint64_t records, additions, value;
	uint8_t *data;
	uint8_t small[RECORD];
	char name[8], other_name[8];
	struct fc_aliases aliases;
	char *text;		/* what it was answered */
	size_t text_size;
	FILE *out;
};

static struct srig rig;
static struct fclient clients[CLIENTS];
static struct thread threads[THREADS];
static const struct plan *plan;
static bool has_faults;
static unsigned int begun;		/* steps */
static uint64_t heal_at_ns, commits_before;
static unsigned int kill_again_in;	/* turns; 0: not */
static unsigned int operations, strikes;
static unsigned int still_turns;

static void step_all(void)
{
	for (unsigned int i = 0; i < CLIENTS; i++)
		if (clients[i].base.client)
			fclient_step(&clients[i]);
}

static bool is_away(void)
{
	for (unsigned int i = 0; i < CLIENTS; i++)
		if (clients[i].phase != FC_OPEN)
			return true;
	return false;
}

/* ---- steps -------------------------------------------------------------- */

static rf_name_t name_of(struct thread *t, unsigned int number)
{
	snprintf(t->name, sizeof(t->name), "n%u", number % NAMES);
	return sname(t->name);
}

static rf_name_t other_name_of(struct thread *t, unsigned int number)
{
	snprintf(t->other_name, sizeof(t->other_name), "n%u", number % NAMES);
	return sname(t->other_name);
}

static struct place *place_of(struct thread *t, unsigned int number)
{
	return &t->opens[number % OPENS];
}

static struct rf_args *add(struct thread *t, enum rf_op_code code)
{
	struct rf_args *args = &t->fop.args[t->fop.count++];

	cr_assert_leq(t->fop.count, FOP_OPS_MAX);
	*args = (struct rf_args){ .code = code };
	return args;
}

/* On an open file, or on the directory and a number that nobody has. */
static uint32_t on_place(struct thread *t, unsigned int number)
{
	const struct place *place = place_of(t, number);

	t->fop.on = place->id ? place->handle : t->dir;
	return place->id ? place->id : ABSENT;
}

static void add_release(struct thread *t, const struct place *place)
{
	t->fop.on = place->handle;
	add(t, RF_OP_RELEASE)->release.open = place->id;
}

static void plan_open(struct thread *t, const struct item *it)
{
	static const uint32_t flags[] = {
		RW, RW, RF_OPEN_READ, RW | RF_OPEN_TRUNC, RW | RF_OPEN_EXCL,
		RW | RF_OPEN_SYNC,
	};
	uint32_t chosen = flags[it->c % RF_ARRAY_SIZE(flags)];
	struct rf_args *args;

	if (place_of(t, it->b)->id) {
		add_release(t, place_of(t, it->b));
	} else if (it->kind == CREATE) {
		args = add(t, RF_OP_CREATE);
		args->create.name = name_of(t, it->a);
		args->create.mode = 0644;
		args->create.flags = chosen;
		if (it->c % 11 == 0)
			args->create.flags = RW | RF_OPEN_NO_NAME;
	} else {
		args = add(t, RF_OP_LOOKUP);
		args->lookup.name = name_of(t, it->a);
		add(t, RF_OP_OPEN)->open.flags = chosen;
	}
}

static void plan_write(struct thread *t, const struct item *it)
{
	bool by_slot = it->kind == WRITE_BY_SLOT;
	uint32_t size = by_slot ? it->b % DATA_MAX + 1 : it->b % 4000 + 1;
	struct rf_write_args *write;

	spattern(t->data, size, it->c);
	write = &add(t, RF_OP_WRITE)->write;
	write->open = on_place(t, it->a);
	write->offset = it->c % FILE_MAX;
	write->data = (rf_blob_t){ t->data, size };
	if (it->kind == APPEND)
		write->flags = RF_WRITE_APPEND;
	if (it->c % 13 == 0)
		write->flags |= RF_WRITE_SYNC;
	t->fop.by_slot = by_slot;
	if (it->b % 3 == 0)
		add(t, RF_OP_GETATTR);
}

static void plan_data(struct thread *t, const struct item *it)
{
	static const uint32_t modes[] = {
		0, RF_FALLOC_KEEP_SIZE, RF_FALLOC_ZERO,
		RF_FALLOC_PUNCH | RF_FALLOC_KEEP_SIZE,
	};
	uint32_t open = on_place(t, it->a);
	const struct place *other = place_of(t, it->b);
	struct rf_args *args;

	switch (it->kind) {
	case READ:
		args = add(t, RF_OP_READ);
		args->read.open = open;
		args->read.offset = it->b % FILE_MAX;
		args->read.size = it->c % FOP_DATA_MAX + 1;
		break;
	case TRUNCATE:
		args = add(t, RF_OP_SETATTR);
		args->setattr.valid = RF_SET_SIZE;
		args->setattr.open = open;
		args->setattr.size = it->b % FILE_MAX;
		break;
	case FALLOCATE:
		args = add(t, RF_OP_FALLOCATE);
		args->fallocate.open = open;
		args->fallocate.mode = modes[it->c % RF_ARRAY_SIZE(modes)];
		args->fallocate.offset = it->b % FILE_MAX;
		args->fallocate.size = it->c % FILE_MAX + 1;
		break;
	case COPY:
		args = add(t, RF_OP_COPY);
		args->copy.open = open;
		args->copy.source = other->id ? other->handle : t->dir;
		args->copy.source_open = other->id ? other->id : ABSENT;
		args->copy.offset = it->c % FILE_MAX;
		args->copy.source_offset = it->c / 7 % FILE_MAX;
		args->copy.size = it->c / 11 % FILE_MAX;
		break;
	default:
		add(t, RF_OP_FSYNC)->fsync.open = open;
	}
}

static void plan_xattr(struct thread *t, const struct item *it)
{
	static const char *const keys[] = { "user.a", "user.b", "user.c" };
	rf_xname_t key = sname(keys[it->b % RF_ARRAY_SIZE(keys)]);
	struct rf_args *args;

	on_place(t, it->a);
	switch (it->kind) {
	case SETXATTR:
		args = add(t, RF_OP_SETXATTR);
		args->setxattr.name = key;
		args->setxattr.flags = it->c % 3;
		args->setxattr.data = (rf_blob_t){ t->data, it->c % 9000 };
		spattern(t->data, 9000, it->c);
		t->fop.by_slot = args->setxattr.data.size > 4000;
		break;
	case GETXATTR:
		args = add(t, RF_OP_GETXATTR);
		args->getxattr.name = key;
		args->getxattr.size = RF_XATTR_SIZE_MAX;
		break;
	default:
		add(t, RF_OP_REMOVEXATTR)->removexattr.name = key;
	}
}

static void plan_name(struct thread *t, const struct item *it)
{
	rf_name_t name = name_of(t, it->a);
	struct rf_args *args;

	switch (it->kind) {
	case MKDIR:
		args = add(t, RF_OP_MKDIR);
		args->mkdir.name = name;
		args->mkdir.mode = 0755;
		break;
	case RMDIR:
		add(t, RF_OP_RMDIR)->rmdir.name = name;
		break;
	case RENAME:
		args = add(t, RF_OP_RENAME);
		args->rename.name = name;
		args->rename.new_dir = t->dir;
		args->rename.new_name = other_name_of(t, it->b);
		args->rename.flags = it->c % 3;
		break;
	case LINK:
		args = add(t, RF_OP_LINK);
		args->link.dir = t->dir;
		args->link.name = name;
		on_place(t, it->b);
		break;
	case UNLINK:
		add(t, RF_OP_UNLINK)->unlink.name = name;
		break;
	case SYMLINK:
		args = add(t, RF_OP_SYMLINK);
		args->symlink.name = name;
		args->symlink.target = (rf_blob_t){ "to", 2 };
		break;
	case CHMOD:
		add(t, RF_OP_LOOKUP)->lookup.name = name;
		args = add(t, RF_OP_SETATTR);
		args->setattr.valid = RF_SET_MODE | RF_SET_UID;
		args->setattr.mode = it->b % 07777;
		args->setattr.uid = it->c % 100;
		break;
	default:
		add(t, RF_OP_LOOKUP)->lookup.name = name;
		add(t, RF_OP_GETATTR);
	}
}

/* READDIR comes after a change, so it is another message: list_next(). */
static void plan_readdir(struct thread *t)
{
	add(t, RF_OP_OPEN)->open.flags = RF_OPEN_READ | RF_OPEN_DIR;
}

/* Several operations that belong together. */
static void plan_list(struct thread *t, const struct item *it)
{
	struct rf_args *args;
	uint32_t size = it->b % 4000 + 1;

	spattern(t->data, size, it->c);
	switch (it->kind) {
	case MAKE_WHOLE:
		args = add(t, RF_OP_CREATE);
		args->create.name = name_of(t, it->a);
		args->create.mode = 0600;
		args->create.flags = RW | RF_OPEN_TRUNC;
		add(t, RF_OP_WRITE)->write.data = (rf_blob_t){ t->data, size };
		add(t, RF_OP_GETATTR);
		add(t, RF_OP_RELEASE);
		break;
	case READ_WHOLE:
		add(t, RF_OP_LOOKUP)->lookup.name = name_of(t, it->a);
		add(t, RF_OP_OPEN)->open.flags = RF_OPEN_READ;
		args = add(t, RF_OP_READ);
		args->read.size = FOP_DATA_MAX;
		args->read.offset = it->b % 1000;
		add(t, RF_OP_RELEASE);
		break;
	default:
		args = add(t, RF_OP_CREATE);
		args->create.name = sname("temporary");
		args->create.mode = 0600;
		args->create.flags = RW;
		args = add(t, RF_OP_WRITE);
		args->write.data = (rf_blob_t){ t->data, size };
		args->write.flags = RF_WRITE_APPEND;
		add(t, RF_OP_RELEASE);
		add(t, RF_OP_USE)->use.handle = t->dir;
		add(t, RF_OP_UNLINK)->unlink.name = sname("temporary");
	}
}

static void plan_log(struct thread *t)
{
	struct rf_write_args *write = &add(t, RF_OP_WRITE)->write;

	rf_store_u64(t->small, t->number);
	rf_store_u64(t->small + 8, t->records++);
	t->fop.on = t->log.handle;
	write->open = t->log.id;
	write->flags = RF_WRITE_APPEND;
	write->data = (rf_blob_t){ t->small, RECORD };
}

enum { COUNT_PARTS = 4 };
static void plan_count(struct thread *t)
{
	struct rf_args *args;

	t->fop.on = t->counter.handle;
	switch (t->part) {
	case 0:
		args = add(t, RF_OP_LOCK);
		args->lock.open = t->counter.id;
		args->lock.owner = t->number + 1;
		args->lock.flags = RF_LOCK_EXCLUSIVE | RF_LOCK_WAIT;
		args->lock.end = 7;
		break;
	case 1:
		args = add(t, RF_OP_READ);
		args->read.open = t->counter.id;
		args->read.size = 8;
		break;
	case 2:
		rf_store_u64(t->small, t->value + 1);
		args = add(t, RF_OP_WRITE);
		args->write.open = t->counter.id;
		args->write.data = (rf_blob_t){ t->small, 8 };
		break;
	default:
		args = add(t, RF_OP_UNLOCK);
		args->unlock.owner = t->number + 1;
		args->unlock.end = 7;
	}
}

static void begin_part(struct thread *t)
{
	const struct item *it = t->step;

	memset(&t->fop, 0, sizeof(t->fop));
	t->fop.on = t->dir;
	switch (it->kind) {
	case CREATE:
	case OPEN:
		plan_open(t, it);
		break;
	case RELEASE:
		add(t, RF_OP_RELEASE)->release.open = on_place(t, it->a);
		break;
	case WRITE:
	case WRITE_BY_SLOT:
	case APPEND:
		plan_write(t, it);
		break;
	case READ:
	case TRUNCATE:
	case FALLOCATE:
	case COPY:
	case FSYNC:
		plan_data(t, it);
		break;
	case SETXATTR:
	case GETXATTR:
	case REMOVEXATTR:
		plan_xattr(t, it);
		break;
	case READDIR:
		plan_readdir(t);
		break;
	case MAKE_WHOLE:
	case READ_WHOLE:
	case TEMPORARY:
		plan_list(t, it);
		break;
	case LOG:
		plan_log(t);
		break;
	case COUNT:
		plan_count(t);
		break;
	default:
		plan_name(t, it);
	}
	t->is_busy = true;
	operations += t->fop.count;
	fop_start(t->client, &t->fop);
}

static void begin_step(struct thread *t, const struct item *it)
{
	t->step = it;
	t->part = 0;
	begun++;
	begin_part(t);
}

/* What it has opened or closed by itself. */
static void note_places(struct thread *t)
{
	const struct rf_results *last = &t->fop.results[t->fop.results_count - 1];
	struct place *place;

	if (fop_status(&t->fop) != RF_ST_OK)
		return;
	if (t->step->kind == CREATE || t->step->kind == OPEN) {
		place = place_of(t, t->step->b);
		if (last->code == RF_OP_RELEASE)
			place->id = 0;
		else
			*place = (struct place){ fop_open(&t->fop)->handle,
						 fop_open(&t->fop)->id };
	} else if (t->step->kind == RELEASE) {
		place_of(t, t->step->a)->id = 0;
	}
}

static bool is_shared(const struct item *it)
{
	return it->kind == LOG || it->kind == COUNT;
}

static void check_shared(struct thread *t)
{
	cr_assert_eq(fop_status(&t->fop), RF_ST_OK, "%s: %s",
		     rf_op_name(t->fop.args[0].code),
		     rf_status_name(fop_status(&t->fop)));
	if (t->step->kind == COUNT && t->part == 1)
		t->value = rf_load_u64(t->fop.data[0]);
}

/* The listing of a directory that READDIR's step has opened. */
static bool list_next(struct thread *t)
{
	uint32_t open;

	if (t->step->kind != READDIR || t->part > 2)
		return false;
	open = t->part == 1 ? t->fop.results[0].open.open
			    : t->fop.args[0].readdir.open;
	fop_fini(&t->fop);
	t->fop.on = t->dir;
	if (t->part == 1)
		add(t, RF_OP_READDIR)->readdir = (struct rf_readdir_args){
			open, 0, 65536, t->step->a % 2 };
	else
		add(t, RF_OP_RELEASE)->release.open = open;
	fop_start(t->client, &t->fop);
	return true;
}

static void take_answer(struct thread *t)
{
	char text[FC_TEXT_SIZE];

	if (is_shared(t->step)) {
		check_shared(t);
	} else {
		fop_describe(&t->fop, &t->aliases, text);
		fprintf(t->out, "%s\n", text);
		note_places(t);
	}
	t->part++;
	if (list_next(t))
		return;
	fop_fini(&t->fop);
	t->is_busy = false;
	if (t->step->kind == COUNT && t->part < COUNT_PARTS)
		begin_part(t);
	else if (t->step->kind == COUNT)
		t->additions++;
}

/* ---- faults ------------------------------------------------------------- */

static bool has_committed(struct srig *it)
{
	struct store_stats stats;

	store_stats(it->server->store, &stats);
	return stats.commits > commits_before;
}

static void restart(void)
{
	srig_kill(&rig);
	srig_start(&rig);
}

static void kill_at_commit(void)
{
	struct store_stats stats;

	store_stats(rig.server->store, &stats);
	commits_before = stats.commits;
	rig.dies_if = has_committed;
}

static void duplicate_any(unsigned int from)
{
	for (unsigned int i = 0; i < THREADS; i++) {
		struct thread *t = &threads[(from + i) % THREADS];

		if (t->is_busy && fop_duplicate(&t->fop))
			return;
	}
}

static void strike(const struct item *it)
{
	strikes++;
	switch (it->kind) {
	case CUT_ALL:
		rf_loop_cut(rig.world, NULL, NULL, RF_LOOP_CUT_RESET);
		break;
	case CUT_ONE:
		rf_loop_cut_any(rig.world, RF_LOOP_CUT_RESET);
		break;
	case CUT_SILENTLY:
		rf_loop_cut_any(rig.world, RF_LOOP_CUT_SILENT);
		break;
	case PARTITION:
		rf_loop_partition(rig.world, NULL, NULL);
		heal_at_ns = rf_loop_now_ns(rig.world) +
			     it->b % 8000 * UINT64_C(1000000);
		break;
	case DELAY:
		rf_loop_delay(rig.world, NULL, NULL, it->b % 1000000);
		heal_at_ns = rf_loop_now_ns(rig.world) + 10000000;
		break;
	case DUPLICATE:
		duplicate_any(it->b);
		break;
	case KILL:
		restart();
		break;
	case KILL_UNWRITTEN:
		kill_at_commit();
		break;
	case KILL_TWICE:
		restart();
		kill_again_in = 1 + it->b % 60;
		break;
	default:
		srig_stop(&rig);
		srig_start(&rig);
	}
}

static void heal(void)
{
	rf_loop_heal(rig.world);
	heal_at_ns = 0;
}

/* Strikes that are due wait for their number of turns. */
struct pending {
	const struct item *item;
	unsigned int turns;
};
static struct pending pending[ITEMS_MAX];
static unsigned int pending_count;
static bool was_seen[ITEMS_MAX];

static void look_for_strikes(void)
{
	for (unsigned int i = 0; i < plan->count; i++) {
		const struct item *it = &plan->items[i];

		if (!it->is_strike || was_seen[i] || it->thread >= begun)
			continue;
		was_seen[i] = true;
		pending[pending_count++] = (struct pending){ it, it->a };
	}
	for (unsigned int i = 0; i < pending_count;) {
		if (pending[i].turns-- > 0) {
			i++;
			continue;
		}
		strike(pending[i].item);
		pending[i] = pending[--pending_count];
	}
}

static void trouble(void)
{
	if (!has_faults)
		return;
	look_for_strikes();
	if (rig.is_dying)
		restart();
	if (kill_again_in && --kill_again_in == 0)
		restart();
	if (heal_at_ns && rf_loop_now_ns(rig.world) >= heal_at_ns)
		heal();
}

/* ---- a whole run -------------------------------------------------------- */

static void turn(void)
{
	bool goes_on = srig_turn(&rig);

	step_all();
	trouble();
	if (!goes_on && heal_at_ns)
		heal();
	still_turns = goes_on ? 0 : still_turns + 1;
	cr_assert_lt(still_turns, STILL_TURNS, "nothing is left to happen");
	cr_assert_lt(rf_loop_now_ns(rig.world), HOURS, "it goes on for ever");
}

static struct place open_shared(struct fclient *client, const char *name)
{
	struct fop fop = { .on = client->base.root, .count = 1, .args = { {
		.code = RF_OP_CREATE,
		.create = { sname(name), 0644, RW, 0 } } } };
	struct place place;

	cr_assert_eq(fclient_run(client, &fop), RF_ST_OK);
	place = (struct place){ fop_handle(&fop),
				fop.results[0].create.open };
	fop_fini(&fop);
	return place;
}

static void open_thread(unsigned int number)
{
	static const uint8_t zero[8];
	struct thread *t = &threads[number];
	char name[8];
	struct fop fop = { .count = 1 };

	memset(t, 0, sizeof(*t));
	t->number = number;
	t->client = &clients[number % CLIENTS];
	t->data = malloc(DATA_MAX + 1);
	t->out = open_memstream(&t->text, &t->text_size);
	snprintf(name, sizeof(name), "t%u", number);
	fop.on = t->client->base.root;
	fop.args[0] = (struct rf_args){ .code = RF_OP_MKDIR,
					.mkdir = { sname(name), 0755, 0 } };
	cr_assert_eq(fclient_run(t->client, &fop), RF_ST_OK);
	t->dir = fop_handle(&fop);
	fop_fini(&fop);
	t->log = open_shared(t->client, "log");
	t->counter = open_shared(t->client, "counter");
	fop = (struct fop){ .on = t->counter.handle, .count = 1, .args = { {
		.code = RF_OP_WRITE,
		.write = { .open = t->counter.id, .data = { zero, 8 } } } } };
	cr_assert_eq(fclient_run(t->client, &fop), RF_ST_OK);
	fop_fini(&fop);
}

static const struct item *next_step(struct thread *t)
{
	while (t->at < plan->count) {
		const struct item *it = &plan->items[t->at++];

		if (!it->is_strike && it->thread == t->number)
			return it;
	}
	return NULL;
}

static bool any_is_busy(void)
{
	for (unsigned int i = 0; i < THREADS; i++)
		if (threads[i].is_busy)
			return true;
	return false;
}

static void take_answers(void)
{
	for (unsigned int i = 0; i < THREADS; i++)
		while (threads[i].is_busy && fop_is_done(&threads[i].fop))
			take_answer(&threads[i]);
}

static void begin_idle(void)
{
	for (unsigned int i = 0; i < THREADS; i++) {
		const struct item *it;

		if (!threads[i].is_busy && (it = next_step(&threads[i])))
			begin_step(&threads[i], it);
	}
}

static void wait_all(void)
{
	while (any_is_busy()) {
		turn();
		take_answers();
	}
}

static void run_serially(void)
{
	for (unsigned int i = 0; i < plan->count; i++) {
		const struct item *it = &plan->items[i];

		if (it->is_strike)
			continue;
		begin_step(&threads[it->thread], it);
		wait_all();
	}
}

static void run_at_once(void)
{
	begin_idle();
	while (any_is_busy()) {
		turn();
		take_answers();
		begin_idle();
	}
	/* What is still to come, comes while nothing is asked. */
	has_faults = false;
	heal();
	rig.dies_if = NULL;
	if (rig.is_dying)
		restart();
	while (is_away())
		turn();
}

static uint64_t size_of(const struct place *place)
{
	struct fop fop = { .on = place->handle, .count = 1,
			   .args = { { .code = RF_OP_GETATTR } } };
	uint64_t size;

	cr_assert_eq(fclient_run(&clients[0], &fop), RF_ST_OK);
	size = fop.results[0].getattr.attr.size;
	fop_fini(&fop);
	return size;
}

/* Each record once, those of a thread in their order. */
static void check_log(void)
{
	uint64_t next[THREADS] = { 0 }, wanted = 0;
	const struct place *log = &threads[0].log;
	struct fop fop = { .on = log->handle, .count = 1, .args = { {
		.code = RF_OP_READ,
		.read = { log->id, 0, FOP_DATA_MAX } } } };

	for (unsigned int i = 0; i < THREADS; i++)
		wanted += threads[i].records;
	cr_assert_eq(size_of(log), wanted * RECORD, "%llu records, %llu bytes",
		     (unsigned long long)wanted,
		     (unsigned long long)size_of(log));
	cr_assert_eq(fclient_run(&clients[0], &fop), RF_ST_OK);
	for (uint64_t i = 0; i < wanted; i++) {
		const uint8_t *at = fop.data[0] + i * RECORD;
		uint64_t thread = rf_load_u64(at);

		cr_assert_lt(thread, THREADS);
		cr_assert_eq(rf_load_u64(at + 8), next[thread]++,
			     "record %llu of the log", (unsigned long long)i);
	}
	fop_fini(&fop);
}

static void check_counter(void)
{
	const struct place *counter = &threads[0].counter;
	struct fop fop = { .on = counter->handle, .count = 1, .args = { {
		.code = RF_OP_READ, .read = { counter->id, 0, 8 } } } };
	uint64_t wanted = 0;

	for (unsigned int i = 0; i < THREADS; i++)
		wanted += threads[i].additions;
	cr_assert_eq(fclient_run(&clients[0], &fop), RF_ST_OK);
	cr_assert_eq(rf_load_u64(fop.data[0]), wanted);
	fop_fini(&fop);
}

static void release(struct fclient *client, const struct place *place)
{
	struct fop fop = { .on = place->handle, .count = 1, .args = { {
		.code = RF_OP_RELEASE, .release = { place->id } } } };

	if (place->id == 0)
		return;
	cr_assert_eq(fclient_run(client, &fop), RF_ST_OK);
	fop_fini(&fop);
}

static void close_thread(struct thread *t)
{
	for (unsigned int i = 0; i < OPENS; i++)
		release(t->client, &t->opens[i]);
	release(t->client, &t->log);
	release(t->client, &t->counter);
	free(t->data);
}

/* What lists have opened that failed before their RELEASE. */
static void close_rest(struct fclient *client)
{
	for (unsigned int i = 0; i < FC_OPENS_MAX; i++) {
		const struct place place = { client->opens[i].handle,
					     client->opens[i].id };

		release(client, &place);
	}
}

/* The end of a run: what the threads were told, and what there is. */
static char *collect(void)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	check_log();
	check_counter();
	for (unsigned int i = 0; i < THREADS; i++) {
		struct thread *t = &threads[i];

		fclose(t->out);
		fprintf(out, "thread %u\n%s", i, t->text);
		free(t->text);
		fclient_walk(&clients[0], &t->dir, &t->aliases, out);
		close_thread(t);
	}
	for (unsigned int i = 0; i < CLIENTS; i++)
		close_rest(&clients[i]);
	fclose(out);
	return text;
}

static char *run_plan(bool with_faults)
{
	struct store_stats stats;
	char *text;

	srig_open(&rig, "loop-virtual");
	rf_loop_set_seed(rig.world, plan->seed);
	begun = pending_count = kill_again_in = 0;
	heal_at_ns = 0;
	memset(was_seen, 0, sizeof(was_seen));
	for (unsigned int i = 0; i < CLIENTS; i++)
		fclient_open(&rig, &clients[i]);
	for (unsigned int i = 0; i < THREADS; i++)
		open_thread(i);
	has_faults = with_faults;
	if (with_faults)
		run_at_once();
	else
		run_serially();
	text = collect();
	store_stats(rig.server->store, &stats);
	cr_assert_eq(stats.orphans, 0, "files without a name stay");
	for (unsigned int i = 0; i < CLIENTS; i++)
		fclient_close(&clients[i]);
	srig_close(&rig);
	return text;
}

/* The first line in which they differ. */
static void compare(const char *got, const char *want)
{
	const char *g = got, *w = want;
	unsigned int line = 1;

	while (*g && *g == *w) {
		line += *g == '\n';
		g++;
		w++;
	}
	if (*g == *w)
		return;
	while (g > got && g[-1] != '\n') {
		g--;
		w--;
	}
	cr_assert_fail("line %u: %.*s\nwithout faults: %.*s", line,
		       (int)strcspn(g, "\n"), g, (int)strcspn(w, "\n"), w);
}

static void try_plan(void)
{
	char *want = run_plan(false), *got;
	unsigned int serial = operations;

	got = run_plan(true);
	compare(got, want);
	printf("%u operations, %u faults, %u kills\n", operations - serial,
	       strikes, rig.kills);
	free(got);
	free(want);
}

/* ---- in processes of their own ------------------------------------------ */

static void run_self(const char *path, int log)
{
	char self[4096], seconds[16];
	ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (size < 0)
		_exit(127);
	self[size] = '\0';
	snprintf(seconds, sizeof(seconds), "%u", PLAN_SECONDS);
	setenv("RF_PLAN", path, 1);
	unsetenv("BXFI_MAP");	/* else it takes itself for one of our tests */
	dup2(log, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	execlp("timeout", "timeout", "-k", "5", seconds, self, "--filter",
	       "server_random_faults/*", NULL);
	_exit(127);
}

/* True if it fails in any way; what it says is left in log. */
static bool plan_fails(const struct plan *it, const char *path,
		       const char *log)
{
	int status, fd = open(log, O_CREAT | O_TRUNC | O_WRONLY, 0600);
	FILE *out = fopen(path, "w");
	pid_t pid;

	cr_assert_not_null(out);
	write_plan(it, out);
	fclose(out);
	pid = fork();
	if (pid == 0)
		run_self(path, fd);
	close(fd);
	cr_assert_gt(pid, 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return status != 0;
}

/* Leave out what it fails without. */
static void shrink(struct plan *it, const char *path, const char *log)
{
	static struct plan shorter;
	unsigned int tries = 0;

	for (unsigned int size = it->count / 2; size > 0; size /= 2) {
		for (unsigned int at = 0;
		     at < it->count && tries++ < SHRINKS_MAX;) {
			unsigned int end = (unsigned int)
				rf_min_u64(at + size, it->count);

			shorter = *it;
			memmove(&shorter.items[at], &shorter.items[end],
				(shorter.count - end) *
				sizeof(shorter.items[0]));
			shorter.count -= end - at;
			if (plan_fails(&shorter, path, log))
				*it = shorter;
			else
				at += size;
		}
	}
}

static void print_file(const char *path)
{
	FILE *in = fopen(path, "r");
	char line[4096];

	while (in && fgets(line, sizeof(line), in))
		fputs(line, stdout);
	if (in)
		fclose(in);
}

static void try_plans(void)
{
	/* The same few each time, unless LONG is set: what is new is for who looks. */
	unsigned int seed = wire_number("RF_SEED", getenv("LONG") ?
				      (unsigned int)time(NULL) : SEED);
	unsigned int count = wire_number("RF_PLANS", getenv("LONG") ? PLANS_LONG
							      : PLANS);
	char dir[] = "/tmp/rdmafs-plans-XXXXXX", path[64], log[64];
	static struct plan made;

	cr_assert_not_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/plan", dir);
	snprintf(log, sizeof(log), "%s/log", dir);
	for (unsigned int i = 0; i < count; i++) {
		printf("RF_SEED=%u\n", seed + i);
		fflush(stdout);
		srand(seed + i);
		make_plan(&made, seed + i);
		if (!plan_fails(&made, path, log)) {
			print_file(log);
			continue;
		}
		print_file(log);
		shrink(&made, path, log);
		cr_assert(plan_fails(&made, path, log), "it fails now and then "
			  "only: RF_SEED=%u", seed + i);
		print_file(log);
		write_plan(&made, stdout);
		fflush(stdout);
		cr_assert_fail("RF_SEED=%u fails; RF_PLAN=%s is short", seed + i,
			       path);
	}
	unlink(path);
	unlink(log);
	rmdir(dir);
}

Test(server_random_faults, what_several_clients_do_is_done_once)
{
	static struct plan given;
	const char *path = getenv("RF_PLAN");

	if (!path) {
		try_plans();
		return;
	}
	read_plan(&given, path);
	plan = &given;
	try_plan();
}

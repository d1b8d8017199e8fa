/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_crash.c - the daemon of a mount dies between any two of its stores to the
 * memory that outlives it (keep.h), and another goes on from there
 *
 * The kernel is this test (kernel_rig.h).  The kept memory can't be written to; each
 * store faults, is counted, and is then let through as a single step.  At the one
 * that was chosen the daemon is killed by SIGKILL.
 *
 * A scene is played with a daemon that dies at store 1, 2, 3, ... of it, until one
 * lives to its end: at each the same must come out as without a death.  LONG=1 tries
 * all of them, else STRIDE apart, beginning with another one each time.
 */
#include "tests/common/kernel_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__x86_64__)

enum {
	STRIDE = 29,
	TRAP_FLAG = 0x100,		/* of the processor: one instruction */
};

static unsigned int seed, scene_number;

/* ---- stores ---------------------------------------------------------------- */

/* Of the daemon: where the kept memory is, and how it is told when to die. */
static struct keep *kept;

/* Shared by test and daemon. */
static struct {
	unsigned int count;		/* stores since is_armed */
	unsigned int dies_at;		/* 0: never */
	bool is_armed;
} *plan;

static void stored(int number, siginfo_t *info, void *context)
{
	ucontext_t *at = context;
	uint8_t *address = info->si_addr;

	if (address < (uint8_t *)kept || address >= (uint8_t *)(kept + 1)) {
		signal(number, SIG_DFL);
		return;
	}
	if (plan->is_armed && ++plan->count == plan->dies_at)
		kill(getpid(), SIGKILL);
	mprotect(kept, sizeof(*kept), PROT_READ | PROT_WRITE);
	at->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void stepped(int number, siginfo_t *info, void *context)
{
	ucontext_t *at = context;

	(void)number;
	(void)info;
	mprotect(kept, sizeof(*kept), PROT_READ);
	at->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static void count_stores(struct keep *keep)
{
	struct sigaction action = { .sa_flags = SA_SIGINFO };

	kept = keep;
	action.sa_sigaction = stored;
	sigaction(SIGSEGV, &action, NULL);
	action.sa_sigaction = stepped;
	sigaction(SIGTRAP, &action, NULL);
	mprotect(kept, sizeof(*kept), PROT_READ);
}

static void stop_counting(void)
{
	plan->is_armed = false;
}

/* The next one dies, too, if it is to, and then no other. */
static void plan_next_death(void)
{
	plan->dies_at = plan->dies_at && krig.deaths == 1 && seed % 3 == 0 ?
				1 + seed % 40 : 0;
	plan->count = 0;
}

static void setup(void)
{
	krig_open(&(struct krig_events){
		.mapped = count_stores,
		.left = stop_counting,
		.died = plan_next_death,
	});
}

TestSuite(client_crash, .init = setup, .fini = krig_close, .timeout = 3600);

/* ---- scenes ------------------------------------------------------------------ */

static char folder[32];
static uint64_t folder_id;

/* As somebody else, where we may be anybody. */
static void be_another(uint32_t id)
{
	if (getuid() == 0)
		krig.asker = id;
}

/*
 * Names, each of which would fail if it were made, moved or removed twice; and what
 * one user makes is not another's.
 */
static void names(void)
{
	const struct fuse_setattr_in open_to_all = {
		.valid = FATTR_MODE, .mode = S_IFDIR | 0777,
	};
	const struct fuse_rename2_in no_replace = {
		.newdir = folder_id, .flags = 1,
	};
	const struct fuse_setattr_in setattr = {
		.valid = FATTR_MODE, .mode = S_IFREG | 0600,
	};
	struct fuse_link_in link = { 0 };
	struct fuse_entry_out made;
	uint64_t file, fh;
	struct fuse_attr attr;

	OK(krig_begin(FUSE_SETATTR, folder_id, PART(open_to_all), NO_MORE));
	be_another(1001);
	made = krig_mkdir(folder_id, "made");
	cr_assert_eq(made.attr.uid, krig.asker, "seed %u: of %u", seed,
		     made.attr.uid);
	be_another(1002);
	fh = krig_create(folder_id, "file", 0, &file);
	cr_assert_eq(krig_attr(file).uid, krig.asker, "seed %u: of %u", seed,
		     krig_attr(file).uid);
	be_another(1001);
	OK(krig_begin(FUSE_SYMLINK, folder_id, NAME("link"), NAME("target"),
		 NO_MORE));
	EXPECT(getuid() ? 0 : -EPERM, krig_begin(FUSE_SETATTR, file, PART(setattr), NO_MORE), NULL,
	       0);
	be_another(1002);
	link.oldnodeid = file;
	OK(krig_begin(FUSE_LINK, folder_id, PART(link), NAME("second"), NO_MORE));
	OK(krig_begin(FUSE_RENAME2, folder_id, PART(no_replace), NAME("file"),
		 NAME("moved"), NO_MORE));
	OK(krig_begin(FUSE_SETATTR, file, PART(setattr), NO_MORE));
	be_another(0);
	OK(krig_begin(FUSE_UNLINK, folder_id, NAME("second"), NO_MORE));
	OK(krig_begin(FUSE_RMDIR, folder_id, NAME("made"), NO_MORE));
	krig_forget(made.nodeid);
	krig_release(file, fh);
	krig_look_up(folder_id, "file", -ENOENT);
	krig_look_up(folder_id, "made", -ENOENT);
	cr_assert_eq(krig_look_up(folder_id, "moved", 0).nodeid, file,
		     "seed %u: another file", seed);
	attr = krig_attr(file);
	cr_assert(attr.nlink == 1 && (attr.mode & 07777) == 0600,
		  "seed %u: %u links, mode %o", seed, attr.nlink, attr.mode);
	OK(krig_begin(FUSE_UNLINK, folder_id, NAME("moved"), NO_MORE));
	OK(krig_begin(FUSE_UNLINK, folder_id, NAME("link"), NO_MORE));
}

/* Lists, each of which tells of all again. */
static void lists(void)
{
	struct fuse_entry_out some[5];
	char name[8];

	for (unsigned int i = 0; i < RF_ARRAY_SIZE(some); i++) {
		snprintf(name, sizeof(name), "%u", i);
		some[i] = krig_mkdir(folder_id, name);
	}
	for (unsigned int i = 0; i < 3; i++)
		cr_assert_eq(krig_list(folder_id), RF_ARRAY_SIZE(some),
			     "seed %u: another list", seed);
	for (unsigned int i = 0; i < RF_ARRAY_SIZE(some); i++) {
		snprintf(name, sizeof(name), "%u", i);
		/* It is told of once and thrice; one stays. */
		for (unsigned int times = 0; i > 0 && times < 4; times++)
			krig_forget(some[i].nodeid);
		OK(krig_begin(FUSE_RMDIR, folder_id, NAME(name), NO_MORE));
	}
}

static uint8_t data[KRIG_DATA_SIZE], seen[KRIG_DATA_SIZE];

static void append(uint64_t nodeid, uint64_t fh, const uint8_t *bytes,
		   uint32_t size)
{
	const struct fuse_write_in write = {
		.fh = fh, .size = size, .flags = O_RDWR | O_APPEND,
	};
	struct fuse_write_out out;

	OK_WITH(krig_begin(FUSE_WRITE, nodeid, PART(write), bytes, (size_t)size,
		      NO_MORE), out);
	cr_assert_eq(out.size, size, "seed %u: %u written", seed, out.size);
}

/* Appends inside a message, by a slot, and in parts: none twice, none lost. */
static void writes(void)
{
	const uint32_t sizes[] = { 1000, 20000, KRIG_DATA_SIZE - 21000 };
	struct fuse_read_in read = { .size = KRIG_DATA_SIZE };
	uint64_t file, fh = krig_create(folder_id, "appended", O_APPEND, &file);
	const uint8_t *at = data;

	for (unsigned int i = 0; i < RF_ARRAY_SIZE(sizes); i++) {
		append(file, fh, at, sizes[i]);
		at += sizes[i];
	}
	cr_assert_eq(krig_attr(file).size, KRIG_DATA_SIZE, "seed %u: %llu bytes",
		     seed, (unsigned long long)krig_attr(file).size);
	/* Also without a name. */
	OK(krig_begin(FUSE_UNLINK, folder_id, NAME("appended"), NO_MORE));
	read.fh = fh;
	OK_WITH(krig_begin(FUSE_READ, file, PART(read), NO_MORE), seen);
	cr_assert_arr_eq(data, seen, KRIG_DATA_SIZE, "seed %u: other bytes", seed);
	krig_release(file, fh);
	krig_forget(file);
}

/* A lock that is held, and one that waits for it. */
static void locks(void)
{
	uint64_t file, fh = krig_create(folder_id, "locked", 0, &file);
	struct fuse_lk_out out;
	struct asked *waiter;

	OK(krig_lock(FUSE_SETLK, file, fh, 1, F_WRLCK));
	waiter = krig_lock(FUSE_SETLKW, file, fh, 2, F_WRLCK);
	EXPECT(-EAGAIN, krig_lock(FUSE_SETLK, file, fh, 3, F_RDLCK), NULL, 0);
	cr_assert(!waiter->is_replied, "seed %u: a wait has ended", seed);
	OK(krig_lock(FUSE_SETLK, file, fh, 1, F_UNLCK));
	OK(waiter);
	OK_WITH(krig_lock(FUSE_GETLK, file, fh, 3, F_WRLCK), out);
	cr_assert(out.lk.type == F_WRLCK && out.lk.pid == 2,
		  "seed %u: held by %u", seed, out.lk.pid);
	OK(krig_lock(FUSE_SETLK, file, fh, 2, F_UNLCK));
	OK_WITH(krig_lock(FUSE_GETLK, file, fh, 3, F_WRLCK), out);
	cr_assert_eq(out.lk.type, F_UNLCK, "seed %u: a lock is left", seed);
	krig_release(file, fh);
	OK(krig_begin(FUSE_UNLINK, folder_id, NAME("locked"), NO_MORE));
	krig_forget(file);
}

static struct asked *lock_range(uint32_t opcode, uint64_t nodeid, uint64_t fh,
				uint64_t owner, uint32_t type, uint64_t start,
				uint64_t end)
{
	const struct fuse_lk_in args = {
		.fh = fh, .owner = owner,
		.lk = { .start = start, .end = end, .type = type,
			.pid = (uint32_t)owner },
	};

	return krig_begin(opcode, nodeid, PART(args), NO_MORE);
}

static void found(uint64_t file, uint64_t fh, uint64_t start, uint64_t end,
		  uint32_t type)
{
	struct fuse_lk_out out;

	OK_WITH(lock_range(FUSE_GETLK, file, fh, 2, F_WRLCK, start, end), out);
	cr_assert_eq(out.lk.type, type, "seed %u: type %u from %llu to %llu, "
		     "not %u", seed, out.lk.type,
		     (unsigned long long)out.lk.start,
		     (unsigned long long)out.lk.end, type);
}

/*
 * A lock of which the middle becomes another; and close() ends all of it, though the
 * file stays open.
 */
static void ranges(void)
{
	static const uint32_t middles[] = { F_UNLCK, F_RDLCK };
	uint64_t file, fh = krig_create(folder_id, "ranges", 0, &file);
	const struct fuse_flush_in flush = { .fh = fh, .lock_owner = 1 };

	for (unsigned int i = 0; i < RF_ARRAY_SIZE(middles); i++) {
		OK(lock_range(FUSE_SETLK, file, fh, 1, F_WRLCK, 0, 99));
		OK(lock_range(FUSE_SETLK, file, fh, 1, middles[i], 40, 59));
		found(file, fh, 0, 39, F_WRLCK);
		found(file, fh, 40, 59, middles[i]);
		found(file, fh, 60, 99, F_WRLCK);
		found(file, fh, 100, INT64_MAX, F_UNLCK);
		OK(krig_begin(FUSE_FLUSH, file, PART(flush), NO_MORE));
		found(file, fh, 0, INT64_MAX, F_UNLCK);
	}
	krig_release(file, fh);
	OK(krig_begin(FUSE_UNLINK, folder_id, NAME("ranges"), NO_MORE));
	krig_forget(file);
}

/* How many stores it took, if the daemon lived; else 0. */
static unsigned int play(void (*scene)(void), unsigned int dies_at)
{
	unsigned int count;

	snprintf(krig.label, sizeof(krig.label), "seed %u", dies_at);
	krig_mount(NULL);
	snprintf(folder, sizeof(folder), "scene.%u", scene_number++);
	folder_id = krig_mkdir(FUSE_ROOT_ID, folder).nodeid;
	plan->count = 0;
	plan->dies_at = dies_at;
	plan->is_armed = true;
	scene();
	count = krig.deaths ? 0 : plan->count;
	krig_nothing_is_kept();
	OK(krig_begin(FUSE_RMDIR, FUSE_ROOT_ID, NAME(folder), NO_MORE));
	plan->is_armed = false;
	krig_unmount();
	return count;
}

static void play_all(void (*scene)(void))
{
	unsigned int stride = getenv("LONG") ? 1 : STRIDE, points = 0, count;
	const char *given = getenv("RF_SEED");
	unsigned int first;

	plan = mmap(NULL, sizeof(*plan), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 255);
	if (given) {
		seed = (unsigned int)atoi(given);
		play(scene, seed);
		return;
	}
	count = play(scene, 0);
	first = 1 + (unsigned int)getpid() % stride;
	for (seed = first; seed <= count; seed += stride, points++)
		play(scene, seed);
	cr_log_info("%u stores, a death at %u of them", count, points);
	cr_assert(points > 0);
}

Test(client_crash, names_are_made_moved_and_removed_once)
{
	play_all(names);
}

Test(client_crash, lookups_are_counted_once)
{
	play_all(lists);
}

Test(client_crash, appends_land_once)
{
	play_all(writes);
}

Test(client_crash, locks_of_ranges_stay_and_end)
{
	play_all(ranges);
}

Test(client_crash, locks_and_waits_go_on)
{
	play_all(locks);
}

#else

Test(client_crash, between_any_two_stores)
{
	cr_skip_test("SKIPPED: needs an x86-64 processor to stop at each store");
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_states.c - the connection, the server or the daemon ends while a request of
 * a mount is in this state, for each state that one can be in; and again, while the
 * mount is on its way back
 *
 * The kernel is this test (kernel_rig.h).  Many requests are under way at once, such
 * that all states come; after each turn of the daemon's reactor it looks whether
 * some request is in the state that is wanted, and then the fault comes.  All answers
 * and all that is left must be what they would have been without it.
 *
 * The connection is cut where a network would: under the daemon's socket.
 */
#include "libproto/rpc_impl.h"
#include "tests/common/jumping_clock.h"
#include "tests/common/kernel_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(client_states, .fini = krig_close, .timeout = 580);

enum {
	SIZE = KRIG_DATA_SIZE,
	/* As many as take all large buffers, but whose replies the sockets hold. */
	READS = 14,
	READ_SIZE = 12000,		/* by grants */
	WRITES = 6,			/* more than there are slots */
	WRITTEN = 60000,
	APPENDED = 90000,
	LOSSES_MAX = 60,
	TRIES = 20,
};

/* ---- what comes, and when ---------------------------------------------------- */

enum fault { NONE, CUT, DROP, KILL, DIE, JUMP, FAULTS };

static const char *const fault_names[FAULTS] = {
	"nothing", "the connection is cut", "the connection is dropped",
	"the server is killed", "the daemon is killed", "the clock jumps",
};

/* On the way back. */
enum stage {
	NO_STAGE,
	CONNECTS,
	SAYS_RESUME,
	IS_RESUMED,
	TELLS_IDENTITIES,
	RECLAIMS_OPENS,
	RECLAIMS_LOCKS,
	ASKS_FOR_LOCKS,
	SENDS_AGAIN,
	ENDS_RECLAIM,
	STAGES,
};

static const char *const stage_names[STAGES] = {
	"", "it connects", "RESUME was said", "it is resumed",
	"identities are told", "opens are reclaimed", "locks are reclaimed",
	"locks are asked for", "all is sent again", "RECLAIM_DONE was said",
};

/* Shared by test and daemons. */
static struct plan {
	bool is_armed;
	enum request_state wanted;
	enum fault fault;
	unsigned int turn;		/* not 0: at this one, in any state */
	enum stage stage;		/* of the second fault: CUT, or DIE */
	bool leaves;			/* at BYE, instead */
	bool is_noted;			/* the answer of one that is wanted */
	pid_t server;
	/* what has been */
	unsigned int turns, strikes;
	unsigned int cuts;		/* on the way to PAUSED and LOCKS */
	bool was_lost;			/* the daemon has seen that, for LOCKS */
} *plan;

/* ---- in the daemon -------------------------------------------------------------- */

static struct fs *fs;
static struct rf_hook hook;

/* Its only connection, or attempt at one, of TCP. */
static void cut(void)
{
	for (int fd = 3; fd < 256; fd++) {
		struct sockaddr_storage address;
		socklen_t size = sizeof(address);

		if (getsockname(fd, (struct sockaddr *)&address, &size) == 0 &&
		    address.ss_family == AF_INET)
			shutdown(fd, SHUT_RDWR);
	}
}

static void strike(enum fault fault)
{
	plan->strikes++;
	switch (fault) {
	case CUT:
		cut();
		break;
	case DROP:
		rf_client_drop(fs->client, -ECONNRESET, "a test");
		break;
	case KILL:
		kill(plan->server, SIGKILL);
		break;
	case DIE:
		kill(getpid(), SIGKILL);
		break;
	case JUMP:
		/* It was suspended, and somebody has set the time. */
		boot_jump_s += 3600;
		day_jump_s -= 100000000;
		break;
	default:
		break;
	}
}

static bool is_in(enum request_state state)
{
	for (unsigned int i = 0; i < REQUESTS_TOTAL; i++)
		if (fs->requests[i].state == state)
			return true;
	return false;
}

static bool has_noted_answer(void)
{
	for (unsigned int i = 0; i < KEEP_REQUESTS; i++)
		if (fs->keep->requests[i].unique &&
		    fs->keep->requests[i].reply_size > 0)
			return true;
	return false;
}

static bool is_at(enum stage stage)
{
	enum reclaim_phase phase = fs->reclaim.phase;

	switch (stage) {
	case CONNECTS:
		return fs->client->state == RF_CLIENT_CONNECTING;
	case SAYS_RESUME:
		return fs->client->state == RF_CLIENT_HELLO;
	case IS_RESUMED:
		return fs->client->state == RF_CLIENT_RESUMED;
	case TELLS_IDENTITIES:
		return phase == RECLAIM_IDENTITIES;
	case RECLAIMS_OPENS:
		return phase == RECLAIM_OPENS;
	case RECLAIMS_LOCKS:
		return phase == RECLAIM_LOCKS;
	case ASKS_FOR_LOCKS:
		return phase == RECLAIM_WAITS;
	case SENDS_AGAIN:
		return phase == RECLAIM_RESENT;
	case ENDS_RECLAIM:
		return phase == RECLAIM_END;
	default:
		return false;
	}
}

/*
 * Data that are lost again and again come to PAUSED; and while there is no connection
 * somebody who waits for a lock gets a signal, which comes to LOCKS: leave_orphan().
 */
static bool is_wanted(void)
{
	if (plan->turn)
		return plan->turns == plan->turn;
	if (plan->leaves)
		return fs->client &&
		       fs->client->state == RF_CLIENT_LEAVING;
	if (plan->wanted == REQUEST_PAUSED && !fs->is_away &&
	    is_in(REQUEST_PULLING) && plan->cuts < LOSSES_MAX) {
		plan->cuts++;
		cut();
		return false;
	}
	if (plan->wanted == REQUEST_LOCKS && fs->parked > 0 &&
	    plan->cuts == 0) {
		plan->cuts++;
		cut();
		return false;
	}
	plan->was_lost |= plan->cuts > 0 && fs->is_away;
	return is_in(plan->wanted) &&
	       fs->client->state >= RF_CLIENT_RESUMED &&
	       (!plan->is_noted || has_noted_answer());
}

static void look(struct rf_hook *it)
{
	if (plan->leaves && !fs->client)
		rf_hook_remove(fs->reactor, it);
	if (!plan->is_armed || !fs->client)
		return;
	plan->turns++;
	if (plan->strikes == 0 && is_wanted())
		strike(plan->fault);
	else if (plan->strikes == 1 && fs->client && is_at(plan->stage) &&
		 (fs->is_away || plan->stage >= SENDS_AGAIN))
		strike(CUT);
}

static void serves(struct fs *it)
{
	fs = it;
	hook.run = look;
	rf_hook_add(fs->reactor, &hook);
}

static void left(void)
{
	if (!plan->leaves)
		rf_hook_remove(fs->reactor, &hook);
}

/* ---- in the test ------------------------------------------------------------------ */

static void server_died(void)
{
	plan->server = krig.server;
}

static void daemon_died(void)
{
}

static uint8_t bytes[SIZE], seen[SIZE];

static void setup(void)
{
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + i / 255);
	krig_open(&(struct krig_events){
		.serves = serves,
		.left = left,
		.died = daemon_died,
		.server_died = server_died,
	});
	plan = mmap(NULL, sizeof(*plan), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static uint64_t folder, big, big_fh, direct_fh, log_file, log_fh, locked,
	locked_fh;
static unsigned int scenes;

static struct asked *ask_write(uint64_t nodeid, uint64_t fh, uint64_t offset,
			       const uint8_t *data, uint32_t size,
			       uint32_t flags)
{
	const struct fuse_write_in write = {
		.fh = fh, .offset = offset, .size = size, .flags = flags,
	};

	return krig_begin(FUSE_WRITE, nodeid, PART(write), data, (size_t)size,
			  NO_MORE);
}

static void written(struct asked *asked, uint32_t size)
{
	struct fuse_write_out out;

	OK_WITH(asked, out);
	cr_assert_eq(out.size, size, "%s: %u written", krig.label, out.size);
}

/* There is less. */
static struct asked *ask_read(uint64_t nodeid, uint64_t fh, uint64_t offset)
{
	const struct fuse_read_in read = {
		.fh = fh, .offset = offset, .size = SIZE,
	};

	return krig_begin(FUSE_READ, nodeid, PART(read), NO_MORE);
}

static uint64_t ask_open(uint64_t nodeid, uint32_t flags)
{
	const struct fuse_open_in open = { .flags = flags };
	struct fuse_open_out out;

	OK_WITH(krig_begin(FUSE_OPEN, nodeid, PART(open), NO_MORE), out);
	return out.fh;
}

static void set_scene(void)
{
	char name[32];

	snprintf(name, sizeof(name), "scene.%u", scenes++);
	folder = krig_mkdir(FUSE_ROOT_ID, name).nodeid;
	big_fh = krig_create(folder, "big", 0, &big);
	written(ask_write(big, big_fh, 0, bytes, SIZE, O_RDWR), SIZE);
	direct_fh = ask_open(big, O_RDWR | O_DIRECT);
	log_fh = krig_create(folder, "log", O_APPEND, &log_file);
	locked_fh = krig_create(folder, "locked", 0, &locked);
	OK(krig_lock(FUSE_SETLK, locked, locked_fh, 1, F_WRLCK));
}

static void leave_scene(void)
{
	static const char *const files[] = { "big", "log", "locked", "new",
					     "moved", "link" };
	char name[32];

	krig_release(big, big_fh);
	krig_release(big, direct_fh);
	krig_release(log_file, log_fh);
	krig_release(locked, locked_fh);
	for (unsigned int i = 0; i < RF_ARRAY_SIZE(files); i++)
		OK(krig_begin(FUSE_UNLINK, folder, NAME(files[i]), NO_MORE));
	OK(krig_begin(FUSE_RMDIR, folder, NAME("made"), NO_MORE));
	snprintf(name, sizeof(name), "scene.%u", scenes - 1);
	OK(krig_begin(FUSE_RMDIR, FUSE_ROOT_ID, NAME(name), NO_MORE));
}

/* Somebody waits for a lock, and gets a signal while there is no connection: what he
 * may have has to be given back, and whoever comes next waits for that. */
static struct asked *leave_orphan(void)
{
	struct asked *killed =
		krig_lock(FUSE_SETLKW, locked, locked_fh, 8, F_WRLCK);
	struct asked *next;

	while (plan->wanted == REQUEST_LOCKS && !plan->was_lost &&
	       plan->strikes == 0)
		krig_look();
	krig_interrupt(killed);
	next = krig_lock(FUSE_SETLK, locked, locked_fh, 3, F_RDLCK);
	EXPECT(-EINTR, killed, NULL, 0);
	return next;
}

static void check_data(void)
{
	cr_assert_eq(krig_attr(log_file).size, APPENDED, "%s: %llu bytes "
		     "appended", krig.label,
		     (unsigned long long)krig_attr(log_file).size);
	OK_WITH(ask_read(log_file, log_fh, 0), seen);
	cr_assert_arr_eq(seen, bytes, APPENDED, "%s: appended other bytes",
			 krig.label);
	cr_assert_eq(krig_attr(big).size, SIZE);
	OK_WITH(ask_read(big, big_fh, 0), seen);
	cr_assert_arr_eq(seen, bytes, SIZE, "%s: other bytes", krig.label);
}

static void check_names(void)
{
	cr_assert_eq(krig_look_up(folder, "moved", 0).nodeid ==
			     krig_look_up(folder, "link", 0).nodeid, false);
	krig_look_up(folder, "old", -ENOENT);
	cr_assert_eq(krig_look_up(folder, "new", 0).attr.mode & 07777, 0640);
	cr_assert_eq(krig_look_up(folder, "link", 0).nodeid, big);
}

static struct asked *create_new(void)
{
	const struct fuse_create_in create = {
		.flags = O_CREAT | O_EXCL | O_RDWR,
		.mode = S_IFREG | 0640,
	};

	return krig_begin(FUSE_CREATE, folder, PART(create), NAME("new"),
			  NO_MORE);
}

struct created {
	struct fuse_entry_out entry;
	struct fuse_open_out open;
};

/* All at once; each of them would fail, or show, if it were done twice. */
static void play_scene(void)
{
	const struct fuse_rename2_in rename = {
		.newdir = folder, .flags = 1,	/* RENAME_NOREPLACE */
	};
	const struct fuse_mkdir_in mkdir = { .mode = S_IFDIR | 0755 };
	const struct fuse_link_in link = { .oldnodeid = big };
	struct asked *reads[READS], *writes[WRITES], *appended, *waiter,
		*prober, *made, *parts, *created, *renamed, *linked;
	struct created out;
	uint64_t old, old_fh = krig_create(folder, "old", 0, &old);

	/* The first pages, which have to be dropped below: the kernel can't see it
	 * by the size. */
	OK(ask_read(big, big_fh, SIZE - READ_SIZE));
	krig_attr(big);
	plan->is_armed = true;
	made = krig_begin(FUSE_MKDIR, folder, PART(mkdir), NAME("made"),
			  NO_MORE);
	created = create_new();
	renamed = krig_begin(FUSE_RENAME2, folder, PART(rename), NAME("old"),
			     NAME("moved"), NO_MORE);
	parts = ask_write(big, direct_fh, 0, bytes, SIZE, O_RDWR | O_DIRECT);
	appended = ask_write(log_file, log_fh, 0, bytes, APPENDED,
			     O_RDWR | O_APPEND);
	for (unsigned int i = 0; i < WRITES; i++)
		writes[i] = ask_write(big, direct_fh, 0, bytes, WRITTEN,
				      O_RDWR | O_DIRECT);
	prober = leave_orphan();
	waiter = krig_lock(FUSE_SETLKW, locked, locked_fh, 2, F_WRLCK);
	for (unsigned int i = 0; i < READS; i++)
		reads[i] = ask_read(big, big_fh, SIZE - READ_SIZE);
	written(parts, SIZE);
	linked = krig_begin(FUSE_LINK, folder, PART(link), NAME("link"),
			    NO_MORE);
	OK(renamed);
	OK_WITH(created, out);
	OK(made);
	OK(linked);
	for (unsigned int i = 0; i < WRITES; i++)
		written(writes[i], WRITTEN);
	written(appended, APPENDED);
	for (unsigned int i = 0; i < READS; i++) {
		OK_WITH(reads[i], seen);
		cr_assert_arr_eq(seen, bytes + SIZE - READ_SIZE, READ_SIZE,
				 "%s: read other bytes", krig.label);
	}
	EXPECT(-EAGAIN, prober, NULL, 0);
	cr_assert(!waiter->is_replied, "%s: a wait has ended", krig.label);
	OK(krig_lock(FUSE_SETLK, locked, locked_fh, 1, F_UNLCK));
	OK(waiter);
	check_data();
	check_names();
	OK(krig_lock(FUSE_SETLK, locked, locked_fh, 2, F_UNLCK));
	plan->is_armed = false;
	krig_release(old, old_fh);
	krig_release(out.entry.nodeid, out.open.fh);
}

static void set_options(struct mount_options *options)
{
	options->write_slots = 4;
}

static void say(const struct plan *it)
{
	static const char *const states[REQUEST_STATES] = {
		[REQUEST_BUFFER] = "waits for a buffer",
		[REQUEST_SLOTS] = "waits for write slots",
		[REQUEST_LOCKS] = "waits for locks to be given back",
		[REQUEST_CALLING] = "is on its way",
		[REQUEST_QUEUED] = "is queued",
		[REQUEST_PULLING] = "fetches its data",
		[REQUEST_INVALIDATING] = "waits for pages to be dropped",
		[REQUEST_PARTS] = "has its parts under way",
		[REQUEST_PAUSED] = "pauses after many losses",
	};
	char when[64];

	if (it->turn)
		snprintf(when, sizeof(when), "turn %u", it->turn);
	else
		snprintf(when, sizeof(when), "a request %s",
			 states[it->wanted]);
	snprintf(krig.label, sizeof(krig.label), "%s, %s%s%s", when,
		 fault_names[it->fault], it->stage ? ", cut again when " : "",
		 stage_names[it->stage]);
	printf("%s\n", krig.label);
	fflush(stdout);
}

static void play(struct plan it)
{
	say(&it);
	it.server = krig.server;
	*plan = it;
	krig_mount(set_options);
	set_scene();
	play_scene();
	leave_scene();
	krig_nothing_is_kept();
	krig_unmount();
}

static const enum request_state states[] = {
	REQUEST_BUFFER, REQUEST_SLOTS, REQUEST_LOCKS, REQUEST_CALLING,
	REQUEST_QUEUED, REQUEST_PULLING, REQUEST_INVALIDATING, REQUEST_PARTS,
	REQUEST_PAUSED,
};

_Static_assert(REQUEST_STATES == RF_ARRAY_SIZE(states) + 2,
	       "all but FREE and WORKING");

/* Some states are over soon, and may not be seen at each time. */
static void play_until(struct plan it, unsigned int strikes)
{
	for (unsigned int i = 0; i < TRIES; i++) {
		play(it);
		if (plan->strikes == strikes)
			return;
	}
	cr_assert_fail("%s: it never was", krig.label);
}

static void try_all(enum fault fault)
{
	setup();
	for (unsigned int i = 0; i < RF_ARRAY_SIZE(states); i++) {
		play_until((struct plan){ .wanted = states[i],
					  .fault = fault }, 1);
	}
}

Test(client_states, a_connection_is_cut) { try_all(CUT); }
Test(client_states, a_connection_is_dropped) { try_all(DROP); }
Test(client_states, the_server_is_killed) { try_all(KILL); }
Test(client_states, the_daemon_is_killed) { try_all(DIE); }
Test(client_states, the_clock_jumps) { try_all(JUMP); }

/* What was reclaimed is not, after a mere cut. */
static void try_stages(enum fault fault, enum stage last)
{
	setup();
	for (enum stage stage = CONNECTS; stage <= last; stage++) {
		play_until((struct plan){ .wanted = REQUEST_CALLING,
					  .fault = fault, .stage = stage }, 2);
	}
}

Test(client_states, cut_again_on_the_way_back)
{
	try_stages(CUT, TELLS_IDENTITIES);
}

Test(client_states, cut_again_on_the_way_back_to_a_server_that_was_killed)
{
	try_stages(KILL, ENDS_RECLAIM);
}

Test(client_states, cut_at_any_turn)
{
	unsigned int stride = getenv("LONG") ? 1 : 5;
	unsigned int turn, tried = 0;

	setup();
	rf_random(&turn, sizeof(turn));
	turn = 1 + turn % stride;
	do {
		play((struct plan){ .turn = turn, .fault = CUT });
		turn += stride;
		tried += plan->strikes;
	} while (plan->strikes > 0);
	cr_log_info("%u turns were tried", tried);
	cr_assert_gt(tried, 0);
}

/* It ends all the same, and what it has said is stored. */
Test(client_states, cut_after_bye)
{
	setup();
	for (enum fault fault = CUT; fault <= KILL; fault++) {
		snprintf(krig.label, sizeof(krig.label), "BYE, %s",
			 fault_names[fault]);
		*plan = (struct plan){ .leaves = true, .fault = fault,
				       .server = krig.server };
		krig_mount(set_options);
		set_scene();
		plan->is_armed = true;
		kill(krig.server, SIGSTOP);	/* or it may be answered first */
		krig_unmount();
		kill(krig.server, SIGCONT);
		cr_assert_eq(plan->strikes, 1, "%s: it never was", krig.label);
		krig_look();
	}
}

/* Its daemon dies when the answer to a LINK is noted, and not given yet.  False: it did
 * not come to that. */
static bool die_with_answer(uint64_t closed)
{
	const struct fuse_mkdir_in mkdir = { .mode = S_IFDIR | 0755 };
	struct fuse_link_in link = { 0 };
	uint64_t own, fh, past_cache;

	krig.asker = 1002;
	fh = krig_create(folder, "own", 0, &own);
	past_cache = ask_open(own, O_RDWR | O_DIRECT);
	written(ask_write(own, fh, 0, bytes, 8192, O_RDWR), 8192);
	OK(ask_read(own, fh, 0));
	krig_attr(own);
	written(ask_write(own, past_cache, 0, bytes, 4096, O_RDWR | O_DIRECT),
		4096);
	plan->is_armed = true;
	link.oldnodeid = own;
	OK(krig_begin(FUSE_LINK, folder, PART(link), NAME("second"), NO_MORE));
	plan->is_armed = false;
	/* Who waits until there is a connection is told of with it. */
	krig.asker = 0;
	krig_attr(closed);
	krig.asker = 1002;
	EXPECT(-EACCES, krig_begin(FUSE_MKDIR, closed, PART(mkdir),
				   NAME("not ours"), NO_MORE), NULL, 0);
	cr_assert_eq(krig_mkdir(folder, "ours").attr.uid, 1002);
	return krig.deaths > 0;
}

/*
 * Who was answered from what the dead daemon had noted needs no message, and so its
 * identity was not told; but the next one needs it.
 */
Test(client_states, nobody_goes_as_another_after_a_daemon_died)
{
	const struct fuse_setattr_in open_to_all = {
		.valid = FATTR_MODE, .mode = S_IFDIR | 0777,
	};
	bool has_died = false;

	if (getuid() != 0)
		cr_skip_test("SKIPPED: needs root, to be others");
	setup();
	snprintf(krig.label, sizeof(krig.label), "identities");
	for (unsigned int i = 0; i < TRIES && !has_died; i++) {
		*plan = (struct plan){ .wanted = REQUEST_INVALIDATING,
				       .fault = DIE, .is_noted = true,
				       .server = krig.server };
		krig_mount(set_options);
		set_scene();
		OK(krig_begin(FUSE_SETATTR, folder, PART(open_to_all),
			      NO_MORE));
		has_died = die_with_answer(krig_mkdir(folder, "closed").nodeid);
		krig_unmount();
	}
	cr_assert(has_died, "no daemon died with a noted answer");
}

/* It has met something that it can't deal with, but the mount is there: what is open
 * is the next one's. */
Test(client_states, a_daemon_that_gives_up_keeps_the_session)
{
	static const uint8_t too_short[8];

	setup();
	snprintf(krig.label, sizeof(krig.label), "a daemon gives up");
	*plan = (struct plan){ .server = krig.server };
	krig_mount(set_options);
	set_scene();
	OK(krig_begin(FUSE_UNLINK, folder, NAME("big"), NO_MORE));
	krig.may_fail = true;
	cr_assert_eq(send(krig.fd, too_short, sizeof(too_short), 0),
		     (ssize_t)sizeof(too_short));
	OK_WITH(ask_read(big, big_fh, 0), seen);
	cr_assert_arr_eq(seen, bytes, SIZE, "%s: other bytes", krig.label);
	EXPECT(-EAGAIN, krig_lock(FUSE_SETLK, locked, locked_fh, 2, F_WRLCK),
	       NULL, 0);
	cr_assert_eq(krig.deaths, 1);
	krig_release(big, big_fh);
	krig_release(big, direct_fh);
	krig_release(log_file, log_fh);
	krig_release(locked, locked_fh);
	krig_nothing_is_kept();
	krig_unmount();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_killed.c - callers that are killed while their request is on its way
 *
 * The kernel is this test (kernel_rig.h); callers are of a process that is gone.  The
 * server is stopped, so that no answer comes, and the daemon's clock jumps.
 */
#include "tests/common/jumping_clock.h"
#include "tests/common/kernel_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(client_killed, .fini = krig_close, .timeout = 300);

/* Shared by test and daemon. */
static struct plan {
	int64_t jump_s;			/* the test's wish */
	/* what is */
	uint64_t turns, interrupts, losses;
	bool is_calling;
} *plan;

/* ---- in the daemon -------------------------------------------------------------- */

static struct fs *fs;
static struct rf_hook hook;

static bool is_calling(void)
{
	for (unsigned int i = 0; i < REQUESTS_MAX; i++)
		if (fs->requests[i].state == REQUEST_CALLING &&
		    fs->requests[i].fuse)
			return true;
	return false;
}

static void look(struct rf_hook *it)
{
	(void)it;
	plan->is_calling = is_calling();
	plan->interrupts = fs->stats.interrupts;
	plan->losses += fs->is_away;
	/* The turn after the next one has seen it all. */
	plan->turns += boot_jump_s == plan->jump_s;
	boot_jump_s = plan->jump_s;
}

static void serves(struct fs *it)
{
	fs = it;
	hook.run = look;
	rf_hook_add(fs->reactor, &hook);
}

static void left(void)
{
	rf_hook_remove(fs->reactor, &hook);
}

/* ---- in the test ------------------------------------------------------------------ */

static uint64_t folder;

static uint32_t gone_process(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	return (uint32_t)pid;
}

static void setup(void)
{
	krig_open(&(struct krig_events){ .serves = serves, .left = left });
	plan = mmap(NULL, sizeof(*plan), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	krig_mount(NULL);
	folder = krig_mkdir(FUSE_ROOT_ID, "folder").nodeid;
	krig.asker_pid = gone_process();
}

/* The daemon has looked at all that there is, and once a second it looks itself. */
static void let_it_look(void)
{
	uint64_t until = plan->turns + 2;

	while (plan->turns < until)
		krig_look();
}

static void jump(int64_t seconds)
{
	plan->jump_s += seconds;
	let_it_look();
}

/* It is on its way, and its caller is killed. */
static void interrupt_it(struct asked *asked)
{
	uint64_t before = plan->interrupts;

	while (!plan->is_calling)
		krig_look();
	krig_interrupt(asked);
	while (plan->interrupts == before)
		krig_look();
	krig_look();
}

static struct asked *ask_write(uint64_t nodeid, uint64_t fh)
{
	static const uint8_t bytes[1000];
	const struct fuse_write_in write = {
		.fh = fh, .size = sizeof(bytes), .flags = O_RDWR,
	};

	return krig_begin(FUSE_WRITE, nodeid, PART(write), bytes,
			  sizeof(bytes), NO_MORE);
}

/* However long it was on its way before. */
Test(client_killed, a_killed_writer_has_his_time_from_then_on)
{
	uint64_t file, fh;
	struct asked *write;

	setup();
	fh = krig_create(folder, "file", 0, &file);
	kill(krig.server, SIGSTOP);
	write = ask_write(file, fh);
	while (!plan->is_calling)
		krig_look();
	jump(2 * KILLED_MS / 1000);
	cr_assert_eq(plan->losses, 0, "lost before");
	interrupt_it(write);
	let_it_look();
	cr_assert(!write->is_replied && plan->losses == 0,
		  "he was given no time");
	jump(KILLED_MS / 1000);
	EXPECT(-EINTR, write, NULL, 0);
	cr_assert_gt(plan->losses, 0);
	kill(krig.server, SIGCONT);
	krig_release(file, fh);
	OK(krig_begin(FUSE_UNLINK, folder, NAME("file"), NO_MORE));
	krig_unmount();
}

/* Its caller ends with the answer, not before. */
static void ends_with_answer(const char *what, struct asked *asked, void *out,
			     size_t size)
{
	snprintf(krig.label, sizeof(krig.label), "%s", what);
	interrupt_it(asked);
	cr_assert(!asked->is_replied, "%s: it ended before", what);
	kill(krig.server, SIGCONT);
	EXPECT(0, asked, out, size);
	kill(krig.server, SIGSTOP);
}

static void ends_at_once(const char *what, struct asked *asked)
{
	snprintf(krig.label, sizeof(krig.label), "%s", what);
	interrupt_it(asked);
	EXPECT(-EINTR, asked, NULL, 0);
	/* What became of it is no matter of the next one. */
	kill(krig.server, SIGCONT);
	krig_attr(FUSE_ROOT_ID);
	kill(krig.server, SIGSTOP);
}

#define ASK(opcode, nodeid, ...) \
	#opcode, krig_begin(FUSE_##opcode, nodeid, __VA_ARGS__, NO_MORE)

/*
 * Others see what it does: if it happened after its process has ended, a "mv" that was
 * killed would move what somebody has put in its place since.
 */
Test(client_killed, what_others_see_has_happened_when_its_caller_ends)
{
	const struct fuse_mkdir_in mkdir = { .mode = S_IFDIR | 0755 };
	const struct fuse_mknod_in mknod = { .mode = S_IFREG | 0644 };
	const struct fuse_setattr_in setattr = {
		.valid = FATTR_MODE, .mode = S_IFREG | 0600,
	};
	const struct fuse_open_in open = { .flags = O_RDONLY };
	const struct fuse_open_in cut = { .flags = O_RDWR | O_TRUNC };
	struct fuse_rename2_in rename = { 0 };
	struct fuse_link_in link = { 0 };
	struct fuse_open_out opened;
	uint64_t file, fh;

	setup();
	fh = krig_create(folder, "file", 0, &file);
	rename.newdir = folder;
	link.oldnodeid = file;
	kill(krig.server, SIGSTOP);
	ends_with_answer(ASK(MKDIR, folder, PART(mkdir), NAME("made")), NULL, 0);
	ends_with_answer(ASK(MKNOD, folder, PART(mknod), NAME("node")), NULL, 0);
	ends_with_answer(ASK(SYMLINK, folder, NAME("symlink"), NAME("to")),
			 NULL, 0);
	ends_with_answer(ASK(LINK, folder, PART(link), NAME("link")), NULL, 0);
	ends_with_answer(ASK(RENAME2, folder, PART(rename), NAME("node"),
			     NAME("moved")), NULL, 0);
	ends_with_answer(ASK(UNLINK, folder, NAME("link")), NULL, 0);
	ends_with_answer(ASK(RMDIR, folder, NAME("made")), NULL, 0);
	ends_with_answer(ASK(SETATTR, file, PART(setattr)), NULL, 0);
	ends_with_answer(ASK(OPEN, file, PART(cut)), &opened, sizeof(opened));
	ends_with_answer("WRITE", ask_write(file, fh), NULL, 0);
	ends_at_once(ASK(LOOKUP, folder, NAME("moved")));
	ends_at_once(ASK(OPEN, file, PART(open)));
	kill(krig.server, SIGCONT);
	krig_release(file, opened.fh);
	krig_release(file, fh);
	krig_unmount();
}

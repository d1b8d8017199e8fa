/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_killed.c - the real rdmafsd dies in the middle of appends, by SIGKILL or for
 * want of memory, again and again; its client resumes, and each append is in the file
 * once
 *
 * The program is taken from RDMAFSD, or from the build folder that this test lies
 * in.  A rig's own server lends its reactor and fabric, and is not talked to.
 */
#include "tests/common/raw_session.h"
#include "tests/common/scratch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	ROUNDS = 12,
	ROUNDS_MOST = 200,	/* until a kill has caught an append in flight */
	BUSY_SLOTS = 4,
	RECORD = 8,			/* bytes of one append */
	RECORDS_MAX = 200000,
	PATIENCE_S = 60,
	RW = RF_OPEN_READ | RF_OPEN_WRITE,
};

static char program[4096], preload[4096], dir[64];
static struct srig rig;
static struct raws raws;
static pid_t daemon_pid;
static int daemon_log = -1;

static void setup(void)
{
	scratch_find_server(program, sizeof(program));
	snprintf(dir, sizeof(dir), "/tmp/rdmafs-killed-XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
}

static void kill_daemon(void)
{
	if (daemon_pid > 0) {
		kill(daemon_pid, SIGKILL);
		waitpid(daemon_pid, NULL, 0);
	}
	daemon_pid = 0;
	if (daemon_log >= 0)
		close(daemon_log);
	daemon_log = -1;
}

static void teardown(void)
{
	kill_daemon();
	if (*dir)
		scratch_remove(dir);
}

TestSuite(server_killed, .init = setup, .fini = teardown, .timeout = 240);

/* ---- the daemon --------------------------------------------------------- */

/* Its port, when it says that it listens. */
static in_port_t read_port(void)
{
	static const char ready[] = "ready: listening on iwarp://127.0.0.1:";
	char log[16384];
	size_t size = 0;

	for (;;) {
		struct pollfd poll_fd = { daemon_log, POLLIN, 0 };
		const char *at;
		ssize_t got;

		cr_assert_eq(poll(&poll_fd, 1, PATIENCE_S * 1000), 1);
		got = read(daemon_log, log + size, sizeof(log) - 1 - size);
		cr_assert_gt(got, 0, "it ended: %.*s", (int)size, log);
		size += (size_t)got;
		log[size] = '\0';
		at = strstr(log, ready);
		if (at && strchr(at, '\n'))
			return htons((in_port_t)atoi(at + strlen(ready)));
	}
}

static void start_daemon(void)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int pipe_fds[2];

	cr_assert_eq(pipe2(pipe_fds, O_CLOEXEC), 0);
	daemon_pid = fork();
	cr_assert(daemon_pid >= 0);
	if (daemon_pid == 0) {
		dup2(pipe_fds[1], STDERR_FILENO);
		if (*preload)
			setenv("LD_PRELOAD", preload, 1);
		execl(program, program, "--store", dir, "--export", "data=/",
		      "--listen", "iwarp://127.0.0.1:0", "--staging", "32M",
		      "--sessions", "4", NULL);
		_exit(127);
	}
	close(pipe_fds[1]);
	daemon_log = pipe_fds[0];
	address.sin_port = read_port();
	memcpy(&raws.address, &address, sizeof(address));
}

/* ---- appends ------------------------------------------------------------ */

struct busy_slot {
	uint32_t seq;
	uint64_t number;	/* of the append in flight */
	bool is_waiting;
};

static struct busy_slot slots[BUSY_SLOTS];
static uint64_t next_number, acknowledged, resent;
static rf_handle_t handle;
static uint32_t open_id;
static uint64_t open_tag;
static uint32_t control_seq;

static void post_append(uint16_t slot)
{
	static uint8_t message[RAWS_MSG_MAX];
	uint8_t record[RECORD];
	const struct rf_args args = {
		.code = RF_OP_WRITE,
		.write = { .open = open_id, .flags = RF_WRITE_APPEND,
			   .data = { record, RECORD } },
	};

	rf_store_u64(record, slots[slot].number);
	raws_post(&raws, message,
		  raws_encode(&raws, message, slot, slots[slot].seq, &handle,
			      &args, 1));
}

static void begin_append(uint16_t slot)
{
	slots[slot].seq++;
	slots[slot].number = next_number++;
	slots[slot].is_waiting = true;
}

static void took(struct raws *from)
{
	struct busy_slot *slot;

	if (from->header.type != RF_MSG_REPLY ||
	    from->header.slot >= BUSY_SLOTS)
		return;
	slot = &slots[from->header.slot];
	cr_assert(slot->is_waiting && from->header.seq == slot->seq);
	cr_assert_eq(from->results[from->count - 1].status, RF_ST_OK, "%s",
		     rf_status_name(from->results[from->count - 1].status));
	slot->is_waiting = false;
	acknowledged++;
}

static bool all_wait(void)
{
	for (unsigned int i = 0; i < BUSY_SLOTS; i++)
		if (!slots[i].is_waiting)
			return false;
	return true;
}

/* Appends on all slots, until the time is over. */
static void append_for(uint64_t ns)
{
	uint64_t end_ns = rf_now_ns() + ns;

	while (raws.ep && rf_now_ns() < end_ns) {
		for (uint16_t slot = 0; raws.ep && slot < BUSY_SLOTS; slot++) {
			if (slots[slot].is_waiting)
				continue;
			begin_append(slot);
			post_append(slot);
			srig_until(&rig, !raws.is_sending);
		}
		srig_until(&rig, !all_wait() || rf_now_ns() >= end_ns ||
			   !raws.ep);
		cr_assert_lt(next_number, RECORDS_MAX);
	}
}

static void resume(void)
{
	const struct rf_args identity = { .code = RF_OP_IDENTITY,
					  .identity = { .index = 1 } };
	const struct rf_args reclaim = {
		.code = RF_OP_RECLAIM,
		.reclaim = { handle, open_id, RW, open_tag },
	};
	const struct rf_args done = { .code = RF_OP_RECLAIM_DONE };
	const struct rf_args all[] = { identity, reclaim, done };

	cr_assert_eq(raws_resume(&raws), RF_ST_OK);
	cr_assert(raws.resumed.flags & RF_RESUME_RESTARTED);
	cr_assert_eq(raws_run(&raws, RAWS_SLOTS, ++control_seq, NULL, all, 3),
		     RF_ST_OK);
	for (uint16_t slot = 0; slot < BUSY_SLOTS; slot++) {
		if (!slots[slot].is_waiting)
			continue;
		resent++;
		post_append(slot);
		srig_until(&rig, !slots[slot].is_waiting && !raws.is_sending);
	}
}

/* ---- what is in the file ------------------------------------------------ */

static void check_file(void)
{
	uint8_t *seen = calloc(1, next_number);
	uint64_t offset = 0, size;

	cr_assert_eq(RAWS_RUN(&raws, 6, 1, &handle,
			      { .code = RF_OP_GETATTR }), RF_ST_OK);
	size = RAWS_RES(&raws, 0, getattr).attr.size;
	cr_assert_eq(size, next_number * RECORD, "%llu appends, %llu bytes",
		     (unsigned long long)next_number,
		     (unsigned long long)size);
	for (uint32_t seq = 2; offset < size; seq++) {
		const rf_blob_t *data;

		cr_assert_eq(RAWS_RUN(&raws, 6, seq, &handle,
				      { .code = RF_OP_READ,
					.read = { open_id, offset, 4096 } }),
			     RF_ST_OK);
		data = &RAWS_RES(&raws, 0, read).data;
		cr_assert_gt(data->size, 0);
		for (uint32_t at = 0; at + RECORD <= data->size; at += RECORD) {
			uint64_t number = rf_load_u64(
				(const uint8_t *)data->bytes + at);

			cr_assert_lt(number, next_number);
			cr_assert_not(seen[number], "append %llu is there twice",
				      (unsigned long long)number);
			seen[number] = 1;
		}
		offset += data->size / RECORD * RECORD;
	}
	free(seen);
}

/* ---- how it dies --------------------------------------------------------- */

static void by_a_kill(void)
{
	append_for((uint64_t)(rand() % 30000) * 1000);
	/* What is on its way now counts as lost. */
	raws.took = NULL;
	kill_daemon();
	raws_cut(&raws);
	raws.took = took;
}

static _Atomic long *memory_left;

/* The engine is C++, and has no way to say it through its C interface: an exception
 * that nobody catches ends the process. */
static void for_want_of_memory(void)
{
	uint64_t end_ns = rf_now_ns() + PATIENCE_S * UINT64_C(1000000000);
	int status;

	append_for((uint64_t)(rand() % 3000) * 1000);
	*memory_left = 1 + rand() % 200;
	while (raws.ep) {
		append_for(1000000);
		cr_assert_lt(rf_now_ns(), end_ns, "it has what it needs");
	}
	cr_assert_eq(waitpid(daemon_pid, &status, 0), daemon_pid);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	daemon_pid = 0;
	kill_daemon();
	raws_cut(&raws);
}

static void begin_without_memory(void)
{
	char text[16], *end;
	int fd = memfd_create("memory", 0);

	cr_assert(fd >= 0);
	cr_assert_eq(ftruncate(fd, sizeof(*memory_left)), 0);
	memory_left = mmap(NULL, sizeof(*memory_left), PROT_READ | PROT_WRITE,
			   MAP_SHARED, fd, 0);
	cr_assert_neq(memory_left, MAP_FAILED);
	snprintf(text, sizeof(text), "%d", fd);
	setenv("NO_MEMORY_FD", text, 1);
	end = strrchr(program, '/');
	snprintf(preload, sizeof(preload), "%.*s/tests/preload/no_memory.so",
		 (int)(end - program), program);
	if (access(preload, R_OK) != 0 || strstr(program, "/san-"))
		cr_skip_test("SKIPPED: %s is not built, or a sanitizer wants "
			     "to be the first library", preload);
}

static void each_append_is_there_once(void (*die)(void))
{
	const char *text = getenv("RF_SEED");
	unsigned int seed = text ? (unsigned int)strtoul(text, NULL, 10)
				 : (unsigned int)time(NULL);
	unsigned int kills = 0;

	printf("RF_SEED=%u\n", seed);
	fflush(stdout);
	srand(seed);
	srig_open(&rig, "iwarp");
	raws_init(&rig, &raws);
	start_daemon();
	raws_begin(&raws);
	cr_assert_eq(RAWS_RUN(&raws, 7, 1, &raws.reply.root, {
		.code = RF_OP_CREATE,
		.create = { sname("log"), 0644, RW, 0 } }), RF_ST_OK);
	handle = RAWS_RES(&raws, 0, create).handle;
	open_id = RAWS_RES(&raws, 0, create).open;
	open_tag = RAWS_RES(&raws, 0, create).tag;
	/* raws_begin() has used slot 0. */
	slots[0].seq = 1;
	raws.took = took;
	/* Nobody has a name for it: the open alone keeps it. */
	cr_assert_eq(RAWS_RUN(&raws, 7, 2, &raws.reply.root, {
		.code = RF_OP_UNLINK, .unlink = { sname("log") } }), RF_ST_OK);
	for (; kills < ROUNDS || (resent == 0 && kills < ROUNDS_MOST); kills++) {
		die();
		start_daemon();
		resume();
	}
	printf("%llu appends, %u kills, %llu resent\n",
	       (unsigned long long)acknowledged, kills,
	       (unsigned long long)resent);
	cr_assert_eq(acknowledged, next_number);
	cr_assert_gt(resent, 0);
	check_file();
	raws_cut(&raws);
	srig_close(&rig);
}

Test(server_killed, each_append_is_in_the_file_once)
{
	each_append_is_there_once(by_a_kill);
}

Test(server_killed, without_memory_for_its_engine_it_has_lost_nothing)
{
	begin_without_memory();
	each_append_is_there_once(for_want_of_memory);
}

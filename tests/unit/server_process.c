/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real rdmafsd, as a process: it starts, complains, stops and is killed.
 *
 * The program is taken from RDMAFSD, or from the build folder that this test
 * lies in.
 */
#include "libproto/rpc.h"
#include "tests/common/scratch.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_S = 60, LOG_MAX = 65536, MIB = 1 << 20 };

static char program[4096], dir[64];

static void setup(void)
{
	scratch_find_server(program, sizeof(program));
	snprintf(dir, sizeof(dir), "/tmp/rdmafs-process-XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
}

static void teardown(void)
{
	if (*dir)
		scratch_remove(dir);
}

TestSuite(server_process, .init = setup, .fini = teardown, .timeout = 240);

/* ---- the daemon --------------------------------------------------------- */

struct daemon {
	pid_t pid;
	int log_fd;
	char log[LOG_MAX];
	size_t log_size;
	struct sockaddr_in address;
};

static void spawn(struct daemon *daemon, const char *const *args)
{
	const char *argv[32] = { program };
	int pipe_fds[2];

	for (int i = 0; args[i]; i++)
		argv[i + 1] = args[i];
	memset(daemon, 0, sizeof(*daemon));
	cr_assert_eq(pipe2(pipe_fds, O_CLOEXEC), 0);
	daemon->pid = fork();
	cr_assert(daemon->pid >= 0);
	if (daemon->pid == 0) {
		dup2(pipe_fds[1], STDERR_FILENO);
		execv(program, (char *const *)argv);
		_exit(127);
	}
	close(pipe_fds[1]);
	daemon->log_fd = pipe_fds[0];
}

#define SPAWN(daemon, ...) \
	spawn(daemon, (const char *const[]){ __VA_ARGS__, NULL })

/* Read more of the log; false at its end. */
static bool read_log(struct daemon *daemon)
{
	struct pollfd poll_fd = { daemon->log_fd, POLLIN, 0 };
	ssize_t got;

	cr_assert_eq(poll(&poll_fd, 1, PATIENCE_S * 1000), 1,
		     "the server says nothing more: %s", daemon->log);
	got = read(daemon->log_fd, daemon->log + daemon->log_size,
		   LOG_MAX - 1 - daemon->log_size);
	if (got <= 0)
		return false;
	daemon->log_size += (size_t)got;
	daemon->log[daemon->log_size] = '\0';
	return true;
}

/* Wait until it has said this. */
static const char *wait_for(struct daemon *daemon, const char *text)
{
	const char *at;

	while (!(at = strstr(daemon->log, text)))
		cr_assert(read_log(daemon), "it ended without '%s': %s", text,
			  daemon->log);
	return at;
}

static int wait_end(struct daemon *daemon)
{
	int status;

	while (read_log(daemon))
		;
	close(daemon->log_fd);
	cr_assert_eq(waitpid(daemon->pid, &status, 0), daemon->pid);
	return status;
}

static int exit_code(struct daemon *daemon)
{
	int status = wait_end(daemon);

	cr_assert(WIFEXITED(status), "signal %d: %s", WTERMSIG(status),
		  daemon->log);
	return WEXITSTATUS(status);
}

static void start(struct daemon *daemon)
{
	const char *at;

	SPAWN(daemon, "--store", dir, "--export", "data=/", "--listen",
	      "iwarp://127.0.0.1:0", "--staging", "32M", "--sessions", "8");
	at = wait_for(daemon, "ready: listening on iwarp://127.0.0.1:");
	while (!strchr(at, '\n'))
		cr_assert(read_log(daemon));
	daemon->address = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(strrchr(at, ':') ?
			strstr(at, "127.0.0.1:") + 10 : "0")),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

static void stop(struct daemon *daemon)
{
	kill(daemon->pid, SIGTERM);
	cr_assert_eq(exit_code(daemon), 0, "%s", daemon->log);
}

/* ---- a client: a thread of its own with one call at a time -------------- */

struct peer {
	struct rf_reactor *reactor;
	struct rf_fabric *fab;
	struct rf_pd *pd;
	struct rf_poller *poller;
	struct rf_pool *pool;
	struct rf_mr *mr;
	struct rf_client *client;
	bool opened, closed;
	rf_handle_t root;
	struct rf_call call;
	bool done;
	int err;
	unsigned int status;
	struct rf_results last;		/* of the last operation */
	uint8_t data[1000];		/* that it read */
};

static void peer_opened(struct rf_client *client,
			const struct rf_hello_reply *reply)
{
	struct peer *peer = rf_client_context(client);

	peer->opened = true;
	peer->root = reply->root;
}

static void peer_closed(struct rf_client *client, int err, const char *reason)
{
	struct peer *peer = rf_client_context(client);

	(void)reason;
	peer->closed = true;
	peer->err = err;
}

static void peer_open(struct peer *peer, const struct sockaddr_in *address)
{
	static const struct rf_client_events events = {
		.opened = peer_opened,
		.closed = peer_closed,
	};
	const struct rf_pool_config pool = {
		.name = "peer",
		.classes = { { 8192, 128 } },
		.class_count = 1,
	};
	struct rf_client_config config = {
		.setup_ms = 20000,
		.send_depth = 64,
		.reads_out = 4,
		.hello = {
			.limits = {
				.inline_max = 4096, .msg_max = 5120,
				.slots = 4, .control_slots = 1,
				.server_msgs = 2, .channels = 1,
				.write_slots = 4, .block_max = MIB,
			},
			.host = "peer",
			.export = "data",
		},
	};

	memset(peer, 0, sizeof(*peer));
	cr_assert_eq(rf_reactor_create(&peer->reactor), 0);
	cr_assert_eq(rf_fabric_open("iwarp://", &peer->fab), 0);
	cr_assert_eq(rf_pd_create(peer->fab, &peer->pd), 0);
	cr_assert_eq(rf_pool_create(&pool, &peer->pool), 0);
	cr_assert_eq(rf_pool_register(peer->pool, peer->pd, RF_LOCAL_WRITE,
				      &peer->mr), 0);
	cr_assert_eq(rf_poller_create(peer->fab, 4096, &peer->poller), 0);
	cr_assert_eq(rf_reactor_add_poller(peer->reactor, peer->poller), 0);
	config.reactor = peer->reactor;
	config.poller = peer->poller;
	config.pd = peer->pd;
	config.mr = peer->mr;
	config.pool = peer->pool;
	memcpy(&config.address, address, sizeof(*address));
	config.address_size = sizeof(*address);
	cr_assert_eq(rf_client_open(&config, &events, peer, &peer->client), 0);
	while (!peer->opened && !peer->closed)
		rf_reactor_turn(peer->reactor, 1000);
	cr_assert(peer->opened, "%s", strerror(-peer->err));
}

static void peer_close(struct peer *peer)
{
	if (!peer->closed)
		rf_client_bye(peer->client);
	while (!peer->closed)
		rf_reactor_turn(peer->reactor, 1000);
	rf_reactor_remove_poller(peer->reactor, peer->poller);
	rf_poller_destroy(peer->poller);
	rf_mr_deregister(peer->mr);
	rf_pool_destroy(peer->pool);
	rf_pd_destroy(peer->pd);
	rf_fabric_close(peer->fab);
	rf_reactor_destroy(peer->reactor);
}

static void call_done(struct rf_call *call, int err, struct rf_dec *reply)
{
	struct peer *peer = rf_container_of(call, struct peer, call);

	peer->done = true;
	peer->err = err;
	peer->status = RF_ST_BAD_MESSAGE;
	while (!err && rf_dec_results(reply, &peer->last) == 1)
		peer->status = peer->last.status;
	if (!err && peer->last.code == RF_OP_READ &&
	    peer->last.read.data.size == sizeof(peer->data))
		memcpy(peer->data, peer->last.read.data.bytes,
		       sizeof(peer->data));
}

/* USE dir and these operations; false: the server is gone.  The identity is
 * registered in front: the message stands alone. */
static bool run(struct peer *peer, const rf_handle_t *handle,
		const struct rf_args *args, unsigned int count)
{
	const struct rf_args identity = { .code = RF_OP_IDENTITY,
					  .identity = { .index = 1 } };
	const struct rf_args use = { .code = RF_OP_USE, .use = { *handle } };
	struct rf_header header = { .type = RF_MSG_REQUEST };
	struct rf_buf *buf;
	struct rf_enc enc;

	if (peer->closed)
		return false;
	buf = rf_pool_get(peer->pool, 8192);
	cr_assert_not_null(buf);
	rf_enc_init(&enc, buf->mem, 5120);
	rf_enc_args(&enc, &identity);
	rf_enc_args(&enc, &use);
	for (unsigned int i = 0; i < count; i++)
		rf_enc_args(&enc, &args[i]);
	peer->call = (struct rf_call){
		.done = call_done,
		.msg = buf,
		.msg_size = (uint32_t)rf_enc_finish(&enc, &header),
		.identity = 1,
	};
	peer->done = false;
	rf_client_submit(peer->client, &peer->call);
	while (!peer->done)
		rf_reactor_turn(peer->reactor, 1000);
	rf_pool_put(buf);
	return peer->err == 0;
}

#define RUN(peer, handle, ...)						\
	run(peer, handle, (const struct rf_args[]){ __VA_ARGS__ },	\
	    sizeof((const struct rf_args[]){ __VA_ARGS__ }) /		\
	    sizeof(struct rf_args))

static rf_name_t name_of(const char *text)
{
	return (rf_name_t){ text, (uint16_t)strlen(text) };
}

/* ---- four clients at work ----------------------------------------------- */

enum { WORKERS = 4, FILES_MAX = 100000 };

/* What a client knows of each of its files: as far as the server has said. */
enum state { ABSENT, CREATED, WRITTEN, RENAMED, REMOVED };

struct worker {
	pthread_t thread;
	unsigned int number;
	struct sockaddr_in address;
	uint8_t states[FILES_MAX];
	uint8_t tried[FILES_MAX];	/* the state asked for last */
	unsigned int count;
	unsigned int steps;
	_Atomic unsigned int acknowledged;
};

static struct worker workers[WORKERS];

static void file_name(char out[32], const struct worker *worker,
		      unsigned int file, bool is_renamed)
{
	snprintf(out, 32, "%s-%u-%u", is_renamed ? "new" : "old",
		 worker->number, file);
}

static void content(uint8_t out[1000], const struct worker *worker,
		    unsigned int file)
{
	for (unsigned int i = 0; i < 1000; i++)
		out[i] = (uint8_t)(worker->number * 31 + file * 7 + i);
}

/* One step of a file's life; false: the server is gone. */
static bool advance(struct worker *worker, struct peer *peer,
		    unsigned int file)
{
	enum state to = (enum state)(worker->states[file] + 1);
	char old[32], new[32];
	uint8_t data[1000];
	bool is_answered;

	file_name(old, worker, file, false);
	file_name(new, worker, file, true);
	content(data, worker, file);
	worker->tried[file] = (uint8_t)to;
	switch (to) {
	case CREATED:
		is_answered = RUN(peer, &peer->root, { .code = RF_OP_CREATE,
			.create = { name_of(old), 0644, RF_OPEN_WRITE, 0 } });
		break;
	case WRITTEN:
		is_answered = RUN(peer, &peer->root, { .code = RF_OP_LOOKUP,
			.lookup = { name_of(old) } }, { .code = RF_OP_OPEN,
			.open = { RF_OPEN_WRITE } }, { .code = RF_OP_WRITE,
			.write = { .data = { data, 1000 } } },
			{ .code = RF_OP_RELEASE });
		break;
	case RENAMED:
		is_answered = RUN(peer, &peer->root, { .code = RF_OP_RENAME,
			.rename = { name_of(old), peer->root, name_of(new),
				    0 } });
		break;
	default:
		is_answered = RUN(peer, &peer->root, { .code = RF_OP_UNLINK,
			.unlink = { name_of(new) } });
		break;
	}
	if (!is_answered || peer->status == RF_ST_SHUTDOWN)
		return false;
	cr_assert_eq(peer->status, RF_ST_OK, "file %u to state %d: %s", file,
		     to, rf_status_name(peer->status));
	worker->states[file] = (uint8_t)to;
	worker->acknowledged++;
	return true;
}

/* Files at all stages of life: each step takes one on, or a new one. */
static void *work(void *context)
{
	struct worker *worker = context;
	unsigned int chance = worker->number * 2654435761u + 1;
	struct peer peer;

	peer_open(&peer, &worker->address);
	while (worker->count < FILES_MAX) {
		unsigned int file;

		chance = chance * 1664525u + 1013904223u;
		file = worker->count;
		if (worker->count > 10 && (chance >> 16) % 4) {
			file = worker->count - 1 - (chance >> 20) % 10;
			/* The last steps only for some, so that some stay. */
			if (worker->states[file] >= WRITTEN + file % 3)
				continue;
		}
		worker->count += file == worker->count;
		if (!advance(worker, &peer, file))
			break;
	}
	peer_close(&peer);
	return NULL;
}

static void start_workers(const struct daemon *daemon)
{
	memset(workers, 0, sizeof(workers));
	for (unsigned int i = 0; i < WORKERS; i++) {
		workers[i].number = i;
		workers[i].address = daemon->address;
		cr_assert_eq(pthread_create(&workers[i].thread, NULL, work,
					    &workers[i]), 0);
	}
}

static unsigned int acknowledged(void)
{
	unsigned int sum = 0;

	for (unsigned int i = 0; i < WORKERS; i++)
		sum += workers[i].acknowledged;
	return sum;
}

static void wait_for_work(unsigned int steps)
{
	uint64_t until_ns = rf_now_ns() + PATIENCE_S * UINT64_C(1000000000);

	while (acknowledged() < steps) {
		struct timespec nap = { 0, 2000000 };

		cr_assert(rf_now_ns() < until_ns, "only %u steps",
			  acknowledged());
		nanosleep(&nap, NULL);
	}
}

static bool exists(struct peer *peer, const char *name)
{
	cr_assert(RUN(peer, &peer->root, { .code = RF_OP_LOOKUP,
					   .lookup = { name_of(name) } }));
	cr_assert(peer->status == RF_ST_OK || peer->status == RF_ST_NOENT);
	return peer->status == RF_ST_OK;
}

static uint64_t size_of(struct peer *peer, const char *name)
{
	cr_assert(exists(peer, name));
	return peer->last.lookup.attr.size;
}

/* Is the file in this state? */
static bool is_in_state(struct worker *worker, struct peer *peer,
			unsigned int file, enum state state)
{
	char old[32], new[32];
	bool has_old, has_new;

	file_name(old, worker, file, false);
	file_name(new, worker, file, true);
	has_old = exists(peer, old);
	has_new = exists(peer, new);
	switch (state) {
	case ABSENT:
	case REMOVED:
		return !has_old && !has_new;
	case CREATED:
		return has_old && !has_new && size_of(peer, old) == 0;
	case WRITTEN:
		return has_old && !has_new && size_of(peer, old) == 1000;
	default:
		return !has_old && has_new && size_of(peer, new) == 1000;
	}
}

static bool content_is_right(struct worker *worker, struct peer *peer,
			     unsigned int file)
{
	uint8_t data[1000];
	char name[32];

	file_name(name, worker, file, worker->states[file] == RENAMED);
	content(data, worker, file);
	cr_assert(RUN(peer, &peer->root, { .code = RF_OP_LOOKUP,
		.lookup = { name_of(name) } }, { .code = RF_OP_OPEN,
		.open = { RF_OPEN_READ } }, { .code = RF_OP_READ,
		.read = { .size = 1000 } }));
	return peer->status == RF_ST_OK && peer->last.read.size == 1000 &&
	       memcmp(peer->data, data, sizeof(data)) == 0;
}

/* Each acknowledged step is there; one not acknowledged may be. */
static void check_all(const struct daemon *daemon)
{
	struct peer peer;

	peer_open(&peer, &daemon->address);
	for (unsigned int i = 0; i < WORKERS; i++) {
		struct worker *worker = &workers[i];

		for (unsigned int file = 0; file < worker->count; file++) {
			enum state is = worker->states[file];
			enum state tried = worker->tried[file];

			cr_assert(is_in_state(worker, &peer, file, is) ||
				  is_in_state(worker, &peer, file, tried),
				  "worker %u file %u: acknowledged %d, tried "
				  "%d", i, file, is, tried);
			if (is == tried && (is == WRITTEN || is == RENAMED))
				cr_assert(content_is_right(worker, &peer,
							   file));
		}
	}
	peer_close(&peer);
}

static void join_workers(void)
{
	for (unsigned int i = 0; i < WORKERS; i++)
		pthread_join(workers[i].thread, NULL);
}

Test(server_process, sigkill_loses_nothing_that_was_acknowledged)
{
	static struct daemon daemon;

	start(&daemon);
	start_workers(&daemon);
	for (unsigned int round = 1; round <= 3; round++) {
		wait_for_work(2000);
		kill(daemon.pid, SIGKILL);
		join_workers();
		wait_end(&daemon);
		start(&daemon);
		check_all(&daemon);
		if (round == 3)
			break;
		/* Again, with names of their own, in a new store. */
		stop(&daemon);
		scratch_remove(dir);
		start(&daemon);
		start_workers(&daemon);
	}
	stop(&daemon);
}

Test(server_process, sigterm_under_load_loses_nothing_and_exits_0)
{
	static struct daemon daemon;

	start(&daemon);
	start_workers(&daemon);
	wait_for_work(2000);
	stop(&daemon);
	join_workers();
	start(&daemon);
	check_all(&daemon);
	stop(&daemon);
}

Test(server_process, figures_come_on_sigusr1)
{
	static struct daemon daemon;

	start(&daemon);
	kill(daemon.pid, SIGUSR1);
	wait_for(&daemon, "registrations");
	stop(&daemon);
	wait_for(&daemon, "stopped");
}

Test(server_process, sigint_stops_too)
{
	static struct daemon daemon;

	start(&daemon);
	kill(daemon.pid, SIGINT);
	cr_assert_eq(exit_code(&daemon), 0);
}

Test(server_process, a_wrong_configuration_exits_2)
{
	static struct daemon daemon;

	SPAWN(&daemon, "--store", dir, "--colour", "red");
	cr_assert_eq(exit_code(&daemon), 2);
	SPAWN(&daemon, "--store", dir);
	cr_assert_eq(exit_code(&daemon), 2);
	cr_assert_not_null(strstr(daemon.log, "--export"));
	SPAWN(&daemon, "--config", "/nonesuch");
	cr_assert_eq(exit_code(&daemon), 2);
}

Test(server_process, what_cannot_start_exits_1_and_says_why_once)
{
	static struct daemon first, second;
	char listen[64];

	start(&first);
	SPAWN(&second, "--store", dir, "--export", "data=/", "--listen",
	      "iwarp://127.0.0.1:0");
	cr_assert_eq(exit_code(&second), 1);
	cr_assert_not_null(strstr(second.log, "another server"));
	snprintf(listen, sizeof(listen), "iwarp://127.0.0.1:%u",
		 ntohs(first.address.sin_port));
	{
		char other[80];

		snprintf(other, sizeof(other), "%s/other", dir);
		SPAWN(&second, "--store", other, "--export", "data=/",
		      "--listen", listen);
	}
	cr_assert_eq(exit_code(&second), 1);
	cr_assert_not_null(strstr(second.log, "another program"));
	SPAWN(&second, "--store", "/proc/nonesuch/store", "--export",
	      "data=/", "--listen", "iwarp://127.0.0.1:0");
	cr_assert_eq(exit_code(&second), 1);
	SPAWN(&second, "--store", dir, "--export", "data=/", "--listen",
	      "iwarp://192.0.2.77:0", "--key-file", "/nonesuch");
	cr_assert_eq(exit_code(&second), 1);
	cr_assert_not_null(strstr(second.log, "keygen"));
	stop(&first);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_crash.c - the daemon of a mount dies between any two of its stores to the
 * memory that outlives it (keep.h), and another goes on from there
 *
 * The daemon is the real one, in a child, with a real rdmafsd behind it.  The
 * kernel is this test: /dev/fuse is a pair of sockets, and what a dead daemon had
 * read and not replied to is sent again, as the kernel does.  The kept memory can't
 * be written to; each store faults, is counted, and is then let through as a single
 * step.  At the one that was chosen the daemon is killed by SIGKILL.
 *
 * A scene is played with a daemon that dies at store 1, 2, 3, ... of it, until one
 * lives to its end: at each the same must come out as without a death.  LONG=1 tries
 * all of them, else STRIDE apart, beginning with another one each time.
 *
 * The program is taken from RDMAFSD, or from the build folder that this test
 * lies in.
 */
#include "fuse-client/fs.h"
#include "fuse-client/keep.h"
#include "tests/common/scratch.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__x86_64__)

enum {
	PATIENCE_MS = 60000,
	STRIDE = 29,
	ASKED_MAX = 64,
	DATA_SIZE = 160 << 10,
	MESSAGE_MAX = DATA_SIZE + 4096,
	TRAP_FLAG = 0x100,		/* of the processor: one instruction */
};

static char dir[64], mountpoint[80];
static pid_t server;
static uint16_t port;
static unsigned int seed, scene_number;

/* ---- the server ------------------------------------------------------------ */

/* Its port, from the line that says it. */
static bool read_port(const char *path)
{
	char log[16384];
	int fd = open(path, O_RDONLY);
	ssize_t got = read(fd, log, sizeof(log) - 1);
	const char *at;

	close(fd);
	cr_assert(got >= 0);
	log[got] = '\0';
	at = strstr(log, "ready: listening on iwarp://127.0.0.1:");
	if (!at || !strchr(at, '('))
		return false;
	port = (uint16_t)atoi(strrchr(strtok(strstr(log, "127.0.0.1:"), " "),
				      ':') + 1);
	return true;
}

static void start_server(const char *program)
{
	char store[80], log[80];
	int fd;

	snprintf(store, sizeof(store), "%s/store", dir);
	snprintf(log, sizeof(log), "%s/server.log", dir);
	fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	cr_assert(fd >= 0);
	server = fork();
	cr_assert(server >= 0);
	if (server == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(fd, STDERR_FILENO);
		execl(program, program, "--store", store, "--export",
		      "data=data", "--listen", "iwarp://127.0.0.1:0", NULL);
		_exit(127);
	}
	close(fd);
	while (!read_port(log)) {
		cr_assert_eq(waitpid(server, NULL, WNOHANG), 0,
			     "the server did not start: see its log");
		poll(NULL, 0, 10);
	}
}

static void setup(void)
{
	char program[4096];

	scratch_find_server(program, sizeof(program));
	snprintf(dir, sizeof(dir), "/tmp/rdmafs-crash-XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	snprintf(mountpoint, sizeof(mountpoint), "%s/mnt", dir);
	mkdir(mountpoint, 0755);
	signal(SIGPIPE, SIG_IGN);
	start_server(program);
}

static void teardown(void)
{
	if (server > 0) {
		kill(server, SIGKILL);
		waitpid(server, NULL, 0);
	}
	if (*dir)
		scratch_remove(dir);
}

TestSuite(client_crash, .init = setup, .fini = teardown, .timeout = 3600);

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

static void count_stores(void)
{
	struct sigaction action = { .sa_flags = SA_SIGINFO };

	action.sa_sigaction = stored;
	sigaction(SIGSEGV, &action, NULL);
	action.sa_sigaction = stepped;
	sigaction(SIGTRAP, &action, NULL);
	mprotect(kept, sizeof(*kept), PROT_READ);
}

/* ---- the daemon, and the kernel above it ------------------------------------ */

/* A request that the kernel has made. */
struct asked {
	uint64_t unique;		/* 0: none */
	uint8_t *message;
	size_t size;
	bool is_read;			/* by a daemon */
	bool is_resent;			/* it stays so until it is replied to */
	bool is_replied;
	int err;
	uint8_t *reply;
	size_t reply_size;
};

static struct {
	int fd, daemon_fd;		/* /dev/fuse: our end, the daemons' */
	int keep_fd, control_fd;
	struct keep *keep;
	pid_t daemon;
	unsigned int deaths;
	uint64_t last_unique;
	struct asked asked[ASKED_MAX];
} k;

static void nothing(void *context)
{
	(void)context;
}

static void be_daemon(bool is_successor)
{
	int control[2];
	struct fs *fs;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(k.fd);
	/* It has much to say about deaths. */
	if (!getenv("LOUD"))
		dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
	socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control);
	if (keep_map(k.keep_fd, &kept) < 0)
		_exit(10);
	count_stores();
	if (fs_connect(kept, is_successor, control[0], &fs) < 0)
		_exit(11);
	/* Until the kernel closes its end. */
	fs_serve(fs, k.daemon_fd, nothing, NULL);
	plan->is_armed = false;
	fs_disconnect(fs);
	_exit(0);
}

static void start_daemon(bool is_successor)
{
	fflush(NULL);
	k.daemon = fork();
	cr_assert(k.daemon >= 0);
	if (k.daemon == 0)
		be_daemon(is_successor);
}

static void send_message(const struct asked *asked)
{
	struct fuse_in_header *in = (void *)asked->message;

	in->unique = asked->unique | (asked->is_resent ? KEEP_RESENT : 0);
	cr_assert_eq(send(k.fd, asked->message, asked->size, 0),
		     (ssize_t)asked->size, "%s", strerror(errno));
}

static struct asked *find_asked(uint64_t unique)
{
	for (unsigned int i = 0; i < ASKED_MAX; i++)
		if (k.asked[i].unique == (unique & ~KEEP_RESENT))
			return &k.asked[i];
	return NULL;
}

/* One reply, if there is one. */
static bool take_reply(void)
{
	static uint8_t message[MESSAGE_MAX];
	const struct fuse_out_header *out = (void *)message;
	ssize_t got = recv(k.fd, message, sizeof(message), MSG_DONTWAIT);
	struct asked *asked;

	if (got < (ssize_t)sizeof(*out))
		return false;
	if (out->unique == 0)		/* "send again", or drop pages */
		return true;
	asked = find_asked(out->unique);
	cr_assert(asked && !asked->is_replied, "a second reply to %llu",
		  (unsigned long long)out->unique);
	asked->is_replied = true;
	asked->err = out->error;
	asked->reply_size = (size_t)got - sizeof(*out);
	asked->reply = malloc(asked->reply_size + 1);
	memcpy(asked->reply, out + 1, asked->reply_size);
	return true;
}

/* What no daemon has read yet; it is taken out, to come after the others. */
static void find_unread(void)
{
	static uint8_t message[MESSAGE_MAX];
	const struct fuse_in_header *in = (void *)message;
	struct asked *asked;

	for (unsigned int i = 0; i < ASKED_MAX; i++)
		k.asked[i].is_read = true;
	while (recv(k.daemon_fd, message, sizeof(message), MSG_DONTWAIT) > 0) {
		asked = find_asked(in->unique);
		if (asked)
			asked->is_read = false;
	}
}

static void send_all_again(bool read_ones)
{
	for (unsigned int i = 0; i < ASKED_MAX; i++) {
		struct asked *asked = &k.asked[i];

		if (!asked->unique || asked->is_replied ||
		    asked->is_read != read_ones)
			continue;
		asked->is_resent |= read_ones;
		send_message(asked);
	}
}

static void follow(void)
{
	int status;

	cr_assert_eq(waitpid(k.daemon, &status, 0), k.daemon);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
		  "seed %u: a daemon ended with %x, after store %u", seed,
		  status, plan->count);
	k.deaths++;
	/* The next one dies, too, if it is to, and then no other. */
	plan->dies_at = plan->dies_at && k.deaths == 1 && seed % 3 == 0 ?
				1 + seed % 40 : 0;
	plan->count = 0;
	while (take_reply())
		;
	find_unread();
	send_all_again(true);
	send_all_again(false);
	start_daemon(true);
}

static bool has_died(void)
{
	siginfo_t info = { 0 };

	waitid(P_PID, (id_t)k.daemon, &info, WEXITED | WNOHANG | WNOWAIT);
	return info.si_pid == k.daemon;
}

static void wait_for_reply(const struct asked *asked)
{
	const struct fuse_in_header *in = (void *)asked->message;
	uint64_t end_ns = rf_now_ns() + PATIENCE_MS * UINT64_C(1000000);

	while (!asked->is_replied && rf_now_ns() < end_ns) {
		struct pollfd look = { .fd = k.fd, .events = POLLIN };

		/* The socket does not tell of a death: its other end is open. */
		if (poll(&look, 1, 2) == 1)
			while (take_reply())
				;
		if (!asked->is_replied && has_died())
			follow();
	}
	cr_assert(asked->is_replied, "seed %u: no reply to opcode %u", seed,
		  in->opcode);
}

/* ---- asking ------------------------------------------------------------------ */

static uint32_t asker;			/* uid and gid */

/* Pieces: a pointer and a size, until NULL.  The answer may come later. */
static struct asked *begin(uint32_t opcode, uint64_t nodeid, ...)
{
	static uint8_t message[MESSAGE_MAX];
	struct fuse_in_header *in = (void *)message;
	struct asked *asked = find_asked(0);
	const void *piece;
	va_list pieces;

	cr_assert_not_null(asked);
	*in = (struct fuse_in_header){
		.len = sizeof(*in),
		.opcode = opcode,
		.nodeid = nodeid,
		.pid = (uint32_t)getpid(),
		.uid = asker,
		.gid = asker,
	};
	va_start(pieces, nodeid);
	while ((piece = va_arg(pieces, const void *))) {
		size_t size = va_arg(pieces, size_t);

		memcpy(message + in->len, piece, size);
		in->len += (uint32_t)size;
	}
	va_end(pieces);
	*asked = (struct asked){ .unique = k.last_unique += 2,
				 .size = in->len };
	asked->message = malloc(in->len);
	memcpy(asked->message, message, in->len);
	send_message(asked);
	return asked;
}

/* Its outcome; the reply is copied to out, as much as both have. */
static int end(struct asked *asked, void *out, size_t size)
{
	int err;

	wait_for_reply(asked);
	err = asked->err;
	if (out)
		memcpy(out, asked->reply, rf_min_u64(size, asked->reply_size));
	free(asked->message);
	free(asked->reply);
	*asked = (struct asked){ 0 };
	return err;
}

#define NAME(name) (name), strlen(name) + 1
#define PART(object) (const void *)&(object), sizeof(object)
#define NO_MORE ((const void *)NULL)

#define EXPECT(expected, asked, out, size) do { \
	int got_ = end((asked), (out), (size)); \
	cr_assert_eq(got_, (expected), "seed %u, line %d: %d, not %d", seed, \
		     __LINE__, got_, (expected)); \
} while (0)
#define OK(asked) EXPECT(0, asked, NULL, 0)
#define OK_WITH(asked, out) EXPECT(0, asked, &(out), sizeof(out))

static void say_init(void)
{
	const struct fuse_init_in init = {
		.major = FUSE_KERNEL_VERSION,
		.minor = FUSE_KERNEL_MINOR_VERSION,
		.max_readahead = 1 << 20,
		.flags = FUSE_INIT_EXT | FUSE_ASYNC_READ | FUSE_BIG_WRITES |
			 FUSE_POSIX_LOCKS | FUSE_FLOCK_LOCKS |
			 FUSE_MAX_PAGES | FUSE_ATOMIC_O_TRUNC,
		.flags2 = 1 << (39 - 32),
	};

	OK(begin(FUSE_INIT, 0, PART(init), NO_MORE));
}

static void begin_life(void)
{
	int fds[2], size = MESSAGE_MAX * 4;

	memset(&k, 0, sizeof(k));
	asker = getuid();
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
				fds), 0);
	k.fd = fds[0];
	k.daemon_fd = fds[1];
	fcntl(k.daemon_fd, F_SETFL, O_NONBLOCK);
	for (unsigned int i = 0; i < 2; i++)
		setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	cr_assert_eq(keep_create(&k.keep, &k.keep_fd), 0);
	options_init(&k.keep->options);
	snprintf(k.keep->options.source, sizeof(k.keep->options.source),
		 "iwarp://127.0.0.1:%u/data", port);
	cr_assert_eq(options_set_source(&k.keep->options,
					k.keep->options.source,
					(char[OPTIONS_ERROR_MAX]){ 0 }), 0);
	snprintf(k.keep->options.mountpoint,
		 sizeof(k.keep->options.mountpoint), "%s", mountpoint);
	k.keep->options.memory = 8 << 20;
	k.keep->options.write_slots = 2;
	k.keep->options.write_part = 64 << 10;
	start_daemon(false);
	say_init();
}

/* Unmounted: the session ends with BYE, or the server would run full of them. */
static void end_life(void)
{
	int status;

	plan->is_armed = false;
	close(k.fd);
	close(k.daemon_fd);
	cr_assert_eq(waitpid(k.daemon, &status, 0), k.daemon);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0,
		  "seed %u: the last daemon ended with %x", seed, status);
	munmap(k.keep, sizeof(*k.keep));
	close(k.keep_fd);
}

/* What is left of what was asked; "" if it is nothing. */
static const char *left_over(void)
{
	const struct keep *keep = k.keep;

	for (unsigned int i = 0; i < KEEP_REQUESTS; i++)
		if (keep->requests[i].unique)
			return "a request";
	for (unsigned int i = 1; i <= keep->files.used; i++)
		if (keep->files.v[i].is_taken)
			return "a file";
	for (unsigned int i = 1; i <= keep->ranges.used; i++)
		if (keep->ranges.v[i].is_taken)
			return "a lock";
	for (unsigned int i = 1; i <= keep->waits.used; i++)
		if (keep->waits.v[i].state != KEEP_WAIT_FREE)
			return "a wait";
	return "";
}

/* Soon after the last reply; RELEASE has none of the server before it. */
static void nothing_is_kept(void)
{
	for (int left_ms = PATIENCE_MS; *left_over() && left_ms > 0; left_ms--) {
		if (has_died())
			follow();
		poll(NULL, 0, 1);
	}
	cr_assert_str_empty(left_over(), "seed %u: %s is left", seed,
			    left_over());
}

/* ---- scenes ------------------------------------------------------------------ */

static char folder[32];
static uint64_t folder_id;

static struct fuse_entry_out look_up(uint64_t parent, const char *name,
				     int expected)
{
	struct fuse_entry_out entry = { 0 };

	EXPECT(expected, begin(FUSE_LOOKUP, parent, NAME(name), NO_MORE),
	       &entry, sizeof(entry));
	return entry;
}

static struct fuse_entry_out make_folder(uint64_t parent, const char *name)
{
	const struct fuse_mkdir_in mkdir = { .mode = S_IFDIR | 0755 };
	struct fuse_entry_out entry;

	OK_WITH(begin(FUSE_MKDIR, parent, PART(mkdir), NAME(name), NO_MORE),
		entry);
	return entry;
}

static uint64_t create(const char *name, uint32_t flags, uint64_t *nodeid)
{
	const struct fuse_create_in create = {
		.flags = O_CREAT | O_EXCL | O_RDWR | flags,
		.mode = S_IFREG | 0644,
	};
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} out;

	OK_WITH(begin(FUSE_CREATE, folder_id, PART(create), NAME(name),
		      NO_MORE), out);
	*nodeid = out.entry.nodeid;
	return out.open.fh;
}

static void release(uint64_t nodeid, uint64_t fh)
{
	const struct fuse_release_in release = { .fh = fh };

	OK(begin(FUSE_RELEASE, nodeid, PART(release), NO_MORE));
}

static void forget(uint64_t nodeid)
{
	const struct fuse_forget_in forget = { .nlookup = 1 };
	struct fuse_in_header in = {
		.len = sizeof(in) + sizeof(forget),
		.opcode = FUSE_FORGET,
		.nodeid = nodeid,
		.unique = k.last_unique += 2,
	};
	struct iovec iov[] = { { &in, sizeof(in) },
			       { (void *)&forget, sizeof(forget) } };

	writev(k.fd, iov, 2);
}

static struct fuse_attr attr_of(uint64_t nodeid)
{
	const struct fuse_getattr_in getattr = { 0 };
	struct fuse_attr_out out;

	OK_WITH(begin(FUSE_GETATTR, nodeid, PART(getattr), NO_MORE), out);
	return out.attr;
}

/* As somebody else, where we may be anybody. */
static void be_another(uint32_t id)
{
	if (getuid() == 0)
		asker = id;
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

	OK(begin(FUSE_SETATTR, folder_id, PART(open_to_all), NO_MORE));
	be_another(1001);
	made = make_folder(folder_id, "made");
	cr_assert_eq(made.attr.uid, asker, "seed %u: of %u", seed,
		     made.attr.uid);
	be_another(1002);
	fh = create("file", 0, &file);
	cr_assert_eq(attr_of(file).uid, asker, "seed %u: of %u", seed,
		     attr_of(file).uid);
	be_another(1001);
	OK(begin(FUSE_SYMLINK, folder_id, NAME("link"), NAME("target"),
		 NO_MORE));
	EXPECT(getuid() ? 0 : -EPERM, begin(FUSE_SETATTR, file, PART(setattr), NO_MORE), NULL,
	       0);
	be_another(1002);
	link.oldnodeid = file;
	OK(begin(FUSE_LINK, folder_id, PART(link), NAME("second"), NO_MORE));
	OK(begin(FUSE_RENAME2, folder_id, PART(no_replace), NAME("file"),
		 NAME("moved"), NO_MORE));
	OK(begin(FUSE_SETATTR, file, PART(setattr), NO_MORE));
	be_another(0);
	OK(begin(FUSE_UNLINK, folder_id, NAME("second"), NO_MORE));
	OK(begin(FUSE_RMDIR, folder_id, NAME("made"), NO_MORE));
	forget(made.nodeid);
	release(file, fh);
	look_up(folder_id, "file", -ENOENT);
	look_up(folder_id, "made", -ENOENT);
	cr_assert_eq(look_up(folder_id, "moved", 0).nodeid, file,
		     "seed %u: another file", seed);
	attr = attr_of(file);
	cr_assert(attr.nlink == 1 && (attr.mode & 07777) == 0600,
		  "seed %u: %u links, mode %o", seed, attr.nlink, attr.mode);
	OK(begin(FUSE_UNLINK, folder_id, NAME("moved"), NO_MORE));
	OK(begin(FUSE_UNLINK, folder_id, NAME("link"), NO_MORE));
}

static uint8_t data[DATA_SIZE], seen[DATA_SIZE];

static void append(uint64_t nodeid, uint64_t fh, const uint8_t *bytes,
		   uint32_t size)
{
	const struct fuse_write_in write = {
		.fh = fh, .size = size, .flags = O_RDWR | O_APPEND,
	};
	struct fuse_write_out out;

	OK_WITH(begin(FUSE_WRITE, nodeid, PART(write), bytes, (size_t)size,
		      NO_MORE), out);
	cr_assert_eq(out.size, size, "seed %u: %u written", seed, out.size);
}

/* Appends inside a message, by a slot, and in parts: none twice, none lost. */
static void writes(void)
{
	const uint32_t sizes[] = { 1000, 20000, DATA_SIZE - 21000 };
	struct fuse_read_in read = { .size = DATA_SIZE };
	uint64_t file, fh = create("appended", O_APPEND, &file);
	const uint8_t *at = data;

	for (unsigned int i = 0; i < RF_ARRAY_SIZE(sizes); i++) {
		append(file, fh, at, sizes[i]);
		at += sizes[i];
	}
	cr_assert_eq(attr_of(file).size, DATA_SIZE, "seed %u: %llu bytes",
		     seed, (unsigned long long)attr_of(file).size);
	/* Also without a name. */
	OK(begin(FUSE_UNLINK, folder_id, NAME("appended"), NO_MORE));
	read.fh = fh;
	OK_WITH(begin(FUSE_READ, file, PART(read), NO_MORE), seen);
	cr_assert_arr_eq(data, seen, DATA_SIZE, "seed %u: other bytes", seed);
	release(file, fh);
	forget(file);
}

static struct asked *lock(uint32_t opcode, uint64_t nodeid, uint64_t fh,
			  uint64_t owner, uint32_t type)
{
	const struct fuse_lk_in args = {
		.fh = fh, .owner = owner,
		.lk = { .start = 0, .end = INT64_MAX, .type = type,
			.pid = (uint32_t)owner },
	};

	return begin(opcode, nodeid, PART(args), NO_MORE);
}

/* A lock that is held, and one that waits for it. */
static void locks(void)
{
	uint64_t file, fh = create("locked", 0, &file);
	struct fuse_lk_out out;
	struct asked *waiter;

	OK(lock(FUSE_SETLK, file, fh, 1, F_WRLCK));
	waiter = lock(FUSE_SETLKW, file, fh, 2, F_WRLCK);
	EXPECT(-EAGAIN, lock(FUSE_SETLK, file, fh, 3, F_RDLCK), NULL, 0);
	cr_assert(!waiter->is_replied, "seed %u: a wait has ended", seed);
	OK(lock(FUSE_SETLK, file, fh, 1, F_UNLCK));
	OK(waiter);
	OK_WITH(lock(FUSE_GETLK, file, fh, 3, F_WRLCK), out);
	cr_assert(out.lk.type == F_WRLCK && out.lk.pid == 2,
		  "seed %u: held by %u", seed, out.lk.pid);
	OK(lock(FUSE_SETLK, file, fh, 2, F_UNLCK));
	OK_WITH(lock(FUSE_GETLK, file, fh, 3, F_WRLCK), out);
	cr_assert_eq(out.lk.type, F_UNLCK, "seed %u: a lock is left", seed);
	release(file, fh);
	OK(begin(FUSE_UNLINK, folder_id, NAME("locked"), NO_MORE));
	forget(file);
}

/* How many stores it took, if the daemon lived; else 0. */
static unsigned int play(void (*scene)(void), unsigned int dies_at)
{
	unsigned int count;

	begin_life();
	snprintf(folder, sizeof(folder), "scene.%u", scene_number++);
	folder_id = make_folder(FUSE_ROOT_ID, folder).nodeid;
	plan->count = 0;
	plan->dies_at = dies_at;
	plan->is_armed = true;
	scene();
	count = k.deaths ? 0 : plan->count;
	nothing_is_kept();
	OK(begin(FUSE_RMDIR, FUSE_ROOT_ID, NAME(folder), NO_MORE));
	end_life();
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

Test(client_crash, appends_land_once)
{
	play_all(writes);
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/common/kernel_rig.h"

#include "tests/common/scratch.h"

#include <errno.h>
#include <fcntl.h>
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
#include <unistd.h>

enum { PATIENCE_MS = 60000 };

struct krig krig;

static char program[4096];

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
	krig.port = (uint16_t)atoi(strrchr(strtok(strstr(log, "127.0.0.1:"),
						  " "), ':') + 1);
	return true;
}

/* On the port of the one before it. */
static void start_server(void)
{
	char store[80], log[80], listen[64];
	int fd;

	snprintf(store, sizeof(store), "%s/store", krig.dir);
	snprintf(log, sizeof(log), "%s/server.log", krig.dir);
	snprintf(listen, sizeof(listen), "iwarp://127.0.0.1:%u", krig.port);
	fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC,
		  0600);
	cr_assert(fd >= 0);
	krig.server = fork();
	cr_assert(krig.server >= 0);
	if (krig.server == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(fd, STDERR_FILENO);
		execl(program, program, "--store", store, "--export",
		      "data=data", "--listen", listen, NULL);
		_exit(127);
	}
	close(fd);
	while (!read_port(log)) {
		cr_assert_eq(waitpid(krig.server, NULL, WNOHANG), 0,
			     "the server did not start: see its log");
		poll(NULL, 0, 10);
	}
}

static void look_after_server(void)
{
	if (waitpid(krig.server, NULL, WNOHANG) == 0)
		return;
	cr_assert(krig.events.server_died, "%s: the server has ended",
		  krig.label);
	start_server();
	krig.events.server_died();
}

void krig_open(const struct krig_events *events)
{
	char mountpoint[80];

	krig = (struct krig){ .events = *events };
	scratch_find_server(program, sizeof(program));
	snprintf(krig.dir, sizeof(krig.dir), "/tmp/rdmafs-kernel-XXXXXX");
	cr_assert_not_null(mkdtemp(krig.dir));
	snprintf(mountpoint, sizeof(mountpoint), "%s/mnt", krig.dir);
	mkdir(mountpoint, 0755);
	signal(SIGPIPE, SIG_IGN);
	start_server();
}

void krig_close(void)
{
	if (krig.server > 0) {
		kill(krig.server, SIGKILL);
		waitpid(krig.server, NULL, 0);
	}
	if (krig.dir[0])
		scratch_remove(krig.dir);
}

/* ---- the daemon --------------------------------------------------------------- */

static void nothing(void *context)
{
	(void)context;
}

static void be_daemon(bool is_successor)
{
	struct keep *kept;
	int control[2], err;
	struct fs *fs;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(krig.fd);
	/* It has much to say about losses. */
	if (!getenv("LOUD"))
		dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
	socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control);
	if (keep_map(krig.keep_fd, &kept) < 0)
		_exit(10);
	if (krig.events.mapped)
		krig.events.mapped(kept);
	if (fs_connect(kept, is_successor, control[0], &fs) < 0)
		_exit(11);
	if (krig.events.serves)
		krig.events.serves(fs);
	/* Until the kernel closes its end. */
	err = fs_serve(fs, krig.daemon_fd, nothing, NULL);
	if (krig.events.left)
		krig.events.left();
	fs_disconnect(fs);
	_exit(err ? EXIT_FAILURE : EXIT_SUCCESS);
}

static void start_daemon(bool is_successor)
{
	fflush(NULL);
	krig.daemon = fork();
	cr_assert(krig.daemon >= 0);
	if (krig.daemon == 0)
		be_daemon(is_successor);
}

/* ---- requests ------------------------------------------------------------------ */

static void send_message(const struct asked *asked)
{
	struct fuse_in_header *in = (void *)asked->message;

	in->unique = asked->unique | (asked->is_resent ? KEEP_RESENT : 0);
	cr_assert_eq(send(krig.fd, asked->message, asked->size, 0),
		     (ssize_t)asked->size, "%s", strerror(errno));
}

/* What has no reply. */
static void tell(uint32_t opcode, uint64_t nodeid, uint64_t unique,
		 uint64_t argument)
{
	const struct {
		struct fuse_in_header in;
		uint64_t argument;
	} message = {
		.in = { .len = sizeof(message), .opcode = opcode,
			.nodeid = nodeid, .unique = unique },
		.argument = argument,
	};

	cr_assert_eq(send(krig.fd, &message, sizeof(message), 0),
		     (ssize_t)sizeof(message));
}

static void tell_interrupt(const struct asked *asked)
{
	const struct fuse_in_header *in = (const void *)asked->message;

	tell(FUSE_INTERRUPT, 0, in->unique | 1, in->unique);
}

static struct asked *find_asked(uint64_t unique)
{
	for (unsigned int i = 0; i < KRIG_ASKED_MAX; i++)
		if (krig.asked[i].unique == (unique & ~KEEP_RESENT))
			return &krig.asked[i];
	return NULL;
}

/* ---- inodes ------------------------------------------------------------------- */

static struct krig_known *find_known(uint64_t nodeid)
{
	for (unsigned int i = 0; i < KRIG_KNOWN_MAX; i++)
		if (krig.known[i].nodeid == nodeid)
			return &krig.known[i];
	return NULL;
}

static void learn(uint64_t nodeid)
{
	struct krig_known *known = find_known(nodeid);

	if (!known)
		known = find_known(0);
	cr_assert(known && nodeid, "%s: inode %llu", krig.label,
		  (unsigned long long)nodeid);
	known->nodeid = nodeid;
	known->lookups++;
}

static void learn_list(const uint8_t *at, size_t size)
{
	while (size > 0) {
		const struct fuse_direntplus *entry = (const void *)at;
		size_t step = FUSE_DIRENTPLUS_SIZE(entry);

		cr_assert_leq(step, size);
		if (entry->entry_out.nodeid)
			learn(entry->entry_out.nodeid);
		at += step;
		size -= step;
	}
}

static void learn_from(const struct asked *asked)
{
	const struct fuse_in_header *in = (const void *)asked->message;
	const struct fuse_entry_out *entry = (const void *)asked->reply;

	if (asked->err)
		return;
	switch (in->opcode) {
	case FUSE_LOOKUP:
	case FUSE_MKDIR:
	case FUSE_MKNOD:
	case FUSE_SYMLINK:
	case FUSE_LINK:
	case FUSE_CREATE:
		learn(entry->nodeid);
		break;
	case FUSE_READDIRPLUS:
		learn_list(asked->reply, asked->reply_size);
		break;
	default:
		break;
	}
}

/* ---- replies ------------------------------------------------------------------ */

/* One reply, if there is one. */
static bool take_reply(void)
{
	static uint8_t message[KRIG_MESSAGE_MAX];
	const struct fuse_out_header *out = (void *)message;
	ssize_t got = recv(krig.fd, message, sizeof(message), MSG_DONTWAIT);
	struct asked *asked;

	if (got < (ssize_t)sizeof(*out))
		return false;
	if (out->unique == 0)		/* "send again", or drop pages */
		return true;
	asked = find_asked(out->unique);
	cr_assert(asked && !asked->is_replied, "%s: a second reply to %llu",
		  krig.label, (unsigned long long)out->unique);
	asked->is_replied = true;
	asked->err = out->error;
	asked->reply_size = (size_t)got - sizeof(*out);
	asked->reply = malloc(asked->reply_size + 1);
	memcpy(asked->reply, out + 1, asked->reply_size);
	learn_from(asked);
	return true;
}

/* What no daemon has read yet; it is taken out, to come after the others. */
static void find_unread(void)
{
	static uint8_t message[KRIG_MESSAGE_MAX];
	const struct fuse_in_header *in = (void *)message;
	struct asked *asked;

	for (unsigned int i = 0; i < KRIG_ASKED_MAX; i++)
		krig.asked[i].is_read = true;
	while (recv(krig.daemon_fd, message, sizeof(message),
		    MSG_DONTWAIT) > 0) {
		asked = find_asked(in->unique);
		if (asked)
			asked->is_read = false;
	}
}

static void send_all_again(bool read_ones)
{
	for (unsigned int i = 0; i < KRIG_ASKED_MAX; i++) {
		struct asked *asked = &krig.asked[i];

		if (!asked->unique || asked->is_replied ||
		    asked->is_read != read_ones)
			continue;
		asked->is_resent |= read_ones;
		send_message(asked);
		if (asked->was_interrupted)
			tell_interrupt(asked);
	}
}

static void follow(void)
{
	int status;

	cr_assert_eq(waitpid(krig.daemon, &status, 0), krig.daemon);
	cr_assert(krig.events.died &&
		  ((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ||
		   (krig.may_fail && WIFEXITED(status) &&
		    WEXITSTATUS(status) == EXIT_FAILURE)),
		  "%s: a daemon ended with %x", krig.label, status);
	krig.deaths++;
	krig.events.died();
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

	waitid(P_PID, (id_t)krig.daemon, &info, WEXITED | WNOHANG | WNOWAIT);
	return info.si_pid == krig.daemon;
}

void krig_look(void)
{
	while (take_reply())
		;
	if (has_died())
		follow();
	look_after_server();
}

static void wait_for_reply(const struct asked *asked)
{
	const struct fuse_in_header *in = (void *)asked->message;
	uint64_t end_ns = rf_now_ns() + PATIENCE_MS * UINT64_C(1000000);

	while (!asked->is_replied && rf_now_ns() < end_ns) {
		struct pollfd look = { .fd = krig.fd, .events = POLLIN };

		/* The socket does not tell of a death: its other end is open. */
		poll(&look, 1, 2);
		while (take_reply())
			;
		if (!asked->is_replied)
			krig_look();
	}
	cr_assert(asked->is_replied, "%s: no reply to opcode %u", krig.label,
		  in->opcode);
}

struct asked *krig_begin(uint32_t opcode, uint64_t nodeid, ...)
{
	static uint8_t message[KRIG_MESSAGE_MAX];
	struct fuse_in_header *in = (void *)message;
	struct asked *asked = find_asked(0);
	const void *piece;
	va_list pieces;

	cr_assert_not_null(asked);
	*in = (struct fuse_in_header){
		.len = sizeof(*in),
		.opcode = opcode,
		.nodeid = nodeid,
		.pid = krig.asker_pid ? krig.asker_pid : (uint32_t)getpid(),
		.uid = krig.asker,
		.gid = krig.asker,
	};
	va_start(pieces, nodeid);
	while ((piece = va_arg(pieces, const void *))) {
		size_t size = va_arg(pieces, size_t);

		memcpy(message + in->len, piece, size);
		in->len += (uint32_t)size;
	}
	va_end(pieces);
	*asked = (struct asked){ .unique = krig.last_unique += 2,
				 .size = in->len };
	asked->message = malloc(in->len);
	memcpy(asked->message, message, in->len);
	send_message(asked);
	return asked;
}

int krig_end(struct asked *asked, void *out, size_t size)
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

/* ---- a mount ---------------------------------------------------------------------- */

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

	OK(krig_begin(FUSE_INIT, 0, PART(init), NO_MORE));
}

static void set_options(void (*set)(struct mount_options *))
{
	struct mount_options *options = &krig.keep->options;

	options_init(options);
	snprintf(options->source, sizeof(options->source),
		 "iwarp://127.0.0.1:%u/data", krig.port);
	cr_assert_eq(options_set_source(options, options->source,
					(char[OPTIONS_ERROR_MAX]){ 0 }), 0);
	snprintf(options->mountpoint, sizeof(options->mountpoint), "%s/mnt",
		 krig.dir);
	options->memory = 8 << 20;
	options->write_slots = 2;
	options->write_part = 64 << 10;
	if (set)
		set(options);
}

void krig_mount(void (*set)(struct mount_options *options))
{
	int fds[2], size = KRIG_MESSAGE_MAX * 4;

	memset(krig.asked, 0, sizeof(krig.asked));
	memset(krig.known, 0, sizeof(krig.known));
	krig.deaths = 0;
	krig.may_fail = false;
	krig.last_unique = 0;
	krig.asker = getuid();
	krig.asker_pid = 0;
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
				fds), 0);
	krig.fd = fds[0];
	krig.daemon_fd = fds[1];
	fcntl(krig.daemon_fd, F_SETFL, O_NONBLOCK);
	for (unsigned int i = 0; i < 2; i++)
		setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	cr_assert_eq(keep_create(&krig.keep, &krig.keep_fd), 0);
	set_options(set);
	start_daemon(false);
	say_init();
}

/* Without BYE the server would run full of sessions. */
void krig_unmount(void)
{
	int status;

	/* Not closed: what was not taken from it would make that an error. */
	shutdown(krig.fd, SHUT_WR);
	cr_assert_eq(waitpid(krig.daemon, &status, 0), krig.daemon);
	close(krig.fd);
	close(krig.daemon_fd);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0,
		  "%s: the last daemon ended with %x", krig.label, status);
	munmap(krig.keep, sizeof(*krig.keep));
	close(krig.keep_fd);
}

/* Whatever a daemon died of, the next one counts lookups as we do. */
static const char *left_inode(void)
{
	const struct keep_inodes *inodes = &krig.keep->inodes;
	unsigned int ours = 0, theirs = 0;

	/* The root's are given without any. */
	for (unsigned int i = 2; i <= inodes->used; i++) {
		const struct keep_inode *kept = &inodes->v[i];
		uint64_t nodeid = (uint64_t)kept->generation << 32 | i;
		const struct krig_known *known = find_known(nodeid);

		if (!kept->is_taken)
			continue;
		theirs++;
		if (!known || known->lookups != kept->lookups)
			return "another count of lookups";
	}
	for (unsigned int i = 0; i < KRIG_KNOWN_MAX; i++)
		ours += krig.known[i].nodeid > FUSE_ROOT_ID;
	return ours == theirs ? "" : "another count of inodes";
}

/* What is left of what was asked; "" if it is nothing. */
static const char *left_over(void)
{
	const struct keep *keep = krig.keep;

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
	return left_inode();
}

/* Soon after the last reply; RELEASE has none of the server before it. */
void krig_nothing_is_kept(void)
{
	for (int left_ms = PATIENCE_MS; *left_over() && left_ms > 0; left_ms--) {
		krig_look();
		poll(NULL, 0, 1);
	}
	cr_assert_str_empty(left_over(), "%s: %s is left", krig.label,
			    left_over());
}

/* ---- requests in one line ----------------------------------------------------------- */

struct fuse_entry_out krig_look_up(uint64_t parent, const char *name,
				   int expected)
{
	struct fuse_entry_out entry = { 0 };

	EXPECT(expected, krig_begin(FUSE_LOOKUP, parent, NAME(name), NO_MORE),
	       &entry, sizeof(entry));
	return entry;
}

struct fuse_entry_out krig_mkdir(uint64_t parent, const char *name)
{
	const struct fuse_mkdir_in mkdir = { .mode = S_IFDIR | 0755 };
	struct fuse_entry_out entry;

	OK_WITH(krig_begin(FUSE_MKDIR, parent, PART(mkdir), NAME(name),
			   NO_MORE), entry);
	return entry;
}

uint64_t krig_create(uint64_t parent, const char *name, uint32_t flags,
		     uint64_t *nodeid)
{
	const struct fuse_create_in create = {
		.flags = O_CREAT | O_EXCL | O_RDWR | flags,
		.mode = S_IFREG | 0644,
	};
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} out;

	OK_WITH(krig_begin(FUSE_CREATE, parent, PART(create), NAME(name),
			   NO_MORE), out);
	*nodeid = out.entry.nodeid;
	return out.open.fh;
}

void krig_release(uint64_t nodeid, uint64_t fh)
{
	const struct fuse_release_in release = { .fh = fh };

	OK(krig_begin(FUSE_RELEASE, nodeid, PART(release), NO_MORE));
}

unsigned int krig_list(uint64_t nodeid)
{
	static uint8_t list[KRIG_DATA_SIZE];
	struct fuse_read_in read = { .size = 32768 };
	const struct fuse_open_in open = { .flags = O_RDONLY | O_DIRECTORY };
	struct fuse_release_in release = { .flags = O_RDONLY };
	struct fuse_open_out opened;
	struct asked *asked;
	unsigned int count = 0;

	OK_WITH(krig_begin(FUSE_OPENDIR, nodeid, PART(open), NO_MORE), opened);
	read.fh = release.fh = opened.fh;
	for (;;) {
		const struct fuse_direntplus *entry;
		size_t size, at = 0;

		asked = krig_begin(FUSE_READDIRPLUS, nodeid, PART(read),
				   NO_MORE);
		wait_for_reply(asked);
		size = asked->reply_size;
		OK_WITH(asked, list);
		if (size == 0)
			break;
		for (; at < size; at += FUSE_DIRENTPLUS_SIZE(entry)) {
			entry = (const void *)(list + at);
			count += entry->entry_out.nodeid != 0;
			read.offset = entry->dirent.off;
		}
	}
	OK(krig_begin(FUSE_RELEASEDIR, nodeid, PART(release), NO_MORE));
	return count;
}

static uint64_t kept_lookups(uint64_t nodeid)
{
	const struct keep_inode *kept =
		&krig.keep->inodes.v[(uint32_t)nodeid];

	return kept->is_taken && kept->generation == nodeid >> 32 ?
		       kept->lookups : 0;
}

/* What a daemon had in hand when it died, is lost with it; not so here. */
void krig_forget(uint64_t nodeid)
{
	struct krig_known *known = find_known(nodeid);
	uint64_t end_ns = rf_now_ns() + PATIENCE_MS * UINT64_C(1000000);
	unsigned int deaths;

	cr_assert(known && known->lookups > 0);
	known->lookups--;
	do {
		deaths = krig.deaths;
		tell(FUSE_FORGET, nodeid, krig.last_unique += 2, 1);
		while (kept_lookups(nodeid) != known->lookups &&
		       deaths == krig.deaths && rf_now_ns() < end_ns) {
			poll(NULL, 0, 1);
			krig_look();
		}
	} while (deaths != krig.deaths &&
		 kept_lookups(nodeid) != known->lookups);
	cr_assert_eq(kept_lookups(nodeid), known->lookups,
		     "%s: it is not forgotten", krig.label);
	if (known->lookups == 0)
		known->nodeid = 0;
}

void krig_interrupt(struct asked *asked)
{
	asked->was_interrupted = true;
	tell_interrupt(asked);
}

struct fuse_attr krig_attr(uint64_t nodeid)
{
	const struct fuse_getattr_in getattr = { 0 };
	struct fuse_attr_out out;

	OK_WITH(krig_begin(FUSE_GETATTR, nodeid, PART(getattr), NO_MORE), out);
	return out.attr;
}

struct asked *krig_lock(uint32_t opcode, uint64_t nodeid, uint64_t fh,
			uint64_t owner, uint32_t type)
{
	const struct fuse_lk_in args = {
		.fh = fh, .owner = owner,
		.lk = { .start = 0, .end = INT64_MAX, .type = type,
			.pid = (uint32_t)owner },
	};

	return krig_begin(opcode, nodeid, PART(args), NO_MORE);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mounting.c - put the file system in the tree of files, and take it out
 *
 * Operation.  Root opens /dev/fuse and calls mount(2); anybody else asks
 * fusermount3, which mounts and sends the descriptor back over a socket.  What
 * is mounted where is read from /proc/self/mountinfo, which answers also when
 * the file system itself does not.
 *
 * Ownership.  The descriptor that mounting_mount() gives is the caller's; when
 * its last copy is closed the mount is dead but still in the tree.
 *
 * When it fails.  One line by complain(), a negative errno, nothing mounted.
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- what is mounted ----------------------------------------------------- */

struct mounted {
	char device[32];	/* MAJOR:MINOR */
	char type[64];
	char source[1024];
};

/* mountinfo writes blank, tab, newline and backslash as \OOO. */
static void unescape(char *text)
{
	char *out = text;

	for (; *text; text++) {
		unsigned int byte;

		if (text[0] == '\\' && sscanf(text + 1, "%3o", &byte) == 1) {
			*out++ = (char)byte;
			text += 3;
		} else {
			*out++ = *text;
		}
	}
	*out = 0;
}

/* One line: ID PARENT MAJ:MIN ROOT POINT OPTIONS [TAG]... - TYPE SOURCE ... */
static bool parse_line(char *line, const char *mountpoint, struct mounted *out)
{
	char device[32], *point, *tail;
	int at = 0, end = 0;

	if (sscanf(line, "%*s %*s %31s %*s %n%*s%n", device, &at, &end) != 1 ||
	    end == 0)
		return false;
	point = line + at;
	tail = strstr(line + end, " - ");
	line[end] = 0;
	unescape(point);
	if (!tail || strcmp(point, mountpoint) != 0)
		return false;
	if (sscanf(tail, " - %63s %1023s", out->type, out->source) != 2)
		return false;
	unescape(out->source);
	memcpy(out->device, device, sizeof(device));
	return true;
}

/* What one sees at mountpoint: the last of what was mounted there. */
static bool find_mounted(const char *mountpoint, struct mounted *out)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t room = 0;
	bool found = false;

	if (!file)
		return false;
	while (getline(&line, &room, file) > 0)
		if (parse_line(line, mountpoint, out))
			found = true;
	free(line);
	fclose(file);
	return found;
}

static bool is_ours(const struct mounted *mounted)
{
	return strcmp(mounted->type, MOUNTING_TYPE) == 0;
}

bool mounting_device(const char *mountpoint, char out[32])
{
	struct mounted mounted;

	if (!find_mounted(mountpoint, &mounted) || !is_ours(&mounted))
		return false;
	memcpy(out, mounted.device, sizeof(mounted.device));
	return true;
}

static int absolute_above(const char *path, char out[4096])
{
	char copy[PATH_MAX], above[PATH_MAX];
	const char *last;
	char *slash;
	size_t size = strlen(path);

	while (size > 1 && path[size - 1] == '/')
		size--;
	if (size == 0)
		return -ENOENT;
	if (size >= sizeof(copy))
		return -ENAMETOOLONG;
	memcpy(copy, path, size);
	copy[size] = 0;
	slash = strrchr(copy, '/');
	last = slash ? slash + 1 : copy;
	if (!*last || strcmp(last, ".") == 0 || strcmp(last, "..") == 0)
		return realpath(copy, out) ? 0 : -errno;
	if (slash)
		*slash = 0;
	if (!realpath(!slash ? "." : *copy ? copy : "/", above))
		return -errno;
	if (snprintf(out, 4096, "%s/%s", strcmp(above, "/") ? above : "",
		     last) >= 4096)
		return -ENAMETOOLONG;
	return 0;
}

/*
 * Only the directory above is asked: the last part may be a dead mount, which
 * answers nothing.  But if it is a symbolic link (what something is mounted on is
 * none) the mount is where that leads to.
 */
int mounting_absolute(const char *path, char out[4096])
{
	enum { LINKS_MAX = 40 };	/* as in the kernel */
	char target[PATH_MAX], joined[2 * PATH_MAX];
	int err = absolute_above(path, out);

	for (unsigned int i = 0; !err && i < LINKS_MAX; i++) {
		ssize_t got = readlink(out, target, sizeof(target) - 1);

		if (got < 0)
			return 0;
		target[got] = 0;
		snprintf(joined, sizeof(joined), "%.*s/%s", *target == '/' ? 0 :
			 (int)(strrchr(out, '/') - out), out, target);
		err = absolute_above(joined, out);
	}
	return err ? err : -ELOOP;
}

/* ---- checks before mounting ---------------------------------------------- */

int mounting_check(const char *mountpoint)
{
	struct mounted mounted;
	struct stat st;
	int err;

	if (find_mounted(mountpoint, &mounted) && is_ours(&mounted)) {
		complain("%s: %s is mounted there already; unmount it first: "
			 "rdmafs umount %s", mountpoint, mounted.source,
			 mountpoint);
		return -EBUSY;
	}
	if (stat(mountpoint, &st) < 0) {
		err = -errno;
		if (err == -ENOENT)
			complain("%s: no such directory; make it first: "
				 "mkdir -p %s", mountpoint, mountpoint);
		else
			complain("can't use %s as mount point: %s", mountpoint,
				 strerror(-err));
		return err;
	}
	if (!S_ISDIR(st.st_mode)) {
		complain("%s: not a directory; a mount point must be one",
			 mountpoint);
		return -ENOTDIR;
	}
	return 0;
}

/* ---- root: mount(2) ------------------------------------------------------ */

static unsigned long mount_flags(const struct mount_options *options)
{
	return (options->is_read_only ? MS_RDONLY : 0ul) |
	       (options->allow_dev ? 0ul : MS_NODEV) |
	       (options->allow_suid ? 0ul : MS_NOSUID) |
	       (options->no_exec ? MS_NOEXEC : 0ul) |
	       (options->no_atime ? MS_NOATIME : 0ul) |
	       (options->no_diratime ? MS_NODIRATIME : 0ul) |
	       (options->is_strict_atime ? MS_STRICTATIME : 0ul);
}

int mounting_remount(const struct mount_options *options)
{
	int err;

	if (mount(options->source, options->mountpoint, MOUNTING_TYPE,
		  MS_REMOUNT | mount_flags(options), NULL) == 0)
		return 0;
	err = -errno;
	complain("can't change the mount on %s: %s", options->mountpoint,
		 strerror(-err));
	return err;
}

static int open_device(void)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	int err = -errno;

	if (fd >= 0)
		return fd;
	if (err == -ENOENT || err == -ENODEV || err == -ENXIO)
		complain("this kernel offers no FUSE: load it with modprobe "
			 "fuse (in a container: give it --device /dev/fuse)");
	else
		complain("can't open /dev/fuse: %s", strerror(-err));
	return err;
}

static int mount_as_root(const struct mount_options *options, int *fuse_fd)
{
	char data[256];
	int fd, err;

	fd = open_device();
	if (fd < 0)
		return fd;
	snprintf(data, sizeof(data), "fd=%d,rootmode=40000,user_id=%u,"
		 "group_id=%u,default_permissions%s", fd, geteuid(), getegid(),
		 options->allow_other ? ",allow_other" : "");
	if (mount(options->source, options->mountpoint, MOUNTING_TYPE,
		  mount_flags(options), data) < 0) {
		err = -errno;
		complain("mounting on %s failed: %s%s", options->mountpoint,
			 strerror(-err), err == -EPERM ?
			 "; mount(2) needs CAP_SYS_ADMIN (in a container: "
			 "--cap-add SYS_ADMIN)" : "");
		close(fd);
		return err;
	}
	*fuse_fd = fd;
	return 0;
}

/* ---- anybody else: fusermount3 ------------------------------------------- */

enum { HELPER_TEXT_MAX = 512 };

/* Backslashes in front of what would end the option. */
static void escape_option(char *out, size_t room, const char *text)
{
	char *end = out + room - 2;

	for (; *text && out < end; text++) {
		if (*text == ',' || *text == '\\')
			*out++ = '\\';
		*out++ = *text;
	}
	*out = 0;
}

static void helper_options(const struct mount_options *options, char *out,
			   size_t room)
{
	char source[2 * sizeof(options->source)];

	escape_option(source, sizeof(source), options->source);
	snprintf(out, room, "fsname=%s,subtype=rdmafs,default_permissions,"
		 "%s,%s,%s%s%s%s", source,
		 options->is_read_only ? "ro" : "rw",
		 options->allow_dev ? "dev" : "nodev",
		 options->allow_suid ? "suid" : "nosuid",
		 options->no_exec ? ",noexec" : "",
		 options->no_atime ? ",noatime" : "",
		 options->allow_other ? ",allow_other" : "");
}

/* The environment with _FUSE_COMMFD=fd in it; free() the array. */
static char **helper_environment(char *variable)
{
	size_t count = 0, used = 0;
	char **out;

	while (environ[count])
		count++;
	out = calloc(count + 2, sizeof(*out));
	if (!out)
		return NULL;
	for (size_t i = 0; i < count; i++)
		if (strncmp(environ[i], "_FUSE_COMMFD=", 13) != 0)
			out[used++] = environ[i];
	out[used] = variable;
	return out;
}

/* Start fusermount3 with the socket (if not -1) and the pipe as stderr. */
static int spawn_helper(char *const argv[], int socket, int error_pipe,
			pid_t *child)
{
	posix_spawn_file_actions_t actions;
	char variable[32];
	char **environment;
	int err;

	snprintf(variable, sizeof(variable), "_FUSE_COMMFD=%d", socket);
	environment = helper_environment(variable);
	if (!environment)
		return -ENOMEM;
	err = posix_spawn_file_actions_init(&actions);
	if (err)
		goto out_environment;
	err = posix_spawn_file_actions_adddup2(&actions, error_pipe, 2);
	/* Onto itself: takes close-on-exec off, in the child only. */
	if (!err && socket >= 0)
		err = posix_spawn_file_actions_adddup2(&actions, socket,
						       socket);
	if (!err)
		err = posix_spawnp(child, argv[0], &actions, NULL, argv,
				   environment);
	posix_spawn_file_actions_destroy(&actions);
out_environment:
	free(environment);
	return -err;
}

/* What the helper said, on one line without its end. */
static void read_text(int fd, char text[HELPER_TEXT_MAX])
{
	size_t used = 0;
	ssize_t got;

	while (used < HELPER_TEXT_MAX - 1) {
		got = read(fd, text + used, HELPER_TEXT_MAX - 1 - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		used += (size_t)got;
	}
	while (used > 0 && text[used - 1] == '\n')
		used--;
	text[used] = 0;
	for (char *at = text; *at; at++)
		if (*at == '\n')
			*at = ';';
}

/*
 * Run fusermount3 to its end.  0 if it succeeded; text is what it said.
 * Whoever it mounts for keeps the other end of the socket.
 */
static int run_helper(char *const argv[], int socket,
		      char text[HELPER_TEXT_MAX])
{
	int fds[2], status, err;
	pid_t child;

	text[0] = 0;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	err = spawn_helper(argv, socket, fds[1], &child);
	close(fds[1]);
	if (err) {
		snprintf(text, HELPER_TEXT_MAX, "can't run %s: %s%s", argv[0],
			 strerror(-err), err == -ENOENT ?
			 " (Debian: apt install fuse3)" : "");
		goto out;
	}
	read_text(fds[0], text);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR) {
			err = -errno;
			goto out;
		}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		err = -EPERM;
	if (err && !text[0])
		snprintf(text, HELPER_TEXT_MAX, "%s failed", argv[0]);
out:
	close(fds[0]);
	return err;
}

/* The descriptor that the helper sent, or -EPROTO. */
static int receive_fd(int socket)
{
	ssize_t got;
	char byte;
	int fd;

	do {
		got = pass_fd_receive(socket, 0, &byte, &fd);
	} while (got < 0 && errno == EINTR);
	return fd >= 0 ? fd : -EPROTO;
}

/* fusermount3 gives a blocking descriptor; the reactor needs the other kind. */
static int set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	return 0;
}

static int unmount_by_helper(const char *mountpoint, bool is_lazy,
			     char text[HELPER_TEXT_MAX])
{
	char *const lazily[] = {
		(char[]){ "fusermount3" }, (char[]){ "-u" }, (char[]){ "-z" },
		(char[]){ "--" }, (char *)(uintptr_t)mountpoint, NULL,
	};
	char *const plainly[] = {
		(char[]){ "fusermount3" }, (char[]){ "-u" }, (char[]){ "--" },
		(char *)(uintptr_t)mountpoint, NULL,
	};

	return run_helper(is_lazy ? lazily : plainly, -1, text);
}

static int mount_by_helper(const struct mount_options *options, int *fuse_fd)
{
	char list[3072], text[HELPER_TEXT_MAX];
	char *const argv[] = {
		(char[]){ "fusermount3" }, (char[]){ "-o" }, list,
		(char[]){ "--" }, (char *)(uintptr_t)options->mountpoint, NULL,
	};
	int sockets[2], fd, err;

	helper_options(options, list, sizeof(list));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0) {
		err = -errno;
		complain("no socket pair for fusermount3: %s", strerror(-err));
		return err;
	}
	err = run_helper(argv, sockets[1], text);
	close(sockets[1]);
	if (err) {
		complain("mounting on %s failed: %s", options->mountpoint, text);
		goto out;
	}
	fd = receive_fd(sockets[0]);
	err = fd < 0 ? fd : set_nonblocking(fd);
	if (err) {
		complain("fusermount3 gave no usable descriptor: %s",
			 strerror(-err));
		unmount_by_helper(options->mountpoint, true, text);
		if (fd >= 0)
			close(fd);
		goto out;
	}
	*fuse_fd = fd;
out:
	close(sockets[0]);
	return err;
}

int mounting_mount(const struct mount_options *options, int *fuse_fd)
{
	int err = mounting_check(options->mountpoint);

	if (err)
		return err;
	if (geteuid() == 0)
		return mount_as_root(options, fuse_fd);
	return mount_by_helper(options, fuse_fd);
}

/* ---- unmount ------------------------------------------------------------- */

static int unmount_as_root(const char *mountpoint, bool is_lazy,
			   char text[HELPER_TEXT_MAX])
{
	int err;

	if (umount2(mountpoint, UMOUNT_NOFOLLOW |
		    (is_lazy ? MNT_DETACH : 0)) == 0)
		return 0;
	err = -errno;
	if (err == -EBUSY)
		snprintf(text, HELPER_TEXT_MAX, "in use: a program has a file "
			 "open or its working directory there (fuser -vm %.200s "
			 "names it); end it, or unmount lazily with -l",
			 mountpoint);
	else
		snprintf(text, HELPER_TEXT_MAX, "%s", strerror(-err));
	return err;
}

/* Where fusectl is not mounted.  Held busy, the mount is aborted and stays. */
static void abort_as_root(const char *mountpoint)
{
	int fd = open(mountpoint, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (geteuid() == 0)
		umount2(mountpoint, UMOUNT_NOFOLLOW | MNT_FORCE);
	close(fd);
}

/* Where nobody has mounted fusectl: for us alone.  Only root may. */
static int open_fusectl(void)
{
	int fs = fsopen("fusectl", FSOPEN_CLOEXEC), dir = -1;

	if (fs < 0)
		return -1;
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
		dir = fsmount(fs, FSMOUNT_CLOEXEC, 0);
	close(fs);
	return dir;
}

static bool write_abort(int dir, const char *path)
{
	int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, "1", 1) == 1;

	if (fd >= 0)
		close(fd);
	return done;
}

/* The number of a connection is the minor number of its mounts. */
static bool abort_connection(const char *device)
{
	const char *minor = strchr(device, ':');
	char path[64];
	bool done;
	int dir;

	snprintf(path, sizeof(path), "/sys/fs/fuse/connections/%.16s/abort",
		 minor ? minor + 1 : "");
	if (write_abort(AT_FDCWD, path))
		return true;
	dir = open_fusectl();
	if (dir < 0)
		return false;
	done = write_abort(dir, path + strlen("/sys/fs/fuse/connections/"));
	close(dir);
	return done;
}

void mounting_abort(const char *mountpoint)
{
	struct mounted mounted;

	if (find_mounted(mountpoint, &mounted) && is_ours(&mounted) &&
	    !abort_connection(mounted.device))
		abort_as_root(mountpoint);
}

/*
 * After its last use the kernel takes a mount apart, but waits first for pages that are
 * just being dropped (cache.c), which wait for a READ, which a server that is away does
 * not answer: nobody wants it any more, so it is ended.  A mount that is still in the
 * tree is not.
 */
struct unmounting {
	const char *mountpoint, *device;
	int fds[2];
	pthread_t thread;
};

enum { UNMOUNT_MS = 3000 };

static bool is_in_tree(const struct unmounting *unmounting)
{
	struct mounted mounted;

	return find_mounted(unmounting->mountpoint, &mounted) &&
	       strcmp(mounted.device, unmounting->device) == 0;
}

static void *watch_unmounting(void *context)
{
	const struct unmounting *unmounting = context;
	struct pollfd end = { .fd = unmounting->fds[0], .events = POLLIN };

	while (poll(&end, 1, UNMOUNT_MS) == 0)
		if (!is_in_tree(unmounting))
			abort_connection(unmounting->device);
	return NULL;
}

/* False: it goes on unwatched. */
static bool unmounting_start(struct unmounting *unmounting)
{
	if (pipe2(unmounting->fds, O_CLOEXEC) < 0)
		return false;
	if (pthread_create(&unmounting->thread, NULL, watch_unmounting,
			   unmounting) == 0)
		return true;
	close(unmounting->fds[0]);
	close(unmounting->fds[1]);
	return false;
}

static void unmounting_stop(struct unmounting *unmounting)
{
	close(unmounting->fds[1]);
	pthread_join(unmounting->thread, NULL);
	close(unmounting->fds[0]);
}

/* Else one wonders why the daemon stays. */
static void say_elsewhere(const char *mountpoint, const char *device)
{
	char who[64];

	if (mounting_elsewhere(device, who, sizeof(who)))
		rf_log(RF_LOG_WARN, "%s is unmounted here, but not in the "
		       "mount namespace of %s: it is served until it is gone "
		       "there, too", mountpoint, who);
}

int mounting_unmount(const char *mountpoint, bool is_lazy)
{
	struct unmounting unmounting = { .mountpoint = mountpoint };
	char text[HELPER_TEXT_MAX] = "";
	struct mounted mounted;
	bool is_watched;
	int err;

	if (!find_mounted(mountpoint, &mounted) || !is_ours(&mounted)) {
		complain("%s: no rdmafs is mounted there", mountpoint);
		return -EINVAL;
	}
	unmounting.device = mounted.device;
	is_watched = unmounting_start(&unmounting);
	if (geteuid() == 0)
		err = unmount_as_root(mountpoint, is_lazy, text);
	else
		err = unmount_by_helper(mountpoint, is_lazy, text);
	if (is_watched)
		unmounting_stop(&unmounting);
	if (err)
		complain("can't unmount %s: %s", mountpoint, text);
	else
		say_elsewhere(mountpoint, mounted.device);
	return err;
}

/* ---- read-ahead ---------------------------------------------------------- */

/*
 * The device number comes from mountinfo: a stat would be a request to the very
 * file system that is being set up.
 */
void mounting_set_read_ahead(const char *mountpoint, uint32_t kib)
{
	struct mounted mounted;
	char path[96], value[16];
	int fd, size, err = 0;

	if (!find_mounted(mountpoint, &mounted) || !is_ours(&mounted))
		return;
	snprintf(path, sizeof(path), "/sys/class/bdi/%s/read_ahead_kb",
		 mounted.device);
	size = snprintf(value, sizeof(value), "%u", kib);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, value, (size_t)size) != size)
		err = errno;
	if (fd >= 0)
		close(fd);
	if (err)
		rf_log(RF_LOG_WARN, "read-ahead stays at the kernel's default: "
		       "%s: %s; reading will be slower (root may write %u "
		       "there)", path, strerror(err), kib);
}

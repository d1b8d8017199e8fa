/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - the commands: rdmafs mount | umount | ..., and mount.rdmafs
 *
 * Operation.  A mount connects first and mounts then, so that a server that is
 * not there leaves no dead mount behind.  Unless -f was given all that happens
 * in a child, and the command ends when the mount answers.
 *
 * When it fails.  One line on stderr; exit status 1, or 2 for a wrong command
 * line (mount.rdmafs: 1, as mount(8) wants it).
 */
#include "client.h"

#include "keep.h"
#include "supervisor.h"
#include "tune.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <mntent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static const char usage_text[] =
"usage: rdmafs mount [FABRIC://]HOST[:PORT]/EXPORT MOUNTPOINT [-o OPTIONS] [-f]\n"
"       rdmafs mount HOST:/EXPORT MOUNTPOINT [-o OPTIONS] [-f]\n"
"       rdmafs umount [-l] [-f] MOUNTPOINT\n"
"       rdmafs upgrade MOUNTPOINT\n"
"       rdmafs keygen FILE\n"
"       rdmafs doctor [-q] [-w SECONDS] [-o OPTIONS] [HOST[:PORT][/EXPORT]]\n"
"       rdmafs tune [-s SECONDS] [-o OPTIONS] [FABRIC://]HOST[:PORT]\n"
"       rdmafs tune --serve [FABRIC://]ADDRESS[:PORT]\n"
"       rdmafs version\n"
"       mount -t rdmafs SOURCE MOUNTPOINT [-o OPTIONS]\n"
"\n"
"  -f   mount: stay in the foreground and log to stderr\n"
"       umount: whatever waits for the server fails at once\n"
"  -l   take the mount out of the tree now, even if it is in use\n"
"  -q   tell only warnings and problems\n"
"  -w   look at the counters twice, and tell what grew in between\n"
"\n"
"Options after -o, separated by commas (defaults in brackets):\n"
"  key=FILE            the cluster key, made by rdmafs keygen\n"
"  ro                  read-only\n"
"  allow_other         let other users in [as root: on]; noallow_other\n"
"  dev suid noexec noatime strictatime   as in mount(8) [nodev, nosuid];\n"
"                      allow_dev allow_suid: the same, through mount(8)\n"
"  hard                wait for a server that is away for as long as it is [yes]\n"
"  soft                fail with EIO after timeo=SECONDS [60]\n"
"  mount_timeo=SECONDS give up when the server does not answer a mount [10]\n"
"  rpc_timeo=SECONDS   reconnect when an answer does not come [60]\n"
"  nosupervisor        if the daemon dies, so does the mount\n"
"  no_resend           what was not answered when it dies fails with EIO, as on\n"
"                      kernels before 6.9\n"
"  log=LEVEL           error, warn, info or debug [info]\n"
"  memory=SIZE         registered memory [64M]; huge_pages\n"
"  read_ahead=KIB      the kernel reads so much ahead, as root only [2048]\n"
"  slots=N             requests in flight [64]\n"
"  write_slots=N       writes of 1 MiB in flight [16]\n"
"  read_block=SIZE write_block=SIZE   one one-sided operation\n"
"                      [256K over iwarp, else 64K; 128K]\n"
"  write_part=SIZE     a large write goes in parts of this size [256K]\n"
"  read_depth=N        one-sided Reads in flight [16]\n"
"  send_depth=N        work queue [512]\n"
"  inline_max=SIZE     data of up to this size go inside a message [4K]\n"
"  poll_us=N           poll so long before sleeping [0]\n"
"  cq_count=N cq_usec=N   a device's event tells of up to so many completions,\n"
"                      after so many us at the latest [8, 4]\n"
"  tos=N               type of service, traffic class [the system's]\n"
"  source=ADDRESS      come from this address [as routed]\n"
"  gid_index=N         RoCE: come from the address of this GID [as routed]\n"
"  max_inodes=N        files known at once; beyond them ENOMEM [16777216]\n"
"  no_crc              no checksums over data in flight\n"
"  no_pipeline         one transfer at a time, for measurements\n"
"Sizes take K, M or G; times are seconds, or milliseconds with ms.\n";

/* Allocations of this size and more go back to the kernel when they are freed; a
 * chunk of inodes is larger. */
enum { MAPPED_LEAST = 128 << 10 };

static int wrong_usage(const char *what)
{
	complain("%s; see rdmafs --help", what);
	return EXIT_USAGE;
}

/* ---- mount --------------------------------------------------------------- */

struct serving {
	const struct mount_options *options;
	int ready_fd;		/* -1: nobody waits */
	int control_fd;		/* -1: there is no supervisor */
};

/* The kernel has its INIT answer.  Nothing here may ask the mount. */
static void is_ready(void *context)
{
	struct serving *serving = context;
	const struct mount_options *options = serving->options;

	/* While a terminal can still be told that it did not work. */
	mounting_set_read_ahead(options->mountpoint, options->read_ahead);
	if (serving->ready_fd >= 0)
		background_ready(serving->ready_fd);
	else if (!options->is_foreground)
		background_leave();
	rf_log(RF_LOG_INFO, "%s is mounted on %s", options->source,
	       options->mountpoint);
	if (serving->control_fd >= 0)
		supervisor_tell(serving->control_fd, SUPERVISOR_READY, -1);
}

/* Until the mount is gone; the exit status. */
static int serve_mounted(struct fs *fs, int fuse_fd,
			 void (*ready)(void *context), struct serving *serving)
{
	int err = fs_serve(fs, fuse_fd, ready, serving);

	if (err)
		complain("the mount of %s on %s ended: %s",
			 serving->options->source,
			 serving->options->mountpoint, strerror(-err));
	fs_disconnect(fs);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int serve(struct keep *keep, int ready_fd, int control_fd)
{
	const struct mount_options *options = &keep->options;
	struct serving serving = { options, ready_fd, control_fd };
	struct fs *fs;
	int fuse_fd;

	if (mounting_check(options->mountpoint) < 0 ||
	    fs_connect(keep, false, control_fd, &fs) < 0)
		return EXIT_FAILURE;
	if (mounting_mount(options, &fuse_fd) < 0) {
		fs_disconnect(fs);
		return EXIT_FAILURE;
	}
	if (control_fd >= 0)
		supervisor_tell(control_fd, SUPERVISOR_MOUNTED, fuse_fd);
	return serve_mounted(fs, fuse_fd, is_ready, &serving);
}

static int serve_supervised(struct keep *keep, int control_fd)
{
	return serve(keep, -1, control_fd);
}

static int serve_alone(const struct mount_options *options, int ready_fd)
{
	struct keep *keep;
	int fd, err = keep_create(&keep, &fd);

	if (err) {
		complain("no memory: %s%s", strerror(-err),
			 rf_process_hint(err));
		return EXIT_FAILURE;
	}
	close(fd);
	keep->options = *options;
	return serve(keep, ready_fd, -1);
}

static int start(const struct mount_options *options)
{
	int child = 0, ready_fd = -1;

	if (options->is_remount)
		return mounting_remount(options) ? EXIT_FAILURE : EXIT_SUCCESS;
	rf_log_set_level(options->log_level);
	if (!options->is_foreground)
		child = background_fork(&ready_fd);
	if (child < 0) {
		complain("can't start a process: %s", strerror(-child));
		return EXIT_FAILURE;
	}
	if (child > 0)
		return background_wait(child, ready_fd, options->mountpoint);
	if (options->no_supervisor)
		return serve_alone(options, ready_fd);
	return supervise(options, ready_fd, serve_supervised);
}

/* ---- successor ------------------------------------------------------------- */

static void goes_on(void *context)
{
	const struct serving *serving = context;

	rf_log(RF_LOG_WARN, "rdmafs " RDMAFS_VERSION " (process %d) goes on "
	       "with %s on %s", (int)getpid(), serving->options->source,
	       serving->options->mountpoint);
	supervisor_tell(serving->control_fd, SUPERVISOR_READY, -1);
}

/* What supervisor.c starts: successor FUSE,KEEP,CONTROL MOUNTPOINT. */
static int command_successor(int argc, char **argv)
{
	struct serving serving = { .ready_fd = -1 };
	int fuse_fd, keep_fd, err;
	struct keep *keep;
	struct fs *fs;

	if (argc != 3 || sscanf(argv[1], "%d,%d,%d", &fuse_fd, &keep_fd,
				&serving.control_fd) != 3)
		return wrong_usage("only a supervisor starts this");
	prctl(PR_SET_NAME, "rdmafs");
	fcntl(fuse_fd, F_SETFD, FD_CLOEXEC);
	fcntl(serving.control_fd, F_SETFD, FD_CLOEXEC);
	err = keep_map(keep_fd, &keep);
	close(keep_fd);
	if (err) {
		complain("can't go on with the mount on %s: %s", argv[2],
			 err == -EPROTONOSUPPORT ? "this version can't take it "
			 "over from that one; unmount it and mount it again" :
			 strerror(-err));
		return EXIT_FAILURE;
	}
	serving.options = &keep->options;
	rf_log_set_level(keep->options.log_level);
	if (!keep->options.is_foreground)
		complain_to_syslog();
	if (fs_connect(keep, true, serving.control_fd, &fs) < 0)
		return EXIT_FAILURE;
	return serve_mounted(fs, fuse_fd, goes_on, &serving);
}

static int command_upgrade(int argc, char **argv)
{
	char mountpoint[4096];
	int err;

	if (argc != 2 || argv[1][0] == '-')
		return wrong_usage("needs a mount point");
	err = mounting_absolute(argv[1], mountpoint);
	if (!err)
		return upgrade(mountpoint);
	complain("%s: %s", argv[1], strerror(-err));
	return EXIT_FAILURE;
}

/* Where to mount; the error was said. */
static int set_mountpoint(struct mount_options *options, const char *mountpoint)
{
	int err = mounting_absolute(mountpoint, options->mountpoint);

	if (err)
		complain("can't use %s as mount point: %s", mountpoint,
			 strerror(-err));
	return err;
}

static int command_mount(int argc, char **argv)
{
	struct mount_options options;
	char error[OPTIONS_ERROR_MAX];
	int letter;

	options_init(&options);
	while ((letter = getopt(argc, argv, "o:f")) != -1)
		if (letter == 'f')
			options.is_foreground = true;
		else if (letter != 'o')
			return wrong_usage("unknown option");
		else if (options_parse(&options, optarg, error) < 0)
			return wrong_usage(error);
	if (argc - optind != 2)
		return wrong_usage("needs a source and a mount point");
	if (options_set_source(&options, argv[optind], error) < 0)
		return wrong_usage(error);
	if (set_mountpoint(&options, argv[optind + 1]) < 0)
		return EXIT_FAILURE;
	return start(&options);
}

static int parse_for_helper(struct mount_options *options, const char *list,
			    char error[OPTIONS_ERROR_MAX])
{
	const struct mntent words = { .mnt_opts = (char *)(uintptr_t)list };
	int err = options_parse(options, list, error);

	/* mount(8) gives a remount all that the mount is: what it leaves out is
	 * asked for. */
	if (!err && options->is_remount) {
		options->allow_dev = options->allow_suid = true;
		err = options_parse(options, list, error);
	}
	/* It puts its own words first, wherever they stood. */
	if (hasmntopt(&words, "nodev"))
		options->allow_dev = false;
	if (hasmntopt(&words, "nosuid"))
		options->allow_suid = false;
	return err;
}

/*
 * mount(8) calls: mount.rdmafs SOURCE MOUNTPOINT [-sfnv] [-N ...] [-t ...]
 * [-o ...].  Here -f means fake: check, but don't mount.  2 would be "system
 * error" to mount(8), so wrong usage is 1.  As mount(8) does, it says nothing when
 * all is well, unless -v asks for it.
 */
static int helper_mount(int argc, char **argv)
{
	struct mount_options options;
	char error[OPTIONS_ERROR_MAX];
	bool is_fake = false, is_verbose = false;
	int letter;

	complain_set_command("mount");
	options_init(&options);
	while ((letter = getopt(argc, argv, "o:sfnvN:t:")) != -1)
		if (letter == '?') {
			complain("mount.rdmafs: unknown option");
			return EXIT_FAILURE;
		} else if (letter == 'f') {
			is_fake = true;
		} else if (letter == 'v') {
			is_verbose = true;
		} else if (letter == 'o' &&
			   parse_for_helper(&options, optarg, error) < 0) {
			complain("%s", error);
			return EXIT_FAILURE;
		}
	if (argc - optind != 2) {
		complain("mount.rdmafs needs a source and a mount point");
		return EXIT_FAILURE;
	}
	if (options_set_source(&options, argv[optind], error) < 0) {
		complain("%s", error);
		return EXIT_FAILURE;
	}
	if (set_mountpoint(&options, argv[optind + 1]) < 0)
		return EXIT_FAILURE;
	if (is_fake)
		return EXIT_SUCCESS;
	if (!is_verbose)
		rf_log_to_syslog("rdmafs", RF_LOG_INFO);
	return start(&options);
}

/* ---- the other commands -------------------------------------------------- */

static int command_umount(int argc, char **argv)
{
	char mountpoint[4096];
	bool is_lazy = false, is_forced = false;
	int letter, err;

	while ((letter = getopt(argc, argv, "lf")) != -1) {
		if (letter != 'l' && letter != 'f')
			return wrong_usage("unknown option");
		is_lazy |= letter == 'l';
		is_forced |= letter == 'f';
	}
	if (argc - optind != 1)
		return wrong_usage("needs a mount point");
	err = mounting_absolute(argv[optind], mountpoint);
	if (err) {
		complain("%s: %s", argv[optind], strerror(-err));
		return EXIT_FAILURE;
	}
	if (is_forced)
		mounting_abort(mountpoint);
	return mounting_unmount(mountpoint, is_lazy) ? EXIT_FAILURE :
						       EXIT_SUCCESS;
}

static int command_keygen(int argc, char **argv)
{
	if (argc != 2 || argv[1][0] == '-')
		return wrong_usage("needs the name of a file");
	return keygen(argv[1]);
}

static int command_version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("rdmafs %s, protocol %d\n", RDMAFS_VERSION,
	       RF_PROTOCOL_VERSION);
	return EXIT_SUCCESS;
}

static int command_help(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	fputs(usage_text, stdout);
	return EXIT_SUCCESS;
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "mount", command_mount },
	{ "umount", command_umount },
	{ "unmount", command_umount },
	{ "upgrade", command_upgrade },
	{ "successor", command_successor },
	{ "keygen", command_keygen },
	{ "doctor", doctor_command },
	{ "tune", tune_command },
	{ "version", command_version },
	{ "--version", command_version },
	{ "help", command_help },
	{ "--help", command_help },
	{ "-h", command_help },
};

int main(int argc, char **argv)
{
	const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
	const char *name = slash ? slash + 1 : argc > 0 ? argv[0] : "";

	rf_process_init();
	opterr = 0;
	/* Else the C library raises it, and keeps what tables and backlog free. */
	mallopt(M_MMAP_THRESHOLD, MAPPED_LEAST);
	/* The second: a remount goes by the type that the kernel shows. */
	if (strcmp(name, "mount.rdmafs") == 0 ||
	    strcmp(name, "mount.fuse.rdmafs") == 0)
		return helper_mount(argc, argv);
	if (argc < 2) {
		fputs(usage_text, stderr);
		return EXIT_USAGE;
	}
	for (size_t i = 0; i < RF_ARRAY_SIZE(commands); i++)
		if (strcmp(argv[1], commands[i].name) == 0) {
			complain_set_command(argv[1]);
			return commands[i].run(argc - 1, argv + 1);
		}
	complain("unknown command '%s'; see rdmafs --help", argv[1]);
	return EXIT_USAGE;
}

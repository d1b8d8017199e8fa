/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_args.c - the command line
 *
 * Operation.  Each long option is a word of config.c with the same name.  The
 * file named by --config is read first, wherever it stands, so that the command
 * line wins; --listen replaces the listen addresses of the file.
 */
#include "config.h"

#include "libproto/doctor.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>

#ifndef RDMAFS_VERSION
#define RDMAFS_VERSION "0.1"
#endif

enum { OPT_HELP = 'h', OPT_VERSION = 'V', OPT_CONFIG = 'c', OPT_WORD = 1,
       OPT_DOCTOR };

static const struct option options[] = {
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "doctor", optional_argument, NULL, OPT_DOCTOR },
	{ "listen", required_argument, NULL, OPT_WORD },
	{ "store", required_argument, NULL, OPT_WORD },
	{ "key-file", required_argument, NULL, OPT_WORD },
	{ "export", required_argument, NULL, OPT_WORD },
	{ "insecure", no_argument, NULL, OPT_WORD },
	{ "staging", required_argument, NULL, OPT_WORD },
	{ "session-staging", required_argument, NULL, OPT_WORD },
	{ "slice-staging", required_argument, NULL, OPT_WORD },
	{ "slices", required_argument, NULL, OPT_WORD },
	{ "sessions", required_argument, NULL, OPT_WORD },
	{ "greeters", required_argument, NULL, OPT_WORD },
	{ "opens", required_argument, NULL, OPT_WORD },
	{ "slots", required_argument, NULL, OPT_WORD },
	{ "reserve", required_argument, NULL, OPT_WORD },
	{ "durability", required_argument, NULL, OPT_WORD },
	{ "reactors", required_argument, NULL, OPT_WORD },
	{ "workers", required_argument, NULL, OPT_WORD },
	{ "reactor-store", required_argument, NULL, OPT_WORD },
	{ "log-level", required_argument, NULL, OPT_WORD },
	{ "poll-us", required_argument, NULL, OPT_WORD },
	{ "send-depth", required_argument, NULL, OPT_WORD },
	{ "cq-count", required_argument, NULL, OPT_WORD },
	{ "cq-usec", required_argument, NULL, OPT_WORD },
	{ "tos", required_argument, NULL, OPT_WORD },
	{ "gid-index", required_argument, NULL, OPT_WORD },
	{ "inline-max", required_argument, NULL, OPT_WORD },
	{ "crc", required_argument, NULL, OPT_WORD },
	{ "hello-ms", required_argument, NULL, OPT_WORD },
	{ "keepalive-ms", required_argument, NULL, OPT_WORD },
	{ "grant-ms", required_argument, NULL, OPT_WORD },
	{ "lease-ms", required_argument, NULL, OPT_WORD },
	{ "grace-ms", required_argument, NULL, OPT_WORD },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
"usage: rdmafsd --store DIR --export NAME=SUBDIR [OPTION]...\n"
"Serve a store to rdmafs clients, in the foreground; the log goes to stderr.\n"
"\n"
"  --config FILE          read FILE (INI) first; the command line wins\n"
"  --store DIR            where everything is kept; made at the first start\n"
"  --export NAME=SUBDIR[,ro][,root-squash][,allow=NETWORK]...\n"
"                         let clients mount SUBDIR of the store as NAME\n"
"  --listen FABRIC://ADDRESS:PORT\n"
"                         iwarp (TCP), verbs (RDMA devices; [::]: all of them)\n"
"                         or any (verbs where there is a device, and iwarp);\n"
"                         may be repeated; port 0 takes a free one\n"
"                         (any://[::]:20490, IPv4 too)\n"
"  --key-file FILE        clients must have this key (rdmafs keygen FILE);\n"
"                         without one, only this user on this machine\n"
"  --insecure             without a key, let everyone in\n"
"  --durability WORD      normal: safe at fsync; strict: at each answer\n"
"  --reserve BYTES        keep this much of the disk free (2 % of it, from\n"
"                         64M to 512M)\n"
"  --staging BYTES        memory that data pass through, in all (64M)\n"
"  --session-staging BYTES    and of one session (half of it)\n"
"  --sessions N           clients at once (64)\n"
"  --slices N             connections of an RDMA device without memory windows\n"
"                         (16), which have memory of their own, used or not:\n"
"  --slice-staging BYTES  of each, for data (8M)\n"
"  --slots N              requests in flight of one session (64)\n"
"  --opens N              open files of one session (65536)\n"
"  --greeters N           connections that have not said HELLO (256)\n"
"  --hello-ms N           how long they may take for it (5000)\n"
"  --keepalive-ms N       find a dead client after this long (15000)\n"
"  --lease-ms N           keep what a lost client has open this long (60000)\n"
"  --grace-ms N           after a start, wait this long for all clients of\n"
"                         before to come back (as --lease-ms)\n"
"  --grant-ms N           when memory is short, take back what a client was lent\n"
"                         and did not use for this long; 0: never (30000)\n"
"  --workers N            threads for what waits for the disk (4)\n"
"  --reactor-store BYTES  the reactor stores so much by itself in one turn,\n"
"                         the rest is for workers (1M)\n"
"  --reactors N           1 in this version\n"
"  --poll-us N            spin this long before sleeping (0)\n"
"  --send-depth N         work queue of each connection (1024)\n"
"  --cq-count N --cq-usec N\n"
"                         a device's event tells of up to N completions (8),\n"
"                         after N us at the latest (4)\n"
"  --tos N                type of service, traffic class (the system's)\n"
"  --gid-index N          RoCE: listen at the address of this GID\n"
"  --inline-max BYTES     data inside messages up to this (4096)\n"
"  --crc yes|no           checksums over data on the way (yes)\n"
"  --log-level WORD       error, warn, info, debug (info)\n"
"  --doctor[=SECONDS]     serve nothing, but tell what is wrong with RDMA on\n"
"                         this host; watch the counters for so long\n"
"  --help, --version\n"
"\n"
"SIGTERM: finish, and exit 0.  SIGUSR1: write figures to the log.\n";

static int read_named_file(struct config *config, int argc, char **argv)
{
	int option, err = 0;

	/* Complaints about unknown options come in the second pass. */
	opterr = 0;
	optind = 0;
	while (!err && (option = getopt_long(argc, argv, "hVc:", options,
					     NULL)) != -1)
		if (option == OPT_CONFIG)
			err = config_read_file(config, optarg);
	return err;
}

static int take_word(struct config *config, const struct option *option,
		     bool *has_listen)
{
	char place[64];

	snprintf(place, sizeof(place), "--%s", option->name);
	if (strcmp(option->name, "listen") == 0 && !*has_listen) {
		config->listen_count = 0;
		*has_listen = true;
	}
	return config_set(config, place, option->name,
			  option->has_arg == no_argument ? "yes" : optarg);
}

static int take_doctor(struct config *config)
{
	uint64_t seconds = 0;

	config->wants_doctor = true;
	if (optarg && (config_parse_size(optarg, &seconds) < 0 ||
		       seconds > DOCTOR_WATCH_MAX)) {
		fprintf(stderr, "rdmafsd: --doctor=%s: takes a number of "
			"seconds\n", optarg);
		return -EINVAL;
	}
	config->doctor_watch_s = (uint32_t)seconds;
	return 0;
}

static int read_options(struct config *config, int argc, char **argv)
{
	bool has_listen = false;
	int option, index, err;

	opterr = 1;
	optind = 0;
	while ((option = getopt_long(argc, argv, "hVc:", options,
				     &index)) != -1) {
		switch (option) {
		case OPT_HELP:
			fputs(help, stdout);
			return CONFIG_SAID;
		case OPT_VERSION:
			puts("rdmafsd " RDMAFS_VERSION);
			return CONFIG_SAID;
		case OPT_CONFIG:
			break;
		case OPT_WORD:
			err = take_word(config, &options[index], &has_listen);
			if (err)
				return err;
			break;
		case OPT_DOCTOR:
			if (take_doctor(config) < 0)
				return -EINVAL;
			break;
		default:
			fputs("rdmafsd: see rdmafsd --help\n", stderr);
			return -EINVAL;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "rdmafsd: '%s' is no option (see rdmafsd "
			"--help)\n", argv[optind]);
		return -EINVAL;
	}
	return 0;
}

int config_parse(struct config *config, int argc, char **argv)
{
	int ret = read_named_file(config, argc, argv);

	if (ret)
		return ret;
	ret = read_options(config, argc, argv);
	return ret ? ret : config_check(config);
}

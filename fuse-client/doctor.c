/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.c - rdmafs doctor [-q] [-w SECONDS] [-o OPTIONS] [SERVER]
 *
 * Operation.  The options are those of a mount, so that what a mount would
 * register and ask for is what is judged.  Only mount_timeo is shorter unless it is
 * given: a server that does not answer is found within seconds.
 */
#include "client.h"

#include "libproto/doctor.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

/* Of each fabric in turn: a server that lives answers in far less. */
enum { PROBE_MS = 5000 };

static int wrong_usage(const char *what)
{
	complain("%s; see rdmafs --help", what);
	return EXIT_USAGE;
}

static bool take_seconds(const char *text, uint32_t *out)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end || value < 1 ||
	    value > DOCTOR_WATCH_MAX)
		return false;
	*out = (uint32_t)value;
	return true;
}

static void fill(struct doctor_question *question,
		 const struct mount_options *options)
{
	question->program = "rdmafs doctor";
	question->version = RDMAFS_VERSION;
	question->memory = options->memory;
	question->wants_huge_pages = options->wants_huge_pages;
	question->send_depth = options->send_depth;
	question->tuning = (struct rf_tuning){
		.cq_count = options->cq_count,
		.cq_us = options->cq_usec,
		.traffic_class = options->tos,
		.gid_index = options->gid_index,
		.source = options->from,
	};
	question->timeo_ms = options->mount_timeo_ms;
	memcpy(question->key_file, options->key_file,
	       sizeof(question->key_file));
}

static void add_target(struct doctor_question *question,
		       const struct mount_options *options)
{
	struct doctor_target *target =
		&question->targets[question->target_count++];

	_Static_assert(sizeof(target->scheme) == sizeof(options->scheme) &&
		       sizeof(target->host) > sizeof(options->host) &&
		       sizeof(target->export) == sizeof(options->export),
		       "what a source names fits into a target");
	strcpy(target->scheme, options->scheme);
	strcpy(target->host, options->host);
	strcpy(target->export, options->export);
	target->port = options->port;
}

int doctor_command(int argc, char **argv)
{
	static struct doctor_question question;
	struct mount_options options;
	char error[OPTIONS_ERROR_MAX];
	int letter;

	options_init(&options);
	options.mount_timeo_ms = PROBE_MS;
	while ((letter = getopt(argc, argv, "o:qw:")) != -1)
		if (letter == 'q')
			question.is_quiet = true;
		else if (letter == 'w') {
			if (!take_seconds(optarg, &question.watch_s))
				return wrong_usage("-w takes a number of "
						   "seconds");
		} else if (letter != 'o')
			return wrong_usage("unknown option");
		else if (options_parse(&options, optarg, error) < 0)
			return wrong_usage(error);
	if (argc - optind > 1)
		return wrong_usage("takes one server");
	if (optind < argc &&
	    options_set_server(&options, argv[optind], error) < 0)
		return wrong_usage(error);
	rf_log_set_level(options.log_level);
	fill(&question, &options);
	if (optind < argc)
		add_target(&question, &options);
	return doctor_run(&question);
}

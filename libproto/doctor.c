/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.c - look, judge, print
 *
 * Operation.  Everything is looked at first, then judged, then printed, so that
 * a finding may rest on any fact.
 */
#include "doctor.h"

#include "doctor_io.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
	/* A mount that looks for its server may be held up for some seconds. */
	FIGURES_MS = 5000,
};

static const char root[] = "";	/* the real one: "" + "/sys" */

static uint32_t mtu_of(const struct doctor_facts *facts, const char *netdev)
{
	const struct doctor_netdev *found = doctor_netdev(facts, netdev);

	return found ? found->mtu : 0;
}

static int load_key(const struct doctor_question *question, struct rf_key *key)
{
	int err;

	*key = (struct rf_key){ .is_set = false };
	if (!question->key_file[0])
		return 0;
	err = rf_key_load(question->key_file, key);
	if (err)
		fprintf(stderr, "%s: can't use the key file %s: %s\n",
			question->program, question->key_file,
			err == -EPERM ? "others may read it (chmod 600)" :
			err == -EINVAL ? "it holds no key" : strerror(-err));
	return err;
}

/* ---- looking ------------------------------------------------------------- */

static void probe_path(const struct doctor_facts *facts,
		       const struct rf_key *key, struct doctor_path *path)
{
	const char *scheme = path->target.scheme;

	/* As a mount does: verbs where a device routes there, then iwarp. */
	if (path->rdma_device[0] &&
	    (!scheme[0] || strcmp(scheme, "verbs") == 0))
		doctor_probe(facts->question, key, path, "verbs",
			     &path->answers[0]);
	if (!scheme[0] || strcmp(scheme, "iwarp") == 0)
		doctor_probe(facts->question, key, path, "iwarp",
			     &path->answers[1]);
}

static void look_at_target(struct doctor_facts *facts,
			   const struct doctor_target *target,
			   const struct rf_key *key)
{
	struct doctor_path *path = &facts->paths[facts->path_count++];

	path->target = *target;
	doctor_find_path(facts->question, path, facts->device_count > 0);
	if (path->resolve_err || path->route_err || path->is_any)
		return;
	if (!path->is_local)
		doctor_ping(path, mtu_of(facts, path->netdev));
	if (!facts->question->is_server || path->is_local)
		probe_path(facts, key, path);
}

static void look_at_programs(struct doctor_facts *facts)
{
	doctor_read_programs(root, facts);
	doctor_read_connections(root, facts);
	doctor_read_resources(facts);
	for (unsigned int i = 0; i < facts->program_count; i++) {
		struct doctor_program *program = &facts->programs[i];

		program->figures_err = rf_figures_read(program->pid, FIGURES_MS,
						       program->figures);
	}
}

/* What grows from now on is news. */
static void watch(struct doctor_facts *facts)
{
	struct doctor_tcp_counters before = facts->host.tcp;
	struct doctor_tcp_counters *now = &facts->host.tcp;

	if (facts->question->watch_s == 0)
		return;
	doctor_read_counters_again(root, facts);
	doctor_read_tcp_counters(root, now);
	facts->host.tcp_grew = (struct doctor_tcp_counters){
		.out_segments = now->out_segments - before.out_segments,
		.retransmitted = now->retransmitted - before.retransmitted,
		.timeouts = now->timeouts - before.timeouts,
		.listen_drops = now->listen_drops - before.listen_drops,
	};
}

static void look(struct doctor_facts *facts, const struct rf_key *key)
{
	const struct doctor_question *question = facts->question;

	doctor_read_host(root, facts);
	doctor_read_devices(root, facts);
#ifdef RF_HAVE_VERBS
	facts->was_built_with_verbs = true;
	doctor_ask_verbs(facts);
#endif
	look_at_programs(facts);
	for (unsigned int i = 0; i < question->target_count; i++)
		look_at_target(facts, &question->targets[i], key);
	if (question->watch_s > 0)
		sleep(question->watch_s);
	watch(facts);
}

/* ---- judging ------------------------------------------------------------- */

static void judge(const struct doctor_facts *facts,
		  struct doctor_report *report)
{
	doctor_judge_host(facts, report);
	doctor_judge_devices(facts, report);
	doctor_judge_tcp(facts, report);
	for (unsigned int i = 0; i < facts->path_count; i++)
		doctor_judge_path(facts, &facts->paths[i], report);
	doctor_judge_programs(facts, report);
}

static void print_title(const struct doctor_question *question)
{
	struct utsname host;

	if (question->is_quiet)
		return;
	if (uname(&host) < 0)
		return;
	printf("%s %s on %s, Linux %s\n", question->program,
	       question->version, host.nodename, host.release);
}

int doctor_run(const struct doctor_question *question)
{
	struct doctor_facts *facts = calloc(1, sizeof(*facts));
	struct doctor_report *report = calloc(1, sizeof(*report));
	struct rf_key key;
	int status = EXIT_FAILURE;

	if (!facts || !report) {
		fprintf(stderr, "%s: not enough memory\n", question->program);
	} else if (load_key(question, &key) == 0) {
		facts->question = question;
		print_title(question);
		look(facts, &key);
		judge(facts, report);
		doctor_print(report, question->is_quiet);
		status = doctor_count(report, DOCTOR_PROBLEM) > 0 ?
				 EXIT_FAILURE : EXIT_SUCCESS;
	}
	free(facts);
	free(report);
	return status;
}

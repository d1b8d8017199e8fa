/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_programs.c - what our running programs hold and say of themselves
 *
 * Pure: facts in, findings out.
 */
#include "doctor_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { RETRIES_MANY = 3 };	/* of one segment: the peer is silent */

/* The sum of "NAME=VALUE" over the lines that hold it. */
static uint64_t sum_of(const char *figures, const char *name)
{
	const size_t size = strlen(name);
	uint64_t sum = 0;

	for (const char *at = figures; (at = strstr(at, name)); at += size)
		if (at > figures && at[-1] == ' ' && at[size] == '=')
			sum += strtoull(at + size + 1, NULL, 10);
	return sum;
}

static void judge_rdma(const struct doctor_program *program,
		       struct doctor_report *report)
{
	if (program->qps == 0 && program->mrs == 0)
		return;
	doctor_find(report, DOCTOR_OK, "registrations",
		    "holds %u regions of %" PRIu64 " MiB in all, %u queue "
		    "pairs, %u completion queues of up to %" PRIu32 " entries",
		    program->mrs, (program->mr_bytes + (1 << 20) - 1) >> 20,
		    program->qps,
		    program->cqs, program->cq_depth_most);
}

static void judge_tcp(const struct doctor_program *program,
		      struct doctor_report *report)
{
	if (program->connections == 0)
		return;
	doctor_find(report, DOCTOR_OK, "connections",
		    "%u TCP connections, %" PRIu64 " segments sent again, "
		    "round trip of up to %" PRIu32 " us", program->connections,
		    program->tcp_retransmitted, program->tcp_rtt_us_most);
	if (program->tcp_retries_most < RETRIES_MANY)
		return;
	doctor_find(report, DOCTOR_PROBLEM, "peer-silent",
		    "a segment was sent %" PRIu32 " times without an answer: "
		    "its peer can't be reached", program->tcp_retries_most);
	doctor_advise(report, "check the way to the peer, and the peer");
}

/* What stands behind NAME= up to one of ends; "?" if nothing does. */
static void text_of(const char *figures, const char *name, const char *ends,
		    char out[256])
{
	const char *at = strstr(figures, name);

	at = at ? at + strlen(name) : "?";
	snprintf(out, 256, "%.*s", (int)strcspn(at, ends), at);
}

static void judge_away(const struct doctor_program *program,
		       struct doctor_report *report)
{
	char point[256], server[256];

	if (sum_of(program->figures, "is_away") == 0)
		return;
	text_of(program->figures, " point=", "\n", point);
	text_of(program->figures, " server=", " \n", server);
	doctor_find(report, DOCTOR_PROBLEM, "server-away",
		    "the server of %s is away since %" PRIu64 " ms: what uses "
		    "the mount waits", point,
		    sum_of(program->figures, "away_ms"));
	doctor_advise(report, "rdmafs doctor %s says how far one gets; the "
		      "mount goes on by itself when it is back", server);
}

static void judge_figures(const struct doctor_program *program,
			  struct doctor_report *report)
{
	const uint64_t overruns = sum_of(program->figures, "cq_overruns");
	const uint64_t refused = sum_of(program->figures, "rights_refused");
	const char *line = program->figures;

	if (overruns > 0) {
		doctor_find(report, DOCTOR_PROBLEM, "cq-overrun",
			    "%" PRIu64 " completion queues overran; their "
			    "connections were closed", overruns);
		doctor_advise(report, "lower send_depth or slots; and tell the "
			      "authors, for it should not happen");
	}
	if (refused > 0) {
		doctor_find(report, DOCTOR_WARNING, "rights",
			    "%" PRIu64 " times a peer reached for memory that "
			    "it had no right to", refused);
		doctor_advise(report, "its log names the peers");
	}
	judge_away(program, report);
	while (*line) {
		size_t size;

		/* The server's begin so in the log. */
		if (strncmp(line, "figures: ", 9) == 0)
			line += 9;
		size = strcspn(line, "\n");
		doctor_find(report, DOCTOR_OK, "figures", "%.*s", (int)size,
			    line);
		line += size + (line[size] == '\n');
	}
}

static void judge_program(const struct doctor_program *program,
			  struct doctor_report *report)
{
	doctor_subject(report, "%s, process %d", program->name, program->pid);
	judge_rdma(program, report);
	judge_tcp(program, report);
	if (program->figures_err == 0)
		judge_figures(program, report);
	else if (program->figures_err == -EACCES)
		doctor_find(report, DOCTOR_NOTE, "figures",
			    "tells its figures to root and to its own user "
			    "only");
	else
		doctor_find(report, DOCTOR_NOTE, "figures",
			    "does not tell its figures: %s",
			    program->figures_err == -ENOENT ? "it is just "
			    "starting, or in another network namespace" :
			    strerror(-program->figures_err));
}

void doctor_judge_programs(const struct doctor_facts *facts,
			   struct doctor_report *report)
{
	for (unsigned int i = 0; i < facts->program_count; i++)
		judge_program(&facts->programs[i], report);
	if (facts->program_count > 0)
		return;
	doctor_subject(report, "Programs");
	doctor_find(report, DOCTOR_OK, "programs",
		    "no rdmafs and no rdmafsd runs here");
}

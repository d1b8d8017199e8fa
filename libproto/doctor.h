/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.h - what an operator needs when RDMA misbehaves
 *
 * A program says what it would use (memory, addresses, key); the doctor looks at
 * this machine, at the way to each address and, where somebody listens, at what
 * he answers.  It prints findings, each with what to do about it.  It changes
 * nothing on the machine.
 *
 * Threads.  One at a time.
 */
#ifndef RF_DOCTOR_H
#define RF_DOCTOR_H

#include "base.h"
#include "fabric.h"
#include "hello.h"

enum { DOCTOR_TARGETS_MAX = 8, DOCTOR_HOST_MAX = 300, DOCTOR_WATCH_MAX = 86400 };

/* A server that a client would mount from, or an address to listen on. */
struct doctor_target {
	char scheme[16];	/* "": verbs if it can be had, else iwarp */
	char host[DOCTOR_HOST_MAX + 1];
	uint16_t port;
	char export[RF_EXPORT_MAX + 1];		/* "": none is asked for */
};

struct doctor_question {
	const char *program;		/* "rdmafs doctor" */
	const char *version;
	bool is_server;			/* targets are addresses of ours */
	struct doctor_target targets[DOCTOR_TARGETS_MAX];
	unsigned int target_count;
	char key_file[4096];		/* "": without */
	uint64_t memory;		/* bytes that will be registered */
	bool wants_huge_pages;
	uint16_t send_depth;
	struct rf_tuning tuning;	/* what the operator chose of it */
	uint32_t timeo_ms;		/* wait so long for an answer */
	uint32_t watch_s;		/* look at the counters twice, so far
					 * apart; 0: once */
	bool is_quiet;			/* warnings and problems only */
};

/*
 * Look, and print on stdout.  The exit status: 0, or 1 if there is a problem
 * among the findings.  [blocks]
 */
int doctor_run(const struct doctor_question *question);

#endif /* RF_DOCTOR_H */

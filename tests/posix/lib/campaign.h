/* SPDX-License-Identifier: Apache-2.0 */
/*
 * campaign.h - random operations against something that knows the right answer
 *
 *	struct campaign  what operations there are, how to make one, how to run many
 *	round            ROUND_OPS operations on fresh files
 *
 * Operation.  A round's operations come from its seed alone, then they are run.
 * If one of them fails the list is made shorter as long as it still fails, and
 * what is left is printed, one operation a line; --replay FILE runs such a list
 * again.  An operation says all about itself, so that any part of a list can
 * run: those whose file is not there (any more) do nothing, or fail as they
 * should.
 *
 * Errors.  What makes the test itself impossible ends the process with status 2
 * (trouble); a finding is told by campaign_fault() and status 1.
 */
#ifndef CAMPAIGN_H
#define CAMPAIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	OP_ARGS = 8,
	ROUND_OPS = 1500,	/* long enough for old files, short to shrink */
};

struct op {
	uint32_t code;		/* index into kinds */
	uint32_t arg[OP_ARGS];
};

struct op_kind {
	const char *name;
	unsigned int weight;	/* how often, beside the others' */
	unsigned int args;
};

struct rng {
	uint64_t state;
};

uint64_t rng_next(struct rng *rng);
/* 0 .. below - 1. */
uint32_t rng_below(struct rng *rng, uint32_t below);
bool rng_percent(struct rng *rng, uint32_t percent);
#define rng_of(rng, table) \
	((table)[rng_below(rng, sizeof(table) / sizeof((table)[0]))])

struct campaign {
	const char *what;		/* for the usage line */
	const struct op_kind *kinds;
	unsigned int kind_count;
	/* Fill in the arguments of op, whose code is set. */
	void (*fill)(struct rng *rng, struct op *op);
	/* In words, behind the operation's numbers; may be NULL. */
	void (*describe)(const struct op *op, char *out, size_t room);
	/* On fresh files: the index of the operation that failed, or -1.
	 * round: a number that no other call has. */
	long (*run)(const struct op *ops, size_t count, unsigned int round);
	/* Folders from the command line. */
	bool (*take)(char *const *folders, int count);
};

/* By --spoil: a call is to do another thing at times than the model thinks, to
 * see that it is found. */
extern bool campaign_is_spoiled;

/* Why the operation that runs failed: the first of a run counts. */
__attribute__((format(printf, 1, 2))) void campaign_fault(const char *format,
							  ...);
/* The test itself can't go on. */
__attribute__((format(printf, 1, 2), noreturn)) void trouble(const char *format,
							     ...);

/* All of main(). */
int campaign_main(const struct campaign *campaign, int argc, char **argv);

#endif /* CAMPAIGN_H */

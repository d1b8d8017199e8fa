/* SPDX-License-Identifier: Apache-2.0 */
/*
 * campaign.c - rounds, shrinking, printing and replaying
 */
#include "campaign.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	SHRINK_RUNS = 400,
	SHRINK_SECONDS = 60,
	LINE_SIZE = 512,
	SCRIPT_OPS = 100000,
	TELL_OPS = 100000,
};

bool campaign_is_spoiled;

static char fault[LINE_SIZE];
static unsigned int runs;

/* ---- chance --------------------------------------------------------------- */

/* splitmix64: any seed will do. */
uint64_t rng_next(struct rng *rng)
{
	uint64_t z = rng->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

uint32_t rng_below(struct rng *rng, uint32_t below)
{
	return below ? (uint32_t)(rng_next(rng) % below) : 0;
}

bool rng_percent(struct rng *rng, uint32_t percent)
{
	return rng_below(rng, 100) < percent;
}

/* ---- what went wrong ------------------------------------------------------ */

void campaign_fault(const char *format, ...)
{
	va_list args;

	if (fault[0])
		return;
	va_start(args, format);
	vsnprintf(fault, sizeof(fault), format, args);
	va_end(args);
}

void trouble(const char *format, ...)
{
	int err = errno;
	va_list args;

	fputs("the test itself failed: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, " (%s)\n", strerror(err));
	exit(2);
}

static long run(const struct campaign *c, const struct op *ops, size_t count)
{
	fault[0] = '\0';
	return c->run(ops, count, runs++);
}

/* ---- lists as text -------------------------------------------------------- */

static void print_op(const struct campaign *c, const struct op *op)
{
	const struct op_kind *kind = &c->kinds[op->code];
	char text[LINE_SIZE] = "";

	printf("%s", kind->name);
	for (unsigned int i = 0; i < kind->args; i++)
		printf(" %" PRIu32, op->arg[i]);
	if (c->describe)
		c->describe(op, text, sizeof(text));
	printf("%s%s\n", text[0] ? " # " : "", text);
}

static void print_ops(const struct campaign *c, const struct op *ops,
		      size_t count)
{
	for (size_t i = 0; i < count; i++)
		print_op(c, &ops[i]);
	fflush(stdout);
}

/* False: a line without an operation. */
static bool parse_op(const struct campaign *c, char *line, struct op *op)
{
	char *save, *word = strtok_r(line, " \t\n", &save);

	if (!word || word[0] == '#')
		return false;
	memset(op, 0, sizeof(*op));
	while (op->code < c->kind_count &&
	       strcmp(c->kinds[op->code].name, word) != 0)
		op->code++;
	if (op->code == c->kind_count)
		trouble("there is no operation '%s'", word);
	for (unsigned int i = 0; i < c->kinds[op->code].args; i++) {
		word = strtok_r(NULL, " \t\n", &save);
		if (!word)
			trouble("'%s' lacks arguments", line);
		op->arg[i] = (uint32_t)strtoul(word, NULL, 10);
	}
	return true;
}

static size_t read_script(const struct campaign *c, const char *name,
			  struct op *ops)
{
	FILE *file = fopen(name, "r");
	char line[LINE_SIZE];
	size_t count = 0;

	if (!file)
		trouble("%s", name);
	while (count < SCRIPT_OPS && fgets(line, sizeof(line), file))
		count += parse_op(c, line, &ops[count]);
	fclose(file);
	return count;
}

/* ---- shrinking ------------------------------------------------------------ */

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Without [from, to): does it still fail?  Then it is the list. */
static bool drop(const struct campaign *c, struct op *ops, size_t *count,
		 size_t from, size_t to)
{
	static struct op trial[SCRIPT_OPS];
	size_t left = *count - (to - from);
	long failed;

	memcpy(trial, ops, from * sizeof(*ops));
	memcpy(trial + from, ops + to, (*count - to) * sizeof(*ops));
	failed = run(c, trial, left);
	if (failed < 0)
		return false;
	*count = (size_t)failed + 1;
	memcpy(ops, trial, *count * sizeof(*ops));
	return true;
}

/* Pieces of half the list, then of a quarter, ..., then single ones. */
static void shrink(const struct campaign *c, struct op *ops, size_t *count)
{
	double end = seconds_now() + SHRINK_SECONDS;
	unsigned int last = runs + SHRINK_RUNS;
	size_t piece = *count;

	while (piece > 1) {
		piece = (piece + 1) / 2;
		for (size_t at = 0; at < *count;) {
			size_t to = at + piece < *count ? at + piece : *count;

			if (runs >= last || seconds_now() > end)
				return;
			if (to - at == *count || !drop(c, ops, count, at, to))
				at += piece;
		}
	}
}

static int report(const struct campaign *c, struct op *ops, size_t count)
{
	size_t before = count;

	printf("FAILED: %s\n", fault);
	printf("The operation:\n");
	print_op(c, &ops[count - 1]);
	fflush(stdout);
	shrink(c, ops, &count);
	if (run(c, ops, count) < 0)
		printf("It did not fail again.  ");
	else
		printf("At last: %s\n", fault);
	printf("%zu of %zu operations are left, for --replay:\n", count,
	       before);
	print_ops(c, ops, count);
	return 1;
}

/* ---- rounds --------------------------------------------------------------- */

static uint32_t choose_code(const struct campaign *c, struct rng *rng)
{
	uint32_t sum = 0, at, code = 0;

	for (unsigned int i = 0; i < c->kind_count; i++)
		sum += c->kinds[i].weight;
	at = rng_below(rng, sum);
	while (at >= c->kinds[code].weight)
		at -= c->kinds[code++].weight;
	return code;
}

static void make_ops(const struct campaign *c, uint64_t seed, struct op *ops,
		     size_t count)
{
	struct rng rng = { seed };

	for (size_t i = 0; i < count; i++) {
		memset(&ops[i], 0, sizeof(ops[i]));
		ops[i].code = choose_code(c, &rng);
		c->fill(&rng, &ops[i]);
	}
}

struct bounds {
	uint64_t seed;
	uint64_t ops;
	double seconds;
	const char *script;
};

/* How far a long run is. */
static void tell(uint64_t done, uint64_t last)
{
	if (done / TELL_OPS == (done - last) / TELL_OPS)
		return;
	printf("%" PRIu64 " operations so far\n", done);
	fflush(stdout);
}

static int run_rounds(const struct campaign *c, const struct bounds *bounds,
		      struct op *ops)
{
	double end = seconds_now() + bounds->seconds;
	uint64_t done = 0;

	for (uint64_t round = 0; done < bounds->ops; round++) {
		size_t count = bounds->ops - done < ROUND_OPS ?
			       (size_t)(bounds->ops - done) : ROUND_OPS;
		long failed;

		if (bounds->seconds > 0 && seconds_now() > end)
			break;
		make_ops(c, bounds->seed + round, ops, count);
		failed = run(c, ops, count);
		if (failed >= 0) {
			printf("round with seed %" PRIu64 ", operation %ld\n",
			       bounds->seed + round, failed);
			return report(c, ops, (size_t)failed + 1);
		}
		done += count;
		tell(done, count);
	}
	printf("%" PRIu64 " operations: no fault\n", done);
	return done > 0 ? 0 : 2;
}

static int replay(const struct campaign *c, const char *script, struct op *ops)
{
	size_t count = read_script(c, script, ops);
	long failed = run(c, ops, count);

	print_ops(c, ops, failed < 0 ? count : (size_t)failed + 1);
	if (failed >= 0) {
		printf("FAILED: operation %ld: %s\n", failed, fault);
		return 1;
	}
	printf("%zu operations: no fault\n", count);
	return 0;
}

static void take_options(int argc, char **argv, struct bounds *bounds)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "ops", required_argument, NULL, 'n' },
		{ "seconds", required_argument, NULL, 't' },
		{ "replay", required_argument, NULL, 'r' },
		{ "spoil", no_argument, NULL, 'x' },
		{ NULL, 0, NULL, 0 },
	};
	int code;

	while ((code = getopt_long(argc, argv, "s:n:t:r:x", options, NULL)) >= 0)
		switch (code) {
		case 's':
			bounds->seed = strtoull(optarg, NULL, 0);
			break;
		case 'n':
			bounds->ops = strtoull(optarg, NULL, 0);
			break;
		case 't':
			bounds->seconds = strtod(optarg, NULL);
			break;
		case 'r':
			bounds->script = optarg;
			break;
		case 'x':
			campaign_is_spoiled = true;
			break;
		default:
			exit(2);
		}
}

int campaign_main(const struct campaign *c, int argc, char **argv)
{
	static struct op ops[SCRIPT_OPS];
	struct timespec now;
	struct bounds bounds = { .ops = 20000 };

	clock_gettime(CLOCK_REALTIME, &now);
	bounds.seed = ((uint64_t)now.tv_sec * 1000003u +
		       (uint64_t)now.tv_nsec) % 1000000000u;
	take_options(argc, argv, &bounds);
	if (optind == argc || !c->take(argv + optind, argc - optind)) {
		fprintf(stderr, "usage: %s [--seed N] [--ops N] [--seconds N] "
			"[--replay FILE] [--spoil] %s\n", argv[0], c->what);
		return 2;
	}
	if (bounds.script)
		return replay(c, bounds.script, ops);
	printf("seed %" PRIu64 "\n", bounds.seed);
	fflush(stdout);
	return run_rounds(c, &bounds, ops);
}

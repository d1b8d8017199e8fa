/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune.c - rdmafs tune [-o OPTIONS] [-s SECONDS] HOST, rdmafs tune --serve ADDRESS
 *
 * Operation.  READ and WRITE are measured apart, over blocks and depths, then
 * over completion moderation where the device has it; each row several times in
 * turn, so that a busy moment does not hit one row alone, and the median counts.
 * Options are those of a mount, so that what is measured is how a mount would
 * go: device, traffic class, polling.
 *
 * When it fails.  One line on stderr, exit status 1.  The time is bounded: after
 * SECONDS only what no row may lack is still measured.
 */
#include "tune.h"

#include "tune_choose.h"
#include "tune_end.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
	SECONDS_DEFAULT = 20,
	SECONDS_MAX = 600,
	SMALL_READ = 4096,
	SPIN_US = 50,		/* beside sleeping, for one small READ */
	SMALL_ROWS = 2,
};

#define KIB(n) ((uint32_t)(n) << 10)

static const uint32_t blocks[] = {
	KIB(16), KIB(32), KIB(64), KIB(128), KIB(256), KIB(1024),
};
static const uint16_t depths[] = { 1, 4, 16, 64 };
static const uint16_t cq_counts[] = { 1, 2, 4, 8, 16, 32 };

struct sweep {
	struct mount_options options;
	double seconds;
	struct tune_end end;
	struct sockaddr_storage address;
	socklen_t address_size;
	char uri[256];
	struct tune_table table;
	struct tune_row small[SMALL_ROWS];	/* asleep, spinning */
	uint64_t slot_ns;		/* of one sample */
	uint64_t begin_ns;
	bool is_moderated;
};

/* ---- rows ---------------------------------------------------------------- */

static struct tune_row *add_row(struct sweep *sweep, bool is_read,
				uint32_t block, uint16_t depth)
{
	struct tune_row *row = &sweep->table.rows[sweep->table.count];

	RF_ASSERT(sweep->table.count < TUNE_ROWS_MAX);
	sweep->table.count++;
	*row = (struct tune_row){ .is_read = is_read, .block = block,
				  .depth = depth };
	row->poll_us = sweep->options.poll_us;
	if (sweep->is_moderated)
		row->cq_count = sweep->options.cq_count;
	return row;
}

/* What the peer lends at once bounds what may be in flight, and the time. */
static void plan_blocks(struct sweep *sweep, bool is_read)
{
	uint16_t reads_max = rf_ep_limits(sweep->end.ep)->reads_max;

	for (size_t i = 0; i < RF_ARRAY_SIZE(blocks); i++)
		for (size_t k = 0; k < RF_ARRAY_SIZE(depths); k++) {
			uint64_t bytes = (uint64_t)blocks[i] * depths[k];

			if (bytes > TUNE_SCRATCH ||
			    (is_read && depths[k] > reads_max))
				continue;
			add_row(sweep, is_read, blocks[i], depths[k]);
		}
	sweep->table.block_rows = sweep->table.count;
}

static void plan(struct sweep *sweep)
{
	unsigned int rows;

	plan_blocks(sweep, true);
	plan_blocks(sweep, false);
	rows = sweep->table.count + SMALL_ROWS;
	if (sweep->is_moderated)
		rows += 2 * (unsigned int)RF_ARRAY_SIZE(cq_counts);
	sweep->slot_ns = (uint64_t)(sweep->seconds * 1e9 / rows / TUNE_ROUNDS);
	for (unsigned int i = 0; i < SMALL_ROWS; i++)
		sweep->small[i] = (struct tune_row){
			.is_read = true, .block = SMALL_READ, .depth = 1,
			.poll_us = i * SPIN_US };
}

/* At the best block and depth, each count that a device may wait for. */
static void plan_moderation(struct sweep *sweep)
{
	for (size_t i = 0; i < RF_ARRAY_SIZE(cq_counts); i++)
		for (unsigned int k = 0; k < 2; k++) {
			const struct tune_row *best =
				tune_best(&sweep->table, k == 0);

			add_row(sweep, k == 0, best->block,
				best->depth)->cq_count = cq_counts[i];
			sweep->table.cq_rows++;
		}
}

/* ---- one sample ---------------------------------------------------------- */

static double cpu_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int measure(struct sweep *sweep, struct tune_row *row)
{
	enum rf_opcode code = row->is_read ? RF_READ : RF_WRITE;
	uint64_t count, begin_ns;
	double took_us, cpu, bytes;
	unsigned int i = row->sample_count;
	int err;

	sweep->end.poll_us = row->poll_us;
	begin_ns = rf_now_ns();
	cpu = cpu_us();
	err = tune_end_move(&sweep->end, code, row->block, row->depth,
			    sweep->slot_ns, &count);
	if (err)
		return err;
	took_us = (double)(rf_now_ns() - begin_ns) / 1000;
	cpu = cpu_us() - cpu;
	bytes = (double)row->block * (double)count;
	row->bytes_us[i] = bytes / took_us;
	row->each_us[i] = took_us / (double)count;
	row->cpu_us_mib[i] = cpu / (bytes / TUNE_BLOCK_MAX);
	row->sample_count++;
	return 0;
}

static bool is_late(const struct sweep *sweep)
{
	return (double)(rf_now_ns() - sweep->begin_ns) > sweep->seconds * 1e9;
}

static int measure_rows(struct sweep *sweep, struct tune_row *rows,
			unsigned int count)
{
	int err = 0;

	for (unsigned int round = 0; round < TUNE_ROUNDS; round++)
		for (unsigned int i = 0; i < count && !err; i++)
			if (round == 0 || !is_late(sweep))
				err = measure(sweep, &rows[i]);
	return err;
}

/* The queue is made with the connection, so each count needs one. */
static int measure_moderation(struct sweep *sweep)
{
	struct rf_tuning tuning = tune_of_options(&sweep->options);
	struct tune_table *table = &sweep->table;
	int err = 0;

	for (unsigned int i = 0; i < table->cq_rows && !err; i += 2) {
		struct tune_row *rows = &table->rows[table->block_rows + i];

		tune_end_disconnect(&sweep->end);
		tuning.cq_count = rows[0].cq_count;
		err = rf_fabric_tune(sweep->end.fab, &tuning);
		if (!err)
			err = tune_end_connect(&sweep->end,
				(struct sockaddr *)&sweep->address,
				sweep->address_size);
		if (!err)
			err = measure_rows(sweep, rows, 2);
	}
	return err;
}

static int run(struct sweep *sweep)
{
	int err;

	sweep->begin_ns = rf_now_ns();
	sweep->is_moderated =
		rf_fabric_traits(sweep->end.fab)->moderates_events;
	plan(sweep);
	err = measure_rows(sweep, sweep->table.rows, sweep->table.block_rows);
	if (!err)
		err = measure_rows(sweep, sweep->small, SMALL_ROWS);
	if (!err && sweep->is_moderated) {
		plan_moderation(sweep);
		err = measure_moderation(sweep);
	}
	return err;
}

/* ---- what is printed ----------------------------------------------------- */

static const char *size_text(uint32_t size, char text[16])
{
	if (size % (1 << 20) == 0)
		snprintf(text, 16, "%" PRIu32 "M", size >> 20);
	else
		snprintf(text, 16, "%" PRIu32 "K", size >> 10);
	return text;
}

static void print_row(const struct tune_row *row)
{
	char block[16], count[16] = "-";

	if (row->cq_count)
		snprintf(count, sizeof(count), "%u", row->cq_count);
	printf("%-6s %6s %6u %9s %10.1f %10.1f %11.1f\n",
	       row->is_read ? "READ" : "WRITE", size_text(row->block, block),
	       row->depth, count,
	       tune_median(row->bytes_us, row->sample_count),
	       tune_median(row->each_us, row->sample_count),
	       tune_median(row->cpu_us_mib, row->sample_count));
}

static void print_table(const struct sweep *sweep)
{
	printf("%-6s %6s %6s %9s %10s %10s %11s\n", "what", "block", "depth",
	       "cq_count", "MB/s", "us each", "CPU us/MiB");
	for (unsigned int i = 0; i < sweep->table.count; i++)
		print_row(&sweep->table.rows[i]);
	printf("one READ of 4K: %.1f us asleep, %.1f us with poll_us=%d\n",
	       tune_median(sweep->small[0].each_us,
			   sweep->small[0].sample_count),
	       tune_median(sweep->small[1].each_us,
			   sweep->small[1].sample_count), SPIN_US);
	if (!sweep->is_moderated)
		printf("%s does not moderate completion events: cq_count and "
		       "cq_usec have no effect\n", sweep->uri);
}

static void print_settings(const struct tune_settings *settings)
{
	char read[16], write[16];

	size_text(settings->read_block, read);
	size_text(settings->write_block, write);
	printf("\nREAD %s x %u: %.1f MB/s.  WRITE %s: %.1f MB/s.\n"
	       "Mount options for this host:\n"
	       "  read_block=%s,read_depth=%u,write_block=%s,send_depth=%u",
	       read, settings->read_depth, settings->read_rate, write,
	       settings->write_rate, read, settings->read_depth, write,
	       settings->send_depth);
	if (settings->cq_count)
		printf(",cq_count=%u", settings->cq_count);
	printf("\nFor the server's configuration file:\n"
	       "  [server]\n  send-depth = %u\n",
	       settings->server_send_depth);
	if (settings->cq_count)
		printf("  cq-count = %u\n", settings->cq_count);
}

static void print_all(const struct sweep *sweep)
{
	struct tune_settings settings = tune_choose(&sweep->table);

	printf("rdmafs tune: %s to %s, %.1f s\n", sweep->uri,
	       sweep->options.source,
	       (double)(rf_now_ns() - sweep->begin_ns) / 1e9);
	print_table(sweep);
	print_settings(&settings);
}

/* ---- connecting ---------------------------------------------------------- */

struct rf_tuning tune_of_options(const struct mount_options *options)
{
	return (struct rf_tuning){
		.cq_count = options->cq_count,
		.cq_us = options->cq_usec,
		.traffic_class = options->tos,
		.gid_index = options->gid_index,
		.source = options->from,
	};
}

static int try_scheme(struct sweep *sweep, const char *scheme,
		      const struct addrinfo *at)
{
	struct rf_tuning tuning = tune_of_options(&sweep->options);
	const struct sockaddr *from = tuning.source.ss_family ?
		(const struct sockaddr *)&tuning.source : NULL;
	int err;

	if (from && from->sa_family != at->ai_family)
		return -ENETUNREACH;
	err = rf_fabric_route_from(scheme, from, at->ai_addr, at->ai_addrlen,
				   sweep->uri, sizeof(sweep->uri));
	if (!err && strcmp(scheme, "iwarp") == 0 && sweep->options.no_crc)
		snprintf(sweep->uri, sizeof(sweep->uri), "iwarp://?crc=0");
	if (!err)
		err = tune_end_open(&sweep->end, sweep->uri, &tuning, false,
				    TUNE_MESSAGE_MAX);
	if (err)
		return err;
	memcpy(&sweep->address, at->ai_addr, at->ai_addrlen);
	sweep->address_size = at->ai_addrlen;
	err = tune_end_connect(&sweep->end, at->ai_addr, at->ai_addrlen);
	if (err)
		tune_end_close(&sweep->end);
	return err;
}

/* As a mount: verbs where a device routes there, else iwarp. */
static int connect_somehow(struct sweep *sweep, const struct addrinfo *list)
{
	const char *scheme = sweep->options.scheme;
	int err = -EHOSTUNREACH;

	for (const struct addrinfo *at = list; at && err; at = at->ai_next) {
		err = try_scheme(sweep, scheme[0] ? scheme : "verbs", at);
		if (err && err != -EBUSY && !scheme[0])
			err = try_scheme(sweep, "iwarp", at);
		if (err == -EBUSY)
			break;
	}
	return err;
}

static void complain_connect(const struct mount_options *options, int err)
{
	if (err == -EBUSY)
		complain("%s measures with another host: try again later",
			 options->source);
	else if (err == -EPROTO)
		complain("what listens on %s port %u is no rdmafs tune --serve "
			 "of this version", options->host, options->port);
	else if (err == -ECONNREFUSED || err == -ETIMEDOUT)
		complain("nobody answers on %s port %u: run rdmafs tune "
			 "--serve ADDRESS there first", options->host,
			 options->port);
	else if (err == -ENETUNREACH || err == -ENODEV)
		complain("no %s device has a route to %s", options->scheme[0] ?
			 options->scheme : "iwarp", options->host);
	else if (err == -ENOMEM)
		complain("can't register %d MiB of memory: raise the memlock "
			 "limit (ulimit -l)", TUNE_SCRATCH >> 20);
	else
		complain("can't connect to %s port %u: %s", options->host,
			 options->port, strerror(-err));
}

static int sweep_host(struct sweep *sweep)
{
	struct addrinfo *list = tune_resolve(&sweep->options, false);
	int err;

	if (!list)
		return EXIT_FAILURE;
	err = connect_somehow(sweep, list);
	freeaddrinfo(list);
	if (err) {
		complain_connect(&sweep->options, err);
		return EXIT_FAILURE;
	}
	err = run(sweep);
	if (err)
		complain("the connection to %s ended: %s", sweep->options.host,
			 strerror(-err));
	else
		print_all(sweep);
	tune_end_close(&sweep->end);
	return err || fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- the command --------------------------------------------------------- */

bool tune_take_address(struct mount_options *options, const char *where)
{
	char error[OPTIONS_ERROR_MAX];

	if (options_set_server(options, where, error) < 0) {
		complain("%s", error);
		return false;
	}
	/* The server's own port is no place to measure. */
	if (options->port == RF_DEFAULT_PORT)
		options->port = TUNE_PORT;
	return true;
}

struct addrinfo *tune_resolve(const struct mount_options *options,
			      bool is_passive)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_NUMERICSERV }, *list;
	char port[8];
	int gai;

	if (is_passive)
		hints.ai_flags |= AI_PASSIVE;
	snprintf(port, sizeof(port), "%u", options->port);
	gai = getaddrinfo(options->host, port, &hints, &list);
	if (gai == 0)
		return list;
	complain("%s: %s; check the name, or use an address", options->host,
		 gai_strerror(gai));
	return NULL;
}

static int wrong_usage(const char *what)
{
	complain("%s; see rdmafs --help", what);
	return EXIT_USAGE;
}

static bool take_seconds(const char *text, double *out)
{
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return false;
	*out = strtod(text, &end);
	return !*end && *out > 0 && *out <= SECONDS_MAX;
}

int tune_command(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "serve", no_argument, NULL, 'l' },
		{ "seconds", required_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	static struct sweep sweep;
	char error[OPTIONS_ERROR_MAX];
	bool serves = false;
	int letter;

	options_init(&sweep.options);
	sweep.seconds = SECONDS_DEFAULT;
	while ((letter = getopt_long(argc, argv, "o:s:", longs, NULL)) != -1)
		if (letter == 'l')
			serves = true;
		else if (letter == 's') {
			if (!take_seconds(optarg, &sweep.seconds))
				return wrong_usage("--seconds takes a number "
						   "of at most 600");
		} else if (letter != 'o')
			return wrong_usage("unknown option");
		else if (options_parse(&sweep.options, optarg, error) < 0)
			return wrong_usage(error);
	if (argc - optind != 1)
		return wrong_usage(serves ? "needs an address to listen on" :
				   "needs a host, where rdmafs tune --serve "
				   "runs");
	rf_log_set_level(sweep.options.log_level);
	if (!tune_take_address(&sweep.options, argv[optind]))
		return EXIT_USAGE;
	return serves ? tune_serve(&sweep.options) : sweep_host(&sweep);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune_choose.h - what a sweep measured, and the settings that follow from it
 *
 * Pure: the figures are given, settings come out.
 */
#ifndef TUNE_CHOOSE_H
#define TUNE_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TUNE_ROUNDS = 3,	/* samples of a row; their median counts */
	TUNE_ROWS_MAX = 128,
	/* Never advised below: requests overlap more in a mount than here. */
	TUNE_READ_DEPTH_LEAST = 4,
	TUNE_SEND_DEPTH_LEAST = 512,
	TUNE_SERVER_SEND_DEPTH = 1024,
};

struct tune_row {
	bool is_read;
	uint32_t block;
	uint16_t depth;
	uint16_t cq_count;	/* 0: of no moment for this fabric */
	uint32_t poll_us;
	unsigned int sample_count;
	double bytes_us[TUNE_ROUNDS];	/* MB/s */
	double each_us[TUNE_ROUNDS];	/* from one to the next; latency at
					 * depth 1 */
	double cpu_us_mib[TUNE_ROUNDS];
};

struct tune_table {
	struct tune_row rows[TUNE_ROWS_MAX];
	unsigned int count;
	unsigned int block_rows;	/* the first of them: blocks, depths */
	unsigned int cq_rows;		/* then those of moderation */
};

double tune_median(const double samples[TUNE_ROUNDS], unsigned int count);

struct tune_settings {
	uint32_t read_block, write_block;
	uint16_t read_depth, send_depth, server_send_depth;
	uint16_t cq_count;		/* 0: nothing to set */
	/* For whoever reads it: the rates at these. */
	double read_rate, write_rate;
};

/*
 * The least in flight (block x depth) whose rate is within TUNE_NEAR_PERCENT of
 * the best: more would only cost memory and time.
 */
enum { TUNE_NEAR_PERCENT = 5 };
const struct tune_row *tune_best(const struct tune_table *table, bool is_read);

/* After all rows of blocks were measured; cq rows count if there are any. */
struct tune_settings tune_choose(const struct tune_table *table);

#endif /* TUNE_CHOOSE_H */

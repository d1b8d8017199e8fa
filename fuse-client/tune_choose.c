/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune_choose.c - from figures to settings
 */
#include "tune_choose.h"

#include "libproto/base.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double tune_median(const double samples[TUNE_ROUNDS], unsigned int count)
{
	double sorted[TUNE_ROUNDS];

	RF_ASSERT(count <= TUNE_ROUNDS);
	if (count == 0)
		return 0;
	memcpy(sorted, samples, count * sizeof(*samples));
	qsort(sorted, count, sizeof(*sorted), compare);
	return sorted[count / 2];
}

static double rate_of(const struct tune_row *row)
{
	return tune_median(row->bytes_us, row->sample_count);
}

static double cpu_of(const struct tune_row *row)
{
	return tune_median(row->cpu_us_mib, row->sample_count);
}

static uint64_t in_flight(const struct tune_row *row)
{
	return (uint64_t)row->block * row->depth;
}

/* Of two that are good enough, is a the better? */
static bool is_smaller(const struct tune_row *a, const struct tune_row *b)
{
	if (in_flight(a) != in_flight(b))
		return in_flight(a) < in_flight(b);
	return rate_of(a) > rate_of(b);
}

static bool is_near(double value, double best)
{
	return value * 100 >= best * (100 - TUNE_NEAR_PERCENT);
}

const struct tune_row *tune_best(const struct tune_table *table, bool is_read)
{
	const struct tune_row *found = NULL;
	double best = 0;

	for (unsigned int i = 0; i < table->block_rows; i++)
		if (table->rows[i].is_read == is_read &&
		    rate_of(&table->rows[i]) > best)
			best = rate_of(&table->rows[i]);
	for (unsigned int i = 0; i < table->block_rows; i++) {
		const struct tune_row *row = &table->rows[i];

		if (row->is_read == is_read && is_near(rate_of(row), best) &&
		    (!found || is_smaller(row, found)))
			found = row;
	}
	return found;
}

/* ---- completion moderation ----------------------------------------------- */

static const struct tune_row *cq_row(const struct tune_table *table,
				     bool is_read, uint16_t cq_count)
{
	for (unsigned int i = 0; i < table->cq_rows; i++) {
		const struct tune_row *row =
			&table->rows[table->block_rows + i];

		if (row->is_read == is_read && row->cq_count == cq_count)
			return row;
	}
	return NULL;
}

static double best_cq_rate(const struct tune_table *table, bool is_read)
{
	double best = 0;

	for (unsigned int i = 0; i < table->cq_rows; i++) {
		const struct tune_row *row =
			&table->rows[table->block_rows + i];

		if (row->is_read == is_read && rate_of(row) > best)
			best = rate_of(row);
	}
	return best;
}

/*
 * One queue of a mount takes both directions: of the counts that slow down
 * neither, the one that costs the least processor time.
 */
static uint16_t choose_cq_count(const struct tune_table *table)
{
	double best_read = best_cq_rate(table, true);
	double best_write = best_cq_rate(table, false);
	double least = 0;
	uint16_t found = 0;

	for (unsigned int i = 0; i < table->cq_rows; i++) {
		const struct tune_row *read =
			&table->rows[table->block_rows + i];
		const struct tune_row *write;
		double cpu;

		if (!read->is_read)
			continue;
		write = cq_row(table, false, read->cq_count);
		if (!write || !is_near(rate_of(read), best_read) ||
		    !is_near(rate_of(write), best_write))
			continue;
		cpu = cpu_of(read) + cpu_of(write);
		if (!found || cpu < least) {
			found = read->cq_count;
			least = cpu;
		}
	}
	return found;
}

/* ---- all ----------------------------------------------------------------- */

/* A queue that holds twice what was in flight, so that messages find room. */
static uint16_t queue_for(uint16_t depth)
{
	uint16_t size = TUNE_SEND_DEPTH_LEAST;

	while (size < 2 * depth)
		size = (uint16_t)(2 * size);
	return size;
}

struct tune_settings tune_choose(const struct tune_table *table)
{
	const struct tune_row *read = tune_best(table, true);
	const struct tune_row *write = tune_best(table, false);

	RF_ASSERT(read && write);
	return (struct tune_settings){
		.read_block = read->block,
		.write_block = write->block,
		.read_depth = (uint16_t)rf_max_u64(read->depth,
						   TUNE_READ_DEPTH_LEAST),
		.send_depth = queue_for(write->depth),
		.server_send_depth = TUNE_SERVER_SEND_DEPTH,
		.cq_count = choose_cq_count(table),
		.read_rate = rate_of(read),
		.write_rate = rate_of(write),
	};
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_tune.c - from a sweep's figures to settings
 */
#include "fuse-client/tune_choose.h"

#include <criterion/criterion.h>
#include <string.h>

static struct tune_table table;

static void setup(void)
{
	memset(&table, 0, sizeof(table));
}

TestSuite(tune, .init = setup, .timeout = 30);

static struct tune_row *add(bool is_read, uint32_t block_kib, uint16_t depth,
			    double rate)
{
	struct tune_row *row = &table.rows[table.count++];

	row->is_read = is_read;
	row->block = block_kib << 10;
	row->depth = depth;
	row->sample_count = 1;
	row->bytes_us[0] = rate;
	return row;
}

static void add_block(bool is_read, uint32_t block_kib, uint16_t depth,
		      double rate)
{
	add(is_read, block_kib, depth, rate);
	table.block_rows++;
}

static void add_cq(bool is_read, uint16_t cq_count, double rate, double cpu)
{
	struct tune_row *row = add(is_read, 64, 16, rate);

	row->cq_count = cq_count;
	row->cpu_us_mib[0] = cpu;
	table.cq_rows++;
}

Test(tune, the_median_ignores_a_busy_moment)
{
	const double three[TUNE_ROUNDS] = { 100, 3, 104 };
	const double two[TUNE_ROUNDS] = { 7, 5 };

	cr_expect_eq(tune_median(three, 3), 100);
	cr_expect_eq(tune_median(two, 2), 7);
	cr_expect_eq(tune_median(two, 0), 0);
}

Test(tune, the_least_in_flight_wins_among_the_best)
{
	add_block(true, 1024, 16, 1000);
	add_block(true, 64, 16, 960);
	add_block(true, 32, 16, 940);	/* too slow */
	add_block(true, 256, 4, 990);	/* as much in flight, and faster */
	add_block(false, 128, 4, 500);
	cr_expect_eq(tune_best(&table, true)->block, 256 << 10);
	cr_expect_eq(tune_best(&table, false)->block, 128 << 10);
}

Test(tune, reading_and_writing_are_chosen_apart)
{
	struct tune_settings settings;

	add_block(true, 32, 16, 800);
	add_block(true, 128, 16, 820);
	add_block(false, 32, 16, 300);
	add_block(false, 128, 16, 900);
	settings = tune_choose(&table);
	cr_expect_eq(settings.read_block, 32 << 10);
	cr_expect_eq(settings.write_block, 128 << 10);
	cr_expect_eq(settings.read_rate, 800);
	cr_expect_eq(settings.write_rate, 900);
	cr_expect_eq(settings.cq_count, 0);
}

Test(tune, depths_leave_room_for_what_a_mount_does_at_once)
{
	struct tune_settings settings;

	add_block(true, 64, 1, 800);
	add_block(false, 64, 400, 800);
	settings = tune_choose(&table);
	cr_expect_eq(settings.read_depth, TUNE_READ_DEPTH_LEAST);
	cr_expect_eq(settings.send_depth, 1024);
	cr_expect_eq(settings.server_send_depth, TUNE_SERVER_SEND_DEPTH);
	table.rows[1].depth = 4;
	cr_expect_eq(tune_choose(&table).send_depth, TUNE_SEND_DEPTH_LEAST);
}

Test(tune, moderation_must_slow_down_neither_and_then_be_cheap)
{
	add_block(true, 64, 16, 1000);
	add_block(false, 64, 16, 1000);
	add_cq(true, 1, 1000, 100);
	add_cq(false, 1, 1000, 100);
	add_cq(true, 8, 990, 60);
	add_cq(false, 8, 990, 50);
	add_cq(true, 16, 700, 30);	/* cheap, but reading is slow */
	add_cq(false, 16, 1000, 30);
	cr_expect_eq(tune_choose(&table).cq_count, 8);
}

Test(tune, rows_of_moderation_do_not_choose_blocks)
{
	add_block(true, 64, 16, 1000);
	add_block(false, 128, 16, 1000);
	add_cq(true, 4, 5000, 1);
	add_cq(false, 4, 5000, 1);
	cr_expect_eq(tune_choose(&table).read_block, 64 << 10);
	cr_expect_eq(tune_choose(&table).read_rate, 1000);
}

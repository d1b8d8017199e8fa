/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_parts.c - where the parts of a write begin, and how far it has come
 */
#include "fuse-client/parts.h"

#include <criterion/criterion.h>
#include <errno.h>

enum { KIB = 1024, MIB = 1024 * 1024 };

static struct parts parts;

static void expect_sizes(const uint32_t *sizes, unsigned int count)
{
	uint32_t at = 0;

	cr_assert_eq(parts_count(&parts), count);
	for (unsigned int i = 0; i < count; i++) {
		cr_expect_eq(parts_size_at(&parts, at), sizes[i],
			     "part %u: %u", i, parts_size_at(&parts, at));
		at += sizes[i];
	}
	cr_expect_eq(at, parts.size);
}

Test(client_parts, a_large_write_has_parts_of_the_size_asked_for)
{
	const uint32_t sizes[] = { 256 * KIB, 256 * KIB, 256 * KIB, 256 * KIB };

	parts_init(&parts, 3 * MIB, MIB, 256 * KIB);
	expect_sizes(sizes, 4);
}

Test(client_parts, parts_meet_on_pages_of_the_file)
{
	const uint32_t sizes[] = { 256 * KIB - 100, 256 * KIB, 256 * KIB,
				   256 * KIB + 100 };

	parts_init(&parts, 8192 + 100, MIB, 256 * KIB);
	expect_sizes(sizes, 4);
}

Test(client_parts, a_small_rest_goes_with_the_part_before_it)
{
	const uint32_t rest[] = { 256 * KIB, 256 * KIB + 128 * KIB - 1 };
	const uint32_t half[] = { 256 * KIB, 256 * KIB, 128 * KIB };
	const uint32_t whole[] = { 256 * KIB + 1 };

	parts_init(&parts, 0, 640 * KIB - 1, 256 * KIB);
	expect_sizes(rest, 2);
	parts_init(&parts, 0, 640 * KIB, 256 * KIB);
	expect_sizes(half, 3);
	parts_init(&parts, 0, 256 * KIB + 1, 256 * KIB);
	expect_sizes(whole, 1);
}

/* Whatever offset and size: no part is empty or leaves a gap. */
Test(client_parts, parts_cover_the_write)
{
	unsigned int seed = 1;

	for (int i = 0; i < 20000; i++) {
		uint64_t offset = (uint64_t)rand_r(&seed) % (8 * MIB);
		uint32_t size = 1 + (uint32_t)rand_r(&seed) % MIB, at = 0;

		parts_init(&parts, offset, size, 64 * KIB);
		while (at < size) {
			uint32_t part = parts_size_at(&parts, at);

			cr_assert(part > 0 && part <= size - at);
			cr_assert(part < 96 * KIB);
			at += part;
			cr_assert(at == size || (offset + at) % 4096 == 0);
		}
		cr_assert_leq(parts_count(&parts), 17);
	}
}

Test(client_parts, the_whole_ends_where_the_first_part_stopped)
{
	parts_init(&parts, MIB, MIB, 256 * KIB);
	cr_expect_eq(parts.stopped_at, MIB, "nothing stopped");
	parts_stopped(&parts, MIB + 768 * KIB, -EIO);
	parts_stopped(&parts, MIB + 300 * KIB, -ENOSPC);
	parts_stopped(&parts, MIB + 512 * KIB, -EFBIG);
	cr_expect_eq(parts.stopped_at, 300 * KIB);
	cr_expect_eq(parts.stop_err, -ENOSPC);
}

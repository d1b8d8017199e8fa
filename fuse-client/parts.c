/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parts.c - a write in parts: where each begins, and how far the whole has come
 */
#include "parts.h"

void parts_init(struct parts *parts, uint64_t offset, uint32_t size,
		uint32_t part)
{
	RF_ASSERT(part >= PARTS_PAGE);
	*parts = (struct parts){
		.offset = offset,
		.size = size,
		.part = part,
		.stopped_at = size,
	};
}

uint32_t parts_size_at(const struct parts *parts, uint32_t at)
{
	uint32_t left = parts->size - at;

	if (left < parts->part + parts->part / 2)
		return left;
	return parts->part -
	       (uint32_t)((parts->offset + at + parts->part) % PARTS_PAGE);
}

unsigned int parts_count(const struct parts *parts)
{
	unsigned int count = 0;

	for (uint32_t at = 0; at < parts->size;
	     at += parts_size_at(parts, at))
		count++;
	return count;
}

void parts_stopped(struct parts *parts, uint64_t offset, int err)
{
	uint64_t at = offset - parts->offset;

	if (at >= parts->stopped_at)
		return;
	parts->stopped_at = (uint32_t)at;
	parts->stop_err = err;
}

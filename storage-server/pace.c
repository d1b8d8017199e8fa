/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace.c - which data the reactor stores by itself, and which workers do
 */
#include "pace.h"

static const uint64_t ns_per_ms = 1000000;

bool pace_take(struct pace *pace, uint64_t turn_ns, uint64_t size,
	       uint64_t turn_max)
{
	if (turn_ns < pace->slow_until_ns)
		return false;
	if (size <= PACE_SMALL)
		return true;
	if (turn_ns != pace->turn_ns) {
		pace->turn_ns = turn_ns;
		pace->bytes = 0;
	}
	if (pace->bytes + size > turn_max)
		return false;
	pace->bytes += size;
	return true;
}

void pace_took(struct pace *pace, uint64_t start_ns, uint64_t end_ns)
{
	if (end_ns - start_ns < PACE_SLOW_MS * ns_per_ms)
		return;
	pace->slow_until_ns = end_ns + PACE_PAUSE_MS * ns_per_ms;
	pace->slow_stores++;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change.c - do the pages that the kernel holds belong to the newest change?
 */
#include "change.h"

void change_init(struct change *change, uint64_t value)
{
	*change = (struct change){ .pages = value, .newest = value };
}

void change_seen(struct change *change, uint64_t value)
{
	change->newest = rf_max_u64(change->newest, value);
}

void change_read_begin(struct change *change)
{
	/* Not only at its end: a drop decided meanwhile must know of it. */
	if (!change->has_pages)
		change->pages = change->newest;
	change->has_pages = true;
	change->reads++;
	if (change->changes)
		change->is_mixed = true;
}

void change_read_end(struct change *change, uint64_t version)
{
	RF_ASSERT(change->reads > 0);
	change->reads--;
	/*
	 * A version below pages is of a read that was in flight when they were
	 * dropped: the drop waited for it.
	 */
	change_seen(change, version);
}

void change_own_begin(struct change *change, bool has_pages)
{
	if (!change->has_pages)
		change->pages = change->newest;
	change->has_pages |= has_pages;
	change->changes++;
	if (change->reads)
		change->is_mixed = true;
}

/* Put a step with those that wait for an earlier one. */
static void keep_step(struct change *change, uint64_t before, uint64_t after)
{
	if (change->step_to == 0) {
		change->step_from = before;
		change->step_to = after;
	} else if (change->step_to == before) {
		change->step_to = after;
	} else if (change->step_from == after) {
		change->step_from = before;
	}
	/* Else it is forgotten, and counts as somebody else's. */
}

void change_own_end(struct change *change, uint64_t before, uint64_t after)
{
	RF_ASSERT(change->changes > 0);
	change->changes--;
	if (before == 0) {
		change->is_mixed = true;
		return;
	}
	change_seen(change, after);
	if (before == change->pages)
		change->pages = after;
	else if (before > change->pages)
		keep_step(change, before, after);
	if (change->step_to && change->step_from <= change->pages) {
		if (change->step_from == change->pages)
			change->pages = change->step_to;
		change->step_from = change->step_to = 0;
	}
}

void change_drop(struct change *change)
{
	change->pages = change->newest;
	change->step_from = change->step_to = 0;
	change->is_mixed = change->reads > 0 && change->changes > 0;
	change->has_pages = change->reads > 0 || change->changes > 0;
}

void change_doubt(struct change *change)
{
	change->pages = change->newest = 0;
	change->step_from = change->step_to = 0;
	change->is_mixed |= change->has_pages;
}

bool change_is_exact(const struct change *change)
{
	return !change->has_pages ||
	       (change->pages == change->newest && !change->is_mixed);
}

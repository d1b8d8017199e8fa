/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slots.c - standing write slots: grants on the server's staging memory
 */
#include "slots.h"
#include "libproto/base.h"

#include <errno.h>

static void push(struct slots *slots, const struct rf_grant *slot,
		 uint64_t since_ns)
{
	if (slots->smallest == 0 || slot->size < slots->smallest)
		slots->smallest = slot->size;
	slots->since_ns[slots->free_count] = since_ns;
	slots->free[slots->free_count++] = *slot;
}

unsigned int slots_add(struct slots *slots, const rf_grants_t *grants,
		       uint64_t since_ns)
{
	unsigned int added = 0;

	for (unsigned int i = 0; i < grants->count; i++) {
		if (slots->count == SLOTS_MAX || grants->v[i].size == 0)
			continue;
		push(slots, &grants->v[i], since_ns);
		slots->count++;
		added++;
	}
	return added;
}

unsigned int slots_take(struct slots *slots, uint32_t size, rf_grants_t *out)
{
	uint64_t room = 0;
	unsigned int need = 0;

	while (room < size && need < slots->free_count && need < RF_GRANTS_MAX)
		room += slots->free[slots->free_count - ++need].size;
	if (room < size)
		return 0;
	out->count = (uint16_t)need;
	for (unsigned int i = 0; i < need; i++)
		out->v[i] = slots->free[--slots->free_count];
	return need;
}

uint32_t slots_reach(const struct slots *slots)
{
	uint64_t reach = (uint64_t)slots->smallest *
			 rf_min_u64(slots->count, RF_GRANTS_MAX);

	return (uint32_t)rf_min_u64(reach, UINT32_MAX);
}

/* Among the first count? */
static bool has(const rf_grants_t *grants, unsigned int count, uint32_t id)
{
	for (unsigned int i = 0; i < count; i++)
		if (grants->v[i].id == id)
			return true;
	return false;
}

int slots_return(struct slots *slots, const rf_grants_t *taken,
		 const rf_grants_t *rearmed, uint64_t since_ns)
{
	RF_ASSERT(slots->count >= taken->count);
	if (rearmed->count > taken->count)
		return -EBADMSG;
	for (unsigned int i = 0; i < rearmed->count; i++) {
		const struct rf_grant *slot = &rearmed->v[i];

		/* Twice, it would be given to two messages. */
		if (!has(taken, taken->count, slot->id) || slot->size == 0 ||
		    has(rearmed, i, slot->id))
			return -EBADMSG;
	}
	for (unsigned int i = rearmed->count; i-- > 0;)
		push(slots, &rearmed->v[i], since_ns);
	slots->count -= taken->count - rearmed->count;
	return 0;
}

void slots_untake(struct slots *slots, const rf_grants_t *taken)
{
	for (unsigned int i = taken->count; i-- > 0;) {
		slots->since_ns[slots->free_count] = 0;
		slots->free[slots->free_count++] = taken->v[i];
	}
}

unsigned int slots_give_up(struct slots *slots, uint64_t before_ns,
			   uint32_t ids[SLOTS_MAX])
{
	unsigned int kept = 0, count = 0;

	for (unsigned int i = 0; i < slots->free_count; i++) {
		if (slots->since_ns[i] < before_ns) {
			ids[count++] = slots->free[i].id;
			continue;
		}
		slots->since_ns[kept] = slots->since_ns[i];
		slots->free[kept++] = slots->free[i];
	}
	slots->free_count = kept;
	slots->count -= count;
	return count;
}

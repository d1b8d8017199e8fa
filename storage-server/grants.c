/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grants.c - the table of grants and the moves of each
 */
#include "grants.h"

#include <errno.h>
#include <stdlib.h>

enum { INDEX_BITS = 12, GENERATION_MAX = (1 << 20) - 1 };
_Static_assert(GRANTS_MAX == 1 << INDEX_BITS, "an id is index and generation");

int grants_init(struct grants *grants, uint32_t capacity)
{
	RF_ASSERT(capacity > 0 && capacity <= GRANTS_MAX);
	*grants = (struct grants){ .capacity = capacity };
	grants->v = calloc(capacity, sizeof(*grants->v));
	if (!grants->v)
		return -ENOMEM;
	rf_list_init(&grants->free);
	for (uint32_t i = 0; i < capacity; i++) {
		grants->v[i].id = i;
		rf_list_init(&grants->v[i].term_link);
		rf_list_push(&grants->free, &grants->v[i].link);
	}
	return 0;
}

void grants_fini(struct grants *grants)
{
	RF_ASSERT(grants->count == 0);
	free(grants->v);
	grants->v = NULL;
}

static uint32_t next_id(uint32_t id)
{
	uint32_t generation = id >> INDEX_BITS;

	/* Generation 0 is for places never used: no id of a grant is small. */
	generation = generation == GENERATION_MAX ? 1 : generation + 1;
	return generation << INDEX_BITS | (id & (GRANTS_MAX - 1));
}

struct grant *grants_make(struct grants *grants, enum grant_kind kind)
{
	struct rf_list *item = rf_list_pop(&grants->free);
	struct grant *grant;

	if (!item)
		return NULL;
	grant = rf_container_of(item, struct grant, link);
	grant->id = next_id(grant->id);
	grant->kind = kind;
	grant->state = GRANT_MADE;
	grants->count++;
	grants->slot_count += kind == GRANT_SLOT;
	return grant;
}

struct grant *grants_find(struct grants *grants, uint32_t id)
{
	uint32_t index = id & (GRANTS_MAX - 1);
	struct grant *grant;

	if (index >= grants->capacity)
		return NULL;
	grant = &grants->v[index];
	return grant->id == id && grant->state != GRANT_FREE ? grant : NULL;
}

static bool move_is_allowed(const struct grant *grant, enum grant_state to)
{
	switch (grant->state) {
	case GRANT_MADE:
		return to == GRANT_LENT ||
		       (to == GRANT_HELD && grant->kind == GRANT_SLOT);
	case GRANT_LENT:
		return to == GRANT_CLOSING ||
		       (to == GRANT_HELD && grant->kind == GRANT_SLOT);
	case GRANT_HELD:
		return to == GRANT_MADE || to == GRANT_CLOSING;
	case GRANT_FREE:
	case GRANT_CLOSING:
		break;
	}
	return false;
}

void grants_move(struct grant *grant, enum grant_state to)
{
	RF_ASSERT(move_is_allowed(grant, to));
	grant->state = to;
}

void grants_free(struct grants *grants, struct grant *grant)
{
	RF_ASSERT(grant->state != GRANT_FREE && grants->count > 0);
	grant->state = GRANT_FREE;
	grants->count--;
	grants->slot_count -= grant->kind == GRANT_SLOT;
	/* The last in the queue: a generation lasts as long as it can. */
	rf_list_push(&grants->free, &grant->link);
}

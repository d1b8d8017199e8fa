/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_session.c - operations on the session itself: identities, write slots,
 * cancelling, BYE
 */
#include "exec.h"

#include <errno.h>

int exec_op_identity(struct exec *e)
{
	return session_set_identity(e->session, &e->args.identity);
}

/* ---- write slots -------------------------------------------------------- */

/* The class that can spare some, from the one asked for down. */
static uint32_t choose_size(const struct exec *e, uint32_t size, uint32_t count,
			    uint32_t *can)
{
	static const uint32_t smaller[] = { STAGING_MIDDLE, STAGING_SMALL };
	const struct lender *lender = &e->session->lender;

	*can = staging_slots_for(lender, size, count);
	for (unsigned int i = 0; *can == 0 && i < RF_ARRAY_SIZE(smaller); i++) {
		if (smaller[i] >= size)
			continue;
		size = smaller[i];
		*can = staging_slots_for(lender, size, count);
	}
	return size;
}

int exec_op_slots(struct exec *e)
{
	const struct rf_slots_args *args = &e->args.slots;
	rf_grants_t *slots = &e->results.slots.slots;
	uint32_t count = args->count, size = args->size;

	if (count == 0 || size == 0 || size > STAGING_LARGE)
		return -EINVAL;
	size = choose_size(e, size, count, &count);
	while (slots->count < count && exec_may_make(e, 1)) {
		struct grant *grant = staging_make_slot(&e->session->lender,
							size);

		if (!grant)
			break;
		exec_note_made(e, grant);
		slots->v[slots->count++] = (struct rf_grant){
			.id = grant->id,
			.rkey = grant->remote.rkey,
			.addr = grant->remote.addr,
			.size = grant->remote.size,
		};
	}
	if (slots->count == 0 && e->session->lender.grants.slot_count == 0)
		staging_deny_slots(&e->session->lender);
	return 0;	/* maybe none: the client writes inside, and asks again */
}

int exec_op_drop_slots(struct exec *e)
{
	const rf_blob_t *ids = &e->args.drop_slots.ids;
	struct lender *lender = &e->session->lender;

	for (unsigned int i = 0; i < ids->size / 4; i++) {
		struct grant *grant = grants_find(&lender->grants,
						  rf_blob_u32(ids, i));

		if (grant && staging_is_lent(grant, GRANT_SLOT))
			staging_return(lender, grant);
	}
	session_unbinding(e->session);
	return 0;
}

/* ---- CANCEL, BYE -------------------------------------------------------- */

/* The answer is OK also when there is no such ticket: its FINISHED may just be
 * on the way. */
int exec_op_cancel(struct exec *e)
{
	uint32_t ticket = e->args.cancel.ticket;
	struct session *session = e->session;

	for (unsigned int i = 0; ticket && i < session->exec_count; i++) {
		struct exec *other = &session->execs[i];

		if (other != e && other->request &&
		    other->request->ticket == ticket)
			exec_interrupt_soon(other, RF_ST_CANCELED);
	}
	return 0;
}

int exec_op_bye(struct exec *e)
{
	e->is_bye = true;
	return 0;
}

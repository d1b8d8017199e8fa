/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_grants.c - slots that a request stores from, grants that its answer makes
 *
 * Operation.  A slot named by a WRITE is held by its request: its key is dead
 * before a byte of it is looked at, and its answer gives it a new one, whatever
 * became of the WRITE.  All binds of a message go in one batch with its answer,
 * so their number is bounded by RF_GRANTS_MAX.  Where there are no keys to
 * withdraw, its bytes are copied before they are looked at.
 * When it fails.  If a key could not be withdrawn, the connection is ending; the
 * slot's buffer goes back when it has.
 */
#include "exec.h"

#include <errno.h>

static bool is_held(const struct exec *e, const struct grant *grant)
{
	for (unsigned int i = 0; i < e->held_count; i++)
		if (e->held[i] == grant)
			return true;
	return false;
}

/* Slots held and not re-armed yet will need a place among the made ones. */
static unsigned int binds_planned(const struct exec *e)
{
	unsigned int count = e->made_count;

	for (unsigned int i = 0; i < e->held_count; i++)
		count += e->held[i]->state == GRANT_HELD;
	return count;
}

bool exec_may_make(const struct exec *e, unsigned int count)
{
	return binds_planned(e) + count <= RF_GRANTS_MAX;
}

void exec_note_made(struct exec *e, struct grant *grant)
{
	e->made_by[e->made_count] = e->op_index;
	e->made[e->made_count++] = grant;
}

/* ---- slots -------------------------------------------------------------- */

static void fence_done(struct grant *grant, int status)
{
	struct exec *e = grant->context;

	RF_ASSERT(e->fences > 0);
	/* Still bound, it makes check_held() refuse the operation. */
	(void)status;
	if (--e->fences == 0)
		exec_continue(e);
}

static void hold_one(struct exec *e, struct grant *grant)
{
	bool needs_no_key = e->held_count > 0 ||
			    !lender_has_windows(&e->session->lender);

	e->held_was_killed[e->held_count] = needs_no_key ||
		(e->request->inv_key != 0 &&
		 e->request->inv_key == grant->remote.rkey);
	e->held_is_copied[e->held_count] = false;
	e->held[e->held_count] = grant;
	e->held_by[e->held_count++] = e->op_index;
	if (!staging_hold(&e->session->lender, grant, fence_done, e))
		e->fences++;
}

/* Those that the client has; the others are missed by check_held(). */
static void hold_all(struct exec *e, const rf_pieces_t *pieces)
{
	struct lender *lender = &e->session->lender;

	for (unsigned int i = 0; i < pieces->count; i++) {
		struct grant *grant = grants_find(&lender->grants,
						  pieces->v[i].slot);

		if (grant && staging_is_lent(grant, GRANT_SLOT))
			hold_one(e, grant);
	}
}

/* The place among the held of a slot of this operation; -1: it is not held. */
static int find_held(const struct exec *e, uint32_t slot)
{
	for (unsigned int i = 0; i < e->held_count; i++)
		if (e->held[i]->id == slot &&
		    e->held[i]->state == GRANT_HELD &&
		    e->held_by[i] == e->op_index)
			return (int)i;
	return -1;
}

/* One slot: 0, or why it can't be used. */
static int check_held(const struct exec *e, const rf_pieces_t *pieces,
		      unsigned int n)
{
	const struct rf_piece *piece = &pieces->v[n];
	int at = find_held(e, piece->slot);

	if (at < 0 || !e->held_was_killed[at] ||
	    staging_is_bound(e->held[at]) ||
	    piece->size == 0 || piece->size > e->held[at]->remote.size)
		return RF_ST_BAD_GRANT;
	while (n-- > 0)
		if (pieces->v[n].slot == piece->slot)
			return RF_ST_BAD_GRANT;
	return 0;
}

static const rf_pieces_t *pieces_of(const struct exec *e)
{
	return e->args.code == RF_OP_WRITE ? &e->args.write.pieces
					   : &e->args.setxattr.pieces;
}

/*
 * No unbind is under way: the operation's own step, or its refusal.  Looked at
 * anew when the message runs again, for which the slots stay held.
 */
static int after_fence(struct exec *e)
{
	const rf_pieces_t *pieces = pieces_of(e);

	for (unsigned int i = 0; i < pieces->count; i++) {
		int status = check_held(e, pieces, i);

		if (status)
			return status;
	}
	return e->fence_step(e);
}

/* Since a former run of this operation. */
static bool holds_any(const struct exec *e)
{
	for (unsigned int i = 0; i < e->held_count; i++)
		if (e->held_by[i] == e->op_index)
			return true;
	return false;
}

int exec_hold(struct exec *e, const rf_pieces_t *pieces, exec_step step)
{
	if (pieces->count == 0)
		return step(e);
	if (!holds_any(e) && !exec_may_make(e, pieces->count)) {
		exec_forfeit_args(e);
		return RF_ST_BAD_MESSAGE;
	}
	if (!holds_any(e))
		hold_all(e, pieces);
	e->fence_step = step;
	if (e->fences == 0)
		return after_fence(e);
	exec_drop_marks(e);
	session_unbinding(e->session);
	return exec_suspend(e, EXEC_WAITS_FENCE, after_fence);
}

int exec_refuse(struct exec *e)
{
	return e->work.err;
}

const void *exec_piece_data(struct exec *e, const struct rf_piece *piece)
{
	int at = find_held(e, piece->slot);
	uint8_t *shadow;

	if (at < 0)
		return NULL;
	shadow = staging_shadow(e->held[at]);
	if (!shadow)
		return e->held[at]->buf->mem;
	/* Once: what was checked is what is stored, also in a second run. */
	if (!e->held_is_copied[at])
		memcpy(shadow, e->held[at]->buf->mem, piece->size);
	e->held_is_copied[at] = true;
	return shadow;
}

static struct rf_grant describe(const struct grant *grant, uint32_t crc)
{
	return (struct rf_grant){
		.id = grant->id,
		.rkey = grant->remote.rkey,
		.addr = grant->remote.addr,
		.size = grant->remote.size,
		.crc = crc,
	};
}

void exec_rearm(struct exec *e, rf_grants_t *out)
{
	struct lender *lender = &e->session->lender;

	out->count = 0;
	for (unsigned int i = 0; i < e->held_count; i++) {
		struct grant *grant = e->held[i];

		if (e->held_by[i] != e->op_index ||
		    grant->state != GRANT_HELD || lender->is_closed ||
		    staging_is_bound(grant) || staging_keeps_slot(lender))
			continue;
		staging_rearm(lender, grant);
		exec_note_made(e, grant);
		out->v[out->count++] = describe(grant, 0);
	}
}

/* ---- data for the client ------------------------------------------------ */

int exec_lend(struct exec *e, uint32_t size, rf_grants_t *out)
{
	struct lender *lender = &e->session->lender;
	struct grant *grant;
	uint32_t crc = 0;

	if (!exec_may_make(e, 1))
		return RF_ST_TOO_MANY;
	if (e->session->uses_crc)
		crc = rf_crc32c(0, e->buf->mem, size);
	grant = staging_lend(lender, e->buf, size);
	if (!grant)
		return lender->is_closed ? -ECANCELED : RF_ST_TOO_MANY;
	e->buf = NULL;
	exec_note_made(e, grant);
	out->v[out->count++] = describe(grant, crc);
	return 0;
}

uint32_t exec_inline_room(const struct exec *e)
{
	/* READ's and READDIR's fixed fields, and the operation's header. */
	enum { FIXED = 64 };
	const struct rf_enc *enc = &e->request->enc;
	uint32_t room = enc->size - enc->used;

	room = room > FIXED ? room - FIXED : 0;
	return room < e->session->limits.inline_max
	       ? room : e->session->limits.inline_max;
}

int exec_give(struct exec *e, uint32_t size, rf_blob_t *data,
	      rf_grants_t *grants, exec_step step)
{
	if (size <= exec_inline_room(e)) {
		*data = (rf_blob_t){ e->server->scratch, size };
		return 0;
	}
	if (!e->buf || e->buf->size < size)
		return exec_stage(e, size, step);
	memcpy(e->buf->mem, e->server->scratch, size);
	return exec_lend(e, size, grants);
}

static void forget_held(struct exec *e, const struct grant *grant)
{
	for (unsigned int i = 0; i < e->held_count; i++) {
		if (e->held[i] != grant)
			continue;
		e->held_count--;
		e->held[i] = e->held[e->held_count];
		e->held_by[i] = e->held_by[e->held_count];
		e->held_was_killed[i] = e->held_was_killed[e->held_count];
		e->held_is_copied[i] = e->held_is_copied[e->held_count];
		return;
	}
}

/* ---- undo, and end ------------------------------------------------------ */

void exec_rewind_grants(struct exec *e)
{
	for (unsigned int i = 0; i < e->made_count; i++) {
		struct grant *grant = e->made[i];

		if (is_held(e, grant))
			grants_move(grant, GRANT_HELD);
		else
			staging_drop(&e->session->lender, grant);
	}
	e->made_count = 0;
}

void exec_forfeit_from(struct exec *e, unsigned int op_index,
		       rf_grants_t *rearmed)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < e->made_count; i++) {
		struct grant *grant = e->made[i];

		if (e->made_by[i] >= op_index && rearmed && is_held(e, grant)) {
			rearmed->v[rearmed->count++] = describe(grant, 0);
		} else if (e->made_by[i] >= op_index) {
			staging_drop(&e->session->lender, grant);
			forget_held(e, grant);
			continue;
		}
		e->made_by[kept] = e->made_by[i];
		e->made[kept++] = grant;
	}
	e->made_count = kept;
}

static void forfeit(struct lender *lender, const rf_pieces_t *pieces)
{
	for (unsigned int i = 0; i < pieces->count; i++) {
		struct grant *grant = grants_find(&lender->grants,
						  pieces->v[i].slot);

		if (grant && staging_is_lent(grant, GRANT_SLOT))
			staging_return(lender, grant);
	}
}

void exec_forfeit_args(struct exec *e)
{
	struct lender *lender = &e->session->lender;

	if (e->args.code == RF_OP_WRITE)
		forfeit(lender, &e->args.write.pieces);
	else if (e->args.code == RF_OP_SETXATTR)
		forfeit(lender, &e->args.setxattr.pieces);
	session_unbinding(e->session);
}

void exec_forfeit_rest(struct exec *e)
{
	int ret;

	if (e->session->lender.grants.slot_count == 0)
		return;
	while ((ret = rf_dec_args(&e->request->dec, &e->args)) != 0)
		if (ret > 0)
			exec_forfeit_args(e);
}

unsigned int exec_end_grants(struct exec *e, struct rf_work *works)
{
	struct lender *lender = &e->session->lender;
	unsigned int count = 0;

	for (unsigned int i = 0; i < e->made_count; i++) {
		if (lender->is_closed)
			staging_drop(lender, e->made[i]);
		else if (staging_bind(e->made[i], &works[count]))
			count++;
	}
	for (unsigned int i = 0; i < e->held_count; i++) {
		struct grant *grant = e->held[i];

		if (grant->state != GRANT_HELD)
			continue;
		/*
		 * Of an operation that a second run of the message did not
		 * reach; or its key could not be withdrawn: then it goes when
		 * the endpoint has closed.
		 */
		if (lender->is_closed || !staging_is_bound(grant))
			staging_drop(lender, grant);
		else
			grants_move(grant, GRANT_CLOSING);
	}
	return count;
}

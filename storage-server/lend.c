/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lend.c - rights on buffers: lent, withdrawn, made anew
 *
 * Operation.  Unbinds gather over a turn and are posted in one batch, each with
 * its grant's op; done(0) is the proof that the peer can't reach the buffer any
 * more.  A failed one proves nothing until the endpoint has closed, so its
 * buffer waits for lender_close().
 * Without windows there is nothing to bind or unbind.
 * Ownership.  A window is taken from its fabric's stack when a grant is made and
 * goes back with it.
 */
#include "staging.h"

#include <errno.h>
#include <stdlib.h>

/* ---- windows ------------------------------------------------------------ */

int windows_init(struct windows *windows, struct rf_pd *pd, uint32_t count)
{
	*windows = (struct windows){ .count = 0 };
	windows->v = calloc(count, sizeof(struct rf_window *));
	if (!windows->v)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		int err = rf_window_create(pd, &windows->v[i]);

		if (err) {
			windows_fini(windows);
			return err;
		}
		windows->count = windows->free = i + 1;
	}
	return 0;
}

void windows_fini(struct windows *windows)
{
	RF_ASSERT(windows->free == windows->count);
	for (uint32_t i = 0; i < windows->count; i++)
		rf_window_destroy(windows->v[i]);
	free(windows->v);
	*windows = (struct windows){ .count = 0 };
}

/* There is one for each buffer. */
static struct rf_window *window_get(struct windows *windows)
{
	RF_ASSERT(windows->free > 0);
	return windows->v[--windows->free];
}

static void window_put(struct windows *windows, struct rf_window *window)
{
	RF_ASSERT(windows->free < windows->count);
	windows->v[windows->free++] = window;
}

/* ---- a session's lender ------------------------------------------------- */

int lender_init(struct lender *lender, const struct lending *lending,
		struct rf_ep *ep, uint32_t slots_max)
{
	uint64_t most = lending->staging->session_bytes / STAGING_SMALL;

	RF_ASSERT(!lending->windows == !!lending->shadow);
	*lender = (struct lender){
		.staging = lending->staging,
		.windows = lending->windows,
		.mr = lending->mr,
		.shadow = lending->shadow,
		.ep = ep,
		.slots_max = slots_max,
	};
	rf_list_init(&lender->waiters);
	rf_list_init(&lender->unbinds);
	return grants_init(&lender->grants,
			   (uint32_t)rf_min_u64(most, GRANTS_MAX));
}

void lender_fini(struct lender *lender)
{
	RF_ASSERT(lender->used == 0 && rf_list_is_empty(&lender->waiters));
	grants_fini(&lender->grants);
}

static struct staging_class *slot_class(struct lender *lender,
					const struct grant *grant)
{
	struct staging *staging = lender->staging;

	for (unsigned int i = 0; i < STAGING_CLASSES; i++)
		if (staging->classes[i].size == grant->buf->size)
			return &staging->classes[i];
	rf_bug(__FILE__, __LINE__, "a slot's buffer is of no class");
}

bool lender_has_windows(const struct lender *lender)
{
	return lender->windows != NULL;
}

/* Its window is free: everything goes back. */
static void end_grant(struct lender *lender, struct grant *grant)
{
	struct rf_buf *buf = grant->buf;

	RF_ASSERT(!staging_is_bound(grant));
	term_end(grant);
	if (grant->kind == GRANT_SLOT) {
		slot_class(lender, grant)->slots--;
		lender->slot_bytes -= buf->size;
	}
	if (grant->window)
		window_put(lender->windows, grant->window);
	grant->buf = NULL;
	grant->window = NULL;
	grants_free(&lender->grants, grant);
	staging_put(lender, buf);
}

void lender_close(struct lender *lender)
{
	struct grants *grants = &lender->grants;

	struct rf_list *item;

	lender->is_closed = true;
	lender->ep = NULL;
	/* Who waits for an unbind that was never posted is told. */
	while ((item = rf_list_pop(&lender->unbinds))) {
		struct grant *grant = rf_container_of(item, struct grant, link);

		if (grant->state == GRANT_HELD)
			grant->unbound(grant, -ECANCELED);
	}
	for (uint32_t i = 0; i < grants->capacity; i++) {
		struct grant *grant = &grants->v[i];

		/* MADE and HELD belong to a request: they end with it. */
		if (grant->state == GRANT_LENT ||
		    grant->state == GRANT_CLOSING)
			end_grant(lender, grant);
	}
}

/* ---- lending ------------------------------------------------------------ */

static void choose_key(struct lender *lender, struct grant *grant,
		       uint32_t size)
{
	unsigned int access = grant->kind == GRANT_SLOT ? RF_REMOTE_WRITE
							: RF_REMOTE_READ;

	if (grant->window)
		grant->remote = rf_window_next(grant->window, lender->mr,
					       grant->buf->mem, size, access);
	else
		grant->remote = rf_mr_remote(lender->mr, grant->buf->mem, size);
}

static struct grant *make_grant(struct lender *lender, enum grant_kind kind,
				struct rf_buf *buf, uint32_t size)
{
	struct grant *grant;

	if (lender->is_closed)
		return NULL;
	grant = grants_make(&lender->grants, kind);
	if (!grant)
		return NULL;
	grant->buf = buf;
	grant->window = lender->windows ? window_get(lender->windows) : NULL;
	grant->owner = lender;
	grant->unbound = NULL;
	grant->op = (struct rf_op){ .done = NULL };
	rf_list_init(&grant->link);
	choose_key(lender, grant, size);
	return grant;
}

struct grant *staging_lend(struct lender *lender, struct rf_buf *buf,
			   uint32_t size)
{
	struct grant *grant = make_grant(lender, GRANT_READ, buf, size);

	lender->staging->grants_made += grant != NULL;
	return grant;
}

uint32_t staging_slots_for(const struct lender *lender, uint32_t size,
			   uint32_t count)
{
	const struct staging *staging = lender->staging;
	const struct staging_class *class = staging->classes;
	uint32_t budget, have = lender->grants.slot_count;

	while (class->size < size)
		class++;
	/* Half of the class is for slots; take at most half of what is left. */
	budget = class->count / 2 > class->slots
		 ? (class->count / 2 - class->slots + 1) / 2 : 0;
	if (have >= lender->slots_max)
		return 0;
	count = (uint32_t)rf_min_u64(count, lender->slots_max - have);
	return (uint32_t)rf_min_u64(count, budget);
}

struct grant *staging_make_slot(struct lender *lender, uint32_t size)
{
	struct staging *staging = lender->staging;
	struct grant *grant;
	struct rf_buf *buf;

	if (lender->slot_bytes + size > staging->session_bytes / 2)
		return NULL;
	buf = staging_get(lender, size, NULL);
	if (!buf)
		return NULL;
	grant = make_grant(lender, GRANT_SLOT, buf, size);
	if (!grant) {
		staging_put(lender, buf);
		return NULL;
	}
	slot_class(lender, grant)->slots++;
	lender->slot_bytes += buf->size;
	staging->slots_made++;
	return grant;
}

bool staging_bind(struct grant *grant, struct rf_work *work)
{
	grants_move(grant, GRANT_LENT);
	*work = (struct rf_work){ .code = RF_BIND, .window = grant->window };
	if (grant->window)
		term_begin(grant);
	return grant->window;
}

bool staging_is_bound(const struct grant *grant)
{
	return grant->window && rf_window_is_bound(grant->window);
}

bool staging_is_lent(const struct grant *grant, enum grant_kind kind)
{
	return grant->kind == kind && grant->state == GRANT_LENT &&
	       !(grant->window && rf_window_awaits_bind(grant->window));
}

uint8_t *staging_shadow(const struct grant *grant)
{
	const struct lender *lender = grant->owner;
	const uint8_t *base = rf_pool_base(lender->staging->pool);

	return lender->shadow ? lender->shadow + (grant->buf->mem - base)
			      : NULL;
}

/* ---- withdrawing -------------------------------------------------------- */

static void unbind_done(struct rf_op *op, int status)
{
	struct grant *grant = rf_container_of(op, struct grant, op);
	struct lender *lender = grant->owner;

	if (grant->state == GRANT_HELD) {
		grant->unbound(grant, status);
		return;
	}
	/* Failed: the endpoint is closing, and lender_close() has it. */
	if (status == 0 && grant->state == GRANT_CLOSING)
		end_grant(lender, grant);
}

static void queue_unbind(struct lender *lender, struct grant *grant)
{
	lender->staging->unbinds++;
	rf_list_remove(&grant->link);
	rf_list_push(&lender->unbinds, &grant->link);
}

void staging_return(struct lender *lender, struct grant *grant)
{
	grants_move(grant, GRANT_CLOSING);
	term_end(grant);
	if (!staging_is_bound(grant))
		end_grant(lender, grant);
	else
		queue_unbind(lender, grant);
}

bool staging_hold(struct lender *lender, struct grant *grant,
		  void (*unbound)(struct grant *grant, int status),
		  void *context)
{
	grants_move(grant, GRANT_HELD);
	term_end(grant);
	grant->unbound = unbound;
	grant->context = context;
	if (!staging_is_bound(grant))
		return true;
	queue_unbind(lender, grant);
	return false;
}

void staging_rearm(struct lender *lender, struct grant *grant)
{
	grants_move(grant, GRANT_MADE);
	choose_key(lender, grant, grant->remote.size);
}

void staging_drop(struct lender *lender, struct grant *grant)
{
	RF_ASSERT(grant->state == GRANT_MADE || grant->state == GRANT_HELD);
	end_grant(lender, grant);
}

/* One that waits to be posted, and needs it no more: the client was first. */
static struct grant *find_invalidated(const struct lender *lender)
{
	struct rf_list *pos;

	rf_list_for_each(pos, &lender->unbinds) {
		struct grant *grant = rf_container_of(pos, struct grant, link);

		if (!staging_is_bound(grant))
			return grant;
	}
	return NULL;
}

void lender_settle(struct lender *lender)
{
	struct grant *grant;

	while ((grant = find_invalidated(lender))) {
		rf_list_remove(&grant->link);
		unbind_done(&grant->op, 0);
	}
}

void lender_post(struct lender *lender)
{
	while (!rf_list_is_empty(&lender->unbinds) && lender->ep) {
		struct rf_work works[STAGING_UNBINDS_MAX];
		struct rf_list *pos = lender->unbinds.next;
		unsigned int count = 0;
		int err;

		for (; pos != &lender->unbinds && count < STAGING_UNBINDS_MAX;
		     pos = pos->next) {
			struct grant *grant =
				rf_container_of(pos, struct grant, link);

			grant->op.done = unbind_done;
			works[count++] = (struct rf_work){
				.code = RF_UNBIND,
				.op = &grant->op,
				.window = grant->window,
			};
		}
		err = rf_ep_post(lender->ep, works, count);
		if (err)
			return;	/* full: in the next turn; closing: closed() */
		while (count-- > 0)
			rf_list_pop(&lender->unbinds);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * staging.c - buffers: getting, waiting, sharing
 *
 * Operation.  lend.c makes grants of what is got here.  A waiter is in one of
 * two queues: the session's while its share is used up, else the pool's.
 * Ownership.  A buffer is counted to its session from get to put.
 */
#include "staging.h"

void staging_init(struct staging *staging, uint64_t bytes,
		  uint64_t session_bytes)
{
	/*
	 * Read-ahead and large writes move 1 MiB at a time: three quarters.
	 * The rest is halved between the kernel's default read-ahead
	 * (128 KiB) and small reads.
	 */
	uint64_t eighth = bytes / 8;
	uint64_t small = rf_max_u64(eighth / STAGING_SMALL, 4);
	uint64_t middle = rf_max_u64(eighth / STAGING_MIDDLE, 2);
	uint64_t large = (bytes - 2 * eighth) / STAGING_LARGE;

	*staging = (struct staging){
		.session_bytes = session_bytes,
		.classes = {
			{ STAGING_SMALL, (uint32_t)small, 0 },
			{ STAGING_MIDDLE, (uint32_t)middle, 0 },
			{ STAGING_LARGE, (uint32_t)rf_max_u64(large, 2), 0 },
		},
	};
	rf_list_init(&staging->lent);
}

uint32_t staging_count(const struct staging *staging)
{
	uint32_t count = 0;

	for (unsigned int i = 0; i < STAGING_CLASSES; i++)
		count += staging->classes[i].count;
	return count;
}

/* ---- buffers ------------------------------------------------------------ */

static uint32_t class_size(const struct staging *staging, uint32_t size)
{
	for (unsigned int i = 0; i < STAGING_CLASSES; i++)
		if (size <= staging->classes[i].size)
			return staging->classes[i].size;
	rf_bug(__FILE__, __LINE__, "size is above STAGING_LARGE");
}

static bool share_has_room(const struct lender *lender, uint32_t size)
{
	return lender->used + size <= lender->staging->session_bytes;
}

static void begin_wait(struct lender *lender, struct staging_waiter *waiter)
{
	waiter->lender = lender;
	waiter->is_waiting = true;
	term_wait(lender->staging, 1);
}

static void end_wait(struct staging_waiter *waiter)
{
	waiter->is_waiting = false;
	term_wait(waiter->lender->staging, -1);
}

/* A buffer has come to a waiter of the pool's. */
static void pool_ready(struct rf_pool_waiter *pool, struct rf_buf *buf)
{
	struct staging_waiter *waiter =
		rf_container_of(pool, struct staging_waiter, pool);

	end_wait(waiter);
	waiter->ready(waiter, buf);
}

/* The share was taken already. */
static struct rf_buf *get_or_wait(struct lender *lender, uint32_t size,
				  struct staging_waiter *waiter)
{
	struct rf_pool *pool = lender->staging->pool;
	struct rf_buf *buf = rf_pool_get(pool, size);

	if (buf)
		return buf;
	if (!waiter) {
		lender->used -= size;
		return NULL;
	}
	lender->staging->waits++;
	waiter->pool = (struct rf_pool_waiter){ .ready = pool_ready };
	rf_pool_wait(pool, size, &waiter->pool);
	return NULL;
}

static void wait_for_share(struct lender *lender,
			   struct staging_waiter *waiter)
{
	lender->staging->waits_for_share++;
	rf_list_push(&lender->waiters, &waiter->link);
}

struct rf_buf *staging_get(struct lender *lender, uint32_t size,
			   struct staging_waiter *waiter)
{
	struct rf_buf *buf;

	size = class_size(lender->staging, size);
	if (waiter) {
		RF_ASSERT(!waiter->is_waiting);
		begin_wait(lender, waiter);
		waiter->size = size;
		rf_list_init(&waiter->link);
	}
	if (!share_has_room(lender, size) ||
	    !rf_list_is_empty(&lender->waiters)) {
		if (waiter)
			wait_for_share(lender, waiter);
		return NULL;
	}
	lender->used += size;
	buf = get_or_wait(lender, size, waiter);
	if (buf && waiter)
		end_wait(waiter);
	return buf;
}

/* The share has grown: let its waiters pass, in order. */
static void serve_waiters(struct lender *lender)
{
	if (lender->is_serving)
		return;		/* a put below us on the stack goes on */
	lender->is_serving = true;
	while (!rf_list_is_empty(&lender->waiters)) {
		struct staging_waiter *waiter =
			rf_container_of(lender->waiters.next,
					struct staging_waiter, link);
		struct rf_buf *buf;

		if (!share_has_room(lender, waiter->size))
			break;
		rf_list_remove(&waiter->link);
		lender->used += waiter->size;
		buf = get_or_wait(lender, waiter->size, waiter);
		if (!buf)
			continue;
		end_wait(waiter);
		waiter->ready(waiter, buf);
	}
	lender->is_serving = false;
}

void staging_cancel(struct staging_waiter *waiter)
{
	struct lender *lender = waiter->lender;

	if (!waiter->is_waiting)
		return;
	end_wait(waiter);
	if (!rf_list_is_empty(&waiter->link)) {
		rf_list_remove(&waiter->link);
		/* It may have been the head that held up smaller ones. */
		serve_waiters(lender);
		return;
	}
	rf_pool_cancel(lender->staging->pool, &waiter->pool);
	lender->used -= waiter->size;
	serve_waiters(lender);
}

void staging_put(struct lender *lender, struct rf_buf *buf)
{
	RF_ASSERT(lender->used >= buf->size);
	lender->used -= buf->size;
	rf_pool_put(buf);
	serve_waiters(lender);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * term.c - grants that clients have had for too long
 *
 * Operation.  A client that lives, and never returns what it was lent, would keep
 * the memory from all others.  So each grant has a term, which HELLO_REPLY tells:
 * for so long it is the client's, and after that only while nobody needs the
 * memory.  The LENT ones are in a list, oldest first; while a request waits for a
 * buffer, a timer runs to the end of the first one's term.  What is taken back
 * goes the way of what was returned: its key is dead before its memory is lent
 * again.  A session that has no slot and was given none is owed one, which
 * another session that has more than one does not get back with its next WRITE.
 *
 * When it fails.  A client that uses what was taken back loses its connection.
 */
#include "staging.h"

enum {
	OWED_MAX = 64,
	/* One is owed to a session once in so long, and as long to all of them
	 * after the last has asked: who needs one asks each 100 ms. */
	OWED_MS = 1000,
};

#define MS_NS UINT64_C(1000000)

static uint64_t end_ns(const struct staging *staging,
		       const struct grant *grant)
{
	return grant->lent_ns + staging->grant_ms * MS_NS;
}

static struct grant *oldest(const struct staging *staging)
{
	return rf_list_is_empty(&staging->lent) ? NULL :
	       rf_container_of(staging->lent.next, struct grant, term_link);
}

/* Have the timer run if there is somebody to run it for. */
static void watch(struct staging *staging)
{
	const struct grant *grant = oldest(staging);
	uint64_t now_ns, due_ns;

	if (!staging->reactor || !grant || rf_timer_is_started(&staging->timer) ||
	    (staging->waiting == 0 && !staging->slots_are_short))
		return;
	now_ns = rf_reactor_now_ns(staging->reactor);
	due_ns = end_ns(staging, grant);
	/* Not in this call: its caller may have a batch open. */
	rf_timer_start(staging->reactor, &staging->timer, due_ns <= now_ns
		       ? 1 : (due_ns - now_ns) / MS_NS + 1);
}

static void take(struct staging *staging, struct grant *grant)
{
	struct lender *lender = grant->owner;

	staging->taken_back++;
	lender->was_taken_from = true;
	staging_return(lender, grant);
	staging->took_back(lender);
}

/* For requests all of them help, for a session without a slot only slots. */
static void take_expired(struct staging *staging)
{
	uint64_t now_ns = rf_reactor_now_ns(staging->reactor);
	struct rf_list *at, *next;

	for (at = staging->lent.next; at != &staging->lent; at = next) {
		struct grant *grant =
			rf_container_of(at, struct grant, term_link);

		next = at->next;
		if (end_ns(staging, grant) > now_ns)
			return;
		/* Its bind has not left: then it is no older than that. */
		if (!staging_is_lent(grant, grant->kind))
			continue;
		if (staging->waiting > 0 || grant->kind == GRANT_SLOT)
			take(staging, grant);
	}
}

static void fire(struct rf_timer *timer)
{
	struct staging *staging =
		rf_container_of(timer, struct staging, timer);

	take_expired(staging);
	/* It asks again if it still needs them. */
	staging->slots_are_short = false;
	watch(staging);
}

void staging_set_term(struct staging *staging, struct rf_reactor *reactor,
		      uint32_t grant_ms,
		      void (*took_back)(struct lender *lender))
{
	if (grant_ms == 0)
		return;
	staging->reactor = reactor;
	staging->grant_ms = grant_ms;
	staging->took_back = took_back;
	staging->timer.fire = fire;
}

void staging_stop_term(struct staging *staging)
{
	if (staging->reactor)
		rf_timer_stop(staging->reactor, &staging->timer);
	staging->reactor = NULL;
}

void term_begin(struct grant *grant)
{
	struct lender *lender = grant->owner;
	struct staging *staging = lender->staging;

	if (!staging->reactor)
		return;
	grant->lent_ns = rf_reactor_now_ns(staging->reactor);
	rf_list_push(&staging->lent, &grant->term_link);
	watch(staging);
}

void term_end(struct grant *grant)
{
	rf_list_remove(&grant->term_link);
}

void term_wait(struct staging *staging, int waiters)
{
	RF_ASSERT(waiters > 0 || staging->waiting > 0);
	staging->waiting += (uint32_t)waiters;
	watch(staging);
}

void staging_deny_slots(struct lender *lender)
{
	struct staging *staging = lender->staging;
	uint64_t now_ns;

	if (!staging->reactor)
		return;
	now_ns = rf_reactor_now_ns(staging->reactor);
	staging->slots_are_short = true;
	staging->denied_ns = now_ns;
	if (staging->owed < OWED_MAX && now_ns >= lender->owed_again_ns) {
		staging->owed++;
		lender->owed_again_ns = now_ns + OWED_MS * MS_NS;
	}
	watch(staging);
}

/* Whoever still needs one has asked since. */
static void forget_owed(struct staging *staging)
{
	if (staging->owed > 0 &&
	    rf_reactor_now_ns(staging->reactor) - staging->denied_ns >=
		    OWED_MS * MS_NS)
		staging->owed = 0;
}

bool staging_keeps_slot(struct lender *lender)
{
	struct staging *staging = lender->staging;

	if (staging->reactor)
		forget_owed(staging);
	if (staging->owed == 0 || lender->grants.slot_count < 2)
		return false;
	staging->owed--;
	staging->not_rearmed++;
	return true;
}

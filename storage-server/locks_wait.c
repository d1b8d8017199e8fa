/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locks_wait.c - locks that are not there yet: their waits, deadlocks, events
 *
 *	WAITING -> settled -> told, and known to be
 *
 * Operation.  A wait stands in three lists: of its file, where it is looked at
 * in turn; of its owner, for the search of deadlocks; of its session.  Settled,
 * it stands in its session's list of events until the client has said that it
 * has seen it.
 */
#include "locks_impl.h"

#include <errno.h>

/* ---- waiting ------------------------------------------------------------ */

static struct lock_wait *find(const struct rf_list *waits, uint64_t number)
{
	const struct rf_list *at;

	rf_list_for_each(at, waits) {
		struct lock_wait *wait = rf_container_of(at, struct lock_wait,
							 session_link);

		if (wait->request.wait == number)
			return wait;
	}
	return NULL;
}

/* In the lists of its file and its owner, unless it is the grace's. */
static bool enter(struct locks *locks, struct lock_wait *wait)
{
	if (locks->is_in_grace) {
		rf_list_push(&locks->grace_waits, &wait->link);
		return true;
	}
	wait->inode = lock_inode_get(locks, wait->request.inode, true);
	wait->owner = lock_owner_get(locks, wait->session, &wait->request,
				     true);
	if (!wait->inode || !wait->owner)
		return false;
	rf_list_push(&wait->inode->waits, &wait->link);
	rf_list_push(&wait->owner->waits, &wait->owner_link);
	return true;
}

/* Sent again, for its answer was lost with a connection. */
static bool is_same(const struct lock_request *a, const struct lock_request *b)
{
	return a->inode == b->inode && a->owner == b->owner &&
	       a->kind == b->kind && a->range.start == b->range.start &&
	       a->range.end == b->range.end &&
	       a->range.is_exclusive == b->range.is_exclusive;
}

int lock_wait_add(struct locks *locks, struct lock_session *session,
		  const struct lock_request *request)
{
	struct lock_wait *wait = find(&session->waits, request->wait);

	if (wait && is_same(&wait->request, request)) {
		wait->request.is_no_deadlock |= request->is_no_deadlock;
		return 0;
	}
	if (request->wait == 0 || wait)
		return -EINVAL;
	/* Its client does not know that it has ended: it waits anew. */
	wait = find(&session->settled, request->wait);
	if (wait && !is_same(&wait->request, request))
		return -EINVAL;
	if (wait)
		lock_wait_drop(locks, wait);
	wait = session->wait_count < LOCK_WAITS_SESSION_MAX ?
		       lock_pool_take(&locks->waits) : NULL;
	if (!wait) {
		locks->figures.denied++;
		return -ENOLCK;
	}
	rf_list_init(&wait->link);
	rf_list_init(&wait->owner_link);
	wait->session = session;
	wait->request = *request;
	if (!enter(locks, wait)) {
		lock_pool_give(&locks->waits, wait);
		return -ENOLCK;
	}
	rf_list_push(&session->waits, &wait->session_link);
	session->wait_count++;
	locks->figures.waited++;
	return 0;
}

void lock_wait_forget_same(struct locks *locks, struct lock_session *session,
			   const struct lock_request *request)
{
	struct lock_wait *wait;

	if (request->wait == 0 || session->wait_count == 0)
		return;
	wait = find(&session->waits, request->wait);
	if (!wait)
		wait = find(&session->settled, request->wait);
	if (!wait || !is_same(&wait->request, request))
		return;
	lock_wait_drop(locks, wait);
	if (!locks_waits(session))
		locks->settled(session);
}

/* Out of all lists but the session's.  The file stays: its user drops it. */
static void leave(struct locks *locks, struct lock_wait *wait)
{
	struct lock_owner *owner = wait->owner;

	if (wait->inode && wait->inode->wake_at == &wait->link)
		wait->inode->wake_at = wait->link.next;
	rf_list_remove(&wait->link);
	rf_list_remove(&wait->owner_link);
	wait->inode = NULL;
	wait->owner = NULL;
	if (owner)
		lock_owner_drop_unused(locks, owner);
}

void lock_wait_settle(struct locks *locks, struct lock_wait *wait, int err)
{
	struct lock_session *session = wait->session;

	leave(locks, wait);
	wait->err = err;
	wait->event = ++session->last_event;
	rf_list_remove(&wait->session_link);
	rf_list_push(&session->settled, &wait->session_link);
	if (err == -EDEADLK)
		locks->figures.deadlocks++;
	locks->settled(session);
}

void lock_wait_drop(struct locks *locks, struct lock_wait *wait)
{
	struct lock_inode *inode = wait->inode;

	leave(locks, wait);
	if (inode)
		lock_inode_drop_unused(locks, inode);
	rf_list_remove(&wait->session_link);
	wait->session->wait_count--;
	lock_pool_give(&locks->waits, wait);
}

int locks_cancel(struct locks *locks, struct lock_session *session,
		 uint64_t number)
{
	struct lock_wait *wait = find(&session->waits, number);
	int err = -ECANCELED;

	if (!wait) {
		wait = find(&session->settled, number);
		if (!wait)
			return -ENOENT;
		err = wait->err;
	}
	lock_wait_drop(locks, wait);
	if (!locks_waits(session))
		locks->settled(session);
	return err;
}

unsigned int locks_events(struct locks *locks, struct lock_session *session,
			  uint64_t seen, struct lock_event *out,
			  unsigned int max, uint64_t *last)
{
	struct rf_list *at = session->settled.next;
	unsigned int count = 0;

	/* Of the server before this one. */
	if (seen > session->last_event)
		seen = 0;
	*last = seen;
	while (at != &session->settled && count < max) {
		struct lock_wait *wait = rf_container_of(at, struct lock_wait,
							 session_link);

		at = at->next;
		if (wait->event <= seen) {
			lock_wait_drop(locks, wait);
			continue;
		}
		out[count++] = (struct lock_event){ wait->request.wait,
						    wait->err };
		*last = wait->event;
	}
	return count;
}

/* ---- grace -------------------------------------------------------------- */

static void ask_again(struct locks *locks, struct lock_wait *wait)
{
	struct lock_request request = wait->request;
	struct lock_session *session = wait->session;
	int ret;

	locks->wake_steps++;
	/* It may have to wait on, under its number, as a new one. */
	rf_list_remove(&wait->session_link);
	session->wait_count--;
	ret = lock_set(locks, session, &request);
	session->wait_count++;
	rf_list_push(&session->waits, &wait->session_link);
	if (ret == 1)
		lock_wait_drop(locks, wait);
	else
		lock_wait_settle(locks, wait, ret);
}

bool lock_grace_run(struct locks *locks)
{
	while (!rf_list_is_empty(&locks->grace_waits)) {
		if (locks->wake_steps >= LOCK_STEPS_MAX) {
			locks->figures.put_off++;
			return false;
		}
		ask_again(locks, rf_container_of(
					 rf_list_pop(&locks->grace_waits),
					 struct lock_wait, link));
	}
	return true;
}

void locks_end_grace(struct locks *locks)
{
	locks->is_in_grace = false;
	locks_go_on(locks);
}

/* ---- deadlocks ---------------------------------------------------------- */

struct search {
	struct locks *locks;
	struct rf_list todo;
	const struct lock_owner *wanted;
};

/* Note the owners that are in the way; true: the wanted one is. */
static bool visit_blockers(struct search *search,
			   const struct lock_inode *inode,
			   const struct lock_owner *owner,
			   const struct lock_request *request)
{
	struct lock_holding *at = NULL;
	const struct rf_range *range;

	while ((at = lock_conflict(inode, owner, request, at, &range,
				   &search->locks->search_steps))) {
		struct lock_owner *blocker = at->owner;

		if (blocker == search->wanted)
			return true;
		if (blocker->search == search->locks->search)
			continue;
		blocker->search = search->locks->search;
		rf_list_push(&search->todo, &blocker->search_link);
	}
	return false;
}

/* Does the owner wait for the wanted one? */
static bool visit_owner(struct search *search, const struct lock_owner *owner)
{
	const struct rf_list *at;

	rf_list_for_each(at, &owner->waits) {
		const struct lock_wait *wait =
			rf_container_of(at, struct lock_wait, owner_link);

		if (!wait->request.is_no_deadlock &&
		    visit_blockers(search, wait->inode, owner, &wait->request))
			return true;
	}
	return false;
}

bool lock_is_deadlock(struct locks *locks, struct lock_inode *inode,
		      struct lock_owner *owner,
		      const struct lock_request *request)
{
	struct search search = { .locks = locks, .wanted = owner };
	struct rf_list *link;
	bool found, is_cut;

	if (request->kind == LOCK_FLOCK || request->is_no_deadlock)
		return false;
	locks->search++;
	rf_list_init(&search.todo);
	is_cut = locks->search_steps >= LOCK_STEPS_MAX;
	found = !is_cut && visit_blockers(&search, inode, owner, request);
	while ((link = rf_list_pop(&search.todo))) {
		is_cut |= !found && locks->search_steps >= LOCK_STEPS_MAX;
		if (!found && !is_cut)
			found = visit_owner(&search,
					    rf_container_of(link,
							    struct lock_owner,
							    search_link));
	}
	locks->figures.searches_cut += is_cut;
	return found;
}

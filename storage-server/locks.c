/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locks.c - who has locked which bytes
 *
 * Operation.  Two hash tables find files and owners; a holding joins one of
 * each.  A request is compared with the holdings of other owners on its file:
 * linear, in the number of ranges there.
 * Ownership.  Records exist as long as they say something: a holding while it
 * has ranges, a file or an owner while it has holdings or waits.
 * When it fails.  What a change may need is taken before anything is changed.
 */
#include "locks_impl.h"

#include <errno.h>

/* ---- holdings ----------------------------------------------------------- */

static struct lock_holding *find_holding(const struct lock_inode *inode,
					 const struct lock_owner *owner)
{
	struct rf_list *at;

	rf_list_for_each(at, &inode->holdings) {
		struct lock_holding *holding =
			rf_container_of(at, struct lock_holding, link);

		if (holding->owner == owner)
			return holding;
	}
	return NULL;
}

static struct lock_holding *make_holding(struct locks *locks,
					 struct lock_inode *inode,
					 struct lock_owner *owner)
{
	struct lock_holding *holding = lock_pool_take(&locks->holdings);

	if (!holding)
		return NULL;
	holding->inode = inode;
	holding->owner = owner;
	rf_list_init(&holding->ranges);
	rf_list_push(&inode->holdings, &holding->link);
	rf_list_push(&owner->holdings, &holding->owner_link);
	return holding;
}

/* Give spare ranges back, and a holding that has none left. */
static void settle_ranges(struct locks *locks, struct lock_session *session,
			  struct rf_list *spare)
{
	struct rf_list *link;

	while ((link = rf_list_pop(spare))) {
		lock_pool_give(&locks->ranges, link);
		session->range_count--;
	}
}

static void drop_if_empty(struct locks *locks, struct lock_holding *holding)
{
	if (!rf_list_is_empty(&holding->ranges))
		return;
	rf_list_remove(&holding->link);
	rf_list_remove(&holding->owner_link);
	lock_pool_give(&locks->holdings, holding);
}

/* count ranges to work with, or none. */
static bool take_spare(struct locks *locks, struct lock_session *session,
		       unsigned int count, bool uses_reserve,
		       struct rf_list *spare)
{
	unsigned int session_max = LOCKS_SESSION_MAX;
	unsigned int max = LOCKS_MAX - LOCKS_RESERVE;

	if (uses_reserve) {
		session_max += LOCKS_SESSION_RESERVE;
		max += LOCKS_RESERVE;
	}
	rf_list_init(spare);
	for (unsigned int i = 0; i < count; i++) {
		struct rf_range *range =
			session->range_count < session_max &&
			locks->ranges.count < max ?
				lock_pool_take(&locks->ranges) : NULL;

		if (!range) {
			settle_ranges(locks, session, spare);
			locks->figures.denied++;
			return false;
		}
		session->range_count++;
		rf_list_push(spare, &range->link);
	}
	return true;
}

/* All that it has on the file. */
static void clear_holding(struct locks *locks, struct lock_holding *holding)
{
	struct lock_session *session = holding->owner->session;
	struct rf_list spare;

	rf_list_init(&spare);
	rf_ranges_clear(&holding->ranges, 0, RF_RANGE_END, &spare);
	settle_ranges(locks, session, &spare);
	drop_if_empty(locks, holding);
}

/* ---- conflicts ---------------------------------------------------------- */

struct lock_holding *lock_conflict(const struct lock_inode *inode,
				   const struct lock_owner *owner,
				   const struct lock_request *request,
				   struct lock_holding *after,
				   const struct rf_range **range,
				   uint64_t *steps)
{
	struct rf_list *at = after ? after->link.next : inode->holdings.next;

	for (; at != &inode->holdings; at = at->next) {
		struct lock_holding *holding =
			rf_container_of(at, struct lock_holding, link);

		++*steps;
		if (holding->owner == owner ||
		    holding->owner->kind != request->kind)
			continue;
		*range = rf_ranges_conflict(&holding->ranges,
					    &request->range, steps);
		if (*range)
			return holding;
	}
	return NULL;
}

static bool is_free(struct locks *locks, const struct lock_inode *inode,
		    const struct lock_owner *owner,
		    const struct lock_request *request)
{
	const struct rf_range *range;

	return !inode || !lock_conflict(inode, owner, request, NULL, &range,
					&locks->wake_steps);
}

bool locks_test(struct locks *locks, struct lock_session *session,
		const struct lock_request *request, struct rf_range *found,
		const struct lock_session **holder)
{
	const struct lock_inode *inode = lock_inode_get(locks, request->inode,
							false);
	const struct lock_owner *owner = lock_owner_get(locks, session,
							request, false);
	const struct lock_holding *first = NULL;
	struct lock_holding *at = NULL;
	const struct rf_range *range;

	while (inode && (at = lock_conflict(inode, owner, request, at,
					    &range, &locks->wake_steps))) {
		if (first && range->start >= found->start)
			continue;
		first = at;
		*found = *range;
	}
	if (first)
		*holder = first->owner->session;
	return !first;
}

/* ---- going on ----------------------------------------------------------- */

/*
 * A new lock may be in the way of some who wait already, and whose owners its
 * own one waits for in another thread.
 */
static void look_for_deadlocks(struct locks *locks, struct lock_inode *inode)
{
	struct rf_list *at = inode->waits.next;

	while (at != &inode->waits) {
		struct lock_wait *wait = rf_container_of(at, struct lock_wait,
							 link);

		at = at->next;
		if (lock_is_deadlock(locks, inode, wait->owner,
				     &wait->request))
			lock_wait_settle(locks, wait, -EDEADLK);
	}
}

int lock_grant(struct locks *locks, struct lock_session *session,
	       const struct lock_request *request)
{
	struct lock_inode *inode = lock_inode_get(locks, request->inode, true);
	struct lock_owner *owner = inode ? lock_owner_get(locks, session,
							  request, true) : NULL;
	struct lock_holding *holding = owner ? find_holding(inode, owner) : NULL;
	const struct rf_range *range = &request->range;
	struct rf_list spare;

	if (owner && !holding)
		holding = make_holding(locks, inode, owner);
	if (!holding ||
	    !take_spare(locks, session,
			rf_ranges_splits(&holding->ranges, range->start,
					 range->end) ? RF_RANGES_SPARE : 1,
			false, &spare)) {
		if (holding)
			drop_if_empty(locks, holding);
		return -ENOLCK;	/* file and owner are the caller's to drop */
	}
	rf_ranges_set(&holding->ranges, range, &spare);
	holding->open = request->open;
	settle_ranges(locks, session, &spare);
	locks->figures.granted++;
	return 0;
}

void lock_steps_begin(struct locks *locks)
{
	locks->wake_steps = locks->search_steps = 0;
}

/* Give it if nothing is in the way. */
static void try_wait(struct locks *locks, struct lock_inode *inode,
		     struct lock_wait *wait)
{
	locks->wake_steps++;
	if (!is_free(locks, inode, wait->owner, &wait->request))
		return;
	/* It may let others go on: it makes an owner's exclusive lock shared. */
	inode->wakes_again |= find_holding(inode, wait->owner) &&
			      !wait->request.range.is_exclusive;
	/* It waits for more than this: by another thread. */
	inode->may_be_circle |= wait->owner->waits.next !=
				wait->owner->waits.prev;
	lock_wait_settle(locks, wait, lock_grant(locks, wait->session,
						 &wait->request));
}

/* Go through its waits once, from where we are.  False: no steps are left. */
static bool wake_once(struct locks *locks, struct lock_inode *inode)
{
	while (inode->wake_at != &inode->waits) {
		struct lock_wait *wait = rf_container_of(inode->wake_at,
							 struct lock_wait,
							 link);

		if (locks->wake_steps >= LOCK_STEPS_MAX)
			return false;
		inode->wake_at = inode->wake_at->next;
		try_wait(locks, inode, wait);
	}
	return true;
}

static bool wake_file(struct locks *locks, struct lock_inode *inode)
{
	while (wake_once(locks, inode)) {
		if (!inode->wakes_again) {
			if (inode->may_be_circle)
				look_for_deadlocks(locks, inode);
			return true;
		}
		inode->wakes_again = false;
		inode->wake_at = inode->waits.next;
	}
	locks->figures.put_off++;
	return false;
}

void lock_wakes_run(struct locks *locks)
{
	while (!rf_list_is_empty(&locks->wakes)) {
		struct lock_inode *inode =
			rf_container_of(locks->wakes.next, struct lock_inode,
					wake_link);

		if (!locks->is_stopping && !wake_file(locks, inode))
			return;
		rf_list_remove(&inode->wake_link);
		lock_inode_drop_unused(locks, inode);
	}
}

void lock_wake(struct locks *locks, struct lock_inode *inode)
{
	if (rf_list_is_empty(&inode->wake_link)) {
		inode->wake_at = inode->waits.next;
		inode->wakes_again = inode->may_be_circle = false;
		rf_list_push(&locks->wakes, &inode->wake_link);
	} else {
		inode->wakes_again = true;
	}
}

bool locks_are_unfinished(const struct locks *locks)
{
	return !locks->is_stopping &&
	       !(rf_list_is_empty(&locks->wakes) &&
		 (locks->is_in_grace || rf_list_is_empty(&locks->grace_waits)));
}

void locks_go_on(struct locks *locks)
{
	lock_steps_begin(locks);
	if (locks->is_in_grace || lock_grace_run(locks))
		lock_wakes_run(locks);
}

/* ---- requests ----------------------------------------------------------- */

/* flock(2): the old lock goes first.  0: as asked, already; 1: ask on. */
static int give_up_flock(struct locks *locks, struct lock_holding *holding,
			 const struct lock_request *request)
{
	struct rf_range *range =
		rf_container_of(holding->ranges.next, struct rf_range, link);

	if (range->is_exclusive == request->range.is_exclusive) {
		holding->open = request->open;
		return 0;
	}
	clear_holding(locks, holding);
	return 1;
}

static void note_in_the_way(struct locks *locks,
			    const struct lock_inode *inode,
			    const struct lock_owner *owner,
			    const struct lock_request *request)
{
	struct lock_holding *at = NULL;
	const struct rf_range *range;

	while ((at = lock_conflict(inode, owner, request, at, &range,
				   &locks->wake_steps)))
		if (at->owner->session != owner->session)
			at->owner->session->was_in_the_way = true;
}

static int refuse(struct locks *locks, int err)
{
	if (err == -EAGAIN)
		locks->figures.refused++;
	if (err == -EDEADLK)
		locks->figures.deadlocks++;
	return err;
}

static int set_or_wait(struct locks *locks, struct lock_session *session,
		       const struct lock_request *request,
		       struct lock_inode *inode, struct lock_owner *owner)
{
	int err;

	if (is_free(locks, inode, owner, request)) {
		err = lock_grant(locks, session, request);
		/* By one thread, while another waits. */
		if (!err && !rf_list_is_empty(&owner->waits))
			look_for_deadlocks(locks, inode);
		return err;
	}
	if (!request->may_wait) {
		note_in_the_way(locks, inode, owner, request);
		return refuse(locks, -EAGAIN);
	}
	if (lock_is_deadlock(locks, inode, owner, request))
		return refuse(locks, -EDEADLK);
	err = lock_wait_add(locks, session, request);
	return err ? err : 1;
}

static int set_now(struct locks *locks, struct lock_session *session,
		   const struct lock_request *request)
{
	struct lock_inode *inode = lock_inode_get(locks, request->inode, true);
	struct lock_owner *owner = lock_owner_get(locks, session, request,
						  true);
	struct lock_holding *holding;
	int ret = 1;

	if (!inode || !owner) {
		ret = -ENOLCK;
		goto out;
	}
	holding = find_holding(inode, owner);
	if (holding && request->kind == LOCK_FLOCK)
		ret = give_up_flock(locks, holding, request);
	if (ret)
		ret = set_or_wait(locks, session, request, inode, owner);
	/* Its own old lock may have been more than the new one. */
	if (holding) {
		lock_wake(locks, inode);
		lock_wakes_run(locks);
	}
out:
	owner = lock_owner_get(locks, session, request, false);
	if (owner)
		lock_owner_drop_unused(locks, owner);
	inode = lock_inode_get(locks, request->inode, false);
	if (inode)
		lock_inode_drop_unused(locks, inode);
	return ret;
}

/* Has the owner just that?  It may have reclaimed it before its answer was lost. */
static bool is_held(struct locks *locks, struct lock_session *session,
		    const struct lock_request *request)
{
	const struct lock_inode *inode = lock_inode_get(locks, request->inode,
							false);
	const struct lock_owner *owner = lock_owner_get(locks, session,
							request, false);
	const struct lock_holding *holding = inode && owner ?
					find_holding(inode, owner) : NULL;
	const struct rf_list *at;

	if (!holding)
		return false;
	rf_list_for_each(at, &holding->ranges) {
		const struct rf_range *range =
			rf_container_of(at, const struct rf_range, link);

		if (range->start <= request->range.start &&
		    range->end >= request->range.end)
			return range->is_exclusive ==
			       request->range.is_exclusive;
	}
	return false;
}

int lock_set(struct locks *locks, struct lock_session *session,
	     const struct lock_request *request)
{
	int err;

	if (request->is_reclaim && !locks->is_in_grace)
		return is_held(locks, session, request) ? 0 : -EINVAL;
	if (!locks->is_in_grace || request->is_reclaim)
		return set_now(locks, session, request);
	/* It was reclaimed, and is asked for to be sure. */
	if (is_held(locks, session, request))
		return 0;
	err = lock_wait_add(locks, session, request);
	return err ? err : 1;
}

int locks_set(struct locks *locks, struct lock_session *session,
	      const struct lock_request *request)
{
	int ret;

	lock_steps_begin(locks);
	ret = lock_set(locks, session, request);
	if (ret == 0)
		lock_wait_forget_same(locks, session, request);
	return ret;
}

int locks_clear(struct locks *locks, struct lock_session *session,
		const struct lock_request *request)
{
	struct lock_inode *inode = lock_inode_get(locks, request->inode, false);
	struct lock_owner *owner = lock_owner_get(locks, session, request,
						  false);
	struct lock_holding *holding = inode && owner ?
					       find_holding(inode, owner) : NULL;
	const struct rf_range *range = &request->range;
	struct rf_list spare;

	if (!holding)
		return 0;
	if (!take_spare(locks, session,
			rf_ranges_splits(&holding->ranges, range->start,
					 range->end), true, &spare))
		return -ENOLCK;
	lock_steps_begin(locks);
	rf_ranges_clear(&holding->ranges, range->start, range->end, &spare);
	settle_ranges(locks, session, &spare);
	drop_if_empty(locks, holding);
	lock_wake(locks, inode);
	lock_wakes_run(locks);
	owner = lock_owner_get(locks, session, request, false);
	if (owner)
		lock_owner_drop_unused(locks, owner);
	return 0;
}

/* ---- who is in the way of others ---------------------------------------- */

static bool is_waited_for(const struct lock_holding *holding, uint64_t *steps)
{
	const struct rf_list *at;

	rf_list_for_each(at, &holding->inode->waits) {
		const struct lock_wait *wait =
			rf_container_of(at, const struct lock_wait, link);

		++*steps;
		if (wait->session != holding->owner->session &&
		    wait->request.kind == holding->owner->kind &&
		    rf_ranges_conflict(&holding->ranges, &wait->request.range,
				       steps))
			return true;
	}
	return *steps > LOCK_STEPS_MAX;
}

static bool owner_is_waited_for(const struct lock_owner *owner,
				uint64_t *steps)
{
	const struct rf_list *at;

	rf_list_for_each(at, &owner->holdings)
		if (is_waited_for(rf_container_of(at, const struct lock_holding,
						  owner_link), steps))
			return true;
	return false;
}

bool locks_are_wanted(const struct lock_session *session)
{
	const struct rf_list *at;
	uint64_t steps = 0;

	if (session->was_in_the_way)
		return true;
	rf_list_for_each(at, &session->owners)
		if (owner_is_waited_for(rf_container_of(at,
						const struct lock_owner,
						session_link), &steps))
			return true;
	return false;
}

/* ---- ends --------------------------------------------------------------- */

static void end_waits_of_open(struct locks *locks,
			      struct lock_session *session, uint64_t inode,
			      uint32_t open)
{
	struct rf_list *at = session->waits.next;

	while (at != &session->waits) {
		struct lock_wait *wait = rf_container_of(at, struct lock_wait,
							 session_link);

		at = at->next;
		if (wait->request.inode == inode && wait->request.open == open)
			lock_wait_settle(locks, wait, -ECANCELED);
	}
}

void locks_release_open(struct locks *locks, struct lock_session *session,
			uint64_t inode_number, uint32_t open)
{
	struct lock_inode *inode;
	struct rf_list *at;

	lock_steps_begin(locks);
	end_waits_of_open(locks, session, inode_number, open);
	inode = lock_inode_get(locks, inode_number, false);
	if (!inode)
		return;
	at = inode->holdings.next;
	while (at != &inode->holdings) {
		struct lock_holding *holding =
			rf_container_of(at, struct lock_holding, link);
		struct lock_owner *owner = holding->owner;

		at = at->next;
		if (owner->session != session || holding->open != open)
			continue;
		clear_holding(locks, holding);
		lock_owner_drop_unused(locks, owner);
	}
	lock_wake(locks, inode);
	lock_wakes_run(locks);
}

static void end_owner(struct locks *locks, struct lock_owner *owner)
{
	struct rf_list *at;

	while ((at = owner->holdings.next) != &owner->holdings) {
		struct lock_holding *holding =
			rf_container_of(at, struct lock_holding, owner_link);
		struct lock_inode *inode = holding->inode;

		clear_holding(locks, holding);
		lock_wake(locks, inode);
	}
	lock_owner_drop_unused(locks, owner);
}

void locks_end_session(struct locks *locks, struct lock_session *session)
{
	if (!session->is_used)
		return;
	while (!rf_list_is_empty(&session->waits))
		lock_wait_drop(locks,
			       rf_container_of(session->waits.next,
					       struct lock_wait,
					       session_link));
	while (!rf_list_is_empty(&session->settled))
		lock_wait_drop(locks,
			       rf_container_of(session->settled.next,
					       struct lock_wait,
					       session_link));
	while (!rf_list_is_empty(&session->owners))
		end_owner(locks, rf_container_of(session->owners.next,
						 struct lock_owner,
						 session_link));
	lock_steps_begin(locks);
	lock_wakes_run(locks);
	RF_ASSERT(session->range_count == 0 && session->wait_count == 0);
	session->is_used = false;
}

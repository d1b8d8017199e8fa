/* SPDX-License-Identifier: Apache-2.0 */
/*
 * patience.c - what does not wait for ever; keeping the lease
 *
 * Operation.  Once a second:
 *
 *	an answer that does not come	drops the connection, after rpc_timeo
 *	what was to change something	the same, KILLED_MS after its caller was
 *					killed
 *	soft				EIO to who has waited for timeo
 *	df, stat and opendir of the	answered from what we know, after
 *	root				LOCAL_ANSWER_MS, and from then on at once
 *					until the server is heard of again
 *	a session that says nothing	says something, at each third of its lease
 *	callers that were killed	interrupt.c
 */
#include "fs.h"

#include <errno.h>

static uint64_t ms_since(const struct fs *fs, uint64_t then_ns)
{
	return (rf_reactor_now_ns(fs->reactor) - then_ns) / 1000000;
}

/* ---- the connection ------------------------------------------------------- */

/* The oldest request in flight is too old. */
static void check_answers(struct fs *fs)
{
	const struct request *r;
	uint64_t limit_ms = fs->options.rpc_timeo_ms, age_ms = 0;

	if (!rf_list_is_empty(&fs->in_flight)) {
		r = rf_container_of(fs->in_flight.next, struct request,
				    age_link);
		age_ms = ms_since(fs, r->started_ns);
	}
	age_ms = rf_max_u64(age_ms, rf_client_keep(fs->client,
						   fs->lease_ms / 3));
	if (age_ms >= limit_ms)
		rf_client_drop(fs->client, -ETIMEDOUT,
			       "an answer did not come in time, see rpc_timeo");
}

/* ---- requests ------------------------------------------------------------- */

static bool is_waiting(const struct request *r)
{
	switch (r->state) {
	case REQUEST_BUFFER:
	case REQUEST_SLOTS:
	case REQUEST_LOCKS:
	case REQUEST_CALLING:
	case REQUEST_QUEUED:
	case REQUEST_PULLING:
	case REQUEST_PARTS:
	case REQUEST_PAUSED:
		return r->fuse != NULL;
	default:
		return false;
	}
}

static void answer_locally(struct request *r)
{
	r->fs->stats.local_answers++;
	r->fs->is_silent = true;
	r->answer_locally(r);
}

/* What was answered locally still waits for its answer, as all else does. */
static bool is_silent(const struct fs *fs)
{
	return fs->is_silent && !rf_list_is_empty(&fs->in_flight);
}

bool patience_is_over(const struct fs *fs)
{
	const struct request *oldest;

	if (fs->is_away)
		return fs_away_ms(fs) >= LOCAL_ANSWER_MS;
	if (rf_list_is_empty(&fs->in_flight))
		return false;
	oldest = rf_container_of(fs->in_flight.next, struct request, age_link);
	return ms_since(fs, rf_max_u64(oldest->started_ns, fs->heard_ns)) >=
	       LOCAL_ANSWER_MS;
}

void patience_call(struct request *r, const struct rf_args *args,
		   answered_fn answered, request_fn local)
{
	r->answer_locally = local;
	if (is_silent(r->fs) || fs_away_ms(r->fs) >= LOCAL_ANSWER_MS) {
		answer_locally(r);
		request_end(r);
	} else {
		request_call(r, args, answered);
	}
}

static void give_up(struct request *r)
{
	r->fs->stats.given_up++;
	interrupt_cancel(r);
	request_abandon(r, -EIO);
}

static void check_request(struct request *r)
{
	struct fs *fs = r->fs;
	uint64_t age_ms;

	if (!is_waiting(r))
		return;
	age_ms = ms_since(fs, r->arrived_ns);
	if (r->answer_locally && age_ms >= LOCAL_ANSWER_MS) {
		answer_locally(r);
		request_abandon(r, 0);
	} else if (fs->options.is_soft &&
		   ms_since(fs, r->read_ns) >= fs->options.timeo_ms) {
		give_up(r);
	} else if (r->was_killed && !fs->is_away &&
		   ms_since(fs, r->killed_ns) >= KILLED_MS) {
		rf_client_drop(fs->client, -ETIMEDOUT, "a killed process waits "
			       "for its answer");
	}
}

static void check(struct rf_timer *timer)
{
	struct fs *fs = rf_container_of(timer, struct fs, check_timer);

	if (!fs->client)
		return;		/* it was closed: the mount ends */
	if (!fs->is_away)
		check_answers(fs);
	for (unsigned int i = 0; i < REQUESTS_MAX; i++)
		check_request(&fs->requests[i]);
	interrupts_check(fs, fs->is_away || fs->is_reading_paused);
	lock_waits_check(fs);
	backlog_check(fs);
	patience_start(fs);
}

void patience_start(struct fs *fs)
{
	uint64_t next_ms = rf_min_u64(CHECK_MS, fs->options.rpc_timeo_ms);

	if (fs->options.is_soft)
		next_ms = rf_min_u64(next_ms, fs->options.timeo_ms);
	if (fs->lease_ms)
		next_ms = rf_min_u64(next_ms, fs->lease_ms / 6 + 1);
	fs->check_timer.fire = check;
	rf_timer_start(fs->reactor, &fs->check_timer, next_ms);
}

void patience_stop(struct fs *fs)
{
	rf_timer_stop(fs->reactor, &fs->check_timer);
}

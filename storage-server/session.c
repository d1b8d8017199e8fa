/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - a client's session: beginning, identities, opens, requests
 *
 * Operation.  What a session needs is allocated when it is admitted, and what
 * only a connection needs, with that one; the tables of identities' groups and of
 * opens grow with use, to their limits.
 */
#include "session.h"

#include "exec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SQUASHED_ID = 65534 };	/* nobody */

/* ---- identities --------------------------------------------------------- */

const struct cred *session_cred(const struct session *session,
				unsigned int index)
{
	if (index >= RF_IDENTITIES_MAX || !session->identities[index].is_set)
		return NULL;
	return &session->identities[index].cred;
}

static uint32_t squash(const struct session *session, uint32_t id)
{
	return id == 0 && session->export->config->squashes_root ? SQUASHED_ID
								 : id;
}

/* Never that of another caller, who had the index before. */
static void clear_identity(struct session *session, struct identity *identity)
{
	session->group_total -= identity->cred.group_count;
	free(identity->groups);
	*identity = (struct identity){ .is_set = false };
}

int session_set_identity(struct session *session,
			 const struct rf_identity_args *args)
{
	struct identity *identity;
	uint32_t count = args->groups.size / 4, *groups = NULL;
	bool is_root = args->uid == 0;

	if (args->index >= RF_IDENTITIES_MAX || args->groups.size % 4 ||
	    count > RF_GROUPS_MAX)
		return -EINVAL;
	identity = &session->identities[args->index];
	clear_identity(session, identity);
	if (session->group_total + count > SERVER_GROUPS_MAX)
		return RF_ST_TOO_MANY;
	if (is_root && session->export->config->squashes_root)
		count = 0;
	if (count > 0) {
		groups = malloc(count * sizeof(*groups));
		if (!groups)
			return -ENOMEM;
	}
	for (uint32_t i = 0; i < count; i++)
		groups[i] = squash(session, rf_blob_u32(&args->groups, i));
	session->group_total += count;
	identity->groups = groups;
	identity->is_set = true;
	identity->cred = (struct cred){
		.uid = squash(session, args->uid),
		.gid = squash(session, args->gid),
		.group_count = count,
		.groups = groups,
		.is_super = is_root && !session->export->config->squashes_root,
	};
	if (is_root && session->export->config->squashes_root)
		identity->cred.gid = SQUASHED_ID;
	return 0;
}

/* ---- opens -------------------------------------------------------------- */

static void end_open(struct session *session, uint32_t id, uint64_t inode)
{
	struct server *server = session->server;

	open_table_remove(&session->opens, id);
	locks_release_open(&server->locks, &session->locks, inode, id);
	store_close_inode(server->store, inode);
}

void session_release(struct session *session, uint32_t id)
{
	struct open *open = open_table_find(&session->opens, id);

	if (!open)
		return;		/* released twice in one message */
	open->is_released = true;
	if (open->users == 0)
		end_open(session, id, open->inode);
}

void session_open_put(struct session *session, uint32_t id)
{
	struct open *open = open_table_find_any(&session->opens, id);

	RF_ASSERT(open && open->users > 0);
	if (--open->users == 0 && open->is_released)
		end_open(session, id, open->inode);
}

void session_release_all(struct session *session)
{
	struct locks *locks = &session->server->locks;
	uint32_t at = 0, id;

	locks_end_session(locks, &session->locks);
	locks_init_session(&session->locks);
	while ((id = open_table_walk(&session->opens, &at)))
		session_release(session, id);
}

/*
 * In the place of an open to be reclaimed stands one that was restored because a
 * kept answer made it.  One of them was released and its place given to the other;
 * the later one stays.  False: that is the one that is there.
 */
static bool make_place(struct session *session, uint32_t id)
{
	uint32_t other = open_table_in_place(&session->opens, id);
	const struct open *open = open_table_find(&session->opens, other);

	if (other == id || !open || !open->kept_slot)
		return true;
	/* By a RELEASE whose answer the client has not had: it comes again. */
	if (session_has_released(session, id))
		return false;
	session_release(session, other);
	return true;
}

/* Written before the machine went down, not synced: its fsync has to tell. */
static bool may_have_lost(const struct session *session, uint32_t flags)
{
	return session->is_restored && flags & RF_OPEN_WRITE &&
	       store_lost_power(session->server->store);
}

int session_reclaim(struct session *session, const struct open_proof *proof)
{
	struct open_table *opens = &session->opens;
	struct store *store = session->server->store;
	struct open *open;
	uint32_t count;
	int err;

	if (!make_place(session, proof->open))
		return 0;
	count = opens->count;
	err = open_table_restore(opens, proof->open, proof->inode,
				 proof->flags);
	if (err)
		return err;
	if (opens->count > count)
		err = store_open_inode(store, proof->inode);
	if (err) {
		open_table_remove(opens, proof->open);
		return err;
	}
	open = open_table_find(opens, proof->open);
	open->kept_slot = 0;
	if (opens->count > count)
		open->failures_seen = may_have_lost(session, proof->flags) ?
				      store_sync_doubted(store) :
				      store_sync_failures(store);
	return 0;
}

/* ---- ending its connection ---------------------------------------------- */

void session_close(struct session *session)
{
	if (!session->is_closed)
		rf_channel_close(session->channel);
}

static void end_timed_out(struct rf_timer *timer)
{
	session_close(rf_container_of(timer, struct session, end_timer));
}

/* Let what was said arrive; the client closes when it has read it. */
static void close_soon(struct session *session)
{
	session->is_ending = session->is_over = true;
	if (session->is_closed)
		return;
	session->end_timer.fire = end_timed_out;
	rf_timer_start(session->server->reactor, &session->end_timer,
		       SERVER_LINGER_MS);
}

void session_end(struct session *session, const char *why)
{
	rf_log(RF_LOG_WARN, "%s: %s; connection closed", session->name, why);
	close_soon(session);
}

bool session_is_of_host(const struct session *session,
			const struct session *other)
{
	return strcmp(session->record.host, other->record.host) == 0;
}

void session_bye(struct session *session)
{
	session_release_all(session);
	session_forget(session);
	close_soon(session);
}

void session_answered(struct session *session)
{
	if (!session->is_closed && rf_list_is_empty(&session->answered_link))
		rf_list_push(&session->server->answered,
			     &session->answered_link);
}

void session_unbinding(struct session *session)
{
	if (!session->is_closed && rf_list_is_empty(&session->unbinding_link))
		rf_list_push(&session->server->unbinding,
			     &session->unbinding_link);
}

void session_free(struct session *session)
{
	for (unsigned int i = 0; session->identities && i < RF_IDENTITIES_MAX;
	     i++)
		free(session->identities[i].groups);
	free(session->identities);
	free(session->execs);
	if (session->locks.is_used)
		locks_end_session(&session->server->locks, &session->locks);
	open_table_fini(&session->opens);
	free(session);
}

/* ---- events of the channel ---------------------------------------------- */

static void on_request(struct rf_channel *channel, struct rf_request *request)
{
	struct session *session = rf_channel_context(channel);

	RF_ASSERT(request->index < session->exec_count);
	exec_start(&session->execs[request->index], request);
}

static void on_returned(struct rf_channel *channel, uint32_t grant_id)
{
	struct session *session = rf_channel_context(channel);
	struct lender *lender = &session->lender;
	struct grant *grant = grants_find(&lender->grants, grant_id);

	if (grant && staging_is_lent(grant, GRANT_READ)) {
		staging_return(lender, grant);
		session_unbinding(session);
		return;
	}
	if (lender->was_taken_from)
		return;		/* we may have had it before */
	lender->staging->bad_returns++;
	if (!lender->was_warned)
		rf_log(RF_LOG_WARN, "%s: returned grant %#x, which it does not "
		       "have; ignored, and not told again", session->name,
		       grant_id);
	lender->was_warned = true;
}

static void on_closed(struct rf_channel *channel, int err)
{
	struct session *session = rf_channel_context(channel);

	session->is_closed = true;
	rf_timer_stop(session->server->reactor, &session->end_timer);
	rf_list_remove(&session->answered_link);
	rf_list_remove(&session->unbinding_link);
	if (rf_channel_is_at_fault(channel))
		session->is_over = true;	/* it would do so again */
	session_lost(session, err);
	lender_close(&session->lender);
	for (unsigned int i = 0; i < session->exec_count; i++)
		exec_lost(&session->execs[i]);
}

static void on_freed(struct rf_channel *channel)
{
	struct session *session = rf_channel_context(channel);

	session_disconnect(session);
	session_drained(session);
}

static void on_resent(struct rf_channel *channel, uint16_t slot, bool is_resent)
{
	session_resent(rf_channel_context(channel), slot, is_resent);
}

const struct rf_channel_events session_channel_events = {
	.request = on_request,
	.resent = on_resent,
	.returned = on_returned,
	.closed = on_closed,
	.freed = on_freed,
};

/* ---- a connection's share ----------------------------------------------- */

int session_lend_on(struct session *session, const struct admission *admission,
		    struct rf_ep *ep)
{
	int err;

	session->transport = admission->transport;
	session->slice = admission->slice;
	err = lender_init(&session->lender,
			  session->slice ? &session->slice->lending
					 : &session->transport->lending,
			  ep, session->limits.write_slots);
	if (!err)
		session->transport->users++;
	return err;
}

void session_lend_off(struct session *session)
{
	lender_fini(&session->lender);
	session->transport->users--;
	session->slice = NULL;		/* the greeting's */
}

int session_make_execs(struct session *session)
{
	unsigned int count = rf_channel_requests_max(session->channel);

	session->execs = calloc(count, sizeof(struct exec));
	if (!session->execs)
		return -ENOMEM;
	session->exec_count = count;
	for (unsigned int i = 0; i < session->exec_count; i++) {
		session->execs[i].session = session;
		session->execs[i].server = session->server;
		rf_list_init(&session->execs[i].staged_link);
	}
	return 0;
}

void session_disconnect(struct session *session)
{
	lender_fini(&session->lender);
	if (session->slice)
		slice_put(session->slice);
	session->slice = NULL;
	session->transport->users--;
	free(session->execs);
	session->execs = NULL;
	session->exec_count = 0;
	session->channel = NULL;
}

/* ---- beginning ---------------------------------------------------------- */

#define LIMIT(field) \
	if (out->field > wish->field) \
		out->field = wish->field

static void agree(const struct server *server, const struct slice *slice,
		  const struct rf_hello_limits *wish,
		  struct rf_hello_limits *out)
{
	const struct config *config = server->config;
	uint32_t most = slice ? SLICE_RECV_DEPTH - SERVER_CONTROL_SLOTS
			      : config->slots;

	*out = (struct rf_hello_limits){
		.inline_max = config->inline_max,
		.msg_max = config->inline_max + RF_MSG_OVERHEAD,
		.slots = (uint16_t)rf_min_u64(config->slots, most),
		.control_slots = SERVER_CONTROL_SLOTS,
		.server_msgs = SERVER_QUEUED_MAX,
		.channels = 1,
		.write_slots = SERVER_WRITE_SLOTS_MAX,
		.block_max = STAGING_LARGE,
	};
	LIMIT(inline_max);
	LIMIT(msg_max);
	LIMIT(slots);
	LIMIT(control_slots);
	LIMIT(server_msgs);
	LIMIT(write_slots);
	LIMIT(block_max);
}

#undef LIMIT

static int fill_reply(struct session *session,
		      const struct admission *admission,
		      struct rf_hello_reply *reply)
{
	struct server *server = session->server;
	struct txn *txn = txn_begin(server->store);
	int err;

	RF_ASSERT(txn);
	err = txn_getattr(txn, admission->export->inode, &reply->root_attr);
	txn_abort(txn);
	if (err)
		return err;
	reply->status = RF_ST_OK;
	reply->version = RF_PROTOCOL_VERSION;
	reply->flags = server->key.is_set ? 0 : RF_HELLO_NO_KEY;
	if (session->is_read_only)
		reply->flags |= RF_HELLO_READ_ONLY;
	if (admission->slice)
		reply->flags |= RF_HELLO_NO_WINDOWS;
	reply->features = session->record.features;
	reply->grant_ms = admission->slice ?
		0 : (uint16_t)server->config->grant_ms;
	reply->limits = session->limits;
	store_uuid(server->store, reply->server_uuid);
	reply->session = session->id;
	reply->epoch = session->record.epoch;
	reply->tree = admission->export->tree;
	reply->lease_ms = server->config->lease_ms;
	reply->root = store_handle(server->store, admission->export->inode,
				   admission->export->tree);
	return 0;
}

static void choose_numbers(struct client_record *record)
{
	do {
		rf_random(&record->session, sizeof(record->session));
	} while (record->session == 0);
	do {
		rf_random(&record->epoch, sizeof(record->epoch));
	} while (record->epoch == 0);
}

static void fill_record(const struct server *server,
			const struct admission *admission,
			struct client_record *record)
{
	const struct rf_hello *hello = admission->hello;

	*record = (struct client_record){
		.tree = admission->export->tree,
		.has_no_key = hello->flags & RF_HELLO_NO_KEY,
		.wants_read_only = hello->flags & RF_HELLO_READ_ONLY,
		.features = server->config->uses_crc ?
			    hello->features & RF_FEATURE_DATA_CRC : 0,
		.created = time(NULL),
	};
	choose_numbers(record);
	agree(server, admission->slice, &hello->limits, &record->limits);
	memcpy(record->uuid, hello->client_uuid, RF_UUID_SIZE);
	memcpy(record->proof, admission->client_proof, RF_PROOF_SIZE);
	snprintf(record->host, sizeof(record->host), "%s", hello->host);
	snprintf(record->export, sizeof(record->export), "%s", hello->export);
}

/*
 * Lock events have other numbers than those of the client's former session, or of
 * the server before this one: what was seen then hides none of them.
 */
static uint64_t first_event(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct session *session_make(struct server *server,
			     const struct client_record *record,
			     const struct export *export)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->server = server;
	session->export = export;
	session->record = *record;
	session->id = record->session;
	session->limits = record->limits;
	session->is_read_only = export->config->is_read_only ||
				record->wants_read_only;
	session->uses_crc = record->features & RF_FEATURE_DATA_CRC;
	session->is_closed = true;
	open_table_init(&session->opens, server->config->opens);
	locks_init_session(&session->locks);
	session->locks.last_event = first_event();
	rf_list_init(&session->link);
	rf_list_init(&session->answered_link);
	rf_list_init(&session->unbinding_link);
	session->identities = calloc(RF_IDENTITIES_MAX,
				     sizeof(*session->identities));
	if (!session->identities) {
		session_free(session);
		return NULL;
	}
	return session;
}

static enum rf_status admit(struct session *session,
			    struct rf_greeter *greeter,
			    const struct admission *admission)
{
	struct server *server = session->server;
	struct rf_hello_reply reply = { 0 };
	int err = fill_reply(session, admission, &reply);

	/* The client must not learn of a session that a restart forgets. */
	if (!err)
		err = session_put_record(session);
	if (err)
		return rf_status_from_errno(err);
	err = session_lend_on(session, admission, rf_greeter_ep(greeter));
	if (err)
		return RF_ST_NOMEM;
	err = rf_greeter_admit(greeter, &reply, &server->key,
			       admission->client_proof,
			       &session_channel_events, session,
			       &session->channel);
	if (!err)
		return RF_ST_OK;
	session_lend_off(session);
	return err == -ENOMEM ? RF_ST_TOO_MANY : rf_status_from_errno(err);
}

bool session_end_former(struct server *server,
			const uint8_t uuid[RF_UUID_SIZE])
{
	static const uint8_t nobody[RF_UUID_SIZE];
	struct rf_list *pos, *next;
	bool is_left = false;

	if (memcmp(uuid, nobody, RF_UUID_SIZE) == 0)
		return true;
	for (pos = server->sessions.next; pos != &server->sessions;
	     pos = next) {
		struct session *session =
			rf_container_of(pos, struct session, link);

		next = pos->next;
		if (memcmp(session->record.uuid, uuid, RF_UUID_SIZE) != 0)
			continue;
		is_left |= session_is_busy(session);
		if (!session->is_over)
			session_expire(session, "its mount has opened another "
				       "session");
	}
	return !is_left;
}

enum rf_status session_admit(struct server *server, struct rf_greeter *greeter,
			     const struct admission *admission)
{
	struct client_record record;
	struct session *session;
	enum rf_status status;

	if (server->session_count >= server->config->sessions)
		return RF_ST_TOO_MANY;
	fill_record(server, admission, &record);
	session = session_make(server, &record, admission->export);
	if (!session)
		return RF_ST_NOMEM;
	snprintf(session->name, sizeof(session->name), "client %s (%s)",
		 admission->peer, record.host);
	status = admit(session, greeter, admission);
	if (status != RF_ST_OK) {
		session_forget(session);
		session_free(session);
		return status;
	}
	session->is_closed = false;
	server->session_count++;
	rf_list_push(&server->sessions, &session->link);
	if (session_make_execs(session))
		session_expire(session, "there is no memory for its requests");
	rf_log(RF_LOG_INFO, "%s: session %016llx on export '%s'%s over %s, "
	       "rights by %s", session->name, (unsigned long long)session->id,
	       admission->export->config->name,
	       session->is_read_only ? ", read-only" : "",
	       session->transport->uri, session->slice ? "session" : "window");
	return RF_ST_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_resume.c - a session on a new connection, also of a server that was
 * started since
 *
 * Operation.  All answers that its slots keep come from the store, whether the
 * server is the same or not: there is one way.  After a start there are no
 * identities, and of opens only those that a kept answer has made: the client may
 * not have had it yet, so it can't reclaim them.  Such an open is confirmed when
 * the answer is sent again, or by RECLAIM, and goes when the slot's next request
 * says that the client has the answer and, not having reclaimed the open, does
 * not want it; at the latest by RECLAIM_DONE, which comes when all that is to be sent
 * again has been answered: a slot may stay unused for long, and a file that was
 * deleted would be kept as long.
 *
 * When it fails.  The session stays as it was, and the client tries again.
 */
#include "session.h"

#include "exec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

struct session *session_find(const struct server *server, uint64_t id)
{
	struct rf_list *pos;

	rf_list_for_each(pos, &server->sessions) {
		struct session *session =
			rf_container_of(pos, struct session, link);

		if (session->id == id && !session->is_over)
			return session;
	}
	return NULL;
}

/* ---- what a slot keeps -------------------------------------------------- */

static int find_kept(struct session *session, unsigned int slot,
		     struct reply_record *record, void *out, size_t room)
{
	const struct reply_key key = {
		.session = session->id,
		.slot = (uint16_t)slot,
	};

	return store_find_reply(session->server->store, &key, record, out,
				room);
}

static unsigned int slot_count(const struct session *session)
{
	return (unsigned int)session->limits.slots +
	       session->limits.control_slots;
}

/* No answer is smaller than its record; the bytes are not looked at. */
static int find_record(struct session *session, unsigned int slot,
		       struct reply_record *record)
{
	int size = find_kept(session, slot, record,
			     session->server->scratch, STAGING_LARGE);

	return size < 0 ? size : 0;
}

/* ---- opens of kept answers ---------------------------------------------- */

bool session_has_released(struct session *session, uint32_t id)
{
	for (unsigned int slot = 0; slot < slot_count(session); slot++) {
		struct reply_record record;

		if (find_record(session, slot, &record))
			continue;
		for (unsigned int i = 0; i < record.open_count; i++)
			if (record.opens[i].is_released &&
			    record.opens[i].open == id)
				return true;
	}
	return false;
}

/* A later open has its place, so it was released, by an answer that is gone. */
static bool is_outdated(const struct session *session, uint32_t id)
{
	uint32_t other = open_table_in_place(&session->opens, id);

	return other != 0 && (int16_t)((other >> 16) - (id >> 16)) > 0;
}

static void make_provisional(struct session *session, uint16_t slot,
			     const struct reply_open *made)
{
	const struct open_proof proof = {
		.session = session->id,
		.inode = made->inode,
		.open = made->open,
		.flags = made->flags,
	};
	struct open *open = open_table_find(&session->opens, made->open);

	/* Reclaimed since, or on an earlier connection. */
	if (open || is_outdated(session, made->open) ||
	    session_reclaim(session, &proof))
		return;
	open = open_table_find(&session->opens, made->open);
	if (open)
		open->kept_slot = (uint16_t)(slot + 1);
}

static void drop_provisional(struct session *session, uint32_t id)
{
	const struct open *open = open_table_find(&session->opens, id);

	if (open && open->kept_slot)
		session_release(session, id);
}

static int for_each_open(struct session *session, bool is_released)
{
	for (unsigned int slot = 0; slot < slot_count(session); slot++) {
		struct reply_record record;

		if (find_record(session, slot, &record))
			continue;
		for (unsigned int i = 0; i < record.open_count; i++) {
			const struct reply_open *open = &record.opens[i];

			if (open->is_released != is_released)
				continue;
			/* No new one may have its id, also if it is gone. */
			if (open_table_note(&session->opens, open->open) ==
			    -ENOMEM)
				return -ENOMEM;
			if (is_released)
				drop_provisional(session, open->open);
			else
				make_provisional(session, (uint16_t)slot,
						 open);
		}
	}
	return 0;
}

/* Once, when the server that made them is gone. */
static int restore_opens(struct session *session)
{
	int err = for_each_open(session, false);

	/* What another answer has released since, the client may reclaim. */
	return err ? err : for_each_open(session, true);
}

static void settle_open(struct session *session, uint16_t slot,
			const struct reply_open *kept, bool is_resent)
{
	struct open *open = open_table_find(&session->opens, kept->open);

	if (kept->is_released) {
		/* Reclaimed because the client did not know that it is gone. */
		if (is_resent && open)
			session_release(session, kept->open);
		return;
	}
	if (!open || open->kept_slot != slot + 1)
		return;
	open->kept_slot = 0;
	if (!is_resent)
		session_release(session, kept->open);
}

void session_resent(struct session *session, uint16_t slot, bool is_resent)
{
	struct reply_record record;

	if (!session->is_restored || find_record(session, slot, &record))
		return;
	for (unsigned int i = 0; i < record.open_count; i++)
		settle_open(session, slot, &record.opens[i], is_resent);
}

void session_end_reclaim(struct session *session)
{
	uint32_t at = 0, id;

	while ((id = open_table_walk(&session->opens, &at)))
		drop_provisional(session, id);
	session_reclaimed(session);
}

/* ---- what kept answers promise ------------------------------------------ */

static bool promises_durability(struct session *session)
{
	for (unsigned int slot = 0; slot < slot_count(session); slot++) {
		struct reply_record record;

		if (find_record(session, slot, &record) == 0 && record.sync_op)
			return true;
	}
	return false;
}

static void sync_run(struct rf_job *job)
{
	struct session *session = rf_container_of(job, struct session,
						  sync_job);
	int err = store_sync_all(session->server->store);

	if (err)
		rf_log(RF_LOG_ERROR, "%s: what it was told to be durable before "
		       "the restart could not be made so: %s", session->name,
		       strerror(-err));
	session->is_doubtful = err != 0;
}

static void sync_done(struct rf_job *job)
{
	struct session *session = rf_container_of(job, struct session,
						  sync_job);

	session->is_syncing = false;
	session->server->has_synced_all |= !session->is_doubtful;
	session_drained(session);
}

/* True if the server that gave a promise may have died before it was kept. */
static bool must_sync(struct session *session)
{
	if (!session->is_restored || session->server->has_synced_all ||
	    session->is_doubtful)
		return false;
	return session->server->config->is_strict ||
	       promises_durability(session);
}

bool session_is_ready(struct session *session)
{
	if (session->channel) {
		session_close(session);
		return false;
	}
	if (session->is_syncing)
		return false;
	if (!must_sync(session))
		return true;
	session->is_syncing = true;
	session->sync_job = (struct rf_job){ .run = sync_run,
					     .done = sync_done };
	rf_workers_post(session->server->workers, session->server->reactor,
			&session->sync_job);
	return false;
}

/* ---- its record --------------------------------------------------------- */

static void sync_records(struct server *server);

static void records_synced(struct sync_request *sync, int err)
{
	struct server *server = rf_container_of(sync, struct server,
						record_sync);

	(void)err;	/* it was logged; the log's next sync has it, too */
	server->is_record_syncing = false;
	if (server->has_new_records)
		sync_records(server);
}

static void sync_records(struct server *server)
{
	server->has_new_records = server->is_record_syncing;
	if (server->is_record_syncing)
		return;
	server->is_record_syncing = true;
	server->record_sync = (struct sync_request){ .done = records_synced };
	store_sync(server->store, &server->record_sync);
}

int session_put_record(struct session *session)
{
	struct server *server = session->server;
	int err = store_put_client(server->store, &session->record);

	if (!err)
		err = store_flush(server->store);
	if (!err)
		sync_records(server);
	return err;
}

/* ---- RESUME ------------------------------------------------------------- */

/* The later of both, as numbers that wrap, and one more. */
static uint32_t next_epoch(uint32_t ours, uint32_t theirs)
{
	uint32_t last = theirs - ours <= INT32_MAX ? theirs : ours;

	return last + 1 ? last + 1 : 1;
}

static int begin_epoch(struct session *session, uint32_t theirs)
{
	session->record.epoch = next_epoch(session->record.epoch, theirs);
	return session_put_record(session);
}

static void fill_reply(struct session *session, struct rf_resume_reply *reply)
{
	struct server *server = session->server;

	*reply = (struct rf_resume_reply){
		.status = RF_ST_OK,
		.version = RF_PROTOCOL_VERSION,
		.epoch = session->record.epoch,
		.grant_ms = session->slice ?
			0 : (uint16_t)server->config->grant_ms,
		.lease_ms = server->config->lease_ms,
		.grace_ms = grace_left_ms(server),
	};
	if (!server->key.is_set)
		reply->flags |= RF_HELLO_NO_KEY;
	if (session->is_read_only)
		reply->flags |= RF_HELLO_READ_ONLY;
	if (session->slice)
		reply->flags |= RF_HELLO_NO_WINDOWS;
	if (session->must_reclaim)
		reply->flags |= RF_RESUME_RESTARTED;
	store_uuid(server->store, reply->server_uuid);
}

static int keep_answer(struct session *session, unsigned int slot)
{
	uint8_t *bytes = session->server->scratch;
	struct reply_record record;
	int size = find_kept(session, slot, &record, bytes + RF_HEADER_SIZE,
			     STAGING_LARGE - RF_HEADER_SIZE);
	struct rf_kept kept = {
		.slot = (uint16_t)slot,
		.bytes = bytes,
		.size = (size_t)size,
	};

	if (size < 0)
		return size == -ENOENT ? 0 : size;
	kept.seq = record.seq;
	if (session->is_doubtful)
		kept.io_op = record.sync_op;
	return rf_channel_keep(session->channel, &kept);
}

/* Without them a request might be run twice: then better not at all. */
static void keep_answers(struct session *session)
{
	for (unsigned int slot = 0; slot < slot_count(session); slot++) {
		int err = keep_answer(session, slot);

		if (!err)
			continue;
		rf_log(RF_LOG_ERROR, "%s: an answer that was recorded can't be "
		       "read: %s", session->name, strerror(-err));
		session_expire(session, "its answers are damaged");
		return;
	}
}

static int connect_it(struct session *session, struct rf_greeter *greeter,
		      const struct admission *admission)
{
	struct server *server = session->server;
	uint8_t secret[RF_SECRET_SIZE];
	struct rf_resume_reply reply;
	const struct rf_resumption resumption = {
		.reply = &reply,
		.limits = &session->limits,
		.key = &server->key,
		.secret = secret,
		.digest = admission->client_proof,
	};
	int err = session_lend_on(session, admission, rf_greeter_ep(greeter));

	if (err)
		return err;
	rf_hello_secret(secret, &server->key, session->record.proof,
			session->id);
	fill_reply(session, &reply);
	err = rf_greeter_resume(greeter, &resumption, &session_channel_events,
				session, &session->channel);
	if (err)
		session_lend_off(session);
	return err;
}

enum rf_status session_resume(struct session *session,
			      struct rf_greeter *greeter,
			      const struct admission *admission)
{
	struct server *server = session->server;
	int err = begin_epoch(session, admission->resume->epoch);

	RF_ASSERT(!session->channel && !session->is_over);
	session->is_read_only = session->export->config->is_read_only ||
				session->record.wants_read_only;
	if (!err)
		err = connect_it(session, greeter, admission);
	if (err)
		return err == -ENOMEM ? RF_ST_TOO_MANY
				      : rf_status_from_errno(err);
	session->is_closed = false;
	rf_timer_stop(server->reactor, &session->lease_timer);
	snprintf(session->name, sizeof(session->name), "client %s (%s)",
		 admission->peer, session->record.host);
	server->figures.resumed++;
	rf_log(RF_LOG_INFO, "%s: session %016llx resumed%s", session->name,
	       (unsigned long long)session->id,
	       session->must_reclaim ? ", and reclaims" : "");
	if (session_make_execs(session))
		session_expire(session, "there is no memory for its requests");
	else
		keep_answers(session);
	return RF_ST_OK;
}

/* ---- at the start ------------------------------------------------------- */

static const struct export *export_of(const struct server *server,
				      const struct client_record *record)
{
	const struct export *export = server_find_export(server,
							 record->export);

	return export && export->tree == record->tree ? export : NULL;
}

/* Buffers and tables are of this configuration, not of that. */
static bool limits_fit(const struct config *config,
		       const struct rf_hello_limits *limits)
{
	return limits->msg_max <= config->inline_max + RF_MSG_OVERHEAD &&
	       limits->slots <= config->slots &&
	       limits->control_slots <= SERVER_CONTROL_SLOTS &&
	       limits->server_msgs <= SERVER_QUEUED_MAX &&
	       limits->write_slots <= SERVER_WRITE_SLOTS_MAX &&
	       limits->block_max <= STAGING_LARGE;
}

static int drop(struct server *server, const struct client_record *record,
		const char *why)
{
	rf_log(RF_LOG_WARN, "client (%s): session %016llx is over: %s",
	       record->host, (unsigned long long)record->session, why);
	return store_forget_session(server->store, record->session);
}

static int load(const struct client_record *record, void *context)
{
	struct server *server = context;
	const struct export *export = export_of(server, record);
	struct session *session;
	int err;

	if (!export)
		return drop(server, record, "its export is not served any "
			    "more");
	if (!limits_fit(server->config, &record->limits))
		return drop(server, record, "this server was started with "
			    "smaller limits (--slots, --inline-max)");
	session = session_make(server, record, export);
	if (!session)
		return -ENOMEM;
	snprintf(session->name, sizeof(session->name), "client (%s)",
		 record->host);
	session->is_restored = session->must_reclaim = true;
	session->is_doubtful = store_lost_power(server->store);
	/* A RELEASE from before must not find an open from after. */
	rf_random(&session->opens.first_generation,
		  sizeof(session->opens.first_generation));
	server->session_count++;
	rf_list_push(&server->sessions, &session->link);
	err = restore_opens(session);
	session_start_lease(session);
	return err;
}

int sessions_load(struct server *server)
{
	int err = store_load_clients(server->store, load, server);

	if (err)
		rf_log(RF_LOG_ERROR, "the clients of before can't be loaded: "
		       "%s", strerror(-err));
	else
		grace_begin(server);
	return err;
}

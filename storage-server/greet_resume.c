/* SPDX-License-Identifier: Apache-2.0 */
/*
 * greet_resume.c - RESUME: whose session it is, and when it may go on
 *
 * Operation.  Checked in this order: the server itself; the session and whose it
 * is; the secret; the address and the export, which may have changed since HELLO.
 * Then the greeting waits until the session is ready: its old connection closed,
 * and all that this one was asked ended.
 *
 * One that waits is put out by another that proves the same secret: the client
 * has given it up.
 */
#include "greet.h"

static struct session *find(const struct greeting *greeting)
{
	struct session *session = session_find(greeting->server,
					       greeting->resume.session);

	if (!session || memcmp(session->record.uuid,
			       greeting->resume.client_uuid, RF_UUID_SIZE))
		return NULL;
	return session;
}

static bool secret_is_right(const struct greeting *greeting,
			    const struct session *session, const void *message,
			    size_t size)
{
	const struct rf_key *key = &greeting->server->key;
	uint8_t secret[RF_SECRET_SIZE];

	rf_hello_secret(secret, key, session->record.proof, session->id);
	return rf_resume_verify(message, size, key, secret,
				rf_greeter_nonce(greeting->greeter)) == 0;
}

static void refuse_over(struct greeting *greeting)
{
	const char *why = session_why_over(greeting->server,
					   greeting->resume.session);

	greet_refuse(greeting, RF_ST_BAD_EPOCH, "this session is over%s%s",
		     why ? ": " : "", why ? why : "");
}

/* NULL: a refusal was chosen. */
static struct session *admissible(struct greeting *greeting,
				  const void *message, size_t size,
				  bool *is_wrong)
{
	struct server *server = greeting->server;
	struct session *session = NULL;

	if (!greet_is_open(greeting))
		return NULL;
	if (greeting->resume.version != RF_PROTOCOL_VERSION)
		greet_refuse(greeting, RF_ST_BAD_VERSION, "this server speaks "
			     "version %d", RF_PROTOCOL_VERSION);
	else if (!greet_key_is_there(greeting, greeting->resume.flags))
		return NULL;
	else if (!(session = find(greeting)))
		refuse_over(greeting);
	else if (!secret_is_right(greeting, session, message, size))
		*is_wrong = true;
	else if ((server->key.is_set || greet_user_may_come(greeting)) &&
		 greet_export(greeting, session->record.export))
		return session;
	if (*is_wrong)
		greet_refuse(greeting, RF_ST_BAD_KEY, "the secret is not this "
			     "session's");
	return NULL;
}

/* Put out one that waits already. */
static void take_turn(struct greeting *greeting, struct session *session)
{
	struct greeting *other = session->resumer;

	if (other) {
		other->session = NULL;
		rf_ep_close(rf_greeter_ep(other->greeter));
	}
	session->resumer = greeting;
	greeting->session = session;
	/* The client is back: it waits for us, not we for it. */
	if (rf_timer_is_started(&session->lease_timer))
		session_start_lease(session);
}

static void let_go(struct greeting *greeting)
{
	greeting->session->resumer = NULL;
	greeting->session = NULL;
}

static void admit(struct greeting *greeting)
{
	struct session *session = greeting->session;
	const struct admission admission = {
		.transport = greeting->transport,
		.slice = greeting->slice,
		.export = session->export,
		.resume = &greeting->resume,
		.client_proof = greeting->client_proof,
		.peer = rf_greeter_peer(greeting->greeter),
	};
	enum rf_status status;

	let_go(greeting);
	status = session_resume(session, greeting->greeter, &admission);
	if (status == RF_ST_OK) {
		greeting->slice = NULL;		/* the session's */
		greet_end(greeting);
		return;
	}
	greet_refuse(greeting, status, "the session can't go on now: %s",
		     rf_status_name(status));
	greet_send_refusal(greeting);
}

void greet_resume(struct greeting *greeting)
{
	if (session_is_ready(greeting->session))
		admit(greeting);
}

void greet_session_over(struct greeting *greeting)
{
	let_go(greeting);
	if (greeting->server->is_draining)
		greet_refuse(greeting, RF_ST_SHUTDOWN, "the server is going "
			     "down");
	else
		refuse_over(greeting);
	greet_send_refusal(greeting);
}

void greet_on_resume(struct rf_greeter *greeter, const struct rf_resume *resume,
		     const void *message, size_t size,
		     const uint8_t digest[RF_PROOF_SIZE])
{
	struct greeting *greeting = rf_greeter_context(greeter);
	struct session *session;
	bool is_wrong = false;

	greeting->has_said_hello = true;
	greeting->resume = *resume;
	memcpy(greeting->client_proof, digest, RF_PROOF_SIZE);
	session = admissible(greeting, message, size, &is_wrong);
	if (session) {
		take_turn(greeting, session);
		greet_resume(greeting);
	} else if (is_wrong) {
		greet_refuse_late(greeting);
	} else {
		greet_send_refusal(greeting);
	}
}

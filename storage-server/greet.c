/* SPDX-License-Identifier: Apache-2.0 */
/*
 * greet.c - a connection from its request to its admission or refusal
 *
 * Operation.  A connection that has not said HELLO costs two small buffers and a
 * deadline.  Their number is bounded; when all are taken, a new one pushes out
 * the oldest that has said nothing, or was refused: whoever means it, and may come,
 * says HELLO within a round trip, so crowds push out each other.
 *
 * HELLO is checked in this order: the key or, without one, whose it is; export;
 * networks; then the session is made, when nothing runs any more of those that the
 * mount had before: what these were asked must not take effect after what the new
 * one is.  That has a deadline, as all of it: who waits longer is refused with
 * BUSY, and comes again.  A wrong key is answered late, and later each time.
 *
 * Ownership.  A greeting ends with closed() of its greeter, or its admission.
 */
#include "greet.h"

#include "libproto/log_peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void greet_end(struct greeting *greeting)
{
	struct server *server = greeting->server;

	if (greeting->session)
		greeting->session->resumer = NULL;
	rf_timer_stop(server->reactor, &greeting->delay);
	rf_list_remove(&greeting->link);
	rf_list_remove(&greeting->wait_link);
	server->greeting_count--;
	if (greeting->slice)
		slice_put(greeting->slice);
	greeting->transport->users--;
	free(greeting);
	server_check_drain(server);
}

static void on_closed(struct rf_greeter *greeter, int err)
{
	(void)err;
	greet_end(rf_greeter_context(greeter));
}

/* ---- refusals ----------------------------------------------------------- */

void greet_send_refusal(struct greeting *greeting)
{
	greeting->server->figures.refused++;
	rf_greeter_refuse(greeting->greeter, &greeting->refusal,
			  &greeting->server->key, greeting->client_proof);
}

static void delay_over(struct rf_timer *timer)
{
	greet_send_refusal(rf_container_of(timer, struct greeting, delay));
}

static void peer_of(const struct greeting *greeting,
		    struct sockaddr_storage *peer)
{
	struct sockaddr_storage local;

	*peer = (struct sockaddr_storage){ .ss_family = AF_UNSPEC };
	rf_ep_addresses(rf_greeter_ep(greeting->greeter), &local, peer);
}

void greet_refuse(struct greeting *greeting, enum rf_status status,
		  const char *format, ...)
{
	struct rf_hello_reply *refusal = &greeting->refusal;
	struct sockaddr_storage peer;
	va_list args;

	*refusal = (struct rf_hello_reply){
		.status = (uint16_t)status,
		.version = RF_PROTOCOL_VERSION,
		.flags = greeting->server->key.is_set ? 0 : RF_HELLO_NO_KEY,
	};
	/* Who resumes a session learns which store does not know it. */
	store_uuid(greeting->server->store, refusal->server_uuid);
	va_start(args, format);
	vsnprintf(refusal->reason, sizeof(refusal->reason), format, args);
	va_end(args);
	peer_of(greeting, &peer);
	rf_log_peer(RF_LOG_WARN, (const struct sockaddr *)&peer,
		    "client %s: refused with %s: %s",
		    rf_greeter_peer(greeting->greeter), rf_status_name(status),
		    refusal->reason);
}

void greet_refuse_late(struct greeting *greeting)
{
	struct server *server = greeting->server;
	struct sockaddr_storage peer;
	uint32_t delay_ms;

	peer_of(greeting, &peer);
	delay_ms = penalties_add(&server->penalties,
				 (const struct sockaddr *)&peer,
				 rf_reactor_now_ns(server->reactor));
	greeting->delay.fire = delay_over;
	rf_timer_start(server->reactor, &greeting->delay, delay_ms);
}

/* ---- checks: true, or a refusal was set --------------------------------- */

/* Does the server take anybody in? */
bool greet_is_open(struct greeting *greeting)
{
	const struct server *server = greeting->server;

	if (server->is_draining)
		greet_refuse(greeting, RF_ST_SHUTDOWN, "the server is going "
			     "down");
	/* A session could not be recorded, and its changes not be stored. */
	else if (store_has_failed(server->store))
		greet_refuse(greeting, RF_ST_IO, "the disk of the server has "
			     "failed: it lets nobody in until it was seen to "
			     "and the server started again");
	else
		return true;
	return false;
}

bool greet_user_may_come(struct greeting *greeting)
{
	struct sockaddr_storage local, peer;
	const struct sockaddr *peer_addr = (const struct sockaddr *)&peer;
	uid_t uid;
	int err;

	if (greeting->server->config->is_insecure)
		return true;
	err = rf_ep_addresses(rf_greeter_ep(greeting->greeter), &local, &peer);
	if (!err && !access_is_loopback(peer_addr)) {
		greet_refuse(greeting, RF_ST_NOT_ALLOWED, "this server has no "
			    "key, so it serves its own machine only");
		return false;
	}
	if (!err)
		err = access_peer_uid((const struct sockaddr *)&local,
				      peer_addr, &uid);
	if (err) {
		greet_refuse(greeting, RF_ST_NOT_ALLOWED, "this server has no "
			    "key and cannot tell whose connection this is "
			    "(%s)", strerror(-err));
		return false;
	}
	if (uid == 0 || uid == geteuid())
		return true;
	greet_refuse(greeting, RF_ST_NOT_ALLOWED, "this server has no key, so "
		    "it serves only user %u and root, not user %u", geteuid(),
		    uid);
	return false;
}

bool greet_key_is_there(struct greeting *greeting, uint16_t flags)
{
	struct server *server = greeting->server;
	bool has_key = !(flags & RF_HELLO_NO_KEY);

	if (server->key.is_set && !has_key) {
		greet_refuse(greeting, RF_ST_NEED_KEY, "this server wants a "
			    "key: mount with -o key=FILE");
		return false;
	}
	if (!server->key.is_set && has_key) {
		greet_refuse(greeting, RF_ST_BAD_KEY, "this server has no key: "
			    "start it with --key-file, or mount without one");
		return false;
	}
	return true;
}

static bool key_is_right(struct greeting *greeting,
			 const struct rf_hello *hello, const void *message,
			 size_t size, bool *is_wrong_key)
{
	struct server *server = greeting->server;
	int err;

	*is_wrong_key = false;
	if (!greet_key_is_there(greeting, hello->flags))
		return false;
	err = rf_hello_verify(message, size, &server->key,
			      rf_greeter_nonce(greeting->greeter),
			      greeting->client_proof);
	if (!err)
		return true;
	memset(greeting->client_proof, 0, sizeof(greeting->client_proof));
	*is_wrong_key = true;
	greet_refuse(greeting, RF_ST_BAD_KEY, "the key is not this server's");
	return false;
}

static bool network_is_allowed(const struct export_config *export,
			       const struct sockaddr *peer)
{
	for (unsigned int i = 0; i < export->allow_count; i++)
		if (net_contains(&export->allow[i], peer))
			return true;
	return export->allow_count == 0;
}

const struct export *greet_export(struct greeting *greeting,
				  const char *name)
{
	const struct export *export = server_find_export(greeting->server, name);
	struct sockaddr_storage peer;

	if (!export) {
		greet_refuse(greeting, RF_ST_NO_EXPORT, "no export '%.100s'",
			    name);
		return NULL;
	}
	peer_of(greeting, &peer);
	if (network_is_allowed(export->config, (const struct sockaddr *)&peer))
		return export;
	greet_refuse(greeting, RF_ST_NOT_ALLOWED, "export '%.100s' is not for "
		    "this address", name);
	return NULL;
}

/* ---- HELLO -------------------------------------------------------------- */

static bool may_come(struct greeting *greeting, const struct rf_hello *hello,
		     const void *message, size_t size, bool *is_wrong_key)
{
	if (hello->version != RF_PROTOCOL_VERSION) {
		*is_wrong_key = false;
		greet_refuse(greeting, RF_ST_BAD_VERSION, "this server speaks "
			    "version %d", RF_PROTOCOL_VERSION);
		return false;
	}
	if (!key_is_right(greeting, hello, message, size, is_wrong_key))
		return false;
	return greeting->server->key.is_set || greet_user_may_come(greeting);
}

/* False: a refusal was chosen. */
static bool admit(struct greeting *greeting, const struct export *export)
{
	struct server *server = greeting->server;
	const struct admission admission = {
		.transport = greeting->transport,
		.slice = greeting->slice,
		.export = export,
		.hello = &greeting->hello,
		.client_proof = greeting->client_proof,
		.peer = rf_greeter_peer(greeting->greeter),
	};
	enum rf_status status = session_admit(server, greeting->greeter,
					      &admission);

	if (status == RF_ST_TOO_MANY)
		greet_refuse(greeting, status, "all %u sessions of this server "
			    "are taken (--sessions)", server->config->sessions);
	else if (status != RF_ST_OK)
		greet_refuse(greeting, status, "the session can't be made: %s",
			    rf_status_name(status));
	return status == RF_ST_OK;
}

/* For sessions to end: former ones of its mount, or if all are taken. */
static bool must_wait(struct greeting *greeting)
{
	struct server *server = greeting->server;

	return !session_end_former(server, greeting->hello.client_uuid) ||
	       (server->session_count >= server->config->sessions &&
		silence_make_room(server));
}

static void waited_too_long(struct rf_timer *timer)
{
	struct greeting *greeting = rf_container_of(timer, struct greeting,
						    delay);

	rf_list_remove(&greeting->wait_link);
	greet_refuse(greeting, RF_ST_BUSY, "what a session of before is still "
		     "doing, this mount's own or one that is to make room, has "
		     "not ended for %u ms; come again",
		     greeting->server->config->hello_ms);
	greet_send_refusal(greeting);
}

static void wait_for_end(struct greeting *greeting)
{
	struct server *server = greeting->server;

	rf_list_push(&server->waiting_hellos, &greeting->wait_link);
	if (rf_timer_is_started(&greeting->delay))
		return;
	greeting->delay.fire = waited_too_long;
	rf_timer_start(server->reactor, &greeting->delay,
		       server->config->hello_ms);
}

/* Whoever says it may come. */
static void take_hello(struct greeting *greeting)
{
	struct server *server = greeting->server;
	const struct export *export = greet_export(greeting,
						   greeting->hello.export);

	if (export && must_wait(greeting)) {
		wait_for_end(greeting);
	} else if (export && admit(greeting, export)) {
		server->figures.admitted++;
		greeting->slice = NULL;		/* the session's */
		greet_end(greeting);
	} else {
		rf_timer_stop(server->reactor, &greeting->delay);
		greet_send_refusal(greeting);
	}
}

static void on_hello(struct rf_greeter *greeter, const struct rf_hello *hello,
		     const void *message, size_t size)
{
	struct greeting *greeting = rf_greeter_context(greeter);
	bool is_wrong_key = false;

	greeting->has_said_hello = true;
	greeting->hello = *hello;
	if (greet_is_open(greeting) &&
	    may_come(greeting, hello, message, size, &is_wrong_key))
		take_hello(greeting);
	else if (is_wrong_key)
		greet_refuse_late(greeting);
	else
		greet_send_refusal(greeting);
}

static void ask_again(struct rf_task *task)
{
	struct server *server = rf_container_of(task, struct server,
						hello_task);
	struct rf_list waiting, *item;

	server->hello_task_is_posted = false;
	rf_list_init(&waiting);
	rf_list_take_all(&waiting, &server->waiting_hellos);
	while (!server->is_draining && (item = rf_list_pop(&waiting)))
		take_hello(rf_container_of(item, struct greeting, wait_link));
	/* Going down, all greeters are closed. */
	while (rf_list_pop(&waiting))
		;
}

void greet_session_gone(struct server *server)
{
	if (rf_list_is_empty(&server->waiting_hellos) ||
	    server->hello_task_is_posted)
		return;
	server->hello_task_is_posted = true;
	server->hello_task.run = ask_again;
	/* Not from here: we may be in the middle of another admission. */
	rf_reactor_post(server->reactor, &server->hello_task);
}

/* ---- connections -------------------------------------------------------- */

/* Is it for something of ours that it waits?  Who was refused has had his word, or
 * is kept from it for a wrong key. */
static bool is_waiting(const struct greeting *greeting)
{
	return greeting->has_said_hello &&
	       greeting->refusal.status == RF_ST_OK;
}

/* Make room for a new one, on this transport if it is not NULL; false: all are
 * too young to be pushed out. */
static bool push_out_oldest(struct server *server,
			    const struct transport *transport)
{
	uint64_t now_ns = rf_reactor_now_ns(server->reactor);
	struct rf_list *pos;

	rf_list_for_each(pos, &server->greetings) {
		struct greeting *oldest =
			rf_container_of(pos, struct greeting, link);

		if (now_ns - oldest->since_ns <
		    (uint64_t)SERVER_IDLE_GREETER_MS * 1000000)
			return false;
		if (is_waiting(oldest) ||
		    (transport && oldest->transport != transport))
			continue;
		server->figures.pushed_out++;
		rf_ep_close(rf_greeter_ep(oldest->greeter));
		/* Its place is free when closed() has run: not for this one. */
		rf_list_remove(&oldest->link);
		return true;
	}
	return false;
}

static void turn_away(struct rf_incoming *incoming)
{
	const struct rf_hello_accept answer = {
		.status = RF_ST_TOO_MANY,
		.version = RF_PROTOCOL_VERSION,
	};
	uint8_t data[RF_ACCEPT_DATA_SIZE];

	rf_hello_accept_encode(data, &answer);
	rf_ep_reject(incoming, data, sizeof(data));
}

/* NULL: there is no room for one more. */
static struct greeting *make_greeting(struct listener *listener)
{
	struct transport *transport = listener->transport;
	struct server *server = listener->server;
	struct greeting *greeting;

	/* One more than allowed while the oldest is on its way out. */
	if (server->greeting_count >= server->config->greeters)
		push_out_oldest(server, NULL);
	if (server->greeting_count >=
	    server->config->greeters + SERVER_GREETERS_LEAVING)
		return NULL;
	greeting = calloc(1, sizeof(*greeting));
	if (!greeting)
		return NULL;
	greeting->server = server;
	greeting->transport = transport;
	greeting->since_ns = rf_reactor_now_ns(server->reactor);
	rf_list_init(&greeting->wait_link);
	if (transport->has_windows)
		return greeting;
	greeting->slice = slice_get(&transport->slices);
	if (greeting->slice)
		return greeting;
	/* Who comes next finds the place of who never said HELLO. */
	push_out_oldest(server, transport);
	free(greeting);
	return NULL;
}

/* Of a client that was no friend, rpc.h has told it. */
static void say_not_accepted(const struct listener *listener,
			     const struct sockaddr_storage *peer, int err)
{
	if (err != -EPROTO && err != -EPROTONOSUPPORT)
		rf_log_peer(RF_LOG_WARN, (const struct sockaddr *)peer,
			    "a connection over %s can't be taken: %s",
			    listener->transport->scheme, strerror(-err));
}

void greet(void *context, struct rf_incoming *incoming, const void *hello,
	   size_t hello_size)
{
	static const struct rf_greeter_events events = {
		.hello = on_hello,
		.resume = greet_on_resume,
		.closed = on_closed,
	};
	struct listener *listener = context;
	struct server *server = listener->server;
	struct rf_server_config config;
	struct greeting *greeting = make_greeting(listener);
	struct sockaddr_storage peer = { .ss_family = AF_UNSPEC };
	int err;

	if (!greeting) {
		turn_away(incoming);
		return;
	}
	rf_incoming_peer(incoming, &peer);
	server_fill_rpc_config(server, listener->transport, greeting->slice,
			       &config);
	err = rf_greeter_accept(&config, incoming, hello, hello_size, &events,
				greeting, &greeting->greeter);
	if (err) {
		say_not_accepted(listener, &peer, err);
		if (greeting->slice)
			slice_put(greeting->slice);
		free(greeting);
		return;
	}
	rf_list_push(&server->greetings, &greeting->link);
	listener->transport->users++;
	server->greeting_count++;
	server->figures.greeted++;
}

void greet_close_all(struct server *server)
{
	struct rf_list *pos;

	rf_list_for_each(pos, &server->greetings)
		rf_ep_close(rf_greeter_ep(
			rf_container_of(pos, struct greeting, link)->greeter));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc_resume.c - a client's session, from one connection to the next
 *
 * Operation.  When a connection ends, what the server has not answered stays:
 * requests that change something keep their slot and number, all others wait as
 * if they had never been sent.  The next connection begins with RESUME, which
 * proves the session by its secret; the owner then sets up what it needs (by
 * control calls) and lets the rest go on.
 *
 *	OPEN -> AWAY -> CONNECTING -> HELLO -> RESUMED -> OPEN
 *	         ^----------'-----------'---------'
 *
 * Ownership.  Calls, their buffers, the receives' buffers and the slots' numbers
 * stay with the client; grants, keys and windows are gone with the connection,
 * and so is every message's mention of them.
 *
 * When it fails.  Each attempt that fails is told by lost(), and the client is
 * as before it.
 */
#include "rpc_impl.h"

#include <errno.h>

/* ---- messages that outlive their connection ------------ */

static void drop_returns(struct rf_call *call)
{
	uint8_t *at = call->msg->mem + RF_HEADER_SIZE;
	struct rf_header header;
	uint32_t gone;

	RF_ASSERT(rf_header_load(call->msg->mem, call->msg_size, &header) == 0);
	gone = 4 * (uint32_t)header.return_count;
	if (gone == 0)
		return;
	memmove(at, at + gone, call->msg_size - RF_HEADER_SIZE - gone);
	call->msg_size -= gone;
	header.size = call->msg_size;
	header.return_count = 0;
	rf_header_store(call->msg->mem, &header);
}

static const rf_pieces_t *pieces_of(const struct rf_args *args)
{
	switch (args->code) {
	case RF_OP_WRITE:
		return &args->write.pieces;
	case RF_OP_SETXATTR:
		return &args->setxattr.pieces;
	default:
		return NULL;
	}
}

/* Pieces are the last field of their operation.  0 is no slot of any grant. */
static void void_pieces(struct rf_call *call)
{
	struct rf_args args;
	struct rf_dec dec;

	RF_ASSERT(rf_dec_init(&dec, call->msg->mem, call->msg_size) == 0);
	while (rf_dec_args(&dec, &args) == 1) {
		const rf_pieces_t *pieces = pieces_of(&args);
		uint8_t *end = call->msg->mem + dec.at;

		for (unsigned int i = 0; pieces && i < pieces->count; i++)
			rf_store_u32(end - 12 * (i + 1), 0);
		call->was_voided |= pieces && pieces->count > 0;
	}
}

void rf_call_strip(struct rf_call *call)
{
	drop_returns(call);
	if (!call->was_voided)
		void_pieces(call);
	call->work_count = 0;
	call->inv_key = 0;
}

bool rf_call_modifies(const struct rf_call *call)
{
	const uint8_t *at = call->msg->mem + RF_HEADER_SIZE;
	const uint8_t *end = call->msg->mem + call->msg_size;
	struct rf_header header;

	RF_ASSERT(rf_header_load(call->msg->mem, call->msg_size, &header) == 0);
	at += 4 * (size_t)header.return_count;
	for (unsigned int i = 0; i < header.op_count; i++) {
		RF_ASSERT(end - at >= RF_OP_HEADER_SIZE);
		if (rf_op_modifies(rf_load_u16(at)))
			return true;
		at += RF_OP_HEADER_SIZE + rf_load_u32(at + 4);
	}
	return false;
}

/* ---- RESUME ------------ */

static void keep(const struct rf_client *client, struct rf_client_kept *kept)
{
	rf_store_kept(&kept->is_valid, 0);
	kept->session = client->session;
	kept->epoch = client->epoch;
	kept->features = client->features;
	kept->limits = client->limits;
	memcpy(kept->server_uuid, client->server_uuid, RF_UUID_SIZE);
	memcpy(kept->client_uuid, client->config.hello.client_uuid,
	       RF_UUID_SIZE);
	memcpy(kept->secret, client->secret, RF_SECRET_SIZE);
	memset(kept->seqs, 0, sizeof(kept->seqs));
	rf_store_kept(&kept->is_valid, 1);
}

void rf_client_keep_session(struct rf_client *client,
			    const struct rf_hello_reply *reply)
{
	client->was_opened = client->has_session = true;
	client->session = reply->session;
	client->msgs_received = client->msgs_acked = 0;
	memcpy(client->server_uuid, reply->server_uuid, RF_UUID_SIZE);
	rf_hello_secret(client->secret, &client->config.key, client->proof,
			reply->session);
	if (client->config.kept)
		keep(client, client->config.kept);
}

void rf_client_restore_session(struct rf_client *client)
{
	const struct rf_client_kept *kept = client->config.kept;

	client->was_opened = true;
	client->has_session = kept->is_valid;
	client->session = kept->session;
	client->epoch = kept->epoch;
	client->features = kept->features;
	client->limits = kept->limits;
	memcpy(client->server_uuid, kept->server_uuid, RF_UUID_SIZE);
	memcpy(client->config.hello.client_uuid, kept->client_uuid,
	       RF_UUID_SIZE);
	memcpy(client->secret, kept->secret, RF_SECRET_SIZE);
	rf_client_make_slots(client);
	for (unsigned int i = 0;
	     i < (unsigned int)kept->limits.slots + kept->limits.control_slots;
	     i++)
		client->slots[i].seq = kept->seqs[i];
}

bool rf_client_check_store(struct rf_client *client,
			   const uint8_t uuid[RF_UUID_SIZE])
{
	if (!client->was_opened ||
	    memcmp(uuid, client->server_uuid, RF_UUID_SIZE) == 0)
		return true;
	rf_client_fail(client, -EREMCHG, "another store answers on %s than "
		       "the one that is mounted", client->peer);
	return false;
}

int rf_client_encode_resume(struct rf_client *client)
{
	struct rf_resume resume = {
		.version = client->config.hello.version,
		.epoch = client->epoch,
		.session = client->session,
	};

	memcpy(resume.client_uuid, client->config.hello.client_uuid,
	       RF_UUID_SIZE);
	memcpy(resume.nonce, client->config.hello.nonce, RF_NONCE_SIZE);
	return rf_resume_encode(client->own_buf->mem, &resume,
				&client->config.key, client->secret,
				client->nonce, client->proof);
}

/* False, and failed, unless the server knows our session and may be believed. */
static bool check_reply(struct rf_client *client,
			const struct rf_resume_reply *reply,
			const struct rf_client_recv *recv)
{
	int err;

	if (!rf_client_check_store(client, reply->server_uuid))
		return false;
	err = rf_resume_reply_verify(recv->buf->mem, recv->op.size,
				     &client->config.key, client->secret,
				     client->nonce, client->proof);
	if (err) {
		rf_client_fail(client, -EKEYREJECTED, "the server could not "
			       "prove that it knows our session%s%s",
			       reply->reason[0] ? ": " : "", reply->reason);
		return false;
	}
	if (reply->status == RF_ST_OK)
		return true;
	err = rf_status_to_errno(reply->status);
	/* Only this one ends the session. */
	if (err == -ESTALE && reply->status != RF_ST_BAD_EPOCH)
		err = -EPROTO;
	rf_client_fail(client, err, "%s", reply->reason);
	return false;
}

void rf_client_take_resume_reply(struct rf_client_recv *recv)
{
	struct rf_client *client = recv->client;
	struct rf_resume_reply reply;

	if (rf_resume_reply_decode(recv->buf->mem, recv->op.size, &reply) < 0) {
		rf_client_fail(client, -EPROTO, "the first message is no "
			       "RESUME_REPLY");
		return;
	}
	if (!check_reply(client, &reply, recv))
		return;
	rf_client_was_answered(client);
	client->epoch = reply.epoch;
	if (client->config.kept)
		rf_store_kept(&client->config.kept->epoch, reply.epoch);
	client->msgs_received = client->msgs_acked = 0;
	client->state = RF_CLIENT_RESUMED;
	rf_client_post_recv(recv);
	client->events.resumed(client, &reply);
	rf_client_pump(client);
}

/* ---- between two connections ------------ */

bool rf_client_was_lost(struct rf_client *client, int err)
{
	if (!client->events.lost || !client->was_opened || client->is_aborted ||
	    client->wants_bye || client->state >= RF_CLIENT_LEAVING)
		return false;
	if (client->state >= RF_CLIENT_RESUMED) {
		client->stats.losses++;
		rf_client_lose_calls(client);
	}
	client->return_count = 0;
	client->state = RF_CLIENT_AWAY;
	client->ep = NULL;
	client->events.lost(client, err ? err : -ECONNRESET, client->reason);
	return true;
}

int rf_client_reconnect(struct rf_client *client,
			const struct sockaddr_storage *address,
			socklen_t address_size, uint32_t setup_ms)
{
	int err;

	RF_ASSERT(client->state == RF_CLIENT_AWAY && !client->is_aborted);
	client->config.address = *address;
	client->config.address_size = address_size;
	client->config.setup_ms = setup_ms;
	rf_peer_name(address, client->peer);
	client->err = 0;
	client->reason[0] = '\0';
	client->is_closing = false;
	err = rf_client_connect(client);
	if (err)
		client->is_closing = true;
	return err;
}

void rf_client_go_on(struct rf_client *client)
{
	if (client->state != RF_CLIENT_RESUMED)
		return;
	client->state = RF_CLIENT_OPEN;
	rf_client_pump(client);
	rf_client_check_bye(client);
}

void rf_client_forget(struct rf_client *client)
{
	RF_ASSERT(client->state == RF_CLIENT_AWAY);
	client->has_session = false;
	if (client->config.kept)
		rf_store_kept(&client->config.kept->is_valid, 0);
	rf_client_forget_calls(client);
}

uint64_t rf_client_keep(struct rf_client *client, uint32_t idle_ms)
{
	uint64_t now_ns = rf_reactor_now_ns(client->config.reactor);

	if (client->is_closing || client->state != RF_CLIENT_OPEN)
		return 0;
	if (client->own_is_busy)
		return (now_ns - client->own_sent_ns) / 1000000;
	if (now_ns - client->last_sent_ns >= idle_ms * UINT64_C(1000000))
		rf_client_send_returns(client);
	return 0;
}

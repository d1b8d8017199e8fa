/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_clients.c - what outlives the server of its clients: who they are, and
 * the answers that were recorded for them
 *
 * Operation.  A record of a client is there from before it learns of its session
 * until the session ends; its absence is what fences a client that comes back too
 * late.  It goes first, and the answers after it, in batches; answers without a
 * record are left over from a crash between, and go at the next start.
 */
#include "store_impl.h"

#include <errno.h>

int store_put_client(struct store *store, const struct client_record *client)
{
	uint8_t key[INODE_KEY_MAX], value[CLIENT_RECORD_MAX];
	struct txn *txn = txn_begin_internal(store);
	int err = txn_put(txn, ENGINE_INODES, key,
			  key_client(key, client->session), value,
			  client_encode(client, value));

	if (err) {
		txn_abort(txn);
		return err;
	}
	return txn_commit(txn);
}

/* ---- recorded answers ---------------------------------------------------- */

int store_find_reply(struct store *store, const struct reply_key *key,
		     struct reply_record *record, void *out, size_t room)
{
	uint8_t bytes[REPLY_KEY_SIZE];
	struct engine_value value;
	size_t header, size;
	int err;

	key_reply(bytes, key->session, key->channel, key->slot);
	err = engine_get(store->engine, ENGINE_REPLIES, bytes, sizeof(bytes),
			 &value);
	if (err)
		return err;
	err = reply_record_decode(value.bytes, value.size, record, &header);
	if (!err) {
		size = value.size - header;
		if (size > room)
			err = -ENOSPC;
		else
			memcpy(out, (const uint8_t *)value.bytes + header,
			       size);
		if (!err)
			err = (int)size;
	}
	engine_release(&value);
	return err;
}

enum { FORGET_AT_ONCE = 1 << 20 };	/* bytes of one batch */

static int forget_reply(struct txn *txn, const void *key, size_t key_size,
			size_t value_size, void *context)
{
	(void)value_size;
	(void)context;
	if (txn->used >= FORGET_AT_ONCE)
		return -EAGAIN;		/* commit, then go on */
	return txn_delete(txn, ENGINE_REPLIES, key, key_size);
}

static int forget_replies(struct store *store, const void *prefix,
			  size_t prefix_size)
{
	int walked, err;

	do {
		struct txn *txn = txn_begin_internal(store);

		walked = txn_for_each(txn, ENGINE_REPLIES, prefix, prefix_size,
				      forget_reply, NULL);
		if (walked && walked != -EAGAIN) {
			txn_abort(txn);
			return walked;
		}
		err = txn_commit(txn);
	} while (!err && walked == -EAGAIN);
	return err;
}

int store_forget_session(struct store *store, uint64_t session)
{
	uint8_t prefix[8], key[INODE_KEY_MAX];
	struct txn *txn = txn_begin_internal(store);
	int err = txn_delete(txn, ENGINE_INODES, key, key_client(key, session));

	if (err) {
		txn_abort(txn);
		return err;
	}
	err = txn_commit(txn);
	record_store_be64(prefix, session);
	return err ? err : forget_replies(store, prefix, sizeof(prefix));
}

/* ---- at the start -------------------------------------------------------- */

/* The first client record with a session above *session: 1, 0 or an error. */
static int next_client(struct store *store, uint64_t session,
		       struct client_record *out)
{
	uint8_t prefix[INODE_KEY_SIZE], start[INODE_KEY_MAX];
	const void *key, *value;
	struct engine_scan scan;
	size_t key_size, size;
	int got;

	if (session == UINT64_MAX)
		return 0;
	key_volume(prefix, VOLUME_CLIENT);
	key_client(start, session + 1);
	got = engine_scan_open(store->engine, ENGINE_INODES, prefix,
			       sizeof(prefix), start, sizeof(start), &scan);
	if (got)
		return got;
	got = engine_scan_next(&scan, &key, &key_size, &value, &size);
	if (got == 1 && (key_size != INODE_KEY_MAX ||
			 client_decode(value, size, out)))
		got = -EIO;
	if (got == 1)
		out->session = record_load_be64((const uint8_t *)key +
						INODE_KEY_SIZE);
	engine_scan_close(&scan);
	return got;
}

int clients_exist(struct store *store, bool *out)
{
	struct client_record client;
	int got = next_client(store, 0, &client);

	*out = got == 1;
	return got < 0 ? got : 0;
}

static bool has_client(struct store *store, uint64_t session)
{
	uint8_t key[INODE_KEY_MAX];
	struct engine_value value;

	if (engine_get(store->engine, ENGINE_INODES, key,
		       key_client(key, session), &value))
		return false;
	engine_release(&value);
	return true;
}

/* The session of the first recorded answer not below *session: 1, 0, error. */
static int next_answered(struct store *store, uint64_t *session)
{
	const void *key, *value;
	struct engine_scan scan;
	size_t key_size, size;
	uint8_t start[8];
	int got;

	record_store_be64(start, *session);
	got = engine_scan_open(store->engine, ENGINE_REPLIES, "", 0, start,
			       sizeof(start), &scan);
	if (got)
		return got;
	got = engine_scan_next(&scan, &key, &key_size, &value, &size);
	if (got == 1 && key_size != REPLY_KEY_SIZE)
		got = -EIO;
	if (got == 1)
		*session = record_load_be64(key);
	engine_scan_close(&scan);
	return got;
}

static int forget_strays(struct store *store)
{
	uint64_t session = 0;
	int got;

	while ((got = next_answered(store, &session)) == 1) {
		if (!has_client(store, session)) {
			int err = store_forget_session(store, session);

			if (err)
				return err;
		}
		if (++session == 0)
			return 0;
	}
	return got;
}

int store_load_clients(struct store *store,
		       int (*each)(const struct client_record *client,
				   void *context), void *context)
{
	struct client_record client = { .session = 0 };
	uint64_t last = 0;
	int got;

	while ((got = next_client(store, last, &client)) == 1) {
		int err = each(&client, context);

		if (err)
			return err;
		last = client.session;
	}
	if (got < 0)
		rf_log(RF_LOG_ERROR, "store %s: the record of a client is "
		       "damaged or of a newer version", store->config.dir);
	return got < 0 ? got : forget_strays(store);
}

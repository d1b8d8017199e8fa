/* SPDX-License-Identifier: Apache-2.0 */
/* How a connection becomes a session, and each way in which it does not. */
#include "tests/common/rpc_rig.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>

static struct rpc_rig rig;
static struct rpc_client client;

static void set_up(void)
{
	rpc_rig_open(&rig, 1);
	rpc_client_init(&rig, &client);
}

static void tear_down(void)
{
	if (client.client)
		rf_client_abort(client.client);
	rpc_rig_close(&rig);
}

TestSuite(rpc_hello, .init = set_up, .fini = tear_down, .timeout = 60);

static void expect_end(int err)
{
	rpc_until(&rig, client.closed);
	cr_assert_eq(client.opened, 0);
	cr_assert_eq(client.err, err, "%d, not %d: %s", client.err, err,
		     client.reason);
	rpc_settle(&rig);
	cr_assert(rpc_all_freed(&rig));
	cr_assert(rpc_pools_are_full(&rig));
}

static void connect_data(uint8_t out[RF_CONNECT_DATA_SIZE], uint16_t min,
			 uint16_t max)
{
	const struct rf_hello_connect versions = { min, max };

	rf_hello_connect_encode(out, &versions);
}

/* ---- keys ------------ */

Test(rpc_hello, same_key_on_both_sides_opens)
{
	memset(rig.server_key.bytes, 3, RF_KEY_SIZE);
	rig.server_key.is_set = true;
	rig.reply_key = rig.server_key;
	client.config.key = rig.server_key;
	rpc_client_start(&client);
	rpc_until(&rig, client.opened);
}

Test(rpc_hello, client_with_a_wrong_key_is_refused_and_told_so)
{
	rig.server_key.is_set = rig.reply_key.is_set = true;
	rig.server_key.bytes[0] = 1;
	rig.refuses_because = "wrong key";
	client.config.key = rig.server_key;
	client.config.key.bytes[31] ^= 1;
	rpc_client_start(&client);
	expect_end(-EKEYREJECTED);
	cr_assert_str_eq(client.reason, "wrong key");
	cr_assert_eq(rig.channels[0].err, -EKEYREJECTED);
}

Test(rpc_hello, server_without_the_key_is_not_believed)
{
	rig.server_key.is_set = rig.reply_key.is_set = true;
	rig.reply_key.bytes[5] = 9;
	client.config.key = rig.server_key;
	rpc_client_start(&client);
	expect_end(-EKEYREJECTED);
	cr_assert_str_eq(client.reason,
			 "the server could not prove that it has our key");
}

/* ---- refusals ------------ */

Test(rpc_hello, refusal_arrives_with_its_reason)
{
	rig.refuses_with = RF_ST_NO_EXPORT;
	rig.refuses_because = "no export \"data\"";
	rpc_client_start(&client);
	expect_end(-ENOENT);
	cr_assert_str_eq(client.reason, "no export \"data\"");
	cr_assert_eq(rig.channels[0].err, -ENOENT);
}

Test(rpc_hello, refused_connection_that_stays_is_closed_in_time)
{
	uint8_t data[RF_CONNECT_DATA_SIZE], message[RF_HELLO_SIZE_MAX];
	struct rf_hello in = { .version = 1 };
	struct rpc_raw raw;
	int size;

	rig.refuses_with = RF_ST_NOT_ALLOWED;
	connect_data(data, 1, 1);
	rpc_raw_connect(&rig, &raw, data, sizeof(data));
	rpc_until(&rig, raw.is_connected);
	in.limits = client.config.hello.limits;
	size = rf_hello_encode(message, &in, &rig.server_key,
			       raw.accept.nonce, raw.proof);
	rpc_raw_send(&raw, message, (size_t)size);
	rpc_until(&rig, raw.come == 1);
	cr_assert_not_null(raw.ep);
	rpc_until(&rig, !raw.ep);
	cr_assert_eq(rig.channels[0].err, -EACCES);
}

Test(rpc_hello, versions_that_do_not_meet_are_rejected)
{
	uint8_t data[RF_CONNECT_DATA_SIZE];
	struct rpc_raw raw;

	connect_data(data, 7, 9);
	rpc_raw_connect(&rig, &raw, data, sizeof(data));
	rpc_until(&rig, raw.closed);
	cr_assert_eq(raw.rejected, 1);
	cr_assert_eq(raw.accept.status, RF_ST_BAD_VERSION);
	cr_assert_eq(raw.accept.version, RF_PROTOCOL_VERSION);
	cr_assert_eq(rig.last_accept_error, -EPROTONOSUPPORT);
}

Test(rpc_hello, range_of_versions_that_has_ours_is_taken)
{
	uint8_t data[RF_CONNECT_DATA_SIZE];
	struct rpc_raw raw;

	connect_data(data, 1, 9);
	rpc_raw_connect(&rig, &raw, data, sizeof(data));
	rpc_until(&rig, raw.is_connected);
	cr_assert_eq(raw.accept.version, 1);
	rpc_raw_close(&raw);
}

Test(rpc_hello, stranger_is_rejected)
{
	struct rpc_raw raw;

	rpc_raw_connect(&rig, &raw, "GET / HTTP/1.1\r\n", 16);
	rpc_until(&rig, raw.closed);
	cr_assert_eq(raw.rejected, 1);
	cr_assert_eq(raw.accept.status, RF_ST_BAD_MESSAGE);
	cr_assert_eq(rig.last_accept_error, -EPROTO);
}

/* ---- silence, garbage ------------ */

Test(rpc_hello, connection_that_says_nothing_is_closed_in_time)
{
	uint8_t data[RF_CONNECT_DATA_SIZE];
	struct rpc_raw raw;

	connect_data(data, 1, 1);
	rpc_raw_connect(&rig, &raw, data, sizeof(data));
	rpc_until(&rig, raw.is_connected);
	rpc_until(&rig, !raw.ep);
	cr_assert_eq(rig.channels[0].err, -ETIMEDOUT);
	cr_assert_geq(rf_loop_now_ns(rig.world), RPC_SETUP_MS * 1000000ull);
	cr_assert_lt(rf_loop_now_ns(rig.world),
		     2 * RPC_SETUP_MS * 1000000ull);
}

static unsigned int count_open(const struct rpc_raw *raws, unsigned int count)
{
	unsigned int open = 0;

	for (unsigned int i = 0; i < count; i++)
		open += raws[i].ep != NULL;
	return open;
}

Test(rpc_hello, silent_connections_are_bounded_by_the_pool)
{
	enum { CONNECTIONS = 9, ROOM = 5 };
	static struct rpc_raw raws[CONNECTIONS];
	struct rf_buf *taken[257];
	unsigned int count = 0;
	uint8_t data[RF_CONNECT_DATA_SIZE];

	while ((taken[count] = rf_pool_get(rig.server_pool, 1)))
		count++;
	for (unsigned int i = 0; i < 2 * ROOM + 1; i++)
		rf_pool_put(taken[--count]);
	connect_data(data, 1, 1);
	for (unsigned int i = 0; i < CONNECTIONS; i++)
		rpc_raw_connect(&rig, &raws[i], data, sizeof(data));
	rpc_until(&rig, rig.accept_errors == CONNECTIONS - ROOM);
	cr_assert_eq(rig.last_accept_error, -ENOMEM);
	rpc_until(&rig, count_open(raws, CONNECTIONS) == 0);
	for (unsigned int i = 0; i < CONNECTIONS; i++) {
		cr_assert(raws[i].rejected == 0 ||
			  raws[i].accept.status == RF_ST_TOO_MANY);
		cr_assert(raws[i].rejected || raws[i].is_connected);
	}
	while (count > 0)
		rf_pool_put(taken[--count]);
	rpc_client_start(&client);
	rpc_until(&rig, client.opened);
}

static void say_instead_of_hello(const void *message, size_t size)
{
	uint8_t data[RF_CONNECT_DATA_SIZE];
	struct rpc_raw raw;

	connect_data(data, 1, 1);
	rpc_raw_connect(&rig, &raw, data, sizeof(data));
	rpc_until(&rig, raw.is_connected);
	rpc_raw_send(&raw, message, size);
	rpc_until(&rig, !raw.ep);
	cr_assert_eq(raw.come, 0, "no answer to it");
	rpc_until(&rig, rig.channels[0].is_closed);
}

Test(rpc_hello, garbage_instead_of_hello_ends_it)
{
	say_instead_of_hello("\1\2\3\4\5", 5);
	cr_assert_eq(rig.channels[0].err, -EPROTO);
}

Test(rpc_hello, request_instead_of_hello_ends_it)
{
	uint8_t message[RPC_MSG_MAX];

	say_instead_of_hello(message,
			     rpc_raw_request(message, 0, 1, 1, RPC_AT_ONCE));
	cr_assert_eq(rig.channels[0].err, -EPROTO);
}

Test(rpc_hello, too_long_a_hello_ends_it)
{
	static uint8_t message[RPC_BUF_SIZE];

	say_instead_of_hello(message, sizeof(message));
	cr_assert_eq(rig.channels[0].err, -EMSGSIZE);
}

/* ---- servers that do not answer ------------ */

Test(rpc_hello, server_that_does_not_answer_is_given_up)
{
	rig.is_mute = true;
	rpc_client_start(&client);
	expect_end(-ETIMEDOUT);
}

Test(rpc_hello, server_that_overlooks_hello_is_not_waited_for_as_long)
{
	uint64_t start_ns = rf_loop_now_ns(rig.world);

	rig.is_mute = true;
	client.config.answer_ms = RPC_SETUP_MS / 4;
	rpc_client_start(&client);
	rpc_until(&rig, client.closed);
	cr_assert_lt(rf_loop_now_ns(rig.world) - start_ns,
		     RPC_SETUP_MS / 2 * UINT64_C(1000000));
	expect_end(-EAGAIN);
}

Test(rpc_hello, nobody_listens)
{
	rf_listener_close(rig.listener);
	rig.listener = NULL;
	rpc_client_start(&client);
	expect_end(-ECONNREFUSED);
}

Test(rpc_hello, cut_before_the_answer)
{
	rig.is_mute = true;
	rpc_client_start(&client);
	rpc_until(&rig, rig.channel_count == 1);
	for (unsigned int i = 0; i < 4; i++)
		rpc_turn(&rig);
	rf_loop_cut_ep(rf_client_ep(client.client), RF_LOOP_CUT_RESET);
	expect_end(-ECONNRESET);
}

Test(rpc_hello, aborted_before_it_is_open)
{
	struct rpc_call call;

	rpc_client_start(&client);
	rpc_call_start(&call, &client, 1, RPC_AT_ONCE);
	rf_client_bye(client.client);
	expect_end(-ECANCELED);
	cr_assert_eq(call.err, -ECANCELED);
}

Test(rpc_hello, server_that_gives_more_than_was_wished_is_not_believed)
{
	struct rf_hello_reply reply = { .version = 1, .epoch = RPC_EPOCH,
					.lease_ms = 60000 };
	uint8_t message[RF_HELLO_SIZE_MAX];
	struct rpc_raw raw;
	int size;

	rpc_raw_listen(&rig, &raw);
	rpc_client_start(&client);
	rpc_until(&rig, raw.come == 1);
	cr_assert_eq(raw.recvs[0].header.type, RF_MSG_HELLO);
	reply.limits = client.config.hello.limits;
	reply.limits.slots++;
	cr_assert_eq(rf_hello_verify(raw.recvs[0].buf->mem,
				     raw.recvs[0].header.size, &rig.server_key,
				     raw.accept.nonce, raw.proof), 0);
	size = rf_hello_reply_encode(message, &reply, &rig.server_key,
				     raw.accept.nonce, raw.proof);
	rpc_raw_send(&raw, message, (size_t)size);
	expect_end(-EPROTO);
	rpc_until(&rig, !raw.ep);
}

Test(rpc_hello, wrong_first_message_of_a_server_ends_it)
{
	uint8_t message[RPC_MSG_MAX];
	struct rpc_raw raw;

	rpc_raw_listen(&rig, &raw);
	rpc_client_start(&client);
	rpc_until(&rig, raw.come == 1);
	rpc_raw_send(&raw, message,
		     rpc_raw_request(message, 0, 1, 1, RPC_AT_ONCE));
	expect_end(-EPROTO);
	rpc_until(&rig, !raw.ep);
}

/* ---- not enough ------------ */

static void take_all_but(struct rf_pool *pool, unsigned int left,
			 struct rf_buf **taken, unsigned int *count)
{
	*count = 0;
	while ((taken[*count] = rf_pool_get(pool, RPC_BUF_SIZE)))
		(*count)++;
	while (left-- > 0)
		rf_pool_put(taken[--*count]);
}

Test(rpc_hello, client_without_buffers_fails_at_once_and_keeps_none)
{
	static const struct rf_client_events no_events;
	struct rf_buf *taken[257];
	unsigned int count;

	take_all_but(rig.client_pool, 3, taken, &count);
	cr_assert_eq(rf_client_open(&client.config, &no_events, NULL,
				    &client.client), -ENOMEM);
	client.client = NULL;
	while (count > 0)
		rf_pool_put(taken[--count]);
	cr_assert(rpc_pools_are_full(&rig));
}

Test(rpc_hello, server_without_buffers_refuses)
{
	struct rf_buf *taken[257];
	unsigned int count;

	take_all_but(rig.server_pool, 4, taken, &count);
	rpc_client_start(&client);
	rpc_until(&rig, client.closed);
	cr_assert_eq(client.err, -ENOMEM);
	cr_assert_str_eq(client.reason, "not admitted");
	while (count > 0)
		rf_pool_put(taken[--count]);
}

Test(rpc_hello, wishes_that_the_fabric_cannot_do_fail_at_once)
{
	static const struct rf_client_events no_events;
	struct rf_hello_limits *wish = &client.config.hello.limits;

	wish->slots = 0;
	cr_assert_eq(rf_client_open(&client.config, &no_events, NULL,
				    &client.client), -EINVAL);
	wish->slots = UINT16_MAX;
	wish->server_msgs = UINT16_MAX;
	cr_assert_eq(rf_client_open(&client.config, &no_events, NULL,
				    &client.client), -EINVAL);
	client.client = NULL;
}

Test(rpc_hello, limits_beyond_the_wishes_are_not_admitted)
{
	rig.server_limits.slots = RPC_SLOTS + 1;
	rpc_client_start(&client);
	rpc_until(&rig, client.closed);
	cr_assert_eq(client.err, -EINVAL);
}

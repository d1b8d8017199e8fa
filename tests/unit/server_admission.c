/* SPDX-License-Identifier: Apache-2.0 */
/* Who is let in: keys, exports, networks, versions, numbers of clients. */
#include "tests/common/server_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static struct srig rig;
static struct sclient client, other;
static struct scall call;
static char key_path[64];

static void make_key(struct rf_key *key)
{
	snprintf(key_path, sizeof(key_path), "/tmp/rdmafs-key-%d", getpid());
	unlink(key_path);
	cr_assert_eq(rf_key_generate(key_path), 0);
	cr_assert_eq(rf_key_load(key_path, key), 0);
}

static void refused(struct sclient *self, int err, const char *reason)
{
	sclient_connect(self);
	cr_assert_not(self->opened);
	cr_assert_eq(self->err, err, "%s (%s)", strerror(-self->err),
		     self->reason);
	cr_assert_not_null(strstr(self->reason, reason), "'%s'", self->reason);
	srig_until(&rig, rig.server->greeting_count == 0);
	cr_assert_eq(rig.server->session_count, 0);
}

Test(server_admission, the_shared_key_opens_a_session)
{
	struct rf_key key;

	make_key(&key);
	srig_init(&rig, "iwarp");
	srig_set(&rig, "key-file", key_path);
	srig_start(&rig);
	sclient_init(&rig, &client, "data");
	client.config.key = key;
	sclient_connect(&client);
	cr_assert(client.opened, "%s", client.reason);
	sclient_bye(&client);
	srig_close(&rig);
	unlink(key_path);
}

Test(server_admission, a_wrong_key_is_refused_later_each_time)
{
	uint64_t first, second, start;
	struct rf_key key;

	make_key(&key);
	srig_init(&rig, "iwarp");
	srig_set(&rig, "key-file", key_path);
	srig_start(&rig);
	key.bytes[0] ^= 1;
	for (unsigned int i = 0; i < 2; i++) {
		sclient_init(&rig, &client, "data");
		client.config.key = key;
		start = rf_now_ns();
		sclient_connect(&client);
		cr_assert_eq(client.err, -EKEYREJECTED, "%s",
			     strerror(-client.err));
		if (i == 0)
			first = rf_now_ns() - start;
		else
			second = rf_now_ns() - start;
	}
	cr_assert_geq(first, UINT64_C(1000000) * PENALTY_FIRST_MS);
	cr_assert_geq(second, UINT64_C(2000000) * PENALTY_FIRST_MS);
	srig_close(&rig);
	unlink(key_path);
}

Test(server_admission, a_client_without_the_key_is_told_to_bring_one)
{
	struct rf_key key;

	make_key(&key);
	srig_init(&rig, "iwarp");
	srig_set(&rig, "key-file", key_path);
	srig_start(&rig);
	sclient_init(&rig, &client, "data");
	refused(&client, -ENOKEY, "key");
	srig_close(&rig);
	unlink(key_path);
}

static unsigned int lines_of(const char *text)
{
	unsigned int lines = 0;

	while ((text = strchr(text, '\n'))) {
		text++;
		lines++;
	}
	return lines;
}

/* The first of them are; then they are counted. */
Test(server_admission, nobody_fills_the_log_with_refusals)
{
	static char text[100000];
	struct rf_log_capture capture = { text, sizeof(text), 0 };
	struct rf_key key;

	make_key(&key);
	srig_init(&rig, "iwarp");
	srig_set(&rig, "key-file", key_path);
	srig_start(&rig);
	rf_log_capture(&capture);
	for (unsigned int i = 0; i < 100; i++) {
		sclient_init(&rig, &client, "data");
		refused(&client, -ENOKEY, "-o key=");
	}
	rf_log_capture(NULL);
	cr_assert_not_null(strstr(text, "refused with NEED_KEY"));
	cr_assert_lt(lines_of(text), 50, "%u lines", lines_of(text));
	srig_close(&rig);
	unlink(key_path);
}

Test(server_admission, a_key_at_a_server_without_one_is_refused)
{
	struct rf_key key;

	make_key(&key);
	srig_open(&rig, "iwarp");
	sclient_init(&rig, &client, "data");
	client.config.key = key;
	sclient_connect(&client);
	cr_assert_not(client.opened);
	cr_assert_eq(client.err, -EKEYREJECTED);
	srig_close(&rig);
	unlink(key_path);
}

Test(server_admission, without_a_key_the_servers_own_user_comes_in)
{
	srig_open(&rig, "iwarp");
	sclient_open(&rig, &client, "data");
	sclient_bye(&client);
	srig_close(&rig);
}

/* The loop fabric has no sockets that the kernel could tell the owner of. */
Test(server_admission, without_a_key_an_owner_that_is_not_known_stays_out)
{
	srig_init(&rig, "loop");
	srig_set(&rig, "insecure", "no");
	srig_start(&rig);
	sclient_init(&rig, &client, "data");
	refused(&client, -EACCES, "whose");
	srig_close(&rig);
}

static void gone(struct rf_client *self, int err, const char *reason)
{
	struct sclient *who = rf_client_context(self);

	(void)reason;
	who->closed = true;
	who->err = err;
}

/* The owner of the client's socket, which is made by this process, is changed:
 * what the kernel tells is the owner of the socket's inode. */
Test(server_admission, without_a_key_another_user_stays_out)
{
	static const struct rf_client_events events = { .closed = gone };
	bool changed = false;

	if (geteuid() != 0)
		cr_skip_test("SKIPPED: only root can make another user's "
			     "socket");
	srig_open(&rig, "iwarp");
	sclient_init(&rig, &client, "data");
	cr_assert_eq(rf_client_open(&client.config, &events, &client,
				    &client.client), 0);
	for (int fd = 3; fd < 256; fd++) {
		struct sockaddr_storage peer;
		socklen_t size = sizeof(peer);

		if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
		    peer.ss_family == AF_INET)
			changed |= fchown(fd, 4242, 4242) == 0;
	}
	if (!changed)
		cr_skip_test("SKIPPED: the connection was not up yet");
	srig_until(&rig, client.closed);
	cr_assert_eq(client.err, -EACCES, "%s", strerror(-client.err));
	srig_close(&rig);
}

Test(server_admission, insecure_lets_everyone_in)
{
	srig_open(&rig, "loop");
	sclient_open(&rig, &client, "data");
	sclient_bye(&client);
	srig_close(&rig);
}

Test(server_admission, an_unknown_export_is_refused_by_name)
{
	srig_open(&rig, "iwarp");
	sclient_init(&rig, &client, "nonesuch");
	refused(&client, -ENOENT, "nonesuch");
	srig_close(&rig);
}

Test(server_admission, an_export_is_for_its_networks)
{
	srig_init(&rig, "iwarp");
	rig.config.export_count = 0;
	srig_set(&rig, "export", "here=a,allow=10.0.0.0/8,allow=127.0.0.0/8");
	srig_set(&rig, "export", "there=b,allow=10.0.0.0/8,allow=::1");
	srig_start(&rig);
	sclient_init(&rig, &client, "there");
	refused(&client, -EACCES, "address");
	sclient_open(&rig, &client, "here");
	sclient_bye(&client);
	srig_close(&rig);
}

Test(server_admission, sessions_are_counted)
{
	srig_init(&rig, "iwarp");
	srig_set(&rig, "sessions", "1");
	srig_start(&rig);
	sclient_open(&rig, &client, "data");
	sclient_init(&rig, &other, "data");
	sclient_connect(&other);
	cr_assert_eq(other.err, -EUSERS, "%s", strerror(-other.err));
	cr_assert_not_null(strstr(other.reason, "--sessions"));
	sclient_bye(&client);
	srig_until(&rig, rig.server->session_count == 0);
	sclient_open(&rig, &other, "data");
	sclient_bye(&other);
	srig_close(&rig);
}

Test(server_admission, the_smaller_limit_holds)
{
	srig_init(&rig, "iwarp");
	srig_set(&rig, "slots", "8");
	srig_set(&rig, "inline-max", "8192");
	srig_start(&rig);
	sclient_init(&rig, &client, "data");
	client.config.hello.limits.inline_max = 1000;
	client.config.hello.limits.msg_max = 3000;
	client.config.hello.limits.block_max = 65536;
	sclient_connect(&client);
	cr_assert(client.opened, "%s", client.reason);
	cr_assert_eq(client.reply.limits.slots, 8);
	cr_assert_eq(client.reply.limits.inline_max, 1000);
	cr_assert_eq(client.reply.limits.msg_max, 3000);
	cr_assert_eq(client.reply.limits.block_max, 65536);
	sclient_bye(&client);
	srig_close(&rig);
}

/* ---- versions, garbage, silence ----------------------------------------- */

struct raw {
	struct rf_ep *ep;
	bool is_connected, is_closed, is_rejected, has_sent;
	int reason;
	struct rf_hello_accept accept;
	struct rf_op send, recv;
};

static void raw_connected(struct rf_ep *ep, const void *hello, size_t size)
{
	struct raw *raw = rf_ep_context(ep);

	raw->is_connected = true;
	rf_hello_accept_decode(hello, size, &raw->accept);
}

static void raw_closed(struct rf_ep *ep, int reason)
{
	struct raw *raw = rf_ep_context(ep);

	raw->is_closed = true;
	raw->reason = reason;
}

static void raw_rejected(struct rf_ep *ep, const void *hello, size_t size)
{
	struct raw *raw = rf_ep_context(ep);

	raw->is_rejected = true;
	cr_assert_eq(rf_hello_accept_decode(hello, size, &raw->accept), 0);
}

static int raw_connect(struct raw *raw, uint16_t low, uint16_t high)
{
	static const struct rf_ep_events events = {
		.connected = raw_connected,
		.closed = raw_closed,
		.rejected = raw_rejected,
	};
	const struct rf_hello_connect versions = { low, high };
	const struct rf_ep_config config = {
		.pd = rig.pd, .send_depth = 4, .recv_depth = 4,
		.setup_ms = 20000,
	};
	struct sockaddr_storage address;
	uint8_t data[RF_CONNECT_DATA_SIZE];

	*raw = (struct raw){ .ep = NULL };
	rf_hello_connect_encode(data, &versions);
	cr_assert_eq(server_address(rig.server, 0, &address), 0);
	return rf_ep_connect(rig.poller, (struct sockaddr *)&address,
			     sizeof(address), data, sizeof(data), &config,
			     &events, raw, &raw->ep);
}

Test(server_admission, versions_that_do_not_meet_are_told)
{
	struct raw raw;

	srig_open(&rig, "iwarp");
	cr_assert_eq(raw_connect(&raw, 2, 7), 0);
	srig_until(&rig, raw.is_closed);
	cr_assert(raw.is_rejected);
	cr_assert_eq(raw.accept.status, RF_ST_BAD_VERSION);
	cr_assert_eq(raw.accept.version, RF_PROTOCOL_VERSION);
	srig_close(&rig);
}

Test(server_admission, a_client_that_says_nothing_is_closed)
{
	struct raw raw;

	srig_init(&rig, "iwarp");
	srig_set(&rig, "hello-ms", "100");
	srig_start(&rig);
	cr_assert_eq(raw_connect(&raw, 1, 1), 0);
	srig_until(&rig, raw.is_connected);
	srig_until(&rig, raw.is_closed && rig.server->greeting_count == 0);
	srig_close(&rig);
}

static void raise_files(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* Somebody new who means it, at the latest when the crowd is old enough to be pushed
 * out. */
static void come_in(struct sclient *newcomer, const struct rf_key *key)
{
	for (uint64_t start_ns = rf_now_ns(); ; ) {
		cr_assert_lt(rf_now_ns() - start_ns,
			     SRIG_PATIENCE_S * UINT64_C(1000000000));
		sclient_init(&rig, newcomer, "data");
		newcomer->config.key = *key;
		sclient_connect(newcomer);
		if (newcomer->opened)
			return;
		cr_assert_eq(newcomer->err, -EUSERS, "%s",
			     strerror(-newcomer->err));
	}
}

static void close_all(struct raw *crowd, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		if (!crowd[i].is_closed)
			rf_ep_close(crowd[i].ep);
	for (unsigned int i = 0; i < count; i++)
		srig_until(&rig, crowd[i].is_closed);
}

Test(server_admission, a_silent_crowd_stops_nobody)
{
	enum { CROWD = 500, GREETERS = 64 };
	const struct rf_key no_key = { .is_set = false };
	static struct raw crowd[CROWD];
	rf_handle_t handle;
	unsigned int most = 0;
	uint32_t open;
	char out[8];

	raise_files();
	srig_init(&rig, "iwarp");
	srig_set(&rig, "greeters", "64");
	srig_set(&rig, "hello-ms", "20000");
	srig_start(&rig);
	sclient_open(&rig, &client, "data");
	handle = smake(&client, "a", RF_OPEN_READ | RF_OPEN_WRITE, &open);
	for (unsigned int i = 0; i < CROWD; i++) {
		cr_assert_eq(raw_connect(&crowd[i], 1, 1), 0);
		srig_turn(&rig);
		if (rig.server->greeting_count > most)
			most = rig.server->greeting_count;
		if (i % 50 == 0)
			cr_assert_eq(swrite(&client, &handle, open, i, "x", 1),
				     RF_ST_OK);
	}
	cr_assert_leq(most, GREETERS + SERVER_GREETERS_LEAVING);
	cr_assert_eq(sread(&client, &handle, open, 450, 8, out), 1);
	come_in(&other, &no_key);
	sclient_bye(&other);
	close_all(crowd, CROWD);
	srig_until(&rig, rig.server->greeting_count == 0);
	sclient_bye(&client);
	srig_close(&rig);
}

static void sent(struct rf_op *op, int status)
{
	struct raw *raw = rf_container_of(op, struct raw, send);

	(void)status;
	raw->has_sent = true;
}

static void received(struct rf_op *op, int status)
{
	(void)op;
	(void)status;
}

/* With a key that is not the server's; and then it waits, for whatever. */
static void raw_say_hello(struct raw *raw, struct rf_buf *buf)
{
	const struct rf_key key = { .is_set = true };
	const struct rf_hello hello = {
		.version = RF_PROTOCOL_VERSION,
		.limits = client.config.hello.limits,
		.export = "data",
	};
	struct rf_sge sge = { buf->mem, RF_HELLO_SIZE_MAX, rig.mr };
	const struct rf_recv recv = { &raw->recv, sge };
	const struct rf_work work = { .code = RF_SEND, .op = &raw->send,
				      .sge = &sge, .sge_count = 1 };
	uint8_t proof[RF_PROOF_SIZE];

	raw->send.done = sent;
	raw->recv.done = received;
	cr_assert_eq(rf_ep_post_recv(raw->ep, &recv), 0);
	sge.size = (uint32_t)rf_hello_encode(buf->mem, &hello, &key,
					     raw->accept.nonce, proof);
	cr_assert_eq(rf_ep_post(raw->ep, &work, 1), 0);
	srig_until(&rig, raw->has_sent);
}

/* They are refused late, and do not close: neither keeps others out. */
Test(server_admission, a_crowd_with_a_wrong_key_stops_nobody)
{
	enum { CROWD = 40 };
	static struct raw crowd[CROWD];
	struct rf_buf *buf;
	struct rf_key key;

	make_key(&key);
	srig_init(&rig, "iwarp");
	srig_set(&rig, "key-file", key_path);
	srig_set(&rig, "greeters", "8");
	srig_set(&rig, "hello-ms", "60000");
	srig_start(&rig);
	sclient_init(&rig, &client, "data");
	buf = rf_pool_get(rig.pool, RF_HELLO_SIZE_MAX);
	for (unsigned int i = 0; i < CROWD; i++) {
		cr_assert_eq(raw_connect(&crowd[i], 1, 1), 0);
		srig_until(&rig, crowd[i].is_connected || crowd[i].is_closed);
		if (crowd[i].is_connected)
			raw_say_hello(&crowd[i], buf);
	}
	come_in(&client, &key);
	sclient_bye(&client);
	close_all(crowd, CROWD);
	rf_pool_put(buf);
	srig_until(&rig, rig.server->greeting_count == 0);
	srig_close(&rig);
	unlink(key_path);
}

Test(server_admission, two_servers_may_not_share_a_store)
{
	struct server *second;

	srig_open(&rig, "iwarp");
	cr_assert_eq(server_create(&rig.config, rig.reactor, &second), -EBUSY);
	srig_close(&rig);
}

Test(server_admission, a_key_file_that_others_may_read_is_refused)
{
	struct server *server;
	struct rf_key key;

	make_key(&key);
	srig_open(&rig, "iwarp");
	srig_stop(&rig);
	srig_set(&rig, "key-file", key_path);
	cr_assert_eq(chmod(key_path, 0644), 0);
	cr_assert_eq(server_create(&rig.config, rig.reactor, &server), -EPERM);
	unlink(key_path);
	cr_assert_eq(server_create(&rig.config, rig.reactor, &server),
		     -ENOENT);
	srig_close(&rig);
}

Test(server_admission, nested_exports_are_refused)
{
	struct server *server;

	srig_init(&rig, "iwarp");
	rig.config.export_count = 0;
	srig_set(&rig, "export", "a=x");
	srig_start(&rig);
	srig_stop(&rig);
	srig_set(&rig, "export", "b=x/y");
	cr_assert_eq(server_create(&rig.config, rig.reactor, &server),
		     -EINVAL);
	srig_close(&rig);
}

Test(server_admission, a_port_in_use_is_told)
{
	struct sockaddr_storage address;
	struct server *second;
	struct config config;
	char listen[64], text[ACCESS_TEXT_SIZE];

	srig_open(&rig, "iwarp");
	cr_assert_eq(server_address(rig.server, 0, &address), 0);
	snprintf(listen, sizeof(listen), "iwarp://%s",
		 access_text((struct sockaddr *)&address, text));
	cr_assert_eq(config_init(&config), 0);
	config_set(&config, "test", "store", "/tmp/rdmafs-second");
	config_set(&config, "test", "listen", listen);
	config_set(&config, "test", "export", "data=/");
	cr_assert_eq(server_create(&config, rig.reactor, &second),
		     -EADDRINUSE);
	cr_assert_eq(system("rm -r /tmp/rdmafs-second"), 0);
	config_fini(&config);
	srig_close(&rig);
}

Test(server_admission, identities_are_bounded)
{
	static uint8_t groups[4096];

	srig_open(&rig, "iwarp");
	sclient_open(&rig, &client, "data");
	for (uint16_t i = 3; i < 3 + SERVER_GROUPS_MAX / RF_GROUPS_MAX; i++)
		cr_assert_eq(SRUN(&client, &call, 1, &client.root,
				  { .code = RF_OP_IDENTITY,
				    .identity = { i, 5, 5,
						  { groups, 4096 } } }),
			     RF_ST_OK);
	cr_assert_eq(SRUN(&client, &call, 1, &client.root,
			  { .code = RF_OP_IDENTITY,
			    .identity = { 1000, 5, 5, { groups, 4 } } }),
		     RF_ST_TOO_MANY);
	/* Who was refused does not go as the one who had the index before. */
	cr_assert_eq(SRUN(&client, &call, 2, &client.root,
			  { .code = RF_OP_LOOKUP,
			    .lookup = { sname("none") } }),
		     RF_ST_NOENT);
	cr_assert_eq(SRUN(&client, &call, 1, &client.root,
			  { .code = RF_OP_IDENTITY,
			    .identity = { 2, 5, 5, { groups, 4 } } }),
		     RF_ST_TOO_MANY);
	cr_assert_eq(SRUN(&client, &call, 2, &client.root,
			  { .code = RF_OP_LOOKUP,
			    .lookup = { sname("none") } }),
		     RF_ST_INVAL);
	cr_assert_eq(SRUN(&client, &call, 1, &client.root,
			  { .code = RF_OP_IDENTITY,
			    .identity = { 3, 5, 5, { groups, 0 } } }),
		     RF_ST_OK);
	cr_assert_eq(SRUN(&client, &call, 1, &client.root,
			  { .code = RF_OP_IDENTITY,
			    .identity = { 1000, 5, 5, { groups, 4 } } }),
		     RF_ST_OK);
	sclient_bye(&client);
	srig_close(&rig);
}

/* None leaves anything behind: srig_stop() counts the memory. */
static void end_in_the_middle(const char *scheme)
{
	enum { CLIENTS = 24 };
	static struct sclient clients[CLIENTS];
	static struct scall calls[CLIENTS];
	const struct rf_args slots = { .code = RF_OP_SLOTS,
				       .slots = { 1, 65536 } };

	srig_init(&rig, scheme);
	srig_set(&rig, "sessions", "24");
	srig_start(&rig);
	for (unsigned int i = 0; i < CLIENTS; i++) {
		sclient_open(&rig, &clients[i], "data");
		scall_init(&calls[i], &clients[i]);
		calls[i].call.identity = 1;
		scall_add(&calls[i], &(struct rf_args){ .code = RF_OP_USE,
			.use = { clients[i].root } });
		scall_add(&calls[i], &slots);
		scall_submit(&calls[i]);
	}
	for (unsigned int i = 0; i < CLIENTS; i++)
		rf_client_abort(clients[i].client);
	for (unsigned int i = 0; i < CLIENTS; i++)
		srig_until(&rig, sclient_is_lost(&clients[i]));
	while (!rf_list_is_empty(&rig.server->sessions))
		session_expire(rf_container_of(rig.server->sessions.next,
					       struct session, link), NULL);
	cr_assert_eq(rig.server->session_count, 0);
	/* And their places are free. */
	for (unsigned int i = 0; i < CLIENTS; i++)
		sclient_open(&rig, &clients[i], "data");
	for (unsigned int i = 0; i < CLIENTS; i++)
		sclient_bye(&clients[i]);
	srig_close(&rig);
}

Test(server_admission, two_dozen_clients_end_in_the_middle_of_their_work)
{
	end_in_the_middle("loop");
	end_in_the_middle("iwarp");
}

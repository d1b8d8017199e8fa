/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_probe.c - what a server answers to HELLO
 *
 * Operation.  As a mount would, but with the least of everything: connect over
 * one fabric, HELLO, BYE.  Without an export asked for, the server's "no such
 * export" is the answer wanted: address, protocol and key were right by then.
 */
#include "doctor_io.h"

#include "pool.h"
#include "reactor.h"
#include "rpc.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum {
	SLOTS = 2, CONTROL_SLOTS = 2, SERVER_MSGS = 2,
	MSG_SIZE = RF_INLINE_DEFAULT + RF_MSG_OVERHEAD,
	BUFFER_SIZE = 16384,
	BUFFERS = 16,
	DEPTH = 16,
	OPS_MAX = 256,
	KEEPALIVE_MS = 10000,
};
_Static_assert(MSG_SIZE <= BUFFER_SIZE, "messages go into one buffer");

struct probe {
	struct rf_reactor *reactor;
	struct rf_fabric *fabric;
	struct rf_pd *pd;
	struct rf_pool *pool;
	struct rf_mr *mr;
	struct rf_poller *poller;
	struct rf_client *client;
	struct doctor_answer *answer;
	bool was_opened;
};

static void opened(struct rf_client *client, const struct rf_hello_reply *reply)
{
	struct probe *probe = rf_client_context(client);

	probe->was_opened = true;
	probe->answer->limits = *rf_client_limits(client);
	probe->answer->features = reply->features;
	probe->answer->version = reply->version;
	rf_client_bye(client);
}

static void closed(struct rf_client *client, int err, const char *reason)
{
	struct probe *probe = rf_client_context(client);
	struct doctor_answer *answer = probe->answer;

	probe->client = NULL;
	answer->err = probe->was_opened ? 0 : err ? err : -ECONNRESET;
	snprintf(answer->reason, sizeof(answer->reason), "%s", reason);
}

static int open_fabric(struct probe *probe, const char *scheme,
		       const struct doctor_path *path,
		       const struct rf_tuning *tuning)
{
	const struct sockaddr *source = tuning->source.ss_family ?
		(const struct sockaddr *)&tuning->source : NULL;
	struct rf_tuning mine = *tuning;
	char uri[256];
	int err = rf_fabric_route_from(scheme, source,
				       (const struct sockaddr *)&path->address,
				       path->address_size, uri, sizeof(uri));

	if (!err)
		err = rf_fabric_open(uri, &probe->fabric);
	/* An index of GIDs is for verbs; a mount over iwarp refuses it. */
	if (strcmp(scheme, "verbs") != 0)
		mine.gid_index = -1;
	return err ? err : rf_fabric_tune(probe->fabric, &mine);
}

static int open_probe(struct probe *probe, const char *scheme,
		      const struct doctor_path *path,
		      const struct rf_tuning *tuning)
{
	const struct rf_pool_config pool = {
		.name = "probe",
		.classes = { { BUFFER_SIZE, BUFFERS } },
		.class_count = 1,
	};
	int err = open_fabric(probe, scheme, path, tuning);

	if (!err)
		err = rf_reactor_create(&probe->reactor);
	if (!err)
		err = rf_pd_create(probe->fabric, &probe->pd);
	if (!err)
		err = rf_pool_create(&pool, &probe->pool);
	if (!err)
		err = rf_pool_register(probe->pool, probe->pd,
				       RF_LOCAL_WRITE | RF_READ_SINK,
				       &probe->mr);
	if (!err)
		err = rf_poller_create(probe->fabric, OPS_MAX, &probe->poller);
	if (err)
		return err;
	err = rf_reactor_add_poller(probe->reactor, probe->poller);
	if (err) {
		rf_poller_destroy(probe->poller);
		probe->poller = NULL;
	}
	return err;
}

static void close_probe(struct probe *probe)
{
	if (probe->poller) {
		rf_reactor_remove_poller(probe->reactor, probe->poller);
		rf_poller_destroy(probe->poller);
	}
	if (probe->mr)
		rf_mr_deregister(probe->mr);
	if (probe->pool)
		rf_pool_destroy(probe->pool);
	if (probe->pd)
		rf_pd_destroy(probe->pd);
	if (probe->reactor)
		rf_reactor_destroy(probe->reactor);
	if (probe->fabric)
		rf_fabric_close(probe->fabric);
}

static void fill_hello(struct rf_hello *hello, const char *export)
{
	hello->flags = RF_HELLO_READ_ONLY;
	hello->limits = (struct rf_hello_limits){
		.inline_max = RF_INLINE_DEFAULT,
		.msg_max = MSG_SIZE,
		.slots = SLOTS,
		.control_slots = CONTROL_SLOTS,
		.server_msgs = SERVER_MSGS,
		.channels = 1,
		.block_max = 1 << 20,
	};
	rf_random(hello->client_uuid, sizeof(hello->client_uuid));
	if (gethostname(hello->host, sizeof(hello->host) - 1) < 0)
		snprintf(hello->host, sizeof(hello->host), "?");
	snprintf(hello->export, sizeof(hello->export), "%s", export);
}

/*
 * TCP is not asked first whether anybody is there: a connection that ends before
 * MPA has begun makes siw's listener free itself twice when it is closed.
 */
static int say_hello(struct probe *probe, const struct doctor_path *path,
		     const struct rf_key *key, uint32_t timeo_ms)
{
	const struct rf_client_events events = {
		.opened = opened,
		.closed = closed,
	};
	struct rf_client_config config = {
		.reactor = probe->reactor,
		.poller = probe->poller,
		.pd = probe->pd,
		.mr = probe->mr,
		.pool = probe->pool,
		.key = *key,
		.address = path->address,
		.address_size = path->address_size,
		.setup_ms = timeo_ms,
		.keepalive_ms = KEEPALIVE_MS,
		.send_depth = DEPTH,
		.reads_out = 1,
	};
	int err;

	fill_hello(&config.hello, path->target.export);
	err = rf_client_open(&config, &events, probe, &probe->client);
	if (err)
		return err;
	while (probe->client)
		rf_reactor_turn(probe->reactor, -1);
	return probe->answer->err;
}

/* What only a server of ours says. */
static bool is_said_by_server(int err)
{
	return err == -EKEYREJECTED || err == -ENOKEY || err == -ENOENT ||
	       err == -EACCES || err == -EPROTONOSUPPORT || err == -EUSERS ||
	       err == -ESHUTDOWN;
}

void doctor_probe(const struct doctor_question *question,
		  const struct rf_key *key, struct doctor_path *path,
		  const char *scheme, struct doctor_answer *answer)
{
	struct probe probe = { .answer = answer };
	const enum rf_log_level level = rf_log_get_level();
	uint64_t began_ns;
	int err;

	*answer = (struct doctor_answer){ .was_tried = true };
	snprintf(answer->scheme, sizeof(answer->scheme), "%s", scheme);
	/* What goes wrong becomes a finding. */
	rf_log_set_level(RF_LOG_ERROR);
	err = open_probe(&probe, scheme, path, &question->tuning);
	began_ns = rf_now_ns();
	if (!err) {
		answer->level = rf_fabric_level(probe.fabric);
		err = say_hello(&probe, path, key, question->timeo_ms);
	}
	answer->elapsed_us = (uint32_t)rf_min_u64(
		(rf_now_ns() - began_ns) / 1000, UINT32_MAX);
	close_probe(&probe);
	rf_log_set_level(level);
	answer->err = err;
	answer->was_answered = err == 0 || (answer->reason[0] &&
					    is_said_by_server(err));
	if (err == -ENOENT && answer->was_answered && !path->target.export[0])
		answer->err = 0;
}

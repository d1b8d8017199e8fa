/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect.c - from a host's name to an open session; what to do if it fails
 *
 * Operation.  Each address of the host is tried in turn, over verbs where a
 * device routes there and then over iwarp, unless one was asked for by name.
 * The arena is made once; it is registered for each fabric that is tried.  A
 * server that answers and refuses ends the search: another address would say
 * the same.
 *
 * When it fails.  One line on stderr: what failed, and what to do.
 */
#include "fs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <unistd.h>
#include <uuid/uuid.h>

enum {
	CONTROL_SLOTS = 8,
	SERVER_MSGS = 32,
	/* A server that lives answers probes in microseconds.  Lower, a
	 * machine that is merely slow would be taken for dead. */
	KEEPALIVE_MS = 10000,
	/* A first message that siw overlooks is never answered (FABRIC.md): well
	 * before mount_timeo ends, and long for a server that is alive. */
	ANSWER_MS = 2000,
	/* A request that got lost is sent again after 4 s by rdma_cm. */
	RECONNECT_MS = 10000,
	OPS_MAX = 8192,			/* of the poller */
	SMALL_SHARE = 8,		/* one 8th of the arena for read-ahead */
	SMALL_LEAST = 8,		/* buffers */
	DATA_LEAST = 8,
	MSG_EXTRA = 32,			/* READs of up to 8 KiB live there too */
	/* 1 MiB must go in few enough one-sided operations. */
	RDMA_SIZE_LEAST = DATA_MAX / (WORKS_MAX - RF_GRANTS_MAX) + 4096,
};

/* ---- the arena ------------------------------------------------------------ */

static uint32_t msg_max_of(const struct fs *fs)
{
	return fs->options.inline_max + RF_MSG_OVERHEAD;
}

static int create_pool(struct fs *fs)
{
	const struct mount_options *options = &fs->options;
	uint32_t msg_size = (uint32_t)rf_align_up(
		rf_max_u64(msg_max_of(fs), 8192), 4096);
	uint32_t messages = options->slots + CONTROL_SLOTS + SERVER_MSGS +
			    REQUESTS_TOTAL + RECLAIM_CALLS + MSG_EXTRA;
	uint64_t small = options->memory / SMALL_SHARE / SMALL_BUF_SIZE;
	uint64_t taken, large;
	struct rf_pool_config config = {
		.name = "mount",
		.class_count = 3,
		.wants_huge_pages = options->wants_huge_pages,
	};

	small = rf_max_u64(small, SMALL_LEAST);
	taken = (uint64_t)messages * msg_size + small * SMALL_BUF_SIZE;
	large = options->memory > taken ?
			(options->memory - taken) / DATA_BUF_SIZE : 0;
	config.classes[0] = (struct rf_pool_class){ msg_size, messages };
	config.classes[1] = (struct rf_pool_class){ SMALL_BUF_SIZE,
						    (uint32_t)small };
	config.classes[2] = (struct rf_pool_class){
		DATA_BUF_SIZE, (uint32_t)rf_max_u64(large, DATA_LEAST) };
	return rf_pool_create(&config, &fs->pool);
}

/* ---- one attempt ---------------------------------------------------------- */

static void take_session(struct fs *fs)
{
	fs->limits = *rf_client_limits(fs->client);
	fs->has_crc = (rf_client_features(fs->client) & RF_FEATURE_DATA_CRC) != 0;
}

static void take_limits(struct fs *fs, const struct rf_hello_reply *reply)
{
	take_session(fs);
	fs->keep->grant_ms = reply->grant_ms;
	fs->has_windows = !(reply->flags & RF_HELLO_NO_WINDOWS);
	fs->lease_ms = reply->lease_ms;
}

static bool is_same_export(const struct fs *fs,
			   const struct rf_hello_reply *reply)
{
	return reply->root.inode == fs->keep->root.inode &&
	       reply->root.tree == fs->keep->root.tree;
}

static void opened(struct rf_client *client, const struct rf_hello_reply *reply)
{
	struct fs *fs = rf_client_context(client);

	if (fs->is_open && !is_same_export(fs, reply)) {
		fs->is_other_export = true;
		rf_client_drop(client, -EREMCHG, "the export of this name is "
			       "another directory now than the one mounted");
		return;
	}
	fs->client = client;
	take_limits(fs, reply);
	if (fs->is_open) {
		reclaim_start(fs, true, true);
		return;
	}
	fs->keep->root = reply->root;
	fs->keep->root_attr = reply->root_attr;
	fs->is_open = true;
}

static void resumed(struct rf_client *client,
		    const struct rf_resume_reply *reply)
{
	struct fs *fs = rf_client_context(client);

	/* Of a server that was started with other options, too. */
	fs->keep->grant_ms = reply->grant_ms;
	fs->lease_ms = reply->lease_ms;
	fs->has_windows = !(reply->flags & RF_HELLO_NO_WINDOWS);
	reclaim_start(fs, (reply->flags & RF_RESUME_RESTARTED) != 0, false);
}

static void lost(struct rf_client *client, int err, const char *reason)
{
	reconnect_lost(rf_client_context(client), err, reason);
}

static void closed(struct rf_client *client, int err, const char *reason)
{
	struct fs *fs = rf_client_context(client);

	fs->client = NULL;
	fs->close_err = err;
	snprintf(fs->close_reason, sizeof(fs->close_reason), "%s", reason);
}

static const struct rf_client_events events = {
	.opened = opened,
	.closed = closed,
	.lost = lost,
	.resumed = resumed,
};

static void fill_hello(const struct fs *fs, struct rf_hello *hello)
{
	const struct mount_options *options = &fs->options;

	/* A read-only mount is the kernel's business: it may become another. */
	hello->flags = 0;
	if (!options->no_crc &&
	    !(fs->way.fabric && rf_fabric_traits(fs->way.fabric)->checks_data))
		hello->features = RF_FEATURE_DATA_CRC;
	hello->limits = (struct rf_hello_limits){
		.inline_max = options->inline_max,
		.msg_max = msg_max_of(fs),
		.slots = options->slots,
		.control_slots = CONTROL_SLOTS,
		.server_msgs = SERVER_MSGS,
		.channels = 1,
		.write_slots = options->write_slots,
		.block_max = DATA_MAX,
	};
	uuid_generate_random(hello->client_uuid);
	if (gethostname(hello->host, sizeof(hello->host) - 1) < 0)
		snprintf(hello->host, sizeof(hello->host), "?");
	snprintf(hello->export, sizeof(hello->export), "%s", options->export);
}

/* Turns until the session is open or the client gone. */
static int await_open(struct fs *fs)
{
	while (fs->client && !fs->is_open)
		rf_reactor_turn(fs->reactor, -1);
	if (fs->is_open && fs->client)
		return 0;
	return fs->close_err ? fs->close_err : -ECONNRESET;
}

static void fill_config(struct fs *fs, struct rf_client_config *config)
{
	*config = (struct rf_client_config){
		.reactor = fs->reactor,
		.poller = fs->way.poller,
		.pd = fs->way.pd,
		.mr = fs->way.mr,
		.pool = fs->pool,
		.key = fs->keep->key,
		.answer_ms = ANSWER_MS,
		.keepalive_ms = KEEPALIVE_MS,
		/* All works of a request and its message go in one batch. */
		.send_depth = (uint16_t)rf_max_u64(fs->options.send_depth,
						   WORKS_MAX + 1),
		.reads_out = fs->options.read_depth,
		.kept = &fs->keep->session,
	};
	fill_hello(fs, &config->hello);
}

/* On one connection after the other, until one is answered. */
static int open_client(struct fs *fs, const struct addrinfo *address,
		       uint32_t setup_ms)
{
	const uint64_t end_ns = rf_now_ns() + setup_ms * UINT64_C(1000000);
	struct rf_client_config config;
	uint64_t now_ns;
	int err;

	/* One UUID for all: a session that was opened late ends then. */
	fill_config(fs, &config);
	config.setup_ms = setup_ms;
	memcpy(&config.address, address->ai_addr, address->ai_addrlen);
	config.address_size = address->ai_addrlen;
	for (;;) {
		fs->close_err = 0;
		fs->close_reason[0] = '\0';
		err = rf_client_open(&config, &events, fs, &fs->client);
		if (!err)
			err = await_open(fs);
		now_ns = rf_now_ns();
		/* EBUSY: the server has waited for another session's end. */
		if ((err != -EAGAIN && err != -EBUSY) || now_ns >= end_ns)
			return err == -EAGAIN ? -ETIMEDOUT : err;
		rf_log(RF_LOG_DEBUG, "%s; on another connection",
		       fs->close_reason);
		config.setup_ms = (uint32_t)rf_max_u64(
			(end_ns - now_ns) / 1000000, 1);
		if (err == -EAGAIN)
			config.answer_ms *= 2;
	}
}

void connect_close_way(struct way *way)
{
	if (way->mr)
		rf_mr_deregister(way->mr);
	if (way->poller)
		rf_poller_destroy(way->poller);
	if (way->pd)
		rf_pd_destroy(way->pd);
	if (way->fabric)
		rf_fabric_close(way->fabric);
	*way = (struct way){ .fabric = NULL };
}

void connect_fini(struct fs *fs)
{
	if (fs->way.poller)
		rf_reactor_remove_poller(fs->reactor, fs->way.poller);
	connect_close_way(&fs->way);
}

static int tune_fabric(const struct mount_options *options,
		       struct rf_fabric *fabric)
{
	const struct rf_tuning tuning = {
		.cq_count = options->cq_count,
		.cq_us = options->cq_usec,
		.traffic_class = options->tos,
		.gid_index = options->gid_index,
		.source = options->from,
	};

	if (strcmp(rf_fabric_scheme(fabric), "verbs") == 0 &&
	    !rf_fabric_traits(fabric)->moderates_events)
		rf_log(RF_LOG_DEBUG, "this device does not moderate completion "
		       "events: cq_count and cq_usec have no effect, and an "
		       "event tells of what has gathered before we look");
	return rf_fabric_tune(fabric, &tuning);
}

/* After an error something may be open. */
static int fill_way(const struct fs *fs, const char *uri, struct way *way)
{
	bool is_iwarp = strcmp(uri, "iwarp://") == 0;
	int err = rf_fabric_open(fs->options.no_crc && is_iwarp ?
				 "iwarp://?crc=0" : uri, &way->fabric);

	if (!err)
		err = tune_fabric(&fs->options, way->fabric);
	if (!err)
		err = rf_pd_create(way->fabric, &way->pd);
	if (!err)
		err = rf_pool_register(fs->pool, way->pd,
				       RF_LOCAL_WRITE | RF_READ_SINK, &way->mr);
	if (!err)
		err = rf_poller_create(way->fabric, OPS_MAX, &way->poller);
	if (!err && (rf_fabric_limits(way->fabric)->rdma_size_max <
			     RDMA_SIZE_LEAST ||
		     rf_fabric_limits(way->fabric)->send_depth_max <=
			     WORKS_MAX))
		err = -EOPNOTSUPP;
	if (!err)
		way->read_block = fs->options.read_block ?
			fs->options.read_block :
			rf_fabric_limits(way->fabric)->read_block;
	return err;
}

int connect_open_way(const struct fs *fs, const char *uri, struct way *way)
{
	int err;

	*way = (struct way){ .fabric = NULL };
	err = fill_way(fs, uri, way);
	if (err)
		connect_close_way(way);
	return err;
}

/* The way is ours, or closed. */
static int use_way(struct fs *fs, struct way *way, const char *uri)
{
	int err = rf_reactor_add_poller(fs->reactor, way->poller);

	if (err) {
		connect_close_way(way);
		return err;
	}
	fs->way = *way;
	/* A successor opens what is there. */
	if (uri != fs->keep->fabric_uri)
		snprintf(fs->keep->fabric_uri, sizeof(fs->keep->fabric_uri),
			 "%s", uri);
	return 0;
}

static int open_fabric(struct fs *fs, const char *uri)
{
	struct way way;
	int err = connect_open_way(fs, uri, &way);

	return err ? err : use_way(fs, &way, uri);
}

/* Over one scheme.  -ENETUNREACH: it has no device for this address. */
static int try_scheme(struct fs *fs, const char *scheme,
		      const struct addrinfo *address, uint32_t setup_ms)
{
	const struct sockaddr *from = fs->options.from.ss_family ?
		(const struct sockaddr *)&fs->options.from : NULL;
	char uri[WAY_URI_SIZE];
	int err;

	fs->close_reason[0] = '\0';
	if (from && from->sa_family != address->ai_family)
		return -ENETUNREACH;
	err = rf_fabric_route_from(scheme, from, address->ai_addr,
				   address->ai_addrlen, uri, sizeof(uri));
	if (err)
		return err;
	err = open_fabric(fs, uri);
	if (!err)
		err = open_client(fs, address, setup_ms);
	if (err) {
		connect_fini(fs);
		return err;
	}
	rf_log(RF_LOG_INFO, "connected to %s over %s", fs->server,
	       rf_fabric_scheme(fs->way.fabric));
	return 0;
}

/* Nobody was there to say anything. */
static bool is_unreached(int err)
{
	switch (err) {
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -ETIMEDOUT:
	case -EHOSTDOWN:
	case -EHOSTUNREACH:
	case -ENETDOWN:
	case -ENETUNREACH:
	case -ENODEV:
		return true;
	default:
		return false;
	}
}

/* The server said no itself; another way to it would not help. */
static bool was_refused(const struct fs *fs, int err)
{
	return fs->close_reason[0] && !is_unreached(err);
}

static int try_address(struct fs *fs, const struct addrinfo *address,
		       uint32_t setup_ms)
{
	int err;

	if (fs->options.scheme[0])
		return try_scheme(fs, fs->options.scheme, address, setup_ms);
	err = try_scheme(fs, "verbs", address, setup_ms / 2);
	if (err == 0 || was_refused(fs, err) || err == -EADDRNOTAVAIL)
		return err;
	return try_scheme(fs, "iwarp", address, setup_ms);
}

/* ---- why not -------------------------------------------------------------- */

static void complain_host(const struct fs *fs, int gai)
{
	complain("%s: %s; check the name, or use an address", fs->options.host,
		 gai_strerror(gai));
}

static void complain_key(const struct fs *fs, int err)
{
	const char *file = fs->options.key_file;

	switch (err) {
	case -EPERM:
		complain("others may read the key file %s: chmod 600 it", file);
		break;
	case -EINVAL:
		complain("%s is no key file; rdmafs keygen makes one", file);
		break;
	default:
		complain("can't read the key file %s: %s", file,
			 strerror(-err));
	}
}

static void complain_refused(const struct fs *fs, int err)
{
	const struct mount_options *options = &fs->options;
	const char *server = fs->server;
	const char *reason = fs->close_reason[0] ? fs->close_reason :
						   strerror(-err);

	switch (err) {
	case -EKEYREJECTED:
		complain("%s and we have different keys (%s): use the server's "
			 "key file", server, reason);
		break;
	case -ENOKEY:
		complain("%s wants a key: give -o key=FILE (%s)", server,
			 reason);
		break;
	case -ENOENT:
		complain("%s has no export %s: see its --export options (%s)",
			 server, options->export, reason);
		break;
	case -EACCES:
		complain("%s does not let this host use %s: add its address to "
			 "the export's allowed networks (%s)", server,
			 options->export, reason);
		break;
	case -EPROTONOSUPPORT:
		complain("%s and we have no protocol version in common: update "
			 "one of them (%s)", server, reason);
		break;
	case -EPROTO:
		complain("what listens on %s is no rdmafs server (%s): check "
			 "the port", server, reason);
		break;
	case -EUSERS:
		complain("%s has too many sessions: try later, or raise its "
			 "limit (%s)", server, reason);
		break;
	default:
		complain("can't open a session with %s: %s", server, reason);
	}
}

static void complain_unreachable(const struct fs *fs, int err)
{
	const struct mount_options *options = &fs->options;

	switch (err) {
	case -ECONNREFUSED:
		complain("nobody listens on %s: is rdmafsd running there, on "
			 "this port?", fs->server);
		break;
	case -ETIMEDOUT:
		complain("no answer from %s in %" PRIu32 " ms: check host, "
			 "port and firewall, or raise mount_timeo", fs->server,
			 options->mount_timeo_ms);
		break;
	case -ENODEV:
	case -ENETUNREACH:
		complain("no %s device has a route to %s%s",
			 options->scheme[0] ? options->scheme : "iwarp",
			 fs->server, options->scheme[0] ?
			 ": leave the scheme out to use what there is" : "");
		break;
	case -ENETDOWN:
		complain("the link of the device that leads to %s is down: "
			 "check cable, switch and network device", fs->server);
		break;
	case -EADDRNOTAVAIL:
		/* What is wrong with a GID index, the fabric has said. */
		if (options->gid_index < 0)
			complain("can't connect to %s from this source: it is "
				 "no address of this host", fs->server);
		break;
	case -EOPNOTSUPP:
		complain("can't use %s to reach %s: %s", options->scheme[0] ?
			 options->scheme : "iwarp", fs->server,
			 options->gid_index >= 0 ?
			 "gid_index is for RoCE devices; use source=ADDRESS" :
			 "the device is too small");
		break;
	case -ENOMEM:
		complain("can't get %" PRIu64 " MiB of registered memory: "
			 "raise the memlock limit (ulimit -l), or lower memory",
			 options->memory >> 20);
		break;
	default:
		complain_refused(fs, err);
	}
}

/* ---- all attempts --------------------------------------------------------- */

int connect_look_up(const struct mount_options *options, struct addrinfo **out)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_NUMERICSERV };
	char port[8];

	snprintf(port, sizeof(port), "%u", options->port);
	return getaddrinfo(options->host, port, &hints, out);
}

static int resolve(struct fs *fs, struct addrinfo **out)
{
	int gai = connect_look_up(&fs->options, out);

	if (gai == 0)
		return 0;
	complain_host(fs, gai);
	return -EHOSTUNREACH;
}

/* Another address would not help. */
static bool is_final(const struct fs *fs, int err)
{
	return err == 0 || err == -ENOMEM || was_refused(fs, err);
}

static int try_all(struct fs *fs, const struct addrinfo *addresses)
{
	const uint64_t end_ns = rf_now_ns() +
				fs->options.mount_timeo_ms *
					UINT64_C(1000000);
	const struct addrinfo *at;
	unsigned int left = 0;
	int err = -EHOSTUNREACH;

	for (at = addresses; at && left < MOUNT_ADDRESSES_MAX; at = at->ai_next)
		left++;
	for (at = addresses; left > 0; at = at->ai_next, left--) {
		uint64_t now_ns = rf_now_ns();

		if (now_ns >= end_ns)
			return -ETIMEDOUT;
		err = try_address(fs, at, (uint32_t)rf_max_u64(
			(end_ns - now_ns) / 1000000 / left, 1));
		if (is_final(fs, err))
			return err;
	}
	return err;
}

static void name_server(struct fs *fs)
{
	const struct mount_options *options = &fs->options;

	snprintf(fs->server, sizeof(fs->server),
		 strchr(options->host, ':') ? "[%s]:%u" : "%s:%u",
		 options->host, options->port);
}

int connect_session(struct fs *fs)
{
	const struct mount_options *options = &fs->options;
	struct addrinfo *addresses;
	int err;

	name_server(fs);
	if (options->key_file[0]) {
		err = rf_key_load(options->key_file, &fs->keep->key);
		if (err) {
			complain_key(fs, err);
			return err;
		}
	}
	err = resolve(fs, &addresses);
	if (err)
		return err;
	err = create_pool(fs);
	if (!err)
		err = try_all(fs, addresses);
	freeaddrinfo(addresses);
	if (err)
		complain_unreachable(fs, err);
	return err;
}

int connect_restore(struct fs *fs)
{
	struct rf_client_config config;
	int err = create_pool(fs);

	name_server(fs);
	/* Without its device it goes on when that is back: reconnect.c. */
	if (!err && open_fabric(fs, fs->keep->fabric_uri) != 0)
		rf_log(RF_LOG_WARN, "%s can't be used now", fs->keep->fabric_uri);
	if (!err) {
		fill_config(fs, &config);
		config.setup_ms = fs->options.mount_timeo_ms;
		err = rf_client_restore(&config, &events, fs, &fs->client);
	}
	if (err) {
		complain("can't go on with the session of %s: %s", fs->server,
			 strerror(-err));
		return err;
	}
	take_session(fs);
	fs->is_open = fs->is_away = true;
	return 0;
}

/* ---- once more ------------------------------------------------------------ */

int connect_route(const struct fs *fs, const struct addrinfo *address,
		  char uri[WAY_URI_SIZE])
{
	const struct sockaddr *from = fs->options.from.ss_family ?
		(const struct sockaddr *)&fs->options.from : NULL;
	char scheme[WAY_URI_SIZE];

	if (from && from->sa_family != address->ai_family)
		return -ENETUNREACH;
	snprintf(scheme, sizeof(scheme), "%.*s",
		 (int)strcspn(fs->keep->fabric_uri, ":"), fs->keep->fabric_uri);
	return rf_fabric_route_from(scheme, from, address->ai_addr,
				    address->ai_addrlen, uri, WAY_URI_SIZE);
}

int connect_move(struct fs *fs, struct way *way, const char *uri)
{
	int err = use_way(fs, way, uri);

	if (err)
		return err;
	err = rf_client_move(fs->client, fs->way.poller, fs->way.pd,
			     fs->way.mr);
	if (err)
		connect_fini(fs);
	return err;
}

int connect_again(struct fs *fs, const struct addrinfo *address)
{
	struct sockaddr_storage to = { 0 };

	memcpy(&to, address->ai_addr, address->ai_addrlen);
	return rf_client_reconnect(fs->client, &to, address->ai_addrlen,
				   RECONNECT_MS);
}

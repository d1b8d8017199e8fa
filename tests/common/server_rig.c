/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/common/server_rig.h"

#include "libproto/loop.h"
#include "storage-server/store_impl.h"
#include "tests/common/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	SEND_DEPTH = 128,
	READS_OUT = 16,
	MSG_BUF = 40960,
	MSG_BUFS = 2048,
	HELLO_BUFS = 1024,
	DATA_SIZE = 1 << 20,
	TURN_MS = 20,
	SLOTS = 16,
	SOON_NS = 10000000,
	SYNC_POLL_US = 50,
	FEWER = 4,		/* buffers, where servers are small */
};

/* ---- the server --------------------------------------------------------- */

void srig_set(struct srig *rig, const char *key, const char *value)
{
	cr_assert_eq(config_set(&rig->config, "test", key, value), 0);
}

/* As the conformance suite is told: fabric_rig.h. */
static const char *device_uri(void)
{
	return getenv("RF_CONFORMANCE_VERBS");
}

bool srig_has_device(enum rf_level level)
{
	struct rf_fabric *fab;
	bool has;

	if (!device_uri() || rf_fabric_open(device_uri(), &fab))
		return false;
	has = rf_fabric_level(fab) == level;
	rf_fabric_close(fab);
	return has;
}

static void choose_device(struct srig *rig)
{
	const char *address = getenv("RF_CONFORMANCE_ADDR");
	char listen[96];

	cr_assert_not_null(address);
	snprintf(listen, sizeof(listen), "verbs://%s", address);
	srig_set(rig, "listen", listen);
	srig_set(rig, "insecure", "yes");
	snprintf(rig->uri, sizeof(rig->uri), "%s", device_uri());
	rig->has_no_windows = srig_has_device(RF_LEVEL_SESSION);
}

/* In memory where many servers come and go: no test of the disk. */
static void make_dir(const struct srig *rig, char dir[SRIG_DIR_SIZE])
{
	snprintf(dir, SRIG_DIR_SIZE, "%s/rdmafs-server-XXXXXX",
		 rig->is_virtual && access("/dev/shm", W_OK) == 0 ? "/dev/shm"
								  : "/tmp");
	cr_assert_not_null(mkdtemp(dir));
}

/* Small, because it is started often. */
static void make_virtual(struct srig *rig)
{
	srig_set(rig, "workers", "0");
	srig_set(rig, "sessions", "4");
	srig_set(rig, "slots", "8");
	srig_set(rig, "greeters", "4");
	srig_set(rig, "staging", "5M");
	srig_set(rig, "session-staging", "4M");
}

void srig_init(struct srig *rig, const char *scheme)
{
	memset(rig, 0, sizeof(*rig));
	rig->has_no_windows = strcmp(scheme, "loop-session") == 0;
	rig->is_virtual = strcmp(scheme, "loop-virtual") == 0;
	rig->is_loop = rig->has_no_windows || rig->is_virtual ||
		       strcmp(scheme, "loop") == 0;
	make_dir(rig, rig->dir);
	cr_assert_eq(config_init(&rig->config), 0);
	snprintf(rig->uri, sizeof(rig->uri), "%s", rig->is_loop ?
		 "loop://rdmafs" : "iwarp://");
	if (strcmp(scheme, "verbs") == 0)
		choose_device(rig);
	else
		srig_set(rig, "listen", rig->is_loop ? "loop://127.0.0.1:20490"
						     : "iwarp://127.0.0.1:0");
	srig_set(rig, "store", rig->dir);
	srig_set(rig, "export", "data=/");
	srig_set(rig, "staging", "16M");
	srig_set(rig, "session-staging", "8M");
	srig_set(rig, "sessions", "8");
	srig_set(rig, "log-level", "error");
	if (rig->is_loop)
		srig_set(rig, "insecure", "yes");
	if (rig->is_virtual)
		make_virtual(rig);
	rf_log_set_level(getenv("RF_VERBOSE") ? RF_LOG_DEBUG : RF_LOG_ERROR);
}

static void open_fabric(struct srig *rig)
{
	const unsigned int share = rig->is_virtual ? FEWER : 1;
	const struct rf_pool_config config = {
		.name = "test clients",
		.classes = { { 4096, HELLO_BUFS / share },
			     { MSG_BUF, MSG_BUFS / share },
			     { DATA_SIZE, SRIG_DATA_BUFS / share } },
		.class_count = 3,
	};

	if (rig->is_loop) {
		rig->world = rf_loop_world_get("rdmafs");
		cr_assert_not_null(rig->world);
		rf_loop_set_reorder(rig->world, true);
		rf_loop_set_scribble(rig->world, true);
		if (rig->has_no_windows)
			rf_loop_set_level(rig->world, RF_LEVEL_SESSION);
	}
	cr_assert_eq(rf_fabric_open(rig->uri, &rig->fab), 0);
	cr_assert_eq(rf_pd_create(rig->fab, &rig->pd), 0);
	cr_assert_eq(rf_pool_create(&config, &rig->pool), 0);
	cr_assert_eq(rf_pool_register(rig->pool, rig->pd,
				      RF_LOCAL_WRITE | RF_READ_SINK, &rig->mr),
		     0);
	cr_assert_eq(rf_poller_create(rig->fab, 65536, &rig->poller), 0);
	cr_assert_eq(rf_reactor_add_poller(rig->reactor, rig->poller), 0);
}

/* A kill does not clean up: copies keep the holes of files as they are. */
static void take_remains(struct srig *rig)
{
	char command[256];

	make_dir(rig, rig->remains);
	snprintf(command, sizeof(command), "cp -a %s/. %s", rig->dir,
		 rig->remains);
	cr_assert_eq(system(command), 0, "%s", command);
}

static void before_flush(struct rf_hook *hook)
{
	struct srig *rig = rf_container_of(hook, struct srig, before_flush);

	if (!rig->server || rig->is_dying || !rig->dies_if ||
	    !rig->dies_if(rig))
		return;
	take_remains(rig);
	rig->is_dying = true;
}

static uint64_t world_clock(void *context)
{
	return rf_loop_now_ns(context);
}

void srig_start(struct srig *rig)
{
	if (!rig->reactor) {
		cr_assert_eq(rf_reactor_create(&rig->reactor), 0);
		open_fabric(rig);
	}
	if (rig->is_virtual && !rig->before_flush.run) {
		rf_reactor_set_clock(rig->reactor, world_clock, rig->world);
		rig->before_flush.run = before_flush;
		rf_hook_add(rig->reactor, &rig->before_flush);
	}
	cr_assert_eq(config_check(&rig->config), 0);
	cr_assert_eq(server_create(&rig->config, rig->reactor, &rig->server),
		     0);
}

void srig_open(struct srig *rig, const char *scheme)
{
	srig_init(rig, scheme);
	srig_start(rig);
}

static bool virtual_turn(struct srig *rig)
{
	uint64_t event_ns, due_ns, now_ns;

	if (rf_reactor_turn(rig->reactor, 0))
		return true;
	/* The one thread that is not the reactor's: time waits for it. */
	if (rig->server && rig->server->store &&
	    rig->server->store->sync.pending > 0) {
		usleep(SYNC_POLL_US);
		return true;
	}
	event_ns = rf_loop_next_ns(rig->world);
	due_ns = rf_reactor_next_due_ns(rig->reactor);
	now_ns = rf_loop_now_ns(rig->world);
	if (event_ns <= due_ns)
		return rf_loop_step(rig->world);
	if (due_ns > now_ns)
		rf_loop_advance(rig->world, due_ns - now_ns);
	return true;
}

bool srig_turn(struct srig *rig)
{
	uint64_t next_ns;

	if (rig->is_virtual)
		return virtual_turn(rig);
	if (!rig->is_loop)
		return rf_reactor_turn(rig->reactor, TURN_MS);
	if (rf_reactor_turn(rig->reactor, 0))
		return true;
	/*
	 * Workers run in real time: while all waits for them, the world's time
	 * must not leap on to a keep-alive or time-out.
	 */
	next_ns = rf_loop_next_ns(rig->world);
	if (next_ns < rf_loop_now_ns(rig->world) + SOON_NS)
		return rf_loop_step(rig->world);
	return rf_reactor_turn(rig->reactor, TURN_MS);
}

void srig_stop(struct srig *rig)
{
	server_stop(rig->server, NULL);
	srig_until(rig, rig->server->is_stopped);
	cr_assert_eq(srig_staging_free(rig), srig_staging_total(rig),
		     "staging memory was lost");
	cr_assert_eq(rf_pool_report_lent(rig->server->pool), 0);
	server_destroy(rig->server);
	rig->server = NULL;
}

void srig_kill(struct srig *rig)
{
	cr_assert(rig->is_virtual);
	if (!rig->is_dying)
		take_remains(rig);
	rig->is_dying = false;
	rig->dies_if = NULL;
	rig->kills++;
	/* Nobody hears anything more of it while it is taken down. */
	rf_loop_cut(rig->world, NULL, NULL, RF_LOOP_CUT_RESET);
	rf_loop_refuse_connects(rig->world, true);
	srig_stop(rig);
	rf_loop_refuse_connects(rig->world, false);
	scratch_remove(rig->dir);
	snprintf(rig->dir, sizeof(rig->dir), "%s", rig->remains);
	snprintf(rig->config.store, sizeof(rig->config.store), "%s", rig->dir);
}

void srig_close(struct srig *rig)
{
	if (rig->server)
		srig_stop(rig);
	if (rig->before_flush.run)
		rf_hook_remove(rig->reactor, &rig->before_flush);
	rf_reactor_remove_poller(rig->reactor, rig->poller);
	rf_poller_destroy(rig->poller);
	rf_mr_deregister(rig->mr);
	rf_pd_destroy(rig->pd);
	cr_assert_eq(rf_pool_report_lent(rig->pool), 0);
	rf_pool_destroy(rig->pool);
	rf_fabric_close(rig->fab);
	if (rig->world)
		rf_loop_world_put(rig->world);
	rf_reactor_destroy(rig->reactor);
	config_fini(&rig->config);
	scratch_remove(rig->dir);
}

uint64_t srig_staging_total(const struct srig *rig)
{
	uint64_t total = 0;

	for (unsigned int i = 0; i < STAGING_CLASSES; i++)
		total += (uint64_t)rig->server->staging.classes[i].size *
			 rig->server->staging.classes[i].count;
	return total;
}

uint64_t srig_staging_free(const struct srig *rig)
{
	struct rf_pool_stats stats;
	uint64_t free = 0;

	rf_pool_stats(rig->server->pool, &stats);
	for (unsigned int i = 0; i < stats.class_count; i++)
		if (stats.classes[i].size >= STAGING_SMALL)
			free += (uint64_t)stats.classes[i].size *
				stats.classes[i].free;
	return free;
}

/* ---- clients ------------------------------------------------------------ */

static void on_opened(struct rf_client *client,
		      const struct rf_hello_reply *reply)
{
	struct sclient *self = rf_client_context(client);

	self->opened = true;
	self->reply = *reply;
	self->root = reply->root;
}

static void on_closed(struct rf_client *client, int err, const char *reason)
{
	struct sclient *self = rf_client_context(client);

	self->closed = true;
	self->client = NULL;
	self->err = err;
	snprintf(self->reason, sizeof(self->reason), "%s", reason);
}

void sclient_init(struct srig *rig, struct sclient *client, const char *export)
{
	struct rf_client_config *config = &client->config;

	memset(client, 0, sizeof(*client));
	client->rig = rig;
	*config = (struct rf_client_config){
		.reactor = rig->reactor,
		.poller = rig->poller,
		.pd = rig->pd,
		.mr = rig->mr,
		.pool = rig->pool,
		.setup_ms = 20000,
		.keepalive_ms = 20000,
		.send_depth = SEND_DEPTH,
		.reads_out = READS_OUT,
		.hello = {
			.features = RF_FEATURE_DATA_CRC,
			.limits = {
				.inline_max = 32768,
				.msg_max = 32768 + RF_MSG_OVERHEAD,
				.slots = SLOTS,
				.control_slots = 2,
				.server_msgs = 8,
				.channels = 1,
				.write_slots = 64,
				.block_max = 1 << 20,
			},
		},
	};
	cr_assert_eq(server_address(rig->server, 0, &config->address), 0);
	config->address_size = sizeof(config->address);
	snprintf(config->hello.host, sizeof(config->hello.host), "test");
	snprintf(config->hello.export, sizeof(config->hello.export), "%s",
		 export);
}

int sclient_try(struct sclient *client)
{
	static const struct rf_client_events events = {
		.opened = on_opened,
		.closed = on_closed,
	};

	int err = rf_client_open(&client->config, &events, client,
				 &client->client);

	if (!err)
		srig_until(client->rig, client->opened || client->closed);
	return err;
}

void sclient_connect(struct sclient *client)
{
	cr_assert_eq(sclient_try(client), 0);
}

static void add_identity(struct scall *call, uint16_t index, uint32_t id)
{
	const struct rf_args args = {
		.code = RF_OP_IDENTITY,
		.identity = { .index = index, .uid = id, .gid = id },
	};

	scall_add(call, &args);
}

void sclient_open(struct srig *rig, struct sclient *client, const char *export)
{
	struct scall *call = calloc(1, sizeof(*call));

	sclient_init(rig, client, export);
	sclient_connect(client);
	cr_assert(client->opened, "refused: %s", client->reason);
	scall_init(call, client);
	add_identity(call, 1, 0);
	add_identity(call, 2, 1000);
	scall_submit(call);
	scall_wait(call);
	cr_assert_eq(call->err, 0);
	cr_assert_eq(call->results[1].status, RF_ST_OK);
	free(call);
}

void sclient_bye(struct sclient *client)
{
	rf_client_bye(client->client);
	srig_until(client->rig, client->closed);
	cr_assert_eq(client->err, 0, "BYE: %s", strerror(-client->err));
}

struct session *sclient_session(const struct sclient *client)
{
	struct rf_list *pos;

	rf_list_for_each(pos, &client->rig->server->sessions) {
		struct session *session =
			rf_container_of(pos, struct session, link);

		if (session->id == client->reply.session)
			return session;
	}
	return NULL;
}

bool sclient_is_lost(const struct sclient *client)
{
	const struct session *session = sclient_session(client);

	return client->closed && (!session || !session->channel);
}

void sclient_lose(struct sclient *client)
{
	rf_client_abort(client->client);
	srig_until(client->rig, sclient_is_lost(client));
}

void sclient_cut(struct sclient *client)
{
	sclient_lose(client);
	if (sclient_session(client))
		session_expire(sclient_session(client), NULL);
}

/* ---- calls -------------------------------------------------------------- */

void scall_init(struct scall *call, struct sclient *client)
{
	memset(call, 0, sizeof(*call));
	call->client = client;
	call->call.msg = rf_pool_get(client->rig->pool, MSG_BUF);
	cr_assert_not_null(call->call.msg);
	rf_enc_init(&call->enc, call->call.msg->mem,
		    rf_client_limits(client->client)->msg_max);
}

void scall_return(struct scall *call, uint32_t grant_id)
{
	rf_enc_return(&call->enc, grant_id);
}

void scall_add(struct scall *call, const struct rf_args *args)
{
	rf_enc_args(&call->enc, args);
	cr_assert(!call->enc.overflowed);
}

void scall_fill(struct scall *call, const struct rf_grant *slot,
		struct rf_buf *data, uint32_t size)
{
	unsigned int i = call->call.work_count++;

	call->sges[i] = (struct rf_sge){ data->mem, size,
					 call->client->rig->mr };
	call->works[i] = (struct rf_work){
		.code = RF_WRITE,
		.sge = &call->sges[i],
		.sge_count = 1,
		.remote = { slot->addr, slot->rkey, size },
	};
	call->call.works = call->works;
}

static void on_done(struct rf_call *rf_call, int err, struct rf_dec *reply)
{
	struct scall *call = rf_container_of(rf_call, struct scall, call);
	struct rf_dec copy;

	call->done = true;
	call->err = err;
	rf_pool_put(rf_call->msg);
	if (err)
		return;
	cr_assert(reply->size <= sizeof(call->reply));
	memcpy(call->reply, reply->base, reply->size);
	cr_assert_eq(rf_dec_init(&copy, call->reply, reply->size), 0);
	for (call->count = 0; call->count < RF_OPS_MAX; call->count++) {
		int ret = rf_dec_results(&copy, &call->results[call->count]);

		if (ret == 0)
			break;
		cr_assert(ret > 0 || ret == -EOPNOTSUPP,
			  "malformed results: %d", ret);
	}
}

static void on_queued(struct rf_call *rf_call)
{
	rf_container_of(rf_call, struct scall, call)->queued = true;
}

void scall_submit(struct scall *call)
{
	struct rf_header header = { .type = RF_MSG_REQUEST };
	int size = rf_enc_finish(&call->enc, &header);

	cr_assert(size > 0);
	call->call.msg_size = (uint32_t)size;
	call->call.done = on_done;
	call->call.queued = on_queued;
	rf_client_submit(call->client->client, &call->call);
}

void scall_wait(struct scall *call)
{
	srig_until(call->client->rig, call->done);
}

unsigned int srun(struct sclient *client, struct scall *call, uint16_t identity,
		  const rf_handle_t *handle, const struct rf_args *args,
		  unsigned int count)
{
	const struct rf_args use = { .code = RF_OP_USE, .use = { *handle } };

	scall_init(call, client);
	scall_add(call, &use);
	for (unsigned int i = 0; i < count; i++)
		scall_add(call, &args[i]);
	call->call.identity = identity;
	scall_submit(call);
	scall_wait(call);
	cr_assert_eq(call->err, 0, "no answer: %s", strerror(-call->err));
	cr_assert(call->count > 0);
	if (call->results[call->count - 1].status == RF_ST_OK)
		cr_assert_eq(call->count, count + 1);
	return call->results[call->count - 1].status;
}

/* ---- whole moves -------------------------------------------------------- */

rf_handle_t smake(struct sclient *client, const char *name, uint32_t flags,
		  uint32_t *open)
{
	struct scall *call = malloc(sizeof(*call));
	rf_handle_t handle;
	unsigned int status;

	status = SRUN(client, call, 1, &client->root, {
		.code = RF_OP_CREATE,
		.create = { .name = sname(name), .mode = 0644,
			    .flags = flags } });
	cr_assert_eq(status, RF_ST_OK, "CREATE %s: %s", name,
		     rf_status_name(status));
	handle = SRES(call, 0, create).handle;
	*open = SRES(call, 0, create).open;
	free(call);
	return handle;
}

struct one_sided {
	struct rf_op op;
	bool done;
	int status;
};

static void one_sided_done(struct rf_op *op, int status)
{
	struct one_sided *self = rf_container_of(op, struct one_sided, op);

	self->done = true;
	self->status = status;
}

static int post_and_wait(struct sclient *client, struct rf_work work)
{
	struct one_sided self = { .op.done = one_sided_done };
	int err;

	work.op = &self.op;
	err = rf_client_post(client->client, &work, 1);
	if (err)
		return err;
	srig_until(client->rig, self.done);
	return self.status;
}

int sfetch(struct sclient *client, const struct rf_grant *grant, void *out)
{
	struct rf_buf *buf = rf_pool_get(client->rig->pool, DATA_SIZE);
	struct rf_sge sge = { NULL, grant->size, client->rig->mr };
	const struct rf_work work = {
		.code = RF_READ,
		.sge = &sge,
		.sge_count = 1,
		.remote = { grant->addr, grant->rkey, grant->size },
	};
	int err;

	cr_assert_not_null(buf);
	sge.addr = buf->mem;
	err = post_and_wait(client, work);
	if (!err)
		memcpy(out, buf->mem, grant->size);
	rf_pool_put(buf);
	return err;
}

int spoke(struct sclient *client, const struct rf_remote *remote)
{
	struct rf_buf *buf = rf_pool_get(client->rig->pool, DATA_SIZE);
	struct rf_sge sge = { NULL, remote->size, client->rig->mr };
	const struct rf_work work = {
		.code = RF_WRITE,
		.sge = &sge,
		.sge_count = 1,
		.remote = *remote,
	};
	int err;

	cr_assert_not_null(buf);
	memset(buf->mem, 0xee, remote->size);
	sge.addr = buf->mem;
	err = post_and_wait(client, work);
	rf_pool_put(buf);
	return err;
}

uint32_t sread(struct sclient *client, const rf_handle_t *handle, uint32_t open,
	       uint64_t offset, uint32_t size, void *out)
{
	struct scall *call = malloc(sizeof(*call));
	struct rf_read_results *results;
	uint32_t got = 0;
	unsigned int status;

	status = SRUN(client, call, 1, handle, {
		.code = RF_OP_READ,
		.read = { .open = open, .offset = offset, .size = size } });
	cr_assert_eq(status, RF_ST_OK, "READ: %s", rf_status_name(status));
	results = &SRES(call, 0, read);
	if (results->data.size) {
		memcpy(out, results->data.bytes, results->data.size);
		got = results->data.size;
	}
	for (unsigned int i = 0; i < results->grants.count; i++) {
		const struct rf_grant *grant = &results->grants.v[i];

		cr_assert_eq(sfetch(client, grant, (char *)out + got), 0);
		cr_assert_eq(grant->crc, rf_crc32c(0, (char *)out + got,
						   grant->size));
		got += grant->size;
		rf_client_return_grant(client->client, grant->id);
	}
	cr_assert_eq(got, results->size);
	free(call);
	return got;
}

static void nothing(struct rf_task *task)
{
	(void)task;
}

void sreturn(struct sclient *client, uint32_t grant_id)
{
	static struct rf_task task = { .run = nothing };

	rf_client_return_grant(client->client, grant_id);
	/* It leaves at the end of a turn, so let there be one. */
	rf_reactor_post(client->rig->reactor, &task);
	srig_turn(client->rig);
}

unsigned int sslots(struct sclient *client, unsigned int count, uint32_t size,
		    struct rf_grant *out)
{
	struct scall *call = malloc(sizeof(*call));
	unsigned int got;

	cr_assert_eq(SRUN(client, call, 1, &client->root, {
		.code = RF_OP_SLOTS,
		.slots = { .count = (uint16_t)count, .size = size } }),
		RF_ST_OK);
	got = SRES(call, 0, slots).slots.count;
	memcpy(out, SRES(call, 0, slots).slots.v, got * sizeof(*out));
	free(call);
	return got;
}

static unsigned int write_by_slot(struct sclient *client,
				  const rf_handle_t *handle,
				  struct rf_args *args, const void *data,
				  uint32_t size)
{
	struct rf_buf *buf = rf_pool_get(client->rig->pool, DATA_SIZE);
	struct scall *call = malloc(sizeof(*call));
	const struct rf_args use = { .code = RF_OP_USE, .use = { *handle } };
	struct rf_grant slot;
	unsigned int status;

	cr_assert_eq(sslots(client, 1, 1 << 20, &slot), 1);
	cr_assert(slot.size >= size);
	memcpy(buf->mem, data, size);
	args->write.pieces = (rf_pieces_t){ .count = 1, .v = {
		{ slot.id, size, rf_crc32c(0, data, size) } } };
	scall_init(call, client);
	scall_add(call, &use);
	scall_add(call, args);
	scall_fill(call, &slot, buf, size);
	if (!client->rig->has_no_windows)
		call->call.inv_key = slot.rkey;
	scall_submit(call);
	scall_wait(call);
	cr_assert_eq(call->err, 0);
	rf_pool_put(buf);
	status = call->results[call->count - 1].status;
	cr_assert_eq(SRES(call, 0, write).rearmed.count, 1);
	slot = SRES(call, 0, write).rearmed.v[0];
	free(call);

	struct scall *drop = malloc(sizeof(*drop));
	uint8_t id[4];

	rf_store_u32(id, slot.id);
	cr_assert_eq(SRUN(client, drop, 1, handle, {
		.code = RF_OP_DROP_SLOTS,
		.drop_slots = { .ids = { id, 4 } } }), RF_ST_OK);
	free(drop);
	return status;
}

unsigned int swrite(struct sclient *client, const rf_handle_t *handle,
		    uint32_t open, uint64_t offset, const void *data,
		    uint32_t size)
{
	struct rf_args args = {
		.code = RF_OP_WRITE,
		.write = { .open = open, .offset = offset },
	};
	struct scall *call;
	unsigned int status;

	if (size > rf_client_limits(client->client)->inline_max)
		return write_by_slot(client, handle, &args, data, size);
	call = malloc(sizeof(*call));
	args.write.data = (rf_blob_t){ data, size };
	status = srun(client, call, 1, handle, &args, 1);
	free(call);
	return status;
}

void spattern(void *out, size_t size, uint64_t seed)
{
	uint8_t *bytes = out;

	for (size_t i = 0; i < size; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		bytes[i] = (uint8_t)(seed >> 56);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/common/fault_client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum {
	RETRY_MS = 10,
	RETRIES_MAX = 2000,		/* longer than any grace period here */
	DATA_BUF = 1 << 20,
	IDENTITY = 1,			/* root */
	PAIRS_MAX = 512,		/* of a listing, to be sorted */
};

/* ---- the session -------------------------------------------------------- */

static struct fclient *of_client(struct rf_client *client)
{
	return rf_container_of((struct sclient *)rf_client_context(client),
			       struct fclient, base);
}

static void retry(struct rf_timer *timer)
{
	struct fclient *client = rf_container_of(timer, struct fclient, retry);
	struct srig *rig = client->base.rig;

	cr_assert_lt(client->tries++, RETRIES_MAX, "it can't come back");
	if (rf_client_reconnect(client->base.client,
				&client->base.config.address,
				client->base.config.address_size,
				client->base.config.setup_ms))
		rf_timer_start(rig->reactor, timer, RETRY_MS);
}

static void on_opened(struct rf_client *rf, const struct rf_hello_reply *reply)
{
	struct fclient *client = of_client(rf);

	client->base.opened = true;
	client->base.reply = *reply;
	client->base.root = reply->root;
	client->connection = 1;
}

static void on_closed(struct rf_client *rf, int err, const char *reason)
{
	struct fclient *client = of_client(rf);

	client->base.closed = true;
	client->base.client = NULL;
	client->base.err = err;
	snprintf(client->base.reason, sizeof(client->base.reason), "%s",
		 reason);
}

static void on_lost(struct rf_client *rf, int err, const char *reason)
{
	struct fclient *client = of_client(rf);
	struct srig *rig = client->base.rig;

	client->slot_count = 0;
	client->phase = FC_AWAY;
	if (client->is_calling &&
	    rf_client_retract(rf, &client->call->call)) {
		rf_pool_put(client->call->call.msg);
		client->is_calling = false;
	}
	if (err == -ESTALE) {
		snprintf(client->base.reason, sizeof(client->base.reason),
			 "%s", reason);
		client->is_over = true;
		rf_client_forget(rf);
		rf_client_abort(rf);
		return;
	}
	client->retry.fire = retry;
	rf_timer_start(rig->reactor, &client->retry, RETRY_MS);
}

static void begin_call(struct fclient *client)
{
	scall_init(client->call, &client->base);
	client->call->call.is_control = true;
	client->is_calling = true;
}

static void register_identity(struct fclient *client)
{
	const struct rf_args args = { .code = RF_OP_IDENTITY,
				      .identity = { .index = IDENTITY } };

	client->phase = FC_IDENTITIES;
	begin_call(client);
	scall_add(client->call, &args);
	scall_submit(client->call);
}

static bool makes_open(const struct fop *fop)
{
	for (unsigned int i = 0; i < fop->count; i++)
		if (fop->args[i].code == RF_OP_OPEN ||
		    fop->args[i].code == RF_OP_CREATE)
			return true;
	return false;
}

static void on_resumed(struct rf_client *rf,
		       const struct rf_resume_reply *reply)
{
	struct fclient *client = of_client(rf);

	client->connection++;
	client->resumes++;
	client->tries = 0;
	client->is_restarted = reply->flags & RF_RESUME_RESTARTED;
	client->restarts += client->is_restarted;
	for (unsigned int i = 0; i < FC_FOPS_MAX; i++)
		if (client->fops[i])
			client->fops[i]->may_open = makes_open(client->fops[i]);
	register_identity(client);
}

void fclient_open(struct srig *rig, struct fclient *client)
{
	static const struct rf_client_events events = {
		.opened = on_opened,
		.closed = on_closed,
		.lost = on_lost,
		.resumed = on_resumed,
	};

	memset(client, 0, sizeof(*client));
	client->call = calloc(1, sizeof(*client->call));
	client->events = calloc(1, sizeof(*client->events));
	sclient_init(rig, &client->base, "data");
	rf_random(client->base.config.hello.client_uuid, RF_UUID_SIZE);
	cr_assert_eq(rf_client_open(&client->base.config, &events,
				    &client->base, &client->base.client), 0);
	srig_until(rig, client->base.opened || client->base.closed);
	cr_assert(client->base.opened, "refused: %s", client->base.reason);
	register_identity(client);
	while (client->phase != FC_OPEN) {
		cr_assert(srig_turn(rig));
		fclient_step(client);
	}
}

void fclient_close(struct fclient *client)
{
	while (client->phase != FC_OPEN) {
		cr_assert(srig_turn(client->base.rig));
		fclient_step(client);
	}
	sclient_bye(&client->base);
	free(client->call);
	free(client->events);
}

/* ---- coming back -------------------------------------------------------- */

static void add_lock(struct scall *call, const struct fop *fop);
static void lock_settled(struct fop *fop, unsigned int status);

static bool send_reclaim(struct fclient *client)
{
	while (client->at < FC_OPENS_MAX) {
		const struct fc_open *open = &client->opens[client->at++];
		const struct rf_args args = {
			.code = RF_OP_RECLAIM,
			.reclaim = { open->handle, open->id, open->flags,
				     open->tag },
		};

		if (open->id == 0)
			continue;
		begin_call(client);
		scall_add(client->call, &args);
		scall_submit(client->call);
		return true;
	}
	return false;
}

static bool send_lock(struct fclient *client)
{
	while (client->at < FC_LOCKS_MAX) {
		const struct fc_lock *lock = &client->locks[client->at++];
		const struct rf_args use = { .code = RF_OP_USE,
					     .use = { lock->handle } };
		struct rf_args args = { .code = RF_OP_LOCK,
					.lock = lock->args };

		if (!lock->is_held)
			continue;
		args.lock.flags &= ~(uint32_t)RF_LOCK_WAIT;
		args.lock.flags |= RF_LOCK_RECLAIM;
		begin_call(client);
		scall_add(client->call, &use);
		scall_add(client->call, &args);
		scall_submit(client->call);
		return true;
	}
	return false;
}

/* A LOCK that waits is the same wait when it is asked for again. */
static bool send_wait(struct fclient *client)
{
	while (client->at < FC_FOPS_MAX) {
		const struct fop *fop = client->fops[client->at++];

		if (!fop || fop->state != FOP_WAITS_LOCK)
			continue;
		begin_call(client);
		add_lock(client->call, fop);
		scall_submit(client->call);
		return true;
	}
	return false;
}

static bool is_settled(const struct fclient *client)
{
	for (unsigned int i = 0; i < FC_FOPS_MAX; i++)
		if (client->fops[i] && client->fops[i]->may_open)
			return false;
	return true;
}

static void send_done(struct fclient *client)
{
	const struct rf_args args = { .code = RF_OP_RECLAIM_DONE };

	client->phase = FC_DONE;
	begin_call(client);
	scall_add(client->call, &args);
	scall_submit(client->call);
}

/* The recovery's call was answered, or there is none. */
static void recover(struct fclient *client)
{
	switch (client->phase) {
	case FC_IDENTITIES:
		client->phase = FC_RECLAIMS;
		client->at = client->is_restarted ? 0 : FC_OPENS_MAX;
		__attribute__((fallthrough));
	case FC_RECLAIMS:
		if (send_reclaim(client))
			break;
		client->phase = FC_LOCKS;
		client->at = client->is_restarted ? 0 : FC_LOCKS_MAX;
		__attribute__((fallthrough));
	case FC_LOCKS:
		if (send_lock(client))
			break;
		client->phase = FC_WAITS;
		client->at = client->is_restarted ? 0 : FC_FOPS_MAX;
		__attribute__((fallthrough));
	case FC_WAITS:
		if (send_wait(client))
			break;
		rf_client_go_on(client->base.client);
		client->phase = client->is_restarted ? FC_SETTLES : FC_OPEN;
		break;
	case FC_SETTLES:
		if (is_settled(client))
			send_done(client);
		break;
	case FC_DONE:
		client->is_restarted = false;
		client->phase = FC_OPEN;
		break;
	default:
		break;
	}
}

static void take_recovery_answer(struct fclient *client)
{
	const struct scall *call = client->call;

	client->is_calling = false;
	if (call->err)
		return;		/* lost once more */
	cr_assert_gt(call->count, 0);
	cr_assert_eq(call->results[call->count - 1].status, RF_ST_OK,
		     "%s after RESUME: %s",
		     rf_op_name(call->results[call->count - 1].code),
		     rf_status_name(call->results[call->count - 1].status));
	if (client->phase == FC_WAITS &&
	    !call->results[call->count - 1].lock.waits &&
	    client->fops[client->at - 1])
		lock_settled(client->fops[client->at - 1], RF_ST_OK);
	recover(client);
}

/* ---- news of locks ------------------------------------------------------ */

static void take_event(struct fclient *client,
		       const struct rf_lock_event *event)
{
	for (unsigned int i = 0; i < FC_FOPS_MAX; i++) {
		struct fop *fop = client->fops[i];

		if (fop && fop->state == FOP_WAITS_LOCK &&
		    fop->wait == event->wait)
			lock_settled(fop, event->status);
	}
}

static void take_events(struct fclient *client)
{
	const struct rf_results *results = &client->events->results[0];
	struct rf_lock_event event;

	client->is_listening = false;
	if (client->events->err || client->events->count == 0 ||
	    results->status != RF_ST_OK)
		return;
	client->seen = results->lock_events.last;
	for (unsigned int i = 0;
	     rf_lock_event_decode(&results->lock_events.events, i, &event);
	     i++)
		take_event(client, &event);
}

static void listen_for_locks(struct fclient *client)
{
	const struct rf_args args = { .code = RF_OP_LOCK_EVENTS,
				      .lock_events = { client->seen } };
	bool waits = false;

	for (unsigned int i = 0; i < FC_FOPS_MAX; i++)
		waits |= client->fops[i] &&
			 client->fops[i]->state == FOP_WAITS_LOCK;
	if (client->is_listening || !waits || client->phase == FC_AWAY)
		return;
	client->is_listening = true;
	scall_init(client->events, &client->base);
	scall_add(client->events, &args);
	scall_submit(client->events);
}

static void step_fop(struct fop *fop);

void fclient_step(struct fclient *client)
{
	if (client->is_over)
		cr_assert_fail("the session is over: %s", client->base.reason);
	if (client->is_calling && client->call->done)
		take_recovery_answer(client);
	for (unsigned int i = 0; i < FC_FOPS_MAX; i++)
		if (client->fops[i])
			step_fop(client->fops[i]);
	if (client->is_listening && client->events->done)
		take_events(client);
	listen_for_locks(client);
	if (client->phase == FC_SETTLES)
		recover(client);
}

/* ---- an operation ------------------------------------------------------- */

static bool reads_data(const struct rf_args *args)
{
	return args->code == RF_OP_READ || args->code == RF_OP_READDIR ||
	       args->code == RF_OP_GETXATTR || args->code == RF_OP_LISTXATTR;
}

/* The grants of a result, and its data inside. */
static const rf_grants_t *grants_of(const struct rf_results *results,
				    const rf_blob_t **data)
{
	switch (results->code) {
	case RF_OP_READ:
		*data = &results->read.data;
		return &results->read.grants;
	case RF_OP_READDIR:
		*data = &results->readdir.data;
		return &results->readdir.grants;
	case RF_OP_GETXATTR:
		*data = &results->getxattr.data;
		return &results->getxattr.grants;
	default:
		*data = &results->listxattr.data;
		return &results->listxattr.grants;
	}
}

static rf_blob_t *written_by(struct rf_args *args)
{
	return args->code == RF_OP_WRITE ? &args->write.data
					 : &args->setxattr.data;
}

unsigned int fop_status(const struct fop *fop)
{
	return fop->results_count ? fop->results[fop->results_count - 1].status
				  : RF_ST_IO;
}

static void new_call(struct fop *fop, struct scall **call)
{
	const struct rf_args use = { .code = RF_OP_USE, .use = { fop->on } };

	free(*call);
	*call = calloc(1, sizeof(**call));
	scall_init(*call, &fop->client->base);
	(*call)->call.identity = IDENTITY;
	if (fop->on.inode)
		scall_add(*call, &use);
}

static void ask_slot(struct fop *fop)
{
	/* So large that the next one can use it, too. */
	const uint32_t size = written_by(&fop->args[0])->size;
	const struct rf_args args = {
		.code = RF_OP_SLOTS,
		.slots = { 1, size > STAGING_SMALL ? STAGING_MIDDLE
						   : STAGING_SMALL },
	};

	fop->connection = fop->client->connection;
	fop->state = FOP_ASKS_SLOT;
	free(fop->other);
	fop->other = calloc(1, sizeof(*fop->other));
	scall_init(fop->other, &fop->client->base);
	fop->other->call.is_control = true;
	scall_add(fop->other, &args);
	scall_submit(fop->other);
}

static void add_filled(struct fop *fop)
{
	struct rf_args args = fop->args[0];
	rf_blob_t *data = written_by(&args);
	rf_pieces_t *pieces = args.code == RF_OP_WRITE ? &args.write.pieces
						       : &args.setxattr.pieces;

	if (!fop->buf)
		fop->buf = rf_pool_get(fop->client->base.rig->pool, DATA_BUF);
	cr_assert_not_null(fop->buf);
	memcpy(fop->buf->mem, data->bytes, data->size);
	*pieces = (rf_pieces_t){ .count = 1, .v = {
		{ fop->slot.id, data->size,
		  rf_crc32c(0, data->bytes, data->size) } } };
	scall_fill(fop->call, &fop->slot, fop->buf, data->size);
	if (!fop->client->base.rig->has_no_windows)
		fop->call->call.inv_key = fop->slot.rkey;
	*data = (rf_blob_t){ NULL, 0 };
	scall_add(fop->call, &args);
}

static void run(struct fop *fop)
{
	fop->state = FOP_RUNS;
	fop->connection = fop->client->connection;
	new_call(fop, &fop->call);
	if (fop->by_slot)
		add_filled(fop);
	for (unsigned int i = fop->by_slot; i < fop->count; i++)
		scall_add(fop->call, &fop->args[i]);
	scall_submit(fop->call);
}

static bool take_free_slot(struct fop *fop)
{
	struct fclient *client = fop->client;

	for (unsigned int i = 0; i < client->slot_count; i++) {
		if (client->slots[i].size < written_by(&fop->args[0])->size)
			continue;
		fop->slot = client->slots[i];
		client->slots[i] = client->slots[--client->slot_count];
		return true;
	}
	return false;
}

/* With what it needs for its data, in this connection. */
static void begin(struct fop *fop)
{
	struct fclient *client = fop->client;

	if (fop->by_slot && client->phase != FC_OPEN &&
	    client->phase != FC_SETTLES)
		return;		/* slots end with a connection */
	if (!fop->by_slot || take_free_slot(fop))
		run(fop);
	else
		ask_slot(fop);
}

static void take_slot(struct fop *fop)
{
	struct fclient *client = fop->client;
	const rf_grants_t *slots = &fop->other->results[0].slots.slots;

	fop->state = FOP_NEW;
	if (fop->other->err || fop->other->count == 0 ||
	    fop->other->results[0].status != RF_ST_OK ||
	    fop->connection != client->connection ||
	    client->phase == FC_AWAY)
		return;
	if (slots->count > 0 && client->slot_count < FC_SLOTS_MAX)
		client->slots[client->slot_count++] = slots->v[0];
}

static void keep_slots(struct fop *fop)
{
	const struct rf_results *results = &fop->results[0];
	const rf_grants_t *rearmed = results->code == RF_OP_WRITE ?
				     &results->write.rearmed :
				     &results->setxattr.rearmed;
	struct fclient *client = fop->client;

	if (fop->connection != client->connection ||
	    client->phase == FC_AWAY)
		return;
	for (unsigned int i = 0; i < rearmed->count; i++)
		if (client->slot_count < FC_SLOTS_MAX)
			client->slots[client->slot_count++] = rearmed->v[i];
}

/* ---- what it leaves in the session -------------------------------------- */

static rf_handle_t handle_before(const struct fop *fop, unsigned int index)
{
	rf_handle_t handle = fop->on;

	for (unsigned int i = 0; i < index && i < fop->results_count; i++) {
		const struct rf_results *r = &fop->results[i];

		if (r->status != RF_ST_OK)
			break;
		if (r->code == RF_OP_LOOKUP)
			handle = r->lookup.handle;
		else if (r->code == RF_OP_CREATE)
			handle = r->create.handle;
		else if (r->code == RF_OP_MKDIR)
			handle = r->mkdir.handle;
		else if (r->code == RF_OP_MKNOD)
			handle = r->mknod.handle;
		else if (r->code == RF_OP_SYMLINK)
			handle = r->symlink.handle;
	}
	return handle;
}

rf_handle_t fop_handle(const struct fop *fop)
{
	return handle_before(fop, FOP_OPS_MAX);
}

static void note_open(struct fop *fop, unsigned int index, uint32_t id,
		      uint32_t flags, uint64_t tag)
{
	struct fclient *client = fop->client;

	/* As the tag has them: the right to execute is one to read. */
	if (flags & RF_OPEN_EXEC)
		flags |= RF_OPEN_READ;
	for (unsigned int i = 0; i < FC_OPENS_MAX; i++) {
		if (client->opens[i].id != 0)
			continue;
		client->opens[i] = (struct fc_open){
			handle_before(fop, index + 1), id, flags, tag };
		return;
	}
	cr_assert_fail("more opens than a test may have");
}

static void forget_open(struct fclient *client, uint32_t id)
{
	for (unsigned int i = 0; i < FC_OPENS_MAX; i++)
		if (client->opens[i].id == id)
			client->opens[i].id = 0;
	for (unsigned int i = 0; i < FC_LOCKS_MAX; i++)
		if (client->locks[i].args.open == id)
			client->locks[i].is_held = false;
}

static bool is_same_lock(const struct fc_lock *lock, uint64_t owner,
			 uint64_t start, uint64_t end)
{
	return lock->is_held && lock->args.owner == owner &&
	       lock->args.start == start && lock->args.end == end;
}

/* Ranges of one owner are the same or apart, in tests. */
static void note_lock(struct fop *fop, unsigned int index)
{
	const struct rf_lock_args *args = &fop->args[index].lock;
	struct fc_lock *place = NULL;

	for (unsigned int i = FC_LOCKS_MAX; i-- > 0;) {
		struct fc_lock *lock = &fop->client->locks[i];

		if (is_same_lock(lock, args->owner, args->start, args->end)) {
			place = lock;
			break;
		}
		if (!lock->is_held)
			place = lock;
	}
	cr_assert_not_null(place);
	*place = (struct fc_lock){ true, handle_before(fop, index), *args };
}

static void forget_lock(struct fclient *client,
			const struct rf_unlock_args *args)
{
	for (unsigned int i = 0; i < FC_LOCKS_MAX; i++)
		if (is_same_lock(&client->locks[i], args->owner, args->start,
				 args->end))
			client->locks[i].is_held = false;
}

static uint32_t open_of(const struct fop *fop, uint32_t id)
{
	for (unsigned int i = fop->results_count; id == 0 && i-- > 0;) {
		if (fop->results[i].status != RF_ST_OK)
			continue;
		if (fop->results[i].code == RF_OP_OPEN)
			id = fop->results[i].open.open;
		else if (fop->results[i].code == RF_OP_CREATE)
			id = fop->results[i].create.open;
	}
	return id;
}

static void note_results(struct fop *fop)
{
	for (unsigned int i = 0; i < fop->results_count; i++) {
		const struct rf_results *r = &fop->results[i];
		const struct rf_args *args = &fop->args[i];

		if (r->status != RF_ST_OK)
			return;
		if (r->code == RF_OP_OPEN)
			note_open(fop, i, r->open.open, args->open.flags,
				  r->open.tag);
		else if (r->code == RF_OP_CREATE)
			note_open(fop, i, r->create.open, args->create.flags,
				  r->create.tag);
		else if (r->code == RF_OP_RELEASE)
			forget_open(fop->client,
				    open_of(fop, args->release.open));
		else if (r->code == RF_OP_LOCK && !r->lock.waits)
			note_lock(fop, i);
		else if (r->code == RF_OP_UNLOCK)
			forget_lock(fop->client, &args->unlock);
	}
}

const struct fc_open *fop_open(const struct fop *fop)
{
	uint32_t id = open_of(fop, 0);

	for (unsigned int i = 0; id && i < FC_OPENS_MAX; i++)
		if (fop->client->opens[i].id == id)
			return &fop->client->opens[i];
	return NULL;
}

/* ---- fetching ----------------------------------------------------------- */

static void fetched(struct rf_op *op, int status)
{
	struct fop *fop = rf_container_of(op, struct fop, fetch_op);

	fop->is_fetching = false;
	fop->has_fetched = true;
	fop->fetch_status = status;
}

static void finish(struct fop *fop)
{
	struct fclient *client = fop->client;

	fop->state = FOP_DONE;
	if (fop->buf)
		rf_pool_put(fop->buf);
	fop->buf = NULL;
	for (unsigned int i = 0; i < FC_FOPS_MAX; i++)
		if (client->fops[i] == fop)
			client->fops[i] = NULL;
}

static void ask_again(struct fop *fop)
{
	struct rf_args args = fop->args[fop->fetch_at];
	const struct rf_args use = {
		.code = RF_OP_USE,
		.use = { handle_before(fop, fop->fetch_at) },
	};

	if (args.code == RF_OP_READ)
		args.read.open = open_of(fop, args.read.open);
	else if (args.code == RF_OP_READDIR)
		args.readdir.open = open_of(fop, args.readdir.open);
	fop->client->refetches++;
	fop->state = FOP_ASKS_AGAIN;
	fop->connection = fop->client->connection;
	fop->fetch_grant = 0;
	fop->data_size[fop->fetch_at] = 0;
	free(fop->other);
	fop->other = calloc(1, sizeof(*fop->other));
	scall_init(fop->other, &fop->client->base);
	fop->other->call.identity = IDENTITY;
	scall_add(fop->other, &use);
	scall_add(fop->other, &args);
	scall_submit(fop->other);
}

static void take_inside(struct fop *fop, const rf_blob_t *data)
{
	unsigned int i = fop->fetch_at;

	if (!fop->data[i])
		fop->data[i] = malloc(FOP_DATA_MAX);
	memcpy(fop->data[i], data->bytes, data->size);
	fop->data_size[i] = data->size;
}

static void take_granted(struct fop *fop, const struct rf_grant *grant)
{
	unsigned int i = fop->fetch_at;

	if (!fop->data[i])
		fop->data[i] = malloc(FOP_DATA_MAX);
	cr_assert_leq(fop->data_size[i] + grant->size, FOP_DATA_MAX);
	cr_assert_eq(grant->crc, rf_crc32c(0, fop->buf->mem, grant->size));
	memcpy(fop->data[i] + fop->data_size[i], fop->buf->mem, grant->size);
	fop->data_size[i] += grant->size;
	rf_client_return_grant(fop->client->base.client, grant->id);
	fop->fetch_grant++;
}

/* False: it could not begin, because the connection is gone. */
static bool begin_fetch(struct fop *fop, const struct rf_grant *grant)
{
	struct srig *rig = fop->client->base.rig;
	struct rf_sge sge = { NULL, grant->size, rig->mr };
	const struct rf_work work = {
		.code = RF_READ,
		.op = &fop->fetch_op,
		.sge = &sge,
		.sge_count = 1,
		.remote = { grant->addr, grant->rkey, grant->size },
	};
	int err;

	if (!fop->buf)
		fop->buf = rf_pool_get(rig->pool, DATA_BUF);
	cr_assert_not_null(fop->buf);
	sge.addr = fop->buf->mem;
	fop->fetch_op.done = fetched;
	err = rf_client_post(fop->client->base.client, &work, 1);
	fop->is_fetching = !err;
	return !err || err == -EAGAIN;
}

static void fetch(struct fop *fop)
{
	struct fclient *client = fop->client;

	while (fop->fetch_at < fop->results_count) {
		struct rf_results *results = &fop->results[fop->fetch_at];
		const rf_blob_t *data;
		const rf_grants_t *grants;

		if (results->status == RF_ST_AGAIN &&
		    reads_data(&fop->args[fop->fetch_at])) {
			ask_again(fop);
			return;
		}
		if (results->status != RF_ST_OK ||
		    !reads_data(&fop->args[fop->fetch_at])) {
			fop->fetch_at++;
			continue;
		}
		grants = grants_of(results, &data);
		if (fop->has_fetched) {
			fop->has_fetched = false;
			if (fop->fetch_status) {
				ask_again(fop);
				return;
			}
			take_granted(fop, &grants->v[fop->fetch_grant]);
		}
		if (fop->fetch_grant < grants->count) {
			if (fop->connection != client->connection ||
			    client->phase == FC_AWAY ||
			    !begin_fetch(fop, &grants->v[fop->fetch_grant]))
				ask_again(fop);
			return;
		}
		if (grants->count == 0)
			take_inside(fop, data);
		fop->fetch_grant = 0;
		fop->fetch_at++;
	}
	finish(fop);
}

static void take_again(struct fop *fop)
{
	const struct scall *call = fop->other;

	cr_assert_eq(call->err, 0);
	cr_assert_gt(call->count, 0);
	fop->results[fop->fetch_at] = call->results[call->count - 1];
	fop->state = FOP_FETCHES;
	fetch(fop);
}

/* ---- locks -------------------------------------------------------------- */

/* LOCK is the last of its message, and is told its number when it is sent. */
static void add_lock(struct scall *call, const struct fop *fop)
{
	const struct rf_args use = {
		.code = RF_OP_USE,
		.use = { handle_before(fop, fop->count - 1) },
	};

	scall_add(call, &use);
	scall_add(call, &fop->args[fop->count - 1]);
}

static void lock_settled(struct fop *fop, unsigned int status)
{
	struct rf_results *last = &fop->results[fop->results_count - 1];

	last->status = status;
	last->lock.waits = 0;
	if (status == RF_ST_OK)
		note_lock(fop, fop->results_count - 1);
	finish(fop);
}

/* ---- its life ----------------------------------------------------------- */

static void take_answer(struct fop *fop)
{
	struct scall *call = fop->call;
	unsigned int skip = fop->on.inode != 0;

	fop->err = call->err;
	if (call->err) {
		finish(fop);
		return;
	}
	fop->results_count = 0;
	for (unsigned int i = skip; i < call->count; i++)
		fop->results[fop->results_count++] = call->results[i];
	/* USE itself has failed. */
	if (fop->results_count == 0 && call->count > 0)
		fop->results[fop->results_count++] = call->results[0];
	if (fop->by_slot && fop->results_count > 0)
		keep_slots(fop);
	if (fop->by_slot && call->call.was_voided &&
	    fop->results_count == 1 &&
	    fop->results[0].status == RF_ST_BAD_GRANT) {
		/* It was not run; its slot is of the old connection. */
		fop->state = FOP_NEW;
		return;
	}
	note_results(fop);
	fop->may_open = false;
	if (fop_status(fop) == RF_ST_OK &&
	    fop->results[fop->results_count - 1].code == RF_OP_LOCK &&
	    fop->results[fop->results_count - 1].lock.waits) {
		fop->state = FOP_WAITS_LOCK;
		return;
	}
	fop->fetch_at = fop->fetch_grant = 0;
	fop->state = FOP_FETCHES;
	fetch(fop);
}

static void step_fop(struct fop *fop)
{
	switch (fop->state) {
	case FOP_ASKS_SLOT:
		if (fop->other->done)
			take_slot(fop);
		break;
	case FOP_RUNS:
		if (fop->call->done)
			take_answer(fop);
		break;
	case FOP_FETCHES:
		if (!fop->is_fetching)
			fetch(fop);
		break;
	case FOP_ASKS_AGAIN:
		if (fop->other->done)
			take_again(fop);
		break;
	default:
		break;
	}
	if (fop->state == FOP_NEW)
		begin(fop);
}

void fop_start(struct fclient *client, struct fop *fop)
{
	struct rf_args *last = &fop->args[fop->count - 1];

	fop->client = client;
	fop->state = FOP_NEW;
	if (last->code == RF_OP_LOCK)
		last->lock.wait = fop->wait = ++client->last_wait;
	for (unsigned int i = 0; i < FC_FOPS_MAX; i++) {
		if (client->fops[i])
			continue;
		client->fops[i] = fop;
		begin(fop);
		return;
	}
	cr_assert_fail("more operations in flight than a test may have");
}

void fop_fini(struct fop *fop)
{
	cr_assert(fop->state == FOP_DONE || fop->state == FOP_IDLE);
	for (unsigned int i = 0; i < FOP_OPS_MAX; i++)
		free(fop->data[i]);
	free(fop->call);
	free(fop->other);
	memset(fop, 0, sizeof(*fop));
}

/* ---- twice -------------------------------------------------------------- */

struct duplicate {
	struct rf_op op;
	struct rf_buf *buf;
};

static void duplicate_sent(struct rf_op *op, int status)
{
	struct duplicate *twin = rf_container_of(op, struct duplicate, op);

	(void)status;
	rf_pool_put(twin->buf);
	free(twin);
}

bool fclient_duplicate(struct fclient *client, const struct rf_call *call)
{
	struct srig *rig = client->base.rig;
	struct duplicate *twin = calloc(1, sizeof(*twin));
	struct rf_sge sge = { NULL, 0, rig->mr };
	struct rf_work work = { .code = RF_SEND, .sge = &sge, .sge_count = 1 };

	twin->op.done = duplicate_sent;
	twin->buf = rf_pool_get(rig->pool, call->msg->size);
	cr_assert_not_null(twin->buf);
	memcpy(twin->buf->mem, call->msg->mem, call->msg_size);
	sge.addr = twin->buf->mem;
	sge.size = call->msg_size;
	work.op = &twin->op;
	if (rf_client_post(client->base.client, &work, 1) == 0)
		return true;
	duplicate_sent(&twin->op, 0);
	return false;
}

bool fop_duplicate(struct fop *fop)
{
	const struct rf_call *call = fop->call ? &fop->call->call : NULL;

	/* Seq 0: it has no slot yet. */
	if (fop->state != FOP_RUNS || fop->call->done || call->seq == 0 ||
	    fop->connection != fop->client->connection ||
	    fop->client->phase == FC_AWAY)
		return false;
	return fclient_duplicate(fop->client, call);
}

/* ---- in words ----------------------------------------------------------- */

struct text {
	char *at;
	size_t used;
	struct fc_aliases *aliases;
};

static void say(struct text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void say(struct text *text, const char *format, ...)
{
	size_t room = FC_TEXT_SIZE - text->used;
	va_list args;
	int size;

	va_start(args, format);
	size = vsnprintf(text->at + text->used, room, format, args);
	va_end(args);
	if (size > 0)
		text->used += rf_min_u64((uint64_t)size, room - 1);
}

static unsigned int alias_of(struct fc_aliases *aliases, uint64_t inode)
{
	for (unsigned int i = 0; i < aliases->count; i++)
		if (aliases->inodes[i] == inode)
			return i;
	cr_assert_lt(aliases->count, FC_ALIASES_MAX);
	aliases->inodes[aliases->count] = inode;
	return aliases->count++;
}

/* Not the times, and not what a file takes on the disk. */
static void say_attr(struct text *text, const rf_attr_t *attr)
{
	say(text, " #%u change %llu size %llu mode %o nlink %u %u:%u rdev %llx "
	    "flags %x", alias_of(text->aliases, attr->inode),
	    (unsigned long long)attr->change, (unsigned long long)attr->size,
	    attr->mode, attr->nlink, attr->uid, attr->gid,
	    (unsigned long long)attr->rdev, attr->flags);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The order is the store's secret. */
static void say_sorted(struct text *text, char **items, unsigned int count)
{
	qsort(items, count, sizeof(*items), by_text);
	for (unsigned int i = 0; i < count; i++) {
		say(text, " %s", items[i]);
		free(items[i]);
	}
}

static void say_entries(struct text *text, const uint8_t *data, size_t size)
{
	char *items[PAIRS_MAX];
	unsigned int count = 0;
	struct rf_dirent entry;
	int took;

	while ((took = rf_dirent_decode(data, size, &entry)) > 0) {
		cr_assert_lt(count, PAIRS_MAX);
		cr_assert_gt(asprintf(&items[count++], "%.*s:%o",
				      entry.name.size, entry.name.bytes,
				      entry.type), 0);
		data += took;
		size -= (size_t)took;
	}
	cr_assert_eq(took, 0);
	say_sorted(text, items, count);
}

static void say_data(struct text *text, const struct fop *fop,
		     unsigned int index)
{
	const uint8_t *data = fop->data[index];
	uint32_t size = fop->data_size[index];

	say(text, " %u bytes", size);
	if (fop->args[index].code == RF_OP_READDIR)
		say_entries(text, data, size);
	else if (size > 0)
		say(text, " crc %08x", rf_crc32c(0, data, size));
}

/* What an operation says beside its status. */
static void say_results(struct text *text, const struct fop *fop,
			unsigned int index)
{
	const struct rf_results *r = &fop->results[index];

	switch (r->code) {
	case RF_OP_LOOKUP:
		say_attr(text, &r->lookup.attr);
		break;
	case RF_OP_GETATTR:
		say_attr(text, &r->getattr.attr);
		break;
	case RF_OP_SETATTR:
		say(text, " before %llu",
		    (unsigned long long)r->setattr.change_before);
		say_attr(text, &r->setattr.attr);
		break;
	case RF_OP_CREATE:
		say(text, " created %u", r->create.was_created);
		say_attr(text, &r->create.attr);
		break;
	case RF_OP_MKDIR:
		say_attr(text, &r->mkdir.attr);
		break;
	case RF_OP_MKNOD:
		say_attr(text, &r->mknod.attr);
		break;
	case RF_OP_SYMLINK:
		say_attr(text, &r->symlink.attr);
		break;
	case RF_OP_READLINK:
		say(text, " %.*s", (int)r->readlink.target.size,
		    (const char *)r->readlink.target.bytes);
		break;
	case RF_OP_LINK:
		say_attr(text, &r->link.attr);
		break;
	case RF_OP_OPEN:
		say_attr(text, &r->open.attr);
		break;
	case RF_OP_READ:
		say(text, " version %llu file %llu size %u eof %u",
		    (unsigned long long)r->read.version,
		    (unsigned long long)r->read.file_size, r->read.size,
		    r->read.eof);
		say_data(text, fop, index);
		break;
	case RF_OP_WRITE:
		say(text, " at %llu size %u before %llu",
		    (unsigned long long)r->write.offset, r->write.size,
		    (unsigned long long)r->write.change_before);
		say_attr(text, &r->write.attr);
		break;
	case RF_OP_FALLOCATE:
		say(text, " before %llu",
		    (unsigned long long)r->fallocate.change_before);
		say_attr(text, &r->fallocate.attr);
		break;
	case RF_OP_LSEEK:
		say(text, " %llu", (unsigned long long)r->lseek.offset);
		break;
	case RF_OP_COPY:
		say(text, " size %llu before %llu",
		    (unsigned long long)r->copy.size,
		    (unsigned long long)r->copy.change_before);
		say_attr(text, &r->copy.attr);
		break;
	case RF_OP_READDIR:
		say(text, " eof %u", r->readdir.eof);
		say_data(text, fop, index);
		break;
	case RF_OP_GETXATTR:
		say(text, " value %u", r->getxattr.value_size);
		say_data(text, fop, index);
		break;
	case RF_OP_LISTXATTR:
		say(text, " value %u", r->listxattr.value_size);
		say_data(text, fop, index);
		break;
	case RF_OP_LOCK:
		say(text, " waits %u", r->lock.waits);
		break;
	case RF_OP_TEST_LOCK:
		say(text, " free %u exclusive %u %llu-%llu",
		    r->test_lock.is_free, r->test_lock.is_exclusive,
		    (unsigned long long)r->test_lock.start,
		    (unsigned long long)r->test_lock.end);
		break;
	case RF_OP_CANCEL_LOCK:
		say(text, " %s", rf_status_name(r->cancel_lock.status));
		break;
	default:
		break;		/* nothing, or what is the server's choice */
	}
}

void fop_describe(const struct fop *fop, struct fc_aliases *aliases,
		  char out[FC_TEXT_SIZE])
{
	struct text text = { .at = out, .aliases = aliases };

	out[0] = '\0';
	if (fop->err)
		say(&text, "no answer: %s", strerror(-fop->err));
	for (unsigned int i = 0; i < fop->results_count; i++) {
		const struct rf_results *r = &fop->results[i];

		say(&text, "%s%s %s", i ? "; " : "", rf_op_name(r->code),
		    rf_status_name(r->status));
		if (r->status == RF_ST_OK)
			say_results(&text, fop, i);
	}
}

/* ---- all that there is -------------------------------------------------- */

unsigned int fclient_run(struct fclient *client, struct fop *fop)
{
	fop_start(client, fop);
	while (!fop_is_done(fop)) {
		cr_assert(srig_turn(client->base.rig), "nothing is left to "
			  "happen, but there is no answer");
		fclient_step(client);
	}
	return fop_status(fop);
}

static void walk_xattrs(struct fclient *client, const rf_handle_t *handle,
			struct fc_aliases *aliases, FILE *out)
{
	struct fop list = { .on = *handle, .count = 1, .args = { {
		.code = RF_OP_LISTXATTR, .listxattr = { RF_XATTR_SIZE_MAX } } } };
	char text[FC_TEXT_SIZE];
	uint32_t at = 0;

	cr_assert_eq(fclient_run(client, &list), RF_ST_OK);
	while (at < list.data_size[0]) {
		const char *name = (const char *)list.data[0] + at;
		struct fop get = { .on = *handle, .count = 1, .args = { {
			.code = RF_OP_GETXATTR,
			.getxattr = { sname(name), RF_XATTR_SIZE_MAX } } } };

		fclient_run(client, &get);
		fop_describe(&get, aliases, text);
		fprintf(out, "  %s: %s\n", name, text);
		fop_fini(&get);
		at += (uint32_t)strlen(name) + 1;
	}
	fop_fini(&list);
}

static void walk_data(struct fclient *client, const rf_handle_t *handle,
		      uint64_t size, struct fc_aliases *aliases, FILE *out)
{
	enum { STEP = 1 << 16 };
	char text[FC_TEXT_SIZE];
	struct fop open = { .on = *handle, .count = 1, .args = { {
		.code = RF_OP_OPEN,
		.open = { RF_OPEN_READ | RF_OPEN_NOATIME } } } };
	struct fop release = { .on = *handle, .count = 1, .args = { {
		.code = RF_OP_RELEASE } } };
	uint32_t id;

	cr_assert_eq(fclient_run(client, &open), RF_ST_OK);
	id = open.results[0].open.open;
	for (uint64_t at = 0; at < size; at += STEP) {
		struct fop read = { .on = *handle, .count = 1, .args = { {
			.code = RF_OP_READ, .read = { id, at, STEP } } } };

		fclient_run(client, &read);
		fop_describe(&read, aliases, text);
		fprintf(out, "  %s\n", text);
		fop_fini(&read);
	}
	release.args[0].release.open = id;
	cr_assert_eq(fclient_run(client, &release), RF_ST_OK);
	fop_fini(&open);
	fop_fini(&release);
}

static void walk_one(struct fclient *client, const rf_handle_t *dir,
		     const rf_name_t *name, struct fc_aliases *aliases,
		     FILE *out)
{
	char text[FC_TEXT_SIZE];
	struct fop lookup = { .on = *dir, .count = 1, .args = { {
		.code = RF_OP_LOOKUP, .lookup = { *name } } } };
	const struct rf_lookup_results *found = &lookup.results[0].lookup;

	fclient_run(client, &lookup);
	fop_describe(&lookup, aliases, text);
	fprintf(out, "%.*s: %s\n", name->size, name->bytes, text);
	cr_assert_eq(fop_status(&lookup), RF_ST_OK);
	walk_xattrs(client, &found->handle, aliases, out);
	if (S_ISREG(found->attr.mode)) {
		walk_data(client, &found->handle, found->attr.size, aliases,
			  out);
	} else if (S_ISLNK(found->attr.mode)) {
		struct fop link = { .on = found->handle, .count = 1,
				    .args = { { .code = RF_OP_READLINK } } };

		fclient_run(client, &link);
		fop_describe(&link, aliases, text);
		fprintf(out, "  %s\n", text);
		fop_fini(&link);
	} else if (S_ISDIR(found->attr.mode)) {
		fclient_walk(client, &found->handle, aliases, out);
	}
	fop_fini(&lookup);
}

static int by_name(const void *a, const void *b)
{
	const rf_name_t *x = a, *y = b;
	int order = memcmp(x->bytes, y->bytes, rf_min_u64(x->size, y->size));

	return order ? order : x->size - y->size;
}

static bool is_dot(const rf_name_t *name)
{
	return name->bytes[0] == '.' &&
	       (name->size == 1 || (name->size == 2 && name->bytes[1] == '.'));
}

void fclient_walk(struct fclient *client, const rf_handle_t *dir,
		  struct fc_aliases *aliases, FILE *out)
{
	rf_name_t names[PAIRS_MAX];
	struct rf_dirent entry;
	unsigned int count = 0;
	uint32_t at = 0;
	struct fop list = { .on = *dir, .count = 1, .args = { {
		.code = RF_OP_OPEN,
		.open = { RF_OPEN_READ | RF_OPEN_DIR | RF_OPEN_NOATIME } } } };
	struct fop read = { .on = *dir, .count = 1 };

	cr_assert_eq(fclient_run(client, &list), RF_ST_OK);
	read.args[0] = (struct rf_args){ .code = RF_OP_READDIR, .readdir = {
		list.results[0].open.open, 0, FOP_DATA_MAX, 0 } };
	cr_assert_eq(fclient_run(client, &read), RF_ST_OK);
	cr_assert(read.results[0].readdir.eof);
	while (at < read.data_size[0]) {
		int took = rf_dirent_decode(read.data[0] + at,
					    read.data_size[0] - at, &entry);

		cr_assert_gt(took, 0);
		cr_assert_lt(count, PAIRS_MAX);
		if (!is_dot(&entry.name))
			names[count++] = entry.name;
		at += (uint32_t)took;
	}
	qsort(names, count, sizeof(names[0]), by_name);
	for (unsigned int i = 0; i < count; i++)
		walk_one(client, dir, &names[i], aliases, out);
	fop_fini(&read);
	read = (struct fop){ .on = *dir, .count = 1, .args = { {
		.code = RF_OP_RELEASE,
		.release = { list.results[0].open.open } } } };
	cr_assert_eq(fclient_run(client, &read), RF_ST_OK);
	fop_fini(&read);
	fop_fini(&list);
}

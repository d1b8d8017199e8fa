/* SPDX-License-Identifier: Apache-2.0 */
/* Memory lent to clients: who may touch it when, and that it comes back. */
#include "storage-server/exec.h"
#include "tests/common/server_rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SCENARIO(name)							\
	static void name(const char *scheme);				\
	Test(server_rights, name##_over_loop) { name("loop"); }		\
	Test(server_rights, name##_over_iwarp) { name("iwarp"); }	\
	static void name(const char *scheme)

/* On a device too. */
#define DEVICE_SCENARIO(name)						\
	static void name(const char *scheme);				\
	Test(server_rights, name##_over_verbs)				\
	{								\
		SKIP_WITHOUT_DEVICE(RF_LEVEL_WINDOW);			\
		name("verbs");						\
	}								\
	SCENARIO(name)

enum { RW = RF_OPEN_READ | RF_OPEN_WRITE, MIB = 1 << 20 };

static struct srig rig;
static struct sclient client, other;
static struct scall call;
static rf_handle_t handle;
static uint32_t open_id;
static uint8_t data[MIB], out[MIB];

static void begin(const char *scheme)
{
	srig_open(&rig, scheme);
	sclient_open(&rig, &client, "data");
	handle = smake(&client, "a", RW, &open_id);
}

static void end(void)
{
	sclient_bye(&client);
	srig_close(&rig);
}

/* Fill the file with a pattern. */
static void fill(void)
{
	spattern(data, sizeof(data), 1);
	cr_assert_eq(swrite(&client, &handle, open_id, 0, data, sizeof(data)),
		     RF_ST_OK);
}

static void start_op(struct scall *self, struct sclient *who,
		     const struct rf_args *args)
{
	const struct rf_args use = { .code = RF_OP_USE, .use = { handle } };

	scall_init(self, who);
	scall_add(self, &use);
	scall_add(self, args);
	self->call.identity = 1;
}

static void start_read(struct scall *self, struct sclient *who, uint32_t open,
		       uint64_t offset, uint32_t size)
{
	const struct rf_args args = {
		.code = RF_OP_READ,
		.read = { open, offset, size },
	};

	start_op(self, who, &args);
	scall_submit(self);
}

/* A READ that gives one grant. */
static struct rf_grant lend(uint32_t size)
{
	start_read(&call, &client, open_id, 0, size);
	scall_wait(&call);
	cr_assert_eq(call.results[1].status, RF_ST_OK);
	cr_assert_eq(SRES(&call, 0, read).grants.count, 1);
	return SRES(&call, 0, read).grants.v[0];
}

/* ---- grants to READ ----------------------------------------------------- */

DEVICE_SCENARIO(a_grant_is_dead_after_its_return)
{
	struct rf_grant grant;
	uint64_t unbinds;

	begin(scheme);
	fill();
	grant = lend(100000);
	cr_assert_eq(sfetch(&client, &grant, out), 0);
	cr_assert_eq(sfetch(&client, &grant, out), 0, "it may be read again");
	unbinds = rig.server->staging.unbinds;
	sreturn(&client, grant.id);
	srig_until(&rig, rig.server->staging.unbinds > unbinds &&
		   srig_staging_free(&rig) == srig_staging_total(&rig));
	cr_assert_neq(sfetch(&client, &grant, out), 0);
	srig_until(&rig, sclient_is_lost(&client));
	srig_close(&rig);
}

DEVICE_SCENARIO(a_grant_to_read_may_not_be_written)
{
	struct rf_remote remote;
	struct rf_grant grant;

	begin(scheme);
	fill();
	grant = lend(100000);
	remote = (struct rf_remote){ grant.addr, grant.rkey, 8 };
	spoke(&client, &remote);
	srig_until(&rig, sclient_is_lost(&client));
	cr_assert_eq(srig_staging_free(&rig), srig_staging_total(&rig));
	sclient_open(&rig, &client, "data");
	cr_assert_eq(SRUN(&client, &call, 1, &handle,
			  { .code = RF_OP_OPEN, .open = { RF_OPEN_READ } }),
		     RF_ST_OK);
	cr_assert_eq(sread(&client, &handle, SRES(&call, 0, open).open, 0,
			   MIB, out), MIB);
	cr_assert_arr_eq(out, data, MIB);
	end();
}

DEVICE_SCENARIO(a_grant_ends_where_its_data_end)
{
	struct rf_grant grant;

	begin(scheme);
	fill();
	grant = lend(10000);
	cr_assert_eq(grant.size, 10000);
	grant.size++;
	cr_assert_neq(sfetch(&client, &grant, out), 0);
	srig_until(&rig, sclient_is_lost(&client));
	srig_close(&rig);
}

DEVICE_SCENARIO(another_sessions_grant_is_refused)
{
	struct rf_grant grant;

	begin(scheme);
	fill();
	sclient_open(&rig, &other, "data");
	grant = lend(100000);
	cr_assert_neq(sfetch(&other, &grant, out), 0);
	srig_until(&rig, sclient_is_lost(&other));
	cr_assert_eq(sfetch(&client, &grant, out), 0);
	cr_assert_arr_eq(out, data, grant.size);
	end();
}

SCENARIO(returns_of_what_was_never_lent_are_ignored)
{
	struct rf_grant grant;

	begin(scheme);
	fill();
	grant = lend(100000);
	for (uint32_t i = 1; i < 200; i++)
		sreturn(&client, grant.id + i);
	sreturn(&client, 0);
	srig_until(&rig, rig.server->staging.bad_returns == 200);
	cr_assert_eq(sfetch(&client, &grant, out), 0);
	sreturn(&client, grant.id);
	sreturn(&client, grant.id);
	srig_until(&rig, rig.server->staging.bad_returns == 201);
	end();
}

SCENARIO(a_slot_is_not_returned_like_a_grant)
{
	struct rf_grant slot;

	begin(scheme);
	cr_assert_eq(sslots(&client, 1, MIB, &slot), 1);
	sreturn(&client, slot.id);
	srig_until(&rig, rig.server->staging.bad_returns == 1);
	cr_assert_eq(spoke(&client, &(struct rf_remote){ slot.addr, slot.rkey,
							 100 }), 0);
	end();
}

/* ---- slots to WRITE ----------------------------------------------------- */

/* A WRITE of these slots, each filled with its piece of data. */
static void start_write(struct scall *self, const struct rf_grant *slots,
			unsigned int count, uint32_t size, struct rf_buf *buf,
			uint32_t inv_key)
{
	struct rf_args args = { .code = RF_OP_WRITE,
				.write = { .open = open_id } };

	args.write.pieces.count = (uint16_t)count;
	for (unsigned int i = 0; i < count; i++)
		args.write.pieces.v[i] = (struct rf_piece){
			slots[i].id, size,
			rf_crc32c(0, buf->mem + i * size, size) };
	start_op(self, &client, &args);
	for (unsigned int i = 0; i < count; i++) {
		scall_fill(self, &slots[i], buf, size);
		self->sges[i].addr = buf->mem + i * size;
	}
	self->call.inv_key = inv_key;
}

static unsigned int write_status(struct scall *self)
{
	scall_submit(self);
	scall_wait(self);
	cr_assert_eq(self->err, 0, "%s", strerror(-self->err));
	return self->results[self->count - 1].status;
}

static uint64_t file_size(void)
{
	struct scall *self = malloc(sizeof(*self));
	uint64_t size;

	cr_assert_eq(SRUN(&client, self, 1, &handle,
			  { .code = RF_OP_GETATTR }), RF_ST_OK);
	size = SRES(self, 0, getattr).attr.size;
	free(self);
	return size;
}

SCENARIO(one_write_names_many_slots_and_each_comes_back)
{
	enum { SLOTS = 4, SIZE = 50000 };
	struct rf_grant slots[SLOTS];
	const rf_grants_t *rearmed;
	struct rf_buf *buf;

	begin(scheme);
	buf = rf_pool_get(rig.pool, MIB);
	for (unsigned int i = 0; i < SLOTS; i++)
		cr_assert_eq(sslots(&client, 1, SIZE, &slots[i]), 1);
	for (int round = 0; round < 5; round++) {
		spattern(buf->mem, SLOTS * SIZE, (uint64_t)round);
		start_write(&call, slots, SLOTS, SIZE, buf, slots[0].rkey);
		cr_assert_eq(write_status(&call), RF_ST_OK);
		cr_assert_eq(SRES(&call, 0, write).size, SLOTS * SIZE);
		rearmed = &SRES(&call, 0, write).rearmed;
		cr_assert_eq(rearmed->count, SLOTS);
		for (unsigned int i = 0; i < SLOTS; i++) {
			cr_assert_eq(rearmed->v[i].id, slots[i].id);
			cr_assert_neq(rearmed->v[i].rkey, slots[i].rkey);
			slots[i] = rearmed->v[i];
		}
		cr_assert_eq(sread(&client, &handle, open_id, 0, SLOTS * SIZE,
				   out), SLOTS * SIZE);
		cr_assert_arr_eq(out, buf->mem, SLOTS * SIZE);
	}
	rf_pool_put(buf);
	end();
}

SCENARIO(a_write_without_its_dead_key_stores_nothing)
{
	struct rf_grant slots[2];
	struct rf_buf *buf;

	begin(scheme);
	buf = rf_pool_get(rig.pool, MIB);
	cr_assert_eq(sslots(&client, 1, 50000, &slots[0]), 1);
	cr_assert_eq(sslots(&client, 1, 50000, &slots[1]), 1);
	memset(buf->mem, 7, 50000);

	start_write(&call, slots, 1, 50000, buf, 0);
	cr_assert_eq(write_status(&call), RF_ST_BAD_GRANT);
	cr_assert_eq(SRES(&call, 0, write).rearmed.count, 1);
	slots[0] = SRES(&call, 0, write).rearmed.v[0];

	/* The other slot's key died instead. */
	start_write(&call, slots, 1, 50000, buf, slots[1].rkey);
	cr_assert_eq(write_status(&call), RF_ST_BAD_GRANT);
	slots[0] = SRES(&call, 0, write).rearmed.v[0];
	cr_assert_eq(file_size(), 0);

	start_write(&call, slots, 1, 50000, buf, slots[0].rkey);
	cr_assert_eq(write_status(&call), RF_ST_OK);
	cr_assert_eq(file_size(), 50000);
	rf_pool_put(buf);
	end();
}

SCENARIO(slots_that_are_not_ours_or_not_free_are_refused)
{
	struct rf_grant slot, theirs, forged, grant;
	struct rf_buf *buf;

	begin(scheme);
	sclient_open(&rig, &other, "data");
	buf = rf_pool_get(rig.pool, MIB);
	memset(buf->mem, 7, 50000);
	cr_assert_eq(sslots(&client, 1, 50000, &slot), 1);
	cr_assert_eq(sslots(&other, 1, 50000, &theirs), 1);

	/* Named twice: refused, and re-armed once. */
	{
		struct rf_grant twice[2] = { slot, slot };

		start_write(&call, twice, 2, 1000, buf, slot.rkey);
		cr_assert_eq(write_status(&call), RF_ST_BAD_GRANT);
		cr_assert_eq(SRES(&call, 0, write).rearmed.count, 1);
		slot = SRES(&call, 0, write).rearmed.v[0];
	}
	/* An id of nobody beside a good one. */
	for (unsigned int bit = 0; bit < 32; bit++) {
		struct rf_grant pair[2] = { slot, slot };

		pair[1].id ^= 1u << bit;
		start_write(&call, pair, 2, 1000, buf, slot.rkey);
		call.call.work_count = 1;
		cr_assert_eq(write_status(&call), RF_ST_BAD_GRANT);
		slot = SRES(&call, 0, write).rearmed.v[0];
	}
	/* Larger than the slot. */
	forged = slot;
	start_write(&call, &forged, 1, slot.size + 1, buf, slot.rkey);
	call.call.work_count = 0;
	cr_assert_eq(write_status(&call), RF_ST_BAD_GRANT);
	slot = SRES(&call, 0, write).rearmed.v[0];
	/* A grant to READ is no slot. */
	spattern(data, 20000, 1);
	cr_assert_eq(swrite(&client, &handle, open_id, 0, data, 20000),
		     RF_ST_OK);
	grant = lend(20000);
	start_write(&call, &grant, 1, 1000, buf, 0);
	call.call.work_count = 0;
	cr_assert_eq(write_status(&call), RF_ST_BAD_GRANT);
	cr_assert_eq(sfetch(&client, &grant, out), 0);
	cr_assert_arr_eq(out, data, 20000);
	/* Another session's memory: the fabric itself ends the connection. */
	spoke(&client, &(struct rf_remote){ theirs.addr, theirs.rkey, 10 });
	srig_until(&rig, sclient_is_lost(&client));
	rf_pool_put(buf);
	sclient_bye(&other);
	srig_close(&rig);
}

SCENARIO(data_are_inside_or_in_slots_but_not_both)
{
	struct rf_args args = { .code = RF_OP_SETXATTR };
	struct rf_grant slot;

	begin(scheme);
	memset(data, 7, 100);
	cr_assert_eq(sslots(&client, 1, 50000, &slot), 1);
	args.setxattr.name = (rf_xname_t){ "user.a", 6 };
	args.setxattr.data = (rf_blob_t){ data, 100 };
	args.setxattr.pieces = (rf_pieces_t){ 1, {
		{ slot.id, 100, rf_crc32c(0, data, 100) } } };
	start_op(&call, &client, &args);
	call.call.inv_key = slot.rkey;
	cr_assert_eq(write_status(&call), RF_ST_INVAL);
	cr_assert_eq(SRES(&call, 0, setxattr).rearmed.count, 1);
	slot = SRES(&call, 0, setxattr).rearmed.v[0];

	args = (struct rf_args){ .code = RF_OP_WRITE };
	args.write.open = open_id;
	args.write.data = (rf_blob_t){ data, 100 };
	args.write.pieces = (rf_pieces_t){ 1, {
		{ slot.id, 100, rf_crc32c(0, data, 100) } } };
	start_op(&call, &client, &args);
	call.call.inv_key = slot.rkey;
	cr_assert_eq(write_status(&call), RF_ST_INVAL);
	cr_assert_eq(SRES(&call, 0, write).rearmed.count, 1);
	cr_assert_eq(file_size(), 0);
	end();
}

SCENARIO(a_wrong_checksum_stores_nothing_and_gives_the_slot_back)
{
	struct rf_args args = { .code = RF_OP_WRITE,
				.write = { .open = open_id } };
	struct rf_grant slots[2];
	struct rf_buf *buf;

	begin(scheme);
	buf = rf_pool_get(rig.pool, MIB);
	cr_assert_eq(sslots(&client, 1, 50000, &slots[0]), 1);
	cr_assert_eq(sslots(&client, 1, 50000, &slots[1]), 1);
	memset(buf->mem, 7, 100000);
	args.write.open = open_id;
	args.write.pieces = (rf_pieces_t){ 2, {
		{ slots[0].id, 50000, rf_crc32c(0, buf->mem, 50000) },
		{ slots[1].id, 50000, rf_crc32c(0, buf->mem, 50000) ^ 1 } } };
	start_op(&call, &client, &args);
	scall_fill(&call, &slots[0], buf, 50000);
	scall_fill(&call, &slots[1], buf, 50000);
	call.call.inv_key = slots[0].rkey;
	cr_assert_eq(write_status(&call), RF_ST_BAD_CRC);
	cr_assert_eq(SRES(&call, 0, write).rearmed.count, 2);
	cr_assert_eq(file_size(), 0);
	rf_pool_put(buf);
	end();
}

/* The right is gone before the data are looked at. */
DEVICE_SCENARIO(what_is_written_into_a_slot_after_its_message_ends_the_connection)
{
	struct rf_grant slot;
	struct rf_buf *buf;
	struct rf_remote old;

	begin(scheme);
	buf = rf_pool_get(rig.pool, MIB);
	cr_assert_eq(sslots(&client, 1, MIB, &slot), 1);
	spattern(buf->mem, MIB, 9);
	memcpy(data, buf->mem, MIB);
	old = (struct rf_remote){ slot.addr, slot.rkey, MIB };
	start_write(&call, &slot, 1, MIB, buf, slot.rkey);
	scall_submit(&call);
	spoke(&client, &old);
	srig_until(&rig, call.done && sclient_is_lost(&client));
	cr_assert_eq(srig_staging_free(&rig), srig_staging_total(&rig));
	rf_pool_put(buf);
	/* All of what was checked, or nothing; never what came later. */
	sclient_open(&rig, &client, "data");
	cr_assert_eq(SRUN(&client, &call, 1, &handle,
			  { .code = RF_OP_OPEN, .open = { RF_OPEN_READ } }),
		     RF_ST_OK);
	if (SRES(&call, 0, open).attr.size > 0) {
		cr_assert_eq(sread(&client, &handle,
				   SRES(&call, 0, open).open, 0, MIB, out),
			     MIB);
		cr_assert_arr_eq(out, data, MIB);
	}
	end();
}

SCENARIO(slots_of_a_list_that_stopped_before_them_are_taken_back)
{
	struct rf_args lookup = { .code = RF_OP_LOOKUP,
				  .lookup = { sname("nothing") } };
	struct rf_args args = { .code = RF_OP_WRITE };
	struct rf_args use = { .code = RF_OP_USE };
	struct rf_grant slot;
	struct rf_buf *buf;

	begin(scheme);
	buf = rf_pool_get(rig.pool, MIB);
	cr_assert_eq(sslots(&client, 1, 50000, &slot), 1);
	use.use.handle = client.root;
	args.write.open = open_id;
	args.write.pieces = (rf_pieces_t){ 1, { { slot.id, 100, 0 } } };
	scall_init(&call, &client);
	scall_add(&call, &use);
	scall_add(&call, &lookup);
	scall_add(&call, &args);
	call.call.identity = 1;
	call.call.inv_key = slot.rkey;
	scall_fill(&call, &slot, buf, 100);
	cr_assert_eq(write_status(&call), RF_ST_NOENT);
	srig_until(&rig, srig_staging_free(&rig) == srig_staging_total(&rig));
	rf_pool_put(buf);
	end();
}

SCENARIO(dropped_slots_are_dead_and_their_memory_is_free)
{
	struct rf_grant slot;
	uint8_t ids[8];

	begin(scheme);
	cr_assert_eq(sslots(&client, 1, MIB, &slot), 1);
	rf_store_u32(ids, slot.id);
	rf_store_u32(ids + 4, 0x12345678);
	cr_assert_eq(SRUN(&client, &call, 1, &handle,
			  { .code = RF_OP_DROP_SLOTS,
			    .drop_slots = { { ids, 8 } } }), RF_ST_OK);
	srig_until(&rig, srig_staging_free(&rig) == srig_staging_total(&rig));
	spoke(&client, &(struct rf_remote){ slot.addr, slot.rkey, 10 });
	srig_until(&rig, sclient_is_lost(&client));
	srig_close(&rig);
}

static struct scall taking, killing;
static void (*was_done)(struct rf_call *call, int err, struct rf_dec *reply);

static void submit_both(struct rf_call *self, int err, struct rf_dec *reply)
{
	was_done(self, err, reply);
	scall_submit(&taking);
	scall_submit(&killing);
}

/*
 * The server takes the slot back for one message, and the next one invalidates
 * its key, in one turn of the server: what callbacks submit leaves together.
 */
static void take_back_twice(const struct rf_grant *slot)
{
	const struct rf_args getattr = { .code = RF_OP_GETATTR };

	start_op(&killing, &client, &getattr);
	killing.call.inv_key = slot->rkey;
	start_op(&call, &client, &getattr);
	scall_submit(&call);
	was_done = call.call.done;
	call.call.done = submit_both;
	scall_wait(&taking);
	scall_wait(&killing);
	cr_assert_eq(killing.results[1].status, RF_ST_OK);
}

SCENARIO(a_slot_may_be_invalidated_while_it_is_dropped)
{
	struct rf_grant slot;
	uint8_t id[4];

	begin(scheme);
	for (int i = 0; i < 10; i++) {
		cr_assert_eq(sslots(&client, 1, MIB, &slot), 1);
		rf_store_u32(id, slot.id);
		start_op(&taking, &client, &(struct rf_args){
			.code = RF_OP_DROP_SLOTS, .drop_slots = { { id, 4 } } });
		take_back_twice(&slot);
		cr_assert_eq(taking.results[1].status, RF_ST_OK);
		srig_until(&rig, srig_staging_free(&rig) ==
			   srig_staging_total(&rig));
	}
	end();
}

SCENARIO(a_slot_may_be_invalidated_while_a_write_of_it_is_refused)
{
	struct rf_grant slot;
	struct rf_buf *buf;

	begin(scheme);
	buf = rf_pool_get(rig.pool, MIB);
	cr_assert_eq(sslots(&client, 1, MIB, &slot), 1);
	start_write(&taking, &slot, 1, 1000, buf, 0);
	take_back_twice(&slot);
	cr_assert_eq(taking.results[1].status, RF_ST_BAD_GRANT);
	rf_pool_put(buf);
	end();
}

SCENARIO(one_session_cannot_take_all_slots)
{
	struct rf_grant slots[RF_GRANTS_MAX];
	unsigned int got, total = 0;
	uint64_t bytes = 0;

	begin(scheme);
	sclient_open(&rig, &other, "data");
	for (int i = 0; i < 20; i++) {
		got = sslots(&client, RF_GRANTS_MAX, MIB, slots);
		for (unsigned int k = 0; k < got; k++)
			bytes += slots[k].size;
		total += got;
	}
	cr_assert_leq(total, 64);
	cr_assert_leq(bytes, rig.server->staging.session_bytes / 2);
	cr_assert_gt(sslots(&other, 1, MIB, slots), 0);
	/* And reading goes on. */
	spattern(data, 4096, 1);
	for (uint64_t at = 0; at < 200000; at += 4096)
		cr_assert_eq(swrite(&client, &handle, open_id, at, data, 4096),
			     RF_ST_OK);
	cr_assert_eq(sread(&client, &handle, open_id, 0, 200000, out), 200000);
	sclient_bye(&other);
	end();
}

/* ---- answers that have not left ----------------------------------------- */

static void add_use(struct scall *self)
{
	const struct rf_args use = { .code = RF_OP_USE, .use = { handle } };

	scall_add(self, &use);
}

static void add_mode(struct scall *self, uint32_t mode)
{
	const struct rf_args args = {
		.code = RF_OP_SETATTR,
		.setattr = { .valid = RF_SET_MODE, .mode = mode },
	};

	scall_add(self, &args);
}

static void drop_slot(struct scall *self, uint32_t id)
{
	static uint8_t ids[4];
	const struct rf_args args = { .code = RF_OP_DROP_SLOTS,
				      .drop_slots = { { ids, 4 } } };

	rf_store_u32(ids, id);
	scall_add(self, &args);
}

/* Right behind the WRITE, whose answer with the new key is still to leave. */
SCENARIO(a_slot_that_is_being_rearmed_cannot_be_dropped)
{
	static struct scall drop;
	struct rf_grant slot, more[4];
	struct rf_buf *buf;

	begin(scheme);
	buf = rf_pool_get(rig.pool, MIB);
	memset(buf->mem, 7, 50000);
	cr_assert_eq(sslots(&client, 1, 50000, &slot), 1);
	start_write(&call, &slot, 1, 50000, buf, slot.rkey);
	scall_init(&drop, &client);
	add_use(&drop);
	drop_slot(&drop, slot.id);
	scall_submit(&call);
	scall_submit(&drop);
	scall_wait(&call);
	scall_wait(&drop);
	cr_assert_eq(call.results[1].status, RF_ST_OK);
	cr_assert_eq(drop.results[1].status, RF_ST_OK);
	cr_assert_eq(SRES(&call, 0, write).rearmed.count, 1);
	/* Its window must not be lent a second time. */
	cr_assert_eq(sslots(&client, 4, 50000, more), 4);
	for (unsigned int i = 0; i < 4; i++)
		cr_assert_eq(spoke(&client, &(struct rf_remote){
			more[i].addr, more[i].rkey, 100 }), 0);
	rf_pool_put(buf);
	end();
}

SCENARIO(a_slot_that_is_being_rearmed_cannot_be_named_again)
{
	static struct scall again;
	struct rf_grant slots[2], pair[2];
	struct rf_buf *buf;

	begin(scheme);
	buf = rf_pool_get(rig.pool, MIB);
	memset(buf->mem, 7, 100000);
	cr_assert_eq(sslots(&client, 1, 50000, &slots[0]), 1);
	cr_assert_eq(sslots(&client, 1, 50000, &slots[1]), 1);
	start_write(&call, &slots[0], 1, 50000, buf, slots[0].rkey);
	pair[0] = slots[1];
	pair[1] = slots[0];
	start_write(&again, pair, 2, 1000, buf, slots[1].rkey);
	again.call.work_count = 1;
	scall_submit(&call);
	scall_submit(&again);
	scall_wait(&call);
	scall_wait(&again);
	cr_assert_eq(call.results[1].status, RF_ST_OK);
	cr_assert_eq(SRES(&call, 0, write).rearmed.count, 1);
	/* Over loop the second may be late enough to find it lent again. */
	if (again.results[1].status == RF_ST_OK) {
		cr_assert(rig.is_loop);
		cr_assert_eq(SRES(&again, 0, write).rearmed.count, 2);
	} else {
		cr_assert_eq(again.results[1].status, RF_ST_BAD_GRANT);
		cr_assert_eq(SRES(&again, 0, write).rearmed.count, 1);
		cr_assert_eq(SRES(&again, 0, write).rearmed.v[0].id,
			     slots[1].id);
	}
	/* Nothing was lent twice. */
	cr_assert_eq(sslots(&client, 1, 50000, &slots[0]), 1);
	cr_assert_eq(spoke(&client, &(struct rf_remote){
		slots[0].addr, slots[0].rkey, 100 }), 0);
	rf_pool_put(buf);
	end();
}

/* Its id is easy to guess; its data would go to whoever gets the buffer. */
SCENARIO(a_grant_cannot_be_returned_before_it_was_given)
{
	static struct scall early;
	struct rf_grant first, second;

	begin(scheme);
	fill();
	first = lend(100000);
	sreturn(&client, first.id);
	srig_until(&rig, srig_staging_free(&rig) == srig_staging_total(&rig));
	start_read(&call, &client, open_id, 0, 100000);
	scall_init(&early, &client);
	/* The place is the next free one; each index is tried. */
	for (uint32_t i = 0; i < 60; i++)
		scall_return(&early, 1u << 12 | i);
	scall_submit(&early);
	scall_wait(&call);
	scall_wait(&early);
	second = SRES(&call, 0, read).grants.v[0];
	cr_assert_eq(second.id >> 12, 1);
	cr_assert_lt(second.id & 4095, 60);
	/* Over loop the return may be late enough to be a good one. */
	if (!rig.is_loop) {
		cr_assert_eq(sfetch(&client, &second, out), 0);
		cr_assert_arr_eq(out, data, 100000);
	}
	first = lend(100000);
	cr_assert_eq(sfetch(&client, &first, out), 0);
	cr_assert_arr_eq(out, data, 100000);
	end();
}

/* ---- messages that run again with slots in hand -------------------------- */

static void start_mode_and_write(struct scall *self,
				 const rf_pieces_t *pieces, uint32_t inv_key)
{
	struct rf_args args = { .code = RF_OP_WRITE,
				.write = { .open = open_id,
					   .pieces = *pieces } };

	scall_init(self, &client);
	add_use(self);
	add_mode(self, 0600);
	scall_add(self, &args);
	self->call.identity = 1;
	self->call.inv_key = inv_key;
}

SCENARIO(slots_are_checked_also_when_the_message_runs_again)
{
	struct rf_grant slots[2];
	rf_pieces_t pieces;

	begin(scheme);
	/* Without checksums, or they would refuse the bytes of others. */
	sclient_session(&client)->uses_crc = false;
	cr_assert_eq(sslots(&client, 1, 5000, &slots[0]), 1);
	cr_assert_eq(sslots(&client, 1, 5000, &slots[1]), 1);
	pieces = (rf_pieces_t){ 2, { { slots[0].id, 5000, 0 },
				     { slots[1].id, 200000, 0 } } };
	start_mode_and_write(&call, &pieces, slots[0].rkey);
	cr_assert_eq(write_status(&call), RF_ST_BAD_GRANT);
	cr_assert_eq(SRES(&call, 1, write).rearmed.count, 2);
	cr_assert_gt(rig.server->figures.rewinds, 0);
	memcpy(slots, SRES(&call, 1, write).rearmed.v, sizeof(slots));

	pieces = (rf_pieces_t){ 3, { { slots[0].id, 5000, 0 },
				     { slots[1].id, 5000, 0 },
				     { slots[1].id, 5000, 0 } } };
	start_mode_and_write(&call, &pieces, slots[0].rkey);
	cr_assert_eq(write_status(&call), RF_ST_BAD_GRANT);
	memcpy(slots, SRES(&call, 1, write).rearmed.v, sizeof(slots));

	/* The first key was to die with the message. */
	pieces.count = 2;
	start_mode_and_write(&call, &pieces, 0);
	cr_assert_eq(write_status(&call), RF_ST_BAD_GRANT);
	cr_assert_eq(file_size(), 0);
	end();
}

SCENARIO(slots_of_an_operation_that_the_second_run_does_not_reach_come_back)
{
	static struct scall rival;
	struct rf_args create = { .code = RF_OP_CREATE, .create = {
		sname("x"), 0644, RW | RF_OPEN_EXCL, 0 } };
	struct rf_args write = { .code = RF_OP_WRITE };
	struct rf_args use = { .code = RF_OP_USE };
	struct rf_grant slots[2];

	begin(scheme);
	use.use.handle = client.root;
	cr_assert_eq(sslots(&client, 1, 50000, &slots[0]), 1);
	cr_assert_eq(sslots(&client, 1, 50000, &slots[1]), 1);
	write.write.pieces = (rf_pieces_t){ 2, { { slots[0].id, 100, 0 },
						 { slots[1].id, 100, 0 } } };
	scall_init(&call, &client);
	scall_add(&call, &use);
	scall_add(&call, &create);
	scall_add(&call, &write);
	call.call.identity = 1;
	call.call.inv_key = slots[0].rkey;
	scall_init(&rival, &client);
	scall_add(&rival, &use);
	scall_add(&rival, &create);
	rival.call.identity = 1;
	scall_submit(&call);
	scall_submit(&rival);
	scall_wait(&call);
	scall_wait(&rival);
	cr_assert_eq(call.results[1].status, RF_ST_EXIST);
	cr_assert_eq(rival.results[1].status, RF_ST_OK);
	srig_until(&rig, srig_staging_free(&rig) == srig_staging_total(&rig));
	end();
}

/* ---- pressure ----------------------------------------------------------- */

enum { READS = 14 };
static struct scall reads[READS];

static unsigned int done_count(void)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < READS; i++)
		count += reads[i].done;
	return count;
}

static unsigned int queued_count(void)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < READS; i++)
		count += reads[i].queued && !reads[i].done;
	return count;
}

/* The share is 8 MiB: the ninth READ of 1 MiB must wait for a return. */
static void press(void)
{
	for (unsigned int i = 0; i < READS; i++)
		start_read(&reads[i], &client, open_id, 0, MIB);
	srig_until(&rig, done_count() == 8 && queued_count() == READS - 8);
}

SCENARIO(reads_beyond_the_share_are_queued_and_finished_in_turn)
{
	begin(scheme);
	fill();
	press();
	for (unsigned int i = 0; i < READS; i++) {
		srig_until(&rig, reads[i].done);
		cr_assert_eq(reads[i].results[1].status, RF_ST_OK);
		cr_assert_eq(sfetch(&client, &SRES(&reads[i], 0, read)
				    .grants.v[0], out), 0);
		cr_assert_arr_eq(out, data, MIB);
		sreturn(&client, SRES(&reads[i], 0, read)
				       .grants.v[0].id);
	}
	end();
}

SCENARIO(a_queued_read_can_be_cancelled)
{
	struct scall *cancel = malloc(sizeof(*cancel));
	unsigned int last = READS - 1;

	begin(scheme);
	fill();
	press();
	for (unsigned int i = 0; i < READS; i++)
		if (reads[i].queued && !reads[i].done)
			last = i;
	scall_init(cancel, &client);
	scall_add(cancel, &(struct rf_args){ .code = RF_OP_CANCEL,
		.cancel = { reads[last].call.ticket } });
	scall_add(cancel, &(struct rf_args){ .code = RF_OP_CANCEL,
		.cancel = { 0x55555555 } });
	cancel->call.is_control = true;
	scall_submit(cancel);
	scall_wait(cancel);
	cr_assert_eq(cancel->results[0].status, RF_ST_OK);
	cr_assert_eq(cancel->results[1].status, RF_ST_OK);
	srig_until(&rig, reads[last].done);
	cr_assert_eq(reads[last].results[1].status, RF_ST_CANCELED);
	cr_assert_eq(queued_count(), READS - 9);
	free(cancel);
	sclient_cut(&client);
	srig_close(&rig);
}

static bool waits_for_staging(void)
{
	const struct session *session = sclient_session(&client);

	for (unsigned int i = 0; i < session->exec_count; i++)
		if (session->execs[i].state == EXEC_WAITS_STAGING)
			return true;
	return false;
}

/*
 * What a request sets free must not let another run while the first has a batch
 * open: both change the file, and both changes must be there.
 */
SCENARIO(a_request_that_frees_staging_finishes_before_those_it_lets_in)
{
	static struct scall drop, change;
	const struct rf_args read = { .code = RF_OP_READ,
				      .read = { open_id, 0, MIB } };
	const struct rf_args times = { .code = RF_OP_SETATTR,
		.setattr = { .valid = RF_SET_MTIME,
			     .mtime = { 1234567, 89 } } };
	struct rf_args wait = read;
	struct rf_grant slot, grants[8];
	unsigned int count = 0;

	begin(scheme);
	fill();
	cr_assert_eq(sslots(&client, 1, MIB, &slot), 1);
	while (count < 7)
		grants[count++] = lend(MIB);
	wait.read.open = open_id;
	start_op(&change, &client, &wait);
	scall_add(&change, &times);
	scall_submit(&change);
	srig_until(&rig, waits_for_staging());
	/* It is going to change something: its answer is its slot's. */
	cr_assert_not(change.queued);

	/* A dead key: its memory is free at once, with the batch open. */
	scall_init(&drop, &client);
	add_use(&drop);
	add_mode(&drop, 0640);
	drop_slot(&drop, slot.id);
	drop.call.identity = 1;
	drop.call.inv_key = slot.rkey;
	scall_submit(&drop);
	scall_wait(&drop);
	scall_wait(&change);
	cr_assert_eq(drop.results[2].status, RF_ST_OK);
	cr_assert_eq(change.results[2].status, RF_ST_OK);
	cr_assert_eq(SRUN(&client, &call, 1, &handle,
			  { .code = RF_OP_GETATTR }), RF_ST_OK);
	cr_assert_eq(SRES(&call, 0, getattr).attr.mode & 07777, 0640);
	cr_assert_eq(SRES(&call, 0, getattr).attr.mtime.seconds, 1234567);
	for (unsigned int i = 0; i < count; i++)
		rf_client_return_grant(client.client, grants[i].id);
	rf_client_return_grant(client.client,
			       SRES(&change, 0, read).grants.v[0].id);
	end();
}

SCENARIO(a_request_that_cancels_another_finishes_first)
{
	static struct scall cancel, change;
	struct rf_args args = { .code = RF_OP_READ };
	struct rf_grant grants[8];

	begin(scheme);
	fill();
	for (unsigned int i = 0; i < 8; i++)
		grants[i] = lend(MIB);
	args.read = (struct rf_read_args){ open_id, 0, MIB };
	start_op(&change, &client, &args);
	scall_submit(&change);
	srig_until(&rig, change.queued);
	scall_init(&cancel, &client);
	add_use(&cancel);
	add_mode(&cancel, 0640);
	args = (struct rf_args){ .code = RF_OP_CANCEL,
				 .cancel = { change.call.ticket } };
	scall_add(&cancel, &args);
	add_mode(&cancel, 0600);
	cancel.call.identity = 1;
	scall_submit(&cancel);
	scall_wait(&cancel);
	scall_wait(&change);
	cr_assert_eq(cancel.results[3].status, RF_ST_OK);
	cr_assert_eq(change.results[1].status, RF_ST_CANCELED);
	for (unsigned int i = 0; i < 8; i++)
		rf_client_return_grant(client.client, grants[i].id);
	end();
}

SCENARIO(small_reads_pass_while_large_ones_wait)
{
	begin(scheme);
	fill();
	press();
	cr_assert_eq(sread(&client, &handle, open_id, 100, 4096, out), 4096);
	cr_assert_arr_eq(out, data + 100, 4096);
	sclient_cut(&client);
	srig_close(&rig);
}

SCENARIO(a_lost_session_that_waits_gives_all_back)
{
	begin(scheme);
	fill();
	press();
	sclient_cut(&client);
	cr_assert_eq(srig_staging_free(&rig), srig_staging_total(&rig));
	sclient_open(&rig, &client, "data");
	end();
}

/* They have changed nothing, and can be sent again after the restart. */
SCENARIO(a_server_that_stops_does_not_answer_what_waits)
{
	begin(scheme);
	fill();
	press();
	server_stop(rig.server, NULL);
	srig_until(&rig, done_count() == READS);
	for (unsigned int i = 0; i < READS; i++)
		if (reads[i].queued)
			cr_assert_lt(reads[i].err, 0);
	srig_until(&rig, client.closed && rig.server->is_stopped);
	cr_assert_eq(srig_staging_free(&rig), srig_staging_total(&rig));
	srig_close(&rig);
}

/* Cut at a random moment in the middle of everything, many times. */
SCENARIO(whenever_a_session_is_lost_all_memory_comes_back)
{
	enum { ROUNDS = 25, OPS = 10 };
	static struct scall calls[OPS];
	const char *text = getenv("RF_SEED");
	unsigned int seed = text ? (unsigned int)strtoul(text, NULL, 10)
				 : (unsigned int)time(NULL);

	printf("seed %u\n", seed);
	fflush(stdout);
	srand(seed);
	begin(scheme);
	fill();
	for (int round = 0; round < ROUNDS; round++) {
		struct rf_buf *buf = rf_pool_get(rig.pool, MIB);
		struct rf_grant slots[2] = { { 0 } };
		unsigned int turns = (unsigned int)rand() % 60, count = 0;

		memset(buf->mem, round, MIB);
		cr_assert_eq(SRUN(&client, &call, 1, &handle,
			{ .code = RF_OP_OPEN, .open = { RW } }), RF_ST_OK);
		open_id = SRES(&call, 0, open).open;
		cr_assert_eq(sslots(&client, 1, 200000, &slots[0]), 1);
		cr_assert_eq(sslots(&client, 1, 200000, &slots[1]), 1);
		start_write(&calls[count], slots, 2, 200000, buf,
			    slots[0].rkey);
		scall_submit(&calls[count++]);
		while (count < OPS) {
			const struct rf_args cut = {
				.code = RF_OP_SETATTR,
				.setattr = { .valid = RF_SET_SIZE,
					     .size = (uint64_t)rand() % MIB },
			};

			if (rand() % 3) {
				start_read(&calls[count], &client, open_id, 0,
					   MIB);
			} else {
				start_op(&calls[count], &client, &cut);
				scall_submit(&calls[count]);
			}
			count++;
		}
		while (turns-- > 0)
			srig_turn(&rig);
		if (rand() % 2) {
			sclient_cut(&client);
		} else {
			rf_channel_close(sclient_session(&client)->channel);
			srig_until(&rig, sclient_is_lost(&client));
			session_expire(sclient_session(&client), NULL);
		}
		for (unsigned int i = 0; i < OPS; i++)
			cr_assert(calls[i].done);
		cr_assert_eq(srig_staging_free(&rig),
			     srig_staging_total(&rig));
		cr_assert_eq(rig.server->active, 0);
		rf_pool_put(buf);
		sclient_open(&rig, &client, "data");
	}
	end();
}

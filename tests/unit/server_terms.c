/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a live client does not give back: when it is taken, and what becomes
 * of a client that comes too late. */
#include "tests/common/server_rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define SCENARIO(name)							\
	static void name(const char *scheme);				\
	Test(server_terms, name##_over_loop) { name("loop"); }		\
	Test(server_terms, name##_over_iwarp) { name("iwarp"); }	\
	static void name(const char *scheme)

/* On a device too. */
#define DEVICE_SCENARIO(name)						\
	static void name(const char *scheme);				\
	Test(server_terms, name##_over_verbs)				\
	{								\
		SKIP_WITHOUT_DEVICE(RF_LEVEL_WINDOW);			\
		name("verbs");						\
	}								\
	SCENARIO(name)

enum {
	RW = RF_OPEN_READ | RF_OPEN_WRITE,
	MIB = 1 << 20,
	TERM_MS = 300,
	LARGE = 12,		/* buffers of 1 MiB, of staging's 16 */
	SHARE = 8,		/* of them, one session's */
};

static struct srig rig;
static struct sclient client, other;
static struct scall call, reads[LARGE];
static rf_handle_t handle;
static uint32_t open_id, other_open;
static uint8_t data[MIB], out[MIB];

static void begin(const char *scheme, const char *grant_ms)
{
	srig_init(&rig, scheme);
	srig_set(&rig, "grant-ms", grant_ms);
	srig_start(&rig);
	cr_assert_eq(rig.server->staging.classes[2].count, LARGE);
	sclient_open(&rig, &client, "data");
	sclient_open(&rig, &other, "data");
	handle = smake(&client, "a", RW, &open_id);
	cr_assert_eq(SRUN(&other, &call, 1, &handle,
			  { .code = RF_OP_OPEN, .open = { RW } }), RF_ST_OK);
	other_open = SRES(&call, 0, open).open;
	spattern(data, sizeof(data), 1);
	cr_assert_eq(swrite(&client, &handle, open_id, 0, data, sizeof(data)),
		     RF_ST_OK);
	/* The slots that this took are given up, so that all is free. */
	sclient_cut(&client);
	srig_until(&rig, srig_staging_free(&rig) == srig_staging_total(&rig));
	sclient_open(&rig, &client, "data");
	cr_assert_eq(SRUN(&client, &call, 1, &handle,
			  { .code = RF_OP_OPEN, .open = { RW } }), RF_ST_OK);
	open_id = SRES(&call, 0, open).open;
}

static void start_read(struct scall *self, struct sclient *who, uint32_t open)
{
	const struct rf_args use = { .code = RF_OP_USE, .use = { handle } };
	const struct rf_args read = { .code = RF_OP_READ,
				      .read = { open, 0, MIB } };

	scall_init(self, who);
	scall_add(self, &use);
	scall_add(self, &read);
	self->call.identity = 1;
	scall_submit(self);
}

/* Have a READ's grant and keep it. */
static struct rf_grant borrow(struct scall *self, struct sclient *who,
			      uint32_t open)
{
	start_read(self, who, open);
	scall_wait(self);
	cr_assert_eq(self->results[1].status, RF_ST_OK);
	return SRES(self, 0, read).grants.v[0];
}

/* All of the large buffers are lent. */
static void borrow_all(struct rf_grant grants[LARGE])
{
	for (unsigned int i = 0; i < LARGE; i++)
		grants[i] = i < SHARE ? borrow(&reads[i], &client, open_id)
				      : borrow(&reads[i], &other, other_open);
}

static uint64_t refusals(void)
{
	struct rf_fabric_stats stats;

	rf_fabric_stats(rig.server->transports[0].fabric, &stats);
	return stats.rights_refused;
}

/* Who is told of it, the server or the client, differs: FABRIC.md. */
static void expect_refusal(int err, uint64_t before)
{
	const struct rf_traits *traits =
		rf_fabric_traits(rig.server->transports[0].fabric);

	cr_assert_neq(err, 0);
	srig_until(&rig, sclient_is_lost(&client));
	if (traits->tells_owner)
		cr_assert_gt(refusals(), before);
	else if (traits->tells_offender)
		cr_assert_eq(err, -EACCES);
}

static void take_and_check(struct sclient *who, struct scall *self)
{
	const struct rf_grant *grant = &SRES(self, 0, read).grants.v[0];

	cr_assert_eq(self->results[1].status, RF_ST_OK);
	cr_assert_eq(sfetch(who, grant, out), 0);
	cr_assert_arr_eq(out, data, MIB);
	sreturn(who, grant->id);
}

/* What is owed to a session that got no slot is not owed for ever, nor twice for
 * one slot. */
Test(server_terms, a_slot_is_owed_only_to_who_still_asks)
{
	struct staging *staging;
	struct lender *hungry, *rich;

	begin("loop", "300");
	staging = &rig.server->staging;
	hungry = &sclient_session(&other)->lender;
	rich = &sclient_session(&client)->lender;
	rich->grants.slot_count += 2;
	cr_assert_not(staging_keeps_slot(rich));
	for (unsigned int i = 0; i < 10; i++)
		staging_deny_slots(hungry);
	cr_assert(staging_keeps_slot(rich));
	cr_assert_not(staging_keeps_slot(rich));
	/* A second later it has not asked again: it went, or has some. */
	hungry->owed_again_ns = 0;
	staging_deny_slots(hungry);
	staging->denied_ns -= UINT64_C(1000000000);
	cr_assert_not(staging_keeps_slot(rich));
	cr_assert_eq(staging->owed, 0);
	rich->grants.slot_count -= 2;
	sclient_bye(&client);
	sclient_bye(&other);
	srig_close(&rig);
}

/* ---- grants to READ ------------------------------------------------------ */

SCENARIO(a_client_is_told_how_long_a_grant_is_its_own)
{
	begin(scheme, "300");
	cr_assert_eq(client.reply.grant_ms, 300);
	sclient_bye(&client);
	sclient_bye(&other);
	srig_close(&rig);
}

/*
 * The memory is short, a READ is late: its key is dead, the refusal is counted
 * or told, and who has the memory now is not disturbed.
 */
DEVICE_SCENARIO(a_read_past_its_term_under_pressure_finds_a_dead_key)
{
	static struct scall waiting;
	struct rf_grant grants[LARGE];
	uint64_t before;

	begin(scheme, "300");
	borrow_all(grants);
	start_read(&waiting, &other, other_open);
	srig_until(&rig, waiting.done);
	cr_assert_geq(rig.server->staging.taken_back, 1);
	before = refusals();
	expect_refusal(sfetch(&client, &grants[0], out), before);
	take_and_check(&other, &waiting);
	sclient_bye(&other);
	srig_close(&rig);
}

SCENARIO(within_its_term_a_grant_is_kept_whoever_waits)
{
	static struct scall waiting;
	struct rf_grant grants[LARGE];

	begin(scheme, "60000");
	borrow_all(grants);
	start_read(&waiting, &other, other_open);
	srig_until(&rig, waiting.queued);
	cr_assert_eq(sfetch(&client, &grants[0], out), 0);
	cr_assert_arr_eq(out, data, MIB);
	cr_assert_eq(rig.server->staging.taken_back, 0);
	sreturn(&client, grants[0].id);
	srig_until(&rig, waiting.done);
	take_and_check(&other, &waiting);
	sclient_bye(&client);
	sclient_bye(&other);
	srig_close(&rig);
}

SCENARIO(past_its_term_a_grant_is_kept_while_nobody_needs_it)
{
	struct rf_grant grants[LARGE];
	uint64_t end_ns;

	begin(scheme, "300");
	borrow_all(grants);
	end_ns = rf_now_ns() + 2 * TERM_MS * UINT64_C(1000000);
	srig_until(&rig, rf_now_ns() > end_ns);
	cr_assert_eq(rig.server->staging.taken_back, 0);
	for (unsigned int i = 0; i < LARGE; i++) {
		struct sclient *who = i < SHARE ? &client : &other;

		cr_assert_eq(sfetch(who, &grants[i], out), 0);
		cr_assert_arr_eq(out, data, MIB);
	}
	sclient_bye(&client);
	sclient_bye(&other);
	srig_close(&rig);
}

SCENARIO(a_client_that_used_up_its_own_share_gets_it_back)
{
	static struct scall waiting;

	begin(scheme, "300");
	for (unsigned int i = 0; i < SHARE; i++)
		borrow(&reads[i], &client, open_id);
	start_read(&waiting, &client, open_id);
	srig_until(&rig, waiting.done);
	take_and_check(&client, &waiting);
	sclient_bye(&client);
	sclient_bye(&other);
	srig_close(&rig);
}

DEVICE_SCENARIO(a_return_of_what_was_taken_back_is_no_fault)
{
	static struct scall waiting;
	struct rf_grant grants[LARGE];

	begin(scheme, "300");
	borrow_all(grants);
	start_read(&waiting, &other, other_open);
	srig_until(&rig, waiting.done);
	take_and_check(&other, &waiting);
	for (unsigned int i = 0; i < LARGE; i++)
		sreturn(i < SHARE ? &client : &other, grants[i].id);
	srig_until(&rig, srig_staging_free(&rig) == srig_staging_total(&rig));
	cr_assert_eq(rig.server->staging.bad_returns, 0);
	cr_assert_eq(sread(&client, &handle, open_id, 0, MIB, out), MIB);
	sclient_bye(&client);
	sclient_bye(&other);
	srig_close(&rig);
}

/* ---- slots --------------------------------------------------------------- */

/* Take slots until there are none of any size for another session. */
static unsigned int take_all_slots(struct rf_grant *slots, unsigned int room)
{
	unsigned int count = 0, got;

	do {
		got = sslots(&client, RF_GRANTS_MAX, STAGING_SMALL,
			     slots + count);
		count += got;
		cr_assert_leq(count + RF_GRANTS_MAX, room);
	} while (got > 0);
	return count;
}

/* Small slots, so that the share of one session is no limit before the class. */
SCENARIO(idle_slots_are_taken_back_for_a_session_that_has_none)
{
	struct rf_grant slots[128], theirs[RF_GRANTS_MAX];
	unsigned int count;

	begin(scheme, "300");
	count = take_all_slots(slots, 128);
	cr_assert_gt(count, 1);
	cr_assert_eq(sslots(&other, 1, STAGING_SMALL, theirs), 0);
	srig_until(&rig, sslots(&other, 1, STAGING_SMALL, theirs) == 1);
	cr_assert_geq(rig.server->staging.taken_back, 1);
	cr_assert_eq(spoke(&other, &(struct rf_remote){
		theirs[0].addr, theirs[0].rkey, 100 }), 0);
	spoke(&client, &(struct rf_remote){ slots[0].addr, slots[0].rkey,
					    100 });
	srig_until(&rig, sclient_is_lost(&client));
	sclient_bye(&other);
	srig_close(&rig);
}

/* A WRITE of one slot; how many came back. */
static unsigned int write_slot(struct rf_grant *slot, struct rf_buf *buf)
{
	const struct rf_args use = { .code = RF_OP_USE, .use = { handle } };
	struct rf_args args = { .code = RF_OP_WRITE };

	args.write.open = open_id;
	args.write.pieces = (rf_pieces_t){ 1, { {
		slot->id, 10000, rf_crc32c(0, buf->mem, 10000) } } };
	scall_init(&call, &client);
	scall_add(&call, &use);
	scall_add(&call, &args);
	scall_fill(&call, slot, buf, 10000);
	call.call.identity = 1;
	call.call.inv_key = slot->rkey;
	scall_submit(&call);
	scall_wait(&call);
	cr_assert_eq(call.results[1].status, RF_ST_OK);
	if (SRES(&call, 0, write).rearmed.count > 0)
		*slot = SRES(&call, 0, write).rearmed.v[0];
	return SRES(&call, 0, write).rearmed.count;
}

SCENARIO(a_busy_session_gives_a_slot_to_one_that_has_none)
{
	struct rf_grant slots[128], theirs[RF_GRANTS_MAX];
	struct rf_buf *buf;

	/* No slot is ever old enough. */
	begin(scheme, "60000");
	buf = rf_pool_get(rig.pool, MIB);
	memset(buf->mem, 7, 10000);
	cr_assert_gt(take_all_slots(slots, 128), 1);
	cr_assert_eq(write_slot(&slots[0], buf), 1);
	cr_assert_eq(sslots(&other, 1, STAGING_SMALL, theirs), 0);
	cr_assert_eq(write_slot(&slots[0], buf), 0, "this one is owed");
	cr_assert_eq(write_slot(&slots[1], buf), 1);
	cr_assert_eq(sslots(&other, 1, STAGING_SMALL, theirs), 1);
	cr_assert_eq(rig.server->staging.taken_back, 0);
	rf_pool_put(buf);
	sclient_bye(&client);
	sclient_bye(&other);
	srig_close(&rig);
}

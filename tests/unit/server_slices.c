/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server on a device without windows: each connection has a slice of memory,
 * and what a client can still reach is not what is stored.
 */
#include "tests/common/server_rig.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* On a device too. */
#define SCENARIO(name)							\
	static void name(const char *scheme);				\
	Test(server_slices, name##_over_loop) { name("loop-session"); }	\
	Test(server_slices, name##_over_verbs)				\
	{								\
		SKIP_WITHOUT_DEVICE(RF_LEVEL_SESSION);			\
		name("verbs");						\
	}								\
	static void name(const char *scheme)

enum {
	RW = RF_OPEN_READ | RF_OPEN_WRITE,
	MIB = 1 << 20,
	RACE_NS = 50000,	/* about what checking takes */
	LATE_SIZE = 4096,
};

static struct srig rig;
static struct sclient client, other;
static struct scall call;
static rf_handle_t handle;
static uint32_t open_id;
static uint8_t data[MIB], out[MIB];

static void begin(const char *scheme, const char *slices)
{
	srig_init(&rig, scheme);
	srig_set(&rig, "slices", slices);
	srig_start(&rig);
	sclient_open(&rig, &client, "data");
	handle = smake(&client, "a", RW, &open_id);
	spattern(data, sizeof(data), 1);
}

static void end(void)
{
	sclient_bye(&client);
	srig_close(&rig);
}

static struct slices *slices(void)
{
	return &rig.server->transports[0].slices;
}

static bool all_are_free(void)
{
	return slices()->free_count == slices()->count;
}

static bool is_zero(const uint8_t *bytes, size_t size)
{
	return bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0;
}

/* ---- the way of the data ------------------------------------------------ */

SCENARIO(data_go_there_and_back_without_windows)
{
	begin(scheme, "2");
	cr_assert(client.reply.flags & RF_HELLO_NO_WINDOWS);
	for (uint32_t size = MIB; size > 5000; size /= 3) {
		data[0]++;
		cr_assert_eq(swrite(&client, &handle, open_id, 0, data, size),
			     RF_ST_OK);
		cr_assert_eq(sread(&client, &handle, open_id, 0, size, out),
			     size);
		cr_assert_arr_eq(out, data, size);
	}
	end();
}

Test(server_slices, a_server_with_windows_says_nothing_of_it)
{
	srig_open(&rig, "loop");
	sclient_open(&rig, &client, "data");
	cr_assert_eq(client.reply.flags & RF_HELLO_NO_WINDOWS, 0);
	end();
}

SCENARIO(more_reads_than_a_slice_holds_are_finished_in_turn)
{
	enum { READS = 12 };
	static struct scall reads[READS];
	struct rf_args read = { .code = RF_OP_READ };

	begin(scheme, "2");
	cr_assert_eq(swrite(&client, &handle, open_id, 0, data, MIB),
		     RF_ST_OK);
	read.read = (struct rf_read_args){ open_id, 0, MIB };
	for (unsigned int i = 0; i < READS; i++) {
		scall_init(&reads[i], &client);
		scall_add(&reads[i], &(struct rf_args){
			.code = RF_OP_USE, .use = { handle } });
		scall_add(&reads[i], &read);
		reads[i].call.identity = 1;
		scall_submit(&reads[i]);
	}
	for (unsigned int i = 0; i < READS; i++) {
		const struct rf_grant *grant;

		srig_until(&rig, reads[i].done);
		cr_assert_eq(reads[i].results[1].status, RF_ST_OK);
		grant = &SRES(&reads[i], 0, read).grants.v[0];
		cr_assert_eq(sfetch(&client, grant, out), 0);
		cr_assert_arr_eq(out, data, MIB);
		sreturn(&client, grant->id);
	}
	end();
}

/* ---- what is stored was checked ----------------------------------------- */

struct racer {
	pthread_t thread;
	uint8_t *at;			/* a byte of the slot's */
	uint8_t right;
	bool is_over;
};

/* A peer that goes on writing into the slot, as its right lets it. */
static void *race(void *arg)
{
	struct racer *racer = arg;

	while (!__atomic_load_n(&racer->is_over, __ATOMIC_RELAXED)) {
		bool is_right = rf_now_ns() / RACE_NS % 2;

		__atomic_store_n(racer->at, is_right ? racer->right
						     : (uint8_t)~racer->right,
				 __ATOMIC_RELAXED);
	}
	return NULL;
}

/* A WRITE of a slot that was filled before, or will be. */
static void start_write(const struct rf_grant *slot, uint32_t crc)
{
	const struct rf_args use = { .code = RF_OP_USE, .use = { handle } };
	struct rf_args args = { .code = RF_OP_WRITE };

	args.write.open = open_id;
	args.write.pieces = (rf_pieces_t){ 1, { { slot->id, MIB, crc } } };
	scall_init(&call, &client);
	scall_add(&call, &use);
	scall_add(&call, &args);
	call.call.identity = 1;
}

/* Its status. */
static unsigned int end_write(struct rf_grant *slot)
{
	scall_wait(&call);
	cr_assert_eq(call.err, 0);
	cr_assert_eq(SRES(&call, 0, write).rearmed.count, 1);
	*slot = SRES(&call, 0, write).rearmed.v[0];
	return call.results[1].status;
}

SCENARIO(what_was_checked_is_stored_whatever_the_client_writes_then)
{
	enum { STORED = 30 };	/* each would show the fault every other time */
	unsigned int stored = 0;
	struct racer racer;
	struct rf_grant slot;
	uint32_t crc;

	begin(scheme, "2");
	cr_assert_eq(sslots(&client, 1, MIB, &slot), 1);
	crc = rf_crc32c(0, data, MIB);
	/* Where the client's WRITEs land; this process has both sides. */
	memcpy((void *)(uintptr_t)slot.addr, data, MIB);
	racer = (struct racer){
		.at = (uint8_t *)(uintptr_t)slot.addr + MIB - 1,
		.right = data[MIB - 1],
	};
	cr_assert_eq(pthread_create(&racer.thread, NULL, race, &racer), 0);
	for (unsigned int i = 0; stored < STORED; i++) {
		unsigned int status;

		start_write(&slot, crc);
		scall_submit(&call);
		status = end_write(&slot);
		cr_assert(status == RF_ST_OK || status == RF_ST_BAD_CRC,
			  "%s", rf_status_name((enum rf_status)status));
		if (status != RF_ST_OK)
			continue;
		stored++;
		cr_assert_eq(sread(&client, &handle, open_id, 0, MIB, out),
			     MIB);
		cr_assert_arr_eq(out, data, MIB, "round %u", i);
	}
	__atomic_store_n(&racer.is_over, true, __ATOMIC_RELAXED);
	pthread_join(racer.thread, NULL);
	end();
}

/* The same by the wire: a WRITE of other bytes follows the message at once. */
SCENARIO(a_write_that_comes_behind_its_message_changes_nothing_stored)
{
	enum { ROUNDS = 10 };
	struct rf_grant slot;
	struct rf_buf *buf;

	begin(scheme, "2");
	buf = rf_pool_get(rig.pool, MIB);
	cr_assert_eq(sslots(&client, 1, MIB, &slot), 1);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		const struct rf_remote late = {
			slot.addr + MIB - LATE_SIZE, slot.rkey, LATE_SIZE };
		unsigned int status;

		spattern(data, MIB, i);
		memcpy(buf->mem, data, MIB);
		start_write(&slot, rf_crc32c(0, data, MIB));
		scall_fill(&call, &slot, buf, MIB);
		scall_submit(&call);
		cr_assert_eq(spoke(&client, &late), 0);
		status = end_write(&slot);
		cr_assert(status == RF_ST_OK || status == RF_ST_BAD_CRC,
			  "%s", rf_status_name((enum rf_status)status));
		if (status != RF_ST_OK)
			continue;
		cr_assert_eq(sread(&client, &handle, open_id, 0, MIB, out),
			     MIB);
		cr_assert_arr_eq(out, data, MIB, "round %u", i);
	}
	rf_pool_put(buf);
	end();
}

/* A READ's grant. */
static struct rf_grant borrow(void)
{
	cr_assert_eq(SRUN(&client, &call, 1, &handle,
			  { .code = RF_OP_READ,
			    .read = { open_id, 0, MIB } }), RF_ST_OK);
	return SRES(&call, 0, read).grants.v[0];
}

/* ---- whose memory it is ------------------------------------------------- */

SCENARIO(the_next_client_finds_nothing_of_the_last)
{
	struct rf_grant slots[3];
	struct slice *slice;

	begin(scheme, "1");
	slice = &slices()->v[0];
	cr_assert_eq(swrite(&client, &handle, open_id, 0, data, MIB),
		     RF_ST_OK);
	cr_assert_eq(sread(&client, &handle, open_id, 0, MIB, out), MIB);
	cr_assert_not(is_zero(rf_pool_base(slice->data),
			      rf_pool_size(slice->data)));
	sclient_bye(&client);
	srig_until(&rig, all_are_free());
	cr_assert(is_zero(rf_pool_base(slice->data),
			  rf_pool_size(slice->data)));
	cr_assert(is_zero(rf_pool_base(slice->messages),
			  rf_pool_size(slice->messages)));

	/* As the next one sees it, whose keys are new. */
	sclient_open(&rig, &client, "data");
	cr_assert_eq(sslots(&client, 1, MIB, slots), 1);
	cr_assert_eq(sfetch(&client, &slots[0], out), 0);
	cr_assert(is_zero(out, MIB));
	end();
}

SCENARIO(a_key_is_good_for_its_own_connection_only)
{
	struct rf_grant slot;

	begin(scheme, "2");
	sclient_open(&rig, &other, "data");
	cr_assert_eq(sslots(&client, 1, MIB, &slot), 1);
	memcpy((void *)(uintptr_t)slot.addr, data, MIB);
	cr_assert_neq(sfetch(&other, &slot, out), 0);
	srig_until(&rig, sclient_is_lost(&other));
	cr_assert_eq(sfetch(&client, &slot, out), 0);
	cr_assert_arr_eq(out, data, MIB);
	end();
}

SCENARIO(a_key_of_a_former_session_is_dead)
{
	struct rf_grant slot;

	begin(scheme, "1");
	cr_assert_eq(sslots(&client, 1, MIB, &slot), 1);
	sclient_bye(&client);
	srig_until(&rig, all_are_free());
	sclient_open(&rig, &client, "data");
	cr_assert_neq(sfetch(&client, &slot, out), 0);
	srig_until(&rig, sclient_is_lost(&client));
	srig_close(&rig);
}

/*
 * There is no right to withdraw but the queue pair's: a READ that was held up
 * until the server had closed moves nothing, and the memory is another client's
 * only then, by other keys.
 */
SCENARIO(a_read_that_comes_after_its_connections_end_finds_nothing)
{
	struct rf_grant grant;

	begin(scheme, "1");
	cr_assert_eq(swrite(&client, &handle, open_id, 0, data, MIB),
		     RF_ST_OK);
	grant = borrow();
	cr_assert_eq(sfetch(&client, &grant, out), 0);
	cr_assert_arr_eq(out, data, MIB);

	/* The client does not know yet. */
	memset(out, 0, MIB);
	rf_channel_close(sclient_session(&client)->channel);
	cr_assert_neq(sfetch(&client, &grant, out), 0);
	cr_assert(is_zero(out, MIB));
	srig_until(&rig, sclient_is_lost(&client));
	session_expire(sclient_session(&client), NULL);
	srig_until(&rig, all_are_free());

	/* Nor does a new connection help, beside whose data they would be. */
	sclient_open(&rig, &client, "data");
	cr_assert_neq(sfetch(&client, &grant, out), 0);
	cr_assert(is_zero(out, MIB));
	srig_until(&rig, sclient_is_lost(&client));
	srig_close(&rig);
}

/* ---- when all are taken ------------------------------------------------- */

SCENARIO(one_client_too_many_is_refused_until_another_leaves)
{
	begin(scheme, "2");
	sclient_open(&rig, &other, "data");
	{
		struct sclient third;

		sclient_init(&rig, &third, "data");
		sclient_connect(&third);
		cr_assert(third.closed && !third.opened);
		cr_assert_eq(third.err, rf_status_to_errno(RF_ST_TOO_MANY));
		sclient_bye(&other);
		srig_until(&rig, slices()->free_count == 1);
		sclient_open(&rig, &third, "data");
		sclient_bye(&third);
	}
	end();
}

SCENARIO(a_client_that_is_refused_gives_its_slice_back)
{
	begin(scheme, "2");
	for (int i = 0; i < 5; i++) {
		sclient_init(&rig, &other, "nothing");
		sclient_connect(&other);
		cr_assert_eq(other.err, rf_status_to_errno(RF_ST_NO_EXPORT));
		srig_until(&rig, slices()->free_count == 1);
	}
	end();
}

/* Cut at a random moment of reads and writes, many times. */
SCENARIO(whenever_a_session_is_lost_its_slice_comes_back)
{
	const char *text = getenv("RF_SEED");
	unsigned int seed = text ? (unsigned int)strtoul(text, NULL, 10)
				 : (unsigned int)rf_now_ns();

	printf("seed %u\n", seed);
	fflush(stdout);
	srand(seed);
	begin(scheme, "1");
	cr_assert_eq(swrite(&client, &handle, open_id, 0, data, MIB),
		     RF_ST_OK);
	for (int round = 0; round < 20; round++) {
		static struct scall reads[6];
		struct rf_grant slot;
		unsigned int turns = (unsigned int)rand() % 40;

		cr_assert_eq(SRUN(&client, &call, 1, &handle,
			{ .code = RF_OP_OPEN, .open = { RW } }), RF_ST_OK);
		open_id = SRES(&call, 0, open).open;
		cr_assert_eq(sslots(&client, 1, MIB, &slot), 1);
		for (unsigned int i = 0; i < 6; i++) {
			scall_init(&reads[i], &client);
			scall_add(&reads[i], &(struct rf_args){
				.code = RF_OP_USE, .use = { handle } });
			if (i % 3)
				scall_add(&reads[i], &(struct rf_args){
					.code = RF_OP_READ,
					.read = { open_id, 0, MIB } });
			else
				scall_add(&reads[i], &(struct rf_args){
					.code = RF_OP_WRITE,
					.write = { .open = open_id,
						.pieces = { 1, { { slot.id,
							MIB, 0 } } } } });
			reads[i].call.identity = 1;
			scall_submit(&reads[i]);
		}
		while (turns-- > 0)
			srig_turn(&rig);
		sclient_cut(&client);
		for (unsigned int i = 0; i < 6; i++)
			cr_assert(reads[i].done);
		srig_until(&rig, all_are_free());
		sclient_open(&rig, &client, "data");
	}
	end();
}

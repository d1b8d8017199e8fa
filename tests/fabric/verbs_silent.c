/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_silent.c - a peer on an InfiniBand or RoCE device that is there and says
 * nothing, and one that is gone and says nothing
 *
 * The peer is made of rdma_cm alone and answers nothing by itself: what it has
 * is a queue pair, and a region that a probe may read, of which its private data
 * tell.  It goes by destroying its queue pair without a word.
 */
#include "tests/common/fabric_rig.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#ifdef RF_HAVE_VERBS
#include <endian.h>
#include <rdma/rdma_cma.h>

enum {
	KEEPALIVE_MS = 2000,
	PREFIX_SIZE = 16,
	PROBE_SIZE = 64,
	STEP_MS = 5000,
};

struct mute {
	struct rig rig;
	struct rig_end server;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	unsigned char probe[PROBE_SIZE];
	bool has_probe;
	const char *failed;		/* what its thread could not do */
};

static void fill_prefix(const struct mute *mute, unsigned char *data)
{
	uint32_t rkey = htole32(mute->has_probe ? mute->mr->rkey : 0);
	uint64_t addr = htole64((uintptr_t)mute->probe);

	memset(data, 0, PREFIX_SIZE);
	memcpy(data + 4, &rkey, sizeof(rkey));
	memcpy(data + 8, &addr, sizeof(addr));
}

/* On a thread of its own, since without an event channel each call waits. */
static void *connect_mute(void *context)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};
	unsigned char data[PREFIX_SIZE];
	struct rdma_conn_param param = {
		.private_data = data,
		.private_data_len = sizeof(data),
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 6,	/* rules both sides; rxe takes 7 for ever */
	};
	struct mute *mute = context;
	struct sockaddr *address = (struct sockaddr *)&mute->rig.address;

	if (rdma_create_id(NULL, &mute->id, NULL, RDMA_PS_TCP))
		mute->failed = "create an id";
	else if (rdma_resolve_addr(mute->id, NULL, address, STEP_MS) ||
		 rdma_resolve_route(mute->id, STEP_MS))
		mute->failed = "resolve";
	else if (rdma_create_qp(mute->id, NULL, &attr))
		mute->failed = "create a queue pair";
	if (mute->failed)
		return NULL;
	mute->mr = ibv_reg_mr(mute->id->pd, mute->probe, PROBE_SIZE,
			      IBV_ACCESS_REMOTE_READ |
			      IBV_ACCESS_LOCAL_WRITE);
	if (!mute->mr) {
		mute->failed = "register memory";
		return NULL;
	}
	fill_prefix(mute, data);
	if (rdma_connect(mute->id, &param))
		mute->failed = "connect";
	return NULL;
}

static void mute_open(struct mute *mute, const struct rig_fabric *fabric,
		      bool has_probe)
{
	pthread_t thread;

	memset(mute, 0, sizeof(*mute));
	mute->has_probe = has_probe;
	rig_open(&mute->rig, fabric);
	rig_end_init(&mute->server, &mute->rig.b);
	mute->server.config.keepalive_ms = KEEPALIVE_MS;
	rig_listen(&mute->rig);
	mute->rig.accepts_with = &mute->server;
	cr_assert_eq(pthread_create(&thread, NULL, connect_mute, mute), 0);
	rig_until(&mute->rig, mute->server.connected);
	pthread_join(thread, NULL);
	cr_assert_null(mute->failed, "the peer can't %s", mute->failed);
}

/* As a host that loses power. */
static void mute_vanish(struct mute *mute)
{
	rdma_destroy_qp(mute->id);
}

static void mute_close(struct mute *mute)
{
	if (mute->server.ep)
		rf_ep_close(mute->server.ep);
	rig_until(&mute->rig, mute->server.closed);
	cr_assert_eq(ibv_dereg_mr(mute->mr), 0);
	if (mute->id->qp)
		rdma_destroy_qp(mute->id);
	rdma_destroy_id(mute->id);
	rig_close(&mute->rig);
}

/* An accepting side may send nothing, also no probe, before the peer's word. */
static void say_word(struct mute *mute)
{
	struct ibv_sge sge = { (uintptr_t)mute->probe, 1, mute->mr->lkey };
	struct ibv_send_wr work = {
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
	}, *bad;
	struct rig_op recv;

	rig_op_init(&recv, &mute->server);
	cr_assert_eq(rig_recv(&mute->server, &recv, 0, 64), 0);
	cr_assert_eq(ibv_post_send(mute->id->qp, &work, &bad), 0);
	rig_until(&mute->rig, recv.done_count);
	cr_assert_eq(recv.status, 0);
}

static void turn_for(struct mute *mute, uint64_t ms)
{
	uint64_t end_ns = rf_now_ns() + ms * 1000000;

	while (rf_now_ns() < end_ns)
		rf_poller_wait(mute->rig.b.poller, 16, 100);
}
#endif

static bool can_run(const struct rig_fabric *fabric)
{
	struct rf_fabric *fab;
	bool can;

	if (strcmp(fabric->name, "verbs") != 0 ||
	    rf_fabric_open(fabric->uri, &fab))
		return false;
	/* iWARP devices have TCP's time-outs. */
	can = rf_fabric_traits(fab)->tells_offender;
	rf_fabric_close(fab);
	return can;
}

#define SKIP_UNLESS_IT_CAN_RUN(fabric)					\
	do {								\
		if (!can_run(fabric))					\
			cr_skip("needs verbs on InfiniBand or RoCE");	\
	} while (0)

CONFORMANCE_TEST(verbs_silent, a_peer_that_is_there_may_be_silent)
{
	SKIP_UNLESS_IT_CAN_RUN(fabric);
#ifdef RF_HAVE_VERBS
	struct mute mute;

	mute_open(&mute, fabric, true);
	say_word(&mute);
	turn_for(&mute, 3 * KEEPALIVE_MS);
	cr_assert_eq(mute.server.closed, 0, "closed: %d", mute.server.reason);
	mute_close(&mute);
#endif
}

CONFORMANCE_TEST(verbs_silent, a_peer_that_is_gone_is_found)
{
	SKIP_UNLESS_IT_CAN_RUN(fabric);
#ifdef RF_HAVE_VERBS
	struct mute mute;

	mute_open(&mute, fabric, true);
	say_word(&mute);
	mute_vanish(&mute);
	rig_until(&mute.rig, mute.server.closed);
	cr_assert_eq(mute.server.reason, -ETIMEDOUT, "%d", mute.server.reason);
	mute_close(&mute);
#endif
}

CONFORMANCE_TEST(verbs_silent, a_peer_that_is_gone_is_found_behind_silent_work)
{
	SKIP_UNLESS_IT_CAN_RUN(fabric);
#ifdef RF_HAVE_VERBS
	struct ibv_wc came;
	struct ibv_sge sge;
	struct mute mute;
	struct ibv_recv_wr work = { .sg_list = &sge, .num_sge = 1 }, *bad;

	mute_open(&mute, fabric, true);
	sge = (struct ibv_sge){ (uintptr_t)mute.probe, 1, mute.mr->lkey };
	cr_assert_eq(ibv_post_recv(mute.id->qp, &work, &bad), 0);
	say_word(&mute);
	/* Nobody is told when it is done, and nothing follows it. */
	cr_assert_eq(rig_send(&mute.server, NULL, 0, 1), 0);
	rig_start_waiting(&mute.rig);
	while (ibv_poll_cq(mute.id->recv_cq, 1, &came) == 0) {
		cr_assert_lt(rf_now_ns(), mute.rig.deadline_ns);
		rf_poller_wait(mute.rig.b.poller, 16, 10);
	}
	/* Its acknowledgement comes before this. */
	say_word(&mute);
	mute_vanish(&mute);
	rig_until(&mute.rig, mute.server.closed);
	cr_assert_eq(mute.server.reason, -ETIMEDOUT, "%d", mute.server.reason);
	mute_close(&mute);
#endif
}

CONFORMANCE_TEST(verbs_silent, a_peer_without_a_probe_is_left_alone)
{
	SKIP_UNLESS_IT_CAN_RUN(fabric);
#ifdef RF_HAVE_VERBS
	struct mute mute;

	mute_open(&mute, fabric, false);
	say_word(&mute);
	turn_for(&mute, 2 * KEEPALIVE_MS);
	cr_assert_eq(mute.server.closed, 0, "closed: %d", mute.server.reason);
	mute_close(&mute);
#endif
}

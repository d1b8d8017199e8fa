/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_device.c - what operators choose of a device, and what a device says of
 * itself
 *
 * What no device does when asked (overruns, removal) is made up and handed to
 * the function that takes the device's events.
 */
#include "tests/common/fabric_rig.h"
#include "tests/common/iwarp_peer.h"

#include <errno.h>
#include <stdlib.h>

#ifdef RF_HAVE_VERBS
#include "libproto/verbs_impl.h"

#include <netinet/in.h>

enum { TRIPS = 50, BURST = 16, CLASS = 104, GIDS_LOOKED_AT = 16 };

struct couple {
	struct rig rig;
	struct rig_end client, server;
};

static struct verbs_fabric *fabric_of(const struct rig_node *node)
{
	return verbs_fabric_of(node->fab);
}

static void couple_open(struct couple *couple, const struct rig_fabric *fabric)
{
	memset(couple, 0, sizeof(*couple));
	rig_open(&couple->rig, fabric);
	rig_listen(&couple->rig);
}

static void couple_join(struct couple *couple)
{
	rig_join(&couple->rig, &couple->client, &couple->server);
}

static void couple_close(struct couple *couple)
{
	rig_part(&couple->rig, &couple->client, &couple->server);
	rig_close(&couple->rig);
}

/* What the queue pair of a connection really has. */
static struct ibv_ah_attr path_of(const struct rig_end *end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	cr_assert_eq(ibv_query_qp(verbs_ep_of(end->ep)->id->qp, &attr,
				  IBV_QP_AV, &init), 0);
	return attr.ah_attr;
}

/* Which entry of the GID table has the address that we listen on; -1: none. */
static int index_of_address(struct rig *rig)
{
	const struct sockaddr_in *in = (struct sockaddr_in *)&rig->address;
	struct ibv_context *context = fabric_of(&rig->a)->context;

	for (int i = 0; i < GIDS_LOOKED_AT; i++) {
		union ibv_gid gid;

		if (ibv_query_gid(context, 1, i, &gid) == 0 &&
		    memcmp(gid.raw + 12, &in->sin_addr, 4) == 0)
			return i;
	}
	return -1;
}

static void tune(struct rig_node *node, int traffic_class, int gid_index)
{
	struct rf_tuning tuning = RF_TUNING_DEFAULT;

	tuning.traffic_class = (int16_t)traffic_class;
	tuning.gid_index = (int16_t)gid_index;
	cr_assert_eq(rf_fabric_tune(node->fab, &tuning), 0);
}

/* Try to connect, and why it did not work. */
static int reason_of_failure(struct couple *couple)
{
	rig_end_init(&couple->client, &couple->rig.a);
	cr_assert_eq(rig_end_connect(&couple->rig, &couple->client), 0);
	rig_until(&couple->rig, couple->client.closed);
	cr_assert_eq(couple->client.connected, 0);
	return couple->client.reason;
}

/* And is logged in these words. */
static void happens(struct rig *rig, struct ibv_async_event event,
		    const char *words)
{
	char text[1024] = "";
	struct rf_log_capture capture = { .text = text,
					  .room = sizeof(text) };

	rf_log_capture(&capture);
	verbs_take_device_event(fabric_of(&rig->a)->context, &event);
	rf_log_capture(NULL);
	cr_assert(strstr(text, words), "'%s' does not say '%s'", text, words);
}

static void port_event_happens(struct rig *rig, enum ibv_event_type type,
			       const char *words)
{
	happens(rig, (struct ibv_async_event){ .element.port_num = 1,
					       .event_type = type }, words);
}

static struct rf_fabric_stats stats_of(const struct rig_node *node)
{
	struct rf_fabric_stats stats;

	rf_fabric_stats(node->fab, &stats);
	return stats;
}

/*
 * What the device is asked to do: libibverbs calls its provider by these
 * pointers.  Both ends of a rig have the same.
 */
static struct asked {
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr,
			 struct ibv_send_wr **bad);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad);
	unsigned int doorbells, works, signalled, inlined;
	unsigned int recv_doorbells, recvs;
	struct ibv_moderate_cq moderate;
} asked;

static int note_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	asked.doorbells++;
	for (const struct ibv_send_wr *at = wr; at; at = at->next) {
		asked.works++;
		asked.signalled += !!(at->send_flags & IBV_SEND_SIGNALED);
		asked.inlined += !!(at->send_flags & IBV_SEND_INLINE);
	}
	return asked.post_send(qp, wr, bad);
}

static int note_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
		     struct ibv_recv_wr **bad)
{
	asked.recv_doorbells++;
	for (const struct ibv_recv_wr *at = wr; at; at = at->next)
		asked.recvs++;
	return asked.post_recv(qp, wr, bad);
}

static void listen_in(const struct rig_node *node)
{
	struct ibv_context_ops *ops = &fabric_of(node)->context->ops;

	asked = (struct asked){ .post_send = ops->post_send,
				.post_recv = ops->post_recv };
	ops->post_send = note_send;
	ops->post_recv = note_recv;
}

static int note_moderation(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	(void)cq;
	cr_assert_eq(attr->attr_mask, IBV_CQ_ATTR_MODERATE);
	asked.moderate = attr->moderate;
	return 0;
}
#endif

static bool can_run(const struct rig_fabric *fabric)
{
	struct rf_fabric *fab;

	if (strcmp(fabric->name, "verbs") != 0 ||
	    rf_fabric_open(fabric->uri, &fab))
		return false;
	rf_fabric_close(fab);
	return true;
}

#define SKIP_UNLESS_IT_CAN_RUN(fabric)					\
	do {								\
		if (!can_run(fabric))					\
			cr_skip("needs a verbs device");		\
	} while (0)

/* Skips on devices whose GIDs are no addresses. */
#define SKIP_UNLESS_ROCE(fabric)					\
	do {								\
		SKIP_UNLESS_IT_CAN_RUN(fabric);				\
		if (strstr((fabric)->uri, "siw"))			\
			cr_skip("needs RoCE");				\
	} while (0)

CONFORMANCE_TEST(verbs_device, a_program_that_spins_causes_no_events)
{
	SKIP_UNLESS_IT_CAN_RUN(fabric);
#ifdef RF_HAVE_VERBS
	struct couple couple;
	struct rf_fabric_stats before, after;

	couple_open(&couple, fabric);
	couple_join(&couple);
	rig_exchange(&couple.rig, &couple.client, &couple.server);
	before = stats_of(&couple.rig.a);
	for (int i = 0; i < TRIPS; i++) {
		struct rig_op sent, came;

		rig_op_init(&sent, &couple.client);
		rig_op_init(&came, &couple.server);
		cr_assert_eq(rig_recv(&couple.server, &came, 4096, 64), 0);
		cr_assert_eq(rig_send(&couple.client, &sent, 0, 64), 0);
		while (!sent.done_count || !came.done_count) {
			rf_poller_run(couple.rig.a.poller, 16);
			rf_poller_run(couple.rig.b.poller, 16);
		}
	}
	after = stats_of(&couple.rig.a);
	cr_assert_geq(after.completions, before.completions + TRIPS);
	/* The event of an earlier sleep may come still. */
	cr_assert_leq(after.cq_events, before.cq_events + 1);
	couple_close(&couple);
#endif
}

CONFORMANCE_TEST(verbs_device, an_event_tells_of_all_that_gathered)
{
	SKIP_UNLESS_IT_CAN_RUN(fabric);
#ifdef RF_HAVE_VERBS
	struct rig_op sent[BURST], came[BURST];
	struct rf_fabric_stats before, after;
	struct couple couple;
	unsigned int done = 0;

	couple_open(&couple, fabric);
	couple_join(&couple);
	for (int i = 0; i < BURST; i++) {
		rig_op_init(&came[i], &couple.server);
		cr_assert_eq(rig_recv(&couple.server, &came[i], 4096, 64), 0);
	}
	/* Both are asleep: their queues are armed. */
	rig_settle(&couple.rig);
	before = stats_of(&couple.rig.b);
	for (int i = 0; i < BURST; i++) {
		rig_op_init(&sent[i], &couple.client);
		cr_assert_eq(rig_send(&couple.client, &sent[i], 0, 64), 0);
	}
	/* The sender's side only, until the device has delivered all. */
	while (done < BURST) {
		rf_poller_wait(couple.rig.a.poller, 16, 100);
		done = 0;
		for (int i = 0; i < BURST; i++)
			done += sent[i].done_count;
	}
	rig_until(&couple.rig, came[BURST - 1].done_count);
	after = stats_of(&couple.rig.b);
	cr_assert_eq(after.completions - before.completions, BURST);
	cr_assert_leq(after.cq_events - before.cq_events, BURST / 4,
		      "%u events", (unsigned int)(after.cq_events -
						  before.cq_events));
	couple_close(&couple);
#endif
}

CONFORMANCE_TEST(verbs_device, a_batch_is_one_chain_with_one_notice)
{
	SKIP_UNLESS_IT_CAN_RUN(fabric);
#ifdef RF_HAVE_VERBS
	struct rf_work works[BURST];
	struct rf_sge pieces[BURST];
	struct rig_op sent, came[BURST];
	struct couple couple;

	couple_open(&couple, fabric);
	couple_join(&couple);
	for (int i = 0; i < BURST; i++) {
		rig_op_init(&came[i], &couple.server);
		cr_assert_eq(rig_recv(&couple.server, &came[i], 4096, 64), 0);
		pieces[i] = rig_sge(&couple.client, 0, 64);
		works[i] = rig_work(RF_SEND, NULL, &pieces[i], 1);
	}
	rig_op_init(&sent, &couple.client);
	works[BURST - 1].op = &sent.op;
	listen_in(&couple.rig.a);
	cr_assert_eq(rig_post(&couple.client, works, BURST), 0);
	cr_assert_eq(asked.doorbells, 1);
	cr_assert_eq(asked.works, BURST);
	/* One quarter of the queue, at which one is due, is as long; siw copies
	 * only what is signalled. */
	if (fabric_of(&couple.rig.a)->is_siw)
		cr_assert_eq(asked.signalled, BURST);
	else
		cr_assert_leq(asked.signalled, 2);
	rig_until(&couple.rig, sent.done_count && came[BURST - 1].done_count);
	couple_close(&couple);
#endif
}

CONFORMANCE_TEST(verbs_device, what_the_device_takes_inline_goes_inline)
{
	SKIP_UNLESS_IT_CAN_RUN(fabric);
#ifdef RF_HAVE_VERBS
	struct couple couple;
	uint32_t most;

	couple_open(&couple, fabric);
	couple_join(&couple);
	most = verbs_ep_of(couple.client.ep)->inline_max;
	cr_assert_geq(most, 32);
	listen_in(&couple.rig.a);
	for (uint32_t size = most; size <= most + 1; size++) {
		struct rig_op sent, came;

		rig_op_init(&sent, &couple.client);
		rig_op_init(&came, &couple.server);
		rig_fill(&couple.rig.a, 0, size, size);
		cr_assert_eq(rig_recv(&couple.server, &came, 4096, size), 0);
		cr_assert_eq(rig_send(&couple.client, &sent, 0, size), 0);
		cr_assert_eq(asked.inlined, 1);
		rig_until(&couple.rig, sent.done_count && came.done_count);
		cr_assert(rig_holds(&couple.rig.b, 4096, size, size));
	}
	couple_close(&couple);
#endif
}

CONFORMANCE_TEST(verbs_device, the_receives_of_an_accept_are_one_chain)
{
	SKIP_UNLESS_IT_CAN_RUN(fabric);
#ifdef RF_HAVE_VERBS
	struct rig_op came[BURST];
	struct rf_recv recvs[BURST];
	struct couple couple;

	couple_open(&couple, fabric);
	rig_end_init(&couple.client, &couple.rig.a);
	rig_end_init(&couple.server, &couple.rig.b);
	for (int i = 0; i < BURST; i++) {
		rig_op_init(&came[i], &couple.server);
		recvs[i] = (struct rf_recv){ &came[i].op,
			rig_sge(&couple.server, (size_t)i * 64, 64) };
	}
	couple.server.recvs = recvs;
	couple.server.recv_count = BURST;
	listen_in(&couple.rig.b);
	rig_join_quietly(&couple.rig, &couple.client, &couple.server);
	cr_assert_eq(asked.recv_doorbells, 1);
	cr_assert_eq(asked.recvs, BURST);
	couple_close(&couple);
#endif
}

/* None of the devices here moderates: it is told that this one does. */
CONFORMANCE_TEST(verbs_device, events_are_moderated_as_configured)
{
	SKIP_UNLESS_IT_CAN_RUN(fabric);
#ifdef RF_HAVE_VERBS
	struct rf_tuning tuning = RF_TUNING_DEFAULT;
	struct verbs_context *provider;
	struct couple couple;

	couple_open(&couple, fabric);
	provider = verbs_get_ctx(fabric_of(&couple.rig.a)->context);
	cr_assert(provider);
	provider->modify_cq = note_moderation;
	fabric_of(&couple.rig.a)->base.traits.moderates_events = true;
	tuning.cq_count = 7;
	tuning.cq_us = 3;
	cr_assert_eq(rf_fabric_tune(couple.rig.a.fab, &tuning), 0);
	couple_join(&couple);
	cr_assert_eq(asked.moderate.cq_count, 7);
	cr_assert_eq(asked.moderate.cq_period, 3);
	couple_close(&couple);
#endif
}

CONFORMANCE_TEST(verbs_device, the_traffic_class_holds_both_ways)
{
	SKIP_UNLESS_ROCE(fabric);
#ifdef RF_HAVE_VERBS
	struct couple couple;

	couple_open(&couple, fabric);
	tune(&couple.rig.a, CLASS, -1);
	couple_join(&couple);
	cr_assert_eq(path_of(&couple.client).grh.traffic_class, CLASS);
	cr_assert_eq(path_of(&couple.server).grh.traffic_class, CLASS);
	couple_close(&couple);
#endif
}

CONFORMANCE_TEST(verbs_device, a_gid_index_chooses_the_address)
{
	SKIP_UNLESS_ROCE(fabric);
#ifdef RF_HAVE_VERBS
	struct couple couple;
	int index;

	couple_open(&couple, fabric);
	index = index_of_address(&couple.rig);
	cr_assert_geq(index, 0);
	tune(&couple.rig.a, -1, index);
	couple_join(&couple);
	cr_assert_eq(path_of(&couple.client).grh.sgid_index, index);
	couple_close(&couple);
#endif
}

CONFORMANCE_TEST(verbs_device, a_gid_index_without_a_route_is_refused)
{
	SKIP_UNLESS_ROCE(fabric);
#ifdef RF_HAVE_VERBS
	struct couple couple;

	couple_open(&couple, fabric);
	tune(&couple.rig.a, -1, RF_GID_INDEX_MAX);
	cr_assert_eq(reason_of_failure(&couple), -EADDRNOTAVAIL);
	/* The first is the link-local one, of IPv6. */
	tune(&couple.rig.a, -1, 0);
	cr_assert_eq(reason_of_failure(&couple), -ENETUNREACH);
	rig_close(&couple.rig);
#endif
}

CONFORMANCE_TEST(verbs_device, a_device_without_such_gids_says_so)
{
	SKIP_UNLESS_IT_CAN_RUN(fabric);
#ifdef RF_HAVE_VERBS
	struct rf_tuning tuning = RF_TUNING_DEFAULT;
	struct couple couple;

	couple_open(&couple, fabric);
	tuning.gid_index = 1;
	cr_assert_eq(rf_fabric_tune(couple.rig.a.fab, &tuning),
		     fabric_of(&couple.rig.a)->is_iwarp ? -EOPNOTSUPP : 0);
	rig_close(&couple.rig);
#endif
}

CONFORMANCE_TEST(verbs_device, a_source_address_must_be_ours)
{
	SKIP_UNLESS_IT_CAN_RUN(fabric);
#ifdef RF_HAVE_VERBS
	struct rf_tuning tuning = RF_TUNING_DEFAULT;
	struct sockaddr_in *in = (struct sockaddr_in *)&tuning.source;
	struct couple couple;
	int err;

	couple_open(&couple, fabric);
	tuning.source = couple.rig.address;
	in->sin_port = 0;
	cr_assert_eq(rf_fabric_tune(couple.rig.a.fab, &tuning), 0);
	couple_join(&couple);
	rig_part(&couple.rig, &couple.client, &couple.server);
	/* TEST-NET-1 (RFC 5737): nobody's. */
	in->sin_addr.s_addr = htonl(0xc0000201);
	cr_assert_eq(rf_fabric_tune(couple.rig.a.fab, &tuning), 0);
	rig_end_init(&couple.client, &couple.rig.a);
	err = rig_end_connect(&couple.rig, &couple.client);
	cr_assert_neq(err, 0);
	rig_close(&couple.rig);
#endif
}

CONFORMANCE_TEST(verbs_device, what_happens_to_a_port_ends_nothing)
{
	SKIP_UNLESS_IT_CAN_RUN(fabric);
#ifdef RF_HAVE_VERBS
	struct couple couple;

	couple_open(&couple, fabric);
	couple_join(&couple);
	port_event_happens(&couple.rig, IBV_EVENT_PORT_ERR,
			   "port 1: the link is down");
	port_event_happens(&couple.rig, IBV_EVENT_PORT_ACTIVE,
			   "port 1: the link is up");
	port_event_happens(&couple.rig, IBV_EVENT_GID_CHANGE,
			   "its GIDs have changed");
	port_event_happens(&couple.rig, IBV_EVENT_LID_CHANGE,
			   "may be made again");
	port_event_happens(&couple.rig, IBV_EVENT_SM_CHANGE,
			   "may be made again");
	rig_exchange(&couple.rig, &couple.client, &couple.server);
	couple_close(&couple);
#endif
}

CONFORMANCE_TEST(verbs_device, an_overrun_ends_its_connection_only)
{
	SKIP_UNLESS_IT_CAN_RUN(fabric);
#ifdef RF_HAVE_VERBS
	struct couple couple;

	couple_open(&couple, fabric);
	couple_join(&couple);
	happens(&couple.rig, (struct ibv_async_event){
		.element.cq = verbs_ep_of(couple.client.ep)->cq,
		.event_type = IBV_EVENT_CQ_ERR }, "overran");
	rig_until(&couple.rig, couple.client.closed && couple.server.closed);
	cr_assert_eq(couple.client.reason, -EOVERFLOW);
	cr_assert_eq(stats_of(&couple.rig.a).cq_overruns, 1);
	couple_join(&couple);
	couple_close(&couple);
#endif
}

CONFORMANCE_TEST(verbs_device, a_queue_pair_that_fails_ends_its_connection)
{
	SKIP_UNLESS_IT_CAN_RUN(fabric);
#ifdef RF_HAVE_VERBS
	struct couple couple;

	couple_open(&couple, fabric);
	couple_join(&couple);
	happens(&couple.rig, (struct ibv_async_event){
		.element.qp = verbs_ep_of(couple.client.ep)->id->qp,
		.event_type = IBV_EVENT_QP_FATAL },
		fabric_of(&couple.rig.a)->is_siw ? "" :
						   "a queue pair failed");
	rig_until(&couple.rig, couple.client.closed && couple.server.closed);
	/* siw says so at each end of a connection under a work. */
	cr_assert_eq(couple.client.reason, fabric_of(&couple.rig.a)->is_siw ?
		     -ECONNRESET : -EIO);
	rig_close(&couple.rig);
#endif
}

CONFORMANCE_TEST(verbs_device, a_device_that_goes_takes_its_connections)
{
	SKIP_UNLESS_IT_CAN_RUN(fabric);
#ifdef RF_HAVE_VERBS
	struct couple couple;

	couple_open(&couple, fabric);
	couple_join(&couple);
	happens(&couple.rig, (struct ibv_async_event){
		.event_type = IBV_EVENT_DEVICE_FATAL },
		"the device was removed");
	rig_until(&couple.rig, couple.client.closed && couple.server.closed);
	cr_assert_eq(couple.client.reason, -ENODEV);
	rig_close(&couple.rig);
#endif
}

CONFORMANCE_TEST(verbs_device, queues_are_within_what_the_device_has)
{
	SKIP_UNLESS_IT_CAN_RUN(fabric);
#ifdef RF_HAVE_VERBS
	struct couple couple;
	const struct ibv_device_attr *attr;
	const struct rf_limits *limits;

	couple_open(&couple, fabric);
	attr = &fabric_of(&couple.rig.a)->attr;
	limits = rf_fabric_limits(couple.rig.a.fab);
	cr_assert_lt(limits->send_depth_max, attr->max_qp_wr);
	cr_assert_lt(limits->send_depth_max + 1 + limits->recv_depth_max,
		     attr->max_cqe);
	cr_assert_leq(limits->sge_count_max, attr->max_sge);
	cr_assert_leq(limits->reads_max, attr->max_qp_init_rd_atom);
	rig_close(&couple.rig);
#endif
}

#ifdef RF_HAVE_VERBS
static void run_rig(void *context)
{
	struct rig *rig = context;

	rf_poller_wait(rig->b.poller, 16, 10);
}
#endif

CONFORMANCE_TEST(verbs_device, a_peer_may_say_more_than_we_would)
{
	SKIP_UNLESS_IT_CAN_RUN(fabric);
#ifdef RF_HAVE_VERBS
	static const uint16_t sizes[] = { 248, 249, 255 };
	struct couple couple;

	couple_open(&couple, fabric);
	if (!rf_fabric_traits(couple.rig.b.fab)->takes_tcp_ports) {
		rig_close(&couple.rig);
		cr_skip("needs an iWARP device");
	}
	for (size_t i = 0; i < RF_ARRAY_SIZE(sizes); i++) {
		struct peer_mpa mpa = { .flags = 0x40, .revision = 1,
					.private_size = sizes[i] };
		struct rig_end *server = &couple.server;
		struct peer peer;

		for (uint16_t k = 0; k < sizes[i]; k++)
			mpa.private[k] = (uint8_t)(k + 1);
		rig_end_init(server, &couple.rig.b);
		couple.rig.accepts_with = server;
		peer_init(&peer, run_rig, &couple.rig);
		peer_connect(&peer, &couple.rig.address);
		peer_mpa_send(&peer, false, &mpa);
		rig_until(&couple.rig, server->connected);
		cr_assert_eq(couple.rig.hello_in_size, sizes[i]);
		cr_assert_eq(server->hello_in_size, sizes[i]);
		cr_assert(memcmp(server->hello_in, mpa.private, sizes[i]) == 0);
		peer_close(&peer);
		rig_until(&couple.rig, server->closed);
	}
	rig_close(&couple.rig);
#endif
}

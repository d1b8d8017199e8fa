/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_device.c - what operators choose of a device, and what a device says of
 * itself
 *
 * What no device does when asked (overruns, removal) is made up and handed to
 * the function that takes the device's events.
 */
#include "tests/common/fabric_rig.h"

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

static void happens(struct rig *rig, struct ibv_async_event event)
{
	verbs_take_device_event(fabric_of(&rig->a)->context, &event);
}

static void port_event_happens(struct rig *rig, enum ibv_event_type type)
{
	happens(rig, (struct ibv_async_event){ .element.port_num = 1,
					       .event_type = type });
}

static struct rf_fabric_stats stats_of(const struct rig_node *node)
{
	struct rf_fabric_stats stats;

	rf_fabric_stats(node->fab, &stats);
	return stats;
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
	port_event_happens(&couple.rig, IBV_EVENT_PORT_ERR);
	port_event_happens(&couple.rig, IBV_EVENT_PORT_ACTIVE);
	port_event_happens(&couple.rig, IBV_EVENT_GID_CHANGE);
	port_event_happens(&couple.rig, IBV_EVENT_LID_CHANGE);
	port_event_happens(&couple.rig, IBV_EVENT_SM_CHANGE);
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
		.event_type = IBV_EVENT_CQ_ERR });
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
		.event_type = IBV_EVENT_QP_FATAL });
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
		.event_type = IBV_EVENT_DEVICE_FATAL });
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
	couple_join(&couple);
	/* A Send of as much as the device takes inline needs no region. */
	cr_assert_geq(verbs_ep_of(couple.client.ep)->inline_max, 32);
	couple_close(&couple);
#endif
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_counters.c - what the counters of a port mean
 *
 * Counters begin when the device does, so a figure may be old history.  Looked
 * at twice (watch_s), what grows in between is what happens now, and only that
 * is more than a note.
 *
 * Source of the names: InfiniBand Architecture Specification volume 1, section
 * 16.1.3 (PortCounters); hw_counters of the Linux drivers mlx5, bnxt_re, irdma,
 * rxe.  A name that is not in the table is no sign of trouble by itself.
 */
#include "doctor_impl.h"

#include <inttypes.h>

enum {
	/* Retransmissions are ordinary below one packet in so many, */
	LOSS_SHARE = 1000,
	/* and a few say nothing about a share. */
	LOSS_LEAST = 20,
};

enum kind {
	KIND_ERROR,	/* a healthy port has none */
	KIND_LOSS,	/* judged by its share of the packets */
	KIND_HINT,	/* congestion and the like: worth knowing */
};

struct known_counter {
	const char *name;
	enum kind kind;
	const char *code;
	const char *meaning;
	const char *advice;
};

#define CABLE "clean or replace cable and transceiver; then the switch's port"
#define LOSSES "look for packet loss: MTU the same along the way, flow control " \
	"(PFC) or ECN on NICs and switches, bad cables"
#define RNR "the receiver has no buffer posted in time: it is overloaded, or " \
	"another program posts too few"
#define CUT "connections were lost by it: check the way to the peer and " \
	"whether the peer was alive"
#define RIGHTS "a peer used memory that it had no right to, or a key after its " \
	"end: see the logs of both programs"

static const struct known_counter known[] = {
	{ "symbol_error", KIND_ERROR, "symbol-errors",
	  "bits arrived damaged", CABLE },
	{ "link_error_recovery", KIND_ERROR, "link-errors",
	  "the link had to be trained again", CABLE },
	{ "link_downed", KIND_ERROR, "link-down",
	  "the link went down", "find out who or what took it down; " CABLE },
	{ "local_link_integrity_errors", KIND_ERROR, "link-errors",
	  "the link was too bad too often", CABLE },
	{ "port_rcv_errors", KIND_ERROR, "link-errors",
	  "packets arrived damaged", CABLE },
	{ "port_rcv_remote_physical_errors", KIND_ERROR, "link-errors",
	  "packets were damaged before the last switch",
	  "look at the ports of the switches on the way" },
	{ "rx_icrc_encapsulated", KIND_ERROR, "link-errors",
	  "RoCE packets had a wrong checksum", CABLE },
	{ "excessive_buffer_overrun_errors", KIND_ERROR, "link-errors",
	  "the port's buffers overran", "update the firmware; check the flow "
	  "control of the switch" },
	{ "port_xmit_discards", KIND_LOSS, "discards",
	  "packets were thrown away before they were sent", LOSSES },
	{ "port_rcv_switch_relay_errors", KIND_LOSS, "discards",
	  "the switch could not forward packets", LOSSES },
	{ "port_xmit_constraint_errors", KIND_ERROR, "partition",
	  "packets were refused for their partition or rate",
	  "compare the partition keys of both hosts" },
	{ "port_rcv_constraint_errors", KIND_ERROR, "partition",
	  "packets were refused for their partition or rate",
	  "compare the partition keys of both hosts" },
	{ "port_xmit_wait", KIND_HINT, "congestion",
	  "ticks in which data waited for the link",
	  "the link is busy; more of them than time passes means congestion" },

	{ "local_ack_timeout_err", KIND_LOSS, "retransmissions",
	  "no acknowledgement came in time", LOSSES },
	{ "completer_retry_err", KIND_LOSS, "retransmissions",
	  "requests were sent again", LOSSES },
	{ "to_retransmits", KIND_LOSS, "retransmissions",
	  "requests were sent again after a time-out", LOSSES },
	{ "tcpRetransSegs", KIND_LOSS, "retransmissions",
	  "the device's TCP sent segments again", LOSSES },
	{ "ip4RetransSegs", KIND_LOSS, "retransmissions",
	  "the device's TCP sent segments again", LOSSES },
	{ "duplicate_request", KIND_LOSS, "retransmissions",
	  "a peer sent requests twice: our acknowledgement was lost or late",
	  LOSSES },
	{ "roce_adp_retrans_to", KIND_LOSS, "retransmissions",
	  "adaptive retransmission after a time-out", LOSSES },
	{ "out_of_sequence", KIND_LOSS, "out-of-sequence",
	  "packets arrived after later ones, or not at all", LOSSES },
	{ "out_of_seq_request", KIND_LOSS, "out-of-sequence",
	  "requests arrived after later ones, or not at all", LOSSES },
	{ "packet_seq_err", KIND_LOSS, "out-of-sequence",
	  "the peer told us that it misses packets", LOSSES },
	{ "rcvd_seq_err", KIND_LOSS, "out-of-sequence",
	  "the peer told us that it misses packets", LOSSES },
	{ "seq_err_naks_rcvd", KIND_LOSS, "out-of-sequence",
	  "the peer told us that it misses packets", LOSSES },
	{ "implied_nak_seq_err", KIND_LOSS, "out-of-sequence",
	  "answers were missing in the row", LOSSES },
	{ "missing_resp", KIND_LOSS, "out-of-sequence",
	  "answers were missing in the row", LOSSES },

	{ "rnr_nak_retry_err", KIND_LOSS, "rnr",
	  "the peer was not ready to receive", RNR },
	{ "rcvd_rnr_err", KIND_LOSS, "rnr",
	  "the peer was not ready to receive", RNR },
	{ "rnr_naks_rcvd", KIND_LOSS, "rnr",
	  "the peer was not ready to receive", RNR },
	{ "send_rnr_err", KIND_LOSS, "rnr",
	  "we were not ready to receive", RNR },
	{ "out_of_buffer", KIND_LOSS, "rnr",
	  "messages arrived and no buffer was posted", RNR },

	{ "retry_exceeded_err", KIND_ERROR, "retry-exceeded",
	  "requests were given up: no acknowledgement", CUT },
	{ "max_retry_exceeded", KIND_ERROR, "retry-exceeded",
	  "requests were given up: no acknowledgement", CUT },
	{ "retry_rnr_exceeded_err", KIND_ERROR, "retry-exceeded",
	  "requests were given up: the peer was never ready", CUT },
	{ "send_err", KIND_ERROR, "send-errors",
	  "packets could not be handed to the network device",
	  "is the network device up, and is there a route?" },
	{ "res_cq_load_err", KIND_ERROR, "cq-overrun",
	  "completion queues had errors", "restart the program concerned; tell "
	  "its authors: its queue is too small" },
	{ "req_remote_access_errors", KIND_ERROR, "rights",
	  "a peer refused our access", RIGHTS },
	{ "resp_remote_access_errors", KIND_ERROR, "rights",
	  "we refused a peer's access", RIGHTS },

	{ "np_ecn_marked_roce_packets", KIND_HINT, "congestion",
	  "packets came marked by a switch that is congested",
	  "ordinary under load" },
	{ "np_cnp_sent", KIND_HINT, "congestion",
	  "peers were asked to slow down", "ordinary under load" },
	{ "rp_cnp_handled", KIND_HINT, "congestion",
	  "we were asked to slow down", "ordinary under load" },
};

static uint64_t packets_of(const struct doctor_port *port)
{
	static const char *const names[] = { "port_xmit_packets", "sent_pkts",
					     "unicast_xmit_packets",
					     "ip4OutSegs" };

	for (size_t i = 0; i < RF_ARRAY_SIZE(names); i++)
		for (unsigned int j = 0; j < port->counter_count; j++)
			if (strcmp(port->counters[j].name, names[i]) == 0)
				return port->counters[j].value;
	return 0;
}

static const struct known_counter *find_known(const char *name)
{
	for (size_t i = 0; i < RF_ARRAY_SIZE(known); i++)
		if (strcmp(known[i].name, name) == 0)
			return &known[i];
	return NULL;
}

static bool is_much(uint64_t lost, uint64_t packets)
{
	return lost >= LOSS_LEAST && lost > packets / LOSS_SHARE;
}

static enum doctor_severity weigh(const struct known_counter *what,
				  const struct doctor_counter *counter,
				  uint64_t packets, bool is_watched)
{
	if (what->kind == KIND_HINT)
		return DOCTOR_NOTE;
	if (is_watched && counter->grew == 0)
		return DOCTOR_NOTE;
	if (what->kind == KIND_ERROR)
		return is_watched ? DOCTOR_PROBLEM : DOCTOR_WARNING;
	if (is_watched)
		return DOCTOR_WARNING;
	/* Without a count of packets nothing can be said of the share. */
	return packets > 0 && is_much(counter->value, packets) ?
		       DOCTOR_WARNING : DOCTOR_NOTE;
}

static void judge(const struct known_counter *what,
		  const struct doctor_counter *counter, uint64_t packets,
		  uint32_t watch_s, struct doctor_report *report)
{
	enum doctor_severity severity = weigh(what, counter, packets,
					      watch_s > 0);

	if (watch_s > 0)
		doctor_find(report, severity, what->code, "%s: %s, %" PRIu64
			    " times, of which %" PRIu64 " in the last %" PRIu32
			    " s", counter->name, what->meaning, counter->value,
			    counter->grew, watch_s);
	else if (what->kind == KIND_LOSS && packets > 0)
		doctor_find(report, severity, what->code, "%s: %s, %" PRIu64
			    " times, with %" PRIu64 " packets sent",
			    counter->name, what->meaning, counter->value,
			    packets);
	else
		doctor_find(report, severity, what->code, "%s: %s, %" PRIu64
			    " times since the device came", counter->name,
			    what->meaning, counter->value);
	if (severity > DOCTOR_NOTE)
		doctor_advise(report, "%s%s", what->advice, watch_s > 0 ? "" :
			      "; -w SECONDS tells whether it goes on");
}

void doctor_judge_counters(const struct doctor_facts *facts,
			   const struct doctor_device *device,
			   const struct doctor_port *port,
			   struct doctor_report *report)
{
	const uint64_t packets = packets_of(port);
	unsigned int zeroes = 0;

	for (unsigned int i = 0; i < port->counter_count; i++) {
		const struct doctor_counter *counter = &port->counters[i];
		const struct known_counter *what = find_known(counter->name);

		if (!what)
			continue;
		if (counter->value == 0)
			zeroes++;
		else
			judge(what, counter, packets, facts->question->watch_s,
			      report);
	}
	if (zeroes > 0)
		doctor_find(report, DOCTOR_OK, "counters",
			    "%u counters of errors stand at 0", zeroes);
	else if (port->counter_count == 0)
		doctor_find(report, DOCTOR_NOTE, "counters",
			    "this device has no counters%s",
			    device->is_iwarp ? "; what its TCP sends again is "
			    "not seen here" : "");
}

void doctor_judge_tcp(const struct doctor_facts *facts,
		      struct doctor_report *report)
{
	const struct doctor_tcp_counters *tcp = &facts->host.tcp;
	const struct doctor_tcp_counters *grew = &facts->host.tcp_grew;
	const bool is_watched = facts->question->watch_s > 0;
	const uint64_t again = is_watched ? grew->retransmitted :
					    tcp->retransmitted;
	const uint64_t out = is_watched ? grew->out_segments :
					  tcp->out_segments;
	enum doctor_severity severity =
		is_much(again, out) ? DOCTOR_WARNING :
		again > 0 ? DOCTOR_NOTE : DOCTOR_OK;

	doctor_subject(report, "TCP of this host (iwarp goes over it)");
	doctor_find(report, severity, "tcp-retransmissions",
		    "%" PRIu64 " of %" PRIu64 " segments were sent again%s", again,
		    out, is_watched ? " while watched" :
				      " since the host came up");
	if (severity == DOCTOR_WARNING)
		doctor_advise(report, "the figure is of all connections; " LOSSES);
	if (tcp->listen_drops > 0)
		doctor_find(report, DOCTOR_NOTE, "tcp-listen",
			    "%" PRIu64 " connections were dropped because a "
			    "listener was too slow", tcp->listen_drops);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_port.c - what the facts about a port mean
 *
 * Pure: facts in, findings out.
 */
#include "doctor_impl.h"

#include <arpa/inet.h>
#include <inttypes.h>

enum {
	PORT_ACTIVE = 4, PORT_INIT = 2,		/* IBA volume 1, PortState */
	MTU_SMALL = 1024,	/* below it headers and packets cost too much */
	/*
	 * RoCE's headers, as Linux reckons them (iboe_get_mtu): GRH 40, UDP 8,
	 * BTH 12, XRC 4, atomic 28, ICRC 4.
	 */
	ROCE_OVERHEAD = 96,
};

static const char *link_name(enum doctor_link link)
{
	static const char *const names[] = { "InfiniBand", "RoCE", "iWARP" };

	return names[link];
}

static void judge_state(const struct doctor_facts *facts,
			const struct doctor_port *port,
			struct doctor_report *report)
{
	const struct doctor_netdev *netdev = doctor_netdev(facts, port->netdev);

	if (port->state == PORT_ACTIVE) {
		doctor_find(report, DOCTOR_OK, "port", "active, %s, %s",
			    link_name(port->link), port->rate);
		return;
	}
	doctor_find(report, DOCTOR_PROBLEM, "port-down",
		    "the port is not active: %s, %s", port->state_text,
		    port->phys_state);
	if (netdev && !netdev->is_up)
		doctor_advise(report, "ip link set %s up", netdev->name);
	else if (port->link == DOCTOR_LINK_IB && port->state == PORT_INIT)
		doctor_advise(report, "no subnet manager has configured it: "
			      "start opensm on one host, or that of the switch");
	else
		doctor_advise(report, "check cable, transceiver and the "
			      "switch's port");
}

/* The largest MTU of InfiniBand that fits, as Linux chooses it. */
static uint32_t roce_mtu(uint32_t netdev_mtu)
{
	uint32_t mtu = 4096;

	while (mtu > 256 && mtu + ROCE_OVERHEAD > netdev_mtu)
		mtu /= 2;
	return mtu;
}

static void judge_mtu(const struct doctor_facts *facts,
		      const struct doctor_port *port,
		      struct doctor_report *report)
{
	const struct doctor_netdev *netdev = doctor_netdev(facts, port->netdev);
	const bool is_roce = port->link == DOCTOR_LINK_ROCE;
	uint32_t fits = is_roce && netdev ? roce_mtu(netdev->mtu) :
					    port->max_mtu;

	if (port->link == DOCTOR_LINK_IWARP || port->active_mtu == 0)
		return;		/* TCP's own; or not known */
	fits = (uint32_t)rf_min_u64(fits, port->max_mtu);
	if (port->active_mtu < fits) {
		doctor_find(report, DOCTOR_WARNING, "mtu",
			    "the active MTU is %" PRIu32 ", though %" PRIu32
			    " would fit", port->active_mtu, fits);
		if (is_roce)
			doctor_advise(report, "take %s down and up",
				      port->netdev);
		else
			doctor_advise(report, "raise it in the subnet manager");
	} else if (port->active_mtu < MTU_SMALL) {
		doctor_find(report, DOCTOR_WARNING, "mtu-small",
			    "the active MTU is only %" PRIu32 "%s%s",
			    port->active_mtu, netdev ? ", for that of " : "",
			    netdev ? netdev->name : "");
		doctor_advise(report, "ip link set %s mtu 4200 or more, on all "
			      "hosts and switches alike", port->netdev);
	} else if (port->active_mtu < port->max_mtu) {
		doctor_find(report, DOCTOR_NOTE, "mtu",
			    "the active MTU is %" PRIu32 " of %" PRIu32 "; %s "
			    "has %" PRIu32 ": from 4200 on (jumbo frames, on "
			    "all hosts and switches) it would be 4096",
			    port->active_mtu, port->max_mtu,
			    netdev ? netdev->name : "?",
			    netdev ? netdev->mtu : 0);
	} else {
		doctor_find(report, DOCTOR_OK, "mtu", "the active MTU is %"
			    PRIu32, port->active_mtu);
	}
}

static void gid_text(const struct doctor_gid *gid, char out[64])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (memcmp(gid->raw, mapped, sizeof(mapped)) == 0)
		inet_ntop(AF_INET, gid->raw + 12, out, 64);
	else
		inet_ntop(AF_INET6, gid->raw, out, 64);
}

static bool is_link_local(const struct doctor_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

static void judge_gids(const struct doctor_port *port,
		       struct doctor_report *report)
{
	const struct doctor_gid *best = NULL;
	unsigned int v2 = 0;
	char text[64];

	for (unsigned int i = 0; i < port->gid_count; i++) {
		const struct doctor_gid *gid = &port->gids[i];

		if (!strstr(gid->type, "v2"))
			continue;
		v2++;
		if (!is_link_local(gid) && !best)
			best = gid;
	}
	if (port->gid_count == 0) {
		doctor_find(report, DOCTOR_PROBLEM, "no-gid",
			    "the table of GIDs is empty: nothing can connect");
		doctor_advise(report, "give %s an address and take it up",
			      port->netdev[0] ? port->netdev :
						"the network device");
	} else if (v2 == 0) {
		doctor_find(report, DOCTOR_WARNING, "gid-v1",
			    "all %u GIDs are RoCE v1: it does not pass routers",
			    port->gid_count);
		doctor_advise(report, "enable RoCE v2 on the NIC");
	} else if (!best) {
		doctor_find(report, DOCTOR_WARNING, "gid-link-local",
			    "no GID of RoCE v2 has an address that others can "
			    "route to");
		doctor_advise(report, "give %s an IP address", port->netdev);
	} else {
		gid_text(best, text);
		doctor_find(report, DOCTOR_OK, "gids",
			    "%u GIDs, %u of RoCE v2; the first with an address "
			    "is number %u: %s", port->gid_count, v2,
			    best->index, text);
	}
}

void doctor_judge_port(const struct doctor_facts *facts,
		       const struct doctor_device *device,
		       const struct doctor_port *port,
		       struct doctor_report *report)
{
	doctor_subject(report, "%s port %u%s%s", device->name, port->number,
		       port->netdev[0] ? " on " : "", port->netdev);
	judge_state(facts, port, report);
	judge_mtu(facts, port, report);
	if (port->link == DOCTOR_LINK_ROCE)
		judge_gids(port, report);
	doctor_judge_counters(facts, device, port, report);
}

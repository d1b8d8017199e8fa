/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_path.c - what the facts about the way to a server mean
 *
 * Pure: facts in, findings out.
 */
#include "doctor_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>

/* ---- the way ------------------------------------------------------------- */

static const struct doctor_port *port_on(const struct doctor_facts *facts,
					 const char *netdev,
					 const struct doctor_device **device)
{
	for (unsigned int i = 0; netdev[0] && i < facts->device_count; i++)
		for (unsigned int j = 0; j < facts->devices[i].port_count; j++)
			if (strcmp(facts->devices[i].ports[j].netdev,
				   netdev) == 0) {
				*device = &facts->devices[i];
				return &facts->devices[i].ports[j];
			}
	return NULL;
}

static bool wants_verbs(const struct doctor_path *path)
{
	return strcmp(path->target.scheme, "verbs") == 0;
}

static bool may_use_verbs(const struct doctor_path *path)
{
	return !path->target.scheme[0] || wants_verbs(path);
}

static void judge_route(const struct doctor_path *path,
			struct doctor_report *report)
{
	if (path->is_local)
		doctor_find(report, DOCTOR_OK, "route",
			    "%s is this host's, on %s", path->address_text,
			    path->netdev[0] ? path->netdev : "lo");
	else
		doctor_find(report, DOCTOR_OK, "route",
			    "leaves by %s from %s%s%s", path->netdev,
			    path->source_text[0] ? path->source_text : "?",
			    path->gateway[0] ? ", through the router " : "",
			    path->gateway);
}

/* The GID that was asked for by its number must be there. */
static void judge_gid_index(const struct doctor_facts *facts,
			    const struct doctor_device *device,
			    const struct doctor_port *port,
			    struct doctor_report *report)
{
	const int index = facts->question->tuning.gid_index;

	if (index < 0)
		return;
	for (unsigned int i = 0; i < port->gid_count; i++)
		if (port->gids[i].index == (unsigned int)index) {
			doctor_find(report, DOCTOR_OK, "gid-index",
				    "GID %d is %s", index, port->gids[i].type);
			return;
		}
	doctor_find(report, DOCTOR_PROBLEM, "gid-index",
		    "%s port %u has no GID of the number %d", device->name,
		    port->number, index);
	doctor_advise(report, "leave gid_index out, or take one of those in "
		      "/sys/class/infiniband/%s/ports/%u/gids", device->name,
		      port->number);
}

/* RoCE sends from the GID of the source address. */
static bool has_source_gid(const struct doctor_port *port,
			   const struct doctor_path *path)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	uint8_t raw[16];

	if (path->source.ss_family == AF_INET) {
		memcpy(raw, mapped, sizeof(mapped));
		memcpy(raw + 12,
		       &((const struct sockaddr_in *)&path->source)->sin_addr,
		       4);
	} else if (path->source.ss_family == AF_INET6) {
		memcpy(raw,
		       &((const struct sockaddr_in6 *)&path->source)->sin6_addr,
		       16);
	} else {
		return true;		/* not known */
	}
	for (unsigned int i = 0; i < port->gid_count; i++)
		if (memcmp(port->gids[i].raw, raw, 16) == 0)
			return true;
	/* The table was too long to be read whole. */
	return port->gid_count == DOCTOR_GIDS_MAX;
}

static void judge_gid(const struct doctor_path *path,
		      const struct doctor_device *device,
		      const struct doctor_port *port,
		      struct doctor_report *report)
{
	if (port->link != DOCTOR_LINK_ROCE || has_source_gid(port, path))
		return;
	doctor_find(report, DOCTOR_PROBLEM, "source-no-gid",
		    "%s has no GID for the source address %s", device->name,
		    path->source_text);
	doctor_advise(report, "take %s down and up, or remove the address and "
		      "add it again: the table of GIDs follows the addresses",
		      port->netdev);
}

static void judge_no_device(const struct doctor_facts *facts,
			    const struct doctor_path *path,
			    struct doctor_report *report)
{
	const struct doctor_device *first = &facts->devices[0];
	const char *netdev = first->ports[0].netdev;

	if (facts->device_count == 0) {
		if (!wants_verbs(path))
			return;
		doctor_find(report, DOCTOR_PROBLEM, "no-device",
			    "verbs was asked for, but no RDMA device is here");
		doctor_advise(report, "leave the scheme out to use what there "
			      "is");
		return;
	}
	doctor_find(report, wants_verbs(path) ? DOCTOR_PROBLEM :
						DOCTOR_WARNING,
		    "route-not-rdma", "the route goes by %s, which has no RDMA "
		    "device; %s is on %s", path->netdev, first->name,
		    netdev[0] ? netdev : "no network device");
	doctor_advise(report, "use the server's address in the network of %s, "
		      "or correct the route (ip route get %s)",
		      netdev[0] ? netdev : "the device", path->address_text);
}

static void judge_device(const struct doctor_facts *facts,
			 const struct doctor_path *path,
			 struct doctor_report *report)
{
	const struct doctor_device *device = NULL;
	const struct doctor_port *port = port_on(facts, path->netdev, &device);

	if (!may_use_verbs(path))
		return;
	if (path->rdma_device[0]) {
		doctor_find(report, DOCTOR_OK, "device-of-route",
			    "rdma_cm leads there by %s", path->rdma_device);
		if (port && strcmp(device->name, path->rdma_device) == 0) {
			judge_gid(path, device, port, report);
			judge_gid_index(facts, device, port, report);
		}
		return;
	}
	if (!port) {
		judge_no_device(facts, path, report);
		return;
	}
	doctor_find(report, DOCTOR_PROBLEM, "cm-no-route",
		    "rdma_cm finds no way there, though %s is on %s",
		    device->name, path->netdev);
	doctor_advise(report, "its port, GIDs and nodes (above) say why; does "
		      "%s answer ping, so that the neighbour is known?",
		      path->address_text);
	judge_gid(path, device, port, report);
}

static void judge_ping(const struct doctor_path *path,
		       struct doctor_report *report)
{
	switch (path->ping) {
	case DOCTOR_PING_FULL:
		doctor_find(report, DOCTOR_OK, "path-mtu",
			    "packets of %" PRIu32 " bytes pass", path->ping_size);
		break;
	case DOCTOR_PING_SMALL_ONLY:
		doctor_find(report, DOCTOR_PROBLEM, "path-mtu",
			    "%s sends packets of up to %" PRIu32 " bytes, but "
			    "only such of %" PRIu32 " pass: with RoCE large "
			    "transfers would hang", path->netdev,
			    path->ping_size, path->path_mtu);
		doctor_advise(report, "give %s, the other host and all "
			      "switches between the same MTU", path->netdev);
		break;
	case DOCTOR_PING_SILENT:
		doctor_find(report, DOCTOR_NOTE, "path-mtu",
			    "%s does not answer ping, so the MTU of the way is "
			    "not known", path->address_text);
		break;
	case DOCTOR_PING_NOT_TRIED:
		if (!path->is_local)
			doctor_find(report, DOCTOR_NOTE, "path-mtu",
				    "the MTU of the way was not tried: that "
				    "needs root or net.ipv4.ping_group_range");
		break;
	}
}

/* ---- the server ----------------------------------------------------------- */

static void judge_silence(const struct doctor_facts *facts,
			  const struct doctor_path *path,
			  const struct doctor_answer *answer, bool has_other,
			  struct doctor_report *report)
{
	/* A mount goes on with the other fabric. */
	enum doctor_severity severity = has_other ? DOCTOR_WARNING :
						    DOCTOR_PROBLEM;

	if (facts->question->is_server) {
		doctor_find(report, DOCTOR_NOTE, "not-listening",
			    "nobody listens there over %s: rdmafsd is not "
			    "running", answer->scheme);
		return;
	}
	if (answer->err == -ETIMEDOUT) {
		doctor_find(report, severity, "no-answer",
			    "no answer over %s in %" PRIu32 " ms",
			    answer->scheme, facts->question->timeo_ms);
		doctor_advise(report, "check that the host is up, and firewalls "
			      "(TCP port %u; RoCE: UDP port 4791)",
			      path->target.port);
		return;
	}
	doctor_find(report, severity, "not-listening",
		    "nobody listens there over %s", answer->scheme);
	doctor_advise(report, "is rdmafsd running there, on port %u, with "
		      "--listen %s://...?", path->target.port, answer->scheme);
}

static void judge_refusal(const struct doctor_answer *answer,
			  struct doctor_report *report)
{
	const char *reason = answer->reason[0] ? answer->reason :
						 strerror(-answer->err);

	if (answer->err == -ENOKEY) {
		doctor_find(report, DOCTOR_NOTE, "needs-key",
			    "a server answers over %s and wants a key: %s",
			    answer->scheme, reason);
		doctor_advise(report, "-o key=FILE, to go on");
		return;
	}
	doctor_find(report, DOCTOR_PROBLEM, "refused",
		    "a server answers over %s and refuses: %s", answer->scheme,
		    reason);
	if (answer->err == -EKEYREJECTED)
		doctor_advise(report, "use a copy of the server's key file");
	else if (answer->err == -ENOENT)
		doctor_advise(report, "the names are in the server's --export");
	else if (answer->err == -EACCES)
		doctor_advise(report, "add this address to the export's allow=");
}

static void judge_answer(const struct doctor_facts *facts,
			 const struct doctor_path *path,
			 const struct doctor_answer *answer, bool has_other,
			 struct doctor_report *report)
{
	if (!answer->was_tried)
		return;
	if (answer->err == 0)
		doctor_find(report, DOCTOR_OK, "answer",
			    "rdmafsd answers over %s%s, in %" PRIu32 " us",
			    answer->scheme, path->target.export[0] ?
			    " and opens the export" : "", answer->elapsed_us);
	else if (answer->was_answered)
		judge_refusal(answer, report);
	else if (answer->err == -ECONNREFUSED || answer->err == -ETIMEDOUT)
		judge_silence(facts, path, answer, has_other, report);
	else {
		doctor_find(report, has_other ? DOCTOR_WARNING :
						DOCTOR_PROBLEM, "no-answer",
			    "connecting over %s fails: %s", answer->scheme,
			    answer->reason[0] ? answer->reason :
						strerror(-answer->err));
		doctor_advise(report, answer->err == -EPROTO ?
			      "what listens there is no rdmafsd: check the port" :
			      "see the findings above, and the server's log");
	}
}

static const char *why_not_verbs(const struct doctor_facts *facts,
				 const struct doctor_path *path)
{
	if (path->target.scheme[0])
		return "it was asked for by name";
	if (!facts->was_built_with_verbs)
		return "this program was built without RDMA libraries";
	if (facts->device_count == 0)
		return "no RDMA device is here";
	if (!path->rdma_device[0])
		return "no RDMA device has a route there";
	return "over verbs nobody answers";
}

static void say_choice(const struct doctor_facts *facts,
		       const struct doctor_path *path,
		       struct doctor_report *report)
{
	const struct doctor_answer *chosen = NULL;

	for (unsigned int i = 0; !chosen && i < RF_ARRAY_SIZE(path->answers);
	     i++)
		if (path->answers[i].was_tried && path->answers[i].was_answered)
			chosen = &path->answers[i];
	if (!chosen || facts->question->is_server)
		return;
	if (strcmp(chosen->scheme, "verbs") == 0)
		doctor_find(report, DOCTOR_OK, "fabric",
			    "a mount would use verbs on %s, since rdma_cm leads "
			    "there and the server answers; rights %s",
			    path->rdma_device,
			    chosen->level == RF_LEVEL_WINDOW ?
			    "by windows" : "by session");
	else
		doctor_find(report, path->rdma_device[0] &&
				    !path->target.scheme[0] ? DOCTOR_NOTE :
							      DOCTOR_OK,
			    "fabric", "a mount would use %s, since %s",
			    chosen->scheme, why_not_verbs(facts, path));
}

static bool is_good(const struct doctor_answer *answer)
{
	return answer->was_tried && answer->was_answered;
}

void doctor_judge_path(const struct doctor_facts *facts,
		       const struct doctor_path *path,
		       struct doctor_report *report)
{
	const struct doctor_target *target = &path->target;

	doctor_subject(report, "%s %s%s%.40s port %u",
		       facts->question->is_server ? "Listening on" : "To",
		       target->scheme, target->scheme[0] ? "://" : "",
		       target->host, target->port);
	if (path->resolve_err) {
		doctor_find(report, DOCTOR_PROBLEM, "name", "%s: %s",
			    target->host, gai_strerror(path->resolve_err));
		doctor_advise(report, "check the name, or use an address");
		return;
	}
	if (path->is_any) {
		doctor_find(report, DOCTOR_OK, "route",
			    "all addresses of this host");
		return;
	}
	if (path->route_err == -EADDRNOTAVAIL) {
		doctor_find(report, DOCTOR_PROBLEM, "source-not-ours",
			    "%s, from where to connect, is no address of this "
			    "host", path->source_text);
		doctor_advise(report, "leave source out, or take one of: ip "
			      "-brief address");
		return;
	}
	if (path->route_err) {
		doctor_find(report, DOCTOR_PROBLEM, "no-route",
			    "no route to %s: %s", path->address_text,
			    strerror(-path->route_err));
		doctor_advise(report, "ip route; is the network device up?");
		return;
	}
	if (facts->question->is_server && !path->is_local) {
		doctor_find(report, DOCTOR_PROBLEM, "not-ours",
			    "%s is no address of this host",
			    path->address_text);
		doctor_advise(report, "listen on one of: ip -brief address");
		return;
	}
	if (path->address_count > 1)
		doctor_find(report, DOCTOR_NOTE, "addresses",
			    "%s has %u addresses; what follows is about %s, a "
			    "mount tries all in turn", target->host,
			    path->address_count, path->address_text);
	judge_route(path, report);
	judge_device(facts, path, report);
	judge_ping(path, report);
	judge_answer(facts, path, &path->answers[0],
		     is_good(&path->answers[1]), report);
	judge_answer(facts, path, &path->answers[1],
		     is_good(&path->answers[0]), report);
	say_choice(facts, path, report);
}

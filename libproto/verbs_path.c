/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_path.c - which way a connection goes: device, GID, traffic class
 *
 * Operation.  rdma_cm chooses by addresses: the route to the peer, or the source
 * address where one is given, names device, port and GID.  So a GID index is
 * turned into the address that stands in that entry, and when the connection is
 * there, the queue pair is asked whether it uses that entry: an address can have
 * two, for RoCE versions 1 and 2, between which rdma_cm's default_roce_mode
 * decides (Linux, Documentation/ABI/testing/configfs-rdma_cm).
 *
 * The traffic class goes into the path that the connecting side asks for, and on
 * RoCE the accepting side answers on the same path: there it is the connecting
 * side's choice that counts, in both directions.
 */
#include "verbs_impl.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>

enum { MAPPED_IPV4_AT = 12 };

static const char *name_of(const struct verbs_fabric *fabric)
{
	return ibv_get_device_name(fabric->context->device);
}

/* ---- devices by route ---------------------------------------------------- */

int verbs_route(const struct sockaddr *source, const struct sockaddr *addr,
		socklen_t addr_size, char *uri, size_t uri_size)
{
	struct sockaddr_storage from = { 0 }, copy = { 0 };
	struct rdma_cm_id *id;
	int err = -ENETUNREACH;

	if (addr_size > sizeof(copy))
		return -EINVAL;
	memcpy(&copy, addr, addr_size);
	if (source)
		memcpy(&from, source, addr_size);
	/* Without a poller nobody tells us of devices that go. */
	verbs_contexts_sweep();
	/* Without an event channel the calls are synchronous. */
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return -ENETUNREACH;
	if (rdma_resolve_addr(id, source ? (struct sockaddr *)&from : NULL,
			      (struct sockaddr *)&copy,
			      VERBS_SETUP_STEP_MS) == 0 && id->verbs) {
		const char *name = ibv_get_device_name(id->verbs->device);

		verbs_context_seen(id->verbs);
		err = (size_t)snprintf(uri, uri_size, "verbs://%s", name) <
		      uri_size ? 0 : -ENAMETOOLONG;
	}
	rdma_destroy_id(id);
	return err;
}

/* ---- what was chosen ----------------------------------------------------- */

int verbs_may_tune(const struct rf_fabric *fab, const struct rf_tuning *tuning)
{
	const struct verbs_fabric *fabric =
		rf_container_of(fab, const struct verbs_fabric, base);
	struct ibv_port_attr port;

	if (tuning->gid_index < 0)
		return 0;
	/* InfiniBand's GIDs are no addresses, iWARP's are the hardware's. */
	if (fabric->is_iwarp || ibv_query_port(fabric->context, 1, &port) ||
	    port.link_layer != IBV_LINK_LAYER_ETHERNET)
		return -EOPNOTSUPP;
	return 0;
}

static void set_traffic_class(const struct verbs_fabric *fabric,
			      struct rdma_cm_id *id)
{
	uint8_t class = (uint8_t)fabric->base.tuning.traffic_class;

	if (fabric->base.tuning.traffic_class >= 0 &&
	    rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &class,
			    sizeof(class)))
		rf_log(RF_LOG_WARN, "%s: can't set traffic class %u: %s",
		       name_of(fabric), class,
		       strerror(errno));
}

/* The address in an entry of the GID table; 0 or a negative errno. */
static int address_of_gid(const struct verbs_fabric *fabric, uint8_t port,
			  struct sockaddr_storage *out)
{
	static const uint8_t mapped[MAPPED_IPV4_AT] = { [10] = 0xff, 0xff };
	const uint32_t index = (uint32_t)fabric->base.tuning.gid_index;
	struct ibv_gid_entry entry;

	*out = (struct sockaddr_storage){ .ss_family = AF_UNSPEC };
	if (ibv_query_gid_ex(fabric->context, port, index, &entry, 0)) {
		rf_log(RF_LOG_ERROR, "%s port %u has no GID with index %u: see "
		       "the list of rdmafs doctor, or /sys/class/infiniband/"
		       "%s/ports/%u/gids",
		       name_of(fabric), port, index, name_of(fabric), port);
		return -EADDRNOTAVAIL;
	}
	if (memcmp(entry.gid.raw, mapped, sizeof(mapped)) == 0) {
		struct sockaddr_in *in = (struct sockaddr_in *)out;

		in->sin_family = AF_INET;
		memcpy(&in->sin_addr, entry.gid.raw + MAPPED_IPV4_AT,
		       sizeof(in->sin_addr));
	} else {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;

		in6->sin6_family = AF_INET6;
		memcpy(&in6->sin6_addr, entry.gid.raw, sizeof(in6->sin6_addr));
		if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
			in6->sin6_scope_id = entry.ndev_ifindex;
	}
	return 0;
}

/* ---- connecting ---------------------------------------------------------- */

int verbs_path_begin(struct verbs_ep *ep)
{
	struct verbs_poller *poller =
		rf_container_of(ep->base.poller, struct verbs_poller, base);
	struct verbs_fabric *fabric = verbs_fabric_of(ep->base.poller->fab);
	bool has_source = ep->source.ss_family != AF_UNSPEC;

	if (rdma_create_id(poller->cm, &ep->id, ep, RDMA_PS_TCP))
		return -errno;
	set_traffic_class(fabric, ep->id);
	if (rdma_resolve_addr(ep->id, has_source ?
			      (struct sockaddr *)&ep->source : NULL,
			      (struct sockaddr *)&ep->peer,
			      (int)ep->base.config.setup_ms))
		return -errno;
	return 0;
}

bool verbs_path_is_down(const struct verbs_ep *ep)
{
	struct ibv_port_attr port;

	return ibv_query_port(ep->id->verbs, ep->id->port_num, &port) == 0 &&
	       port.state != IBV_PORT_ACTIVE &&
	       port.state != IBV_PORT_ACTIVE_DEFER;
}

/* Of our device's name it is the same that came back. */
static int other_device(const struct verbs_ep *ep)
{
	const struct verbs_fabric *fabric =
		verbs_fabric_of(ep->base.poller->fab);

	if (strcmp(ibv_get_device_name(ep->id->verbs->device),
		   name_of(fabric)) != 0)
		return -ENETUNREACH;
	verbs_device_is_gone(fabric->context);
	return -ENODEV;
}

int verbs_path_resolved(struct verbs_ep *ep)
{
	struct verbs_fabric *fabric = verbs_fabric_of(ep->base.poller->fab);
	int err;

	verbs_context_seen(ep->id->verbs);
	if (ep->id->verbs->device != fabric->context->device)
		return other_device(ep);
	/* TCP of an iWARP device may well outlast it. */
	if (!fabric->is_iwarp && verbs_path_is_down(ep))
		return -ENETDOWN;
	if (fabric->base.tuning.gid_index < 0 || ep->is_gid_chosen)
		return 1;
	ep->is_gid_chosen = true;
	err = address_of_gid(fabric, ep->id->port_num, &ep->source);
	if (err)
		return err;
	if (ep->source.ss_family != ep->peer.ss_family)
		return -ENETUNREACH;
	/* Again, from there. */
	rdma_destroy_id(ep->id);
	ep->id = NULL;
	return verbs_path_begin(ep);
}

int verbs_path_check(struct verbs_ep *ep)
{
	const struct verbs_fabric *fabric =
		verbs_fabric_of(ep->base.poller->fab);
	const char *name = name_of(fabric);
	int wish = fabric->base.tuning.gid_index;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = { 0 };
	int index;

	if (fabric->is_iwarp || !ep->id->qp ||
	    ibv_query_qp(ep->id->qp, &attr, IBV_QP_AV, &init))
		return 0;
	index = attr.ah_attr.grh.sgid_index;
	rf_log(RF_LOG_DEBUG, "%s port %u: a connection with GID index %d, "
	       "traffic class %u", name, ep->id->port_num, index,
	       attr.ah_attr.grh.traffic_class);
	if (wish < 0 || index == wish)
		return 0;
	rf_log(RF_LOG_ERROR, "%s port %u: asked for GID index %d, but rdma_cm "
	       "took %d, which has the same address: set default_roce_mode "
	       "of this device in /sys/kernel/config/rdma_cm, or ask for %d",
	       name, ep->id->port_num, wish, index, index);
	return -EADDRNOTAVAIL;
}

/* ---- listening ----------------------------------------------------------- */

static bool is_wildcard(const struct sockaddr_storage *addr)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;

	return addr->ss_family == AF_INET ?
		in->sin_addr.s_addr == htonl(INADDR_ANY) :
		IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
}

static bool is_same_host(const struct sockaddr_storage *a,
			 const struct sockaddr_storage *b)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)a;
	const struct sockaddr_in *jn = (const struct sockaddr_in *)b;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)a;
	const struct sockaddr_in6 *jn6 = (const struct sockaddr_in6 *)b;

	if (a->ss_family != b->ss_family)
		return false;
	return a->ss_family == AF_INET ?
		in->sin_addr.s_addr == jn->sin_addr.s_addr :
		IN6_ARE_ADDR_EQUAL(&in6->sin6_addr, &jn6->sin6_addr);
}

/* Keep the port, take the address. */
static void take_host(struct sockaddr_storage *addr,
		      const struct sockaddr_storage *host)
{
	in_port_t port = addr->ss_family == AF_INET ?
		((const struct sockaddr_in *)addr)->sin_port :
		((const struct sockaddr_in6 *)addr)->sin6_port;

	*addr = *host;
	if (addr->ss_family == AF_INET)
		((struct sockaddr_in *)addr)->sin_port = port;
	else
		((struct sockaddr_in6 *)addr)->sin6_port = port;
}

int verbs_path_listen(const struct verbs_fabric *fabric, struct rdma_cm_id *id,
		      struct sockaddr_storage *addr)
{
	struct sockaddr_storage host;
	int err;

	set_traffic_class(fabric, id);
	if (fabric->base.tuning.gid_index < 0)
		return 0;
	/* Of the first port; listen on another one by its address. */
	err = address_of_gid(fabric, 1, &host);
	if (err)
		return err;
	if (!is_wildcard(addr) && !is_same_host(addr, &host)) {
		rf_log(RF_LOG_ERROR, "%s: the address to listen on is not that "
		       "of GID index %d: leave one of the two out",
		       name_of(fabric),
		       fabric->base.tuning.gid_index);
		return -EADDRNOTAVAIL;
	}
	take_host(addr, &host);
	return 0;
}

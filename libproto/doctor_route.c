/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_route.c - which way leads to an address: the kernel's table, rdma_cm
 *
 * Source: rtnetlink(7), RTM_GETROUTE.
 */
#include "doctor_impl.h"
#include "doctor_io.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netdb.h>
#include <stdio.h>
#include <unistd.h>

enum { ANSWER_MAX = 8192, ANSWER_MS = 2000 };

/* ---- addresses ----------------------------------------------------------- */

static const void *bytes_of(const struct sockaddr_storage *addr, size_t *size)
{
	if (addr->ss_family == AF_INET) {
		*size = 4;
		return &((const struct sockaddr_in *)addr)->sin_addr;
	}
	*size = 16;
	return &((const struct sockaddr_in6 *)addr)->sin6_addr;
}

static void address_text(const struct sockaddr_storage *addr, char out[64])
{
	size_t size;
	const void *bytes = bytes_of(addr, &size);

	if (!inet_ntop(addr->ss_family, bytes, out, 64))
		out[0] = '\0';
}

static int resolve(struct doctor_path *path)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_NUMERICSERV };
	struct addrinfo *found;
	char port[8];

	snprintf(port, sizeof(port), "%u", path->target.port);
	path->resolve_err = getaddrinfo(path->target.host, port, &hints,
					&found);
	if (path->resolve_err)
		return -EHOSTUNREACH;
	for (const struct addrinfo *at = found; at; at = at->ai_next)
		path->address_count++;
	memcpy(&path->address, found->ai_addr, found->ai_addrlen);
	path->address_size = found->ai_addrlen;
	freeaddrinfo(found);
	address_text(&path->address, path->address_text);
	return 0;
}

/* The netdev that has this address; "" if none. */
static void netdev_of(const struct sockaddr_storage *addr,
		      char out[IFNAMSIZ])
{
	struct ifaddrs *list, *at;
	size_t size;
	const void *bytes = bytes_of(addr, &size), *other;

	out[0] = '\0';
	if (getifaddrs(&list) < 0)
		return;
	for (at = list; at; at = at->ifa_next) {
		if (!at->ifa_addr ||
		    at->ifa_addr->sa_family != addr->ss_family)
			continue;
		other = bytes_of((const void *)at->ifa_addr, &size);
		if (memcmp(bytes, other, size) == 0)
			snprintf(out, IFNAMSIZ, "%s", at->ifa_name);
	}
	freeifaddrs(list);
}

/* May we connect from it? */
static bool is_ours(const struct sockaddr_storage *addr)
{
	const socklen_t size = addr->ss_family == AF_INET ?
		sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	int fd = socket(addr->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is_ours;

	if (fd < 0)
		return false;
	is_ours = bind(fd, (const struct sockaddr *)addr, size) == 0 ||
		  errno != EADDRNOTAVAIL;
	close(fd);
	return is_ours;
}

/* ---- the kernel's answer ------------------------------------------------- */

static void copy_address(const struct doctor_attrs *value, int family,
			 struct sockaddr_storage *out)
{
	memset(out, 0, sizeof(*out));
	out->ss_family = (sa_family_t)family;
	if (family == AF_INET)
		memcpy(&((struct sockaddr_in *)out)->sin_addr, value->at, 4);
	else
		memcpy(&((struct sockaddr_in6 *)out)->sin6_addr, value->at, 16);
}

static void take_attr(unsigned int type, const struct doctor_attrs *value,
		      int family, struct doctor_path *path)
{
	const size_t size = family == AF_INET ? 4 : 16;
	struct sockaddr_storage addr;
	unsigned int index;

	if (type == RTA_OIF && value->left == sizeof(index)) {
		memcpy(&index, value->at, sizeof(index));
		if (!if_indextoname(index, path->netdev))
			path->netdev[0] = '\0';
	} else if (value->left != size) {
		return;
	} else if (type == RTA_PREFSRC) {
		copy_address(value, family, &path->source);
		address_text(&path->source, path->source_text);
	} else if (type == RTA_GATEWAY) {
		copy_address(value, family, &addr);
		address_text(&addr, path->gateway);
	}
}

static int take_route(const uint8_t *at, size_t size, struct doctor_path *path)
{
	struct doctor_attrs attrs, value;
	struct rtmsg route;
	unsigned int type;

	if (size < NLMSG_ALIGN(sizeof(route)))
		return -EPROTO;
	memcpy(&route, at, sizeof(route));
	path->is_local = route.rtm_type == RTN_LOCAL;
	if (route.rtm_type == RTN_UNREACHABLE ||
	    route.rtm_type == RTN_BLACKHOLE || route.rtm_type == RTN_PROHIBIT)
		return -ENETUNREACH;
	attrs.at = at + NLMSG_ALIGN(sizeof(route));
	attrs.left = size - NLMSG_ALIGN(sizeof(route));
	while (doctor_next_attr(&attrs, &type, &value))
		take_attr(type, &value, route.rtm_family, path);
	if (path->is_local) {
		path->source = path->address;
		memcpy(path->source_text, path->address_text,
		       sizeof(path->source_text));
		netdev_of(&path->address, path->netdev);
	}
	return 0;
}

static int take_answer(const uint8_t *at, size_t size, struct doctor_path *path)
{
	struct nlmsghdr header;
	int err;

	if (size < sizeof(header))
		return -EPROTO;
	memcpy(&header, at, sizeof(header));
	if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > size)
		return -EPROTO;
	at += sizeof(header);
	size = header.nlmsg_len - sizeof(header);
	if (header.nlmsg_type == RTM_NEWROUTE)
		return take_route(at, size, path);
	if (header.nlmsg_type != NLMSG_ERROR || size < sizeof(err))
		return -EPROTO;
	memcpy(&err, at, sizeof(err));
	return err;
}

struct route_request {
	struct nlmsghdr header;
	struct rtmsg route;
	char attrs[64];
};

static void add_attr(struct route_request *request, unsigned short type,
		     const void *bytes, size_t size)
{
	const size_t at = NLMSG_ALIGN(request->header.nlmsg_len);
	struct rtattr attr = { .rta_type = type };

	attr.rta_len = (unsigned short)RTA_LENGTH(size);
	memcpy((char *)request + at, &attr, sizeof(attr));
	memcpy((char *)request + at + RTA_LENGTH(0), bytes, size);
	request->header.nlmsg_len = (uint32_t)at + attr.rta_len;
}

static void add_address(struct route_request *request, unsigned short type,
			const struct sockaddr_storage *addr)
{
	size_t size;
	const void *bytes = bytes_of(addr, &size);

	add_attr(request, type, bytes, size);
	if (type == RTA_DST)
		request->route.rtm_dst_len = (unsigned char)(size * 8);
	else
		request->route.rtm_src_len = (unsigned char)(size * 8);
}

/* "fe80::1%eth1": every network has such addresses, so it says which is meant. */
static void add_scope(struct route_request *request,
		      const struct sockaddr_storage *addr)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;

	if (addr->ss_family == AF_INET6 && in6->sin6_scope_id)
		add_attr(request, RTA_OIF, &in6->sin6_scope_id,
			 sizeof(in6->sin6_scope_id));
}

/* From source, unless that is of another family. */
static int ask_kernel(struct doctor_path *path,
		      const struct sockaddr_storage *source)
{
	struct route_request request = {
		.header = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
			    .nlmsg_type = RTM_GETROUTE,
			    .nlmsg_flags = NLM_F_REQUEST },
		.route = { .rtm_family = (unsigned char)
				   path->address.ss_family },
	};
	uint8_t answer[ANSWER_MAX];
	int fd = doctor_netlink_open(NETLINK_ROUTE, ANSWER_MS);
	ssize_t got;

	if (fd < 0)
		return fd;
	add_address(&request, RTA_DST, &path->address);
	add_scope(&request, &path->address);
	if (source->ss_family == path->address.ss_family) {
		add_address(&request, RTA_SRC, source);
		path->source = *source;
		address_text(source, path->source_text);
		if (!is_ours(source)) {
			close(fd);
			return -EADDRNOTAVAIL;
		}
	}
	got = send(fd, &request, request.header.nlmsg_len, 0) < 0 ? -1 :
	      recv(fd, answer, sizeof(answer), 0);
	close(fd);
	if (got < 0)
		return -errno;
	return take_answer(answer, (size_t)got, path);
}

/* ---- rdma_cm ------------------------------------------------------------- */

static void ask_rdma_cm(struct doctor_path *path,
			const struct sockaddr_storage *source)
{
	const struct sockaddr *from = source->ss_family ?
		(const struct sockaddr *)source : NULL;
	char uri[256];
	const char *name;

	if (rf_fabric_route_from("verbs", from,
				 (const struct sockaddr *)&path->address,
				 path->address_size, uri, sizeof(uri)))
		return;
	name = strstr(uri, "://");
	if (name)
		snprintf(path->rdma_device, sizeof(path->rdma_device), "%.*s",
			 DOCTOR_WORD - 1, name + 3);
}

static bool is_any(const struct sockaddr_storage *addr)
{
	static const uint8_t zeroes[16];
	size_t size;
	const void *bytes = bytes_of(addr, &size);

	return memcmp(bytes, zeroes, size) == 0;
}

void doctor_find_path(const struct doctor_question *question,
		      struct doctor_path *path, bool may_ask_rdma_cm)
{
	const struct sockaddr_storage *source = &question->tuning.source;

	if (resolve(path))
		return;
	path->is_any = is_any(&path->address);
	if (path->is_any)
		return;
	path->route_err = ask_kernel(path, source);
	if (may_ask_rdma_cm && !path->route_err)
		ask_rdma_cm(path, source);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_nldev.c - the kernel's table of RDMA resources: what is registered, how
 * deep the completion queues are, by device and by process
 *
 * Source: rdma/rdma_netlink.h of Linux (RDMA_NL_NLDEV), as rdma-resource(8) asks
 * it.  Everybody may ask; keys are shown to nobody here.
 */
#include "doctor_io.h"

#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum {
	MESSAGE_MAX = 65536,
	MESSAGES_MAX = 10000,		/* of one dump */
	WAIT_MS = 2000,
	DEVICE_INDEX_MAX = 256,
};

int doctor_netlink_open(int protocol, unsigned int wait_ms)
{
	const struct timeval wait = { .tv_sec = wait_ms / 1000,
				      .tv_usec = wait_ms % 1000 * 1000 };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

/* ---- attributes ---------------------------------------------------------- */

bool doctor_next_attr(struct doctor_attrs *attrs, unsigned int *type,
		      struct doctor_attrs *value)
{
	struct nlattr header;
	size_t step;

	if (attrs->left < sizeof(header))
		return false;
	memcpy(&header, attrs->at, sizeof(header));
	if (header.nla_len < sizeof(header) || header.nla_len > attrs->left)
		return false;
	*type = header.nla_type & (unsigned int)NLA_TYPE_MASK;
	value->at = attrs->at + sizeof(header);
	value->left = header.nla_len - sizeof(header);
	step = rf_min_u64(NLA_ALIGN(header.nla_len), attrs->left);
	attrs->at += step;
	attrs->left -= step;
	return true;
}

static bool find_attr(struct doctor_attrs attrs, unsigned int wanted,
		      struct doctor_attrs *value)
{
	unsigned int type;

	while (doctor_next_attr(&attrs, &type, value))
		if (type == wanted)
			return true;
	return false;
}

static uint64_t number_of(struct doctor_attrs attrs, unsigned int wanted)
{
	struct doctor_attrs value;
	uint64_t number = 0;

	if (!find_attr(attrs, wanted, &value) || value.left > sizeof(number))
		return 0;
	memcpy(&number, value.at, value.left);	/* little-endian: base.h */
	return number;
}

static bool is_text(struct doctor_attrs attrs, unsigned int wanted, const char *text)
{
	struct doctor_attrs value;

	return find_attr(attrs, wanted, &value) &&
	       value.left == strlen(text) + 1 &&
	       memcmp(value.at, text, value.left) == 0;
}

/* ---- asking -------------------------------------------------------------- */

typedef void (*take_fn)(struct doctor_attrs attrs, void *context);

/* One datagram of a dump; 1: go on, 0: it was the last one. */
static int take_datagram(const uint8_t *at, size_t size, take_fn take,
			 void *context)
{
	while (size >= sizeof(struct nlmsghdr)) {
		struct nlmsghdr header;
		int err;

		memcpy(&header, at, sizeof(header));
		if (header.nlmsg_len < sizeof(header) ||
		    header.nlmsg_len > size)
			return -EPROTO;
		if (header.nlmsg_type == NLMSG_DONE)
			return 0;
		if (header.nlmsg_type == NLMSG_ERROR) {
			if (header.nlmsg_len < sizeof(header) + sizeof(err))
				return -EPROTO;
			memcpy(&err, at + sizeof(header), sizeof(err));
			return err;
		}
		take((struct doctor_attrs){ at + sizeof(header),
				     header.nlmsg_len - sizeof(header) },
		     context);
		if (!(header.nlmsg_flags & NLM_F_MULTI))
			return 0;
		size -= rf_min_u64(NLMSG_ALIGN(header.nlmsg_len), size);
		at += NLMSG_ALIGN(header.nlmsg_len);
	}
	return 1;
}

/* All answers to a command, of a device or (index < 0) of all. */
static int dump(int fd, unsigned int command, int index, take_fn take,
		void *context)
{
	static uint8_t answer[MESSAGE_MAX];
	struct {
		struct nlmsghdr header;
		struct nlattr attr;
		uint32_t index;
	} request = {
		.header = {
			.nlmsg_len = index < 0 ? sizeof(struct nlmsghdr) :
						 sizeof(request),
			.nlmsg_type = (uint16_t)RDMA_NL_GET_TYPE(
				RDMA_NL_NLDEV, command),
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		},
		.attr = { .nla_len = sizeof(struct nlattr) + 4,
			  .nla_type = RDMA_NLDEV_ATTR_DEV_INDEX },
		.index = (uint32_t)index,
	};
	int more = 1;

	if (send(fd, &request, request.header.nlmsg_len, 0) < 0)
		return -errno;
	for (unsigned int i = 0; more == 1 && i < MESSAGES_MAX; i++) {
		ssize_t got = recv(fd, answer, sizeof(answer), 0);

		if (got <= 0)
			return got < 0 ? -errno : -EPROTO;
		more = take_datagram(answer, (size_t)got, take, context);
	}
	return more < 0 ? more : 0;
}

/* ---- what a device holds ------------------------------------------------- */

struct asking {
	struct doctor_facts *facts;
	int indexes[DOCTOR_DEVICES_MAX];	/* -1: not known */
};

static void take_summary(struct doctor_attrs attrs, struct doctor_device *device)
{
	struct doctor_attrs table, entry;
	unsigned int type;

	if (!find_attr(attrs, RDMA_NLDEV_ATTR_RES_SUMMARY, &table))
		return;
	device->has_resources = true;
	while (doctor_next_attr(&table, &type, &entry)) {
		uint64_t used = number_of(
			entry, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR);
		const unsigned int name =
			RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME;

		if (is_text(entry, name, "qp"))
			device->used_qp = used;
		else if (is_text(entry, name, "cq"))
			device->used_cq = used;
		else if (is_text(entry, name, "mr"))
			device->used_mr = used;
		else if (is_text(entry, name, "pd"))
			device->used_pd = used;
	}
}

static void take_device(struct doctor_attrs attrs, void *context)
{
	struct asking *asking = context;

	for (unsigned int i = 0; i < asking->facts->device_count; i++) {
		struct doctor_device *device = &asking->facts->devices[i];

		if (!is_text(attrs, RDMA_NLDEV_ATTR_DEV_NAME, device->name))
			continue;
		asking->indexes[i] = (int)number_of(attrs,
						    RDMA_NLDEV_ATTR_DEV_INDEX);
		take_summary(attrs, device);
	}
}

/* ---- what our programs hold ---------------------------------------------- */

static struct doctor_program *owner(struct doctor_facts *facts,
				    struct doctor_attrs entry)
{
	const int pid = (int)number_of(entry, RDMA_NLDEV_ATTR_RES_PID);

	for (unsigned int i = 0; i < facts->program_count; i++)
		if (facts->programs[i].pid == pid)
			return &facts->programs[i];
	return NULL;
}

static void take_qps(struct doctor_attrs attrs, void *context)
{
	struct doctor_attrs table, entry;
	struct doctor_program *program;
	unsigned int type;

	if (!find_attr(attrs, RDMA_NLDEV_ATTR_RES_QP, &table))
		return;
	while (doctor_next_attr(&table, &type, &entry))
		if ((program = owner(context, entry)))
			program->qps++;
}

static void take_cqs(struct doctor_attrs attrs, void *context)
{
	struct doctor_attrs table, entry;
	struct doctor_program *program;
	unsigned int type;

	if (!find_attr(attrs, RDMA_NLDEV_ATTR_RES_CQ, &table))
		return;
	while (doctor_next_attr(&table, &type, &entry))
		if ((program = owner(context, entry))) {
			uint32_t depth = (uint32_t)number_of(
				entry, RDMA_NLDEV_ATTR_RES_CQE);

			program->cqs++;
			if (depth > program->cq_depth_most)
				program->cq_depth_most = depth;
		}
}

static void take_mrs(struct doctor_attrs attrs, void *context)
{
	struct doctor_attrs table, entry;
	struct doctor_program *program;
	unsigned int type;

	if (!find_attr(attrs, RDMA_NLDEV_ATTR_RES_MR, &table))
		return;
	while (doctor_next_attr(&table, &type, &entry))
		if ((program = owner(context, entry))) {
			program->mrs++;
			program->mr_bytes += number_of(
				entry, RDMA_NLDEV_ATTR_RES_MRLEN);
		}
}

void doctor_read_resources(struct doctor_facts *facts)
{
	struct asking asking = { .facts = facts };
	int fd = doctor_netlink_open(NETLINK_RDMA, WAIT_MS);

	if (fd < 0)
		return;
	memset(asking.indexes, 0xff, sizeof(asking.indexes));
	if (dump(fd, RDMA_NLDEV_CMD_RES_GET, -1, take_device, &asking) == 0)
		for (unsigned int i = 0; i < facts->device_count; i++) {
			if (asking.indexes[i] < 0)
				continue;
			dump(fd, RDMA_NLDEV_CMD_RES_QP_GET, asking.indexes[i],
			     take_qps, facts);
			dump(fd, RDMA_NLDEV_CMD_RES_CQ_GET, asking.indexes[i],
			     take_cqs, facts);
			dump(fd, RDMA_NLDEV_CMD_RES_MR_GET, asking.indexes[i],
			     take_mrs, facts);
		}
	close(fd);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_gone.c - devices that are taken away
 *
 * Operation.  We learn of it by whatever comes first: the device's own event, that
 * of rdma_cm for a connection or listener, or the kernel's "remove" of its node
 * (a uevent).  The last is all that comes where a driver can't take a device from
 * programs that have it open (rxe, siw): there the kernel waits until all of them
 * have closed it, and the operator's "rdma link delete" with it.  So we close it as
 * soon as nothing of ours uses it.
 *
 * librdmacm has opened the device and closes it only when it looks through the
 * list of devices and finds another one there.  So we keep each context of its
 * that we have seen, and when the device is gone and no fabric uses it, take the
 * kernel's files from below it: librdmacm keeps its structures, whose descriptors
 * lead nowhere.
 *
 * There may be several contexts of one device: librdmacm 44 and earlier sort
 * devices wrongly when one came late, and open one anew that they have.
 */
#include "verbs_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	UEVENT_SIZE = 8192,		/* the kernel's are below 4 KiB */
	KERNELS_GROUP = 1,		/* 2 is udev's */
};

/* A context of librdmacm's. */
struct known {
	struct ibv_context **held;	/* as rdma_free_devices() takes it */
	struct rf_list link;
};

/* Changed when fabrics come and go, walked when a device fails. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rf_list all_fabrics = { &all_fabrics, &all_fabrics };
static struct rf_list all_known = { &all_known, &all_known };

/* ---- contexts, under all_lock -------------------------------------------- */

static bool is_used(const struct ibv_context *context)
{
	const struct rf_list *pos;

	rf_list_for_each(pos, &all_fabrics)
		if (rf_container_of(pos, const struct verbs_fabric,
				    all_link)->context == context)
			return true;
	return false;
}

static bool is_known(const struct ibv_context *context)
{
	const struct rf_list *pos;

	rf_list_for_each(pos, &all_known)
		if (rf_container_of(pos, const struct known,
				    link)->held[0] == context)
			return true;
	return false;
}

/* It may also have failed, and be there all the same. */
static bool is_listed(const struct ibv_context *context)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	bool is_there = false;

	for (int i = 0; list && list[i]; i++)
		is_there |= list[i] == context->device;
	if (list)
		ibv_free_device_list(list);
	return is_there;
}

static bool keep(struct ibv_context *context)
{
	struct known *known = calloc(1, sizeof(*known));

	if (known)
		known->held = calloc(2, sizeof(*known->held));
	if (!known || !known->held) {
		free(known);
		return false;
	}
	known->held[0] = context;
	rf_list_push(&all_known, &known->link);
	return true;
}

/* Keep all that we don't have yet. */
static void look_for_contexts(void)
{
	struct ibv_context **list = rdma_get_devices(NULL);
	int others = 0;

	if (!list)
		return;
	for (int i = 0; list[i]; i++)
		if (is_known(list[i]) || !keep(list[i]))
			list[others++] = list[i];
	list[others] = NULL;
	rdma_free_devices(list);
}

static void close_files(const struct ibv_context *context)
{
	/* Read-only, so that no command passes. */
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	dup3(fd, context->cmd_fd, O_CLOEXEC);
	dup3(fd, context->async_fd, O_CLOEXEC);
	close(fd);
}

/* Let go of each whose device is gone and that no fabric uses. */
static void sweep(void)
{
	struct rf_list *pos = all_known.next;

	while (pos != &all_known) {
		struct known *known = rf_container_of(pos, struct known, link);

		pos = pos->next;
		if (is_used(known->held[0]) || is_listed(known->held[0]))
			continue;
		close_files(known->held[0]);
		rf_list_remove(&known->link);
		rdma_free_devices(known->held);
		free(known);
	}
}

static struct ibv_context *find_context(const char *name)
{
	const struct rf_list *pos;

	rf_list_for_each(pos, &all_known) {
		struct ibv_context *context =
			rf_container_of(pos, const struct known, link)->held[0];

		if ((name[0] == '\0' ||
		     strcmp(ibv_get_device_name(context->device), name) == 0) &&
		    is_listed(context))
			return context;
	}
	return NULL;
}

/* ---- who has which ------------------------------------------------------- */

bool verbs_context_get(struct verbs_fabric *fabric, const char *name)
{
	pthread_mutex_lock(&all_lock);
	look_for_contexts();
	fabric->context = find_context(name);
	if (fabric->context)
		rf_list_push(&all_fabrics, &fabric->all_link);
	pthread_mutex_unlock(&all_lock);
	return fabric->context;
}

void verbs_context_put(struct verbs_fabric *fabric)
{
	pthread_mutex_lock(&all_lock);
	rf_list_remove(&fabric->all_link);
	if (rf_fabric_is_gone(&fabric->base))
		sweep();
	pthread_mutex_unlock(&all_lock);
}

void verbs_contexts_sweep(void)
{
	pthread_mutex_lock(&all_lock);
	sweep();
	pthread_mutex_unlock(&all_lock);
}

void verbs_context_seen(const struct ibv_context *context)
{
	pthread_mutex_lock(&all_lock);
	if (!is_known(context))
		look_for_contexts();
	pthread_mutex_unlock(&all_lock);
}

/* ---- gone ---------------------------------------------------------------- */

static bool mark_gone(const struct ibv_context *context)
{
	bool is_news = false;
	struct rf_list *pos;

	rf_list_for_each(pos, &all_fabrics) {
		struct verbs_fabric *fabric =
			rf_container_of(pos, struct verbs_fabric, all_link);

		if (fabric->context == context)
			is_news |= !__atomic_exchange_n(&fabric->base.is_gone,
							true, __ATOMIC_ACQ_REL);
	}
	return is_news;
}

static void say_and_wake(const struct ibv_context *context)
{
	rf_log(RF_LOG_ERROR, "%s: the device was removed, or has failed; its "
	       "connections are closed, and we let go of it: see the kernel's "
	       "log (dmesg)", ibv_get_device_name(context->device));
	verbs_events_wake_all(context);
}

void verbs_device_is_gone(const struct ibv_context *context)
{
	bool is_news;

	pthread_mutex_lock(&all_lock);
	is_news = mark_gone(context);
	pthread_mutex_unlock(&all_lock);
	if (is_news)
		say_and_wake(context);
}

/* ---- the kernel's word --------------------------------------------------- */

int verbs_uevents_open(void)
{
	const struct sockaddr_nl addr = { .nl_family = AF_NETLINK,
					  .nl_groups = KERNELS_GROUP };
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			NETLINK_KOBJECT_UEVENT);

	if (fd >= 0 && bind(fd, (const struct sockaddr *)&addr, sizeof(addr))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Is it "remove@/devices/.../infiniband_verbs/NODE"? */
static bool is_removal(const char *text, const char *node)
{
	const char *name = strrchr(text, '/');

	return strncmp(text, "remove@", 7) == 0 && name &&
	       strstr(text, "/infiniband_verbs/") &&
	       strcmp(name + 1, node) == 0;
}

/* NULL: something may have been missed. */
static bool has_gone(const struct ibv_context *context, const char *text)
{
	return text ? is_removal(text, context->device->dev_name)
		    : !is_listed(context);
}

/* The next one of ours that is not known to be gone. */
static const struct ibv_context *find_gone(const char *text)
{
	const struct ibv_context *found = NULL;
	const struct rf_list *pos;

	pthread_mutex_lock(&all_lock);
	rf_list_for_each(pos, &all_fabrics) {
		const struct verbs_fabric *fabric =
			rf_container_of(pos, const struct verbs_fabric,
					all_link);

		if (!rf_fabric_is_gone(&fabric->base) &&
		    has_gone(fabric->context, text))
			found = fabric->context;
	}
	pthread_mutex_unlock(&all_lock);
	return found;
}

static void take_uevent(const char *text)
{
	const struct ibv_context *context;

	if (text && (strncmp(text, "remove@", 7) != 0 ||
		     !strstr(text, "/infiniband_verbs/")))
		return;
	while ((context = find_gone(text)))
		verbs_device_is_gone(context);
	/* librdmacm has opened all devices, also those that nobody uses. */
	verbs_contexts_sweep();
}

void verbs_take_uevents(int fd)
{
	char text[UEVENT_SIZE + 1];
	struct sockaddr_nl from;
	struct iovec part = { text, UEVENT_SIZE };
	struct msghdr msg = { .msg_name = &from, .msg_iov = &part,
			      .msg_iovlen = 1 };
	ssize_t got;

	for (;;) {
		msg.msg_namelen = sizeof(from);
		got = recvmsg(fd, &msg, 0);
		if (got < 0 && errno != ENOBUFS)
			return;
		if (got < 0) {
			take_uevent(NULL);
			continue;
		}
		text[got] = '\0';
		/* Programs may send to the group as well. */
		if (from.nl_pid == 0)
			take_uevent(text);
	}
}

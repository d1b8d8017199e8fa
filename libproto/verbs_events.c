/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_events.c - the device's own events: links, failures, removal
 *
 * Operation.  librdmacm opens a device once in a process, so its pollers share
 * one queue of these, and each may read what concerns another.  It leaves word
 * there (told_reason) and wakes it.  A queue pair or completion
 * queue, and so its endpoint, can't go before its events are acknowledged.
 */
#include "verbs_impl.h"

#include <errno.h>
#include <unistd.h>

/* Changed when pollers come and go, walked when a device fails. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rf_list all_pollers = { &all_pollers, &all_pollers };

void verbs_events_join(struct verbs_poller *poller)
{
	pthread_mutex_lock(&all_lock);
	rf_list_push(&all_pollers, &poller->all_link);
	pthread_mutex_unlock(&all_lock);
}

void verbs_events_leave(struct verbs_poller *poller)
{
	pthread_mutex_lock(&all_lock);
	rf_list_remove(&poller->all_link);
	pthread_mutex_unlock(&all_lock);
}

static struct verbs_poller *poller_of(const struct verbs_ep *ep)
{
	return rf_container_of(ep->base.poller, struct verbs_poller, base);
}

void verbs_events_wake(struct verbs_poller *poller)
{
	const uint64_t one = 1;

	/* Full is as good: it is readable. */
	if (write(poller->told_fd, &one, sizeof(one)) < 0)
		RF_ASSERT(errno == EAGAIN);
}

void verbs_events_tell(struct verbs_ep *ep, int reason)
{
	struct verbs_poller *poller = poller_of(ep);

	__atomic_store_n(&ep->told_reason, reason, __ATOMIC_RELAXED);
	__atomic_store_n(&poller->is_told, true, __ATOMIC_RELEASE);
	verbs_events_wake(poller);
}

/* NULL: a queue pair that another part of the program made.  [any] */
static void tell(struct verbs_ep *ep, int reason)
{
	if (ep)
		verbs_events_tell(ep, reason);
}

/* siw says this too when a connection ends under a work.  [any] */
static void tell_failure(struct verbs_ep *ep, int reason)
{
	if (ep && verbs_fabric_of(ep->base.poller->fab)->is_siw)
		reason = -ECONNRESET;
	tell(ep, reason);
}

void verbs_events_wake_all(const struct ibv_context *context)
{
	struct rf_list *pos;

	pthread_mutex_lock(&all_lock);
	rf_list_for_each(pos, &all_pollers) {
		struct verbs_poller *poller =
			rf_container_of(pos, struct verbs_poller, all_link);

		if (verbs_fabric_of(poller->base.fab)->context == context)
			verbs_events_wake(poller);
	}
	pthread_mutex_unlock(&all_lock);
}

/* Queues hold all that may be posted, so this is the device's fault.  [any] */
static void cq_overran(const struct ibv_cq *cq)
{
	struct verbs_ep *ep = cq->cq_context;

	VERBS_COUNT(verbs_fabric_of(ep->base.poller->fab), cq_overruns, 1);
	rf_log(RF_LOG_ERROR, "%s: a completion queue of %d overran or failed; "
	       "its connection is closed, and the client may connect again.  "
	       "If it comes again, look for newer firmware or a newer driver, "
	       "and lower send_depth meanwhile",
	       ibv_get_device_name(cq->context->device), cq->cqe);
	tell(ep, -EOVERFLOW);
}

/* [any] */
static void qp_failed(const struct ibv_context *context, struct verbs_ep *ep)
{
	if (ep && !verbs_fabric_of(ep->base.poller->fab)->is_siw)
		rf_log(RF_LOG_ERROR, "%s: a queue pair failed; its connection "
		       "is closed, and the client may connect again: see the "
		       "kernel's log (dmesg)",
		       ibv_get_device_name(context->device));
	tell_failure(ep, -EIO);
}

/* Does any poller of this device hold to an entry of its GID table?  [any] */
static bool is_gid_fixed(const struct ibv_context *context)
{
	bool is_fixed = false;
	struct rf_list *pos;

	pthread_mutex_lock(&all_lock);
	rf_list_for_each(pos, &all_pollers) {
		struct rf_fabric *fab =
			rf_container_of(pos, struct verbs_poller,
					all_link)->base.fab;

		is_fixed |= verbs_fabric_of(fab)->context == context &&
			    fab->tuning.gid_index >= 0;
	}
	pthread_mutex_unlock(&all_lock);
	return is_fixed;
}

/* What happens to a port ends no connection by itself.  [any] */
static void port_event(const struct ibv_context *context,
		       const struct ibv_async_event *event)
{
	const char *name = ibv_get_device_name(context->device);
	int port = event->element.port_num;

	switch (event->event_type) {
	case IBV_EVENT_PORT_ERR:
		rf_log(RF_LOG_WARN, "%s port %d: the link is down; its "
		       "connections wait for it until their time-outs end "
		       "them: check cable, switch and network device", name,
		       port);
		break;
	case IBV_EVENT_PORT_ACTIVE:
		rf_log(RF_LOG_INFO, "%s port %d: the link is up", name, port);
		break;
	case IBV_EVENT_GID_CHANGE:
		if (is_gid_fixed(context))
			rf_log(RF_LOG_WARN, "%s port %d: its GIDs have changed; "
			       "a GID index may name another address now: "
			       "check it", name, port);
		else
			rf_log(RF_LOG_INFO, "%s port %d: its GIDs have changed "
			       "with the addresses; connections from or to one "
			       "that is gone end", name, port);
		break;
	default:
		rf_log(RF_LOG_INFO, "%s port %d: %s; connections that end now "
		       "may be made again", name, port,
		       ibv_event_type_str(event->event_type));
	}
}

void verbs_take_device_event(const struct ibv_context *context,
			     const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_QP_ACCESS_ERR:
		tell(event->element.qp->qp_context, -EACCES);
		break;
	case IBV_EVENT_QP_REQ_ERR:
		tell_failure(event->element.qp->qp_context, -EPROTO);
		break;
	case IBV_EVENT_QP_FATAL:
		qp_failed(context, event->element.qp->qp_context);
		break;
	case IBV_EVENT_CQ_ERR:
		cq_overran(event->element.cq);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		verbs_device_is_gone(context);
		break;
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
		port_event(context, event);
		break;
	default:
		break;
	}
}

void verbs_take_device_events(struct verbs_poller *poller)
{
	struct ibv_context *context =
		verbs_fabric_of(poller->base.fab)->context;
	struct ibv_async_event event;

	while (ibv_get_async_event(context, &event) == 0) {
		verbs_take_device_event(context, &event);
		ibv_ack_async_event(&event);
	}
}

static unsigned int tell_gone(struct verbs_poller *poller)
{
	void (*gone)(void *context) = poller->base.gone;

	poller->base.gone = NULL;
	if (!gone)
		return 0;
	gone(poller->base.gone_context);
	return 1;
}

unsigned int verbs_heed_device(struct verbs_poller *poller)
{
	bool is_gone = rf_fabric_is_gone(poller->base.fab);
	struct rf_list *pos;
	uint64_t count;

	if (read(poller->told_fd, &count, sizeof(count)) < 0)
		RF_ASSERT(errno == EAGAIN);
	if (!is_gone && !__atomic_exchange_n(&poller->is_told, false,
					     __ATOMIC_ACQUIRE))
		return 0;
	rf_list_for_each(pos, &poller->eps) {
		struct verbs_ep *ep =
			rf_container_of(pos, struct verbs_ep, link);
		int told = is_gone ? -ENODEV :
			__atomic_exchange_n(&ep->told_reason, 0,
					    __ATOMIC_RELAXED);

		if (told == -EACCES && ep->is_reported)
			VERBS_COUNT(verbs_fabric_of(poller->base.fab),
				    rights_refused, 1);
		if (told)
			verbs_ep_is_over(ep, told);
	}
	return is_gone ? tell_gone(poller) : 0;
}

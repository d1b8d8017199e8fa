/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_dial.c - connecting where the call lasts as long as the device likes
 *
 * Operation.  siw makes its TCP connection inside rdma_connect(): when the other
 * host is silent, that is as long as the kernel's TCP tries.  So there a thread of
 * its own makes the call, and the poller goes on.  What the call says is left with
 * the endpoint as if the device had told it; that the connection is there comes as
 * an event of rdma_cm, as elsewhere, and not before the kernel has left the call.
 *
 * The end.  The call is interrupted by cancelling the thread: write(2), in which it
 * waits, is a cancellation point (pthreads(7)), and the kernel's wait for TCP ends
 * with a signal.  Only when the thread is gone may queue pair and id go, which the
 * call uses.
 *
 * Threads.  All but dial_thread() belongs to the owner of the endpoint's poller.
 */
#include "verbs_impl.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct verbs_dial {
	pthread_t thread;
	struct verbs_ep *ep;
	struct rdma_conn_param param;
	uint8_t data[VERBS_IWARP_PRIVATE_MAX];
};

static void *dial_thread(void *context)
{
	struct verbs_dial *dial = context;

	if (rdma_connect(dial->ep->id, &dial->param))
		verbs_events_tell(dial->ep, -errno);
	return NULL;
}

/* Signals are for the program's threads. */
static int start_thread(struct verbs_dial *dial)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&dial->thread, NULL, dial_thread, dial);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

int verbs_dial_start(struct verbs_ep *ep, const struct rdma_conn_param *param)
{
	struct verbs_dial *dial = calloc(1, sizeof(*dial));
	int err;

	if (!dial)
		return -ENOMEM;
	RF_ASSERT(param->private_data_len <= sizeof(dial->data));
	dial->ep = ep;
	dial->param = *param;
	if (param->private_data_len)
		memcpy(dial->data, param->private_data,
		       param->private_data_len);
	dial->param.private_data = dial->data;
	err = start_thread(dial);
	if (err)
		free(dial);
	else
		ep->dial = dial;
	return err;
}

static void finish(struct verbs_ep *ep)
{
	RF_ASSERT(pthread_join(ep->dial->thread, NULL) == 0);
	free(ep->dial);
	ep->dial = NULL;
}

void verbs_dial_finish(struct verbs_ep *ep)
{
	if (ep->dial)
		finish(ep);
}

void verbs_dial_stop(struct verbs_ep *ep)
{
	if (!ep->dial)
		return;
	pthread_cancel(ep->dial->thread);
	finish(ep);
}

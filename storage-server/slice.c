/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slice.c - slices: made, lent, wiped
 */
#include "slice.h"

#include "server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum {
	MESSAGES_ACCESS = RF_LOCAL_WRITE,
	DATA_ACCESS = RF_LOCAL_WRITE | RF_REMOTE_READ | RF_REMOTE_WRITE,
};

/* ---- making ------------------------------------------------------------- */

static int make_messages(struct slice *slice, const struct config *config)
{
	struct rf_pool_config pool = {
		.name = "slice, messages",
		.class_count = 1,
	};

	pool.classes[0] = (struct rf_pool_class){
		.size = server_message_size(config),
		.count = 2 * (SLICE_RECV_DEPTH + SERVER_QUEUED_MAX) +
			 SERVER_GREETER_BUFS,
	};
	return rf_pool_create(&pool, &slice->messages);
}

static int make_data(struct slice *slice, const struct config *config)
{
	struct rf_pool_config pool = {
		.name = "slice, data",
		.class_count = STAGING_CLASSES,
	};
	int err;

	staging_init(&slice->staging, config->slice_staging,
		     config->slice_staging);
	for (unsigned int i = 0; i < STAGING_CLASSES; i++)
		pool.classes[i] = (struct rf_pool_class){
			.size = slice->staging.classes[i].size,
			.count = slice->staging.classes[i].count,
		};
	err = rf_pool_create(&pool, &slice->data);
	slice->staging.pool = slice->data;
	return err;
}

/* Takes memory as slots are used. */
static int make_shadow(struct slice *slice)
{
	void *at = mmap(NULL, rf_pool_size(slice->data),
			PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return -errno;
	slice->lending.shadow = at;
	return 0;
}

static int register_first(struct slice *slice)
{
	/* These raise the limit on locked memory, and say so if they can't. */
	int err = rf_pool_register(slice->messages, slice->pd, MESSAGES_ACCESS,
				   &slice->messages_mr);

	if (!err)
		err = rf_pool_register(slice->data, slice->pd, DATA_ACCESS,
				       &slice->data_mr);
	return err;
}

static int make_slice(struct slice *slice, struct rf_fabric *fabric,
		      const struct config *config)
{
	int err = rf_pd_create(fabric, &slice->pd);

	if (!err)
		err = make_messages(slice, config);
	if (!err)
		err = make_data(slice, config);
	if (!err)
		err = make_shadow(slice);
	if (!err)
		err = register_first(slice);
	slice->lending.staging = &slice->staging;
	slice->lending.mr = slice->data_mr;
	return err;
}

int slices_init(struct slices *slices, struct server *server,
		struct rf_fabric *fabric)
{
	const struct config *config = server->config;

	*slices = (struct slices){ .server = server };
	rf_list_init(&slices->free);
	slices->v = calloc(config->slices, sizeof(*slices->v));
	if (!slices->v)
		return -ENOMEM;
	for (uint32_t i = 0; i < config->slices; i++) {
		struct slice *slice = &slices->v[i];
		int err;

		slice->slices = slices;
		rf_list_init(&slice->link);
		slices->count++;
		err = make_slice(slice, fabric, config);
		if (err)
			return err;
		rf_list_push(&slices->free, &slice->link);
		slices->free_count++;
	}
	return 0;
}

/* ---- the end ------------------------------------------------------------ */

static void withdraw(struct slice *slice)
{
	if (slice->messages_mr)
		rf_mr_deregister(slice->messages_mr);
	if (slice->data_mr)
		rf_mr_deregister(slice->data_mr);
	slice->messages_mr = slice->data_mr = NULL;
}

static void free_slice(struct slice *slice)
{
	withdraw(slice);
	if (slice->lending.shadow)
		munmap(slice->lending.shadow, rf_pool_size(slice->data));
	if (slice->messages)
		rf_pool_destroy(slice->messages);
	if (slice->data)
		rf_pool_destroy(slice->data);
	if (slice->pd)
		rf_pd_destroy(slice->pd);
}

void slices_fini(struct slices *slices)
{
	for (uint32_t i = 0; i < slices->count; i++)
		free_slice(&slices->v[i]);
	free(slices->v);
	*slices = (struct slices){ .count = 0 };
}

/* ---- lending ------------------------------------------------------------ */

struct slice *slice_get(struct slices *slices)
{
	struct rf_list *item = rf_list_pop(&slices->free);

	if (item) {
		slices->free_count--;
		return rf_container_of(item, struct slice, link);
	}
	if (!slices->was_short)
		rf_log(RF_LOG_WARN, "all %u connections are taken that a "
		       "device without memory windows may have here (--slices);"
		       " others are turned away", slices->count);
	slices->was_short = true;
	return NULL;
}

/* [any] */
static void wipe(struct rf_job *job)
{
	struct slice *slice = rf_container_of(job, struct slice, wipe_job);
	struct rf_pool *messages = slice->messages, *data = slice->data;

	withdraw(slice);
	memset(rf_pool_base(messages), 0, rf_pool_size(messages));
	memset(rf_pool_base(data), 0, rf_pool_size(data));
	slice->err = 0;
	if (rf_fabric_is_gone(rf_pd_fabric(slice->pd)))
		return;			/* it will be lent no more */
	slice->err = rf_mr_register(slice->pd, rf_pool_base(messages),
				    rf_pool_size(messages), MESSAGES_ACCESS,
				    &slice->messages_mr);
	if (!slice->err)
		slice->err = rf_mr_register(slice->pd, rf_pool_base(data),
					    rf_pool_size(data), DATA_ACCESS,
					    &slice->data_mr);
	slice->lending.mr = slice->data_mr;
}

static void wiped(struct rf_job *job)
{
	struct slice *slice = rf_container_of(job, struct slice, wipe_job);
	struct slices *slices = slice->slices;
	struct server *server = slices->server;

	if (slice->err) {
		rf_log(RF_LOG_ERROR, "a slice can't be registered again: %s; "
		       "one connection less is possible until the server is "
		       "started anew", strerror(-slice->err));
		slices->lost++;
	} else {
		rf_list_push(&slices->free, &slice->link);
		slices->free_count++;
		slices->was_short = false;
	}
	server->wiping--;
	server_check_drain(server);
}

static void begin_wiping(struct rf_task *task)
{
	struct slice *slice = rf_container_of(task, struct slice, put_task);
	struct server *server = slice->slices->server;

	RF_ASSERT(rf_pool_report_lent(slice->messages) == 0);
	RF_ASSERT(rf_pool_report_lent(slice->data) == 0);
	slice->wipe_job = (struct rf_job){ .run = wipe, .done = wiped };
	rf_workers_post(server->workers, server->reactor, &slice->wipe_job);
}

void slice_put(struct slice *slice)
{
	struct server *server = slice->slices->server;

	server->wiping++;
	slice->put_task.run = begin_wiping;
	rf_reactor_post(server->reactor, &slice->put_task);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workers.c - a few threads for what may block
 *
 * Operation.  One queue, first in, first out, and a condition that threads
 * without a job wait for.  A finished job goes back to its reactor as a task.
 * Ownership.  A job is the poster's and lent until done() is called.
 * When it fails.  Only creation can.
 */
#include "reactor.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREAD_NAME_SIZE = 16 };	/* pthread_setname_np(3) */

struct rf_workers {
	pthread_mutex_t lock;		/* of all below but the threads */
	pthread_cond_t has_work;
	struct rf_job *first, **last_next;
	bool is_ending;
	char name[THREAD_NAME_SIZE];
	unsigned int count;
	pthread_t threads[];
};

static void finish(struct rf_task *task)
{
	struct rf_job *job = rf_container_of(task, struct rf_job, task);

	job->done(job);
}

static void run_in_reactor(struct rf_task *task)
{
	struct rf_job *job = rf_container_of(task, struct rf_job, task);

	job->run(job);
	job->done(job);
}

/* The next job, or NULL when there will be no more. */
static struct rf_job *wait_for_job(struct rf_workers *workers)
{
	struct rf_job *job;

	pthread_mutex_lock(&workers->lock);
	while (!workers->first && !workers->is_ending)
		pthread_cond_wait(&workers->has_work, &workers->lock);
	job = workers->first;
	if (job) {
		workers->first = job->next;
		if (!workers->first)
			workers->last_next = &workers->first;
	}
	pthread_mutex_unlock(&workers->lock);
	return job;
}

static void *work(void *arg)
{
	struct rf_workers *workers = arg;
	struct rf_job *job;

	pthread_setname_np(pthread_self(), workers->name);
	while ((job = wait_for_job(workers))) {
		job->run(job);
		rf_reactor_post(job->reactor, &job->task);
	}
	return NULL;
}

/* Signals are for the threads that the program chose, never for a worker. */
static int start_threads(struct rf_workers *workers, unsigned int count)
{
	sigset_t all, before;
	int err = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (workers->count < count && !err) {
		err = pthread_create(&workers->threads[workers->count], NULL,
				     work, workers);
		if (!err)
			workers->count++;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

int rf_workers_create(const char *name, unsigned int count,
		      struct rf_workers **out)
{
	struct rf_workers *workers;
	int err;

	workers = calloc(1, sizeof(*workers) + count * sizeof(pthread_t));
	if (!workers)
		return -ENOMEM;
	pthread_mutex_init(&workers->lock, NULL);
	pthread_cond_init(&workers->has_work, NULL);
	workers->last_next = &workers->first;
	snprintf(workers->name, sizeof(workers->name), "%s", name);
	err = start_threads(workers, count);
	if (err) {
		rf_workers_destroy(workers);
		return err;
	}
	*out = workers;
	return 0;
}

void rf_workers_destroy(struct rf_workers *workers)
{
	pthread_mutex_lock(&workers->lock);
	workers->is_ending = true;
	pthread_cond_broadcast(&workers->has_work);
	pthread_mutex_unlock(&workers->lock);
	for (unsigned int i = 0; i < workers->count; i++)
		pthread_join(workers->threads[i], NULL);
	RF_ASSERT(!workers->first);
	pthread_cond_destroy(&workers->has_work);
	pthread_mutex_destroy(&workers->lock);
	free(workers);
}

void rf_workers_post(struct rf_workers *workers, struct rf_reactor *reactor,
		     struct rf_job *job)
{
	job->reactor = reactor;
	job->next = NULL;
	if (workers->count == 0) {
		job->task.run = run_in_reactor;
		rf_reactor_post(reactor, &job->task);
		return;
	}
	job->task.run = finish;
	pthread_mutex_lock(&workers->lock);
	RF_ASSERT(!workers->is_ending);
	*workers->last_next = job;
	workers->last_next = &job->next;
	pthread_cond_signal(&workers->has_work);
	pthread_mutex_unlock(&workers->lock);
}

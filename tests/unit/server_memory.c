/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_memory.c - there is no memory: at the start, and when a client comes
 *
 * Each allocation of our own code in turn fails, once.  The program is linked with
 * --wrap=malloc and --wrap=calloc (Makefile), so libraries have what they ask for.
 */
#include "tests/common/server_rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

TestSuite(server_memory, .timeout = 280);

enum { MOST = 2000 };

/* ---- memory that is not there ------------------------------------------- */

static unsigned int fail_in;	/* allocations; 0: none fails */
static bool has_failed;

static bool fails(void)
{
	if (fail_in == 0 || --fail_in > 0)
		return false;
	has_failed = true;
	return true;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
	return fails() ? NULL : __real_calloc(count, size);
}

static struct srig rig;

Test(server_memory, a_server_without_memory_does_not_start_and_says_so)
{
	unsigned int failed = 0;
	int err = -ENOMEM;

	/* The rig's own things, and the store. */
	srig_open(&rig, "loop-virtual");
	srig_stop(&rig);
	for (unsigned int i = 1; i < MOST && err; i++) {
		fail_in = i;
		has_failed = false;
		err = server_create(&rig.config, rig.reactor, &rig.server);
		fail_in = 0;
		if (err)
			rig.server = NULL;
		else
			cr_assert_not(has_failed, "allocation %u failed, and "
				      "nobody noticed", i);
		failed += has_failed;
	}
	cr_assert_eq(err, 0);
	cr_assert_gt(failed, 5);
	srig_close(&rig);
}

Test(server_memory, a_client_for_whom_there_is_no_memory_harms_nobody)
{
	struct sclient good, poor;
	unsigned int failed = 0;

	srig_open(&rig, "loop-virtual");
	sclient_open(&rig, &good, "data");
	has_failed = true;
	for (unsigned int i = 1; i < MOST && has_failed; i++) {
		uint32_t open;
		char name[16];

		has_failed = false;
		sclient_init(&rig, &poor, "data");
		fail_in = i;
		sclient_try(&poor);
		fail_in = 0;
		failed += has_failed;
		if (poor.opened && !poor.closed)
			sclient_bye(&poor);
		/* The other one goes on. */
		snprintf(name, sizeof(name), "f%u", i);
		smake(&good, name, RF_OPEN_READ, &open);
	}
	cr_assert_gt(failed, 3);
	cr_assert_not(has_failed);
	sclient_bye(&good);
	srig_close(&rig);
}

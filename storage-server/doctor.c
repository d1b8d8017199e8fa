/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.c - rdmafsd --doctor: what is wrong with RDMA on this host
 *
 * Operation.  With the options of the server, so that what it would register and
 * where it would listen is what is judged.  Nothing is served and the store is
 * not touched.
 */
#include "server.h"

#include "libproto/doctor.h"

#include <stdio.h>
#include <stdlib.h>

static void add_target(struct doctor_question *question,
		       const struct listen_config *listen)
{
	struct doctor_target *target =
		&question->targets[question->target_count++];

	_Static_assert(sizeof(target->scheme) == sizeof(listen->scheme) &&
		       sizeof(target->host) == sizeof(listen->host) &&
		       (int)DOCTOR_TARGETS_MAX >= (int)CONFIG_LISTENS_MAX,
		       "what is listened on fits into a target");
	/* Without a scheme: verbs if there is a device, else iwarp. */
	if (strcmp(listen->scheme, "any") != 0)
		strcpy(target->scheme, listen->scheme);
	strcpy(target->host, listen->host);
	target->port = (uint16_t)atoi(listen->port);
}

int server_doctor(const struct config *config)
{
	static struct doctor_question question;

	question.program = "rdmafsd --doctor";
	question.version = RDMAFS_VERSION;
	question.is_server = true;
	question.tuning = (struct rf_tuning)RF_TUNING_DEFAULT;
	if (config->gid_index != CONFIG_UNSET)
		question.tuning.gid_index = (int16_t)config->gid_index;
	question.memory = server_arena_size(config);
	question.wants_huge_pages = true;
	question.timeo_ms = config->hello_ms;
	question.watch_s = config->doctor_watch_s;
	memcpy(question.key_file, config->key_file,
	       sizeof(question.key_file));
	for (unsigned int i = 0; i < config->listen_count; i++)
		add_target(&question, &config->listens[i]);
	return doctor_run(&question);
}

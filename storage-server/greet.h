/* SPDX-License-Identifier: Apache-2.0 */
/*
 * greet.h - a connection that has not become a session's: what greet.c and
 * greet_resume.c share
 *
 * Ownership.  A greeting ends with closed() of its greeter, or its admission.
 */
#ifndef GREET_H
#define GREET_H

#include "session.h"

struct greeting {
	struct server *server;
	struct transport *transport;
	struct slice *slice;		/* NULL where there are windows */
	struct rf_greeter *greeter;
	uint64_t since_ns;
	struct rf_list link;
	struct rf_timer delay;		/* of a refusal; or the end of patience,
					 * while its HELLO waits */
	struct rf_hello_reply refusal;
	uint8_t client_proof[RF_PROOF_SIZE];	/* RESUME: its digest */
	bool has_said_hello;
	struct rf_hello hello;
	struct rf_list wait_link;	/* HELLO waits: in the server */
	struct rf_resume resume;
	struct session *session;	/* that it waits for, to resume */
};

void greet_end(struct greeting *greeting);

/* Choose a refusal, then send it; late: later each time. */
__attribute__((format(printf, 3, 4)))
void greet_refuse(struct greeting *greeting, enum rf_status status,
		  const char *format, ...);
void greet_send_refusal(struct greeting *greeting);
void greet_refuse_late(struct greeting *greeting);

/* Checks: true or not NULL, or a refusal was chosen. */
bool greet_is_open(struct greeting *greeting);
bool greet_user_may_come(struct greeting *greeting);
bool greet_key_is_there(struct greeting *greeting, uint16_t flags);
const struct export *greet_export(struct greeting *greeting, const char *name);

/* greet_resume.c */
void greet_on_resume(struct rf_greeter *greeter, const struct rf_resume *resume,
		     const void *message, size_t size,
		     const uint8_t digest[RF_PROOF_SIZE]);

#endif /* GREET_H */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - random operations and messages, made and compared
 *
 * Messages that tests decode lie in memory of exactly their size, so that a
 * build with the address sanitizer sees a read beyond the end.
 *
 * Ownership.  What the names and blobs of random values point to is one pool of
 * this file, emptied by wire_forget_bytes().
 */
#ifndef TESTS_COMMON_WIRE_H
#define TESTS_COMMON_WIRE_H

#include "libproto/base.h"
#include "libproto/codec.h"

enum { WIRE_BUFFER_SIZE = 65536 };

/* A number in the environment. */
unsigned int wire_number(const char *variable, unsigned int otherwise);

/* ---- chance: the seed is printed, RF_SEED sets it ------------------------ */

void wire_chance_start(const char *test);
/* Instead, for a test that has and prints seeds of its own. */
void wire_chance_seed(uint64_t seed);
uint64_t wire_chance(void);
uint64_t wire_chance_below(uint64_t limit);

/* ---- values -------------------------------------------------------------- */

#define WIRE_CODE(NAME, lower, code) code,
static const uint16_t wire_codes[] = { RF_OPS(WIRE_CODE) };
#undef WIRE_CODE
enum { WIRE_CODE_COUNT = RF_ARRAY_SIZE(wire_codes) };

void wire_forget_bytes(void);
void wire_make_name(rf_name_t *v);
void wire_make_handle(rf_handle_t *v);
void wire_make_attr(rf_attr_t *v);
void wire_make_args(struct rf_args *args, unsigned int code);
void wire_make_results(struct rf_results *results, unsigned int code);
bool wire_same_name(const rf_name_t *a, const rf_name_t *b);
bool wire_same_handle(const rf_handle_t *a, const rf_handle_t *b);
bool wire_same_attr(const rf_attr_t *a, const rf_attr_t *b);
bool wire_same_args(const struct rf_args *x, const struct rf_args *y);
/* Of a failure only what travels is compared. */
bool wire_same_results(const struct rf_results *x, const struct rf_results *y);

/* ---- messages ------------------------------------------------------------ */

struct wire_message {
	uint8_t *bytes;
	size_t size;
};

struct wire_message wire_copy(const void *bytes, size_t size);
void wire_free(struct wire_message *m);

/* With one operation: its arguments or its results, the other is NULL. */
struct wire_message wire_message_of(const struct rf_args *args,
				    const struct rf_results *results);
struct wire_message wire_random_request(unsigned int code);
struct wire_message wire_random_reply(unsigned int code);

/* What the message's one operation decodes to: 1 or a negative errno. */
int wire_decode_one(const struct wire_message *m);

#endif /* TESTS_COMMON_WIRE_H */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_session.c - a whole server, and a peer whose every choice is the input's
 *
 * As the codec is in front of the server's state machine here, an input is not a
 * message but what the peer of hostile.h decides: what to do, with what slot,
 * number, handle, grant.  One server serves all inputs; after each, nothing of the
 * peer is left but the files of its export.
 */
#include "tests/common/hostile.h"

#include "libproto/base.h"

#include <stdlib.h>

enum { ACTS_MAX = 60 };

static const uint8_t *input;
static size_t input_left;
static unsigned int acts;

/* Few bytes for a small number, so that inputs are short; 0 at their end. */
static unsigned int by_input(unsigned int limit)
{
	unsigned int value = 0;

	for (unsigned int most = limit - 1; most > 0 && input_left > 0;
	     most >>= 8) {
		value = value << 8 | *input++;
		input_left--;
	}
	return value % limit;
}

static bool goes_on(void)
{
	return input_left > 0 && acts++ < ACTS_MAX;
}

static void end(void)
{
	hostile_end();
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	rf_log_set_level(RF_LOG_ERROR);
	hostile_begin();
	atexit(end);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	input = data;
	input_left = size;
	acts = 0;
	hostile_peer(by_input, goes_on);
	return 0;
}

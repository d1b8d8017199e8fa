/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile.h - a peer that says anything, at any time, to a real server
 *
 * HELLO, RESUME (right, forged, replayed), operations with any arguments, with
 * handles of another export, made up, or of files that are gone, on any slot with
 * any number, with bytes changed on the way; grants returned twice or never given;
 * one-sided work with any key; cuts, BYE.  What it does is chosen by the caller: by
 * chance (unit/server_hostile), or by the input of a fuzzer (fuzz/fuzz_session).
 * Time is virtual, and a good client is there all the while.  After each peer nothing
 * of it may be left, and it must have seen and changed nothing outside its export;
 * what is wrong fails an assertion.
 */
#ifndef TESTS_HOSTILE_H
#define TESTS_HOSTILE_H

#include <stdbool.h>
#include <stdint.h>

/* A number below limit, which is not 0. */
typedef unsigned int hostile_choose(unsigned int limit);

struct hostile_figures {
	uint64_t messages, sessions;
};

void hostile_begin(void);
/* One peer: an act of it each time that goes_on() is true. */
void hostile_peer(hostile_choose *chooses, bool (*goes_on)(void));
/* What all of them did. */
struct hostile_figures hostile_end(void);

#endif /* TESTS_HOSTILE_H */

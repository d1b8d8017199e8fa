/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jumping_clock.h - clocks that a test sets
 *
 * For one file of a program: it puts a clock_gettime() in the place of libc's, for
 * all of that program (and for each process of it by itself).
 */
#ifndef TESTS_JUMPING_CLOCK_H
#define TESTS_JUMPING_CLOCK_H

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* So far from the truth: the time of day, and that since the start. */
static int64_t day_jump_s, boot_jump_s;

int clock_gettime(clockid_t clock, struct timespec *out)
{
	if (syscall(SYS_clock_gettime, clock, out))
		return -1;
	if (clock == CLOCK_REALTIME)
		out->tv_sec += day_jump_s;
	else if (clock == CLOCK_BOOTTIME)
		out->tv_sec += boot_jump_s;
	return 0;
}

#endif /* TESTS_JUMPING_CLOCK_H */

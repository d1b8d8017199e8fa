/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_once.c - which requests were read and not replied to, for kernels that send
 * nothing again
 *
 * The kernel's numbers grow by two.  Some thousands wait for long, as for locks or for
 * a server that is away, while many others come and go.
 */
#include "fuse-client/fs.h"
#include "fuse-client/keep.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OTHERS = 3 * KEEP_UNANSWERED };

static struct fs *fs;
static int keep_fd;

static void setup(void)
{
	fs = calloc(1, sizeof(*fs));
	cr_assert_not_null(fs);
	cr_assert_eq(keep_create(&fs->keep, &keep_fd), 0);
}

static void teardown(void)
{
	munmap(fs->keep, sizeof(*fs->keep));
	close(keep_fd);
	free(fs);
}

TestSuite(client_once, .init = setup, .fini = teardown);

static void come(uint64_t unique)
{
	const struct fuse_in_header in = {
		.opcode = FUSE_GETATTR, .unique = unique,
	};

	once_read(fs, &in);
}

static bool is_noted(uint64_t unique)
{
	for (unsigned int i = 0; i < KEEP_UNANSWERED; i++)
		if (fs->keep->unanswered[i] == unique)
			return true;
	return false;
}

/* Whoever waits now, another daemon can tell. */
static void all_are_noted(unsigned int waiting)
{
	uint64_t unique = 0;

	for (unsigned int i = 0; i < waiting; i++)
		come(unique += 2);
	for (unsigned int i = 0; i < OTHERS; i++) {
		come(unique += 2);
		cr_assert(is_noted(unique), "%u wait, and %llu is not noted",
			  waiting, (unsigned long long)unique);
		once_replied(fs, unique);
		cr_assert(!is_noted(unique), "%llu stays",
			  (unsigned long long)unique);
	}
	for (unsigned int i = 0; i < waiting; i++) {
		cr_assert(is_noted(2 * (i + 1)));
		once_replied(fs, 2 * (i + 1));
	}
	for (unsigned int i = 0; i < KEEP_UNANSWERED; i++)
		cr_assert_eq(fs->keep->unanswered[i], 0);
}

Test(client_once, nobody_is_overlooked_while_a_few_wait)
{
	all_are_noted(50);
}

Test(client_once, nobody_is_overlooked_while_thousands_wait_for_locks)
{
	all_are_noted(LOCK_WAITS_MAX);
}

/* All that a daemon may have read. */
Test(client_once, there_is_room_for_all)
{
	unsigned int most = BACKLOG_MESSAGES_MAX + LOCK_WAITS_MAX + REQUESTS_MAX;

	for (unsigned int i = 1; i <= most; i++)
		come(2 * i);
	for (unsigned int i = 1; i <= most; i++)
		cr_assert(is_noted(2 * i), "%u of %u is not noted", i, most);
	cr_assert_eq(once_fail_all(fs->keep, -1), 0);
	cr_assert(!is_noted(2));
}

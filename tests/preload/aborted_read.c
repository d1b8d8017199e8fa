/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aborted_read.c - an unmount that comes while a request is read
 *
 * Stands before libc in a mount's daemon, by LD_PRELOAD.  The first read that would
 * tell that the mount is gone (ENODEV) tells what one does that was under way just
 * then: ECONNABORTED.  Those after it pass.
 */
#include <errno.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t read(int fd, void *out, size_t size)
{
	static atomic_int told;
	ssize_t got = syscall(SYS_read, fd, out, size);

	if (got < 0 && errno == ENODEV && atomic_exchange(&told, 1) == 0)
		errno = ECONNABORTED;
	return got;
}

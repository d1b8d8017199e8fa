/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keep.c - memory that outlives the daemon
 */
#include "keep.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[8] = "rdmafs-k";

static int map(int fd, struct keep **out)
{
	struct keep *keep = mmap(NULL, sizeof(*keep), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (keep == MAP_FAILED)
		return -errno;
	/* Wishes, both. */
	madvise(keep, sizeof(*keep), MADV_DONTDUMP);
	mlock(keep, offsetof(struct keep, requests));
	*out = keep;
	return 0;
}

int keep_create(struct keep **out, int *fd)
{
	int err;

	*fd = memfd_create("rdmafs-keep", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		return -errno;
	if (ftruncate(*fd, sizeof(struct keep)) < 0 ||
	    fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW |
				    F_SEAL_SEAL) < 0)
		err = -errno;
	else
		err = map(*fd, out);
	if (err) {
		close(*fd);
		return err;
	}
	(*out)->version = KEEP_VERSION;
	(*out)->size = sizeof(struct keep);
	memcpy((*out)->magic, magic, sizeof(magic));
	return 0;
}

static bool is_ours(const struct keep *keep)
{
	return memcmp(keep->magic, magic, sizeof(magic)) == 0 &&
	       keep->version == KEEP_VERSION &&
	       keep->size == sizeof(struct keep);
}

int keep_map(int fd, struct keep **out)
{
	struct stat st;
	int err;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size != sizeof(struct keep))
		return -EPROTONOSUPPORT;
	err = map(fd, out);
	if (err)
		return err;
	if (is_ours(*out))
		return 0;
	munmap(*out, sizeof(struct keep));
	return -EPROTONOSUPPORT;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_dirent.c - any bytes as what READDIR answers
 *
 * Entries are decoded until the end or a bad one; each must encode to the same
 * bytes again.
 */
#include <errno.h>

#include "libproto/base.h"
#include "libproto/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rf_dirent entry;
	uint8_t again[1024];
	size_t at = 0;
	int used;

	while ((used = rf_dirent_decode(data + at, size - at, &entry)) > 0) {
		RF_ASSERT((size_t)used <= size - at);
		RF_ASSERT(rf_dirent_size(&entry) == (size_t)used);
		RF_ASSERT(rf_dirent_encode(again, sizeof(again), &entry) ==
			  used);
		RF_ASSERT(memcmp(again, data + at, (size_t)used) == 0);
		at += (size_t)used;
	}
	RF_ASSERT(used == 0 ? at == size : used == -EBADMSG);
	return 0;
}

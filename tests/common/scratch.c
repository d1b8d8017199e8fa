/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/common/scratch.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { OPEN_FOLDERS = 16 };

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

int scratch_remove(const char *path)
{
	return nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

void scratch_find_server(char *out, size_t size)
{
	const char *given = getenv("RDMAFSD");
	char self[4000];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	cr_assert(length > 0);
	self[length] = '\0';
	/* BUILD/tests/unit/NAME -> BUILD/rdmafsd */
	if (given)
		snprintf(out, size, "%s", given);
	else
		snprintf(out, size, "%s/rdmafsd",
			 dirname(dirname(dirname(self))));
	if (access(out, X_OK) != 0)
		cr_skip_test("SKIPPED: %s is not built", out);
}

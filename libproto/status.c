/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.c - outcomes that travel, to and from errno
 *
 * The table has some fifty rows and is asked once a failed operation: a plain
 * scan, no index.
 */
#include "status.h"

#include <errno.h>

#include "base.h"

static const struct {
	const char *name;
	uint16_t number;
	int err;
} rows[] = {
#define ROW(name, number, err) { #name, number, err },
	RF_STATUSES(ROW)
#undef ROW
};

int rf_status_to_errno(unsigned int status)
{
	for (size_t i = 0; i < RF_ARRAY_SIZE(rows); i++)
		if (rows[i].number == status)
			return -rows[i].err;
	return -EIO;
}

/* Several numbers may share an errno: the first one is the general one. */
enum rf_status rf_status_from_errno(int err)
{
	RF_ASSERT(err <= 0);
	for (size_t i = 0; i < RF_ARRAY_SIZE(rows); i++)
		if (rows[i].err == -err)
			return (enum rf_status)rows[i].number;
	return RF_ST_IO;
}

const char *rf_status_name(unsigned int status)
{
	for (size_t i = 0; i < RF_ARRAY_SIZE(rows); i++)
		if (rows[i].number == status)
			return rows[i].name;
	return "?";
}

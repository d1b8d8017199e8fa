/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.c - outcomes, to and from errno
 */
#include <criterion/criterion.h>
#include <errno.h>

#include "libproto/base.h"
#include "libproto/codec.h"
#include "tests/common/wire.h"

/* ---- status -------------------------------------------------------------- */

Test(status, numbers_and_errnos_agree)
{
#define CHECK(name, number, err) \
	cr_assert_eq(rf_status_to_errno(number), -(err)); \
	cr_assert_eq(rf_status_to_errno(rf_status_from_errno(-(err))), \
		     -(err)); \
	cr_assert_str_eq(rf_status_name(number), #name);
	RF_STATUSES(CHECK)
#undef CHECK
}

Test(status, shared_errnos_become_the_general_number)
{
	cr_assert_eq(rf_status_from_errno(0), RF_ST_OK);
	cr_assert_eq(rf_status_from_errno(-ENOENT), RF_ST_NOENT);
	cr_assert_eq(rf_status_from_errno(-EIO), RF_ST_IO);
	cr_assert_eq(rf_status_from_errno(-EACCES), RF_ST_ACCESS);
	cr_assert_eq(rf_status_from_errno(-ESTALE), RF_ST_STALE);
}

Test(status, what_has_no_number_is_an_io_error)
{
	cr_assert_eq(rf_status_from_errno(-EUCLEAN), RF_ST_IO);
	cr_assert_eq(rf_status_to_errno(4711), -EIO);
	cr_assert_eq(rf_status_to_errno(UINT32_MAX), -EIO);
	cr_assert_str_eq(rf_status_name(4711), "?");
}

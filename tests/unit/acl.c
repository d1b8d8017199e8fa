/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access control lists: which bytes are one, what it allows, how it follows modes.
 */
#include "storage-server/acl.h"
#include "storage-server/store.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define NOBODY UINT32_MAX
#define LIST(...) (const struct acl_entry[]){ __VA_ARGS__ }, \
	sizeof((const struct acl_entry[]){ __VA_ARGS__ }) / \
	sizeof(struct acl_entry)

static struct acl acl;
static uint8_t bytes[ACL_SIZE_MAX + 16];

static int decode_list(const struct acl_entry *entries, size_t count)
{
	rf_store_u32(bytes, 2);
	for (size_t i = 0; i < count; i++) {
		rf_store_u16(bytes + 4 + 8 * i, entries[i].tag);
		rf_store_u16(bytes + 6 + 8 * i, entries[i].allowed);
		rf_store_u32(bytes + 8 + 8 * i, entries[i].id);
	}
	return acl_decode(bytes, 4 + 8 * count, &acl);
}

static void use(const struct acl_entry *entries, size_t count)
{
	cr_assert_eq(decode_list(entries, count), 0);
}

Test(acl, bytes_come_back_as_they_were)
{
	uint8_t out[ACL_SIZE_MAX];
	size_t size;

	use(LIST({ ACL_USER_OBJ, 7, NOBODY }, { ACL_USER, 6, 1000 },
		 { ACL_USER, 5, 7 }, { ACL_GROUP_OBJ, 4, NOBODY },
		 { ACL_GROUP, 3, 100 }, { ACL_MASK, 2, NOBODY },
		 { ACL_OTHER, 1, NOBODY }));
	size = acl_encode(&acl, out);
	cr_assert_eq(size, 4 + 8 * 7);
	cr_assert_arr_eq(out, bytes, size);
}

Test(acl, what_is_no_list_is_refused)
{
	cr_assert_eq(acl_decode(bytes, 0, &acl), -EINVAL);
	cr_assert_eq(acl_decode(bytes, 3, &acl), -EINVAL);
	rf_store_u32(bytes, 2);
	cr_assert_eq(acl_decode(bytes, 11, &acl), -EINVAL);
	cr_assert_eq(acl_decode(bytes, ACL_SIZE_MAX + 8, &acl), -EINVAL);
	rf_store_u32(bytes, 3);
	cr_assert_eq(acl_decode(bytes, 12, &acl), -EOPNOTSUPP);
	/* One is missing. */
	cr_assert_eq(decode_list(LIST({ ACL_USER_OBJ, 7, NOBODY },
				      { ACL_GROUP_OBJ, 7, NOBODY })), -EINVAL);
	cr_assert_eq(decode_list(LIST({ ACL_USER_OBJ, 7, NOBODY },
				      { ACL_OTHER, 7, NOBODY })), -EINVAL);
	cr_assert_eq(decode_list(LIST({ ACL_GROUP_OBJ, 7, NOBODY },
				      { ACL_OTHER, 7, NOBODY })), -EINVAL);
	/* Somebody is named, and no mask. */
	cr_assert_eq(decode_list(LIST({ ACL_USER_OBJ, 7, NOBODY },
				      { ACL_USER, 7, 1 },
				      { ACL_GROUP_OBJ, 7, NOBODY },
				      { ACL_OTHER, 7, NOBODY })), -EINVAL);
	/* Out of order, twice, of no known kind, too many rights, nobody. */
	cr_assert_eq(decode_list(LIST({ ACL_USER_OBJ, 7, NOBODY },
				      { ACL_OTHER, 7, NOBODY },
				      { ACL_GROUP_OBJ, 7, NOBODY })), -EINVAL);
	cr_assert_eq(decode_list(LIST({ ACL_USER_OBJ, 7, NOBODY },
				      { ACL_USER_OBJ, 7, NOBODY },
				      { ACL_GROUP_OBJ, 7, NOBODY },
				      { ACL_OTHER, 7, NOBODY })), -EINVAL);
	cr_assert_eq(decode_list(LIST({ ACL_USER_OBJ, 7, NOBODY },
				      { ACL_GROUP_OBJ | ACL_USER, 7, NOBODY },
				      { ACL_OTHER, 7, NOBODY })), -EINVAL);
	cr_assert_eq(decode_list(LIST({ ACL_USER_OBJ, 8, NOBODY },
				      { ACL_GROUP_OBJ, 7, NOBODY },
				      { ACL_OTHER, 7, NOBODY })), -EINVAL);
	cr_assert_eq(decode_list(LIST({ ACL_USER_OBJ, 7, NOBODY },
				      { ACL_USER, 7, NOBODY },
				      { ACL_GROUP_OBJ, 7, NOBODY },
				      { ACL_MASK, 7, NOBODY },
				      { ACL_OTHER, 7, NOBODY })), -EINVAL);
}

/* Whatever bytes come, a list that is taken can be used. */
Test(acl, random_bytes_are_refused_or_usable)
{
	unsigned int seed = (unsigned int)rf_now_ns(), taken = 0;
	const struct cred who = { .uid = 1, .gid = 1 };

	fprintf(stderr, "acl: RF_SEED=%u\n", seed);
	for (unsigned int i = 0; i < 200000; i++) {
		size_t count = 3 + (unsigned int)rand_r(&seed) % 3;
		struct acl_entry entries[6];
		uint32_t mode = 0777;

		for (size_t n = 0; n < count; n++)
			entries[n] = (struct acl_entry){
				(uint16_t)(1 << (unsigned int)rand_r(&seed) % 7),
				(uint16_t)((unsigned int)rand_r(&seed) % 9),
				(uint32_t)rand_r(&seed) % 3,
			};
		if (decode_list(entries, count))
			continue;
		taken++;
		acl_may(&acl, &who, 1, MAY_READ);
		acl_inherit(&acl, &mode);
		acl_chmod(&acl, 0640);
		cr_assert_eq(acl_to_mode(&acl, &mode), acl.count == 3);
		cr_assert_eq(mode & 0777, 0640);
	}
	cr_assert_gt(taken, 0);
}

static void expect_may(uint32_t uid, uint32_t gid, unsigned int allowed)
{
	uint32_t groups[] = { 300, 301 };
	const struct cred who = {
		.uid = uid, .gid = gid, .groups = groups, .group_count = 2,
	};

	for (unsigned int mask = 0; mask < 8; mask++)
		cr_assert_eq(acl_may(&acl, &who, 100, mask),
			     mask & ~allowed ? -EACCES : 0, "uid %u gid %u "
			     "mask %u", uid, gid, mask);
}

Test(acl, a_user_then_groups_then_others_within_the_mask)
{
	use(LIST({ ACL_USER_OBJ, 7, NOBODY }, { ACL_USER, 7, 1000 },
		 { ACL_USER, 0, 1001 }, { ACL_GROUP_OBJ, 4, NOBODY },
		 { ACL_GROUP, 2, 200 }, { ACL_MASK, 6, NOBODY },
		 { ACL_OTHER, 1, NOBODY }));
	expect_may(1000, 9, 6);		/* named, masked */
	expect_may(1001, 100, 0);	/* named: the group does not help */
	expect_may(1, 100, 4);		/* the file's group */
	expect_may(1, 200, 2);		/* a named one */
	expect_may(1, 9, 1);		/* others are not masked */
}

Test(acl, one_group_must_allow_it_all)
{
	use(LIST({ ACL_USER_OBJ, 7, NOBODY }, { ACL_GROUP_OBJ, 0, NOBODY },
		 { ACL_GROUP, 4, 300 }, { ACL_GROUP, 2, 301 },
		 { ACL_MASK, 7, NOBODY }, { ACL_OTHER, 7, NOBODY }));
	const uint32_t groups[] = { 300, 301 };
	const struct cred who = { .uid = 1, .gid = 9, .groups = groups,
				  .group_count = 2 };

	cr_assert_eq(acl_may(&acl, &who, 100, MAY_READ), 0);
	cr_assert_eq(acl_may(&acl, &who, 100, MAY_WRITE), 0);
	cr_assert_eq(acl_may(&acl, &who, 100, MAY_READ | MAY_WRITE), -EACCES);
	cr_assert_eq(acl_may(&acl, &who, 100, MAY_EXEC), -EACCES);
}

Test(acl, a_new_file_has_what_both_allow)
{
	uint32_t mode = S_IFREG | 0640;

	use(LIST({ ACL_USER_OBJ, 7, NOBODY }, { ACL_USER, 7, 1000 },
		 { ACL_GROUP_OBJ, 5, NOBODY }, { ACL_MASK, 7, NOBODY },
		 { ACL_OTHER, 5, NOBODY }));
	cr_assert_not(acl_inherit(&acl, &mode));
	cr_assert_eq(mode, S_IFREG | 0640);
	cr_assert_eq(acl.v[2].allowed, 5, "the mask restricts, not the group");
	cr_assert_eq(acl.v[3].allowed, 4);
	mode = S_IFREG | 0666;
	use(LIST({ ACL_USER_OBJ, 5, NOBODY }, { ACL_GROUP_OBJ, 4, NOBODY },
		 { ACL_OTHER, 0, NOBODY }));
	cr_assert(acl_inherit(&acl, &mode));
	cr_assert_eq(mode, S_IFREG | 0440);
}

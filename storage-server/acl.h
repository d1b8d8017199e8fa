/* SPDX-License-Identifier: Apache-2.0 */
/*
 * acl.h - POSIX access control lists: what they allow, and how they follow modes
 *
 * The bytes are those of the attributes system.posix_acl_access and _default:
 * u32 version 2, then entries of u16 tag, u16 permissions, u32 id, in the order
 * owner, users, group, groups, mask, others.  A list of owner, group and others
 * alone says no more than a mode.
 *
 * Pure logic.  Sources: POSIX.1e draft 17; acl(5).
 */
#ifndef ACL_H
#define ACL_H

#include "libproto/base.h"

struct cred;

enum {
	ACL_ENTRIES_MAX = 511,		/* 4 KiB, the kernel's limit */
	ACL_SIZE_MAX = 4 + 8 * ACL_ENTRIES_MAX,
};

enum acl_tag {
	ACL_USER_OBJ = 1,
	ACL_USER = 2,
	ACL_GROUP_OBJ = 4,
	ACL_GROUP = 8,
	ACL_MASK = 16,
	ACL_OTHER = 32,
};

struct acl {
	unsigned int count;
	struct acl_entry {
		uint16_t tag, allowed;
		uint32_t id;
	} v[ACL_ENTRIES_MAX];
};

/* 0; -EINVAL: not a list as it must be; -EOPNOTSUPP: of another version. */
int acl_decode(const void *bytes, size_t size, struct acl *out);
/* The size, at most ACL_SIZE_MAX. */
size_t acl_encode(const struct acl *acl, uint8_t out[ACL_SIZE_MAX]);

/* 0 or -EACCES, for who is not the owner, nor super. */
int acl_may(const struct acl *acl, const struct cred *cred, uint32_t gid,
	    unsigned int mask);

/* The permission bits of mode as acl has them.  True: it says nothing more. */
bool acl_to_mode(const struct acl *acl, uint32_t *mode);
/* chmod(2): acl says what mode says. */
void acl_chmod(struct acl *acl, uint32_t mode);
/* A new inode: acl, its directory's default, and mode restrict one another.
 * True: acl says no more than mode now. */
bool acl_inherit(struct acl *acl, uint32_t *mode);

#endif /* ACL_H */

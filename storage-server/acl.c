/* SPDX-License-Identifier: Apache-2.0 */
/*
 * acl.c - POSIX access control lists: what they allow, and how they follow modes
 */
#include "acl.h"

#include "store.h"

#include <errno.h>
#include <sys/stat.h>

enum { VERSION = 2, NO_ID = UINT32_MAX };

/* ---- bytes --------------------------------------------------------------- */

/* Which tags may follow; each but users and groups once. */
static unsigned int after(uint16_t tag)
{
	switch (tag) {
	case 0:
		return ACL_USER_OBJ;
	case ACL_USER_OBJ:
	case ACL_USER:
		return ACL_USER | ACL_GROUP_OBJ;
	case ACL_GROUP_OBJ:
	case ACL_GROUP:
		return ACL_GROUP | ACL_MASK | ACL_OTHER;
	case ACL_MASK:
		return ACL_OTHER;
	default:
		return 0;
	}
}

static bool is_valid(const struct acl *acl)
{
	bool needs_mask = false, has_mask = false;
	uint16_t last = 0;

	for (unsigned int i = 0; i < acl->count; i++) {
		const struct acl_entry *entry = &acl->v[i];
		bool is_named = entry->tag == ACL_USER ||
				entry->tag == ACL_GROUP;

		if (!(entry->tag & after(last)) || entry->allowed & ~7u ||
		    (entry->tag & (entry->tag - 1)) ||
		    (is_named && entry->id == NO_ID))
			return false;
		needs_mask |= is_named;
		has_mask |= entry->tag == ACL_MASK;
		last = entry->tag;
	}
	return last == ACL_OTHER && (has_mask || !needs_mask);
}

int acl_decode(const void *bytes, size_t size, struct acl *out)
{
	const uint8_t *at = bytes;

	if (size < 4 || (size - 4) % 8 || size > ACL_SIZE_MAX)
		return -EINVAL;
	if (rf_load_u32(at) != VERSION)
		return -EOPNOTSUPP;
	out->count = (unsigned int)(size - 4) / 8;
	for (unsigned int i = 0; i < out->count; i++) {
		const uint8_t *entry = at + 4 + 8 * (size_t)i;

		out->v[i] = (struct acl_entry){
			.tag = rf_load_u16(entry),
			.allowed = rf_load_u16(entry + 2),
			.id = rf_load_u32(entry + 4),
		};
	}
	return is_valid(out) ? 0 : -EINVAL;
}

size_t acl_encode(const struct acl *acl, uint8_t out[ACL_SIZE_MAX])
{
	rf_store_u32(out, VERSION);
	for (unsigned int i = 0; i < acl->count; i++) {
		uint8_t *at = out + 4 + 8 * (size_t)i;
		const struct acl_entry *entry = &acl->v[i];
		bool is_named = entry->tag == ACL_USER ||
				entry->tag == ACL_GROUP;

		rf_store_u16(at, entry->tag);
		rf_store_u16(at + 2, entry->allowed);
		rf_store_u32(at + 4, is_named ? entry->id : NO_ID);
	}
	return 4 + 8 * (size_t)acl->count;
}

/* ---- entries ------------------------------------------------------------- */

/* The one entry of this tag, or NULL. */
static struct acl_entry *find(const struct acl *acl, enum acl_tag tag)
{
	for (unsigned int i = 0; i < acl->count; i++)
		if (acl->v[i].tag == tag)
			return (struct acl_entry *)&acl->v[i];
	return NULL;
}

/* What the group bits of the mode stand for. */
static struct acl_entry *group_class(const struct acl *acl)
{
	struct acl_entry *mask = find(acl, ACL_MASK);

	return mask ? mask : find(acl, ACL_GROUP_OBJ);
}

/* ---- what it allows ------------------------------------------------------ */

static int masked(const struct acl *acl, const struct acl_entry *entry,
		  unsigned int wanted)
{
	const struct acl_entry *mask = find(acl, ACL_MASK);
	unsigned int allowed = entry->allowed & (mask ? mask->allowed : 7u);

	return wanted & ~allowed ? -EACCES : 0;
}

/* The group entries that are the caller's: one that allows it all will do. */
static int may_by_group(const struct acl *acl, const struct cred *cred,
			uint32_t gid, unsigned int wanted, bool *found)
{
	for (unsigned int i = 0; i < acl->count; i++) {
		const struct acl_entry *entry = &acl->v[i];
		bool is_ours = (entry->tag == ACL_GROUP_OBJ &&
				cred_has_group(cred, gid)) ||
			       (entry->tag == ACL_GROUP &&
				cred_has_group(cred, entry->id));

		*found |= is_ours;
		if (is_ours && !(wanted & ~(unsigned int)entry->allowed))
			return masked(acl, entry, wanted);
	}
	return -EACCES;
}

int acl_may(const struct acl *acl, const struct cred *cred, uint32_t gid,
	    unsigned int mask)
{
	unsigned int wanted = mask & 7;
	bool found = false;
	int err;

	for (unsigned int i = 0; i < acl->count; i++)
		if (acl->v[i].tag == ACL_USER && acl->v[i].id == cred->uid)
			return masked(acl, &acl->v[i], wanted);
	err = may_by_group(acl, cred, gid, wanted, &found);
	if (found)
		return err;
	return wanted & ~(unsigned int)find(acl, ACL_OTHER)->allowed ? -EACCES
								     : 0;
}

/* ---- modes --------------------------------------------------------------- */

bool acl_to_mode(const struct acl *acl, uint32_t *mode)
{
	*mode = (*mode & ~(uint32_t)0777) |
		(uint32_t)find(acl, ACL_USER_OBJ)->allowed << 6 |
		(uint32_t)group_class(acl)->allowed << 3 |
		find(acl, ACL_OTHER)->allowed;
	return acl->count == 3;
}

void acl_chmod(struct acl *acl, uint32_t mode)
{
	find(acl, ACL_USER_OBJ)->allowed = mode >> 6 & 7;
	group_class(acl)->allowed = mode >> 3 & 7;
	find(acl, ACL_OTHER)->allowed = mode & 7;
}

bool acl_inherit(struct acl *acl, uint32_t *mode)
{
	find(acl, ACL_USER_OBJ)->allowed &= (uint16_t)(*mode >> 6 & 7);
	group_class(acl)->allowed &= (uint16_t)(*mode >> 3 & 7);
	find(acl, ACL_OTHER)->allowed &= (uint16_t)(*mode & 7);
	return acl_to_mode(acl, mode);
}

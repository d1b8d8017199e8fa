/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dirent.c - directory entries, as READDIR carries them one after another
 *
 *	 0  u16  size of the entry
 *	 2  u8   1: handle and attributes follow the fixed part; else 0
 *	 3  u8   0
 *	 4  u32  type, the S_IFMT bits
 *	 8  u64  cookie
 *	16  u64  inode
 *	24       handle (20) and attributes (120), if announced
 *	         u16 size and the name, to the end
 *
 * Entries do not cross the end of a grant or of inside data.
 */
#include <errno.h>
#include <sys/stat.h>

#include "base.h"
#include "codec.h"
#include "codec_fields.h"

enum { FIXED_SIZE = 24 };

/* As in any other field, but "." and ".." are entries too. */
static bool name_is_valid(const rf_name_t *name)
{
	return rf_xname_is_valid(name->bytes, name->size) &&
	       !memchr(name->bytes, '/', name->size);
}

/* 0 asks for the start; negative file offsets do not reach us. */
static bool cookie_is_valid(uint64_t cookie)
{
	return cookie >= 1 && cookie <= INT64_MAX;
}

size_t rf_dirent_size(const struct rf_dirent *entry)
{
	size_t size = FIXED_SIZE + 2 + (size_t)entry->name.size;

	return entry->has_attr ? size + RF_HANDLE_SIZE + RF_ATTR_SIZE : size;
}

int rf_dirent_encode(void *at, size_t room, const struct rf_dirent *entry)
{
	size_t size = rf_dirent_size(entry);
	struct rf_enc enc = { .base = at, .size = (uint32_t)size };
	uint16_t size16 = (uint16_t)size;
	uint8_t has_attr = entry->has_attr, zero = 0;

	RF_ASSERT(name_is_valid(&entry->name) &&
		  cookie_is_valid(entry->cookie) &&
		  (entry->type & ~(uint32_t)S_IFMT) == 0);
	if (size > room)
		return -ENOSPC;
	rf_put_u16(&enc, &size16);
	rf_put_flag(&enc, &has_attr);
	rf_put_flag(&enc, &zero);
	rf_put_u32(&enc, &entry->type);
	rf_put_u64(&enc, &entry->cookie);
	rf_put_u64(&enc, &entry->inode);
	if (entry->has_attr) {
		rf_put_handle(&enc, &entry->handle);
		rf_put_attr(&enc, &entry->attr);
	}
	rf_put_xname(&enc, &entry->name);
	RF_ASSERT(!enc.overflowed && enc.used == size);
	return (int)size;
}

/* The fixed part, behind the size. */
static bool get_fixed(struct rf_cursor *cur, struct rf_dirent *entry)
{
	uint8_t has_attr, zero;

	if (!rf_get_flag(cur, &has_attr) || !rf_get_u8(cur, &zero) ||
	    !rf_get_u32(cur, &entry->type) ||
	    !rf_get_u64(cur, &entry->cookie) ||
	    !rf_get_u64(cur, &entry->inode))
		return false;
	entry->has_attr = has_attr;
	return zero == 0 && (entry->type & ~(uint32_t)S_IFMT) == 0 &&
	       cookie_is_valid(entry->cookie);
}

int rf_dirent_decode(const void *at, size_t size, struct rf_dirent *entry)
{
	struct rf_cursor cur = { at, (const uint8_t *)at + size };
	uint16_t own;

	if (size == 0)
		return 0;
	if (!rf_get_u16(&cur, &own) || own > size)
		return -EBADMSG;
	cur.end = (const uint8_t *)at + own;
	if (own < FIXED_SIZE || !get_fixed(&cur, entry))
		return -EBADMSG;
	if (entry->has_attr && (!rf_get_handle(&cur, &entry->handle) ||
				!rf_get_attr(&cur, &entry->attr)))
		return -EBADMSG;
	if (!rf_get_xname(&cur, &entry->name) ||
	    !name_is_valid(&entry->name) || cur.at != cur.end)
		return -EBADMSG;
	return own;
}

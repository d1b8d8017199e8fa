/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec_fields.c - one field type at a time, in and out
 *
 * Each type has a put and a get that stand next to each other and list the same
 * fields in the same order.  Rules that both need (what a name is, which bits
 * exist) are said once, in a function that ends in _is_valid or _are_valid.
 */
#include "codec_fields.h"

#define NSEC_PER_SEC 1000000000u

/* ---- numbers ------------------------------------------------------------- */

uint8_t *rf_put_room(struct rf_enc *enc, uint32_t size)
{
	uint8_t *at = enc->base + enc->used;

	if (enc->overflowed || size > enc->size - enc->used) {
		enc->overflowed = true;
		return NULL;
	}
	enc->used += size;
	return at;
}

void rf_put_u8(struct rf_enc *enc, const rf_u8_t *in)
{
	uint8_t *at = rf_put_room(enc, 1);

	if (at)
		*at = *in;
}

bool rf_get_u8(struct rf_cursor *cur, rf_u8_t *out)
{
	const uint8_t *at = rf_get_room(cur, 1);

	if (at)
		*out = *at;
	return at;
}

#define NUMBER(type) \
void rf_put_##type(struct rf_enc *enc, const rf_##type##_t *in) \
{ \
	uint8_t *at = rf_put_room(enc, sizeof(*in)); \
\
	if (at) \
		rf_store_##type(at, *in); \
} \
\
bool rf_get_##type(struct rf_cursor *cur, rf_##type##_t *out) \
{ \
	const uint8_t *at = rf_get_room(cur, sizeof(*out)); \
\
	if (at) \
		*out = rf_load_##type(at); \
	return at; \
}
NUMBER(u16)
NUMBER(u32)
NUMBER(u64)
#undef NUMBER

/* A number of which all must be known: type, of the width of base, bits. */
#define BITS(type, base, all) \
void rf_put_##type(struct rf_enc *enc, const rf_##type##_t *in) \
{ \
	RF_ASSERT((*in & ~(unsigned int)(all)) == 0); \
	rf_put_##base(enc, in); \
} \
\
bool rf_get_##type(struct rf_cursor *cur, rf_##type##_t *out) \
{ \
	return rf_get_##base(cur, out) && (*out & ~(unsigned int)(all)) == 0; \
}
BITS(flag, u8, 1)
BITS(whence, u8, 1)
BITS(set_bits, u32, RF_SET_ALL)
BITS(open_flags, u32, RF_OPEN_ALL)
BITS(write_flags, u32, RF_WRITE_ALL)
BITS(falloc_mode, u32, RF_FALLOC_ALL)
BITS(rename_flags, u32, RF_RENAME_ALL)
BITS(xattr_flags, u32, RF_XATTR_ALL)
BITS(lock_flags, u32, RF_LOCK_ALL)
#undef BITS

/* ---- fixed structures ---------------------------------------------------- */

void rf_put_time(struct rf_enc *enc, const rf_time_t *in)
{
	uint64_t seconds = (uint64_t)in->seconds;

	RF_ASSERT(in->nanoseconds < NSEC_PER_SEC);
	rf_put_u64(enc, &seconds);
	rf_put_u32(enc, &in->nanoseconds);
}

bool rf_get_time(struct rf_cursor *cur, rf_time_t *out)
{
	uint64_t seconds;

	if (!rf_get_u64(cur, &seconds) || !rf_get_u32(cur, &out->nanoseconds))
		return false;
	out->seconds = (int64_t)seconds;
	return out->nanoseconds < NSEC_PER_SEC;
}

void rf_put_handle(struct rf_enc *enc, const rf_handle_t *in)
{
	rf_put_u64(enc, &in->inode);
	rf_put_u32(enc, &in->tree);
	rf_put_u64(enc, &in->tag);
}

bool rf_get_handle(struct rf_cursor *cur, rf_handle_t *out)
{
	return rf_get_u64(cur, &out->inode) &&
	       rf_get_u32(cur, &out->tree) &&
	       rf_get_u64(cur, &out->tag);
}

/* The order of attributes on the wire. */
#define ATTR_FIELDS(F) \
	F(u64, inode) F(u64, change) F(u64, size) F(u64, blocks) \
	F(time, atime) F(time, mtime) F(time, ctime) F(time, btime) \
	F(u32, mode) F(u32, nlink) F(u32, uid) F(u32, gid) F(u64, rdev) \
	F(u32, tree) F(u32, block_size) F(u32, flags) F(u32, reserved)
#define PUT(type, name) rf_put_##type(enc, &in->name);
#define GET(type, name) && rf_get_##type(cur, &out->name)

void rf_put_attr(struct rf_enc *enc, const rf_attr_t *in)
{
	ATTR_FIELDS(PUT)
}

bool rf_get_attr(struct rf_cursor *cur, rf_attr_t *out)
{
	return true ATTR_FIELDS(GET);
}

#undef GET
#undef PUT
#undef ATTR_FIELDS

/* ---- bytes --------------------------------------------------------------- */

bool rf_xname_is_valid(const char *bytes, size_t size)
{
	return size >= 1 && size <= RF_NAME_MAX && !memchr(bytes, 0, size);
}

bool rf_name_is_valid(const char *bytes, size_t size)
{
	if (!rf_xname_is_valid(bytes, size) || memchr(bytes, '/', size))
		return false;
	if (bytes[0] != '.')
		return true;
	return size > 2 || (size == 2 && bytes[1] != '.');
}

static bool target_is_valid(const rf_target_t *target)
{
	return target->size >= 1 && target->size <= RF_TARGET_MAX &&
	       !memchr(target->bytes, 0, target->size);
}

static bool u32s_are_valid(const rf_u32s_t *list)
{
	return list->size % 4 == 0 && list->size / 4 <= RF_GROUPS_MAX;
}

static void put_bytes(struct rf_enc *enc, const void *bytes, uint32_t size)
{
	uint8_t *at = rf_put_room(enc, size);

	if (at && size)		/* memcpy() does not take a NULL of 0 bytes */
		memcpy(at, bytes, size);
}

void rf_put_xname(struct rf_enc *enc, const rf_xname_t *in)
{
	RF_ASSERT(rf_xname_is_valid(in->bytes, in->size));
	rf_put_u16(enc, &in->size);
	put_bytes(enc, in->bytes, in->size);
}

bool rf_get_xname(struct rf_cursor *cur, rf_xname_t *out)
{
	const uint8_t *at;

	if (!rf_get_u16(cur, &out->size))
		return false;
	at = rf_get_room(cur, out->size);
	if (!at)
		return false;
	out->bytes = (const char *)at;
	return rf_xname_is_valid(out->bytes, out->size);
}

void rf_put_name(struct rf_enc *enc, const rf_name_t *in)
{
	RF_ASSERT(rf_name_is_valid(in->bytes, in->size));
	rf_put_xname(enc, in);
}

bool rf_get_name(struct rf_cursor *cur, rf_name_t *out)
{
	return rf_get_xname(cur, out) &&
	       rf_name_is_valid(out->bytes, out->size);
}

void rf_put_blob(struct rf_enc *enc, const rf_blob_t *in)
{
	rf_put_u32(enc, &in->size);
	put_bytes(enc, in->bytes, in->size);
}

bool rf_get_blob(struct rf_cursor *cur, rf_blob_t *out)
{
	if (!rf_get_u32(cur, &out->size))
		return false;
	out->bytes = rf_get_room(cur, out->size);
	return out->bytes;
}

void rf_put_target(struct rf_enc *enc, const rf_target_t *in)
{
	RF_ASSERT(target_is_valid(in));
	rf_put_blob(enc, in);
}

bool rf_get_target(struct rf_cursor *cur, rf_target_t *out)
{
	return rf_get_blob(cur, out) && target_is_valid(out);
}

void rf_put_u32s(struct rf_enc *enc, const rf_u32s_t *in)
{
	RF_ASSERT(u32s_are_valid(in));
	rf_put_blob(enc, in);
}

bool rf_get_u32s(struct rf_cursor *cur, rf_u32s_t *out)
{
	return rf_get_blob(cur, out) && u32s_are_valid(out);
}

uint32_t rf_blob_u32(const rf_blob_t *blob, unsigned int index)
{
	RF_ASSERT(index < blob->size / 4);
	return rf_load_u32((const uint8_t *)blob->bytes + 4 * (size_t)index);
}

void rf_lock_event_encode(void *at, const struct rf_lock_event *event)
{
	rf_store_u64(at, event->wait);
	rf_store_u16((uint8_t *)at + 8, event->status);
}

bool rf_lock_event_decode(const rf_blob_t *events, unsigned int index,
			  struct rf_lock_event *out)
{
	const uint8_t *at = events->bytes;

	if (index >= events->size / RF_LOCK_EVENT_SIZE)
		return false;
	at += RF_LOCK_EVENT_SIZE * (size_t)index;
	out->wait = rf_load_u64(at);
	out->status = rf_load_u16(at + 8);
	return true;
}

/* ---- counted lists ------------------------------------------------------- */

/* A count of at most max; decoders must not believe more. */
static void put_count(struct rf_enc *enc, uint16_t count, unsigned int max)
{
	RF_ASSERT(count <= max);
	rf_put_u16(enc, &count);
}

static bool get_count(struct rf_cursor *cur, uint16_t *count, unsigned int max)
{
	return rf_get_u16(cur, count) && *count <= max;
}

void rf_put_grants(struct rf_enc *enc, const rf_grants_t *in)
{
	put_count(enc, in->count, RF_GRANTS_MAX);
	for (unsigned int i = 0; i < in->count; i++) {
		rf_put_u32(enc, &in->v[i].id);
		rf_put_u32(enc, &in->v[i].rkey);
		rf_put_u64(enc, &in->v[i].addr);
		rf_put_u32(enc, &in->v[i].size);
		rf_put_u32(enc, &in->v[i].crc);
	}
}

bool rf_get_grants(struct rf_cursor *cur, rf_grants_t *out)
{
	if (!get_count(cur, &out->count, RF_GRANTS_MAX))
		return false;
	for (unsigned int i = 0; i < out->count; i++) {
		struct rf_grant *grant = &out->v[i];

		if (!rf_get_u32(cur, &grant->id) ||
		    !rf_get_u32(cur, &grant->rkey) ||
		    !rf_get_u64(cur, &grant->addr) ||
		    !rf_get_u32(cur, &grant->size) ||
		    !rf_get_u32(cur, &grant->crc))
			return false;
	}
	return true;
}

void rf_put_pieces(struct rf_enc *enc, const rf_pieces_t *in)
{
	put_count(enc, in->count, RF_GRANTS_MAX);
	for (unsigned int i = 0; i < in->count; i++) {
		rf_put_u32(enc, &in->v[i].slot);
		rf_put_u32(enc, &in->v[i].size);
		rf_put_u32(enc, &in->v[i].crc);
	}
}

bool rf_get_pieces(struct rf_cursor *cur, rf_pieces_t *out)
{
	if (!get_count(cur, &out->count, RF_GRANTS_MAX))
		return false;
	for (unsigned int i = 0; i < out->count; i++) {
		struct rf_piece *piece = &out->v[i];

		if (!rf_get_u32(cur, &piece->slot) ||
		    !rf_get_u32(cur, &piece->size) ||
		    !rf_get_u32(cur, &piece->crc))
			return false;
	}
	return true;
}

void rf_put_layout(struct rf_enc *enc, const rf_layout_t *in)
{
	rf_put_u32(enc, &in->stripe_size);
	put_count(enc, in->server_count, RF_SERVERS_MAX);
	for (unsigned int i = 0; i < in->server_count; i++)
		rf_put_u16(enc, &in->servers[i]);
}

bool rf_get_layout(struct rf_cursor *cur, rf_layout_t *out)
{
	if (!rf_get_u32(cur, &out->stripe_size) ||
	    !get_count(cur, &out->server_count, RF_SERVERS_MAX))
		return false;
	for (unsigned int i = 0; i < out->server_count; i++)
		if (!rf_get_u16(cur, &out->servers[i]))
			return false;
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec_fields.h - one field type at a time, in and out (private to the codec)
 *
 * rf_put_TYPE() appends to an encoder and remembers an overflow; rf_get_TYPE()
 * takes from a cursor and is false when the bytes run out or are not allowed.
 * codec.c strings them together from the tables of ops.h.
 *
 * When it fails.  Putting what rf_get_TYPE() would refuse is a bug and aborts.
 * After a false, the cursor and the output are of no use.
 */
#ifndef RF_CODEC_FIELDS_H
#define RF_CODEC_FIELDS_H

#include "base.h"
#include "codec.h"

/* What is left of the bytes that a decoder may look at. */
struct rf_cursor {
	const uint8_t *at;
	const uint8_t *end;
};

/* size bytes to write at, or NULL: overflowed. */
uint8_t *rf_put_room(struct rf_enc *enc, uint32_t size);

/* size bytes to read at, or NULL: there are not as many. */
static inline const uint8_t *rf_get_room(struct rf_cursor *cur, size_t size)
{
	const uint8_t *at = cur->at;

	if (size > (size_t)(cur->end - at))
		return NULL;
	cur->at += size;
	return at;
}

/* Every type of ops.h; the same words as in rf_WORD_t. */
#define RF_FIELD_TYPES(X) \
	X(u8) X(u16) X(u32) X(u64) \
	X(flag) X(whence) \
	X(set_bits) X(open_flags) X(write_flags) X(falloc_mode) \
	X(rename_flags) X(xattr_flags) X(lock_flags) \
	X(time) X(handle) X(attr) \
	X(name) X(xname) X(blob) X(target) X(u32s) \
	X(grants) X(pieces) X(layout)

#define RF_FIELD_DECLARE(type) \
	void rf_put_##type(struct rf_enc *enc, const rf_##type##_t *in); \
	bool rf_get_##type(struct rf_cursor *cur, rf_##type##_t *out);
RF_FIELD_TYPES(RF_FIELD_DECLARE)
#undef RF_FIELD_DECLARE

enum {
	RF_HANDLE_SIZE = 20,
	RF_TIME_SIZE = 12,
	RF_ATTR_SIZE = 120,
	RF_GRANT_SIZE = 24,
	RF_PIECE_SIZE = 12,
};

#endif /* RF_CODEC_FIELDS_H */

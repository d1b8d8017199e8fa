/* SPDX-License-Identifier: Apache-2.0 */
/*
 * given.c - which times, sizes and rights does the kernel have of an inode?
 */
#include "given.h"
#include "libproto/base.h"

static bool is_same(const struct given_stamp *stamp, const rf_attr_t *attr)
{
	return stamp->size == attr->size &&
	       stamp->mtime.seconds == attr->mtime.seconds &&
	       stamp->mtime.nanoseconds == attr->mtime.nanoseconds;
}

static bool has(const struct given *given, const rf_attr_t *attr)
{
	for (unsigned int i = 0; i < given->count; i++)
		if (is_same(&given->v[i], attr))
			return true;
	return false;
}

bool given_is_taken(const struct given *given, uint64_t arrived)
{
	return given->disturbed < arrived;
}

static void note_rights(struct given *given, const rf_attr_t *attr,
			bool is_taken)
{
	if (is_taken) {
		given->mode = attr->mode;
		given->uid = attr->uid;
		given->gid = attr->gid;
	} else if (!given_has_rights(given, attr)) {
		given->mode = 0;
	}
}

void given_note(struct given *given, const rf_attr_t *attr, bool is_taken)
{
	struct given_stamp stamp = { .mtime = attr->mtime, .size = attr->size };

	note_rights(given, attr, is_taken);
	if (is_taken) {
		given->v[0] = stamp;
		given->count = 1;
	} else if (given->count == 0 || has(given, attr)) {
		/* Nothing new to be unsure of. */
	} else if (given->count == 1) {
		given->v[1] = stamp;
		given->count = 2;
	} else {
		given->count = 0;
	}
}

void given_grow(struct given *given, uint64_t size)
{
	for (unsigned int i = 0; i < given->count; i++)
		given->v[i].size = rf_max_u64(given->v[i].size, size);
}

bool given_cut(struct given *given, uint64_t size)
{
	bool was_longer = given->count == 0;

	for (unsigned int i = 0; i < given->count; i++)
		was_longer |= given->v[i].size > size;
	if (!was_longer)
		return false;
	if (given->count == 1) {
		given->v[1] = given->v[0];
		given->v[1].size = size;
		given->count = 2;
	} else {
		given->count = 0;
	}
	return true;
}

bool given_differs(const struct given *given, const rf_attr_t *attr)
{
	return given->count > 0 && !has(given, attr);
}

bool given_has_size(const struct given *given, const rf_attr_t *attr)
{
	for (unsigned int i = 0; i < given->count; i++)
		if (given->v[i].size != attr->size)
			return false;
	return given->count > 0;
}

bool given_has_rights(const struct given *given, const rf_attr_t *attr)
{
	return given->mode == attr->mode && given->uid == attr->uid &&
	       given->gid == attr->gid;
}

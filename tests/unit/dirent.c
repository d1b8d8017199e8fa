/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dirent.c - directory entries survive, and bad ones are refused
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "libproto/base.h"
#include "libproto/codec.h"
#include "tests/common/wire.h"

/* ---- directory entries --------------------------------------------------- */

static void make_dirent(struct rf_dirent *entry)
{
	memset(entry, 0, sizeof(*entry));
	entry->cookie = 1 + wire_chance_below(INT64_MAX);
	entry->inode = wire_chance();
	entry->type = (uint32_t)wire_chance() & S_IFMT;
	entry->has_attr = wire_chance() & 1;
	wire_make_name(&entry->name);
	if (entry->has_attr) {
		wire_make_handle(&entry->handle);
		wire_make_attr(&entry->attr);
	}
}

static bool same_dirent(const struct rf_dirent *a, const struct rf_dirent *b)
{
	return a->cookie == b->cookie && a->inode == b->inode &&
	       a->type == b->type && a->has_attr == b->has_attr &&
	       wire_same_name(&a->name, &b->name) &&
	       (!a->has_attr || (wire_same_handle(&a->handle, &b->handle) &&
				 wire_same_attr(&a->attr, &b->attr)));
}

Test(dirent, many_entries_survive_one_after_another)
{
	static uint8_t buffer[WIRE_BUFFER_SIZE];
	static struct rf_dirent in[200];
	struct rf_dirent out;
	size_t used = 0, at = 0;
	struct wire_message m;
	int size;

	wire_chance_start("dirents");
	for (size_t i = 0; i < RF_ARRAY_SIZE(in); i++) {
		make_dirent(&in[i]);
		size = rf_dirent_encode(buffer + used, sizeof(buffer) - used,
					&in[i]);
		cr_assert_gt(size, 0);
		cr_assert_eq((size_t)size, rf_dirent_size(&in[i]));
		used += (size_t)size;
	}
	m = wire_copy(buffer, used);
	for (size_t i = 0; i < RF_ARRAY_SIZE(in); i++) {
		size = rf_dirent_decode(m.bytes + at, m.size - at, &out);
		cr_assert_gt(size, 0);
		cr_assert(same_dirent(&in[i], &out));
		at += (size_t)size;
	}
	cr_assert_eq(rf_dirent_decode(m.bytes + at, m.size - at, &out), 0);
	wire_free(&m);
}

Test(dirent, an_entry_without_room_is_not_written)
{
	struct rf_dirent entry = {
		.cookie = 1, .inode = 2, .type = S_IFREG, .name = { "a", 1 },
	};
	size_t size = rf_dirent_size(&entry);

	for (size_t room = 0; room < size; room++) {
		struct wire_message m = { malloc(room), room };

		if (room)
			memset(m.bytes, 0x77, room);
		cr_assert_eq(rf_dirent_encode(m.bytes, room, &entry), -ENOSPC);
		for (size_t i = 0; i < room; i++)
			cr_assert_eq(m.bytes[i], 0x77);
		wire_free(&m);
	}
}

Test(dirent, every_truncation_is_refused)
{
	uint8_t buffer[1024];
	struct rf_dirent entry;

	wire_chance_start("dirent truncation");
	for (unsigned int round = 0; round < 50; round++) {
		int size;

		wire_forget_bytes();
		make_dirent(&entry);
		size = rf_dirent_encode(buffer, sizeof(buffer), &entry);
		for (size_t cut = 1; cut < (size_t)size; cut++) {
			struct wire_message m = wire_copy(buffer, cut);

			cr_assert_eq(rf_dirent_decode(m.bytes, cut, &entry),
				     -EBADMSG);
			if (cut >= 2)
				rf_store_u16(m.bytes, (uint16_t)cut);
			cr_assert_eq(rf_dirent_decode(m.bytes, cut, &entry),
				     -EBADMSG);
			wire_free(&m);
		}
	}
}

static int decode_changed(const uint8_t *good, size_t size, size_t at,
			  uint8_t value)
{
	struct wire_message m = wire_copy(good, size);
	struct rf_dirent entry;
	int got;

	m.bytes[at] = value;
	got = rf_dirent_decode(m.bytes, size, &entry);
	wire_free(&m);
	return got;
}

Test(dirent, bad_fields_are_refused)
{
	struct rf_dirent entry = {
		.cookie = 1, .inode = 2, .type = S_IFDIR, .name = { "..", 2 },
	};
	uint8_t b[64];
	int size = rf_dirent_encode(b, sizeof(b), &entry);
	size_t n = (size_t)size;

	cr_assert_eq(size, 28);
	cr_assert_eq(decode_changed(b, n, 0, 28), 28, "dot-dot is an entry");
	cr_assert_eq(decode_changed(b, n, 0, 27), -EBADMSG);
	cr_assert_eq(decode_changed(b, n, 0, 29), -EBADMSG);
	cr_assert_eq(decode_changed(b, n, 0, 0), -EBADMSG, "would not end");
	cr_assert_eq(decode_changed(b, n, 2, 1), -EBADMSG, "no attributes");
	cr_assert_eq(decode_changed(b, n, 2, 2), -EBADMSG);
	cr_assert_eq(decode_changed(b, n, 3, 1), -EBADMSG);
	cr_assert_eq(decode_changed(b, n, 4, 1), -EBADMSG, "permission bits");
	cr_assert_eq(decode_changed(b, n, 8, 0), -EBADMSG, "cookie 0");
	cr_assert_eq(decode_changed(b, n, 15, 0x80), -EBADMSG, "cookie < 0");
	cr_assert_eq(decode_changed(b, n, 24, 1), -EBADMSG);
	cr_assert_eq(decode_changed(b, n, 24, 3), -EBADMSG);
	cr_assert_eq(decode_changed(b, n, 27, '/'), -EBADMSG);
	cr_assert_eq(decode_changed(b, n, 27, 0), -EBADMSG);
}

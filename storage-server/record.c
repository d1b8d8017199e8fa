/* SPDX-License-Identifier: Apache-2.0 */
#include "record.h"

#include "libproto/base.h"

#include <errno.h>
#include <sys/stat.h>

static bool is_zero(const uint8_t *at, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (at[i])
			return false;
	return true;
}

/* ---- keys ---------------------------------------------------------------- */

void record_store_be64(void *at, uint64_t v)
{
	v = __builtin_bswap64(v);
	memcpy(at, &v, sizeof(v));
}

uint64_t record_load_be64(const void *at)
{
	uint64_t v;

	memcpy(&v, at, sizeof(v));
	return __builtin_bswap64(v);
}

static void store_be16(void *at, uint16_t v)
{
	v = __builtin_bswap16(v);
	memcpy(at, &v, sizeof(v));
}

size_t key_inode(uint8_t *out, uint64_t inode, enum inode_kind kind)
{
	record_store_be64(out, inode);
	out[8] = (uint8_t)kind;
	return INODE_KEY_SIZE;
}

size_t key_volume(uint8_t *out, enum volume_kind kind)
{
	record_store_be64(out, 0);
	out[8] = (uint8_t)kind;
	return INODE_KEY_SIZE;
}

size_t key_orphan(uint8_t *out, uint64_t inode)
{
	key_volume(out, VOLUME_ORPHAN);
	record_store_be64(out + 9, inode);
	return INODE_KEY_MAX;
}

size_t key_deletion(uint8_t *out, uint64_t sequence)
{
	key_volume(out, VOLUME_DELETION);
	record_store_be64(out + 9, sequence);
	return INODE_KEY_MAX;
}

size_t key_client(uint8_t *out, uint64_t session)
{
	key_volume(out, VOLUME_CLIENT);
	record_store_be64(out + 9, session);
	return INODE_KEY_MAX;
}

size_t key_entry(uint8_t *out, uint64_t dir, uint64_t hash,
		 const rf_name_t *name)
{
	out[0] = 'd';
	record_store_be64(out + 1, dir);
	record_store_be64(out + 9, hash);
	memcpy(out + 17, name->bytes, name->size);
	return 17u + name->size;
}

size_t key_xattr(uint8_t *out, uint64_t inode, const rf_name_t *name)
{
	out[0] = 'x';
	record_store_be64(out + 1, inode);
	memcpy(out + 9, name->bytes, name->size);
	return 9u + name->size;
}

size_t key_reply(uint8_t *out, uint64_t session, uint16_t channel,
		 uint16_t slot)
{
	record_store_be64(out, session);
	store_be16(out + 8, channel);
	store_be16(out + 10, slot);
	return REPLY_KEY_SIZE;
}

/* ---- inodes -------------------------------------------------------------- */

static void store_times(const struct inode *inode, uint8_t *out)
{
	const rf_time_t *times[] = { &inode->atime, &inode->mtime,
				     &inode->ctime, &inode->btime };

	for (size_t i = 0; i < RF_ARRAY_SIZE(times); i++) {
		rf_store_u64(out + 80 + 8 * i, (uint64_t)times[i]->seconds);
		rf_store_u32(out + 112 + 4 * i, times[i]->nanoseconds);
	}
}

static int load_times(struct inode *inode, const uint8_t *at)
{
	rf_time_t *times[] = { &inode->atime, &inode->mtime, &inode->ctime,
			       &inode->btime };

	for (size_t i = 0; i < RF_ARRAY_SIZE(times); i++) {
		times[i]->seconds = (int64_t)rf_load_u64(at + 80 + 8 * i);
		times[i]->nanoseconds = rf_load_u32(at + 112 + 4 * i);
		if (times[i]->nanoseconds >= 1000000000u)
			return -EIO;
	}
	return 0;
}

void inode_encode(const struct inode *inode, uint8_t out[INODE_RECORD_SIZE])
{
	memset(out, 0, INODE_RECORD_SIZE);
	out[0] = RECORD_VERSION;
	out[1] = inode->flags;
	rf_store_u32(out + 4, inode->mode);
	rf_store_u32(out + 8, inode->nlink);
	rf_store_u32(out + 12, inode->uid);
	rf_store_u32(out + 16, inode->gid);
	rf_store_u32(out + 20, inode->tree);
	rf_store_u32(out + 24, inode->xattr_size);
	rf_store_u64(out + 32, inode->size);
	rf_store_u64(out + 40, inode->blocks);
	rf_store_u64(out + 48, inode->change);
	rf_store_u64(out + 56, inode->rdev);
	rf_store_u64(out + 64, inode->parent);
	rf_store_u64(out + 72, inode->entries);
	store_times(inode, out);
}

static bool type_is_known(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
	case S_IFLNK:
	case S_IFCHR:
	case S_IFBLK:
	case S_IFIFO:
	case S_IFSOCK:
		return true;
	default:
		return false;
	}
}

int inode_decode(uint64_t number, const void *bytes, size_t size,
		 struct inode *out)
{
	const uint8_t *at = bytes;

	if (size != INODE_RECORD_SIZE || at[0] != RECORD_VERSION ||
	    (at[1] & ~INODE_FLAGS_ALL) || !is_zero(at + 2, 2) ||
	    !is_zero(at + 28, 4))
		return -EIO;
	*out = (struct inode){
		.number = number,
		.flags = at[1],
		.mode = rf_load_u32(at + 4),
		.nlink = rf_load_u32(at + 8),
		.uid = rf_load_u32(at + 12),
		.gid = rf_load_u32(at + 16),
		.tree = rf_load_u32(at + 20),
		.xattr_size = rf_load_u32(at + 24),
		.size = rf_load_u64(at + 32),
		.blocks = rf_load_u64(at + 40),
		.change = rf_load_u64(at + 48),
		.rdev = rf_load_u64(at + 56),
		.parent = rf_load_u64(at + 64),
		.entries = rf_load_u64(at + 72),
	};
	if (!type_is_known(out->mode) || (out->mode & ~(uint32_t)0177777) ||
	    S_ISDIR(out->mode) != (out->parent != 0))
		return -EIO;
	return load_times(out, at);
}

/* ---- directory entries --------------------------------------------------- */

void entry_encode(uint64_t inode, uint32_t mode,
		  uint8_t out[ENTRY_RECORD_SIZE])
{
	memset(out, 0, ENTRY_RECORD_SIZE);
	out[0] = RECORD_VERSION;
	out[1] = (uint8_t)((mode & S_IFMT) >> 12);
	rf_store_u64(out + 8, inode);
}

int entry_decode(const void *bytes, size_t size, uint64_t *inode,
		 uint32_t *type)
{
	const uint8_t *at = bytes;

	if (size != ENTRY_RECORD_SIZE || at[0] != RECORD_VERSION ||
	    !is_zero(at + 2, 6) || !type_is_known((uint32_t)at[1] << 12))
		return -EIO;
	*inode = rf_load_u64(at + 8);
	*type = (uint32_t)at[1] << 12;
	return 0;
}

int entry_key_decode(const void *key, size_t size, uint64_t *hash,
		     rf_name_t *name)
{
	const uint8_t *at = key;

	if (size <= ENTRY_PREFIX_SIZE || size > KEY_SIZE_MAX)
		return -EIO;
	*hash = record_load_be64(at + 9);
	name->bytes = (const char *)at + ENTRY_PREFIX_SIZE;
	name->size = (uint16_t)(size - ENTRY_PREFIX_SIZE);
	return 0;
}

/* ---- the volume ---------------------------------------------------------- */

void volume_encode(const struct volume *volume,
		   uint8_t out[VOLUME_RECORD_SIZE])
{
	memset(out, 0, VOLUME_RECORD_SIZE);
	out[0] = RECORD_VERSION;
	memcpy(out + 8, volume->uuid, 16);
	memcpy(out + 24, volume->hash_key, 16);
	memcpy(out + 40, volume->handle_key, 16);
}

int volume_decode(const void *bytes, size_t size, struct volume *out)
{
	const uint8_t *at = bytes;

	if (size != VOLUME_RECORD_SIZE || at[0] != RECORD_VERSION)
		return -EIO;
	memcpy(out->uuid, at + 8, 16);
	memcpy(out->hash_key, at + 24, 16);
	memcpy(out->handle_key, at + 40, 16);
	return 0;
}

void counter_encode(uint64_t next, bool was_closed,
		    uint8_t out[COUNTER_RECORD_SIZE])
{
	memset(out, 0, COUNTER_RECORD_SIZE);
	rf_store_u64(out, next);
	out[8] = was_closed;
}

int counter_decode(const void *bytes, size_t size, uint64_t *next,
		   bool *was_closed)
{
	const uint8_t *at = bytes;

	if (size != COUNTER_RECORD_SIZE || at[8] > 1)
		return -EIO;
	*next = rf_load_u64(at);
	*was_closed = at[8] == 1;
	return 0;
}

void export_encode(uint64_t inode, uint32_t tree,
		   uint8_t out[EXPORT_RECORD_SIZE])
{
	memset(out, 0, EXPORT_RECORD_SIZE);
	rf_store_u64(out, inode);
	rf_store_u32(out + 8, tree);
}

int export_decode(const void *bytes, size_t size, uint64_t *inode,
		  uint32_t *tree)
{
	const uint8_t *at = bytes;

	if (size != EXPORT_RECORD_SIZE)
		return -EIO;
	*inode = rf_load_u64(at);
	*tree = rf_load_u32(at + 8);
	return 0;
}

/* ---- replies ------------------------------------------------------------- */

#define OPEN_IS_RELEASED (UINT32_C(1) << 31)
_Static_assert(((uint32_t)RF_OPEN_ALL & OPEN_IS_RELEASED) == 0,
	       "the bit is ours");

size_t reply_record_encode(const struct reply_record *record,
			   uint8_t out[REPLY_HEADER_MAX])
{
	uint8_t *at = out + REPLY_HEADER_SIZE;

	RF_ASSERT(record->open_count <= REPLY_OPENS_MAX);
	memset(out, 0, REPLY_HEADER_SIZE);
	out[0] = RECORD_VERSION;
	out[1] = record->sync_op;
	out[2] = record->open_count;
	rf_store_u32(out + 4, record->seq);
	for (unsigned int i = 0; i < record->open_count; i++) {
		const struct reply_open *open = &record->opens[i];

		rf_store_u32(at, open->open);
		rf_store_u32(at + 4, open->flags | (open->is_released ?
						    OPEN_IS_RELEASED : 0));
		rf_store_u64(at + 8, open->inode);
		at += REPLY_OPEN_SIZE;
	}
	return (size_t)(at - out);
}

int reply_record_decode(const void *bytes, size_t size,
			struct reply_record *out, size_t *header_size)
{
	const uint8_t *at = bytes;

	if (size < REPLY_HEADER_SIZE || at[0] != RECORD_VERSION ||
	    at[1] > RF_OPS_MAX || at[2] > REPLY_OPENS_MAX || at[3] != 0 ||
	    size < REPLY_HEADER_SIZE + (size_t)at[2] * REPLY_OPEN_SIZE)
		return -EIO;
	out->sync_op = at[1];
	out->open_count = at[2];
	out->seq = rf_load_u32(at + 4);
	at += REPLY_HEADER_SIZE;
	for (unsigned int i = 0; i < out->open_count; i++) {
		uint32_t flags = rf_load_u32(at + 4);

		out->opens[i] = (struct reply_open){
			.open = rf_load_u32(at),
			.flags = flags & ~OPEN_IS_RELEASED,
			.inode = rf_load_u64(at + 8),
			.is_released = flags & OPEN_IS_RELEASED,
		};
		if (out->opens[i].flags & ~(uint32_t)RF_OPEN_ALL)
			return -EIO;
		at += REPLY_OPEN_SIZE;
	}
	*header_size = (size_t)(at - (const uint8_t *)bytes);
	return 0;
}

/* ---- clients ------------------------------------------------------------- */

enum { CLIENT_NO_KEY = 1 << 0, CLIENT_READ_ONLY = 1 << 1 };

static void limits_encode(const struct rf_hello_limits *limits, uint8_t *out)
{
	rf_store_u32(out, limits->inline_max);
	rf_store_u32(out + 4, limits->msg_max);
	rf_store_u16(out + 8, limits->slots);
	rf_store_u16(out + 10, limits->control_slots);
	rf_store_u16(out + 12, limits->server_msgs);
	rf_store_u16(out + 14, limits->channels);
	rf_store_u32(out + 16, limits->write_slots);
	rf_store_u32(out + 20, limits->block_max);
}

static void limits_decode(const uint8_t *at, struct rf_hello_limits *out)
{
	*out = (struct rf_hello_limits){
		.inline_max = rf_load_u32(at),
		.msg_max = rf_load_u32(at + 4),
		.slots = rf_load_u16(at + 8),
		.control_slots = rf_load_u16(at + 10),
		.server_msgs = rf_load_u16(at + 12),
		.channels = rf_load_u16(at + 14),
		.write_slots = rf_load_u32(at + 16),
		.block_max = rf_load_u32(at + 20),
	};
}

static uint8_t *put_text(uint8_t *at, const char *text, size_t max)
{
	size_t size = strnlen(text, max);

	*at = (uint8_t)size;
	memcpy(at + 1, text, size);
	return at + 1 + size;
}

/* NULL: it does not fit.  out has room for max and a NUL. */
static const uint8_t *get_text(const uint8_t *at, const uint8_t *end, char *out,
			       size_t max)
{
	size_t size;

	if (!at || at == end)
		return NULL;
	size = *at++;
	if (size > max || size > (size_t)(end - at))
		return NULL;
	memcpy(out, at, size);
	out[size] = '\0';
	return at + size;
}

_Static_assert(RF_EXPORT_MAX <= UINT8_MAX && RF_HOST_MAX <= UINT8_MAX,
	       "the size of a text has one byte");
_Static_assert(RF_UUID_SIZE == 16 && RF_PROOF_SIZE == 32,
	       "these are the sizes of the record");

size_t client_encode(const struct client_record *client,
		     uint8_t out[CLIENT_RECORD_MAX])
{
	uint8_t *at = out + CLIENT_RECORD_SIZE;

	memset(out, 0, CLIENT_RECORD_SIZE);
	out[0] = RECORD_VERSION;
	out[1] = (uint8_t)((client->has_no_key ? CLIENT_NO_KEY : 0) |
			   (client->wants_read_only ? CLIENT_READ_ONLY : 0));
	rf_store_u32(out + 4, client->epoch);
	rf_store_u64(out + 8, (uint64_t)client->created);
	rf_store_u64(out + 16, client->features);
	limits_encode(&client->limits, out + 24);
	rf_store_u32(out + 48, client->tree);
	memcpy(out + 56, client->uuid, RF_UUID_SIZE);
	memcpy(out + 72, client->proof, RF_PROOF_SIZE);
	at = put_text(at, client->host, RF_HOST_MAX);
	at = put_text(at, client->export, RF_EXPORT_MAX);
	return (size_t)(at - out);
}

int client_decode(const void *bytes, size_t size, struct client_record *out)
{
	const uint8_t *at = bytes, *end = at + size, *text;

	*out = (struct client_record){ .session = 0 };
	if (size < CLIENT_RECORD_SIZE || at[0] != RECORD_VERSION ||
	    at[1] & ~(CLIENT_NO_KEY | CLIENT_READ_ONLY))
		return -EIO;
	out->has_no_key = at[1] & CLIENT_NO_KEY;
	out->wants_read_only = at[1] & CLIENT_READ_ONLY;
	out->epoch = rf_load_u32(at + 4);
	out->created = (int64_t)rf_load_u64(at + 8);
	out->features = rf_load_u64(at + 16);
	limits_decode(at + 24, &out->limits);
	out->tree = rf_load_u32(at + 48);
	memcpy(out->uuid, at + 56, RF_UUID_SIZE);
	memcpy(out->proof, at + 72, RF_PROOF_SIZE);
	text = get_text(at + CLIENT_RECORD_SIZE, end, out->host, RF_HOST_MAX);
	text = get_text(text, end, out->export, RF_EXPORT_MAX);
	if (text != end || out->epoch == 0 ||
	    !rf_hello_limits_are_usable(&out->limits))
		return -EIO;
	return 0;
}

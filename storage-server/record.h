/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - the bytes of keys and values; ONDISK.md is the specification
 *
 * Keys are big-endian, values little-endian.  Encoders write a fixed number of
 * bytes; decoders check version, size and fields, and give -EIO for what they
 * do not understand.
 *
 * Threads.  [any], pure.
 */
#ifndef RECORD_H
#define RECORD_H

#include "store.h"

enum {
	KEY_SIZE_MAX = 17 + RF_NAME_MAX,	/* a directory entry's */
	INODE_KEY_SIZE = 9,
	INODE_KEY_MAX = 17,
	NAME_PREFIX_SIZE = 9,		/* kind and directory or inode */
	ENTRY_PREFIX_SIZE = 17,		/* the same and the hash */
	REPLY_KEY_SIZE = 12,
	INODE_RECORD_SIZE = 128,
	ENTRY_RECORD_SIZE = 16,
	VOLUME_RECORD_SIZE = 56,
	COUNTER_RECORD_SIZE = 16,
	TREES_RECORD_SIZE = 8,
	DELETION_RECORD_SIZE = 8,
	EXPORT_RECORD_SIZE = 16,
	BOOT_RECORD_SIZE = 16,
	REPLY_HEADER_SIZE = 8,
	REPLY_OPEN_SIZE = 16,
	REPLY_HEADER_MAX = REPLY_HEADER_SIZE +
			   REPLY_OPENS_MAX * REPLY_OPEN_SIZE,
	CLIENT_RECORD_SIZE = 104,	/* without its two texts */
	CLIENT_RECORD_MAX = CLIENT_RECORD_SIZE + 2 + RF_HOST_MAX +
			    RF_EXPORT_MAX,
	RECORD_VERSION = 1,
};

/* Kinds of family inodes. */
enum inode_kind {
	KIND_ATTRIBUTES = 0,
	KIND_TARGET = 1,
};
enum volume_kind {
	VOLUME_RECORD = 0x01,
	VOLUME_COUNTER = 0x02,
	VOLUME_TREES = 0x03,
	VOLUME_BOOT = 0x04,
	VOLUME_ORPHAN = 0x10,
	VOLUME_DELETION = 0x11,
	VOLUME_EXPORT = 0x12,
	VOLUME_CLIENT = 0x13,
};

enum inode_flags {
	INODE_HAS_CAPS = 1 << 0,	/* security.capability is set */
	/* 1 << 1 and 1 << 2 are kept back: ONDISK.md */
	INODE_HAS_ACL = 1 << 3,		/* system.posix_acl_access */
	INODE_HAS_DEFAULT_ACL = 1 << 4,	/* system.posix_acl_default */
	INODE_IS_LINKABLE = 1 << 5,	/* without a name, and may get one */
	INODE_FLAGS_ALL = INODE_HAS_CAPS | INODE_HAS_ACL |
			  INODE_HAS_DEFAULT_ACL | INODE_IS_LINKABLE,
};

struct inode {
	uint64_t number;		/* not stored: it is the key */
	uint64_t size, blocks, change, rdev;
	uint64_t parent, entries;	/* directories */
	rf_time_t atime, mtime, ctime, btime;
	uint32_t mode, nlink, uid, gid, tree, xattr_size;
	uint8_t flags;
};

struct volume {
	uint8_t uuid[16], hash_key[16], handle_key[16];
};

/* ---- keys: the number of bytes written ----------------------------------- */

void record_store_be64(void *at, uint64_t v);
uint64_t record_load_be64(const void *at);

size_t key_inode(uint8_t *out, uint64_t inode, enum inode_kind kind);
size_t key_volume(uint8_t *out, enum volume_kind kind);
size_t key_orphan(uint8_t *out, uint64_t inode);
size_t key_deletion(uint8_t *out, uint64_t sequence);
size_t key_client(uint8_t *out, uint64_t session);
size_t key_entry(uint8_t *out, uint64_t dir, uint64_t hash,
		 const rf_name_t *name);
size_t key_xattr(uint8_t *out, uint64_t inode, const rf_name_t *name);
size_t key_reply(uint8_t *out, uint64_t session, uint16_t channel,
		 uint16_t slot);

/* ---- values -------------------------------------------------------------- */

void inode_encode(const struct inode *inode, uint8_t out[INODE_RECORD_SIZE]);
int inode_decode(uint64_t number, const void *bytes, size_t size,
		 struct inode *out);

void entry_encode(uint64_t inode, uint32_t mode,
		  uint8_t out[ENTRY_RECORD_SIZE]);
/* type: S_IFMT bits. */
int entry_decode(const void *bytes, size_t size, uint64_t *inode,
		 uint32_t *type);
/* Hash and name of an entry's key. */
int entry_key_decode(const void *key, size_t size, uint64_t *hash,
		     rf_name_t *name);

void volume_encode(const struct volume *volume,
		   uint8_t out[VOLUME_RECORD_SIZE]);
int volume_decode(const void *bytes, size_t size, struct volume *out);

void counter_encode(uint64_t next, bool was_closed,
		    uint8_t out[COUNTER_RECORD_SIZE]);
int counter_decode(const void *bytes, size_t size, uint64_t *next,
		   bool *was_closed);

void export_encode(uint64_t inode, uint32_t tree,
		   uint8_t out[EXPORT_RECORD_SIZE]);
int export_decode(const void *bytes, size_t size, uint64_t *inode,
		  uint32_t *tree);

/* What stands before the answer; the number of bytes. */
size_t reply_record_encode(const struct reply_record *record,
			   uint8_t out[REPLY_HEADER_MAX]);
int reply_record_decode(const void *bytes, size_t size,
			struct reply_record *out, size_t *header_size);

/* The number of bytes. */
size_t client_encode(const struct client_record *client,
		     uint8_t out[CLIENT_RECORD_MAX]);
/* All but the session, which is in the key. */
int client_decode(const void *bytes, size_t size, struct client_record *out);

#endif /* RECORD_H */

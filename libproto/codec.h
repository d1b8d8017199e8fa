/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec.h - messages as bytes; PROTOCOL.md is the specification
 *
 *	message = header, returns, operations
 *	header  = 32 bytes (struct rf_header)
 *	returns = u32 grant ids that the sender is done with
 *	operation = u16 code, u16 status, u32 size, then size bytes:
 *	            arguments in a request, results in an answer (none if status
 *	            is not OK, but for the rearmed slots of WRITE and SETXATTR)
 *
 * Pure logic: no system call, no memory of its own.  Encoders write into a
 * buffer and remember when it was too small; decoders trust no length, and
 * what they give out (names, blobs) points into the message.
 *
 * Threads.  [any]; an encoder or decoder belongs to one thread at a time.
 */
#ifndef RF_CODEC_H
#define RF_CODEC_H

#include "ops.h"
#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RF_PROTOCOL_VERSION = 1,
	RF_DEFAULT_PORT = 20490,
	RF_NAME_MAX = 255,
	RF_TARGET_MAX = 4095,		/* of a symbolic link: PATH_MAX - NUL */
	RF_GROUPS_MAX = 1024,		/* 4 KiB of groups in one message */
	RF_XATTR_SIZE_MAX = 65536,	/* the kernel's limit */
	RF_OPS_MAX = 16,		/* operations in one message */
	RF_RETURNS_MAX = 64,		/* grants returned in one message */
	RF_GRANTS_MAX = 16,		/* grants or pieces in one operation */
	RF_SERVERS_MAX = 1,		/* in a layout; more come with stripes */
	RF_IDENTITIES_MAX = 1024,	/* registered in one session */
	RF_HEADER_SIZE = 32,
	RF_OP_HEADER_SIZE = 8,
	RF_HELLO_SIZE_MAX = 1024,	/* HELLO and its answer */
	RF_INLINE_DEFAULT = 4096,
	RF_MSG_OVERHEAD = 1024,		/* msg_max = inline_max + this: headers
					 * and the largest fixed fields, two
					 * names and two handles with room */
};

/* ---- header -------------------------------------------------------------- */

enum rf_msg_type {
	RF_MSG_HELLO = 1,	/* client's first message */
	RF_MSG_HELLO_REPLY = 2,
	RF_MSG_REQUEST = 3,	/* client, on a slot */
	RF_MSG_REPLY = 4,	/* server, to a REQUEST; frees the slot */
	RF_MSG_QUEUED = 5,	/* server: will be FINISHED later, under ticket;
				 * frees the slot */
	RF_MSG_FINISHED = 6,	/* server message: results of a QUEUED request */
	RF_MSG_RESUME = 7,	/* client's first message instead of HELLO */
	RF_MSG_RESUME_REPLY = 8,
	/* reserved: 9 BIND, 10 BIND_REPLY, 11 RECALL */
};

struct rf_header {
	uint32_t size;		/*  0 whole message */
	uint8_t type;		/*  4 */
	uint8_t flags;		/*  5 must be 0 */
	uint16_t op_count;	/*  6 */
	uint16_t slot;		/*  8 */
	uint16_t channel;	/* 10 must be 0 */
	uint32_t seq;		/* 12 of the slot */
	uint32_t epoch;		/* 16 of the session */
	uint16_t identity;	/* 20 index; REQUEST only */
	uint16_t return_count;	/* 22 */
	uint32_t ack;		/* 24 REQUEST: server messages received so far,
				 *    modulo 2^32 */
	uint32_t ticket;	/* 28 QUEUED, FINISHED */
};

/* ---- field types --------------------------------------------------------- */

typedef uint8_t rf_u8_t;
typedef uint16_t rf_u16_t;
typedef uint32_t rf_u32_t;
typedef uint64_t rf_u64_t;

/* Numbers of which the decoder refuses what is not defined. */
typedef uint8_t rf_flag_t;		/* 0 or 1 */
typedef uint8_t rf_whence_t;		/* 0 data, 1 hole */
typedef uint32_t rf_set_bits_t;		/* RF_SET_* */
typedef uint32_t rf_open_flags_t;	/* RF_OPEN_* */
typedef uint32_t rf_write_flags_t;	/* RF_WRITE_* */
typedef uint32_t rf_falloc_mode_t;	/* RF_FALLOC_* */
typedef uint32_t rf_rename_flags_t;	/* RF_RENAME_* */
typedef uint32_t rf_xattr_flags_t;	/* RF_XATTR_* */
typedef uint32_t rf_lock_flags_t;	/* RF_LOCK_* */

typedef struct rf_time {	/* i64, u32 below 10^9: 12 bytes */
	int64_t seconds;
	uint32_t nanoseconds;
} rf_time_t;

/* A file's name for the wire: stateless, keyed, survives restarts.  20 bytes */
typedef struct rf_handle {
	uint64_t inode;
	uint32_t tree;
	uint64_t tag;
} rf_handle_t;

enum {	/* attr flags */
	RF_ATTR_HAS_ACL = 1 << 0,	/* access or default */
};

typedef struct rf_attr {	/* 120 bytes, in this order */
	uint64_t inode;
	uint64_t change;	/* grows with every change of data or attributes */
	uint64_t size;
	uint64_t blocks;	/* of 512 bytes, allocated */
	rf_time_t atime, mtime, ctime, btime;
	uint32_t mode;		/* type and permissions, as in stat(2) */
	uint32_t nlink;
	uint32_t uid, gid;
	uint64_t rdev;		/* major << 32 | minor */
	uint32_t tree;
	uint32_t block_size;	/* preferred I/O size */
	uint32_t flags;		/* RF_ATTR_* */
	uint32_t reserved;	/* 0 */
} rf_attr_t;

/* u16 size, bytes.  1 to 255, no '/' and no NUL, neither "." nor ".." */
typedef struct rf_name {
	const char *bytes;	/* not ended by NUL */
	uint16_t size;
} rf_name_t;

/* Of an extended attribute: 1 to 255, no NUL; '/' and "." are allowed. */
typedef struct rf_name rf_xname_t;

typedef struct rf_blob {	/* u32 size, bytes */
	const void *bytes;
	uint32_t size;
} rf_blob_t;

/* Of a symbolic link: 1 to RF_TARGET_MAX, no NUL. */
typedef struct rf_blob rf_target_t;

/* u32 each, at most RF_GROUPS_MAX; see rf_blob_u32(). */
typedef struct rf_blob rf_u32s_t;

/* A right on the sender's memory: to READ from, or (a slot) to WRITE to. */
struct rf_grant {		/* 24 bytes */
	uint32_t id;
	uint32_t rkey;
	uint64_t addr;
	uint32_t size;
	uint32_t crc;		/* CRC32C of the data; 0 for a slot */
};
typedef struct rf_grants {	/* u16 count, then each */
	uint16_t count;
	struct rf_grant v[RF_GRANTS_MAX];
} rf_grants_t;

struct rf_piece {		/* 12 bytes: size bytes at the slot's start */
	uint32_t slot;		/* the grant's id */
	uint32_t size;
	uint32_t crc;
};
typedef struct rf_pieces {
	uint16_t count;
	struct rf_piece v[RF_GRANTS_MAX];
} rf_pieces_t;

typedef struct rf_layout {	/* u32 stripe, u16 count, u16 index each */
	uint32_t stripe_size;	/* 0: not striped */
	uint16_t server_count;
	uint16_t servers[RF_SERVERS_MAX];
} rf_layout_t;

/* ---- operations ---------------------------------------------------------- */

enum rf_op_code {
#define RF_OP_MEMBER(NAME, lower, code) RF_OP_##NAME = (code),
	RF_OPS(RF_OP_MEMBER)
#undef RF_OP_MEMBER
};

/* struct rf_lookup_args, struct rf_lookup_results, and so on. */
#define RF_FIELD(type, name) rf_##type##_t name;
#define RF_OP_STRUCTS(NAME, lower, code) \
	struct rf_##lower##_args { RF_##NAME##_ARGS(RF_FIELD) }; \
	struct rf_##lower##_results { RF_##NAME##_RESULTS(RF_FIELD) };
RF_OPS(RF_OP_STRUCTS)
#undef RF_OP_STRUCTS
#undef RF_FIELD

struct rf_args {
	enum rf_op_code code;
	union {
#define RF_OP_ARGS(NAME, lower, code) struct rf_##lower##_args lower;
	RF_OPS(RF_OP_ARGS)
#undef RF_OP_ARGS
	};
};

struct rf_results {
	enum rf_op_code code;
	unsigned int status;	/* enum rf_status or a number we do not know */
	union {
#define RF_OP_RESULTS(NAME, lower, code) struct rf_##lower##_results lower;
	RF_OPS(RF_OP_RESULTS)
#undef RF_OP_RESULTS
	};
};

/* ---- encoding ------------------------------------------------------------ */

struct rf_enc {
	uint8_t *base;
	uint32_t size;		/* of the buffer */
	uint32_t used;
	bool overflowed;	/* what was put did not fit; used is not beyond
				 * size */
	uint16_t op_count;
	uint16_t return_count;
};

/* Begin a message: room for the header is left, the rest is empty. */
void rf_enc_init(struct rf_enc *enc, void *buffer, size_t size);

/* Before the first operation. */
void rf_enc_return(struct rf_enc *enc, uint32_t grant_id);

/*
 * Append one operation; args->code says which.  What a decoder would refuse (a
 * bad name, an unknown bit, too many grants) is the caller's bug and aborts:
 * check what comes from users before.
 *
 * Results whose status is not OK are that status alone, of any code; WRITE and
 * SETXATTR also carry rearmed then, so zero the structure.  To take operations
 * back, keep a copy of *enc and restore it.
 */
void rf_enc_args(struct rf_enc *enc, const struct rf_args *args);
void rf_enc_results(struct rf_enc *enc, const struct rf_results *results);

/* True for what a field of type name (xname) may hold. */
bool rf_name_is_valid(const char *bytes, size_t size);
bool rf_xname_is_valid(const char *bytes, size_t size);

/*
 * Fill size, op_count and return_count of header and write it.  The rest of
 * header is the caller's.  Returns the message's size, or -EMSGSIZE.
 */
int rf_enc_finish(struct rf_enc *enc, struct rf_header *header);

/* Overwrite the header's fields of a finished message, e.g. slot and seq. */
void rf_header_store(void *message, const struct rf_header *header);

/* ---- decoding ------------------------------------------------------------ */

/*
 * The header alone, of any type: -EBADMSG if size is not the message's, or
 * counts, flags or channel are not allowed.
 */
int rf_header_load(const void *message, size_t size, struct rf_header *out);

struct rf_dec {
	const uint8_t *base;
	uint32_t size;
	uint32_t at;
	uint16_t ops_left;
	struct rf_header header;
	const uint8_t *returns;	/* header.return_count u32 */
};

/*
 * Check the header and the outline of a received message (all sizes add up,
 * counts within limits, type REQUEST to FINISHED; hello.h has the first two).
 * -EBADMSG: malformed.
 */
int rf_dec_init(struct rf_dec *dec, const void *message, size_t size);

uint32_t rf_dec_return(const struct rf_dec *dec, unsigned int index);

/*
 * The next operation: 1, 0 if there is none, -EBADMSG if it is malformed (bad
 * length, name, count, flag bits, bytes left over), -EOPNOTSUPP for an unknown
 * code (args->code or results->code and status hold it, and decoding may go
 * on).  A status that we do not know is no error.
 */
int rf_dec_args(struct rf_dec *dec, struct rf_args *args);
int rf_dec_results(struct rf_dec *dec, struct rf_results *results);

/* "LOOKUP", for logs; "?" for an unknown code. */
const char *rf_op_name(unsigned int code);

/* True if the operation changes the file system or the session's opens. */
bool rf_op_modifies(unsigned int code);

/* ---- what READDIR carries ------------------------------------------------ */

struct rf_dirent {
	uint64_t cookie;	/* READDIR goes on after this entry */
	uint64_t inode;
	uint32_t type;		/* S_IFMT bits */
	rf_name_t name;		/* here "." and ".." are allowed */
	bool has_attr;
	rf_handle_t handle;	/* if has_attr */
	rf_attr_t attr;
};

/*
 * Append an entry: its size, or -ENOSPC (nothing written).  A cookie is 1 to
 * 2^63 - 1, for 0 means the start and file offsets are signed.
 */
int rf_dirent_encode(void *at, size_t room, const struct rf_dirent *entry);

/* The size that the entry will have: for a sum before encoding. */
size_t rf_dirent_size(const struct rf_dirent *entry);

/* Decode one: its size, 0 at the end of the data, -EBADMSG. */
int rf_dirent_decode(const void *at, size_t size, struct rf_dirent *entry);

/* ---- what LOCK_EVENTS carries -------------------------------------------- */

enum {
	RF_LOCK_EVENT_SIZE = 10,
	RF_LOCK_EVENTS_MAX = 32,	/* in one answer */
};

struct rf_lock_event {
	uint64_t wait;
	uint16_t status;	/* enum rf_status */
};

void rf_lock_event_encode(void *at, const struct rf_lock_event *event);
/* Number index of the blob; false: there are not as many. */
bool rf_lock_event_decode(const rf_blob_t *events, unsigned int index,
			  struct rf_lock_event *out);

/* Little-endian u32 number index of a blob of them (groups, slot ids). */
uint32_t rf_blob_u32(const rf_blob_t *blob, unsigned int index);

#endif /* RF_CODEC_H */

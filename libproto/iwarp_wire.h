/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iwarp_wire.h - MPA, DDP and RDMAP as bytes
 *
 * Sources: RFC 5044 (MPA), RFC 6581 (MPA revision 2), RFC 5041 (DDP), RFC 5040
 * (RDMAP).  An FPDU, and where its parts come from:
 *
 *	0	ULPDU length, 16 bits: what follows, without pad and CRC   MPA
 *	2	T L . . . . version(2)                                     DDP
 *	3	version(2) . . opcode(4)                                   RDMAP
 *	  tagged:   4 STag(4), 8 TO(8), 16 payload
 *	  untagged: 4 STag to invalidate(4), 8 QN(4), 12 MSN(4), 16 MO(4),
 *	            20 payload
 *	then 0 to 3 bytes of pad, to a multiple of four, and CRC32C(4), the only
 *	little-endian field.  No markers.
 */
#ifndef RF_IWARP_WIRE_H
#define RF_IWARP_WIRE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
	IW_LENGTH_SIZE = 2,
	IW_TAGGED_SIZE = 14,		/* DDP and RDMAP header */
	IW_UNTAGGED_SIZE = 18,
	IW_READ_REQUEST_SIZE = 28,	/* payload of a Read Request */
	IW_CRC_SIZE = 4,
	IW_PAD_MAX = 3,
	IW_HEAD_MAX = IW_LENGTH_SIZE + IW_UNTAGGED_SIZE,
	IW_TAIL_MAX = IW_PAD_MAX + IW_CRC_SIZE,

	/* A Terminate: control(4), segment length(2), the headers it blames. */
	IW_TERMINATE_MAX = 4 + 2 + IW_UNTAGGED_SIZE + IW_READ_REQUEST_SIZE,
	/* The longest segment that must be whole before it is understood. */
	IW_CONTROL_MAX = IW_HEAD_MAX + IW_TERMINATE_MAX + IW_TAIL_MAX,
	IW_FPDU_MAX = IW_LENGTH_SIZE + 65535 + IW_TAIL_MAX,
};

enum iw_opcode {
	IW_WRITE = 0,
	IW_READ_REQUEST = 1,
	IW_READ_RESPONSE = 2,
	IW_SEND = 3,
	IW_SEND_INV = 4,
	IW_SEND_SE = 5,
	IW_SEND_SE_INV = 6,
	IW_TERMINATE = 7,
};

enum iw_queue {
	IW_QUEUE_SEND = 0,
	IW_QUEUE_READ_REQUEST = 1,
	IW_QUEUE_TERMINATE = 2,
};

enum {
	IW_DDP_TAGGED = 0x80,
	IW_DDP_LAST = 0x40,
	IW_DDP_VERSION_MASK = 0x03,
	IW_DDP_VERSION = 0x01,
	IW_RDMAP_VERSION_MASK = 0xc0,
	IW_RDMAP_VERSION = 0x40,
	IW_RDMAP_OPCODE_MASK = 0x0f,
};

/* Terminate codes as layer(4) type(4) code(8); 0 means no error here. */
#define IW_ERROR(layer, type, code) ((layer) << 12 | (type) << 8 | (code))
enum iw_error {
	IW_OK = 0,
	/* RFC 5040 section 4.8 */
	IW_RDMAP_STAG = IW_ERROR(0, 1, 0x00),
	IW_RDMAP_BOUNDS = IW_ERROR(0, 1, 0x01),
	IW_RDMAP_ACCESS = IW_ERROR(0, 1, 0x02),
	IW_RDMAP_STREAM = IW_ERROR(0, 1, 0x03),
	IW_RDMAP_WRAP = IW_ERROR(0, 1, 0x04),
	IW_RDMAP_INVALIDATE = IW_ERROR(0, 1, 0x09),
	IW_RDMAP_PROTECTION = IW_ERROR(0, 1, 0xff),	/* unspecified */
	IW_RDMAP_BAD_VERSION = IW_ERROR(0, 2, 0x05),
	IW_RDMAP_BAD_OPCODE = IW_ERROR(0, 2, 0x06),
	IW_RDMAP_INVALIDATE_OP = IW_ERROR(0, 2, 0x09),
	IW_RDMAP_UNSPECIFIED = IW_ERROR(0, 2, 0xff),
	/* RFC 5041 section 8.2 */
	IW_DDP_STAG = IW_ERROR(1, 1, 0x00),
	IW_DDP_BOUNDS = IW_ERROR(1, 1, 0x01),
	IW_DDP_STREAM = IW_ERROR(1, 1, 0x02),
	IW_DDP_WRAP = IW_ERROR(1, 1, 0x03),
	IW_DDP_TAGGED_VERSION = IW_ERROR(1, 1, 0x04),
	IW_DDP_BAD_QUEUE = IW_ERROR(1, 2, 0x01),
	IW_DDP_NO_BUFFER = IW_ERROR(1, 2, 0x02),
	IW_DDP_BAD_MSN = IW_ERROR(1, 2, 0x03),
	IW_DDP_BAD_OFFSET = IW_ERROR(1, 2, 0x04),
	IW_DDP_TOO_LONG = IW_ERROR(1, 2, 0x05),
	IW_DDP_UNTAGGED_VERSION = IW_ERROR(1, 2, 0x06),
	/* RFC 5044 section 8, RFC 6581 section 10 */
	IW_MPA_BAD_CRC = IW_ERROR(2, 0, 0x02),
	IW_MPA_BAD_LENGTH = IW_ERROR(2, 0, 0x03),
	IW_MPA_FEW_READS = IW_ERROR(2, 0, 0x06),
};

static inline void iw_store_be16(void *at, uint16_t v)
{
	v = htobe16(v);
	memcpy(at, &v, sizeof(v));
}

static inline void iw_store_be32(void *at, uint32_t v)
{
	v = htobe32(v);
	memcpy(at, &v, sizeof(v));
}

static inline void iw_store_be64(void *at, uint64_t v)
{
	v = htobe64(v);
	memcpy(at, &v, sizeof(v));
}

static inline uint16_t iw_load_be16(const void *at)
{
	uint16_t v;

	memcpy(&v, at, sizeof(v));
	return be16toh(v);
}

static inline uint32_t iw_load_be32(const void *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return be32toh(v);
}

static inline uint64_t iw_load_be64(const void *at)
{
	uint64_t v;

	memcpy(&v, at, sizeof(v));
	return be64toh(v);
}

/* Bytes between the ULPDU and the CRC. */
static inline uint32_t iw_pad_size(uint32_t ulpdu_size)
{
	return (4 - ((IW_LENGTH_SIZE + ulpdu_size) & 3)) & 3;
}

/* The headers of one segment, length included. */
struct iw_head {
	uint16_t ulpdu_size;
	bool is_tagged, is_last;
	uint8_t opcode;
	uint8_t size;		/* of the encoded headers */
	uint32_t payload;	/* bytes behind them */
	uint32_t stag;		/* tagged: where to; untagged: to invalidate */
	uint64_t offset;	/* TO or MO */
	uint32_t queue, msn;	/* untagged */
};

/* Writes head->size bytes; takes size and ulpdu_size from the rest. */
void iw_head_encode(struct iw_head *head, uint8_t *out);

/*
 * Decode in[0..have).  Returns 1 if done, 0 if more bytes are needed, or a
 * negative iw_error; head is then filled as far as in went.
 */
int iw_head_decode(struct iw_head *head, const uint8_t *in, size_t have);

/* What a Read Request asks for. */
struct iw_read_request {
	uint32_t sink_stag;
	uint64_t sink_offset;
	uint32_t size;
	uint32_t source_stag;
	uint64_t source_offset;
};
void iw_read_request_encode(const struct iw_read_request *req, uint8_t *out);
void iw_read_request_decode(struct iw_read_request *req, const uint8_t *in);

/* ---- connection set-up ------------------------------------------------- */

enum {
	IW_MPA_HEAD_SIZE = 20,	/* key(16) flags(1) revision(1) size(2) */
	IW_MPA_DEPTHS_SIZE = 4,		/* revision 2: IRD and ORD come first */
	IW_MPA_PRIVATE_MAX = 512,
	IW_MPA_FRAME_MAX = IW_MPA_HEAD_SIZE + IW_MPA_PRIVATE_MAX,
	IW_MPA_DEPTH_MAX = 0x3ffe,	/* 0x3fff: not negotiated */
	IW_MPA_DEPTH_UNSET = 0x3fff,

	IW_MPA_MARKERS = 0x80,
	IW_MPA_CRC = 0x40,
	IW_MPA_REJECT = 0x20,
	IW_MPA_ENHANCED = 0x10,
};

/* How a peer-to-peer initiator may announce its first message (RFC 6581). */
enum {
	IW_RTR_PEER = 0x1,
	IW_RTR_EMPTY = 0x2,		/* an FPDU of no bytes */
	IW_RTR_WRITE = 0x4,		/* a Write of no bytes */
	IW_RTR_READ = 0x8,		/* a Read of no bytes */
};

struct iw_mpa {
	bool is_reply;
	bool wants_markers, wants_crc, is_rejected;
	bool is_enhanced;	/* depths are present */
	uint8_t revision;
	uint8_t rtr;
	uint16_t ird, ord;
	const void *hello;
	size_t hello_size;
};

/* Returns the size of the frame; out has room for IW_MPA_FRAME_MAX. */
size_t iw_mpa_encode(const struct iw_mpa *mpa, uint8_t *out);

/*
 * Decode a request or a reply from in[0..have).  Returns its size when it is
 * whole, 0 while more bytes are needed, -EPROTO as soon as it cannot become
 * one.  hello points into in.
 */
int iw_mpa_decode(struct iw_mpa *mpa, bool is_reply, const uint8_t *in,
		  size_t have);

/* How many bytes the frame that begins with in[0..have) still lacks. */
size_t iw_mpa_missing(const uint8_t *in, size_t have);

#endif /* RF_IWARP_WIRE_H */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iwarp_peer.h - a peer that speaks iWARP on plain sockets, for tests
 *
 * It shares no line with the fabric: its own encoder, decoder and checksum,
 * written from the RFCs, and able to say anything wrong.  Nothing blocks: while
 * it waits, it calls peer_idle(), which runs the fabric under test.
 */
#ifndef TESTS_COMMON_IWARP_PEER_H
#define TESTS_COMMON_IWARP_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
	PEER_ULPDU_MAX = 65535,
	PEER_FRAME_MAX = 65536 + 8,
	PEER_PATIENCE_MS = 20000,

	/* DDP control and RDMAP control with their versions */
	PEER_TAGGED = 0x81,
	PEER_UNTAGGED = 0x01,
	PEER_LAST = 0x40,
	PEER_WRITE = 0x40,
	PEER_READ_REQUEST,
	PEER_READ_RESPONSE,
	PEER_SEND,
	PEER_SEND_INV,
	PEER_SEND_SE,
	PEER_SEND_SE_INV,
	PEER_TERMINATE,
};

struct peer {
	int fd;
	bool uses_crc;
	bool dribbles;		/* sends single bytes */
	uint32_t send_msn, read_msn;	/* next of ours */
	void (*idle)(void *context);
	void *context;
};

/* What came: one ULPDU, taken apart. */
struct peer_segment {
	uint16_t size;		/* of the ULPDU */
	bool is_tagged, is_last, crc_is_right;
	uint8_t opcode;		/* as in PEER_WRITE and so on */
	uint32_t stag, queue, msn;
	uint64_t offset;
	uint8_t *payload;
	size_t payload_size;
	uint8_t raw[PEER_FRAME_MAX];
};

/* ---- sockets ----------------------------------------------------------- */

void peer_init(struct peer *peer, void (*idle)(void *context), void *context);
void peer_connect(struct peer *peer, const struct sockaddr_storage *addr);
/* Accept one connection of a listening socket. */
void peer_accept(struct peer *peer, int listener);
void peer_close(struct peer *peer);
void peer_send_bytes(struct peer *peer, const void *data, size_t size);
/* Wait for size bytes; returns fewer at the end of the stream. */
size_t peer_recv_bytes(struct peer *peer, void *data, size_t size);
/* True if the stream has ended, with FIN or RST; waits for it. */
bool peer_sees_end(struct peer *peer);

/* ---- MPA --------------------------------------------------------------- */

struct peer_mpa {
	uint8_t flags, revision;	/* 0x80 markers, 0x40 CRC, 0x20 reject,
					 * 0x10 enhanced */
	uint16_t private_size;
	uint8_t private[512];
};
void peer_mpa_send(struct peer *peer, bool is_reply,
		   const struct peer_mpa *mpa);
bool peer_mpa_recv(struct peer *peer, bool is_reply, struct peer_mpa *mpa);

/* Ask as revision 2 with depths, and take the answer; CRC on. */
void peer_join(struct peer *peer, uint16_t ird, uint16_t ord);

/* ---- segments ---------------------------------------------------------- */

/* One FPDU around any ULPDU. */
size_t peer_frame(const struct peer *peer, uint8_t *out, const void *ulpdu,
		  size_t size);
size_t peer_tagged(const struct peer *peer, uint8_t *out, uint8_t ddp,
		   uint8_t rdmap, uint32_t stag, uint64_t offset,
		   const void *payload, size_t size);
size_t peer_untagged(const struct peer *peer, uint8_t *out, uint8_t ddp,
		     uint8_t rdmap, uint32_t stag, uint32_t queue, uint32_t msn,
		     uint32_t offset, const void *payload, size_t size);

/* Whole messages of one segment. */
void peer_send(struct peer *peer, const void *data, size_t size);
void peer_send_inv(struct peer *peer, uint32_t stag, const void *data,
		   size_t size);
void peer_write(struct peer *peer, uint32_t stag, uint64_t offset,
		const void *data, size_t size);
void peer_read(struct peer *peer, uint32_t sink, uint64_t sink_offset,
	       uint32_t size, uint32_t stag, uint64_t offset);

/* Wait for a segment; false at the end of the stream. */
bool peer_recv(struct peer *peer, struct peer_segment *out);

uint16_t peer_load16(const uint8_t *at);
uint32_t peer_load32(const uint8_t *at);
uint64_t peer_load64(const uint8_t *at);
void peer_store16(uint8_t *at, uint16_t v);
void peer_store32(uint8_t *at, uint32_t v);
void peer_store64(uint8_t *at, uint64_t v);
uint32_t peer_crc(const uint8_t *data, size_t size);

#endif /* TESTS_COMMON_IWARP_PEER_H */

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/common/iwarp_peer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- bytes ------------------------------------------------------------- */

uint16_t peer_load16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

uint32_t peer_load32(const uint8_t *at)
{
	return (uint32_t)peer_load16(at) << 16 | peer_load16(at + 2);
}

uint64_t peer_load64(const uint8_t *at)
{
	return (uint64_t)peer_load32(at) << 32 | peer_load32(at + 4);
}

void peer_store16(uint8_t *at, uint16_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

void peer_store32(uint8_t *at, uint32_t v)
{
	peer_store16(at, (uint16_t)(v >> 16));
	peer_store16(at + 2, (uint16_t)v);
}

void peer_store64(uint8_t *at, uint64_t v)
{
	peer_store32(at, (uint32_t)(v >> 32));
	peer_store32(at + 4, (uint32_t)v);
}

/* Bit by bit, as the polynomial says: slow, and nobody's library. */
uint32_t peer_crc(const uint8_t *data, size_t size)
{
	uint32_t crc = 0xffffffff;

	for (size_t i = 0; i < size; i++) {
		crc ^= data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
	}
	return ~crc;
}

/* ---- sockets ----------------------------------------------------------- */

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void be_patient(struct peer *peer, uint64_t since_ms, const char *what)
{
	cr_assert(now_ms() - since_ms < PEER_PATIENCE_MS, "waited in vain: %s",
		  what);
	peer->idle(peer->context);
}

void peer_init(struct peer *peer, void (*idle)(void *context), void *context)
{
	*peer = (struct peer){
		.fd = -1, .uses_crc = true, .send_msn = 1, .read_msn = 1,
		.idle = idle, .context = context,
	};
}

static void adopt(struct peer *peer, int fd)
{
	int one = 1;

	cr_assert_geq(fd, 0, "socket: %s", strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	peer->fd = fd;
}

void peer_connect(struct peer *peer, const struct sockaddr_storage *addr)
{
	int fd = socket(addr->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(connect(fd, (const struct sockaddr *)addr,
			     sizeof(*addr)), 0, "%s", strerror(errno));
	adopt(peer, fd);
}

void peer_accept(struct peer *peer, int listener)
{
	uint64_t since_ms = now_ms();
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0 &&
	       errno == EAGAIN)
		be_patient(peer, since_ms, "a connection");
	adopt(peer, fd);
}

void peer_close(struct peer *peer)
{
	if (peer->fd >= 0)
		close(peer->fd);
	peer->fd = -1;
}

void peer_send_bytes(struct peer *peer, const void *data, size_t size)
{
	const uint8_t *at = data;
	uint64_t since_ms = now_ms();

	while (size) {
		ssize_t n = send(peer->fd, at, peer->dribbles ? 1 : size,
				 MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			return;		/* refused already; the test will see */
		if (n > 0) {
			at += n;
			size -= (size_t)n;
		}
		if (n < 0 || peer->dribbles)
			be_patient(peer, since_ms, "room to send");
	}
}

size_t peer_recv_bytes(struct peer *peer, void *data, size_t size)
{
	uint64_t since_ms = now_ms();
	size_t have = 0;

	while (have < size) {
		ssize_t n = recv(peer->fd, (uint8_t *)data + have, size - have,
				 0);

		if (n == 0 || (n < 0 && errno != EAGAIN))
			break;
		if (n > 0)
			have += (size_t)n;
		else
			be_patient(peer, since_ms, "bytes");
	}
	return have;
}

bool peer_sees_end(struct peer *peer)
{
	uint8_t byte;

	return peer_recv_bytes(peer, &byte, 1) == 0;
}

/* ---- MPA --------------------------------------------------------------- */

static const char *mpa_key(bool is_reply)
{
	return is_reply ? "MPA ID Rep Frame" : "MPA ID Req Frame";
}

void peer_mpa_send(struct peer *peer, bool is_reply, const struct peer_mpa *mpa)
{
	uint8_t frame[20 + 512];

	memcpy(frame, mpa_key(is_reply), 16);
	frame[16] = mpa->flags;
	frame[17] = mpa->revision;
	peer_store16(frame + 18, mpa->private_size);
	memcpy(frame + 20, mpa->private, mpa->private_size);
	peer_send_bytes(peer, frame, 20 + (size_t)mpa->private_size);
}

bool peer_mpa_recv(struct peer *peer, bool is_reply, struct peer_mpa *mpa)
{
	uint8_t head[20];

	if (peer_recv_bytes(peer, head, sizeof(head)) != sizeof(head))
		return false;
	cr_assert(memcmp(head, mpa_key(is_reply), 16) == 0);
	mpa->flags = head[16];
	mpa->revision = head[17];
	mpa->private_size = peer_load16(head + 18);
	cr_assert_leq(mpa->private_size, sizeof(mpa->private));
	return peer_recv_bytes(peer, mpa->private, mpa->private_size) ==
	       mpa->private_size;
}

void peer_join(struct peer *peer, uint16_t ird, uint16_t ord)
{
	struct peer_mpa mpa = { .flags = 0x50, .revision = 2,
				.private_size = 4 };

	peer_store16(mpa.private, ird);
	peer_store16(mpa.private + 2, ord);
	peer_mpa_send(peer, false, &mpa);
	cr_assert(peer_mpa_recv(peer, true, &mpa));
	cr_assert_eq(mpa.flags, 0x50);
	cr_assert_eq(mpa.revision, 2);
}

/* ---- segments ---------------------------------------------------------- */

static size_t pad_of(size_t ulpdu_size)
{
	return (4 - (2 + ulpdu_size) % 4) % 4;
}

size_t peer_frame(const struct peer *peer, uint8_t *out, const void *ulpdu,
		  size_t size)
{
	size_t whole = 2 + size + pad_of(size);
	uint32_t crc;

	peer_store16(out, (uint16_t)size);
	memcpy(out + 2, ulpdu, size);
	memset(out + 2 + size, 0, pad_of(size));
	crc = peer->uses_crc ? peer_crc(out, whole) : 0;
	for (int i = 0; i < 4; i++)
		out[whole + (size_t)i] = (uint8_t)(crc >> 8 * i);
	return whole + 4;
}

size_t peer_tagged(const struct peer *peer, uint8_t *out, uint8_t ddp,
		   uint8_t rdmap, uint32_t stag, uint64_t offset,
		   const void *payload, size_t size)
{
	uint8_t ulpdu[PEER_ULPDU_MAX] = { ddp, rdmap };

	peer_store32(ulpdu + 2, stag);
	peer_store64(ulpdu + 6, offset);
	if (size)
		memcpy(ulpdu + 14, payload, size);
	return peer_frame(peer, out, ulpdu, 14 + size);
}

size_t peer_untagged(const struct peer *peer, uint8_t *out, uint8_t ddp,
		     uint8_t rdmap, uint32_t stag, uint32_t queue, uint32_t msn,
		     uint32_t offset, const void *payload, size_t size)
{
	uint8_t ulpdu[PEER_ULPDU_MAX] = { ddp, rdmap };

	peer_store32(ulpdu + 2, stag);
	peer_store32(ulpdu + 6, queue);
	peer_store32(ulpdu + 10, msn);
	peer_store32(ulpdu + 14, offset);
	if (size)
		memcpy(ulpdu + 18, payload, size);
	return peer_frame(peer, out, ulpdu, 18 + size);
}

void peer_send(struct peer *peer, const void *data, size_t size)
{
	uint8_t frame[PEER_FRAME_MAX];

	peer_send_bytes(peer, frame,
			peer_untagged(peer, frame, PEER_UNTAGGED | PEER_LAST,
				      PEER_SEND, 0, 0, peer->send_msn++, 0,
				      data, size));
}

void peer_send_inv(struct peer *peer, uint32_t stag, const void *data,
		   size_t size)
{
	uint8_t frame[PEER_FRAME_MAX];

	peer_send_bytes(peer, frame,
			peer_untagged(peer, frame, PEER_UNTAGGED | PEER_LAST,
				      PEER_SEND_INV, stag, 0, peer->send_msn++,
				      0, data, size));
}

void peer_write(struct peer *peer, uint32_t stag, uint64_t offset,
		const void *data, size_t size)
{
	uint8_t frame[PEER_FRAME_MAX];

	peer_send_bytes(peer, frame,
			peer_tagged(peer, frame, PEER_TAGGED | PEER_LAST,
				    PEER_WRITE, stag, offset, data, size));
}

void peer_read(struct peer *peer, uint32_t sink, uint64_t sink_offset,
	       uint32_t size, uint32_t stag, uint64_t offset)
{
	uint8_t frame[PEER_FRAME_MAX], body[28];

	peer_store32(body, sink);
	peer_store64(body + 4, sink_offset);
	peer_store32(body + 12, size);
	peer_store32(body + 16, stag);
	peer_store64(body + 20, offset);
	peer_send_bytes(peer, frame,
			peer_untagged(peer, frame, PEER_UNTAGGED | PEER_LAST,
				      PEER_READ_REQUEST, 0, 1, peer->read_msn++,
				      0, body, sizeof(body)));
}

static void take_apart(const struct peer *peer, struct peer_segment *out)
{
	uint8_t *ulpdu = out->raw + 2;
	size_t head_size, whole = 2 + out->size + pad_of(out->size);
	uint32_t crc = 0;

	for (int i = 3; i >= 0; i--)
		crc = crc << 8 | out->raw[whole + (size_t)i];
	out->crc_is_right = !peer->uses_crc ||
			    crc == peer_crc(out->raw, whole);
	out->is_tagged = ulpdu[0] & 0x80;
	out->is_last = ulpdu[0] & 0x40;
	cr_assert_eq(ulpdu[0] & 0x3f, 0x01);
	out->opcode = ulpdu[1];
	head_size = out->is_tagged ? 14 : 18;
	cr_assert_geq(out->size, head_size);
	out->stag = peer_load32(ulpdu + 2);
	if (out->is_tagged) {
		out->offset = peer_load64(ulpdu + 6);
	} else {
		out->queue = peer_load32(ulpdu + 6);
		out->msn = peer_load32(ulpdu + 10);
		out->offset = peer_load32(ulpdu + 14);
	}
	out->payload = ulpdu + head_size;
	out->payload_size = out->size - head_size;
}

bool peer_recv(struct peer *peer, struct peer_segment *out)
{
	size_t rest, got;

	got = peer_recv_bytes(peer, out->raw, 2);
	if (got == 0)
		return false;
	cr_assert_eq(got, 2);
	out->size = peer_load16(out->raw);
	rest = out->size + pad_of(out->size) + 4;
	cr_assert_eq(peer_recv_bytes(peer, out->raw + 2, rest), rest);
	take_apart(peer, out);
	cr_assert(out->crc_is_right);
	return true;
}

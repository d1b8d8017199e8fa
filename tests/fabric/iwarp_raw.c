/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iwarp_raw.c - the iWARP fabric against a peer that is not it
 *
 * The peer of tests/common/iwarp_peer.h takes real keys from a real connection
 * and misuses them, and sends what the RFCs forbid: each time it must be told
 * so by a Terminate with the right code, the connection must end, and no byte
 * may have changed.
 */
#include "tests/common/iwarp_site.h"

#include <errno.h>

/* ---- rights ------------------------------------------------------------ */

static const uint8_t junk[256] = { 0xde, 0xad };
enum { SINK = 0x4711 };

static void refused_write(struct site *site, struct peer *peer, uint32_t key,
			  uint64_t addr, size_t size, uint32_t code)
{
	peer_write(peer, key, addr, junk, size);
	peer_expect_refusal(peer, &site->guests[0], code, -EACCES);
	site_is_unchanged(site);
	site_end(site, peer);
}

static void refused_read(struct site *site, struct peer *peer, uint32_t key,
			 uint64_t addr, uint32_t size, uint32_t code)
{
	peer_read(peer, SINK, 0, size, key, addr);
	peer_expect_refusal(peer, &site->guests[0], code, -EACCES);
	site_is_unchanged(site);
	site_end(site, peer);
}

Test(iwarp_raw, a_lent_window_can_be_written_and_read, .timeout = 90)
{
	struct site site;
	struct peer peer;
	struct rf_remote remote = site_lent(&site, &peer, BOTH_RIGHTS);
	struct peer_segment segment;

	peer_write(&peer, remote.rkey, remote.addr + 100, junk, sizeof(junk));
	peer_read(&peer, SINK, 0x123456789abc, 300, remote.rkey,
		  remote.addr + 90);
	cr_assert(peer_recv(&peer, &segment));
	cr_assert_eq(segment.opcode, PEER_READ_RESPONSE);
	cr_assert(segment.is_tagged && segment.is_last);
	cr_assert_eq(segment.stag, SINK);
	cr_assert_eq(segment.offset, 0x123456789abc);
	cr_assert_eq(segment.payload_size, 300);
	cr_assert(memcmp(segment.payload + 10, junk, sizeof(junk)) == 0);
	cr_assert(memcmp(segment.payload, site.before + LENT + 90, 10) == 0);
	memcpy(site.before + LENT + 100, junk, sizeof(junk));
	site_is_unchanged(&site);
	site_end(&site, &peer);
}

Test(iwarp_raw, a_key_is_dead_after_unbind, .timeout = 90)
{
	for (int is_read = 0; is_read < 2; is_read++) {
		struct site site;
		struct peer peer;
		struct rf_remote remote = site_lent(&site, &peer, BOTH_RIGHTS);

		site_unbind(&site, &site.guests[0]);
		if (is_read)
			refused_read(&site, &peer, remote.rkey, remote.addr, 8,
				     0x0100);
		else
			refused_write(&site, &peer, remote.rkey, remote.addr,
				      8, 0x1100);
	}
}

Test(iwarp_raw, a_key_is_dead_after_its_return, .timeout = 90)
{
	struct site site;
	struct peer peer;
	struct rf_remote remote = site_lent(&site, &peer, BOTH_RIGHTS);
	struct guest *guest = &site.guests[0];

	peer_send_inv(&peer, remote.rkey, "back", 4);
	site_until(&site, guest->recvs[1].done);
	cr_assert_eq(guest->recvs[1].status, 0);
	cr_assert_eq(guest->recvs[1].inv_key, remote.rkey);
	cr_assert(!rf_window_is_bound(site.window));
	/* Lent again: another key, and the old one stays dead. */
	site_lend(&site, guest, LENT_SIZE, BOTH_RIGHTS);
	cr_assert_neq(peer_learn_key(&peer).rkey, remote.rkey);
	peer_write(&peer, remote.rkey, remote.addr, junk, 8);
	cr_assert_eq(peer_terminate_code(&peer), 0x1100);
	site_is_unchanged(&site);
	site_end(&site, &peer);
}

Test(iwarp_raw, bounds_hold_to_the_byte, .timeout = 90)
{
	static const struct {
		int64_t begin;	/* from the window's begin */
		uint32_t size, code;
	} cases[] = {
		{ -1, 8, 1 },			/* one byte before */
		{ -LENT, 8, 1 },		/* elsewhere in the region */
		{ LENT_SIZE, 1, 1 },		/* right behind */
		{ LENT_SIZE - 7, 8, 1 },	/* one byte over the end */
		{ 1 << 30, 8, 1 },
	};
	for (size_t i = 0; i < 2 * RF_ARRAY_SIZE(cases); i++) {
		struct site site;
		struct peer peer;
		struct rf_remote remote = site_lent(&site, &peer, BOTH_RIGHTS);
		uint64_t at = remote.addr + (uint64_t)cases[i / 2].begin;

		if (i % 2)
			refused_read(&site, &peer, remote.rkey, at,
				     cases[i / 2].size,
				     0x0100 + cases[i / 2].code);
		else
			refused_write(&site, &peer, remote.rkey, at,
				      cases[i / 2].size,
				      0x1100 + cases[i / 2].code);
	}
}

Test(iwarp_raw, sizes_and_offsets_that_wrap_are_refused, .timeout = 90)
{
	struct site site;
	struct peer peer;
	struct rf_remote remote = site_lent(&site, &peer, BOTH_RIGHTS);

	refused_write(&site, &peer, remote.rkey, UINT64_MAX - 3, 8, 0x1103);
	remote = site_lent(&site, &peer, BOTH_RIGHTS);
	refused_read(&site, &peer, remote.rkey, UINT64_MAX - 3, 8, 0x0104);
	remote = site_lent(&site, &peer, BOTH_RIGHTS);
	refused_read(&site, &peer, remote.rkey, remote.addr, UINT32_MAX,
		     0x0101);
	remote = site_lent(&site, &peer, BOTH_RIGHTS);
	refused_read(&site, &peer, remote.rkey, remote.addr, LENT_SIZE + 1,
		     0x0101);
}

Test(iwarp_raw, a_right_does_not_give_the_other_one, .timeout = 90)
{
	struct site site;
	struct peer peer;
	struct rf_remote remote = site_lent(&site, &peer, RF_REMOTE_READ);

	refused_write(&site, &peer, remote.rkey, remote.addr, 8, 0x0102);
	remote = site_lent(&site, &peer, RF_REMOTE_WRITE);
	refused_read(&site, &peer, remote.rkey, remote.addr, 8, 0x0102);
}

Test(iwarp_raw, keys_that_never_were_are_refused, .timeout = 90)
{
	static const uint32_t flips[] = { 1, 0x80, 0x100, 0x7fffff00,
					  0x80000000, 0xffffffff };

	for (size_t i = 0; i < RF_ARRAY_SIZE(flips); i++) {
		struct site site;
		struct peer peer;
		struct rf_remote remote = site_lent(&site, &peer, BOTH_RIGHTS);

		refused_write(&site, &peer, remote.rkey ^ flips[i],
			      remote.addr, 8, 0x1100);
		remote = site_lent(&site, &peer, BOTH_RIGHTS);
		refused_read(&site, &peer, remote.rkey ^ flips[i], remote.addr,
			     8, 0x0100);
	}
}

Test(iwarp_raw, key_zero_is_never_valid, .timeout = 90)
{
	struct site site;
	struct peer peer;
	struct rf_remote remote = site_lent(&site, &peer, BOTH_RIGHTS);

	refused_write(&site, &peer, 0, remote.addr, 8, 0x1100);
}

Test(iwarp_raw, another_connections_key_is_refused, .timeout = 90)
{
	for (int is_read = 0; is_read < 2; is_read++) {
		struct site site;
		struct peer owner, thief;
		struct rf_remote remote = site_lent(&site, &owner, BOTH_RIGHTS);
		struct guest *guest = site_join(&site, &thief);

		if (is_read)
			peer_read(&thief, SINK, 0, 8, remote.rkey, remote.addr);
		else
			peer_write(&thief, remote.rkey, remote.addr, junk, 8);
		peer_expect_refusal(&thief, guest, is_read ? 0x0103 : 0x1102,
				    -EACCES);
		site_is_unchanged(&site);
		/* The owner's right is untouched. */
		peer_write(&owner, remote.rkey, remote.addr, junk, 8);
		peer_send(&owner, "done", 4);
		site_until(&site, site.guests[0].recvs[1].done);
		cr_assert(memcmp(site.arena + LENT, junk, 8) == 0);
		peer_close(&thief);
		site_end(&site, &owner);
	}
}

Test(iwarp_raw, only_a_bound_window_can_be_invalidated, .timeout = 90)
{
	struct site site;
	struct peer peer, thief;
	struct rf_remote remote = site_lent(&site, &peer, BOTH_RIGHTS);
	struct guest *guest = site_join(&site, &thief);

	peer_send_inv(&thief, remote.rkey, "mine", 4);
	peer_expect_refusal(&thief, guest, 0x0109, -EACCES);
	cr_assert(rf_window_is_bound(site.window));
	peer_close(&thief);
	site_unbind(&site, &site.guests[0]);
	peer_send_inv(&peer, remote.rkey, "gone", 4);
	peer_expect_refusal(&peer, &site.guests[0], 0x0109, -EACCES);
	site_end(&site, &peer);
}

Test(iwarp_raw, a_terminate_brings_the_headers_it_blames, .timeout = 90)
{
	struct site site;
	struct peer peer;
	struct rf_remote remote = site_lent(&site, &peer, RF_REMOTE_WRITE);
	struct peer_segment segment;
	uint8_t frame[PEER_FRAME_MAX];
	uint8_t body[28] = { 0 };

	peer_store32(body + 12, 8);
	peer_store32(body + 16, remote.rkey);
	peer_store64(body + 20, remote.addr);
	peer_send_bytes(&peer, frame,
			peer_untagged(&peer, frame, PEER_UNTAGGED | PEER_LAST,
				      PEER_READ_REQUEST, 0, 1, 1, 0, body, 28));
	cr_assert(peer_recv(&peer, &segment));
	cr_assert_eq(segment.opcode, PEER_TERMINATE);
	cr_assert_eq(peer_load32(segment.payload), 0x0102e000);
	cr_assert_eq(segment.payload_size, 4 + 2 + 18 + 28);
	cr_assert_eq(peer_load16(segment.payload + 4), 18 + 28);
	cr_assert(memcmp(segment.payload + 6, frame + 2, 18 + 28) == 0);
	site_end(&site, &peer);

	remote = site_lent(&site, &peer, RF_REMOTE_READ);
	peer_send_bytes(&peer, frame,
			peer_tagged(&peer, frame, PEER_TAGGED | PEER_LAST,
				    PEER_WRITE, remote.rkey, remote.addr, junk,
				    11));
	cr_assert(peer_recv(&peer, &segment));
	cr_assert_eq(peer_load32(segment.payload), 0x0102c000);
	cr_assert_eq(segment.payload_size, 4 + 2 + 14);
	cr_assert_eq(peer_load16(segment.payload + 4), 14 + 11);
	cr_assert(memcmp(segment.payload + 6, frame + 2, 14) == 0);
	site_end(&site, &peer);
}

/* ---- rights that end while they are used ------------------------------- */

Test(iwarp_raw, a_half_landed_segment_stops_when_its_window_dies, .timeout = 90)
{
	static uint8_t data[40000], frame[PEER_FRAME_MAX];
	struct site site;
	struct peer peer;
	struct rf_remote remote = site_lent(&site, &peer, BOTH_RIGHTS);
	size_t size, half = 20016;

	memset(data, 0xee, sizeof(data));
	size = peer_tagged(&peer, frame, PEER_TAGGED | PEER_LAST, PEER_WRITE,
			   remote.rkey, remote.addr, data, sizeof(data));
	peer_send_bytes(&peer, frame, half);
	site_until(&site, site.arena[LENT + half - 17] == 0xee);
	site_unbind(&site, &site.guests[0]);
	memcpy(site.before, site.arena, ARENA_SIZE);
	peer_send_bytes(&peer, frame + half, size - half);
	peer_expect_refusal(&peer, &site.guests[0], 0x1100, -EACCES);
	site_is_unchanged(&site);
	site_end(&site, &peer);
}

/* Read all responses; none may hold a byte of the value. */
static void drain_responses(struct peer *peer, uint8_t forbidden)
{
	struct peer_segment segment;

	while (peer_recv(peer, &segment)) {
		if (segment.opcode == PEER_TERMINATE) {
			cr_assert_eq(peer_load16(segment.payload), 0x0100);
			return;
		}
		cr_assert_eq(segment.opcode, PEER_READ_RESPONSE);
		for (size_t i = 0; i < segment.payload_size; i++)
			cr_assert_neq(segment.payload[i], forbidden);
	}
	cr_assert(false, "no Terminate came");
}

Test(iwarp_raw, what_was_not_sent_before_unbind_is_not_served, .timeout = 90)
{
	struct site site;
	struct peer peer;
	struct guest *guest;
	struct rf_remote remote;
	uint32_t size = 5 << 20;
	int small = 16384;

	site_open(&site, "iwarp://");
	memset(site.arena, 0x11, RECVS_AT);
	guest = site_join(&site, &peer);
	setsockopt(peer.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	site_lend(&site, guest, size, RF_REMOTE_READ);
	remote = peer_learn_key(&peer);
	/* More than the sockets hold: it gets stuck in the middle. */
	for (int i = 0; i < READS_IN; i++)
		peer_read(&peer, SINK, 0, size, remote.rkey, remote.addr);
	for (int i = 0; i < 200; i++)
		site_idle(&site);
	site_unbind(&site, guest);
	memset(site.arena, 0x22, RECVS_AT);
	drain_responses(&peer, 0x22);
	site_until(&site, guest->closed);
	cr_assert_eq(guest->reason, -EACCES);
	site_end(&site, &peer);
}

enum { OUT_SIZE = 60000, OUT_COUNT = 12 };

/* The n-th message of all is full of the byte n. */
static void post_write(struct guest *guest, struct record *record, size_t at,
		       uint8_t n)
{
	struct site *site = guest->site;
	struct rf_sge sge = { site->arena + at, OUT_SIZE, site->mr };
	struct rf_work work = { .code = RF_WRITE, .op = &record->op,
				.sge = &sge, .sge_count = 1,
				.remote = { 0x7000, 0x99, OUT_SIZE } };

	record->op.done = guest->work.op.done;
	record->done = 0;
	memset(site->arena + at, n, OUT_SIZE);
	site_post(guest, &work);
}

/* Whatever is given back is spoilt at once; returns how many were. */
static unsigned int spoil_done(struct site *site, struct record *records)
{
	unsigned int count = 0;

	for (size_t i = 0; i < OUT_COUNT; i++) {
		if (!records[i].done)
			continue;
		memset(site->arena + i * OUT_SIZE, 0xff, OUT_SIZE);
		count++;
	}
	return count;
}

static void expect_message(struct peer *peer, uint8_t n)
{
	struct peer_segment segment;

	cr_assert(peer_recv(peer, &segment));
	cr_assert_eq(segment.payload_size, OUT_SIZE);
	for (size_t i = 0; i < OUT_SIZE; i++)
		cr_assert_eq(segment.payload[i], n);
}

Test(iwarp_raw, a_buffer_is_given_back_when_its_bytes_are_gone, .timeout = 90)
{
	struct record records[OUT_COUNT] = { 0 };
	unsigned int posted = 0;
	struct site site;
	struct peer peer;
	struct guest *guest;
	int small = 16384;

	site_open(&site, "iwarp://?crc=0");
	guest = site_join(&site, &peer);
	setsockopt(peer.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	/* Fill the sockets, then let the peer read on. */
	for (int lap = 0; lap < 20; lap++) {
		for (size_t i = 0; i < OUT_COUNT; i++)
			if (lap == 0 || records[i].done)
				post_write(guest, &records[i], i * OUT_SIZE,
					   (uint8_t)posted++);
		for (int i = 0; i < 3; i++)
			site_idle(&site);
		spoil_done(&site, records);
	}
	cr_assert_lt(spoil_done(&site, records), OUT_COUNT);
	for (unsigned int n = 0; n < posted; n++) {
		expect_message(&peer, (uint8_t)n);
		spoil_done(&site, records);
	}
	site_end(&site, &peer);
}

/* ---- malformed segments ------------------------------------------------ */

struct bad_segment {
	const char *what;
	uint8_t ddp, rdmap;
	uint32_t queue, msn, offset;
	size_t size;
	uint32_t code;
	int reason;
};

static const struct bad_segment bad_segments[] = {
	{ "DDP version", 0x40, PEER_SEND, 0, 2, 0, 4, 0x1206, -EPROTO },
	{ "RDMAP version", 0x41, 0x83, 0, 2, 0, 4, 0x0205, -EPROTO },
	{ "opcode", 0x41, 0x4f, 0, 2, 0, 4, 0x0206, -EPROTO },
	{ "opcode of the other model", 0x41, PEER_WRITE, 0, 2, 0, 4, 0x0206,
	  -EPROTO },
	{ "queue", 0x41, PEER_SEND, 1, 2, 0, 4, 0x1201, -EPROTO },
	{ "queue far off", 0x41, PEER_SEND, 77, 2, 0, 4, 0x1201, -EPROTO },
	{ "number used", 0x41, PEER_SEND, 0, 1, 0, 4, 0x1203, -EPROTO },
	{ "number ahead", 0x41, PEER_SEND, 0, 3, 0, 4, 0x1203, -EPROTO },
	{ "offset", 0x41, PEER_SEND, 0, 2, 4, 4, 0x1204, -EPROTO },
	{ "too long", 0x41, PEER_SEND, 0, 2, 0, RECV_SIZE + 1, 0x1205,
	  -EMSGSIZE },
	{ "request's queue", 0x41, PEER_READ_REQUEST, 0, 1, 0, 28, 0x1201,
	  -EPROTO },
	{ "request's number", 0x41, PEER_READ_REQUEST, 1, 9, 0, 28, 0x1203,
	  -EPROTO },
	{ "request's size", 0x41, PEER_READ_REQUEST, 1, 1, 0, 27, 0x02ff,
	  -EPROTO },
	{ "request in parts", 0x01, PEER_READ_REQUEST, 1, 1, 0, 28, 0x02ff,
	  -EPROTO },
};

Test(iwarp_raw, malformed_segments_are_named_in_the_terminate, .timeout = 90)
{
	static const uint8_t zeros[RECV_SIZE + 1];

	for (size_t i = 0; i < RF_ARRAY_SIZE(bad_segments); i++) {
		const struct bad_segment *bad = &bad_segments[i];
		uint8_t frame[PEER_FRAME_MAX];
		struct site site;
		struct peer peer;
		size_t size;

		site_open(&site, "iwarp://");
		site_join(&site, &peer);
		size = peer_untagged(&peer, frame, bad->ddp, bad->rdmap, 0,
				     bad->queue, bad->msn, bad->offset, zeros,
				     bad->size);
		peer_send_bytes(&peer, frame, size);
		peer_expect_refusal(&peer, &site.guests[0], bad->code,
				    bad->reason);
		cr_assert_eq(site.guests[0].recvs[1].status,
			     bad->reason == -EMSGSIZE ? -EMSGSIZE : -ECANCELED,
			     "%s", bad->what);
		site_end(&site, &peer);
	}
}

Test(iwarp_raw, a_tagged_segment_of_another_version_is_refused, .timeout = 90)
{
	uint8_t frame[PEER_FRAME_MAX];
	struct site site;
	struct peer peer;
	struct rf_remote remote = site_lent(&site, &peer, BOTH_RIGHTS);

	peer_send_bytes(&peer, frame,
			peer_tagged(&peer, frame, 0xc2, PEER_WRITE, remote.rkey,
				    remote.addr, junk, 8));
	peer_expect_refusal(&peer, &site.guests[0], 0x1104, -EPROTO);
	site_is_unchanged(&site);
	site_end(&site, &peer);
}

Test(iwarp_raw, a_length_below_its_headers_is_refused, .timeout = 90)
{
	static const uint8_t ulpdu[17] = { 0x41, PEER_SEND };

	for (size_t size = 0; size <= sizeof(ulpdu); size++) {
		uint8_t frame[64];
		struct site site;
		struct peer peer;

		site_open(&site, "iwarp://");
		site_join(&site, &peer);
		peer_send_bytes(&peer, frame,
				peer_frame(&peer, frame, ulpdu, size));
		peer_expect_refusal(&peer, &site.guests[0], 0x2003, -EPROTO);
		site_end(&site, &peer);
	}
}

Test(iwarp_raw, a_wrong_checksum_ends_the_connection, .timeout = 90)
{
	for (size_t flip = 4; flip < 40; flip += 5) {
		uint8_t frame[PEER_FRAME_MAX];
		struct site site;
		struct peer peer;
		size_t size;

		site_open(&site, "iwarp://");
		site_join(&site, &peer);
		size = peer_untagged(&peer, frame, 0x41, PEER_SEND, 0, 0, 2, 0,
				     junk, 17);
		/* The invalidate field of a plain Send, payload, pad, CRC. */
		if (flip < 8 || flip >= 20)
			frame[flip] ^= 0x10;
		else
			frame[size - 1] ^= 0x80;
		peer_send_bytes(&peer, frame, size);
		peer_expect_refusal(&peer, &site.guests[0], 0x2002, -EPROTO);
		site_end(&site, &peer);
	}
}

Test(iwarp_raw, a_wrong_checksum_of_a_read_request_is_refused, .timeout = 90)
{
	struct site site;
	struct peer peer;
	struct rf_remote remote = site_lent(&site, &peer, BOTH_RIGHTS);
	uint8_t frame[PEER_FRAME_MAX], body[28] = { 0 };
	size_t size;

	peer_store32(body + 16, remote.rkey);
	size = peer_untagged(&peer, frame, 0x41, PEER_READ_REQUEST, 0, 1, 1, 0,
			     body, sizeof(body));
	frame[size - 2] ^= 1;
	peer_send_bytes(&peer, frame, size);
	peer_expect_refusal(&peer, &site.guests[0], 0x2002, -EPROTO);
	site_end(&site, &peer);
}

Test(iwarp_raw, more_reads_than_agreed_are_refused, .timeout = 90)
{
	struct site site;
	struct peer peer;
	struct rf_remote remote = site_lent(&site, &peer, BOTH_RIGHTS);
	static uint8_t frames[(READS_IN + 1) * 64];
	uint8_t body[28] = { 0 };
	size_t size = 0;

	peer_store32(body + 12, 8);
	peer_store32(body + 16, remote.rkey);
	peer_store64(body + 20, remote.addr);
	for (uint32_t i = 0; i <= READS_IN; i++)
		size += peer_untagged(&peer, frames + size, 0x41,
				      PEER_READ_REQUEST, 0, 1, i + 1, 0, body,
				      sizeof(body));
	peer_send_bytes(&peer, frames, size);
	peer_expect_refusal(&peer, &site.guests[0], 0x1202, -ENOBUFS);
	site_end(&site, &peer);
}

Test(iwarp_raw, a_send_without_a_receive_is_refused, .timeout = 90)
{
	struct site site;
	struct peer peer;

	site_open(&site, "iwarp://");
	site_join(&site, &peer);
	for (int i = 0; i < RECVS; i++)
		peer_send(&peer, "more", 4);
	cr_assert_eq(peer_terminate_code(&peer), 0x1202);
	site_until(&site, site.guests[0].closed);
	cr_assert_eq(site.guests[0].reason, -ENOBUFS);
	cr_assert_eq(site.guests[0].recvs[RECVS - 1].status, 0);
	site_end(&site, &peer);
}

Test(iwarp_raw, a_response_nobody_asked_for_is_refused, .timeout = 90)
{
	uint8_t frame[PEER_FRAME_MAX];
	struct site site;
	struct peer peer;
	struct rf_remote remote = site_lent(&site, &peer, BOTH_RIGHTS);

	peer_send_bytes(&peer, frame,
			peer_tagged(&peer, frame, PEER_TAGGED | PEER_LAST,
				    PEER_READ_RESPONSE, remote.rkey,
				    remote.addr, junk, 8));
	peer_expect_refusal(&peer, &site.guests[0], 0x0206, -EPROTO);
	site_is_unchanged(&site);
	site_end(&site, &peer);
}

/* ---- streams that end or crawl ----------------------------------------- */

Test(iwarp_raw, a_stream_that_ends_within_a_frame_is_a_reset, .timeout = 90)
{
	for (size_t cut = 0; cut < 60; cut += 7) {
		uint8_t frame[PEER_FRAME_MAX];
		struct site site;
		struct peer peer;

		site_open(&site, "iwarp://");
		site_join(&site, &peer);
		peer_untagged(&peer, frame, 0x41, PEER_SEND, 0, 0, 2, 0, junk,
			      100);
		peer_send_bytes(&peer, frame, cut);
		shutdown(peer.fd, SHUT_WR);
		site_until(&site, site.guests[0].closed);
		cr_assert_eq(site.guests[0].reason, cut ? -ECONNRESET : 0);
		cr_assert_eq(site.guests[0].recvs[1].status, -ECANCELED);
		site_end(&site, &peer);
	}
}

Test(iwarp_raw, single_bytes_make_a_connection_and_messages, .timeout = 90)
{
	struct site site;
	struct peer peer;
	struct guest *guest;
	struct rf_remote remote;
	struct peer_segment segment;

	site_open(&site, "iwarp://");
	peer_init(&peer, site_idle, &site);
	peer_connect(&peer, &site.addr);
	peer.dribbles = true;
	peer_join(&peer, 1, 1);
	peer_send(&peer, "hello", 5);
	guest = &site.guests[0];
	site_until(&site, guest->recvs[0].done);
	cr_assert(memcmp(site.arena + RECVS_AT, "hello", 5) == 0);
	site_lend(&site, guest, LENT_SIZE, BOTH_RIGHTS);
	remote = peer_learn_key(&peer);
	peer_write(&peer, remote.rkey, remote.addr, junk, 33);
	peer_read(&peer, SINK, 0, 33, remote.rkey, remote.addr);
	cr_assert(peer_recv(&peer, &segment));
	cr_assert_eq(segment.payload_size, 33);
	cr_assert(memcmp(segment.payload, junk, 33) == 0);
	site_end(&site, &peer);
}

Test(iwarp_raw, messages_of_no_bytes_are_taken, .timeout = 90)
{
	struct site site;
	struct peer peer;
	struct peer_segment segment;

	site_open(&site, "iwarp://");
	site_join(&site, &peer);
	peer_write(&peer, 0, 0, NULL, 0);	/* no key is looked at */
	peer_send(&peer, NULL, 0);
	site_until(&site, site.guests[0].recvs[1].done);
	cr_assert_eq(site.guests[0].recvs[1].status, 0);
	cr_assert_eq(site.guests[0].recvs[1].size, 0);
	peer_read(&peer, SINK, 5, 0, 0, 0);
	cr_assert(peer_recv(&peer, &segment));
	cr_assert_eq(segment.opcode, PEER_READ_RESPONSE);
	cr_assert_eq(segment.payload_size, 0);
	cr_assert_eq(segment.offset, 5);
	site_end(&site, &peer);
}

Test(iwarp_raw, a_send_may_come_in_many_segments, .timeout = 90)
{
	uint8_t frame[PEER_FRAME_MAX];
	struct site site;
	struct peer peer;
	struct guest *guest;

	site_open(&site, "iwarp://");
	guest = site_join(&site, &peer);
	for (uint32_t at = 0; at < 250; at += 50) {
		uint8_t ddp = PEER_UNTAGGED | (at == 200 ? PEER_LAST : 0);

		cr_assert_eq(guest->recvs[1].done, 0);
		peer_send_bytes(&peer, frame,
				peer_untagged(&peer, frame, ddp, PEER_SEND_SE,
					      0, 0, 2, at, junk + at, 50));
	}
	site_until(&site, guest->recvs[1].done);
	cr_assert_eq(guest->recvs[1].size, 250);
	cr_assert(memcmp(site.arena + RECVS_AT + RECV_SIZE, junk, 250) == 0);
	site_end(&site, &peer);
}

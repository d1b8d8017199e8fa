/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iwarp_setup.c - setting up iWARP connections with a peer that is not ours
 *
 * Both revisions, both sides, what they agree on, and what silent, slow or
 * wrong peers get.
 */
#include "tests/common/iwarp_site.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- the site accepts -------------------------------------------------- */

static struct peer_mpa make_mpa(uint8_t flags, uint8_t revision)
{
	return (struct peer_mpa){ .flags = flags, .revision = revision };
}

/* Ask with this, and take the answer; false if there is none. */
static bool ask(struct site *site, struct peer *peer,
		const struct peer_mpa *request, struct peer_mpa *reply)
{
	peer_init(peer, site_idle, site);
	peer_connect(peer, &site->addr);
	peer_mpa_send(peer, false, request);
	return peer_mpa_recv(peer, true, reply);
}

/* Messages go both ways. */
static void talk(struct site *site, struct peer *peer)
{
	struct guest *guest = &site->guests[0];
	struct rf_remote remote;

	peer_send(peer, "hello", 5);
	site_until(site, guest->recvs[0].done);
	cr_assert_eq(guest->recvs[0].status, 0);
	site_lend(site, guest, LENT_SIZE, BOTH_RIGHTS);
	remote = peer_learn_key(peer);
	cr_assert_eq(remote.size, LENT_SIZE);
}

Test(iwarp_setup, revision_1_is_answered_in_revision_1, .timeout = 90)
{
	struct peer_mpa request = make_mpa(0x40, 1), reply;
	struct site site;
	struct peer peer;

	site_open(&site, "iwarp://");
	cr_assert(ask(&site, &peer, &request, &reply));
	cr_assert_eq(reply.revision, 1);
	cr_assert_eq(reply.flags, 0x40);
	cr_assert_eq(reply.private_size, 0);
	talk(&site, &peer);
	site_end(&site, &peer);
}

Test(iwarp_setup, the_checksum_is_used_if_either_side_wants_it, .timeout = 90)
{
	for (int wishes = 0; wishes < 4; wishes++) {
		bool site_wants = wishes & 1, peer_wants = wishes & 2;
		struct peer_mpa request = make_mpa(peer_wants ? 0x40 : 0, 1);
		struct peer_mpa reply;
		struct site site;
		struct peer peer;

		site_open(&site, site_wants ? "iwarp://" : "iwarp://?crc=0");
		cr_assert(ask(&site, &peer, &request, &reply));
		cr_assert_eq(reply.flags, site_wants || peer_wants ? 0x40 : 0);
		peer.uses_crc = reply.flags & 0x40;
		talk(&site, &peer);
		site_end(&site, &peer);
	}
}

Test(iwarp_setup, revision_2_agrees_on_read_depths, .timeout = 90)
{
	struct peer_mpa request = make_mpa(0x50, 2), reply;
	struct site site;
	struct peer peer;

	site_open(&site, "iwarp://");
	request.private_size = 4 + 3;
	peer_store16(request.private, 2);	/* serves 2 Reads */
	peer_store16(request.private + 2, 100);	/* wants 100 */
	memcpy(request.private + 4, "abc", 3);
	cr_assert(ask(&site, &peer, &request, &reply));
	cr_assert_eq(reply.revision, 2);
	cr_assert_eq(reply.flags, 0x50);
	cr_assert_eq(reply.private_size, 4);
	cr_assert_eq(peer_load16(reply.private), READS_IN);
	cr_assert_eq(peer_load16(reply.private + 2), 2);
	talk(&site, &peer);
	cr_assert_eq(rf_ep_limits(site.guests[0].ep)->reads_max, 2);
	site_end(&site, &peer);
}

Test(iwarp_setup, a_peer_may_announce_itself_with_an_empty_write, .timeout = 90)
{
	struct peer_mpa request = make_mpa(0x50, 2), reply;
	struct peer_segment segment;
	struct site site;
	struct peer peer;

	site_open(&site, "iwarp://");
	request.private_size = 4;
	peer_store16(request.private, 0xc000 | 4);
	peer_store16(request.private + 2, 0xc000 | 4);
	cr_assert(ask(&site, &peer, &request, &reply));
	/* Peer-to-peer, by a Write of no bytes. */
	cr_assert_eq(peer_load16(reply.private), 0x8000 | READS_IN);
	cr_assert_eq(peer_load16(reply.private + 2), 0x8000 | 4);
	site_until(&site, site.guests[0].connected);
	site_send(&site.guests[0], "ready", 5);
	peer_write(&peer, 0, 0, NULL, 0);
	cr_assert(peer_recv(&peer, &segment));
	cr_assert_eq(segment.payload_size, 5);
	cr_assert_eq(site.guests[0].recvs[0].done, 0);
	site_end(&site, &peer);
}

Test(iwarp_setup, a_peer_may_announce_itself_with_an_empty_fpdu, .timeout = 90)
{
	struct peer_mpa request = make_mpa(0x50, 2), reply;
	struct peer_segment segment;
	uint8_t frame[8];
	struct site site;
	struct peer peer;

	site_open(&site, "iwarp://");
	request.private_size = 4;
	peer_store16(request.private, 0xc000 | 4);
	peer_store16(request.private + 2, 4);
	cr_assert(ask(&site, &peer, &request, &reply));
	cr_assert_eq(peer_load16(reply.private), 0xc000 | READS_IN);
	site_until(&site, site.guests[0].connected);
	site_send(&site.guests[0], "ready", 5);
	peer_send_bytes(&peer, frame, peer_frame(&peer, frame, "", 0));
	cr_assert(peer_recv(&peer, &segment));
	cr_assert_eq(segment.payload_size, 5);
	site_end(&site, &peer);
}

Test(iwarp_setup, the_accepting_side_waits_for_the_first_word, .timeout = 90)
{
	struct peer_mpa request = make_mpa(0x40, 1), reply;
	struct peer_segment segment;
	struct site site;
	struct peer peer;
	uint8_t byte;

	site_open(&site, "iwarp://");
	cr_assert(ask(&site, &peer, &request, &reply));
	site_until(&site, site.guests[0].connected);
	site_send(&site.guests[0], "early", 5);
	for (int i = 0; i < 20; i++)
		site_idle(&site);
	cr_assert_eq(recv(peer.fd, &byte, 1, MSG_PEEK), -1);
	cr_assert_eq(errno, EAGAIN);
	cr_assert_eq(site.guests[0].send.done, 0);
	peer_send(&peer, "hello", 5);
	cr_assert(peer_recv(&peer, &segment));
	cr_assert(memcmp(segment.payload, "early", 5) == 0);
	site_end(&site, &peer);
}

Test(iwarp_setup, who_insists_on_markers_is_rejected, .timeout = 90)
{
	struct peer_mpa request = make_mpa(0xc0, 1), reply;
	struct site site;
	struct peer peer;

	site_open(&site, "iwarp://");
	cr_assert(ask(&site, &peer, &request, &reply));
	cr_assert_eq(reply.flags & 0x20, 0x20);
	cr_assert(peer_sees_end(&peer));
	cr_assert_eq(site.guest_count, 0);
	site_end(&site, &peer);
}

Test(iwarp_setup, bad_requests_are_hung_up_on, .timeout = 90)
{
	static const struct {
		const char *what;
		size_t size;
		uint8_t bytes[40];
	} cases[] = {
		{ "another protocol", 16, "GET / HTTP/1.1\r\n" },
		{ "one wrong byte", 1, "m" },
		{ "a reply", 20, "MPA ID Rep Frame\x40\x01\0" },
		{ "revision 0", 20, "MPA ID Req Frame\x40\0\0" },
		{ "revision 3", 20, "MPA ID Req Frame\x40\x03\0" },
		{ "too much private data", 20,
		  "MPA ID Req Frame\x40\x01\x02\x01" },
		{ "no depths", 20, "MPA ID Req Frame\x50\x02\0\x03" },
	};

	for (size_t i = 0; i < RF_ARRAY_SIZE(cases); i++) {
		struct site site;
		struct peer peer;

		site_open(&site, "iwarp://");
		peer_init(&peer, site_idle, &site);
		peer_connect(&peer, &site.addr);
		peer_send_bytes(&peer, cases[i].bytes, cases[i].size);
		cr_assert(peer_sees_end(&peer), "%s", cases[i].what);
		cr_assert_eq(site.guest_count, 0);
		site_end(&site, &peer);
	}
}

/* The limit is 5 s for the whole request, however it trickles in. */
Test(iwarp_setup, a_request_that_never_ends_is_dropped, .timeout = 90)
{
	struct site site;
	struct peer peer;
	uint64_t begin_ns;

	site_open(&site, "iwarp://");
	peer_init(&peer, site_idle, &site);
	peer_connect(&peer, &site.addr);
	begin_ns = rf_now_ns();
	peer_send_bytes(&peer, "MPA ID Req", 10);
	cr_assert(peer_sees_end(&peer));
	cr_assert_geq(rf_now_ns() - begin_ns, 4000000000ull);
	site_end(&site, &peer);
}

Test(iwarp_setup, a_silent_crowd_is_bounded_and_keeps_nobody_out, .timeout = 90)
{
	enum { CROWD = 1100, HELD = 1024 };
	struct rlimit limit = { 4096, 4096 };
	static struct peer crowd[CROWD];
	struct site site;
	struct peer peer;
	int gone = 0;
	char byte;

	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		cr_skip_test("this user may not open %d files", 4096);
	site_open(&site, "iwarp://");
	for (int i = 0; i < CROWD; i++) {
		peer_init(&crowd[i], site_idle, &site);
		peer_connect(&crowd[i], &site.addr);
		if (i % 16 == 0)
			site_idle(&site);
	}
	site_join(&site, &peer);
	for (int i = 0; i < CROWD; i++)
		gone += recv(crowd[i].fd, &byte, 1, 0) == 0;
	cr_assert_geq(gone, CROWD - HELD);
	cr_assert_eq(recv(crowd[0].fd, &byte, 1, 0), 0);
	for (int i = 0; i < CROWD; i++)
		peer_close(&crowd[i]);
	site_end(&site, &peer);
}

/* ---- the site connects ------------------------------------------------- */

static int listen_raw(struct sockaddr_in *addr)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(*addr);

	*addr = (struct sockaddr_in){ .sin_family = AF_INET,
				      .sin_addr = { htonl(INADDR_LOOPBACK) } };
	cr_assert_eq(bind(fd, (struct sockaddr *)addr, size), 0);
	cr_assert_eq(listen(fd, 4), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)addr, &size), 0);
	return fd;
}

/* The site connects to the peer, which has read the request. */
static struct guest *connect_out(struct site *site, struct peer *peer,
				 struct peer_mpa *request)
{
	struct rf_ep_config config;
	struct rf_recv recvs[RECVS];
	struct sockaddr_in addr;
	struct guest *guest;
	int listener = listen_raw(&addr);

	site_open(site, "iwarp://");
	config = site_config(site);
	guest = site_next_guest(site, recvs);
	cr_assert_eq(rf_ep_connect(site->poller, (struct sockaddr *)&addr,
				   sizeof(addr), "hi!", 3, &config,
				   &site_events, guest, &guest->ep), 0);
	for (int i = 0; i < RECVS; i++)
		cr_assert_eq(rf_ep_post_recv(guest->ep, &recvs[i]), 0);
	peer_init(peer, site_idle, site);
	peer_accept(peer, listener);
	close(listener);
	cr_assert(peer_mpa_recv(peer, false, request));
	return guest;
}

/* The same, answered in revision 2, and the site has spoken. */
static struct guest *connect_fully(struct site *site, struct peer *peer)
{
	struct peer_mpa request, reply = make_mpa(0x50, 2);
	struct guest *guest = connect_out(site, peer, &request);
	struct peer_segment segment;

	reply.private_size = 4;
	peer_store16(reply.private, 2);
	peer_store16(reply.private + 2, READS_IN);
	peer_mpa_send(peer, true, &reply);
	site_until(site, guest->connected);
	site_send(guest, "first", 5);
	cr_assert(peer_recv(peer, &segment));
	cr_assert(memcmp(segment.payload, "first", 5) == 0);
	return guest;
}

Test(iwarp_setup, our_request_is_revision_2_with_depths, .timeout = 90)
{
	struct peer_mpa request;
	struct site site;
	struct peer peer;

	connect_out(&site, &peer, &request);
	cr_assert_eq(request.flags, 0x50);
	cr_assert_eq(request.revision, 2);
	cr_assert_eq(request.private_size, 4 + 3);
	cr_assert_eq(peer_load16(request.private), READS_IN);
	cr_assert_eq(peer_load16(request.private + 2), 4);
	cr_assert(memcmp(request.private + 4, "hi!", 3) == 0);
	site_end(&site, &peer);
}

Test(iwarp_setup, an_answer_in_revision_1_is_taken, .timeout = 90)
{
	struct peer_mpa request, reply = make_mpa(0x40, 1);
	struct peer_segment segment;
	struct site site;
	struct peer peer;
	struct guest *guest = connect_out(&site, &peer, &request);

	peer_mpa_send(&peer, true, &reply);
	site_until(&site, guest->connected);
	site_send(guest, "first", 5);
	cr_assert(peer_recv(&peer, &segment));
	peer_send(&peer, "second", 6);
	site_until(&site, guest->recvs[0].done);
	cr_assert_eq(guest->recvs[0].size, 6);
	site_end(&site, &peer);
}

Test(iwarp_setup, bad_answers_end_the_attempt, .timeout = 90)
{
	static const struct {
		const char *what;
		size_t size;
		uint8_t bytes[40];
		int reason;
	} cases[] = {
		{ "another protocol", 12, "220 welcome\n", -EPROTO },
		{ "a request", 20, "MPA ID Req Frame\x40\x01\0", -EPROTO },
		{ "markers", 20, "MPA ID Rep Frame\xc0\x01\0", -EPROTO },
		{ "rejection", 20, "MPA ID Rep Frame\x60\x01\0",
		  -ECONNREFUSED },
		{ "half an answer", 7, "MPA ID ", -ECONNRESET },
		{ "none", 0, "", -ECONNRESET },
	};

	for (size_t i = 0; i < RF_ARRAY_SIZE(cases); i++) {
		struct peer_mpa request;
		struct site site;
		struct peer peer;
		struct guest *guest = connect_out(&site, &peer, &request);

		peer_send_bytes(&peer, cases[i].bytes, cases[i].size);
		shutdown(peer.fd, SHUT_WR);
		site_until(&site, guest->closed);
		cr_assert_eq(guest->reason, cases[i].reason, "%s: %s",
			     cases[i].what, strerror(-guest->reason));
		cr_assert_eq(guest->connected, 0);
		site_end(&site, &peer);
	}
}

Test(iwarp_setup, a_peer_that_does_not_answer_times_out, .timeout = 90)
{
	struct peer_mpa request;
	struct site site;
	struct peer peer;
	struct guest *guest = connect_out(&site, &peer, &request);

	site_until(&site, guest->closed);
	cr_assert_eq(guest->reason, -ETIMEDOUT);
	cr_assert(peer_sees_end(&peer));
	site_end(&site, &peer);
}

/* As the kernel may, by chance, when it chooses the port to come from. */
Test(iwarp_setup, nobody_listens_where_we_meet_ourselves, .timeout = 90)
{
	struct rf_tuning tuning = RF_TUNING_DEFAULT;
	struct sockaddr_in addr;
	struct rf_ep_config config;
	struct rf_recv recvs[RECVS];
	struct guest *guest;
	struct site site;
	int one = 1, fd;

	close(listen_raw(&addr));
	site_open(&site, "iwarp://");
	memcpy(&tuning.source, &addr, sizeof(addr));
	cr_assert_eq(rf_fabric_tune(site.fab, &tuning), 0);
	config = site_config(&site);
	guest = site_next_guest(&site, recvs);
	cr_assert_eq(rf_ep_connect(site.poller, (struct sockaddr *)&addr,
				   sizeof(addr), "hi!", 3, &config,
				   &site_events, guest, &guest->ep), 0);
	site_until(&site, guest->closed);
	cr_assert_eq(guest->reason, -ECONNREFUSED, "%s",
		     strerror(-guest->reason));
	/* A server may begin there at once, as iwarp's listeners do. */
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	cr_assert_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0, "%s",
		     strerror(errno));
	close(fd);
	site_close(&site);
}

/* ---- Reads of the site, answered by the peer --------------------------- */

enum { READ_AT = 3 << 20, READ_SIZE = 100 };

static void site_read(struct guest *guest, struct rf_op *op)
{
	struct site *site = guest->site;
	struct rf_sge sge = { site->arena + READ_AT, READ_SIZE, site->mr };
	struct rf_work work = { .code = RF_READ, .op = op, .sge = &sge,
				.sge_count = 1,
				.remote = { 0x7000, 0x99, READ_SIZE } };

	site_post(guest, &work);
}

static struct peer_segment take_request(struct peer *peer, uint32_t msn)
{
	struct peer_segment segment;

	cr_assert(peer_recv(peer, &segment));
	cr_assert_eq(segment.opcode, PEER_READ_REQUEST);
	cr_assert_eq(segment.queue, 1);
	cr_assert_eq(segment.msn, msn);
	cr_assert_eq(segment.payload_size, 28);
	segment.payload = segment.raw + 20;
	cr_assert_eq(peer_load32(segment.payload + 12), READ_SIZE);
	cr_assert_eq(peer_load32(segment.payload + 16), 0x99);
	cr_assert_eq(peer_load64(segment.payload + 20), 0x7000);
	return segment;
}

static void respond(struct peer *peer, bool is_last, uint32_t stag,
		    uint64_t offset, size_t size)
{
	static uint8_t data[2 * READ_SIZE];
	uint8_t frame[PEER_FRAME_MAX];
	uint8_t ddp = PEER_TAGGED | (is_last ? PEER_LAST : 0);

	memset(data, 0xcc, sizeof(data));
	peer_send_bytes(peer, frame,
			peer_tagged(peer, frame, ddp, PEER_READ_RESPONSE, stag,
				    offset, data, size));
}

Test(iwarp_setup, a_read_lands_and_the_depth_is_obeyed, .timeout = 90)
{
	struct site site;
	struct peer peer;
	struct guest *guest = connect_fully(&site, &peer);
	struct record reads[3] = { 0 };
	uint32_t sinks[3];
	uint64_t at;
	uint8_t byte;

	cr_assert_eq(rf_ep_limits(guest->ep)->reads_max, 2);
	for (int i = 0; i < 3; i++) {
		reads[i].op.done = guest->work.op.done;
		site_read(guest, &reads[i].op);
	}
	for (uint32_t i = 0; i < 2; i++)
		sinks[i] = peer_load32(take_request(&peer, i + 1).raw + 20);
	cr_assert_neq(sinks[0], sinks[1]);
	for (int i = 0; i < 20; i++)
		site_idle(&site);
	cr_assert_eq(recv(peer.fd, &byte, 1, MSG_PEEK), -1);
	at = 0;
	respond(&peer, false, sinks[0], at, 60);
	respond(&peer, true, sinks[0], at + 60, READ_SIZE - 60);
	site_until(&site, reads[0].done);
	cr_assert_eq(reads[0].status, 0);
	memset(site.before + READ_AT, 0xcc, READ_SIZE);
	site_is_unchanged(&site);
	sinks[2] = peer_load32(take_request(&peer, 3).raw + 20);
	cr_assert_neq(sinks[2], sinks[0]);
	cr_assert_eq(reads[1].done, 0);
	site_end(&site, &peer);
	cr_assert_eq(reads[1].status, -ECANCELED);
	cr_assert_eq(reads[2].status, -ECANCELED);
}

Test(iwarp_setup, wrong_responses_touch_nothing, .timeout = 90)
{
	static const struct {
		const char *what;
		uint32_t stag_flip;
		uint64_t offset;
		size_t size;
		bool is_last;
		uint32_t code;
		int reason;
	} cases[] = {
		{ "key", 1, 0, READ_SIZE, true, 0x1100, -EACCES },
		{ "not the first bytes", 0, 8, 8, false, 0x1101, -EACCES },
		{ "too long", 0, 0, READ_SIZE + 1, true, 0x1101, -EACCES },
		{ "too short", 0, 0, READ_SIZE - 1, true, 0x1101, -EACCES },
		{ "no end", 0, 0, READ_SIZE, false, 0x1101, -EACCES },
		{ "offset that wraps", 0, UINT64_MAX, 8, false, 0x1101,
		  -EACCES },
	};

	for (size_t i = 0; i < RF_ARRAY_SIZE(cases); i++) {
		struct site site;
		struct peer peer;
		struct guest *guest = connect_fully(&site, &peer);
		uint32_t sink;

		site_read(guest, &guest->work.op);
		sink = peer_load32(take_request(&peer, 1).raw + 20);
		respond(&peer, cases[i].is_last, sink ^ cases[i].stag_flip,
			cases[i].offset, cases[i].size);
		cr_assert_eq(peer_terminate_code(&peer), cases[i].code, "%s",
			     cases[i].what);
		site_until(&site, guest->closed);
		cr_assert_eq(guest->reason, cases[i].reason);
		cr_assert_eq(guest->work.status, -ECANCELED);
		site_is_unchanged(&site);
		site_end(&site, &peer);
	}
}

Test(iwarp_setup, a_sink_is_no_target_for_writes_and_serves_once, .timeout = 90)
{
	for (int is_again = 0; is_again < 2; is_again++) {
		struct site site;
		struct peer peer;
		struct guest *guest = connect_fully(&site, &peer);
		uint32_t sink;

		site_read(guest, &guest->work.op);
		sink = peer_load32(take_request(&peer, 1).raw + 20);
		if (is_again) {
			respond(&peer, true, sink, 0, READ_SIZE);
			site_until(&site, guest->work.done);
			memcpy(site.before, site.arena, ARENA_SIZE);
			memset(site.before + READ_AT, 0x33, READ_SIZE);
			memset(site.arena + READ_AT, 0x33, READ_SIZE);
			respond(&peer, true, sink, 0, READ_SIZE);
			cr_assert_eq(peer_terminate_code(&peer), 0x0206);
		} else {
			peer_write(&peer, sink, 0, "x", 1);
			cr_assert_eq(peer_terminate_code(&peer), 0x1100);
		}
		site_until(&site, guest->closed);
		site_is_unchanged(&site);
		site_end(&site, &peer);
	}
}

static void send_terminate(struct peer *peer, uint32_t code,
			   const struct peer_segment *blamed)
{
	uint8_t frame[PEER_FRAME_MAX], body[4 + 2 + 18 + 28] = { 0 };
	size_t size = 4;

	peer_store32(body, code << 16 | (blamed ? 0xe000 : 0));
	if (blamed) {
		peer_store16(body + 4, blamed->size);
		memcpy(body + 6, blamed->raw + 2, 18 + 28);
		size = sizeof(body);
	}
	peer_send_bytes(peer, frame,
			peer_untagged(peer, frame, PEER_UNTAGGED | PEER_LAST,
				      PEER_TERMINATE, 0, 2, 1, 0, body, size));
}

Test(iwarp_setup, a_terminate_names_the_read_that_was_refused, .timeout = 90)
{
	struct site site;
	struct peer peer;
	struct guest *guest = connect_fully(&site, &peer);
	struct record first = { .op.done = guest->work.op.done };
	struct peer_segment request;

	site_read(guest, &first.op);
	site_read(guest, &guest->work.op);
	take_request(&peer, 1);
	request = take_request(&peer, 2);
	send_terminate(&peer, 0x0100, &request);
	site_until(&site, guest->closed);
	cr_assert_eq(guest->reason, -EACCES);
	cr_assert_eq(first.status, -ECANCELED);
	cr_assert_eq(guest->work.status, -EACCES);
	site_end(&site, &peer);
}

Test(iwarp_setup, terminates_become_reasons, .timeout = 90)
{
	static const struct {
		uint32_t code;
		int reason;
	} cases[] = {
		{ 0x0100, -EACCES }, { 0x1102, -EACCES }, { 0x1205, -EMSGSIZE },
		{ 0x1202, -ENOBUFS }, { 0x2002, -EPROTO }, { 0x0205, -EPROTO },
		{ 0xffff, -EPROTO },
	};

	for (size_t i = 0; i < RF_ARRAY_SIZE(cases); i++) {
		struct site site;
		struct peer peer;
		struct guest *guest = connect_fully(&site, &peer);

		send_terminate(&peer, cases[i].code, NULL);
		site_until(&site, guest->closed);
		cr_assert_eq(guest->reason, cases[i].reason, "%04x",
			     cases[i].code);
		cr_assert_eq(guest->recvs[0].status, -ECANCELED);
		site_end(&site, &peer);
	}
}

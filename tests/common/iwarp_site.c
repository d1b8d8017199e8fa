/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/common/iwarp_site.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* ---- the site ---------------------------------------------------------- */

void site_idle(void *context)
{
	rf_poller_wait(((struct site *)context)->poller, 64, 1);
}


static void record_done(struct rf_op *op, int status)
{
	struct record *record = rf_container_of(op, struct record, op);

	record->done++;
	record->status = status;
	record->size = op->size;
	record->inv_key = op->inv_key;
}

static void guest_connected(struct rf_ep *ep, const void *hello, size_t size)
{
	struct guest *guest = rf_ep_context(ep);

	(void)hello;
	(void)size;
	guest->connected++;
}

static void guest_closed(struct rf_ep *ep, int reason)
{
	struct guest *guest = rf_ep_context(ep);

	guest->closed++;
	guest->reason = reason;
	guest->ep = NULL;
}

const struct rf_ep_events site_events = {
	.connected = guest_connected, .closed = guest_closed,
};

struct guest *site_next_guest(struct site *site, struct rf_recv *recvs)
{
	struct guest *guest;

	cr_assert_lt(site->guest_count, GUESTS);
	guest = &site->guests[site->guest_count++];
	guest->site = site;
	guest->send.op.done = record_done;
	guest->work.op.done = record_done;
	for (unsigned int i = 0; i < RECVS; i++) {
		guest->recvs[i].op.done = record_done;
		recvs[i] = (struct rf_recv){ &guest->recvs[i].op, {
			site->arena + RECVS_AT + i * RECV_SIZE, RECV_SIZE,
			site->mr } };
	}
	return guest;
}

struct rf_ep_config site_config(const struct site *site)
{
	return (struct rf_ep_config){
		.pd = site->pd, .send_depth = 16, .recv_depth = RECVS,
		.reads_out = 4, .reads_in = READS_IN, .setup_ms = 1000,
	};
}

static void site_request(void *context, struct rf_incoming *incoming,
			 const void *hello, size_t size)
{
	struct site *site = context;
	struct rf_ep_config config = site_config(site);
	struct rf_recv recvs[RECVS];
	struct guest *guest = site_next_guest(site, recvs);

	(void)hello;
	(void)size;
	cr_assert_eq(rf_ep_accept(incoming, site->poller, NULL, 0, &config,
				  &site_events, guest, recvs, RECVS,
				  &guest->ep), 0);
}

void site_open(struct site *site, const char *uri)
{
	struct sockaddr_in any = { .sin_family = AF_INET,
				   .sin_addr = { htonl(INADDR_LOOPBACK) } };

	memset(site, 0, sizeof(*site));
	rf_log_set_level(RF_LOG_ERROR);
	cr_assert_eq(rf_fabric_open(uri, &site->fab), 0);
	cr_assert_eq(rf_pd_create(site->fab, &site->pd), 0);
	cr_assert_eq(rf_poller_create(site->fab, 256, &site->poller), 0);
	site->arena = malloc(ARENA_SIZE);
	site->before = malloc(ARENA_SIZE);
	cr_assert(site->arena && site->before);
	for (size_t i = 0; i < ARENA_SIZE; i++)
		site->arena[i] = (uint8_t)(i * 7 + i / 256);
	memcpy(site->before, site->arena, ARENA_SIZE);
	cr_assert_eq(rf_mr_register(site->pd, site->arena, ARENA_SIZE,
				    RF_LOCAL_WRITE | RF_READ_SINK |
				    RF_WINDOW_BIND, &site->mr), 0);
	cr_assert_eq(rf_window_create(site->pd, &site->window), 0);
	cr_assert_eq(rf_listener_open(site->poller, (struct sockaddr *)&any,
				      sizeof(any), site_request, site,
				      &site->listener), 0);
	cr_assert_eq(rf_listener_address(site->listener, &site->addr), 0);
}

void site_close(struct site *site)
{
	for (unsigned int i = 0; i < site->guest_count; i++)
		if (site->guests[i].ep)
			rf_ep_close(site->guests[i].ep);
	for (unsigned int i = 0; i < site->guest_count; i++) {
		site_until(site, site->guests[i].closed);
		cr_assert_eq(site->guests[i].closed, 1);
		for (unsigned int k = 0; k < RECVS; k++)
			cr_assert_leq(site->guests[i].recvs[k].done, 1);
	}
	rf_listener_close(site->listener);
	rf_window_destroy(site->window);
	rf_mr_deregister(site->mr);
	rf_poller_destroy(site->poller);
	rf_pd_destroy(site->pd);
	rf_fabric_close(site->fab);
	free(site->arena);
	free(site->before);
}

void site_is_unchanged(const struct site *site)
{
	cr_assert(memcmp(site->arena, site->before, RECVS_AT) == 0,
		  "memory has changed");
}

void site_post(struct guest *guest, struct rf_work *work)
{
	cr_assert_eq(rf_ep_post(guest->ep, work, 1), 0);
}

void site_send(struct guest *guest, const void *data, uint32_t size)
{
	uint8_t *at = guest->site->arena + ARENA_SIZE - 4096;
	struct rf_sge sge = { at, size, guest->site->mr };
	struct rf_work work = { .code = RF_SEND, .op = &guest->send.op,
				.sge = &sge, .sge_count = 1 };

	memcpy(at, data, size);
	guest->send.done = 0;
	site_post(guest, &work);
}

void site_unbind(struct site *site, struct guest *guest)
{
	struct rf_work work = { .code = RF_UNBIND, .op = &guest->work.op,
				.window = site->window };

	guest->work.done = 0;
	site_post(guest, &work);
	site_until(site, guest->work.done);
	cr_assert_eq(guest->work.status, 0);
}

/* Lend the window and tell its key over the connection. */
void site_lend(struct site *site, struct guest *guest, uint32_t size,
	       unsigned int access)
{
	struct rf_work work = { .code = RF_BIND, .window = site->window };

	site->lent = rf_window_next(site->window, site->mr, site->arena + LENT,
				    size, access);
	site_post(guest, &work);
	site_send(guest, &site->lent, sizeof(site->lent));
}

/* ---- both -------------------------------------------------------------- */

/* What the peer was told; its first word comes before. */
struct rf_remote peer_learn_key(struct peer *peer)
{
	struct peer_segment segment;
	struct rf_remote remote;

	cr_assert(peer_recv(peer, &segment));
	cr_assert_eq(segment.opcode, PEER_SEND);
	cr_assert(segment.is_last && !segment.is_tagged);
	cr_assert_eq(segment.queue, 0);
	cr_assert_eq(segment.payload_size, sizeof(remote));
	memcpy(&remote, segment.payload, sizeof(remote));
	return remote;
}

struct guest *site_join(struct site *site, struct peer *peer)
{
	unsigned int n = site->guest_count;

	peer_init(peer, site_idle, site);
	peer_connect(peer, &site->addr);
	peer_join(peer, 8, READS_IN);
	site_until(site, site->guest_count > n && site->guests[n].connected);
	peer_send(peer, "hello", 5);
	site_until(site, site->guests[n].recvs[0].done);
	cr_assert_eq(site->guests[n].recvs[0].status, 0);
	cr_assert_eq(site->guests[n].recvs[0].size, 5);
	return &site->guests[n];
}

/* A site, a peer, and a window of LENT_SIZE lent to it. */
struct rf_remote site_lent(struct site *site, struct peer *peer,
			   unsigned int access)
{
	struct guest *guest;

	site_open(site, "iwarp://");
	guest = site_join(site, peer);
	site_lend(site, guest, LENT_SIZE, access);
	return peer_learn_key(peer);
}

uint32_t peer_terminate_code(struct peer *peer)
{
	struct peer_segment segment;

	do
		cr_assert(peer_recv(peer, &segment), "no Terminate came");
	while (segment.opcode != PEER_TERMINATE);
	cr_assert(!segment.is_tagged && segment.is_last);
	cr_assert_eq(segment.queue, 2);
	cr_assert_eq(segment.msn, 1);
	cr_assert_eq(segment.offset, 0);
	cr_assert_geq(segment.payload_size, 4);
	cr_assert_eq(peer_load16(segment.payload + 2) & 0x1fff, 0);
	return peer_load16(segment.payload);
}

/* The peer is told the code, the connection ends on both sides. */
void peer_expect_refusal(struct peer *peer, struct guest *guest, uint32_t code,
			 int reason)
{
	uint32_t got = peer_terminate_code(peer);

	cr_assert_eq(got, code, "Terminate %04x, not %04x", got, code);
	cr_assert(peer_sees_end(peer));
	site_until(guest->site, guest->closed);
	cr_assert_eq(guest->reason, reason, "closed: %s",
		     strerror(-guest->reason));
	for (unsigned int i = 1; i < RECVS; i++) {
		cr_assert_eq(guest->recvs[i].done, 1);
		cr_assert_neq(guest->recvs[i].status, 0);
	}
}

void site_end(struct site *site, struct peer *peer)
{
	peer_close(peer);
	site_close(site);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iwarp_site.h - an ordinary user of the iWARP fabric, for tests against a
 * peer that is not the fabric (iwarp_peer.h)
 *
 * A site listens, accepts who comes as a guest with a few Receives posted, and
 * lends a window of its arena to one of them.  It remembers what its memory
 * held, so that a test can say that no byte has changed.
 */
#ifndef TESTS_COMMON_IWARP_SITE_H
#define TESTS_COMMON_IWARP_SITE_H

#include "libproto/base.h"
#include "libproto/fabric.h"
#include "tests/common/iwarp_peer.h"

#include <criterion/criterion.h>

enum {
	ARENA_SIZE = 8 << 20,
	LENT = 1 << 20,		/* where the window lies in the arena */
	LENT_SIZE = 64 << 10,
	RECVS_AT = 7 << 20,	/* Receives land here */
	RECV_SIZE = 1024,
	RECVS = 4,
	GUESTS = 4,
	READS_IN = 4,
};

enum { BOTH_RIGHTS = RF_REMOTE_READ | RF_REMOTE_WRITE };

struct record {
	struct rf_op op;
	unsigned int done;
	int status;
	uint32_t size, inv_key;
};

struct site;
struct guest {
	struct site *site;
	struct rf_ep *ep;
	unsigned int connected, closed;
	int reason;
	struct record recvs[RECVS], send, work;
};

struct site {
	struct rf_fabric *fab;
	struct rf_pd *pd;
	struct rf_poller *poller;
	struct rf_listener *listener;
	struct sockaddr_storage addr;
	uint8_t *arena, *before;
	struct rf_mr *mr;
	struct rf_window *window;
	struct rf_remote lent;
	struct guest guests[GUESTS];
	unsigned int guest_count;
};

/* ---- the site ---------------------------------------------------------- */

#define site_until(site, condition)					\
	do {								\
		uint64_t since_ns = rf_now_ns();			\
		while (!(condition)) {					\
			cr_assert_lt(rf_now_ns() - since_ns,		\
				     PEER_PATIENCE_MS * 1000000ull,	\
				     "in vain: %s", #condition);	\
			rf_poller_wait((site)->poller, 64, 10);		\
		}							\
	} while (0)

void site_open(struct site *site, const char *uri);
/* Closes what is open, and checks that each op was done once. */
void site_close(struct site *site);
/* For peer_init(). */
void site_idle(void *context);
void site_is_unchanged(const struct site *site);
extern const struct rf_ep_events site_events;
struct rf_ep_config site_config(const struct site *site);
/* The next free guest; RECVS Receives for it. */
struct guest *site_next_guest(struct site *site, struct rf_recv *recvs);
void site_post(struct guest *guest, struct rf_work *work);
void site_send(struct guest *guest, const void *data, uint32_t size);
void site_unbind(struct site *site, struct guest *guest);
/* Lend the window and tell its key over the connection. */
void site_lend(struct site *site, struct guest *guest, uint32_t size,
	       unsigned int access);

/* ---- both -------------------------------------------------------------- */

/* What the peer was told; its first word comes before. */
struct rf_remote peer_learn_key(struct peer *peer);
/* Connect the peer, and let it say its first word. */
struct guest *site_join(struct site *site, struct peer *peer);
/* A site, a peer, and a window of LENT_SIZE lent to it. */
struct rf_remote site_lent(struct site *site, struct peer *peer,
			   unsigned int access);
uint32_t peer_terminate_code(struct peer *peer);
/* The peer is told the code, the connection ends on both sides. */
void peer_expect_refusal(struct peer *peer, struct guest *guest, uint32_t code,
			 int reason);
void site_end(struct site *site, struct peer *peer);

#endif /* TESTS_COMMON_IWARP_SITE_H */

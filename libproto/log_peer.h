/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_peer.h - the log's lines that a peer can cause before it has proved anything
 *
 * A line each would let anybody fill the disk. So of one address (IPv6: of a /64)
 * there are no more than RF_LOG_PEER_LINES in a minute, and of all together no more
 * than RF_LOG_PEERS_LINES. The last one says that what follows is only counted, and
 * the first after that minute how much it was.
 *
 * Threads.  [any]
 */
#ifndef RF_LOG_PEER_H
#define RF_LOG_PEER_H

#include "base.h"

#include <sys/socket.h>

enum {
	RF_LOG_PEER_MS = 60 * 1000,
	/* Some 130 bytes each: 150 kB an hour. */
	RF_LOG_PEER_LINES = 20,
	/* 1.5 MB an hour, however many they are. */
	RF_LOG_PEERS_LINES = 200,
	/* Addresses known at once; the one that was silent for longest makes room. */
	RF_LOG_PEERS = 64,
};

void rf_log_peer(enum rf_log_level level, const struct sockaddr *peer,
		 const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif /* RF_LOG_PEER_H */

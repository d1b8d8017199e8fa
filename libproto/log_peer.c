/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_peer.c - a quota of lines for each peer, and one for all of them
 */
#include "log_peer.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>

/* Lines since a moment. */
struct quota {
	uint64_t since_ns;	/* 0: never */
	unsigned int lines;
	unsigned int unsaid;	/* in the time before, too, until it is said */
};

struct talker {
	uint8_t who[16];
	uint64_t last_ns;
	struct quota quota;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* of all below */
static struct talker talkers[RF_LOG_PEERS];
static struct quota everybody;

static void who_of(const struct sockaddr *addr, uint8_t who[16])
{
	memset(who, 0, 16);
	if (addr->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, addr, sizeof(in));
		memset(who + 10, 0xff, 2);
		memcpy(who + 12, &in.sin_addr, 4);
	} else if (addr->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;

		memcpy(&in6, addr, sizeof(in6));
		memcpy(who, &in6.sin6_addr,
		       IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr) ? 16 : 8);
	}
}

static struct talker *find(const uint8_t who[16], uint64_t now_ns)
{
	struct talker *oldest = &talkers[0];

	for (unsigned int i = 0; i < RF_LOG_PEERS; i++) {
		struct talker *talker = &talkers[i];

		if (talker->last_ns && memcmp(talker->who, who, 16) == 0) {
			talker->last_ns = now_ns;
			return talker;
		}
		if (talker->last_ns < oldest->last_ns)
			oldest = talker;
	}
	*oldest = (struct talker){ .last_ns = now_ns };
	memcpy(oldest->who, who, 16);
	return oldest;
}

/* Has it room for a line? */
static bool may_say(struct quota *quota, unsigned int most, uint64_t now_ns)
{
	if (quota->since_ns == 0 ||
	    now_ns - quota->since_ns >= RF_LOG_PEER_MS * UINT64_C(1000000)) {
		quota->since_ns = now_ns;
		quota->lines = 0;
	}
	return quota->lines < most;
}

/* The words behind a line of it. */
static void say(struct quota *quota, unsigned int most, const char *whose,
		char *out, size_t size)
{
	int used = 0;

	out[0] = '\0';
	if (quota->unsaid)
		used = snprintf(out, size, " (and %u more like it of %s, which "
				"were not logged)", quota->unsaid, whose);
	quota->unsaid = 0;
	if (++quota->lines == most)
		snprintf(out + used, size - (size_t)used, " (what comes of %s "
			 "for up to a minute is only counted)", whose);
}

enum { NOTE_SIZE = 200 };

/* False: it is only counted. */
static bool take(const struct sockaddr *peer, char notes[2][NOTE_SIZE])
{
	uint64_t now_ns = rf_now_ns();
	struct talker *talker;
	uint8_t who[16];

	who_of(peer, who);
	talker = find(who, now_ns);
	if (!may_say(&talker->quota, RF_LOG_PEER_LINES, now_ns)) {
		talker->quota.unsaid++;
		return false;
	}
	if (!may_say(&everybody, RF_LOG_PEERS_LINES, now_ns)) {
		everybody.unsaid++;
		return false;
	}
	say(&talker->quota, RF_LOG_PEER_LINES, "this address", notes[0],
	    NOTE_SIZE);
	say(&everybody, RF_LOG_PEERS_LINES, "all addresses", notes[1],
	    NOTE_SIZE);
	return true;
}

void rf_log_peer(enum rf_log_level level, const struct sockaddr *peer,
		 const char *format, ...)
{
	char notes[2][NOTE_SIZE], text[600];
	va_list args;
	bool may;

	pthread_mutex_lock(&lock);
	may = take(peer, notes);
	pthread_mutex_unlock(&lock);
	if (!may)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	rf_log(level, "%s%s%s", text, notes[0], notes[1]);
}

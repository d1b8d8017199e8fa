/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - what the operator asked for: command line and INI file
 *
 * Both speak the same words: an option --KEY VALUE is a line "KEY = VALUE" under
 * [server], and --export NAME=SUBDIR,... may also be written as a section
 * [export NAME].  The command line wins over the file.
 *
 * Errors.  Said once on stderr, with the place (option, or file and line) and
 * what would be right.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include "access.h"

#include "libproto/base.h"
#include "libproto/hello.h"

enum {
	CONFIG_LISTENS_MAX = 8,
	CONFIG_EXPORTS_MAX = 64,
	CONFIG_NETS_MAX = 16,		/* allowed networks of one export */
	CONFIG_TEXT_MAX = 4095,		/* a path */
	CONFIG_LISTEN_MAX = 300,
	CONFIG_SCHEME_MAX = 15,
};

#define CONFIG_UNSET UINT32_MAX

struct listen_config {
	char text[CONFIG_LISTEN_MAX + 1];	/* as given */
	char scheme[CONFIG_SCHEME_MAX + 1];
	char host[CONFIG_LISTEN_MAX + 1];	/* without brackets */
	char port[8];
	bool is_wish;		/* of any: left out if it can't be had */
};

struct export_config {
	char name[RF_EXPORT_MAX + 1];
	char path[CONFIG_TEXT_MAX + 1];	/* within the store; "" is all of it */
	bool is_read_only;
	bool squashes_root;
	struct net allow[CONFIG_NETS_MAX];
	unsigned int allow_count;	/* 0: from everywhere */
};

struct config {
	struct listen_config listens[CONFIG_LISTENS_MAX];
	unsigned int listen_count;
	struct export_config *exports;	/* CONFIG_EXPORTS_MAX of them */
	unsigned int export_count;
	char store[CONFIG_TEXT_MAX + 1];
	char key_file[CONFIG_TEXT_MAX + 1];	/* "": none */
	bool is_insecure;
	bool is_strict;			/* durability=strict */
	bool uses_crc;
	uint64_t staging;		/* bytes, of all sessions */
	uint64_t session_staging;	/* bytes, of one; 0: half of staging */
	uint64_t reserve;		/* bytes kept free on the store's disk */
	uint64_t slice_staging;		/* bytes, of one slice (slice.h) */
	uint32_t slices;		/* of each device without windows */
	uint32_t sessions;
	uint32_t greeters;		/* connections without HELLO */
	uint32_t opens;			/* of one session */
	uint32_t slots;			/* requests in flight, of one session */
	uint32_t workers;
	uint64_t reactor_store;		/* bytes in one turn; workers the rest */
	uint32_t poll_us;
	uint32_t send_depth;		/* work queue of each connection */
	uint32_t cq_count, cq_usec;	/* completion moderation */
	uint32_t tos, gid_index;	/* CONFIG_UNSET: as the system does */
	uint32_t inline_max;
	uint32_t hello_ms;		/* from connect to HELLO */
	uint32_t keepalive_ms;
	uint32_t grant_ms;		/* then memory is taken back; 0: never */
	uint32_t lease_ms;		/* a session without a connection lives
					 * so long */
	uint32_t grace_ms;		/* after a start; 0: as lease_ms */
	enum rf_log_level log_level;
	bool wants_doctor;		/* judge this host, serve nothing */
	uint32_t doctor_watch_s;
};

/* The defaults.  -ENOMEM. */
int config_init(struct config *config);
void config_fini(struct config *config);

/*
 * Parse the command line, and the file that it names.
 *
 * 0; CONFIG_SAID when --help or --version was answered on stdout; -EINVAL when
 * something is wrong, and said.
 */
enum { CONFIG_SAID = 1 };
int config_parse(struct config *config, int argc, char **argv);

/*
 * Take one word of configuration; place is where it was found, for the message
 * on stderr.  -EINVAL: said.
 */
int config_set(struct config *config, const char *place, const char *key,
	       const char *value);

/* The same for a word of an export, made if it is new. */
int config_set_export(struct config *config, const char *place,
		      const char *name, const char *key, const char *value);
int config_read_file(struct config *config, const char *path);

/* What only shows when all is known (something missing, does not fit). */
int config_check(struct config *config);

/* "64 MiB", "1g", "4096" -> bytes. */
int config_parse_size(const char *text, uint64_t *out);

#endif /* CONFIG_H */

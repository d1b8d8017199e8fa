/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c - the source and the -o list of a mount, taken apart
 *
 * Operation.  One table names every option, where its value goes and its
 * limits.  What mount(8) and fstab add for themselves is known and ignored;
 * any other word is an error, since a misspelt option that does nothing is
 * worse than a mount that fails.
 *
 * When it fails.  -EINVAL and a text that names the word.  Pure: no file and
 * no name server is asked here.
 */
#include "client.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { KIB = 1024, MIB = 1024 * 1024 };

void options_init(struct mount_options *options)
{
	*options = (struct mount_options){
		.port = RF_DEFAULT_PORT,
		.allow_other = geteuid() == 0,
		.mount_timeo_ms = 10 * 1000,
		.timeo_ms = 60 * 1000,
		.rpc_timeo_ms = 60 * 1000,
		.memory = 64 * MIB,
		.inline_max = RF_INLINE_DEFAULT,
		.write_block = 128 * KIB,
		.write_part = 256 * KIB,
		.read_depth = 16,
		.send_depth = 512,
		/*
		 * One queue takes the completions of both directions: of the
		 * 8 to 16 that are usual for writing and 4 to 8 for reading,
		 * what both have.  4 us are the most that a lone one waits.
		 */
		.cq_count = 8,
		.cq_usec = 4,
		.tos = -1,
		.gid_index = -1,
		.slots = 64,
		.write_slots = 16,
		.read_ahead = 2048,
		.log_level = RF_LOG_INFO,
	};
}

__attribute__((format(printf, 2, 3)))
static int wrong(char error[OPTIONS_ERROR_MAX], const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error, OPTIONS_ERROR_MAX, format, args);
	va_end(args);
	return -EINVAL;
}

/* ---- the source ---------------------------------------------------------- */

/* Copy size bytes and a NUL, if they fit. */
static bool take(char *out, size_t room, const char *from, size_t size)
{
	if (size >= room)
		return false;
	memcpy(out, from, size);
	out[size] = 0;
	return true;
}

/* "iwarp://HOST..." -> "iwarp"; gives what follows. */
static const char *take_scheme(struct mount_options *options,
			       const char *source)
{
	const char *end = strstr(source, "://");

	options->scheme[0] = 0;
	if (!end)
		return source;
	for (const char *at = source; at < end; at++)
		if (!isalnum((unsigned char)*at))
			return NULL;
	if (end == source || !take(options->scheme, sizeof(options->scheme),
				   source, (size_t)(end - source)))
		return NULL;
	return end + 3;
}

/* "HOST" or "[ADDRESS]"; gives what follows. */
static const char *take_host(struct mount_options *options, const char *at)
{
	bool is_bracketed = *at == '[';
	size_t size;

	if (is_bracketed) {
		at++;
		size = strcspn(at, "]/");
		if (at[size] != ']')
			return NULL;
	} else {
		size = strcspn(at, ":/");
	}
	if (size == 0 ||
	    !take(options->host, sizeof(options->host), at, size))
		return NULL;
	return at + size + is_bracketed;
}

/* ":PORT", ":" (as NFS users type) or nothing; gives what follows. */
static const char *take_port(struct mount_options *options, const char *at)
{
	unsigned long port = 0;

	options->port = RF_DEFAULT_PORT;
	if (*at != ':')
		return at;
	at++;
	if (!isdigit((unsigned char)*at))
		return at;
	for (; isdigit((unsigned char)*at); at++) {
		port = port * 10 + (unsigned long)(*at - '0');
		if (port > UINT16_MAX)
			return NULL;
	}
	if (port == 0)
		return NULL;
	options->port = (uint16_t)port;
	return at;
}

/* "/EXPORT" or "/EXPORT/". */
static bool take_export(struct mount_options *options, const char *at)
{
	size_t size;

	if (*at != '/')
		return false;
	at++;
	size = strlen(at);
	while (size > 0 && at[size - 1] == '/')
		size--;
	return size > 0 &&
	       take(options->export, sizeof(options->export), at, size);
}

/* "[FABRIC://]HOST[:PORT]"; gives what follows, or NULL and the error. */
static const char *take_server(struct mount_options *options,
			       const char *source,
			       char error[OPTIONS_ERROR_MAX])
{
	const char *at = source;
	const char *host;

	if (!take(options->source, sizeof(options->source), source,
		  strlen(source))) {
		wrong(error, "the source is longer than %zu bytes",
		      sizeof(options->source) - 1);
		return NULL;
	}
	at = take_scheme(options, at);
	if (!at) {
		wrong(error, "%s: no fabric in front of '://'", source);
		return NULL;
	}
	host = at;
	at = take_host(options, at);
	if (!at) {
		wrong(error, "%s: no host; write "
		      "[FABRIC://]HOST[:PORT]/EXPORT", source);
		return NULL;
	}
	at = take_port(options, at);
	if (!at) {
		wrong(error, "%s: a port is 1 to 65535", source);
		return NULL;
	}
	if (*host == '[' || *at != ':')
		return at;
	wrong(error, "%s: write an IPv6 address in brackets, as in "
	      "[::1]/EXPORT", source);
	return NULL;
}

int options_set_source(struct mount_options *options, const char *source,
		       char error[OPTIONS_ERROR_MAX])
{
	const char *at = take_server(options, source, error);

	if (!at)
		return -EINVAL;
	if (!take_export(options, at))
		return wrong(error, "%s: no export; write "
			     "[FABRIC://]HOST[:PORT]/EXPORT", source);
	return 0;
}

int options_set_server(struct mount_options *options, const char *server,
		       char error[OPTIONS_ERROR_MAX])
{
	const char *at = take_server(options, server, error);

	if (!at)
		return -EINVAL;
	options->export[0] = 0;
	if (*at && strcmp(at, "/") != 0 && !take_export(options, at))
		return wrong(error, "%s: write [FABRIC://]HOST[:PORT][/EXPORT]",
			     server);
	return 0;
}

/* ---- the -o list --------------------------------------------------------- */

enum kind {
	KIND_IGNORED,
	KIND_ON, KIND_OFF,	/* bool */
	KIND_U16, KIND_U32,
	KIND_BYTES32, KIND_BYTES64,	/* with K, M or G */
	KIND_DURATION,		/* seconds, or with s or ms -> u32 ms */
	KIND_PATH,
	KIND_LEVEL,
	KIND_ADDRESS,		/* in numbers -> sockaddr_storage */
};

struct known_option {
	const char *name;
	enum kind kind;
	size_t at;
	uint64_t min, max;
};

#define AT(member) offsetof(struct mount_options, member)

static const struct known_option known[] = {
	{ "ro", KIND_ON, AT(is_read_only), 0, 0 },
	{ "rw", KIND_OFF, AT(is_read_only), 0, 0 },
	{ "allow_other", KIND_ON, AT(allow_other), 0, 0 },
	{ "noallow_other", KIND_OFF, AT(allow_other), 0, 0 },
	/* mount(8) keeps dev and suid for itself, being its defaults. */
	{ "allow_dev", KIND_ON, AT(allow_dev), 0, 0 },
	{ "allow_suid", KIND_ON, AT(allow_suid), 0, 0 },
	{ "dev", KIND_ON, AT(allow_dev), 0, 0 },
	{ "nodev", KIND_OFF, AT(allow_dev), 0, 0 },
	{ "suid", KIND_ON, AT(allow_suid), 0, 0 },
	{ "nosuid", KIND_OFF, AT(allow_suid), 0, 0 },
	{ "noexec", KIND_ON, AT(no_exec), 0, 0 },
	{ "exec", KIND_OFF, AT(no_exec), 0, 0 },
	{ "noatime", KIND_ON, AT(no_atime), 0, 0 },
	{ "atime", KIND_OFF, AT(no_atime), 0, 0 },
	{ "relatime", KIND_OFF, AT(no_atime), 0, 0 },
	{ "nodiratime", KIND_ON, AT(no_diratime), 0, 0 },
	{ "diratime", KIND_OFF, AT(no_diratime), 0, 0 },
	{ "strictatime", KIND_ON, AT(is_strict_atime), 0, 0 },
	{ "nostrictatime", KIND_OFF, AT(is_strict_atime), 0, 0 },
	{ "remount", KIND_ON, AT(is_remount), 0, 0 },

	{ "supervisor", KIND_OFF, AT(no_supervisor), 0, 0 },
	{ "nosupervisor", KIND_ON, AT(no_supervisor), 0, 0 },
	{ "no_resend", KIND_ON, AT(no_resend), 0, 0 },
	{ "key", KIND_PATH, AT(key_file), 0, 0 },
	/* A day, so that milliseconds fit and a typing error does not. */
	{ "mount_timeo", KIND_DURATION, AT(mount_timeo_ms), 1, 86400000 },
	{ "hard", KIND_OFF, AT(is_soft), 0, 0 },
	{ "soft", KIND_ON, AT(is_soft), 0, 0 },
	{ "timeo", KIND_DURATION, AT(timeo_ms), 1, 86400000 },
	{ "rpc_timeo", KIND_DURATION, AT(rpc_timeo_ms), 1, 86400000 },
	{ "memory", KIND_BYTES64, AT(memory), 8ull * MIB, 1024ull * 1024 * MIB },
	{ "huge_pages", KIND_ON, AT(wants_huge_pages), 0, 0 },
	{ "inline_max", KIND_BYTES32, AT(inline_max), 512, 64 * KIB },
	{ "read_block", KIND_BYTES32, AT(read_block), 4 * KIB, MIB },
	{ "write_block", KIND_BYTES32, AT(write_block), 4 * KIB, MIB },
	{ "write_part", KIND_BYTES32, AT(write_part), 64 * KIB, MIB },
	{ "read_depth", KIND_U16, AT(read_depth), 1, 1024 },
	{ "send_depth", KIND_U16, AT(send_depth), 16, 4096 },
	{ "slots", KIND_U16, AT(slots), 1, 1024 },
	{ "write_slots", KIND_U16, AT(write_slots), 1, 256 },
	{ "read_ahead", KIND_U32, AT(read_ahead), 0, 1024 * 1024 },
	{ "max_inodes", KIND_U32, AT(max_inodes), 2, 1 << 24 },
	{ "poll_us", KIND_U32, AT(poll_us), 0, 1000000 },
	{ "cq_count", KIND_U16, AT(cq_count), 1, 1024 },
	{ "cq_usec", KIND_U16, AT(cq_usec), 0, 4095 },
	{ "tos", KIND_U16, AT(tos), 0, RF_TRAFFIC_CLASS_MAX },
	{ "gid_index", KIND_U16, AT(gid_index), 0, RF_GID_INDEX_MAX },
	{ "source", KIND_ADDRESS, AT(from), 0, 0 },
	{ "no_pipeline", KIND_ON, AT(no_pipeline), 0, 0 },
	{ "no_crc", KIND_ON, AT(no_crc), 0, 0 },
	{ "log", KIND_LEVEL, AT(log_level), 0, 0 },

	/* For mount(8), fstab and systemd; so is x-ANYTHING. */
	{ "defaults", KIND_IGNORED, 0, 0, 0 },
	{ "auto", KIND_IGNORED, 0, 0, 0 },
	{ "noauto", KIND_IGNORED, 0, 0, 0 },
	{ "user", KIND_IGNORED, 0, 0, 0 },
	{ "users", KIND_IGNORED, 0, 0, 0 },
	{ "nouser", KIND_IGNORED, 0, 0, 0 },
	{ "owner", KIND_IGNORED, 0, 0, 0 },
	{ "group", KIND_IGNORED, 0, 0, 0 },
	{ "_netdev", KIND_IGNORED, 0, 0, 0 },
	{ "nofail", KIND_IGNORED, 0, 0, 0 },
	{ "async", KIND_IGNORED, 0, 0, 0 },
	/* The server keeps times of access in its log, and syncs none. */
	{ "lazytime", KIND_IGNORED, 0, 0, 0 },
	{ "nolazytime", KIND_IGNORED, 0, 0, 0 },
	{ "comment", KIND_IGNORED, 0, 0, 0 },
	/* What the kernel shows of a mount, and a remount gives back. */
	{ "default_permissions", KIND_IGNORED, 0, 0, 0 },
	{ "user_id", KIND_IGNORED, 0, 0, 0 },
	{ "group_id", KIND_IGNORED, 0, 0, 0 },
};

static const struct known_option *find_option(const char *name)
{
	static const struct known_option ignored = { .kind = KIND_IGNORED };

	if (strncmp(name, "x-", 2) == 0 || strncmp(name, "X-", 2) == 0)
		return &ignored;
	for (size_t i = 0; i < RF_ARRAY_SIZE(known); i++)
		if (strcmp(known[i].name, name) == 0)
			return &known[i];
	return NULL;
}

/* Digits, then unit; gives the unit's place, or NULL. */
static const char *take_number(const char *text, uint64_t *out)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return NULL;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return errno ? NULL : end;
}

static bool scale(uint64_t *value, uint64_t factor)
{
	return !__builtin_mul_overflow(*value, factor, value);
}

static bool take_bytes(const char *text, uint64_t *out)
{
	static const char units[] = "KMG";
	const char *unit = take_number(text, out);
	const char *found;

	if (!unit)
		return false;
	if (!*unit)
		return true;
	found = strchr(units, toupper((unsigned char)*unit));
	if (!found || unit[1])
		return false;
	return scale(out, 1ull << (10 * (found - units + 1)));
}

static bool take_duration(const char *text, uint64_t *out)
{
	const char *unit = take_number(text, out);

	if (!unit)
		return false;
	if (strcmp(unit, "ms") == 0)
		return true;
	if (*unit && strcmp(unit, "s") != 0)
		return false;
	return scale(out, 1000);
}

static bool take_value(enum kind kind, const char *text, uint64_t *out)
{
	const char *end;

	switch (kind) {
	case KIND_BYTES32:
	case KIND_BYTES64:
		return take_bytes(text, out);
	case KIND_DURATION:
		return take_duration(text, out);
	default:
		end = take_number(text, out);
		return end && !*end;
	}
}

static const char *what_is_taken(enum kind kind)
{
	switch (kind) {
	case KIND_BYTES32:
	case KIND_BYTES64:
		return "a number of bytes, which may end in K, M or G";
	case KIND_DURATION:
		return "a number of seconds, or of milliseconds with ms";
	default:
		return "a number";
	}
}

static int set_number(struct mount_options *options,
		      const struct known_option *option, const char *text,
		      char error[OPTIONS_ERROR_MAX])
{
	void *at = (char *)options + option->at;
	uint64_t value;

	if (!take_value(option->kind, text, &value))
		return wrong(error, "option %s=%s: takes %s", option->name,
			     text, what_is_taken(option->kind));
	if (value < option->min || value > option->max)
		return wrong(error, "option %s=%s: must be %" PRIu64 " to %"
			     PRIu64 "%s", option->name, text, option->min,
			     option->max,
			     option->kind == KIND_DURATION ? " ms" : "");
	switch (option->kind) {
	case KIND_U16:
		*(uint16_t *)at = (uint16_t)value;
		break;
	case KIND_BYTES64:
		*(uint64_t *)at = value;
		break;
	default:
		*(uint32_t *)at = (uint32_t)value;
	}
	return 0;
}

/* IPv4, IPv6, IPv6%INTERFACE. */
static bool take_address(const char *text, struct sockaddr_storage *out)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST };
	struct addrinfo *found;

	if (getaddrinfo(text, NULL, &hints, &found) != 0)
		return false;
	*out = (struct sockaddr_storage){ .ss_family = AF_UNSPEC };
	memcpy(out, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return true;
}

static int set_word(struct mount_options *options,
		    const struct known_option *option, const char *text,
		    char error[OPTIONS_ERROR_MAX])
{
	if (option->kind == KIND_ADDRESS) {
		if (take_address(text, &options->from))
			return 0;
		return wrong(error, "option source=%s: takes an address of "
			     "this host, in numbers", text);
	}
	if (option->kind == KIND_LEVEL) {
		if (rf_log_parse_level(text, &options->log_level) == 0)
			return 0;
		return wrong(error, "option log=%s: takes error, warn, info or "
			     "debug", text);
	}
	if (*text && take((char *)options + option->at,
			  sizeof(options->key_file), text, strlen(text)))
		return 0;
	return wrong(error, "option %s: takes the name of a file",
		     option->name);
}

static int set_option(struct mount_options *options, char *word,
		      char error[OPTIONS_ERROR_MAX])
{
	char *text = strchr(word, '=');
	const struct known_option *option;
	bool takes_text;

	if (text)
		*text++ = 0;
	option = find_option(word);
	if (!option)
		return wrong(error, "unknown option '%s'", word);
	if (option->kind == KIND_IGNORED)
		return 0;
	takes_text = option->kind != KIND_ON && option->kind != KIND_OFF;
	if (takes_text && !text)
		return wrong(error, "option %s needs a value: %s=...", word,
			     word);
	if (!takes_text && text)
		return wrong(error, "option %s takes no value", word);
	if (!text) {
		*(bool *)((char *)options + option->at) =
			option->kind == KIND_ON;
		return 0;
	}
	if (option->kind == KIND_PATH || option->kind == KIND_LEVEL ||
	    option->kind == KIND_ADDRESS)
		return set_word(options, option, text, error);
	return set_number(options, option, text, error);
}

int options_parse(struct mount_options *options, const char *list,
		  char error[OPTIONS_ERROR_MAX])
{
	char *copy = strdup(list), *rest = copy, *word;
	int err = 0;

	if (!copy)
		return wrong(error, "out of memory");
	while (err == 0 && (word = strsep(&rest, ",")) != NULL)
		if (*word)
			err = set_option(options, word, error);
	free(copy);
	return err;
}

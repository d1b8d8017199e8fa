/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.c - the words of the configuration and their values
 *
 * Operation.  One table has a line per word; numbers are checked against its
 * limits, the few others have a function.  config_args.c and config_file.c feed
 * it.
 */
#include "config.h"

#include "staging.h"
#include "store.h"

#include "libproto/fabric.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define MIB (UINT64_C(1) << 20)

__attribute__((format(printf, 2, 3)))
static int complain(const char *place, const char *format, ...)
{
	char text[CONFIG_TEXT_MAX + 512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "rdmafsd: %s: %s\n", place, text);
	return -EINVAL;
}

int config_init(struct config *config)
{
	*config = (struct config){
		.uses_crc = true,
		.staging = 64 * MIB,
		.reserve = STORE_RESERVE_AUTO,
		.slice_staging = 8 * MIB,
		.slices = 16,
		.sessions = 64,
		.greeters = 256,
		.opens = 65536,
		.slots = 64,
		.workers = 4,
		.reactor_store = MIB,
		.send_depth = 1024,
		.cq_count = 8,
		.cq_usec = 4,
		.tos = CONFIG_UNSET,
		.gid_index = CONFIG_UNSET,
		.inline_max = RF_INLINE_DEFAULT,
		.hello_ms = 5000,
		.keepalive_ms = 15000,
		.grant_ms = 30000,
		.lease_ms = 60000,
		.log_level = RF_LOG_INFO,
	};
	config->exports = calloc(CONFIG_EXPORTS_MAX, sizeof(*config->exports));
	return config->exports ? 0 : -ENOMEM;
}

void config_fini(struct config *config)
{
	free(config->exports);
	config->exports = NULL;
}

/* ---- numbers ------------------------------------------------------------ */

static int unit_shift(const char *unit)
{
	static const char letters[] = "kmgt";
	const char *at;

	while (*unit == ' ')
		unit++;
	if (*unit == '\0' || strcasecmp(unit, "b") == 0)
		return 0;
	at = strchr(letters, *unit | 0x20);
	if (!at || *at == '\0')
		return -1;
	if (unit[1] != '\0' && strcasecmp(unit + 1, "ib") != 0)
		return -1;
	return 10 * (int)(at - letters + 1);
}

int config_parse_size(const char *text, uint64_t *out)
{
	unsigned long long value;
	char *end;
	int shift;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	shift = unit_shift(end);
	if (errno || shift < 0 || value > (UINT64_MAX >> shift))
		return -EINVAL;
	*out = (uint64_t)value << shift;
	return 0;
}

/* ---- words with a meaning of their own ---------------------------------- */

static int copy_text(const char *place, const char *key, const char *value,
		     char *out, size_t room)
{
	if (*value == '\0')
		return complain(place, "%s needs a value", key);
	if (strlen(value) >= room)
		return complain(place, "%s is longer than %zu bytes", key,
				room - 1);
	memcpy(out, value, strlen(value) + 1);
	return 0;
}

static int split_host_port(struct listen_config *listen, const char *rest)
{
	const char *host = rest, *end, *port;

	if (*rest == '[') {
		host = rest + 1;
		end = strchr(host, ']');
		if (!end || (end[1] != ':' && end[1] != '\0'))
			return -EINVAL;
		port = end[1] == ':' ? end + 2 : "";
	} else {
		end = strrchr(rest, ':');
		port = end ? end + 1 : "";
		if (!end)
			end = rest + strlen(rest);
		if (memchr(rest, ':', (size_t)(end - rest)))
			return -EINVAL;	/* IPv6 without brackets */
	}
	if (end == host || strlen(port) > 5 ||
	    strspn(port, "0123456789") != strlen(port) || atoi(port) > 65535)
		return -EINVAL;
	snprintf(listen->host, sizeof(listen->host), "%.*s", (int)(end - host),
		 host);
	if (*port)
		snprintf(listen->port, sizeof(listen->port), "%.5s", port);
	else
		snprintf(listen->port, sizeof(listen->port), "%d",
			 RF_DEFAULT_PORT);
	return 0;
}

static int set_listen(struct config *config, const char *place,
		      const char *value)
{
	const char *colon;
	struct listen_config *listen;
	size_t scheme_size;

	if (strcmp(value, "any") == 0)
		value = "any://[::]";
	colon = strstr(value, "://");
	scheme_size = colon ? (size_t)(colon - value) : 0;
	if (config->listen_count == CONFIG_LISTENS_MAX)
		return complain(place, "more than %d listen addresses",
				CONFIG_LISTENS_MAX);
	listen = &config->listens[config->listen_count];
	if (strlen(value) > CONFIG_LISTEN_MAX ||
	    scheme_size > CONFIG_SCHEME_MAX || scheme_size == 0)
		goto bad;
	*listen = (struct listen_config){ .is_wish = false };
	memcpy(listen->text, value, strlen(value) + 1);
	memcpy(listen->scheme, value, scheme_size);
	if (split_host_port(listen, colon + 3) < 0)
		goto bad;
	config->listen_count++;
	return 0;
bad:
	return complain(place, "listen address '%s' is not like "
			"iwarp://ADDRESS:PORT, verbs://ADDRESS:PORT or any "
			"(IPv6 in brackets: iwarp://[::]:%d)", value,
			RF_DEFAULT_PORT);
}

static int set_reactors(struct config *config, const char *place,
			const char *value)
{
	(void)config;
	if (strcmp(value, "1") == 0)
		return 0;
	return complain(place, "reactors is '%s', but this version runs one "
			"reactor: leave it out, or say 1", value);
}

static int set_durability(struct config *config, const char *place,
			  const char *value)
{
	if (strcmp(value, "normal") != 0 && strcmp(value, "strict") != 0)
		return complain(place, "durability is '%s', but may be normal "
				"or strict", value);
	config->is_strict = value[0] == 's';
	return 0;
}

static int set_log_level(struct config *config, const char *place,
			 const char *value)
{
	if (rf_log_parse_level(value, &config->log_level) == 0)
		return 0;
	return complain(place, "log-level is '%s', but may be error, warn, "
			"info or debug", value);
}

static int set_store(struct config *config, const char *place,
		     const char *value)
{
	return copy_text(place, "store", value, config->store,
			 sizeof(config->store));
}

static int set_key_file(struct config *config, const char *place,
			const char *value)
{
	return copy_text(place, "key-file", value, config->key_file,
			 sizeof(config->key_file));
}

/* NAME=SUBDIR[,WORD[=VALUE]]... */
static int set_export(struct config *config, const char *place,
		      const char *value)
{
	char copy[CONFIG_TEXT_MAX + 1], *word, *rest = copy, *equals;
	int err;

	if (strlen(value) >= sizeof(copy))
		return complain(place, "export is longer than %d bytes",
				CONFIG_TEXT_MAX);
	memcpy(copy, value, strlen(value) + 1);
	word = strsep(&rest, ",");
	equals = strchr(word, '=');
	if (!equals || equals == word)
		return complain(place, "export '%s' is not like NAME=SUBDIR "
				"(NAME=/ shows the whole store)", value);
	*equals = '\0';
	err = config_set_export(config, place, word, "path", equals + 1);
	while (!err && (word = strsep(&rest, ","))) {
		const char *name = copy;

		equals = strchr(word, '=');
		if (equals)
			*equals = '\0';
		err = config_set_export(config, place, name, word,
					equals ? equals + 1 : "yes");
	}
	return err;
}

/* ---- the table ---------------------------------------------------------- */

enum word_kind { WORD_FUNCTION, WORD_U32, WORD_SIZE, WORD_SWITCH };

struct word {
	const char *key;
	enum word_kind kind;
	size_t offset;
	uint64_t least, most;
	int (*set)(struct config *config, const char *place, const char *value);
};

#define AT(member) offsetof(struct config, member)

static const struct word words[] = {
	{ "listen", WORD_FUNCTION, 0, 0, 0, set_listen },
	{ "store", WORD_FUNCTION, 0, 0, 0, set_store },
	{ "key-file", WORD_FUNCTION, 0, 0, 0, set_key_file },
	{ "export", WORD_FUNCTION, 0, 0, 0, set_export },
	{ "reactors", WORD_FUNCTION, 0, 0, 0, set_reactors },
	{ "durability", WORD_FUNCTION, 0, 0, 0, set_durability },
	{ "log-level", WORD_FUNCTION, 0, 0, 0, set_log_level },
	{ "insecure", WORD_SWITCH, AT(is_insecure), 0, 0, NULL },
	{ "crc", WORD_SWITCH, AT(uses_crc), 0, 0, NULL },
	{ "staging", WORD_SIZE, AT(staging), 4 * MIB, 64 * 1024 * MIB, NULL },
	{ "session-staging", WORD_SIZE, AT(session_staging), 4 * MIB,
	  64 * 1024 * MIB, NULL },
	{ "reserve", WORD_SIZE, AT(reserve), 0, UINT64_MAX / 2, NULL },
	{ "slice-staging", WORD_SIZE, AT(slice_staging),
	  STAGING_SESSION_LEAST, 1024 * MIB, NULL },
	{ "slices", WORD_U32, AT(slices), 1, 4096, NULL },
	{ "sessions", WORD_U32, AT(sessions), 1, 4096, NULL },
	{ "greeters", WORD_U32, AT(greeters), 1, 4096, NULL },
	{ "opens", WORD_U32, AT(opens), 1, 65536, NULL },
	{ "slots", WORD_U32, AT(slots), 1, 1024, NULL },
	/* 0: in the reactor, for simulation. */
	{ "workers", WORD_U32, AT(workers), 0, 64, NULL },
	{ "reactor-store", WORD_SIZE, AT(reactor_store), 0, 1024 * MIB, NULL },
	{ "poll-us", WORD_U32, AT(poll_us), 0, 1000000, NULL },
	/* Answers, binds and unbinds; the least is one answer of all grants. */
	{ "send-depth", WORD_U32, AT(send_depth), 64, 4096, NULL },
	{ "cq-count", WORD_U32, AT(cq_count), 1, 1024, NULL },
	{ "cq-usec", WORD_U32, AT(cq_usec), 0, 4095, NULL },
	{ "tos", WORD_U32, AT(tos), 0, RF_TRAFFIC_CLASS_MAX, NULL },
	{ "gid-index", WORD_U32, AT(gid_index), 0, RF_GID_INDEX_MAX, NULL },
	/* The most keeps the messages' class below the smallest of staging. */
	{ "inline-max", WORD_U32, AT(inline_max), 512, 32768, NULL },
	{ "hello-ms", WORD_U32, AT(hello_ms), 100, 600000, NULL },
	{ "keepalive-ms", WORD_U32, AT(keepalive_ms), 0, 3600000, NULL },
	/* HELLO_REPLY has 16 bits for it. */
	{ "grant-ms", WORD_U32, AT(grant_ms), 0, UINT16_MAX, NULL },
	{ "lease-ms", WORD_U32, AT(lease_ms), 100, 86400000, NULL },
	{ "grace-ms", WORD_U32, AT(grace_ms), 1, 86400000, NULL },
};

static int set_switch(const struct word *word, const char *place,
		      const char *value, bool *out)
{
	static const char *const yes[] = { "yes", "on", "true", "1" };
	static const char *const no[] = { "no", "off", "false", "0" };

	for (size_t i = 0; i < RF_ARRAY_SIZE(yes); i++) {
		if (strcasecmp(value, yes[i]) == 0 ||
		    strcasecmp(value, no[i]) == 0) {
			*out = strcasecmp(value, yes[i]) == 0;
			return 0;
		}
	}
	return complain(place, "%s is '%s', but may be yes or no", word->key,
			value);
}

static int set_number(const struct word *word, const char *place,
		      const char *value, uint64_t *out)
{
	uint64_t number;

	if (config_parse_size(value, &number) < 0)
		return complain(place, "%s is '%s', which is no number%s",
				word->key, value, word->kind == WORD_SIZE
				? " of bytes (64M, 1G)" : "");
	if (number < word->least || number > word->most)
		return complain(place, "%s is %s, but may be %" PRIu64 " to %"
				PRIu64, word->key, value, word->least,
				word->most);
	*out = number;
	return 0;
}

static int set_word(struct config *config, const struct word *word,
		    const char *place, const char *value)
{
	void *at = (char *)config + word->offset;
	uint64_t number = 0;
	int err;

	if (word->kind == WORD_FUNCTION)
		return word->set(config, place, value);
	if (word->kind == WORD_SWITCH)
		return set_switch(word, place, value, at);
	err = set_number(word, place, value, &number);
	if (err)
		return err;
	if (word->kind == WORD_SIZE)
		*(uint64_t *)at = number;
	else
		*(uint32_t *)at = (uint32_t)number;
	return 0;
}

int config_set(struct config *config, const char *place, const char *key,
	       const char *value)
{
	for (size_t i = 0; i < RF_ARRAY_SIZE(words); i++)
		if (strcmp(words[i].key, key) == 0)
			return set_word(config, &words[i], place, value);
	return complain(place, "there is no setting '%s' (see rdmafsd --help)",
			key);
}

/* ---- exports ------------------------------------------------------------ */

static struct export_config *find_export(struct config *config,
					 const char *name)
{
	for (unsigned int i = 0; i < config->export_count; i++)
		if (strcmp(config->exports[i].name, name) == 0)
			return &config->exports[i];
	return NULL;
}

static int add_export(struct config *config, const char *place,
		      const char *name, const char *path)
{
	struct export_config *export = &config->exports[config->export_count];

	if (find_export(config, name))
		return complain(place, "export '%s' is there twice: give each "
				"a name of its own", name);
	if (config->export_count == CONFIG_EXPORTS_MAX)
		return complain(place, "more than %d exports",
				CONFIG_EXPORTS_MAX);
	if (*name == '\0' || strlen(name) > RF_EXPORT_MAX || strchr(name, '/'))
		return complain(place, "export name '%s' must have 1 to %d "
				"bytes and no slash", name, RF_EXPORT_MAX);
	if (strlen(path) > CONFIG_TEXT_MAX)
		return complain(place, "path of export '%s' is too long", name);
	*export = (struct export_config){ .squashes_root = false };
	memcpy(export->name, name, strlen(name) + 1);
	memcpy(export->path, path, strlen(path) + 1);
	config->export_count++;
	return 0;
}

/* One network, or several divided by blanks or commas. */
static int add_networks(struct export_config *export, const char *place,
			const char *value)
{
	char copy[CONFIG_TEXT_MAX + 1], *word, *rest = copy;
	unsigned int before = export->allow_count;

	snprintf(copy, sizeof(copy), "%s", value);
	while ((word = strsep(&rest, ", \t"))) {
		if (*word == '\0')
			continue;
		if (export->allow_count == CONFIG_NETS_MAX)
			return complain(place, "export '%s' allows more than "
					"%d networks", export->name,
					CONFIG_NETS_MAX);
		if (net_parse(word, &export->allow[export->allow_count]) < 0)
			return complain(place, "export '%s' allows '%s', which "
					"is no network like 192.0.2.0/24 or "
					"2001:db8::/32", export->name, word);
		export->allow_count++;
	}
	/* Without any it would be for everybody. */
	if (export->allow_count == before)
		return complain(place, "export '%s' allows no network: leave "
				"allow out to let all come", export->name);
	return 0;
}

int config_set_export(struct config *config, const char *place,
		      const char *name, const char *key, const char *value)
{
	struct export_config *export;
	struct word word = { .key = key, .kind = WORD_SWITCH };
	bool on;
	int err;

	if (strcmp(key, "path") == 0)
		return add_export(config, place, name, value);
	export = find_export(config, name);
	if (!export)
		return complain(place, "export '%s' has no path yet: give "
				"path = SUBDIR first", name);
	if (strcmp(key, "allow") == 0)
		return add_networks(export, place, value);
	if (strcmp(key, "ro") != 0 && strcmp(key, "root-squash") != 0 &&
	    strcmp(key, "no-root-squash") != 0)
		return complain(place, "an export has no setting '%s' (it has "
				"path, ro, root-squash, no-root-squash, "
				"allow)", key);
	err = set_switch(&word, place, value, &on);
	if (err)
		return err;
	if (strcmp(key, "ro") == 0)
		export->is_read_only = on;
	else
		export->squashes_root = on == (key[0] == 'r');
	return 0;
}

/* ---- all of it ---------------------------------------------------------- */

static void add_default_listen(struct config *config)
{
	struct listen_config *listen = &config->listens[0];

	*listen = (struct listen_config){ .is_wish = false };
	snprintf(listen->text, sizeof(listen->text), "any://[::]:%d",
		 RF_DEFAULT_PORT);
	snprintf(listen->scheme, sizeof(listen->scheme), "any");
	snprintf(listen->host, sizeof(listen->host), "::");
	snprintf(listen->port, sizeof(listen->port), "%d", RF_DEFAULT_PORT);
	config->listen_count = 1;
}

int config_check(struct config *config)
{
	/* A doctor judges what is given, and the defaults. */
	if (!*config->store && !config->wants_doctor)
		return complain("configuration", "no store: say where with "
				"--store DIR");
	if (config->export_count == 0 && !config->wants_doctor)
		return complain("configuration", "no export: say what clients "
				"may mount with --export NAME=SUBDIR");
	if (config->grace_ms == 0)
		config->grace_ms = config->lease_ms;
	if (config->session_staging == 0)
		config->session_staging = rf_max_u64(config->staging / 2,
						     STAGING_SESSION_LEAST);
	if (config->session_staging > config->staging)
		return complain("configuration", "session-staging is larger "
				"than staging, of which it is a part");
	if (config->listen_count == 0)
		add_default_listen(config);
	return 0;
}

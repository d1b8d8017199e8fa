/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration: what is taken, and what is refused with which words. */
#include "storage-server/config.h"

#include "storage-server/staging.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct config config;

static void setup(void)
{
	cr_redirect_stderr();
	cr_redirect_stdout();
	cr_assert_eq(config_init(&config), 0);
}

static void teardown(void)
{
	config_fini(&config);
}

TestSuite(server_config, .init = setup, .fini = teardown);

/* The complaint must say the place and a word of the cause. */
static void said(const char *place, const char *cause)
{
	FILE *file = cr_get_redirected_stderr();
	char text[4096];
	size_t size;

	fflush(stderr);
	size = fread(text, 1, sizeof(text) - 1, file);
	text[size] = '\0';
	cr_assert_not_null(strstr(text, place), "no '%s' in: %s", place, text);
	cr_assert_not_null(strstr(text, cause), "no '%s' in: %s", cause, text);
}

#define PARSE(...)							\
	config_parse(&config, sizeof((char *[]){ "rdmafsd", __VA_ARGS__ }) / \
		     sizeof(char *), (char *[]){ "rdmafsd", __VA_ARGS__, NULL })

Test(server_config, the_usual_command_line_is_taken)
{
	cr_assert_eq(PARSE("--store", "/s", "--listen", "iwarp://127.0.0.1:0",
			   "--export", "data=sub/dir,ro,root-squash,"
			   "allow=10.0.0.0/8,allow=::1"), 0);
	cr_assert_str_eq(config.store, "/s");
	cr_assert_eq(config.listen_count, 1);
	cr_assert_str_eq(config.listens[0].scheme, "iwarp");
	cr_assert_str_eq(config.listens[0].host, "127.0.0.1");
	cr_assert_str_eq(config.listens[0].port, "0");
	cr_assert_eq(config.export_count, 1);
	cr_assert_str_eq(config.exports[0].name, "data");
	cr_assert_str_eq(config.exports[0].path, "sub/dir");
	cr_assert(config.exports[0].is_read_only);
	cr_assert(config.exports[0].squashes_root);
	cr_assert_eq(config.exports[0].allow_count, 2);
}

Test(server_config, defaults_listen_everywhere_and_halve_staging)
{
	cr_assert_eq(PARSE("--store", "/s", "--export", "d=/"), 0);
	cr_assert_eq(config.listen_count, 1);
	cr_assert_str_eq(config.listens[0].scheme, "any");
	cr_assert_str_eq(config.listens[0].host, "::");
	cr_assert_str_eq(config.listens[0].port, "20490");
	cr_assert_eq(config.session_staging, config.staging / 2);
	cr_assert_not(config.is_strict);
	cr_assert_not(config.exports[0].squashes_root);
}

Test(server_config, any_alone_is_everywhere)
{
	cr_assert_eq(PARSE("--store", "/s", "--export", "d=/", "--listen",
			   "any", "--listen", "any://127.0.0.1:0"), 0);
	cr_assert_eq(config.listen_count, 2);
	cr_assert_str_eq(config.listens[0].scheme, "any");
	cr_assert_str_eq(config.listens[0].host, "::");
	cr_assert_str_eq(config.listens[0].port, "20490");
	cr_assert_str_eq(config.listens[1].host, "127.0.0.1");
	cr_assert_str_eq(config.listens[1].port, "0");
}

Test(server_config, several_addresses_with_ipv6_in_brackets)
{
	cr_assert_eq(PARSE("--store", "/s", "--export", "d=/", "--listen",
			   "iwarp://[::1]:77", "--listen", "iwarp://host"), 0);
	cr_assert_eq(config.listen_count, 2);
	cr_assert_str_eq(config.listens[0].host, "::1");
	cr_assert_str_eq(config.listens[0].port, "77");
	cr_assert_str_eq(config.listens[1].host, "host");
	cr_assert_str_eq(config.listens[1].port, "20490");
}

static const struct bad_word {
	const char *key, *value, *cause;
} bad_words[] = {
	{ "listen", "127.0.0.1:1", "not like iwarp://" },
	{ "listen", "iwarp://::1:20490", "brackets" },
	{ "listen", "iwarp://[::1", "brackets" },
	{ "listen", "iwarp://host:99999", "not like" },
	{ "listen", "iwarp://host:1x", "not like" },
	{ "listen", "iwarp://:1", "not like" },
	{ "listen", "://host:1", "not like" },
	{ "export", "data", "NAME=SUBDIR" },
	{ "export", "=/", "NAME=SUBDIR" },
	{ "export", "d=/,rw", "no setting 'rw'" },
	{ "export", "d=/,allow=10.0.0.1/8", "no network" },
	{ "export", "d=/,allow=10.0.0.0/33", "no network" },
	{ "export", "d=/,allow=there", "no network" },
	{ "export", "d=/,allow=", "no network" },
	{ "export", "d=/,allow=  ", "no network" },
	{ "export", "a/b=/", "no slash" },
	{ "reactors", "2", "one reactor" },
	{ "durability", "some", "normal or strict" },
	{ "log-level", "loud", "error, warn, info or debug" },
	{ "staging", "12Q", "no number" },
	{ "staging", "-1", "no number" },
	{ "staging", "1M", "may be" },
	{ "sessions", "0", "may be" },
	{ "sessions", "lots", "no number" },
	{ "inline-max", "65536", "may be" },
	{ "crc", "maybe", "yes or no" },
	{ "store", "", "needs a value" },
	{ "colour", "red", "no setting 'colour'" },
};

Test(server_config, a_bad_word_is_refused_with_its_place_and_cause)
{
	for (unsigned int i = 0; i < RF_ARRAY_SIZE(bad_words); i++) {
		const struct bad_word *bad = &bad_words[i];

		config_fini(&config);
		cr_assert_eq(config_init(&config), 0);
		cr_assert_eq(config_set(&config, "somewhere", bad->key,
					bad->value), -EINVAL, "%s = %s",
			     bad->key, bad->value);
	}
	said("somewhere", bad_words[0].cause);
}

Test(server_config, each_complaint_names_its_cause)
{
	for (unsigned int i = 0; i < RF_ARRAY_SIZE(bad_words); i++) {
		const struct bad_word *bad = &bad_words[i];
		char *text = NULL;
		size_t size = 0;
		FILE *old = stderr, *memory = open_memstream(&text, &size);

		config_fini(&config);
		cr_assert_eq(config_init(&config), 0);
		stderr = memory;
		config_set(&config, "a:1", bad->key, bad->value);
		stderr = old;
		fclose(memory);
		cr_assert_not_null(strstr(text, "a:1"), "%s", text);
		cr_assert_not_null(strstr(text, bad->cause),
				   "no '%s' in: %s", bad->cause, text);
		cr_assert_eq(strchr(text, '\n'), text + size - 1,
			     "more than one line: %s", text);
		free(text);
	}
}

Test(server_config, an_unknown_option_is_refused)
{
	cr_assert_eq(PARSE("--store", "/s", "--wrong"), -EINVAL);
	said("rdmafsd", "--help");
}

Test(server_config, a_stray_word_is_refused)
{
	cr_assert_eq(PARSE("--store", "/s", "stray"), -EINVAL);
	said("stray", "--help");
}

Test(server_config, an_export_of_the_same_name_is_refused)
{
	cr_assert_eq(PARSE("--store", "/s", "--export", "a=/x", "--export",
			   "a=/y"), -EINVAL);
	said("--export", "there twice");
}

Test(server_config, a_store_is_needed)
{
	cr_assert_eq(PARSE("--export", "a=/x"), -EINVAL);
	said("configuration", "--store");
}

Test(server_config, an_export_is_needed)
{
	cr_assert_eq(PARSE("--store", "/s"), -EINVAL);
	said("configuration", "--export");
}

Test(server_config, a_session_may_not_have_more_than_there_is)
{
	cr_assert_eq(PARSE("--store", "/s", "--export", "a=/", "--staging",
			   "8M", "--session-staging", "16M"), -EINVAL);
	said("configuration", "session-staging");
}

Test(server_config, the_smallest_staging_leaves_a_session_enough)
{
	cr_assert_eq(PARSE("--store", "/s", "--export", "a=/", "--staging",
			   "4M"), 0);
	cr_assert_eq(config.session_staging, STAGING_SESSION_LEAST);
}

Test(server_config, help_and_version_are_answered)
{
	cr_assert_eq(PARSE("--help"), CONFIG_SAID);
	cr_assert_eq(PARSE("--version"), CONFIG_SAID);
}

/* ---- files -------------------------------------------------------------- */

static char path[64];

static void write_file(const char *text)
{
	int fd;

	snprintf(path, sizeof(path), "/tmp/rdmafs-config-XXXXXX");
	fd = mkstemp(path);
	cr_assert(fd >= 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static int read_text(const char *text)
{
	int err;

	write_file(text);
	err = config_read_file(&config, path);
	unlink(path);
	return err;
}

Test(server_config, a_file_says_the_same_as_options)
{
	cr_assert_eq(read_text("# a comment\n"
			       "[server]\n"
			       "store = /srv/s\n"
			       "listen = iwarp://[::]:1\n"
			       "listen = iwarp://127.0.0.1:2\n"
			       "durability = strict\n"
			       "insecure = yes\n"
			       "staging = 128 MiB\n"
			       "[export data]\n"
			       "path = /data\n"
			       "ro = yes\n"
			       "allow = 10.0.0.0/8 192.168.0.0/16, ::1\n"), 0);
	cr_assert_eq(config_check(&config), 0);
	cr_assert_eq(config.listen_count, 2);
	cr_assert(config.is_strict);
	cr_assert(config.is_insecure);
	cr_assert_eq(config.staging, 128u << 20);
	cr_assert_eq(config.exports[0].allow_count, 3);
	cr_assert(config.exports[0].is_read_only);
}

Test(server_config, the_command_line_wins_over_the_file)
{
	write_file("[server]\nstore = /a\nlisten = iwarp://h:1\n"
		   "sessions = 3\n[export d]\npath = /\n");
	cr_assert_eq(PARSE("--store", "/b", "--config", path, "--listen",
			   "iwarp://h:2"), 0);
	unlink(path);
	cr_assert_str_eq(config.store, "/b");
	cr_assert_eq(config.listen_count, 1);
	cr_assert_str_eq(config.listens[0].port, "2");
	cr_assert_eq(config.sessions, 3);
}

Test(server_config, an_unknown_key_is_told_with_file_and_line)
{
	cr_assert_eq(read_text("[server]\nstore = /a\ncolor = red\n"),
		     -EINVAL);
	said(":3", "color");
}

Test(server_config, an_unknown_section_is_told)
{
	cr_assert_eq(read_text("[client]\nstore = /a\n"), -EINVAL);
	said(":2", "[client]");
}

Test(server_config, a_line_that_is_none_is_told)
{
	cr_assert_eq(read_text("[server]\nstore\n"), -EINVAL);
	said(":2", "name = value");
}

Test(server_config, a_line_that_is_too_long_is_not_cut_silently)
{
	char text[600];

	memset(text, 'x', sizeof(text));
	memcpy(text, "[server]\nstore = /", 18);
	text[sizeof(text) - 1] = '\0';
	cr_assert_eq(read_text(text), -EINVAL);
	said(":2", "longer");
}

Test(server_config, a_missing_file_is_told)
{
	cr_assert_eq(PARSE("--config", "/does/not/exist"), -EINVAL);
	said("/does/not/exist", "No such file");
}

Test(server_config, sizes_have_units)
{
	uint64_t size;

	cr_assert_eq(config_parse_size("4096", &size), 0);
	cr_assert_eq(size, 4096);
	cr_assert_eq(config_parse_size("64 MiB", &size), 0);
	cr_assert_eq(size, 64u << 20);
	cr_assert_eq(config_parse_size("1g", &size), 0);
	cr_assert_eq(size, 1u << 30);
	cr_assert_eq(config_parse_size("2T", &size), 0);
	cr_assert_eq(size, UINT64_C(2) << 40);
	cr_assert_eq(config_parse_size("99999999999T", &size), -EINVAL);
	cr_assert_eq(config_parse_size("", &size), -EINVAL);
	cr_assert_eq(config_parse_size("1 MB2", &size), -EINVAL);
}

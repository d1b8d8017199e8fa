/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_options.c - the source and the -o list of a mount
 */
#include "fuse-client/client.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct mount_options o;
static char error[OPTIONS_ERROR_MAX];

static void setup(void)
{
	options_init(&o);
	error[0] = 0;
}

TestSuite(options, .init = setup, .timeout = 30);

static void check_source(const char *source, const char *scheme,
			 const char *host, uint16_t port, const char *export)
{
	setup();
	cr_assert_eq(options_set_source(&o, source, error), 0, "%s: %s",
		     source, error);
	cr_expect_str_eq(o.source, source);
	cr_expect_str_eq(o.scheme, scheme, "%s", source);
	cr_expect_str_eq(o.host, host, "%s", source);
	cr_expect_eq(o.port, port, "%s: %u", source, o.port);
	cr_expect_str_eq(o.export, export, "%s", source);
}

Test(options, sources_that_people_type_are_understood)
{
	check_source("server/home", "", "server", 20490, "home");
	check_source("server:/home", "", "server", 20490, "home");
	check_source("server:1234/home", "", "server", 1234, "home");
	check_source("iwarp://10.0.0.1:1/x", "iwarp", "10.0.0.1", 1, "x");
	check_source("verbs://ib0.site.example/x", "verbs", "ib0.site.example",
		     20490, "x");
	check_source("[::1]/home", "", "::1", 20490, "home");
	check_source("[fe80::1%eth0]:99/home", "", "fe80::1%eth0", 99, "home");
	check_source("iwarp://[::1]:/home", "iwarp", "::1", 20490, "home");
	check_source("server:/home/", "", "server", 20490, "home");
	check_source("server:/a b,c", "", "server", 20490, "a b,c");
}

Test(options, sources_that_mean_nothing_are_refused)
{
	static const char *const bad[] = {
		"", "/", "server", "server:", "server/", "server:/", "server://",
		":/home", "://server/home", "s p://h/e", "[::1/home", "[]/home",
		"::1/home", "server:0/home", "server:65536/home",
		"server:99999999999999999999/home", "server:12x/home",
		"iwarp://", "[::1]x/home", "abcdefghijklmnopqrst://h/e",
	};

	for (size_t i = 0; i < RF_ARRAY_SIZE(bad); i++) {
		setup();
		cr_expect_eq(options_set_source(&o, bad[i], error), -EINVAL,
			     "'%s' was taken", bad[i]);
		cr_expect(error[0], "'%s': no reason given", bad[i]);
	}
}

Test(options, sources_longer_than_their_fields_are_refused)
{
	char source[2000];

	memset(source, 'a', sizeof(source));
	source[1999] = 0;
	cr_expect_eq(options_set_source(&o, source, error), -EINVAL);
	memcpy(source, "h/", 2);
	source[2 + RF_EXPORT_MAX] = 0;
	cr_expect_eq(options_set_source(&o, source, error), 0, "%s", error);
	cr_expect_eq(strlen(o.export), RF_EXPORT_MAX);
	memset(source, 'a', sizeof(source));
	memcpy(source, "h/", 2);
	source[3 + RF_EXPORT_MAX] = 0;
	cr_expect_eq(options_set_source(&o, source, error), -EINVAL);
	memset(source, 'a', sizeof(source));
	strcpy(source + MOUNT_HOST_MAX + 1, "/x");
	cr_expect_eq(options_set_source(&o, source, error), -EINVAL);
}

Test(options, defaults_are_the_safe_ones)
{
	cr_expect_not(o.is_read_only);
	cr_expect_not(o.allow_dev);
	cr_expect_not(o.allow_suid);
	cr_expect_not(o.no_exec);
	cr_expect_eq(o.allow_other, geteuid() == 0);
	cr_expect_not(o.is_soft);
	cr_expect_eq(o.mount_timeo_ms, 10000);
	cr_expect_eq(o.timeo_ms, 60000);
	cr_expect_eq(o.rpc_timeo_ms, 60000);
	cr_expect_eq(o.memory, 64ull << 20);
	cr_expect_str_empty(o.key_file);
}

Test(options, every_kind_of_value_is_stored)
{
	cr_assert_eq(options_parse(&o, "ro,noexec,dev,suid,noatime,"
				   "nodiratime,strictatime,remount,user_id=0,"
				   "noallow_other,key=/etc/rdmafs/key,timeo=3,"
				   "soft,mount_timeo=4,"
				   "rpc_timeo=250ms,memory=1G,inline_max=8k,"
				   "read_block=256K,write_block=65536,slots=7,"
				   "write_slots=3,write_part=128K,"
				   "read_depth=9,send_depth=100,"
				   "read_ahead=128,max_inodes=99,poll_us=20,no_pipeline,"
				   "cq_count=16,cq_usec=2,tos=104,"
				   "gid_index=3,source=::1,"
				   "no_crc,huge_pages,log=debug", error), 0,
		     "%s", error);
	cr_expect(o.is_read_only && o.no_exec && o.allow_dev && o.allow_suid);
	cr_expect(o.no_atime && !o.allow_other);
	cr_expect(o.no_diratime && o.is_remount && o.is_strict_atime);
	cr_expect(o.no_pipeline && o.no_crc && o.wants_huge_pages);
	cr_expect_eq(o.max_inodes, 99);
	cr_expect_str_eq(o.key_file, "/etc/rdmafs/key");
	cr_expect(o.is_soft);
	cr_expect_eq(o.timeo_ms, 3000);
	cr_expect_eq(o.mount_timeo_ms, 4000);
	cr_expect_eq(o.rpc_timeo_ms, 250);
	cr_expect_eq(o.memory, 1ull << 30);
	cr_expect_eq(o.inline_max, 8192);
	cr_expect_eq(o.read_block, 262144);
	cr_expect_eq(o.write_block, 65536);
	cr_expect_eq(o.slots, 7);
	cr_expect_eq(o.write_slots, 3);
	cr_expect_eq(o.write_part, 131072);
	cr_expect_eq(o.read_depth, 9);
	cr_expect_eq(o.send_depth, 100);
	cr_expect_eq(o.read_ahead, 128);
	cr_expect_eq(o.poll_us, 20);
	cr_expect_eq(o.cq_count, 16);
	cr_expect_eq(o.cq_usec, 2);
	cr_expect_eq(o.tos, 104);
	cr_expect_eq(o.gid_index, 3);
	cr_expect_eq(o.from.ss_family, AF_INET6);
	cr_expect_eq(o.log_level, RF_LOG_DEBUG);
}

Test(options, what_mount_8_keeps_has_other_words)
{
	cr_assert_eq(options_parse(&o, "allow_dev,allow_suid", error), 0);
	cr_expect(o.allow_dev && o.allow_suid);
}

Test(options, the_last_of_two_that_contradict_holds)
{
	cr_assert_eq(options_parse(&o, "ro,rw,suid,nosuid,soft,hard", error), 0);
	cr_expect_not(o.is_read_only);
	cr_expect_not(o.is_soft);
	cr_expect_not(o.allow_suid);
	cr_assert_eq(options_parse(&o, "ro", error), 0);
	cr_expect(o.is_read_only);
}

Test(options, words_of_mount_and_fstab_change_nothing)
{
	struct mount_options before = o;

	cr_assert_eq(options_parse(&o, "defaults,auto,noauto,user=me,_netdev,"
				   "nofail,x-systemd.automount,"
				   "x-systemd.idle-timeout=1min,,rw", error), 0,
		     "%s", error);
	cr_expect_eq(memcmp(&before, &o, sizeof(o)), 0);
}

Test(options, wrong_words_and_values_are_refused_by_name)
{
	static const char *const bad[][2] = {
		{ "kye=/x", "kye" }, { "key", "key" }, { "key=", "key" },
		{ "ro=1", "ro" }, { "slots=0", "slots" },
		{ "slots=70000", "slots" }, { "slots=-1", "slots" },
		{ "slots=5x", "slots" }, { "slots=", "slots" },
		{ "memory=1T", "memory" }, { "memory=1", "memory" },
		{ "memory=99999999999G", "memory" },
		{ "memory=1KK", "memory" }, { "timeo=1m", "timeo" },
		{ "timeo=0", "timeo" }, { "timeo=999999999", "timeo" },
		{ "hard=1", "hard" }, { "mount_timeo=0", "mount_timeo" },
		{ "log=loud", "log" }, { "ro,,strictmtime", "strictmtime" },
		{ "inline_max=18446744073709551616", "inline_max" },
	};

	for (size_t i = 0; i < RF_ARRAY_SIZE(bad); i++) {
		setup();
		cr_expect_eq(options_parse(&o, bad[i][0], error), -EINVAL,
			     "%s was taken", bad[i][0]);
		cr_expect(strstr(error, bad[i][1]), "%s: '%s'", bad[i][0],
			  error);
	}
}

Test(options, a_key_file_name_that_does_not_fit_is_refused)
{
	char list[5000] = "key=/";

	memset(list + 5, 'k', sizeof(list) - 6);
	cr_expect_eq(options_parse(&o, list, error), -EINVAL);
}

/* ---- the mount point ----------------------------------------------------- */

Test(mount_point, becomes_absolute_without_asking_what_is_mounted_there)
{
	char folder[] = "/tmp/rdmafs-options.XXXXXX", out[4096], want[4096];

	cr_assert_not_null(mkdtemp(folder));
	cr_assert_eq(chdir(folder), 0);
	snprintf(want, sizeof(want), "%s/mnt", folder);
	cr_expect_eq(mounting_absolute("mnt", out), 0);
	cr_expect_str_eq(out, want);
	cr_expect_eq(mounting_absolute("./mnt//", out), 0);
	cr_expect_str_eq(out, want);
	cr_expect_eq(mounting_absolute(".", out), 0);
	cr_expect_str_eq(out, folder);
	cr_expect_eq(mounting_absolute("/", out), 0);
	cr_expect_str_eq(out, "/");
	cr_expect_eq(mounting_absolute("/mnt", out), 0);
	cr_expect_str_eq(out, "/mnt");
	cr_expect_eq(mounting_absolute("", out), -ENOENT);
	cr_expect_eq(mounting_absolute("missing/mnt", out), -ENOENT);
	cr_assert_eq(rmdir(folder), 0);
}

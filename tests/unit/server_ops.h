/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_ops.h - one server, one client, and operations in one line each: for
 * tests that include it once
 */
#ifndef TESTS_SERVER_OPS_H
#define TESTS_SERVER_OPS_H

#include "tests/common/server_rig.h"

/* A test over each fabric. */
#define SCENARIO(name)							\
	static void name(const char *scheme);				\
	Test(SUITE, name##_over_loop) { name("loop"); }			\
	Test(SUITE, name##_over_iwarp) { name("iwarp"); }		\
	static void name(const char *scheme)

#define OP_LOOKUP(n) { .code = RF_OP_LOOKUP, .lookup = { sname(n) } }
#define OP_MKDIR(n) { .code = RF_OP_MKDIR, .mkdir = { sname(n), 0755, 0 } }
#define OP_UNLINK(n) { .code = RF_OP_UNLINK, .unlink = { sname(n) } }
#define OP_RMDIR(n) { .code = RF_OP_RMDIR, .rmdir = { sname(n) } }
#define OP_OPEN(f) { .code = RF_OP_OPEN, .open = { f } }
#define OP_CREATE(n, f) \
	{ .code = RF_OP_CREATE, .create = { sname(n), 0644, f, 0 } }
#define OP_RENAME(n, d, m, f) \
	{ .code = RF_OP_RENAME, .rename = { sname(n), d, sname(m), f } }
#define OP_READ(o, at, n) { .code = RF_OP_READ, .read = { o, at, n } }
#define OP_WRITE(o, at, f, d, n) \
	{ .code = RF_OP_WRITE, .write = { .open = o, .offset = at, \
	  .flags = f, .data = { d, n } } }
#define OP_RELEASE(o) { .code = RF_OP_RELEASE, .release = { o } }
#define OP_FSYNC(o) { .code = RF_OP_FSYNC, .fsync = { o, 0 } }
#define RW (RF_OPEN_READ | RF_OPEN_WRITE)


static struct srig rig;
static struct sclient client;
static struct scall call;

__attribute__((unused))	/* a test may begin otherwise */
static void begin(const char *scheme)
{
	srig_open(&rig, scheme);
	sclient_open(&rig, &client, "data");
	/* A sync that nobody asked for, of its record. */
	srig_until(&rig, !rig.server->is_record_syncing);
}

static void end(void)
{
	sclient_bye(&client);
	srig_close(&rig);
}

/* One operation by root on handle. */
#define DO(handle, ...) SRUN(&client, &call, 1, handle, __VA_ARGS__)
#define OK(handle, ...)							\
	do {								\
		unsigned int ok_status = DO(handle, __VA_ARGS__);	\
		cr_assert_eq(ok_status, RF_ST_OK, "%s",			\
			     rf_status_name(ok_status));		\
	} while (0)
#define FAILS(want, handle, ...)					\
	do {								\
		unsigned int got_status = DO(handle, __VA_ARGS__);	\
		cr_assert_eq(got_status, RF_ST_##want, "%s",		\
			     rf_status_name(got_status));		\
	} while (0)

#define OP_SIZE(o, n) { .code = RF_OP_SETATTR, \
	.setattr = { .valid = RF_SET_SIZE, .open = o, .size = n } }

#endif /* TESTS_SERVER_OPS_H */

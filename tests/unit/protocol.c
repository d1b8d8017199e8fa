/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protocol.c - libproto/PROTOCOL.md says what the code does
 *
 * Each example there is encoded here again, and each field list and outcome
 * looked for.  A mismatch prints what the document should say.  Run from the
 * top of the repository.
 */
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "libproto/base.h"
#include "libproto/codec.h"
#include "libproto/hello.h"
#include "libproto/resume.h"

/* ---- the document -------------------------------------------------------- */

/* The whole text, read once; stays until the test's process ends. */
static const char *document(void)
{
	static const char path[] = "libproto/PROTOCOL.md";
	static char *text;
	FILE *file;
	long size;

	if (text)
		return text;
	file = fopen(path, "r");
	cr_assert(file, "%s: run this from the top of the repository", path);
	fseek(file, 0, SEEK_END);
	size = ftell(file);
	rewind(file);
	text = calloc(1, (size_t)size + 1);
	cr_assert(text);
	cr_assert_eq(fread(text, 1, (size_t)size, file), (size_t)size);
	fclose(file);
	return text;
}

/*
 * The bytes of the code block that follows the line "Example: NAME...": pairs
 * of hexadecimal digits; the rest of a line behind '#' is for people.
 */
static size_t example_bytes(const char *name, uint8_t *out, size_t room)
{
	char heading[128];
	const char *at, *end;
	size_t size = 0;

	snprintf(heading, sizeof(heading), "\nExample: %s\n", name);
	at = strstr(document(), heading);
	cr_assert(at, "PROTOCOL.md has no line \"Example: %s\"", name);
	at = strstr(at, "\n```\n");
	cr_assert(at);
	at += 5;
	end = strstr(at, "```");
	cr_assert(end);
	while (at < end) {
		unsigned int byte;

		if (*at == '#') {
			at = strchr(at, '\n');
		} else if (isspace((unsigned char)*at)) {
			at++;
		} else {
			cr_assert_eq(sscanf(at, "%2x", &byte), 1);
			cr_assert_lt(size, room);
			out[size++] = (uint8_t)byte;
			at += 2;
		}
	}
	return size;
}

static void expect_example(const char *name, const uint8_t *bytes, size_t size)
{
	uint8_t said[RF_HELLO_SIZE_MAX];
	size_t said_size = example_bytes(name, said, sizeof(said));

	if (said_size == size && memcmp(said, bytes, size) == 0)
		return;
	fprintf(stderr, "Example: %s\n\n```\n", name);
	for (size_t i = 0; i < size; i++)
		fprintf(stderr, "%02x%c", bytes[i],
			i % 16 == 15 || i + 1 == size ? '\n' : ' ');
	fprintf(stderr, "```\n");
	cr_assert_fail("PROTOCOL.md says otherwise of %s", name);
}

static void expect_line(const char *line)
{
	cr_assert(strstr(document(), line), "PROTOCOL.md has not this:\n%s",
		  line);
}

/* ---- examples ------------------------------------------------------------ */

static struct rf_key example_key(void)
{
	struct rf_key key = { .is_set = true };

	memset(key.bytes, 0x6b, sizeof(key.bytes));
	return key;
}

static const struct rf_hello_limits limits = {
	.inline_max = 4096, .msg_max = 5120, .slots = 64, .control_slots = 4,
	.server_msgs = 32, .channels = 1, .write_slots = 16,
	.block_max = 1 << 20,
};

static int encode_hello(uint8_t *buffer, uint8_t proof[RF_PROOF_SIZE])
{
	struct rf_key key = example_key();
	uint8_t nonce[RF_NONCE_SIZE];
	struct rf_hello hello = {
		.version = 1, .features = RF_FEATURE_DATA_CRC,
		.limits = limits, .host = "c1", .export = "home",
	};

	memset(nonce, 0x4e, sizeof(nonce));
	memset(hello.client_uuid, 0xc1, RF_UUID_SIZE);
	memset(hello.nonce, 0x6e, RF_NONCE_SIZE);
	return rf_hello_encode(buffer, &hello, &key, nonce, proof);
}

static void expect_reply(const char *name, const struct rf_hello_reply *reply)
{
	struct rf_key key = example_key();
	uint8_t buffer[RF_HELLO_SIZE_MAX];
	uint8_t proof[RF_PROOF_SIZE], nonce[RF_NONCE_SIZE];
	int size;

	memset(nonce, 0x4e, sizeof(nonce));
	encode_hello(buffer, proof);
	size = rf_hello_reply_encode(buffer, reply, &key, nonce, proof);
	expect_example(name, buffer, (size_t)size);
}

Test(protocol, connect_example)
{
	struct rf_hello_connect connect = { 1, 1 };
	uint8_t data[RF_CONNECT_DATA_SIZE];

	rf_hello_connect_encode(data, &connect);
	expect_example("connect", data, sizeof(data));
}

Test(protocol, accept_example)
{
	struct rf_hello_accept accept = { .status = RF_ST_OK, .version = 1 };
	uint8_t data[RF_ACCEPT_DATA_SIZE];

	memset(accept.nonce, 0x4e, RF_NONCE_SIZE);
	rf_hello_accept_encode(data, &accept);
	expect_example("accept", data, sizeof(data));
}

Test(protocol, hello_example)
{
	uint8_t buffer[RF_HELLO_SIZE_MAX], proof[RF_PROOF_SIZE];
	int size = encode_hello(buffer, proof);

	expect_example("HELLO (key: 32 bytes 0x6b, server's nonce: 16 bytes "
		       "0x4e)", buffer, (size_t)size);
}

Test(protocol, hello_reply_example)
{
	struct rf_hello_reply reply = {
		.version = 1, .features = RF_FEATURE_DATA_CRC,
		.limits = limits, .session = 7, .epoch = 1, .tree = 1,
		.root = { 1, 1, 0x1122334455667788 },
		.root_attr = {
			.inode = 1, .change = 5, .size = 4096, .blocks = 8,
			.atime = { 1, 2 }, .mtime = { 3, 4 },
			.ctime = { 5, 6 }, .btime = { -1, 999999999 },
			.mode = S_IFDIR | 0755, .nlink = 2, .uid = 1000,
			.gid = 100, .tree = 1, .block_size = 4096,
		},
		.lease_ms = 60000,
	};

	memset(reply.server_uuid, 0x51, RF_UUID_SIZE);
	expect_reply("HELLO_REPLY (the same key and nonce, to the HELLO above)",
		     &reply);
}

Test(protocol, refusal_example)
{
	struct rf_hello_reply reply = {
		.status = RF_ST_NO_EXPORT, .version = 1,
		.reason = "no such export",
	};

	expect_reply("HELLO_REPLY, refused (the same)", &reply);
}

static int encode_resume(uint8_t *buffer, uint8_t proof[RF_PROOF_SIZE])
{
	struct rf_key key = example_key();
	uint8_t nonce[RF_NONCE_SIZE], secret[RF_SECRET_SIZE];
	struct rf_resume resume = { .version = 1, .epoch = 1, .session = 7 };

	memset(nonce, 0x4e, sizeof(nonce));
	memset(secret, 0x73, sizeof(secret));
	memset(resume.client_uuid, 0xc1, RF_UUID_SIZE);
	memset(resume.nonce, 0x6f, RF_NONCE_SIZE);
	return rf_resume_encode(buffer, &resume, &key, secret, nonce, proof);
}

static void expect_resume_reply(const char *name,
				const struct rf_resume_reply *reply)
{
	struct rf_key key = example_key();
	uint8_t buffer[RF_HELLO_SIZE_MAX], secret[RF_SECRET_SIZE];
	uint8_t proof[RF_PROOF_SIZE], nonce[RF_NONCE_SIZE];
	int size;

	memset(nonce, 0x4e, sizeof(nonce));
	memset(secret, 0x73, sizeof(secret));
	encode_resume(buffer, proof);
	size = rf_resume_reply_encode(buffer, reply, &key, secret, nonce,
				      proof);
	expect_example(name, buffer, (size_t)size);
}

Test(protocol, resume_example)
{
	uint8_t buffer[RF_HELLO_SIZE_MAX], proof[RF_PROOF_SIZE];
	int size = encode_resume(buffer, proof);

	expect_example("RESUME (secret: 32 bytes 0x73, server's nonce: 16 "
		       "bytes 0x4e)", buffer, (size_t)size);
}

Test(protocol, resume_reply_example)
{
	struct rf_resume_reply reply = {
		.version = 1, .flags = RF_RESUME_RESTARTED, .epoch = 2,
		.lease_ms = 60000, .grace_ms = 59500, .grant_ms = 30000,
	};

	memset(reply.server_uuid, 0x51, RF_UUID_SIZE);
	expect_resume_reply("RESUME_REPLY (the same secret and nonce, to the "
			    "RESUME above)", &reply);
}

Test(protocol, resume_refusal_example)
{
	struct rf_resume_reply reply = {
		.status = RF_ST_BAD_EPOCH, .version = 1,
		.reason = "this session is over",
	};

	memset(reply.server_uuid, 0x51, RF_UUID_SIZE);
	expect_resume_reply("RESUME_REPLY, refused (key: 32 bytes 0x6b)",
			    &reply);
}

Test(protocol, request_example)
{
	struct rf_header header = {
		.type = RF_MSG_REQUEST, .slot = 2, .seq = 9, .epoch = 1,
		.identity = 3, .ack = 4,
	};
	struct rf_args args[] = {
		{ .code = RF_OP_USE,
		  .use.handle = { 1, 1, 0x1122334455667788 } },
		{ .code = RF_OP_LOOKUP, .lookup.name = { "a", 1 } },
		{ .code = RF_OP_OPEN, .open.flags = RF_OPEN_READ },
	};
	uint8_t buffer[256];
	struct rf_enc enc;
	int size;

	rf_enc_init(&enc, buffer, sizeof(buffer));
	rf_enc_return(&enc, 0x2007);
	for (size_t i = 0; i < RF_ARRAY_SIZE(args); i++)
		rf_enc_args(&enc, &args[i]);
	size = rf_enc_finish(&enc, &header);
	expect_example("REQUEST (USE, LOOKUP \"a\", OPEN; one return)", buffer,
		       (size_t)size);
}

Test(protocol, reply_example)
{
	struct rf_header header = {
		.type = RF_MSG_REPLY, .slot = 2, .seq = 9, .epoch = 1,
	};
	struct rf_results results[] = {
		{ .code = RF_OP_USE, .status = RF_ST_OK },
		{ .code = RF_OP_LOOKUP, .status = RF_ST_NOENT },
	};
	uint8_t buffer[256];
	struct rf_enc enc;
	int size;

	rf_enc_init(&enc, buffer, sizeof(buffer));
	for (size_t i = 0; i < RF_ARRAY_SIZE(results); i++)
		rf_enc_results(&enc, &results[i]);
	size = rf_enc_finish(&enc, &header);
	expect_example("REPLY (the same, LOOKUP failed)", buffer,
		       (size_t)size);
}

Test(protocol, queued_example)
{
	struct rf_header header = {
		.type = RF_MSG_QUEUED, .slot = 2, .seq = 10, .epoch = 1,
		.ticket = 5,
	};
	uint8_t buffer[256];
	struct rf_enc enc;
	int size;

	rf_enc_init(&enc, buffer, sizeof(buffer));
	size = rf_enc_finish(&enc, &header);
	expect_example("QUEUED", buffer, (size_t)size);
}

Test(protocol, finished_example)
{
	struct rf_header header = {
		.type = RF_MSG_FINISHED, .epoch = 1, .ticket = 5,
	};
	struct rf_results results = {
		.code = RF_OP_WRITE, .status = RF_ST_NOSPC,
		.write.rearmed = { 1, { { 0x1003, 0xabcd01, 0x7f0000100000,
					  1 << 20, 0 } } },
	};
	uint8_t buffer[256];
	struct rf_enc enc;
	int size;

	rf_enc_init(&enc, buffer, sizeof(buffer));
	rf_enc_results(&enc, &results);
	size = rf_enc_finish(&enc, &header);
	expect_example("FINISHED (a WRITE that failed and gives its slot back)",
		       buffer, (size_t)size);
}

/* ---- lists --------------------------------------------------------------- */

#define FIELD_TEXT(type, name) ", " #type " " #name

/* fields: ", type name, type name" or "". */
static size_t append_fields(char *out, size_t room, const char *what,
			    const char *fields)
{
	if (fields[0] == '\0')
		return (size_t)snprintf(out, room, "- %s: none\n", what);
	return (size_t)snprintf(out, room, "- %s: `%s`\n", what, fields + 2);
}

static void expect_fields(const char *name, unsigned int code,
			  const char *args, const char *results)
{
	char heading[64], lists[1024];
	const char *at, *next;
	size_t used;

	snprintf(heading, sizeof(heading), "\n### %u %s\n", code, name);
	at = strstr(document(), heading);
	cr_assert(at, "PROTOCOL.md has no section %u %s", code, name);
	used = append_fields(lists, sizeof(lists), "arguments", args);
	append_fields(lists + used, sizeof(lists) - used, "results", results);
	next = strstr(at + 1, "\n### ");
	at = strstr(at, lists);
	cr_assert(at && (!next || at < next),
		  "PROTOCOL.md, %u %s, should say:\n%s", code, name, lists);
}

Test(protocol, field_lists_are_those_of_the_code)
{
#define CHECK(NAME, lower, code) \
	expect_fields(#NAME, code, "" RF_##NAME##_ARGS(FIELD_TEXT), \
		      "" RF_##NAME##_RESULTS(FIELD_TEXT));
	RF_OPS(CHECK)
#undef CHECK
}

Test(protocol, outcomes_are_those_of_the_code)
{
	char line[128];

#define CHECK(name, number, err) \
	snprintf(line, sizeof(line), "\n| %d | %s | %s |", number, #name, \
		 number == 0 ? "none" : #err); \
	expect_line(line);
	RF_STATUSES(CHECK)
#undef CHECK
}

Test(protocol, limits_are_those_of_the_code)
{
	char line[128];

	snprintf(line, sizeof(line), "version 1: %d operations a message, "
		 "%d returns a message, %d\ngrants or pieces an operation, "
		 "%d groups", RF_OPS_MAX, RF_RETURNS_MAX, RF_GRANTS_MAX,
		 RF_GROUPS_MAX);
	expect_line(line);
	snprintf(line, sizeof(line), "%d identities a session,\nnames of %d "
		 "bytes, targets of %d", RF_IDENTITIES_MAX, RF_NAME_MAX,
		 RF_TARGET_MAX);
	expect_line(line);
	snprintf(line, sizeof(line), "extended attributes of %d.",
		 RF_XATTR_SIZE_MAX);
	expect_line(line);
	snprintf(line, sizeof(line), "Default port: %d.", RF_DEFAULT_PORT);
	expect_line(line);
	snprintf(line, sizeof(line), "at least `inline_max` + %d |",
		 RF_MSG_OVERHEAD);
	expect_line(line);
}

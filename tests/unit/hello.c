/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hello.c - who has the key is let in, who has not is told so
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libproto/base.h"
#include "libproto/hello.h"
#include "tests/common/wire.h"

static const struct rf_key no_key;
static const struct rf_key key = { .bytes = { 1, 2, 3 }, .is_set = true };
static const struct rf_key other_key = { .bytes = { 1, 2, 4 },
					 .is_set = true };
static const uint8_t nonce[RF_NONCE_SIZE] = "server's nonce!";
static const uint8_t other_nonce[RF_NONCE_SIZE] = "another nonce!!";

static const struct rf_hello_limits limits = {
	.inline_max = RF_INLINE_DEFAULT,
	.msg_max = RF_INLINE_DEFAULT + RF_MSG_OVERHEAD,
	.slots = 64, .control_slots = 4, .server_msgs = 32, .channels = 1,
	.write_slots = 16, .block_max = 1 << 20,
};

static struct rf_hello some_hello(void)
{
	return (struct rf_hello){
		.version = 1, .flags = RF_HELLO_READ_ONLY,
		.features = UINT64_MAX, .limits = limits,
		.client_uuid = "client uuid 123", .nonce = "client nonce 12",
		.host = "host.example", .export = "exports/home \xc3\xa4",
	};
}

static struct rf_hello_reply some_reply(void)
{
	return (struct rf_hello_reply){
		.status = RF_ST_OK, .version = 1,
		.features = RF_FEATURE_DATA_CRC, .limits = limits,
		.server_uuid = "server uuid 123", .session = 77, .epoch = 3,
		.lease_ms = 60000, .grant_ms = 30000,
		.tree = 9, .root = { 1, 9, 0x1122334455667788 },
		.root_attr = { .inode = 1, .mode = S_IFDIR | 0755,
			       .mtime = { -5, 999999999 } },
		.reason = "",
	};
}

/* Encoded on the heap, of exactly its size. */
static struct wire_message encode_hello(const struct rf_hello *in,
					const struct rf_key *with,
					uint8_t proof[RF_PROOF_SIZE])
{
	uint8_t buffer[RF_HELLO_SIZE_MAX];
	int size = rf_hello_encode(buffer, in, with, nonce, proof);

	cr_assert_gt(size, 0);
	return wire_copy(buffer, (size_t)size);
}

static struct wire_message encode_reply(const struct rf_hello_reply *in,
					const struct rf_key *with,
					const uint8_t proof[RF_PROOF_SIZE])
{
	uint8_t buffer[RF_HELLO_SIZE_MAX];
	int size = rf_hello_reply_encode(buffer, in, with, nonce, proof);

	cr_assert_gt(size, 0);
	return wire_copy(buffer, (size_t)size);
}

/* ---- private data -------------------------------------------------------- */

Test(hello, connect_data_survive_and_may_grow)
{
	struct rf_hello_connect in = { 1, 3 }, out;
	uint8_t data[RF_CONNECT_DATA_SIZE + 8] = { 0 };

	rf_hello_connect_encode(data, &in);
	cr_assert_eq(rf_hello_connect_decode(data, RF_CONNECT_DATA_SIZE, &out),
		     0);
	cr_assert_eq(out.version_min, 1);
	cr_assert_eq(out.version_max, 3);
	cr_assert_eq(rf_hello_connect_decode(data, sizeof(data), &out), 0);
}

Test(hello, connect_data_of_others_are_refused)
{
	struct rf_hello_connect in = { 2, 3 }, out;
	uint8_t data[RF_CONNECT_DATA_SIZE];

	for (size_t size = 0; size < sizeof(data); size++) {
		struct wire_message m;

		rf_hello_connect_encode(data, &in);
		m = wire_copy(data, size);
		cr_assert_eq(rf_hello_connect_decode(m.bytes, size, &out),
			     -EBADMSG);
		wire_free(&m);
	}
	for (size_t i = 0; i < 4; i++) {
		rf_hello_connect_encode(data, &in);
		data[i] ^= 1;
		cr_assert_eq(rf_hello_connect_decode(data, sizeof(data), &out),
			     -EBADMSG);
	}
	rf_hello_connect_encode(data, &in);
	data[4] = 4;		/* from 4 to 3 */
	cr_assert_eq(rf_hello_connect_decode(data, sizeof(data), &out),
		     -EBADMSG);
	data[4] = 0;
	cr_assert_eq(rf_hello_connect_decode(data, sizeof(data), &out),
		     -EBADMSG);
}

Test(hello, accept_data_survive_and_others_are_refused)
{
	struct rf_hello_accept in = { RF_ST_BAD_VERSION, 2, { 1, 2, 3 } }, out;
	uint8_t data[RF_ACCEPT_DATA_SIZE];

	rf_hello_accept_encode(data, &in);
	cr_assert_eq(rf_hello_accept_decode(data, sizeof(data), &out), 0);
	cr_assert_eq(out.status, RF_ST_BAD_VERSION);
	cr_assert_eq(out.version, 2);
	cr_assert_eq(memcmp(out.nonce, in.nonce, RF_NONCE_SIZE), 0);
	for (size_t size = 0; size < sizeof(data); size++) {
		struct wire_message m = wire_copy(data, size);

		cr_assert_eq(rf_hello_accept_decode(m.bytes, size, &out),
			     -EBADMSG);
		wire_free(&m);
	}
	data[0] ^= 1;
	cr_assert_eq(rf_hello_accept_decode(data, sizeof(data), &out),
		     -EBADMSG);
}

/* ---- both with the same key ---------------------------------------------- */

static bool same_limits(const struct rf_hello_limits *a,
			const struct rf_hello_limits *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

Test(hello, hello_survives_and_proves_the_key)
{
	struct rf_hello in = some_hello(), out;
	uint8_t proof[RF_PROOF_SIZE], seen[RF_PROOF_SIZE];
	struct wire_message m = encode_hello(&in, &key, proof);

	cr_assert_eq(rf_hello_decode(m.bytes, m.size, &out), 0);
	cr_assert_eq(out.version, in.version);
	cr_assert_eq(out.flags, in.flags);
	cr_assert_eq(out.features, in.features);
	cr_assert(same_limits(&out.limits, &in.limits));
	cr_assert_eq(memcmp(out.client_uuid, in.client_uuid, RF_UUID_SIZE), 0);
	cr_assert_eq(memcmp(out.nonce, in.nonce, RF_NONCE_SIZE), 0);
	cr_assert_str_eq(out.host, in.host);
	cr_assert_str_eq(out.export, in.export);
	cr_assert_eq(rf_hello_verify(m.bytes, m.size, &key, nonce, seen), 0);
	cr_assert_eq(memcmp(seen, proof, RF_PROOF_SIZE), 0);
	wire_free(&m);
}

Test(hello, reply_survives_and_proves_the_key)
{
	struct rf_hello_reply in = some_reply(), out;
	uint8_t proof[RF_PROOF_SIZE] = "the client's proof";
	struct wire_message m = encode_reply(&in, &key, proof);

	cr_assert_eq(rf_hello_reply_decode(m.bytes, m.size, &out), 0);
	cr_assert_eq(out.status, RF_ST_OK);
	cr_assert_eq(out.version, in.version);
	cr_assert_eq(out.features, in.features);
	cr_assert(same_limits(&out.limits, &in.limits));
	cr_assert_eq(memcmp(out.server_uuid, in.server_uuid, RF_UUID_SIZE), 0);
	cr_assert_eq(out.grant_ms, in.grant_ms);
	cr_assert_eq(out.session, in.session);
	cr_assert_eq(out.epoch, in.epoch);
	cr_assert_eq(out.tree, in.tree);
	cr_assert(wire_same_handle(&out.root, &in.root));
	cr_assert(wire_same_attr(&out.root_attr, &in.root_attr));
	cr_assert_eq(rf_hello_reply_verify(m.bytes, m.size, &key, nonce,
					   proof), 0);
	wire_free(&m);
}

Test(hello, the_longest_of_both_fit)
{
	struct rf_hello hello = some_hello(), out;
	struct rf_hello_reply reply = some_reply(), reply_out;
	uint8_t proof[RF_PROOF_SIZE];
	struct wire_message m;

	memset(hello.host, 'h', RF_HOST_MAX);
	memset(hello.export, 'e', RF_EXPORT_MAX);
	m = encode_hello(&hello, &key, proof);
	cr_assert_eq(rf_hello_decode(m.bytes, m.size, &out), 0);
	cr_assert_eq(strlen(out.host), RF_HOST_MAX);
	cr_assert_eq(strlen(out.export), RF_EXPORT_MAX);
	wire_free(&m);
	memset(reply.reason, 'r', RF_REASON_MAX);
	m = encode_reply(&reply, &key, proof);
	cr_assert_eq(rf_hello_reply_decode(m.bytes, m.size, &reply_out), 0);
	cr_assert_eq(strlen(reply_out.reason), RF_REASON_MAX);
	wire_free(&m);
}

/* ---- keys that differ ---------------------------------------------------- */

/* What verify says to a HELLO made with one key, read with another. */
static int hello_between(const struct rf_key *client,
			 const struct rf_key *server,
			 const uint8_t *server_nonce)
{
	struct rf_hello in = some_hello();
	uint8_t proof[RF_PROOF_SIZE], seen[RF_PROOF_SIZE];
	struct wire_message m = encode_hello(&in, client, proof);
	int err = rf_hello_verify(m.bytes, m.size, server, server_nonce, seen);

	/* A refusal has to be proved as well. */
	cr_assert_eq(memcmp(seen, proof, RF_PROOF_SIZE), 0);
	wire_free(&m);
	return err;
}

Test(hello, only_the_same_key_opens)
{
	struct rf_key zeroes = { .is_set = true };

	cr_assert_eq(hello_between(&key, &key, nonce), 0);
	cr_assert_eq(hello_between(&key, &other_key, nonce), -EKEYREJECTED);
	cr_assert_eq(hello_between(&key, &no_key, nonce), -EKEYREJECTED);
	cr_assert_eq(hello_between(&no_key, &key, nonce), -EKEYREJECTED);
	cr_assert_eq(hello_between(&no_key, &zeroes, nonce), -EKEYREJECTED);
	cr_assert_eq(hello_between(&zeroes, &no_key, nonce), -EKEYREJECTED);
}

Test(hello, without_keys_both_say_so)
{
	struct rf_hello in = some_hello(), out;
	uint8_t proof[RF_PROOF_SIZE];
	struct wire_message m;

	cr_assert_eq(hello_between(&no_key, &no_key, nonce), 0);
	m = encode_hello(&in, &no_key, proof);
	cr_assert_eq(rf_hello_decode(m.bytes, m.size, &out), 0);
	cr_assert(out.flags & RF_HELLO_NO_KEY);
	wire_free(&m);
	in.flags = RF_HELLO_NO_KEY;	/* a key counts more than the flag */
	m = encode_hello(&in, &key, proof);
	cr_assert_eq(rf_hello_decode(m.bytes, m.size, &out), 0);
	cr_assert_not(out.flags & RF_HELLO_NO_KEY);
	wire_free(&m);
}

/* Whether rights are windows only the server can say. */
Test(hello, only_an_answer_says_that_there_are_no_windows)
{
	struct rf_hello_reply in = some_reply(), out;
	struct rf_hello hello = some_hello(), hello_out;
	uint8_t proof[RF_PROOF_SIZE] = "the client's proof";
	struct wire_message m;

	in.flags = RF_HELLO_NO_WINDOWS;
	m = encode_reply(&in, &key, proof);
	cr_assert_eq(rf_hello_reply_decode(m.bytes, m.size, &out), 0);
	cr_assert_eq(out.flags, RF_HELLO_NO_WINDOWS);
	m.bytes[36] |= 8;	/* not defined */
	cr_assert_neq(rf_hello_reply_decode(m.bytes, m.size, &out), 0);
	wire_free(&m);
	m = encode_hello(&hello, &key, proof);
	m.bytes[34] |= RF_HELLO_NO_WINDOWS;
	cr_assert_neq(rf_hello_decode(m.bytes, m.size, &hello_out), 0);
	wire_free(&m);
}

Test(hello, a_recorded_hello_fails_on_the_next_nonce)
{
	cr_assert_eq(hello_between(&key, &key, other_nonce), -EKEYREJECTED);
	cr_assert_eq(hello_between(&no_key, &no_key, other_nonce),
		     -EKEYREJECTED);
}

static int reply_between(const struct rf_key *server,
			 const struct rf_key *client,
			 const uint8_t *client_nonce, uint8_t proof_change)
{
	struct rf_hello_reply in = some_reply();
	uint8_t proof[RF_PROOF_SIZE] = "the client's proof";
	struct wire_message m = encode_reply(&in, server, proof);
	int err;

	proof[3] ^= proof_change;
	err = rf_hello_reply_verify(m.bytes, m.size, client, client_nonce,
				    proof);
	wire_free(&m);
	return err;
}

Test(hello, a_server_must_prove_the_key_to_this_client)
{
	cr_assert_eq(reply_between(&key, &key, nonce, 0), 0);
	cr_assert_eq(reply_between(&no_key, &no_key, nonce, 0), 0);
	cr_assert_eq(reply_between(&other_key, &key, nonce, 0), -EKEYREJECTED);
	cr_assert_eq(reply_between(&no_key, &key, nonce, 0), -EKEYREJECTED);
	cr_assert_eq(reply_between(&key, &no_key, nonce, 0), -EKEYREJECTED);
	cr_assert_eq(reply_between(&key, &key, other_nonce, 0), -EKEYREJECTED);
	cr_assert_eq(reply_between(&key, &key, nonce, 1), -EKEYREJECTED,
		     "an answer to another HELLO");
}

Test(hello, a_hello_is_no_answer_to_itself)
{
	struct rf_hello in = some_hello();
	uint8_t proof[RF_PROOF_SIZE];
	struct wire_message m = encode_hello(&in, &key, proof);

	cr_assert_eq(rf_hello_reply_verify(m.bytes, m.size, &key, nonce,
					   proof), -EBADMSG);
	m.bytes[4] = RF_MSG_HELLO_REPLY;
	cr_assert_neq(rf_hello_reply_verify(m.bytes, m.size, &key, nonce,
					    proof), 0);
	wire_free(&m);
}

/* ---- changed on the way -------------------------------------------------- */

Test(hello, any_changed_bit_of_a_hello_is_noticed)
{
	struct rf_hello in = some_hello();
	uint8_t proof[RF_PROOF_SIZE];
	struct wire_message m = encode_hello(&in, &key, proof);

	for (size_t bit = 0; bit < 8 * m.size; bit++) {
		int err;

		m.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		err = rf_hello_verify(m.bytes, m.size, &key, nonce, proof);
		cr_assert(err == -EKEYREJECTED || err == -EBADMSG,
			  "bit %zu: %d", bit, err);
		m.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	wire_free(&m);
}

Test(hello, any_changed_bit_of_a_reply_is_noticed)
{
	struct rf_hello_reply in = some_reply();
	uint8_t proof[RF_PROOF_SIZE] = "the client's proof";
	struct wire_message m = encode_reply(&in, &key, proof);

	for (size_t bit = 0; bit < 8 * m.size; bit++) {
		int err;

		m.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		err = rf_hello_reply_verify(m.bytes, m.size, &key, nonce,
					    proof);
		cr_assert(err == -EKEYREJECTED || err == -EBADMSG,
			  "bit %zu: %d", bit, err);
		m.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	wire_free(&m);
}

Test(hello, every_other_length_is_malformed)
{
	struct rf_hello in = some_hello(), out;
	struct rf_hello_reply reply = some_reply(), reply_out;
	uint8_t proof[RF_PROOF_SIZE];
	struct wire_message h = encode_hello(&in, &key, proof);
	struct wire_message r = encode_reply(&reply, &key, proof);

	for (size_t size = 0; size < h.size + r.size; size++) {
		struct wire_message m = { calloc(1, size + 4), size };

		memcpy(m.bytes, h.bytes, size < h.size ? size : h.size);
		rf_store_u32(m.bytes, (uint32_t)size);
		if (size != h.size)
			cr_assert_eq(rf_hello_decode(m.bytes, size, &out),
				     -EBADMSG);
		memset(m.bytes, 0, size);
		memcpy(m.bytes, r.bytes, size < r.size ? size : r.size);
		rf_store_u32(m.bytes, (uint32_t)size);
		if (size != r.size)
			cr_assert_eq(rf_hello_reply_decode(m.bytes, size,
							   &reply_out),
				     -EBADMSG);
		wire_free(&m);
	}
	wire_free(&h);
	wire_free(&r);
}

Test(hello, truncations_are_not_read_beyond)
{
	struct rf_hello in = some_hello(), out;
	struct rf_hello_reply reply = some_reply(), reply_out;
	uint8_t proof[RF_PROOF_SIZE];
	struct wire_message h = encode_hello(&in, &key, proof);
	struct wire_message r = encode_reply(&reply, &key, proof);

	for (size_t size = 4; size < h.size; size++) {
		struct wire_message m = wire_copy(h.bytes, size);

		rf_store_u32(m.bytes, (uint32_t)size);
		cr_assert_eq(rf_hello_decode(m.bytes, size, &out), -EBADMSG);
		wire_free(&m);
	}
	for (size_t size = 4; size < r.size; size++) {
		struct wire_message m = wire_copy(r.bytes, size);

		rf_store_u32(m.bytes, (uint32_t)size);
		cr_assert_eq(rf_hello_reply_decode(m.bytes, size, &reply_out),
			     -EBADMSG);
		wire_free(&m);
	}
	wire_free(&h);
	wire_free(&r);
}

/* ---- fields -------------------------------------------------------------- */

/* A HELLO with one byte changed decodes so; the proof does not matter. */
static int decode_changed(size_t at, uint8_t value)
{
	struct rf_hello in = some_hello(), out;
	uint8_t proof[RF_PROOF_SIZE];
	struct wire_message m = encode_hello(&in, &key, proof);
	int err;

	m.bytes[at] = value;
	err = rf_hello_decode(m.bytes, m.size, &out);
	wire_free(&m);
	return err;
}

Test(hello, bad_fields_are_malformed)
{
	cr_assert_eq(decode_changed(4, RF_MSG_HELLO), 0);
	cr_assert_eq(decode_changed(4, RF_MSG_HELLO_REPLY), -EBADMSG);
	for (size_t at = 5; at < RF_HEADER_SIZE; at++)
		cr_assert_eq(decode_changed(at, 1), -EBADMSG,
			     "header byte %zu must be 0", at);
	cr_assert_eq(decode_changed(32, 9), 0, "any version decodes");
	cr_assert_eq(decode_changed(34, 4), -EBADMSG, "undefined flag");
	cr_assert_eq(decode_changed(35, 1), -EBADMSG, "undefined flag");
	cr_assert_eq(decode_changed(36, 1), -EBADMSG, "reserved");
	cr_assert_eq(decode_changed(45, 0x5a), 0, "any feature decodes");
	cr_assert_eq(decode_changed(56, 0), -EBADMSG, "no slots");
	cr_assert_eq(decode_changed(58, 0), -EBADMSG, "no control slots");
	cr_assert_eq(decode_changed(60, 0), -EBADMSG, "no server messages");
	cr_assert_eq(decode_changed(62, 0), -EBADMSG, "no channel");
	cr_assert_eq(decode_changed(53, 4), -EBADMSG, "msg_max too small");
	cr_assert_eq(decode_changed(106, '\n'), -EBADMSG, "host");
	cr_assert_eq(decode_changed(106, 0), -EBADMSG, "host");
	cr_assert_eq(decode_changed(106, 0x7f), -EBADMSG, "host");
	cr_assert_eq(decode_changed(120, 0x1b), -EBADMSG, "export");
	cr_assert_eq(decode_changed(120, 0), -EBADMSG, "export");
	cr_assert_eq(decode_changed(105, 1), -EBADMSG, "longer than HOST_MAX");
}

Test(hello, limits_must_be_usable)
{
	struct rf_hello_limits l = limits;

	cr_assert(rf_hello_limits_are_usable(&l));
	l.inline_max++;
	cr_assert_not(rf_hello_limits_are_usable(&l));
	l.inline_max = UINT32_MAX;
	cr_assert_not(rf_hello_limits_are_usable(&l));
	l.inline_max = 0;
	l.write_slots = 0;
	cr_assert(rf_hello_limits_are_usable(&l));
	l.msg_max = RF_MSG_OVERHEAD - 1;
	cr_assert_not(rf_hello_limits_are_usable(&l));
	l = limits;
	l.block_max = 0;
	cr_assert_not(rf_hello_limits_are_usable(&l));
}

Test(hello, text_with_control_characters_does_not_leave)
{
	struct rf_hello in = some_hello(), out;
	uint8_t proof[RF_PROOF_SIZE], buffer[RF_HELLO_SIZE_MAX];
	struct wire_message m;

	strcpy(in.host, "a\033[2Jb");
	m = encode_hello(&in, &key, proof);
	cr_assert_eq(rf_hello_decode(m.bytes, m.size, &out), 0);
	cr_assert_str_eq(out.host, "a?[2Jb");
	wire_free(&m);
	strcpy(in.export, "home\n");
	cr_assert_eq(rf_hello_encode(buffer, &in, &key, nonce, proof),
		     -EINVAL);
}

Test(hello, unusable_limits_abort_the_encoder, .signal = SIGABRT)
{
	struct rf_hello in = some_hello();
	uint8_t proof[RF_PROOF_SIZE], buffer[RF_HELLO_SIZE_MAX];

	in.limits.slots = 0;
	rf_hello_encode(buffer, &in, &key, nonce, proof);
}

/* ---- refusals ------------------------------------------------------------ */

Test(hello, a_refusal_carries_its_reason_and_no_more)
{
	struct rf_hello_reply in = some_reply(), out;
	uint8_t proof[RF_PROOF_SIZE] = "the client's proof";
	struct wire_message m;

	in.status = RF_ST_NO_EXPORT;
	strcpy(in.reason, "no export of this name: \"x\"\nnext line");
	m = encode_reply(&in, &key, proof);
	cr_assert_eq(rf_hello_reply_decode(m.bytes, m.size, &out), 0);
	cr_assert_eq(out.status, RF_ST_NO_EXPORT);
	cr_assert_eq(out.version, 1);
	cr_assert_str_eq(out.reason, "no export of this name: \"x\"?next line");
	cr_assert_eq(out.session, 0);
	cr_assert_eq(m.size, 40 + 2 + strlen(in.reason) + RF_PROOF_SIZE);
	cr_assert_eq(rf_hello_reply_verify(m.bytes, m.size, &key, nonce,
					   proof), 0);
	wire_free(&m);
}

Test(hello, a_refusal_for_the_wrong_key_can_be_read_but_not_trusted)
{
	struct rf_hello_reply in = { .status = RF_ST_BAD_KEY, .version = 1,
				     .reason = "the keys differ" }, out;
	uint8_t proof[RF_PROOF_SIZE] = "the client's proof";
	struct wire_message m = encode_reply(&in, &other_key, proof);

	cr_assert_eq(rf_hello_reply_decode(m.bytes, m.size, &out), 0);
	cr_assert_eq(out.status, RF_ST_BAD_KEY);
	cr_assert_str_eq(out.reason, "the keys differ");
	cr_assert_eq(rf_hello_reply_verify(m.bytes, m.size, &key, nonce,
					   proof), -EKEYREJECTED);
	wire_free(&m);
}

/* ---- the session's secret ------------------------------------------------ */

Test(hello, secrets_depend_on_key_proof_and_session)
{
	uint8_t a[RF_SECRET_SIZE], b[RF_SECRET_SIZE];
	uint8_t proof[RF_PROOF_SIZE] = "proof";

	rf_hello_secret(a, &key, proof, 1);
	rf_hello_secret(b, &key, proof, 1);
	cr_assert_eq(memcmp(a, b, sizeof(a)), 0);
	rf_hello_secret(b, &key, proof, 2);
	cr_assert_neq(memcmp(a, b, sizeof(a)), 0);
	rf_hello_secret(b, &other_key, proof, 1);
	cr_assert_neq(memcmp(a, b, sizeof(a)), 0);
	proof[0] ^= 1;
	rf_hello_secret(b, &key, proof, 1);
	cr_assert_neq(memcmp(a, b, sizeof(a)), 0);
}

/* ---- key files ----------------------------------------------------------- */

static char dir[] = "/tmp/rdmafs-hello-XXXXXX";
static char path[64];

static void dir_create(void)
{
	cr_assert(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/key", dir);
}

static void dir_remove(void)
{
	unlink(path);
	rmdir(dir);
}

TestSuite(key_file, .init = dir_create, .fini = dir_remove);

/* A key file with this content; mode is set in spite of the umask. */
static void write_file(const char *text, size_t size, mode_t mode)
{
	int fd;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, size), (ssize_t)size);
	cr_assert_eq(fchmod(fd, mode), 0);
	close(fd);
}

static void write_text(const char *text)
{
	write_file(text, strlen(text), 0600);
}

static int load(void)
{
	struct rf_key loaded = { .is_set = true };
	int err = rf_key_load(path, &loaded);

	if (err != -ENOENT)
		cr_assert_eq(loaded.is_set, err == 0);
	return err;
}

#define DIGITS "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"

Test(key_file, a_new_key_can_be_loaded_and_is_private)
{
	struct rf_key first = { .is_set = false }, second;
	struct stat st;
	mode_t old = umask(0);

	cr_assert_eq(rf_key_generate(path), 0);
	umask(old);
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0600);
	cr_assert_eq(st.st_size, 13 + 64 + 1);
	cr_assert_eq(rf_key_load(path, &first), 0);
	cr_assert(first.is_set);
	cr_assert_eq(rf_key_load(path, &second), 0);
	cr_assert_eq(memcmp(first.bytes, second.bytes, RF_KEY_SIZE), 0);
	unlink(path);
	cr_assert_eq(rf_key_generate(path), 0);
	cr_assert_eq(rf_key_load(path, &second), 0);
	cr_assert_neq(memcmp(first.bytes, second.bytes, RF_KEY_SIZE), 0);
}

Test(key_file, a_tight_umask_does_not_lock_the_owner_out)
{
	mode_t old = umask(0777);

	cr_assert_eq(rf_key_generate(path), 0);
	umask(old);
	cr_assert_eq(load(), 0);
}

Test(key_file, an_existing_file_is_kept)
{
	write_text("precious");
	cr_assert_eq(rf_key_generate(path), -EEXIST);
	cr_assert_eq(load(), -EINVAL);
}

Test(key_file, a_directory_that_is_not_there_is_reported)
{
	char nowhere[96];
	struct rf_key loaded;

	snprintf(nowhere, sizeof(nowhere), "%s/no/key", dir);
	cr_assert_eq(rf_key_generate(nowhere), -ENOENT);
	cr_assert_eq(rf_key_load(nowhere, &loaded), -ENOENT);
	cr_assert_eq(load(), -ENOENT);
}

Test(key_file, files_that_others_may_use_are_refused)
{
	static const mode_t bad[] = { 0640, 0620, 0610, 0604, 0602, 0601,
				      0666, 0440 };

	for (size_t i = 0; i < RF_ARRAY_SIZE(bad); i++) {
		write_file("rdmafs-key-1 " DIGITS "f\n", 78, bad[i]);
		cr_assert_eq(load(), -EPERM, "mode %o", bad[i]);
	}
	write_file("rdmafs-key-1 " DIGITS "f\n", 78, 0400);
	cr_assert_eq(load(), 0);
}

Test(key_file, only_the_right_content_is_a_key)
{
	struct rf_key loaded;

	write_text("rdmafs-key-1 " DIGITS "f\n");
	cr_assert_eq(rf_key_load(path, &loaded), 0);
	cr_assert_eq(loaded.bytes[0], 0x01);
	cr_assert_eq(loaded.bytes[31], 0xef);
	write_text("rdmafs-key-1 " DIGITS "f");
	cr_assert_eq(load(), 0, "an editor may have cut the newline");

	write_text("");
	cr_assert_eq(load(), -EINVAL);
	write_text("rdmafs-key-1 ");
	cr_assert_eq(load(), -EINVAL);
	write_text("rdmafs-key-2 " DIGITS "f\n");
	cr_assert_eq(load(), -EINVAL);
	write_text("rdmafs-key-1 " DIGITS "\n");
	cr_assert_eq(load(), -EINVAL, "a digit is missing");
	write_text("rdmafs-key-1 " DIGITS "\n\n");
	cr_assert_eq(load(), -EINVAL);
	write_text("rdmafs-key-1 " DIGITS "ff\n");
	cr_assert_eq(load(), -EINVAL);
	write_text("rdmafs-key-1 " DIGITS "f\n\n");
	cr_assert_eq(load(), -EINVAL);
	write_text("rdmafs-key-1 " DIGITS "g\n");
	cr_assert_eq(load(), -EINVAL);
	write_file("rdmafs-key-1 " DIGITS "\0\n", 78, 0600);
	cr_assert_eq(load(), -EINVAL);
	write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n");
	cr_assert_eq(load(), -EINVAL);
}

Test(key_file, a_key_of_zeroes_is_no_key)
{
	write_text("rdmafs-key-1 "
		   "00000000000000000000000000000000"
		   "00000000000000000000000000000000\n");
	cr_assert_eq(load(), -EINVAL);
}

Test(key_file, what_is_not_a_file_is_refused_without_waiting)
{
	struct rf_key loaded;

	cr_assert_eq(rf_key_load(dir, &loaded), -EINVAL);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_assert_eq(load(), -EINVAL);
}

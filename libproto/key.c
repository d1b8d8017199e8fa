/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key.c - the file with the cluster's shared key
 *
 * One line of text: "rdmafs-key-1 ", 64 hexadecimal digits, newline.  The word
 * in front tells a wrong file apart from a wrong key.
 *
 * When it fails.  What is written is synced before success is reported, and a
 * file that could not be written whole is removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"
#include "hello.h"

#define PREFIX "rdmafs-key-1 "

enum {
	PREFIX_SIZE = sizeof(PREFIX) - 1,
	LINE_SIZE = PREFIX_SIZE + 2 * RF_KEY_SIZE + 1,
};

/* Up to size bytes of the file: the number read, or a negative errno. */
static ssize_t read_some(int fd, char *out, size_t size)
{
	size_t have = 0;

	while (have < size) {
		ssize_t got = read(fd, out + have, size - have);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		have += (size_t)got;
	}
	return (ssize_t)have;
}

static int write_all(int fd, const char *data, size_t size)
{
	while (size > 0) {
		ssize_t put = write(fd, data, size);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -errno;
		data += put;
		size -= (size_t)put;
	}
	return 0;
}

static int parse(const char *line, size_t size, struct rf_key *out)
{
	size_t bytes;

	if (size == LINE_SIZE && line[LINE_SIZE - 1] == '\n')
		size--;
	if (size != LINE_SIZE - 1 || memcmp(line, PREFIX, PREFIX_SIZE) != 0)
		return -EINVAL;
	if (sodium_hex2bin(out->bytes, sizeof(out->bytes), line + PREFIX_SIZE,
			   2 * RF_KEY_SIZE, NULL, &bytes, NULL) != 0 ||
	    bytes != RF_KEY_SIZE)
		return -EINVAL;
	/* All zeroes is how "no key" is spelled. */
	if (sodium_is_zero(out->bytes, sizeof(out->bytes)))
		return -EINVAL;
	out->is_set = true;
	return 0;
}

static int load_fd(int fd, struct rf_key *out)
{
	char line[LINE_SIZE + 1];	/* one more: to see that it is longer */
	struct stat st;
	ssize_t size;
	int err;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_mode & (S_IRWXG | S_IRWXO))
		return -EPERM;
	size = read_some(fd, line, sizeof(line));
	err = size < 0 ? (int)size : parse(line, (size_t)size, out);
	sodium_memzero(line, sizeof(line));
	return err;
}

int rf_key_load(const char *path, struct rf_key *out)
{
	/* NONBLOCK: a FIFO of this name must not hold us up. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	int err;

	if (fd < 0)
		return -errno;
	sodium_memzero(out, sizeof(*out));
	err = load_fd(fd, out);
	if (err < 0)
		sodium_memzero(out, sizeof(*out));
	close(fd);
	return err;
}

/* So that the name survives a power cut too. */
static int sync_directory_of(const char *path)
{
	char copy[PATH_MAX];
	int fd, err = 0;

	if (strlen(path) >= sizeof(copy))
		return -ENAMETOOLONG;
	memcpy(copy, path, strlen(path) + 1);
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fsync(fd) < 0)
		err = -errno;
	close(fd);
	return err;
}

static int write_new_key(int fd)
{
	uint8_t key[RF_KEY_SIZE];
	char line[LINE_SIZE + 1];
	int err;

	rf_random(key, sizeof(key));
	memcpy(line, PREFIX, PREFIX_SIZE);
	sodium_bin2hex(line + PREFIX_SIZE, 2 * RF_KEY_SIZE + 1, key,
		       sizeof(key));
	line[LINE_SIZE - 1] = '\n';
	err = write_all(fd, line, LINE_SIZE);
	if (err == 0 && fsync(fd) < 0)
		err = -errno;
	sodium_memzero(key, sizeof(key));
	sodium_memzero(line, sizeof(line));
	return err;
}

int rf_key_generate(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (fchmod(fd, 0600) < 0)	/* whatever the umask took away */
		err = -errno;
	if (err == 0)
		err = write_new_key(fd);
	if (close(fd) < 0 && err == 0)
		err = -errno;
	if (err == 0)
		err = sync_directory_of(path);
	if (err < 0)
		unlink(path);
	return err;
}

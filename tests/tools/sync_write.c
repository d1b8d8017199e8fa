/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sync_write.c - writes that are to be durable when they return
 *
 *	sync_write FILE WAY SIZE
 *
 * Makes FILE, or opens it, and for each line on its input writes SIZE bytes behind
 * those of the line before, in one call; then it says "ok".  It ends at the line
 * "end", or with its input.  The bytes depend on place and SIZE only.  WAY is "none", or how to ask for it: "sync" and "dsync" by
 * the open, "rwf_sync" and "rwf_dsync" by each call; with "direct_" before it, past
 * the page cache.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096 };

static const struct {
	const char *name;
	int open_flags, call_flags;
} ways[] = {
	{ "none", 0, 0 },
	{ "sync", O_SYNC, 0 },
	{ "dsync", O_DSYNC, 0 },
	{ "rwf_sync", 0, RWF_SYNC },
	{ "rwf_dsync", 0, RWF_DSYNC },
};

static void must(int is_right, const char *what)
{
	if (is_right)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static void fill(unsigned char *bytes, size_t size, size_t turn)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)(((turn * size + i) *
					    2654435761u >> 16) | 1);
}

int main(int argc, char **argv)
{
	static const char direct[] = "direct_";
	const char *word = argc == 4 ? argv[2] : "";
	int is_direct = strncmp(word, direct, sizeof(direct) - 1) == 0;
	size_t size = argc == 4 ? strtoul(argv[3], NULL, 10) : 0, way = 0;
	unsigned char *bytes;
	char line[16];
	int fd;

	word += is_direct ? sizeof(direct) - 1 : 0;
	while (way < sizeof(ways) / sizeof(ways[0]) &&
	       strcmp(ways[way].name, word) != 0)
		way++;
	if (size == 0 || way == sizeof(ways) / sizeof(ways[0])) {
		fprintf(stderr, "usage: sync_write FILE WAY SIZE\n");
		return 2;
	}
	bytes = aligned_alloc(PAGE, (size + PAGE - 1) & ~(size_t)(PAGE - 1));
	must(bytes != NULL, "memory");
	fd = open(argv[1], O_WRONLY | O_CREAT | ways[way].open_flags |
			   (is_direct ? O_DIRECT : 0), 0644);
	must(fd >= 0, argv[1]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t turn = 0; fgets(line, sizeof(line), stdin) &&
			      strcmp(line, "end\n") != 0; turn++) {
		fill(bytes, size, turn);
		must(pwritev2(fd, &(struct iovec){ bytes, size }, 1,
			      (off_t)(turn * size), ways[way].call_flags) ==
		     (ssize_t)size, "write");
		printf("ok\n");
	}
	must(close(fd) == 0, "close");
	free(bytes);
	return 0;
}

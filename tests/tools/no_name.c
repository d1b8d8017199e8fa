/* SPDX-License-Identifier: Apache-2.0 */
/*
 * no_name - files without a name (O_TMPFILE), and how they get one
 *
 *	no_name DIR_A DIR_B
 *
 * Works in the first directory and looks in the second, which is the same one, on
 * this or on another mount.  Prints what came, to be compared with what comes on
 * a local file system.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *a, *b;

static const char *result(int ret)
{
	return ret >= 0 ? "ok" : strerrorname_np(errno);
}

static const char *in(const char *dir, const char *name)
{
	static char paths[2][4096];
	static int which;
	char *path = paths[which++ % 2];

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

static void show(const char *what, int fd)
{
	struct stat st;

	printf("%s: %s", what, result(fstat(fd, &st)));
	printf(" mode %o nlink %d size %d\n", st.st_mode, (int)st.st_nlink,
	       (int)st.st_size);
}

static void look(const char *name)
{
	struct stat st = { 0 };
	int ret = stat(in(b, name), &st);

	printf("%s: %s", name, result(ret));
	if (ret == 0)
		printf(" nlink %d size %d", (int)st.st_nlink, (int)st.st_size);
	printf("\n");
}

/* By /proc, which anybody may use, or by the descriptor. */
static int give_name(int fd, const char *name, int by_fd)
{
	char path[64];

	if (by_fd)
		return linkat(fd, "", AT_FDCWD, in(a, name), AT_EMPTY_PATH);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, path, AT_FDCWD, in(a, name),
		      AT_SYMLINK_FOLLOW);
}

static void named(int by_fd, const char *name, const char *second)
{
	int fd = open(a, O_TMPFILE | O_RDWR, 0666);
	char text[8] = "";

	printf("open: %s\n", result(fd));
	show("at first", fd);
	printf("write: %s\n", result((int)write(fd, "content", 7)));
	printf("chmod: %s\n", result(fchmod(fd, 0640)));
	show("written", fd);
	printf("link: %s\n", result(give_name(fd, name, by_fd)));
	show("named", fd);
	look(name);
	printf("link again: %s\n", result(give_name(fd, second, by_fd)));
	printf("link over: %s\n", result(give_name(fd, name, by_fd)));
	close(fd);
	fd = open(in(a, name), O_RDONLY);
	printf("read: %s\n", result((int)read(fd, text, 7)));
	printf("it says %s\n", text);
	show("opened", fd);
	printf("unlink: %s\n", result(unlink(in(b, name))));
	look(second);
	printf("unlink: %s\n", result(unlink(in(a, second))));
	show("unlinked", fd);
	printf("link: %s\n", result(give_name(fd, "no", by_fd)));
	close(fd);
}

static void never_named(void)
{
	int fd = open(a, O_TMPFILE | O_WRONLY | O_EXCL, 0600);

	printf("open: %s\n", result(fd));
	show("at first", fd);
	printf("link: %s\n", result(give_name(fd, "no", 0)));
	look("no");
	close(fd);
	fd = open(a, O_TMPFILE | O_RDWR, 0600);
	close(fd);
	printf("rmdir-able: %s\n", result(rmdir(a)));
	printf("mkdir: %s\n", result(mkdir(a, 0755)));
}

static void refused(void)
{
	int fd = open(in(a, "file"), O_CREAT | O_RDWR, 0600);

	close(fd);
	printf("to read: %s\n", result(open(a, O_TMPFILE | O_RDONLY, 0600)));
	printf("in a file: %s\n",
	       result(open(in(a, "file"), O_TMPFILE | O_RDWR, 0600)));
	printf("in nothing: %s\n",
	       result(open(in(a, "nothing"), O_TMPFILE | O_RDWR, 0600)));
	if (seteuid(65534) == 0) {
		printf("not allowed: %s\n",
		       result(open(a, O_TMPFILE | O_RDWR, 0600)));
		if (seteuid(0) < 0)
			printf("can't come back\n");
	}
	unlink(in(a, "file"));
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	a = argv[1];
	b = argv[2];
	umask(027);
	named(0, "x", "y");
	if (geteuid() == 0)
		named(1, "u", "v");
	refused();
	never_named();
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules_names.c - what names may be, and what calls on them answer
 */
#include "lib/rules.h"

#include <dirent.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>

static int rename2(const char *from, const char *to, unsigned int flags)
{
	return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags);
}

/* Each call that names something that must be there: all fail alike. */
static void all_fail(int wanted, const char *path)
{
	struct stat st;
	char target[8];

	FAILS(wanted, stat(path, &st));
	FAILS(wanted, open_close(path, O_RDONLY));
	FAILS(wanted, chmod(path, 0644));
	FAILS(wanted, chown(path, 0, 0));
	FAILS(wanted, truncate(path, 1));
	FAILS(wanted, unlink(path));
	FAILS(wanted, rmdir(path));
	FAILS(wanted, readlink(path, target, sizeof(target)));
	FAILS(wanted, faccessat(AT_FDCWD, path, F_OK, AT_EACCESS));
	FAILS(wanted, utimensat(AT_FDCWD, path, NULL, 0));
	FAILS(wanted, rename(path, beside(path, "elsewhere")));
	FAILS(wanted, link(path, beside(path, "elsewhere")));
}

/* Each call that makes something. */
static void all_makers_fail(int wanted, const char *path)
{
	FAILS(wanted, open_close(path, O_WRONLY | O_CREAT | O_EXCL));
	FAILS(wanted, mkdir(path, 0755));
	FAILS(wanted, symlink("target", path));
	FAILS(wanted, mkfifo(path, 0644));
	FAILS(wanted, mknod(path, S_IFREG | 0644, 0));
	MUST(put_file(a("source"), 1, 0644));
	FAILS(wanted, link(beside(path, "source"), path));
}

/* ---- lengths -------------------------------------------------------------- */

static void names_of_255_bytes(void)
{
	char name[257];
	struct stat st;

	memset(name, 'n', 256);
	name[255] = name[256] = '\0';
	MUST(put_file(a(name), 3, 0644));
	EQUAL(stat_of(b(name)).st_size, 3);
	MUST(rename(b(name), b("short")));
	MUST(mkdir(a(name), 0755));
	MUST(rmdir(b(name)));
	MUST(symlink("t", a(name)));
	MUST(unlink(b(name)));
	MUST(link(b("short"), b(name)));
	EQUAL(stat_of(a("short")).st_nlink, 2);
	name[255] = 'n';
	all_fail(ENAMETOOLONG, a(name));
	all_makers_fail(ENAMETOOLONG, a(name));
	FAILS(ENAMETOOLONG, rename(a("short"), a(name)));
	FAILS(ENAMETOOLONG, lstat(b(name), &st));
}

static void paths_of_4096_bytes(void)
{
	char path[PATH_MAX + 8];
	size_t used;
	struct stat st;

	MUST(put_file(a("f"), 1, 0644));
	used = (size_t)snprintf(path, sizeof(path), "%s", a(""));
	while (used < PATH_MAX - 1 - 4) {
		memcpy(path + used, "/.", 2);
		used += 2;
	}
	/* "//f" or "///f": with the NUL just PATH_MAX. */
	while (used < PATH_MAX - 2)
		path[used++] = '/';
	path[used++] = 'f';
	path[used] = '\0';
	EQUAL(used, PATH_MAX - 1);
	MUST(stat(path, &st));
	path[used - 1] = '/';
	path[used] = 'f';
	path[used + 1] = '\0';
	FAILS(ENAMETOOLONG, stat(path, &st));
	FAILS(ENAMETOOLONG, open_close(path, O_RDONLY));
	FAILS(ENAMETOOLONG, rename(path, a("g")));
}

static void targets_of_symbolic_links(void)
{
	char target[PATH_MAX + 1], got[PATH_MAX + 1];

	memset(target, 't', sizeof(target));
	target[PATH_MAX - 1] = '\0';
	MUST(symlink(target, a("long")));
	EQUAL(readlink(b("long"), got, sizeof(got)), PATH_MAX - 1);
	TRUE(memcmp(got, target, PATH_MAX - 1) == 0);
	EQUAL(stat_of(b("long")).st_size, PATH_MAX - 1);
	EQUAL(stat_of(b("long")).st_mode, S_IFLNK | 0777);
	EQUAL(readlink(b("long"), got, 10), 10);
	target[PATH_MAX - 1] = 't';
	target[PATH_MAX] = '\0';
	FAILS(ENAMETOOLONG, symlink(target, a("longer")));
	FAILS(ENOENT, symlink("", a("empty")));
	MUST(put_file(a("file"), 1, 0644));
	FAILS(EINVAL, readlink(a("file"), got, sizeof(got)));
}

/* ---- what stands in the way ----------------------------------------------- */

static void loops(void)
{
	char path[64], target[64];
	struct stat st;

	MUST(symlink("two", a("one")));
	MUST(symlink("one", a("two")));
	FAILS(ELOOP, stat(b("one"), &st));
	FAILS(ELOOP, open_close(b("one"), O_RDONLY));
	FAILS(ELOOP, chmod(b("one"), 0644));
	FAILS(ELOOP, truncate(b("one"), 0));
	all_fail(ELOOP, b("one/x"));
	all_makers_fail(ELOOP, b("one/x"));
	MUST(put_file(a("0"), 1, 0644));
	for (int i = 1; i <= 41; i++) {
		snprintf(path, sizeof(path), "%d", i);
		snprintf(target, sizeof(target), "%d", i - 1);
		MUST(symlink(target, a(path)));
	}
	MUST(stat(b("40"), &st));
	FAILS(ELOOP, stat(b("41"), &st));
	FAILS(ELOOP, open_close(b("1"), O_RDONLY | O_NOFOLLOW));
	MUST(open_close(b("1"), O_RDONLY | O_NOFOLLOW | O_PATH));
}

static void files_are_no_directories(void)
{
	MUST(put_file(a("file"), 1, 0644));
	MUST(mkdir(a("dir"), 0755));
	all_fail(ENOTDIR, b("file/x"));
	all_makers_fail(ENOTDIR, b("file/x"));
	FAILS(ENOTDIR, open_close(b("file"), O_RDONLY | O_DIRECTORY));
	FAILS(ENOTDIR, open_close(b("file/"), O_RDONLY));
	FAILS(ENOTDIR, unlink(b("file/")));
	FAILS(ENOTDIR, rmdir(b("file")));
	FAILS(ENOTDIR, rename(b("dir"), b("file")));
	FAILS(ENOTDIR, rename(b("file"), b("file/")));
	FAILS(ENOTDIR, rename(b("file"), b("new/")));
	FAILS(ENOTDIR, chdir(b("file")));
}

static void directories_are_no_files(void)
{
	MUST(mkdir(a("dir"), 0755));
	MUST(put_file(a("file"), 1, 0644));
	FAILS(EISDIR, open_close(b("dir"), O_WRONLY));
	FAILS(EISDIR, open_close(b("dir"), O_RDWR));
	FAILS(EISDIR, open_close(b("dir"), O_RDONLY | O_CREAT));
	FAILS(EISDIR, open_close(b("dir"), O_RDONLY | O_TRUNC));
	FAILS(EISDIR, open_close(b("new/"), O_WRONLY | O_CREAT));
	FAILS(EISDIR, truncate(b("dir"), 0));
	FAILS(EISDIR, unlink(b("dir")));
	FAILS(EISDIR, rename(b("file"), b("dir")));
	FAILS(EPERM, link(b("dir"), b("other")));
	FAILS(ENOENT, mknod(b("dir/x/y"), S_IFREG | 0644, 0));
	/* The kernel's own: the last is not a name that can be made. */
	FAILS(EEXIST, mkdir(b("."), 0755));
	FAILS(EINVAL, rmdir(b("dir/.")));
	FAILS(ENOTEMPTY, rmdir(b("dir/..")));
	FAILS(EBUSY, rename(b("dir/."), b("other")));
}

static void what_is_not_there(void)
{
	struct stat st;

	all_fail(ENOENT, a("nothing"));
	all_fail(ENOENT, b("nothing/x"));
	all_makers_fail(ENOENT, b("nothing/x"));
	FAILS(ENOENT, open_close("", O_RDONLY));
	FAILS(ENOENT, stat("", &st));
	MUST(symlink("nothing", a("dangling")));
	FAILS(ENOENT, stat(b("dangling"), &st));
	FAILS(ENOENT, open_close(b("dangling"), O_RDONLY));
	MUST(open_close(b("dangling"), O_WRONLY | O_CREAT));
	MUST(stat(a("nothing"), &st));
}

static void what_is_there(void)
{
	static const char *const names[] = { "file", "dir", "dangling", "fifo" };

	MUST(put_file(a("file"), 1, 0644));
	MUST(mkdir(a("dir"), 0755));
	MUST(symlink("nowhere", a("dangling")));
	MUST(mkfifo(a("fifo"), 0644));
	for (size_t i = 0; i < 4; i++) {
		all_makers_fail(EEXIST, b(names[i]));
		FAILS(EEXIST, rename2(b("source"), b(names[i]),
				      RENAME_NOREPLACE));
	}
	MUST(mkdir(b("with-slash/"), 0755));
	MUST(stat_of(a("with-slash")).st_mode & S_IFDIR ? 0 : -1);
}

static void directories_that_are_not_empty(void)
{
	MUST(mkdir(a("full"), 0755));
	MUST(put_file(b("full/x"), 1, 0644));
	MUST(mkdir(a("empty"), 0755));
	FAILS(ENOTEMPTY, rmdir(a("full")));
	FAILS(ENOTEMPTY, rename(b("empty"), b("full")));
	FAILS(EINVAL, rename(b("full"), b("full/below")));
	FAILS(ENOTEMPTY, rename(b("full/x"), b("full")));
	MUST(rename(b("full"), b("empty")));
	FAILS(ENOENT, rmdir(a("full")));
	MUST(unlink(b("empty/x")));
	MUST(rmdir(a("empty")));
}

/* ---- links and renames ---------------------------------------------------- */

static void hard_links_count(void)
{
	char path[64];
	int fd;

	MUST(put_file(a("0"), 100, 0640));
	for (int i = 1; i < 20; i++) {
		snprintf(path, sizeof(path), "%d", i);
		MUST(i % 2 ? link(a("0"), a(path)) : link(b("0"), b(path)));
	}
	EQUAL(stat_of(b("7")).st_nlink, 20);
	EQUAL(stat_of(b("7")).st_ino, stat_of(b("0")).st_ino);
	MUST(truncate(b("3"), 50));
	EQUAL(stat_of(a("0")).st_size, 50);
	MUST(chmod(a("5"), 0600));
	EQUAL(stat_of(b("6")).st_mode, S_IFREG | 0600);
	MUST(unlink(b("0")));
	EQUAL(stat_of(a("1")).st_nlink, 19);
	MUST(symlink("1", a("soft")));
	MUST(link(b("soft"), b("soft2")));
	EQUAL(stat_of(a("soft2")).st_mode, S_IFLNK | 0777);
	EQUAL(stat_of(a("soft")).st_nlink, 2);
	fd = (int)MUST(open(a("1"), O_RDONLY));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	MUST(linkat(AT_FDCWD, path, AT_FDCWD, a("again"), AT_SYMLINK_FOLLOW));
	EQUAL(stat_of(b("again")).st_nlink, 20);
	close(fd);
}

static void a_file_lives_on_while_open(void)
{
	int fd;
	char bytes[8];
	struct stat st;
	struct timespec times[2] = { { 100, 5 }, { 200, 7 } };

	MUST(put_file(a("file"), 100, 0644));
	fd = (int)MUST(open(a("file"), O_RDWR));
	MUST(unlink(b("file")));
	MUST(fstat(fd, &st));
	EQUAL(st.st_nlink, 0);
	EQUAL(pread(fd, bytes, 3, 97), 3);
	TRUE(memcmp(bytes, "tuv", 3) == 0);
	EQUAL(pwrite(fd, "more", 4, 4096), 4);
	MUST(ftruncate(fd, 5000));
	MUST(fchmod(fd, 0600));
	MUST(futimens(fd, times));
	MUST(fsync(fd));
	MUST(fstat(fd, &st));
	EQUAL(st.st_size, 5000);
	EQUAL(st.st_mtim.tv_nsec, 7);
	EQUAL(st.st_mode, S_IFREG | 0600);
	EQUAL(pread(fd, bytes, 4, 4096), 4);
	TRUE(memcmp(bytes, "more", 4) == 0);
	/* The name is free for another. */
	MUST(put_file(b("file"), 7, 0644));
	EQUAL(stat_of(a("file")).st_size, 7);
	TRUE(stat_of(a("file")).st_ino != st.st_ino);
	close(fd);
}

static void an_open_file_may_be_moved_and_replaced(void)
{
	int fd, old;
	struct stat st;
	char byte;

	MUST(mkdir(a("d"), 0755));
	fd = (int)MUST(open(a("new"), O_RDWR | O_CREAT, 0644));
	MUST(rename(b("new"), b("d/moved")));
	EQUAL(write(fd, "written after", 13), 13);
	EQUAL(stat_of(b("d/moved")).st_size, 13);
	MUST(put_file(a("other"), 5, 0644));
	old = (int)MUST(open(a("other"), O_RDONLY));
	MUST(rename(b("d/moved"), b("other")));
	EQUAL(stat_of(a("other")).st_size, 13);
	MUST(fstat(old, &st));
	EQUAL(st.st_nlink, 0);
	EQUAL(pread(old, &byte, 1, 4), 1);
	EQUAL(byte, 'e');
	EQUAL(pwrite(fd, "W", 1, 0), 1);
	close(old);
	old = (int)MUST(open(b("other"), O_RDONLY));
	EQUAL(pread(old, &byte, 1, 0), 1);
	EQUAL(byte, 'W');
	close(old);
	close(fd);
}

static void rename_flags(void)
{
	MUST(put_file(a("one"), 1, 0644));
	MUST(put_file(a("two"), 2, 0644));
	FAILS(EEXIST, rename2(b("one"), b("two"), RENAME_NOREPLACE));
	MUST(rename2(b("one"), b("three"), RENAME_NOREPLACE));
	MUST(rename2(a("two"), a("three"), RENAME_EXCHANGE));
	EQUAL(stat_of(b("two")).st_size, 1);
	EQUAL(stat_of(b("three")).st_size, 2);
	FAILS(ENOENT, rename2(b("two"), b("none"), RENAME_EXCHANGE));
	FAILS(EINVAL, rename2(b("two"), b("three"),
			      RENAME_EXCHANGE | RENAME_NOREPLACE));
	MUST(mkdir(a("dir"), 0755));
	MUST(put_file(a("dir/in"), 3, 0644));
	MUST(rename2(b("dir"), b("two"), RENAME_EXCHANGE));
	EQUAL(stat_of(a("two/in")).st_size, 3);
	EQUAL(stat_of(a("dir")).st_size, 1);
	FAILS(EINVAL, rename2(b("two"), b("two/in"), RENAME_EXCHANGE));
	MUST(link(a("dir"), a("same")));
	MUST(rename(b("dir"), b("same")));
	EQUAL(stat_of(a("dir")).st_nlink, 2);
}

/* What overlayfs does in its upper directory. */
static void whiteouts(void)
{
	struct stat st;

	MUST(put_file(a("f"), 1, 0644));
	if (rename2(b("f"), b("g"), RENAME_WHITEOUT)) {
		EQUAL(errno, EINVAL);	/* tmpfs of old kernels */
		return;
	}
	st = stat_of(a("f"));
	EQUAL(st.st_mode, S_IFCHR);
	EQUAL(st.st_rdev, 0);
	EQUAL(stat_of(a("g")).st_size, 1);
	FAILS(EEXIST, rename2(b("g"), b("f"),
			      RENAME_WHITEOUT | RENAME_NOREPLACE));
	FAILS(EINVAL, rename2(b("g"), b("f"),
			      RENAME_WHITEOUT | RENAME_EXCHANGE));
	MUST(rename2(b("g"), b("f"), RENAME_WHITEOUT));
	EQUAL(stat_of(a("f")).st_size, 1);
	EQUAL(stat_of(a("g")).st_mode, S_IFCHR);
	MUST(unlink(b("g")));
	if (geteuid() != 0)
		return;
	MUST(chmod(a(""), 0777));
	become(ALICE);
	MUST(mknod(b("w"), S_IFCHR | 0600, 0));
	FAILS(EPERM, mknod(b("x"), S_IFBLK | 0600, 0));
	become(0);
}

static void a_moved_directory_has_another_parent(void)
{
	ino_t parent;

	MUST(mkdir(a("p"), 0755));
	MUST(mkdir(a("q"), 0755));
	MUST(mkdir(a("p/d"), 0755));
	EQUAL(stat_of(b("p")).st_nlink, 3);
	parent = stat_of(b("q")).st_ino;
	MUST(rename(a("p/d"), a("q/d")));
	EQUAL(stat_of(b("q/d/..")).st_ino, parent);
	EQUAL(stat_of(a("q")).st_nlink, 3);
	EQUAL(stat_of(a("p")).st_nlink, 2);
	MUST(rmdir(b("q/d")));
	EQUAL(stat_of(a("q")).st_nlink, 2);
	/* Over an empty one: that is gone. */
	MUST(mkdir(a("q/e"), 0755));
	MUST(rename(b("p"), b("q/e")));
	EQUAL(stat_of(a("q")).st_nlink, 3);
}

static void other_file_systems(void)
{
	char path[] = "/dev/shm/rdmafs-rules.XXXXXX";
	int fd = mkstemp(path);

	MUST(put_file(a("file"), 1, 0644));
	if (fd < 0)
		return;		/* nowhere to go */
	FAILS(EXDEV, rename(b("file"), path));
	FAILS(EXDEV, link(b("file"), "/dev/shm/rdmafs-rules.link"));
	FAILS(EXDEV, rename(path, b("here")));
	close(fd);
	unlink(path);
}

/* ---- permissions ---------------------------------------------------------- */

static void sticky_directories(void)
{
	MUST(mkdir(a("t"), 0755));
	MUST(chmod(a("t"), 01777));
	become(ALICE);
	MUST(put_file(a("t/alice"), 1, 0666));
	MUST(mkdir(a("t/alice-dir"), 0777));
	become(BOB);
	MUST(put_file(b("t/bob"), 1, 0666));
	FAILS(EPERM, unlink(b("t/alice")));
	FAILS(EPERM, rmdir(b("t/alice-dir")));
	FAILS(EPERM, rename(b("t/alice"), b("t/x")));
	FAILS(EPERM, rename(b("t/bob"), b("t/alice")));
	FAILS(EPERM, rename2(b("t/bob"), b("t/alice"), RENAME_EXCHANGE));
	MUST(rename(b("t/bob"), b("t/bob2")));
	MUST(unlink(b("t/bob2")));
	become(0);
	MUST(chown(a("t"), BOB, BOB));
	become(BOB);
	MUST(unlink(b("t/alice")));	/* the directory is his */
	MUST(rmdir(b("t/alice-dir")));
	become(0);
}

static void setgid_directories(void)
{
	MUST(mkdir(a("g"), 0755));
	MUST(chown(a("g"), 0, CREW));
	MUST(chmod(a("g"), 02777));
	become(BOB);
	umask(0);
	MUST(put_file(a("g/file"), 1, 0664));
	EQUAL(stat_of(b("g/file")).st_gid, CREW);
	MUST(mkdir(a("g/dir"), 0755));
	EQUAL(stat_of(b("g/dir")).st_mode, S_IFDIR | 02755);
	EQUAL(stat_of(b("g/dir")).st_gid, CREW);
	MUST(symlink("x", a("g/link")));
	EQUAL(stat_of(b("g/link")).st_gid, CREW);
	/* Not of the group: no setgid program of it. */
	MUST(mknod(a("g/program"), S_IFREG | 02775, 0));
	EQUAL(stat_of(b("g/program")).st_mode, S_IFREG | 0775);
	become(ALICE);
	MUST(mknod(a("g/alices"), S_IFREG | 02775, 0));
	EQUAL(stat_of(b("g/alices")).st_mode, S_IFREG | 02775);
	become(0);
}

static void permissions_of_directories(void)
{
	struct stat st;

	MUST(mkdir(a("d"), 0755));
	MUST(put_file(a("d/file"), 1, 0644));
	MUST(chmod(a("d"), 0711));
	become(BOB);
	MUST(stat(b("d/file"), &st));
	FAILS(EACCES, open_close(b("d"), O_RDONLY | O_DIRECTORY));
	all_makers_fail(EACCES, b("d/new"));
	FAILS(EACCES, unlink(b("d/file")));
	FAILS(EACCES, rename(b("d/file"), b("stolen")));
	become(0);
	MUST(chmod(a("d"), 0766));
	become(BOB);
	all_fail(EACCES, b("d/file"));
	MUST(open_close(b("d"), O_RDONLY | O_DIRECTORY));
	become(0);
	/* By a group that is not the first one. */
	MUST(chown(a("d"), 0, CREW));
	MUST(chmod(a("d"), 0070));
	become(ALICE);
	MUST(put_file(b("d/alices"), 1, 0644));
	MUST(unlink(b("d/alices")));
	become(BOB);
	FAILS(EACCES, stat(b("d/file"), &st));
	become(0);
	MUST(stat(b("d/file"), &st));
}

static void permissions_of_files(void)
{
	MUST(put_file(a("f"), 1, 0));
	FAILS(EACCES, execl(a("f"), "f", NULL));
	MUST(open_close(a("f"), O_RDWR));	/* root */
	MUST(chown(a("f"), ALICE, CREW));
	MUST(chmod(a("f"), 0604));
	become(ALICE);
	MUST(open_close(b("f"), O_RDWR));
	become(BOB);
	MUST(open_close(b("f"), O_RDONLY));
	FAILS(EACCES, open_close(b("f"), O_WRONLY));
	FAILS(EACCES, open_close(b("f"), O_RDONLY | O_TRUNC));
	FAILS(EACCES, truncate(b("f"), 0));
	become(0);
	MUST(chmod(a("f"), 0066));
	become(ALICE);		/* the owner's bits alone count */
	FAILS(EACCES, open_close(b("f"), O_RDONLY));
	become(0);
	MUST(chown(a("f"), BOB, CREW));
	MUST(chmod(a("f"), 0060));
	become(ALICE);
	MUST(open_close(b("f"), O_RDWR));
	become(BOB);
	FAILS(EACCES, open_close(b("f"), O_RDONLY));
	become(0);
}

/* ---- nodes ---------------------------------------------------------------- */

static void fifos_and_sockets(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int in, out, listener, caller;
	char byte;

	MUST(mkfifo(a("fifo"), 0640));
	EQUAL(stat_of(b("fifo")).st_mode, S_IFIFO | 0640);
	FAILS(ENXIO, open_close(a("fifo"), O_WRONLY | O_NONBLOCK));
	in = (int)MUST(open(a("fifo"), O_RDONLY | O_NONBLOCK));
	out = (int)MUST(open(a("fifo"), O_WRONLY));
	EQUAL(write(out, "x", 1), 1);
	EQUAL(read(in, &byte, 1), 1);
	close(in);
	close(out);
	/* A short way there: the path has only 108 bytes. */
	MUST(chdir(a("")));
	strcpy(address.sun_path, "socket");
	listener = (int)MUST(socket(AF_UNIX, SOCK_STREAM, 0));
	caller = (int)MUST(socket(AF_UNIX, SOCK_STREAM, 0));
	MUST(bind(listener, (struct sockaddr *)&address, sizeof(address)));
	FAILS(EADDRINUSE, bind(caller, (struct sockaddr *)&address,
			       sizeof(address)));
	MUST(listen(listener, 1));
	MUST(connect(caller, (struct sockaddr *)&address, sizeof(address)));
	EQUAL(stat_of(b("socket")).st_mode & S_IFMT, S_IFSOCK);
	FAILS(ENXIO, open_close(b("socket"), O_RDONLY));
	close(caller);
	close(listener);
	MUST(chdir("/"));
}

static void devices(void)
{
	MUST(mknod(a("c"), S_IFCHR | 0600, makedev(300, 70000)));
	EQUAL(stat_of(b("c")).st_rdev, makedev(300, 70000));
	EQUAL(stat_of(b("c")).st_mode, S_IFCHR | 0600);
	MUST(mknod(b("b"), S_IFBLK | 0600, makedev(7, 255)));
	EQUAL(stat_of(a("b")).st_rdev, makedev(7, 255));
	become(ALICE);
	FAILS(EPERM, mknod(a("x"), S_IFCHR | 0600, makedev(1, 3)));
	FAILS(EPERM, mknod(a("x"), S_IFBLK | 0600, makedev(7, 0)));
	MUST(mknod(a("fifo"), S_IFIFO | 0600, 0));
	MUST(mknod(a("sock"), S_IFSOCK | 0600, 0));
	become(0);
	FAILS(EPERM, mknod(a("d"), S_IFDIR | 0600, 0));
}

static void umask_counts(void)
{
	umask(027);
	MUST(open_close(a("file"), O_WRONLY | O_CREAT));
	EQUAL(stat_of(b("file")).st_mode, S_IFREG | 0640);
	MUST(mkdir(a("dir"), 0777));
	EQUAL(stat_of(b("dir")).st_mode & 0777, 0750);
	MUST(mkfifo(a("fifo"), 0666));
	EQUAL(stat_of(b("fifo")).st_mode & 0777, 0640);
}

/* ---- listings ------------------------------------------------------------- */

enum { LISTED = 1500, LONG_LISTED = 100000 };

static unsigned int seen[2 * LISTED];

static void name_of(char *out, unsigned int number)
{
	snprintf(out, 64, "entry-with-a-longer-name-%u", number);
}

static void make_entries(unsigned int count)
{
	char name[64];

	memset(seen, 0, sizeof(seen));
	for (unsigned int i = 0; i < count; i++) {
		name_of(name, i);
		MUST(open_close(a(name), O_WRONLY | O_CREAT));
	}
}

/* Count one entry; false at the end. */
static bool see(DIR *dir)
{
	const struct dirent *entry = readdir(dir);
	unsigned int number;

	if (!entry)
		return false;
	if (sscanf(entry->d_name, "entry-with-a-longer-name-%u", &number) == 1 &&
	    number < 2 * LISTED) {
		seen[number]++;
		TRUE(entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN);
	}
	return true;
}

static void entries_that_come_and_go(void)
{
	DIR *dir;
	char name[64];

	make_entries(LISTED);
	dir = opendir(a(""));
	if (!TRUE(dir != NULL))
		return;
	for (unsigned int i = 0; i < LISTED / 3 && see(dir); i++)
		;
	/* Others remove every third, and add as many. */
	for (unsigned int i = 0; i < LISTED; i += 3) {
		name_of(name, i);
		MUST(unlink(b(name)));
		name_of(name, LISTED + i);
		MUST(open_close(b(name), O_WRONLY | O_CREAT));
	}
	while (see(dir))
		;
	for (unsigned int i = 0; i < LISTED; i++)
		if (i % 3 ? seen[i] != 1 : seen[i] > 1)
			EQUAL(seen[i], 1);
	for (unsigned int i = LISTED; i < 2 * LISTED; i++)
		TRUE(seen[i] <= 1);
	rewinddir(dir);
	memset(seen, 0, sizeof(seen));
	while (see(dir))
		;
	for (unsigned int i = 0; i < LISTED; i += 3)
		if (seen[i] != 0 || seen[LISTED + i] != 1)
			EQUAL(seen[LISTED + i], 1);
	closedir(dir);
}

static void places_in_a_listing(void)
{
	static long places[LISTED + 2];
	static char names[LISTED + 2][256];
	const struct dirent *entry;
	unsigned int count = 0;
	DIR *dir;

	make_entries(LISTED);
	dir = opendir(a(""));
	if (!TRUE(dir != NULL))
		return;
	for (;;) {
		long place = telldir(dir);

		entry = readdir(dir);
		if (!entry)
			break;
		places[count] = place;
		strcpy(names[count++], entry->d_name);
	}
	EQUAL(count, LISTED + 2);
	for (unsigned int i = 0; i < count; i += 37) {
		unsigned int at = (i * 7919) % count;

		seekdir(dir, places[at]);
		entry = readdir(dir);
		if (TRUE(entry != NULL))
			TRUE(strcmp(entry->d_name, names[at]) == 0);
	}
	closedir(dir);
}

/* The number in an entry's name; LISTED * 2: another name. */
static unsigned int number_in(const char *name)
{
	unsigned int number;

	return sscanf(name, "entry-with-a-longer-name-%u", &number) == 1 &&
	       number < 2 * LISTED ? number : 2 * LISTED;
}

/* After a seekdir(): what stayed and came from there on is there, once. */
static void check_rest(DIR *dir, const unsigned int *order, unsigned int at)
{
	memset(seen, 0, sizeof(seen));
	while (see(dir))
		;
	for (unsigned int i = 0; i < LISTED; i++) {
		bool stays = order[i] % 3 != 0;

		if (seen[order[i]] != (stays && i >= at))
			EQUAL(seen[order[i]], stays && i >= at);
	}
}

static void places_outlive_what_is_there(void)
{
	static unsigned int order[LISTED];
	static long places[LISTED];
	const struct dirent *entry;
	unsigned int count = 0;
	char name[64];
	long place;
	DIR *dir;

	make_entries(LISTED);
	dir = opendir(a(""));
	if (!TRUE(dir != NULL))
		return;
	for (place = telldir(dir); (entry = readdir(dir)); place = telldir(dir))
		if (number_in(entry->d_name) < LISTED && count < LISTED) {
			order[count] = number_in(entry->d_name);
			places[count++] = place;
		}
	EQUAL(count, LISTED);
	for (unsigned int i = 0; i < LISTED; i += 3) {
		name_of(name, i);
		MUST(unlink(b(name)));
		name_of(name, LISTED + i);
		MUST(open_close(b(name), O_WRONLY | O_CREAT));
	}
	for (unsigned int at = 0; at < LISTED; at += LISTED / 7) {
		seekdir(dir, places[at]);
		check_rest(dir, order, at);
	}
	closedir(dir);
}

static void all_is_removed_while_listed(void)
{
	unsigned int count = rules_are_long() ? LONG_LISTED : LISTED;
	unsigned int removed = 0;
	struct dirent *entry;
	char name[300];
	DIR *dir;

	make_entries(count);
	dir = opendir(a(""));
	if (!TRUE(dir != NULL))
		return;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] == 'e') {
			snprintf(name, sizeof(name), "%s", entry->d_name);
			MUST(unlink(removed++ % 2 ? a(name) : b(name)));
		}
	closedir(dir);
	EQUAL(removed, count);
	EQUAL(stat_of(a("")).st_nlink, 2);
	MUST(rmdir(b("")));
	MUST(mkdir(a(""), 0777));
}

/* The kernel keeps them for FUSE: not between mounts (CONSISTENCY.md). */
static void a_directory_may_be_locked(void)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	int one, two;

	MUST(mkdir(a("d"), 0755));
	one = (int)MUST(open(a("d"), O_RDONLY | O_DIRECTORY));
	two = (int)MUST(open(a("d"), O_RDONLY | O_DIRECTORY));
	MUST(flock(one, LOCK_EX));
	FAILS(EWOULDBLOCK, flock(two, LOCK_SH | LOCK_NB));
	MUST(flock(one, LOCK_UN));
	MUST(flock(two, LOCK_SH | LOCK_NB));
	MUST(fcntl(one, F_SETLK, &lock));
	MUST(fcntl(two, F_OFD_SETLK, &lock));
	lock.l_type = F_WRLCK;
	FAILS(EBADF, fcntl(one, F_SETLK, &lock));
	close(one);
	close(two);
}

/* ext4's limit, and ours. */
static void too_many_links(void)
{
	enum { LINK_LIMIT = 65000 };
	struct statfs st = { 0 };
	char name[64];

	MUST(statfs(a(""), &st));
	if (!rules_are_long() || (st.f_type != EXT4_SUPER_MAGIC &&
				  st.f_type != FUSE_SUPER_MAGIC))
		return;
	MUST(put_file(a("f"), 1, 0644));
	for (unsigned int i = 1; i < LINK_LIMIT; i++) {
		name_of(name, i);
		MUST(i % 2 ? link(a("f"), a(name)) : link(b("f"), b(name)));
	}
	EQUAL(stat_of(b("f")).st_nlink, LINK_LIMIT);
	FAILS(EMLINK, link(b("f"), b("one-more")));
	name_of(name, 1);
	MUST(unlink(a(name)));
	MUST(link(b("f"), b("one-more")));
}

static void a_directory_that_is_gone(void)
{
	char path[PATH_MAX];
	int fd;
	struct stat st;

	MUST(mkdir(a("d"), 0755));
	fd = (int)MUST(open(a("d"), O_RDONLY | O_DIRECTORY));
	MUST(rmdir(a("d")));
	MUST(fstat(fd, &st));
	EQUAL(st.st_nlink, 0);
	FAILS(ENOENT, openat(fd, "x", O_WRONLY | O_CREAT, 0644));
	FAILS(ENOENT, mkdirat(fd, "x", 0755));
	FAILS(ENOENT, symlinkat("t", fd, "x"));
	MUST(fchdir(fd));
	FAILS(ENOENT, getcwd(path, sizeof(path)) ? 0 : -1);
	MUST(chdir("/"));
	close(fd);
}

/* ---- races ---------------------------------------------------------------- */

enum { RACES = 150 };

enum race_kind { RACE_CREATE, RACE_MKDIR, RACE_LINK, RACE_RENAME, RACE_KINDS };

static int race_once(enum race_kind kind, bool is_second, unsigned int number)
{
	const char *(*side)(const char *) = is_second ? b : a;
	char name[64], own[64];

	snprintf(name, sizeof(name), "race-%u-%u", kind, number);
	snprintf(own, sizeof(own), "own-%d-%u-%u", is_second, kind, number);
	switch (kind) {
	case RACE_CREATE:
		return open_close(side(name), O_WRONLY | O_CREAT | O_EXCL);
	case RACE_MKDIR:
		return mkdir(side(name), 0755);
	case RACE_LINK:
		return link(side("source"), side(name));
	default:
		if (open_close(side(own), O_WRONLY | O_CREAT))
			return -1;
		return rename2(side(own), side(name), RENAME_NOREPLACE);
	}
}

static void race(enum race_kind kind, bool is_second, int out)
{
	for (unsigned int i = 0; i < RACES; i++) {
		unsigned char has_won = race_once(kind, is_second, i) == 0;

		if (!has_won)
			TRUE(errno == EEXIST);
		if (write(out, &has_won, 1) != 1)
			_exit(1);
	}
}

static void one_wins_each_race(void)
{
	MUST(put_file(a("source"), 1, 0644));
	for (unsigned int kind = 0; kind < RACE_KINDS; kind++) {
		unsigned char wins[2][RACES];
		int pipes[2][2];

		for (int i = 0; i < 2; i++) {
			MUST(pipe(pipes[i]));
			if (fork() == 0) {
				race((enum race_kind)kind, i, pipes[i][1]);
				_exit(0);
			}
			close(pipes[i][1]);
		}
		for (int i = 0; i < 2; i++) {
			ssize_t used = 0, got;

			while ((got = read(pipes[i][0], wins[i] + used,
					   RACES - (size_t)used)) > 0)
				used += got;
			EQUAL(used, RACES);
			close(pipes[i][0]);
			wait(NULL);
		}
		for (unsigned int i = 0; i < RACES; i++)
			EQUAL(wins[0][i] + wins[1][i], 1);
	}
}

static const struct rule rules[] = {
	RULE(names_of_255_bytes),
	RULE(paths_of_4096_bytes),
	RULE(targets_of_symbolic_links),
	RULE(loops),
	RULE(files_are_no_directories),
	RULE(directories_are_no_files),
	RULE(what_is_not_there),
	RULE(what_is_there),
	RULE(directories_that_are_not_empty),
	RULE(hard_links_count),
	RULE(a_file_lives_on_while_open),
	RULE(an_open_file_may_be_moved_and_replaced),
	RULE(rename_flags),
	RULE(whiteouts),
	RULE(a_moved_directory_has_another_parent),
	RULE(other_file_systems),
	ROOT_RULE(sticky_directories),
	ROOT_RULE(setgid_directories),
	ROOT_RULE(permissions_of_directories),
	ROOT_RULE(permissions_of_files),
	RULE(fifos_and_sockets),
	ROOT_RULE(devices),
	RULE(umask_counts),
	RULE(entries_that_come_and_go),
	RULE(places_in_a_listing),
	RULE(places_outlive_what_is_there),
	RULE(all_is_removed_while_listed),
	RULE(a_directory_may_be_locked),
	RULE(too_many_links),
	RULE(a_directory_that_is_gone),
	RULE(one_wins_each_race),
};

int main(int argc, char **argv)
{
	return rules_main(rules, sizeof(rules) / sizeof(rules[0]), argc, argv);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules_attrs.c - modes, owners, times: who may change them, and what changes them
 */
#include "lib/rules.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>

static bool is_later(struct timespec x, struct timespec y)
{
	return x.tv_sec > y.tv_sec ||
	       (x.tv_sec == y.tv_sec && x.tv_nsec > y.tv_nsec);
}

static bool is_same(struct timespec x, struct timespec y)
{
	return x.tv_sec == y.tv_sec && x.tv_nsec == y.tv_nsec;
}

/* ---- chmod, chown --------------------------------------------------------- */

static void only_owners_change_modes(void)
{
	MUST(put_file(a("f"), 1, 0644));
	MUST(chown(a("f"), ALICE, CREW));
	become(BOB);
	FAILS(EPERM, chmod(b("f"), 0666));
	become(ALICE);
	MUST(chmod(b("f"), 02775));	/* she is of the group */
	EQUAL(stat_of(a("f")).st_mode, S_IFREG | 02775);
	become(0);
	MUST(chown(a("f"), ALICE, BOB));
	become(ALICE);
	MUST(chmod(b("f"), 06775));	/* and not of this one */
	EQUAL(stat_of(a("f")).st_mode, S_IFREG | 04775);
	become(0);
	MUST(chmod(b("f"), 07777));
	EQUAL(stat_of(a("f")).st_mode, S_IFREG | 07777);
}

static void who_may_give_a_file_away(void)
{
	MUST(put_file(a("f"), 1, 0644));
	MUST(chown(a("f"), ALICE, ALICE));
	become(BOB);
	FAILS(EPERM, chown(b("f"), BOB, (gid_t)-1));
	FAILS(EPERM, chown(b("f"), (uid_t)-1, BOB));
	become(ALICE);
	FAILS(EPERM, chown(b("f"), BOB, (gid_t)-1));
	FAILS(EPERM, chown(b("f"), (uid_t)-1, BOB));
	MUST(chown(b("f"), (uid_t)-1, CREW));
	EQUAL(stat_of(a("f")).st_gid, CREW);
	MUST(chown(b("f"), ALICE, ALICE));
	become(0);
	MUST(symlink("f", a("link")));
	MUST(lchown(b("link"), BOB, BOB));
	EQUAL(stat_of(a("link")).st_uid, BOB);
	EQUAL(stat_of(a("f")).st_uid, ALICE);
	MUST(chown(b("link"), BOB, BOB));
	EQUAL(stat_of(a("f")).st_uid, BOB);
}

static void chown_drops_set_id_bits(void)
{
	MUST(put_file(a("f"), 1, 0644));
	MUST(chmod(a("f"), 06755));
	MUST(chown(b("f"), ALICE, CREW));
	EQUAL(stat_of(a("f")).st_mode & 07777, 0755);
	MUST(chmod(a("f"), 06755));
	MUST(chown(b("f"), (uid_t)-1, (gid_t)-1));
	EQUAL(stat_of(a("f")).st_mode & 07777, 0755);
	MUST(chmod(a("f"), 06755));
	become(ALICE);
	MUST(chown(b("f"), (uid_t)-1, (gid_t)-1));
	EQUAL(stat_of(a("f")).st_mode & 07777, 0755);
	MUST(chmod(a("f"), 06755));
	MUST(chown(b("f"), (uid_t)-1, ALICE));
	EQUAL(stat_of(a("f")).st_mode & 07777, 0755);
	become(0);
	MUST(chmod(a("f"), 04755));
	become(BOB);
	FAILS(EPERM, chown(b("f"), (uid_t)-1, (gid_t)-1));
	become(0);
	EQUAL(stat_of(a("f")).st_mode & 07777, 04755);
	MUST(mkdir(a("d"), 0755));
	MUST(chmod(a("d"), 06755));
	MUST(chown(b("d"), ALICE, CREW));
	EQUAL(stat_of(a("d")).st_mode & 07777, 06755);
}

/* Who has it open when it changes hands.  FUSE must be asked about the new owner
 * first (CONSISTENCY.md); the old one is refused in any case. */
static void an_open_file_that_is_given_away(void)
{
	struct stat st;
	int fd;

	MUST(put_file(a("f"), 1, 0666));
	become(ALICE);
	fd = (int)MUST(open(a("f"), O_RDWR));
	become(0);
	MUST(chown(b("f"), ALICE, CREW));
	become(ALICE);
	MUST(fstat(fd, &st));
	MUST(fchmod(fd, 0600));
	MUST(fchown(fd, (uid_t)-1, CREW));
	MUST(futimens(fd, NULL));
	become(0);
	MUST(chown(b("f"), BOB, BOB));
	become(ALICE);
	FAILS(EPERM, fchmod(fd, 0777));
	FAILS(EPERM, fchown(fd, (uid_t)-1, CREW));
	FAILS(EACCES, futimens(fd, NULL));
	become(0);
	EQUAL(stat_of(b("f")).st_mode, S_IFREG | 0600);
	EQUAL(stat_of(b("f")).st_gid, BOB);
	close(fd);
}

/* The same, of a file whose data were read: the pages that are cached go when the
 * change is seen, and that may not keep the kernel from taking the new owner. */
static void a_file_that_was_read_is_given_away(void)
{
	const struct timespec times[2] = { { 1, 2 }, { 3, 4 } };
	struct stat st;
	char byte;
	int fd;

	MUST(put_file(a("f"), 1, 0644));
	fd = (int)MUST(open(b("f"), O_RDWR));
	EQUAL(pread(fd, &byte, 1, 0), 1);
	MUST(chown(a("f"), ALICE, CREW));
	become(ALICE);
	MUST(fstat(fd, &st));
	EQUAL(st.st_uid, ALICE);
	MUST(futimens(fd, times));
	become(0);
	EQUAL(pread(fd, &byte, 1, 0), 1);
	MUST(chown(a("f"), BOB, BOB));
	become(BOB);
	MUST(chmod(b("f"), 0640));
	become(0);
	EQUAL(pread(fd, &byte, 1, 0), 1);
	MUST(chown(a("f"), ALICE, CREW));
	become(ALICE);
	MUST(utimensat(AT_FDCWD, b("f"), times, 0));
	become(0);
	close(fd);
}

/* ---- what a change of data drops ------------------------------------------ */

static void by_write(int fd)
{
	EQUAL(pwrite(fd, "x", 1, 0), 1);
}

static void by_truncate(int fd)
{
	MUST(ftruncate(fd, 50));
}

static void by_fallocate(int fd)
{
	MUST(fallocate(fd, 0, 0, 10000));
}

static void by_copy(int fd)
{
	off_t in = 0, out = 40;
	int from = open(b("source"), O_RDONLY);

	EQUAL(copy_file_range(from, &in, fd, &out, 10, 0), 10);
	close(from);
}

static void set_id_bits_go_with_a_change(void)
{
	static void (*const changes[])(int) = {
		by_write, by_truncate, by_fallocate, by_copy,
	};

	MUST(put_file(a("source"), 100, 0644));
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		int fd;

		MUST(put_file(a("f"), 100, 0644));
		MUST(chown(a("f"), BOB, CREW));
		MUST(chmod(a("f"), 06777));
		fd = (int)MUST(open(b("f"), O_RDWR));
		changes[i](fd);
		close(fd);
		EQUAL(stat_of(a("f")).st_mode & 07777, 06777);	/* root */
		become(ALICE);
		fd = (int)MUST(open(b("f"), O_RDWR));
		changes[i](fd);
		close(fd);
		become(0);
		if (!EQUAL(stat_of(a("f")).st_mode & 07777, 0777))
			printf("  by change %zu\n", i);
		MUST(unlink(a("f")));
	}
	MUST(put_file(a("f"), 100, 0644));
	MUST(chmod(a("f"), 06777));
	become(ALICE);
	MUST(truncate(b("f"), 10));
	become(0);
	EQUAL(stat_of(a("f")).st_mode & 07777, 0777);
	MUST(chmod(a("f"), 06777));
	become(ALICE);
	MUST(open_close(b("f"), O_WRONLY | O_TRUNC));
	become(0);
	EQUAL(stat_of(a("f")).st_mode & 07777, 0777);
}

/* Rights that an open has outlive the modes and the owner. */
static void who_has_it_open_writes_on(void)
{
	int fd;

	MUST(put_file(a("f"), 10, 0600));
	MUST(chown(a("f"), ALICE, ALICE));
	become(ALICE);
	fd = (int)MUST(open(a("f"), O_RDWR));
	become(0);
	MUST(chown(b("f"), 0, 0));
	MUST(chmod(b("f"), 06755));
	become(ALICE);
	FAILS(EACCES, open_close(a("f"), O_RDWR));
	EQUAL(pwrite(fd, "x", 1, 0), 1);
	become(0);
	EQUAL(stat_of(b("f")).st_mode & 07777, 0755);
	MUST(chmod(b("f"), 02644));	/* no program: root's group it is */
	become(ALICE);
	EQUAL(pwrite(fd, "y", 1, 0), 1);
	MUST(ftruncate(fd, 5));
	become(0);
	EQUAL(stat_of(b("f")).st_mode & 07777, 0644);
	close(fd);
}

/* CAP_NET_RAW, permitted. */
static const unsigned char caps[20] = { 0, 0, 0, 2, 0, 0x20 };

static void capabilities_go_with_a_change(void)
{
	unsigned char got[32];
	int fd;

	MUST(put_file(a("f"), 10, 0777));
	if (setxattr(a("f"), "security.capability", caps, sizeof(caps), 0)) {
		EQUAL(errno, EOPNOTSUPP);
		return;
	}
	EQUAL(getxattr(b("f"), "security.capability", got, sizeof(got)),
	      sizeof(caps));
	become(ALICE);
	fd = (int)MUST(open(b("f"), O_WRONLY));
	EQUAL(write(fd, "x", 1), 1);
	close(fd);
	become(0);
	FAILS(ENODATA, getxattr(a("f"), "security.capability", got,
				sizeof(got)));
	MUST(setxattr(a("f"), "security.capability", caps, sizeof(caps), 0));
	become(ALICE);
	MUST(truncate(b("f"), 3));
	become(0);
	FAILS(ENODATA, getxattr(a("f"), "security.capability", got,
				sizeof(got)));
	MUST(setxattr(a("f"), "security.capability", caps, sizeof(caps), 0));
	MUST(chown(b("f"), ALICE, ALICE));
	FAILS(ENODATA, getxattr(a("f"), "security.capability", got,
				sizeof(got)));
	become(ALICE);
	fd = (int)MUST(open(b("f"), O_RDWR));
	become(0);
	MUST(chown(a("f"), 0, 0));
	MUST(chmod(a("f"), 0755));
	MUST(setxattr(a("f"), "security.capability", caps, sizeof(caps), 0));
	become(ALICE);
	EQUAL(write(fd, "x", 1), 1);	/* the open still has the right */
	become(0);
	FAILS(ENODATA, getxattr(a("f"), "security.capability", got,
				sizeof(got)));
	close(fd);
}

/* A directory runs nothing. */
static void capabilities_of_a_directory_stay(void)
{
	unsigned char got[32];

	MUST(mkdir(a("d"), 0755));
	if (setxattr(a("d"), "security.capability", caps, sizeof(caps), 0)) {
		EQUAL(errno, EOPNOTSUPP);
		return;
	}
	MUST(chown(b("d"), ALICE, ALICE));
	EQUAL(getxattr(a("d"), "security.capability", got, sizeof(got)),
	      sizeof(caps));
}

/* ---- extended attributes -------------------------------------------------- */

static void limits_of_attributes(void)
{
	enum { LONGEST = 65536 };
	static char value[LONGEST + 1], got[LONGEST];
	char name[300] = "user.";
	ssize_t before, listed;

	MUST(put_file(a("f"), 1, 0644));
	before = listxattr(a("f"), NULL, 0);	/* a label, perhaps */
	memset(value, 'v', sizeof(value));
	memset(name + 5, 'n', 251);
	FAILS(ERANGE, setxattr(a("f"), name, "", 0, 0));	/* 256 */
	name[255] = '\0';
	if (setxattr(a("f"), name, "one", 3, 0)) {
		EQUAL(errno, EOPNOTSUPP);
		return;
	}
	EQUAL(getxattr(b("f"), name, NULL, 0), 3);
	FAILS(ERANGE, getxattr(b("f"), name, got, 2));
	FAILS(E2BIG, setxattr(b("f"), "user.x", value, LONGEST + 1, 0));
	FAILS(EOPNOTSUPP, setxattr(b("f"), "other.x", value, 1, 0));
	FAILS(EINVAL, setxattr(b("f"), "user.", value, 1, 0));
	FAILS(ENODATA, getxattr(b("f"), "user.x", got, 1));
	MUST(setxattr(b("f"), "user.empty", value, 0, XATTR_CREATE));
	EQUAL(getxattr(a("f"), "user.empty", got, 10), 0);
	listed = listxattr(a("f"), NULL, 0);
	EQUAL(listed, before + 256 + (ssize_t)sizeof("user.empty"));
	FAILS(ERANGE, listxattr(a("f"), got, (size_t)listed - 1));
	EQUAL(listxattr(a("f"), got, (size_t)listed), listed);
	/* A local file system may have less room. */
	if (setxattr(b("f"), "user.x", value, LONGEST, 0)) {
		EQUAL(errno, ENOSPC);
		return;
	}
	EQUAL(getxattr(a("f"), "user.x", got, LONGEST), LONGEST);
	TRUE(memcmp(got, value, LONGEST) == 0);
	MUST(removexattr(a("f"), "user.x"));
	FAILS(ENODATA, removexattr(b("f"), "user.x"));
}

/* ---- times ---------------------------------------------------------------- */

static const struct timespec old_times[2] = { { 100, 123456789 },
					      { 200, 987654321 } };

static void times_are_exact(void)
{
	struct timespec times[2];
	struct stat st;

	MUST(put_file(a("f"), 1, 0644));
	MUST(utimensat(AT_FDCWD, a("f"), old_times, 0));
	st = stat_of(b("f"));
	TRUE(is_same(st.st_atim, old_times[0]));
	TRUE(is_same(st.st_mtim, old_times[1]));
	TRUE(st.st_ctim.tv_sec > 1000000000);
	times[0] = (struct timespec){ .tv_nsec = UTIME_OMIT };
	times[1] = (struct timespec){ -5, 1 };
	MUST(utimensat(AT_FDCWD, b("f"), times, 0));
	st = stat_of(a("f"));
	TRUE(is_same(st.st_atim, old_times[0]));
	EQUAL(st.st_mtim.tv_sec, -5);
	EQUAL(st.st_mtim.tv_nsec, 1);
	times[1] = (struct timespec){ INT64_C(5000000000), 999999999 };
	MUST(utimensat(AT_FDCWD, b("f"), times, 0));
	EQUAL(stat_of(a("f")).st_mtim.tv_sec, INT64_C(5000000000));
	times[1] = (struct timespec){ 1, 1000000000 };
	FAILS(EINVAL, utimensat(AT_FDCWD, b("f"), times, 0));
	MUST(utimensat(AT_FDCWD, b("f"), NULL, 0));
	st = stat_of(a("f"));
	TRUE(st.st_mtim.tv_sec > 1000000000 && st.st_mtim.tv_sec < 5000000000);
	TRUE(is_same(st.st_mtim, st.st_atim));
	MUST(symlink("f", a("link")));
	MUST(utimensat(AT_FDCWD, b("link"), old_times, AT_SYMLINK_NOFOLLOW));
	EQUAL(stat_of(a("link")).st_mtim.tv_nsec, 987654321);
	EQUAL(stat_of(a("f")).st_mtim.tv_sec, st.st_mtim.tv_sec);
}

static void who_may_set_times(void)
{
	struct timespec now_and_omit[2] = { { .tv_nsec = UTIME_NOW },
					    { .tv_nsec = UTIME_OMIT } };
	struct timespec omit[2] = { { .tv_nsec = UTIME_OMIT },
				    { .tv_nsec = UTIME_OMIT } };

	MUST(put_file(a("f"), 1, 0644));
	MUST(utimensat(AT_FDCWD, a("f"), old_times, 0));
	become(BOB);
	FAILS(EACCES, utimensat(AT_FDCWD, b("f"), NULL, 0));
	FAILS(EPERM, utimensat(AT_FDCWD, b("f"), old_times, 0));
	FAILS(EPERM, utimensat(AT_FDCWD, b("f"), now_and_omit, 0));
	MUST(utimensat(AT_FDCWD, b("f"), omit, 0));
	become(0);
	MUST(chmod(a("f"), 0666));
	become(BOB);		/* he may write */
	FAILS(EPERM, utimensat(AT_FDCWD, b("f"), old_times, 0));
	MUST(utimensat(AT_FDCWD, b("f"), NULL, 0));
	TRUE(stat_of(a("f")).st_mtim.tv_sec > 1000000000);
	become(0);
	MUST(chown(a("f"), BOB, BOB));
	MUST(chmod(a("f"), 0));
	become(BOB);		/* it is his */
	MUST(utimensat(AT_FDCWD, b("f"), old_times, 0));
	MUST(utimensat(AT_FDCWD, b("f"), NULL, 0));
	become(0);
}

/* What a step moves: 'm'time, 'c'time, of the file and of its folder. */
struct stamps {
	struct timespec mtime, ctime, folder_mtime, folder_ctime;
};

static struct stamps stamps_of(const char *name)
{
	struct stat file = stat_of(b(name)), dir = stat_of(b("d"));

	return (struct stamps){ file.st_mtim, file.st_ctim, dir.st_mtim,
				dir.st_ctim };
}

static void moved(const char *name, struct stamps before, const char *wanted,
		  const char *what)
{
	struct stamps after = stamps_of(name);
	char got[5] = "----";

	if (is_later(after.mtime, before.mtime))
		got[0] = 'm';
	if (is_later(after.ctime, before.ctime))
		got[1] = 'c';
	if (is_later(after.folder_mtime, before.folder_mtime))
		got[2] = 'M';
	if (is_later(after.folder_ctime, before.folder_ctime))
		got[3] = 'C';
	if (!TRUE(strcmp(got, wanted) == 0))
		printf("  %s moved %s, not %s\n", what, got, wanted);
}

/* A local clock may stand still for some milliseconds. */
static struct stamps wait_and_stamp(const char *name)
{
	struct stamps stamps = stamps_of(name);
	struct timespec now;

	do
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	while (!is_later(now, stamps.ctime) ||
	       !is_later(now, stamps.folder_ctime));
	return stamps;
}

#define MOVES(name, wanted, step) do { \
	struct stamps before_ = wait_and_stamp(name); \
	MUST(step); \
	moved(name, before_, wanted, #step); \
} while (0)

static void what_moves_which_time(void)
{
	int fd;

	MUST(mkdir(a("d"), 0755));
	MUST(put_file(a("d/f"), 10, 0644));
	MUST(put_file(a("x"), 10, 0644));
	fd = (int)MUST(open(a("d/f"), O_RDWR));
	MOVES("d/f", "----", open_close(a("d/f"), O_RDWR));
	MOVES("d/f", "mc--", pwrite(fd, "x", 1, 0) == 1 ? 0 : -1);
	MOVES("d/f", "----", pwrite(fd, "x", 0, 0));
	MOVES("d/f", "mc--", ftruncate(fd, 5));
	MOVES("d/f", "mc--", truncate(a("d/f"), 500));
	MOVES("d/f", "mc--", open_close(a("d/f"), O_WRONLY | O_TRUNC));
	MOVES("d/f", "mc--", fallocate(fd, 0, 0, 1000));
	MOVES("d/f", "mc--", fallocate(fd, FALLOC_FL_PUNCH_HOLE |
				       FALLOC_FL_KEEP_SIZE, 0, 100));
	MOVES("d/f", "-c--", chmod(a("d/f"), 0600));
	MOVES("d/f", "-c--", chown(a("d/f"), (uid_t)-1, (gid_t)-1));
	MOVES("d/f", "-cMC", link(a("d/f"), a("d/g")));
	MOVES("d/f", "-cMC", unlink(a("d/g")));
	MOVES("d/f", "-cMC", rename(a("d/f"), a("d/h")) ||
			     rename(a("d/h"), a("d/f")));
	MOVES("d/f", "--MC", rename(a("x"), a("d/x")));
	MOVES("d/f", "--MC", mkdir(a("d/sub"), 0755));
	MOVES("d/f", "--MC", rmdir(a("d/sub")));
	MOVES("d/f", "--MC", symlink("t", a("d/link")));
	MOVES("d/f", "----", open_close(a("d/x"), O_WRONLY | O_CREAT));
	MOVES("d/f", "--MC", open_close(a("d/y"), O_WRONLY | O_CREAT));
	close(fd);
	if (setxattr(a("d/f"), "user.x", "1", 1, 0) == 0) {
		MOVES("d/f", "-c--", setxattr(a("d/f"), "user.x", "2", 1, 0));
		MOVES("d/f", "-c--", removexattr(a("d/f"), "user.x"));
	}
}

/* What changes nothing moves nothing. */
static void what_a_list_moves(void)
{
	static const char access[] = "system.posix_acl_access";
	static const char folder[] = "system.posix_acl_default";
	/* u::rw, u:ALICE:r, g::r, m::r, o::r, as linux/posix_acl_xattr.h has it */
	unsigned char list[] = {
		2, 0, 0, 0,
		1, 0, 6, 0, 255, 255, 255, 255,
		2, 0, 4, 0, ALICE & 255, ALICE >> 8, 0, 0,
		4, 0, 4, 0, 255, 255, 255, 255,
		16, 0, 4, 0, 255, 255, 255, 255,
		32, 0, 4, 0, 255, 255, 255, 255,
	};
	/* u::rw, g::r, o::r: no more than the mode */
	static const unsigned char plain[] = {
		2, 0, 0, 0,
		1, 0, 6, 0, 255, 255, 255, 255,
		4, 0, 4, 0, 255, 255, 255, 255,
		32, 0, 4, 0, 255, 255, 255, 255,
	};

	MUST(mkdir(a("d"), 0755));
	MUST(put_file(a("d/f"), 10, 0644));
	if (setxattr(a("d/f"), access, list, sizeof(list), 0)) {
		EQUAL(errno, EOPNOTSUPP);
		return;
	}
	MOVES("d/f", "----", setxattr(a("d/f"), access, list, sizeof(list), 0));
	list[14] = 0;		/* ALICE may not */
	MOVES("d/f", "-c--", setxattr(a("d/f"), access, list, sizeof(list), 0));
	MOVES("d/f", "-c--", setxattr(a("d/f"), access, plain, sizeof(plain), 0));
	MOVES("d/f", "----", setxattr(a("d/f"), access, plain, sizeof(plain), 0));
	MOVES("d/f", "----", removexattr(a("d/f"), access));
	MUST(chmod(a("d/f"), 0600));
	MOVES("d/f", "-c--", setxattr(a("d/f"), access, plain, sizeof(plain), 0));
	MOVES("d/f", "---C", setxattr(a("d"), folder, list, sizeof(list), 0));
	MOVES("d/f", "----", setxattr(a("d"), folder, list, sizeof(list), 0));
	MOVES("d/f", "---C", removexattr(a("d"), folder));
	MOVES("d/f", "----", removexattr(a("d"), folder));
}

static void mapped_stores_move_mtime(void)
{
	struct stamps before;
	char *mem;
	int fd;

	MUST(mkdir(a("d"), 0755));
	MUST(put_file(a("d/f"), 100, 0644));
	fd = (int)MUST(open(a("d/f"), O_RDWR));
	mem = mmap(NULL, 100, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	TRUE(mem != MAP_FAILED);
	before = wait_and_stamp("d/f");
	mem[5] = 'X';
	MUST(msync(mem, 100, MS_SYNC));
	moved("d/f", before, "mc--", "a mapped store");
	munmap(mem, 100);
	close(fd);
}

static void times_of_birth_and_use(void)
{
	struct statx stx, later;
	char byte;
	int fd;

	MUST(put_file(a("f"), 10, 0644));
	MUST(statx(AT_FDCWD, b("f"), 0, STATX_ALL, &stx));
	if (!TRUE(stx.stx_mask & STATX_BTIME))
		return;
	TRUE(stx.stx_btime.tv_sec > 1000000000);
	MUST(chmod(a("f"), 0600));
	MUST(truncate(a("f"), 100));
	MUST(statx(AT_FDCWD, b("f"), 0, STATX_ALL, &later));
	EQUAL(later.stx_btime.tv_sec, stx.stx_btime.tv_sec);
	EQUAL(later.stx_btime.tv_nsec, stx.stx_btime.tv_nsec);
	EQUAL(later.stx_size, 100);
	EQUAL(later.stx_mode, S_IFREG | 0600);
	EQUAL(later.stx_ino, stat_of(a("f")).st_ino);
	/* relatime: older than mtime, so it moves once. */
	MUST(utimensat(AT_FDCWD, a("f"), old_times, 0));
	fd = (int)MUST(open(b("f"), O_RDONLY));
	EQUAL(pread(fd, &byte, 1, 0), 1);
	close(fd);
	TRUE(stat_of(a("f")).st_atim.tv_sec > 1000000000);
}

static const struct rule rules[] = {
	ROOT_RULE(only_owners_change_modes),
	ROOT_RULE(who_may_give_a_file_away),
	ROOT_RULE(chown_drops_set_id_bits),
	ROOT_RULE(an_open_file_that_is_given_away),
	ROOT_RULE(a_file_that_was_read_is_given_away),
	ROOT_RULE(set_id_bits_go_with_a_change),
	ROOT_RULE(who_has_it_open_writes_on),
	ROOT_RULE(capabilities_go_with_a_change),
	ROOT_RULE(capabilities_of_a_directory_stay),
	RULE(limits_of_attributes),
	RULE(times_are_exact),
	ROOT_RULE(who_may_set_times),
	RULE(what_moves_which_time),
	RULE(what_a_list_moves),
	RULE(mapped_stores_move_mtime),
	RULE(times_of_birth_and_use),
};

int main(int argc, char **argv)
{
	return rules_main(rules, sizeof(rules) / sizeof(rules[0]), argc, argv);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names_model.c - random operations on names and attributes by several users,
 * beside a model of what must be there
 *
 *	names_model [OPTIONS] FOLDER [THE SAME FOLDER BY ANOTHER MOUNT]
 *
 * Operation.  A call is made by one of the users on one of the mounts, and by the
 * model in memory (lib/model.h).  Result and errno must be the model's, and so must
 * what stat() shows of the object and its directory, before and after, and which of
 * their times moved.  At times, and at the end, the whole tree is compared, by each
 * mount.
 *
 * Paths are short and few, so that calls meet: files replaced, linked, open while
 * they go, directories that are not empty, symbolic links that lead anywhere
 * below.  ".." stands once in a path, never first, and never in a link's target, so
 * nothing leaves the round's folder.
 *
 * Where file systems may differ, nothing is asked: sizes of directories, atime by
 * reading, devices that are opened (the mount must be nodev), times of fifos.
 */
#include "lib/actor.h"
#include "lib/campaign.h"
#include "lib/model.h"
#include "lib/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

enum {
	WALK_EVERY = 150,
	PARTS = 3,		/* of a path */
};

static struct {
	int top[ACTOR_SIDES];		/* folders from the command line */
	int folder[ACTOR_SIDES];	/* of the round */
	unsigned int sides;
	unsigned int users;
	bool has_xattrs;
	bool has_fine_times;
} site;

static struct {
	bool is_open;
	bool is_untold;			/* to FUSE: O_PATH, a fifo */
	bool is_file;			/* a regular one */
	unsigned int actor, side;
} slots[ACTOR_SLOTS];

/* ---- arguments ------------------------------------------------------------ */

enum { WHO, SIDE, PATH, PATH2, MODE, FLAGS, VALUE, SLOT };

/* Digits of base 8, 0 is the end; UP is "..". */
enum { UP = 7 };

static uint32_t some_path(struct rng *rng)
{
	uint32_t path = 1 + rng_below(rng, 5);
	bool may_go_up = true;

	for (int i = 1; i < PARTS && rng_percent(rng, 45); i++) {
		bool goes_up = may_go_up && rng_percent(rng, 3);
		uint32_t digit = goes_up ? UP : 1 + rng_below(rng, 4);

		may_go_up = !goes_up;
		path |= digit << 3 * i;
	}
	return path;
}

/* The target of a link does not go up. */
static uint32_t downwards(uint32_t path)
{
	for (int i = 1; i < PARTS; i++)
		if ((path >> 3 * i & UP) == UP)
			path &= ~(6u << 3 * i);
	return path;
}

static void fill(struct rng *rng, struct op *op)
{
	op->arg[WHO] = rng_percent(rng, 30) ? 0 : rng_below(rng, ACTORS_MAX);
	op->arg[SIDE] = rng_below(rng, ACTOR_SIDES);
	op->arg[PATH] = some_path(rng);
	op->arg[PATH2] = some_path(rng);
	op->arg[MODE] = (uint32_t)rng_next(rng);
	op->arg[FLAGS] = (uint32_t)rng_next(rng);
	op->arg[VALUE] = (uint32_t)rng_next(rng);
	op->arg[SLOT] = rng_below(rng, ACTOR_SLOTS);
}

static void put_path(uint32_t path, char *out)
{
	for (const char *start = out; path; path >>= 3) {
		if (out > start)
			*out++ = '/';
		if ((path & 7) == UP) {
			*out++ = '.';
			*out++ = '.';
		} else {
			*out++ = (char)('a' + (path & 7) - 1);
		}
	}
	*out = '\0';
}

static mode_t some_mode(uint32_t which)
{
	static const mode_t modes[] = {
		0777, 0755, 0700, 0644, 0666, 0444, 0, 0070, 0007, 01777,
		02775, 02755, 03777, 04755, 06755, 06711, 02644, 07777, 0333,
		0555,
	};

	return modes[which % (sizeof(modes) / sizeof(modes[0]))];
}

static mode_t some_umask(uint32_t which)
{
	static const mode_t masks[] = { 0, 0, 022, 077, 027 };

	return masks[(which >> 8) % 5];
}

static int some_open_flags(uint32_t which)
{
	static const int access[] = { O_RDONLY, O_WRONLY, O_RDWR, O_RDWR };
	static const int more[] = {
		0, 0, O_CREAT, O_CREAT, O_CREAT | O_EXCL, O_TRUNC,
		O_CREAT | O_TRUNC, O_APPEND, O_CREAT | O_APPEND, O_DIRECTORY,
		O_NOFOLLOW, O_CREAT | O_NOFOLLOW, O_PATH,
		O_DIRECTORY | O_NOFOLLOW, O_CREAT | O_EXCL | O_TRUNC,
	};

	return access[which % 4] | more[(which >> 4) % 15];
}

static struct timespec some_time(uint32_t which)
{
	switch (which % 4) {
	case 0:
		return (struct timespec){ .tv_nsec = UTIME_NOW };
	case 1:
		return (struct timespec){ .tv_nsec = UTIME_OMIT };
	default:
		return (struct timespec){ (time_t)(which % 1400000000u),
					  (long)(which % 1000000000u) };
	}
}

static mode_t some_type(uint32_t which, dev_t *rdev)
{
	static const mode_t types[] = {
		S_IFREG, S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK, 0, S_IFDIR,
	};

	*rdev = makedev(which % 300, which / 300 % 70000);
	return types[(which >> 4) % 7];
}

static void some_xattr(uint32_t which, char *out)
{
	static const char *const names[] = {
		"user.a", "user.b", "user.long-name-of-it", "trusted.t",
	};

	strcpy(out, names[which % 4]);
}

/* Flags that a call of this kind may have. */
static int some_flags(enum call_code code, uint32_t which)
{
	static const int renames[] = {
		0, 0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_EXCHANGE,
		RENAME_NOREPLACE | RENAME_EXCHANGE, 64, RENAME_WHITEOUT,
		RENAME_WHITEOUT | RENAME_NOREPLACE,
		RENAME_WHITEOUT | RENAME_EXCHANGE,
	};
	static const int xattrs[] = { 0, 0, XATTR_CREATE, XATTR_REPLACE };

	switch (code) {
	case CALL_OPEN:
		return some_open_flags(which);
	case CALL_LINK:
		return which % 4 ? 0 : AT_SYMLINK_FOLLOW;
	case CALL_RENAME:
		return renames[which % 12];
	case CALL_CHOWN:
	case CALL_UTIMENS:
		return which % 3 ? 0 : AT_SYMLINK_NOFOLLOW;
	case CALL_SETXATTR:
	case CALL_FSETXATTR:
		return xattrs[which % 4];
	case CALL_WRITE:
	case CALL_READ:
		return (int)(which % 120);	/* the offset */
	default:
		return 0;
	}
}

static void make_call(const struct op *op, struct call *c)
{
	memset(c, 0, sizeof(*c));
	c->code = (enum call_code)op->code;
	c->slot = op->arg[SLOT] % ACTOR_SLOTS;
	put_path(op->arg[PATH], c->path);
	put_path(c->code == CALL_SYMLINK ? downwards(op->arg[PATH2]) :
					   op->arg[PATH2], c->path2);
	c->mode = some_mode(op->arg[MODE]);
	c->umask = some_umask(op->arg[MODE]);
	c->flags = some_flags(c->code, op->arg[FLAGS]);
	c->uid = actor_some_uid(op->arg[VALUE]);
	c->gid = actor_some_gid(op->arg[VALUE] >> 4);
	c->size = (long)(op->arg[VALUE] % 150);
	if (c->code == CALL_MKNOD)
		c->mode |= some_type(op->arg[VALUE], &c->rdev);
	/* FUSE can't tell chown(-1, -1) from what comes before a write: if
	 * there are set-id bits, who may write may do it.  By a descriptor it is
	 * who has opened it that acts. */
	if ((int)c->uid == -1 && (int)c->gid == -1 &&
	    (op->arg[WHO] != 0 || c->code == CALL_FCHOWN))
		c->uid = 0;
	c->times[0] = some_time(op->arg[VALUE]);
	c->times[1] = some_time(op->arg[FLAGS]);
	some_xattr(op->arg[FLAGS] >> 8, c->xattr);
}

static void put_time(const struct timespec *time, char *out, size_t room)
{
	if (time->tv_nsec == UTIME_NOW)
		snprintf(out, room, "now");
	else if (time->tv_nsec == UTIME_OMIT)
		snprintf(out, room, "omit");
	else
		snprintf(out, room, "%lld.%09ld", (long long)time->tv_sec,
			 time->tv_nsec);
}

static void describe(const struct op *op, char *out, size_t room)
{
	char times[2][40];
	struct call c;

	make_call(op, &c);
	put_time(&c.times[0], times[0], sizeof(times[0]));
	put_time(&c.times[1], times[1], sizeof(times[1]));
	snprintf(out, room, "actor %u, mount %u, slot %u, %s, %s, mode %o, "
		 "umask %o, flags 0x%x, owner %d:%d, size %ld, times %s %s, %s",
		 op->arg[WHO], op->arg[SIDE], c.slot, c.path, c.path2, c.mode,
		 c.umask, (unsigned int)c.flags, (int)c.uid, (int)c.gid, c.size,
		 times[0], times[1], c.xattr);
}

/* ---- what an operation is about ------------------------------------------- */

enum { WATCHED = 4 };

/* The two paths and the folders they are in. */
struct view {
	struct stat st[WATCHED];
	int err[WATCHED];
};

static void parent_of(const char *path, char *out)
{
	const char *end = strrchr(path, '/');

	if (!end)
		strcpy(out, ".");
	else
		snprintf(out, ACTOR_PATH, "%.*s", (int)(end - path), path);
}

static void watched(const struct call *c, char paths[WATCHED][ACTOR_PATH])
{
	strcpy(paths[0], c->path);
	strcpy(paths[1], c->path2);
	parent_of(c->path, paths[2]);
	parent_of(c->path2, paths[3]);
}

static bool has_path2(enum call_code code)
{
	return code == CALL_LINK || code == CALL_RENAME || code == CALL_FLINK;
}

static bool is_watched(const struct call *c, unsigned int i)
{
	return i % 2 == 0 || has_path2(c->code);
}

static void look(const struct call *c, unsigned int side, struct view *view)
{
	char paths[WATCHED][ACTOR_PATH];

	watched(c, paths);
	for (unsigned int i = 0; i < WATCHED; i++) {
		if (!is_watched(c, i))
			continue;
		view->err[i] = fstatat(site.folder[side], paths[i],
				       &view->st[i], AT_SYMLINK_NOFOLLOW) ?
			       errno : 0;
	}
}

static void look_at_model(const struct call *c, struct view *view)
{
	char paths[WATCHED][ACTOR_PATH];

	watched(c, paths);
	for (unsigned int i = 0; i < WATCHED; i++)
		if (is_watched(c, i))
			view->err[i] = model_lstat(paths[i], &view->st[i]);
}

static bool view_is_right(const struct call *c, const struct view *wanted,
			  const struct view *got)
{
	char paths[WATCHED][ACTOR_PATH];

	watched(c, paths);
	for (unsigned int i = 0; i < WATCHED; i++) {
		if (!is_watched(c, i))
			continue;
		if (wanted->err[i] != got->err[i]) {
			campaign_fault("lstat %s: %s, not %s", paths[i],
				       strerror(got->err[i]),
				       strerror(wanted->err[i]));
			return false;
		}
		if (!wanted->err[i] &&
		    !tree_stat_is_right(paths[i], &wanted->st[i], &got->st[i]))
			return false;
	}
	return true;
}

/* ---- which times moved ---------------------------------------------------- */

enum { MTIME = 1, CTIME = 2 };

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static int moved(const struct stat *before, const struct stat *after)
{
	return (is_same_time(&before->st_mtim, &after->st_mtim) ? 0 : MTIME) |
	       (is_same_time(&before->st_ctim, &after->st_ctim) ? 0 : CTIME);
}

/* The same inode before and after, whose times are kept by the file system. */
static bool is_comparable(const struct view *before, const struct view *after,
			  unsigned int i)
{
	return !before->err[i] && !after->err[i] &&
	       before->st[i].st_ino == after->st[i].st_ino &&
	       !S_ISFIFO(before->st[i].st_mode);
}

/* ext4 makes the whiteout before it finds that it can't rename. */
static bool has_side_effects(const struct call *c, const struct answer *answer)
{
	return c->code == CALL_RENAME && c->flags & RENAME_WHITEOUT &&
	       answer->err;
}

/* views: the model's, then the mount's. */
static bool times_are_right(const struct call *c, const struct view *before,
			    const struct view *after)
{
	char paths[WATCHED][ACTOR_PATH];

	watched(c, paths);
	for (unsigned int i = 0; i < WATCHED; i++) {
		int wanted, got;

		if (!is_watched(c, i) ||
		    !is_comparable(&before[0], &after[0], i) ||
		    !is_comparable(&before[1], &after[1], i))
			continue;
		wanted = moved(&before[0].st[i], &after[0].st[i]);
		got = moved(&before[1].st[i], &after[1].st[i]);
		/* A coarse clock may stand still over a change. */
		if (got == wanted || (!site.has_fine_times && !(got & ~wanted)))
			continue;
		campaign_fault("%s: mtime %s and ctime %s, but mtime should%s "
			       "and ctime should%s", paths[i],
			       got & MTIME ? "moved" : "stayed",
			       got & CTIME ? "moved" : "stayed",
			       wanted & MTIME ? "" : " not",
			       wanted & CTIME ? "" : " not");
		return false;
	}
	return true;
}

/* ---- answers -------------------------------------------------------------- */

static bool answer_is_right(const struct answer *wanted,
			    const struct answer *got)
{
	if (wanted->err != got->err) {
		campaign_fault("it gave %s, not %s",
			       got->err ? strerror(got->err) : "success",
			       wanted->err ? strerror(wanted->err) :
					     "success");
		return false;
	}
	if (wanted->value != got->value) {
		campaign_fault("it gave %ld, not %ld", got->value,
			       wanted->value);
		return false;
	}
	if (wanted->text_size == got->text_size &&
	    memcmp(wanted->text, got->text, wanted->text_size) == 0)
		return true;
	campaign_fault("it gave '%.*s', not '%.*s'", (int)got->text_size,
		       got->text, (int)wanted->text_size, wanted->text);
	return false;
}

/* ---- one operation -------------------------------------------------------- */

static bool needs_slot(enum call_code code)
{
	return code == CALL_CLOSE || code >= CALL_FSTAT;
}

static bool is_about_xattrs(enum call_code code)
{
	return (code >= CALL_SETXATTR && code <= CALL_REMOVEXATTR) ||
	       code == CALL_FSETXATTR || code == CALL_FGETXATTR;
}

/* Fifos and devices are the kernel's own business. */
static bool is_data(enum call_code code)
{
	return code == CALL_WRITE || code == CALL_READ;
}

static void note_open(const struct call *c, unsigned int actor,
		      unsigned int side)
{
	struct call fstat_call = { .code = CALL_FSTAT, .slot = c->slot };
	struct answer answer;

	model_call(actor, side, &fstat_call, &answer);
	slots[c->slot].is_open = true;
	slots[c->slot].is_untold = c->flags & O_PATH ||
				   S_ISFIFO(answer.st.st_mode);
	slots[c->slot].is_file = S_ISREG(answer.st.st_mode);
	slots[c->slot].actor = actor;
	slots[c->slot].side = side;
}

/* Another user's, or another mount's: it goes before the slot is used again. */
static void close_slot(unsigned int slot)
{
	struct call c = { .code = CALL_CLOSE, .slot = slot };
	struct answer answer;

	if (!slots[slot].is_open)
		return;
	model_call(slots[slot].actor, slots[slot].side, &c, &answer);
	actor_call(slots[slot].actor, slots[slot].side, &c, &answer);
	slots[slot].is_open = false;
}

/* FUSE does not tell us what is held without an open (CONSISTENCY.md). */
static bool is_lost(const struct call *c)
{
	return slots[c->slot].is_untold && c->code != CALL_CLOSE &&
	       model_slot_is_nameless(c->slot);
}

/* A directory that another mount has removed: the kernel asks who may write there
 * before it finds out (CONSISTENCY.md). */
static bool is_refused_before(const struct call *c)
{
	return site.sides > 1 && c->code == CALL_FMKDIR &&
	       model_slot_is_nameless(c->slot);
}

/* The kernel's FUSE checks the owner that it saw last, which another mount may have
 * changed, and asks only if it is told to (CONSISTENCY.md). */
static void learn_owner(const struct call *c, unsigned int actor,
			unsigned int side)
{
	struct call fstat_call = { .code = CALL_FSTAT, .slot = c->slot };
	static struct answer answer;

	if (site.sides > 1 &&
	    (c->code == CALL_FCHMOD || c->code == CALL_FCHOWN ||
	     c->code == CALL_FUTIMENS || c->code == CALL_FSETXATTR))
		actor_call(actor, side, &fstat_call, &answer);
}

/* A chmod that takes setgid away by mistake. */
static const struct call *spoil(const struct call *c)
{
	static struct call other;

	other = *c;
	if (c->code == CALL_CHMOD)
		other.mode &= ~(mode_t)S_ISGID;
	return &other;
}

static bool compare_call(const struct call *c, unsigned int actor,
			 unsigned int side)
{
	static struct answer wanted, got;
	struct view before[2], after[2];

	look_at_model(c, &before[0]);
	look(c, side, &before[1]);
	learn_owner(c, actor, side);
	model_call(actor, side, c, &wanted);
	actor_call(actor, side, campaign_is_spoiled ? spoil(c) : c, &got);
	look_at_model(c, &after[0]);
	look(c, side, &after[1]);
	if (c->code == CALL_OPEN && !wanted.err)
		note_open(c, actor, side);
	if (c->code == CALL_CLOSE)
		slots[c->slot].is_open = false;
	return answer_is_right(&wanted, &got) &&
	       (c->code != CALL_FSTAT || wanted.err ||
		tree_stat_is_right("fstat", &wanted.st, &got.st)) &&
	       view_is_right(c, &after[0], &after[1]) &&
	       (has_side_effects(c, &wanted) ||
		times_are_right(c, before, after));
}

static bool act(const struct op *op)
{
	unsigned int actor = op->arg[WHO] % site.users;
	unsigned int side = op->arg[SIDE] % site.sides;
	struct call c;

	make_call(op, &c);
	if (is_about_xattrs(c.code) && !site.has_xattrs)
		return true;
	if (needs_slot(c.code)) {
		if (!slots[c.slot].is_open || is_lost(&c) ||
		    is_refused_before(&c) ||
		    (is_data(c.code) && !slots[c.slot].is_file))
			return true;
		actor = slots[c.slot].actor;
		side = slots[c.slot].side;
	}
	if (c.code == CALL_OPEN)
		close_slot(c.slot);
	return compare_call(&c, actor, side);
}

static bool trees_are_right(void)
{
	for (unsigned int side = 0; side < site.sides; side++)
		if (!tree_is_right(site.folder[side], site.has_xattrs))
			return false;
	return true;
}

/* ---- operations ----------------------------------------------------------- */

static const struct op_kind kinds[CALLS] = {
	[CALL_OPEN] = { "open", 12, OP_ARGS },
	[CALL_CLOSE] = { "close", 3, OP_ARGS },
	[CALL_MKDIR] = { "mkdir", 10, OP_ARGS },
	[CALL_RMDIR] = { "rmdir", 4, OP_ARGS },
	[CALL_UNLINK] = { "unlink", 5, OP_ARGS },
	[CALL_LINK] = { "link", 7, OP_ARGS },
	[CALL_SYMLINK] = { "symlink", 5, OP_ARGS },
	[CALL_RENAME] = { "rename", 14, OP_ARGS },
	[CALL_MKNOD] = { "mknod", 5, OP_ARGS },
	[CALL_CHMOD] = { "chmod", 8, OP_ARGS },
	[CALL_CHOWN] = { "chown", 8, OP_ARGS },
	[CALL_UTIMENS] = { "utimens", 6, OP_ARGS },
	[CALL_TRUNCATE] = { "truncate", 5, OP_ARGS },
	[CALL_ACCESS] = { "access", 3, OP_ARGS },
	[CALL_READLINK] = { "readlink", 2, OP_ARGS },
	[CALL_LIST] = { "list", 4, OP_ARGS },
	[CALL_SETXATTR] = { "setxattr", 5, OP_ARGS },
	[CALL_GETXATTR] = { "getxattr", 3, OP_ARGS },
	[CALL_LISTXATTR] = { "listxattr", 2, OP_ARGS },
	[CALL_REMOVEXATTR] = { "removexattr", 3, OP_ARGS },
	[CALL_FSTAT] = { "fstat", 4, OP_ARGS },
	[CALL_FCHMOD] = { "fchmod", 3, OP_ARGS },
	[CALL_FCHOWN] = { "fchown", 3, OP_ARGS },
	[CALL_FUTIMENS] = { "futimens", 3, OP_ARGS },
	[CALL_FTRUNCATE] = { "ftruncate", 4, OP_ARGS },
	[CALL_WRITE] = { "write", 8, OP_ARGS },
	[CALL_READ] = { "read", 4, OP_ARGS },
	[CALL_FLIST] = { "flist", 3, OP_ARGS },
	[CALL_FMKDIR] = { "fmkdir", 3, OP_ARGS },
	[CALL_FSETXATTR] = { "fsetxattr", 3, OP_ARGS },
	[CALL_FGETXATTR] = { "fgetxattr", 2, OP_ARGS },
	[CALL_FLINK] = { "flink", 2, OP_ARGS },
};

/* ---- a round -------------------------------------------------------------- */

static void make_folders(const char *name)
{
	struct stat st;

	if (mkdirat(site.top[0], name, 0777) ||
	    fchmodat(site.top[0], name, 01777, 0))
		trouble("can't make %s", name);
	for (unsigned int side = 0; side < site.sides; side++) {
		site.folder[side] = openat(site.top[side], name,
					   O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (site.folder[side] < 0)
			trouble("can't open %s", name);
	}
	if (fstat(site.folder[0], &st))
		trouble("can't stat %s", name);
	model_start(&st);
}

static void remove_folders(const char *name)
{
	for (unsigned int side = 0; side < site.sides; side++)
		close(site.folder[side]);
	tree_remove(site.top[0], name);
}

static long run(const struct op *ops, size_t count, unsigned int round)
{
	char name[32];
	long failed = -1;

	snprintf(name, sizeof(name), "names.%u", round);
	make_folders(name);
	memset(slots, 0, sizeof(slots));
	site.users = actors_start(site.folder, site.sides);
	for (size_t i = 0; i < count && failed < 0; i++)
		if (!act(&ops[i]) ||
		    ((i + 1) % WALK_EVERY == 0 && !trees_are_right()))
			failed = (long)i;
	if (failed < 0 && !trees_are_right())
		failed = (long)count - 1;
	actors_stop();
	remove_folders(name);
	return failed;
}

/* ---- what there is -------------------------------------------------------- */

static void probe(void)
{
	int fd = openat(site.top[0], "names.probe", O_RDWR | O_CREAT, 0600);
	struct stat a, b;

	if (fd < 0)
		trouble("the folder can't be written");
	site.has_xattrs = fsetxattr(fd, "user.a", "1", 1, 0) == 0;
	site.has_fine_times = true;
	for (unsigned int i = 0; i < 100; i++) {
		if (fstat(fd, &a) || fchmod(fd, 0600) || fstat(fd, &b))
			trouble("the probe");
		if (is_same_time(&a.st_ctim, &b.st_ctim))
			site.has_fine_times = false;
	}
	close(fd);
	unlinkat(site.top[0], "names.probe", 0);
	printf("extended attributes %d, fine time stamps %d\n",
	       site.has_xattrs, site.has_fine_times);
}

static bool take(char *const *folders, int count)
{
	if (count > ACTOR_SIDES)
		return false;
	for (int i = 0; i < count; i++) {
		site.top[i] = open(folders[i],
				   O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (site.top[i] < 0)
			trouble("%s", folders[i]);
	}
	site.sides = (unsigned int)count;
	umask(0);
	probe();
	return true;
}

static const struct campaign campaign = {
	.what = "FOLDER [THE SAME FOLDER BY ANOTHER MOUNT]",
	.kinds = kinds,
	.kind_count = CALLS,
	.fill = fill,
	.describe = describe,
	.run = run,
	.take = take,
};

int main(int argc, char **argv)
{
	return campaign_main(&campaign, argc, argv);
}

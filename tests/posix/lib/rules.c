/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.c - run rules, one by one
 */
#include "rules.h"
#include "tree.h"

#include <grp.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { PATHS = 8, RULE_SECONDS = 120, LONG_RULE_SECONDS = 7200 };

static const char *top[2];
static unsigned int sides;
static char folder[64];
static const char *current;
/* Shared, so that children of a rule count too. */
static unsigned int *faults;

static const char *path_by(unsigned int side, const char *name)
{
	static char out[PATHS][PATH_MAX + 256];
	static unsigned int next;
	char *path = out[next++ % PATHS];

	snprintf(path, sizeof(out[0]), "%s/%s%s%s", top[side], folder,
		 name[0] ? "/" : "", name);
	return path;
}

const char *a(const char *name)
{
	return path_by(0, name);
}

const char *b(const char *name)
{
	return path_by(sides - 1, name);
}

const char *beside(const char *path, const char *name)
{
	size_t size = strlen(top[0]);
	bool is_first = strncmp(path, top[0], size) == 0 && path[size] == '/';

	return path_by(is_first ? 0 : sides - 1, name);
}

bool rules_are_long(void)
{
	const char *value = getenv("LONG");

	return value && *value;
}

bool rules_has_two(void)
{
	return sides > 1;
}

/* ---- users ---------------------------------------------------------------- */

void become(uid_t who)
{
	static const gid_t alice[] = { CREW };
	int err = seteuid(0);

	if (who == 0)
		err |= setgroups(0, NULL) | setegid(0);
	else if (who == ALICE)
		err |= setgroups(1, alice) | setegid(ALICE);
	else
		err |= setgroups(0, NULL) | setegid(BOB);
	if (who != 0)
		err |= seteuid(who);
	rules_true(err == 0, "become another user", __FILE__, __LINE__);
}

/* ---- judging -------------------------------------------------------------- */

static void fault(const char *file, int line)
{
	const char *slash = strrchr(file, '/');

	__sync_fetch_and_add(faults, 1);
	printf("FAILED: %s (%s:%d): ", current, slash ? slash + 1 : file, line);
}

long rules_must(long got, int wanted, const char *text, const char *file,
		int line)
{
	int err = got < 0 ? errno : 0;

	if (err == wanted)
		return got;
	fault(file, line);
	printf("%s gave %s, not %s\n", text, err ? strerror(err) : "success",
	       wanted ? strerror(wanted) : "success");
	fflush(stdout);
	errno = err;
	return got;
}

bool rules_true(bool is_true, const char *text, const char *file, int line)
{
	if (is_true)
		return true;
	fault(file, line);
	printf("not so: %s\n", text);
	fflush(stdout);
	return false;
}

bool rules_equal(long long got, long long wanted, const char *text,
		 const char *file, int line)
{
	if (got == wanted)
		return true;
	fault(file, line);
	printf("%s is %lld (0%llo), not %lld (0%llo)\n", text, got,
	       (unsigned long long)got, wanted, (unsigned long long)wanted);
	fflush(stdout);
	return false;
}

/* ---- what rules often do -------------------------------------------------- */

int put_file(const char *path, size_t size, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	char *bytes = malloc(size + 1);
	int err = -1;

	if (fd >= 0 && bytes) {
		for (size_t i = 0; i < size; i++)
			bytes[i] = (char)('a' + i % 26);
		if (write(fd, bytes, size) == (ssize_t)size)
			err = fchmod(fd, mode);
	}
	free(bytes);
	if (fd >= 0)
		close(fd);
	return err;
}

struct stat stat_of(const char *path)
{
	struct stat st = { 0 };

	rules_must(lstat(path, &st), 0, path, __FILE__, __LINE__);
	return st;
}

int open_close(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0666);

	return fd < 0 ? -1 : close(fd);
}

/* ---- all of them ---------------------------------------------------------- */

static void run_rule(const struct rule *rule, unsigned int number)
{
	unsigned int before = *faults;
	int fd;

	current = rule->name;
	snprintf(folder, sizeof(folder), "rule.%u", number);
	if (mkdir(a(""), 0755) || chmod(a(""), 0777)) {
		perror(a(""));
		exit(2);
	}
	umask(022);
	alarm(rules_are_long() ? LONG_RULE_SECONDS : RULE_SECONDS);
	rule->run();
	alarm(0);
	if (geteuid() != getuid())
		become(0);
	fd = open(top[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	tree_remove(fd, folder);
	close(fd);
	if (*faults == before)
		printf("ok: %s\n", rule->name);
	fflush(stdout);
}

int rules_main(const struct rule *rules, size_t count, int argc, char **argv)
{
	unsigned int skipped = 0;

	if (argc < 2 || argc > 4) {
		fprintf(stderr, "usage: %s FOLDER [THE SAME BY ANOTHER MOUNT "
			"[RULE]]\n", argv[0]);
		return 2;
	}
	top[0] = argv[1];
	top[1] = argc > 2 ? argv[2] : argv[1];
	sides = strcmp(top[0], top[1]) == 0 ? 1 : 2;
	faults = mmap(NULL, sizeof(*faults), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (faults == MAP_FAILED)
		return 2;
	for (size_t i = 0; i < count; i++)
		if (argc > 3 && strcmp(argv[3], rules[i].name) != 0)
			continue;
		else if (rules[i].needs_root && geteuid() != 0)
			skipped++;
		else
			run_rule(&rules[i], (unsigned int)i);
	printf("%zu rules, %u skipped (they need root), %u faults\n", count,
	       skipped, *faults);
	return *faults > 0;
}

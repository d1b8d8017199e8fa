/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h - a list of rules, each tried in a fresh folder
 *
 * Operation.  A program of rules is given a folder, and maybe the same folder by
 * another mount.  a("x") is the path of x by the first, b("x") by the second, or
 * the first again if there is no other; so a rule does something by a() and
 * looks at it by b().  On a local file system all must hold too: that proves the
 * rule.
 *
 * Users.  As root a rule may become alice or bob, and root again.  Each has one
 * set of groups for good.
 */
#ifndef RULES_H
#define RULES_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct rule {
	const char *name;
	void (*run)(void);
	bool needs_root;
};

#define RULE(name) { #name, name, false }
#define ROOT_RULE(name) { #name, name, true }

/* All of main(): 0, 1 if a rule is broken, 2 if it can't run. */
int rules_main(const struct rule *rules, size_t count, int argc, char **argv);

const char *a(const char *name);
const char *b(const char *name);
bool rules_has_two(void);
/* LONG=1: the full sizes. */
bool rules_are_long(void);
/* name, by the same mount as path. */
const char *beside(const char *path, const char *name);

enum { ALICE = 61001, BOB = 61002, CREW = 62000 };
/* alice: group ALICE and CREW.  bob: group BOB. */
void become(uid_t who);		/* ALICE, BOB or 0 */

/* It must succeed, or fail with this errno. */
#define MUST(call) rules_must((long)(call), 0, #call, __FILE__, __LINE__)
#define FAILS(wanted, call) \
	(errno = 0, rules_must((long)(call), wanted, #call, __FILE__, __LINE__))
#define TRUE(what) rules_true((what), #what, __FILE__, __LINE__)
#define EQUAL(got, wanted) \
	rules_equal((long long)(got), (long long)(wanted), #got, __FILE__, \
		    __LINE__)

long rules_must(long got, int wanted, const char *text, const char *file,
		int line);
bool rules_true(bool is_true, const char *text, const char *file, int line);
bool rules_equal(long long got, long long wanted, const char *text,
		 const char *file, int line);

/* A file of this size and mode, of letters; 0 or -1. */
int put_file(const char *path, size_t size, mode_t mode);
struct stat stat_of(const char *path);
int open_close(const char *path, int flags);

#endif /* RULES_H */

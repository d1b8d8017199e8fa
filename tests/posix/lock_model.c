/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock_model - random locks of some processes, beside a model in memory
 *
 *	lock_model [--ops N] [--seconds N] [--seed N] [--local] DIR [DIR]
 *
 * Processes open one file, by DIR and in turn by the other DIR, which is another
 * mount of the same; dup and close what they have; lock pieces of it by fcntl, by
 * fcntl of an open file description, and all of it by flock; wait for locks; get
 * signals; and are killed.  The model says how each call ends, and which of those
 * that wait may go on: one of them must, and no other may.  Who waits in a circle
 * must be told EDEADLK.
 *
 * It prints its seed first, which makes the same calls again, but for the choice among
 * several that might have got a lock; and what led to a failure.
 *
 * What a process gives up by its death, a signal or close() may be there for some time:
 * the kernel's FUSE does not wait until the server knows (SETTLE_MS).
 *
 * --local: a local file system.  Linux looks for a circle along one lock in the way of
 * each, so some are not found.
 */
#include "lib/campaign.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	AGENTS = 6,
	SLOTS = 3,			/* descriptors of each */
	DESCRIPTIONS = AGENTS * SLOTS,
	BYTES = 12,			/* and one more, for all behind them */
	PATIENCE_MS = 60000,
	SETTLE_MS = 10000,
	LOG = 60,
};

enum call { OPEN, DUP, CLOSE, POSIX, OFD, FLOCK, CALLS };

static const char *const call_names[CALLS] = {
	"open", "dup", "close", "posix", "ofd", "flock",
};

/* What a process is told to do. */
struct order {
	enum call call;
	int slot, from;			/* DUP: from there */
	int type;			/* F_RDLCK, F_WRLCK, F_UNLCK */
	bool waits, asks;		/* F_GETLK */
	int start, size;		/* 0: to the end */
};

struct outcome {
	int err;			/* errno, or 0 */
	struct flock found;
};

/* ---- the processes --------------------------------------------------------------- */

static const char *dirs[2];
static unsigned int dir_count;

static void nothing(int number)
{
	(void)number;
}

static int lock_range(int fd, const struct order *order, struct flock *lock)
{
	bool is_ofd = order->call == OFD;

	*lock = (struct flock){
		.l_type = (short)order->type,
		.l_whence = SEEK_SET,
		.l_start = order->start,
		.l_len = order->size,
	};
	if (order->asks)
		return fcntl(fd, is_ofd ? F_OFD_GETLK : F_GETLK, lock);
	if (order->waits)
		return fcntl(fd, is_ofd ? F_OFD_SETLKW : F_SETLKW, lock);
	return fcntl(fd, is_ofd ? F_OFD_SETLK : F_SETLK, lock);
}

static int lock_all(int fd, const struct order *order)
{
	int operation = order->type == F_UNLCK ? LOCK_UN :
			order->type == F_WRLCK ? LOCK_EX : LOCK_SH;

	return flock(fd, operation | (order->waits ? 0 : LOCK_NB));
}

static int obey(const struct order *order, int *fds, const char *path,
		struct outcome *outcome)
{
	switch (order->call) {
	case OPEN:
		fds[order->slot] = open(path, O_RDWR | O_CREAT | O_CLOEXEC,
					0644);
		return fds[order->slot];
	case DUP:
		fds[order->slot] = dup(fds[order->from]);
		return fds[order->slot];
	case CLOSE:
		return close(fds[order->slot]);
	case FLOCK:
		return lock_all(fds[order->slot], order);
	default:
		return lock_range(fds[order->slot], order, &outcome->found);
	}
}

static void __attribute__((noreturn)) be_agent(unsigned int which, int sock)
{
	struct sigaction action = { .sa_handler = nothing };
	int fds[SLOTS] = { -1, -1, -1 };
	struct order order;
	char path[4096];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigaction(SIGUSR1, &action, NULL);
	snprintf(path, sizeof(path), "%s/locked", dirs[which % dir_count]);
	for (;;) {
		struct outcome outcome = { 0 };
		ssize_t got = recv(sock, &order, sizeof(order), 0);

		/* A signal that came too late for its call. */
		if (got < 0 && errno == EINTR)
			continue;
		if (got != sizeof(order))
			_exit(0);
		outcome.err = obey(&order, fds, path, &outcome) < 0 ? errno : 0;
		send(sock, &outcome, sizeof(outcome), 0);
	}
}

/* ---- the model --------------------------------------------------------------------- */

/* Bits: of each byte. */
struct held {
	uint32_t read, write;
};

struct description {
	unsigned int users;		/* 0: it is not open */
	struct held ofd;
	int flock;			/* F_UNLCK: none */
};

struct agent {
	pid_t pid;
	int sock;
	int slots[SLOTS];		/* descriptions, or -1 */
	struct held posix;
	bool is_waiting, was_hit;
	bool was_in_circle;		/* at any time since it waits */
	struct order order;		/* that it waits in */
	bool has_ended;			/* so, but nothing came of it here yet */
	struct outcome outcome;
};

static struct agent agents[AGENTS];
static struct description descriptions[DESCRIPTIONS];
static bool is_local;
static uint64_t loose_until_ms;	/* what was given up may still be there */
static unsigned long done, grants, deadlocks, hits, kills;

static char lines[LOG][128];
static unsigned long line_count;

static void note(const char *format, ...)
	__attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(lines[line_count++ % LOG], sizeof(lines[0]), format, args);
	va_end(args);
}

static void say_held(const char *what, int which, const struct held *held)
{
	if (held->read | held->write)
		printf("  %s %d: read %x, write %x\n", what, which, held->read,
		       held->write);
}

/* The model, as it was. */
static void say_state(void)
{
	for (int i = 0; i < AGENTS; i++) {
		printf("  process %d: descriptions %d, %d, %d%s\n", i,
		       agents[i].slots[0], agents[i].slots[1],
		       agents[i].slots[2], agents[i].is_waiting ?
		       ", waits" : "");
		say_held("process", i, &agents[i].posix);
	}
	for (int i = 0; i < DESCRIPTIONS; i++)
		say_held("description", i, &descriptions[i].ofd);
}

static void __attribute__((format(printf, 1, 2), noreturn))
fail(const char *format, ...)
{
	unsigned long from = line_count > LOG ? line_count - LOG : 0;
	va_list args;

	for (; from < line_count; from++)
		printf("  %s\n", lines[from % LOG]);
	say_state();
	printf("FAILED after %lu calls: ", done);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	exit(1);
}

static uint32_t mask_of(const struct order *order)
{
	uint32_t all = (UINT32_C(1) << (BYTES + 1)) - 1;
	uint32_t from = all & ~((UINT32_C(1) << order->start) - 1);

	if (order->size == 0)
		return from;
	return from & ((UINT32_C(1) << (order->start + order->size)) - 1);
}

static bool is_in_way(const struct held *held, int type, uint32_t mask)
{
	return ((type == F_WRLCK ? held->read : 0) | held->write) & mask;
}

static void set(struct held *held, int type, uint32_t mask)
{
	held->read &= ~mask;
	held->write &= ~mask;
	if (type == F_RDLCK)
		held->read |= mask;
	if (type == F_WRLCK)
		held->write |= mask;
}

static bool posix_is_in_way(const struct agent *of, const struct agent *agent,
			    const struct order *order)
{
	return !(order->call == POSIX && of == agent) &&
	       is_in_way(&of->posix, order->type, mask_of(order));
}

static bool flock_is_in_way(const struct agent *agent,
			    const struct order *order)
{
	const struct description *own = &descriptions[agent->slots[order->slot]];

	for (unsigned int i = 0; i < DESCRIPTIONS; i++) {
		const struct description *it = &descriptions[i];

		if (it != own && it->users && it->flock != F_UNLCK &&
		    (it->flock == F_WRLCK || order->type == F_WRLCK))
			return true;
	}
	return false;
}

static bool has_conflict(const struct agent *agent, const struct order *order)
{
	const struct description *own = &descriptions[agent->slots[order->slot]];

	if (order->type == F_UNLCK)
		return false;
	if (order->call == FLOCK)
		return flock_is_in_way(agent, order);
	for (unsigned int i = 0; i < AGENTS; i++)
		if (posix_is_in_way(&agents[i], agent, order))
			return true;
	for (unsigned int i = 0; i < DESCRIPTIONS; i++)
		if (!(order->call == OFD && &descriptions[i] == own) &&
		    is_in_way(&descriptions[i].ofd, order->type,
			      mask_of(order)))
			return true;
	return false;
}

/* By a lock of its own, or of what it has open. */
static bool agent_is_in_way(const struct agent *of, const struct agent *agent)
{
	const struct order *order = &agent->order;

	if (posix_is_in_way(of, agent, order))
		return true;
	for (unsigned int i = 0; i < SLOTS; i++)
		if (of->slots[i] >= 0 &&
		    of->slots[i] != agent->slots[order->slot] &&
		    is_in_way(&descriptions[of->slots[i]].ofd, order->type,
			      mask_of(order)))
			return true;
	return false;
}

/* Does agent wait, through others, for target?  is_strict: only for processes' locks,
 * and only these wait. */
static bool waits_for(const struct agent *agent, const struct agent *target,
		      bool is_strict, uint32_t *seen)
{
	if (!agent->is_waiting || agent->order.call == FLOCK ||
	    (is_strict && agent->order.call != POSIX))
		return false;
	*seen |= UINT32_C(1) << (agent - agents);
	for (unsigned int i = 0; i < AGENTS; i++) {
		if (!(is_strict ? posix_is_in_way(&agents[i], agent,
						  &agent->order) :
				  agent_is_in_way(&agents[i], agent)))
			continue;
		if (&agents[i] == target)
			return true;
		if (!(*seen & UINT32_C(1) << i) &&
		    waits_for(&agents[i], target, is_strict, seen))
			return true;
	}
	return false;
}

/* Must be told EDEADLK, if no other of them is. */
static bool is_in_circle(const struct agent *agent)
{
	uint32_t seen = 0;

	return waits_for(agent, agent, true, &seen);
}

/* May be: Linux knows some circles with open file descriptions in them. */
static bool may_be_in_circle(const struct agent *agent)
{
	uint32_t seen = 0;

	return agent->order.call == POSIX &&
	       waits_for(agent, agent, false, &seen);
}

static void drop_description(int which)
{
	struct description *it = &descriptions[which];

	if (--it->users == 0)
		*it = (struct description){ .flock = F_UNLCK };
}

static int new_description(void)
{
	for (int i = 0; i < DESCRIPTIONS; i++)
		if (descriptions[i].users == 0) {
			descriptions[i].users = 1;
			return i;
		}
	abort();
}

static void apply(struct agent *agent, const struct order *order)
{
	int *slot = &agent->slots[order->slot];

	switch (order->call) {
	case OPEN:
		*slot = new_description();
		break;
	case DUP:
		*slot = agent->slots[order->from];
		descriptions[*slot].users++;
		break;
	case CLOSE:
		drop_description(*slot);
		*slot = -1;
		agent->posix = (struct held){ 0 };
		break;
	case POSIX:
		set(&agent->posix, order->type, mask_of(order));
		break;
	case OFD:
		set(&descriptions[*slot].ofd, order->type, mask_of(order));
		break;
	default:
		descriptions[*slot].flock = order->type;
	}
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void loosen(void)
{
	if (!is_local)
		loose_until_ms = now_ms() + SETTLE_MS;
}

/* ---- processes that come and go ------------------------------------------------------ */

static void start_agent(unsigned int which)
{
	struct agent *agent = &agents[which];
	int socks[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks))
		fail("socketpair: %s", strerror(errno));
	*agent = (struct agent){ .sock = socks[0], .slots = { -1, -1, -1 } };
	fflush(stdout);
	agent->pid = fork();
	if (agent->pid < 0)
		fail("fork: %s", strerror(errno));
	if (agent->pid == 0) {
		close(socks[0]);
		be_agent(which, socks[1]);
	}
	close(socks[1]);
}

static void kill_agent(unsigned int which)
{
	struct agent *agent = &agents[which];

	kill(agent->pid, SIGKILL);
	waitpid(agent->pid, NULL, 0);
	close(agent->sock);
	loosen();
	for (unsigned int i = 0; i < SLOTS; i++)
		if (agent->slots[i] >= 0)
			drop_description(agent->slots[i]);
	start_agent(which);
}

/* ---- what comes of it ------------------------------------------------------------------- */

static const char *describe(const struct order *order, char text[128])
{
	static const char *const types[] = { [F_RDLCK] = "read",
					     [F_WRLCK] = "write",
					     [F_UNLCK] = "unlock" };

	if (order->call < POSIX)
		snprintf(text, 128, "%s %d", call_names[order->call],
			 order->slot);
	else
		snprintf(text, 128, "%s%s %d %s %d+%d%s",
			 order->asks ? "ask " : "", call_names[order->call],
			 order->slot, types[order->type], order->start,
			 order->size, order->waits ? " wait" : "");
	return text;
}

static bool has_said(const struct agent *agent, int patience_ms)
{
	struct pollfd look = { .fd = agent->sock, .events = POLLIN };

	return poll(&look, 1, patience_ms) == 1;
}

static void hear(struct agent *agent, struct outcome *out)
{
	if (!has_said(agent, PATIENCE_MS))
		fail("process %td does not answer", agent - agents);
	if (recv(agent->sock, out, sizeof(*out), 0) != sizeof(*out))
		fail("process %td has ended", agent - agents);
}

/* An end of a wait that the model has, too.  Of two locks that were got together, one
 * may be possible because of the other, which is heard of later. */
static bool end_wait(struct agent *agent)
{
	int err = agent->outcome.err;

	if (err == 0 && !has_conflict(agent, &agent->order)) {
		apply(agent, &agent->order);
		grants++;
	} else if (err == EDEADLK && agent->was_in_circle) {
		deadlocks++;
	} else if (err == EINTR && agent->was_hit) {
		hits++;
	} else {
		return false;
	}
	note("  %td: %s", agent - agents, err ? strerrorname_np(err) : "has it");
	if (agent->was_hit)
		loosen();
	agent->is_waiting = agent->was_hit = agent->was_in_circle =
		agent->has_ended = false;
	return true;
}

static bool is_due(const struct agent *agent)
{
	if (!agent->is_waiting || agent->has_ended)
		return false;
	if (agent->was_hit || !has_conflict(agent, &agent->order))
		return true;
	return !is_local && is_in_circle(agent);
}

/* How many have ended in a way that can't be, so far. */
static unsigned int hear_all(void)
{
	unsigned int odd = 0;

	for (unsigned int i = 0; i < AGENTS; i++) {
		struct agent *agent = &agents[i];

		agent->was_in_circle |= may_be_in_circle(agent);
		if (!agent->is_waiting)
			continue;
		if (!agent->has_ended && has_said(agent, 0)) {
			hear(agent, &agent->outcome);
			agent->has_ended = true;
		}
		odd += agent->has_ended && !end_wait(agent);
	}
	return odd;
}

static void wait_for_due(void)
{
	poll(NULL, 0, 1);
	for (unsigned int i = 0; i < AGENTS; i++) {
		if (!is_due(&agents[i]) || has_said(&agents[i], 0))
			continue;
		/* The first one may have come before it waited. */
		if (agents[i].was_hit)
			kill(agents[i].pid, SIGUSR1);
	}
}

static void say_odd(void)
{
	for (unsigned int i = 0; i < AGENTS; i++)
		if (agents[i].has_ended)
			note("  %u: %s?", i, agents[i].outcome.err ?
			     strerrorname_np(agents[i].outcome.err) :
			     "has it");
}

/* Until nobody is left who may go on. */
static void settle(void)
{
	uint64_t begin_ms = now_ms();
	unsigned int due, odd;

	for (;;) {
		odd = hear_all();
		due = 0;
		for (unsigned int i = 0; i < AGENTS; i++)
			due += is_due(&agents[i]);
		if (due + odd == 0)
			return;
		wait_for_due();
		if (odd && now_ms() - begin_ms > SETTLE_MS) {
			say_odd();
			fail("%u waits have ended that may not", odd);
		}
		if (now_ms() - begin_ms > PATIENCE_MS)
			fail("%u waits that may end do not", due);
	}
}

/* Is it one that is really there? */
static bool is_held(const struct flock *found)
{
	struct order region = { .start = (int)found->l_start,
				.size = (int)found->l_len };
	uint32_t mask = mask_of(&region);

	for (unsigned int i = 0; i < AGENTS + DESCRIPTIONS; i++) {
		const struct held *held =
			i < AGENTS ? &agents[i].posix :
				     &descriptions[i - AGENTS].ofd;
		uint32_t has = found->l_type == F_WRLCK ? held->write :
							  held->read;

		if ((has & mask) == mask &&
		    /* F_OFD_GETLK says -1 of all locks of a FUSE mount. */
		    (i >= AGENTS || found->l_pid == agents[i].pid ||
		     (!is_local && found->l_pid == -1)))
			return true;
	}
	return false;
}

/* NULL, or what is wrong with an answer. */
static const char *judge(const struct agent *agent, const struct order *order,
			 const struct outcome *outcome)
{
	bool conflict = order->call >= POSIX && has_conflict(agent, order);
	bool is_free = outcome->found.l_type == F_UNLCK;

	if (!order->asks && conflict)
		return outcome->err == EAGAIN ? NULL : "something is in its way";
	if (outcome->err)
		return strerrorname_np(outcome->err);
	if (!order->asks)
		return NULL;
	if (is_free == conflict)
		return is_free ? "nothing is said to be in the way" :
				 "something is said to be in the way";
	return is_free || is_held(&outcome->found) ?
		       NULL : "nobody has the lock that is said to be there";
}

static void call(struct agent *agent, const struct order *order)
{
	bool conflict = order->call >= POSIX && has_conflict(agent, order);
	struct outcome outcome;
	const char *wrong;
	char text[128];

	note("%td: %s%s", agent - agents, describe(order, text),
	     conflict ? " (in the way)" : "");
	do {
		if (send(agent->sock, order, sizeof(*order), 0) !=
		    sizeof(*order))
			fail("process %td has ended", agent - agents);
		if (conflict && order->waits) {
			agent->order = *order;
			agent->is_waiting = true;
			return;
		}
		hear(agent, &outcome);
		wrong = judge(agent, order, &outcome);
	} while (wrong && order->call >= POSIX && (order->asks || !conflict) &&
		 now_ms() < loose_until_ms);
	if (wrong && order->asks)
		note("  told of: type %d, process %d, %lld+%lld",
		     outcome.found.l_type, outcome.found.l_pid,
		     (long long)outcome.found.l_start,
		     (long long)outcome.found.l_len);
	if (wrong)
		fail("%s of process %td: %s", text, agent - agents, wrong);
	if (order->call == CLOSE)
		loosen();
	if (!order->asks && outcome.err == 0)
		apply(agent, order);
}

/* ---- chance ----------------------------------------------------------------------------- */

static struct rng rng;

static unsigned int pick(unsigned int count)
{
	return rng_below(&rng, count);
}

/* A slot that is used, or one that is not; -1: none. */
static int pick_slot(const struct agent *agent, bool is_used)
{
	unsigned int from = pick(SLOTS);

	for (unsigned int i = 0; i < SLOTS; i++) {
		int slot = (int)((from + i) % SLOTS);

		if ((agent->slots[slot] >= 0) == is_used)
			return slot;
	}
	return -1;
}

/* From one type to another it goes by way of none, and not at once. */
static bool converts(const struct agent *agent, const struct order *order)
{
	int has = descriptions[agent->slots[order->slot]].flock;

	return order->call == FLOCK && has != F_UNLCK &&
	       order->type != F_UNLCK && has != order->type;
}

static struct order pick_lock(const struct agent *agent)
{
	static const int types[] = { F_RDLCK, F_WRLCK, F_UNLCK, F_UNLCK };
	int rest;
	struct order order = {
		.call = POSIX + pick(3),
		.slot = pick_slot(agent, true),
		.type = types[pick(4)],
		.start = (int)pick(BYTES),
	};

	rest = BYTES - order.start;
	/* Mostly some bytes, now and then all that follow. */
	if (pick(5) > 0)
		order.size = 1 + (int)pick((unsigned int)rest < 4 ?
					   (unsigned int)rest : 4);
	order.waits = order.type != F_UNLCK && pick(3) == 0;
	order.asks = order.call != FLOCK && order.type != F_UNLCK &&
		     !order.waits && pick(4) == 0;
	if (converts(agent, &order))
		order.type = F_UNLCK;
	order.waits &= order.type != F_UNLCK;
	return order;
}

static struct order pick_order(const struct agent *agent)
{
	unsigned int chance = pick(20);
	struct order order = { .call = CLOSE };
	int used = pick_slot(agent, true), unused = pick_slot(agent, false);

	if (used < 0 || (chance < 2 && unused >= 0)) {
		order.call = used < 0 || pick(2) ? OPEN : DUP;
		order.slot = unused;
		order.from = used;
	} else if (chance < 3) {
		order.slot = used;
	} else {
		order = pick_lock(agent);
	}
	return order;
}

static void step(void)
{
	unsigned int which = pick(AGENTS);
	struct agent *agent = &agents[which];
	struct order order;

	if (pick(100) == 0) {
		note("%u: killed", which);
		kills++;
		kill_agent(which);
	} else if (!agent->is_waiting) {
		order = pick_order(agent);
		call(agent, &order);
	} else if (pick(6) == 0) {
		note("%u: signal", which);
		agent->was_hit = true;
		kill(agent->pid, SIGUSR1);
	}
	settle();
	done++;
}

static unsigned long seconds_since(const struct timespec *start)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned long)(now.tv_sec - start->tv_sec);
}

int main(int argc, char **argv)
{
	unsigned long ops = 10000, seconds = 0;
	struct timespec start;
	uint32_t seed = 0;

	getrandom(&seed, sizeof(seed), 0);
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--local") == 0)
			is_local = true;
		else if (strcmp(argv[i], "--ops") == 0 && i + 1 < argc)
			ops = strtoul(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
			seconds = strtoul(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
			seed = (uint32_t)strtoul(argv[++i], NULL, 10);
		else if (dir_count < 2 && argv[i][0] != '-')
			dirs[dir_count++] = argv[i];
		else
			dir_count = 3;
	}
	if (dir_count < 1 || dir_count > 2) {
		fprintf(stderr, "lock_model [--ops N] [--seconds N] [--seed N] "
			"[--local] DIR [DIR]\n");
		return 2;
	}
	printf("seed %u\n", seed);
	rng.state = seed;
	for (unsigned int i = 0; i < DESCRIPTIONS; i++)
		descriptions[i].flock = F_UNLCK;
	for (unsigned int i = 0; i < AGENTS; i++)
		start_agent(i);
	clock_gettime(CLOCK_MONOTONIC, &start);
	while (done < ops && (!seconds || seconds_since(&start) < seconds))
		step();
	for (unsigned int i = 0; i < AGENTS; i++) {
		kill(agents[i].pid, SIGKILL);
		waitpid(agents[i].pid, NULL, 0);
	}
	printf("%lu calls, %lu waits that got their lock, %lu told EDEADLK, "
	       "%lu ended by a signal, %lu processes killed\n", done, grants,
	       deadlocks, hits, kills);
	return 0;
}

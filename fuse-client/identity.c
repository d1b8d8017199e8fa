/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity.c - who a caller is: (uid, gid, groups) -> index in the session
 *
 * Operation.  The kernel tells uid, gid and pid of a caller but not its other
 * groups; those stand in /proc/PID/status.  What was read is believed for
 * IDENTITY_CACHE_MS in a table of callers with one place per hash, so that a
 * busy process costs one read of /proc a second.  Equal identities share an
 * index, whichever process has them.
 *
 * Ownership.  An index belongs to who got it until put, so that it does not
 * change its meaning under a request in flight.  Indexes that nobody holds
 * stand in a list, the least recently used first, and keep their meaning until
 * they are needed for another.
 *
 * When it fails.  A process whose /proc entry can't be read (it has ended, lives in
 * another pid namespace, or is hidden from us) has no other groups than its gid: it
 * may be refused something, but is granted nothing that is not its own.
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	BUCKETS = 2 * RF_IDENTITIES_MAX,
	/* All of RF_GROUPS_MAX groups of 11 bytes, and what stands before. */
	STATUS_MAX = 16384,
};

struct identity {
	struct rf_list idle;		/* in the list, if users is 0 */
	struct rf_list bucket;
	uid_t uid;
	gid_t gid;
	uint32_t *groups;
	uint32_t group_count;
	uint32_t users;
	uint32_t generation;		/* +1 when it becomes another's */
};

struct caller {
	uint64_t until_ns;		/* 0: empty */
	pid_t pid;
	uid_t uid;
	gid_t gid;
	uint32_t generation;		/* of the identity */
	uint16_t index;
};

struct identities {
	struct identity table[RF_IDENTITIES_MAX];
	struct caller callers[IDENTITY_CALLERS_MAX];
	struct rf_list buckets[BUCKETS];
	struct rf_list idle;
	bool has_said_too_many, has_said_hidden;
	uint32_t groups[RF_GROUPS_MAX];	/* of the caller being looked up */
	uint32_t group_count;
	char status[STATUS_MAX];
};

int identities_create(struct identities **out)
{
	struct identities *ids = calloc(1, sizeof(*ids));

	if (!ids)
		return -ENOMEM;
	rf_list_init(&ids->idle);
	for (size_t i = 0; i < BUCKETS; i++)
		rf_list_init(&ids->buckets[i]);
	for (size_t i = 0; i < RF_IDENTITIES_MAX; i++) {
		rf_list_init(&ids->table[i].bucket);
		rf_list_push(&ids->idle, &ids->table[i].idle);
	}
	*out = ids;
	return 0;
}

void identities_destroy(struct identities *ids)
{
	if (!ids)
		return;
	for (size_t i = 0; i < RF_IDENTITIES_MAX; i++)
		free(ids->table[i].groups);
	free(ids);
}

/* ---- /proc --------------------------------------------------------------- */

int identity_parse_groups(const char *status, uint32_t *groups, uint32_t max)
{
	const char *at = strstr(status, "\nGroups:");
	uint32_t count = 0;
	char *end;

	if (!at)
		return 0;
	at += strlen("\nGroups:");
	for (;;) {
		unsigned long group;

		while (*at == ' ' || *at == '\t')
			at++;
		group = strtoul(at, &end, 10);
		if (*at < '0' || *at > '9' || group > UINT32_MAX)
			return (int)count;
		if (count == max)
			return -E2BIG;
		groups[count++] = (uint32_t)group;
		at = end;
	}
}

/* Read the whole file, or as much as there is room for, as a string. */
static int read_status(pid_t pid, char *out, size_t room)
{
	char path[32];
	size_t used = 0;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	do {
		got = read(fd, out + used, room - 1 - used);
		if (got > 0)
			used += (size_t)got;
	} while ((got < 0 && errno == EINTR) || (got > 0 && used < room - 1));
	close(fd);
	out[used] = 0;
	return got < 0 ? -EIO : 0;
}

bool identity_is_hidden(pid_t thread)
{
	return thread > 0 && (kill(thread, 0) == 0 || errno != ESRCH);
}

static void say_hidden(struct identities *ids)
{
	if (ids->has_said_hidden)
		return;
	ids->has_said_hidden = true;
	rf_log(RF_LOG_WARN, "/proc hides processes of other users (hidepid): of "
	       "their groups only the first counts here, and while they wait for "
	       "the server they can't be killed");
}

static void read_groups(struct identities *ids, pid_t pid)
{
	int count;

	ids->group_count = 0;
	if (read_status(pid, ids->status, sizeof(ids->status)) < 0) {
		if (identity_is_hidden(pid))
			say_hidden(ids);
		return;
	}
	count = identity_parse_groups(ids->status, ids->groups, RF_GROUPS_MAX);
	if (count >= 0) {
		ids->group_count = (uint32_t)count;
		return;
	}
	ids->group_count = RF_GROUPS_MAX;
	if (!ids->has_said_too_many)
		rf_log(RF_LOG_WARN, "process %d is in more than %d groups; "
		       "only the first %d count here", (int)pid, RF_GROUPS_MAX,
		       RF_GROUPS_MAX);
	ids->has_said_too_many = true;
}

/* ---- the table of identities --------------------------------------------- */

static uint32_t mix(uint32_t hash, uint32_t value)
{
	return (hash ^ value) * 0x9e3779b1u + (hash >> 15);
}

static struct rf_list *bucket_of(struct identities *ids, uid_t uid, gid_t gid)
{
	uint32_t hash = mix(mix(ids->group_count, uid), gid);

	for (uint32_t i = 0; i < ids->group_count; i++)
		hash = mix(hash, ids->groups[i]);
	return &ids->buckets[(hash ^ hash >> 16) % BUCKETS];
}

static bool is_same(const struct identities *ids, const struct identity *id,
		    uid_t uid, gid_t gid)
{
	return id->uid == uid && id->gid == gid &&
	       id->group_count == ids->group_count &&
	       memcmp(id->groups, ids->groups,
		      ids->group_count * sizeof(*ids->groups)) == 0;
}

static struct identity *find(struct identities *ids, struct rf_list *bucket,
			     uid_t uid, gid_t gid)
{
	struct rf_list *at;

	rf_list_for_each(at, bucket) {
		struct identity *id = rf_container_of(at, struct identity,
						      bucket);

		if (is_same(ids, id, uid, gid))
			return id;
	}
	return NULL;
}

/* Give the least recently used index to another. */
static int replace(struct identities *ids, struct rf_list *bucket, uid_t uid,
		   gid_t gid, struct identity **out)
{
	struct identity *id;
	uint32_t *groups;

	if (rf_list_is_empty(&ids->idle))
		return -EUSERS;
	id = rf_container_of(ids->idle.next, struct identity, idle);
	/* One more, so that nobody at all is not a NULL. */
	groups = realloc(id->groups,
			 (ids->group_count + 1) * sizeof(*groups));
	if (!groups)
		return -ENOMEM;
	memcpy(groups, ids->groups, ids->group_count * sizeof(*groups));
	rf_list_remove(&id->bucket);
	rf_list_push(bucket, &id->bucket);
	id->groups = groups;
	id->group_count = ids->group_count;
	id->uid = uid;
	id->gid = gid;
	id->generation++;
	*out = id;
	return 0;
}

static void hold(struct identity *id)
{
	if (id->users++ == 0)
		rf_list_remove(&id->idle);
}

static uint16_t index_of(const struct identities *ids,
			 const struct identity *id)
{
	return (uint16_t)(id - ids->table);
}

/* ---- callers ------------------------------------------------------------- */

static struct caller *caller_of(struct identities *ids, uid_t uid, gid_t gid,
				pid_t pid)
{
	uint32_t hash = mix(mix((uint32_t)pid, uid), gid);

	return &ids->callers[(hash ^ hash >> 16) % IDENTITY_CALLERS_MAX];
}

static bool is_believed(const struct identities *ids,
			const struct caller *caller, uint64_t now_ns, uid_t uid,
			gid_t gid, pid_t pid)
{
	return now_ns < caller->until_ns && caller->pid == pid &&
	       caller->uid == uid && caller->gid == gid &&
	       ids->table[caller->index].generation == caller->generation;
}

int identities_get(struct identities *ids, uint64_t now_ns, uid_t uid,
		   gid_t gid, pid_t pid, uint16_t *index, bool *is_new,
		   struct rf_identity_args *args)
{
	struct caller *caller = caller_of(ids, uid, gid, pid);
	struct rf_list *bucket;
	struct identity *id;
	int err;

	*is_new = false;
	if (is_believed(ids, caller, now_ns, uid, gid, pid)) {
		hold(&ids->table[caller->index]);
		*index = caller->index;
		return 0;
	}
	read_groups(ids, pid);
	bucket = bucket_of(ids, uid, gid);
	id = find(ids, bucket, uid, gid);
	if (!id) {
		err = replace(ids, bucket, uid, gid, &id);
		if (err)
			return err;
		*is_new = true;
		*args = (struct rf_identity_args){
			.index = index_of(ids, id), .uid = uid, .gid = gid,
			.groups = { .bytes = id->groups,
				    .size = id->group_count * 4 },
		};
	}
	hold(id);
	*index = index_of(ids, id);
	*caller = (struct caller){
		.until_ns = now_ns + IDENTITY_CACHE_MS * 1000000ull,
		.pid = pid, .uid = uid, .gid = gid,
		.generation = id->generation, .index = *index,
	};
	return 0;
}

void identities_put(struct identities *ids, uint16_t index)
{
	struct identity *id;

	RF_ASSERT(index < RF_IDENTITIES_MAX);
	id = &ids->table[index];
	RF_ASSERT(id->users > 0);
	if (--id->users == 0)
		rf_list_push(&ids->idle, &id->idle);
}

/* It is found no more, neither by what it says nor by its callers. */
static void hide(struct identity *id)
{
	rf_list_remove(&id->bucket);
	id->generation++;
}

void identities_refused(struct identities *ids, uint16_t index)
{
	RF_ASSERT(index < RF_IDENTITIES_MAX);
	hide(&ids->table[index]);
}

void identities_forget_idle(struct identities *ids)
{
	struct rf_list *at;

	rf_list_for_each(at, &ids->idle)
		hide(rf_container_of(at, struct identity, idle));
}

bool identities_next_used(struct identities *ids, uint32_t *at,
			  struct rf_identity_args *args)
{
	while (*at < RF_IDENTITIES_MAX) {
		const struct identity *id = &ids->table[(*at)++];

		if (id->users == 0)
			continue;
		*args = (struct rf_identity_args){
			.index = index_of(ids, id), .uid = id->uid,
			.gid = id->gid,
			.groups = { .bytes = id->groups,
				    .size = id->group_count * 4 },
		};
		return true;
	}
	return false;
}

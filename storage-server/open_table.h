/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open_table.h - what one session has open: inode, rights, how
 *
 * An id is index and generation, never 0, and a stale one finds nothing.  Rights
 * were checked when the open was made and outlive chmod and unlink.
 *
 * Pure logic; the store's own count of opens is the caller's to keep in step.
 * Threads.  [owner] of the server.
 */
#ifndef OPEN_TABLE_H
#define OPEN_TABLE_H

#include "libproto/base.h"

enum { OPEN_TABLE_MAX = 65536 };	/* an index has 16 bits */

struct open {
	uint64_t inode;
	uint32_t flags;		/* RF_OPEN_* */
	uint16_t users;		/* requests that use it now */
	uint16_t kept_slot;	/* 1 + the slot of the answer that made it, if
				 * the client may not know of it; else 0 */
	uint64_t failures_seen;	/* of store_take_failure() */
	uint16_t generation;
	uint16_t latest;	/* generation that any open of this place had */
	uint32_t next_free;
	uint32_t next_writer, prev_writer;	/* if it is open for writing */
	uint32_t first_writer;	/* of the chain that begins at this place */
	bool is_used;
	bool is_released;	/* goes when users is 0 */
	bool is_listed;		/* among the free ones, maybe while used */
	bool is_known;		/* latest is not just where the table begins */
};

struct open_table {
	struct open *v;
	uint32_t capacity;	/* may grow to limit */
	uint32_t limit;
	uint32_t count;
	uint32_t first_free;
	uint16_t first_generation;	/* of places of which nothing is known */
};

void open_table_init(struct open_table *table, uint32_t limit);
void open_table_fini(struct open_table *table);

/*
 * A new one, without users.  The table grows by doubling up to its limit, so
 * pointers do not outlive this call: keep ids.
 *
 * -ENFILE: limit are open.  -ENOMEM.
 */
int open_table_add(struct open_table *table, uint64_t inode, uint32_t flags,
	      uint32_t *id);
/*
 * An open had this id in a table before this one: none will have it again, nor one
 * that was before it at its place.  Errors as of open_table_restore().
 */
int open_table_note(struct open_table *table, uint32_t id);
/*
 * As open_table_add() under the id that it had in a table before this one.  0 also if it
 * is there already.  -EBADF: no such id, or another open has its place; else as
 * open_table_add().
 */
int open_table_restore(struct open_table *table, uint32_t id, uint64_t inode,
		       uint32_t flags);
bool open_table_is_full(const struct open_table *table);
/* Is the inode open for writing? */
bool open_table_has_writer(const struct open_table *table, uint64_t inode);
/* NULL: there is none, or it was released. */
struct open *open_table_find(struct open_table *table, uint32_t id);
/* Also one that was released and still has users. */
struct open *open_table_find_any(struct open_table *table, uint32_t id);
void open_table_remove(struct open_table *table, uint32_t id);

/* The id of the one that has the place of id, or 0. */
uint32_t open_table_in_place(const struct open_table *table, uint32_t id);

/* The id of the first one at index *at or later, or 0; moves *at beyond it. */
uint32_t open_table_walk(const struct open_table *table, uint32_t *at);

#endif /* OPEN_TABLE_H */

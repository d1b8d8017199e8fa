/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_fixture.h - a store in a directory of its own, and short words for it
 *
 * Each test opens its own; what a test leaves is removed at the end.
 */
#ifndef STORE_FIXTURE_H
#define STORE_FIXTURE_H

#include "storage-server/store.h"
#include "tests/common/scratch.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
	char top[128], dir[192];
	struct rf_reactor *reactor;
	struct rf_workers *workers;
	struct store *store;
	uint64_t reserve_bytes;
	unsigned int object_cache;
};

static const struct cred root_cred = { .is_super = true };

static inline int fixture_try_open(struct fixture *f)
{
	struct store_config config = {
		.dir = f->dir,
		.reserve_bytes = f->reserve_bytes,
		.object_cache = f->object_cache ? f->object_cache : 64,
		.reactor = f->reactor,
		.workers = f->workers,
	};

	return store_open(&config, &f->store);
}

static inline void fixture_open(struct fixture *f)
{
	cr_assert_eq(fixture_try_open(f), 0);
}

static inline void fixture_init(struct fixture *f)
{
	const char *tmp = getenv("TMPDIR");

	*f = (struct fixture){ 0 };
	snprintf(f->top, sizeof(f->top), "%s/rdmafs-store-XXXXXX",
		 tmp ? tmp : "/var/tmp");
	cr_assert_not_null(mkdtemp(f->top));
	snprintf(f->dir, sizeof(f->dir), "%s/store", f->top);
	cr_assert_eq(rf_reactor_create(&f->reactor), 0);
	cr_assert_eq(rf_workers_create("test", 2, &f->workers), 0);
}

static inline void fixture_reopen(struct fixture *f)
{
	store_close(f->store);
	fixture_open(f);
}

static inline void fixture_fini(struct fixture *f)
{
	if (f->store)
		store_close(f->store);
	rf_workers_destroy(f->workers);
	rf_reactor_destroy(f->reactor);
	scratch_remove(f->top);
}

static inline rf_name_t name_of(const char *text)
{
	return (rf_name_t){ text, (uint16_t)strlen(text) };
}

static inline int end_txn_with(struct txn *txn, int err)
{
	if (err) {
		txn_abort(txn);
		return err;
	}
	return txn_commit(txn);
}

/* One operation, one transaction. */

static inline int make_as(struct store *store, const struct cred *cred,
			  uint64_t dir, const char *name, uint32_t mode,
			  rf_attr_t *out)
{
	struct txn *txn = txn_begin(store);
	struct make_args args = { .dir = dir, .name = name_of(name),
				  .mode = mode };

	return end_txn_with(txn, txn_make(txn, cred, &args, out));
}

static inline int make(struct store *store, uint64_t dir, const char *name,
		       uint32_t mode, uint64_t *out)
{
	rf_attr_t attr = { 0 };
	int err = make_as(store, &root_cred, dir, name, mode, &attr);

	if (out)
		*out = attr.inode;
	return err;
}

static inline int lookup_as(struct store *store, const struct cred *cred,
			    uint64_t dir, const char *text, rf_attr_t *out)
{
	struct txn *txn = txn_begin(store);
	rf_name_t name = name_of(text);

	return end_txn_with(txn, txn_lookup(txn, cred, dir, &name, out));
}

static inline int lookup(struct store *store, uint64_t dir, const char *name,
			 rf_attr_t *out)
{
	return lookup_as(store, &root_cred, dir, name, out);
}

static inline int getattr(struct store *store, uint64_t inode, rf_attr_t *out)
{
	struct txn *txn = txn_begin(store);

	return end_txn_with(txn, txn_getattr(txn, inode, out));
}

static inline int link_to(struct store *store, uint64_t inode, uint64_t dir,
			  const char *text)
{
	struct txn *txn = txn_begin(store);
	rf_name_t name = name_of(text);
	rf_attr_t attr;

	return end_txn_with(txn, txn_link(txn, &root_cred, inode, dir, &name,
					  &attr));
}

static inline int unlink_as(struct store *store, const struct cred *cred,
			    uint64_t dir, const char *text)
{
	struct txn *txn = txn_begin(store);
	rf_name_t name = name_of(text);

	return end_txn_with(txn, txn_unlink(txn, cred, dir, &name, NULL));
}

static inline int remove_dir(struct store *store, uint64_t dir,
			     const char *text)
{
	struct txn *txn = txn_begin(store);
	rf_name_t name = name_of(text);

	return end_txn_with(txn, txn_rmdir(txn, &root_cred, dir, &name));
}

static inline int rename_as(struct store *store, const struct cred *cred,
			    uint64_t dir, const char *from, uint64_t new_dir,
			    const char *to, unsigned int flags)
{
	struct txn *txn = txn_begin(store);
	rf_name_t old = name_of(from), new = name_of(to);

	return end_txn_with(txn, txn_rename(txn, cred, dir, &old, new_dir, &new,
					    flags));
}

static inline int setattr_as(struct store *store, const struct cred *cred,
			     uint64_t inode,
			     const struct rf_setattr_args *args, rf_attr_t *out)
{
	struct txn *txn = txn_begin(store);
	uint64_t before;

	return end_txn_with(txn, txn_setattr(txn, cred, inode, args, false,
					     &before, out));
}

/* As the server does it: data, then the batch. */
static inline int write_at(struct store *store, uint64_t inode,
			   const void *data, size_t size, uint64_t offset)
{
	struct object *object;
	struct txn *txn;
	rf_attr_t attr;
	uint64_t before;
	int err = object_get(store, inode, &object);

	if (err)
		return err;
	err = getattr(store, inode, &attr);
	if (!err && offset > attr.size)
		err = object_prepare_growth(object, attr.size, offset);
	if (!err)
		err = object_write(object, data, size, offset);
	if (!err) {
		txn = txn_begin(store);
		err = end_txn_with(txn, txn_wrote(txn, inode, offset, size,
						  NULL, &before, &attr));
	}
	object_put(object);
	return err;
}

/* Zero-filled up to the inode's size, as a reader gets it. */
static inline ssize_t read_at(struct store *store, uint64_t inode, void *out,
			      size_t size, uint64_t offset)
{
	struct object *object;
	rf_attr_t attr;
	ssize_t got;
	int err = getattr(store, inode, &attr);

	if (err)
		return err;
	if (offset >= attr.size)
		return 0;
	size = (size_t)rf_min_u64(size, attr.size - offset);
	err = object_get(store, inode, &object);
	if (err)
		return err;
	got = object_read(object, out, size, offset);
	object_put(object);
	if (got < 0)
		return got;
	memset((char *)out + got, 0, size - (size_t)got);
	return (ssize_t)size;
}

/* How many data files there are. */
static inline unsigned int count_data_files(const struct fixture *f)
{
	unsigned int count = 0;
	char command[256];
	FILE *pipe;

	snprintf(command, sizeof(command), "find %s/data -type f | wc -l",
		 f->dir);
	pipe = popen(command, "r");
	cr_assert_not_null(pipe);
	cr_assert_eq(fscanf(pipe, "%u", &count), 1);
	pclose(pipe);
	return count;
}

/* Turn until the store has removed what it has to. */
static inline void settle(struct fixture *f, unsigned int data_files)
{
	for (;;) {
		cr_assert_eq(store_flush(f->store), 0);
		if (count_data_files(f) == data_files)
			return;
		rf_reactor_turn(f->reactor, 10);
	}
}

#endif /* STORE_FIXTURE_H */

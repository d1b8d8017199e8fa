/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inodes.c - the inodes that the kernel, or a request of ours, knows
 *
 * Operation.  A table of items by the kernel's number, and chains through the
 * same items, by index, for the server's inode number.  The chains' heads are
 * doubled when there are more inodes than heads; if memory is short for that
 * the chains just grow longer.
 */
#include "inodes.h"

#include "keep.h"

#include <errno.h>
#include <stdlib.h>

enum { BUCKETS_AT_FIRST = 1024 };

static uint32_t *bucket_of(const struct inodes *inodes, uint64_t inode)
{
	uint64_t mixed = inode * UINT64_C(0x9e3779b97f4a7c15);

	return &inodes->buckets[(mixed >> 32) & (inodes->bucket_count - 1)];
}

static void hash(struct inodes *inodes, struct inode *inode)
{
	uint32_t *bucket = bucket_of(inodes, inode->handle.inode);

	inode->hash_next = *bucket;
	*bucket = inode->item.index;
}

static void unhash(struct inodes *inodes, struct inode *inode)
{
	uint32_t *link = bucket_of(inodes, inode->handle.inode);
	struct inode *at;

	while (*link != inode->item.index) {
		at = table_at(&inodes->table, *link);
		RF_ASSERT(at);
		link = &at->hash_next;
	}
	*link = inode->hash_next;
}

static void double_buckets(struct inodes *inodes)
{
	uint32_t count = inodes->bucket_count * 2;
	uint32_t *buckets = calloc(count, sizeof(*buckets));

	if (!buckets)
		return;
	free(inodes->buckets);
	inodes->buckets = buckets;
	inodes->bucket_count = count;
	for (uint32_t i = 1; i <= inodes->table.used; i++) {
		struct inode *inode = table_at(&inodes->table, i);

		if (inode)
			hash(inodes, inode);
	}
}

static struct inode *find_handle(struct inodes *inodes,
				 const rf_handle_t *handle)
{
	uint32_t index = *bucket_of(inodes, handle->inode);

	while (index) {
		struct inode *inode = table_at(&inodes->table, index);

		RF_ASSERT(inode);
		if (inode->handle.inode == handle->inode &&
		    inode->handle.tree == handle->tree)
			return inode;
		index = inode->hash_next;
	}
	return NULL;
}

/* ---- for a successor ------------------------------------------------------- */

static void keep(struct inodes *inodes, const struct inode *inode)
{
	struct keep_inode *kept;

	if (!inodes->kept)
		return;
	kept = &inodes->kept->v[inode->item.index];
	kept->inode = inode->handle.inode;
	kept->tag = inode->handle.tag;
	kept->tree = inode->handle.tree;
	kept->mode = inode->attr.mode;
	kept->generation = inode->item.generation;
	kept->lookups = inode->lookups;
	rf_store_kept(&kept->is_taken, 1);
	keep_use(&inodes->kept->used, inode->item.index);
}

static void keep_lookups(struct inodes *inodes, const struct inode *inode)
{
	if (inodes->kept)
		rf_store_kept(&inodes->kept->v[inode->item.index].lookups,
			      inode->lookups);
}

static void unkeep(struct inodes *inodes, const struct inode *inode)
{
	if (inodes->kept)
		rf_store_kept(&inodes->kept->v[inode->item.index].is_taken, 0);
}

static void restore(struct inodes *inodes, struct inode *inode,
		    const struct keep_inode *kept)
{
	inode->handle = (rf_handle_t){ .inode = kept->inode,
				       .tree = kept->tree,
				       .tag = kept->tag };
	inode->attr = (rf_attr_t){ .inode = kept->inode, .mode = kept->mode,
				   .nlink = 1, .tree = kept->tree };
	change_init(&inode->change, 0);
	inode->change.has_pages = inode->change.is_mixed = true;
	inode->lookups = kept->lookups;
	rf_list_init(&inode->locks);
	hash(inodes, inode);
}

int inodes_restore(struct inodes *inodes)
{
	const struct keep_inodes *all = inodes->kept;

	inodes->root->lookups = all->v[1].lookups;
	for (uint32_t i = inodes->table.used + 1; i <= all->used; i++) {
		const struct keep_inode *kept = &all->v[i];
		struct inode *inode;

		if (inodes->table.taken >= inodes->bucket_count)
			double_buckets(inodes);
		inode = table_restore(&inodes->table, kept->generation,
				      kept->is_taken);
		if (!inode)
			return -ENOMEM;
		if (kept->is_taken)
			restore(inodes, inode, kept);
	}
	return 0;
}

/* ---- life ------------------------------------------------------------------ */

static struct inode *make(struct inodes *inodes, const rf_handle_t *handle,
			  const rf_attr_t *attr)
{
	struct inode *inode;

	if (inodes->table.taken >= inodes->bucket_count)
		double_buckets(inodes);
	inode = table_take(&inodes->table);
	if (!inode)
		return NULL;
	inode->handle = *handle;
	inode->attr = *attr;
	change_init(&inode->change, attr->change);
	rf_list_init(&inode->locks);
	hash(inodes, inode);
	keep(inodes, inode);
	return inode;
}

int inodes_init(struct inodes *inodes, const rf_handle_t *root,
		const rf_attr_t *attr)
{
	int err = table_init(&inodes->table, sizeof(struct inode),
			     inodes->max ? inodes->max : INODES_MAX);

	if (err)
		return err;
	inodes->bucket_count = BUCKETS_AT_FIRST;
	inodes->buckets = calloc(BUCKETS_AT_FIRST, sizeof(uint32_t));
	if (!inodes->buckets)
		goto no_memory;
	inodes->root = inodes_get(inodes, root, attr);
	if (!inodes->root)
		goto no_memory;
	RF_ASSERT(inode_nodeid(inodes->root) == 1);
	return 0;
no_memory:
	inodes_fini(inodes);
	return -ENOMEM;
}

void inodes_fini(struct inodes *inodes)
{
	free(inodes->buckets);
	inodes->buckets = NULL;
	table_fini(&inodes->table);
}

struct inode *inodes_find(struct inodes *inodes, uint64_t nodeid)
{
	struct inode *inode = table_find(&inodes->table, nodeid);

	if (inode)
		inode->refs++;
	return inode;
}

void inode_see(struct inode *inode, const rf_attr_t *attr)
{
	change_seen(&inode->change, attr->change);
	if (attr->change >= inode->attr.change)
		inode->attr = *attr;
}

struct inode *inodes_get(struct inodes *inodes, const rf_handle_t *handle,
			 const rf_attr_t *attr)
{
	struct inode *inode = find_handle(inodes, handle);

	if (inode)
		inode_see(inode, attr);
	else
		inode = make(inodes, handle, attr);
	if (inode)
		inode->refs++;
	return inode;
}

void inodes_doubt(struct inodes *inodes)
{
	for (uint32_t i = 1; i <= inodes->table.used; i++) {
		struct inode *inode = table_at(&inodes->table, i);

		if (!inode)
			continue;
		inode->attr.change = 0;
		change_doubt(&inode->change);
	}
}

static void drop_if_unused(struct inodes *inodes, struct inode *inode)
{
	if (inode->refs || inode->lookups)
		return;
	RF_ASSERT(!inode->invalidation && rf_list_is_empty(&inode->locks));
	unkeep(inodes, inode);
	unhash(inodes, inode);
	table_give(&inodes->table, inode);
}

void inodes_put(struct inodes *inodes, struct inode *inode)
{
	RF_ASSERT(inode->refs > 0);
	inode->refs--;
	drop_if_unused(inodes, inode);
}

void inodes_drop_unused(struct inodes *inodes)
{
	for (uint32_t i = 1; i <= inodes->table.used; i++) {
		struct inode *inode = table_at(&inodes->table, i);

		if (inode)
			drop_if_unused(inodes, inode);
	}
}

void inode_look(struct inodes *inodes, struct inode *inode)
{
	inode->lookups++;
	keep_lookups(inodes, inode);
}

void inode_unlook(struct inodes *inodes, struct inode *inode)
{
	inode->lookups--;
	keep_lookups(inodes, inode);
}

void inodes_forget(struct inodes *inodes, uint64_t nodeid, uint64_t count)
{
	struct inode *inode = table_find(&inodes->table, nodeid);

	if (!inode)
		return;
	/* The root is given without a lookup, so its count may not match. */
	inode->lookups -= rf_min_u64(count, inode->lookups);
	keep_lookups(inodes, inode);
	drop_if_unused(inodes, inode);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_inodes.c - the tables of inodes and open files
 */
#include "fuse-client/files.h"
#include "fuse-client/inodes.h"

#include <criterion/criterion.h>

static struct inodes inodes;

static rf_handle_t handle_of(uint64_t number)
{
	return (rf_handle_t){ .inode = number, .tree = 1, .tag = ~number };
}

static rf_attr_t attr_of(uint64_t number, uint64_t value)
{
	return (rf_attr_t){ .inode = number, .change = value, .mode = 0100644,
			    .size = value };
}

static struct inode *get(uint64_t number, uint64_t value)
{
	rf_handle_t handle = handle_of(number);
	rf_attr_t attr = attr_of(number, value);

	return inodes_get(&inodes, &handle, &attr);
}

static void init(void)
{
	rf_handle_t handle = handle_of(1);
	rf_attr_t attr = attr_of(1, 1);

	cr_assert_eq(inodes_init(&inodes, &handle, &attr), 0);
}

static void fini(void)
{
	inodes_fini(&inodes);
}

TestSuite(client_inodes, .init = init, .fini = fini);

Test(client_inodes, the_root_is_number_one)
{
	struct inode *root = inodes_find(&inodes, 1);

	cr_assert_not_null(root);
	cr_assert_eq(root->handle.inode, 1);
	inodes_put(&inodes, root);
	inodes_forget(&inodes, 1, 5);
	cr_assert_eq(inodes_find(&inodes, 1), root, "it stays for good");
}

Test(client_inodes, one_inode_of_the_server_has_one_number)
{
	struct inode *a = get(7, 1), *b = get(7, 2);

	cr_assert_eq(a, b);
	cr_assert_eq(a->attr.change, 2);
	cr_assert_eq(a->refs, 2);
}

Test(client_inodes, older_attributes_do_not_replace_newer)
{
	struct inode *inode = get(7, 5);

	get(7, 4);
	cr_assert_eq(inode->attr.change, 5);
	cr_assert_eq(inode->attr.size, 5);
}

Test(client_inodes, in_doubt_also_lower_attributes_are_believed)
{
	struct inode *a = get(7, 5);

	inodes_put(&inodes, get(7, 4));
	cr_assert_eq(a->attr.size, 5);
	inodes_doubt(&inodes);
	cr_assert_eq(a->attr.size, 5, "what is known stays known");
	inodes_put(&inodes, get(7, 3));
	cr_assert_eq(a->attr.size, 3);
	inodes_put(&inodes, get(7, 2));
	cr_assert_eq(a->attr.size, 3);
	inodes_put(&inodes, a);
}

Test(client_inodes, an_inode_lives_while_the_kernel_or_we_need_it)
{
	struct inode *inode = get(7, 1);
	uint64_t nodeid = inode_nodeid(inode);

	inode->lookups = 3;
	inodes_put(&inodes, inode);
	inodes_forget(&inodes, nodeid, 2);
	inode = inodes_find(&inodes, nodeid);
	cr_assert_not_null(inode);
	inodes_forget(&inodes, nodeid, 1);
	cr_assert_not_null(inodes_find(&inodes, nodeid), "a request has it");
	inodes_put(&inodes, inode);
	inodes_put(&inodes, inode);
	cr_assert_null(inodes_find(&inodes, nodeid));
}

Test(client_inodes, a_number_is_not_used_again)
{
	struct inode *inode = get(7, 1);
	uint64_t old = inode_nodeid(inode);

	inodes_put(&inodes, inode);
	inode = get(8, 1);
	cr_assert_eq(inode->item.index, (uint32_t)old, "the place is");
	cr_assert_neq(inode_nodeid(inode), old);
	cr_assert_null(inodes_find(&inodes, old));
}

Test(client_inodes, numbers_that_were_never_given_are_not_found)
{
	cr_assert_null(inodes_find(&inodes, 0));
	cr_assert_null(inodes_find(&inodes, 2));
	cr_assert_null(inodes_find(&inodes, UINT64_MAX));
	cr_assert_null(inodes_find(&inodes, UINT64_C(1) << 32 | 1));
}

Test(client_inodes, a_hundred_thousand_are_found_and_forgotten)
{
	enum { COUNT = 100000 };
	static uint64_t nodeids[COUNT];

	for (uint64_t i = 0; i < COUNT; i++) {
		struct inode *inode = get(1000 + i, 1);

		nodeids[i] = inode_nodeid(inode);
		inode->lookups++;
		inodes_put(&inodes, inode);
	}
	cr_assert_eq(inodes.table.taken, COUNT + 1);
	for (uint64_t i = 0; i < COUNT; i++) {
		struct inode *inode = get(1000 + i, 1);

		cr_assert_eq(inode_nodeid(inode), nodeids[i]);
		inodes_put(&inodes, inode);
		inodes_forget(&inodes, nodeids[i], 1);
	}
	cr_assert_eq(inodes.table.taken, 1);
}

/* ---- memory ----------------------------------------------------------------- */

static uint64_t know(uint64_t number)
{
	struct inode *inode = get(number, 1);
	uint64_t nodeid = inode_nodeid(inode);

	inode->lookups++;
	inodes_put(&inodes, inode);
	return nodeid;
}

Test(client_inodes, memory_of_forgotten_inodes_is_given_back)
{
	enum { COUNT = 20 * TABLE_CHUNK, ROUNDS = 10 };
	static uint64_t nodeids[ROUNDS][COUNT];

	for (int round = 0; round < ROUNDS; round++) {
		for (uint64_t i = 0; i < COUNT; i++)
			nodeids[round][i] = know(1000 + i);
		cr_assert_eq(inodes.table.taken, COUNT + 1);
		cr_assert_leq(inodes.table.room, COUNT + 2 * TABLE_CHUNK);
		/* Not in the order of their places. */
		for (uint64_t i = 0; i < COUNT; i++)
			inodes_forget(&inodes,
				      nodeids[round][i * 7919 % COUNT], 1);
		cr_assert_eq(inodes.table.taken, 1);
		/* The root's, the last, and a spare one. */
		cr_assert_leq(inodes.table.room, 3 * TABLE_CHUNK);
	}
	for (int round = 0; round < ROUNDS; round++)
		for (uint64_t i = 0; i < COUNT; i++)
			cr_assert_null(inodes_find(&inodes, nodeids[round][i]));
	for (uint64_t i = 0; i < COUNT; i++) {
		uint64_t nodeid = know(1000 + i);

		for (int round = 0; round < ROUNDS; round++)
			cr_assert_neq(nodeid, nodeids[round][i]);
	}
	cr_assert_leq(inodes.table.used, COUNT + 1, "places are used again");
}

Test(client_inodes, one_that_comes_and_goes_makes_no_memory_each_time)
{
	uint64_t nodeid;
	void *items;

	for (uint64_t i = 0; i < TABLE_CHUNK; i++)
		know(1000 + i);
	nodeid = know(1);
	items = inodes.table.chunks[1].items;
	for (int i = 0; i < 10; i++) {
		inodes_forget(&inodes, nodeid, 1);
		nodeid = know(1);
		cr_assert_eq(inodes.table.chunks[1].items, items);
	}
}

Test(client_inodes, what_a_successor_restores_takes_no_more_memory)
{
	enum { COUNT = 10 * TABLE_CHUNK };
	struct table table, restored;
	struct table_item *items[COUNT];

	cr_assert_eq(table_init(&table, sizeof(struct table_item), INODES_MAX),
		     0);
	for (uint32_t i = 0; i < COUNT; i++)
		items[i] = table_take(&table);
	cr_assert_eq(table_init(&restored, sizeof(struct table_item),
				INODES_MAX), 0);
	for (uint32_t i = 0; i < COUNT; i++)
		cr_assert_not_null(table_restore(&restored, 7, i == 0));
	cr_assert_eq(restored.taken, 1);
	cr_assert_leq(restored.room, 3 * TABLE_CHUNK);
	for (uint32_t i = 1; i < COUNT; i++) {
		struct table_item *item = table_take(&restored);

		cr_assert_not_null(item);
		cr_assert_eq(item->generation, 8);
		cr_assert_eq(table_at(&restored, item->index), item);
	}
	cr_assert_eq(restored.used, COUNT);
	for (uint32_t i = 0; i < COUNT; i++)
		table_give(&table, items[i]);
	table_fini(&table);
	table_fini(&restored);
}

Test(client_files, an_open_holds_its_inode)
{
	struct files files;
	struct inode *inode;
	struct file *file;
	uint64_t fh;

	init();
	cr_assert_eq(files_init(&files), 0);
	inode = get(7, 1);
	file = files_add(&files, inode, 42);
	fh = file_fh(file);
	inodes_put(&inodes, inode);
	cr_assert_eq(files_find(&files, fh)->open, 42);
	cr_assert_eq(inode->refs, 1);
	files_remove(&files, &inodes, file);
	cr_assert_null(files_find(&files, fh));
	cr_assert_eq(inodes.table.taken, 1);
	files_fini(&files);
	fini();
}

Test(client_files, beyond_the_limit_there_is_none)
{
	struct table table;
	struct table_item *last = NULL;

	cr_assert_eq(table_init(&table, sizeof(struct table_item), 3), 0);
	for (int i = 0; i < 3; i++)
		cr_assert_not_null(last = table_take(&table));
	cr_assert_null(table_take(&table));
	table_give(&table, last);
	cr_assert_not_null(table_take(&table));
	table_fini(&table);
}

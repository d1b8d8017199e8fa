/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_rig.h - a model of a volume in plain arrays, random operations on it
 *
 * An operation is chosen from a seed and the model, carried out on the model,
 * which says what must come of it, and on a store, if there is one.  The same
 * seed and model give the same operations, so that another process can tell
 * what a dead one must have done.
 */
#ifndef STORE_RIG_H
#define STORE_RIG_H

#include "store_fixture.h"

enum {
	NODES = 48,		/* 0 is the root */
	NAMES = 8,		/* in each directory: "a" to "h" */
	DATA_MAX = 3000,
	OPENS_AT_ONCE = 6,
	NO_NODE = -1,
};

/* Outcomes that a long run must have met. */
enum rig_outcome {
	RIG_MADE,
	RIG_LINKED,
	RIG_UNLINKED,
	RIG_EMPTIED_DIR_REMOVED,	/* after it had entries */
	RIG_FULL_DIR_KEPT,
	RIG_DIR_MOVED,
	RIG_DIR_NOT_BELOW_ITSELF,
	RIG_FILE_REPLACED,
	RIG_DIR_REPLACED,
	RIG_EXCHANGED,
	RIG_ORPHANED,
	RIG_CUT,
	RIG_GREW,
	RIG_OUTCOMES,
};

struct node {
	bool is_used, is_dir, is_removed, had_entries;
	unsigned int links;	/* names; a directory has one */
	unsigned int opens;
	int parent;		/* of a directory */
	int names[NAMES];	/* of a directory: node or NO_NODE */
	uint32_t mode;
	uint8_t xattr;		/* value of user.x, 0: none */
	uint64_t inode;		/* in the store; 0: not known */
	unsigned int size;
	uint8_t data[DATA_MAX];
};

struct model {
	struct node nodes[NODES];
};

struct rig {
	struct model model;
	uint64_t random;
	struct store *store;	/* NULL: only the model */
	unsigned int seen[RIG_OUTCOMES];
};

static inline uint64_t rig_random(struct rig *rig, uint64_t below)
{
	/* xorshift64 */
	rig->random ^= rig->random << 13;
	rig->random ^= rig->random >> 7;
	rig->random ^= rig->random << 17;
	return (rig->random >> 11) % below;
}

static inline void rig_init(struct rig *rig, uint64_t seed)
{
	struct node *top = &rig->model.nodes[0];

	memset(rig, 0, sizeof(*rig));
	rig->random = seed * 2654435761u + 88172645463325252u;
	*top = (struct node){ .is_used = true, .is_dir = true, .links = 1,
			      .mode = 0755, .inode = STORE_ROOT_INODE };
	for (int i = 0; i < NAMES; i++)
		top->names[i] = NO_NODE;
}

static inline uint64_t rig_seed(void)
{
	const char *text = getenv("STORE_SEED");
	uint64_t seed;

	rf_random(&seed, sizeof(seed));
	if (text)
		seed = strtoull(text, NULL, 0);
	fprintf(stderr, "STORE_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

static inline rf_name_t rig_name(int name)
{
	static const char letters[] = "abcdefgh";

	return (rf_name_t){ letters + name, 1 };
}

/* ---- the model's rules --------------------------------------------------- */

static inline struct node *node_at(struct rig *rig, int index)
{
	return &rig->model.nodes[index];
}

static inline bool model_is_empty(const struct node *dir)
{
	for (int i = 0; i < NAMES; i++)
		if (dir->names[i] != NO_NODE)
			return false;
	return true;
}

static inline unsigned int model_nlink(struct rig *rig, const struct node *node)
{
	unsigned int nlink = 2;

	if (!node->is_dir)
		return node->links;
	if (node->is_removed)
		return 0;
	for (int i = 0; i < NAMES; i++)
		if (node->names[i] != NO_NODE &&
		    node_at(rig, node->names[i])->is_dir)
			nlink++;
	return nlink;
}

static inline bool model_is_above(struct rig *rig, int node, int dir)
{
	while (dir != node && dir != 0)
		dir = node_at(rig, dir)->parent;
	return dir == node;
}

static inline void rig_saw(struct rig *rig, enum rig_outcome outcome, bool is_so)
{
	rig->seen[outcome] += is_so;
}

/* A node that nothing holds any more is gone. */
static inline void model_drop(struct node *node)
{
	if (node->links == 0 && node->opens == 0)
		node->is_used = false;
}

static inline int model_free_node(struct rig *rig)
{
	for (int i = 1; i < NODES; i++)
		if (!node_at(rig, i)->is_used)
			return i;
	return NO_NODE;
}

static inline int model_make(struct rig *rig, int dir, int name, bool is_dir,
			     uint32_t mode, int *made)
{
	struct node *parent = node_at(rig, dir), *node;

	if (parent->is_removed)
		return -ENOENT;
	if (parent->names[name] != NO_NODE)
		return -EEXIST;
	*made = model_free_node(rig);
	node = node_at(rig, *made);
	memset(node, 0, sizeof(*node));
	node->is_used = true;
	node->is_dir = is_dir;
	node->links = 1;
	node->parent = dir;
	node->mode = mode;
	for (int i = 0; i < NAMES; i++)
		node->names[i] = NO_NODE;
	parent->names[name] = *made;
	parent->had_entries = true;
	rig_saw(rig, RIG_MADE, true);
	return 0;
}

static inline int model_link(struct rig *rig, int node, int dir, int name)
{
	struct node *parent = node_at(rig, dir);

	if (parent->is_removed)
		return -ENOENT;
	if (parent->names[name] != NO_NODE)
		return -EEXIST;
	if (node_at(rig, node)->is_dir)
		return -EPERM;
	if (node_at(rig, node)->links == 0)
		return -ENOENT;
	parent->names[name] = node;
	node_at(rig, node)->links++;
	parent->had_entries = true;
	rig_saw(rig, RIG_LINKED, true);
	return 0;
}

static inline void model_take_name(struct rig *rig, int dir, int name)
{
	struct node *node = node_at(rig, node_at(rig, dir)->names[name]);

	node_at(rig, dir)->names[name] = NO_NODE;
	node->links--;
	if (node->is_dir)
		node->is_removed = true;
	rig_saw(rig, RIG_ORPHANED, node->links == 0 && node->opens);
	model_drop(node);
}

static inline int model_remove(struct rig *rig, int dir, int name,
			       bool wants_dir)
{
	struct node *parent = node_at(rig, dir), *node;

	if (parent->is_removed || parent->names[name] == NO_NODE)
		return -ENOENT;
	node = node_at(rig, parent->names[name]);
	if (wants_dir && !node->is_dir)
		return -ENOTDIR;
	if (!wants_dir && node->is_dir)
		return -EISDIR;
	rig_saw(rig, RIG_FULL_DIR_KEPT, wants_dir && !model_is_empty(node));
	if (wants_dir && !model_is_empty(node))
		return -ENOTEMPTY;
	rig_saw(rig, wants_dir ? RIG_EMPTIED_DIR_REMOVED : RIG_UNLINKED,
		!wants_dir || node->had_entries);
	model_take_name(rig, dir, name);
	return 0;
}

static inline int model_check_rename(struct rig *rig, int dir, int source,
				     int new_dir, int target,
				     unsigned int flags)
{
	bool swaps = flags & RF_RENAME_EXCHANGE;
	const struct node *from = node_at(rig, source);
	const struct node *to = target == NO_NODE ? NULL : node_at(rig, target);

	if (to && (flags & RF_RENAME_NOREPLACE))
		return -EEXIST;
	if (!to && swaps)
		return -ENOENT;
	if (from->is_dir && model_is_above(rig, source, new_dir)) {
		rig_saw(rig, RIG_DIR_NOT_BELOW_ITSELF, true);
		return -EINVAL;
	}
	if (to && to->is_dir && model_is_above(rig, target, dir))
		return swaps ? -EINVAL : -ENOTEMPTY;
	if (!to || swaps)
		return 0;
	if (from->is_dir && !to->is_dir)
		return -ENOTDIR;
	if (!from->is_dir && to->is_dir)
		return -EISDIR;
	return to->is_dir && !model_is_empty(to) ? -ENOTEMPTY : 0;
}

static inline int model_rename(struct rig *rig, int dir, int name, int new_dir,
			       int new_name, unsigned int flags)
{
	struct node *from = node_at(rig, dir), *to = node_at(rig, new_dir);
	int source, target, err;

	if (from->is_removed || to->is_removed)
		return -ENOENT;
	source = from->names[name];
	target = to->names[new_name];
	if (source == NO_NODE)
		return -ENOENT;
	if (source == target)
		return flags & RF_RENAME_NOREPLACE ? -EEXIST : 0;
	err = model_check_rename(rig, dir, source, new_dir, target, flags);
	if (err)
		return err;
	rig_saw(rig, RIG_DIR_MOVED,
		dir != new_dir && node_at(rig, source)->is_dir);
	to->had_entries = from->had_entries = true;
	if (flags & RF_RENAME_EXCHANGE) {
		rig_saw(rig, RIG_EXCHANGED, true);
		from->names[name] = target;
		node_at(rig, target)->parent = dir;
	} else {
		if (target != NO_NODE) {
			rig_saw(rig, node_at(rig, target)->is_dir ?
				RIG_DIR_REPLACED : RIG_FILE_REPLACED, true);
			model_take_name(rig, new_dir, new_name);
		}
		from->names[name] = NO_NODE;
	}
	to->names[new_name] = source;
	node_at(rig, source)->parent = new_dir;
	return 0;
}

/* ---- choosing ------------------------------------------------------------ */

static inline int rig_pick(struct rig *rig, bool wants_dir)
{
	int start = (int)rig_random(rig, NODES);

	for (int i = 0; i < NODES; i++) {
		int index = (start + i) % NODES;

		if (node_at(rig, index)->is_used &&
		    node_at(rig, index)->is_dir == wants_dir)
			return index;
	}
	return NO_NODE;
}

/* Mostly a name that is there. */
static inline int rig_pick_name(struct rig *rig, int dir)
{
	int start = (int)rig_random(rig, NAMES);

	if (rig_random(rig, 4) == 0)
		return start;
	for (int i = 0; i < NAMES; i++) {
		int name = (start + i) % NAMES;

		if (node_at(rig, dir)->names[name] != NO_NODE)
			return name;
	}
	return start;
}

/* ---- operations: on the model, then on the store ------------------------- */

static inline void rig_make(struct rig *rig, struct txn *txn, bool is_dir)
{
	int dir = rig_pick(rig, true), made = NO_NODE;
	int name = (int)rig_random(rig, NAMES), err;
	uint32_t mode = (uint32_t)rig_random(rig, 01000);
	struct make_args args = {
		.dir = node_at(rig, dir)->inode,
		.name = rig_name(name),
		.mode = (is_dir ? S_IFDIR : S_IFREG) | mode,
	};
	rf_attr_t attr;

	if (model_free_node(rig) == NO_NODE)
		return;
	err = model_make(rig, dir, name, is_dir, mode, &made);
	if (!rig->store)
		return;
	cr_assert_eq(txn_make(txn, &root_cred, &args, &attr), err);
	if (!err)
		node_at(rig, made)->inode = attr.inode;
}

static inline void rig_link(struct rig *rig, struct txn *txn)
{
	int dir = rig_pick(rig, true), name = (int)rig_random(rig, NAMES);
	int node = rig_pick(rig, rig_random(rig, 10) == 0), err;
	rf_name_t text = rig_name(name);
	rf_attr_t attr;

	if (node == NO_NODE)
		return;
	err = model_link(rig, node, dir, name);
	if (rig->store)
		cr_assert_eq(txn_link(txn, &root_cred,
				      node_at(rig, node)->inode,
				      node_at(rig, dir)->inode, &text, &attr),
			     err);
}

static inline void rig_remove(struct rig *rig, struct txn *txn, bool is_dir)
{
	int dir = rig_pick(rig, true), name = rig_pick_name(rig, dir);
	uint64_t inode = node_at(rig, dir)->inode;
	int err = model_remove(rig, dir, name, is_dir), got;
	rf_name_t text = rig_name(name);

	if (!rig->store)
		return;
	got = is_dir ? txn_rmdir(txn, &root_cred, inode, &text) :
		       txn_unlink(txn, &root_cred, inode, &text, NULL);
	cr_assert_eq(got, err);
}

static inline void rig_rename(struct rig *rig, struct txn *txn)
{
	static const unsigned int choices[] = { 0, 0, 0, RF_RENAME_NOREPLACE,
						RF_RENAME_EXCHANGE };
	int dir = rig_pick(rig, true), new_dir = rig_pick(rig, true);
	int name = rig_pick_name(rig, dir);
	int new_name = (int)rig_random(rig, NAMES);
	unsigned int flags = choices[rig_random(rig, RF_ARRAY_SIZE(choices))];
	uint64_t inode = node_at(rig, dir)->inode;
	uint64_t new_inode = node_at(rig, new_dir)->inode;
	int err = model_rename(rig, dir, name, new_dir, new_name, flags);
	rf_name_t text = rig_name(name), new_text = rig_name(new_name);

	if (rig->store)
		cr_assert_eq(txn_rename(txn, &root_cred, inode, &text,
					new_inode, &new_text, flags), err);
}

static inline void rig_chmod(struct rig *rig, struct txn *txn)
{
	int node = rig_pick(rig, rig_random(rig, 2));
	struct rf_setattr_args args = {
		.valid = RF_SET_MODE,
		.mode = (uint32_t)rig_random(rig, 01000),
	};
	uint64_t before;
	rf_attr_t attr;

	if (node == NO_NODE)
		return;
	node_at(rig, node)->mode = args.mode;
	if (rig->store)
		cr_assert_eq(txn_setattr(txn, &root_cred,
					 node_at(rig, node)->inode, &args,
					 false, &before, &attr), 0);
}

static inline void rig_xattr(struct rig *rig, struct txn *txn)
{
	int node = rig_pick(rig, rig_random(rig, 2)), err, got;
	uint8_t value = (uint8_t)rig_random(rig, 4);
	rf_name_t name = name_of("user.x");
	struct node *at;

	if (node == NO_NODE)
		return;
	at = node_at(rig, node);
	err = !value && !at->xattr ? -ENODATA : 0;
	at->xattr = value;
	if (!rig->store)
		return;
	got = value ? txn_setxattr(txn, &root_cred, at->inode, &name, &value, 1,
				   0) :
		      txn_removexattr(txn, &root_cred, at->inode, &name,
				      false);
	cr_assert_eq(got, err);
}

/* One change of names or attributes. */
static inline void rig_change(struct rig *rig, struct txn *txn)
{
	switch (rig_random(rig, 16)) {
	case 0:
	case 1:
		rig_make(rig, txn, false);
		break;
	case 2:
	case 3:
		rig_make(rig, txn, true);
		break;
	case 4:
		rig_link(rig, txn);
		break;
	case 5:
	case 6:
	case 7:
		rig_remove(rig, txn, false);
		break;
	case 8:
	case 9:
	case 10:
		rig_remove(rig, txn, true);
		break;
	case 11:
	case 12:
	case 13:
		rig_rename(rig, txn);
		break;
	case 14:
		rig_chmod(rig, txn);
		break;
	default:
		rig_xattr(rig, txn);
		break;
	}
}

/* ---- data: each commits by itself ---------------------------------------- */

static inline void rig_append(struct rig *rig)
{
	int index = rig_pick(rig, false);
	unsigned int size, gap;
	uint8_t bytes[500];
	struct node *node;

	if (index == NO_NODE)
		return;
	node = node_at(rig, index);
	gap = rig_random(rig, 4) ? 0 : (unsigned int)rig_random(rig, 500);
	size = 1 + (unsigned int)rig_random(rig, sizeof(bytes));
	if (node->size + gap + size > DATA_MAX)
		return;
	memset(bytes, 1 + (int)rig_random(rig, 255), size);
	memset(node->data + node->size, 0, gap);
	memcpy(node->data + node->size + gap, bytes, size);
	if (rig->store)
		cr_assert_eq(write_at(rig->store, node->inode, bytes, size,
				      node->size + gap), 0);
	node->size += gap + size;
}

static inline void rig_truncate(struct rig *rig)
{
	struct rf_setattr_args args = { .valid = RF_SET_SIZE };
	int index = rig_pick(rig, false);
	unsigned int size = (unsigned int)rig_random(rig, DATA_MAX);
	struct object *object;
	struct node *node;
	rf_attr_t attr;

	if (index == NO_NODE)
		return;
	node = node_at(rig, index);
	if (rig->store) {
		args.size = size;
		cr_assert_eq(object_get(rig->store, node->inode, &object), 0);
		if (size > node->size)
			cr_assert_eq(object_prepare_growth(object, node->size,
							   size), 0);
		cr_assert_eq(setattr_as(rig->store, &root_cred, node->inode,
					&args, &attr), 0);
		cr_assert_eq(object_truncate(object, size), 0);
		object_put(object);
	}
	rig_saw(rig, size > node->size ? RIG_GREW : RIG_CUT, true);
	if (size > node->size)
		memset(node->data + node->size, 0, size - node->size);
	node->size = size;
}

static inline void rig_open(struct rig *rig)
{
	int index = rig_pick(rig, rig_random(rig, 4) == 0);
	unsigned int opens = 0;

	for (int i = 0; i < NODES; i++)
		if (node_at(rig, i)->is_used)
			opens += node_at(rig, i)->opens;
	if (index == NO_NODE || opens >= OPENS_AT_ONCE)
		return;
	node_at(rig, index)->opens++;
	if (rig->store)
		cr_assert_eq(store_open_inode(rig->store,
					      node_at(rig, index)->inode), 0);
}

static inline void rig_close(struct rig *rig)
{
	int start = (int)rig_random(rig, NODES);

	for (int i = 0; i < NODES; i++) {
		struct node *node = node_at(rig, (start + i) % NODES);

		if (!node->is_used || !node->opens)
			continue;
		if (rig->store)
			store_close_inode(rig->store, node->inode);
		node->opens--;
		model_drop(node);
		return;
	}
}

/* One operation, committed. */
static inline void rig_step(struct rig *rig)
{
	struct txn *txn;

	switch (rig_random(rig, 8)) {
	case 0:
		rig_append(rig);
		return;
	case 1:
		rig_truncate(rig);
		return;
	case 2:
		rig_open(rig);
		return;
	case 3:
		rig_close(rig);
		return;
	default:
		txn = rig->store ? txn_begin(rig->store) : NULL;
		rig_change(rig, txn);
		if (rig->store)
			cr_assert_eq(txn_commit(txn), 0);
	}
}

/* A restart: opens are gone, and so is what only they held. */
static inline void rig_restart(struct rig *rig)
{
	for (int i = 0; i < NODES; i++) {
		struct node *node = node_at(rig, i);

		node->opens = 0;
		if (node->is_used)
			model_drop(node);
	}
}

/* ---- comparing: a text that says what differs first, or NULL ------------- */

struct rig_listing {
	struct rig *rig;
	struct node *dir;
	unsigned int found;
	bool is_wrong;
};

static inline bool rig_entry(void *context, const struct rf_dirent *entry)
{
	struct rig_listing *list = context;
	int name = entry->name.bytes[0] - 'a';
	struct node *node;

	if (entry->name.bytes[0] == '.')
		return true;
	if (entry->name.size != 1 || name < 0 || name >= NAMES ||
	    list->dir->names[name] == NO_NODE) {
		list->is_wrong = true;
		return true;
	}
	node = node_at(list->rig, list->dir->names[name]);
	if (node->inode == 0)
		node->inode = entry->inode;
	if (node->inode != entry->inode ||
	    entry->type != (node->is_dir ? S_IFDIR : S_IFREG))
		list->is_wrong = true;
	list->found++;
	return true;
}

static inline const char *rig_compare_dir(struct rig *rig, int index)
{
	struct rig_listing list = { .rig = rig, .dir = node_at(rig, index) };
	struct txn *txn = txn_begin(rig->store);
	unsigned int names = 0;
	bool eof;
	int err = txn_readdir(txn, list.dir->inode, 0, true, rig_entry, &list,
			      &eof);

	txn_abort(txn);
	for (int i = 0; i < NAMES; i++)
		if (list.dir->names[i] != NO_NODE)
			names++;
	if (err || !eof)
		return "readdir failed";
	if (list.is_wrong)
		return "readdir has what should not be there";
	return list.found == names ? NULL : "readdir lacks names";
}

static inline const char *rig_compare_data(struct rig *rig, int index)
{
	struct node *node = node_at(rig, index);
	uint8_t out[DATA_MAX + 1];
	ssize_t got = read_at(rig->store, node->inode, out, sizeof(out), 0);

	if (got != (ssize_t)node->size)
		return "size of the data";
	return memcmp(out, node->data, node->size) ? "data" : NULL;
}

static inline const char *rig_compare_xattr(struct rig *rig, int index)
{
	struct node *node = node_at(rig, index);
	struct txn *txn = txn_begin(rig->store);
	rf_name_t name = name_of("user.x");
	uint8_t value = 0;
	size_t size = 0;
	int err = txn_getxattr(txn, &root_cred, node->inode, &name, &value, 1,
			       &size);

	txn_abort(txn);
	if (node->xattr)
		return err || size != 1 || value != node->xattr ?
		       "extended attribute" : NULL;
	return err == -ENODATA ? NULL : "extended attribute is there";
}

static inline const char *rig_compare_node(struct rig *rig, int index)
{
	struct node *node = node_at(rig, index);
	const char *text;
	rf_attr_t attr;

	if (getattr(rig->store, node->inode, &attr))
		return "inode is not there";
	if ((attr.mode & 07777) != node->mode)
		return "mode";
	if (attr.nlink != model_nlink(rig, node))
		return "link count";
	if (!node->is_dir && attr.size != node->size)
		return "size";
	text = rig_compare_xattr(rig, index);
	if (!text && !node->is_dir)
		text = rig_compare_data(rig, index);
	return text;
}

static inline const char *rig_compare_below(struct rig *rig, int index)
{
	const char *text = rig_compare_node(rig, index);
	struct node *node = node_at(rig, index);

	if (text || !node->is_dir || node->is_removed)
		return text;
	text = rig_compare_dir(rig, index);
	for (int i = 0; i < NAMES && !text; i++)
		if (node->names[i] != NO_NODE)
			text = rig_compare_below(rig, node->names[i]);
	return text;
}

/* All that has a name, and all orphans. */
static inline const char *rig_compare(struct rig *rig)
{
	const char *text = rig_compare_below(rig, 0);

	for (int i = 0; i < NODES && !text; i++)
		if (node_at(rig, i)->is_used && node_at(rig, i)->links == 0)
			text = rig_compare_node(rig, i);
	return text;
}

#endif /* STORE_RIG_H */

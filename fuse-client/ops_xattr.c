/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops_xattr.c - extended attributes
 *
 * Operation.  Values over inline_max are pulled, and set by way of write slots
 * (write.c).
 */
#include "fs.h"

#include <errno.h>
#include <sys/xattr.h>

/* From an answer to the question that it led to: longer, and it may not have. */
enum { ACL_ASKED_MS = 20 };

static int xattr_name(const char *name, rf_xname_t *out)
{
	size_t size = strlen(name);

	if (size > RF_NAME_MAX)
		return -ERANGE;
	if (!rf_xname_is_valid(name, size))
		return -EINVAL;
	out->bytes = name;
	out->size = (uint16_t)size;
	return 0;
}

/* Take the request and the attribute's name.  NULL: it was replied to. */
static struct request *take(fuse_req_t fuse, fuse_ino_t nodeid,
			    const char *name, rf_xname_t *out)
{
	struct request *r = request_take(fuse, nodeid);
	int err = r ? xattr_name(name, out) : 0;

	if (err) {
		request_fail(r, err);
		return NULL;
	}
	return r;
}

/* ---- get and list --------------------------------------------------------- */

static void send_get(struct request *r);
static void send_list(struct request *r);

static void pulled(struct request *r, int err)
{
	if (err == -EAGAIN) {
		if (r->xattr.is_list)
			send_list(r);
		else
			send_get(r);
		return;
	}
	if (!err && r->pulled_size != r->xattr.value_size) {
		fs_lose(r->fs, "sent more or less than it said");
		err = -EIO;
	}
	if (err) {
		request_fail(r, err);
		return;
	}
	request_reply_data(r, r->data->mem, r->pulled_size);
	request_end(r);
}

static void reply_value(struct request *r, uint32_t value_size,
			const rf_blob_t *data, const rf_grants_t *grants)
{
	uint32_t size = r->xattr.size;
	fuse_req_t fuse;

	if (size != 0 && value_size > size) {
		request_fail(r, -ERANGE);
		return;
	}
	if (size != 0) {
		r->xattr.value_size = value_size;
		pull_answer(r, data, grants, r->data->mem, size, pulled);
		return;
	}
	fuse = request_fuse(r);
	if (fuse)
		fuse_reply_xattr(fuse, value_size);
	request_end(r);
}

static void getxattr_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;
	int err = request_results(r, reply, RF_OP_GETXATTR, &results);

	if (err)
		request_fail(r, err);
	else
		reply_value(r, results.getxattr.value_size,
			    &results.getxattr.data, &results.getxattr.grants);
}

static void listxattr_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;
	int err = request_results(r, reply, RF_OP_LISTXATTR, &results);

	if (err)
		request_fail(r, err);
	else
		reply_value(r, results.listxattr.value_size,
			    &results.listxattr.data,
			    &results.listxattr.grants);
}

static void send_get(struct request *r)
{
	struct rf_args args = { .code = RF_OP_GETXATTR };

	args.getxattr.name.bytes = r->xattr.name;
	args.getxattr.name.size = (uint16_t)strlen(r->xattr.name);
	args.getxattr.size = r->xattr.size;
	request_call(r, &args, getxattr_answered);
}

static void send_list(struct request *r)
{
	struct rf_args args = { .code = RF_OP_LISTXATTR };

	args.listxattr.size = r->xattr.size;
	request_call(r, &args, listxattr_answered);
}

static void start(struct request *r, size_t size, request_fn send)
{
	r->xattr.size = (uint32_t)rf_min_u64(size, RF_XATTR_SIZE_MAX);
	if (size == 0)
		send(r);
	else
		request_need_data(r, r->xattr.size, send);
}

/*
 * The kernel asks for an access control list whenever it checks a permission of
 * somebody else's file, and for its attributes just before: they have said whether
 * there is one.
 */
static bool has_no_acl(const struct request *r, const rf_xname_t *name)
{
	static const char prefix[] = "system.posix_acl_";
	const struct inode *inode = r->inode;
	uint64_t age_ns;

	if (name->size < sizeof(prefix) ||
	    memcmp(name->bytes, prefix, sizeof(prefix) - 1) != 0 ||
	    inode->attr.flags & RF_ATTR_HAS_ACL || r->who.pid == 0 ||
	    inode->given_to != r->who.pid)
		return false;
	age_ns = rf_reactor_now_ns(r->fs->reactor) - inode->given_ns;
	return age_ns < ACL_ASKED_MS * UINT64_C(1000000);
}

static void do_getxattr(fuse_req_t fuse, fuse_ino_t nodeid, const char *name,
			size_t size)
{
	rf_xname_t checked;
	struct request *r = take(fuse, nodeid, name, &checked);

	if (!r)
		return;
	if (has_no_acl(r, &checked)) {
		request_fail(r, -ENODATA);
		return;
	}
	/* The kernel's message may be gone when a buffer is there. */
	memcpy(r->xattr.name, checked.bytes, checked.size);
	r->xattr.name[checked.size] = '\0';
	r->xattr.is_list = false;
	start(r, size, send_get);
}

static void do_listxattr(fuse_req_t fuse, fuse_ino_t nodeid, size_t size)
{
	struct request *r = request_take(fuse, nodeid);

	if (!r)
		return;
	r->xattr.is_list = true;
	start(r, size, send_list);
}

/* ---- set and remove ------------------------------------------------------- */

static uint32_t xattr_flags(int flags)
{
	return (flags & XATTR_CREATE ? RF_XATTR_CREATE : 0) |
	       (flags & XATTR_REPLACE ? RF_XATTR_REPLACE : 0);
}

static void do_setxattr(fuse_req_t fuse, fuse_ino_t nodeid, const char *name,
			const char *value, size_t size, int flags)
{
	rf_xname_t checked;
	struct request *r = take(fuse, nodeid, name, &checked);

	if (!r)
		return;
	/* What its attributes said of lists may be true no more. */
	r->inode->given_to = 0;
	write_xattr(r, &checked, value, size, xattr_flags(flags));
}

static void removexattr_answered(struct request *r, struct rf_dec *reply)
{
	request_answered_status(r, reply, RF_OP_REMOVEXATTR);
}

static void do_removexattr(fuse_req_t fuse, fuse_ino_t nodeid, const char *name)
{
	struct rf_args args = { .code = RF_OP_REMOVEXATTR };
	struct request *r = take(fuse, nodeid, name, &args.removexattr.name);

	if (r)
		request_call(r, &args, removexattr_answered);
}

void ops_xattr_fill(struct fuse_lowlevel_ops *ops)
{
	ops->getxattr = do_getxattr;
	ops->listxattr = do_listxattr;
	ops->setxattr = do_setxattr;
	ops->removexattr = do_removexattr;
}

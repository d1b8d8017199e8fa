/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops.h - the operations of protocol version 1, their arguments and results
 *
 * One line a field, in wire order; codec.h makes structures, encoders and
 * decoders of it, PROTOCOL.md says what each means.  F(type, name), with the
 * types of codec.h: a type also says what the decoder refuses, so that the bits
 * of an open_flags are known ones and a name is a name wherever one arrives.
 *
 * Operations act on the message's current handle, set by USE or moved by
 * LOOKUP and the creating operations (to the child).
 */
#ifndef RF_OPS_H
#define RF_OPS_H

/* X(NAME, lower-case name, code).  Codes are never used again. */
#define RF_OPS(X) \
	X(NOP,		nop,		1) \
	X(USE,		use,		2) \
	X(LOOKUP,	lookup,		3) \
	X(GETATTR,	getattr,	4) \
	X(SETATTR,	setattr,	5) \
	X(CREATE,	create,		6) \
	X(MKDIR,	mkdir,		7) \
	X(MKNOD,	mknod,		8) \
	X(SYMLINK,	symlink,	9) \
	X(READLINK,	readlink,	10) \
	X(LINK,		link,		11) \
	X(UNLINK,	unlink,		12) \
	X(RMDIR,	rmdir,		13) \
	X(RENAME,	rename,		14) \
	X(OPEN,		open,		15) \
	X(RELEASE,	release,	16) \
	X(READ,		read,		17) \
	X(WRITE,	write,		18) \
	X(FSYNC,	fsync,		19) \
	X(FALLOCATE,	fallocate,	20) \
	X(LSEEK,	lseek,		21) \
	X(COPY,		copy,		22) \
	X(READDIR,	readdir,	23) \
	X(STATFS,	statfs,		24) \
	X(GETXATTR,	getxattr,	25) \
	X(SETXATTR,	setxattr,	26) \
	X(LISTXATTR,	listxattr,	27) \
	X(REMOVEXATTR,	removexattr,	28) \
	X(IDENTITY,	identity,	29) \
	X(SLOTS,	slots,		30) \
	X(DROP_SLOTS,	drop_slots,	31) \
	X(CANCEL,	cancel,		32) \
	X(BYE,		bye,		33) \
	X(RECLAIM,	reclaim,	35) \
	X(RECLAIM_DONE,	reclaim_done,	36) \
	X(LOCK,		lock,		40) \
	X(UNLOCK,	unlock,		41) \
	X(TEST_LOCK,	test_lock,	42) \
	X(CANCEL_LOCK,	cancel_lock,	43) \
	X(LOCK_EVENTS,	lock_events,	44)
/*
 * Reserved: 45-47 locks, 48-55 leases (48 LEASE,
 * 49 RETURN_LEASE, 50 RECALL), 56 RECALL_SLOTS, 57 READ_SINK, 60-63 channels.
 */

#define RF_NOP_ARGS(F)
#define RF_NOP_RESULTS(F)

#define RF_USE_ARGS(F)		F(handle, handle)
#define RF_USE_RESULTS(F)

#define RF_LOOKUP_ARGS(F)	F(name, name)
#define RF_LOOKUP_RESULTS(F)	F(handle, handle) F(attr, attr)

#define RF_GETATTR_ARGS(F)
#define RF_GETATTR_RESULTS(F)	F(attr, attr)

/* valid: RF_SET_*.  open: of a truncate by descriptor, else 0. */
#define RF_SETATTR_ARGS(F)	F(set_bits, valid) F(u32, open) F(u32, mode) \
				F(u32, uid) F(u32, gid) F(u64, size) \
				F(time, atime) F(time, mtime)
#define RF_SETATTR_RESULTS(F)	F(u64, change_before) F(attr, attr)

/*
 * flags: O_* of the wire, RF_OPEN_*.  umask: taken off mode, unless the
 * directory has a default access control list.
 * was_created: 0 if an existing file was opened.
 */
#define RF_CREATE_ARGS(F)	F(name, name) F(u32, mode) F(open_flags, flags) \
				F(u32, umask)
#define RF_CREATE_RESULTS(F)	F(handle, handle) F(attr, attr) F(u32, open) \
				F(u64, tag) F(flag, was_created) \
				F(layout, layout)

#define RF_MKDIR_ARGS(F)	F(name, name) F(u32, mode) F(u32, umask)
#define RF_MKDIR_RESULTS(F)	F(handle, handle) F(attr, attr)

/* rdev: major in the high 32 bits, minor in the low. */
#define RF_MKNOD_ARGS(F)	F(name, name) F(u32, mode) F(u64, rdev) \
				F(u32, umask)
#define RF_MKNOD_RESULTS(F)	F(handle, handle) F(attr, attr)

#define RF_SYMLINK_ARGS(F)	F(name, name) F(target, target)
#define RF_SYMLINK_RESULTS(F)	F(handle, handle) F(attr, attr)

#define RF_READLINK_ARGS(F)
#define RF_READLINK_RESULTS(F)	F(target, target)

/* The current handle is the inode, dir the directory of the new name. */
#define RF_LINK_ARGS(F)		F(handle, dir) F(name, name)
#define RF_LINK_RESULTS(F)	F(attr, attr)

#define RF_UNLINK_ARGS(F)	F(name, name)
#define RF_UNLINK_RESULTS(F)

#define RF_RMDIR_ARGS(F)	F(name, name)
#define RF_RMDIR_RESULTS(F)

/* flags: RF_RENAME_*. */
#define RF_RENAME_ARGS(F)	F(name, name) F(handle, new_dir) \
				F(name, new_name) F(rename_flags, flags)
#define RF_RENAME_RESULTS(F)

/*
 * Files and directories.  The open given out is never 0: 0 as an argument means
 * the one that the last OPEN or CREATE before it in the same message made, but
 * in SETATTR none.  tag: what RECLAIM shows for it.
 */
#define RF_OPEN_ARGS(F)		F(open_flags, flags)
#define RF_OPEN_RESULTS(F)	F(u32, open) F(u64, tag) F(attr, attr) \
				F(layout, layout)

#define RF_RELEASE_ARGS(F)	F(u32, open)
#define RF_RELEASE_RESULTS(F)

/*
 * Data come inside, or, when more than inline_max, as grants to READ from, in
 * file order.  size is what was read in all; version the change counter at
 * that moment; file_size the size of the file then; eof 1 if nothing follows.
 */
#define RF_READ_ARGS(F)		F(u32, open) F(u64, offset) F(u32, size)
#define RF_READ_RESULTS(F)	F(u64, version) F(u64, file_size) F(u32, size) \
				F(flag, eof) F(blob, data) F(grants, grants)

/*
 * Data inside, or in write slots that were filled by one-sided WRITE before
 * this message, in file order.  flags: RF_WRITE_*.  offset is ignored with
 * RF_WRITE_APPEND; the result says where the data went.  rearmed: the slots of
 * the request, free again, with new keys; the one result that also travels
 * when the WRITE failed.
 */
#define RF_WRITE_ARGS(F)	F(u32, open) F(u64, offset) F(write_flags, flags) \
				F(blob, data) F(pieces, pieces)
#define RF_WRITE_RESULTS(F)	F(u64, offset) F(u32, size) \
				F(u64, change_before) F(attr, attr) \
				F(grants, rearmed)

/* is_data_only: as fdatasync. */
#define RF_FSYNC_ARGS(F)	F(u32, open) F(flag, is_data_only)
#define RF_FSYNC_RESULTS(F)

/* mode: RF_FALLOC_*. */
#define RF_FALLOCATE_ARGS(F)	F(u32, open) F(falloc_mode, mode) F(u64, offset) \
				F(u64, size)
#define RF_FALLOCATE_RESULTS(F)	F(u64, change_before) F(attr, attr)

/* whence: 0 data, 1 hole. */
#define RF_LSEEK_ARGS(F)	F(u32, open) F(u64, offset) F(whence, whence)
#define RF_LSEEK_RESULTS(F)	F(u64, offset)

/* From source to the current handle, on the server. */
#define RF_COPY_ARGS(F)		F(u32, open) F(u64, offset) F(handle, source) \
				F(u32, source_open) F(u64, source_offset) \
				F(u64, size)
#define RF_COPY_RESULTS(F)	F(u64, size) F(u64, change_before) F(attr, attr)

/*
 * Entries after cookie (0: from the start) as codec.h's rf_dirent, at most size
 * bytes of them.  wants_attr: each with handle and attributes.
 */
#define RF_READDIR_ARGS(F)	F(u32, open) F(u64, cookie) F(u32, size) \
				F(flag, wants_attr)
#define RF_READDIR_RESULTS(F)	F(flag, eof) F(blob, data) F(grants, grants)

#define RF_STATFS_ARGS(F)
#define RF_STATFS_RESULTS(F)	F(u32, block_size) F(u64, blocks) F(u64, free) \
				F(u64, available) F(u64, files) \
				F(u64, files_free) F(u32, name_max)

/* size 0 asks for value_size only. */
#define RF_GETXATTR_ARGS(F)	F(xname, name) F(u32, size)
#define RF_GETXATTR_RESULTS(F)	F(u32, value_size) F(blob, data) \
				F(grants, grants)

/* flags: RF_XATTR_*.  rearmed: as of WRITE. */
#define RF_SETXATTR_ARGS(F)	F(xname, name) F(xattr_flags, flags) F(blob, data) \
				F(pieces, pieces)
#define RF_SETXATTR_RESULTS(F)	F(grants, rearmed)

/* Names, each ended by a NUL. */
#define RF_LISTXATTR_ARGS(F)	F(u32, size)
#define RF_LISTXATTR_RESULTS(F)	F(u32, value_size) F(blob, data) \
				F(grants, grants)

#define RF_REMOVEXATTR_ARGS(F)	F(xname, name)
#define RF_REMOVEXATTR_RESULTS(F)

/* groups: u32 each; at most RF_GROUPS_MAX.  Replaces what index held. */
#define RF_IDENTITY_ARGS(F)	F(u16, index) F(u32, uid) F(u32, gid) \
				F(u32s, groups)
#define RF_IDENTITY_RESULTS(F)

/* Ask for up to count more write slots of the given size each. */
#define RF_SLOTS_ARGS(F)	F(u16, count) F(u32, size)
#define RF_SLOTS_RESULTS(F)	F(grants, slots)

/* Give write slots up: u32 ids. */
#define RF_DROP_SLOTS_ARGS(F)	F(u32s, ids)
#define RF_DROP_SLOTS_RESULTS(F)

/* A QUEUED request; it ends by FINISHED in any case. */
#define RF_CANCEL_ARGS(F)	F(u32, ticket)
#define RF_CANCEL_RESULTS(F)

#define RF_BYE_ARGS(F)
#define RF_BYE_RESULTS(F)

/*
 * After a restart of the server: handle was open, under this number, with these
 * flags of OPEN or CREATE and the tag that it gave.
 */
#define RF_RECLAIM_ARGS(F)	F(handle, handle) F(u32, open) \
				F(open_flags, flags) F(u64, tag)
#define RF_RECLAIM_RESULTS(F)

#define RF_RECLAIM_DONE_ARGS(F)
#define RF_RECLAIM_DONE_RESULTS(F)

/*
 * owner: the client's number for who has the lock.  flags: RF_LOCK_*.  start
 * and end: the first and the last byte.  wait: a number of the client's choice,
 * under which the lock is waited for if waits comes back 1.
 */
#define RF_LOCK_ARGS(F)		F(u64, wait) F(u32, open) F(u64, owner) \
				F(lock_flags, flags) F(u64, start) \
				F(u64, end) F(u32, pid)
#define RF_LOCK_RESULTS(F)	F(flag, waits)

/* flags: RF_LOCK_FLOCK or none. */
#define RF_UNLOCK_ARGS(F)	F(u64, owner) F(lock_flags, flags) \
				F(u64, start) F(u64, end)
#define RF_UNLOCK_RESULTS(F)

/* The rest of the results is of a lock in the way, if is_free is 0. */
#define RF_TEST_LOCK_ARGS(F)	F(u32, open) F(u64, owner) \
				F(lock_flags, flags) F(u64, start) F(u64, end)
#define RF_TEST_LOCK_RESULTS(F)	F(flag, is_free) F(flag, is_exclusive) \
				F(u64, start) F(u64, end) F(u32, pid)

/* status: how the wait has ended, by this or before. */
#define RF_CANCEL_LOCK_ARGS(F)	F(u64, wait)
#define RF_CANCEL_LOCK_RESULTS(F) F(u16, status)

/* events: u64 wait, u16 status each; see rf_lock_event_decode(). */
#define RF_LOCK_EVENTS_ARGS(F)	F(u64, seen)
#define RF_LOCK_EVENTS_RESULTS(F) F(u64, last) F(blob, events)

/* ---- bits that the fields above carry ---------------------------------- */

enum rf_set {		/* SETATTR valid */
	RF_SET_MODE = 1 << 0,
	RF_SET_UID = 1 << 1,
	RF_SET_GID = 1 << 2,
	RF_SET_SIZE = 1 << 3,
	RF_SET_ATIME = 1 << 4,
	RF_SET_MTIME = 1 << 5,
	RF_SET_ATIME_NOW = 1 << 6,	/* the server's clock */
	RF_SET_MTIME_NOW = 1 << 7,
	RF_SET_KILL_PRIV = 1 << 8,	/* drop setuid and setgid with it */
	RF_SET_ALL = (1 << 9) - 1,
};

enum rf_open_flags {	/* CREATE, OPEN */
	RF_OPEN_READ = 1 << 0,
	RF_OPEN_WRITE = 1 << 1,
	RF_OPEN_EXCL = 1 << 2,		/* CREATE: fail if it exists */
	RF_OPEN_TRUNC = 1 << 3,
	RF_OPEN_APPEND = 1 << 4,
	RF_OPEN_SYNC = 1 << 5,		/* each WRITE durable when answered */
	RF_OPEN_DSYNC = 1 << 6,
	RF_OPEN_DIR = 1 << 7,
	RF_OPEN_EXEC = 1 << 8,		/* checked for execute, then as READ */
	RF_OPEN_NOATIME = 1 << 9,	/* READ and READDIR leave atime alone */
	RF_OPEN_NO_NAME = 1 << 10,	/* CREATE: O_TMPFILE; EXCL: for good */
	RF_OPEN_STRICTATIME = 1 << 11,	/* each READ and READDIR sets atime */
	RF_OPEN_ALL = (1 << 12) - 1,
};

enum rf_write_flags {
	RF_WRITE_APPEND = 1 << 0,
	RF_WRITE_SYNC = 1 << 1,
	RF_WRITE_DSYNC = 1 << 2,
	RF_WRITE_KILL_PRIV = 1 << 3,	/* writer lacks CAP_FSETID */
	RF_WRITE_PART = 1 << 4,		/* a hint: of a larger one */
	RF_WRITE_INSIDE = 1 << 5,	/* never grows the file */
	RF_WRITE_ALL = (1 << 6) - 1,
};

enum rf_falloc {
	RF_FALLOC_KEEP_SIZE = 1 << 0,
	RF_FALLOC_PUNCH = 1 << 1,
	RF_FALLOC_ZERO = 1 << 2,
	RF_FALLOC_ALL = (1 << 3) - 1,
};

enum rf_xattr_flags {	/* SETXATTR */
	RF_XATTR_CREATE = 1 << 0,	/* fail with EXIST if it is there */
	RF_XATTR_REPLACE = 1 << 1,	/* fail with NODATA if it is not */
	RF_XATTR_ALL = (1 << 2) - 1,
};

enum rf_lock_flags {
	RF_LOCK_EXCLUSIVE = 1 << 0,
	RF_LOCK_FLOCK = 1 << 1,		/* of the open, not of the process */
	RF_LOCK_WAIT = 1 << 2,		/* if another is in the way */
	RF_LOCK_NO_DEADLOCK = 1 << 3,	/* who waits for it is never told
					 * DEADLK for that */
	RF_LOCK_RECLAIM = 1 << 4,	/* it was held before the server's
					 * restart */
	RF_LOCK_ALL = (1 << 5) - 1,
};

enum rf_rename_flags {
	RF_RENAME_NOREPLACE = 1 << 0,
	RF_RENAME_EXCHANGE = 1 << 1,
	RF_RENAME_WHITEOUT = 1 << 2,	/* leave a device 0, 0 behind */
	RF_RENAME_ALL = (1 << 3) - 1,
};

#endif /* RF_OPS_H */

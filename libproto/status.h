/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.h - outcomes that travel; our own numbers, never errno
 *
 * A number is never given to another meaning.  The second column is the errno
 * of Linux that it stands for on this host; several may share one.
 */
#ifndef RF_STATUS_H
#define RF_STATUS_H

#define RF_STATUSES(X) \
	X(OK,		0,	0) \
	X(PERM,		1,	EPERM) \
	X(NOENT,	2,	ENOENT) \
	X(IO,		3,	EIO) \
	X(NXIO,		4,	ENXIO) \
	X(TOO_BIG,	5,	E2BIG) \
	X(BADF,		6,	EBADF) \
	X(AGAIN,	7,	EAGAIN) \
	X(NOMEM,	8,	ENOMEM) \
	X(ACCESS,	9,	EACCES) \
	X(BUSY,		10,	EBUSY) \
	X(EXIST,	11,	EEXIST) \
	X(XDEV,		12,	EXDEV) \
	X(NODEV,	13,	ENODEV) \
	X(NOTDIR,	14,	ENOTDIR) \
	X(ISDIR,	15,	EISDIR) \
	X(INVAL,	16,	EINVAL) \
	X(NFILE,	17,	ENFILE) \
	X(MFILE,	18,	EMFILE) \
	X(TXTBSY,	19,	ETXTBSY) \
	X(FBIG,		20,	EFBIG) \
	X(NOSPC,	21,	ENOSPC) \
	X(ROFS,		22,	EROFS) \
	X(MLINK,	23,	EMLINK) \
	X(RANGE,	24,	ERANGE) \
	X(DEADLK,	25,	EDEADLK) \
	X(NAMETOOLONG,	26,	ENAMETOOLONG) \
	X(NOTEMPTY,	27,	ENOTEMPTY) \
	X(LOOP,		28,	ELOOP) \
	X(NODATA,	29,	ENODATA) \
	X(OVERFLOW,	30,	EOVERFLOW) \
	X(OPNOTSUPP,	31,	EOPNOTSUPP) \
	X(DQUOT,	32,	EDQUOT) \
	X(STALE,	33,	ESTALE) \
	X(CANCELED,	34,	ECANCELED) \
	X(INTR,		35,	EINTR) \
	X(NOLCK,	36,	ENOLCK) \
	X(NOSYS,	37,	ENOSYS) \
	X(SPIPE,	38,	ESPIPE) \
	X(TIMEDOUT,	39,	ETIMEDOUT) \
	/* what has no errno of its own, from 256 on */ \
	X(BAD_MESSAGE,	256,	EPROTO)		/* does not decode, or breaks a rule */ \
	X(BAD_VERSION,	257,	EPROTONOSUPPORT)/* no version in common */ \
	X(BAD_KEY,	258,	EKEYREJECTED)	/* proof of the shared key is wrong */ \
	X(NEED_KEY,	259,	ENOKEY)		/* this server wants a key, we have none */ \
	X(NO_EXPORT,	260,	ENOENT)		/* no export of that name */ \
	X(NOT_ALLOWED,	261,	EACCES)		/* this address may not use the export */ \
	X(BAD_EPOCH,	262,	ESTALE)		/* of a former session */ \
	X(BAD_HANDLE,	263,	ESTALE)		/* forged, or of another export */ \
	X(BAD_GRANT,	264,	EIO)		/* slot or grant not ours or not dead */ \
	X(BAD_CRC,	265,	EIO)		/* data do not match their checksum */ \
	X(TOO_MANY,	266,	EUSERS)		/* a limit on sessions, opens, identities */ \
	X(SHUTDOWN,	267,	ESHUTDOWN)	/* server is going down */

enum rf_status {
#define RF_STATUS_MEMBER(name, number, err) RF_ST_##name = (number),
	RF_STATUSES(RF_STATUS_MEMBER)
#undef RF_STATUS_MEMBER
};

/*
 * Of a number from a peer: the negative errno, -EIO for a number that we do not
 * know.  [any]
 */
int rf_status_to_errno(unsigned int status);

/* The other way: err is negative or 0; RF_ST_IO for one with no number.  [any] */
enum rf_status rf_status_from_errno(int err);

/* "NOENT", for logs; "?" for an unknown number.  [any] */
const char *rf_status_name(unsigned int status);

#endif /* RF_STATUS_H */

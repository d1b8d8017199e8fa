/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuse_io.c - /dev/fuse: receive into the arena, INIT, replies by byte
 *
 * Operation.  libfuse reads and writes through our hooks.  Each message is read
 * into a pool buffer, placed such that a WRITE's data begin on a page; a handler
 * that needs them longer keeps the buffer.  The INIT reply passes the write
 * hook, where bits are added that this libfuse can't ask for.  Replies that
 * carry what it has no field for are built here.
 *
 * Ownership.  current and rx are taken before a message is read, so the kernel
 * keeps what there is no room for; reading goes on when both are there again, or
 * when it need not wait for that (backlog.c).
 *
 * When it fails.  ENODEV: unmounted, the reactor stops.  A reply that the
 * kernel does not want (ENOENT: the caller was killed) undoes what the kernel
 * will now never forget or release.
 */
#include "fs.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- of protocol 7.39, which older headers lack ---------------------------- */

#define DIRECT_IO_ALLOW_MMAP (UINT64_C(1) << 36)

enum { OPCODE_TMPFILE = 51, OPCODE_STATX = 52 };

struct statx_time {
	int64_t seconds;
	uint32_t nanoseconds;
	int32_t reserved;
};

struct statx_out {
	uint64_t valid;
	uint32_t valid_nsec, flags;
	uint64_t spare[2];
	uint32_t mask, blksize;
	uint64_t attributes;
	uint32_t nlink, uid, gid;
	uint16_t mode, spare0;
	uint64_t ino, size, blocks, attributes_mask;
	struct statx_time atime, btime, ctime, mtime;
	uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
	uint64_t spare2[14];
};

_Static_assert(sizeof(struct statx_out) == 32 + 256, "as in the kernel");

_Static_assert(sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in) ==
	       4096 - FUSE_MESSAGE_AT, "a WRITE's data begin on a page");

/* ---- hooks ---------------------------------------------------------------- */

/* Does the kernel send again what a daemon that dies leaves?  Of 7.40. */
#define HAS_RESEND (UINT64_C(1) << 39)

/* For a successor, which the kernel will not tell. */
static void init_came(struct fs *fs, const void *message, size_t size)
{
	const struct fuse_in_header *in = message;
	const struct fuse_init_in *init = (const void *)(in + 1);
	struct keep *keep = fs->keep;

	fs->init_unique = in->unique;
	if (size > sizeof(keep->init) || size < sizeof(*in) + sizeof(*init))
		return;
	memcpy(keep->init, message, size);
	keep->kernel_resends = !fs->options.no_resend &&
			       init->flags & FUSE_INIT_EXT &&
			       init->flags2 & (uint32_t)(HAS_RESEND >> 32);
	rf_store_kept(&keep->init_size, (uint32_t)size);
}

/*
 * O_TMPFILE is a message that this libfuse does not know; it is CREATE's but for
 * its number, and the name "/", by which do_create() knows it.
 */
static ssize_t hook_read(int fd, void *buffer, size_t size, void *context)
{
	ssize_t got = read(fd, buffer, size);
	struct fuse_in_header *in = buffer;
	struct fs *fs = context;

	/* Unmounted while a request was read. */
	if (got < 0 && errno == ECONNABORTED)
		errno = ENODEV;
	/* The end of what plays the kernel; that one says so itself. */
	if (got == 0) {
		errno = ENODEV;
		return -1;
	}
	if (got < (ssize_t)sizeof(*in))
		return got;
	if (in->opcode == FUSE_INIT)
		init_came(fs, buffer, (size_t)got);
	once_read(fs, in);
	/* Begins as GETATTR does, which libfuse knows. */
	fs->is_statx = in->opcode == OPCODE_STATX;
	if (fs->is_statx)
		in->opcode = FUSE_GETATTR;
	if (in->opcode == OPCODE_TMPFILE)
		in->opcode = FUSE_CREATE;
	return got;
}

/*
 * What we handle, but libfuse 3.14 can't say: lookups side by side in one
 * directory; set-id bits dropped by the server, so that the kernel need not
 * ask for a file's capabilities before each write; mapping of files that were
 * opened past the page cache.
 */
static void patch_init(struct fuse_init_out *init)
{
	init->flags |= FUSE_PARALLEL_DIROPS | FUSE_HANDLE_KILLPRIV_V2 |
		       FUSE_INIT_EXT;
	init->flags2 |= (uint32_t)(DIRECT_IO_ALLOW_MMAP >> 32);
}

static ssize_t hook_writev(int fd, struct iovec *iov, int count, void *context)
{
	const struct fuse_out_header *out = iov[0].iov_base;
	struct fs *fs = context;
	bool is_init = fs->init_unique && out->unique == fs->init_unique;
	ssize_t put;

	if (is_init && out->error == 0 && count == 2 &&
	    iov[1].iov_len >= sizeof(struct fuse_init_out))
		patch_init(iov[1].iov_base);
	/* The kernel has had its answer from another daemon. */
	if (is_init && fs->is_successor)
		put = out->len;
	else
		put = writev(fd, iov, count);
	once_replied(fs, out->unique);
	if (is_init && put > 0) {
		fs->init_unique = 0;
		fs->init_was_answered = out->error == 0;
	}
	return put;
}

static const struct fuse_custom_io hooks = {
	.read = hook_read,
	.writev = hook_writev,
};

/* ---- INIT ----------------------------------------------------------------- */

static void want(struct fuse_conn_info *conn, unsigned int bit)
{
	if (conn->capable & bit)
		conn->want |= bit;
}

static void do_init(void *context, struct fuse_conn_info *conn)
{
	struct fs *fs = context;
	uint32_t data_max = (uint32_t)rf_min_u64(DATA_MAX,
						 fs->limits.block_max);

	conn->max_write = data_max & ~4095u;
	conn->max_readahead = conn->max_write;
	conn->max_background = BACKGROUND_MAX;
	conn->congestion_threshold = BACKGROUND_MAX * 3 / 4;
	conn->time_gran = 1;
	want(conn, FUSE_CAP_ASYNC_READ);
	want(conn, FUSE_CAP_ATOMIC_O_TRUNC);
	want(conn, FUSE_CAP_READDIRPLUS);
	want(conn, FUSE_CAP_READDIRPLUS_AUTO);
	/* Makes the kernel ask before it reads cached pages: CONSISTENCY.md. */
	want(conn, FUSE_CAP_AUTO_INVAL_DATA);
	/* The kernel checks lists; what the umask is worth only the server knows. */
	want(conn, FUSE_CAP_POSIX_ACL);
	if (conn->want & FUSE_CAP_POSIX_ACL)
		want(conn, FUSE_CAP_DONT_MASK);
	want(conn, FUSE_CAP_POSIX_LOCKS);
	want(conn, FUSE_CAP_FLOCK_LOCKS);
	conn->want &= ~(unsigned int)(FUSE_CAP_WRITEBACK_CACHE |
				      FUSE_CAP_EXPORT_SUPPORT |
				      FUSE_CAP_CACHE_SYMLINKS |
				      FUSE_CAP_EXPLICIT_INVAL_DATA);
	/*
	 * Only asynchronous calls on files past the page cache go this way; a
	 * synchronous one would wait beyond fatal signals if such a file were
	 * not opened with FOPEN_DIRECT_IO.
	 */
	want(conn, FUSE_CAP_ASYNC_DIO);
}

static void do_forget(fuse_req_t fuse, fuse_ino_t nodeid, uint64_t count)
{
	struct fs *fs = fuse_req_userdata(fuse);

	inodes_forget(&fs->inodes, nodeid, count);
	fuse_reply_none(fuse);
}

static void do_forget_multi(fuse_req_t fuse, size_t count,
			    struct fuse_forget_data *forgets)
{
	struct fs *fs = fuse_req_userdata(fuse);

	for (size_t i = 0; i < count; i++)
		inodes_forget(&fs->inodes, forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(fuse);
}

/* ---- receive -------------------------------------------------------------- */

static void rx_ready(struct rf_pool_waiter *waiter, struct rf_buf *buf)
{
	struct fs *fs = rf_container_of(waiter, struct fs, rx_waiter);

	fs->rx = buf;
	fuse_io_resume(fs);
}

static bool take_object(struct fs *fs)
{
	struct rf_list *item;

	if (fs->current)
		return true;
	if (fs->options.no_pipeline && fs->busy > 0)
		return false;
	item = rf_list_pop(&fs->free_requests);
	if (item)
		fs->current = rf_container_of(item, struct request, link);
	return item != NULL;
}

static bool take_rx(struct fs *fs)
{
	if (!fs->rx && !fs->rx_waiter.is_waiting) {
		fs->rx = rf_pool_get(fs->pool, DATA_BUF_SIZE);
		if (!fs->rx) {
			fs->rx_waiter.ready = rx_ready;
			rf_pool_wait(fs->pool, DATA_BUF_SIZE, &fs->rx_waiter);
		}
	}
	return fs->rx != NULL;
}

/* Both things that a message needs. */
bool fuse_io_has_room(struct fs *fs)
{
	bool has_object = take_object(fs), has_rx = take_rx(fs);

	return has_object && has_rx;
}

/* Or it may wait for them here. */
static bool may_read(struct fs *fs)
{
	bool has_room = fuse_io_has_room(fs);

	return !fs->is_draining && ((has_room && fs->backlog.count == 0) ||
				    backlog_is_open(fs));
}

static void pause_reading(struct fs *fs)
{
	fs->stats.pauses++;
	fs->is_reading_paused = true;
	rf_watch_stop(fs->reactor, &fs->fuse_watch);
}

void fuse_io_resume(struct fs *fs)
{
	if (!fs->is_reading_paused || fs->fuse_fd < 0 || !may_read(fs))
		return;
	fs->is_reading_paused = false;
	if (rf_watch_start(fs->reactor, &fs->fuse_watch, fs->fuse_fd, EPOLLIN))
		rf_reactor_stop(fs->reactor);
}

void fuse_io_pause(struct fs *fs, bool is_paused)
{
	fs->is_draining = is_paused;
	if (is_paused && fs->fuse_watch.is_started)
		pause_reading(fs);
	else
		fuse_io_resume(fs);
}

static void tell_ready(struct fs *fs)
{
	void (*ready)(void *context) = fs->ready;

	fs->ready = NULL;
	if (ready)
		ready(fs->ready_context);
}

void fuse_io_deliver(struct fs *fs, const void *message, size_t size,
		     uint64_t read_ns)
{
	const struct fuse_buf buf = { .mem = (void *)message, .size = size };

	fs->message = message;
	fs->read_ns = read_ns;
	fuse_session_process_buf(fs->session, &buf);
	fs->message = NULL;
}

void fuse_io_replay_init(struct fs *fs)
{
	struct keep *keep = fs->keep;
	uint8_t message[KEEP_INIT_MAX] __attribute__((aligned(8)));
	const struct fuse_in_header *in = (const void *)message;

	memcpy(message, keep->init, sizeof(message));
	fs->init_unique = in->unique;
	fuse_io_deliver(fs, message, keep->init_size, 0);
}

/* One message.  False: there is none, or no room for one. */
static bool receive(struct fs *fs)
{
	struct fuse_buf buf = { 0 };
	int got;

	if (may_read(fs))
		buf.mem = fs->rx ? fs->rx->mem + FUSE_MESSAGE_AT :
				   backlog_rx(fs);
	if (!buf.mem) {
		pause_reading(fs);
		return false;
	}
	got = fuse_session_receive_buf(fs->session, &buf);
	if (got == -EAGAIN && fs->is_taking_over)
		successor_read(fs, NULL);
	if (got == -EAGAIN || got == -EINTR)
		return false;
	if (got <= 0 || fuse_session_exited(fs->session)) {
		if (got < 0)
			rf_log(RF_LOG_ERROR, "/dev/fuse failed: %s",
			       strerror(-got));
		rf_watch_stop(fs->reactor, &fs->fuse_watch);
		rf_reactor_stop(fs->reactor);
		return false;
	}
	if (fs->is_taking_over)
		successor_read(fs, buf.mem);
	if (!backlog_takes(fs, buf.mem, (size_t)got))
		fuse_io_deliver(fs, buf.mem, (size_t)got,
				rf_reactor_now_ns(fs->reactor));
	if (fs->init_was_answered)
		tell_ready(fs);
	return true;
}

static void fuse_is_readable(struct rf_watch *watch, uint32_t events)
{
	struct fs *fs = rf_container_of(watch, struct fs, fuse_watch);

	(void)events;
	for (unsigned int i = 0; i < READ_PER_TURN; i++)
		if (!receive(fs))
			return;
}

void fuse_io_read_all(struct fs *fs)
{
	while (fs->is_taking_over && receive(fs))
		;
}

const struct fuse_in_header *fuse_io_header(const struct fs *fs)
{
	return (const void *)fs->message;
}

const void *fuse_io_raw(const struct fs *fs)
{
	return fuse_io_header(fs) + 1;
}

/* ---- life ----------------------------------------------------------------- */

int fuse_io_open(struct fs *fs, int fuse_fd)
{
	char name[] = "rdmafs";
	char *argv[] = { name, NULL };
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	struct fuse_lowlevel_ops ops = {
		.init = do_init,
		.forget = do_forget,
		.forget_multi = do_forget_multi,
	};
	int err;

	ops_names_fill(&ops);
	ops_attr_fill(&ops);
	ops_file_fill(&ops);
	ops_dir_fill(&ops);
	ops_xattr_fill(&ops);
	ops_lock_fill(&ops);
	read_fill(&ops);
	write_fill(&ops);
	fs->fuse_fd = fuse_fd;
	fs->session = fuse_session_new(&args, &ops, sizeof(ops), fs);
	fuse_opt_free_args(&args);
	if (!fs->session)
		return -ENOMEM;
	err = fuse_session_custom_io(fs->session, &hooks, fuse_fd);
	if (err)
		return err < 0 ? err : -EIO;
	fs->fuse_watch.ready = fuse_is_readable;
	return rf_watch_start(fs->reactor, &fs->fuse_watch, fuse_fd, EPOLLIN);
}

void fuse_io_stop(struct fs *fs)
{
	if (fs->session)
		fuse_session_exit(fs->session);
	if (fs->fuse_watch.is_started)
		rf_watch_stop(fs->reactor, &fs->fuse_watch);
	fs->fuse_fd = -1;
	rf_pool_cancel(fs->pool, &fs->rx_waiter);
	if (fs->rx)
		rf_pool_put(fs->rx);
	fs->rx = NULL;
	if (fs->current)
		rf_list_push(&fs->free_requests, &fs->current->link);
	fs->current = NULL;
}

void fuse_io_close(struct fs *fs)
{
	if (fs->session)
		fuse_session_destroy(fs->session);	/* closes the fd */
	fs->session = NULL;
}

/* ---- replies -------------------------------------------------------------- */

static void fill_attr(const rf_attr_t *in, struct fuse_attr *out)
{
	*out = (struct fuse_attr){
		.ino = in->inode,
		.size = in->size,
		.blocks = in->blocks,
		.atime = (uint64_t)in->atime.seconds,
		.mtime = (uint64_t)in->mtime.seconds,
		.ctime = (uint64_t)in->ctime.seconds,
		.atimensec = in->atime.nanoseconds,
		.mtimensec = in->mtime.nanoseconds,
		.ctimensec = in->ctime.nanoseconds,
		.mode = in->mode,
		.nlink = in->nlink,
		.uid = in->uid,
		.gid = in->gid,
		/* The kernel's new_encode_dev(). */
		.rdev = (uint32_t)makedev((unsigned int)(in->rdev >> 32),
					  (unsigned int)in->rdev),
		.blksize = in->block_size,
	};
}

/* No time-outs: others may change all of it. */
static void fill_entry(const struct inode *inode, struct fuse_entry_out *out)
{
	*out = (struct fuse_entry_out){ .nodeid = inode_nodeid(inode) };
	fill_attr(&inode->attr, &out->attr);
}

void fuse_io_reply_entry(struct request *r)
{
	struct inode *child = r->other;
	struct fuse_entry_out out;
	int err;

	fill_entry(child, &out);
	once_tells(r, child);
	cache_give(r, child);
	err = request_reply_data(r, &out, sizeof(out));
	once_told(r->fs);
	if (err)
		inode_unlook(&r->fs->inodes, child);
	request_end(r);
}

static void reply_attr(struct request *r)
{
	struct fuse_attr_out out = { 0 };

	fill_attr(&r->inode->attr, &out.attr);
	request_reply_data(r, &out, sizeof(out));
}

void fuse_io_give_attr(struct request *r)
{
	cache_give(r, r->inode);
	reply_attr(r);
}

void fuse_io_reply_attr(struct request *r)
{
	fuse_io_give_attr(r);
	request_end(r);
}

static struct statx_time statx_time(const rf_time_t *time)
{
	return (struct statx_time){ time->seconds, time->nanoseconds, 0 };
}

void fuse_io_give_statx(struct request *r)
{
	const rf_attr_t *attr = &r->inode->attr;
	struct statx_out out = {
		.mask = STATX_BASIC_STATS | STATX_BTIME,
		.blksize = attr->block_size,
		.nlink = attr->nlink,
		.uid = attr->uid,
		.gid = attr->gid,
		.mode = (uint16_t)attr->mode,
		.ino = attr->inode,
		.size = attr->size,
		.blocks = attr->blocks,
		.atime = statx_time(&attr->atime),
		.btime = statx_time(&attr->btime),
		.ctime = statx_time(&attr->ctime),
		.mtime = statx_time(&attr->mtime),
		.rdev_major = (uint32_t)(attr->rdev >> 32),
		.rdev_minor = (uint32_t)attr->rdev,
	};

	cache_give(r, r->inode);
	request_reply_data(r, &out, sizeof(out));
}

void fuse_io_reply_statx(struct request *r)
{
	fuse_io_give_statx(r);
	request_end(r);
}

void fuse_io_reply_set(struct request *r)
{
	cache_give_set(r, r->inode);
	reply_attr(r);
	request_end(r);
}

/* Past the page cache, perhaps with writes side by side.  Else exact pages
 * stay. */
static void fill_open(const struct file *file, struct fuse_open_out *out)
{
	const struct inode *inode = file->inode;

	*out = (struct fuse_open_out){ .fh = file_fh(file) };
	if (file->is_direct)
		out->open_flags = FOPEN_DIRECT_IO |
				  (file->is_parallel ?
				   FOPEN_PARALLEL_DIRECT_WRITES : 0);
	else if (!S_ISDIR(inode->attr.mode) && !inode->invalidation &&
		 change_is_exact(&inode->change))
		out->open_flags = FOPEN_KEEP_CACHE;
}

/* The kernel has dropped it, so it will not release it: we do. */
static void drop_file(struct request *r)
{
	struct file *file = r->file;
	struct inode *inode = file->inode;
	uint32_t open = file->open;

	/* r keeps the inode; nobody had the time to lock by it. */
	files_remove(&r->fs->files, &r->fs->inodes, file);
	r->file = NULL;
	request_release_open(r, inode, open);
}

bool fuse_io_give_open(struct request *r, const struct file *file)
{
	struct fuse_open_out out;

	fill_open(file, &out);
	return request_reply_data(r, &out, sizeof(out)) == 0;
}

void fuse_io_reply_open(struct request *r)
{
	if (!fuse_io_give_open(r, r->file))
		drop_file(r);
	else
		request_end(r);
}

void fuse_io_reply_create(struct request *r)
{
	struct inode *child = r->other;
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} out;
	int err;

	fill_entry(child, &out.entry);
	fill_open(r->file, &out.open);
	cache_give(r, child);
	once_tells(r, child);
	err = request_reply_data(r, &out, sizeof(out));
	once_told(r->fs);
	if (err) {
		inode_unlook(&r->fs->inodes, child);
		drop_file(r);
	} else {
		request_end(r);
	}
}

/* ---- directories ---------------------------------------------------------- */

static void fill_dirent(const struct rf_dirent *entry, struct fuse_dirent *out)
{
	size_t size = entry->name.size;

	out->ino = entry->inode;
	out->off = entry->cookie;
	out->namelen = entry->name.size;
	out->type = (entry->type & S_IFMT) >> 12;
	memcpy(out->name, entry->name.bytes, size);
	memset(out->name + size, 0,
	       FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + size) -
		       (FUSE_NAME_OFFSET + size));
}

size_t fuse_io_add_dirent(uint8_t *at, size_t room,
			  const struct rf_dirent *entry)
{
	size_t size = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + entry->name.size);

	if (size > room)
		return 0;
	fill_dirent(entry, (void *)at);
	return size;
}

size_t fuse_io_add_dirent_plus(uint8_t *at, size_t room,
			       const struct rf_dirent *entry,
			       const struct inode *child)
{
	size_t size = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET_DIRENTPLUS +
					entry->name.size);
	struct fuse_direntplus *out = (void *)at;

	if (size > room)
		return 0;
	if (child)
		fill_entry(child, &out->entry_out);
	else
		memset(&out->entry_out, 0, sizeof(out->entry_out));
	fill_dirent(entry, &out->dirent);
	return size;
}

void fuse_io_undo_dirents(struct fs *fs, const uint8_t *at, size_t size)
{
	once_told(fs);
	while (size > 0) {
		const struct fuse_direntplus *out = (const void *)at;
		size_t step = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET_DIRENTPLUS +
						out->dirent.namelen);

		if (out->entry_out.nodeid)
			inodes_forget(&fs->inodes, out->entry_out.nodeid, 1);
		at += step;
		size -= step;
	}
}

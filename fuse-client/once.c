/* SPDX-License-Identifier: Apache-2.0 */
/*
 * once.c - each request once, also if the daemon dies in the middle of it
 *
 * Operation.  A request of the kernel that changes something has a record in the
 * memory that outlives us (keep.h), from its first message on until it was
 * replied to.  libproto notes in it by what slot and number a message goes,
 * before it does.  When we die the kernel sends what was not replied to again,
 * by the same unique, to our successor; that one does as with any request, but
 * the message goes by the slot and number of the record, and the server answers
 * it from there if it was run before.
 *
 *	not sent	as a new request
 *	sent		sent again, as it was
 *	answered, and	the answer is in the record: since its slot may be used
 *	waiting		for another request by now
 *	in parts	those that ended are marked in the whole's record
 *
 * A record that nothing is sent again for belongs to a request that was replied
 * to just before the end: it is dropped when all of them were read
 * (once_over()), which is before the session goes on.
 *
 * Of an inode that a reply tells of the kernel has one lookup more, or not, if we die
 * while it is given: then the reply's inodes are in the record "told", and if the
 * kernel sends that request again it had not got it.
 *
 * Ownership.  A record is its request's (r->kept), an old one nobody's.
 *
 * When it fails.  What can't be told for sure is not run again: EIO.  Kernels
 * before 6.9 send nothing again; there each request that was read is noted until
 * it is replied to, and those of a daemon that died get EIO.
 */
#include "fs.h"

#include <errno.h>
#include <linux/fuse.h>
#include <unistd.h>

_Static_assert(KEEP_REQUESTS >= 2 * REQUESTS_TOTAL,
	       "one for each request, and for each of a daemon that died");
_Static_assert(PARTS_MAX <= 64, "a bit for each part");
_Static_assert(KEEP_UNANSWERED >= BACKLOG_MESSAGES_MAX + LOCK_WAITS_MAX +
				  REQUESTS_MAX + SPARE_REQUESTS,
	       "a place for each that may have been read");

/* ---- records --------------------------------------------------------------- */

static struct keep_step *step_of(struct keep_request *kept)
{
	return &kept->steps[kept->step];
}

static void take(struct request *r, uint64_t unique, uint32_t part)
{
	struct once *once = &r->fs->once;
	struct keep_request *kept;

	RF_ASSERT(once->free_count > 0);
	kept = &r->fs->keep->requests[once->free[--once->free_count]];
	memset(kept, 0, sizeof(*kept));
	kept->part = part;
	rf_store_kept(&kept->unique, unique);
	r->kept = kept;
}

static void give(struct fs *fs, struct keep_request *kept)
{
	struct once *once = &fs->once;

	rf_store_kept(&kept->unique, 0);
	once->free[once->free_count++] =
		(uint16_t)(kept - fs->keep->requests);
}

/* What is told of the request is another thing from now on. */
static void next_step(struct keep_request *kept, uint32_t done, uint32_t size)
{
	uint32_t next = !kept->step;

	kept->steps[next] = (struct keep_step){ .done = done, .size = size };
	rf_store_kept(&kept->step, next);
}

void once_init(struct fs *fs)
{
	struct once *once = &fs->once;

	for (unsigned int i = 0; i < KEEP_REQUESTS; i++)
		if (fs->keep->requests[i].unique)
			once->is_old[i] = true;
		else
			once->free[once->free_count++] = (uint16_t)i;
}

/* ---- of a daemon that died -------------------------------------------------- */

/* The kernel has not got this open: it is made anew, from the same answer. */
static void forget_open(struct fs *fs, struct keep_request *kept)
{
	struct file *file = kept->fh ? files_find(&fs->files, kept->fh) : NULL;

	if (file)
		files_remove(&fs->files, &fs->inodes, file);
	kept->fh = 0;
}

static void claim(struct request *r, uint32_t part)
{
	struct fs *fs = r->fs;

	for (unsigned int i = 0; i < KEEP_REQUESTS; i++) {
		struct keep_request *kept = &fs->keep->requests[i];

		if (!fs->once.is_old[i] || kept->unique != r->unique ||
		    kept->part != part)
			continue;
		fs->once.is_old[i] = false;
		forget_open(fs, kept);
		r->kept = kept;
		r->goes_again = true;
		return;
	}
}

void once_arrived(struct request *r, const struct fuse_in_header *in)
{
	bool is_resent = (in->unique & KEEP_RESENT) != 0;

	r->unique = in->unique & ~KEEP_RESENT;
	r->is_resent = is_resent && r->fs->is_taking_over;
	r->is_late = is_resent && !r->is_resent && !r->fs->was_not_begun;
	if (r->is_resent)
		claim(r, 0);
}

bool once_has(const struct fs *fs, uint64_t unique)
{
	for (unsigned int i = 0; i < KEEP_REQUESTS; i++)
		if (fs->once.is_old[i] &&
		    fs->keep->requests[i].unique == unique)
			return true;
	return false;
}

unsigned int once_old(const struct fs *fs)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < KEEP_REQUESTS; i++)
		count += fs->once.is_old[i] && fs->keep->requests[i].part == 0;
	return count;
}

void once_over(struct fs *fs)
{
	for (unsigned int i = 0; i < KEEP_REQUESTS; i++) {
		if (fs->once.is_old[i])
			give(fs, &fs->keep->requests[i]);
		fs->once.is_old[i] = false;
	}
	once_told(fs);
}

/* ---- inodes that a reply tells of -------------------------------------------- */

void once_tells(struct request *r, struct inode *inode)
{
	struct keep_told *told = &r->fs->keep->told;

	RF_ASSERT(told->count < KEEP_TOLD);
	told->unique = r->unique;
	told->before = inode->lookups;
	told->inodes[told->count] = inode->item.index;
	rf_store_kept(&told->count, told->count + 1);
	inode_look(&r->fs->inodes, inode);
}

void once_told(struct fs *fs)
{
	if (fs->keep->told.count > 0)
		rf_store_kept(&fs->keep->told.count, 0);
}

void once_restore_told(struct fs *fs)
{
	struct keep_told *told = &fs->keep->told;
	const struct inode *last;

	if (told->count == 0)
		return;
	last = table_at(&fs->inodes.table, told->inodes[told->count - 1]);
	/* It died before that one was counted, or when it was no more. */
	if (!last || last->lookups == told->before)
		rf_store_kept(&told->count, told->count - 1);
	/* In this order: too many lookups do less harm than too few. */
	rf_store_kept(&told->before, UINT64_MAX);
}

static void take_last_back(struct fs *fs, struct keep_told *told)
{
	const struct inode *inode = table_at(&fs->inodes.table,
					     told->inodes[told->count - 1]);

	if (inode && inode->lookups > 0) {
		rf_store_kept(&told->before, inode->lookups - 1);
		inodes_forget(&fs->inodes, inode_nodeid(inode), 1);
	}
	rf_store_kept(&told->count, told->count - 1);
}

void once_was_not_told(struct fs *fs, uint64_t unique)
{
	struct keep_told *told = &fs->keep->told;

	while (told->count > 0 && told->unique == unique)
		take_last_back(fs, told);
}

/* From the answer that the record has.  False: it has none. */
static bool answer_again(struct request *r)
{
	struct rf_dec reply;

	if (r->kept->reply_size == 0 ||
	    rf_dec_init(&reply, r->kept->reply, r->kept->reply_size) < 0)
		return false;
	request_set_state(r, REQUEST_WORKING);
	r->answered(r, &reply);
	return true;
}

static void send_again(struct request *r)
{
	struct fs *fs = r->fs;
	uint64_t sent_as = step_of(r->kept)->sent_as;

	r->goes_again = false;
	if (answer_again(r))
		return;
	if (sent_as == 0) {
		rf_client_submit(fs->client, &r->call);
	} else if (!rf_client_submit_again(fs->client, &r->call, sent_as)) {
		request_set_state(r, REQUEST_WORKING);
		request_fail(r, -EIO);
	}
}

/* ---- on its way -------------------------------------------------------------- */

bool once_submit(struct request *r)
{
	if (r->unique == 0 || !r->changes)
		return false;
	/* It may have been begun, and was not read in time. */
	if (r->is_late) {
		request_set_state(r, REQUEST_WORKING);
		request_fail(r, -EIO);
		return true;
	}
	if (!r->kept)
		take(r, r->unique, 0);
	r->call.sent_as = &step_of(r->kept)->sent_as;
	if (!r->goes_again)
		return false;
	send_again(r);
	return true;
}

void once_answered(struct request *r, const struct rf_dec *reply)
{
	struct keep_request *kept = r->kept;
	uint32_t size = reply->header.size;

	/* That of an honest server is smaller; without it: EIO. */
	if (size > KEEP_REPLY_MAX)
		return;
	memcpy(kept->reply, reply->base, size);
	rf_store_kept(&kept->reply_size, size);
}

void once_opened(struct request *r, const struct file *file)
{
	if (r->kept)
		rf_store_kept(&r->kept->fh, file_fh(file));
	files_keep(&r->fs->files, file);
}

void once_end(struct request *r)
{
	struct keep_request *kept = r->kept;
	struct request *whole = r->whole;

	if (whole && whole->kept && kept->part)
		rf_store_kept(&whole->kept->parts_ended,
			      whole->kept->parts_ended |
				      UINT64_C(1) << (kept->part - 1));
	r->kept = NULL;
	give(r->fs, kept);
}

void once_release(struct request *r, const struct inode *inode, uint32_t open)
{
	/* Of an open that nobody wanted: its record goes on as this one. */
	if (r->kept)
		rf_store_kept(&r->kept->unique, 0);
	else
		take(r, 0, 0);
	r->kept->open = open;
	r->kept->inode = inode->item.index;
	rf_store_kept(&r->kept->unique, KEEP_RELEASE);
}

/* ---- writes ------------------------------------------------------------------ */

bool once_write_began(const struct request *r, uint32_t *done, uint32_t *sent)
{
	const struct keep_step *step;

	if (!r->goes_again)
		return false;
	step = step_of(r->kept);
	*done = step->done;
	*sent = step->sent_as ? step->size : 0;
	return true;
}

void once_write_sends(struct request *r, uint32_t done, uint32_t size)
{
	if (r->unique == 0 || r->goes_again)
		return;
	if (!r->kept)
		take(r, r->unique, r->whole ? r->part : 0);
	next_step(r->kept, done, size);
}

void once_write_done(struct request *r, uint32_t done)
{
	if (r->kept)
		next_step(r->kept, done, 0);
}

void once_whole(struct request *r, uint32_t part_size)
{
	if (!r->kept)
		take(r, r->unique, 0);
	r->goes_again = false;
	rf_store_kept(&r->kept->part_size, part_size);
}

void once_part(struct request *part, const struct request *whole,
	       unsigned int index)
{
	part->unique = whole->unique;
	part->is_resent = whole->is_resent;
	part->part = index + 1;
	if (part->is_resent)
		claim(part, part->part);
}

void once_stopped(const struct request *whole, uint64_t at, int err)
{
	struct keep_request *kept = whole->kept;

	if (!kept)
		return;
	kept->stopped_at = at;
	kept->stop_err = err;
	rf_store_kept(&kept->was_stopped, 1);
}

/* ---- the kernel ---------------------------------------------------------------- */

/* Of protocol 7.40, which older headers lack. */
enum { NOTIFY_RESEND = 7 };

bool once_is_told_only(const struct fuse_in_header *in)
{
	return in->opcode == FUSE_FORGET || in->opcode == FUSE_BATCH_FORGET ||
	       in->opcode == FUSE_INTERRUPT;
}

int once_reply(int fuse_fd, uint64_t unique, int err)
{
	const struct fuse_out_header out = {
		.len = sizeof(out),
		.error = err,
		.unique = unique,
	};

	return write(fuse_fd, &out, sizeof(out)) == sizeof(out) ? 0 : -errno;
}

int once_ask_again(int fuse_fd)
{
	return once_reply(fuse_fd, 0, NOTIFY_RESEND);
}

/* ---- kernels that send nothing again ----------------------------------------- */

/*
 * Uniques grow by two; each lies where it belongs, or at the next free place: it is
 * mostly the first, but for who comes after thousands that wait for locks.
 */
static uint64_t *find_unanswered(struct keep *keep, uint64_t home, uint64_t value)
{
	for (uint64_t i = 0; i < KEEP_UNANSWERED; i++) {
		uint64_t *at = &keep->unanswered[(home / 2 + i) %
						 KEEP_UNANSWERED];

		if (*at == value)
			return at;
	}
	return NULL;
}

void once_read(struct fs *fs, const struct fuse_in_header *in)
{
	uint64_t *at;

	if (fs->keep->kernel_resends || once_is_told_only(in))
		return;
	at = find_unanswered(fs->keep, in->unique, 0);
	if (at)
		rf_store_kept(at, in->unique);
}

void once_replied(struct fs *fs, uint64_t unique)
{
	uint64_t *at;

	if (fs->keep->kernel_resends || unique == 0)
		return;
	at = find_unanswered(fs->keep, unique, unique);
	if (at)
		rf_store_kept(at, 0);
}

unsigned int once_fail_all(struct keep *keep, int fuse_fd)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < KEEP_UNANSWERED; i++) {
		if (!keep->unanswered[i])
			continue;
		/* ENOENT: it had been replied to. */
		count += once_reply(fuse_fd, keep->unanswered[i], -EIO) == 0;
		keep->unanswered[i] = 0;
	}
	return count;
}

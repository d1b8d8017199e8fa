/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write.c - WRITE, and SETXATTR: data inside the message, or by one-sided WRITE
 * into a standing slot and a message right behind it
 *
 * Operation.  A large write is split into parts first (write_parts.c); each is a
 * write of its own here.  One goes in one message, or in several one after the
 * other: as much as inline_max inside the message, or as much as the slots
 * reach.  Slots are taken first come, first served.  The one-sided WRITEs of
 * write_block each and the message are posted together: their order on the
 * channel makes it one round trip.  The message invalidates the first slot's key
 * on its way in, if the server has keys that can be, so that it checks and stores
 * data which can't change any more.  The answer brings the slots back with new
 * keys.
 *
 * Slots are asked for when writes wait, up to write_slots.  If the server has
 * none at all for us, inline_max at a time goes inside messages instead.
 *
 * Ownership.  The kernel's message buffer stays with the request, for the data
 * are sent from it.
 *
 * When it fails.  An error after some bytes were stored is a short write, as
 * write(2) has it.
 */
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>

enum {
	SLOTS_AT_ONCE = 4,		/* a large write in parts */
	SLOTS_RETRY_MS = 100,		/* after the server had none */
};

/* ---- the end -------------------------------------------------------------- */

static void finish_part(struct request *r, int err)
{
	if (r->write.done < r->write.size)
		write_part_stopped(r, err);
	request_end(r);
}

void write_finish(struct request *r, int err)
{
	uint32_t done = r->write.done;
	struct fuse_write_out out = { .size = done };

	if (r->whole) {
		finish_part(r, err);
		return;
	}
	r->fs->stats.write_bytes += done;
	if (r->write.is_xattr || (err && done == 0)) {
		request_fail(r, err);
		return;
	}
	cache_give_end(r, r->write.offset + done);
	request_reply_data(r, &out, sizeof(out));
	request_end(r);
}

/*
 * The slots were lost with their connection, or taken back, before the server
 * took the data: nothing was stored, so the same again, by other slots.
 */
static bool was_void(const struct rf_results *results)
{
	return results->status == RF_ST_BAD_GRANT;
}

/* Where the bytes went, and what it did to the counter. */
static void note(struct request *r, const struct rf_write_results *in)
{
	struct change *change = &r->inode->change;

	cache_change_end(r, in->change_before, &in->attr);
	/* Put elsewhere (an append): pages that the kernel kept are wrong. */
	if (in->offset != r->write.offset + r->write.done)
		change->is_mixed = true;
	/* Past the page cache: what was read while it waited in the kernel may
	 * be older, and kernels before 6.6 keep all pages. */
	if (r->write.is_direct && change->has_pages)
		change->is_mixed = true;
}

static int take_slots_back(struct request *r, const rf_grants_t *rearmed)
{
	int err;

	/* They are of a former connection. */
	if (r->call.was_voided)
		return 0;
	err = slots_return(&r->fs->slots, &r->taken, rearmed, r->sent_ns);

	r->taken.count = 0;
	if (err)
		fs_lose(r->fs, "gave back write slots that were not used");
	write_slots_serve(r->fs);
	return err;
}

static void write_answered(struct request *r, struct rf_dec *reply)
{
	static const rf_grants_t none;
	struct rf_results results;
	int err = request_results(r, reply, RF_OP_WRITE, &results);
	bool has_slots = results.code == RF_OP_WRITE;

	if (take_slots_back(r, has_slots ? &results.write.rearmed : &none))
		err = -EIO;
	if (err && was_void(&results)) {
		request_again(r, write_go_on);
		return;
	}
	if (err) {
		write_finish(r, err);
		return;
	}
	request_arrived(r);
	note(r, &results.write);
	if (results.write.size == 0 || results.write.size > r->write.sent) {
		write_finish(r, -EIO);
		return;
	}
	r->write.done += results.write.size;
	once_write_done(r, r->write.done);
	if (results.write.size < r->write.sent ||
	    r->write.done == r->write.size)
		write_finish(r, 0);
	else
		write_go_on(r);
}

static void setxattr_answered(struct request *r, struct rf_dec *reply)
{
	static const rf_grants_t none;
	struct rf_results results;
	int err = request_results(r, reply, RF_OP_SETXATTR, &results);
	bool has_slots = results.code == RF_OP_SETXATTR;

	if (take_slots_back(r, has_slots ? &results.setxattr.rearmed : &none))
		err = -EIO;
	if (err && was_void(&results))
		request_again(r, write_go_on);
	else
		write_finish(r, err);
}

/* ---- one message ----------------------------------------------------------- */

static const uint8_t *sent_bytes(const struct request *r)
{
	return r->write.bytes + r->write.done;
}

static void put_blob(const struct request *r, rf_blob_t *blob)
{
	if (!r->write.is_inline)
		return;
	blob->bytes = sent_bytes(r);
	blob->size = r->write.sent;
}

static void put_write(struct request *r)
{
	struct rf_args args = { .code = RF_OP_WRITE };

	args.write.open = r->file->open;
	args.write.offset = r->write.offset + r->write.done;
	args.write.flags = r->write.flags;
	args.write.pieces = r->write.pieces;
	put_blob(r, &args.write.data);
	request_put(r, &args);
}

static void put_setxattr(struct request *r)
{
	struct rf_args args = { .code = RF_OP_SETXATTR };

	args.setxattr.name.bytes = r->write.name;
	args.setxattr.name.size = (uint16_t)strlen(r->write.name);
	args.setxattr.flags = r->write.flags;
	args.setxattr.pieces = r->write.pieces;
	put_blob(r, &args.setxattr.data);
	request_put(r, &args);
}

/* False: it was killed.  A part's is its whole's. */
static bool has_caller(const struct request *r)
{
	return r->whole ? r->whole->fuse != NULL : r->fuse != NULL;
}

static void begin_change(struct request *r)
{
	if (r->write.is_xattr || r->is_changing)
		return;
	cache_change_begin(r, !r->write.is_direct);
}

/* The message, with work_count works before it. */
static void send_message(struct request *r, unsigned int work_count)
{
	if (!request_begin(r))
		return;
	begin_change(r);
	once_write_sends(r, r->write.done, r->write.sent);
	request_use(r, r->inode);
	if (r->write.is_xattr)
		put_setxattr(r);
	else
		put_write(r);
	r->call.works = work_count ? r->works : NULL;
	r->call.work_count = work_count;
	/* The server's, whatever our own device can do. */
	if (r->taken.count && r->fs->has_windows)
		r->call.inv_key = r->taken.v[0].rkey;
	request_send(r, r->write.is_xattr ? setxattr_answered : write_answered);
}

/* Blocks such that all pieces need at most WORKS_MAX. */
static uint32_t block_of(const struct request *r)
{
	uint32_t least = r->write.sent / (WORKS_MAX - RF_GRANTS_MAX) + 1;
	uint32_t block = r->fs->options.write_block;

	return block > least ? block : (uint32_t)rf_align_up(least, 4096);
}

/* Add the works that fill one slot. */
static unsigned int build_piece(struct request *r, unsigned int count,
				const struct rf_grant *slot,
				const uint8_t *bytes, uint32_t piece_size)
{
	uint32_t block = block_of(r);

	for (uint32_t at = 0; at < piece_size; count++) {
		uint32_t size = (uint32_t)rf_min_u64(block, piece_size - at);

		RF_ASSERT(count < WORKS_MAX);
		r->sges[count] = (struct rf_sge){
			.addr = (void *)(uintptr_t)(bytes + at),
			.size = size,
			.mr = r->fs->way.mr,
		};
		r->works[count] = (struct rf_work){
			.code = RF_WRITE,
			.sge = &r->sges[count],
			.sge_count = 1,
			.remote = { .addr = slot->addr + at,
				    .rkey = slot->rkey,
				    .size = size },
		};
		at += size;
	}
	return count;
}

/* Spread the bytes over the taken slots. */
static unsigned int build(struct request *r)
{
	const uint8_t *bytes = sent_bytes(r);
	rf_pieces_t *pieces = &r->write.pieces;
	uint32_t left = r->write.sent;
	unsigned int count = 0;

	pieces->count = 0;
	for (unsigned int i = 0; left > 0; i++) {
		const struct rf_grant *slot = &r->taken.v[i];
		uint32_t size = (uint32_t)rf_min_u64(left, slot->size);
		struct rf_piece *piece = &pieces->v[pieces->count++];

		piece->slot = slot->id;
		piece->size = size;
		piece->crc = r->fs->has_crc ? rf_crc32c(0, bytes, size) : 0;
		count = build_piece(r, count, slot, bytes, size);
		bytes += size;
		left -= size;
	}
	return count;
}

/* no_pipeline: the connection is lost, and the slots with it. */
static void wait_for_slots(struct request *r)
{
	r->taken.count = 0;
	request_set_state(r, REQUEST_SLOTS);
	rf_list_push(&r->fs->slots_waiting, &r->link);
}

/* no_pipeline: the data are there, now the message. */
static void moved(struct rf_op *op, int status)
{
	struct request *r = rf_container_of(op, struct request, op);

	request_set_state(r, REQUEST_WORKING);
	if (!has_caller(r))
		write_finish(r, -EIO);
	else if (status)
		wait_for_slots(r);
	else
		send_message(r, 0);
}

static void send_apart(struct request *r, unsigned int count)
{
	int err;

	begin_change(r);
	r->op.done = moved;
	r->works[count - 1].op = &r->op;
	request_set_state(r, REQUEST_PULLING);
	err = r->fs->client ? rf_client_post(r->fs->client, r->works, count)
			    : -ENOTCONN;
	if (err) {
		request_set_state(r, REQUEST_WORKING);
		if (err == -ENOTCONN)
			wait_for_slots(r);
		else
			write_finish(r, err == -EAGAIN ? -EBUSY : -EIO);
	}
}

static void send_chosen(struct request *r)
{
	unsigned int count;

	if (r->write.is_xattr && r->write.sent < r->write.size) {
		write_finish(r, -ENOSPC);	/* a value goes whole */
		return;
	}
	if (r->write.is_inline) {
		r->write.pieces.count = 0;
		r->fs->stats.inline_writes++;
		send_message(r, 0);
		return;
	}
	count = build(r);
	if (r->fs->options.no_pipeline)
		send_apart(r, count);
	else
		send_message(r, count);
}

/* ---- slots ---------------------------------------------------------------- */

/* How many more we may ask for. */
static unsigned int slots_wanted(const struct fs *fs)
{
	unsigned int most = (unsigned int)rf_min_u64(
		rf_min_u64(fs->options.write_slots, fs->limits.write_slots),
		SLOTS_MAX);

	return most > fs->slots.count ? most - fs->slots.count : 0;
}

/* No slots, and none to be had for now. */
static bool is_denied(const struct fs *fs)
{
	return fs->slots.count == 0 && !fs->is_asking_slots &&
	       (slots_wanted(fs) == 0 ||
		rf_reactor_now_ns(fs->reactor) < fs->slots_retry_ns);
}

static void drop_answered(struct request *r, struct rf_dec *reply)
{
	struct rf_results results;

	request_results(r, reply, RF_OP_DROP_SLOTS, &results);
	request_end(r);
}

/* The server takes them for free as soon as it needs them, so it is no harm if
 * there is nothing to tell it with. */
static void drop_slots(struct fs *fs, const uint32_t *ids, unsigned int count)
{
	uint8_t bytes[SLOTS_MAX * 4];
	const struct rf_args args = {
		.code = RF_OP_DROP_SLOTS,
		.drop_slots = { { bytes, count * 4 } },
	};
	struct request *r = request_spare(fs);

	if (!r || !request_begin(r))
		return;
	for (unsigned int i = 0; i < count; i++)
		rf_store_u32(bytes + i * 4, ids[i]);
	request_put(r, &args);
	request_send(r, drop_answered);
}

static void give_up_old_slots(struct fs *fs)
{
	uint32_t ids[SLOTS_MAX];
	unsigned int count =
		slots_give_up(&fs->slots, request_oldest_ns(fs), ids);

	if (count > 0)
		drop_slots(fs, ids, count);
}

/* Choose how much goes next, and take slots for it.  False: wait. */
static bool choose_size(struct request *r)
{
	struct fs *fs = r->fs;
	uint32_t left = r->write.size - r->write.done;
	uint32_t inline_max = fs->limits.inline_max, reach;

	give_up_old_slots(fs);
	reach = slots_reach(&fs->slots);
	if (!r->write.is_xattr)
		left = (uint32_t)rf_min_u64(left, fs->limits.block_max);
	r->write.is_inline = left <= inline_max || is_denied(fs);
	if (r->write.is_inline) {
		r->write.sent = (uint32_t)rf_min_u64(left, inline_max);
		return true;
	}
	r->write.sent = (uint32_t)rf_min_u64(left, reach);
	return reach > 0 && slots_take(&fs->slots, r->write.sent, &r->taken);
}

static void slots_answered(struct request *r, struct rf_dec *reply)
{
	struct fs *fs = r->fs;
	struct rf_results results;
	int err = request_results(r, reply, RF_OP_SLOTS, &results);
	unsigned int added = 0;

	fs->is_asking_slots = false;
	if (!err)
		added = slots_add(&fs->slots, &results.slots.slots,
				  r->sent_ns);
	if (added == 0) {
		fs->slots_denied++;
		fs->slots_retry_ns = rf_reactor_now_ns(fs->reactor) +
				     SLOTS_RETRY_MS * UINT64_C(1000000);
	}
	request_end(r);
	write_slots_serve(fs);
}

void write_slots_ask(struct fs *fs)
{
	struct rf_args args = { .code = RF_OP_SLOTS };
	unsigned int wanted = (unsigned int)rf_min_u64(SLOTS_AT_ONCE,
						       slots_wanted(fs));
	struct request *r;

	if (wanted == 0 || fs->is_asking_slots ||
	    rf_reactor_now_ns(fs->reactor) < fs->slots_retry_ns)
		return;
	r = request_spare(fs);
	if (!r)
		return;
	args.slots.count = (uint16_t)rf_min_u64(wanted, RF_GRANTS_MAX);
	args.slots.size = (uint32_t)rf_min_u64(DATA_MAX, fs->limits.block_max);
	fs->is_asking_slots = true;
	if (!request_begin(r)) {
		fs->is_asking_slots = false;
		return;
	}
	request_put(r, &args);
	request_send(r, slots_answered);
}

void write_slots_serve(struct fs *fs)
{
	while (!rf_list_is_empty(&fs->slots_waiting)) {
		struct request *r = rf_container_of(fs->slots_waiting.next,
						    struct request, link);

		if (!choose_size(r))
			break;
		rf_list_remove(&r->link);
		request_set_state(r, REQUEST_WORKING);
		send_chosen(r);
	}
	if (!rf_list_is_empty(&fs->slots_waiting))
		write_slots_ask(fs);
}

void write_slots_lost(struct fs *fs)
{
	fs->slots = (struct slots){ .count = 0 };
	fs->slots_retry_ns = 0;
}

void write_start(struct fs *fs)
{
	write_slots_ask(fs);
}

/*
 * A daemon that died has sent it.  What went by slots names none: if the server
 * has not run it, it says so.
 */
static bool send_as_before(struct request *r)
{
	uint32_t done, sent;

	if (!once_write_began(r, &done, &sent))
		return false;
	if (done > r->write.size || sent > r->write.size - done) {
		write_finish(r, -EIO);
		return true;
	}
	r->write.done = done;
	r->goes_again = sent > 0;
	if (sent == 0)
		return false;
	r->write.sent = sent;
	r->write.is_inline = sent <= r->fs->limits.inline_max;
	r->write.pieces.count = !r->write.is_inline;
	r->write.pieces.v[0] = (struct rf_piece){ .size = sent };
	send_message(r, 0);
	return true;
}

void write_go_on(struct request *r)
{
	struct fs *fs = r->fs;
	bool is_small;

	/* Its caller was killed meanwhile, and may have closed the file. */
	if (!has_caller(r)) {
		write_finish(r, 0);
		return;
	}
	if (send_as_before(r))
		return;
	is_small = r->write.size - r->write.done <= fs->limits.inline_max;
	if ((is_small || rf_list_is_empty(&fs->slots_waiting)) &&
	    choose_size(r)) {
		send_chosen(r);
		return;
	}
	fs->stats.slot_waits++;
	request_set_state(r, REQUEST_SLOTS);
	rf_list_push(&fs->slots_waiting, &r->link);
	write_slots_serve(fs);
}

/* ---- handlers ------------------------------------------------------------- */

/* The kernel's message stays with r. */
static void keep_message(struct request *r)
{
	r->data = r->fs->rx;
	r->fs->rx = NULL;
}

static uint32_t write_flags(const struct fuse_write_in *in)
{
	uint32_t flags = 0;

	/*
	 * Written back from a mapping: some open's flags, not the writer's, and
	 * another mount may have made the file shorter meanwhile.
	 */
	if (in->write_flags & FUSE_WRITE_CACHE)
		flags |= RF_WRITE_INSIDE;
	else if (in->flags & O_APPEND)
		flags |= RF_WRITE_APPEND;
	if (in->write_flags & FUSE_WRITE_KILL_SUIDGID)
		flags |= RF_WRITE_KILL_PRIV;
	if ((in->flags & O_SYNC) == O_SYNC)
		flags |= RF_WRITE_SYNC;
	else if (in->flags & O_DSYNC)
		flags |= RF_WRITE_DSYNC;
	return flags;
}

static bool can_write(const struct fs *fs, const struct file *file)
{
	return file->open != 0 && !file->is_released &&
	       !file_is_dead(fs, file) && file->wire_flags & RF_OPEN_WRITE;
}

/*
 * What is written back may have been stored by any open's mapping, and the kernel
 * has named the one that was mapped last.  If that is dead, others need not be.
 */
static void choose_open(const struct fs *fs, struct fuse_file_info *fi)
{
	const struct files *files = &fs->files;
	const struct file *named = files_find(files, fi->fh);

	if (!named || !file_is_dead(fs, named))
		return;
	for (uint32_t i = 1; i <= files->table.used; i++) {
		const struct file *file = table_at(&files->table, i);

		if (file && file->inode == named->inode &&
		    can_write(fs, file)) {
			fi->fh = file_fh(file);
			return;
		}
	}
}

static void do_write(fuse_req_t fuse, fuse_ino_t nodeid, const char *bytes,
		     size_t size, off_t offset, struct fuse_file_info *fi)
{
	const struct fuse_write_in *in;
	struct request *r;

	in = fuse_io_raw(fuse_req_userdata(fuse));
	if (in->write_flags & FUSE_WRITE_CACHE)
		choose_open(fuse_req_userdata(fuse), fi);
	r = request_take_file(fuse, nodeid, fi);
	if (!r)
		return;
	if (size == 0 || size > DATA_MAX) {
		request_fail(r, size ? -EINVAL : 0);
		return;
	}
	r->write.offset = (uint64_t)offset;
	r->write.bytes = (const uint8_t *)bytes;
	r->write.size = (uint32_t)size;
	r->write.done = 0;
	r->write.flags = write_flags(in);
	r->write.is_xattr = false;
	r->write.is_direct = r->file->is_direct;
	keep_message(r);
	if (!write_split(r))
		write_go_on(r);
}

void write_xattr(struct request *r, const rf_xname_t *name, const void *value,
		 size_t size, uint32_t flags)
{
	if (size > RF_XATTR_SIZE_MAX) {
		request_fail(r, -E2BIG);
		return;
	}
	memcpy(r->write.name, name->bytes, name->size);
	r->write.name[name->size] = '\0';
	r->write.bytes = value;
	r->write.size = (uint32_t)size;
	r->write.done = 0;
	r->write.flags = flags;
	r->write.is_xattr = true;
	keep_message(r);
	write_go_on(r);
}

void write_fill(struct fuse_lowlevel_ops *ops)
{
	ops->write = do_write;
}

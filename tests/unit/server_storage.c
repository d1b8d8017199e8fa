/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server leaves in its store when something fails half way: batches that
 * are dropped, writes that meet a full disk, syncs that fail, a restart.
 */
#define SUITE server_storage
#include "tests/unit/server_ops.h"

#include "storage-server/exec.h"

#include "storage-server/store_impl.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MIB = 1 << 20, SIZE = 3000 };

static uint8_t data[MIB], out[MIB];

/* ---- faults: of data files only ------------------------------------------ */

static _Atomic int writes_until_full = -1;	/* of pwrite(); -1: never */
static _Atomic int failing_syncs;
static _Atomic bool workers_are_held;	/* before they write */
static _Atomic int held_workers;	/* how many are */
static _Atomic int slow_writes;		/* wait for the disk */

static bool is_data_file(int fd)
{
	char link[32], path[256];
	ssize_t size;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	size = readlink(link, path, sizeof(path) - 1);
	path[size > 0 ? size : 0] = 0;
	return strstr(path, "/data/") != NULL;
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
	if (atomic_load(&workers_are_held) && gettid() != getpid() &&
	    is_data_file(fd)) {
		atomic_fetch_add(&held_workers, 1);
		while (atomic_load(&workers_are_held))
			sched_yield();
		atomic_fetch_sub(&held_workers, 1);
	}
	if (atomic_load(&slow_writes) > 0 && is_data_file(fd)) {
		atomic_fetch_sub(&slow_writes, 1);
		usleep(2 * PACE_SLOW_MS * 1000);
	}
	if (atomic_load(&writes_until_full) >= 0 && is_data_file(fd) &&
	    atomic_fetch_sub(&writes_until_full, 1) == 0) {
		errno = ENOSPC;
		return -1;
	}
	return syscall(SYS_pwrite64, fd, bytes, size, offset);
}

int fdatasync(int fd)
{
	if (atomic_load(&failing_syncs) > 0 && is_data_file(fd)) {
		atomic_fetch_sub(&failing_syncs, 1);
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

static _Atomic bool disk_is_full;	/* until a data file is removed */
static _Atomic bool removals_are_held;

int fstatvfs(int fd, struct statvfs *vfs)
{
	struct statfs fs;

	if (fstatfs(fd, &fs))
		return -1;
	*vfs = (struct statvfs){
		.f_bsize = (unsigned long)fs.f_bsize,
		.f_frsize = (unsigned long)fs.f_frsize,
		.f_blocks = fs.f_blocks,
		.f_files = fs.f_files,
		.f_ffree = fs.f_ffree,
	};
	if (!atomic_load(&disk_is_full)) {
		vfs->f_bfree = fs.f_bfree;
		vfs->f_bavail = fs.f_bavail;
	}
	return 0;
}

int unlinkat(int dir, const char *path, int flags)
{
	int ret;

	while (atomic_load(&removals_are_held) && gettid() != getpid())
		sched_yield();
	ret = (int)syscall(SYS_unlinkat, dir, path, flags);
	if (gettid() != getpid())
		atomic_store(&disk_is_full, false);
	return ret;
}

/* From now on nothing may grow, or all may. */
static void set_reserve(uint64_t bytes)
{
	rig.server->store->config.reserve_bytes = bytes;
	atomic_store(&rig.server->store->space_checked_ns, 0);
}

/* ---- files --------------------------------------------------------------- */

static rf_handle_t make_filled(const char *name, uint32_t *open)
{
	rf_handle_t handle = smake(&client, name, RW, open);

	spattern(data, SIZE, 7);
	cr_assert_eq(swrite(&client, &handle, *open, 0, data, SIZE), RF_ST_OK);
	return handle;
}

static uint64_t size_of(const rf_handle_t *handle)
{
	OK(handle, { .code = RF_OP_GETATTR });
	return SRES(&call, 0, getattr).attr.size;
}

static void is_untouched(const rf_handle_t *handle, uint32_t open)
{
	cr_assert_eq(size_of(handle), SIZE);
	cr_assert_eq(sread(&client, handle, open, 0, SIZE, out), SIZE);
	spattern(data, SIZE, 7);
	cr_assert_arr_eq(out, data, SIZE);
}

static bool is_zero(const uint8_t *at, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (at[i])
			return false;
	return true;
}

/* ---- truncates ----------------------------------------------------------- */

SCENARIO(a_cut_whose_batch_is_dropped_leaves_the_whole_file)
{
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = make_filled("a", &open);
	set_reserve(UINT64_C(1) << 60);
	FAILS(NOSPC, &handle, OP_SIZE(0, 10),
	      { .code = RF_OP_USE, .use = { client.root } }, OP_MKDIR("d"));
	is_untouched(&handle, open);
	FAILS(NOSPC, &handle, OP_OPEN(RW | RF_OPEN_TRUNC),
	      { .code = RF_OP_USE, .use = { client.root } }, OP_MKDIR("d"));
	is_untouched(&handle, open);
	FAILS(NOSPC, &client.root, OP_CREATE("a", RW | RF_OPEN_TRUNC),
	      { .code = RF_OP_USE, .use = { client.root } }, OP_MKDIR("d"));
	is_untouched(&handle, open);
	set_reserve(0);
	/* And it may still be cut, and grow over what was there. */
	OK(&handle, OP_SIZE(0, 10));
	OK(&handle, OP_SIZE(open, 2 * SIZE));
	cr_assert_eq(sread(&client, &handle, open, 0, sizeof(out), out),
		     2 * SIZE);
	cr_assert_arr_eq(out, data, 10);
	cr_assert(is_zero(out + 10, 2 * SIZE - 10));
	end();
}

/* The data file's own size. */
static off_t stored_size(const rf_handle_t *handle)
{
	char path[DATA_PATH_SIZE];
	struct stat st;

	data_path(handle->inode, path);
	cr_assert_eq(fstatat(rig.server->store->data_fd, path, &st, 0), 0);
	return st.st_size;
}

SCENARIO(a_cut_is_done_before_its_answer)
{
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = make_filled("a", &open);
	OK(&handle, OP_SIZE(open, 100));
	cr_assert_eq(stored_size(&handle), 100);
	OK(&handle, OP_OPEN(RW | RF_OPEN_TRUNC));
	cr_assert_eq(stored_size(&handle), 0);
	end();
}

SCENARIO(what_a_message_cuts_and_grows_again_is_zeroes)
{
	static const uint8_t text[] = "text";
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = make_filled("a", &open);
	OK(&handle, OP_SIZE(0, 100), OP_SIZE(0, 2000), OP_SIZE(0, 1000),
	   OP_READ(open, 90, 20));
	cr_assert_arr_eq(SRES(&call, 3, read).data.bytes, data + 90, 10);
	cr_assert(is_zero(SRES(&call, 3, read).data.bytes + 10, 10));
	OK(&handle, OP_SIZE(0, SIZE));
	cr_assert_eq(sread(&client, &handle, open, 0, SIZE, out), SIZE);
	cr_assert_arr_eq(out, data, 100);
	cr_assert(is_zero(out + 100, SIZE - 100));

	handle = make_filled("b", &open);
	OK(&handle, OP_OPEN(RW | RF_OPEN_TRUNC),
	   OP_WRITE(0, 1000, 0, text, 4), OP_READ(0, 0, 1004));
	cr_assert_eq(SRES(&call, 2, read).size, 1004);
	cr_assert(is_zero(SRES(&call, 2, read).data.bytes, 1000));
	cr_assert_eq(stored_size(&handle), 1004);
	cr_assert_eq(sread(&client, &handle, open, 0, SIZE, out), 1004);
	cr_assert(is_zero(out, 1000));
	cr_assert_arr_eq(out + 1000, text, 4);
	end();
}

SCENARIO(one_message_cuts_two_files_not_three)
{
	rf_handle_t files[3];
	uint32_t opens[3];

	begin(scheme);
	for (unsigned int i = 0; i < 3; i++) {
		char name[2] = { (char)('a' + i), 0 };

		files[i] = make_filled(name, &opens[i]);
	}
	FAILS(TOO_MANY, &files[2], OP_SIZE(0, 1),
	      { .code = RF_OP_USE, .use = { files[0] } }, OP_SIZE(0, 1),
	      { .code = RF_OP_USE, .use = { files[1] } }, OP_SIZE(0, 1));
	cr_assert_eq(size_of(&files[0]), 1);
	cr_assert_eq(stored_size(&files[0]), 1);
	cr_assert_eq(size_of(&files[2]), 1);
	is_untouched(&files[1], opens[1]);
	end();
}

/* ---- writes beyond the end ----------------------------------------------- */

struct block {
	struct scall call;
	struct rf_grant slot;
	struct rf_buf *buf;
};

static void start_flagged(struct block *block, const rf_handle_t *handle,
			  uint32_t open, uint64_t offset, uint64_t seed,
			  uint32_t flags)
{
	struct rf_args args = {
		.code = RF_OP_WRITE,
		.write = { .open = open, .offset = offset, .flags = flags },
	};

	block->buf = rf_pool_get(rig.pool, MIB);
	spattern(block->buf->mem, MIB, seed);
	args.write.pieces = (rf_pieces_t){ 1, { { block->slot.id, MIB,
		rf_crc32c(0, block->buf->mem, MIB) } } };
	scall_init(&block->call, &client);
	scall_add(&block->call, &(struct rf_args){ .code = RF_OP_USE,
						   .use = { *handle } });
	scall_add(&block->call, &args);
	scall_fill(&block->call, &block->slot, block->buf, MIB);
	block->call.call.inv_key = block->slot.rkey;
	block->call.call.identity = 1;
	scall_submit(&block->call);
}

static void start_block(struct block *block, const rf_handle_t *handle,
			uint32_t open, uint64_t offset, uint64_t seed)
{
	start_flagged(block, handle, open, offset, seed, 0);
}

/* It is left to a worker. */
static void start_part(struct block *block, const rf_handle_t *handle,
		       uint32_t open, uint64_t offset, uint64_t seed)
{
	start_flagged(block, handle, open, offset, seed, RF_WRITE_PART);
}

static unsigned int end_block(struct block *block)
{
	scall_wait(&block->call);
	rf_pool_put(block->buf);
	block->slot = SRES(&block->call, 0, write).rearmed.v[0];
	return block->call.results[1].status;
}

static void get_slots(struct block *blocks, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		cr_assert_eq(sslots(&client, 1, MIB, &blocks[i].slot), 1);
}

SCENARIO(writes_that_grow_a_file_do_not_wait_for_each_other)
{
	enum { COUNT = 3 };
	static struct block blocks[COUNT];
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = smake(&client, "a", RW, &open);
	get_slots(blocks, COUNT);
	/* The last one first: each leaves a gap. */
	for (unsigned int i = COUNT; i-- > 0; )
		start_block(&blocks[i], &handle, open, (uint64_t)i * MIB, i);
	for (unsigned int i = 0; i < COUNT; i++)
		cr_assert_eq(end_block(&blocks[i]), RF_ST_OK);
	cr_assert_eq(rig.server->busy.waits, 0);
	cr_assert_eq(size_of(&handle), (uint64_t)COUNT * MIB);
	for (unsigned int i = 0; i < COUNT; i++) {
		spattern(data, MIB, i);
		cr_assert_eq(sread(&client, &handle, open, (uint64_t)i * MIB,
				   MIB, out), MIB);
		cr_assert_arr_eq(out, data, MIB);
	}
	end();
}

/* WRITE of two slots, of which the second meets a full disk. */
static void write_half(const rf_handle_t *handle, uint32_t open,
		       uint64_t offset)
{
	struct rf_args args = {
		.code = RF_OP_WRITE,
		.write = { .open = open, .offset = offset },
	};
	struct rf_buf *buf = rf_pool_get(rig.pool, MIB);
	static struct scall two;
	struct rf_grant slots[2];
	uint8_t ids[8];

	spattern(buf->mem, 4096, 3);
	cr_assert_eq(sslots(&client, 2, 4096, slots), 2);
	args.write.pieces.count = 2;
	scall_init(&two, &client);
	for (unsigned int i = 0; i < 2; i++) {
		args.write.pieces.v[i] = (struct rf_piece){ slots[i].id, 4096,
			rf_crc32c(0, buf->mem, 4096) };
		scall_fill(&two, &slots[i], buf, 4096);
	}
	scall_add(&two, &(struct rf_args){ .code = RF_OP_USE,
					   .use = { *handle } });
	scall_add(&two, &args);
	two.call.inv_key = slots[0].rkey;
	two.call.identity = 1;
	atomic_store(&writes_until_full, 1);
	scall_submit(&two);
	scall_wait(&two);
	atomic_store(&writes_until_full, -1);
	rf_pool_put(buf);
	cr_assert_eq(two.results[1].status, RF_ST_NOSPC);
	for (unsigned int i = 0; i < 2; i++)
		rf_store_u32(ids + 4 * i,
			     SRES(&two, 0, write).rearmed.v[i].id);
	OK(handle, { .code = RF_OP_DROP_SLOTS, .drop_slots = { { ids, 8 } } });
}

SCENARIO(what_a_failed_write_left_is_never_in_the_file)
{
	struct object *object;
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = make_filled("a", &open);
	/* As if others used the file: it is not cut when the write ends. */
	cr_assert_eq(object_get(rig.server->store, handle.inode, &object), 0);
	write_half(&handle, open, 2 * SIZE);
	cr_assert_eq(size_of(&handle), SIZE);
	cr_assert_eq(swrite(&client, &handle, open, 30000, "x", 1), RF_ST_OK);
	cr_assert_eq(sread(&client, &handle, open, SIZE, 30001 - SIZE, out),
		     30001 - SIZE);
	cr_assert(is_zero(out, 30000 - SIZE));
	write_half(&handle, open, 40000);
	object_put(object);
	cr_assert_eq(stored_size(&handle), 30001, "the last user cuts");
	end();
}

static bool is_at_work(void)
{
	const struct session *session = sclient_session(&client);

	for (unsigned int i = 0; i < session->exec_count; i++)
		if (session->execs[i].state == EXEC_WAITS_WORK)
			return true;
	return false;
}

/* A store that a busy machine held up is no sign of the disk. */
static void forget_pace(void)
{
	rig.server->pace = (struct pace){ .turn_ns = 0 };
}

/* Alone it costs no hand-over between threads; of a larger write it does. */
SCENARIO(a_write_on_its_own_is_stored_at_once)
{
	static struct block blocks[2];
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = make_filled("a", &open);
	get_slots(blocks, 2);
	atomic_store(&workers_are_held, true);
	forget_pace();
	start_block(&blocks[0], &handle, open, 0, 1);
	cr_assert_eq(end_block(&blocks[0]), RF_ST_OK, "while none works");
	start_part(&blocks[1], &handle, open, MIB, 2);
	srig_until(&rig, is_at_work());
	forget_pace();
	start_block(&blocks[0], &handle, open, 0, 3);
	cr_assert_eq(end_block(&blocks[0]), RF_ST_OK);
	cr_assert(is_at_work(), "the part waits still");
	atomic_store(&workers_are_held, false);
	cr_assert_eq(end_block(&blocks[1]), RF_ST_OK);
	spattern(data, MIB, 3);
	cr_assert_eq(sread(&client, &handle, open, 0, MIB, out), MIB);
	cr_assert_arr_eq(out, data, MIB);
	end();
}

/* The disk makes a writer wait: the next ones are left to workers. */
SCENARIO(a_slow_disk_does_not_hold_the_reactor)
{
	static struct block block;
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = make_filled("a", &open);
	get_slots(&block, 1);
	forget_pace();
	atomic_store(&slow_writes, 1);
	start_block(&block, &handle, open, 0, 1);
	cr_assert_eq(end_block(&block), RF_ST_OK);
	cr_assert_eq(rig.server->pace.slow_stores, 1);
	atomic_store(&workers_are_held, true);
	start_block(&block, &handle, open, 0, 2);
	srig_until(&rig, is_at_work());
	atomic_store(&workers_are_held, false);
	cr_assert_eq(end_block(&block), RF_ST_OK);
	end();
}

/*
 * A write with a gap is on a worker while another, in the gap, fails: the one
 * that comes back finds that the gap is not clean, and clears it.
 */
SCENARIO(a_gap_is_cleared_of_what_failed_meanwhile)
{
	static struct block block;
	struct object *object;
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = make_filled("a", &open);
	get_slots(&block, 1);
	atomic_store(&workers_are_held, true);
	start_part(&block, &handle, open, MIB, 9);
	srig_until(&rig, is_at_work());
	/* What the failed one does, as its worker would. */
	cr_assert_eq(object_get(rig.server->store, handle.inode, &object), 0);
	cr_assert_eq(object_write(object, "garbage", 7, 2 * SIZE), 0);
	object_note_rest(object);
	object_put(object);
	atomic_store(&workers_are_held, false);
	cr_assert_eq(end_block(&block), RF_ST_OK);
	cr_assert_eq(sread(&client, &handle, open, SIZE, MIB - SIZE, out),
		     MIB - SIZE);
	cr_assert(is_zero(out, MIB - SIZE));
	cr_assert_eq(sread(&client, &handle, open, MIB, MIB, out), MIB);
	spattern(data, MIB, 9);
	cr_assert_arr_eq(out, data, MIB);
	end();
}

/* ---- while a worker writes ------------------------------------------------ */

/* Open "a" and cut it to nothing; the answer is not waited for. */
static void start_emptying(struct scall *emptying)
{
	const struct rf_args args = OP_CREATE("a", RW | RF_OPEN_TRUNC);

	scall_init(emptying, &client);
	scall_add(emptying, &(struct rf_args){ .code = RF_OP_USE,
					       .use = { client.root } });
	scall_add(emptying, &args);
	emptying->call.identity = 1;
	scall_submit(emptying);
}

/* It would have to wait, and meanwhile its name becomes another file's: that one is
 * opened and emptied, not the one that had the name. */
SCENARIO(a_file_renamed_while_its_truncation_waits_stays_whole)
{
	static struct scall emptying;
	static struct block block;
	rf_handle_t handle, other;
	uint32_t open, other_open;

	begin(scheme);
	handle = make_filled("a", &open);
	get_slots(&block, 1);
	atomic_store(&workers_are_held, true);
	start_part(&block, &handle, open, 0, 9);
	srig_until(&rig, is_at_work());
	start_emptying(&emptying);
	srig_until(&rig, rig.server->busy.waits == 1);
	OK(&client.root, OP_RENAME("a", client.root, "b", 0));
	other = make_filled("a", &other_open);
	atomic_store(&workers_are_held, false);
	cr_assert_eq(end_block(&block), RF_ST_OK);
	scall_wait(&emptying);
	cr_assert_eq(emptying.results[1].status, RF_ST_OK);
	cr_assert_eq(SRES(&emptying, 0, create).handle.inode, other.inode);
	cr_assert_eq(size_of(&other), 0);
	cr_assert_eq(size_of(&handle), MIB);
	cr_assert_eq(sread(&client, &handle, open, 0, MIB, out), MIB);
	spattern(data, MIB, 9);
	cr_assert_arr_eq(out, data, MIB);
	end();
}

/* Each of them, also the second of one message. */
SCENARIO(what_was_written_between_two_truncations_goes_with_the_second)
{
	static const uint8_t text[] = "text";
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = make_filled("a", &open);
	OK(&handle, OP_OPEN(RW | RF_OPEN_TRUNC), OP_WRITE(0, 0, 0, text, 4),
	   OP_OPEN(RW | RF_OPEN_TRUNC));
	cr_assert_eq(SRES(&call, 2, open).attr.size, 0);
	cr_assert_eq(size_of(&handle), 0);
	end();
}

/* A sync that ended before the worker had written what it was about to. */
SCENARIO(a_sync_beside_a_write_does_not_make_it_durable)
{
	static struct block block;
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = make_filled("a", &open);
	get_slots(&block, 1);
	atomic_store(&workers_are_held, true);
	start_part(&block, &handle, open, 0, 9);
	srig_until(&rig, atomic_load(&held_workers) == 1);
	OK(&handle, OP_FSYNC(open));
	atomic_store(&workers_are_held, false);
	cr_assert_eq(end_block(&block), RF_ST_OK);
	cr_assert(store_needs_flush(rig.server->store, handle.inode),
		  "a rename over a file would not sync it");
	OK(&handle, OP_FSYNC(open));
	cr_assert_not(store_needs_flush(rig.server->store, handle.inode));
	end();
}

/* ---- room that a removal makes -------------------------------------------- */

/* The disk is full, and will have room when a file that is deleted now has gone. */
static void fill_disk(const char *name)
{
	rf_handle_t handle;
	uint32_t open;

	handle = make_filled(name, &open);
	OK(&handle, OP_RELEASE(open));
	atomic_store(&disk_is_full, true);
	atomic_store(&rig.server->store->space_checked_ns, 0);
	FAILS(NOSPC, &client.root, OP_MKDIR("nothing was deleted"));
	atomic_store(&removals_are_held, true);
	OK(&client.root, OP_UNLINK(name));
}

/* On handle, which needs room: it is not answered before the file has gone. */
static void waits_for_room(const rf_handle_t *handle, const struct rf_args *args)
{
	const struct rf_args use = { .code = RF_OP_USE, .use = { *handle } };

	scall_init(&call, &client);
	scall_add(&call, &use);
	scall_add(&call, args);
	call.call.identity = 1;
	scall_submit(&call);
	srig_until(&rig, call.done || !rf_list_is_empty(
			&rig.server->store->deletions.waiters));
	cr_assert(!call.done, "answered while the file was there: %s",
		  rf_status_name(call.results[1].status));
	atomic_store(&removals_are_held, false);
	scall_wait(&call);
	cr_assert_eq(call.results[1].status, RF_ST_OK, "%s",
		     rf_status_name(call.results[1].status));
}
#define WAITS(handle, ...) \
	waits_for_room(handle, &(const struct rf_args)__VA_ARGS__)

SCENARIO(what_was_deleted_before_makes_room)
{
	rf_handle_t handle, source;
	uint32_t open, source_open;

	begin(scheme);
	handle = make_filled("a", &open);
	source = make_filled("source", &source_open);

	fill_disk("1");
	WAITS(&handle, OP_WRITE(open, SIZE, 0, data, SIZE));
	cr_assert_eq(size_of(&handle), 2 * SIZE);
	fill_disk("2");
	WAITS(&handle, OP_WRITE(open, 0, RF_WRITE_APPEND, data, SIZE));
	cr_assert_eq(size_of(&handle), 3 * SIZE, "appended once");
	fill_disk("3");
	WAITS(&handle, { .code = RF_OP_FALLOCATE,
			 .fallocate = { open, 0, 0, MIB } });
	cr_assert_eq(size_of(&handle), MIB);
	fill_disk("4");
	WAITS(&handle, { .code = RF_OP_COPY,
			 .copy = { .open = open, .offset = MIB,
				   .source_open = source_open,
				   .source = source, .size = SIZE } });
	cr_assert_eq(size_of(&handle), MIB + SIZE);
	fill_disk("5");
	WAITS(&client.root, OP_MKDIR("d"));
	OK(&client.root, OP_LOOKUP("d"));
	fill_disk("6");
	WAITS(&client.root, OP_CREATE("e", RW));
	handle = SRES(&call, 0, create).handle;
	OK(&handle, OP_RELEASE(SRES(&call, 0, create).open));
	fill_disk("7");
	WAITS(&client.root, { .code = RF_OP_STATFS });
	cr_assert_gt(SRES(&call, 0, statfs).free, 0);
	/* And if that is not enough, it is full. */
	fill_disk("8");
	set_reserve(UINT64_C(1) << 60);
	atomic_store(&removals_are_held, false);
	FAILS(NOSPC, &client.root, OP_MKDIR("f"));
	set_reserve(0);
	end();
}

/* ---- the rest ------------------------------------------------------------ */

SCENARIO(a_listing_after_a_change_in_its_message_is_refused)
{
	uint32_t open;

	begin(scheme);
	OK(&client.root, OP_OPEN(RF_OPEN_READ | RF_OPEN_DIR));
	open = SRES(&call, 0, open).open;
	FAILS(INVAL, &client.root, OP_MKDIR("d"),
	      { .code = RF_OP_USE, .use = { client.root } },
	      { .code = RF_OP_READDIR, .readdir = { open, 0, 4000, 1 } });
	OK(&client.root,
	   { .code = RF_OP_READDIR, .readdir = { open, 0, 4000, 1 } },
	   OP_RMDIR("d"));
	end();
}

SCENARIO(each_open_is_told_of_a_failed_sync_once)
{
	static const uint8_t text[] = "text";
	rf_handle_t handle;
	uint32_t open, other, later;

	begin(scheme);
	handle = make_filled("a", &open);
	OK(&handle, OP_OPEN(RW));
	other = SRES(&call, 0, open).open;
	atomic_store(&failing_syncs, 1);
	FAILS(IO, &handle, OP_FSYNC(open));
	OK(&handle, OP_OPEN(RW));
	later = SRES(&call, 0, open).open;
	OK(&handle, OP_FSYNC(open));
	FAILS(IO, &handle, OP_FSYNC(other));
	OK(&handle, OP_FSYNC(other));
	OK(&handle, OP_FSYNC(later));
	/* Also in a message that changes something. */
	atomic_store(&failing_syncs, 1);
	FAILS(IO, &handle, OP_FSYNC(open));
	FAILS(IO, &handle, OP_WRITE(other, 0, 0, text, 4), OP_FSYNC(other));
	OK(&handle, OP_WRITE(other, 0, 0, text, 4), OP_FSYNC(other));
	end();
}

/* What was to be durable has not happened: no sync of it has anything to say. */
SCENARIO(an_answer_says_one_thing_when_commit_and_sync_both_fail)
{
	static const uint8_t text[] = "text";
	rf_handle_t handle;
	uint32_t open;

	begin(scheme);
	handle = make_filled("a", &open);
	set_reserve(UINT64_C(1) << 60);
	atomic_store(&failing_syncs, 1);
	FAILS(NOSPC, &client.root, OP_MKDIR("d"),
	      { .code = RF_OP_USE, .use = { handle } },
	      OP_WRITE(open, 0, RF_WRITE_SYNC, text, 4));
	cr_assert_eq(call.count, 2, "USE and MKDIR");
	atomic_store(&failing_syncs, 0);
	set_reserve(0);
	FAILS(NOENT, &client.root, OP_LOOKUP("d"));
	end();
}

/* Also if it is not the first in its message, which is then run twice. */
SCENARIO(a_rename_whose_data_cannot_be_synced_replaces_nothing)
{
	rf_handle_t old, handle;
	uint32_t open;

	begin(scheme);
	old = make_filled("a", &open);
	handle = make_filled("b", &open);
	for (unsigned int is_second = 0; is_second < 2; is_second++) {
		atomic_store(&failing_syncs, 1);
		if (is_second)
			FAILS(IO, &client.root, OP_MKDIR("d"),
			      { .code = RF_OP_USE, .use = { client.root } },
			      OP_RENAME("b", client.root, "a", 0));
		else
			FAILS(IO, &client.root,
			      OP_RENAME("b", client.root, "a", 0));
		OK(&client.root, OP_LOOKUP("a"));
		cr_assert_eq(SRES(&call, 0, lookup).handle.inode, old.inode);
	}
	OK(&client.root, OP_RENAME("b", client.root, "a", 0), OP_LOOKUP("a"));
	cr_assert_eq(SRES(&call, 1, lookup).handle.inode, handle.inode);
	end();
}

static rf_handle_t busy_files[2];

static void write_to_both(struct rf_hook *hook)
{
	(void)hook;
	for (unsigned int i = 0; i < 2; i++) {
		struct object *object = objects_find(rig.server->store,
						     busy_files[i].inode);

		if (object)
			atomic_store(&object->is_dirty, true);
	}
}

/* Each is flushed once, so that the message comes to its end. */
SCENARIO(files_that_are_written_to_all_the_time_replace_others_in_one_message)
{
	struct rf_hook hook = { .run = write_to_both };
	rf_handle_t old;
	uint32_t open;

	begin(scheme);
	old = make_filled("a", &open);
	make_filled("b", &open);
	busy_files[0] = make_filled("new a", &open);
	busy_files[1] = make_filled("new b", &open);
	rf_hook_add(rig.reactor, &hook);
	OK(&client.root, OP_RENAME("new a", client.root, "a", 0),
	   { .code = RF_OP_USE, .use = { client.root } },
	   OP_RENAME("new b", client.root, "b", 0));
	rf_hook_remove(rig.reactor, &hook);
	OK(&client.root, OP_LOOKUP("a"));
	cr_assert_neq(SRES(&call, 0, lookup).handle.inode, old.inode);
	end();
}

SCENARIO(answers_of_dead_sessions_are_forgotten_at_the_start)
{
	struct reply_key key = { .session = 12345, .slot = 3 };
	struct reply_record record = { .seq = 1 };
	struct txn *txn;
	char reply[8];

	begin(scheme);
	txn = txn_begin(rig.server->store);
	cr_assert_eq(txn_record_reply(txn, &key, &record, "reply", 5), 0);
	cr_assert_eq(txn_commit(txn), 0);
	sclient_bye(&client);
	srig_stop(&rig);
	srig_start(&rig);
	cr_assert_eq(store_find_reply(rig.server->store, &key, &record, reply,
				      sizeof(reply)), -ENOENT);
	srig_close(&rig);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pull.c - data over inline_max that the server grants
 *
 * Operation.  The grants of an answer, in file order, are cut into one-sided
 * READs of read_block each that land side by side in the sink; all are posted
 * at once and the last one is signalled, for they complete in order.  Then the
 * checksums are compared and the grants given back.
 *
 * When it fails.  A full work queue: again at the end of a turn.  A wrong
 * checksum: EIO and was_damaged, one line in the log; the grant is given back.
 * A lost connection took the grants along, or they are too old to be used: EAGAIN,
 * ask for the data anew.
 */
#include "fs.h"

#include <errno.h>

static void ask_anew(struct request *r)
{
	r->pulled(r, -EAGAIN);
}

static void finish(struct request *r, int err)
{
	request_set_state(r, REQUEST_WORKING);
	if (err == -EAGAIN) {
		request_again(r, ask_anew);
		return;
	}
	request_arrived(r);
	r->pulled(r, err);
}

static int check(struct request *r)
{
	const uint8_t *at = r->sink;

	if (!r->fs->has_crc)
		return 0;
	for (unsigned int i = 0; i < r->grants.count; i++) {
		const struct rf_grant *grant = &r->grants.v[i];

		if (rf_crc32c(0, at, grant->size) != grant->crc) {
			r->fs->stats.crc_errors++;
			r->was_damaged = true;
			rf_log(RF_LOG_ERROR, "data of inode %llu from %s do "
			       "not match their checksum",
			       (unsigned long long)r->inode->handle.inode,
			       r->fs->server);
			return -EIO;
		}
		at += grant->size;
	}
	return 0;
}

static void return_grants(struct request *r)
{
	for (unsigned int i = 0; i < r->grants.count; i++)
		if (r->fs->client)
			rf_client_return_grant(r->fs->client,
					       r->grants.v[i].id);
	r->grants.count = 0;
}

static void pull_done(struct rf_op *op, int status)
{
	struct request *r = rf_container_of(op, struct request, op);
	int err = status ? -EAGAIN : check(r);

	return_grants(r);
	finish(r, err);
}

/* Blocks such that all of the grants need at most WORKS_MAX. */
static uint32_t block_of(const struct request *r)
{
	uint32_t least = r->pulled_size / (WORKS_MAX - RF_GRANTS_MAX) + 1;
	uint32_t block = r->fs->way.read_block;

	return block > least ? block : (uint32_t)rf_align_up(least, 4096);
}

static unsigned int build(struct request *r)
{
	uint32_t block = block_of(r);
	uint8_t *sink = r->sink;
	unsigned int count = 0;

	for (unsigned int i = 0; i < r->grants.count; i++) {
		const struct rf_grant *grant = &r->grants.v[i];

		for (uint32_t at = 0; at < grant->size;) {
			uint32_t size = (uint32_t)rf_min_u64(block,
							grant->size - at);

			r->sges[count] = (struct rf_sge){
				.addr = sink, .size = size, .mr = r->fs->way.mr,
			};
			r->works[count] = (struct rf_work){
				.code = RF_READ,
				.sge = &r->sges[count],
				.sge_count = 1,
				.remote = { .addr = grant->addr + at,
					    .rkey = grant->rkey,
					    .size = size },
			};
			count++;
			sink += size;
			at += size;
		}
	}
	r->works[count - 1].op = &r->op;
	return count;
}

/* False: the work queue is full. */
static bool post(struct request *r)
{
	unsigned int count;
	int err;

	/* We were held up: it may have been taken back. */
	if (r->sent_ns < request_oldest_ns(r->fs)) {
		return_grants(r);
		finish(r, -EAGAIN);
		return true;
	}
	count = build(r);
	r->op.done = pull_done;
	err = r->fs->client ? rf_client_post(r->fs->client, r->works, count)
			    : -ENOTCONN;
	if (err == -EAGAIN)
		return false;
	if (err) {
		return_grants(r);
		finish(r, -EAGAIN);
	}
	return true;
}

void pull_start(struct request *r, const rf_grants_t *grants, void *sink,
		uint32_t room, void (*pulled)(struct request *r, int err))
{
	uint64_t sum = 0;
	bool is_bad = grants->count == 0;

	for (unsigned int i = 0; i < grants->count; i++) {
		sum += grants->v[i].size;
		is_bad |= grants->v[i].size == 0;
	}
	if (is_bad || sum > room) {
		fs_lose(r->fs, "granted more or less than was asked for");
		pulled(r, -EIO);
		return;
	}
	r->grants = *grants;
	r->pulled_size = (uint32_t)sum;
	r->sink = sink;
	r->was_damaged = false;
	r->pulled = pulled;
	request_set_state(r, REQUEST_PULLING);
	if (!rf_list_is_empty(&r->fs->pulls_waiting) || !post(r))
		rf_list_push(&r->fs->pulls_waiting, &r->link);
}

void pull_retry(struct fs *fs)
{
	while (!rf_list_is_empty(&fs->pulls_waiting)) {
		struct request *r = rf_container_of(fs->pulls_waiting.next,
						    struct request, link);

		rf_list_remove(&r->link);
		if (!post(r)) {
			/* Back in front. */
			rf_list_push(fs->pulls_waiting.next, &r->link);
			return;
		}
	}
}

void pull_answer(struct request *r, const rf_blob_t *blob,
		 const rf_grants_t *grants, void *sink, uint32_t room,
		 void (*pulled)(struct request *r, int err))
{
	if (grants->count) {
		pull_start(r, grants, sink, room, pulled);
		return;
	}
	if (blob->size > room) {
		fs_lose(r->fs, "sent more than was asked for");
		pulled(r, -EIO);
		return;
	}
	memcpy(sink, blob->bytes, blob->size);
	r->pulled_size = blob->size;
	pulled(r, 0);
}

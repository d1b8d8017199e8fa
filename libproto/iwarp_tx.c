/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iwarp_tx.c - works and responses become segments; one sendmsg takes many
 *
 * Operation.  A batch is built from a copy of the cursor: headers into a small
 * buffer, payload by reference, checksums now.  What the socket took moves the
 * cursor; the rest of the batch is forgotten and built again when there is
 * room, so that keys are always checked just before bytes leave.  At most one
 * segment is ever half sent: its remainder is kept in iw_partial.  The size of
 * a batch follows what the socket took the last time, which bounds the work
 * done twice.
 *
 * Messages are not interleaved (RFC 5041 section 5.3 lets a receiver count on
 * it), so works and responses take turns by message.
 *
 * Ownership.  Once the kernel has a Send's or Write's bytes, its buffers are
 * the caller's again and the work is finished.  A region that a response reads
 * is held from the check of its key to the end of the sendmsg; a half sent
 * response of a region is copied at once, one of a window when the window
 * dies (iw_tx_detach), so that nothing reads memory after its right has ended.
 *
 * When it fails.  A response whose key has died is refused with a Terminate.
 * A socket that takes no more is left to iwarp_rx.c to explain: a Terminate of
 * the peer may wait there.
 */
#include "iwarp.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* ---- a batch ----------------------------------------------------------- */

static void batch_init(struct iw_batch *batch)
{
	batch->iov_count = 0;
	batch->segment_count = 0;
	batch->held_count = 0;
	batch->small_size = 0;
	batch->size = 0;
}

static void batch_add(struct iw_batch *batch, void *data, size_t size)
{
	struct iovec *last = batch->iov_count ?
			     &batch->iov[batch->iov_count - 1] : NULL;

	batch->size += size;
	/* One segment's tail and the next one's head are neighbours. */
	if (last && (char *)last->iov_base + last->iov_len == data) {
		last->iov_len += size;
		return;
	}
	batch->iov[batch->iov_count++] = (struct iovec){ data, size };
}

static uint8_t *batch_small(struct iw_batch *batch, size_t size)
{
	uint8_t *at = batch->small + batch->small_size;

	batch->small_size += size;
	batch_add(batch, at, size);
	return at;
}

static bool batch_is_small(const struct iw_batch *batch, const void *at)
{
	uintptr_t begin = (uintptr_t)batch->small, p = (uintptr_t)at;

	return p >= begin && p - begin < sizeof(batch->small);
}

static bool batch_is_full(const struct iw_batch *batch, const struct iw_ep *ep)
{
	return batch->segment_count == IW_BATCH_SEGMENTS ||
	       batch->iov_count + IW_SGE_MAX + 2 > IW_BATCH_IOV ||
	       batch->size >= ep->batch_size;
}

static void batch_release(struct iw_batch *batch)
{
	while (batch->held_count)
		iw_key_release(batch->held[--batch->held_count]);
}

static uint8_t *add_head(struct iw_batch *batch, struct iw_head *head)
{
	uint8_t *at = batch_small(batch, head->is_tagged ?
				  IW_LENGTH_SIZE + IW_TAGGED_SIZE :
				  IW_LENGTH_SIZE + IW_UNTAGGED_SIZE);

	iw_head_encode(head, at);
	return at;
}

static void add_tail(const struct iw_ep *ep, struct iw_batch *batch,
		     const struct iw_head *head, uint32_t crc)
{
	uint32_t pad = iw_pad_size(head->ulpdu_size);
	uint8_t *at = batch_small(batch, pad + IW_CRC_SIZE);

	memset(at, 0, pad);
	if (ep->uses_crc)
		crc = rf_crc32c(crc, at, pad);
	rf_store_u32(at + pad, crc);
}

static uint32_t crc_add(const struct iw_ep *ep, uint32_t crc, const void *data,
			size_t size)
{
	return ep->uses_crc ? rf_crc32c(crc, data, size) : 0;
}

static void end_segment(struct iw_batch *batch, const struct iw_cursor *after,
			uint32_t source_key)
{
	batch->segments[batch->segment_count++] = (struct iw_segment){
		.after = *after, .end = batch->size, .source_key = source_key,
	};
}

/* ---- our works --------------------------------------------------------- */

static uint32_t add_pieces(const struct iw_ep *ep, struct iw_batch *batch,
			   struct iw_cursor *at, const struct iw_work *work,
			   uint32_t size, uint32_t crc)
{
	while (size) {
		const struct iovec *piece = &work->pieces[at->piece];
		uint8_t *data = (uint8_t *)piece->iov_base + at->piece_offset;
		size_t n = rf_min_u64(size, piece->iov_len - at->piece_offset);

		batch_add(batch, data, n);
		crc = crc_add(ep, crc, data, n);
		size -= (uint32_t)n;
		at->piece_offset += (uint32_t)n;
		if (at->piece_offset == piece->iov_len) {
			at->piece++;
			at->piece_offset = 0;
		}
	}
	return crc;
}

static uint8_t send_opcode(const struct iw_work *work)
{
	bool is_solicited = work->flags & RF_SOLICITED;

	if (work->code == RF_SEND_INV)
		return is_solicited ? IW_SEND_SE_INV : IW_SEND_INV;
	return is_solicited ? IW_SEND_SE : IW_SEND;
}

static void message_is_built(struct iw_cursor *at)
{
	at->current = IW_NOTHING;
	at->offset = 0;
	at->piece = 0;
	at->piece_offset = 0;
}

/* One segment of a Send or a Write. */
static void build_data(const struct iw_ep *ep, struct iw_batch *batch,
		       struct iw_cursor *at, const struct iw_work *work)
{
	uint32_t left = work->size - (uint32_t)at->offset;
	struct iw_head head = {
		.payload = (uint32_t)rf_min_u64(left, IW_SEGMENT_SIZE),
	};
	uint8_t *raw;
	uint32_t crc;

	head.is_last = head.payload == left;
	head.offset = at->offset;
	if (work->code == RF_WRITE) {
		head.is_tagged = true;
		head.opcode = IW_WRITE;
		head.stag = work->remote.rkey;
		head.offset += work->remote.addr;
	} else {
		head.opcode = send_opcode(work);
		head.stag = work->code == RF_SEND_INV ? work->key : 0;
		head.queue = IW_QUEUE_SEND;
		head.msn = at->send_msn;
	}
	raw = add_head(batch, &head);
	crc = crc_add(ep, 0, raw, head.size);
	crc = add_pieces(ep, batch, at, work, head.payload, crc);
	add_tail(ep, batch, &head, crc);
	at->offset += head.payload;
	if (head.is_last) {
		if (!head.is_tagged)
			at->send_msn++;
		at->next_work++;
		message_is_built(at);
	}
	end_segment(batch, at, 0);
}

/* The sink's key is the number of the Read, and its offsets begin at 0. */
static void build_read(struct iw_ep *ep, struct iw_batch *batch,
		       struct iw_cursor *at, const struct iw_work *work)
{
	struct iw_read_request request = {
		.sink_stag = IW_SINK_KEY | at->reads_issued,
		.size = work->size,
		.source_stag = work->remote.rkey,
		.source_offset = work->remote.addr,
	};
	struct iw_head head = {
		.opcode = IW_READ_REQUEST, .is_last = true,
		.payload = IW_READ_REQUEST_SIZE,
		.queue = IW_QUEUE_READ_REQUEST, .msn = at->reads_issued + 1,
	};
	uint8_t *raw = add_head(batch, &head);
	uint8_t *body = batch_small(batch, IW_READ_REQUEST_SIZE);
	uint32_t crc;

	iw_read_request_encode(&request, body);
	crc = crc_add(ep, 0, raw, head.size);
	crc = crc_add(ep, crc, body, IW_READ_REQUEST_SIZE);
	add_tail(ep, batch, &head, crc);
	ep->reads[at->reads_issued & ep->reads_mask] = at->next_work;
	at->reads_issued++;
	at->next_work++;
	message_is_built(at);
	end_segment(batch, at, 0);
}

/* May happen again after a batch was forgotten: only once counts. */
static void run_window_work(struct iw_ep *ep, struct iw_work *work)
{
	struct iw_window *window = work->window;

	if (work->is_finished)
		return;
	work->is_finished = true;
	if (!window)
		return;		/* the peer invalidated it meanwhile */
	if (work->code == RF_BIND)
		iw_window_arm(window, ep);
	else if (atomic_load(&window->key->live) == work->key)
		iw_window_disarm(window);
}

static uint32_t reads_in_flight(const struct iw_ep *ep,
				const struct iw_cursor *at)
{
	return at->reads_issued - ep->reads_landed;
}

/* Runs the windows' works at its place; then, is there one to send? */
static bool next_work_may_start(struct iw_ep *ep, struct iw_cursor *at)
{
	while (at->next_work != ep->work_tail) {
		struct iw_work *work = iw_ep_work(ep, at->next_work);

		if ((work->flags & RF_FENCE) && reads_in_flight(ep, at))
			return false;
		if (work->code != RF_BIND && work->code != RF_UNBIND)
			return work->code != RF_READ ||
			       reads_in_flight(ep, at) < ep->ord;
		run_window_work(ep, work);
		at->next_work++;
	}
	return false;
}

/*
 * Windows need no socket: first in line, they don't wait for it, nor for a
 * response that the peer does not take.
 */
static void run_window_works(struct iw_ep *ep)
{
	if (ep->state == IW_EP_OPEN && ep->cursor.current != IW_WORK)
		next_work_may_start(ep, &ep->cursor);
}

/* ---- the peer's Reads -------------------------------------------------- */

/* Returns false, and ends the connection, if the right is gone. */
static bool build_response(struct iw_ep *ep, struct iw_batch *batch,
			   struct iw_cursor *at, enum iw_error *error)
{
	struct iw_response *response =
		&ep->responses[at->next_response & ep->responses_mask];
	const struct iw_read_request *request = &response->request;
	uint32_t left = request->size - (uint32_t)at->offset;
	struct iw_head head = {
		.is_tagged = true, .opcode = IW_READ_RESPONSE,
		.payload = (uint32_t)rf_min_u64(left, IW_SEGMENT_SIZE),
		.stag = request->sink_stag,
		.offset = request->sink_offset + at->offset,
	};
	uint64_t source = request->source_offset + at->offset;
	struct iw_key *key = NULL;
	uint8_t *raw;
	uint32_t crc;

	if (head.payload) {
		*error = iw_key_hold(iw_ep_keys(ep), ep, request->source_stag,
				     RF_REMOTE_READ, source, head.payload,
				     &key);
		if (*error)
			return false;
	}
	if (key)
		batch->held[batch->held_count++] = key;
	head.is_last = head.payload == left;
	raw = add_head(batch, &head);
	crc = crc_add(ep, 0, raw, head.size);
	if (head.payload) {
		batch_add(batch, (void *)(uintptr_t)source, head.payload);
		crc = crc_add(ep, crc, (void *)(uintptr_t)source, head.payload);
	}
	add_tail(ep, batch, &head, crc);
	at->offset += head.payload;
	if (head.is_last) {
		at->next_response++;
		message_is_built(at);
	}
	end_segment(batch, at, request->source_stag);
	return true;
}

static void refuse_response(struct iw_ep *ep, enum iw_error error, uint32_t n)
{
	const struct iw_response *response =
		&ep->responses[n & ep->responses_mask];
	uint8_t raw[IW_HEAD_MAX], body[IW_READ_REQUEST_SIZE];
	struct iw_head head = {
		.opcode = IW_READ_REQUEST, .is_last = true,
		.payload = IW_READ_REQUEST_SIZE,
		.queue = IW_QUEUE_READ_REQUEST, .msn = response->msn,
	};

	iw_head_encode(&head, raw);
	iw_read_request_encode(&response->request, body);
	iw_terminate(ep, error, &head, raw, body, iw_error_reason(error));
}

/* ---- build, send, keep ------------------------------------------------- */

/* Chooses the next message; works and responses take turns. */
static bool choose_message(struct iw_ep *ep, struct iw_cursor *at)
{
	bool has_response, has_work;

	if (at->current != IW_NOTHING)
		return true;
	has_response = at->next_response != ep->response_tail;
	has_work = next_work_may_start(ep, at);
	if (has_response && (!has_work || !at->response_was_last))
		at->current = IW_RESPONSE;
	else if (has_work)
		at->current = IW_WORK;
	else
		return false;
	at->response_was_last = at->current == IW_RESPONSE;
	return true;
}

static void build_batch(struct iw_ep *ep, struct iw_batch *batch,
			struct iw_cursor *at, enum iw_error *error)
{
	while (!batch_is_full(batch, ep) && choose_message(ep, at)) {
		if (at->current == IW_RESPONSE) {
			if (!build_response(ep, batch, at, error))
				return;
		} else {
			struct iw_work *work = iw_ep_work(ep, at->next_work);

			if (work->code == RF_READ)
				build_read(ep, batch, at, work);
			else
				build_data(ep, batch, at, work);
		}
	}
}

/* The cursor moves: Sends and Writes that it passes are finished. */
static void commit(struct iw_ep *ep, const struct iw_cursor *to)
{
	struct iw_stats *stats = &iw_ep_poller(ep)->stats;

	for (uint32_t n = ep->cursor.next_work; n != to->next_work; n++) {
		struct iw_work *work = iw_ep_work(ep, n);

		if (work->code != RF_READ)
			work->is_finished = true;
	}
	for (uint32_t n = ep->cursor.next_response; n != to->next_response;
	     n++) {
		iw_count(&stats->reads_served, 1);
		iw_count(&stats->read_bytes_served,
			 ep->responses[n & ep->responses_mask].request.size);
	}
	ep->cursor = *to;
}

static void partial_add(struct iw_partial *partial,
			const struct iw_batch *batch, uint8_t *data,
			size_t size)
{
	if (batch_is_small(batch, data)) {
		uint8_t *copy = partial->small + partial->small_size;

		memcpy(copy, data, size);
		partial->small_size += size;
		data = copy;
	}
	partial->iov[partial->iov_count++] = (struct iovec){ data, size };
	partial->size += size;
}

/* Keep the bytes [from, to) of the batch. */
static void keep_partial(struct iw_ep *ep, struct iw_batch *batch, size_t from,
			 size_t to)
{
	struct iw_partial *partial = &ep->partial;
	size_t at = 0;

	partial->iov_count = 0;
	partial->size = 0;
	partial->small_size = 0;
	for (unsigned int i = 0; i < batch->iov_count && at < to; i++) {
		const struct iovec *iov = &batch->iov[i];
		size_t begin = rf_max_u64(at, from);
		size_t end = rf_min_u64(at + iov->iov_len, to);

		if (begin < end)
			partial_add(partial, batch,
				    (uint8_t *)iov->iov_base + (begin - at),
				    end - begin);
		at += iov->iov_len;
	}
}

/* Copy the remainder, so that it needs nobody's memory any more. */
static void detach(struct iw_ep *ep)
{
	struct iw_partial *partial = &ep->partial;
	uint8_t *at = ep->bounce;

	for (unsigned int i = 0; i < partial->iov_count; i++) {
		memmove(at, partial->iov[i].iov_base, partial->iov[i].iov_len);
		at += partial->iov[i].iov_len;
	}
	partial->iov[0] = (struct iovec){ ep->bounce, partial->size };
	partial->iov_count = partial->size ? 1 : 0;
	partial->source_key = 0;
}

void iw_tx_detach(struct iw_ep *ep, uint32_t key)
{
	if (ep->partial.size && key && ep->partial.source_key == key)
		detach(ep);
}

/* Only the first segment of a batch can be the old remainder itself. */
static void cut_partial(struct iw_ep *ep, size_t sent)
{
	struct iw_partial *partial = &ep->partial;
	unsigned int i = 0;

	partial->size -= sent;
	while (sent && sent >= partial->iov[i].iov_len)
		sent -= partial->iov[i++].iov_len;
	if (sent) {
		partial->iov[i].iov_base = (char *)partial->iov[i].iov_base +
					   sent;
		partial->iov[i].iov_len -= sent;
	}
	partial->iov_count -= i;
	memmove(partial->iov, partial->iov + i,
		partial->iov_count * sizeof(partial->iov[0]));
}

static bool key_is_live_window(const struct iw_ep *ep, uint32_t stag)
{
	struct iw_key *key = iw_key_find(iw_ep_keys(ep), stag);

	return key && atomic_load(&key->live) == stag &&
	       atomic_load(&key->kind) == IW_KEY_WINDOW;
}

/* A work whose last segment is half sent is not finished yet. */
static void commit_partial(struct iw_ep *ep, const struct iw_cursor *to)
{
	bool ends_work = to->current == IW_NOTHING && !to->response_was_last;
	struct iw_work *work = iw_ep_work(ep, to->next_work - 1);

	commit(ep, to);
	if (ends_work && work->code != RF_READ) {
		work->is_finished = false;
		ep->partial.work = work;
	}
}

static void partial_is_sent(struct iw_ep *ep)
{
	struct iw_partial *partial = &ep->partial;

	partial->size = 0;
	partial->iov_count = 0;
	if (partial->work)
		partial->work->is_finished = true;
	partial->work = NULL;
}

/* The socket took sent bytes of the batch. */
static void account(struct iw_ep *ep, struct iw_batch *batch, size_t sent)
{
	size_t begin = ep->partial.size;
	unsigned int i = 0;

	if (sent < begin) {
		cut_partial(ep, sent);
		return;
	}
	partial_is_sent(ep);
	while (i < batch->segment_count && batch->segments[i].end <= sent) {
		begin = batch->segments[i].end;
		i++;
	}
	if (i)
		commit(ep, &batch->segments[i - 1].after);
	if (i == batch->segment_count || sent == begin)
		return;
	keep_partial(ep, batch, sent, batch->segments[i].end);
	ep->partial.source_key = batch->segments[i].source_key;
	commit_partial(ep, &batch->segments[i].after);
	if (ep->partial.source_key &&
	    !key_is_live_window(ep, ep->partial.source_key))
		detach(ep);
}

static ssize_t send_batch(struct iw_ep *ep, struct iw_batch *batch)
{
	struct msghdr msg = { .msg_iov = batch->iov,
			      .msg_iovlen = batch->iov_count };
	ssize_t sent;

	do
		sent = sendmsg(ep->source.fd, &msg,
			       MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	if (sent < 0 && errno == EAGAIN)
		return 0;
	return sent;
}

/* The next batch is about as large as what the socket takes. */
static void learn_batch_size(struct iw_ep *ep, size_t asked, size_t sent)
{
	size_t size = ep->batch_size;

	if (sent == asked && asked >= size)
		size *= 2;
	else if (sent < asked)
		size = sent + sent / 2;
	ep->batch_size = rf_max_u64(IW_BATCH_SIZE_MIN,
				    rf_min_u64(size, IW_BATCH_SIZE_MAX));
}

static void break_tx(struct iw_ep *ep)
{
	ep->tx_is_broken = true;
	ep->tx_is_open = false;
	iw_list_move(&iw_ep_poller(ep)->ready, &ep->ready);
}

static void block_tx(struct iw_ep *ep)
{
	ep->tx_is_blocked = true;
	iw_source_watch(iw_ep_poller(ep), &ep->source, EPOLLIN | EPOLLOUT);
}

/* One batch.  Returns true if there may be more to do now. */
static bool run_batch(struct iw_ep *ep, struct iw_batch *batch)
{
	struct iw_cursor at = ep->cursor;
	enum iw_error error = IW_OK;
	ssize_t sent = 0;

	batch_init(batch);
	for (unsigned int i = 0; i < ep->partial.iov_count; i++)
		batch_add(batch, ep->partial.iov[i].iov_base,
			  ep->partial.iov[i].iov_len);
	build_batch(ep, batch, &at, &error);
	if (batch->size)
		sent = send_batch(ep, batch);
	batch_release(batch);
	if (sent < 0) {
		break_tx(ep);
		return false;
	}
	account(ep, batch, (size_t)sent);
	run_window_works(ep);
	if (error) {
		refuse_response(ep, error, at.next_response);
		return false;
	}
	learn_batch_size(ep, batch->size, (size_t)sent);
	if ((size_t)sent < batch->size)
		block_tx(ep);
	return (size_t)sent == batch->size && batch->size > 0;
}

void iw_tx_run(struct iw_ep *ep)
{
	struct iw_poller *poller = iw_ep_poller(ep);

	run_window_works(ep);
	for (int i = 0; i < IW_TX_ROUNDS; i++) {
		if (ep->state != IW_EP_OPEN || !ep->tx_is_open ||
		    ep->tx_is_blocked)
			return;
		if (!run_batch(ep, &poller->batch))
			return;
	}
	/* The others' turn; there may be more. */
	iw_list_move(&poller->flush, &ep->flush);
}

void iw_tx_last_words(struct iw_ep *ep)
{
	detach(ep);
	ep->bounce_size = ep->partial.size;
	ep->bounce_sent = 0;
	memcpy(ep->bounce + ep->bounce_size, ep->terminate, ep->terminate_size);
	ep->bounce_size += ep->terminate_size;
	ep->partial.size = 0;
	ep->partial.iov_count = 0;
}

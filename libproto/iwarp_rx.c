/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iwarp_rx.c - bytes to checked segments, landed where they belong
 *
 * Operation.  A segment is head, payload, tail.  Heads and whole small
 * messages come through the stage buffer.  Once a head has been checked, the
 * rest of a large payload is received straight into its target, and the same
 * call takes the tail and the next head, so that a stream of full segments
 * costs one recvmsg each.
 *
 * Before any byte lands, the segment's key, generation, connection, range and
 * right (tagged), or queue, number, offset and room (untagged) were checked;
 * and again before each call that lands more of it, since the right may have
 * ended meanwhile.  The CRC comes after the payload: if it is wrong, bytes may
 * have changed inside a live grant, no completion tells of them, and the
 * connection ends.
 *
 * When it fails.  A violation is answered with a Terminate and ends this
 * connection.  The end of the stream between segments is a close, within one
 * a reset.
 */
#include "iwarp.h"

#include <errno.h>
#include <sys/socket.h>

enum step {
	STEP_ON,	/* there may be more to do with what is here */
	STEP_MORE,	/* more bytes are needed */
	STEP_END,	/* the connection has ended */
};

static enum step refuse(struct iw_ep *ep, enum iw_error error,
			const uint8_t *read)
{
	struct iw_rx *rx = &ep->rx;

	iw_terminate(ep, error, &rx->head, rx->raw, read,
		     iw_error_reason(error));
	return STEP_END;
}

static uint32_t crc_add(const struct iw_ep *ep, uint32_t crc, const void *data,
			size_t size)
{
	return ep->uses_crc ? rf_crc32c(crc, data, size) : 0;
}

static uint32_t in_stage(const struct iw_rx *rx)
{
	return rx->end - rx->begin;
}

/* ---- what a head may say ----------------------------------------------- */

static enum iw_error check_untagged(const struct iw_head *head, uint32_t queue,
				    uint32_t msn, uint64_t offset)
{
	if (head->queue != queue)
		return IW_DDP_BAD_QUEUE;
	if (head->msn != msn)
		return IW_DDP_BAD_MSN;
	if (head->offset != offset)
		return IW_DDP_BAD_OFFSET;
	return IW_OK;
}

static enum iw_error check_send(struct iw_ep *ep)
{
	struct iw_rx *rx = &ep->rx;
	const struct iw_recv *recv = &ep->recvs[ep->recv_head & ep->recvs_mask];
	enum iw_error error = check_untagged(&rx->head, IW_QUEUE_SEND,
					     rx->send_msn, rx->send_size);

	if (error)
		return error;
	if (ep->recv_head == ep->recv_tail)
		return IW_DDP_NO_BUFFER;
	if (rx->head.payload > recv->size - rx->send_size) {
		ep->recv_was_short = true;
		return IW_DDP_TOO_LONG;
	}
	rx->target = recv->addr + rx->send_size;
	return IW_OK;
}

/* The target may be touched until iw_key_release(). */
static enum iw_error hold_write(struct iw_ep *ep, uint64_t offset,
				uint32_t size, struct iw_key **key)
{
	*key = NULL;
	if (size == 0)
		return IW_OK;	/* RFC 5041 section 5.1: no key is looked at */
	return iw_error_of_ddp(iw_key_hold(iw_ep_keys(ep), ep,
					   ep->rx.head.stag, RF_REMOTE_WRITE,
					   offset, size, key));
}

static enum iw_error check_write(struct iw_ep *ep)
{
	struct iw_rx *rx = &ep->rx;
	struct iw_key *key;
	enum iw_error error = hold_write(ep, rx->head.offset, rx->head.payload,
					 &key);

	iw_key_release(key);
	rx->target = (uint8_t *)(uintptr_t)rx->head.offset;
	return error;
}

static struct iw_work *oldest_read(const struct iw_ep *ep)
{
	return iw_ep_work(ep, ep->reads[ep->reads_landed & ep->reads_mask]);
}

/* Responses come in the order of the Reads, each from its first byte on. */
static enum iw_error check_response(struct iw_ep *ep)
{
	const struct iw_rx *rx = &ep->rx;
	uint32_t left;

	if (ep->reads_landed == ep->cursor.reads_issued)
		return IW_RDMAP_BAD_OPCODE;
	if (rx->head.stag != (IW_SINK_KEY | ep->reads_landed))
		return IW_DDP_STAG;
	left = oldest_read(ep)->size - rx->read_size;
	if (rx->head.offset != rx->read_size || rx->head.payload > left ||
	    rx->head.is_last != (rx->head.payload == left))
		return IW_DDP_BOUNDS;
	return IW_OK;
}

static enum iw_error check_head(struct iw_ep *ep)
{
	switch (ep->rx.head.opcode) {
	case IW_WRITE:
		return check_write(ep);
	case IW_READ_RESPONSE:
		return check_response(ep);
	default:
		return check_send(ep);
	}
}

/* ---- what a whole segment does ----------------------------------------- */

/* The peer has spoken: the accepting side may (RFC 5044 section 7.1.3). */
static void first_segment(struct iw_ep *ep)
{
	if (ep->rx.had_segment)
		return;
	ep->rx.had_segment = true;
	if (!ep->is_accepting)
		return;
	ep->tx_is_open = true;
	iw_list_move(&iw_ep_poller(ep)->flush, &ep->flush);
}

static void forget_unbinds(struct iw_ep *ep, const struct iw_window *window)
{
	for (uint32_t n = ep->work_head; n != ep->work_tail; n++)
		if (iw_ep_work(ep, n)->window == window)
			iw_ep_work(ep, n)->window = NULL;
}

static bool invalidate(struct iw_ep *ep, uint32_t stag)
{
	struct iw_key *key = iw_key_find(iw_ep_keys(ep), stag);
	struct iw_window *window;

	if (!key || stag == 0 || atomic_load(&key->live) != stag ||
	    atomic_load(&key->owner) != ep ||
	    atomic_load(&key->kind) != IW_KEY_WINDOW)
		return false;
	window = key->window;
	iw_window_disarm(window);
	forget_unbinds(ep, window);
	iw_window_free(window);
	return true;
}

static enum step finish_send(struct iw_ep *ep)
{
	struct iw_rx *rx = &ep->rx;
	struct iw_stats *stats = &iw_ep_poller(ep)->stats;
	bool invalidates = rx->head.opcode == IW_SEND_INV ||
			   rx->head.opcode == IW_SEND_SE_INV;
	struct rf_op *op;

	rx->send_size += rx->head.payload;
	if (!rx->head.is_last)
		return STEP_ON;
	if (invalidates && !invalidate(ep, rx->head.stag))
		return refuse(ep, IW_RDMAP_INVALIDATE, NULL);
	op = ep->recvs[ep->recv_head++ & ep->recvs_mask].op;
	op->size = rx->send_size;
	op->inv_key = invalidates ? rx->head.stag : 0;
	rx->send_msn++;
	rx->send_size = 0;
	iw_count(&stats->recvs, 1);
	iw_count(&stats->recv_bytes, op->size);
	iw_ep_poller(ep)->callbacks++;
	rf_op_done(op, 0);
	return ep->state == IW_EP_OPEN ? STEP_ON : STEP_END;
}

static void finish_write(struct iw_ep *ep)
{
	struct iw_stats *stats = &iw_ep_poller(ep)->stats;

	iw_count(&stats->write_bytes_landed, ep->rx.head.payload);
	if (ep->rx.head.is_last)
		iw_count(&stats->writes_landed, 1);
}

static enum step finish_response(struct iw_ep *ep)
{
	struct iw_rx *rx = &ep->rx;

	rx->read_size += rx->head.payload;
	if (!rx->head.is_last)
		return STEP_ON;
	oldest_read(ep)->is_finished = true;
	ep->reads_landed++;
	rx->read_size = 0;
	rx->piece = 0;
	rx->piece_offset = 0;
	/* Held-back Reads and fenced works may start now. */
	if (ep->cursor.next_work != ep->work_tail)
		iw_list_move(&iw_ep_poller(ep)->flush, &ep->flush);
	iw_ep_retire(ep);
	return ep->state == IW_EP_OPEN ? STEP_ON : STEP_END;
}

static enum step finish_segment(struct iw_ep *ep)
{
	ep->rx.state = IW_RX_HEAD;
	first_segment(ep);
	switch (ep->rx.head.opcode) {
	case IW_WRITE:
		finish_write(ep);
		return STEP_ON;
	case IW_READ_RESPONSE:
		return finish_response(ep);
	default:
		return finish_send(ep);
	}
}

/* ---- segments that are understood only as a whole ---------------------- */

static enum step take_read_request(struct iw_ep *ep, const uint8_t *body)
{
	struct iw_rx *rx = &ep->rx;
	struct iw_response response = { .msn = rx->head.msn };
	struct iw_read_request *request = &response.request;
	struct iw_key *key = NULL;
	enum iw_error error = check_untagged(&rx->head, IW_QUEUE_READ_REQUEST,
					     rx->request_msn, 0);

	if (error)
		return refuse(ep, error, NULL);
	if (ep->response_tail - ep->cursor.next_response >= ep->ird)
		return refuse(ep, IW_DDP_NO_BUFFER, NULL);
	iw_read_request_decode(request, body);
	if (request->size)
		error = iw_key_hold(iw_ep_keys(ep), ep, request->source_stag,
				    RF_REMOTE_READ, request->source_offset,
				    request->size, &key);
	if (error)
		return refuse(ep, error, body);
	iw_key_release(key);
	rx->request_msn++;
	ep->responses[ep->response_tail++ & ep->responses_mask] = response;
	iw_list_move(&iw_ep_poller(ep)->flush, &ep->flush);
	return STEP_ON;
}

/* No reply: a Terminate is never answered with one. */
static enum step take_terminate(struct iw_ep *ep, const uint8_t *body)
{
	const struct iw_head *head = &ep->rx.head;

	if (check_untagged(head, IW_QUEUE_TERMINATE, 1, 0))
		iw_ep_doom(ep, -EPROTO);
	else
		iw_terminated(ep, body, head->payload);
	return STEP_END;
}

static bool control_size_is_right(const struct iw_head *head)
{
	if (!head->is_last)
		return false;
	if (head->opcode == IW_READ_REQUEST)
		return head->payload == IW_READ_REQUEST_SIZE;
	return head->payload <= IW_TERMINATE_MAX;
}

static enum step take_control(struct iw_ep *ep)
{
	struct iw_rx *rx = &ep->rx;
	const uint8_t *at = rx->stage + rx->begin;
	uint32_t body = (uint32_t)IW_LENGTH_SIZE + rx->head.ulpdu_size +
			iw_pad_size(rx->head.ulpdu_size);

	if (!control_size_is_right(&rx->head))
		return refuse(ep, rx->head.opcode == IW_READ_REQUEST ?
			      IW_RDMAP_UNSPECIFIED : IW_MPA_BAD_LENGTH, NULL);
	if (in_stage(rx) < body + IW_CRC_SIZE)
		return STEP_MORE;
	if (ep->uses_crc && rf_load_u32(at + body) != rf_crc32c(0, at, body))
		return refuse(ep, IW_MPA_BAD_CRC, NULL);
	rx->begin += body + IW_CRC_SIZE;
	first_segment(ep);
	if (rx->head.opcode == IW_READ_REQUEST)
		return take_read_request(ep, at + rx->head.size);
	return take_terminate(ep, at + rx->head.size);
}

/* An FPDU of no bytes: how a peer-to-peer initiator may say "ready". */
static enum step take_empty(struct iw_ep *ep)
{
	static const uint8_t zeros[4];
	struct iw_rx *rx = &ep->rx;
	const uint8_t *at = rx->stage + rx->begin;

	rx->head = (struct iw_head){ 0 };
	if (rx->had_segment || !(ep->rtr & IW_RTR_EMPTY))
		return refuse(ep, IW_MPA_BAD_LENGTH, NULL);
	if (in_stage(rx) < sizeof(zeros) + IW_CRC_SIZE)
		return STEP_MORE;
	if (ep->uses_crc &&
	    rf_load_u32(at + sizeof(zeros)) != rf_crc32c(0, at, sizeof(zeros)))
		return refuse(ep, IW_MPA_BAD_CRC, NULL);
	rx->begin += (uint32_t)sizeof(zeros) + IW_CRC_SIZE;
	first_segment(ep);
	return STEP_ON;
}

/* ---- steps ------------------------------------------------------------- */

static enum step step_head(struct iw_ep *ep)
{
	struct iw_rx *rx = &ep->rx;
	const uint8_t *at = rx->stage + rx->begin;
	enum iw_error error;
	int got;

	if (in_stage(rx) >= IW_LENGTH_SIZE && iw_load_be16(at) == 0)
		return take_empty(ep);
	got = iw_head_decode(&rx->head, at, in_stage(rx));
	if (got == 0)
		return STEP_MORE;
	memcpy(rx->raw, at, rx->head.size);
	if (got < 0)
		return refuse(ep, (enum iw_error)-got, NULL);
	if (rx->head.opcode == IW_READ_REQUEST ||
	    rx->head.opcode == IW_TERMINATE)
		return take_control(ep);
	error = check_head(ep);
	if (error)
		return refuse(ep, error, NULL);
	rx->crc = crc_add(ep, 0, at, rx->head.size);
	rx->begin += rx->head.size;
	rx->left = rx->head.payload;
	rx->state = IW_RX_PAYLOAD;
	return STEP_ON;
}

/* Where the next bytes of the payload go, at most size of them. */
static unsigned int find_targets(const struct iw_ep *ep, struct iovec *out,
				 size_t size)
{
	const struct iw_rx *rx = &ep->rx;
	const struct iw_work *read;
	uint32_t offset = rx->piece_offset;
	unsigned int count = 0;

	if (rx->head.opcode != IW_READ_RESPONSE) {
		out[0] = (struct iovec){ rx->target, size };
		return 1;
	}
	read = oldest_read(ep);
	for (uint32_t i = rx->piece; size; i++) {
		const struct iovec *piece = &read->pieces[i];
		size_t n = rf_min_u64(size, piece->iov_len - offset);

		out[count++] = (struct iovec){
			(uint8_t *)piece->iov_base + offset, n };
		size -= n;
		offset = 0;
	}
	return count;
}

/* So many bytes are in place; the same targets as find_targets() told. */
static void have_landed(struct iw_ep *ep, const struct iovec *targets,
			size_t size)
{
	struct iw_rx *rx = &ep->rx;

	rx->left -= (uint32_t)size;
	if (rx->head.opcode != IW_READ_RESPONSE)
		rx->target += size;
	while (size) {
		size_t n = rf_min_u64(size, targets->iov_len);

		rx->crc = crc_add(ep, rx->crc, targets->iov_base, n);
		size -= n;
		targets++;
		if (rx->head.opcode != IW_READ_RESPONSE)
			continue;
		rx->piece_offset += (uint32_t)n;
		if (rx->piece_offset ==
		    oldest_read(ep)->pieces[rx->piece].iov_len) {
			rx->piece++;
			rx->piece_offset = 0;
		}
	}
}

/* A Write's right may have ended since its head was checked. */
static enum iw_error hold_target(struct iw_ep *ep, struct iw_key **key)
{
	*key = NULL;
	if (ep->rx.head.opcode != IW_WRITE)
		return IW_OK;
	return hold_write(ep, (uintptr_t)ep->rx.target, ep->rx.left, key);
}

static enum step step_payload(struct iw_ep *ep)
{
	struct iw_rx *rx = &ep->rx;
	struct iovec targets[IW_SGE_MAX];
	size_t size = rf_min_u64(rx->left, in_stage(rx));
	unsigned int count;
	struct iw_key *key;
	enum iw_error error;

	if (rx->left == 0) {
		rx->state = IW_RX_TAIL;
		return STEP_ON;
	}
	if (size == 0)
		return STEP_MORE;
	error = hold_target(ep, &key);
	if (error)
		return refuse(ep, error, NULL);
	count = find_targets(ep, targets, size);
	for (unsigned int i = 0; i < count; i++) {
		memcpy(targets[i].iov_base, rx->stage + rx->begin,
		       targets[i].iov_len);
		rx->begin += (uint32_t)targets[i].iov_len;
	}
	have_landed(ep, targets, size);
	iw_key_release(key);
	return STEP_ON;
}

static enum step step_tail(struct iw_ep *ep)
{
	struct iw_rx *rx = &ep->rx;
	uint32_t pad = iw_pad_size(rx->head.ulpdu_size);
	const uint8_t *at = rx->stage + rx->begin;

	if (in_stage(rx) < pad + IW_CRC_SIZE)
		return STEP_MORE;
	rx->begin += pad + IW_CRC_SIZE;
	if (ep->uses_crc &&
	    rf_load_u32(at + pad) != rf_crc32c(rx->crc, at, pad))
		return refuse(ep, IW_MPA_BAD_CRC, NULL);
	return finish_segment(ep);
}

static enum step run_steps(struct iw_ep *ep)
{
	enum step step = STEP_ON;

	while (step == STEP_ON && !iw_budget_is_spent(iw_ep_poller(ep))) {
		switch (ep->rx.state) {
		case IW_RX_HEAD:
			step = step_head(ep);
			break;
		case IW_RX_PAYLOAD:
			step = step_payload(ep);
			break;
		case IW_RX_TAIL:
			step = step_tail(ep);
			break;
		}
	}
	return step;
}

/* ---- receiving --------------------------------------------------------- */

/* Payload into its target, tail and next head behind it into the stage. */
static ssize_t receive_payload(struct iw_ep *ep, size_t *asked)
{
	struct iw_rx *rx = &ep->rx;
	struct iovec iov[IW_SGE_MAX + 1];
	struct msghdr msg = { .msg_iov = iov };
	size_t behind = iw_pad_size(rx->head.ulpdu_size) + IW_CRC_SIZE +
			(rx->head.is_last ? (size_t)IW_READ_AHEAD :
			 (size_t)rx->head.size);
	size_t landed;
	struct iw_key *key;
	enum iw_error error = hold_target(ep, &key);
	unsigned int count;
	ssize_t got;

	if (error) {
		refuse(ep, error, NULL);
		errno = ECONNABORTED;
		return -1;
	}
	count = find_targets(ep, iov, rx->left);
	iov[count] = (struct iovec){ rx->stage, behind };
	msg.msg_iovlen = count + 1;
	*asked = rx->left + behind;
	got = recvmsg(ep->source.fd, &msg, MSG_DONTWAIT);
	if (got > 0) {
		landed = rf_min_u64((size_t)got, rx->left);
		have_landed(ep, iov, landed);
		rx->begin = 0;
		rx->end = (uint32_t)((size_t)got - landed);
	}
	iw_key_release(key);
	return got;
}

static ssize_t receive_stage(struct iw_ep *ep, size_t *asked)
{
	struct iw_rx *rx = &ep->rx;
	ssize_t got;

	if (rx->begin) {
		memmove(rx->stage, rx->stage + rx->begin, in_stage(rx));
		rx->end -= rx->begin;
		rx->begin = 0;
	}
	*asked = IW_STAGE_SIZE - rx->end;
	got = recv(ep->source.fd, rx->stage + rx->end, *asked, MSG_DONTWAIT);
	if (got > 0)
		rx->end += (uint32_t)got;
	return got;
}

static ssize_t receive(struct iw_ep *ep, size_t *asked)
{
	struct iw_rx *rx = &ep->rx;

	if (rx->state == IW_RX_PAYLOAD && rx->left && in_stage(rx) == 0)
		return receive_payload(ep, asked);
	return receive_stage(ep, asked);
}

static void stream_ended(struct iw_ep *ep)
{
	bool is_whole = ep->rx.state == IW_RX_HEAD && in_stage(&ep->rx) == 0;

	ep->rx_at_end = true;
	iw_ep_doom(ep, is_whole ? 0 : -ECONNRESET);
}

static void receive_failed(struct iw_ep *ep, int err)
{
	if (err == EAGAIN || err == EINTR || ep->state != IW_EP_OPEN)
		return;
	ep->rx_at_end = true;
	iw_ep_doom(ep, -err);
}

/* Budget spent: the rest of the stage has its turn in the next run. */
static void postpone(struct iw_ep *ep)
{
	if (ep->state != IW_EP_OPEN)
		return;
	ep->rx_is_due = true;
	iw_list_move(&iw_ep_poller(ep)->ready, &ep->ready);
}

bool iw_rx_run(struct iw_ep *ep)
{
	struct iw_poller *poller = iw_ep_poller(ep);
	bool had_bytes = false, is_drained = false;
	size_t asked;
	ssize_t got;

	ep->rx_is_due = false;
	for (int i = 0; ; i++) {
		enum step step = run_steps(ep);

		if (step == STEP_END)
			break;
		if (iw_budget_is_spent(poller)) {
			postpone(ep);
			break;
		}
		if (is_drained || i == IW_RX_ROUNDS)
			break;
		got = receive(ep, &asked);
		if (got < 0)
			receive_failed(ep, errno);
		else if (got == 0)
			stream_ended(ep);
		if (got <= 0)
			break;
		had_bytes = true;
		is_drained = (size_t)got < asked;
	}
	if (had_bytes && ep->state == IW_EP_OPEN)
		poller->last_active = ep;
	return had_bytes;
}

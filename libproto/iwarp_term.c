/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iwarp_term.c - Terminate messages, and what they mean (RFC 5040 section 4.8)
 *
 * A Terminate is the last message of its sender.  It names layer, type and
 * code, and brings the headers of the segment that it blames.
 */
#include "iwarp.h"
#include "log_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>

enum {
	TERMINATE_HAS_LENGTH = 0x8000,	/* of the blamed segment */
	TERMINATE_HAS_DDP = 0x4000,
	TERMINATE_HAS_READ = 0x2000,
};

int iw_error_reason(enum iw_error error)
{
	switch (error) {
	case IW_RDMAP_STAG:
	case IW_RDMAP_BOUNDS:
	case IW_RDMAP_ACCESS:
	case IW_RDMAP_STREAM:
	case IW_RDMAP_WRAP:
	case IW_RDMAP_INVALIDATE:
	case IW_RDMAP_PROTECTION:
	case IW_RDMAP_INVALIDATE_OP:	/* the RFC lists it twice */
	case IW_DDP_STAG:
	case IW_DDP_BOUNDS:
	case IW_DDP_STREAM:
	case IW_DDP_WRAP:
		return -EACCES;
	case IW_DDP_TOO_LONG:
		return -EMSGSIZE;
	case IW_DDP_NO_BUFFER:
		return -ENOBUFS;
	default:
		return -EPROTO;
	}
}

enum iw_error iw_error_of_ddp(enum iw_error error)
{
	switch (error) {
	case IW_RDMAP_STAG:
		return IW_DDP_STAG;
	case IW_RDMAP_BOUNDS:
		return IW_DDP_BOUNDS;
	case IW_RDMAP_STREAM:
		return IW_DDP_STREAM;
	case IW_RDMAP_WRAP:
		return IW_DDP_WRAP;
	default:
		return error;
	}
}

static const char *error_text(enum iw_error error)
{
	switch (error) {
	case IW_RDMAP_STAG:
	case IW_DDP_STAG:
		return "no such key";
	case IW_RDMAP_BOUNDS:
	case IW_DDP_BOUNDS:
		return "outside the range of the key";
	case IW_RDMAP_ACCESS:
		return "the key does not give this right";
	case IW_RDMAP_STREAM:
	case IW_DDP_STREAM:
		return "the key belongs to another connection";
	case IW_RDMAP_WRAP:
	case IW_DDP_WRAP:
		return "the range wraps";
	case IW_RDMAP_INVALIDATE:
		return "the key cannot be invalidated";
	case IW_DDP_NO_BUFFER:
		return "no Receive was posted";
	case IW_DDP_TOO_LONG:
		return "longer than the Receive";
	case IW_MPA_BAD_CRC:
		return "the checksum is wrong";
	default:
		return "not well formed";
	}
}

static void log_end(const struct iw_ep *ep, const char *who,
		    enum iw_error error)
{
	struct sockaddr_storage local, peer;
	char host[INET6_ADDRSTRLEN] = "?";
	unsigned int port = 0;

	if (rf_log_get_level() < RF_LOG_WARN ||
	    iw_ep_addresses(&ep->base, &local, &peer) < 0)
		return;
	if (peer.ss_family == AF_INET) {
		struct sockaddr_in *in = (struct sockaddr_in *)&peer;

		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		port = ntohs(in->sin_port);
	} else if (peer.ss_family == AF_INET6) {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&peer;

		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		port = ntohs(in6->sin6_port);
	}
	rf_log_peer(RF_LOG_WARN, (const struct sockaddr *)&peer,
		    "iwarp: connection with %s port %u ended: %s: %s "
		    "(Terminate %04x)", host, port, who, error_text(error),
		    (unsigned int)error);
}

/* Returns the size of the payload. */
static size_t encode_payload(uint8_t *out, enum iw_error error,
			     const struct iw_head *head, const uint8_t *raw,
			     const uint8_t *read)
{
	uint32_t control = (uint32_t)error << 16;
	size_t size = 4;

	if (head && head->size) {
		size_t ddp_size = (size_t)head->size - IW_LENGTH_SIZE;

		control |= TERMINATE_HAS_LENGTH | TERMINATE_HAS_DDP;
		iw_store_be16(out + size, head->ulpdu_size);
		size += 2;
		memcpy(out + size, raw + IW_LENGTH_SIZE, ddp_size);
		size += ddp_size;
		if (read) {
			control |= TERMINATE_HAS_READ;
			memcpy(out + size, read, IW_READ_REQUEST_SIZE);
			size += IW_READ_REQUEST_SIZE;
		}
	}
	iw_store_be32(out, control);
	return size;
}

void iw_terminate(struct iw_ep *ep, enum iw_error error,
		  const struct iw_head *blamed, const uint8_t *raw,
		  const uint8_t *read, int reason)
{
	struct iw_head head = {
		.opcode = IW_TERMINATE, .is_last = true,
		.queue = IW_QUEUE_TERMINATE, .msn = 1,
	};
	uint8_t *out = ep->terminate;
	size_t size = IW_HEAD_MAX, pad;
	uint32_t crc = 0;

	if (ep->state != IW_EP_OPEN)
		return;
	head.payload = (uint32_t)encode_payload(out + size, error, blamed, raw,
						read);
	iw_head_encode(&head, out);
	size += head.payload;
	pad = iw_pad_size(head.ulpdu_size);
	memset(out + size, 0, pad);
	size += pad;
	if (ep->uses_crc)
		crc = rf_crc32c(0, out, size);
	rf_store_u32(out + size, crc);
	ep->terminate_size = size + IW_CRC_SIZE;
	if (reason == -EACCES)
		iw_count(&iw_ep_poller(ep)->stats.rights_refused, 1);
	log_end(ep, "the peer's message was refused", error);
	iw_ep_doom(ep, reason);
}

static void refuse_work(struct iw_work *work)
{
	if (!work->is_finished)
		work->is_refused = true;
}

/* The Read of this MSN, if it is under way. */
static void refuse_read(struct iw_ep *ep, uint32_t msn)
{
	uint32_t read = msn - 1;

	if (read - ep->reads_landed <
	    ep->cursor.reads_issued - ep->reads_landed)
		refuse_work(iw_ep_work(ep, ep->reads[read & ep->reads_mask]));
}

/* The first Write into this key that is not finished. */
static void refuse_write(struct iw_ep *ep, uint32_t stag)
{
	for (uint32_t n = ep->work_head; n != ep->work_tail; n++) {
		struct iw_work *work = iw_ep_work(ep, n);

		if (work->code == RF_WRITE && work->remote.rkey == stag &&
		    !work->is_finished) {
			refuse_work(work);
			return;
		}
	}
}

/* Which of our works does the peer blame? */
static void find_blamed(struct iw_ep *ep, const uint8_t *payload, size_t size)
{
	uint32_t control = iw_load_be32(payload);
	struct iw_head head;

	if (!(control & TERMINATE_HAS_LENGTH) ||
	    !(control & TERMINATE_HAS_DDP) ||
	    iw_head_decode(&head, payload + 4, size - 4) != 1)
		return;
	if (head.opcode == IW_READ_REQUEST)
		refuse_read(ep, head.msn);
	else if (head.opcode == IW_WRITE)
		refuse_write(ep, head.stag);
}

void iw_terminated(struct iw_ep *ep, const uint8_t *payload, size_t size)
{
	enum iw_error error;

	if (size < 4) {
		iw_ep_doom(ep, -EPROTO);
		return;
	}
	error = (enum iw_error)(iw_load_be32(payload) >> 16);
	if (iw_error_reason(error) == -EACCES)
		find_blamed(ep, payload, size);
	log_end(ep, "the peer refused our message", error);
	/* It reads nothing more, so there are no last words. */
	ep->tx_is_broken = true;
	iw_ep_doom(ep, iw_error_reason(error));
}

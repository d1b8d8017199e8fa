/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iwarp_wire.c - encode and decode the headers of iwarp_wire.h
 *
 * Pure: no state, no system call.  Decoders trust no length.
 */
#include "iwarp_wire.h"

#include <errno.h>

static const char request_key[] = "MPA ID Req Frame";
static const char reply_key[] = "MPA ID Rep Frame";
enum { KEY_SIZE = 16 };
_Static_assert(sizeof(request_key) == KEY_SIZE + 1, "RFC 5044 section 7.1.1");
_Static_assert(sizeof(reply_key) == KEY_SIZE + 1, "RFC 5044 section 7.1.1");

/* ---- segments ---------------------------------------------------------- */

void iw_head_encode(struct iw_head *head, uint8_t *out)
{
	uint32_t ddp_size = head->is_tagged ? IW_TAGGED_SIZE : IW_UNTAGGED_SIZE;

	head->size = (uint8_t)(IW_LENGTH_SIZE + ddp_size);
	head->ulpdu_size = (uint16_t)(ddp_size + head->payload);
	iw_store_be16(out, head->ulpdu_size);
	out[2] = (uint8_t)(IW_DDP_VERSION |
			   (head->is_tagged ? IW_DDP_TAGGED : 0) |
			   (head->is_last ? IW_DDP_LAST : 0));
	out[3] = (uint8_t)(IW_RDMAP_VERSION | head->opcode);
	iw_store_be32(out + 4, head->stag);
	if (head->is_tagged) {
		iw_store_be64(out + 8, head->offset);
		return;
	}
	iw_store_be32(out + 8, head->queue);
	iw_store_be32(out + 12, head->msn);
	iw_store_be32(out + 16, (uint32_t)head->offset);
}

static int check_versions(const struct iw_head *head, const uint8_t *in)
{
	if ((in[2] & IW_DDP_VERSION_MASK) != IW_DDP_VERSION)
		return head->is_tagged ? -IW_DDP_TAGGED_VERSION
				       : -IW_DDP_UNTAGGED_VERSION;
	if ((in[3] & IW_RDMAP_VERSION_MASK) != IW_RDMAP_VERSION)
		return -IW_RDMAP_BAD_VERSION;
	return 0;
}

static bool opcode_is_tagged(uint8_t opcode)
{
	return opcode == IW_WRITE || opcode == IW_READ_RESPONSE;
}

int iw_head_decode(struct iw_head *head, const uint8_t *in, size_t have)
{
	uint32_t ddp_size;
	int err;

	memset(head, 0, sizeof(*head));
	if (have < 4)
		return 0;
	head->ulpdu_size = iw_load_be16(in);
	head->is_tagged = in[2] & IW_DDP_TAGGED;
	head->is_last = in[2] & IW_DDP_LAST;
	head->opcode = in[3] & IW_RDMAP_OPCODE_MASK;
	ddp_size = head->is_tagged ? IW_TAGGED_SIZE : IW_UNTAGGED_SIZE;
	if (head->ulpdu_size < ddp_size)
		return -IW_MPA_BAD_LENGTH;
	if (have < IW_LENGTH_SIZE + ddp_size)
		return 0;
	head->size = (uint8_t)(IW_LENGTH_SIZE + ddp_size);
	head->payload = head->ulpdu_size - ddp_size;
	head->stag = iw_load_be32(in + 4);
	if (head->is_tagged) {
		head->offset = iw_load_be64(in + 8);
	} else {
		head->queue = iw_load_be32(in + 8);
		head->msn = iw_load_be32(in + 12);
		head->offset = iw_load_be32(in + 16);
	}
	err = check_versions(head, in);
	if (err)
		return err;
	if (head->opcode > IW_TERMINATE ||
	    opcode_is_tagged(head->opcode) != head->is_tagged)
		return -IW_RDMAP_BAD_OPCODE;
	return 1;
}

void iw_read_request_encode(const struct iw_read_request *req, uint8_t *out)
{
	iw_store_be32(out, req->sink_stag);
	iw_store_be64(out + 4, req->sink_offset);
	iw_store_be32(out + 12, req->size);
	iw_store_be32(out + 16, req->source_stag);
	iw_store_be64(out + 20, req->source_offset);
}

void iw_read_request_decode(struct iw_read_request *req, const uint8_t *in)
{
	req->sink_stag = iw_load_be32(in);
	req->sink_offset = iw_load_be64(in + 4);
	req->size = iw_load_be32(in + 12);
	req->source_stag = iw_load_be32(in + 16);
	req->source_offset = iw_load_be64(in + 20);
}

/* ---- connection set-up ------------------------------------------------- */

/* RFC 6581 section 9: A and B sit above the IRD, C and D above the ORD. */
static void encode_depths(const struct iw_mpa *mpa, uint8_t *out)
{
	uint32_t ird = mpa->ird, ord = mpa->ord;

	ird |= (mpa->rtr & IW_RTR_PEER ? 0x8000u : 0) |
	       (mpa->rtr & IW_RTR_EMPTY ? 0x4000u : 0);
	ord |= (mpa->rtr & IW_RTR_WRITE ? 0x8000u : 0) |
	       (mpa->rtr & IW_RTR_READ ? 0x4000u : 0);
	iw_store_be16(out, (uint16_t)ird);
	iw_store_be16(out + 2, (uint16_t)ord);
}

static void decode_depths(struct iw_mpa *mpa, const uint8_t *in)
{
	uint16_t ird = iw_load_be16(in), ord = iw_load_be16(in + 2);

	mpa->ird = ird & 0x3fff;
	mpa->ord = ord & 0x3fff;
	mpa->rtr = (uint8_t)((ird & 0x8000 ? IW_RTR_PEER : 0) |
			     (ird & 0x4000 ? IW_RTR_EMPTY : 0) |
			     (ord & 0x8000 ? IW_RTR_WRITE : 0) |
			     (ord & 0x4000 ? IW_RTR_READ : 0));
}

size_t iw_mpa_encode(const struct iw_mpa *mpa, uint8_t *out)
{
	size_t depths_size = mpa->is_enhanced ? IW_MPA_DEPTHS_SIZE : 0;
	uint8_t *private = out + IW_MPA_HEAD_SIZE;

	memcpy(out, mpa->is_reply ? reply_key : request_key, KEY_SIZE);
	out[16] = (uint8_t)((mpa->wants_markers ? IW_MPA_MARKERS : 0) |
			    (mpa->wants_crc ? IW_MPA_CRC : 0) |
			    (mpa->is_rejected ? IW_MPA_REJECT : 0) |
			    (mpa->is_enhanced ? IW_MPA_ENHANCED : 0));
	out[17] = mpa->revision;
	iw_store_be16(out + 18, (uint16_t)(depths_size + mpa->hello_size));
	if (mpa->is_enhanced)
		encode_depths(mpa, private);
	if (mpa->hello_size)
		memcpy(private + depths_size, mpa->hello, mpa->hello_size);
	return IW_MPA_HEAD_SIZE + depths_size + mpa->hello_size;
}

size_t iw_mpa_missing(const uint8_t *in, size_t have)
{
	size_t size = IW_MPA_HEAD_SIZE;

	if (have >= IW_MPA_HEAD_SIZE)
		size += iw_load_be16(in + 18);
	return size > have ? size - have : 0;
}

int iw_mpa_decode(struct iw_mpa *mpa, bool is_reply, const uint8_t *in,
		  size_t have)
{
	const char *key = is_reply ? reply_key : request_key;
	size_t private_size, depths_size;

	if (memcmp(in, key, have < KEY_SIZE ? have : KEY_SIZE) != 0)
		return -EPROTO;
	if (have < IW_MPA_HEAD_SIZE)
		return 0;
	private_size = iw_load_be16(in + 18);
	*mpa = (struct iw_mpa){
		.is_reply = is_reply,
		.wants_markers = in[16] & IW_MPA_MARKERS,
		.wants_crc = in[16] & IW_MPA_CRC,
		.is_rejected = is_reply && (in[16] & IW_MPA_REJECT),
		.revision = in[17],
		.ird = IW_MPA_DEPTH_UNSET,
		.ord = IW_MPA_DEPTH_UNSET,
	};
	mpa->is_enhanced = mpa->revision == 2 && (in[16] & IW_MPA_ENHANCED);
	depths_size = mpa->is_enhanced ? IW_MPA_DEPTHS_SIZE : 0;
	if (mpa->revision < 1 || mpa->revision > 2 ||
	    private_size > IW_MPA_PRIVATE_MAX || private_size < depths_size)
		return -EPROTO;
	if (have < IW_MPA_HEAD_SIZE + private_size)
		return 0;
	if (mpa->is_enhanced)
		decode_depths(mpa, in + IW_MPA_HEAD_SIZE);
	mpa->hello = in + IW_MPA_HEAD_SIZE + depths_size;
	mpa->hello_size = private_size - depths_size;
	return (int)(IW_MPA_HEAD_SIZE + private_size);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc_keep.c - an answer from before a RESUME becomes its slot's last one again
 *
 * Operation.  What was recorded are the results, as they were encoded.  Keys of
 * the old connection are in them; they are dead, and the client must not try
 * them: write slots are taken out, and results that were lent say that they have
 * to be asked for again.
 */
#include "rpc_impl.h"

#include <errno.h>

/* How many operations fill size bytes; -EIO: they don't. */
static int count_ops(const uint8_t *at, size_t size)
{
	int count = 0;

	while (size > 0) {
		size_t whole;

		if (size < RF_OP_HEADER_SIZE || count == RF_OPS_MAX)
			return -EIO;
		whole = RF_OP_HEADER_SIZE + (size_t)rf_load_u32(at + 4);
		if (whole > size)
			return -EIO;
		at += whole;
		size -= whole;
		count++;
	}
	return count;
}

static int begin(struct rf_channel *channel, const struct rf_kept *kept,
		 struct rf_dec *dec)
{
	struct rf_header header = {
		.type = RF_MSG_REPLY,
		.slot = kept->slot,
		.seq = kept->seq,
		.epoch = channel->epoch,
	};
	int count = count_ops((uint8_t *)kept->bytes + RF_HEADER_SIZE,
			      kept->size);

	if (count < 0 || kept->size > UINT32_MAX - RF_HEADER_SIZE)
		return -EIO;
	header.op_count = (uint16_t)count;
	header.size = (uint32_t)(RF_HEADER_SIZE + kept->size);
	rf_header_store(kept->bytes, &header);
	return rf_dec_init(dec, kept->bytes, header.size) < 0 ? -EIO : 0;
}

static void ask_again_if(struct rf_results *results, const rf_grants_t *grants)
{
	if (results->status == RF_ST_OK && grants->count > 0)
		results->status = RF_ST_AGAIN;
}

static void take_keys_out(struct rf_results *results)
{
	switch (results->code) {
	case RF_OP_WRITE:
		results->write.rearmed.count = 0;
		break;
	case RF_OP_SETXATTR:
		results->setxattr.rearmed.count = 0;
		break;
	case RF_OP_SLOTS:
		results->slots.slots.count = 0;
		break;
	case RF_OP_READ:
		ask_again_if(results, &results->read.grants);
		break;
	case RF_OP_READDIR:
		ask_again_if(results, &results->readdir.grants);
		break;
	case RF_OP_GETXATTR:
		ask_again_if(results, &results->getxattr.grants);
		break;
	case RF_OP_LISTXATTR:
		ask_again_if(results, &results->listxattr.grants);
		break;
	default:
		break;
	}
}

static int copy_results(struct rf_dec *dec, struct rf_enc *enc,
			unsigned int io_op)
{
	struct rf_results results;
	int ret;

	for (unsigned int i = 1; ; i++) {
		results = (struct rf_results){ .status = RF_ST_OK };
		ret = rf_dec_results(dec, &results);
		if (ret == 0)
			return 0;
		/* An operation that nobody knows may only have failed. */
		if (ret == -EBADMSG ||
		    (ret == -EOPNOTSUPP && results.status == RF_ST_OK))
			return -EIO;
		if (i == io_op)
			results = (struct rf_results){ .code = results.code,
						       .status = RF_ST_IO };
		take_keys_out(&results);
		rf_enc_results(enc, &results);
		if (i == io_op)
			return 0;
	}
}

int rf_channel_keep(struct rf_channel *channel, const struct rf_kept *kept)
{
	struct rf_channel_slot *slot;
	struct rf_enc enc;
	struct rf_dec dec;
	int err;

	if (kept->slot >= channel->slot_count)
		return -EINVAL;
	slot = &channel->slots[kept->slot];
	RF_ASSERT(slot->is_fresh);
	err = begin(channel, kept, &dec);
	if (err)
		return err;
	rf_enc_init(&enc, slot->out.buf->mem, channel->limits.msg_max);
	err = copy_results(&dec, &enc, kept->io_op);
	if (!err && rf_enc_finish(&enc, &dec.header) < 0)
		err = -EIO;
	if (err)
		return err;
	slot->seq = kept->seq;
	slot->out.size = enc.used;
	return 0;
}

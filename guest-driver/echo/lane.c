// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lanes: a mailbox at each end. A deposit is a message with an offset, and the receiver's driver
 * copies it there: the one card whose sender's card does not. A message that a full inbox would
 * drop is not sent, as the sender knows how many have been taken.
 */
#include <linux/iopoll.h>
#include <linux/random.h>

#include "echo.h"
#include "uln_lane.h"

/* Records of the inbox: one for each deposit, and for reports. */
#define RECORDS 256
#define MOST (RECORDS - 16)
/* Time in which the card usually takes a message, in microseconds. */
#define PATIENCE_US 30

struct lane_message {
	__le32 to;
	__le32 reserved[3];
	u8 data[992];
};
static_assert(sizeof(struct lane_message) == ECHO_MAX_MESSAGE);
#define HEAD offsetof(struct lane_message, data)

/* uln_lane.address. */
struct lane_address {
	__le64 key;
	__le32 mailbox;
};
static_assert(sizeof(struct lane_address) <= ULN_LANE_ADDRESS);

struct echo_lane {
	struct uln_lane *lane;
	struct echo_mailbox_object *mailbox;
	void __iomem *outbox;
	void __iomem *doorbell;
	/* Messages sent and taken. */
	u32 rung;
	u32 taken;
};

static void lane_set_key(const struct echo_lane *own, u32 field, u64 key)
{
	writel(lower_32_bits(key), own->outbox + field);
	writel(upper_32_bits(key), own->outbox + field + sizeof(u32));
}

static int lane_open_mailbox(struct echo_lane *own, u32 *index)
{
	struct echo_mailbox mailbox = { .records = RECORDS };
	struct uln_file *file = &own->lane->file;
	struct echo_parts *parts = echo_parts(file->card);
	int ret = echo_mailbox_open(file, &mailbox);

	if (ret)
		return ret;
	*index = mailbox.mailbox;
	own->outbox = parts->memory + *index * ECHO_OUTBOX_SIZE;
	own->doorbell = ioremap(parts->doorbells + *index * ECHO_DOORBELL_SIZE, ECHO_DOORBELL_SIZE);
	if (!own->doorbell)
		return -ENOMEM;
	guard(mutex)(&file->card->lock);
	own->mailbox = xa_load(&parts->mailboxes, *index);
	return own->mailbox ? 0 : -ENODEV;
}

/* The mailbox belongs to the file, with which it ends. */
static int lane_open(struct uln_lane *lane)
{
	struct lane_address *address = (struct lane_address *)lane->address;
	struct echo_lane *own = lane->model;
	u64 key = get_random_u64();
	u32 index;
	int ret;

	own->lane = lane;
	ret = lane_open_mailbox(own, &index);
	if (ret)
		return ret;
	lane_set_key(own, ECHO_OUTBOX_LOCK, key);
	address->key = cpu_to_le64(key);
	address->mailbox = cpu_to_le32(index);
	uln_lane_watch(lane, &own->mailbox->sleepers.wait, &own->mailbox->sleepers.wait);
	return 0;
}

static void lane_close(struct uln_lane *lane)
{
	struct echo_lane *own = lane->model;

	if (own->doorbell)
		iounmap(own->doorbell);
}

static int lane_connect(struct uln_lane *lane, const u8 *bytes)
{
	const struct lane_address *address = (const struct lane_address *)bytes;
	struct echo_lane *own = lane->model;

	writel(lane->host, own->outbox + ECHO_OUTBOX_DESTINATION);
	writel(le32_to_cpu(address->mailbox), own->outbox + ECHO_OUTBOX_MAILBOX);
	lane_set_key(own, ECHO_OUTBOX_KEY, le64_to_cpu(address->key));
	return 0;
}

/* Returns whether the card has sent the last message. If not, the user is woken in a moment. */
static bool lane_has_outbox(struct echo_lane *own)
{
	u32 sent;

	if (readl_poll_timeout_atomic(own->outbox + ECHO_OUTBOX_SENT, sent, sent == own->rung, 1,
				      PATIENCE_US)) {
		uln_lane_again(own->lane);
		return false;
	}
	if (own->rung && readl(own->outbox + ECHO_OUTBOX_RESULT) != ECHO_RESULT_SENT) {
		uln_lane_broke(own->lane);
		return false;
	}
	return true;
}

static bool lane_send(struct uln_lane *lane, u32 from, u32 to, u32 length)
{
	struct echo_lane *own = lane->model;
	void __iomem *data = own->outbox + ECHO_OUTBOX_DATA;

	if (!lane_has_outbox(own))
		return false;
	writel(HEAD + length, own->outbox + ECHO_OUTBOX_LENGTH);
	writel(to, data + offsetof(struct lane_message, to));
	memcpy_toio(data + HEAD, lane->base + from, length);
	wmb(); /* The whole message is visible before the doorbell. */
	writel(1, own->doorbell);
	own->rung++;
	return true;
}

/* Copies a message to its place, if it has one. */
static void lane_deposit(const struct uln_lane *lane, const struct lane_message *message, u32 *to,
			 u32 *length)
{
	*to = le32_to_cpu(READ_ONCE(message->to));
	if (*length < HEAD || *length > sizeof(*message) || *to >= uln_lane_mirror(lane) ||
	    *length - HEAD > uln_lane_mirror(lane) - *to) {
		*to = U32_MAX;
		return;
	}
	*length -= HEAD;
	memcpy(lane->base + *to, message->data, *length);
}

static bool lane_take(struct uln_lane *lane, u32 *to, u32 *length)
{
	struct echo_lane *own = lane->model;
	const struct echo_record *record = echo_mailbox_arrived(own->mailbox, own->taken);

	if (!record)
		return false;
	*length = le32_to_cpu(READ_ONCE(record->length));
	if (le32_to_cpu(READ_ONCE(record->source)) == lane->host)
		lane_deposit(lane, (const void *)record->data, to, length);
	else
		*to = U32_MAX;
	mb(); /* The record has been read before the card may overwrite it. */
	writel(++own->taken, own->outbox + ECHO_OUTBOX_TAKEN);
	return true;
}

static bool lane_arm(struct uln_lane *lane)
{
	struct echo_lane *own = lane->model;
	const struct echo_wait wait = { .taken = own->taken };

	return !uln_sleepers_ready(&own->mailbox->sleepers, &wait);
}

const struct uln_lane_ops echo_lane_ops = {
	.size = sizeof(struct echo_lane),
	.longest = sizeof_field(struct lane_message, data),
	.most = MOST,
	.open = lane_open,
	.connect = lane_connect,
	.close = lane_close,
	.send = lane_send,
	.take = lane_take,
	.arm = lane_arm,
};

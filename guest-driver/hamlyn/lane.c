// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lanes: a terminus, a slot and a notification queue. A deposit is a message that the card gathers
 * from the mirror. Its metadata says where it is; each has an entry of its own, whose number is the
 * deposit's. Packets may overtake each other, and so may messages: they are taken by their numbers.
 * A report is a fast-mode message, which needs no entry.
 */
#include "hamlyn.h"
#include "uln_channel.h"
#include "uln_lane.h"

/* Metadata entries: as many deposits may be on their way, and as the work queue has entries. */
#define ENTRIES HAMLYN_WORK_QUEUE_ENTRIES
/* Notifications: one for each deposit, and for reports. */
#define NOTIFICATIONS (4 * ENTRIES)

/* uln_lane.address. */
struct lane_address {
	__le64 key;
	__le32 slot;
};
static_assert(sizeof(struct lane_address) <= ULN_LANE_ADDRESS);

/* The metadata of a deposit, padded for the tuples behind it. */
struct lane_metadata {
	__le32 to;
	__le32 length;
	__le64 reserved;
};
static_assert(sizeof(struct lane_metadata) == 16 && sizeof(struct uln_lane_report) == 8);

struct hamlyn_lane {
	struct uln_lane *lane;
	struct hamlyn_terminus *terminus;
	struct hamlyn_queue *queue;
	/* Metadata entries, and whether they belong to the slot. */
	struct uln_pages *metadata;
	bool given;
	u32 cursor;
	u32 pass;
	/* Deposits taken, and by entry whether the next one is complete. */
	u32 taken;
	u64 complete;
	/* The other end. */
	u64 key;
	u32 slot;
};
static_assert(ENTRIES == BITS_PER_TYPE(u64));

/* The ring and the control block are for the other host, the mirror is not. */
static int lane_open_slot(struct hamlyn_lane *own)
{
	struct uln_lane *lane = own->lane;
	struct lane_address *address = (struct lane_address *)lane->address;
	struct hamlyn_slot *slot;
	struct uln_area area;
	u64 key;

	uln_pages_describe(lane->memory, &area);
	area.length = cpu_to_le64(lane->memory->length / 2);
	slot = hamlyn_slot_lend(&lane->file, &area, own->metadata, own->queue, &key);
	if (IS_ERR(slot))
		return PTR_ERR(slot);
	own->given = true;
	address->key = cpu_to_le64(key);
	address->slot = cpu_to_le32(slot->object.index);
	return 0;
}

static int lane_set_send_buffer(struct hamlyn_lane *own)
{
	struct hamlyn_set_send_buffer body = {};

	uln_pages_describe(own->lane->memory, &body.area);
	return uln_command(own->lane->file.card, HAMLYN_COMMAND_SET_SEND_BUFFER,
			   own->terminus->object.index, &body, sizeof(body));
}

/* Each of these belongs to the file, with which it ends. */
static int lane_open_parts(struct hamlyn_lane *own)
{
	struct hamlyn_queue_create queue = { .entries = NOTIFICATIONS };
	struct hamlyn_terminus_create terminus = {};
	struct uln_file *file = &own->lane->file;
	struct hamlyn_parts *parts = hamlyn_parts(file->card);
	int ret;

	ret = uln_pages_make(file, ENTRIES * HAMLYN_METADATA_SIZE, &own->metadata) ?:
	      hamlyn_terminus_create(file, &terminus) ?: hamlyn_queue_create(file, &queue);
	if (ret)
		return ret;
	guard(mutex)(&file->card->lock);
	own->terminus = xa_load(&parts->termini, terminus.terminus);
	own->queue = xa_load(&parts->queues, queue.queue);
	if (!file->card->live || !own->terminus || !own->queue)
		return -ENODEV;
	ret = hamlyn_post_open(own->terminus) ?: lane_set_send_buffer(own) ?: lane_open_slot(own);
	if (ret)
		return ret;
	uln_lane_watch(own->lane, &own->queue->sleepers.wait, &own->terminus->sleepers.wait);
	return 0;
}

static int lane_open(struct uln_lane *lane)
{
	struct hamlyn_lane *own = lane->model;

	own->lane = lane;
	return lane_open_parts(own);
}

static void lane_close(struct uln_lane *lane)
{
	struct hamlyn_lane *own = lane->model;

	if (!own->given)
		uln_pages_give_back(&own->metadata);
}

static int lane_connect(struct uln_lane *lane, const u8 *bytes)
{
	const struct lane_address *address = (const struct lane_address *)bytes;
	struct hamlyn_lane *own = lane->model;

	own->key = le64_to_cpu(address->key);
	own->slot = le32_to_cpu(address->slot);
	return 0;
}

static bool lane_send(struct uln_lane *lane, u32 from, u32 to, u32 length)
{
	const struct lane_metadata metadata = {
		.to = cpu_to_le32(to),
		.length = cpu_to_le32(length),
	};
	const struct hamlyn_gather gather = {
		.offset = cpu_to_le32(from),
		.length = cpu_to_le32(length),
	};
	struct hamlyn_lane *own = lane->model;
	struct hamlyn_request request = {
		.destination = cpu_to_le32(lane->host),
		.slot = cpu_to_le32(own->slot),
		.metadata_index = cpu_to_le32(HAMLYN_FAST_MODE),
		.flags = cpu_to_le32(HAMLYN_REQUEST_INTERRUPT),
		.key = cpu_to_le64(own->key),
		.offset = cpu_to_le32(to),
		.length = cpu_to_le32(length),
	};

	if (!hamlyn_post_ready(own->terminus))
		return false;
	/* The word of a fast-mode message. */
	request.delta = cpu_to_le32(to);
	if (!uln_lane_is_ring(to))
		return hamlyn_post(own->terminus, &request, NULL, 0, lane->base + from, length);
	request.delta = 0;
	request.metadata_index = cpu_to_le32(lane->deposits % ENTRIES);
	request.metadata_length = cpu_to_le32(offsetof(struct lane_metadata, reserved));
	request.flags |= cpu_to_le32(HAMLYN_REQUEST_DMA | HAMLYN_REQUEST_INLINE_METADATA);
	request.gather_count = cpu_to_le32(1);
	return hamlyn_post(own->terminus, &request, &metadata, sizeof(metadata), &gather,
			   sizeof(gather));
}

/* Reads what the entry of the next deposit says, if that is complete. */
static bool lane_take_next(struct hamlyn_lane *own, u32 *to, u32 *length)
{
	u32 entry = own->taken % ENTRIES, at = entry * HAMLYN_METADATA_SIZE;
	const void *page = page_address(own->metadata->page[at / ULN_PAGE_SIZE]);
	struct lane_metadata metadata;

	if (!(own->complete & BIT_ULL(entry)))
		return false;
	memcpy(&metadata, page + at % ULN_PAGE_SIZE, offsetof(struct lane_metadata, reserved));
	own->complete &= ~BIT_ULL(entry);
	own->taken++;
	*to = le32_to_cpu(metadata.to);
	*length = le32_to_cpu(metadata.length);
	return true;
}

static bool lane_take(struct uln_lane *lane, u32 *to, u32 *length)
{
	struct hamlyn_lane *own = lane->model;
	const struct hamlyn_notification *notification;
	u64 what, entry;

	while (!lane_take_next(own, to, length)) {
		notification = hamlyn_queue_take(own->queue, &own->cursor, &own->pass);
		if (!notification)
			return false;
		what = le64_to_cpu(READ_ONCE(notification->metadata));
		if (READ_ONCE(notification->wrap) & cpu_to_le32(HAMLYN_NOTIFICATION_FAST)) {
			*to = what;
			*length = sizeof(struct uln_lane_report);
			return true;
		}
		entry = BIT_ULL(what / HAMLYN_METADATA_SIZE % ENTRIES);
		if (own->complete & entry) {
			/* Before the other host was told that it is free: no such offset. */
			*to = U32_MAX;
			return true;
		}
		own->complete |= entry;
	}
	return true;
}

static bool lane_arm(struct uln_lane *lane)
{
	struct hamlyn_lane *own = lane->model;

	return !hamlyn_queue_ready(own->queue, own->cursor, own->pass);
}

const struct uln_lane_ops hamlyn_lane_ops = {
	.size = sizeof(struct hamlyn_lane),
	.longest = ULN_CHANNEL_MOST,
	.most = ENTRIES,
	.open = lane_open,
	.connect = lane_connect,
	.close = lane_close,
	.send = lane_send,
	.take = lane_take,
	.arm = lane_arm,
};

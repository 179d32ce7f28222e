// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lanes: a connection with an endpoint of the driver's own memory, which is pinned, and a queue. A
 * deposit is a WRITE_MULTIPLE whose comparison always holds, so its record announces it. The queue
 * is a delayed one: there is an interrupt only if the lane is armed.
 */
#include "dart.h"
#include "uln_lane.h"

/* Records of the queue: there is one for each deposit, and for reports. */
#define RECORDS 1024
#define MOST (RECORDS - 16)

#define DEPOSIT (DART_MAIN_WRITE_MULTIPLE | DART_COMPARE_ALWAYS << DART_COMPARE_SHIFT)

/* uln_lane.address. */
struct lane_address {
	__le64 key;
	__le32 connection;
};
static_assert(sizeof(struct lane_address) <= ULN_LANE_ADDRESS);

struct dart_lane {
	struct uln_lane *lane;
	u32 bank;
	struct dart_queue_object *queue;
	struct dart_connection_object *connection;
	/* The connection's Send Registers. */
	void __iomem *page;
	/* Messages sent, and records taken. */
	u32 sent;
	u32 taken;
};

static int lane_open_queue(struct dart_lane *own, u32 *index)
{
	struct dart_queue queue = { .records = RECORDS };
	struct uln_file *file = &own->lane->file;
	int ret = dart_queue_open(file, &queue);

	if (ret)
		return ret;
	*index = queue.queue;
	guard(mutex)(&file->card->lock);
	own->queue = xa_load(&dart_parts(file->card)->queues, queue.queue);
	return own->queue ? 0 : -ENODEV;
}

static int lane_open_connection(struct dart_lane *own, struct dart_connection *connection)
{
	struct uln_lane *lane = own->lane;
	struct uln_card *card = lane->file.card;
	struct lane_address *address = (struct lane_address *)lane->address;
	int ret = dart_connection_open(&lane->file, connection);

	if (ret)
		return ret;
	address->key = cpu_to_le64(connection->key);
	address->connection = cpu_to_le32(connection->connection);
	own->page = ioremap(dart_parts(card)->memory + (u64)connection->connection * DART_PAGE_SIZE,
			    DART_PAGE_SIZE);
	if (!own->page)
		return -ENOMEM;
	guard(mutex)(&card->lock);
	own->connection = xa_load(&dart_parts(card)->connections, connection->connection);
	return own->connection ? 0 : -ENODEV;
}

/* Each of these belongs to the file, with which it ends. */
static int lane_open_parts(struct dart_lane *own)
{
	struct dart_connection connection = {
		.host = own->lane->host,
		.exceptions = DART_NO_QUEUE,
		.flags = DART_CONNECTION_WRITE,
	};
	struct uln_file *file = &own->lane->file;
	struct dart_bank bank = { .registers = 1 };
	int ret;

	ret = dart_bank_open(file, &bank);
	if (ret)
		return ret;
	connection.bank = bank.bank;
	ret = dart_endpoint_pin(file, own->lane->memory, &connection.endpoint) ?:
	      lane_open_queue(own, &connection.events) ?: lane_open_connection(own, &connection);
	if (ret)
		return ret;
	uln_lane_watch(own->lane, &own->queue->sleepers.wait, &own->connection->sleepers.wait);
	return 0;
}

static int lane_open(struct uln_lane *lane)
{
	struct dart_lane *own = lane->model;

	own->lane = lane;
	return lane_open_parts(own);
}

static void lane_close(struct uln_lane *lane)
{
	struct dart_lane *own = lane->model;

	if (own->page)
		iounmap(own->page);
}

static int lane_connect(struct uln_lane *lane, const u8 *bytes)
{
	const struct lane_address *address = (const struct lane_address *)bytes;
	struct dart_lane *own = lane->model;
	struct dart_peer peer = {
		.connection = own->connection->object.index,
		.peer = le32_to_cpu(address->connection),
		.key = le64_to_cpu(address->key),
	};
	int ret = dart_connect(&lane->file, &peer);

	if (!ret)
		writeq(DEPOSIT, own->page + DART_SEND_CONTROL);
	return ret;
}

static u32 lane_state(const struct dart_lane *own, u32 word)
{
	const __le32 *state = page_address(own->connection->state->page[0]) + word;

	return le32_to_cpu(READ_ONCE(*state));
}

static bool lane_send(struct uln_lane *lane, u32 from, u32 to, u32 length)
{
	struct dart_lane *own = lane->model;
	u32 left = lane_state(own, DART_STATE_LEFT);

	if (own->sent - left >= DART_MAX_SENDS &&
	    !uln_waiters_ready(&own->connection->sleepers, left))
		return false;
	/* If some have left meanwhile there is room, or else the card lies. */
	if (lane_state(own, DART_STATE_BROKEN) ||
	    own->sent - lane_state(own, DART_STATE_LEFT) >= DART_MAX_SENDS) {
		uln_lane_broke(lane);
		return false;
	}
	own->sent++;
	writeq(to, own->page + DART_SEND_OPERAND);
	writeq(from, own->page + DART_SEND_OFFSET);
	writel(length, own->page + DART_SEND_LENGTH);
	return true;
}

static bool lane_take(struct uln_lane *lane, u32 *to, u32 *length)
{
	struct dart_lane *own = lane->model;
	const struct dart_record *record = dart_queue_record(own->queue, own->taken);

	if (le32_to_cpu(READ_ONCE(record->number)) != own->taken + 1)
		return false;
	dma_rmb(); /* The card wrote the number last. */
	*to = le64_to_cpu(READ_ONCE(record->control.operand));
	*length = le32_to_cpu(READ_ONCE(record->length));
	own->taken++;
	dart_queue_taken(own->queue, own->taken);
	return true;
}

static bool lane_arm(struct uln_lane *lane)
{
	struct dart_lane *own = lane->model;

	return !uln_waiters_ready(&own->queue->sleepers, own->taken);
}

const struct uln_lane_ops dart_lane_ops = {
	.size = sizeof(struct dart_lane),
	.longest = DART_LONGEST,
	.most = MOST,
	.open = lane_open,
	.connect = lane_connect,
	.close = lane_close,
	.send = lane_send,
	.take = lane_take,
	.arm = lane_arm,
};

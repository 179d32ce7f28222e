// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lanes: an aperture over the lane's memory, and an endpoint. A deposit is two DMA requests in a
 * row: the bytes, and behind them a record that announces them. Records have places in the control
 * page, which take turns: a distributed queue (section 4.2 of the paper), of completions in Figure
 * 11. A Tripwire over them wakes a sleeping receiver.
 */
#include "clan.h"
#include "uln_lane.h"

/* An announcement: where bytes have arrived, and how many. */
struct lane_record {
	__le32 to;
	__le32 length;
	__le32 reserved;
	/* Counts from 1, modulo 2^32. Written last, as a card writes in the order of addresses. */
	__le32 number;
};

/* Their places, behind the reports. */
#define RECORDS 128
#define RECORDS_AT (ULN_PAGE_SIZE - RECORDS * sizeof(struct lane_record))
/* Some of them are for reports. */
#define MOST (RECORDS - 16)
/* Two for each deposit, so the record of an earlier one has left when its place is used again. */
#define REQUESTS (2 * RECORDS)
/* Longer deposits would keep others from the card's engine. */
#define LONGEST (1U << 20)

/*
 * How often room is looked for before the card is held to be broken: the bit that says that
 * requests have ended may be that of earlier ones, once.
 */
#define TRIES 4

static_assert(REQUESTS >= CLAN_MIN_REQUESTS && REQUESTS <= CLAN_MAX_REQUESTS);

/* uln_lane.address. */
struct lane_address {
	__le64 key;
	__le32 aperture;
};
static_assert(sizeof(struct lane_address) <= ULN_LANE_ADDRESS);

struct clan_lane {
	struct uln_lane *lane;
	struct clan_endpoint_object *endpoint;
	/* This end's aperture, and the other's. */
	u32 aperture;
	u32 peer;
	u64 key;
	/* Requests put, deposits made, and announcements taken. */
	u32 put;
	u32 sent;
	u32 taken;
};

static int lane_open_aperture(struct clan_lane *own)
{
	struct uln_lane *lane = own->lane;
	struct lane_address *address = (struct lane_address *)lane->address;
	struct clan_aperture aperture = { .flags = CLAN_APERTURE_WRITE };
	int ret = clan_aperture_lend(&lane->file, lane->memory, &aperture);

	own->aperture = aperture.aperture;
	address->key = cpu_to_le64(aperture.key);
	address->aperture = cpu_to_le32(aperture.aperture);
	return ret;
}

static int lane_open_endpoint(struct clan_lane *own)
{
	struct clan_endpoint endpoint = {
		.tripwires = 1,
		.requests = REQUESTS,
		.events = CLAN_NO_EVENTS,
	};
	struct uln_file *file = &own->lane->file;
	int ret = clan_endpoint_open(file, &endpoint);

	if (ret)
		return ret;
	guard(mutex)(&file->card->lock);
	own->endpoint = xa_load(&clan_parts(file->card)->endpoints, endpoint.endpoint);
	return own->endpoint ? 0 : -ENODEV;
}

static int lane_set_tripwire(struct clan_lane *own)
{
	return clan_tripwire_set(own->lane->file.card, own->endpoint->object.index,
				 own->endpoint->memory, own->aperture, RECORDS_AT,
				 RECORDS * sizeof(struct lane_record), CLAN_TRIPWIRE_BIT);
}

/* Objects belong to the file, with which they end. */
static int lane_open(struct uln_lane *lane)
{
	struct clan_lane *own = lane->model;
	int ret;

	own->lane = lane;
	ret = lane_open_aperture(own) ?: lane_open_endpoint(own) ?: lane_set_tripwire(own);
	if (ret)
		return ret;
	uln_lane_watch(lane, &own->endpoint->sleepers.wait, &own->endpoint->sleepers.wait);
	return 0;
}

static void lane_close(struct uln_lane *lane)
{
}

static int lane_connect(struct uln_lane *lane, const u8 *bytes)
{
	const struct lane_address *address = (const struct lane_address *)bytes;
	struct clan_lane *own = lane->model;

	own->key = le64_to_cpu(address->key);
	own->peer = le32_to_cpu(address->aperture);
	return 0;
}

static bool lane_is_full(const struct clan_lane *own)
{
	return own->put - clan_state_read(own->endpoint->memory, CLAN_STATE_DONE) > REQUESTS - 2;
}

/* Returns whether there is room for a deposit. If not, the lane's user is woken when there is. */
static bool lane_has_room(struct clan_lane *own)
{
	unsigned int tries;

	for (tries = 0; lane_is_full(own); tries++) {
		if (tries == TRIES) {
			uln_lane_broke(own->lane);
			return false;
		}
		clan_clear_bit(own->endpoint->memory, CLAN_BIT_DMA);
		if (lane_is_full(own) &&
		    !uln_waiters_ready(&own->endpoint->sleepers, BIT_ULL(CLAN_BIT_DMA)))
			return false;
	}
	return true;
}

/* Writes a request in the place of one that has ended. False: that one has failed. */
static bool lane_put(struct clan_lane *own, u32 from, u32 to, u32 length, u32 flags)
{
	struct clan_request *request =
		clan_request_at(own->endpoint->memory, own->put, REQUESTS);

	dma_rmb(); /* It has ended, so its result is there. */
	if (own->put >= REQUESTS && le32_to_cpu(READ_ONCE(request->result)) != CLAN_DMA_DONE)
		return false;
	*request = (struct clan_request) {
		.opcode = cpu_to_le32(CLAN_DMA_WRITE),
		.flags = cpu_to_le32(flags),
		.local_aperture = cpu_to_le32(own->aperture),
		.host = cpu_to_le32(own->lane->host),
		.local_offset = cpu_to_le64(from),
		.aperture = cpu_to_le32(own->peer),
		.key = cpu_to_le64(own->key),
		.offset = cpu_to_le64(to),
		.length = cpu_to_le64(length),
	};
	own->put++;
	return true;
}

static u32 record_place(u32 n)
{
	return RECORDS_AT + n % RECORDS * sizeof(struct lane_record);
}

static bool lane_send(struct uln_lane *lane, u32 from, u32 to, u32 length)
{
	struct clan_lane *own = lane->model;
	u32 place = record_place(own->sent), mirror = lane->memory->length / 2 + place;
	struct lane_record *record = lane->base + mirror;

	if (!lane_has_room(own))
		return false;
	*record = (struct lane_record) {
		.to = cpu_to_le32(to),
		.length = cpu_to_le32(length),
		.number = cpu_to_le32(++own->sent),
	};
	if (clan_state_read(own->endpoint->memory, CLAN_STATE_FAULTS) ||
	    !lane_put(own, from, to, length, CLAN_DMA_CHAIN) ||
	    !lane_put(own, mirror, place, sizeof(*record), CLAN_DMA_NOTIFY)) {
		uln_lane_broke(lane);
		return false;
	}
	clan_requests_go(lane->file.card, own->endpoint->object.index, own->endpoint->memory,
			 own->put);
	return true;
}

static bool lane_take(struct uln_lane *lane, u32 *to, u32 *length)
{
	struct clan_lane *own = lane->model;
	const struct lane_record *record = lane->base + record_place(own->taken);

	if (le32_to_cpu(READ_ONCE(record->number)) != own->taken + 1)
		return false;
	dma_rmb(); /* What it announces arrived before it. */
	*to = le32_to_cpu(READ_ONCE(record->to));
	*length = le32_to_cpu(READ_ONCE(record->length));
	own->taken++;
	return true;
}

static bool lane_arm(struct uln_lane *lane)
{
	struct clan_lane *own = lane->model;
	const struct lane_record *record = lane->base + record_place(own->taken);

	/* A sender clears another bit in the same word. */
	scoped_guard(spinlock_bh, &lane->lock)
		clan_clear_bit(own->endpoint->memory, CLAN_OWN_TRIPWIRE);
	return le32_to_cpu(READ_ONCE(record->number)) != own->taken + 1 &&
	       !uln_waiters_ready(&own->endpoint->sleepers, BIT_ULL(CLAN_OWN_TRIPWIRE));
}

const struct uln_lane_ops clan_lane_ops = {
	.size = sizeof(struct clan_lane),
	.longest = LONGEST,
	.most = MOST,
	.open = lane_open,
	.connect = lane_connect,
	.close = lane_close,
	.send = lane_send,
	.take = lane_take,
	.arm = lane_arm,
};

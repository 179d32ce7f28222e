// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lanes: an aperture that the other host writes to, and an endpoint. A deposit is two DMA requests
 * in a row: the bytes, and behind them a record that announces them. Records have places in the
 * control page, which take turns: a distributed queue (section 4.2 of the paper), of completions in
 * Figure 11. A Tripwire over them wakes a sleeping receiver.
 *
 * A fault reports that words of this host were lost, perhaps not the lane's. So the sender repeats
 * all deposits that may not have arrived. That is harmless: the mirror still has their bytes, or
 * later ones of the same place, and each record keeps its number.
 */
#include "clan.h"
#include "uln_lanerecord.h"

/* Two for each deposit, so the record of an earlier one has left when its place is used again. */
#define REQUESTS (2 * ULN_LANE_RECORDS)
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
	/* This end's memory, for its own DMA; and the other end's aperture. */
	u32 memory;
	u32 peer;
	u64 key;
	/* Requests put, and how many of them are known to have ended. */
	u32 put;
	u32 done;
	/* Faults so far. */
	u32 faults;
	/* Deposits made, and how many of the last ones must be made again. */
	u32 sent;
	u32 again;
	/* Announcements taken. */
	u32 taken;
};

/* The other host can write to the first half of the memory alone. */
static int lane_open_apertures(struct clan_lane *own)
{
	struct uln_lane *lane = own->lane;
	struct lane_address *address = (struct lane_address *)lane->address;
	struct clan_aperture in = { .flags = CLAN_APERTURE_WRITE, .length = uln_lane_mirror(lane) };
	struct clan_aperture all = { .length = lane->memory->length };
	int ret = clan_aperture_lend(&lane->file, lane->memory, &in) ?:
		  clan_aperture_lend(&lane->file, lane->memory, &all);

	own->memory = all.aperture;
	address->key = cpu_to_le64(in.key);
	address->aperture = cpu_to_le32(in.aperture);
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
	const struct lane_address *address = (const struct lane_address *)own->lane->address;

	return clan_tripwire_set(own->lane->file.card, own->endpoint->object.index,
				 own->endpoint->memory, le32_to_cpu(address->aperture),
				 ULN_LANE_RECORDS_AT, ULN_LANE_RECORDS_SIZE, CLAN_TRIPWIRE_BIT);
}

/* Objects belong to the file, with which they end. */
static int lane_open(struct uln_lane *lane)
{
	struct clan_lane *own = lane->model;
	int ret;

	own->lane = lane;
	ret = lane_open_apertures(own) ?: lane_open_endpoint(own) ?: lane_set_tripwire(own);
	if (ret)
		return ret;
	uln_lane_watch(lane, &own->endpoint->sleepers.wait, &own->endpoint->sleepers.wait);
	return 0;
}

static int lane_connect(struct uln_lane *lane, const u8 *bytes)
{
	const struct lane_address *address = (const struct lane_address *)bytes;
	struct clan_lane *own = lane->model;

	own->key = le64_to_cpu(address->key);
	own->peer = le32_to_cpu(address->aperture);
	return 0;
}

/* Looks at the requests that have ended. False: one of them, or the card, is wrong. */
static bool lane_look_at_results(struct clan_lane *own, bool *lost)
{
	u32 done = clan_state_read(own->endpoint->memory, CLAN_STATE_DONE), result;

	if (done - own->done > own->put - own->done)
		return false;
	dma_rmb(); /* The results were written before the count. */
	for (; own->done != done; own->done++) {
		result = le32_to_cpu(READ_ONCE(
			clan_request_at(own->endpoint->memory, own->done, REQUESTS)->result));
		if (result == CLAN_DMA_TIMEOUT || result == CLAN_DMA_SKIPPED)
			*lost = true;
		else if (result != CLAN_DMA_DONE)
			return false;
	}
	return true;
}

/* Looks at what the endpoint was told. False: the other host has refused something. */
static bool lane_look_at_faults(struct clan_lane *own, bool *lost)
{
	const struct uln_pages *memory = own->endpoint->memory;
	u32 reason;

	if (clan_state_read(memory, CLAN_STATE_FAULTS) == own->faults)
		return true;
	clan_clear_bit(memory, CLAN_BIT_FAULT);
	own->faults = clan_state_read(memory, CLAN_STATE_FAULTS);
	reason = clan_state_read(memory, CLAN_STATE_FAULT_REASON);
	*lost = true;
	return reason == CLAN_FAULT_TIMEOUT || reason == CLAN_FAULT_LOST;
}

/* Puts the two requests of deposit @n, whose record lies in the mirror. */
static void lane_put(struct clan_lane *own, u32 n)
{
	u32 place = uln_lane_record_place(n), mirror = uln_lane_mirror(own->lane);
	const struct uln_lane_record *record = uln_lane_record_sent(own->lane, n);
	struct clan_request request = {
		.opcode = cpu_to_le32(CLAN_DMA_WRITE),
		.flags = cpu_to_le32(CLAN_DMA_CHAIN),
		.local_aperture = cpu_to_le32(own->memory),
		.host = cpu_to_le32(own->lane->host),
		.local_offset = cpu_to_le64(mirror + le32_to_cpu(record->to)),
		.aperture = cpu_to_le32(own->peer),
		.key = cpu_to_le64(own->key),
		.offset = cpu_to_le64(le32_to_cpu(record->to)),
		.length = cpu_to_le64(le32_to_cpu(record->length)),
	};

	*clan_request_at(own->endpoint->memory, own->put++, REQUESTS) = request;
	request.flags = cpu_to_le32(CLAN_DMA_NOTIFY);
	request.local_offset = cpu_to_le64(mirror + place);
	request.offset = cpu_to_le64(place);
	request.length = cpu_to_le64(sizeof(*record));
	*clan_request_at(own->endpoint->memory, own->put++, REQUESTS) = request;
	clan_requests_go(own->lane->file.card, own->endpoint->object.index, own->endpoint->memory,
			 own->put);
}

static bool lane_is_full(const struct clan_lane *own)
{
	return own->put - own->done > REQUESTS - 2;
}

/*
 * Finds out which requests have ended and whether deposits were lost, and makes those again, as far
 * as there is room. The lane's lock is held. False: the lane is broken.
 */
static bool lane_follow(struct clan_lane *own)
{
	bool lost = false;

	if (!lane_look_at_results(own, &lost) || !lane_look_at_faults(own, &lost)) {
		uln_lane_broke(own->lane);
		return false;
	}
	if (lost)
		own->again = min(own->sent, ULN_LANE_RECORDS);
	for (; own->again && !lane_is_full(own); own->again--)
		lane_put(own, own->sent - own->again);
	return true;
}

/* Returns whether there is room for a deposit. If not, the lane's user is woken when there is. */
static bool lane_has_room(struct clan_lane *own)
{
	unsigned int tries;

	for (tries = 0; tries < TRIES; tries++) {
		if (!lane_follow(own))
			return false;
		if (!lane_is_full(own))
			return true;
		clan_clear_bit(own->endpoint->memory, CLAN_BIT_DMA);
		if (!lane_follow(own))
			return false;
		if (lane_is_full(own) &&
		    !uln_waiters_ready(&own->endpoint->sleepers, BIT_ULL(CLAN_BIT_DMA)))
			return false;
	}
	uln_lane_broke(own->lane);
	return false;
}

/* @from is byte @to of the mirror, so the record need not have it. */
static bool lane_send(struct uln_lane *lane, u32 from, u32 to, u32 length)
{
	struct clan_lane *own = lane->model;

	if (!lane_has_room(own))
		return false;
	uln_lane_record_write(lane, own->sent, to, length);
	lane_put(own, own->sent++);
	return true;
}

static bool lane_take(struct uln_lane *lane, u32 *to, u32 *length)
{
	struct clan_lane *own = lane->model;

	return uln_lane_record_take(lane, &own->taken, to, length);
}

/* A sleeping lane is also woken if deposits were lost, or may yet fail. */
static bool lane_arm(struct uln_lane *lane)
{
	struct clan_lane *own = lane->model;
	u64 bits = BIT_ULL(CLAN_OWN_TRIPWIRE) | BIT_ULL(CLAN_BIT_FAULT);

	guard(spinlock_bh)(&lane->lock);
	clan_clear_bit(own->endpoint->memory, CLAN_OWN_TRIPWIRE);
	clan_clear_bit(own->endpoint->memory, CLAN_BIT_DMA);
	if (uln_lane_record_arrived(lane, own->taken) || !lane_follow(own))
		return false;
	if (own->put != own->done)
		bits |= BIT_ULL(CLAN_BIT_DMA);
	return !uln_waiters_ready(&own->endpoint->sleepers, bits);
}

const struct uln_lane_ops clan_lane_ops = {
	.size = sizeof(struct clan_lane),
	.longest = LONGEST,
	.most = ULN_LANE_RECORDS_MOST,
	.open = lane_open,
	.connect = lane_connect,
	.send = lane_send,
	.take = lane_take,
	.arm = lane_arm,
};

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cards and wires. A deposit's bytes arrive in pieces, and are announced in order and later. Both
 * happen at any time (carrier_step).
 *
 * In one kind of carrier sends overtake each other, as HAMLYN's messages do: bytes of deposits may
 * arrive in any order, and reports overtake deposits and other reports. There is one place for each
 * report that is on its way. In the other kind all is in order, but bytes are fetched late, and may
 * be written again later, as a CLAN card does after a fault.
 */
#include "test.h"

/* uln_lane.model */
struct model {
	/* Freed by @close. */
	void *piece;
};

/* uln_file.object */
struct object {
	wait_queue_head_t announced, room;
};

struct carrier carrier;

static struct end *end_of(struct uln_lane *lane)
{
	return container_of(lane, struct end, lane);
}

static void carrier_close(struct uln_lane *lane)
{
	struct model *model = lane->model;

	kfree(model->piece);
}

/* The card does not reach the end's memory any longer. */
static void carrier_end(struct uln_file *file)
{
	struct end *end = end_of(container_of(file, struct uln_lane, file));
	struct object *object = file->object;

	end->open = false;
	end->flying = 0;
	end->other->flying = 0;
	check(list_empty(&object->announced.entries) && list_empty(&object->room.entries),
	      "a wait queue is freed that is waited on");
	kfree(object);
}

static int carrier_open(struct uln_lane *lane)
{
	struct model *model = lane->model;
	struct object *object;

	model->piece = carrier.ops.close ? kzalloc(1, GFP_KERNEL) : NULL;
	object = kzalloc(sizeof(*object), GFP_KERNEL);
	if (!object)
		return -ENOMEM;
	lane->file.object = object;
	lane->file.end = carrier_end;
	INIT_LIST_HEAD(&object->announced.entries);
	INIT_LIST_HEAD(&object->room.entries);
	uln_lane_watch(lane, &object->announced,
		       carrier.one_queue ? &object->announced : &object->room);
	if (failures && once_in(failures))
		return -ENODEV;
	end_of(lane)->open = true;
	return 0;
}

static u8 *unit_at(struct direction *sent, const struct uln_lane *lane, u32 position)
{
	return &sent->units[(position & (lane->size - 1)) / UNIT];
}

static void check_deposit(struct end *end, u32 to, u32 length)
{
	const struct uln_lane *lane = &end->lane;
	struct direction *sent = &end->sent;
	u32 at = sent->passed_at & (lane->size - 1), i;

	check(to == RING + at, "a deposit is not for where the last one has ended");
	check(length && length <= carrier.ops.longest && length <= lane->size - at &&
	      !(length % UNIT), "a deposit has %u bytes", length);
	check(length <= sent->appended_at - sent->passed_at, "more is sent than was appended");
	check(lane->deposits == sent->deposits, "a deposit has the wrong number");
	check(sent->deposits - sent->deposits_reported < carrier.ops.most, "too many deposits");
	for (i = 0; i < length; i += UNIT)
		check(*unit_at(sent, lane, at + i) == FREE, "a deposit is for a ring that is full");
}

static void accept_deposit(struct end *end, u32 length)
{
	struct direction *sent = &end->sent;
	u32 i;

	for (i = 0; i < length; i += UNIT)
		*unit_at(sent, &end->lane, sent->passed_at + i) = SENT;
	sent->passed_at += length;
	sent->deposits++;
}

static const struct uln_lane_report *report_at(const struct end *end, u32 from)
{
	return end->lane.base + from;
}

/* It may have released what is skipped before a frame which has not arrived. */
static void check_report(struct end *end, u32 from, u32 to, u32 length)
{
	const struct direction *sent = &end->other->sent;
	const struct uln_lane_report *report = report_at(end, from);
	const struct frame *next = &sent->frames[sent->released];

	check(length == sizeof(*report) && !(to % sizeof(*report)) && to < 8 * sizeof(*report),
	      "a report has no place");
	check(report->deposits == sent->deposits_taken, "a report has the wrong deposits");
	check(report->bytes == sent->released_at ||
	      (sent->released != sent->appended && report->bytes == next->at),
	      "a report has the wrong bytes");
}

static void accept_report(struct end *end, u32 from)
{
	struct direction *sent = &end->other->sent;
	const struct uln_lane_report *report = report_at(end, from);
	u8 *unit;

	for (; sent->reported_at != report->bytes; sent->reported_at += UNIT) {
		unit = unit_at(sent, &end->lane, sent->reported_at);
		check(*unit == ((s32)(sent->reported_at - sent->released_at) < 0 ? RELEASED :
			       ARRIVED), "a report covers what was not released");
		*unit = FREE;
	}
	sent->deposits_reported = report->deposits;
}

/* Returns whether a report is on its way to the same place. */
static bool is_taken(const struct end *end, u32 to)
{
	u32 i;

	for (i = 0; i < end->flying && !uln_lane_is_ring(to); i++)
		if (end->flights[i].to == to)
			return true;
	return false;
}

static bool carrier_send(struct uln_lane *lane, u32 from, u32 to, u32 length)
{
	struct end *end = end_of(lane);
	struct flight *flight;

	check(lane->lock.held, "a send without the lock");
	check(!lane->broken, "a broken lane sends");
	check(from == RING + lane->size + to, "a send is not from the mirror");
	if (uln_lane_is_ring(to))
		check_deposit(end, to, length);
	else
		check_report(end, from, to, length);
	check(carrier.overtakes || !is_taken(end, to), "too many reports are on their way");
	interleave();
	if (end->breaks || (!end->other->open && carrier.gone == GONE_BREAKS)) {
		uln_lane_broke(lane);
		return false;
	}
	if (!end->other->open && carrier.gone == GONE_REFUSES)
		return false;
	if (end->other->open && (end->flying >= carrier.capacity || is_taken(end, to) ||
				 once_in(carrier.refuses))) {
		end->full = true;
		return false;
	}
	if (uln_lane_is_ring(to))
		accept_deposit(end, length);
	else
		accept_report(end, from);
	if (end->other->open) {
		flight = &end->flights[end->flying++];
		*flight = (struct flight) { .to = to, .length = length };
		if (!uln_lane_is_ring(to))
			memcpy(flight->copy, report_at(end, from), sizeof(flight->copy));
	}
	interleave();
	return true;
}

static bool carrier_take(struct uln_lane *lane, u32 *to, u32 *length)
{
	struct end *end = end_of(lane);
	const struct announcement *next = &end->announcements[end->taken % ANNOUNCEMENTS];

	interleave();
	if (end->taken == end->announced)
		return false;
	*to = next->to;
	*length = next->length;
	end->taken++;
	if (uln_lane_is_ring(*to))
		end->other->sent.deposits_taken++;
	interleave();
	return true;
}

static bool carrier_arm(struct uln_lane *lane)
{
	struct end *end = end_of(lane);

	interleave();
	if (end->breaks) {
		spin_lock_bh(&lane->lock);
		uln_lane_broke(lane);
		spin_unlock_bh(&lane->lock);
		return false;
	}
	end->armed = end->taken == end->announced;
	return end->armed;
}

/* Lets bytes arrive: the rest of a send, or some. */
static bool land(struct end *end, struct flight *flight)
{
	const struct uln_lane *lane = &end->lane;
	u32 length = flight->length - flight->landed, at = flight->to + flight->landed, i;
	const void *from = lane->base + RING + lane->size + at;
	u8 *unit;

	if (!length)
		return false;
	if (!uln_lane_is_ring(at)) {
		if (carrier.overtakes)
			from = flight->copy;
	} else {
		if (once_in(2))
			length = UNIT * (1 + below(length / UNIT));
		for (i = 0; i < length; i += UNIT) {
			unit = unit_at(&end->sent, lane, at - RING + i);
			check(*unit == SENT, "a deposit arrives where none may");
			*unit = ARRIVED;
		}
	}
	memcpy(end->other->lane.base + at, from, length);
	flight->landed += length;
	return true;
}

/* Announces a send that has arrived. */
static bool announce(struct end *end, u32 n)
{
	struct flight *flight = &end->flights[n];
	struct end *other = end->other;
	const struct object *object = other->lane.file.object;
	u32 i;

	if (flight->landed != flight->length || (n && !carrier.overtakes))
		return false;
	for (i = 0; i < n && uln_lane_is_ring(flight->to); i++)
		if (uln_lane_is_ring(end->flights[i].to))
			return false;
	check(other->announced - other->taken < ANNOUNCEMENTS, "the test has too few places");
	other->announcements[other->announced++ % ANNOUNCEMENTS] =
		(struct announcement) { .to = flight->to, .length = flight->length };
	end->repeats[end->repeatable++ % REPEATED] = other->announcements[(other->announced - 1) %
									  ANNOUNCEMENTS];
	end->flying--;
	memmove(flight, flight + 1, (end->flying - n) * sizeof(*flight));
	if (other->armed) {
		other->armed = false;
		wake_up((wait_queue_head_t *)&object->announced);
	}
	return true;
}

/* Writes again what was announced: as it was, unless it was released. */
static void repeat(struct end *end)
{
	const struct announcement *again = &end->repeats[below(min(end->repeatable, REPEATED))];
	const struct uln_lane *lane = &end->lane;
	const void *from = lane->base + RING + lane->size + again->to;
	void *to = end->other->lane.base + again->to;
	u32 i;

	for (i = 0; uln_lane_is_ring(again->to) && i < again->length; i += UNIT)
		if (*unit_at(&end->sent, lane, again->to - RING + i) == ARRIVED)
			check(!memcmp(to + i, from + i, UNIT), "the mirror has changed too early");
	memcpy(to, from, again->length);
}

bool carrier_step(struct end *end)
{
	struct object *object = end->lane.file.object;
	u32 n;

	if (!end->open)
		return false;
	if (end->full && (!end->flying || once_in(4))) {
		end->full = false;
		wake_up(carrier.one_queue ? &object->announced : &object->room);
		return true;
	}
	if (!end->other->open || !end->flying)
		return false;
	/* Not if nothing happens, as it would hide that a wake-up was lost. */
	if (once_in(64))
		wake_up(&object->announced);
	if (!carrier.overtakes && end->repeatable && once_in(16))
		repeat(end);
	if (once_in(2) && announce(end, carrier.overtakes ? below(end->flying) : 0))
		return true;
	n = carrier.overtakes ? below(end->flying) : 0;
	while (!land(end, &end->flights[n]) && !carrier.overtakes && n + 1 < end->flying)
		n++;
	return true;
}

void carrier_begin(void)
{
	carrier = (struct carrier) {
		.ops = {
			.size = sizeof(struct model),
			.longest = one_of(UNIT, 3 * UNIT + 5, 1000, 4096, RING_MOST,
					  ULN_CHANNEL_MOST),
			.most = one_of(1, 2, 4, 5, 7, 8, 15, 64, 112, 1008),
			.open = carrier_open,
			.close = once_in(2) ? carrier_close : NULL,
			.send = carrier_send,
			.take = carrier_take,
			.arm = carrier_arm,
		},
		.overtakes = once_in(2),
		.capacity = one_of(1, 2, 5, 16, FLIGHTS),
		.refuses = one_of(2, 8, 64, U32_MAX),
		.gone = below(3),
		.one_queue = once_in(2),
	};
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * A host whose other end, and card, do what they like: they announce anything, and change ring,
 * control block and heads at each point where the driver reads them. What they do is often nearly
 * right, so that the lane goes on for long before it breaks.
 */
#include "test.h"

#define CALLS 300
/* More than any call needs, of interleave(). */
#define POINTS 4000

static struct uln_lane lane;
static struct uln_card card;
static wait_queue_head_t news;
/* One in @wrong things is wrong. Memory changes at one in @changes points; 0: between calls. */
static u32 wrong, changes;
/* There is always another announcement. */
static bool endless;
/* Points in the call that runs. */
static u32 points;
/* What was announced breaks the lane. */
static bool breach;
/* The lane's user was told that it broke. */
static bool told;

static bool is_wrong(void)
{
	return once_in(wrong);
}

/* A number that is near the limit, or any. */
static u32 near(u32 limit)
{
	switch (below(4)) {
	case 0:
		return limit;
	case 1:
		return limit + below(2 * UNIT + 1) - UNIT;
	case 2:
		return limit ^ 1U << below(32);
	default:
		return one_of(0, UNIT, U32_MAX, U32_MAX - HEAD, INT32_MAX, random_word());
	}
}

static u32 rest_at(u32 position)
{
	return lane.size - (position & (lane.size - 1));
}

/* Writes a head where the driver may look for one. */
static void change_head(void)
{
	u32 start = lane.taken + rest_at(lane.taken);
	u32 position = one_of(lane.taken, lane.taken, lane.arrived, start);
	u32 rest = rest_at(position), arrived = lane.arrived - lane.taken;
	u32 longest = uln_lane_longest(&lane);
	__le32 *head = lane.base + RING + (position & (lane.size - 1));

	if (is_wrong())
		*head = near(one_of(longest, rest - HEAD, arrived - HEAD, U32_MAX));
	else if (once_in(8))
		*head = rest <= longest || once_in(4) ? U32_MAX : 0;
	else
		*head = below(1 + min3(longest, rest - HEAD, max(arrived, UNIT) - HEAD));
}

static void change_report(void)
{
	struct uln_lane_report *report = (struct uln_lane_report *)lane.base + below(8);

	report->bytes = is_wrong() ? near(one_of(lane.passed, lane.released)) :
				     lane.released + below(lane.passed - lane.released + 1);
	report->deposits = is_wrong() ? near(one_of(lane.deposits, lane.deposits_taken)) :
					lane.deposits_taken +
					below(lane.deposits - lane.deposits_taken + 1);
}

static void change_memory(void)
{
	u8 *any = lane.base + below(RING + lane.size);

	switch (below(8)) {
	case 0:
		change_report();
		break;
	case 1:
		if (is_wrong())
			*any = random_word();
		break;
	default:
		change_head();
	}
}

/* The other host writes to its half of the memory while the driver runs. */
static void change(void)
{
	check(points++ < POINTS, "a call does not end");
	if (changes && once_in(changes))
		change_memory();
}

static int hostile_open(struct uln_lane *opened)
{
	INIT_LIST_HEAD(&news.entries);
	uln_lane_watch(opened, &news, &news);
	return 0;
}

static bool hostile_send(struct uln_lane *sends, u32 from, u32 to, u32 length)
{
	u32 size = sends->size;

	check(sends->lock.held, "a send without the lock");
	check(!sends->broken, "a broken lane sends");
	check(from == RING + size + to, "a send is not from the mirror");
	if (uln_lane_is_ring(to))
		check(length && length <= carrier.ops.longest && length <= size &&
		      to - RING <= size - length, "a send of %u bytes to %u", length, to);
	else
		check(length == HEAD && to < 8 * HEAD, "a report of %u bytes to %u", length, to);
	if (is_wrong() && once_in(64))
		uln_lane_broke(sends);
	return !sends->broken && !once_in(8);
}

static void announce_report(u32 *to, u32 *length)
{
	change_report();
	*to = is_wrong() ? near(HEAD * below(9)) : HEAD * below(8);
	*length = is_wrong() ? near(HEAD) : HEAD;
}

static void announce_deposit(u32 next, u32 most, u32 *to, u32 *length)
{
	*to = next;
	*length = UNIT * below(most / UNIT + 1);
	if (is_wrong())
		*to = near(one_of(next, 8 * HEAD, RING, RING + lane.size));
	if (is_wrong())
		*length = near(one_of(most, rest_at(lane.arrived), lane.size));
}

static bool hostile_take(struct uln_lane *takes, u32 *to, u32 *length)
{
	u32 next = RING + (takes->arrived & (takes->size - 1));
	u32 most = min(rest_at(takes->arrived), takes->size - (takes->arrived - takes->reported));

	check(!takes->broken && !breach, "a broken lane takes");
	interleave();
	if (!endless && once_in(3))
		return false;
	if (once_in(3))
		announce_report(to, length);
	else
		announce_deposit(next, most, to, length);
	breach = !(*length == HEAD && *to < 8 * HEAD && !(*to % HEAD)) &&
		 !(*to == next && *length <= most && !(*length % UNIT));
	return true;
}

static bool hostile_arm(struct uln_lane *arms)
{
	interleave();
	return once_in(2);
}

static void hostile_woken(struct uln_lane *woken)
{
}

static void hostile_broke(struct uln_lane *broken)
{
	told = true;
}

static const struct uln_lane_user user = { .woken = hostile_woken, .broke = hostile_broke };

static void send_frame(void)
{
	u32 longest = uln_lane_longest(&lane), size = lane.size;
	u32 reserved = once_in(2) ? below(longest + 1) : below(UNIT), length = below(reserved + 1);
	u8 *ring = lane.base + 2 * RING + size;
	u8 *bytes = uln_lane_reserve(&lane, reserved);

	if (!bytes)
		return;
	check(bytes >= ring + HEAD && bytes - ring <= size - reserved,
	      "%u bytes are reserved outside the ring", reserved);
	memset(bytes, 1, reserved);
	uln_lane_commit(&lane, length);
}

/* Returns whether the next frame breaks the lane, as long as memory does not change. */
static bool is_breach(void)
{
	u32 rest = rest_at(lane.taken), length = *(u32 *)(lane.base + RING + lane.size - rest);

	if (lane.taken == lane.arrived || changes)
		return false;
	if (length == U32_MAX)
		return rest == lane.size;
	return length > uln_lane_longest(&lane) || length > rest - HEAD;
}

static void take_frame(void)
{
	bool breaks = is_breach();
	u32 length = U32_MAX;
	u8 *ring = lane.base + RING;
	const u8 *bytes = uln_lane_next(&lane, &length);

	check(lane.broken || !breaks, "a wrong head does not break the lane");
	if (!bytes)
		return;
	check(bytes >= ring + HEAD && length <= uln_lane_longest(&lane) &&
	      bytes - ring <= lane.size - length, "a frame of %u bytes is outside the ring",
	      length);
	change_memory();
	if (once_in(8))
		return;
	points = 0;
	uln_lane_release(&lane);
}

static void call(void)
{
	points = 0;
	change_memory();
	switch (below(4)) {
	case 0:
		send_frame();
		break;
	case 1:
		uln_lane_flush(&lane);
		break;
	case 2:
		take_frame();
		break;
	default:
		uln_lane_arm(&lane);
	}
	check(lane.broken || !breach, "a wrong announcement does not break the lane");
	check(lane.arrived - lane.taken <= lane.size, "a frame is taken that has not arrived");
	check(lane.arrived - lane.reported <= lane.size, "more arrives than fits");
	check(lane.taken - lane.reported <= lane.size, "more is reported than was released");
	check(lane.appended - lane.released <= lane.size, "more is sent than fits");
	check(lane.passed - lane.released <= lane.appended - lane.released,
	      "more is sent than was appended");
	check(lane.deposits - lane.deposits_taken <= carrier.ops.most, "too many deposits");
}

static void check_broken(void)
{
	u32 length;

	points = 0;
	check(!uln_lane_next(&lane, &length), "a broken lane has a frame");
	check(uln_lane_arm(&lane), "a broken lane has news");
	check(told, "the user of a broken lane was not told");
}

void hostile(void)
{
	u32 size = ULN_CHANNEL_LEAST << (once_in(4) ? below(4) : 0), calls;
	bool opened;

	told = breach = false;
	endless = once_in(16);
	carrier_begin();
	carrier.ops.size = 1;
	carrier.ops.open = hostile_open;
	carrier.ops.close = NULL;
	carrier.ops.send = hostile_send;
	carrier.ops.take = hostile_take;
	carrier.ops.arm = hostile_arm;
	memset(&lane, 0, sizeof(lane));
	lane.ops = &carrier.ops;
	lane.user = &user;
	lane.file.card = &card;
	wrong = one_of(1, 8, 64, 1024);
	changes = one_of(0, 1, 4, 64);
	interleaved = NULL;
	opened = !uln_lane_open(&lane, size);
	interleaved = change;
	/* As if it had been open for long. */
	lane.appended = lane.passed = lane.released = UNIT * one_of(0, -below(64), random_word());
	lane.arrived = lane.taken = lane.reported = UNIT * one_of(0, -below(64), random_word());
	for (calls = opened ? below(CALLS) : 0; calls; calls--)
		call();
	if (lane.broken)
		check_broken();
	points = 0;
	uln_lane_close(&lane);
}

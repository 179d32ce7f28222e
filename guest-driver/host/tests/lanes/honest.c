// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two hosts that obey the rules. Each has a sender and a poller, which follow the interface of
 * uln_channel.h as net/port.c does: they act only when they are woken, so a lost wake-up stalls
 * them. One of the hosts may vanish.
 */
#include "test.h"

/* More than any seed needs. */
#define STEPS 20000000
#define NOISE (512U << 10)
/* Of threads and cards. */
#define ACTORS 6

static struct end ends[2];
static u8 noise[NOISE];
/* A thread yields at one in @pace points. */
static u32 pace;
/* What the receiver writes over a released frame. */
static u8 pattern;

static void maybe_yield(void)
{
	if (current && once_in(pace))
		thread_yield();
}

static void user_woken(struct uln_lane *lane)
{
	container_of(lane, struct end, lane)->scheduled = true;
}

static void user_broke(struct uln_lane *lane)
{
	container_of(lane, struct end, lane)->broke = true;
}

static const struct uln_lane_user user = { .woken = user_woken, .broke = user_broke };

static void user_lock(struct end *end)
{
	while (end->locked)
		thread_yield();
	end->locked = true;
}

static void user_unlock(struct end *end)
{
	end->locked = false;
}

static u32 choose_length(const struct uln_lane *lane)
{
	u32 longest = uln_lane_longest(lane);
	/* Of a frame that ends where the ring ends, or some bytes before or behind. */
	u32 fits = lane->size - (lane->appended & (lane->size - 1)) - HEAD + below(2 * UNIT) - UNIT;

	switch (below(8)) {
	case 0:
		return 0;
	case 1:
		return 1;
	case 2:
		return below(64);
	case 3:
		return longest;
	case 4:
		return below(longest + 1);
	case 5:
		return fits <= longest ? fits : below(256);
	default:
		return below(2048);
	}
}

/* Checks where a reserved frame lies, and returns its positions. */
static struct frame place_frame(struct end *end, const u8 *bytes, u32 reserved)
{
	struct direction *sent = &end->sent;
	u32 size = end->lane.size, at = bytes - (const u8 *)end->lane.base - 2 * RING - size - HEAD;
	struct frame frame = { .skipped_at = sent->appended_at, .at = sent->appended_at };
	u32 i;

	if (at != (frame.at & (size - 1))) {
		check(!at && ALIGN(HEAD + reserved, UNIT) > size - (frame.at & (size - 1)),
		      "a frame is reserved behind a gap");
		frame.at += size - (frame.at & (size - 1));
	}
	frame.end = frame.at + ALIGN(HEAD + reserved, UNIT);
	check(at + (frame.end - frame.at) <= size, "a frame is not in one piece");
	check(frame.end - sent->reported_at <= size, "more is reserved than is free");
	for (i = frame.skipped_at; i != frame.end; i += UNIT)
		check(sent->units[(i & (size - 1)) / UNIT] == FREE,
		      "a frame is reserved that was not released");
	return frame;
}

static void append(struct end *end, u8 *bytes, u32 reserved, u32 length)
{
	struct direction *sent = &end->sent;
	struct frame frame = place_frame(end, bytes, reserved);

	frame.end = frame.at + ALIGN(HEAD + length, UNIT);
	frame.length = length;
	frame.bytes = noise + below(NOISE - length);
	memcpy(bytes, frame.bytes, length);
	sent->frames[sent->appended++] = frame;
	sent->appended_at = frame.end;
	uln_lane_commit(&end->lane, length);
	check(end->lane.appended == frame.end, "a frame has the wrong size");
}

/* Appends a frame. False: the ring is full. */
static bool send_one(struct end *end)
{
	struct uln_lane *lane = &end->lane;
	u32 length = choose_length(lane), reserved = length;
	u8 *bytes;

	if (once_in(4))
		reserved += below(uln_lane_longest(lane) - length + 1);
	/* Room may be looked for first, as net/port.c does for more. */
	if (once_in(8))
		uln_lane_reserve(lane, below(uln_lane_longest(lane) + 1));
	bytes = uln_lane_reserve(lane, reserved);
	if (!bytes) {
		end->room = false;
		end->wanted = reserved;
		/* The poller did not know yet that the sender waits. */
		bytes = uln_lane_reserve(lane, reserved);
		if (!bytes)
			return false;
		end->room = true;
	}
	append(end, bytes, reserved, length);
	return true;
}

static void sender(void *data)
{
	struct end *end = data;
	bool sends;

	while (end->planned && !end->ending) {
		user_lock(end);
		sends = send_one(end);
		if (sends)
			end->planned--;
		if (!sends || !end->planned || once_in(4))
			uln_lane_flush(&end->lane);
		user_unlock(end);
		if (!sends && !end->ending)
			thread_sleep(&end->room);
		maybe_yield();
	}
}

static void mark_released(struct end *end)
{
	struct direction *sent = &end->other->sent;
	const struct frame *frame = &sent->frames[sent->released++];
	u32 at = frame->skipped_at;
	u8 *unit;

	/* What was skipped may have been reported. */
	if (sent->reported_at == frame->at)
		at = frame->at;
	for (; at != frame->end; at += UNIT) {
		unit = &sent->units[(at & (end->lane.size - 1)) / UNIT];
		check(*unit == ARRIVED, "a frame has not arrived");
		*unit = RELEASED;
	}
	sent->released_at = frame->end;
}

/* Takes a frame, keeps it for a while, and releases it. False: none has come. */
static bool receive_one(struct end *end)
{
	const struct direction *sent = &end->other->sent;
	const struct frame *frame = &sent->frames[sent->released];
	struct uln_lane *lane = &end->lane;
	u32 length, i;
	u8 *bytes = (u8 *)uln_lane_next(lane, &length);
	const u8 *again;

	if (!bytes)
		return false;
	check(sent->released != sent->appended, "a frame arrives that was not sent");
	check(bytes == lane->base + RING + (frame->at & (lane->size - 1)) + HEAD,
	      "a frame lies elsewhere");
	check(length == frame->length, "a frame of %u bytes has %u", frame->length, length);
	check(!memcmp(bytes, frame->bytes, length), "a frame has other bytes");
	for (i = once_in(16) ? below(200) : below(3); i && !end->ending; i--)
		thread_yield();
	if (once_in(4)) {
		again = uln_lane_next(lane, &length);
		check(again == bytes || (!again && lane->broken), "another frame is next");
		check(length == frame->length, "the length of a lent frame has changed");
	}
	check(!memcmp(bytes, frame->bytes, length), "a lent frame was overwritten");
	memset(bytes - HEAD, pattern, frame->end - frame->at);
	mark_released(end);
	uln_lane_release(lane);
	return true;
}

static void poll(struct end *end)
{
	u32 budget = 1 + below(8), done = 0;

	end->scheduled = false;
	while (done < budget && !end->ending && receive_one(end))
		done++;
	user_lock(end);
	uln_lane_flush(&end->lane);
	if (!end->room && uln_lane_reserve(&end->lane, end->wanted))
		end->room = true;
	user_unlock(end);
	if (done == budget || !uln_lane_arm(&end->lane))
		thread_yield();
	else
		thread_sleep(&end->scheduled);
}

static void poller(void *data)
{
	struct end *end = data;

	while (!end->ending)
		poll(end);
}

/* Has the threads of an end return. */
static void finish(struct end *end)
{
	end->ending = end->room = end->scheduled = true;
}

/* Closes an end whose threads have returned. */
static void close_finished(struct end *end)
{
	if (end->open && end->ending && thread_is_over(end->sender) && thread_is_over(end->poller))
		uln_lane_close(&end->lane);
}

/* Sets an end's counters as if it had been open for long. */
static void make_old(struct end *end, u32 at, u32 deposits)
{
	struct uln_lane *lane = &end->lane, *other = &end->other->lane;
	struct direction *sent = &end->sent;

	lane->appended = lane->passed = lane->released = at;
	other->arrived = other->taken = other->reported = at;
	lane->deposits = lane->deposits_taken = deposits;
	other->announced = other->announced_reported = deposits;
	other->reports = below(8);
	sent->appended_at = sent->passed_at = sent->released_at = sent->reported_at = at;
	sent->deposits = sent->deposits_taken = sent->deposits_reported = deposits;
}

static bool open_end(struct end *end, struct end *other, u32 size)
{
	memset(end, 0, offsetof(struct end, sent.units));
	memset(end->sent.units, FREE, size / UNIT);
	end->other = other;
	end->room = end->scheduled = true;
	end->lane.ops = &carrier.ops;
	end->lane.user = &user;
	end->lane.file.card = &end->card;
	return !uln_lane_open(&end->lane, size);
}

static void start(struct end *end, unsigned int threads)
{
	u32 size = end->lane.size, most = min(carrier.ops.longest, size) / 2;
	u32 at = once_in(2) ? -below(4 * size) : once_in(2) ? random_word() : 0;

	make_old(end, round_down(at, UNIT), once_in(2) ? -below(64) : 0);
	memset(end->lane.base + RING, pattern, size);
	/* A seed takes long if deposits are short. */
	end->planned = below(min(most, one_of(10, 50, 200)));
	end->sender = thread_start(threads, sender, end);
	end->poller = thread_start(threads + 1, poller, end);
}

static bool act(u32 actor)
{
	struct end *end = &ends[actor % 2];

	switch (actor / 2) {
	case 0:
		return carrier_step(end);
	case 1:
		return thread_run(end->sender);
	default:
		return thread_run(end->poller);
	}
}

/* One of those that can act does so. False: none can. */
static bool step(const u32 *speeds, u32 all)
{
	u32 turn = below(all), actor = 0, i;

	while (turn >= speeds[actor])
		turn -= speeds[actor++];
	for (i = 0; i < ACTORS; i++)
		if (act((actor + i) % ACTORS))
			return true;
	return false;
}

static void check_direction(const struct end *end)
{
	const struct uln_lane *from = &end->lane, *to = &end->other->lane;
	const struct direction *sent = &end->sent;

	check(!end->planned && sent->released == sent->appended && from->passed == from->appended,
	      "stalled: %u frames to send, %u of %u received", end->planned, sent->released,
	      sent->appended);
	check(from->appended == sent->appended_at && from->passed == sent->passed_at &&
	      to->arrived == sent->passed_at && to->taken == sent->appended_at,
	      "not all bytes are accounted for");
	check(from->deposits == sent->deposits && to->announced == sent->deposits,
	      "not all deposits are accounted for");
	check(from->released == to->reported && to->reported == sent->reported_at &&
	      to->taken - to->reported < from->size / 4, "a report of bytes was lost");
	check(from->deposits_taken == to->announced_reported &&
	      to->announced_reported == sent->deposits_reported &&
	      to->announced - to->announced_reported < DIV_ROUND_UP(carrier.ops.most, 4),
	      "a report of deposits was lost");
	check(!end->card.dev.warnings, "a lane breaks: %s", end->card.dev.warning);
}

/* Runs both ends until nothing happens. One may vanish before, and then the other. */
static void run(u32 vanishes)
{
	const u32 paces[] = { 1, 4, 16 };
	u32 speeds[ACTORS], all = 0, steps, i;
	struct end *end = &ends[below(2)];

	for (i = 0; i < ACTORS; i++)
		all += speeds[i] = paces[below(ARRAY_SIZE(paces))];
	for (steps = 0; step(speeds, all); steps++) {
		check(steps < STEPS, "it does not end");
		if (steps == vanishes && once_in(2))
			finish(end);
		else if (steps == vanishes)
			end->breaks = true;
		for (i = 0; i < ARRAY_SIZE(ends); i++) {
			check(vanishes != U32_MAX || !ends[i].broke, "a lane breaks: %s",
			      ends[i].card.dev.warning);
			if (ends[i].broke)
				finish(&ends[i]);
			close_finished(&ends[i]);
		}
	}
}

void honest(void)
{
	u32 size = ULN_CHANNEL_LEAST << (once_in(4) ? below(4) : 0), i;
	u32 vanishes = once_in(2) ? below(one_of(20, 500, 20000)) : U32_MAX;
	bool opened;

	while (!noise[0])
		for (i = 0; i < NOISE; i++)
			noise[i] = i * 2654435761U >> 24 | 1;
	pattern = one_of(0, 0xa5, 0xff);
	pace = one_of(2, 8, 64);
	carrier_begin();
	interleaved = maybe_yield;
	opened = open_end(&ends[0], &ends[1], size);
	opened &= open_end(&ends[1], &ends[0], size);
	if (!opened) {
		uln_lane_close(&ends[0].lane);
		uln_lane_close(&ends[1].lane);
		return;
	}
	for (i = 0; i < ARRAY_SIZE(ends); i++)
		start(&ends[i], 2 * i);
	run(vanishes);
	for (i = 0; i < ARRAY_SIZE(ends); i++)
		if (vanishes == U32_MAX)
			check_direction(&ends[i]);
	for (i = 0; i < ARRAY_SIZE(ends); i++)
		finish(&ends[i]);
	run(U32_MAX - 1);
	check(!ends[0].open && !ends[1].open, "a thread does not return");
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rings of a lane (uln_lane.h). A frame is a head and its bytes, and begins at a multiple of
 * FRAME_ALIGN. It lies in one piece: one that does not fit at the ring's end begins at its start,
 * behind a head that says so.
 *
 * Positions count bytes since the lane was opened, modulo 2^32. The other host may write to ring
 * and control block at any time, and announce what it likes. So all of it is read once and checked;
 * a host that breaks the rules breaks the lane.
 */
#include <linux/delay.h>
#include <linux/vmalloc.h>

#include "uln_channel.h"
#include "uln_core.h"
#include "uln_lane.h"

struct frame_head {
	__le32 length;
	__le32 reserved;
};

#define FRAME_ALIGN 16
/* Instead of a length: the next frame is at the ring's start. */
#define FRAME_SKIP U32_MAX
/* A receiver reports what it has released in this many steps for each turn of the ring. */
#define REPORTS 4
/* Announcements that are taken in a row. */
#define TAKEN_AT_ONCE 64
/* Until a card without room is looked at again, in microseconds. */
#define AGAIN_US 50

/*
 * Bytes of the control block: a place for each report that may be on its way. Those are REPORTS of
 * bytes and REPORTS of deposits, as the sender has no credit for more.
 */
#define CONTROL (2 * REPORTS * sizeof(struct uln_lane_report))
#define RING ULN_PAGE_SIZE

static void *lane_ring(const struct uln_lane *lane, u32 position)
{
	return lane->base + RING + (position & (lane->size - 1));
}

static u32 lane_rest(const struct uln_lane *lane, u32 position)
{
	return lane->size - (position & (lane->size - 1));
}

static int lane_woken(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	struct uln_lane *lane = entry->private;

	lane->user->woken(lane);
	return 1;
}

/* Wakes the lane's user whenever one of these is woken, until the lane is closed. */
void uln_lane_watch(struct uln_lane *lane, wait_queue_head_t *announced, wait_queue_head_t *room)
{
	unsigned int i;

	lane->waited[0] = announced;
	lane->waited[1] = room;
	for (i = 0; i < ARRAY_SIZE(lane->waits); i++) {
		init_waitqueue_func_entry(&lane->waits[i], lane_woken);
		lane->waits[i].private = lane;
		add_wait_queue(lane->waited[i], &lane->waits[i]);
	}
}

static void lane_wake_again(struct work_struct *work)
{
	struct uln_lane *lane = container_of(work, struct uln_lane, again);

	usleep_range(AGAIN_US, 2 * AGAIN_US);
	/* A network device's softirq runs at once, as after an interrupt. */
	local_bh_disable();
	lane->user->woken(lane);
	local_bh_enable();
}

/* Wakes the lane's user in a moment, for a card that does not report that it has room. */
void uln_lane_again(struct uln_lane *lane)
{
	queue_work(system_highpri_wq, &lane->again);
}

static void lane_unwatch(struct uln_lane *lane)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lane->waits); i++)
		if (lane->waited[i])
			remove_wait_queue(lane->waited[i], &lane->waits[i]);
}

void uln_lane_broke(struct uln_lane *lane)
{
	WRITE_ONCE(lane->broken, true);
	lane->user->broke(lane);
}

/*
 * A frame fits wherever the next one begins, though the receiver has not reported a quarter of the
 * ring yet.
 */
u32 uln_lane_longest(const struct uln_lane *lane)
{
	return lane->size / 8 * 3 - FRAME_ALIGN;
}

static u32 frame_size(u32 length)
{
	return ALIGN(sizeof(struct frame_head) + length, FRAME_ALIGN);
}

static int lane_make_memory(struct uln_lane *lane)
{
	u64 half = uln_lane_mirror(lane);

	if (!lane->ops->apart)
		return uln_pages_make(&lane->file, 2 * half, &lane->memory);
	return uln_pages_make(&lane->file, half, &lane->memory) ?:
	       uln_pages_make(&lane->file, half, &lane->mirror);
}

/* Maps both parts, one behind the other. */
static int lane_map_memory(struct uln_lane *lane)
{
	u32 half = uln_lane_mirror(lane) / ULN_PAGE_SIZE;
	struct page **pages = lane->memory->page, **both = NULL;

	if (lane->mirror) {
		both = kvmalloc_array(2 * half, sizeof(*both), GFP_KERNEL);
		if (!both)
			return -ENOMEM;
		memcpy(both, pages, half * sizeof(*both));
		memcpy(both + half, lane->mirror->page, half * sizeof(*both));
		pages = both;
	}
	lane->base = vmap(pages, 2 * half, VM_MAP, PAGE_KERNEL);
	kvfree(both);
	return lane->base ? 0 : -ENOMEM;
}

/* Allocates the memory, and has the model open the lane. Whatever it returns: close the lane. */
int uln_lane_open(struct uln_lane *lane, u32 size)
{
	int ret;

	spin_lock_init(&lane->lock);
	INIT_WORK(&lane->again, lane_wake_again);
	lane->size = size;
	ret = lane_make_memory(lane) ?: lane_map_memory(lane);
	if (ret)
		return ret;
	lane->model = kzalloc(lane->ops->size, GFP_KERNEL);
	return lane->model ? lane->ops->open(lane) : -ENOMEM;
}

/* Closes a lane that may be open, or have failed to; once for each lane. */
void uln_lane_close(struct uln_lane *lane)
{
	lane_unwatch(lane);
	if (lane->model)
		cancel_work_sync(&lane->again);
	uln_file_end(&lane->file);
	/* The model may have taken the memory. */
	vunmap(lane->base);
	if (lane->model && lane->ops->close)
		lane->ops->close(lane);
	kfree(lane->model);
	uln_pages_give_back(&lane->memory);
	uln_pages_give_back(&lane->mirror);
}

void *uln_lane_reserve(struct uln_lane *lane, u32 length)
{
	u32 rest = lane_rest(lane, lane->appended), size = frame_size(length);

	lane->skipped = size > rest ? rest : 0;
	if (lane->appended - READ_ONCE(lane->released) + lane->skipped + size > lane->size)
		return NULL;
	return lane_ring(lane, lane->appended + lane->skipped) + uln_lane_mirror(lane) +
	       sizeof(struct frame_head);
}

static void lane_put_head(struct uln_lane *lane, u32 length, u32 size)
{
	struct frame_head *head = lane_ring(lane, lane->appended) + uln_lane_mirror(lane);

	*head = (struct frame_head) { .length = cpu_to_le32(length) };
	lane->appended += size;
}

void uln_lane_commit(struct uln_lane *lane, u32 length)
{
	if (lane->skipped)
		lane_put_head(lane, FRAME_SKIP, lane->skipped);
	lane_put_head(lane, length, frame_size(length));
}

bool uln_lane_flush(struct uln_lane *lane)
{
	u32 at, length;

	guard(spinlock_bh)(&lane->lock);
	while (lane->passed != lane->appended) {
		if (lane->deposits - READ_ONCE(lane->deposits_taken) >= lane->ops->most)
			return false;
		at = lane->passed & (lane->size - 1);
		length = min3(lane->appended - lane->passed, lane->size - at,
			      round_down(lane->ops->longest, FRAME_ALIGN));
		if (lane->broken ||
		    !lane->ops->send(lane, uln_lane_mirror(lane) + RING + at, RING + at, length))
			return false;
		lane->deposits++;
		WRITE_ONCE(lane->passed, lane->passed + length);
	}
	return true;
}

/* Breaks the lane: the other host does not obey the rules. */
static void lane_breach(struct uln_lane *lane, const char *what)
{
	if (lane->broken)
		return;
	dev_warn_ratelimited(&lane->file.card->dev, "host %u: %s: the channel ends\n", lane->host,
			     what);
	uln_lane_broke(lane);
}

/*
 * The other host has released what this one has sent. A report that was overtaken by a later one is
 * ignored. The lock is for what a sender has passed to the card, and not counted yet.
 */
static void lane_take_report(struct uln_lane *lane, u32 at)
{
	const struct uln_lane_report *report = lane->base + at;
	u32 released = le32_to_cpu(READ_ONCE(report->bytes));
	u32 taken = le32_to_cpu(READ_ONCE(report->deposits));

	guard(spinlock_bh)(&lane->lock);
	if ((s32)(released - lane->released) < 0 || (s32)(taken - lane->deposits_taken) < 0)
		return;
	if (released - lane->released > READ_ONCE(lane->passed) - lane->released ||
	    taken - lane->deposits_taken > READ_ONCE(lane->deposits) - lane->deposits_taken) {
		lane_breach(lane, "releases more than was sent");
		return;
	}
	WRITE_ONCE(lane->released, released);
	WRITE_ONCE(lane->deposits_taken, taken);
}

/* Takes announcements. Whatever they say, it ends. */
static void lane_pull(struct uln_lane *lane)
{
	unsigned int left = TAKEN_AT_ONCE;
	u32 to, length;

	while (left-- && !lane->broken && lane->ops->take(lane, &to, &length)) {
		if (to < CONTROL && !(to % sizeof(struct uln_lane_report)) &&
		    length == sizeof(struct uln_lane_report)) {
			lane_take_report(lane, to);
			continue;
		}
		if (to != RING + (lane->arrived & (lane->size - 1)) || length % FRAME_ALIGN ||
		    length > lane_rest(lane, lane->arrived) ||
		    lane->arrived + length - lane->reported > lane->size) {
			lane_breach(lane, "writes where it may not");
			return;
		}
		lane->announced++;
		lane->arrived += length;
	}
}

/*
 * Reports what was released, if that is due. Reports take turns with a few places, as one may
 * overtake another. If the card has no room, a later call tries again.
 */
static void lane_report(struct uln_lane *lane)
{
	u32 at = lane->reports * sizeof(struct uln_lane_report) % CONTROL;
	struct uln_lane_report *report = lane->base + uln_lane_mirror(lane) + at;

	if (lane->taken - lane->reported < lane->size / REPORTS &&
	    lane->announced - lane->announced_reported <
		    DIV_ROUND_UP(lane->ops->most, REPORTS))
		return;
	guard(spinlock_bh)(&lane->lock);
	report->bytes = cpu_to_le32(lane->taken);
	report->deposits = cpu_to_le32(lane->announced);
	if (lane->broken || !lane->ops->send(lane, uln_lane_mirror(lane) + at, at, sizeof(*report)))
		return;
	lane->reports++;
	lane->reported = lane->taken;
	lane->announced_reported = lane->announced;
}

/* Returns the head of the next frame, once it lies at the next position. */
static const struct frame_head *lane_head(struct uln_lane *lane, u32 *length)
{
	const struct frame_head *head;
	u32 rest;

	while (lane->taken != lane->arrived) {
		head = lane_ring(lane, lane->taken);
		*length = le32_to_cpu(READ_ONCE(head->length));
		if (*length != FRAME_SKIP)
			return head;
		rest = lane_rest(lane, lane->taken);
		if (rest == lane->size) {
			lane_breach(lane, "skips all of the ring");
			return NULL;
		}
		/* More is skipped than one deposit has: the rest is on its way. */
		if (rest > lane->arrived - lane->taken)
			return NULL;
		lane->taken += rest;
	}
	return NULL;
}

const void *uln_lane_next(struct uln_lane *lane, u32 *length)
{
	const struct frame_head *head;

	lane_pull(lane);
	lane_report(lane);
	head = lane->broken ? NULL : lane_head(lane, length);
	if (!head)
		return NULL;
	if (*length > uln_lane_longest(lane) ||
	    frame_size(*length) > lane_rest(lane, lane->taken)) {
		lane_breach(lane, "sends a frame that is too long");
		return NULL;
	}
	/* The rest is on its way. */
	if (frame_size(*length) > lane->arrived - lane->taken)
		return NULL;
	lane->lent = frame_size(*length);
	return head + 1;
}

void uln_lane_release(struct uln_lane *lane)
{
	lane->taken += lane->lent;
	lane->lent = 0;
	lane_report(lane);
}

bool uln_lane_arm(struct uln_lane *lane)
{
	return lane->broken || lane->ops->arm(lane);
}

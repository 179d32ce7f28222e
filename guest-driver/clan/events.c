// SPDX-License-Identifier: GPL-2.0-only
/*
 * Event queues (section 3.5): a ring of records that the card writes and the owner takes without a
 * call. The driver reads it only for a sleeping process, and checks every value: it is the owner's
 * memory, too.
 */
#include "clan.h"

static_assert(CLAN_EVENTS_HEAD == ULN_PAGE_SIZE);
static_assert(CLAN_EVENTS_HEAD + CLAN_MAX_EVENTS * CLAN_EVENT_SIZE <= ULN_MAP_STRIDE);
static_assert(sizeof(struct clan_event) == CLAN_EVENT_SIZE);
/* In uln_waiters.armed, with how many records were taken: it is armed. */
#define ARMED BIT_ULL(32)

#define events_of(of) container_of(of, struct clan_events_object, object)

static const struct clan_event *events_record(const struct clan_events_object *events, u32 n)
{
	u32 place = (n & (events->records - 1)) * CLAN_EVENT_SIZE;

	return page_address(events->memory->page[1 + place / ULN_PAGE_SIZE]) +
	       place % ULN_PAGE_SIZE;
}

/* Returns whether there are more records than were taken: it has this number, or a later one. */
static bool events_arrived(const struct uln_waiters *sleepers, u64 what)
{
	const struct clan_events_object *events =
		container_of_const(sleepers, struct clan_events_object, sleepers);
	u32 taken = what;

	return (s32)(le32_to_cpu(READ_ONCE(events_record(events, taken)->number)) - taken) > 0;
}

static void events_arm(struct uln_waiters *sleepers, u64 what)
{
	const struct clan_events_object *events =
		container_of_const(sleepers, struct clan_events_object, sleepers);
	u64 taken = lower_32_bits(what);

	if (sleepers->armed == (ARMED | taken))
		return;
	sleepers->armed = ARMED | taken;
	writeq(taken << 32 | events->object.index,
	       sleepers->file->card->registers + CLAN_REG_ARM_EVENTS);
}

static const struct uln_expected events_news = { .arrived = events_arrived, .arm = events_arm };

static struct clan_events_object *events_find(struct uln_file *file, u32 index)
{
	struct clan_events_object *events = xa_load(&clan_parts(file->card)->events, index);

	return events && events->object.file == file ? events : NULL;
}

/* Reserves a record of a file's queue for each of @sources; the card's lock is held. */
int clan_events_reserve(struct uln_file *file, u32 index, u32 sources)
{
	struct clan_events_object *events;

	if (index == CLAN_NO_EVENTS)
		return 0;
	events = events_find(file, index);
	if (!events)
		return -ENOENT;
	if (sources > events->records - events->sources)
		return -ENOSPC;
	events->sources += sources;
	return 0;
}

void clan_events_give(struct uln_file *file, u32 index, u32 sources)
{
	struct clan_events_object *events =
		index == CLAN_NO_EVENTS ? NULL : events_find(file, index);

	if (events)
		events->sources -= sources;
}

static void events_free(struct kref *users)
{
	struct clan_events_object *events =
		container_of(users, struct clan_events_object, object.users);

	uln_pages_free(events->memory);
	kfree(events);
}

DEFINE_FREE(events_put, struct clan_events_object *,
	    if (!IS_ERR_OR_NULL(_T)) uln_object_put(&_T->object))

/* Allocates a queue that the card does not know yet. */
static struct clan_events_object *events_alloc(struct uln_file *file, u32 records)
{
	struct clan_events_object *events __free(events_put) =
		kzalloc(sizeof(*events), GFP_KERNEL_ACCOUNT);
	int ret;

	if (!events)
		return ERR_PTR(-ENOMEM);
	uln_object_init(&events->object, file, &clan_events_kind);
	uln_waiters_init(&events->sleepers, file, &events_news);
	events->records = records;
	ret = uln_pages_make(file, CLAN_EVENTS_HEAD + (u64)records * CLAN_EVENT_SIZE,
			     &events->memory);
	return ret ? ERR_PTR(ret) : no_free_ptr(events);
}

/* Returns its part of a share, as there are fewer queues than endpoints. */
static u32 events_count(const struct uln_card *card)
{
	const struct clan_limits *limits = clan_limits(card);

	return DIV_ROUND_UP(limits->query.endpoints, limits->event_queues);
}

/* Allots a number, and has the card open the queue. */
static int events_open(struct clan_events_object *events)
{
	struct uln_file *file = events->object.file;
	struct clan_parts *parts = clan_parts(file->card);
	struct clan_open_events body = {
		.owner = cpu_to_le32(file->number),
		.records = cpu_to_le32(events->records),
	};
	int ret;

	ret = uln_share_take_some(file->share, CLAN_SHARE_ENDPOINTS, events_count(file->card),
				  file->privileged);
	if (ret)
		return ret;
	ret = xa_alloc(&parts->events, &events->object.index, events,
		       XA_LIMIT(0, clan_limits(file->card)->event_queues - 1), GFP_KERNEL);
	if (ret) {
		ret = ret == -EBUSY ? -ENOSPC : ret;
		goto give_back;
	}
	uln_pages_describe(events->memory, &body.memory);
	ret = uln_command(file->card, CLAN_COMMAND_OPEN_EVENTS, events->object.index, &body,
			  sizeof(body));
	if (!ret)
		return 0;
	xa_erase(&parts->events, events->object.index);
give_back:
	uln_share_give_some(file->share, CLAN_SHARE_ENDPOINTS, events_count(file->card));
	return ret;
}

int clan_events_open(struct uln_file *file, void *argument)
{
	struct clan_events_object *events __free(events_put) = NULL;
	struct clan_events *answer = argument;
	int ret;

	if (answer->queue || answer->memory_offset || answer->records < CLAN_MIN_EVENTS ||
	    answer->records > CLAN_MAX_EVENTS || !is_power_of_2(answer->records))
		return -EINVAL;
	events = events_alloc(file, answer->records);
	if (IS_ERR(events))
		return PTR_ERR(events);

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	ret = events_open(events);
	if (ret)
		return ret;
	uln_waiters_open(&events->sleepers);
	uln_object_join(&events->object, CLAN_KIND_EVENTS);
	answer->queue = events->object.index;
	answer->memory_offset = events->object.offset;
	retain_and_null_ptr(events);
	return 0;
}

/* The card removes the queue from endpoints whose events went there. */
static void events_close(struct card_object *object)
{
	struct uln_card *card = object->file->card;

	object->open = false;
	uln_command_close(card, CLAN_COMMAND_CLOSE_EVENTS, object->index, NULL, 0);
	clan_endpoints_without(object->file, object->index);
	uln_waiters_close(&events_of(object)->sleepers);
	xa_erase(&clan_parts(card)->events, object->index);
	uln_share_give_some(object->file->share, CLAN_SHARE_ENDPOINTS, events_count(card));
	uln_object_leave(object);
}

/* The card can no longer reach the memory; waiters and mappings may keep it longer. */
static void events_release(struct card_object *object)
{
	uln_pages_unmap(events_of(object)->memory);
	uln_object_put(object);
}

static int events_end(struct uln_file *file, u32 index)
{
	struct clan_events_object *events;

	scoped_class(uln_entry, entry, file) {
		if (entry.error)
			return entry.error;
		events = events_find(file, index);
		if (!events)
			return -ENOENT;
		events_close(&events->object);
	}
	events_release(&events->object);
	return 0;
}

int clan_events_close(struct uln_file *file, void *argument)
{
	const struct uln_object *object = argument;

	if (object->reserved0 || object->reserved1)
		return -EINVAL;
	return events_end(file, object->index);
}

void clan_events_undo(struct uln_file *file, void *argument)
{
	const struct clan_events *answer = argument;

	events_end(file, answer->queue);
}

/* Looks up the caller's queue, and takes a reference. */
static struct clan_events_object *events_get(struct uln_file *file, u32 index)
{
	struct clan_events_object *events;

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return ERR_PTR(entry.error);
	events = events_find(file, index);
	if (!events)
		return ERR_PTR(-ENOENT);
	kref_get(&events->object.users);
	return events;
}

int clan_events_wait(struct uln_file *file, void *argument)
{
	struct clan_events_object *events __free(events_put) = NULL;
	const struct clan_events_wait *wait = argument;

	if (wait->timeout_ns < ULN_WAIT_FOREVER)
		return -EINVAL;
	events = events_get(file, wait->queue);
	if (IS_ERR(events))
		return PTR_ERR(events);
	return uln_waiters_wait(&events->sleepers, wait->taken, wait->timeout_ns);
}

/* The owner stores in the queue's own memory how many records it has taken. */
static __poll_t events_poll(struct card_object *object)
{
	struct clan_events_object *events = events_of(object);
	const __le32 *taken = page_address(events->memory->page[0]) + CLAN_EVENTS_TAKEN;

	return uln_waiters_ready(&events->sleepers, le32_to_cpu(READ_ONCE(*taken))) ?
		       EPOLLIN | EPOLLRDNORM :
		       0;
}

static wait_queue_head_t *events_waiting(struct card_object *object)
{
	return &events_of(object)->sleepers.wait;
}

static int events_mmap(struct card_object *object, struct vm_area_struct *vma, u64 offset, u64 size)
{
	const struct uln_pages *memory = events_of(object)->memory;

	if (offset || size != (u64)memory->count * ULN_PAGE_SIZE)
		return -EINVAL;
	return uln_mmap_shared(vma, object, memory);
}

const struct card_kind clan_events_kind = {
	.close = events_close,
	.release = events_release,
	.poll = events_poll,
	.wait = events_waiting,
	.mmap = events_mmap,
	.free = events_free,
};

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queues (sections 1 and 2): what messages report, as records in memory that the card writes and
 * the owner takes without a call. The driver reads them only for sleepers, and trusts none of them:
 * it is the owner's memory, too.
 */
#include "dart.h"

static_assert(DART_QUEUE_HEAD == ULN_PAGE_SIZE);
static_assert(DART_QUEUE_HEAD + DART_MAX_RECORDS * DART_RECORD_SIZE <= ULN_MAP_STRIDE);
static_assert(sizeof(struct dart_record) == DART_RECORD_SIZE);
/* In uln_waiters.armed, with how many records were taken: it is armed. */
#define ARMED BIT_ULL(32)

#define queue_of(of) container_of(of, struct dart_queue_object, object)

/* Returns the place of record @n, whether or not it has been written. */
const struct dart_record *dart_queue_record(const struct dart_queue_object *queue, u32 n)
{
	u32 place = (n & (queue->records - 1)) * DART_RECORD_SIZE;

	return page_address(queue->memory->page[1 + place / ULN_PAGE_SIZE]) +
	       place % ULN_PAGE_SIZE;
}

/* Reports how many records the owner has taken, if that is the driver itself. */
void dart_queue_taken(const struct dart_queue_object *queue, u32 taken)
{
	__le32 *word = page_address(queue->memory->page[0]) + DART_QUEUE_TAKEN;

	/* The records have been read before the card may overwrite them. */
	smp_store_release(word, cpu_to_le32(taken));
}

/* Returns whether there are more records than were taken: it has this number, or a later one. */
static bool queue_arrived(const struct uln_waiters *sleepers, u64 what)
{
	const struct dart_queue_object *queue =
		container_of_const(sleepers, struct dart_queue_object, sleepers);
	u32 taken = what;

	return (s32)(le32_to_cpu(READ_ONCE(dart_queue_record(queue, taken)->number)) - taken) > 0;
}

static void queue_arm(struct uln_waiters *sleepers, u64 what)
{
	const struct dart_queue_object *queue =
		container_of_const(sleepers, struct dart_queue_object, sleepers);
	u64 taken = lower_32_bits(what);

	if (sleepers->armed == (ARMED | taken))
		return;
	sleepers->armed = ARMED | taken;
	writeq(taken << 32 | queue->object.index, sleepers->file->card->registers + DART_REG_ARM);
}

static const struct uln_expected queue_news = { .arrived = queue_arrived, .arm = queue_arm };

static struct dart_queue_object *queue_find(struct uln_file *file, u32 index)
{
	struct dart_queue_object *queue = xa_load(&dart_parts(file->card)->queues, index);

	return queue && queue->object.file == file ? queue : NULL;
}

/* Returns whether it is one of the file's, or none is meant; the card's lock is held. */
bool dart_queue_is(struct uln_file *file, u32 index)
{
	return index == DART_NO_QUEUE || queue_find(file, index);
}

static void queue_free(struct kref *users)
{
	struct dart_queue_object *queue =
		container_of(users, struct dart_queue_object, object.users);

	uln_pages_free(queue->memory);
	kfree(queue);
}

DEFINE_FREE(queue_put, struct dart_queue_object *,
	    if (!IS_ERR_OR_NULL(_T)) uln_object_put(&_T->object))

/* Allocates a queue that the card does not know yet. */
static struct dart_queue_object *queue_alloc(struct uln_file *file,
					     const struct dart_queue *argument)
{
	struct dart_queue_object *queue __free(queue_put) =
		kzalloc(sizeof(*queue), GFP_KERNEL_ACCOUNT);
	int ret;

	if (!queue)
		return ERR_PTR(-ENOMEM);
	uln_object_init(&queue->object, file, &dart_queue_kind);
	uln_waiters_init(&queue->sleepers, file, &queue_news);
	queue->records = argument->records;
	queue->flags = argument->flags;
	ret = uln_pages_make(file, DART_QUEUE_HEAD + (u64)queue->records * DART_RECORD_SIZE,
			     &queue->memory);
	return ret ? ERR_PTR(ret) : no_free_ptr(queue);
}

/* Allots a number, and has the card open the queue. */
static int queue_open(struct dart_queue_object *queue)
{
	struct uln_file *file = queue->object.file;
	struct dart_parts *parts = dart_parts(file->card);
	struct dart_open_queue body = {
		.records = cpu_to_le32(queue->records),
		.flags = cpu_to_le32(queue->flags),
	};
	int ret;

	ret = uln_share_take(file->share, DART_SHARE_QUEUES, file->privileged);
	if (ret)
		return ret;
	ret = xa_alloc(&parts->queues, &queue->object.index, queue,
		       XA_LIMIT(0, dart_limits(file->card)->queues - 1), GFP_KERNEL);
	if (ret) {
		ret = ret == -EBUSY ? -ENOSPC : ret;
		goto give_back;
	}
	uln_pages_describe(queue->memory, &body.memory);
	ret = uln_command(file->card, DART_COMMAND_OPEN_QUEUE, queue->object.index, &body,
			  sizeof(body));
	if (!ret)
		return 0;
	xa_erase(&parts->queues, queue->object.index);
give_back:
	uln_share_give(file->share, DART_SHARE_QUEUES);
	return ret;
}

static bool queue_is_sound(const struct dart_queue *argument)
{
	return !argument->queue && !argument->reserved && !argument->memory_offset &&
	       argument->records >= DART_MIN_RECORDS && argument->records <= DART_MAX_RECORDS &&
	       is_power_of_2(argument->records) && !(argument->flags & ~DART_QUEUE_IMMEDIATE);
}

int dart_queue_open(struct uln_file *file, void *argument)
{
	struct dart_queue_object *queue __free(queue_put) = NULL;
	struct dart_queue *answer = argument;
	int ret;

	if (!queue_is_sound(answer))
		return -EINVAL;
	queue = queue_alloc(file, answer);
	if (IS_ERR(queue))
		return PTR_ERR(queue);

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	ret = queue_open(queue);
	if (ret)
		return ret;
	uln_waiters_open(&queue->sleepers);
	uln_object_join(&queue->object, DART_KIND_QUEUE);
	answer->queue = queue->object.index;
	answer->memory_offset = queue->object.offset;
	retain_and_null_ptr(queue);
	return 0;
}

/* The card removes the queue from connections that name it. */
static void queue_close(struct card_object *object)
{
	struct uln_card *card = object->file->card;

	object->open = false;
	uln_command_close(card, DART_COMMAND_CLOSE_QUEUE, object->index, NULL, 0);
	uln_waiters_close(&queue_of(object)->sleepers);
	xa_erase(&dart_parts(card)->queues, object->index);
	uln_share_give(object->file->share, DART_SHARE_QUEUES);
	uln_object_leave(object);
}

/* The card can no longer reach the memory; waiters and mappings may keep it longer. */
static void queue_release(struct card_object *object)
{
	uln_pages_unmap(queue_of(object)->memory);
	uln_object_put(object);
}

static int queue_end(struct uln_file *file, u32 index)
{
	struct dart_queue_object *queue;

	scoped_class(uln_entry, entry, file) {
		if (entry.error)
			return entry.error;
		queue = queue_find(file, index);
		if (!queue)
			return -ENOENT;
		queue_close(&queue->object);
	}
	queue_release(&queue->object);
	return 0;
}

int dart_queue_close(struct uln_file *file, void *argument)
{
	const struct uln_object *object = argument;

	if (object->reserved0 || object->reserved1)
		return -EINVAL;
	return queue_end(file, object->index);
}

void dart_queue_undo(struct uln_file *file, void *argument)
{
	const struct dart_queue *answer = argument;

	queue_end(file, answer->queue);
}

/* Looks up the caller's queue, and takes a reference. */
static struct dart_queue_object *queue_get(struct uln_file *file, u32 index)
{
	struct dart_queue_object *queue;

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return ERR_PTR(entry.error);
	queue = queue_find(file, index);
	if (!queue)
		return ERR_PTR(-ENOENT);
	kref_get(&queue->object.users);
	return queue;
}

int dart_queue_wait(struct uln_file *file, void *argument)
{
	struct dart_queue_object *queue __free(queue_put) = NULL;
	const struct dart_queue_wait *wait = argument;

	if (wait->timeout_ns < ULN_WAIT_FOREVER)
		return -EINVAL;
	queue = queue_get(file, wait->queue);
	if (IS_ERR(queue))
		return PTR_ERR(queue);
	return uln_waiters_wait(&queue->sleepers, wait->taken, wait->timeout_ns);
}

/* The owner stores in the queue's own memory how many records it has taken. */
static __poll_t queue_poll(struct card_object *object)
{
	struct dart_queue_object *queue = queue_of(object);
	const __le32 *taken = page_address(queue->memory->page[0]) + DART_QUEUE_TAKEN;

	return uln_waiters_ready(&queue->sleepers, le32_to_cpu(READ_ONCE(*taken))) ?
		       EPOLLIN | EPOLLRDNORM :
		       0;
}

static wait_queue_head_t *queue_waiting(struct card_object *object)
{
	return &queue_of(object)->sleepers.wait;
}

static int queue_mmap(struct card_object *object, struct vm_area_struct *vma, u64 offset, u64 size)
{
	const struct uln_pages *memory = queue_of(object)->memory;

	if (offset || size != (u64)memory->count * ULN_PAGE_SIZE)
		return -EINVAL;
	return uln_mmap_shared(vma, object, memory);
}

const struct card_kind dart_queue_kind = {
	.close = queue_close,
	.release = queue_release,
	.poll = queue_poll,
	.wait = queue_waiting,
	.mmap = queue_mmap,
	.free = queue_free,
};

// SPDX-License-Identifier: GPL-2.0-only
/* Notification queues, and what their owners wait for. */
#include <linux/nospec.h>

#include "hamlyn.h"

/* Passes over a queue are counted modulo this. */
#define PASSES (1u << (32 - HAMLYN_NOTIFICATION_PASS_SHIFT))

static const struct hamlyn_notification *queue_entry(const struct hamlyn_queue *queue, u32 cursor)
{
	unsigned int per_page = ULN_PAGE_SIZE / HAMLYN_NOTIFICATION_SIZE;
	const struct hamlyn_notification *entries;

	/* The cursor is a user's, and has been checked; speculation must not go beyond either. */
	cursor = array_index_nospec(cursor, queue->entries);
	entries = page_address(queue->pages->page[cursor / per_page]);
	return &entries[cursor % per_page];
}

/*
 * Returns whether the entry that a pass wrote is there, or one of a later pass that overwrote it.
 * The entry's word shows the pass in which it was written, and its flag that it is complete.
 */
static bool queue_arrived(const struct hamlyn_queue *queue, u32 cursor, u32 pass)
{
	u32 word = le32_to_cpu(READ_ONCE(queue_entry(queue, cursor)->wrap));
	u32 written = word >> HAMLYN_NOTIFICATION_PASS_SHIFT;
	u32 ahead = (written - pass) % PASSES;

	if (ahead == 0)
		return (word & HAMLYN_NOTIFICATION_WRAP) != (written & 1);
	/* A pass that far ahead is the previous one. */
	return ahead < PASSES / 2;
}

static bool queue_awaited(const struct uln_sleepers *sleepers, const void *what)
{
	const struct hamlyn_queue_wait *wait = what;

	return queue_arrived(container_of_const(sleepers, struct hamlyn_queue, sleepers),
			     wait->cursor, wait->pass);
}

static const struct uln_awaited queue_news = { .arrived = queue_awaited };

struct hamlyn_queue *hamlyn_queue_find(struct uln_file *file, u32 index)
{
	struct hamlyn_queue *queue = xa_load(&hamlyn_parts(file->card)->queues, index);

	return queue && queue->object.file == file ? queue : NULL;
}

static void queue_free(struct kref *users)
{
	struct hamlyn_queue *queue = container_of(users, struct hamlyn_queue, object.users);

	uln_pages_free(queue->pages);
	kfree(queue);
}

void hamlyn_queue_put(struct hamlyn_queue *queue)
{
	uln_object_put(&queue->object);
}

static struct hamlyn_queue *queue_alloc(struct uln_file *file, u32 entries)
{
	struct hamlyn_queue *queue __free(queue_put) = kzalloc(sizeof(*queue), GFP_KERNEL_ACCOUNT);
	int ret;

	if (!queue)
		return ERR_PTR(-ENOMEM);
	uln_object_init(&queue->object, file, &hamlyn_queue_kind);
	queue->entries = entries;
	uln_sleepers_init(&queue->sleepers, file, &queue_news);
	ret = uln_pages_make(file, (u64)entries * HAMLYN_NOTIFICATION_SIZE, &queue->pages);
	return ret ? ERR_PTR(ret) : no_free_ptr(queue);
}

static int queue_open(struct hamlyn_queue *queue)
{
	struct hamlyn_open_queue body = { .entries = cpu_to_le32(queue->entries) };
	struct uln_file *file = queue->object.file;
	struct uln_card *card = file->card;
	struct hamlyn_parts *parts = hamlyn_parts(card);
	int ret;

	ret = uln_share_take(file->share, HAMLYN_QUEUES, file->privileged);
	if (ret)
		return ret;
	ret = xa_alloc(&parts->queues, &queue->object.index, queue,
		       XA_LIMIT(0, card->limits.queues - 1), GFP_KERNEL);
	if (ret) {
		ret = ret == -EBUSY ? -ENOSPC : ret;
		goto give_back;
	}
	uln_pages_describe(queue->pages, &body.area);
	uln_sleepers_place(&queue->sleepers,
			   parts->control + HAMLYN_QUEUE_CONTROL_ARMED +
				   queue->object.index * ULN_ARMED_STRIDE);
	body.vector = cpu_to_le32(queue->sleepers.vector->number);
	ret = uln_command(card, HAMLYN_COMMAND_OPEN_QUEUE, queue->object.index, &body,
			  sizeof(body));
	if (ret)
		goto release_index;
	return 0;

release_index:
	xa_erase(&parts->queues, queue->object.index);
give_back:
	uln_share_give(file->share, HAMLYN_QUEUES);
	return ret;
}

int hamlyn_queue_create(struct uln_file *file, void *argument)
{
	struct hamlyn_queue_create *create = argument;
	struct hamlyn_queue *queue __free(queue_put) = NULL;
	int ret;

	if (create->queue || create->offset || create->size || create->reserved ||
	    create->entries < HAMLYN_QUEUE_MIN_ENTRIES ||
	    create->entries > HAMLYN_QUEUE_MAX_ENTRIES)
		return -EINVAL;
	queue = queue_alloc(file, create->entries);
	if (IS_ERR(queue))
		return PTR_ERR(queue);

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	ret = queue_open(queue);
	if (ret)
		return ret;
	uln_sleepers_open(&queue->sleepers);
	uln_object_join(&queue->object, HAMLYN_KIND_QUEUE);
	create->queue = queue->object.index;
	create->offset = queue->object.offset;
	create->size = queue->pages->count * ULN_PAGE_SIZE;
	retain_and_null_ptr(queue);
	return 0;
}

/*
 * Removes a queue from its file and the card, and wakes its waiters; the card's lock is held. The
 * caller has to release it, with its memory.
 */
static void queue_close(struct card_object *object)
{
	struct hamlyn_queue *queue = container_of(object, struct hamlyn_queue, object);
	struct uln_card *card = queue->object.card;

	uln_command_close(card, HAMLYN_COMMAND_CLOSE_QUEUE, queue->object.index, NULL, 0);
	uln_sleepers_close(&queue->sleepers);
	xa_erase(&hamlyn_parts(card)->queues, queue->object.index);
	uln_share_give(queue->object.file->share, HAMLYN_QUEUES);
	uln_object_leave(&queue->object);
}

/*
 * Releases a closed queue, without the card's lock. The card can no longer reach its memory;
 * waiters and mappings may keep that for longer.
 */
static void queue_release(struct card_object *object)
{
	struct hamlyn_queue *queue = container_of(object, struct hamlyn_queue, object);

	uln_pages_unmap(queue->pages);
	hamlyn_queue_put(queue);
}

/* Closes a file's queue, and returns it. */
static struct hamlyn_queue *queue_take(struct uln_file *file, u32 index)
{
	struct hamlyn_queue *queue;

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return ERR_PTR(entry.error);
	queue = hamlyn_queue_find(file, index);
	if (!queue)
		return ERR_PTR(-ENOENT);
	if (queue->slots)
		return ERR_PTR(-EBUSY);
	queue_close(&queue->object);
	return queue;
}

static int queue_destroy(struct uln_file *file, u32 index)
{
	struct hamlyn_queue *queue = queue_take(file, index);

	if (IS_ERR(queue))
		return PTR_ERR(queue);
	queue_release(&queue->object);
	return 0;
}

int hamlyn_queue_destroy(struct uln_file *file, void *argument)
{
	const struct uln_object *object = argument;

	if (object->reserved0 || object->reserved1)
		return -EINVAL;
	return queue_destroy(file, object->index);
}

void hamlyn_queue_undo(struct uln_file *file, void *argument)
{
	const struct hamlyn_queue_create *create = argument;

	queue_destroy(file, create->queue);
}

/* Returns whether an entry has arrived; if not, the file's wait queue is woken when it does. */
bool hamlyn_queue_ready(struct hamlyn_queue *queue, u32 cursor, u32 pass)
{
	const struct hamlyn_queue_wait wait = { .cursor = cursor, .pass = pass };

	return uln_sleepers_ready(&queue->sleepers, &wait);
}

/*
 * Takes the notification at a cursor and advances the cursor; NULL if none has arrived. Only for a
 * queue that cannot be overrun.
 */
const struct hamlyn_notification *hamlyn_queue_take(const struct hamlyn_queue *queue, u32 *cursor,
						    u32 *pass)
{
	const struct hamlyn_notification *notification = queue_entry(queue, *cursor);

	if (!queue_arrived(queue, *cursor, *pass))
		return NULL;
	dma_rmb(); /* Read what it reports after its word. */
	if (++*cursor == queue->entries) {
		*cursor = 0;
		*pass = (*pass + 1) % PASSES;
	}
	return notification;
}

/* Looks up a caller's queue, checks the position, takes a reference; the card's lock is held. */
static struct hamlyn_queue *queue_get(struct uln_file *file,
				      const struct hamlyn_queue_wait *wait)
{
	struct hamlyn_queue *queue;

	lockdep_assert_held(&file->card->lock);
	queue = hamlyn_queue_find(file, wait->queue);
	if (!queue)
		return ERR_PTR(-ENOENT);
	if (wait->cursor >= queue->entries)
		return ERR_PTR(-EINVAL);
	kref_get(&queue->object.users);
	return queue;
}

static struct hamlyn_queue *queue_get_alone(struct uln_file *file,
					    const struct hamlyn_queue_wait *wait)
{
	CLASS(uln_entry, entry)(file);

	return entry.error ? ERR_PTR(entry.error) : queue_get(file, wait);
}

int hamlyn_queue_wait(struct uln_file *file, void *argument)
{
	const struct hamlyn_queue_wait *wait = argument;
	struct hamlyn_queue *queue __free(queue_put) = NULL;

	if (wait->ready || wait->reserved || wait->pass >= PASSES ||
	    wait->timeout_ns < ULN_WAIT_FOREVER)
		return -EINVAL;
	queue = queue_get_alone(file, wait);
	if (IS_ERR(queue))
		return PTR_ERR(queue);
	return uln_sleepers_wait(&queue->sleepers, wait, wait->timeout_ns);
}

int hamlyn_queue_arm(struct uln_file *file, void *argument)
{
	struct hamlyn_queue_wait *wait = argument;
	struct hamlyn_queue *queue __free(queue_put) = NULL;

	if (wait->ready || wait->reserved || wait->pass >= PASSES || wait->timeout_ns)
		return -EINVAL;
	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	queue = queue_get(file, wait);
	if (IS_ERR(queue))
		return PTR_ERR(queue);
	queue->polled = true;
	queue->poll = *wait;
	wait->ready = uln_sleepers_ready(&queue->sleepers, wait);
	return 0;
}

/* Checks for the event that was armed; if it is missing, stays armed. Needs the card's lock. */
static __poll_t queue_poll(struct card_object *object)
{
	struct hamlyn_queue *queue = container_of(object, struct hamlyn_queue, object);

	if (queue->polled && uln_sleepers_ready(&queue->sleepers, &queue->poll))
		return EPOLLIN | EPOLLRDNORM;
	return 0;
}

static wait_queue_head_t *queue_waiting(struct card_object *object)
{
	return &container_of(object, struct hamlyn_queue, object)->sleepers.wait;
}

static int queue_mmap(struct card_object *object, struct vm_area_struct *vma, u64 offset, u64 size)
{
	struct hamlyn_queue *queue = container_of(object, struct hamlyn_queue, object);

	if (offset || size != (u64)queue->pages->count * ULN_PAGE_SIZE)
		return -EINVAL;
	return uln_mmap_pages(vma, object, queue->pages);
}

const struct card_kind hamlyn_queue_kind = {
	.close = queue_close,
	.release = queue_release,
	.poll = queue_poll,
	.wait = queue_waiting,
	.mmap = queue_mmap,
	.free = queue_free,
};

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Notification queues, and how their owners sleep on them.
 *
 * Sleeper and card must not miss each other. The sleeper has the queue's armed word at YES, issues
 * a full barrier, and looks at the queue once more before it sleeps; the card writes its entry,
 * issues a full barrier, and looks at the armed word. It answers YES with FIRED and an interrupt,
 * which answers FIRED with NO and wakes everybody. Whoever still has to wait arms again.
 *
 * A queue has one armed word but may have several sleepers, each at a cursor of its own. A sleeper
 * that wants to arm and finds FIRED has come before the interrupt, and does the interrupt's work
 * itself. If it only set the word back to YES, those whom the card wanted to wake would sleep on.
 */
#include <linux/nospec.h>

#include "hamlyn.h"

/* Passes over a queue are counted modulo this. */
#define PASSES (1u << (32 - HAMLYN_NOTIFICATION_PASS_SHIFT))

static void __iomem *queue_armed(const struct hamlyn_queue *queue)
{
	return queue->file->card->control + HAMLYN_QUEUE_CONTROL_ARMED +
	       queue->index * HAMLYN_ARMED_STRIDE;
}

struct hamlyn_queue *hamlyn_queue_find(struct hamlyn_file *file, u32 index)
{
	struct hamlyn_queue *queue = xa_load(&file->card->queues, index);

	return queue && queue->file == file ? queue : NULL;
}

static void queue_free(struct kref *users)
{
	struct hamlyn_queue *queue = container_of(users, struct hamlyn_queue, users);

	hamlyn_pages_free(queue->pages);
	kfree(queue);
}

void hamlyn_queue_put(struct hamlyn_queue *queue)
{
	kref_put(&queue->users, queue_free);
}

static struct hamlyn_queue *queue_alloc(struct hamlyn_file *file, u32 entries)
{
	struct hamlyn_queue *queue __free(queue_put) = kzalloc(sizeof(*queue), GFP_KERNEL_ACCOUNT);
	struct hamlyn_pages *pages;
	int ret;

	if (!queue)
		return ERR_PTR(-ENOMEM);
	kref_init(&queue->users);
	queue->file = file;
	queue->entries = entries;
	init_waitqueue_head(&queue->wait);
	INIT_LIST_HEAD(&queue->on_armed);
	pages = hamlyn_pages_alloc(file, (u64)entries * HAMLYN_NOTIFICATION_SIZE);
	if (IS_ERR(pages))
		return ERR_CAST(pages);
	queue->pages = pages;
	ret = hamlyn_pages_map(pages, file->card);
	if (ret)
		return ERR_PTR(ret);
	return_ptr(queue);
}

/* Vectors serve the queues in turn. */
static struct hamlyn_vector *queue_vector(struct hamlyn_card *card)
{
	unsigned int turn = card->next_vector++ % (card->vectors - HAMLYN_VECTOR_QUEUE);

	return &card->vector[HAMLYN_VECTOR_QUEUE + turn];
}

static int queue_open(struct hamlyn_queue *queue)
{
	struct hamlyn_open_queue body = { .entries = queue->entries };
	struct hamlyn_file *file = queue->file;
	struct hamlyn_card *card = file->card;
	int ret;

	ret = hamlyn_share_take(file->share, HAMLYN_QUEUES, file->privileged);
	if (ret)
		return ret;
	ret = xa_alloc(&card->queues, &queue->index, queue, XA_LIMIT(0, card->limits.queues - 1),
		       GFP_KERNEL);
	if (ret) {
		ret = ret == -EBUSY ? -ENOSPC : ret;
		goto give_back;
	}
	hamlyn_pages_describe(queue->pages, &body.area);
	queue->vector = queue_vector(card);
	body.vector = queue->vector->number;
	writel(HAMLYN_ARMED_NO, queue_armed(queue));
	ret = hamlyn_command(card, HAMLYN_COMMAND_OPEN_QUEUE, queue->index, &body, sizeof(body));
	if (ret)
		goto release_index;
	return 0;

release_index:
	xa_erase(&card->queues, queue->index);
give_back:
	hamlyn_share_give(file->share, HAMLYN_QUEUES);
	return ret;
}

int hamlyn_queue_create(struct hamlyn_file *file, union hamlyn_argument *argument)
{
	struct hamlyn_queue_create *create = &argument->queue;
	struct hamlyn_queue *queue __free(queue_put) = NULL;
	int ret;

	if (create->queue || create->offset || create->size || create->reserved ||
	    create->entries < HAMLYN_QUEUE_MIN_ENTRIES ||
	    create->entries > HAMLYN_QUEUE_MAX_ENTRIES)
		return -EINVAL;
	queue = queue_alloc(file, create->entries);
	if (IS_ERR(queue))
		return PTR_ERR(queue);

	CLASS(hamlyn_entry, entry)(file);
	if (entry.error)
		return entry.error;
	ret = queue_open(queue);
	if (ret)
		return ret;
	scoped_guard(spinlock_irq, &queue->vector->lock)
		queue->open = true;
	queue->offset = file->card->next_offset;
	file->card->next_offset += HAMLYN_MAP_STRIDE;
	list_add_tail(&queue->on_file, &file->queues);
	create->queue = queue->index;
	create->offset = queue->offset;
	create->size = queue->pages->count * HAMLYN_PAGE_SIZE;
	retain_and_null_ptr(queue);
	return 0;
}

/*
 * Takes a queue from its file and the card; the card's lock is held. Those who wait for it learn
 * that it is gone. The caller has to release it, with its memory.
 */
void hamlyn_queue_close(struct hamlyn_queue *queue)
{
	struct hamlyn_card *card = queue->file->card;

	hamlyn_command_close(card, HAMLYN_COMMAND_CLOSE_QUEUE, queue->index, NULL, 0);
	scoped_guard(spinlock_irq, &queue->vector->lock) {
		WRITE_ONCE(queue->open, false);
		list_del_init(&queue->on_armed);
	}
	wake_up_all(&queue->wait);
	xa_erase(&card->queues, queue->index);
	hamlyn_share_give(queue->file->share, HAMLYN_QUEUES);
	list_del(&queue->on_file);
}

/*
 * Releases a closed queue, without the card's lock. The card can no longer reach its memory;
 * waiters and mappings may keep that for longer.
 */
void hamlyn_queue_release(struct hamlyn_queue *queue)
{
	hamlyn_pages_unmap(queue->pages);
	hamlyn_queue_put(queue);
}

/* Closes a file's queue, and answers it. */
static struct hamlyn_queue *queue_take(struct hamlyn_file *file, u32 index)
{
	struct hamlyn_queue *queue;

	CLASS(hamlyn_entry, entry)(file);
	if (entry.error)
		return ERR_PTR(entry.error);
	queue = hamlyn_queue_find(file, index);
	if (!queue)
		return ERR_PTR(-ENOENT);
	if (queue->slots)
		return ERR_PTR(-EBUSY);
	hamlyn_queue_close(queue);
	return queue;
}

static int queue_destroy(struct hamlyn_file *file, u32 index)
{
	struct hamlyn_queue *queue = queue_take(file, index);

	if (IS_ERR(queue))
		return PTR_ERR(queue);
	hamlyn_queue_release(queue);
	return 0;
}

int hamlyn_queue_destroy(struct hamlyn_file *file, union hamlyn_argument *argument)
{
	if (argument->object.reserved0 || argument->object.reserved1)
		return -EINVAL;
	return queue_destroy(file, argument->object.index);
}

void hamlyn_queue_undo(struct hamlyn_file *file, union hamlyn_argument *argument)
{
	queue_destroy(file, argument->queue.queue);
}

static const struct hamlyn_notification *queue_entry(const struct hamlyn_queue *queue, u32 cursor)
{
	unsigned int per_page = HAMLYN_PAGE_SIZE / HAMLYN_NOTIFICATION_SIZE;
	const struct hamlyn_notification *entries;

	/* It is a user's, and has been checked; not even a guess may go beyond. */
	cursor = array_index_nospec(cursor, queue->entries);
	entries = page_address(queue->pages->page[cursor / per_page]);
	return &entries[cursor % per_page];
}

/*
 * Whether the entry that a pass wrote is there, or one of a later pass that has overwritten it. The
 * entry's word says in which pass it was written, and the flag in it that it is whole.
 */
static bool queue_arrived(const struct hamlyn_queue *queue, u32 cursor, u32 pass)
{
	u32 word = READ_ONCE(queue_entry(queue, cursor)->wrap);
	u32 written = word >> HAMLYN_NOTIFICATION_PASS_SHIFT;
	u32 ahead = (written - pass) % PASSES;

	if (ahead == 0)
		return (word & HAMLYN_NOTIFICATION_WRAP) != (written & 1);
	/* A pass that far ahead is the one before. */
	return ahead < PASSES / 2;
}

/* Who waits for a queue looks at it again; its vector's lock is held. */
static void queue_wake(struct hamlyn_queue *queue)
{
	wake_up_all(&queue->wait);
	wake_up_all(&queue->file->wait);
}

/* Has the card interrupt when it writes the next entry; the vector's lock is held. */
static void queue_rearm(struct hamlyn_queue *queue)
{
	u32 word = readl(queue_armed(queue));

	/* The card alone changes YES, and nothing else: no news of it is overwritten here. */
	if (word == HAMLYN_ARMED_YES)
		return;
	writel(HAMLYN_ARMED_YES, queue_armed(queue));
	if (list_empty(&queue->on_armed))
		list_add_tail(&queue->on_armed, &queue->vector->armed);
	if (word != HAMLYN_ARMED_NO)
		queue_wake(queue);
}

/* Whether the entry is there; if not, the queue has been armed, and its wait queues get woken. */
bool hamlyn_queue_ready(struct hamlyn_queue *queue, u32 cursor, u32 pass)
{
	if (queue_arrived(queue, cursor, pass))
		return true;
	scoped_guard(spinlock_irqsave, &queue->vector->lock) {
		if (!queue->open)
			return false;
		queue_rearm(queue);
	}
	mb(); /* Either the card sees the armed word, or we see its entry. */
	return queue_arrived(queue, cursor, pass);
}

/*
 * Takes the notification at a cursor and advances the cursor; NULL if none is there yet. Only for a
 * queue that cannot be overrun.
 */
const struct hamlyn_notification *hamlyn_queue_take(const struct hamlyn_queue *queue, u32 *cursor,
						    u32 *pass)
{
	const struct hamlyn_notification *notification = queue_entry(queue, *cursor);

	if (!queue_arrived(queue, *cursor, *pass))
		return NULL;
	dma_rmb(); /* What it tells of is read after its word. */
	if (++*cursor == queue->entries) {
		*cursor = 0;
		*pass = (*pass + 1) % PASSES;
	}
	return notification;
}

/* An interrupt came: wakes the owners of queues that got something while armed. */
void hamlyn_queues_fired(struct hamlyn_vector *vector)
{
	struct hamlyn_queue *queue, *next;

	guard(spinlock_irqsave)(&vector->lock);
	list_for_each_entry_safe(queue, next, &vector->armed, on_armed) {
		if (readl(queue_armed(queue)) == HAMLYN_ARMED_YES)
			continue;
		writel(HAMLYN_ARMED_NO, queue_armed(queue));
		list_del_init(&queue->on_armed);
		queue_wake(queue);
	}
}

/* The queue and position that a caller means, held for it; the card's lock is held. */
static struct hamlyn_queue *queue_get(struct hamlyn_file *file,
				      const struct hamlyn_queue_wait *wait)
{
	struct hamlyn_queue *queue;

	lockdep_assert_held(&file->card->lock);
	queue = hamlyn_queue_find(file, wait->queue);
	if (!queue)
		return ERR_PTR(-ENOENT);
	if (wait->cursor >= queue->entries)
		return ERR_PTR(-EINVAL);
	kref_get(&queue->users);
	return queue;
}

static struct hamlyn_queue *queue_get_alone(struct hamlyn_file *file,
					    const struct hamlyn_queue_wait *wait)
{
	CLASS(hamlyn_entry, entry)(file);

	return entry.error ? ERR_PTR(entry.error) : queue_get(file, wait);
}

/* Nothing will arrive any more. */
static bool queue_hopeless(const struct hamlyn_queue *queue)
{
	return !READ_ONCE(queue->open) || !READ_ONCE(queue->file->card->live);
}

static long queue_sleep(struct hamlyn_queue *queue, const struct hamlyn_queue_wait *wait)
{
	if (wait->timeout_ns == 0)
		return -ETIME;
	if (wait->timeout_ns == HAMLYN_WAIT_FOREVER)
		return wait_event_interruptible(
			queue->wait,
			queue_hopeless(queue) || hamlyn_queue_ready(queue, wait->cursor, wait->pass));
	return wait_event_interruptible_hrtimeout(
		queue->wait, queue_hopeless(queue) || hamlyn_queue_ready(queue, wait->cursor, wait->pass),
		ns_to_ktime(wait->timeout_ns));
}

int hamlyn_queue_wait(struct hamlyn_file *file, union hamlyn_argument *argument)
{
	const struct hamlyn_queue_wait *wait = &argument->wait;
	struct hamlyn_queue *queue __free(queue_put) = NULL;
	long ret;

	if (wait->ready || wait->reserved || wait->pass >= PASSES ||
	    wait->timeout_ns < HAMLYN_WAIT_FOREVER)
		return -EINVAL;
	queue = queue_get_alone(file, wait);
	if (IS_ERR(queue))
		return PTR_ERR(queue);

	ret = queue_sleep(queue, wait);
	/* First of all: it may have come together with the time-out or the signal. */
	if (queue_arrived(queue, wait->cursor, wait->pass))
		return 0;
	if (ret == -ETIME)
		return -ETIMEDOUT;
	/*
	 * Stopped or suspended: nobody need know, unless what is left of a time-out must be
	 * reckoned.
	 */
	if (ret)
		return wait->timeout_ns == HAMLYN_WAIT_FOREVER ? -ERESTARTNOHAND : -EINTR;
	CLASS(hamlyn_entry, entry)(file);
	return entry.error ?: -ENOENT;
}

int hamlyn_queue_arm(struct hamlyn_file *file, union hamlyn_argument *argument)
{
	struct hamlyn_queue_wait *wait = &argument->wait;
	struct hamlyn_queue *queue __free(queue_put) = NULL;

	if (wait->ready || wait->reserved || wait->pass >= PASSES || wait->timeout_ns)
		return -EINVAL;
	CLASS(hamlyn_entry, entry)(file);
	if (entry.error)
		return entry.error;
	queue = queue_get(file, wait);
	if (IS_ERR(queue))
		return PTR_ERR(queue);
	queue->polled = true;
	queue->poll_cursor = wait->cursor;
	queue->poll_pass = wait->pass;
	wait->ready = hamlyn_queue_ready(queue, wait->cursor, wait->pass);
	return 0;
}

/* Whether what the queue was armed for is there; if not, it stays armed. Needs the card's lock. */
__poll_t hamlyn_queue_poll(struct hamlyn_queue *queue)
{
	if (queue->polled && hamlyn_queue_ready(queue, queue->poll_cursor, queue->poll_pass))
		return EPOLLIN | EPOLLRDNORM;
	return 0;
}

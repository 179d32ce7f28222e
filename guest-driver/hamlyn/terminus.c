// SPDX-License-Identifier: GPL-2.0-only
/*
 * Send termini: each has a window of the card, status words, and send buffers that it may gather
 * from. Its owner can sleep until requests are finished.
 */
#include <linux/capability.h>
#include <linux/nospec.h>

#include "hamlyn.h"

static struct hamlyn_terminus *terminus_find(struct uln_file *file, u32 index)
{
	struct hamlyn_terminus *terminus = xa_load(&hamlyn_parts(file->card)->termini, index);

	return terminus && terminus->object.file == file ? terminus : NULL;
}

/* Returns whether wait->completed requests are finished, modulo 2^32. */
static bool terminus_awaited(const struct uln_sleepers *sleepers, const void *what)
{
	const struct hamlyn_terminus *terminus =
		container_of_const(sleepers, struct hamlyn_terminus, sleepers);
	const struct hamlyn_terminus_status *status = page_address(terminus->status);
	const struct hamlyn_terminus_wait *wait = what;

	return (s32)(le32_to_cpu(READ_ONCE(status->completed)) - wait->completed) >= 0;
}

/* With several sleepers, the card gets the first count that one of them waits for. */
static void terminus_want(struct uln_sleepers *sleepers, const void *what, bool armed)
{
	void __iomem *wanted = sleepers->armed + HAMLYN_TERMINUS_WANTED - HAMLYN_TERMINUS_ARMED;
	const struct hamlyn_terminus_wait *wait = what;

	if (!armed || (s32)(wait->completed - readl(wanted)) < 0)
		writel(wait->completed, wanted);
}

static const struct uln_awaited terminus_news = { .arrived = terminus_awaited,
						  .want = terminus_want };

static void terminus_unmap_status(struct hamlyn_terminus *terminus)
{
	if (terminus->status_mapped)
		uln_page_unmap(terminus->object.card, terminus->status_dma,
			       DMA_BIDIRECTIONAL);
	terminus->status_mapped = false;
}

static void terminus_free(struct kref *users)
{
	struct hamlyn_terminus *terminus =
		container_of(users, struct hamlyn_terminus, object.users);

	terminus_unmap_status(terminus);
	if (terminus->status)
		put_page(terminus->status);
	kfree(terminus);
}

void hamlyn_terminus_put(struct hamlyn_terminus *terminus)
{
	uln_object_put(&terminus->object);
}

/*
 * Clears the window, so that the next owner does not see the last one's data, and because the card
 * counts the queue from 0.
 */
static void terminus_zero_window(struct uln_card *card, u32 index)
{
	memset_io(hamlyn_window(card, index), 0, HAMLYN_WINDOW_SIZE);
}

static int terminus_open(struct hamlyn_terminus *terminus, u32 weight)
{
	struct uln_file *file = terminus->object.file;
	struct uln_card *card = file->card;
	struct hamlyn_parts *parts = hamlyn_parts(card);
	struct hamlyn_open_terminus body = {
		.weight = cpu_to_le32(weight),
		.flags = cpu_to_le32(HAMLYN_TERMINUS_WAKES |
				     (file->drivers_own ? HAMLYN_TERMINUS_PRIVILEGED : 0)),
		.status = cpu_to_le64(terminus->status_dma),
	};
	int ret;

	ret = uln_share_take(file->share, HAMLYN_TERMINI, file->privileged);
	if (ret)
		return ret;
	ret = xa_alloc(&parts->termini, &terminus->object.index, terminus,
		       XA_LIMIT(0, card->limits.termini - 1), GFP_KERNEL);
	if (ret) {
		ret = ret == -EBUSY ? -ENOSPC : ret;
		goto give_back;
	}
	uln_sleepers_place(&terminus->sleepers,
			   parts->control + parts->terminus_control + HAMLYN_TERMINUS_ARMED +
				   terminus->object.index * HAMLYN_TERMINUS_CONTROL_STRIDE);
	body.vector = cpu_to_le32(terminus->sleepers.vector->number);
	terminus_zero_window(card, terminus->object.index);
	ret = uln_command(card, HAMLYN_COMMAND_OPEN_TERMINUS, terminus->object.index, &body,
			  sizeof(body));
	if (ret)
		goto release_index;
	return 0;

release_index:
	xa_erase(&parts->termini, terminus->object.index);
give_back:
	uln_share_give(file->share, HAMLYN_TERMINI);
	return ret;
}

/* Allocates a terminus that the card does not know yet. */
static struct hamlyn_terminus *terminus_alloc(struct uln_file *file)
{
	struct hamlyn_terminus *terminus __free(terminus_put) =
		kzalloc(sizeof(*terminus), GFP_KERNEL_ACCOUNT);
	int ret;

	if (!terminus)
		return ERR_PTR(-ENOMEM);
	uln_object_init(&terminus->object, file, &hamlyn_terminus_kind);
	uln_sleepers_init(&terminus->sleepers, file, &terminus_news);
	terminus->status = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!terminus->status)
		return ERR_PTR(-ENOMEM);
	ret = uln_page_map(file->card, terminus->status, DMA_BIDIRECTIONAL,
			   &terminus->status_dma);
	if (ret)
		return ERR_PTR(ret);
	terminus->status_mapped = true;
	return_ptr(terminus);
}

int hamlyn_terminus_create(struct uln_file *file, void *argument)
{
	struct hamlyn_terminus *terminus __free(terminus_put) = NULL;
	struct hamlyn_terminus_create *create = argument;
	u32 weight = create->weight ?: 1;
	int ret;

	static_assert(sizeof(struct hamlyn_terminus_status) <= ULN_PAGE_SIZE);
	if (create->terminus || create->window_offset || create->doorbell_offset ||
	    create->status_offset || memchr_inv(create->reserved, 0, sizeof(create->reserved)) ||
	    weight > HAMLYN_MAX_WEIGHT)
		return -EINVAL;
	/* It is taken from other processes' termini. */
	if (weight > 1 && !capable(CAP_SYS_NICE))
		return -EPERM;
	terminus = terminus_alloc(file);
	if (IS_ERR(terminus))
		return PTR_ERR(terminus);

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	ret = terminus_open(terminus, weight);
	if (ret)
		return ret;
	uln_sleepers_open(&terminus->sleepers);
	uln_object_join(&terminus->object, HAMLYN_KIND_TERMINUS);
	create->terminus = terminus->object.index;
	create->window_offset = terminus->object.offset + HAMLYN_MAP_WINDOW;
	create->doorbell_offset = terminus->object.offset + HAMLYN_MAP_DOORBELL;
	create->status_offset = terminus->object.offset + HAMLYN_MAP_STATUS;
	retain_and_null_ptr(terminus);
	return 0;
}

/*
 * Removes a terminus from its file and the card; the card's lock is held. The caller has to release
 * it, with its memory.
 */
static void terminus_close(struct card_object *object)
{
	struct hamlyn_terminus *terminus = container_of(object, struct hamlyn_terminus, object);
	struct uln_file *file = terminus->object.file;
	struct uln_card *card = file->card;

	uln_unmap_card(object, HAMLYN_MAP_STATUS);
	uln_command_close(card, HAMLYN_COMMAND_CLOSE_TERMINUS, terminus->object.index, NULL, 0);
	uln_sleepers_close(&terminus->sleepers);
	xa_erase(&hamlyn_parts(card)->termini, terminus->object.index);
	uln_share_give(file->share, HAMLYN_TERMINI);
	uln_object_leave(&terminus->object);
}

/*
 * Releases a closed terminus, without the card's lock. Mappings may keep it, and its status words,
 * for longer.
 */
static void terminus_release(struct card_object *object)
{
	struct hamlyn_terminus *terminus = container_of(object, struct hamlyn_terminus, object);
	unsigned int tag;

	for (tag = 0; tag < HAMLYN_SEND_BUFFERS; tag++)
		uln_pages_free(terminus->buffers[tag]);
	hamlyn_post_close(terminus);
	terminus_unmap_status(terminus);
	hamlyn_terminus_put(terminus);
}

/* Closes a file's terminus, and returns it. */
static struct hamlyn_terminus *terminus_take(struct uln_file *file, u32 index)
{
	struct hamlyn_terminus *terminus;

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return ERR_PTR(entry.error);
	terminus = terminus_find(file, index);
	if (!terminus)
		return ERR_PTR(-ENOENT);
	terminus_close(&terminus->object);
	return terminus;
}

static int terminus_destroy(struct uln_file *file, u32 index)
{
	struct hamlyn_terminus *terminus = terminus_take(file, index);

	if (IS_ERR(terminus))
		return PTR_ERR(terminus);
	terminus_release(&terminus->object);
	return 0;
}

int hamlyn_terminus_destroy(struct uln_file *file, void *argument)
{
	const struct uln_object *object = argument;

	if (object->reserved0 || object->reserved1)
		return -EINVAL;
	return terminus_destroy(file, object->index);
}

void hamlyn_terminus_undo(struct uln_file *file, void *argument)
{
	const struct hamlyn_terminus_create *create = argument;

	terminus_destroy(file, create->terminus);
}

/* Looks up a caller's terminus, and takes a reference; the card's lock is held. */
static struct hamlyn_terminus *terminus_get(struct uln_file *file, u32 index)
{
	struct hamlyn_terminus *terminus;

	lockdep_assert_held(&file->card->lock);
	terminus = terminus_find(file, index);
	if (!terminus)
		return ERR_PTR(-ENOENT);
	kref_get(&terminus->object.users);
	return terminus;
}

static struct hamlyn_terminus *terminus_get_alone(struct uln_file *file, u32 index)
{
	CLASS(uln_entry, entry)(file);

	return entry.error ? ERR_PTR(entry.error) : terminus_get(file, index);
}

static bool terminus_wait_sound(const struct hamlyn_terminus_wait *wait)
{
	return !wait->ready && !wait->reserved0 && !wait->reserved1;
}

int hamlyn_terminus_wait(struct uln_file *file, void *argument)
{
	const struct hamlyn_terminus_wait *wait = argument;
	struct hamlyn_terminus *terminus __free(terminus_put) = NULL;

	if (!terminus_wait_sound(wait) || wait->timeout_ns < ULN_WAIT_FOREVER)
		return -EINVAL;
	terminus = terminus_get_alone(file, wait->terminus);
	if (IS_ERR(terminus))
		return PTR_ERR(terminus);
	return uln_sleepers_wait(&terminus->sleepers, wait, wait->timeout_ns);
}

int hamlyn_terminus_arm(struct uln_file *file, void *argument)
{
	struct hamlyn_terminus_wait *wait = argument;
	struct hamlyn_terminus *terminus __free(terminus_put) = NULL;

	if (!terminus_wait_sound(wait) || wait->timeout_ns)
		return -EINVAL;
	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	terminus = terminus_get(file, wait->terminus);
	if (IS_ERR(terminus))
		return PTR_ERR(terminus);
	terminus->polled = true;
	terminus->poll = *wait;
	wait->ready = uln_sleepers_ready(&terminus->sleepers, wait);
	return 0;
}

/* Checks for the event that was armed; if it is missing, stays armed. Needs the card's lock. */
static __poll_t terminus_poll(struct card_object *object)
{
	struct hamlyn_terminus *terminus = container_of(object, struct hamlyn_terminus, object);

	if (terminus->polled && uln_sleepers_ready(&terminus->sleepers, &terminus->poll))
		return EPOLLIN | EPOLLRDNORM;
	return 0;
}

int hamlyn_send_buffer_set(struct uln_file *file, void *argument)
{
	const struct hamlyn_send_buffer *buffer = argument;
	struct hamlyn_set_send_buffer body = { .tag = cpu_to_le32(buffer->tag) };
	struct uln_pages *pages __free(uln_pages) = NULL;
	struct uln_card *card = file->card;
	struct hamlyn_terminus *terminus;
	u32 tag;
	int ret;

	if (buffer->reserved || buffer->tag >= HAMLYN_SEND_BUFFERS)
		return -EINVAL;
	tag = array_index_nospec(buffer->tag, HAMLYN_SEND_BUFFERS);
	pages = hamlyn_memory_pin(file, buffer->registration, buffer->address, buffer->length,
				  DMA_TO_DEVICE);
	if (IS_ERR(pages))
		return PTR_ERR(pages);
	ret = uln_pages_map(pages, card);
	if (ret)
		return ret;

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	terminus = terminus_find(file, buffer->terminus);
	if (!terminus)
		return -ENOENT;
	if (terminus->buffers[tag])
		return -EBUSY;
	uln_pages_describe(pages, &body.area);
	ret = uln_command(card, HAMLYN_COMMAND_SET_SEND_BUFFER, terminus->object.index, &body,
			  sizeof(body));
	if (ret)
		return ret;
	terminus->buffers[tag] = no_free_ptr(pages);
	return 0;
}

int hamlyn_send_buffer_clear(struct uln_file *file, void *argument)
{
	const struct hamlyn_send_buffer *buffer = argument;
	struct hamlyn_set_send_buffer body = { .tag = cpu_to_le32(buffer->tag) };
	struct uln_pages *pages __free(uln_pages) = NULL;
	struct uln_card *card = file->card;
	struct hamlyn_terminus *terminus;
	u32 tag;

	if (buffer->registration || buffer->reserved || buffer->address || buffer->length ||
	    buffer->tag >= HAMLYN_SEND_BUFFERS)
		return -EINVAL;
	tag = array_index_nospec(buffer->tag, HAMLYN_SEND_BUFFERS);
	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	terminus = terminus_find(file, buffer->terminus);
	if (!terminus || !terminus->buffers[tag])
		return -ENOENT;
	uln_command_close(card, HAMLYN_COMMAND_CLEAR_SEND_BUFFER, terminus->object.index, &body,
			  sizeof(body));
	pages = terminus->buffers[tag];
	terminus->buffers[tag] = NULL;
	return 0;
}

const struct card_kind hamlyn_terminus_kind = {
	.close = terminus_close,
	.release = terminus_release,
	.poll = terminus_poll,
	.mmap = hamlyn_terminus_mmap,
	.place = hamlyn_terminus_place,
	.free = terminus_free,
};

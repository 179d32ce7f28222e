// SPDX-License-Identifier: GPL-2.0-only
/* Slots: parts of a process's memory in which processes that know the key may deposit messages. */
#include <linux/random.h>

#include "hamlyn.h"

static int slot_check(const struct hamlyn_slot_create *create)
{
	if (create->slot || create->key || create->reserved0 ||
	    memchr_inv(create->reserved, 0, sizeof(create->reserved)))
		return -EINVAL;
	if (create->mode > HAMLYN_MODE_PARANOID_ONE_SHOT || create->flags & ~HAMLYN_SLOT_FLAGS)
		return -EINVAL;
	if (create->metadata_address % HAMLYN_METADATA_SIZE)
		return -EINVAL;
	return !create->metadata_entries && create->metadata_address ? -EINVAL : 0;
}

static u64 slot_make_key(void)
{
	u64 key;

	do
		key = get_random_u64();
	while (!key);
	return key;
}

static void slot_free(struct hamlyn_slot *slot)
{
	uln_pages_free(slot->area);
	uln_pages_free(slot->metadata);
	kfree(slot);
}
DEFINE_FREE(slot_free, struct hamlyn_slot *, if (!IS_ERR_OR_NULL(_T)) slot_free(_T))

static struct hamlyn_slot *slot_pin(struct uln_file *file,
				    const struct hamlyn_slot_create *create)
{
	struct hamlyn_slot *slot __free(slot_free) = kzalloc(sizeof(*slot), GFP_KERNEL_ACCOUNT);
	struct uln_pages *pages;

	if (!slot)
		return ERR_PTR(-ENOMEM);
	uln_object_init(&slot->object, file, &hamlyn_slot_kind);
	pages = hamlyn_memory_pin(file, create->registration, create->area_address,
				  create->area_length, DMA_BIDIRECTIONAL);
	if (IS_ERR(pages))
		return ERR_CAST(pages);
	slot->area = pages;
	if (create->metadata_entries) {
		pages = uln_pages_pin(create->metadata_address,
				      (u64)create->metadata_entries * HAMLYN_METADATA_SIZE,
				      DMA_BIDIRECTIONAL);
		if (IS_ERR(pages))
			return ERR_CAST(pages);
		slot->metadata = pages;
	}
	return_ptr(slot);
}

/* Mappings are removed when the slot is freed. */
static int slot_map(struct hamlyn_slot *slot, struct hamlyn_open_slot *body)
{
	struct uln_card *card = slot->object.card;
	int ret;

	ret = uln_pages_map(slot->area, card);
	if (ret)
		return ret;
	uln_pages_describe(slot->area, &body->area);
	if (!slot->metadata)
		return 0;
	ret = uln_pages_map(slot->metadata, card);
	if (ret)
		return ret;
	uln_pages_describe(slot->metadata, &body->metadata);
	return 0;
}

static int slot_open(struct hamlyn_slot *slot, const struct hamlyn_open_slot *body)
{
	struct uln_file *file = slot->object.file;
	struct uln_card *card = file->card;
	struct xarray *slots = &hamlyn_parts(card)->slots;
	int ret;

	ret = uln_share_take(file->share, HAMLYN_SLOTS, file->privileged);
	if (ret)
		return ret;
	ret = xa_alloc(slots, &slot->object.index, slot,
		       XA_LIMIT(hamlyn_wellknown_slots(card), card->limits.slots - 1),
		       GFP_KERNEL);
	if (ret) {
		ret = ret == -EBUSY ? -ENOSPC : ret;
		goto give_back;
	}
	ret = uln_command(card, HAMLYN_COMMAND_OPEN_SLOT, slot->object.index, body,
			  sizeof(*body));
	if (ret)
		goto release_index;
	return 0;

release_index:
	xa_erase(slots, slot->object.index);
give_back:
	uln_share_give(file->share, HAMLYN_SLOTS);
	return ret;
}

int hamlyn_slot_create(struct uln_file *file, void *argument)
{
	struct hamlyn_slot_create *create = argument;
	struct hamlyn_slot *slot __free(slot_free) = NULL;
	struct hamlyn_open_slot body = {
		.key = cpu_to_le64(slot_make_key()),
		.metadata_pointer = cpu_to_le64(create->metadata_address),
		.metadata_entries = cpu_to_le32(create->metadata_entries),
		.mode = cpu_to_le32(create->mode),
		.queue = cpu_to_le32(create->queue),
		.notification_index = cpu_to_le32(create->notification_index),
		.flags = cpu_to_le32(create->flags),
	};
	int ret;

	ret = slot_check(create);
	if (ret)
		return ret;
	slot = slot_pin(file, create);
	if (IS_ERR(slot))
		return PTR_ERR(slot);
	ret = slot_map(slot, &body);
	if (ret)
		return ret;

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	if (create->queue != HAMLYN_NO_QUEUE) {
		slot->queue = hamlyn_queue_find(file, create->queue);
		if (!slot->queue)
			return -ENOENT;
	}
	ret = slot_open(slot, &body);
	if (ret)
		return ret;
	if (slot->queue)
		slot->queue->slots++;
	uln_object_join(&slot->object, HAMLYN_KIND_SLOT);
	create->slot = slot->object.index;
	create->key = le64_to_cpu(body.key);
	retain_and_null_ptr(slot);
	return 0;
}

/*
 * Opens a slot over memory of the driver's own, with a new key: @area is lent, and stays until the
 * slot is closed; @metadata then goes with it. The card's lock is held.
 */
struct hamlyn_slot *hamlyn_slot_lend(struct uln_file *file, const struct uln_area *area,
				     struct uln_pages *metadata, struct hamlyn_queue *queue,
				     u64 *key)
{
	struct hamlyn_slot *slot __free(slot_free) = kzalloc(sizeof(*slot), GFP_KERNEL);
	struct hamlyn_open_slot body = {
		.area = *area,
		.key = cpu_to_le64(slot_make_key()),
		.metadata_entries = cpu_to_le32(metadata->length / HAMLYN_METADATA_SIZE),
		.mode = cpu_to_le32(HAMLYN_MODE_NORMAL),
		.queue = cpu_to_le32(queue->object.index),
	};
	int ret;

	if (!slot)
		return ERR_PTR(-ENOMEM);
	uln_object_init(&slot->object, file, &hamlyn_slot_kind);
	uln_pages_describe(metadata, &body.metadata);
	ret = slot_open(slot, &body);
	if (ret)
		return ERR_PTR(ret);
	slot->metadata = metadata;
	slot->queue = queue;
	queue->slots++;
	uln_object_join(&slot->object, HAMLYN_KIND_SLOT);
	*key = le64_to_cpu(body.key);
	return_ptr(slot);
}

/*
 * Opens slot @source, which takes messages from the operating system of host @source alone. Its
 * memory is a page of the driver's own; the metadata area begins @metadata bytes into it. The
 * card's lock is held.
 */
struct hamlyn_slot *hamlyn_slot_open_page(struct uln_file *file, u32 source,
					  struct hamlyn_queue *queue,
					  const struct hamlyn_open_slot *like, u32 metadata)
{
	struct hamlyn_slot *slot __free(slot_free) = kzalloc(sizeof(*slot), GFP_KERNEL);
	struct uln_card *card = file->card;
	struct xarray *slots = &hamlyn_parts(card)->slots;
	struct hamlyn_open_slot body = *like;
	int ret;

	if (!slot)
		return ERR_PTR(-ENOMEM);
	slot->area = uln_pages_alloc(file, ULN_PAGE_SIZE);
	if (IS_ERR(slot->area)) {
		ret = PTR_ERR(slot->area);
		slot->area = NULL;
		return ERR_PTR(ret);
	}
	uln_object_init(&slot->object, file, &hamlyn_slot_kind);
	slot->object.index = source;
	ret = slot_map(slot, &body);
	if (ret)
		return ERR_PTR(ret);
	body.source = cpu_to_le32(source);
	body.metadata = body.area;
	body.area.length = cpu_to_le64(metadata);
	body.metadata.first = cpu_to_le32(metadata);
	body.metadata.length =
		cpu_to_le64(le32_to_cpu(body.metadata_entries) * HAMLYN_METADATA_SIZE);
	ret = xa_insert(slots, source, slot, GFP_KERNEL) ?:
	      uln_command(card, HAMLYN_COMMAND_OPEN_SLOT, source, &body, sizeof(body));
	if (ret) {
		if (xa_load(slots, source) == slot)
			xa_erase(slots, source);
		return ERR_PTR(ret);
	}
	slot->queue = queue;
	queue->slots++;
	uln_object_join(&slot->object, HAMLYN_KIND_SLOT);
	return_ptr(slot);
}

/*
 * Removes a slot from its file and the card; the card's lock is held. The caller has to release it,
 * with its memory.
 */
static void slot_close(struct card_object *object)
{
	struct hamlyn_slot *slot = container_of(object, struct hamlyn_slot, object);
	struct uln_card *card = slot->object.card;

	uln_command_close(card, HAMLYN_COMMAND_CLOSE_SLOT, slot->object.index, NULL, 0);
	xa_erase(&hamlyn_parts(card)->slots, slot->object.index);
	uln_share_give(slot->object.file->share, HAMLYN_SLOTS);
	uln_object_leave(&slot->object);
	if (slot->queue)
		slot->queue->slots--;
}

/* Releases the memory of a closed slot, without the card's lock. */
static void slot_release(struct card_object *object)
{
	slot_free(container_of(object, struct hamlyn_slot, object));
}

/* Closes a file's slot, and returns it. */
static struct hamlyn_slot *slot_take(struct uln_file *file, u32 index)
{
	struct hamlyn_slot *slot;

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return ERR_PTR(entry.error);
	slot = xa_load(&hamlyn_parts(file->card)->slots, index);
	if (!slot || slot->object.file != file)
		return ERR_PTR(-ENOENT);
	slot_close(&slot->object);
	return slot;
}

static int slot_destroy(struct uln_file *file, u32 index)
{
	struct hamlyn_slot *slot = slot_take(file, index);

	if (IS_ERR(slot))
		return PTR_ERR(slot);
	slot_free(slot);
	return 0;
}

int hamlyn_slot_destroy(struct uln_file *file, void *argument)
{
	const struct uln_object *object = argument;

	if (object->reserved0 || object->reserved1)
		return -EINVAL;
	return slot_destroy(file, object->index);
}

void hamlyn_slot_undo(struct uln_file *file, void *argument)
{
	const struct hamlyn_slot_create *create = argument;

	slot_destroy(file, create->slot);
}

const struct card_kind hamlyn_slot_kind = {
	.close = slot_close,
	.release = slot_release,
};

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mappings: buffers of processes here that are mapped out to exports. Only the process has the
 * command pages and window pages of the pages that its buffer touches, and these themselves
 * (section 4.2). It maps them at offsets of mmap(2). Any of them may be withdrawn for a while
 * (withdraw.c).
 */
#include "shrimp.h"

static_assert(SHRIMP_MAX_BUFFER + ULN_PAGE_SIZE <= SHRIMP_MAP_WINDOW);
static_assert(SHRIMP_MEMORY_OFFSET == 2 * SHRIMP_MAP_WINDOW);
static_assert(3 * SHRIMP_MAP_WINDOW <= ULN_MAP_STRIDE);
/* Limits of requests to a host at once, so that the answers find room; and of one user's part. */
#define MAX_ASKING 32
#define MAX_ASKING_EACH 8
/* Limit of the wait for a turn, in multiples of the time that others may need for their answers. */
#define TURNS 4

#define mapping_of(of) container_of(of, struct shrimp_mapping_object, object)

static struct shrimp_mapping_object *mapping_find(struct uln_file *file, u32 index)
{
	struct shrimp_mapping_object *mapping = xa_load(&shrimp_parts(file->card)->mappings, index);

	return mapping && mapping->object.open && mapping->object.file == file ? mapping : NULL;
}

static void mapping_free(struct kref *users)
{
	struct shrimp_mapping_object *mapping =
		container_of(users, struct shrimp_mapping_object, object.users);

	uln_pages_free(mapping->memory);
	bitmap_free(mapping->withdrawn);
	kfree(mapping);
}

/* Asks for the next pages of a mapping. */
int shrimp_mapping_ask(struct uln_card *card, const struct shrimp_mapping_object *mapping)
{
	struct shrimp_ask ask = {
		.key = cpu_to_le64(mapping->key),
		.offset = cpu_to_le64(mapping->offset),
		.length = cpu_to_le64(mapping->memory->length),
		.first = cpu_to_le32(mapping->known),
		.place = cpu_to_le32(mapping->memory->first),
	};
	struct uln_head wire = {
		.reason = SHRIMP_SAY_MAP,
		.from = mapping->object.index,
		.to = mapping->export,
		.private_length = sizeof(ask),
	};

	return uln_system_say_for(card->system, mapping->object.file->share, mapping->host,
				  &wire, &ask);
}

/* The exporter has been told, or need not be. Then the number may get another owner. */
void shrimp_mapping_told(struct uln_card *card, struct shrimp_mapping_object *mapping)
{
	list_del_init(&mapping->ending.on_card);
	mapping->tell = false;
	if (!mapping->object.open)
		xa_erase(&shrimp_parts(card)->mappings, mapping->object.index);
	uln_object_put(&mapping->object);
}

/* Tells an exporter that a mapping is gone; false: not yet. */
static bool mapping_say_unmap(struct uln_card *card, struct shrimp_due *due)
{
	struct shrimp_mapping_object *mapping =
		container_of(due, struct shrimp_mapping_object, ending);
	struct uln_head wire = {
		.reason = SHRIMP_SAY_UNMAP,
		.from = mapping->object.index,
		.to = mapping->export,
	};

	if (shrimp_is_busy(uln_system_say(card->system, mapping->host, &wire, NULL)))
		return false;
	shrimp_mapping_told(card, mapping);
	return true;
}

/* Allocates a mapping without memory, which is not known yet. */
static struct shrimp_mapping_object *mapping_new(struct uln_file *file,
						 const struct shrimp_map *argument)
{
	struct shrimp_mapping_object *mapping = kzalloc(sizeof(*mapping), GFP_KERNEL_ACCOUNT);

	if (!mapping)
		return ERR_PTR(-ENOMEM);
	uln_object_init(&mapping->object, file, &shrimp_mapping_kind);
	shrimp_due_init(&mapping->ending, mapping_say_unmap);
	shrimp_due_init(&mapping->telling, shrimp_withdraw_tell);
	init_waitqueue_head(&mapping->wait);
	mapping->host = argument->node;
	mapping->export = argument->export;
	mapping->key = argument->key;
	mapping->offset = argument->offset;
	mapping->mode = argument->mode & ~SHRIMP_MAP_WITHDRAWABLE;
	return mapping;
}

/* Allocates a mapping of pinned memory. */
static struct shrimp_mapping_object *mapping_alloc(struct uln_file *file,
						   const struct shrimp_map *argument)
{
	struct shrimp_mapping_object *mapping __free(shrimp_mapping_put) =
		mapping_new(file, argument);
	struct uln_pages *memory;
	int ret;

	if (IS_ERR(mapping))
		return_ptr(mapping);
	memory = uln_pages_pin(argument->address, argument->length, DMA_BIDIRECTIONAL);
	if (IS_ERR(memory))
		return ERR_CAST(memory);
	mapping->memory = memory;
	ret = uln_pages_map(memory, file->card) ?: shrimp_memory_check(file->card, memory);
	if (!ret && argument->mode & SHRIMP_MAP_WITHDRAWABLE)
		ret = shrimp_withdraw_prepare(mapping);
	if (ret)
		return ERR_PTR(ret);
	return_ptr(mapping);
}

/*
 * Allocates a mapping of memory of the driver's own, which it has from then on. Its transfers are
 * the operating system's.
 */
struct shrimp_mapping_object *shrimp_mapping_lend(struct uln_file *file, struct uln_pages **memory,
						  const struct shrimp_map *argument)
{
	struct shrimp_mapping_object *mapping __free(shrimp_mapping_put) =
		mapping_new(file, argument);
	int ret;

	if (IS_ERR(mapping))
		return_ptr(mapping);
	mapping->system = true;
	mapping->memory = no_free_ptr(*memory);
	ret = shrimp_memory_check(file->card, mapping->memory);
	if (ret)
		return ERR_PTR(ret);
	return_ptr(mapping);
}

/* Allots a number, and claims the pages. */
static int mapping_open(struct shrimp_mapping_object *mapping)
{
	struct uln_file *file = mapping->object.file;
	struct shrimp_parts *parts = shrimp_parts(file->card);
	int ret;

	ret = uln_share_take(file->share, SHRIMP_SHARE_MAPPINGS, file->privileged);
	if (ret)
		return ret;
	ret = xa_alloc_cyclic(&parts->mappings, &mapping->object.index, mapping,
			      XA_LIMIT(0, SHRIMP_MAX_OBJECTS - 1), &parts->next_mapping,
			      GFP_KERNEL);
	if (ret < 0) {
		ret = ret == -EBUSY ? -ENOSPC : ret;
		goto give_back;
	}
	ret = shrimp_claim(file->card, mapping->memory, SHRIMP_OUT, mapping);
	if (!ret)
		return 0;
	xa_erase(&parts->mappings, mapping->object.index);
give_back:
	uln_share_give(file->share, SHRIMP_SHARE_MAPPINGS);
	return ret;
}

/* The request has ended: another may take its turn. */
void shrimp_mapping_answered(struct uln_card *card, const struct shrimp_mapping_object *mapping)
{
	struct shrimp_parts *parts = shrimp_parts(card);

	parts->asking[mapping->host]--;
	WRITE_ONCE(parts->turns, parts->turns + 1);
	wake_up_all(&parts->turn);
}

/* Returns whether a user may request one more mapping from a host now. */
static bool mapping_may_ask(struct uln_card *card, const struct shrimp_mapping_object *mapping)
{
	const struct shrimp_mapping_object *other;
	unsigned long index;
	u32 own = 0;

	if (!shrimp_parts(card)->asking[mapping->host])
		return true;
	if (shrimp_parts(card)->asking[mapping->host] >= MAX_ASKING)
		return false;
	xa_for_each(&shrimp_parts(card)->mappings, index, other)
		own += other->progress == SHRIMP_ASKING && other->host == mapping->host &&
		       other->object.open &&
		       other->object.file->share == mapping->object.file->share;
	return own < MAX_ASKING_EACH;
}

/* Ends a mapping or its request: stores go nowhere. Returns false if it had ended before. */
bool shrimp_mapping_stop(struct uln_card *card, struct shrimp_mapping_object *mapping, int error,
			 u32 state)
{
	static const struct shrimp_out nowhere;
	struct shrimp_parts *parts = shrimp_parts(card);
	u32 i;

	if (mapping->progress == SHRIMP_ENDED)
		return false;
	shrimp_withdraw_end(mapping);
	for (i = 0; i < mapping->known; i++)
		shrimp_set_out(card, shrimp_pfn(mapping->memory, i), mapping, &nowhere);
	shrimp_send_entries(card);
	if (mapping->progress == SHRIMP_ASKING)
		shrimp_mapping_answered(card, mapping);
	parts->arranged[mapping->host]--;
	mapping->error = error;
	mapping->state = state;
	/* A reader that sees that it has ended sees why. */
	smp_store_release(&mapping->progress, SHRIMP_ENDED);
	wake_up_all(&mapping->wait);
	return true;
}

/* The exporter must be told, as soon as there is room for it. */
static void mapping_tell(struct uln_card *card, struct shrimp_mapping_object *mapping)
{
	mapping->tell = true;
	kref_get(&mapping->object.users);
	shrimp_due_add(&shrimp_parts(card)->endings, &mapping->ending);
}

/* Asks the exporter. -EAGAIN: too many wait already, until parts->turns is not @turns. */
int shrimp_mapping_begin(struct shrimp_mapping_object *mapping, u32 *turns)
{
	struct uln_file *file = mapping->object.file;
	struct uln_card *card = file->card;
	struct shrimp_parts *parts = shrimp_parts(card);
	int ret;

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	if (!uln_system_is_open(card->system))
		return -EOPNOTSUPP;
	if (shrimp_is_cut_off(card, mapping->host))
		return -EHOSTUNREACH;
	*turns = parts->turns;
	if (!mapping_may_ask(card, mapping))
		return -EAGAIN;
	ret = mapping_open(mapping);
	if (ret)
		return ret;
	uln_system_watch(card->system, mapping->host);
	parts->arranged[mapping->host]++;
	parts->asking[mapping->host]++;
	kref_get(&mapping->object.users);
	uln_object_join(&mapping->object, SHRIMP_KIND_MAPPING);
	ret = shrimp_mapping_ask(card, mapping);
	if (ret)
		shrimp_mapping_stop(card, mapping, ret, SHRIMP_STATE_LOST);
	else
		shrimp_answers_expect(card);
	return 0;
}

/* Ends a mapping from this side, and tells the exporter. */
void shrimp_mapping_cut(struct uln_card *card, struct shrimp_mapping_object *mapping, int error,
			u32 state)
{
	if (shrimp_mapping_stop(card, mapping, error, state))
		mapping_tell(card, mapping);
}

static void mapping_close(struct card_object *object)
{
	struct shrimp_mapping_object *mapping = mapping_of(object);
	struct uln_card *card = object->file->card;

	uln_unmap_card(object,
		       SHRIMP_MEMORY_OFFSET + (u64)mapping->memory->count * ULN_PAGE_SIZE);
	if (shrimp_mapping_stop(card, mapping, -ENODEV, SHRIMP_STATE_LOST))
		mapping_tell(card, mapping);
	shrimp_disclaim(card, mapping->memory, SHRIMP_OUT, mapping);
	uln_share_give(object->file->share, SHRIMP_SHARE_MAPPINGS);
	uln_object_leave(object);
	if (mapping->tell)
		shrimp_tell(card);
	else
		xa_erase(&shrimp_parts(card)->mappings, object->index);
}

static void mapping_release(struct card_object *object)
{
	/* Not later: a mapping of the process may hold the object, and unbinding waits for this. */
	uln_pages_unmap(mapping_of(object)->memory);
	uln_object_put(object);
}

static int mapping_end(struct uln_file *file, u32 index)
{
	struct shrimp_mapping_object *mapping;

	scoped_class(uln_entry, entry, file) {
		if (entry.error)
			return entry.error;
		mapping = mapping_find(file, index);
		if (!mapping)
			return -ENOENT;
		mapping_close(&mapping->object);
	}
	mapping_release(&mapping->object);
	return 0;
}

static int map_begin(struct shrimp_mapping_object *mapping)
{
	struct shrimp_parts *parts = shrimp_parts(mapping->object.card);
	long left = TURNS * uln_system_patience();
	u32 turns;
	int ret;

	for (;;) {
		ret = shrimp_mapping_begin(mapping, &turns);
		if (ret != -EAGAIN)
			return ret;
		left = wait_event_interruptible_timeout(
			parts->turn,
			READ_ONCE(parts->turns) != turns || !READ_ONCE(parts->card.live), left);
		if (left <= 0)
			return left ? -EINTR : -ETIMEDOUT;
	}
}

/* Waits for the exporter's answer. */
static int map_finish(struct shrimp_mapping_object *mapping)
{
	const struct uln_card *card = mapping->object.card;

	if (wait_event_interruptible(mapping->wait,
				     READ_ONCE(mapping->progress) != SHRIMP_ASKING ||
					     !READ_ONCE(card->live)))
		return -EINTR;
	/* What ended it was stored before: shrimp_mapping_stop(). */
	switch (smp_load_acquire(&mapping->progress)) {
	case SHRIMP_ASKING:
		return -ENODEV;
	case SHRIMP_MAPPED:
		return 0;
	default:
		return mapping->error;
	}
}

int shrimp_map(struct uln_file *file, void *argument)
{
	struct shrimp_mapping_object *mapping __free(shrimp_mapping_put) = NULL;
	struct shrimp_map *answer = argument;
	u32 mode = answer->mode & ~SHRIMP_MAP_WITHDRAWABLE;
	int ret;

	if (answer->mapping || answer->commands_offset || answer->window_offset ||
	    !answer->length || answer->length > SHRIMP_MAX_BUFFER ||
	    !mode || mode > SHRIMP_MODE_DELIBERATE)
		return -EINVAL;
	if (answer->node >= SHRIMP_HOSTS)
		return -EHOSTUNREACH;
	mapping = mapping_alloc(file, answer);
	if (IS_ERR(mapping))
		return PTR_ERR(mapping);
	ret = map_begin(mapping);
	if (ret)
		return ret;
	ret = map_finish(mapping);
	if (ret) {
		mapping_end(file, mapping->object.index);
		return ret;
	}
	answer->mapping = mapping->object.index;
	answer->commands_offset = mapping->object.offset + SHRIMP_MAP_COMMANDS;
	answer->window_offset = mapping->object.offset + SHRIMP_MAP_WINDOW;
	return 0;
}

void shrimp_map_undo(struct uln_file *file, void *argument)
{
	const struct shrimp_map *answer = argument;

	mapping_end(file, answer->mapping);
}

int shrimp_unmap(struct uln_file *file, void *argument)
{
	const struct uln_object *object = argument;

	if (object->reserved0 || object->reserved1)
		return -EINVAL;
	return mapping_end(file, object->index);
}

int shrimp_state(struct uln_file *file, void *argument)
{
	const struct shrimp_mapping_object *mapping;
	struct shrimp_state *answer = argument;

	if (answer->state || answer->reserved)
		return -EINVAL;
	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	mapping = mapping_find(file, answer->mapping);
	if (!mapping)
		return -ENOENT;
	answer->state = mapping->progress == SHRIMP_ENDED ? mapping->state : SHRIMP_STATE_MAPPED;
	return 0;
}

static int mapping_mmap(struct card_object *object, struct vm_area_struct *vma, u64 offset,
			u64 size)
{
	if (size != (u64)mapping_of(object)->memory->count * ULN_PAGE_SIZE)
		return -EINVAL;
	switch (offset) {
	case SHRIMP_MAP_COMMANDS:
	case SHRIMP_MAP_WINDOW:
		return uln_mmap_card(vma, object);
	case SHRIMP_MEMORY_OFFSET:
		return uln_mmap_withdrawable(vma, object);
	default:
		return -EINVAL;
	}
}

static resource_size_t mapping_place(const struct card_object *object, u64 offset)
{
	const struct shrimp_mapping_object *mapping = mapping_of(object);
	const struct uln_card *card = object->file->card;
	u64 page = shrimp_pfn(mapping->memory, offset % SHRIMP_MAP_WINDOW / ULN_PAGE_SIZE);

	if (offset >= SHRIMP_MEMORY_OFFSET)
		return page * ULN_PAGE_SIZE;
	if (offset >= SHRIMP_MAP_WINDOW)
		page += shrimp_table(card);
	return shrimp_parts(card)->memory + page * ULN_PAGE_SIZE;
}

const struct card_kind shrimp_mapping_kind = {
	.close = mapping_close,
	.release = mapping_release,
	.mmap = mapping_mmap,
	.place = mapping_place,
	.ready = shrimp_withdraw_ready,
	.await = shrimp_withdraw_await,
	.free = mapping_free,
};

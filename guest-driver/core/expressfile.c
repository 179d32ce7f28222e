// SPDX-License-Identifier: GPL-2.0-only
/* Areas and views of express memory as objects of a file, and the calls for them. */
#include "uln_expresscard.h"

#define express_of(of) container_of(of, struct express_object, object)

static_assert(sizeof(struct uln_express_pages) <= ULN_MAX_PRIVATE);
static_assert(ULN_EXPRESS_HOSTS == ULN_WELL_KNOWN_SLOTS);

static u64 express_size(const struct express_object *express)
{
	return (u64)express->end.count * ULN_PAGE_SIZE;
}

static void express_free(struct kref *users)
{
	struct express_object *express = container_of(users, struct express_object, object.users);

	__free_page(express->object.spent);
	kfree(express);
}

/* The process sees the spent page from now on. */
static void express_close(struct card_object *object)
{
	struct express_object *express = express_of(object);
	struct uln_card *card = object->card;

	if (object->open)
		uln_unmap_card(object, express_size(express));
	uln_express_close(card->system, &express->end);
	uln_object_leave(object);
}

static void express_release(struct card_object *object)
{
	uln_object_put(object);
}

static int express_mmap(struct card_object *object, struct vm_area_struct *vma, u64 offset,
			u64 size)
{
	u64 all = express_size(express_of(object));

	if (offset > all || size > all - offset)
		return -EINVAL;
	return uln_mmap_withdrawable(vma, object);
}

static resource_size_t express_place(const struct card_object *object, u64 offset)
{
	const struct express_object *express = express_of(object);
	const struct express_place *part = &object->card->express->parts[express->end.host];

	return part->start + (u64)uln_express_place(&express->end, offset / ULN_PAGE_SIZE) *
				     ULN_PAGE_SIZE;
}

const struct card_kind uln_express_kind = {
	.close = express_close,
	.release = express_release,
	.mmap = express_mmap,
	.place = express_place,
	.free = express_free,
};

/* Returns whether files of the card may have express memory, and the kind of their objects. */
static bool express_kind(const struct uln_card *card, unsigned int *kind)
{
	for (*kind = 0; *kind < card->ops->kinds_count; ++*kind)
		if (card->ops->kinds[*kind] == &uln_express_kind)
			return true;
	return false;
}

static void end_hold(struct uln_express_end *end)
{
	kref_get(&express_object(end)->object.users);
}

static void end_drop(struct uln_express_end *end)
{
	uln_object_put(&express_object(end)->object);
}

static void end_withdraw(struct uln_express_end *end)
{
	struct express_object *express = express_object(end);

	/* An object that its file does not have yet is not mapped. */
	if (express->object.open)
		uln_unmap_card(&express->object, express_size(express));
}

static void express_news(struct uln_system *system)
{
	struct uln_express_memory *memory = uln_system_card(system)->express;

	WRITE_ONCE(memory->news, memory->news + 1);
	wake_up_all(&memory->wait);
}

const struct uln_express_ops uln_express_file_ops = {
	.hold = end_hold,
	.drop = end_drop,
	.withdraw = end_withdraw,
	.news = express_news,
};

/* Returns whether the card's files have express memory. */
bool uln_express_offers(const struct uln_card *card)
{
	unsigned int kind;

	return express_kind(card, &kind) && uln_express_is(card->system);
}

static struct express_object *express_alloc(struct uln_file *file)
{
	struct express_object *express = kzalloc(sizeof(*express), GFP_KERNEL_ACCOUNT);

	if (!express)
		return NULL;
	/*
	 * A page of its own: otherwise a process's stores to a view would appear in its areas, as
	 * if the other host had made them.
	 */
	express->object.spent = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!express->object.spent) {
		kfree(express);
		return NULL;
	}
	uln_object_init(&express->object, file, &uln_express_kind);
	return express;
}

static void express_put(struct express_object *express)
{
	uln_object_put(&express->object);
}

DEFINE_FREE(express_put, struct express_object *, if (_T) express_put(_T))

/* Gives the object to its file; the card's lock is held. */
static void express_join(struct express_object *express)
{
	unsigned int kind;

	express_kind(express->object.card, &kind);
	kref_get(&express->object.users);
	express->object.index = express->end.number;
	uln_object_join(&express->object, kind);
}

/* Discards an object that could not be completed. */
static void express_abandon(struct express_object *express)
{
	struct uln_file *file = express->object.file;

	uln_share_lock(file->card, file->share);
	uln_express_close(file->card->system, &express->end);
	uln_share_unlock(file->card, file->share);
}

/* Takes pages, and sets @news to the number of answers up to then. */
static int area_take(struct express_object *express, const struct uln_express_create *create,
		     bool again, u32 *news)
{
	struct uln_file *file = express->object.file;

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	*news = file->card->express->news;
	return uln_express_create(file->card->system, &express->end, create->host,
				  create->length / ULN_PAGE_SIZE, file->share,
				  file->privileged, again);
}

static int area_take_waiting(struct express_object *express,
			     const struct uln_express_create *create)
{
	struct uln_card *card = express->object.card;
	bool again = false;
	u32 news;
	int ret;

	for (;;) {
		ret = area_take(express, create, again, &news);
		if (ret != -EAGAIN)
			return ret;
		/* Any answer of any host wakes the thread: answers are rare and quickly checked. */
		if (wait_event_interruptible(card->express->wait,
					     READ_ONCE(card->express->news) != news ||
						     !READ_ONCE(card->live)))
			return -EINTR;
		again = true;
	}
}

/* Clears old contents of the pages. Without the card's lock, as there may be many pages. */
static int area_clear(const struct express_object *express)
{
	const struct express_place *part = &express->object.card->express->parts[express->end.host];
	u32 i;

	uln_express_hold();
	/* The memory may have gone and come back; the pages then belong to others. */
	if (READ_ONCE(express->end.state) != EXPRESS_OPEN) {
		uln_express_let_go();
		return -ENODEV;
	}
	for (i = 0; i < express->end.count && part->memory; i++) {
		clear_page(part->memory +
			   (u64)uln_express_place(&express->end, i) * ULN_PAGE_SIZE);
		cond_resched();
	}
	uln_express_let_go();
	return i < express->end.count ? -ENODEV : 0;
}

static int area_begin(struct express_object *express)
{
	CLASS(uln_entry, entry)(express->object.file);
	if (entry.error)
		return entry.error;
	if (express->end.state != EXPRESS_OPEN)
		return -ENODEV;
	express_join(express);
	return 0;
}

int uln_express_area(struct uln_file *file, void *argument)
{
	struct express_object *express __free(express_put) = NULL;
	struct uln_express_create *answer = argument;
	unsigned int kind;
	int ret;

	if (answer->number || answer->key || answer->offset ||
	    memchr_inv(answer->reserved, 0, sizeof(answer->reserved)) || !answer->length ||
	    !PAGE_ALIGNED(answer->length) || answer->length > ULN_MAP_STRIDE)
		return -EINVAL;
	if (!express_kind(file->card, &kind))
		return -EOPNOTSUPP;
	express = express_alloc(file);
	if (!express)
		return -ENOMEM;
	ret = area_take_waiting(express, answer);
	if (ret)
		return ret;
	ret = area_clear(express) ?: area_begin(express);
	if (ret) {
		express_abandon(express);
		return ret;
	}
	answer->number = express->object.index;
	answer->key = express->end.key;
	answer->offset = express->object.offset;
	return 0;
}

static int view_ask(struct express_object *express, const struct uln_express_map *map)
{
	struct uln_file *file = express->object.file;

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	return uln_express_map(file->card->system, &express->end, map->host, map->area, map->key,
			       file->share);
}

static int view_begin(struct express_object *express)
{
	CLASS(uln_entry, entry)(express->object.file);
	if (entry.error)
		return entry.error;
	if (express->end.state != EXPRESS_OPEN)
		return express->end.error ?: -ENODEV;
	if (express_size(express) > ULN_MAP_STRIDE)
		return -EPROTO;
	express_join(express);
	return 0;
}

static int view_await(struct express_object *express)
{
	struct uln_card *card = express->object.card;

	if (wait_event_interruptible(card->express->wait,
				     READ_ONCE(express->end.state) != EXPRESS_ASKING ||
					     !READ_ONCE(card->live)))
		return -EINTR;
	return view_begin(express);
}

int uln_express_view(struct uln_file *file, void *argument)
{
	struct express_object *express __free(express_put) = NULL;
	struct uln_express_map *answer = argument;
	unsigned int kind;
	int ret;

	if (answer->number || answer->reserved0 || answer->length || answer->offset ||
	    memchr_inv(answer->reserved, 0, sizeof(answer->reserved)))
		return -EINVAL;
	if (!express_kind(file->card, &kind))
		return -EOPNOTSUPP;
	express = express_alloc(file);
	if (!express)
		return -ENOMEM;
	ret = view_ask(express, answer);
	if (ret)
		return ret;
	ret = view_await(express);
	if (ret) {
		express_abandon(express);
		return ret;
	}
	answer->number = express->object.index;
	answer->length = express_size(express);
	answer->offset = express->object.offset;
	return 0;
}

static int express_destroy(struct uln_file *file, u32 number)
{
	struct card_object *object;
	unsigned int kind;

	if (!express_kind(file->card, &kind))
		return -EOPNOTSUPP;
	scoped_class(uln_entry, entry, file) {
		if (entry.error)
			return entry.error;
		list_for_each_entry(object, &file->objects[kind], on_file)
			if (object->index == number)
				break;
		if (list_entry_is_head(object, &file->objects[kind], on_file))
			return -ENOENT;
		express_close(object);
	}
	express_release(object);
	return 0;
}

int uln_express_destroy(struct uln_file *file, void *argument)
{
	const struct uln_object *object = argument;

	if (object->reserved0 || object->reserved1)
		return -EINVAL;
	return express_destroy(file, object->index);
}

void uln_express_area_undo(struct uln_file *file, void *argument)
{
	const struct uln_express_create *answer = argument;

	express_destroy(file, answer->number);
}

void uln_express_view_undo(struct uln_file *file, void *argument)
{
	const struct uln_express_map *answer = argument;

	express_destroy(file, answer->number);
}

int uln_express_query(struct uln_file *file, void *argument)
{
	struct uln_express_query *query = argument;
	u32 host = query->host;

	query->host = 0;
	if (memchr_inv(query, 0, sizeof(*query)))
		return -EINVAL;
	query->host = host;
	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	uln_express_describe(file->card->system, file->share, file->privileged, query);
	return 0;
}

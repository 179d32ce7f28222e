// SPDX-License-Identifier: GPL-2.0-only
/*
 * Windows: pages of the card through which a process reaches another host's aperture, or a group's,
 * by loads and stores. At the first of them, that host's card checks whether the aperture exists. A
 * window names the endpoint that is told of its faults, which must exist as long as the window.
 */
#include "clan.h"

static_assert(CLAN_MAX_WINDOW <= ULN_MAP_STRIDE);

#define window_of(of) container_of(of, struct clan_window_object, object)

static struct clan_window_object *window_find(struct uln_file *file, u32 index)
{
	struct clan_window_object *window = xa_load(&clan_parts(file->card)->windows, index);

	return window && window->object.file == file ? window : NULL;
}

static void window_free(struct kref *users)
{
	kfree(container_of(users, struct clan_window_object, object.users));
}

DEFINE_FREE(window_put, struct clan_window_object *, if (_T) uln_object_put(&_T->object))

/* Takes pages that follow each other. */
static int window_take_pages(struct uln_card *card, struct clan_window_object *window)
{
	struct clan_parts *parts = clan_parts(card);
	u32 all = clan_limits(card)->query.window_pages;
	unsigned long first;

	first = bitmap_find_next_zero_area(parts->windowed, all, 0, window->pages, 0);
	if (first >= all)
		return -ENOSPC;
	bitmap_set(parts->windowed, first, window->pages);
	window->object.index = first;
	return 0;
}

static void window_give_pages(struct uln_card *card, struct clan_window_object *window)
{
	bitmap_clear(clan_parts(card)->windowed, window->object.index, window->pages);
}

static int window_tell(struct clan_window_object *window, const struct clan_window *argument)
{
	struct clan_open_window body = {
		.key = cpu_to_le64(argument->key),
		.offset = cpu_to_le64(argument->offset),
		.length = cpu_to_le64(argument->length),
		.host = cpu_to_le32(argument->host),
		.aperture = cpu_to_le32(argument->aperture),
		.endpoint = cpu_to_le32(window->endpoint->object.index),
	};

	return uln_command(window->object.file->card, CLAN_COMMAND_OPEN_WINDOW,
			   window->object.index, &body, sizeof(body));
}

/* Finds room for it, and has the card open it. */
static int window_open(struct clan_window_object *window, const struct clan_window *argument)
{
	struct uln_file *file = window->object.file;
	struct clan_parts *parts = clan_parts(file->card);
	int ret;

	ret = uln_share_take_some(file->share, CLAN_SHARE_WINDOW_PAGES, window->pages,
				  file->privileged);
	if (ret)
		return ret;
	ret = window_take_pages(file->card, window);
	if (ret)
		goto give_back;
	ret = xa_insert(&parts->windows, window->object.index, window, GFP_KERNEL);
	if (ret)
		goto give_pages;
	ret = window_tell(window, argument);
	if (!ret) {
		window->endpoint->windows++;
		return 0;
	}
	xa_erase(&parts->windows, window->object.index);
give_pages:
	window_give_pages(file->card, window);
give_back:
	uln_share_give_some(file->share, CLAN_SHARE_WINDOW_PAGES, window->pages);
	return ret;
}

static bool window_is_sound(const struct clan_window *argument)
{
	return !argument->window && !argument->offset_of_pages && argument->length &&
	       argument->length <= CLAN_MAX_WINDOW && !(argument->offset % sizeof(u64)) &&
	       argument->offset <= U64_MAX - argument->length &&
	       clan_target_is_sound(argument->host, argument->aperture);
}

int clan_window_open(struct uln_file *file, void *argument)
{
	struct clan_window_object *window __free(window_put) = NULL;
	struct clan_window *answer = argument;
	int ret;

	if (!window_is_sound(answer))
		return -EINVAL;
	window = kzalloc(sizeof(*window), GFP_KERNEL_ACCOUNT);
	if (!window)
		return -ENOMEM;
	uln_object_init(&window->object, file, &clan_window_kind);
	window->pages = DIV_ROUND_UP(answer->length, ULN_PAGE_SIZE);

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	window->endpoint = clan_endpoint_find(file, answer->endpoint);
	if (!window->endpoint)
		return -ENOENT;
	ret = window_open(window, answer);
	if (ret)
		return ret;
	uln_object_join(&window->object, CLAN_KIND_WINDOW);
	answer->window = window->object.index;
	answer->offset_of_pages = window->object.offset;
	retain_and_null_ptr(window);
	return 0;
}

/* On return no process has its pages mapped, so they may get another owner. */
static void window_close(struct card_object *object)
{
	struct clan_window_object *window = window_of(object);
	struct uln_card *card = object->file->card;

	/* The card first: a processor stalled in a load could not be told to flush the pages. */
	object->open = false;
	uln_command_close(card, CLAN_COMMAND_CLOSE_WINDOW, object->index, NULL, 0);
	uln_unmap_card(object, (u64)window->pages * ULN_PAGE_SIZE);
	window->endpoint->windows--;
	xa_erase(&clan_parts(card)->windows, object->index);
	window_give_pages(card, window);
	uln_share_give_some(object->file->share, CLAN_SHARE_WINDOW_PAGES, window->pages);
	uln_object_leave(object);
}

static void window_release(struct card_object *object)
{
	uln_object_put(object);
}

static int window_end(struct uln_file *file, u32 index)
{
	struct clan_window_object *window;

	scoped_class(uln_entry, entry, file) {
		if (entry.error)
			return entry.error;
		window = window_find(file, index);
		if (!window)
			return -ENOENT;
		window_close(&window->object);
	}
	window_release(&window->object);
	return 0;
}

int clan_window_close(struct uln_file *file, void *argument)
{
	const struct uln_object *object = argument;

	if (object->reserved0 || object->reserved1)
		return -EINVAL;
	return window_end(file, object->index);
}

void clan_window_undo(struct uln_file *file, void *argument)
{
	const struct clan_window *answer = argument;

	window_end(file, answer->window);
}

static int window_mmap(struct card_object *object, struct vm_area_struct *vma, u64 offset, u64 size)
{
	if (offset || size != (u64)window_of(object)->pages * ULN_PAGE_SIZE)
		return -EINVAL;
	return uln_mmap_card(vma, object);
}

static resource_size_t window_place(const struct card_object *object, u64 offset)
{
	const struct uln_card *card = object->file->card;

	/* After the endpoints' pages. */
	return clan_endpoint_page(card, clan_limits(card)->query.endpoints + object->index) +
	       round_down(offset, ULN_PAGE_SIZE);
}

const struct card_kind clan_window_kind = {
	.close = window_close,
	.release = window_release,
	.mmap = window_mmap,
	.place = window_place,
	.free = window_free,
};

// SPDX-License-Identifier: GPL-2.0-only
/* The objects of a file: how they join it, leave it and are released. */
#include "uln_core.h"

void uln_file_init(struct uln_file *file, struct uln_card *card)
{
	unsigned int kind;

	file->card = card;
	address_space_init_once(&file->mapping);
	for (kind = 0; kind < ULN_CARD_KINDS; kind++)
		INIT_LIST_HEAD(&file->objects[kind]);
	file->mappable = RB_ROOT;
	init_waitqueue_head(&file->wait);
}

/**
 * uln_object_init() - initialise an object that the card does not know yet
 * @object: memory that is all zero
 * @file: the file that will own it
 * @kind: its kind
 */
void uln_object_init(struct card_object *object, struct uln_file *file,
		     const struct card_kind *kind)
{
	kref_init(&object->users);
	object->card = file->card;
	object->file = file;
	object->kind = kind;
}

/**
 * uln_object_put() - drop a reference
 * @object: the object
 */
void uln_object_put(struct card_object *object)
{
	kref_put(&object->users, object->kind->free);
}

static bool offset_is_less(struct rb_node *one, const struct rb_node *other)
{
	return rb_entry(one, struct card_object, by_offset)->offset <
	       rb_entry(other, struct card_object, by_offset)->offset;
}

/**
 * uln_object_join() - give an object to its file, once the card has opened it
 * @object: the object; the card's lock is held
 * @kind: index into the file's lists
 */
void uln_object_join(struct card_object *object, unsigned int kind)
{
	struct uln_file *file = object->file;

	lockdep_assert_held(&object->card->lock);
	if (object->kind->mmap) {
		object->offset = file->next_offset;
		file->next_offset += ULN_MAP_STRIDE;
		rb_add(&object->by_offset, &file->mappable, offset_is_less);
	}
	object->open = true;
	list_add_tail(&object->on_file, &file->objects[kind]);
}

/**
 * uln_object_leave() - remove a closed object from its file
 * @object: the object; the card's lock is held
 */
void uln_object_leave(struct card_object *object)
{
	lockdep_assert_held(&object->card->lock);
	if (object->kind->mmap)
		rb_erase(&object->by_offset, &object->file->mappable);
	list_del(&object->on_file);
	/* The file may be freed before the object is released. */
	object->file = NULL;
}

/* Compares an offset with an object's range: no object is larger than the distance of two. */
static int offset_compare(const void *offset, const struct rb_node *node)
{
	const struct card_object *object = rb_entry(node, struct card_object, by_offset);
	u64 sought = *(const u64 *)offset;

	if (sought < object->offset)
		return -1;
	return sought - object->offset >= ULN_MAP_STRIDE;
}

/**
 * uln_object_at() - find a file's object by an offset for mmap(2)
 * @file: the file; the card's lock is held
 * @offset: an offset within the object
 *
 * Return: the object, or NULL.
 */
struct card_object *uln_object_at(struct uln_file *file, u64 offset)
{
	struct rb_node *node = rb_find(&offset, &file->mappable, offset_compare);

	lockdep_assert_held(&file->card->lock);
	return node ? rb_entry(node, struct card_object, by_offset) : NULL;
}

void uln_closed_init(struct uln_closed *closed, struct uln_card *card)
{
	unsigned int kind;

	closed->ops = card->ops;
	for (kind = 0; kind < ULN_CARD_KINDS; kind++)
		INIT_LIST_HEAD(&closed->objects[kind]);
}

/**
 * uln_file_close_next() - close one of a file's objects, before any that it names
 * @file: the file; the card's lock is held
 * @closed: gets the object, to be released
 *
 * Return: false if the file has no objects left.
 */
bool uln_file_close_next(struct uln_file *file, struct uln_closed *closed)
{
	const struct card_ops *ops = file->card->ops;
	struct card_object *object;
	unsigned int kind;

	lockdep_assert_held(&file->card->lock);
	for (kind = 0; kind < ops->kinds_count; kind++) {
		object =
			list_first_entry_or_null(&file->objects[kind], struct card_object, on_file);
		if (!object)
			continue;
		ops->kinds[kind]->close(object);
		list_add(&object->on_file, &closed->objects[kind]);
		return true;
	}
	return false;
}

/**
 * uln_closed_release() - release the memory of closed objects
 * @closed: the objects; the card's lock is not held, as this may take long
 */
void uln_closed_release(struct uln_closed *closed)
{
	struct card_object *object, *next;
	unsigned int kind;

	for (kind = 0; kind < closed->ops->kinds_count; kind++) {
		list_for_each_entry_safe(object, next, &closed->objects[kind], on_file)
			closed->ops->kinds[kind]->release(object);
		INIT_LIST_HEAD(&closed->objects[kind]);
	}
	cond_resched();
}

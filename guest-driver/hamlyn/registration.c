// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registrations: memory of a process that is pinned and charged once, for any number of slots and
 * send buffers.
 */
#include "hamlyn.h"

static void registration_free(struct kref *users)
{
	struct hamlyn_registration *registration =
		container_of(users, struct hamlyn_registration, object.users);

	uln_pages_free(registration->pages);
	kfree(registration);
}

static void registration_put(struct hamlyn_registration *registration)
{
	uln_object_put(&registration->object);
}
DEFINE_FREE(registration_put, struct hamlyn_registration *,
	    if (!IS_ERR_OR_NULL(_T)) registration_put(_T))

static struct hamlyn_registration *registration_pin(struct uln_file *file,
						    const struct hamlyn_registration_create *create)
{
	struct hamlyn_registration *registration __free(registration_put) =
		kzalloc(sizeof(*registration), GFP_KERNEL_ACCOUNT);
	struct uln_pages *pages;
	int ret;

	if (!registration)
		return ERR_PTR(-ENOMEM);
	uln_object_init(&registration->object, file, &hamlyn_registration_kind);
	pages = uln_pages_pin(create->address, create->length, DMA_BIDIRECTIONAL);
	if (IS_ERR(pages))
		return ERR_CAST(pages);
	registration->address = create->address;
	registration->pages = pages;
	ret = uln_pages_map(pages, file->card);
	return ret ? ERR_PTR(ret) : no_free_ptr(registration);
}

int hamlyn_registration_create(struct uln_file *file, void *argument)
{
	struct hamlyn_registration_create *create = argument;
	struct hamlyn_registration *registration __free(registration_put) = NULL;
	int ret;

	if (create->registration || create->reserved0 || create->reserved1)
		return -EINVAL;
	registration = registration_pin(file, create);
	if (IS_ERR(registration))
		return PTR_ERR(registration);

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	ret = xa_alloc(&hamlyn_parts(file->card)->registrations, &registration->object.index,
		       registration, XA_LIMIT(1, U32_MAX), GFP_KERNEL);
	if (ret)
		return ret == -EBUSY ? -ENOSPC : ret;
	uln_object_join(&registration->object, HAMLYN_KIND_REGISTRATION);
	create->registration = registration->object.index;
	retain_and_null_ptr(registration);
	return 0;
}

/* Removes a registration from its file; the card's lock is held. */
static void registration_close(struct card_object *object)
{
	xa_erase(&hamlyn_parts(object->card)->registrations, object->index);
	uln_object_leave(object);
}

/* Finds a file's registration; the card's lock is held. */
static struct hamlyn_registration *registration_find(struct uln_file *file, u32 index)
{
	struct hamlyn_registration *registration =
		xa_load(&hamlyn_parts(file->card)->registrations, index);

	return registration && registration->object.file == file ? registration : NULL;
}

static struct hamlyn_registration *registration_get(struct uln_file *file, u32 index)
{
	struct hamlyn_registration *registration;

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return ERR_PTR(entry.error);
	registration = registration_find(file, index);
	if (!registration)
		return ERR_PTR(-ENOENT);
	kref_get(&registration->object.users);
	return registration;
}

/* Closes a file's registration that no other object uses, and returns it. */
static struct hamlyn_registration *registration_take(struct uln_file *file, u32 index)
{
	struct hamlyn_registration *registration;

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return ERR_PTR(entry.error);
	registration = registration_find(file, index);
	if (!registration)
		return ERR_PTR(-ENOENT);
	if (kref_read(&registration->object.users) > 1)
		return ERR_PTR(-EBUSY);
	registration_close(&registration->object);
	return registration;
}

static int registration_destroy(struct uln_file *file, u32 index)
{
	struct hamlyn_registration *registration = registration_take(file, index);

	if (IS_ERR(registration))
		return PTR_ERR(registration);
	registration_put(registration);
	return 0;
}

int hamlyn_registration_destroy(struct uln_file *file, void *argument)
{
	const struct uln_object *object = argument;

	if (object->reserved0 || object->reserved1)
		return -EINVAL;
	return registration_destroy(file, object->index);
}

void hamlyn_registration_undo(struct uln_file *file, void *argument)
{
	const struct hamlyn_registration_create *create = argument;

	registration_destroy(file, create->registration);
}

/**
 * hamlyn_memory_pin() - pages of the calling process for a slot or a send buffer
 * @file: the file
 * @index: the registration that has them, or 0 to pin them for this object alone
 * @address: where they begin, in the process
 * @length: the number of bytes
 * @direction: what the card does with pages that are pinned for this object alone
 *
 * Must not be called with the card's lock held.
 *
 * Return: the pages; -ENOENT if the file has no such registration, -EFAULT if the memory is not
 * all in it, or an error as of uln_pages_pin().
 */
struct uln_pages *hamlyn_memory_pin(struct uln_file *file, u32 index, u64 address, u64 length,
				    enum dma_data_direction direction)
{
	struct hamlyn_registration *registration __free(registration_put) = NULL;
	u64 offset;

	if (!index)
		return uln_pages_pin(address, length, direction);
	registration = registration_get(file, index);
	if (IS_ERR(registration))
		return ERR_CAST(registration);
	offset = address - registration->address;
	if (!length)
		return ERR_PTR(-EINVAL);
	if (address < registration->address || offset > registration->pages->length ||
	    length > registration->pages->length - offset)
		return ERR_PTR(-EFAULT);
	return uln_pages_share(registration->pages, &registration->object, offset, length);
}

/* The card no longer uses the memory: the objects that did were closed before, or hold it. */
static void registration_release(struct card_object *object)
{
	uln_object_put(object);
}

const struct card_kind hamlyn_registration_kind = {
	.close = registration_close,
	.release = registration_release,
	.free = registration_free,
};

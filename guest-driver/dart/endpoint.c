// SPDX-License-Identifier: GPL-2.0-only
/*
 * Endpoints (section 3): regions of a process's virtual memory. They are not pinned, and need not
 * be present. The card asks where the pages are (miss.c). Endpoints of the driver's own memory
 * (lane.c) are pinned.
 */
#include "dart.h"

#define endpoint_of(of) container_of(of, struct dart_endpoint_object, object)

/* Returns NULL if it is not the file's. The card's lock is held. */
struct dart_endpoint_object *dart_endpoint_find(struct uln_file *file, u32 index)
{
	struct dart_endpoint_object *endpoint = xa_load(&dart_parts(file->card)->endpoints, index);

	return endpoint && endpoint->object.file == file ? endpoint : NULL;
}

/* No file, connection or thread has it; no lock is held. */
static void endpoint_free(struct kref *users)
{
	struct dart_endpoint_object *endpoint =
		container_of(users, struct dart_endpoint_object, object.users);

	if (!endpoint->pinned)
		dart_pages_forget(endpoint);
	kfree(endpoint);
}

DEFINE_FREE(endpoint_put, struct dart_endpoint_object *,
	    if (!IS_ERR_OR_NULL(_T)) uln_object_put(&_T->object))

/* Allocates an endpoint that the card does not know yet. */
static struct dart_endpoint_object *endpoint_alloc(struct uln_file *file,
						   const struct dart_endpoint *argument)
{
	u64 first = argument->address & PAGE_MASK;
	u64 end = PAGE_ALIGN(argument->address + argument->length);
	struct dart_endpoint_object *endpoint = kzalloc(sizeof(*endpoint), GFP_KERNEL_ACCOUNT);
	int ret;

	if (!endpoint)
		return ERR_PTR(-ENOMEM);
	uln_object_init(&endpoint->object, file, &dart_endpoint_kind);
	endpoint->card = file->card;
	endpoint->address = argument->address;
	endpoint->length = argument->length;
	xa_init(&endpoint->frames);
	INIT_LIST_HEAD(&endpoint->by_age);
	ret = mmu_interval_notifier_insert(&endpoint->notifier, current->mm, first, end - first,
					   &dart_endpoint_pages);
	if (!ret)
		return endpoint;
	kfree(endpoint);
	return ERR_PTR(ret);
}

/* Returns its part of a share, as there may be fewer endpoints than connections. */
static u32 endpoint_count(const struct uln_card *card)
{
	return DIV_ROUND_UP(dart_limits(card)->connections, dart_limits(card)->endpoints);
}

/* Allots a number, and has the card open the endpoint. */
static int endpoint_open(struct dart_endpoint_object *endpoint)
{
	struct uln_file *file = endpoint->object.file;
	struct dart_parts *parts = dart_parts(file->card);
	struct dart_open_endpoint body = {
		.base = cpu_to_le64(endpoint->address),
		.length = cpu_to_le64(endpoint->length),
	};
	int ret;

	ret = uln_share_take_some(file->share, DART_SHARE_CONNECTIONS,
				  endpoint_count(file->card),
				  file->privileged);
	if (ret)
		return ret;
	ret = xa_alloc(&parts->endpoints, &endpoint->object.index, endpoint,
		       XA_LIMIT(DART_OWN_ENDPOINTS, dart_limits(file->card)->endpoints - 1),
		       GFP_KERNEL);
	if (ret) {
		ret = ret == -EBUSY ? -ENOSPC : ret;
		goto give_back;
	}
	if (endpoint->pinned) {
		body.flags = cpu_to_le32(DART_ENDPOINT_PINNED);
		uln_pages_describe(endpoint->pinned, &body.area);
	} else {
		/* An address space of its own: two endpoints of a process may be taken apart. */
		body.space = cpu_to_le32(endpoint->object.index);
	}
	ret = uln_command(file->card, DART_COMMAND_OPEN_ENDPOINT, endpoint->object.index, &body,
			  sizeof(body));
	if (!ret)
		return 0;
	xa_erase(&parts->endpoints, endpoint->object.index);
give_back:
	uln_share_give_some(file->share, DART_SHARE_CONNECTIONS, endpoint_count(file->card));
	return ret;
}

/* Opens an endpoint, and gives it to its file. */
static int endpoint_add(struct dart_endpoint_object *endpoint, u32 *index)
{
	int ret;

	CLASS(uln_entry, entry)(endpoint->object.file);
	if (entry.error)
		return entry.error;
	ret = endpoint_open(endpoint);
	if (ret)
		return ret;
	if (!endpoint->pinned)
		dart_pages_begin(endpoint);
	uln_object_join(&endpoint->object, DART_KIND_ENDPOINT);
	*index = endpoint->object.index;
	return 0;
}

static bool endpoint_is_sound(const struct dart_endpoint *argument)
{
	return !argument->endpoint && !argument->reserved && argument->length &&
	       argument->address % sizeof(u32) == 0 && argument->address < TASK_SIZE &&
	       argument->length <= TASK_SIZE - argument->address;
}

int dart_endpoint_open(struct uln_file *file, void *argument)
{
	struct dart_endpoint_object *endpoint __free(endpoint_put) = NULL;
	struct dart_endpoint *answer = argument;
	int ret;

	if (!endpoint_is_sound(answer))
		return -EINVAL;
	endpoint = endpoint_alloc(file, answer);
	if (IS_ERR(endpoint))
		return PTR_ERR(endpoint);

	ret = endpoint_add(endpoint, &answer->endpoint);
	if (!ret)
		retain_and_null_ptr(endpoint);
	return ret;
}

/* Opens an endpoint of the driver's own memory, which is there until the file has ended. */
int dart_endpoint_pin(struct uln_file *file, struct uln_pages *memory, u32 *index)
{
	struct dart_endpoint_object *endpoint __free(endpoint_put) =
		kzalloc(sizeof(*endpoint), GFP_KERNEL);
	int ret;

	if (!endpoint)
		return -ENOMEM;
	uln_object_init(&endpoint->object, file, &dart_endpoint_kind);
	endpoint->card = file->card;
	endpoint->pinned = memory;
	ret = endpoint_add(endpoint, index);
	if (!ret)
		retain_and_null_ptr(endpoint);
	return ret;
}

static void endpoint_close(struct card_object *object)
{
	struct dart_endpoint_object *endpoint = endpoint_of(object);
	struct uln_card *card = object->file->card;

	object->open = false;
	uln_command_close(card, DART_COMMAND_CLOSE_ENDPOINT, object->index, NULL, 0);
	if (!endpoint->pinned)
		dart_pages_end(endpoint);
	xa_erase(&dart_parts(card)->endpoints, object->index);
	uln_share_give_some(object->file->share, DART_SHARE_CONNECTIONS, endpoint_count(card));
	uln_object_leave(object);
}

static void endpoint_release(struct card_object *object)
{
	if (!endpoint_of(object)->pinned)
		dart_pages_drop(endpoint_of(object));
	uln_object_put(object);
}

static int endpoint_end(struct uln_file *file, u32 index)
{
	struct dart_endpoint_object *endpoint;

	scoped_class(uln_entry, entry, file) {
		if (entry.error)
			return entry.error;
		endpoint = dart_endpoint_find(file, index);
		if (!endpoint)
			return -ENOENT;
		if (endpoint->connections)
			return -EBUSY;
		endpoint_close(&endpoint->object);
	}
	endpoint_release(&endpoint->object);
	return 0;
}

int dart_endpoint_close(struct uln_file *file, void *argument)
{
	const struct uln_object *object = argument;

	if (object->reserved0 || object->reserved1)
		return -EINVAL;
	return endpoint_end(file, object->index);
}

/*
 * If another thread has guessed its number and opened a connection with it, the endpoint stays
 * until the file ends.
 */
void dart_endpoint_undo(struct uln_file *file, void *argument)
{
	const struct dart_endpoint *answer = argument;

	endpoint_end(file, answer->endpoint);
}

const struct card_kind dart_endpoint_kind = {
	.close = endpoint_close,
	.release = endpoint_release,
	.free = endpoint_free,
};

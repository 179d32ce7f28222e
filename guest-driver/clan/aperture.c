// SPDX-License-Identifier: GPL-2.0-only
/*
 * Apertures (section 3.2): memory of processes here that others reach by host, number and key. A
 * process with all three has access; the driver draws keys at random. The members of a group agree
 * on the group's key.
 */
#include <linux/random.h>

#include "clan.h"

#define aperture_of(of) container_of(of, struct clan_aperture_object, object)

static struct clan_aperture_object *aperture_find(struct uln_file *file, u32 index)
{
	struct clan_aperture_object *aperture = xa_load(&clan_parts(file->card)->apertures, index);

	return aperture && aperture->object.file == file ? aperture : NULL;
}

static void aperture_free(struct kref *users)
{
	struct clan_aperture_object *aperture =
		container_of(users, struct clan_aperture_object, object.users);

	if (!aperture->lent)
		uln_pages_free(aperture->memory);
	kfree(aperture);
}

DEFINE_FREE(aperture_put, struct clan_aperture_object *,
	    if (!IS_ERR_OR_NULL(_T)) uln_object_put(&_T->object))

/* Allocates an aperture that the card does not know yet, without memory. */
static struct clan_aperture_object *aperture_alloc(struct uln_file *file,
						   const struct clan_aperture *argument)
{
	struct clan_aperture_object *aperture __free(aperture_put) =
		kzalloc(sizeof(*aperture), GFP_KERNEL_ACCOUNT);

	if (!aperture)
		return ERR_PTR(-ENOMEM);
	uln_object_init(&aperture->object, file, &clan_aperture_kind);
	aperture->flags = argument->flags;
	aperture->group = argument->group;
	aperture->length = argument->length;
	aperture->key = argument->flags & CLAN_APERTURE_GROUP ? argument->key : get_random_u64();
	return_ptr(aperture);
}

/* Pins the caller's memory for it. */
static int aperture_pin(struct clan_aperture_object *aperture, const struct clan_aperture *argument)
{
	struct uln_pages *memory =
		uln_pages_pin(argument->address, argument->length, DMA_BIDIRECTIONAL);

	if (IS_ERR(memory))
		return PTR_ERR(memory);
	aperture->memory = memory;
	return uln_pages_map(memory, aperture->object.card);
}

/* Has the card open it under its number. */
static int aperture_tell(struct clan_aperture_object *aperture)
{
	struct uln_file *file = aperture->object.file;
	struct clan_open_aperture body = {
		.key = cpu_to_le64(aperture->key),
		.owner = cpu_to_le32(file->number),
		.flags = cpu_to_le32(aperture->flags),
		.group = cpu_to_le32(aperture->group),
	};

	uln_pages_describe(aperture->memory, &body.area);
	body.area.length = cpu_to_le64(aperture->length);
	return uln_command(file->card, CLAN_COMMAND_OPEN_APERTURE, aperture->object.index, &body,
			   sizeof(body));
}

static bool aperture_joins(const struct clan_aperture_object *aperture)
{
	return aperture->flags & CLAN_APERTURE_GROUP;
}

/* Returns its part of a share: for a group, the apertures of each group if all had equally many. */
static u32 aperture_count(const struct clan_aperture_object *aperture)
{
	const struct clan_query *limits = &clan_limits(aperture->object.file->card)->query;

	return aperture_joins(aperture) ? DIV_ROUND_UP(limits->apertures, CLAN_GROUPS) : 1;
}

/* Allots a number, and has the card open the aperture. */
static int aperture_open(struct clan_aperture_object *aperture)
{
	struct uln_file *file = aperture->object.file;
	struct clan_parts *parts = clan_parts(file->card);
	u32 last = clan_limits(file->card)->query.apertures - 1;
	int ret;

	if (aperture_joins(aperture) && test_bit(aperture->group, parts->groups))
		return -EADDRINUSE;
	ret = uln_share_take_some(file->share, CLAN_SHARE_APERTURES, aperture_count(aperture),
				  file->privileged);
	if (ret)
		return ret;
	ret = xa_alloc_cyclic(&parts->apertures, &aperture->object.index, aperture,
			      XA_LIMIT(CLAN_OWN_APERTURES, last), &parts->next_aperture,
			      GFP_KERNEL);
	if (ret < 0) {
		ret = ret == -EBUSY ? -ENOSPC : ret;
		goto give_back;
	}
	ret = aperture_tell(aperture);
	if (ret)
		goto erase;
	if (aperture_joins(aperture))
		__set_bit(aperture->group, parts->groups);
	return 0;
erase:
	xa_erase(&parts->apertures, aperture->object.index);
give_back:
	uln_share_give_some(file->share, CLAN_SHARE_APERTURES, aperture_count(aperture));
	return ret;
}

static int aperture_add(struct clan_aperture_object *aperture, struct clan_aperture *answer)
{
	int ret;

	CLASS(uln_entry, entry)(aperture->object.file);
	if (entry.error)
		return entry.error;
	ret = aperture_open(aperture);
	if (ret)
		return ret;
	uln_object_join(&aperture->object, CLAN_KIND_APERTURE);
	answer->key = aperture->key;
	answer->aperture = aperture->object.index;
	return 0;
}

static bool aperture_is_sound(const struct clan_aperture *argument)
{
	const u32 any = CLAN_APERTURE_READ | CLAN_APERTURE_WRITE;

	if (argument->aperture || argument->reserved || argument->address % sizeof(u64) ||
	    !argument->length || argument->length > CLAN_MAX_APERTURE)
		return false;
	if (argument->flags == (CLAN_APERTURE_WRITE | CLAN_APERTURE_GROUP))
		return argument->group < CLAN_GROUPS;
	return !(argument->flags & ~any) && !argument->group && !argument->key;
}

int clan_aperture_open(struct uln_file *file, void *argument)
{
	struct clan_aperture_object *aperture __free(aperture_put) = NULL;
	struct clan_aperture *answer = argument;
	int ret;

	if (!aperture_is_sound(answer))
		return -EINVAL;
	aperture = aperture_alloc(file, answer);
	if (IS_ERR(aperture))
		return PTR_ERR(aperture);
	ret = aperture_pin(aperture, answer) ?: aperture_add(aperture, answer);
	if (!ret)
		retain_and_null_ptr(aperture);
	return ret;
}

/* Opens an aperture of the driver's own memory, which must outlive the file's objects. */
int clan_aperture_lend(struct uln_file *file, struct uln_pages *memory,
		       struct clan_aperture *answer)
{
	struct clan_aperture_object *aperture __free(aperture_put) = aperture_alloc(file, answer);
	int ret;

	if (IS_ERR(aperture))
		return PTR_ERR(aperture);
	aperture->lent = true;
	aperture->memory = memory;
	ret = aperture_add(aperture, answer);
	if (!ret)
		retain_and_null_ptr(aperture);
	return ret;
}

static void aperture_close(struct card_object *object)
{
	struct clan_aperture_object *aperture = aperture_of(object);
	struct uln_card *card = object->file->card;

	object->open = false;
	uln_command_close(card, CLAN_COMMAND_CLOSE_APERTURE, object->index, NULL, 0);
	if (aperture_joins(aperture))
		__clear_bit(aperture->group, clan_parts(card)->groups);
	xa_erase(&clan_parts(card)->apertures, object->index);
	uln_share_give_some(object->file->share, CLAN_SHARE_APERTURES, aperture_count(aperture));
	uln_object_leave(object);
}

/* The card can no longer reach the memory, and it has no other user: it is unpinned. */
static void aperture_release(struct card_object *object)
{
	uln_object_put(object);
}

static int aperture_end(struct uln_file *file, u32 index)
{
	struct clan_aperture_object *aperture;

	scoped_class(uln_entry, entry, file) {
		if (entry.error)
			return entry.error;
		aperture = aperture_find(file, index);
		if (!aperture)
			return -ENOENT;
		aperture_close(&aperture->object);
	}
	aperture_release(&aperture->object);
	return 0;
}

int clan_aperture_close(struct uln_file *file, void *argument)
{
	const struct uln_object *object = argument;

	if (object->reserved0 || object->reserved1)
		return -EINVAL;
	return aperture_end(file, object->index);
}

void clan_aperture_undo(struct uln_file *file, void *argument)
{
	const struct clan_aperture *answer = argument;

	aperture_end(file, answer->aperture);
}

const struct card_kind clan_aperture_kind = {
	.close = aperture_close,
	.release = aperture_release,
	.free = aperture_free,
};

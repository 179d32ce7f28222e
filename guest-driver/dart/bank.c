// SPDX-License-Identifier: GPL-2.0-only
/*
 * Banks: address registers and program entries of a process. Its connections have windows of them,
 * which may overlap and nest in any way (section 2).
 */
#include <linux/bitmap.h>

#include "dart.h"

#define bank_of(of) container_of(of, struct dart_bank_object, object)

static_assert(sizeof(((struct dart_set_program *)0)->entries) ==
	      DART_SET_ENTRIES * sizeof(struct dart_entry));
static_assert(DART_SET_ENTRIES <= DART_MAX_VALUES);

/* Returns NULL if it is not the file's. The card's lock is held. */
struct dart_bank_object *dart_bank_find(struct uln_file *file, u32 index)
{
	struct dart_bank_object *bank = xa_load(&dart_parts(file->card)->banks, index);

	return bank && bank->object.file == file ? bank : NULL;
}

static void bank_free(struct kref *users)
{
	kfree(container_of(users, struct dart_bank_object, object.users));
}

DEFINE_FREE(bank_put, struct dart_bank_object *,
	    if (!IS_ERR_OR_NULL(_T)) uln_object_put(&_T->object))

/* Returns its part of a share: the registers for its entries if each had equally many. */
static u32 bank_count(const struct dart_bank_object *bank)
{
	const struct dart_query *limits = dart_limits(bank->object.file->card);
	u64 entries = (u64)bank->entries * limits->registers;

	return max_t(u32, bank->registers, DIV_ROUND_UP_ULL(entries, limits->program));
}

/* Takes a run that is free in a map. */
static int bank_take(unsigned long *map, u32 size, u32 count, u32 *first)
{
	unsigned long at = 0;

	if (count)
		at = bitmap_find_next_zero_area(map, size, 0, count, 0);
	if (at >= size)
		return -ENOSPC;
	bitmap_set(map, at, count);
	*first = at;
	return 0;
}

/* Clears what an earlier owner left. */
static int bank_clear(const struct dart_bank_object *bank)
{
	struct uln_card *card = bank->object.file->card;
	struct dart_values values = {};
	struct dart_program program = {};
	int ret = 0;
	u32 done, count;

	for (done = 0; done < bank->registers && !ret; done += count) {
		count = min(bank->registers - done, DART_MAX_VALUES);
		values.count = cpu_to_le32(count);
		ret = uln_command(card, DART_COMMAND_SET_REGISTERS, bank->first_register + done,
				  &values, sizeof(values));
	}
	for (done = 0; done < bank->entries && !ret; done += count) {
		count = min(bank->entries - done, DART_MAX_VALUES);
		program.count = cpu_to_le32(count);
		ret = uln_command(card, DART_COMMAND_SET_PROGRAM, bank->first_entry + done,
				  &program, sizeof(program));
	}
	return ret;
}

static void bank_give(const struct dart_bank_object *bank)
{
	struct dart_parts *parts = dart_parts(bank->object.file->card);

	bitmap_clear(parts->registers, bank->first_register, bank->registers);
	bitmap_clear(parts->entries, bank->first_entry, bank->entries);
}

static int bank_take_all(struct dart_bank_object *bank)
{
	struct uln_card *card = bank->object.file->card;
	const struct dart_query *limits = dart_limits(card);
	struct dart_parts *parts = dart_parts(card);
	int ret;

	ret = bank_take(parts->registers, limits->registers, bank->registers,
			&bank->first_register);
	if (ret)
		return ret;
	ret = bank_take(parts->entries, limits->program, bank->entries, &bank->first_entry);
	if (ret) {
		bitmap_clear(parts->registers, bank->first_register, bank->registers);
		return ret;
	}
	ret = bank_clear(bank);
	if (ret)
		bank_give(bank);
	return ret;
}

static int bank_open(struct dart_bank_object *bank)
{
	struct uln_file *file = bank->object.file;
	struct dart_parts *parts = dart_parts(file->card);
	int ret;

	ret = uln_share_take_some(file->share, DART_SHARE_REGISTERS, bank_count(bank),
				  file->privileged);
	if (ret)
		return ret;
	ret = xa_alloc(&parts->banks, &bank->object.index, bank,
		       XA_LIMIT(0, dart_limits(file->card)->registers - 1), GFP_KERNEL);
	if (ret) {
		ret = ret == -EBUSY ? -ENOSPC : ret;
		goto give_back;
	}
	ret = bank_take_all(bank);
	if (!ret)
		return 0;
	xa_erase(&parts->banks, bank->object.index);
give_back:
	uln_share_give_some(file->share, DART_SHARE_REGISTERS, bank_count(bank));
	return ret;
}

static bool bank_is_sound(const struct dart_bank *argument)
{
	return !argument->bank && !argument->reserved && argument->registers &&
	       argument->registers <= DART_MAX_BANK && argument->entries <= DART_MAX_ENTRIES;
}

int dart_bank_open(struct uln_file *file, void *argument)
{
	struct dart_bank_object *bank __free(bank_put) = NULL;
	struct dart_bank *answer = argument;
	int ret;

	if (!bank_is_sound(answer))
		return -EINVAL;
	bank = kzalloc(sizeof(*bank), GFP_KERNEL_ACCOUNT);
	if (!bank)
		return -ENOMEM;
	uln_object_init(&bank->object, file, &dart_bank_kind);
	bank->registers = answer->registers;
	bank->entries = answer->entries;

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	ret = bank_open(bank);
	if (ret)
		return ret;
	uln_object_join(&bank->object, DART_KIND_BANK);
	answer->bank = bank->object.index;
	retain_and_null_ptr(bank);
	return 0;
}

static void bank_close(struct card_object *object)
{
	struct dart_bank_object *bank = bank_of(object);

	object->open = false;
	bank_give(bank);
	xa_erase(&dart_parts(object->file->card)->banks, object->index);
	uln_share_give_some(object->file->share, DART_SHARE_REGISTERS, bank_count(bank));
	uln_object_leave(object);
}

static void bank_release(struct card_object *object)
{
	uln_object_put(object);
}

static int bank_end(struct uln_file *file, u32 index)
{
	struct dart_bank_object *bank;

	scoped_class(uln_entry, entry, file) {
		if (entry.error)
			return entry.error;
		bank = dart_bank_find(file, index);
		if (!bank)
			return -ENOENT;
		if (bank->connections)
			return -EBUSY;
		bank_close(&bank->object);
	}
	bank_release(&bank->object);
	return 0;
}

int dart_bank_close(struct uln_file *file, void *argument)
{
	const struct uln_object *object = argument;

	if (object->reserved0 || object->reserved1)
		return -EINVAL;
	return bank_end(file, object->index);
}

void dart_bank_undo(struct uln_file *file, void *argument)
{
	const struct dart_bank *answer = argument;

	bank_end(file, answer->bank);
}

int dart_bank_set_program(struct uln_file *file, void *argument)
{
	const struct dart_set_program *set = argument;
	struct dart_program body = { .count = cpu_to_le32(set->count) };
	struct dart_bank_object *bank;

	if (set->reserved || !set->count || set->count > DART_SET_ENTRIES)
		return -EINVAL;
	memcpy(body.entries, set->entries, set->count * sizeof(*set->entries));
	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	bank = dart_bank_find(file, set->bank);
	if (!bank)
		return -ENOENT;
	if (set->first >= bank->entries || set->count > bank->entries - set->first)
		return -EINVAL;
	return uln_command(file->card, DART_COMMAND_SET_PROGRAM, bank->first_entry + set->first,
			   &body, sizeof(body));
}

const struct card_kind dart_bank_kind = {
	.close = bank_close,
	.release = bank_release,
	.free = bank_free,
};

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages of mappings that are withdrawn: the exporter is about to use its page for something else
 * (the second policy of section 4.4). The process loses the pages through which it stores; what it
 * had stored is sent as usual. Then the card sends nothing more, and the exporter is told so, after
 * all of that. A thread that touches one of the pages asks the exporter, and waits until it has a
 * page for it again.
 */
#include "shrimp.h"

/* Room for a mapping's pages in each of the three ways to them. */
#define FACE SHRIMP_MAP_WINDOW

static u32 withdrawn_page(u64 offset)
{
	return offset % FACE / ULN_PAGE_SIZE;
}

/* Lets pages of a mapping be withdrawn, before it is known. */
int shrimp_withdraw_prepare(struct shrimp_mapping_object *mapping)
{
	u32 bits = BITS_TO_LONGS(mapping->memory->count) * BITS_PER_LONG;

	mapping->withdrawn = bitmap_zalloc(5 * bits, GFP_KERNEL_ACCOUNT);
	if (!mapping->withdrawn)
		return -ENOMEM;
	mapping->closing = mapping->withdrawn + BIT_WORD(bits);
	mapping->owed = mapping->withdrawn + BIT_WORD(2 * bits);
	mapping->wanted = mapping->withdrawn + BIT_WORD(3 * bits);
	mapping->awaited = mapping->withdrawn + BIT_WORD(4 * bits);
	return 0;
}

/* Stops the card's sending from some pages; false: it still sends from some. */
static bool withdraw_close_some(struct uln_card *card, struct shrimp_mapping_object *mapping,
				const u32 *pages, u32 count)
{
	u64 busy = shrimp_withhold(card, mapping->memory, mapping, pages, count);
	u32 i;

	for (i = 0; i < count; i++) {
		if (busy & BIT_ULL(i))
			continue;
		__clear_bit(pages[i], mapping->closing);
		__set_bit(pages[i], mapping->owed);
	}
	return !busy;
}

/* Stops the card's sending from pages that cannot be stored to; false: it still sends from some. */
static bool withdraw_close(struct uln_card *card, struct shrimp_mapping_object *mapping)
{
	u32 pages[SHRIMP_MAX_ENTRIES], count = 0, page;
	bool all = true;

	for_each_set_bit(page, mapping->closing, mapping->memory->count) {
		pages[count++] = page;
		if (count == SHRIMP_MAX_ENTRIES) {
			all &= withdraw_close_some(card, mapping, pages, count);
			count = 0;
		}
	}
	if (count)
		all &= withdraw_close_some(card, mapping, pages, count);
	return all;
}

static bool withdraw_say(struct uln_card *card, const struct shrimp_mapping_object *mapping,
			 u32 what, const struct shrimp_range *range)
{
	const struct shrimp_part part = shrimp_part_pack(range);
	struct uln_head wire = {
		.reason = what,
		.from = mapping->object.index,
		.to = mapping->export,
		.private_length = sizeof(part),
	};

	return !shrimp_is_busy(uln_system_say(card->system, mapping->host, &wire, &part));
}

/* Tells the exporter that stores to pages have stopped; false: not of all yet. */
static bool withdraw_acknowledge(struct uln_card *card, struct shrimp_mapping_object *mapping)
{
	struct shrimp_range range;

	while (shrimp_next_range(mapping->owed, mapping->memory->count, &range)) {
		if (!withdraw_say(card, mapping, SHRIMP_SAY_INVALIDATED, &range))
			return false;
		bitmap_clear(mapping->owed, range.first, range.count);
	}
	return true;
}

/* Asks for pages that are touched, after all messages about them; false: not yet. */
static bool withdraw_ask(struct uln_card *card, struct shrimp_mapping_object *mapping)
{
	struct shrimp_range range;

	if (mapping->asked.count || mapping->progress != SHRIMP_MAPPED ||
	    !shrimp_next_range(mapping->wanted, mapping->memory->count, &range))
		return true;
	range.count = min(range.count, SHRIMP_PIECE);
	if (!withdraw_say(card, mapping, SHRIMP_SAY_AGAIN, &range))
		return false;
	bitmap_clear(mapping->wanted, range.first, range.count);
	mapping->asked = range;
	mapping->looks = 0;
	shrimp_answers_expect(card);
	return true;
}

/* Tells the exporter what is due; false: not all of it yet. */
bool shrimp_withdraw_tell(struct uln_card *card, struct shrimp_due *due)
{
	struct shrimp_mapping_object *mapping =
		container_of(due, struct shrimp_mapping_object, telling);
	/* Nothing is asked for before all is told that may be about the same pages. */
	bool all = withdraw_close(card, mapping) && withdraw_acknowledge(card, mapping) &&
		   withdraw_ask(card, mapping);

	if (all)
		list_del_init(&due->on_card);
	return all;
}

void shrimp_withdraw_look(struct uln_card *card, struct shrimp_mapping_object *mapping)
{
	if (mapping->withdrawn && !shrimp_withdraw_tell(card, &mapping->telling))
		shrimp_tell_soon(card, &mapping->telling);
}

/* Called when the exporter wants to use pages for something else. */
void shrimp_withdraw(struct uln_card *card, struct shrimp_mapping_object *mapping,
		     const struct shrimp_range *range)
{
	static const u64 faces[] = { SHRIMP_MAP_COMMANDS, SHRIMP_MAP_WINDOW, SHRIMP_MEMORY_OFFSET };
	u64 offset = (u64)range->first * ULN_PAGE_SIZE;
	u64 size = (u64)range->count * ULN_PAGE_SIZE;
	u32 i;

	/* A process that can store at any time keeps the pages. */
	if (!mapping->withdrawn || !range->count || range->first >= mapping->known ||
	    range->count > mapping->known - range->first)
		return;
	for (i = range->first; i < range->first + range->count; i++)
		if (!__test_and_set_bit(i, mapping->withdrawn))
			__set_bit(i, mapping->closing);
	for (i = 0; i < ARRAY_SIZE(faces); i++)
		uln_withdraw(&mapping->object, faces[i] + offset, size);
	shrimp_withdraw_look(card, mapping);
}

/* Called when the exporter has pages again. -EPROTO: not for what it was asked for. */
int shrimp_withdraw_undo(struct uln_card *card, struct shrimp_mapping_object *mapping,
			 const struct shrimp_pages *pages)
{
	u32 first = le32_to_cpu(pages->first), count = le32_to_cpu(pages->count);
	int ret = 0, sent;
	u32 i, page;

	if (!count || first != mapping->asked.first || count != mapping->asked.count)
		return -EPROTO;
	for (i = 0; i < count && !ret; i++)
		ret = shrimp_map_out(card, mapping, first + i, le64_to_cpu(pages->pages[i]));
	sent = shrimp_send_entries(card);
	ret = ret ?: sent;
	if (ret)
		return ret;
	for (i = 0; i < count; i++) {
		page = first + i;
		__clear_bit(page, mapping->withdrawn);
		__clear_bit(page, mapping->wanted);
		clear_bit(page, mapping->awaited);
	}
	mapping->asked.count = 0;
	wake_up_all(&mapping->wait);
	shrimp_withdraw_look(card, mapping);
	return 0;
}

/* The mapping has ended: drops its messages about pages; no thread waits for any. */
void shrimp_withdraw_end(struct shrimp_mapping_object *mapping)
{
	list_del_init(&mapping->telling.on_card);
	mapping->asked.count = 0;
}

bool shrimp_withdraw_ready(struct card_object *object, u64 offset)
{
	struct shrimp_mapping_object *mapping =
		container_of(object, struct shrimp_mapping_object, object);
	struct uln_card *card = object->card;
	u32 page = withdrawn_page(offset);

	if (!mapping->withdrawn || !test_bit(page, mapping->withdrawn) ||
	    mapping->progress == SHRIMP_ENDED || !card->live)
		return true;
	if (!test_and_set_bit(page, mapping->awaited)) {
		shrimp_parts(card)->awaited++;
		__set_bit(page, mapping->wanted);
		shrimp_withdraw_look(card, mapping);
	}
	return false;
}

/*
 * Waits for the answer, not for the page. That may have been withdrawn again before the waiter
 * runs, and it is not asked for again before it is touched.
 */
void shrimp_withdraw_await(struct card_object *object, u64 offset, unsigned int state)
{
	struct shrimp_mapping_object *mapping =
		container_of(object, struct shrimp_mapping_object, object);
	const struct uln_card *card = object->card;
	u32 page = withdrawn_page(offset);

	wait_event_state(mapping->wait,
			 !test_bit(page, mapping->awaited) ||
				 READ_ONCE(mapping->progress) == SHRIMP_ENDED ||
				 !READ_ONCE(object->open) || !READ_ONCE(card->live),
			 state);
}

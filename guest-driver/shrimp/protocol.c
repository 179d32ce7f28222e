// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages between drivers about exports and mappings: SHRIMP_SAY_*. Those of another host are not
 * trusted but checked.
 */
#include "shrimp.h"

/* Delay until a message that found no room is tried again. */
#define AGAIN (HZ / 20)

static int say(struct hamlyn_card *card, u32 host, const struct hamlyn_wire *wire, const void *data)
{
	return hamlyn_system_say(card->system, host, wire, data);
}

/* Asks for the next pages of a mapping. */
int shrimp_say_map(struct hamlyn_card *card, const struct shrimp_mapping_object *mapping)
{
	struct shrimp_ask ask = {
		.key = mapping->key,
		.offset = mapping->offset,
		.length = mapping->memory->length,
		.first = mapping->known,
		.place = mapping->memory->first,
	};
	struct hamlyn_wire wire = {
		.reason = SHRIMP_SAY_MAP,
		.from = mapping->object.index,
		.to = mapping->export,
		.private_length = sizeof(ask),
	};

	return hamlyn_system_say_for(card->system, mapping->object.file->share, mapping->host,
				     &wire, &ask);
}

/* Tells the mappers of an export that it is gone; false: not all of them yet. */
static bool tell_export(struct hamlyn_card *card, struct shrimp_export_object *export)
{
	struct hamlyn_wire wire = { .reason = SHRIMP_SAY_GONE, .from = export->object.index };
	u32 host;

	for (host = 0; host < SHRIMP_HOSTS; host++)
		if (export->untold & BIT_ULL(host) && !shrimp_is_busy(say(card, host, &wire, NULL)))
			export->untold &= ~BIT_ULL(host);
	if (!export->untold)
		list_del_init(&export->on_untold);
	return !export->untold;
}

/* Tells an exporter that a mapping is gone; false: not yet. */
static bool tell_mapping(struct hamlyn_card *card, struct shrimp_mapping_object *mapping)
{
	struct hamlyn_wire wire = {
		.reason = SHRIMP_SAY_UNMAP,
		.from = mapping->object.index,
		.to = mapping->export,
	};

	if (shrimp_is_busy(say(card, mapping->host, &wire, NULL)))
		return false;
	shrimp_mapping_told(card, mapping);
	return true;
}

/* Has messages that found no room tried again soon. */
void shrimp_tell_again(struct hamlyn_card *card)
{
	if (card->live)
		queue_delayed_work(system_freezable_wq, &shrimp_parts(card)->tell, AGAIN);
}

/* Sends messages about pages that are due; a message about an end may follow them. */
static bool tell_of_pages(struct hamlyn_card *card)
{
	struct shrimp_parts *parts = shrimp_parts(card);
	struct shrimp_mapping_object *mapping, *next_mapping;
	struct shrimp_export_object *export, *next_export;
	bool all = true;

	list_for_each_entry_safe(export, next_export, &parts->telling_exports, on_telling)
		all = shrimp_imports_tell(card, export) && all;
	list_for_each_entry_safe(mapping, next_mapping, &parts->telling_mappings, on_telling)
		all = shrimp_withdraw_tell(card, mapping) && all;
	return all;
}

/* Sends messages that are due, now or later. */
void shrimp_tell(struct hamlyn_card *card)
{
	struct shrimp_parts *parts = shrimp_parts(card);
	struct shrimp_mapping_object *mapping, *next_mapping;
	struct shrimp_export_object *export, *next_export;
	bool all = tell_of_pages(card);

	list_for_each_entry_safe(export, next_export, &parts->untold_exports, on_untold)
		all = tell_export(card, export) && all;
	list_for_each_entry_safe(mapping, next_mapping, &parts->untold_mappings, on_untold)
		all = tell_mapping(card, mapping) && all;
	if (!all)
		shrimp_tell_again(card);
}

void shrimp_tell_later(struct work_struct *work)
{
	struct shrimp_parts *parts = container_of(to_delayed_work(work), struct shrimp_parts, tell);

	guard(mutex)(&parts->card.lock);
	if (parts->card.live)
		shrimp_tell(&parts->card);
}

/* Handles a host's request for pages of an export. */
static void message_map(struct hamlyn_card *card, u32 host, const struct hamlyn_wire *asked,
			const struct shrimp_ask *ask)
{
	struct shrimp_refused refused = {
		.why = shrimp_import(card, host, asked->to, asked->from, ask),
	};
	struct hamlyn_wire wire = {
		.reason = SHRIMP_SAY_REFUSED,
		.to = asked->from,
		.private_length = sizeof(refused),
	};

	/* A host that asks for more at once than it may gets no answer. */
	if (refused.why)
		say(card, host, &wire, &refused);
}

/* Copies a message's data, if there is enough of it. */
static bool message_has(const struct hamlyn_wire *wire, const u8 *data, void *into, size_t size)
{
	if (wire->private_length < size)
		return false;
	memcpy(into, data, size);
	return true;
}

void shrimp_message(struct hamlyn_card *card, u32 host, const struct hamlyn_wire *wire,
		    const u8 *data)
{
	union {
		struct shrimp_ask ask;
		struct shrimp_pages pages;
		struct shrimp_refused refused;
		struct shrimp_part part;
	} body;

	static_assert(sizeof(body) <= HAMLYN_MAX_PRIVATE);
	switch (wire->reason) {
	case SHRIMP_SAY_MAP:
		if (message_has(wire, data, &body.ask, sizeof(body.ask)))
			message_map(card, host, wire, &body.ask);
		break;
	case SHRIMP_SAY_PAGES:
		if (message_has(wire, data, &body.pages, sizeof(body.pages)))
			shrimp_mapping_pages(card, host, wire->to, &body.pages);
		break;
	case SHRIMP_SAY_REFUSED:
		if (message_has(wire, data, &body.refused, sizeof(body.refused)))
			shrimp_mapping_refused(card, host, wire->to, body.refused.why);
		break;
	case SHRIMP_SAY_UNMAP:
		shrimp_import_end(card, host, wire->to, wire->from);
		break;
	case SHRIMP_SAY_GONE:
		shrimp_mappings_gone(card, host, wire->from);
		break;
	case SHRIMP_SAY_INVALIDATE:
		if (message_has(wire, data, &body.part, sizeof(body.part)))
			shrimp_mapping_invalidate(card, host, wire->to, wire->from, &body.part);
		break;
	case SHRIMP_SAY_INVALIDATED:
		if (message_has(wire, data, &body.part, sizeof(body.part)))
			shrimp_import_invalidated(card, host, wire->to, wire->from, &body.part);
		break;
	case SHRIMP_SAY_AGAIN:
		if (message_has(wire, data, &body.part, sizeof(body.part)))
			shrimp_import_again(card, host, wire->to, wire->from, &body.part);
		break;
	}
}

/*
 * Called when nothing is arranged with a host any longer. When the card has failed this may come in
 * the middle of anything: then all ends later, with the files and the driver's own objects.
 */
void shrimp_lost(struct hamlyn_card *card, u32 host)
{
	if (!card->live)
		return;
	shrimp_imports_lost(card, host);
	shrimp_mappings_lost(card, host);
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages of other hosts' drivers about exports and mappings: SHRIMP_SAY_*. They are not trusted
 * but checked.
 */
#include "shrimp.h"

/* Handles a host's request for pages of an export. */
static void message_map(struct uln_card *card, u32 host, const struct uln_head *asked,
			const struct shrimp_ask *ask)
{
	u32 why = shrimp_import(card, host, asked->to, asked->from, ask);
	struct shrimp_refused refused = { .why = cpu_to_le32(why) };
	struct uln_head wire = {
		.reason = SHRIMP_SAY_REFUSED,
		.to = asked->from,
		.private_length = sizeof(refused),
	};

	/* A host that asks for more at once than it may gets no answer. */
	if (why)
		uln_system_say(card->system, host, &wire, &refused);
}

/* Copies a message's data, if there is enough of it. */
static bool message_has(const struct uln_head *wire, const u8 *data, void *into, size_t size)
{
	if (wire->private_length < size)
		return false;
	memcpy(into, data, size);
	return true;
}

/* Copies a part from a message's data, if there is enough of it. */
static bool message_has_range(const struct uln_head *wire, const u8 *data,
			      struct shrimp_range *range)
{
	struct shrimp_part part;

	if (!message_has(wire, data, &part, sizeof(part)))
		return false;
	range->first = le32_to_cpu(part.first);
	range->count = le32_to_cpu(part.count);
	return true;
}

void shrimp_message(struct uln_card *card, u32 host, const struct uln_head *wire,
		    const u8 *data)
{
	union {
		struct shrimp_ask ask;
		struct shrimp_pages pages;
		struct shrimp_refused refused;
	} body;
	struct shrimp_range range;

	static_assert(sizeof(body) <= ULN_MAX_PRIVATE);
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
			shrimp_mapping_refused(card, host, wire->to,
					       le32_to_cpu(body.refused.why));
		break;
	case SHRIMP_SAY_UNMAP:
		shrimp_import_end(card, host, wire->to, wire->from);
		break;
	case SHRIMP_SAY_GONE:
		shrimp_mappings_gone(card, host, wire->from);
		break;
	case SHRIMP_SAY_INVALIDATE:
		if (message_has_range(wire, data, &range))
			shrimp_mapping_invalidate(card, host, wire->to, wire->from, &range);
		break;
	case SHRIMP_SAY_INVALIDATED:
		if (message_has_range(wire, data, &range))
			shrimp_import_invalidated(card, host, wire->to, wire->from, &range);
		break;
	case SHRIMP_SAY_AGAIN:
		if (message_has_range(wire, data, &range))
			shrimp_import_again(card, host, wire->to, wire->from, &range);
		break;
	}
}

/*
 * Called when nothing is arranged with a host any longer. When the card has failed this may come in
 * the middle of anything: then all ends later, with the files and the driver's own objects.
 */
void shrimp_lost(struct uln_card *card, u32 host)
{
	if (!card->live)
		return;
	shrimp_imports_lost(card, host);
	shrimp_mappings_lost(card, host);
}

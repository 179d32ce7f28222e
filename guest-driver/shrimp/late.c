// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hosts that delay this one. The operating system of another host may take to answer as long as it
 * may be without a sign of life (the module's parameter peer_timeout):
 *
 *   asked for                           if it does not answer
 *   pages of a mapping (MAP, AGAIN)     the mapping ends
 *   UNMAP, after GONE                   the host is taken for lost, and so are its mappings
 *
 * Time is counted in checks. So a machine that stood still itself does not give up other hosts.
 */
#include "shrimp.h"

static bool is_late(u8 *looks)
{
	return ++*looks > SHRIMP_LOOKS;
}

/*
 * Ends mappings whose exporter does not answer. Returns whether any other still awaits an answer.
 */
static bool look_at_mappings(struct uln_card *card)
{
	struct shrimp_mapping_object *mapping;
	unsigned long index;
	bool more = false;

	xa_for_each(&shrimp_parts(card)->mappings, index, mapping) {
		if (mapping->progress == SHRIMP_ENDED ||
		    (mapping->progress == SHRIMP_MAPPED && !mapping->asked.count))
			continue;
		if (is_late(&mapping->looks))
			shrimp_mapping_cut(card, mapping, -ETIMEDOUT, SHRIMP_STATE_LOST);
		else
			more = true;
	}
	return more;
}

/* Sets @late to hosts that keep exports from ending. Returns whether any export still has time. */
static bool look_at_exports(struct uln_card *card, u64 *late)
{
	struct shrimp_export_object *export;
	const struct shrimp_import *import;
	unsigned long index;
	bool more = false;
	u64 hosts = 0;

	xa_for_each(&shrimp_parts(card)->exports, index, export) {
		if (export->object.open)
			continue;
		if (!is_late(&export->looks)) {
			more = true;
			continue;
		}
		list_for_each_entry(import, &export->imports, on_export)
			hosts |= BIT_ULL(import->host);
	}
	*late = hosts;
	return more;
}

void shrimp_answers_look(struct work_struct *work)
{
	struct shrimp_parts *parts =
		container_of(to_delayed_work(work), struct shrimp_parts, answers);
	struct uln_card *card = &parts->card;
	u64 late;
	bool more;

	guard(mutex)(&card->lock);
	if (!card->live)
		return;
	more = look_at_mappings(card);
	more = look_at_exports(card, &late) || more;
	shrimp_lose(card, late, "does not let go of an export that was taken back");
	shrimp_tell(card);
	if (more)
		shrimp_answers_expect(card);
}

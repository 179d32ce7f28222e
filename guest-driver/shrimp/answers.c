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

#define LOOKS 8

/* Starts the checks, as an answer is awaited from now on. */
void shrimp_answers_expect(struct hamlyn_card *card)
{
	if (card->live)
		queue_delayed_work(system_freezable_wq, &shrimp_parts(card)->answers,
				   hamlyn_system_patience() / LOOKS);
}

static bool is_late(u8 *looks)
{
	return ++*looks > LOOKS;
}

/*
 * Ends mappings whose exporter does not answer. Returns whether any other still awaits an answer.
 */
static bool look_at_mappings(struct hamlyn_card *card)
{
	struct shrimp_mapping_object *mapping;
	unsigned long index;
	bool more = false;

	xa_for_each(&shrimp_parts(card)->mappings, index, mapping) {
		if (mapping->progress == SHRIMP_ENDED ||
		    (mapping->progress == SHRIMP_MAPPED && !mapping->asked.count))
			continue;
		if (is_late(&mapping->looks))
			shrimp_mapping_late(card, mapping);
		else
			more = true;
	}
	return more;
}

/* Adds hosts that keep exports from ending to @late. Returns whether any export still has time. */
static bool look_at_exports(struct hamlyn_card *card, u64 *late)
{
	struct shrimp_export_object *export;
	const struct shrimp_import *import;
	unsigned long index;
	bool more = false;

	xa_for_each(&shrimp_parts(card)->exports, index, export) {
		if (export->object.open)
			continue;
		if (!is_late(&export->looks)) {
			more = true;
			continue;
		}
		list_for_each_entry(import, &export->imports, on_export)
			*late |= BIT_ULL(import->host);
	}
	return more;
}

static void lose(struct hamlyn_card *card, u64 hosts, const char *why)
{
	u32 host;

	for (host = 0; host < SHRIMP_HOSTS; host++) {
		if (!(hosts & BIT_ULL(host)))
			continue;
		dev_warn_ratelimited(&card->dev, "host %u %s: it is taken for lost\n", host, why);
		hamlyn_system_lose(card->system, host);
	}
}

void shrimp_answers_look(struct work_struct *work)
{
	struct shrimp_parts *parts =
		container_of(to_delayed_work(work), struct shrimp_parts, answers);
	struct hamlyn_card *card = &parts->card;
	u64 late = 0;
	bool more;

	guard(mutex)(&card->lock);
	if (!card->live)
		return;
	more = look_at_mappings(card);
	more = look_at_exports(card, &late) || more;
	lose(card, late, "does not let go of an export that was taken back");
	shrimp_tell(card);
	if (more)
		shrimp_answers_expect(card);
}

/*
 * The card may have cut off hosts that stalled this one's processors. Mappings to them lead nowhere
 * from then on: processes detect that by SHRIMP_IOC_STATE. The card's lock is held.
 */
void shrimp_cut_off(struct hamlyn_card *card)
{
	struct shrimp_parts *parts = shrimp_parts(card);
	u64 cut_off = readq(card->registers + SHRIMP_REG_CUT_OFF), news = cut_off & ~parts->cut_off;

	/* The read was not answered in time. The card interrupts again when it cuts a host off. */
	if (PCI_POSSIBLE_ERROR(cut_off))
		return;
	parts->cut_off = cut_off;
	if (news)
		lose(card, news, "takes too little of what is sent to it");
}

/* Returns whether nothing can be sent to a host for a while. The card's lock is held. */
bool shrimp_is_cut_off(struct hamlyn_card *card, u32 host)
{
	struct shrimp_parts *parts = shrimp_parts(card);
	u64 cut_off;

	if (parts->cut_off & BIT_ULL(host)) {
		cut_off = readq(card->registers + SHRIMP_REG_CUT_OFF);
		if (!PCI_POSSIBLE_ERROR(cut_off))
			parts->cut_off = cut_off;
	}
	return parts->cut_off & BIT_ULL(host);
}

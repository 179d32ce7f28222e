// SPDX-License-Identifier: GPL-2.0-only
/* Periodic check for late answers, and for hosts whose cards accept too few packets. */
#include "shrimp.h"

/* Starts the checks, as an answer is awaited from now on. */
void shrimp_answers_expect(struct uln_card *card)
{
	if (card->live)
		queue_delayed_work(system_freezable_wq, &shrimp_parts(card)->answers,
				   uln_system_patience() / SHRIMP_LOOKS);
}

void shrimp_lose(struct uln_card *card, u64 hosts, const char *why)
{
	u32 host;

	for (host = 0; host < SHRIMP_HOSTS; host++) {
		if (!(hosts & BIT_ULL(host)))
			continue;
		dev_warn_ratelimited(&card->dev, "host %u %s: it is taken for lost\n", host, why);
		uln_system_lose(card->system, host);
	}
}

/*
 * The card may have cut off hosts that stalled this one's processors. Mappings to them lead nowhere
 * from then on: processes detect that by SHRIMP_IOC_STATE. The card's lock is held.
 */
void shrimp_cut_off(struct uln_card *card)
{
	struct shrimp_parts *parts = shrimp_parts(card);
	u64 cut_off = readq(card->registers + SHRIMP_REG_CUT_OFF), news = cut_off & ~parts->cut_off;

	/* The read was not answered in time. The card interrupts again when it cuts a host off. */
	if (PCI_POSSIBLE_ERROR(cut_off))
		return;
	parts->cut_off = cut_off;
	if (news)
		shrimp_lose(card, news, "takes too little of what is sent to it");
}

/* Returns whether nothing can be sent to a host for a while. The card's lock is held. */
bool shrimp_is_cut_off(struct uln_card *card, u32 host)
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

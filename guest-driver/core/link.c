// SPDX-License-Identifier: GPL-2.0-only
/* The link, as the card last reported it. */
#include <linux/sysfs.h>

#include "uln_core.h"
#include "uln_trace.h"

/* The link may change while it is read. It is then read again at once, up to this limit. */
#define LINK_TRIES 3

static u32 link_register(struct uln_card *card, u32 offset)
{
	return readl(card->registers + offset);
}

/* Wakes those who poll the attributes of sysfs.c. */
static void link_notify(struct uln_card *card)
{
	lockdep_assert_held(&card->lock);
	if (!card->shown)
		return;
	sysfs_notify(&card->dev.kobj, NULL, "host_id");
	sysfs_notify(&card->dev.kobj, NULL, "link");
}

/*
 * Reports the link if it has changed since the last report; the card's lock is held. A link that
 * was up at the last report has been down since, even if it is up now: messages in flight are lost.
 */
void uln_link_report(struct uln_card *card)
{
	unsigned int tries = LINK_TRIES;
	u32 changes, link, host;
	bool lost, was_up;

	if (!card->live)
		return;
	/* Read both values at one moment, if possible. Each later change raises an interrupt. */
	do {
		changes = link_register(card, ULN_REG_LINK_CHANGES);
		link = link_register(card, ULN_REG_LINK);
		host = link_register(card, ULN_REG_HOST_ID);
	} while (changes != link_register(card, ULN_REG_LINK_CHANGES) && --tries);
	/* The card did not answer in time: the next check or interrupt reads the link. */
	if (PCI_POSSIBLE_ERROR(link))
		return;
	/* A card that was recreated in the meantime may have reached the same count. */
	if (changes == card->link_changes && (link == 1) == card->link &&
	    (!card->link || host == card->host))
		return;
	/* A link that was down and came up once has lost nothing. Any other change may have. */
	lost = card->link || link != 1 || changes != card->link_changes + 1;
	was_up = card->link;
	card->link_changes = changes;
	card->link = link == 1;
	/* A card older than version 2.4 returns 0. */
	uln_system_set_hosts(card->system, link_register(card, ULN_REG_PORTS));
	if (was_up)
		dev_info_ratelimited(&card->dev, "link %s down\n", card->link ? "was" : "is");
	if (lost)
		uln_system_lost(card->system, ULN_END_LINK_LOST);
	if (card->link) {
		card->host = host;
		dev_info_ratelimited(&card->dev, "link is up, host %u\n", card->host);
	}
	trace_hamlyn_link(card->number, card->link, host);
	link_notify(card);
	wake_up_all(&card->link_changed);
}

/* Returns whether the link is up, and this host's id then, for struct peer_transport_ops. */
bool uln_link_host(struct uln_card *card, u32 *host)
{
	uln_link_report(card);
	*host = card->host;
	return card->link;
}

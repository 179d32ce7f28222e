// SPDX-License-Identifier: GPL-2.0-only
/* Endpoints whose requests the driver makes itself: its own, and those of kick.c. */
#include "clan.h"

/* Returns the page through which the driver controls an endpoint. */
void __iomem *clan_endpoint_registers(struct uln_card *card, u32 endpoint)
{
	return clan_parts(card)->pages + (u64)endpoint * CLAN_ENDPOINT_SIZE;
}

/*
 * Has the card carry out the request that was written after @put others, at an endpoint of the
 * driver. The card is told only if it is idle.
 */
void clan_requests_go(struct uln_card *card, u32 endpoint, const struct uln_pages *memory,
		      u32 *put)
{
	const u32 *idle = clan_state(memory, CLAN_STATE_IDLE);
	u32 *word = clan_state(memory, CLAN_STATE_PUT);

	/* The card reads the whole request when it sees the count. */
	smp_store_release(word, ++*put);
	mb(); /* Either the card sees the count, or the driver sees it idle. */
	if (READ_ONCE(*idle))
		writel(1, clan_endpoint_registers(card, endpoint) + CLAN_ENDPOINT_GO);
}

// SPDX-License-Identifier: GPL-2.0-only
/* Endpoints that the driver uses itself: its own, those of lanes, and those of kick.c. */
#include "clan.h"

/* Returns the page through which the driver controls an endpoint. */
void __iomem *clan_endpoint_registers(struct uln_card *card, u32 endpoint)
{
	return clan_parts(card)->pages + (u64)endpoint * CLAN_ENDPOINT_SIZE;
}

/*
 * Has the card carry out all requests up to number @put, at an endpoint of the driver. The card is
 * told only if it is idle.
 */
void clan_requests_go(struct uln_card *card, u32 endpoint, const struct uln_pages *memory, u32 put)
{
	__le32 *word = clan_state(memory, CLAN_STATE_PUT);

	/* The card reads the whole request when it sees the count. */
	smp_store_release(word, cpu_to_le32(put));
	mb(); /* Either the card sees the count, or the driver sees it idle. */
	if (clan_state_read(memory, CLAN_STATE_IDLE))
		writel(1, clan_endpoint_registers(card, endpoint) + CLAN_ENDPOINT_GO);
}

/*
 * Has an endpoint's only Tripwire fire for what other hosts write to a range of an aperture.
 * @actions is any of CLAN_TRIPWIRE_FIFO and the like.
 */
int clan_tripwire_set(struct uln_card *card, u32 endpoint, const struct uln_pages *memory,
		      u32 aperture, u64 offset, u64 length, u32 actions)
{
	const u32 serial = 1, number = CLAN_OWN_TRIPWIRE;
	void __iomem *tripwire =
		clan_endpoint_registers(card, endpoint) + number * CLAN_TRIPWIRE_STRIDE;
	u32 answer = CLAN_STATE_TRIPWIRES + (2 * number + 1) * sizeof(u32);
	u32 said;

	writeq(offset, tripwire + CLAN_TRIPWIRE_OFFSET);
	writeq(length, tripwire + CLAN_TRIPWIRE_LENGTH);
	writeq(aperture, tripwire + CLAN_TRIPWIRE_TARGET);
	writel(serial << 16 | CLAN_TRIPWIRE_ENABLE | CLAN_TRIPWIRE_WRITES | actions,
	       tripwire + CLAN_TRIPWIRE_CONTROL);
	/* The card has it when this is answered. */
	readl(tripwire);
	said = clan_state_read(memory, answer);
	if (said == (serial << 16 | CLAN_TRIPWIRE_OK))
		return 0;
	dev_err(&card->pdev->dev, "a Tripwire for messages is refused (%#x)\n", said);
	return -EIO;
}

// SPDX-License-Identifier: GPL-2.0-only
/* Room on the card for the driver's own objects (wellknown.c), and what it leaves processes. */
#include "hamlyn.h"

/*
 * Returns whether the card has memory for the driver's objects and one of each kind for processes.
 */
static bool room_fits(const struct uln_query *limits)
{
	const struct hamlyn_sram_query *sram = (const void *)limits->card;

	/* Cards older than version 2.6 have a table for each kind. */
	return !sram->room || sram->room >= (ULN_WELL_KNOWN_SLOTS + 1) * HAMLYN_SRAM_SLOT +
						    2 * (HAMLYN_SRAM_TERMINUS + HAMLYN_SRAM_QUEUE);
}

/*
 * Returns whether the card has room for the driver's own objects and for at least one of each kind
 * for processes. Also, a message must fit into one packet, so that it cannot be lost in part.
 */
static bool room_suffices(const struct uln_query *limits)
{
	return limits->termini > 1 && limits->queues > 1 &&
	       limits->slots > ULN_WELL_KNOWN_SLOTS && room_fits(limits) &&
	       limits->packet_size >= ULN_MAX_NAME + ULN_MAX_PRIVATE;
}

u32 hamlyn_wellknown_slots(const struct uln_card *card)
{
	return room_suffices(&card->limits) ? ULN_WELL_KNOWN_SLOTS : 0;
}

/* Subtracts the driver's own objects from what processes are told of the card. */
void hamlyn_wellknown_query(const struct uln_card *card, struct uln_query *query)
{
	if (!hamlyn_wellknown_slots(card))
		return;
	query->termini--;
	query->queues--;
	query->slots -= ULN_WELL_KNOWN_SLOTS;
	if (uln_system_is_open(card->system))
		query->capabilities |= ULN_CAPABILITY_CONNECTIONS | ULN_CAPABILITY_QUESTIONS;
}

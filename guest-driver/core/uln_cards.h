/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The cards that the driver supports: the PCI device id and the operations of each. The core knows
 * cards by name only here.
 */
#ifndef _ULN_CARDS_H
#define _ULN_CARDS_H

#include "clan_card.h"
#include "dart_card.h"
#include "echo_card.h"
#include "hamlyn_card.h"
#include "shrimp_card.h"

#define ULN_CARDS(CARD) \
	CARD(HAMLYN_PCI_DEVICE, hamlyn_card_ops) \
	CARD(SHRIMP_PCI_DEVICE, shrimp_card_ops) \
	CARD(CLAN_PCI_DEVICE, clan_card_ops) \
	CARD(DART_PCI_DEVICE, dart_card_ops) \
	CARD(ECHO_PCI_DEVICE, echo_card_ops)

struct card_ops;
#define ULN_CARD_DECLARATION(device, operations) extern const struct card_ops operations;
ULN_CARDS(ULN_CARD_DECLARATION)

#endif /* _ULN_CARDS_H */

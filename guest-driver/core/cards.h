/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The cards that the driver knows: for each its PCI device id and its operations. It is all that the
 * core knows of them by name.
 */
#ifndef _HAMLYN_CARDS_H
#define _HAMLYN_CARDS_H

#define CARDS(CARD) \
	CARD(HAMLYN_PCI_DEVICE, hamlyn_card_ops)

#endif /* _HAMLYN_CARDS_H */

// SPDX-License-Identifier: GPL-2.0-only
/* Stopping a card. */
#include "uln_core.h"

/*
 * Stops the card's DMA for good, whether or not it answers, and wakes all threads that wait for it;
 * its lock is held. Afterwards all memory known to the card may be unmapped and unpinned.
 */
void uln_card_stop(struct uln_card *card)
{
	struct uln_file *file;

	lockdep_assert_held(&card->lock);
	uln_handshake_stop(card);
	if (card->live)
		writel(ULN_CONTROL_RESET, card->registers + ULN_REG_CONTROL);
	pci_clear_master(card->pdev);
	/* Data of pending reads comes too late to be deposited, but memory may still be read. */
	if (!pci_channel_offline(card->pdev) && !pci_wait_for_pending_transaction(card->pdev))
		dev_err(&card->dev,
			"the card still waits for memory, and may read what is given back\n");
	WRITE_ONCE(card->live, false);
	card->ready = false;
	uln_system_stop(card->system);
	card->ops->stop(card);
	list_for_each_entry(file, &card->files, on_card)
		wake_up_all(&file->wait);
}

/* Stops a card that misbehaves, until it is reset or bound again. */
void uln_card_fail(struct uln_card *card)
{
	if (card->live)
		dev_err(&card->pdev->dev, "the card is stopped; reset it to use it again\n");
	uln_card_stop(card);
}

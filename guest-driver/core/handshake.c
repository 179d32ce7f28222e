// SPDX-License-Identifier: GPL-2.0-only
/*
 * The handshake timer (section 2.8 of the paper). If the host does not store to HANDSHAKE for a
 * whole period, the card takes the host for dead. It then discards what arrives, so that the fabric
 * stays live.
 *
 * A thread makes the store, not a timer interrupt: a kernel that has panicked may still take
 * interrupts, but schedules no threads. The thread runs before ordinary ones, needs no memory and
 * takes no lock, so that neither load nor a long call looks like death. Nor is it frozen with
 * processes, before the card is suspended and after it is resumed.
 */
#include "uln_core.h"

/* Stores in a period: some may be late. */
#define HANDSHAKE_BEATS 4

static struct workqueue_struct *handshake_beats;

int uln_handshake_init(void)
{
	handshake_beats = alloc_workqueue(ULN_NAME "-handshake",
					  WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM, 0);
	return handshake_beats ? 0 : -ENOMEM;
}

void uln_handshake_exit(void)
{
	destroy_workqueue(handshake_beats);
}

/*
 * Handles a machine that stood still, as a paused guest does, and runs again. The card has kept
 * what was open, unless it was reset meanwhile. Then it must not be enabled, and
 * uln_card_answers() detects the reset.
 */
static void handshake_lapsed(struct uln_card *card)
{
	if (readq(card->registers + ULN_REG_COMMAND_PAGE) != card->page_dma)
		return;
	card->lapses++;
	dev_warn_ratelimited(&card->dev,
			     "no sign of this machine for %u ms or more: the card discarded what arrived, messages may be lost (lapse %u of the handshake)\n",
			     card->handshake_ms, card->lapses);
	writel(ULN_CONTROL_ENABLE, card->registers + ULN_REG_CONTROL);
	uln_system_lapsed(card->system);
}

/* The shortest period that can be kept, in ms: a thread runs no sooner than at the next tick. */
u32 uln_handshake_least(void)
{
	return HANDSHAKE_BEATS * jiffies_to_msecs(1);
}

static void handshake_queue(struct uln_card *card)
{
	unsigned long delay = msecs_to_jiffies(card->handshake_ms / HANDSHAKE_BEATS);

	/* The period was read from the card twice, and may differ from the value checked. */
	queue_delayed_work(handshake_beats, &card->beat, max(delay, 1UL));
}

/* Restarts the timer, then checks whether that was in time. */
void uln_handshake_beat(struct work_struct *work)
{
	struct uln_card *card = container_of(to_delayed_work(work), struct uln_card, beat);

	writel(1, card->registers + ULN_REG_HANDSHAKE);
	/*
	 * A card that is gone reads as ones, and so as enabled: uln_card_watch() will detect it.
	 */
	if (!(readl(card->registers + ULN_REG_CONTROL) & ULN_CONTROL_ENABLE))
		handshake_lapsed(card);
	handshake_queue(card);
}

/* Called when the card has been enabled, and its timer has started. */
void uln_handshake_start(struct uln_card *card)
{
	card->handshake_ms = readl(card->registers + ULN_REG_HANDSHAKE_TIMEOUT);
	if (card->handshake_ms)
		handshake_queue(card);
}

/* On return the handshake no longer accesses or enables the card. */
void uln_handshake_stop(struct uln_card *card)
{
	cancel_delayed_work_sync(&card->beat);
}

// SPDX-License-Identifier: GPL-2.0-only
/* A FIFO by which a card says whom the driver is to wake, or what to look after. */
#include "hamlyn_core.h"

/* The n-th, from 0, is at n modulo the ring's size. */
struct fifo_record {
	__u32 what;
	/* n + 1. The card writes it last. */
	__u32 number;
};
static_assert(sizeof(struct fifo_record) == HAMLYN_FIFO_SIZE);

/*
 * Takes records that are there, and tells the card so: after that it writes one anew for each of
 * what they name. Only then may who sleeps look, or what happens meanwhile is overlooked. The card
 * raises the vector again for what there is more. The card's lock is held.
 */
u32 hamlyn_fifo_take(struct hamlyn_card *card, struct hamlyn_fifo *fifo, u32 taken_register,
		     u32 *what)
{
	const struct fifo_record *record;
	u32 place, found;

	lockdep_assert_held(&card->lock);
	for (found = 0; found < HAMLYN_FIFO_BATCH; found++) {
		place = (fifo->taken & (fifo->records - 1)) * HAMLYN_FIFO_SIZE;
		record = page_address(fifo->memory->page[place / HAMLYN_PAGE_SIZE]) +
			 place % HAMLYN_PAGE_SIZE;
		if (READ_ONCE(record->number) != fifo->taken + 1)
			break;
		dma_rmb(); /* What it is was written before the number. */
		what[found] = READ_ONCE(record->what);
		fifo->taken++;
	}
	if (found)
		writel(fifo->taken, card->registers + taken_register);
	return found;
}

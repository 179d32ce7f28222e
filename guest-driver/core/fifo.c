// SPDX-License-Identifier: GPL-2.0-only
/* A FIFO by which a card reports what the driver must wake or handle. */
#include "uln_core.h"

/* Record n, counted from 0, is at index n modulo the ring's size. */
struct fifo_record {
	__le32 what;
	/* n + 1. The card writes it last. */
	__le32 number;
};
static_assert(sizeof(struct fifo_record) == ULN_FIFO_SIZE);

/*
 * Takes the available records, and reports this to the card. From then on the card writes a new
 * record for each object that they name. Sleepers may check only after that, or events in between
 * are missed. The card raises the vector again if there are more records. The card's lock is held.
 */
u32 uln_fifo_take(struct uln_card *card, struct uln_fifo *fifo, u32 taken_register,
		  u32 *what)
{
	const struct fifo_record *record;
	u32 place, found;

	lockdep_assert_held(&card->lock);
	for (found = 0; found < ULN_FIFO_BATCH; found++) {
		place = (fifo->taken & (fifo->records - 1)) * ULN_FIFO_SIZE;
		record = page_address(fifo->memory->page[place / ULN_PAGE_SIZE]) +
			 place % ULN_PAGE_SIZE;
		if (le32_to_cpu(READ_ONCE(record->number)) != fifo->taken + 1)
			break;
		dma_rmb(); /* The card wrote @what before the number. */
		what[found] = le32_to_cpu(READ_ONCE(record->what));
		fifo->taken++;
	}
	if (found)
		writel(fifo->taken, card->registers + taken_register);
	return found;
}

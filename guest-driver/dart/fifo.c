// SPDX-License-Identifier: GPL-2.0-only
/*
 * The FIFO: the card reports which connections wait for pages, and which queues and connections
 * have something for their sleepers. The thread of the interrupt handles it.
 */
#include "dart.h"

static_assert(sizeof(struct dart_fifo_record) == ULN_FIFO_SIZE);

#define WHAT_MASK (DART_FIFO_QUEUE | DART_FIFO_LEFT | DART_FIFO_ARRIVED)

static void fifo_tell_queue(struct uln_card *card, u32 index)
{
	struct dart_queue_object *queue = xa_load(&dart_parts(card)->queues, index);

	if (queue)
		uln_waiters_wake(&queue->sleepers);
}

/* Its object may have been closed since. */
static void fifo_tell(struct uln_card *card, u32 what)
{
	u32 index = what & ~WHAT_MASK;
	struct dart_connection_object *connection = xa_load(&dart_parts(card)->connections, index);

	switch (what & WHAT_MASK) {
	case DART_FIFO_QUEUE:
		fifo_tell_queue(card, index);
		break;
	case DART_FIFO_ARRIVED:
		if (index < DART_FIRST_CONNECTION)
			dart_own_arrived(card, index);
		else if (connection)
			uln_waiters_wake(&connection->excepted);
		break;
	case DART_FIFO_MISSES:
		if (connection)
			dart_misses_told(connection);
		break;
	case DART_FIFO_LEFT:
		if (!connection)
			break;
		uln_waiters_wake(&connection->sleepers);
		/* It may be broken, and have no more exceptions. */
		uln_waiters_wake(&connection->excepted);
		break;
	}
}

void dart_raised(struct uln_card *card, unsigned int vector)
{
	u32 what[ULN_FIFO_BATCH], found, i;
	struct uln_fifo *fifo;

	if (vector != DART_VECTOR_FIFO)
		return;
	guard(mutex)(&card->lock);
	fifo = dart_own_fifo(card);
	if (!card->live || !fifo->memory)
		return;
	found = uln_fifo_take(card, fifo, DART_REG_FIFO_TAKEN, what);
	for (i = 0; i < found && card->live; i++)
		fifo_tell(card, what[i]);
}

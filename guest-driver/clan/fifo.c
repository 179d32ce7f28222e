// SPDX-License-Identifier: GPL-2.0-only
/*
 * The FIFO (section 2.5): the card says which endpoints and event queues have something for who sleeps
 * there, or which Tripwires have fired that are to interrupt. The thread of the interrupt wakes them.
 */
#include "clan.h"

static_assert(sizeof(struct clan_fifo_record) == CLAN_FIFO_SIZE);

/* Looked at together. */
#define BATCH 64

/*
 * Takes records that are there, and tells the card so: after that it writes one anew for each of what they
 * name. Only then may who sleeps look, or what happens meanwhile is overlooked. The card raises the
 * vector again for what there is more.
 */
static u32 fifo_take(struct hamlyn_card *card, struct clan_fifo *fifo, u32 *what)
{
	const struct clan_fifo_record *record;
	u32 place, found;

	for (found = 0; found < BATCH; found++) {
		place = (fifo->taken & (fifo->records - 1)) * CLAN_FIFO_SIZE;
		record = page_address(fifo->memory->page[place / HAMLYN_PAGE_SIZE]) +
			 place % HAMLYN_PAGE_SIZE;
		if (READ_ONCE(record->number) != fifo->taken + 1)
			break;
		dma_rmb(); /* What it is was written before the number. */
		what[found] = READ_ONCE(record->what);
		fifo->taken++;
	}
	if (found)
		writel(fifo->taken, card->registers + CLAN_REG_FIFO_TAKEN);
	return found;
}

static void fifo_tell_endpoint(struct hamlyn_card *card, u32 index)
{
	void *entry = xa_load(&clan_parts(card)->endpoints, index);
	struct clan_endpoint_object *endpoint = entry;

	if (xa_pointer_tag(entry) == CLAN_ENGINE_TAG)
		clan_engine_told(xa_untag_pointer(entry));
	else if (endpoint)
		clan_sleepers_wake(&endpoint->sleepers);
}

/* Something has happened to an endpoint or an event queue, which may have been closed since. */
static void fifo_tell(struct hamlyn_card *card, u32 what)
{
	struct clan_events_object *events;

	if (what == CLAN_OWN_ENDPOINT) {
		clan_own_arrived(card);
	} else if (what & CLAN_FIFO_EVENTS) {
		events = xa_load(&clan_parts(card)->events, what & ~CLAN_FIFO_EVENTS);
		if (events)
			clan_sleepers_wake(&events->sleepers);
	} else {
		fifo_tell_endpoint(card, what);
	}
}

void clan_raised(struct hamlyn_card *card, unsigned int vector)
{
	u32 what[BATCH], found, i;
	struct clan_fifo *fifo;

	if (vector != CLAN_VECTOR_FIFO)
		return;
	guard(mutex)(&card->lock);
	fifo = clan_own_fifo(card);
	if (!card->live || !fifo->memory)
		return;
	found = fifo_take(card, fifo, what);
	for (i = 0; i < found && card->live; i++)
		fifo_tell(card, what[i]);
}

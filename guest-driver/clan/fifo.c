// SPDX-License-Identifier: GPL-2.0-only
/*
 * The FIFO (section 2.5): the card reports which Tripwires have fired that are to interrupt, and
 * which endpoints and event queues have something for a sleeping process. The thread of the
 * interrupt wakes it; a Tripwire's bit is in its endpoint's memory by then.
 */
#include "clan.h"

static_assert(sizeof(struct clan_fifo_record) == ULN_FIFO_SIZE);

static void fifo_tell_endpoint(struct uln_card *card, u32 index)
{
	void *entry = xa_load(&clan_parts(card)->endpoints, index);
	struct clan_endpoint_object *endpoint = entry;

	if (xa_pointer_tag(entry) == CLAN_ENGINE_TAG)
		clan_engine_told(xa_untag_pointer(entry));
	else if (endpoint)
		uln_waiters_wake(&endpoint->sleepers);
}

/* Handles news of an endpoint or an event queue, which may have been closed since. */
static void fifo_tell(struct uln_card *card, u32 what)
{
	struct clan_events_object *events;

	if (what & CLAN_FIFO_TRIPWIRE)
		what &= BIT(CLAN_FIFO_NUMBER_SHIFT) - 1;
	if (what == CLAN_OWN_ENDPOINT) {
		clan_own_arrived(card);
	} else if (what & CLAN_FIFO_EVENTS) {
		events = xa_load(&clan_parts(card)->events, what & ~CLAN_FIFO_EVENTS);
		if (events)
			uln_waiters_wake(&events->sleepers);
	} else {
		fifo_tell_endpoint(card, what);
	}
}

void clan_raised(struct uln_card *card, unsigned int vector)
{
	u32 what[ULN_FIFO_BATCH], found, i;
	struct uln_fifo *fifo;

	if (vector != CLAN_VECTOR_FIFO)
		return;
	guard(mutex)(&card->lock);
	fifo = clan_own_fifo(card);
	if (!card->live || !fifo->memory)
		return;
	found = uln_fifo_take(card, fifo, CLAN_REG_FIFO_TAKEN, what);
	for (i = 0; i < found && card->live; i++)
		fifo_tell(card, what[i]);
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages to the other end of a connection when this one ends. If there is no room for one, it is
 * sent later. It has the other end's key, so that no later connection with that number accepts it.
 */
#include "dart.h"

/* Delay until a message that found no room is tried again. */
#define AGAIN (HZ / 20)

/* Sets the end that must be told. The card's lock is held in all of these. */
void dart_farewell_set(struct dart_connection_object *connection, struct dart_farewell *farewell)
{
	struct uln_card *card = connection->card;

	uln_system_watch(card->system, farewell->host);
	dart_parts(card)->arranged[farewell->host]++;
	connection->farewell = farewell;
}

static struct dart_farewell *farewell_take(struct dart_connection_object *connection)
{
	struct dart_farewell *farewell = connection->farewell;

	if (farewell)
		dart_parts(connection->card)->arranged[farewell->host]--;
	connection->farewell = NULL;
	return farewell;
}

/* Called when the other end is gone. */
void dart_farewell_forget(struct dart_connection_object *connection)
{
	kfree(farewell_take(connection));
}

/* Returns false if it could not be told yet. */
static bool farewell_told(struct uln_card *card, const struct dart_farewell *farewell)
{
	__le64 key = cpu_to_le64(farewell->key);
	struct uln_head wire = {
		.reason = DART_SAY_GONE,
		.from = farewell->from,
		.to = farewell->to,
		.private_length = sizeof(key),
	};
	int ret = uln_system_say(card->system, farewell->host, &wire, &key);

	return ret != -ENOBUFS && ret != -ENOMEM;
}

static void farewells_again(struct uln_card *card)
{
	queue_delayed_work(system_freezable_wq, &dart_parts(card)->tell, AGAIN);
}

/*
 * Tells the other end of a closed connection. True: it will be told later, and only then one of the
 * user's share is given back.
 */
bool dart_farewell_say(struct dart_connection_object *connection)
{
	struct dart_farewell *farewell = farewell_take(connection);
	struct uln_card *card = connection->card;

	if (!farewell || !card->live || farewell_told(card, farewell)) {
		kfree(farewell);
		return false;
	}
	farewell->share = connection->object.file->share;
	uln_share_get(farewell->share);
	list_add_tail(&farewell->on_card, &dart_parts(card)->farewells);
	farewells_again(card);
	return true;
}

static void farewell_end(struct dart_farewell *farewell)
{
	list_del(&farewell->on_card);
	uln_share_give(farewell->share, DART_SHARE_CONNECTIONS);
	uln_share_put(farewell->share);
	kfree(farewell);
}

/* Drops farewells to a host at which no end needs to be told any longer. */
void dart_farewells_lost(struct uln_card *card, u32 host)
{
	struct dart_farewell *farewell, *next;

	list_for_each_entry_safe(farewell, next, &dart_parts(card)->farewells, on_card)
		if (farewell->host == host)
			farewell_end(farewell);
}

void dart_farewells_later(struct work_struct *work)
{
	struct dart_parts *parts = container_of(to_delayed_work(work), struct dart_parts, tell);
	struct dart_farewell *farewell, *next;
	struct uln_card *card = &parts->card;

	guard(mutex)(&card->lock);
	if (!card->live)
		return;
	list_for_each_entry_safe(farewell, next, &parts->farewells, on_card)
		if (farewell_told(card, farewell))
			farewell_end(farewell);
	if (!list_empty(&parts->farewells))
		farewells_again(card);
}

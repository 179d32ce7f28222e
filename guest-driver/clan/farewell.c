// SPDX-License-Identifier: GPL-2.0-only
/*
 * An endpoint's peer, and the message that it gets when the endpoint ends. Without room for that
 * message, the driver sends it later. The port stays taken until then, or the peer could mistake a
 * new endpoint for the old one.
 */
#include "clan.h"

/* Delay until a message that found no room is tried again. */
#define AGAIN (HZ / 20)

/*
 * Sets the end that must be told; the endpoint has no other peer. The card's lock is held in all of
 * these.
 */
void clan_farewell_set(struct clan_endpoint_object *endpoint, struct clan_farewell *farewell)
{
	struct uln_card *card = endpoint->object.file->card;

	uln_system_watch(card->system, farewell->host);
	clan_parts(card)->arranged[farewell->host]++;
	endpoint->farewell = farewell;
}

static struct clan_farewell *farewell_take(struct clan_endpoint_object *endpoint)
{
	struct clan_farewell *farewell = endpoint->farewell;

	if (farewell)
		clan_parts(endpoint->object.file->card)->arranged[farewell->host]--;
	endpoint->farewell = NULL;
	return farewell;
}

/* Called when it no longer has a peer. */
void clan_farewell_forget(struct clan_endpoint_object *endpoint)
{
	kfree(farewell_take(endpoint));
}

/* Returns false if it could not be told yet. */
static bool farewell_told(struct uln_card *card, const struct clan_farewell *farewell)
{
	struct uln_head wire = {
		.reason = CLAN_SAY_GONE,
		.from = farewell->port,
		.to = farewell->to,
	};

	return !clan_is_busy(uln_system_say(card->system, farewell->host, &wire, NULL));
}

static void farewells_again(struct uln_card *card)
{
	queue_delayed_work(system_freezable_wq, &clan_parts(card)->tell, AGAIN);
}

/*
 * Tells the peer of a closed endpoint, if there is one; its port is free then. True: the peer will
 * be told later, and only then one of the user's share is given back.
 */
bool clan_farewell_say(struct clan_endpoint_object *endpoint)
{
	struct clan_farewell *farewell = farewell_take(endpoint);
	struct uln_card *card = endpoint->object.file->card;
	struct clan_parts *parts = clan_parts(card);

	if (!farewell || !card->live || farewell_told(card, farewell)) {
		xa_erase(&parts->ports, endpoint->port);
		kfree(farewell);
		return false;
	}
	farewell->share = endpoint->object.file->share;
	uln_share_get(farewell->share);
	/* This replaces the endpoint, and so needs no memory. */
	xa_store(&parts->ports, endpoint->port, xa_mk_value(0), GFP_KERNEL);
	list_add_tail(&farewell->on_card, &parts->farewells);
	farewells_again(card);
	return true;
}

static void farewell_end(struct uln_card *card, struct clan_farewell *farewell)
{
	list_del(&farewell->on_card);
	xa_erase(&clan_parts(card)->ports, farewell->port);
	uln_share_give(farewell->share, CLAN_SHARE_ENDPOINTS);
	uln_share_put(farewell->share);
	kfree(farewell);
}

/* Drops farewells to a host at which no peer needs to be told any longer. */
void clan_farewells_lost(struct uln_card *card, u32 host)
{
	struct clan_farewell *farewell, *next;

	list_for_each_entry_safe(farewell, next, &clan_parts(card)->farewells, on_card)
		if (farewell->host == host)
			farewell_end(card, farewell);
}

void clan_farewells_later(struct work_struct *work)
{
	struct clan_parts *parts = container_of(to_delayed_work(work), struct clan_parts, tell);
	struct clan_farewell *farewell, *next;
	struct uln_card *card = &parts->card;

	guard(mutex)(&card->lock);
	if (!card->live)
		return;
	list_for_each_entry_safe(farewell, next, &parts->farewells, on_card)
		if (farewell_told(card, farewell))
			farewell_end(card, farewell);
	if (!list_empty(&parts->farewells))
		farewells_again(card);
}

// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/*
 * A remote operating system: messages to and from it, each once and in order; whether it is alive;
 * whether it has restarted.
 *
 * The fabric loses nothing, but cards discard packets while their host is not there. So a message
 * is kept and sent again until it has been acknowledged. Each side has an incarnation, a number
 * that changes whenever that side loses its memory. When one side sees the other's number change,
 * it ends all connections between them.
 */
#include <linux/bitops.h>
#include <linux/cleanup.h>
#include <linux/moduleparam.h>

#include "uln_peer.h"

/* Interval of checks of peers, and time until an unacknowledged message is sent again. */
#define PEER_TICK (HZ / 4)
/* Probes within the time after which a peer is given up: some may be late. */
#define PEER_PROBES 8
/*
 * Limit of messages that wait for a peer which does not take them, and were allocated for it.
 * Excess refusals are dropped; the card gets an error for an excess message of its own.
 */
#define PEER_MAX_QUEUED 256

static unsigned int __read_mostly peer_timeout = 8000;
module_param(peer_timeout, uint, 0644);
MODULE_PARM_DESC(peer_timeout,
		 "ms without a sign of life after which a host's connections end (1000 to 600000)");

static unsigned long peer_patience(void)
{
	return msecs_to_jiffies(clamp(READ_ONCE(peer_timeout), 1000U, 600000U));
}

unsigned long uln_peer_patience(void)
{
	return peer_patience();
}

/* Incarnations are numbered, so that a later one is told from an earlier; never 0. */
static u64 peer_make_incarnation(struct uln_system *system)
{
	return (u64)system->origin << 32 | ++system->incarnations;
}

void uln_peer_init(struct uln_system *system, u32 host)
{
	struct uln_peer *peer = &system->peers[host];

	peer->system = system;
	peer->host = host;
	INIT_LIST_HEAD(&peer->queue);
}

/* Lets a message into an entry again. */
static void peer_reopen(struct uln_peer *peer, u32 entry)
{
	struct peer_transport *transport = peer->system->transport;

	transport->ops->reopen(transport, peer->host, entry);
}

static void peer_restart(struct uln_peer *peer)
{
	unsigned int place;

	for_each_set_bit(place, &peer->arrived, ULN_PEER_PLACES)
		peer_reopen(peer, place);
	peer->arrived = 0;
	peer->first = 0;
	peer->flying = 0;
	peer->moved = jiffies;
	peer->expected = 0;
}

/* The peer can be reached from now on; its entries are empty. */
void uln_peer_open(struct uln_peer *peer)
{
	peer->arrived = 0;
	peer_restart(peer);
	peer->theirs = 0;
	peer->mine = peer_make_incarnation(peer->system);
}

static void peer_drop(struct uln_peer *peer, struct uln_message *message)
{
	list_del_init(&message->on_peer);
	peer->queued--;
	if (message->ops) {
		message->ops->done(message);
		return;
	}
	peer->loose--;
	uln_share_said(message->share, peer->host);
	kfree(message);
}

/* Takes back a message that was never sent. False: it may have arrived, or is not queued. */
bool uln_peer_withdraw(struct uln_peer *peer, struct uln_message *message)
{
	if (list_empty(&message->on_peer) || message->flown)
		return false;
	peer_drop(peer, message);
	return true;
}

/* Tells a message's service that it is dropped. */
static void peer_tell_dropped(struct uln_peer *peer, const struct uln_message *message)
{
	struct peer_service *service = uln_service_find(peer->system, message->wire.kind);

	if (service && service->ops->dropped)
		service->ops->dropped(service, peer->host, &message->wire, message->data);
}

static bool message_lasts(const struct uln_message *message)
{
	return message->ops && message->ops->lasts && message->ops->lasts(message);
}

/*
 * Drops the messages that wait for a peer, and voids what was arranged with it. If the peer has
 * restarted, messages are kept that may be sent to its next incarnation.
 */
static void peer_forget(struct uln_peer *peer, u32 reason, bool restarted)
{
	struct uln_message *message, *next;
	struct peer_service *service;

	list_for_each_entry_safe(message, next, &peer->queue, on_peer)
		if (!restarted || !message_lasts(message)) {
			peer_tell_dropped(peer, message);
			peer_drop(peer, message);
		}
	peer_restart(peer);
	list_for_each_entry(service, &peer->system->services, on_system)
		service->ops->lost(service, peer->host, reason, restarted);
}

/* Starts a new incarnation, as this side no longer knows what the peer has been told. */
void uln_peer_lost(struct uln_peer *peer, u32 reason)
{
	peer_forget(peer, reason, false);
	peer->theirs = 0;
	peer->mine = peer_make_incarnation(peer->system);
}

static bool peer_post(struct uln_peer *peer, u32 entry, struct uln_head *head,
		      const void *data)
{
	struct peer_transport *transport = peer->system->transport;
	struct uln_wire wire;

	head->incarnation = peer->mine;
	head->to_incarnation = peer->theirs;
	head->expected = peer->expected;
	wire = uln_wire_pack(head);
	return transport->ops->post(transport, peer->host, entry, &wire, data,
				    head->name_length + head->private_length);
}

static void peer_post_ack(struct uln_peer *peer, u32 kind)
{
	struct uln_head wire = { .kind = kind };

	peer_post(peer, ULN_PEER_PLACES + peer->turn++ % ULN_PEER_PLACES, &wire, NULL);
}

/* Sends messages from a position in the queue on, as far as there are places for them. */
static void peer_fly(struct uln_peer *peer, u32 from)
{
	struct uln_message *message;
	u32 position = 0;

	list_for_each_entry(message, &peer->queue, on_peer) {
		if (position == ULN_PEER_PLACES)
			break;
		if (position++ < from)
			continue;
		message->wire.sequence = peer->first + position - 1;
		message->flown = true;
		/* A message that finds no room will be sent again. */
		peer_post(peer, message->wire.sequence % ULN_PEER_PLACES, &message->wire,
			  message->data);
		peer->sent = jiffies;
		peer->flying = max(peer->flying, position);
	}
}

static bool peer_is_watched(const struct uln_peer *peer)
{
	const struct peer_service *service;

	if (!list_empty(&peer->queue))
		return true;
	list_for_each_entry(service, &peer->system->services, on_system)
		if (service->ops->depends && service->ops->depends(service, peer->host))
			return true;
	return false;
}

/* Called before something depends on the peer. */
void uln_peer_watch(struct uln_peer *peer)
{
	if (peer_is_watched(peer))
		return;
	peer->heard = jiffies;
	peer->probed = jiffies;
	if (queue_delayed_work(system_highpri_wq, &peer->system->tick, PEER_TICK))
		peer->system->ticked = jiffies;
}

/* Queues a message; one that was allocated for itself may be dropped. */
void uln_peer_send(struct uln_peer *peer, struct uln_message *message)
{
	if (!message->ops && peer->loose >= PEER_MAX_QUEUED) {
		kfree(message);
		return;
	}
	if (!message->ops)
		peer->loose++;
	uln_peer_watch(peer);
	if (list_empty(&peer->queue))
		peer->moved = jiffies;
	list_add_tail(&message->on_peer, &peer->queue);
	peer->queued++;
	if (peer->flying < ULN_PEER_PLACES)
		peer_fly(peer, peer->flying);
}

/* Allocates and queues a message, unless too many wait, or too many of one user's. */
int uln_peer_say(struct uln_peer *peer, struct uln_share *share,
		 const struct uln_head *wire, const void *data)
{
	struct uln_message *message;
	int ret;

	if (peer->loose >= PEER_MAX_QUEUED)
		return -ENOBUFS;
	ret = uln_share_say(share, peer->host, peer->loose, PEER_MAX_QUEUED);
	if (ret)
		return ret;
	message = kzalloc(sizeof(*message), GFP_KERNEL);
	if (!message) {
		uln_share_said(share, peer->host);
		return -ENOMEM;
	}
	message->share = share;
	message->wire = *wire;
	message->wire.name_length = 0;
	if (wire->private_length)
		memcpy(message->data, data, wire->private_length);
	uln_peer_send(peer, message);
	return 0;
}

/* Messages before @expected have arrived at the peer. */
static void peer_acknowledged(struct uln_peer *peer, u32 expected)
{
	u32 count = expected - peer->first;

	if (!count || count > peer->flying)
		return;
	peer->first = expected;
	peer->moved = jiffies;
	peer->flying -= count;
	while (count--)
		peer_drop(peer, list_first_entry(&peer->queue, struct uln_message, on_peer));
	peer_fly(peer, peer->flying);
}

/* Returns whether a message is from before the known incarnation, and was overtaken. */
static bool peer_is_stale(const struct uln_peer *peer, u64 incarnation)
{
	return upper_32_bits(incarnation) == upper_32_bits(peer->theirs) &&
	       (s32)(lower_32_bits(incarnation) - lower_32_bits(peer->theirs)) < 0;
}

/*
 * Returns whether a message goes from the peer's current incarnation to the current one here. If
 * so, handles its acknowledgement. Any other message is answered, so that the peer learns the
 * numbers, but not taken. Sequence numbers count between two incarnations, and the message may have
 * been meant for an earlier one.
 */
static bool peer_is_current(struct uln_peer *peer, const struct uln_head *wire)
{
	if (!wire->incarnation || peer_is_stale(peer, wire->incarnation))
		return false;
	peer->heard = jiffies;
	if (peer->theirs != wire->incarnation) {
		if (peer->theirs) {
			peer_forget(peer, ULN_END_HOST_RESET, true);
			/*
			 * It is unknown which of two origins is later. If this one is not, the
			 * later one must learn that its numbers are forgotten, too.
			 */
			if (upper_32_bits(peer->theirs) != upper_32_bits(wire->incarnation))
				peer->mine = peer_make_incarnation(peer->system);
		}
		peer->theirs = wire->incarnation;
		peer_fly(peer, 0);
	}
	if (wire->to_incarnation == peer->mine) {
		peer_acknowledged(peer, wire->expected);
		return true;
	}
	peer->answer = true;
	return false;
}

static bool wire_is_sound(const struct uln_head *wire)
{
	return wire->name_length <= ULN_MAX_NAME && wire->private_length <= ULN_MAX_PRIVATE;
}

static const u8 *peer_read(struct uln_peer *peer, u32 entry, struct uln_head *head)
{
	struct peer_transport *transport = peer->system->transport;
	struct uln_wire wire;
	const u8 *data = transport->ops->read(transport, peer->host, entry, &wire);

	*head = uln_wire_unpack(&wire);
	return data;
}

static void peer_message(struct uln_peer *peer, const struct uln_head *wire, const u8 *data)
{
	struct peer_service *service = uln_service_find(peer->system, wire->kind);

	if (service && (service->ops->named || !wire->name_length))
		service->ops->message(service, peer->host, wire, data);
}

/* Takes the messages that are next, as far as they have arrived. */
static void peer_take(struct uln_peer *peer)
{
	u32 place = peer->expected % ULN_PEER_PLACES;
	struct uln_head wire;
	const u8 *data;

	while (__test_and_clear_bit(place, &peer->arrived)) {
		data = peer_read(peer, place, &wire);
		peer->expected++;
		if (wire_is_sound(&wire))
			peer_message(peer, &wire, data);
		peer_reopen(peer, place);
		place = peer->expected % ULN_PEER_PLACES;
	}
}

/* Handles a complete message in an entry, which does not change until it is opened again. */
void uln_peer_arrived(struct uln_peer *peer, u32 entry)
{
	struct uln_head wire;

	peer_read(peer, entry, &wire);
	if (entry >= ULN_PEER_PLACES) {
		if (peer_is_current(peer, &wire) && wire.kind == ULN_WIRE_PROBE)
			peer->answer = true;
		peer_reopen(peer, entry);
		return;
	}
	/* The message may discard what came before it, but not itself. */
	if (peer_is_current(peer, &wire)) {
		peer->answer = true;
		if (wire.sequence - peer->expected < ULN_PEER_PLACES &&
		    wire.sequence % ULN_PEER_PLACES == entry) {
			__set_bit(entry, &peer->arrived);
			peer_take(peer);
			return;
		}
	}
	peer_reopen(peer, entry);
}

/* Acknowledges what has arrived from a peer, if that is due. */
void uln_peer_answer(struct uln_peer *peer)
{
	if (!peer->answer)
		return;
	peer->answer = false;
	peer_post_ack(peer, ULN_WIRE_ACK);
}

/*
 * A peer that sends but acknowledges nothing counts as lost: otherwise messages would wait for it
 * forever.
 */
static bool peer_is_lost(const struct uln_peer *peer)
{
	return time_after(jiffies, peer->heard + peer_patience()) ||
	       (peer->flying && time_after(jiffies, peer->moved + peer_patience()));
}

static void peer_tick(struct uln_peer *peer)
{
	struct peer_service *service;

	if (peer_is_lost(peer)) {
		uln_peer_lost(peer, ULN_END_HOST_LOST);
		return;
	}
	if (peer->flying && time_after_eq(jiffies, peer->sent + PEER_TICK))
		peer_fly(peer, 0);
	/* In any case: a place may still hold what an earlier incarnation of this side sent. */
	if (time_after_eq(jiffies, peer->probed + peer_patience() / PEER_PROBES)) {
		peer->probed = jiffies;
		peer_post_ack(peer, ULN_WIRE_PROBE);
	}
	list_for_each_entry(service, &peer->system->services, on_system)
		if (service->ops->tick)
			service->ops->tick(service, peer->host);
}

/*
 * Returns the time for which this host itself stood still before a check: that proves nothing about
 * others. Only this time is forgiven. If a long one restarted the time-outs instead, a host that
 * stands still again and again would never notice that a peer has died.
 */
static unsigned long peer_stood_still(const struct uln_system *system)
{
	unsigned long since = jiffies - system->ticked;

	return since > peer_patience() / 2 ? since - PEER_TICK : 0;
}

/* Moves a time of the past forward, but not beyond now: it may be within the time that is over. */
static unsigned long peer_forgive(unsigned long past, unsigned long still)
{
	unsigned long now = jiffies;

	return now - past > still ? past + still : now;
}

/* Sends unacknowledged messages again, and detects peers that have died. */
void uln_peers_tick(struct work_struct *work)
{
	struct uln_system *system =
		container_of(to_delayed_work(work), struct uln_system, tick);
	struct uln_peer *peer;
	unsigned long still;
	bool again = false;
	unsigned int i;

	guard(mutex)(system->lock);
	if (!system->open)
		return;
	still = peer_stood_still(system);
	system->ticked = jiffies;
	/* Each is first in turn, as there may not be room for all. */
	system->turn++;
	for (i = 0; i < ARRAY_SIZE(system->peers); i++) {
		peer = &system->peers[(system->turn + i) % ARRAY_SIZE(system->peers)];
		if (!peer_is_watched(peer))
			continue;
		peer->heard = peer_forgive(peer->heard, still);
		peer->moved = peer_forgive(peer->moved, still);
		peer_tick(peer);
		again = again || peer_is_watched(peer);
	}
	if (again)
		queue_delayed_work(system_highpri_wq, &system->tick, PEER_TICK);
}

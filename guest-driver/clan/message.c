// SPDX-License-Identifier: GPL-2.0-only
/*
 * Out-of-band messages (section 3.1): the drivers of two hosts carry them, each once and in order.
 * They put them into a queue in the endpoint's memory, from which its owner takes them without a
 * call. The sender is told what cannot be delivered, and the peer is told of an end: CLAN_SAY_*.
 * Messages of another host's driver are not trusted but checked.
 */
#include "clan.h"

#define LAST_PORT 0xffff

/*
 * Limits of messages in a queue when one more is put into it. Messages of others leave room for
 * those of the driver, and these leave room for the peer's end. An owner that does not take its
 * messages must not send more: it could not be told that one was not delivered.
 */
enum {
	ROOM_FOR_OTHERS = CLAN_MESSAGES - 8,
	ROOM_TO_SEND = CLAN_MESSAGES - 4,
	ROOM_FOR_NEWS = CLAN_MESSAGES - 1,
	ROOM_FOR_PEER = CLAN_MESSAGES,
};
static_assert(sizeof(struct clan_message) * CLAN_MESSAGES == CLAN_STATE_SIZE - CLAN_STATE_MESSAGES);
static_assert(sizeof(struct clan_said) <= ULN_MAX_PRIVATE);

/*
 * Returns whether fewer than @room messages wait. The owner stores how many it has taken; if that
 * is impossible, there is no room.
 */
static bool queue_has(const struct clan_endpoint_object *endpoint, u32 room)
{
	u32 taken = clan_state_read(endpoint->memory, CLAN_STATE_MESSAGES_TAKEN);

	return endpoint->messages - taken < room;
}

/* Puts a message into an endpoint's queue, and has the card make an event of it. False: no room. */
static bool queue_put(struct clan_endpoint_object *endpoint, u32 room, u32 host, u32 port, u32 kind,
		      const __le64 *data)
{
	struct clan_message *message;
	u32 place = endpoint->messages & (CLAN_MESSAGES - 1);
	unsigned int i;

	if (!queue_has(endpoint, room))
		return false;
	message = clan_state(endpoint->memory, CLAN_STATE_MESSAGES + place * sizeof(*message));
	message->kind = kind;
	message->host = host;
	message->port = port;
	for (i = 0; i < ARRAY_SIZE(message->data); i++)
		message->data[i] = data ? le64_to_cpu(data[i]) : 0;
	message->reserved = 0;
	/* A reader that sees the number sees all of the message. */
	smp_store_release(&message->number, ++endpoint->messages);
	writel(endpoint->object.index, endpoint->object.file->card->registers + CLAN_REG_POST);
	return true;
}

static bool kind_is_sound(u32 kind)
{
	return kind >= CLAN_MESSAGE_CONNECT && kind <= CLAN_MESSAGE_DATA;
}

static bool port_is_sound(u32 port)
{
	return port && port <= LAST_PORT;
}

/* Sends a process's message, from an endpoint of its own. */
static int say(struct clan_endpoint_object *endpoint, const struct clan_send *send)
{
	struct uln_file *file = endpoint->object.file;
	struct clan_said said = { .kind = cpu_to_le32(send->kind) };
	struct uln_head wire = {
		.reason = CLAN_SAY_MESSAGE,
		.from = endpoint->port,
		.to = send->port,
		.private_length = sizeof(said),
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(said.data); i++)
		said.data[i] = cpu_to_le64(send->data[i]);
	return uln_system_say_for(file->card->system, file->share, send->host, &wire, &said);
}

/* Tells a sender that its message was not delivered: the driver sends this. */
static void say_undelivered(struct uln_card *card, u32 host, const struct uln_head *came,
			    const struct clan_said *said)
{
	struct uln_head wire = {
		.reason = CLAN_SAY_UNDELIVERED,
		.from = came->to,
		.to = came->from,
		.private_length = sizeof(*said),
	};

	/* Too much waits for that host, so it is not told. */
	if (clan_is_busy(uln_system_say(card->system, host, &wire, said)))
		dev_warn_ratelimited(&card->dev, "host %u: port %u is not told that a message for port %u has not been delivered\n",
				     host, came->from, came->to);
}

/*
 * Remembers a request for a connection until it is answered; if there are too many, the last ones.
 */
static void asker_add(struct clan_endpoint_object *endpoint, u32 host, u32 port, __u64 nonce)
{
	struct clan_asker *asker = &endpoint->askers[endpoint->asks++ & (CLAN_MESSAGES - 1)];

	*asker = (struct clan_asker) { .host = host, .port = port, .nonce = nonce };
}

static void asker_answered(struct clan_endpoint_object *endpoint, const struct clan_send *send)
{
	struct clan_asker *asker = endpoint->askers;

	for (; asker < endpoint->askers + ARRAY_SIZE(endpoint->askers); asker++)
		if (asker->port == send->port && asker->host == send->host &&
		    asker->nonce == send->data[0])
			asker->port = 0;
}

/* The request may have come to another endpoint of the file than the one that has answered. */
static void askers_answered(struct uln_file *file, const struct clan_send *send)
{
	struct clan_endpoint_object *endpoint;
	struct card_object *object;

	if (send->kind != CLAN_MESSAGE_ACCEPT && send->kind != CLAN_MESSAGE_REFUSE)
		return;
	list_for_each_entry(object, &file->objects[CLAN_KIND_ENDPOINT], on_file) {
		endpoint = container_of(object, struct clan_endpoint_object, object);
		if (endpoint->asks)
			asker_answered(endpoint, send);
	}
}

/* Refuses requests for a connection that a closed endpoint has not answered. */
void clan_refuse_askers(struct clan_endpoint_object *endpoint)
{
	struct uln_card *card = endpoint->object.file->card;
	struct clan_said said = { .kind = cpu_to_le32(CLAN_MESSAGE_CONNECT) };
	struct uln_head came = { .to = endpoint->port };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(endpoint->askers) && card->live; i++) {
		came.from = endpoint->askers[i].port;
		said.data[0] = cpu_to_le64(endpoint->askers[i].nonce);
		if (came.from)
			say_undelivered(card, endpoint->askers[i].host, &came, &said);
	}
}

int clan_send(struct uln_file *file, void *argument)
{
	const struct clan_send *send = argument;
	struct clan_endpoint_object *endpoint;
	int ret;

	if (!kind_is_sound(send->kind) || !port_is_sound(send->port))
		return -EINVAL;
	if (send->host >= CLAN_HOSTS)
		return -EHOSTUNREACH;
	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	endpoint = clan_endpoint_find(file, send->endpoint);
	if (!endpoint)
		return -ENOENT;
	if (!queue_has(endpoint, ROOM_TO_SEND))
		return -EAGAIN;
	ret = say(endpoint, send);
	if (!ret) {
		askers_answered(file, send);
		endpoint->spoken |= BIT_ULL(send->host);
		clan_parts(file->card)->spoken |= BIT_ULL(send->host);
	}
	return ret == -ENOBUFS ? -EAGAIN : ret;
}

int clan_peer(struct uln_file *file, void *argument)
{
	struct clan_farewell *farewell __free(kfree) = NULL;
	struct clan_endpoint_object *endpoint;
	const struct clan_peer *peer = argument;

	if (peer->reserved || peer->port > LAST_PORT)
		return -EINVAL;
	if (peer->port && peer->host >= CLAN_HOSTS)
		return -EHOSTUNREACH;
	if (peer->port) {
		farewell = kzalloc(sizeof(*farewell), GFP_KERNEL_ACCOUNT);
		if (!farewell)
			return -ENOMEM;
	}
	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	endpoint = clan_endpoint_find(file, peer->endpoint);
	if (!endpoint)
		return -ENOENT;
	clan_farewell_forget(endpoint);
	if (!farewell)
		return 0;
	farewell->host = peer->host;
	farewell->to = peer->port;
	farewell->port = endpoint->port;
	clan_farewell_set(endpoint, farewell);
	retain_and_null_ptr(farewell);
	return 0;
}

/* Delivers a message to an endpoint. If there is none, or it has no room, the sender is told. */
static void message_deliver(struct uln_card *card, u32 host, const struct uln_head *wire,
			    const struct clan_said *said)
{
	struct clan_endpoint_object *endpoint = clan_endpoint_at(card, wire->to);
	u32 kind = le32_to_cpu(said->kind);

	if (!kind_is_sound(kind))
		return;
	if (!endpoint || !queue_put(endpoint, ROOM_FOR_OTHERS, host, wire->from, kind, said->data))
		say_undelivered(card, host, wire, said);
	else if (kind == CLAN_MESSAGE_CONNECT)
		asker_add(endpoint, host, wire->from, le64_to_cpu(said->data[0]));
}

/* Tells an endpoint that its message to a host was not delivered there. */
static void message_undelivered(struct uln_card *card, u32 host, const struct uln_head *wire,
				const struct clan_said *said)
{
	struct clan_endpoint_object *endpoint = clan_endpoint_at(card, wire->to);

	if (endpoint && endpoint->spoken & BIT_ULL(host))
		queue_put(endpoint, ROOM_FOR_NEWS, host, wire->from, CLAN_MESSAGE_UNDELIVERED,
			  said->data);
}

/*
 * Tells an endpoint that its peer is gone. Endpoints without a peer that have sent messages to that
 * host are told as well: their request may be in flight.
 */
static void message_gone(struct uln_card *card, u32 host, const struct uln_head *wire)
{
	struct clan_endpoint_object *endpoint = clan_endpoint_at(card, wire->to);
	const struct clan_farewell *farewell;

	if (!endpoint)
		return;
	farewell = endpoint->farewell;
	if (farewell && farewell->host == host && farewell->to == wire->from) {
		queue_put(endpoint, ROOM_FOR_PEER, host, wire->from, CLAN_MESSAGE_GONE, NULL);
		clan_farewell_forget(endpoint);
	} else if (!farewell && endpoint->spoken & BIT_ULL(host)) {
		queue_put(endpoint, ROOM_FOR_NEWS, host, wire->from, CLAN_MESSAGE_GONE, NULL);
	}
}

void clan_message(struct uln_card *card, u32 host, const struct uln_head *wire,
		  const u8 *data)
{
	struct clan_said said = {};

	if (!port_is_sound(wire->from) || !port_is_sound(wire->to))
		return;
	if (wire->reason != CLAN_SAY_GONE) {
		if (wire->private_length < sizeof(said))
			return;
		memcpy(&said, data, sizeof(said));
	}
	switch (wire->reason) {
	case CLAN_SAY_MESSAGE:
		message_deliver(card, host, wire, &said);
		break;
	case CLAN_SAY_UNDELIVERED:
		message_undelivered(card, host, wire, &said);
		break;
	case CLAN_SAY_GONE:
		message_gone(card, host, wire);
		break;
	}
}

/* The host is lost for an endpoint, and so is its peer, if it is there. */
static void endpoint_lost(struct clan_endpoint_object *endpoint, u32 host)
{
	const struct clan_farewell *farewell = endpoint->farewell;

	if (farewell && farewell->host == host) {
		queue_put(endpoint, ROOM_FOR_PEER, host, farewell->to, CLAN_MESSAGE_GONE, NULL);
		clan_farewell_forget(endpoint);
	}
	endpoint->spoken &= ~BIT_ULL(host);
}

/*
 * The host is lost, so it is unknown whether the message arrived, and its sender must not wait for
 * an answer. A request for a connection fails as if the peer were gone, not as if the port were
 * free.
 */
void clan_dropped(struct uln_card *card, u32 host, const struct uln_head *wire,
		  const u8 *data)
{
	struct clan_endpoint_object *endpoint = clan_endpoint_at(card, wire->from);
	struct clan_said said;
	u32 kind;

	if (!card->live || wire->reason != CLAN_SAY_MESSAGE)
		return;
	memcpy(&said, data, sizeof(said));
	kind = le32_to_cpu(said.kind) == CLAN_MESSAGE_CONNECT ? CLAN_MESSAGE_GONE :
								CLAN_MESSAGE_UNDELIVERED;
	if (endpoint && endpoint->spoken & BIT_ULL(host))
		queue_put(endpoint, ROOM_FOR_NEWS, host, wire->to, kind, said.data);
}

/*
 * Called when nothing is arranged with a host any longer. When the card has failed this may come in
 * the middle of anything: then all ends later, with the files.
 */
void clan_lost(struct uln_card *card, u32 host)
{
	struct clan_parts *parts = clan_parts(card);
	unsigned long port;
	void *entry;

	if (!card->live)
		return;
	clan_farewells_lost(card, host);
	/* A host that is lost repeatedly must not cost more each time. */
	if (!(parts->spoken & BIT_ULL(host)) && !parts->arranged[host])
		return;
	parts->spoken &= ~BIT_ULL(host);
	xa_for_each(&parts->ports, port, entry)
		if (!xa_is_value(entry))
			endpoint_lost(entry, host);
}

// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/* Messages from other operating systems about connections, as a service. */
#include <linux/bitops.h>
#include <linux/jhash.h>
#include <linux/random.h>

#include "uln_connect.h"

static struct uln_connections *connections_of(const struct peer_service *service)
{
	return container_of(service, struct uln_connections, service);
}

/* Rejects a message for connection @to, which does not exist. */
static void connection_refuse(struct uln_peer *peer, u32 to, u32 reason)
{
	struct uln_message *message = kzalloc(sizeof(*message), GFP_KERNEL);

	/* If this cannot be sent, the requester gives up later. */
	if (!message)
		return;
	message->wire.kind = ULN_WIRE_REJECT;
	message->wire.to = to;
	message->wire.reason = reason;
	uln_peer_send(peer, message);
}

static void connection_keep(struct uln_connection *connection, const struct uln_head *wire,
			    const u8 *data)
{
	connection->length = wire->private_length;
	memset(connection->data, 0, sizeof(connection->data));
	memcpy(connection->data, data + wire->name_length, wire->private_length);
}

/*
 * Returns whether a request is new, and was not taken by an earlier incarnation of this side. Marks
 * it as taken. Requests come in order.
 */
static bool request_is_new(struct connection_host *host, const struct uln_head *wire)
{
	u32 origin = upper_32_bits(wire->incarnation);

	if (host->asked_origin == origin && (s32)(wire->request - host->asked) <= 0)
		return false;
	host->asked_origin = origin;
	host->asked = wire->request;
	return true;
}

static u32 connection_hash(const struct uln_connections *connections, u32 host, u32 remote)
{
	return jhash_2words(host, remote, connections->hash_seed);
}

/* Gives a requested connection to the listener; false: there cannot be one more. */
static bool request_take(struct uln_peer *peer, struct uln_listener *listener,
			 const struct uln_head *wire, const u8 *data)
{
	struct uln_connections *connections = uln_connections_of(peer->system);
	struct uln_connection *connection;

	/* A worker allocates it, and peers decide how many there are: the listener is charged. */
	connection = uln_zalloc_charged(sizeof(*connection), listener->memcg);
	if (!connection)
		return false;
	if (uln_connection_init(connection, peer, ULN_CONNECTION_REQUESTED, listener->share,
				listener->privileged)) {
		kfree(connection);
		return false;
	}
	connection->remote = wire->from;
	connection->user = wire->user;
	hash_add(connections->remotes, &connection->by_remote,
		 connection_hash(connections, peer->host, wire->from));
	connection_keep(connection, wire, data);
	connection->listener = listener;
	list_add_tail(&connection->on_listener, &listener->requests);
	listener->waiting++;
	wake_up_all(&listener->wait);
	return true;
}

static void request_arrived(struct uln_peer *peer, const struct uln_head *wire,
			    const u8 *data)
{
	struct uln_connections *connections = uln_connections_of(peer->system);
	bool new = request_is_new(uln_connections_with(peer), wire);
	struct uln_listener *listener;

	/* This is a question, which may be answered twice. */
	if (!wire->name_length) {
		listener = uln_listener_find(connections, data, wire->private_length);
		connection_refuse(peer, wire->from,
				  listener ? ULN_END_LISTENING : ULN_END_NOT_LISTENING);
		return;
	}
	if (!new) {
		/* A listener may have had it, but this side has forgotten the outcome. */
		connection_refuse(peer, wire->from, ULN_END_HOST_RESET);
		return;
	}
	listener = uln_listener_find(connections, data, wire->name_length);
	if (!listener) {
		connection_refuse(peer, wire->from, ULN_END_NO_NAME);
		return;
	}
	if (listener->waiting >= listener->backlog || !request_take(peer, listener, wire, data))
		connection_refuse(peer, wire->from, ULN_END_BACKLOG);
}

/* Finds a connection by its number at a requester that left before it learned the number here. */
static struct uln_connection *connection_find_remote(struct uln_peer *peer, u32 remote)
{
	struct uln_connections *connections = uln_connections_of(peer->system);
	struct uln_connection *connection;

	hash_for_each_possible(connections->remotes, connection, by_remote,
			       connection_hash(connections, peer->host, remote))
		if (connection->peer == peer && connection->remote == remote)
			return connection;
	return NULL;
}

/* Returns whether a reason is the other operating system's own; any other is the listener's. */
static bool reason_is_known(const struct uln_connection *connection, u32 reason)
{
	switch (reason) {
	case ULN_END_NO_NAME:
	case ULN_END_BACKLOG:
	case ULN_END_HOST_RESET:
		return true;
	case ULN_END_LISTENING:
	case ULN_END_NOT_LISTENING:
		return connection->question;
	default:
		return false;
	}
}

static void connection_answered(struct uln_connection *connection,
				const struct uln_head *wire, const u8 *data)
{
	if (connection->state != ULN_CONNECTION_CONNECTING)
		return;
	connection_keep(connection, wire, data);
	connection->user = wire->user;
	/* A question is never accepted. */
	if (wire->kind == ULN_WIRE_ACCEPT && !connection->question) {
		connection->remote = wire->from;
		uln_connection_establish(connection);
	} else {
		uln_connection_end(connection, reason_is_known(connection, wire->reason) ?
						       wire->reason : ULN_END_REJECTED);
	}
}

static void connection_closed(struct uln_connection *connection, const struct uln_head *wire,
			      const u8 *data)
{
	if (connection->remote != wire->from)
		return;
	connection_keep(connection, wire, data);
	uln_connection_end(connection, wire->reason == ULN_END_CLOSED ? ULN_END_CLOSED :
									     ULN_END_DIED);
}

/* Ignores a message that makes no sense. */
static void connections_message(struct peer_service *service, u32 host,
				const struct uln_head *wire, const u8 *data)
{
	struct uln_peer *peer = &service->system->peers[host];
	struct uln_connection *connection = NULL;

	if (wire->kind == ULN_WIRE_REQUEST) {
		if (wire->from)
			request_arrived(peer, wire, data);
		return;
	}
	if (wire->to)
		connection = xa_load(&uln_connections_of(peer->system)->numbers, wire->to);
	else if (wire->kind == ULN_WIRE_CLOSE && wire->from)
		connection = connection_find_remote(peer, wire->from);
	if (!connection || connection->peer != peer)
		return;
	switch (wire->kind) {
	case ULN_WIRE_ACCEPT:
	case ULN_WIRE_REJECT:
		connection_answered(connection, wire, data);
		break;
	case ULN_WIRE_CLOSE:
		connection_closed(connection, wire, data);
		break;
	}
}

/* Requests that were not acknowledged are sent to a host's next incarnation. */
static void connections_lost(struct peer_service *service, u32 host, u32 reason, bool restarted)
{
	struct connection_host *with = &connections_of(service)->hosts[host];
	struct uln_connection *connection, *next;

	list_for_each_entry_safe(connection, next, &with->connections, on_host)
		if (!restarted || connection->state != ULN_CONNECTION_CONNECTING ||
		    list_empty(&connection->opening.on_peer))
			uln_connection_end(connection, reason);
}

static bool connections_depend(const struct peer_service *service, u32 host)
{
	return !list_empty(&connections_of(service)->hosts[host].connections);
}

/* Marks all listeners as dead. */
static void connections_stop(struct peer_service *service)
{
	struct uln_connections *connections = connections_of(service);
	struct uln_listener *listener;
	struct hlist_node *following;
	unsigned int bucket;

	hash_for_each_safe(connections->listeners, bucket, following, listener, by_name) {
		WRITE_ONCE(listener->dead, true);
		hash_del(&listener->by_name);
		wake_up_all(&listener->wait);
	}
}

static void connections_free(struct peer_service *service)
{
	struct uln_connections *connections = connections_of(service);

	xa_destroy(&connections->numbers);
	kfree(connections);
}

static const struct peer_service_ops connections_ops = {
	.kinds = BIT(ULN_WIRE_REQUEST) | BIT(ULN_WIRE_ACCEPT) | BIT(ULN_WIRE_REJECT) |
		 BIT(ULN_WIRE_CLOSE),
	.named = true,
	.message = connections_message,
	.lost = connections_lost,
	.depends = connections_depend,
	.stop = connections_stop,
	.free = connections_free,
};

int uln_connections_register(struct uln_system *system)
{
	struct uln_connections *connections = kzalloc(sizeof(*connections), GFP_KERNEL);
	unsigned int i;

	if (!connections)
		return -ENOMEM;
	connections->service.ops = &connections_ops;
	hash_init(connections->listeners);
	hash_init(connections->remotes);
	connections->hash_seed = get_random_u32();
	xa_init_flags(&connections->numbers, XA_FLAGS_ALLOC1);
	for (i = 0; i < ARRAY_SIZE(connections->hosts); i++)
		INIT_LIST_HEAD(&connections->hosts[i].connections);
	uln_service_register(system, &connections->service);
	return 0;
}

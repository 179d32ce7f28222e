// SPDX-License-Identifier: GPL-2.0-only
/*
 * Connections, and the names that are listened to (sections 6.3 and 6.4 of the paper).
 *
 * A connection carries no data. When it begins and ends each side can pass the other some private
 * bytes, a ticket perhaps, and each is told when the other is gone. It is live until it has ended
 * for either side. Messages that come for it later are ignored.
 */
#include <linux/nospec.h>

#include "connect.h"
#include "hamlyn_trace.h"

static void connection_free(struct kref *users)
{
	struct hamlyn_connection *connection =
		container_of(users, struct hamlyn_connection, users);

	if (connection->counted)
		hamlyn_share_give(connection->share, HAMLYN_CONNECTIONS);
	hamlyn_share_put(connection->share);
	kfree(connection);
}

/* The card's lock is held. */
void hamlyn_connection_put(struct hamlyn_connection *connection)
{
	lockdep_assert_held(&connection->card->lock);
	kref_put(&connection->users, connection_free);
}

/*
 * A connection that has ended still counts for its user while we have something to tell the peer
 * about it, however long the peer makes that take. That its file is open does not count. The card's
 * lock is held.
 */
void hamlyn_connection_settle(struct hamlyn_connection *connection)
{
	if (!connection->counted || connection->state != HAMLYN_CONNECTION_ENDED ||
	    !list_empty(&connection->opening.on_peer) || !list_empty(&connection->closing.on_peer))
		return;
	connection->counted = false;
	hamlyn_share_give(connection->share, HAMLYN_CONNECTIONS);
}

static void trace_state(const struct hamlyn_connection *connection)
{
	trace_hamlyn_connection(connection->card->minor, connection->number, connection->peer->host,
				connection->state, connection->reason);
}

static struct hamlyn_connection *connection_create(struct hamlyn_peer *peer, u32 state,
						   struct hamlyn_share *share, bool privileged,
						   gfp_t gfp)
{
	struct hamlyn_wellknown *own = peer->own;
	struct hamlyn_connection *connection;
	int ret;

	ret = hamlyn_share_take(share, HAMLYN_CONNECTIONS, privileged);
	if (ret)
		return ERR_PTR(ret);
	connection = kzalloc(sizeof(*connection), gfp);
	/*
	 * A number is used again late, so that a late message is not taken for another
	 * connection's.
	 */
	ret = connection ? xa_alloc_cyclic(&own->connections, &connection->number, connection,
					   XA_LIMIT(1, INT_MAX), &own->next_number, gfp) :
			   -ENOMEM;
	if (ret < 0) {
		hamlyn_share_give(share, HAMLYN_CONNECTIONS);
		kfree(connection);
		return ERR_PTR(ret);
	}
	hamlyn_share_get(share);
	connection->share = share;
	connection->counted = true;
	kref_init(&connection->users);
	kref_get(&connection->users); /* The table's. */
	connection->card = own->card;
	connection->peer = peer;
	connection->state = state;
	connection->opening.connection = connection;
	connection->closing.connection = connection;
	INIT_LIST_HEAD(&connection->on_listener);
	INIT_LIST_HEAD(&connection->opening.on_peer);
	INIT_LIST_HEAD(&connection->closing.on_peer);
	init_waitqueue_head(&connection->wait);
	hamlyn_peer_watch(peer);
	list_add_tail(&connection->on_peer, &peer->connections);
	trace_state(connection);
	return connection;
}

static void leave_listener(struct hamlyn_connection *connection)
{
	if (!connection->listener)
		return;
	list_del_init(&connection->on_listener);
	connection->listener->waiting--;
	connection->listener = NULL;
}

/* Ends the connection for this reason, and wakes those who wait. */
void hamlyn_connection_end(struct hamlyn_connection *connection, u32 reason)
{
	bool unclaimed = connection->listener;

	connection->reason = reason;
	WRITE_ONCE(connection->state, HAMLYN_CONNECTION_ENDED);
	trace_state(connection);
	leave_listener(connection);
	xa_erase(&connection->card->wellknown->connections, connection->number);
	list_del(&connection->on_peer);
	wake_up_all(&connection->wait);
	hamlyn_connection_settle(connection);
	hamlyn_connection_put(connection);
	/* No peer knows of it yet, so no peer need be told. */
	if (unclaimed)
		hamlyn_connection_put(connection);
}

static void send(struct hamlyn_connection *connection, struct hamlyn_message *message, u32 kind,
		 u32 reason, const struct hamlyn_private *private)
{
	u32 length = private ? private->length : 0;

	message->wire.kind = kind;
	message->wire.from = connection->number;
	message->wire.to = connection->remote;
	message->wire.reason = reason;
	message->wire.private_length = length;
	if (length)
		memcpy(message->data + message->wire.name_length, private->data, length);
	hamlyn_peer_send(connection->peer, message);
}

/* Asks for a connection; the card's lock is held. */
struct hamlyn_connection *hamlyn_connection_request(struct hamlyn_file *file,
						    const struct hamlyn_connect *connect)
{
	struct hamlyn_card *card = file->card;
	struct hamlyn_wellknown *own = card->wellknown;
	struct hamlyn_connection *connection;
	struct hamlyn_message *message;
	u32 host;

	if (!own->open)
		return ERR_PTR(-EOPNOTSUPP);
	hamlyn_card_report_link(card);
	if (!card->link)
		return ERR_PTR(-ENETDOWN);
	if (connect->host >= HAMLYN_WELL_KNOWN_SLOTS || card->host >= HAMLYN_WELL_KNOWN_SLOTS)
		return ERR_PTR(-EHOSTUNREACH);
	host = array_index_nospec(connect->host, HAMLYN_WELL_KNOWN_SLOTS);
	connection = connection_create(&own->peers[host], HAMLYN_CONNECTION_CONNECTING,
				       file->share, file->privileged, GFP_KERNEL_ACCOUNT);
	if (IS_ERR(connection))
		return connection;
	message = &connection->opening;
	message->wire.kind = HAMLYN_WIRE_REQUEST;
	message->wire.from = connection->number;
	message->wire.request = ++connection->peer->requests;
	message->wire.name_length = connect->name_length;
	message->wire.private_length = connect->private_length;
	memcpy(message->data, connect->name, connect->name_length);
	memcpy(message->data + connect->name_length, connect->data, connect->private_length);
	hamlyn_peer_send(connection->peer, message);
	return connection;
}

/* Accepts or rejects what was asked for; the card's lock is held. */
int hamlyn_connection_answer(struct hamlyn_connection *connection, u32 kind,
			     const struct hamlyn_private *private)
{
	bool accepted = kind == HAMLYN_WIRE_ACCEPT;

	if (connection->state != HAMLYN_CONNECTION_REQUESTED)
		return -ENOTCONN;
	send(connection, &connection->opening, kind, accepted ? 0 : HAMLYN_END_REJECTED, private);
	if (accepted) {
		connection->state = HAMLYN_CONNECTION_ESTABLISHED;
		trace_state(connection);
		wake_up_all(&connection->wait);
	} else {
		hamlyn_connection_end(connection, HAMLYN_END_REJECTED);
	}
	return 0;
}

/* Ends a connection from our side; the card's lock is held. */
int hamlyn_connection_close(struct hamlyn_connection *connection, u32 reason,
			    const struct hamlyn_private *private)
{
	if (connection->state == HAMLYN_CONNECTION_ENDED)
		return -ENOTCONN;
	if (connection->state == HAMLYN_CONNECTION_REQUESTED)
		return hamlyn_connection_answer(connection, HAMLYN_WIRE_REJECT, private);
	if (connection->state != HAMLYN_CONNECTION_CONNECTING ||
	    !hamlyn_peer_withdraw(connection->peer, &connection->opening))
		send(connection, &connection->closing, HAMLYN_WIRE_CLOSE, reason, private);
	hamlyn_connection_end(connection, reason);
	return 0;
}

/* A message says that there is no connection with number @to. */
static void refuse(struct hamlyn_peer *peer, u32 to, u32 reason)
{
	struct hamlyn_message *message = kzalloc(sizeof(*message), GFP_KERNEL);

	/* If this cannot be sent, the asker gives up later. */
	if (!message)
		return;
	message->wire.kind = HAMLYN_WIRE_REJECT;
	message->wire.to = to;
	message->wire.reason = reason;
	hamlyn_peer_send(peer, message);
}

static struct hamlyn_listener *find_listener(struct hamlyn_wellknown *own, const u8 *name,
					     u32 length)
{
	struct hamlyn_listener *listener;

	list_for_each_entry(listener, &own->listeners, on_card)
		if (listener->name_length == length && !memcmp(listener->name, name, length))
			return listener;
	return NULL;
}

static void keep_private(struct hamlyn_connection *connection, const struct hamlyn_wire *wire,
			 const u8 *data)
{
	connection->length = wire->private_length;
	memset(connection->data, 0, sizeof(connection->data));
	memcpy(connection->data, data + wire->name_length, wire->private_length);
}

/*
 * Whether a request is new, and not one that an earlier incarnation of ours took already. Marks it
 * as taken. Requests come in order.
 */
static bool is_new(struct hamlyn_peer *peer, const struct hamlyn_wire *wire)
{
	u32 origin = upper_32_bits(wire->incarnation);

	if (peer->asked_origin == origin && (s32)(wire->request - peer->asked) <= 0)
		return false;
	peer->asked_origin = origin;
	peer->asked = wire->request;
	return true;
}

static void requested(struct hamlyn_peer *peer, const struct hamlyn_wire *wire, const u8 *data)
{
	struct hamlyn_connection *connection;
	struct hamlyn_listener *listener;

	if (!is_new(peer, wire)) {
		/* A listener may have had it, but we have forgotten what came of it. */
		refuse(peer, wire->from, HAMLYN_END_HOST_RESET);
		return;
	}
	listener = find_listener(peer->own, data, wire->name_length);
	if (!listener) {
		refuse(peer, wire->from, HAMLYN_END_NO_NAME);
		return;
	}
	if (listener->waiting >= listener->backlog) {
		refuse(peer, wire->from, HAMLYN_END_BACKLOG);
		return;
	}
	connection = connection_create(peer, HAMLYN_CONNECTION_REQUESTED, listener->share,
				       listener->privileged, GFP_KERNEL);
	if (IS_ERR(connection)) {
		refuse(peer, wire->from, HAMLYN_END_BACKLOG);
		return;
	}
	connection->remote = wire->from;
	keep_private(connection, wire, data);
	connection->listener = listener;
	list_add_tail(&connection->on_listener, &listener->requests);
	listener->waiting++;
	wake_up_all(&listener->wait);
}

/* The asker has gone before it learned our number. */
static struct hamlyn_connection *find_remote(struct hamlyn_peer *peer, u32 remote)
{
	struct hamlyn_connection *connection;

	list_for_each_entry(connection, &peer->connections, on_peer)
		if (connection->remote == remote &&
		    connection->opening.wire.kind != HAMLYN_WIRE_REQUEST)
			return connection;
	return NULL;
}

static void answered(struct hamlyn_connection *connection, const struct hamlyn_wire *wire,
		     const u8 *data)
{
	if (connection->state != HAMLYN_CONNECTION_CONNECTING)
		return;
	keep_private(connection, wire, data);
	if (wire->kind == HAMLYN_WIRE_ACCEPT) {
		connection->remote = wire->from;
		WRITE_ONCE(connection->state, HAMLYN_CONNECTION_ESTABLISHED);
		trace_state(connection);
		wake_up_all(&connection->wait);
	} else if (wire->reason == HAMLYN_END_NO_NAME || wire->reason == HAMLYN_END_BACKLOG ||
		   wire->reason == HAMLYN_END_HOST_RESET) {
		hamlyn_connection_end(connection, wire->reason);
	} else {
		hamlyn_connection_end(connection, HAMLYN_END_REJECTED);
	}
}

static void closed(struct hamlyn_connection *connection, const struct hamlyn_wire *wire,
		   const u8 *data)
{
	if (connection->remote != wire->from)
		return;
	keep_private(connection, wire, data);
	hamlyn_connection_end(connection, wire->reason == HAMLYN_END_CLOSED ? HAMLYN_END_CLOSED :
									     HAMLYN_END_DIED);
}

/*
 * Handles a message from a peer. Its lengths have been checked; one that makes no sense is ignored.
 */
void hamlyn_connection_message(struct hamlyn_peer *peer, const struct hamlyn_wire *wire,
			       const u8 *data)
{
	struct hamlyn_connection *connection = NULL;

	if (wire->kind == HAMLYN_WIRE_REQUEST) {
		if (wire->from)
			requested(peer, wire, data);
		return;
	}
	if (wire->to)
		connection = xa_load(&peer->own->connections, wire->to);
	else if (wire->kind == HAMLYN_WIRE_CLOSE && wire->from)
		connection = find_remote(peer, wire->from);
	if (!connection || connection->peer != peer)
		return;
	switch (wire->kind) {
	case HAMLYN_WIRE_ACCEPT:
	case HAMLYN_WIRE_REJECT:
		answered(connection, wire, data);
		break;
	case HAMLYN_WIRE_CLOSE:
		closed(connection, wire, data);
		break;
	}
}

/* Takes a name; the card's lock is held. */
int hamlyn_listener_open(struct hamlyn_listener *listener, const struct hamlyn_listen *listen)
{
	struct hamlyn_wellknown *own = listener->card->wellknown;
	int ret;

	if (!own->open)
		return -EOPNOTSUPP;
	if (find_listener(own, listen->name, listen->name_length))
		return -EADDRINUSE;
	ret = hamlyn_share_take(listener->share, HAMLYN_CONNECTIONS, listener->privileged);
	if (ret)
		return ret;
	hamlyn_share_get(listener->share);
	listener->backlog = listen->backlog;
	listener->name_length = listen->name_length;
	memcpy(listener->name, listen->name, listen->name_length);
	list_add_tail(&listener->on_card, &own->listeners);
	return 0;
}

/* A request has been given a file, which owns it from now on; the card's lock is held. */
void hamlyn_listener_claimed(struct hamlyn_connection *connection)
{
	leave_listener(connection);
}

/* Frees the name, and refuses those who wait under it; the card's lock is held. */
void hamlyn_listener_close(struct hamlyn_listener *listener)
{
	struct hamlyn_connection *connection, *following;

	list_for_each_entry_safe(connection, following, &listener->requests, on_listener) {
		send(connection, &connection->opening, HAMLYN_WIRE_REJECT, HAMLYN_END_NO_NAME,
		     NULL);
		hamlyn_connection_end(connection, HAMLYN_END_NO_NAME);
	}
	list_del(&listener->on_card);
	hamlyn_share_give(listener->share, HAMLYN_CONNECTIONS);
	hamlyn_share_put(listener->share);
}

/* This host may have missed messages: ends all connections. The card's lock is held. */
void hamlyn_connections_lost(struct hamlyn_card *card, u32 reason)
{
	struct hamlyn_wellknown *own = card->wellknown;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(own->peers); i++)
		hamlyn_peer_lost(&own->peers[i], reason);
}

/* The card has stopped: so have connections and listeners. The card's lock is held. */
void hamlyn_connections_stop(struct hamlyn_card *card)
{
	struct hamlyn_listener *listener, *following;

	hamlyn_connections_lost(card, HAMLYN_END_CARD_RESET);
	list_for_each_entry_safe(listener, following, &card->wellknown->listeners, on_card) {
		WRITE_ONCE(listener->dead, true);
		list_del_init(&listener->on_card);
		wake_up_all(&listener->wait);
	}
}

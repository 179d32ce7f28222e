// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/*
 * Connections: how they begin and end here (sections 6.3 and 6.4 of the paper).
 *
 * A connection carries no data. When it begins and ends, each side can pass the other some private
 * bytes, perhaps a ticket. Each is told when the other is gone. It is live until it has ended for
 * either side. Later messages for it are ignored.
 */
#include <linux/nospec.h>

#include "uln_connect.h"
#include "uln_trace.h"

static void connection_free(struct kref *users)
{
	struct uln_connection *connection =
		container_of(users, struct uln_connection, users);

	if (connection->counted)
		uln_share_give(connection->share, ULN_CONNECTIONS);
	uln_share_put(connection->share);
	kfree(connection);
}

/* The card's lock is held. */
static void connection_put(struct uln_connection *connection)
{
	lockdep_assert_held(connection->system->lock);
	kref_put(&connection->users, connection_free);
}

/*
 * A connection that has ended still counts for its user while a message about it waits for the
 * peer, however long that takes. An open file alone does not count. The card's lock is held.
 */
static void connection_settle(struct uln_connection *connection)
{
	if (!connection->counted || connection->state != ULN_CONNECTION_ENDED ||
	    !list_empty(&connection->opening.on_peer) || !list_empty(&connection->closing.on_peer))
		return;
	connection->counted = false;
	uln_share_give(connection->share, ULN_CONNECTIONS);
}

/* A message that is part of a connection has a reference to it while it waits for the peer. */
static void message_send(struct uln_connection *connection, struct uln_message *message)
{
	kref_get(&connection->users);
	uln_peer_send(connection->peer, message);
}

static void message_done(struct uln_connection *connection)
{
	connection_settle(connection);
	connection_put(connection);
}

static void opening_done(struct uln_message *message)
{
	message_done(container_of(message, struct uln_connection, opening));
}

static void closing_done(struct uln_message *message)
{
	message_done(container_of(message, struct uln_connection, closing));
}

static bool opening_lasts(const struct uln_message *message)
{
	return container_of(message, struct uln_connection, opening)->state ==
	       ULN_CONNECTION_CONNECTING;
}

static const struct uln_message_ops opening_ops = {
	.lasts = opening_lasts,
	.done = opening_done,
};

static const struct uln_message_ops closing_ops = {
	.done = closing_done,
};

static void connection_trace(const struct uln_connection *connection)
{
	trace_hamlyn_connection(connection->system->number, connection->number,
				connection->peer->host, connection->state, connection->reason);
}

/* Initialises a connection in memory that is all zero. */
int uln_connection_init(struct uln_connection *connection, struct uln_peer *peer,
			u32 state, struct uln_share *share, bool privileged)
{
	struct uln_connections *connections = uln_connections_of(peer->system);
	int ret;

	ret = uln_share_take(share, ULN_CONNECTIONS, privileged);
	if (ret)
		return ret;
	/* A number is reused late, so that a late message is not taken for another connection's. */
	ret = xa_alloc_cyclic(&connections->numbers, &connection->number, connection,
			      XA_LIMIT(1, INT_MAX), &connections->next_number, GFP_KERNEL);
	if (ret < 0) {
		uln_share_give(share, ULN_CONNECTIONS);
		return ret;
	}
	uln_share_get(share);
	connection->share = share;
	connection->counted = true;
	kref_init(&connection->users);
	kref_get(&connection->users); /* For the table. */
	connection->system = peer->system;
	connection->peer = peer;
	connection->state = state;
	connection->opening.ops = &opening_ops;
	connection->closing.ops = &closing_ops;
	INIT_LIST_HEAD(&connection->on_listener);
	INIT_HLIST_NODE(&connection->by_remote);
	INIT_LIST_HEAD(&connection->opening.on_peer);
	INIT_LIST_HEAD(&connection->closing.on_peer);
	init_waitqueue_head(&connection->wait);
	uln_peer_watch(peer);
	list_add_tail(&connection->on_host, &uln_connections_with(peer)->connections);
	connection_trace(connection);
	return 0;
}

void uln_connection_leave(struct uln_connection *connection)
{
	if (!connection->listener)
		return;
	list_del_init(&connection->on_listener);
	connection->listener->waiting--;
	connection->listener = NULL;
}

void uln_connection_establish(struct uln_connection *connection)
{
	WRITE_ONCE(connection->state, ULN_CONNECTION_ESTABLISHED);
	connection_trace(connection);
	wake_up_all(&connection->wait);
}

/* Ends the connection for this reason, and wakes waiting threads. */
void uln_connection_end(struct uln_connection *connection, u32 reason)
{
	bool unclaimed = connection->listener;

	connection->reason = reason;
	WRITE_ONCE(connection->state, ULN_CONNECTION_ENDED);
	connection_trace(connection);
	uln_connection_leave(connection);
	xa_erase(&uln_connections_of(connection->system)->numbers, connection->number);
	list_del(&connection->on_host);
	hash_del(&connection->by_remote);
	wake_up_all(&connection->wait);
	connection_settle(connection);
	connection_put(connection);
	/* No peer knows of it yet, so none is told; drop the listener's reference. */
	if (unclaimed)
		connection_put(connection);
}

void uln_connection_send(struct uln_connection *connection, struct uln_message *message,
			 u32 kind, u32 reason, const struct uln_private *private)
{
	u32 length = private ? private->length : 0;

	message->wire.kind = kind;
	message->wire.from = connection->number;
	message->wire.to = connection->remote;
	message->wire.reason = reason;
	message->wire.private_length = length;
	message->wire.user = uln_share_user(connection->share);
	if (length)
		memcpy(message->data + message->wire.name_length, private->data, length);
	message_send(connection, message);
}

/* A question has no name of its own: the name that it asks for is its private data. */
static void connection_put_request(struct uln_connection *connection,
				   const struct uln_connect *connect)
{
	struct uln_message *message = &connection->opening;
	bool question = connection->question;

	message->wire.kind = ULN_WIRE_REQUEST;
	message->wire.from = connection->number;
	message->wire.request = ++uln_connections_with(connection->peer)->requests;
	message->wire.user = uln_share_user(connection->share);
	message->wire.name_length = question ? 0 : connect->name_length;
	message->wire.private_length = question ? connect->name_length : connect->private_length;
	memcpy(message->data, connect->name, connect->name_length);
	memcpy(message->data + connect->name_length, connect->data, connect->private_length);
	message_send(connection, message);
}

/*
 * Requests a connection, in memory that is all zero except for @question; the card's lock is held.
 */
int uln_connection_request(struct uln_system *system, struct uln_share *share,
			   bool privileged, const struct uln_connect *connect,
			   struct uln_connection *connection)
{
	struct peer_transport *transport = system->transport;
	u32 here, host;
	int ret;

	if (!system->open)
		return -EOPNOTSUPP;
	if (!transport->ops->link(transport, &here))
		return -ENETDOWN;
	if (!uln_system_has_host(system, connect->host) || here >= ULN_WELL_KNOWN_SLOTS)
		return -EHOSTUNREACH;
	host = array_index_nospec(connect->host, ULN_WELL_KNOWN_SLOTS);
	ret = uln_connection_init(connection, &system->peers[host], ULN_CONNECTION_CONNECTING,
				  share, privileged);
	if (ret)
		return ret;
	connection_put_request(connection, connect);
	return 0;
}

/* Accepts or rejects a request; the card's lock is held. */
int uln_connection_answer(struct uln_connection *connection, u32 kind,
			  const struct uln_private *private)
{
	bool accepted = kind == ULN_WIRE_ACCEPT;

	if (connection->state != ULN_CONNECTION_REQUESTED)
		return -ENOTCONN;
	uln_connection_send(connection, &connection->opening, kind,
			    accepted ? 0 : ULN_END_REJECTED, private);
	if (accepted)
		uln_connection_establish(connection);
	else
		uln_connection_end(connection, ULN_END_REJECTED);
	return 0;
}

/* Ends a connection from this side; the card's lock is held. */
int uln_connection_close(struct uln_connection *connection, u32 reason,
			 const struct uln_private *private)
{
	if (connection->state == ULN_CONNECTION_ENDED)
		return -ENOTCONN;
	if (connection->state == ULN_CONNECTION_REQUESTED)
		return uln_connection_answer(connection, ULN_WIRE_REJECT, private);
	/* The peer keeps no state of a question. */
	if ((connection->state != ULN_CONNECTION_CONNECTING ||
	     !uln_peer_withdraw(connection->peer, &connection->opening)) &&
	    !connection->question)
		uln_connection_send(connection, &connection->closing, ULN_WIRE_CLOSE, reason,
				    private);
	uln_connection_end(connection, reason);
	return 0;
}

/* Called when its file is closed; the card's lock is held. */
void uln_connection_release(struct uln_connection *connection)
{
	/* It may have ended already. */
	uln_connection_close(connection, ULN_END_DIED, NULL);
	connection_put(connection);
}

/* Describes its state; the card's lock is held. */
void uln_connection_describe(const struct uln_connection *connection,
			     struct uln_connection_state *state)
{
	state->state = connection->state;
	state->reason = connection->reason;
	state->host = connection->peer->host;
	state->private_length = connection->length;
	state->user = connection->user;
	memcpy(state->data, connection->data, sizeof(state->data));
}

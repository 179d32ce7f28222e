// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/*
 * Connections, and names with listeners (sections 6.3 and 6.4 of the paper).
 *
 * A connection carries no data. When it begins and ends, each side can pass the other some private
 * bytes, perhaps a ticket. Each is told when the other is gone. It is live until it has ended for
 * either side. Later messages for it are ignored.
 */
#include <linux/jhash.h>
#include <linux/nospec.h>

#include "hamlyn_connect.h"
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
	lockdep_assert_held(connection->system->lock);
	kref_put(&connection->users, connection_free);
}

/*
 * A connection that has ended still counts for its user while a message about it waits for the
 * peer, however long that takes. An open file alone does not count. The card's lock is held.
 */
void hamlyn_connection_settle(struct hamlyn_connection *connection)
{
	if (!connection->counted || connection->state != HAMLYN_CONNECTION_ENDED ||
	    !list_empty(&connection->opening.on_peer) || !list_empty(&connection->closing.on_peer))
		return;
	connection->counted = false;
	hamlyn_share_give(connection->share, HAMLYN_CONNECTIONS);
}

static void connection_trace(const struct hamlyn_connection *connection)
{
	trace_hamlyn_connection(connection->system->number, connection->number,
				connection->peer->host, connection->state, connection->reason);
}

/* Initialises a connection in memory that is all zero. */
static int connection_init(struct hamlyn_connection *connection, struct hamlyn_peer *peer,
			   u32 state, struct hamlyn_share *share, bool privileged)
{
	struct hamlyn_system *system = peer->system;
	int ret;

	ret = hamlyn_share_take(share, HAMLYN_CONNECTIONS, privileged);
	if (ret)
		return ret;
	/* A number is reused late, so that a late message is not taken for another connection's. */
	ret = xa_alloc_cyclic(&system->connections, &connection->number, connection,
			      XA_LIMIT(1, INT_MAX), &system->next_number, GFP_KERNEL);
	if (ret < 0) {
		hamlyn_share_give(share, HAMLYN_CONNECTIONS);
		return ret;
	}
	hamlyn_share_get(share);
	connection->share = share;
	connection->counted = true;
	kref_init(&connection->users);
	kref_get(&connection->users); /* For the table. */
	connection->system = system;
	connection->peer = peer;
	connection->state = state;
	connection->opening.connection = connection;
	connection->closing.connection = connection;
	INIT_LIST_HEAD(&connection->on_listener);
	INIT_HLIST_NODE(&connection->by_remote);
	INIT_LIST_HEAD(&connection->opening.on_peer);
	INIT_LIST_HEAD(&connection->closing.on_peer);
	init_waitqueue_head(&connection->wait);
	hamlyn_peer_watch(peer);
	list_add_tail(&connection->on_peer, &peer->connections);
	connection_trace(connection);
	return 0;
}

static void connection_leave(struct hamlyn_connection *connection)
{
	if (!connection->listener)
		return;
	list_del_init(&connection->on_listener);
	connection->listener->waiting--;
	connection->listener = NULL;
}

/* Ends the connection for this reason, and wakes waiting threads. */
void hamlyn_connection_end(struct hamlyn_connection *connection, u32 reason)
{
	bool unclaimed = connection->listener;

	connection->reason = reason;
	WRITE_ONCE(connection->state, HAMLYN_CONNECTION_ENDED);
	connection_trace(connection);
	connection_leave(connection);
	xa_erase(&connection->system->connections, connection->number);
	list_del(&connection->on_peer);
	hash_del(&connection->by_remote);
	wake_up_all(&connection->wait);
	hamlyn_connection_settle(connection);
	hamlyn_connection_put(connection);
	/* No peer knows of it yet, so none is told; drop the listener's reference. */
	if (unclaimed)
		hamlyn_connection_put(connection);
}

static void connection_send(struct hamlyn_connection *connection, struct hamlyn_message *message,
			    u32 kind, u32 reason, const struct hamlyn_private *private)
{
	u32 length = private ? private->length : 0;

	message->wire.kind = kind;
	message->wire.from = connection->number;
	message->wire.to = connection->remote;
	message->wire.reason = reason;
	message->wire.private_length = length;
	message->wire.user = hamlyn_share_user(connection->share);
	if (length)
		memcpy(message->data + message->wire.name_length, private->data, length);
	hamlyn_peer_send(connection->peer, message);
}

/* A question has no name of its own: the name that it asks for is its private data. */
static void connection_put_request(struct hamlyn_connection *connection,
				   const struct hamlyn_connect *connect)
{
	struct hamlyn_message *message = &connection->opening;
	bool question = connection->question;

	message->wire.kind = HAMLYN_WIRE_REQUEST;
	message->wire.from = connection->number;
	message->wire.request = ++connection->peer->requests;
	message->wire.user = hamlyn_share_user(connection->share);
	message->wire.name_length = question ? 0 : connect->name_length;
	message->wire.private_length = question ? connect->name_length : connect->private_length;
	memcpy(message->data, connect->name, connect->name_length);
	memcpy(message->data + connect->name_length, connect->data, connect->private_length);
	hamlyn_peer_send(connection->peer, message);
}

/*
 * Requests a connection, in memory that is all zero except for @question; the card's lock is held.
 */
int hamlyn_connection_request(struct hamlyn_system *system, struct hamlyn_share *share,
			      bool privileged, const struct hamlyn_connect *connect,
			      struct hamlyn_connection *connection)
{
	struct peer_transport *transport = system->transport;
	u32 here, host;
	int ret;

	if (!system->open)
		return -EOPNOTSUPP;
	if (!transport->ops->link(transport, &here))
		return -ENETDOWN;
	if (!hamlyn_system_has_host(system, connect->host) || here >= HAMLYN_WELL_KNOWN_SLOTS)
		return -EHOSTUNREACH;
	host = array_index_nospec(connect->host, HAMLYN_WELL_KNOWN_SLOTS);
	ret = connection_init(connection, &system->peers[host], HAMLYN_CONNECTION_CONNECTING,
			      share, privileged);
	if (ret)
		return ret;
	connection_put_request(connection, connect);
	return 0;
}

/* Accepts or rejects a request; the card's lock is held. */
int hamlyn_connection_answer(struct hamlyn_connection *connection, u32 kind,
			     const struct hamlyn_private *private)
{
	bool accepted = kind == HAMLYN_WIRE_ACCEPT;

	if (connection->state != HAMLYN_CONNECTION_REQUESTED)
		return -ENOTCONN;
	connection_send(connection, &connection->opening, kind, accepted ? 0 : HAMLYN_END_REJECTED,
			private);
	if (accepted) {
		WRITE_ONCE(connection->state, HAMLYN_CONNECTION_ESTABLISHED);
		connection_trace(connection);
		wake_up_all(&connection->wait);
	} else {
		hamlyn_connection_end(connection, HAMLYN_END_REJECTED);
	}
	return 0;
}

/* Ends a connection from this side; the card's lock is held. */
int hamlyn_connection_close(struct hamlyn_connection *connection, u32 reason,
			    const struct hamlyn_private *private)
{
	if (connection->state == HAMLYN_CONNECTION_ENDED)
		return -ENOTCONN;
	if (connection->state == HAMLYN_CONNECTION_REQUESTED)
		return hamlyn_connection_answer(connection, HAMLYN_WIRE_REJECT, private);
	/* The peer keeps no state of a question. */
	if ((connection->state != HAMLYN_CONNECTION_CONNECTING ||
	     !hamlyn_peer_withdraw(connection->peer, &connection->opening)) &&
	    !connection->question)
		connection_send(connection, &connection->closing, HAMLYN_WIRE_CLOSE, reason,
				private);
	hamlyn_connection_end(connection, reason);
	return 0;
}

/* Called when its file is closed; the card's lock is held. */
void hamlyn_connection_release(struct hamlyn_connection *connection)
{
	/* It may have ended already. */
	hamlyn_connection_close(connection, HAMLYN_END_DIED, NULL);
	hamlyn_connection_put(connection);
}

/* Describes its state; the card's lock is held. */
void hamlyn_connection_describe(const struct hamlyn_connection *connection,
				struct hamlyn_connection_state *state)
{
	state->state = connection->state;
	state->reason = connection->reason;
	state->host = connection->peer->host;
	state->private_length = connection->length;
	state->user = connection->user;
	memcpy(state->data, connection->data, sizeof(state->data));
}

/* Sends a message that there is no connection with number @to. */
static void connection_refuse(struct hamlyn_peer *peer, u32 to, u32 reason)
{
	struct hamlyn_message *message = kzalloc(sizeof(*message), GFP_KERNEL);

	/* If this cannot be sent, the requester gives up later. */
	if (!message)
		return;
	message->wire.kind = HAMLYN_WIRE_REJECT;
	message->wire.to = to;
	message->wire.reason = reason;
	hamlyn_peer_send(peer, message);
}

static u32 listener_hash(const struct hamlyn_system *system, const u8 *name, u32 length)
{
	return jhash(name, length, system->hash_seed);
}

static struct hamlyn_listener *listener_find(struct hamlyn_system *system, const u8 *name,
					     u32 length)
{
	struct hamlyn_listener *listener;

	hash_for_each_possible(system->listeners, listener, by_name,
			       listener_hash(system, name, length))
		if (listener->name_length == length && !memcmp(listener->name, name, length))
			return listener;
	return NULL;
}

static void connection_keep(struct hamlyn_connection *connection, const struct hamlyn_wire *wire,
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
static bool request_is_new(struct hamlyn_peer *peer, const struct hamlyn_wire *wire)
{
	u32 origin = upper_32_bits(wire->incarnation);

	if (peer->asked_origin == origin && (s32)(wire->request - peer->asked) <= 0)
		return false;
	peer->asked_origin = origin;
	peer->asked = wire->request;
	return true;
}

static u32 connection_hash(const struct hamlyn_peer *peer, u32 remote)
{
	return jhash_2words(peer->host, remote, peer->system->hash_seed);
}

/* Gives a requested connection to the listener; false: there cannot be one more. */
static bool request_take(struct hamlyn_peer *peer, struct hamlyn_listener *listener,
			 const struct hamlyn_wire *wire, const u8 *data)
{
	struct hamlyn_connection *connection = hamlyn_listener_alloc_request(listener);

	if (!connection)
		return false;
	if (connection_init(connection, peer, HAMLYN_CONNECTION_REQUESTED, listener->share,
			    listener->privileged)) {
		kfree(connection);
		return false;
	}
	connection->remote = wire->from;
	connection->user = wire->user;
	hash_add(peer->system->remotes, &connection->by_remote, connection_hash(peer, wire->from));
	connection_keep(connection, wire, data);
	connection->listener = listener;
	list_add_tail(&connection->on_listener, &listener->requests);
	listener->waiting++;
	wake_up_all(&listener->wait);
	return true;
}

static void request_arrived(struct hamlyn_peer *peer, const struct hamlyn_wire *wire,
			    const u8 *data)
{
	struct hamlyn_listener *listener;
	bool new = request_is_new(peer, wire);

	/* This is a question, which may be answered twice. */
	if (!wire->name_length) {
		listener = listener_find(peer->system, data, wire->private_length);
		connection_refuse(peer, wire->from,
				  listener ? HAMLYN_END_LISTENING : HAMLYN_END_NOBODY);
		return;
	}
	if (!new) {
		/* A listener may have had it, but this side has forgotten the outcome. */
		connection_refuse(peer, wire->from, HAMLYN_END_HOST_RESET);
		return;
	}
	listener = listener_find(peer->system, data, wire->name_length);
	if (!listener) {
		connection_refuse(peer, wire->from, HAMLYN_END_NO_NAME);
		return;
	}
	if (listener->waiting >= listener->backlog || !request_take(peer, listener, wire, data))
		connection_refuse(peer, wire->from, HAMLYN_END_BACKLOG);
}

/* Finds a connection by its number at a requester that left before it learned the number here. */
static struct hamlyn_connection *connection_find_remote(struct hamlyn_peer *peer, u32 remote)
{
	struct hamlyn_connection *connection;

	hash_for_each_possible(peer->system->remotes, connection, by_remote,
			       connection_hash(peer, remote))
		if (connection->peer == peer && connection->remote == remote)
			return connection;
	return NULL;
}

/* Returns whether a reason is the other operating system's own; any other is the listener's. */
static bool reason_is_known(const struct hamlyn_connection *connection, u32 reason)
{
	switch (reason) {
	case HAMLYN_END_NO_NAME:
	case HAMLYN_END_BACKLOG:
	case HAMLYN_END_HOST_RESET:
		return true;
	case HAMLYN_END_LISTENING:
	case HAMLYN_END_NOBODY:
		return connection->question;
	default:
		return false;
	}
}

static void connection_answered(struct hamlyn_connection *connection,
				const struct hamlyn_wire *wire, const u8 *data)
{
	if (connection->state != HAMLYN_CONNECTION_CONNECTING)
		return;
	connection_keep(connection, wire, data);
	connection->user = wire->user;
	/* A question is never accepted. */
	if (wire->kind == HAMLYN_WIRE_ACCEPT && !connection->question) {
		connection->remote = wire->from;
		WRITE_ONCE(connection->state, HAMLYN_CONNECTION_ESTABLISHED);
		connection_trace(connection);
		wake_up_all(&connection->wait);
	} else {
		hamlyn_connection_end(connection, reason_is_known(connection, wire->reason) ?
							  wire->reason : HAMLYN_END_REJECTED);
	}
}

static void connection_closed(struct hamlyn_connection *connection, const struct hamlyn_wire *wire,
			      const u8 *data)
{
	if (connection->remote != wire->from)
		return;
	connection_keep(connection, wire, data);
	hamlyn_connection_end(connection, wire->reason == HAMLYN_END_CLOSED ? HAMLYN_END_CLOSED :
									     HAMLYN_END_DIED);
}

/* Handles a message from a peer. Its lengths have been checked; a senseless one is ignored. */
void hamlyn_connection_message(struct hamlyn_peer *peer, const struct hamlyn_wire *wire,
			       const u8 *data)
{
	struct hamlyn_connection *connection = NULL;

	if (wire->kind == HAMLYN_WIRE_REQUEST) {
		if (wire->from)
			request_arrived(peer, wire, data);
		return;
	}
	if (wire->to)
		connection = xa_load(&peer->system->connections, wire->to);
	else if (wire->kind == HAMLYN_WIRE_CLOSE && wire->from)
		connection = connection_find_remote(peer, wire->from);
	if (!connection || connection->peer != peer)
		return;
	switch (wire->kind) {
	case HAMLYN_WIRE_ACCEPT:
	case HAMLYN_WIRE_REJECT:
		connection_answered(connection, wire, data);
		break;
	case HAMLYN_WIRE_CLOSE:
		connection_closed(connection, wire, data);
		break;
	}
}

/* Initialises a listener in memory that is all zero. */
void hamlyn_listener_init(struct hamlyn_listener *listener, struct hamlyn_system *system,
			  struct hamlyn_share *share, bool privileged)
{
	listener->system = system;
	listener->share = share;
	listener->privileged = privileged;
	INIT_LIST_HEAD(&listener->requests);
	init_waitqueue_head(&listener->wait);
}

/* Takes a name; the card's lock is held. */
int hamlyn_listener_open(struct hamlyn_listener *listener, const struct hamlyn_listen *listen)
{
	struct hamlyn_system *system = listener->system;
	int ret;

	if (!system->open)
		return -EOPNOTSUPP;
	if (listener_find(system, listen->name, listen->name_length))
		return -EADDRINUSE;
	ret = hamlyn_share_take(listener->share, HAMLYN_CONNECTIONS, listener->privileged);
	if (ret)
		return ret;
	hamlyn_share_get(listener->share);
	listener->backlog = listen->backlog;
	listener->name_length = listen->name_length;
	memcpy(listener->name, listen->name, listen->name_length);
	hash_add(system->listeners, &listener->by_name,
		 listener_hash(system, listener->name, listener->name_length));
	return 0;
}

/* Takes the first waiting request, for the caller to give it a file; the card's lock is held. */
int hamlyn_listener_next(struct hamlyn_listener *listener, struct hamlyn_connection **next)
{
	if (listener->dead)
		return -ENODEV;
	*next = list_first_entry_or_null(&listener->requests, struct hamlyn_connection,
					 on_listener);
	if (!*next)
		return -EAGAIN;
	connection_leave(*next);
	return 0;
}

/* Frees the name, and refuses requests that wait under it; the card's lock is held. */
void hamlyn_listener_close(struct hamlyn_listener *listener)
{
	struct hamlyn_connection *connection, *following;

	list_for_each_entry_safe(connection, following, &listener->requests, on_listener) {
		connection_send(connection, &connection->opening, HAMLYN_WIRE_REJECT,
				HAMLYN_END_NO_NAME, NULL);
		hamlyn_connection_end(connection, HAMLYN_END_NO_NAME);
	}
	hash_del(&listener->by_name);
	hamlyn_share_give(listener->share, HAMLYN_CONNECTIONS);
	hamlyn_share_put(listener->share);
}

/* Marks all listeners as dead. The card's lock is held. */
void hamlyn_listeners_stop(struct hamlyn_system *system)
{
	struct hamlyn_listener *listener;
	struct hlist_node *following;
	unsigned int bucket;

	hash_for_each_safe(system->listeners, bucket, following, listener, by_name) {
		WRITE_ONCE(listener->dead, true);
		hash_del(&listener->by_name);
		wake_up_all(&listener->wait);
	}
}

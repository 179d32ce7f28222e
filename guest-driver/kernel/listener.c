// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/* Names, and the listeners that have them. */
#include <linux/jhash.h>

#include "hamlyn_connect.h"

static u32 listener_hash(const struct hamlyn_connections *connections, const u8 *name, u32 length)
{
	return jhash(name, length, connections->hash_seed);
}

struct hamlyn_listener *hamlyn_listener_find(struct hamlyn_connections *connections,
					     const u8 *name, u32 length)
{
	struct hamlyn_listener *listener;

	hash_for_each_possible(connections->listeners, listener, by_name,
			       listener_hash(connections, name, length))
		if (listener->name_length == length && !memcmp(listener->name, name, length))
			return listener;
	return NULL;
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
	struct hamlyn_connections *connections = hamlyn_connections_of(listener->system);
	int ret;

	if (!listener->system->open)
		return -EOPNOTSUPP;
	if (hamlyn_listener_find(connections, listen->name, listen->name_length))
		return -EADDRINUSE;
	ret = hamlyn_share_take(listener->share, HAMLYN_CONNECTIONS, listener->privileged);
	if (ret)
		return ret;
	hamlyn_share_get(listener->share);
	listener->backlog = listen->backlog;
	listener->name_length = listen->name_length;
	memcpy(listener->name, listen->name, listen->name_length);
	hash_add(connections->listeners, &listener->by_name,
		 listener_hash(connections, listener->name, listener->name_length));
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
	hamlyn_connection_leave(*next);
	return 0;
}

/* Frees the name, and refuses requests that wait under it; the card's lock is held. */
void hamlyn_listener_close(struct hamlyn_listener *listener)
{
	struct hamlyn_connection *connection, *following;

	list_for_each_entry_safe(connection, following, &listener->requests, on_listener) {
		hamlyn_connection_send(connection, &connection->opening, HAMLYN_WIRE_REJECT,
				       HAMLYN_END_NO_NAME, NULL);
		hamlyn_connection_end(connection, HAMLYN_END_NO_NAME);
	}
	hash_del(&listener->by_name);
	hamlyn_share_give(listener->share, HAMLYN_CONNECTIONS);
	hamlyn_share_put(listener->share);
}

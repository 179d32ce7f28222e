// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/* Names, and the listeners that have them. */
#include <linux/jhash.h>

#include "uln_connect.h"

static u32 listener_hash(const struct uln_connections *connections, const u8 *name, u32 length)
{
	return jhash(name, length, connections->hash_seed);
}

struct uln_listener *uln_listener_find(struct uln_connections *connections,
				       const u8 *name, u32 length)
{
	struct uln_listener *listener;

	hash_for_each_possible(connections->listeners, listener, by_name,
			       listener_hash(connections, name, length))
		if (listener->name_length == length && !memcmp(listener->name, name, length))
			return listener;
	return NULL;
}

/* Initialises a listener in memory that is all zero. */
void uln_listener_init(struct uln_listener *listener, struct uln_system *system,
		       struct uln_share *share, bool privileged)
{
	listener->system = system;
	listener->share = share;
	listener->privileged = privileged;
	INIT_LIST_HEAD(&listener->requests);
	init_waitqueue_head(&listener->wait);
}

/* Takes a name; the card's lock is held. */
int uln_listener_open(struct uln_listener *listener, const struct uln_listen *listen)
{
	struct uln_connections *connections = uln_connections_of(listener->system);
	int ret;

	if (!listener->system->open)
		return -EOPNOTSUPP;
	if (uln_listener_find(connections, listen->name, listen->name_length))
		return -EADDRINUSE;
	ret = uln_share_take(listener->share, ULN_CONNECTIONS, listener->privileged);
	if (ret)
		return ret;
	uln_share_get(listener->share);
	listener->backlog = listen->backlog;
	listener->name_length = listen->name_length;
	memcpy(listener->name, listen->name, listen->name_length);
	hash_add(connections->listeners, &listener->by_name,
		 listener_hash(connections, listener->name, listener->name_length));
	return 0;
}

/* Takes the first waiting request, for the caller to give it a file; the card's lock is held. */
int uln_listener_next(struct uln_listener *listener, struct uln_connection **next)
{
	if (listener->dead)
		return -ENODEV;
	*next = list_first_entry_or_null(&listener->requests, struct uln_connection,
					 on_listener);
	if (!*next)
		return -EAGAIN;
	uln_connection_leave(*next);
	return 0;
}

/* Frees the name, and refuses requests that wait under it; the card's lock is held. */
void uln_listener_close(struct uln_listener *listener)
{
	struct uln_connection *connection, *following;

	list_for_each_entry_safe(connection, following, &listener->requests, on_listener) {
		uln_connection_send(connection, &connection->opening, ULN_WIRE_REJECT,
				    ULN_END_NO_NAME, NULL);
		uln_connection_end(connection, ULN_END_NO_NAME);
	}
	hash_del(&listener->by_name);
	uln_share_give(listener->share, ULN_CONNECTIONS);
	uln_share_put(listener->share);
}

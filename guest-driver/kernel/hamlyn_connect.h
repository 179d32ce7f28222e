/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* Connections, and names with listeners. The card's lock guards all of it. */
#ifndef _HAMLYN_CONNECT_H
#define _HAMLYN_CONNECT_H

#include <linux/hashtable.h>
#include <linux/kref.h>
#include <linux/wait.h>
#include <linux/xarray.h>

#include "hamlyn_peer.h"

/* Number of buckets for names, and for peers' numbers, as powers of two. */
#define HAMLYN_HASH_BITS 10

struct mem_cgroup;

/* Connections with a host. All but the list is kept across incarnations. */
struct connection_host {
	/* Connections that have not ended. */
	struct list_head connections;
	/* Number of requests sent to it. */
	u32 requests;
	/* The last request taken from it, and the origin of its incarnation then; 0: none. */
	u32 asked;
	u32 asked_origin;
};

struct hamlyn_connections {
	struct peer_service service;
	/* Listeners by name, and requested connections by their number at the peer. */
	DECLARE_HASHTABLE(listeners, HAMLYN_HASH_BITS);
	DECLARE_HASHTABLE(remotes, HAMLYN_HASH_BITS);
	u32 hash_seed;
	/* Connections that have not ended, by number. */
	struct xarray numbers;
	u32 next_number;
	struct connection_host hosts[HAMLYN_WELL_KNOWN_SLOTS];
};

static inline struct hamlyn_connections *hamlyn_connections_of(const struct hamlyn_system *system)
{
	return container_of(hamlyn_service_find(system, HAMLYN_WIRE_REQUEST),
			    struct hamlyn_connections, service);
}

static inline struct connection_host *hamlyn_connections_with(const struct hamlyn_peer *peer)
{
	return &hamlyn_connections_of(peer->system)->hosts[peer->host];
}

struct hamlyn_listener {
	struct hamlyn_system *system;
	/* The share of the listener and of the requests that come to it. */
	struct hamlyn_share *share;
	bool privileged;
	/* The memory cgroup to which such requests are charged (core/connectfile.c). */
	struct mem_cgroup *memcg;
	/* The card was reset since. */
	bool dead;
	struct hlist_node by_name;
	u32 name_length;
	u8 name[HAMLYN_MAX_NAME];
	/* Connections that were requested and not taken yet. */
	u32 backlog;
	u32 waiting;
	struct list_head requests;
	wait_queue_head_t wait;
};

struct hamlyn_connection {
	/* References: its file or listener, the table until it ends, and each queued message. */
	struct kref users;
	struct hamlyn_system *system;
	/* Its user's share, and whether it counts there: until it ended and the peer was told. */
	struct hamlyn_share *share;
	bool counted;
	struct hamlyn_peer *peer;
	struct list_head on_host;
	/* The listener whose request it is. */
	struct hamlyn_listener *listener;
	struct list_head on_listener;
	u32 state;
	u32 reason;
	/* It only asks whether there is a listener, and ends with the answer. */
	bool question;
	/* Its numbers here and at the peer. */
	u32 number;
	u32 remote;
	struct hlist_node by_remote;
	/* The peer's user, as hamlyn_wire.user. */
	u32 user;
	/* Private data that the peer passed last. */
	u32 length;
	u8 data[HAMLYN_MAX_PRIVATE];
	wait_queue_head_t wait;
	/* The request or the answer to one, and the close. */
	struct hamlyn_message opening;
	struct hamlyn_message closing;
};

/* connect.c */
int hamlyn_connection_init(struct hamlyn_connection *connection, struct hamlyn_peer *peer,
			   u32 state, struct hamlyn_share *share, bool privileged);
void hamlyn_connection_leave(struct hamlyn_connection *connection);
void hamlyn_connection_establish(struct hamlyn_connection *connection);
void hamlyn_connection_end(struct hamlyn_connection *connection, u32 reason);
void hamlyn_connection_send(struct hamlyn_connection *connection, struct hamlyn_message *message,
			    u32 kind, u32 reason, const struct hamlyn_private *private);
int hamlyn_connection_request(struct hamlyn_system *system, struct hamlyn_share *share,
			      bool privileged, const struct hamlyn_connect *connect,
			      struct hamlyn_connection *connection);
int hamlyn_connection_answer(struct hamlyn_connection *connection, u32 kind,
			     const struct hamlyn_private *private);
int hamlyn_connection_close(struct hamlyn_connection *connection, u32 reason,
			    const struct hamlyn_private *private);
void hamlyn_connection_release(struct hamlyn_connection *connection);
void hamlyn_connection_describe(const struct hamlyn_connection *connection,
				struct hamlyn_connection_state *state);

/* listener.c */
struct hamlyn_listener *hamlyn_listener_find(struct hamlyn_connections *connections, const u8 *name,
					     u32 length);
void hamlyn_listener_init(struct hamlyn_listener *listener, struct hamlyn_system *system,
			  struct hamlyn_share *share, bool privileged);
int hamlyn_listener_open(struct hamlyn_listener *listener, const struct hamlyn_listen *listen);
int hamlyn_listener_next(struct hamlyn_listener *listener, struct hamlyn_connection **next);
void hamlyn_listener_close(struct hamlyn_listener *listener);

/* connecttalk.c: has a system carry connections; called once, when it has been created. -ENOMEM. */
int hamlyn_connections_register(struct hamlyn_system *system);

#endif /* _HAMLYN_CONNECT_H */

/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* Connections, and names with listeners. The card's lock guards all of it. */
#ifndef _ULN_CONNECT_H
#define _ULN_CONNECT_H

#include <linux/hashtable.h>
#include <linux/kref.h>
#include <linux/wait.h>
#include <linux/xarray.h>

#include "uln_peer.h"

/* Number of buckets for names, and for peers' numbers, as powers of two. */
#define ULN_HASH_BITS 10

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

struct uln_connections {
	struct peer_service service;
	/* Listeners by name, and requested connections by their number at the peer. */
	DECLARE_HASHTABLE(listeners, ULN_HASH_BITS);
	DECLARE_HASHTABLE(remotes, ULN_HASH_BITS);
	u32 hash_seed;
	/* Connections that have not ended, by number. */
	struct xarray numbers;
	u32 next_number;
	struct connection_host hosts[ULN_WELL_KNOWN_SLOTS];
};

static inline struct uln_connections *uln_connections_of(const struct uln_system *system)
{
	return container_of(uln_service_find(system, ULN_WIRE_REQUEST),
			    struct uln_connections, service);
}

static inline struct connection_host *uln_connections_with(const struct uln_peer *peer)
{
	return &uln_connections_of(peer->system)->hosts[peer->host];
}

struct uln_listener {
	struct uln_system *system;
	/* The share of the listener and of the requests that come to it. */
	struct uln_share *share;
	bool privileged;
	/* The memory cgroup to which such requests are charged (core/connectfile.c). */
	struct mem_cgroup *memcg;
	/* The card was reset since. */
	bool dead;
	struct hlist_node by_name;
	u32 name_length;
	u8 name[ULN_MAX_NAME];
	/* Connections that were requested and not taken yet. */
	u32 backlog;
	u32 waiting;
	struct list_head requests;
	wait_queue_head_t wait;
};

struct uln_connection {
	/* References: its file or listener, the table until it ends, and each queued message. */
	struct kref users;
	struct uln_system *system;
	/* Its user's share, and whether it counts there: until it ended and the peer was told. */
	struct uln_share *share;
	bool counted;
	struct uln_peer *peer;
	struct list_head on_host;
	/* The listener whose request it is. */
	struct uln_listener *listener;
	struct list_head on_listener;
	u32 state;
	u32 reason;
	/* It only asks whether there is a listener, and ends with the answer. */
	bool question;
	/* Its numbers here and at the peer. */
	u32 number;
	u32 remote;
	struct hlist_node by_remote;
	/* The peer's user, as uln_wire.user. */
	u32 user;
	/* Private data that the peer passed last. */
	u32 length;
	u8 data[ULN_MAX_PRIVATE];
	wait_queue_head_t wait;
	/* The request or the answer to one, and the close. */
	struct uln_message opening;
	struct uln_message closing;
};

/* connect.c */
int uln_connection_init(struct uln_connection *connection, struct uln_peer *peer,
			u32 state, struct uln_share *share, bool privileged);
void uln_connection_leave(struct uln_connection *connection);
void uln_connection_establish(struct uln_connection *connection);
void uln_connection_end(struct uln_connection *connection, u32 reason);
void uln_connection_send(struct uln_connection *connection, struct uln_message *message,
			 u32 kind, u32 reason, const struct uln_private *private);
int uln_connection_request(struct uln_system *system, struct uln_share *share,
			   bool privileged, const struct uln_connect *connect,
			   struct uln_connection *connection);
int uln_connection_answer(struct uln_connection *connection, u32 kind,
			  const struct uln_private *private);
int uln_connection_close(struct uln_connection *connection, u32 reason,
			 const struct uln_private *private);
void uln_connection_release(struct uln_connection *connection);
void uln_connection_describe(const struct uln_connection *connection,
			     struct uln_connection_state *state);

/* listener.c */
struct uln_listener *uln_listener_find(struct uln_connections *connections, const u8 *name,
				       u32 length);
void uln_listener_init(struct uln_listener *listener, struct uln_system *system,
		       struct uln_share *share, bool privileged);
int uln_listener_open(struct uln_listener *listener, const struct uln_listen *listen);
int uln_listener_next(struct uln_listener *listener, struct uln_connection **next);
void uln_listener_close(struct uln_listener *listener);

/* connecttalk.c: has a system carry connections; called once, when it has been created. -ENOMEM. */
int uln_connections_register(struct uln_system *system);

#endif /* _ULN_CONNECT_H */

/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * Communication between operating systems (sections 6.3 and 6.4 of the paper), from the bottom up:
 *
 *   hamlyn_transport.h  how messages get from one to the other: each card has its own way
 *   system.c       this operating system, as others see it through one card
 *   peer.c         a remote operating system: messages to and from it, each once and in order,
 *                  whether it is alive, and whether it is still the same
 *   connect.c      connections, and names with listeners
 *   express.c      express memory: areas, and views of them
 *   expresstalk.c  messages between operating systems about them
 *   part.c         owners of the pages of a part
 *   connectfile.c  files of connections and listeners
 *
 * The card's lock guards all of it. The protocol is in docs/connections.md.
 *
 * What a remote operating system sends is not trusted but checked. It can open and end connections
 * with processes of this host, and no more; its costs are bounded here.
 *
 * All but connectfile.c is compiled a second time, for programs (guest-driver/host): there the
 * seeded simulation tests it under every kind of fault. So it knows no card, and needs no more of
 * the kernel than
 *
 *   mutex (and lockdep_assert_held), list, hashtable with jhash, xarray with xa_alloc_cyclic, kref,
 *   kzalloc and kfree, wait queues that are woken, work and delayed work on system_highpri_wq,
 *   jiffies, get_random_u32, bit operations, module_param, array_index_nospec;
 *
 * and of this module hamlyn_share.h, and the tracepoint of connections.
 */
#ifndef _HAMLYN_CONNECT_H
#define _HAMLYN_CONNECT_H

#include <linux/hashtable.h>
#include <linux/jiffies.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "hamlyn_family_uapi.h"
#include "hamlyn_share.h"
#include "hamlyn_system.h"
#include "hamlyn_transport.h"
#include "hamlyn_wire.h"

#define HAMLYN_PEER_PLACES HAMLYN_WELL_KNOWN_PLACES

struct hamlyn_connection;
struct hamlyn_express;
struct mem_cgroup;

/* A message to a remote operating system, kept until that has acknowledged it. */
struct hamlyn_message {
	struct list_head on_peer;
	/*
	 * The connection that it is part of, with a reference. NULL: it was allocated, and is
	 * freed; it is a refusal, or a message of the card or of express memory.
	 */
	struct hamlyn_connection *connection;
	/* The share of the user that sent it, if it belongs to a user and to no connection. */
	struct hamlyn_share *share;
	/* It may have arrived. */
	bool flown;
	struct hamlyn_wire wire;
	u8 data[HAMLYN_MAX_NAME + HAMLYN_MAX_PRIVATE];
};

/* A remote operating system, or this one, which is reached in the same way. */
struct hamlyn_peer {
	struct hamlyn_system *system;
	u32 host;

	/* Incarnations of this side and of the other, which is 0 while unknown. */
	u64 mine;
	u64 theirs;
	/* Unacknowledged messages; the number of the first, and how many of them have been sent. */
	struct list_head queue;
	u32 first;
	u32 flying;
	u32 queued;
	/* Those of them that belong to no connection. */
	u32 loose;
	/* The number of the message that comes next, and the places that have one. */
	u32 expected;
	unsigned long arrived;
	/* Number of requests sent to it. This and what follows is kept across incarnations. */
	u32 requests;
	/* The last request taken from it, and the origin of its incarnation then; 0: none. */
	u32 asked;
	u32 asked_origin;
	/* An acknowledgement to it is due, and in which entry. */
	bool answer;
	u32 turn;
	/* When it was last heard from, and when messages and probes were last sent, in jiffies. */
	unsigned long heard;
	unsigned long sent;
	unsigned long probed;
	/* When it last acknowledged something, or there was nothing to acknowledge. */
	unsigned long moved;
	/* Connections that have not ended. */
	struct list_head connections;
};

/* Number of buckets for names, and for peers' numbers, as powers of two. */
#define HAMLYN_HASH_BITS 10

struct hamlyn_system {
	/* The card, which its connections' files hold. */
	struct hamlyn_card *card;
	struct mutex *lock;
	int number;
	/* Others can be reached through the transport. */
	bool open;
	struct peer_transport *transport;
	/* NULL: there has never been express memory. */
	struct hamlyn_express *express;
	/* Handles what has arrived. */
	struct work_struct look;
	/*
	 * Checks peers at intervals while one is watched; when it last ran, and the peer that comes
	 * first.
	 */
	struct delayed_work tick;
	unsigned long ticked;
	unsigned int turn;
	/* Host ids are below it, as the switch reports; 0: unknown. */
	u32 hosts;
	/* The handshake timer has expired. */
	bool lapsed;

	/* Incarnations consist of a random number, and of a count. */
	u32 origin;
	u32 incarnations;
	struct hamlyn_peer peers[HAMLYN_WELL_KNOWN_SLOTS];

	/* Listeners by name, and requested connections by their number at the peer. */
	DECLARE_HASHTABLE(listeners, HAMLYN_HASH_BITS);
	DECLARE_HASHTABLE(remotes, HAMLYN_HASH_BITS);
	u32 hash_seed;
	/* Connections that have not ended, by number. */
	struct xarray connections;
	u32 next_number;
};

struct hamlyn_listener {
	struct hamlyn_system *system;
	/* The share of the listener and of the requests that come to it. */
	struct hamlyn_share *share;
	bool privileged;
	/* The memory cgroup to which such requests are charged (connectfile.c). */
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
	struct list_head on_peer;
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

/* peer.c */
void hamlyn_peer_init(struct hamlyn_system *system, u32 host);
void hamlyn_peer_open(struct hamlyn_peer *peer);
void hamlyn_peer_arrived(struct hamlyn_peer *peer, u32 entry);
void hamlyn_peer_answer(struct hamlyn_peer *peer);
void hamlyn_peer_send(struct hamlyn_peer *peer, struct hamlyn_message *message);
int hamlyn_peer_say(struct hamlyn_peer *peer, struct hamlyn_share *share,
		    const struct hamlyn_wire *wire, const void *data);
bool hamlyn_peer_withdraw(struct hamlyn_peer *peer, struct hamlyn_message *message);
void hamlyn_peer_watch(struct hamlyn_peer *peer);
void hamlyn_peer_lost(struct hamlyn_peer *peer, u32 reason);
unsigned long hamlyn_peer_patience(void);
void hamlyn_peers_tick(struct work_struct *work);

/* connect.c */
void hamlyn_connection_message(struct hamlyn_peer *peer, const struct hamlyn_wire *wire,
			       const u8 *data);
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
void hamlyn_connection_end(struct hamlyn_connection *connection, u32 reason);
void hamlyn_connection_put(struct hamlyn_connection *connection);
void hamlyn_connection_settle(struct hamlyn_connection *connection);
void hamlyn_listener_init(struct hamlyn_listener *listener, struct hamlyn_system *system,
			  struct hamlyn_share *share, bool privileged);
int hamlyn_listener_open(struct hamlyn_listener *listener, const struct hamlyn_listen *listen);
int hamlyn_listener_next(struct hamlyn_listener *listener, struct hamlyn_connection **next);
void hamlyn_listener_close(struct hamlyn_listener *listener);
void hamlyn_listeners_stop(struct hamlyn_system *system);
bool hamlyn_system_has_host(const struct hamlyn_system *system, u32 host);

/* connectfile.c: zeroed memory for a request, charged to the listener. */
struct hamlyn_connection *hamlyn_listener_alloc_request(const struct hamlyn_listener *listener);

#endif /* _HAMLYN_CONNECT_H */

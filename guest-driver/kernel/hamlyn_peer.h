/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * Operating systems that reach each other (sections 6.3 and 6.4 of the paper), from the bottom up.
 * No file uses one that is listed below it:
 *
 *   hamlyn_transport.h  how messages get from one to the other: each card has its own way
 *   service.c      what is arranged with others over these messages, by the kinds of messages
 *   peer.c         a remote operating system: messages to and from it, each once and in order,
 *                  whether it is alive, and whether it is still the same
 *   system.c       this operating system, as others see it through one card
 *
 *   connect.c      connections: how they begin and end here
 *   listener.c     names, and the listeners that have them
 *   connecttalk.c  a service: messages about connections from other operating systems
 *
 *   part.c         owners of the pages of a part of express memory
 *   expresshost.c  areas, and views of them, by host and by number
 *   expresstell.c  messages about them to other operating systems
 *   express.c      how areas and views begin and end
 *   expresstalk.c  a service: messages about them from other operating systems
 *
 * The card's lock guards all of it. The protocol is in docs/connections.md.
 *
 * What a remote operating system sends is not trusted but checked. It can open and end connections
 * with processes of this host, and no more; its costs are bounded here.
 *
 * All of it is compiled a second time, for programs (guest-driver/host): there the seeded
 * simulation tests it under every kind of fault. So it knows no card, and needs no more of the
 * kernel than
 *
 *   mutex (and lockdep_assert_held), list, hashtable with jhash, xarray with xa_alloc_cyclic, kref,
 *   kzalloc and kfree, wait queues that are woken, work and delayed work on system_highpri_wq,
 *   jiffies, get_random_u32, bit operations, module_param, array_index_nospec;
 *
 * and of this module hamlyn_share.h, and the tracepoint of connections.
 */
#ifndef _HAMLYN_PEER_H
#define _HAMLYN_PEER_H

#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "hamlyn_family_uapi.h"
#include "hamlyn_service.h"
#include "hamlyn_share.h"
#include "hamlyn_system.h"
#include "hamlyn_transport.h"
#include "hamlyn_wire.h"

#define HAMLYN_PEER_PLACES HAMLYN_WELL_KNOWN_PLACES

struct hamlyn_message;

/* What the owner of a message, which is a part of a larger structure, is asked and told. */
struct hamlyn_message_ops {
	/* Returns whether it may be sent to the peer's next incarnation. NULL: never. */
	bool (*lasts)(const struct hamlyn_message *message);
	/* It no longer waits for the peer. */
	void (*done)(struct hamlyn_message *message);
};

/* A message to a remote operating system, kept until that has acknowledged it. */
struct hamlyn_message {
	struct list_head on_peer;
	/* NULL: it was allocated for itself, and is freed once it no longer waits. */
	const struct hamlyn_message_ops *ops;
	/* The share of the user that sent it, if it was allocated and belongs to a user. */
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
	/* Those of them that were allocated for themselves. */
	u32 loose;
	/* The number of the message that comes next, and the places that have one. */
	u32 expected;
	unsigned long arrived;
	/* An acknowledgement to it is due, and in which entry. */
	bool answer;
	u32 turn;
	/* When it was last heard from, and when messages and probes were last sent, in jiffies. */
	unsigned long heard;
	unsigned long sent;
	unsigned long probed;
	/* When it last acknowledged something, or there was nothing to acknowledge. */
	unsigned long moved;
};

struct hamlyn_system {
	/* The card, which its connections' files hold. */
	struct hamlyn_card *card;
	/* The card's lock. */
	struct mutex *lock;
	int number;
	/* Others can be reached through the transport. */
	bool open;
	struct peer_transport *transport;
	/* Services that have registered (struct peer_service). */
	struct list_head services;
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
};

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

#endif /* _HAMLYN_PEER_H */

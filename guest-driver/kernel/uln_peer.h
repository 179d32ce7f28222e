/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * Operating systems that reach each other (sections 6.3 and 6.4 of the paper), from the bottom up.
 * No file uses one that is listed below it:
 *
 *   uln_transport.h  how messages get from one to the other: each card has its own way
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
 *   jiffies, get_random_u32, bit operations, byte order, module_param,
 *   array_index_nospec;
 *
 * and of this module uln_share.h, and the tracepoint of connections.
 */
#ifndef _ULN_PEER_H
#define _ULN_PEER_H

#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "uln_service.h"
#include "uln_share.h"
#include "uln_system.h"
#include "uln_transport.h"
#include "uln_uapi.h"
#include "uln_wire.h"

#define ULN_PEER_PLACES ULN_WELL_KNOWN_PLACES

struct uln_message;

/* What the owner of a message, which is a part of a larger structure, is asked and told. */
struct uln_message_ops {
	/* Returns whether it may be sent to the peer's next incarnation. NULL: never. */
	bool (*lasts)(const struct uln_message *message);
	/* It no longer waits for the peer. */
	void (*done)(struct uln_message *message);
};

/* A message to a remote operating system, kept until that has acknowledged it. */
struct uln_message {
	struct list_head on_peer;
	/* NULL: it was allocated for itself, and is freed once it no longer waits. */
	const struct uln_message_ops *ops;
	/* The share of the user that sent it, if it was allocated and belongs to a user. */
	struct uln_share *share;
	/* It may have arrived. */
	bool flown;
	struct uln_head wire;
	u8 data[ULN_MAX_NAME + ULN_MAX_PRIVATE];
};

/* A remote operating system, or this one, which is reached in the same way. */
struct uln_peer {
	struct uln_system *system;
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

struct uln_system {
	/* The card, which its connections' files hold. */
	struct uln_card *card;
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
	struct uln_peer peers[ULN_WELL_KNOWN_SLOTS];
};

void uln_peer_init(struct uln_system *system, u32 host);
void uln_peer_open(struct uln_peer *peer);
void uln_peer_arrived(struct uln_peer *peer, u32 entry);
void uln_peer_answer(struct uln_peer *peer);
void uln_peer_send(struct uln_peer *peer, struct uln_message *message);
int uln_peer_say(struct uln_peer *peer, struct uln_share *share,
		 const struct uln_head *wire, const void *data);
bool uln_peer_withdraw(struct uln_peer *peer, struct uln_message *message);
void uln_peer_watch(struct uln_peer *peer);
void uln_peer_lost(struct uln_peer *peer, u32 reason);
unsigned long uln_peer_patience(void);
void uln_peers_tick(struct work_struct *work);

#endif /* _ULN_PEER_H */

/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * This operating system as others see it through one card: what the core and a card's folder tell
 * it. Calls on connections come by their files (connectfile.c).
 */
#ifndef _HAMLYN_SYSTEM_H
#define _HAMLYN_SYSTEM_H

#include <linux/types.h>

struct hamlyn_card;
struct hamlyn_share;
struct hamlyn_system;
struct hamlyn_wire;
struct mutex;
struct peer_transport;

/* Its lock is @lock, the card's; @number is what the card is called in traces. */
struct hamlyn_system *hamlyn_system_create(struct hamlyn_card *card, struct mutex *lock, int number);
/* Nothing of it runs any more when this returns; nobody holds the lock. */
void hamlyn_system_cancel(struct hamlyn_system *system);
void hamlyn_system_free(struct hamlyn_system *system);

/* Other hosts can be reached by this from now on, and remember nothing of us. With the lock held. */
void hamlyn_system_open(struct hamlyn_system *system, struct peer_transport *transport);
/* The card has stopped: so have connections and listeners. With the lock held. */
void hamlyn_system_stop(struct hamlyn_system *system);
bool hamlyn_system_is_open(const struct hamlyn_system *system);
struct hamlyn_card *hamlyn_system_card(const struct hamlyn_system *system);
/* This host may have missed messages: ends all connections. With the lock held. */
void hamlyn_system_lost(struct hamlyn_system *system, u32 reason);
/* What other hosts were told is not remembered. With the lock held. */
void hamlyn_system_reborn(struct hamlyn_system *system);

/*
 * Says something of the card's own to the operating system of a host: @wire has the words, @data
 * as many bytes as @wire says. It is sent until it has arrived, or the transport is told that the
 * host is lost. -EHOSTUNREACH: there can be no such host; -EOPNOTSUPP: none can be reached;
 * -EMSGSIZE; -ENOBUFS: too much is still to be said to it; -ENOMEM. With the lock held.
 */
int hamlyn_system_say(struct hamlyn_system *system, u32 host, const struct hamlyn_wire *wire,
		      const void *data);
/*
 * The same for a user who has asked for it. -ENOBUFS, too: his share of what may wait for that host
 * does; others' messages, and the driver's own, still find room.
 */
int hamlyn_system_say_for(struct hamlyn_system *system, struct hamlyn_share *share, u32 host,
			  const struct hamlyn_wire *wire, const void *data);
/* Something is about to be arranged with a host, by what the transport says. With the lock held. */
void hamlyn_system_watch(struct hamlyn_system *system, u32 host);

/* Takes a host for lost that is alive and does not do what it must. With the lock held. */
void hamlyn_system_lose(struct hamlyn_system *system, u32 host);
/* The time within which another operating system must answer, in jiffies. */
unsigned long hamlyn_system_patience(void);

/* Something has arrived. Takes no lock. */
void hamlyn_system_arrived(struct hamlyn_system *system);
/* The machine stood still, and the card discarded what came meanwhile. Takes no lock. */
void hamlyn_system_lapsed(struct hamlyn_system *system);

#endif /* _HAMLYN_SYSTEM_H */

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * This operating system as others see it through one card: what the core and a card's folder tell
 * it. Calls on connections come by their files (connectfile.c).
 */
#ifndef _HAMLYN_SYSTEM_H
#define _HAMLYN_SYSTEM_H

#include <linux/types.h>

struct hamlyn_card;
struct hamlyn_system;
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
/* This host may have missed messages: ends all connections. With the lock held. */
void hamlyn_system_lost(struct hamlyn_system *system, u32 reason);
/* What other hosts were told is not remembered. With the lock held. */
void hamlyn_system_reborn(struct hamlyn_system *system);

/* Something has arrived. Takes no lock. */
void hamlyn_system_arrived(struct hamlyn_system *system);
/* The machine stood still, and the card discarded what came meanwhile. Takes no lock. */
void hamlyn_system_lapsed(struct hamlyn_system *system);

#endif /* _HAMLYN_SYSTEM_H */

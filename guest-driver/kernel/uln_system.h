/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * This operating system as others see it through one card: the interface to the core and a card's
 * folder. Calls on connections come through their files (core/connectfile.c).
 */
#ifndef _ULN_SYSTEM_H
#define _ULN_SYSTEM_H

#include <linux/types.h>

struct uln_card;
struct uln_share;
struct uln_system;
struct uln_head;
struct mutex;
struct peer_transport;

/**
 * uln_system_create() - create this operating system's part for one card
 * @card: the card, which its connections' files hold
 * @lock: the card's lock, which guards all of it
 * @number: the card's number in traces
 *
 * Return: the system, or NULL without memory.
 */
struct uln_system *uln_system_create(struct uln_card *card, struct mutex *lock,
				     int number);

/**
 * uln_system_cancel() - end its work, for good
 * @system: the system; its lock is not held
 */
void uln_system_cancel(struct uln_system *system);
void uln_system_free(struct uln_system *system);

/**
 * uln_system_open() - begin: other hosts can be reached, and remember nothing of this one
 * @system: the system; its lock is held
 * @transport: how they are reached
 */
void uln_system_open(struct uln_system *system, struct peer_transport *transport);

/**
 * uln_system_stop() - end all connections and listeners: the card has stopped
 * @system: the system; its lock is held
 */
void uln_system_stop(struct uln_system *system);

/**
 * uln_system_set_hosts() - set which hosts there can be
 * @system: the system; its lock is held
 * @hosts: number of the switch's ports, which host ids are below; 0: unknown
 */
void uln_system_set_hosts(struct uln_system *system, u32 hosts);
/* Returns how many hosts there can be; ids are below it. */
u32 uln_system_hosts(const struct uln_system *system);
bool uln_system_has_host(const struct uln_system *system, u32 host);
bool uln_system_is_open(const struct uln_system *system);
struct uln_card *uln_system_card(const struct uln_system *system);

/**
 * uln_system_lost() - end all connections: this host may have missed messages
 * @system: the system; its lock is held
 * @reason: ULN_END_*
 */
void uln_system_lost(struct uln_system *system, u32 reason);

/**
 * uln_system_reborn() - forget what other hosts were told, as after a restored memory image
 * @system: the system; its lock is held
 */
void uln_system_reborn(struct uln_system *system);

/**
 * uln_system_say() - send a message of the card's own to a host's operating system
 * @system: the system; its lock is held
 * @host: the host
 * @wire: the message's head, with the length of @data
 * @data: the message's data
 *
 * The message is sent until it has arrived, or the transport is told that the host is lost.
 *
 * Return: 0; -EHOSTUNREACH if there can be no such host, -EOPNOTSUPP if none can be reached,
 * -EMSGSIZE, -ENOBUFS if too much waits for the host, -ENOMEM.
 */
int uln_system_say(struct uln_system *system, u32 host, const struct uln_head *wire,
		   const void *data);

/**
 * uln_system_say_for() - uln_system_say() for a user
 * @system: the system; its lock is held
 * @share: the user's share
 * @host: the host
 * @wire: the message's head
 * @data: the message's data
 *
 * Return: as uln_system_say(); -ENOBUFS also if too many of the user's messages wait for the
 * host. Those of other users, and the driver's own, still find room.
 */
int uln_system_say_for(struct uln_system *system, struct uln_share *share, u32 host,
		       const struct uln_head *wire, const void *data);

/**
 * uln_system_watch() - watch whether a host is alive, before the transport arranges something
 * @system: the system; its lock is held
 * @host: the host
 */
void uln_system_watch(struct uln_system *system, u32 host);

/**
 * uln_system_lose() - treat a host as lost that is alive and does not do what it must
 * @system: the system; its lock is held
 * @host: the host
 */
void uln_system_lose(struct uln_system *system, u32 host);

/**
 * uln_system_patience() - the time within which another operating system must answer
 *
 * Return: the time, in jiffies
 */
unsigned long uln_system_patience(void);

/**
 * uln_system_arrived() - start the handling of messages that have arrived
 * @system: the system; any context
 */
void uln_system_arrived(struct uln_system *system);

/**
 * uln_system_lapsed() - end all connections: messages were discarded while this host stood still
 * @system: the system; any context
 */
void uln_system_lapsed(struct uln_system *system);

#endif /* _ULN_SYSTEM_H */

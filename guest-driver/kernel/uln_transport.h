/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * How operating systems reach each other: what a card provides to this folder.
 *
 * A host has 2 * ULN_WELL_KNOWN_PLACES entries for each other host. The first half are for
 * messages with data, the others for messages without. The card locks an entry with its message, so
 * that it does not change until it is opened again; a message for a locked entry is lost. The card
 * guarantees which host a message is from, and that it is from that host's operating system, but
 * nothing else. Its lock is held in all of these.
 */
#ifndef _ULN_TRANSPORT_H
#define _ULN_TRANSPORT_H

#include <linux/types.h>

struct uln_wire;
struct peer_transport;

/**
 * struct peer_transport_ops - how messages get to and from other operating systems
 * @link: returns whether the link is up, and this host's id then. Losses that it detects are
 *	reported by uln_system_lost() before it returns
 * @post: posts a message for @entry of another host; false: there is no room now
 * @take: takes the next message that has arrived: its sender, below ULN_WELL_KNOWN_SLOTS, and
 *	its entry; false: there is none
 * @more: returns whether there is one. If not, uln_system_arrived() is called when one arrives
 * @read: copies a message's head, and returns its data. Both are the sender's, so unchecked
 * @reopen: lets a message into an entry again, after it has been read
 *
 * The card's lock is held in all of them.
 */
struct peer_transport_ops {
	bool (*link)(struct peer_transport *transport, u32 *host);
	bool (*post)(struct peer_transport *transport, u32 host, u32 entry,
		     const struct uln_wire *wire, const void *data, u32 length);
	bool (*take)(struct peer_transport *transport, u32 *host, u32 *entry);
	bool (*more)(struct peer_transport *transport);
	const u8 *(*read)(struct peer_transport *transport, u32 host, u32 entry,
			  struct uln_wire *wire);
	void (*reopen)(struct peer_transport *transport, u32 host, u32 entry);
};

/**
 * struct peer_transport - part of a card's own structure for it
 * @ops: the card's functions
 */
struct peer_transport {
	const struct peer_transport_ops *ops;
};

#endif /* _ULN_TRANSPORT_H */

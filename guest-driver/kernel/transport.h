/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * How operating systems reach each other: what a card gives this folder.
 *
 * A host has 2 * HAMLYN_WELL_KNOWN_PLACES entries for each other host. The first half are for
 * messages with data, the others for messages without. The card locks an entry with its message, so
 * that it stays as it is until it is opened again; what comes for a locked entry is lost. The card
 * vouches for which host a message is from, and that it is from that host's operating system; for
 * nothing else. Its lock is held in all of these.
 */
#ifndef _HAMLYN_TRANSPORT_H
#define _HAMLYN_TRANSPORT_H

#include <linux/types.h>

struct hamlyn_wire;
struct peer_transport;

struct peer_transport_ops {
	/*
	 * Whether the link is up as of now, and the id that this host has then. What is found to be
	 * lost is told by hamlyn_system_lost() before this returns.
	 */
	bool (*link)(struct peer_transport *transport, u32 *host);
	/* Posts a message for an entry of another host; false: there is no room for it now. */
	bool (*post)(struct peer_transport *transport, u32 host, u32 entry,
		     const struct hamlyn_wire *wire, const void *data, u32 length);
	/*
	 * Takes the next message that has arrived: which host it is from, below
	 * HAMLYN_WELL_KNOWN_SLOTS, and in which entry it is. False: there is none.
	 */
	bool (*take)(struct peer_transport *transport, u32 *host, u32 *entry);
	/* Whether there is one; if not, hamlyn_system_arrived() is called as soon as there is. */
	bool (*more)(struct peer_transport *transport);
	/* Copies a message's head, and answers its data. The sender wrote both. */
	const u8 *(*read)(struct peer_transport *transport, u32 host, u32 entry,
			  struct hamlyn_wire *wire);
	/* Opens an entry again: its message has been read. */
	void (*reopen)(struct peer_transport *transport, u32 host, u32 entry);

	/*
	 * For cards whose operating systems arrange more with each other than connections; all or
	 * none. A message of hamlyn_system_say() has come from a host, each once and in order; the
	 * answer may be said at once.
	 */
	void (*message)(struct peer_transport *transport, u32 host, const struct hamlyn_wire *wire,
			const u8 *data);
	/*
	 * A host is lost, or has begun anew, or is thought to have forgotten us: nothing is arranged
	 * with it any more, and what was still to be said to it has been dropped. It may be told of
	 * a host with which nothing was. Nothing may be said here.
	 */
	void (*lost)(struct peer_transport *transport, u32 host);
	/*
	 * A message of hamlyn_system_say() is dropped, as its host is lost: it may have arrived or not. None
	 * if the card need not know. Nothing may be said here, either.
	 */
	void (*dropped)(struct peer_transport *transport, u32 host, const struct hamlyn_wire *wire,
			const u8 *data);
	/* Whether something is arranged with a host: then it is looked whether that lives. */
	bool (*depends)(struct peer_transport *transport, u32 host);
};

/* A part of what the card has for it. */
struct peer_transport {
	const struct peer_transport_ops *ops;
};

#endif /* _HAMLYN_TRANSPORT_H */

/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What the Clan card's driver and its users agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-tests --bin headers: do not edit.
 */
#ifndef _CLAN_UAPI_H
#define _CLAN_UAPI_H

#include "hamlyn_family_uapi.h"
#include "clan_card.h"

/*
 * What driver and library agree on about CLAN cards: calls on an open /dev/clanN, beside those that
 * any card has.
 *
 * Errors beside those of all calls: ENOSPC (the card has no more of that), EBUSY (a port is taken,
 * or an object is used by another that is open), EADDRINUSE (a group has a member at this host).
 */

/* Opens an aperture of the caller's memory (section 3.2). Argument: clan_aperture. */
#define CLAN_IOC_APERTURE_OPEN _IOWR('H', HAMLYN_CARD_CALL(CLAN_MODEL, 0), struct clan_aperture)

/*
 * Closes an aperture. Argument: hamlyn_object. When it returns nothing reaches its memory any more,
 * and it is unpinned.
 */
#define CLAN_IOC_APERTURE_CLOSE _IOWR('H', HAMLYN_CARD_CALL(CLAN_MODEL, 1), struct hamlyn_object)

/*
 * Opens a window onto an aperture of any host. Argument: clan_window. Whether there is such an
 * aperture is not asked: the first load or store tells.
 */
#define CLAN_IOC_WINDOW_OPEN _IOWR('H', HAMLYN_CARD_CALL(CLAN_MODEL, 2), struct clan_window)

/* Closes a window. Argument: hamlyn_object; its number is its first page. */
#define CLAN_IOC_WINDOW_CLOSE _IOWR('H', HAMLYN_CARD_CALL(CLAN_MODEL, 3), struct hamlyn_object)

/* Opens an endpoint (section 3.1). Argument: clan_endpoint. */
#define CLAN_IOC_ENDPOINT_OPEN _IOWR('H', HAMLYN_CARD_CALL(CLAN_MODEL, 4), struct clan_endpoint)

/* Closes an endpoint. Argument: hamlyn_object. EBUSY if a window names it. Its peer is told. */
#define CLAN_IOC_ENDPOINT_CLOSE _IOWR('H', HAMLYN_CARD_CALL(CLAN_MODEL, 5), struct hamlyn_object)

/* Opens an event queue (section 3.5). Argument: clan_events. */
#define CLAN_IOC_EVENTS_OPEN _IOWR('H', HAMLYN_CARD_CALL(CLAN_MODEL, 6), struct clan_events)

/* Closes an event queue. Argument: hamlyn_object. */
#define CLAN_IOC_EVENTS_CLOSE _IOWR('H', HAMLYN_CARD_CALL(CLAN_MODEL, 7), struct hamlyn_object)

/*
 * Sleeps until one of some bits of an endpoint is set. Argument: clan_wait. ETIMEDOUT; EINTR if a
 * signal's handler has run.
 */
#define CLAN_IOC_WAIT _IOWR('H', HAMLYN_CARD_CALL(CLAN_MODEL, 8), struct clan_wait)

/*
 * Sleeps until an event queue has more records than were taken. Argument: clan_events_wait.
 * ETIMEDOUT; EINTR. The file is readable when one of its event queues is not empty, so that poll(2)
 * and the like wait for it, too.
 */
#define CLAN_IOC_EVENTS_WAIT _IOWR('H', HAMLYN_CARD_CALL(CLAN_MODEL, 9), struct clan_events_wait)

/*
 * Sends a message to an endpoint of any host (section 3.1). Argument: clan_send. EHOSTUNREACH if
 * there is no such host, or it is lost; EAGAIN if there is no room for it now.
 */
#define CLAN_IOC_SEND _IOWR('H', HAMLYN_CARD_CALL(CLAN_MODEL, 10), struct clan_send)

/*
 * Says who an endpoint's peer is: each hears when the other ends, if both have said so. Argument:
 * clan_peer.
 */
#define CLAN_IOC_PEER _IOWR('H', HAMLYN_CARD_CALL(CLAN_MODEL, 11), struct clan_peer)

/*
 * Says where an endpoint's events go from now on. Argument: clan_events_of. EBUSY: records that
 * other endpoints have left in the queue take the room, until they are taken.
 */
#define CLAN_IOC_EVENTS_OF _IOWR('H', HAMLYN_CARD_CALL(CLAN_MODEL, 12), struct clan_events_of)

/* Has the driver carry out DMA requests (section 3.4). Argument: clan_kick. */
#define CLAN_IOC_KICK _IOWR('H', HAMLYN_CARD_CALL(CLAN_MODEL, 13), struct clan_kick)

/* Index into hamlyn_share_query: apertures. */
#define CLAN_SHARE_APERTURES 0

/* Index into hamlyn_share_query: window pages. */
#define CLAN_SHARE_WINDOW_PAGES 1

/*
 * Index into hamlyn_share_query: endpoints. One with more Tripwires than there are for each of all
 * endpoints counts as so many of these, one with CLAN_DRIVERS_DMA as one more, and an event queue
 * as as many as there are for each of all queues.
 */
#define CLAN_SHARE_ENDPOINTS 2

/* The most bytes of an aperture of a process. */
#define CLAN_MAX_APERTURE 1073741824ULL

/* The most bytes of a window. */
#define CLAN_MAX_WINDOW 8388608ULL

/* What a CLAN card says of itself: the card's part of hamlyn_query. */
struct clan_query {
	/* Out: apertures of processes. */
	__u32 apertures;
	/* Out: window pages of processes. */
	__u32 window_pages;
	/* Out: endpoints of processes. */
	__u32 endpoints;
	/* Out: Tripwires. */
	__u32 tripwires;
	/* Out: the most bytes of data in a packet. */
	__u32 burst;
	/* Out: words that a host may have on their way to another. */
	__u32 credits;
};

/* An aperture. */
struct clan_aperture {
	/*
	 * In: where it is in the caller's memory, a multiple of 8. Its pages are pinned, and count
	 * against RLIMIT_MEMLOCK.
	 */
	__u64 address;
	/* In: its bytes, 1 to CLAN_MAX_APERTURE. */
	__u64 length;
	/* Out: its key. With CLAN_APERTURE_GROUP in: the group's, which its members agree on. */
	__u64 key;
	/*
	 * In: CLAN_APERTURE_READ, CLAN_APERTURE_WRITE, both or none; or CLAN_APERTURE_WRITE and
	 * CLAN_APERTURE_GROUP.
	 */
	__u32 flags;
	/* In: which group, 0 to 63, or 0. */
	__u32 group;
	/* Out: its number. */
	__u32 aperture;
	/* Zero. */
	__u32 reserved;
};

/* A window. */
struct clan_window {
	/* In: the aperture's key. */
	__u64 key;
	/* In: byte of the aperture that is its first, a multiple of 8. */
	__u64 offset;
	/* In: its bytes, 1 to CLAN_MAX_WINDOW. */
	__u64 length;
	/* In: the aperture's host, or CLAN_GROUP_HOST and a group. */
	__u32 host;
	/* In: the aperture's number there. */
	__u32 aperture;
	/* In: an endpoint of the caller's, which hears of its faults. */
	__u32 endpoint;
	/* Out: its number: its first page. */
	__u32 window;
	/* Out: where to map its pages with mmap(2) of the same file, shared. */
	__u64 offset_of_pages;
};

/* An endpoint. */
struct clan_endpoint {
	/*
	 * In: its port, 1 to 0xffff, or 0 for any that is free. Out: its port. Ports below 1,024
	 * are for CAP_NET_BIND_SERVICE.
	 */
	__u32 port;
	/* In: how many Tripwires it has, 0 to CLAN_MAX_TRIPWIRES. */
	__u32 tripwires;
	/*
	 * In: how many DMA requests its queue has room for, CLAN_MIN_REQUESTS to CLAN_MAX_REQUESTS,
	 * a power of two.
	 */
	__u32 requests;
	/* In: an event queue of the caller's that its events go to, or CLAN_NO_EVENTS. */
	__u32 events;
	/* Out: its number. */
	__u32 endpoint;
	/* In: CLAN_DRIVERS_DMA or 0. */
	__u32 flags;
	/*
	 * Out: where to map its page of the card with mmap(2) of the same file, writable, shared.
	 */
	__u64 page_offset;
	/*
	 * Out: where to map its memory in the same way, readable and writable: 4,096 bytes and
	 * those of the requests.
	 */
	__u64 memory_offset;
};

/*
 * In clan_endpoint.flags: its requests are not the card's to look for, but the driver's
 * (CLAN_IOC_KICK), as with the paper's card.
 */
#define CLAN_DRIVERS_DMA 1

/* An event queue. */
struct clan_events {
	/* In: records, CLAN_MIN_EVENTS to CLAN_MAX_EVENTS, a power of two. */
	__u32 records;
	/* Out: its number. */
	__u32 queue;
	/*
	 * Out: where to map its memory with mmap(2) of the same file, readable and writable,
	 * shared: 4,096 bytes and those of the records.
	 */
	__u64 memory_offset;
};

/* What to wait for. */
struct clan_wait {
	/*
	 * In: bits of the endpoint's bitmap (CLAN_STATE_BITS). Out: those of them that are set; the
	 * caller clears them.
	 */
	__u64 bits;
	/* In: nanoseconds, 0 to look only, or -1 for ever. */
	__s64 timeout_ns;
	/* In: the endpoint. */
	__u32 endpoint;
	/* Zero. */
	__u32 reserved;
};

/* What to wait for in an event queue. */
struct clan_events_wait {
	/* In: nanoseconds, 0 to look only, or -1 for ever. */
	__s64 timeout_ns;
	/* In: the event queue. */
	__u32 queue;
	/* In: how many records were taken, modulo 2^32. */
	__u32 taken;
};

/* A message that is to be sent. */
struct clan_send {
	/* In: an endpoint of the caller's: the message says its host and port. */
	__u32 endpoint;
	/* In: the receiver's host. */
	__u32 host;
	/* In: its port. */
	__u32 port;
	/* In: CLAN_MESSAGE_*, of those that a process may send. */
	__u32 kind;
	/* In: the payload. */
	__u64 data[5];
};

/* A message in an endpoint's memory. The n-th, from 0, is at n modulo the queue's size. */
struct clan_message {
	/* n + 1, modulo 2^32. The driver writes it last. */
	__u32 number;
	/* CLAN_MESSAGE_*. */
	__u32 kind;
	/* The host that it is from. */
	__u32 host;
	/* The sender's port. */
	__u32 port;
	/* The payload. */
	__u64 data[5];
	/* Zero. */
	__u64 reserved;
};

/* Asks for a connection. */
#define CLAN_MESSAGE_CONNECT 1

/* Accepts one. */
#define CLAN_MESSAGE_ACCEPT 2

/* Refuses one. */
#define CLAN_MESSAGE_REFUSE 3

/* Ends one. */
#define CLAN_MESSAGE_CLOSE 4

/* Whatever else the two ends agree on. */
#define CLAN_MESSAGE_DATA 5

/*
 * From the driver: the message that the payload was has not been delivered, as there is no such
 * endpoint or it had no room; or, of a request for a connection, its endpoint has ended without an
 * answer. If too much is still to be said to the sender's host this is not said, but only logged
 * where it was not delivered.
 */
#define CLAN_MESSAGE_UNDELIVERED 6

/*
 * From the driver: the peer is no more, or its host is lost. If a request for a connection was on
 * its way to that host, this has its payload.
 */
#define CLAN_MESSAGE_GONE 7

/* An endpoint's peer. */
struct clan_peer {
	/* In: the endpoint. */
	__u32 endpoint;
	/* In: its peer's host. */
	__u32 host;
	/* In: its peer's port, or 0: it has none any more. */
	__u32 port;
	/* Zero. */
	__u32 reserved;
};

/* Where an endpoint's events go. */
struct clan_events_of {
	/* In: the endpoint. */
	__u32 endpoint;
	/* In: an event queue of the caller's, or CLAN_NO_EVENTS. */
	__u32 events;
};

/* Whose DMA requests the driver is to carry out. */
struct clan_kick {
	/* In: an endpoint with CLAN_DRIVERS_DMA. */
	__u32 endpoint;
	/* Zero. */
	__u32 reserved;
};

#endif /* _CLAN_UAPI_H */

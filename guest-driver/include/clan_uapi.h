/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What the Clan card's driver and its users agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-headers: do not edit.
 */
#ifndef _CLAN_UAPI_H
#define _CLAN_UAPI_H

#include "uln_uapi.h"
#include "clan_card.h"

/*
 * Contract between driver and library for CLAN cards: calls on an open /dev/clanN, besides those
 * of all cards.
 *
 * Errors besides those of all calls: ENOSPC (the card has no more of that object), EBUSY (a
 * port is taken, or another open object uses the object), EADDRINUSE (a group has a member on
 * this host).
 */

/* Opens an aperture of the caller's memory (section 3.2). Argument: clan_aperture. */
#define CLAN_IOC_APERTURE_OPEN _IOWR('H', ULN_CARD_CALL(CLAN_MODEL, 0), struct clan_aperture)

/*
 * Closes an aperture. Argument: uln_object. When it returns, no access reaches the
 * aperture's memory, and the memory is unpinned.
 */
#define CLAN_IOC_APERTURE_CLOSE _IOWR('H', ULN_CARD_CALL(CLAN_MODEL, 1), struct uln_object)

/*
 * Opens a window onto an aperture of any host. Argument: clan_window. Does not check whether
 * the aperture exists: the first load or store shows that.
 */
#define CLAN_IOC_WINDOW_OPEN _IOWR('H', ULN_CARD_CALL(CLAN_MODEL, 2), struct clan_window)

/* Closes a window. Argument: uln_object. The window's number is its first page. */
#define CLAN_IOC_WINDOW_CLOSE _IOWR('H', ULN_CARD_CALL(CLAN_MODEL, 3), struct uln_object)

/* Opens an endpoint (section 3.1). Argument: clan_endpoint. */
#define CLAN_IOC_ENDPOINT_OPEN _IOWR('H', ULN_CARD_CALL(CLAN_MODEL, 4), struct clan_endpoint)

/*
 * Closes an endpoint. Argument: uln_object. Fails with EBUSY if a window names it. Its
 * peer is notified.
 */
#define CLAN_IOC_ENDPOINT_CLOSE _IOWR('H', ULN_CARD_CALL(CLAN_MODEL, 5), struct uln_object)

/* Opens an event queue (section 3.5). Argument: clan_events. */
#define CLAN_IOC_EVENTS_OPEN _IOWR('H', ULN_CARD_CALL(CLAN_MODEL, 6), struct clan_events)

/* Closes an event queue. Argument: uln_object. */
#define CLAN_IOC_EVENTS_CLOSE _IOWR('H', ULN_CARD_CALL(CLAN_MODEL, 7), struct uln_object)

/*
 * Sleeps until one of the given bits of an endpoint is set. Argument: clan_wait. Fails with
 * ETIMEDOUT, or with EINTR if a signal handler has run.
 */
#define CLAN_IOC_WAIT _IOWR('H', ULN_CARD_CALL(CLAN_MODEL, 8), struct clan_wait)

/*
 * Sleeps until an event queue has more records than were taken. Argument: clan_events_wait.
 * Fails with ETIMEDOUT or EINTR. The file is readable while one of its event queues is not
 * empty, so poll(2) and similar calls can wait for it, too.
 */
#define CLAN_IOC_EVENTS_WAIT _IOWR('H', ULN_CARD_CALL(CLAN_MODEL, 9), struct clan_events_wait)

/*
 * Sends a message to an endpoint of any host (section 3.1). Argument: clan_send. Fails with
 * EHOSTUNREACH if the host does not exist or is lost, and with EAGAIN while the queues that
 * the message passes are full.
 */
#define CLAN_IOC_SEND _IOWR('H', ULN_CARD_CALL(CLAN_MODEL, 10), struct clan_send)

/*
 * Sets an endpoint's peer. If both ends have set each other, each is notified when the other ends.
 * Argument: clan_peer.
 */
#define CLAN_IOC_PEER _IOWR('H', ULN_CARD_CALL(CLAN_MODEL, 11), struct clan_peer)

/*
 * Sets the event queue of an endpoint. Argument: clan_events_of. Fails with EBUSY while
 * untaken records of other endpoints take the space in the queue.
 */
#define CLAN_IOC_EVENTS_OF _IOWR('H', ULN_CARD_CALL(CLAN_MODEL, 12), struct clan_events_of)

/* Lets the driver execute DMA requests (section 3.4). Argument: clan_kick. */
#define CLAN_IOC_KICK _IOWR('H', ULN_CARD_CALL(CLAN_MODEL, 13), struct clan_kick)

/* Index into uln_share_query: apertures. */
#define CLAN_SHARE_APERTURES 0

/* Index into uln_share_query: window pages. */
#define CLAN_SHARE_WINDOW_PAGES 1

/*
 * Index into uln_share_query: endpoints. An endpoint counts as its Tripwires divided by the
 * card's Tripwires for each endpoint, rounded up, at least 1. CLAN_DRIVERS_DMA adds 1. An
 * event queue counts as the number of endpoints that the card has for each event queue.
 */
#define CLAN_SHARE_ENDPOINTS 2

/* Maximum bytes of a process' aperture. */
#define CLAN_MAX_APERTURE 1073741824ULL

/* Maximum bytes of a window. */
#define CLAN_MAX_WINDOW 8388608ULL

/* What a CLAN card reports about itself: the card's part of uln_query. */
struct clan_query {
	/* Out: apertures for processes. */
	__u32 apertures;
	/* Out: window pages for processes. */
	__u32 window_pages;
	/* Out: endpoints for processes. */
	__u32 endpoints;
	/* Out: Tripwires. */
	__u32 tripwires;
	/* Out: maximum bytes of data in a packet. */
	__u32 burst;
	/* Out: words that a host may have in flight to another. */
	__u32 credits;
};

/* An aperture. */
struct clan_aperture {
	/*
	 * In: its address in the caller's memory, a multiple of 8. Its pages are pinned, and count
	 * against RLIMIT_MEMLOCK.
	 */
	__u64 address;
	/* In: bytes, 1 to CLAN_MAX_APERTURE. */
	__u64 length;
	/*
	 * Out: its key. With CLAN_APERTURE_GROUP, in: the group's key, which its members agree on.
	 */
	__u64 key;
	/*
	 * In: CLAN_APERTURE_READ, CLAN_APERTURE_WRITE, both or none; or CLAN_APERTURE_WRITE and
	 * CLAN_APERTURE_GROUP.
	 */
	__u32 flags;
	/* In: the group, 0 to 63, or 0. */
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
	/* In: offset in the aperture of the window's first byte, a multiple of 8. */
	__u64 offset;
	/* In: bytes, 1 to CLAN_MAX_WINDOW. */
	__u64 length;
	/* In: the aperture's host, or CLAN_GROUP_HOST and a group. */
	__u32 host;
	/* In: the aperture's number on that host. */
	__u32 aperture;
	/* In: an endpoint of the caller's, to which its faults are reported. */
	__u32 endpoint;
	/* Out: its number, which is its first page. */
	__u32 window;
	/* Out: offset for mmap(2) of the same file, shared, to map its pages. */
	__u64 offset_of_pages;
};

/* An endpoint. */
struct clan_endpoint {
	/*
	 * In: its port, 1 to 0xffff, or 0 for any free port. Out: its port. Ports below 1,024 need
	 * CAP_NET_BIND_SERVICE.
	 */
	__u32 port;
	/* In: number of Tripwires, 0 to CLAN_MAX_TRIPWIRES. */
	__u32 tripwires;
	/*
	 * In: size of its queue of DMA requests: a power of two from CLAN_MIN_REQUESTS to
	 * CLAN_MAX_REQUESTS.
	 */
	__u32 requests;
	/* In: an event queue of the caller's for its events, or CLAN_NO_EVENTS. */
	__u32 events;
	/* Out: its number. */
	__u32 endpoint;
	/* In: CLAN_DRIVERS_DMA or 0. */
	__u32 flags;
	/*
	 * Out: offset for mmap(2) of the same file, writable, shared, to map its page of the card.
	 */
	__u64 page_offset;
	/*
	 * Out: offset to map its memory in the same way, readable and writable: 4,096 bytes and
	 * those of the requests.
	 */
	__u64 memory_offset;
};

/*
 * In clan_endpoint.flags: the driver executes its requests (CLAN_IOC_KICK), not the card,
 * as with the paper's card.
 */
#define CLAN_DRIVERS_DMA 1

/* An event queue. */
struct clan_events {
	/* In: number of records: a power of two from CLAN_MIN_EVENTS to CLAN_MAX_EVENTS. */
	__u32 records;
	/* Out: its number. */
	__u32 queue;
	/*
	 * Out: offset for mmap(2) of the same file, readable and writable, shared, to map its
	 * memory: 4,096 bytes and those of the records.
	 */
	__u64 memory_offset;
};

/* Argument of CLAN_IOC_WAIT. */
struct clan_wait {
	/*
	 * In: bits of the endpoint's bitmap (CLAN_STATE_BITS). Out: those of them that are set; the
	 * caller clears them.
	 */
	__u64 bits;
	/* In: time-out in nanoseconds, 0 to return at once, or -1 for no time-out. */
	__s64 timeout_ns;
	/* In: the endpoint. */
	__u32 endpoint;
	/* Zero. */
	__u32 reserved;
};

/* Argument of CLAN_IOC_EVENTS_WAIT. */
struct clan_events_wait {
	/* In: time-out in nanoseconds, 0 to return at once, or -1 for no time-out. */
	__s64 timeout_ns;
	/* In: the event queue. */
	__u32 queue;
	/* In: number of records that were taken, modulo 2^32. */
	__u32 taken;
};

/* A message to send. */
struct clan_send {
	/* In: an endpoint of the caller's. The message carries its host and port. */
	__u32 endpoint;
	/* In: the receiver's host. */
	__u32 host;
	/* In: the receiver's port. */
	__u32 port;
	/* In: CLAN_MESSAGE_*, one that a process may send. */
	__u32 kind;
	/* In: the payload. */
	__u64 data[5];
};

/*
 * A message in an endpoint's memory. Message n, counted from 0, is at n modulo the queue's
 * size.
 */
struct clan_message {
	/* n + 1, modulo 2^32. The driver writes it last. */
	__u32 number;
	/* CLAN_MESSAGE_*. */
	__u32 kind;
	/* The sender's host. */
	__u32 host;
	/* The sender's port. */
	__u32 port;
	/* The payload. */
	__u64 data[5];
	/* Zero. */
	__u64 reserved;
};

/* Requests a connection. */
#define CLAN_MESSAGE_CONNECT 1

/* Accepts a connection. */
#define CLAN_MESSAGE_ACCEPT 2

/* Refuses a connection. */
#define CLAN_MESSAGE_REFUSE 3

/* Ends a connection. */
#define CLAN_MESSAGE_CLOSE 4

/* Anything else that the two ends agree on. */
#define CLAN_MESSAGE_DATA 5

/*
 * From the driver: the message with this payload was not delivered, because the endpoint does not
 * exist or had no space. For a connection request, also: its endpoint ended without an answer. If
 * too many messages wait for the sender's host, this one is not sent; the host that did not
 * deliver the message only logs it.
 */
#define CLAN_MESSAGE_UNDELIVERED 6

/*
 * From the driver: the peer has ended, or its host is lost. If a connection request was in flight
 * to that host, this message has the request's payload.
 */
#define CLAN_MESSAGE_GONE 7

/* An endpoint's peer. */
struct clan_peer {
	/* In: the endpoint. */
	__u32 endpoint;
	/* In: its peer's host. */
	__u32 host;
	/* In: its peer's port, or 0 if it no longer has a peer. */
	__u32 port;
	/* Zero. */
	__u32 reserved;
};

/* Argument of CLAN_IOC_EVENTS_OF. */
struct clan_events_of {
	/* In: the endpoint. */
	__u32 endpoint;
	/* In: an event queue of the caller's, or CLAN_NO_EVENTS. */
	__u32 events;
};

/* Argument of CLAN_IOC_KICK. */
struct clan_kick {
	/* In: an endpoint with CLAN_DRIVERS_DMA. */
	__u32 endpoint;
	/* Zero. */
	__u32 reserved;
};

#endif /* _CLAN_UAPI_H */

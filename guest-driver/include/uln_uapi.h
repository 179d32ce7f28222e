/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What the driver and users of any card agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-headers: do not edit.
 */
#ifndef _ULN_UAPI_H
#define _ULN_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

/*
 * The version of the contract, and the numbers of its calls.
 *
 * Numbers up to 63 belong to the family, and to the Hamlyn card, which is older than the family.
 * Every later model has 16 numbers of its own from 64 on, in the order of the models: model 2 has
 * 64 to 79, model 3 has 80 to 95. So a model's folder defines its calls (card_call), and no
 * two models share a number. A call of another model fails with ENOTTY.
 */

/*
 * Version of this contract. The major version is in the upper half, the minor version in the
 * lower.
 */
#define ULN_UAPI_VERSION 0x00020000

/* First call number of the later models. */
#define ULN_FIRST_CARD_CALL 64

/* Number of calls of each later model. */
#define ULN_CARD_CALLS 16

/* The first model that has call numbers of its own. */
#define ULN_FIRST_LATER_MODEL 2

/* The last model that call numbers are reserved for. */
#define ULN_LAST_MODEL 13

/* The number of a call, 0 to 15, of a later model. */
#define ULN_CARD_CALL(model, number) \
	(ULN_FIRST_CARD_CALL + \
	 ((model) - ULN_FIRST_LATER_MODEL) * ULN_CARD_CALLS + (number))

/* Counters and self-tests of a card. */

/* Reads the card's counters. Argument: uln_statistics. */
#define ULN_IOC_STATISTICS _IOWR('H', 12, struct uln_statistics)

/*
 * Runs the card's self-tests. Fails with EPERM without CAP_SYS_ADMIN. Argument:
 * uln_self_test.
 */
#define ULN_IOC_SELF_TEST _IOWR('H', 13, struct uln_self_test)

/* The card's counters. */
struct uln_statistics {
	/* Out: number of values that the card has. */
	__u32 count;
	/* Zero. */
	__u32 reserved;
	/* Out: the counters, in the order of statistics; the rest is zero. */
	__u64 values[64];
};

/* Results of the self-tests: 0 for passed, otherwise what failed. */
struct uln_self_test {
	/* Out: register access. */
	__u32 access;
	/*
	 * Out: DMA. 1: the card refused. 2: the bytes are wrong (is guest memory shared with the
	 * card?). 3: the memory of processes cannot be shared with the card (are there bounce
	 * buffers, as with swiotlb=force?).
	 */
	__u32 dma;
	/* Out: interrupts: the first vector that did not arrive, plus 1. */
	__u32 interrupt;
	/* Zero. */
	__u32 reserved;
};

/* Names and connections (section 6.3). Each listener and connection is a file of its own. */

/*
 * Takes a name, under which processes of any host may connect, and returns a listener, a file of
 * its own. Argument: uln_listen. Fails with EADDRINUSE if the name is taken. EACCES: the
 * name begins with system/, and the caller lacks CAP_NET_BIND_SERVICE; or with kernel/, as
 * those names are for operating systems; or with tcp/, and socket is not the connection that
 * it names. EOPNOTSUPP: the driver lacks ULN_CAPABILITY_CONNECTIONS.
 */
#define ULN_IOC_LISTEN _IOWR('H', 14, struct uln_listen)

/*
 * Requests a connection, and returns it at once, as a file of its own. Argument:
 * uln_connect. Fails with EHOSTUNREACH if the host id is 64 or more, or the switch has no
 * port for it, with EACCES if the name begins with kernel/, and with EOPNOTSUPP without
 * ULN_CAPABILITY_CONNECTIONS.
 */
#define ULN_IOC_CONNECT _IOWR('H', 15, struct uln_connect)

/*
 * On a listener: returns the next requested connection, as a file of its own. Argument:
 * uln_object, zero. Fails with EAGAIN if there is none.
 */
#define ULN_IOC_NEXT_REQUEST _IOWR('H', 16, struct uln_object)

/* On a connection: returns its state. Argument: uln_connection_state. */
#define ULN_IOC_CONNECTION_QUERY _IOWR('H', 17, struct uln_connection_state)

/*
 * On a requested connection: accepts it. Argument: uln_private. Fails with ENOTCONN if it
 * has ended.
 */
#define ULN_IOC_ACCEPT _IOWR('H', 18, struct uln_private)

/*
 * On a requested connection: rejects it. Argument: uln_private. Fails with ENOTCONN if it
 * has ended.
 */
#define ULN_IOC_REJECT _IOWR('H', 19, struct uln_private)

/*
 * On a connection: ends it gracefully (section 6.4). Argument: uln_private. Fails with
 * ENOTCONN if it has ended.
 */
#define ULN_IOC_CLOSE _IOWR('H', 20, struct uln_private)

/*
 * Asks whether a process listens under a name. Returns the question at once, as a file of its own,
 * which has a state and is polled like a connection. Argument: uln_connect without private
 * data.
 *
 * The question ends with the answer: ULN_END_LISTENING or ULN_END_NOT_LISTENING. Without
 * an answer, its end reports the reason (ULN_END_NO_NAME: that host's driver is too old to
 * support questions). Errors are those of ULN_IOC_CONNECT, and ENOTTY without
 * ULN_CAPABILITY_QUESTIONS.
 */
#define ULN_IOC_ASK _IOWR('H', 24, struct uln_connect)

/* The longest name of a listener, in bytes. */
#define ULN_MAX_NAME 64

/* Maximum private data in a request, its answer or a close, in bytes. */
#define ULN_MAX_PRIVATE 256

/* Maximum backlog of a listener. */
#define ULN_MAX_BACKLOG 1024

/* Maximum number of connections and listeners of a card's driver. */
#define ULN_MAX_CONNECTIONS 16384

/* State of a connection: requested by this side; the other side has not answered. */
#define ULN_CONNECTION_CONNECTING 1

/* State of a connection: requested by the other side; this side has not answered. */
#define ULN_CONNECTION_REQUESTED 2

/* State of a connection: accepted. */
#define ULN_CONNECTION_ESTABLISHED 3

/* State of a connection: ended. */
#define ULN_CONNECTION_ENDED 4

/* Why a connection ended: the peer closed it gracefully. */
#define ULN_END_CLOSED 1

/*
 * Why a connection ended: the peer's process died, or released the connection without closing it.
 */
#define ULN_END_DIED 2

/* Why a connection ended: the peer's host does not respond. */
#define ULN_END_HOST_LOST 3

/*
 * Why a connection ended: the peer's host or its card has restarted, or was stopped for a while,
 * and lost the connection.
 */
#define ULN_END_HOST_RESET 4

/* Why a connection ended: this host's link went down. */
#define ULN_END_LINK_LOST 5

/*
 * Why a connection ended: this host was stopped for a while, and its card discarded what arrived
 * (section 2.8).
 */
#define ULN_END_LAPSED 6

/* Why a connection ended: this host's card was reset, removed, or failed. */
#define ULN_END_CARD_RESET 7

/* Why a connection was refused: no process listens under that name. */
#define ULN_END_NO_NAME 8

/* Why a connection was refused: the listener's backlog is full. */
#define ULN_END_BACKLOG 9

/* Why a connection was refused: the listener rejected it. */
#define ULN_END_REJECTED 10

/* How a question ended: a process listens under that name. */
#define ULN_END_LISTENING 11

/* How a question ended: no process listens under that name. */
#define ULN_END_NOT_LISTENING 12

/* A name to listen under. */
struct uln_listen {
	/* In: bytes of the name, 1 to ULN_MAX_NAME. */
	__u32 name_length;
	/* In: maximum number of waiting requests, 1 to ULN_MAX_BACKLOG. */
	__u32 backlog;
	/*
	 * In: for a name tcp/ADDRESS:PORT-ADDRESS:PORT, the descriptor plus 1 of the TCP connection
	 * with these ends, the caller's first (IPv4, in the initial network namespace); else zero.
	 */
	__u32 socket;
	/* Zero. */
	__u32 reserved0;
	/* Zero. */
	__u64 reserved1;
	/* In: the name, any bytes, padded with zeros. */
	__u8 name[64];
};

/* Destination of a connection or question. */
struct uln_connect {
	/* In: the host id. */
	__u32 host;
	/* In: bytes of the name, 1 to ULN_MAX_NAME. */
	__u32 name_length;
	/* In: bytes of private data, 0 to ULN_MAX_PRIVATE. */
	__u32 private_length;
	/* Zero. */
	__u32 reserved0;
	/* Zero. */
	__u64 reserved1;
	/* In: the name, padded with zeros. */
	__u8 name[64];
	/* In: private data for the listener, padded with zeros. */
	__u8 data[256];
};

/* State of a connection. */
struct uln_connection_state {
	/* Out: ULN_CONNECTION_*. */
	__u32 state;
	/* Out: ULN_END_* if the connection has ended, otherwise zero. */
	__u32 reason;
	/* Out: the peer's host id. */
	__u32 host;
	/* Out: bytes of private data. */
	__u32 private_length;
	/*
	 * Out: the peer's user id plus 1, as reported by the peer's operating system; 0 if not
	 * reported.
	 */
	__u32 user;
	/* Zero. */
	__u32 reserved;
	/* Out: the private data of the peer's last request, answer or close, padded with zeros. */
	__u8 data[256];
};

/* Private data for the peer. */
struct uln_private {
	/* In: bytes, 0 to ULN_MAX_PRIVATE. */
	__u32 length;
	/* Zero. */
	__u32 reserved;
	/* In: the bytes, padded with zeros. */
	__u8 data[256];
};

/*
 * Express memory (docs/express.md): pages that a process of this host and a process of another
 * host share. No other process can access them.
 *
 * The receiver makes an *area* for a host, and passes its number and key to a process there, in
 * any way. That process maps it, once: the mapping is a *view*. Both may load and store. The use
 * of the memory is up to them.
 */

/*
 * Makes a zeroed area of express memory for a host. Argument: uln_express_create. Fails with
 * EHOSTUNREACH if the two hosts share no express memory. Fails with ENOSPC if too few pages
 * are free. EDQUOT: the user's share of the pages is too small. EOPNOTSUPP: the driver lacks
 * ULN_CAPABILITY_EXPRESS.
 */
#define ULN_IOC_EXPRESS_CREATE _IOWR('H', 25, struct uln_express_create)

/*
 * Maps an area that a process of another host has made for this host, as a view. Argument:
 * uln_express_map. Waits for that host's answer. Fails with EHOSTUNREACH if there is no
 * express memory with that host, or that host has other memory. EACCES: the area does not exist,
 * or has another key. EBUSY: it already has a view. EHOSTDOWN: the host does not respond.
 * EINTR: a signal arrived.
 */
#define ULN_IOC_EXPRESS_MAP _IOWR('H', 26, struct uln_express_map)

/*
 * Gives an area or a view back. Its mappings stay, and show memory that no other process sees.
 * Argument: uln_object.
 */
#define ULN_IOC_EXPRESS_DESTROY _IOWR('H', 27, struct uln_object)

/* Returns the state of the express memory with a host. Argument: uln_express_query. */
#define ULN_IOC_EXPRESS_QUERY _IOWR('H', 28, struct uln_express_query)

/* A new area. */
struct uln_express_create {
	/* In: the host that the area is for. */
	__u32 host;
	/* Out: the area's number, for calls of this file and for the other host. */
	__u32 number;
	/* In: bytes: a multiple of 4,096, at least 4,096, and at most half a part. */
	__u64 length;
	/* Out: its key, from the kernel's random source. */
	__u64 key;
	/* Out: offset for mmap(2) of this file, readable and writable, shared. */
	__u64 offset;
	/* Zero. */
	__u64 reserved[4];
};

/* A new view. */
struct uln_express_map {
	/* In: the host that has made the area. */
	__u32 host;
	/* In: the area's number on that host. */
	__u32 area;
	/* In: its key. */
	__u64 key;
	/* Out: the view's number, for calls of this file. */
	__u32 number;
	/* Zero. */
	__u32 reserved0;
	/* Out: bytes. */
	__u64 length;
	/* Out: offset for mmap(2) of this file, readable and writable, shared. */
	__u64 offset;
	/* Zero. */
	__u64 reserved[3];
};

/* State of the express memory with a host. */
struct uln_express_query {
	/* In: the host. */
	__u32 host;
	/* Zero. */
	__u32 reserved0;
	/*
	 * Out: bytes that the two hosts share, or 0 if they share none. This host assigns half of
	 * them.
	 */
	__u64 part;
	/* Out: pages that this host assigns. */
	__u32 pages;
	/* Out: number of these pages that areas have. */
	__u32 used;
	/*
	 * Out: pages of former areas, until the other host confirms that no process there sees
	 * them.
	 */
	__u32 leaving;
	/* Out: pages of the other host that views here have. */
	__u32 viewed;
	/* Out: pages that areas of the user that opened the file have. */
	__u32 held;
	/*
	 * Out: number of pages that this user may hold at present: a share of what other users
	 * leave.
	 */
	__u32 limit;
	/* Zero. */
	__u64 reserved[3];
};

/* Arguments that calls of all cards share: an object of the file, and a time-out. */

/*
 * Opens a file of its own for one object, for poll(2) and the like. Returns the file's
 * descriptor. Argument: uln_object_file.
 *
 * The file is readable while the object has the awaited event; it reports EPOLLHUP once the
 * object is closed. From this call on, the card's file does not report the object. The new file
 * keeps the object's memory, but does not keep the object open. ENOENT: the
 * file has no object there; EOPNOTSUPP: objects of this kind cannot be polled; EINVAL: nothing
 * to wait for. Drivers without ULN_CAPABILITY_OBJECT_FILES lack this call.
 */
#define ULN_IOC_OBJECT_FILE _IOWR('H', 29, struct uln_object_file)

/* timeout_ns of the calls that wait: no time-out. */
#define ULN_WAIT_FOREVER (-1)

/* Names an object of the file: for a Hamlyn card a terminus, queue or slot. */
struct uln_object {
	/* In: its number. */
	__u32 index;
	/* Zero. */
	__u32 reserved0;
	/* Zero. */
	__u64 reserved1;
};

/* An object, and what its own file reports. */
struct uln_object_file {
	/* In: the object's offset for mmap(2), as its driver returned it. */
	__u64 offset;
	/* In: what to wait for. A CLAN endpoint: bits of its bitmap. Others: zero. */
	__u64 what;
};

/* What a card is, and the numbers of its resources. */

/* Describes the card. Argument: uln_query. */
#define ULN_IOC_QUERY _IOWR('H', 1, struct uln_query)

/* uln_query.capabilities: listening and connecting. */
#define ULN_CAPABILITY_CONNECTIONS 1ULL

/* uln_query.capabilities: shares of users. */
#define ULN_CAPABILITY_SHARES 2ULL

/* uln_query.capabilities: asking whether a process listens under a name. */
#define ULN_CAPABILITY_QUESTIONS 8ULL

/* uln_query.capabilities: express memory (express) with at least one host. */
#define ULN_CAPABILITY_EXPRESS 16ULL

/* uln_query.capabilities: files of single objects (ULN_IOC_OBJECT_FILE). */
#define ULN_CAPABILITY_OBJECT_FILES 32ULL

/*
 * What the card is, and the numbers of its resources: fields that all cards have, and a union with
 * model as its tag.
 *
 * The Hamlyn card has five words in the middle, from the time when it was the only model. They are
 * zero for all other models. Every model has card for a structure of its own
 * (uln_query.of_card).
 */
struct uln_query {
	/* Out: ULN_UAPI_VERSION of the driver. */
	__u32 uapi_version;
	/* Out: the version of the model's contract that the card implements. */
	__u32 abi_version;
	/* Out: the card's model (*_MODEL). */
	__u32 model;
	/* Out: the card's host id, or ULN_NO_HOST while its link is down. */
	__u32 host;
	/* Out: additions to version 2 that the driver and card have: ULN_CAPABILITY_* bits. */
	__u64 capabilities;
	/* Out, for a Hamlyn card: maximum user data in a packet, in bytes. */
	__u32 packet_size;
	/* Out, for a Hamlyn card: its SRAM, in bytes. */
	__u32 sram_size;
	/* Out, for a Hamlyn card: send termini for processes. */
	__u32 termini;
	/* Out, for a Hamlyn card: slots for processes. */
	__u32 slots;
	/* Out, for a Hamlyn card: notification queues for processes. */
	__u32 queues;
	/* Out: interrupt vectors in use. */
	__u32 vectors;
	/*
	 * Out: ports of the switch, the upper bound of host ids. 0 if it is not known, or the link
	 * is down.
	 */
	__u32 ports;
	/* Zero. */
	__u32 reserved0;
	/* Out: the model's own structure, padded with zeros. */
	__u64 card[9];
};

/*
 * Users' shares of a card.
 *
 * The model defines what is shared, except connections, which every card has.
 */

/*
 * Returns how much of the card the user that opened the file holds, and may hold. Argument:
 * uln_share_query.
 */
#define ULN_IOC_SHARE _IOWR('H', 21, struct uln_share_query)

/* Index into uln_share_query: connections that have not ended, and listeners. */
#define ULN_SHARE_CONNECTIONS 3

/* Usage of the card by the user that opened the file, through all of this user's files. */
struct uln_share_query {
	/* Out: numbers that the user holds, by ULN_SHARE_*. The model defines the first three. */
	__u32 held[4];
	/*
	 * Out: numbers that the user may hold at present: a share of what other users leave. It
	 * falls while others take more; what the user already holds is kept.
	 */
	__u32 limit[4];
	/*
	 * Out: the user that the share belongs to, as the caller sees its id. It is the user that
	 * opened the file, or that made the user namespace in which the file was opened.
	 */
	__u32 user;
	/* Zero. */
	__u32 reserved0;
	/* Zero. */
	__u64 reserved1[3];
};

#endif /* _ULN_UAPI_H */

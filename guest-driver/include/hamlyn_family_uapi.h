/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What the driver and users of any card agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-tests --bin headers: do not edit.
 */
#ifndef _HAMLYN_FAMILY_UAPI_H
#define _HAMLYN_FAMILY_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

/*
 * The version of the contract, and the numbers of its calls.
 *
 * Numbers up to 63 are the family's, and the Hamlyn card's, which was there before there was a
 * family. Every later model has 16 of its own from 64 on, by its number: model 2 has 64 to 79,
 * model 3 has 80 to 95. So a model's folder says its calls (card_call), and no two models share
 * one: a call of another model is answered ENOTTY.
 */

/* Version of this contract: major in the upper half, minor in the lower. */
#define HAMLYN_UAPI_VERSION 0x00020000

/* The first number of a call that is a later model's own. */
#define HAMLYN_FIRST_CARD_CALL 64

/* How many calls each later model has. */
#define HAMLYN_CARD_CALLS 16

/* The first model that has numbers of its own. */
#define HAMLYN_FIRST_LATER_MODEL 2

/* The last model that there are numbers for. */
#define HAMLYN_LAST_MODEL 13

/* The number of a call, 0 to 15, of a later model. */
#define HAMLYN_CARD_CALL(model, number) \
	(HAMLYN_FIRST_CARD_CALL + \
	 ((model) - HAMLYN_FIRST_LATER_MODEL) * HAMLYN_CARD_CALLS + (number))

/* How a card does: its counters, and its self-tests. */

/* Reads the card's counters. Argument: hamlyn_statistics. */
#define HAMLYN_IOC_STATISTICS _IOWR('H', 12, struct hamlyn_statistics)

/* Runs the card's self-tests (EPERM without CAP_SYS_ADMIN). Argument: hamlyn_self_test. */
#define HAMLYN_IOC_SELF_TEST _IOWR('H', 13, struct hamlyn_self_test)

/* The card's counters. */
struct hamlyn_statistics {
	/* Out: how many of values the card has. */
	__u32 count;
	/* Zero. */
	__u32 reserved;
	/* Out: the counters, in the order of statistics; the rest is zero. */
	__u64 values[64];
};

/* Results of the self-tests: 0 for passed, else what failed. */
struct hamlyn_self_test {
	/* Out: register access. */
	__u32 access;
	/*
	 * Out: DMA: 1 the card refused, 2 the bytes are wrong (is guest memory shared with the
	 * card?), 3 the memory of processes cannot be shared with the card (are there bounce
	 * buffers, as with swiotlb=force?).
	 */
	__u32 dma;
	/* Out: interrupts: the first vector, plus 1, that did not arrive. */
	__u32 interrupt;
	/* Zero. */
	__u32 reserved;
};

/* Names and connections (section 6.3), which are files of their own. */

/*
 * Takes a name, under which processes of any host may connect: answers a listener, a file of its
 * own. Argument: hamlyn_listen. EADDRINUSE; EACCES for a name that begins with system/, without
 * CAP_NET_BIND_SERVICE; EOPNOTSUPP without HAMLYN_CAPABILITY_CONNECTIONS.
 */
#define HAMLYN_IOC_LISTEN _IOWR('H', 14, struct hamlyn_listen)

/*
 * Asks for a connection: answers it, a file of its own, at once. Argument: hamlyn_connect.
 * EHOSTUNREACH for a host id of 64 or more, or that the switch has no port for; EOPNOTSUPP without
 * HAMLYN_CAPABILITY_CONNECTIONS.
 */
#define HAMLYN_IOC_CONNECT _IOWR('H', 15, struct hamlyn_connect)

/*
 * On a listener: answers the next connection that is asked for, a file of its own. Argument:
 * hamlyn_object, zero. EAGAIN if there is none.
 */
#define HAMLYN_IOC_NEXT_REQUEST _IOWR('H', 16, struct hamlyn_object)

/* On a connection: how it stands. Argument: hamlyn_connection_state. */
#define HAMLYN_IOC_CONNECTION_QUERY _IOWR('H', 17, struct hamlyn_connection_state)

/*
 * On a connection that was asked for: accepts it. Argument: hamlyn_private. ENOTCONN: it has ended.
 */
#define HAMLYN_IOC_ACCEPT _IOWR('H', 18, struct hamlyn_private)

/*
 * On a connection that was asked for: rejects it. Argument: hamlyn_private. ENOTCONN: it has ended.
 */
#define HAMLYN_IOC_REJECT _IOWR('H', 19, struct hamlyn_private)

/*
 * On a connection: ends it gracefully (section 6.4). Argument: hamlyn_private. ENOTCONN: it has
 * ended.
 */
#define HAMLYN_IOC_CLOSE _IOWR('H', 20, struct hamlyn_private)

/*
 * Asks whether anybody listens under a name: answers the question at once, a file of its own, which
 * stands and is polled as a connection's does, and ends with the answer: HAMLYN_END_LISTENING,
 * HAMLYN_END_NOBODY, or why there is none (HAMLYN_END_NO_NAME: that host's driver is too old to
 * know questions). Argument: hamlyn_connect without private data. Errors as for HAMLYN_IOC_CONNECT;
 * ENOTTY without HAMLYN_CAPABILITY_QUESTIONS.
 */
#define HAMLYN_IOC_ASK _IOWR('H', 24, struct hamlyn_connect)

/* The longest name of a listener, in bytes. */
#define HAMLYN_MAX_NAME 64

/* The most private data that a request, its answer or a close carries, in bytes. */
#define HAMLYN_MAX_PRIVATE 256

/* The longest backlog of a listener. */
#define HAMLYN_MAX_BACKLOG 1024

/* Connections and listeners that a card's driver has room for. */
#define HAMLYN_MAX_CONNECTIONS 16384

/* State of a connection: asked for by this side; the other has not answered. */
#define HAMLYN_CONNECTION_CONNECTING 1

/* State of a connection: asked for by the other side; this one has not answered. */
#define HAMLYN_CONNECTION_REQUESTED 2

/* State of a connection: accepted. */
#define HAMLYN_CONNECTION_ESTABLISHED 3

/* State of a connection: over. */
#define HAMLYN_CONNECTION_ENDED 4

/* Why a connection ended: the peer closed it gracefully. */
#define HAMLYN_END_CLOSED 1

/* Why a connection ended: the peer's process died, or let go of it without closing it. */
#define HAMLYN_END_DIED 2

/* Why a connection ended: the peer's host gives no sign of life. */
#define HAMLYN_END_HOST_LOST 3

/*
 * Why a connection ended: the peer's host, or its card, has started anew or stood still, and lost
 * it.
 */
#define HAMLYN_END_HOST_RESET 4

/* Why a connection ended: this host's link went down. */
#define HAMLYN_END_LINK_LOST 5

/*
 * Why a connection ended: this host stood still, and its card discarded what arrived (section 2.8).
 */
#define HAMLYN_END_LAPSED 6

/* Why a connection ended: this host's card was reset, removed, or failed. */
#define HAMLYN_END_CARD_RESET 7

/* Why a connection was refused: nobody listens under that name. */
#define HAMLYN_END_NO_NAME 8

/* Why a connection was refused: the listener's backlog is full. */
#define HAMLYN_END_BACKLOG 9

/* Why a connection was refused: the listener rejected it. */
#define HAMLYN_END_REJECTED 10

/* How a question ended: somebody listens under that name. */
#define HAMLYN_END_LISTENING 11

/* How a question ended: nobody listens under that name. */
#define HAMLYN_END_NOBODY 12

/* A name to listen under. */
struct hamlyn_listen {
	/* In: bytes of the name, 1 to HAMLYN_MAX_NAME. */
	__u32 name_length;
	/* In: how many requests may wait, 1 to HAMLYN_MAX_BACKLOG. */
	__u32 backlog;
	/* Zero. */
	__u64 reserved[2];
	/* In: the name, any bytes; zero behind it. */
	__u8 name[64];
};

/* Whom to connect to. */
struct hamlyn_connect {
	/* In: the host id. */
	__u32 host;
	/* In: bytes of the name, 1 to HAMLYN_MAX_NAME. */
	__u32 name_length;
	/* In: bytes of private data, 0 to HAMLYN_MAX_PRIVATE. */
	__u32 private_length;
	/* Zero. */
	__u32 reserved0;
	/* Zero. */
	__u64 reserved1;
	/* In: the name; zero behind it. */
	__u8 name[64];
	/* In: what the listener is passed; zero behind it. */
	__u8 data[256];
};

/* How a connection stands. */
struct hamlyn_connection_state {
	/* Out: HAMLYN_CONNECTION_*. */
	__u32 state;
	/* Out: HAMLYN_END_* once it has ended, else zero. */
	__u32 reason;
	/* Out: the peer's host id. */
	__u32 host;
	/* Out: bytes of private data. */
	__u32 private_length;
	/* Out: the peer's user id plus 1, as the peer's operating system says; 0: not told. */
	__u32 user;
	/* Zero. */
	__u32 reserved;
	/*
	 * Out: what the peer passed last: with its request, its answer, or its close; zero behind
	 * it.
	 */
	__u8 data[256];
};

/* What is passed to the peer. */
struct hamlyn_private {
	/* In: bytes, 0 to HAMLYN_MAX_PRIVATE. */
	__u32 length;
	/* Zero. */
	__u32 reserved;
	/* In: the bytes; zero behind them. */
	__u8 data[256];
};

/*
 * Express memory (docs/express.md): pages that a process of this host and one of another share, and
 * nobody else.
 *
 * Who is to receive makes an *area* for a host, and passes its number and key to a process there,
 * by whatever way. That one maps it, once: the mapping is a *view*. Both may load and store; what
 * they say to each other there is theirs to arrange.
 */

/*
 * Makes an area of express memory for a host: zeros. Argument: hamlyn_express_create. EHOSTUNREACH:
 * there is no express memory with that host; ENOSPC: too few pages are free, EDQUOT: the user's
 * share of them is; EOPNOTSUPP without HAMLYN_CAPABILITY_EXPRESS.
 */
#define HAMLYN_IOC_EXPRESS_CREATE _IOWR('H', 25, struct hamlyn_express_create)

/*
 * Maps an area that a process of another host has made for this one: a view of it. Argument:
 * hamlyn_express_map. Waits for that host's answer. EHOSTUNREACH: there is no express memory with
 * that host, or it is other memory there; EACCES: there is no such area, or not with that key;
 * EBUSY: it has a view already; EHOSTDOWN: the host gives no sign of life; EINTR.
 */
#define HAMLYN_IOC_EXPRESS_MAP _IOWR('H', 26, struct hamlyn_express_map)

/*
 * Gives an area or a view back. Its mappings stay, and show memory that nobody else sees. Argument:
 * hamlyn_object.
 */
#define HAMLYN_IOC_EXPRESS_DESTROY _IOWR('H', 27, struct hamlyn_object)

/* What there is of express memory with a host. Argument: hamlyn_express_query. */
#define HAMLYN_IOC_EXPRESS_QUERY _IOWR('H', 28, struct hamlyn_express_query)

/* A new area. */
struct hamlyn_express_create {
	/* In: the host that it is for. */
	__u32 host;
	/* Out: its number, for calls of this file and for the other host. */
	__u32 number;
	/* In: bytes, a multiple of 4,096, at least that, and at most half a part. */
	__u64 length;
	/* Out: its key, from the kernel's random source. */
	__u64 key;
	/* Out: offset of mmap(2) of this file, to be mapped readable and writable, shared. */
	__u64 offset;
	/* Zero. */
	__u64 reserved[4];
};

/* A new view. */
struct hamlyn_express_map {
	/* In: the host that has made the area. */
	__u32 host;
	/* In: the area's number there. */
	__u32 area;
	/* In: its key. */
	__u64 key;
	/* Out: the view's number, for calls of this file. */
	__u32 number;
	/* Zero. */
	__u32 reserved0;
	/* Out: bytes. */
	__u64 length;
	/* Out: offset of mmap(2) of this file, to be mapped readable and writable, shared. */
	__u64 offset;
	/* Zero. */
	__u64 reserved[3];
};

/* What there is of express memory with a host. */
struct hamlyn_express_query {
	/* In: the host. */
	__u32 host;
	/* Zero. */
	__u32 reserved0;
	/*
	 * Out: bytes of the part with that host, of which half are this host's to give; 0: there is
	 * none.
	 */
	__u64 part;
	/* Out: pages that are this host's to give. */
	__u32 pages;
	/* Out: of these, pages that areas have. */
	__u32 used;
	/*
	 * Out: pages that areas had, until the other host confirms that nobody there sees them any
	 * more.
	 */
	__u32 leaving;
	/* Out: pages of the other host's that views here have. */
	__u32 viewed;
	/* Out: pages that areas of the user who opened the file have. */
	__u32 held;
	/* Out: how many he may hold as things stand: a share of what the others leave. */
	__u32 limit;
	/* Zero. */
	__u64 reserved[3];
};

/* What calls of any card name: an object of the file, and for how long to wait. */

/* timeout_ns of the calls that wait: no time-out. */
#define HAMLYN_WAIT_FOREVER (-1)

/* Names an object of the file: of a Hamlyn card a terminus, queue or slot. */
struct hamlyn_object {
	/* In: its number. */
	__u32 index;
	/* Zero. */
	__u32 reserved0;
	/* Zero. */
	__u64 reserved1;
};

/* What a card is, and how much of everything it has. */

/* Describes the card. Argument: hamlyn_query. */
#define HAMLYN_IOC_QUERY _IOWR('H', 1, struct hamlyn_query)

/* hamlyn_query.capabilities: listen and connect. */
#define HAMLYN_CAPABILITY_CONNECTIONS 1ULL

/* hamlyn_query.capabilities: shares of users. */
#define HAMLYN_CAPABILITY_SHARES 2ULL

/* hamlyn_query.capabilities: to ask whether a name is listened to. */
#define HAMLYN_CAPABILITY_QUESTIONS 8ULL

/* hamlyn_query.capabilities: express memory (express), with some host or other. */
#define HAMLYN_CAPABILITY_EXPRESS 16ULL

/*
 * What the card is and how much of everything it has: what any card says, and a union that model is
 * the tag of.
 *
 * Of the union the Hamlyn card has five words in the middle, from before there were others, which
 * are zero for all others. Every model has card for a structure of its own (hamlyn_query.of_card).
 */
struct hamlyn_query {
	/* Out: HAMLYN_UAPI_VERSION of the driver. */
	__u32 uapi_version;
	/* Out: the version of the model's contract that the card implements. */
	__u32 abi_version;
	/* Out: which card (HAMLYN_MODEL_*). */
	__u32 model;
	/* Out: the card's host id, or HAMLYN_NO_HOST while its link is down. */
	__u32 host;
	/* Out: additions to version 2 that the driver and card have: HAMLYN_CAPABILITY_* bits. */
	__u64 capabilities;
	/* Out, of a Hamlyn card: the most user data in a packet, in bytes. */
	__u32 packet_size;
	/* Out, of a Hamlyn card: its SRAM, in bytes. */
	__u32 sram_size;
	/* Out, of a Hamlyn card: send termini that processes may have. */
	__u32 termini;
	/* Out, of a Hamlyn card: slots that processes may have. */
	__u32 slots;
	/* Out, of a Hamlyn card: notification queues that processes may have. */
	__u32 queues;
	/* Out: interrupt vectors in use. */
	__u32 vectors;
	/* Out: ports of the switch, which host ids are below. 0: not known, or the link is down. */
	__u32 ports;
	/* Zero. */
	__u32 reserved0;
	/* Out: the model's own structure, and zero behind it. */
	__u64 card[9];
};

/*
 * Users' shares of a card.
 *
 * What they share is the model's own affair, but for connections, which every card has.
 */

/*
 * How much of the card the user who opened the file holds, and may hold. Argument:
 * hamlyn_share_query.
 */
#define HAMLYN_IOC_SHARE _IOWR('H', 21, struct hamlyn_share_query)

/* Index into hamlyn_share_query: connections that have not ended, and listeners. */
#define HAMLYN_SHARE_CONNECTIONS 3

/* What the user who opened the file holds of the card, through all his files. */
struct hamlyn_share_query {
	/* Out: how many he holds, by HAMLYN_SHARE_*. The first three are what the model says. */
	__u32 held[4];
	/*
	 * Out: how many he may hold as things stand: a share of what the others leave. It falls
	 * while others take more, and what he holds already stays his.
	 */
	__u32 limit[4];
	/*
	 * Out: whose share it is: the user id of who opened the file, or of who made the user
	 * namespace in which he did, as the caller sees it.
	 */
	__u32 user;
	/* Zero. */
	__u32 reserved0;
	/* Zero. */
	__u64 reserved1[3];
};

#endif /* _HAMLYN_FAMILY_UAPI_H */

/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What the Hamlyn driver and its users agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-tests --bin headers: do not edit.
 */
#ifndef _HAMLYN_UAPI_H
#define _HAMLYN_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

/*
 * The contract between driver and library: the ioctls of /dev/hamlynN.
 *
 * One open file is one protection domain: what it creates belongs to it alone and goes when it is closed or its
 * process dies. Every structure has reserved fields; they must be zero going in (EINVAL otherwise) and come out
 * zero. A request code that the driver does not know is answered ENOTTY; the library asks
 * hamlyn_query.capabilities before it uses anything newer than version 2.
 *
 * Errors all calls share: EFAULT (the structure cannot be read or written), EINVAL (a field that means nothing),
 * ENODEV (the card is gone or does not answer), ENOSPC (the card's table is full), ENOENT (not an object of
 * this file), ENOMEM (also: what the caller's user has pinned would pass the caller's RLIMIT_MEMLOCK),
 * EOPNOTSUPP (the memory cannot be shared with the card: the machine would have to copy it), EDQUOT (the user who
 * opened the file holds as much of the card as one user may: hamlyn_share_query).
 */

/* Version of this contract: major in the upper half, minor in the lower. */
#define HAMLYN_UAPI_VERSION 0x00020000

/* Describes the card. Argument: hamlyn_query. */
#define HAMLYN_IOC_QUERY _IOWR('H', 1, struct hamlyn_query)

/* Creates a send terminus. Argument: hamlyn_terminus_create. */
#define HAMLYN_IOC_TERMINUS_CREATE _IOWR('H', 2, struct hamlyn_terminus_create)

/* Destroys a send terminus. Argument: hamlyn_object. Its mappings stay, and read and write nothing that matters. */
#define HAMLYN_IOC_TERMINUS_DESTROY _IOWR('H', 3, struct hamlyn_object)

/* Names a piece of the caller's memory as a send buffer. Argument: hamlyn_send_buffer. */
#define HAMLYN_IOC_SEND_BUFFER_SET _IOWR('H', 4, struct hamlyn_send_buffer)

/* Takes a send buffer back. Argument: hamlyn_send_buffer (terminus and tag are read, the rest is zero). */
#define HAMLYN_IOC_SEND_BUFFER_CLEAR _IOWR('H', 5, struct hamlyn_send_buffer)

/* Creates a notification queue. Argument: hamlyn_queue_create. */
#define HAMLYN_IOC_QUEUE_CREATE _IOWR('H', 6, struct hamlyn_queue_create)

/* Destroys a notification queue (EBUSY while a slot names it). Argument: hamlyn_object. */
#define HAMLYN_IOC_QUEUE_DESTROY _IOWR('H', 7, struct hamlyn_object)

/*
 * Sleeps until a notification is there. Argument: hamlyn_queue_wait. ETIMEDOUT; EINTR if a signal's handler has
 * run, and of a wait with a time-out also if the process was stopped or the machine suspended.
 */
#define HAMLYN_IOC_QUEUE_WAIT _IOWR('H', 8, struct hamlyn_queue_wait)

/*
 * Makes poll(2) of the file report readable once a notification is there, at one position of each queue: whoever arms
 * it again, from any thread or process that shares the file, moves it. Argument: hamlyn_queue_wait.
 */
#define HAMLYN_IOC_QUEUE_ARM _IOWR('H', 9, struct hamlyn_queue_wait)

/* Creates a slot over pieces of the caller's memory. Argument: hamlyn_slot_create. */
#define HAMLYN_IOC_SLOT_CREATE _IOWR('H', 10, struct hamlyn_slot_create)

/* Destroys a slot. When the call returns nothing more is deposited in its memory. Argument: hamlyn_object. */
#define HAMLYN_IOC_SLOT_DESTROY _IOWR('H', 11, struct hamlyn_object)

/* Reads the card's counters. Argument: hamlyn_statistics. */
#define HAMLYN_IOC_STATISTICS _IOWR('H', 12, struct hamlyn_statistics)

/* Runs the card's self-tests (EPERM without CAP_SYS_ADMIN). Argument: hamlyn_self_test. */
#define HAMLYN_IOC_SELF_TEST _IOWR('H', 13, struct hamlyn_self_test)

/*
 * Takes a name, under which processes of any host may connect: answers a listener, a file of its own. Argument:
 * hamlyn_listen. EADDRINUSE; EOPNOTSUPP without HAMLYN_CAPABILITY_CONNECTIONS.
 */
#define HAMLYN_IOC_LISTEN _IOWR('H', 14, struct hamlyn_listen)

/*
 * Asks for a connection: answers it, a file of its own, at once. Argument: hamlyn_connect. EHOSTUNREACH for a host
 * id that cannot be reached; EOPNOTSUPP without HAMLYN_CAPABILITY_CONNECTIONS.
 */
#define HAMLYN_IOC_CONNECT _IOWR('H', 15, struct hamlyn_connect)

/*
 * On a listener: answers the next connection that is asked for, a file of its own. Argument: hamlyn_object, zero.
 * EAGAIN if there is none.
 */
#define HAMLYN_IOC_NEXT_REQUEST _IOWR('H', 16, struct hamlyn_object)

/* On a connection: how it stands. Argument: hamlyn_connection_state. */
#define HAMLYN_IOC_CONNECTION_QUERY _IOWR('H', 17, struct hamlyn_connection_state)

/* On a connection that was asked for: accepts it. Argument: hamlyn_private. ENOTCONN: it has ended. */
#define HAMLYN_IOC_ACCEPT _IOWR('H', 18, struct hamlyn_private)

/* On a connection that was asked for: rejects it. Argument: hamlyn_private. ENOTCONN: it has ended. */
#define HAMLYN_IOC_REJECT _IOWR('H', 19, struct hamlyn_private)

/* On a connection: ends it gracefully (section 6.4). Argument: hamlyn_private. ENOTCONN: it has ended. */
#define HAMLYN_IOC_CLOSE _IOWR('H', 20, struct hamlyn_private)

/* How much of the card the user who opened the file holds, and may hold. Argument: hamlyn_share_query. */
#define HAMLYN_IOC_SHARE _IOWR('H', 21, struct hamlyn_share_query)

/*
 * Sleeps until the card has finished with requests of a terminus (section 2.3's sequence number). Argument:
 * hamlyn_terminus_wait. ETIMEDOUT, EINTR as for HAMLYN_IOC_QUEUE_WAIT.
 */
#define HAMLYN_IOC_TERMINUS_WAIT _IOWR('H', 22, struct hamlyn_terminus_wait)

/*
 * Makes poll(2) of the file report readable once the card has finished with requests of a terminus; one sequence number
 * of each terminus: whoever arms it again moves it. Argument: hamlyn_terminus_wait.
 */
#define HAMLYN_IOC_TERMINUS_ARM _IOWR('H', 23, struct hamlyn_terminus_wait)

/*
 * Asks whether anybody listens under a name: answers the question at once, a file of its own, which stands and is polled as a
 * connection's does, and ends with the answer: HAMLYN_END_LISTENING, HAMLYN_END_NOBODY, or why there is none
 * (HAMLYN_END_NO_NAME: that host's driver is too old to know questions). Argument: hamlyn_connect without private
 * data. Errors as for HAMLYN_IOC_CONNECT; ENOTTY without HAMLYN_CAPABILITY_QUESTIONS.
 */
#define HAMLYN_IOC_ASK _IOWR('H', 24, struct hamlyn_connect)

/* hamlyn_query.capabilities: listen and connect. */
#define HAMLYN_CAPABILITY_CONNECTIONS 1ULL

/* hamlyn_query.capabilities: shares of users. */
#define HAMLYN_CAPABILITY_SHARES 2ULL

/* hamlyn_query.capabilities: to sleep until requests are finished. */
#define HAMLYN_CAPABILITY_COMPLETIONS 4ULL

/* hamlyn_query.capabilities: to ask whether a name is listened to. */
#define HAMLYN_CAPABILITY_QUESTIONS 8ULL

/* Index into hamlyn_share_query: send termini. */
#define HAMLYN_SHARE_TERMINI 0

/* Index into hamlyn_share_query: slots. */
#define HAMLYN_SHARE_SLOTS 1

/* Index into hamlyn_share_query: notification queues. */
#define HAMLYN_SHARE_QUEUES 2

/* Index into hamlyn_share_query: connections that have not ended, and listeners. */
#define HAMLYN_SHARE_CONNECTIONS 3

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

/* Why a connection ended: the peer's host, or its card, has started anew or stood still, and lost it. */
#define HAMLYN_END_HOST_RESET 4

/* Why a connection ended: this host's link went down. */
#define HAMLYN_END_LINK_LOST 5

/* Why a connection ended: this host stood still, and its card discarded what arrived (section 2.8). */
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

/* hamlyn_queue_wait.timeout_ns: no time-out. */
#define HAMLYN_WAIT_FOREVER (-1)

/* What the card is and how much of everything it has. */
struct hamlyn_query {
	/* Out: HAMLYN_UAPI_VERSION of the driver. */
	__u32 uapi_version;
	/* Out: HAMLYN_ABI_VERSION of the card. */
	__u32 abi_version;
	/* Out: which card (HAMLYN_MODEL_*). */
	__u32 model;
	/* Out: the card's host id, or HAMLYN_NO_HOST while its link is down. */
	__u32 host;
	/* Out: additions to version 2 that the driver and card have: HAMLYN_CAPABILITY_* bits. */
	__u64 capabilities;
	/* Out: the most user data in a packet, in bytes. */
	__u32 packet_size;
	/* Out: the card's SRAM, in bytes. */
	__u32 sram_size;
	/* Out: send termini of the card that processes may have. */
	__u32 termini;
	/* Out: slots of the card that processes may have. */
	__u32 slots;
	/* Out: notification queues of the card that processes may have. */
	__u32 queues;
	/* Out: interrupt vectors in use. */
	__u32 vectors;
	/* Out: ports of the switch, which host ids are below. 0: not known, or the link is down. */
	__u32 ports;
	/* Zero. */
	__u32 reserved0;
	/* Zero. */
	__u64 reserved[9];
};

/* Names an object of the file: terminus, queue or slot. */
struct hamlyn_object {
	/* In: its number. */
	__u32 index;
	/* Zero. */
	__u32 reserved0;
	/* Zero. */
	__u64 reserved1;
};

/* A new send terminus and where to map its parts with mmap(2) of the same file. */
struct hamlyn_terminus_create {
	/* Out: its number. */
	__u32 terminus;
	/*
	 * In: its share of the link beside other busy termini, 1 to HAMLYN_MAX_WEIGHT, or 0 for 1. EPERM for more than 1
	 * without CAP_SYS_NICE.
	 */
	__u32 weight;
	/* Out: offset of the window, HAMLYN_WINDOW_SIZE bytes, to be mapped readable and writable, shared. */
	__u64 window_offset;
	/* Out: offset of the doorbell page, HAMLYN_DOORBELL_SIZE bytes, to be mapped writable, shared. */
	__u64 doorbell_offset;
	/* Out: offset of the page that starts with the status words, 4,096 bytes, to be mapped read-only. */
	__u64 status_offset;
	/* Zero. */
	__u64 reserved[4];
};

/* A send buffer of a terminus. */
struct hamlyn_send_buffer {
	/* In: the terminus. */
	__u32 terminus;
	/* In: the tag, 0 to 7. EBUSY if it is set already. */
	__u32 tag;
	/* In: start of the memory, in the caller's address space. */
	__u64 address;
	/* In: bytes, 1 to 1 GiB. The pages are pinned, and counted against RLIMIT_MEMLOCK. */
	__u64 length;
	/* Zero. */
	__u64 reserved;
};

/* A new notification queue, made of the driver's own memory (counted against RLIMIT_MEMLOCK). */
struct hamlyn_queue_create {
	/* In: entries, 2 to 65,536. */
	__u32 entries;
	/* Out: its number. */
	__u32 queue;
	/* Out: offset to map it at, read-only. */
	__u64 offset;
	/* Out: bytes to map. */
	__u64 size;
	/* Zero. */
	__u64 reserved;
};

/* Which notification to wait for: the one at the caller's cursor. */
struct hamlyn_queue_wait {
	/* In: the queue. */
	__u32 queue;
	/* In: the caller's cursor: an entry's index. */
	__u32 cursor;
	/*
	 * In: the caller's pass over the queue, from 0, modulo 2^30. The wait is over when that pass' entry is there, or was
	 * overwritten by a later pass'.
	 */
	__u32 pass;
	/* Out, for arm: 1 if the wait is over already, 0 if the queue was armed. */
	__u32 ready;
	/* In, for wait: nanoseconds, 0 to look only, or HAMLYN_WAIT_FOREVER. For arm: zero. */
	__s64 timeout_ns;
	/* Zero. */
	__u64 reserved;
};

/* Which requests of a terminus to wait for: those before a sequence number. */
struct hamlyn_terminus_wait {
	/* In: the terminus. */
	__u32 terminus;
	/* In: the wait is over once the status words' completed has reached this, modulo 2^32. */
	__u32 completed;
	/* Out, for arm: 1 if the wait is over already, 0 if the terminus was armed. */
	__u32 ready;
	/* Zero. */
	__u32 reserved0;
	/* In, for wait: nanoseconds, 0 to look only, or HAMLYN_WAIT_FOREVER. For arm: zero. */
	__s64 timeout_ns;
	/* Zero. */
	__u64 reserved1;
};

/* A new slot. */
struct hamlyn_slot_create {
	/* In: start of the message area in the caller's address space; any alignment. */
	__u64 area_address;
	/* In: its bytes, 1 to 1 GiB less the offset in its first page. */
	__u64 area_length;
	/* In: start of the metadata area, a multiple of 128; zero if there is none. */
	__u64 metadata_address;
	/* In: entries of the metadata area, of 128 bytes each; zero if there is none. */
	__u32 metadata_entries;
	/* In: HAMLYN_MODE_*. */
	__u32 mode;
	/* In: a queue of this file, or HAMLYN_NO_QUEUE. */
	__u32 queue;
	/* In: the caller's number for the slot, for its notifications. */
	__u32 notification_index;
	/* In: HAMLYN_SLOT_* bits. */
	__u32 flags;
	/* Out: the slot's number on this host. */
	__u32 slot;
	/* Out: its protection key, from the kernel's random source. */
	__u64 key;
	/* Zero. */
	__u64 reserved[5];
};

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
	/* Out: DMA: 1 the card refused, 2 the bytes are wrong (is guest memory shared with the card?). */
	__u32 dma;
	/* Out: interrupts: the first vector, plus 1, that did not arrive. */
	__u32 interrupt;
	/* Zero. */
	__u32 reserved;
};

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
	/* Zero. */
	__u64 reserved;
	/* Out: what the peer passed last: with its request, its answer, or its close; zero behind it. */
	__u8 data[256];
};

/* What the user who opened the file holds of the card, through all his files. */
struct hamlyn_share_query {
	/* Out: how many he holds, by HAMLYN_SHARE_*. */
	__u32 held[4];
	/*
	 * Out: how many he may hold as things stand: a share of what the others leave. It falls while others take more, and
	 * what he holds already stays his.
	 */
	__u32 limit[4];
	/*
	 * Out: whose share it is: the user id of who opened the file, or of who made the user namespace in which he did, as
	 * the caller sees it.
	 */
	__u32 user;
	/* Zero. */
	__u32 reserved0;
	/* Zero. */
	__u64 reserved1[3];
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

#endif /* _HAMLYN_UAPI_H */

/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What the Dart card's driver and its users agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-headers: do not edit.
 */
#ifndef _DART_UAPI_H
#define _DART_UAPI_H

#include "uln_uapi.h"
#include "dart_card.h"

/*
 * Contract between driver and library for DART cards: calls on an open /dev/dartN, besides those
 * of all cards.
 *
 * Errors besides those of all calls: ENOSPC (the card has no more of that object), EBUSY
 * (another open object uses the object).
 */

/*
 * Opens an endpoint (section 3): a region of the caller's virtual memory. None of its pages need
 * be present. Argument: dart_endpoint.
 */
#define DART_IOC_ENDPOINT_OPEN _IOWR('H', ULN_CARD_CALL(DART_MODEL, 0), struct dart_endpoint)

/* Closes an endpoint. Argument: uln_object. Fails with EBUSY if a connection names it. */
#define DART_IOC_ENDPOINT_CLOSE _IOWR('H', ULN_CARD_CALL(DART_MODEL, 1), struct uln_object)

/*
 * Opens a bank of address registers and program entries. Connections have windows into it.
 * Argument: dart_bank.
 */
#define DART_IOC_BANK_OPEN _IOWR('H', ULN_CARD_CALL(DART_MODEL, 2), struct dart_bank)

/*
 * Closes a bank. Argument: uln_object. Fails with EBUSY if a connection has a window into
 * it.
 */
#define DART_IOC_BANK_CLOSE _IOWR('H', ULN_CARD_CALL(DART_MODEL, 3), struct uln_object)

/* Opens a queue (sections 1 and 2). Argument: dart_queue. */
#define DART_IOC_QUEUE_OPEN _IOWR('H', ULN_CARD_CALL(DART_MODEL, 4), struct dart_queue)

/* Closes a queue. Argument: uln_object. Connections that name it have no queue from then on. */
#define DART_IOC_QUEUE_CLOSE _IOWR('H', ULN_CARD_CALL(DART_MODEL, 5), struct uln_object)

/*
 * Opens a connection (section 3): one end of a path to another host, or to the same host.
 * Argument: dart_connection.
 */
#define DART_IOC_CONNECTION_OPEN _IOWR('H', ULN_CARD_CALL(DART_MODEL, 6), struct dart_connection)

/*
 * Closes a connection. Argument: uln_object. When it returns, none of its messages accesses
 * memory. Its other end is notified.
 */
#define DART_IOC_CONNECTION_CLOSE _IOWR('H', ULN_CARD_CALL(DART_MODEL, 7), struct uln_object)

/*
 * Sets the connection at the other end, on the other host, once. Argument: dart_peer. Before
 * that, messages are accepted, and none is sent.
 */
#define DART_IOC_CONNECT _IOWR('H', ULN_CARD_CALL(DART_MODEL, 8), struct dart_peer)

/* Sets entries of a bank's programs. Argument: dart_set_program. */
#define DART_IOC_SET_PROGRAM _IOWR('H', ULN_CARD_CALL(DART_MODEL, 9), struct dart_set_program)

/*
 * Sleeps until a queue has more records than were taken. Argument: dart_queue_wait. Fails with
 * ETIMEDOUT, or with EINTR if a signal handler has run. The file is readable while one of its
 * queues is not empty, so poll(2) and similar calls can wait for it, too.
 */
#define DART_IOC_QUEUE_WAIT _IOWR('H', ULN_CARD_CALL(DART_MODEL, 10), struct dart_queue_wait)

/*
 * Sleeps until more messages of a connection have left than given, or it is broken. Argument:
 * dart_left_wait. Fails with ETIMEDOUT or EINTR.
 */
#define DART_IOC_LEFT_WAIT _IOWR('H', ULN_CARD_CALL(DART_MODEL, 11), struct dart_left_wait)

/*
 * Sleeps until a connection has had more exceptions that no queue took than given, or it is
 * broken. Argument: dart_exception_wait. Fails with ETIMEDOUT or EINTR.
 */
#define DART_IOC_EXCEPTION_WAIT \
	_IOWR('H', ULN_CARD_CALL(DART_MODEL, 12), struct dart_exception_wait)

/*
 * Index into uln_share_query: connections. An endpoint counts as the number of connections that
 * the card has for each endpoint.
 */
#define DART_SHARE_CONNECTIONS 0

/*
 * Index into uln_share_query: address registers. A bank counts as its registers. If it has
 * relatively more program entries, it counts as its entries, scaled by the card's ratio of
 * registers to entries.
 */
#define DART_SHARE_REGISTERS 1

/* Index into uln_share_query: queues. */
#define DART_SHARE_QUEUES 2

/* Maximum number of address registers in a bank. */
#define DART_MAX_BANK 1024

/* Maximum number of program entries in a bank. */
#define DART_MAX_ENTRIES 256

/* Maximum number of entries that one call sets. */
#define DART_SET_ENTRIES 16

/* What a DART card reports about itself: the card's part of uln_query. */
struct dart_query {
	/* Out: connections for processes. */
	__u32 connections;
	/* Out: endpoints for processes. */
	__u32 endpoints;
	/* Out: address registers. */
	__u32 registers;
	/* Out: entries of all programs. */
	__u32 program;
	/* Out: queues. */
	__u32 queues;
	/* Out: translations in the card's TLB. */
	__u32 tlb;
	/* Out: cells that a connection may have in flight. */
	__u32 window;
	/* Zero. */
	__u32 reserved;
};

/* An endpoint. */
struct dart_endpoint {
	/* In: its first byte in the caller's memory, a multiple of 4. */
	__u64 address;
	/*
	 * In: bytes, at least 1. The endpoint is a region of addresses: a message applies to the
	 * memory that is mapped there when it arrives.
	 */
	__u64 length;
	/* Out: its number. */
	__u32 endpoint;
	/* Zero. */
	__u32 reserved;
};

/* A bank. */
struct dart_bank {
	/* In: number of address registers, 1 to DART_MAX_BANK. Their initial value is zero. */
	__u32 registers;
	/* In: number of program entries, 0 to DART_MAX_ENTRIES. Initially they do nothing. */
	__u32 entries;
	/* Out: its number. */
	__u32 bank;
	/* Zero. */
	__u32 reserved;
};

/* A queue. */
struct dart_queue {
	/* In: number of records: a power of two from DART_MIN_RECORDS to DART_MAX_RECORDS. */
	__u32 records;
	/* In: DART_QUEUE_IMMEDIATE or 0. */
	__u32 flags;
	/* Out: its number. */
	__u32 queue;
	/* Zero. */
	__u32 reserved;
	/*
	 * Out: offset for mmap(2) of the same file, readable and writable, shared, to map its
	 * memory: DART_QUEUE_HEAD bytes and those of the records.
	 */
	__u64 memory_offset;
};

/* A connection. */
struct dart_connection {
	/* Out: its key. The holder of the key and the number can be the other end. */
	__u64 key;
	/* In: an endpoint of the caller's. */
	__u32 endpoint;
	/* In: the host of the other end. */
	__u32 host;
	/* In: a bank of the caller's. */
	__u32 bank;
	/* In: the bank's first register in the window. */
	__u32 first_register;
	/* In: number of registers in the window, 0 to DART_MAX_REGISTERS. */
	__u32 registers;
	/* In: the bank's first entry in the program. */
	__u32 first_entry;
	/* In: number of entries in the program. */
	__u32 entries;
	/*
	 * In: a queue of the caller's for the events of its messages, or DART_NO_QUEUE to report no
	 * events.
	 */
	__u32 events;
	/*
	 * In: a queue of the caller's for its exceptions. With DART_NO_QUEUE, the card counts them
	 * in the state, and interrupts.
	 */
	__u32 exceptions;
	/* In: DART_CONNECTION_WRITE, DART_CONNECTION_READ, both or none. */
	__u32 flags;
	/* Out: its number. */
	__u32 connection;
	/* Zero. */
	__u32 reserved;
	/*
	 * Out: offset for mmap(2) of the same file, writable, shared, to map its page of the card.
	 */
	__u64 page_offset;
	/* Out: offset to map the page that begins with its state in the same way, read-only. */
	__u64 state_offset;
};

/* A connection's other end. */
struct dart_peer {
	/* In: the other end's key. */
	__u64 key;
	/* In: the connection. */
	__u32 connection;
	/* In: the other end's number. */
	__u32 peer;
};

/* Entries of a bank's programs. */
struct dart_set_program {
	/* In: the bank. */
	__u32 bank;
	/* In: the first of its entries. */
	__u32 first;
	/* In: number of entries, 1 to DART_SET_ENTRIES. */
	__u32 count;
	/* Zero. */
	__u32 reserved;
	/* In: the new entries, as the card has them: little-endian. */
	struct dart_entry entries[16];
};

/* Argument of DART_IOC_QUEUE_WAIT. */
struct dart_queue_wait {
	/* In: time-out in nanoseconds, 0 to return at once, or -1 for no time-out. */
	__s64 timeout_ns;
	/* In: the queue. */
	__u32 queue;
	/* In: number of records that were taken, modulo 2^32. */
	__u32 taken;
};

/* Argument of DART_IOC_LEFT_WAIT. */
struct dart_left_wait {
	/* In: time-out in nanoseconds, 0 to return at once, or -1 for no time-out. */
	__s64 timeout_ns;
	/* In: the connection. */
	__u32 connection;
	/* In: number of messages known to have left, modulo 2^32. */
	__u32 left;
};

/* Argument of DART_IOC_EXCEPTION_WAIT. */
struct dart_exception_wait {
	/* In: time-out in nanoseconds, 0 to return at once, or -1 for no time-out. */
	__s64 timeout_ns;
	/* In: the connection. */
	__u32 connection;
	/* In: known number of exceptions, modulo 2^32. */
	__u32 exceptions;
};

#endif /* _DART_UAPI_H */

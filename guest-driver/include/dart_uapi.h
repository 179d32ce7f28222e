/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What the Dart card's driver and its users agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-tests --bin headers: do not edit.
 */
#ifndef _DART_UAPI_H
#define _DART_UAPI_H

#include "hamlyn_family_uapi.h"
#include "dart_card.h"

/*
 * What driver and library agree on about DART cards: calls on an open /dev/dartN, beside those that
 * any card has.
 *
 * Errors beside those of all calls: ENOSPC (the card has no more of that), EBUSY (an object is used
 * by another that is open).
 */

/*
 * Opens an endpoint (section 3): a region of the caller's virtual memory, of which nothing need be
 * there. Argument: dart_endpoint.
 */
#define DART_IOC_ENDPOINT_OPEN _IOWR('H', HAMLYN_CARD_CALL(DART_MODEL, 0), struct dart_endpoint)

/* Closes an endpoint. Argument: hamlyn_object. EBUSY if a connection names it. */
#define DART_IOC_ENDPOINT_CLOSE _IOWR('H', HAMLYN_CARD_CALL(DART_MODEL, 1), struct hamlyn_object)

/*
 * Opens a bank: address registers and entries of programs, of which connections have windows.
 * Argument: dart_bank.
 */
#define DART_IOC_BANK_OPEN _IOWR('H', HAMLYN_CARD_CALL(DART_MODEL, 2), struct dart_bank)

/* Closes a bank. Argument: hamlyn_object. EBUSY if a connection has a window of it. */
#define DART_IOC_BANK_CLOSE _IOWR('H', HAMLYN_CARD_CALL(DART_MODEL, 3), struct hamlyn_object)

/* Opens a queue (sections 1 and 2). Argument: dart_queue. */
#define DART_IOC_QUEUE_OPEN _IOWR('H', HAMLYN_CARD_CALL(DART_MODEL, 4), struct dart_queue)

/* Closes a queue. Argument: hamlyn_object. Connections that name it have none from then on. */
#define DART_IOC_QUEUE_CLOSE _IOWR('H', HAMLYN_CARD_CALL(DART_MODEL, 5), struct hamlyn_object)

/*
 * Opens a connection (section 3): one end of a path to another host, or to the same. Argument:
 * dart_connection.
 */
#define DART_IOC_CONNECTION_OPEN _IOWR('H', HAMLYN_CARD_CALL(DART_MODEL, 6), struct dart_connection)

/*
 * Closes a connection. Argument: hamlyn_object. When it returns nothing of it reaches memory any
 * more. Its other end is told.
 */
#define DART_IOC_CONNECTION_CLOSE _IOWR('H', HAMLYN_CARD_CALL(DART_MODEL, 7), struct hamlyn_object)

/*
 * Says which connection of the other host is at the other end, once. Argument: dart_peer. Messages
 * are taken before, and none leaves.
 */
#define DART_IOC_CONNECT _IOWR('H', HAMLYN_CARD_CALL(DART_MODEL, 8), struct dart_peer)

/* Sets entries of a bank's programs. Argument: dart_set_program. */
#define DART_IOC_SET_PROGRAM _IOWR('H', HAMLYN_CARD_CALL(DART_MODEL, 9), struct dart_set_program)

/*
 * Sleeps until a queue has more records than were taken. Argument: dart_queue_wait. ETIMEDOUT;
 * EINTR if a signal's handler has run. The file is readable when one of its queues is not empty, so
 * that poll(2) and the like wait for it, too.
 */
#define DART_IOC_QUEUE_WAIT _IOWR('H', HAMLYN_CARD_CALL(DART_MODEL, 10), struct dart_queue_wait)

/*
 * Sleeps until more messages of a connection have left than had, or it is broken. Argument:
 * dart_left_wait. ETIMEDOUT; EINTR.
 */
#define DART_IOC_LEFT_WAIT _IOWR('H', HAMLYN_CARD_CALL(DART_MODEL, 11), struct dart_left_wait)

/*
 * Sleeps until a connection has had more exceptions that no queue took, or it is broken. Argument:
 * dart_exception_wait. ETIMEDOUT; EINTR.
 */
#define DART_IOC_EXCEPTION_WAIT \
	_IOWR('H', HAMLYN_CARD_CALL(DART_MODEL, 12), struct dart_exception_wait)

/*
 * Index into hamlyn_share_query: connections. An endpoint counts as as many as there are for each
 * of all endpoints.
 */
#define DART_SHARE_CONNECTIONS 0

/*
 * Index into hamlyn_share_query: address registers. Of a bank with more entries than there are for
 * each of all registers, so many.
 */
#define DART_SHARE_REGISTERS 1

/* Index into hamlyn_share_query: queues. */
#define DART_SHARE_QUEUES 2

/* The most address registers of a bank. */
#define DART_MAX_BANK 1024

/* The most entries of a bank's programs. */
#define DART_MAX_ENTRIES 256

/* The most entries that a call sets. */
#define DART_SET_ENTRIES 16

/* What a DART card says of itself: the card's part of hamlyn_query. */
struct dart_query {
	/* Out: connections of processes. */
	__u32 connections;
	/* Out: endpoints of processes. */
	__u32 endpoints;
	/* Out: address registers. */
	__u32 registers;
	/* Out: entries of all programs. */
	__u32 program;
	/* Out: queues. */
	__u32 queues;
	/* Out: translations that the card keeps. */
	__u32 tlb;
	/* Out: cells that a connection may have on their way. */
	__u32 window;
	/* Zero. */
	__u32 reserved;
};

/* An endpoint. */
struct dart_endpoint {
	/* In: where it begins in the caller's memory, a multiple of 4. */
	__u64 address;
	/*
	 * In: its bytes, at least 1. It is a region of addresses: what is there when a message
	 * comes is what the message is about.
	 */
	__u64 length;
	/* Out: its number. */
	__u32 endpoint;
	/* Zero. */
	__u32 reserved;
};

/* A bank. */
struct dart_bank {
	/* In: how many address registers, 1 to DART_MAX_BANK. They are zero. */
	__u32 registers;
	/* In: how many entries of programs, 0 to DART_MAX_ENTRIES. They do nothing. */
	__u32 entries;
	/* Out: its number. */
	__u32 bank;
	/* Zero. */
	__u32 reserved;
};

/* A queue. */
struct dart_queue {
	/* In: records, DART_MIN_RECORDS to DART_MAX_RECORDS, a power of two. */
	__u32 records;
	/* In: DART_QUEUE_IMMEDIATE or 0. */
	__u32 flags;
	/* Out: its number. */
	__u32 queue;
	/* Zero. */
	__u32 reserved;
	/*
	 * Out: where to map its memory with mmap(2) of the same file, readable and writable,
	 * shared: DART_QUEUE_HEAD bytes and those of the records.
	 */
	__u64 memory_offset;
};

/* A connection. */
struct dart_connection {
	/* Out: its key: who has it, and the number, can be the other end. */
	__u64 key;
	/* In: an endpoint of the caller's. */
	__u32 endpoint;
	/* In: the other end's host. */
	__u32 host;
	/* In: a bank of the caller's. */
	__u32 bank;
	/* In: the first of the bank's registers that is in the window. */
	__u32 first_register;
	/* In: how many are, 0 to DART_MAX_REGISTERS. */
	__u32 registers;
	/* In: the first of the bank's entries that is in the program. */
	__u32 first_entry;
	/* In: how many are. */
	__u32 entries;
	/*
	 * In: a queue of the caller's for what its messages tell of, or DART_NO_QUEUE: then nobody
	 * is told.
	 */
	__u32 events;
	/*
	 * In: a queue of the caller's for its exceptions, or DART_NO_QUEUE: then the card counts
	 * them in the state, and interrupts.
	 */
	__u32 exceptions;
	/* In: DART_CONNECTION_WRITE, DART_CONNECTION_READ, both or none. */
	__u32 flags;
	/* Out: its number. */
	__u32 connection;
	/* Zero. */
	__u32 reserved;
	/*
	 * Out: where to map its page of the card with mmap(2) of the same file, writable, shared.
	 */
	__u64 page_offset;
	/* Out: where to map the page that begins with its state in the same way, read-only. */
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
	/* In: how many, 1 to DART_SET_ENTRIES. */
	__u32 count;
	/* Zero. */
	__u32 reserved;
	/* In: what they become. */
	struct dart_entry entries[16];
};

/* What to wait for in a queue. */
struct dart_queue_wait {
	/* In: nanoseconds, 0 to look only, or -1 for ever. */
	__s64 timeout_ns;
	/* In: the queue. */
	__u32 queue;
	/* In: how many records were taken, modulo 2^32. */
	__u32 taken;
};

/* Which messages to wait for. */
struct dart_left_wait {
	/* In: nanoseconds, 0 to look only, or -1 for ever. */
	__s64 timeout_ns;
	/* In: the connection. */
	__u32 connection;
	/* In: how many had left, modulo 2^32. */
	__u32 left;
};

/* Which exceptions to wait for. */
struct dart_exception_wait {
	/* In: nanoseconds, 0 to look only, or -1 for ever. */
	__s64 timeout_ns;
	/* In: the connection. */
	__u32 connection;
	/* In: how many it had had, modulo 2^32. */
	__u32 exceptions;
};

#endif /* _DART_UAPI_H */

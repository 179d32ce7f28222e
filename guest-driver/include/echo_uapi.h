/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What the Echo card's driver and its users agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-headers: do not edit.
 */
#ifndef _ECHO_UAPI_H
#define _ECHO_UAPI_H

#include "uln_uapi.h"
#include "echo_card.h"

/*
 * Contract between driver and library for echo cards: calls on an open /dev/echoN, besides those
 * of all cards.
 *
 * Errors besides those of all calls: ENOSPC (all mailboxes are open).
 */

/* Opens a mailbox. Argument: echo_mailbox. */
#define ECHO_IOC_MAILBOX_OPEN _IOWR('H', ULN_CARD_CALL(ECHO_MODEL, 0), struct echo_mailbox)

/* Closes a mailbox. Argument: uln_object. */
#define ECHO_IOC_MAILBOX_CLOSE _IOWR('H', ULN_CARD_CALL(ECHO_MODEL, 1), struct uln_object)

/*
 * Sleeps until a message has arrived. Argument: echo_wait. Fails with ETIMEDOUT, or with
 * EINTR if a signal handler has run.
 */
#define ECHO_IOC_MAILBOX_WAIT _IOWR('H', ULN_CARD_CALL(ECHO_MODEL, 2), struct echo_wait)

/* Index into uln_share_query: mailboxes. */
#define ECHO_SHARE_MAILBOXES 0

/* What an echo card reports about itself: the card's part of uln_query. */
struct echo_query {
	/* Out: mailboxes that processes can have. */
	__u32 mailboxes;
	/* Zero. */
	__u32 reserved;
};

/* A new mailbox, and where to map its parts with mmap(2) of the same file. */
struct echo_mailbox {
	/*
	 * In: number of records of the inbox: a power of two from 4 to 1,024. Its memory counts
	 * against RLIMIT_MEMLOCK.
	 */
	__u32 records;
	/* Out: the mailbox's number. */
	__u32 mailbox;
	/* Out: offset of the outbox, 4,096 bytes, to be mapped readable and writable, shared. */
	__u64 outbox_offset;
	/* Out: offset of the doorbell, 4,096 bytes, to be mapped writable, shared. */
	__u64 doorbell_offset;
	/*
	 * Out: offset of the inbox, a record's size times records, to be mapped read-only, shared.
	 */
	__u64 inbox_offset;
	/* Zero. */
	__u64 reserved[2];
};

/* Argument of ECHO_IOC_MAILBOX_WAIT. */
struct echo_wait {
	/* In: the mailbox. */
	__u32 mailbox;
	/* In: number of messages that the caller has taken; it waits for the next. */
	__u32 taken;
	/* In: time-out in nanoseconds, 0 to return at once, or -1 for no time-out. */
	__s64 timeout_ns;
};

#endif /* _ECHO_UAPI_H */

/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What a guest and a Echo card agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-headers: do not edit.
 */
#ifndef _ECHO_CARD_H
#define _ECHO_CARD_H

#include <linux/types.h>
#include "uln.h"

/* The echo card's commands, besides those that all cards have (command). */

/* Opens mailbox index. Body: echo_open_mailbox. The driver must zero its outbox first. */
#define ECHO_COMMAND_OPEN_MAILBOX 1

/* Closes a mailbox. If a message in it still waits for the link, it is not sent. */
#define ECHO_COMMAND_CLOSE_MAILBOX 2

/* Minimum number of records in an inbox. */
#define ECHO_INBOX_MIN_RECORDS 4

/* Maximum number of records in an inbox. */
#define ECHO_INBOX_MAX_RECORDS 1024

/* Body of ECHO_COMMAND_OPEN_MAILBOX. */
struct echo_open_mailbox {
	/*
	 * The inbox: records of echo_record, all zero. No record crosses a
	 * page boundary.
	 */
	struct uln_area inbox;
	/*
	 * Number of records: a power of two from ECHO_INBOX_MIN_RECORDS to
	 * ECHO_INBOX_MAX_RECORDS.
	 */
	__le32 records;
	/* Zero. */
	__le32 reserved;
};

/* Identity of the echo card. */

/* PCI device id of the echo card. */
#define ECHO_PCI_DEVICE 0x4543

/*
 * Value of ULN_REG_MODEL for the echo card. It is the last number, because the first ones are
 * for published cards.
 */
#define ECHO_MODEL 13

/* Value of ULN_REG_ABI_VERSION for the echo card. */
#define ECHO_ABI_VERSION 0x00020000

/* Inboxes: rings of records in the receiver's memory. */

/* Bytes of a record. */
#define ECHO_RECORD_SIZE 1024

/*
 * An arrived message. Message n since the mailbox was opened, counted from 0, is in record n
 * modulo the inbox's size.
 *
 * The card writes number last: the record is valid when it is n + 1, modulo 2^32. The card
 * drops and counts a message if the inbox is full according to ECHO_OUTBOX_TAKEN.
 */
struct echo_record {
	/* The message's number, from 1, modulo 2^32. */
	__le32 number;
	/* The host that sent it, as reported by the switch. */
	__le32 source;
	/* The sender's mailbox, as reported by that host's card. An answer may be sent to it. */
	__le32 mailbox;
	/* Bytes of data that belong to the message. */
	__le32 length;
	/* The message; the bytes behind it are undefined. */
	__u8 data[1008];
};

/* BAR 0: the echo card's own registers, among those of the family (family). */

/* RO. Number of mailboxes, 2 to ECHO_MAX_MAILBOXES. */
#define ECHO_REG_MAILBOXES 0x024

/* Maximum number of mailboxes of a card: the control page has this many words. */
#define ECHO_MAX_MAILBOXES 32

/*
 * The operating system's mailbox. It exchanges messages with those of other hosts only. So a
 * driver must not give it to a process.
 */
#define ECHO_SYSTEM_MAILBOX 0

/* MSI-X vector by which mailboxes wake their owners. The only other vector is the link's. */
#define ECHO_VECTOR 1

/*
 * The echo card's counters. They are 64 bits wide, count from the card's start or reset, and are
 * in the order of echo_statistic.
 */

/* Number of counters. */
#define ECHO_STATISTICS 14

/*
 * BAR 2 has an outbox of one page for each mailbox, then the control page. BAR 4 has the
 * doorbells.
 *
 * To send, the owner of a mailbox fills in destination, mailbox, length and the data, and
 * then stores any value to the doorbell. The card reads the outbox once, copies the message out,
 * and stores the result in result and then the count in sent. Until sent has changed, the
 * outbox belongs to the card; the card counts further rings and ignores them.
 */

/* Distance between two mailboxes' outboxes, in bytes. */
#define ECHO_OUTBOX_SIZE 4096

/*
 * Distance between two mailboxes' doorbells in BAR 4, in bytes. A store to the first 8 bytes rings
 * the doorbell.
 */
#define ECHO_DOORBELL_SIZE 4096

/* In an outbox, u32, stored by its owner: the destination host. */
#define ECHO_OUTBOX_DESTINATION 0x000

/* In an outbox, u32, stored by its owner: the mailbox on that host. */
#define ECHO_OUTBOX_MAILBOX 0x004

/* In an outbox, u32, stored by its owner: bytes of the message, 0 to ECHO_MAX_MESSAGE. */
#define ECHO_OUTBOX_LENGTH 0x008

/*
 * In an outbox, u32, stored by its owner: number of messages that it has taken from its inbox,
 * modulo 2^32.
 */
#define ECHO_OUTBOX_TAKEN 0x00c

/* In an outbox, u64, stored by its owner as two words: the key that the message carries. */
#define ECHO_OUTBOX_KEY 0x010

/*
 * In an outbox, u64, stored by its owner as two words: the key that a message to this mailbox must
 * carry; 0: none. The card drops and counts other messages.
 */
#define ECHO_OUTBOX_LOCK 0x018

/* In an outbox, u32, stored by the card: number of rings that it has completed, modulo 2^32. */
#define ECHO_OUTBOX_SENT 0x040

/* In an outbox, u32, stored by the card before sent: result of the last ring, ECHO_RESULT_*. */
#define ECHO_OUTBOX_RESULT 0x044

/* In an outbox: offset of the message's bytes. */
#define ECHO_OUTBOX_DATA 0x080

/* The longest message, in bytes. */
#define ECHO_MAX_MESSAGE 1008

/* Result: the message has been sent. */
#define ECHO_RESULT_SENT 0

/* Result: length is over ECHO_MAX_MESSAGE; nothing was sent. */
#define ECHO_RESULT_BAD_LENGTH 1

/* Result: destination is not a valid host id; nothing was sent. */
#define ECHO_RESULT_BAD_HOST 2

/* Size of the control page, which follows the last outbox, in bytes. */
#define ECHO_CONTROL_SIZE 4096

/*
 * In the control page: a word for each mailbox, ULN_ARMED_*, one every ULN_ARMED_STRIDE
 * bytes.
 */
#define ECHO_CONTROL_ARMED 0x000

/*
 * In the control page: a word for each vector, one every ULN_PENDING_STRIDE bytes. 1: its
 * interrupt is pending.
 */
#define ECHO_CONTROL_PENDING 0x800

#endif /* _ECHO_CARD_H */

/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What a guest and a Echo card agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-tests --bin headers: do not edit.
 */
#ifndef _ECHO_CARD_H
#define _ECHO_CARD_H

#include <linux/types.h>
#include "hamlyn_family.h"

/* The echo card's operations, beside those that all cards have (command). */

/*
 * Open a mailbox: index is its number. Body: echo_open_mailbox. The driver has made its outbox
 * zero.
 */
#define ECHO_COMMAND_OPEN_MAILBOX 1

/* Close a mailbox. A message that still waits in it for the link is not sent. */
#define ECHO_COMMAND_CLOSE_MAILBOX 2

/* The fewest records of an inbox. */
#define ECHO_INBOX_MIN_RECORDS 4

/* The most records of an inbox. */
#define ECHO_INBOX_MAX_RECORDS 1024

/* Body of ECHO_COMMAND_OPEN_MAILBOX. */
struct echo_open_mailbox {
	/* The inbox: records of echo_record, all zero, and none of them in two pages. */
	struct hamlyn_area inbox;
	/* Records, ECHO_INBOX_MIN_RECORDS to ECHO_INBOX_MAX_RECORDS, a power of two. */
	__u32 records;
	/* Zero. */
	__u32 reserved;
};

/* Which of the family's cards the echo card is. */

/* PCI device id of the echo card. */
#define ECHO_PCI_DEVICE 0x4543

/*
 * Value of HAMLYN_REG_MODEL for the echo card: the last there is, as the first are for published
 * cards.
 */
#define ECHO_MODEL 13

/* Value of HAMLYN_REG_ABI_VERSION for the echo card. */
#define ECHO_ABI_VERSION 0x00010001

/* Inboxes: rings of records in the receiver's memory. */

/* Bytes of a record. */
#define ECHO_RECORD_SIZE 1024

/*
 * A message that has arrived. The n-th since the mailbox was opened, from 0, is in record n modulo
 * the inbox's size.
 *
 * The card writes number last: a record is there when that is n + 1, modulo 2^32. A message for
 * which there is no room, by the owner's word in ECHO_OUTBOX_TAKEN, is lost, and counted.
 */
struct echo_record {
	/* The message's number, from 1, modulo 2^32. */
	__u32 number;
	/* The host that it came from, as the switch says. */
	__u32 source;
	/* The mailbox there, as that host's card says: an answer may be sent to it. */
	__u32 mailbox;
	/* Bytes of data that are the message. */
	__u32 length;
	/* The message; what is behind it means nothing. */
	__u8 data[1008];
};

/* BAR 0: the echo card's own registers, among those of the family (family). */

/* RO. How many mailboxes there are, 1 to ECHO_MAX_MAILBOXES. */
#define ECHO_REG_MAILBOXES 0x024

/* The most mailboxes a card may have: one control page has words for so many. */
#define ECHO_MAX_MAILBOXES 32

/* MSI-X vector by which mailboxes wake their owners. There are no others, but for the link's. */
#define ECHO_VECTOR 1

/*
 * The echo card's counters. They are 64 bits wide, count from the card's start or reset, and stand
 * in the order of echo_statistic.
 */

/* How many counters there are. */
#define ECHO_STATISTICS 13

/*
 * BAR 2: an outbox of one page for each mailbox, then the control page; and the doorbells in BAR 4.
 *
 * The owner of a mailbox fills in destination, mailbox, length and the data, and then rings: stores
 * anything to the doorbell. The card looks once, copies the message out, and says so in result and
 * then in sent. Until sent has moved the outbox is the card's: another ring is counted, and does
 * nothing.
 */

/* Distance between two mailboxes' outboxes, in bytes. */
#define ECHO_OUTBOX_SIZE 4096

/*
 * Distance between two mailboxes' doorbells in BAR 4, in bytes. A store to the first 8 bytes rings.
 */
#define ECHO_DOORBELL_SIZE 4096

/* In an outbox, u32, stored by its owner: the host that the message is for. */
#define ECHO_OUTBOX_DESTINATION 0x000

/* In an outbox, u32, stored by its owner: the mailbox there. */
#define ECHO_OUTBOX_MAILBOX 0x004

/* In an outbox, u32, stored by its owner: bytes of the message, 0 to ECHO_MAX_MESSAGE. */
#define ECHO_OUTBOX_LENGTH 0x008

/*
 * In an outbox, u32, stored by its owner: how many messages it has taken out of its inbox, modulo
 * 2^32.
 */
#define ECHO_OUTBOX_TAKEN 0x00c

/* In an outbox, u32, stored by the card: how many rings it is done with, modulo 2^32. */
#define ECHO_OUTBOX_SENT 0x040

/* In an outbox, u32, stored by the card before sent: what came of the last one, ECHO_RESULT_*. */
#define ECHO_OUTBOX_RESULT 0x044

/* In an outbox: where the message's bytes begin. */
#define ECHO_OUTBOX_DATA 0x080

/* The longest message, in bytes. */
#define ECHO_MAX_MESSAGE 1008

/* Result: the message is on its way. */
#define ECHO_RESULT_SENT 0

/* Result: length is over ECHO_MAX_MESSAGE; nothing was sent. */
#define ECHO_RESULT_BAD_LENGTH 1

/* Result: destination is no host id that a switch can have; nothing was sent. */
#define ECHO_RESULT_BAD_HOST 2

/* Size of the control page, which follows the last outbox, in bytes. */
#define ECHO_CONTROL_SIZE 4096

/*
 * In the control page: a word for each mailbox, HAMLYN_ARMED_*, one every HAMLYN_ARMED_STRIDE
 * bytes.
 */
#define ECHO_CONTROL_ARMED 0x000

/*
 * In the control page: a word for each vector, one every HAMLYN_PENDING_STRIDE bytes. 1: its
 * interrupt is on its way.
 */
#define ECHO_CONTROL_PENDING 0x800

#endif /* _ECHO_CARD_H */

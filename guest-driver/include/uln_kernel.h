/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What the drivers of two hosts agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-headers: do not edit.
 */
#ifndef _ULN_KERNEL_H
#define _ULN_KERNEL_H

#include <linux/types.h>

/*
 * Messages between operating systems about express memory, of kind ULN_WIRE_EXPRESS. reason
 * is the message's kind. A structure of this file follows the head, as the message's private data.
 * The protocol is in docs/express.md.
 *
 * The host with the lower id assigns the first half of the pages of a shared part; the other host
 * assigns the second half.
 */

/*
 * Requests a view of the receiver's area to. from is the sender's number for the view.
 * Followed by uln_express_ask.
 */
#define ULN_EXPRESS_SAY_MAP 1

/*
 * Grants the receiver's view to: area from has these pages. Followed by
 * uln_express_pages.
 */
#define ULN_EXPRESS_SAY_PAGES 2

/* Refuses the receiver's view to. Followed by uln_express_refused. */
#define ULN_EXPRESS_SAY_REFUSED 3

/*
 * The sender's area from has gone. The receiver must remove its view to of the area, and
 * confirm that.
 */
#define ULN_EXPRESS_SAY_GONE 4

/*
 * The sender's view from has gone: no process there sees pages of area to. Sent once for each
 * view that may have existed.
 */
#define ULN_EXPRESS_SAY_UNMAP 5

/* Asks a host that was lost whether all its earlier views have gone. */
#define ULN_EXPRESS_SAY_SETTLE 6

/*
 * Confirms that they have gone. The sender had to forget them before it could receive the
 * question.
 */
#define ULN_EXPRESS_SAY_SETTLED 7

/* Refused: the area does not exist, is not for this host, or has another key. */
#define ULN_EXPRESS_REFUSED_ACCESS 1

/* Refused: the area already has a view. */
#define ULN_EXPRESS_REFUSED_BUSY 2

/* Refused: the sender has other memory, or none with this host. */
#define ULN_EXPRESS_REFUSED_MEMORY 3

/* Maximum number of runs of pages in an area, because a message has no space for more. */
#define ULN_EXPRESS_RUNS 30

/* Asks for a view. */
struct uln_express_ask {
	/* The area's key. */
	__le64 key;
	/* The memory that the sender has with the receiver: ULN_EXPRESS_REG_MEMORY. */
	__le64 memory;
};

/* Consecutive pages. */
struct uln_express_run {
	/* The first page, counted from the part's beginning. */
	__le32 first;
	/* Number of pages, at least 1. */
	__le32 count;
};

/* Pages of an area. */
struct uln_express_pages {
	/* Number of runs, 1 to ULN_EXPRESS_RUNS. */
	__le32 runs;
	/* Zero. */
	__le32 reserved;
	/* The runs, in their order in the area; zero behind the last. */
	struct uln_express_run run[30];
};

/* Why a view is refused. */
struct uln_express_refused {
	/* ULN_EXPRESS_REFUSED_*. */
	__le32 why;
	/* Zero. */
	__le32 reserved;
};

/*
 * Well-known slots (section 6.3), through which the operating systems of two hosts communicate, to
 * set connections up and monitor them.
 *
 * Slot h of every host, for h below ULN_WELL_KNOWN_SLOTS, is privileged and accepts
 * only packets of the operating system of host h. It is in paranoid one-shot mode, so a message
 * stays unchanged until it has been read. Its message area has ULN_WELL_KNOWN_PLACES places
 * for messages. It has that many metadata entries for messages, and as many again for
 * acknowledgements, which have no data. A message with sequence number s goes to place and entry
 * s % ULN_WELL_KNOWN_PLACES. Its metadata is a uln_wire; its data is name and private
 * data. The card never looks at any of this. The protocol is in docs/connections.md.
 */

/* Number of hosts whose operating systems can communicate: those with ids below it. */
#define ULN_WELL_KNOWN_SLOTS 64

/*
 * Places for messages in a well-known slot: the maximum number in flight without acknowledgement.
 */
#define ULN_WELL_KNOWN_PLACES 4

/* Bytes of a place. */
#define ULN_WELL_KNOWN_PLACE_SIZE 512

/*
 * The key of every entry. It is not a secret, because the slots accept only packets of operating
 * systems.
 */
#define ULN_WELL_KNOWN_KEY 0x6b6e6f776e6c6c65ULL

/*
 * Messages between operating systems: requests for connections, their ends, and acknowledgements.
 */

/* Acknowledges messages, by expected. It goes to one of the entries behind those for messages. */
#define ULN_WIRE_ACK 1

/* Like ULN_WIRE_ACK, and requests one. */
#define ULN_WIRE_PROBE 2

/*
 * Requests a connection to the listener name; from is its number at the sender. Carries
 * private data. Without a name it is a question whether a process listens under the name in its
 * private data. The answer is a refusal with ULN_END_LISTENING or ULN_END_NOT_LISTENING. An
 * operating system without support for questions answers with ULN_END_NO_NAME.
 */
#define ULN_WIRE_REQUEST 3

/* Accepts connection to; from is its number at the sender. Carries private data. */
#define ULN_WIRE_ACCEPT 4

/* Refuses connection to for reason. Carries private data. */
#define ULN_WIRE_REJECT 5

/*
 * Ends connection to for reason. If to is 0, ends the connection with number from at the
 * sender. Carries private data.
 */
#define ULN_WIRE_CLOSE 6

/*
 * From one card's own part of the driver to the other's. That card defines the meaning of from,
 * to, reason and the private data. An operating system whose card has no such messages skips
 * it.
 */
#define ULN_WIRE_CARD 7

/*
 * About express memory: reason is a ULN_EXPRESS_SAY_* (express). An operating
 * system without express memory skips it.
 */
#define ULN_WIRE_EXPRESS 8

/* Head of a message between operating systems. */
struct uln_wire {
	/* The sender's incarnation, never 0. The receiver forgets the state of an earlier one. */
	__le64 incarnation;
	/*
	 * The receiver's incarnation as the sender knows it, or 0. Messages to an earlier one are
	 * stale.
	 */
	__le64 to_incarnation;
	/* Sequence number of the message, from 0; 0 in an acknowledgement. */
	__le32 sequence;
	/* The sequence number that the sender expects next: it has received all before it. */
	__le32 expected;
	/* ULN_WIRE_*. */
	__le32 kind;
	/* The sender's number for the connection, from 1. */
	__le32 from;
	/* The receiver's number for the connection. */
	__le32 to;
	/* ULN_END_*, in a refusal or a close. */
	__le32 reason;
	/* Bytes of name at the start of the data, in a request. */
	__le32 name_length;
	/* Bytes of private data behind the name. */
	__le32 private_length;
	/*
	 * In a request: number of the sender's request to this receiver. It continues across
	 * incarnations, so that a repeated request is not accepted twice.
	 */
	__le32 request;
	/*
	 * The user of the process that asks or answers, as reported by its operating system: its id
	 * plus 1. 0: not reported.
	 */
	__le32 user;
};

/*
 * A message in the receiver's memory, written by the sender's card, for cards that have no other
 * means. A host has 2 * ULN_WELL_KNOWN_PLACES places for each other host. Neither side waits
 * for the other. A record may be overwritten, and may be read while the card writes it. So it is
 * complete only if the checksum matches.
 */
struct uln_record {
	/* CRC-32 of everything behind it, up to the end of the message's data. */
	__le32 checksum;
	/*
	 * Counts the sender's records, from a random number on and never 0, so that the receiver
	 * detects one that it has already seen.
	 */
	__le32 serial;
	/* The message. */
	struct uln_wire wire;
	/* Name and private data of the message. */
	__u8 data[320];
};

#endif /* _ULN_KERNEL_H */

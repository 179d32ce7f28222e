/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What the drivers of two hosts agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-tests --bin headers: do not edit.
 */
#ifndef _HAMLYN_KERNEL_H
#define _HAMLYN_KERNEL_H

#include <linux/types.h>

/*
 * What operating systems say to each other about express memory, in messages of kind
 * HAMLYN_WIRE_EXPRESS: reason says what it is, and behind the head comes a structure of this file,
 * as the message's private data. The protocol is in docs/express.md.
 *
 * Of the part that two hosts share the first half of the pages is given out by the one with the
 * lower id, the other half by the other.
 */

/*
 * Asks for a view of area to of the receiver's: from is the sender's number for the view. Behind
 * it: hamlyn_express_ask.
 */
#define HAMLYN_EXPRESS_SAY_MAP 1

/* View to of the receiver's may be: area from has these pages. Behind it: hamlyn_express_pages. */
#define HAMLYN_EXPRESS_SAY_PAGES 2

/* View to of the receiver's may not be. Behind it: hamlyn_express_refused. */
#define HAMLYN_EXPRESS_SAY_REFUSED 3

/*
 * Area from of the sender's is no more: the receiver's view to must see it no more, and is to be
 * confirmed gone.
 */
#define HAMLYN_EXPRESS_SAY_GONE 4

/*
 * View from of the sender's is no more: nobody there sees pages of area to. It is said of each view
 * that may have been, once.
 */
#define HAMLYN_EXPRESS_SAY_UNMAP 5

/* Asks a host that had been lost whether all views have gone that it had before. */
#define HAMLYN_EXPRESS_SAY_SETTLE 6

/* They have: who says so had to forget them to be able to hear the question. */
#define HAMLYN_EXPRESS_SAY_SETTLED 7

/* There is no such area, or not for this host, or not under this key. */
#define HAMLYN_EXPRESS_REFUSED_ACCESS 1

/* It has a view already. */
#define HAMLYN_EXPRESS_REFUSED_BUSY 2

/* The sender has other memory, or none with this host. */
#define HAMLYN_EXPRESS_REFUSED_MEMORY 3

/* How many runs of pages an area has at most, as a message has room for no more. */
#define HAMLYN_EXPRESS_RUNS 30

/* Asks for a view. */
struct hamlyn_express_ask {
	/* The area's key. */
	__u64 key;
	/* The memory that the sender has with the receiver: HAMLYN_EXPRESS_REG_MEMORY. */
	__u64 memory;
};

/* Pages that follow each other. */
struct hamlyn_express_run {
	/* The first, counted from the part's beginning. */
	__u32 first;
	/* How many, at least 1. */
	__u32 count;
};

/* Pages of an area. */
struct hamlyn_express_pages {
	/* How many runs, 1 to HAMLYN_EXPRESS_RUNS. */
	__u32 runs;
	/* Zero. */
	__u32 reserved;
	/* Which, in the order in which they lie in the area; zero behind the last. */
	struct hamlyn_express_run run[30];
};

/* Why there is no view. */
struct hamlyn_express_refused {
	/* HAMLYN_EXPRESS_REFUSED_*. */
	__u32 why;
	/* Zero. */
	__u32 reserved;
};

/*
 * Well-known slots (section 6.3): how the operating systems of two hosts talk, to set connections
 * up and watch over them.
 *
 * Slot h of every host, for h below HAMLYN_WELL_KNOWN_SLOTS, is privileged and takes packets of the
 * operating system of host h alone. It is in paranoid one-shot mode, so that what has arrived stays
 * as it is until it has been looked at. Its message area has HAMLYN_WELL_KNOWN_PLACES places for
 * messages; its metadata entries are as many for messages, and as many again for acknowledgements,
 * which have no data. A message with sequence number s goes to place and entry s %
 * HAMLYN_WELL_KNOWN_PLACES; a hamlyn_wire is its metadata, name and private data its data. The card
 * never looks at any of this. The protocol is in docs/connections.md.
 */

/* How many hosts the operating systems of can talk: those with the ids below it. */
#define HAMLYN_WELL_KNOWN_SLOTS 64

/* Places for messages in a well-known slot: how many may be on their way unacknowledged. */
#define HAMLYN_WELL_KNOWN_PLACES 4

/* Bytes of a place. */
#define HAMLYN_WELL_KNOWN_PLACE_SIZE 512

/* The key of every entry. It is no secret: the slots take packets of operating systems alone. */
#define HAMLYN_WELL_KNOWN_KEY 0x6b6e6f776e6c6c65ULL

/*
 * The messages between operating systems: requests for connections, their ends, and what has been
 * received.
 */

/* What has been received, in expected; goes to one of the entries behind those for messages. */
#define HAMLYN_WIRE_ACK 1

/* The same, and asks for the same. */
#define HAMLYN_WIRE_PROBE 2

/*
 * Asks for a connection to the listener name; from is its number at the sender. Carries private
 * data. One without a name is a question, whether anybody listens under the name that is its
 * private data: the answer is a refusal, for HAMLYN_END_LISTENING or HAMLYN_END_NOBODY; or for
 * HAMLYN_END_NO_NAME, from an operating system that knows no questions.
 */
#define HAMLYN_WIRE_REQUEST 3

/* Accepts connection to; from is its number at the sender. Carries private data. */
#define HAMLYN_WIRE_ACCEPT 4

/* Refuses connection to for reason. Carries private data. */
#define HAMLYN_WIRE_REJECT 5

/*
 * Ends connection to, or if that is 0 the one that has number from at the sender, for reason.
 * Carries private data.
 */
#define HAMLYN_WIRE_CLOSE 6

/*
 * From one card's own part of the driver to the other's: what from, to, reason and the private data
 * mean is that card's. An operating system whose card has no such messages passes over it.
 */
#define HAMLYN_WIRE_CARD 7

/*
 * About express memory: reason is a HAMLYN_EXPRESS_SAY_* (express). An operating system that has
 * none passes over it.
 */
#define HAMLYN_WIRE_EXPRESS 8

/* Head of a message between operating systems. */
struct hamlyn_wire {
	/*
	 * The sender's incarnation, never 0: what it knew of this receiver under an earlier one is
	 * forgotten.
	 */
	__u64 incarnation;
	/*
	 * The receiver's incarnation as far as the sender knows, or 0. Messages to an earlier one
	 * are stale.
	 */
	__u64 to_incarnation;
	/* Sequence number of the message, from 0; 0 in an acknowledgement. */
	__u32 sequence;
	/* The sequence number that the sender expects next: all before it have been received. */
	__u32 expected;
	/* HAMLYN_WIRE_*. */
	__u32 kind;
	/* The sender's number for the connection, from 1. */
	__u32 from;
	/* The receiver's number for the connection. */
	__u32 to;
	/* HAMLYN_END_*, in a refusal or a close. */
	__u32 reason;
	/* Bytes of name at the start of the data, in a request. */
	__u32 name_length;
	/* Bytes of private data behind it. */
	__u32 private_length;
	/*
	 * Which of the sender's requests to this receiver it is, in a request. It is not counted
	 * anew with an incarnation, so that a request which is made again is not taken again.
	 */
	__u32 request;
	/*
	 * The user of the process that asks or answers, as its operating system says: its id plus
	 * 1. 0: not told.
	 */
	__u32 user;
};

/*
 * A message in memory of the receiver's to which the sender's card writes, for cards that have
 * nothing else for it. A host has 2 * HAMLYN_WELL_KNOWN_PLACES places for each other one. Neither
 * side waits for the other: a record may be overwritten, and may be looked at while the card writes
 * it, so it is whole only if the checksum says so.
 */
struct hamlyn_record {
	/* CRC-32 of what is behind it, up to the end of the message's data. */
	__u32 checksum;
	/* Counts the sender's records, from 1: one that is there already has come before. */
	__u32 serial;
	/* The message. */
	struct hamlyn_wire wire;
	/* What belongs to it. */
	__u8 data[320];
};

#endif /* _HAMLYN_KERNEL_H */

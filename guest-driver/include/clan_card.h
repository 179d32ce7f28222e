/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What a guest and a Clan card agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-tests --bin headers: do not edit.
 */
#ifndef _CLAN_CARD_H
#define _CLAN_CARD_H

#include <linux/types.h>
#include "hamlyn_family.h"
#include "hamlyn_kernel.h"

/*
 * Apertures (section 3.2): what a descriptor says, and what an aperture allows.
 *
 * The paper's card gave no protection on the receive path, and wanted contiguous memory; this is
 * what its future revisions were to mend. An aperture is a list of pages, with a bound in bytes.
 * Each packet for it carries its number and key, and the receiving card looks at both.
 */

/* An aperture that others may read. */
#define CLAN_APERTURE_READ 1

/* An aperture that others may write to. */
#define CLAN_APERTURE_WRITE 2

/*
 * An aperture that only operating systems may reach: packets of privileged endpoints and windows
 * alone.
 */
#define CLAN_APERTURE_PRIVILEGED 4

/*
 * An aperture with a part of CLAN_PART bytes for each host: byte 0 of what host h reaches is byte h
 * * CLAN_PART.
 */
#define CLAN_APERTURE_PARTS 8

/*
 * An aperture that is a member of a group, under the group's key: it takes what is written to the
 * group.
 */
#define CLAN_APERTURE_GROUP 16

/* Bytes of a host's part of an aperture with CLAN_APERTURE_PARTS. */
#define CLAN_PART 4096

/* How many groups there are: multicast goes to each host with a member (section 2.5). */
#define CLAN_GROUPS 64

/*
 * As the host of a descriptor: this plus the number of a group. Such an aperture is written to, and
 * never read; its number is 0.
 */
#define CLAN_GROUP_HOST 0xff00

/*
 * The CLAN card's operations, beside those that all cards have (command).
 *
 * Objects have an *owner*, a number of the driver's: one object may use another only if it has the
 * same owner.
 */

/* Open an aperture: index is its number. Body: clan_open_aperture. */
#define CLAN_COMMAND_OPEN_APERTURE 1

/*
 * Close an aperture. When it is answered nothing reaches its memory any more. Tripwires that watch
 * it are disabled.
 */
#define CLAN_COMMAND_CLOSE_APERTURE 2

/* Open a window: index is its first page. Body: clan_open_window. */
#define CLAN_COMMAND_OPEN_WINDOW 3

/*
 * Close the window whose first page is index. What was stored before still goes; loads that wait
 * read as ones.
 */
#define CLAN_COMMAND_CLOSE_WINDOW 4

/*
 * Open an endpoint: index is its number. Body: clan_open_endpoint. The driver has made its memory
 * zero.
 */
#define CLAN_COMMAND_OPEN_ENDPOINT 5

/*
 * Close an endpoint. When it is answered nothing is written to its memory any more; its requests
 * have ended, wherever they were, and its Tripwires are disabled. Its windows must have been closed
 * before: else it is refused as in use.
 */
#define CLAN_COMMAND_CLOSE_ENDPOINT 6

/*
 * Open an event queue: index is its number. Body: clan_open_events. The driver has made its memory
 * zero.
 */
#define CLAN_COMMAND_OPEN_EVENTS 7

/* Close an event queue. Endpoints whose events went there have none from then on. */
#define CLAN_COMMAND_CLOSE_EVENTS 8

/* Open the FIFO. Body: clan_open_fifo. */
#define CLAN_COMMAND_OPEN_FIFO 11

/* Close the FIFO. */
#define CLAN_COMMAND_CLOSE_FIFO 12

/*
 * Say where an endpoint's events go from now on: index is the endpoint. Body: clan_set_events.
 * Refused as in use as long as records that other endpoints have left in the queue take the room.
 */
#define CLAN_COMMAND_SET_EVENTS 13

/* Instead of an event queue's number: none. */
#define CLAN_NO_EVENTS 0xffffffff

/*
 * In clan_open_window.flags and clan_open_endpoint.flags: what it sends is an operating system's.
 */
#define CLAN_PRIVILEGED 1

/* Body of CLAN_COMMAND_OPEN_APERTURE. */
struct clan_open_aperture {
	/* Its memory, which begins at a multiple of 8. */
	struct hamlyn_area area;
	/* Who reaches it must know this. */
	__u64 key;
	/* Whose it is. */
	__u32 owner;
	/* CLAN_APERTURE_*, any of them. */
	__u32 flags;
	/*
	 * With CLAN_APERTURE_GROUP: which group, of which there is no other member at this host.
	 * Else zero.
	 */
	__u32 group;
	/* Zero. */
	__u32 reserved;
};

/* Body of CLAN_COMMAND_OPEN_WINDOW. */
struct clan_open_window {
	/* The aperture's key. */
	__u64 key;
	/* Byte of the aperture that is its first, a multiple of 8. */
	__u64 offset;
	/* Bytes: as many pages as they need are the window's. */
	__u64 length;
	/* The aperture's host, or CLAN_GROUP_HOST and a group. */
	__u32 host;
	/* The aperture's number there. */
	__u32 aperture;
	/* The endpoint that hears of its faults. */
	__u32 endpoint;
	/* CLAN_PRIVILEGED or 0. */
	__u32 flags;
};

/* Body of CLAN_COMMAND_OPEN_ENDPOINT. */
struct clan_open_endpoint {
	/* Its memory: a page of endpoint, then requests of clan_request. */
	struct hamlyn_area memory;
	/* Whose it is. */
	__u32 owner;
	/* How many Tripwires it has, 0 to CLAN_MAX_TRIPWIRES. */
	__u32 tripwires;
	/*
	 * How many requests its queue has room for, CLAN_MIN_REQUESTS to CLAN_MAX_REQUESTS, a power
	 * of two.
	 */
	__u32 requests;
	/* The event queue that its events go to, of the same owner, or CLAN_NO_EVENTS. */
	__u32 events;
	/*
	 * CLAN_PRIVILEGED or 0. The requests of a privileged endpoint do not wait for a host: each
	 * write is done once the card has its bytes, and fails as timed out if too many wait for
	 * that host.
	 */
	__u32 flags;
	/* An endpoint of the same owner that hears of its faults, or 0: it does itself. */
	__u32 faults_to;
};

/* Body of CLAN_COMMAND_OPEN_EVENTS. */
struct clan_open_events {
	/* Its memory: a page of event, then records of clan_event. */
	struct hamlyn_area memory;
	/* Whose it is. */
	__u32 owner;
	/* Records, CLAN_MIN_EVENTS to CLAN_MAX_EVENTS, a power of two. */
	__u32 records;
};

/* Body of CLAN_COMMAND_OPEN_FIFO. */
struct clan_open_fifo {
	/* records of clan_fifo_record, all zero. */
	struct hamlyn_area area;
	/*
	 * Records, a power of two, at least as many as there are endpoints, event queues and
	 * Tripwires and at most CLAN_MAX_FIFO.
	 */
	__u32 records;
	/* Zero. */
	__u32 reserved;
};

/* Body of CLAN_COMMAND_SET_EVENTS. */
struct clan_set_events {
	/* The event queue, of the same owner, or CLAN_NO_EVENTS. */
	__u32 events;
	/* Zero. */
	__u32 reserved;
};

/*
 * The DMA engine's requests (section 3.4): a queue for each endpoint, in memory that its owner has
 * mapped.
 *
 * The owner writes request n at n modulo the queue's size, then the count to CLAN_STATE_PUT, issues
 * a full barrier, and looks at CLAN_STATE_IDLE: if that is 1, it stores to CLAN_ENDPOINT_GO. It
 * does not ring while the queue is not empty. The engine serves the endpoints that have requests in
 * turn, a packet for each. Requests of one endpoint are carried out in their order, and their
 * results are written, then CLAN_STATE_DONE.
 *
 * A write has ended when its last packet has left; the other host has not said that it arrived.
 * What it refuses is a fault. A read has ended when its data has come, and then all that the
 * endpoint wrote to that host before has arrived.
 */

/* The fewest requests of a queue. */
#define CLAN_MIN_REQUESTS 16

/* The most requests of a queue. */
#define CLAN_MAX_REQUESTS 1024

/* Bytes of a request. */
#define CLAN_REQUEST_SIZE 64

/* The longest request, in bytes. */
#define CLAN_MAX_TRANSFER 1073741824ULL

/* From local memory to an aperture. */
#define CLAN_DMA_WRITE 1

/* From an aperture to local memory. */
#define CLAN_DMA_READ 2

/* The next request belongs to this one: if this fails, that is skipped. */
#define CLAN_DMA_CHAIN 1

/*
 * When it has ended, whatever came of it, that is an event of the endpoint, and CLAN_BIT_DMA is
 * set.
 */
#define CLAN_DMA_NOTIFY 2

/* Result: not ended yet. */
#define CLAN_DMA_PENDING 0

/* Result: done. */
#define CLAN_DMA_DONE 1

/* Result: the request means nothing. */
#define CLAN_DMA_BAD_REQUEST 2

/* Result: the local aperture is not the owner's, or does not have all the bytes. */
#define CLAN_DMA_BAD_LOCAL 3

/* Result: the other host refuses a read. */
#define CLAN_DMA_REFUSED 4

/* Result: the other host has not answered a read in time, or there is no link. */
#define CLAN_DMA_TIMEOUT 5

/* Result: memory could not be reached, at either end. */
#define CLAN_DMA_MEMORY 6

/* Result: an earlier request of the chain failed. */
#define CLAN_DMA_SKIPPED 7

/* A request. */
struct clan_request {
	/* CLAN_DMA_WRITE or CLAN_DMA_READ. */
	__u32 opcode;
	/* CLAN_DMA_CHAIN, CLAN_DMA_NOTIFY, both or 0. */
	__u32 flags;
	/* The local memory: an aperture of the same owner, whatever that lets others do. */
	__u32 local_aperture;
	/* The aperture's host, or CLAN_GROUP_HOST and a group. */
	__u32 host;
	/* First byte of the local memory. */
	__u64 local_offset;
	/* The aperture's number at that host. */
	__u32 aperture;
	/* Written by the card: CLAN_DMA_*. */
	__u32 result;
	/* The aperture's key. */
	__u64 key;
	/* First byte of the aperture. */
	__u64 offset;
	/* Bytes, 1 to CLAN_MAX_TRANSFER. */
	__u64 length;
	/* Zero. */
	__u64 reserved;
};

/*
 * An endpoint (section 3.1): Tripwires, a queue of DMA requests, and a queue of messages.
 *
 * Its page of BAR 2 is what its owner tells the card, by stores of natural alignment; all loads
 * from there say 0:
 *
 * | offset | what |
 * |---|---|
 * | i * 64 | Tripwire i: tripwire |
 * | CLAN_ENDPOINT_GO | there are DMA requests |
 * | CLAN_ENDPOINT_USE | another use of the endpoint begins |
 * | CLAN_ENDPOINT_INTEREST | which events the owner wants |
 *
 * Its memory is a page that its owner has mapped, with the words below, and behind it the DMA
 * requests. Card and owner both write there, each words of its own.
 *
 * What has happened is a bitmap (section 3.3) of CLAN_BITS bits. Bit i is set while bit i of
 * CLAN_STATE_BITS, which the card stores, differs from bit i of CLAN_STATE_CLEARED, which the owner
 * stores. The card sets a bit that is not set by inverting its own; the owner clears one by copying
 * the card's to its own, with a full barrier before it looks at what the bit stands for. So neither
 * side needs an operation that is atomic for the other: a machine with a single emulated processor
 * has none.
 */

/* In an endpoint's page of BAR 2, stored, any value: there are new requests (dma). */
#define CLAN_ENDPOINT_GO 0x800

/*
 * In an endpoint's page of BAR 2, u32: begins another use of the endpoint, with this number. Faults
 * of what was sent before are not reported any more, and a request that is under way ends as timed
 * out.
 */
#define CLAN_ENDPOINT_USE 0x808

/*
 * In an endpoint's page of BAR 2, u32: which events go to its queue besides those of Tripwires,
 * CLAN_INTERESTED_*; all, before it is stored. If one that is new here has happened, as its bit of
 * CLAN_STATE_BITS says, there is an event at once.
 */
#define CLAN_ENDPOINT_INTEREST 0x80c

/* In CLAN_ENDPOINT_INTEREST: DMA requests. */
#define CLAN_INTERESTED_IN_DMA 1

/* In CLAN_ENDPOINT_INTEREST: messages. */
#define CLAN_INTERESTED_IN_MESSAGES 2

/* In CLAN_ENDPOINT_INTEREST: faults. */
#define CLAN_INTERESTED_IN_FAULTS 4

/* Bytes of an endpoint's page of BAR 2. */
#define CLAN_ENDPOINT_SIZE 4096

/* The most Tripwires of an endpoint. */
#define CLAN_MAX_TRIPWIRES 32

/* u32, stored by the owner: how many DMA requests it has put, modulo 2^32. */
#define CLAN_STATE_PUT 0x040

/* u32, stored by the card: how many of them have ended, modulo 2^32. */
#define CLAN_STATE_DONE 0x080

/*
 * u32, stored by the card: 1 if it does not look for requests, so that the next is to be told by
 * CLAN_ENDPOINT_GO.
 */
#define CLAN_STATE_IDLE 0x084

/*
 * u32, stored by the card: how many faults there were, modulo 2^32. What is known of the last one
 * is in the words behind it, which are written before.
 */
#define CLAN_STATE_FAULTS 0x0c0

/* u32: why, CLAN_FAULT_*. */
#define CLAN_STATE_FAULT_REASON 0x0c4

/* u32: which host. */
#define CLAN_STATE_FAULT_HOST 0x0c8

/* u32: which aperture there. */
#define CLAN_STATE_FAULT_APERTURE 0x0cc

/* u64: which byte of it. */
#define CLAN_STATE_FAULT_OFFSET 0x0d0

/*
 * u32, stored by the card before it changes the words of a fault: what CLAN_STATE_FAULTS is when
 * they are complete. A reader that finds another number here than in CLAN_STATE_FAULTS reads again.
 */
#define CLAN_STATE_FAULTS_BEGUN 0x0d8

/* u32: which use of the endpoint, as last stored to CLAN_ENDPOINT_USE. */
#define CLAN_STATE_FAULT_USE 0x0dc

/* u32, stored by the owner: how many messages it has taken, modulo 2^32. */
#define CLAN_STATE_MESSAGES_TAKEN 0x100

/*
 * For each Tripwire, two u32, stored by the card: how often it has fired, modulo 2^32, if that is
 * among its actions; and its answer to what was last stored to its control word (tripwire).
 */
#define CLAN_STATE_TRIPWIRES 0x200

/*
 * Two u32, stored by the card: its half of the bitmap of what has happened. Bit i below 32 is
 * Tripwire i, which has fired, if the bit is among its actions; bit i is in word i / 32.
 */
#define CLAN_STATE_BITS 0x300

/*
 * Two u32, stored by the owner: its half of the bitmap. A bit is set where both halves differ. Both
 * are 0 when the endpoint is opened.
 */
#define CLAN_STATE_CLEARED 0x308

/* How many bits can be waited for: as many as CLAN_REG_ARM has room for. */
#define CLAN_BITS 48

/* Which bit of the bitmap: a DMA request that says so has ended. */
#define CLAN_BIT_DMA 32

/* Which bit of the bitmap: there was a fault. */
#define CLAN_BIT_FAULT 33

/* Which bit of the bitmap: there is a message. */
#define CLAN_BIT_MESSAGE 34

/* Messages, CLAN_MESSAGES of clan_message, which the driver writes. */
#define CLAN_STATE_MESSAGES 0x800

/* How many messages wait at most; a power of two. */
#define CLAN_MESSAGES 32

/* Bytes before the DMA requests. */
#define CLAN_STATE_SIZE 4096

/*
 * There is no such aperture there, or not under this key, or it does not allow that, or the byte is
 * outside.
 */
#define CLAN_FAULT_REFUSED 1

/* The other host has not answered in time, or there is no link. */
#define CLAN_FAULT_TIMEOUT 2

/* The other host's memory could not be reached. */
#define CLAN_FAULT_MEMORY 3

/* A store or load that is not the window's: outside of it, not aligned, or a load from a group. */
#define CLAN_FAULT_WINDOW 4

/*
 * A store was lost: the card had no room for it, as its link is down or the other host takes
 * nothing for so long.
 */
#define CLAN_FAULT_LOST 5

/*
 * An asynchronous event queue (section 3.5): what happens to any number of endpoints, in one ring
 * in its owner's memory.
 *
 * What can happen has a *source*: a Tripwire, an endpoint's DMA requests, its messages, its faults.
 * Each source has at most one record in the queue that is not taken, however often it happens
 * meanwhile; and a queue has a record for each source of the endpoints whose events come there, and
 * for each that others have left, so it is never full. The owner takes a record, stores how many it
 * has taken to CLAN_EVENTS_TAKEN, issues a full barrier, and then looks what has happened.
 */

/*
 * In the queue's first page, u32, stored by the owner: how many records it has taken, modulo 2^32.
 */
#define CLAN_EVENTS_TAKEN 0x000

/* Bytes before the records. */
#define CLAN_EVENTS_HEAD 4096

/* The fewest records of a queue. */
#define CLAN_MIN_EVENTS 16

/* The most records of a queue. */
#define CLAN_MAX_EVENTS 65536

/* Bytes of a record. */
#define CLAN_EVENT_SIZE 16

/* A Tripwire has fired: detail is its number. */
#define CLAN_EVENT_TRIPWIRE 1

/* A DMA request that says so has ended; CLAN_STATE_DONE says how many have. */
#define CLAN_EVENT_DMA 2

/* There is a message. */
#define CLAN_EVENT_MESSAGE 3

/* There was a fault. */
#define CLAN_EVENT_FAULT 4

/* Something has happened. The n-th record, from 0, is at n modulo the queue's size. */
struct clan_event {
	/* What: CLAN_EVENT_*. */
	__u32 kind;
	/* To which endpoint. */
	__u32 endpoint;
	/* More of it. */
	__u32 detail;
	/* n + 1, modulo 2^32. The card writes it last. */
	__u32 number;
};

/*
 * The FIFO (section 2.5): identifiers of Tripwires that have fired, if that is among their actions;
 * and endpoints and event queues on which a process sleeps, and to which something has happened.
 *
 * The card writes records to a ring in the driver's memory and raises CLAN_VECTOR_FIFO for the
 * first. When the driver has taken what is there it says so in CLAN_REG_FIFO_TAKEN, and the vector
 * is raised again if there is more by then. A Tripwire, endpoint or queue that has a record which
 * is not taken yet gets no second one.
 */

/* The most records of the FIFO. */
#define CLAN_MAX_FIFO 524288

/* Bytes of a record. */
#define CLAN_FIFO_SIZE 8

/* In clan_fifo_record.what: it is an event queue, not an endpoint. */
#define CLAN_FIFO_EVENTS 0x80000000

/*
 * In clan_fifo_record.what: a Tripwire has fired. Its endpoint is in the lower 16 bits, its number
 * at the endpoint above (CLAN_FIFO_NUMBER_SHIFT).
 */
#define CLAN_FIFO_TRIPWIRE 0x40000000

/* In clan_fifo_record.what of a Tripwire: by how many bits its number is shifted. */
#define CLAN_FIFO_NUMBER_SHIFT 16

/* Something has happened. The n-th record, from 0, is at n modulo the ring's size. */
struct clan_fifo_record {
	/*
	 * The endpoint, or CLAN_FIFO_EVENTS and the event queue, or CLAN_FIFO_TRIPWIRE and the
	 * Tripwire.
	 */
	__u32 what;
	/* n + 1, modulo 2^32. The card writes it last. */
	__u32 number;
};

/* Who the CLAN card is. */

/* PCI device id of the CLAN card. */
#define CLAN_PCI_DEVICE 0x434c

/* Value of HAMLYN_REG_MODEL for the CLAN card. */
#define CLAN_MODEL 3

/* Value of HAMLYN_REG_ABI_VERSION for the CLAN card. */
#define CLAN_ABI_VERSION 0x00010000

/* Registers of the CLAN card, in BAR 0, beside those that all cards have. */

/* RO. How many apertures there can be. */
#define CLAN_REG_APERTURES 0x100

/* RO. How many window pages there are: the first is behind the last endpoint's page, in BAR 2. */
#define CLAN_REG_WINDOW_PAGES 0x104

/* RO. How many endpoints there can be. */
#define CLAN_REG_ENDPOINTS 0x108

/* RO. How many Tripwires all endpoints together can have (section 2.5: 4,096). */
#define CLAN_REG_TRIPWIRES 0x10c

/* RO. How many event queues there can be. */
#define CLAN_REG_EVENT_QUEUES 0x110

/* RO. The most bytes of data in a packet. */
#define CLAN_REG_BURST 0x114

/*
 * RW. Where bursts are joined: CLAN_JOIN_*, any of them. What it is at power-on is a setting of the
 * card.
 */
#define CLAN_REG_JOIN 0x118

/* RW. How long a remote read may take, in milliseconds: 1 to CLAN_MAX_READ_TIMEOUT. */
#define CLAN_REG_READ_TIMEOUT 0x11c

/* WO. How many records of the FIFO the driver has taken, modulo 2^32 (fifo). */
#define CLAN_REG_FIFO_TAKEN 0x120

/*
 * RO. How many words a host may send to another that have not arrived yet (credits, section 2.2).
 */
#define CLAN_REG_CREDITS 0x124

/*
 * WO, 8 bytes. A process sleeps on an endpoint: its number in the lower 16 bits, and above them the
 * bits of CLAN_STATE_BITS that it waits for, 48 at most. If one of them is set, or as soon as one
 * is, the endpoint is put into the FIFO, once.
 */
#define CLAN_REG_ARM 0x128

/*
 * WO, 8 bytes. A process sleeps on an event queue: its number in the lower half, and in the upper
 * how many records it has taken, modulo 2^32. If there are more, or as soon as there are, the queue
 * is put into the FIFO, once.
 */
#define CLAN_REG_ARM_EVENTS 0x130

/*
 * WO. The driver has put a message into an endpoint's queue: its number. It is an event of that
 * endpoint. With CLAN_POST_DMA, it has carried out a DMA request of that endpoint.
 */
#define CLAN_REG_POST 0x138

/*
 * In CLAN_REG_POST, with an endpoint's number: a DMA request has ended that the driver has carried
 * out.
 */
#define CLAN_POST_DMA 0x80000000

/*
 * In CLAN_REG_JOIN: stores that follow each other leave as one packet, as long as the first has not
 * left (section 2.2).
 */
#define CLAN_JOIN_LEAVING 1

/*
 * In CLAN_REG_JOIN: packets that follow each other are written to memory as one burst (section
 * 5.2).
 */
#define CLAN_JOIN_ARRIVING 2

/*
 * The most milliseconds of CLAN_REG_READ_TIMEOUT: the bus waits 2,000 for a load, and the card
 * would not hear of a load that the bus ends.
 */
#define CLAN_MAX_READ_TIMEOUT 1900

/* MSI-X vector that says that there are new records in the FIFO. */
#define CLAN_VECTOR_FIFO 1

/*
 * The CLAN card's counters. They are 64 bits wide, count from the card's start or reset, and stand
 * in the order of clan_statistic.
 */

/* How many counters there are. */
#define CLAN_STATISTICS 34

/*
 * A Tripwire (sections 2.5 and 3.3), programmed at user level by stores to its endpoint's page.
 *
 * It watches a range of bytes: of an aperture of the same owner, for what other hosts do there; or,
 * remote, of an aperture that the owner's own windows and DMA requests reach, for what these do. It
 * *fires* once for each access (super) that touches the range, when the memory has been written or
 * read; remote, when the packet has left the card, or the answer to a read has come. Watching needs
 * no key: a process that may not reach memory makes no accesses to it either.
 *
 * The first three words are kept until CLAN_TRIPWIRE_CONTROL is stored; that does it all at once: a
 * Tripwire is disabled, and enabled as it says. The card answers in the endpoint's memory, with the
 * same serial number: CLAN_TRIPWIRE_OK or what was wrong. A Tripwire that is refused is disabled.
 */

/* Bytes between two Tripwires in an endpoint's page. */
#define CLAN_TRIPWIRE_STRIDE 64

/* u64: the first byte that is watched. */
#define CLAN_TRIPWIRE_OFFSET 0x00

/* u64: how many, at least 1. */
#define CLAN_TRIPWIRE_LENGTH 0x08

/*
 * u64: the aperture in the lower half, and in the upper its host, if the Tripwire is remote, or 0.
 */
#define CLAN_TRIPWIRE_TARGET 0x10

/* u32: CLAN_TRIPWIRE_*, any of them, and a serial number in the upper half. */
#define CLAN_TRIPWIRE_CONTROL 0x18

/* Enabled. */
#define CLAN_TRIPWIRE_ENABLE 1

/* Writes fire it. */
#define CLAN_TRIPWIRE_WRITES 2

/* Reads fire it. */
#define CLAN_TRIPWIRE_READS 4

/* It watches what this host does to another's memory. */
#define CLAN_TRIPWIRE_REMOTE 8

/* It is disabled when it fires (section 3.3). */
#define CLAN_TRIPWIRE_ONCE 16

/*
 * Action: it is put into the FIFO, and interrupts, whether anybody sleeps or not. Its bit is set as
 * with CLAN_TRIPWIRE_BIT, by which the driver finds the process that sleeps for it.
 */
#define CLAN_TRIPWIRE_FIFO 32

/* Action: its bit is set in the bitmap (CLAN_STATE_BITS). */
#define CLAN_TRIPWIRE_BIT 64

/* Action: it is counted in CLAN_STATE_TRIPWIRES. */
#define CLAN_TRIPWIRE_COUNT 128

/* Action: an event of its endpoint (event). */
#define CLAN_TRIPWIRE_EVENT 256

/* All that a control word can have in its lower half. */
#define CLAN_TRIPWIRE_FLAGS 511

/* Answer: enabled, or disabled, as it was told. */
#define CLAN_TRIPWIRE_OK 1

/* Answer: there is no such aperture of this owner. */
#define CLAN_TRIPWIRE_NO_APERTURE 2

/* Answer: the range is empty, or not within the aperture. */
#define CLAN_TRIPWIRE_BAD_RANGE 3

/* Answer: flags that mean nothing, as none of writes and reads, or no action. */
#define CLAN_TRIPWIRE_BAD_FLAGS 4

/* Answer: CLAN_TRIPWIRES_AT_ONCE of similar length watch a part of the range already. */
#define CLAN_TRIPWIRE_CROWDED 5

/* Answer: there is no event queue, or it has no room for one more source of events. */
#define CLAN_TRIPWIRE_NO_EVENTS 6

/*
 * How many Tripwires of similar length may watch one place: 2^(n-1) + 1 to 2^n words, in one
 * aligned piece of 2^n words. So what an access costs has a bound.
 */
#define CLAN_TRIPWIRES_AT_ONCE 64

/*
 * What the drivers of two hosts say to each other about endpoints, in messages of the card's own
 * (HAMLYN_WIRE_CARD): reason says what it is, from is the sender's port and to the receiver's.
 *
 * All messages of operating systems lie in an aperture that each has for those of the others
 * (CLAN_SYSTEM_APERTURE), in the sender's part, as [records](crate::kernel::wire::HamlynRecord); a
 * Tripwire over it tells that there is one.
 */

/* The number of the aperture for operating systems' messages: privileged, with parts. */
#define CLAN_SYSTEM_APERTURE 0

/* Its key, which is no secret. */
#define CLAN_SYSTEM_KEY 0x4e414c4353595354ULL

/* A message for an endpoint. Behind it: clan_said. */
#define CLAN_SAY_MESSAGE 1

/*
 * There is no endpoint to, or it has no room, or it has ended without an answer to a request: what
 * was said to it by from is lost. Behind it: clan_said, the message.
 */
#define CLAN_SAY_UNDELIVERED 2

/* Endpoint from, which was a peer of to, is no more. */
#define CLAN_SAY_GONE 3

/* An out-of-band message (section 3.1). */
struct clan_said {
	/* CLAN_MESSAGE_*, of those that a process may send. */
	__u32 kind;
	/* Zero. */
	__u32 reserved;
	/* Its payload. */
	__u64 data[5];
};

#endif /* _CLAN_CARD_H */

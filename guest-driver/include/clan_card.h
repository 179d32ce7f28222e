/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What a guest and a Clan card agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-headers: do not edit.
 */
#ifndef _CLAN_CARD_H
#define _CLAN_CARD_H

#include <linux/types.h>
#include "uln.h"
#include "uln_kernel.h"

/*
 * Apertures (section 3.2): what a descriptor names, and what an aperture allows.
 *
 * The paper's card gave no protection on the receive path, and needed contiguous memory; its
 * future revisions were to change both. Here an aperture is a list of pages with a bound in bytes.
 * Each packet for it carries its number and key, and the receiving card checks both.
 */

/* Aperture flag: allows remote reads. */
#define CLAN_APERTURE_READ 1

/* Aperture flag: allows remote writes. */
#define CLAN_APERTURE_WRITE 2

/*
 * Aperture flag: only operating systems may access it. Packets must come from privileged endpoints
 * and windows.
 */
#define CLAN_APERTURE_PRIVILEGED 4

/*
 * Aperture flag: it has a part of CLAN_PART bytes for each host. Byte 0 that host h accesses
 * is byte h * CLAN_PART.
 */
#define CLAN_APERTURE_PARTS 8

/*
 * Aperture flag: it is a member of a group, under the group's key, and receives what is written to
 * the group.
 */
#define CLAN_APERTURE_GROUP 16

/* Bytes of each host's part of an aperture with CLAN_APERTURE_PARTS. */
#define CLAN_PART 4096

/* Number of groups. Multicast goes to each host with a member (section 2.5). */
#define CLAN_GROUPS 64

/*
 * In the host field of a descriptor: this plus the number of a group. Such an aperture is written
 * to and never read; its number is 0.
 */
#define CLAN_GROUP_HOST 0xff00

/*
 * The CLAN card's commands, besides those that all cards have (command).
 *
 * Objects have an *owner*, a number that the driver chooses. An object may use another object only
 * if both have the same owner.
 */

/* Opens aperture index. Body: clan_open_aperture. */
#define CLAN_COMMAND_OPEN_APERTURE 1

/*
 * Closes an aperture. Once the command has completed, no access reaches its memory. Tripwires that
 * watch it are disabled.
 */
#define CLAN_COMMAND_CLOSE_APERTURE 2

/* Opens the window whose first page is index. Body: clan_open_window. */
#define CLAN_COMMAND_OPEN_WINDOW 3

/*
 * Closes the window whose first page is index. Earlier stores are still sent; pending loads read
 * as ones.
 */
#define CLAN_COMMAND_CLOSE_WINDOW 4

/* Opens endpoint index. Body: clan_open_endpoint. The driver must zero its memory first. */
#define CLAN_COMMAND_OPEN_ENDPOINT 5

/*
 * Closes an endpoint. Once the command has completed, the card no longer writes to its memory. All
 * its requests have ended, and its Tripwires are disabled. Its windows must be closed first;
 * otherwise the command fails with ULN_STATUS_IN_USE.
 */
#define CLAN_COMMAND_CLOSE_ENDPOINT 6

/* Opens event queue index. Body: clan_open_events. The driver must zero its memory first. */
#define CLAN_COMMAND_OPEN_EVENTS 7

/* Closes an event queue. Endpoints that used it have no event queue from then on. */
#define CLAN_COMMAND_CLOSE_EVENTS 8

/* Opens the FIFO. Body: clan_open_fifo. */
#define CLAN_COMMAND_OPEN_FIFO 11

/* Closes the FIFO. */
#define CLAN_COMMAND_CLOSE_FIFO 12

/*
 * Sets the event queue of endpoint index. Body: clan_set_events. Fails with
 * ULN_STATUS_IN_USE while records that other endpoints left in the queue take the space.
 */
#define CLAN_COMMAND_SET_EVENTS 13

/* In place of an event queue's number: none. */
#define CLAN_NO_EVENTS 0xffffffff

/*
 * In clan_open_window.flags and clan_open_endpoint.flags: its packets are sent as an
 * operating system's.
 */
#define CLAN_PRIVILEGED 1

/* Body of CLAN_COMMAND_OPEN_APERTURE. */
struct clan_open_aperture {
	/* Its memory, which begins at a multiple of 8. */
	struct uln_area area;
	/* Each packet for the aperture must carry this key. */
	__le64 key;
	/* Its owner. */
	__le32 owner;
	/* Any of CLAN_APERTURE_*. */
	__le32 flags;
	/*
	 * With CLAN_APERTURE_GROUP: the group, which must have no other member on
	 * this host. Otherwise zero.
	 */
	__le32 group;
	/* Zero. */
	__le32 reserved;
};

/* Body of CLAN_COMMAND_OPEN_WINDOW. */
struct clan_open_window {
	/* The aperture's key. */
	__le64 key;
	/* Offset in the aperture of the window's first byte, a multiple of 8. */
	__le64 offset;
	/* Bytes. The window gets as many pages as they need. */
	__le64 length;
	/* The aperture's host, or CLAN_GROUP_HOST and a group. */
	__le32 host;
	/* The aperture's number on that host. */
	__le32 aperture;
	/* The endpoint to which its faults are reported. */
	__le32 endpoint;
	/* CLAN_PRIVILEGED or 0. */
	__le32 flags;
};

/* Body of CLAN_COMMAND_OPEN_ENDPOINT. */
struct clan_open_endpoint {
	/* Its memory: a page of endpoint, then requests of clan_request. */
	struct uln_area memory;
	/* Its owner. */
	__le32 owner;
	/* Number of Tripwires, 0 to CLAN_MAX_TRIPWIRES. */
	__le32 tripwires;
	/*
	 * Size of its request queue: a power of two from CLAN_MIN_REQUESTS to
	 * CLAN_MAX_REQUESTS.
	 */
	__le32 requests;
	/* The event queue for its events, of the same owner, or CLAN_NO_EVENTS. */
	__le32 events;
	/*
	 * CLAN_PRIVILEGED or 0. Requests of a privileged endpoint do not wait for a host. Each
	 * write is done once the card has its bytes. It fails with a time-out if too many writes
	 * wait for that host.
	 */
	__le32 flags;
	/* An endpoint of the same owner to which its faults are reported, or 0 for itself. */
	__le32 faults_to;
};

/* Body of CLAN_COMMAND_OPEN_EVENTS. */
struct clan_open_events {
	/* Its memory: a page of event, then records of clan_event. */
	struct uln_area memory;
	/* Its owner. */
	__le32 owner;
	/*
	 * Number of records: a power of two from CLAN_MIN_EVENTS to
	 * CLAN_MAX_EVENTS.
	 */
	__le32 records;
};

/* Body of CLAN_COMMAND_OPEN_FIFO. */
struct clan_open_fifo {
	/* records of clan_fifo_record, all zero. */
	struct uln_area area;
	/*
	 * Number of records: a power of two, at least the number of endpoints, event queues and
	 * Tripwires, and at most CLAN_MAX_FIFO.
	 */
	__le32 records;
	/* Zero. */
	__le32 reserved;
};

/* Body of CLAN_COMMAND_SET_EVENTS. */
struct clan_set_events {
	/* The event queue, of the same owner, or CLAN_NO_EVENTS. */
	__le32 events;
	/* Zero. */
	__le32 reserved;
};

/*
 * The DMA engine's requests (section 3.4): a queue for each endpoint, in memory that its owner has
 * mapped.
 *
 * The owner writes request n at n modulo the queue's size, then stores the count to
 * CLAN_STATE_PUT. It issues a full barrier and reads
 * CLAN_STATE_IDLE. If that is 1, it stores to
 * CLAN_ENDPOINT_GO. So it does not ring while the queue is not empty. The
 * engine serves the endpoints that have requests in turn, one packet each. It executes the
 * requests of one endpoint in order. It writes their results, then
 * CLAN_STATE_DONE.
 *
 * A write completes when its last packet has left; the other host has not confirmed that it
 * arrived. If the other host refuses it, that is a fault. A read completes when its data has
 * arrived; then all earlier writes of the endpoint to that host have arrived as well.
 */

/* Minimum number of requests in a queue. */
#define CLAN_MIN_REQUESTS 16

/* Maximum number of requests in a queue. */
#define CLAN_MAX_REQUESTS 1024

/* Bytes of a request. */
#define CLAN_REQUEST_SIZE 64

/* Maximum length of a request, in bytes. */
#define CLAN_MAX_TRANSFER 1073741824ULL

/* From local memory to an aperture. */
#define CLAN_DMA_WRITE 1

/* From an aperture to local memory. */
#define CLAN_DMA_READ 2

/* Request flag: the next request belongs to this one, and is skipped if this one fails. */
#define CLAN_DMA_CHAIN 1

/*
 * Request flag: its completion, successful or not, is an event of the endpoint and sets
 * CLAN_BIT_DMA.
 */
#define CLAN_DMA_NOTIFY 2

/* Result: not completed yet. */
#define CLAN_DMA_PENDING 0

/* Result: done. */
#define CLAN_DMA_DONE 1

/* Result: the request is invalid. */
#define CLAN_DMA_BAD_REQUEST 2

/* Result: the local aperture has another owner, or does not contain all the bytes. */
#define CLAN_DMA_BAD_LOCAL 3

/* Result: the other host refused a read. */
#define CLAN_DMA_REFUSED 4

/* Result: the other host did not answer a read in time, or the link is down. */
#define CLAN_DMA_TIMEOUT 5

/* Result: memory could not be accessed, at either end. */
#define CLAN_DMA_MEMORY 6

/* Result: an earlier request of the chain failed. */
#define CLAN_DMA_SKIPPED 7

/* A request. */
struct clan_request {
	/* CLAN_DMA_WRITE or CLAN_DMA_READ. */
	__le32 opcode;
	/* CLAN_DMA_CHAIN, CLAN_DMA_NOTIFY, both or 0. */
	__le32 flags;
	/*
	 * The local memory: an aperture of the same owner, whatever access it gives to other hosts.
	 */
	__le32 local_aperture;
	/* The aperture's host, or CLAN_GROUP_HOST and a group. */
	__le32 host;
	/* Offset of the first byte in the local aperture. */
	__le64 local_offset;
	/* The aperture's number on that host. */
	__le32 aperture;
	/* Written by the card: CLAN_DMA_*. */
	__le32 result;
	/* The aperture's key. */
	__le64 key;
	/* Offset of the first byte in the remote aperture. */
	__le64 offset;
	/* Bytes, 1 to CLAN_MAX_TRANSFER. */
	__le64 length;
	/* Zero. */
	__le64 reserved;
};

/*
 * An endpoint (section 3.1): Tripwires, a queue of DMA requests, and a queue of messages.
 *
 * The owner controls it by naturally aligned stores to its page of BAR 2. All loads from the page
 * return 0:
 *
 * | offset | what |
 * |---|---|
 * | i * 64 | Tripwire i: tripwire |
 * | CLAN_ENDPOINT_GO | there are DMA requests |
 * | CLAN_ENDPOINT_USE | begins another use of the endpoint |
 * | CLAN_ENDPOINT_INTEREST | which events the owner wants |
 *
 * Its memory is a page with the words below, followed by the DMA requests; the owner has it
 * mapped. Card and owner both write there, each its own words.
 *
 * A bitmap (section 3.3) of CLAN_BITS bits shows what has happened. Bit i is set while bit
 * i of CLAN_STATE_BITS, which the card stores, differs from bit i of
 * CLAN_STATE_CLEARED, which the owner stores. The card sets a clear bit by inverting its own.
 * The owner clears a bit by copying the card's bit to its own. It issues a full barrier before it
 * looks at what the bit stands for. So no operation has to be atomic for both sides, which a
 * machine with a single emulated processor cannot provide.
 */

/* In an endpoint's page of BAR 2, any value: there are new requests (dma). */
#define CLAN_ENDPOINT_GO 0x800

/*
 * In an endpoint's page of BAR 2, u32: begins another use of the endpoint, with this number.
 * Faults of earlier sends are no longer reported. A request in flight ends with a time-out.
 */
#define CLAN_ENDPOINT_USE 0x808

/*
 * In an endpoint's page of BAR 2, u32: which events go to its queue besides those of Tripwires,
 * CLAN_INTERESTED_*. Until the first store, all do. A newly selected event that has happened
 * already, as its bit of CLAN_STATE_BITS shows, is queued at once.
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

/* Maximum number of Tripwires of an endpoint. */
#define CLAN_MAX_TRIPWIRES 32

/* u32, stored by the owner: number of DMA requests that it has put, modulo 2^32. */
#define CLAN_STATE_PUT 0x040

/* u32, stored by the card: number of them that have ended, modulo 2^32. */
#define CLAN_STATE_DONE 0x080

/*
 * u32, stored by the card: 1 if it does not look for requests. The owner must then announce the
 * next one by CLAN_ENDPOINT_GO.
 */
#define CLAN_STATE_IDLE 0x084

/*
 * u32, stored by the card: number of faults, modulo 2^32. The words behind it describe the last
 * one, and are written before it.
 */
#define CLAN_STATE_FAULTS 0x0c0

/* u32: reason of the fault, CLAN_FAULT_*. */
#define CLAN_STATE_FAULT_REASON 0x0c4

/* u32: host of the fault. */
#define CLAN_STATE_FAULT_HOST 0x0c8

/* u32: aperture on that host. */
#define CLAN_STATE_FAULT_APERTURE 0x0cc

/* u64: offset in that aperture. */
#define CLAN_STATE_FAULT_OFFSET 0x0d0

/*
 * u32, stored by the card before it changes the words of a fault: the value of
 * CLAN_STATE_FAULTS when they are complete. A reader that finds a different number in
 * CLAN_STATE_FAULTS reads again.
 */
#define CLAN_STATE_FAULTS_BEGUN 0x0d8

/* u32: use of the endpoint, as last stored to CLAN_ENDPOINT_USE. */
#define CLAN_STATE_FAULT_USE 0x0dc

/* u32, stored by the owner: number of messages that it has taken, modulo 2^32. */
#define CLAN_STATE_MESSAGES_TAKEN 0x100

/*
 * Two u32 for each Tripwire, stored by the card. The first is how often it has fired, modulo 2^32,
 * if counting is among its actions. The second is the answer to the last store to its control word
 * (tripwire).
 */
#define CLAN_STATE_TRIPWIRES 0x200

/*
 * Two u32, stored by the card: its half of the bitmap. Bit i below 32 shows that Tripwire i
 * has fired, if setting the bit is among its actions. Bit i is in word i / 32.
 */
#define CLAN_STATE_BITS 0x300

/*
 * Two u32, stored by the owner: its half of the bitmap. A bit is set where the halves differ. Both
 * are 0 when the endpoint is opened.
 */
#define CLAN_STATE_CLEARED 0x308

/*
 * Number of bits that a process can wait for: as many as fit into
 * CLAN_REG_ARM.
 */
#define CLAN_BITS 48

/* Bit of the bitmap: a DMA request with CLAN_DMA_NOTIFY has ended. */
#define CLAN_BIT_DMA 32

/* Bit of the bitmap: there was a fault. */
#define CLAN_BIT_FAULT 33

/* Bit of the bitmap: there is a message. */
#define CLAN_BIT_MESSAGE 34

/* Messages, CLAN_MESSAGES of clan_message, which the driver writes. */
#define CLAN_STATE_MESSAGES 0x800

/* Maximum number of waiting messages; a power of two. */
#define CLAN_MESSAGES 32

/* Bytes before the DMA requests. */
#define CLAN_STATE_SIZE 4096

/*
 * Fault: the aperture does not exist on that host, has another key or does not allow the access,
 * or the byte is outside.
 */
#define CLAN_FAULT_REFUSED 1

/* Fault: the other host did not answer in time, or the link is down. */
#define CLAN_FAULT_TIMEOUT 2

/* Fault: the other host's memory could not be accessed. */
#define CLAN_FAULT_MEMORY 3

/*
 * Fault: an invalid store or load of the window: outside of it, misaligned, or a load from a
 * group.
 */
#define CLAN_FAULT_WINDOW 4

/*
 * Fault: a store was lost. The card had no space for it, because the link is down or the other
 * host has not taken packets for too long.
 */
#define CLAN_FAULT_LOST 5

/*
 * An asynchronous event queue (section 3.5): a ring in its owner's memory, with the events of any
 * number of endpoints.
 *
 * Each event has a *source*: a Tripwire, or an endpoint's DMA requests, messages or faults. A
 * source has at most one untaken record in the queue, however often it fires meanwhile. The queue
 * has space for one record of each source of its endpoints, and for records that other endpoints
 * have left in it. So it is never full. The owner takes a record and stores the number of records
 * it has taken to CLAN_EVENTS_TAKEN. It issues a full barrier, and then looks at what has
 * happened.
 */

/*
 * In the queue's first page, u32, stored by the owner: number of records that it has taken, modulo
 * 2^32.
 */
#define CLAN_EVENTS_TAKEN 0x000

/* Bytes before the records. */
#define CLAN_EVENTS_HEAD 4096

/* Minimum number of records in a queue. */
#define CLAN_MIN_EVENTS 16

/* Maximum number of records in a queue. */
#define CLAN_MAX_EVENTS 65536

/* Bytes of a record. */
#define CLAN_EVENT_SIZE 16

/* Event: a Tripwire has fired. detail is its number. */
#define CLAN_EVENT_TRIPWIRE 1

/*
 * Event: a DMA request with CLAN_DMA_NOTIFY has ended.
 * CLAN_STATE_DONE has the number of requests that have ended.
 */
#define CLAN_EVENT_DMA 2

/* Event: there is a message. */
#define CLAN_EVENT_MESSAGE 3

/* Event: there was a fault. */
#define CLAN_EVENT_FAULT 4

/* An event. Record n, counted from 0, is at n modulo the queue's size. */
struct clan_event {
	/* Kind of event, CLAN_EVENT_*. */
	__le32 kind;
	/* The endpoint. */
	__le32 endpoint;
	/* Depends on the kind. */
	__le32 detail;
	/* n + 1, modulo 2^32. The card writes it last. */
	__le32 number;
};

/*
 * The FIFO (section 2.5). It holds identifiers of Tripwires that have fired, if that is among
 * their actions. It also holds endpoints and event queues on which a process sleeps and that have
 * an event.
 *
 * The card writes records to a ring in the driver's memory, and raises
 * CLAN_VECTOR_FIFO for the first. When the driver has taken the records, it
 * stores their number to CLAN_REG_FIFO_TAKEN. If there are more by then, the
 * card raises the vector again. A Tripwire, endpoint or queue with an untaken record gets no
 * second one.
 */

/* Maximum number of records in the FIFO. */
#define CLAN_MAX_FIFO 524288

/* Bytes of a record. */
#define CLAN_FIFO_SIZE 8

/* In clan_fifo_record.what: an event queue, not an endpoint. */
#define CLAN_FIFO_EVENTS 0x80000000

/*
 * In clan_fifo_record.what: a Tripwire has fired. Its endpoint is in the lower 16 bits; its
 * number in the endpoint is above them (CLAN_FIFO_NUMBER_SHIFT).
 */
#define CLAN_FIFO_TRIPWIRE 0x40000000

/* In clan_fifo_record.what of a Tripwire: the bit position of its number. */
#define CLAN_FIFO_NUMBER_SHIFT 16

/* A record. Record n, counted from 0, is at n modulo the ring's size. */
struct clan_fifo_record {
	/*
	 * The endpoint, CLAN_FIFO_EVENTS and the event queue, or CLAN_FIFO_TRIPWIRE and the
	 * Tripwire.
	 */
	__le32 what;
	/* n + 1, modulo 2^32. The card writes it last. */
	__le32 number;
};

/* Identity of the CLAN card. */

/* PCI device id of the CLAN card. */
#define CLAN_PCI_DEVICE 0x434c

/* Value of ULN_REG_MODEL for the CLAN card. */
#define CLAN_MODEL 3

/* Value of ULN_REG_ABI_VERSION for the CLAN card. */
#define CLAN_ABI_VERSION 0x00010000

/* Registers of the CLAN card, in BAR 0, besides those that all cards have. */

/* RO. Number of apertures. */
#define CLAN_REG_APERTURES 0x100

/* RO. Number of window pages. The first is behind the last endpoint's page, in BAR 2. */
#define CLAN_REG_WINDOW_PAGES 0x104

/* RO. Number of endpoints. */
#define CLAN_REG_ENDPOINTS 0x108

/* RO. Number of Tripwires of all endpoints together (section 2.5: 4,096). */
#define CLAN_REG_TRIPWIRES 0x10c

/* RO. Number of event queues. */
#define CLAN_REG_EVENT_QUEUES 0x110

/* RO. Maximum bytes of data in a packet. */
#define CLAN_REG_BURST 0x114

/* RW. Where bursts are joined: any of CLAN_JOIN_*. Its power-on value is a setting of the card. */
#define CLAN_REG_JOIN 0x118

/* RW. Time limit of a remote read, in milliseconds: 1 to CLAN_MAX_READ_TIMEOUT. */
#define CLAN_REG_READ_TIMEOUT 0x11c

/* WO. Number of FIFO records that the driver has taken, modulo 2^32 (fifo). */
#define CLAN_REG_FIFO_TAKEN 0x120

/* RO. Number of words that a host may have in flight to another (credits, section 2.2). */
#define CLAN_REG_CREDITS 0x124

/*
 * WO, 8 bytes. A process sleeps on an endpoint. The lower 16 bits are the endpoint's number; above
 * them are the bits of CLAN_STATE_BITS that it waits for, at most 48. If one
 * of them is set, or as soon as one is, the card puts the endpoint into the FIFO, once.
 */
#define CLAN_REG_ARM 0x128

/*
 * WO, 8 bytes. A process sleeps on an event queue. The lower half is the queue's number; the upper
 * half is the number of records the process has taken, modulo 2^32. If there are more, or as soon
 * as there are, the card puts the queue into the FIFO, once.
 */
#define CLAN_REG_ARM_EVENTS 0x130

/*
 * WO. The driver has put a message into the queue of the endpoint with this number, which is an
 * event of that endpoint. With CLAN_POST_DMA: the driver has executed a DMA request of that
 * endpoint.
 */
#define CLAN_REG_POST 0x138

/*
 * In CLAN_REG_POST, with an endpoint's number: a DMA request that the driver executed has
 * ended.
 */
#define CLAN_POST_DMA 0x80000000

/*
 * In CLAN_REG_JOIN: consecutive stores leave as one packet, as long as the first has not left
 * (section 2.2).
 */
#define CLAN_JOIN_LEAVING 1

/* In CLAN_REG_JOIN: consecutive packets are written to memory as one burst (section 5.2). */
#define CLAN_JOIN_ARRIVING 2

/*
 * Maximum value of CLAN_REG_READ_TIMEOUT. The bus waits 2,000 ms for a load, and does not
 * notify the card when it ends one.
 */
#define CLAN_MAX_READ_TIMEOUT 1900

/* MSI-X vector for new records in the FIFO. */
#define CLAN_VECTOR_FIFO 1

/*
 * The CLAN card's counters. They are 64 bits wide, count from the card's start or reset, and are
 * in the order of clan_statistic.
 */

/* Number of counters. */
#define CLAN_STATISTICS 34

/*
 * A Tripwire (sections 2.5 and 3.3), programmed at user level by stores to its endpoint's page.
 *
 * It watches a range of bytes. A local Tripwire watches an aperture of the same owner, for
 * accesses by other hosts. A remote Tripwire watches an aperture that the owner's own windows and
 * DMA requests access, for these accesses. It *fires* once for each access (super) that
 * touches the range, after the memory was written or read. A remote Tripwire fires when the packet
 * has left the card, or the answer to a read has arrived. Watching needs no key: a process that
 * may not access memory makes no accesses to it that a Tripwire could watch.
 *
 * The card keeps the first three words until CLAN_TRIPWIRE_CONTROL is stored. That store
 * applies all of them at once: the Tripwire is disabled, and then enabled if the control word
 * requests it. The card answers in the endpoint's memory, with the same serial number:
 * CLAN_TRIPWIRE_OK, or what was wrong. A refused Tripwire is disabled.
 */

/* Bytes between two Tripwires in an endpoint's page. */
#define CLAN_TRIPWIRE_STRIDE 64

/* u64: offset of the first watched byte. */
#define CLAN_TRIPWIRE_OFFSET 0x00

/* u64: number of watched bytes, at least 1. */
#define CLAN_TRIPWIRE_LENGTH 0x08

/*
 * u64: the aperture in the lower half. The upper half is its host if the Tripwire is remote,
 * otherwise 0.
 */
#define CLAN_TRIPWIRE_TARGET 0x10

/* u32: any of CLAN_TRIPWIRE_*, and a serial number in the upper half. */
#define CLAN_TRIPWIRE_CONTROL 0x18

/* The Tripwire is enabled. */
#define CLAN_TRIPWIRE_ENABLE 1

/* Writes fire it. */
#define CLAN_TRIPWIRE_WRITES 2

/* Reads fire it. */
#define CLAN_TRIPWIRE_READS 4

/* It watches this host's accesses to another host's memory. */
#define CLAN_TRIPWIRE_REMOTE 8

/* It is disabled when it fires (section 3.3). */
#define CLAN_TRIPWIRE_ONCE 16

/*
 * Action: puts its identifier into the FIFO and interrupts, whether or not a process sleeps. Its
 * bit is set as with CLAN_TRIPWIRE_BIT; by that bit the driver finds the process that sleeps
 * on it.
 */
#define CLAN_TRIPWIRE_FIFO 32

/* Action: sets its bit in the bitmap (CLAN_STATE_BITS). */
#define CLAN_TRIPWIRE_BIT 64

/* Action: counts in CLAN_STATE_TRIPWIRES. */
#define CLAN_TRIPWIRE_COUNT 128

/* Action: makes an event of its endpoint (event). */
#define CLAN_TRIPWIRE_EVENT 256

/* All valid flags in the lower half of a control word. */
#define CLAN_TRIPWIRE_FLAGS 511

/* Answer: enabled or disabled, as requested. */
#define CLAN_TRIPWIRE_OK 1

/* Answer: the owner has no such aperture. */
#define CLAN_TRIPWIRE_NO_APERTURE 2

/* Answer: the range is empty, or not within the aperture. */
#define CLAN_TRIPWIRE_BAD_RANGE 3

/* Answer: invalid flags, for example neither writes nor reads, or no action. */
#define CLAN_TRIPWIRE_BAD_FLAGS 4

/*
 * Answer: CLAN_TRIPWIRES_AT_ONCE Tripwires of similar length watch a part of the range
 * already.
 */
#define CLAN_TRIPWIRE_CROWDED 5

/* Answer: the endpoint has no event queue, or the queue has no space for another source. */
#define CLAN_TRIPWIRE_NO_EVENTS 6

/*
 * Maximum number of Tripwires of similar length (2^(n-1) + 1 to 2^n words) that may watch one
 * place (an aligned piece of 2^n words). This bounds the cost of an access.
 */
#define CLAN_TRIPWIRES_AT_ONCE 64

/*
 * Messages between the drivers of two hosts about endpoints, of the card's own kind
 * (ULN_WIRE_CARD). reason is the message's kind, from the sender's port, and to the
 * receiver's.
 *
 * Each operating system has an aperture for the messages of the others (CLAN_SYSTEM_APERTURE).
 * The messages lie in the sender's part of it, as [records](crate::kernel::wire::UlnRecord). A
 * Tripwire over the aperture shows that there is one.
 */

/* Number of the aperture for operating systems' messages. It is privileged, and has parts. */
#define CLAN_SYSTEM_APERTURE 0

/* Its key, which is not a secret. */
#define CLAN_SYSTEM_KEY 0x4e414c4353595354ULL

/* A message for an endpoint. Followed by clan_said. */
#define CLAN_SAY_MESSAGE 1

/*
 * The message of from was lost: endpoint to does not exist, has no space, or ended without an
 * answer to a request. Followed by clan_said, the message.
 */
#define CLAN_SAY_UNDELIVERED 2

/* Endpoint from, which was a peer of to, has ended. */
#define CLAN_SAY_GONE 3

/* An out-of-band message (section 3.1). */
struct clan_said {
	/* CLAN_MESSAGE_*, one that a process may send. */
	__le32 kind;
	/* Zero. */
	__le32 reserved;
	/* Its payload. */
	__le64 data[5];
};

#endif /* _CLAN_CARD_H */

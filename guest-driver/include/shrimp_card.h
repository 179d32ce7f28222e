/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What a guest and a Shrimp card agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-headers: do not edit.
 */
#ifndef _SHRIMP_CARD_H
#define _SHRIMP_CARD_H

#include <linux/types.h>
#include "uln.h"
#include "uln_kernel.h"

/*
 * The arrival queue: pages with arrivals to be reported (section 4.2).
 *
 * The card writes records to a ring in the driver's memory, and raises
 * SHRIMP_VECTOR_ARRIVAL for the first. When the driver has taken the
 * records, it stores their number to SHRIMP_REG_ARRIVALS_TAKEN. If there are
 * more by then, the card raises the vector again. A page with an untaken record gets no second
 * one.
 */

/* Minimum number of records in the queue. */
#define SHRIMP_MIN_ARRIVALS 16

/* Maximum number of records in the queue. */
#define SHRIMP_MAX_ARRIVALS 65536

/* Bytes of a record. */
#define SHRIMP_ARRIVAL_SIZE 8

/* A record of an arrival. Record n, counted from 0, is at n modulo the queue's size. */
struct shrimp_arrival {
	/* The page. */
	__le32 page;
	/* n + 1, modulo 2^32. The card writes it last. */
	__le32 number;
};

/* The SHRIMP card's commands, besides those that all cards have (command). */

/*
 * Sets the page table entry of page index. Body: shrimp_entry. When the
 * command has completed, nothing that only the earlier entry allowed is in flight in this card.
 * Transfers from a part that is now mapped to another place, or unmapped, have ended, and nothing
 * more is deposited.
 */
#define SHRIMP_COMMAND_SET_ENTRY 1

/* Sets the page for messages of the operating system of host index. Body: shrimp_system_page. */
#define SHRIMP_COMMAND_SET_SYSTEM_PAGE 2

/* Opens the arrival queue. Body: shrimp_open_arrivals. */
#define SHRIMP_COMMAND_OPEN_ARRIVALS 3

/* Closes the arrival queue. */
#define SHRIMP_COMMAND_CLOSE_ARRIVALS 4

/*
 * Sets several entries: index is the number of entries, 1 to SHRIMP_MAX_ENTRIES. Body: that
 * many shrimp_page_entry, each for another page. The card checks all
 * entries before it sets the first one. Each entry has the same effect as with
 * SHRIMP_COMMAND_SET_ENTRY. The card skips an entry that
 * SHRIMP_ENTRY_UNLESS_BUSY refuses and sets the others. It writes a u64
 * to the body: bit n is set if entry n was skipped.
 */
#define SHRIMP_COMMAND_SET_ENTRIES 5

/* Maximum number of entries of SHRIMP_COMMAND_SET_ENTRIES: as many as fit in the command page. */
#define SHRIMP_MAX_ENTRIES 45

/* Body of SHRIMP_COMMAND_SET_SYSTEM_PAGE. */
struct shrimp_system_page {
	/* The page: its address divided by 4,096. Each arrival for it is reported. */
	__le64 page;
	/* 1 if there is a page, otherwise 0. */
	__le32 mapped;
	/* Zero. */
	__le32 reserved;
};

/* Body of SHRIMP_COMMAND_OPEN_ARRIVALS. */
struct shrimp_open_arrivals {
	/* The queue: records of shrimp_arrival, all zero. */
	struct uln_area queue;
	/*
	 * Number of records: a power of two from SHRIMP_MIN_ARRIVALS to
	 * SHRIMP_MAX_ARRIVALS.
	 */
	__le32 records;
	/* Zero. */
	__le32 reserved;
};

/*
 * An entry of the page table, the NIPT (sections 3.1, 3.2 and 4).
 *
 * In each direction, out and in, a page may be split between two mappings: part 0 is below the
 * split, part 1 is the rest. A byte that is stored at an offset of a page arrives at the same
 * offset of the page that its part is mapped to.
 */

/* Not mapped out. */
#define SHRIMP_MODE_NONE 0

/* Automatic update, single-write: each store is sent at once as a packet (section 4.1). */
#define SHRIMP_MODE_SINGLE 1

/* Automatic update, blocked-write: consecutive stores are sent as one packet (section 4.1). */
#define SHRIMP_MODE_BLOCKED 2

/* Deliberate update: a command names what is sent (section 4.3). */
#define SHRIMP_MODE_DELIBERATE 3

/*
 * In shrimp_entry.flags: a part that stays mapped to the same place keeps its mode, which a
 * process may have changed.
 */
#define SHRIMP_ENTRY_KEEP_MODES 1ULL

/*
 * In shrimp_entry.flags, for part 0: it is mapped out, but the card sends nothing of it until
 * an entry without this flag is set. The card still watches its stores. With
 * SHRIMP_ENTRY_KEEP_MODES, the part then gets its mode back, wherever it is mapped to (section
 * 4.4).
 */
#define SHRIMP_ENTRY_WITHHOLD_0 2ULL

/* Like SHRIMP_ENTRY_WITHHOLD_0, for part 1. */
#define SHRIMP_ENTRY_WITHHOLD_1 4ULL

/*
 * In shrimp_entry.flags: refuses the entry as in use while it would end a running or waiting
 * transfer from the page. Without this flag the transfer ends.
 */
#define SHRIMP_ENTRY_UNLESS_BUSY 8ULL

/*
 * In shrimp_entry.flags: transfers from the page are the operating system's own. Those of
 * processes do not take their places in the queue of the engine for deliberate update.
 */
#define SHRIMP_ENTRY_SYSTEM 16ULL

/*
 * In shrimp_in.flags: each arrival for the part is reported (section 4.2). To be notified of
 * only the next arrival, use the page's command page.
 */
#define SHRIMP_IN_REPORT 1

/* Number of hosts that can store to a page: those with ids below this. */
#define SHRIMP_IN_NODES 64

/*
 * In shrimp_out.page: the page that the other host's operating system has for messages of this
 * host's, wherever it is.
 */
#define SHRIMP_SYSTEM_PAGE 0x0008000000000000ULL

/* Destination of a part of a page that is mapped out. */
struct shrimp_out {
	/* The destination page: its address divided by 4,096, or SHRIMP_SYSTEM_PAGE. */
	__le64 page;
	/* The destination host. */
	__le32 node;
	/* SHRIMP_MODE_*. */
	__le32 mode;
};

/* The hosts that may store to a part of a page. */
struct shrimp_in {
	/* The hosts: bit n is host n. If none is set, the part is not mapped in. */
	__le64 nodes;
	/* SHRIMP_IN_REPORT or 0. */
	__le32 flags;
	/* Zero. */
	__le32 reserved;
};

/* An entry. One that is all zero maps nothing. */
struct shrimp_entry {
	/* First byte of the second part going out, 0 to 4,096. */
	__le32 split_out;
	/* First byte of the second part coming in, 0 to 4,096. */
	__le32 split_in;
	/* Outgoing mappings, by part. */
	struct shrimp_out out[2];
	/* Incoming mappings, by part. */
	struct shrimp_in incoming[2];
	/* Any of SHRIMP_ENTRY_*. */
	__le64 flags;
};

/* A page and its entry, for SHRIMP_COMMAND_SET_ENTRIES. */
struct shrimp_page_entry {
	/* The page: its address divided by 4,096. */
	__le32 page;
	/* Zero. */
	__le32 reserved;
	/* The page's entry. */
	struct shrimp_entry entry;
};

/* Identity of the SHRIMP card. */

/* PCI device id of the SHRIMP card. */
#define SHRIMP_PCI_DEVICE 0x5348

/* Value of ULN_REG_MODEL for the SHRIMP card. */
#define SHRIMP_MODEL 2

/* Value of ULN_REG_ABI_VERSION for the SHRIMP card. */
#define SHRIMP_ABI_VERSION 0x00010004

/*
 * BAR 2: loads and stores by which the host's processors control the card (section 4.2).
 *
 * With n pages in the page table, the command page of the host's page p is at byte p * 4096.
 * Its window page is at byte (n + p) * 4096. Each is at a fixed distance from the page itself.
 * So an operating system that gives page p to a process can give it these pages too, and revoke
 * them.
 *
 * # Command pages
 * Loads and stores are 4 bytes, at the offset of the byte that they apply to.
 *
 * A load shows whether the engine for deliberate update is free. It returns 0 if it is. Otherwise
 * it returns SHRIMP_BUSY with the words left of the current transfer, SHRIMP_BASE if that
 * transfer was started at this very place, and SHRIMP_WAITS if one that was started here
 * waits. The card reads a transfer in pieces and handles accesses between two of them, so the
 * words left fall in steps.
 *
 * A store of n, 1 to SHRIMP_MAX_WORDS, starts a transfer of n words from that place on. It
 * must end in the page and in the same part. So a process repeats one locked instruction, which
 * compares with 0 and exchanges with n, until it finds 0 (section 4.3). A processor whose
 * compare fails writes back what it has read. That is 0 or has SHRIMP_BUSY set, and never
 * starts a transfer. If the bus does not keep the two halves of a locked instruction together, two
 * processors may both find the engine free. The second transfer then waits for the first; up to
 * SHRIMP_MAX_WAITING wait, one for each page. Transfers of the operating system's own pages
 * are not counted among these. One for each of their places may wait, and
 * SHRIMP_MAX_SYSTEM_WAITING in all.
 *
 * A store of SHRIMP_SET_MODE plus SHRIMP_MODE_* changes the update mode of the part, which
 * must be mapped out. SHRIMP_REPORT_NEXT requests a report of the next arrival for the page.
 * It cannot be cancelled, because other processes may rely on it.
 *
 * A refused access changes nothing, and is counted.
 *
 * # Window pages
 * Window pages are for hosts whose stores the card does not see. The card executes a store to a
 * window page, of 1, 2, 4 or 8 bytes, in the page itself. It then handles the store like one that
 * it has seen. Each byte must be mapped out. While the Outgoing FIFO is at its threshold, the card
 * accepts no access. A posted store then waits on its way, and its processor waits at its next
 * load. The card refuses a store that does not fit into the FIFO at all. A load returns the page's
 * content.
 */

/* Maximum number of words in a transfer: a page. */
#define SHRIMP_MAX_WORDS 1024

/*
 * In the result of a load: the engine has a transfer; the words left of it are in the lower half.
 */
#define SHRIMP_BUSY 0x80000000

/* In the result of a load: the transfer was started at this place. */
#define SHRIMP_BASE 0x40000000

/* In the result of a load: a transfer that was started at this place waits for others. */
#define SHRIMP_WAITS 0x20000000

/* In the result of a load: mask of the words left. */
#define SHRIMP_LEFT 0x0000ffff

/* Maximum number of transfers that wait for the engine, without the operating system's own. */
#define SHRIMP_MAX_WAITING 64

/* Maximum number of the operating system's own transfers that wait for the engine. */
#define SHRIMP_MAX_SYSTEM_WAITING 4096

/* Stored with SHRIMP_MODE_* added: changes the update mode. */
#define SHRIMP_SET_MODE 0x01000000

/* Stored: requests a report of the next arrival for the page. */
#define SHRIMP_REPORT_NEXT 0x02000000

/* Registers of the SHRIMP card, in BAR 0, besides those that all cards have. */

/* RO. Entries of the page table (NIPT): one for each page of the host's memory, from address 0. */
#define SHRIMP_REG_PAGES 0x100

/*
 * RO. Columns of the backplane's mesh: host n is at column n modulo this, and row n divided
 * by it (section 3.1).
 */
#define SHRIMP_REG_COLUMNS 0x104

/* RO. Size of each of the two FIFOs, in bytes (section 4). */
#define SHRIMP_REG_FIFO 0x108

/*
 * RW. Threshold of the Outgoing FIFO, in bytes, at which the processor is interrupted (section 4):
 * 1 to SHRIMP_REG_FIFO.
 */
#define SHRIMP_REG_OUT_THRESHOLD 0x10c

/*
 * RW. Threshold of the Incoming FIFO, in bytes, at which the card accepts nothing more from the
 * network: 1 to SHRIMP_REG_FIFO.
 */
#define SHRIMP_REG_IN_THRESHOLD 0x110

/* RO. Bytes in the Outgoing FIFO. */
#define SHRIMP_REG_OUT_FILL 0x114

/* RO. Bytes in the Incoming FIFO. */
#define SHRIMP_REG_IN_FILL 0x118

/*
 * RW. Time after a store in which the next one may go into the same packet (blocked-write, section
 * 4.1), in microseconds: 0 to SHRIMP_MAX_MERGE_TIME.
 */
#define SHRIMP_REG_MERGE_TIME 0x11c

/*
 * RW. 1: arriving packets stay in the Incoming FIFO until this is 0 again. The card clears it when
 * the FIFO has been full for 5 seconds. It then stays 0 for 300 seconds, also across a reset. 0 at
 * power-on.
 */
#define SHRIMP_REG_HOLD 0x120

/*
 * RO. 1 if the card sees the stores of this host's processors on their bus. 0 if they must be made
 * through its window (memory).
 */
#define SHRIMP_REG_SNOOPS 0x124

/*
 * WO. Number of records of the arrival queue that the driver has taken, modulo 2^32
 * (arrival).
 */
#define SHRIMP_REG_ARRIVALS_TAKEN 0x128

/*
 * RO, 8 bytes. Hosts that are cut off, bit n for host n: the card discards stores for them. A
 * cut-off lasts 60 seconds. The card cuts a host off when it has kept the Outgoing FIFO at its
 * threshold for 3 seconds, in sum. The host must also have taken less than its share of a
 * sixteenth of SHRIMP_REG_FIFO bytes meanwhile. It is cut off sooner after another host was,
 * and when an access has waited for it for 4 seconds. SHRIMP_VECTOR_OUTGOING is raised.
 */
#define SHRIMP_REG_CUT_OFF 0x130

/* Maximum value of SHRIMP_REG_MERGE_TIME. */
#define SHRIMP_MAX_MERGE_TIME 1000000

/* MSI-X vector that reports arrivals: there are new records in the arrival queue. */
#define SHRIMP_VECTOR_ARRIVAL 1

/*
 * MSI-X vector that reports that the Outgoing FIFO has reached its threshold. It is raised again
 * after the FIFO has been down to half of the threshold. It also reports that a host is cut off
 * (SHRIMP_REG_CUT_OFF).
 */
#define SHRIMP_VECTOR_OUTGOING 2

/*
 * The SHRIMP card's counters. They are 64 bits wide, count from the card's start or reset, and are
 * in the order of shrimp_statistic.
 */

/* Number of counters. */
#define SHRIMP_STATISTICS 30

/*
 * Messages between the drivers of two hosts about exports and mappings, of the card's own kind
 * (ULN_WIRE_CARD). reason is the message's kind. A structure of this file follows the head.
 *
 * A mapping is requested piece by piece, each with as many pages as fit into a message
 * (SHRIMP_SAY_MAP, SHRIMP_SAY_PAGES or SHRIMP_SAY_REFUSED). SHRIMP_SAY_UNMAP
 * announces the end of a mapping. SHRIMP_SAY_GONE announces the end of an export;
 * SHRIMP_SAY_UNMAP answers it for each mapping (section 4.4). The exporter's pages are not
 * used for anything else before that, because stores may still be in flight. Messages and stores
 * of one host arrive in order, so earlier stores have arrived before the message.
 *
 * A page of an export may leave while the export stays. SHRIMP_SAY_INVALIDATE notifies its
 * mappings. They confirm by SHRIMP_SAY_INVALIDATED that they no longer store to it, and
 * request it by SHRIMP_SAY_AGAIN before they store again.
 *
 * Messages lie in a page that the sender has for each host (SHRIMP_SYSTEM_PAGE),
 * as records of this file.
 */

/*
 * Requests pages of an export: from is the sender's mapping, to the export. Followed by
 * shrimp_ask.
 */
#define SHRIMP_SAY_MAP 1

/*
 * Grants pages to mapping to, which are mapped in for it from now on. Followed by
 * shrimp_pages.
 */
#define SHRIMP_SAY_PAGES 2

/* Refuses mapping to. Followed by shrimp_refused. */
#define SHRIMP_SAY_REFUSED 3

/* Mapping from has ended, or was never made: it sends nothing more. */
#define SHRIMP_SAY_UNMAP 4

/* Export from has ended. SHRIMP_SAY_UNMAP is expected for each mapping of it. */
#define SHRIMP_SAY_GONE 5

/*
 * Mapping to must no longer store to pages of export from, which are to be used for something
 * else (section 4.4). Followed by shrimp_part. If the mapping's process cannot be prevented
 * from storing, the mapping does not answer.
 */
#define SHRIMP_SAY_INVALIDATE 6

/*
 * Mapping from no longer stores to pages of export to, and will ask before it does again.
 * Followed by shrimp_part.
 */
#define SHRIMP_SAY_INVALIDATED 7

/*
 * Mapping from requests pages of export to that it had before, one request at a time. Followed
 * by shrimp_part. The answer is the same as to SHRIMP_SAY_MAP.
 */
#define SHRIMP_SAY_AGAIN 8

/* Refused: the export does not exist, is not for this host, or has another key. */
#define SHRIMP_REFUSED_ACCESS 1

/* Refused: the export is shorter. */
#define SHRIMP_REFUSED_RANGE 2

/* Refused: the export begins at another page offset. */
#define SHRIMP_REFUSED_PLACE 3

/* Refused: the export has too many mappings. */
#define SHRIMP_REFUSED_ROOM 4

/* Maximum number of pages in a message. */
#define SHRIMP_PIECE 31

/* Requests pages. */
struct shrimp_ask {
	/* The export's key. */
	__le64 key;
	/* First byte of the export that is mapped. */
	__le64 offset;
	/* Bytes of the whole mapping. */
	__le64 length;
	/* The first requested page, counted from the mapping's first. */
	__le32 first;
	/* Page offset of the mapping's buffer. */
	__le32 place;
};

/* Pages of an export. */
struct shrimp_pages {
	/* The first page, counted from the mapping's first. */
	__le32 first;
	/* Number of pages, 1 to SHRIMP_PIECE. */
	__le32 count;
	/* The pages: addresses divided by 4,096. */
	__le64 pages[31];
};

/* Pages of a mapping. */
struct shrimp_part {
	/* The first page, counted from the mapping's first. */
	__le32 first;
	/* Number of pages, at least 1; 1 to SHRIMP_PIECE if they are requested again. */
	__le32 count;
};

/* Why pages are refused. */
struct shrimp_refused {
	/* SHRIMP_REFUSED_*. */
	__le32 why;
	/* Zero. */
	__le32 reserved;
};

#endif /* _SHRIMP_CARD_H */

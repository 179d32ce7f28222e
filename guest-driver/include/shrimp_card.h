/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What a guest and a Shrimp card agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-tests --bin headers: do not edit.
 */
#ifndef _SHRIMP_CARD_H
#define _SHRIMP_CARD_H

#include <linux/types.h>
#include "hamlyn_family.h"
#include "hamlyn_kernel.h"

/*
 * The arrival queue: pages for which something has arrived that was to be reported (section 4.2).
 *
 * The card writes records to a ring in the driver's memory and raises SHRIMP_VECTOR_ARRIVAL for the
 * first. When the driver has taken what is there it says so in SHRIMP_REG_ARRIVALS_TAKEN, and the
 * vector is raised again if there is more by then. A page that has a record which is not taken yet
 * gets no second one.
 */

/* The fewest records of the queue. */
#define SHRIMP_MIN_ARRIVALS 16

/* The most records of the queue. */
#define SHRIMP_MAX_ARRIVALS 65536

/* Bytes of a record. */
#define SHRIMP_ARRIVAL_SIZE 8

/* Something has arrived. The n-th record, from 0, is at n modulo the queue's size. */
struct shrimp_arrival {
	/* The page. */
	__u32 page;
	/* n + 1, modulo 2^32. The card writes it last. */
	__u32 number;
};

/* The SHRIMP card's operations, beside those that all cards have (command). */

/*
 * Set an entry of the page table: index is the page. Body: shrimp_entry. When it is answered,
 * nothing that the earlier entry alone allowed is under way in this card: transfers from a part
 * that is mapped to another place, or not, have ended, and nothing more is deposited.
 */
#define SHRIMP_COMMAND_SET_ENTRY 1

/*
 * Set the page for messages of another host's operating system: index is the host. Body:
 * shrimp_system_page.
 */
#define SHRIMP_COMMAND_SET_SYSTEM_PAGE 2

/* Open the arrival queue. Body: shrimp_open_arrivals. */
#define SHRIMP_COMMAND_OPEN_ARRIVALS 3

/* Close the arrival queue. */
#define SHRIMP_COMMAND_CLOSE_ARRIVALS 4

/*
 * Set several entries: index is the number of entries, 1 to SHRIMP_MAX_ENTRIES. Body: that many
 * shrimp_page_entry, each for another page. The card checks all entries before it sets the first
 * one, and each entry means what it means to SHRIMP_COMMAND_SET_ENTRY. The card skips an entry that
 * SHRIMP_ENTRY_UNLESS_BUSY refuses and sets the others. It writes a u64 to the body: bit n is set
 * if entry n was skipped.
 */
#define SHRIMP_COMMAND_SET_ENTRIES 5

/* The most entries of SHRIMP_COMMAND_SET_ENTRIES: as many as fit in the command page. */
#define SHRIMP_MAX_ENTRIES 45

/* Body of SHRIMP_COMMAND_SET_SYSTEM_PAGE. */
struct shrimp_system_page {
	/* The page: its address divided by 4,096. Each arrival for it is reported. */
	__u64 page;
	/* 1, or 0 if there is none any more. */
	__u32 mapped;
	/* Zero. */
	__u32 reserved;
};

/* Body of SHRIMP_COMMAND_OPEN_ARRIVALS. */
struct shrimp_open_arrivals {
	/* The queue: records of shrimp_arrival, all zero. */
	struct hamlyn_area queue;
	/* Records, SHRIMP_MIN_ARRIVALS to SHRIMP_MAX_ARRIVALS, a power of two. */
	__u32 records;
	/* Zero. */
	__u32 reserved;
};

/*
 * An entry of the page table, the NIPT (sections 3.1, 3.2 and 4).
 *
 * A page may be split between two mappings, going out as well as coming in: part 0 is what is below
 * the split, part 1 the rest. A byte that is stored at an offset of a page arrives at the same
 * offset of the page that its part is mapped to.
 */

/* Not mapped out. */
#define SHRIMP_MODE_NONE 0

/* Automatic update, single-write: each store is a packet, at once (section 4.1). */
#define SHRIMP_MODE_SINGLE 1

/* Automatic update, blocked-write: stores that follow each other are one packet (section 4.1). */
#define SHRIMP_MODE_BLOCKED 2

/* Deliberate update: what is sent is said by a command (section 4.3). */
#define SHRIMP_MODE_DELIBERATE 3

/*
 * In shrimp_entry.flags: a part that stays mapped out to where it is keeps its mode, which a
 * process may have changed.
 */
#define SHRIMP_ENTRY_KEEP_MODES 1ULL

/*
 * In shrimp_entry.flags, for part 0: it is mapped out, but nothing of it is sent until an entry
 * without this flag is set. Its stores are watched all the while. With SHRIMP_ENTRY_KEEP_MODES it
 * has its mode back then, wherever it is mapped to (section 4.4).
 */
#define SHRIMP_ENTRY_WITHHOLD_0 2ULL

/* The same, for part 1. */
#define SHRIMP_ENTRY_WITHHOLD_1 4ULL

/*
 * In shrimp_entry.flags: while a transfer from the page is under way or waits that the entry would
 * end, it is refused as in use. Without this the transfer ends.
 */
#define SHRIMP_ENTRY_UNLESS_BUSY 8ULL

/*
 * In shrimp_in.flags: each arrival for the part is reported (section 4.2). Who wants to know of the
 * next one only asks for it by the page's command page.
 */
#define SHRIMP_IN_REPORT 1

/* How many hosts can store to a page: those with ids below this. */
#define SHRIMP_IN_NODES 64

/*
 * In shrimp_out.page: the page that the other host's operating system has for messages of this
 * one's, wherever that is.
 */
#define SHRIMP_SYSTEM_PAGE 0x0008000000000000ULL

/* Where a part of a page is mapped out to. */
struct shrimp_out {
	/* The page there: its address divided by 4,096. Or SHRIMP_SYSTEM_PAGE. */
	__u64 page;
	/* The host. */
	__u32 node;
	/* SHRIMP_MODE_*. */
	__u32 mode;
};

/* Whose stores a part of a page takes. */
struct shrimp_in {
	/*
	 * The hosts that they may come from: bit n is host n. If there is none, the part is not
	 * mapped in.
	 */
	__u64 nodes;
	/* SHRIMP_IN_REPORT or 0. */
	__u32 flags;
	/* Zero. */
	__u32 reserved;
};

/* An entry. One that is all zero maps nothing. */
struct shrimp_entry {
	/* First byte of the second part going out, 0 to 4,096. */
	__u32 split_out;
	/* First byte of the second part coming in, 0 to 4,096. */
	__u32 split_in;
	/* Going out, by part. */
	struct shrimp_out out[2];
	/* Coming in, by part. */
	struct shrimp_in incoming[2];
	/* SHRIMP_ENTRY_*, any of them. */
	__u64 flags;
};

/* A page and its entry, for SHRIMP_COMMAND_SET_ENTRIES. */
struct shrimp_page_entry {
	/* The page: its address divided by 4,096. */
	__u32 page;
	/* Zero. */
	__u32 reserved;
	/* The page's entry. */
	struct shrimp_entry entry;
};

/* Who the SHRIMP card is. */

/* PCI device id of the SHRIMP card. */
#define SHRIMP_PCI_DEVICE 0x5348

/* Value of HAMLYN_REG_MODEL for the SHRIMP card. */
#define SHRIMP_MODEL 2

/* Value of HAMLYN_REG_ABI_VERSION for the SHRIMP card. */
#define SHRIMP_ABI_VERSION 0x00010003

/*
 * BAR 2: what the host's processors say to the card by loads and stores (section 4.2).
 *
 * With n pages in the page table, the command page of the host's page p is at byte p * 4096, and
 * its window page at byte (n + p) * 4096: each at a fixed distance from the page itself, so that an
 * operating system that lets a process have page p can let it have these, and take them back.
 *
 * # Command pages
 * Loads and stores of 4 bytes, at the offset of the byte that they are about.
 *
 * A load says whether the engine for deliberate update is free: 0, or else SHRIMP_BUSY with the
 * words that are left of the transfer that it has, and SHRIMP_BASE if that was started at this very
 * place. The card reads a transfer in pieces and takes accesses between two of them, so the words
 * that are left fall in steps.
 *
 * A store of n, 1 to SHRIMP_MAX_WORDS, starts a transfer of n words from there on. It must end in
 * the page and in the part of it. So a process compares with 0 and exchanges with n in one locked
 * instruction until it finds 0 (section 4.3). A processor whose compare fails writes back what it
 * has read: that has SHRIMP_BUSY or is 0, and never starts anything. Two processors whose bus does
 * not keep the two halves of a locked instruction together may both be told that the engine is
 * free: then the second transfer waits for the first, up to SHRIMP_MAX_WAITING, one for each page.
 * Those of the operating system's own pages are not counted, and one for each place of them may
 * wait.
 *
 * A store of SHRIMP_SET_MODE plus SHRIMP_MODE_* changes the update mode of the part, which must be
 * mapped out. SHRIMP_REPORT_NEXT asks that the next arrival for the page be reported. It cannot be
 * taken back: others may rely on it.
 *
 * What is refused changes nothing, and is counted.
 *
 * # Window pages
 * For hosts whose stores the card does not see: a store to a window page, of 1, 2, 4 or 8 bytes, is
 * one to the page itself, which the card carries out and then takes for one that it has seen. Each
 * byte must be mapped out. While the Outgoing FIFO is at its threshold no access to the card is
 * taken: a posted store waits on its way, and its processor at its next load. A store that the FIFO
 * cannot hold at all is refused. A load says what is in the page.
 */

/* The most words of a transfer: a page. */
#define SHRIMP_MAX_WORDS 1024

/*
 * In what a load says: the engine has a transfer; the words that are left of it are in the lower
 * half.
 */
#define SHRIMP_BUSY 0x80000000

/* In what a load says: the transfer was started at this place. */
#define SHRIMP_BASE 0x40000000

/* In what a load says: the words that are left. */
#define SHRIMP_LEFT 0x0000ffff

/* The most transfers that wait for the engine. */
#define SHRIMP_MAX_WAITING 64

/* Stored with SHRIMP_MODE_*: changes the update mode. */
#define SHRIMP_SET_MODE 0x01000000

/* Stored: the next arrival for the page is to be reported. */
#define SHRIMP_REPORT_NEXT 0x02000000

/* Registers of the SHRIMP card, in BAR 0, beside those that all cards have. */

/* RO. Entries of the page table (NIPT): one for each page of the host's memory, from address 0. */
#define SHRIMP_REG_PAGES 0x100

/*
 * RO. Columns of the backplane's mesh: host n is at column n modulo this, and row n divided by it
 * (section 3.1).
 */
#define SHRIMP_REG_COLUMNS 0x104

/* RO. Bytes that each of the two FIFOs holds (section 4). */
#define SHRIMP_REG_FIFO 0x108

/*
 * RW. Bytes in the Outgoing FIFO at which the processor is interrupted (section 4): 1 to
 * SHRIMP_REG_FIFO.
 */
#define SHRIMP_REG_OUT_THRESHOLD 0x10c

/*
 * RW. Bytes in the Incoming FIFO at which the card takes nothing more from the network: 1 to
 * SHRIMP_REG_FIFO.
 */
#define SHRIMP_REG_IN_THRESHOLD 0x110

/* RO. Bytes in the Outgoing FIFO. */
#define SHRIMP_REG_OUT_FILL 0x114

/* RO. Bytes in the Incoming FIFO. */
#define SHRIMP_REG_IN_FILL 0x118

/*
 * RW. How long after a store the next may still go into the same packet (blocked-write, section
 * 4.1), in microseconds: 0 to SHRIMP_MAX_MERGE_TIME.
 */
#define SHRIMP_REG_MERGE_TIME 0x11c

/*
 * RW. 1: what arrives stays in the Incoming FIFO until this is 0 again, which it becomes by itself
 * when that has been full for 5 seconds. It stays 0 for 300 seconds then, also over a reset. At
 * power-on 0.
 */
#define SHRIMP_REG_HOLD 0x120

/*
 * RO. 1 if the card sees the stores of this host's processors on their bus; 0 if it has to be told
 * of them by its window (memory).
 */
#define SHRIMP_REG_SNOOPS 0x124

/* WO. How many records of the arrival queue the driver has taken, modulo 2^32 (arrival). */
#define SHRIMP_REG_ARRIVALS_TAKEN 0x128

/*
 * RO, 8 bytes. Hosts that are cut off, bit n for host n: what is stored for them goes nowhere. A
 * host is cut off for 60 seconds when it has kept the Outgoing FIFO at its threshold for 3 seconds,
 * in sum, and has taken less than its share of a sixteenth of SHRIMP_REG_FIFO bytes meanwhile;
 * sooner after another was cut off; and when an access has waited for it for 4 seconds.
 * SHRIMP_VECTOR_OUTGOING is raised.
 */
#define SHRIMP_REG_CUT_OFF 0x130

/* The longest time of SHRIMP_REG_MERGE_TIME. */
#define SHRIMP_MAX_MERGE_TIME 1000000

/* MSI-X vector that reports arrivals: there are new records in the arrival queue. */
#define SHRIMP_VECTOR_ARRIVAL 1

/*
 * MSI-X vector that reports that the Outgoing FIFO has reached its threshold. It is raised again
 * after the FIFO has been down to half of that. Also: a host is cut off (SHRIMP_REG_CUT_OFF).
 */
#define SHRIMP_VECTOR_OUTGOING 2

/*
 * The SHRIMP card's counters. They are 64 bits wide, count from the card's start or reset, and
 * stand in the order of shrimp_statistic.
 */

/* How many counters there are. */
#define SHRIMP_STATISTICS 30

/*
 * What the drivers of two hosts say to each other about exports and mappings, in messages of the
 * card's own (HAMLYN_WIRE_CARD): reason says what it is, and behind the head comes a structure of
 * this file.
 *
 * A mapping is asked for piece by piece, as a message has room for the pages of one
 * (SHRIMP_SAY_MAP, SHRIMP_SAY_PAGES or SHRIMP_SAY_REFUSED). Its own end is told by
 * SHRIMP_SAY_UNMAP; the export's by SHRIMP_SAY_GONE, and answered by SHRIMP_SAY_UNMAP for each
 * mapping of it (section 4.4): the exporter's pages are not used for anything else before that, as
 * stores may still be on their way. Messages and stores of one host come in order, so what was
 * stored before comes before.
 *
 * A page of an export may leave while the export stays: its mappings are told so by
 * SHRIMP_SAY_INVALIDATE, say by SHRIMP_SAY_INVALIDATED that they store to it no more, and ask for
 * it by SHRIMP_SAY_AGAIN before they do again.
 *
 * Messages lie in a page that the sender has for each host (SHRIMP_SYSTEM_PAGE), as records of this
 * file.
 */

/*
 * Asks for pages of an export: from is the sender's mapping, to the export. Behind it: shrimp_ask.
 */
#define SHRIMP_SAY_MAP 1

/* Pages for mapping to, which are mapped in for it from now on. Behind it: shrimp_pages. */
#define SHRIMP_SAY_PAGES 2

/* None for mapping to. Behind it: shrimp_refused. */
#define SHRIMP_SAY_REFUSED 3

/* Mapping from is no more, or never came to be: nothing more comes of it. */
#define SHRIMP_SAY_UNMAP 4

/* Export from is no more. SHRIMP_SAY_UNMAP is awaited for each mapping of it. */
#define SHRIMP_SAY_GONE 5

/*
 * Mapping to must store no more to pages of export from, which are to be used for something else
 * (section 4.4). Behind it: shrimp_part. A mapping whose process cannot be kept from storing does
 * not answer.
 */
#define SHRIMP_SAY_INVALIDATE 6

/*
 * Mapping from stores no more to pages of export to, and asks before it does again. Behind it:
 * shrimp_part.
 */
#define SHRIMP_SAY_INVALIDATED 7

/*
 * Mapping from wants pages of export to again that it had, one request at a time. Behind it:
 * shrimp_part. The answer is that to SHRIMP_SAY_MAP.
 */
#define SHRIMP_SAY_AGAIN 8

/* There is no such export, or not for this host, or not under this key. */
#define SHRIMP_REFUSED_ACCESS 1

/* It is shorter. */
#define SHRIMP_REFUSED_RANGE 2

/* It begins at another offset of a page. */
#define SHRIMP_REFUSED_PLACE 3

/* There are too many mappings of it. */
#define SHRIMP_REFUSED_ROOM 4

/* How many pages a message names. */
#define SHRIMP_PIECE 31

/* Asks for pages. */
struct shrimp_ask {
	/* The export's key. */
	__u64 key;
	/* First byte of the export. */
	__u64 offset;
	/* Bytes, of the whole mapping. */
	__u64 length;
	/* The first page that is asked for, counted from the mapping's first. */
	__u32 first;
	/* Where in a page the mapping's buffer begins. */
	__u32 place;
};

/* Pages of an export. */
struct shrimp_pages {
	/* The first page, counted from the mapping's first. */
	__u32 first;
	/* How many, 1 to SHRIMP_PIECE. */
	__u32 count;
	/* Which: addresses divided by 4,096. */
	__u64 pages[31];
};

/* Pages of a mapping. */
struct shrimp_part {
	/* The first, counted from the mapping's first. */
	__u32 first;
	/* How many, at least 1; 1 to SHRIMP_PIECE that are wanted again. */
	__u32 count;
};

/* Why there are none. */
struct shrimp_refused {
	/* SHRIMP_REFUSED_*. */
	__u32 why;
	/* Zero. */
	__u32 reserved;
};

#endif /* _SHRIMP_CARD_H */

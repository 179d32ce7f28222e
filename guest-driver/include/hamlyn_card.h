/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What a guest and a Hamlyn card agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-tests --bin headers: do not edit.
 */
#ifndef _HAMLYN_CARD_H
#define _HAMLYN_CARD_H

#include <linux/types.h>
#include "hamlyn_family.h"
#include "hamlyn_kernel.h"

/*
 * The Hamlyn card's own commands (sections 2.2, 2.3, 2.6, 3.1), in the family's command page.
 *
 * What a closed slot, queue, terminus or buffer named may be unpinned once the command has
 * completed.
 */

/* Open terminus index. Body: hamlyn_open_terminus. */
#define HAMLYN_COMMAND_OPEN_TERMINUS 1

/*
 * Close terminus index; requests that it still holds are abandoned, its send buffers cleared. No
 * body.
 */
#define HAMLYN_COMMAND_CLOSE_TERMINUS 2

/* Set a send buffer of terminus index. Body: hamlyn_set_send_buffer. */
#define HAMLYN_COMMAND_SET_SEND_BUFFER 3

/*
 * Clear a send buffer of terminus index. Body: hamlyn_set_send_buffer, of which only tag is read.
 */
#define HAMLYN_COMMAND_CLEAR_SEND_BUFFER 4

/* Open notification queue index. Body: hamlyn_open_queue. */
#define HAMLYN_COMMAND_OPEN_QUEUE 5

/* Close notification queue index: refused while a slot names it. No body. */
#define HAMLYN_COMMAND_CLOSE_QUEUE 6

/* Open slot index. Body: hamlyn_open_slot. */
#define HAMLYN_COMMAND_OPEN_SLOT 7

/* Close slot index. No body. */
#define HAMLYN_COMMAND_CLOSE_SLOT 8

/* Slot mode: the slot's own key and bounds. */
#define HAMLYN_MODE_NORMAL 0

/* Slot mode: the metadata entry's key and bounds as well (section 2.7). */
#define HAMLYN_MODE_PARANOID 1

/*
 * Slot mode: paranoid, and an entry takes one message until its owner opens it again (section 2.7).
 */
#define HAMLYN_MODE_PARANOID_ONE_SHOT 2

/* Slot flag: a message interrupts a sleeping receiver even if its sender did not ask. */
#define HAMLYN_SLOT_INTERRUPT 1

/* Slot flag: who may write may also fetch-and-op. It is asked for because a fetch-and-op reads. */
#define HAMLYN_SLOT_FETCH 2

/* All slot flags that a process may ask for. */
#define HAMLYN_SLOT_FLAGS 3

/*
 * Slot flag, the operating system's own: takes packets only of privileged termini of the host
 * source (section 6.3).
 */
#define HAMLYN_SLOT_PRIVILEGED 4

/* Terminus flag: it is the operating system's, and its packets say so. */
#define HAMLYN_TERMINUS_PRIVILEGED 1

/* Terminus flag: vector is set, and wakes an owner that sleeps until requests are finished. */
#define HAMLYN_TERMINUS_WAKES 2

/* The largest weight of a terminus. */
#define HAMLYN_MAX_WEIGHT 64

/* No notification queue: messages arrive without a word. */
#define HAMLYN_NO_QUEUE 0xffffffff

/* Body of HAMLYN_COMMAND_OPEN_TERMINUS. */
struct hamlyn_open_terminus {
	/* Address of the page that starts with hamlyn_terminus_status, 4,096-byte aligned. */
	__u64 status;
	/* Its share of the link beside other busy termini: 1 to HAMLYN_MAX_WEIGHT. */
	__u32 weight;
	/* HAMLYN_TERMINUS_* bits. */
	__u32 flags;
	/*
	 * With HAMLYN_TERMINUS_WAKES: MSI-X vector that wakes its owner, 1 to the number of vectors
	 * less 1. Else not read.
	 */
	__u32 vector;
	/* Not read. */
	__u32 reserved;
};

/* Body of HAMLYN_COMMAND_SET_SEND_BUFFER and HAMLYN_COMMAND_CLEAR_SEND_BUFFER. */
struct hamlyn_set_send_buffer {
	/* Tag, 0 to 7. */
	__u32 tag;
	/* Zero. */
	__u32 reserved;
	/* The buffer. */
	struct hamlyn_area area;
};

/* Body of HAMLYN_COMMAND_OPEN_QUEUE: what the queue's control block starts with. */
struct hamlyn_open_queue {
	/* The queue's memory: entries times 32 bytes, zeroed, first a multiple of 32. */
	struct hamlyn_area area;
	/* Entries, 2 to 65,536. */
	__u32 entries;
	/* MSI-X vector that wakes its owner, 1 to the number of vectors less 1. */
	__u32 vector;
};

/* Body of HAMLYN_COMMAND_OPEN_SLOT. */
struct hamlyn_open_slot {
	/* The message area. */
	struct hamlyn_area area;
	/* The metadata area; all zero if there is none. first is a multiple of 128. */
	struct hamlyn_area metadata;
	/* The protection key. */
	__u64 key;
	/*
	 * What notifications call the metadata area's first byte: its address in the owner's
	 * memory.
	 */
	__u64 metadata_pointer;
	/* Entries of the metadata area. */
	__u32 metadata_entries;
	/* HAMLYN_MODE_*. */
	__u32 mode;
	/* The notification queue, or HAMLYN_NO_QUEUE. */
	__u32 queue;
	/* The owner's number for the slot, for its notifications. */
	__u32 notification_index;
	/* HAMLYN_SLOT_* bits. */
	__u32 flags;
	/*
	 * With HAMLYN_SLOT_PRIVILEGED: the host id of the operating system that may write, 0 to
	 * 65,535; else zero.
	 */
	__u32 source;
};

/* Which of the family's cards the Hamlyn card is. */

/* PCI device id of the Hamlyn card. */
#define HAMLYN_PCI_DEVICE 0x4841

/*
 * PCI device id of the Hamlyn card's second function, whose BAR 0 holds the doorbells once more. It
 * has no mappable memory: so QEMU posts the stores to it, and a doorbell costs no round trip.
 */
#define HAMLYN_PCI_DOORBELL 0x4844

/* Value of HAMLYN_REG_MODEL for the Hamlyn card. */
#define HAMLYN_MODEL_HAMLYN 1

/* Value of HAMLYN_REG_ABI_VERSION for the Hamlyn card. */
#define HAMLYN_ABI_VERSION 0x00020006

/* A metadata entry (section 2.4, Table 2): 128 bytes in the receiving application's own memory. */

/* Size of a metadata entry, in bytes. */
#define HAMLYN_METADATA_SIZE 128

/* one_shot of a metadata entry that takes messages. */
#define HAMLYN_ONE_SHOT_OPEN 0

/*
 * one_shot of a metadata entry that has had its message and waits for the application (section
 * 2.7).
 */
#define HAMLYN_ONE_SHOT_LOCKED 1

/*
 * One entry of a slot's metadata area. The application writes all of it; the card writes user,
 * accumulator and one_shot, and trusts none of it.
 */
struct hamlyn_metadata_entry {
	/* Metadata of the message, from its first packet. */
	__u8 user[60];
	/* Packet accumulator (section 2.5): zero when no message is half-way. */
	__u32 accumulator;
	/* Key that supersedes the slot's in the paranoid modes (section 2.7). */
	__u64 key;
	/* Paranoid modes: first byte of the message area that this entry opens. */
	__u64 low;
	/* Paranoid modes: first byte behind the part that this entry opens. */
	__u64 high;
	/* The library's receive class pointer: the card leaves it alone. */
	__u64 receive_class;
	/* Paranoid one-shot mode: HAMLYN_ONE_SHOT_*. */
	__u32 one_shot;
	/* Zero. */
	__u32 reserved0;
	/* Zero. */
	__u64 reserved1[3];
};

/*
 * An entry of a notification queue (section 2.6, Table 3): 32 bytes in host memory, written by the
 * card alone.
 *
 * The queue starts as zeros and the card's wrap flag as 1. The card writes an entry, then stores
 * its wrap word; behind the last entry it goes back to the first and toggles the flag. A reader
 * keeps a cursor and a wrap flag of its own and has an entry when the flags match.
 *
 * The card does not know how far the reader is: an entry that is not read in time is overwritten. A
 * reader can tell, because the wrap word also says in which pass over the queue its entry was
 * written. Before the card overwrites an entry it stores the word with the new pass and the old
 * flag: who finds the word unchanged after reading an entry has read one entry, not pieces of two.
 */

/* Size of a notification queue entry, in bytes. */
#define HAMLYN_NOTIFICATION_SIZE 32

/* The fewest entries of a notification queue. */
#define HAMLYN_QUEUE_MIN_ENTRIES 2

/* The most entries of a notification queue. */
#define HAMLYN_QUEUE_MAX_ENTRIES 65536

/* Bit of wrap: the wrap flag. */
#define HAMLYN_NOTIFICATION_WRAP 1

/* Bit of wrap: a fast-mode message; metadata holds its word. */
#define HAMLYN_NOTIFICATION_FAST 2

/* Where in wrap the number of the pass starts, from 0, modulo 2^30. */
#define HAMLYN_NOTIFICATION_PASS_SHIFT 2

/* One arrived message. */
struct hamlyn_notification {
	/*
	 * Metadata entry pointer, in the address space that the slot's owner named; in fast mode,
	 * the word.
	 */
	__u64 metadata;
	/* Slot that the message arrived in. */
	__u32 slot;
	/* The number that the slot's owner gave it, to find its receiver by. */
	__u32 notification_index;
	/* Zero. */
	__u64 reserved0;
	/* Zero. */
	__u32 reserved1;
	/* HAMLYN_NOTIFICATION_* bits and the pass; written last. */
	__u32 wrap;
};

/* BAR 0: the Hamlyn card's own registers, among those of the family (family). */

/* RO. The most user data a packet carries, in bytes (metadata comes on top). 256 to 65,536. */
#define HAMLYN_REG_PACKET_SIZE 0x024

/* RO. The card's SRAM, in bytes. What is open shares it (sram). */
#define HAMLYN_REG_SRAM_SIZE 0x028

/* RO. How many send termini have a number, and a window. */
#define HAMLYN_REG_TERMINI 0x02c

/*
 * RO. How many slots have a number: as many as the SRAM holds while no terminus and no queue is
 * open.
 */
#define HAMLYN_REG_SLOTS 0x030

/* RO. How many notification queues have a number, and control words. */
#define HAMLYN_REG_QUEUES 0x034

/* RO. Bytes of the SRAM that are free. Since version 2.6. */
#define HAMLYN_REG_SRAM_FREE 0x03c

/* RO. Bytes of the longest free piece of the SRAM. Since version 2.6. */
#define HAMLYN_REG_SRAM_LONGEST 0x060

/* First MSI-X vector for notification queues and termini. */
#define HAMLYN_VECTOR_QUEUE 1

/*
 * A transmission request (section 2.3): an entry of a terminus' work queue.
 *
 * The 64-byte hamlyn_request is followed by a body of up to HAMLYN_BODY_SIZE bytes:
 *
 * * direct I/O: the metadata, padded with anything to a multiple of 8 bytes, then the data; * DMA
 * (HAMLYN_REQUEST_DMA): gather_count tuples (hamlyn_gather). The bytes they name, one after the
 * other, are the metadata and then the data. With HAMLYN_REQUEST_INLINE_METADATA the metadata is in
 * the body, padded to a multiple of 16 bytes, before the tuples, and the tuples name data alone
 * (the redesign that section 6.2 wishes for); * fetch-and-op (HAMLYN_REQUEST_FETCH): a
 * hamlyn_fetch.
 *
 * A remote fetch-and-op is an extension; section 5.1 says that the first proposal of Hamlyn had
 * one. The 8 bytes at offset in the message area are changed in one piece, after the checks that a
 * packet of 8 bytes would pass, and if the slot allows it. Nothing is notified. The request is
 * finished with once the answer is there: the word as it was is in the terminus' status words.
 * Later requests of the same terminus wait for that.
 */

/* Size of an entry's body, in bytes. */
#define HAMLYN_BODY_SIZE 448

/* The most metadata a message carries, in bytes (Table 2). */
#define HAMLYN_MAX_METADATA 60

/* The most tuples a DMA request gathers from, when no metadata is in the body. */
#define HAMLYN_MAX_GATHER 28

/* Send buffers a terminus may have: base and bound pairs named by a tag (section 2.3). */
#define HAMLYN_SEND_BUFFERS 8

/* The data is gathered from send buffers. */
#define HAMLYN_REQUEST_DMA 1

/* The receiver gets no notification: data movement and notification are separate (section 1). */
#define HAMLYN_REQUEST_SILENT 2

/* The receiver is interrupted if it sleeps (section 2.6). */
#define HAMLYN_REQUEST_INTERRUPT 4

/* With HAMLYN_REQUEST_DMA: the metadata is in the body, before the tuples. */
#define HAMLYN_REQUEST_INLINE_METADATA 8

/*
 * Remote fetch-and-op of operation, on its own: no other flag, no metadata, delta 0, length 16,
 * offset a multiple of 8.
 */
#define HAMLYN_REQUEST_FETCH 16

/* All bits that mean something; a request with another is refused. */
#define HAMLYN_REQUEST_FLAGS 31

/* Operation: the word plus the operand, modulo 2^64. */
#define HAMLYN_FETCH_ADD 1

/* Operation: the word and the operand, bit by bit. */
#define HAMLYN_FETCH_AND 2

/* Operation: the word or the operand, bit by bit. */
#define HAMLYN_FETCH_OR 3

/* Operation: the word exclusive-or the operand, bit by bit. */
#define HAMLYN_FETCH_XOR 4

/* Operation: the operand. */
#define HAMLYN_FETCH_SWAP 5

/* Operation: the operand if the word is compare, else the word as it is. */
#define HAMLYN_FETCH_COMPARE_SWAP 6

/*
 * Metadata index that asks for fast mode (section 2.7): one packet, whose delta carries a word for
 * the notification.
 */
#define HAMLYN_FAST_MODE 0xffffffff

/* The head of a work-queue entry: basically a packet header (Table 1). */
struct hamlyn_request {
	/* Destination host id, 0 to 65,535. */
	__u32 destination;
	/* Slot number at the destination. */
	__u32 slot;
	/* Index of the metadata entry within the slot's metadata area, or HAMLYN_FAST_MODE. */
	__u32 metadata_index;
	/* HAMLYN_REQUEST_* bits. */
	__u32 flags;
	/* The slot's (in paranoid modes: the metadata entry's) protection key. */
	__u64 key;
	/* Where the data goes, in bytes from the start of the message area. */
	__u32 offset;
	/* Data bytes in the message, metadata not counted. */
	__u32 length;
	/*
	 * Initial value Y of the packet counter (section 2.5): 0 for a message on its own. In fast
	 * mode: the word.
	 */
	__u32 delta;
	/* Metadata bytes, 0 to HAMLYN_MAX_METADATA. */
	__u32 metadata_length;
	/* Tuples in the body, for DMA. */
	__u32 gather_count;
	/* HAMLYN_FETCH_*, with HAMLYN_REQUEST_FETCH; else zero. */
	__u32 operation;
	/* Zero. */
	__u64 reserved0;
	/* Zero. */
	__u64 reserved1;
};

/* Where a part of a message comes from: a piece of a send buffer. */
struct hamlyn_gather {
	/* Send-buffer tag, 0 to 7. */
	__u32 tag;
	/* Zero. */
	__u32 reserved;
	/* Start, in bytes from the start of the send buffer. */
	__u32 offset;
	/* Bytes. */
	__u32 length;
};

/* Body of a fetch-and-op. */
struct hamlyn_fetch {
	/* What the word is changed with. */
	__u64 operand;
	/* What the word must be, for HAMLYN_FETCH_COMPARE_SWAP; else not looked at. */
	__u64 compare;
};

/*
 * The card's SRAM: one memory for slots, notification queue control blocks and send termini
 * (sections 2.6, 6.6).
 *
 * The directory lies at address 0: one word for each number, which holds the address of the object
 * with that number. The rest is for the objects. Each takes its bytes when it is opened, in one
 * piece, and gives them back when it is closed. An opening that finds no piece long enough is
 * refused with HAMLYN_STATUS_MEMORY_FULL.
 */

/* Bytes of the directory for each number of a terminus, slot or queue. */
#define HAMLYN_SRAM_NUMBER 4

/* Sizes and addresses of objects are multiples of this. */
#define HAMLYN_SRAM_UNIT 64

/* Bytes of a send terminus. */
#define HAMLYN_SRAM_TERMINUS 512

/* Bytes of a notification queue control block. */
#define HAMLYN_SRAM_QUEUE 64

/* Bytes of a slot. */
#define HAMLYN_SRAM_SLOT 128

/*
 * Where an object lies in the SRAM: the card writes it to the body of the command that opened the
 * object.
 */
struct hamlyn_sram_place {
	/* Address of its first byte. */
	__u32 address;
	/* Bytes. */
	__u32 bytes;
};

/*
 * The card's counters, and the reasons for which it refuses.
 *
 * Counters are 64 bits wide, count from the card's start or reset, and stand in the order of
 * statistic. Those from refused_flags on are refusals; a refusal's reason, where a terminus is told
 * one, is its counter's number.
 */

/* How many counters there are. */
#define HAMLYN_STATISTICS 47

/*
 * BAR 2 and BAR 4: what a process sees of its send terminus (section 2.3), and the queue control
 * page.
 *
 * BAR 2 holds one window of HAMLYN_WINDOW_SIZE for each terminus, each mapped into its owner alone;
 * behind the last of them lies the queue control area, which only the driver maps. BAR 4 holds one
 * doorbell page for each terminus, and so does BAR 0 of the card's second function, where QEMU
 * posts the store.
 *
 * To post a request its owner fills entry tail % 64 of the work queue, stores tail + 1 to
 * HAMLYN_WINDOW_TAIL (release), issues a full barrier and reads HAMLYN_WINDOW_AWAKE: only when it
 * is zero does the owner store to the doorbell page. The card does the mirror image before it stops
 * looking: it clears awake, issues a full barrier, and looks at tail once more. The card makes a
 * window zero when it opens the terminus.
 */

/* Size of a terminus window in BAR 2, in bytes. */
#define HAMLYN_WINDOW_SIZE 65536

/*
 * Offset in a window of tail, a u32 written by the owner: how many requests it has ever posted,
 * modulo 2^32.
 */
#define HAMLYN_WINDOW_TAIL 0x0000

/*
 * Offset in a window of awake, a u32 written by the card: not zero while it looks at tail unasked.
 */
#define HAMLYN_WINDOW_AWAKE 0x0040

/* Offset in a window of the work queue's first entry. */
#define HAMLYN_WINDOW_WORK_QUEUE 0x8000

/* Size of a work-queue entry, in bytes: a request of request. */
#define HAMLYN_ENTRY_SIZE 512

/* Entries in a work queue. */
#define HAMLYN_WORK_QUEUE_ENTRIES 64

/* Entries of a work queue that may be in use at a time (section 2.3). */
#define HAMLYN_WORK_QUEUE_USABLE 63

/*
 * Size of a terminus' doorbell page in BAR 4, and in BAR 0 of the second function, in bytes. A
 * store of 4 bytes anywhere in it rings.
 */
#define HAMLYN_DOORBELL_SIZE 4096

/*
 * Size of the queue control area in BAR 2, in bytes, for each 512 notification queues or part of
 * them. The area is one range: the words of queue 512 follow those of queue 511.
 */
#define HAMLYN_QUEUE_CONTROL_SIZE 65536

/*
 * Offset in the queue control area of the vectors' pending words, 4 bytes each, 64 bytes apart: set
 * by the card when it raises the vector, cleared by the driver before it looks at the queues.
 */
#define HAMLYN_QUEUE_CONTROL_PENDING 0x0000

/* Offset in the queue control area of the queues' armed words, 4 bytes each, 64 bytes apart. */
#define HAMLYN_QUEUE_CONTROL_ARMED 0x1000

/*
 * Size of the terminus control area in BAR 2, behind the queue control area, in bytes: 64 for each
 * of 1,024 termini.
 */
#define HAMLYN_TERMINUS_CONTROL_SIZE 65536

/* Distance between two termini's words in the terminus control area, in bytes. */
#define HAMLYN_TERMINUS_CONTROL_STRIDE 64

/*
 * Offset in a terminus' part of the terminus control area of its armed word, 4 bytes: as that of a
 * queue.
 */
#define HAMLYN_TERMINUS_ARMED 0

/*
 * Offset in a terminus' part of the terminus control area of wanted, 4 bytes, stored by the driver
 * before armed: the card interrupts once hamlyn_terminus_status.completed has reached it, modulo
 * 2^32.
 */
#define HAMLYN_TERMINUS_WANTED 4

/* hamlyn_terminus_status.reasons: the request was sent, and a fetch-and-op carried out. */
#define HAMLYN_REASON_SENT 0

/*
 * The prearranged words in host memory by which the card tells a terminus' owner how far it is
 * (section 2.3).
 *
 * They start a page of their own, which the card alone writes and which is mapped read-only into
 * the owner. The card writes fetched, reasons and refused before the completed that covers them.
 * All are zero when a terminus opens.
 */
struct hamlyn_terminus_status {
	/*
	 * How many requests the card has finished with, modulo 2^32: their entries and buffers may
	 * be used again.
	 */
	__u32 completed;
	/* How many of those it refused, modulo 2^32. */
	__u32 refused;
	/* Zero. */
	__u32 reserved[14];
	/*
	 * What became of the request that was last in each entry of the work queue:
	 * HAMLYN_REASON_SENT, or the number of the refusal's counter (statistics).
	 */
	__u32 reasons[64];
	/*
	 * The word that a fetch-and-op found, for the request that was last in each entry of the
	 * work queue. Means nothing for other requests.
	 */
	__u64 fetched[64];
};

#endif /* _HAMLYN_CARD_H */

/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What a guest and a Hamlyn card agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-headers: do not edit.
 */
#ifndef _HAMLYN_CARD_H
#define _HAMLYN_CARD_H

#include <linux/types.h>
#include "uln.h"
#include "uln_kernel.h"

/*
 * The Hamlyn card's own commands (sections 2.2, 2.3, 2.6, 3.1), in the family's command page.
 *
 * Memory that a closed slot, queue, terminus or buffer named may be unpinned once the command has
 * completed.
 */

/* Opens terminus index. Body: hamlyn_open_terminus. */
#define HAMLYN_COMMAND_OPEN_TERMINUS 1

/*
 * Closes terminus index. Its pending requests are abandoned, and its send buffers cleared. No
 * body.
 */
#define HAMLYN_COMMAND_CLOSE_TERMINUS 2

/* Sets a send buffer of terminus index. Body: hamlyn_set_send_buffer. */
#define HAMLYN_COMMAND_SET_SEND_BUFFER 3

/*
 * Clears a send buffer of terminus index. Body: hamlyn_set_send_buffer, of which the card reads
 * only tag.
 */
#define HAMLYN_COMMAND_CLEAR_SEND_BUFFER 4

/* Opens notification queue index. Body: hamlyn_open_queue. */
#define HAMLYN_COMMAND_OPEN_QUEUE 5

/* Closes notification queue index; refused while a slot names it. No body. */
#define HAMLYN_COMMAND_CLOSE_QUEUE 6

/* Opens slot index. Body: hamlyn_open_slot. */
#define HAMLYN_COMMAND_OPEN_SLOT 7

/* Closes slot index. No body. */
#define HAMLYN_COMMAND_CLOSE_SLOT 8

/* Slot mode: the card checks the slot's own key and bounds. */
#define HAMLYN_MODE_NORMAL 0

/* Slot mode: the card also checks the metadata entry's key and bounds (section 2.7). */
#define HAMLYN_MODE_PARANOID 1

/*
 * Slot mode: like paranoid, but an entry accepts one message until its owner reopens it (section
 * 2.7).
 */
#define HAMLYN_MODE_PARANOID_ONE_SHOT 2

/* Slot flag: a message interrupts a sleeping receiver even if its sender did not request that. */
#define HAMLYN_SLOT_INTERRUPT 1

/*
 * Slot flag: a sender that may write may also fetch-and-op. It is a separate flag because a
 * fetch-and-op reads.
 */
#define HAMLYN_SLOT_FETCH 2

/* All slot flags that a process may set. */
#define HAMLYN_SLOT_FLAGS 3

/*
 * Slot flag, only for the operating system: the slot accepts only packets of privileged termini of
 * the host source (section 6.3).
 */
#define HAMLYN_SLOT_PRIVILEGED 4

/* Terminus flag: it belongs to the operating system, and its packets are marked as such. */
#define HAMLYN_TERMINUS_PRIVILEGED 1

/* Terminus flag: vector is set, and wakes an owner that sleeps until requests are completed. */
#define HAMLYN_TERMINUS_WAKES 2

/* The largest weight of a terminus. */
#define HAMLYN_MAX_WEIGHT 64

/* No notification queue: messages arrive without a notification. */
#define HAMLYN_NO_QUEUE 0xffffffff

/* Body of HAMLYN_COMMAND_OPEN_TERMINUS. */
struct hamlyn_open_terminus {
	/*
	 * Address of the page that starts with hamlyn_terminus_status,
	 * 4,096-byte aligned.
	 */
	__le64 status;
	/* Its share of the link relative to other busy termini: 1 to HAMLYN_MAX_WEIGHT. */
	__le32 weight;
	/* HAMLYN_TERMINUS_* bits. */
	__le32 flags;
	/*
	 * With HAMLYN_TERMINUS_WAKES: MSI-X vector that wakes its owner, 1 to the number of
	 * vectors minus 1. Otherwise ignored.
	 */
	__le32 vector;
	/* Ignored. */
	__le32 reserved;
};

/* Body of HAMLYN_COMMAND_SET_SEND_BUFFER and HAMLYN_COMMAND_CLEAR_SEND_BUFFER. */
struct hamlyn_set_send_buffer {
	/* Tag, 0 to 7. */
	__le32 tag;
	/* Zero. */
	__le32 reserved;
	/* The buffer. */
	struct uln_area area;
};

/* Body of HAMLYN_COMMAND_OPEN_QUEUE: the initial content of the queue's control block. */
struct hamlyn_open_queue {
	/* The queue's memory: entries times 32 bytes, zeroed, first a multiple of 32. */
	struct uln_area area;
	/* Entries, 2 to 65,536. */
	__le32 entries;
	/* MSI-X vector that wakes its owner, 1 to the number of vectors minus 1. */
	__le32 vector;
};

/* Body of HAMLYN_COMMAND_OPEN_SLOT. */
struct hamlyn_open_slot {
	/* The message area. */
	struct uln_area area;
	/* The metadata area; all zero if there is none. first is a multiple of 128. */
	struct uln_area metadata;
	/* The protection key. */
	__le64 key;
	/*
	 * Value that notifications use for the metadata area's first byte: its address in the
	 * owner's memory.
	 */
	__le64 metadata_pointer;
	/* Number of entries of the metadata area. */
	__le32 metadata_entries;
	/* HAMLYN_MODE_*. */
	__le32 mode;
	/* The notification queue, or HAMLYN_NO_QUEUE. */
	__le32 queue;
	/* The owner's number for the slot, copied into its notifications. */
	__le32 notification_index;
	/* HAMLYN_SLOT_* bits. */
	__le32 flags;
	/*
	 * With HAMLYN_SLOT_PRIVILEGED: the host id of the operating system that may write, 0 to
	 * 65,535; otherwise zero.
	 */
	__le32 source;
};

/* Identity of the Hamlyn card. */

/* PCI device id of the Hamlyn card. */
#define HAMLYN_PCI_DEVICE 0x4841

/*
 * PCI device id of the Hamlyn card's second function. Its BAR 0 holds the doorbells a second time.
 * It has no mappable memory, so QEMU posts the stores to it, and a doorbell costs no round trip.
 */
#define HAMLYN_PCI_DOORBELL 0x4844

/* Value of ULN_REG_MODEL for the Hamlyn card. */
#define HAMLYN_MODEL 1

/* Value of ULN_REG_ABI_VERSION for the Hamlyn card. */
#define HAMLYN_ABI_VERSION 0x00020006

/* A metadata entry (section 2.4, Table 2): 128 bytes in the receiving application's own memory. */

/* Size of a metadata entry, in bytes. */
#define HAMLYN_METADATA_SIZE 128

/* one_shot of a metadata entry that accepts messages. */
#define HAMLYN_ONE_SHOT_OPEN 0

/*
 * one_shot of a metadata entry that has received its message and waits for the application
 * (section 2.7).
 */
#define HAMLYN_ONE_SHOT_LOCKED 1

/*
 * One entry of a slot's metadata area. The application writes all of it. The card writes user,
 * accumulator and one_shot, and trusts none of it.
 */
struct hamlyn_metadata_entry {
	/* Metadata of the message, from its first packet. */
	__u8 user[60];
	/* Packet accumulator (section 2.5): zero while no message is incomplete. */
	__le32 accumulator;
	/* Key that replaces the slot's key in the paranoid modes (section 2.7). */
	__le64 key;
	/* Paranoid modes: first byte of the message area that this entry opens. */
	__le64 low;
	/* Paranoid modes: first byte behind the part of the message area that this entry opens. */
	__le64 high;
	/* The library's receive class pointer; the card does not use it. */
	__le64 receive_class;
	/* Paranoid one-shot mode: HAMLYN_ONE_SHOT_*. */
	__le32 one_shot;
	/* Zero. */
	__le32 reserved0;
	/* Zero. */
	__le64 reserved1[3];
};

/*
 * An entry of a notification queue (section 2.6, Table 3): 32 bytes in host memory, written by the
 * card alone.
 *
 * Initially the queue is zero, and the card's wrap flag is 1. The card writes an entry, and then
 * stores its wrap word. After the last entry it continues with the first, and toggles the flag.
 * A reader has its own cursor and wrap flag; an entry is valid when the flags match.
 *
 * The card does not know the reader's position: it overwrites an entry that is not read in time. A
 * reader can detect that, because the wrap word also has the number of the pass over the queue
 * in which the entry was written. Before the card overwrites an entry, it stores the word with the
 * new pass and the old flag. So if a reader finds the word unchanged after reading an entry, it
 * has read one entry, not parts of two.
 */

/* Size of a notification queue entry, in bytes. */
#define HAMLYN_NOTIFICATION_SIZE 32

/* Minimum number of entries in a notification queue. */
#define HAMLYN_QUEUE_MIN_ENTRIES 2

/* Maximum number of entries in a notification queue. */
#define HAMLYN_QUEUE_MAX_ENTRIES 65536

/* Bit of wrap: the wrap flag. */
#define HAMLYN_NOTIFICATION_WRAP 1

/* Bit of wrap: a fast-mode message; metadata holds its word. */
#define HAMLYN_NOTIFICATION_FAST 2

/* Bit position in wrap of the pass number, which counts from 0, modulo 2^30. */
#define HAMLYN_NOTIFICATION_PASS_SHIFT 2

/* One arrived message. */
struct hamlyn_notification {
	/*
	 * Metadata entry pointer, in the address space that the slot's owner named. In fast mode:
	 * the word.
	 */
	__le64 metadata;
	/* Slot that the message arrived in. */
	__le32 slot;
	/* The number that the slot's owner gave the slot, to find the receiver. */
	__le32 notification_index;
	/* Zero. */
	__le64 reserved0;
	/* Zero. */
	__le32 reserved1;
	/* HAMLYN_NOTIFICATION_* bits and the pass; written last. */
	__le32 wrap;
};

/* BAR 0: the Hamlyn card's own registers, among those of the family (family). */

/* RO. Maximum user data in a packet, in bytes, without metadata. 256 to 65,536. */
#define HAMLYN_REG_PACKET_SIZE 0x024

/* RO. Size of the card's SRAM, in bytes. All open objects share it (sram). */
#define HAMLYN_REG_SRAM_SIZE 0x028

/* RO. Number of send terminus numbers and windows. */
#define HAMLYN_REG_TERMINI 0x02c

/*
 * RO. Number of slot numbers: as many as the SRAM can hold while no terminus and no queue is open.
 */
#define HAMLYN_REG_SLOTS 0x030

/* RO. Number of notification queue numbers and control words. */
#define HAMLYN_REG_QUEUES 0x034

/* RO. Free bytes of the SRAM. Since version 2.6. */
#define HAMLYN_REG_SRAM_FREE 0x03c

/* RO. Bytes of the longest free block of the SRAM. Since version 2.6. */
#define HAMLYN_REG_SRAM_LONGEST 0x060

/* First MSI-X vector for notification queues and termini. */
#define HAMLYN_VECTOR_QUEUE 1

/*
 * A transmission request (section 2.3): an entry of a terminus' work queue.
 *
 * The 64-byte hamlyn_request is followed by a body of up to HAMLYN_BODY_SIZE bytes:
 *
 * * direct I/O: the metadata, padded with arbitrary bytes to a multiple of 8 bytes, then the data;
 * * DMA (HAMLYN_REQUEST_DMA): gather_count tuples (hamlyn_gather). The bytes they name,
 *   one after the other, are the metadata and then the data. With
 *   HAMLYN_REQUEST_INLINE_METADATA the metadata is in the body before the tuples, padded to a
 *   multiple of 16 bytes, and the tuples name only data (the redesign that section 6.2 asks for);
 * * fetch-and-op (HAMLYN_REQUEST_FETCH): a hamlyn_fetch.
 *
 * A remote fetch-and-op is an extension; section 5.1 mentions that the first proposal of Hamlyn
 * had one. It changes the 8 bytes at offset in the message area atomically. The slot must allow
 * it, and the receiving card checks it like a packet of 8 bytes. The card posts no notification.
 * The request completes once the answer has arrived: the previous value of the word is in the
 * terminus' status words. Later requests of the same terminus wait for that.
 */

/* Size of an entry's body, in bytes. */
#define HAMLYN_BODY_SIZE 448

/* Maximum metadata in a message, in bytes (Table 2). */
#define HAMLYN_MAX_METADATA 60

/* Maximum number of tuples in a DMA request without metadata in the body. */
#define HAMLYN_MAX_GATHER 28

/* Number of send buffers of a terminus: base and bound pairs named by a tag (section 2.3). */
#define HAMLYN_SEND_BUFFERS 8

/* The data is gathered from send buffers. */
#define HAMLYN_REQUEST_DMA 1

/* The receiver gets no notification: data movement and notification are separate (section 1). */
#define HAMLYN_REQUEST_SILENT 2

/* The receiver is interrupted if it is sleeping (section 2.6). */
#define HAMLYN_REQUEST_INTERRUPT 4

/* With HAMLYN_REQUEST_DMA: the metadata is in the body, before the tuples. */
#define HAMLYN_REQUEST_INLINE_METADATA 8

/*
 * Remote fetch-and-op of operation, without other flags or metadata. delta is 0, length 16,
 * and offset a multiple of 8.
 */
#define HAMLYN_REQUEST_FETCH 16

/* All valid bits; a request with any other bit is refused. */
#define HAMLYN_REQUEST_FLAGS 31

/* Operation: adds the operand to the word, modulo 2^64. */
#define HAMLYN_FETCH_ADD 1

/* Operation: bitwise AND of the word and the operand. */
#define HAMLYN_FETCH_AND 2

/* Operation: bitwise OR of the word and the operand. */
#define HAMLYN_FETCH_OR 3

/* Operation: bitwise XOR of the word and the operand. */
#define HAMLYN_FETCH_XOR 4

/* Operation: replaces the word with the operand. */
#define HAMLYN_FETCH_SWAP 5

/*
 * Operation: replaces the word with the operand if the word is compare; otherwise leaves it
 * unchanged.
 */
#define HAMLYN_FETCH_COMPARE_SWAP 6

/*
 * Metadata index that selects fast mode (section 2.7): one packet, whose delta is a word for the
 * notification.
 */
#define HAMLYN_FAST_MODE 0xffffffff

/* The head of a work-queue entry, similar to a packet header (Table 1). */
struct hamlyn_request {
	/* Destination host id, 0 to 65,535. */
	__le32 destination;
	/* Slot number at the destination. */
	__le32 slot;
	/* Index of the metadata entry within the slot's metadata area, or HAMLYN_FAST_MODE. */
	__le32 metadata_index;
	/* HAMLYN_REQUEST_* bits. */
	__le32 flags;
	/* The slot's (in paranoid modes: the metadata entry's) protection key. */
	__le64 key;
	/* Offset of the data in the message area, in bytes. */
	__le32 offset;
	/* Bytes of data in the message, without metadata. */
	__le32 length;
	/*
	 * Initial value Y of the packet counter (section 2.5): 0 for a separate message. In fast
	 * mode: the word.
	 */
	__le32 delta;
	/* Metadata bytes, 0 to HAMLYN_MAX_METADATA. */
	__le32 metadata_length;
	/* For DMA: number of tuples in the body. */
	__le32 gather_count;
	/* With HAMLYN_REQUEST_FETCH: HAMLYN_FETCH_*. Otherwise zero. */
	__le32 operation;
	/* Zero. */
	__le64 reserved0;
	/* Zero. */
	__le64 reserved1;
};

/* A piece of a send buffer, from which a part of a message is gathered. */
struct hamlyn_gather {
	/* Send-buffer tag, 0 to 7. */
	__le32 tag;
	/* Zero. */
	__le32 reserved;
	/* Offset in the send buffer, in bytes. */
	__le32 offset;
	/* Bytes. */
	__le32 length;
};

/* Body of a fetch-and-op. */
struct hamlyn_fetch {
	/* The operand of the operation. */
	__le64 operand;
	/* For HAMLYN_FETCH_COMPARE_SWAP: the expected value of the word. Otherwise ignored. */
	__le64 compare;
};

/*
 * The card's SRAM: one memory for slots, notification queue control blocks and send termini
 * (sections 2.6, 6.6).
 *
 * The directory is at address 0. It has one word for each number, with the address of the object
 * with that number. The rest is for the objects. An object takes its bytes when it is opened, in
 * one block, and gives them back when it is closed. If no block is long enough, opening fails with
 * ULN_STATUS_MEMORY_FULL.
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
 * Location of an object in the SRAM. The card writes it to the body of the command that opened the
 * object.
 */
struct hamlyn_sram_place {
	/* Address of its first byte. */
	__le32 address;
	/* Bytes. */
	__le32 bytes;
};

/*
 * The card's counters, and the reasons for which it refuses.
 *
 * Counters are 64 bits wide, count from the card's start or reset, and are in the order of
 * statistic. Those from refused_flags on count refusals. The reason of a refusal that is
 * reported to a terminus is the number of its counter.
 */

/* Number of counters. */
#define HAMLYN_STATISTICS 47

/*
 * BAR 2 and BAR 4: a process' view of its send terminus (section 2.3), and the queue control page.
 *
 * BAR 2 holds one window of HAMLYN_WINDOW_SIZE for each terminus, each mapped only into its
 * owner. The queue control area is behind the last window; only the driver maps it. BAR 4 holds
 * one doorbell page for each terminus. So does BAR 0 of the card's second function, where QEMU
 * posts the store.
 *
 * To post a request, the owner fills entry tail % 64 of the work queue and stores tail + 1 to
 * HAMLYN_WINDOW_TAIL (release). It issues a full barrier and reads HAMLYN_WINDOW_AWAKE.
 * Only if that is zero, it stores to the doorbell page. The card does the converse before it stops
 * polling: it clears awake, issues a full barrier, and reads tail once more. The card zeroes a
 * window when it opens the terminus.
 */

/* Size of a terminus window in BAR 2, in bytes. */
#define HAMLYN_WINDOW_SIZE 65536

/*
 * Offset in a window of tail, a u32 written by the owner: total number of requests it has
 * posted, modulo 2^32.
 */
#define HAMLYN_WINDOW_TAIL 0x0000

/* Offset in a window of awake, a u32 written by the card: not zero while it polls tail. */
#define HAMLYN_WINDOW_AWAKE 0x0040

/* Offset in a window of the work queue's first entry. */
#define HAMLYN_WINDOW_WORK_QUEUE 0x8000

/* Size of a work-queue entry, in bytes: a request of request. */
#define HAMLYN_ENTRY_SIZE 512

/* Entries in a work queue. */
#define HAMLYN_WORK_QUEUE_ENTRIES 64

/* Entries of a work queue that may be in use at the same time (section 2.3). */
#define HAMLYN_WORK_QUEUE_USABLE 63

/*
 * Size of a terminus' doorbell page in BAR 4, and in BAR 0 of the second function, in bytes. A
 * store of 4 bytes anywhere in the page rings the doorbell.
 */
#define HAMLYN_DOORBELL_SIZE 4096

/*
 * Size of the queue control area in BAR 2, in bytes, for each 512 notification queues or part of
 * them. The area is contiguous: the words of queue 512 follow those of queue 511.
 */
#define HAMLYN_QUEUE_CONTROL_SIZE 65536

/*
 * Offset in the queue control area of the vectors' pending words, 4 bytes each, 64 bytes apart.
 * The card sets a word when it raises the vector. The driver clears it before it looks at the
 * queues.
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
 * Offset of the armed word, 4 bytes, in a terminus' part of the terminus control area. It works
 * like that of a queue.
 */
#define HAMLYN_TERMINUS_ARMED 0

/*
 * Offset of wanted, 4 bytes, in a terminus' part of the terminus control area. The driver stores
 * it before armed. The card interrupts once hamlyn_terminus_status.completed has reached it,
 * modulo 2^32.
 */
#define HAMLYN_TERMINUS_WANTED 4

/* hamlyn_terminus_status.reasons: the request was sent, or the fetch-and-op executed. */
#define HAMLYN_REASON_SENT 0

/*
 * The prearranged words in host memory by which the card reports its progress to a terminus' owner
 * (section 2.3).
 *
 * They are at the start of a page of their own. Only the card writes it, and it is mapped
 * read-only into the owner. The card writes fetched, reasons and refused before the
 * completed that covers them. All are zero when a terminus opens.
 */
struct hamlyn_terminus_status {
	/*
	 * Number of requests that the card has completed, modulo 2^32. Their entries and buffers
	 * may be reused.
	 */
	__le32 completed;
	/* Number of those that it refused, modulo 2^32. */
	__le32 refused;
	/* Zero. */
	__le32 reserved[14];
	/*
	 * Result of the last request in each entry of the work queue: HAMLYN_REASON_SENT, or the
	 * number of the refusal's counter (statistics).
	 */
	__le32 reasons[64];
	/*
	 * The word that a fetch-and-op found, for the last request in each entry of the work queue.
	 * Undefined for other requests.
	 */
	__le64 fetched[64];
};

#endif /* _HAMLYN_CARD_H */

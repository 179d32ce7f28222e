/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What the Hamlyn card's driver and its users agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-tests --bin headers: do not edit.
 */
#ifndef _HAMLYN_UAPI_H
#define _HAMLYN_UAPI_H

#include "hamlyn_family_uapi.h"

/*
 * What the driver and the library agree on for the Hamlyn card alone: its calls, which have numbers
 * of the family's.
 */

/* Creates a send terminus. Argument: hamlyn_terminus_create. */
#define HAMLYN_IOC_TERMINUS_CREATE _IOWR('H', 2, struct hamlyn_terminus_create)

/*
 * Destroys a send terminus. Argument: hamlyn_object. Its mappings stay, and read and write nothing
 * that matters.
 */
#define HAMLYN_IOC_TERMINUS_DESTROY _IOWR('H', 3, struct hamlyn_object)

/* Names a piece of the caller's memory as a send buffer. Argument: hamlyn_send_buffer. */
#define HAMLYN_IOC_SEND_BUFFER_SET _IOWR('H', 4, struct hamlyn_send_buffer)

/*
 * Takes a send buffer back. Argument: hamlyn_send_buffer (terminus and tag are read, the rest is
 * zero).
 */
#define HAMLYN_IOC_SEND_BUFFER_CLEAR _IOWR('H', 5, struct hamlyn_send_buffer)

/* Creates a notification queue. Argument: hamlyn_queue_create. */
#define HAMLYN_IOC_QUEUE_CREATE _IOWR('H', 6, struct hamlyn_queue_create)

/* Destroys a notification queue (EBUSY while a slot names it). Argument: hamlyn_object. */
#define HAMLYN_IOC_QUEUE_DESTROY _IOWR('H', 7, struct hamlyn_object)

/*
 * Sleeps until a notification is there. Argument: hamlyn_queue_wait. ETIMEDOUT; EINTR if a signal's
 * handler has run, and of a wait with a time-out also if the process was stopped or the machine
 * suspended.
 */
#define HAMLYN_IOC_QUEUE_WAIT _IOWR('H', 8, struct hamlyn_queue_wait)

/*
 * Makes poll(2) of the file report readable once a notification is there, at one position of each
 * queue: whoever arms it again, from any thread or process that shares the file, moves it.
 * Argument: hamlyn_queue_wait.
 */
#define HAMLYN_IOC_QUEUE_ARM _IOWR('H', 9, struct hamlyn_queue_wait)

/* Creates a slot over pieces of the caller's memory. Argument: hamlyn_slot_create. */
#define HAMLYN_IOC_SLOT_CREATE _IOWR('H', 10, struct hamlyn_slot_create)

/*
 * Destroys a slot. When the call returns nothing more is deposited in its memory. Argument:
 * hamlyn_object.
 */
#define HAMLYN_IOC_SLOT_DESTROY _IOWR('H', 11, struct hamlyn_object)

/*
 * Sleeps until the card has finished with requests of a terminus (section 2.3's sequence number).
 * Argument: hamlyn_terminus_wait. ETIMEDOUT, EINTR as for HAMLYN_IOC_QUEUE_WAIT.
 */
#define HAMLYN_IOC_TERMINUS_WAIT _IOWR('H', 22, struct hamlyn_terminus_wait)

/*
 * Makes poll(2) of the file report readable once the card has finished with requests of a terminus;
 * one sequence number of each terminus: whoever arms it again moves it. Argument:
 * hamlyn_terminus_wait.
 */
#define HAMLYN_IOC_TERMINUS_ARM _IOWR('H', 23, struct hamlyn_terminus_wait)

/* hamlyn_query.capabilities: to sleep until requests are finished. */
#define HAMLYN_CAPABILITY_COMPLETIONS 4ULL

/*
 * What a Hamlyn card says of its memory: the card's part of hamlyn_query. All zero if the card is
 * older than version 2.6, or the driver is older than that.
 */
struct hamlyn_sram_query {
	/* Out: bytes that termini, slots and queues can have, open or not. */
	__u32 room;
	/* Out: bytes of them that are free now. */
	__u32 free;
	/* Out: bytes of the longest free piece. */
	__u32 longest;
	/* Zero. */
	__u32 reserved;
};

/* Index into hamlyn_share_query: send termini. */
#define HAMLYN_SHARE_TERMINI 0

/* Index into hamlyn_share_query: slots. */
#define HAMLYN_SHARE_SLOTS 1

/* Index into hamlyn_share_query: notification queues. */
#define HAMLYN_SHARE_QUEUES 2

/* A new send terminus and where to map its parts with mmap(2) of the same file. */
struct hamlyn_terminus_create {
	/* Out: its number. */
	__u32 terminus;
	/*
	 * In: its share of the link beside other busy termini, 1 to HAMLYN_MAX_WEIGHT, or 0 for 1.
	 * EPERM for more than 1 without CAP_SYS_NICE.
	 */
	__u32 weight;
	/*
	 * Out: offset of the window, HAMLYN_WINDOW_SIZE bytes, to be mapped readable and writable,
	 * shared.
	 */
	__u64 window_offset;
	/*
	 * Out: offset of the doorbell page, HAMLYN_DOORBELL_SIZE bytes, to be mapped writable,
	 * shared.
	 */
	__u64 doorbell_offset;
	/*
	 * Out: offset of the page that starts with the status words, 4,096 bytes, to be mapped
	 * read-only.
	 */
	__u64 status_offset;
	/* Zero. */
	__u64 reserved[4];
};

/* A send buffer of a terminus. */
struct hamlyn_send_buffer {
	/* In: the terminus. */
	__u32 terminus;
	/* In: the tag, 0 to 7. EBUSY if it is set already. */
	__u32 tag;
	/* In: start of the memory, in the caller's address space. */
	__u64 address;
	/* In: bytes, 1 to 1 GiB. The pages are pinned, and counted against RLIMIT_MEMLOCK. */
	__u64 length;
	/* Zero. */
	__u64 reserved;
};

/* A new notification queue, made of the driver's own memory (counted against RLIMIT_MEMLOCK). */
struct hamlyn_queue_create {
	/* In: entries, 2 to 65,536. */
	__u32 entries;
	/* Out: its number. */
	__u32 queue;
	/* Out: offset to map it at, read-only. */
	__u64 offset;
	/* Out: bytes to map. */
	__u64 size;
	/* Zero. */
	__u64 reserved;
};

/* Which notification to wait for: the one at the caller's cursor. */
struct hamlyn_queue_wait {
	/* In: the queue. */
	__u32 queue;
	/* In: the caller's cursor: an entry's index. */
	__u32 cursor;
	/*
	 * In: the caller's pass over the queue, from 0, modulo 2^30. The wait is over when that
	 * pass' entry is there, or was overwritten by a later pass'.
	 */
	__u32 pass;
	/* Out, for arm: 1 if the wait is over already, 0 if the queue was armed. */
	__u32 ready;
	/* In, for wait: nanoseconds, 0 to look only, or HAMLYN_WAIT_FOREVER. For arm: zero. */
	__s64 timeout_ns;
	/* Zero. */
	__u64 reserved;
};

/* Which requests of a terminus to wait for: those before a sequence number. */
struct hamlyn_terminus_wait {
	/* In: the terminus. */
	__u32 terminus;
	/* In: the wait is over once the status words' completed has reached this, modulo 2^32. */
	__u32 completed;
	/* Out, for arm: 1 if the wait is over already, 0 if the terminus was armed. */
	__u32 ready;
	/* Zero. */
	__u32 reserved0;
	/* In, for wait: nanoseconds, 0 to look only, or HAMLYN_WAIT_FOREVER. For arm: zero. */
	__s64 timeout_ns;
	/* Zero. */
	__u64 reserved1;
};

/* A new slot. */
struct hamlyn_slot_create {
	/* In: start of the message area in the caller's address space; any alignment. */
	__u64 area_address;
	/* In: its bytes, 1 to 1 GiB less the offset in its first page. */
	__u64 area_length;
	/* In: start of the metadata area, a multiple of 128; zero if there is none. */
	__u64 metadata_address;
	/* In: entries of the metadata area, of 128 bytes each; zero if there is none. */
	__u32 metadata_entries;
	/* In: HAMLYN_MODE_*. */
	__u32 mode;
	/* In: a queue of this file, or HAMLYN_NO_QUEUE. */
	__u32 queue;
	/* In: the caller's number for the slot, for its notifications. */
	__u32 notification_index;
	/* In: HAMLYN_SLOT_* bits. */
	__u32 flags;
	/* Out: the slot's number on this host. */
	__u32 slot;
	/* Out: its protection key, from the kernel's random source. */
	__u64 key;
	/* Zero. */
	__u64 reserved[5];
};

#endif /* _HAMLYN_UAPI_H */

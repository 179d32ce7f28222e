/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What the Hamlyn card's driver and its users agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-headers: do not edit.
 */
#ifndef _HAMLYN_UAPI_H
#define _HAMLYN_UAPI_H

#include "uln_uapi.h"

/*
 * Contract between driver and library for the Hamlyn card alone. Its calls have numbers of the
 * family's.
 */

/* Creates a send terminus. Argument: hamlyn_terminus_create. */
#define HAMLYN_IOC_TERMINUS_CREATE _IOWR('H', 2, struct hamlyn_terminus_create)

/*
 * Destroys a send terminus. Argument: uln_object. Its mappings stay, but no longer have any
 * effect.
 */
#define HAMLYN_IOC_TERMINUS_DESTROY _IOWR('H', 3, struct uln_object)

/* Sets a piece of the caller's memory as a send buffer. Argument: hamlyn_send_buffer. */
#define HAMLYN_IOC_SEND_BUFFER_SET _IOWR('H', 4, struct hamlyn_send_buffer)

/*
 * Clears a send buffer. Argument: hamlyn_send_buffer. The driver reads terminus and tag; the
 * rest is zero.
 */
#define HAMLYN_IOC_SEND_BUFFER_CLEAR _IOWR('H', 5, struct hamlyn_send_buffer)

/* Creates a notification queue. Argument: hamlyn_queue_create. */
#define HAMLYN_IOC_QUEUE_CREATE _IOWR('H', 6, struct hamlyn_queue_create)

/*
 * Destroys a notification queue. Argument: uln_object. Fails with EBUSY while a slot names
 * it.
 */
#define HAMLYN_IOC_QUEUE_DESTROY _IOWR('H', 7, struct uln_object)

/*
 * Sleeps until there is a notification. Argument: hamlyn_queue_wait. Fails with ETIMEDOUT, or
 * with EINTR if a signal handler has run. With a time-out, it also fails with EINTR if the
 * process was stopped or the machine suspended.
 */
#define HAMLYN_IOC_QUEUE_WAIT _IOWR('H', 8, struct hamlyn_queue_wait)

/*
 * Makes poll(2) report the file as readable once there is a notification at the given position.
 * Argument: hamlyn_queue_wait. Each queue has one such position. Arming the queue again, from
 * any thread or process that shares the file, replaces it.
 */
#define HAMLYN_IOC_QUEUE_ARM _IOWR('H', 9, struct hamlyn_queue_wait)

/* Creates a slot over pieces of the caller's memory. Argument: hamlyn_slot_create. */
#define HAMLYN_IOC_SLOT_CREATE _IOWR('H', 10, struct hamlyn_slot_create)

/*
 * Destroys a slot. When the call returns, nothing more is deposited in its memory. Argument:
 * uln_object.
 */
#define HAMLYN_IOC_SLOT_DESTROY _IOWR('H', 11, struct uln_object)

/*
 * Sleeps until the card has completed requests of a terminus (the sequence number of section 2.3).
 * Argument: hamlyn_terminus_wait. Fails with ETIMEDOUT or EINTR like
 * HAMLYN_IOC_QUEUE_WAIT.
 */
#define HAMLYN_IOC_TERMINUS_WAIT _IOWR('H', 22, struct hamlyn_terminus_wait)

/*
 * Makes poll(2) report the file as readable once the card has completed requests of a terminus.
 * Argument: hamlyn_terminus_wait. Each terminus has one such sequence number; arming the
 * terminus again replaces it.
 */
#define HAMLYN_IOC_TERMINUS_ARM _IOWR('H', 23, struct hamlyn_terminus_wait)

/*
 * Registers a piece of the caller's memory: it is pinned and counted once, for all slots and send
 * buffers that name the registration. Argument: hamlyn_registration_create. Fails with ENOTTY
 * without HAMLYN_CAPABILITY_REGISTRATIONS.
 */
#define HAMLYN_IOC_REGISTRATION_CREATE _IOWR('H', 30, struct hamlyn_registration_create)

/*
 * Destroys a registration. Argument: uln_object. Fails with EBUSY while a slot or send buffer
 * uses it.
 */
#define HAMLYN_IOC_REGISTRATION_DESTROY _IOWR('H', 31, struct uln_object)

/* uln_query.capabilities: sleeping until requests are completed. */
#define HAMLYN_CAPABILITY_COMPLETIONS 4ULL

/* uln_query.capabilities: memory that slots and send buffers share. */
#define HAMLYN_CAPABILITY_REGISTRATIONS 64ULL

/*
 * What a Hamlyn card reports about its memory: the card's part of uln_query. All zero if the
 * card is older than version 2.6, or the driver predates this structure.
 */
struct hamlyn_sram_query {
	/* Out: bytes for termini, slots and queues, used or free. */
	__u32 room;
	/* Out: bytes of them that are free now. */
	__u32 free;
	/* Out: bytes of the longest free block. */
	__u32 longest;
	/* Zero. */
	__u32 reserved;
};

/* Index into uln_share_query: send termini. */
#define HAMLYN_SHARE_TERMINI 0

/* Index into uln_share_query: slots. */
#define HAMLYN_SHARE_SLOTS 1

/* Index into uln_share_query: notification queues. */
#define HAMLYN_SHARE_QUEUES 2

/* A new send terminus and where to map its parts with mmap(2) of the same file. */
struct hamlyn_terminus_create {
	/* Out: its number. */
	__u32 terminus;
	/*
	 * In: its share of the link relative to other busy termini, 1 to HAMLYN_MAX_WEIGHT, or 0
	 * for 1. More than 1 without CAP_SYS_NICE fails with EPERM.
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

/* Memory that slots and send buffers share. */
struct hamlyn_registration_create {
	/* In: address of the memory in the caller's address space; any alignment. */
	__u64 address;
	/*
	 * In: bytes, 1 to 1 GiB minus the offset in the first page. The pages are pinned, and
	 * counted against RLIMIT_MEMLOCK.
	 */
	__u64 length;
	/* Out: its number, which is not 0. */
	__u32 registration;
	/* Zero. */
	__u32 reserved0;
	/* Zero. */
	__u64 reserved1;
};

/* A send buffer of a terminus. */
struct hamlyn_send_buffer {
	/* In: the terminus. */
	__u32 terminus;
	/* In: the tag, 0 to 7. The call fails with EBUSY if it is already set. */
	__u32 tag;
	/* In: address of the memory in the caller's address space. */
	__u64 address;
	/* In: bytes, 1 to 1 GiB. The pages are pinned, and counted against RLIMIT_MEMLOCK. */
	__u64 length;
	/* In: a registration of this file that has all these bytes, as for a slot, or 0. */
	__u32 registration;
	/* Zero. */
	__u32 reserved;
};

/* A new notification queue, in the driver's own memory (counted against RLIMIT_MEMLOCK). */
struct hamlyn_queue_create {
	/* In: entries, 2 to 65,536. */
	__u32 entries;
	/* Out: its number. */
	__u32 queue;
	/* Out: offset to map it, read-only. */
	__u64 offset;
	/* Out: bytes to map. */
	__u64 size;
	/* Zero. */
	__u64 reserved;
};

/* The notification to wait for: the one at the caller's cursor. */
struct hamlyn_queue_wait {
	/* In: the queue. */
	__u32 queue;
	/* In: the caller's cursor: an entry's index. */
	__u32 cursor;
	/*
	 * In: the caller's pass over the queue, counted from 0, modulo 2^30. The wait ends when the
	 * entry of that pass is there, or was overwritten in a later pass.
	 */
	__u32 pass;
	/* Out, for arm: 1 if the wait has ended already, 0 if the queue was armed. */
	__u32 ready;
	/*
	 * In, for wait: time-out in nanoseconds, 0 to return at once, or
	 * ULN_WAIT_FOREVER. For arm: zero.
	 */
	__s64 timeout_ns;
	/* Zero. */
	__u64 reserved;
};

/* The requests of a terminus to wait for: those before a sequence number. */
struct hamlyn_terminus_wait {
	/* In: the terminus. */
	__u32 terminus;
	/* In: the wait ends when completed of the status words has reached this, modulo 2^32. */
	__u32 completed;
	/* Out, for arm: 1 if the wait has ended already, 0 if the terminus was armed. */
	__u32 ready;
	/* Zero. */
	__u32 reserved0;
	/*
	 * In, for wait: time-out in nanoseconds, 0 to return at once, or
	 * ULN_WAIT_FOREVER. For arm: zero.
	 */
	__s64 timeout_ns;
	/* Zero. */
	__u64 reserved1;
};

/* A new slot. */
struct hamlyn_slot_create {
	/* In: address of the message area in the caller's address space; any alignment. */
	__u64 area_address;
	/* In: its bytes, 1 to 1 GiB minus the offset in its first page. */
	__u64 area_length;
	/* In: address of the metadata area, a multiple of 128; zero if there is none. */
	__u64 metadata_address;
	/* In: number of entries of the metadata area, of 128 bytes each; zero if there is none. */
	__u32 metadata_entries;
	/* In: HAMLYN_MODE_*. */
	__u32 mode;
	/* In: a queue of this file, or HAMLYN_NO_QUEUE. */
	__u32 queue;
	/* In: the caller's number for the slot, copied into its notifications. */
	__u32 notification_index;
	/* In: HAMLYN_SLOT_* bits. */
	__u32 flags;
	/* Out: the slot's number on this host. */
	__u32 slot;
	/* Out: its protection key, from the kernel's random source. */
	__u64 key;
	/*
	 * In: a registration of this file that has all bytes of the message area, or 0: the driver
	 * pins and counts them for this slot alone. Fails with ENOENT if there is none of this
	 * number, with EFAULT if the area is not all in it.
	 */
	__u32 registration;
	/* Zero. */
	__u32 reserved0;
	/* Zero. */
	__u64 reserved[4];
};

#endif /* _HAMLYN_UAPI_H */

/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What the Shrimp card's driver and its users agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-headers: do not edit.
 */
#ifndef _SHRIMP_UAPI_H
#define _SHRIMP_UAPI_H

#include "uln_uapi.h"
#include "shrimp_card.h"

/*
 * Contract between driver and library for SHRIMP cards: calls on an open /dev/shrimpN, besides
 * those of all cards.
 *
 * A process *exports* a buffer of its memory. A process of another host *maps* a buffer of its own
 * to it. From then on, a store to the mapped buffer arrives in the exported one (section 2 of the
 * paper). The exporter's operating system checks that the exporter has allowed the other host and
 * the key. The mapper's operating system checks that the memory is the caller's.
 *
 * A byte arrives at the page offset at which it was stored, so both buffers must begin at the same
 * page offset. In each direction, a page has at most two parts (section 3.2). So a buffer that
 * begins in the middle of a page must reach its end, and two buffers in one page must touch.
 *
 * Errors besides those of all calls:
 * - ENOSPC: the driver has no more exports or mappings.
 * - EBUSY: a part of a page is already exported or mapped out. Or it is neither at the beginning
 *   nor at the end of its page and would need a third part.
 * - EOPNOTSUPP: the card sees other addresses than the processor, for example behind an IOMMU.
 * - ENXIO: the card has no entry for a page.
 */

/* Exports a buffer. Argument: shrimp_export. */
#define SHRIMP_IOC_EXPORT _IOWR('H', ULN_CARD_CALL(SHRIMP_MODEL, 0), struct shrimp_export)

/*
 * Revokes an export. Argument: uln_object. When it returns, nothing more arrives. The memory
 * is unpinned when each host that had mapped it has confirmed that its mappings have gone, or is
 * lost. A host that does not confirm in time is considered lost.
 */
#define SHRIMP_IOC_UNEXPORT _IOWR('H', ULN_CARD_CALL(SHRIMP_MODEL, 1), struct uln_object)

/*
 * Maps a buffer to an export of another host, or of the same host. Argument: shrimp_map. Waits
 * for the other operating system.
 *
 * Fails with EINTR if a signal arrived, and with ETIMEDOUT if the other operating system does
 * not answer in time. EHOSTUNREACH: the host does not exist or is lost. EACCES: the export
 * does not exist, is not for this host, or has another key. ERANGE: the export is shorter.
 * EDOM: it begins at another page offset.
 */
#define SHRIMP_IOC_MAP _IOWR('H', ULN_CARD_CALL(SHRIMP_MODEL, 2), struct shrimp_map)

/* Ends a mapping. Argument: uln_object. When it returns, nothing more is sent. */
#define SHRIMP_IOC_UNMAP _IOWR('H', ULN_CARD_CALL(SHRIMP_MODEL, 3), struct uln_object)

/*
 * Sleeps until an arrival for a page of an export is reported. Argument: shrimp_wait. The
 * process itself requests the report from the card, by the page's command page
 * (shrimp_export.commands_offset). Fails with ETIMEDOUT, with EINTR if a signal handler
 * has run, or with ENOENT if the export has ended.
 */
#define SHRIMP_IOC_WAIT _IOWR('H', ULN_CARD_CALL(SHRIMP_MODEL, 4), struct shrimp_wait)

/* Returns whether a mapping is still connected. Argument: shrimp_state. */
#define SHRIMP_IOC_STATE _IOWR('H', ULN_CARD_CALL(SHRIMP_MODEL, 5), struct shrimp_state)

/* Index into uln_share_query: exports. */
#define SHRIMP_SHARE_EXPORTS 0

/* Index into uln_share_query: mappings. */
#define SHRIMP_SHARE_MAPPINGS 1

/* Maximum number of exports of a host, and of mappings. */
#define SHRIMP_MAX_OBJECTS 4096

/* Maximum bytes of a buffer that is exported or mapped. */
#define SHRIMP_MAX_BUFFER 4194304ULL

/* What a SHRIMP card reports about itself: the card's part of uln_query. */
struct shrimp_query {
	/* Out: entries of the page table. */
	__u32 pages;
	/* Out: columns of the mesh. */
	__u32 columns;
	/* Out: bytes of each FIFO. */
	__u32 fifo;
	/*
	 * Out: 1 if the card currently sees this machine's stores; 0 if they must be made through
	 * window pages.
	 */
	__u32 snoops;
};

/* A buffer that other hosts may map. */
struct shrimp_export {
	/*
	 * In: its address in the caller's memory. Its pages count against RLIMIT_MEMLOCK, whether
	 * or not all of them are pinned.
	 */
	__u64 address;
	/* In: bytes, 1 to SHRIMP_MAX_BUFFER. */
	__u64 length;
	/* In: the hosts that may map it: bit n is host n. */
	__u64 nodes;
	/* Out: the key that a process must give to map it. */
	__u64 key;
	/* Out: its number. */
	__u32 export;
	/* In: SHRIMP_POLICY_*, how its pages are managed. */
	__u32 policy;
	/*
	 * Out: offset for mmap(2) of the same file, writable, shared, to map its command pages.
	 * There is one for each page that the buffer touches, in order. Through them the process
	 * requests a report of the next arrival (section 4.2). Access to a command page brings its
	 * page back if that is not in memory.
	 */
	__u64 commands_offset;
};

/* Policy of an export: its pages stay in memory (the first policy of section 4.4). */
#define SHRIMP_POLICY_PINNED 0

/*
 * Policy of an export: its pages can be replaced (the second policy of section 4.4). The operating
 * system may use a page for something else once no mapping stores to it. It brings the page back
 * when a mapping is about to store to it. If the process has unmapped its address, the mapping
 * ends instead. The memory must be anonymous, or of tmpfs, a memfd or hugetlbfs; otherwise the
 * call fails with EINVAL. A wait for another file system might never end.
 */
#define SHRIMP_POLICY_PAGED 1

/*
 * In shrimp_map.mode, added to a mode: the driver can withdraw the pages through which the
 * process stores. These are the mapping's command pages, its window pages, and its memory as
 * mapped SHRIMP_MEMORY_OFFSET behind the command pages. They are withdrawn while the other
 * host is about to use a page for something else; an access to them waits. A mapping without this
 * flag keeps the other host's pages in place.
 */
#define SHRIMP_MAP_WITHDRAWABLE 0x100

/*
 * Distance from shrimp_map.commands_offset to the offset for mapping the mapping's memory, in
 * the same way as its command pages.
 */
#define SHRIMP_MEMORY_OFFSET 10485760ULL

/* A buffer of the caller's that is mapped to an export, or to a part of one. */
struct shrimp_map {
	/*
	 * In: its address in the caller's memory. Its pages are pinned, and count against
	 * RLIMIT_MEMLOCK.
	 */
	__u64 address;
	/* In: bytes, 1 to SHRIMP_MAX_BUFFER. */
	__u64 length;
	/* In: the export's key. */
	__u64 key;
	/* In: offset in the export that its first byte is mapped to. */
	__u64 offset;
	/* In: the export's host. */
	__u32 node;
	/* In: the export's number on that host. */
	__u32 export;
	/*
	 * In: SHRIMP_MODE_*, not 0, which the process may change through command pages.
	 * SHRIMP_MAP_WITHDRAWABLE may be added.
	 */
	__u32 mode;
	/* Out: its number. */
	__u32 mapping;
	/*
	 * Out: offset for mmap(2) of the same file, writable, shared, to map its command pages.
	 * There is one for each page that the buffer touches, in order.
	 */
	__u64 commands_offset;
	/* Out: the same for its window pages. */
	__u64 window_offset;
};

/*
 * Argument of SHRIMP_IOC_WAIT.
 *
 * No report is missed in this order: take arrivals of the last call; store SHRIMP_REPORT_NEXT
 * to the command page; load from it, so that the store has reached the card; look at the memory;
 * call.
 */
struct shrimp_wait {
	/*
	 * In: time-out in nanoseconds, 0 to return at once, or -1 for no time-out. After 0, the
	 * export's own file (ULN_IOC_OBJECT_FILE) is readable once the number
	 * differs.
	 */
	__s64 timeout_ns;
	/* In: the export. */
	__u32 export;
	/*
	 * In: the number that the last call returned here, initially 0. The call returns when the
	 * number differs. Out: the number of reports for the export's pages, modulo 2^32. A mapping
	 * that begins or comes back counts as well, because its pages reported nothing before.
	 */
	__u32 arrivals;
};

/* State of a mapping. */
struct shrimp_state {
	/* In: the mapping. */
	__u32 mapping;
	/* Out: SHRIMP_STATE_*. */
	__u32 state;
	/* Zero. */
	__u64 reserved;
};

/* State of a mapping: stores arrive. */
#define SHRIMP_STATE_MAPPED 1

/* State of a mapping: the export was revoked. Stores are discarded. */
#define SHRIMP_STATE_TAKEN_BACK 2

/* State of a mapping: the other host is lost, or has restarted. Stores are discarded. */
#define SHRIMP_STATE_LOST 3

#endif /* _SHRIMP_UAPI_H */

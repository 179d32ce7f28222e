/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What the Shrimp card's driver and its users agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-tests --bin headers: do not edit.
 */
#ifndef _SHRIMP_UAPI_H
#define _SHRIMP_UAPI_H

#include "hamlyn_family_uapi.h"
#include "shrimp_card.h"

/*
 * What driver and library agree on about SHRIMP cards: calls on an open /dev/shrimpN, beside those
 * that any card has.
 *
 * A process *exports* a buffer of its memory, and a process of another host *maps* a buffer of its
 * own to it: from then on what is stored in the one arrives in the other (section 2 of the paper).
 * Both operating systems look: the exporter's whether the other host and the key are those that the
 * exporter has allowed, the mapper's whether the memory is the caller's.
 *
 * A byte arrives at the same offset of a page that it was stored at, so both buffers must begin at
 * the same offset of a page. A page has two parts at most, each way (section 3.2): a buffer that
 * begins in the middle of a page must reach its end, and two buffers in one page must touch.
 *
 * Errors beside those of all calls: ENOSPC (the driver has no more exports or mappings), EBUSY (a
 * part of a page is exported, or mapped out, already; or is neither at the beginning nor at the end
 * of its page and would need a third part), EOPNOTSUPP (the card sees other addresses than the
 * processor, as behind an IOMMU), ENXIO (the card has no entry for a page).
 */

/* Exports a buffer. Argument: shrimp_export. */
#define SHRIMP_IOC_EXPORT _IOWR('H', HAMLYN_CARD_CALL(SHRIMP_MODEL, 0), struct shrimp_export)

/*
 * Takes an export back. Argument: hamlyn_object. When it returns nothing more arrives; the memory
 * is unpinned when each host that had mapped it has said that its mappings are gone, or is lost. A
 * host that does not say so in time is taken for lost.
 */
#define SHRIMP_IOC_UNEXPORT _IOWR('H', HAMLYN_CARD_CALL(SHRIMP_MODEL, 1), struct hamlyn_object)

/*
 * Maps a buffer to an export of another host, or of the same. Argument: shrimp_map. It waits for
 * the other operating system: EINTR if a signal came, ETIMEDOUT if it does not answer in time,
 * EHOSTUNREACH if there is no such host or it is lost, EACCES if there is no such export there, or
 * not for this host, or under another key; ERANGE if the export is shorter; EDOM if it begins at
 * another offset of a page.
 */
#define SHRIMP_IOC_MAP _IOWR('H', HAMLYN_CARD_CALL(SHRIMP_MODEL, 2), struct shrimp_map)

/* Ends a mapping. Argument: hamlyn_object. When it returns nothing more is sent. */
#define SHRIMP_IOC_UNMAP _IOWR('H', HAMLYN_CARD_CALL(SHRIMP_MODEL, 3), struct hamlyn_object)

/*
 * Sleeps until an arrival for a page of an export is reported. Argument: shrimp_wait. The process
 * asks the card for the report itself, by the page's command page (shrimp_export.commands_offset).
 * ETIMEDOUT; EINTR if a signal's handler has run; ENOENT if the export has ended.
 */
#define SHRIMP_IOC_WAIT _IOWR('H', HAMLYN_CARD_CALL(SHRIMP_MODEL, 4), struct shrimp_wait)

/* Says whether a mapping still leads somewhere. Argument: shrimp_state. */
#define SHRIMP_IOC_STATE _IOWR('H', HAMLYN_CARD_CALL(SHRIMP_MODEL, 5), struct shrimp_state)

/* Index into hamlyn_share_query: exports. */
#define SHRIMP_SHARE_EXPORTS 0

/* Index into hamlyn_share_query: mappings. */
#define SHRIMP_SHARE_MAPPINGS 1

/* The most exports of a host, and the most mappings. */
#define SHRIMP_MAX_OBJECTS 4096

/* The most bytes of a buffer that is exported, or mapped. */
#define SHRIMP_MAX_BUFFER 4194304ULL

/* What a SHRIMP card says of itself: the card's part of hamlyn_query. */
struct shrimp_query {
	/* Out: entries of the page table. */
	__u32 pages;
	/* Out: columns of the mesh. */
	__u32 columns;
	/* Out: bytes of each FIFO. */
	__u32 fifo;
	/*
	 * Out: 1 if the card sees this machine's stores now; 0 if it must be told by window pages.
	 */
	__u32 snoops;
};

/* A buffer that others may map. */
struct shrimp_export {
	/*
	 * In: where it is in the caller's memory. Its pages count against RLIMIT_MEMLOCK, whether
	 * they are all pinned or not.
	 */
	__u64 address;
	/* In: its bytes, 1 to SHRIMP_MAX_BUFFER. */
	__u64 length;
	/* In: the hosts that may map it: bit n is host n. */
	__u64 nodes;
	/* Out: who maps it must say so. */
	__u64 key;
	/* Out: its number. */
	__u32 export;
	/* In: SHRIMP_POLICY_*, what becomes of its pages. */
	__u32 policy;
	/*
	 * Out: where to map its command pages with mmap(2) of the same file, writable, shared: a
	 * page for each page that the buffer touches, in order. By these the process asks to be
	 * told of the next arrival (section 4.2). A page that is not in memory is brought back when
	 * its command page is touched.
	 */
	__u64 commands_offset;
};

/* Of an export: its pages stay in memory (the first policy of section 4.4). */
#define SHRIMP_POLICY_PINNED 0

/*
 * Of an export: the operating system may use a page for something else once no mapping stores to it
 * any more, and brings it back when one is about to (the second policy of section 4.4), unless the
 * process has unmapped its address: then the mapping ends. The memory is anonymous, or of tmpfs, a
 * memfd or hugetlbfs; EINVAL if not, as another file system could be waited for without end.
 */
#define SHRIMP_POLICY_PAGED 1

/*
 * In shrimp_map.mode, with a mode: whatever the process stores goes by the mapping's command pages,
 * its window pages, or its memory as it is mapped SHRIMP_MEMORY_OFFSET behind the command pages.
 * These are taken away while the other host is about to use a page for something else, and who
 * touches them waits. A mapping without this keeps the pages of the other host where they are.
 */
#define SHRIMP_MAP_WITHDRAWABLE 0x100

/*
 * From shrimp_map.commands_offset to where to map the mapping's memory, in the same way as its
 * command pages.
 */
#define SHRIMP_MEMORY_OFFSET 10485760ULL

/* A buffer of the caller's that is mapped to an export, or to a part of it. */
struct shrimp_map {
	/*
	 * In: where it is in the caller's memory. Its pages are pinned, and count against
	 * RLIMIT_MEMLOCK.
	 */
	__u64 address;
	/* In: its bytes, 1 to SHRIMP_MAX_BUFFER. */
	__u64 length;
	/* In: the export's key. */
	__u64 key;
	/* In: byte of the export that its first byte is mapped to. */
	__u64 offset;
	/* In: the export's host. */
	__u32 node;
	/* In: the export's number there. */
	__u32 export;
	/*
	 * In: SHRIMP_MODE_*, not 0, which the process may change by command pages; and
	 * SHRIMP_MAP_WITHDRAWABLE, or not.
	 */
	__u32 mode;
	/* Out: its number. */
	__u32 mapping;
	/*
	 * Out: where to map its command pages with mmap(2) of the same file, writable, shared: a
	 * page for each page that the buffer touches, in order.
	 */
	__u64 commands_offset;
	/* Out: the same of its window pages. */
	__u64 window_offset;
};

/*
 * Which reports to wait for.
 *
 * No report is missed in this order: take arrivals of the last call; store SHRIMP_REPORT_NEXT to
 * the command page; load from there, so that the card has it; look at the memory; call.
 */
struct shrimp_wait {
	/* In: nanoseconds, 0 to look only, or -1 for ever. */
	__s64 timeout_ns;
	/* In: the export. */
	__u32 export;
	/*
	 * In: what the last call returned here, at first 0; the call returns when the number is
	 * another. Out: the number of reports for the export's pages, modulo 2^32. A mapping that
	 * begins or comes back counts as well: before, its pages reported nothing.
	 */
	__u32 arrivals;
};

/* How a mapping stands. */
struct shrimp_state {
	/* In: the mapping. */
	__u32 mapping;
	/* Out: SHRIMP_STATE_*. */
	__u32 state;
	/* Zero. */
	__u64 reserved;
};

/* Of a mapping: what is stored arrives. */
#define SHRIMP_STATE_MAPPED 1

/* Of a mapping: the export was taken back. What is stored goes nowhere. */
#define SHRIMP_STATE_TAKEN_BACK 2

/* Of a mapping: the other host is lost, or has begun anew. What is stored goes nowhere. */
#define SHRIMP_STATE_LOST 3

#endif /* _SHRIMP_UAPI_H */

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The SHRIMP card: declarations that its files share.
 *
 *   ops.c        operations that the core calls
 *   nipt.c       the page table: the driver's own copy, and the owners of the parts of a page
 *   tell.c       what must be told to other hosts' drivers
 *   answers.c    periodic check for late answers, and for hosts that accept too few packets
 *   held.c       pages of exports that other hosts hold or have asked for
 *   leaving.c    pages of exports that are to leave or have left
 *   import.c     hosts that have mapped an export
 *   paging.c     exports whose pages come and go
 *   export.c     buffers that other hosts may map
 *   withdraw.c   pages of mappings whose page there is gone for a while
 *   mapping.c    buffers here that are mapped to other hosts' exports
 *   mappingtalk.c  answers of exporters about mappings
 *   late.c       hosts that do not answer in time
 *   protocol.c   messages of other hosts' drivers about exports and mappings
 *   knobs.c      thresholds and times that the operator sets
 *   arrival.c    reported arrivals, and threads that sleep until there is one
 *   lane.c       channels of the kernel
 *   transport.c  how operating systems reach each other: a page for each host, each way
 *
 * The card's lock guards all of it.
 */
#ifndef _SHRIMP_H
#define _SHRIMP_H

#include <linux/mmu_notifier.h>

#include "uln_core.h"
#include "shrimp_card.h"
#include "shrimp_uapi.h"
#include "uln_transport.h"

#define SHRIMP_HOSTS ULN_WELL_KNOWN_SLOTS
static_assert(SHRIMP_HOSTS <= SHRIMP_IN_NODES);

struct shrimp_own;

/* Consecutive pages, counted from a mapping's first: struct shrimp_part in native byte order. */
struct shrimp_range {
	u32 first;
	u32 count;
};

static inline struct shrimp_part shrimp_part_pack(const struct shrimp_range *range)
{
	return (struct shrimp_part) {
		.first = cpu_to_le32(range->first),
		.count = cpu_to_le32(range->count),
	};
}

/* Page table entries that go to the card in one command. Empty while the card's lock is free. */
struct shrimp_batch {
	u32 count;
	/* The card must not go on if it refuses them. */
	bool unmaps;
	struct shrimp_page_entry entries[SHRIMP_MAX_ENTRIES];
};

struct shrimp_parts {
	struct uln_card card;
	/* Bus address of BAR 2, and the driver's mapping of its command pages. */
	resource_size_t memory;
	void __iomem *commands;
	/* Entries of the page table that are not empty, or whose page has an owner. */
	struct xarray nipt;
	struct shrimp_batch batch;
	struct xarray exports;
	struct xarray mappings;
	u32 next_export;
	u32 next_mapping;
	/*
	 * Number of imports and mappings with each host, and of mappings that are being requested.
	 */
	u32 arranged[SHRIMP_HOSTS];
	u32 asking[SHRIMP_HOSTS];
	/*
	 * Callers that wait until fewer mappings are requested; the number of requests that have
	 * ended.
	 */
	wait_queue_head_t turn;
	u32 turns;
	/* Checks for hosts that have not answered in time (answers.c). */
	struct delayed_work answers;
	/* Hosts that the card was seen to have cut off, a bit each. */
	u64 cut_off;
	/*
	 * What must still be told to other hosts: about pages of exports and mappings, and their
	 * ends.
	 */
	struct list_head telling;
	struct list_head endings;
	struct delayed_work tell;
	/*
	 * Pages of exports that the kernel may ask for, and how many it has asked for (paging.c).
	 */
	struct shrinker *shrinker;
	struct workqueue_struct *paging;
	struct work_struct reclaim;
	atomic_long_t pageable;
	atomic_long_t wanted;
	/* The export that is asked next. */
	unsigned long hand;
	/* Statistics: pages that were given up, and came back; and how often a thread waited. */
	u64 given_up;
	u64 brought_back;
	u64 awaited;
	/* The driver's own memory, and what arrives there. */
	struct shrimp_own *own;
	/* For lanes (lane.c): transfers started since the engine was seen free. */
	u32 started;
	/* Guards @started. */
	spinlock_t engine;
};

#define shrimp_parts(of) container_of_const(of, struct shrimp_parts, card)

enum { SHRIMP_KIND_MAPPING, SHRIMP_KIND_EXPORT, SHRIMP_KIND_EXPRESS };

/* A host that has mapped a part of an export, or is about to. */
struct shrimp_import {
	struct list_head on_export;
	u32 host;
	/* The mapping's number there. */
	u32 mapping;
	/*
	 * Pages of the export: the first, how many there are, how many have been named; and if all
	 * have.
	 */
	u32 first;
	u32 total;
	u32 count;
	bool complete;
	/* Pages from its first on that it waits for, and why it gets none; 0: it does. */
	u32 asked_first;
	u32 asked_count;
	u32 refused;
	/* By page: it may store to it; it must be told that it may not; it has been told. */
	unsigned long *stores;
	unsigned long *untold;
	unsigned long *told;
	unsigned long bits[];
};

/* Something that must be told to other hosts (tell.c). */
struct shrimp_due {
	struct list_head on_card;
	/* Tells it, and removes it from the list; false: there is no room for all of it yet. */
	bool (*tell)(struct uln_card *card, struct shrimp_due *due);
};

struct shrimp_export_object {
	struct card_object object;
	/* Also valid when its file has gone. */
	struct uln_card *card;
	struct uln_pages *memory;
	/* The share charged for it until it is gone, and the cgroup charged for its imports. */
	struct uln_share *share;
	struct mem_cgroup *memcg;
	u64 nodes;
	u64 key;
	struct list_head imports;
	u32 imported;
	/*
	 * Threads that wait for a word, or until all imports have gone; and the number of arrivals.
	 */
	wait_queue_head_t wait;
	atomic_t arrivals;
	/* The export's own file is readable once there are more. */
	u32 polled;
	/* Once closed: hosts that must still be told; and whether no host still has it mapped. */
	u64 untold;
	/* Number of checks by answers.c since it was closed. */
	u8 looks;
	bool gone;
	struct shrimp_due ending;
	/* Its imports must be told something. */
	struct shrimp_due telling;
	/*
	 * If pages may leave: those about to; addresses that the process has unmapped since; the
	 * first page's address in its process; what reports unmapping, and what brings pages back.
	 */
	unsigned long *leaving;
	unsigned long *unmapped;
	u64 address;
	struct mmu_interval_notifier notifier;
	struct work_struct work;
};

enum shrimp_progress {
	SHRIMP_ASKING,
	SHRIMP_MAPPED,
	SHRIMP_ENDED,
};

struct shrimp_mapping_object {
	struct card_object object;
	struct uln_pages *memory;
	u32 host;
	u32 export;
	u64 key;
	u64 offset;
	u32 mode;
	/* The driver's own. */
	bool system;
	enum shrimp_progress progress;
	/* Number of pages that are known. */
	u32 known;
	/* Number of checks by answers.c since something was requested. */
	u8 looks;
	/* Why it ended: an error for the caller, and SHRIMP_STATE_*. */
	int error;
	u32 state;
	wait_queue_head_t wait;
	/* The exporter must be told of the end, and has not been. */
	bool tell;
	struct shrimp_due ending;
	/*
	 * If pages may be withdrawn, by page: it is; the card must still be told; the exporter must
	 * be; it must be asked for; a thread waits for the answer. And what has been asked for.
	 */
	unsigned long *withdrawn;
	unsigned long *closing;
	unsigned long *owed;
	unsigned long *wanted;
	unsigned long *awaited;
	struct shrimp_range asked;
	struct shrimp_due telling;
};

/* Offsets for mmap(2), relative to a mapping's own; a third is SHRIMP_MEMORY_OFFSET. */
#define SHRIMP_MAP_COMMANDS 0
#define SHRIMP_MAP_WINDOW (5ULL << 20)

/* Finds the first pages of a set that follow each other; false: it has none. */
static inline bool shrimp_next_range(const unsigned long *pages, u32 count,
				     struct shrimp_range *range)
{
	range->first = find_first_bit(pages, count);
	range->count = find_next_zero_bit(pages, count, range->first) - range->first;
	return range->first < count;
}

/* Returns whether a mapping may store to a page of the export. */
static inline bool shrimp_import_stores(const struct shrimp_import *import, u32 page)
{
	return page - import->first < import->count &&
	       test_bit(page - import->first, import->stores);
}

/* Returns whether what could not be sent may be sent later. */
static inline bool shrimp_is_busy(int ret)
{
	return ret == -ENOBUFS || ret == -ENOMEM;
}

/* nipt.c */
enum shrimp_way { SHRIMP_OUT, SHRIMP_IN };
struct shrimp_page {
	struct shrimp_entry entry;
	/* Owners of the parts: of those going out a mapping, of those coming in an export. */
	void *owner[2][2];
	/* The host whose operating system's messages come here, plus one. */
	u32 system;
};
int shrimp_memory_check(struct uln_card *card, const struct uln_pages *memory);
u32 shrimp_pfn(const struct uln_pages *memory, u32 page);
int shrimp_claim(struct uln_card *card, const struct uln_pages *memory, enum shrimp_way way,
		 void *owner);
void shrimp_disclaim(struct uln_card *card, const struct uln_pages *memory,
		     enum shrimp_way way, void *owner);
int shrimp_claim_system(struct uln_card *card, u32 pfn, u32 host);
void shrimp_disclaim_system(struct uln_card *card, u32 pfn);
int shrimp_set_out(struct uln_card *card, u32 pfn, void *owner, const struct shrimp_out *out);
int shrimp_set_in(struct uln_card *card, u32 pfn, void *owner, u64 nodes);
int shrimp_send_entries(struct uln_card *card);
u64 shrimp_withhold(struct uln_card *card, const struct uln_pages *memory, const void *owner,
		    const u32 *pages, u32 count);
int shrimp_page_take_back(struct uln_card *card, struct uln_pages *memory, u32 i,
			  struct page *page, void *owner);
struct page *shrimp_page_give_up(struct uln_card *card, struct uln_pages *memory, u32 i,
				 void *owner);
int shrimp_map_out(struct uln_card *card, struct shrimp_mapping_object *mapping, u32 page,
		   u64 to);
bool shrimp_page_is_only(struct uln_card *card, u32 pfn, const void *owner);

/* tell.c */
void shrimp_due_init(struct shrimp_due *due,
		     bool (*tell)(struct uln_card *card, struct shrimp_due *due));
void shrimp_due_add(struct list_head *dues, struct shrimp_due *due);
void shrimp_tell(struct uln_card *card);
void shrimp_tell_again(struct uln_card *card);
void shrimp_tell_soon(struct uln_card *card, struct shrimp_due *due);
void shrimp_tell_later(struct work_struct *work);

/* held.c */
void shrimp_export_end(struct uln_card *card, struct shrimp_export_object *export);
void shrimp_imports_refuse(struct shrimp_export_object *export, u32 page, u32 why);
u32 shrimp_imports_wanted(const struct shrimp_export_object *export);
bool shrimp_imports_await(const struct shrimp_export_object *export, u32 page);
void shrimp_imports_invalidate(struct uln_card *card, struct shrimp_export_object *export,
			       u32 page);
void shrimp_imports_revalidate(struct shrimp_export_object *export, u32 page);
bool shrimp_export_is_held(const struct shrimp_export_object *export, u32 page);

/* leaving.c */
void shrimp_paging_start(struct shrimp_export_object *export);
u32 shrimp_paging_left(const struct shrimp_export_object *export);
bool shrimp_paging_has(struct shrimp_export_object *export, u32 first, u32 count);
void shrimp_paging_stay(struct shrimp_export_object *export, u32 page);
void shrimp_paging_look(struct shrimp_export_object *export);

/* export.c */
extern const struct card_kind shrimp_export_kind;
int shrimp_export(struct uln_file *file, void *argument);
void shrimp_export_undo(struct uln_file *file, void *argument);
int shrimp_unexport(struct uln_file *file, void *argument);
struct shrimp_export_object *shrimp_export_get(struct uln_file *file, u32 index);
struct shrimp_export_object *shrimp_export_lend(struct uln_file *file, struct uln_pages **memory,
						u32 host);
DEFINE_FREE(shrimp_export_put, struct shrimp_export_object *,
	    if (!IS_ERR_OR_NULL(_T)) uln_object_put(&_T->object))

/* import.c */
u32 shrimp_import(struct uln_card *card, u32 host, u32 index, u32 mapping,
		  const struct shrimp_ask *ask);
void shrimp_import_again(struct uln_card *card, u32 host, u32 index, u32 mapping,
			 const struct shrimp_range *range);
void shrimp_import_invalidated(struct uln_card *card, u32 host, u32 index, u32 mapping,
			       const struct shrimp_range *range);
void shrimp_import_end(struct uln_card *card, u32 host, u32 index, u32 mapping);
void shrimp_imports_lost(struct uln_card *card, u32 host);
bool shrimp_imports_tell(struct uln_card *card, struct shrimp_due *due);
void shrimp_imports_answer(struct uln_card *card, struct shrimp_export_object *export);

/* paging.c */
extern const struct attribute_group *shrimp_groups[];
extern const struct attribute_group shrimp_knobs; /* knobs.c */
int shrimp_paging_init(struct uln_card *card);
int shrimp_paging_prepare(struct shrimp_export_object *export, u64 address, u64 length);
int shrimp_paging_check(const struct shrimp_export_object *export);
void shrimp_paging_forget(struct shrimp_export_object *export);
void shrimp_paging_begin(struct shrimp_export_object *export);
void shrimp_paging_end(struct shrimp_export_object *export);
int shrimp_paging_bring(struct shrimp_export_object *export, u32 page);

/* mapping.c */
extern const struct card_kind shrimp_mapping_kind;
DEFINE_FREE(shrimp_mapping_put, struct shrimp_mapping_object *,
	    if (!IS_ERR_OR_NULL(_T)) uln_object_put(&_T->object))
struct shrimp_mapping_object *shrimp_mapping_lend(struct uln_file *file, struct uln_pages **memory,
						  const struct shrimp_map *argument);
int shrimp_mapping_begin(struct shrimp_mapping_object *mapping, u32 *turns);
int shrimp_map(struct uln_file *file, void *argument);
void shrimp_map_undo(struct uln_file *file, void *argument);
int shrimp_unmap(struct uln_file *file, void *argument);
int shrimp_state(struct uln_file *file, void *argument);
int shrimp_mapping_ask(struct uln_card *card, const struct shrimp_mapping_object *mapping);
void shrimp_mapping_answered(struct uln_card *card, const struct shrimp_mapping_object *mapping);
bool shrimp_mapping_stop(struct uln_card *card, struct shrimp_mapping_object *mapping, int error,
			 u32 state);
void shrimp_mapping_cut(struct uln_card *card, struct shrimp_mapping_object *mapping, int error,
			u32 state);
void shrimp_mapping_told(struct uln_card *card, struct shrimp_mapping_object *mapping);

/* mappingtalk.c */
void shrimp_mapping_pages(struct uln_card *card, u32 host, u32 index,
			  const struct shrimp_pages *pages);
void shrimp_mapping_refused(struct uln_card *card, u32 host, u32 index, u32 why);
void shrimp_mappings_gone(struct uln_card *card, u32 host, u32 export);
void shrimp_mappings_lost(struct uln_card *card, u32 host);
void shrimp_mapping_invalidate(struct uln_card *card, u32 host, u32 index, u32 export,
			       const struct shrimp_range *range);

/* withdraw.c */
int shrimp_withdraw_prepare(struct shrimp_mapping_object *mapping);
void shrimp_withdraw(struct uln_card *card, struct shrimp_mapping_object *mapping,
		     const struct shrimp_range *range);
int shrimp_withdraw_undo(struct uln_card *card, struct shrimp_mapping_object *mapping,
			 const struct shrimp_pages *pages);
void shrimp_withdraw_look(struct uln_card *card, struct shrimp_mapping_object *mapping);
bool shrimp_withdraw_tell(struct uln_card *card, struct shrimp_due *due);
void shrimp_withdraw_end(struct shrimp_mapping_object *mapping);
bool shrimp_withdraw_ready(struct card_object *object, u64 offset);
void shrimp_withdraw_await(struct card_object *object, u64 offset, unsigned int state);

/* answers.c */
#define SHRIMP_LOOKS 8
void shrimp_answers_expect(struct uln_card *card);
void shrimp_lose(struct uln_card *card, u64 hosts, const char *why);
bool shrimp_is_cut_off(struct uln_card *card, u32 host);
void shrimp_cut_off(struct uln_card *card);

/* late.c */
void shrimp_answers_look(struct work_struct *work);

/* protocol.c */
void shrimp_message(struct uln_card *card, u32 host, const struct uln_head *wire,
		    const u8 *data);
void shrimp_lost(struct uln_card *card, u32 host);

/* arrival.c */
int shrimp_wait(struct uln_file *file, void *argument);
void shrimp_raised(struct uln_card *card, unsigned int vector);

/* transport.c */
int shrimp_own_init(struct uln_card *card);
void shrimp_own_free(struct uln_card *card);
void shrimp_own_start(struct uln_card *card);
void shrimp_own_stop(struct uln_card *card, struct uln_closed *closed);
void shrimp_own_arrived(struct uln_card *card, u32 host);
const struct shrimp_arrival *shrimp_own_arrivals(struct uln_card *card, u32 *count, u32 **taken);

/* lane.c */
extern const struct uln_lane_ops shrimp_lane_ops;

/* ops.c */
extern const struct card_ops shrimp_card_ops;

static inline u32 shrimp_table(const struct uln_card *card)
{
	return ((const struct shrimp_query *)card->limits.card)->pages;
}

#endif /* _SHRIMP_H */

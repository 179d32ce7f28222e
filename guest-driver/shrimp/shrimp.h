/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The SHRIMP card: what its files share.
 *
 *   ops.c        what the core knows of it
 *   nipt.c       the page table: the driver's own copy, and whose the parts of a page are
 *   export.c     buffers that others may map, and who has
 *   mapping.c    buffers of ours that are mapped to those of others
 *   protocol.c   what drivers say to each other about them
 *   arrival.c    reported arrivals, and who sleeps until there is one
 *   transport.c  how operating systems reach each other: a page for each host, each way
 *
 * The card's lock guards all of it.
 */
#ifndef _SHRIMP_H
#define _SHRIMP_H

#include "core.h"
#include "shrimp_card.h"
#include "shrimp_uapi.h"
#include "transport.h"

#define SHRIMP_HOSTS HAMLYN_WELL_KNOWN_SLOTS
static_assert(SHRIMP_HOSTS <= SHRIMP_IN_NODES);

struct shrimp_own;

struct shrimp_parts {
	struct hamlyn_card card;
	/* BAR 2 on the bus, and the command pages of it as the driver sees them. */
	resource_size_t memory;
	void __iomem *commands;
	/* Entries of the page table that are not empty, or whose page is somebody's. */
	struct xarray nipt;
	struct xarray exports;
	struct xarray mappings;
	u32 next_export;
	u32 next_mapping;
	/* How many imports and mappings there are with each host; and how many mappings are asked for. */
	u32 arranged[SHRIMP_HOSTS];
	u32 asking[SHRIMP_HOSTS];
	wait_queue_head_t turn;
	/* Exports and mappings whose end is still to be told, as there was no room for it. */
	struct list_head untold_exports;
	struct list_head untold_mappings;
	struct delayed_work tell;
	/* The driver's own memory, and what arrives there. */
	struct shrimp_own *own;
};

#define shrimp_parts(of) container_of_const(of, struct shrimp_parts, card)

enum { SHRIMP_KIND_MAPPING, SHRIMP_KIND_EXPORT };

/* A host that has mapped a part of an export, or is about to. */
struct shrimp_import {
	struct list_head on_export;
	u32 host;
	/* The mapping's number there. */
	u32 mapping;
	/* Pages of the export. */
	u32 first;
	u32 count;
};

struct shrimp_export_object {
	struct card_object object;
	struct hamlyn_pages *memory;
	/* Who is charged for it, until it is gone. */
	struct hamlyn_share *share;
	u64 nodes;
	u64 key;
	struct list_head imports;
	u32 imported;
	/* Somebody waits for a word, or until all imports have gone; and how often something arrived. */
	wait_queue_head_t wait;
	atomic_t arrivals;
	/* It is closed, and these hosts are still to be told; and nobody has it mapped any more. */
	u64 untold;
	bool gone;
	struct list_head on_untold;
};

enum shrimp_progress {
	SHRIMP_ASKING,
	SHRIMP_MAPPED,
	SHRIMP_ENDED,
};

struct shrimp_mapping_object {
	struct card_object object;
	struct hamlyn_pages *memory;
	u32 host;
	u32 export;
	u64 key;
	u64 offset;
	u32 mode;
	enum shrimp_progress progress;
	/* How many pages are known. */
	u32 known;
	/* Why it ended: an error for who asked, and SHRIMP_STATE_*. */
	int error;
	u32 state;
	wait_queue_head_t wait;
	/* The exporter has to be told of the end, and has not been. */
	bool tell;
	struct list_head on_untold;
};

/* nipt.c */
enum shrimp_way { SHRIMP_OUT, SHRIMP_IN };
struct shrimp_page {
	struct shrimp_entry entry;
	/* Whose the parts are: a mapping's going out, an export's coming in. */
	void *owner[2][2];
	/* The host whose operating system's messages come here, plus one. */
	u32 system;
};
int shrimp_memory_check(struct hamlyn_card *card, const struct hamlyn_pages *memory);
u32 shrimp_pfn(const struct hamlyn_pages *memory, u32 page);
int shrimp_claim(struct hamlyn_card *card, const struct hamlyn_pages *memory, enum shrimp_way way,
		 void *owner);
void shrimp_disclaim(struct hamlyn_card *card, const struct hamlyn_pages *memory,
		     enum shrimp_way way, void *owner);
int shrimp_claim_system(struct hamlyn_card *card, u32 pfn, u32 host);
void shrimp_disclaim_system(struct hamlyn_card *card, u32 pfn);
int shrimp_set_out(struct hamlyn_card *card, u32 pfn, void *owner, const struct shrimp_out *out);
int shrimp_set_in(struct hamlyn_card *card, u32 pfn, void *owner, u64 nodes);

/* export.c */
extern const struct card_kind shrimp_export_kind;
int shrimp_export(struct hamlyn_file *file, void *argument);
void shrimp_export_undo(struct hamlyn_file *file, void *argument);
int shrimp_unexport(struct hamlyn_file *file, void *argument);
struct shrimp_export_object *shrimp_export_get(struct hamlyn_file *file, u32 index);
u32 shrimp_import(struct hamlyn_card *card, u32 host, u32 index, u32 mapping,
		  const struct shrimp_ask *ask, struct shrimp_pages *pages);
void shrimp_import_end(struct hamlyn_card *card, u32 host, u32 index, u32 mapping);
void shrimp_imports_lost(struct hamlyn_card *card, u32 host);
DEFINE_FREE(shrimp_export_put, struct shrimp_export_object *,
	    if (!IS_ERR_OR_NULL(_T)) hamlyn_object_put(&_T->object))

/* mapping.c */
extern const struct card_kind shrimp_mapping_kind;
int shrimp_map(struct hamlyn_file *file, void *argument);
void shrimp_map_undo(struct hamlyn_file *file, void *argument);
int shrimp_unmap(struct hamlyn_file *file, void *argument);
int shrimp_state(struct hamlyn_file *file, void *argument);
void shrimp_mapping_pages(struct hamlyn_card *card, u32 host, u32 index,
			  const struct shrimp_pages *pages);
void shrimp_mapping_refused(struct hamlyn_card *card, u32 host, u32 index, u32 why);
void shrimp_mappings_gone(struct hamlyn_card *card, u32 host, u32 export);
void shrimp_mappings_lost(struct hamlyn_card *card, u32 host);
void shrimp_mapping_told(struct hamlyn_card *card, struct shrimp_mapping_object *mapping);

/* protocol.c */
void shrimp_message(struct hamlyn_card *card, u32 host, const struct hamlyn_wire *wire,
		    const u8 *data);
void shrimp_lost(struct hamlyn_card *card, u32 host);
int shrimp_say_map(struct hamlyn_card *card, const struct shrimp_mapping_object *mapping);
void shrimp_tell(struct hamlyn_card *card);
void shrimp_tell_later(struct work_struct *work);

/* arrival.c */
int shrimp_wait(struct hamlyn_file *file, void *argument);
void shrimp_raised(struct hamlyn_card *card, unsigned int vector);

/* transport.c */
int shrimp_own_init(struct hamlyn_card *card);
void shrimp_own_free(struct hamlyn_card *card);
void shrimp_own_start(struct hamlyn_card *card);
void shrimp_own_stop(struct hamlyn_card *card, struct hamlyn_closed *closed);
void shrimp_own_arrived(struct hamlyn_card *card, u32 host);
const struct shrimp_arrival *shrimp_own_arrivals(struct hamlyn_card *card, u32 *count, u32 **taken);

/* ops.c */
static inline u32 shrimp_table(const struct hamlyn_card *card)
{
	return ((const struct shrimp_query *)card->limits.card)->pages;
}

#endif /* _SHRIMP_H */

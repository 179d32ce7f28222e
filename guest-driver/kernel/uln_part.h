/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * The pages of a part of express memory, and the state of each. This host assigns one half of them,
 * the other host the other half.
 */
#ifndef _ULN_PART_H
#define _ULN_PART_H

#include <linux/types.h>

#include "uln_wire.h"

/* Consecutive pages, by number. */
struct express_run {
	u32 first;
	u32 count;
};

/* The pages of an area: struct uln_express_pages in the processor's byte order. */
struct express_pages {
	u32 runs;
	struct express_run run[ULN_EXPRESS_RUNS];
};

static inline struct uln_express_pages uln_part_pack(const struct express_pages *pages)
{
	struct uln_express_pages packed = { .runs = cpu_to_le32(pages->runs) };
	unsigned int i;

	for (i = 0; i < ULN_EXPRESS_RUNS; i++) {
		packed.run[i].first = cpu_to_le32(pages->run[i].first);
		packed.run[i].count = cpu_to_le32(pages->run[i].count);
	}
	return packed;
}

static inline struct express_pages uln_part_unpack(const struct uln_express_pages *packed)
{
	struct express_pages pages = { .runs = le32_to_cpu(packed->runs) };
	unsigned int i;

	for (i = 0; i < ULN_EXPRESS_RUNS; i++) {
		pages.run[i].first = le32_to_cpu(packed->run[i].first);
		pages.run[i].count = le32_to_cpu(packed->run[i].count);
	}
	return pages;
}

struct express_part {
	/* Which memory; 0: there is none, and all is 0. */
	u64 memory;
	u32 pages;
	/* The first page of this host's half. */
	u32 ours;
	/* By page. */
	u8 *state;
	/* This host's pages in each state, and the other host's pages that views have. */
	u32 used;
	u32 leaving;
	u32 astray;
	u32 viewed;
};

/* Starts with this host's pages astray. @lower: this host has the lower id of the two. */
int uln_part_open(struct express_part *part, u64 memory, u32 pages, bool lower);
void uln_part_close(struct express_part *part);
/* Returns how many pages can be taken. */
u32 uln_part_free(const struct express_part *part);
/* Takes @count of this host's pages. -ENOSPC: fewer are free, or in too many pieces. */
int uln_part_take(struct express_part *part, u32 count, struct express_pages *pages);
/* Releases pages that were taken, but that the other host may still see. */
void uln_part_leave(struct express_part *part, const struct express_pages *pages);
/* The same, if it is unknown for how long. */
void uln_part_lose(struct express_part *part, const struct express_pages *pages);
/* Frees pages that the other host no longer sees. */
void uln_part_give(struct express_part *part, const struct express_pages *pages);
/* Frees what was astray, as the other host no longer sees it. */
void uln_part_settle(struct express_part *part);
/*
 * Gives a view pages of the other host, which that has named, and returns their number. -EPROTO: it
 * named others, or pages of another view.
 */
int uln_part_view(struct express_part *part, const struct express_pages *pages);
void uln_part_unview(struct express_part *part, const struct express_pages *pages);

#endif /* _ULN_PART_H */

/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * The pages of a part of express memory: whose each of them is. Half of them are this host's to
 * give, the other half the other's.
 */
#ifndef _HAMLYN_PART_H
#define _HAMLYN_PART_H

#include <linux/types.h>

#include "hamlyn_wire.h"

struct express_part {
	/* Which memory; 0: there is none, and all is 0. */
	u64 memory;
	u32 pages;
	/* The first of this host's half. */
	u32 ours;
	/* By page. */
	u8 *state;
	/* Pages of ours in each state, and of theirs that views have. */
	u32 used;
	u32 leaving;
	u32 astray;
	u32 viewed;
};

/* All of ours are astray at first. @lower: this host has the lower id of the two. */
int hamlyn_part_open(struct express_part *part, u64 memory, u32 pages, bool lower);
void hamlyn_part_close(struct express_part *part);
/* Pages that could be taken. */
u32 hamlyn_part_free(const struct express_part *part);
/* Takes @count of ours. -ENOSPC: not so many are free, or in too many pieces. */
int hamlyn_part_take(struct express_part *part, u32 count, struct hamlyn_express_pages *pages);
/* Pages that were taken: they are somebody's no more, but may be seen by the other host. */
void hamlyn_part_leave(struct express_part *part, const struct hamlyn_express_pages *pages);
/* Nobody can tell how long. */
void hamlyn_part_lose(struct express_part *part, const struct hamlyn_express_pages *pages);
/* Nobody sees them any more. */
void hamlyn_part_give(struct express_part *part, const struct hamlyn_express_pages *pages);
/* Nobody sees any more what was astray. */
void hamlyn_part_settle(struct express_part *part);
/*
 * A view gets these pages of theirs, which the other host has named: how many they are. -EPROTO: it
 * named others, or what another view has.
 */
int hamlyn_part_view(struct express_part *part, const struct hamlyn_express_pages *pages);
void hamlyn_part_unview(struct express_part *part, const struct hamlyn_express_pages *pages);

#endif /* _HAMLYN_PART_H */

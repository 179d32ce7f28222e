/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Express memory beside a card: where it is, and what processes hold of it.
 *
 *   expressmemory.c  PCI functions that have it, and the cards they belong to
 *   expressfile.c    areas and views as objects of a file, and the calls for them
 */
#ifndef _ULN_EXPRESSCARD_H
#define _ULN_EXPRESSCARD_H

#include "uln_core.h"
#include "uln_express.h"

/* A part: its bus address, and its address in the kernel. */
struct express_place {
	resource_size_t start;
	void *memory;
};

struct uln_express_memory {
	struct uln_card *card;
	const struct uln_express_ops *ops;
	struct list_head on_cards;
	/* Threads that wait for other hosts' answers. */
	wait_queue_head_t wait;
	/* Number of answers so far. */
	u32 news;
	struct express_place parts[ULN_EXPRESS_HOSTS];
};

/* An area or a view of a file. */
struct express_object {
	struct card_object object;
	struct uln_express_end end;
};

#define express_object(of) container_of(of, struct express_object, end)

/*
 * Holds all parts in place, so that the kernel may access them. No other lock is above it; cards'
 * locks are below it.
 */
void uln_express_hold(void);
void uln_express_let_go(void);

#endif /* _ULN_EXPRESSCARD_H */

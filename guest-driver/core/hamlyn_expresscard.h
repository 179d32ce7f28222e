/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Express memory beside a card: where it is, and what processes have of it.
 *
 *   expressmemory.c  functions that show it, and whose they are
 *   expressfile.c    areas and views as a file's objects, and the calls for them
 */
#ifndef _HAMLYN_CORE_EXPRESS_H
#define _HAMLYN_CORE_EXPRESS_H

#include "hamlyn_core.h"
#include "hamlyn_express.h"

/* A part: on the bus, and as the kernel sees it. */
struct express_place {
	resource_size_t start;
	void *memory;
};

struct hamlyn_express_memory {
	struct hamlyn_card *card;
	struct list_head on_cards;
	/* Who waits for other hosts' answers. */
	wait_queue_head_t wait;
	/* Answers so far. */
	u32 news;
	struct express_place parts[HAMLYN_EXPRESS_HOSTS];
};

/* An area or a view, of a file. */
struct express_object {
	struct card_object object;
	struct hamlyn_express_end end;
};

#define express_object(of) container_of(of, struct express_object, end)

/*
 * Whether parts may be looked at by the kernel: they stay as long as this is held. Above it is
 * nothing; below it are cards' locks.
 */
void hamlyn_express_hold(void);
void hamlyn_express_let_go(void);

extern const struct hamlyn_express_ops hamlyn_express_file_ops;

#endif /* _HAMLYN_CORE_EXPRESS_H */

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The echo card: declarations that its files share. Mailboxes are its only objects. The first is
 * the driver's.
 */
#ifndef _ECHO_H
#define _ECHO_H

#include "uln_core.h"
#include "echo_card.h"
#include "echo_uapi.h"

struct echo_own;

struct echo_parts {
	struct uln_card card;
	/* BAR 2: the outboxes, followed by the control page. */
	void __iomem *memory;
	void __iomem *control;
	/* Bus addresses of the outboxes and doorbells. */
	resource_size_t outboxes;
	resource_size_t doorbells;
	/* Mailboxes by number. Guarded by the card's lock. */
	struct xarray mailboxes;
	/* The driver's own mailbox (transport.c). */
	struct echo_own *own;
};

#define echo_parts(of) container_of_const(of, struct echo_parts, card)

struct echo_mailbox_object {
	struct card_object object;
	u32 records;
	struct uln_pages *inbox;
	struct uln_sleepers sleepers;
};

/* mailbox.c */
extern const struct card_kind echo_mailbox_kind;
int echo_mailbox_open(struct uln_file *file, void *argument);
int echo_mailbox_close(struct uln_file *file, void *argument);
void echo_mailbox_undo(struct uln_file *file, void *argument);
/* Returns message number @taken + 1 if it has arrived, else NULL. */
const struct echo_record *echo_mailbox_arrived(const struct echo_mailbox_object *mailbox,
					       u32 taken);
int echo_mailbox_wait(struct uln_file *file, void *argument);

/* lane.c */
extern const struct uln_lane_ops echo_lane_ops;

/* transport.c */
int echo_own_init(struct uln_card *card);
void echo_own_free(struct uln_card *card);
void echo_own_start(struct uln_card *card);
void echo_own_stop(struct uln_card *card, struct uln_closed *closed);

/* ops.c */
extern const struct card_ops echo_card_ops;

static inline u32 echo_mailboxes(const struct uln_card *card)
{
	return ((const struct echo_query *)card->limits.card)->mailboxes;
}

#endif /* _ECHO_H */

/* SPDX-License-Identifier: GPL-2.0-only */
/* The echo card: declarations that its files share. Mailboxes are its only objects. */
#ifndef _ECHO_H
#define _ECHO_H

#include "uln_core.h"
#include "echo_card.h"
#include "echo_uapi.h"

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
int echo_mailbox_wait(struct uln_file *file, void *argument);

/* ops.c */
extern const struct card_ops echo_card_ops;

static inline u32 echo_mailboxes(const struct uln_card *card)
{
	return ((const struct echo_query *)card->limits.card)->mailboxes;
}

#endif /* _ECHO_H */

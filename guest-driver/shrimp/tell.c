// SPDX-License-Identifier: GPL-2.0-only
/* What must be told to other hosts' drivers: sent as soon as there is room for it. */
#include "shrimp.h"

/* Delay until a message that found no room is tried again. */
#define AGAIN (HZ / 20)

void shrimp_due_init(struct shrimp_due *due,
		     bool (*tell)(struct uln_card *card, struct shrimp_due *due))
{
	INIT_LIST_HEAD(&due->on_card);
	due->tell = tell;
}

void shrimp_due_add(struct list_head *dues, struct shrimp_due *due)
{
	if (list_empty(&due->on_card))
		list_add_tail(&due->on_card, dues);
}

/* Has messages that found no room tried again soon. */
void shrimp_tell_again(struct uln_card *card)
{
	if (card->live)
		queue_delayed_work(system_freezable_wq, &shrimp_parts(card)->tell, AGAIN);
}

/* Something about pages could not be told, as there was no room for it. */
void shrimp_tell_soon(struct uln_card *card, struct shrimp_due *due)
{
	shrimp_due_add(&shrimp_parts(card)->telling, due);
	shrimp_tell_again(card);
}

static bool tell_all(struct uln_card *card, struct list_head *dues)
{
	struct shrimp_due *due, *next;
	bool all = true;

	list_for_each_entry_safe(due, next, dues, on_card)
		all = due->tell(card, due) && all;
	return all;
}

/* Tells what is due, now or later. A message about an end may follow those about pages. */
void shrimp_tell(struct uln_card *card)
{
	struct shrimp_parts *parts = shrimp_parts(card);
	bool all = tell_all(card, &parts->telling);

	all = tell_all(card, &parts->endings) && all;
	if (!all)
		shrimp_tell_again(card);
}

void shrimp_tell_later(struct work_struct *work)
{
	struct shrimp_parts *parts = container_of(to_delayed_work(work), struct shrimp_parts, tell);

	guard(mutex)(&parts->card.lock);
	if (parts->card.live)
		shrimp_tell(&parts->card);
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reported arrivals (section 4.2): messages of operating systems, and what processes wait for.
 *
 * A process asks the card for a report of the next arrival in a page of its own, through the page's
 * command page (export.c). The driver takes the report, counts it, and wakes the process.
 */
#include <linux/hrtimer.h>

#include "shrimp.h"

/* Handles an arrival in a page, for which a thread may wait. */
static void arrival_tell(struct uln_card *card, u32 pfn)
{
	const struct shrimp_page *page = xa_load(&shrimp_parts(card)->nipt, pfn);
	struct shrimp_export_object *export;
	unsigned int part;

	if (!page)
		return;
	if (page->system)
		shrimp_own_arrived(card, page->system - 1);
	for (part = 0; part < 2; part++) {
		export = page->owner[SHRIMP_IN][part];
		if (!export)
			continue;
		atomic_inc(&export->arrivals);
		/* A network device's softirq runs at once, as after an interrupt. */
		local_bh_disable();
		wake_up_all(&export->wait);
		local_bh_enable();
	}
}

/* Number of records handled together. */
#define BATCH 64

/*
 * Takes the available records, and reports this to the card. From then on it reports each of the
 * pages again. They may be checked only after that, or arrivals in between are missed.
 */
static u32 arrivals_take(struct uln_card *card, u32 *pages)
{
	const struct shrimp_arrival *ring, *record;
	u32 count, *taken, found;

	ring = shrimp_own_arrivals(card, &count, &taken);
	if (!ring)
		return 0;
	for (found = 0; found < BATCH; found++) {
		record = &ring[*taken % count];
		if (le32_to_cpu(READ_ONCE(record->number)) != *taken + 1)
			break;
		dma_rmb(); /* The page was written before the number. */
		pages[found] = le32_to_cpu(READ_ONCE(record->page));
		++*taken;
	}
	writel(*taken, card->registers + SHRIMP_REG_ARRIVALS_TAKEN);
	/* The card has it when this is answered. It raises the vector again if there are more. */
	readl(card->registers + SHRIMP_REG_IN_FILL);
	return found;
}

void shrimp_raised(struct uln_card *card, unsigned int vector)
{
	u32 pages[BATCH], found, i;

	/*
	 * The processor waits until the Outgoing FIFO drains (section 4). The card answers no load
	 * before, and cuts off a destination that takes too long. Others need the lock meanwhile.
	 */
	if (vector == SHRIMP_VECTOR_OUTGOING)
		readl(card->registers + SHRIMP_REG_OUT_FILL);

	guard(mutex)(&card->lock);
	if (!card->live)
		return;
	if (vector == SHRIMP_VECTOR_OUTGOING) {
		shrimp_cut_off(card);
		return;
	}
	if (vector != SHRIMP_VECTOR_ARRIVAL)
		return;
	found = arrivals_take(card, pages);
	for (i = 0; i < found; i++)
		arrival_tell(card, pages[i]);
}

int shrimp_wait(struct uln_file *file, void *argument)
{
	struct shrimp_export_object *export __free(shrimp_export_put) = NULL;
	struct shrimp_wait *wait = argument;
	ktime_t left = KTIME_MAX;
	u32 now;
	int ret;

	if (wait->timeout_ns < ULN_WAIT_FOREVER)
		return -EINVAL;
	export = shrimp_export_get(file, wait->export);
	if (IS_ERR(export))
		return PTR_ERR(export);
	if (wait->timeout_ns != ULN_WAIT_FOREVER)
		left = ns_to_ktime(wait->timeout_ns);
	if (!wait->timeout_ns)
		WRITE_ONCE(export->polled, wait->arrivals);
	ret = wait_event_interruptible_hrtimeout(
		export->wait,
		atomic_read(&export->arrivals) != wait->arrivals ||
			!READ_ONCE(export->object.open) || !READ_ONCE(file->card->live),
		left);

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	if (!export->object.open)
		return -ENOENT;
	now = atomic_read(&export->arrivals);
	if (now == wait->arrivals)
		return ret == -ERESTARTSYS ? -EINTR : -ETIMEDOUT;
	wait->arrivals = now;
	return 0;
}

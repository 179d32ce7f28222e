// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reported arrivals (section 4.2): messages of operating systems, and what processes wait for.
 *
 * A process sleeps while a word of an export is as it was. The driver asks the card to report the next
 * arrival for the word's page, makes sure that the card has heard that, looks at the word once more,
 * and sleeps; what arrives later is reported.
 */
#include <linux/hrtimer.h>

#include "shrimp.h"

/* Somebody may wait for what has arrived in a page. */
static void arrival_tell(struct hamlyn_card *card, u32 pfn)
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
		wake_up_all(&export->wait);
	}
}

/* Looked at together. */
#define BATCH 64

/*
 * Takes records that are there, and tells the card so: after that it reports each of the pages again.
 * Only then may they be looked at, or what arrives meanwhile is overlooked.
 */
static u32 arrivals_take(struct hamlyn_card *card, u32 *pages)
{
	const struct shrimp_arrival *ring, *record;
	u32 count, *taken, found;

	ring = shrimp_own_arrivals(card, &count, &taken);
	if (!ring)
		return 0;
	for (found = 0; found < BATCH; found++) {
		record = &ring[*taken % count];
		if (READ_ONCE(record->number) != *taken + 1)
			break;
		dma_rmb(); /* The page was written before the number. */
		pages[found] = READ_ONCE(record->page);
		++*taken;
	}
	writel(*taken, card->registers + SHRIMP_REG_ARRIVALS_TAKEN);
	/* The card has it when this is answered. It raises the vector for what there is more. */
	readl(card->registers + SHRIMP_REG_IN_FILL);
	return found;
}

void shrimp_raised(struct hamlyn_card *card, unsigned int vector)
{
	u32 pages[BATCH], found, i;

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

/* How often a page is brought back for one look at it. */
#define BRINGS 100

/* The word, which lies in one page. */
static u32 wait_word(const struct shrimp_export_object *export, u64 place)
{
	const u32 *word = page_address(export->memory->page[place / HAMLYN_PAGE_SIZE]) +
			  offset_in_page(place);

	return READ_ONCE(*word);
}

/*
 * Says what a word is. If that is as it was @before, asks for a report of the next arrival for its
 * page, and looks once more. -EAGAIN: the page is not in memory.
 */
static int wait_ask(struct shrimp_export_object *export, struct hamlyn_file *file, u64 place,
		    u32 before, u32 *value, u32 *arrivals)
{
	u32 page = place / HAMLYN_PAGE_SIZE;
	void __iomem *commands;

	CLASS(hamlyn_entry, entry)(file);
	if (entry.error)
		return entry.error;
	if (!export->object.open)
		return -ENOENT;
	if (!export->memory->page[page])
		return -EAGAIN;
	/* Who finds what he waits for needs no report, which costs an interrupt. */
	*value = wait_word(export, place);
	if (*value != before)
		return 0;
	*arrivals = atomic_read(&export->arrivals);
	commands = shrimp_parts(file->card)->commands +
		   (u64)shrimp_pfn(export->memory, page) * HAMLYN_PAGE_SIZE;
	writel(SHRIMP_REPORT_NEXT, commands);
	/* The card has it when this is answered. */
	readl(commands);
	*value = wait_word(export, place);
	return 0;
}

/* A page that is not in memory is brought there first: what it has may have changed before it left. */
static int wait_look(struct shrimp_export_object *export, struct hamlyn_file *file, u64 place,
		     u32 before, u32 *value, u32 *arrivals)
{
	unsigned int tries = BRINGS;
	int ret;

	for (;;) {
		ret = wait_ask(export, file, place, before, value, arrivals);
		if (ret != -EAGAIN)
			return ret;
		if (signal_pending(current))
			return -EINTR;
		/* It leaves as soon as it is there, again and again. */
		if (!tries--)
			return -EBUSY;
		ret = shrimp_paging_bring(export, place / HAMLYN_PAGE_SIZE);
		if (ret)
			return ret;
	}
}

static int wait_for(struct shrimp_export_object *export, struct hamlyn_file *file,
		    const struct shrimp_wait *wait)
{
	ktime_t end = ktime_add_ns(ktime_get(), wait->timeout_ns), left = KTIME_MAX;
	u64 place = export->memory->first + wait->offset;
	u32 arrivals, value;
	int ret;

	for (;;) {
		ret = wait_look(export, file, place, wait->value, &value, &arrivals);
		if (ret)
			return ret;
		if (value != wait->value)
			return 0;
		if (wait->timeout_ns != HAMLYN_WAIT_FOREVER)
			left = ktime_sub(end, ktime_get());
		if (left <= 0)
			return -ETIMEDOUT;
		/* For a page that leaves now this ends when it is mapped in again: nothing arrives before. */
		ret = wait_event_interruptible_hrtimeout(
			export->wait,
			atomic_read(&export->arrivals) != arrivals ||
				!READ_ONCE(export->object.open) || !READ_ONCE(file->card->live),
			left);
		if (ret == -ERESTARTSYS)
			return -EINTR;
	}
}

int shrimp_wait(struct hamlyn_file *file, void *argument)
{
	struct shrimp_export_object *export __free(shrimp_export_put) = NULL;
	const struct shrimp_wait *wait = argument;
	const struct hamlyn_pages *memory;

	if (wait->timeout_ns < HAMLYN_WAIT_FOREVER)
		return -EINVAL;
	export = shrimp_export_get(file, wait->export);
	if (IS_ERR(export))
		return PTR_ERR(export);
	memory = export->memory;
	if (memory->length < sizeof(u32) || wait->offset > memory->length - sizeof(u32) ||
	    (memory->first + wait->offset) % sizeof(u32))
		return -EINVAL;
	return wait_for(export, file, wait);
}

// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/* The pages of a part of express memory. */
#include <linux/slab.h>

#include "uln_part.h"

enum page_state {
	/*
	 * This host's: free; an area's; a closed area's, until the other host confirms; and in an
	 * unknown state until it settles.
	 */
	PAGE_FREE,
	PAGE_USED,
	PAGE_LEAVING,
	PAGE_ASTRAY,
	/* The other host's: a view has it. Those that no view has are free. */
	PAGE_VIEWED,
};

/* Moves a page from any state to another, and counts it there. */
static void part_set(struct express_part *part, u32 page, enum page_state state)
{
	u32 *const counts[] = {
		[PAGE_USED] = &part->used,
		[PAGE_LEAVING] = &part->leaving,
		[PAGE_ASTRAY] = &part->astray,
		[PAGE_VIEWED] = &part->viewed,
	};

	if (part->state[page] != PAGE_FREE)
		--*counts[part->state[page]];
	part->state[page] = state;
	if (state != PAGE_FREE)
		++*counts[state];
}

static void part_set_all(struct express_part *part, const struct express_pages *pages,
			 enum page_state state)
{
	u32 i, page;

	for (i = 0; i < pages->runs; i++)
		for (page = 0; page < pages->run[i].count; page++)
			part_set(part, pages->run[i].first + page, state);
}

int uln_part_open(struct express_part *part, u64 memory, u32 pages, bool lower)
{
	u32 i;

	part->state = kzalloc(pages, GFP_KERNEL);
	if (!part->state)
		return -ENOMEM;
	part->memory = memory;
	part->pages = pages;
	part->ours = lower ? 0 : pages / 2;
	for (i = 0; i < pages / 2; i++)
		part_set(part, part->ours + i, PAGE_ASTRAY);
	return 0;
}

void uln_part_close(struct express_part *part)
{
	kfree(part->state);
	memset(part, 0, sizeof(*part));
}

u32 uln_part_free(const struct express_part *part)
{
	return part->pages / 2 - part->used - part->leaving - part->astray;
}

/* Returns the shortest run of at least @wanted free pages, or else the longest; it may be empty. */
static struct express_run part_find(const struct express_part *part, u32 wanted)
{
	struct express_run best = {}, run = {};
	u32 end = part->ours + part->pages / 2, page;

	for (page = part->ours; page <= end; page++) {
		if (page < end && part->state[page] == PAGE_FREE) {
			if (!run.count++)
				run.first = page;
			continue;
		}
		if (best.count < wanted ? run.count > best.count :
					  run.count >= wanted && run.count < best.count)
			best = run;
		run.count = 0;
	}
	return best;
}

int uln_part_take(struct express_part *part, u32 count, struct express_pages *pages)
{
	struct express_run run;

	memset(pages, 0, sizeof(*pages));
	if (count > uln_part_free(part))
		return -ENOSPC;
	while (count) {
		run = part_find(part, count);
		if (run.count > count)
			run.count = count;
		if (!run.count || pages->runs == ULN_EXPRESS_RUNS) {
			part_set_all(part, pages, PAGE_FREE);
			return -ENOSPC;
		}
		pages->run[pages->runs++] = run;
		count -= run.count;
		for (; run.count; run.count--)
			part_set(part, run.first++, PAGE_USED);
	}
	return 0;
}

void uln_part_leave(struct express_part *part, const struct express_pages *pages)
{
	part_set_all(part, pages, PAGE_LEAVING);
}

void uln_part_lose(struct express_part *part, const struct express_pages *pages)
{
	part_set_all(part, pages, PAGE_ASTRAY);
}

void uln_part_give(struct express_part *part, const struct express_pages *pages)
{
	part_set_all(part, pages, PAGE_FREE);
}

void uln_part_settle(struct express_part *part)
{
	u32 i;

	for (i = 0; i < part->pages; i++)
		if (part->state[i] == PAGE_ASTRAY)
			part_set(part, i, PAGE_FREE);
}

/* Takes a run for a view, or as much of it as it may have. */
static u32 part_view_run(struct express_part *part, const struct express_run *run)
{
	u32 theirs = part->pages / 2 - part->ours, done;

	if (run->first < theirs || run->first >= theirs + part->pages / 2 ||
	    run->count > theirs + part->pages / 2 - run->first)
		return 0;
	for (done = 0; done < run->count && part->state[run->first + done] == PAGE_FREE; done++)
		part_set(part, run->first + done, PAGE_VIEWED);
	return done;
}

int uln_part_view(struct express_part *part, const struct express_pages *pages)
{
	u32 count = 0, done, i;

	if (!pages->runs || pages->runs > ULN_EXPRESS_RUNS)
		return -EPROTO;
	for (i = 0; i < pages->runs; i++) {
		done = part_view_run(part, &pages->run[i]);
		count += done;
		if (done && done == pages->run[i].count)
			continue;
		/* Give back what was taken for it. */
		for (; done; done--)
			part_set(part, pages->run[i].first + done - 1, PAGE_FREE);
		while (i--)
			for (done = pages->run[i].count; done; done--)
				part_set(part, pages->run[i].first + done - 1, PAGE_FREE);
		return -EPROTO;
	}
	return count;
}

void uln_part_unview(struct express_part *part, const struct express_pages *pages)
{
	part_set_all(part, pages, PAGE_FREE);
}

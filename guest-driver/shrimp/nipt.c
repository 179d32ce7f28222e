// SPDX-License-Identifier: GPL-2.0-only
/*
 * The page table (sections 3.1 and 3.2 of the paper): what the card has of it, and the owners of
 * the parts of a page. A page has two parts at most each way, so two buffers in it must touch.
 */
#include "shrimp.h"

/* Returns the first byte of the second part. */
static __le32 *page_split(struct shrimp_page *page, enum shrimp_way way)
{
	return way == SHRIMP_OUT ? &page->entry.split_out : &page->entry.split_in;
}

u32 shrimp_pfn(const struct uln_pages *memory, u32 page)
{
	return page_to_pfn(memory->page[page]);
}

/*
 * Checks that the card has a page in its table, under the processor's number for it: the card sees
 * addresses on the bus. The memory is mapped for the card.
 */
static int page_check(struct uln_card *card, const struct uln_pages *memory, unsigned long i)
{
	u32 per_list = ULN_PAGE_SIZE / sizeof(__le64);

	__le64 address = memory->lists[i / per_list][i % per_list];

	if (le64_to_cpu(address) != page_to_phys(memory->page[i])) {
		dev_err_once(&card->dev, "there is an IOMMU between card and memory: stores cannot be seen\n");
		return -EOPNOTSUPP;
	}
	if (page_to_pfn(memory->page[i]) >= shrimp_table(card)) {
		dev_err_once(&card->dev, "memory lies above the %u pages of the card's table\n",
			     shrimp_table(card));
		return -ENXIO;
	}
	return 0;
}

int shrimp_memory_check(struct uln_card *card, const struct uln_pages *memory)
{
	unsigned long i;
	int ret;

	for (i = 0; i < memory->count; i++) {
		ret = page_check(card, memory, i);
		if (ret)
			return ret;
	}
	return 0;
}

/* Returns the page, which is created if there is none. */
static struct shrimp_page *page_get(struct uln_card *card, u32 pfn)
{
	struct shrimp_page *page = xa_load(&shrimp_parts(card)->nipt, pfn);
	int ret;

	if (page)
		return page;
	page = kzalloc(sizeof(*page), GFP_KERNEL);
	if (!page)
		return ERR_PTR(-ENOMEM);
	ret = xa_insert(&shrimp_parts(card)->nipt, pfn, page, GFP_KERNEL);
	if (ret) {
		kfree(page);
		return ERR_PTR(ret);
	}
	return page;
}

/* Frees the page if it has no owner. */
static void page_put(struct uln_card *card, u32 pfn, struct shrimp_page *page)
{
	if (page->system || page->owner[SHRIMP_OUT][0] || page->owner[SHRIMP_OUT][1] ||
	    page->owner[SHRIMP_IN][0] || page->owner[SHRIMP_IN][1])
		return;
	xa_erase(&shrimp_parts(card)->nipt, pfn);
	kfree(page);
}

/* Makes bytes @from to @to of a page a part of it; -EBUSY: they cannot be one. */
static int page_claim(struct shrimp_page *page, enum shrimp_way way, u32 from, u32 to, void *owner)
{
	void **owners = page->owner[way];
	__le32 *split = page_split(page, way);
	unsigned int part = from ? 1 : 0;
	__le32 edge = cpu_to_le32(part ? from : to);

	if ((part && to != ULN_PAGE_SIZE) || owners[part])
		return -EBUSY;
	/* A buffer that has a page twice: its parts could not be told from each other. */
	if (owners[!part] == owner)
		return -EBUSY;
	/* The other part must keep what it has. */
	if (owners[!part] && *split != edge)
		return -EBUSY;
	*split = edge;
	owners[part] = owner;
	return 0;
}

static int page_part(const struct shrimp_page *page, enum shrimp_way way, const void *owner)
{
	return page->owner[way][0] == owner ? 0 : 1;
}

/* Removes the owner of a part, which maps nothing. */
static void page_disclaim(struct uln_card *card, u32 pfn, enum shrimp_way way, void *owner)
{
	struct shrimp_page *page = xa_load(&shrimp_parts(card)->nipt, pfn);

	if (!page)
		return;
	page->owner[way][page_part(page, way, owner)] = NULL;
	page_put(card, pfn, page);
}

static int memory_claim_page(struct uln_card *card, const struct uln_pages *memory, u32 i,
			     enum shrimp_way way, void *owner)
{
	u64 end = memory->first + memory->length - (u64)i * ULN_PAGE_SIZE;
	struct shrimp_page *page = page_get(card, shrimp_pfn(memory, i));
	int ret;

	if (IS_ERR(page))
		return PTR_ERR(page);
	ret = page_claim(page, way, i ? 0 : memory->first, min_t(u64, end, ULN_PAGE_SIZE),
			 owner);
	if (ret)
		page_put(card, shrimp_pfn(memory, i), page);
	return ret;
}

/* Puts a page that was given up back into a buffer; it is pinned, and the caller's on failure. */
int shrimp_page_take_back(struct uln_card *card, struct uln_pages *memory, u32 i,
			  struct page *page, void *owner)
{
	int ret = uln_pages_take_back(memory, i, page);

	if (ret)
		return ret;
	ret = page_check(card, memory, i) ?: memory_claim_page(card, memory, i, SHRIMP_IN, owner);
	if (ret)
		uln_pages_give_up(memory, i);
	return ret;
}

/* Takes a page that is mapped in for no host out of a buffer; the caller has to unpin it. */
struct page *shrimp_page_give_up(struct uln_card *card, struct uln_pages *memory, u32 i,
				 void *owner)
{
	page_disclaim(card, shrimp_pfn(memory, i), SHRIMP_IN, owner);
	return uln_pages_give_up(memory, i);
}

/* Returns whether only its owner needs a page that is mapped in. */
bool shrimp_page_is_only(struct uln_card *card, u32 pfn, const void *owner)
{
	const struct shrimp_page *page = xa_load(&shrimp_parts(card)->nipt, pfn);

	return page && !page->owner[SHRIMP_OUT][0] && !page->owner[SHRIMP_OUT][1] &&
	       !page->owner[SHRIMP_IN][!page_part(page, SHRIMP_IN, owner)];
}

/* Claims all of a buffer for its owner, or nothing. */
int shrimp_claim(struct uln_card *card, const struct uln_pages *memory, enum shrimp_way way,
		 void *owner)
{
	u32 i;
	int ret;

	for (i = 0; i < memory->count; i++) {
		ret = memory_claim_page(card, memory, i, way, owner);
		if (ret) {
			while (i--)
				page_disclaim(card, shrimp_pfn(memory, i), way, owner);
			return ret;
		}
	}
	return 0;
}

void shrimp_disclaim(struct uln_card *card, const struct uln_pages *memory,
		     enum shrimp_way way, void *owner)
{
	u32 i;

	for (i = 0; i < memory->count; i++)
		if (memory->page[i])
			page_disclaim(card, shrimp_pfn(memory, i), way, owner);
}

/* Claims a page of the driver's own that a host's operating system sends to. */
int shrimp_claim_system(struct uln_card *card, u32 pfn, u32 host)
{
	struct shrimp_page *page = page_get(card, pfn);

	if (IS_ERR(page))
		return PTR_ERR(page);
	page->system = host + 1;
	return 0;
}

void shrimp_disclaim_system(struct uln_card *card, u32 pfn)
{
	struct shrimp_page *page = xa_load(&shrimp_parts(card)->nipt, pfn);

	if (!page)
		return;
	page->system = 0;
	page_put(card, pfn, page);
}

/*
 * Adds a page's entry to the next command. A process may have changed the mode of what is mapped
 * out: that stays as it is.
 */
static void batch_add(struct uln_card *card, u32 pfn, const struct shrimp_page *page, __le64 flags)
{
	struct shrimp_batch *batch = &shrimp_parts(card)->batch;
	struct shrimp_page_entry *next = &batch->entries[batch->count++];

	next->page = cpu_to_le32(pfn);
	next->entry = page->entry;
	next->entry.flags |= cpu_to_le64(SHRIMP_ENTRY_KEEP_MODES) | flags;
}

/**
 * shrimp_send_entries() - have the card set the entries that have been collected
 * @card: the card; its lock is held
 *
 * Callers of shrimp_set_out() and shrimp_set_in() call this before they drop the lock. They do so
 * before they use what the entries allow, or give away what they took back.
 *
 * Return: 0 or an error of uln_command(). A card that keeps a page mapped has been stopped.
 */
int shrimp_send_entries(struct uln_card *card)
{
	struct shrimp_batch *batch = &shrimp_parts(card)->batch;
	u32 count = batch->count;
	bool unmaps = batch->unmaps;
	int ret;

	batch->count = 0;
	batch->unmaps = false;
	if (!count)
		return 0;
	/* The card may have failed in the middle of this. */
	if (!card->live)
		return -ENODEV;
	ret = uln_command(card, SHRIMP_COMMAND_SET_ENTRIES, count, batch->entries,
			  count * sizeof(batch->entries[0]));
	if (ret && unmaps && card->live) {
		dev_err(&card->dev, "%u pages are still mapped: the card must not go on\n",
			count);
		uln_card_fail(card);
	}
	return ret;
}

/* Has the page's entry set, together with others. */
static int page_set(struct uln_card *card, u32 pfn, const struct shrimp_page *page, bool unmaps)
{
	struct shrimp_batch *batch = &shrimp_parts(card)->batch;

	batch_add(card, pfn, page, 0);
	batch->unmaps |= unmaps;
	return batch->count == SHRIMP_MAX_ENTRIES ? shrimp_send_entries(card) : 0;
}

/* In an entry's flags, by part. */
static const __le64 withheld[] = {
	cpu_to_le64(SHRIMP_ENTRY_WITHHOLD_0),
	cpu_to_le64(SHRIMP_ENTRY_WITHHOLD_1),
};

/*
 * Maps the owner's part of a page out, or unmaps it if @out is zero. shrimp_send_entries()
 * completes it.
 */
int shrimp_set_out(struct uln_card *card, u32 pfn, void *owner, const struct shrimp_out *out)
{
	struct shrimp_page *page = xa_load(&shrimp_parts(card)->nipt, pfn);
	struct shrimp_out *now;
	unsigned int part;

	if (!page)
		return -ENOENT;
	part = page_part(page, SHRIMP_OUT, owner);
	now = &page->entry.out[part];
	if (!memcmp(now, out, sizeof(*out)) && !(page->entry.flags & withheld[part]))
		return 0;
	*now = *out;
	page->entry.flags &= ~withheld[part];
	return page_set(card, pfn, page, !out->mode);
}

/**
 * shrimp_withhold() - send nothing from some pages until they are mapped out again
 * @card: the card; its lock is held
 * @memory: the owner's buffer
 * @owner: the owner of parts of the pages that are mapped out
 * @pages: numbers of the pages in the buffer
 * @count: number of pages, at most SHRIMP_MAX_ENTRIES
 *
 * Return: a bit for each page from which something is still sent, as a transfer is in progress.
 */
u64 shrimp_withhold(struct uln_card *card, const struct uln_pages *memory, const void *owner,
		    const u32 *pages, u32 count)
{
	const __le64 *skipped = card->page + ULN_COMMAND_BODY;
	struct shrimp_page *page;
	u64 busy;
	u32 i, pfn;

	for (i = 0; i < count; i++) {
		pfn = shrimp_pfn(memory, pages[i]);
		page = xa_load(&shrimp_parts(card)->nipt, pfn);
		/* A page that is not mapped out: the batch so far must not be sent. */
		if (!page) {
			shrimp_parts(card)->batch.count = 0;
			return U64_MAX;
		}
		batch_add(card, pfn, page,
			  withheld[page_part(page, SHRIMP_OUT, owner)] |
				  cpu_to_le64(SHRIMP_ENTRY_UNLESS_BUSY));
	}
	busy = shrimp_send_entries(card) ? U64_MAX : le64_to_cpu(*skipped);
	for (i = 0; i < count; i++) {
		if (busy & BIT_ULL(i))
			continue;
		page = xa_load(&shrimp_parts(card)->nipt, shrimp_pfn(memory, pages[i]));
		page->entry.flags |= withheld[page_part(page, SHRIMP_OUT, owner)];
	}
	return busy;
}

/* Lets these hosts store to the owner's part of a page. shrimp_send_entries() completes it. */
int shrimp_set_in(struct uln_card *card, u32 pfn, void *owner, u64 nodes)
{
	struct shrimp_page *page = xa_load(&shrimp_parts(card)->nipt, pfn);
	struct shrimp_in *now;
	u64 before;

	if (!page)
		return -ENOENT;
	now = &page->entry.incoming[page_part(page, SHRIMP_IN, owner)];
	before = le64_to_cpu(now->nodes);
	if (before == nodes)
		return 0;
	now->nodes = cpu_to_le64(nodes);
	return page_set(card, pfn, page, before & ~nodes);
}

/* Maps a page out to one that the exporter has named. shrimp_send_entries() completes it. */
int shrimp_map_out(struct uln_card *card, struct shrimp_mapping_object *mapping, u32 page,
		   u64 to)
{
	struct shrimp_out out = {
		.page = cpu_to_le64(to),
		.node = cpu_to_le32(mapping->host),
		.mode = cpu_to_le32(mapping->mode),
	};

	u32 pfn = shrimp_pfn(mapping->memory, page);
	struct shrimp_page *own = xa_load(&shrimp_parts(card)->nipt, pfn);

	/* That page is for the operating system alone. */
	if (to >= SHRIMP_SYSTEM_PAGE)
		return -EPROTO;
	if (own && mapping->system)
		own->entry.flags |= cpu_to_le64(SHRIMP_ENTRY_SYSTEM);
	return shrimp_set_out(card, pfn, mapping, &out);
}

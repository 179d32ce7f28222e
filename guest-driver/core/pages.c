// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory for the card: pinning or allocation, accounting against RLIMIT_MEMLOCK, and the page lists
 * by which the card finds it (struct uln_area: a directory of lists of pages).
 *
 * The time for this grows with the memory, so it is done without the card's lock. Only the driver's
 * own memory, which is small, is handled with the lock held.
 */
#include <linux/cred.h>
#include <linux/overflow.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>

#include "uln_core.h"

#define PER_LIST (ULN_PAGE_SIZE / sizeof(__le64))
/* Number of pages that are unpinned between two calls of cond_resched(). */
#define PAGES_BATCH 512

/*
 * Charges pages to the user of the calling process, and compares all that the user has with the
 * process's own limit, as io_uring does. If address spaces were counted separately, a process could
 * fork and have the child pin memory through the parent's file. It would get the limit once more.
 */
static int pages_charge(struct uln_pages *pages)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	struct user_struct *user = current_user();
	long held;

	if (!capable(CAP_IPC_LOCK)) {
		held = atomic_long_read(&user->locked_vm);
		do {
			if (held + pages->count > limit)
				return -ENOMEM;
		} while (!atomic_long_try_cmpxchg(&user->locked_vm, &held, held + pages->count));
		pages->user = get_uid(user);
	}
	pages->mm = current->mm;
	mmgrab(pages->mm);
	atomic64_add(pages->count, &pages->mm->pinned_vm);
	return 0;
}

static void pages_uncharge(struct uln_pages *pages)
{
	if (pages->user) {
		atomic_long_sub(pages->count, &pages->user->locked_vm);
		free_uid(pages->user);
	}
	if (pages->mm) {
		atomic64_sub(pages->count, &pages->mm->pinned_vm);
		mmdrop(pages->mm);
	}
}

/* Unpins those pages of a range that have not been given up. */
static void pages_unpin_present(struct uln_pages *pages, unsigned long first,
				unsigned long count)
{
	unsigned long i;

	for (i = first; i < first + count; i++)
		if (pages->page[i])
			unpin_user_pages_dirty_lock(pages->page + i, 1,
						    pages->direction != DMA_TO_DEVICE);
}

/**
 * uln_pages_free() - unmap and release pages
 * @pages: the pages, which are no longer used, or NULL
 */
void uln_pages_free(struct uln_pages *pages)
{
	unsigned long i, count;

	if (!pages)
		return;
	uln_pages_unmap(pages);
	for (i = 0; i < pages->held; i += count) {
		count = min(pages->held - i, PAGES_BATCH);
		if (!pages->pinned)
			release_pages(pages->page + i, count);
		else if (!pages->given_up)
			unpin_user_pages_dirty_lock(pages->page + i, count,
						    pages->direction != DMA_TO_DEVICE);
		else
			pages_unpin_present(pages, i, count);
		cond_resched();
	}
	pages_uncharge(pages);
	if (pages->owner)
		uln_object_put(pages->owner);
	kvfree(pages->page);
	kfree(pages);
}

/*
 * Creates a set with no pages yet, for @length bytes from byte @first of the first page. If
 * @charged, the pages are charged at once; the driver's own are not charged.
 */
static struct uln_pages *pages_create(bool charged, u64 first, u64 length)
{
	struct uln_pages *pages __free(uln_pages) = NULL;
	int ret;

	pages = kzalloc(sizeof(*pages), GFP_KERNEL_ACCOUNT);
	if (!pages)
		return ERR_PTR(-ENOMEM);
	pages->first = first;
	pages->length = length;
	pages->count = DIV_ROUND_UP(first + length, ULN_PAGE_SIZE);
	ret = charged ? pages_charge(pages) : 0;
	if (ret)
		return ERR_PTR(ret);
	pages->page = kvcalloc(pages->count, sizeof(*pages->page), GFP_KERNEL_ACCOUNT);
	if (!pages->page)
		return ERR_PTR(-ENOMEM);
	return_ptr(pages);
}

/**
 * uln_pages_pin() - pin memory of the calling process
 * @address: where it begins
 * @length: its length
 * @direction: what the card does with it
 *
 * Must not be called with the card's lock held.
 *
 * Return: the pages; -EINVAL, -EFAULT, -ENOMEM, also if RLIMIT_MEMLOCK would be exceeded.
 */
struct uln_pages *uln_pages_pin(u64 address, u64 length, enum dma_data_direction direction)
{
	struct uln_pages *pages __free(uln_pages) = NULL;
	u64 first = offset_in_page(address), end;
	long ret;

	if (!length || length > ULN_MAX_AREA - first)
		return ERR_PTR(-EINVAL);
	if (check_add_overflow(address, length, &end) || end > ULONG_MAX)
		return ERR_PTR(-EFAULT);
	pages = pages_create(true, first, length);
	if (IS_ERR(pages))
		return_ptr(pages);
	pages->pinned = true;
	pages->direction = direction;
	while (pages->held < pages->count) {
		/*
		 * Pin for writing even if the card only reads: a private page must not be replaced
		 * by a copy later.
		 */
		ret = pin_user_pages_fast((address - first) + pages->held * PAGE_SIZE,
					  pages->count - pages->held, FOLL_WRITE | FOLL_LONGTERM,
					  pages->page + pages->held);
		if (ret <= 0)
			return ERR_PTR(ret ?: -EFAULT);
		pages->held += ret;
	}
	return_ptr(pages);
}

/**
 * uln_pages_share() - some pages of memory that is pinned and mapped already
 * @whole: the memory
 * @owner: the object that has it; the pages hold a reference to it
 * @offset: first byte
 * @length: number of bytes; offset + length is at most the length of @whole
 *
 * Only lists of their own are made for the pages when they are mapped.
 *
 * Return: the pages; -ENOMEM.
 */
struct uln_pages *uln_pages_share(const struct uln_pages *whole, struct card_object *owner,
				  u64 offset, u64 length)
{
	struct uln_pages *pages = kzalloc(sizeof(*pages), GFP_KERNEL_ACCOUNT);
	u64 first = whole->first + offset;

	if (!pages)
		return ERR_PTR(-ENOMEM);
	kref_get(&owner->users);
	pages->whole = whole;
	pages->owner = owner;
	pages->skipped = first / ULN_PAGE_SIZE;
	pages->first = first % ULN_PAGE_SIZE;
	pages->length = length;
	pages->count = DIV_ROUND_UP(pages->first + length, ULN_PAGE_SIZE);
	return pages;
}

/* Releases pages, and forgets them. */
void uln_pages_give_back(struct uln_pages **pages)
{
	uln_pages_free(*pages);
	*pages = NULL;
}

/**
 * uln_pages_alloc() - allocate zeroed memory that card and process share
 * @file: its owner: memory of a process is charged to the caller, the driver's own is not charged
 * @length: its length
 *
 * Return: the pages; -ENOMEM, also if RLIMIT_MEMLOCK would be exceeded; -EINTR if the caller is
 * killed.
 */
struct uln_pages *uln_pages_alloc(struct uln_file *file, u64 length)
{
	struct uln_pages *pages __free(uln_pages) = pages_create(file->share, 0, length);

	if (IS_ERR(pages))
		return_ptr(pages);
	pages->direction = DMA_BIDIRECTIONAL;
	for (; pages->held < pages->count; pages->held++) {
		if (fatal_signal_pending(current))
			return ERR_PTR(-EINTR);
		pages->page[pages->held] = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
		if (!pages->page[pages->held])
			return ERR_PTR(-ENOMEM);
	}
	return_ptr(pages);
}

/*
 * Pages are mapped for the device without the card's lock, so perhaps while the driver is being
 * unbound. But a device without a driver must have no DMA mappings. So they are counted, and the
 * driver stays until there are none.
 */
void uln_mappings_init(struct uln_card *card)
{
	refcount_set(&card->mappings, 1);
	init_completion(&card->unmapped);
}

static int pages_get_mapping(struct uln_card *card)
{
	return refcount_inc_not_zero(&card->mappings) ? 0 : -ENODEV;
}

static void pages_put_mapping(struct uln_card *card)
{
	if (refcount_dec_and_test(&card->mappings))
		complete(&card->unmapped);
}

/* The card is stopped for good: on return nothing is mapped, and nothing can be mapped. */
void uln_mappings_wait(struct uln_card *card)
{
	pages_put_mapping(card);
	wait_for_completion(&card->unmapped);
}

/*
 * Pages are never synchronized. They must be coherent in both directions: card and process use them
 * at the same time (a send buffer is filled after it has been mapped), and a page may be in several
 * objects.
 */
#ifdef DMA_ATTR_REQUIRE_COHERENT
#define PAGE_ATTRS DMA_ATTR_REQUIRE_COHERENT
#else
#define PAGE_ATTRS DMA_ATTR_SKIP_CPU_SYNC
#endif

/* A kernel that debugs DMA reports that any page behind an IOMMU must be synchronized. */
static bool page_is_coherent(struct device *dev, dma_addr_t dma)
{
	return PAGE_ATTRS != DMA_ATTR_SKIP_CPU_SYNC || !dma_need_sync(dev, dma);
}

static void pages_unmap_one(struct device *dev, dma_addr_t dma, enum dma_data_direction direction)
{
	dma_unmap_page_attrs(dev, dma, ULN_PAGE_SIZE, direction, PAGE_ATTRS);
}

/* Returns whether a page could be mapped if it did not have to be coherent. */
static bool page_can_be_mapped(struct device *dev, struct page *page,
			       enum dma_data_direction direction)
{
	dma_addr_t dma = dma_map_page_attrs(dev, page, 0, ULN_PAGE_SIZE, direction,
					    DMA_ATTR_SKIP_CPU_SYNC);

	if (dma_mapping_error(dev, dma))
		return false;
	dma_unmap_page_attrs(dev, dma, ULN_PAGE_SIZE, direction, DMA_ATTR_SKIP_CPU_SYNC);
	return true;
}

/* Lets the card reach a page. */
static int pages_map_one(struct device *dev, struct page *page, enum dma_data_direction direction,
			 dma_addr_t *dma)
{
	*dma = dma_map_page_attrs(dev, page, 0, ULN_PAGE_SIZE, direction, PAGE_ATTRS);
	if (!dma_mapping_error(dev, *dma)) {
		if (page_is_coherent(dev, *dma))
			return 0;
		pages_unmap_one(dev, *dma, direction);
	} else if (!page_can_be_mapped(dev, page, direction)) {
		return -ENOMEM;
	}
	/* Bounce buffers, for example, are not coherent. */
	dev_err_ratelimited(dev, "memory is not coherent with the card on this machine\n");
	return -EOPNOTSUPP;
}

int uln_page_map(struct uln_card *card, struct page *page, enum dma_data_direction direction,
		 dma_addr_t *dma)
{
	int ret = pages_get_mapping(card);

	if (ret)
		return ret;
	ret = pages_map_one(&card->pdev->dev, page, direction, dma);
	if (ret)
		pages_put_mapping(card);
	return ret;
}

void uln_page_unmap(struct uln_card *card, dma_addr_t dma, enum dma_data_direction direction)
{
	pages_unmap_one(&card->pdev->dev, dma, direction);
	pages_put_mapping(card);
}

static __le64 *pages_entry(const struct uln_pages *pages, unsigned long i)
{
	return &pages->lists[i / PER_LIST][i % PER_LIST];
}

/* Lets the card reach page @i; returns its address. */
static int pages_map_page(struct uln_pages *pages, struct device *dev, unsigned long i,
			  dma_addr_t *dma)
{
	int ret;

	if (pages->whole) {
		*dma = le64_to_cpu(*pages_entry(pages->whole, pages->skipped + i));
		return 0;
	}
	ret = pages_map_one(dev, pages->page[i], pages->direction, dma);
	if (!ret)
		pages->mapped_pages++;
	return ret;
}

static int pages_map_list(struct uln_pages *pages, struct device *dev, unsigned long list)
{
	unsigned long first = list * PER_LIST, i;
	__le64 *entries = (__le64 *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	dma_addr_t dma;
	int ret;

	if (!entries)
		return -ENOMEM;
	pages->lists[list] = entries;
	for (i = first; i < min(first + PER_LIST, pages->count); i++) {
		ret = pages_map_page(pages, dev, i, &dma);
		if (ret)
			return ret;
		entries[i - first] = cpu_to_le64(dma);
	}
	ret = pages_map_one(dev, virt_to_page(entries), DMA_TO_DEVICE, &dma);
	if (ret)
		return ret;
	pages->directory[list] = cpu_to_le64(dma);
	pages->mapped_lists++;
	return 0;
}

static int pages_map_lists(struct uln_pages *pages, struct device *dev)
{
	unsigned long list;
	int ret;

	for (list = 0; list < DIV_ROUND_UP(pages->count, PER_LIST); list++) {
		ret = pages_map_list(pages, dev, list);
		if (ret)
			return ret;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	ret = pages_map_one(dev, virt_to_page(pages->directory), DMA_TO_DEVICE,
			    &pages->directory_dma);
	pages->mapped_directory = !ret;
	return ret;
}

/**
 * uln_pages_map() - let the card reach pages, once it has their description
 * @pages: the pages
 * @card: the card
 *
 * Return: 0; -ENODEV if the driver is being unbound, -EOPNOTSUPP if the memory is not coherent with
 * the card, -ENOMEM, -EINTR.
 */
int uln_pages_map(struct uln_pages *pages, struct uln_card *card)
{
	int ret = pages_get_mapping(card);

	if (ret)
		return ret;
	pages->card = card;
	ret = -ENOMEM;
	pages->directory = (__le64 *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	pages->lists = kcalloc(DIV_ROUND_UP(pages->count, PER_LIST), sizeof(*pages->lists),
			       GFP_KERNEL_ACCOUNT);
	if (pages->directory && pages->lists)
		ret = pages_map_lists(pages, &card->pdev->dev);
	if (ret)
		uln_pages_unmap(pages);
	return ret;
}

/**
 * uln_pages_make() - allocate zeroed memory that the card can reach
 * @file: its owner, as for uln_pages_alloc()
 * @length: its length
 * @made: gets the pages; unchanged if this fails
 *
 * Return: 0, or an error as of uln_pages_alloc() and uln_pages_map().
 */
int uln_pages_make(struct uln_file *file, u64 length, struct uln_pages **made)
{
	struct uln_pages *pages __free(uln_pages) = uln_pages_alloc(file, length);
	int ret;

	if (IS_ERR(pages))
		return PTR_ERR(pages);
	ret = uln_pages_map(pages, file->card);
	if (!ret)
		*made = no_free_ptr(pages);
	return ret;
}

/* Describes the pages for the card. */
void uln_pages_describe(const struct uln_pages *pages, struct uln_area *area)
{
	*area = (struct uln_area) {
		.directory = cpu_to_le64(pages->directory_dma),
		.length = cpu_to_le64(pages->length),
		.first = cpu_to_le32(pages->first),
	};
}

static void pages_unmap_list(struct uln_pages *pages, struct device *dev, unsigned long list)
{
	unsigned long first = list * PER_LIST, i;

	if (list < pages->mapped_lists)
		pages_unmap_one(dev, le64_to_cpu(pages->directory[list]), DMA_TO_DEVICE);
	for (i = first; i < min(first + PER_LIST, pages->mapped_pages); i++)
		if (pages->page[i])
			pages_unmap_one(dev, le64_to_cpu(pages->lists[list][i - first]),
					pages->direction);
	free_page((unsigned long)pages->lists[list]);
}

/**
 * uln_pages_unmap() - make pages unreachable for the card
 * @pages: the pages; nothing happens if they are not mapped
 *
 * The card has confirmed that it no longer uses them, or its DMA has been switched off.
 */
void uln_pages_unmap(struct uln_pages *pages)
{
	struct device *dev;
	unsigned long list;

	if (!pages->card)
		return;
	dev = &pages->card->pdev->dev;
	if (pages->mapped_directory)
		pages_unmap_one(dev, pages->directory_dma, DMA_TO_DEVICE);
	for (list = 0; pages->lists && list < DIV_ROUND_UP(pages->count, PER_LIST); list++) {
		pages_unmap_list(pages, dev, list);
		cond_resched();
	}
	free_page((unsigned long)pages->directory);
	kfree(pages->lists);
	pages->lists = NULL;
	pages->directory = NULL;
	pages->mapped_pages = 0;
	pages->mapped_lists = 0;
	pages->mapped_directory = false;
	pages_put_mapping(pages->card);
	pages->card = NULL;
}

/*
 * Removes one of a process's pages, which the card no longer knows, and returns it for the caller
 * to unpin. Callers of this function never pass the page lists to a card.
 */
struct page *uln_pages_give_up(struct uln_pages *pages, unsigned long i)
{
	struct page *page = pages->page[i];

	pages_unmap_one(&pages->card->pdev->dev, le64_to_cpu(*pages_entry(pages, i)),
			pages->direction);
	pages->page[i] = NULL;
	pages->given_up = true;
	return page;
}

/* Puts a pinned page in the place of one that was given up. The caller keeps it if this fails. */
int uln_pages_take_back(struct uln_pages *pages, unsigned long i, struct page *page)
{
	dma_addr_t dma;
	int ret;

	ret = pages_map_one(&pages->card->pdev->dev, page, pages->direction, &dma);
	if (ret)
		return ret;
	*pages_entry(pages, i) = cpu_to_le64(dma);
	pages->page[i] = page;
	return 0;
}

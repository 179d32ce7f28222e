// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory for the card: pinning or allocating it, counting it against RLIMIT_MEMLOCK, and the page
 * lists by which the card finds it (struct hamlyn_area: a directory of lists of pages).
 */
#include <linux/overflow.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include "hamlyn.h"

#define PER_LIST (HAMLYN_PAGE_SIZE / sizeof(__u64))

static int account(struct mm_struct *mm, unsigned long count)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	s64 now = atomic64_add_return(count, &mm->pinned_vm);

	if (now > 0 && (u64)now > limit && !capable(CAP_IPC_LOCK)) {
		atomic64_sub(count, &mm->pinned_vm);
		return -ENOMEM;
	}
	return 0;
}

/*
 * An empty set of pages, for @length bytes from byte @first of the first; counted already, unless
 * they are nobody's.
 */
static struct hamlyn_pages *create(struct mm_struct *mm, u64 first, u64 length)
{
	struct hamlyn_pages *pages;
	int ret;

	pages = kzalloc(sizeof(*pages), GFP_KERNEL_ACCOUNT);
	if (!pages)
		return ERR_PTR(-ENOMEM);
	pages->first = first;
	pages->length = length;
	pages->count = DIV_ROUND_UP(first + length, HAMLYN_PAGE_SIZE);
	pages->pages = kvcalloc(pages->count, sizeof(*pages->pages), GFP_KERNEL_ACCOUNT);
	ret = pages->pages ? 0 : -ENOMEM;
	if (!ret && mm)
		ret = account(mm, pages->count);
	if (ret) {
		kvfree(pages->pages);
		kfree(pages);
		return ERR_PTR(ret);
	}
	pages->mm = mm;
	if (mm)
		mmgrab(mm);
	return pages;
}

/* Gives the pages back: nobody else uses them any more, and they have been unmapped. */
void hamlyn_pages_free(struct hamlyn_pages *pages)
{
	unsigned long i;

	if (!pages)
		return;
	if (pages->pinned)
		unpin_user_pages_dirty_lock(pages->pages, pages->held,
					    pages->direction != DMA_TO_DEVICE);
	else
		for (i = 0; i < pages->held; i++)
			put_page(pages->pages[i]);
	if (pages->mm) {
		atomic64_sub(pages->count, &pages->mm->pinned_vm);
		mmdrop(pages->mm);
	}
	kvfree(pages->pages);
	kfree(pages);
}

/* Pins memory of the calling process. Must not be called with the card's lock held. */
struct hamlyn_pages *hamlyn_pages_pin(u64 address, u64 length, enum dma_data_direction direction)
{
	struct hamlyn_pages *pages __free(hamlyn_pages) = NULL;
	u64 first = offset_in_page(address), end;
	long ret;

	if (!length || length > HAMLYN_MAX_AREA - first)
		return ERR_PTR(-EINVAL);
	if (check_add_overflow(address, length, &end) || end > ULONG_MAX)
		return ERR_PTR(-EFAULT);
	pages = create(current->mm, first, length);
	if (IS_ERR(pages))
		return_ptr(pages);
	pages->pinned = true;
	pages->direction = direction;
	while (pages->held < pages->count) {
		/*
		 * For writing even if the card only reads: a private page must not be replaced by a
		 * copy later.
		 */
		ret = pin_user_pages_fast((address - first) + pages->held * PAGE_SIZE,
					  pages->count - pages->held, FOLL_WRITE | FOLL_LONGTERM,
					  pages->pages + pages->held);
		if (ret <= 0)
			return ERR_PTR(ret ?: -EFAULT);
		pages->held += ret;
	}
	return_ptr(pages);
}

/* Allocates zeroed memory of the driver's own, on somebody's account or nobody's. */
struct hamlyn_pages *hamlyn_pages_alloc(struct mm_struct *mm, u64 length)
{
	struct hamlyn_pages *pages __free(hamlyn_pages) = create(mm, 0, length);

	if (IS_ERR(pages))
		return_ptr(pages);
	pages->direction = DMA_BIDIRECTIONAL;
	for (; pages->held < pages->count; pages->held++) {
		pages->pages[pages->held] = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
		if (!pages->pages[pages->held])
			return ERR_PTR(-ENOMEM);
	}
	return_ptr(pages);
}

/*
 * Lets the card reach a page. It must be coherent whichever way the data goes, because card and
 * process use it at the same time: a send buffer is filled after it has been mapped.
 */
int hamlyn_page_map(struct device *dev, struct page *page, enum dma_data_direction direction,
		    dma_addr_t *dma)
{
	*dma = dma_map_page(dev, page, 0, HAMLYN_PAGE_SIZE, direction);
	if (dma_mapping_error(dev, *dma))
		return -ENOMEM;
	/* Bounce buffers, for one, are not. */
	if (dma_need_sync(dev, *dma)) {
		dma_unmap_page(dev, *dma, HAMLYN_PAGE_SIZE, direction);
		dev_err_ratelimited(dev, "memory is not coherent with the card on this machine\n");
		return -EOPNOTSUPP;
	}
	return 0;
}

static int map_pages(struct hamlyn_pages *pages)
{
	dma_addr_t dma;
	unsigned long i;
	int ret;

	for (i = 0; i < pages->count; i++) {
		if (i % PER_LIST == 0) {
			pages->lists[i / PER_LIST] = (__u64 *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
			if (!pages->lists[i / PER_LIST])
				return -ENOMEM;
		}
		ret = hamlyn_page_map(pages->dev, pages->pages[i], pages->direction, &dma);
		if (ret)
			return ret;
		pages->lists[i / PER_LIST][i % PER_LIST] = dma;
		pages->mapped_pages++;
	}
	return 0;
}

static int map_lists(struct hamlyn_pages *pages)
{
	dma_addr_t dma;
	unsigned long i;
	int ret;

	for (i = 0; i < DIV_ROUND_UP(pages->count, PER_LIST); i++) {
		ret = hamlyn_page_map(pages->dev, virt_to_page(pages->lists[i]), DMA_TO_DEVICE,
				      &dma);
		if (ret)
			return ret;
		pages->directory[i] = dma;
		pages->mapped_lists++;
	}
	ret = hamlyn_page_map(pages->dev, virt_to_page(pages->directory), DMA_TO_DEVICE,
			      &pages->directory_dma);
	if (ret)
		return ret;
	pages->mapped_directory = true;
	return 0;
}

/* Lets the card reach the pages; the card's lock is held. */
int hamlyn_pages_map(struct hamlyn_pages *pages, struct device *dev)
{
	int ret = -ENOMEM;

	pages->dev = dev;
	pages->directory = (__u64 *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	pages->lists = kcalloc(DIV_ROUND_UP(pages->count, PER_LIST), sizeof(*pages->lists),
			       GFP_KERNEL_ACCOUNT);
	if (pages->directory && pages->lists)
		ret = map_pages(pages);
	if (!ret)
		ret = map_lists(pages);
	if (ret)
		hamlyn_pages_unmap(pages);
	return ret;
}

/* How the card is told of the pages. */
void hamlyn_pages_describe(const struct hamlyn_pages *pages, struct hamlyn_area *area)
{
	*area = (struct hamlyn_area) {
		.directory = pages->directory_dma,
		.length = pages->length,
		.first = pages->first,
	};
}

/*
 * Takes from the card what it could reach: it has confirmed that it will not, or cannot do DMA at
 * all. The card's lock is held. Does nothing to pages that are not mapped.
 */
void hamlyn_pages_unmap(struct hamlyn_pages *pages)
{
	unsigned long i;

	if (!pages)
		return;
	if (pages->mapped_directory)
		dma_unmap_page(pages->dev, pages->directory_dma, HAMLYN_PAGE_SIZE, DMA_TO_DEVICE);
	for (i = 0; i < pages->mapped_lists; i++)
		dma_unmap_page(pages->dev, pages->directory[i], HAMLYN_PAGE_SIZE, DMA_TO_DEVICE);
	for (i = 0; i < pages->mapped_pages; i++)
		dma_unmap_page(pages->dev, pages->lists[i / PER_LIST][i % PER_LIST],
			       HAMLYN_PAGE_SIZE, pages->direction);
	for (i = 0; pages->lists && i < DIV_ROUND_UP(pages->count, PER_LIST); i++)
		free_page((unsigned long)pages->lists[i]);
	free_page((unsigned long)pages->directory);
	kfree(pages->lists);
	pages->lists = NULL;
	pages->directory = NULL;
	pages->mapped_pages = 0;
	pages->mapped_lists = 0;
	pages->mapped_directory = false;
}

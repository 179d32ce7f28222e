// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where the pages of endpoints are (section 3). None is pinned: the card is told of a page when it asks,
 * and before the kernel uses the page for something else it is told that the page is there no more.
 *
 * A page is looked up without any lock, as it may have to be brought in. If the kernel takes memory of the
 * endpoint back meanwhile, which the notifier's number says, it is looked up again; the card is told with
 * the lock held, which the kernel's callback takes as well. So the card knows no page that is not there.
 *
 * The lock is taken where memory is taken back, so nobody takes memory with it held.
 */
#include <linux/hmm.h>

#include "dart.h"

/* Of a page that the card may know. */
struct dart_frame {
	struct page *page;
	dma_addr_t dma;
	bool writable;
};

static struct dart_parts *pages_parts(const struct dart_endpoint_object *endpoint)
{
	return dart_parts(endpoint->card);
}

static bool pages_may_tell(const struct dart_endpoint_object *endpoint)
{
	return endpoint->told && pages_parts(endpoint)->told;
}

/* The lock is held in all of these. */
static void tell_where(const struct dart_endpoint_object *endpoint, u64 number)
{
	void __iomem *registers = endpoint->card->registers;

	writeq(endpoint->object.index, registers + DART_REG_TLB_SPACE);
	writeq(number << PAGE_SHIFT, registers + DART_REG_TLB_PAGE);
}

static void tell_fill(const struct dart_endpoint_object *endpoint, u64 number, u64 frame)
{
	if (!pages_may_tell(endpoint))
		return;
	tell_where(endpoint, number);
	writeq(frame, endpoint->card->registers + DART_REG_TLB_FILL);
}

/* When this returns the card reaches nothing by these pages any more. */
static void tell_invalidate(const struct dart_endpoint_object *endpoint, u64 first, u64 count)
{
	if (!pages_may_tell(endpoint))
		return;
	tell_where(endpoint, first);
	writeq(count, endpoint->card->registers + DART_REG_TLB_INVALIDATE);
	readl(endpoint->card->registers + DART_REG_TLB_INVALIDATE);
}

/* The card does not know it any more. */
static void frame_free(struct hamlyn_card *card, struct dart_frame *frame)
{
	/* It may have been written to. The page is still mapped: whoever takes it back waits for us. */
	if (frame->writable)
		set_page_dirty(frame->page);
	hamlyn_page_unmap(card, frame->dma, DMA_BIDIRECTIONAL);
	kfree(frame);
}

/* The kernel is about to change what is at these addresses. */
static bool pages_invalidate(struct mmu_interval_notifier *notifier,
			     const struct mmu_notifier_range *range, unsigned long number)
{
	struct dart_endpoint_object *endpoint =
		container_of(notifier, struct dart_endpoint_object, notifier);
	struct dart_parts *parts = pages_parts(endpoint);
	unsigned long page, last = (range->end - 1) >> PAGE_SHIFT;
	unsigned long first = range->start >> PAGE_SHIFT;
	struct dart_frame *frame;

	if (mmu_notifier_range_blockable(range))
		mutex_lock(&parts->translations);
	else if (!mutex_trylock(&parts->translations))
		return false;
	mmu_interval_set_seq(notifier, number);
	page = first;
	if (xa_find(&endpoint->frames, &page, last, XA_PRESENT))
		tell_invalidate(endpoint, first, last - first + 1);
	xa_for_each_range(&endpoint->frames, page, frame, first, last) {
		xa_erase(&endpoint->frames, page);
		frame_free(endpoint->card, frame);
	}
	mutex_unlock(&parts->translations);
	return true;
}

const struct mmu_interval_notifier_ops dart_endpoint_pages = { .invalidate = pages_invalidate };

/* The card has opened the endpoint; and is about to close it. The card's lock is held. */
void dart_pages_begin(struct dart_endpoint_object *endpoint)
{
	guard(mutex)(&pages_parts(endpoint)->translations);
	endpoint->told = true;
}

/* What the card knows of it, it must not know of the next that has its number. */
void dart_pages_end(struct dart_endpoint_object *endpoint)
{
	guard(mutex)(&pages_parts(endpoint)->translations);
	tell_invalidate(endpoint, 0, U64_MAX >> PAGE_SHIFT);
	endpoint->told = false;
}

static bool pages_forget_next(struct dart_endpoint_object *endpoint)
{
	struct dart_frame *frame;
	unsigned long page = 0;

	guard(mutex)(&pages_parts(endpoint)->translations);
	frame = xa_find(&endpoint->frames, &page, ULONG_MAX, XA_PRESENT);
	if (!frame)
		return false;
	xa_erase(&endpoint->frames, page);
	frame_free(endpoint->card, frame);
	return true;
}

/* Nobody uses the endpoint any more, and no lock is held. */
void dart_pages_forget(struct dart_endpoint_object *endpoint)
{
	/* As long as there is the notifier, these are the process' pages still. */
	while (pages_forget_next(endpoint))
		cond_resched();
	mmu_interval_notifier_remove(&endpoint->notifier);
	xa_destroy(&endpoint->frames);
}

/* Whether the card may be told of pages at all: it answers. The card's lock is held. */
void dart_pages_tell(struct hamlyn_card *card, bool told)
{
	guard(mutex)(&dart_parts(card)->translations);
	dart_parts(card)->told = told;
}

/* A page that was found before, and that the card has forgotten. False: there is none for that. */
static bool page_known(struct dart_endpoint_object *endpoint, u64 number, bool writes)
{
	const struct dart_frame *frame;

	guard(mutex)(&pages_parts(endpoint)->translations);
	frame = xa_load(&endpoint->frames, number);
	if (!frame || (writes && !frame->writable))
		return false;
	tell_fill(endpoint, number, frame->dma | (frame->writable ? DART_FRAME_WRITABLE : 0));
	return true;
}

static void page_tell_none(struct dart_endpoint_object *endpoint, u64 number, bool writes)
{
	guard(mutex)(&pages_parts(endpoint)->translations);
	tell_fill(endpoint, number, DART_FRAME_NONE | (writes ? DART_FRAME_WRITABLE : 0));
}

/*
 * Brings the page in, as a touch of the process' would. If there is none the card is told so, -ENOENT: before
 * the process can put memory there, as nobody is told of that. Else a message which is sent after that could
 * be taken for one that has nowhere to go.
 */
static int page_fault(struct dart_endpoint_object *endpoint, u64 number, bool writes,
		      unsigned long *found, unsigned long *sequence)
{
	struct mm_struct *mm = endpoint->notifier.mm;
	struct hmm_range range = {
		.notifier = &endpoint->notifier,
		.start = number << PAGE_SHIFT,
		.end = (number + 1) << PAGE_SHIFT,
		.hmm_pfns = found,
		.default_flags = HMM_PFN_REQ_FAULT | (writes ? HMM_PFN_REQ_WRITE : 0),
	};
	int ret;

	do {
		range.notifier_seq = mmu_interval_read_begin(&endpoint->notifier);
		mmap_read_lock(mm);
		ret = hmm_range_fault(&range);
		if (ret && ret != -EBUSY) {
			page_tell_none(endpoint, number, writes);
			ret = -ENOENT;
		}
		mmap_read_unlock(mm);
	} while (ret == -EBUSY);
	*sequence = range.notifier_seq;
	return ret;
}

/* Tells the card of a page that was found, unless it has gone meanwhile: false. */
static bool page_tell(struct dart_endpoint_object *endpoint, u64 number, struct dart_frame *frame,
		      unsigned long sequence)
{
	struct dart_frame *before;

	guard(mutex)(&pages_parts(endpoint)->translations);
	if (mmu_interval_read_retry(&endpoint->notifier, sequence))
		return false;
	/* Its place has been reserved: this takes no memory. */
	before = xa_store(&endpoint->frames, number, frame, GFP_NOWAIT);
	if (before)
		/* The same page, for reading alone until now, or found by two at once. */
		frame_free(endpoint->card, before);
	tell_fill(endpoint, number, frame->dma | (frame->writable ? DART_FRAME_WRITABLE : 0));
	return true;
}

/* Finds a page and tells the card of it. An error: there is none; -EAGAIN: not yet. */
static int page_find(struct dart_endpoint_object *endpoint, u64 number, bool writes)
{
	struct dart_frame *frame __free(kfree) = kzalloc(sizeof(*frame), GFP_KERNEL);
	unsigned long found = 0, sequence;
	int ret;

	if (!frame)
		return -ENOMEM;
	ret = page_fault(endpoint, number, writes, &found, &sequence);
	if (ret)
		return ret;
	frame->page = hmm_pfn_to_page(found);
	frame->writable = found & HMM_PFN_WRITE;
	/* It is not pinned: if it goes, so does what is made of it here. */
	ret = hamlyn_page_map(endpoint->card, frame->page, DMA_BIDIRECTIONAL, &frame->dma);
	if (ret)
		return ret;
	ret = xa_reserve(&endpoint->frames, number, GFP_KERNEL);
	if (!ret && page_tell(endpoint, number, frame, sequence)) {
		retain_and_null_ptr(frame);
		return 0;
	}
	hamlyn_page_unmap(endpoint->card, frame->dma, DMA_BIDIRECTIONAL);
	return ret ?: -EAGAIN;
}

/*
 * Tells the card where a page is, or that there is none: of a process that has ended, or that has nothing
 * there, or nothing that it may write to. No lock is held.
 */
void dart_page_find(struct dart_endpoint_object *endpoint, u64 number, bool writes)
{
	struct mm_struct *mm = endpoint->notifier.mm;
	int ret = -EFAULT;

	if (page_known(endpoint, number, writes))
		return;
	if (mmget_not_zero(mm)) {
		do {
			ret = page_find(endpoint, number, writes);
			cond_resched();
		} while (ret == -EAGAIN);
		mmput(mm);
	}
	if (ret && ret != -ENOENT)
		page_tell_none(endpoint, number, writes);
}

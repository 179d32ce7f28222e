// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where the pages of endpoints are (section 3). No page is pinned: the card is told of a page when
 * it asks. Before the kernel uses the page for something else, the card is told that it is gone.
 *
 * A page is looked up without any lock, as it may have to be brought in. If the kernel takes memory
 * of the endpoint back meanwhile, the notifier's number changes, and the page is looked up again.
 * The card is told with the lock held, which the kernel's callback takes as well. So the card knows
 * no page that is gone.
 *
 * The lock is taken where memory is reclaimed, so no memory is allocated with it held.
 */
#include <linux/hmm.h>
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/userfaultfd_k.h>

#include "dart.h"

/* Limit of pages remembered for an endpoint; the oldest makes room. A message needs 17 at most. */
#define MOST_FRAMES 4096
/* Limit of lookups of a page that moves or leaves meanwhile. */
#define MOST_TRIES 100
/* Limit of page tables of a process that grow by misses: this part of all memory. */
#define PART_FOR_TABLES 16
#define GFP_FRAME (GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* A page that the card may know. */
struct dart_frame {
	/* In the list of its endpoint, or of pages that are to be freed. */
	struct list_head on_list;
	unsigned long number;
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

/* On return the card no longer reaches anything through these pages. */
static void tell_invalidate(const struct dart_endpoint_object *endpoint, u64 first, u64 count)
{
	if (!pages_may_tell(endpoint))
		return;
	tell_where(endpoint, first);
	writeq(count, endpoint->card->registers + DART_REG_TLB_INVALIDATE);
	readl(endpoint->card->registers + DART_REG_TLB_INVALIDATE);
}

/*
 * The card no longer knows the page, and it is on no list. The lock is held, or the kernel waits
 * for this before it changes the page: so it is still the process's.
 */
static void frame_free(struct uln_card *card, struct dart_frame *frame)
{
	/* The card may have written to it. */
	if (frame->writable)
		set_page_dirty(frame->page);
	uln_page_unmap(card, frame->dma, DMA_BIDIRECTIONAL);
	kfree(frame);
}

static void frames_free(struct uln_card *card, struct list_head *frames, bool may_sleep)
{
	struct dart_frame *frame, *next;

	list_for_each_entry_safe(frame, next, frames, on_list) {
		frame_free(card, frame);
		if (may_sleep)
			cond_resched();
	}
}

static void frame_take(struct dart_endpoint_object *endpoint, struct dart_frame *frame,
		       struct list_head *taken)
{
	xa_erase(&endpoint->frames, frame->number);
	list_move_tail(&frame->on_list, taken);
	endpoint->count--;
}

/* Called when the kernel is about to change what is at these addresses. */
static bool pages_invalidate(struct mmu_interval_notifier *notifier,
			     const struct mmu_notifier_range *range, unsigned long number)
{
	struct dart_endpoint_object *endpoint =
		container_of(notifier, struct dart_endpoint_object, notifier);
	struct dart_parts *parts = pages_parts(endpoint);
	unsigned long page, last = (range->end - 1) >> PAGE_SHIFT;
	unsigned long first = range->start >> PAGE_SHIFT;
	bool may_sleep = mmu_notifier_range_blockable(range);
	struct dart_frame *frame;
	LIST_HEAD(taken);

	if (may_sleep)
		mutex_lock(&parts->translations);
	else if (!mutex_trylock(&parts->translations))
		return false;
	mmu_interval_set_seq(notifier, number);
	page = first;
	if (xa_find(&endpoint->frames, &page, last, XA_PRESENT))
		tell_invalidate(endpoint, first, last - first + 1);
	xa_for_each_range(&endpoint->frames, page, frame, first, last)
		frame_take(endpoint, frame, &taken);
	mutex_unlock(&parts->translations);
	frames_free(endpoint->card, &taken, may_sleep);
	return true;
}

const struct mmu_interval_notifier_ops dart_endpoint_pages = { .invalidate = pages_invalidate };

/* Lets the card be told of pages, as it has opened the endpoint. The card's lock is held. */
void dart_pages_begin(struct dart_endpoint_object *endpoint)
{
	guard(mutex)(&pages_parts(endpoint)->translations);
	WRITE_ONCE(endpoint->told, true);
}

/*
 * Makes the card forget the pages, so that the next endpoint with this number has none of them. The
 * card has closed the endpoint, and the card's lock is held.
 */
void dart_pages_end(struct dart_endpoint_object *endpoint)
{
	guard(mutex)(&pages_parts(endpoint)->translations);
	tell_invalidate(endpoint, 0, U64_MAX >> PAGE_SHIFT);
	WRITE_ONCE(endpoint->told, false);
}

static bool pages_drop_next(struct dart_endpoint_object *endpoint)
{
	struct dart_frame *frame;

	guard(mutex)(&pages_parts(endpoint)->translations);
	frame = list_first_entry_or_null(&endpoint->by_age, struct dart_frame, on_list);
	if (!frame)
		return false;
	xa_erase(&endpoint->frames, frame->number);
	list_del(&frame->on_list);
	endpoint->count--;
	frame_free(endpoint->card, frame);
	return true;
}

/*
 * The endpoint is closed: on return nothing of it is mapped, and nothing will be. A thread that
 * still looks for a page keeps the endpoint, perhaps for long, but not the card or its driver.
 */
void dart_pages_drop(struct dart_endpoint_object *endpoint)
{
	while (pages_drop_next(endpoint))
		cond_resched();
}

/* The endpoint has no user left, and no lock is held. */
void dart_pages_forget(struct dart_endpoint_object *endpoint)
{
	/* As long as there is the notifier, these are still the process's pages. */
	dart_pages_drop(endpoint);
	mmu_interval_notifier_remove(&endpoint->notifier);
	xa_destroy(&endpoint->frames);
}

/* Sets whether the card may be told of pages at all: it answers. The card's lock is held. */
void dart_pages_tell(struct uln_card *card, bool told)
{
	guard(mutex)(&dart_parts(card)->translations);
	dart_parts(card)->told = told;
}

/* Tells the card of a page that was found before, but that it has forgotten. False: none fits. */
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

/* Looks a page up, without bringing it in. -EBUSY: it changes. The process's mmap_lock is held. */
static int page_snapshot(struct dart_endpoint_object *endpoint, u64 number, unsigned long sequence,
			 unsigned long *found)
{
	struct hmm_range range = {
		.notifier = &endpoint->notifier,
		.notifier_seq = sequence,
		.start = number << PAGE_SHIFT,
		.end = (number + 1) << PAGE_SHIFT,
		.hmm_pfns = found,
	};
	int ret;

	*found = 0;
	ret = hmm_range_fault(&range);
	if (ret || *found & HMM_PFN_ERROR)
		*found = 0;
	return ret;
}

static bool page_serves(unsigned long found, bool writes)
{
	return found & HMM_PFN_VALID && (!writes || found & HMM_PFN_WRITE);
}

/*
 * Returns whether a miss may bring a page in: not if another process must provide it, and not
 * without limit.
 */
static bool page_may_fault(struct mm_struct *mm, unsigned long address)
{
	struct vm_area_struct *area = vma_lookup(mm, address);

	return area && !(area->vm_flags & (VM_IO | VM_PFNMAP)) && !userfaultfd_armed(area) &&
	       mm_pgtables_bytes(mm) >> PAGE_SHIFT <= totalram_pages() / PART_FOR_TABLES;
}

/*
 * Brings the page in, as an access of the process would; mmap_lock is released while that takes
 * long. If there is none, this tells the card and returns -ENOENT, before the process can put
 * memory there: the driver is not told of that. Otherwise a message that is sent after that could
 * be taken for one that has nowhere to go.
 */
static int page_fault(struct dart_endpoint_object *endpoint, u64 number, bool writes,
		      unsigned long *found, unsigned long *sequence)
{
	unsigned int flags = FAULT_FLAG_REMOTE | (writes ? FAULT_FLAG_WRITE : 0);
	unsigned long address = number << PAGE_SHIFT;
	struct mm_struct *mm = endpoint->notifier.mm;
	bool unlocked = false;
	int ret;

	*sequence = mmu_interval_read_begin(&endpoint->notifier);
	mmap_read_lock(mm);
	ret = page_snapshot(endpoint, number, *sequence, found);
	if (ret == -EBUSY) {
		ret = -EAGAIN;
	} else if (page_serves(*found, writes)) {
		ret = 0;
	} else if (page_may_fault(mm, address) &&
		   !fixup_user_fault(mm, address, flags, &unlocked)) {
		ret = -EAGAIN;
	} else {
		page_tell_none(endpoint, number, writes);
		ret = -ENOENT;
	}
	mmap_read_unlock(mm);
	return ret;
}

/*
 * Makes room for a page, in the place of the one that was found before, if there is one. The card
 * forgets that page before it is freed.
 */
static void frames_make_room(struct dart_endpoint_object *endpoint, u64 number)
{
	struct dart_frame *before = xa_load(&endpoint->frames, number);

	if (!before && endpoint->count >= MOST_FRAMES)
		before = list_first_entry(&endpoint->by_age, struct dart_frame, on_list);
	if (!before)
		return;
	tell_invalidate(endpoint, before->number, 1);
	/* A replaced page keeps its entry, so that this allocates no memory. */
	if (before->number != number)
		xa_erase(&endpoint->frames, before->number);
	list_del(&before->on_list);
	endpoint->count--;
	frame_free(endpoint->card, before);
}

/* Tells the card of a page that was found. -EAGAIN: it has gone meanwhile. The lock is held. */
static int page_tell(struct dart_endpoint_object *endpoint, struct dart_frame *frame,
		     unsigned long sequence)
{
	int ret;

	if (!pages_may_tell(endpoint))
		return -ENODEV;
	if (mmu_interval_read_retry(&endpoint->notifier, sequence))
		return -EAGAIN;
	/* It is not pinned: when the page goes, its mapping here goes, too. */
	ret = uln_page_map(endpoint->card, frame->page, DMA_BIDIRECTIONAL, &frame->dma);
	if (ret)
		return ret;
	frames_make_room(endpoint, frame->number);
	/* Its entry has been reserved, but another thread may have released it. */
	ret = xa_err(xa_store(&endpoint->frames, frame->number, frame, GFP_NOWAIT));
	if (ret) {
		uln_page_unmap(endpoint->card, frame->dma, DMA_BIDIRECTIONAL);
		return ret;
	}
	list_add_tail(&frame->on_list, &endpoint->by_age);
	endpoint->count++;
	tell_fill(endpoint, frame->number,
		  frame->dma | (frame->writable ? DART_FRAME_WRITABLE : 0));
	return 0;
}

/* Finds a page and tells the card of it. An error: there is none; -EAGAIN: not yet. */
static int page_find(struct dart_endpoint_object *endpoint, u64 number, bool writes)
{
	struct dart_frame *frame __free(kfree) = kzalloc(sizeof(*frame), GFP_FRAME);
	unsigned long found = 0, sequence;
	int ret;

	if (!frame)
		return -ENOMEM;
	ret = page_fault(endpoint, number, writes, &found, &sequence);
	if (ret)
		return ret;
	frame->number = number;
	frame->page = hmm_pfn_to_page(found);
	frame->writable = found & HMM_PFN_WRITE;
	ret = xa_reserve(&endpoint->frames, number, GFP_FRAME);
	if (ret)
		return ret;
	scoped_guard(mutex, &pages_parts(endpoint)->translations)
		ret = page_tell(endpoint, frame, sequence);
	if (ret)
		xa_release(&endpoint->frames, number);
	else
		retain_and_null_ptr(frame);
	return ret;
}

/* Memory that this takes, including page tables, is the process's own. */
static int page_find_for(struct mm_struct *mm, struct dart_endpoint_object *endpoint, u64 number,
			 bool writes)
{
	struct mem_cgroup *owner = get_mem_cgroup_from_mm(mm);
	struct mem_cgroup *before = set_active_memcg(owner);
	int ret, tries = 0;

	do {
		ret = page_find(endpoint, number, writes);
		cond_resched();
	} while (ret == -EAGAIN && ++tries < MOST_TRIES && READ_ONCE(endpoint->told));
	set_active_memcg(before);
	mem_cgroup_put(owner);
	return ret;
}

/* The card is not trusted: outside the endpoint the kernel does not report when pages go. */
static bool page_is_inside(const struct dart_endpoint_object *endpoint, u64 number)
{
	return number >= endpoint->address >> PAGE_SHIFT &&
	       number <= (endpoint->address + endpoint->length - 1) >> PAGE_SHIFT;
}

/*
 * Tells the card where a page is, or that there is none: the process has ended, or has nothing
 * there, or nothing writable. No lock is held.
 */
void dart_page_find(struct dart_endpoint_object *endpoint, u64 number, bool writes)
{
	struct mm_struct *mm = endpoint->notifier.mm;
	int ret = -EFAULT;

	if (page_is_inside(endpoint, number)) {
		if (page_known(endpoint, number, writes))
			return;
		if (mmget_not_zero(mm)) {
			ret = page_find_for(mm, endpoint, number, writes);
			mmput(mm);
		}
	}
	if (ret && ret != -ENOENT)
		page_tell_none(endpoint, number, writes);
}

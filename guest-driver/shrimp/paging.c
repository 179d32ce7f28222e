// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exports whose pages come and go (the second policy of section 4.4). They are all pinned at first.
 * When the kernel is short of memory, it asks for some. Mappings may then not store to them
 * (import.c), and once none does they are unpinned, as any page of the process is. A page that a
 * mapping needs again is pinned again, wherever it is then.
 *
 * Slow steps, which may wait for a disk or for the provider of the memory, are work of each export,
 * without the card's lock.
 */
#include <linux/delay.h>
#include <linux/devm-helpers.h>
#include <linux/hugetlb.h>
#include <linux/sched/mm.h>
#include <linux/shmem_fs.h>
#include <linux/shrinker.h>
#include <linux/sysfs.h>

#include "shrimp.h"

/* Pages that an export's work handles before the next export's turn. */
#define BATCH 32
/* How often a process's lock is tried, a millisecond apart. */
#define LOCK_TRIES 1000

static u64 export_address(const struct shrimp_export_object *export, u32 page)
{
	return export->address + (u64)page * ULN_PAGE_SIZE;
}

/*
 * The process unmaps addresses or moves them. What is mapped there later is not what was exported:
 * pages that have left do not come back. This may be called with the card's lock held, and takes
 * none.
 */
static bool paging_unmapped(struct mmu_interval_notifier *notifier,
			    const struct mmu_notifier_range *range, unsigned long sequence)
{
	struct shrimp_export_object *export =
		container_of(notifier, struct shrimp_export_object, notifier);
	unsigned long first = notifier->interval_tree.start;
	unsigned long last = notifier->interval_tree.last, at;

	if (range->event != MMU_NOTIFY_UNMAP)
		return true;
	for (at = max(first, range->start); at <= min(last, range->end - 1); at += PAGE_SIZE)
		set_bit((at - first) / PAGE_SIZE, export->unmapped);
	return true;
}

static const struct mmu_interval_notifier_ops paging_notifier = { .invalidate = paging_unmapped };

/* Gives up one page that no host stores to; false: there is none. */
static bool paging_release(struct shrimp_export_object *export)
{
	struct uln_card *card = export->card;
	struct page *page;
	u32 left;

	scoped_guard(mutex, &card->lock) {
		if (!card->live || !export->object.open)
			return false;
		left = shrimp_paging_left(export);
		if (left == export->memory->count)
			return false;
		__clear_bit(left, export->leaving);
		uln_withdraw(&export->object, (u64)left * ULN_PAGE_SIZE,
			     ULN_PAGE_SIZE);
		page = shrimp_page_give_up(card, export->memory, left, export);
		shrimp_parts(card)->given_up++;
	}
	unpin_user_pages_dirty_lock(&page, 1, true);
	return true;
}

/*
 * Returns whether the kernel alone can bring a page of the process into memory. It must still be
 * what was exported, and must not wait for a file system, and so for a user's program. The
 * process's lock is held.
 */
static bool paging_may_fault(const struct shrimp_export_object *export, struct mm_struct *mm, u32 i)
{
	struct vm_area_struct *vma = vma_lookup(mm, export_address(export, i));

	if (!vma || test_bit(i, export->unmapped))
		return false;
	return vma_is_anonymous(vma) ||
	       (vma->vm_file &&
		(shmem_mapping(vma->vm_file->f_mapping) || is_vm_hugetlb_page(vma)));
}

/* A thread that holds the process's lock may wait for something that never comes. */
static int paging_lock(struct mm_struct *mm)
{
	unsigned int tries;

	for (tries = 0; tries < LOCK_TRIES; tries++) {
		if (mmap_read_trylock(mm))
			return 0;
		if (signal_pending(current))
			return -EINTR;
		msleep_interruptible(1);
	}
	return -EBUSY;
}

/*
 * Pins a page of the exporting process. With the lock held throughout, this does not wait for a
 * process that handles its own faults.
 */
static int paging_pin(struct shrimp_export_object *export, u32 i, struct page **page)
{
	struct mm_struct *mm = export->memory->mm;
	long ret;

	if (!mmget_not_zero(mm))
		return -ESRCH;
	ret = paging_lock(mm);
	if (!ret) {
		ret = -EFAULT;
		if (paging_may_fault(export, mm, i))
			ret = pin_user_pages_remote(mm, export_address(export, i), 1,
						    FOLL_WRITE | FOLL_LONGTERM, page, NULL);
		mmap_read_unlock(mm);
	}
	mmput_async(mm);
	return ret == 1 ? 0 : ret ?: -EFAULT;
}

/* Adds the page, unless another thread was faster; the card's lock is held. */
static int paging_take_back(struct shrimp_export_object *export, u32 i, struct page *page)
{
	struct uln_card *card = export->card;
	int ret;

	if (!card->live || !export->object.open)
		return -ENOENT;
	if (export->memory->page[i])
		return -EEXIST;
	ret = shrimp_page_take_back(card, export->memory, i, page, export);
	if (ret)
		return ret;
	atomic_long_inc(&shrimp_parts(card)->pageable);
	shrimp_parts(card)->brought_back++;
	return 0;
}

/* Brings a page back into memory. Must not be called with the card's lock held. */
int shrimp_paging_bring(struct shrimp_export_object *export, u32 i)
{
	struct page *page;
	int ret;

	ret = paging_pin(export, i, &page);
	if (ret)
		return ret;
	scoped_guard(mutex, &export->card->lock)
		ret = paging_take_back(export, i, page);
	if (ret)
		unpin_user_page(page);
	return ret == -EEXIST ? 0 : ret;
}

/* Brings back one page that was asked for, or answers all if they are there; then false. */
static bool paging_fetch(struct shrimp_export_object *export)
{
	struct uln_card *card = export->card;
	u32 wanted;

	scoped_guard(mutex, &card->lock) {
		if (!card->live || !export->object.open)
			return false;
		wanted = shrimp_imports_wanted(export);
		if (wanted == export->memory->count) {
			shrimp_imports_answer(card, export);
			return false;
		}
	}
	if (!shrimp_paging_bring(export, wanted))
		return true;
	scoped_guard(mutex, &card->lock)
		shrimp_imports_refuse(export, wanted, SHRIMP_REFUSED_ACCESS);
	return true;
}

static void paging_work(struct work_struct *work)
{
	struct shrimp_export_object *export =
		container_of(work, struct shrimp_export_object, work);

	unsigned int steps;

	for (steps = 0; steps < BATCH; steps++) {
		if (!paging_release(export) && !paging_fetch(export))
			break;
		cond_resched();
	}
	/* Then it is the turn of other exports. */
	if (steps == BATCH)
		shrimp_paging_start(export);
	uln_object_put(&export->object);
}

/* Lets pages of an export leave, before they are pinned. */
int shrimp_paging_prepare(struct shrimp_export_object *export, u64 address, u64 length)
{
	u64 first = address - offset_in_page(address);
	u32 count = DIV_ROUND_UP(offset_in_page(address) + length, ULN_PAGE_SIZE);
	int ret;

	export->leaving = bitmap_zalloc(count, GFP_KERNEL_ACCOUNT);
	export->unmapped = bitmap_zalloc(count, GFP_KERNEL_ACCOUNT);
	if (!export->leaving || !export->unmapped)
		return -ENOMEM;
	export->address = first;
	INIT_WORK(&export->work, paging_work);
	ret = mmu_interval_notifier_insert(&export->notifier, current->mm, first,
					   (u64)count * ULN_PAGE_SIZE, &paging_notifier);
	/* Nothing must be removed then (shrimp_paging_forget). */
	if (ret)
		export->notifier.mm = NULL;
	return ret;
}

/* -EINVAL: some of the memory is of a kind that may not leave (paging_may_fault). */
int shrimp_paging_check(const struct shrimp_export_object *export)
{
	int ret = 0;
	u32 i;

	if (!export->leaving)
		return 0;
	if (mmap_read_lock_killable(current->mm))
		return -EINTR;
	for (i = 0; i < export->memory->count && !ret; i++)
		if (!paging_may_fault(export, current->mm, i))
			ret = -EINVAL;
	mmap_read_unlock(current->mm);
	return ret;
}

/* Stops watching the process's memory. Without the card's lock, the first time. */
void shrimp_paging_forget(struct shrimp_export_object *export)
{
	if (!export->notifier.mm)
		return;
	mmu_interval_notifier_remove(&export->notifier);
	export->notifier.mm = NULL;
}

/* Counts an export's pages as it opens, and uncounts them as it closes. The card's lock is held. */
void shrimp_paging_begin(struct shrimp_export_object *export)
{
	if (export->leaving)
		atomic_long_add(export->memory->count, &shrimp_parts(export->card)->pageable);
}

void shrimp_paging_end(struct shrimp_export_object *export)
{
	u32 i;

	list_del_init(&export->telling.on_card);
	for (i = 0; export->leaving && i < export->memory->count; i++)
		if (export->memory->page[i] && !test_bit(i, export->leaving))
			atomic_long_dec(&shrimp_parts(export->card)->pageable);
}

/* Returns whether a page can be asked for now. One that is also mapped out is pinned for that. */
static bool paging_may_leave(const struct shrimp_export_object *export, u32 i)
{
	return export->memory->page[i] && !test_bit(i, export->leaving) &&
	       !shrimp_imports_await(export, i) &&
	       shrimp_page_is_only(export->card, shrimp_pfn(export->memory, i), export);
}

/* Asks for pages of an export; returns how many more are wanted. */
static long paging_leave(struct shrimp_export_object *export, long wanted)
{
	u32 i;

	for (i = 0; i < export->memory->count && wanted > 0; i++) {
		if (!paging_may_leave(export, i))
			continue;
		__set_bit(i, export->leaving);
		atomic_long_dec(&shrimp_parts(export->card)->pageable);
		shrimp_imports_invalidate(export->card, export, i);
		wanted--;
	}
	shrimp_paging_look(export);
	return wanted;
}

/* Has the next export, from parts->hand on, give up what is wanted; false: there is none. */
static bool reclaim_next(struct shrimp_parts *parts, long *wanted)
{
	struct shrimp_export_object *export;

	guard(mutex)(&parts->card.lock);
	export = xa_find(&parts->exports, &parts->hand, SHRIMP_MAX_OBJECTS - 1, XA_PRESENT);
	if (!export || !parts->card.live)
		return false;
	parts->hand++;
	if (export->leaving && export->object.open) {
		*wanted = paging_leave(export, *wanted);
		shrimp_tell(&parts->card);
	}
	return true;
}

/* The kernel wants pages: asks each export in turn, and starts over from the first if need be. */
static void reclaim_work(struct work_struct *work)
{
	struct shrimp_parts *parts = container_of(work, struct shrimp_parts, reclaim);
	long wanted = atomic_long_xchg(&parts->wanted, 0);
	unsigned int rounds = 0;

	while (wanted > 0 && rounds < 2) {
		if (!reclaim_next(parts, &wanted)) {
			parts->hand = 0;
			rounds++;
		}
		cond_resched();
	}
}

static unsigned long reclaim_count(struct shrinker *shrinker, struct shrink_control *control)
{
	const struct shrimp_parts *parts = shrinker->private_data;
	long pages = atomic_long_read(&parts->pageable);

	return pages > 0 ? pages : SHRINK_EMPTY;
}

/*
 * A thread that is short of memory may hold the card's lock, and cannot wait for other hosts: none
 * of it is free yet.
 */
static unsigned long reclaim_scan(struct shrinker *shrinker, struct shrink_control *control)
{
	struct shrimp_parts *parts = shrinker->private_data;

	/* Not the sum: many small shortages are not one large one. */
	if (atomic_long_read(&parts->wanted) < (long)control->nr_to_scan)
		atomic_long_set(&parts->wanted, control->nr_to_scan);
	queue_work(parts->paging, &parts->reclaim);
	return SHRINK_STOP;
}

static void paging_stop(void *data)
{
	struct shrimp_parts *parts = data;

	shrinker_free(parts->shrinker);
	destroy_workqueue(parts->paging);
}

/* Called when the driver is bound. */
int shrimp_paging_init(struct uln_card *card)
{
	struct shrimp_parts *parts = shrimp_parts(card);

	INIT_WORK(&parts->reclaim, reclaim_work);
	parts->paging = alloc_workqueue("%s-paging", WQ_UNBOUND | WQ_FREEZABLE, 0,
					dev_name(&card->dev));
	if (!parts->paging)
		return -ENOMEM;
	parts->shrinker = shrinker_alloc(0, "%s", dev_name(&card->dev));
	if (!parts->shrinker) {
		destroy_workqueue(parts->paging);
		return -ENOMEM;
	}
	parts->shrinker->count_objects = reclaim_count;
	parts->shrinker->scan_objects = reclaim_scan;
	parts->shrinker->private_data = parts;
	shrinker_register(parts->shrinker);
	return devm_add_action_or_reset(&card->pdev->dev, paging_stop, parts);
}

/* Any user may read in any number of threads: only one at a time waits for a card's lock. */
static DEFINE_MUTEX(readers);

/* Shows how many pages exports gave up and have back, and how often a store has waited for one. */
static ssize_t paging_show(struct device *dev, struct device_attribute *attribute, char *text)
{
	struct uln_card *card = container_of(dev, struct uln_card, dev);
	const struct shrimp_parts *parts = shrimp_parts(card);

	guard(mutex)(&readers);
	guard(mutex)(&card->lock);
	return sysfs_emit(text, "given_up %llu\nbrought_back %llu\nawaited %llu\n", parts->given_up,
			  parts->brought_back, parts->awaited);
}
static DEVICE_ATTR_RO(paging);

static struct attribute *paging_attributes[] = {
	&dev_attr_paging.attr,
	NULL,
};

static const struct attribute_group paging_group = {
	.attrs = paging_attributes,
};

const struct attribute_group *shrimp_groups[] = {
	&uln_group,
	&paging_group,
	&shrimp_knobs,
	NULL,
};

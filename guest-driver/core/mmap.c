// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mappings of files' objects. Memory is mapped as a whole, and read-only if only the card writes to
 * it. Pages of the card are mapped one by one, when they are touched, so that they can be
 * withdrawn.
 */
#include <linux/file.h>
#include <linux/io.h>

#include "uln_core.h"

/*
 * Limit of mappings of one object's card pages. They are removed with the card's lock held, so
 * there must be a limit; for the same reason a mapping cannot be split.
 */
#define MMAP_MAX_VIEWS 16

/**
 * uln_mmap_memory() - map memory that the card writes, read-only
 * @vma: the mapping
 * @pages: the pages; the mapping has a reference to each, so they may outlive their object
 * @count: number of pages
 *
 * Return: 0; -EACCES for a writable mapping; errors of vm_map_pages_zero().
 */
int uln_mmap_memory(struct vm_area_struct *vma, struct page **pages, unsigned long count)
{
	if (vma->vm_flags & VM_WRITE)
		return -EACCES;
	vm_flags_mod(vma, VM_IO | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP,
		     VM_MAYWRITE | VM_MAYEXEC);
	return vm_map_pages_zero(vma, pages, count);
}

static void pages_vma_open(struct vm_area_struct *vma)
{
	struct card_object *object = vma->vm_private_data;

	kref_get(&object->users);
}

static void pages_vma_close(struct vm_area_struct *vma)
{
	uln_object_put(vma->vm_private_data);
}

/* A mapping keeps the object, so that its memory counts against RLIMIT_MEMLOCK while in use. */
static const struct vm_operations_struct pages_vm_ops = {
	.open = pages_vma_open,
	.close = pages_vma_close,
};

static void mmap_keep(struct vm_area_struct *vma, struct card_object *object)
{
	vma->vm_ops = &pages_vm_ops;
	vma->vm_private_data = object;
	kref_get(&object->users);
}

/**
 * uln_mmap_pages() - map all of an object's memory, read-only
 * @vma: the mapping, which has a reference to the object
 * @object: the object
 * @pages: its memory
 *
 * Return: as uln_mmap_memory().
 */
int uln_mmap_pages(struct vm_area_struct *vma, struct card_object *object,
		   const struct uln_pages *pages)
{
	int ret = uln_mmap_memory(vma, pages->page, pages->count);

	if (!ret)
		mmap_keep(vma, object);
	return ret;
}

/**
 * uln_mmap_shared() - map all of an object's memory, which owner and card write
 * @vma: the mapping, which has a reference to the object
 * @object: the object
 * @pages: its memory
 *
 * Return: 0; -EINVAL for a private mapping; errors of vm_map_pages_zero().
 */
int uln_mmap_shared(struct vm_area_struct *vma, struct card_object *object,
		    const struct uln_pages *pages)
{
	int ret;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	vm_flags_mod(vma, VM_IO | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP, VM_MAYEXEC);
	ret = vm_map_pages_zero(vma, pages->page, pages->count);
	if (!ret)
		mmap_keep(vma, object);
	return ret;
}

/*
 * Waits until the page is ready; the access is retried then. The lock of the process's memory is
 * not held meanwhile, as other threads may need it.
 *
 * Only a program's own access waits. A system call may hold any lock, and another host decides how
 * long the wait is: the call fails with EFAULT instead.
 */
static vm_fault_t card_fault_wait(struct vm_fault *vmf, u64 offset)
{
	struct card_object *object = vmf->vma->vm_private_data;
	unsigned int state = TASK_KILLABLE;
	struct file *filp;

	if (!(vmf->flags & FAULT_FLAG_USER) || !(vmf->flags & FAULT_FLAG_ALLOW_RETRY))
		return VM_FAULT_SIGBUS;
	if (vmf->flags & FAULT_FLAG_RETRY_NOWAIT)
		return VM_FAULT_RETRY;
	if (vmf->flags & FAULT_FLAG_INTERRUPTIBLE)
		state = TASK_INTERRUPTIBLE;
	/*
	 * The mapping may go as soon as its lock is released, and with it the object and the card.
	 */
	kref_get(&object->users);
	filp = get_file(vmf->vma->vm_file);
	release_fault_lock(vmf);
	object->kind->await(object, offset, state);
	uln_object_put(object);
	fput(filp);
	return VM_FAULT_RETRY;
}

/*
 * A mapping outlives its object. It then shows a spare page of the object or the file (spent),
 * because the card's page may have another owner by now. uln_unmap_card() marks the object
 * before it removes the pages.
 */
static vm_fault_t card_fault(struct vm_fault *vmf)
{
	struct card_object *object = vmf->vma->vm_private_data;
	u64 offset = ((u64)vmf->pgoff << PAGE_SHIFT) - object->offset;
	struct uln_file *file = vmf->vma->vm_file->private_data;
	struct uln_card *card = file->card;
	resource_size_t address;
	vm_fault_t ret;

	/*
	 * The process is being killed. With VM_FAULT_NOPAGE, a system call would retry the access
	 * until the lock is free, as it checks for no signal.
	 */
	if (mutex_lock_killable(&card->lock))
		return VM_FAULT_SIGBUS;
	if (object->open && object->kind->ready && !object->kind->ready(object, offset)) {
		mutex_unlock(&card->lock);
		return card_fault_wait(vmf, offset);
	}
	address = object->open ? object->kind->place(object, offset) :
				 page_to_phys(object->spent ?: file->spent);
	ret = vmf_insert_pfn(vmf->vma, vmf->address, PHYS_PFN(address));
	mutex_unlock(&card->lock);
	return ret;
}

static void card_vma_open(struct vm_area_struct *vma)
{
	struct card_object *object = vma->vm_private_data;

	atomic_inc(&object->views);
	kref_get(&object->users);
}

static void card_vma_close(struct vm_area_struct *vma)
{
	struct card_object *object = vma->vm_private_data;

	atomic_dec(&object->views);
	uln_object_put(object);
}

/* Such a mapping is only unmapped as a whole. */
static int card_vma_may_split(struct vm_area_struct *vma, unsigned long address)
{
	return -EINVAL;
}

static const struct vm_operations_struct card_vm_ops = {
	.open = card_vma_open,
	.close = card_vma_close,
	.may_split = card_vma_may_split,
	.fault = card_fault,
};

/* Maps an object's pages as they are touched, at the addresses that its kind's place() returns. */
static int mmap_touched(struct vm_area_struct *vma, struct card_object *object)
{
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (atomic_inc_return(&object->views) > MMAP_MAX_VIEWS) {
		atomic_dec(&object->views);
		return -EMFILE;
	}
	vm_flags_mod(vma, VM_PFNMAP | VM_IO | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP,
		     VM_MAYEXEC);
	vma->vm_ops = &card_vm_ops;
	vma->vm_private_data = object;
	kref_get(&object->users);
	return 0;
}

/**
 * uln_mmap_card() - map pages of the card, as they are touched
 * @vma: the mapping
 * @object: the object whose kind returns their addresses
 *
 * The pages are uncached, though the BAR may be prefetchable: a store that publishes data comes
 * after the data. Write-combining buffers may be flushed in any order, so the card could read data
 * that is not there yet.
 *
 * Return: 0; -EINVAL for a private mapping, -EMFILE if the object has too many.
 */
int uln_mmap_card(struct vm_area_struct *vma, struct card_object *object)
{
	int ret = mmap_touched(vma, object);

	if (!ret)
		vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
	return ret;
}

/**
 * uln_mmap_windows() - map windows of the card, as they are touched
 * @vma: the mapping
 * @object: the object whose kind returns their addresses
 *
 * The pages are cached if the windows are coherent memory, which keeps stores in order.
 *
 * Return: as uln_mmap_card().
 */
int uln_mmap_windows(struct vm_area_struct *vma, struct card_object *object)
{
	if (!object->card->coherent)
		return uln_mmap_card(vma, object);
	return mmap_touched(vma, object);
}

/**
 * uln_windows_map() - map all windows of a card for the driver
 * @card: the card
 * @start: bus address of the first window
 * @size: size of all windows
 *
 * The windows are cached if they are coherent memory. On x86 this also applies to processes,
 * because vmf_insert_pfn() takes the type of the range that is mapped here. The range is always
 * uncached where the firmware's MTRRs say so, as SeaBIOS's do below 4 GiB.
 *
 * Return: the mapping, which goes with the device; NULL if it fails.
 */
void __iomem *uln_windows_map(struct uln_card *card, resource_size_t start, u64 size)
{
	struct device *dev = &card->pdev->dev;
	void *memory;

	if (!card->coherent)
		return devm_ioremap(dev, start, size);
	memory = devm_memremap(dev, start, size, MEMREMAP_WB);
	return IS_ERR(memory) ? NULL : (void __iomem __force *)memory;
}

/**
 * uln_mmap_withdrawable() - map memory so that it can be withdrawn
 * @vma: the mapping
 * @object: the object whose kind returns its address
 *
 * Return: as uln_mmap_card().
 */
int uln_mmap_withdrawable(struct vm_area_struct *vma, struct card_object *object)
{
	return mmap_touched(vma, object);
}

/**
 * uln_withdraw() - remove a part of an object's mappings until it is touched again
 * @object: an open object; the card's lock is held
 * @offset: where the part begins
 * @size: its size
 *
 * On return, no process stores through it.
 */
void uln_withdraw(const struct card_object *object, u64 offset, u64 size)
{
	lockdep_assert_held(&object->card->lock);
	unmap_mapping_range(&object->file->mapping, object->offset + offset, size, 1);
}

/**
 * uln_unmap_card() - make an object's mappings show the spare page from now on
 * @object: an object that is about to be closed; the card's lock is held
 * @size: size of what is mapped
 */
void uln_unmap_card(struct card_object *object, u64 size)
{
	lockdep_assert_held(&object->card->lock);
	WRITE_ONCE(object->open, false);
	uln_withdraw(object, 0, size);
}

/* Looks up a file's object at an offset, and takes a reference to it. */
static struct card_object *mmap_find(struct uln_file *file, u64 offset)
{
	struct card_object *object;

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return ERR_PTR(entry.error);
	object = uln_object_at(file, offset);
	if (!object)
		return ERR_PTR(-ENXIO);
	kref_get(&object->users);
	return object;
}

int uln_mmap(struct file *filp, struct vm_area_struct *vma)
{
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT, size = vma->vm_end - vma->vm_start;
	struct card_object *object;
	int ret;

	if (vma->vm_flags & VM_EXEC)
		return -EACCES;
	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	object = mmap_find(filp->private_data, offset);
	if (IS_ERR(object))
		return PTR_ERR(object);
	ret = object->kind->mmap(object, vma, offset - object->offset, size);
	uln_object_put(object);
	return ret;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mappings. A terminus' window and doorbell are mapped page by page, as they are touched, so that
 * they can be taken away again. Its status words and the entries of queues are ordinary memory:
 * they are mapped whole, and read-only.
 */
#include "hamlyn.h"

/*
 * How often one terminus' window and doorbell may be mapped. They are taken away with the card's
 * lock held, so there must be a limit. munmap() can split each mapping into as many as it has
 * pages.
 */
#define MAX_VIEWS 16

/*
 * A mapping stays when its terminus is destroyed. It then shows a spare page of the file (spent),
 * because the window may belong to somebody else by now. hamlyn_terminus_close() marks the terminus
 * first and removes the pages then.
 */
static vm_fault_t terminus_fault(struct vm_fault *vmf)
{
	struct hamlyn_terminus *terminus = vmf->vma->vm_private_data;
	u64 offset = ((u64)vmf->pgoff << PAGE_SHIFT) - terminus->offset;
	struct hamlyn_file *file = vmf->vma->vm_file->private_data;
	struct hamlyn_card *card = file->card;
	resource_size_t address;
	vm_fault_t ret;

	/* A process that is being killed does not come back to touch it again. */
	if (mutex_lock_killable(&card->lock))
		return VM_FAULT_NOPAGE;
	if (!terminus->open)
		address = page_to_phys(file->spent);
	else if (offset < HAMLYN_WINDOW_SIZE)
		address = card->windows + (u64)terminus->index * HAMLYN_WINDOW_SIZE + offset;
	else
		address = card->doorbells + (u64)terminus->index * HAMLYN_DOORBELL_SIZE;
	ret = vmf_insert_pfn(vmf->vma, vmf->address, PHYS_PFN(address));
	mutex_unlock(&card->lock);
	return ret;
}

static void terminus_vma_open(struct vm_area_struct *vma)
{
	struct hamlyn_terminus *terminus = vma->vm_private_data;

	atomic_inc(&terminus->views);
	kref_get(&terminus->users);
}

static void terminus_vma_close(struct vm_area_struct *vma)
{
	struct hamlyn_terminus *terminus = vma->vm_private_data;

	atomic_dec(&terminus->views);
	hamlyn_terminus_put(terminus);
}

static const struct vm_operations_struct terminus_vm_ops = {
	.open = terminus_vma_open,
	.close = terminus_vma_close,
	.fault = terminus_fault,
};

static int mmap_device(struct vm_area_struct *vma, struct hamlyn_terminus *terminus)
{
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (atomic_inc_return(&terminus->views) > MAX_VIEWS) {
		atomic_dec(&terminus->views);
		return -EMFILE;
	}
	vm_flags_mod(vma, VM_PFNMAP | VM_IO | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP,
		     VM_MAYEXEC);
	/*
	 * Uncached, though the BAR is prefetchable: a request's tail is published by an ordinary
	 * store behind those of the entry, and write-combining buffers may be emptied in any order,
	 * so the card could take an entry that is not there yet. (A hypervisor may override this
	 * with write-back, as the window is its host's memory: then caches keep the order.)
	 */
	vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
	vma->vm_ops = &terminus_vm_ops;
	vma->vm_private_data = terminus;
	kref_get(&terminus->users);
	return 0;
}

/* The mapping has a reference to each page: the pages may outlive their object. */
static int mmap_memory(struct vm_area_struct *vma, struct page **pages, unsigned long count)
{
	if (vma->vm_flags & VM_WRITE)
		return -EACCES;
	vm_flags_mod(vma, VM_IO | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP,
		     VM_MAYWRITE | VM_MAYEXEC);
	return vm_map_pages_zero(vma, pages, count);
}

static int mmap_terminus(struct vm_area_struct *vma, struct hamlyn_terminus *terminus, u64 offset,
			u64 size)
{
	switch (offset) {
	case HAMLYN_MAP_WINDOW:
		return size == HAMLYN_WINDOW_SIZE ? mmap_device(vma, terminus) : -EINVAL;
	case HAMLYN_MAP_DOORBELL:
		return size == HAMLYN_DOORBELL_SIZE ? mmap_device(vma, terminus) : -EINVAL;
	case HAMLYN_MAP_STATUS:
		return size == HAMLYN_PAGE_SIZE ? mmap_memory(vma, &terminus->status, 1) : -EINVAL;
	default:
		return -EINVAL;
	}
}

static void queue_vma_open(struct vm_area_struct *vma)
{
	struct hamlyn_queue *queue = vma->vm_private_data;

	kref_get(&queue->users);
}

static void queue_vma_close(struct vm_area_struct *vma)
{
	hamlyn_queue_put(vma->vm_private_data);
}

/*
 * A mapping keeps the queue, so that the memory counts against RLIMIT_MEMLOCK while it is in use.
 */
static const struct vm_operations_struct queue_vm_ops = {
	.open = queue_vma_open,
	.close = queue_vma_close,
};

static int mmap_queue(struct vm_area_struct *vma, struct hamlyn_queue *queue, u64 offset, u64 size)
{
	int ret;

	if (offset || size != (u64)queue->pages->count * HAMLYN_PAGE_SIZE)
		return -EINVAL;
	ret = mmap_memory(vma, queue->pages->page, queue->pages->count);
	if (ret)
		return ret;
	vma->vm_ops = &queue_vm_ops;
	vma->vm_private_data = queue;
	kref_get(&queue->users);
	return 0;
}

/* Finds what a file has at an offset, one of both, and holds it. */
static int mmap_find(struct hamlyn_file *file, u64 offset, struct hamlyn_terminus **its_terminus,
		     struct hamlyn_queue **its_queue)
{
	struct hamlyn_terminus *terminus;
	struct hamlyn_queue *queue;

	CLASS(hamlyn_entry, entry)(file);
	if (entry.error)
		return entry.error;
	list_for_each_entry(terminus, &file->termini, on_file)
		if (offset - terminus->offset < HAMLYN_MAP_STRIDE) {
			kref_get(&terminus->users);
			*its_terminus = terminus;
			return 0;
		}
	list_for_each_entry(queue, &file->queues, on_file)
		if (offset - queue->offset < HAMLYN_MAP_STRIDE) {
			kref_get(&queue->users);
			*its_queue = queue;
			return 0;
		}
	return -ENXIO;
}

int hamlyn_mmap(struct file *filp, struct vm_area_struct *vma)
{
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT, size = vma->vm_end - vma->vm_start;
	struct hamlyn_terminus *terminus __free(terminus_put) = NULL;
	struct hamlyn_queue *queue __free(queue_put) = NULL;
	int ret;

	if (vma->vm_flags & VM_EXEC)
		return -EACCES;
	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	ret = mmap_find(filp->private_data, offset, &terminus, &queue);
	if (ret)
		return ret;
	if (terminus)
		return mmap_terminus(vma, terminus, offset - terminus->offset, size);
	return mmap_queue(vma, queue, offset - queue->offset, size);
}

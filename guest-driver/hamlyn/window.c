// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mappings of termini. Window and doorbell are mapped page by page, as they are touched, so that
 * they can be taken away again. The status words are ordinary memory.
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
	u64 offset = ((u64)vmf->pgoff << PAGE_SHIFT) - terminus->object.offset;
	struct hamlyn_file *file = vmf->vma->vm_file->private_data;
	struct hamlyn_card *card = file->card;
	const struct hamlyn_parts *parts = hamlyn_parts(card);
	resource_size_t address;
	vm_fault_t ret;

	/* A process that is being killed does not come back to touch it again. */
	if (mutex_lock_killable(&card->lock))
		return VM_FAULT_NOPAGE;
	if (!terminus->open)
		address = page_to_phys(file->spent);
	else if (offset < HAMLYN_WINDOW_SIZE)
		address = parts->windows + (u64)terminus->object.index * HAMLYN_WINDOW_SIZE + offset;
	else
		address = parts->doorbells + (u64)terminus->object.index * HAMLYN_DOORBELL_SIZE;
	ret = vmf_insert_pfn(vmf->vma, vmf->address, PHYS_PFN(address));
	mutex_unlock(&card->lock);
	return ret;
}

static void terminus_vma_open(struct vm_area_struct *vma)
{
	struct hamlyn_terminus *terminus = vma->vm_private_data;

	atomic_inc(&terminus->views);
	kref_get(&terminus->object.users);
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

static int window_map(struct vm_area_struct *vma, struct hamlyn_terminus *terminus)
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
	kref_get(&terminus->object.users);
	return 0;
}

int hamlyn_terminus_mmap(struct card_object *object, struct vm_area_struct *vma, u64 offset,
			 u64 size)
{
	struct hamlyn_terminus *terminus = container_of(object, struct hamlyn_terminus, object);

	switch (offset) {
	case HAMLYN_MAP_WINDOW:
		return size == HAMLYN_WINDOW_SIZE ? window_map(vma, terminus) : -EINVAL;
	case HAMLYN_MAP_DOORBELL:
		return size == HAMLYN_DOORBELL_SIZE ? window_map(vma, terminus) : -EINVAL;
	case HAMLYN_MAP_STATUS:
		return size == HAMLYN_PAGE_SIZE ? hamlyn_mmap_memory(vma, &terminus->status, 1) :
						  -EINVAL;
	default:
		return -EINVAL;
	}
}

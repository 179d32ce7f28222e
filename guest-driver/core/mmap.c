// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mappings of files' objects. What is memory is mapped whole, and read-only; what is the card's
 * own is mapped by its folder.
 */
#include "core.h"

/*
 * Maps memory that the card writes. The mapping has a reference to each page: the pages may outlive
 * their object.
 */
int hamlyn_mmap_memory(struct vm_area_struct *vma, struct page **pages, unsigned long count)
{
	if (vma->vm_flags & VM_WRITE)
		return -EACCES;
	vm_flags_mod(vma, VM_IO | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP,
		     VM_MAYWRITE | VM_MAYEXEC);
	return vm_map_pages_zero(vma, pages, count);
}

/* What a file has at an offset, held for the caller. */
static struct card_object *mmap_find(struct hamlyn_file *file, u64 offset,
				     const struct card_kind **kind)
{
	const struct card_ops *ops = file->card->ops;
	struct card_object *object;
	unsigned int i;

	CLASS(hamlyn_entry, entry)(file);
	if (entry.error)
		return ERR_PTR(entry.error);
	for (i = 0; i < ops->kinds_count; i++) {
		if (!ops->kinds[i]->mmap)
			continue;
		list_for_each_entry(object, &file->objects[i], on_file)
			if (offset - object->offset < HAMLYN_MAP_STRIDE) {
				kref_get(&object->users);
				*kind = ops->kinds[i];
				return object;
			}
	}
	return ERR_PTR(-ENXIO);
}

int hamlyn_mmap(struct file *filp, struct vm_area_struct *vma)
{
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT, size = vma->vm_end - vma->vm_start;
	const struct card_kind *kind;
	struct card_object *object;
	int ret;

	if (vma->vm_flags & VM_EXEC)
		return -EACCES;
	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	object = mmap_find(filp->private_data, offset, &kind);
	if (IS_ERR(object))
		return PTR_ERR(object);
	ret = kind->mmap(object, vma, offset - object->offset, size);
	kref_put(&object->users, kind->free);
	return ret;
}

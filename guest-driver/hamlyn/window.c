// SPDX-License-Identifier: GPL-2.0-only
/* Mappings of termini: window and doorbell are the card's, the status words are ordinary memory. */
#include "hamlyn.h"

resource_size_t hamlyn_terminus_place(const struct card_object *object, u64 offset)
{
	const struct hamlyn_parts *parts = hamlyn_parts(object->card);

	if (offset < HAMLYN_WINDOW_SIZE)
		return parts->windows + (u64)object->index * HAMLYN_WINDOW_SIZE + offset;
	return parts->doorbells + (u64)object->index * HAMLYN_DOORBELL_SIZE;
}

int hamlyn_terminus_mmap(struct card_object *object, struct vm_area_struct *vma, u64 offset,
			 u64 size)
{
	struct hamlyn_terminus *terminus = container_of(object, struct hamlyn_terminus, object);

	switch (offset) {
	case HAMLYN_MAP_WINDOW:
		return size == HAMLYN_WINDOW_SIZE ? uln_mmap_windows(vma, object) : -EINVAL;
	case HAMLYN_MAP_DOORBELL:
		return size == HAMLYN_DOORBELL_SIZE ? uln_mmap_card(vma, object) : -EINVAL;
	case HAMLYN_MAP_STATUS:
		return size == ULN_PAGE_SIZE ? uln_mmap_memory(vma, &terminus->status, 1) :
						  -EINVAL;
	default:
		return -EINVAL;
	}
}

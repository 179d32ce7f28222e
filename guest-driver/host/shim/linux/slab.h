/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * Memory. Allocations are counted for each system. Freed memory is poisoned, so that a use after
 * free is detected.
 */
#ifndef _HOST_SLAB_H
#define _HOST_SLAB_H

#include <linux/types.h>

#define GFP_KERNEL 0u

void *kzalloc(size_t size, gfp_t flags);
void kfree(const void *memory);

#endif /* _HOST_SLAB_H */

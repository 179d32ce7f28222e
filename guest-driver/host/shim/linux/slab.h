/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* Memory: counted for each system, and what is given back is spoilt, so that whoever uses it is found out. */
#ifndef _HOST_SLAB_H
#define _HOST_SLAB_H

#include <linux/types.h>

#define GFP_KERNEL 0u

void *kzalloc(size_t size, gfp_t flags);
void kfree(const void *memory);

#endif /* _HOST_SLAB_H */

/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* Pointers, looked up by number. */
#ifndef _HOST_XARRAY_H
#define _HOST_XARRAY_H

#include <linux/list.h>
#include <linux/slab.h>

#define XA_CHAINS 256

struct xarray {
	struct hlist_head chains[XA_CHAINS];
	u32 count;
};

struct xa_limit {
	u32 min, max;
};

#define XA_LIMIT(least, most) ((struct xa_limit){ .min = (least), .max = (most) })
/* Allocated numbers start at 1. */
#define XA_FLAGS_ALLOC1 1u

void xa_init_flags(struct xarray *xa, gfp_t flags);
int xa_alloc_cyclic(struct xarray *xa, u32 *number, void *entry, struct xa_limit limit, u32 *next,
		    gfp_t flags);
void *xa_load(struct xarray *xa, unsigned long number);
void *xa_erase(struct xarray *xa, unsigned long number);
void xa_destroy(struct xarray *xa);

#endif /* _HOST_XARRAY_H */

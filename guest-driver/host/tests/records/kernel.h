/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What core/records.c needs of a kernel and of uln_core.h, besides guest-driver/host/shim. The
 * compiler includes this file before all others, and uln_core.h is marked as already included.
 */
#include <assert.h>
#include <linux/types.h>

#include "uln_kernel.h"
#include "uln_uapi.h"

#define ULN_PAGE_SIZE 4096
#define BITS_PER_BYTE 8
#define BITS_PER_LONG_LONG 64
#define BIT(bit) (1ul << (bit))
#define BIT_ULL(bit) (1ull << (bit))
#define GENMASK_ULL(high, low) (~0ull >> (63 - (high)) & ~0ull << (low))
#define __ffs64(word) ((u32)__builtin_ctzll(word))
#define round_up(value, to) (((value) + (to) - 1) / (to) * (to))
#define sizeof_field(type, member) sizeof(((type *)0)->member)

/* The address of a page is the page itself. */
struct uln_pages {
	void *page[ULN_WELL_KNOWN_SLOTS];
};

#define page_address(page) (page)

/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
#ifndef _HOST_BITOPS_H
#define _HOST_BITOPS_H

#include <linux/types.h>

#define BITS_PER_LONG (CHAR_BIT * sizeof(long))
#define BIT(bit) (1ul << (bit))

static inline void __set_bit(unsigned int bit, unsigned long *word)
{
	*word |= 1ul << bit;
}

static inline bool __test_and_clear_bit(unsigned int bit, unsigned long *word)
{
	bool was = *word & 1ul << bit;

	*word &= ~(1ul << bit);
	return was;
}

/* For a single word. */
#define for_each_set_bit(bit, word, count)             \
	for ((bit) = 0; (bit) < (count); (bit)++)      \
		if (*(word) & 1ul << (bit))

#endif /* _HOST_BITOPS_H */

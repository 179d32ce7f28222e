/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* Any evenly distributed hash works, because its values are not specified. This is FNV-1a. */
#ifndef _HOST_JHASH_H
#define _HOST_JHASH_H

#include <linux/types.h>

static inline u32 jhash(const void *bytes, u32 length, u32 seed)
{
	u32 hash = 2166136261u ^ seed;
	const u8 *byte = bytes;

	while (length--)
		hash = (hash ^ *byte++) * 16777619u;
	return hash ^ hash >> 15;
}

static inline u32 jhash_2words(u32 one, u32 other, u32 seed)
{
	u32 words[] = { one, other };

	return jhash(words, sizeof(words), seed);
}

#endif /* _HOST_JHASH_H */

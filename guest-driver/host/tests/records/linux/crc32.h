/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _RECORDS_CRC32_H
#define _RECORDS_CRC32_H

#include <linux/types.h>

static inline u32 crc32_le(u32 crc, const u8 *bytes, size_t length)
{
	while (length--) {
		crc ^= *bytes++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return crc;
}

#endif /* _RECORDS_CRC32_H */

/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
#ifndef _HOST_BYTEORDER_H
#define _HOST_BYTEORDER_H

#include <endian.h>

#define cpu_to_le32(value) htole32(value)
#define cpu_to_le64(value) htole64(value)
#define le32_to_cpu(value) le32toh(value)
#define le64_to_cpu(value) le64toh(value)

#endif /* _HOST_BYTEORDER_H */

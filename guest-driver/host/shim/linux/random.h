/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
#ifndef _HOST_RANDOM_H
#define _HOST_RANDOM_H

#include <linux/types.h>

u32 get_random_u32(void);

#endif /* _HOST_RANDOM_H */

/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * A wait queue is the number of a file, which is reported to the system's owner. 0: it has none
 * yet.
 */
#ifndef _HOST_WAIT_H
#define _HOST_WAIT_H

#include <linux/types.h>

typedef struct wait_queue_head {
	u32 file;
} wait_queue_head_t;

static inline void init_waitqueue_head(wait_queue_head_t *wait)
{
	wait->file = 0;
}

void wake_up_all(wait_queue_head_t *wait);

#endif /* _HOST_WAIT_H */

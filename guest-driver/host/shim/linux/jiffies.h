/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * Time in milliseconds, provided by the system's owner. It starts at the same value as in a kernel.
 */
#ifndef _HOST_JIFFIES_H
#define _HOST_JIFFIES_H

#define HZ 1000
#define INITIAL_JIFFIES ((unsigned long)(unsigned int)(-300 * HZ))

unsigned long host_jiffies(void);

#define jiffies host_jiffies()
#define msecs_to_jiffies(milliseconds) ((unsigned long)(milliseconds))
#define time_after(one, other) ((long)((other) - (one)) < 0)
#define time_after_eq(one, other) ((long)((one) - (other)) >= 0)

#endif /* _HOST_JIFFIES_H */

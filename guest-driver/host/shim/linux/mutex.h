/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * One thread calls a system at a time, so locks never block. They only check that a lock is held as
 * required.
 */
#ifndef _HOST_MUTEX_H
#define _HOST_MUTEX_H

#include <linux/types.h>

struct mutex {
	bool held;
};

void mutex_lock(struct mutex *lock);
void mutex_unlock(struct mutex *lock);
void lockdep_assert_held(struct mutex *lock);

#endif /* _HOST_MUTEX_H */

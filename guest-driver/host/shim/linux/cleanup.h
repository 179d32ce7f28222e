/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* Scope-based cleanup. */
#ifndef _HOST_CLEANUP_H
#define _HOST_CLEANUP_H

#include <linux/mutex.h>

static inline struct mutex *guard_begin(struct mutex *lock)
{
	mutex_lock(lock);
	return lock;
}

static inline void guard_end(struct mutex **lock)
{
	mutex_unlock(*lock);
}

#define guard(kind) guard_##kind
#define guard_mutex(lock) \
	struct mutex *_guard __attribute__((unused, cleanup(guard_end))) = guard_begin(lock)

#endif /* _HOST_CLEANUP_H */

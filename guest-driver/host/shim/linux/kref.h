/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* Reference counts. */
#ifndef _HOST_KREF_H
#define _HOST_KREF_H

struct kref {
	unsigned int count;
};

static inline void kref_init(struct kref *users)
{
	users->count = 1;
}

static inline void kref_get(struct kref *users)
{
	users->count++;
}

static inline int kref_put(struct kref *users, void (*release)(struct kref *users))
{
	if (--users->count)
		return 0;
	release(users);
	return 1;
}

#endif /* _HOST_KREF_H */

/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* Work is queued in the system, until its owner runs it. */
#ifndef _HOST_WORKQUEUE_H
#define _HOST_WORKQUEUE_H

#include <linux/list.h>

struct work_struct {
	void (*function)(struct work_struct *work);
	struct list_head on_system;
	/* Due time, in jiffies. */
	unsigned long due;
};

struct delayed_work {
	struct work_struct work;
};

struct workqueue_struct;
#define system_highpri_wq ((struct workqueue_struct *)NULL)

#define INIT_WORK(item, what)                              \
	do {                                               \
		(item)->function = (what);                 \
		INIT_LIST_HEAD(&(item)->on_system);        \
	} while (0)
#define INIT_DELAYED_WORK(item, what) INIT_WORK(&(item)->work, what)
#define to_delayed_work(item) container_of(item, struct delayed_work, work)

bool queue_work(struct workqueue_struct *queue, struct work_struct *work);
bool queue_delayed_work(struct workqueue_struct *queue, struct delayed_work *work,
			unsigned long delay);
void cancel_work_sync(struct work_struct *work);
void cancel_delayed_work_sync(struct delayed_work *work);

#endif /* _HOST_WORKQUEUE_H */

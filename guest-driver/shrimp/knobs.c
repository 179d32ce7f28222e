// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the operator may set while the card runs (sections 4 and 4.1): the FIFOs' thresholds, in
 * bytes, and how long a packet of blocked-write waits for the next store, in microseconds. The card
 * takes the nearest possible value. A reset of the card restores the values of its start.
 */
#include <linux/sysfs.h>

#include "shrimp.h"

static ssize_t knob_show(struct device *dev, char *text, u32 offset)
{
	struct uln_card *card = container_of(dev, struct uln_card, dev);

	guard(mutex)(&card->lock);
	if (!card->live)
		return -ENODEV;
	return sysfs_emit(text, "%u\n", readl(card->registers + offset));
}

static ssize_t knob_store(struct device *dev, const char *text, size_t length, u32 offset)
{
	struct uln_card *card = container_of(dev, struct uln_card, dev);
	u32 value;
	int ret = kstrtou32(text, 0, &value);

	if (ret)
		return ret;
	guard(mutex)(&card->lock);
	if (!card->live)
		return -ENODEV;
	writel(value, card->registers + offset);
	return length;
}

#define KNOB(name, offset)                                                                       \
	static ssize_t name##_show(struct device *dev, struct device_attribute *attribute,         \
				   char *text)                                                     \
	{                                                                                          \
		return knob_show(dev, text, offset);                                               \
	}                                                                                          \
	static ssize_t name##_store(struct device *dev, struct device_attribute *attribute,        \
				    const char *text, size_t length)                               \
	{                                                                                          \
		return knob_store(dev, text, length, offset);                                      \
	}                                                                                          \
	static DEVICE_ATTR_ADMIN_RW(name)

KNOB(out_threshold, SHRIMP_REG_OUT_THRESHOLD);
KNOB(in_threshold, SHRIMP_REG_IN_THRESHOLD);
KNOB(merge_time, SHRIMP_REG_MERGE_TIME);

static struct attribute *knobs[] = {
	&dev_attr_out_threshold.attr,
	&dev_attr_in_threshold.attr,
	&dev_attr_merge_time.attr,
	NULL,
};

const struct attribute_group shrimp_knobs = {
	.attrs = knobs,
};

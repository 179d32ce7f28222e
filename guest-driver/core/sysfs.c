// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/class/hamlyn/hamlynN: host_id (-1 while the link is down), link (1 while it is up) and
 * holders (a line for each user that has the card open: how much of it the user holds). The first
 * two can be polled (POLLPRI) for changes.
 */
#include <linux/sysfs.h>

#include "uln_core.h"

/* Any user may read in any number of threads: only one at a time waits for a card's lock. */
static DEFINE_MUTEX(readers);

static ssize_t sysfs_show_register(struct device *dev, u32 offset, char *text)
{
	struct uln_card *card = container_of(dev, struct uln_card, dev);

	guard(mutex)(&readers);
	guard(mutex)(&card->lock);
	if (!uln_card_answers(card))
		return -ENODEV;
	return sysfs_emit(text, "%d\n", (s32)readl(card->registers + offset));
}

static ssize_t host_id_show(struct device *dev, struct device_attribute *attribute, char *text)
{
	return sysfs_show_register(dev, ULN_REG_HOST_ID, text);
}
static DEVICE_ATTR_RO(host_id);

static ssize_t link_show(struct device *dev, struct device_attribute *attribute, char *text)
{
	return sysfs_show_register(dev, ULN_REG_LINK, text);
}
static DEVICE_ATTR_RO(link);

static ssize_t holders_show(struct device *dev, struct device_attribute *attribute, char *text)
{
	guard(mutex)(&readers);
	return uln_holders_list(container_of(dev, struct uln_card, dev), text);
}
/* For root: it names users. */
static DEVICE_ATTR_ADMIN_RO(holders);

static struct attribute *uln_attributes[] = {
	&dev_attr_host_id.attr,
	&dev_attr_link.attr,
	&dev_attr_holders.attr,
	NULL,
};

/* Attributes that every card has. */
const struct attribute_group uln_group = {
	.attrs = uln_attributes,
};

const struct attribute_group *uln_groups[] = {
	&uln_group,
	NULL,
};

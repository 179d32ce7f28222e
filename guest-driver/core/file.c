// SPDX-License-Identifier: GPL-2.0-only
/* An open file of /dev/hamlynN: a protection domain. It owns its objects, and they end with it. */
#include <linux/uaccess.h>

#include "uln_core.h"

/* Adds the file to its card and to its user's share. */
static int file_join(struct uln_file *file)
{
	struct uln_share *spare __free(kfree) = uln_share_alloc();
	struct uln_card *card = file->card;
	int ret;

	if (!spare)
		return -ENOMEM;
	guard(mutex)(&card->lock);
	if (!card->ready)
		return -ENODEV;
	ret = xa_alloc_cyclic(&card->numbers, &file->number, file,
			      XA_LIMIT(ULN_OWN_NUMBER + 1, U32_MAX), &card->next_number,
			      GFP_KERNEL);
	if (ret < 0)
		return ret;
	ret = uln_holders_join(file, &spare);
	if (ret) {
		xa_erase(&card->numbers, file->number);
		return ret;
	}
	get_device(&card->dev);
	list_add(&file->on_card, &card->files);
	return 0;
}

static int file_open(struct inode *inode, struct file *filp)
{
	struct uln_card *card = container_of(inode->i_cdev, struct uln_card, cdev);
	struct uln_file *file;
	int ret;

	file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);
	if (!file)
		return -ENOMEM;
	file->spent = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!file->spent) {
		kfree(file);
		return -ENOMEM;
	}
	uln_file_init(file, card);
	file->mapping.host = inode;
	file->mapping.a_ops = &empty_aops;

	ret = file_join(file);
	if (!ret) {
		filp->private_data = file;
		filp->f_mapping = &file->mapping;
		return nonseekable_open(inode, filp);
	}
	__free_page(file->spent);
	kfree(file);
	return ret;
}

/*
 * Ends objects one by one, so that other threads can take the lock in between. A reset of the card
 * may end objects meanwhile, so the lists are read again each time.
 */
void uln_file_end(struct uln_file *file)
{
	struct uln_closed closed;
	bool more;

	uln_closed_init(&closed, file->card);
	do {
		uln_share_lock(file->card, file->share);
		more = uln_file_close_next(file, &closed);
		uln_share_unlock(file->card, file->share);
		uln_closed_release(&closed);
	} while (more);
}

/* No thread still maps, polls or calls the file: each would hold a reference to it. */
static int file_release(struct inode *inode, struct file *filp)
{
	struct uln_file *file = filp->private_data;
	struct uln_card *card = file->card;

	uln_file_end(file);
	filp->f_mapping = inode->i_mapping;
	scoped_guard(mutex, &card->lock) {
		list_del(&file->on_card);
		xa_erase(&card->numbers, file->number);
		uln_share_put(file->share);
	}
	__free_page(file->spent);
	kfree(file);
	put_device(&card->dev);
	return 0;
}

static __poll_t file_poll(struct file *filp, poll_table *table)
{
	struct uln_file *file = filp->private_data;
	const struct card_ops *ops = file->card->ops;
	struct card_object *object;
	__poll_t events = 0;
	unsigned int kind;

	poll_wait(filp, &file->wait, table);
	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return EPOLLERR | EPOLLHUP;
	for (kind = 0; kind < ops->kinds_count; kind++)
		if (ops->kinds[kind]->poll)
			list_for_each_entry(object, &file->objects[kind], on_file)
				if (!object->alone)
					events |= ops->kinds[kind]->poll(object);
	return events;
}

/* The calls that every card has. */
static const struct card_call calls[] = {
	{ ULN_IOC_QUERY, true, uln_card_query },
	{ ULN_IOC_STATISTICS, true, uln_card_statistics },
	{ ULN_IOC_SELF_TEST, true, uln_selftest },
	{ ULN_IOC_LISTEN, false, uln_listen },
	{ ULN_IOC_CONNECT, false, uln_connect },
	{ ULN_IOC_ASK, false, uln_ask },
	{ ULN_IOC_SHARE, true, uln_holders_answer },
	{ ULN_IOC_OBJECT_FILE, false, uln_object_file },
	{ ULN_IOC_EXPRESS_CREATE, true, uln_express_area, uln_express_area_undo },
	{ ULN_IOC_EXPRESS_MAP, true, uln_express_view, uln_express_view_undo },
	{ ULN_IOC_EXPRESS_DESTROY, false, uln_express_destroy },
	{ ULN_IOC_EXPRESS_QUERY, true, uln_express_query },
};

static const struct card_call *call_find(const struct card_call *of, unsigned int count,
					 unsigned int code)
{
	const struct card_call *call;

	for (call = of; call < of + count; call++)
		if (uln_is_call(code, call->code))
			return call;
	return NULL;
}

static long file_ioctl(struct file *filp, unsigned int code, unsigned long address)
{
	u64 argument[DIV_ROUND_UP(ULN_ARGUMENT_SIZE, sizeof(u64))];
	struct uln_file *file = filp->private_data;
	const struct card_ops *ops = file->card->ops;
	void __user *user = (void __user *)address;
	const struct card_call *call;
	int ret;

	/* The card's own calls first: some are frequent. */
	call = call_find(ops->calls, ops->calls_count, code) ?:
	       call_find(calls, ARRAY_SIZE(calls), code);
	if (!call)
		return -ENOTTY;
	if (WARN_ON_ONCE(_IOC_SIZE(call->code) > sizeof(argument)))
		return -ENOTTY;
	ret = uln_argument_get(argument, call->code, user, code) ?: call->run(file, argument);
	if (ret || !call->answers)
		return ret;
	ret = uln_argument_put(user, code, argument, call->code);
	if (ret && call->undo)
		call->undo(file, argument);
	return ret;
}

const struct file_operations uln_fops = {
	.owner = THIS_MODULE,
	.open = file_open,
	.release = file_release,
	.poll = file_poll,
	.unlocked_ioctl = file_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = uln_mmap,
};

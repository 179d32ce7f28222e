// SPDX-License-Identifier: GPL-2.0-only
/*
 * An open file of /dev/hamlynN: a protection domain. What it makes is its own, and goes with it.
 */
#include <linux/uaccess.h>

#include "hamlyn.h"

void hamlyn_file_init(struct hamlyn_file *file, struct hamlyn_card *card)
{
	file->card = card;
	INIT_LIST_HEAD(&file->slots);
	INIT_LIST_HEAD(&file->termini);
	INIT_LIST_HEAD(&file->queues);
	init_waitqueue_head(&file->wait);
}

/* Makes the file one of its card's and its user's. */
static int file_join(struct hamlyn_file *file)
{
	struct hamlyn_share *spare __free(kfree) = hamlyn_share_alloc();
	struct hamlyn_card *card = file->card;
	int ret;

	if (!spare)
		return -ENOMEM;
	guard(mutex)(&card->lock);
	if (!card->ready)
		return -ENODEV;
	ret = hamlyn_share_join(file, &spare);
	if (ret)
		return ret;
	get_device(&card->dev);
	list_add(&file->on_card, &card->files);
	return 0;
}

static int file_open(struct inode *inode, struct file *filp)
{
	struct hamlyn_card *card = container_of(inode->i_cdev, struct hamlyn_card, cdev);
	struct hamlyn_file *file;
	int ret;

	file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);
	if (!file)
		return -ENOMEM;
	file->spent = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!file->spent) {
		kfree(file);
		return -ENOMEM;
	}
	hamlyn_file_init(file, card);
	file->mapping = filp->f_mapping;

	ret = file_join(file);
	if (!ret) {
		filp->private_data = file;
		return nonseekable_open(inode, filp);
	}
	__free_page(file->spent);
	kfree(file);
	return ret;
}

void hamlyn_closed_init(struct hamlyn_closed *closed)
{
	INIT_LIST_HEAD(&closed->slots);
	INIT_LIST_HEAD(&closed->termini);
	INIT_LIST_HEAD(&closed->queues);
}

/*
 * Closes one of the file's objects, slots before the queues that they name; false if none is left.
 * The card's lock is held.
 */
bool hamlyn_file_close_next(struct hamlyn_file *file, struct hamlyn_closed *closed)
{
	struct hamlyn_terminus *terminus;
	struct hamlyn_queue *queue;
	struct hamlyn_slot *slot;

	lockdep_assert_held(&file->card->lock);
	slot = list_first_entry_or_null(&file->slots, struct hamlyn_slot, on_file);
	terminus = list_first_entry_or_null(&file->termini, struct hamlyn_terminus, on_file);
	queue = list_first_entry_or_null(&file->queues, struct hamlyn_queue, on_file);
	if (slot) {
		hamlyn_slot_close(slot);
		list_add(&slot->on_file, &closed->slots);
	} else if (terminus) {
		hamlyn_terminus_close(terminus);
		list_add(&terminus->on_file, &closed->termini);
	} else if (queue) {
		hamlyn_queue_close(queue);
		list_add(&queue->on_file, &closed->queues);
	} else {
		return false;
	}
	return true;
}

/* Gives the memory of what was closed back, without the card's lock: it may take long. */
void hamlyn_closed_release(struct hamlyn_closed *closed)
{
	struct hamlyn_terminus *terminus, *next_terminus;
	struct hamlyn_queue *queue, *next_queue;
	struct hamlyn_slot *slot, *next_slot;

	list_for_each_entry_safe(slot, next_slot, &closed->slots, on_file)
		hamlyn_slot_release(slot);
	list_for_each_entry_safe(terminus, next_terminus, &closed->termini, on_file)
		hamlyn_terminus_release(terminus);
	list_for_each_entry_safe(queue, next_queue, &closed->queues, on_file)
		hamlyn_queue_release(queue);
	hamlyn_closed_init(closed);
	cond_resched();
}

/*
 * Ends one object after the other, so that others can take the lock in between. A reset of the card
 * meanwhile ends objects too, so what is left is looked up anew each time.
 */
static void file_end(struct hamlyn_file *file)
{
	struct hamlyn_closed closed;
	bool more;

	hamlyn_closed_init(&closed);
	do {
		hamlyn_share_lock(file->card, file->share);
		more = hamlyn_file_close_next(file, &closed);
		hamlyn_share_unlock(file->card, file->share);
		hamlyn_closed_release(&closed);
	} while (more);
}

/* Nobody maps, polls or calls the file any more: they all hold it. */
static int file_release(struct inode *inode, struct file *filp)
{
	struct hamlyn_file *file = filp->private_data;
	struct hamlyn_card *card = file->card;

	file_end(file);
	scoped_guard(mutex, &card->lock) {
		list_del(&file->on_card);
		hamlyn_share_put(file->share);
	}
	__free_page(file->spent);
	kfree(file);
	put_device(&card->dev);
	return 0;
}

static __poll_t file_poll(struct file *filp, poll_table *table)
{
	struct hamlyn_file *file = filp->private_data;
	struct hamlyn_terminus *terminus;
	struct hamlyn_queue *queue;
	__poll_t events = 0;

	poll_wait(filp, &file->wait, table);
	CLASS(hamlyn_entry, entry)(file);
	if (entry.error)
		return EPOLLERR | EPOLLHUP;
	list_for_each_entry(queue, &file->queues, on_file)
		events |= hamlyn_queue_poll(queue);
	list_for_each_entry(terminus, &file->termini, on_file)
		events |= hamlyn_terminus_poll(terminus);
	return events;
}

static const struct hamlyn_call {
	u32 code;
	/* The structure goes back to the caller. */
	bool answers;
	int (*run)(struct hamlyn_file *file, union hamlyn_argument *argument);
	/* Takes back what was made, if the caller could not be told of it. */
	void (*undo)(struct hamlyn_file *file, union hamlyn_argument *argument);
} calls[] = {
	{ HAMLYN_IOC_QUERY, true, hamlyn_card_query },
	{ HAMLYN_IOC_TERMINUS_CREATE, true, hamlyn_terminus_create, hamlyn_terminus_undo },
	{ HAMLYN_IOC_TERMINUS_DESTROY, false, hamlyn_terminus_destroy },
	{ HAMLYN_IOC_TERMINUS_WAIT, false, hamlyn_terminus_wait },
	{ HAMLYN_IOC_TERMINUS_ARM, true, hamlyn_terminus_arm },
	{ HAMLYN_IOC_SEND_BUFFER_SET, false, hamlyn_send_buffer_set },
	{ HAMLYN_IOC_SEND_BUFFER_CLEAR, false, hamlyn_send_buffer_clear },
	{ HAMLYN_IOC_QUEUE_CREATE, true, hamlyn_queue_create, hamlyn_queue_undo },
	{ HAMLYN_IOC_QUEUE_DESTROY, false, hamlyn_queue_destroy },
	{ HAMLYN_IOC_QUEUE_WAIT, false, hamlyn_queue_wait },
	{ HAMLYN_IOC_QUEUE_ARM, true, hamlyn_queue_arm },
	{ HAMLYN_IOC_SLOT_CREATE, true, hamlyn_slot_create, hamlyn_slot_undo },
	{ HAMLYN_IOC_SLOT_DESTROY, false, hamlyn_slot_destroy },
	{ HAMLYN_IOC_STATISTICS, true, hamlyn_card_statistics },
	{ HAMLYN_IOC_SELF_TEST, true, hamlyn_selftest },
	{ HAMLYN_IOC_LISTEN, false, hamlyn_listen },
	{ HAMLYN_IOC_CONNECT, false, hamlyn_connect },
	{ HAMLYN_IOC_ASK, false, hamlyn_ask },
	{ HAMLYN_IOC_SHARE, true, hamlyn_share_answer },
};

static long file_ioctl(struct file *filp, unsigned int code, unsigned long address)
{
	struct hamlyn_file *file = filp->private_data;
	void __user *user = (void __user *)address;
	const struct hamlyn_call *call = calls;
	union hamlyn_argument argument;
	int ret;

	while (call->code != code)
		if (++call == calls + ARRAY_SIZE(calls))
			return -ENOTTY;
	if (copy_from_user(&argument, user, _IOC_SIZE(code)))
		return -EFAULT;
	ret = call->run(file, &argument);
	if (ret || !call->answers)
		return ret;
	if (copy_to_user(user, &argument, _IOC_SIZE(code))) {
		if (call->undo)
			call->undo(file, &argument);
		return -EFAULT;
	}
	return 0;
}

const struct file_operations hamlyn_fops = {
	.owner = THIS_MODULE,
	.open = file_open,
	.release = file_release,
	.poll = file_poll,
	.unlocked_ioctl = file_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = hamlyn_mmap,
};

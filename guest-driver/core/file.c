// SPDX-License-Identifier: GPL-2.0-only
/* An open file of /dev/hamlynN: a protection domain. It owns its objects, and they end with it. */
#include <linux/uaccess.h>

#include "hamlyn_core.h"

void hamlyn_file_init(struct hamlyn_file *file, struct hamlyn_card *card)
{
	unsigned int kind;

	file->card = card;
	address_space_init_once(&file->mapping);
	for (kind = 0; kind < HAMLYN_CARD_KINDS; kind++)
		INIT_LIST_HEAD(&file->objects[kind]);
	file->mappable = RB_ROOT;
	init_waitqueue_head(&file->wait);
}

/* Adds the file to its card and to its user's share. */
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
	ret = xa_alloc_cyclic(&card->numbers, &file->number, file,
			      XA_LIMIT(HAMLYN_OWN_NUMBER + 1, U32_MAX), &card->next_number,
			      GFP_KERNEL);
	if (ret < 0)
		return ret;
	ret = hamlyn_holders_join(file, &spare);
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

/**
 * hamlyn_object_init() - initialise an object that the card does not know yet
 * @object: memory that is all zero
 * @file: the file that will own it
 * @kind: its kind
 */
void hamlyn_object_init(struct card_object *object, struct hamlyn_file *file,
			const struct card_kind *kind)
{
	kref_init(&object->users);
	object->card = file->card;
	object->file = file;
	object->kind = kind;
}

/**
 * hamlyn_object_put() - drop a reference
 * @object: the object
 */
void hamlyn_object_put(struct card_object *object)
{
	kref_put(&object->users, object->kind->free);
}

static bool offset_is_less(struct rb_node *one, const struct rb_node *other)
{
	return rb_entry(one, struct card_object, by_offset)->offset <
	       rb_entry(other, struct card_object, by_offset)->offset;
}

/**
 * hamlyn_object_join() - give an object to its file, once the card has opened it
 * @object: the object; the card's lock is held
 * @kind: index into the file's lists
 */
void hamlyn_object_join(struct card_object *object, unsigned int kind)
{
	struct hamlyn_file *file = object->file;

	lockdep_assert_held(&object->card->lock);
	if (object->kind->mmap) {
		object->offset = file->next_offset;
		file->next_offset += HAMLYN_MAP_STRIDE;
		rb_add(&object->by_offset, &file->mappable, offset_is_less);
	}
	object->open = true;
	list_add_tail(&object->on_file, &file->objects[kind]);
}

/**
 * hamlyn_object_leave() - remove a closed object from its file
 * @object: the object; the card's lock is held
 */
void hamlyn_object_leave(struct card_object *object)
{
	lockdep_assert_held(&object->card->lock);
	if (object->kind->mmap)
		rb_erase(&object->by_offset, &object->file->mappable);
	list_del(&object->on_file);
	/* The file may be freed before the object is released. */
	object->file = NULL;
}

void hamlyn_closed_init(struct hamlyn_closed *closed, struct hamlyn_card *card)
{
	unsigned int kind;

	closed->ops = card->ops;
	for (kind = 0; kind < HAMLYN_CARD_KINDS; kind++)
		INIT_LIST_HEAD(&closed->objects[kind]);
}

/**
 * hamlyn_file_close_next() - close one of a file's objects, before any that it names
 * @file: the file; the card's lock is held
 * @closed: gets the object, to be released
 *
 * Return: false if the file has no objects left.
 */
bool hamlyn_file_close_next(struct hamlyn_file *file, struct hamlyn_closed *closed)
{
	const struct card_ops *ops = file->card->ops;
	struct card_object *object;
	unsigned int kind;

	lockdep_assert_held(&file->card->lock);
	for (kind = 0; kind < ops->kinds_count; kind++) {
		object =
			list_first_entry_or_null(&file->objects[kind], struct card_object, on_file);
		if (!object)
			continue;
		ops->kinds[kind]->close(object);
		list_add(&object->on_file, &closed->objects[kind]);
		return true;
	}
	return false;
}

/**
 * hamlyn_closed_release() - release the memory of closed objects
 * @closed: the objects; the card's lock is not held, as this may take long
 */
void hamlyn_closed_release(struct hamlyn_closed *closed)
{
	struct card_object *object, *next;
	unsigned int kind;

	for (kind = 0; kind < closed->ops->kinds_count; kind++) {
		list_for_each_entry_safe(object, next, &closed->objects[kind], on_file)
			closed->ops->kinds[kind]->release(object);
		INIT_LIST_HEAD(&closed->objects[kind]);
	}
	cond_resched();
}

/*
 * Ends objects one by one, so that other threads can take the lock in between. A reset of the card
 * may end objects meanwhile, so the lists are read again each time.
 */
static void file_end(struct hamlyn_file *file)
{
	struct hamlyn_closed closed;
	bool more;

	hamlyn_closed_init(&closed, file->card);
	do {
		hamlyn_share_lock(file->card, file->share);
		more = hamlyn_file_close_next(file, &closed);
		hamlyn_share_unlock(file->card, file->share);
		hamlyn_closed_release(&closed);
	} while (more);
}

/* No thread still maps, polls or calls the file: each would hold a reference to it. */
static int file_release(struct inode *inode, struct file *filp)
{
	struct hamlyn_file *file = filp->private_data;
	struct hamlyn_card *card = file->card;

	file_end(file);
	filp->f_mapping = inode->i_mapping;
	scoped_guard(mutex, &card->lock) {
		list_del(&file->on_card);
		xa_erase(&card->numbers, file->number);
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
	const struct card_ops *ops = file->card->ops;
	struct card_object *object;
	__poll_t events = 0;
	unsigned int kind;

	poll_wait(filp, &file->wait, table);
	CLASS(hamlyn_entry, entry)(file);
	if (entry.error)
		return EPOLLERR | EPOLLHUP;
	for (kind = 0; kind < ops->kinds_count; kind++)
		if (ops->kinds[kind]->poll)
			list_for_each_entry(object, &file->objects[kind], on_file)
				events |= ops->kinds[kind]->poll(object);
	return events;
}

/* The calls that every card has. */
static const struct card_call calls[] = {
	{ HAMLYN_IOC_QUERY, true, hamlyn_card_query },
	{ HAMLYN_IOC_STATISTICS, true, hamlyn_card_statistics },
	{ HAMLYN_IOC_SELF_TEST, true, hamlyn_selftest },
	{ HAMLYN_IOC_LISTEN, false, hamlyn_listen },
	{ HAMLYN_IOC_CONNECT, false, hamlyn_connect },
	{ HAMLYN_IOC_ASK, false, hamlyn_ask },
	{ HAMLYN_IOC_SHARE, true, hamlyn_holders_answer },
	{ HAMLYN_IOC_EXPRESS_CREATE, true, hamlyn_express_area, hamlyn_express_area_undo },
	{ HAMLYN_IOC_EXPRESS_MAP, true, hamlyn_express_view, hamlyn_express_view_undo },
	{ HAMLYN_IOC_EXPRESS_DESTROY, false, hamlyn_express_destroy },
	{ HAMLYN_IOC_EXPRESS_QUERY, true, hamlyn_express_query },
};

static const struct card_call *call_find(const struct card_call *of, unsigned int count,
					 unsigned int code)
{
	const struct card_call *call;

	for (call = of; call < of + count; call++)
		if (hamlyn_is_call(code, call->code))
			return call;
	return NULL;
}

/**
 * hamlyn_argument_get() - copy the argument of an ioctl from its caller
 * @argument: gets the argument
 * @own: code of the call, with the size of @argument
 * @user: structure of the caller
 * @code: code that the caller used, with the size of its structure
 *
 * A program may be older or newer than the driver. Missing members of a shorter structure are zero.
 *
 * Return: 0; -E2BIG if the caller's structure is longer and the rest is not zero; -EFAULT.
 */
int hamlyn_argument_get(void *argument, unsigned int own, const void __user *user,
			unsigned int code)
{
	return copy_struct_from_user(argument, _IOC_SIZE(own), user, _IOC_SIZE(code));
}

/**
 * hamlyn_argument_put() - copy the answer of an ioctl to its caller
 * @user: structure of the caller
 * @code: code that the caller used, with the size of its structure
 * @argument: the answer
 * @own: code of the call, with the size of @argument
 *
 * Return: 0 or -EFAULT.
 */
int hamlyn_argument_put(void __user *user, unsigned int code, const void *argument,
			unsigned int own)
{
	size_t size = min(_IOC_SIZE(code), _IOC_SIZE(own));

	return copy_to_user(user, argument, size) ? -EFAULT : 0;
}

static long file_ioctl(struct file *filp, unsigned int code, unsigned long address)
{
	u64 argument[DIV_ROUND_UP(HAMLYN_ARGUMENT_SIZE, sizeof(u64))];
	struct hamlyn_file *file = filp->private_data;
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
	ret = hamlyn_argument_get(argument, call->code, user, code) ?: call->run(file, argument);
	if (ret || !call->answers)
		return ret;
	ret = hamlyn_argument_put(user, code, argument, call->code);
	if (ret && call->undo)
		call->undo(file, argument);
	return ret;
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

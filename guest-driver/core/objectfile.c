// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files of single objects. A program with many objects can poll each on its own: the card's file
 * reports only that one of them has something. It does not report objects that have a file of their
 * own, since another part of the program waits for these.
 */
#include <linux/anon_inodes.h>

#include "uln_core.h"

static int object_file_release(struct inode *inode, struct file *filp)
{
	struct card_object *object = filp->private_data;
	struct uln_card *card = object->card;

	uln_object_put(object);
	put_device(&card->dev);
	return 0;
}

static __poll_t object_file_poll(struct file *filp, poll_table *table)
{
	struct card_object *object = filp->private_data;
	const struct card_kind *kind = object->kind;
	struct uln_card *card = object->card;

	poll_wait(filp, kind->wait(object), table);
	guard(mutex)(&card->lock);
	if (!object->file || !card->live)
		return EPOLLERR | EPOLLHUP;
	return kind->poll_own ? kind->poll_own(object) : kind->poll(object);
}

static const struct file_operations object_fops = {
	.owner = THIS_MODULE,
	.release = object_file_release,
	.poll = object_file_poll,
};

/* Looks up an object that can be polled, and takes a reference. */
static struct card_object *object_claim(struct uln_file *file,
					const struct uln_object_file *argument)
{
	struct card_object *object;
	int ret;

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return ERR_PTR(entry.error);
	object = uln_object_at(file, argument->offset);
	if (!object)
		return ERR_PTR(-ENOENT);
	if (!object->kind->wait)
		return ERR_PTR(-EOPNOTSUPP);
	if (!object->kind->await_own && argument->what)
		return ERR_PTR(-EINVAL);
	ret = object->kind->await_own ? object->kind->await_own(object, argument->what) : 0;
	if (ret)
		return ERR_PTR(ret);
	object->alone = true;
	kref_get(&object->users);
	return object;
}

int uln_object_file(struct uln_file *file, void *argument)
{
	struct card_object *object = object_claim(file, argument);
	struct uln_card *card;
	int fd;

	if (IS_ERR(object))
		return PTR_ERR(object);
	card = object->card;
	/* The file holds both from here on. */
	get_device(&card->dev);
	fd = anon_inode_getfd("[uln-object]", &object_fops, object, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		uln_object_put(object);
		put_device(&card->dev);
	}
	return fd;
}

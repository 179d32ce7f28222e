// SPDX-License-Identifier: GPL-2.0-only
/*
 * The files of connections and listeners: each has one of its own, so each can be polled, and a
 * process cannot die without the other side being told.
 */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/uaccess.h>

#include "connect.h"

union argument {
	struct hamlyn_object object;
	struct hamlyn_connection_state state;
	struct hamlyn_private private;
};

static bool is_sound(const u8 *bytes, u32 length, u32 least, u32 limit)
{
	return length >= least && length <= limit && !memchr_inv(bytes + length, 0, limit - length);
}

/* A file that holds the card's structure, to be given to the caller or put. */
static struct file *make_file(struct hamlyn_card *card, const char *name,
			      const struct file_operations *fops, void *data)
{
	struct file *file = anon_inode_getfile(name, fops, data, O_RDWR);

	if (!IS_ERR(file))
		get_device(&card->dev);
	return file;
}

static int give(struct file *file)
{
	int fd = get_unused_fd_flags(O_CLOEXEC);

	if (fd < 0)
		fput(file);
	else
		fd_install(fd, file);
	return fd;
}

static int connection_release(struct inode *inode, struct file *filp)
{
	struct hamlyn_connection *connection = filp->private_data;
	struct hamlyn_card *card = connection->card;

	scoped_guard(mutex, &card->lock) {
		hamlyn_connection_close(connection, HAMLYN_END_DIED, NULL);
		hamlyn_connection_put(connection);
	}
	put_device(&card->dev);
	return 0;
}

/* Writable once it is established, readable once it has ended. */
static __poll_t connection_poll(struct file *filp, poll_table *table)
{
	struct hamlyn_connection *connection = filp->private_data;

	poll_wait(filp, &connection->wait, table);
	switch (READ_ONCE(connection->state)) {
	case HAMLYN_CONNECTION_ESTABLISHED:
		return EPOLLOUT | EPOLLWRNORM;
	case HAMLYN_CONNECTION_ENDED:
		return EPOLLIN | EPOLLRDNORM | EPOLLRDHUP | EPOLLHUP;
	default:
		return 0;
	}
}

static long query(struct hamlyn_connection *connection, struct hamlyn_connection_state *state)
{
	if (memchr_inv(state, 0, sizeof(*state)))
		return -EINVAL;
	CLASS(hamlyn_turn, turn)(connection->card, connection->share);
	if (turn.error)
		return turn.error;
	state->state = connection->state;
	state->reason = connection->reason;
	state->host = connection->peer->host;
	state->private_length = connection->length;
	memcpy(state->data, connection->data, sizeof(state->data));
	return 0;
}

static long end_or_answer(struct hamlyn_connection *connection, unsigned int code,
			  const struct hamlyn_private *private)
{
	if (private->reserved || !is_sound(private->data, private->length, 0, HAMLYN_MAX_PRIVATE))
		return -EINVAL;
	CLASS(hamlyn_turn, turn)(connection->card, connection->share);
	if (turn.error)
		return turn.error;
	switch (code) {
	case HAMLYN_IOC_ACCEPT:
		return hamlyn_connection_answer(connection, HAMLYN_WIRE_ACCEPT, private);
	case HAMLYN_IOC_REJECT:
		return hamlyn_connection_answer(connection, HAMLYN_WIRE_REJECT, private);
	default:
		return hamlyn_connection_close(connection, HAMLYN_END_CLOSED, private);
	}
}

static long connection_ioctl(struct file *filp, unsigned int code, unsigned long address)
{
	struct hamlyn_connection *connection = filp->private_data;
	void __user *user = (void __user *)address;
	union argument argument;
	long ret;

	switch (code) {
	case HAMLYN_IOC_CONNECTION_QUERY:
	case HAMLYN_IOC_ACCEPT:
	case HAMLYN_IOC_REJECT:
	case HAMLYN_IOC_CLOSE:
		break;
	default:
		return -ENOTTY;
	}
	if (copy_from_user(&argument, user, _IOC_SIZE(code)))
		return -EFAULT;
	if (code != HAMLYN_IOC_CONNECTION_QUERY)
		return end_or_answer(connection, code, &argument.private);
	ret = query(connection, &argument.state);
	if (!ret && copy_to_user(user, &argument, _IOC_SIZE(code)))
		ret = -EFAULT;
	return ret;
}

static const struct file_operations connection_fops = {
	.owner = THIS_MODULE,
	.release = connection_release,
	.poll = connection_poll,
	.unlocked_ioctl = connection_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct hamlyn_connection *request(struct hamlyn_file *file,
					 const struct hamlyn_connect *connect)
{
	CLASS(hamlyn_entry, entry)(file);

	return entry.error ? ERR_PTR(entry.error) : hamlyn_connection_request(file, connect);
}

int hamlyn_connect(struct hamlyn_file *file, union hamlyn_argument *argument)
{
	const struct hamlyn_connect *connect = &argument->connect;
	struct hamlyn_card *card = file->card;
	struct hamlyn_connection *connection;
	struct file *made;

	if (connect->reserved0 || connect->reserved1 ||
	    !is_sound(connect->name, connect->name_length, 1, HAMLYN_MAX_NAME) ||
	    !is_sound(connect->data, connect->private_length, 0, HAMLYN_MAX_PRIVATE))
		return -EINVAL;
	connection = request(file, connect);
	if (IS_ERR(connection))
		return PTR_ERR(connection);
	made = make_file(card, "[hamlyn-connection]", &connection_fops, connection);
	if (!IS_ERR(made))
		return give(made);
	guard(mutex)(&card->lock);
	hamlyn_connection_close(connection, HAMLYN_END_DIED, NULL);
	hamlyn_connection_put(connection);
	return PTR_ERR(made);
}

/* The file comes first: a request that was taken must have one. */
static struct file *claim(struct hamlyn_listener *listener)
{
	struct hamlyn_card *card = listener->card;
	struct hamlyn_connection *connection;
	struct file *made;

	CLASS(hamlyn_turn, turn)(card, listener->share);
	if (turn.error)
		return ERR_PTR(turn.error);
	if (listener->dead)
		return ERR_PTR(-ENODEV);
	connection = list_first_entry_or_null(&listener->requests, struct hamlyn_connection,
					      on_listener);
	if (!connection)
		return ERR_PTR(-EAGAIN);
	made = make_file(card, "[hamlyn-connection]", &connection_fops, connection);
	if (!IS_ERR(made))
		hamlyn_listener_claimed(connection);
	return made;
}

static long next_request(struct hamlyn_listener *listener)
{
	int fd = get_unused_fd_flags(O_CLOEXEC);
	struct file *made;

	if (fd < 0)
		return fd;
	made = claim(listener);
	if (IS_ERR(made)) {
		put_unused_fd(fd);
		return PTR_ERR(made);
	}
	fd_install(fd, made);
	return fd;
}

static int listener_release(struct inode *inode, struct file *filp)
{
	struct hamlyn_listener *listener = filp->private_data;
	struct hamlyn_card *card = listener->card;

	scoped_guard(mutex, &card->lock)
		hamlyn_listener_close(listener);
	kfree(listener);
	put_device(&card->dev);
	return 0;
}

/* Readable while somebody asks for a connection. */
static __poll_t listener_poll(struct file *filp, poll_table *table)
{
	struct hamlyn_listener *listener = filp->private_data;

	poll_wait(filp, &listener->wait, table);
	if (READ_ONCE(listener->dead))
		return EPOLLERR | EPOLLHUP;
	return READ_ONCE(listener->waiting) ? EPOLLIN | EPOLLRDNORM : 0;
}

static long listener_ioctl(struct file *filp, unsigned int code, unsigned long address)
{
	struct hamlyn_object object;

	if (code != HAMLYN_IOC_NEXT_REQUEST)
		return -ENOTTY;
	if (copy_from_user(&object, (void __user *)address, sizeof(object)))
		return -EFAULT;
	if (memchr_inv(&object, 0, sizeof(object)))
		return -EINVAL;
	return next_request(filp->private_data);
}

static const struct file_operations listener_fops = {
	.owner = THIS_MODULE,
	.release = listener_release,
	.poll = listener_poll,
	.unlocked_ioctl = listener_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static int open_listener(struct hamlyn_file *file, struct hamlyn_listener *listener,
			 const struct hamlyn_listen *listen)
{
	CLASS(hamlyn_entry, entry)(file);

	return entry.error ?: hamlyn_listener_open(listener, listen);
}

int hamlyn_listen(struct hamlyn_file *file, union hamlyn_argument *argument)
{
	const struct hamlyn_listen *listen = &argument->listen;
	struct hamlyn_listener *listener;
	struct file *made;
	int ret;

	if (memchr_inv(listen->reserved, 0, sizeof(listen->reserved)) ||
	    !is_sound(listen->name, listen->name_length, 1, HAMLYN_MAX_NAME) || !listen->backlog ||
	    listen->backlog > HAMLYN_MAX_BACKLOG)
		return -EINVAL;
	listener = kzalloc(sizeof(*listener), GFP_KERNEL_ACCOUNT);
	if (!listener)
		return -ENOMEM;
	listener->card = file->card;
	listener->share = file->share;
	listener->privileged = file->privileged;
	INIT_LIST_HEAD(&listener->requests);
	init_waitqueue_head(&listener->wait);
	ret = open_listener(file, listener, listen);
	if (ret) {
		kfree(listener);
		return ret;
	}
	made = make_file(file->card, "[hamlyn-listener]", &listener_fops, listener);
	if (!IS_ERR(made))
		return give(made);
	scoped_guard(mutex, &file->card->lock)
		hamlyn_listener_close(listener);
	kfree(listener);
	return PTR_ERR(made);
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * The files of connections and listeners. Each has a file of its own, so it can be polled, and the
 * other side is told if its process dies.
 */
#include <linux/anon_inodes.h>
#include <linux/capability.h>
#include <linux/file.h>
#include <linux/memcontrol.h>
#include <linux/uaccess.h>

#include "uln_connect.h"
#include "uln_core.h"

/*
 * Names with these prefixes are for services that the machine's administrator has started, for
 * those of operating systems (channel.c), and for the owners of TCP connections (socketname.c).
 */
#define RESERVED_PREFIX "system/"
#define KERNEL_PREFIX "kernel/"
#define SOCKET_PREFIX "tcp/"

union argument {
	struct uln_object object;
	struct uln_connection_state state;
	struct uln_private private;
};

static bool private_is_sound(const u8 *bytes, u32 length, u32 least, u32 limit)
{
	return length >= least && length <= limit && !memchr_inv(bytes + length, 0, limit - length);
}

/*
 * A file is made first, without the card's lock, as that may wait for memory. Its object comes
 * next, and so always has a file; from then on the file holds the card's structure.
 */
static void file_adopt(struct file *file, struct uln_card *card, void *data)
{
	get_device(&card->dev);
	file->private_data = data;
}

/* Gives a file to the caller. */
static int file_give(struct file *file)
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
	struct uln_connection *connection = filp->private_data;
	struct uln_card *card;

	/* The file never had a connection. */
	if (!connection)
		return 0;
	card = connection->system->card;
	scoped_guard(mutex, &card->lock)
		uln_connection_release(connection);
	put_device(&card->dev);
	return 0;
}

/* Writable once the connection is established, readable once it has ended. */
static __poll_t connection_poll(struct file *filp, poll_table *table)
{
	struct uln_connection *connection = filp->private_data;

	poll_wait(filp, &connection->wait, table);
	switch (READ_ONCE(connection->state)) {
	case ULN_CONNECTION_ESTABLISHED:
		return EPOLLOUT | EPOLLWRNORM;
	case ULN_CONNECTION_ENDED:
		return EPOLLIN | EPOLLRDNORM | EPOLLRDHUP | EPOLLHUP;
	default:
		return 0;
	}
}

static long connection_query(struct uln_connection *connection,
			     struct uln_connection_state *state)
{
	if (memchr_inv(state, 0, sizeof(*state)))
		return -EINVAL;
	CLASS(uln_turn, turn)(connection->system->card, connection->share);
	if (turn.error)
		return turn.error;
	uln_connection_describe(connection, state);
	return 0;
}

static long connection_end_or_answer(struct uln_connection *connection, unsigned int code,
				     const struct uln_private *private)
{
	if (private->reserved ||
	    !private_is_sound(private->data, private->length, 0, ULN_MAX_PRIVATE))
		return -EINVAL;
	CLASS(uln_turn, turn)(connection->system->card, connection->share);
	if (turn.error)
		return turn.error;
	switch (code) {
	case ULN_IOC_ACCEPT:
		return uln_connection_answer(connection, ULN_WIRE_ACCEPT, private);
	case ULN_IOC_REJECT:
		return uln_connection_answer(connection, ULN_WIRE_REJECT, private);
	default:
		return uln_connection_close(connection, ULN_END_CLOSED, private);
	}
}

static long connection_ioctl(struct file *filp, unsigned int code, unsigned long address)
{
	static const unsigned int calls[] = {
		ULN_IOC_CONNECTION_QUERY,
		ULN_IOC_ACCEPT,
		ULN_IOC_REJECT,
		ULN_IOC_CLOSE,
	};
	struct uln_connection *connection = filp->private_data;
	void __user *user = (void __user *)address;
	union argument argument;
	unsigned int i = 0, own;
	long ret;

	while (!uln_is_call(code, calls[i]))
		if (++i == ARRAY_SIZE(calls))
			return -ENOTTY;
	own = calls[i];
	ret = uln_argument_get(&argument, own, user, code);
	if (ret)
		return ret;
	if (own != ULN_IOC_CONNECTION_QUERY)
		return connection_end_or_answer(connection, own, &argument.private);
	return connection_query(connection, &argument.state) ?:
	       uln_argument_put(user, code, &argument, own);
}

static const struct file_operations connection_fops = {
	.owner = THIS_MODULE,
	.release = connection_release,
	.poll = connection_poll,
	.unlocked_ioctl = connection_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct file *connection_file(void)
{
	return anon_inode_getfile("[hamlyn-connection]", &connection_fops, NULL, O_RDWR);
}

static bool name_begins(const u8 *name, u32 length, const char *prefix)
{
	return length >= strlen(prefix) && !memcmp(name, prefix, strlen(prefix));
}

static int connection_request(struct uln_file *file, const struct uln_connect *connect,
			      struct uln_connection *connection)
{
	CLASS(uln_entry, entry)(file);

	return entry.error ?: uln_connection_request(file->card->system, file->share,
						     file->privileged, connect, connection);
}

static int connection_open(struct uln_file *file, const struct uln_connect *connect,
			   bool question)
{
	struct uln_connection *connection;
	struct file *made;
	int ret;

	if (connect->reserved0 || connect->reserved1 ||
	    !private_is_sound(connect->name, connect->name_length, 1, ULN_MAX_NAME) ||
	    !private_is_sound(connect->data, connect->private_length, 0, ULN_MAX_PRIVATE))
		return -EINVAL;
	if (!question && name_begins(connect->name, connect->name_length, KERNEL_PREFIX))
		return -EACCES;
	made = connection_file();
	if (IS_ERR(made))
		return PTR_ERR(made);
	connection = kzalloc(sizeof(*connection), GFP_KERNEL_ACCOUNT);
	if (connection)
		connection->question = question;
	ret = connection ? connection_request(file, connect, connection) : -ENOMEM;
	if (ret) {
		kfree(connection);
		fput(made);
		return ret;
	}
	file_adopt(made, file->card, connection);
	return file_give(made);
}

int uln_connect(struct uln_file *file, void *argument)
{
	return connection_open(file, argument, false);
}

int uln_ask(struct uln_file *file, void *argument)
{
	const struct uln_connect *connect = argument;

	if (connect->private_length)
		return -EINVAL;
	return connection_open(file, connect, true);
}

/* Gives the file the first waiting request. */
static int listener_claim(struct uln_listener *listener, struct file *made)
{
	struct uln_card *card = listener->system->card;
	struct uln_connection *connection;
	int ret;

	CLASS(uln_turn, turn)(card, listener->share);
	if (turn.error)
		return turn.error;
	ret = uln_listener_next(listener, &connection);
	if (!ret)
		file_adopt(made, card, connection);
	return ret;
}

/* A request that is taken has a file and a descriptor: those come first. */
static long listener_next(struct uln_listener *listener)
{
	int fd = get_unused_fd_flags(O_CLOEXEC);
	struct file *made;
	int ret;

	if (fd < 0)
		return fd;
	made = connection_file();
	ret = IS_ERR(made) ? PTR_ERR(made) : listener_claim(listener, made);
	if (!ret) {
		fd_install(fd, made);
		return fd;
	}
	if (!IS_ERR(made))
		fput(made);
	put_unused_fd(fd);
	return ret;
}

static void listener_free(struct uln_listener *listener)
{
	if (listener)
		mem_cgroup_put(listener->memcg);
	kfree(listener);
}

static int listener_release(struct inode *inode, struct file *filp)
{
	struct uln_listener *listener = filp->private_data;
	struct uln_card *card;

	if (!listener)
		return 0;
	card = listener->system->card;
	scoped_guard(mutex, &card->lock)
		uln_listener_close(listener);
	listener_free(listener);
	put_device(&card->dev);
	return 0;
}

/* Readable while there are requests. */
static __poll_t listener_poll(struct file *filp, poll_table *table)
{
	struct uln_listener *listener = filp->private_data;

	poll_wait(filp, &listener->wait, table);
	if (READ_ONCE(listener->dead))
		return EPOLLERR | EPOLLHUP;
	return READ_ONCE(listener->waiting) ? EPOLLIN | EPOLLRDNORM : 0;
}

static long listener_ioctl(struct file *filp, unsigned int code, unsigned long address)
{
	const void __user *user = (const void __user *)address;
	struct uln_object object;
	int ret;

	if (!uln_is_call(code, ULN_IOC_NEXT_REQUEST))
		return -ENOTTY;
	ret = uln_argument_get(&object, ULN_IOC_NEXT_REQUEST, user, code);
	if (ret)
		return ret;
	if (memchr_inv(&object, 0, sizeof(object)))
		return -EINVAL;
	return listener_next(filp->private_data);
}

static const struct file_operations listener_fops = {
	.owner = THIS_MODULE,
	.release = listener_release,
	.poll = listener_poll,
	.unlocked_ioctl = listener_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static int listener_open(struct uln_file *file, struct uln_listener *listener,
			 const struct uln_listen *listen)
{
	CLASS(uln_entry, entry)(file);

	return entry.error ?: uln_listener_open(listener, listen);
}

static struct uln_listener *listener_alloc(struct uln_file *file)
{
	struct uln_listener *listener = kzalloc(sizeof(*listener), GFP_KERNEL_ACCOUNT);

	if (listener) {
		uln_listener_init(listener, file->card->system, file->share, file->privileged);
		listener->memcg = get_mem_cgroup_from_mm(current->mm);
	}
	return listener;
}

static int listen_check(const struct uln_listen *listen)
{
	bool of_socket = name_begins(listen->name, listen->name_length, SOCKET_PREFIX);

	if (listen->reserved0 || listen->reserved1 || (listen->socket && !of_socket) ||
	    !private_is_sound(listen->name, listen->name_length, 1, ULN_MAX_NAME) ||
	    !listen->backlog || listen->backlog > ULN_MAX_BACKLOG)
		return -EINVAL;
	if (name_begins(listen->name, listen->name_length, KERNEL_PREFIX) ||
	    (name_begins(listen->name, listen->name_length, RESERVED_PREFIX) &&
	     !capable(CAP_NET_BIND_SERVICE)))
		return -EACCES;
	return of_socket ? uln_socket_name_check(listen) : 0;
}

int uln_listen(struct uln_file *file, void *argument)
{
	const struct uln_listen *listen = argument;
	struct uln_listener *listener;
	struct file *made;
	int ret = listen_check(listen);

	if (ret)
		return ret;
	made = anon_inode_getfile("[hamlyn-listener]", &listener_fops, NULL, O_RDWR);
	if (IS_ERR(made))
		return PTR_ERR(made);
	listener = listener_alloc(file);
	ret = listener ? listener_open(file, listener, listen) : -ENOMEM;
	if (ret) {
		listener_free(listener);
		fput(made);
		return ret;
	}
	file_adopt(made, file->card, listener);
	return file_give(made);
}

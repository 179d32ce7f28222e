// SPDX-License-Identifier: GPL-2.0-only
/*
 * Channels of the kernel: how they are set up and end (uln_channel.h).
 *
 * A binding asks other hosts whether they have its client. If one does, it requests a connection to
 * it, whose private data is the lane's address at this end; the answer has that of the other end.
 * The channel lives as long as the connection. Both hosts may ask at the same time: then the
 * request of the lower host id counts.
 */
#include "uln_binding.h"

#define NAME_PREFIX "kernel/"
/* Time until a channel that failed is opened again. */
#define AGAIN (1 * HZ)
/* The same for a host that has not answered. */
#define AGAIN_IF_SILENT (30 * HZ)

/* The private data of request and answer. */
struct channel_offer {
	u8 address[ULN_LANE_ADDRESS];
	/* The ring's size, which both ends must have. */
	__le32 size;
};

static int channel_changed(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	uln_binding_look_soon(container_of(entry, struct uln_channel, changed)->binding);
	return 1;
}

static void lane_woken(struct uln_lane *lane)
{
	struct uln_channel *channel = container_of(lane, struct uln_channel, lane);

	if (READ_ONCE(channel->told))
		channel->binding->client->woken(channel);
}

static void lane_broke(struct uln_lane *lane)
{
	uln_binding_look_soon(container_of(lane, struct uln_channel, lane)->binding);
}

static const struct uln_lane_user lane_user = { .woken = lane_woken, .broke = lane_broke };

/* Sets the name under which a client's bindings listen, and returns its length. */
u32 uln_channel_name(const struct uln_client *client, u8 *name)
{
	return snprintf(name, ULN_MAX_NAME, NAME_PREFIX "%s", client->name);
}

/* Creates a channel with a closed lane. */
static struct uln_channel *channel_create(struct uln_binding *binding, u32 host)
{
	struct uln_channel *channel = kzalloc(sizeof(*channel), GFP_KERNEL);

	if (!channel)
		return NULL;
	channel->binding = binding;
	channel->lane.ops = binding->card->ops->lanes;
	channel->lane.user = &lane_user;
	channel->lane.host = host;
	uln_file_init(&channel->lane.file, binding->card);
	channel->lane.file.number = ULN_OWN_NUMBER;
	init_waitqueue_func_entry(&channel->changed, channel_changed);
	binding->channels[host] = channel;
	return channel;
}

/* The card's lock is held. */
static void channel_adopt(struct uln_channel *channel, struct uln_connection *connection)
{
	lockdep_assert_held(&channel->binding->card->lock);
	channel->connection = connection;
	add_wait_queue(&connection->wait, &channel->changed);
}

static void channel_drop_connection(struct uln_channel *channel)
{
	struct uln_connection *connection = channel->connection;

	if (!connection)
		return;
	channel->connection = NULL;
	guard(mutex)(&channel->binding->card->lock);
	remove_wait_queue(&connection->wait, &channel->changed);
	uln_connection_close(connection, ULN_END_CLOSED, NULL);
	uln_connection_release(connection);
}

void uln_channel_end(struct uln_channel *channel, u32 reason)
{
	struct uln_binding *binding = channel->binding;

	binding->channels[channel->lane.host] = NULL;
	if (channel->told) {
		binding->client->ended(channel, reason);
		WRITE_ONCE(channel->told, false);
	}
	channel_drop_connection(channel);
	uln_lane_close(&channel->lane);
	kfree(channel);
}

/* Ends a channel after a failure of this host, and tries again later. */
static void channel_fail(struct uln_channel *channel, const char *what, int error)
{
	struct uln_binding *binding = channel->binding;

	/* Others are told by the connection, or the card is gone. */
	if (error == -ENOMEM || error == -ENOSPC || error == -EPROTO || error == -EPIPE)
		dev_warn_ratelimited(&binding->card->dev, "%s: host %u: %s (%d)\n",
				     binding->client->name, channel->lane.host, what, error);
	uln_channel_end(channel, ULN_END_CLOSED);
	mod_delayed_work(system_highpri_wq, &binding->again, AGAIN);
}

static u32 channel_offer(const struct uln_channel *channel, u8 *data)
{
	struct channel_offer *offer = (struct channel_offer *)data;

	memcpy(offer->address, channel->lane.address, sizeof(offer->address));
	offer->size = cpu_to_le32(channel->binding->client->size);
	return sizeof(*offer);
}

/* Connects the lane to the end that the connection's private data describes. */
static int channel_connect(struct uln_channel *channel)
{
	const struct uln_connection *connection = channel->connection;
	const struct channel_offer *offer = (const struct channel_offer *)connection->data;

	if (connection->length != sizeof(*offer) ||
	    le32_to_cpu(offer->size) != channel->binding->client->size)
		return -EPROTO;
	return channel->lane.ops->connect(&channel->lane, offer->address);
}

static int channel_request(struct uln_channel *channel, bool question)
{
	struct uln_binding *binding = channel->binding;
	struct uln_connect *connect __free(kfree) = kzalloc(sizeof(*connect), GFP_KERNEL);
	struct uln_connection *connection = kzalloc(sizeof(*connection), GFP_KERNEL);
	int ret = -ENOMEM;

	if (connect && connection) {
		connect->host = channel->lane.host;
		connect->name_length = uln_channel_name(binding->client, connect->name);
		connection->question = question;
		if (!question)
			connect->private_length = channel_offer(channel, connect->data);
		guard(mutex)(&binding->card->lock);
		ret = binding->card->live ? uln_connection_request(binding->card->system, NULL,
								   true, connect, connection) :
					    -ENODEV;
		if (!ret) {
			channel_adopt(channel, connection);
			return 0;
		}
	}
	kfree(connection);
	return ret;
}

/* Asks a host whether it has the client. */
void uln_channel_ask(struct uln_binding *binding, u32 host)
{
	struct uln_channel *channel = channel_create(binding, host);

	/* Without a link this fails. The host is asked again when the link comes. */
	if (channel && channel_request(channel, true))
		uln_channel_end(channel, 0);
}

static void channel_ask_for(struct uln_channel *channel)
{
	int ret;

	channel_drop_connection(channel);
	ret = uln_lane_open(&channel->lane, channel->binding->client->size) ?:
	      channel_request(channel, false);
	if (ret)
		channel_fail(channel, "no channel can be opened", ret);
	else
		channel->state = CHANNEL_REQUESTED;
}

static void channel_tell(struct uln_channel *channel)
{
	channel->state = CHANNEL_OPEN;
	WRITE_ONCE(channel->told, true);
	if (!channel->binding->client->opened(channel))
		return;
	WRITE_ONCE(channel->told, false);
	uln_channel_end(channel, ULN_END_CLOSED);
}

/* The other host has accepted. */
static void channel_accepted(struct uln_channel *channel)
{
	int ret = channel_connect(channel);

	if (ret)
		channel_fail(channel, "its end of a channel cannot be used", ret);
	else
		channel_tell(channel);
}

/*
 * Asks the host of a channel that has ended again, unless the host will ask: it has ended the
 * channel, or has not got the client now. A host that stood still asks too, but may do so before
 * this one is there; and one that is silent may be absent for long.
 */
static void channel_look_again(const struct uln_channel *channel, u32 reason)
{
	struct delayed_work *again = &channel->binding->again;

	switch (reason) {
	case ULN_END_CLOSED:
	case ULN_END_NO_NAME:
	case ULN_END_REJECTED:
	case ULN_END_LISTENING:
	case ULN_END_NOT_LISTENING:
		return;
	case ULN_END_HOST_LOST:
		if (channel->state != CHANNEL_OPEN) {
			queue_delayed_work(system_highpri_wq, again, AGAIN_IF_SILENT);
			return;
		}
	}
	mod_delayed_work(system_highpri_wq, again, AGAIN);
}

/* Follows a channel whose connection, or lane, may have changed. */
void uln_channel_follow(struct uln_channel *channel)
{
	u32 state = READ_ONCE(channel->connection->state), reason = channel->connection->reason;

	if (state == ULN_CONNECTION_ENDED) {
		channel_look_again(channel, reason);
		if (channel->state == CHANNEL_ASKING && reason == ULN_END_LISTENING)
			channel_ask_for(channel);
		else
			uln_channel_end(channel, reason);
	} else if (READ_ONCE(channel->lane.broken)) {
		channel_fail(channel, "the channel is broken", -EPIPE);
	} else if (channel->state == CHANNEL_REQUESTED && state == ULN_CONNECTION_ESTABLISHED) {
		channel_accepted(channel);
	}
}

/*
 * Returns whether to take a request of a host. An open channel keeps it off, and so does this
 * host's own request if that counts; then the other host takes that.
 */
static bool channel_makes_way(struct uln_binding *binding, u32 host)
{
	struct uln_channel *channel = binding->channels[host];

	if (!channel)
		return true;
	/* The other host may have ended it, and at once request another. */
	if (READ_ONCE(channel->connection->state) != ULN_CONNECTION_ENDED &&
	    (channel->state == CHANNEL_OPEN ||
	     (channel->state == CHANNEL_REQUESTED && binding->host < host)))
		return false;
	uln_channel_end(channel, channel->connection->reason);
	return true;
}

static int channel_accept(struct uln_channel *channel)
{
	struct uln_private private = {};
	struct uln_card *card = channel->binding->card;
	int ret;

	ret = uln_lane_open(&channel->lane, channel->binding->client->size) ?:
	      channel_connect(channel);
	if (ret)
		return ret;
	private.length = channel_offer(channel, private.data);
	guard(mutex)(&card->lock);
	return uln_connection_answer(channel->connection, ULN_WIRE_ACCEPT, &private);
}

/* Takes a request, or rejects it. A process of the other host cannot make one (user is 0). */
void uln_channel_take(struct uln_binding *binding, struct uln_connection *connection)
{
	u32 host = connection->peer->host;
	struct uln_channel *channel = NULL;
	int ret;

	if (!connection->user && channel_makes_way(binding, host))
		channel = channel_create(binding, host);
	scoped_guard(mutex, &binding->card->lock) {
		if (!channel) {
			uln_connection_release(connection);
			return;
		}
		channel_adopt(channel, connection);
	}
	ret = channel_accept(channel);
	if (!ret)
		channel_tell(channel);
	else
		channel_fail(channel, "its request cannot be met", ret);
}

struct uln_binding *uln_channel_binding(const struct uln_channel *channel)
{
	return channel->binding;
}
EXPORT_SYMBOL_GPL(uln_channel_binding);

u32 uln_channel_host(const struct uln_channel *channel)
{
	return channel->lane.host;
}
EXPORT_SYMBOL_GPL(uln_channel_host);

u32 uln_channel_longest(const struct uln_channel *channel)
{
	return uln_lane_longest(&channel->lane);
}
EXPORT_SYMBOL_GPL(uln_channel_longest);

void *uln_channel_reserve(struct uln_channel *channel, u32 length)
{
	return uln_lane_reserve(&channel->lane, length);
}
EXPORT_SYMBOL_GPL(uln_channel_reserve);

void uln_channel_commit(struct uln_channel *channel, u32 length)
{
	uln_lane_commit(&channel->lane, length);
}
EXPORT_SYMBOL_GPL(uln_channel_commit);

bool uln_channel_flush(struct uln_channel *channel)
{
	return uln_lane_flush(&channel->lane);
}
EXPORT_SYMBOL_GPL(uln_channel_flush);

const void *uln_channel_next(struct uln_channel *channel, u32 *length)
{
	return uln_lane_next(&channel->lane, length);
}
EXPORT_SYMBOL_GPL(uln_channel_next);

void uln_channel_release(struct uln_channel *channel)
{
	uln_lane_release(&channel->lane);
}
EXPORT_SYMBOL_GPL(uln_channel_release);

bool uln_channel_arm(struct uln_channel *channel)
{
	return uln_lane_arm(&channel->lane);
}
EXPORT_SYMBOL_GPL(uln_channel_arm);

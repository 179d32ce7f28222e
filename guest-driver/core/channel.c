// SPDX-License-Identifier: GPL-2.0-only
/*
 * Channels of the kernel: how they are set up and end (uln_channel.h).
 *
 * A service listens under its client's name, and asks other hosts whether they do. If one does, it
 * requests a connection to it, whose private data is the lane's address at this end; the answer has
 * that of the other end. The channel lives as long as the connection. Both hosts may ask at the
 * same time: then the request of the lower host id counts.
 *
 * A service's lock guards it and all of its channels' states. Above it is the lock of the clients,
 * below it the card's lock. Callers of the data functions need none of them.
 */
#include <linux/module.h>

#include "uln_channel.h"
#include "uln_connect.h"
#include "uln_core.h"
#include "uln_lane.h"

#define NAME_PREFIX "kernel/"
#define NAME_MOST 32
/* Requests that may wait: each host has one. */
#define BACKLOG ULN_WELL_KNOWN_SLOTS
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

enum channel_state {
	/* It is unknown whether the other host has the client. */
	CHANNEL_ASKING,
	/* The other host has been requested to open it. */
	CHANNEL_REQUESTED,
	CHANNEL_OPEN,
};

struct uln_channel {
	struct uln_lane lane;
	struct uln_service *service;
	enum channel_state state;
	/* The client may be told of events. */
	bool told;
	struct uln_connection *connection;
	/* On the connection's wait queue. */
	struct wait_queue_entry changed;
};

struct uln_service {
	struct uln_client *client;
	struct uln_card *card;
	void *data;
	struct list_head on_card;
	struct work_struct look;
	/* The same, after a failure. */
	struct delayed_work again;
	/* Serialises starts and stops. Above the lock; the client may hold the RTNL above it. */
	struct mutex switching;
	struct mutex lock;
	/* The client wants channels, and the card can have them. */
	bool begun;
	bool ready;
	/* Both, and it listens. */
	bool running;
	struct uln_listener listener;
	/* On the listener's wait queue. */
	struct wait_queue_entry requested;
	/* The link as the client knows it, and its number of changes then. */
	bool link;
	u32 link_changes;
	u32 host;
	struct uln_channel *channels[ULN_WELL_KNOWN_SLOTS];
};

/* Guards both lists, and that no card or client comes or goes meanwhile. */
static DEFINE_MUTEX(clients_lock);
static LIST_HEAD(clients);
static LIST_HEAD(cards);

static void service_look_soon(struct uln_service *service)
{
	queue_work(system_highpri_wq, &service->look);
}

static int channel_changed(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	service_look_soon(container_of(entry, struct uln_channel, changed)->service);
	return 1;
}

static int service_requested(struct wait_queue_entry *entry, unsigned int mode, int flags,
			     void *key)
{
	service_look_soon(container_of(entry, struct uln_service, requested));
	return 1;
}

static void lane_woken(struct uln_lane *lane)
{
	struct uln_channel *channel = container_of(lane, struct uln_channel, lane);

	if (READ_ONCE(channel->told))
		channel->service->client->woken(channel);
}

static void lane_broke(struct uln_lane *lane)
{
	service_look_soon(container_of(lane, struct uln_channel, lane)->service);
}

static const struct uln_lane_user lane_user = { .woken = lane_woken, .broke = lane_broke };

static u32 service_name(const struct uln_service *service, u8 *name)
{
	return snprintf(name, ULN_MAX_NAME, NAME_PREFIX "%s", service->client->name);
}

/* Creates a channel whose lane is not open yet. */
static struct uln_channel *channel_create(struct uln_service *service, u32 host)
{
	struct uln_channel *channel = kzalloc(sizeof(*channel), GFP_KERNEL);

	if (!channel)
		return NULL;
	channel->service = service;
	channel->lane.ops = service->card->ops->lanes;
	channel->lane.user = &lane_user;
	channel->lane.host = host;
	uln_file_init(&channel->lane.file, service->card);
	channel->lane.file.number = ULN_OWN_NUMBER;
	init_waitqueue_func_entry(&channel->changed, channel_changed);
	service->channels[host] = channel;
	return channel;
}

/* The card's lock is held. */
static void channel_adopt(struct uln_channel *channel, struct uln_connection *connection)
{
	lockdep_assert_held(&channel->service->card->lock);
	channel->connection = connection;
	add_wait_queue(&connection->wait, &channel->changed);
}

static void channel_drop_connection(struct uln_channel *channel)
{
	struct uln_connection *connection = channel->connection;

	if (!connection)
		return;
	channel->connection = NULL;
	guard(mutex)(&channel->service->card->lock);
	remove_wait_queue(&connection->wait, &channel->changed);
	uln_connection_close(connection, ULN_END_CLOSED, NULL);
	uln_connection_release(connection);
}

static void channel_end(struct uln_channel *channel, u32 reason)
{
	struct uln_service *service = channel->service;

	service->channels[channel->lane.host] = NULL;
	if (channel->told) {
		service->client->ended(channel, reason);
		WRITE_ONCE(channel->told, false);
	}
	channel_drop_connection(channel);
	uln_lane_close(&channel->lane);
	kfree(channel);
}

/* Ends a channel after a failure of this host, and tries again later. */
static void channel_fail(struct uln_channel *channel, const char *what, int error)
{
	struct uln_service *service = channel->service;

	/* Others are told by the connection, or the card is gone. */
	if (error == -ENOMEM || error == -ENOSPC || error == -EPROTO || error == -EPIPE)
		dev_warn_ratelimited(&service->card->dev, "%s: host %u: %s (%d)\n",
				     service->client->name, channel->lane.host, what, error);
	channel_end(channel, ULN_END_CLOSED);
	mod_delayed_work(system_highpri_wq, &service->again, AGAIN);
}

static u32 channel_offer(const struct uln_channel *channel, u8 *data)
{
	struct channel_offer *offer = (struct channel_offer *)data;

	memcpy(offer->address, channel->lane.address, sizeof(offer->address));
	offer->size = cpu_to_le32(channel->service->client->size);
	return sizeof(*offer);
}

/* Connects the lane to the end that the connection's private data describes. */
static int channel_connect(struct uln_channel *channel)
{
	const struct uln_connection *connection = channel->connection;
	const struct channel_offer *offer = (const struct channel_offer *)connection->data;

	if (connection->length != sizeof(*offer) ||
	    le32_to_cpu(offer->size) != channel->service->client->size)
		return -EPROTO;
	return channel->lane.ops->connect(&channel->lane, offer->address);
}

static int channel_request(struct uln_channel *channel, bool question)
{
	struct uln_service *service = channel->service;
	struct uln_connect *connect __free(kfree) = kzalloc(sizeof(*connect), GFP_KERNEL);
	struct uln_connection *connection = kzalloc(sizeof(*connection), GFP_KERNEL);
	int ret = -ENOMEM;

	if (connect && connection) {
		connect->host = channel->lane.host;
		connect->name_length = service_name(service, connect->name);
		connection->question = question;
		if (!question)
			connect->private_length = channel_offer(channel, connect->data);
		guard(mutex)(&service->card->lock);
		ret = service->card->live ? uln_connection_request(service->card->system, NULL,
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
static void service_ask(struct uln_service *service, u32 host)
{
	struct uln_channel *channel = channel_create(service, host);

	/* A link that is down ends all that; it is asked again when the link comes. */
	if (channel && channel_request(channel, true))
		channel_end(channel, 0);
}

static void channel_ask_for(struct uln_channel *channel)
{
	int ret;

	channel_drop_connection(channel);
	ret = uln_lane_open(&channel->lane, channel->service->client->size) ?:
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
	if (!channel->service->client->opened(channel))
		return;
	WRITE_ONCE(channel->told, false);
	channel_end(channel, ULN_END_CLOSED);
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
	struct delayed_work *again = &channel->service->again;

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
static void channel_follow(struct uln_channel *channel)
{
	u32 state = READ_ONCE(channel->connection->state), reason = channel->connection->reason;

	if (state == ULN_CONNECTION_ENDED) {
		channel_look_again(channel, reason);
		if (channel->state == CHANNEL_ASKING && reason == ULN_END_LISTENING)
			channel_ask_for(channel);
		else
			channel_end(channel, reason);
	} else if (READ_ONCE(channel->lane.broken)) {
		channel_fail(channel, "the channel is broken", -EPIPE);
	} else if (channel->state == CHANNEL_REQUESTED && state == ULN_CONNECTION_ESTABLISHED) {
		channel_accepted(channel);
	}
}

static void service_follow(struct uln_service *service)
{
	unsigned int host;

	for (host = 0; host < ULN_WELL_KNOWN_SLOTS; host++)
		if (service->channels[host])
			channel_follow(service->channels[host]);
}

/*
 * Returns whether a request of a host is taken. It is not if there is a channel, or if this host's
 * own request counts; then the other host takes that.
 */
static bool service_makes_way(struct uln_service *service, u32 host)
{
	struct uln_channel *channel = service->channels[host];

	if (!channel)
		return true;
	/* The other host may have ended it, and at once request another. */
	if (READ_ONCE(channel->connection->state) != ULN_CONNECTION_ENDED &&
	    (channel->state == CHANNEL_OPEN ||
	     (channel->state == CHANNEL_REQUESTED && service->host < host)))
		return false;
	channel_end(channel, channel->connection->reason);
	return true;
}

static int channel_accept(struct uln_channel *channel)
{
	struct uln_private private = {};
	struct uln_card *card = channel->service->card;
	int ret;

	ret = uln_lane_open(&channel->lane, channel->service->client->size) ?:
	      channel_connect(channel);
	if (ret)
		return ret;
	private.length = channel_offer(channel, private.data);
	guard(mutex)(&card->lock);
	return uln_connection_answer(channel->connection, ULN_WIRE_ACCEPT, &private);
}

/* Takes a request, or rejects it. A process of the other host cannot make one (user is 0). */
static void service_take(struct uln_service *service, struct uln_connection *connection)
{
	u32 host = connection->peer->host;
	struct uln_channel *channel = NULL;
	int ret;

	if (!connection->user && service_makes_way(service, host))
		channel = channel_create(service, host);
	scoped_guard(mutex, &service->card->lock) {
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

static struct uln_connection *service_next_request(struct uln_service *service)
{
	struct uln_connection *connection;

	guard(mutex)(&service->card->lock);
	return uln_listener_next(&service->listener, &connection) ? NULL : connection;
}

/* Asks all hosts with which there is no channel. */
static void service_ask_all(struct uln_service *service)
{
	u32 host;

	for (host = 0; host < ULN_WELL_KNOWN_SLOTS; host++)
		if (service->link && host != service->host && !service->channels[host] &&
		    uln_system_has_host(service->card->system, host))
			service_ask(service, host);
}

/* Tells the client of the link, if it has changed; true: it is up, again or since now. */
static bool service_follow_link(struct uln_service *service)
{
	struct uln_card *card = service->card;
	bool link, changed;

	scoped_guard(mutex, &card->lock) {
		link = card->live && card->link;
		changed = link != service->link || card->link_changes != service->link_changes ||
			  (link && card->host != service->host);
		service->link = link;
		service->link_changes = card->link_changes;
		service->host = card->host;
	}
	if (changed)
		service->client->link(service, link, service->host);
	return changed && link;
}

static void service_look(struct uln_service *service, bool again)
{
	struct uln_connection *connection;
	unsigned int left;

	guard(mutex)(&service->lock);
	if (!service->running)
		return;
	/* First: a link that was down has ended connections that service_follow() sees then. */
	again |= service_follow_link(service);
	service_follow(service);
	for (left = BACKLOG; left && (connection = service_next_request(service)); left--)
		service_take(service, connection);
	/* Others wait for the lock. */
	if (!left)
		service_look_soon(service);
	if (again)
		service_ask_all(service);
}

static void service_work(struct work_struct *work)
{
	service_look(container_of(work, struct uln_service, look), false);
}

static void service_again(struct work_struct *work)
{
	service_look(container_of(to_delayed_work(work), struct uln_service, again), true);
}

static int service_listen(struct uln_service *service)
{
	struct uln_listen listen = { .backlog = BACKLOG };
	struct uln_system *system = service->card->system;

	listen.name_length = service_name(service, listen.name);
	guard(mutex)(&service->card->lock);
	memset(&service->listener, 0, sizeof(service->listener));
	uln_listener_init(&service->listener, system, NULL, true);
	add_wait_queue(&service->listener.wait, &service->requested);
	return uln_listener_open(&service->listener, &listen);
}

/* Starts or stops the service, as client and card want. */
static void service_update(struct uln_service *service)
{
	unsigned int host;
	bool run;

	guard(mutex)(&service->switching);
	scoped_guard(mutex, &service->lock) {
		run = READ_ONCE(service->begun) && READ_ONCE(service->ready);
		if (run == service->running)
			return;
		if (run) {
			service->running = !service_listen(service);
			service->link = false;
			service->link_changes = 0;
			service_look_soon(service);
			return;
		}
		service->running = false;
	}
	cancel_work_sync(&service->look);
	cancel_delayed_work_sync(&service->again);
	guard(mutex)(&service->lock);
	for (host = 0; host < ULN_WELL_KNOWN_SLOTS; host++)
		if (service->channels[host])
			channel_end(service->channels[host], ULN_END_CLOSED);
	scoped_guard(mutex, &service->card->lock)
		uln_listener_close(&service->listener);
	if (service->link)
		service->client->link(service, false, service->host);
	service->link = false;
}

void uln_service_begin(struct uln_service *service)
{
	WRITE_ONCE(service->begun, true);
	service_update(service);
}
EXPORT_SYMBOL_GPL(uln_service_begin);

void uln_service_end(struct uln_service *service)
{
	WRITE_ONCE(service->begun, false);
	service_update(service);
}
EXPORT_SYMBOL_GPL(uln_service_end);

/* Until it is off the list, the link may have its work started, whether it runs or not. */
static void service_delete(struct uln_service *service)
{
	scoped_guard(mutex, &service->card->lock)
		list_del(&service->on_card);
	cancel_work_sync(&service->look);
	cancel_delayed_work_sync(&service->again);
	kfree(service);
}

static void service_free(struct uln_service *service)
{
	uln_service_end(service);
	service->client->remove(service);
	service_delete(service);
}

static void service_create(struct uln_client *client, struct uln_card *card)
{
	struct uln_service *service = kzalloc(sizeof(*service), GFP_KERNEL);

	lockdep_assert_held(&clients_lock);
	if (!service)
		return;
	service->client = client;
	service->card = card;
	service->ready = card->serves;
	mutex_init(&service->switching);
	mutex_init(&service->lock);
	INIT_WORK(&service->look, service_work);
	INIT_DELAYED_WORK(&service->again, service_again);
	init_waitqueue_func_entry(&service->requested, service_requested);
	scoped_guard(mutex, &card->lock)
		list_add_tail(&service->on_card, &card->services);
	if (client->add(service))
		service_delete(service);
}

int uln_client_register(struct uln_client *client)
{
	struct uln_card *card;

	if (strlen(client->name) > NAME_MOST || !is_power_of_2(client->size) ||
	    client->size < ULN_CHANNEL_LEAST || client->size > ULN_CHANNEL_MOST)
		return -EINVAL;
	guard(mutex)(&clients_lock);
	list_add_tail(&client->on_clients, &clients);
	list_for_each_entry(card, &cards, on_cards)
		service_create(client, card);
	return 0;
}
EXPORT_SYMBOL_GPL(uln_client_register);

void uln_client_unregister(struct uln_client *client)
{
	struct uln_service *service, *next;
	struct uln_card *card;

	guard(mutex)(&clients_lock);
	list_del(&client->on_clients);
	list_for_each_entry(card, &cards, on_cards)
		list_for_each_entry_safe(service, next, &card->services, on_card)
			if (service->client == client)
				service_free(service);
}
EXPORT_SYMBOL_GPL(uln_client_unregister);

/* Called once a card can be used. */
void uln_services_add(struct uln_card *card)
{
	struct uln_client *client;

	if (!card->ops->lanes)
		return;
	guard(mutex)(&clients_lock);
	card->serves = true;
	list_add_tail(&card->on_cards, &cards);
	list_for_each_entry(client, &clients, on_clients)
		service_create(client, card);
}

/* Called before a card goes. */
void uln_services_remove(struct uln_card *card)
{
	struct uln_service *service, *next;

	guard(mutex)(&clients_lock);
	list_for_each_entry_safe(service, next, &card->services, on_card)
		service_free(service);
	list_del_init(&card->on_cards);
}

static void services_update(struct uln_card *card, bool ready)
{
	struct uln_service *service;

	guard(mutex)(&clients_lock);
	card->serves = ready;
	list_for_each_entry(service, &card->services, on_card) {
		WRITE_ONCE(service->ready, ready);
		service_update(service);
	}
}

/* Called before a card stops: on return nothing of its services is left on it. */
void uln_services_pause(struct uln_card *card)
{
	services_update(card, false);
}

void uln_services_resume(struct uln_card *card)
{
	services_update(card, true);
}

/* The link may have changed; the card's lock is held. */
void uln_services_look(struct uln_card *card)
{
	struct uln_service *service;

	lockdep_assert_held(&card->lock);
	list_for_each_entry(service, &card->services, on_card)
		service_look_soon(service);
}

struct device *uln_service_device(const struct uln_service *service)
{
	return &service->card->pdev->dev;
}
EXPORT_SYMBOL_GPL(uln_service_device);

const char *uln_service_model(const struct uln_service *service)
{
	return service->card->ops->name;
}
EXPORT_SYMBOL_GPL(uln_service_model);

u32 uln_service_host(const struct uln_service *service)
{
	return READ_ONCE(service->card->host);
}
EXPORT_SYMBOL_GPL(uln_service_host);

u32 uln_service_hosts(const struct uln_service *service)
{
	return uln_system_hosts(service->card->system);
}
EXPORT_SYMBOL_GPL(uln_service_hosts);

void uln_service_set_data(struct uln_service *service, void *data)
{
	service->data = data;
}
EXPORT_SYMBOL_GPL(uln_service_set_data);

void *uln_service_data(const struct uln_service *service)
{
	return service->data;
}
EXPORT_SYMBOL_GPL(uln_service_data);

struct uln_service *uln_channel_service(const struct uln_channel *channel)
{
	return channel->service;
}
EXPORT_SYMBOL_GPL(uln_channel_service);

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

// SPDX-License-Identifier: GPL-2.0-only
/*
 * What clients in the kernel have on each card (uln_channel.h). A binding listens under its
 * client's name, and has a channel with each other host that does.
 *
 * A binding's lock guards it and all of its channels' states. Above it is the lock of the clients,
 * below it the card's lock. Callers of the channels' data functions need none of them.
 */
#include "uln_binding.h"

#define NAME_MOST 32
/* Requests that may wait: each host has one. */
#define BACKLOG ULN_WELL_KNOWN_SLOTS

/* Guards both lists and the cards' bindings, and that no card or client comes or goes meanwhile. */
static DEFINE_MUTEX(clients_lock);
static LIST_HEAD(clients);
static LIST_HEAD(cards);

static int binding_requested(struct wait_queue_entry *entry, unsigned int mode, int flags,
			     void *key)
{
	uln_binding_look_soon(container_of(entry, struct uln_binding, requested));
	return 1;
}

static int binding_linked(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	uln_binding_look_soon(container_of(entry, struct uln_binding, linked));
	return 1;
}

static void binding_follow(struct uln_binding *binding)
{
	unsigned int host;

	for (host = 0; host < ULN_WELL_KNOWN_SLOTS; host++)
		if (binding->channels[host])
			uln_channel_follow(binding->channels[host]);
}

static struct uln_connection *binding_next_request(struct uln_binding *binding)
{
	struct uln_connection *connection;

	guard(mutex)(&binding->card->lock);
	return uln_listener_next(&binding->listener, &connection) ? NULL : connection;
}

/* Asks each host without a channel. */
static void binding_ask_all(struct uln_binding *binding)
{
	u32 host;

	for (host = 0; host < ULN_WELL_KNOWN_SLOTS; host++)
		if (binding->link && host != binding->host && !binding->channels[host] &&
		    uln_system_has_host(binding->card->system, host))
			uln_channel_ask(binding, host);
}

/* Tells the client of the link, if it has changed; true: it is up, again or since now. */
static bool binding_follow_link(struct uln_binding *binding)
{
	struct uln_card *card = binding->card;
	bool link, changed;

	scoped_guard(mutex, &card->lock) {
		link = card->live && card->link;
		changed = link != binding->link || card->link_changes != binding->link_changes ||
			  (link && card->host != binding->host);
		binding->link = link;
		binding->link_changes = card->link_changes;
		binding->host = card->host;
	}
	if (changed)
		binding->client->link(binding, link, binding->host);
	return changed && link;
}

static void binding_look(struct uln_binding *binding, bool again)
{
	struct uln_connection *connection;
	unsigned int left;

	guard(mutex)(&binding->lock);
	if (!binding->running)
		return;
	/* First: a link that was down has ended connections that binding_follow() sees then. */
	again |= binding_follow_link(binding);
	binding_follow(binding);
	for (left = BACKLOG; left && (connection = binding_next_request(binding)); left--)
		uln_channel_take(binding, connection);
	/* Others wait for the lock. */
	if (!left)
		uln_binding_look_soon(binding);
	if (again)
		binding_ask_all(binding);
}

static void binding_work(struct work_struct *work)
{
	binding_look(container_of(work, struct uln_binding, look), false);
}

static void binding_again(struct work_struct *work)
{
	binding_look(container_of(to_delayed_work(work), struct uln_binding, again), true);
}

static int binding_listen(struct uln_binding *binding)
{
	struct uln_listen listen = { .backlog = BACKLOG };
	struct uln_system *system = binding->card->system;

	listen.name_length = uln_channel_name(binding->client, listen.name);
	guard(mutex)(&binding->card->lock);
	memset(&binding->listener, 0, sizeof(binding->listener));
	uln_listener_init(&binding->listener, system, NULL, true);
	add_wait_queue(&binding->listener.wait, &binding->requested);
	return uln_listener_open(&binding->listener, &listen);
}

/* Starts or stops the binding, as client and card want. */
static void binding_update(struct uln_binding *binding)
{
	unsigned int host;
	bool run;

	guard(mutex)(&binding->switching);
	scoped_guard(mutex, &binding->lock) {
		run = READ_ONCE(binding->begun) && READ_ONCE(binding->ready);
		if (run == binding->running)
			return;
		if (run) {
			binding->running = !binding_listen(binding);
			binding->link = false;
			binding->link_changes = 0;
			uln_binding_look_soon(binding);
			return;
		}
		binding->running = false;
	}
	cancel_work_sync(&binding->look);
	cancel_delayed_work_sync(&binding->again);
	guard(mutex)(&binding->lock);
	for (host = 0; host < ULN_WELL_KNOWN_SLOTS; host++)
		if (binding->channels[host])
			uln_channel_end(binding->channels[host], ULN_END_CLOSED);
	scoped_guard(mutex, &binding->card->lock)
		uln_listener_close(&binding->listener);
	if (binding->link)
		binding->client->link(binding, false, binding->host);
	binding->link = false;
}

void uln_binding_begin(struct uln_binding *binding)
{
	WRITE_ONCE(binding->begun, true);
	binding_update(binding);
}
EXPORT_SYMBOL_GPL(uln_binding_begin);

void uln_binding_end(struct uln_binding *binding)
{
	WRITE_ONCE(binding->begun, false);
	binding_update(binding);
}
EXPORT_SYMBOL_GPL(uln_binding_end);

/* Until it waits no more, the link may have its work started, whether it runs or not. */
static void binding_delete(struct uln_binding *binding)
{
	remove_wait_queue(&binding->card->link_changed, &binding->linked);
	list_del(&binding->on_card);
	cancel_work_sync(&binding->look);
	cancel_delayed_work_sync(&binding->again);
	kfree(binding);
}

static void binding_free(struct uln_binding *binding)
{
	uln_binding_end(binding);
	binding->client->remove(binding);
	binding_delete(binding);
}

static void binding_create(struct uln_client *client, struct uln_card *card)
{
	struct uln_binding *binding = kzalloc(sizeof(*binding), GFP_KERNEL);

	lockdep_assert_held(&clients_lock);
	if (!binding)
		return;
	binding->client = client;
	binding->card = card;
	binding->ready = card->serves;
	mutex_init(&binding->switching);
	mutex_init(&binding->lock);
	INIT_WORK(&binding->look, binding_work);
	INIT_DELAYED_WORK(&binding->again, binding_again);
	init_waitqueue_func_entry(&binding->requested, binding_requested);
	init_waitqueue_func_entry(&binding->linked, binding_linked);
	list_add_tail(&binding->on_card, &card->bindings);
	add_wait_queue(&card->link_changed, &binding->linked);
	if (client->add(binding))
		binding_delete(binding);
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
		binding_create(client, card);
	return 0;
}
EXPORT_SYMBOL_GPL(uln_client_register);

void uln_client_unregister(struct uln_client *client)
{
	struct uln_binding *binding, *next;
	struct uln_card *card;

	guard(mutex)(&clients_lock);
	list_del(&client->on_clients);
	list_for_each_entry(card, &cards, on_cards)
		list_for_each_entry_safe(binding, next, &card->bindings, on_card)
			if (binding->client == client)
				binding_free(binding);
}
EXPORT_SYMBOL_GPL(uln_client_unregister);

/* Called once a card can be used. */
void uln_bindings_add(struct uln_card *card)
{
	struct uln_client *client;

	if (!card->ops->lanes)
		return;
	guard(mutex)(&clients_lock);
	card->serves = true;
	list_add_tail(&card->on_cards, &cards);
	list_for_each_entry(client, &clients, on_clients)
		binding_create(client, card);
}

/* Called before a card goes. */
void uln_bindings_remove(struct uln_card *card)
{
	struct uln_binding *binding, *next;

	guard(mutex)(&clients_lock);
	list_for_each_entry_safe(binding, next, &card->bindings, on_card)
		binding_free(binding);
	list_del_init(&card->on_cards);
}

static void bindings_update(struct uln_card *card, bool ready)
{
	struct uln_binding *binding;

	guard(mutex)(&clients_lock);
	card->serves = ready;
	list_for_each_entry(binding, &card->bindings, on_card) {
		WRITE_ONCE(binding->ready, ready);
		binding_update(binding);
	}
}

/* Called before a card stops: on return nothing of its bindings is left on it. */
void uln_bindings_pause(struct uln_card *card)
{
	bindings_update(card, false);
}

void uln_bindings_resume(struct uln_card *card)
{
	bindings_update(card, true);
}

struct device *uln_binding_device(const struct uln_binding *binding)
{
	return &binding->card->pdev->dev;
}
EXPORT_SYMBOL_GPL(uln_binding_device);

const char *uln_binding_model(const struct uln_binding *binding)
{
	return binding->card->ops->name;
}
EXPORT_SYMBOL_GPL(uln_binding_model);

u32 uln_binding_host(const struct uln_binding *binding)
{
	return READ_ONCE(binding->card->host);
}
EXPORT_SYMBOL_GPL(uln_binding_host);

u32 uln_binding_hosts(const struct uln_binding *binding)
{
	return uln_system_hosts(binding->card->system);
}
EXPORT_SYMBOL_GPL(uln_binding_hosts);

void uln_binding_set_data(struct uln_binding *binding, void *data)
{
	binding->data = data;
}
EXPORT_SYMBOL_GPL(uln_binding_set_data);

void *uln_binding_data(const struct uln_binding *binding)
{
	return binding->data;
}
EXPORT_SYMBOL_GPL(uln_binding_data);


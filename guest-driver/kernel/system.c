// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/*
 * This operating system as others see it through one card: its start and end, and the handling of
 * what arrives.
 */
#include <linux/cleanup.h>
#include <linux/nospec.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "hamlyn_peer.h"

/* Messages handled in a row, with the card's lock held. */
#define SYSTEM_BATCH 256

/* Takes what has arrived, and acknowledges it to the senders. */
static void system_look(struct work_struct *work)
{
	struct hamlyn_system *system = container_of(work, struct hamlyn_system, look);
	struct peer_transport *transport;
	unsigned int left = SYSTEM_BATCH, i;
	u32 host, entry;

	guard(mutex)(system->lock);
	if (!system->open)
		return;
	transport = system->transport;
	if (xchg(&system->lapsed, false))
		hamlyn_system_lost(system, HAMLYN_END_LAPSED);
	do {
		while (left && transport->ops->take(transport, &host, &entry)) {
			hamlyn_peer_arrived(&system->peers[host], entry);
			left--;
		}
	} while (left && transport->ops->more(transport));
	for (i = 0; i < ARRAY_SIZE(system->peers); i++)
		hamlyn_peer_answer(&system->peers[i]);
	/* Other threads need the lock, too. */
	if (!left)
		queue_work(system_highpri_wq, &system->look);
}

void hamlyn_system_arrived(struct hamlyn_system *system)
{
	queue_work(system_highpri_wq, &system->look);
}

void hamlyn_system_lapsed(struct hamlyn_system *system)
{
	WRITE_ONCE(system->lapsed, true);
	queue_work(system_highpri_wq, &system->look);
}

/* Never 0, which means unknown. */
static u32 system_make_origin(void)
{
	return get_random_u32() | 1;
}

void hamlyn_system_reborn(struct hamlyn_system *system)
{
	lockdep_assert_held(system->lock);
	system->origin = system_make_origin();
}

struct hamlyn_system *hamlyn_system_create(struct hamlyn_card *card, struct mutex *lock, int number)
{
	struct hamlyn_system *system = kzalloc(sizeof(*system), GFP_KERNEL);
	unsigned int i;

	if (!system)
		return NULL;
	system->card = card;
	system->lock = lock;
	system->number = number;
	system->origin = system_make_origin();
	INIT_WORK(&system->look, system_look);
	INIT_DELAYED_WORK(&system->tick, hamlyn_peers_tick);
	INIT_LIST_HEAD(&system->services);
	for (i = 0; i < ARRAY_SIZE(system->peers); i++)
		hamlyn_peer_init(system, i);
	return system;
}

void hamlyn_system_cancel(struct hamlyn_system *system)
{
	cancel_work_sync(&system->look);
	cancel_delayed_work_sync(&system->tick);
}

void hamlyn_system_free(struct hamlyn_system *system)
{
	struct peer_service *service, *next;

	if (!system)
		return;
	list_for_each_entry_safe(service, next, &system->services, on_system)
		if (service->ops->free)
			service->ops->free(service);
	kfree(system);
}

void hamlyn_system_open(struct hamlyn_system *system, struct peer_transport *transport)
{
	unsigned int i;

	lockdep_assert_held(system->lock);
	system->transport = transport;
	WRITE_ONCE(system->lapsed, false);
	for (i = 0; i < ARRAY_SIZE(system->peers); i++)
		hamlyn_peer_open(&system->peers[i]);
	system->open = true;
	queue_work(system_highpri_wq, &system->look);
}

void hamlyn_system_lost(struct hamlyn_system *system, u32 reason)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(system->peers); i++)
		hamlyn_peer_lost(&system->peers[i], reason);
}

void hamlyn_system_stop(struct hamlyn_system *system)
{
	struct peer_service *service;

	system->open = false;
	hamlyn_system_lost(system, HAMLYN_END_CARD_RESET);
	list_for_each_entry(service, &system->services, on_system)
		if (service->ops->stop)
			service->ops->stop(service);
}

int hamlyn_system_say_for(struct hamlyn_system *system, struct hamlyn_share *share, u32 host,
			  const struct hamlyn_wire *wire, const void *data)
{
	struct hamlyn_wire own = *wire;

	lockdep_assert_held(system->lock);
	own.kind = HAMLYN_WIRE_CARD;
	if (!system->open)
		return -EOPNOTSUPP;
	if (!hamlyn_system_has_host(system, host))
		return -EHOSTUNREACH;
	if (wire->private_length > HAMLYN_MAX_PRIVATE)
		return -EMSGSIZE;
	return hamlyn_peer_say(&system->peers[array_index_nospec(host, ARRAY_SIZE(system->peers))],
			       share, &own, data);
}

int hamlyn_system_say(struct hamlyn_system *system, u32 host, const struct hamlyn_wire *wire,
		      const void *data)
{
	return hamlyn_system_say_for(system, NULL, host, wire, data);
}

void hamlyn_system_watch(struct hamlyn_system *system, u32 host)
{
	lockdep_assert_held(system->lock);
	if (host < ARRAY_SIZE(system->peers))
		hamlyn_peer_watch(&system->peers[host]);
}

void hamlyn_system_set_hosts(struct hamlyn_system *system, u32 hosts)
{
	lockdep_assert_held(system->lock);
	system->hosts = hosts;
}

/* Returns whether there can be such a host. The switch may report how many there can be. */
bool hamlyn_system_has_host(const struct hamlyn_system *system, u32 host)
{
	return host < ARRAY_SIZE(system->peers) && (!system->hosts || host < system->hosts);
}

void hamlyn_system_lose(struct hamlyn_system *system, u32 host)
{
	lockdep_assert_held(system->lock);
	if (system->open && host < ARRAY_SIZE(system->peers))
		hamlyn_peer_lost(&system->peers[host], HAMLYN_END_HOST_LOST);
}

unsigned long hamlyn_system_patience(void)
{
	return hamlyn_peer_patience();
}

bool hamlyn_system_is_open(const struct hamlyn_system *system)
{
	return system->open;
}

struct hamlyn_card *hamlyn_system_card(const struct hamlyn_system *system)
{
	return system->card;
}

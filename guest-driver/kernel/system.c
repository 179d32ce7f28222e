// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/*
 * This operating system as others see it through one card: its start and end, and the handling of
 * what arrives.
 */
#include <linux/cleanup.h>
#include <linux/nospec.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "uln_peer.h"

/* Messages handled in a row, with the card's lock held. */
#define SYSTEM_BATCH 256

/* Takes what has arrived, and acknowledges it to the senders. */
static void system_look(struct work_struct *work)
{
	struct uln_system *system = container_of(work, struct uln_system, look);
	struct peer_transport *transport;
	unsigned int left = SYSTEM_BATCH, i;
	u32 host, entry;

	guard(mutex)(system->lock);
	if (!system->open)
		return;
	transport = system->transport;
	if (xchg(&system->lapsed, false))
		uln_system_lost(system, ULN_END_LAPSED);
	do {
		while (left && transport->ops->take(transport, &host, &entry)) {
			uln_peer_arrived(&system->peers[host], entry);
			left--;
		}
	} while (left && transport->ops->more(transport));
	for (i = 0; i < ARRAY_SIZE(system->peers); i++)
		uln_peer_answer(&system->peers[i]);
	/* Other threads need the lock, too. */
	if (!left)
		queue_work(system_highpri_wq, &system->look);
}

void uln_system_arrived(struct uln_system *system)
{
	queue_work(system_highpri_wq, &system->look);
}

void uln_system_lapsed(struct uln_system *system)
{
	WRITE_ONCE(system->lapsed, true);
	queue_work(system_highpri_wq, &system->look);
}

/* Never 0, which means unknown. */
static u32 system_make_origin(void)
{
	return get_random_u32() | 1;
}

void uln_system_reborn(struct uln_system *system)
{
	lockdep_assert_held(system->lock);
	system->origin = system_make_origin();
}

struct uln_system *uln_system_create(struct uln_card *card, struct mutex *lock, int number)
{
	struct uln_system *system = kzalloc(sizeof(*system), GFP_KERNEL);
	unsigned int i;

	if (!system)
		return NULL;
	system->card = card;
	system->lock = lock;
	system->number = number;
	system->origin = system_make_origin();
	INIT_WORK(&system->look, system_look);
	INIT_DELAYED_WORK(&system->tick, uln_peers_tick);
	INIT_LIST_HEAD(&system->services);
	for (i = 0; i < ARRAY_SIZE(system->peers); i++)
		uln_peer_init(system, i);
	return system;
}

void uln_system_cancel(struct uln_system *system)
{
	cancel_work_sync(&system->look);
	cancel_delayed_work_sync(&system->tick);
}

void uln_system_free(struct uln_system *system)
{
	struct peer_service *service, *next;

	if (!system)
		return;
	list_for_each_entry_safe(service, next, &system->services, on_system)
		if (service->ops->free)
			service->ops->free(service);
	kfree(system);
}

void uln_system_open(struct uln_system *system, struct peer_transport *transport)
{
	unsigned int i;

	lockdep_assert_held(system->lock);
	system->transport = transport;
	WRITE_ONCE(system->lapsed, false);
	for (i = 0; i < ARRAY_SIZE(system->peers); i++)
		uln_peer_open(&system->peers[i]);
	system->open = true;
	queue_work(system_highpri_wq, &system->look);
}

void uln_system_lost(struct uln_system *system, u32 reason)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(system->peers); i++)
		uln_peer_lost(&system->peers[i], reason);
}

void uln_system_stop(struct uln_system *system)
{
	struct peer_service *service;

	system->open = false;
	uln_system_lost(system, ULN_END_CARD_RESET);
	list_for_each_entry(service, &system->services, on_system)
		if (service->ops->stop)
			service->ops->stop(service);
}

int uln_system_say_for(struct uln_system *system, struct uln_share *share, u32 host,
		       const struct uln_head *wire, const void *data)
{
	struct uln_head own = *wire;

	lockdep_assert_held(system->lock);
	own.kind = ULN_WIRE_CARD;
	if (!system->open)
		return -EOPNOTSUPP;
	if (!uln_system_has_host(system, host))
		return -EHOSTUNREACH;
	if (wire->private_length > ULN_MAX_PRIVATE)
		return -EMSGSIZE;
	return uln_peer_say(&system->peers[array_index_nospec(host, ARRAY_SIZE(system->peers))],
			    share, &own, data);
}

int uln_system_say(struct uln_system *system, u32 host, const struct uln_head *wire,
		   const void *data)
{
	return uln_system_say_for(system, NULL, host, wire, data);
}

void uln_system_watch(struct uln_system *system, u32 host)
{
	lockdep_assert_held(system->lock);
	if (host < ARRAY_SIZE(system->peers))
		uln_peer_watch(&system->peers[host]);
}

void uln_system_set_hosts(struct uln_system *system, u32 hosts)
{
	lockdep_assert_held(system->lock);
	system->hosts = hosts;
}

/* The switch may report how many there can be. */
u32 uln_system_hosts(const struct uln_system *system)
{
	u32 most = ARRAY_SIZE(system->peers), hosts = READ_ONCE(system->hosts);

	return hosts && hosts < most ? hosts : most;
}

/* Returns whether there can be such a host. */
bool uln_system_has_host(const struct uln_system *system, u32 host)
{
	return host < uln_system_hosts(system);
}

void uln_system_lose(struct uln_system *system, u32 host)
{
	lockdep_assert_held(system->lock);
	if (system->open && host < ARRAY_SIZE(system->peers))
		uln_peer_lost(&system->peers[host], ULN_END_HOST_LOST);
}

unsigned long uln_system_patience(void)
{
	return uln_peer_patience();
}

bool uln_system_is_open(const struct uln_system *system)
{
	return system->open;
}

struct uln_card *uln_system_card(const struct uln_system *system)
{
	return system->card;
}
